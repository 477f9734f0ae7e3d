//! An encrypted remote: heads and bundles are sealed, so that the bucket sees only sizes and times,
//! and any change is detected.
//!
//! ```text
//! | magic 8 | epoch 4 | salt 32 | 64 KiB + 16 | 64 KiB + 16 | ... | the rest + 16 |
//! ```
//!
//! [`SealedBucket`] is a layer between the protocol and a bucket. Each object has its own key,
//! derived from the secret of the epoch, the salt and the name of the object. Each chunk is sealed
//! separately (ChaCha20-Poly1305; the nonce is its number and whether it is the last one), so
//! ranges stay readable. Objects that were renamed, cut or assembled from other objects do not
//! open. Specified in `format-spec/remote.md`.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use chacha20poly1305::aead::Aead;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};

use super::bucket::{Bucket, Got, Key, Page, Put, Version};
use super::keys::RemoteKeys;
use super::names::Names;
use crate::error::{Error, ErrorKind, Result};
use crate::object::Checksum;
use crate::store::ReadAt;

const MAGIC: [u8; 8] = *b"turnseal";
const SALT_BYTES: usize = 32;
const HEADER: usize = 44;
const HEADER_BYTES: u64 = HEADER as u64;

/// Bytes of a chunk before sealing, and the bytes that sealing adds.
const CHUNK_BYTES: u64 = 64 << 10;
const TAG_BYTES: u64 = 16;
const SEALED_CHUNK: u64 = CHUNK_BYTES + TAG_BYTES;

/// Returns random bytes.
type RandomBytes = Box<dyn Fn() -> [u8; 16] + Send + Sync>;

/// A bucket whose heads and bundles are sealed.
pub struct SealedBucket {
    bucket: Arc<dyn Bucket>,
    keys: RemoteKeys,
    draw: RandomBytes,
    /// True while heads are rewritten: heads of the previous epoch are accepted.
    takes_old_heads: bool,
    /// Headers of immutable objects, so that a range takes one request.
    headers: Mutex<HashMap<Key, Header>>,
}

/// The header of a sealed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    epoch: u32,
    salt: [u8; SALT_BYTES],
}

impl SealedBucket {
    /// Seals writes with the newest of these keys, and opens reads with any of them. `draw` returns
    /// random bytes.
    #[must_use]
    pub fn new(
        bucket: Arc<dyn Bucket>,
        keys: RemoteKeys,
        takes_old_heads: bool,
        draw: impl Fn() -> [u8; 16] + Send + Sync + 'static,
    ) -> Self {
        let headers = Mutex::default();
        Self { bucket, keys, draw: Box::new(draw), takes_old_heads, headers }
    }

    fn header(&self) -> Header {
        let mut salt = [0; SALT_BYTES];
        for half in salt.chunks_exact_mut(16) {
            half.copy_from_slice(&(self.draw)());
        }
        Header { epoch: self.keys.epoch(), salt }
    }

    /// Returns the cipher of an object.
    fn sealer(&self, key: &Key, header: Header) -> Result<Sealer> {
        let Some(secret) = self.keys.secret(header.epoch) else {
            let message = format!(
                "{key} is sealed with keys of epoch {}, but the keys at hand end with epoch {}: the members of the remote have changed",
                header.epoch,
                self.keys.epoch()
            );
            return Err(Error::new(ErrorKind::Encrypted, message));
        };
        if is_head(key) && header.epoch < self.keys.epoch() && !self.takes_old_heads {
            let expected = format_args!("keys of epoch {}", self.keys.epoch());
            return Err(Error::corrupt(key, expected, format_args!("epoch {}", header.epoch)));
        }
        let mut derived = Checksum::new("turntree v1 remote object");
        derived.update(secret).update(&header.salt).update(key.as_str().as_bytes());
        Ok(Sealer(ChaCha20Poly1305::new(&derived.finish().into())))
    }

