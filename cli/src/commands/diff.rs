//! `diff`: what changed between two contexts, section by section.

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::context::ContextDiff;
use turntree::repo::{HEAD, Repository};

use super::Verb;
use crate::porcelain::diff::{changes, records};
use crate::porcelain::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::render::changes::{Changes, write_stats};

/// Show what changed between two snapshots, section by section
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree diff HEAD~1
  turntree diff plan-a plan-b files/src
  turntree diff turn:10 turn:12 --stat
  turntree diff main plan-b --json | jq '.files.changed'")]
pub(crate) struct Diff {
    /// The older snapshot, or A..B
    #[arg(value_name = "A", add = ArgValueCandidates::new(revisions))]
    old: String,
    /// The newer snapshot
    #[arg(value_name = "B", default_value = HEAD, add = ArgValueCandidates::new(revisions))]
    new: String,
    /// Only sections and entries below these paths
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Show only counts of the changes
    #[arg(long)]
    stat: bool,
    /// Exit with 1 when there are differences
    #[arg(long)]
    exit_code: bool,
}

impl Verb for Diff {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let (old, new) = self.old.split_once("..").unwrap_or((&self.old, &self.new));
        let (old, new) = (resolve(&repo, old)?.commit, resolve(&repo, new)?.commit);
        let changed = changes(&repo, &old, &new, &self.paths)?;
        if run.out.json {
            run.out.record(&records(&changed))?;
        } else {
            run.out.page();
            self.write_text(run, &repo, &changed)?;
        }
        Ok(if self.exit_code && !changed.is_empty() { Answer::No } else { Answer::Yes })
    }
}

impl Diff {
    fn write_text(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        changed: &ContextDiff,
    ) -> Result<()> {
        let changes = Changes { source: repo.store(), paint: run.out.paint };
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
