//! Bytes on disk: objects and refs, written in one step and verified on every read.
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
//! Rules that everything here keeps, each of which some store broke at a cost:
//! - A file has one writer, known by a lock that dies with it. Nobody truncates, and nobody writes
//!   to a file that another process owns.
//! - Opening writes nothing. A batch whose trailer does not verify was never acknowledged and is
//!   ignored; if a good batch follows it, it is damage and becomes a [`Finding`], and everything
//!   that verifies stays readable.
//! - Nothing is acknowledged before it, and all it builds on, is durable. What failed to become
//!   durable is stored again elsewhere, not synced again.
//! - Readers take no lock and wait for nobody.
//!
//! Refs are the sum of the operations, which form a chain in the order of the lock. A [`Store`] is
//! one process's view of it: its own commits at once, those of others after [`Store::refresh`] or
//! its own next commit. Specified in `format-spec/store.md`, `journal.md` and `manifest.md`.
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
mod paced;
mod pack;
mod parity;
mod read;
mod repair;
mod replace;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

use bytes::Bytes;

pub(crate) use derived::{DerivedFile, PackHandle};
pub use distant::{BundleEnds, BundleIndex, DISTANT_REFS, RangeSource};
pub use encryption::{STORE_KEY_BYTES, StoreCipher, StoreKey, StoreKeys, enciphered};
pub(crate) use encryption::{decipher, encipher};
pub use format::superblock::FORMAT_VERSION;
pub use io::{Access, Identity, Io, IoFile, Mapping, ReadAt, RealIo};
pub(crate) use pack::quietly;
pub use pack::{
    BundleDraft, BundleFile, BundleWritten, Outside, PackItem, PackSize, Tier, Tombstone,
};
pub use parity::{
    Mended, PARITY_POLICY_REF, Parity, ParityDamage, ParityShare, Protected, append_parity,
    repair_by_parity,
};
pub use read::inventory::{Inventory, InventoryEntry, InventoryFile};
pub(crate) use read::read_guard::ReadGuard;
pub(crate) use read::refs::MAX_JOINED;
pub use read::refs::{Expected, OperationDraft, RefTable, RefUpdate};
pub(crate) use repair::examine::Detached;
pub use repair::examine::{Examination, Progress, Thoroughness};
pub use repair::known_losses::KNOWN_LOSSES_REF;
pub(crate) use repair::known_losses::KnownLosses;
pub use repair::salvage::{SalvageFate, SalvagedFile};
pub(crate) use replace::collect::pack_room;
pub use replace::collect::{Collection, CollectorLock, FileReplacement, Replaced};
pub use replace::encryption::EncryptionChange;
pub(crate) use replace::idle::JournalSize;

use self::dir::failed;
use self::distant::Distant;
use self::format::id::StoreId;
use self::format::segment::Location;
use self::format::superblock::{self, Superblock, SuperblockContent};
use self::pack::{BlockCache, PackId};
use self::read::cache::Cache;
use self::read::journal::Journal;
use self::read::kept_contents::KeptContents;
use self::read::load::{self, Opened};
use self::read::pages::{PageCounter, STRETCHES_OF_ONE};
use self::read::read_guard::ReadGuards;
use self::read::sweep::WholeFiles;
use self::read::view::View;
use self::repair::{known_losses, remains};
use self::write::commit::BatchWriter;
use self::write::untracked;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{IdPrefix, Kind, Object, ObjectId, ObjectSource};

/// An object of no more bytes is copied before it is kept: it may be a part of a map, and whenever it is
/// looked at again the system would bring the file around it back into memory.
const COPIED_BYTES: usize = 4 << 10;

/// Times that a store is opened whose keys change at the same time.
const MAX_OPENINGS: usize = 16;

/// The file that makes a directory a store.
const SUPERBLOCK_FILE: &str = "superblock";

const JOURNAL_DIR: &str = "journal";
/// The folder of derived files, which may go at any time.
const DERIVED_DIR: &str = "derived";
const PACKS_DIR: &str = "packs";
const QUARANTINE_DIR: &str = "quarantine";

/// The folder of the stat caches of captures. Its files may go at any time.
pub(crate) const WORKSPACES_DIR: &str = "workspaces";

/// The prefix of names of databases that are derived from a store, in the folder of its caches.
pub(crate) const DATABASE_PREFIX: &str = "derived-";

/// The name of the cache of adopted files there, which holds no content.
pub(crate) const ADOPTIONS_FILE: &str = "adopted";

/// The name of the list of directories that were captured, by hashes of their paths.
pub(crate) const CAPTURED_FILE: &str = "captured-directories";

/// The folder of frames that were read elsewhere. Its files may go at any time.
const DISTANT_DIR: &str = "distant";

/// The folder of the key of an encrypted store, wrapped for those who may open it: whoever opens the
/// store for people reads and writes it, and nothing here does.
pub const KEYS_DIR: &str = "keys";

/// The file whose lock a process holds that looks after the store by itself, for as long as it does.
pub const MAINTENANCE_LOCK: &str = "maintenance.lock";

