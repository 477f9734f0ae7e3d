//! Offloads long texts: replaces a text in the conversation by a short one with a URI.
//!
//! ```text
//! head, if some was asked for
//!
//! <persisted-output>
//! output truncated (42 lines, 1179 chars total; first 56 chars shown above, last 115 chars shown below)
//! Full output: context://vfs/vfs_eff006930bcb6ee9.txt
//! </persisted-output>
//!
//! tail
//! ```
//!
//! The result equals the text of ContextChef, unit by unit: lengths are UTF-16 units, and head and
//! tail shrink to whole lines if they contain line ends. A cut may split a character, so the result
//! is UTF-16, which can represent half a character; see [`OffloadOptions::whole_characters`].
//!
//! ```
//! use turntree_exchange::{OffloadOptions, Tail, offload};
//!
//! let options = OffloadOptions { threshold: 10, tail: Tail::Chars(5), ..OffloadOptions::default() };
//! let text = offload("one\ntwo\nthree\nfour", &options, "context://vfs/x.txt", None).unwrap();
//! assert!(text.to_text().ends_with("</persisted-output>\n\nfour"));
//! assert!(offload("short", &options, "context://vfs/x.txt", None).is_none());
//! ```

use std::fmt::Write as _;

/// The minimum length of offloaded texts, and the parts to keep. Lengths are UTF-16 units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadOptions {
    /// Texts up to this length are not offloaded.
    pub threshold: u64,
    /// Length of the kept start.
    pub head_chars: u64,
    /// The kept end.
    pub tail: Tail,
    /// True to drop a character that a cut would split. Upstream writes half of it.
    pub whole_characters: bool,
}

/// The kept end of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// At most this many UTF-16 units, shortened to whole lines.
    Chars(u64),
    /// The last lines. A text with a final line end has an empty last line.
    Lines(u64),
}

impl Default for OffloadOptions {
    fn default() -> Self {
        let tail = Tail::Chars(2000);
        Self { threshold: 5000, head_chars: 0, tail, whole_characters: false }
    }
}

/// The replacement of an offloaded text in UTF-16 units. Head and tail may end or start with half a
/// character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder(Vec<u16>);

impl Placeholder {
    /// Returns the UTF-16 units.
    #[must_use]
    pub fn units(&self) -> &[u16] {
        &self.0
    }

    /// Returns the text, with U+FFFD for half a character.
    #[must_use]
    pub fn to_text(&self) -> String {
        String::from_utf16_lossy(&self.0)
    }

    /// Returns the text as a JSON string with quotes, and half a character as the escape of its
    /// unit.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::from("\"");
        for unit in char::decode_utf16(self.0.iter().copied()) {
            match unit {
                Ok('"') => json.push_str("\\\""),
                Ok('\\') => json.push_str("\\\\"),
                Ok('\n') => json.push_str("\\n"),
                Ok('\r') => json.push_str("\\r"),
                Ok('\t') => json.push_str("\\t"),
                Ok(c) if c < ' ' => write_unit(&mut json, c as u32),
                Ok(c) => json.push(c),
                Err(half) => write_unit(&mut json, half.unpaired_surrogate().into()),
            }
        }
        json.push('"');
        json
    }
}

fn write_unit(json: &mut String, unit: u32) {
    let _ = write!(json, "\\u{unit:04x}");
}

