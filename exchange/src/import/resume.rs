//! Finds the point where a transcript resumes that a session already knows, partly or completely.
//!
//! Only records count: two files agree up to their first different record, regardless of the bytes
//! between records. A header that changes with every save, or a closing bracket that moves, is not
//! a rewrite.

use std::cell::OnceCell;
use std::iter::Peekable;

use turntree::context::sections::META;
use turntree::context::{SourceEntry, SourceKind, Transcript};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, LogEntry, Repository};

use super::rewind::{free_name, source_start};
use super::rollback::{free_client_branch, is_client_branch_of, rolled_back_turns};
use crate::import::source::source_kind;
use crate::model::format::RecordFormat;
use crate::text::piece::Piece;

/// The relation of a file to a session.
pub(crate) enum Relation {
    /// A branch has every record of the file. The import has nothing to do.
    Known(KnownFile),
    /// The file has records that the branch lacks.
    Resumed(Box<ResumePoint>),
}

/// The branch that has every record of a file.
pub(crate) struct KnownFile {
    pub(crate) branch: BranchName,
    pub(crate) head: ObjectId,
    /// True if the file has turns that were rolled back from the branch.
    pub(crate) was_longer: bool,
}

/// The point where a file resumes, and the pieces that were read to find it.
pub(crate) struct ResumePoint {
    /// The branch that gets the new turns.
    pub(crate) branch: BranchName,
    /// The branch that was rolled back, if the client continues from the rolled-back turns.
    pub(crate) rolled_back: Option<BranchName>,
    /// The commit that the import continues from. `None` for a new branch.
    pub(crate) base: Option<ObjectId>,
    /// The number of pieces in the source of that commit.
    pub(crate) base_pieces: u64,
    /// The stored source that the file starts with. At least as long as the source of the base.
    pub(crate) stored: Transcript,
    /// The number of stored pieces up to the last common record.
    pub(crate) common: u64,
    /// The number of stored pieces that the file repeats exactly.
    pub(crate) keep: u64,
    /// The pieces of the file from there to the last common record, if they differ from the stored
    /// ones.
    pub(crate) replacement: Vec<SourceEntry>,
    /// The pieces that were read beyond the last common record.
    pub(crate) lookahead: Vec<Piece>,
    /// True if the base came from a document of another format. The new source then replaces its
    /// source.
    pub(crate) restart: bool,
    /// True if the source of the base is not a prefix of `stored`.
    pub(crate) is_detached: bool,
    /// The new name of the old content of the file, if the file was rewound in place.
    pub(crate) abandoned: Option<AbandonedLine>,
}

/// The old content of a file that was rewound in place and then continued differently.
#[derive(Debug, Clone)]
pub(crate) struct AbandonedLine {
    /// The branch that keeps the old content.
    pub(crate) branch: BranchName,
    pub(crate) tip: ObjectId,
    /// The number of pieces in its source.
    pub(crate) pieces: u64,
}

/// The branches that a transcript may continue.
#[derive(Clone, Copy)]
pub(crate) enum BranchScope<'a> {
    /// Any branch of the session that has its records.
    Session(&'a str),
    /// This branch, or a branch of its client. A transcript without common records is added on top
    /// of it.
    Branch(&'a BranchName),
}

impl BranchScope<'_> {
    /// The session of its branches.
    pub(super) fn session(&self) -> &str {
        match self {
            BranchScope::Session(session) => session,
            BranchScope::Branch(name) => name.session(),
        }
    }

    /// True if it has this branch of its session.
    pub(super) fn has(self, repo: &Repository, branch: &BranchName) -> Result<bool> {
        match self {
            BranchScope::Session(_) => Ok(true),
            BranchScope::Branch(name) => {
                Ok(branch == name || is_client_branch_of(repo, branch, name)?)
            }
        }
    }
}

