//! A position in one level of a tree: it moves forward and opens only the nodes that it needs.
//!
//! A tree read from the left is the run of the top level, then the run of the level below it, and
//! so on down to the unfinished leaves. A cursor keeps these runs as a stack, the top level on top,
//! and pushes the run of every node that it opens. Its memory is one node per level.

use bytes::Bytes;

use super::boundary::TreeShape;
use super::entry::{EntryRun, NodeEntry};
use super::node::{Root, read_node};
use crate::error::Result;
use crate::object::ObjectSource;

/// A position in the sequence of entries of one level.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    shape: TreeShape,
    /// The level being walked; entries above it are opened or skipped whole.
    level: usize,
    /// Number of items before this position.
    position: u64,
    /// The bottom frame is the level's unfinished run and stays; other frames are popped when
    /// finished.
    stack: Vec<CursorFrame>,
}

#[derive(Debug, Clone)]
struct CursorFrame {
    level: usize,
    run: EntryRun,
    next: usize,
    /// The key before the run; empty if there is none.
    floor: Bytes,
}

impl CursorFrame {
    /// Returns the key before the next entry; empty if there is none.
    fn lower_bound(&self) -> &Bytes {
        let before = self.next.checked_sub(1).and_then(|index| self.run.get(index));
        before.map_or(&self.floor, |entry| &entry.key)
    }
}

impl Cursor {
    /// Creates a cursor at the start of `level` of the tree under `root`.
    pub(super) fn new(root: &Root, level: usize) -> Self {
        let mut floor = Bytes::new();
        let mut stack = Vec::new();
        for level in (level..root.runs.len().max(level + 1)).rev() {
            let run = root.runs.get(level).cloned().unwrap_or_default();
            let last = run.last().map_or_else(|| floor.clone(), |entry| entry.key.clone());
            stack.push(CursorFrame { level, run, next: 0, floor });
            floor = last;
        }
        stack.reverse();
        let mut cursor = Self { shape: root.shape, level, position: 0, stack };
        cursor.pop_finished_runs();
        cursor
    }

    /// Returns the number of items before this position.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next entry and its level, which is above the cursor's until its node is opened.
    pub(super) fn peek(&self) -> Option<(usize, &NodeEntry)> {
        let frame = self.stack.last()?;
        Some((frame.level, frame.run.get(frame.next)?))
    }

    /// Returns the key that all remaining keys exceed; empty if there is none.
    pub(super) fn lower_bound(&self) -> &[u8] {
        self.stack.last().map_or(&[], |frame| frame.lower_bound())
    }

    /// Returns true at the start of a node of the cursor's level, or of its unfinished run.
    pub(super) fn at_node_start(&self) -> bool {
        self.stack.last().is_none_or(|frame| frame.level > self.level || frame.next == 0)
    }

    /// Returns the next entry of the cursor's level, or `None` at the end.
    pub(super) fn next(&mut self, source: &dyn ObjectSource) -> Result<Option<NodeEntry>> {
        while let Some((level, entry)) = self.peek() {
            if level == self.level {
                let entry = entry.clone();
                self.skip();
                return Ok(Some(entry));
            }
            self.open(source)?;
        }
        Ok(None)
    }

    /// Moves forward to the entry that contains or begins at item `target`.
    pub(super) fn seek(&mut self, source: &dyn ObjectSource, target: u64) -> Result<()> {
        self.seek_above(source, target, self.level)
    }

    /// Moves forward to the start of the node that contains item `target`, or of the unfinished
    /// run.
    pub(super) fn seek_node(&mut self, source: &dyn ObjectSource, target: u64) -> Result<()> {
        self.seek_above(source, target, self.level + 1)
    }

    /// Moves forward to the first entry whose key is at least `key`; for cursors over leaves.
    pub(super) fn seek_key(&mut self, source: &dyn ObjectSource, key: &[u8]) -> Result<()> {
        while let Some((level, entry)) = self.peek() {
            if entry.key.as_ref() < key {
                self.skip();
            } else if level > self.level {
                self.open(source)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Skips the next entry with everything below it.
    pub(super) fn skip(&mut self) {
        if let Some(frame) = self.stack.last_mut()
            && let Some(entry) = frame.run.get(frame.next)
        {
            self.position += entry.count;
            frame.next += 1;
        }
        self.pop_finished_runs();
    }

    /// Opens the node of the next entry, which is above the cursor's level.
    pub(super) fn open(&mut self, source: &dyn ObjectSource) -> Result<()> {
        let Some(frame) = self.stack.last_mut() else { return Ok(()) };
        let Some(entry) = frame.run.get(frame.next) else { return Ok(()) };
        let level = frame.level.saturating_sub(1);
        let floor = frame.lower_bound().clone();
        let run = read_node(source, self.shape, level, entry, &floor)?;
        frame.next += 1;
        self.stack.push(CursorFrame { level, run, next: 0, floor });
        Ok(())
    }

    fn seek_above(&mut self, source: &dyn ObjectSource, target: u64, least: usize) -> Result<()> {
        while let Some((level, entry)) = self.peek().filter(|(level, _)| *level >= least) {
            if self.position + entry.count <= target {
                self.skip();
            } else if self.position < target && level > least {
                self.open(source)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Pops finished runs.
    fn pop_finished_runs(&mut self) {
        while self.stack.len() > 1
            && self.stack.last().is_some_and(|frame| frame.next >= frame.run.len())
        {
            self.stack.pop();
        }
    }
}
