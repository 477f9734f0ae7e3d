//! Actors: each process does its steps, and records the acknowledgements.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use turntree::context::Builder;
use turntree::maintenance::{Loss, Pattern, Purpose, auto, collect, redact, repair};
use turntree::object::{Kind, ObjectId, ObjectSource, RefValue};
use turntree::repo::{BranchName, Repository, SnapshotDraft, Transaction};
use turntree::store::{Committed, Expected, NewStore, OperationDraft, RefTable, RefUpdate, Tier};
use turntree::{Error, ErrorKind, Result};

use super::script::{CROWD, GARBAGE, SECRET, Step};
use crate::oracle::{DIR, blob, options};
use crate::proof::linear::history::{Call, Event};
use crate::schedule::Processes;
use crate::stamp;

/// The retries of a step after lost races before it counts as starved.
const MAX_TRIES: usize = 40;

/// The replacement that redactions write.
const REPLACEMENT: &str = "******";

/// The notes of a turn.
pub type Notes = BTreeMap<String, String>;

/// An attempted turn.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The notes.
    pub notes: Notes,
    /// The commit.
    pub commit: ObjectId,
}

/// The acknowledgements to all processes, in order.
#[derive(Debug, Default)]
pub struct Record {
    /// The finished calls.
    pub history: Vec<Event>,
    /// The attempted turns by message. Messages are unique.
    pub tried: BTreeMap<String, Turn>,
    /// The messages of acknowledged turns.
    pub turns: Vec<String>,
    /// The blobs of acknowledged commits.
    pub blobs: Vec<ObjectId>,
    /// The number of lost races that were retried.
    pub conflicts: u64,
    /// The number of steps that failed because another process held a lock.
    pub locked: u64,
}

/// The state of a process.
pub struct Actor<'a> {
    /// The number.
    pub process: usize,
    /// All processes.
    pub processes: &'a Processes,
    /// The shared record.
    pub record: &'a Mutex<Record>,
    /// An unreachable commit.
    pub garbage: Option<ObjectId>,
    /// True if locks may be held longer than the lock timeout.
    pub patience_ends: bool,
    /// True if a process redacts.
    pub redacts: bool,
    /// The store, if it is open.
    pub repo: Option<Repository>,
}