/// Returns the replacement of `text`, which is available at `uri`, and in the file `path` if given.
/// Returns `None` if the text is not longer than the threshold, or if head and tail would show all
/// of it.
///
/// Costs one pass over the text.
#[must_use]
pub fn offload(
    text: &str,
    options: &OffloadOptions,
    uri: &str,
    path: Option<&str>,
) -> Option<Placeholder> {
    let total = utf16_len(text);
    if total <= options.threshold {
        return None;
    }
    let tail_chars = match options.tail {
        Tail::Chars(chars) => chars,
        Tail::Lines(lines) => utf16_len(last_lines(text, lines)),
    };
    if options.head_chars.saturating_add(tail_chars) >= total {
        return None;
    }
    let head = head(text, options);
    let tail = match options.tail {
        Tail::Chars(chars) => tail(text, total - chars, options.whole_characters),
        Tail::Lines(lines) => last_lines(text, lines).encode_utf16().collect(),
    };
    let lines = text.matches('\n').count() + 1;
    let shown = match (head.len(), tail.len()) {
        (0, 0) => "preview omitted".to_owned(),
        (0, tail) => format!("preceding content omitted, last {tail} chars shown below"),
        (head, 0) => format!("first {head} chars shown above, rest omitted"),
        (head, tail) => {
            format!("first {head} chars shown above, last {tail} chars shown below")
        }
    };
    let handle = match path {
        Some(path) => format!("Full output saved to: {path}\nURI (alternative): {uri}"),
        None => format!("Full output: {uri}"),
    };
    let marker = format!(
        "\n<persisted-output>\noutput truncated ({lines} lines, {total} chars total; {shown})\n{handle}\n</persisted-output>\n"
    );
    let parts = [head, marker.encode_utf16().collect(), tail];
    let parts: Vec<Vec<u16>> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Some(Placeholder(trimmed(&parts.join(&u16::from(b'\n'))).to_vec()))
}

/// Returns the units of the kept start: whole lines if it contains a line end.
fn head(text: &str, options: &OffloadOptions) -> Vec<u16> {
    if options.head_chars == 0 {
        return Vec::new();
    }
    let cut = CutPosition::at(text, options.head_chars);
    // Include a line end right after the cut.
    let until = match text.as_bytes().get(cut.byte) {
        Some(b'\n') if cut.half.is_none() => cut.byte + 1,
        _ => cut.byte,
    };
    let before = text.get(..until).unwrap_or_default();
    if let Some(line_end) = before.rfind('\n') {
        return before.get(..=line_end).unwrap_or_default().encode_utf16().collect();
    }
    let mut units: Vec<u16> = text.get(..cut.byte).unwrap_or_default().encode_utf16().collect();
    if let Some((high, _)) = cut.half.filter(|_| !options.whole_characters) {
        units.push(high);
    }
    units
}

/// Returns the units from `start` on, or from the next line on if there is one.
fn tail(text: &str, start: u64, whole_characters: bool) -> Vec<u16> {
    let cut = CutPosition::at(text, start);
    let after = match cut.half {
        None => cut.byte,
        Some(_) => cut.byte + 4,
    };
    let rest = text.get(after..).unwrap_or_default();
    if let Some((_, next_line)) = rest.split_once('\n') {
        return next_line.encode_utf16().collect();
    }
    let half = cut.half.filter(|_| !whole_characters).map(|(_, low)| low);
    half.into_iter().chain(rest.encode_utf16()).collect()
}

/// A position between two UTF-16 units of a text.
struct CutPosition {
    /// The start of the character after the position, or of the split character, in bytes.
    byte: usize,
    /// Both halves of the character, if the position splits it.
    half: Option<(u16, u16)>,
}

impl CutPosition {
    /// Returns the position after `units`, or the end of the text if it is shorter.
    fn at(text: &str, units: u64) -> Self {
        let mut passed = 0;
        for (byte, character) in text.char_indices() {
            if passed == units {
                return Self { byte, half: None };
            }
            passed += character.len_utf16() as u64;
            if passed > units {
                let mut halves = [0; 2];
                character.encode_utf16(&mut halves);
                return Self { byte, half: Some(halves.into()) };
            }
        }
        Self { byte: text.len(), half: None }
    }
}

fn utf16_len(text: &str) -> u64 {
    text.chars().map(|c| c.len_utf16() as u64).sum()
}

/// Returns the last `lines` lines of a text, or the whole text if it has fewer.
fn last_lines(text: &str, lines: u64) -> &str {
    let Some(skipped) = usize::try_from(lines).ok().and_then(|lines| lines.checked_sub(1)) else {
        return "";
    };
    match text.rmatch_indices('\n').nth(skipped) {
        Some((line_end, _)) => text.get(line_end + 1..).unwrap_or_default(),
        None => text,
    }
}

