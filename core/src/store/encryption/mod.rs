//! Encryption at rest: enciphers the files of a store in a layer below all formats.
//!
//! ```text
//! store ── Io ── EncryptedIo ── Io ── disk
//!                    |
//!        content at an offset ^ keystream of the file at that offset
//! ```
//!
//! An [`EncryptedIo`] is a layer between the store and its disk. It combines each byte that the
//! store writes with a keystream (AES-256-CTR or XChaCha20, depending on the key) of the file. The
//! keystream depends on the key of the store, and on a random nonce stored in the file. Offsets do
//! not change, so every rule of the formats about torn writes, parity and partial reads still
//! holds. File names reveal nothing, since they are random, or digests of content with a random
//! salt. Ids would reveal equal content, and are never in the clear.
//!
//! A stream cipher requires that no place of a file is ever written twice with different content.
//! The store never does that, except for zeros that it writes ahead of use: these stay zeros in the
//! file, and eight zeros in the file are read as zeros.
//!
//! This gives secrecy, not authenticity: a process that can write to the disk and knows the content
//! can change it. The superblock, locks and the wrapped keys are plain. Specified in
//! `format-spec/encryption.md`.

mod cipher;
mod file;
mod heads;

use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::cipher::StoreCipher;
use self::cipher::{FileCipher, Nonce};
pub(in crate::store) use self::file::{EncryptedFile, is_unused};
use self::heads::HEAD_BYTES;
use super::format::superblock::{KeyNames, Superblock};
use super::io::{Access, Identity, Io, IoFile};
use super::replace::collect::COLLECTOR_FILE;
use super::write::untracked;
use super::{OpenOptions, SUPERBLOCK_FILE};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Checksum, ID_BYTES, ObjectId};

/// Bytes of a key.
pub const STORE_KEY_BYTES: usize = 32;

/// The first line of the text of keys: if all are for XChaCha20, and otherwise.
const TITLE: &str = "turntree store key, version 1";
const TITLE_WITH_CIPHERS: &str = "turntree store key, version 2";

/// The key of a store. It deciphers everything; without it nothing can be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreKey {
    bytes: [u8; STORE_KEY_BYTES],
    cipher: StoreCipher,
}

impl StoreKey {
    /// Returns a key for a cipher. The bytes must come from an unpredictable source.
    #[must_use]
    pub const fn of(cipher: StoreCipher, bytes: [u8; STORE_KEY_BYTES]) -> Self {
        Self { bytes, cipher }
    }

    /// Returns the cipher of the key.
    #[must_use]
    pub const fn cipher(&self) -> StoreCipher {
        self.cipher
    }

    /// Returns sixteen hex digits that identify the key and reveal nothing else about it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{:016x}", self.number())
    }

    fn number(&self) -> u64 {
        let digest = Checksum::new("turntree v1 key name").update(&self.secret()).finish();
        // Zero means no key.
        u64::from_be_bytes(digest.first_chunk().copied().unwrap_or_default()).max(1)
    }

    /// Returns the secret that all keys are derived from. The same bytes give another secret for
    /// another cipher.
    fn secret(&self) -> [u8; STORE_KEY_BYTES] {
        match self.cipher {
            StoreCipher::XChaCha20 => self.bytes,
            StoreCipher::Aes256Ctr => {
                Checksum::new("turntree v1 aes-256-ctr key").update(&self.bytes).finish()
            }
        }
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreKey({})", self.name())
    }
}

/// The keys that a store is opened with. Files are written with `newest` and read with either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreKeys {
    /// The key of new files.
    pub newest: StoreKey,
    /// The key of files from before an unfinished rotation.
    pub previous: Option<StoreKey>,
}

impl StoreKeys {
    /// Returns the text of the keys, which is wrapped for each authorized user. It is secret.
    #[must_use]
    pub fn to_text(&self) -> String {
        let is_first = self.iter().all(|key| key.cipher == StoreCipher::XChaCha20);
        let line = |name: &str, key: &StoreKey| {
            let digits: String = key.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            match is_first {
                true => format!("{name} {digits}\n"),
                false => format!("{name} {} {digits}\n", key.cipher.name()),
            }
        };
        let title = if is_first { TITLE } else { TITLE_WITH_CIPHERS };
        let previous = self.previous.as_ref().map(|key| line("previous", key)).unwrap_or_default();
        format!("{title}\n{}{previous}", line("newest", &self.newest))
    }

