//! Splits JSON documents into pieces while reading them: the elements that a format names, and the
//! trivia between them.
//!
//! A transcript in one JSON document may have any size, so it is never read whole. [`Document`]
//! scans it byte by byte and splits it by the format's [`Rules`]. Each matching value is a
//! [`PieceKind::Record`] of exactly its bytes, so equal messages of two files are equal blobs, even
//! if the documents around them differ. The bytes in between are [`PieceKind::Trivia`]. The
//! concatenation of the bytes and suffixes of all pieces is the file. Memory holds one piece and
//! one read, so it is bounded by the largest record, not by the file.
//!
//! ```text
//! {"id": "s1", "messages": [   {"role": "user"}   ,\n   {"role": "assistant"}   ]}
//! '-- trivia, field id --------'  '-- record -----'  '--'  '-- record ----------'  '- trivia
//!                                                  suffix of the record before
//! ```
//!
//! A file may hold several documents, one per line or concatenated. If a document is broken (bad
//! JSON, bad UTF-8, a truncated file), the previous pieces are kept, and the following bytes are
//! [`PieceKind::Damaged`], up to the next line that starts with `{`. There a new document starts,
//! or the next element if the broken document is an array. A record with an error is damaged from
//! its first byte. A damaged piece is empty if bytes are only missing.
//!
//! If the records are elements of an array, an error damages only its element if the end of that
//! element can be found: the bad byte is in a string, or the next element begins a line with the
//! same indentation as the damaged one.
//!
//! ```
//! use turntree_exchange::document::{Document, Rules};
//! use turntree_exchange::PieceKind;
//!
//! static RULES: Rules = Rules { records: &["messages[*]"], fields: &["id"] };
//! let file = br#"{"id": "s1", "messages": [{"n": 1}, {"n": 2}]}"#;
//! let pieces: Vec<_> = Document::new(file.as_slice(), &RULES).collect::<Result<_, _>>()?;
//! assert_eq!(pieces[0].kind, PieceKind::Trivia { fields: vec![("id", 7..11)] });
//! assert_eq!((&*pieces[1].bytes, &*pieces[1].suffix), (&br#"{"n": 1}"#[..], &b", "[..]));
//! assert_eq!(pieces[3].bytes, "]}");
//! # Ok::<(), turntree::Error>(())
//! ```

mod rules;
mod scanner;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::ops::Range;

use bytes::BytesMut;

pub use rules::Rules;
use rules::{Matcher, PathTarget};
use scanner::{ByteRole, Scanner};
use turntree::error::{Error, Result};

use super::piece::{Piece, PieceKind};
use super::unpack::read_error;

/// Maximum number of open containers.
pub const MAX_DEPTH: usize = 512;

/// Longest piece of trivia or damage in bytes. Longer ones are split.
pub const MAX_TRIVIA_BYTES: usize = 1 << 20;

/// Longest field value that trivia reports, in bytes.
pub const MAX_FIELD_BYTES: usize = 64 << 10;

/// Longest separator that is stored next to a record, in bytes. A longer one is trivia.
pub const MAX_SUFFIX_BYTES: usize = 64;

/// Longest record in bytes.
pub const MAX_RECORD_BYTES: usize = 256 << 20;

/// Bytes per read.
const READ_BYTES: usize = 64 << 10;

