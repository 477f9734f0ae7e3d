//! Object ids: BLAKE3-256, one key per structured kind. Only this file and `lanes.rs` use `blake3`.
//!
//! A blob's id is the plain BLAKE3 of its bytes, so `b3sum file` prints it. Structured kinds hash
//! in keyed mode with a key derived from the kind's context string. BLAKE3 keeps plain, keyed and
//! derived hashes in disjoint spaces, so a blob whose bytes look like a commit never has a commit's
//! id. Specified in `format-spec/object.md`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::LazyLock;

use super::Kind;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of an id.
pub const ID_BYTES: usize = 32;

/// Hex digits of an id in text.
pub const ID_HEX_DIGITS: usize = 2 * ID_BYTES;

/// Minimum number of hex digits that can abbreviate an id.
pub(crate) const MIN_PREFIX_DIGITS: usize = 4;

/// The name of an object: a BLAKE3-256 digest of its kind and bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId([u8; ID_BYTES]);

impl Hash for ObjectId {
    /// Hashes only eight bytes: any part of a digest is uniform, and tables of ids are large.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (first, _) = self.0.split_at(8);
        state.write(first);
    }
}

impl ObjectId {
    /// Returns the id of the object of `kind` with `bytes`. About 1 µs for 1 KiB, 5 GB/s for large
    /// blobs.
    #[must_use]
    pub fn of(kind: Kind, bytes: &[u8]) -> Self {
        match kind_key(kind) {
            None => Self(*blake3::hash(bytes).as_bytes()),
            Some(key) => Self(*blake3::keyed_hash(key, bytes).as_bytes()),
        }
    }

    /// Creates an id from its raw bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// Creates an id from a slice that must be exactly [`ID_BYTES`] long.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Returns the first `digits` hex digits.
    #[must_use]
    pub fn short(&self, digits: usize) -> String {
        let mut text = self.to_string();
        text.truncate(digits);
        text
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({})", self.short(12))
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        blake3::Hash::from_hex(text).map(|hash| Self(*hash.as_bytes())).map_err(|source| {
            Error::invalid(format!("'{text}' is not an id: expected {ID_HEX_DIGITS} hex digits"))
                .with_source(source)
        })
    }
}

/// The first hex digits of an id, as a user types it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdPrefix {
    /// The digits as nibbles, most significant first.
    nibbles: Vec<u8>,
}

impl IdPrefix {
    /// Returns true if `id` starts with this prefix.
    #[must_use]
    pub fn matches(&self, id: &ObjectId) -> bool {
        let nibbles = id.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        self.nibbles.iter().copied().zip(nibbles).all(|(a, b)| a == b)
    }

    /// Returns the smallest id that starts with this prefix: the start of a search in sorted ids.
    #[must_use]
    pub fn first(&self) -> ObjectId {
        let mut bytes = [0; ID_BYTES];
        for (pair, byte) in self.nibbles.chunks(2).zip(&mut bytes) {
            *byte = pair.iter().zip([4, 0]).fold(0, |byte, (nibble, shift)| byte | nibble << shift);
        }
        ObjectId(bytes)
    }

    /// Returns the largest id that starts with this prefix.
    #[must_use]
    pub fn last(&self) -> ObjectId {
        let ObjectId(mut bytes) = self.first();
        for nibble in self.nibbles.len()..ID_HEX_DIGITS {
            if let Some(byte) = bytes.get_mut(nibble / 2) {
                *byte |= if nibble % 2 == 0 { 0xf0 } else { 0x0f };
            }
        }
        ObjectId(bytes)
    }
}

impl FromStr for IdPrefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let nibbles = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<Vec<u8>>>()
            .filter(|digits| (MIN_PREFIX_DIGITS..=ID_HEX_DIGITS).contains(&digits.len()));
        nibbles.map(|nibbles| Self { nibbles }).ok_or_else(|| {
            Error::invalid(format!(
                "'{text}' is not an abbreviated id: expected {MIN_PREFIX_DIGITS} to {ID_HEX_DIGITS} hex digits"
            ))
        })
    }
}

