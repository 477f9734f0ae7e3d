//! Changes between two contexts as text: unified diffs of entries, conversations, or a summary.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use similar::{ChangeTag, TextDiff};
use turntree::context::sections::{FILES, Shown, facts, is_conversation};
use turntree::context::{FileEntry, FileMode, SectionChange, SectionDiff};
use turntree::object::{Kind, ObjectSource};
use turntree::tree::Item;

use super::conversation::write_messages;
use super::{columns_of, harmless, one_line, padded, size};
use crate::view::error::Result;
use crate::view::output::{ADDED, FAINT, NAME, Palette, REMOVED, STRONG};

/// Larger entries are named with their size, not compared.
const MAX_COMPARED_BYTES: usize = 4 << 20;

/// A comparison that takes longer becomes coarser.
const PATIENCE: Duration = Duration::from_secs(1);

/// Widest bar of a summary.
const BAR_WIDTH: usize = 40;

/// Writes changes of one section.
pub(crate) struct Changes<'a> {
    /// The source of contents.
    pub(crate) source: &'a dyn ObjectSource,
    /// Colours.
    pub(crate) paint: Palette,
}

/// A line of a summary.
#[derive(Debug)]
pub(crate) struct Stat {
    /// The path of the entry or section.
    pub(crate) path: String,
    /// Lines or entries added.
    pub(crate) added: usize,
    /// Lines or entries removed.
    pub(crate) removed: usize,
}

/// The shown content of an entry.
enum ShownChange {
    Text(String),
    Binary(usize),
}

impl Changes<'_> {
    /// Writes all changes of `section`.
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        section: &str,
        diff: &SectionDiff,
    ) -> Result<()> {
        let (added, removed) = (count(diff, |c| c.new.is_some()), count(diff, |c| c.old.is_some()));
        writeln!(
            out,
            "{}  {} {}",
            self.paint.paint(NAME.bold(), section),
            self.paint.paint(ADDED, format_args!("+{added}")),
            self.paint.paint(REMOVED, format_args!("-{removed}")),
        )?;
        if facts(section).shown == Shown::Count {
            return Ok(());
        }
        if is_conversation(section) {
            return write_messages((self.source, self.paint), out, diff);
        }
        diff.changes.iter().try_for_each(|change| self.write_entry(out, section, change))
    }

    /// Lines of a summary for `section`.
    pub(crate) fn stat(&self, section: &str, diff: &SectionDiff) -> Result<Vec<Stat>> {
        if facts(section).shown == Shown::Count || is_conversation(section) {
            let added = count(diff, |change| change.new.is_some());
            let removed = count(diff, |change| change.old.is_some());
            return Ok(vec![Stat { path: section.to_owned(), added, removed }]);
        }
        let mut stats = Vec::new();
        for change in &diff.changes {
            let (old, new) =
                (self.content(change.old.as_ref())?, self.content(change.new.as_ref())?);
            let (mut added, mut removed) = (0, 0);
            if let (ShownChange::Text(old), ShownChange::Text(new)) = (&old, &new) {
                for change in text_diff(old, new).iter_all_changes() {
                    added += usize::from(change.tag() == ChangeTag::Insert);
                    removed += usize::from(change.tag() == ChangeTag::Delete);
                }
            }
            stats.push(Stat { path: path_of(section, &change.key), added, removed });
        }
        Ok(stats)
    }

    fn write_entry(
        &self,
        out: &mut dyn Write,
        section: &str,
        change: &SectionChange,
    ) -> Result<()> {
        let path = path_of(section, &change.key);
        let (old, new) = (self.content(change.old.as_ref())?, self.content(change.new.as_ref())?);
        let side = |item: &Option<Item>, side: &str| match item {
            Some(_) => format!("{side}/{path}"),
            None => "(nothing)".to_owned(),
        };
        let (from, to) = (side(&change.old, "a"), side(&change.new, "b"));
        writeln!(out, "{}", self.paint.paint(STRONG, format_args!("--- {from}")))?;
        writeln!(out, "{}", self.paint.paint(STRONG, format_args!("+++ {to}")))?;
        if section == FILES {
            self.write_modes(out, change)?;
        }
        match (&old, &new) {
            (ShownChange::Text(old), ShownChange::Text(new)) => {
                Ok(self.write_hunks(out, old, new)?)
            }
            (old, new) => {
                let sizes =
                    format!("not text: {} before, {} after", size(old.len()), size(new.len()));
                Ok(writeln!(out, "{}", self.paint.paint(FAINT, sizes))?)
            }
        }
    }

    fn write_modes(&self, out: &mut dyn Write, change: &SectionChange) -> Result<()> {
        let mode = |item: &Option<Item>| {
            item.as_ref()
                .map(|item| Ok::<_, turntree::Error>(FileEntry::from_item(item)?.mode))
                .transpose()
        };
        let (old, new) = (mode(&change.old)?, mode(&change.new)?);
        if let Some(new) = new.filter(|new| old.unwrap_or(FileMode::Regular) != *new) {
            let what = match new {
                FileMode::Regular => "an ordinary file",
                FileMode::Executable => "an executable file",
                FileMode::Symlink => "a link",
            };
            writeln!(out, "{}", self.paint.paint(FAINT, format_args!("now {what}")))?;
        }
        Ok(())
    }

    fn write_hunks(&self, out: &mut dyn Write, old: &str, new: &str) -> io::Result<()> {
        // Entries of most sections end without a line end, so only a change of that is shown.
        let told = old.ends_with('\n') != new.ends_with('\n') && !old.is_empty() && !new.is_empty();
        let diff = text_diff(old, new);
        for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
            writeln!(out, "{}", self.paint.paint(NAME, hunk.header()))?;
            for change in hunk.iter_changes() {
                let (sign, style) = match change.tag() {
                    ChangeTag::Equal => (' ', anstyle::Style::new()),
                    ChangeTag::Delete => ('-', REMOVED),
                    ChangeTag::Insert => ('+', ADDED),
                };
                let line = harmless(change.value().trim_end_matches(['\n', '\r']));
                writeln!(out, "{}", self.paint.paint(style, format_args!("{sign}{line}")))?;
                if told && change.missing_newline() {
                    writeln!(out, "\\ No newline at end of file")?;
                }
            }
        }
        Ok(())
    }

    /// The content of an entry; empty if the entry does not exist.
    fn content(&self, item: Option<&Item>) -> Result<ShownChange> {
        let bytes = match item {
            Some(item) if item.link.kind == Kind::Blob => {
                self.source.read_as(Kind::Blob, &item.link.id)?
            }
            _ => Bytes::new(),
        };
        Ok(match std::str::from_utf8(&bytes) {
            Ok(text) if bytes.len() <= MAX_COMPARED_BYTES && !text.contains('\0') => {
                ShownChange::Text(text.to_owned())
            }
            _ => ShownChange::Binary(bytes.len()),
        })
    }
}

