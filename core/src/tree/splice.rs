//! Edits: replaces ranges of items and rechunks the nodes, from the leaves up.
//!
//! An edit of a level starts at the node with the first change and feeds old and new entries to the
//! boundary rule. It ends where a new node starts at the start of an old one, because from there on
//! the rule would produce the existing nodes, up to the next change. The new nodes replace the old
//! ones: this is the edit of the next level.
//!
//! ```text
//! level 1    ..  A   B   C   D  ..            edit:  B C  ->  X Y
//! level 0    ..  a a|b b b|c c|d d d|  ..     edit:  one b ->  x x
//!                    |x x b b|b c c|          cut again from the start of B; D is met again
//! ```
//!
//! Every node is written once, however many edits it contains, and the unfinished right edge is no
//! special case: it is the last node, which did not end.

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use super::boundary::{Boundary, TreeShape};
use super::cursor::Cursor;
use super::entry::{EntryRun, NodeEntry, total};
use super::node::{Root, write_node};
use super::{MAX_ITEMS, MAX_LEVELS};
use crate::error::{Error, Result};
use crate::object::ObjectSink;

/// Entries of one level that replace others.
#[derive(Debug)]
pub(super) struct Splice {
    /// Items of the old tree to remove, in whole entries of the level.
    pub(super) range: Range<u64>,
    /// The replacement entries.
    pub(super) entries: Vec<NodeEntry>,
}

/// Returns the tree with `splices` applied to its leaves. They are sorted and do not overlap.
///
/// Cost: O(log n) nodes read and written per changed place, plus the new entries.
pub(super) fn apply(
    root: &Root,
    sink: &mut dyn ObjectSink,
    mut splices: Vec<Splice>,
) -> Result<Root> {
    let mut runs = root.runs.clone();
    let mut level = 0;
    while !splices.is_empty() {
        if level >= MAX_LEVELS {
            return Err(Error::limit("levels of a tree", MAX_LEVELS as u64, level as u64 + 1));
        }
        let (raised, run) = Rechunk::new(root, level, splices).run(sink)?;
        match (runs.get_mut(level), run) {
            (Some(slot), Some(run)) => *slot = run,
            (Some(_), None) => {}
            (None, run) => runs.push(run.unwrap_or_default()),
        }
        (splices, level) = (raised, level + 1);
    }
    while runs.len() > 1 && runs.last().is_some_and(|run| run.is_empty()) {
        runs.pop();
    }
    let root = Root { shape: root.shape, runs };
    match root.len() {
        ..=MAX_ITEMS => Ok(root),
        len => Err(Error::limit("items of a tree", MAX_ITEMS, len)),
    }
}

/// The rechunking of one level.
struct Rechunk {
    shape: TreeShape,
    level: usize,
    old: Cursor,
    /// Number of items of the old tree before the unfinished run of this level.
    closed_items: u64,
    splices: Peekable<IntoIter<Splice>>,
    boundary: Boundary,
    /// The node that is being filled.
    chunk: Vec<NodeEntry>,
    /// Nodes that ended since the last place that old and new share.
    closed: Vec<NodeEntry>,
}

impl Rechunk {
    fn new(root: &Root, level: usize, splices: Vec<Splice>) -> Self {
        Self {
            shape: root.shape,
            level,
            old: Cursor::new(root, level),
            closed_items: root.runs.iter().skip(level + 1).map(|run| total(run)).sum(),
            splices: splices.into_iter().peekable(),
            boundary: Boundary::new(root.shape, level),
            chunk: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Returns the splices of the level above, and the unfinished run if it changed.
    fn run(mut self, sink: &mut dyn ObjectSink) -> Result<(Vec<Splice>, Option<EntryRun>)> {
        let mut raised = Vec::new();
        while let Some(splice) = self.splices.peek() {
            self.old.seek_node(sink, splice.range.start)?;
            let start = self.old.position();
            let rejoined = self.region(sink)?;
            let entries = std::mem::take(&mut self.closed);
            let range = start..if rejoined { self.old.position() } else { self.closed_items };
            if !range.is_empty() || !entries.is_empty() {
                raised.push(Splice { range, entries });
            }
            if !rejoined {
                return Ok((raised, Some(self.chunk.into())));
            }
        }
        Ok((raised, None))
    }

    /// Rechunks from the start of a changed node to the next place that old and new share. Returns
    /// false if there is none before the end: then the rest of the chunk is unfinished.
    fn region(&mut self, sink: &mut dyn ObjectSink) -> Result<bool> {
        let mut changed = false;
        loop {
            if changed && self.chunk.is_empty() && self.old.at_node_start() {
                return Ok(true);
            }
            let position = self.old.position();
            if let Some(splice) = self.splices.next_if(|splice| splice.range.start == position) {
                self.old.seek(sink, splice.range.end)?;
                for entry in splice.entries {
                    self.feed(sink, entry)?;
                }
                changed = true;
            } else if let Some(entry) = self.old.next(sink)? {
                self.feed(sink, entry)?;
            } else {
                return Ok(false);
            }
        }
    }

    fn feed(&mut self, sink: &mut dyn ObjectSink, entry: NodeEntry) -> Result<()> {
        let ends = self.boundary.ends_with(&entry);
        self.chunk.push(entry);
        if ends {
            self.closed.push(write_node(sink, self.shape, self.level, &self.chunk)?);
            self.chunk.clear();
        }
        Ok(())
    }
}
