//! Replaces redacted pieces of transcripts, and masks the pieces that a filter masks.
//!
//! The transcript of an agent still holds content that was redacted from the store. The import
//! replaces its pieces before any other step, so parsers, turn messages and comparisons see only
//! the stored form.

use std::ops::Range;

use bytes::Bytes;
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{Redactions, Repository};

use crate::text::piece::{Piece, PieceKind, Pieces};

/// Returns the pieces of a file in the form that the store may hold.
///
/// # Errors
/// `Io` if the redactions are unreadable. A piece whose replacement is unreadable yields an error.
pub(crate) fn redact_pieces<'r>(repo: &'r Repository, pieces: Pieces<'r>) -> Result<Pieces<'r>> {
    let redactions = repo.redactions()?;
    Ok(Box::new(pieces.map(move |piece| {
        let piece = piece?;
        match bytes_to_store(repo, &redactions, &piece.bytes)? {
            Some(bytes) => Ok(replace_bytes(&piece, bytes)),
            None => Ok(piece),
        }
    })))
}

/// Returns the bytes to store for a piece if they differ from the piece: the piece was redacted, is
/// masked, or both.
fn bytes_to_store(
    repo: &Repository,
    redactions: &Redactions,
    piece: &Bytes,
) -> Result<Option<Bytes>> {
    if let Some(known) = replacement_of(repo, redactions, piece)? {
        return Ok(Some(known));
    }
    let Some(masked) = repo.instead(piece)?.map(Bytes::from) else { return Ok(None) };
    Ok(Some(replacement_of(repo, redactions, &masked)?.unwrap_or(masked)))
}

/// Returns a document in the form that the store may hold, or `None` if no piece changes. `pieces`
/// are the ranges that are stored.
///
/// # Errors
/// `Io` if the redactions are unreadable, `NotFound` or `Corrupt` if a replacement is lost.
pub(crate) fn redact_document(
    repo: &Repository,
    document: &Bytes,
    pieces: impl Iterator<Item = Range<usize>>,
) -> Result<Option<Bytes>> {
    let redactions = repo.redactions()?;
    let (mut is_replaced, mut parts) = (false, Vec::new());
    for piece in pieces {
        let piece = document.slice(piece);
        let replacement = bytes_to_store(repo, &redactions, &piece)?;
        is_replaced |= replacement.is_some();
        parts.push(replacement.unwrap_or(piece));
    }
    Ok(is_replaced.then(|| parts.concat().into()))
}

/// Returns the replacement of a piece, if the piece was redacted.
fn replacement_of(
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

/// Returns a piece with other bytes. Keeps only the fields whose new position is certain: those
/// that contain all of the replaced bytes.
fn replace_bytes(piece: &Piece, bytes: Bytes) -> Piece {
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
