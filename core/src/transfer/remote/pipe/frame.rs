//! Frames: what is asked or answered as JSON, with the bytes of an object behind it.
//!
//! ```text
//! u32 bytes of the header | u32 bytes of the payload | header, one JSON object | payload
//! ```
//!
//! Numbers are little-endian. A header of another shape, with other fields or with a key that is none, is
//! refused, and so is a payload where there is none.

use std::io::{self, Read, Write};
use std::ops::Range;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::transfer::remote::bucket::{Key, Listed, Page, Version};

/// Most bytes of a header: a listing of a thousand objects.
pub const MAX_HEADER_BYTES: u32 = 1 << 20;

/// Most bytes of a payload; what is larger comes in several.
pub const MAX_PAYLOAD_BYTES: u32 = 4 << 20;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// [`Bucket::get`](crate::transfer::remote::Bucket::get).
    Get {
        /// The key.
        key: String,
        /// The range; everything without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<Range<u64>>,
        /// The state that is known.
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
        /// The state that was seen.
        seen: String,
    },
    /// `Bucket::upload`; `Part` frames with the object follow.
    Upload {
        /// The key.
        key: String,
        /// Bytes of the object.
        bytes: u64,
    },
    /// A part of what is uploaded, in its payload. It has no answer of its own.
    Part {},
    /// `Bucket::list`.
    List {
        /// What the keys begin with.
        prefix: String,
        /// The last key of the page before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// `Bucket::delete`.
    Delete {
        /// The keys.
        keys: Vec<String>,
    },
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// There is no such object.
    Missing {},
    /// It is the one that is known.
    Same {},
    /// The payload is what was asked for.
    Bytes {
        /// The state of the object.
        version: String,
        /// Bytes of the whole object.
        size: u64,
    },
    /// A conditional write is done.
    Done {
        /// The state of the object.
        version: String,
    },
    /// Something else is there.
    Lost {},
    /// The write may be done.
    Unknown {},
    /// An upload or a deletion is done.
    Ok {},
    /// A part of a listing.
    Page {
        /// Key, bytes and state of each object, in order of keys.
        objects: Vec<(String, u64, String)>,
        /// True if there may be more.
        has_more: bool,
    },
    /// It was not done.
    Failed {
        /// The kind of the error.
        kind: String,
        /// What went wrong.
        message: String,
    },
}

/// A frame as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<T> {
    /// What it says.
    pub header: T,
    /// The bytes behind it.
    pub payload: Bytes,
}

impl<T: Serialize + DeserializeOwned> Frame<T> {
    /// A frame without bytes of an object.
    pub fn plain(header: T) -> Self {
        Self { header, payload: Bytes::new() }
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// `LimitExceeded` for what is too large to be one, `Io` when the other end is gone.
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

    /// Reads a frame; nothing at the end of the stream.
    ///
    /// # Errors
    /// `Corrupt` for what is none, `LimitExceeded` for lengths beyond the limits, `Io` when the stream ends
    /// within one.
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

/// The lengths of header and payload; nothing at the end of the stream.
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

/// Reads so many bytes. Memory grows with what comes, not with what was said.
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

/// A page as it was told, of keys that are keys.
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
