//! Runs of users' actions: turns, forks, tags, pins, policies, collections, repairs, a redaction.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use turntree::context::{Builder, MessageEntry, Role};
use turntree::maintenance::{
    Loss, Pattern, Policy, Purpose, Scope, auto, collect, redact, repair, set_policy,
};
use turntree::object::{Kind, ObjectSink, RefValue};
use turntree::repo::{BranchName, NewPin, Repository, SnapshotDraft, before_ref, pin_ref, tag_ref};
use turntree::store::{Expected, Io, NewStore, Store, Tier};

use super::turns::{REDACTED, SECRET, tips};
use super::{Attempt, DIR, KEY, Redaction, Target, Turn, Witness, options};
use crate::sim::{Random, SimDisk};
use crate::stamp;

const SESSIONS: [&str; 2] = ["one", "two"];
const BRANCHES: [&str; 3] = ["main", "left", "right"];

/// The purposes of collections.
pub const PURPOSES: [Purpose; 5] = [
    Purpose::Gc,
    Purpose::Step,
    Purpose::Repack(Tier::Hot),
    Purpose::Repack(Tier::Compacted),
    Purpose::Repack(Tier::Archive),
];

/// An action of a user. Branches are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Commits a turn on a branch.
    Turn(usize),
    /// Commits a turn without a refresh.
    BlindTurn(usize),
    /// Moves a branch to some turn, or creates it there.
    Move(usize),
    /// Deletes a branch.
    Delete(usize),
    /// Pins the newest turn of a branch, or unpins it.
    Pin(usize),
    /// Tags the newest turn of a branch.
    Tag(usize),
    /// Forgets the session of a branch, with its tags and pins.
    Forget(usize),
    /// Sets a policy for the session of a branch that keeps this number of turns.
    KeepLast(usize, u64),
    /// Stores objects without a ref, in a change that is never committed.
    Abandon,
    /// Collects.
    Collect(Purpose),
    /// Packs the idle journal, and frees nothing.
    Pack,
    /// Forgets every operation except the one that records it.
    ForgetOperations,
    /// Checks for damage, and repairs. There is no damage to repair.
    Repair,
    /// Redacts. No other handle may be open.
    Redact,
    /// Encrypts the store, or decrypts it. No other handle may be open.
    Encrypt,
    /// Packs everything into an archive without ids. The first step only allows such archives in
    /// the store. No other handle may be open.
    ArchiveWithoutIds,
    /// Ends the process.
    Close,
}

/// A run of steps by several processes.
#[derive(Debug, Clone, Default)]
pub struct Sessions {
    /// The seed of all that the steps leave open.
    pub seed: u64,
    /// The steps in order, each with its process.
    pub steps: Vec<(u32, Step)>,
}

impl Sessions {
    /// Draws `steps` steps of three processes.
    #[must_use]
    pub fn drawn(seed: u64, steps: usize) -> Self {
        let mut random = Random(seed ^ 0x5e55);
        let steps =
            (0..steps).map(|_| (u32::try_from(random.below(3)).unwrap(), draw(&mut random)));
        Self { seed, steps: steps.collect() }
    }

    /// Creates a store and runs.
    pub fn run(&self, disk: &SimDisk, witness: &Witness) {
        match Store::create(disk, Path::new(DIR), &NewStore { id: [5; 16] }) {
            Ok(()) => {
                witness.tell(|promise| promise.created = true);
                self.go_on(disk, witness);
            }
            Err(error) => witness.tell(|promise| promise.errors.push(error.to_string())),
        }
    }

    /// Runs on an existing store.
    pub fn go_on(&self, disk: &SimDisk, witness: &Witness) {
        let mut run = Run {
            disk,
            witness,
            random: Random(self.seed),
            repos: BTreeMap::new(),
            second: i64::try_from(witness.promise_len()).unwrap() * 20,
            stalled: Vec::new(),
        };
        for (process, step) in &self.steps {
            run.take(*process, *step);
        }
    }
}

