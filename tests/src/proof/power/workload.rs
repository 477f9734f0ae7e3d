//! The work on a store while its disk is recorded, with the times of the acknowledgements.
//!
//! Several handles commit turns at the same time, with forks, tags and pins. Concurrently another
//! handle collects, and an unrelated thread makes the file system write at random moments. Then all
//! close, and a redaction rewrites everything.

use std::collections::BTreeMap;
use std::fs::OpenOptions as FileOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::context::{Builder, FileMode, MessageEntry, Role};
use turntree::maintenance::{Pattern, Policy, Purpose, Scope, collect, redact, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSink, RefValue, Tag};
use turntree::repo::{BranchName, NewPin, Repository, Signature, SnapshotDraft, pin_ref, tag_ref};
use turntree::store::{Expected, NewStore, OpenOptions, RealIo, Tier};

use super::STORE;
use super::device::{Event, Recorder};
use super::mount::FileSystem;
use crate::sim::Random;
use crate::stamp;

/// The number of sessions written concurrently.
const WRITERS: usize = 3;
/// How often all handles are opened, write, and close.
const PHASES: usize = 3;
/// The turns of each session in a phase.
const TURNS: usize = 12;

/// The most bytes of a message, and of a message large enough to fill and seal a segment.
const MESSAGE_BYTES: usize = 16 << 10;
const LARGE_BYTES: usize = 1536 << 10;
/// The writer and the phase in which messages are large.
const LARGE: (usize, usize) = (2, 1);

/// The session that keeps only its newest turns, and their number.
pub(super) const EXPIRING: &str = "writer0";
pub(super) const KEPT_TURNS: usize = 3;

const DAY: i64 = 24 * 60 * 60;
const SECRET: &str = "correct-horse";
const REPLACEMENT: &str = "[redacted]";

/// Everything attempted, in positions of the recording. In the end all of it was acknowledged.
#[derive(Debug, Default)]
pub(super) struct History {
    /// When the store existed.
    pub(super) created: usize,
    /// The values that each ref was set to, in order.
    pub(super) refs: BTreeMap<String, Vec<Attempt>>,
    /// The redacted secrets.
    pub(super) secrets: Vec<Secret>,
}

impl History {
    /// Draws the time of the cut: any time, or just after an acknowledgement.
    pub(super) fn moment(&self, events: &[Event], random: &mut Random) -> usize {
        let answers: Vec<usize> = match random.below(8) {
            0 | 1 => return random.below(events.len() + 1),
            2 => {
                let redacted = self.secrets.iter().map(|secret| secret.redacted);
                redacted.chain([self.created]).collect()
            }
            _ => self.refs.values().flatten().map(|attempt| attempt.acknowledged).collect(),
        };
        answers[random.below(answers.len())]
    }
}

/// A value of a ref that points to a commit.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The times of the attempt and of the acknowledgement.
    pub(super) begun: usize,
    pub(super) acknowledged: usize,
    /// The value.
    pub(super) value: ObjectId,
    /// The number of the operation.
    pub(super) sequence: u64,
    /// The whole context of the commit.
    pub(super) content: Arc<Content>,
}

/// A context by path.
pub(super) type Content = BTreeMap<String, Bytes>;

/// A commit that contains a secret until it is redacted.
#[derive(Debug)]
pub(super) struct Secret {
    /// The only branch with the commit.
    pub(super) branch: String,
    /// The note with the secret, and the pattern that finds it.
    pub(super) note: Bytes,
    pub(super) pattern: Pattern,
    /// The commit with the secret, and its replacement.
    pub(super) old: ObjectId,
    pub(super) new: ObjectId,
    /// When the commit was acknowledged, and when its redaction was attempted and acknowledged.
    pub(super) written: usize,
    pub(super) begun: usize,
    pub(super) redacted: usize,
    /// When other handles began to write again.
    pub(super) resumed: usize,
}

