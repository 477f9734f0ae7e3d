//! Begins turns that do not continue the previous turn: after a rewind, and at the start of a fork.

use bytes::Bytes;
use turntree::context::sections::{FILES, MAIN_MESSAGES, META};
use turntree::context::{Builder, Context, Transcript};
use turntree::error::Result;
use turntree::object::{Commit, ObjectId};
use turntree::repo::{BranchName, SnapshotDraft};
use turntree::tree::List;

use super::super::source::source_kind;
use super::side_branches::SideBranches;
use super::{ROOT, TurnWriter, fact};
use crate::import::rewind::{RewindPoint, Timeline, point_in_copies};
use crate::model::event::Event;
use crate::model::report::ImportedBranch;
use crate::text::piece::Piece;

/// Sections that a rewind does not change, besides the transcript: the facts about the session, and
/// the workspace.
const KEPT_SECTIONS: [&str; 2] = [META, FILES];

impl TurnWriter<'_> {
    /// Returns the current context.
    pub(super) fn context(&mut self) -> Result<Context> {
        let tree = self.builder.write(&mut self.transaction)?;
        Context::open(&self.transaction, &tree)
    }

    /// Rewinds to the state of the conversation after the piece `to`. The next turn begins with the
    /// piece `at`. A branch keeps the abandoned turns. Does nothing if the turn of `to` is missing.
    pub(crate) fn rewind(&mut self, at: u64, to: Option<u64>) -> Result<()> {
        let now = self.context()?;
        let source = Transcript::open(&self.transaction, &now)?;
        let place = match to.filter(|to| *to < source.copied()) {
            Some(to) => self.point_in_copies(&source, to)?,
            None => {
                let (session, branch) = (self.branch.session(), &self.branch);
                let timeline = match self.timeline.take() {
                    Some(timeline) => timeline,
                    None => Timeline::of_session(&self.transaction, session, branch, &source)?,
                };
                let place = timeline.point_at(&self.transaction, to)?;
                self.timeline = Some(timeline);
                place
            }
        };
        let Some(place) = place else { return Ok(()) };
        self.abandon_turns(place.base)?;
        self.set_context(&place, &now, &KEPT_SECTIONS, at)
    }

    /// Returns the state of the conversation after the copied piece `to`: a turn of the session that
    /// the piece was copied from.
    fn point_in_copies(&self, source: &Transcript, to: u64) -> Result<Option<RewindPoint>> {
        let session = self.branch.session();
        let others = self.transaction.branches_of(session).into_iter().map(|(_, tip)| tip);
        let tips: Vec<ObjectId> =
            self.transaction.tip(&self.branch).into_iter().chain(others).collect();
        let places = source.places(&self.transaction)?;
        let end = usize::try_from(to).unwrap_or(usize::MAX).saturating_add(1);
        if places.iter().take(end).all(Option::is_none) {
            return Ok(Some(RewindPoint { base: None, part: None }));
        }
        point_in_copies(&self.transaction, (session, &tips), source, &places, to)
    }

    /// Stores a piece at the start of a fork: a copy of a piece of `base`, or a piece between
    /// copies. Only its facts are applied.
    pub(crate) fn copy(
        &mut self,
        piece: &Piece,
        base: Option<(&List, u64)>,
        events: Vec<Event>,
    ) -> Result<()> {
        let parts = (source_kind(self.format.side_paths, piece), &piece.suffix, &piece.bytes);
        match base {
            Some(base) => self.copies.copy(&mut self.transaction, base, parts)?,
            None => self.copies.whole(&mut self.transaction, parts)?,
        }
        self.apply_facts(piece, events)
    }

    /// Returns true if there are copied pieces and the fork has not begun yet.
    pub(crate) fn has_copies(&self) -> bool {
        self.copies.pieces() > 0
    }

    /// Returns the copied pieces. The caller imports them as records of the file itself, because
    /// the other session has no turn where they end.
    pub(crate) fn take_copies(&mut self) -> Result<Transcript> {
        let mut builder = Builder::new();
        std::mem::take(&mut self.copies).finish(&mut self.transaction, &mut builder)?;
        let tree = builder.write(&mut self.transaction)?;
        Transcript::open(&self.transaction, &Context::open(&self.transaction, &tree)?)
    }

    /// Begins the fork at a place of another session, with the source and facts so far. Files that
    /// a hook captured before the first record are added on top of that place.
    pub(crate) fn begin_fork(&mut self, place: &RewindPoint) -> Result<()> {
        std::mem::take(&mut self.copies).finish(&mut self.transaction, &mut self.builder)?;
        let now = self.context()?;
        let at = Transcript::open(&self.transaction, &now)?.len();
        // A file that has only copies gets a snapshot, too.
        self.pending.pieces += at;
        let seen = self.transaction.tip(&self.branch);
        self.transaction.move_branch(&self.branch, place.base);
        self.set_context(place, &now, &[META], at)?;
        let Some(base) = place.base else { return Ok(()) };
        if at > 0 {
            self.pending.copy_of = Some(self.transaction.read_commit(&base)?.session);
        }
        // The fork keeps the root of file paths of the other session.
        let below = self.transaction.read_commit(&base)?.tree;
        let below = Context::open(&self.transaction, &below)?;
        let root = fact(&self.transaction, &below, ROOT)?;
        let is_same = root == self.root;
        self.root = root.clone();
        let root = root.map(Bytes::from);
        self.builder.set_entry(&mut self.transaction, META, ROOT, root)?;
        let Some(seen) = seen.filter(|_| is_same) else { return Ok(()) };
        self.builder.set_as_in(&mut self.transaction, FILES, &now)?;
        self.commit_files_onto(&seen, Some(base))
    }

    /// Commits the files of the snapshot `seen` as a new snapshot on top of `base`.
    fn commit_files_onto(&mut self, seen: &ObjectId, base: Option<ObjectId>) -> Result<()> {
        let change = &mut self.transaction;
        let seen = change.read_commit(seen)?;
        let base = base.map(|base| change.read_commit(&base)).transpose()?;
        let Some(below) = base.map(|base| base.tree) else { return Ok(()) };
        let files = Context::open(change, &seen.tree)?;
        let mut builder = Builder::from(Context::open(change, &below)?);
        builder.set_as_in(change, FILES, &files)?;
        let tree = builder.write(change)?;
        if tree != below {
            let Commit { author, time, trigger, message, metadata, .. } = seen;
            let draft = SnapshotDraft { tree, author, time, trigger, message, metadata };
            change.snapshot(&self.branch, draft)?;
        }
        Ok(())
    }

    /// Returns the branches of abandoned turns.
    pub(crate) fn abandoned_branches(&self) -> Vec<ImportedBranch> {
        let abandoned = |branch: &BranchName| {
            let head = self.transaction.tip(branch)?;
            Some(ImportedBranch { branch: branch.clone(), turns: 0, messages: 0, head })
        };
        self.left.iter().filter_map(abandoned).collect()
    }

    /// Moves the branch to `base` and gives the abandoned turns a branch. After a rewind without
    /// new messages, the abandoned turns already have one.
    fn abandon_turns(&mut self, base: Option<ObjectId>) -> Result<()> {
        if self.pending.begins.is_some() && self.pending.messages == 0 {
            self.transaction.move_branch(&self.branch, base);
            return Ok(());
        }
        let tip = self.transaction.tip(&self.branch).filter(|tip| Some(*tip) != base);
        let Some(tip) = tip else { return Ok(()) };
        let others = self
            .side_branches
            .get_or_insert_with(|| SideBranches::of(&self.transaction, &self.branch));
        if !others.has_tip(&tip) {
            // If the base is the tip of an abandoned branch, the two branches swap names.
            let name = match base.and_then(|base| others.take_by_tip(&base)) {
                Some(name) => name,
                None => others.free_name(&self.transaction, &self.branch)?,
            };
            others.add(name.clone(), tip);
            self.transaction.move_branch(&name, Some(tip));
            if !self.left.contains(&name) {
                self.left.push(name);
            }
        }
        self.transaction.move_branch(&self.branch, base);
        Ok(())
    }

    /// Sets the context to the state at `place`. The transcript and the sections `kept` are
    /// taken from `now`. The next turn begins with the piece `at`.
    fn set_context(
        &mut self,
        place: &RewindPoint,
        now: &Context,
        kept: &[&str],
        at: u64,
    ) -> Result<()> {
        let below = match &place.base {
            Some(base) => {
                Context::open(&self.transaction, &self.transaction.read_commit(base)?.tree)?
            }
            None => Context::default(),
        };
        self.builder = Builder::from(below);
        self.builder.set_transcript_as_in(&mut self.transaction, now)?;
        for section in kept {
            self.builder.set_as_in(&mut self.transaction, section, now)?;
        }
        if let Some((turn, messages)) = &place.part {
            self.builder.set_as_in(&mut self.transaction, MAIN_MESSAGES, turn)?;
            let len = self.builder.list_len(&self.transaction, MAIN_MESSAGES)?;
            self.builder.splice(&mut self.transaction, MAIN_MESSAGES, *messages..len, vec![])?;
        }
        self.pending.begins = Some(at);
        Ok(())
    }

    /// Sets `source` to the first `pieces` pieces of `stored`. The source of the commit below
    /// belongs to another file, or is a shorter part of this one.
    pub(crate) fn begin_source(&mut self, stored: &Transcript, pieces: u64) -> Result<()> {
        self.pending.begins = Some(pieces);
        self.builder.clear(&mut self.transaction, META)?;
        self.builder.set_transcript(&mut self.transaction, stored, pieces)
    }

    /// Applies only the facts among the events of a piece.
    pub(crate) fn apply_facts(&mut self, piece: &Piece, events: Vec<Event>) -> Result<()> {
        let facts = events.into_iter().filter(|event| matches!(event, Event::Meta { .. }));
        facts.into_iter().try_for_each(|fact| self.apply_event(piece, fact))
    }
}