/// Draws a step. Frequent actions of users are more likely.
fn draw(random: &mut Random) -> Step {
    let branch = random.below(SESSIONS.len() * BRANCHES.len());
    match random.below(40) {
        0..17 => Step::Turn(branch),
        17 => Step::Pack,
        18..20 => Step::BlindTurn(branch),
        20..22 => Step::Move(branch),
        22 => Step::Delete(branch),
        23..25 => Step::Pin(branch),
        25 => Step::Tag(branch),
        26 => Step::KeepLast(branch, 1 + random.draw() % 4),
        27 => Step::Abandon,
        28..33 => Step::Collect(PURPOSES[random.below(PURPOSES.len())]),
        33 => Step::Repair,
        34 if random.below(8) == 0 => Step::Redact,
        35 => Step::Forget(branch),
        36 if random.below(4) == 0 => Step::ForgetOperations,
        37 => Step::Collect(Purpose::StrictGc),
        38 if random.below(8) == 0 => Step::Encrypt,
        39 if random.below(3) == 0 => Step::ArchiveWithoutIds,
        _ => Step::Close,
    }
}

struct Run<'a> {
    disk: &'a SimDisk,
    witness: &'a Witness,
    random: Random,
    repos: BTreeMap<u32, Repository>,
    second: i64,
    /// The open handles of stopped processes: a process may be stalled and hold its locks.
    stalled: Vec<Repository>,
}