/// Reads `pieces` up to the first record that no branch of the line has. `write` stores a piece and
/// returns its source entry.
pub(crate) fn find_resume_point(
    repo: &Repository,
    line: BranchScope<'_>,
    format: RecordFormat,
    pieces: &mut dyn Iterator<Item = Result<Piece>>,
    mut write: impl FnMut(&Piece) -> Result<SourceEntry>,
) -> Result<Relation> {
    let mut matching = candidates(repo, line, format)?;
    if matching.is_empty() {
        let branch = match line {
            BranchScope::Session(session) => BranchName::main(session)?,
            BranchScope::Branch(branch) => branch.clone(),
        };
        return start_branch(repo, branch, format).map(|point| Relation::Resumed(Box::new(point)));
    }
    let mut difference = Difference::default();
    let mut group: Vec<Piece> = Vec::new();
    while let Some(piece) = pieces.next().transpose()? {
        let is_record = source_kind(format.side_paths, &piece) == SourceKind::Record;
        group.push(piece);
        if !is_record {
            continue;
        }
        let described: Vec<DescribedPiece<'_>> =
            group.iter().map(|piece| describe_piece(repo, format.side_paths, piece)).collect();
        let accepted = matching
            .iter_mut()
            .map(|candidate| candidate.advance(&described))
            .collect::<Result<Vec<bool>>>()?;
        if !accepted.contains(&true) {
            let is_unknown = matching.iter().all(|candidate| candidate.common == 0);
            let point = match line {
                BranchScope::Branch(branch) if is_unknown => {
                    resume_on_top(repo, branch.clone(), group)
                }
                _ => diverging_point(repo, format, matching, difference, group)?,
            };
            return Ok(Relation::Resumed(Box::new(point)));
        }
        let mut accepted = accepted.into_iter();
        matching.retain(|_| accepted.next().unwrap_or(false));
        difference.add(&matching, &group, &mut write)?;
        group.clear();
    }
    let side_paths = format.side_paths;
    relation_at_end(repo, matching, difference, group, side_paths)
}

/// A branch whose records agree with the file so far.
struct Candidate<'r> {
    branch: BranchName,
    /// The branch that was rolled back, if this candidate consists of the rolled-back turns.
    rolled_back: Option<BranchName>,
    tip: ObjectId,
    list: Transcript,
    entries: Peekable<Box<dyn Iterator<Item = Result<SourceEntry>> + 'r>>,
    position: u64,
    common: u64,
    keep: u64,
    exact: bool,
}

