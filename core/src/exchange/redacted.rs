//! Transcripts as the store may have them: pieces that were redacted come in as what stands for them.
//!
//! The transcript of an agent keeps what was redacted from the store. It is cut before anything is
//! made of it, pieces whose ids were redacted are replaced, and what comes out is read as if it were
//! the file: so parsers, names of turns and comparisons see nothing else.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::detect::HEAD_BYTES;
use super::format::Format;
use super::piece::Pieces;
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::repo::{Redactions, Repository};

/// A file of a format as the store may have it; the file itself where nothing was ever redacted.
///
/// # Errors
/// `NotFound` or `Corrupt` when the redactions cannot be read. What is wrong with the file, or with
/// what stands for something, is an error of the reader.
pub(super) fn redacted<'r>(
    repo: &'r Repository,
    format: &Format,
    file: Box<dyn BufRead + 'r>,
) -> Result<Box<dyn BufRead + 'r>> {
    let redactions = repo.redactions()?;
    if redactions.is_empty() {
        return Ok(file);
    }
    let (pieces, source) = ((format.cut)(file), repo.store());
    let file = Redacted { source, redactions, pieces, current: Bytes::new(), suffix: Bytes::new() };
    Ok(Box::new(BufReader::with_capacity(HEAD_BYTES, file)))
}

/// A document as the store may have it, that is stored in these pieces; nothing where all of them may
/// be stored.
///
/// # Errors
/// `NotFound` or `Corrupt` when the redactions, or what stands for a piece, cannot be read.
pub(super) fn redacted_document(
    repo: &Repository,
    document: &Bytes,
    pieces: impl Iterator<Item = Range<usize>>,
) -> Result<Option<Bytes>> {
    let redactions = repo.redactions()?;
    if redactions.is_empty() {
        return Ok(None);
    }
    let (mut replaced, mut whole) = (false, Vec::with_capacity(document.len()));
    for piece in pieces {
        let piece = document.slice(piece);
        let instead = instead(repo.store(), &redactions, &piece)?;
        replaced |= instead.is_some();
        whole.extend_from_slice(&instead.unwrap_or(piece));
    }
    Ok(replaced.then(|| whole.into()))
}

/// What stands for a piece, if that was redacted.
fn instead(
    source: &dyn ObjectSource,
    redactions: &Redactions,
    piece: &Bytes,
) -> Result<Option<Bytes>> {
    let new = redactions.get(&ObjectId::of(Kind::Blob, piece));
    new.map(|id| source.read_as(Kind::Blob, &id)).transpose()
}

/// The pieces of a file, one after the other, without what was redacted.
struct Redacted<'r> {
    source: &'r dyn ObjectSource,
    redactions: Arc<Redactions>,
    pieces: Pieces<'r>,
    current: Bytes,
    suffix: Bytes,
}

impl Read for Redacted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            self.current = std::mem::take(&mut self.suffix);
            if !self.current.is_empty() {
                break;
            }
            let Some(piece) = self.pieces.next() else { return Ok(0) };
            let piece = piece.map_err(io::Error::other)?;
            let instead = instead(self.source, &self.redactions, &piece.bytes);
            self.current = instead.map_err(io::Error::other)?.unwrap_or(piece.bytes);
            self.suffix = piece.suffix;
        }
        let len = buffer.len().min(self.current.len());
        let (target, _) = buffer.split_at_mut(len);
        self.current.copy_to_slice(target);
        Ok(len)
    }
}
