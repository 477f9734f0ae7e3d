//! Finds the first prompt of each line and the number of its prompts. Caches them in a note next to
//! the store. The note holds ids and numbers, no content, and may be deleted at any time.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Prompts, Repository};
use turntree::workspace::{read_note, write_note};

/// The name of the note.
const NOTE: &str = "first prompts";

const VERSION: u32 = 1;

/// A process that has the note in memory writes it once 1/64 of it changed: the note of many
/// sessions is large, and a running session changes it all the time.
const WRITE_SHARE: usize = 64;

/// The prompts of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinePrompts {
    pub(super) first: Option<ObjectId>,
    pub(super) count: u64,
}

/// The known lines, keyed by tip.
#[derive(Debug, Clone)]
pub(super) struct FirstPrompts {
    lines: HashMap<ObjectId, LinePrompts>,
    /// The number of lines that the note lacks.
    new: usize,
    /// True if the note was written or read before. A few new lines are then not worth a write.
    is_stored: bool,
}

/// The note: the first prompt and the number of prompts of each line, keyed by tip.
#[derive(Serialize, Deserialize)]
struct StoredPrompts {
    version: u32,
    tips: HashMap<String, (Option<String>, u64)>,
}

impl FirstPrompts {
    /// Reads the note of a store.
    pub(super) fn read(repo: &Repository) -> Self {
        let stored = read_note(repo.store(), NOTE)
            .and_then(|bytes| serde_json::from_slice::<StoredPrompts>(&bytes).ok())
            .filter(|stored| stored.version == VERSION);
        let line = |(tip, (first, count)): (String, (Option<String>, u64))| {
            let first = match first {
                Some(first) => Some(first.parse().ok()?),
                None => None,
            };
            Some((tip.parse().ok()?, LinePrompts { first, count }))
        };
        let lines = stored.into_iter().flat_map(|stored| stored.tips).filter_map(line).collect();
        Self { lines, new: 0, is_stored: false }
    }

    /// Returns the prompts of the line of a session. If it has no prompt, uses the first prompt of
    /// the main branch.
    pub(super) fn of(
        &mut self,
        repo: &Repository,
        prompts: &mut Prompts<'_>,
        (name, tip): (&str, ObjectId),
    ) -> Result<LinePrompts> {
        let mut line = self.line(repo, prompts, tip)?;
        let main = BranchName::main(name).ok().and_then(|main| repo.tip(&main));
        if let Some(main) = main.filter(|_| line.first.is_none()) {
            // A branch without a common history describes the session less well than the main
            // branch.
            line.first = self.line(repo, prompts, main)?.first;
        }
        Ok(line)
    }

    /// Finds the prompts of the line of `tip`. Stops at a known line.
    fn line(
        &mut self,
        repo: &Repository,
        prompts: &mut Prompts<'_>,
        tip: ObjectId,
    ) -> Result<LinePrompts> {
        if let Some(line) = self.lines.get(&tip) {
            return Ok(*line);
        }
        let count = prompts.count(&tip)?;
        let mut first = None;
        for entry in repo.history(&[tip], &[])?.first_parent() {
            let entry = entry?;
            if let Some(LinePrompts { first: Some(known), .. }) = self.lines.get(&entry.id) {
                first = Some(*known);
                break;
            }
            if let Some(number) = prompts.number(&entry)? {
                first = Some(entry.id);
                if number == 1 {
                    break;
                }
            }
        }
        let line = LinePrompts { first, count };
        self.lines.insert(tip, line);
        self.new += 1;
        Ok(line)
    }

    /// Forgets the lines with other tips.
    pub(super) fn retain_tips(&mut self, is_tip: impl Fn(&ObjectId) -> bool) {
        self.lines.retain(|tip, _| is_tip(tip));
    }

    /// Writes the note if enough lines are new.
    pub(super) fn write(&mut self, repo: &Repository) {
        let worth = if self.is_stored { self.lines.len() / WRITE_SHARE } else { 0 };
        if self.new > worth {
            // If the write fails, the next process searches again.
            let _ = self.write_note(repo);
            self.new = 0;
        }
        self.is_stored = true;
    }

    fn write_note(&self, repo: &Repository) -> Result<()> {
        let tip = |(tip, line): (&ObjectId, &LinePrompts)| {
            (tip.to_string(), (line.first.map(|first| first.to_string()), line.count))
        };
        let stored = StoredPrompts { version: VERSION, tips: self.lines.iter().map(tip).collect() };
        let bytes = serde_json::to_vec(&stored)
            .map_err(|source| Error::invalid("first prompts").with_source(source))?;
        write_note(repo.store(), NOTE, &bytes)
    }
}
