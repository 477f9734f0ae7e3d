//! Writes the `source` section from the pieces of a file, and reads it back as the file, byte for
//! byte.

use std::collections::HashSet;
use std::io::{self, Read};
use std::ops::Range;

use bytes::{Buf, Bytes};
use turntree::context::sections::SOURCE;
use turntree::context::{
    Builder, MAX_SUFFIX_BYTES, SourceEntry, SourceKind, Transcript, TranscriptPiece,
};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::repo::{LogEntry, Repository};

use crate::text::piece::{Piece, PieceKind};

/// Maximum size of a trivia piece in bytes.
const MAX_PIECE_BYTES: usize = 1 << 20;

/// Reads the first pieces of a stored source like a file.
pub(crate) struct SourceReader<'a> {
    source: &'a dyn ObjectSource,
    pieces: Box<dyn Iterator<Item = Result<TranscriptPiece>> + 'a>,
    current: Bytes,
    suffix: Bytes,
}

impl<'a> SourceReader<'a> {
    /// Reads the first `pieces` pieces of `transcript`.
    pub(crate) fn new(source: &'a dyn ObjectSource, transcript: &Transcript, pieces: u64) -> Self {
        let pieces = Box::new(transcript.pieces(source, 0..pieces));
        Self { source, pieces, current: Bytes::new(), suffix: Bytes::new() }
    }
}

impl Read for SourceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            self.current = std::mem::take(&mut self.suffix);
            if !self.current.is_empty() {
                break;
            }
            let Some(piece) = self.pieces.next() else { return Ok(0) };
            let piece = piece.map_err(io::Error::other)?;
            self.current = piece.bytes(self.source).map_err(io::Error::other)?;
            self.suffix = piece.suffix;
        }
        let len = buffer.len().min(self.current.len());
        let (target, _) = buffer.split_at_mut(len);
        self.current.copy_to_slice(target);
        Ok(len)
    }
}

/// Stores a piece and returns its entry in `source`.
pub(crate) fn write_piece(
    sink: &mut dyn ObjectSink,
    side_paths: &[&str],
    piece: &Piece,
) -> Result<SourceEntry> {
    let blob = sink.write(Kind::Blob, piece.bytes.clone())?;
    Ok(SourceEntry { blob, kind: source_kind(side_paths, piece), suffix: piece.suffix.clone() })
}

/// Returns the kind of a piece in `source`. Records on side paths are glue, because only records
/// extend the conversation.
pub(crate) fn source_kind(side_paths: &[&str], piece: &Piece) -> SourceKind {
    debug_assert!(piece.suffix.len() <= MAX_SUFFIX_BYTES, "splitters keep separators short");
    match piece.kind {
        PieceKind::Record { path } if !side_paths.contains(&path) => SourceKind::Record,
        PieceKind::Record { .. } | PieceKind::Trivia { .. } => SourceKind::Glue,
        PieceKind::Damaged { .. } => SourceKind::Damaged,
    }
}

/// Sets `source` to the document, split at its records.
pub(crate) fn write_source(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    document: &Bytes,
    records: &[Range<usize>],
) -> Result<()> {
    let pieces = pieces(document.len(), records);
    let mut items = Vec::with_capacity(pieces.len());
    for (kind, range) in pieces {
        let blob = sink.write(Kind::Blob, document.slice(range))?;
        items.push(SourceEntry { blob, kind, suffix: Bytes::new() }.to_item()?);
    }
    builder.clear_copies(sink)?;
    builder.set_list(sink, SOURCE, items)
}

/// Splits a document of `len` bytes at its records.
pub(super) fn pieces(len: usize, records: &[Range<usize>]) -> Vec<(SourceKind, Range<usize>)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let end = len..len;
    for record in records.iter().chain([&end]) {
        while at < record.start {
            let stop = record.start.min(at + MAX_PIECE_BYTES);
            pieces.push((SourceKind::Glue, at..stop));
            at = stop;
        }
        if record.end > at {
            pieces.push((SourceKind::Record, record.clone()));
            at = record.end;
        }
    }
    pieces
}

/// Returns the root ids of the sources on the first-parent line of `tip`. Sections of equal content
/// have equal ids.
///
/// # Errors
/// The errors of reading commits and contexts.
pub(crate) fn sources_of(repo: &Repository, tip: &ObjectId) -> Result<HashSet<ObjectId>> {
    let mut sources = HashSet::new();
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let LogEntry { id, commit, .. } = entry?;
        if repo.tombstone(&commit.tree).is_none() {
            let found = repo.context(&id)?.section(repo, SOURCE)?;
            sources.extend(found.map(|section| section.id));
        }
    }
    Ok(sources)
}
