//! Finds the point where a transcript resumes that a session knows already, in part or whole.
//!
//! Records decide: two files agree as far as their records do, whatever stands between them. A
//! header that changes with every save, or a closing bracket that moves, is no rewrite.

use std::cell::OnceCell;
use std::iter::Peekable;

use turntree::context::{SourceEntry, SourceKind, Transcript};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, LogEntry, Repository};

use super::rewind::{begins, free_name};
use super::taken_back::{client_branch, is_line_of, taken_back};
use crate::import::source::source_kind;
use crate::model::format::RecordFormat;
use crate::text::piece::Piece;

/// The relation of a file to a session.
pub(crate) enum Relation {
    /// Every record is known: the branch has it, and nothing is to be done.
    Known(KnownFile),
    /// Something follows that the branch does not have.
    Resumed(Box<ResumePoint>),
}

/// The branch that knows every record of a file.
pub(crate) struct KnownFile {
    pub(crate) branch: BranchName,
    pub(crate) head: ObjectId,
    /// The file has turns that were taken back of the branch.
    pub(crate) was_longer: bool,
}

/// The point where a file resumes, and the pieces that were read to find it.
pub(crate) struct ResumePoint {
    /// The branch that will have it.
    pub(crate) branch: BranchName,
    /// The branch that this one was taken back of, when the client goes on with what a rollback took.
    pub(crate) beside: Option<BranchName>,
    /// The commit it goes on from; `None` for a first one.
    pub(crate) base: Option<ObjectId>,
    /// Pieces in that commit's source.
    pub(crate) base_pieces: u64,
    /// The stored source whose beginning is known: at least the base's.
    pub(crate) stored: Transcript,
    /// Pieces of it up to the last common record.
    pub(crate) common: u64,
    /// Pieces of it that the file has exactly so.
    pub(crate) keep: u64,
    /// The file's pieces from there to the last common record, where they differ from the stored ones.
    pub(crate) replacement: Vec<SourceEntry>,
    /// Pieces read beyond the last common record.
    pub(crate) lookahead: Vec<Piece>,
    /// The base came from a document of another format: its source makes room for this one.
    pub(crate) restart: bool,
    /// The source of the base is another one than the first pieces of `stored`.
    pub(crate) apart: bool,
    /// What the file had before it was cut back: the new name of that line.
    pub(crate) left: Option<LeftLine>,
}

/// The line that a file had before it was cut back and went on otherwise.
#[derive(Debug, Clone)]
pub(crate) struct LeftLine {
    /// The branch that keeps it.
    pub(crate) branch: BranchName,
    pub(crate) tip: ObjectId,
    /// Pieces of its source.
    pub(crate) pieces: u64,
}

/// The line that a transcript continues.
#[derive(Clone, Copy)]
pub(crate) enum Line<'a> {
    /// Whichever branch of the session knows it.
    Session(&'a str),
    /// This branch, or a line of its client: a transcript that they do not know goes on top of it.
    Branch(&'a BranchName),
}

impl Line<'_> {
    pub(super) fn has(self, repo: &Repository, branch: &BranchName) -> Result<bool> {
        match self {
            Line::Session(session) => Ok(branch.session() == session),
            Line::Branch(name) => Ok(branch == name || is_line_of(repo, branch, name)?),
        }
    }
}

/// Reads `pieces` as far as the line knows them. `write` stores a piece and describes it.
pub(crate) fn find_resume_point(
    repo: &Repository,
    line: Line<'_>,
    format: RecordFormat,
    pieces: &mut dyn Iterator<Item = Result<Piece>>,
    mut write: impl FnMut(&Piece) -> Result<SourceEntry>,
) -> Result<Relation> {
    let mut alive = candidates(repo, line, format)?;
    if alive.is_empty() {
        let branch = match line {
            Line::Session(session) => BranchName::main(session)?,
            Line::Branch(branch) => branch.clone(),
        };
        return fresh(repo, branch, format).map(|point| Relation::Resumed(Box::new(point)));
    }
    let mut differing = Differing::default();
    let mut group: Vec<Piece> = Vec::new();
    while let Some(piece) = pieces.next().transpose()? {
        let is_record = source_kind(format.side_paths, &piece) == SourceKind::Record;
        group.push(piece);
        if !is_record {
            continue;
        }
        let described: Vec<DescribedPiece<'_>> =
            group.iter().map(|piece| describe(repo, format.side_paths, piece)).collect();
        let accepted = alive
            .iter_mut()
            .map(|candidate| candidate.advance(&described))
            .collect::<Result<Vec<bool>>>()?;
        if !accepted.contains(&true) {
            let is_unknown = alive.iter().all(|candidate| candidate.common == 0);
            let point = match line {
                Line::Branch(branch) if is_unknown => on_top(repo, branch.clone(), group),
                _ => join(repo, format, alive, differing, group)?,
            };
            return Ok(Relation::Resumed(Box::new(point)));
        }
        let mut accepted = accepted.into_iter();
        alive.retain(|_| accepted.next().unwrap_or(false));
        differing.note(&alive, &group, &mut write)?;
        group.clear();
    }
    let side_paths = format.side_paths;
    at_end(repo, alive, differing, group, side_paths)
}

