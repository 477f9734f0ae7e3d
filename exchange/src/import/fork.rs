//! A file that goes on from another session: a fork that a client made.
//!
//! Some clients copy the records of the other file, and some only name it. Either way the first turn
//! of the fork goes on from the turn of the other session that it was forked from, if that is in the
//! store. What was copied goes into the source, so that the file comes back, and nowhere else.

use std::collections::HashMap;
use std::io::{BufRead, Cursor, Read};

use turntree::context::{Context, SOURCE, SourceKind};
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource};
use turntree::repo::{BranchName, Transaction};
use turntree::tree::List;

use super::rewind::{RewindPoint, Timeline};
use super::source::entries;
use crate::model::format::{
    Format, FormatReader, Lineage, PiecesBefore, RecordFormat, RecordOrigin, Records,
};
use crate::text::json;
use crate::text::piece::{Piece, PieceKind};
use crate::text::unpack::unpacked;

/// Most pieces, and most bytes of them, that are looked at for what a file goes on from.
const MAX_HELD: usize = 512;
const MAX_HELD_BYTES: usize = 8 << 20;

/// The first pieces of a file, until it is known what they go on from.
pub(crate) struct Forking {
    lineage: Lineage,
    held: Vec<Piece>,
    bytes: usize,
    origin: Option<Origin>,
}

/// The decision on a piece.
pub(crate) enum ForkStep {
    /// Nothing yet.
    Hold,
    /// These are copies.
    Copied(Vec<Piece>),
    /// The file goes on by itself with these, from a place of another session or from nothing.
    Begins {
        place: Option<RewindPoint>,
        pieces: Vec<Piece>,
        /// The session that it should go on from, which is not there.
        missing: Option<String>,
    },
}

/// The session that records were copied from.
struct Origin {
    session: String,
    pieces: HashMap<String, u64>,
    timeline: Timeline,
    /// The place of the newest copy.
    to: Option<u64>,
}

impl Forking {
    /// For a file of a session that has nothing yet; nothing for a format without forks.
    pub(crate) fn new(format: RecordFormat) -> Option<Self> {
        let lineage = format.lineage?;
        Some(Self { lineage, held: Vec::new(), bytes: 0, origin: None })
    }

    /// Returns true if copies were seen, and nothing else yet.
    pub(crate) fn is_copying(&self) -> bool {
        self.origin.is_some()
    }

    /// Looks at the next piece.
    ///
    /// # Errors
    /// As for reading the other session.
    pub(crate) fn piece(&mut self, change: &Transaction<'_>, piece: &Piece) -> Result<ForkStep> {
        self.bytes += piece.bytes.len();
        self.held.push(piece.clone());
        let is_record = matches!(piece.kind, PieceKind::Record { .. });
        let record = if is_record { json::value(&piece.bytes) } else { None };
        let id = record.as_ref().and_then(self.lineage.id);
        if let Some((origin, id)) = self.origin.as_mut().zip(id)
            && let Some(at) = origin.pieces.get(id)
        {
            origin.to = Some(*at);
            return Ok(ForkStep::Copied(self.take()));
        }
        match record.as_ref().map_or(RecordOrigin::Unknown, self.lineage.origin) {
            RecordOrigin::Unknown if self.held.len() < MAX_HELD && self.bytes < MAX_HELD_BYTES => {
                Ok(ForkStep::Hold)
            }
            RecordOrigin::Unknown | RecordOrigin::Here => self.begin(change, None),
            RecordOrigin::From { session, pieces } => {
                let known = self.origin.as_ref().is_some_and(|origin| origin.session == session);
                if known {
                    return self.begin(change, None);
                }
                let Some(pieces) = pieces else {
                    self.origin = Origin::find(change, &session, self.lineage)?;
                    return match &self.origin {
                        Some(_) => self.copied_so_far(),
                        None => self.begin(change, None),
                    };
                };
                let place = place_behind(change, &session, pieces)?;
                let missing = place.is_none().then_some(session);
                Ok(ForkStep::Begins { place, pieces: self.take(), missing })
            }
            RecordOrigin::Behind { session, record } => {
                self.origin = Origin::find(change, &session, self.lineage)?;
                let at = self.origin.as_mut().and_then(|origin| {
                    origin.to = origin.pieces.get(&record).copied();
                    origin.to
                });
                self.begin(change, at.is_none().then_some(session))
            }
        }
    }

    /// There is no further piece, or no further one is a copy.
    ///
    /// # Errors
    /// As for reading the other session.
    pub(crate) fn begin(
        &mut self,
        change: &Transaction<'_>,
        missing: Option<String>,
    ) -> Result<ForkStep> {
        let place = match &self.origin {
            Some(Origin { timeline, to: Some(to), .. }) => timeline.place(change, Some(*to))?,
            _ => None,
        };
        Ok(ForkStep::Begins { place, pieces: self.take(), missing })
    }

