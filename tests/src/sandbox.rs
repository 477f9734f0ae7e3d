//! A new store for every test, and the sessions that tests read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::context::{Builder, MessageEntry, ToolUse, export_messages, export_source};
use turntree::object::{ObjectId, Time};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft, Transaction};
use turntree::store::{NewStore, OpenOptions, RealIo};
#[cfg(feature = "exchange")]
use turntree_exchange::{Format, ImportOptions, ImportReport, formats::named, import};

/// A store in a folder that is deleted when this is dropped.
pub struct Sandbox {
    folder: tempfile::TempDir,
    /// The store, open.
    pub repo: Repository,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// A new, empty store.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let repo = new_store(&folder.path().join("store"));
        Self { folder, repo }
    }

    /// The folder around the store.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The store's directory.
    #[must_use]
    pub fn store_dir(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Opens the same store like another process.
    #[must_use]
    pub fn reopened(&self) -> Repository {
        open_store(&self.store_dir(), 2)
    }

    /// The transcript at `commit`.
    #[must_use]
    pub fn source(&self, commit: &ObjectId) -> Vec<u8> {
        let mut out = Vec::new();
        let context = self.repo.context(commit).expect("the context");
        export_source(&self.repo, &context, &mut out).expect("the source");
        out
    }

    /// The main conversation at `commit`, one record per line.
    #[must_use]
    pub fn messages(&self, commit: &ObjectId) -> Vec<String> {
        let mut out = Vec::new();
        let context = self.repo.context(commit).expect("the context");
        export_messages(&self.repo, &context, "main", &|_| true, &mut out).expect("the messages");
        String::from_utf8_lossy(&out).lines().map(str::to_owned).collect()
    }
}

#[cfg(feature = "exchange")]
impl Sandbox {
    /// Imports `bytes` into `session`.
    ///
    /// # Errors
    /// Errors of the import.
    pub fn import(&self, session: &str, bytes: &[u8]) -> turntree::Result<ImportReport> {
        self.import_with(session, None, bytes)
    }

    /// Imports `bytes` into `session` as the format called `format`.
    ///
    /// # Errors
    /// Errors of the import.
    pub fn import_as(
        &self,
        session: &str,
        format: &str,
        bytes: &[u8],
    ) -> turntree::Result<ImportReport> {
        self.import_with(session, Some(named(format)?), bytes)
    }

    fn import_with(
        &self,
        session: &str,
        format: Option<&'static Format>,
        bytes: &[u8],
    ) -> turntree::Result<ImportReport> {
        let options = ImportOptions {
            format,
            session: session.to_owned(),
            stamp: stamp(1),
            switch: false,
            adoption: None,
            branch: None,
        };
        import(&self.repo, bytes, &options)
    }
}

/// A new store in `dir`.
#[must_use]
pub fn new_store(dir: &Path) -> Repository {
    let (new, options) = (NewStore { id: [7; 16] }, OpenOptions::new([1; 16]));
    Repository::init(Arc::new(RealIo), dir, &new, options).expect("a new store")
}

/// Opens the store in `dir` like a process that draws the names of its files from `seed`.
#[must_use]
pub fn open_store(dir: &Path, seed: u8) -> Repository {
    let options = OpenOptions::new([seed; 16]);
    Repository::open(Arc::new(RealIo), dir, options).expect("the store opens")
}

/// Commits a turn on `branch` with the context that `edit` makes from its parent's.
///
/// # Panics
/// If it fails.
pub fn commit_turn(
    repo: &Repository,
    branch: &BranchName,
    message: &str,
    stamp: &Signature,
    edit: impl FnOnce(&mut Builder, &mut Transaction<'_>),
) -> ObjectId {
    let mut change = repo.begin();
    let mut context = match change.tip(branch) {
        Some(tip) => Builder::from(repo.context(&tip).expect("the context of the tip")),
        None => Builder::new(),
    };
    edit(&mut context, &mut change);
    let tree = context.write(&mut change).expect("a context");
    let id = change.snapshot(branch, SnapshotDraft::new(tree, message, stamp)).expect("a snapshot");
    change.commit(stamp, "snapshot").expect("a commit");
    id
}

/// Commits a turn on `branch` that sets one key of the scratchpad.
///
/// # Panics
/// If it fails.
pub fn commit_note(
    repo: &Repository,
    branch: &BranchName,
    (key, text): (&str, &str),
    stamp: &Signature,
) -> ObjectId {
    commit_turn(repo, branch, text, stamp, |context, change| {
        let text = Some(text.to_owned().into());
        context.set_entry(change, "scratchpad", key, text).expect("a note");
    })
}

/// Reads the tool calls of messages in which there are none, for merges.
#[must_use]
pub fn no_tools(_: &MessageEntry, _: &[u8]) -> ToolUse {
    ToolUse::default()
}

/// A signature at second `second`.
#[must_use]
pub fn stamp(second: i64) -> Signature {
    let time = Time { micros: second * 1_000_000, offset_minutes: 0 };
    Signature { time, actor: "somebody".to_owned() }
}

/// Every recorded transcript, from `TURNTREE_SESSIONS` or the folder `shared/sessions` next to the
/// project. Empty if neither exists.
#[must_use]
pub fn recorded_sessions() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/sessions");
    let root = std::env::var_os("TURNTREE_SESSIONS").map_or(beside, PathBuf::from);
    let folders = std::fs::read_dir(root).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path())).flatten().flatten();
    let mut paths: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|extension| extension != "bundle"))
        .collect();
    paths.sort();
    paths
}
