//! Grafts: links across forgotten commits, by which history continues.
//!
//! An expired turn keeps its commit, and some hundred commits of a long session are small. A
//! hundred thousand are not, so the turns that expired longest ago are forgotten. A graft links the
//! oldest remembered commit to the nearest remaining ancestor.
//!
//! ```text
//! tip ── ... ── 9001 ── 9000 ── 8999 ── ... ── 701 ── 700 ── ...      700 is a branch point
//!                 └───── graft: behind 8999 comes 700 ─────┘
//! ```
//!
//! The ref [`GRAFTS_REF`] holds a blob with one line per graft, in order of the forgotten parents:
//! the id of the forgotten parent, a space, and the id of the commit that replaces it, or `-`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSource, RefValue};
use crate::repo::Repository;
use crate::store::RefTable;

/// The ref that holds the grafts.
pub const GRAFTS_REF: &str = "refs/maintenance/grafts";

/// Maps forgotten parents to the commits that replace them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grafts(pub BTreeMap<ObjectId, Option<ObjectId>>);

impl Grafts {
    /// Loads the grafts of a store with these refs.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref.
    pub fn load(source: &dyn ObjectSource, refs: &RefTable) -> Result<Self> {
        match refs.value(GRAFTS_REF) {
            None => Ok(Self::default()),
            Some(RefValue::Object(id)) => source
                .read_as(Kind::Blob, id)
                .and_then(|bytes| Self::decode(&bytes))
                .map_err(|error| error.at(GRAFTS_REF)),
            Some(RefValue::Symbolic(_)) => {
                Err(Error::corrupt(GRAFTS_REF, "a blob", "a symbolic ref"))
            }
        }
    }

    /// Returns the parents by which history continues after a commit: its own, or those of a graft.
    #[must_use]
    pub fn parents(&self, commit: &Commit) -> Vec<ObjectId> {
        let parents = commit.parents.iter();
        parents.filter_map(|id| self.0.get(id).copied().unwrap_or(Some(*id))).collect()
    }

    /// Returns true if a parent is forgotten.
    #[must_use]
    pub fn is_forgotten(&self, parent: &ObjectId) -> bool {
        self.0.contains_key(parent)
    }

    /// Returns the bytes of the blob.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        for (forgotten, next) in &self.0 {
            let next = next.map_or_else(|| "-".to_owned(), |id| id.to_string());
            // Writing to a string does not fail.
            let _ = writeln!(text, "{forgotten} {next}");
        }
        text
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::malformed("grafts", "lines of two ids in ascending order");
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let mut grafts = BTreeMap::new();
        for line in text.lines() {
            let (forgotten, next) = line.split_once(' ').ok_or_else(damaged)?;
            let next = match next {
                "-" => None,
                id => Some(id.parse().map_err(|_| damaged())?),
            };
            grafts.insert(forgotten.parse().map_err(|_| damaged())?, next);
        }
        let grafts = Self(grafts);
        if grafts.encode() == text { Ok(grafts) } else { Err(damaged()) }
    }
}

impl Repository {
    /// Returns the current grafts of this store.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref.
    pub fn grafts(&self) -> Result<Arc<Grafts>> {
        Grafts::load(self.store(), &self.refs()).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grafts_round_trip_and_only_what_was_written_is_read() {
        let id = |text: &str| ObjectId::of(Kind::Commit, text.as_bytes());
        let grafts = Grafts([(id("a"), Some(id("b"))), (id("c"), None)].into());
        let text = grafts.encode();
        assert_eq!(Grafts::decode(text.as_bytes()).unwrap(), grafts);
        for wrong in [text.trim_end(), &text.to_uppercase(), &text.replace(' ', "  "), "x"] {
            assert!(Grafts::decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