/// Trims whitespace, as defined by JavaScript, from both ends.
fn trimmed(units: &[u16]) -> &[u16] {
    let is_space = |unit: &u16| {
        matches!(
            unit,
            0x09..=0x0D | 0x20 | 0xA0 | 0x1680 | 0x2000..=0x200A | 0x2028 | 0x2029 | 0x202F
                | 0x205F | 0x3000 | 0xFEFF
        )
    };
    let Some(start) = units.iter().position(|unit| !is_space(unit)) else { return &[] };
    let end = units.iter().rposition(|unit| !is_space(unit)).unwrap_or(start);
    units.get(start..=end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const URI: &str = "context://vfs/vfs_0.txt";

    fn options(threshold: u64, head_chars: u64, tail: Tail) -> OffloadOptions {
        OffloadOptions { threshold, head_chars, tail, whole_characters: false }
    }

    fn shown(text: &str, options: &OffloadOptions) -> (String, String) {
        let text = offload(text, options, URI, None).unwrap().to_text();
        let (head, rest) = text.split_once("<persisted-output>").unwrap();
        let (_, tail) = rest.split_once("</persisted-output>").unwrap();
        (head.trim_end().to_owned(), tail.trim_start().to_owned())
    }

    #[test]
    fn the_last_lines_stay_whole() {
        let text = "a\nb\nc\nd";
        let lines = |n| shown(text, &options(1, 0, Tail::Lines(n))).1;
        assert_eq!((lines(0), lines(1), lines(3)), (String::new(), "d".into(), "b\nc\nd".into()));
        assert_eq!(offload(text, &options(1, 0, Tail::Lines(4)), URI, None), None);
        let ended = shown("a\nb\nc\n", &options(1, 0, Tail::Lines(2))).1;
        assert_eq!(ended, "c", "the text ends with an empty line, which is trimmed");
    }

    #[test]
    fn heads_include_the_following_line_end() {
        let text = "abc\ndefghijklmnop";
        assert_eq!(shown(text, &options(1, 3, Tail::Chars(0))).0, "abc");
        assert_eq!(shown(text, &options(1, 2, Tail::Chars(0))).0, "ab");
        assert_eq!(shown(text, &options(1, 9, Tail::Chars(0))).0, "abc");
    }

    #[test]
    fn split_characters_are_escaped_or_dropped() {
        let text = "\u{1f600}".repeat(8);
        let split = options(1, 3, Tail::Chars(3));
        let both = offload(&text, &split, URI, None).unwrap();
        assert_eq!(&both.units()[..3], [0xD83D, 0xDE00, 0xD83D]);
        assert!(both.to_json().contains("\\ud83d") && both.to_json().contains("\\n\\ude00"));
        let whole = OffloadOptions { whole_characters: true, ..split };
        let whole = offload(&text, &whole, URI, None).unwrap();
        assert!(String::from_utf16(whole.units()).is_ok());
        assert!(whole.to_text().contains("first 2 chars shown above, last 2 chars shown below"));
    }

    turntree_properties::properties! {
        #[test]
        fn offloaded_texts_keep_their_head_and_tail(
            text in "([a-c\n]|\u{1f600}|é|\u{feff}){0,60}",
            head in 0_u64..30, tail in 0_u64..30, threshold in 0_u64..40, whole: bool,
        ) {
            let options =
                OffloadOptions { threshold, head_chars: head, tail: Tail::Chars(tail), whole_characters: whole };
            let units: Vec<u16> = text.encode_utf16().collect();
            let Some(shown) = offload(&text, &options, URI, None) else {
                let total = units.len() as u64;
                prop_assert!(total <= threshold || head + tail >= total);
                return Ok(());
            };
            let marker: Vec<u16> = "<persisted-output>".encode_utf16().collect();
            let at = shown.units().windows(marker.len()).position(|part| part == marker).unwrap();
            let before = trimmed(&shown.units()[..at]);
            prop_assert!(trimmed(&units).starts_with(before) || units.starts_with(before));
            prop_assert!(before.len() as u64 <= head + 1);
            let end: Vec<u16> = "</persisted-output>".encode_utf16().collect();
            let at = shown.units().windows(end.len()).rposition(|part| part == end).unwrap();
            let after = trimmed(&shown.units()[at + end.len()..]);
            prop_assert!(trimmed(&units).ends_with(after) && after.len() as u64 <= tail);
            if whole {
                prop_assert!(String::from_utf16(shown.units()).is_ok());
            }
        }
    }
}
