//! Outlines a line of turns: the prompts, and the work that followed each.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use turntree::context::sections::{FILES, MAIN_MESSAGES, is_conversation};
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

/// Largest file whose lines are counted.
const MAX_COUNTED_BYTES: usize = 1 << 20;

/// A prompt with the turns up to the next prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct OutlinePart {
    /// The number of the prompt; `None` for the turns before the first one.
    pub prompt: Option<u64>,
    /// The turn of the prompt.
    pub id: ObjectId,
    /// The number of that turn.
    pub turn: u64,
    /// The text of the prompt in one line.
    pub words: String,
    /// The time of the prompt.
    pub time: Time,
    /// The time of the last turn of the part.
    pub until: Time,
    /// The number of turns, including the turn of the prompt.
    pub turns: u64,
    /// The totals of these turns.
    pub facts: TurnFacts,
    /// The files that these turns changed, with the number of added and removed lines.
    pub files: BTreeMap<String, ChangedFile>,
    /// The number of compactions.
    pub compactions: u64,
    /// The newest result of each check: true if it passed.
    pub checks: BTreeMap<String, bool>,
    /// True if the prompt was rolled back.
    pub is_rolled_back: bool,
    /// The number of turns whose content expired. They are not counted.
    pub expired: u64,
}

/// The totals of some turns.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TurnFacts {
    /// The number of tool calls.
    pub tools: u64,
    /// The number of failed tool results.
    pub errors: u64,
    /// The number of changed files, counted once per turn.
    pub file_changes: u64,
    /// The usage and cost of the answers. `None` if no answer records it.
    pub spending: Option<Spending>,
}

/// The changed lines of a file. Lines are compared as a multiset, so a moved line does not count.
/// Lines of large and of binary files are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangedFile {
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
}

/// Returns the totals of a turn, compared with its parent. Reads the messages that the turn added.
/// Compactions and merges add no messages of their own. `None` if the content of the turn, or of
/// its parent, expired.
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub fn turn_facts(
    repo: &Repository,
    entry: &LogEntry,
    prices: &PriceTable,
) -> Result<Option<TurnFacts>> {
    let Some(turn) = turn_diff(repo, entry)? else { return Ok(None) };
    let spending = turn_spending(repo, &entry.commit, &turn, prices)?;
    let mut facts = TurnFacts { spending, ..TurnFacts::default() };
    for (section, diff) in turn.changed {
        if section == FILES {
            facts.file_changes = diff.changes.len() as u64;
        } else if is_conversation(&section) && !repeats(&entry.commit) {
            for item in diff.changes.iter().filter_map(|change| change.new.as_ref()) {
                add_message(repo, item, &mut facts)?;
            }
        }
    }
    Ok(Some(facts))
}

fn add_message(repo: &Repository, item: &Item, facts: &mut TurnFacts) -> Result<()> {
    let entry = MessageEntry::from_item(item)?;
    let view = match repo.read_as(Kind::Blob, &entry.blob) {
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

/// Returns the outline of the first-parent line of `tip`, the oldest prompt first. Reads every turn
/// on the line and the messages that each added.
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
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
                part.files = changed_files(repo, base.as_ref(), last.as_ref())?;
            }
            base = last;
            parts.push(OutlinePart::begin(number, entry));
        }
        if let Some(part) = parts.last_mut() {
            part.add(repo, entry, prices)?;
        }
        let back = RollbackTarget::of(&entry.commit);
        if let Some(back) = back.filter(|back| back.only.reaches(MAIN_MESSAGES)) {
            let to = repo.commit(&back.to)?.turn;
            let since = parts.iter_mut().filter(|part| part.prompt.is_some() && part.turn > to);
            since.for_each(|part| part.is_rolled_back = true);
        }
        last = Some(entry.id);
    }
    if let Some(part) = parts.last_mut() {
        part.files = changed_files(repo, base.as_ref(), last.as_ref())?;
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

/// Returns the files that differ between two turns. Empty if the content of either expired.
fn changed_files(
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
        let lines = changed_lines(repo, change.old.as_ref(), change.new.as_ref())?;
        changed.insert(change.key, lines);
    }
    Ok(changed)
}

/// Returns the number of lines that differ between two states of a file. Zero if its lines are not
/// counted.
pub(crate) fn changed_lines(
    repo: &Repository,
    old: Option<&Item>,
    new: Option<&Item>,
) -> Result<ChangedFile> {
    let (old, new) = (content(repo, old)?, content(repo, new)?);
    Ok(old.zip(new).map_or_else(ChangedFile::default, count_changed_lines))
}

/// Returns the text of a file, empty for a missing file. `None` if its lines are not counted.
fn content(repo: &Repository, item: Option<&Item>) -> Result<Option<Bytes>> {
    let Some(item) = item else { return Ok(Some(Bytes::new())) };
    let blob = FileEntry::from_item(item)?.blob;
    match repo.read_as(Kind::Blob, &blob) {
        Ok(bytes) => {
            let is_counted = bytes.len() <= MAX_COUNTED_BYTES && !bytes.contains(&0);
            Ok(is_counted.then_some(bytes))
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired) => Ok(None),
        Err(error) => Err(error),
    }
}

fn count_changed_lines((old, new): (Bytes, Bytes)) -> ChangedFile {
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
    fn repeated_lines_are_counted_individually() {
        let changed = |old: &'static str, new: &'static str| {
            let changed = count_changed_lines((old.into(), new.into()));
            (changed.added, changed.removed)
        };
        assert_eq!(changed("", "a\nb\n"), (2, 0));
        assert_eq!(changed("a\nb\n", "b\na\n"), (0, 0));
        assert_eq!(changed("a\na\nb\n", "a\nc\n"), (1, 2));
    }
}
