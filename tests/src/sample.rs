//! Small stores with objects of every kind, on a simulated disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use turntree::context::{Builder, FileMode, MAIN_AGENT, MessageEntry, Role, Selection};
use turntree::maintenance::{Pattern, Policy, Purpose, Scope, collect, redact, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::repo::{
    BranchName, Count, LogEntry, NewPin, PickaxeQuery, ReadMessage, Repository, Signature,
    SnapshotDraft,
};
use turntree::store::{Io, NewStore, OpenOptions, RefTable, Store, Thoroughness, Tier};

use crate::oracle::{DIR, pack, pack_as};
use crate::sim::{Keep, Random, SimDisk};
use crate::{commit_turn, stamp};

/// The size of a blob that a pack stores in parts.
const PARTS_BYTES: usize = 4 << 20;

/// A store and its content.
pub struct Sample {
    /// The disk. No handle is open.
    pub disk: SimDisk,
    /// Every object of the store.
    pub objects: BTreeMap<ObjectId, Bytes>,
    /// The kinds of the objects.
    pub kinds: BTreeMap<ObjectId, Kind>,
    /// The refs.
    pub refs: RefTable,
}

impl Sample {
    /// Two packs, sealed and active segments, expired turns, a pin and a fork.
    ///
    /// # Panics
    /// If the library fails.
    #[must_use]
    pub fn new() -> Self {
        let (disk, repo) = init(6);
        for second in 1..=6 {
            turn(&repo, "one", second);
        }
        let mut change = repo.begin();
        let second = repo.resolve("one~4").unwrap().commit;
        change.pin(&second, NewPin::default(), &stamp(7)).unwrap();
        change.move_branch(&BranchName::new("one", "fork").unwrap(), Some(second));
        let policy = Policy { keep_last: Some(2), ..Policy::default() };
        set_policy(&mut change, Scope::Session("one"), &policy).unwrap();
        change.commit(&stamp(7), "pin, fork and policy").unwrap();
        // More operations than are kept for undo, so that turns can expire.
        for second in 8..=30 {
            turn(&repo, "two", second);
        }
        drop(repo);
        let gc = |purpose| collect(&open(&disk, 2), purpose, &stamp(60), &mut |_| {}).unwrap();
        gc(Purpose::Gc);
        gc(Purpose::Repack(Tier::Compacted));
        turn(&open(&disk, 31), "two", 31);
        pack(open(&disk, 2).store(), |file| file.tier.is_none()).unwrap();
        let writers: Vec<Repository> = (32..=42).map(|seed| open(&disk, seed)).collect();
        for (writer, second) in writers.iter().zip(32..) {
            turn(writer, "two", second);
        }
        drop(writers);
        for second in 43..=46 {
            turn(&open(&disk, second), "one", second.into());
        }
        Self::of(&disk)
    }

    /// A store with every kind of file and as few objects as possible: a pack of each tier, the
    /// oldest of which has tombstones of redacted ids; sealed segments and active ones. `id` is
    /// that of the store.
    #[must_use]
    pub fn small(id: u8) -> Self {
        let (disk, repo) = init(id);
        for second in 1..=2 {
            turn(&repo, "one", second);
        }
        let mut change = repo.begin();
        change.pin(&repo.resolve("one").unwrap().commit, NewPin::default(), &stamp(2)).unwrap();
        change.commit(&stamp(2), "pin").unwrap();
        let secret = Pattern::literal("one 3 1", "[redacted]").unwrap();
        redact(&repo, &secret, &stamp(3)).unwrap();
        drop(repo);
        collect(&open(&disk, 2), Purpose::Repack(Tier::Archive), &stamp(4), &mut |_| {}).unwrap();
        for (second, tier) in [(5, Tier::Compacted), (6, Tier::Hot)] {
            turn(&open(&disk, second), "one", second.into());
            pack_as(open(&disk, 2).store(), tier, |file| file.tier.is_none()).unwrap();
        }
        // More concurrent writers than segments that stay idle, so that the next writer seals some.
        let writers: Vec<Repository> = (7..=17).map(|seed| open(&disk, seed)).collect();
        for (writer, second) in writers.iter().zip(7..) {
            writer.refresh().unwrap();
            let mut change = writer.begin();
            let tip = change.tip(&BranchName::main("one").unwrap());
            change.move_branch(&BranchName::new("one", &format!("at-{second}")).unwrap(), tip);
            change.commit(&stamp(second), "fork").unwrap();
        }
        drop(writers);
        for second in 18..=19 {
            turn(&open(&disk, second), "two", second.into());
        }
        Self::of(&disk)
    }

    /// One archive, with a blob in parts.
    ///
    /// # Panics
    /// If the library fails.
    #[must_use]
    pub fn with_parts() -> Self {
        let (disk, repo) = init(6);
        let branch = BranchName::main("one").unwrap();
        let (mut change, mut builder) = (repo.begin(), Builder::new());
        let mut large = vec![b'.'; PARTS_BYTES];
        large[PARTS_BYTES / 2] = b'!';
        builder.set_file(&mut change, "large", Some((FileMode::Regular, large.into()))).unwrap();
        let tree = builder.write(&mut change).unwrap();
        change.snapshot(&branch, SnapshotDraft::new(tree, "large", &stamp(1))).unwrap();
        change.commit(&stamp(1), "snapshot").unwrap();
        drop(repo);
        Self::archived(&disk)
    }

    /// One pack with the turns of a session, and its history index. `id` is that of the store.
    #[must_use]
    pub fn with_history(id: u8) -> Self {
        let (disk, repo) = init(id);
        let branch = BranchName::main("one").unwrap();
        for second in 1..=33 {
            commit_turn(&repo, &branch, "turn", &stamp(second), |context, change| {
                let (key, note) = ((second % 3).to_string(), format!("note {second}"));
                context.set_entry(change, "scratchpad", &key, Some(note.into())).unwrap();
                let blob = change.write(Kind::Blob, format!("said {second}").into()).unwrap();
                let entry = MessageEntry::new(blob, Role::User, "text");
                context.push_message(change, MAIN_AGENT, &entry).unwrap();
            });
        }
        drop(repo);
        collect(&open(&disk, 2), Purpose::Repack(Tier::Compacted), &stamp(60), &mut |_| {})
            .unwrap();
        Self::of(&disk)
    }

    /// An archive without ids that has tombstones of redacted objects, and a turn after it. `id` is
    /// that of the store.
    #[must_use]
    pub fn without_ids(id: u8) -> Self {
        let (disk, repo) = init(id);
        for second in 1..=2 {
            turn(&repo, "one", second);
        }
        let secret = Pattern::literal("one 3 1", "[redacted]").unwrap();
        redact(&repo, &secret, &stamp(3)).unwrap();
        drop(repo);
        archive_without_ids(&disk, &stamp(4));
        turn(&open(&disk, 5), "one", 5);
        Self::of(&disk)
    }

    /// The path of its history index, the first of several.
    #[must_use]
    pub fn history_index(&self) -> PathBuf {
        let mut paths = self.disk.files().into_keys();
        paths.find(|path| path.extension().is_some_and(|it| it == "changes")).unwrap()
    }

    /// A sample of the store on a closed disk, packed as an archive.
    ///
    /// # Panics
    /// If the library fails.
    #[must_use]
    pub fn archived(disk: &SimDisk) -> Self {
        collect(&open(disk, 2), Purpose::Repack(Tier::Archive), &stamp(60), &mut |_| {}).unwrap();
        Self::of(disk)
    }

    /// A sample of a disk with an intact store.
    fn of(disk: &SimDisk) -> Self {
        let disk = disk.crash(Keep::All);
        let store = open(&disk, 50);
        let kinds = kinds(store.store());
        let read = |(id, kind): (&ObjectId, &Kind)| (*id, store.read_as(*kind, id).unwrap());
        let objects = kinds.iter().map(read).collect();
        let refs = (*store.refs()).clone();
        Self { disk, objects, kinds, refs }
    }

    /// A copy of the disk.
    #[must_use]
    pub fn copy(&self) -> SimDisk {
        self.disk.crash(Keep::All)
    }

    /// Returns the unreadable objects.
    ///
    /// # Panics
    /// If wrong bytes are returned for an object.
    #[must_use]
    pub fn missing(&self, repo: &Repository) -> Vec<ObjectId> {
        let missing = self.objects.iter().filter(|(id, bytes)| match repo.read(id) {
            Ok(Some(object)) => {
                assert_eq!(object.bytes, **bytes, "wrong bytes for {id}");
                false
            }
            Ok(None) | Err(_) => true,
        });
        missing.map(|(id, _)| *id).collect()
    }
}

impl Default for Sample {
    fn default() -> Self {
        Self::new()
    }
}

/// The answers to queries about the history of [`Sample::with_history`], which its index can
/// answer.
///
/// # Panics
/// If its commits cannot be read.
#[must_use]
pub fn asked_of_history(repo: &Repository) -> Vec<String> {
    let tip = repo.tip(&BranchName::main("one").unwrap()).unwrap();
    let entries: Vec<LogEntry> =
        repo.history(&[tip], &[]).unwrap().collect::<turntree::Result<_>>().unwrap();
    let count = |bytes: &[u8]| String::from_utf8_lossy(bytes).matches("note 1").count() as u64;
    let read = |_: &str, bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned());
    let mut told = Vec::new();
    for (path, has_text) in [("scratchpad/1", false), ("agents", false), ("", true)] {
        let paths: Vec<String> = (!path.is_empty()).then(|| path.to_owned()).into_iter().collect();
        let text = has_text.then_some((&count as Count<'_>, &read as ReadMessage<'_>));
        let mut touches = repo.touches(PickaxeQuery { paths: Selection::below(&paths), text });
        let touched = entries.iter().map(|entry| touches.of(entry));
        told.extend(touched.map(|touched| format!("{path}: {touched:?}")));
    }
    for path in ["scratchpad/1", "agents/main/messages"] {
        told.push(format!("{path}: {:?}", repo.blame(&tip, path, false)));
    }
    told
}

