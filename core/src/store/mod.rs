//! Stores objects and refs on disk. Writes them in one step and verifies them on every read.
//!
//! ```text
//! superblock            what the store is; its lock orders changes of refs
//! journal/<id>.seg      batches, appended by the one process that owns the segment
//! packs/<id>.pack       what collections have compacted; never changed again
//! packs/<id>.parity     what a pack is restored from when it is damaged; archives have some
//! derived/<id>.changes  what follows from a pack, to answer sooner; may go at any time
//! derived/<id>.ids      the ids of a pack that lists none; may go at any time
//! manifest-<generation> which packs and sealed segments there are, and the refs as of then
//!
//!   commit ── objects + operation ── one batch ── one fsync ── acknowledged
//!
//!   read ── cache ── active segments: a table in memory, read with a system call
//!                └── sealed segments and packs: an index in the file, mapped
//! ```
//!
//! Rules of this module, learned from stores that broke them:
//! - A file has one writer, known by a lock that dies with it. No process truncates a file, or
//!   writes to a file that another process owns.
//! - Opening writes nothing. A batch whose trailer does not verify was never acknowledged and is
//!   ignored. If a good batch follows it, it is damage: it becomes a [`Finding`], and every batch
//!   that verifies stays readable.
//! - A batch is acknowledged only after it, and all that it builds on, is durable. If a sync fails,
//!   the batch is written again elsewhere, not synced again.
//! - Readers take no lock and wait for no other process.
//!
//! Refs are the sum of the operations, which form a chain in the order of the lock. A [`Store`] is
//! the view of one process. It includes the process's own commits immediately, and commits of other
//! processes after [`Store::refresh`] or its own next commit. Specified in `format-spec/store.md`,
//! `journal.md` and `manifest.md`.
//!
//! ```
//! use std::sync::Arc;
//! use turntree::object::{Kind, Object, ObjectId, ObjectSource, RefValue};
//! use turntree::store::{Expected, NewStore, OpenOptions, OperationDraft, RealIo, RefUpdate, Store};
//!
//! let dir = tempfile::tempdir()?;
//! let dir = dir.path().join("store");
//! Store::create(&RealIo, &dir, &NewStore { id: [1; 16] })?;
//! let store = Store::open(Arc::new(RealIo), &dir, OpenOptions::new([2; 16]))?;
//!
//! let id = ObjectId::of(Kind::Blob, b"hello");
//! let hello = Object { kind: Kind::Blob, bytes: b"hello".as_slice().into() };
//! let update = RefUpdate {
//!     name: "greeting".into(),
//!     expected: Expected::Absent,
//!     new: Some(RefValue::Object(id)),
//! };
//! let draft = OperationDraft {
//!     time_micros: 0,
//!     actor: "someone".into(),
//!     reason: "an example".into(),
//!     changes: vec![update],
//!     undoes: None,
//!     joins: Vec::new(),
//! };
//! store.commit(vec![(id, hello)], &draft)?;
//!
//! let again = Store::open(Arc::new(RealIo), &dir, OpenOptions::new([3; 16]))?;
//! assert_eq!(again.refs().value("greeting"), Some(&RefValue::Object(id)));
//! assert_eq!(again.read_as(Kind::Blob, &id)?, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod derived;
mod derived_ids;
mod dir;
mod distant;
mod encryption;
mod format;
mod io;
mod medium;
mod memory_file;
mod paced_sync;
mod pack;
mod parity;
mod read;
mod repair;
mod replace;
mod steps;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

use bytes::Bytes;