/// A branch whose records agree with the file so far.
struct Candidate<'r> {
    branch: BranchName,
    /// The branch of which this was taken back.
    beside: Option<BranchName>,
    tip: ObjectId,
    list: Transcript,
    entries: Peekable<Box<dyn Iterator<Item = Result<SourceEntry>> + 'r>>,
    position: u64,
    common: u64,
    keep: u64,
    exact: bool,
}

impl Candidate<'_> {
    /// Passes a record with what stands before it; false when the record is another one, which is
    /// then not passed.
    fn advance(&mut self, group: &[DescribedPiece<'_>]) -> Result<bool> {
        if self.exact {
            self.exact = group.iter().try_fold(true, |equal, entry| {
                Ok::<_, turntree::Error>(equal && self.pass_if(|stored| entry.is(stored))?)
            })?;
            if self.exact {
                (self.common, self.keep) = (self.position, self.position);
                return Ok(true);
            }
        }
        let Some(record) = group.last() else { return Ok(true) };
        while self.pass_if(|stored| Ok(stored.kind != SourceKind::Record))? {}
        let same = self.pass_if(|stored| record.has_content(stored))?;
        if same {
            self.common = self.position;
        }
        Ok(same)
    }

    /// Returns the relation of a file whose every record is here: of turns that were taken back,
    /// the branch that went back has it.
    fn known(&self, repo: &Repository) -> Result<Relation> {
        let branch = self.beside.as_ref().unwrap_or(&self.branch);
        let tip = if self.beside.is_some() { repo.tip(branch) } else { None };
        let was_longer = self.beside.is_some() && self.common > 0;
        let (branch, head) = (branch.clone(), tip.unwrap_or(self.tip));
        Ok(Relation::Known(KnownFile { branch, head, was_longer }))
    }

    /// Returns true if the file has every record of this branch.
    fn is_exhausted(&mut self) -> Result<bool> {
        while self.pass_if(|stored| Ok(stored.kind != SourceKind::Record))? {}
        Ok(self.entries.peek().is_none())
    }

    fn pass_if(&mut self, wanted: impl FnOnce(&SourceEntry) -> Result<bool>) -> Result<bool> {
        let is_wanted = match self.entries.peek() {
            None => return Ok(false),
            Some(Ok(entry)) => wanted(entry)?,
            Some(Err(_)) => true,
        };
        if is_wanted {
            self.entries.next().transpose()?;
            self.position += 1;
        }
        Ok(is_wanted)
    }
}

/// The file's pieces since a branch that still agrees first differed in anything.
#[derive(Default)]
struct Differing {
    passed: u64,
    from: u64,
    entries: Vec<SourceEntry>,
}

