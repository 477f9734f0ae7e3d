//! Decodes base64 and UTF-16 anywhere in some bytes, and extracts the texts of binary data.

use std::ops::Range;

use memchr::memchr_iter;

use super::decoded_text::DecodedText;

/// The shortest run of base64 characters that is decoded: eighteen bytes.
const MIN_CHARACTERS: usize = 24;

/// The shortest run of base64 characters that is decoded even if it is not text.
const SURE_CHARACTERS: usize = 160;

/// The number of characters decoded to check for text.
const SAMPLE: usize = 24;

/// The shortest run of groups that may be text, in base64 of binary data.
const MIN_GROUPS: usize = 3;

/// The shortest run of bytes that counts as text in binary data.
const MIN_TEXT_BYTES: usize = 6;

/// The shortest run of ASCII units of UTF-16: shorter runs occur by chance.
const MIN_UNITS: usize = 4;

/// The separator between two decoded texts, which no match crosses.
const SEPARATOR: &[u8] = b"\n\0\n";

/// The value of a byte that is not a base64 character.
const NONE: u8 = 64;

/// The values of base64 characters, in the standard and the URL alphabet.
#[expect(clippy::indexing_slicing, reason = "a constant, and every byte is an index of it")]
static SEXTETS: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        values[byte as usize] = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => NONE,
        };
        byte += 1;
    }
    values
};

fn sextet(byte: u8) -> u8 {
    SEXTETS.get(usize::from(byte)).copied().unwrap_or(NONE)
}

/// Counts the base64 characters at the beginning of some bytes.
fn count<'b>(bytes: impl Iterator<Item = &'b u8>) -> usize {
    bytes.take_while(|byte| sextet(**byte) != NONE).count()
}

fn is_base64(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(|byte| sextet(*byte) != NONE)
}

/// Returns true if a text has a stretch of base64.
pub(super) fn has_base64(text: &[u8]) -> bool {
    let mut is_found = false;
    visit_base64_runs(text, &mut |start, length| {
        let line = text.get(start..start + length).unwrap_or_default();
        let (skips, _) = group_offsets(line, text.get(..start).unwrap_or_default());
        is_found |= !skips.is_empty();
        // One stretch is enough, so the search ends.
        if is_found { text.len() } else { start + length }
    });
    is_found
}

/// Decodes every stretch of base64 in a text; `None` if there is none.
pub(super) fn from_base64(text: &[u8]) -> Option<DecodedText> {
    let mut plain = DecodedText::default();
    visit_base64_runs(text, &mut |start, length| {
        let line = text.get(start..start + length).unwrap_or_default();
        let (skips, is_text) = group_offsets(line, text.get(..start).unwrap_or_default());
        let mut end = start + length;
        for skipped in skips {
            let mut stretch = DecodedText::with_capacity(length);
            end = add_lines(text, start + skipped, &mut stretch);
            add_decoded(&stretch, is_text, &mut plain);
        }
        end
    });
    (!plain.text().is_empty()).then_some(plain)
}

/// Visits the start and length of each run of base64 characters, and continues where the visit
/// returns.
fn visit_base64_runs(text: &[u8], visit: &mut dyn FnMut(usize, usize) -> usize) {
    let mut probe = MIN_CHARACTERS - 1;
    // A run of the minimum length has a character at one of these positions.
    while probe < text.len() {
        if !is_base64(text, probe) {
            probe += MIN_CHARACTERS;
            continue;
        }
        let back = text.get(..probe).unwrap_or_default().iter().rev();
        let start = probe - count(back);
        let rest = text.get(start..).unwrap_or_default();
        let length = count(rest.iter());
        let end = match length >= MIN_CHARACTERS {
            true => visit(start, length),
            false => start + length,
        };
        probe = end + MIN_CHARACTERS;
    }
}

/// Adds the base64 characters from `start` on, across line ends, and returns their end.
fn add_lines(text: &[u8], start: usize, stretch: &mut DecodedText) -> usize {
    let mut at = start;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let length = count(rest.iter());
        stretch.copy(text, at..at + length);
        let end = at + length;
        let next = line_end(text, end);
        let goes_on = next > end && (0..4).all(|ahead| is_base64(text, next + ahead));
        // Lines of base64 are long, and all but the last consist of whole groups.
        if length < MIN_CHARACTERS || !goes_on {
            return end;
        }
        at = next;
    }
}

