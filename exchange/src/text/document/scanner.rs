//! An incremental JSON scanner that takes one byte at a time and reports where values begin and
//! end.
//!
//! It stores no bytes except for the current key, never recurses, and has one small frame for each
//! open container, at most [`MAX_DEPTH`]. It accepts RFC 8259, several successive values, and the
//! `NaN` and `Infinity` that Python writes.

use super::MAX_DEPTH;
use super::rules::{Mask, Matcher, PathTarget};

/// Longest key that is compared with rules, in bytes.
const MAX_KEY_BYTES: usize = 64;

/// An open array or object.
#[derive(Debug, Clone, Copy)]
struct OpenValue {
    array: bool,
    /// The rules that match its path so far.
    mask: Mask,
}

/// The state of the scanner, which determines the bytes that may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanState {
    /// Between top-level values. The document may end.
    Top,
    /// The remaining bytes of a byte order mark.
    Mark(&'static [u8]),
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    String,
    Escape,
    /// The number of missing hex digits of a `\u` escape.
    Unicode(u8),
    /// The range of the next byte of a character, and the number of bytes after it.
    Utf8 {
        low: u8,
        high: u8,
        more: u8,
    },
    Number(Number),
    /// The remaining bytes of `true`, `false`, `null`, `NaN`, `Infinity`.
    Literal(&'static [u8]),
}

/// The state inside a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

/// The role of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteRole {
    /// Neither the start nor the end of a value.
    Inside,
    /// The first byte of a value.
    Begin,
    /// The last byte of a value.
    End,
}

/// The expected input, for a byte that is not allowed.
pub(super) type Fault = &'static str;

/// The state of a scan. An invalid byte leaves it unchanged.
#[derive(Debug)]
pub(super) struct Scanner {
    matcher: Matcher,
    frames: Vec<OpenValue>,
    state: ScanState,
    /// True if the current string is a key.
    in_key: bool,
    /// The bytes of the key as written (a key with escapes matches no rule). Truncated to one byte
    /// more than [`MAX_KEY_BYTES`], which is too long to match.
    key: Vec<u8>,
    /// The rules that match the path of the next or current value.
    mask: Mask,
}

impl Scanner {
    pub(super) fn new(matcher: Matcher) -> Self {
        let mask = matcher.all();
        Self {
            matcher,
            frames: Vec::new(),
            state: ScanState::Top,
            in_key: false,
            key: Vec::new(),
            mask,
        }
    }

    /// Resumes after damage: in the outermost container if it is an array, else at the top level.
    pub(super) fn resume(&mut self) {
        self.frames.truncate(1);
        self.frames.retain(|frame| frame.array);
        self.state = if self.frames.is_empty() { ScanState::Top } else { ScanState::Value };
        self.in_key = false;
    }

    /// Restarts after damage in an element of the array at `depth`, with the next element.
    pub(super) fn resume_at(&mut self, depth: usize) {
        self.frames.truncate(depth);
        self.state = ScanState::Value;
        self.in_key = false;
    }

    /// Returns true if the value that just began is an element of an array.
    pub(super) fn is_element(&self) -> bool {
        let depth = self.frames.len() - usize::from(self.is_container());
        depth.checked_sub(1).and_then(|at| self.frames.get(at)).is_some_and(|frame| frame.array)
    }

    /// Returns true if the invalid `byte` may be skipped as part of a string. A line end and a zero
    /// may not: they are the traces of a torn record.
    pub(super) fn is_in_text(&self, byte: u8) -> bool {
        let is_text = matches!(
            self.state,
            ScanState::String | ScanState::Escape | ScanState::Unicode(_) | ScanState::Utf8 { .. }
        );
        is_text && !matches!(byte, b'\n' | b'\r' | 0)
    }

    /// Continues the string after an invalid byte. Returns true if the byte is skipped, and false
    /// if it must be scanned again.
    pub(super) fn skip_in_text(&mut self) -> bool {
        std::mem::replace(&mut self.state, ScanState::String) == ScanState::String
    }

    /// Returns the number of open containers.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Returns the rule that the value that just began matches.
    pub(super) fn rule(&self) -> Option<(&'static str, PathTarget)> {
        let depth = self.frames.len() - usize::from(self.is_container());
        self.matcher.complete(self.mask, depth)
    }

    /// Disables matching below the value that just began.
    pub(super) fn disable_rules(&mut self) {
        if self.is_container()
            && let Some(frame) = self.frames.last_mut()
        {
            frame.mask = 0;
        }
    }

    /// Returns true if every value is complete.
    pub(super) fn is_at_top(&self) -> bool {
        self.state == ScanState::Top
    }

