//! Walks over commits, newest first, from starts and without hidden ones.
//!
//! A commit's turn is greater than those of all its parents, so a heap ordered by turn yields every
//! commit after all its children, and a walk stops as soon as only hidden commits are left.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::object::{Commit, ObjectId, Time};
use crate::repo::{Grafts, Repository};

/// A commit with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The id of the commit.
    pub id: ObjectId,
    /// The commit.
    pub commit: Commit,
    /// The parents by which history continues: its own, or those of a graft.
    pub parents: Vec<ObjectId>,
}

/// A commit whose turn and time are known without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownTip {
    /// The id of the commit.
    pub id: ObjectId,
    /// The turn of the commit.
    pub turn: u64,
    /// The time of the commit.
    pub time: Time,
}

/// Commits reachable from some starts and from no hidden one, each once, children before parents.
///
/// An unreadable parent is reported as an error of its own, before the commit that names it. The
/// walk may continue then with everything else. Costs one object read per yielded commit, and
/// memory for the frontier and the seen commits.
#[derive(Debug)]
pub struct History<'r> {
    repo: &'r Repository,
    grafts: Arc<Grafts>,
    frontier: BinaryHeap<Frontier>,
    /// Every commit met, and the round that yields it: later rounds hide it.
    met: HashMap<ObjectId, usize>,
    round: usize,
    /// Commits in the frontier that are not known to be hidden.
    visible: usize,
    first_parent: bool,
    /// A commit with an unreadable parent.
    torn: Option<LogEntry>,
}

/// The round of commits that no round yields.
const HIDDEN: usize = 0;

/// A commit to visit.
#[derive(Debug)]
struct Frontier {
    tip: KnownTip,
    /// `None` until the walk reaches it.
    entry: Option<LogEntry>,
}

impl Repository {
    /// Walks from `starts`, without commits reachable from `hide`.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming an unreadable start.
    pub fn history(&self, starts: &[ObjectId], hide: &[ObjectId]) -> Result<History<'_>> {
        let mut history = History {
            repo: self,
            grafts: self.grafts()?,
            frontier: BinaryHeap::new(),
            met: HashMap::new(),
            round: HIDDEN,
            visible: 0,
            first_parent: false,
            torn: None,
        };
        history.continue_from(starts, hide)?;
        Ok(history)
    }

    /// Returns the commit of turn `turn` on the first-parent line of `from`.
    ///
    /// # Errors
    /// `NotFound`, naming the turn and the newest existing one. `Expired` if even the commit was
    /// forgotten.
    pub fn find_turn(&self, from: &ObjectId, turn: u64) -> Result<ObjectId> {
        let tip = self.commit(from)?;
        let newest = tip.turn;
        let mut forgotten = false;
        for entry in self.history(&[*from], &[])?.first_parent() {
            let LogEntry { id, commit, parents } = entry?;
            if commit.turn == turn {
                return Ok(id);
            }
            if commit.turn < turn {
                break;
            }
            forgotten = parents.first() != commit.parents.first();
        }
        if forgotten && turn < newest {
            return Err(self.expired(turn, &tip.session));
        }
        Err(Error::not_found(format!(
            "turn {turn} is not on this branch, whose newest turn is {newest}"
        )))
    }
}

impl History<'_> {
    /// Follows only first parents: the line of the branch itself.
    #[must_use]
    pub fn first_parent(mut self) -> Self {
        self.first_parent = true;
        self
    }

    /// Returns the commits from which a later walk continues, with the same hidden ones: no commit
    /// that this walk has yielded is reachable from them. Empty at the end.
    #[must_use]
    pub fn frontier(&self) -> Vec<ObjectId> {
        let is_visible = |id: &ObjectId| self.met.get(id) == Some(&self.round);
        let ids = self.frontier.iter().map(|Frontier { tip, .. }| tip.id);
        ids.filter(is_visible).collect()
    }

    /// Starts also at tips whose turns and times are known. Each is read when the walk reaches it,
    /// so a walk that ends early does not read all of them. One that cannot be read is an error of
    /// the walk then.
    #[must_use]
    pub fn with_known(mut self, tips: &[KnownTip]) -> Self {
        for tip in tips {
            if !self.met.contains_key(&tip.id) {
                self.met.insert(tip.id, self.round);
                self.visible += 1;
                self.frontier.push(Frontier { tip: *tip, entry: None });
            }
        }
        self
    }

    /// Continues from other starts, without commits reachable from `hide` or from earlier starts of
    /// this walk. Reads each commit once over all rounds.
    ///
    /// # Errors
    /// Errors of [`Repository::history`].
    pub(crate) fn continue_from(&mut self, starts: &[ObjectId], hide: &[ObjectId]) -> Result<()> {
        self.round += 1;
        // Commits that the previous round left unread are hidden from now on.
        self.visible = 0;
        for id in hide {
            self.visit(id, true)?;
        }
        for id in starts {
            self.visit(id, false)?;
        }
        Ok(())
    }

    fn visit(&mut self, id: &ObjectId, hide: bool) -> Result<()> {
        match self.met.get_mut(id) {
            Some(round) => {
                if hide && *round == self.round {
                    *round = HIDDEN;
                    self.visible -= 1;
                }
            }
            None => {
                let read = self.read(id)?;
                self.met.insert(*id, if hide { HIDDEN } else { self.round });
                self.visible += usize::from(!hide);
                self.frontier.push(read);
            }
        }
        Ok(())
    }

    fn read(&self, id: &ObjectId) -> Result<Frontier> {
        let commit = self.repo.commit(id)?;
        let tip = KnownTip { id: *id, turn: commit.turn, time: commit.time };
        let parents = self.grafts.parents(&commit);
        Ok(Frontier { tip, entry: Some(LogEntry { id: *id, commit, parents }) })
    }

    /// Returns the next commit of the frontier. Reads it, if it was only known.
    fn pop(&mut self) -> Result<Option<LogEntry>> {
        while let Some(Frontier { tip, entry }) = self.frontier.pop() {
            if entry.is_some() {
                return Ok(entry);
            }
            let read = self.read(&tip.id).inspect_err(|_| {
                self.visible -= usize::from(self.met.get(&tip.id) == Some(&self.round));
            })?;
            if read.tip == tip {
                return Ok(read.entry);
            }
            // The hint was wrong, so the turn and time of the commit decide.
            self.frontier.push(read);
        }
        Ok(None)
    }

    fn step(&mut self) -> Result<Option<LogEntry>> {
        if let Some(entry) = self.torn.take() {
            return Ok(Some(entry));
        }
        while self.visible > 0 {
            let Some(entry) = self.pop()? else { break };
            let hide = self.met.get(&entry.id) != Some(&self.round);
            self.visible -= usize::from(!hide);
            let parents = if self.first_parent { 1 } else { entry.parents.len() };
            let mut failed = None;
            for parent in entry.parents.iter().take(parents) {
                failed = self.visit(parent, hide).err().or(failed);
            }
            let entry = (!hide).then_some(entry);
            if let Some(error) = failed {
                self.torn = entry;
                return Err(error);
            }
            if entry.is_some() {
                return Ok(entry);
            }
        }
        Ok(None)
    }
}

impl Iterator for History<'_> {
    type Item = Result<LogEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

impl Ord for Frontier {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Self| (it.tip.turn, it.tip.time, it.tip.id);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Frontier {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Frontier {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Frontier {}