/// The shared state of the work.
struct Scene<'a> {
    dir: PathBuf,
    recorder: &'a Recorder,
    history: Mutex<History>,
    day: AtomicI64,
    handles: AtomicUsize,
    seed: u64,
    /// Locked for each call to the store, if only one at a time may call it.
    alone: Option<Mutex<()>>,
}

/// Works on a new store on `disk`.
pub(super) fn run(kind: &FileSystem, disk: &Path, recorder: &Recorder, seed: u64) -> History {
    let (dir, noise) = (disk.join(STORE), disk.join("noise"));
    let io = Arc::new(RealIo);
    let repo = Repository::init(io, &dir, &NewStore { id: [7; 16] }, OpenOptions::new([1; 16]));
    let created = recorder.position();
    let scene = Scene {
        dir,
        recorder,
        history: Mutex::new(History { created, ..History::default() }),
        day: AtomicI64::new(1),
        handles: AtomicUsize::new(0),
        seed,
        alone: (!kind.concurrent).then(Mutex::default),
    };
    scene.set_policy(&repo.expect("a new store"));
    for phase in 0..PHASES {
        scene.write_and_collect(phase, &noise);
        scene.redact(phase);
    }
    scene.history.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Scene<'_> {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        let alone = self.alone.as_ref()?;
        Some(alone.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn open(&self) -> Repository {
        let number = self.handles.fetch_add(1, Ordering::Relaxed) as u64;
        let mut seed = [2; 16];
        seed[..8].copy_from_slice(&(self.seed << 16 | number).to_le_bytes());
        let opened = Repository::open(Arc::new(RealIo), &self.dir, OpenOptions::new(seed));
        opened.expect("the store opens")
    }

    /// A day after the last call, so that operations become old.
    fn now(&self) -> Signature {
        stamp(self.day.fetch_add(1, Ordering::Relaxed) * DAY)
    }

    fn set_policy(&self, repo: &Repository) {
        let mut change = repo.begin();
        let policy = Policy { keep_last: Some(KEPT_TURNS as u64), ..Policy::default() };
        set_policy(&mut change, Scope::Session(EXPIRING), &policy).expect("a policy");
        change.commit(&self.now(), "policy").expect("a commit");
    }

    fn write_and_collect(&self, phase: usize, noise: &Path) {
        if let Some(secret) = self.history().secrets.last_mut() {
            secret.resumed = self.recorder.position();
        }
        let (turn_done, turns) = sync_channel(WRITERS * TURNS);
        let (shake, shakes) = sync_channel(WRITERS * TURNS);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (turn_done, shake) = (turn_done.clone(), shake.clone());
                scope.spawn(move || self.write(writer, phase, &turn_done, &shake));
            }
            drop((turn_done, shake));
            scope.spawn(move || self.collect(&turns));
            scope.spawn(move || make_noise(noise, &shakes));
        });
    }

    /// Commits the turns of one session in a phase, and after some of them a fork, a tag or a pin.
    fn write(&self, writer: usize, phase: usize, done: &SyncSender<()>, shake: &SyncSender<()>) {
        let repo = self.open();
        let mut random = Random(self.seed << 8 | (writer * PHASES + phase) as u64);
        let session = format!("writer{writer}");
        let branch = BranchName::main(&session).expect("a name");
        let largest = if (writer, phase) == LARGE { LARGE_BYTES } else { MESSAGE_BYTES };
        for turn in 0..TURNS {
            if random.below(3) == 0 {
                let _ = shake.send(());
            }
            let alone = self.alone();
            self.take_turn(&repo, &branch, largest, &mut random);
            let name = format!("{session}-{phase}-{turn}");
            match random.below(8) {
                0 => self.fork(&repo, &branch, &name),
                1 => self.tag(&repo, &branch, &name),
                2 => self.pin(&repo, &branch, &name),
                _ => {}
            }
            drop(alone);
            let _ = done.send(());
        }
    }

    fn take_turn(
        &self,
        repo: &Repository,
        branch: &BranchName,
        largest: usize,
        random: &mut Random,
    ) {
        let mut change = repo.begin();
        let (mut content, mut builder) = match change.tip(branch) {
            Some(tip) => {
                let context = repo.context(&tip).expect("the context of the tip");
                ((*self.last(&branch.full())).clone(), Builder::from(context))
            }
            None => (Content::new(), Builder::new()),
        };
        for _ in 0..3 {
            let (key, note) = (random.below(8).to_string(), noise_bytes(random, 100));
            builder.set_entry(&mut change, "scratchpad", &key, Some(note.clone())).expect("a note");
            content.insert(format!("scratchpad/{key}"), note);
        }
        let (path, lines) = (format!("{}.bin", random.below(4)), noise_bytes(random, 1000));
        let file = Some((FileMode::Regular, lines.clone()));
        builder.set_file(&mut change, &path, file).expect("a file");
        content.insert(format!("files/{path}"), lines);
        let length = 1 + random.below(largest);
        let record = noise_bytes(random, length);
        let blob = change.write(Kind::Blob, record.clone()).expect("a blob");
        let entry = MessageEntry::new(blob, Role::Tool, "bin");
        builder.push_message(&mut change, "main", &entry).expect("a message");
        let messages = content.keys().filter(|path| path.starts_with("messages/")).count();
        content.insert(format!("messages/{messages}"), record);

        let (tree, now) = (builder.write(&mut change).expect("a tree"), self.now());
        let snapshot = SnapshotDraft::new(tree, "turn", &now);
        let commit = change.snapshot(branch, snapshot).expect("a commit");
        let begun = self.recorder.position();
        let committed = change.commit(&now, "snapshot").expect("the commit is acknowledged");
        self.note(branch.full(), begun, commit, committed.sequence, Arc::new(content));
    }

    fn last(&self, name: &str) -> Arc<Content> {
        let history = self.history();
        let last = history.refs.get(name).and_then(|attempts| attempts.last());
        Arc::clone(&last.expect("the branch has a turn").content)
    }

    /// Records an acknowledgement.
    fn note(
        &self,
        name: String,
        begun: usize,
        value: ObjectId,
        sequence: u64,
        content: Arc<Content>,
    ) {
        let acknowledged = self.recorder.position();
        let attempt = Attempt { begun, acknowledged, value, sequence, content };
        self.history().refs.entry(name).or_default().push(attempt);
    }

    fn fork(&self, repo: &Repository, from: &BranchName, name: &str) {
        let mut change = repo.begin();
        let tip = change.tip(from).expect("a tip");
        // In a separate session, since turns in the session of `from` may expire.
        let fork = BranchName::main(name).expect("a name");
        change.move_branch(&fork, Some(tip));
        let begun = self.recorder.position();
        let committed = change.commit(&self.now(), "fork").expect("the fork is acknowledged");
        self.note(fork.full(), begun, tip, committed.sequence, self.last(&from.full()));
    }

    fn tag(&self, repo: &Repository, from: &BranchName, name: &str) {
        let (mut change, now) = (repo.begin(), self.now());
        let tag = Tag {
            target: change.tip(from).expect("a tip"),
            target_kind: Kind::Commit,
            name: name.to_owned(),
            tagger: now.actor.clone(),
            time_micros: now.time.micros,
            message: String::new(),
            expires_micros: None,
        };
        let id = change.write(Kind::Tag, tag.encode().into()).expect("a tag");
        let full = tag_ref(name).expect("a name");
        change.set_ref(&full, Expected::Absent, Some(RefValue::Object(id)));
        let begun = self.recorder.position();
        let committed = change.commit(&now, "tag").expect("the tag is acknowledged");
        self.note(full, begun, id, committed.sequence, self.last(&from.full()));
    }

    fn pin(&self, repo: &Repository, from: &BranchName, name: &str) {
        let (mut change, now) = (repo.begin(), self.now());
        let tip = change.tip(from).expect("a tip");
        let new = NewPin { name: Some(name.to_owned()), ..NewPin::default() };
        change.pin(&tip, new, &now).expect("a pin");
        let begun = self.recorder.position();
        let committed = change.commit(&now, "pin").expect("the pin is acknowledged");
        let full = pin_ref(name).expect("a name");
        let id = match repo.refs().value(&full) {
            Some(RefValue::Object(id)) => *id,
            other => panic!("{full} is {other:?}"),
        };
        self.note(full, begun, id, committed.sequence, self.last(&from.full()));
    }

    /// Makes garbage and collects while the writers work.
    fn collect(&self, turns: &Receiver<()>) {
        let repo = self.open();
        let branch = BranchName::main("garbage").expect("a name");
        let purposes = [
            Purpose::Step,
            Purpose::Gc,
            Purpose::Repack(Tier::Hot),
            Purpose::Gc,
            Purpose::Repack(Tier::Compacted),
        ];
        for purpose in purposes.into_iter().cycle() {
            for _ in 0..WRITERS {
                let Ok(()) = turns.recv() else { return };
            }
            let _alone = self.alone();
            repo.refresh().expect("the store exists");
            let mut change = repo.begin();
            let now = self.now();
            let mut builder = Builder::new();
            let note = Some(format!("{now:?}").repeat(100).into());
            builder.set_entry(&mut change, "scratchpad", "note", note).expect("a note");
            let tree = builder.write(&mut change).expect("a tree");
            change.move_branch(&branch, None);
            change.snapshot(&branch, SnapshotDraft::new(tree, "turn", &now)).expect("a commit");
            change.commit(&now, "snapshot").expect("a commit");
            collect(&repo, purpose, &self.now(), &mut |_| {}).expect("a collection");
        }
    }

    /// Commits a secret, closes everything, and redacts the secret.
    fn redact(&self, phase: usize) {
        let branch = BranchName::main(&format!("secret{phase}")).expect("a name");
        let text = format!("{SECRET}-{phase}");
        let repo = self.open();
        let (mut change, now) = (repo.begin(), self.now());
        let mut builder = Builder::new();
        let note = Bytes::from(format!("the key is {text}."));
        let entry = Some(note.clone());
        builder.set_entry(&mut change, "scratchpad", "key", entry).expect("a note");
        let tree = builder.write(&mut change).expect("a tree");
        let old =
            change.snapshot(&branch, SnapshotDraft::new(tree, "turn", &now)).expect("a commit");
        change.commit(&now, "snapshot").expect("a commit");
        drop(repo);
        let written = self.recorder.position();

        let pattern = Pattern::literal(&text, REPLACEMENT).expect("a pattern");
        let repo = self.open();
        let begun = self.recorder.position();
        // The collector may be running.
        while let Err(error) = redact(&repo, &pattern, &self.now()) {
            assert_eq!(error.kind(), ErrorKind::Locked, "the redaction is acknowledged: {error}");
            thread::yield_now();
        }
        let redacted = self.recorder.position();
        let new = repo.tip(&branch).expect("the branch exists");
        let (branch, resumed) = (branch.full(), usize::MAX);
        let secret = Secret { branch, note, pattern, old, new, written, begun, redacted, resumed };
        self.history().secrets.push(secret);
    }
}

/// Makes the file system commit its data, concurrently with the writers.
fn make_noise(file: &Path, shakes: &Receiver<()>) {
    let opened = FileOptions::new().create(true).append(true).open(file);
    let mut file = opened.expect("a file beside the store");
    for () in shakes {
        file.write_all(b"noise").and_then(|()| file.sync_all()).expect("there is room");
    }
}

/// At least `least` bytes that do not compress.
fn noise_bytes(random: &mut Random, least: usize) -> Bytes {
    let words = least.div_ceil(8);
    (0..words).flat_map(|_| random.draw().to_le_bytes()).collect()
}