impl ShownChange {
    fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Binary(len) => *len as u64,
        }
    }
}

/// Writes a summary: a line for each entry, and the sum.
pub(crate) fn write_stats(out: &mut dyn Write, paint: Palette, stats: &[Stat]) -> io::Result<()> {
    let width = stats.iter().map(|stat| columns_of(&stat.path)).max().unwrap_or(0).min(60);
    let most = stats.iter().map(|stat| stat.added + stat.removed).max().unwrap_or(0);
    let scale = |n: usize| if most <= BAR_WIDTH { n } else { (n * BAR_WIDTH).div_ceil(most) };
    for stat in stats {
        writeln!(
            out,
            " {} | {:>5} {}{}",
            padded(&one_line(&stat.path, width), width),
            stat.added + stat.removed,
            paint.paint(ADDED, "+".repeat(scale(stat.added))),
            paint.paint(REMOVED, "-".repeat(scale(stat.removed))),
        )?;
    }
    let (added, removed) =
        stats.iter().fold((0, 0), |(a, r), stat| (a + stat.added, r + stat.removed));
    writeln!(out, " {} changed, +{added} -{removed}", stats.len())
}

/// The path of an entry; a section with a single blob is its own entry.
pub(crate) fn path_of(section: &str, key: &str) -> String {
    if key.is_empty() { section.to_owned() } else { format!("{section}/{key}") }
}

fn count(diff: &SectionDiff, is: impl Fn(&SectionChange) -> bool) -> usize {
    diff.changes.iter().filter(|change| is(change)).count()
}

fn text_diff<'a>(old: &'a str, new: &'a str) -> TextDiff<'a, 'a, str> {
    TextDiff::configure().timeout(PATIENCE).diff_lines(old, new)
}
