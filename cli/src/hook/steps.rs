//! The steps of an event: turns from the transcript, files that no turn has, pins, sub-agents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use turntree::Result;
use turntree::context::sections::FILES;
use turntree::context::{Builder, Context, MAIN_AGENT, MessageEntry, Role};
use turntree::object::{ObjectId, Trigger};
use turntree::repo::{BranchName, SnapshotDraft, Transaction};
use turntree_exchange::agents::hook::{EventKind, ToolEvent};
use turntree_exchange::agents::session_name;
use turntree_exchange::{FollowReport, MessageView};

use super::running::RunningCalls;
use super::turn::HookTurn;
use super::{agents, lessons, pins, running, wait};
use crate::program::live::{HOOK, is_head_of_hook};

/// The message of the first snapshot of a session.
const BEGUN: &str = "files when the session began";

/// The result of an event.
pub(super) struct Taken {
    /// The session's branch.
    pub(super) branch: BranchName,
    /// The tip of the branch.
    pub(super) tip: Option<ObjectId>,
    /// The rolled-back branch, if the client continues its rolled-back turns as the session's
    /// branch.
    pub(super) beside: Option<BranchName>,
}

impl HookTurn<'_> {
    /// Runs all steps of the event.
    pub(super) fn take(&self) -> Result<Option<Taken>> {
        let Some(session) = self.session() else { return Ok(None) };
        let event = self.event;
        // A sub-agent has its own transcript and session.
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
        self.watch.doing("continue after a rollback");
        let (branch, beside) = match of_agent.is_none() && self.says_more() {
            true => self.again(|| self.go_on(&branch, followed.as_ref()))?,
            false => (branch, followed.as_ref().and_then(|it| it.rolled_back.clone())),
        };
        self.watch.doing("capture the workspace");
        // Stores files that no turn of the transcript has yet.
        if of_agent.is_none() && self.takes_snapshot(followed.is_some()) {
            let waiting = followed.as_ref().filter(|followed| followed.has_pending);
            let known = waiting.map(|followed| followed.files);
            self.take_snapshot(&branch, onto, known)?;
        }
        self.watch.doing("add lessons");
        if of_agent.is_none() && matches!(event.moment, EventKind::Start | EventKind::Prompt) {
            if self.lessons && self.says_more() {
                lessons::keep_answer(self)?;
            }
            lessons::bring(self, &branch)?;
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
        self.watch.doing("switch to the live session");
        // An agent with an agreed branch leaves HEAD to others.
        let moves_head = of_agent.is_none() && onto.is_none();
        if moves_head && matches!(event.moment, EventKind::Start | EventKind::Prompt) {
            self.again(|| self.switch(&branch))?;
        }
        let tip = self.repo.tip(&branch);
        Ok(Some(Taken { branch, tip, beside }))
    }

    /// Returns true if the session, or the main session of this sub-agent, was forgotten. Logs it
    /// at a session start.
    fn is_forgotten(&self, session: &str) -> bool {
        let main = self.event.main.as_deref().map(session_name);
        let names = [Some(session), main.as_deref()].into_iter().flatten();
        let gone = names.into_iter().any(|name| self.repo.is_forgotten(name));
        if gone && self.event.moment == EventKind::Start {
            self.watch.note("the session was forgotten: 'turntree adopt --again' imports it again");
        }
        gone
    }

    /// The name of the session, the same as an import of its transcript uses.
    fn session(&self) -> Option<String> {
        let event = self.event;
        let named = event.session.as_deref().filter(|_| event.moment != EventKind::AgentEnd);
        let path = event.transcript.clone().or_else(|| Some(PathBuf::from(named?)))?;
        Some(session_name(&path))
    }

    /// The call whose turn may get files.
    fn call(&self) -> Option<&str> {
        let tool = self.event.tool.as_ref().filter(|_| self.event.moment == EventKind::AfterTool);
        let tool = tool.filter(|tool| self.files.is_capture() || !tool.files.is_empty());
        tool.and_then(|tool| tool.call.as_deref())
    }

    /// Returns true if a sub-agent may have ended just before.
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

    /// Waits a moment for the record of the call, if its turn may get files. Waits only once for a
    /// client that writes no transcript.
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

    /// Imports the new records of this event's transcript, with the files of its turn.
    fn follow_event(
        &self,
        path: &Path,
        session: &str,
        onto: Option<&BranchName>,
    ) -> Result<Option<FollowReport>> {
        let repo = self.repo;
        // Before a destructive call the pin captures the workspace, not this turn.
        let interrupted = self.interrupted();
        let takes_files = self.settled.is_none()
            && matches!(
                self.event.moment,
                EventKind::AfterTool | EventKind::BeforeCompaction | EventKind::Stop
            );
        let takes_files = takes_files || interrupted.is_some();
        let calls = (self.call(), interrupted);
        self.follow(path, session, onto, calls, &mut |change, context, builder| match takes_files {
            true => self.files.put(repo, change, context, builder),
            false => Ok(BTreeMap::new()),
        })
    }

    /// The call that was interrupted before this event, and whose files were not captured.
    fn interrupted(&self) -> Option<&str> {
        let moments = [EventKind::Start, EventKind::Prompt, EventKind::End];
        let is_here = self.event.main.is_none() && moments.contains(&self.event.moment);
        let call = self.running.newest().filter(|_| is_here && self.files.is_capture());
        // If a call began after the prompt, a background process is too late: the agent is working.
        call.filter(|_| !self.running.has_begun_after(self.stamp.time))
    }

    /// Records that calls have ended, and that the files of interrupted calls are stored.
    pub(super) fn note_ends(&self) {
        let (store, event) = (self.repo, self.event);
        match event.moment {
            EventKind::AfterTool | EventKind::Stop => running::note(store, event, self.stamp.time),
            _ if self.interrupted().is_some() => running::forget(store, event),
            _ => {}
        }
    }

    /// Returns true if files become a separate snapshot, because no turn may have them.
    fn takes_snapshot(&self, has_transcript: bool) -> bool {
        match self.event.moment {
            EventKind::Start | EventKind::Prompt => true,
            EventKind::End => self.interrupted().is_some(),
            _ => !has_transcript,
        }
    }

    /// Takes a separate snapshot of the workspace, if its files differ from the branch. Changes
    /// that the user made before a prompt come before the prompt's turn, even if the client has
    /// already written the prompt.
    fn take_snapshot(
        &self,
        branch: &BranchName,
        onto: Option<&BranchName>,
        known: Option<ObjectId>,
    ) -> Result<()> {
        let is_below = self.again(|| self.snapshot(branch, known))?;
        let Some(path) = self.event.transcript.as_deref().filter(|_| is_below) else {
            return Ok(());
        };
        // Imports the prompt again, on top of the snapshot.
        let none = &mut |_: &mut Transaction<'_>, _: &Context, _: &mut Builder| Ok(BTreeMap::new());
        self.follow(path, branch.session(), onto, (None, None), none).map(drop)
    }

    /// Returns true if the newest turn is only the prompt of this event.
    fn is_prompt_itself(&self, tip: &ObjectId) -> Result<bool> {
        let Some(prompt) = self.event.prompt.as_deref() else { return Ok(false) };
        let commit = self.repo.commit(tip)?;
        let mut said = MessageView::new(Role::User);
        prompt.clone_into(&mut said.text);
        if commit.trigger != Trigger::Turn || commit.message != said.summary() {
            return Ok(false);
        }
        let store = self.repo.store();
        let messages = self.repo.context(tip)?.messages(store, MAIN_AGENT)?;
        let last = messages.len().checked_sub(1).map(|at| messages.get(store, at)).transpose()?;
        let last = last.flatten().map(|item| MessageEntry::from_item(&item)).transpose()?;
        Ok(last.is_some_and(|last| last.role == Role::User))
    }

    /// Takes the snapshot, unless the context `known`, which waits for its call, has the same
    /// files. Returns true if the snapshot is below the newest turn, which must be imported again.
    fn snapshot(&self, branch: &BranchName, known: Option<ObjectId>) -> Result<bool> {
        let (repo, moment) = (self.repo, self.event.moment);
        let mut change = repo.begin();
        let tip = change.tip(branch);
        let is_prompt = moment == EventKind::Prompt;
        let is_below = match tip {
            Some(tip) if is_prompt => self.is_prompt_itself(&tip)?,
            _ => false,
        };
        let base = match tip {
            Some(tip) if is_below => repo.commit(&tip)?.parents.first().copied(),
            tip => tip,
        };
        let context = self.context(base)?;
        let mut builder = Builder::from(context.clone());
        let metadata = self.files.put(repo, &mut change, &context, &mut builder)?;
        if is_prompt && !is_below && self.is_overtaken(tip)? {
            return Ok(false);
        }
        let tree = builder.write(&mut change)?;
        let is_known = match base {
            Some(base) => repo.commit(&base)?.tree == tree,
            // Before the first prompt even an empty workspace is a state to roll back to.
            None if is_prompt => metadata.is_empty(),
            None => Context::open(&change, &tree)?.count(&change, FILES)? == 0,
        };
        if is_known || has_files_of(&change, &tree, known)? {
            self.files.keep(repo, &tree);
            return Ok(false);
        }
        let (message, trigger) = match (moment, base) {
            (EventKind::Start, _) | (EventKind::Prompt, None) => (BEGUN, Trigger::Manual),
            (EventKind::Prompt, Some(_)) => ("files before the prompt", Trigger::Manual),
            _ => (FILES, Trigger::Turn),
        };
        let mut draft = SnapshotDraft::new(tree, message, &self.stamp);
        (draft.trigger, draft.metadata) = (trigger, metadata);
        if is_below {
            change.move_branch(branch, base);
        }
        change.snapshot(branch, draft)?;
        if repo.tip(&repo.shared_head()?).is_none() {
            change.set_head(branch);
        }
        change.commit(&self.stamp, HOOK)?;
        self.files.keep(repo, &tree);
        Ok(is_below)
    }

    /// Returns true if the agent worked while a background process captured the workspace: the
    /// capture may contain changes of the agent.
    fn is_overtaken(&self, tip: Option<ObjectId>) -> Result<bool> {
        if !self.files.has_time() {
            return Ok(false);
        }
        let calls = RunningCalls::read(self.repo, self.event);
        let newest = tip.map(|tip| self.repo.commit(&tip)).transpose()?;
        let has_turn = newest.is_some_and(|it| it.time.micros > self.stamp.time.micros);
        Ok(has_turn || calls.has_begun_after(self.stamp.time))
    }

    /// Points HEAD at the session of this event, but only if a hook has set HEAD before: a user's
    /// own choice stays.
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

/// Returns true if the files of `tree` are those of the context `known`, which has some.
fn has_files_of(
    change: &Transaction<'_>,
    tree: &ObjectId,
    known: Option<ObjectId>,
) -> Result<bool> {
    let Some(known) = known else { return Ok(false) };
    let known = Context::open(change, &known)?.section(change, FILES)?;
    let now = Context::open(change, tree)?.section(change, FILES)?;
    Ok(known.is_some() && now == known)
}
