//! Imports a file that continues another session: a fork that a client made.
//!
//! Some clients copy the records of the other file, and some only name it. Either way the first
//! turn of the fork has as its parent the turn that it was forked from, if that is in the store.
//! Copied records become the copied beginning of the transcript, so that the file can be exported
//! byte for byte; they do not become turns again.
//!
//! The other session is the one that the records name. If they name none, it is the session that
//! has the first record with an id of its own kind, according to `origins.rs`.

mod origin;
mod origins;

use std::io::{BufRead, Cursor, Read};
use std::sync::Arc;

use turntree::context::{SourceKind, Transcript};
use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, Transaction};
use turntree::tree::List;

use self::origin::Origin;
pub(crate) use self::origin::{RecordKey, context_at};
pub(crate) use self::origins::Origins;
use super::rewind::{RewindPoint, Timeline};
use crate::model::format::{
    FilePrefix, Format, FormatReader, Lineage, RecordFormat, RecordOrigin, Records,
};
use crate::text::json;
use crate::text::piece::{Piece, PieceKind};
use crate::text::unpack::decompress;

/// Limits on the pieces, and on their bytes, that are held to find the origin of a file.
const MAX_HELD: usize = 512;
const MAX_HELD_BYTES: usize = 8 << 20;

/// The first pieces of a file, until its origin is known.
pub(crate) struct Forking<'r> {
    repo: &'r Repository,
    lineage: Lineage,
    format: RecordFormat,
    session: String,
    origins: Arc<Origins>,
    held: Vec<Piece>,
    bytes: usize,
    /// One of the held records has an identity.
    has_identity: bool,
    /// A record names the session that the file is forked from.
    is_named: bool,
    origin: Option<Origin>,
    /// The keys of this file's own records by which others find it.
    anchors: Vec<RecordKey>,
}

/// A piece in the beginning of a fork.
pub(crate) struct CopiedPiece {
    pub(crate) piece: Piece,
    /// The list and the piece there that it is a copy of.
    pub(crate) base: Option<(List, u64)>,
}

/// The decision on a piece.
pub(crate) enum ForkStep {
    /// No decision yet.
    Hold,
    /// These are copies.
    Copied(Vec<CopiedPiece>),
    /// The file's own records begin with these, after a place of another session or after nothing.
    Begins {
        place: Option<RewindPoint>,
        pieces: Vec<Piece>,
        /// The session that the file names as its origin, if the store does not have it.
        missing: Option<String>,
    },
}

impl<'r> Forking<'r> {
    /// Creates the state for a file of a session without a transcript; `None` for a format without
    /// forks.
    pub(crate) fn new(
        repo: &'r Repository,
        format: RecordFormat,
        session: &str,
        origins: Arc<Origins>,
    ) -> Option<Self> {
        let lineage = format.lineage?;
        Some(Self {
            repo,
            lineage,
            format,
            session: session.to_owned(),
            origins,
            held: Vec::new(),
            bytes: 0,
            has_identity: false,
            is_named: false,
            origin: None,
            anchors: Vec::new(),
        })
    }

    /// Returns true if only copies were seen so far.
    pub(crate) fn is_copying(&self) -> bool {
        let Some(origin) = &self.origin else { return false };
        // Where records have no ids, one that is no copy is the fork's own.
        self.lineage.id.is_some() || (origin.has_copies() && self.held.is_empty())
    }

    /// Looks at the next piece.
    ///
    /// # Errors
    /// As for reading the other session.
    pub(crate) fn piece(&mut self, change: &Transaction<'_>, piece: &Piece) -> Result<ForkStep> {
        self.bytes += piece.bytes.len();
        self.held.push(piece.clone());
        if !matches!(piece.kind, PieceKind::Record { .. }) {
            return self.hold_or_begin(change);
        }
        let is_by_content = self.lineage.id.is_none();
        if is_by_content && self.is_copy(piece, None) {
            return Ok(ForkStep::Copied(self.copied()));
        }
        let record = json::value(&piece.bytes);
        if !is_by_content && self.is_copy(piece, record.as_ref()) {
            return Ok(ForkStep::Copied(self.copied()));
        }
        let identity = record.as_ref().and_then(|record| self.lineage.identity(piece, record));
        self.has_identity |= identity.is_some();
        let origin = record.as_ref().map_or(RecordOrigin::Unknown, self.lineage.origin);
        let is_here = origin == RecordOrigin::OwnSession;
        match origin {
            RecordOrigin::OtherSession { session, pieces: None } => {
                if self.origin.as_ref().is_some_and(|origin| origin.is_of(&session)) {
                    return self.begin(change, None);
                }
                if let Some(found) =
                    Origin::named(change, &session, self.lineage, &self.origins.histories)?
                {
                    self.is_named = true;
                    return Ok(self.go_on_from(found, 0));
                }
            }
            RecordOrigin::OtherSession { session, pieces: Some(pieces) } => {
                let place = place_behind(change, &session, pieces)?;
                let missing = place.is_none().then_some(session);
                return Ok(ForkStep::Begins { place, pieces: self.take(), missing });
            }
            RecordOrigin::AfterRecord { session, record } => {
                self.origin =
                    Origin::named(change, &session, self.lineage, &self.origins.histories)?;
                let is_there = self.origin.as_mut().is_some_and(|origin| origin.move_to(&record));
                return self.begin(change, (!is_there).then_some(session));
            }
            RecordOrigin::Unknown | RecordOrigin::OwnSession => {}
        }
        if let Some(identity) = identity {
            let Self { repo, format, lineage, .. } = *self;
            let named = self.origins.find((repo, change), format, lineage, &identity)?;
            let named = named.filter(|named| {
                *named != self.session
                    && self.origin.as_ref().is_none_or(|origin| !origin.is_of(named))
            });
            let found = named
                .map(|named| Origin::named(change, &named, self.lineage, &self.origins.histories));
            let found = found.transpose()?.flatten();
            if let Some(step) = found.and_then(|found| self.align(found)) {
                return Ok(step);
            }
            self.anchors.push(identity);
        }
        // Until a record with an identity, earlier records may still be copies.
        let is_known = self.is_named || self.has_identity || self.lineage.identity.is_none();
        if is_here && is_known { self.begin(change, None) } else { self.hold_or_begin(change) }
    }

