//! The list of redacted contents and their replacements.
//!
//! The writer of redacted content still has it: an import may read the transcript again, a snapshot
//! may find the file. The id identifies the content. So an import stores the replacement, and a
//! change that still has the content is refused.
//!
//! The ref [`REDACTIONS_REF`] holds a blob with one line per redacted id, in order of ids: the id,
//! a space, and the id of the replacement. The ref keeps the replacements alive.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource, RefValue};
use crate::repo::Repository;
use crate::store::{RefTable, Tombstone};

/// The ref that holds the redactions.
pub const REDACTIONS_REF: &str = "refs/maintenance/redactions";

/// Maps the ids of redacted blobs to the ids of their replacements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redactions(BTreeMap<ObjectId, ObjectId>);

impl Redactions {
    /// Loads the redactions of a store with these refs.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref.
    pub fn load(source: &dyn ObjectSource, refs: &RefTable) -> Result<Self> {
        match refs.value(REDACTIONS_REF) {
            None => Ok(Self::default()),
            Some(RefValue::Object(id)) => source
                .read_as(Kind::Blob, id)
                .and_then(|bytes| Self::decode(&bytes))
                .map_err(|error| error.at(REDACTIONS_REF)),
            Some(RefValue::Symbolic(_)) => {
                Err(Error::corrupt(REDACTIONS_REF, "a blob", "a symbolic ref"))
            }
        }
    }

    /// Returns true if nothing was ever redacted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the blob `id` was redacted.
    #[must_use]
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.0.contains_key(id)
    }

    /// Returns the replacement of `id` if it was redacted.
    #[must_use]
    pub fn get(&self, id: &ObjectId) -> Option<ObjectId> {
        self.0.get(id).copied()
    }

    /// Returns every replacement.
    pub fn replacements(&self) -> impl Iterator<Item = &ObjectId> {
        self.0.values()
    }

    /// Records `new` as the replacement of `old`, and of every blob that `old` replaced.
    pub fn add(&mut self, old: ObjectId, new: ObjectId) {
        for stands in self.0.values_mut().filter(|stands| **stands == old) {
            *stands = new;
        }
        self.0.insert(old, new);
    }

    /// Returns the bytes of the blob.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        for (old, new) in &self.0 {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{old} {new}");
        }
        text
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::malformed("redactions", "lines of two ids in ascending order");
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let mut redactions = BTreeMap::new();
        for line in text.lines() {
            let (old, new) = line.split_once(' ').ok_or_else(damaged)?;
            let (old, new) = (old.parse(), new.parse());
            redactions.insert(old.map_err(|_| damaged())?, new.map_err(|_| damaged())?);
        }
        let redactions = Self(redactions);
        if redactions.encode() == text { Ok(redactions) } else { Err(damaged()) }
    }
}

/// The redactions read last, and the blob that they came from.
#[derive(Debug, Default)]
pub(in crate::repo) struct CachedRedactions(Option<(ObjectId, Arc<Redactions>)>);

impl Repository {
    /// Returns the redactions of this store. Reads nothing if there are none, and each version
    /// once.
    ///
    /// A lost list counts as empty: redacted contents have no replacements then.
    /// [`Repository::is_redacted`] still recognizes them.
    ///
    /// # Errors
    /// `Io` when the list cannot be read.
    pub fn redactions(&self) -> Result<Arc<Redactions>> {
        let refs = self.refs();
        let Some(RefValue::Object(id)) = refs.value(REDACTIONS_REF) else {
            return Ok(Arc::default());
        };
        let mut loaded = self.redactions.lock().unwrap_or_else(PoisonError::into_inner);
        match &loaded.0 {
            Some((of, known)) if of == id => Ok(Arc::clone(known)),
            _ => {
                let known = match Redactions::load(&self.store, &refs) {
                    Err(error) if error.is_loss() => return Ok(Arc::default()),
                    found => Arc::new(found?),
                };
                loaded.0 = Some((*id, Arc::clone(&known)));
                Ok(known)
            }
        }
    }
}

impl Repository {
    /// Returns true if the blob `id` was redacted, by the list or, if the list is lost, by the
    /// tombstones of packs.
    ///
    /// # Errors
    /// `Io` when the list cannot be read.
    pub fn is_redacted(&self, id: &ObjectId) -> Result<bool> {
        if self.refs().value(REDACTIONS_REF).is_none() {
            return Ok(false);
        }
        let is_gone = || self.store.tombstone(id) == Some(Tombstone::Redacted);
        Ok(self.redactions()?.contains(id) || is_gone())
    }
}

/// The error about storing redacted content again.
pub(in crate::repo) fn redacted_error(id: &ObjectId) -> Error {
    let message = format!("blob {id} was redacted from this store and cannot be stored again");
    Error::new(ErrorKind::Redacted, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redactions_round_trip_and_only_what_was_written_is_read() {
        let id = |text: &str| ObjectId::of(Kind::Blob, text.as_bytes());
        let mut redactions = Redactions::default();
        redactions.add(id("a"), id("b"));
        redactions.add(id("c"), id("d"));
        let text = redactions.encode();
        assert_eq!(Redactions::decode(text.as_bytes()).unwrap(), redactions);
        let lines: Vec<&str> = text.lines().rev().collect();
        let reversed = lines.join("\n") + "\n";
        for wrong in
            [text.trim_end(), &reversed, &text.to_uppercase(), &text.replace(' ', "  "), "x"]
        {
            assert!(Redactions::decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_stands_for_something_may_be_redacted_itself() {
        let id = |text: &str| ObjectId::of(Kind::Blob, text.as_bytes());
        let mut redactions = Redactions::default();
        redactions.add(id("two secrets"), id("one secret"));
        redactions.add(id("one secret"), id("none"));
        assert_eq!(redactions.get(&id("two secrets")), Some(id("none")));
        assert_eq!(redactions.get(&id("one secret")), Some(id("none")));
        assert_eq!(redactions.get(&id("none")), None);
    }
}
