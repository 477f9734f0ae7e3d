//! Decoded text: bytes, each with its range in the source.

use std::ops::Range;

/// A run of decoded bytes: every `decoded` of them come from `encoded` bytes of the source, the
/// first from offset `from`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    at: usize,
    from: usize,
    decoded: usize,
    encoded: usize,
}

/// A text while it is being decoded.
#[derive(Debug, Default)]
pub(super) struct DecodedText {
    pub(super) text: Vec<u8>,
    pub(super) runs: Vec<Run>,
}

impl DecodedText {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { text: Vec::with_capacity(bytes), runs: Vec::new() }
    }

    /// Copies a part of the source unchanged.
    pub(super) fn copy(&mut self, source: &[u8], range: Range<usize>) {
        let bytes = source.get(range.clone()).unwrap_or_default();
        self.push(range.start, (1, 1), bytes);
    }

    /// Adds bytes that a part of the source decodes to as a whole.
    pub(super) fn push_unit(&mut self, from: Range<usize>, bytes: &[u8]) {
        let (at, decoded, encoded) = (self.text.len(), bytes.len(), from.len());
        if decoded > 0 {
            self.runs.push(Run { at, from: from.start, decoded, encoded });
            self.text.extend_from_slice(bytes);
        }
    }

    /// Adds bytes of which every `decoded` come from `encoded` bytes of the source.
    pub(super) fn push(&mut self, from: usize, (decoded, encoded): (usize, usize), bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = self.text.len();
        let goes_on = self.runs.last().is_some_and(|run| {
            let units = (at - run.at) / run.decoded;
            (run.decoded, run.encoded) == (decoded, encoded)
                && (at - run.at).is_multiple_of(decoded)
                && run.from + units * encoded == from
        });
        if !goes_on {
            self.runs.push(Run { at, from, decoded, encoded });
        }
        self.text.extend_from_slice(bytes);
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the place in the source of a part of the decoded text.
    pub(super) fn place(&self, range: &Range<usize>) -> Range<usize> {
        place(&self.runs, range)
    }
}

/// Returns the range of the source that a part of decoded text comes from.
pub(super) fn place(runs: &[Run], range: &Range<usize>) -> Range<usize> {
    let unit = |at: usize| {
        let number = runs.partition_point(|run| run.at <= at).checked_sub(1)?;
        let run = runs.get(number)?;
        let start = run.from + (at - run.at) / run.decoded * run.encoded;
        Some(start..start + run.encoded)
    };
    let last = range.end.saturating_sub(1).max(range.start);
    match (unit(range.start), unit(last)) {
        (Some(first), Some(last)) => first.start..last.end.max(first.start),
        _ => 0..0,
    }
}