/// The log of failed hooks, a file that may go at any time. It holds no content.
pub const HOOK_LOG: &str = "hook.log";

/// A store on disk, open to read and write. Shared between threads by reference or `Arc`.
pub struct Store {
    io: Arc<dyn Io>,
    /// What is below `io`, which enciphers files if the store is encrypted.
    disk: Arc<dyn Io>,
    /// The keys of its files then.
    keys: Option<StoreKeys>,
    dir: PathBuf,
    superblock: Superblock,
    durability: Durability,
    lock_timeout: Duration,
    /// Called when a collection of somebody else is waited for; nothing is waited for without it.
    waiting: OnceLock<fn()>,
    /// Set when nothing is to be kept beside the store.
    no_caches: OnceLock<()>,
    /// The parity of packs, if it was chosen.
    pack_parity: OnceLock<Option<ParityShare>>,
    /// Set when archives leave out ids.
    without_ids: OnceLock<()>,
    cache: Cache,
    /// What searches have read.
    contents: KeptContents,
    blocks: BlockCache,
    pages: PageCounter,
    /// What was looked at whether it leads everywhere.
    whole: Mutex<Arc<WholeFiles>>,
    distant: Distant,
    // Taken in this order, and the ref lock of the superblock between the first and the second.
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
    /// Random bytes, different for every handle: new segments are named by them, and a name must
    /// not be guessed by whoever supplies payloads.
    pub writer_seed: [u8; 16],
    /// Most bytes of verified objects that are kept in memory.
    pub cache_bytes: usize,
    /// Most bytes of unpacked blocks that are kept in memory.
    pub block_cache_bytes: usize,
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// The time that a commit waits for the ref lock, which others hold for microseconds.
    pub lock_timeout: Duration,
    /// The keys of the store, if it is encrypted; of no meaning for one that is not.
    pub keys: Option<StoreKeys>,
}

impl OpenOptions {
    /// Full durability, caches of 24 and 16 MiB, and ten seconds of patience with a ref lock.
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
    /// When it survives a power cut.
    Full,
    /// When it is written. A crash of the machine may lose or damage the store: for stores that
    /// can be made again.
    None,
}

/// The size of a batch that was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchReport {
    /// Objects that were not there before, the operation of a commit included.
    pub objects: usize,
    /// Bytes on disk, everything included.
    pub stored_bytes: u64,
}

/// The outcome of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The operation it is recorded as.
    pub operation: ObjectId,
    /// The number of that operation in the store.
    pub sequence: u64,
    /// The size of its batch.
    pub written: BatchReport,
}

/// Something that is wrong with the files of a store, and did not keep it from being opened.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A batch that is not whole and was never acknowledged: a process died while it wrote.
    TornTail,
    /// Bytes that were acknowledged have changed or are missing.
    Damage,
    /// A file that belongs to nobody: a process died before it could remove it.
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
    /// Objects; one that lies in two files counts twice.
    pub objects: usize,
    /// Segments that may still grow.
    pub active_segments: usize,
    /// Segments that are sealed.
    pub sealed_segments: usize,
    /// Packs.
    pub packs: usize,
    /// Objects in segments; one that lies in two counts twice.
    pub journal_objects: usize,
    /// Bytes of records in segments, headers included.
    pub journal_bytes: u64,
    /// Bytes of records and packs, headers included.
    pub used_bytes: u64,
    /// Bytes of the parity of packs.
    pub parity_bytes: u64,
    /// Bytes of what was derived from packs, such as history indexes.
    pub derived_bytes: u64,
    /// Bytes of the ids of packs that list none, which are part of these.
    pub ids_bytes: u64,
    /// Bytes of all these files; what is not used is zeros for the next commits.
    pub file_bytes: u64,
}