    /// Ends the copies: the input has no further piece, or no further one is a copy.
    ///
    /// # Errors
    /// As for reading the other session.
    pub(crate) fn begin(
        &mut self,
        change: &Transaction<'_>,
        missing: Option<String>,
    ) -> Result<ForkStep> {
        let place = self.origin.as_ref().map(|origin| origin.place(change)).transpose()?;
        Ok(ForkStep::Begins { place: place.flatten(), pieces: self.take(), missing })
    }

    /// The records by which forks of this file find it.
    pub(crate) fn anchors(&mut self) -> Vec<RecordKey> {
        std::mem::take(&mut self.anchors)
    }

    /// Waits for the next piece, unless too many wait already.
    fn hold_or_begin(&mut self, change: &Transaction<'_>) -> Result<ForkStep> {
        match self.held.len() < MAX_HELD && self.bytes < MAX_HELD_BYTES {
            true => Ok(ForkStep::Hold),
            false => self.begin(change, None),
        }
    }

    /// Returns true if the piece is the next copy in the origin.
    fn is_copy(&mut self, piece: &Piece, record: Option<&serde_json::Value>) -> bool {
        let Some(origin) = &mut self.origin else { return false };
        let Some(key) = self.lineage.key(piece, record) else { return false };
        origin.take(key)
    }

    /// Continues `origin`, in which the last held record was found; `None` if it lacks the record.
    fn align(&mut self, mut origin: Origin) -> Option<ForkStep> {
        let keys: Vec<RecordKey> =
            self.held.iter().filter_map(|piece| self.held_key(piece)).collect();
        let copies = origin.align(&keys)?;
        Some(self.go_on_from(origin, keys.len() - copies))
    }

    fn held_key(&self, piece: &Piece) -> Option<RecordKey> {
        let is_record = matches!(piece.kind, PieceKind::Record { .. });
        is_record.then(|| self.lineage.key(piece, None)).flatten()
    }

    /// Takes the held pieces that `origin` has for copies, those with a key but for the first `skipped`.
    fn go_on_from(&mut self, mut origin: Origin, skipped: usize) -> ForkStep {
        let (mut last, mut left) = (0, skipped);
        let mut places = Vec::new();
        for (number, piece) in (1..).zip(&self.held) {
            let Some(key) = self.held_key(piece) else { continue };
            if left > 0 {
                left -= 1;
            } else if origin.take(key) {
                places.resize(number - 1, None);
                places.push(origin.base());
                last = number;
            }
        }
        let rest = self.held.split_off(last);
        let copied = std::mem::replace(&mut self.held, rest);
        self.bytes = self.held.iter().map(|piece| piece.bytes.len()).sum();
        self.has_identity = false;
        self.anchors.clear();
        self.origin = Some(origin);
        let copied = copied.into_iter().zip(places);
        ForkStep::Copied(copied.map(|(piece, base)| CopiedPiece { piece, base }).collect())
    }

    /// The held pieces, of which the last one is a copy.
    fn copied(&mut self) -> Vec<CopiedPiece> {
        let mut base = self.origin.as_ref().and_then(Origin::base);
        let held = self.take().into_iter().rev();
        let mut copied: Vec<CopiedPiece> =
            held.map(|piece| CopiedPiece { piece, base: base.take() }).collect();
        copied.reverse();
        copied
    }

    fn take(&mut self) -> Vec<Piece> {
        (self.bytes, self.has_identity) = (0, false);
        std::mem::take(&mut self.held)
    }
}

