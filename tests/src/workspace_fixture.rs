//! A directory next to a store, and snapshots of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use turntree::context::{Builder, Context, FileEntry};
use turntree::object::{Kind, Memory, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::workspace::{CaptureOptions, CaptureReport, StatCache, capture};

use crate::{Sandbox, stamp};

/// A store and a captured directory next to it.
pub struct WorkspaceFixture {
    /// The store.
    pub sandbox: Sandbox,
    /// The directory.
    pub work: PathBuf,
}

impl Default for WorkspaceFixture {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkspaceFixture {
    /// An empty directory.
    #[must_use]
    pub fn new() -> Self {
        let sandbox = Sandbox::new();
        let work = sandbox.folder().join("work");
        fs::create_dir(&work).unwrap();
        Self { sandbox, work }
    }

    /// The path of `name` in the directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Writes a file, and creates its folders.
    pub fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Takes a snapshot on `main`, with the cache of the store.
    pub fn snapshot(&self) -> CaptureReport {
        self.snapshot_with(&CaptureOptions::default())
    }

    /// Takes a snapshot on `main`, with the cache of the store and these options.
    pub fn snapshot_with(&self, options: &CaptureOptions<'_>) -> CaptureReport {
        take(&self.sandbox.repo, "main", &self.work, options)
    }

    /// The files of the newest snapshot, with their content.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, (FileEntry, String)> {
        let repo = &self.sandbox.repo;
        let context = tip(repo, "main");
        let entry = |entry: turntree::Result<(bytes::Bytes, turntree::tree::Item)>| {
            let (key, item) = entry.unwrap();
            let file = FileEntry::from_item(&item).unwrap();
            let content = repo.read_as(Kind::Blob, &file.blob).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (text(&key), (file, text(&content)))
        };
        context.map(repo, "files").unwrap().iter(repo).map(entry).collect()
    }

    /// The names of the files in the newest snapshot.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }

    /// Checks that the newest snapshot equals a capture without cache and history.
    pub fn expect_truth(&self) {
        let (repo, mut objects) = (&self.sandbox.repo, Memory::new());
        let mut builder = Builder::new();
        let (empty, options) = (Context::default(), CaptureOptions::default());
        capture(&mut objects, &empty, &mut builder, &self.work, &options).unwrap();
        let tree = builder.write(&mut objects).unwrap();
        let truth = Context::open(&objects, &tree).unwrap();
        // An empty section equals a missing one here.
        let root = |source: &dyn ObjectSource, context: &Context| {
            let files = context.map(source, "files").unwrap();
            (!files.is_empty()).then(|| context.section(source, "files").unwrap().unwrap().id)
        };
        assert_eq!(root(repo, &tip(repo, "main")), root(&objects, &truth));
    }

    /// Waits until later changes get other timestamps than earlier ones.
    pub fn let_the_clock_go_on(&self) {
        let path = self.sandbox.folder().join("clock");
        let now = || {
            fs::write(&path, "").unwrap();
            let found = fs::metadata(&path).unwrap();
            Duration::new(found.ctime().unsigned_abs(), u32::try_from(found.ctime_nsec()).unwrap())
        };
        let start = now();
        while now() < start + Duration::from_millis(60) {
            std::thread::yield_now();
        }
    }

    /// The only cache file of captures in the store.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        let files = fs::read_dir(self.sandbox.store_dir().join("workspaces")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        // The store also records the captured directories there.
        let mut files = files.filter(|path| !path.ends_with("captured-directories"));
        let file = files.next().unwrap();
        assert!(files.next().is_none());
        file
    }
}

/// The context of the newest snapshot on a branch. Empty if there is none.
#[must_use]
pub fn tip(repo: &Repository, branch: &str) -> Context {
    let branch = BranchName::new("fixture", branch).unwrap();
    repo.tip(&branch).map_or_else(Context::default, |tip| repo.context(&tip).unwrap())
}

/// Takes a snapshot of `work` on a branch.
pub fn take(
    repo: &Repository,
    branch: &str,
    work: &Path,
    options: &CaptureOptions<'_>,
) -> CaptureReport {
    let cache = StatCache::open(repo, work).unwrap();
    let parent = tip(repo, branch);
    let (captured, tree) = snapshot_on(repo, branch, &parent, work, &cache, options);
    cache.save(&captured, repo, &tree).unwrap();
    captured
}

/// Takes a snapshot on a branch, with a context that continues from `parent`.
pub fn snapshot_on(
    repo: &Repository,
    branch: &str,
    parent: &Context,
    work: &Path,
    cache: &StatCache,
    options: &CaptureOptions<'_>,
) -> (CaptureReport, ObjectId) {
    let mut change = repo.begin();
    let mut builder = Builder::from(parent.clone());
    let options = CaptureOptions { cache: Some(cache), ..*options };
    let captured = capture(&mut change, parent, &mut builder, work, &options).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let branch = BranchName::new("fixture", branch).unwrap();
    change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp(1))).unwrap();
    change.commit(&stamp(1), "snapshot").unwrap();
    (captured, tree)
}

/// The files that a capture skipped, and why.
#[must_use]
pub fn reasons(captured: &CaptureReport) -> BTreeMap<String, String> {
    let skipped = captured.skipped.iter();
    skipped.map(|one| (one.path.to_string_lossy().into_owned(), one.reason.clone())).collect()
}

impl WorkspaceFixture {
    /// Takes a snapshot on `main` without saving the cache.
    pub fn snapshot_without_saving(&self) -> CaptureReport {
        let cache = StatCache::open(&self.sandbox.repo, &self.work).unwrap();
        let parent = tip(&self.sandbox.repo, "main");
        let options = CaptureOptions::default();
        snapshot_on(&self.sandbox.repo, "main", &parent, &self.work, &cache, &options).0
    }
}

/// Creates a named pipe.
pub fn pipe(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}
