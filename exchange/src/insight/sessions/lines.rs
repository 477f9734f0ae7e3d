//! Finds the first prompt of a line and the number of its prompts.

use std::collections::HashMap;

use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Prompts, Repository};

/// The prompts of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinePrompts {
    pub(super) first: Option<ObjectId>,
    pub(super) count: u64,
}

/// The known lines, keyed by tip. A walk stops where it meets one.
#[derive(Debug, Default)]
pub(super) struct KnownLines(pub(super) HashMap<ObjectId, LinePrompts>);

impl KnownLines {
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
        if let Some(line) = self.0.get(&tip) {
            return Ok(*line);
        }
        let count = prompts.count(&tip)?;
        let mut first = None;
        for entry in repo.history(&[tip], &[])?.first_parent() {
            let entry = entry?;
            if let Some(LinePrompts { first: Some(known), .. }) = self.0.get(&entry.id) {
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
        self.0.insert(tip, line);
        Ok(line)
    }
}
