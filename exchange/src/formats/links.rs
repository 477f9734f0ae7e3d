//! Follows the links between records, in formats whose records name the one before.
//!
//! Most records follow the one before them in the file. Parallel tool calls and their results do not,
//! and mean nothing by it. A turn that follows a record of an earlier turn is another thing: the
//! conversation went back, and what came between is left.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::event::Event;

/// Records that are kept from one reading of a file to the next: what goes back further than that
/// needs the whole file again.
const KEPT: usize = 64;

/// The records so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Links {
    /// Pieces seen, with the current one.
    pieces: u64,
    /// Turns that have begun.
    turns: u64,
    /// Messages in the conversation.
    messages: u64,
    /// True if the current piece is one.
    is_message: bool,
    places: Places,
    /// True if a record was asked for that is not kept.
    #[serde(skip)]
    is_lost: bool,
}

/// The position of a record.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct RecordPlace {
    piece: u64,
    turns: u64,
    /// Messages up to and with it.
    messages: u64,
    is_message: bool,
}

impl Links {
    /// Passes a piece.
    pub(super) fn piece(&mut self) {
        self.pieces += 1;
        self.is_message = false;
    }

    /// A turn begins with the current piece.
    pub(super) fn turn(&mut self) {
        self.turns += 1;
    }

    /// The current piece is a message of the conversation.
    pub(super) fn message(&mut self) {
        self.messages += 1;
        self.is_message = true;
    }

    /// The current piece is the record `id`, and all it says is told.
    pub(super) fn add(&mut self, id: &str) {
        let Self { turns, messages, is_message, .. } = *self;
        let piece = self.pieces.saturating_sub(1);
        self.places.insert(id, RecordPlace { piece, turns, messages, is_message });
    }

    /// Returns whether the record `id` was seen, as far as records are kept.
    pub(super) fn has(&self, id: &str) -> bool {
        self.places.get(id).is_some()
    }

    /// Returns the event of a turn that begins with the current piece and follows the record
    /// `parent`.
    pub(super) fn back(&mut self, parent: &str) -> Option<Event> {
        let place = self.place(parent).filter(|place| place.turns != self.turns)?;
        self.messages = place.messages;
        self.turn();
        Some(Event::Back { at: self.pieces.saturating_sub(1), to: Some(place.piece) })
    }

    /// Returns the event of a turn that begins with the current piece and follows no record at
    /// all.
    pub(super) fn back_to_start(&mut self) -> Option<Event> {
        if self.messages == 0 {
            return None;
        }
        self.messages = 0;
        self.turn();
        Some(Event::Back { at: self.pieces.saturating_sub(1), to: None })
    }

    /// Messages in the conversation.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// The messages from the record `first` to the record `last`.
    pub(super) fn range(&mut self, first: &str, last: &str) -> Range<u64> {
        let before =
            |place: RecordPlace| place.messages.saturating_sub(u64::from(place.is_message));
        match (self.place(first).map(before), self.place(last)) {
            (Some(start), Some(last)) => start..last.messages.max(start),
            _ => 0..0,
        }
    }

    /// All messages from the record `first` on.
    pub(super) fn since(&mut self, first: &str) -> Option<Range<u64>> {
        let place = self.place(first)?;
        let start = place.messages.saturating_sub(u64::from(place.is_message));
        Some(start.min(self.messages)..self.messages)
    }

    /// The conversation was replaced with the current piece: by `summary` messages, and then those
    /// that `keep` was. The records `kept` are in it.
    pub(super) fn replaced<'a>(
        &mut self,
        summary: u64,
        keep: &Range<u64>,
        kept: impl IntoIterator<Item = &'a str>,
    ) {
        self.turn();
        let piece = self.pieces.saturating_sub(1);
        for id in kept {
            let Some(place) = self.places.get(id) else { continue };
            let messages = (place.messages.saturating_sub(keep.start)).saturating_add(summary);
            self.places.insert(id, RecordPlace { piece, turns: self.turns, messages, ..place });
        }
        self.messages = summary.saturating_add(keep.end.saturating_sub(keep.start));
    }

    /// Returns true if a record was asked for that only a parser which saw every piece knows.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn place(&mut self, id: &str) -> Option<RecordPlace> {
        let place = self.places.get(id);
        self.is_lost |= place.is_none() && self.places.is_part;
        place
    }
}

/// The places of records, of which the newest are kept when they are saved.
#[derive(Debug, Default)]
struct Places {
    by_id: HashMap<String, RecordPlace>,
    newest: Vec<String>,
    /// True if there were others.
    is_part: bool,
}

impl Places {
    fn insert(&mut self, id: &str, place: RecordPlace) {
        self.by_id.insert(id.to_owned(), place);
        self.newest.push(id.to_owned());
        if self.newest.len() >= 2 * KEPT {
            self.newest.drain(..KEPT);
        }
    }

    fn get(&self, id: &str) -> Option<RecordPlace> {
        self.by_id.get(id).copied()
    }
}

impl Serialize for Places {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let from = self.newest.len().saturating_sub(KEPT);
        let newest = self.newest.iter().skip(from);
        let places: Vec<(&String, RecordPlace)> =
            newest.filter_map(|id| Some((id, self.get(id)?))).collect();
        (self.is_part || places.len() < self.by_id.len(), places).serialize(to)
    }
}

impl<'d> Deserialize<'d> for Places {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        let (is_part, places) = <(bool, Vec<(String, RecordPlace)>)>::deserialize(from)?;
        let mut read = Self { is_part, ..Self::default() };
        places.into_iter().for_each(|(id, place)| read.insert(&id, place));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds turns of two records each, the second of which is named.
    fn add_turns(links: &mut Links, turns: std::ops::Range<u64>) {
        for turn in turns {
            links.piece();
            links.turn();
            links.message();
            links.piece();
            links.message();
            links.add(&format!("r{turn}"));
        }
    }

    #[test]
    fn only_what_follows_an_earlier_turn_goes_back() {
        let mut links = Links::default();
        add_turns(&mut links, 0..3);
        links.piece();
        assert_eq!(links.back("r2"), None);
        assert_eq!(links.back("nobody"), None);
        assert_eq!(links.back("r0"), Some(Event::Back { at: 6, to: Some(1) }));
        assert!(!links.is_lost());
    }

    #[test]
    fn what_is_not_kept_is_lost_and_the_newest_are_kept() {
        let mut links = Links::default();
        add_turns(&mut links, 0..300);
        let saved = serde_json::to_vec(&links).unwrap();
        assert!(saved.len() < 8_000, "{}", saved.len());
        let mut loaded: Links = serde_json::from_slice(&saved).unwrap();
        loaded.piece();
        assert_eq!(loaded.back("r290"), Some(Event::Back { at: 600, to: Some(581) }));
        assert!(!loaded.is_lost());
        assert_eq!(loaded.back("r3"), None);
        assert!(loaded.is_lost());
    }
}