/// The pieces of a file of JSON documents, in order. Ends after the first error.
///
/// An item is `Err` with `LimitExceeded` and the line for a record over [`MAX_RECORD_BYTES`], and
/// with `Io` if the input fails.
#[derive(Debug)]
pub struct Document<R> {
    input: R,
    /// The buffer for reads.
    read: Box<[u8]>,
    /// True at the end of the input.
    ended: bool,
    /// Bytes that were read and are not in a piece yet.
    buffer: BytesMut,
    /// The length of the scanned part of `buffer`.
    scanned: usize,
    scanner: Scanner,
    mode: Mode,
    /// Fields of the current trivia.
    fields: Vec<(&'static str, Range<usize>)>,
    /// A field whose value is not complete.
    open_field: Option<OpenField>,
    /// The offset in the file and the line of the start of `buffer`, and the offset of that line.
    offset: u64,
    line: u64,
    line_start: u64,
}

/// The role of the bytes at the start of the buffer.
#[derive(Debug)]
enum Mode {
    Trivia,
    /// A record that ends when `depth` containers are open.
    Record {
        path: &'static str,
        depth: usize,
        /// The number of bytes before it on its line, if it is an element of an array.
        indent: Option<usize>,
    },
    /// A record with a bad byte in a string, scanned to its end like a whole record.
    Broken {
        depth: usize,
        indent: Option<usize>,
        reason: String,
    },
    /// A complete broken record, of which `left` bytes are not yet returned.
    Draining {
        left: usize,
        reason: String,
    },
    /// A complete record of `length` bytes, and separators after it.
    Separator {
        path: &'static str,
        length: usize,
    },
    Damaged {
        reason: String,
        /// True if scanning continues with the next byte, because bytes are only missing.
        is_gap: bool,
        /// The depth of the array with the damaged element, and the number of bytes before the
        /// element on its line.
        element: Option<(usize, usize)>,
    },
    Done,
}

#[derive(Debug)]
struct OpenField {
    path: &'static str,
    start: usize,
    depth: usize,
}

impl<R: Read> Document<R> {
    /// Reads documents from `input` and splits them by `rules`.
    #[must_use]
    pub fn new(input: R, rules: &Rules) -> Self {
        Self {
            input,
            read: vec![0; READ_BYTES].into_boxed_slice(),
            ended: false,
            buffer: BytesMut::new(),
            scanned: 0,
            scanner: Scanner::new(Matcher::new(rules)),
            mode: Mode::Trivia,
            fields: Vec::new(),
            open_field: None,
            offset: 0,
            line: 1,
            line_start: 0,
        }
    }

