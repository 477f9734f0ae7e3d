//! Objects: five kinds of hashed and stored values, their ids and their bytes. No I/O.
//!
//! An object is a kind and bytes, and its id is derived from both ([`ObjectId::of`]). An id does
//! not depend on compression, chunking, or storage location, so a store can change all of these and
//! every link stays valid.
//!
//! | kind | bytes | id |
//! |---|---|---|
//! | [`Kind::Blob`] | the user's bytes, unchanged | plain BLAKE3, as `b3sum` prints it |
//! | [`Kind::Node`] | a node or root of a [tree](crate::tree), canonical CBOR | keyed BLAKE3 |
//! | [`Kind::Commit`] | a [`Commit`]: a snapshot and its origin | keyed BLAKE3 |
//! | [`Kind::Tag`] | a [`Tag`]: a name given to an object, with a reason | keyed BLAKE3 |
//! | [`Kind::Operation`] | an [`Operation`]: one atomic change of refs | keyed BLAKE3 |
//!
//! Upper layers read through [`ObjectSource`] and write through [`ObjectSink`], which are declared
//! here and implemented by the store, so trees do not depend on the store. [`Memory`] implements
//! both.
//!
//! ```
//! use turntree::object::{Kind, Memory, ObjectSink, ObjectSource};
//!
//! let mut objects = Memory::new();
//! let id = objects.write(Kind::Blob, b"hello".as_slice().into())?;
//! assert_eq!(objects.read_as(Kind::Blob, &id)?, "hello");
//! # Ok::<(), turntree::Error>(())
//! ```

mod codec;
mod commit;
mod id;
mod lanes;
mod memory;
mod operation;
mod tag;
mod varint;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use codec::{Reader, Writer};
pub use commit::{Author, Commit, Time, Trigger};
pub(crate) use id::key_digest;
pub use id::{Checksum, ID_BYTES, ID_HEX_DIGITS, IdPrefix, ObjectId, verify};
pub(crate) use lanes::check_ids;
pub use memory::Memory;
pub(crate) use operation::MAX_PARENTS;
pub use operation::{Operation, RefChange, RefValue};
pub use tag::Tag;
pub(crate) use varint::{push_varint, take_varint, unzigzag, zigzag};

use crate::error::{Error, Result};

/// Maximum bytes of a structured object (node, commit, tag, operation).
pub const MAX_STRUCTURED_BYTES: usize = 4 << 20;

/// Maximum bytes of a blob.
pub const MAX_BLOB_BYTES: usize = 2 << 30;

/// The kind of an object. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Opaque bytes of any size.
    Blob = 0,
    /// A node or root of a list or map.
    Node = 1,
    /// A snapshot.
    Commit = 2,
    /// A named, described pointer.
    Tag = 3,
    /// An atomic change of refs.
    Operation = 4,
}

impl Kind {
    /// Every kind, in order of its code.
    pub const ALL: [Self; 5] = [Self::Blob, Self::Node, Self::Commit, Self::Tag, Self::Operation];

    /// Returns the code used in formats.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the kind for a code, if it exists.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns the name in commands and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Node => "node",
            Self::Commit => "commit",
            Self::Tag => "tag",
            Self::Operation => "operation",
        }
    }

    /// Returns the maximum bytes of an object of this kind.
    #[must_use]
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::Blob => MAX_BLOB_BYTES,
            _ => MAX_STRUCTURED_BYTES,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An object: a kind and verified bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// The kind.
    pub kind: Kind,
    /// The bytes, shared with other holders.
    pub bytes: Bytes,
}

/// Shows only kind and length, so that stored content does not leak into logs.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({}, {} bytes)", self.kind, self.bytes.len())
    }
}

/// A source of objects.
pub trait ObjectSource {
    /// Reads the object `id` and verifies it; `None` if it is missing.
    ///
    /// # Errors
    /// `Corrupt` if its bytes do not verify, `Io` if they cannot be read.
    fn read(&self, id: &ObjectId) -> Result<Option<Object>>;

    /// Returns true if the object `id` exists; does not read its bytes.
    ///
    /// # Errors
    /// `Io` if the storage cannot be read.
    fn contains(&self, id: &ObjectId) -> Result<bool>;

    /// Reads the bytes of the object `id`, which must exist and be of `kind`.
    ///
    /// # Errors
    /// `NotFound` if it is missing, `Corrupt` if it is of another kind or does not verify.
    fn read_as(&self, kind: Kind, id: &ObjectId) -> Result<Bytes> {
        match self.read(id)? {
            Some(object) if object.kind == kind => Ok(object.bytes),
            Some(object) => Err(Error::corrupt(id, kind, object.kind)),
            None => Err(self.missing(kind, id)),
        }
    }

