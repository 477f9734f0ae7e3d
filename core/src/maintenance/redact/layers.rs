//! Decodes bytes in layers, and maps each decoded byte to its source.
//!
//! A record has JSON in JSON, colors of terminals, parts of URLs, base64 and UTF-16, nested in any
//! order. Each is decoded as long as there is something to decode, so that the pattern is matched
//! against the text that a reader sees. Every byte of a layer knows the bytes that it was decoded
//! from, so that a match can be replaced at its source.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{ControlFlow, Range};

use super::decoded_text::{DecodedText, Run, place};
use super::{encodings, escapes};

/// The size of a block that is checked for encoded text, and the bytes around it in which such text
/// may begin or end.
const BLOCK_BYTES: usize = 4 << 10;
const ADJACENT_BYTES: usize = 256;

/// The maximum number of blocks decoded together, plus one on each side: it bounds the memory of
/// all layers. A value not longer than a block is always within one such part.
const MAX_BLOCKS: usize = 16;

/// The maximum number of layers above each other.
const MAX_DEPTH: usize = 9;

/// The maximum number of bytes decoded per byte of a part, and the minimum for a part of any
/// length.
const WORK_PER_BYTE: usize = 24;
const LEAST_WORK: usize = 1 << 20;

/// An encoding of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// The escapes of JSON and of strings in programs.
    Escapes,
    /// The sequences by which terminals color text; decoding removes them.
    Terminal,
    /// The same sequences; decoding replaces each with a space.
    TerminalSpaced,
    /// The percent signs of URLs.
    Percent,
    /// Base64.
    Base64,
    /// UTF-16, of either byte order.
    Utf16,
    /// Binary data; decoding extracts its texts, one per line.
    Binary,
}

const CODINGS: [Coding; 7] = [
    Coding::Escapes,
    Coding::Terminal,
    Coding::TerminalSpaced,
    Coding::Percent,
    Coding::Base64,
    Coding::Utf16,
    Coding::Binary,
];

impl Coding {
    /// Returns how often the coding may be decoded in one text.
    const fn max_repeats(self) -> usize {
        match self {
            Self::Escapes => 6,
            Self::Percent => 3,
            Self::Base64 => 2,
            Self::Terminal | Self::TerminalSpaced | Self::Utf16 | Self::Binary => 1,
        }
    }

    /// Returns the decoded text; `None` if the text has nothing encoded that could hide a match.
    fn decode(self, text: &[u8]) -> Option<DecodedText> {
        match self {
            Self::Escapes if escapes::has_hiding_escape(text) => escapes::unescape(text),
            Self::Escapes => None,
            Self::Terminal => escapes::strip_sequences(text, false),
            Self::TerminalSpaced => escapes::strip_sequences(text, true),
            Self::Percent => escapes::decode_percent(text),
            Self::Base64 => encodings::from_base64(text),
            Self::Utf16 => encodings::from_utf16(text),
            Self::Binary => encodings::from_binary(text),
        }
    }
}

/// A text decoded from bytes.
#[derive(Debug)]
pub struct Layer<'t> {
    below: Option<&'t Layer<'t>>,
    coding: Option<Coding>,
    /// The offset of the part in the bytes.
    offset: usize,
    text: Cow<'t, [u8]>,
    runs: Vec<Run>,
}

impl<'t> Layer<'t> {
    /// Creates the bottom layer: the raw bytes, at `offset` of a larger content.
    #[must_use]
    pub const fn of(bytes: &'t [u8], offset: usize) -> Self {
        Self { below: None, coding: None, offset, text: Cow::Borrowed(bytes), runs: Vec::new() }
    }

    /// Returns the text without one level of JSON escapes; `None` if it has none.
    #[must_use]
    pub fn unescaped(&self) -> Option<Layer<'_>> {
        escapes::unescape(&self.text).map(|decoded| self.above(Coding::Escapes, decoded))
    }

    fn above(&self, coding: Coding, decoded: DecodedText) -> Layer<'_> {
        let DecodedText { text, runs } = decoded;
        Layer { below: Some(self), coding: Some(coding), offset: 0, text: Cow::Owned(text), runs }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the range of source bytes of a part of the text.
    #[must_use]
    pub fn source(&self, part: Range<usize>) -> Range<usize> {
        match self.below {
            Some(below) => below.source(place(&self.runs, &part)),
            None => part.start + self.offset..part.end + self.offset,
        }
    }

    /// Returns how often a coding was decoded down to this layer.
    fn count(&self, coding: Coding) -> usize {
        usize::from(self.coding == Some(coding)) + self.below.map_or(0, |below| below.count(coding))
    }

    fn depth(&self) -> usize {
        self.below.map_or(0, |below| below.depth() + 1)
    }

    /// Returns true if the text was decoded from base64, where a few bytes match by chance.
    pub(super) fn is_of_base64(&self) -> bool {
        self.count(Coding::Base64) > 0
    }

    /// Returns whether a replacement in `source` must be UTF-16, and if so, whether the high byte
    /// comes first.
    pub(super) fn utf16_order(&self, source: &Range<usize>, bytes: &[u8]) -> Option<bool> {
        match (self.below, self.coding) {
            (Some(below), Some(Coding::Utf16)) if below.coding.is_none() => {
                Some(bytes.get(source.start) == Some(&0))
            }
            (Some(below), _) => below.utf16_order(source, bytes),
            (None, _) => None,
        }
    }
}

