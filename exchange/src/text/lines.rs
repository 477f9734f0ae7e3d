//! Splits a stream of JSON lines into pieces, with one line in memory at a time.
//!
//! A record is a JSON object. The whitespace after it, including the line end, is its suffix. Other
//! whitespace, and a byte order mark at the start of a line, is trivia. Two records on one line (an
//! append that lost its line end) are two pieces. A damaged piece extends from the first byte that
//! is not JSON to the next whole record of its line, which `next_record` finds, or else to the end
//! of the line. The concatenation of the bytes and suffixes of all pieces is the file. The pieces
//! of a line depend only on this line, so splitting from the start of any line gives the same
//! pieces.

use std::io::{BufRead, Read};

use bytes::Bytes;
use turntree::error::{Error, Result};

use super::line_record::{is_space, leading_space, record_end};
use super::piece::{Piece, PieceKind, Pieces};
use super::torn_line::next_record;
use super::unpack::read_error;

/// Longest line in bytes.
pub const MAX_LINE_BYTES: u64 = 256 << 20;

/// Longest suffix in bytes. It is stored next to every record, so longer whitespace is trivia.
const MAX_SUFFIX_BYTES: usize = 16;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The pieces of a JSON Lines file. Ends after an error, which is `Io` if the input is unreadable
/// and `LimitExceeded` for a line over [`MAX_LINE_BYTES`].
#[derive(Debug)]
pub struct LineSplitter<R> {
    input: R,
    /// The unsplit rest of the current line, and the number of bytes before it.
    rest: Bytes,
    passed: usize,
    /// True if nothing of the current line has been split off.
    is_at_start: bool,
    /// The offset of the next piece.
    offset: u64,
    /// The number of the current line.
    line: u64,
    max_line_bytes: u64,
    ended: bool,
}

/// Splits `input`, for [`Records::split`](crate::Records::split).
pub(crate) fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(LineSplitter::new(input))
}

impl<R: BufRead> LineSplitter<R> {
    /// Splits `input` from its start.
    pub fn new(input: R) -> Self {
        Self {
            input,
            rest: Bytes::new(),
            passed: 0,
            is_at_start: false,
            offset: 0,
            line: 0,
            max_line_bytes: MAX_LINE_BYTES,
            ended: false,
        }
    }

    /// Reads the next line with its line end. Empty at the end of the input.
    fn read_line(&mut self) -> Result<Bytes> {
        self.line += 1;
        let mut line = Vec::new();
        (&mut self.input)
            .take(self.max_line_bytes + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| read_error(format!("read line {}", self.line), error))?;
        if line.len() as u64 > self.max_line_bytes {
            let what = format!("bytes of line {} at offset {}", self.line, self.offset);
            return Err(Error::limit(what, self.max_line_bytes, line.len() as u64));
        }
        Ok(line.into())
    }

    /// Splits the next piece off the current line, which must not be empty.
    fn cut(&mut self) -> Piece {
        let is_at_start = std::mem::take(&mut self.is_at_start);
        if is_at_start && self.rest.starts_with(BYTE_ORDER_MARK) {
            return self.take(glue(), BYTE_ORDER_MARK.len(), 0);
        }
        let space = leading_space(&self.rest);
        if space > 0 {
            return self.take(glue(), space, 0);
        }
        let (kind, end) = match record_end(&self.rest) {
            Ok(end) => (PieceKind::Record { path: "" }, end),
            Err(damage) => {
                let column = self.passed + damage.at + 1;
                let reason = format!("line {}, column {column}: {}", self.line, damage.what);
                let end = next_record(&self.rest, &damage).unwrap_or(self.rest.len());
                let torn = self.rest.get(..end).unwrap_or_default();
                let end = torn.iter().rposition(|byte| !is_space(byte)).map_or(end, |at| at + 1);
                (PieceKind::Damaged { reason }, end)
            }
        };
        let space = leading_space(self.rest.get(end..).unwrap_or_default());
        self.take(kind, end, if space <= MAX_SUFFIX_BYTES { space } else { 0 })
    }

    /// Takes the next `bytes` of the line and the suffix after them as a piece.
    fn take(&mut self, kind: PieceKind, bytes: usize, suffix: usize) -> Piece {
        let bytes = self.rest.split_to(bytes);
        let suffix = self.rest.split_to(suffix);
        let (offset, len) = (self.offset, bytes.len() + suffix.len());
        self.offset += len as u64;
        self.passed += len;
        Piece { kind, bytes, suffix, offset, line: self.line, original: None }
    }
}

impl<R: BufRead> Iterator for LineSplitter<R> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() && !self.ended {
            match self.read_line() {
                Ok(line) if line.is_empty() => self.ended = true,
                Ok(line) => (self.rest, self.passed, self.is_at_start) = (line, 0, true),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        if self.rest.is_empty() { None } else { Some(Ok(self.cut())) }
    }
}

