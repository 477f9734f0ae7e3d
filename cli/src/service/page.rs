//! Parts of long answers: their limits, and the offset of the next part.

use std::ops::RangeInclusive;

use turntree::{Error, Result};

/// The default and the maximum bytes of text in an answer.
pub(super) const TEXT_BYTES: u64 = 16 << 10;
pub(super) const MAX_TEXT_BYTES: u64 = 256 << 10;

/// The default and the maximum number of items in an answer, for lists of lines.
pub(super) const ITEMS: u64 = 50;
pub(super) const MAX_ITEMS: u64 = 500;

/// The number of items to return.
///
/// # Errors
/// `InvalidInput` for zero or too many.
pub(super) fn limit(asked: Option<u64>, default: u64, max: u64) -> Result<usize> {
    within("limit", asked.unwrap_or(default), 1..=max)
}

/// A number within bounds.
///
/// # Errors
/// `InvalidInput` for a number outside of the bounds.
pub(super) fn within(name: &str, asked: u64, bounds: RangeInclusive<u64>) -> Result<usize> {
    if !bounds.contains(&asked) {
        let (least, most) = bounds.into_inner();
        return Err(Error::invalid(format!("{name} is {asked}: expected {least} to {most}")));
    }
    Ok(usize::try_from(asked).unwrap_or(usize::MAX))
}

/// A part of a list or text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page<T> {
    pub(super) part: T,
    /// The offset of the first item.
    pub(super) offset: u64,
    /// The offset of the next part, unless this is the last.
    pub(super) next: Option<u64>,
}

/// At most `limit` items from `offset` on.
pub(super) fn items<T>(all: Vec<T>, offset: u64, limit: usize) -> Page<Vec<T>> {
    let (len, start) = (all.len(), usize::try_from(offset).unwrap_or(usize::MAX));
    let end = start.saturating_add(limit).min(len);
    let part = all.into_iter().skip(start).take(limit).collect();
    Page { part, offset, next: (end < len && start < len).then_some(end as u64) }
}

/// At most `limit` bytes of a text from `offset` on, in whole characters: the start moves forward
/// to the next character, the end backward to the previous one.
pub(super) fn text(all: &str, offset: u64, limit: usize) -> Page<&str> {
    let at = |place: usize| place.min(all.len());
    let mut start = at(usize::try_from(offset).unwrap_or(usize::MAX));
    while !all.is_char_boundary(start) {
        start += 1;
    }
    let mut end = at(start.saturating_add(limit));
    while !all.is_char_boundary(end) {
        end -= 1;
    }
    if end <= start {
        // If the limit is within the first character, returns it whole; otherwise the caller could
        // never get past it.
        let first = all.get(start..).and_then(|rest| rest.chars().next());
        end = start + first.map_or(0, char::len_utf8);
    }
    let part = all.get(start..end).unwrap_or_default();
    Page { part, offset: start as u64, next: (end < all.len()).then_some(end as u64) }
}

/// A buffer for text that stops at its limit.
#[derive(Debug)]
pub(super) struct Bounded {
    text: Vec<u8>,
    limit: usize,
}

impl Bounded {
    pub(super) fn new(limit: usize) -> Self {
        Self { text: Vec::new(), limit }
    }

    /// Returns true if more was written than the limit.
    pub(super) fn is_cut(&self) -> bool {
        self.text.len() > self.limit
    }

    /// Returns the written text up to the limit.
    pub(super) fn into_text(self) -> String {
        let text = String::from_utf8_lossy(&self.text);
        self::text(&text, 0, self.limit).part.to_owned()
    }
}

impl std::io::Write for Bounded {
    /// Fails once the limit is exceeded, so that the writer stops.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.is_cut() {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A buffer for one part of a written stream: skips the bytes before the part, and stops the writer
/// after it.
#[derive(Debug)]
pub(super) struct Window {
    offset: u64,
    /// Bytes still to skip.
    before: u64,
    bytes: Vec<u8>,
    limit: usize,
}

impl Window {
    pub(super) fn new(offset: u64, limit: usize) -> Self {
        Self { offset, before: offset, bytes: Vec::new(), limit }
    }

