//! The superblock: identifies and describes a store. The lock of its file orders ref changes.
//!
//! ```text
//!  0        8      12     16     20      24        32          40         48        64       96
//!  | magic  | ver  | hash | tree | zero  | compat  | ro-compat | incompat | store id | checksum |
//!
//!  96           104            112        144        encrypted stores only
//!  | newest key | previous key | checksum |
//! ```
//!
//! Specified in `format-spec/store.md`. Written by [`create`], and replaced by [`replace`] when
//! keys change. A directory is a store if it has one. Two fields in a separate block after it
//! change in place. The epoch changes whenever files are removed, so that open handles reload; it
//! need not survive a crash. A byte records that the names of files are durable.

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::id::StoreId;
use crate::error::{Error, ErrorKind, Result};
use crate::object::Checksum;
use crate::store::dir::failed;
use crate::store::io::{Access, Identity, Io, IoFile};
use crate::store::repair::orphaned_files::check_not_lost;
use crate::store::{JOURNAL_DIR, PACKS_DIR, SUPERBLOCK_FILE};

/// The timeout of opening for the ref lock, if it needs the lock: other processes hold it for
/// microseconds.
pub(in crate::store) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The version this build writes, and the highest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// A byte over 127, both line ends and an end-of-file: a transfer that alters bytes alters these.
const MAGIC: [u8; 8] = *b"\x89TTB\r\n\x1a\n";
const CONTEXT: &str = "turntree v1 superblock";
const HASH_BLAKE3_256: u32 = 1;
const TREE_PARAMETERS: u32 = 1;

const AT_VERSION: usize = 8;
const AT_HASH: usize = 12;
const AT_TREE: usize = 16;
const AT_READ_ONLY_FEATURES: usize = 32;
const AT_INCOMPATIBLE_FEATURES: usize = 40;
const AT_STORE_ID: usize = 48;
const AT_CHECKSUM: usize = 64;
const BYTES: usize = 96;

/// The incompatible feature of a store whose files are enciphered.
const ENCRYPTED: u64 = 1;

/// The incompatible feature of a store that has a key for AES-256-CTR.
const ENCRYPTED_BY_AES: u64 = 2;

/// The incompatible feature of a store that may have archives without ids: older programs would
/// report them as damaged.
const WITHOUT_IDS: u64 = 4;

const KNOWN_FEATURES: u64 = ENCRYPTED | ENCRYPTED_BY_AES | WITHOUT_IDS;

/// Bytes after the superblock of an encrypted store: two names of keys, and their checksum.
const KEYS_BYTES: usize = 48;
const KEYS_CONTEXT: &str = "turntree v1 superblock keys";

/// The offset of a byte of an encrypted store: 1 when the names of this superblock and of the files
/// rewritten under it are durable.
const AT_SETTLED: u64 = 4104;

/// The offset of the epoch, in another block than the superblock, so that a torn write cannot
/// damage that.
const AT_EPOCH: u64 = 4096;

/// An open superblock.
#[derive(Debug)]
pub(in crate::store) struct Superblock {
    path: PathBuf,
    file: Arc<dyn IoFile>,
    threads: Mutex<()>,
    identity: Identity,
    /// The identity of the store.
    pub(in crate::store) store: StoreId,
    /// The names of the keys of the store's files, if they are encrypted.
    pub(in crate::store) keys: Option<KeyNames>,
    /// True if the store may have archives without ids.
    pub(in crate::store) allows_without_ids: bool,
    /// True if its name and those of rewritten files are durable. Otherwise a crash may bring back
    /// a previous superblock without these keys.
    is_settled: AtomicBool,
    /// Feature bits that a writer must know and this build does not.
    unknown_features: u64,
}

impl Superblock {
    /// Reads the superblock in `dir`.
    pub(in crate::store) fn open(io: &dyn Io, dir: &Path) -> Result<Self> {
        let path = dir.join(SUPERBLOCK_FILE);
        let Some(file) = io.open_if_exists(&path, Access::Read)? else {
            check_not_lost(io, dir)?;
            return Err(Error::not_found(format!("there is no store in {}", dir.display())));
        };
        let mut bytes = [0; BYTES];
        let read = file.read_at(&mut bytes, 0).map_err(failed("read", &path))?;
        let identity = file.identity().map_err(failed("read", &path))?;
        if read < BYTES {
            let found = format_args!("{read}");
            return Err(Error::corrupt(path.display(), format_args!("{BYTES} bytes"), found));
        }
        let found = decode(&bytes).map_err(|e| e.at(path.display()))?;
        let Features { store, is_encrypted, has_aes, allows_without_ids, unknown_features } = found;
        let keys = match is_encrypted {
            true => Some(KeyNames { has_aes, ..read_keys(&*file, &path)? }),
            false => None,
        };
        let mut settled = [u8::from(keys.is_none())];
        if keys.is_some() {
            file.read_at(&mut settled, AT_SETTLED).map_err(failed("read", &path))?;
        }
        let (threads, is_settled) = (Mutex::new(()), AtomicBool::new(settled == [1]));
        Ok(Self {
            path,
            file,
            threads,
            identity,
            store,
            keys,
            allows_without_ids,
            is_settled,
            unknown_features,
        })
    }

