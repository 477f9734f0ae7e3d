//! Keys that change while other processes open, read and write a store: none of them reports
//! damage.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use turntree::maintenance::{Purpose, collect, fsck};
use turntree::repo::{BranchName, Repository};
use turntree::store::{
    Access, FindingKind, Io, OpenOptions, RealIo, StoreCipher, StoreKey, Thoroughness, Tier,
};
use turntree::{Error, ErrorKind};
use turntree_tests::watched::{Call, WatchedIo, Watcher};
use turntree_tests::{Sandbox, commit_note, stamp};

const KEY: StoreKey = StoreKey::of(StoreCipher::XChaCha20, [3; 32]);
const OTHER: StoreKey = StoreKey::of(StoreCipher::Aes256Ctr, [4; 32]);

/// Selects the call to the disk before which an action runs once.
type Before = dyn Fn(Call, &Path) -> bool + Send + Sync;

/// An action that runs once at a selected call: before it, or after a file is created.
struct ConcurrentChange {
    before: Box<Before>,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl ConcurrentChange {
    fn new(
        before: impl Fn(Call, &Path) -> bool + Send + Sync + 'static,
        happens: impl FnOnce() + Send + 'static,
    ) -> WatchedIo<Self> {
        let happens = Mutex::new(Some(Box::new(happens) as Box<_>));
        WatchedIo::real(Self { before: Box::new(before), happens })
    }

    fn call(&self, call: Call, path: &Path) {
        if (self.before)(call, path) {
            let happens = self.happens.lock().unwrap().take();
            happens.into_iter().for_each(|happens| happens());
        }
    }

    fn has_happened(&self) -> bool {
        self.happens.lock().unwrap().is_none()
    }
}

impl Watcher for ConcurrentChange {
    fn around<T>(
        &self,
        call: Call,
        path: &Path,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if call != Call::Create {
            self.call(call, path);
            return make();
        }
        // The new file exists and is empty.
        let created = make()?;
        self.call(call, path);
        Ok(created)
    }
}

fn branch() -> BranchName {
    BranchName::main("s").unwrap()
}

fn open_on(
    io: Arc<dyn Io>,
    dir: &Path,
    key: Option<StoreKey>,
    seed: u8,
) -> turntree::Result<Repository> {
    let options = OpenOptions { keys: key.map(Into::into), ..OpenOptions::new([seed; 16]) };
    Repository::open(io, dir, options)
}

fn open(dir: &Path, key: Option<StoreKey>, seed: u8) -> Repository {
    open_on(Arc::new(RealIo), dir, key, seed).unwrap()
}

/// A store with this key that has a manifest, a pack and a later turn.
fn store(key: Option<StoreKey>) -> Sandbox {
    let sandbox = Sandbox::new();
    let note =
        |text: &str, second| commit_note(&sandbox.repo, &branch(), ("n", text), &stamp(second));
    for turn in 0..20 {
        note(&format!("note {turn}"), turn);
    }
    collect(&sandbox.repo, Purpose::Repack(Tier::Compacted), &stamp(50), &mut |_| {}).unwrap();
    note("behind the pack", 60);
    if key.is_some() {
        sandbox.repo.store().change_encryption(key, [9; 16]).unwrap();
    }
    sandbox
}

/// Changes the keys of a store, as another process does.
fn change(dir: &Path, from: Option<StoreKey>, to: Option<StoreKey>) {
    open(dir, from, 20).store().change_encryption(to, [10; 16]).unwrap();
}

fn is_conflict<T>(result: turntree::Result<T>) -> bool {
    result.is_err_and(|error: Error| error.kind() == ErrorKind::Conflict)
}

fn expect_whole(repo: &Repository) {
    let report = fsck(repo, Thoroughness::Full, stamp(99).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
}

#[test]
fn stores_reopen_when_keys_change_during_opening() {
    let changes =
        [(None, Some(KEY)), (Some(KEY), Some(OTHER)), (Some(OTHER), Some(KEY)), (Some(KEY), None)];
    for (from, to) in changes {
        // Before the manifests are listed, and between them and the journal.
        for name in ["manifest-", ".pack", ".seg"] {
            let sandbox = store(from);
            let (dir, tip) = (sandbox.store_dir(), sandbox.repo.tip(&branch()));
            let rotated = dir.clone();
            let is_of = move |call, path: &Path| {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                call == Call::Open(Access::Read) && file.contains(name)
            };
            let io = ConcurrentChange::new(is_of, move || change(&rotated, from, to));
            let opened = open_on(Arc::new(io.clone()), &dir, from, 30);
            assert!(io.watcher().has_happened(), "{name}");
            match (opened, to) {
                // The caller must provide the new key.
                (Err(error), Some(_)) => assert_eq!(error.kind(), ErrorKind::Encrypted, "{error}"),
                (opened, _) => {
                    let repo = opened.unwrap();
                    assert_eq!((repo.findings(), repo.tip(&branch())), (Vec::new(), tip));
                }
            }
            let repo = open(&dir, to, 31);
            assert_eq!((repo.findings(), repo.tip(&branch())), (Vec::new(), tip));
        }
    }
}

#[test]
fn open_handles_report_key_changes_instead_of_damage() {
    let sandbox = store(Some(KEY));
    let dir = sandbox.store_dir();
    let repo = open(&dir, Some(KEY), 2);
    change(&dir, Some(KEY), Some(OTHER));
    assert!(is_conflict(repo.refresh()));
    let report = fsck(&repo, Thoroughness::Full, stamp(99).time, &mut |_, _| {});
    assert!(is_conflict(report));
    assert!(repo.findings().is_empty());
    expect_whole(&open(&dir, Some(OTHER), 3));
}

#[test]
fn segments_created_during_a_key_change_leave_no_files() {
    let sandbox = store(Some(KEY));
    let dir = sandbox.store_dir();
    // No segment exists that the writer could reuse.
    drop(sandbox.repo);
    collect(&open(&dir, Some(KEY), 2), Purpose::Repack(Tier::Compacted), &stamp(70), &mut |_| {})
        .unwrap();
    let before = segments(&dir);
    let rotated = dir.clone();
    let is_new = |call, path: &Path| call == Call::Create && is_segment(path);
    let io = ConcurrentChange::new(is_new, move || change(&rotated, Some(KEY), Some(OTHER)));
    let writer = open_on(Arc::new(io.clone()), &dir, Some(KEY), 3).unwrap();
    let mut change = writer.begin();
    let mut context =
        turntree::context::Builder::from(writer.context(&writer.tip(&branch()).unwrap()).unwrap());
    context.set_entry(&mut change, "scratchpad", "n", Some("late".into())).unwrap();
    let tree = context.write(&mut change).unwrap();
    let draft = turntree::repo::SnapshotDraft::new(tree, "late", &stamp(80));
    change.snapshot(&branch(), draft).unwrap();
    assert!(is_conflict(change.commit(&stamp(80), "snapshot")));
    assert!(io.watcher().has_happened());
    assert_eq!(segments(&dir), before);
    expect_whole(&open(&dir, Some(OTHER), 4));
}

#[test]
fn segments_with_the_previous_key_are_not_damage() {
    let sandbox = store(Some(KEY));
    let dir = sandbox.store_dir();
    drop(sandbox.repo);
    collect(&open(&dir, Some(KEY), 2), Purpose::Repack(Tier::Compacted), &stamp(70), &mut |_| {})
        .unwrap();
    // The bytes of a new segment before its first batch.
    let made = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&made);
    let folder = dir.join("journal");
    let known = segments(&dir);
    let is_opened = move |call, path: &Path| {
        call == Call::Open(Access::Read) && is_segment(path) && !known.contains(&path.to_owned())
    };
    let io = ConcurrentChange::new(is_opened, move || {
        let newest = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let newest = newest
            .filter(|path| is_segment(path))
            .max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
        let path = newest.unwrap();
        *kept.lock().unwrap() = Some((path.clone(), fs::read(path).unwrap()));
    });
    let writer = open_on(Arc::new(io), &dir, Some(KEY), 3).unwrap();
    commit_note(&writer, &branch(), ("n", "one more"), &stamp(80));
    drop(writer);
    let (path, bytes) = made.lock().unwrap().take().unwrap();
    assert!(bytes.iter().any(|byte| *byte != 0));
    change(&dir, Some(KEY), Some(OTHER));
    let left = path.with_file_name(format!("{}.seg", "ab".repeat(16)));
    fs::write(left, bytes).unwrap();
    let repo = open(&dir, Some(OTHER), 4);
    let findings = repo.findings();
    assert!(findings.iter().all(|found| found.kind != FindingKind::Damage), "{findings:?}");
    expect_whole(&repo);
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "seg")
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("journal")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| is_segment(path));
    paths.sort();
    paths
}