impl Differing {
    fn note(
        &mut self,
        alive: &[Candidate<'_>],
        group: &[Piece],
        write: &mut impl FnMut(&Piece) -> Result<SourceEntry>,
    ) -> Result<()> {
        if alive.iter().any(|candidate| !candidate.exact) {
            if self.entries.is_empty() {
                self.from = self.passed;
            }
            for piece in group {
                self.entries.push(write(piece)?);
            }
        }
        self.passed += group.len() as u64;
        Ok(())
    }

    /// The entries that follow the first `keep` pieces of the file.
    fn since(mut self, keep: u64) -> Vec<SourceEntry> {
        let known = usize::try_from(keep.saturating_sub(self.from)).unwrap_or(usize::MAX);
        self.entries.drain(..known.min(self.entries.len()));
        self.entries
    }
}

/// The file has a record that no branch has at this place.
fn join(
    repo: &Repository,
    format: RecordFormat,
    mut alive: Vec<Candidate<'_>>,
    differing: Differing,
    lookahead: Vec<Piece>,
) -> Result<ResumePoint> {
    let grown = longest_exhausted(&mut alive)?;
    let candidate = alive.swap_remove(grown.unwrap_or(0));
    let (mut restart, mut apart, mut left) = (false, false, None);
    let (branch, base, base_pieces) = match grown {
        Some(_) => (candidate.branch, Some(candidate.tip), candidate.list.len()),
        None => {
            let base = last_common_turn(repo, format, &candidate.tip, candidate.common)?;
            let (commit, pieces) = base.map_or((None, 0), |(id, pieces, _)| (Some(id), pieces));
            apart = base.is_some_and(|(_, _, apart)| apart);
            if let Some(id) = commit {
                restart = pieces == 0 && is_document_below(repo, format, &id)?;
            }
            let stem = candidate.beside.as_ref().unwrap_or(&candidate.branch);
            let name = free_name(stem, |name| repo.tip(name).is_none())?;
            // The file is the conversation: its branch goes on with what the file has now.
            if candidate.common > 0 && candidate.beside.is_none() {
                let pieces_left = candidate.list.len();
                left = Some(LeftLine { branch: name, tip: candidate.tip, pieces: pieces_left });
                (candidate.branch, commit, pieces)
            } else {
                (name, commit, pieces)
            }
        }
    };
    Ok(ResumePoint {
        branch,
        beside: candidate.beside.filter(|_| grown.is_some()),
        base,
        base_pieces,
        stored: candidate.list,
        common: candidate.common,
        keep: candidate.keep,
        replacement: differing.since(candidate.keep),
        lookahead,
        restart,
        apart,
        left,
    })
}

/// The file has ended, and every record of it is known.
fn at_end(
    repo: &Repository,
    mut alive: Vec<Candidate<'_>>,
    differing: Differing,
    lookahead: Vec<Piece>,
    side_paths: &[&str],
) -> Result<Relation> {
    let tail: Vec<DescribedPiece<'_>> =
        lookahead.iter().map(|piece| describe(repo, side_paths, piece)).collect();
    for candidate in &mut alive {
        let same_tail = candidate.exact
            && tail.iter().try_fold(true, |equal, entry| {
                Ok::<_, turntree::Error>(equal && candidate.pass_if(|stored| entry.is(stored))?)
            })?
            && candidate.entries.peek().is_none();
        if same_tail {
            return candidate.known(repo);
        }
    }
    let grown = longest_exhausted(&mut alive)?;
    let candidate = alive.swap_remove(grown.unwrap_or(0));
    if grown.is_none() {
        return candidate.known(repo);
    }
    Ok(Relation::Resumed(Box::new(ResumePoint {
        branch: candidate.branch,
        beside: candidate.beside,
        base: Some(candidate.tip),
        base_pieces: candidate.list.len(),
        stored: candidate.list,
        common: candidate.common,
        keep: candidate.keep,
        replacement: differing.since(candidate.keep),
        lookahead,
        restart: false,
        apart: false,
        left: None,
    })))
}

/// The branch, of those without further records, that has most of the file exactly.
fn longest_exhausted(alive: &mut [Candidate<'_>]) -> Result<Option<usize>> {
    let mut best: Option<(u64, usize)> = None;
    for (index, candidate) in alive.iter_mut().enumerate() {
        if candidate.is_exhausted()? && best.is_none_or(|(keep, _)| candidate.keep > keep) {
            best = Some((candidate.keep, index));
        }
    }
    Ok(best.map(|(_, index)| index))
}

/// Returns true if `commit` is what a transcript of `format` may go on from without having its
/// records.
fn is_document_below(repo: &Repository, format: RecordFormat, commit: &ObjectId) -> Result<bool> {
    let Some(below) = format.continues else { return Ok(false) };
    let item = repo.context(commit)?.map(repo.store(), "meta")?.get(repo.store(), b"format")?;
    let Some(item) = item else { return Ok(false) };
    Ok(repo.store().read_as(Kind::Blob, &item.link.id)? == below)
}

/// The branches of a line that have a source of this kind.
fn candidates<'r>(
    repo: &'r Repository,
    line: Line<'_>,
    format: RecordFormat,
) -> Result<Vec<Candidate<'r>>> {
    let (mut candidates, mut taken) = (Vec::new(), Vec::new());
    for (branch, tip) in repo.branches() {
        if !line.has(repo, &branch)? {
            continue;
        }
        for tip in taken_back(repo, format, &tip)? {
            let list = Transcript::open(repo.store(), &repo.context(&tip)?)?;
            let name = client_branch(repo, &branch)?;
            taken.push(candidate(repo, name, Some(branch.clone()), tip, list));
        }
        // A branch may have gone back to before the first record.
        let list = Transcript::open(repo.store(), &repo.context(&tip)?)?;
        if !list.is_empty() && !is_document_below(repo, format, &tip)? {
            candidates.push(candidate(repo, branch, None, tip, list));
        }
    }
    // The session's main branch is tried first, so that it wins where several agree.
    candidates.sort_by_key(|candidate| candidate.branch.branch() != turntree::repo::MAIN_BRANCH);
    // What a branch has already is not taken for what was taken back of another one.
    candidates.append(&mut taken);
    Ok(candidates)
}

