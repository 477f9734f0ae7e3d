//! Decodes one level of the escapes of JSON, of string literals in programs, of terminals, and of
//! URLs.

use memchr::{memchr, memchr_iter, memchr2};

use super::decoded_text::DecodedText;

const ESC: u8 = 0x1b;

/// The longest terminal sequence that is removed: a title or a link.
const MAX_SEQUENCE_BYTES: usize = 4096;

/// Returns true if a text has escapes for parts of words: letters, digits, punctuation, or the
/// start of a color. Escaped line ends and quotes cannot hide a word.
pub(super) fn has_hiding_escape(text: &[u8]) -> bool {
    memchr_iter(b'\\', text).any(|at| match text.get(at + 1..).unwrap_or_default() {
        [b'x', high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        [b'/', ..]
        | [b'u', b'{', ..]
        | [b'u', b'0', b'0', b'0'..=b'7', ..]
        | [b'u', b'0', b'0', b'9', b'b' | b'B', ..]
        | [b'U', b'0', b'0', b'0', b'0', b'0', b'0', ..]
        | [b'0', b'0'..=b'7', b'0'..=b'7', ..]
        | [b'e', b'[' | b']', ..] => true,
        _ => false,
    })
}

/// Returns the text without one level of escapes; `None` if it has none.
pub(super) fn unescape(text: &[u8]) -> Option<DecodedText> {
    memchr(b'\\', text)?;
    let mut plain = DecodedText::with_capacity(text.len());
    let (mut at, mut is_changed) = (0, false);
    while let Some(found) = memchr(b'\\', text.get(at..).unwrap_or_default()) {
        let start = at + found;
        plain.copy(text, at..start);
        let escape = text.get(start..).unwrap_or_default();
        let (character, length) = decode_escape(escape);
        match character {
            Some(c) => {
                is_changed = true;
                plain.push_unit(start..start + length, c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => plain.copy(text, start..start + 1),
        }
        at = start + length;
    }
    plain.copy(text, at..text.len());
    is_changed.then_some(plain)
}

/// Returns the character of an escape and its length; `None` for a literal backslash.
fn decode_escape(escape: &[u8]) -> (Option<char>, usize) {
    let ascii = |digits: Option<&[u8]>, radix| character(digits?, radix).filter(char::is_ascii);
    let (found, length) = match escape.get(1) {
        Some(b'n') => (Some('\n'), 2),
        Some(b't') => (Some('\t'), 2),
        Some(b'r') => (Some('\r'), 2),
        Some(b'b') => (Some('\u{8}'), 2),
        Some(b'f') => (Some('\u{c}'), 2),
        Some(b'e') if matches!(escape.get(2), Some(b'[' | b']')) => (Some('\u{1b}'), 2),
        Some(b'u') if escape.get(2) == Some(&b'{') => {
            let end = escape.iter().take(10).position(|byte| *byte == b'}').unwrap_or(0);
            (escape.get(3..end).and_then(|digits| character(digits, 16)), end + 1)
        }
        Some(b'u') => utf16_units(escape),
        Some(b'U') => (escape.get(2..10).and_then(|digits| character(digits, 16)), 10),
        Some(b'x') => (ascii(escape.get(2..4), 16), 4),
        Some(b'0') => (ascii(escape.get(1..4), 8), 4),
        Some(other @ (b'"' | b'\\' | b'/' | b'\'')) => (Some(char::from(*other)), 2),
        _ => (None, 1),
    };
    if found.is_some() { (found, length) } else { (None, 1) }
}

/// Returns the character of one `\u`, or of two that form a surrogate pair.
fn utf16_units(escape: &[u8]) -> (Option<char>, usize) {
    let unit = |at: usize| {
        let digits = escape.get(at..at + 6)?.strip_prefix(b"\\u")?;
        number(digits, 16)
    };
    let Some(first) = unit(0) else { return (None, 1) };
    if let (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) = (first, unit(6)) {
        return (char::from_u32(0x1_0000 + ((first & 0x3ff) << 10) + (second & 0x3ff)), 12);
    }
    (char::from_u32(first), 6)
}

fn character(digits: &[u8], radix: u32) -> Option<char> {
    char::from_u32(number(digits, radix)?)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let is_number = digits.iter().all(|digit| char::from(*digit).is_digit(radix));
    u32::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_number)?, radix).ok()
}

/// Returns true if a text may have terminal sequences.
pub(super) fn may_have_sequence(text: &[u8]) -> bool {
    memchr(ESC, text).is_some()
        || memchr_iter(0x9b, text).any(|at| {
            let before = at.checked_sub(1).and_then(|before| text.get(before));
            before.is_none_or(|before| *before < 0x80 || *before == 0xc2)
        })
}

/// Returns true if a printable ASCII character is percent-encoded in a text.
pub(super) fn has_percent(text: &[u8]) -> bool {
    memchr_iter(b'%', text).any(|at| hides(text, at))
}

/// Returns the byte that a percent sign and two digits encode.
fn percent_byte(text: &[u8], at: usize) -> Option<u8> {
    number(text.get(at + 1..at + 3)?, 16).and_then(|number| u8::try_from(number).ok())
}

fn hides(text: &[u8], at: usize) -> bool {
    percent_byte(text, at).is_some_and(|byte| (0x20..0x7f).contains(&byte))
}

/// Returns the text without terminal sequences, or with a space instead of each; `None` if it has
/// none.
pub(super) fn strip_sequences(text: &[u8], is_spaced: bool) -> Option<DecodedText> {
    memchr2(ESC, 0x9b, text)?;
    let mut plain = DecodedText::with_capacity(text.len());
    let (mut at, mut searched, mut is_changed) = (0, 0, false);
    while let Some(found) = memchr2(ESC, 0x9b, text.get(searched..).unwrap_or_default()) {
        let mut start = searched + found;
        let length = sequence_len(text.get(start..).unwrap_or_default());
        let before = start.checked_sub(1).filter(|before| *before >= at);
        let before = before.and_then(|before| text.get(before)).copied().unwrap_or(0);
        // In UTF-8, 0x9b is a control character only after 0xc2; otherwise it is part of another
        // character.
        let is_part = text.get(start) == Some(&0x9b) && before >= 0x80 && before != 0xc2;
        if length == 0 || is_part {
            searched = start + 1;
            continue;
        }
        let end = start + length;
        if text.get(start) == Some(&0x9b) && before == 0xc2 {
            start -= 1;
        }
        plain.copy(text, at..start);
        if is_spaced {
            plain.push_unit(start..end, b" ");
        }
        is_changed = true;
        (at, searched) = (end, end);
    }
    plain.copy(text, at..text.len());
    is_changed.then_some(plain)
}

/// Returns the length of the sequence at the beginning; 0 for none.
fn sequence_len(text: &[u8]) -> usize {
    let controlled = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        let inner = rest.iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
        match rest.get(inner) {
            Some(0x40..=0x7e) => from + inner + 1,
            _ => 0,
        }
    };
    match text {
        [0x9b, ..] => controlled(1),
        [ESC, b'[', ..] => controlled(2),
        [ESC, b']' | b'P' | b'X' | b'^' | b'_', rest @ ..] => {
            let rest = rest.get(..MAX_SEQUENCE_BYTES.min(rest.len())).unwrap_or_default();
            match memchr2(7, ESC, rest) {
                Some(end) if rest.get(end) == Some(&7) => end + 3,
                Some(end) if rest.get(end + 1) == Some(&b'\\') => end + 4,
                _ => 0,
            }
        }
        [ESC, 0x20..=0x2f, 0x30..=0x7e, ..] => 3,
        [ESC, b'0'..=b'?' | b'A'..=b'O' | b'Q'..=b'W' | b'Y' | b'Z' | b'c' | b'n' | b'o', ..] => 2,
        _ => 0,
    }
}

/// Returns the text without one level of percent encoding; `None` if no printable ASCII character
/// is encoded.
pub(super) fn decode_percent(text: &[u8]) -> Option<DecodedText> {
    let first = memchr_iter(b'%', text).find(|at| hides(text, *at))?;
    let mut plain = DecodedText::with_capacity(text.len());
    plain.copy(text, 0..first);
    let mut at = first;
    while let Some(found) = memchr(b'%', text.get(at..).unwrap_or_default()) {
        let start = at + found;
        plain.copy(text, at..start);
        at = match percent_byte(text, start) {
            Some(byte) => {
                plain.push_unit(start..start + 3, &[byte]);
                start + 3
            }
            None => {
                plain.copy(text, start..start + 1);
                start + 1
            }
        };
    }
    plain.copy(text, at..text.len());
    Some(plain)
}
