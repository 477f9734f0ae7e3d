//! The outline of a line of turns: what a person asked for, and what came of each prompt.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use turntree::context::{FileEntry, MessageEntry, diff_section};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Kind, ObjectId, ObjectSource, Time, Trigger};
use turntree::repo::{LogEntry, Prompts, Repository, RollbackTarget};
use turntree::tree::Item;

use super::compare::{CHECK_PREFIX, PASSED};
use super::prices::PriceTable;
use super::spending::{Spending, turn_spending};
use super::turn_diff::{repeats, turn_diff};
use crate::formats::view;

/// The section of the conversation that prompts are said in.
const CONVERSATION: &str = "agents/main/messages";

/// The section of files.
const FILES: &str = "files";

/// Largest file whose lines are counted.
const MAX_COUNTED_BYTES: usize = 1 << 20;

/// A prompt with all that came of it, up to the next one.
#[derive(Debug, Clone, PartialEq)]
pub struct OutlinePart {
    /// The number of the prompt; `None` for the turns before the first one.
    pub prompt: Option<u64>,
    /// The turn in which it was said.
    pub id: ObjectId,
    /// The number of that turn.
    pub turn: u64,
    /// The words of the prompt in one line.
    pub words: String,
    /// The time of the prompt.
    pub time: Time,
    /// The time of the last turn that came of it.
    pub until: Time,
    /// Turns, that of the prompt included.
    pub turns: u64,
    /// What happened in these turns.
    pub facts: TurnFacts,
    /// Files that are different after them, with the lines that were added and removed.
    pub files: BTreeMap<String, ChangedFile>,
    /// Compactions of the context.
    pub compactions: u64,
    /// The newest result of each check: whether it passed.
    pub checks: BTreeMap<String, bool>,
    /// A rollback took it back.
    pub is_rolled_back: bool,
    /// Turns whose content retention has dropped: nothing of them is counted.
    pub expired: u64,
}

/// What happened in turns.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TurnFacts {
    /// Tools that were called.
    pub tools: u64,
    /// Results that say the tool failed.
    pub errors: u64,
    /// Changes of files, each file once a turn.
    pub file_changes: u64,
    /// What its answers took, and what they cost; `None` when none says so.
    pub spending: Option<Spending>,
}

/// How a file changed. Lines count as often as they occur, so a line that moved counts for nothing;
/// those of large and of binary files are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangedFile {
    /// Lines that were added.
    pub added: u64,
    /// Lines that were removed.
    pub removed: u64,
}

/// Returns what happened in a turn, compared with the one before it. Reads the messages that it
/// added; a compaction and a merge add none of their own. `None` when its content, or that before it,
/// was dropped.
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
pub fn turn_facts(
    repo: &Repository,
    entry: &LogEntry,
    prices: &PriceTable,
) -> Result<Option<TurnFacts>> {
    let Some(turn) = turn_diff(repo, entry)? else { return Ok(None) };
    let spending = turn_spending(repo.store(), &entry.commit, &turn, prices)?;
    let mut facts = TurnFacts { spending, ..TurnFacts::default() };
    for (section, diff) in turn.changed {
        if section == FILES {
            facts.file_changes = diff.changes.len() as u64;
        } else if section.ends_with("/messages") && !repeats(&entry.commit) {
            for item in diff.changes.iter().filter_map(|change| change.new.as_ref()) {
                add_message(repo, item, &mut facts)?;
            }
        }
    }
    Ok(Some(facts))
}

