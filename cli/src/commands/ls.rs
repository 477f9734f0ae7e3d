//! `ls`: lists the entries of a context, level by level.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::object::ObjectId;

use super::Verb;
use crate::porcelain::read::entries::list;
use crate::porcelain::read::paths::with_similar;
use crate::porcelain::read::revision::resolve_entry;
use crate::program::complete::entries;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::json::ListedEntry;
use crate::view::output::{FAINT, NAME, Output};
use crate::view::render::entries_of;
use crate::view::render::{columns_of, count, padded, size};

/// List the entries of a context
///
/// Without a path it lists the sections; a path names a part of one: agents/main/messages,
/// files/src, scratchpad.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree ls
  turntree ls HEAD:files/src
  turntree ls nightly~3:agents/main/messages")]
pub(crate) struct Ls {
    /// A revision, optionally with a path
    #[arg(value_name = "REV[:PATH]", default_value = "HEAD", add = ArgValueCompleter::new(entries))]
    revision: String,
}

impl Verb for Ls {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let revision = resolve_entry(&repo, &self.revision)?;
        let context = repo.context(&revision.commit)?;
        let path = revision.path.unwrap_or_default();
        let entries = list(&repo, &context, &path);
        let entries = with_similar(&repo, &revision.commit, &path, entries)?;
        print(&mut run.out, revision.commit, path, entries)?;
        Ok(Answer::Yes)
    }
}

/// Prints a listing.
pub(crate) fn print(
    out: &mut Output,
    commit: ObjectId,
    path: String,
    entries: Vec<ListedEntry>,
) -> Result<()> {
    if out.json {
        out.record(&json::Listing { at: json::CommitId::new(commit.to_string()), path, entries })?;
        return Ok(());
    }
    let paint = out.paint;
    let width = entries.iter().map(|entry| columns_of(&entry.name)).max().unwrap_or(0).min(48);
    for entry in &entries {
        let about = match entry {
            ListedEntry { summary: Some(summary), role, .. } => {
                format!("{:<9}  {summary}", role.unwrap_or_default())
            }
            ListedEntry { size: Some(bytes), .. } => size(*bytes),
            ListedEntry { count: Some(n), .. } => count(*n, entries_of(&entry.name)),
            _ => String::new(),
        };
        let style = if matches!(entry.kind, "folder" | "section") { NAME } else { FAINT };
        let name = paint.paint(style, padded(&entry.name, width));
        writeln!(out, "{}", format!("{name}  {about}").trim_end())?;
    }
    Ok(())
}
