//! The `source` section as a file again: read piece by piece, byte for byte.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};

use crate::context::{Context, SourceEntry};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSource};
use crate::tree::List;

/// The name of the section.
pub(super) const SOURCE: &str = "source";

/// The pieces of a source from `range`, in file order.
pub(super) fn entries<'a>(
    source: &'a dyn ObjectSource,
    list: &List,
    range: std::ops::Range<u64>,
) -> impl Iterator<Item = Result<SourceEntry>> + 'a {
    list.iter(source, range).map(|item| SourceEntry::from_item(&item?))
}

/// Writes the transcript under `context` to `out`, exactly as it came in, and returns its bytes.
///
/// # Errors
/// `NotFound` when the context was not imported from a transcript, `Io` when `out` refuses.
pub fn export_source(
    source: &dyn ObjectSource,
    context: &Context,
    out: &mut dyn Write,
) -> Result<u64> {
    let list = context.list(source, SOURCE)?;
    if list.is_empty() {
        return Err(Error::not_found(
            "this snapshot was not imported from a transcript: it has no source to export",
        ));
    }
    let mut written = 0;
    for entry in entries(source, &list, 0..list.len()) {
        let entry = entry?;
        let bytes = source.read_as(Kind::Blob, &entry.blob)?;
        for part in [&bytes, &entry.suffix] {
            out.write_all(part).map_err(|error| Error::io("write the transcript", error))?;
            written += part.len() as u64;
        }
    }
    Ok(written)
}

/// Reads the first pieces of a stored source as if they were a file.
pub(super) struct SourceReader<'a> {
    source: &'a dyn ObjectSource,
    entries: Box<dyn Iterator<Item = Result<SourceEntry>> + 'a>,
    current: Bytes,
    suffix: Bytes,
}

impl<'a> SourceReader<'a> {
    /// Reads the first `pieces` of `list`.
    pub(super) fn new(source: &'a dyn ObjectSource, list: &List, pieces: u64) -> Self {
        let entries = Box::new(entries(source, list, 0..pieces));
        Self { source, entries, current: Bytes::new(), suffix: Bytes::new() }
    }
}

impl Read for SourceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            self.current = std::mem::take(&mut self.suffix);
            if !self.current.is_empty() {
                break;
            }
            let Some(entry) = self.entries.next() else { return Ok(0) };
            let entry = entry.map_err(io::Error::other)?;
            self.current =
                self.source.read_as(Kind::Blob, &entry.blob).map_err(io::Error::other)?;
            self.suffix = entry.suffix;
        }
        let len = buffer.len().min(self.current.len());
        let (target, _) = buffer.split_at_mut(len);
        self.current.copy_to_slice(target);
        Ok(len)
    }
}