    fn seal(&self, key: &Key, plain: &[u8]) -> Result<Bytes> {
        let header = self.header();
        let sealer = self.sealer(key, header)?;
        let mut sealed = header.encode().to_vec();
        let chunks = chunks_of(plain.len() as u64);
        for index in 0..chunks {
            let chunk = slice(plain, index * CHUNK_BYTES, CHUNK_BYTES);
            sealed.extend(sealer.seal(index, index + 1 == chunks, chunk));
        }
        Ok(sealed.into())
    }

    /// Returns the header of an object from its first bytes, and caches it.
    fn parse_header(&self, key: &Key, bytes: &[u8]) -> Result<Header> {
        if (bytes.len() as u64) < HEADER_BYTES {
            return Err(truncated_error(key));
        }
        let header = Header::decode(bytes).ok_or_else(|| not_sealed_error(key))?;
        if !is_head(key) {
            let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
            headers.insert(key.clone(), header);
        }
        Ok(header)
    }

    fn known_header(&self, key: &Key) -> Option<Header> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    fn get_whole(&self, key: &Key, unless: Option<&Version>) -> Result<Got> {
        let (bytes, version, size) = match expect_whole(self.bucket.get(key, None, unless)?)? {
            Got::Bytes { bytes, version, size } => (bytes, version, size),
            other => return Ok(other),
        };
        let shape = Shape::of(size).ok_or_else(|| not_sealed_error(key))?;
        let sealer = self.sealer(key, self.parse_header(key, &bytes)?)?;
        let mut plain = Vec::with_capacity(bytes.len());
        for index in 0..shape.chunks {
            let chunk = slice(&bytes, HEADER_BYTES + index * SEALED_CHUNK, SEALED_CHUNK);
            let opened = sealer.open(index, index + 1 == shape.chunks, chunk);
            plain.extend(opened.ok_or_else(|| forged_error(key))?);
        }
        Ok(Got::Bytes { bytes: plain.into(), version, size: shape.plain })
    }

    fn get_range(&self, key: &Key, range: &Range<u64>) -> Result<Got> {
        let first = range.start / CHUNK_BYTES;
        let mut header = if is_head(key) { None } else { self.known_header(key) };
        if header.is_none() && first > 0 {
            match self.bucket.get(key, Some(0..HEADER_BYTES), None)? {
                Got::Bytes { size, .. } if Shape::of(size).is_none() => {
                    return Err(not_sealed_error(key));
                }
                Got::Bytes { bytes, .. } => header = Some(self.parse_header(key, &bytes)?),
                other => return Ok(other),
            }
        }
        let last = range.end.saturating_sub(1).max(range.start) / CHUNK_BYTES;
        let at = if first == 0 { 0 } else { place_of(first) };
        let asked = at..place_of(last.saturating_add(1));
        let Got::Bytes { bytes, version, size } = self.bucket.get(key, Some(asked), None)? else {
            return Ok(Got::Missing);
        };
        let shape = Shape::of(size).ok_or_else(|| not_sealed_error(key))?;
        let header = match header {
            Some(header) => header,
            None => self.parse_header(key, &bytes)?,
        };
        let sealer = self.sealer(key, header)?;
        let mut plain = Vec::with_capacity(bytes.len());
        for index in first..shape.chunks.min(last + 1) {
            let end = place_of(index + 1).min(size);
            let chunk = slice(&bytes, place_of(index) - at, end - place_of(index));
            // A short answer contains only a part of the requested chunks.
            if (chunk.len() as u64) < end - place_of(index) {
                break;
            }
            let opened = sealer.open(index, index + 1 == shape.chunks, chunk);
            plain.extend(opened.ok_or_else(|| forged_error(key))?);
        }
        let begin = first * CHUNK_BYTES;
        if plain.is_empty() && range.start < range.end.min(shape.plain) {
            return Err(truncated_error(key));
        }
        let wanted = slice(&plain, range.start - begin, range.end.saturating_sub(range.start));
        Ok(Got::Bytes { bytes: Bytes::copy_from_slice(wanted), version, size: shape.plain })
    }
}