pub(crate) use derived::{DerivedFile, PackHandle};
pub(crate) use distant::DISTANT_REFS;
pub use distant::{BundleEnds, BundleIndex, RangeSource};
pub use encryption::{STORE_KEY_BYTES, StoreCipher, StoreKey, StoreKeys, enciphered};
pub(crate) use encryption::{decipher, encipher};
pub use format::superblock::FORMAT_VERSION;
pub use io::{Access, Identity, Io, IoFile, Mapping, ReadAt, RealIo};
pub(crate) use pack::with_low_priority;
pub use pack::{
    BundleDraft, BundleFile, BundleWritten, Outside, PackItem, PackSize, Tier, Tombstone,
};
pub use parity::{
    PARITY_POLICY_REF, Parity, ParityDamage, ParityShare, Protected, RestoredContent,
    append_parity, repair_by_parity,
};
pub use read::inventory::{Inventory, InventoryEntry, InventoryFile};
pub(crate) use read::read_guard::ReadGuard;
pub use read::ref_values::RefValues;
pub(crate) use read::refs::MAX_JOINED;
pub use read::refs::{Expected, OperationDraft, RefTable, RefUpdate};
pub(crate) use repair::examine::DetachedOperation;
pub use repair::examine::{Examination, Progress, Thoroughness};
pub use repair::known_losses::KNOWN_LOSSES_REF;
pub(crate) use repair::known_losses::KnownLosses;
pub use repair::salvage::{SalvageFate, SalvagedFile};
pub(crate) use replace::collect::pack_room;
pub use replace::collect::{Collection, CollectorLock, FileReplacement, Replaced};
pub use replace::encryption::EncryptionChange;
pub(crate) use replace::idle::JournalSize;
pub(crate) use steps::CountedSource;
pub use steps::Steps;

use self::dir::failed;
use self::distant::Distant;
use self::format::id::StoreId;
use self::format::segment::Location;
use self::format::superblock::{self, Superblock, SuperblockContent};
use self::pack::{BlockCache, PackId};
use self::read::cache::Cache;
use self::read::content_cache::ContentCache;
use self::read::journal::Journal;
use self::read::load::{self, OpenPurpose};
use self::read::pages::{PageCounter, STRETCHES_OF_ONE};
use self::read::read_guard::ReadGuards;
use self::read::sweep::WholeFiles;
use self::read::view::View;
use self::repair::{known_losses, orphaned_files};
use self::write::commit::BatchWriter;
use self::write::untracked;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{IdPrefix, Kind, Object, ObjectId, ObjectSource};

/// Objects up to this size are copied before they are cached. They may be part of a mapping, and
/// each later access would page the file around them back in.
const COPIED_BYTES: usize = 4 << 10;

/// Attempts to open a store whose keys change concurrently.
const MAX_OPENINGS: usize = 16;

/// The file that makes a directory a store.
pub const SUPERBLOCK_FILE: &str = "superblock";

const JOURNAL_DIR: &str = "journal";
/// The folder of derived files. They may be deleted at any time.
const DERIVED_DIR: &str = "derived";
const PACKS_DIR: &str = "packs";
const QUARANTINE_DIR: &str = "quarantine";

/// The folder of the stat caches of captures. Its files may be deleted at any time.
pub(crate) const WORKSPACES_DIR: &str = "workspaces";

/// The prefix of names of databases that are derived from a store, in the folder of its caches.
pub(crate) const DATABASE_PREFIX: &str = "derived-";

/// The name of the cache of adopted files in that folder. It holds no content.
pub(crate) const ADOPTIONS_FILE: &str = "adopted";

/// The name of the list of captured directories, by hashes of their paths.
pub(crate) const CAPTURED_FILE: &str = "captured-directories";

/// The cache folder of frames read from a remote. Its files may be deleted at any time.
const DISTANT_DIR: &str = "distant";

/// The folder of the key of an encrypted store, wrapped for each authorized user. The caller that
/// opens the store for a user reads and writes it; this module does not.
pub const KEYS_DIR: &str = "keys";

/// The file whose lock a process holds while it runs automatic maintenance of the store.
pub const MAINTENANCE_LOCK: &str = "maintenance.lock";

/// The log of failed hooks. May be deleted at any time. Holds no content.
pub const HOOK_LOG: &str = "hook.log";