fn candidate(
    repo: &Repository,
    branch: BranchName,
    beside: Option<BranchName>,
    tip: ObjectId,
    list: Transcript,
) -> Candidate<'_> {
    let stored: Box<dyn Iterator<Item = Result<SourceEntry>>> =
        Box::new(list.pieces(repo.store(), 0..list.len()).map(|piece| Ok(piece?.entry())));
    let entries = stored.peekable();
    let (position, common, keep, exact) = (0, 0, 0, true);
    Candidate { branch, beside, tip, list, entries, position, common, keep, exact }
}

/// Another transcript goes on where a branch is, with a source of its own.
fn on_top(repo: &Repository, branch: BranchName, lookahead: Vec<Piece>) -> ResumePoint {
    ResumePoint {
        base: repo.tip(&branch),
        branch,
        beside: None,
        base_pieces: 0,
        stored: Transcript::default(),
        common: 0,
        keep: 0,
        replacement: Vec::new(),
        lookahead,
        restart: false,
        apart: true,
        left: None,
    }
}

/// A branch without a source begins, or goes on from what somebody snapshotted by hand.
fn fresh(repo: &Repository, branch: BranchName, format: RecordFormat) -> Result<ResumePoint> {
    let base = repo.tip(&branch);
    let restart = base.map(|base| is_document_below(repo, format, &base)).transpose()?;
    Ok(ResumePoint {
        base,
        branch,
        beside: None,
        base_pieces: 0,
        stored: Transcript::default(),
        common: 0,
        keep: 0,
        replacement: Vec::new(),
        lookahead: Vec::new(),
        restart: restart.unwrap_or(false),
        apart: false,
        left: None,
    })
}

/// The newest commit on the line of `tip` whose source ends within the first `common` pieces, how many
/// pieces come before what follows it, and whether these are not what its own source has. One whose
/// content retention has dropped is no place to go on from, as what it had cannot be read.
fn last_common_turn(
    repo: &Repository,
    format: RecordFormat,
    tip: &ObjectId,
    common: u64,
) -> Result<Option<(ObjectId, u64, bool)>> {
    let mut after: Option<(u64, String)> = None;
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let LogEntry { id, commit, .. } = entry?;
        let above = after.take();
        after = begins(&commit).map(|pieces| (pieces, commit.session.clone()));
        if repo.store().tombstone(&commit.tree).is_some() {
            continue;
        }
        match above {
            Some((pieces, _)) if pieces <= common => return Ok(Some((id, pieces, true))),
            // A fork has nothing of the session that it was forked from.
            Some((_, session)) if session != commit.session => return Ok(None),
            _ => {}
        }
        let pieces = Transcript::open(repo.store(), &repo.context(&id)?)?.len();
        // What the document below has is no part of the file.
        if pieces > 0 && is_document_below(repo, format, &id)? {
            return Ok(Some((id, 0, false)));
        }
        if pieces <= common {
            return Ok(Some((id, pieces, false)));
        }
    }
    Ok(None)
}

/// Describes a piece of the file as it would be stored.
pub(super) fn describe<'p>(
    repo: &'p Repository,
    side_paths: &[&str],
    piece: &'p Piece,
) -> DescribedPiece<'p> {
    let blob = ObjectId::of(Kind::Blob, &piece.bytes);
    let kind = source_kind(side_paths, piece);
    let entry = SourceEntry { blob, kind, suffix: piece.suffix.clone() };
    DescribedPiece { repo, piece, entry, others: OnceCell::new() }
}

/// A piece of the file, as it would be stored.
pub(super) struct DescribedPiece<'p> {
    repo: &'p Repository,
    piece: &'p Piece,
    entry: SourceEntry,
    /// The ids that it may have, since it came in under other settings; asked for when it differs.
    others: OnceCell<Vec<ObjectId>>,
}

impl DescribedPiece<'_> {
    /// Returns whether a stored piece is this one.
    pub(super) fn is(&self, stored: &SourceEntry) -> Result<bool> {
        let SourceEntry { kind, suffix, .. } = &self.entry;
        Ok(stored.kind == *kind && stored.suffix == *suffix && self.has_content(stored)?)
    }

    fn has_content(&self, stored: &SourceEntry) -> Result<bool> {
        if stored.blob == self.entry.blob {
            return Ok(true);
        }
        let others = match self.others.get() {
            Some(others) => others,
            None => {
                let content = self.piece.original.as_ref().unwrap_or(&self.piece.bytes);
                let others = self.repo.other_ids(content)?;
                self.others.get_or_init(|| others)
            }
        };
        Ok(others.contains(&stored.blob))
    }
}