    /// Returns true if the part is complete.
    pub(super) fn is_full(&self) -> bool {
        // The last character of the part must be complete.
        self.bytes.len() >= self.limit + 4
    }

    /// Returns the part; the part of a text has whole characters.
    pub(super) fn into_part(mut self) -> Page<Vec<u8>> {
        let len = self.bytes.len();
        let text = match std::str::from_utf8(&self.bytes) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() => {
                let valid = self.bytes.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(valid).unwrap_or_default()
            }
            Err(_) => "",
        };
        let end = match self::text(text, 0, self.limit).part.len() {
            0 => len.min(self.limit),
            end => end,
        };
        self.bytes.truncate(end);
        let next = (end < len).then_some(self.offset.saturating_add(end as u64));
        Page { part: self.bytes, offset: self.offset, next }
    }
}

impl std::io::Write for Window {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.is_full() {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        let passed = usize::try_from(self.before).unwrap_or(usize::MAX).min(bytes.len());
        self.before -= passed as u64;
        let rest = bytes.get(passed..).unwrap_or_default();
        let room = self.limit + 4 - self.bytes.len();
        let taken = rest.get(..room.min(rest.len())).unwrap_or_default();
        self.bytes.extend_from_slice(taken);
        Ok(passed + taken.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_text_are_the_text_whatever_the_limit() {
        let all = "aß€😀\nüb😀😀er";
        for limit in 1..all.len() + 2 {
            let (mut joined, mut offset) = (String::new(), Some(0));
            while let Some(at) = offset {
                let Page { part, offset: start, next } = text(all, at, limit);
                assert_eq!(start, at, "a part begins where the one before said");
                assert!(!part.is_empty());
                joined.push_str(part);
                offset = next;
            }
            assert_eq!(joined, all, "{limit}");
        }
        for offset in 0..40 {
            let Page { part, offset: start, .. } = text(all, offset, 3);
            assert!(all[usize::try_from(start).unwrap()..].starts_with(part));
        }
    }

    #[test]
    fn the_parts_of_a_list_are_the_list() {
        let all: Vec<u32> = (0..10).collect();
        for limit in 1..12 {
            let (mut joined, mut offset) = (Vec::new(), Some(0));
            while let Some(at) = offset {
                let part = items(all.clone(), at, limit);
                joined.extend(part.part);
                offset = part.next;
            }
            assert_eq!(joined, all, "{limit}");
        }
        assert_eq!(items(all, u64::MAX, 5).next, None);
    }

    #[test]
    fn the_parts_of_what_is_written_are_all_of_it() {
        use std::io::Write;

        let text = "aß€😀\nüb😀😀er".as_bytes();
        let binary: Vec<u8> = (0..=255).rev().collect();
        for all in [text, &binary, b""] {
            for limit in 1..all.len() + 2 {
                let (mut joined, mut offset) = (Vec::new(), Some(0));
                while let Some(at) = offset {
                    let mut window = Window::new(at, limit);
                    for piece in all.chunks(3) {
                        if window.write_all(piece).is_err() {
                            assert!(window.is_full());
                        }
                    }
                    let Page { part, next, .. } = window.into_part();
                    assert!(!part.is_empty() || all.is_empty());
                    assert!(all != text || std::str::from_utf8(&part).is_ok(), "{limit}");
                    joined.extend(part);
                    offset = next;
                }
                assert_eq!(joined, all, "{limit}");
            }
        }
    }

    #[test]
    fn nothing_more_is_made_once_a_text_is_full() {
        use std::io::Write;

        let mut bounded = Bounded::new(5);
        let written = (0..100).take_while(|_| bounded.write_all(b"abc").is_ok()).count();
        assert_eq!((written, bounded.is_cut()), (2, true));
        assert_eq!(bounded.into_text(), "abcab");
    }
}
