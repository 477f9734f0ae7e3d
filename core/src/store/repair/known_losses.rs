//! Holes: objects that are known to be lost permanently, and objects that are kept because of them.
//!
//! If `repair` cannot restore objects and its caller accepts the loss, it is recorded here. So
//! known losses are distinguished from new damage. The references of a lost object are unknown, so
//! all objects that were unreachable at that time are recorded as well, and no collection removes
//! them.
//!
//! The ref [`KNOWN_LOSSES_REF`] holds a blob with one line for each object: `kept` or `lost`, a
//! space, its kind, a space, and its id. Kept objects come first, both in order of their ids. A
//! recorded object that exists again is not a hole.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource, RefValue};
use crate::store::distant::distant_ids;
use crate::store::read::refs::RefTable;

/// The ref that holds the holes.
pub const KNOWN_LOSSES_REF: &str = "refs/maintenance/holes";

const KEPT: &str = "kept";
const LOST: &str = "lost";

/// Lost objects, and objects that they may have referenced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KnownLosses {
    /// Objects accepted as lost, and their kinds.
    pub lost: BTreeMap<ObjectId, Kind>,
    /// Remote-only objects, which are not lost. Never written to the blob.
    pub distant: HashSet<ObjectId>,
    /// The roots of everything that was unreachable then. Everything reachable from them is kept
    /// too.
    pub kept: BTreeMap<ObjectId, Kind>,
}

impl KnownLosses {
    /// Loads the holes of a store with these refs.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref.
    pub(crate) fn load(source: &dyn ObjectSource, refs: &RefTable) -> Result<Self> {
        let mut losses = Self::load_accepted(source, refs)?;
        losses.distant.extend(distant_ids(source, refs)?);
        Ok(losses)
    }

    /// Loads the accepted losses, without remote-only objects.
    fn load_accepted(source: &dyn ObjectSource, refs: &RefTable) -> Result<Self> {
        match refs.value(KNOWN_LOSSES_REF) {
            None => Ok(Self::default()),
            Some(RefValue::Object(id)) => match source.read(id) {
                Ok(Some(object)) if object.kind == Kind::Blob => Self::decode(&object.bytes),
                // Not `read_as`, whose error message would look up the holes again.
                Ok(_) => Err(Error::malformed(id, "a blob")),
                Err(error) => Err(error),
            }
            .map_err(|error| error.at(KNOWN_LOSSES_REF)),
            Some(RefValue::Symbolic(_)) => {
                Err(Error::corrupt(KNOWN_LOSSES_REF, "a blob", "a symbolic ref"))
            }
        }
    }

    /// Returns true if nothing is lost.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.lost.is_empty()
    }

    /// Returns true if the object `id` was accepted as lost or is remote-only. Then its absence is
    /// no damage.
    #[must_use]
    pub(crate) fn is_lost(&self, id: &ObjectId) -> bool {
        self.lost.contains_key(id) || self.is_distant(id)
    }

    /// Returns true if the object `id` is remote-only.
    #[must_use]
    pub(crate) fn is_distant(&self, id: &ObjectId) -> bool {
        self.distant.contains(id)
    }

    /// Encodes the blob.
    #[must_use]
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        for (word, objects) in [(KEPT, &self.kept), (LOST, &self.lost)] {
            for (id, kind) in objects {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{word} {kind} {id}");
            }
        }
        text
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || {
            let expected = "lines of 'kept' or 'lost', a kind and an id, in order";
            Error::malformed("holes", expected)
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let mut holes = Self::default();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let (Some(word), Some(kind), Some(id)) = (words.next(), words.next(), words.next())
            else {
                return Err(damaged());
            };
            let kind = Kind::ALL.into_iter().find(|known| known.name() == kind);
            let kind = kind.ok_or_else(damaged)?;
            let id = id.parse().map_err(|_| damaged())?;
            match word {
                KEPT => holes.kept.insert(id, kind),
                LOST => holes.lost.insert(id, kind),
                _ => return Err(damaged()),
            };
        }
        if holes.encode() == text { Ok(holes) } else { Err(damaged()) }
    }
}

/// Returns the error for a missing object: whether it is remote-only, accepted as lost, or unknown.
pub(in crate::store) fn missing_object_error(
    source: &dyn ObjectSource,
    refs: &RefTable,
    (kind, id): (Kind, &ObjectId),
) -> Error {
    match KnownLosses::load(source, refs) {
        Ok(holes) if holes.is_distant(id) => {
            Error::not_found(format!("{kind} {id} is only on a remote"))
        }
        Ok(holes) if holes.is_lost(id) => {
            let message = format!("{kind} {id} is lost: 'repair --accept-loss' accepted its loss");
            Error::new(ErrorKind::Corrupt, message)
        }
        // Damage of the holes is reported when they are needed.
        _ => Error::missing_object(format!("{kind} {id} is not in the store")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_round_trip_and_only_what_was_written_is_read() {
        let id = |text: &str| ObjectId::of(Kind::Node, text.as_bytes());
        let holes = KnownLosses {
            lost: [(id("a"), Kind::Node), (id("b"), Kind::Commit)].into(),
            kept: [(id("c"), Kind::Blob)].into(),
            distant: HashSet::new(),
        };
        let text = holes.encode();
        assert_eq!(KnownLosses::decode(text.as_bytes()).unwrap(), holes);
        assert_eq!(KnownLosses::decode(b"").unwrap(), KnownLosses::default());
        let lines: Vec<&str> = text.lines().rev().collect();
        let reversed = lines.join("\n") + "\n";
        for wrong in
            [text.trim_end(), &reversed, &text.to_uppercase(), &text.replace(' ', "  "), "x"]
        {
            assert!(KnownLosses::decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