    /// Returns the content of the superblock.
    pub(in crate::store) fn content(&self) -> SuperblockContent {
        let Self { store, keys, allows_without_ids, .. } = *self;
        SuperblockContent { store, keys, allows_without_ids }
    }

    /// Fails unless this build knows every feature that a writer must know.
    pub(in crate::store) fn check_writable(&self) -> Result<()> {
        match self.unknown_features {
            0 => Ok(()),
            bits => Err(unsupported(&self.path, "may only be read: it has features", bits)),
        }
    }

    /// Syncs the names of the superblock and of the files before anything that builds on them is
    /// acknowledged. The process that changed the keys may have died before the names were durable.
    /// Then a crash could bring back a superblock without the keys, or a file in the old
    /// encryption.
    pub(in crate::store) fn sync_names(&self, io: &dyn Io, dir: &Path) -> Result<()> {
        if self.is_settled.load(Ordering::Acquire) {
            return Ok(());
        }
        for folder in [dir, &dir.join(JOURNAL_DIR), &dir.join(PACKS_DIR)] {
            match io.sync_dir(folder) {
                // A copy of a store may have lost an empty folder.
                Err(error) if error.kind() == IoErrorKind::NotFound => {}
                synced => synced.map_err(failed("sync", folder))?,
            }
        }
        let file = io.open_named(&self.path, Access::Write)?;
        // If another superblock has the name by now, do not write to it; nothing is committed here
        // then.
        if file.identity().map_err(failed("inspect", &self.path))? == self.identity {
            file.write_at(&[1], AT_SETTLED).map_err(failed("write", &self.path))?;
        }
        self.is_settled.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns the epoch. It changes when files are removed, and is odd during the removal. A
    /// writer may build on open files only if the epoch is still the one at which they were opened.
    pub(in crate::store) fn epoch(&self) -> Result<u64> {
        let mut word = [0; 8];
        let read = self.file.read_at(&mut word, AT_EPOCH).map_err(failed("read", &self.path))?;
        Ok(if read == word.len() { u64::from_le_bytes(word) } else { 0 })
    }

    /// Announces that files are about to be removed: the epoch is odd until
    /// [`Superblock::end_change`]. Only under the ref lock.
    pub(in crate::store) fn begin_change(&self, io: &dyn Io) -> Result<()> {
        self.set_epoch(io, (self.epoch()? | 1).wrapping_add(2))
    }

    /// Announces that the removal is complete or was abandoned.
    pub(in crate::store) fn end_change(&self, io: &dyn Io) -> Result<()> {
        self.set_epoch(io, self.epoch()?.wrapping_add(1))
    }

    fn set_epoch(&self, io: &dyn Io, epoch: u64) -> Result<()> {
        let file = io.open_named(&self.path, Access::Write)?;
        file.write_at(&epoch.to_le_bytes(), AT_EPOCH).map_err(failed("write", &self.path))
    }

    /// Takes the lock that orders ref changes. Hold it only for microseconds, never over an fsync.
    pub(in crate::store) fn lock(&self, io: &dyn Io, timeout: Duration) -> Result<RefLock<'_>> {
        // The file lock excludes other handles; the mutex excludes other threads.
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.file.lock(timeout).map_err(failed("lock", &self.path))? {
            let path = self.path.display();
            let message = format!("{path}: another process kept the lock for {timeout:?}");
            return Err(Error::new(ErrorKind::Locked, message));
        }
        let lock = RefLock { file: &*self.file, _threads: threads };
        // Otherwise other processes lock another file, and this lock excludes none of them.
        self.check_name(io)?;
        Ok(lock)
    }

    /// Fails unless this is still the superblock of the store: another process may have deleted or
    /// replaced the file.
    pub(in crate::store) fn check_name(&self, io: &dyn Io) -> Result<()> {
        let path = self.path.display();
        match io.identity_if_exists(&self.path)? {
            Some(found) if found == self.identity => Ok(()),
            Some(_) => {
                let message = format!(
                    "{path} was replaced after it was opened, as when keys change: open the store again and retry"
                );
                Err(Error::new(ErrorKind::Conflict, message))
            }
            None => Err(Error::not_found(format!("{path} was removed after it was opened"))),
        }
    }
}

