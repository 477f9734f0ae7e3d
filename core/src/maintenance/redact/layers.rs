//! Layers: the texts that some bytes stand for, decoded, and where each of their bytes stands.
//!
//! A record has JSON in JSON, colours of terminals, parts of URLs, base64 and UTF-16, one in the other.
//! Each of these is taken off as long as there is something to take off, so that what is looked for is
//! compared with what a reader of the text sees. Every byte of a layer knows the bytes that it was
//! decoded from, so that a match can be replaced where it stands.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{ControlFlow, Range};

use super::decoded::{Decoded, Run, place};
use super::{encodings, escapes};

/// Bytes that are looked at to see whether there is something to decode, and bytes beside them in which
/// it may begin or end.
const BLOCK_BYTES: usize = 4 << 10;
const BESIDE_BYTES: usize = 256;

/// Blocks that are decoded at once, besides the two around them: it bounds the memory of all layers. A
/// value that is not longer than a block lies in one part as a whole.
const MAX_BLOCKS: usize = 16;

/// Layers above each other.
const MAX_DEPTH: usize = 9;

/// The bytes that are decoded for each byte of a chunk, and for a chunk of any length.
const WORK_PER_BYTE: usize = 24;
const LEAST_WORK: usize = 1 << 20;

/// A way to write text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// The escapes of JSON and of strings in programs.
    Escapes,
    /// The sequences by which terminals colour text, taken out.
    Terminal,
    /// The same, with a space in the place of each.
    TerminalSpaced,
    /// The percent signs of URLs.
    Percent,
    /// Base64.
    Base64,
    /// UTF-16, of either byte order.
    Utf16,
    /// Something binary: the texts in it, a line each.
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
    /// How often it may be taken off of one text.
    const fn most(self) -> usize {
        match self {
            Self::Escapes => 6,
            Self::Percent => 3,
            Self::Base64 => 2,
            Self::Terminal | Self::TerminalSpaced | Self::Utf16 | Self::Binary => 1,
        }
    }

    /// The text without it; `None` where nothing is to be taken off that could hide a text.
    fn decode(self, text: &[u8]) -> Option<Decoded> {
        match self {
            Self::Escapes if escapes::has_hiding_escape(text) => escapes::unescape(text),
            Self::Escapes => None,
            Self::Terminal => escapes::without_sequences(text, false),
            Self::TerminalSpaced => escapes::without_sequences(text, true),
            Self::Percent => escapes::without_percent(text),
            Self::Base64 => encodings::from_base64(text),
            Self::Utf16 => encodings::from_utf16(text),
            Self::Binary => encodings::from_binary(text),
        }
    }
}

/// A text that some bytes stand for.
#[derive(Debug)]
pub struct Layer<'t> {
    below: Option<&'t Layer<'t>>,
    coding: Option<Coding>,
    /// The place of the chunk in the bytes.
    offset: usize,
    text: Cow<'t, [u8]>,
    runs: Vec<Run>,
}

impl<'t> Layer<'t> {
    /// The bytes as they are; they stand at `offset` of something larger.
    #[must_use]
    pub const fn of(bytes: &'t [u8], offset: usize) -> Self {
        Self { below: None, coding: None, offset, text: Cow::Borrowed(bytes), runs: Vec::new() }
    }

    /// The text of this one without one level of the escapes of JSON; `None` when it has none.
    #[must_use]
    pub fn unescaped(&self) -> Option<Layer<'_>> {
        escapes::unescape(&self.text).map(|decoded| self.above(Coding::Escapes, decoded))
    }

    fn above(&self, coding: Coding, decoded: Decoded) -> Layer<'_> {
        let Decoded { text, runs } = decoded;
        Layer { below: Some(self), coding: Some(coding), offset: 0, text: Cow::Owned(text), runs }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The bytes that a part of the text stands for, from the first to the last.
    #[must_use]
    pub fn source(&self, part: Range<usize>) -> Range<usize> {
        match self.below {
            Some(below) => below.source(place(&self.runs, &part)),
            None => part.start + self.offset..part.end + self.offset,
        }
    }

    /// How often a coding was taken off.
    fn count(&self, coding: Coding) -> usize {
        usize::from(self.coding == Some(coding)) + self.below.map_or(0, |below| below.count(coding))
    }

    fn depth(&self) -> usize {
        self.below.map_or(0, |below| below.depth() + 1)
    }

    /// Returns whether the text came out of base64, where a few bytes are found by chance.
    pub(super) fn is_of_base64(&self) -> bool {
        self.count(Coding::Base64) > 0
    }

    /// Returns whether what takes the place of a part of it has to be UTF-16, and whether of the order
    /// in which the high byte comes first.
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

/// Visits the texts that some bytes stand for, without the bytes as they are, until a visit breaks.
///
/// Text in more than nine levels is not visited. Decoding stops after a multiple of the bytes.
pub fn each_layer(
    bytes: &[u8],
    visit: &mut dyn FnMut(&Layer<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let blocks = bytes.len().div_ceil(BLOCK_BYTES);
    let is_coded = |block: usize| {
        let (start, end) = (block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES + BESIDE_BYTES);
        let part = bytes.get(start.saturating_sub(BESIDE_BYTES)..bytes.len().min(end));
        part.is_some_and(has_coding)
    };
    let mut block = 0;
    while block < blocks {
        if !is_coded(block) {
            block += 1;
            continue;
        }
        // The blocks on both sides of those that have something to decode, too: a value goes there.
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

/// Returns whether something in a text may be decoded.
fn has_coding(text: &[u8]) -> bool {
    escapes::has_hiding_escape(text)
        || escapes::may_have_sequence(text)
        || escapes::has_percent(text)
        || encodings::has_base64(text)
        || encodings::is_binary(text)
}

struct Walk<'v> {
    /// Bytes that may still be decoded.
    work: usize,
    /// Hashes of texts that were visited: codings that stand side by side are taken off in any order.
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
            if was_stripped || layer.count(coding) >= coding.most() {
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
                // What stands beside it stays.
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
        // Each character is a backslash, a percent sign and a colour by turns.
        let hostile = "\\u005c\\u0025%5c%25\u{1b}[m\u{1b}]0;\\x1b[1m".repeat(4000);
        assert_eq!(pattern.count(hostile.as_bytes()), 0);
    }
}
