//! One enciphered file: reads and writes its content at any offset.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use super::cipher::FileCipher;
use super::heads::{self, Extent, HEAD, HEAD_BYTES};
use super::{Nonces, StoreKey, StoreKeys};
use crate::store::io::{Identity, IoFile, Mapping};
use crate::store::parity::is_refusal;

/// Aligned words of zeros in the file are read as zeros. This is the size of a word.
const WORD_BYTES: usize = 8;
/// The size of a word, as a distance in a file.
const WORD: u64 = WORD_BYTES as u64;

/// Reads of at least this size decipher in the caller's buffer: a further call for each end costs
/// less than a copy.
const IN_PLACE_BYTES: usize = 32 << 10;

/// A file that is enciphered; or plain, if it has no intact head, as in a store that was only just
/// encrypted.
pub(in crate::store) struct EncryptedFile {
    file: Arc<dyn IoFile>,
    path: PathBuf,
    keys: StoreKeys,
    nonces: Arc<Nonces>,
    /// Set once the file has a head, or other bytes instead of one. `None` inside means a plain
    /// file.
    cipher: OnceLock<Option<FileCipher>>,
}

impl EncryptedFile {
    pub(super) fn new(
        file: Arc<dyn IoFile>,
        path: &Path,
        keys: StoreKeys,
        nonces: Arc<Nonces>,
    ) -> Self {
        Self { file, path: path.to_owned(), keys, nonces, cipher: OnceLock::new() }
    }

    /// Opens a file for reading only.
    pub(in crate::store) fn of(file: Arc<dyn IoFile>, keys: StoreKeys) -> Self {
        Self::new(file, Path::new(""), keys, Arc::default())
    }

    /// Returns true if the file has no head of one of its keys.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(in crate::store) fn is_plain(&self) -> io::Result<bool> {
        Ok(self.cipher()?.is_none())
    }

    /// Returns true if the file is enciphered with `key`, or empty.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(in crate::store) fn is_of(&self, key: &StoreKey) -> io::Result<bool> {
        Ok(match self.cipher()? {
            Some(cipher) => cipher.is_of(key),
            None => self.file.size()? == 0,
        })
    }

    /// Returns the cipher of the file's heads, or `None` if it has none.
    fn cipher(&self) -> io::Result<Option<&FileCipher>> {
        if let Some(cipher) = self.cipher.get() {
            return Ok(cipher.as_ref());
        }
        let mut is_written = false;
        for place in heads::places(self.file.size()?) {
            let mut head = [0; HEAD_BYTES];
            match self.file.read_at(&mut head, place) {
                // Any other intact head suffices.
                Err(error) if is_refusal(&error) => continue,
                read => read?,
            };
            if let Some(cipher) = FileCipher::from_head(&self.keys, &head) {
                return Ok(self.cipher.get_or_init(|| Some(cipher)).as_ref());
            }
            is_written |= head != [0; HEAD_BYTES];
        }
        // If all bytes are zeros, another process may be about to write the head.
        Ok(if is_written { self.cipher.get_or_init(|| None).as_ref() } else { None })
    }

    /// Returns the cipher to write with. An empty file gets a new one.
    ///
    /// # Errors
    /// When the file is plain or has another key: a file from before a change of keys is not
    /// extended.
    fn cipher_to_write(&self) -> io::Result<&FileCipher> {
        if self.file.size()? == 0 {
            let new = || Some(FileCipher::new(&self.keys.newest, self.nonces.next(&self.path)));
            self.cipher.get_or_init(new);
        }
        match self.cipher()? {
            Some(cipher) if cipher.is_of(&self.keys.newest) => Ok(cipher),
            _ => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the file is still in the form from before the key of the store changed",
            )),
        }
    }

    /// Reads the enciphered content from `offset`. Returns the number of bytes read.
    fn read_enciphered(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = offset + filled as u64;
            let stretch = Extent::at(at);
            let room = usize::try_from(stretch.end() - at).unwrap_or(usize::MAX);
            let wanted = rest.len().min(room);
            let read =
                self.file.read_at(rest.get_mut(..wanted).unwrap_or_default(), stretch.place(at))?;
            filled += read;
            if read < wanted {
                break;
            }
        }
        Ok(filled)
    }

    /// Reads the whole words around the requested bytes, and copies the bytes.
    fn read_words(&self, cipher: &FileCipher, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = offset - offset % WORD;
        let Some(end) = offset.checked_add(buffer.len() as u64 + WORD) else { return Ok(0) };
        let bytes = usize::try_from(end - end % WORD - start).unwrap_or(usize::MAX);
        let mut content = vec![0; bytes];
        let filled = self.read_enciphered(&mut content, start)?;
        content.truncate(filled);
        decipher(cipher, &mut content, start)?;
        let content = content
            .get(usize::try_from(offset - start).unwrap_or(usize::MAX)..)
            .unwrap_or_default();
        let read = content.len().min(buffer.len());
        if let (Some(room), Some(content)) = (buffer.get_mut(..read), content.get(..read)) {
            room.copy_from_slice(content);
        }
        Ok(read)
    }

    /// Reads words directly into the buffer, and copies only a partial word at each end.
    fn read_in_place(
        &self,
        cipher: &FileCipher,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let before = usize::try_from(offset.next_multiple_of(WORD) - offset).unwrap_or_default();
        let (head, rest) = buffer.split_at_mut(before);
        let (words, tail) = rest.split_at_mut(rest.len() - rest.len() % WORD_BYTES);
        let mut read = self.read_words(cipher, head, offset)?;
        if read < head.len() {
            return Ok(read);
        }
        let start = offset + read as u64;
        let filled = self.read_enciphered(words, start)?;
        decipher(cipher, words.get_mut(..filled).unwrap_or_default(), start)?;
        read += filled;
        if filled == words.len() && !tail.is_empty() {
            read += self.read_words(cipher, tail, start + filled as u64)?;
        }
        Ok(read)
    }
}