/// The lock that orders ref changes, while it is held.
#[derive(Debug)]
pub(in crate::store) struct RefLock<'a> {
    file: &'a dyn IoFile,
    _threads: MutexGuard<'a, ()>,
}

impl Drop for RefLock<'_> {
    fn drop(&mut self) {
        // If unlocking fails, the lock lasts until this process ends; other processes report
        // `Locked`.
        let _ = self.file.unlock();
    }
}

/// The content of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct SuperblockContent {
    /// The identity of the store.
    pub(in crate::store) store: StoreId,
    /// The names of the keys of the store, if it is encrypted.
    pub(in crate::store) keys: Option<KeyNames>,
    /// True if the store may have archives without ids.
    pub(in crate::store) allows_without_ids: bool,
}

/// Writes the superblock of a new store and syncs it, as the last step of creating the store.
pub(in crate::store) fn create(io: &dyn Io, dir: &Path, content: &SuperblockContent) -> Result<()> {
    let (path, temporary) = (dir.join(SUPERBLOCK_FILE), temporary(dir, content.store));
    let failed = failed("create", &path);
    write_temporary(io, &temporary, content)?;
    if let Err(source) = io.publish(&temporary, &path) {
        // Clean up, but report the first error.
        let _ = io.remove(&temporary);
        return Err(match source.kind() {
            IoErrorKind::AlreadyExists => {
                Error::invalid(format!("there is a store in {} already", dir.display()))
            }
            _ => failed(source),
        });
    }
    io.sync_dir(dir).map_err(failed)
}

/// Replaces the superblock, and locks the new one before another process can. Handles opened before
/// notice the replacement at their next commit or refresh, and have to be opened again.
///
/// Only under the ref lock of the present superblock. `is_settled` must be true only if the names
/// of all other files are durable.
pub(in crate::store) fn replace(
    io: &dyn Io,
    dir: &Path,
    content: &SuperblockContent,
    is_settled: bool,
) -> Result<Arc<dyn IoFile>> {
    let (path, temporary) = (dir.join(SUPERBLOCK_FILE), temporary(dir, content.store));
    let failed = failed("replace", &path);
    let former = io.open_if_exists(&path, Access::Write)?;
    let file = write_temporary(io, &temporary, content)?;
    let replaced = file.lock(Duration::ZERO).and_then(|_| io.replace(&temporary, &path));
    if let Err(source) = replaced {
        let _ = io.remove(&temporary);
        return Err(failed(source));
    }
    // Readers of the former one check only its epoch. One that misses this change notices it when
    // it commits.
    let mut epoch = [0; 8];
    if let Some(former) = former
        && former.read_at(&mut epoch, AT_EPOCH).is_ok()
    {
        let next = u64::from_le_bytes(epoch).wrapping_add(2);
        let _ = former.write_at(&next.to_le_bytes(), AT_EPOCH);
    }
    io.sync_names(dir)?;
    if is_settled {
        file.write_at(&[1], AT_SETTLED).map_err(failed)?;
    }
    Ok(file)
}

fn temporary(dir: &Path, store: StoreId) -> PathBuf {
    dir.join(format!("{SUPERBLOCK_FILE}-{store}.tmp"))
}

fn write_temporary(
    io: &dyn Io,
    temporary: &Path,
    content: &SuperblockContent,
) -> Result<Arc<dyn IoFile>> {
    let failed = failed("create", temporary);
    io.remove_if_exists(temporary)?;
    let file = io.create(temporary).map_err(&failed)?;
    file.write_at(&encode(content), 0).map_err(&failed)?;
    file.sync_data().map_err(&failed)?;
    Ok(file)
}

fn encode(content: &SuperblockContent) -> Vec<u8> {
    let SuperblockContent { store, keys, allows_without_ids } = *content;
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(&MAGIC);
    for word in [FORMAT_VERSION, HASH_BLAKE3_256, TREE_PARAMETERS, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&[0; 16]);
    let encryption = match keys {
        None => 0,
        Some(KeyNames { has_aes: false, .. }) => ENCRYPTED,
        Some(KeyNames { has_aes: true, .. }) => ENCRYPTED | ENCRYPTED_BY_AES,
    };
    let archives = if allows_without_ids { WITHOUT_IDS } else { 0 };
    bytes.extend_from_slice(&(encryption | archives).to_le_bytes());
    bytes.extend_from_slice(&store.0);
    let checksum = Checksum::new(CONTEXT).update(&bytes).finish();
    bytes.extend_from_slice(&checksum);
    bytes.extend(keys.iter().flat_map(KeyNames::encode));
    bytes
}

