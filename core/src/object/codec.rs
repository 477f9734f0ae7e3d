//! Canonical CBOR: one writer, and a reader that accepts only the writer's output.
//!
//! RFC 8949 section 4.2.1, narrowed: unsigned integers, byte strings, text and arrays of definite
//! length, each with the shortest head; no floats, tags, maps, negative numbers or indefinite
//! lengths. Structures are arrays with fixed positions, so there is no key order to get wrong.
//! `ciborium` neither writes canonically nor refuses what is not; this file is the only user of
//! its low-level half. Specified in `format-spec/object.md`.
//!
//! Reading borrows: a byte string is a slice of the input, so a declared length never allocates.

use ciborium_ll::{Encoder as LowEncoder, Header};

use crate::error::{Error, Result};

/// Writes canonical CBOR into a growing buffer. Cannot fail.
#[derive(Debug, Default)]
pub struct Writer {
    buffer: Vec<u8>,
}

impl Writer {
    /// Creates an empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins an array of `len` items, which must follow.
    pub fn array(&mut self, len: usize) -> &mut Self {
        self.head(Header::Array(Some(len)))
    }

    /// Writes an unsigned integer.
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.head(Header::Positive(value))
    }

    /// Writes a signed integer, zigzag-coded as an unsigned one: 0, -1, 1, -2 become 0, 1, 2, 3.
    pub fn int(&mut self, value: i64) -> &mut Self {
        self.uint(((value << 1) ^ (value >> 63)).cast_unsigned())
    }

    /// Writes a byte string.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.head(Header::Bytes(Some(value.len())));
        self.buffer.extend_from_slice(value);
        self
    }

    /// Writes a text string.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.head(Header::Text(Some(value.len())));
        self.buffer.extend_from_slice(value.as_bytes());
        self
    }

    /// Returns the written bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.buffer
    }

    fn head(&mut self, header: Header) -> &mut Self {
        let pushed = LowEncoder::from(&mut self.buffer).push(header);
        debug_assert!(pushed.is_ok(), "writing into a vector cannot fail");
        self
    }
}

/// Reads canonical CBOR from a slice; every deviation is an error with its offset.
#[derive(Debug)]
pub struct Reader<'a> {
    /// The subject of error messages: a kind or a file.
    what: &'static str,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; `what` names them in errors.
    #[must_use]
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes, offset: 0 }
    }

    /// Reads the head of an array of exactly `len` items.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn array(&mut self, len: u64) -> Result<()> {
        let at = self.offset;
        match self.head("an array")? {
            (MAJOR_ARRAY, found) if found == len => Ok(()),
            (MAJOR_ARRAY, found) => {
                Err(self.expected(at, &format!("an array of {len}"), &format!("one of {found}")))
            }
            (major, _) => Err(self.expected(at, "an array", major_name(major))),
        }
    }

    /// Reads the head of an array of at most `max` items, and returns the length.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn array_up_to(&mut self, max: u64) -> Result<u64> {
        let at = self.offset;
        match self.head("an array")? {
            (MAJOR_ARRAY, len) if len <= max => Ok(len),
            (MAJOR_ARRAY, len) => {
                Err(self.expected(at, &format!("at most {max} items"), &len.to_string()))
            }
            (major, _) => Err(self.expected(at, "an array", major_name(major))),
        }
    }

    /// Reads an unsigned integer.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn uint(&mut self) -> Result<u64> {
        let at = self.offset;
        match self.head("an integer")? {
            (MAJOR_UINT, value) => Ok(value),
            (major, _) => Err(self.expected(at, "an unsigned integer", major_name(major))),
        }
    }

    /// Reads an unsigned integer of at most `max`.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn uint_up_to(&mut self, max: u64) -> Result<u64> {
        let at = self.offset;
        match self.uint()? {
            value if value <= max => Ok(value),
            value => Err(self.expected(at, &format!("at most {max}"), &value.to_string())),
        }
    }

    /// Reads a signed integer, see [`Writer::int`].
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn int(&mut self) -> Result<i64> {
        let coded = self.uint()?;
        Ok((coded >> 1).cast_signed() ^ -(coded & 1).cast_signed())
    }

    /// Reads a byte string, as a slice of the input.
    ///
    /// # Errors
    /// `Corrupt` for anything else, or if the input ends inside it.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let at = self.offset;
        match self.head("bytes")? {
            (MAJOR_BYTES, len) => self.take(at, len),
            (major, _) => Err(self.expected(at, "a byte string", major_name(major))),
        }
    }

    /// Reads a text string, as a slice of the input.
    ///
    /// # Errors
    /// `Corrupt` for anything else, if the input ends inside it, or if it is not UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        let at = self.offset;
        let bytes = match self.head("text")? {
            (MAJOR_TEXT, len) => self.take(at, len)?,
            (major, _) => return Err(self.expected(at, "text", major_name(major))),
        };
        std::str::from_utf8(bytes)
            .map_err(|source| self.expected(at, "UTF-8 text", "invalid UTF-8").with_source(source))
    }

    /// Ends reading; no bytes may remain.
    ///
    /// # Errors
    /// `Corrupt` if bytes remain.
    pub fn finish(self) -> Result<()> {
        match self.bytes.len().saturating_sub(self.offset) {
            0 => Ok(()),
            left => Err(self.expected(self.offset, "the end", &format!("{left} more bytes"))),
        }
    }

    /// Returns an error at the current offset, for rules above CBOR.
    #[must_use]
    pub fn refuse(&self, expected: &str, found: &str) -> Error {
        self.expected(self.offset, expected, found)
    }

    /// Like [`Reader::refuse`], if the found value has no short name.
    #[must_use]
    pub fn malformed(&self, expected: &str) -> Error {
        Error::malformed(format_args!("{} at byte {}", self.what, self.offset), expected)
    }

    /// Reads one head: major type and argument. Refuses any form but the shortest.
    fn head(&mut self, wanted: &str) -> Result<(u8, u64)> {
        let at = self.offset;
        let Some((&first, rest)) = self.bytes.get(at..).and_then(<[u8]>::split_first) else {
            return Err(self.expected(at, wanted, "the end"));
        };
        let (major, info) = (first >> 5, first & 0x1f);
        let (argument, width, least) = match info {
            0..=23 => (u64::from(info), 0, 0),
            24 => (self.argument::<1>(at, rest)?, 1, 24),
            25 => (self.argument::<2>(at, rest)?, 2, 1 << 8),
            26 => (self.argument::<4>(at, rest)?, 4, 1 << 16),
            27 => (self.argument::<8>(at, rest)?, 8, 1 << 32),
            _ => return Err(self.expected(at, wanted, "an indefinite or reserved length")),
        };
        if argument < least {
            return Err(self.expected(at, "the shortest head", "a longer head"));
        }
        self.offset = at + 1 + width;
        Ok((major, argument))
    }

    fn argument<const N: usize>(&self, at: usize, rest: &[u8]) -> Result<u64> {
        rest.first_chunk::<N>()
            .map(|bytes| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
            .ok_or_else(|| self.expected(at, "a whole head", "the end"))
    }

    fn take(&mut self, at: usize, len: u64) -> Result<&'a [u8]> {
        let taken = usize::try_from(len)
            .ok()
            .and_then(|len| self.offset.checked_add(len))
            .and_then(|end| self.bytes.get(self.offset..end));
        match taken {
            Some(slice) => {
                self.offset += slice.len();
                Ok(slice)
            }
            None => Err(self.expected(at, &format!("{len} bytes"), "the end")),
        }
    }

    fn expected(&self, at: usize, expected: &str, found: &str) -> Error {
        Error::corrupt(format_args!("{} at byte {at}", self.what), expected, found)
    }
}