impl Run<'_> {
    fn take(&mut self, process: u32, step: Step) {
        self.second += 20;
        let disk = self.disk.process(process);
        let is_alone = matches!(step, Step::Redact | Step::Encrypt | Step::ArchiveWithoutIds);
        if step == Step::Close || is_alone {
            let leaves = |other: &u32| is_alone || *other == process;
            self.repos.retain(|other, _| !leaves(other));
        }
        if step == Step::Close || disk.is_stopped() {
            return;
        }
        let repo = match self.repos.remove(&process) {
            Some(repo) => repo,
            None => {
                let io: Arc<dyn Io> = Arc::new(disk.clone());
                // Every handle of a store has its own seed.
                let handle = self.witness.tell(|promise| {
                    promise.handles += 1;
                    promise.handles
                });
                let opened = Repository::open(io, Path::new(DIR), options(handle));
                let Some(repo) = self.witness.note(opened) else { return };
                repo
            }
        };
        let done = self.step(&repo, step);
        self.witness.note(done);
        let is_stale = matches!(step, Step::Encrypt | Step::ArchiveWithoutIds);
        if is_stale && !disk.is_stopped() {
            // The handle's view is from before the change.
        } else if !disk.is_stopped() {
            self.repos.insert(process, repo);
        } else if self.random.below(2) == 0 {
            self.stalled.push(repo);
        }
    }

    fn step(&mut self, repo: &Repository, step: Step) -> turntree::Result<()> {
        let looks = !matches!(step, Step::BlindTurn(_) | Step::Abandon);
        if looks {
            repo.refresh()?;
        }
        match step {
            Step::Turn(branch) | Step::BlindTurn(branch) => self.turn(repo, &name(branch)),
            Step::Move(branch) => self.move_branch(repo, &name(branch)),
            Step::Delete(branch) => {
                let branch = name(branch);
                let mut change = repo.begin();
                change.move_branch(&branch, None);
                self.finish(change, &branch.full(), None);
                Ok(())
            }
            Step::Pin(branch) => self.pin(repo, &name(branch)),
            Step::Tag(branch) => {
                let tag = tag_ref(&branch.to_string())?;
                let mut change = repo.begin();
                let Some(tip) = change.tip(&name(branch)) else { return Ok(()) };
                let message = repo.commit(&tip)?.message;
                change.set_ref(&tag, Expected::Any, Some(RefValue::Object(tip)));
                self.finish(change, &tag, Some(Target::Turn(message)));
                Ok(())
            }
            Step::Forget(branch) => self.forget(repo, name(branch).session()),
            Step::KeepLast(branch, turns) => {
                let name = name(branch);
                let scope = Scope::Session(name.session());
                let mut change = repo.begin();
                let policy = Policy { keep_last: Some(turns), ..Policy::default() };
                set_policy(&mut change, scope, &policy)?;
                self.finish(change, &scope.ref_name()?, Some(Target::KeepLast(turns)));
                Ok(())
            }
            Step::Abandon => {
                let mut change = repo.begin();
                let text = self.random.draw().to_string().repeat(1 + self.random.below(300));
                change.write(Kind::Blob, text.into())?;
                change.flush().map(drop)
            }
            Step::ForgetOperations => {
                let Some(newest) = repo.operations().next().transpose()? else { return Ok(()) };
                self.witness.tell(|promise| promise.forgot_operations = true);
                let mut change = repo.begin();
                change.forget_operations(newest.operation.sequence)?;
                let name = "refs/maintenance/operations";
                self.finish(change, name, Some(Target::Forgotten));
                Ok(())
            }
            Step::Collect(purpose) => {
                self.witness.tell_of(repo, |promise| promise.begin_collection(repo, purpose))?;
                collect(repo, purpose, &stamp(self.second), &mut |_| {}).map(drop)
            }
            Step::Pack => auto::pack(repo, 1).map(drop),
            Step::Repair => {
                let failed_before = self.disk.triggered();
                let repaired = repair(repo, Loss::Refuse, &stamp(self.second), &mut |_, _| {})?;
                // An object that was unreadable due to a fault may be reported as damaged.
                if failed_before == self.disk.triggered() {
                    assert!(repaired.report.is_ok(), "{:#?}", repaired.report.findings);
                    assert!(repaired.plan.is_empty(Loss::Refuse), "{:#?}", repaired.plan);
                }
                Ok(())
            }
            Step::Redact => {
                self.witness.tell(|p| p.redaction = p.redaction.max(Redaction::Tried));
                redact(repo, &Pattern::literal(SECRET, REDACTED)?, &stamp(self.second))?;
                self.witness.tell(|promise| promise.redaction = Redaction::Done);
                Ok(())
            }
            Step::Encrypt => {
                let target = if repo.store().keys().is_some() { None } else { Some(KEY) };
                let mut seed = [0; 16];
                seed[..8].copy_from_slice(&self.random.draw().to_le_bytes());
                repo.store().change_encryption(target, seed).map(drop)
            }
            Step::ArchiveWithoutIds => {
                if repo.store().allow_archives_without_ids()? {
                    return Ok(());
                }
                repo.store().leave_ids_out();
                let archive = Purpose::Repack(Tier::Archive);
                self.witness.tell_of(repo, |promise| promise.begin_collection(repo, archive))?;
                collect(repo, archive, &stamp(self.second), &mut |_| {}).map(drop)
            }
            Step::Close => Ok(()),
        }
    }

    /// Attempts to commit a change of one ref.
    fn finish(&self, change: turntree::repo::Transaction<'_>, name: &str, target: Option<Target>) {
        let attempt = Attempt::new([(name, target)]);
        self.witness.attempt(attempt, |reason| change.commit(&stamp(self.second), &reason));
    }

    fn turn(&mut self, repo: &Repository, branch: &BranchName) -> turntree::Result<()> {
        // Its message is unique, also among turns that start at the same moment.
        let (message, may_be_secret) = self.witness.tell(|promise| {
            let message = format!("turn {}", promise.turns.len());
            promise.turns.insert(message.clone(), Arc::default());
            (message, promise.redaction == Redaction::None)
        });
        let mut change = repo.begin();
        let tip = change.tip(branch);
        let (mut builder, before) = match &tip {
            Some(tip) => (Builder::from(repo.context(tip)?), Some(repo.commit(tip)?.message)),
            None => (Builder::new(), None),
        };
        let mut turn = match &before {
            Some(before) => Turn::clone(&self.witness.tell(|p| Arc::clone(&p.turns[before]))),
            None => Turn { session: branch.session().to_owned(), ..Turn::default() },
        };
        // Few distinct texts, so that elided content is written again.
        let key = self.random.below(6).to_string();
        let text = format!("text {} ", self.random.below(9)).repeat(1 + self.random.below(40));
        let value = Some(Bytes::from(text.clone()));
        builder.set_entry(&mut change, "scratchpad", &key, value)?;
        turn.notes.insert(key, text);
        let secret = may_be_secret && self.random.below(6) == 0;
        let said = format!("{message} {}", if secret { SECRET } else { "" });
        let blob = change.write(Kind::Blob, said.clone().into())?;
        let entry = MessageEntry::new(blob, Role::User, "json");
        builder.push_message(&mut change, "main", &entry)?;
        turn.messages.push(said);
        let tree = builder.write(&mut change)?;
        change.snapshot(branch, SnapshotDraft::new(tree, message.clone(), &stamp(self.second)))?;
        (turn.number, turn.parent) = (turn.number + 1, before);
        turn.session = branch.session().to_owned();
        self.witness.tell(|promise| promise.turns.insert(message.clone(), Arc::new(turn)));
        self.finish(change, &branch.full(), Some(Target::Turn(message)));
        Ok(())
    }

    /// Moves the branch to a turn of the same session that is reachable from a ref and cannot have
    /// expired.
    fn move_branch(&mut self, repo: &Repository, branch: &BranchName) -> turntree::Result<()> {
        let (tips, promise) = (tips(repo)?, self.witness.promise());
        let Some((_, start)) = tips.get(self.random.below(tips.len().max(1))) else {
            return Ok(());
        };
        let (mut at, mut commit) = (*start, repo.commit(start)?);
        for _ in 0..self.random.below(6) {
            let Some(parent) = commit.parents.first() else { break };
            (at, commit) = (*parent, repo.commit(parent)?);
        }
        if commit.session != branch.session() || promise.expired.contains(&commit.message) {
            return Ok(());
        }
        let mut change = repo.begin();
        change.move_branch(branch, Some(at));
        self.finish(change, &branch.full(), Some(Target::Turn(commit.message)));
        Ok(())
    }

    /// Forgets a session.
    fn forget(&self, repo: &Repository, session: &str) -> turntree::Result<()> {
        for (name, id) in tips(repo)? {
            if !name.starts_with("refs/heads/") && repo.commit(&id)?.session == session {
                let mut change = repo.begin();
                change.set_ref(&name, Expected::Any, None);
                self.finish(change, &name, None);
            }
        }
        repo.refresh()?;
        let mut change = repo.begin();
        let at = stamp(self.second);
        let branches = change.branches_of(session);
        change.forget_session(repo, session, &at, None)?;
        let mut gone = vec!["HEAD".to_owned(), Scope::Session(session).ref_name()?];
        gone.extend(branches.iter().flat_map(|(branch, _)| [branch.full(), before_ref(branch)]));
        let gone = gone.iter().map(|name| (name.as_str(), None));
        let note = format!("refs/forgotten/{session}");
        let attempt = Attempt::new(gone.chain([(note.as_str(), Some(Target::Forgotten))]));
        self.witness.attempt(attempt, |reason| change.commit(&at, &reason));
        Ok(())
    }

    fn pin(&self, repo: &Repository, branch: &BranchName) -> turntree::Result<()> {
        let name = branch.to_string().replace('/', "-");
        let full = pin_ref(&name)?;
        let mut change = repo.begin();
        if repo.refs().value(&full).is_some() {
            change.unpin(&name)?;
            self.finish(change, &full, None);
            return Ok(());
        }
        let Some(tip) = change.tip(branch) else { return Ok(()) };
        let message = repo.commit(&tip)?.message;
        let new = NewPin { name: Some(name), ..NewPin::default() };
        change.pin(&tip, new, &stamp(self.second))?;
        self.finish(change, &full, Some(Target::Turn(message)));
        Ok(())
    }
}

/// The name of a branch by its number.
fn name(number: usize) -> BranchName {
    let (session, branch) = (number / BRANCHES.len(), number % BRANCHES.len());
    BranchName::new(SESSIONS[session % SESSIONS.len()], BRANCHES[branch]).unwrap()
}