/// Returns the key that a record shares with its copies, for a format that has forks.
pub(crate) fn record_key(format: RecordFormat, piece: &Piece) -> Option<RecordKey> {
    format.lineage?.key(piece, None)
}

/// Returns the place of a session after a part of its file; `None` if the session, that part or its
/// turn is missing. A rewound line is incomplete in the file, but the fork may continue from it.
fn place_behind(
    change: &Transaction<'_>,
    named: &str,
    part: FilePrefix,
) -> Result<Option<RewindPoint>> {
    let Some((main, _)) = find_session(change, named) else { return Ok(None) };
    let mut branches = change.branches_of(main.session());
    branches.sort_by_key(|(name, _)| *name != main);
    let mut found = None;
    for (branch, tip) in branches {
        let Ok(context) = context_at(change, &tip) else { continue };
        let source = Transcript::open(change, &context)?;
        match last_piece(change, &source, part)? {
            Some((at, true)) => {
                found = Some((branch, source, at));
                break;
            }
            Some((at, false)) if found.is_none() => found = Some((branch, source, at)),
            _ => {}
        }
    }
    let Some((branch, source, at)) = found else { return Ok(None) };
    Timeline::of_session(change, branch.session(), &branch, &source)?.point_at(change, Some(at))
}

/// Returns the last piece of a part of a file, and whether a piece ends with the bytes of the part.
/// Masked or redacted content has other lengths in the store; then the numbers of the records
/// decide.
fn last_piece(
    change: &Transaction<'_>,
    source: &Transcript,
    part: FilePrefix,
) -> Result<Option<(u64, bool)>> {
    let (mut bytes, mut next, mut last) = (0, 0, None);
    for (at, entry) in (0..).zip(source.pieces(change, 0..source.len())) {
        let entry = entry?;
        let piece = entry.bytes(change)?;
        bytes += (piece.len() + entry.suffix.len()) as u64;
        if part.bytes == Some(bytes) {
            return Ok(Some((at, true)));
        }
        if let Some((field, end)) = part.ordinal
            && entry.kind == SourceKind::Record
        {
            let number = json::value(&piece).and_then(|it| it.get(field)?.as_u64());
            next = number.unwrap_or(next).saturating_add(1);
            if next == end {
                last = Some((at, part.bytes.is_none()));
            }
        }
    }
    Ok(last)
}

/// Returns the main branch of the session whose name is `named`, or ends with it.
fn find_session(change: &Transaction<'_>, named: &str) -> Option<(BranchName, ObjectId)> {
    let main = BranchName::main(named).ok();
    let exact = main.and_then(|main| change.tip(&main).map(|tip| (main, tip)));
    exact.or_else(|| {
        let all = change.main_branches().into_iter();
        all.filter(|(name, _)| is_named(name.session(), named)).max_by_key(|(name, _)| name.clone())
    })
}

/// Returns true if the name of a session is `named`, possibly after a client's prefix such as a
/// date.
pub(crate) fn is_named(session: &str, named: &str) -> bool {
    let Some(before) = session.strip_suffix(named) else { return false };
    !named.is_empty() && (before.is_empty() || before.ends_with(['-', '_', '.']))
}

/// References to other files in the first records of a file.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    /// The session that the file continues.
    pub(crate) origin: Option<String>,
    /// The first record with an identity, which copies of it have too.
    pub(crate) identity: Option<RecordKey>,
}

/// Reads the first records of a file.
///
/// # Errors
/// As of [`import`](super::transcript) for unreadable input.
pub(crate) fn beginning(format: &Format, input: impl BufRead) -> Result<Beginning> {
    let mut beginning = Beginning::default();
    let FormatReader::Records(Records { split, lineage: Some(lineage), .. }) = &format.reader
    else {
        return Ok(beginning);
    };
    let (head, input) = decompress(Box::new(input))?;
    let mut bytes = 0;
    for piece in split(Box::new(Cursor::new(head).chain(input))).take(MAX_HELD) {
        let piece = piece?;
        bytes += piece.bytes.len();
        let is_record = matches!(piece.kind, PieceKind::Record { .. });
        let record = if is_record { json::value(&piece.bytes) } else { None };
        let Some(record) = record else { continue };
        let identity = lineage.identity(&piece, &record);
        beginning.identity = beginning.identity.take().or(identity);
        match (lineage.origin)(&record) {
            RecordOrigin::OtherSession { session, .. }
            | RecordOrigin::AfterRecord { session, .. } => {
                beginning.origin = Some(session);
                break;
            }
            RecordOrigin::OwnSession if beginning.identity.is_some() => break,
            RecordOrigin::Unknown | RecordOrigin::OwnSession if bytes < MAX_HELD_BYTES => {}
            RecordOrigin::Unknown | RecordOrigin::OwnSession => break,
        }
    }
    Ok(beginning)
}