impl IoFile for EncryptedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.cipher()? {
            None => self.file.read_at(buffer, offset),
            Some(cipher) if buffer.len() < IN_PLACE_BYTES => {
                self.read_words(cipher, buffer, offset)
            }
            Some(cipher) => self.read_in_place(cipher, buffer, offset),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let cipher = self.cipher_to_write()?;
        let mut content = bytes.to_vec();
        encipher(cipher, &mut content, offset)?;
        // Heads and content in one write, so that a disk treats them like one write of the store.
        let first = Extent::at(offset);
        let begins = |at: u64, stretch: &Extent| at == stretch.start;
        let place = first.place(offset) - if begins(offset, &first) { HEAD } else { 0 };
        let mut piece = Vec::with_capacity(content.len() + 2 * HEAD_BYTES);
        let (mut at, mut rest) = (offset, content.as_slice());
        while !rest.is_empty() {
            let stretch = Extent::at(at);
            if begins(at, &stretch) {
                piece.extend_from_slice(cipher.head());
            }
            let room = usize::try_from(stretch.end() - at).unwrap_or(usize::MAX);
            let (here, behind) = rest.split_at(room.min(rest.len()));
            piece.extend_from_slice(here);
            (at, rest) = (at + here.len() as u64, behind);
        }
        self.file.write_at(&piece, place)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn may_append(&self) -> io::Result<bool> {
        Ok(match self.cipher()? {
            Some(cipher) => cipher.is_of(&self.keys.newest),
            None => self.file.size()? == 0,
        })
    }

    fn size(&self) -> io::Result<u64> {
        let size = self.file.size()?;
        Ok(match self.cipher()? {
            Some(_) => heads::content_bytes(size),
            None => size,
        })
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        self.file.lock(timeout)
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }

    fn map(&self) -> io::Result<Mapping> {
        if self.cipher()?.is_none() {
            return self.file.map();
        }
        let bytes = usize::try_from(self.size()?).map_err(io::Error::other)?;
        let mut content = vec![0; bytes];
        let read = self.read_at(&mut content, 0)?;
        content.truncate(read);
        Ok(Bytes::from(content).into())
    }

    fn is_mappable(&self) -> bool {
        matches!(self.cipher(), Ok(None)) && self.file.is_mappable()
    }
}