    /// The held pieces up to the last one that the origin has.
    fn copied_so_far(&mut self) -> Result<ForkStep> {
        let Some(origin) = &mut self.origin else { return Ok(ForkStep::Hold) };
        let mut copied = 0;
        for (number, piece) in (1..).zip(&self.held) {
            let record = json::value(&piece.bytes);
            let id = record.as_ref().and_then(self.lineage.id);
            if let Some(at) = id.and_then(|id| origin.pieces.get(id)) {
                (copied, origin.to) = (number, Some(*at));
            }
        }
        let rest = self.held.split_off(copied);
        Ok(ForkStep::Copied(std::mem::replace(&mut self.held, rest)))
    }

    fn take(&mut self) -> Vec<Piece> {
        self.bytes = 0;
        std::mem::take(&mut self.held)
    }
}

impl Origin {
    fn find(change: &Transaction<'_>, named: &str, lineage: Lineage) -> Result<Option<Self>> {
        let Some((branch, tip)) = find_session(change, named) else { return Ok(None) };
        let source =
            Context::open(change, &change.read_commit(&tip)?.tree)?.list(change, SOURCE)?;
        let mut pieces = HashMap::new();
        for (at, entry) in (0..).zip(entries(change, &source, 0..source.len())) {
            let entry = entry?;
            if entry.kind != SourceKind::Record {
                continue;
            }
            let record = json::value(&change.read_as(Kind::Blob, &entry.blob)?);
            if let Some(id) = record.as_ref().and_then(lineage.id) {
                pieces.insert(id.to_owned(), at);
            }
        }
        let timeline = Timeline::of(change, branch.session(), &branch, &source)?;
        Ok(Some(Self { session: named.to_owned(), pieces, timeline, to: None }))
    }
}

/// The place of a session behind a part of its file; nothing where the session, that part or the turn
/// there is missing. Of a line that was left the file has no more, but the fork may go on from there.
fn place_behind(
    change: &Transaction<'_>,
    named: &str,
    part: PiecesBefore,
) -> Result<Option<RewindPoint>> {
    let Some((main, _)) = find_session(change, named) else { return Ok(None) };
    let mut branches = change.branches_of(main.session());
    branches.sort_by_key(|(name, _)| *name != main);
    let mut found = None;
    for (branch, tip) in branches {
        let Ok(context) = Context::open(change, &change.read_commit(&tip)?.tree) else { continue };
        let source = context.list(change, SOURCE)?;
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
    Timeline::of(change, branch.session(), &branch, &source)?.place(change, Some(at))
}

/// The last piece of a part of a file, and whether a piece ends with the bytes of the part: what is
/// masked or redacted in the store has other lengths, and then the numbers of the records decide.
fn last_piece(
    change: &Transaction<'_>,
    source: &List,
    part: PiecesBefore,
) -> Result<Option<(u64, bool)>> {
    let (mut bytes, mut next, mut last) = (0, 0, None);
    for (at, entry) in (0..).zip(entries(change, source, 0..source.len())) {
        let entry = entry?;
        let piece = change.read_as(Kind::Blob, &entry.blob)?;
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

/// The main branch of the session whose name is `named`, or ends with it.
fn find_session(
    change: &Transaction<'_>,
    named: &str,
) -> Option<(BranchName, turntree::object::ObjectId)> {
    let main = BranchName::main(named).ok();
    let exact = main.and_then(|main| change.tip(&main).map(|tip| (main, tip)));
    exact.or_else(|| {
        let all = change.main_branches().into_iter();
        all.filter(|(name, _)| is_named(name.session(), named)).max_by_key(|(name, _)| name.clone())
    })
}

/// Returns true if a session is called `named`, which clients put a date or the like before.
pub(crate) fn is_named(session: &str, named: &str) -> bool {
    let Some(before) = session.strip_suffix(named) else { return false };
    !named.is_empty() && (before.is_empty() || before.ends_with(['-', '_', '.']))
}

/// The session that a file goes on from, as its first records say.
///
/// # Errors
/// As of [`import`](super::transcript) for what cannot be read.
pub(crate) fn forked_from(format: &Format, input: impl BufRead) -> Result<Option<String>> {
    let FormatReader::Records(Records { split, lineage: Some(lineage), .. }) = &format.reader
    else {
        return Ok(None);
    };
    let (head, input) = unpacked(Box::new(input))?;
    let mut bytes = 0;
    for piece in split(Box::new(Cursor::new(head).chain(input))).take(MAX_HELD) {
        let piece = piece?;
        bytes += piece.bytes.len();
        let is_record = matches!(piece.kind, PieceKind::Record { .. });
        let record = if is_record { json::value(&piece.bytes) } else { None };
        match record.as_ref().map_or(RecordOrigin::Unknown, lineage.origin) {
            RecordOrigin::Unknown if bytes < MAX_HELD_BYTES => {}
            RecordOrigin::Unknown | RecordOrigin::Here => return Ok(None),
            RecordOrigin::From { session, .. } | RecordOrigin::Behind { session, .. } => {
                return Ok(Some(session));
            }
        }
    }
    Ok(None)
}
