//! The commit graph in memory: every commit reachable from some starts, read once and numbered.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSource};
use crate::repo::Grafts;
use crate::store::KnownLosses;

/// Commits and their parents.
///
/// Costs one object read and some 150 bytes per commit. Numbers are in the order of reading and
/// valid only in the graph.
#[derive(Debug, Default)]
pub(crate) struct CommitGraph {
    commits: Vec<GraphCommit>,
    /// The numbers of the parents of all commits, back to back, without duplicates per commit.
    parents: Vec<usize>,
    by_id: HashMap<ObjectId, usize>,
    /// The numbers of commits with a forgotten parent, and that parent.
    grafted: Vec<(usize, ObjectId)>,
    sessions: Vec<String>,
    by_session: HashMap<String, usize>,
    /// The known lost commits, whose parents are unknown.
    holes: Arc<KnownLosses>,
}

/// The facts about a commit that retention needs.
#[derive(Debug, Clone)]
pub(crate) struct GraphCommit {
    /// The id of the commit.
    pub id: ObjectId,
    /// The root of its context.
    pub tree: ObjectId,
    /// The number of its session, see [`CommitGraph::sessions`].
    pub session: usize,
    /// The number of its turn in the session.
    pub turn: u64,
    /// The time of the commit, in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// The numbers of its parents.
    parents: Range<usize>,
}

impl CommitGraph {
    /// Creates an empty graph of a store with these holes: history ends at a lost commit.
    #[must_use]
    pub(crate) fn with_holes(holes: Arc<KnownLosses>) -> Self {
        Self { holes, ..Self::default() }
    }

    /// Adds the commits reachable from `start` that are not in the graph yet, following grafts.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the unreadable commit.
    pub(crate) fn add(
        &mut self,
        source: &dyn ObjectSource,
        grafts: &Grafts,
        start: &ObjectId,
    ) -> Result<()> {
        let mut waiting = vec![*start];
        // A commit is numbered when it is read. Its parents are linked after the walk, when they
        // have numbers too.
        let mut links: Vec<(usize, Vec<ObjectId>)> = Vec::new();
        while let Some(id) = waiting.pop() {
            if self.by_id.contains_key(&id) {
                continue;
            }
            let bytes = source.read_as(Kind::Commit, &id)?;
            let commit = Commit::decode(&bytes).map_err(|error| error.at(id))?;
            let mut parents = grafts.parents(&commit);
            for parent in std::mem::take(&mut parents) {
                if !self.is_hole(source, &parent)? {
                    parents.push(parent);
                }
            }
            waiting.extend(parents.iter().rev());
            let number = self.number(id, &commit);
            let forgotten = commit.parents.iter().filter(|parent| grafts.is_forgotten(parent));
            self.grafted.extend(forgotten.map(|parent| (number, *parent)));
            links.push((number, parents));
        }
        for (number, parents) in links {
            self.link(number, &parents)?;
        }
        Ok(())
    }

    /// Returns true if the graph has the commit `id`.
    #[must_use]
    pub(crate) fn contains(&self, id: &ObjectId) -> bool {
        self.by_id.contains_key(id)
    }

    /// Returns the number of the commit `id`.
    #[must_use]
    pub(crate) fn find(&self, id: &ObjectId) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// Returns every commit, by number.
    #[must_use]
    pub(crate) fn commits(&self) -> &[GraphCommit] {
        &self.commits
    }

    /// Returns every session, by number.
    #[must_use]
    pub(crate) fn sessions(&self) -> &[String] {
        &self.sessions
    }

    /// Returns the number of a session.
    #[must_use]
    pub(crate) fn session_number(&self, name: &str) -> Option<usize> {
        self.by_session.get(name).copied()
    }

    /// Returns the numbers of the parents of a commit, first parent first.
    #[must_use]
    pub(crate) fn parents(&self, commit: &GraphCommit) -> &[usize] {
        self.parents.get(commit.parents.clone()).unwrap_or_default()
    }

    /// Returns the forgotten parents, with the number of the commit that names each.
    #[must_use]
    pub(crate) fn grafted(&self) -> &[(usize, ObjectId)] {
        &self.grafted
    }

    /// Counts the children of each commit, by number.
    #[must_use]
    pub(crate) fn child_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.commits.len()];
        for parent in &self.parents {
            if let Some(count) = counts.get_mut(*parent) {
                *count += 1;
            }
        }
        counts
    }

    /// Returns every number, children before their parents. Does not rely on turn numbers.
    #[must_use]
    pub(crate) fn children_first(&self) -> Vec<usize> {
        let mut waits_for = self.child_counts();
        let mut order: Vec<usize> =
            (0..).zip(&waits_for).filter(|(_, count)| **count == 0).map(|(at, _)| at).collect();
        let mut done = 0;
        while let Some(commit) = order.get(done).and_then(|at| self.commits.get(*at)) {
            for parent in self.parents(commit) {
                if let Some(count) = waits_for.get_mut(*parent) {
                    *count -= 1;
                    if *count == 0 {
                        order.push(*parent);
                    }
                }
            }
            done += 1;
        }
        order
    }

    /// Returns true if an object is a known loss.
    pub(in crate::maintenance) fn is_lost(&self, id: &ObjectId) -> bool {
        self.holes.is_lost(id)
    }

    fn is_hole(&self, source: &dyn ObjectSource, id: &ObjectId) -> Result<bool> {
        Ok(self.holes.is_lost(id) && !source.contains(id)?)
    }

    fn number(&mut self, id: ObjectId, commit: &Commit) -> usize {
        let session = match self.by_session.get(&commit.session) {
            Some(session) => *session,
            None => {
                let session = self.sessions.len();
                self.sessions.push(commit.session.clone());
                self.by_session.insert(commit.session.clone(), session);
                session
            }
        };
        let number = self.commits.len();
        self.commits.push(GraphCommit {
            id,
            tree: commit.tree,
            session,
            turn: commit.turn,
            time_micros: commit.time.micros,
            parents: 0..0,
        });
        self.by_id.insert(id, number);
        number
    }

    fn link(&mut self, number: usize, parents: &[ObjectId]) -> Result<()> {
        let start = self.parents.len();
        for id in parents {
            let parent = self.find(id).ok_or_else(|| Error::not_found(format!("commit {id}")))?;
            if !self.parents.get(start..).is_some_and(|known| known.contains(&parent)) {
                self.parents.push(parent);
            }
        }
        if let Some(commit) = self.commits.get_mut(number) {
            commit.parents = start..self.parents.len();
        }
        Ok(())
    }
}
