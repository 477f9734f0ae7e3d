//! Frames: a request or an answer as JSON, followed by the bytes of an object.
//!
//! ```text
//! u32 bytes of the header | u32 bytes of the payload | header, one JSON object | payload
//! ```
//!
//! Numbers are little-endian. A header with another shape, unknown fields or an invalid key is
//! refused, and so is an unexpected payload.

use std::io::{self, Read, Write};
use std::ops::Range;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::transfer::remote::bucket::{Key, Listed, Page, Version};

/// Maximum bytes of a header: enough to list a thousand objects.
pub(crate) const MAX_HEADER_BYTES: u32 = 1 << 20;

/// Maximum bytes of a payload; larger ones are split.
pub(crate) const MAX_PAYLOAD_BYTES: u32 = 4 << 20;

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// [`Bucket::get`](crate::transfer::remote::Bucket::get).
    Get {
        /// The key.
        key: String,
        /// The range; `None` for the whole object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<Range<u64>>,
        /// The known version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unless: Option<String>,
    },
    /// `Bucket::put_new`; the payload is the object.
    PutNew {
        /// The key.
        key: String,
    },
    /// `Bucket::put_over`; the payload is the object.
    PutOver {
        /// The key.
        key: String,
        /// The version that was read.
        seen: String,
    },
    /// `Bucket::upload`; `Part` frames with the object follow.
    Upload {
        /// The key.
        key: String,
        /// Size of the object.
        bytes: u64,
    },
    /// A part of an upload, in its payload. It has no answer of its own.
    Part {},
    /// `Bucket::list`.
    List {
        /// The prefix of the keys.
        prefix: String,
        /// The last key of the previous page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// `Bucket::delete`.
    Delete {
        /// The keys.
        keys: Vec<String>,
    },
}

/// An answer of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// The object does not exist.
    Missing {},
    /// The object still has the known version.
    Same {},
    /// The payload is the requested object or range.
    Bytes {
        /// The version of the object.
        version: String,
        /// Size of the whole object.
        size: u64,
    },
    /// A conditional write succeeded.
    Done {
        /// The version of the object.
        version: String,
    },
    /// The object has another version or already exists.
    Lost {},
    /// The write may have happened.
    Unknown {},
    /// An upload or a deletion succeeded.
    Ok {},
    /// A page of a listing.
    Page {
        /// Key, size and version of each object, ordered by key.
        objects: Vec<(String, u64, String)>,
        /// True if more objects may follow.
        has_more: bool,
    },
    /// The request failed.
    Failed {
        /// The kind of the error.
        kind: String,
        /// The error message.
        message: String,
    },
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame<T> {
    /// The request or answer.
    pub header: T,
    /// The bytes after the header.
    pub payload: Bytes,
}