/// Packs the store on a closed disk into one archive without ids.
///
/// # Panics
/// If the library fails.
pub fn archive_without_ids(disk: &SimDisk, stamp: &Signature) {
    open(disk, 2).store().allow_archives_without_ids().unwrap();
    let repo = open(disk, 3);
    repo.store().leave_ids_out();
    collect(&repo, Purpose::Repack(Tier::Archive), stamp, &mut |_| {}).unwrap();
}

/// Removes the `.ids` files of packs. They are optional.
///
/// # Panics
/// If the disk refuses a removal.
pub fn remove_ids(disk: &SimDisk) {
    let paths = disk.files().into_keys().filter(|path| is_ids(path));
    paths.for_each(|path| disk.remove(&path).unwrap());
}

/// Returns true if a file has the ids of a pack that lists none.
#[must_use]
pub fn is_ids(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "ids")
}

/// The length of a file without the zeros at its end.
#[must_use]
pub fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// A new repository on a new disk.
fn init(id: u8) -> (SimDisk, Repository) {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, new) = (Arc::new(disk.clone()), NewStore { id: [id; 16] });
    let repo = Repository::init(io, Path::new(DIR), &new, OpenOptions::new([1; 16])).unwrap();
    (disk, repo)
}

/// Opens the store on `disk`.
///
/// # Panics
/// If the store does not open.
#[must_use]
pub fn open(disk: &SimDisk, seed: u8) -> Repository {
    try_open(disk, seed).expect("the store opens")
}