impl Store {
    /// Makes a new store in `dir`, which is made too. After a crash there is a whole store or none.
    ///
    /// # Errors
    /// `InvalidInput` when there is a store in `dir` already, `Corrupt` when there was one that lost its
    /// superblock, `Io` when the disk refuses.
    pub fn create(io: &dyn Io, dir: &Path, new: &NewStore) -> Result<()> {
        remains::check_not_lost(io, dir)?;
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

    /// Opens the store in `dir`. Writes nothing; what is damaged is in [`Store::findings`].
    ///
    /// The cost grows with the active segments, at most some 8 MiB each, of which directories are
    /// read; sealed ones and packs are only mapped, and their indexes are verified when they are needed.
    ///
    /// # Errors
    /// `NotFound` when there is no store in `dir`, `Unsupported` when it has a newer format,
    /// `Corrupt` when its superblock does not verify, `Encrypted` when its keys are not those of the
    /// options, `Io` when it cannot be read.
    pub fn open(io: Arc<dyn Io>, dir: &Path, options: OpenOptions) -> Result<Self> {
        let disk = io;
        for _ in 0..MAX_OPENINGS {
            let superblock = Superblock::open(&*disk, dir)?;
            let (io, keys) = encryption::below(&disk, &superblock, dir, &options)?;
            let loaded = load::open(&io, dir, &superblock, Opened::Used);
            // A change of keys replaces the superblock before any other file: what was read with the keys
            // of before may be noise, which looks like damage, or like a journal without batches.
            let is_replaced = superblock.check_name(&*disk);
            if !is_replaced.is_err_and(|error| error.kind() == ErrorKind::Conflict) {
                return Self::opened((io, disk, keys), dir, superblock, options, loaded?);
            }
        }
        Err(load::too_many_retries(dir))
    }

    /// The handle of a store whose files were read.
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
            cache: Cache::new(options.cache_bytes),
            contents: KeptContents::default(),
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

    /// The keys of its files, if it is encrypted.
    #[must_use]
    pub fn keys(&self) -> Option<&StoreKeys> {
        self.keys.as_ref()
    }

    /// Lets this handle keep no caches beside the store: it is of somebody else, and is only read.
    pub fn keep_no_caches(&self) {
        let _ = self.no_caches.set(());
    }

    /// Returns whether [`Store::keep_no_caches`] was called.
    #[must_use]
    pub fn keeps_no_caches(&self) -> bool {
        self.no_caches.get().is_some()
    }

    /// Its directory, as it was named when it was opened.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The refs, as of the last commit or refresh. Does not change under the caller.
    #[must_use]
    pub fn refs(&self) -> Arc<RefTable> {
        Arc::clone(&read(&self.view).refs)
    }

    /// Up to `limit` objects whose ids start with `prefix`, in order of their ids.
    #[must_use]
    pub fn find(&self, prefix: &IdPrefix, limit: usize) -> Vec<(ObjectId, Kind)> {
        read(&self.view).find(prefix, limit)
    }

    /// Why an object is not in the store any more, if it was there and went on purpose.
    #[must_use]
    pub fn tombstone(&self, id: &ObjectId) -> Option<Tombstone> {
        let view = read(&self.view);
        if view.finds(id) {
            return None;
        }
        view.files.tombstone(id).filter(|_| !view.contains(id))
    }

    /// The ids of all that was there and went on purpose, rising. Costs a look at each of them.
    pub(crate) fn gone(&self) -> Vec<ObjectId> {
        let view = read(&self.view);
        let gone = view.files.packs.iter().flat_map(|pack| pack.tombstones());
        let mut gone: Vec<_> = gone.map(|(id, ..)| id).filter(|id| !view.contains(id)).collect();
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    /// Returns true if an object of this kind has gone, as far as tombstones tell.
    pub(crate) fn has_gone(&self, kind: Kind) -> bool {
        let view = read(&self.view);
        let mut gone = view.files.packs.iter().flat_map(|pack| pack.tombstones());
        gone.any(|(id, of, _)| of == kind && !view.contains(&id))
    }

    /// The object `id` from its files, from another copy when the one that is read first is damaged.
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

    /// Returns true if an object is found here or elsewhere, without making sure that one that is not
    /// found is nowhere: a damaged index may hide it. Enough to know what is new, where to take something
    /// for new once more does no harm.
    ///
    /// # Errors
    /// Those of looking elsewhere.
    pub(crate) fn finds(&self, id: &ObjectId) -> Result<bool> {
        let is_here = read(&self.view).finds(id);
        Ok(is_here || (self.is_distant(id)? && self.tombstone(id).is_none()))
    }

    /// Notes what is read of maps, and now and then gives it back.
    fn note_pages(&self, stretches: usize) {
        self.pages.note(stretches, || Arc::clone(&read(&self.view).files));
    }

    /// The object `id`, if it lies in this store.
    fn read_here(&self, id: &ObjectId) -> Result<Option<Object>> {
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
        findings.extend(view.files.sealed.iter().filter_map(|sealed| sealed.noticed().cloned()));
        findings.extend(view.files.packs.iter().filter_map(|pack| pack.noticed()));
        findings
    }

    /// The id of the store, which it was made with.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.superblock.store.0
    }

    /// Counts the files and objects.
    ///
    /// # Errors
    /// `Io` when a segment or a parity cannot be looked at.
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

    /// Bytes of the file with the parity of a pack, 0 when there is none.
    fn parity_bytes(&self, id: PackId) -> Result<u64> {
        let path = self.dir.join(PACKS_DIR).join(id.parity_name());
        let file = self.io.open_if_exists(&path, Access::Read)?;
        file.map_or(Ok(0), |file| file.size().map_err(failed("look at", &path)))
    }
}

impl ObjectSource for Store {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        if let Some(object) = self.read_here(id)? {
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
        // It may have been in what cannot be read: that it never was there is more than we know.
        let findings = self.findings();
        match findings.iter().find(|finding| finding.kind == FindingKind::Damage) {
            Some(damage) => Error::corrupt(&damage.place, format_args!("{kind} {id}"), "damage"),
            None => known_losses::explain(self, &self.refs(), (kind, id)),
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

// A panic while one of these is held leaves nothing half-changed that is not read again from disk.

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
