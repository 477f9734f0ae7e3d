//! `diff`: what changed between two contexts, section by section.

use std::collections::BTreeMap;

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::context::{ContextDiff, MAIN_AGENT, SectionChange, diff};
use turntree::object::ObjectId;
use turntree::repo::{HEAD, Repository};
use turntree::tree::Item;

use super::Verb;
use crate::complete::revisions;
use crate::error::{Answer, Result};
use crate::invocation::Invocation;
use crate::json;
use crate::render::changes::{Changes, path_of, write_stats};
use crate::revision::resolve;

/// Show what changed between two snapshots, section by section
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree diff HEAD~1
  turntree diff plan-a plan-b files/src
  turntree diff turn:10 turn:12 --stat
  turntree diff main plan-b --json | jq '.files.changed'")]
pub(crate) struct Diff {
    /// The one before, or A..B
    #[arg(value_name = "A", add = ArgValueCandidates::new(revisions))]
    old: String,
    /// The one after
    #[arg(value_name = "B", default_value = HEAD, add = ArgValueCandidates::new(revisions))]
    new: String,
    /// Only sections and entries below these paths
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Show how much changed, not what
    #[arg(long)]
    stat: bool,
    /// End with 1 when there are differences
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

/// What changed at or below some paths, or anywhere.
pub(crate) fn changes(
    repo: &Repository,
    old: &ObjectId,
    new: &ObjectId,
    paths: &[String],
) -> Result<ContextDiff> {
    let mut changed = diff(repo.store(), &repo.context(old)?, &repo.context(new)?)?;
    if !paths.is_empty() {
        for (section, diff) in &mut changed {
            diff.changes.retain(|change| {
                let path = path_of(section, &change.key);
                paths.iter().any(|wanted| is_below(&path, wanted.trim_end_matches('/')))
            });
        }
        changed.retain(|_, diff| !diff.changes.is_empty());
    }
    Ok(changed)
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The sections that a record has whether they changed or not.
const ALWAYS: [&str; 5] = ["files", "memory", "messages", "scratchpad", "state"];

/// Conversations and states of all agents are one section each.
pub(crate) fn records(changed: &ContextDiff) -> BTreeMap<&str, json::SectionDiff> {
    let mut records = BTreeMap::from(ALWAYS.map(|name| (name, json::SectionDiff::default())));
    for (section, diff) in changed {
        let (name, agent) = match agent_part(section) {
            Some((agent, part)) if ALWAYS.contains(&part) => (part, agent),
            _ => (section.as_str(), MAIN_AGENT),
        };
        let record = records.entry(name).or_default();
        for change in &diff.changes {
            match (&change.old, &change.new) {
                (None, Some(new)) => record.added.push(named(name, agent, change, new)),
                (Some(old), None) => record.removed.push(named(name, agent, change, old)),
                (_, Some(new)) => record.changed.push(named(name, agent, change, new)),
                (None, None) => {}
            }
        }
    }
    records
}

/// The agent and the part of it that a section is.
fn agent_part(section: &str) -> Option<(&str, &str)> {
    section.strip_prefix("agents/")?.split_once('/')
}

fn named(section: &str, agent: &str, change: &SectionChange, item: &Item) -> json::Changed {
    let id = item.link.id.to_string();
    match (section, change.key.parse()) {
        ("messages", Ok(index)) => json::Changed::Message { agent: agent.to_owned(), index, id },
        ("source", Ok(index)) => json::Changed::Item { index, id },
        _ if change.key.is_empty() => json::Changed::Key(section.to_owned()),
        _ if agent == MAIN_AGENT => json::Changed::Key(change.key.clone()),
        _ => json::Changed::Key(format!("{agent}/{}", change.key)),
    }
}
