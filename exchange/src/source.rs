//! The `source` section as a file again: read piece by piece, byte for byte.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use turntree::context::SourceEntry;
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource};
use turntree::tree::List;

/// The pieces of a source from `range`, in file order.
pub(super) fn entries<'a>(
    source: &'a dyn ObjectSource,
    list: &List,
    range: std::ops::Range<u64>,
) -> impl Iterator<Item = Result<SourceEntry>> + 'a {
    list.iter(source, range).map(|item| SourceEntry::from_item(&item?))
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
