//! Follows the links between records, in formats whose records name the one before.
//!
//! Most records follow the one before them in the file. Parallel tool calls and their results do
//! not, which has no meaning. A turn that follows a record of an earlier turn is different: the
//! conversation was rewound, and the turns between are left behind.
//!
//! ```text
//! line 0   p1 a1 p2 a2            two processes may write one file: each goes on with its own line,
//! line 1      \_ p3    a3         so a record belongs to the line of its parent
//! ```

mod places;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use serde::{Deserialize, Serialize, Serializer};

use crate::model::event::Event;
use places::{Places, RecordKey, key_of};
pub(super) use places::{RecordPlace, RecordSign};

/// Most lines that are walked to see whether a record is on the current one.
const MAX_WALK: usize = 256;

/// Most calls without a result that are known.
const MAX_CALLS: usize = 256;

/// The records so far. The saved state reaches back as far as the saved places.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Links {
    /// Pieces seen, with the current one.
    pieces: u64,
    /// Turns that have begun, on all lines.
    turns: u64,
    /// The line that the conversation is on, and its state.
    line: u32,
    now: Line,
    /// The other lines.
    others: BTreeMap<u32, Line>,
    /// Lines that have begun after the first one.
    begun: u32,
    /// True if the current piece is a message of the conversation.
    is_message: bool,
    places: Places,
    /// Calls without a result so far, with their lines and turns.
    calls: Vec<(RecordKey, u32, u64)>,
    /// True if a lookup needed a record that is not saved.
    #[serde(skip)]
    is_lost: bool,
}