/// A store on disk, open to read and write. Shared between threads by reference or `Arc`.
pub struct Store {
    io: Arc<dyn Io>,
    /// The `Io` below `io`. If the store is encrypted, `io` enciphers files on top of it.
    disk: Arc<dyn Io>,
    /// The keys of the store's files, if it is encrypted.
    keys: Option<StoreKeys>,
    dir: PathBuf,
    superblock: Superblock,
    durability: Durability,
    lock_timeout: Duration,
    /// Called before waiting for a collection of another process. Without it, the handle does not
    /// wait.
    waiting: OnceLock<fn()>,
    /// Set if the handle keeps no caches next to the store.
    no_caches: OnceLock<()>,
    /// The parity of new packs, if the caller chose one.
    pack_parity: OnceLock<Option<ParityShare>>,
    /// Set if archives leave out ids.
    without_ids: OnceLock<()>,
    /// The objects of the packs and bundles that this handle writes.
    packing: Arc<Steps>,
    cache: Cache,
    /// Contents that searches have read.
    contents: ContentCache,
    blocks: BlockCache,
    pages: PageCounter,
    /// Files whose commits and nodes were all found intact.
    whole: Mutex<Arc<WholeFiles>>,
    distant: Distant,
    // Locked in this order; the ref lock of the superblock comes between the first and the second.
    writer: Mutex<BatchWriter>,
    read_guards: Mutex<ReadGuards>,
    journal: Mutex<Journal>,
    view: RwLock<View>,
}

/// The settings of a new store.
#[derive(Debug, Clone)]
pub struct NewStore {
    /// Its identity: random bytes.
    pub id: [u8; 16],
}

/// The settings of an open store.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// Random bytes, different for every handle. They determine the names of new segments, and a
    /// client that supplies payloads must not be able to guess a name.
    pub writer_seed: [u8; 16],
    /// Most bytes of verified objects to cache in memory.
    pub cache_bytes: usize,
    /// Most bytes of unpacked blocks to cache in memory.
    pub block_cache_bytes: usize,
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// The timeout of a commit for the ref lock, which other processes hold for microseconds.
    pub lock_timeout: Duration,
    /// The keys of the store, if it is encrypted; ignored otherwise.
    pub keys: Option<StoreKeys>,
}

impl OpenOptions {
    /// Returns options with full durability, caches of 24 and 16 MiB, and ten seconds for the ref
    /// lock.
    #[must_use]
    pub fn new(writer_seed: [u8; 16]) -> Self {
        Self {
            writer_seed,
            cache_bytes: 24 << 20,
            block_cache_bytes: 16 << 20,
            durability: Durability::Full,
            lock_timeout: Duration::from_secs(10),
            keys: None,
        }
    }
}

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After it survives a power cut.
    Full,
    /// After it is written. A crash of the machine may lose or damage the store: for stores that
    /// can be rebuilt.
    None,
}

/// The size of a batch that was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchReport {
    /// New objects, including the operation of a commit.
    pub objects: usize,
    /// Bytes on disk, including headers.
    pub stored_bytes: u64,
}

/// The outcome of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The id of the operation that records it.
    pub operation: ObjectId,
    /// The number of that operation in the store.
    pub sequence: u64,
    /// The size of its batch.
    pub written: BatchReport,
}

/// A problem in the files of a store that did not prevent opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Its severity.
    pub kind: FindingKind,
    /// File and offset.
    pub place: String,
    /// A description, for people.
    pub message: String,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// An incomplete batch that was never acknowledged: a process died while it wrote it.
    TornTail,
    /// Acknowledged bytes have changed or are missing.
    Damage,
    /// A file that belongs to no process: its process died before it could remove it.
    Leftover,
}

/// Counts of the files and objects of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSummary {
    /// The identity it was created with.
    pub id: [u8; 16],
    /// The version of its format.
    pub format_version: u32,
    /// Objects. An object in two files counts twice.
    pub objects: usize,
    /// Segments that may still grow.
    pub active_segments: usize,
    /// Segments that are sealed.
    pub sealed_segments: usize,
    /// Packs.
    pub packs: usize,
    /// Objects in segments. An object in two segments counts twice.
    pub journal_objects: usize,
    /// Bytes of records in segments, headers included.
    pub journal_bytes: u64,
    /// Bytes of records and packs, headers included.
    pub used_bytes: u64,
    /// Bytes of the parity of packs.
    pub parity_bytes: u64,
    /// Bytes of files derived from packs, such as history indexes and ids.
    pub derived_bytes: u64,
    /// Bytes of the ids of packs that list none, included in `derived_bytes`.
    pub ids_bytes: u64,
    /// Bytes of all these files. Unused bytes are zeros for the next commits.
    pub file_bytes: u64,
}