impl Actor<'_> {
    /// Does the steps until the process is killed.
    ///
    /// # Panics
    /// If a promise is broken.
    pub fn work(&mut self, steps: &[Step]) {
        for (number, step) in steps.iter().enumerate() {
            let done = self.step(number as u64, step);
            if self.processes.is_killed(self.process) {
                return;
            }
            if let Err(error) = done {
                self.judge(step, &error);
            }
            if self.repo.is_none() {
                // Opening the store failed.
                return;
            }
        }
    }

    /// Checks that only expected errors occur.
    fn judge(&self, step: &Step, error: &Error) {
        let maintains = matches!(
            step,
            Step::Collect(_) | Step::Pack | Step::Redact | Step::Repair | Step::ArchiveWithoutIds
        );
        match error.kind() {
            ErrorKind::Locked if maintains || self.patience_ends => self.record().locked += 1,
            // It gives up if other processes keep committing the content that it is about to
            // remove.
            ErrorKind::Conflict if matches!(step, Step::Redact) => self.record().conflicts += 1,
            _ => {
                let process = self.process;
                panic!(
                    "process {process}, {step:?}: {error}: {:?}",
                    std::error::Error::source(error)
                );
            }
        }
    }

    fn step(&mut self, number: u64, step: &Step) -> Result<()> {
        match *step {
            Step::Init => self.init(number),
            Step::Open => self.open(number),
            Step::Put(name, text) => self.put(name, text),
            Step::Count(name) => self.again(|actor| actor.count(name)),
            Step::Turn(branch, text) => self.again(|actor| actor.turn(number, branch, text)),
            Step::Revive(branch) => self.again(|actor| actor.revive(number, branch)),
            // Other processes have committed, and this handle sees it.
            Step::Long(branch, text) => {
                self.again(|actor| actor.long(number, branch, text, &|| actor.repo().refresh()))
            }
            Step::LongOver(branch, purpose) => self.again(|actor| {
                actor.long(number, branch, "over a collection", &|| match actor.collect(purpose) {
                    Err(error) if error.kind() == ErrorKind::Locked => Ok(()),
                    collected => collected,
                })
            }),
            Step::Crowd(branch) => self.crowd(number, branch),
            Step::Delete(branch) => self.again(|actor| actor.delete(branch)),
            Step::Read => self.read(),
            Step::Collect(purpose) => self.collect(purpose),
            Step::Pack => auto::pack(self.repo(), 1).map(drop),
            Step::Redact => self.redact(),
            Step::Repair => self.repair(),
            Step::ArchiveWithoutIds => {
                self.repo().store().leave_ids_out();
                self.collect(Purpose::Repack(Tier::Archive))
            }
        }
    }

    /// Retries until the race is won.
    fn again(&self, try_it: impl Fn(&Self) -> Result<()>) -> Result<()> {
        for _ in 0..MAX_TRIES {
            match try_it(self) {
                Err(error) if self.is_lost_race(&error) => self.record().conflicts += 1,
                done => return done,
            }
            self.repo().refresh()?;
        }
        panic!("process {} lost {MAX_TRIES} races", self.process);
    }

    fn is_lost_race(&self, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Conflict => true,
            // Its base was rewritten.
            ErrorKind::Redacted | ErrorKind::NotFound => self.redacts,
            _ => false,
        }
    }

    fn repo(&self) -> &Repository {
        self.repo.as_ref().expect("a script opens the store first")
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn init(&mut self, number: u64) -> Result<()> {
        let id = [10 + u8::try_from(self.process).expect("few processes"); 16];
        let (io, dir) = (self.processes.io(self.process), Path::new(DIR));
        let seed = options(((self.process as u64) << 8) + number);
        match Repository::init(io, dir, &NewStore { id }, seed) {
            Ok(repo) => self.repo = Some(repo),
            // Another process was faster.
            Err(error) if error.kind() == ErrorKind::InvalidInput => self.open(number)?,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn open(&mut self, number: u64) -> Result<()> {
        self.repo = None;
        let io = self.processes.io(self.process);
        let seed = options(((self.process as u64) << 8) + number);
        let began = self.processes.tick();
        let repo = Repository::open(io, Path::new(DIR), seed)?;
        self.note_read(began, &repo.refs());
        self.repo = Some(repo);
        Ok(())
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let (id, object) = blob(text.as_bytes().to_vec());
        let change = update(name, Expected::Any, Some(RefValue::Object(id)));
        self.commit(vec![change], |draft| self.repo().store().commit(vec![(id, object)], draft))?;
        self.record().blobs.push(id);
        Ok(())
    }

    fn count(&self, name: &str) -> Result<()> {
        let store = self.repo().store();
        let old = store.refs().value(name).cloned();
        let count: u64 = match &old {
            Some(RefValue::Object(id)) => {
                let bytes = store.read_as(Kind::Blob, id)?;
                std::str::from_utf8(&bytes).expect("digits").parse().expect("a number")
            }
            _ => 0,
        };
        let (id, object) = blob((count + 1).to_string().into_bytes());
        let expected = old.map_or(Expected::Absent, Expected::Value);
        let change = update(name, expected, Some(RefValue::Object(id)));
        self.commit(vec![change], |draft| store.commit(vec![(id, object)], draft))?;
        self.record().blobs.push(id);
        Ok(())
    }

    fn turn(&self, number: u64, branch: &str, text: &str) -> Result<()> {
        let change = self.repo().begin();
        let (context, notes) = self.tip(&change, branch)?;
        self.finish(change, context, notes, branch, number, text)
    }

    fn revive(&self, number: u64, branch: &str) -> Result<()> {
        let change = self.repo().begin();
        let garbage = self.garbage.expect("a script that revives has garbage");
        let context = match self.repo().context(&garbage) {
            Ok(context) => Builder::from(context),
            // An earlier race was lost: the content was collected concurrently, and cannot be
            // revived.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let notes = (0..3).map(|key| (key.to_string(), GARBAGE.to_owned())).collect();
        self.finish(change, context, notes, branch, number, "revived")
    }

    fn long(
        &self,
        number: u64,
        branch: &str,
        text: &str,
        between: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut change = self.repo().begin();
        let (mut context, mut notes) = self.tip(&change, branch)?;
        for part in ["first", "second"] {
            let key = format!("{} {number} {part}", self.process);
            let value = format!("{text} {part}");
            context.set_entry(&mut change, "scratchpad", &key, Some(value.clone().into()))?;
            notes.insert(key, value);
            context.write(&mut change)?;
            change.flush()?;
            between()?;
        }
        self.finish(change, context, notes, branch, number, text)
    }

    /// Other processes start, all before the first ends, so that each has its own segment.
    fn crowd(&self, number: u64, branch: &'static str) -> Result<()> {
        let come = |n: u64| {
            let process = usize::try_from((number + 1) << 8 | n).expect("few processes");
            let io = self.processes.io(process);
            let options = options((process as u64) << 24);
            let repo = match Repository::open(io, Path::new(DIR), options) {
                Ok(repo) => repo,
                // A process is stopped in the middle of a change.
                Err(error) if error.kind() == ErrorKind::Locked => return Ok(None),
                Err(error) => return Err(error),
            };
            Ok(Some(Actor { process, patience_ends: true, repo: Some(repo), ..*self }))
        };
        let mut crowd = Vec::new();
        for n in 0..CROWD {
            crowd.extend(come(n)?);
        }
        for passer in &mut crowd {
            passer.work(&[Step::Turn(branch, "one of many")]);
        }
        Ok(())
    }

    fn delete(&self, branch: &str) -> Result<()> {
        let mut change = self.repo().begin();
        let branch = branch_name(branch);
        let Some(tip) = change.tip(&branch) else { return Ok(()) };
        change.move_branch(&branch, None);
        let expected = Expected::Value(RefValue::Object(tip));
        self.commit(vec![update(&branch.full(), expected, None)], |_| {
            change.commit(&stamp(2), "delete")
        })
    }

    /// The context of a branch when a change begins.
    fn tip(&self, change: &Transaction<'_>, branch: &str) -> Result<(Builder, Notes)> {
        match change.tip(&branch_name(branch)) {
            None => Ok((Builder::new(), Notes::new())),
            Some(tip) => Ok((Builder::from(self.repo().context(&tip)?), notes(self.repo(), &tip)?)),
        }
    }

    /// Ends a turn with another note.
    fn finish(
        &self,
        mut change: Transaction<'_>,
        mut context: Builder,
        mut notes: Notes,
        branch: &str,
        number: u64,
        text: &str,
    ) -> Result<()> {
        let message = format!("step {number} of process {}", self.process);
        context.set_entry(&mut change, "scratchpad", &message, Some(text.to_owned().into()))?;
        notes.insert(message.clone(), text.to_owned());
        let tree = context.write(&mut change)?;
        let name = branch_name(branch);
        let expected = match change.tip(&name) {
            Some(tip) => Expected::Value(RefValue::Object(tip)),
            None => Expected::Absent,
        };
        let commit = change.snapshot(&name, SnapshotDraft::new(tree, &*message, &stamp(2)))?;
        self.record().tried.insert(message.clone(), Turn { notes, commit });
        let new = Some(RefValue::Object(commit));
        self.commit(vec![update(&name.full(), expected, new)], |_| {
            change.commit(&stamp(2), "snapshot")
        })?;
        self.record().turns.push(message);
        Ok(())
    }

    /// Commits, and records the time and the outcome.
    fn commit(
        &self,
        changes: Vec<RefUpdate>,
        commit: impl FnOnce(&OperationDraft) -> Result<Committed>,
    ) -> Result<()> {
        let draft = OperationDraft {
            time_micros: 1,
            actor: "test".into(),
            reason: "test".into(),
            changes: changes.clone(),
            undoes: None,
            joins: Vec::new(),
        };
        let began = self.processes.tick();
        let done = commit(&draft);
        let ended = self.processes.tick();
        let call = match &done {
            Ok(committed) => Call::Committed(changes, *committed),
            Err(error) if error.kind() == ErrorKind::Conflict => Call::Refused(changes),
            Err(_) => return done.map(drop),
        };
        self.record().history.push(Event { began, ended, call });
        done.map(drop)
    }

    fn note_read(&self, began: u64, refs: &RefTable) {
        let ended = self.processes.tick();
        let call = Call::Read(refs.sequence, (&refs.values).into());
        self.record().history.push(Event { began, ended, call });
    }

    /// Checks that everything reachable from a ref can be read and is unchanged.
    fn read(&self) -> Result<()> {
        let repo = self.repo();
        let began = self.processes.tick();
        repo.refresh()?;
        let refs = repo.refs();
        self.note_read(began, &refs);
        for value in refs.values.values() {
            let RefValue::Object(id) = value else { continue };
            let object = repo.read(id)?;
            let object = object.ok_or_else(|| Error::not_found(format!("{id} is lost")))?;
            if object.kind == Kind::Commit {
                self.read_line(*id)?;
            }
        }
        Ok(())
    }

    fn read_line(&self, tip: ObjectId) -> Result<()> {
        let mut next = Some(tip);
        while let Some(id) = next {
            let commit = self.repo().commit(&id)?;
            let found = notes(self.repo(), &id)?;
            if let Some(turn) = self.record().tried.get(&commit.message) {
                assert!(same(&found, &turn.notes), "{found:?} instead of {turn:?}");
            }
            next = commit.parents.first().copied();
        }
        Ok(())
    }

    fn collect(&self, purpose: Purpose) -> Result<()> {
        let collected = collect(self.repo(), purpose, &stamp(3), &mut |_| {})?;
        assert_eq!(collected.expired_turns, 0, "there is no policy");
        Ok(())
    }

    fn redact(&self) -> Result<()> {
        let pattern = Pattern::literal(SECRET, REPLACEMENT).expect("a pattern");
        redact(self.repo(), &pattern, &stamp(3)).map(drop)
    }

    fn repair(&self) -> Result<()> {
        let repaired = repair(self.repo(), Loss::Refuse, &stamp(3), &mut |_, _| {})?;
        let report = repaired.report;
        assert!(self.processes.is_killed(self.process) || report.is_ok(), "{report:?}");
        Ok(())
    }
}

/// True if notes are equal except for redacted text.
#[must_use]
pub fn same(found: &Notes, written: &Notes) -> bool {
    let hide = |notes: &Notes| -> Vec<(String, String)> {
        let hidden =
            notes.iter().map(|(key, text)| (key.clone(), text.replace(SECRET, REPLACEMENT)));
        hidden.collect()
    };
    hide(found) == hide(written)
}

/// The notes at a commit.
///
/// # Errors
/// Errors of reading them.
pub fn notes(repo: &Repository, commit: &ObjectId) -> Result<Notes> {
    let map = repo.context(commit)?.map(repo, "scratchpad")?;
    let entries = map.iter(repo).map(|entry| {
        let (key, item) = entry?;
        let text = repo.read_as(Kind::Blob, &item.link.id)?;
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((words(&key), words(&text)))
    });
    entries.collect()
}

/// A branch of the only session.
#[must_use]
pub fn branch_name(branch: &str) -> BranchName {
    BranchName::new("s", branch).expect("a name")
}

fn update(name: &str, expected: Expected, new: Option<RefValue>) -> RefUpdate {
    RefUpdate { name: name.to_owned(), expected, new }
}