fn add_message(repo: &Repository, item: &Item, facts: &mut TurnFacts) -> Result<()> {
    let entry = MessageEntry::from_item(item)?;
    let view = match repo.store().read_as(Kind::Blob, &entry.blob) {
        Ok(bytes) => view(&entry.media, &bytes),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    facts.tools += view.tool_calls.len() as u64;
    facts.errors += view.tool_results.iter().filter(|result| result.is_error).count() as u64;
    Ok(())
}

/// Returns the outline of the line of first parents that ends in `tip`, the oldest prompt first.
/// Costs a read of every turn on it and of the messages that each added.
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
pub fn outline(
    repo: &Repository,
    tip: &ObjectId,
    prompts: &mut Prompts<'_>,
    prices: &PriceTable,
) -> Result<Vec<OutlinePart>> {
    let line = repo.history(&[*tip], &[])?.first_parent();
    let mut line = line.collect::<Result<Vec<LogEntry>>>()?;
    line.reverse();
    let mut parts: Vec<OutlinePart> = Vec::new();
    let mut base: Option<ObjectId> = None;
    let mut last: Option<ObjectId> = None;
    for entry in &line {
        let number = prompts.number(entry)?;
        if number.is_some() || parts.is_empty() {
            if let Some(part) = parts.last_mut() {
                part.files = files_between(repo, base.as_ref(), last.as_ref())?;
            }
            base = last;
            parts.push(OutlinePart::begin(number, entry));
        }
        if let Some(part) = parts.last_mut() {
            part.add(repo, entry, prices)?;
        }
        let back = RollbackTarget::of(&entry.commit);
        if let Some(back) = back.filter(|back| back.only.reaches(CONVERSATION)) {
            let to = repo.commit(&back.to)?.turn;
            let since = parts.iter_mut().filter(|part| part.prompt.is_some() && part.turn > to);
            since.for_each(|part| part.is_rolled_back = true);
        }
        last = Some(entry.id);
    }
    if let Some(part) = parts.last_mut() {
        part.files = files_between(repo, base.as_ref(), last.as_ref())?;
    }
    Ok(parts)
}

impl OutlinePart {
    fn begin(prompt: Option<u64>, entry: &LogEntry) -> Self {
        let LogEntry { id, commit, .. } = entry;
        Self {
            prompt,
            id: *id,
            turn: commit.turn,
            words: commit.message.clone(),
            time: commit.time,
            until: commit.time,
            turns: 0,
            facts: TurnFacts::default(),
            files: BTreeMap::new(),
            compactions: 0,
            checks: BTreeMap::new(),
            is_rolled_back: false,
            expired: 0,
        }
    }

    fn add(&mut self, repo: &Repository, entry: &LogEntry, prices: &PriceTable) -> Result<()> {
        let commit = &entry.commit;
        self.turns += 1;
        self.until = commit.time;
        self.compactions += u64::from(commit.trigger == Trigger::Compaction);
        for (key, result) in &commit.metadata {
            if let Some(name) = key.strip_prefix(CHECK_PREFIX) {
                self.checks.insert(name.to_owned(), result == PASSED);
            }
        }
        match turn_facts(repo, entry, prices)? {
            Some(TurnFacts { tools, errors, file_changes, spending }) => {
                self.facts.tools += tools;
                self.facts.errors += errors;
                self.facts.file_changes += file_changes;
                self.facts.spending = match (self.facts.spending, spending) {
                    (Some(sum), Some(more)) => Some(sum.plus(more)),
                    (sum, more) => sum.or(more),
                };
            }
            None => self.expired += 1,
        }
        Ok(())
    }
}

/// The files that differ between two turns; none where one of them was dropped.
fn files_between(
    repo: &Repository,
    before: Option<&ObjectId>,
    after: Option<&ObjectId>,
) -> Result<BTreeMap<String, ChangedFile>> {
    let source = repo.store();
    let files = |id: Option<&ObjectId>| match id.map(|id| repo.context(id)).transpose() {
        Ok(context) => context.unwrap_or_default().section(source, FILES).map(Some),
        Err(error) if error.kind() == ErrorKind::Expired => Ok(None),
        Err(error) => Err(error),
    };
    let (Some(before), Some(after)) = (files(before)?, files(after)?) else {
        return Ok(BTreeMap::new());
    };
    let mut changed = BTreeMap::new();
    for change in diff_section(source, before, after)? {
        let lines = lines_between(repo, change.old.as_ref(), change.new.as_ref())?;
        changed.insert(change.key, lines);
    }
    Ok(changed)
}

/// Returns the lines that differ between two states of a file; none for one whose lines are not counted.
pub(crate) fn lines_between(
    repo: &Repository,
    old: Option<&Item>,
    new: Option<&Item>,
) -> Result<ChangedFile> {
    let (old, new) = (content(repo, old)?, content(repo, new)?);
    Ok(old.zip(new).map_or_else(ChangedFile::default, lines_changed))
}

/// The text of a file, empty where there is none; `None` when its lines are not counted.
fn content(repo: &Repository, item: Option<&Item>) -> Result<Option<Bytes>> {
    let Some(item) = item else { return Ok(Some(Bytes::new())) };
    let blob = FileEntry::from_item(item)?.blob;
    match repo.store().read_as(Kind::Blob, &blob) {
        Ok(bytes) => {
            let is_counted = bytes.len() <= MAX_COUNTED_BYTES && !bytes.contains(&0);
            Ok(is_counted.then_some(bytes))
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired) => Ok(None),
        Err(error) => Err(error),
    }
}

fn lines_changed((old, new): (Bytes, Bytes)) -> ChangedFile {
    let mut counts: HashMap<&[u8], i64> = HashMap::new();
    for line in new.split_inclusive(|byte| *byte == b'\n') {
        *counts.entry(line).or_default() += 1;
    }
    for line in old.split_inclusive(|byte| *byte == b'\n') {
        *counts.entry(line).or_default() -= 1;
    }
    counts.values().fold(ChangedFile::default(), |mut sum, count| {
        match u64::try_from(*count) {
            Ok(more) => sum.added += more,
            Err(_) => sum.removed += count.unsigned_abs(),
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_as_often_as_they_occur() {
        let changed = |old: &'static str, new: &'static str| {
            let changed = lines_changed((old.into(), new.into()));
            (changed.added, changed.removed)
        };
        assert_eq!(changed("", "a\nb\n"), (2, 0));
        assert_eq!(changed("a\nb\n", "b\na\n"), (0, 0));
        assert_eq!(changed("a\na\nb\n", "a\nc\n"), (1, 2));
    }
}