    /// Parses the text of keys; returns `None` if it is not one.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let has_ciphers = match lines.next()? {
            TITLE => false,
            TITLE_WITH_CIPHERS => true,
            _ => return None,
        };
        let mut key_of = |name: &str| {
            let rest = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?;
            let (cipher, digits) = match has_ciphers {
                true => rest.split_once(' ')?,
                false => (StoreCipher::XChaCha20.name(), rest),
            };
            let cipher = StoreCipher::ALL.into_iter().find(|known| known.name() == cipher)?;
            Some(StoreKey::of(cipher, *digits.parse::<ObjectId>().ok()?.as_bytes()))
        };
        let (newest, previous) = (key_of("newest"), key_of("previous"));
        newest.map(|newest| Self { newest, previous })
    }

    /// Parses unwrapped keys from outside of the store.
    ///
    /// # Errors
    /// `InvalidInput` when the bytes are not the text of keys. The error does not contain the
    /// bytes.
    pub fn parse(unwrapped: &[u8]) -> Result<Self> {
        let keys = std::str::from_utf8(unwrapped).ok().and_then(Self::from_text);
        let wrong =
            "this is not the key of a store: expected the unwrapped content of keys/NAME.age";
        keys.ok_or_else(|| Error::invalid(wrong))
    }

    /// Returns the key sets that a store may have. During a rotation, both keys are already wrapped
    /// before the superblock names both, and still wrapped after it names one.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Self> {
        let single = [Some(self.newest), self.previous].into_iter().flatten().map(Self::from);
        std::iter::once(*self).chain(single)
    }

    /// Returns the names of the keys, as in a superblock.
    pub(in crate::store) fn names(&self) -> KeyNames {
        let previous = self.previous.map(|key| key.number());
        let has_aes = self.iter().any(|key| key.cipher == StoreCipher::Aes256Ctr);
        KeyNames { newest: self.newest.number(), previous, has_aes }
    }

    /// Returns a keyed digest. It reveals nothing without the key.
    pub(crate) fn keyed(&self, digest: &[u8; ID_BYTES]) -> ObjectId {
        let context = Checksum::new("turntree v1 hidden name")
            .update(&self.newest.secret())
            .update(digest)
            .finish();
        ObjectId::from_bytes(context)
    }

    fn iter(&self) -> impl Iterator<Item = &StoreKey> {
        std::iter::once(&self.newest).chain(&self.previous)
    }
}

impl From<StoreKey> for StoreKeys {
    fn from(newest: StoreKey) -> Self {
        Self { newest, previous: None }
    }
}

/// A disk whose files are enciphered, except those that only describe the store.
#[derive(Debug)]
pub(in crate::store) struct EncryptedIo<D> {
    disk: D,
    keys: StoreKeys,
    nonces: Arc<Nonces>,
}

/// A source of unique nonces: the seed is random, and so are file names.
#[derive(Debug, Default)]
pub(in crate::store) struct Nonces {
    seed: [u8; 16],
    given: AtomicU64,
}

impl Nonces {
    fn next(&self, file: &Path) -> Nonce {
        let count = self.given.fetch_add(1, Ordering::Relaxed);
        let digest = Checksum::new("turntree v1 file nonce")
            .update(&self.seed)
            .update(&count.to_le_bytes())
            .update(file.as_os_str().as_encoded_bytes())
            .finish();
        digest.first_chunk().copied().unwrap_or_default()
    }
}

/// Returns the disk for the store to use, and its keys. The disk enciphers if the superblock names
/// keys.
///
/// # Errors
/// `Encrypted` if the superblock names keys and the options have none or others.
pub(in crate::store) fn below(
    disk: &Arc<dyn Io>,
    superblock: &Superblock,
    dir: &Path,
    options: &OpenOptions,
) -> Result<(Arc<dyn Io>, Option<StoreKeys>)> {
    let Some(names) = &superblock.keys else { return Ok((Arc::clone(disk), None)) };
    let refused = |found: &str| {
        let message = format!("the store in {} is encrypted: {found}", dir.display());
        Err(Error::new(ErrorKind::Encrypted, message))
    };
    match options.keys {
        None => refused("its key is needed to open it"),
        Some(keys) if keys.names() == *names => {
            let io = EncryptedIo::new(Arc::clone(disk), keys, options.writer_seed);
            Ok((Arc::new(io), Some(keys)))
        }
        Some(keys) => refused(&format!(
            "expected key {:016x}{}, found key {}",
            names.newest,
            names.previous.map(|name| format!(" and {name:016x}")).unwrap_or_default(),
            keys.newest.name()
        )),
    }
}