impl<T: Serialize + DeserializeOwned> Frame<T> {
    /// Creates a frame without a payload.
    pub fn plain(header: T) -> Self {
        Self { header, payload: Bytes::new() }
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// `LimitExceeded` if the frame is too large, `Io` if the other end has closed.
    pub fn write(&self, output: &mut dyn Write) -> Result<()> {
        let header = serde_json::to_vec(&self.header)
            .map_err(|error| Error::invalid(format!("a frame cannot be written: {error}")))?;
        let lengths = [
            length("bytes of a frame's header", header.len(), MAX_HEADER_BYTES)?,
            length("bytes of a frame's payload", self.payload.len(), MAX_PAYLOAD_BYTES)?,
        ];
        let mut head = Vec::with_capacity(8 + header.len());
        head.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
        head.extend(header);
        let written = output.write_all(&head).and_then(|()| output.write_all(&self.payload));
        written.and_then(|()| output.flush()).map_err(|error| Error::io("write a frame", error))
    }

    /// Reads a frame; `None` at the end of the stream.
    ///
    /// # Errors
    /// `Corrupt` for an invalid frame, `LimitExceeded` for lengths beyond the limits, `Io` if the
    /// stream ends within a frame.
    pub fn read(input: &mut dyn Read) -> Result<Option<Self>> {
        let Some(lengths) = read_start(input)? else { return Ok(None) };
        let [header, payload] = lengths;
        for (what, length, most) in [
            ("bytes of a frame's header", header, MAX_HEADER_BYTES),
            ("bytes of a frame's payload", payload, MAX_PAYLOAD_BYTES),
        ] {
            if length > most {
                return Err(Error::limit(what, most.into(), length.into()));
            }
        }
        let header = read_exactly(input, header)?;
        let header = serde_json::from_slice(&header)
            .map_err(|error| Error::malformed("a frame", format!("a header: {error}")))?;
        Ok(Some(Self { header, payload: read_exactly(input, payload)?.into() }))
    }
}

/// Reads the lengths of header and payload; `None` at the end of the stream.
fn read_start(input: &mut dyn Read) -> Result<Option<[u32; 2]>> {
    let mut start = Vec::with_capacity(8);
    input.take(8).read_to_end(&mut start).map_err(failed)?;
    match <[u8; 8]>::try_from(start.as_slice()) {
        Ok([a, b, c, d, rest @ ..]) => {
            Ok(Some([u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(rest)]))
        }
        Err(_) if start.is_empty() => Ok(None),
        Err(_) => Err(failed(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Reads `length` bytes. Allocates as data arrives, never by the declared length.
fn read_exactly(input: &mut dyn Read, length: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input.take(length.into()).read_to_end(&mut bytes).map_err(failed)?;
    if read as u64 == u64::from(length) {
        return Ok(bytes);
    }
    Err(failed(io::ErrorKind::UnexpectedEof.into()))
}

fn failed(error: io::Error) -> Error {
    Error::io("read a frame", error)
}

fn length(what: &str, length: usize, most: u32) -> Result<u32> {
    let fits = u32::try_from(length).ok().filter(|length| *length <= most);
    fits.ok_or_else(|| Error::limit(what, most.into(), length as u64))
}

impl From<Page> for Answer {
    fn from(page: Page) -> Self {
        let objects = page.objects.into_iter();
        let objects =
            objects.map(|Listed { key, size, version }| (key.to_string(), size, version.0));
        Self::Page { objects: objects.collect(), has_more: page.has_more }
    }
}

/// Converts a received page, and checks its keys.
pub(super) fn page(objects: Vec<(String, u64, String)>, has_more: bool) -> Result<Page> {
    let objects = objects.into_iter().map(|(key, size, version)| {
        Ok(Listed { key: Key::new(key)?, size, version: Version(version) })
    });
    Ok(Page { objects: objects.collect::<Result<_>>()?, has_more })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn bytes_of(header: &str, payload: &[u8]) -> Vec<u8> {
        let lengths = [header.len(), payload.len()].map(|length| u32::try_from(length).unwrap());
        let mut bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
        bytes.extend(header.as_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn a_frame_is_read_as_it_was_written_and_a_cut_one_is_an_error() {
        let header = Request::Get { key: "heads/a".into(), range: Some(0..9), unless: None };
        let frame = Frame { header, payload: Bytes::from_static(b"payload") };
        let mut bytes = Vec::new();
        frame.write(&mut bytes).unwrap();
        let expected = r#"{"get":{"key":"heads/a","range":{"start":0,"end":9}}}"#;
        assert_eq!(bytes, bytes_of(expected, b"payload"));
        assert_eq!(Frame::read(&mut bytes.as_slice()).unwrap(), Some(frame));
        assert_eq!(Frame::<Request>::read(&mut [].as_slice()).unwrap(), None);
        for end in 1..bytes.len() {
            let cut = Frame::<Request>::read(&mut &bytes[..end]).unwrap_err();
            assert_eq!(cut.kind(), ErrorKind::Io, "{end} bytes: {cut}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_its_bytes_are_waited_for() {
        for header in
            ["", "{}", "[]", r#"{"get":{}}"#, r#"{"get":{"key":"a","other":1}}"#, r#""ok""#]
        {
            let read = Frame::<Request>::read(&mut bytes_of(header, b"").as_slice());
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "{header}");
        }
        for lengths in [[MAX_HEADER_BYTES + 1, 0], [2, MAX_PAYLOAD_BYTES + 1], [u32::MAX; 2]] {
            let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
            let read = Frame::<Answer>::read(&mut bytes.as_slice());
            assert_eq!(read.unwrap_err().kind(), ErrorKind::LimitExceeded, "{lengths:?}");
        }
        let long = Frame {
            header: Request::Part {},
            payload: vec![0; MAX_PAYLOAD_BYTES as usize + 1].into(),
        };
        assert_eq!(long.write(&mut Vec::new()).unwrap_err().kind(), ErrorKind::LimitExceeded);
    }
}