/// Returns true if a file of an encrypted store without a valid head has no content after its first
/// bytes: its first write left partial heads at most, or it has another key and no further content.
/// Reads at most `most` bytes; a longer file has content.
///
/// # Errors
/// When it cannot be read.
pub(in crate::store) fn is_unused(
    file: &dyn IoFile,
    first: usize,
    most: usize,
) -> io::Result<bool> {
    let mut bytes = vec![0; most + 1];
    let read = file.read_at(&mut bytes, 0)?;
    let bytes = bytes.get(..read).unwrap_or_default();
    Ok(read <= most && heads::is_empty_after(bytes, first))
}

impl fmt::Debug for EncryptedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncryptedFile").field(&self.file).finish()
    }
}

/// Deciphers the bytes at `offset`, a multiple of [`WORD`]. Words of zeros stay zeros.
fn decipher(cipher: &FileCipher, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    if !has_zeros(bytes) {
        return cipher.apply(bytes, offset);
    }
    let is_zero = |word: &[u8]| *word == [0; WORD_BYTES];
    let mut at = 0;
    while at < bytes.len() {
        let words = |from: usize| bytes.get(from..).unwrap_or_default().chunks(WORD_BYTES);
        let zeros = words(at).take_while(|word| is_zero(word)).count() * WORD_BYTES;
        let from = at + zeros;
        let other: usize = words(from).take_while(|word| !is_zero(word)).map(<[u8]>::len).sum();
        if let Some(bytes) = bytes.get_mut(from..from + other) {
            cipher.apply(bytes, offset + from as u64)?;
        }
        at = from + other;
    }
    Ok(())
}

/// Enciphers the bytes to write at `offset`. Whole words of zeros at the end stay zeros: they are
/// written ahead of use, and will be overwritten.
///
/// # Errors
/// When a word would encipher to zeros, which happens once in 2^64: write it at another offset.
fn encipher(cipher: &FileCipher, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let end = offset + bytes.len() as u64;
    let used = match end % WORD {
        0 => bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1),
        _ => bytes.len(),
    };
    let used = (offset + used as u64).next_multiple_of(WORD).min(end) - offset;
    let used = usize::try_from(used).unwrap_or(bytes.len()).min(bytes.len());
    let Some(used) = bytes.get_mut(..used) else { return Ok(()) };
    cipher.apply(used, offset)?;
    let first = usize::try_from(offset.next_multiple_of(WORD) - offset).unwrap_or_default();
    match has_zeros(used.get(first..).unwrap_or_default()) {
        true => Err(io::Error::other("the cipher gave zeros here: write it elsewhere")),
        false => Ok(()),
    }
}

/// Words compared in one branch-free loop, so that the processor compares several at a time.
const WORDS_AT_ONCE: usize = 64;

