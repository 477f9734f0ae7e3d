//! Holes: objects that are lost for good and known to be, and what is kept because of them.
//!
//! Losses that `repair` could not mend and its caller accepted are recorded here: so a loss that
//! is known is told from damage that is new. Nobody knows what a lost object led to, so what no
//! ref led to when it was given up is written down as well, and no collection takes it away.
//!
//! The ref [`KNOWN_LOSSES_REF`] holds a blob with one line for each object: `kept` or `lost`, a space, its
//! kind, a space, and its id. Those that are kept come first, both in order of their ids. An object
//! that is there again is no hole, whatever is written.

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

/// Objects that are lost, and objects that may have belonged to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KnownLosses {
    /// Objects that were accepted as lost, and their kinds.
    pub lost: BTreeMap<ObjectId, Kind>,
    /// Objects that lie elsewhere, which is no loss; empty in what is written.
    pub distant: HashSet<ObjectId>,
    /// The tops of everything that was unreachable then; everything reachable from them is kept
    /// with them.
    pub kept: BTreeMap<ObjectId, Kind>,
}

impl KnownLosses {
    /// The holes of a store with these refs.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref.
    pub(crate) fn load(source: &dyn ObjectSource, refs: &RefTable) -> Result<Self> {
        let mut losses = Self::load_accepted(source, refs)?;
        losses.distant.extend(distant_ids(source, refs)?);
        Ok(losses)
    }

    /// What was accepted, without what lies elsewhere.
    fn load_accepted(source: &dyn ObjectSource, refs: &RefTable) -> Result<Self> {
        match refs.value(KNOWN_LOSSES_REF) {
            None => Ok(Self::default()),
            Some(RefValue::Object(id)) => match source.read(id) {
                Ok(Some(object)) if object.kind == Kind::Blob => Self::decode(&object.bytes),
                // Not by `read_as`, which would look here for what to say.
                Ok(_) => Err(Error::corrupt(id, "a blob", "nothing of the kind")),
                Err(error) => Err(error),
            }
            .map_err(|error| error.at(KNOWN_LOSSES_REF)),
            Some(RefValue::Symbolic(_)) => {
                Err(Error::corrupt(KNOWN_LOSSES_REF, "a blob", "the name of another ref"))
            }
        }
    }

    /// Returns true if nothing is lost.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.lost.is_empty()
    }

    /// Returns true if the object `id` was given up, or lies elsewhere: that it is not here is no damage.
    #[must_use]
    pub(crate) fn is_lost(&self, id: &ObjectId) -> bool {
        self.lost.contains_key(id) || self.is_distant(id)
    }

    /// Returns true if the object `id` lies elsewhere.
    #[must_use]
    pub(crate) fn is_distant(&self, id: &ObjectId) -> bool {
        self.distant.contains(id)
    }

    /// The bytes of the blob.
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

/// The error about an object that is missing: that it was given up, if it was.
pub(in crate::store) fn explain(
    source: &dyn ObjectSource,
    refs: &RefTable,
    (kind, id): (Kind, &ObjectId),
) -> Error {
    match KnownLosses::load(source, refs) {
        Ok(holes) if holes.is_distant(id) => {
            Error::not_found(format!("{kind} {id} is not here, but on a remote"))
        }
        Ok(holes) if holes.is_lost(id) => {
            let message = format!("{kind} {id} is lost: 'repair --accept-loss' gave it up");
            Error::new(ErrorKind::Corrupt, message)
        }
        // What is wrong with the holes is said when they are needed.
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