/// Visits the texts decoded from some bytes, without the raw bytes, until a visit breaks.
///
/// Does not visit text in more than nine layers. Decodes at most a multiple of the bytes.
pub fn each_layer(
    bytes: &[u8],
    visit: &mut dyn FnMut(&Layer<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let blocks = bytes.len().div_ceil(BLOCK_BYTES);
    let is_coded = |block: usize| {
        let (start, end) = (block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES + ADJACENT_BYTES);
        let part = bytes.get(start.saturating_sub(ADJACENT_BYTES)..bytes.len().min(end));
        part.is_some_and(has_coding)
    };
    let mut block = 0;
    while block < blocks {
        if !is_coded(block) {
            block += 1;
            continue;
        }
        // Includes the blocks on both sides of the encoded ones: a value may extend into them.
        let last = (block..blocks).take(MAX_BLOCKS).take_while(|block| is_coded(*block)).last();
        let last = last.unwrap_or(block);
        let start = block.saturating_sub(1) * BLOCK_BYTES;
        let end = bytes.len().min((last + 2) * BLOCK_BYTES);
        let part = bytes.get(start..end).unwrap_or_default();
        let work = LEAST_WORK + part.len() * WORK_PER_BYTE;
        let mut walk = Walk { work, seen: HashSet::new(), visit: &mut *visit };
        walk.above(&Layer::of(part, start))?;
        block = last + 1;
    }
    ControlFlow::Continue(())
}

/// Returns true if a text may have something encoded.
fn has_coding(text: &[u8]) -> bool {
    escapes::has_hiding_escape(text)
        || escapes::may_have_sequence(text)
        || escapes::has_percent(text)
        || encodings::has_base64(text)
        || encodings::is_binary(text)
}

struct Walk<'v> {
    /// The number of bytes that may still be decoded.
    work: usize,
    /// Hashes of visited texts: independent codings can be decoded in any order and give the same
    /// text.
    seen: HashSet<u64>,
    visit: &'v mut dyn FnMut(&Layer<'_>) -> ControlFlow<()>,
}

impl Walk<'_> {
    fn above(&mut self, layer: &Layer<'_>) -> ControlFlow<()> {
        if layer.depth() >= MAX_DEPTH {
            return ControlFlow::Continue(());
        }
        for coding in CODINGS {
            let was_stripped = matches!(coding, Coding::Terminal | Coding::TerminalSpaced)
                && layer.count(Coding::Terminal) + layer.count(Coding::TerminalSpaced) > 0;
            if was_stripped || layer.count(coding) >= coding.max_repeats() {
                continue;
            }
            let Some(decoded) = coding.decode(&layer.text) else { continue };
            let mut hasher = DefaultHasher::new();
            decoded.text.hash(&mut hasher);
            if !self.seen.insert(hasher.finish()) {
                continue;
            }
            let Some(left) = self.work.checked_sub(decoded.text.len()) else {
                return ControlFlow::Continue(());
            };
            self.work = left;
            let above = layer.above(coding, decoded);
            (self.visit)(&above)?;
            self.above(&above)?;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Pattern;

    const SECRET: &str = "k+/9?>~Zurich-4711";

    fn units(text: &str) -> String {
        text.chars().map(|c| format!("\\u{:04X}", u32::from(c))).collect()
    }

    fn spelled(text: &str) -> [(&'static str, Vec<u8>); 9] {
        let (first, last) = text.split_at(7);
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        [
            ("letters", units(text).into()),
            ("mixed case", units(text).replace("\\u002B", "\\u002b").into()),
            ("letters in JSON in JSON", serde_json::to_vec(&units(text)).unwrap()),
            ("a colour within", format!("{first}\u{1b}[1m{last}").into()),
            ("a colour within, in JSON", format!("\"{first}\\u001b[1m{last}\"").into()),
            ("of programs", text.bytes().map(|b| format!("\\x{b:02x}")).collect::<String>().into()),
            ("percent", text.bytes().map(|b| format!("%{b:02x}")).collect::<String>().into()),
            ("UTF-16", wide),
            ("a character of several units", format!("\\ud83d\\ude00{}", units(text)).into()),
        ]
    }

    #[test]
    fn a_string_is_found_and_replaced_in_every_spelling() {
        let pattern = Pattern::literal(SECRET, "[gone]").unwrap();
        for (name, form) in spelled(SECRET) {
            for around in [&b""[..], b"\"a b\" "] {
                // The text next to it stays.
                let bytes = [around, &form, around].concat();
                assert_eq!(pattern.count(&bytes), 1, "{name}");
                let left = pattern.replace(&bytes).unwrap();
                assert_eq!(pattern.count(&left), 0, "{name}");
                assert!(left.starts_with(around) && left.ends_with(around), "{name}");
                let plain: Vec<u8> = left.iter().copied().filter(|byte| *byte != 0).collect();
                assert!(plain.windows(6).any(|part| part == b"[gone]"), "{name}");
            }
        }
        assert_eq!(pattern.count(units("k+/9?>~Zurich-4712").as_bytes()), 0);
    }

    #[test]
    fn a_match_in_a_large_text_is_replaced_where_it_stands() {
        let pattern = Pattern::literal(SECRET, "[gone]").unwrap();
        let (before, after) = ("a word\n".repeat(30_000), "another\n".repeat(30_000));
        let text = format!("{before}{}{after}", units(SECRET));
        let left = pattern.replace(text.as_bytes()).unwrap();
        assert_eq!(left, format!("{before}[gone]{after}").into_bytes());
    }

    #[test]
    fn more_levels_than_are_looked_at_take_bounded_work() {
        let pattern = Pattern::literal(SECRET, "[gone]").unwrap();
        // Each character alternately is a backslash, a percent sign and a colon.
        let hostile = "\\u005c\\u0025%5c%25\u{1b}[m\u{1b}]0;\\x1b[1m".repeat(4000);
        assert_eq!(pattern.count(hostile.as_bytes()), 0);
    }
}
