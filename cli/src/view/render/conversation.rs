//! Changes of a conversation as text: messages of one side only, then those of the other side only.
//!
//! Messages of two conversations are not versions of each other, so they are not compared side by
//! side. A long part is summarized by its prompts.

use std::io::Write;

use turntree::context::{MessageEntry, Role, SectionChange, SectionDiff};
use turntree::object::{Kind, ObjectSource};
use turntree::tree::Item;
use turntree_exchange::is_prompt;

use super::{count, message};
use crate::view::error::Result;
use crate::view::output::{ADDED, FAINT, Palette, REMOVED};

/// Maximum number of messages of one side to list one by one.
const MAX_LISTED: usize = 12;

/// Writes the removed messages of a conversation, then the added ones.
pub(super) fn write_messages(
    (source, paint): (&dyn ObjectSource, Palette),
    out: &mut dyn Write,
    diff: &SectionDiff,
) -> Result<()> {
    let of = |item: fn(&SectionChange) -> Option<&Item>| -> Vec<(&str, &Item)> {
        diff.changes.iter().filter_map(|it| Some((it.key.as_str(), item(it)?))).collect()
    };
    let (old, new) = (of(|change| change.old.as_ref()), of(|change| change.new.as_ref()));
    let is_parted = !old.is_empty() && !new.is_empty();
    for (messages, sign, style, side) in [(old, '-', REMOVED, "first"), (new, '+', ADDED, "second")]
    {
        if is_parted {
            let told = format!("{} only in the {side}", count(messages.len() as u64, "message"));
            writeln!(out, "{}", paint.paint(FAINT, told))?;
        }
        let is_listed = messages.len() <= MAX_LISTED;
        let mut between = 0;
        for (key, item) in messages {
            let entry = MessageEntry::from_item(item)?;
            let is_told = || -> Result<bool> {
                let read = || source.read_as(Kind::Blob, &entry.blob);
                Ok(entry.role == Role::User && is_prompt(&entry.media, &read()?))
            };
            if !is_listed && !is_told()? {
                between += 1;
                continue;
            }
            write_between(paint, out, &mut between)?;
            let summary = message::summary(source, &entry)?;
            let line = format!("{sign} {key:>5}  {:<9}  {summary}", entry.role.name());
            writeln!(out, "{}", paint.paint(style, line.trim_end()))?;
        }
        write_between(paint, out, &mut between)?;
    }
    Ok(())
}

/// Writes the number of skipped messages, and resets it.
fn write_between(paint: Palette, out: &mut dyn Write, between: &mut u64) -> Result<()> {
    if *between > 0 {
        let told = format!("         … {}", count(*between, "message"));
        writeln!(out, "{}", paint.paint(FAINT, told))?;
        *between = 0;
    }
    Ok(())
}