/// A line of the conversation.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Line {
    /// The line that it began on, and the piece there.
    from: Option<(u32, u64)>,
    /// The piece of its newest message.
    tip: Option<u64>,
    /// Its newest turn.
    turn: u64,
    /// Messages in its conversation.
    messages: u64,
    /// The piece that replaced the conversation: records before it are no part of it, but for those
    /// that have stayed.
    floor: u64,
    /// The reply that its newest turn belongs to.
    reply: Option<RecordKey>,
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
        self.now.turn = self.turns;
    }

    /// The current piece is a message of the conversation.
    pub(super) fn message(&mut self) {
        self.now.messages += 1;
        self.now.tip = Some(self.here());
        self.is_message = true;
    }

    /// The number of the current piece, the first being 0.
    fn here(&self) -> u64 {
        self.pieces.saturating_sub(1)
    }

    /// The current piece is the record `id`, and all of its events are out.
    pub(super) fn add(&mut self, id: &str) {
        self.add_record(id, RecordSign::default());
    }

    /// Adds a record as above, with a sign that identifies it later.
    pub(super) fn add_record(&mut self, id: &str, sign: RecordSign) {
        let Line { turn, messages, .. } = self.now;
        let (piece, line, is_message) = (self.here(), self.line, self.is_message);
        self.places.insert(id, RecordPlace { piece, line, turn, messages, is_message, sign });
    }

    /// Adds the current piece as the record `id` without a message, whose parent is elsewhere.
    pub(super) fn add_beside(&mut self, id: &str, parent: RecordPlace, sign: RecordSign) {
        self.places.insert(id, RecordPlace { is_message: false, sign, ..parent });
    }

    /// Returns whether the record `id` was seen, as far as records are kept.
    pub(super) fn has(&self, id: &str) -> bool {
        self.places.get(id).is_some()
    }

    /// Returns whether the current piece is the record `id` once more.
    pub(super) fn is_again(&mut self, id: &str, sign: RecordSign) -> bool {
        let known = self.places.get(id);
        self.is_lost |= known.is_none() && self.places.may_be_forgotten(sign.time);
        let Some(place) = known.filter(|place| place.sign.about == sign.about) else {
            return false;
        };
        // A conversation that rewinds to a record rewinds to all lines that were written of it.
        if place.line == self.line && place.turn == self.now.turn {
            self.places.insert(id, RecordPlace { piece: self.here(), ..place });
            if self.now.tip == Some(place.piece) {
                self.now.tip = Some(self.here());
            }
        }
        true
    }

    /// The place of the record `id`.
    pub(super) fn place(&mut self, id: &str) -> Option<RecordPlace> {
        let place = self.places.get(id);
        self.is_lost |= place.is_none() && self.places.is_part;
        place
    }

    /// Returns the event of a turn that begins with the current piece and follows the record
    /// `parent`.
    pub(super) fn back(&mut self, parent: &str) -> Option<Event> {
        let place = self.place(parent).filter(|place| place.turn != self.now.turn)?;
        Some(self.back_to(place))
    }

    /// Goes back to a place: the records that follow form another line.
    fn back_to(&mut self, place: RecordPlace) -> Event {
        let floor = match place.line == self.line {
            true => self.now.floor,
            false => self.others.get(&place.line).map_or(0, |line| line.floor),
        };
        let floor = if place.piece < floor { 0 } else { floor };
        let from = Some((place.line, place.piece));
        self.begin_line(Line { from, messages: place.messages, floor, ..Line::default() });
        Event::Rewind { at: self.here(), to: Some(place.piece) }
    }

    /// Returns the event of a conversation that ends at the record `leaf` from now on: the records
    /// that follow continue its turn.
    pub(super) fn end_at(&mut self, leaf: &str) -> Option<Event> {
        let place = self.place(leaf)?;
        if self.is_on_line(place) && place.messages == self.now.messages {
            return None;
        }
        let event = self.back_to(place);
        (self.now.turn, self.now.tip) = (place.turn, Some(place.piece));
        Some(event)
    }

    fn begin_line(&mut self, line: Line) {
        let before = std::mem::replace(&mut self.now, line);
        self.others.insert(self.line, before);
        self.begun += 1;
        self.line = self.begun;
        self.turn();
    }

    /// Returns the event of a turn that begins with the current piece and follows no record at
    /// all.
    pub(super) fn back_to_start(&mut self) -> Option<Event> {
        if self.now.messages == 0 {
            return None;
        }
        self.begin_line(Line::default());
        Some(Event::Rewind { at: self.here(), to: None })
    }

    /// Returns whether a place is on the current line.
    pub(super) fn is_on_line(&self, place: RecordPlace) -> bool {
        if place.line == self.line {
            return true;
        }
        let mut from = self.now.from;
        for _ in 0..MAX_WALK {
            let Some((line, piece)) = from else { return false };
            if line == place.line {
                return place.piece <= piece;
            }
            from = self.others.get(&line).and_then(|line| line.from);
        }
        false
    }

    /// Returns the event of a message of the current piece that follows the record at `place`. A
    /// message that does not begin a turn continues the line of that record, at its end.
    pub(super) fn follow(&mut self, place: RecordPlace, begins_turn: bool) -> Option<Event> {
        if self.is_on_line(place) {
            let is_earlier = begins_turn && place.turn != self.now.turn;
            return is_earlier.then(|| self.back_to(place));
        }
        let there = self.others.get(&place.line)?;
        if begins_turn && place.turn != there.turn {
            return Some(self.back_to(place));
        }
        let to = there.tip?;
        let there = self.others.remove(&place.line)?;
        let before = std::mem::replace(&mut self.now, there);
        self.others.insert(self.line, before);
        self.line = place.line;
        Some(Event::Rewind { at: self.here(), to: Some(to) })
    }

    /// Returns whether the newest turn belongs to a reply, on the line of a record at `place`.
    pub(super) fn is_in_reply(&self, place: Option<RecordPlace>, reply: &str) -> bool {
        let away = place.filter(|place| !self.is_on_line(*place));
        let line = away.and_then(|place| self.others.get(&place.line)).unwrap_or(&self.now);
        line.reply == Some(key_of(reply))
    }

    /// The newest turn belongs to a reply, or to none.
    pub(super) fn set_reply(&mut self, reply: Option<&str>) {
        self.now.reply = reply.map(key_of);
    }

    /// The current piece makes a call.
    pub(super) fn call(&mut self, id: &str) {
        if self.calls.len() >= MAX_CALLS {
            self.calls.remove(0);
        }
        self.calls.push((key_of(id), self.line, self.now.turn));
    }

    /// Returns whether a call of the newest turn waits for its result.
    pub(super) fn is_waiting(&self) -> bool {
        self.calls.iter().any(|(_, line, turn)| (*line, *turn) == (self.line, self.now.turn))
    }

    /// Returns the current end of the line that has a call: the result of the call goes there.
    pub(super) fn result(&mut self, call: &str) -> Option<RecordPlace> {
        let key = key_of(call);
        let at = self.calls.iter().rposition(|(known, ..)| *known == key)?;
        let (_, line, _) = self.calls.remove(at);
        let there = if line == self.line { &self.now } else { self.others.get(&line)? };
        let (piece, turn, messages) = (there.tip?, there.turn, there.messages);
        let (is_message, sign) = (true, RecordSign::default());
        Some(RecordPlace { piece, line, turn, messages, is_message, sign })
    }

    /// Messages in the conversation.
    pub(super) fn messages(&self) -> u64 {
        self.now.messages
    }

    /// Returns the position of the message of the record `id`, if the conversation has it.
    pub(super) fn position(&mut self, id: &str) -> Option<u64> {
        self.span(id).filter(|span| !span.is_empty()).map(|span| span.start)
    }

    /// Returns the position of the message of the record `id`, or of a record without a message the
    /// empty range between two messages, if the conversation has the record.
    pub(super) fn span(&mut self, id: &str) -> Option<Range<u64>> {
        let place = self.place(id)?;
        self.span_of(place)
    }

    fn span_of(&self, place: RecordPlace) -> Option<Range<u64>> {
        let is_there = place.piece >= self.now.floor && self.is_on_line(place);
        let start = place.messages.saturating_sub(u64::from(place.is_message));
        (is_there && place.messages <= self.now.messages).then_some(start..place.messages)
    }

    /// Replaces the conversation with the `messages` messages of the current piece. `kept` has the
    /// remaining ranges of messages with their new positions, the first message being 0. The
    /// records of these ranges remain in the conversation, and so do `ends`, which may have no
    /// message.
    pub(super) fn replaced(&mut self, messages: u64, kept: &[(Range<u64>, u64)], ends: &[&str]) {
        let ends: HashSet<RecordKey> = ends.iter().map(|id| key_of(id)).collect();
        let mut moved = Vec::new();
        if !kept.is_empty() {
            for (key, place) in self.places.all() {
                let Some(span) = self.span_of(place) else { continue };
                let range = kept.iter().find(|(range, _)| {
                    let is_inside = range.start < span.end && span.end <= range.end;
                    is_inside || (range.start == span.end && ends.contains(&key))
                });
                if let Some((range, to)) = range {
                    moved.push((key, to + (span.end - range.start), place));
                }
            }
        }
        self.turn();
        let (piece, line, turn) = (self.here(), self.line, self.now.turn);
        for (key, messages, place) in moved {
            self.places.set(key, RecordPlace { piece, line, turn, messages, ..place });
        }
        self.now.messages = messages;
        self.now.floor = piece;
        self.now.tip = Some(piece);
    }

    /// Returns true if a record was requested that only a parser which saw every piece knows.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The lines that records which are kept are on, and those that the current one began on.
    fn kept_lines(&self) -> BTreeMap<u32, &Line> {
        let mut kept = self.places.kept_lines();
        let mut from = self.now.from;
        while let Some((line, _)) = from.filter(|_| kept.len() < MAX_WALK) {
            kept.insert(line);
            from = self.others.get(&line).and_then(|line| line.from);
        }
        let kept = kept.into_iter();
        kept.filter_map(|line| Some((line, self.others.get(&line)?))).collect()
    }
}