/// Returns true if a whole word is zeros.
fn has_zeros(bytes: &[u8]) -> bool {
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    let is_zero = |word: &[u8; WORD_BYTES]| u64::from_ne_bytes(*word) == 0;
    words
        .chunks(WORDS_AT_ONCE)
        .any(|words| words.iter().fold(false, |found, word| found | is_zero(word)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::encryption::StoreCipher;
    use crate::store::io::{Access, Io, RealIo};

    const KEY: StoreKey = StoreKey::of(StoreCipher::Aes256Ctr, [7; 32]);

    /// Creates a file; returns it as on the disk, and deciphered.
    fn new_file(folder: &Path) -> (Arc<dyn IoFile>, EncryptedFile) {
        let path = folder.join("file");
        let file = RealIo.create(&path).unwrap();
        let nonces = Arc::new(Nonces::default());
        (Arc::clone(&file), EncryptedFile::new(file, &path, KEY.into(), nonces))
    }

    fn all(file: &dyn IoFile) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap() + 1];
        let read = file.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(read);
        bytes
    }

    #[test]
    fn zeros_ahead_are_zeros_until_something_else_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, file) = new_file(folder.path());
        file.write_at(&[[1; 24], [0; 24]].concat(), 0).unwrap();
        assert_eq!(all(&*disk)[64 + 24..], [0; 24]);
        file.write_at(&[2; 8], 24).unwrap();
        assert_eq!(all(&file), [&[1; 24][..], &[2; 8], &[0; 16]].concat());
        assert_ne!(all(&*disk)[64 + 24..64 + 32], [2; 8]);
    }

    #[test]
    fn any_whole_head_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let (_, file) = new_file(folder.path());
        file.write_at(&[9; 140_000], 0).unwrap();
        let path = folder.path().join("file");
        let whole = std::fs::read(&path).unwrap();
        let places: Vec<usize> =
            heads::places(whole.len() as u64).map(|at| usize::try_from(at).unwrap()).collect();
        assert_eq!(places, [0, 4096, 65_536, 131_072]);
        for kept in &places {
            for copy in [0, 32] {
                let mut damaged = whole.clone();
                for place in &places {
                    damaged[*place..place + 64].fill(0xff);
                }
                let copy = kept + copy;
                damaged[copy..copy + 32].copy_from_slice(&whole[copy..copy + 32]);
                std::fs::write(&path, damaged).unwrap();
                let file = RealIo.open(&path, Access::Read).unwrap();
                assert_eq!(all(&EncryptedFile::of(file, KEY.into())), [9; 140_000]);
            }
        }
    }

    #[test]
    fn nothing_is_added_in_the_clear_or_with_a_former_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plain");
        std::fs::write(&path, [7; 100]).unwrap();
        let nonces = Arc::new(Nonces::default());
        let open = || RealIo.open(&path, Access::Write).unwrap();
        let keys = StoreKeys {
            newest: KEY,
            previous: Some(StoreKey::of(StoreCipher::Aes256Ctr, [8; 32])),
        };
        for refused in [true, false] {
            let file = EncryptedFile::new(open(), &path, keys, Arc::clone(&nonces));
            assert_eq!(file.may_append().unwrap(), !refused);
            let written = file.write_at(b"secret", 100);
            assert_eq!(written.is_err(), refused);
            let has_secret = |bytes: &[u8]| bytes.windows(6).any(|found| found == b"secret");
            assert!(!has_secret(&std::fs::read(&path).unwrap()));
            std::fs::write(&path, []).unwrap();
        }
        let before = EncryptedFile::new(open(), &path, keys, nonces);
        before.write_at(b"of the newest", 0).unwrap();
        let rotated = StoreKeys {
            newest: StoreKey::of(StoreCipher::Aes256Ctr, [9; 32]),
            previous: Some(KEY),
        };
        let after = EncryptedFile::new(open(), &path, rotated, Arc::default());
        assert_eq!(all(&after), b"of the newest");
        assert!(!after.may_append().unwrap() && after.write_at(b"more", 13).is_err());
    }

    #[test]
    fn who_opens_a_file_before_it_is_written_reads_it_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let (_, file) = new_file(folder.path());
        let path = folder.path().join("file");
        let early = EncryptedFile::of(RealIo.open(&path, Access::Read).unwrap(), KEY.into());
        assert_eq!((early.size().unwrap(), all(&early)), (0, vec![]));
        file.write_at(b"later", 0).unwrap();
        assert_eq!(all(&early), b"later");
    }

    turntree_properties::properties! {
        #[test]
        fn what_is_written_in_any_pieces_is_read_in_any(
            pieces in prop::collection::vec((1_usize..9000, 0_u8..3), 1..12),
            reads in prop::collection::vec((0_usize..80_000, 0_usize..30_000), 1..12),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (disk, file) = new_file(folder.path());
            let mut expected: Vec<u8> = Vec::new();
            for (bytes, fill) in pieces {
                let piece = vec![fill; bytes];
                file.write_at(&piece, expected.len() as u64).unwrap();
                expected.extend(piece);
            }
            prop_assert_eq!(all(&file), expected.clone());
            prop_assert_eq!(file.map().unwrap().bytes().clone(), expected.clone());
            let again = EncryptedFile::of(disk, KEY.into());
            for (from, len) in reads {
                let mut buffer = vec![0; len];
                let read = again.read_at(&mut buffer, from as u64).unwrap();
                let end = expected.len().min(from + len);
                prop_assert_eq!(&buffer[..read], expected.get(from..end).unwrap_or_default());
            }
        }
    }
}
