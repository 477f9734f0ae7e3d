//! `outline`: shows a session, one line per prompt.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::repo::HEAD;
use turntree_exchange::{OutlinePart, is_prompt, outline};

use super::Verb;
use crate::porcelain::read::prices::Prices;
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::output::{ADDED, FAINT, ID, Output, REMOVED, STRONG};
use crate::view::render::spending::short_spending;
use crate::view::render::{ID_DIGITS, count, one_line};
use crate::view::{clock, json};

/// Maximum number of files to name; the rest is counted.
const NAMED_FILES: usize = 3;

/// Show the prompts of a session, with the results of each
///
/// For each prompt of a branch, oldest first: its text, its time, the turns of the agent, its tool
/// calls and failed ones, the cost of its answers, the changed files with their lines, compactions
/// of the context, and the newest result of each check recorded with 'snapshot --check'.
/// Rolled-back prompts are marked.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree outline
  turntree outline nightly
  turntree show prompt:12
  turntree outline --json | jq -r 'select(.tool_errors > 0) | .words'")]
pub(crate) struct Outline {
    /// The session, branch or snapshot; HEAD by default
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revision: Option<String>,
}

impl Verb for Outline {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let tip = resolve(&repo, self.revision.as_deref().unwrap_or(HEAD))?.commit;
        let parts =
            outline(&repo, &tip, &mut repo.prompts(Some(&is_prompt))?, &Prices::of(None)?.table)?;
        if run.out.json {
            for part in parts {
                run.out.record(&json::OutlinePrompt::new(part))?;
            }
            return Ok(Answer::Yes);
        }
        run.out.page();
        let digits =
            parts.iter().filter_map(|part| part.prompt).max().unwrap_or(0).to_string().len();
        for part in &parts {
            write_part(&mut run.out, part, digits)?;
        }
        Ok(Answer::Yes)
    }
}

fn write_part(out: &mut Output, part: &OutlinePart, digits: usize) -> Result<()> {
    let paint = out.paint;
    let (number, words) = match part.prompt {
        Some(number) => (format!("#{number}"), part.words.as_str()),
        None => ("-".to_owned(), "before the first prompt"),
    };
    let time = clock::rfc3339(part.time);
    let time = time.get(..16).unwrap_or(&time).replace('T', " ");
    let beside = digits + 1 + 2 + ID_DIGITS + 2 + time.len() + 2;
    let words = one_line(words, out.width.left(beside));
    let words =
        if part.is_rolled_back { paint.paint(FAINT, words) } else { paint.paint(STRONG, words) };
    let id = paint.paint(ID, part.id.short(ID_DIGITS));
    let number = format!("{number:>width$}", width = digits + 1);
    writeln!(out, "{number}  {id}  {}  {words}", paint.paint(FAINT, time))?;
    let mut facts = vec![paint.paint(FAINT, count(part.turns, "turn"))];
    let mut fact = |style, number: u64, text: String| {
        if number > 0 {
            facts.push(paint.paint(style, text));
        }
    };
    let elapsed = clock::length(part.until.micros.saturating_sub(part.time.micros));
    fact(FAINT, u64::from(part.until.micros > part.time.micros), elapsed);
    fact(FAINT, part.facts.tools, count(part.facts.tools, "tool"));
    fact(REMOVED, part.facts.errors, format!("{} failed", part.facts.errors));
    if let Some(spending) = &part.facts.spending {
        fact(FAINT, 1, short_spending(spending));
    }
    fact(FAINT, part.files.len() as u64, files(part));
    fact(FAINT, part.compactions, count(part.compactions, "compaction"));
    for (name, passed) in &part.checks {
        let (style, result) = if *passed { (ADDED, "passed") } else { (REMOVED, "failed") };
        fact(style, 1, format!("{name} {result}"));
    }
    fact(FAINT, part.expired, format!("{} expired", part.expired));
    fact(FAINT, u64::from(part.is_rolled_back), "rolled back".to_owned());
    let facts: Vec<String> = facts.iter().map(ToString::to_string).collect();
    writeln!(out, "{:digits$}   {}", "", facts.join(", "))?;
    Ok(())
}

fn files(part: &OutlinePart) -> String {
    let sum = |lines: fn(&turntree_exchange::ChangedFile) -> u64| {
        part.files.values().map(lines).sum::<u64>()
    };
    let lines = format!("+{} -{}", sum(|file| file.added), sum(|file| file.removed));
    if part.files.len() > NAMED_FILES {
        return format!("{} {lines}", count(part.files.len() as u64, "file"));
    }
    let names: Vec<&str> = part.files.keys().map(String::as_str).collect();
    format!("{} {lines}", names.join(" "))
}
