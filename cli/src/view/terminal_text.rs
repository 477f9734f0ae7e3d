//! Filters bytes for a terminal: control characters and sequences are made visible, except for the
//! colours of this program.
//!
//! A store contains bytes from other users. All commands write through this filter, so no command
//! can forget it. A file or a pipe gets the bytes unchanged.

use std::str::from_utf8;

use super::render::turns_direction;

/// The parameters of the styles that this program writes: reset, bold, faint, and six colours. None
/// of them hides text.
const STYLES: &[&str] = &["0", "1", "2", "31", "32", "33", "34", "35", "36"];

/// Bytes of the longest style.
const MAX_STYLE: usize = 5;

const ESCAPE: u8 = 0x1b;

/// Replaces a character that is not shown.
const REPLACEMENT: &str = "\u{fffd}";

/// Converts bytes, in parts, into text that a terminal only displays.
#[derive(Debug)]
pub(crate) struct TerminalText {
    /// True if styles of this program pass.
    has_styles: bool,
    /// True if characters are escaped as in JSON strings.
    is_json: bool,
    /// The incomplete character or style at the end of the last part.
    pending: Vec<u8>,
}

impl TerminalText {
    pub(crate) const fn new(has_styles: bool, is_json: bool) -> Self {
        Self { has_styles, is_json, pending: Vec::new() }
    }

    /// Appends the displayable form of `bytes` to `shown`.
    pub(crate) fn push(&mut self, bytes: &[u8], shown: &mut Vec<u8>) {
        if self.pending.is_empty() && bytes.iter().all(|byte| is_plain(*byte)) {
            shown.extend_from_slice(bytes);
            return;
        }
        let mut all = std::mem::take(&mut self.pending);
        all.extend_from_slice(bytes);
        let mut left = all.as_slice();
        while !left.is_empty() {
            match self.first(left) {
                Some(taken) => {
                    let (unit, rest) = left.split_at(taken);
                    self.show(unit, shown);
                    left = rest;
                }
                None => {
                    self.pending = left.to_vec();
                    return;
                }
            }
        }
    }

    /// Appends replacements for the incomplete pending bytes to `shown`.
    pub(crate) fn end(&mut self, shown: &mut Vec<u8>) {
        for byte in std::mem::take(&mut self.pending) {
            self.show(&[byte], shown);
        }
    }

    /// The length of the first unit of `bytes`: plain bytes, a style, a character, or invalid
    /// bytes; `None` if more bytes may follow.
    fn first(&self, bytes: &[u8]) -> Option<usize> {
        let plain = bytes.iter().take_while(|byte| is_plain(**byte)).count();
        if plain > 0 {
            return Some(plain);
        }
        if bytes.first() == Some(&ESCAPE) && self.has_styles {
            return style(bytes);
        }
        let head = bytes.get(..4).unwrap_or(bytes);
        let valid = head.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        match (valid.chars().next(), from_utf8(head)) {
            (Some(first), _) => Some(first.len_utf8()),
            (None, Err(error)) => error.error_len().or((head.len() == 4).then_some(1)),
            (None, Ok(_)) => Some(1),
        }
    }

    fn show(&self, unit: &[u8], shown: &mut Vec<u8>) {
        let is_style = self.has_styles && unit.len() > 1 && unit.first() == Some(&ESCAPE);
        let text = from_utf8(unit).unwrap_or(REPLACEMENT);
        let hides = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || turns_direction(c);
        match text.chars().next().filter(|c| hides(*c) && !is_style) {
            None => shown.extend_from_slice(text.as_bytes()),
            Some(hidden) if self.is_json => {
                shown.extend_from_slice(format!("\\u{:04x}", u32::from(hidden)).as_bytes());
            }
            Some(hidden) if turns_direction(hidden) => {
                shown.extend_from_slice(format!("<U+{:04X}>", u32::from(hidden)).as_bytes());
            }
            Some(_) => shown.extend_from_slice(REPLACEMENT.as_bytes()),
        }
    }
}

const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\t')
}

/// The length of the style of this program at the start of `bytes`; 1 for an escape that is not
/// one; `None` if more bytes decide.
fn style(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..MAX_STYLE).unwrap_or(bytes);
    for parameter in STYLES {
        let style = format!("\u{1b}[{parameter}m");
        if head.starts_with(style.as_bytes()) {
            return Some(style.len());
        }
        if style.as_bytes().starts_with(head) {
            return None;
        }
    }
    Some(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(pieces: &[&[u8]], has_styles: bool, is_json: bool) -> String {
        let mut filter = TerminalText::new(has_styles, is_json);
        let mut shown = Vec::new();
        for piece in pieces {
            filter.push(piece, &mut shown);
        }
        filter.end(&mut shown);
        String::from_utf8(shown).unwrap()
    }

    /// Any byte, most often one that is part of escapes and multi-byte characters.
    fn piece() -> impl Strategy<Value = u8> {
        prop_oneof![any::<u8>(), prop::sample::select(&b"\x1b[3m12;\xc2\x9b\xe2\x80\xae"[..])]
    }

    #[test]
    fn orders_are_shown_and_text_stays() {
        let text = "na\u{ef}ve \u{65e5}\u{672c}\t1\n".as_bytes();
        assert_eq!(shown(&[text], false, false).as_bytes(), text);
        let clipboard = b"\x1b]52;c;cm0=\x07\x08\r\xc2\x9b2J\x9b\x7f";
        let expected = "\u{fffd}]52;c;cm0=\u{fffd}\u{fffd}\u{fffd}\u{fffd}2J\u{fffd}\u{fffd}";
        assert_eq!(shown(&[clipboard], true, false), expected);
        assert_eq!(shown(&["a\u{202e}b".as_bytes()], true, false), "a<U+202E>b");
        assert_eq!(
            shown(&["a\u{202e}\u{9b}\u{7f}".as_bytes()], false, true),
            r"a\u202e\u009b\u007f"
        );
    }

    #[test]
    fn styles_pass_where_they_are_wanted_and_no_others() {
        assert_eq!(shown(&[b"\x1b[33mid\x1b[0m"], true, false), "\x1b[33mid\x1b[0m");
        assert_eq!(shown(&[b"\x1b[33mid"], false, false), "\u{fffd}[33mid");
        for other in ["\x1b[8mhidden", "\x1b[30m", "\x1b[33;8m", "\x1b[2J", "\x1b[3", "\x1b"] {
            assert_eq!(shown(&[other.as_bytes()], true, false), other.replace('\x1b', "\u{fffd}"));
        }
    }

    turntree_properties::properties! {
        #[test]
        fn pieces_are_shown_as_the_whole_is(
            bytes in proptest::collection::vec(piece(), 0..60),
            cuts in proptest::collection::vec(0_usize..60, 0..6),
            has_styles: bool,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.insert(0, 0);
            cuts.push(bytes.len());
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            let whole = shown(&[&bytes], has_styles, false);
            prop_assert_eq!(shown(&pieces, has_styles, false), whole.clone());
            let mut rest = whole;
            if has_styles {
                for parameter in STYLES {
                    rest = rest.replace(&format!("\u{1b}[{parameter}m"), "");
                }
            }
            prop_assert!(!rest.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