/// Returns the digest of a map key, which decides tree boundaries. Plain BLAKE3 of the key.
#[must_use]
pub(crate) fn key_digest(key: &[u8]) -> [u8; ID_BYTES] {
    *blake3::hash(key).as_bytes()
}

/// A checksum of bytes that are not objects: batches, manifests, superblocks.
///
/// BLAKE3 with a separate derived key for each `context`, so that no checksum equals an id.
#[derive(Debug, Clone)]
pub struct Checksum(blake3::Hasher);

impl Checksum {
    /// Creates a checksum for `context`, a constant of the format (`format-spec`).
    #[must_use]
    pub fn new(context: &str) -> Self {
        Self(blake3::Hasher::new_derive_key(context))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    /// Returns the digest of all added bytes.
    #[must_use]
    pub fn finish(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

/// Fails with [`ErrorKind::Corrupt`] unless `bytes` hash to `id`.
///
/// # Errors
/// [`ErrorKind::Corrupt`], naming the expected and the found id.
pub fn verify(kind: Kind, bytes: &[u8], id: &ObjectId) -> Result<()> {
    let found = ObjectId::of(kind, bytes);
    if found == *id {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, format!("{kind} {id}: its bytes hash to {found}")))
}

/// Returns the key for hashing structured objects of a kind; `None` for blobs.
pub(super) fn kind_key(kind: Kind) -> Option<&'static [u8; 32]> {
    static KEYS: LazyLock<[[u8; 32]; 4]> = LazyLock::new(|| {
        ["node", "commit", "tag", "operation"]
            .map(|kind| blake3::derive_key(&format!("turntree v1 {kind}"), b""))
    });
    let [node, commit, tag, operation] = &*KEYS;
    match kind {
        Kind::Blob => None,
        Kind::Node => Some(node),
        Kind::Commit => Some(commit),
        Kind::Tag => Some(tag),
        Kind::Operation => Some(operation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_id_is_what_b3sum_prints() {
        assert_eq!(
            ObjectId::of(Kind::Blob, b"").to_string(),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }

    #[test]
    fn the_same_bytes_have_another_id_in_every_kind() {
        let ids: std::collections::HashSet<_> =
            Kind::ALL.into_iter().map(|kind| ObjectId::of(kind, b"same")).collect();
        assert_eq!(ids.len(), Kind::ALL.len());
    }

    #[test]
    fn other_bytes_and_another_kind_do_not_verify() {
        let id = ObjectId::of(Kind::Blob, b"some");
        verify(Kind::Blob, b"some", &id).unwrap();
        for (kind, bytes) in [(Kind::Blob, &b"same"[..]), (Kind::Blob, b""), (Kind::Node, b"some")]
        {
            assert_eq!(verify(kind, bytes, &id).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn a_prefix_matches_its_ids_and_starts_at_the_smallest() {
        let id = ObjectId::of(Kind::Blob, b"x");
        for digits in MIN_PREFIX_DIGITS..=ID_HEX_DIGITS {
            let prefix: IdPrefix = id.short(digits).parse().unwrap();
            assert!(prefix.matches(&id));
            assert!(prefix.first() <= id && prefix.matches(&prefix.first()));
            assert!(prefix.last() >= id && prefix.matches(&prefix.last()));
        }
        assert!("abc".parse::<IdPrefix>().is_err());
        assert!("xyzw".parse::<IdPrefix>().is_err());
    }

    #[test]
    fn text_round_trips_and_bad_text_is_named() {
        let id = ObjectId::of(Kind::Commit, b"x");
        assert_eq!(id.to_string().parse::<ObjectId>().unwrap(), id);
        assert!("zz".parse::<ObjectId>().unwrap_err().to_string().contains("'zz'"));
    }
}