impl Bucket for SealedBucket {
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got> {
        match range {
            _ if !is_sealed(key) => self.bucket.get(key, range, unless),
            None => self.get_whole(key, unless),
            Some(range) => self.get_range(key, &range),
        }
    }

    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put> {
        match is_sealed(key) {
            true => self.bucket.put_new(key, self.seal(key, &bytes)?),
            false => self.bucket.put_new(key, bytes),
        }
    }

    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put> {
        match is_sealed(key) {
            true => self.bucket.put_over(key, self.seal(key, &bytes)?, seen),
            false => self.bucket.put_over(key, bytes, seen),
        }
    }

    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()> {
        let header = self.header();
        let size = from.size().map_err(|error| Error::io("read the upload", error))?;
        let sealer = self.sealer(key, header)?;
        let chunk = Mutex::new(None);
        self.bucket.upload(key, &SealedFile { header: header.encode(), sealer, from, size, chunk })
    }

    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page> {
        let mut page = self.bucket.list(prefix, after)?;
        for object in page.objects.iter_mut().filter(|object| is_sealed(&object.key)) {
            // An unsealed object keeps its size, which matches no listed bundle.
            if let Some(shape) = Shape::of(object.size) {
                object.size = shape.plain;
            }
        }
        Ok(page)
    }

    fn delete(&self, keys: &[Key]) -> Result<()> {
        self.bucket.delete(keys)
    }

    fn is_sealed_before(&self, key: &Key) -> Result<bool> {
        let header = match self.known_header(key) {
            Some(header) => header,
            None => match self.bucket.get(key, Some(0..HEADER_BYTES), None)? {
                Got::Bytes { bytes, .. } => self.parse_header(key, &bytes)?,
                Got::Missing | Got::Same => return Ok(false),
            },
        };
        Ok(header.epoch < self.keys.epoch())
    }

    fn names(&self) -> Names {
        self.keys.names()
    }
}

impl fmt::Debug for SealedBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedBucket").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl Header {
    fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let [magic, epoch, salt] = [&MAGIC[..], &self.epoch.to_le_bytes(), &self.salt];
        let parts = magic.iter().chain(epoch).chain(salt);
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = *part);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (epoch, rest) = rest.split_first_chunk::<4>()?;
        let salt = rest.first_chunk::<SALT_BYTES>()?;
        Some(Self { epoch: u32::from_le_bytes(*epoch), salt: *salt })
    }
}

/// The plain size and the chunks of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    plain: u64,
    chunks: u64,
}

impl Shape {
    /// Returns the shape of an object of `sealed` bytes; `None` if no object has this size.
    fn of(sealed: u64) -> Option<Self> {
        let body = sealed.checked_sub(HEADER_BYTES)?;
        let (full, rest) = (body / SEALED_CHUNK, body % SEALED_CHUNK);
        let (chunks, rest) = match rest {
            0 => (full, 0),
            _ => (full + 1, rest.checked_sub(TAG_BYTES)?),
        };
        let plain = full * CHUNK_BYTES + rest;
        (chunks == chunks_of(plain)).then_some(Self { plain, chunks })
    }
}

/// Returns the number of chunks. An empty object also has one, which authenticates that it is
/// empty.
fn chunks_of(plain: u64) -> u64 {
    plain.div_ceil(CHUNK_BYTES).max(1)
}

/// Returns the offset of a chunk in the object.
fn place_of(chunk: u64) -> u64 {
    HEADER_BYTES.saturating_add(chunk.saturating_mul(SEALED_CHUNK))
}

/// Seals and opens the chunks of one object.
struct Sealer(ChaCha20Poly1305);