const MAJOR_UINT: u8 = 0;
const MAJOR_BYTES: u8 = 2;
const MAJOR_TEXT: u8 = 3;
const MAJOR_ARRAY: u8 = 4;

fn major_name(major: u8) -> &'static str {
    match major {
        MAJOR_UINT => "an unsigned integer",
        1 => "a negative integer",
        MAJOR_BYTES => "a byte string",
        MAJOR_TEXT => "text",
        MAJOR_ARRAY => "an array",
        5 => "a map",
        6 => "a tag",
        _ => "a simple value or float",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_deviation_from_the_canonical_form_is_refused() {
        let cases: &[(&[u8], &str)] = &[
            (&[0x18, 0x01], "the shortest head"),
            (&[0x19, 0x00, 0xff], "the shortest head"),
            (&[0x1b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], "the shortest head"),
            (&[0x9f, 0xff], "indefinite"),
            (&[0x20], "negative"),
            (&[0xf9, 0x3c, 0x00], "float"),
            (&[0xc1, 0x00], "a tag"),
            (&[0xa0], "a map"),
            (&[0x1b, 0, 0], "the end"),
            (&[], "the end"),
        ];
        for (bytes, message) in cases {
            let error = Reader::new("test", bytes).uint().unwrap_err();
            assert!(error.to_string().contains(message), "{bytes:02x?}: {error}");
        }
    }

    #[test]
    fn a_huge_declared_length_is_an_error_and_allocates_nothing() {
        let bytes = [0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(Reader::new("test", &bytes).bytes().is_err());
    }

    #[test]
    fn bytes_after_the_end_are_refused() {
        let mut reader = Reader::new("test", &[0x01, 0x02]);
        reader.uint().unwrap();
        assert!(reader.finish().unwrap_err().to_string().contains("1 more bytes"));
    }

    turntree_properties::properties! {
        #[test]
        fn what_is_written_is_read_back(n: u64, i: i64, bytes: Vec<u8>, text: String) {
            let mut writer = Writer::new();
            writer.array(4).uint(n).int(i).bytes(&bytes).text(&text);
            let coded = writer.finish();
            let mut reader = Reader::new("test", &coded);
            reader.array(4).unwrap();
            prop_assert_eq!(reader.uint().unwrap(), n);
            prop_assert_eq!(reader.int().unwrap(), i);
            prop_assert_eq!(reader.bytes().unwrap(), &bytes[..]);
            prop_assert_eq!(reader.text().unwrap(), &text[..]);
            reader.finish().unwrap();
        }

        #[test]
        fn an_independent_decoder_agrees(n: u64, bytes: Vec<u8>, text: String) {
            let mut writer = Writer::new();
            writer.array(3).uint(n).bytes(&bytes).text(&text);
            let value: ciborium::Value = ciborium::from_reader(&writer.finish()[..]).unwrap();
            let expected = ciborium::Value::Array(vec![n.into(), bytes.into(), text.into()]);
            prop_assert_eq!(value, expected);
        }

        #[test]
        fn an_accepted_head_is_the_one_that_would_be_written(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut reader = Reader::new("test", &bytes);
            if let Ok(value) = reader.uint() {
                let mut writer = Writer::new();
                writer.uint(value);
                prop_assert_eq!(writer.finish(), &bytes[..reader.offset]);
            }
        }
    }
}
