//! Stores an event: follows its transcript, with the files of its turn.

use std::fs::File;
use std::path::Path;

use turntree::context::Context;
use turntree::object::{ObjectId, Time};
use turntree::repo::{BranchName, Repository, Signature};
use turntree::workspace::{open_regular, read_note, write_note};
use turntree::{Error, ErrorKind, Result};
use turntree_exchange::agents::hook::HookEvent;
use turntree_exchange::{
    FollowOptions, FollowReport, RollbackIntent, TurnFiles, UnreadRecords, follow,
};

use super::files::HookFiles;
use super::log;
use super::running::RunningCalls;
use super::watch::Watch;

/// The number of attempts when other processes commit first.
const ATTEMPTS: usize = 8;

/// An event being stored.
pub(super) struct HookTurn<'e> {
    pub(super) repo: &'e Repository,
    pub(super) event: &'e HookEvent,
    pub(super) files: &'e HookFiles<'e>,
    pub(super) stamp: Signature,
    /// The branch agreed for the agent.
    pub(super) onto: Option<BranchName>,
    pub(super) watch: &'e Watch,
    /// Set when the client has written its last records, with the time of the event.
    pub(super) settled: Option<Time>,
    /// The rollback that the prompt asks for, if it is answered.
    pub(super) back: Option<RollbackIntent>,
    /// The calls of the session that had begun before the event and not ended.
    pub(super) running: RunningCalls,
    /// Lessons are shown, and the user's answer after a rollback becomes a lesson.
    pub(super) lessons: bool,
}

impl HookTurn<'_> {
    /// Tries again when another process has committed first.
    pub(super) fn again<T>(&self, mut once: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 1..ATTEMPTS {
            match once() {
                Err(error) if error.kind() == ErrorKind::Conflict => self.repo.refresh()?,
                done => return done,
            }
        }
        once()
    }

    /// Imports the new records of a transcript; `None` if it cannot be read. `files` adds the files
    /// after `call`, or of an `interrupted` call. With `onto`, the turns go on that branch of the
    /// session.
    pub(super) fn follow(
        &self,
        path: &Path,
        session: &str,
        onto: Option<&BranchName>,
        (call, interrupted): (Option<&str>, Option<&str>),
        files: &mut TurnFiles<'_>,
    ) -> Result<Option<FollowReport>> {
        self.again(|| {
            if self.repo.is_forgotten(session) {
                return Ok(None);
            }
            let Some(file) = open(path) else { return Ok(None) };
            let repo = self.repo;
            // Several agents may work on branches of one session.
            let name = onto.map_or_else(|| session.to_owned(), ToString::to_string);
            let notes = read_note(repo, &name);
            let main = BranchName::main(session)?;
            let known = self.context(repo.tip(onto.unwrap_or(&main)))?;
            let options = FollowOptions {
                onto: onto.cloned(),
                files: Some(&mut *files),
                call: call.map(str::to_owned),
                settled: self.settled,
                root: self.files.root_of_new_sessions(),
                interrupted: interrupted.map(str::to_owned),
                before: self.files.before(repo, &known)?,
                ..FollowOptions::new(session, self.stamp.clone())
            };
            let followed = match follow(repo, file, notes.as_deref(), options) {
                // The file is not a transcript of a known format.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(None),
                followed => followed?,
            };
            if let Some(followed) = &followed {
                self.files.keep(repo, &followed.files);
                self.log_unread(&followed.unread);
                let new = followed.notes.as_deref();
                if let Some(new) = new.filter(|new| Some(*new) != notes.as_deref()) {
                    // Without the note the next event reads the whole file.
                    let _ = write_note(repo, &name, new);
                }
            }
            Ok(followed)
        })
    }

    /// Logs each kind of record that the reader does not know, once for as long as the log has the
    /// entry.
    fn log_unread(&self, unread: &UnreadRecords) {
        for (kind, _) in unread.kinds() {
            let what = format!("records of kind {kind} are not read; they are kept");
            let logged = log::entries(self.repo.dir()).unwrap_or_default();
            if logged.iter().all(|line| line.what != what) {
                self.watch.note(&what);
            }
        }
    }

    pub(super) fn context(&self, tip: Option<ObjectId>) -> Result<Context> {
        tip.map_or_else(|| Ok(Context::default()), |tip| self.repo.context(&tip))
    }
}

/// Opens a transcript if it is a regular file; `None` if it is missing, or would block.
fn open(path: &Path) -> Option<File> {
    path.is_absolute().then(|| open_regular(path).ok()).flatten()
}

/// Returns the kind of an error, without its location.
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