impl Sealer {
    fn seal(&self, index: u64, is_last: bool, chunk: &[u8]) -> Vec<u8> {
        // Fails only for a chunk longer than any memory.
        self.0.encrypt(&nonce(index, is_last).into(), chunk).unwrap_or_default()
    }

    fn open(&self, index: u64, is_last: bool, chunk: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(&nonce(index, is_last).into(), chunk).ok()
    }
}

fn nonce(index: u64, is_last: bool) -> [u8; 12] {
    let [a, b, c, d, e, f, g, h] = index.to_be_bytes();
    [0, 0, 0, a, b, c, d, e, f, g, h, u8::from(is_last)]
}

/// A file that is sealed chunk by chunk while it is read.
struct SealedFile<'a> {
    header: [u8; HEADER],
    sealer: Sealer,
    from: &'a dyn ReadAt,
    /// Bytes before sealing.
    size: u64,
    /// The chunk that was sealed last.
    chunk: Mutex<Option<(u64, Vec<u8>)>>,
}

impl SealedFile<'_> {
    fn chunk(&self, index: u64) -> io::Result<Vec<u8>> {
        let at = index * CHUNK_BYTES;
        let length = self.size.saturating_sub(at).min(CHUNK_BYTES);
        let plain = self.from.read_part(at, usize::try_from(length).unwrap_or(usize::MAX))?;
        Ok(self.sealer.seal(index, index + 1 == chunks_of(self.size), &plain))
    }
}

impl ReadAt for SealedFile<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset.saturating_add(done as u64);
            let rest = buffer.get_mut(done..).unwrap_or_default();
            if at < HEADER_BYTES {
                done += copy(slice(&self.header, at, HEADER_BYTES), rest);
                continue;
            }
            let index = (at - HEADER_BYTES) / SEALED_CHUNK;
            if index >= chunks_of(self.size) {
                break;
            }
            let mut last = self.chunk.lock().unwrap_or_else(PoisonError::into_inner);
            let chunk = match last.take() {
                Some((known, chunk)) if known == index => chunk,
                _ => self.chunk(index)?,
            };
            let copied = copy(slice(&chunk, at - place_of(index), SEALED_CHUNK), rest);
            *last = Some((index, chunk));
            if copied == 0 {
                break;
            }
            done += copied;
        }
        Ok(done)
    }

    fn size(&self) -> io::Result<u64> {
        let tags = chunks_of(self.size).saturating_mul(TAG_BYTES);
        Ok(HEADER_BYTES.saturating_add(self.size).saturating_add(tags))
    }
}

impl fmt::Debug for SealedFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedFile").field("size", &self.size).finish_non_exhaustive()
    }
}

fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let length = from.len().min(to.len());
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    length
}

/// Returns the existing part of a range.
fn slice(bytes: &[u8], at: u64, length: u64) -> &[u8] {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(place(at)..place(at.saturating_add(length))).unwrap_or_default()
}

fn is_head(key: &Key) -> bool {
    key.as_str().starts_with("heads/")
}

fn is_sealed(key: &Key) -> bool {
    is_head(key) || key.as_str().starts_with("bundles/")
}

/// Returns an answer only if it has the whole object.
fn expect_whole(got: Got) -> Result<Got> {
    match &got {
        Got::Bytes { bytes, size, .. } if bytes.len() as u64 != *size => {
            let error = io::Error::from(io::ErrorKind::UnexpectedEof);
            Err(Error::io(format!("got {} of {size} bytes", bytes.len()), error))
        }
        _ => Ok(got),
    }
}

fn truncated_error(key: &Key) -> Error {
    Error::io(format!("read {key}"), io::ErrorKind::UnexpectedEof.into())
}

fn not_sealed_error(key: &Key) -> Error {
    Error::malformed(key, "a sealed object")
}

fn forged_error(key: &Key) -> Error {
    Error::malformed(key, "an object that a member sealed for this place")
}