    /// Describes the expected next byte, for error messages.
    pub(super) fn expected(&self) -> Fault {
        match self.state {
            ScanState::Top | ScanState::Value => "a value",
            ScanState::Mark(_) => "a byte order mark",
            ScanState::ValueOrEnd => "a value or ']'",
            ScanState::Key => "a key",
            ScanState::KeyOrEnd => "a key or '}'",
            ScanState::Colon => "':'",
            ScanState::CommaOrEnd if self.in_array() => "',' or ']'",
            ScanState::CommaOrEnd => "',' or '}'",
            ScanState::String => "the rest of a string",
            ScanState::Escape => "an escape",
            ScanState::Unicode(_) => "a hex digit",
            ScanState::Utf8 { .. } => "UTF-8",
            ScanState::Number(_) => "a digit",
            ScanState::Literal(_) => "true, false or null",
        }
    }

    /// Returns true and ends the number if it is complete before `next` (`None`: the end of the
    /// file).
    pub(super) fn ends_number(&mut self, next: Option<u8>) -> bool {
        let ScanState::Number(number) = self.state else { return false };
        let complete =
            matches!(number, Number::Zero | Number::Integer | Number::Fraction | Number::Power);
        // At the end of the file, only a top-level number is complete.
        let ended = match next {
            Some(byte) => number.after(byte).is_none(),
            None => self.frames.is_empty(),
        };
        if !complete || !ended {
            return false;
        }
        self.state = self.between();
        true
    }