/// Reads the names of the keys of an encrypted store, which follow the superblock.
fn read_keys(file: &dyn IoFile, path: &Path) -> Result<KeyNames> {
    let mut bytes = [0; KEYS_BYTES];
    let read = file.read_at(&mut bytes, BYTES as u64).map_err(failed("read", path))?;
    let found = bytes.get(..read).and_then(KeyNames::decode);
    found.ok_or_else(|| Error::malformed(path.display(), "the names of the keys of the store"))
}

/// The names of the keys of an encrypted store. They reveal nothing about the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct KeyNames {
    /// The key of new files.
    pub(in crate::store) newest: u64,
    /// The key of older files, during a rotation.
    pub(in crate::store) previous: Option<u64>,
    /// True if a key is for AES-256-CTR. This is a feature bit of the superblock, so that programs
    /// without the cipher refuse the store.
    pub(in crate::store) has_aes: bool,
}

impl KeyNames {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.newest.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.previous.unwrap_or_default().to_be_bytes());
        let checksum = Checksum::new(KEYS_CONTEXT).update(&bytes).finish();
        bytes.extend_from_slice(&checksum);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, checksum) = bytes.split_last_chunk::<32>()?;
        let whole = Checksum::new(KEYS_CONTEXT).update(content).finish() == *checksum;
        let (newest, previous) = content.split_first_chunk::<8>()?;
        let previous = u64::from_be_bytes(*previous.first_chunk()?);
        let newest = u64::from_be_bytes(*newest);
        let previous = Some(previous).filter(|name| *name != 0);
        whole.then_some(Self { newest, previous, has_aes: false })
    }
}

/// The id of the store, and its features.
struct Features {
    store: StoreId,
    is_encrypted: bool,
    /// True if a key of the store is for AES-256-CTR.
    has_aes: bool,
    allows_without_ids: bool,
    /// Read-only features; this build knows none.
    unknown_features: u64,
}