impl Candidate<'_> {
    /// Advances past a record and the pieces before it. Returns false, without passing the record,
    /// if the branch has a different record.
    fn advance(&mut self, group: &[DescribedPiece<'_>]) -> Result<bool> {
        if self.exact {
            self.exact = group.iter().try_fold(true, |equal, entry| {
                Ok::<_, turntree::Error>(equal && self.skip_if(|stored| entry.is_equal_to(stored))?)
            })?;
            if self.exact {
                (self.common, self.keep) = (self.position, self.position);
                return Ok(true);
            }
        }
        let Some(record) = group.last() else { return Ok(true) };
        while self.skip_if(|stored| Ok(stored.kind != SourceKind::Record))? {}
        let same = self.skip_if(|stored| record.has_content(stored))?;
        if same {
            self.common = self.position;
        }
        Ok(same)
    }

    /// Returns the relation of a file whose every record is known. For rolled-back turns, reports
    /// the branch that was rolled back.
    fn relation(&self, repo: &Repository) -> Result<Relation> {
        let branch = self.rolled_back.as_ref().unwrap_or(&self.branch);
        let tip = if self.rolled_back.is_some() { repo.tip(branch) } else { None };
        let was_longer = self.rolled_back.is_some() && self.common > 0;
        let (branch, head) = (branch.clone(), tip.unwrap_or(self.tip));
        Ok(Relation::Known(KnownFile { branch, head, was_longer }))
    }

    /// Returns true if the file has every record of this branch.
    fn is_exhausted(&mut self) -> Result<bool> {
        while self.skip_if(|stored| Ok(stored.kind != SourceKind::Record))? {}
        Ok(self.entries.peek().is_none())
    }

    fn skip_if(&mut self, wanted: impl FnOnce(&SourceEntry) -> Result<bool>) -> Result<bool> {
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

/// The pieces of the file from the first difference to a branch that still agrees in its records.
#[derive(Default)]
struct Difference {
    passed: u64,
    from: u64,
    entries: Vec<SourceEntry>,
}

impl Difference {
    fn add(
        &mut self,
        matching: &[Candidate<'_>],
        group: &[Piece],
        write: &mut impl FnMut(&Piece) -> Result<SourceEntry>,
    ) -> Result<()> {
        if matching.iter().any(|candidate| !candidate.exact) {
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

    /// Returns the entries that follow the first `keep` pieces of the file.
    fn since(mut self, keep: u64) -> Vec<SourceEntry> {
        let known = usize::try_from(keep.saturating_sub(self.from)).unwrap_or(usize::MAX);
        self.entries.drain(..known.min(self.entries.len()));
        self.entries
    }
}

/// Returns the point where a file resumes that has a record which no branch has at this place.
fn diverging_point(
    repo: &Repository,
    format: RecordFormat,
    mut matching: Vec<Candidate<'_>>,
    difference: Difference,
    lookahead: Vec<Piece>,
) -> Result<ResumePoint> {
    let grown = longest_exhausted(&mut matching)?;
    let candidate = matching.swap_remove(grown.unwrap_or(0));
    let (mut restart, mut is_detached, mut left) = (false, false, None);
    let (branch, base, base_pieces) = match grown {
        Some(_) => (candidate.branch, Some(candidate.tip), candidate.list.len()),
        None => {
            let base = last_common_turn(repo, format, &candidate.tip, candidate.common)?;
            let (commit, pieces) = base.map_or((None, 0), |(id, pieces, _)| (Some(id), pieces));
            is_detached = base.is_some_and(|(_, _, is_detached)| is_detached);
            if let Some(id) = commit {
                restart = pieces == 0 && is_document_below(repo, format, &id)?;
            }
            let stem = candidate.rolled_back.as_ref().unwrap_or(&candidate.branch);
            let name = free_name(stem, |name| repo.tip(name).is_none())?;
            // The file is the conversation, so its branch continues with the new content of the
            // file. Another branch keeps the old content.
            if candidate.common > 0 && candidate.rolled_back.is_none() {
                let pieces_left = candidate.list.len();
                left =
                    Some(AbandonedLine { branch: name, tip: candidate.tip, pieces: pieces_left });
                (candidate.branch, commit, pieces)
            } else {
                (name, commit, pieces)
            }
        }
    };
    Ok(ResumePoint {
        branch,
        rolled_back: candidate.rolled_back.filter(|_| grown.is_some()),
        base,
        base_pieces,
        stored: candidate.list,
        common: candidate.common,
        keep: candidate.keep,
        replacement: difference.since(candidate.keep),
        lookahead,
        restart,
        is_detached,
        abandoned: left,
    })
}

/// Returns the relation of a file that ended after a known record.
fn relation_at_end(
    repo: &Repository,
    mut matching: Vec<Candidate<'_>>,
    difference: Difference,
    lookahead: Vec<Piece>,
    side_paths: &[&str],
) -> Result<Relation> {
    let tail: Vec<DescribedPiece<'_>> =
        lookahead.iter().map(|piece| describe_piece(repo, side_paths, piece)).collect();
    for candidate in &mut matching {
        let same_tail = candidate.exact
            && tail.iter().try_fold(true, |equal, entry| {
                Ok::<_, turntree::Error>(
                    equal && candidate.skip_if(|stored| entry.is_equal_to(stored))?,
                )
            })?
            && candidate.entries.peek().is_none();
        if same_tail {
            return candidate.relation(repo);
        }
    }
    let grown = longest_exhausted(&mut matching)?;
    let candidate = matching.swap_remove(grown.unwrap_or(0));
    if grown.is_none() {
        return candidate.relation(repo);
    }
    Ok(Relation::Resumed(Box::new(ResumePoint {
        branch: candidate.branch,
        rolled_back: candidate.rolled_back,
        base: Some(candidate.tip),
        base_pieces: candidate.list.len(),
        stored: candidate.list,
        common: candidate.common,
        keep: candidate.keep,
        replacement: difference.since(candidate.keep),
        lookahead,
        restart: false,
        is_detached: false,
        abandoned: None,
    })))
}

/// Returns the branch without further records that has the largest exact part of the file.
fn longest_exhausted(matching: &mut [Candidate<'_>]) -> Result<Option<usize>> {
    let mut best: Option<(u64, usize)> = None;
    for (index, candidate) in matching.iter_mut().enumerate() {
        if candidate.is_exhausted()? && best.is_none_or(|(keep, _)| candidate.keep > keep) {
            best = Some((candidate.keep, index));
        }
    }
    Ok(best.map(|(_, index)| index))
}

/// Returns true if `commit` holds a document that a transcript of `format` may continue without
/// repeating its records.
fn is_document_below(repo: &Repository, format: RecordFormat, commit: &ObjectId) -> Result<bool> {
    let Some(below) = format.continues else { return Ok(false) };
    let item = repo.context(commit)?.map(repo, META)?.get(repo, b"format")?;
    let Some(item) = item else { return Ok(false) };
    Ok(repo.read_as(Kind::Blob, &item.link.id)? == below)
}

/// Returns the branches of a line that have a source of this format.
fn candidates<'r>(
    repo: &'r Repository,
    line: BranchScope<'_>,
    format: RecordFormat,
) -> Result<Vec<Candidate<'r>>> {
    let (mut candidates, mut taken) = (Vec::new(), Vec::new());
    for (branch, tip) in repo.branches_of(line.session()) {
        if !line.has(repo, &branch)? {
            continue;
        }
        for tip in rolled_back_turns(repo, format, &tip)? {
            let list = Transcript::open(repo, &repo.context(&tip)?)?;
            let name = free_client_branch(repo, &branch)?;
            taken.push(open_candidate(repo, name, Some(branch.clone()), tip, list));
        }
        // A branch may have been rolled back to before its first record.
        let list = Transcript::open(repo, &repo.context(&tip)?)?;
        if !list.is_empty() && !is_document_below(repo, format, &tip)? {
            candidates.push(open_candidate(repo, branch, None, tip, list));
        }
    }
    // Try the main branch of the session first, so that it wins a tie.
    candidates.sort_by_key(|candidate| candidate.branch.branch() != turntree::repo::MAIN_BRANCH);
    // Rolled-back turns come last: a branch that still has the records wins.
    candidates.append(&mut taken);
    Ok(candidates)
}

fn open_candidate(
    repo: &Repository,
    branch: BranchName,
    rolled_back: Option<BranchName>,
    tip: ObjectId,
    list: Transcript,
) -> Candidate<'_> {
    let stored: Box<dyn Iterator<Item = Result<SourceEntry>>> =
        Box::new(list.pieces(repo, 0..list.len()).map(|piece| Ok(piece?.entry())));
    let entries = stored.peekable();
    let (position, common, keep, exact) = (0, 0, 0, true);
    Candidate { branch, rolled_back, tip, list, entries, position, common, keep, exact }
}

/// Returns the point for another transcript on top of a branch, with its own source.
fn resume_on_top(repo: &Repository, branch: BranchName, lookahead: Vec<Piece>) -> ResumePoint {
    ResumePoint {
        base: repo.tip(&branch),
        branch,
        rolled_back: None,
        base_pieces: 0,
        stored: Transcript::default(),
        common: 0,
        keep: 0,
        replacement: Vec::new(),
        lookahead,
        restart: false,
        is_detached: true,
        abandoned: None,
    }
}

/// Returns the point for a branch without a source: new, or continued from a manual snapshot.
fn start_branch(
    repo: &Repository,
    branch: BranchName,
    format: RecordFormat,
) -> Result<ResumePoint> {
    let base = repo.tip(&branch);
    let restart = base.map(|base| is_document_below(repo, format, &base)).transpose()?;
    Ok(ResumePoint {
        base,
        branch,
        rolled_back: None,
        base_pieces: 0,
        stored: Transcript::default(),
        common: 0,
        keep: 0,
        replacement: Vec::new(),
        lookahead: Vec::new(),
        restart: restart.unwrap_or(false),
        is_detached: false,
        abandoned: None,
    })
}

/// Returns the newest commit on the line of `tip` whose source ends within the first `common`
/// pieces, the number of pieces before the next turn, and true if these are not the pieces of the
/// commit's own source. Skips commits whose content expired, because it is unreadable.
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
        after = source_start(&commit).map(|pieces| (pieces, commit.session.clone()));
        if repo.tombstone(&commit.tree).is_some() {
            continue;
        }
        match above {
            Some((pieces, _)) if pieces <= common => return Ok(Some((id, pieces, true))),
            // A fork shares no pieces with the session that it was forked from.
            Some((_, session)) if session != commit.session => return Ok(None),
            _ => {}
        }
        let pieces = Transcript::open(repo, &repo.context(&id)?)?.len();
        // The source of the document is not part of the file.
        if pieces > 0 && is_document_below(repo, format, &id)? {
            return Ok(Some((id, 0, false)));
        }
        if pieces <= common {
            return Ok(Some((id, pieces, false)));
        }
    }
    Ok(None)
}

/// Returns the entry that a piece of the file would have in the store.
pub(super) fn describe_piece<'p>(
    repo: &'p Repository,
    side_paths: &[&str],
    piece: &'p Piece,
) -> DescribedPiece<'p> {
    let blob = ObjectId::of(Kind::Blob, &piece.bytes);
    let kind = source_kind(side_paths, piece);
    let entry = SourceEntry { blob, kind, suffix: piece.suffix.clone() };
    DescribedPiece { repo, piece, entry, others: OnceCell::new() }
}

/// A piece of the file, with the entry that it would have in the store.
pub(super) struct DescribedPiece<'p> {
    repo: &'p Repository,
    piece: &'p Piece,
    entry: SourceEntry,
    /// The other ids that the piece may have in the store, because it was imported with other
    /// settings. Looked up only if the ids differ.
    others: OnceCell<Vec<ObjectId>>,
}

impl DescribedPiece<'_> {
    /// Returns true if a stored piece equals this one.
    pub(super) fn is_equal_to(&self, stored: &SourceEntry) -> Result<bool> {
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
