//! Encrypts a whole store, changes its key, or decrypts it.
//!
//! The content of no file changes, so each file is copied and replaced in any order. The header of
//! a file records how to read it. So after a crash at any moment the keys in the superblock read
//! every file, and the next attempt continues where this one stopped.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::idle::LAST_STEP_FILE;
use crate::error::{Error, Result};
use crate::object::Checksum;
use crate::store::DERIVED_DIR;
use crate::store::dir::failed;
use crate::store::encryption::{EncryptedFile, EncryptedIo, is_plain};
use crate::store::format::manifest;
use crate::store::format::superblock::{self, SuperblockContent};
use crate::store::io::{Access, Io, IoFile};
use crate::store::{
    DISTANT_DIR, JOURNAL_DIR, PACKS_DIR, QUARANTINE_DIR, Store, StoreKey, StoreKeys, WORKSPACES_DIR,
};

/// Bytes per read of a copy.
const COPY_BYTES: usize = 1 << 20;

/// The work of a change of encryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncryptionChange {
    /// Files to rewrite.
    pub files: u64,
    /// Bytes of these files. The largest file exists on the disk twice while it is copied.
    pub bytes: u64,
}

impl Store {
    /// Returns the work that [`Store::change_encryption`] would do.
    ///
    /// # Errors
    /// `Io` when the files cannot be read.
    pub fn plan_encryption(&self, target: Option<StoreKey>) -> Result<EncryptionChange> {
        let mut change = EncryptionChange::default();
        let converter = Converter::new(self, target);
        for path in converter.files()? {
            if let Some(file) = converter.open_unconverted(&path)? {
                change.files += 1;
                change.bytes += file.size().map_err(failed("read", &path))?;
            }
        }
        Ok(change)
    }

    /// Enciphers every file of the store with `target`, or deciphers every file if that is `None`.
    /// Each copy is read back and compared before it replaces the original. `seed` must be random
    /// bytes that no other call was given.
    ///
    /// No process can commit during the change. Afterwards every handle, this one included, must be
    /// opened again with only the target to commit. Caches and logs in the store are deleted. The
    /// old bytes stay on the disk until the file system reuses the space.
    ///
    /// After an error or a crash, open the store with both keys, the target as the newest, and call
    /// this again. The target of an unfinished change must be passed again before another key.
    ///
    /// # Errors
    /// `Locked` while other processes replace files or commit, `InvalidInput` when an earlier
    /// change to another key is unfinished, `Corrupt` when a copy does not read back, `Io` when the
    /// disk refuses.
    pub fn change_encryption(
        &self,
        target: Option<StoreKey>,
        seed: [u8; 16],
    ) -> Result<EncryptionChange> {
        self.superblock.check_writable()?;
        let transition = self.transition_keys(target)?;
        let collector = self.lock_collector()?.0;
        let _ref_lock = self.superblock.lock(&*self.disk, self.lock_timeout)?;
        self.check_collector(&*collector)?;
        let keys = transition.map(|keys| keys.names());
        let content = SuperblockContent { keys, ..self.superblock.content() };
        // From here on no other process commits: the superblock that it has open lost its name, and
        // the lock of this one is held.
        let _held = superblock::replace(&*self.disk, &self.dir, &content, false)?;
        let converter = Converter { io: &*self.disk, dir: &self.dir, keys: transition, target };
        let change = converter.convert_all(seed)?;
        converter.remove_plain()?;
        let keys = target.map(|key| StoreKeys::from(key).names());
        let content = SuperblockContent { keys, ..content };
        let _held = superblock::replace(&*self.disk, &self.dir, &content, true)?;
        Ok(change)
    }

    /// Returns the keys that read every file during a change to `target`.
    fn transition_keys(&self, target: Option<StoreKey>) -> Result<Option<StoreKeys>> {
        let Some(present) = self.keys else { return Ok(target.map(StoreKeys::from)) };
        match target {
            Some(newest) if newest == present.newest => Ok(Some(present)),
            None => Ok(Some(present)),
            Some(newest) if present.previous.is_none() => {
                Ok(Some(StoreKeys { newest, previous: Some(present.newest) }))
            }
            Some(_) => Err(Error::invalid(format!(
                "an earlier change to key {} was interrupted: run it again first",
                present.newest.name()
            ))),
        }
    }
}

/// The files of a store, and the encryption to convert them to.
struct Converter<'a> {
    io: &'a dyn Io,
    dir: &'a Path,
    /// Keys that files may be enciphered with now, if any.
    keys: Option<StoreKeys>,
    target: Option<StoreKey>,
}

impl<'a> Converter<'a> {
    fn new(store: &'a Store, target: Option<StoreKey>) -> Self {
        let keys = store.keys.or(target.map(StoreKeys::from));
        Self { io: &*store.disk, dir: &store.dir, keys, target }
    }