fn glue() -> PieceKind {
    PieceKind::Trivia { fields: Vec::new() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::json;
    use super::*;

    fn pieces(input: &[u8]) -> Vec<Piece> {
        LineSplitter::new(input).map(|piece| piece.unwrap()).collect()
    }

    /// Returns every piece as a letter and its bytes, with its suffix after a bar.
    fn outline(input: &[u8]) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let outline = |piece: Piece| {
            let letter = match piece.kind {
                PieceKind::Record { .. } => 'R',
                PieceKind::Trivia { .. } => 'G',
                PieceKind::Damaged { .. } => 'D',
            };
            format!("{letter}{}|{}", text(&piece.bytes), text(&piece.suffix))
        };
        pieces(input).into_iter().map(outline).collect()
    }

    fn damage(input: &[u8]) -> String {
        let damaged = pieces(input).into_iter().find_map(|piece| match piece.kind {
            PieceKind::Damaged { reason } => Some(reason),
            _ => None,
        });
        damaged.unwrap()
    }

    #[test]
    fn records_exclude_line_ends() {
        assert_eq!(
            outline(b"{\"a\":1}\r\n\n  {\"b\":2} \n{\"c\":3}"),
            ["R{\"a\":1}|\r\n", "G\n|", "G  |", "R{\"b\":2}| \n", "R{\"c\":3}|"],
        );
        assert_eq!(outline(b"\xEF\xBB\xBF{}\n"), ["G\u{feff}|", "R{}|\n"]);
        let wide = format!("{{}}{}\n{{}}", " ".repeat(40));
        assert_eq!(outline(wide.as_bytes())[0], "R{}|");
    }

    #[test]
    fn two_records_on_one_line_are_two_pieces() {
        assert_eq!(outline(b"{\"a\":1}{\"b\":2}\n"), ["R{\"a\":1}|", "R{\"b\":2}|\n"]);
    }

    #[test]
    fn byte_order_marks_are_trivia_on_any_line() {
        let joined = b"{\"a\":1}\n\xEF\xBB\xBF{\"b\":2}\n";
        assert_eq!(outline(joined), ["R{\"a\":1}|\n", "G\u{feff}|", "R{\"b\":2}|\n"]);
    }

    #[test]
    fn damage_ends_with_its_line_and_reports_its_position() {
        let torn = b"{\"a\":1}\n{\"b\":tru}\n{\"c\":3}\n{\"d\":\"x";
        assert_eq!(
            outline(torn),
            ["R{\"a\":1}|\n", "D{\"b\":tru}|\n", "R{\"c\":3}|\n", "D{\"d\":\"x|"],
        );
        assert_eq!(damage(torn), "line 2, column 9: expected ident");
        assert_eq!(damage(b"{}{\"d\":\"x"), "line 1, column 9: EOF while parsing a string");
        assert_eq!(damage(b"{\"a\":\"\xff\"}\n"), "line 1, column 7: expected UTF-8");
        assert_eq!(damage(b"{}\n\0\0\0\n"), "line 2, column 1: expected a JSON object");
        assert_eq!(damage(b"17\n"), "line 1, column 1: expected a JSON object");
        let deep = format!("{{\"a\":{}{}}}\n", "[".repeat(9999), "]".repeat(9999));
        assert_eq!(damage(deep.as_bytes()), "line 1, column 1: nested deeper than 127");
    }

    #[test]
    fn read_errors_name_the_line() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("gone"))
            }
        }
        let input = std::io::BufReader::new(b"{}\n".chain(Broken));
        let results: Vec<_> = LineSplitter::new(input).collect();
        assert_eq!(results.len(), 2);
        assert_eq!(results[1].as_ref().unwrap_err().to_string(), "read line 2");
    }

    #[test]
    fn oversized_lines_are_rejected() {
        let endless = std::io::BufReader::new(b"{}\n".chain(std::io::repeat(b'{')));
        let mut lines = LineSplitter { max_line_bytes: 100, ..LineSplitter::new(endless) };
        assert!(lines.next().unwrap().is_ok());
        let error = lines.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), turntree::ErrorKind::LimitExceeded);
        assert!(error.to_string().starts_with("bytes of line 2 at offset 3: 101 is"), "{error}");
        assert!(lines.next().is_none());
    }

    turntree_properties::properties! {
        #[test]
        fn the_pieces_are_the_file(
            lines in proptest::collection::vec(
                prop_oneof![
                    Just(b"{\"a\":[1,{\"b\":\"\\ud800\"}]}".to_vec()),
                    Just(b"\xEF\xBB\xBF".to_vec()),
                    Just(b"{\"torn\":".to_vec()),
                    Just(b" \t\r".to_vec()),
                    Just(b"\n".to_vec()),
                    Just(b"\r\n".to_vec()),
                    proptest::collection::vec(any::<u8>(), 0..20),
                ],
                0..30,
            ),
        ) {
            let input = lines.concat();
            let mut joined = Vec::new();
            let trickle = std::io::BufReader::with_capacity(3, input.as_slice());
            for piece in LineSplitter::new(trickle).map(Result::unwrap) {
                prop_assert_eq!(piece.offset, joined.len() as u64);
                let newlines = joined.iter().filter(|byte| **byte == b'\n').count();
                prop_assert_eq!(piece.line, newlines as u64 + 1);
                joined.extend_from_slice(&piece.bytes);
                joined.extend_from_slice(&piece.suffix);
                if let PieceKind::Record { .. } = piece.kind {
                    prop_assert!(json::value(&piece.bytes).is_some_and(|value| value.is_object()));
                }
            }
            prop_assert_eq!(joined, input);
        }
    }
}