impl Store {
    /// Creates a new store in `dir`, and `dir` too. After a crash there is a whole store or none.
    ///
    /// # Errors
    /// `InvalidInput` when `dir` already contains a store, `Corrupt` when it contains one that lost
    /// its superblock, `Io` when the disk refuses.
    pub fn create(io: &dyn Io, dir: &Path, new: &NewStore) -> Result<()> {
        orphaned_files::check_not_lost(io, dir)?;
        for dir in [dir, &dir.join(JOURNAL_DIR), &dir.join(PACKS_DIR)] {
            io.create_dir_if_missing(dir)?;
        }
        untracked::create(io, dir)?;
        // The names are durable before the superblock, which makes them a store.
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        for dir in [parent.unwrap_or(Path::new(".")), dir] {
            io.sync_names(dir)?;
        }
        let store = StoreId(new.id);
        let content = SuperblockContent { store, keys: None, allows_without_ids: false };
        superblock::create(io, dir, &content)
    }

    /// Opens the store in `dir`. Writes nothing. Reports damage in [`Store::findings`].
    ///
    /// The cost grows with the active segments, of at most some 8 MiB each: their directories are
    /// read. Sealed segments and packs are only mapped, and their indexes are verified on first
    /// use.
    ///
    /// # Errors
    /// `NotFound` when `dir` contains no store, `Unsupported` when it has a newer format, `Corrupt`
    /// when its superblock does not verify, `Encrypted` when its keys differ from those in
    /// `options`, `Io` when it cannot be read.
    pub fn open(io: Arc<dyn Io>, dir: &Path, options: OpenOptions) -> Result<Self> {
        let disk = io;
        for _ in 0..MAX_OPENINGS {
            let superblock = Superblock::open(&*disk, dir)?;
            let (io, keys) = encryption::below(&disk, &superblock, dir, &options)?;
            let loaded = load::open(&io, dir, &superblock, OpenPurpose::Used);
            // A change of keys replaces the superblock before any other file. Files read with the
            // old keys may decrypt to noise, which looks like damage, or like a journal without
            // batches.
            let is_replaced = superblock.check_name(&*disk);
            if !is_replaced.is_err_and(|error| error.kind() == ErrorKind::Conflict) {
                return Self::opened((io, disk, keys), dir, superblock, options, loaded?);
            }
        }
        Err(load::retries_error(dir))
    }

    /// Builds the handle of a store from its loaded files.
    fn opened(
        (io, disk, keys): (Arc<dyn Io>, Arc<dyn Io>, Option<StoreKeys>),
        dir: &Path,
        superblock: Superblock,
        options: OpenOptions,
        (view, journal): (RwLock<View>, Journal),
    ) -> Result<Self> {
        Ok(Self {
            io,
            disk,
            keys,
            dir: dir.to_owned(),
            superblock,
            durability: options.durability,
            lock_timeout: options.lock_timeout,
            waiting: OnceLock::new(),
            no_caches: OnceLock::new(),
            pack_parity: OnceLock::new(),
            without_ids: OnceLock::new(),
            packing: Arc::default(),
            cache: Cache::new(options.cache_bytes),
            contents: ContentCache::default(),
            blocks: BlockCache::new(options.block_cache_bytes),
            pages: PageCounter::default(),
            whole: Mutex::default(),
            distant: Distant::default(),
            writer: Mutex::new(BatchWriter::new(options.writer_seed)?),
            read_guards: Mutex::default(),
            journal: Mutex::new(journal),
            view,
        })
    }

    /// Returns the keys of the store's files, if it is encrypted.
    #[must_use]
    pub fn keys(&self) -> Option<&StoreKeys> {
        self.keys.as_ref()
    }

