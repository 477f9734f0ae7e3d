//! What an event becomes in the store: turns from the transcript, files, and pins where something may
//! be lost.

use std::fs::File;
use std::path::{Path, PathBuf};

use turntree::agents::hook::{Event, Moment, is_destructive};
use turntree::agents::session_name;
use turntree::context::{Builder, Context};
use turntree::exchange::{FollowOptions, Followed, follow};
use turntree::object::{ObjectId, Trigger};
use turntree::repo::{BranchName, NewPin, Repository, Snapshot, Stamp, Transaction, pin_ref};
use turntree::workspace::{recall, remember};
use turntree::{Error, ErrorKind, Result};

use super::files::Files;
use super::watch::Watch;

/// How often it is tried when other processes are faster.
const ATTEMPTS: usize = 8;

/// How long the state before a tool that may destroy it is kept, in microseconds: a week.
const KEPT_BEFORE_TOOLS: i64 = 7 * 24 * 60 * 60 * 1_000_000;

/// Characters of an id in the name of a pin.
const ID_DIGITS: usize = 12;

/// An event on its way into the store.
pub(super) struct Turn<'e> {
    pub(super) repo: &'e Repository,
    pub(super) event: &'e Event,
    pub(super) files: &'e Files<'e>,
    pub(super) stamp: Stamp,
    pub(super) watch: &'e Watch,
}