    /// Returns the number of plain characters of the string at the start of `bytes`.
    pub(super) fn skip_plain(&mut self, bytes: &[u8]) -> usize {
        if self.state != ScanState::String {
            return 0;
        }
        let plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..0x20 | 0x80..);
        let count = bytes.iter().position(|byte| !plain(byte)).unwrap_or(bytes.len());
        if self.in_key {
            let room = (MAX_KEY_BYTES + 1).saturating_sub(self.key.len());
            self.key.extend(bytes.iter().take(count.min(room)));
        }
        count
    }

    /// Processes the next byte. The caller must end numbers with [`Self::ends_number`] first.
    pub(super) fn feed(&mut self, byte: u8) -> Result<ByteRole, Fault> {
        let in_key = self.in_key;
        let step = self.step(byte)?;
        if in_key && self.in_key && self.key.len() <= MAX_KEY_BYTES {
            self.key.push(byte);
        }
        Ok(step)
    }

    fn step(&mut self, byte: u8) -> Result<ByteRole, Fault> {
        let is_blank = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match self.state {
            ScanState::String
            | ScanState::Escape
            | ScanState::Unicode(_)
            | ScanState::Utf8 { .. } => self.string(byte),
            ScanState::Mark(_) | ScanState::Number(_) | ScanState::Literal(_) => self.scalar(byte),
            _ if is_blank => Ok(ByteRole::Inside),
            ScanState::Top if byte == 0xef => self.enter(ScanState::Mark(b"\xbb\xbf")),
            ScanState::ValueOrEnd if byte == b']' => self.close(),
            ScanState::Top | ScanState::Value | ScanState::ValueOrEnd => self.begin(byte),
            ScanState::KeyOrEnd if byte == b'}' => self.close(),
            ScanState::Key | ScanState::KeyOrEnd if byte == b'"' => {
                self.key.clear();
                self.in_key = true;
                self.enter(ScanState::String)
            }
            ScanState::Colon if byte == b':' => self.enter(ScanState::Value),
            ScanState::CommaOrEnd => self.end_or_continue(byte),
            ScanState::Key | ScanState::KeyOrEnd | ScanState::Colon => Err(self.expected()),
        }
    }

    /// Processes the next byte of a number, a literal, or a byte order mark.
    fn scalar(&mut self, byte: u8) -> Result<ByteRole, Fault> {
        let fault = self.expected();
        let split = |rest: &'static [u8]| rest.split_first().filter(|(first, _)| **first == byte);
        match self.state {
            ScanState::Number(Number::Minus) if byte == b'I' => {
                self.enter(ScanState::Literal(b"nfinity"))
            }
            ScanState::Number(number) => {
                self.enter(ScanState::Number(number.after(byte).ok_or(fault)?))
            }
            ScanState::Literal(rest) => match split(rest).ok_or(fault)? {
                (_, []) => self.end_value(),
                (_, rest) => self.enter(ScanState::Literal(rest)),
            },
            ScanState::Mark(rest) => match split(rest).ok_or(fault)? {
                (_, []) => self.enter(ScanState::Top),
                (_, rest) => self.enter(ScanState::Mark(rest)),
            },
            _ => Err(fault),
        }
    }

    fn enter(&mut self, state: ScanState) -> Result<ByteRole, Fault> {
        self.state = state;
        Ok(ByteRole::Inside)
    }

    fn begin(&mut self, byte: u8) -> Result<ByteRole, Fault> {
        let fault = self.expected();
        let state = match byte {
            b'{' | b'[' if self.frames.len() >= MAX_DEPTH => return Err("fewer open containers"),
            b'{' => ScanState::KeyOrEnd,
            b'[' => ScanState::ValueOrEnd,
            b'"' => ScanState::String,
            b'-' => ScanState::Number(Number::Minus),
            b'0' => ScanState::Number(Number::Zero),
            b'1'..=b'9' => ScanState::Number(Number::Integer),
            b't' => ScanState::Literal(b"rue"),
            b'f' => ScanState::Literal(b"alse"),
            b'n' => ScanState::Literal(b"ull"),
            b'N' => ScanState::Literal(b"aN"),
            b'I' => ScanState::Literal(b"nfinity"),
            _ => return Err(fault),
        };
        self.mask = self.value_mask();
        if matches!(byte, b'{' | b'[') {
            self.frames.push(OpenValue { array: byte == b'[', mask: self.mask });
        }
        self.state = state;
        Ok(ByteRole::Begin)
    }

    /// Returns the rules that match the value that starts here.
    fn value_mask(&self) -> Mask {
        match self.frames.last() {
            None => self.matcher.all(),
            Some(OpenValue { mask: 0, .. }) => 0,
            Some(frame) if frame.array => self.matcher.each(frame.mask, self.frames.len() - 1),
            Some(frame) => self.matcher.key(frame.mask, self.frames.len() - 1, &self.key),
        }
    }

    /// Processes the next byte of a string.
    fn string(&mut self, byte: u8) -> Result<ByteRole, Fault> {
        let next = match (self.state, byte) {
            (ScanState::String, b'"') if self.in_key => {
                self.in_key = false;
                ScanState::Colon
            }
            (ScanState::String, b'"') => return self.end_value(),
            (ScanState::String, b'\\') => ScanState::Escape,
            (ScanState::String, 0..0x20) => return Err("an escaped control character"),
            (ScanState::String, 0x20..0x80) => ScanState::String,
            (ScanState::String, lead) => after_lead(lead).ok_or("UTF-8")?,
            (ScanState::Escape, b'u') => ScanState::Unicode(4),
            (ScanState::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                ScanState::String
            }
            (ScanState::Unicode(0 | 1), digit) if digit.is_ascii_hexdigit() => ScanState::String,
            (ScanState::Unicode(missing), digit) if digit.is_ascii_hexdigit() => {
                ScanState::Unicode(missing - 1)
            }
            (ScanState::Utf8 { low, high, more }, byte) if (low..=high).contains(&byte) => {
                match more {
                    0 => ScanState::String,
                    _ => ScanState::Utf8 { low: 0x80, high: 0xbf, more: more - 1 },
                }
            }
            _ => return Err(self.expected()),
        };
        self.enter(next)
    }

    fn end_or_continue(&mut self, byte: u8) -> Result<ByteRole, Fault> {
        match byte {
            b',' if self.in_array() => self.enter(ScanState::Value),
            b',' => self.enter(ScanState::Key),
            b']' if self.in_array() => self.close(),
            b'}' if !self.in_array() => self.close(),
            _ => Err(self.expected()),
        }
    }

    fn close(&mut self) -> Result<ByteRole, Fault> {
        self.frames.pop();
        self.end_value()
    }

    fn end_value(&mut self) -> Result<ByteRole, Fault> {
        self.state = self.between();
        Ok(ByteRole::End)
    }

    /// Returns the state after a value.
    fn between(&self) -> ScanState {
        if self.frames.is_empty() { ScanState::Top } else { ScanState::CommaOrEnd }
    }

    fn in_array(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.array)
    }

    /// Returns true if the value that just began is a container, which is already on the stack.
    pub(super) fn is_container(&self) -> bool {
        matches!(self.state, ScanState::ValueOrEnd | ScanState::KeyOrEnd)
    }
}

/// Returns the bytes that may follow the first byte of a character (table 3-7 of the Unicode
/// standard).
fn after_lead(lead: u8) -> Option<ScanState> {
    let (low, high, more) = match lead {
        0xc2..=0xdf => (0x80, 0xbf, 0),
        0xe0 => (0xa0, 0xbf, 1),
        0xed => (0x80, 0x9f, 1),
        0xe1..=0xef => (0x80, 0xbf, 1),
        0xf0 => (0x90, 0xbf, 2),
        0xf1..=0xf3 => (0x80, 0xbf, 2),
        0xf4 => (0x80, 0x8f, 2),
        _ => return None,
    };
    Some(ScanState::Utf8 { low, high, more })
}

impl Number {
    /// Returns the state of the number after `byte`, if the number continues with it.
    fn after(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Minus, b'0') => Some(Self::Zero),
            (Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Some(Self::Integer),
            (Self::Zero | Self::Integer, b'.') => Some(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Some(Self::Exponent),
            (Self::Exponent, b'+' | b'-') => Some(Self::Sign),
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Some(Self::Power),
            _ => None,
        }
    }
}
