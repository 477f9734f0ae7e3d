//! Encryption of a whole store: turned on, changed to another key, or turned off.
//!
//! The content of no file changes, so each is copied and takes the place of the one before, in any
//! order. What a file says of itself tells how it is read, so after a crash at any moment everything is
//! read by the keys that the superblock names, and doing it again goes on where it ended.

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

/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// What a change of encryption has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncryptionChange {
    /// Files to be written anew.
    pub files: u64,
    /// Their bytes, which lie on the disk twice for the largest of them.
    pub bytes: u64,
}

impl Store {
    /// Returns what [`Store::change_encryption`] would do.
    ///
    /// # Errors
    /// `Io` when the files cannot be looked at.
    pub fn plan_encryption(&self, target: Option<StoreKey>) -> Result<EncryptionChange> {
        let mut change = EncryptionChange::default();
        let converter = Converter::new(self, target);
        for path in converter.files()? {
            if let Some(file) = converter.other(&path)? {
                change.files += 1;
                change.bytes += file.size().map_err(failed("read", &path))?;
            }
        }
        Ok(change)
    }

    /// Enciphers every file of the store with `target`, or deciphers every file without one; each is
    /// read back and compared before it takes the place of the one before. `seed` are random bytes
    /// that no other call was given.
    ///
    /// Nobody commits meanwhile, and who has the store open has to open it again to commit, with the
    /// target alone: this handle too. Caches and logs in the store go. The bytes of before stay on
    /// the disk until it needs the room.
    ///
    /// When this fails in the middle, or the process dies, the store is opened with both keys, the
    /// target as the newest, and this is done again. A target that was given before must be the one
    /// that a change which did not come to its end had.
    ///
    /// # Errors
    /// `Locked` while others replace files or commit, `InvalidInput` when an earlier change to another
    /// key did not come to its end, `Corrupt` when a copy does not read back, `Io` when the disk
    /// refuses.
    pub fn change_encryption(
        &self,
        target: Option<StoreKey>,
        seed: [u8; 16],
    ) -> Result<EncryptionChange> {
        self.superblock.check_writable()?;
        let meanwhile = self.keys_meanwhile(target)?;
        let collector = self.lock_collector()?.0;
        let _ref_lock = self.superblock.lock(&*self.disk, self.lock_timeout)?;
        self.check_collector(&*collector)?;
        let keys = meanwhile.map(|keys| keys.names());
        let content = SuperblockContent { keys, ..self.superblock.content() };
        // From here on nobody else commits: their superblock has lost its name, and the lock of this
        // one is held.
        let _held = superblock::replace(&*self.disk, &self.dir, &content, false)?;
        let converter = Converter { io: &*self.disk, dir: &self.dir, keys: meanwhile, target };
        let change = converter.convert_all(seed)?;
        converter.remove_plain()?;
        let keys = target.map(|key| StoreKeys::from(key).names());
        let content = SuperblockContent { keys, ..content };
        let _held = superblock::replace(&*self.disk, &self.dir, &content, true)?;
        Ok(change)
    }

    /// The keys that everything is read with while files are changed to `target`.
    fn keys_meanwhile(&self, target: Option<StoreKey>) -> Result<Option<StoreKeys>> {
        let Some(present) = self.keys else { return Ok(target.map(StoreKeys::from)) };
        match target {
            Some(newest) if newest == present.newest => Ok(Some(present)),
            None => Ok(Some(present)),
            Some(newest) if present.previous.is_none() => {
                Ok(Some(StoreKeys { newest, previous: Some(present.newest) }))
            }
            Some(_) => Err(Error::invalid(format!(
                "a change to key {} did not come to its end: do that again first",
                present.newest.name()
            ))),
        }
    }
}

/// Files of a store, and how they are to lie.
struct Converter<'a> {
    io: &'a dyn Io,
    dir: &'a Path,
    /// Those that files may be enciphered with now, if any is.
    keys: Option<StoreKeys>,
    target: Option<StoreKey>,
}

impl<'a> Converter<'a> {
    fn new(store: &'a Store, target: Option<StoreKey>) -> Self {
        let keys = store.keys.or(target.map(StoreKeys::from));
        Self { io: &*store.disk, dir: &store.dir, keys, target }
    }

    /// The files that hold something.
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

    /// A file that does not lie as it is to; nothing when it does, or is gone.
    fn other(&self, path: &Path) -> Result<Option<Arc<dyn IoFile>>> {
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
                let Some(file) = self.other(&path)? else { continue };
                change.files += 1;
                change.bytes += file.size().map_err(failed("read", &path))?;
                self.convert(&*file, to, &path)?;
            }
            // Who had the store open may have made a segment until it saw that the superblock was replaced.
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

    /// Writes the content of a file anew, and puts it in its place when it reads back.
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
                false => {
                    Err(Error::corrupt(temporary.display(), "what was written", "other bytes"))
                }
            }
        });
        compared.inspect_err(|_| {
            let _ = self.io.remove(&temporary);
        })
    }

    /// Removes what lies as it was before: files without a name, caches, logs.
    fn remove_plain(&self) -> Result<()> {
        let caches = [WORKSPACES_DIR, DISTANT_DIR, DERIVED_DIR];
        let folders = ["", JOURNAL_DIR, PACKS_DIR, QUARANTINE_DIR].into_iter().chain(caches);
        for folder in folders {
            let folder_path = self.dir.join(folder);
            for name in self.io.list_or_empty(&folder_path)? {
                // The last step says why it failed, as the log does.
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

/// The end of the name of a file that is not in its place yet.
const TEMPORARY: &str = ".tmp";

fn is_temporary(name: &str) -> bool {
    name.ends_with(TEMPORARY)
}

/// Gives a file piece by piece; returns the digest of all of it.
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