/// Returns the end of a line break at `at`, raw or as JSON escapes it.
fn line_end(text: &[u8], at: usize) -> usize {
    let mut end = at;
    for _ in 0..2 {
        let rest = text.get(end..).unwrap_or_default();
        let slashes = rest.iter().take(8).take_while(|byte| **byte == b'\\').count();
        end += match rest.get(slashes) {
            Some(b'\n' | b'\r') if slashes == 0 => 1,
            Some(b'n' | b'r') if slashes > 0 => slashes + 1,
            _ => break,
        };
    }
    end
}

/// Returns the possible offsets of the first group of a base64 run, and whether it decodes to text;
/// no offset for a run that is not text and too short to be binary data. A character before the
/// base64, like the letter of an escape, may be part of the run, so the groups begin where the
/// result is text. If no offset gives text and the preceding bytes are unknown, any offset is
/// possible.
fn group_offsets(line: &[u8], before: &[u8]) -> (Range<usize>, bool) {
    let is_text = |from: usize| {
        let sample = line.get(from..line.len().min(from + SAMPLE)).unwrap_or_default();
        let mut bytes = [0; SAMPLE];
        let mut length = 0;
        for group in sample.chunks_exact(4) {
            let word = group.iter().fold(0, |word, byte| word << 6 | bits(*byte));
            let [_, first, second, third] = word.to_be_bytes();
            // The first group excludes most data that is not text.
            if length == 0 && [first, second, third].iter().any(|byte| !is_common(*byte)) {
                return false;
            }
            for byte in [first, second, third] {
                if let Some(place) = bytes.get_mut(length) {
                    *place = byte;
                    length += 1;
                }
            }
        }
        let bytes = bytes.get(..length).unwrap_or_default();
        let is_wide = |parity: usize| bytes.iter().skip(parity).step_by(2).all(|byte| *byte == 0);
        bytes.iter().all(|byte| *byte != 0 && is_common(*byte)) || is_wide(0) || is_wide(1)
    };
    let last = line.len().saturating_sub(SAMPLE).min(SURE_CHARACTERS);
    let is_any_text =
        |skipped: &usize| (0..=last).step_by(SAMPLE / 2).any(|at| is_text(at + skipped));
    match (0..4).find(is_any_text) {
        Some(skipped) => (skipped..skipped + 1, true),
        None if line.len() < SURE_CHARACTERS => (0..0, false),
        None if before.is_empty() => (0..4, false),
        None if before.ends_with(b"\\") => (1..2, false),
        None => (0..1, false),
    }
}

/// Returns true for characters of texts, and for the zero half of a unit of UTF-16.
const fn is_common(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t' | 0x1b | 0)
}

fn bits(byte: u8) -> u32 {
    u32::from(sextet(byte) & 63)
}

/// Adds the decoded bytes of a stretch of base64: all of a text, and the possible texts in binary
/// data.
fn add_decoded(stretch: &DecodedText, is_text: bool, plain: &mut DecodedText) {
    let text = stretch.text();
    let all = stretch.place(&(0..text.len()));
    let is_one_line = all.len() == text.len();
    let place = |first: usize| match is_one_line {
        true => all.start + first..all.start + text.len().min(first + 4),
        false => stretch.place(&(first..text.len().min(first + 4))),
    };
    let bytes = decode(text);
    let groups: Vec<&[u8]> = bytes.chunks(3).collect();
    let mut at = 0;
    while at < groups.len() {
        let rest = groups.get(at..).unwrap_or_default();
        let is_kept = |group: &&&[u8]| is_text || group.iter().all(|byte| is_common(*byte));
        let length = rest.iter().take_while(is_kept).count();
        if length < MIN_GROUPS && !is_text {
            at += length + 1;
            continue;
        }
        // The neighboring groups may hold the first and last bytes of the text.
        let first = if is_text { at } else { at.saturating_sub(1) };
        for (number, group) in groups.iter().enumerate().take(at + length + 1).skip(first) {
            let place = place(number * 4);
            let clean = |byte: &u8| if is_text || is_common(*byte) { *byte } else { b'\n' };
            let mut bytes = [0; 3];
            bytes.iter_mut().zip(*group).for_each(|(to, byte)| *to = clean(byte));
            let bytes = bytes.get(..group.len()).unwrap_or_default();
            match group.len() {
                3 => plain.push(place.start, (3, place.len()), bytes),
                _ => plain.push_unit(place, bytes),
            }
        }
        let end = place((at + length).min(groups.len() - 1) * 4).end;
        plain.push_unit(end..end, SEPARATOR);
        at += length + 1;
    }
}

