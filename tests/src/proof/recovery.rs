//! Measures how long a store takes to open after a crash, and how many syncs a commit needs.
//!
//! Opening is the whole recovery: a store is never closed, so a new handle finds the state that the
//! last process left. Its cost grows with the segments that are not sealed, and more handles leave
//! more of them. The times are reported only. The recovered content and the sync counts, which are
//! the same on every machine, are asserted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use turntree::context::Builder;
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{
    Committed, Durability, Expected, FindingKind, NewStore, OpenOptions, RealIo, Store,
};

use super::{Effort, Figures};
use crate::counting::{Calls, CountingIo};
use crate::oracle::{blob, options, set};
use crate::sim::Random;
use crate::stamp;

/// The MiB of journal left behind, and the number of handles.
const JOURNALS: [(u64, usize); 6] = [(1, 1), (8, 1), (64, 1), (1, 8), (8, 8), (60, 8)];

/// The most bytes of a commit's blob.
const BLOB_BYTES: usize = 8 << 10;

/// How often each store is opened at scale 1.
const OPENINGS: u64 = 20;

/// The snapshots that are counted at scale 1.
const SNAPSHOTS: u64 = 40;

/// More would fill a segment and count the sealing too.
const MAX_SNAPSHOTS: u64 = 2000;

/// The bytes of a segment before the first batch.
const HEADER_BYTES: usize = 80;

const REF: &str = "refs/heads/s/main";

/// Measures and counts.
///
/// # Panics
/// If a commit syncs more often than it should, or the acknowledged state is not found.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut figures = Figures::default();
    for (mebibytes, handles) in JOURNALS {
        let crashed = Crashed::new(mebibytes << 20, handles, effort.seed);
        let mut times: Vec<Duration> =
            (0..OPENINGS * effort.scale).map(|_| crashed.open()).collect();
        times.sort_unstable();
        let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let (median, longest) = (millis(times.get(times.len() / 2)), millis(times.last()));
        let what = format!("open, {mebibytes} MiB of journal, {handles} crashed: p50, max");
        figures.add(&what, format_args!("{median:.1}, {longest:.1} ms"));
    }
    let count = (SNAPSHOTS * effort.scale).min(MAX_SNAPSHOTS);
    for handles in [1, 2, 8] {
        let syncs = snapshots(handles, count);
        figures.add(&format!("syncs a snapshot, {handles} handles in turn"), syncs);
    }
    figures.add("syncs a snapshot, each by a new handle", one_shots(count));
    figures.add("files made, renamed or removed for it", 0);
    figures
}

/// A store whose handles were all interrupted in the middle of a commit.
struct Crashed {
    dir: PathBuf,
    /// The last acknowledged operation, and the value that it set the ref to.
    sequence: u64,
    value: ObjectId,
    torn: usize,
    _folder: TempDir,
}

impl Crashed {
    /// Commits through `handles` handles in turn until the journal has `bytes` bytes.
    fn new(bytes: u64, handles: usize, seed: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = folder.path().join("store");
        Store::create(&RealIo, &dir, &NewStore { id: [7; 16] }).expect("a new store");
        let stores: Vec<Store> = (1..=handles).map(|number| open(&dir, number as u64)).collect();
        let mut random = Random(seed);
        let (mut written, mut turns) = (0, stores.iter().cycle());
        let (mut sequence, mut value) = (0, None);
        while written < bytes {
            let (committed, id) = commit(turns.next().expect("a cycle"), &mut random);
            written += committed.written.stored_bytes;
            (sequence, value) = (committed.sequence, Some(id));
        }
        let whole = ends(&dir);
        for store in &stores {
            commit(store, &mut random);
        }
        drop(stores);
        let torn = tear(&ends(&dir), &whole);
        let value = value.expect("a commit");
        Self { dir, sequence, value, torn, _folder: folder }
    }

    /// Measures an open. Checks that acknowledged changes exist and torn ones are reported.
    fn open(&self) -> Duration {
        let started = Instant::now();
        let store = open(&self.dir, u64::MAX);
        let time = started.elapsed();
        assert_eq!(store.refs().sequence, self.sequence);
        assert_eq!(store.refs().value(REF), Some(&RefValue::Object(self.value)));
        let findings = store.findings();
        assert_eq!(findings.len(), self.torn, "{findings:?}");
        assert!(findings.iter().all(|finding| finding.kind == FindingKind::TornTail));
        time
    }
}

fn open(dir: &Path, number: u64) -> Store {
    // The content is torn afterwards, so it need not be durable.
    let options = OpenOptions { durability: Durability::None, ..options(number) };
    Store::open(Arc::new(RealIo), dir, options).expect("the store opens")
}

