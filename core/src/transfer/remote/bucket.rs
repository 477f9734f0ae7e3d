//! What is asked of object storage: objects by key, written whole, changed by compare-and-swap.
//!
//! Immutable objects have names that are never used twice, and are uploaded. The few that change are
//! small, and are written only over what the writer has seen. An answer that was lost is neither a
//! success nor a lost race, and [`Put`] has a word for it: whoever meets it reads the object again and
//! looks for what it wrote.

use std::fmt::{self, Debug};
use std::ops::Range;

use bytes::Bytes;

use super::names::Names;
use crate::error::{Error, Result};
use crate::store::ReadAt;

/// Most bytes of a key. With a prefix it stays below what every object storage takes, 1,024.
pub const MAX_KEY_BYTES: usize = 512;

/// Most bytes of a part of a key: file systems take no longer names.
pub const MAX_PART_BYTES: usize = 200;

/// A place where a remote keeps objects: a bucket of object storage, or a folder.
///
/// Calls may be repeated, and none changes more than its key. Nothing is believed of what comes back.
pub trait Bucket: Debug + Send + Sync {
    /// Reads an object, or a range of it, unless it still is `unless`.
    ///
    /// A range that reaches beyond the end gives what there is.
    ///
    /// # Errors
    /// `Io` when there was no answer, or one that does not say.
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got>;

    /// Writes an object that is not there.
    ///
    /// # Errors
    /// `Io` when it was certainly not written, and cannot be, as without the right to.
    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put>;

    /// Writes an object over the one that was seen.
    ///
    /// # Errors
    /// As [`Bucket::put_new`].
    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put>;

    /// Writes an immutable object under a name that nobody else has. After a success it is durable; after
    /// an error it may be there, whole or not, and may be uploaded again.
    ///
    /// # Errors
    /// `Io` when it is not known to be there.
    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()>;

    /// Lists objects whose keys begin with `prefix`, in order of keys, from behind `after` on. A page may
    /// have any number of them, and may lack what was written a moment ago.
    ///
    /// # Errors
    /// `Io` when there was no answer.
    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page>;

    /// Deletes objects; those that are gone already are no error.
    ///
    /// # Errors
    /// `Io` when some may still be there.
    fn delete(&self, keys: &[Key]) -> Result<()>;

    /// True if an immutable object is sealed with keys that are not the newest ones, so that who was removed
    /// since reads it. It costs a request in an encrypted remote.
    ///
    /// # Errors
    /// Those of reading it.
    fn is_sealed_before(&self, _key: &Key) -> Result<bool> {
        Ok(false)
    }

    /// How the keys of objects name sessions.
    fn names(&self) -> Names {
        Names::Plain
    }
}

/// The name of an object: parts of letters, digits, `-`, `_`, `.` and `%`, with slashes between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// A key.
    ///
    /// # Errors
    /// `InvalidInput` for what no remote has: other characters, parts that are empty, too long or begin
    /// with a dot. So a key is a relative path below any folder.
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
            // A listing of others may have anything in it.
            let shown: String = key.chars().take(100).collect();
            return Err(Error::invalid(format!("{shown:?} is no key of a remote")));
        }
        Ok(Self(key))
    }

    /// The key as text.
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

/// Tells one state of an object from all others it ever had; only the bucket knows what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(pub String);

/// The answer to a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// There is no such object.
    Missing,
    /// It is the one that was seen.
    Same,
    /// Its bytes, or those of the range.
    Bytes {
        /// The bytes.
        bytes: Bytes,
        /// Its state.
        version: Version,
        /// Bytes of the whole object.
        size: u64,
    },
}

/// The outcome of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It is written, durable, and has this state.
    Done(Version),
    /// It is not what was seen, or is there already: perhaps by this very write, if that was sent twice.
    Lost,
    /// There was no answer. It may be written, or be written later.
    Unknown,
}

/// A part of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects, in order of keys.
    pub objects: Vec<Listed>,
    /// True if there may be more behind the last one.
    pub has_more: bool,
}

/// An object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: Key,
    /// Its bytes.
    pub size: u64,
    /// Its state.
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
