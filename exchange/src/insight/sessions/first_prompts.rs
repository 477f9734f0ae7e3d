//! The first prompt of each line and how many there are, looked for once: a note beside the store keeps
//! them. It holds ids and numbers and no content, and may be deleted at any time.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Prompts, Repository};
use turntree::workspace::{read_note, write_note};

/// The name of the note.
const NOTE: &str = "first prompts";

const VERSION: u32 = 1;

/// Who has the note in memory writes it once it has changed by this part: the note of many sessions is
/// large, and one of them grows all the time.
const WORTH: usize = 64;

/// What was found of the prompts of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinePrompts {
    pub(super) first: Option<ObjectId>,
    pub(super) count: u64,
}

/// What is known of lines, by the tip of each.
#[derive(Debug, Clone)]
pub(super) struct FirstPrompts {
    lines: HashMap<ObjectId, LinePrompts>,
    /// Lines that the note does not have.
    new: usize,
    /// Whether they were there before those that are new: then few are not worth a note.
    is_kept: bool,
}

/// The note: the first prompt and the number of prompts by the tip of a line.
#[derive(Serialize, Deserialize)]
struct StoredPrompts {
    version: u32,
    tips: HashMap<String, (Option<String>, u64)>,
}

impl FirstPrompts {
    /// What the note beside a store has.
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
        Self { lines, new: 0, is_kept: false }
    }

    /// The prompts of the line of a session, with the first one of its main branch where it has none.
    pub(super) fn of(
        &mut self,
        repo: &Repository,
        prompts: &mut Prompts<'_>,
        (name, tip): (&str, ObjectId),
    ) -> Result<LinePrompts> {
        let mut line = self.line(repo, prompts, tip)?;
        let main = BranchName::main(name).ok().and_then(|main| repo.tip(&main));
        if let Some(main) = main.filter(|_| line.first.is_none()) {
            // A branch that somebody began from nothing says less than what the session is about.
            line.first = self.line(repo, prompts, main)?.first;
        }
        Ok(line)
    }

    /// Finds the first prompt of the line that ends in `tip`, down to what is known already.
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

    /// Forgets lines that end elsewhere.
    pub(super) fn keep_only(&mut self, is_tip: impl Fn(&ObjectId) -> bool) {
        self.lines.retain(|tip, _| is_tip(tip));
    }

    /// Writes the note, if there is enough new to say.
    pub(super) fn write(&mut self, repo: &Repository) {
        let worth = if self.is_kept { self.lines.len() / WORTH } else { 0 };
        if self.new > worth {
            // Without it the next one looks again.
            let _ = self.write_note(repo);
            self.new = 0;
        }
        self.is_kept = true;
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