    /// Makes this handle keep no caches next to the store: for another user's store that is only
    /// read.
    pub fn keep_no_caches(&self) {
        let _ = self.no_caches.set(());
    }

    /// Returns true if [`Store::keep_no_caches`] was called.
    #[must_use]
    pub fn keeps_no_caches(&self) -> bool {
        self.no_caches.get().is_some()
    }

    /// Returns the directory of the store, as it was passed to `open`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the refs as of the last commit or refresh. The returned table never changes.
    #[must_use]
    pub fn refs(&self) -> Arc<RefTable> {
        Arc::clone(&read(&self.view).refs)
    }

    /// Returns up to `limit` objects whose ids start with `prefix`, in order of their ids.
    #[must_use]
    pub fn find(&self, prefix: &IdPrefix, limit: usize) -> Vec<(ObjectId, Kind)> {
        read(&self.view).find(prefix, limit)
    }

    /// Returns the reason why an object was removed on purpose; `None` if it exists or never
    /// existed.
    #[must_use]
    pub fn tombstone(&self, id: &ObjectId) -> Option<Tombstone> {
        let view = read(&self.view);
        if view.is_found(id) {
            return None;
        }
        view.files.tombstone(id).filter(|_| !view.contains(id))
    }

    /// Returns the sorted ids of all objects that were removed on purpose. Costs a look-up of each
    /// id.
    pub(crate) fn tombstone_ids(&self) -> Vec<ObjectId> {
        let view = read(&self.view);
        let gone = view.files.packs.iter().flat_map(|pack| pack.tombstones());
        let mut gone: Vec<_> = gone.map(|(id, ..)| id).filter(|id| !view.contains(id)).collect();
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    /// Returns true if a tombstone records a removed object of this kind.
    pub(crate) fn has_tombstones_of(&self, kind: Kind) -> bool {
        let view = read(&self.view);
        let mut gone = view.files.packs.iter().flat_map(|pack| pack.tombstones());
        gone.any(|(id, of, _)| of == kind && !view.contains(&id))
    }

    /// Reads an object from its files. If the first copy is damaged, tries the other copies.
    fn read_stored(&self, id: &ObjectId) -> Result<Option<Object>> {
        let Some(place) = read(&self.view).place(id) else { return Ok(None) };
        self.note_pages(STRETCHES_OF_ONE);
        let damage = match place.read(id, &self.blocks) {
            Ok(object) => return Ok(Some(object)),
            Err(damage) => damage,
        };
        let places = read(&self.view).places(id);
        let whole = places.iter().find_map(|place| place.read(id, &self.blocks).ok());
        whole.map(Some).ok_or(damage)
    }

    /// Returns true if an object is found here or in the remote store. Does not check whether a
    /// damaged index hides an object that is not found. This suffices to decide which objects are
    /// new, where treating an existing object as new is harmless.
    ///
    /// # Errors
    /// The errors of looking in the remote store.
    pub(crate) fn is_found(&self, id: &ObjectId) -> Result<bool> {
        let is_here = read(&self.view).is_found(id);
        Ok(is_here || (self.is_distant(id)? && self.tombstone(id).is_none()))
    }

    /// Counts read pages of mappings, and returns them to the system from time to time.
    fn note_pages(&self, stretches: usize) {
        self.pages.note(stretches, || Arc::clone(&read(&self.view).files));
    }

    /// Reads an object from the local files of this store.
    fn read_local(&self, id: &ObjectId) -> Result<Option<Object>> {
        if let Some(object) = self.cache.find(id) {
            return Ok(Some(object));
        }
        match self.read_stored(id)? {
            Some(Object { kind, bytes }) => {
                let bytes = match bytes.len() {
                    0..=COPIED_BYTES => Bytes::copy_from_slice(&bytes),
                    _ => bytes,
                };
                let object = Object { kind, bytes };
                self.cache.insert(*id, object.clone());
                Ok(Some(object))
            }
            None => match self.tombstone(id) {
                Some(why) => Err(tombstone_error(id, why)),
                None => Ok(None),
            },
        }
    }

    /// Returns the damage that was noticed while files were read.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let view = read(&self.view);
        let mut findings = view.findings.clone();
        findings
            .extend(view.files.sealed.iter().filter_map(|sealed| sealed.known_problem().cloned()));
        findings.extend(view.files.packs.iter().filter_map(|pack| pack.known_problem()));
        findings
    }

