//! Transcripts as the store may have them: pieces that were redacted come in as what stands for them,
//! and pieces that a filter masks with their masks.
//!
//! The transcript of an agent keeps what was redacted from the store. Its pieces are replaced before
//! anything is made of them, so parsers, the words of turns and comparisons see nothing else.

use std::ops::Range;

use bytes::Bytes;
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{Redactions, Repository};

use crate::text::piece::{Piece, PieceKind, Pieces};

/// The pieces of a file as the store may have them.
///
/// # Errors
/// `Io` when the redactions cannot be read. What stands for a piece and cannot be read is an error in
/// its place.
pub(crate) fn redacted<'r>(repo: &'r Repository, pieces: Pieces<'r>) -> Result<Pieces<'r>> {
    let redactions = repo.redactions()?;
    Ok(Box::new(pieces.map(move |piece| {
        let piece = piece?;
        match admitted(repo, &redactions, &piece.bytes)? {
            Some(bytes) => Ok(replaced(&piece, bytes)),
            None => Ok(piece),
        }
    })))
}

/// Returns what stands for a piece in the store, if it comes in as something else: it was redacted, is
/// masked, or both.
fn admitted(repo: &Repository, redactions: &Redactions, piece: &Bytes) -> Result<Option<Bytes>> {
    if let Some(known) = instead(repo.store(), redactions, piece)? {
        return Ok(Some(known));
    }
    let Some(masked) = repo.instead(piece)?.map(Bytes::from) else { return Ok(None) };
    Ok(Some(instead(repo.store(), redactions, &masked)?.unwrap_or(masked)))
}

/// A document as the store may have it, that is stored in these pieces; nothing where all of them may
/// be stored.
///
/// # Errors
/// `Io` when the redactions cannot be read, `NotFound` or `Corrupt` when what stands for a piece is lost.
pub(crate) fn redacted_document(
    repo: &Repository,
    document: &Bytes,
    pieces: impl Iterator<Item = Range<usize>>,
) -> Result<Option<Bytes>> {
    let redactions = repo.redactions()?;
    let (mut is_replaced, mut parts) = (false, Vec::new());
    for piece in pieces {
        let piece = document.slice(piece);
        let instead = admitted(repo, &redactions, &piece)?;
        is_replaced |= instead.is_some();
        parts.push(instead.unwrap_or(piece));
    }
    Ok(is_replaced.then(|| parts.concat().into()))
}

/// Returns the replacement of a piece, if that was redacted.
fn instead(
    source: &dyn ObjectSource,
    redactions: &Redactions,
    piece: &Bytes,
) -> Result<Option<Bytes>> {
    if redactions.is_empty() {
        return Ok(None);
    }
    let new = redactions.get(&ObjectId::of(Kind::Blob, piece));
    new.map(|id| source.read_as(Kind::Blob, &id)).transpose()
}

/// A piece with other bytes. Of its fields those stay of which it is clear where they are now: all that
/// was replaced lies in them.
fn replaced(piece: &Piece, bytes: Bytes) -> Piece {
    let old = &piece.bytes;
    let moved = |range: &Range<usize>| {
        let (before, after) = (old.get(..range.start)?, old.get(range.end..)?);
        let is_kept = bytes.starts_with(before) && bytes.ends_with(after);
        let end = bytes.len().checked_sub(after.len()).filter(|end| *end >= range.start)?;
        is_kept.then_some(range.start..end)
    };
    let kind = match &piece.kind {
        PieceKind::Trivia { fields } => {
            let fields = fields.iter().filter_map(|(path, range)| Some((*path, moved(range)?)));
            PieceKind::Trivia { fields: fields.collect() }
        }
        kind => kind.clone(),
    };
    Piece { kind, bytes, original: Some(old.clone()), ..piece.clone() }
}