impl Serialize for Links {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        /// The fields of [`Links`] that are saved.
        #[derive(Serialize)]
        struct Saved<'a> {
            pieces: u64,
            turns: u64,
            line: u32,
            now: &'a Line,
            others: BTreeMap<u32, &'a Line>,
            begun: u32,
            is_message: bool,
            places: &'a Places,
            calls: &'a [(RecordKey, u32, u64)],
        }
        let Self { pieces, turns, line, now, begun, is_message, places, calls, .. } = self;
        let others = self.kept_lines();
        let (pieces, turns, line, begun) = (*pieces, *turns, *line, *begun);
        let is_message = *is_message;
        Saved { pieces, turns, line, now, others, begun, is_message, places, calls }.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> RecordSign {
        RecordSign { time: i64::try_from(second).ok(), ..RecordSign::default() }
    }

    /// Adds turns of two records each, the second of which is named.
    fn add_turns(links: &mut Links, turns: Range<u64>) {
        for turn in turns {
            links.piece();
            links.turn();
            links.message();
            links.piece();
            links.message();
            links.add_record(&format!("r{turn}"), at(turn));
        }
    }

    /// Passes a message that follows `parent`, and returns the piece that it rewinds to.
    fn say(links: &mut Links, id: &str, parent: &str, begins_turn: bool) -> Option<u64> {
        links.piece();
        let event = links.place(parent).and_then(|place| links.follow(place, begins_turn));
        if begins_turn {
            links.turn();
        }
        links.message();
        links.add(id);
        match event {
            Some(Event::Rewind { to, .. }) => to,
            _ => None,
        }
    }

    #[test]
    fn only_what_follows_an_earlier_turn_goes_back() {
        let mut links = Links::default();
        add_turns(&mut links, 0..3);
        links.piece();
        assert_eq!(links.back("r2"), None);
        assert_eq!(links.back("missing"), None);
        assert_eq!(links.back("r0"), Some(Event::Rewind { at: 6, to: Some(1) }));
        assert!(!links.is_lost());
    }

    #[test]
    fn two_lines_that_are_written_at_once_go_on_each_with_its_own() {
        let mut links = Links::default();
        add_turns(&mut links, 0..1);
        assert_eq!(say(&mut links, "a1", "r0", true), None);
        assert_eq!(say(&mut links, "b1", "r0", true), Some(1), "another line begins");
        assert_eq!(say(&mut links, "a2", "a1", true), Some(2));
        assert_eq!(say(&mut links, "b2", "b1", true), Some(3));
        assert_eq!(say(&mut links, "a3", "a2", false), Some(4), "a result, at the end of its line");
        assert_eq!(say(&mut links, "a4", "a1", false), None, "a late result of the same line");
        assert_eq!(say(&mut links, "b3", "b2", false), Some(5));
        assert_eq!(say(&mut links, "b4", "r0", false), None, "what both have is no other line");
    }

    #[test]
    fn a_record_that_comes_again_is_known_however_long_ago_it_came() {
        let mut links = Links::default();
        add_turns(&mut links, 0..300);
        assert!(links.is_again("r0", at(0)) && !links.is_again("new", at(300)));
        let other = RecordSign::of("another call", None);
        assert!(!links.is_again("r0", other), "an id that was given twice");
        let saved = serde_json::to_vec(&links).unwrap();
        let mut loaded: Links = serde_json::from_slice(&saved).unwrap();
        assert!(loaded.is_again("r299", at(299)) && !loaded.is_again("new", at(300)));
        assert!(!loaded.is_lost(), "what is newer than all that is kept was not forgotten");
        assert!(!loaded.is_again("r0", at(0)));
        assert!(loaded.is_lost());
    }

    #[test]
    fn what_is_not_kept_is_lost_and_the_newest_are_kept() {
        let mut links = Links::default();
        add_turns(&mut links, 0..300);
        let saved = serde_json::to_vec(&links).unwrap();
        assert!(saved.len() < 16_000, "{}", saved.len());
        let mut loaded: Links = serde_json::from_slice(&saved).unwrap();
        loaded.piece();
        assert_eq!(loaded.back("r290"), Some(Event::Rewind { at: 600, to: Some(581) }));
        assert!(!loaded.is_lost());
        assert_eq!(loaded.back("r3"), None);
        assert!(loaded.is_lost());
    }
}