    /// Returns the id that the store was created with.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.superblock.store.0
    }

    /// Counts the files and objects.
    ///
    /// # Errors
    /// `Io` when a segment or a parity file cannot be read.
    pub fn summary(&self) -> Result<StoreSummary> {
        let journal = lock(&self.journal);
        let view = read(&self.view);
        let sealed = &view.files.sealed;
        let sealed_bytes = sealed.iter().map(|sealed| sealed.file_bytes()).sum::<u64>();
        let pack_bytes = view.files.packs.iter().map(|pack| pack.file_bytes()).sum::<u64>();
        let packed = view.files.packs.iter().map(|pack| pack.len() as usize).sum::<usize>();
        let packs = view.files.packs.iter().map(|pack| pack.id());
        let parity_bytes = packs.map(|id| self.parity_bytes(id)).sum::<Result<u64>>()?;
        let (derived_bytes, ids_bytes) = self.derived_bytes()?;
        let journal_objects =
            view.active.len() + sealed.iter().map(|sealed| sealed.len()).sum::<usize>();
        let mut summary = StoreSummary {
            id: self.superblock.store.0,
            format_version: FORMAT_VERSION,
            objects: journal_objects + packed,
            active_segments: journal.segments.len(),
            sealed_segments: sealed.len(),
            packs: view.files.packs.len(),
            journal_objects,
            journal_bytes: sealed_bytes,
            used_bytes: sealed_bytes + pack_bytes,
            parity_bytes,
            derived_bytes,
            ids_bytes,
            file_bytes: sealed_bytes + pack_bytes + parity_bytes + derived_bytes,
        };
        for segment in &journal.segments {
            let size = segment.file.file.size();
            summary.journal_bytes += segment.tail.offset;
            summary.used_bytes += segment.tail.offset;
            summary.file_bytes +=
                size.map_err(|e| Error::io(format!("read {}", segment.file.place(0)), e))?;
        }
        Ok(summary)
    }

    /// Returns the size of the parity file of a pack; 0 if it has none.
    fn parity_bytes(&self, id: PackId) -> Result<u64> {
        let path = self.dir.join(PACKS_DIR).join(id.parity_name());
        let file = self.io.open_if_exists(&path, Access::Read)?;
        file.map_or(Ok(0), |file| file.size().map_err(failed("inspect", &path)))
    }
}

impl ObjectSource for Store {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        if let Some(object) = self.read_local(id)? {
            return Ok(Some(object));
        }
        let distant = self.read_distant(std::slice::from_ref(id))?.pop();
        let object = distant.map(|(_, object)| object);
        if let Some(object) = &object {
            self.cache.insert(*id, object.clone());
        }
        Ok(object)
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        let is_here = read(&self.view).contains(id);
        Ok(is_here || (self.tombstone(id).is_none() && self.is_distant(id)?))
    }

    fn read_all(&self, kind: Kind, ids: &[ObjectId]) -> Result<Vec<Bytes>> {
        self.read_many(kind, ids)
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        // With unreadable files, report damage: the object may have been in one of them.
        let findings = self.findings();
        match findings.iter().find(|finding| finding.kind == FindingKind::Damage) {
            Some(damage) => Error::corrupt(&damage.place, format_args!("{kind} {id}"), "damage"),
            None => known_losses::missing_object_error(self, &self.refs(), (kind, id)),
        }
    }
}

/// The error of reading an object that was removed on purpose.
fn tombstone_error(id: &ObjectId, why: Tombstone) -> Error {
    match why {
        Tombstone::Elided => {
            Error::new(ErrorKind::Expired, format!("{id} was dropped by retention"))
        }
        Tombstone::Redacted => Error::new(ErrorKind::Redacted, format!("{id} was redacted")),
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

// A panic under one of these locks leaves no half-changed state that is not reread from disk.

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
