//! The entries of a session as a tree, and the messages on the path to the newest entry.
//!
//! The context of pi depends on that path alone: after a rewind, compactions and edits outside of
//! it have no effect. So each entry is stored with its parent and its effect, and a rewind
//! recomputes the list of messages from the path.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use bytes::Bytes;

/// The most bytes of messages that are kept for edits. Older messages are dropped.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The effect of an entry on the list of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryEffect {
    /// No effect.
    Nothing,
    /// Appends a message.
    Message,
    /// Replaces the messages before this number with a summary.
    Compaction(u64),
    /// Empties the list.
    Reset,
    /// Removes or restores the message with this id and number.
    Edit { target: String, number: u64, removes: bool },
}

/// An entry with an id.
#[derive(Debug)]
struct Entry {
    number: u64,
    parent: Option<String>,
    effect: EntryEffect,
}

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    /// The number of its entry. 0 for a summary, which the next compaction always removes.
    number: u64,
    /// Its id; empty in version 1.
    id: String,
}

/// The entries so far.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_id: HashMap<String, Entry>,
    /// The messages of the conversation, by number.
    messages: Vec<Listed>,
    /// The newest messages, for edits, and their size.
    kept: VecDeque<(String, Bytes)>,
    kept_bytes: usize,
}

impl Entries {
    /// Adds an entry with its effect. Entries of version 1 have no id.
    pub(super) fn add(
        &mut self,
        (id, number): (Option<&str>, u64),
        parent: Option<&str>,
        effect: EntryEffect,
    ) {
        self.apply(id.unwrap_or_default(), number, &effect);
        if let Some(id) = id {
            let parent = parent.map(str::to_owned);
            self.by_id.insert(id.to_owned(), Entry { number, parent, effect });
        }
    }

    fn apply(&mut self, id: &str, number: u64, effect: &EntryEffect) {
        match effect {
            EntryEffect::Nothing => {}
            EntryEffect::Message => self.messages.push(Listed { number, id: id.to_owned() }),
            EntryEffect::Compaction(first) => {
                let start = self.since(*first).start;
                self.messages.splice(..start, [Listed { number: 0, id: String::new() }]);
            }
            EntryEffect::Reset => self.messages.clear(),
            EntryEffect::Edit { target, number, removes } => {
                let at = self.place_of(*number);
                match (self.position(target), removes) {
                    (Some(at), true) => drop(self.messages.remove(at)),
                    (None, false) => {
                        self.messages.insert(at, Listed { number: *number, id: target.clone() });
                    }
                    _ => {}
                }
            }
        }
    }

    /// Rewinds to the entry `id`, or to the start.
    pub(super) fn rewind(&mut self, id: Option<&str>) {
        let (mut path, mut next, mut seen) = (Vec::new(), id, HashSet::new());
        while let Some((id, entry)) = next.and_then(|id| self.by_id.get_key_value(id)) {
            if !seen.insert(id) {
                break;
            }
            path.push((id.clone(), entry.number, entry.effect.clone()));
            next = entry.parent.as_deref();
        }
        self.messages.clear();
        for (id, number, effect) in path.iter().rev() {
            self.apply(id, *number, effect);
        }
    }

    /// Returns the number of messages in the conversation.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of the entry `id`.
    pub(super) fn number(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).map(|entry| entry.number)
    }

    /// Returns the position of the message `id` in the conversation.
    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.messages.iter().position(|listed| listed.id == id)
    }

    /// Returns the position of the message with a number, or the one to insert it at.
    pub(super) fn place_of(&self, number: u64) -> usize {
        self.messages.partition_point(|listed| listed.number < number)
    }

    /// Returns the positions of the messages from the entry with a number on.
    pub(super) fn since(&self, number: u64) -> Range<usize> {
        // A summary is the first message. The next compaction removes it.
        self.place_of(number.max(1))..self.messages.len()
    }

    /// Returns true if the message `id` is missing from the conversation only because an edit on
    /// the current path removed it.
    pub(super) fn is_removed(&self, id: &str, leaf: Option<&str>) -> bool {
        let (mut next, mut seen) = (leaf, HashSet::new());
        while let Some(entry) = next.filter(|id| seen.insert(*id)).and_then(|id| self.by_id.get(id))
        {
            match &entry.effect {
                EntryEffect::Edit { target, removes, .. } if target == id => return *removes,
                EntryEffect::Compaction(first) if self.number(id).is_some_and(|it| it < *first) => {
                    return false;
                }
                EntryEffect::Reset => return false,
                _ => {}
            }
            next = entry.parent.as_deref();
        }
        false
    }

    /// Keeps the bytes of the message `id` for edits of it.
    pub(super) fn keep(&mut self, id: &str, bytes: &Bytes) {
        self.kept_bytes += bytes.len();
        self.kept.push_back((id.to_owned(), bytes.clone()));
        while self.kept_bytes > MAX_KEPT_BYTES {
            let Some((_, dropped)) = self.kept.pop_front() else { break };
            self.kept_bytes -= dropped.len();
        }
    }

    /// Returns the bytes of the message `id`. `None` if they were dropped.
    pub(super) fn kept(&self, id: &str) -> Option<&Bytes> {
        self.kept.iter().rev().find(|(known, _)| known == id).map(|(_, bytes)| bytes)
    }
}
