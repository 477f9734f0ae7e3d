//! The messages that survive a compaction of Claude Code, as the boundary line lists them.
//!
//! | release | field of the boundary |
//! |---|---|
//! | oldest | none: only the summary remains |
//! | later | `preservedSegment`: all lines from `headUuid` to `tailUuid` |
//! | 2.1.330 | `preservedMessages`: the ids of the lines; the segment agrees |
//!
//! The surviving messages follow the line `anchorUuid`. Where that is the boundary itself, the beginning of
//! the conversation survives, and the summary replaces the messages after it. The ends of a segment may be
//! lines without a message, such as an attachment that is not sent.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::formats::links::Links;
use crate::text::json::text_at;

/// Most lines that a boundary may name.
const MAX_NAMED: usize = 1 << 16;

/// The messages that a boundary keeps.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    ids: Vec<String>,
    /// The ids are the first and the last of a range that is kept whole.
    is_segment: bool,
    /// The kept messages precede the summary.
    is_before: bool,
}

/// The sources of the messages of a compacted conversation.
pub(super) struct Compacted {
    /// The kept parts of the list, before and after the summary.
    pub(super) before: Vec<Range<u64>>,
    pub(super) after: Vec<Range<u64>>,
}

impl Kept {
    /// Reads a boundary line.
    pub(super) fn of(boundary: &Value) -> Self {
        let of = |path: &str| boundary.pointer(path);
        let named = of("/compactMetadata/preservedMessages");
        let segment = of("/compactMetadata/preservedSegment");
        let listed = named.and_then(|named| named.get("uuids")).and_then(Value::as_array);
        let (ids, is_segment): (Vec<&str>, bool) = match (listed, segment) {
            (Some(ids), _) => {
                (ids.iter().filter_map(Value::as_str).take(MAX_NAMED).collect(), false)
            }
            (None, Some(segment)) => {
                let ends = text_at(segment, "/headUuid").zip(text_at(segment, "/tailUuid"));
                (ends.map(|(head, tail)| vec![head, tail]).unwrap_or_default(), true)
            }
            (None, None) => (Vec::new(), false),
        };
        let says = if listed.is_some() { named } else { segment };
        let anchor = says.and_then(|says| text_at(says, "/anchorUuid"));
        let is_before = anchor.is_some() && anchor == text_at(boundary, "/uuid");
        Self { ids: ids.into_iter().map(str::to_owned).collect(), is_segment, is_before }
    }

    /// Replaces the conversation of `links` with the kept messages and `summary` messages.
    pub(super) fn compact(self, summary: u64, links: &mut Links) -> Compacted {
        let spans: Vec<Range<u64>> = self.ids.iter().filter_map(|id| links.span(id)).collect();
        let ranges = match (self.is_segment, spans.as_slice()) {
            (true, [head, tail]) if head.start < tail.end => {
                std::iter::once(head.start..tail.end).collect()
            }
            // The client, too, keeps nothing of a range whose ends are not connected.
            (true, _) => Vec::new(),
            (false, _) => {
                let mut positions: Vec<u64> = spans.into_iter().flatten().collect();
                positions.sort_unstable();
                positions.dedup();
                joined(positions.into_iter())
            }
        };
        let offset = if self.is_before { 0 } else { summary };
        let mut before = offset;
        let mut kept = Vec::new();
        for range in &ranges {
            kept.push((range.clone(), before));
            before += range.end - range.start;
        }
        let messages = before - offset + summary;
        let ends: Vec<&str> = self.ids.iter().map(String::as_str).collect();
        links.replaced(messages, &kept, &ends);
        let (before, after) = if self.is_before { (ranges, vec![]) } else { (vec![], ranges) };
        Compacted { before, after }
    }
}

/// Joins ascending positions to ranges.
fn joined(positions: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for at in positions {
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}
