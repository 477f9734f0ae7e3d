//! Counts of prompts that are kept beside a store, so that the next process need not count them again.
//!
//! Where writers left no numbers, the number of a prompt costs a look at every turn before it. Of each
//! stretch of turns that was counted the last one is kept. A note is good for what it was made of: the
//! commits, which never change, the contexts that are there, and how prompts are told from other messages.
//! When one of these has changed, all is counted again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{Grafts, Repository};
use crate::error::Result;
use crate::object::{ID_BYTES, Kind, ObjectId};
use crate::store::Store;

/// Turns of which one is kept: at most so many are counted again.
pub(super) const STRETCH: usize = 256;

/// The name of the note.
const NOTE: &str = "prompt counts";

/// The version of its bytes. Whoever changes what a prompt is without a new version of the package raises it.
const VERSION: &str = concat!("1 ", env!("CARGO_PKG_VERSION"), " ");

/// Most counts that are kept.
const MAX_KEPT: usize = 1 << 16;

/// An id, the count, and whether it is a prompt.
const ENTRY_BYTES: usize = ID_BYTES + size_of::<u64>() + 1;

/// Keeps what was found out about a store, from one process to the next. It may go at any time.
pub trait NoteKeeper: fmt::Debug + Send + Sync {
    /// The note called `name`, whole; `None` when there is none.
    fn read(&self, store: &Store, name: &str) -> Option<Bytes>;

    /// Keeps `bytes` under `name`, in place of what was there.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&self, store: &Store, name: &str, bytes: &[u8]) -> Result<()>;
}

/// The place of a turn among the prompts of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PromptPlace {
    /// Prompts up to this turn, with itself.
    pub(super) count: u64,
    pub(super) is_prompt: bool,
}

/// Counts that are kept, by commit.
type KeptPlaces = BTreeMap<ObjectId, PromptPlace>;

/// What counts rest on beside commits: two states of a store that differ in it may count differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountBasis(ObjectId);

impl Repository {
    /// Gives what this handle finds out at length to `notes`, and asks there first.
    #[must_use]
    pub fn keeping_notes(mut self, notes: Arc<dyn NoteKeeper>) -> Self {
        self.notes = Some(notes);
        self
    }

    /// What counts rest on now, and those that were kept and rest on the same.
    pub(super) fn recall_prompts(&self, grafts: &Grafts) -> (CountBasis, KeptPlaces) {
        let basis = self.basis_of_prompts(grafts);
        let kept = self.note_keeper().and_then(|notes| notes.read(&self.store, NOTE));
        let kept = kept.and_then(|bytes| {
            let (found, entries) = bytes.split_first_chunk::<ID_BYTES>()?;
            (found == basis.0.as_bytes()).then(|| decode(entries))?
        });
        (basis, kept.unwrap_or_default())
    }

    /// Keeps some of the turns of a line that were counted in a row, the oldest first, if they still rest
    /// on what counting began with. What cannot be kept is counted again.
    pub(super) fn keep_prompts(
        &self,
        grafts: &Grafts,
        begun: CountBasis,
        counted: &[(ObjectId, PromptPlace)],
    ) {
        let Some(notes) = self.note_keeper().filter(|_| counted.len() >= STRETCH) else { return };
        let (basis, mut kept) = self.recall_prompts(grafts);
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
        let _ = notes.write(&self.store, NOTE, &bytes);
    }

    /// Who keeps notes; nobody does of a state in the past.
    pub(super) fn note_keeper(&self) -> Option<&dyn NoteKeeper> {
        self.notes.as_deref().filter(|_| self.past.is_none())
    }

    fn basis_of_prompts(&self, grafts: &Grafts) -> CountBasis {
        let mut basis = VERSION.as_bytes().to_vec();
        for id in self.store.gone() {
            basis.extend_from_slice(id.as_bytes());
        }
        basis.extend_from_slice(grafts.encode().as_bytes());
        CountBasis(ObjectId::of(Kind::Blob, &basis))
    }
}

/// The counts in a note.
fn decode(mut entries: &[u8]) -> Option<KeptPlaces> {
    let mut kept = KeptPlaces::new();
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
