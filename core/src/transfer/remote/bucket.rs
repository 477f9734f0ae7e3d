//! The interface to object storage: objects by key, written whole, changed by compare-and-swap.
//!
//! Immutable objects have unique names and are uploaded. The few mutable objects are small, and a
//! write replaces only the version that the writer has read. A write without an answer has an
//! unknown result, [`Put::Unknown`]: the caller rereads the object and looks for its own write.

use std::fmt::{self, Debug};
use std::ops::Range;

use bytes::Bytes;

use super::names::Names;
use crate::error::{Error, Result};
use crate::store::ReadAt;

/// Maximum bytes of a key. With a prefix it stays below 1,024, which every object storage accepts.
pub const MAX_KEY_BYTES: usize = 512;

/// Maximum bytes of a part of a key: the limit of file names.
pub(crate) const MAX_PART_BYTES: usize = 200;

/// Storage for the objects of a remote: a bucket of object storage, or a folder.
///
/// Calls may be repeated, and each changes only its key. Callers must treat all results as
/// untrusted.
pub trait Bucket: Debug + Send + Sync {
    /// Reads an object, or a range of it, unless its version is `unless`.
    ///
    /// A range beyond the end returns the existing bytes.
    ///
    /// # Errors
    /// `Io` if there was no answer, or an unclear one.
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got>;

    /// Writes an object that must not exist yet.
    ///
    /// # Errors
    /// `Io` if the write certainly failed and a retry cannot succeed, e.g. without permission.
    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put>;

    /// Replaces the version of an object that the caller has read.
    ///
    /// # Errors
    /// As [`Bucket::put_new`].
    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put>;

    /// Uploads an immutable object under a unique name. After a success it is durable. After an
    /// error it may exist, whole or in part, and may be uploaded again.
    ///
    /// # Errors
    /// `Io` if the object may be missing.
    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()>;

    /// Lists objects whose keys begin with `prefix`, ordered by key, after the key `after`. A page
    /// may have any number of objects, and may lack recently written ones.
    ///
    /// # Errors
    /// `Io` if there was no answer.
    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page>;

    /// Deletes objects; already deleted objects are no error.
    ///
    /// # Errors
    /// `Io` if some objects may still exist.
    fn delete(&self, keys: &[Key]) -> Result<()>;

    /// Returns true if an immutable object is sealed with old keys, which removed members still
    /// have. Costs a request on an encrypted remote.
    ///
    /// # Errors
    /// Errors of reading the object.
    fn is_sealed_before(&self, _key: &Key) -> Result<bool> {
        Ok(false)
    }

    /// Returns how keys name sessions.
    fn names(&self) -> Names {
        Names::Plain
    }
}

/// The name of an object: parts of letters, digits, `-`, `_`, `.` and `%`, separated by slashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// Creates a key.
    ///
    /// # Errors
    /// `InvalidInput` for other characters, and for parts that are empty, too long or begin with a
    /// dot. So a key is always a relative path inside of a folder.
    pub fn new(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.%".contains(c);
        let is_part = |part: &str| {
            !part.is_empty()
                && part.len() <= MAX_PART_BYTES
                && !part.starts_with('.')
                && part.chars().all(is_safe)
        };
        if key.len() > MAX_KEY_BYTES || !key.split('/').all(is_part) {
            // A listing from another writer may contain anything.
            let shown: String = key.chars().take(100).collect();
            return Err(Error::invalid(format!("{shown:?} is not a key of a remote")));
        }
        Ok(Self(key))
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An opaque version of an object, unique among all its states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(pub String);

/// The result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// The object does not exist.
    Missing,
    /// The object still has the known version.
    Same,
    /// The bytes of the object or range.
    Bytes {
        /// The bytes.
        bytes: Bytes,
        /// The version of the object.
        version: Version,
        /// Size of the whole object.
        size: u64,
    },
}

/// The outcome of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// The object is written and durable, and has this version.
    Done(Version),
    /// The object has another version or already exists, possibly from this write if it was sent
    /// twice.
    Lost,
    /// There was no answer. The write may have happened, or may still happen.
    Unknown,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects, ordered by key.
    pub objects: Vec<Listed>,
    /// True if more objects may follow.
    pub has_more: bool,
}

/// An object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: Key,
    /// The size in bytes.
    pub size: u64,
    /// The version.
    pub version: Version,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_key_is_a_path_that_leads_nowhere_else() {
        for key in ["turntree", "heads/task", "bundles/a%2Fb/12-00ff", "a.b/c_d-e"] {
            assert_eq!(Key::new(key).unwrap().as_str(), key);
        }
        let long = ["a".repeat(MAX_PART_BYTES + 1), vec!["a"; MAX_KEY_BYTES].join("/")];
        let bad =
            ["", "/", "a/", "/a", "a//b", ".", "a/..", "../a", ".a", "a b", "a\\b", "a\0", "ü"];
        for key in bad.into_iter().chain(long.iter().map(String::as_str)) {
            assert_eq!(Key::new(key).unwrap_err().kind(), ErrorKind::InvalidInput, "{key}");
        }
    }
}