impl<D> EncryptedIo<D> {
    /// Returns the files of `disk` with these keys. `seed` must be random bytes, different for
    /// every handle.
    pub(in crate::store) fn new(disk: D, keys: StoreKeys, seed: [u8; 16]) -> Self {
        let nonces = Arc::new(Nonces { seed, given: AtomicU64::new(0) });
        Self { disk, keys, nonces }
    }

    fn over(&self, path: &Path, file: Arc<dyn IoFile>) -> Arc<dyn IoFile> {
        match is_plain(path) {
            true => file,
            false => {
                let nonces = Arc::clone(&self.nonces);
                Arc::new(EncryptedFile::new(file, path, self.keys, nonces))
            }
        }
    }
}

/// Returns true for files that describe the store or hold no content.
pub(in crate::store) fn is_plain(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(SUPERBLOCK_FILE) || name == COLLECTOR_FILE || name == untracked::FILE_NAME
}

impl<D> Io for EncryptedIo<D>
where
    D: Deref<Target: Io> + fmt::Debug + Send + Sync,
{
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        Ok(self.over(path, self.disk.open(path, access)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        Ok(self.over(path, self.disk.create(path)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.publish(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.disk.identity(path)
    }
}

/// Wraps a new file whose content is enciphered with a key: for temporary files of an encrypted
/// store outside of it. `seed` must be random bytes that no other call was given.
#[must_use]
pub fn enciphered(file: Arc<dyn IoFile>, key: StoreKey, seed: [u8; 16]) -> Arc<dyn IoFile> {
    let nonces = Arc::new(Nonces { seed, given: AtomicU64::new(0) });
    Arc::new(EncryptedFile::new(file, Path::new(""), key.into(), nonces))
}

/// Enciphers content that is written to a file in one piece, such as a cache. The nonce is derived
/// from key and content, so different contents never share one.
pub(crate) fn encipher(keys: &StoreKeys, content: &[u8]) -> io::Result<Vec<u8>> {
    let key = &keys.newest;
    let nonce =
        Checksum::new("turntree v1 content nonce").update(&key.secret()).update(content).finish();
    let cipher = FileCipher::new(key, nonce.first_chunk().copied().unwrap_or_default());
    let mut enciphered = content.to_vec();
    cipher.apply(&mut enciphered, 0)?;
    Ok([&cipher.head()[..], &enciphered[..]].concat())
}

/// Deciphers the output of [`encipher`]; returns `None` for other bytes.
pub(crate) fn decipher(keys: &StoreKeys, bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, content) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let mut content = content.to_vec();
    FileCipher::from_head(keys, head)?.apply(&mut content, 0).ok()?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cipher: StoreCipher, byte: u8) -> StoreKey {
        StoreKey::of(cipher, [byte; STORE_KEY_BYTES])
    }

    #[test]
    fn a_key_of_the_first_cipher_is_what_it_was_and_one_of_another_says_its_cipher() {
        let [first, aes] = StoreCipher::ALL.map(|cipher| StoreKeys::from(key(cipher, 1)));
        let digits = "01".repeat(STORE_KEY_BYTES);
        let expected = format!("turntree store key, version 1\nnewest {digits}\n");
        assert_eq!(first.to_text(), expected);
        let expected = format!("turntree store key, version 2\nnewest aes-256-ctr {digits}\n");
        assert_eq!(aes.to_text(), expected);
        assert_ne!(first.newest.name(), aes.newest.name());
        assert!(aes.names().has_aes && !first.names().has_aes);
        let unknown = expected.replace("aes-256-ctr", "rot13");
        assert_eq!(StoreKeys::from_text(&unknown), None);
    }

    #[test]
    fn keys_come_back_from_their_text_and_nothing_else_is_taken_for_them() {
        for [one, other] in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            let [newest, previous] =
                [(one, 1), (other, 2)].map(|(cipher, byte)| key(StoreCipher::ALL[cipher], byte));
            for keys in [newest.into(), StoreKeys { newest, previous: Some(previous) }] {
                assert_eq!(StoreKeys::parse(keys.to_text().as_bytes()).unwrap(), keys);
            }
        }
        for other in [&b""[..], b"\xff", b"AGE-SECRET-KEY-1", b"turntree store key, version 1\n"] {
            let refused = StoreKeys::parse(other).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
            assert!(!refused.to_string().contains("SECRET"), "what it was is not told");
        }
    }
}