/// Decodes base64 characters.
fn decode(characters: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(characters.len() / 4 * 3 + 2);
    for group in characters.chunks(4) {
        let word = group.iter().fold(0, |word, byte| word << 6 | bits(*byte));
        let word = word << (6 * (4 - group.len()));
        let [_, decoded @ ..] = word.to_be_bytes();
        bytes.extend_from_slice(decoded.get(..group.len() * 3 / 4).unwrap_or_default());
    }
    bytes
}

/// Decodes every stretch of UTF-16 in some bytes; `None` if there is none.
pub(super) fn from_utf16(bytes: &[u8]) -> Option<DecodedText> {
    let mut plain = DecodedText::default();
    let mut end = 0;
    for zero in memchr_iter(0, bytes) {
        if zero < end {
            continue;
        }
        let little = zero.checked_sub(1).filter(|start| *start >= end);
        for (start, is_big) in [(little, false), (Some(zero), true)] {
            let Some(start) = start else { continue };
            if (0..MIN_UNITS).all(|number| is_ascii(bytes, start + 2 * number, is_big)) {
                end = add_units(bytes, start, is_big, &mut plain);
                plain.push_unit(end..end, SEPARATOR);
                break;
            }
        }
    }
    (!plain.text().is_empty()).then_some(plain)
}

fn utf16_unit(bytes: &[u8], at: usize, is_big: bool) -> Option<u16> {
    let pair = [*bytes.get(at)?, *bytes.get(at + 1)?];
    Some(if is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
}

fn is_ascii(bytes: &[u8], at: usize, is_big: bool) -> bool {
    matches!(utf16_unit(bytes, at, is_big), Some(9 | 10 | 13 | 0x1b | 0x20..=0x7e))
}

/// Adds characters from `start` on, up to an invalid one, and returns their end.
fn add_units(bytes: &[u8], start: usize, is_big: bool, plain: &mut DecodedText) -> usize {
    let mut at = start;
    while let Some(first @ 1..) = utf16_unit(bytes, at, is_big) {
        let second = utf16_unit(bytes, at + 2, is_big);
        let units = [first, second.unwrap_or(0)];
        let taken = if (0xd800..0xdc00).contains(&first) { 2 } else { 1 };
        let units = units.get(..taken).unwrap_or_default();
        let Some(Ok(character)) = char::decode_utf16(units.iter().copied()).next() else { break };
        if character.is_ascii() {
            plain.push(at, (1, 2), &[u8::try_from(first).unwrap_or(b'?')]);
        } else {
            let mut utf8 = [0; 4];
            plain.push_unit(at..at + 2 * taken, character.encode_utf8(&mut utf8).as_bytes());
        }
        at += 2 * taken;
    }
    at
}

/// Returns true if some bytes are not text.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    // A part of a text may begin and end inside a character.
    let cut = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    let part = bytes.get(cut..).unwrap_or_default();
    let is_text = match std::str::from_utf8(part) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    let is_between = |at: usize| at > 0 && bytes.get(at - 1..at + 2) == Some(SEPARATOR);
    !is_text || !memchr_iter(0, bytes).all(is_between)
}

/// Extracts the texts in binary data, one per line; `None` for a text.
pub(super) fn from_binary(bytes: &[u8]) -> Option<DecodedText> {
    let is_control = |byte: u8| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127);
    if !is_binary(bytes) {
        return None;
    }
    let mut plain = DecodedText::default();
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for text in chunk.valid().as_bytes().split_inclusive(|byte| is_control(*byte)) {
            let end = at + text.len();
            let last = text.last().copied().is_some_and(is_control);
            let range = at..end - usize::from(last);
            if range.len() >= MIN_TEXT_BYTES {
                plain.push_unit(at..at, b"\n");
                plain.copy(bytes, range.clone());
                plain.push_unit(range.end..end, b"\n");
            }
            at = end;
        }
        at += chunk.invalid().len();
    }
    (!plain.text().is_empty()).then_some(plain)
}
