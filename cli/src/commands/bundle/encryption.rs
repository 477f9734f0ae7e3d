//! Encrypted files in age format: writes them, and reads them at any offset.
//!
//! The content is split into pieces of 64 KiB, each of which is authenticated. So a file is
//! decrypted only where it is read, and a changed byte is an error there. No decrypted byte is
//! written to disk.

use std::fmt;
use std::io::{self, BufReader, ErrorKind as IoErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use age::stream::StreamReader;
use age::{Decryptor, Encryptor, Identity};
use clap::Args;
use turntree::Error;
use turntree::store::ReadAt;

use crate::program::age_keys::{
    ask, identities_in, of_passphrase, passphrase_in, passphrase_of_environment,
};
use crate::view::error::{Failure, Result};

/// The first bytes of an encrypted file.
const MAGIC: &[u8] = b"age-encryption.org/";

/// Keys for an encrypted file.
#[derive(Debug, Args)]
pub(crate) struct Opening {
    /// Decrypt with the keys in this file (AGE-SECRET-KEY-1...)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    identity: Vec<PathBuf>,
    /// Decrypt with the passphrase in this file, instead of TURNTREE_PASSPHRASE or asking for it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    passphrase_file: Option<PathBuf>,
}

/// Encrypts `from` to `to`.
pub(crate) fn seal(
    encryptor: Encryptor,
    mut from: impl Read,
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut sealed = encryptor.wrap_output(to)?;
    io::copy(&mut from, &mut sealed)?;
    sealed.finish()?.flush()
}

/// Opens a file for reading at any offset, decrypted if it is encrypted; also returns whether it
/// is.
pub(crate) fn open(
    file: Arc<dyn ReadAt>,
    name: &str,
    opening: &Opening,
) -> Result<(Arc<dyn ReadAt>, bool)> {
    let mut head = [0; MAGIC.len()];
    let read = file.read_at(&mut head, 0);
    let read = read.map_err(|error| Error::io(format!("read {name}"), error))?;
    if head.get(..read) != Some(MAGIC) {
        return Ok((file, false));
    }
    let refused = |error: &dyn fmt::Display| Error::invalid(format!("{name}: {error}"));
    let decryptor = Decryptor::new_buffered(BufReader::new(Stream { file, at: 0 }));
    let decryptor = decryptor.map_err(|error| refused(&error))?;
    let identities = opening.identities(decryptor.is_scrypt(), name)?;
    let stream = decryptor.decrypt(identities.iter().map(|identity| &**identity));
    let mut stream = stream.map_err(|error| {
        let hint = "give the key with --identity, or the passphrase with --passphrase-file";
        Failure::hinted(refused(&error), hint)
    })?;
    // Also verifies the end of the file.
    let size = stream
        .seek(SeekFrom::End(0))
        .map_err(|error| Error::malformed(name, "a complete encrypted file").with_source(error))?;
    Ok((Arc::new(Sealed { stream: Mutex::new(stream), size }), true))
}

impl Opening {
    fn identities(&self, with_passphrase: bool, name: &str) -> Result<Vec<Box<dyn Identity>>> {
        if with_passphrase {
            let phrase = match &self.passphrase_file {
                Some(file) => passphrase_in(file)?,
                None => match passphrase_of_environment() {
                    Some(phrase) => phrase,
                    None => ask(&format!("Passphrase of {name}: "))?,
                },
            };
            return Ok(vec![Box::new(of_passphrase(phrase))]);
        }
        let mut identities = Vec::new();
        for path in &self.identity {
            identities.extend(identities_in(path)?);
        }
        Ok(identities)
    }
}

/// A seekable reader of a file.
struct Stream {
    file: Arc<dyn ReadAt>,
    at: u64,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Stream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(distance) => self.file.size()?.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.at.checked_add_signed(distance),
        };
        self.at = at.ok_or(IoErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// A file that is decrypted where it is read.
struct Sealed {
    stream: Mutex<StreamReader<BufReader<Stream>>>,
    size: u64,
}

impl ReadAt for Sealed {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = wanted.min(buffer.len());
        let Some(room) = buffer.get_mut(..wanted) else { return Ok(0) };
        // If a piece cannot be decrypted, it was changed.
        let failed = |error| io::Error::new(IoErrorKind::InvalidData, error);
        stream.seek(SeekFrom::Start(offset)).map_err(failed)?;
        stream.read_exact(room).map_err(failed)?;
        Ok(wanted)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}

/// Does not print content.
impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use age::secrecy::ExposeSecret as _;
    use age::x25519;

    use super::*;
    use crate::program::age_keys::Sealing;

    /// An encrypted file, and the key to open it.
    fn sealed(text: &[u8]) -> (tempfile::TempDir, Vec<u8>, Opening) {
        let folder = tempfile::tempdir().unwrap();
        let key = x25519::Identity::generate();
        let named = vec![key.to_public().to_string()];
        let sealing = Sealing { encrypt_to: named, passphrase: false, passphrase_file: None };
        let mut bytes = Vec::new();
        seal(sealing.encryptor().unwrap(), text, &mut bytes).unwrap();
        let file = folder.path().join("key");
        fs::write(&file, key.to_string().expose_secret()).unwrap();
        let opening = Opening { identity: vec![file], passphrase_file: None };
        (folder, bytes, opening)
    }

    fn read(folder: &Path, bytes: &[u8], opening: &Opening) -> Result<Vec<u8>> {
        let path = folder.join("sealed");
        fs::write(&path, bytes).unwrap();
        let file = Arc::new(File::open(path).unwrap());
        let (file, encrypted) = open(file, "sealed", opening)?;
        assert!(encrypted);
        let failed = |error| Error::io("read", error);
        let mut text = vec![0; usize::try_from(file.size().unwrap()).unwrap() + 9];
        let read = file.read_at(&mut text, 0).map_err(failed)?;
        text.truncate(read);
        let mut part = [0; 3];
        let read = file.read_at(&mut part, 70_000).map_err(failed)?;
        assert_eq!(part.get(..read), text.get(70_000..).map(|rest| &rest[..rest.len().min(3)]));
        Ok(text)
    }

    #[test]
    fn what_was_encrypted_is_read_at_any_place_and_only_with_the_key() {
        let text = b"0123456789".repeat(20_000);
        let (folder, bytes, opening) = sealed(&text);
        assert!(read(folder.path(), &bytes, &opening).unwrap() == text);
        let (other_folder, _, other) = sealed(b"");
        let failure = read(folder.path(), &bytes, &other).unwrap_err();
        assert!(failure.message().starts_with("sealed: "), "{}", failure.message());
        drop(other_folder);
        let nothing = Opening { identity: Vec::new(), passphrase_file: None };
        assert!(read(folder.path(), &bytes, &nothing).is_err());
    }

    #[test]
    fn a_changed_byte_and_a_lost_end_are_refused() {
        let text = b"0123456789".repeat(7_100);
        let (folder, bytes, opening) = sealed(&text);
        for at in (0..bytes.len()).step_by(997).chain(bytes.len() - 20..bytes.len()) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let head = changed.starts_with(MAGIC);
            assert!(!head || read(folder.path(), &changed, &opening).is_err(), "byte {at}");
            assert!(at < MAGIC.len() || read(folder.path(), &bytes[..at], &opening).is_err());
        }
    }
}
