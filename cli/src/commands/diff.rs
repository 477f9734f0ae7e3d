//! `diff`: shows the changes between two contexts, section by section.

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::context::ContextDiff;
use turntree::object::ObjectSource;
use turntree::repo::split_range;

use super::Verb;
use crate::porcelain::read::diff::{compared, keep_below, records};
use crate::porcelain::read::paths::Paths;
use crate::porcelain::read::place::part;
use crate::porcelain::workspace::unsaved_changes::UnsavedChanges;
use crate::program::complete::{entries, paths};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::render::changes::{Changes, write_stats};

/// Show what changed between two snapshots, section by section
///
/// Without a snapshot it shows the files of the workspace that differ from the newest one. A:P and
/// B:P compare an entry of one snapshot with an entry of another. Words that are not snapshots are
/// paths.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree diff
  turntree diff HEAD~1
  turntree diff plan-a plan-b files/src
  turntree diff turn:10:files/a.rs HEAD:files/a.rs
  turntree diff turn:10 turn:12 --stat
  turntree diff main plan-b --json | jq '.files.changed'")]
pub(crate) struct Diff {
    /// The older snapshot, or A..B; without one, the workspace is compared with the newest snapshot
    #[arg(value_name = "A", add = ArgValueCompleter::new(entries))]
    old: Option<String>,
    /// The newer snapshot; HEAD by default
    #[arg(value_name = "B", add = ArgValueCompleter::new(entries))]
    new: Option<String>,
    /// Only sections and entries below these paths
    #[arg(value_name = "PATH", add = ArgValueCompleter::new(paths))]
    paths: Vec<String>,
    /// Show only counts of the changes
    #[arg(long)]
    stat: bool,
    /// Exit with 1 if there are differences
    #[arg(long)]
    exit_code: bool,
}

impl Verb for Diff {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let words: Vec<String> = self.old.iter().chain(&self.new).cloned().collect();
        let (revisions, mut paths) = part(&repo, &words)?;
        paths.extend(self.paths.iter().cloned());
        let changed = match &*revisions {
            [] => {
                let mut unsaved = UnsavedChanges::look(&repo, None)?;
                keep_below(&mut unsaved.changed, &Paths::of_head(&repo).selecting(&paths));
                self.write(run, &unsaved.change, &unsaved.changed)?;
                unsaved.changed
            }
            [old, rest @ ..] => {
                let (old, new) = match split_range(old) {
                    Some((old, new)) => (old, Some(new)),
                    None => (old.as_str(), rest.first().map(String::as_str)),
                };
                let changed = compared(&repo, old, new, &paths)?.changed;
                self.write(run, &repo, &changed)?;
                changed
            }
        };
        Ok(if self.exit_code && !changed.is_empty() { Answer::No } else { Answer::Yes })
    }
}

impl Diff {
    fn write(
        &self,
        run: &mut Invocation,
        source: &dyn ObjectSource,
        changed: &ContextDiff,
    ) -> Result<()> {
        if run.out.json {
            return Ok(run.out.record(&records(changed))?);
        }
        run.out.page();
        let changes = Changes { source, paint: run.out.paint };
        if !self.stat {
            for (section, diff) in changed {
                changes.write(&mut run.out, section, diff)?;
            }
            return Ok(());
        }
        let mut stats = Vec::new();
        for (section, diff) in changed {
            stats.extend(changes.stat(section, diff)?);
        }
        let paint = run.out.paint;
        write_stats(&mut run.out, paint, &stats)?;
        Ok(())
    }
}
