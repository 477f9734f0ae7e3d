//! Units of messages that stay together: a tool call is never separated from its results.

use std::collections::HashMap;
use std::ops::Range;

use crate::context::entry::{MessageEntry, Role};
use crate::error::Result;
use crate::object::{Kind, ObjectSource, Time};
use crate::tree::Item;

/// Tool calls and results of a message. Formats without ids have empty ones, which match a result
/// with the call before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUse {
    /// The ids of the calls in the message.
    pub calls: Vec<String>,
    /// The ids of the calls whose results are in the message.
    pub results: Vec<String>,
}

/// Returns the tool calls and results of a message, from its entry and record.
pub(crate) type ReadToolUse<'a> = &'a dyn Fn(&MessageEntry, &[u8]) -> ToolUse;

/// A message of one side.
#[derive(Debug, Clone)]
pub(super) struct SideMessage {
    pub(super) item: Item,
    /// The position in the list of its side.
    pub(super) at: u64,
    /// The number of the commit of its side that added it, and its time.
    pub(super) commit: usize,
    pub(super) time: Time,
    tools: ToolUse,
}

impl SideMessage {
    pub(super) fn read(
        source: &dyn ObjectSource,
        item: Item,
        at: u64,
        (commit, time): (usize, Time),
        read: ReadToolUse<'_>,
    ) -> Result<Self> {
        let entry = MessageEntry::from_item(&item)?;
        let mut tools = read(&entry, &source.read_as(Kind::Blob, &entry.blob)?);
        if entry.role == Role::Tool && tools.results.is_empty() {
            tools.results.push(String::new());
        }
        Ok(Self { item, at, commit, time, tools })
    }

    /// Returns true if the message makes the call. A result without an id belongs to the message
    /// before it, or before the other results there.
    pub(super) fn has_call(&self, call: &str) -> bool {
        let made = self.tools.calls.iter().any(|made| made == call);
        made || call.is_empty() && self.tools.results.is_empty()
    }
}

/// Returns the calls that are missing in `messages` but have results there, with the index of the
/// last result.
pub(super) fn missing_calls(messages: &[SideMessage]) -> Vec<(&str, usize)> {
    let mut made: Vec<&str> = Vec::new();
    let mut before = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        for call in &message.tools.results {
            // A result without an id belongs to the previous message, whatever it is.
            let is_here = if call.is_empty() { at > 0 } else { made.contains(&call.as_str()) };
            if !is_here {
                before.retain(|(known, _)| known != call);
                before.push((call.as_str(), at));
            }
        }
        made.extend(message.tools.calls.iter().map(String::as_str));
    }
    before
}

/// Returns the units of `messages`, in order: each as small as calls and results allow. With
/// `by_commit`, messages added by one commit are also one unit.
pub(super) fn units(messages: &[SideMessage], by_commit: bool) -> Vec<Range<usize>> {
    let mut last_result: HashMap<&str, usize> = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        last_result.extend(message.tools.results.iter().map(|call| (call.as_str(), at)));
    }
    let mut units: Vec<Range<usize>> = Vec::new();
    // The current unit extends at least to this index.
    let mut reach = 0;
    for (at, message) in messages.iter().enumerate() {
        let continues = by_commit
            && at.checked_sub(1).and_then(|at| messages.get(at)).map(|m| m.commit)
                == Some(message.commit);
        let follows = continues || !message.tools.results.is_empty();
        match units.last_mut() {
            Some(unit) if follows || at < reach => unit.end = at + 1,
            _ => units.push(at..at + 1),
        }
        let calls = message.tools.calls.iter().filter(|call| !call.is_empty());
        let ends = calls.filter_map(|call| last_result.get(call.as_str()));
        reach = ends.map(|end| end + 1).max().unwrap_or(0).max(reach);
    }
    units
}

/// Returns true if a call in the last unit waits for its result.
pub(super) fn is_waiting(unit: &[SideMessage]) -> bool {
    let answered = |call: &String| {
        unit.iter().any(|message| !call.is_empty() && message.tools.results.contains(call))
    };
    let last = unit.len().saturating_sub(1);
    unit.iter().enumerate().any(|(at, message)| {
        let is_open = |call: &String| if call.is_empty() { at == last } else { !answered(call) };
        message.tools.calls.iter().any(is_open)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectId;

    /// Parses messages: `"c1 c2"` makes two calls, `"r1"` is a result, `"-"` neither; the digit
    /// before is the commit.
    fn messages(text: &[&str]) -> Vec<SideMessage> {
        let message = |(at, text): (usize, &&str)| {
            let (commit, uses) = text.split_once(':').unwrap();
            let named = |kind: char| {
                let ids = uses.split(' ').filter_map(|word| word.strip_prefix(kind));
                ids.map(str::to_owned).collect()
            };
            let commit = commit.parse().unwrap();
            let item = Item::new(Kind::Blob, ObjectId::of(Kind::Blob, text.as_bytes()));
            let tools = ToolUse { calls: named('c'), results: named('r') };
            SideMessage { item, at: at as u64, commit, time: Time::default(), tools }
        };
        text.iter().enumerate().map(message).collect()
    }

    #[test]
    fn calls_and_their_results_are_one_unit_however_late_they_come() {
        let found = messages(&["1:-", "2:c1", "2:c2", "3:r1", "3:-", "4:r2", "5:-", "5:-"]);
        assert_eq!(units(&found, false), [0..1, 1..6, 6..7, 7..8]);
        assert_eq!(units(&found, true), [0..1, 1..6, 6..8]);
    }

    #[test]
    fn a_result_without_an_id_belongs_to_what_comes_before_it() {
        let found = messages(&["1:-", "2:c", "3:r", "4:r", "5:-"]);
        assert_eq!(units(&found, true), [0..1, 1..4, 4..5]);
        assert!(missing_calls(&found).is_empty());
        assert_eq!(missing_calls(&messages(&["1:r", "2:-", "2:r7"])), [("", 0), ("7", 2)]);
    }

    #[test]
    fn a_call_that_nobody_answered_waits() {
        assert!(is_waiting(&messages(&["1:c1 c2", "1:r1"])));
        assert!(is_waiting(&messages(&["1:c"])));
        assert!(!is_waiting(&messages(&["1:c1 c2", "1:r1", "1:r2"])));
        assert!(!is_waiting(&messages(&["1:c", "1:r"])));
        assert!(!is_waiting(&[]));
    }
}
