//! Redactions: what stands for content that was taken out of the store for good.
//!
//! Whoever wrote it has it still: a transcript that is imported again, a file that a snapshot
//! finds. Its id tells it, so an import takes what stands for it, and a change that has it all the
//! same is refused.
//!
//! The ref [`REDACTIONS_REF`] holds them: a blob with one line for each, in order of the ids that
//! were redacted: that id, a space, and the id of the blob that stands for it, which is kept as
//! long.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

use super::Repository;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource, RefValue};
use crate::store::{RefTable, Tombstone};

/// The ref that holds the redactions.
pub const REDACTIONS_REF: &str = "refs/maintenance/redactions";

/// Ids of blobs that were redacted, and of what stands for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redactions(BTreeMap<ObjectId, ObjectId>);

impl Redactions {
    /// The redactions of a store with these refs.
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
                Err(Error::corrupt(REDACTIONS_REF, "a blob", "the name of another ref"))
            }
        }
    }

    /// Returns whether nothing was ever redacted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the blob `id` was redacted.
    #[must_use]
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.0.contains_key(id)
    }

    /// The blob that stands for `id`, if that was redacted.
    #[must_use]
    pub fn get(&self, id: &ObjectId) -> Option<ObjectId> {
        self.0.get(id).copied()
    }

    /// Every blob that stands for another.
    pub fn replacements(&self) -> impl Iterator<Item = &ObjectId> {
        self.0.values()
    }

    /// Says that `new` stands for `old`, and for all that `old` stood for.
    pub fn add(&mut self, old: ObjectId, new: ObjectId) {
        for stands in self.0.values_mut().filter(|stands| **stands == old) {
            *stands = new;
        }
        self.0.insert(old, new);
    }

    /// The bytes of the blob.
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
        let damaged = || Error::malformed("redactions", "lines of two ids in rising order");
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

/// The redactions that were read last, and the blob they were read from.
#[derive(Debug, Default)]
pub(super) struct CachedRedactions(Option<(ObjectId, Arc<Redactions>)>);

impl Repository {
    /// The redactions of this store, as of its refs. Reads nothing where there are none, and the
    /// same ones once.
    ///
    /// When they are lost there are none: nothing stands for what was redacted then. What was is
    /// still known, see [`Repository::is_redacted`].
    ///
    /// # Errors
    /// `Io` when they cannot be read.
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
    /// Returns whether the blob `id` was redacted: by the list, or where that is lost by the
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

/// The error about content that was redacted and is to be stored again.
pub(super) fn refused(id: &ObjectId) -> Error {
    let message = format!("blob {id} was redacted from this store, and is not stored again");
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
