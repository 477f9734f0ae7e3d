//! The entries of a session as a tree, and the messages of the path that ends at the newest one.
//!
//! The context of pi follows from that path alone: after a step back, a compaction or an edit that is
//! not on it counts for nothing. So each entry is kept with its parent and its effect, and the list of
//! messages is computed again from the path when the session goes back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use bytes::Bytes;

/// Bytes of messages that are kept for edits of them; older messages are released.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The effect of an entry on the list of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryEffect {
    /// None.
    Nothing,
    /// It is a message.
    Message,
    /// It is a summary, behind which the messages from this number on stay.
    Compaction(u64),
    /// It empties the list.
    Reset,
    /// It removes or restores the message of this id, which has this number.
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
    /// The number of its entry; 0 for a summary, which no compaction keeps.
    number: u64,
    /// Its id; empty in version 1.
    id: String,
}

/// The entries so far.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_id: HashMap<String, Entry>,
    /// The messages of the conversation, in order of their numbers.
    messages: Vec<Listed>,
    /// The newest messages, for edits, and their size.
    kept: VecDeque<(String, Bytes)>,
    kept_bytes: usize,
}

impl Entries {
    /// Adds an entry with its effect; one of version 1 has no id.
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

    /// Goes back to the entry `id`, or to before the first one.
    pub(super) fn go_back(&mut self, id: Option<&str>) {
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

    /// The number of messages in the conversation.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The number of the entry `id`.
    pub(super) fn number(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).map(|entry| entry.number)
    }

    /// The position of the message `id` in the conversation.
    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.messages.iter().position(|listed| listed.id == id)
    }

    /// The position that the message with a number has, or would have.
    pub(super) fn place_of(&self, number: u64) -> usize {
        self.messages.partition_point(|listed| listed.number < number)
    }

    /// The positions of the messages from the entry with a number on.
    pub(super) fn since(&self, number: u64) -> Range<usize> {
        // A summary stands first, and is kept by no compaction.
        self.place_of(number.max(1))..self.messages.len()
    }

    /// Returns true if an edit on the current path has removed the message `id`, which the conversation
    /// would have otherwise.
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
            let Some((_, released)) = self.kept.pop_front() else { break };
            self.kept_bytes -= released.len();
        }
    }

    /// The bytes of the message `id`, unless they were released.
    pub(super) fn kept(&self, id: &str) -> Option<&Bytes> {
        self.kept.iter().rev().find(|(known, _)| known == id).map(|(_, bytes)| bytes)
    }
}
