//! Writes the content of a context in its original form: messages, one a line, and the transcript.

use std::io::Write;

use bytes::Bytes;

use super::{Context, MessageEntry, Role, Transcript};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSource};

/// Writes the messages of `agent` with wanted roles to `out` as JSON Lines, and returns their
/// number.
///
/// A one-line record is written byte for byte. A record over several lines only loses the white
/// space between its tokens.
///
/// # Errors
/// `InvalidInput` for a bad agent name, `Io` if writing to `out` fails.
pub fn export_messages(
    source: &dyn ObjectSource,
    context: &Context,
    agent: &str,
    is_wanted: &dyn Fn(Role) -> bool,
    out: &mut dyn Write,
) -> Result<u64> {
    let list = context.messages(source, agent)?;
    let mut written = 0;
    for item in list.iter(source, 0..list.len()) {
        let entry = MessageEntry::from_item(&item?)?;
        if !is_wanted(entry.role) {
            continue;
        }
        written += 1;
        let bytes = source.read_as(Kind::Blob, &entry.blob)?;
        let mut line = one_line(&bytes);
        line.push(b'\n');
        out.write_all(&line).map_err(|error| Error::io("write the messages", error))?;
    }
    Ok(written)
}

/// Writes the transcript of `context` to `out`, byte for byte, and returns its size.
///
/// # Errors
/// `NotFound` if the context was not imported from a transcript, `Io` if writing to `out` fails.
pub fn export_source(
    source: &dyn ObjectSource,
    context: &Context,
    out: &mut dyn Write,
) -> Result<u64> {
    let transcript = Transcript::open(source, context)?;
    if transcript.is_empty() {
        return Err(Error::not_found(
            "this snapshot was not imported from a transcript: it has no source to export",
        ));
    }
    let mut written = 0;
    for piece in transcript.pieces(source, 0..transcript.len()) {
        let piece = piece?;
        let bytes = piece.bytes(source)?;
        for part in [&bytes, &piece.suffix] {
            out.write_all(part).map_err(|error| Error::io("write the transcript", error))?;
            written += part.len() as u64;
        }
    }
    Ok(written)
}

/// Returns a JSON value on one line. Bytes without a line ending stay unchanged.
pub(super) fn one_line(record: &Bytes) -> Vec<u8> {
    if !record.contains(&b'\n') && !record.contains(&b'\r') {
        return record.to_vec();
    }
    compact_json(record)
}

/// Removes the white space between tokens of JSON, and keeps everything else.
pub fn compact_json(json: &[u8]) -> Vec<u8> {
    let mut compact = Vec::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for &byte in json {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
        } else if byte.is_ascii_whitespace() {
            continue;
        } else {
            in_string = byte == b'"';
        }
        compact.push(byte);
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_over_several_lines_becomes_one_and_means_the_same() {
        let record = Bytes::from_static(b"{\n  \"a b\": \"x \\\" \\\\\",\r\n\t\"c\": [1, 2]\n}");
        let line = one_line(&record);
        assert_eq!(line, br#"{"a b":"x \" \\","c":[1,2]}"#);
        let parse = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        assert_eq!(parse(&line), parse(&record));
    }

    #[test]
    fn a_record_on_one_line_stays_as_it_is() {
        let record = Bytes::from_static(b"{ \"a\" :  1 }");
        assert_eq!(one_line(&record), record);
    }
}
