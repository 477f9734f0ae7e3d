//! The steps of an event: turns from the transcript, files that no turn has, pins, sub-agents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use turntree::Result;
use turntree::context::{Builder, Context};
use turntree::object::{ObjectId, Trigger};
use turntree::repo::{BranchName, SnapshotDraft};
use turntree_exchange::Followed;
use turntree_exchange::agents::hook::{EventKind, ToolEvent};
use turntree_exchange::agents::session_name;

use super::turn::HookTurn;
use super::{agents, pins, wait};
use crate::program::live::{HOOK, is_head_of_hook};

/// The outcome of an event.
pub(super) struct Taken {
    /// The session's branch.
    pub(super) branch: BranchName,
    /// The tip of that.
    pub(super) tip: Option<ObjectId>,
    /// The branch that went back, when the session's branch begins now: the client goes on with what
    /// was taken back.
    pub(super) beside: Option<BranchName>,
}

impl HookTurn<'_> {
    /// Does what is to be done.
    pub(super) fn take(&self) -> Result<Option<Taken>> {
        let Some(session) = self.session() else { return Ok(None) };
        let event = self.event;
        // Sub-agents have transcripts of their own, which are sessions of their own.
        let is_own = event.main.is_none() && event.moment != EventKind::AgentEnd;
        let onto = self.onto.as_ref().filter(|_| is_own);
        let session = onto.map_or(session, |branch| branch.session().to_owned());
        if self.is_forgotten(&session) {
            return Ok(None);
        }
        let main = onto.cloned().map_or_else(|| BranchName::main(&session), Ok)?;
        self.wait_for_call(&main);
        self.watch.doing("follow the transcript");
        let followed = match &event.transcript {
            Some(path) => self.follow_event(path, &session, onto)?,
            None => None,
        };
        let branch = followed.as_ref().map_or(main, |followed| followed.branch.clone());
        let of_agent = event.main.as_deref();
        self.watch.doing("go on after a rollback");
        let (branch, beside) = match of_agent.is_none() && self.says_more() {
            true => self.again(|| self.go_on(&branch, followed.as_ref()))?,
            false => (branch, followed.as_ref().and_then(|it| it.beside.clone())),
        };
        self.watch.doing("look at the workspace");
        // Files that no turn of the transcript has yet.
        if of_agent.is_none() && (followed.is_none() || event.moment == EventKind::Start) {
            self.again(|| self.snapshot(&branch))?;
        }
        self.watch.doing("pin a snapshot");
        match of_agent {
            Some(main) => pins::pin(self, &BranchName::main(&session_name(main))?)?,
            None => pins::pin(self, &branch)?,
        }
        if let Some(path) = event.transcript.as_deref().filter(|_| self.may_end_agents()) {
            self.watch.doing("follow the sub-agents");
            agents::catch_up(self, path)?;
        }
        self.watch.doing("go to the live session");
        // An agent that was told its branch leaves HEAD to the others.
        let moves_head = of_agent.is_none() && onto.is_none();
        if moves_head && matches!(event.moment, EventKind::Start | EventKind::Prompt) {
            self.again(|| self.switch(&branch))?;
        }
        let tip = self.repo.tip(&branch);
        Ok(Some(Taken { branch, tip, beside }))
    }

    /// Returns whether the session was forgotten, or the one whose sub-agent it is. Says so once.
    fn is_forgotten(&self, session: &str) -> bool {
        let main = self.event.main.as_deref().map(session_name);
        let names = [Some(session), main.as_deref()].into_iter().flatten();
        let gone = names.into_iter().any(|name| self.repo.is_forgotten(name));
        if gone && self.event.moment == EventKind::Start {
            self.watch
                .note("the session was forgotten: 'turntree adopt --again' takes it in again");
        }
        gone
    }

    /// The session: what an import of its transcript makes of it.
    fn session(&self) -> Option<String> {
        let event = self.event;
        let named = event.session.as_deref().filter(|_| event.moment != EventKind::AgentEnd);
        let path = event.transcript.clone().or_else(|| Some(PathBuf::from(named?)))?;
        Some(session_name(&path))
    }

    /// The call after which files may go along.
    fn call(&self) -> Option<&str> {
        let tool = self.event.tool.as_ref().filter(|_| self.event.moment == EventKind::AfterTool);
        let tool = tool.filter(|tool| self.files.is_capture() || !tool.files.is_empty());
        tool.and_then(|tool| tool.call.as_deref())
    }

    /// Returns whether a sub-agent may have ended just before.
    fn may_end_agents(&self) -> bool {
        match self.event.moment {
            EventKind::Stop | EventKind::End => true,
            EventKind::AfterTool => {
                let is_agent = self.event.tool.as_ref().is_some_and(ToolEvent::runs_agent);
                is_agent && self.event.main.is_none()
            }
            _ => false,
        }
    }

    /// Waits a moment for the record of the call, where files may go with it. A client without any
    /// transcript is not waited for more than once.
    fn wait_for_call(&self, main: &BranchName) {
        let (Some(call), Some(path)) = (self.call(), &self.event.transcript) else { return };
        let has_turn = || {
            let tip = self.repo.tip(main).and_then(|tip| self.repo.commit(&tip).ok());
            tip.is_some_and(|tip| tip.trigger == Trigger::Turn)
        };
        if path.is_file() || !has_turn() {
            self.watch.doing("wait for the transcript");
            wait::for_call(path, call);
        }
    }

    /// Takes in what is new in the transcript of this event, with the files that go with it.
    fn follow_event(
        &self,
        path: &Path,
        session: &str,
        onto: Option<&BranchName>,
    ) -> Result<Option<Followed>> {
        let repo = self.repo;
        // Before anything is destroyed, the workspace is looked at for the pin.
        let takes_files = self.settled.is_none()
            && matches!(
                self.event.moment,
                EventKind::AfterTool | EventKind::BeforeCompaction | EventKind::Stop
            );
        let call = self.call();
        self.follow(path, session, onto, call, &mut |change, context, builder| match takes_files {
            true => self.files.put(repo, change, context, builder),
            false => Ok(BTreeMap::new()),
        })
    }

    /// A snapshot of the workspace by itself, if it is another one than the branch has.
    fn snapshot(&self, branch: &BranchName) -> Result<()> {
        let mut change = self.repo.begin();
        let tip = change.tip(branch);
        let context = self.context(tip)?;
        let mut builder = Builder::from(context.clone());
        let metadata = self.files.put(self.repo, &mut change, &context, &mut builder)?;
        let tree = builder.write(&mut change)?;
        let is_known = match tip {
            Some(tip) => self.repo.commit(&tip)?.tree == tree,
            None => Context::open(&change, &tree)?.count(&change, "files")? == 0,
        };
        if !is_known {
            let (message, trigger) = match self.event.moment {
                EventKind::Start => ("files when the session began", Trigger::Manual),
                _ => ("files", Trigger::Turn),
            };
            let mut draft = SnapshotDraft::new(tree, message, &self.stamp);
            (draft.trigger, draft.metadata) = (trigger, metadata);
            change.snapshot(branch, draft)?;
            if self.repo.tip(&self.repo.shared_head()?).is_none() {
                change.set_head(branch);
            }
            change.commit(&self.stamp, HOOK)?;
        }
        self.files.keep(self.repo, &tree);
        Ok(())
    }

    /// Points HEAD at the session of this event, if a hook had put it at another one: a person who went
    /// somewhere stays there.
    fn switch(&self, branch: &BranchName) -> Result<()> {
        let repo = self.repo;
        let is_there = repo.shared_head()?.session() == branch.session();
        if is_there || repo.tip(branch).is_none() || !is_head_of_hook(repo)? {
            return Ok(());
        }
        let mut change = repo.begin();
        change.set_head(branch);
        change.commit(&self.stamp, HOOK).map(drop)
    }
}
