//! `rev-parse`: prints the ids of revisions.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::repo::split_range;

use super::Verb;
use crate::porcelain::read::revision::{object, resolve_range};
use crate::program::complete::entries;
use crate::program::invocation::Invocation;
use crate::view::advice::Advice;
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Print the ids of revisions, one per line
///
/// A path names the object at it. A range prints its right side, then its left side with a ^.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree rev-parse HEAD nightly~3
  turntree rev-parse HEAD:files/src/main.rs
  turntree rev-parse main..plan-b")]
pub(crate) struct RevParse {
    /// Revisions, with or without paths, or ranges
    #[arg(value_name = "REV", required = true, add = ArgValueCompleter::new(entries))]
    revisions: Vec<String>,
}

impl Verb for RevParse {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let mut parsed = Vec::new();
        for text in &self.revisions {
            let mut add = |id: String, exclude| {
                parsed.push(json::ParsedRevision { revision: text.clone(), id, exclude });
            };
            if split_range(text).is_some() {
                let range = resolve_range(&repo, text, &Advice::anyone("a range is of snapshots"))?;
                range.include.iter().for_each(|id| add(id.to_string(), false));
                range.exclude.iter().for_each(|id| add(id.to_string(), true));
            } else {
                add(object(&repo, text)?.to_string(), false);
            }
        }
        if run.out.json {
            run.out.record(&json::Parsed { revisions: parsed })?;
            return Ok(Answer::Yes);
        }
        for revision in parsed {
            writeln!(run.out, "{}{}", if revision.exclude { "^" } else { "" }, revision.id)?;
        }
        Ok(Answer::Yes)
    }
}