/// Opens the store on `disk`, which may be damaged.
///
/// # Errors
/// Errors of opening.
pub fn try_open(disk: &SimDisk, seed: u8) -> turntree::Result<Repository> {
    let io = Arc::new(disk.clone());
    Repository::open(io, Path::new(DIR), OpenOptions::new([seed; 16]))
}

/// Commits a turn of a session: something new in every section, and a part of the old content.
fn turn(repo: &Repository, session: &str, second: i64) {
    let mut random = Random(second.unsigned_abs() << 8);
    repo.refresh().unwrap();
    let branch = BranchName::main(session).unwrap();
    let mut change = repo.begin();
    let mut builder = match change.tip(&branch) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::new(),
    };
    for key in 0..10 {
        if second % 3 == key % 3 || change.tip(&branch).is_none() {
            let value = format!("{session} {key} {second}").into();
            builder.set_entry(&mut change, "scratchpad", &format!("{key}"), Some(value)).unwrap();
        }
    }
    let noise = (0..40).map(|_| random.draw().to_string()).collect::<Vec<_>>();
    let lines = noise.join("\n");
    let file = Some((FileMode::Regular, lines.into()));
    builder.set_file(&mut change, &format!("{}.txt", second % 4), file).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let stamp = stamp(second);
    change.snapshot(&branch, SnapshotDraft::new(tree, format!("turn {second}"), &stamp)).unwrap();
    change.commit(&stamp, "snapshot").unwrap();
}

/// The kinds of all objects in an intact store.
fn kinds(store: &Store) -> BTreeMap<ObjectId, Kind> {
    let examined = store.examine(Thoroughness::Full, &mut |_, _| {}).unwrap();
    let entries = (0..examined.inventory.positions()).filter_map(|at| examined.inventory.entry(at));
    entries.map(|entry| (entry.id, entry.kind)).collect()
}