impl Turn<'_> {
    /// Does what is to be done, and returns where the branch of the session is then.
    pub(super) fn take(&self) -> Result<Option<ObjectId>> {
        let Some(session) = self.session() else { return Ok(None) };
        let (event, branch) = (self.event, BranchName::main(&session)?);
        self.watch.doing("follow the transcript");
        let is_of_agent = event.moment == Moment::AgentEnd;
        let followed = self.again(|| self.follow(&session))?;
        let branch = followed.as_ref().map_or(branch, |followed| followed.branch.clone());
        self.watch.doing("look at the workspace");
        // Files that no turn of the transcript has yet.
        if !is_of_agent && (followed.is_none() || event.moment == Moment::Start) {
            self.again(|| self.snapshot(&branch))?;
        }
        self.watch.doing("pin a snapshot");
        let command = event.tool.as_ref().and_then(|tool| tool.command.as_deref());
        match event.moment {
            Moment::BeforeCompaction => {
                self.again(|| self.pin(&branch, Trigger::BeforeCompaction))?;
            }
            Moment::BeforeTool if command.is_some_and(is_destructive) => {
                self.again(|| self.pin(&branch, Trigger::BeforeTool))?;
            }
            _ => {}
        }
        Ok(self.repo.tip(&branch))
    }

    /// Tries again when another process was faster.
    fn again<T>(&self, mut once: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 1..ATTEMPTS {
            match once() {
                Err(error) if error.kind() == ErrorKind::Conflict => self.repo.store().refresh()?,
                done => return done,
            }
        }
        once()
    }

    /// The session: what an import of its transcript makes of it.
    fn session(&self) -> Option<String> {
        let event = self.event;
        let named = event.session.as_deref().filter(|_| event.moment != Moment::AgentEnd);
        let path = event.transcript.clone().or_else(|| Some(PathBuf::from(named?)))?;
        Some(session_name(&path))
    }

    /// Takes in what is new in the transcript; nothing when there is none that can be read.
    fn follow(&self, session: &str) -> Result<Option<Followed>> {
        let Some(file) = self.event.transcript.as_deref().and_then(open) else { return Ok(None) };
        let (repo, event) = (self.repo, self.event);
        let notes = recall(repo.store(), session);
        let known = self.context(repo.tip(&BranchName::main(session)?))?;
        // Before anything is destroyed, the workspace is looked at for the pin.
        let takes_files =
            matches!(event.moment, Moment::AfterTool | Moment::BeforeCompaction | Moment::Stop);
        let options = FollowOptions {
            session: session.to_owned(),
            stamp: self.stamp.clone(),
            files: &mut |change, context, builder| match takes_files {
                true => self.files.put(repo, change, context, builder),
                false => Ok(std::collections::BTreeMap::new()),
            },
            before: self.files.before(repo.store(), &known)?,
        };
        let followed = match follow(repo, file, notes.as_deref(), options) {
            // Not a transcript of a format that is known.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(None),
            followed => followed?,
        };
        if let Some(followed) = &followed {
            let tree = repo.commit(&followed.head)?.tree;
            self.files.keep(repo, &tree);
            if let Some(new) =
                followed.notes.as_deref().filter(|new| Some(*new) != notes.as_deref())
            {
                // Without them the next event reads the whole file.
                let _ = remember(repo.store(), session, new);
            }
        }
        Ok(followed)
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
                Moment::Start => ("files when the session began", Trigger::Manual),
                _ => ("files", Trigger::Turn),
            };
            let mut draft = Snapshot::new(tree, message, &self.stamp);
            (draft.trigger, draft.metadata) = (trigger, metadata);
            change.snapshot(branch, draft)?;
            if self.repo.head()?.commit.is_none() {
                change.switch(branch);
            }
            change.finish(&self.stamp, "hook")?;
        }
        self.files.keep(self.repo, &tree);
        Ok(())
    }

    /// Pins what the branch and the workspace are now, beside the branch: what comes next may replace
    /// its last turn.
    fn pin(&self, branch: &BranchName, trigger: Trigger) -> Result<()> {
        let mut change = self.repo.begin();
        let Some(tip) = change.tip(branch) else { return Ok(()) };
        let context = self.context(Some(tip))?;
        let mut builder = Builder::from(context.clone());
        let metadata = self.files.put(self.repo, &mut change, &context, &mut builder)?;
        let tree = builder.write(&mut change)?;
        let is_tool = trigger == Trigger::BeforeTool;
        if is_tool && self.is_in_turn_before(&change, &tip, &tree)? {
            self.files.keep(self.repo, &tree);
            return Ok(());
        }
        let (name, reason) = match is_tool {
            true => (format!("before-tool-{}", tree.short(ID_DIGITS)), "before a tool"),
            false => (format!("before-compaction-{}", tip.short(ID_DIGITS)), "before compaction"),
        };
        if self.repo.refs().value(&pin_ref(&name)?).is_some() {
            return Ok(());
        }
        let mut draft = Snapshot::new(tree, reason, &self.stamp);
        (draft.trigger, draft.metadata) = (trigger, metadata);
        let commit = change.record(branch, draft)?;
        let expires = is_tool.then(|| self.stamp.time.micros.saturating_add(KEPT_BEFORE_TOOLS));
        let pin = NewPin { name: Some(name), reason: reason.to_owned(), expires_micros: expires };
        change.pin(&commit, pin, &self.stamp)?;
        change.finish(&self.stamp, "hook")?;
        self.files.keep(self.repo, &tree);
        Ok(())
    }

    /// Whether the turn before has the files of `tree`: that one stays as it is.
    fn is_in_turn_before(
        &self,
        change: &Transaction<'_>,
        tip: &ObjectId,
        tree: &ObjectId,
    ) -> Result<bool> {
        let Some(before) = self.repo.commit(tip)?.parents.first().copied() else {
            return Ok(false);
        };
        let before = match self.repo.context(&before) {
            Err(error) if error.kind() == ErrorKind::Expired => return Ok(false),
            before => before?,
        };
        let now = Context::open(change, tree)?;
        Ok(before.section(change, "files")? == now.section(change, "files")?)
    }

    fn context(&self, tip: Option<ObjectId>) -> Result<Context> {
        tip.map_or_else(|| Ok(Context::default()), |tip| self.repo.context(&tip))
    }
}

/// Opens a transcript that is a file; nothing for what is not there yet, or would wait.
fn open(path: &Path) -> Option<File> {
    let is_file = path.is_absolute() && std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file.then(|| File::open(path).ok()).flatten()
}

/// What an error is, without what it is about.
pub(super) fn kind_of(error: &Error) -> String {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    match cause {
        Some(cause) => {
            let cause: &std::io::Error = cause;
            format!("{:?}, {:?}", error.kind(), cause.kind())
        }
        None => format!("{:?}", error.kind()),
    }
}