    /// Returns the error for reading a missing object.
    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        Error::missing_object(format!("{kind} {id} is not in the store"))
    }

    /// Reads the bytes of many objects, in the order of `ids`, like [`ObjectSource::read_as`] for
    /// each. A store reads them in storage order, on all processors.
    ///
    /// # Errors
    /// Errors of [`ObjectSource::read_as`], for one of the failing objects.
    fn read_all(&self, kind: Kind, ids: &[ObjectId]) -> Result<Vec<Bytes>> {
        ids.iter().map(|id| self.read_as(kind, id)).collect()
    }
}

/// The reason why the content of a file is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRefusal {
    /// It was redacted.
    Redacted,
    /// A masked version would be stored instead, which must not be restored into a file.
    Masked,
}

impl fmt::Display for FileRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redacted => "its content was redacted from the store",
            Self::Masked => {
                "it contains a secret, and this store masks secrets: 'turntree secrets allow' allows one"
            }
        })
    }
}

/// A sink of objects. Each object is readable as soon as it is written.
pub trait ObjectSink: ObjectSource {
    /// Adds the object unless it exists, and returns its id.
    ///
    /// # Errors
    /// `LimitExceeded` if it is larger than its kind allows, `Io` if it cannot be stored.
    fn write(&mut self, kind: Kind, bytes: Bytes) -> Result<ObjectId>;

    /// Returns the reason if a file with these bytes must not be stored. Never by default.
    ///
    /// # Errors
    /// If the check fails.
    fn refuses(&self, _file: &[u8]) -> Result<Option<FileRefusal>> {
        Ok(None)
    }

    /// Returns and clears the payloads cited by the blobs written since the last call: names and
    /// blobs. The context written next references them. None by default.
    ///
    /// # Errors
    /// If the names cannot be looked up.
    fn take_citations(&mut self) -> Result<Vec<(String, ObjectId)>> {
        Ok(Vec::new())
    }

    /// Called regularly by a caller that writes more than memory should hold: a sink that keeps
    /// objects in memory may write them out. Does nothing by default.
    ///
    /// # Errors
    /// `Io` if writing fails.
    fn make_room(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<T: ObjectSource + ?Sized> ObjectSource for &T {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        (**self).read(id)
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        (**self).contains(id)
    }

    fn read_as(&self, kind: Kind, id: &ObjectId) -> Result<Bytes> {
        (**self).read_as(kind, id)
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        (**self).missing(kind, id)
    }

    fn read_all(&self, kind: Kind, ids: &[ObjectId]) -> Result<Vec<Bytes>> {
        (**self).read_all(kind, ids)
    }
}

impl<T: ObjectSource + ?Sized> ObjectSource for Arc<T> {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        (**self).read(id)
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        (**self).contains(id)
    }

    fn read_as(&self, kind: Kind, id: &ObjectId) -> Result<Bytes> {
        (**self).read_as(kind, id)
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        (**self).missing(kind, id)
    }

    fn read_all(&self, kind: Kind, ids: &[ObjectId]) -> Result<Vec<Bytes>> {
        (**self).read_all(kind, ids)
    }
}

/// Refuses bytes over the limit of their kind.
///
/// # Errors
/// `LimitExceeded` if there are too many bytes.
pub fn check_size(kind: Kind, bytes: &[u8]) -> Result<()> {
    if bytes.len() <= kind.max_bytes() {
        return Ok(());
    }
    Err(Error::limit(
        format_args!("bytes of a {kind}"),
        kind.max_bytes() as u64,
        bytes.len() as u64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// A source whose objects were all redacted.
    struct Redacted;

    impl ObjectSource for Redacted {
        fn read(&self, _: &ObjectId) -> Result<Option<Object>> {
            Ok(None)
        }

        fn contains(&self, _: &ObjectId) -> Result<bool> {
            Ok(false)
        }

        fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
            Error::new(ErrorKind::Redacted, format!("{kind} {id} was redacted"))
        }
    }

    #[test]
    fn a_reference_to_a_source_gives_its_reason_for_a_missing_object() {
        fn kind_of(source: impl ObjectSource) -> ErrorKind {
            source.read_as(Kind::Blob, &ObjectId::of(Kind::Blob, b"x")).unwrap_err().kind()
        }
        assert_eq!(kind_of(Redacted), ErrorKind::Redacted);
        assert_eq!(kind_of(&Redacted), ErrorKind::Redacted);
    }

    #[test]
    fn codes_round_trip_and_unknown_ones_are_nothing() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(Kind::from_code(5), None);
    }

    #[test]
    fn reading_an_object_as_another_kind_is_corruption() {
        let mut objects = Memory::new();
        let id = objects.write(Kind::Blob, Bytes::from_static(b"x")).unwrap();
        let error = objects.read_as(Kind::Commit, &id).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
        assert!(error.to_string().ends_with("expected commit, found blob"));
    }
}