fn decode(bytes: &[u8; BYTES]) -> Result<Features> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Error::malformed("byte 0", "the magic of a superblock"));
    }
    let version = word::<4>(bytes, AT_VERSION).map(u32::from_le_bytes);
    if version.is_some_and(|version| version > FORMAT_VERSION) {
        let message = format!("format version {version:?} is newer than {FORMAT_VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let (content, checksum) = bytes.split_at(AT_CHECKSUM);
    if Checksum::new(CONTEXT).update(content).finish() != *checksum {
        return Err(Error::malformed("byte 64", "the checksum of the superblock"));
    }
    for (at, known, what) in [
        (AT_VERSION, FORMAT_VERSION, "format version"),
        (AT_HASH, HASH_BLAKE3_256, "hash algorithm"),
        (AT_TREE, TREE_PARAMETERS, "tree parameters"),
    ] {
        let found = word(bytes, at).map_or(0, u32::from_le_bytes);
        if found != known {
            let message = format!("{what} {found} are unknown to this build, which has {known}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    let incompatible = word(bytes, AT_INCOMPATIBLE_FEATURES).map_or(0, u64::from_le_bytes);
    let unknown = incompatible & !KNOWN_FEATURES;
    if unknown != 0 {
        let path = Path::new(SUPERBLOCK_FILE);
        return Err(unsupported(path, "cannot be read: it has", unknown));
    }
    let unknown_features = word(bytes, AT_READ_ONLY_FEATURES).map_or(0, u64::from_le_bytes);
    let store = StoreId(word(bytes, AT_STORE_ID).unwrap_or_default());
    let has_aes = incompatible & ENCRYPTED_BY_AES != 0;
    let is_encrypted = incompatible & ENCRYPTED != 0;
    let allows_without_ids = incompatible & WITHOUT_IDS != 0;
    Ok(Features { store, is_encrypted, has_aes, allows_without_ids, unknown_features })
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn unsupported(path: &Path, what: &str, bits: u64) -> Error {
    let message = format!("{} {what} features {bits:#x} unknown to this build", path.display());
    Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::io::RealIo;

    const STORE: StoreId = StoreId([7; 16]);

    fn content(keys: Option<KeyNames>) -> SuperblockContent {
        SuperblockContent { store: STORE, keys, allows_without_ids: false }
    }

    fn opened(dir: &Path) -> Superblock {
        Superblock::open(&RealIo, dir).unwrap()
    }

    fn lock_error(superblock: &Superblock) -> ErrorKind {
        superblock.lock(&RealIo, Duration::ZERO).unwrap_err().kind()
    }

    #[test]
    fn only_one_handle_has_the_lock_and_none_once_the_file_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        create(&RealIo, dir, &content(None)).unwrap();
        let (first, second) = (opened(dir), opened(dir));
        let held = first.lock(&RealIo, Duration::ZERO).unwrap();
        assert_eq!(lock_error(&second), ErrorKind::Locked);
        drop(held);
        drop(second.lock(&RealIo, Duration::ZERO).unwrap());

        RealIo.remove(&dir.join(SUPERBLOCK_FILE)).unwrap();
        assert_eq!(lock_error(&first), ErrorKind::NotFound, "removed");
        create(&RealIo, dir, &content(None)).unwrap();
        assert_eq!(lock_error(&first), ErrorKind::Conflict, "replaced");
        drop(opened(dir).lock(&RealIo, Duration::ZERO).unwrap());
    }

    #[test]
    fn the_epoch_is_odd_in_a_change_and_another_one_after_each() {
        let folder = tempfile::tempdir().unwrap();
        create(&RealIo, folder.path(), &content(None)).unwrap();
        let (superblock, reader) = (opened(folder.path()), opened(folder.path()));
        assert_eq!(reader.epoch().unwrap(), 0);
        let mut seen = vec![0];
        for change in 0..4 {
            superblock.begin_change(&RealIo).unwrap();
            seen.push(reader.epoch().unwrap());
            assert_eq!(seen.last().unwrap() % 2, 1, "in a change");
            // The second change is never ended, as if its process had died.
            if change != 1 {
                superblock.end_change(&RealIo).unwrap();
                seen.push(reader.epoch().unwrap());
                assert_eq!(seen.last().unwrap() % 2, 0, "after a change");
            }
        }
        let different: std::collections::HashSet<u64> = seen.iter().copied().collect();
        assert_eq!(different.len(), seen.len(), "{seen:?}");
        assert_eq!(opened(folder.path()).store, STORE);
    }

    #[test]
    fn a_superblock_round_trips_and_every_flipped_bit_is_noticed() {
        for allows_without_ids in [false, true] {
            let content = SuperblockContent { allows_without_ids, ..content(None) };
            let bytes: [u8; BYTES] = encode(&content).try_into().unwrap();
            let found = decode(&bytes).unwrap();
            let features = (found.is_encrypted, found.allows_without_ids, found.unknown_features);
            assert_eq!((found.store, features), (STORE, (false, allows_without_ids, 0)));
            for bit in 0..BYTES * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&damaged).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_feature_of_a_newer_program_is_said_to_be_one_and_not_damage() {
        let mut bytes: [u8; BYTES] = encode(&content(None)).try_into().unwrap();
        bytes[AT_INCOMPATIBLE_FEATURES] = 8;
        let checksum = Checksum::new(CONTEXT).update(&bytes[..AT_CHECKSUM]).finish();
        bytes[AT_CHECKSUM..].copy_from_slice(&checksum);
        let error = decode(&bytes).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("features 0x8 unknown to this build"), "{error}");
    }

    #[test]
    fn an_encrypted_store_names_its_keys_and_a_flipped_bit_in_them_is_noticed() {
        for (previous, has_aes) in [(None, false), (None, true), (Some(5), false), (Some(5), true)]
        {
            let folder = tempfile::tempdir().unwrap();
            let names = KeyNames { newest: 7, previous, has_aes };
            create(&RealIo, folder.path(), &content(Some(names))).unwrap();
            assert_eq!(opened(folder.path()).keys, Some(names));
            let path = folder.path().join(SUPERBLOCK_FILE);
            let whole = std::fs::read(&path).unwrap();
            for bit in 0..whole.len() * 8 {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, damaged).unwrap();
                assert!(Superblock::open(&RealIo, folder.path()).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_superblock_that_takes_the_place_of_another_is_locked_before_anybody_can_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        create(&RealIo, dir, &content(None)).unwrap();
        let first = opened(dir);
        let names = KeyNames { newest: 7, previous: None, has_aes: true };
        let held = replace(&RealIo, dir, &content(Some(names)), true).unwrap();
        assert_eq!(lock_error(&first), ErrorKind::Conflict, "replaced");
        assert_ne!(first.epoch().unwrap(), 0, "what a reader looks at");
        assert_eq!(lock_error(&opened(dir)), ErrorKind::Locked);
        drop(held);
        drop(opened(dir).lock(&RealIo, Duration::ZERO).unwrap());
    }
}