    /// Returns the next piece, or `None` at the end of the file.
    fn advance(&mut self) -> Result<Option<Piece>> {
        loop {
            if matches!(self.mode, Mode::Done) {
                return Ok(None);
            }
            let piece = self.scan()?;
            if piece.is_some() {
                return Ok(piece);
            }
            if self.ended {
                return Ok(self.end());
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        let read = loop {
            match self.input.read(&mut self.read) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let length = read.map_err(|source| {
            let position = self.offset + self.buffer.len() as u64;
            read_error(format!("read the transcript at byte {position}"), source)
        })?;
        self.buffer.extend_from_slice(self.read.get(..length).unwrap_or_default());
        self.ended = length == 0;
        Ok(())
    }

    /// Scans until a piece is complete or the buffer is used up.
    fn scan(&mut self) -> Result<Option<Piece>> {
        loop {
            if matches!(self.mode, Mode::Damaged { .. }) {
                return Ok(self.damage());
            }
            if matches!(self.mode, Mode::Draining { .. }) {
                return Ok(self.drain_broken());
            }
            self.scanned += self.skip_plain();
            let full = self.check_limits()?;
            if full.is_some() {
                return Ok(full);
            }
            let Some(byte) = self.buffer.get(self.scanned).copied() else { return Ok(None) };
            let separator = matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n');
            let piece = if self.scanner.ends_number(Some(byte)) {
                self.end_value();
                None
            } else if matches!(self.mode, Mode::Separator { .. }) && !separator {
                self.finish_record()
            } else {
                self.take(byte)
            };
            if piece.is_some() {
                return Ok(piece);
            }
        }
    }

    /// Returns the number of plain string characters at the scan position, limited by the room in
    /// the piece.
    fn skip_plain(&mut self) -> usize {
        let room = match self.mode {
            Mode::Trivia => MAX_TRIVIA_BYTES,
            _ => usize::MAX,
        };
        let end = room.min(self.buffer.len());
        let plain = self.buffer.get(self.scanned..end).unwrap_or_default();
        self.scanner.skip_plain(plain)
    }

    /// Splits trivia at its limit, ends a separator that is too long, and rejects a record that is
    /// too long.
    fn check_limits(&mut self) -> Result<Option<Piece>> {
        match self.mode {
            Mode::Trivia => {
                self.open_field.take_if(|field| self.scanned - field.start >= MAX_FIELD_BYTES);
                if self.scanned < MAX_TRIVIA_BYTES {
                    return Ok(None);
                }
                let end = self.open_field.as_ref().map_or(self.scanned, |field| field.start);
                Ok(self.glue(end))
            }
            Mode::Separator { length, .. } if self.scanned - length > MAX_SUFFIX_BYTES => {
                Ok(self.finish_record())
            }
            Mode::Record { .. } | Mode::Broken { .. } if self.scanned > MAX_RECORD_BYTES => {
                Err(Error::limit(
                    format_args!("bytes of the value on line {}", self.line),
                    MAX_RECORD_BYTES as u64,
                    self.scanned as u64,
                ))
            }
            _ => Ok(None),
        }
    }

    /// Feeds the byte at the scan position to the scanner.
    fn take(&mut self, byte: u8) -> Option<Piece> {
        match self.scanner.feed(byte) {
            Err(expected) => {
                return match self.mode {
                    Mode::Separator { .. } => self.finish_record(),
                    Mode::Record { .. } | Mode::Broken { .. } if self.scanner.is_in_text(byte) => {
                        self.skip_bad_byte(expected, byte);
                        None
                    }
                    _ => self.fault(expected, Some(byte)),
                };
            }
            Ok(ByteRole::Begin) => {
                let piece = self.begin_value();
                self.scanned += 1;
                return piece;
            }
            Ok(ByteRole::End) => {
                self.scanned += 1;
                self.end_value();
                return self.finish_broken();
            }
            Ok(ByteRole::Inside) => self.scanned += 1,
        }
        None
    }

    /// Continues a record after a bad byte in a string, as a broken record.
    fn skip_bad_byte(&mut self, expected: &str, byte: u8) {
        if let Mode::Record { depth, indent, .. } = self.mode {
            let reason = self.reason(expected, Some(byte));
            self.mode = Mode::Broken { depth, indent, reason };
        }
        // A byte that may end a string, or start a character, is scanned again.
        self.scanned += usize::from(self.scanner.skip_in_text());
    }

    /// Returns the broken record at the front if it ends at the scan position.
    fn finish_broken(&mut self) -> Option<Piece> {
        let Mode::Broken { depth, reason, .. } = &mut self.mode else { return None };
        if *depth != self.scanner.depth() {
            return None;
        }
        self.mode = Mode::Draining { left: self.scanned, reason: std::mem::take(reason) };
        self.drain_broken()
    }

    /// Returns the next part of a broken record.
    fn drain_broken(&mut self) -> Option<Piece> {
        let Mode::Draining { left, reason } = &mut self.mode else { return None };
        let length = MAX_TRIVIA_BYTES.min(*left);
        *left -= length;
        let kind = PieceKind::Damaged { reason: reason.clone() };
        if *left == 0 {
            self.mode = Mode::Trivia;
        }
        Some(self.piece(kind, length, 0))
    }

    /// Handles the start of a value at the scan position.
    fn begin_value(&mut self) -> Option<Piece> {
        if !matches!(self.mode, Mode::Trivia) {
            return None;
        }
        let (path, target) = self.scanner.rule()?;
        let depth = self.scanner.depth() - usize::from(self.scanner.is_container());
        match target {
            PathTarget::Record => {
                self.open_field = None;
                let (_, column) = self.line_and_column();
                let indent = usize::try_from(column - 1).ok().filter(|_| self.scanner.is_element());
                let glue = self.glue(self.scanned);
                self.scanner.disable_rules();
                self.mode = Mode::Record { path, depth, indent };
                glue
            }
            PathTarget::Split => {
                self.open_field = None;
                let glue = self.glue(self.scanned);
                self.fields.push((path, 0..0));
                glue
            }
            PathTarget::Field => {
                let start = self.scanned;
                self.open_field.get_or_insert(OpenField { path, start, depth });
                None
            }
        }
    }

    /// Handles the end of a value before the scan position.
    fn end_value(&mut self) {
        let depth = self.scanner.depth();
        match self.mode {
            Mode::Record { path, depth: cut, .. } if cut == depth => {
                self.mode = Mode::Separator { path, length: self.scanned };
            }
            Mode::Trivia => {
                if let Some(field) = self.open_field.take_if(|field| field.depth == depth) {
                    self.fields.push((field.path, field.start..self.scanned));
                }
            }
            _ => {}
        }
    }

    /// Returns the record at the start of the buffer with its separators, which end at the scan
    /// position.
    fn finish_record(&mut self) -> Option<Piece> {
        let Mode::Separator { path, length } = self.mode else { return None };
        let separator = self.scanned.saturating_sub(length);
        let suffix = if separator <= MAX_SUFFIX_BYTES { separator } else { 0 };
        self.mode = Mode::Trivia;
        Some(self.piece(PieceKind::Record { path }, length, suffix))
    }

    /// Returns the start of the buffer up to `end` as trivia, if it is not empty.
    fn glue(&mut self, end: usize) -> Option<Piece> {
        if end == 0 {
            return None;
        }
        let fields = std::mem::take(&mut self.fields);
        if let Some(field) = &mut self.open_field {
            field.start -= end;
        }
        Some(self.piece(PieceKind::Trivia { fields }, end, 0))
    }

    /// Handles an error at the scan position: an unexpected byte, or the end of the file.
    fn fault(&mut self, expected: &str, found_byte: Option<u8>) -> Option<Piece> {
        let (_, column) = self.line_and_column();
        let (mut reason, mut element) = (self.reason(expected, found_byte), None);
        match &mut self.mode {
            Mode::Record { depth, indent, .. } => element = indent.map(|indent| (*depth, indent)),
            Mode::Broken { depth, indent, reason: first } => {
                element = indent.map(|indent| (*depth, indent));
                reason = std::mem::take(first);
            }
            _ => {}
        }
        self.open_field = None;
        let is_trivia = matches!(self.mode, Mode::Trivia);
        let glue = if is_trivia { self.glue(self.scanned) } else { None };
        let is_gap = is_trivia && found_byte == Some(b'{') && column == 1;
        self.mode = Mode::Damaged { reason, is_gap, element };
        glue
    }

    /// Returns the text of an error at the scan position.
    fn reason(&self, expected: &str, found_byte: Option<u8>) -> String {
        let found = match found_byte {
            None => String::from("the end of the file"),
            Some(byte @ 0x21..0x7f) => format!("'{}'", char::from(byte)),
            Some(byte) => format!("byte 0x{byte:02x}"),
        };
        let (line, column) = self.line_and_column();
        format!("line {line}, column {column}: expected {expected}, found {found}")
    }

    /// Returns the damaged bytes up to the start of the next document, once it is known.
    fn damage(&mut self) -> Option<Piece> {
        let Mode::Damaged { reason, is_gap, element } = &self.mode else { return None };
        let kind = PieceKind::Damaged { reason: reason.clone() };
        // Elements at the start of a line are found like documents.
        let element = element.filter(|(_, indent)| *indent > 0);
        if let Some((depth, indent)) = element
            && let Some(end) = self.next_element(indent)
        {
            self.scanner.resume_at(depth);
            self.mode = Mode::Trivia;
            self.scanned = 0;
            return Some(self.piece(kind, end, 0));
        }
        let mut pairs = self.buffer.iter().zip(self.buffer.iter().skip(1)).take(MAX_TRIVIA_BYTES);
        let line_end = pairs.position(|pair| pair == (&b'\n', &b'{'));
        let end = if *is_gap { Some(0) } else { line_end.map(|line_end| line_end + 1) };
        if let Some(end) = end {
            self.scanner.resume();
            self.mode = Mode::Trivia;
            self.scanned = 0;
            return Some(self.piece(kind, end, 0));
        }
        if self.buffer.len() <= MAX_TRIVIA_BYTES {
            return None;
        }
        // Do not split a line that may begin an element.
        let (near, tail) = (self.buffer.get(..MAX_TRIVIA_BYTES), element.map_or(0, |it| it.1 + 1));
        let near = near.unwrap_or_default().iter().rposition(|byte| *byte == b'\n');
        let end = near.filter(|at| *at > 0 && at + tail >= MAX_TRIVIA_BYTES);
        Some(self.piece(kind, end.unwrap_or(MAX_TRIVIA_BYTES), 0))
    }

    /// Returns the end of the damage before the next element of its array, which begins a line
    /// after `indent` bytes of spaces or tabs.
    fn next_element(&self, indent: usize) -> Option<usize> {
        let near = self.buffer.get(..MAX_TRIVIA_BYTES.min(self.buffer.len()))?;
        let begins = |end: &usize| {
            let line = self.buffer.get(end + 1..end + 1 + indent);
            let is_blank =
                line.is_some_and(|line| line.iter().all(|it| matches!(it, b' ' | b'\t')));
            is_blank && self.buffer.get(end + 1 + indent) == Some(&b'{')
        };
        memchr::memchr_iter(b'\n', near).find(begins).map(|end| end + 1 + indent)
    }

    /// Returns the remaining pieces after the end of the input.
    fn end(&mut self) -> Option<Piece> {
        if self.scanner.ends_number(None) {
            self.end_value();
        }
        if let Mode::Separator { .. } = self.mode {
            return self.finish_record();
        }
        if let Mode::Damaged { reason, .. } = &self.mode {
            let kind = PieceKind::Damaged { reason: reason.clone() };
            self.mode = Mode::Done;
            return Some(self.piece(kind, self.buffer.len(), 0));
        }
        if self.scanner.is_at_top() {
            self.mode = Mode::Done;
            return self.glue(self.buffer.len());
        }
        let expected = self.scanner.expected();
        self.fault(expected, None).or_else(|| self.end())
    }

    /// Takes a piece of `length` bytes and its suffix from the start of the buffer.
    fn piece(&mut self, kind: PieceKind, length: usize, suffix: usize) -> Piece {
        let bytes = self.buffer.split_to(length).freeze();
        let suffix = self.buffer.split_to(suffix).freeze();
        let piece =
            Piece { kind, bytes, suffix, offset: self.offset, line: self.line, original: None };
        for part in [&piece.bytes, &piece.suffix] {
            let ends = part.iter().filter(|byte| **byte == b'\n').count();
            self.line += ends as u64;
            if let Some(last) = part.iter().rposition(|byte| *byte == b'\n') {
                self.line_start = self.offset + last as u64 + 1;
            }
            self.offset += part.len() as u64;
        }
        self.scanned = self.scanned.saturating_sub(piece.bytes.len() + piece.suffix.len());
        piece
    }

    /// Returns the line and column (in bytes) of the scan position, counted from 1.
    fn line_and_column(&self) -> (u64, u64) {
        let scanned = self.buffer.get(..self.scanned).unwrap_or_default();
        let ends = scanned.iter().filter(|byte| **byte == b'\n').count() as u64;
        let start = match scanned.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => self.offset + last as u64 + 1,
            None => self.line_start,
        };
        (self.line + ends, self.offset + self.scanned as u64 - start + 1)
    }
}

impl<R: Read> Iterator for Document<R> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.advance();
        if piece.is_err() {
            self.mode = Mode::Done;
        }
        piece.transpose()
    }
}