    /// Returns the paths of all files with content.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let own = |name: &str| manifest::generation(name).is_some();
        files.extend(
            self.io.list_names(self.dir)?.into_iter().filter(|name| own(name)).map(PathBuf::from),
        );
        for folder in [JOURNAL_DIR, PACKS_DIR, QUARANTINE_DIR] {
            for name in self.io.list_or_empty(&self.dir.join(folder))? {
                let path = Path::new(folder).join(&name);
                if !is_temporary(&name) && !is_plain(&path) {
                    files.push(path);
                }
            }
        }
        Ok(files.into_iter().map(|file| self.dir.join(file)).collect())
    }

    /// Opens a file that is not yet in the target encryption. Returns `None` if it is, or is
    /// missing.
    fn open_unconverted(&self, path: &Path) -> Result<Option<Arc<dyn IoFile>>> {
        let Some(file) = self.io.open_if_exists(path, Access::Read)? else { return Ok(None) };
        let Some(keys) = self.keys else { return Ok(None) };
        let found = EncryptedFile::of(file, keys);
        let is_done = match &self.target {
            Some(key) => found.is_of(key),
            None => found.is_plain(),
        };
        match is_done.map_err(failed("read", path))? {
            true => Ok(None),
            false => Ok(Some(Arc::new(found))),
        }
    }

    fn convert_all(&self, seed: [u8; 16]) -> Result<EncryptionChange> {
        let target = self.target.map(|key| EncryptedIo::new(self.io, key.into(), seed));
        let to = target.as_ref().map_or(self.io, |io| io as &dyn Io);
        let mut change = EncryptionChange::default();
        loop {
            let before = change.files;
            for path in self.files()? {
                let Some(file) = self.open_unconverted(&path)? else { continue };
                change.files += 1;
                change.bytes += file.size().map_err(failed("read", &path))?;
                self.convert(&*file, to, &path)?;
            }
            // A handle opened before may create a segment until it notices that the superblock was
            // replaced.
            if change.files == before {
                break;
            }
        }
        for folder in ["", JOURNAL_DIR, PACKS_DIR, QUARANTINE_DIR] {
            match self.io.sync_dir(&self.dir.join(folder)) {
                // A copy of a store may have lost an empty folder.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                synced => synced.map_err(failed("sync", self.dir))?,
            }
        }
        Ok(change)
    }

    /// Writes a copy of a file, and replaces the original if the copy reads back.
    fn convert(&self, from: &dyn IoFile, to: &dyn Io, path: &Path) -> Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(TEMPORARY);
        let temporary = PathBuf::from(temporary);
        self.io.remove_if_exists(&temporary)?;
        let copy = to.create(&temporary).map_err(failed("create", &temporary))?;
        let copied = for_each_piece(from, path, &mut |piece, offset| {
            copy.write_at(piece, offset).map_err(failed("write", &temporary))
        });
        let compared = copied.and_then(|digest| {
            copy.sync_data().map_err(failed("sync", &temporary))?;
            let again = to.open_named(&temporary, Access::Read)?;
            match for_each_piece(&*again, &temporary, &mut |_, _| Ok(()))? == digest {
                true => self.io.replace(&temporary, path).map_err(failed("replace", path)),
                false => Err(Error::malformed(temporary.display(), "the bytes that were written")),
            }
        });
        compared.inspect_err(|_| {
            let _ = self.io.remove(&temporary);
        })
    }

    /// Removes files in the old encryption: temporary files, caches, logs.
    fn remove_plain(&self) -> Result<()> {
        let caches = [WORKSPACES_DIR, DISTANT_DIR, DERIVED_DIR];
        let folders = ["", JOURNAL_DIR, PACKS_DIR, QUARANTINE_DIR].into_iter().chain(caches);
        for folder in folders {
            let folder_path = self.dir.join(folder);
            for name in self.io.list_or_empty(&folder_path)? {
                // The last maintenance step records an error message, as the log does.
                let is_log =
                    folder.is_empty() && (name.ends_with(".log") || name == LAST_STEP_FILE);
                let is_cache = caches.contains(&folder);
                if is_cache || is_log || is_temporary(&name) {
                    self.io.remove_if_exists(&folder_path.join(name))?;
                }
            }
        }
        Ok(())
    }
}

/// The suffix of a file that was not renamed to its final name yet.
const TEMPORARY: &str = ".tmp";

fn is_temporary(name: &str) -> bool {
    name.ends_with(TEMPORARY)
}

/// Reads a file piece by piece and returns the digest of its content.
fn for_each_piece(
    file: &dyn IoFile,
    path: &Path,
    take: &mut dyn FnMut(&[u8], u64) -> Result<()>,
) -> Result<[u8; 32]> {
    let mut digest = Checksum::new("turntree v1 copy");
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let read = file.read_at(&mut buffer, offset).map_err(failed("read", path))?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else {
            return Ok(digest.finish());
        };
        digest.update(piece);
        take(piece, offset)?;
        offset += read as u64;
    }
}
