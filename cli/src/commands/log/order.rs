//! `log --graph`: the order in which snapshots are drawn, and the runs that are folded.
//!
//! A walk of history visits turns by number, so parallel branches would alternate line by line.
//! Here a branch is drawn from its newest snapshot to its fork point, then the next one.

use std::collections::{HashMap, HashSet};

use turntree::object::{ObjectId, Trigger};
use turntree::repo::LogEntry;

/// Minimum number of turns to fold into one line.
const MIN_RUN: usize = 3;

/// A line of a graph.
pub(super) enum GraphLine {
    /// A snapshot.
    Turn(LogEntry),
    /// Turns without events to show, newest first.
    Run {
        /// The newest of them.
        first: ObjectId,
        /// The parents of the oldest of them.
        parents: Vec<ObjectId>,
        turns: usize,
    },
}

impl GraphLine {
    /// Returns its newest snapshot, the parents of its oldest, and the number of its turns.
    pub(super) fn place(&self) -> (ObjectId, &[ObjectId], u64) {
        match self {
            Self::Turn(entry) => (entry.id, &entry.parents, 1),
            Self::Run { first, parents, turns } => (*first, parents, *turns as u64),
        }
    }
}

/// Returns the number of lines that no other line continues.
pub(super) fn tips(lines: &[GraphLine]) -> usize {
    let places = lines.iter().map(GraphLine::place);
    let parents: HashSet<ObjectId> = places.flat_map(|(_, parents, _)| parents).copied().collect();
    lines.iter().filter(|line| !parents.contains(&line.place().0)).count()
}

/// Sorts snapshots, children before parents, so that each branch is contiguous.
pub(super) fn by_branch(entries: Vec<LogEntry>) -> Vec<LogEntry> {
    let ids: Vec<ObjectId> = entries.iter().map(|entry| entry.id).collect();
    let mut children: HashMap<ObjectId, usize> = HashMap::new();
    for parent in entries.iter().flat_map(|entry| &entry.parents) {
        *children.entry(*parent).or_default() += 1;
    }
    let mut entries: HashMap<ObjectId, LogEntry> =
        entries.into_iter().map(|entry| (entry.id, entry)).collect();
    let is_tip = |id: &ObjectId| !children.contains_key(id);
    let mut open: Vec<ObjectId> = ids.iter().copied().filter(is_tip).collect();
    open.reverse();
    let mut ordered = Vec::with_capacity(ids.len());
    while let Some(id) = open.pop() {
        let Some(entry) = entries.remove(&id) else { continue };
        for parent in entry.parents.iter().rev() {
            if let Some(left) = children.get_mut(parent) {
                *left -= 1;
                if *left == 0 {
                    open.push(*parent);
                }
            }
        }
        ordered.push(entry);
    }
    ordered
}

/// Folds runs of turns without a name, a fork, a merge, or a trigger other than the end of a turn.
/// `is_event` marks further turns to show.
pub(super) fn without_runs(
    entries: Vec<LogEntry>,
    mut is_event: impl FnMut(&LogEntry) -> bool,
) -> Vec<GraphLine> {
    let mut children: HashMap<ObjectId, usize> = HashMap::new();
    let mut further: HashSet<ObjectId> = HashSet::new();
    for entry in &entries {
        for (at, parent) in entry.parents.iter().enumerate() {
            *children.entry(*parent).or_default() += 1;
            if at > 0 {
                further.insert(*parent);
            }
        }
    }
    let mut is_plain = |entry: &LogEntry| {
        children.get(&entry.id) == Some(&1)
            && !further.contains(&entry.id)
            && entry.parents.len() == 1
            && matches!(entry.commit.trigger, Trigger::Turn | Trigger::BeforeTool)
            && !is_event(entry)
    };
    let mut lines = Vec::new();
    let mut run: Vec<LogEntry> = Vec::new();
    for entry in entries {
        let goes_on = run.last().is_none_or(|last| last.parents.first() == Some(&entry.id));
        if is_plain(&entry) {
            if !goes_on {
                end_run(&mut run, &mut lines);
            }
            run.push(entry);
        } else {
            end_run(&mut run, &mut lines);
            lines.push(GraphLine::Turn(entry));
        }
    }
    end_run(&mut run, &mut lines);
    lines
}

fn end_run(run: &mut Vec<LogEntry>, lines: &mut Vec<GraphLine>) {
    match (run.first(), run.last()) {
        (Some(first), Some(last)) if run.len() >= MIN_RUN => {
            let (first, parents) = (first.id, last.parents.clone());
            lines.push(GraphLine::Run { first, parents, turns: run.len() });
            run.clear();
        }
        _ => lines.extend(run.drain(..).map(GraphLine::Turn)),
    }
}
