//! Caches counts of prompts next to a store, so that the next process need not count again.
//!
//! Where writers recorded no numbers, the number of a prompt costs a look at every turn before it.
//! Of each stretch of counted turns, the last one is cached. A note depends on the commits, which
//! never change, on the existing contexts, and on the rule for prompts. If one of the latter
//! changes, everything is counted again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::object::{ID_BYTES, Kind, ObjectId};
use crate::repo::{Grafts, Repository};

/// The distance between cached turns: at most this many are counted again.
pub(super) const STRETCH: usize = 256;

/// The name of the note.
const NOTE: &str = "prompt counts";

/// The version of the note. A change to the rule for prompts within one package version must raise
/// it.
const VERSION: &str = concat!("1 ", env!("CARGO_PKG_VERSION"), " ");

/// The maximum number of cached counts.
const MAX_KEPT: usize = 1 << 16;

/// The size of an entry: an id, the count, and a flag for a prompt.
const ENTRY_BYTES: usize = ID_BYTES + size_of::<u64>() + 1;

/// Caches derived facts about a store between processes. A note may disappear at any time.
pub trait NoteKeeper: fmt::Debug + Send + Sync {
    /// Returns the note `name` as a whole; `None` if it does not exist.
    fn read(&self, repo: &Repository, name: &str) -> Option<Bytes>;

    /// Stores `bytes` as the note `name`, replacing the old one.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&self, repo: &Repository, name: &str, bytes: &[u8]) -> Result<()>;
}

/// The place of a turn among the prompts of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::repo) struct PromptPlace {
    /// Prompts up to and including this turn.
    pub(in crate::repo) count: u64,
    pub(in crate::repo) is_prompt: bool,
}

/// Cached counts, by commit.
type CachedPlaces = BTreeMap<ObjectId, PromptPlace>;

/// The basis of counts besides commits: counts made on another basis may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::repo) struct CountBasis(ObjectId);

impl Repository {
    /// Caches the results of long computations of this handle in `notes`, and looks there first.
    #[must_use]
    pub fn keeping_notes(mut self, notes: Arc<dyn NoteKeeper>) -> Self {
        self.notes = Some(notes);
        self
    }

    /// Returns the current basis, and the cached counts on the same basis.
    pub(super) fn load_prompt_counts(&self, grafts: &Grafts) -> (CountBasis, CachedPlaces) {
        let basis = self.count_basis(grafts);
        let kept = self.note_keeper().and_then(|notes| notes.read(self, NOTE));
        let kept = kept.and_then(|bytes| {
            let (found, entries) = bytes.split_first_chunk::<ID_BYTES>()?;
            (found == basis.0.as_bytes()).then(|| decode(entries))?
        });
        (basis, kept.unwrap_or_default())
    }

    /// Caches some turns of a line that were counted in a row, oldest first, if the basis has not
    /// changed since counting began. Turns that are not cached are counted again.
    pub(super) fn store_prompt_counts(
        &self,
        grafts: &Grafts,
        begun: CountBasis,
        counted: &[(ObjectId, PromptPlace)],
    ) {
        let Some(notes) = self.note_keeper().filter(|_| counted.len() >= STRETCH) else { return };
        let (basis, mut kept) = self.load_prompt_counts(grafts);
        if basis != begun {
            return;
        }
        let new = counted.iter().skip(STRETCH - 1).step_by(STRETCH).chain(counted.last());
        kept.extend(new.copied());
        if kept.len() > MAX_KEPT {
            kept = counted.last().copied().into_iter().collect();
        }
        let mut bytes = basis.0.as_bytes().to_vec();
        for (id, place) in &kept {
            bytes.extend_from_slice(id.as_bytes());
            bytes.extend_from_slice(&place.count.to_le_bytes());
            bytes.push(place.is_prompt.into());
        }
        let _ = notes.write(self, NOTE, &bytes);
    }

    /// Returns the note keeper; `None` for a handle on a past state.
    pub(super) fn note_keeper(&self) -> Option<&dyn NoteKeeper> {
        self.notes.as_deref().filter(|_| !self.is_past())
    }

    fn count_basis(&self, grafts: &Grafts) -> CountBasis {
        let mut basis = VERSION.as_bytes().to_vec();
        for id in self.store.tombstone_ids() {
            basis.extend_from_slice(id.as_bytes());
        }
        basis.extend_from_slice(grafts.encode().as_bytes());
        CountBasis(ObjectId::of(Kind::Blob, &basis))
    }
}

/// Decodes the counts in a note.
fn decode(mut entries: &[u8]) -> Option<CachedPlaces> {
    let mut kept = CachedPlaces::new();
    while !entries.is_empty() {
        let (entry, rest) = entries.split_first_chunk::<ENTRY_BYTES>()?;
        let (id, entry) = entry.split_first_chunk::<ID_BYTES>()?;
        let (count, is_prompt) = entry.split_first_chunk()?;
        let place = PromptPlace { count: u64::from_le_bytes(*count), is_prompt: is_prompt == [1] };
        kept.insert(ObjectId::from_bytes(*id), place);
        entries = rest;
    }
    Some(kept)
}
