//! `rev-parse`: the ids that revisions name.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::Verb;
use crate::porcelain::revision::{object, with_resolver};
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Print the ids that revisions name, one per line
///
/// A path names the object below it. A range prints its right side, then its left with a ^.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree rev-parse HEAD nightly~3
  turntree rev-parse HEAD:files/src/main.rs
  turntree rev-parse main..plan-b")]
pub(crate) struct RevParse {
    /// Revisions, with or without paths, or ranges
    #[arg(value_name = "REV", required = true, add = ArgValueCandidates::new(revisions))]
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
            if text.contains("..") {
                let range = with_resolver(&repo, |resolver| resolver.resolve_range(text))?;
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