fn commit(store: &Store, random: &mut Random) -> (Committed, ObjectId) {
    let words = 1 + random.below(BLOB_BYTES / 8);
    let (id, object) = blob((0..words).flat_map(|_| random.draw().to_le_bytes()).collect());
    let draft = set(REF, Expected::Any, id);
    (store.commit(vec![(id, object)], &draft).expect("a commit"), id)
}

/// Where the preallocated zeros begin in each segment.
fn ends(dir: &Path) -> BTreeMap<PathBuf, usize> {
    let segments = fs::read_dir(dir.join("journal")).expect("a journal");
    let segments = segments.map(|entry| entry.expect("an entry").path());
    let end = |path: &PathBuf| {
        let bytes = fs::read(path).expect("a segment");
        bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
    };
    segments.map(|path| (path.clone(), end(&path))).collect()
}

/// Removes half of the last write to each segment.
fn tear(written: &BTreeMap<PathBuf, usize>, whole: &BTreeMap<PathBuf, usize>) -> usize {
    let mut torn = 0;
    for (path, end) in written {
        let start = whole.get(path).copied().unwrap_or(HEADER_BYTES);
        if *end > start {
            let half = (start + end) / 2;
            let file = fs::OpenOptions::new().write(true).open(path).expect("a segment");
            file.write_all_at(&vec![0; end - half], half as u64).expect("the segment is torn");
            torn += 1;
        }
    }
    torn
}

/// Checks the syncs of each of `count` snapshots through handles that take turns, each on its own
/// branch. The first commit of a handle, which does more, is not counted.
fn snapshots(handles: u64, count: u64) -> u64 {
    let (folder, io) = new_repository();
    let repos: Vec<Repository> =
        (0..handles).map(|number| reopen(&io, folder.path(), number)).collect();
    let branch = |number: usize| BranchName::new("s", &number.to_string()).expect("a name");
    let rounds = count.div_ceil(handles);
    let mut begun = io.calls();
    for round in 0..=rounds {
        for (number, repo) in repos.iter().enumerate() {
            snapshot(repo, &branch(number), round);
        }
        if round == 0 {
            begun = io.calls();
        }
    }
    let calls = io.calls() - begun;
    // The record, its sync, and its mark, which saves the other handles another sync.
    let count = rounds * handles;
    let expected = Calls { writes: 2 * count, syncs: count, ..Calls::default() };
    assert_eq!(calls, expected, "{handles} handles, {count} snapshots");
    1
}

/// Checks the syncs of each of `count` snapshots that each open the store.
fn one_shots(count: u64) -> u64 {
    let (folder, io) = new_repository();
    let branch = BranchName::main("s").expect("a name");
    snapshot(&reopen(&io, folder.path(), 0), &branch, 0);
    let begun = io.calls();
    for number in 1..=count {
        snapshot(&reopen(&io, folder.path(), number), &branch, number);
    }
    let calls = io.calls() - begun;
    // A handle that takes a segment over finds the mark after the synced bytes of its predecessor.
    let expected = Calls { writes: 2 * count, syncs: count, ..Calls::default() };
    assert_eq!(calls, expected, "{count} snapshots");
    1
}

fn new_repository() -> (TempDir, CountingIo) {
    let (folder, io) = (tempfile::tempdir().expect("a temporary folder"), CountingIo::default());
    let (dir, new) = (folder.path().join("store"), NewStore { id: [7; 16] });
    Repository::init(Arc::new(io.clone()), &dir, &new, options(1 << 32)).expect("a new store");
    (folder, io)
}

fn reopen(io: &CountingIo, folder: &Path, number: u64) -> Repository {
    let io = Arc::new(io.clone());
    Repository::open(io, &folder.join("store"), options(number)).expect("the store opens")
}

fn snapshot(repo: &Repository, branch: &BranchName, turn: u64) {
    let mut change = repo.begin();
    let mut builder = match change.tip(branch) {
        Some(tip) => Builder::from(repo.context(&tip).expect("the context of the tip")),
        None => Builder::new(),
    };
    let note = Some(format!("{} {turn}", branch.full()).into());
    builder.set_entry(&mut change, "scratchpad", "note", note).expect("a note");
    let (tree, stamp) = (builder.write(&mut change).expect("a tree"), stamp(1));
    change.snapshot(branch, SnapshotDraft::new(tree, "turn", &stamp)).expect("a snapshot");
    change.commit(&stamp, "snapshot").expect("a commit");
}
