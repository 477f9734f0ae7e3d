//! `spiral`: detects loops of an agent.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use turntree::Error;
use turntree_exchange::{
    SPIRAL_WINDOW, SignKind, SpiralReport as Found, SpiralStep, SpiralVerdict,
};
use turntree_exchange::{find_spiral, read_steps};

use super::Verb;
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, input_name, read_input};
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{NAME, REMOVED, STRONG};
use crate::view::render::harmless;

/// Detect loops: repeated calls without progress
///
/// Checks the last turns of a branch for repeated equal calls, for files that are the same as some
/// turns ago, for a file that alternates between contents, and for one tool that keeps changing one
/// file. It suggests a turn to go back to, and changes nothing.
///
/// The exit code is 1 if a loop is suspected or found.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree spiral
  turntree spiral nightly --json
  turntree spiral --from turns.json
  turntree spiral --json | jq .rollback_to")]
pub(crate) struct Spiral {
    /// The newest turn to check
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// Check the turns in this JSON file, or - for standard input, instead of a branch: an array of
    /// {turnId, toolName, argsHash, artifactSha256}, oldest first
    #[arg(long, value_name = "FILE", conflicts_with = "revision", value_hint = clap::ValueHint::FilePath)]
    from: Option<PathBuf>,
    /// Number of equal calls in a row that count as a sign
    #[arg(long, value_name = "N", default_value_t = SPIRAL_WINDOW as u64,
        value_parser = clap::value_parser!(u64).range(2..=50))]
    window: u64,
}

/// A turn in a JSON file of another system.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnDocument {
    turn_id: u64,
    tool_name: Option<String>,
    args_hash: Option<String>,
    artifact_sha256: Option<String>,
}

impl Verb for Spiral {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let steps = match &self.from {
            Some(path) => read_turns(path)?,
            None => {
                let repo = run.open()?;
                read_steps(&repo, &resolve(&repo, &self.revision)?.commit)?
            }
        };
        let found = find_spiral(&steps, usize::try_from(self.window).unwrap_or(SPIRAL_WINDOW));
        if run.out.json {
            run.out.record(&json::SpiralRecord::new(&found))?;
        } else {
            write_text(run, &found)?;
        }
        Ok(if found.verdict >= SpiralVerdict::Suspected { Answer::No } else { Answer::Yes })
    }
}

fn read_turns(path: &std::path::Path) -> Result<Vec<SpiralStep>> {
    let bytes = read_input(path)?;
    let turns: Vec<TurnDocument> = serde_json::from_slice(&bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let place = format!("{}, line {line}, column {column}", input_name(path));
        let expected = "expected an array of turns, each with turnId, toolName and argsHash";
        Error::invalid(format!("{place}: {expected}"))
    })?;
    let step = |turn: TurnDocument| SpiralStep {
        turn: turn.turn_id,
        tool: turn.tool_name,
        arguments: turn.args_hash,
        artifact: turn.artifact_sha256,
        ..SpiralStep::default()
    };
    Ok(turns.into_iter().map(step).collect())
}

fn write_text(run: &mut Invocation, found: &Found) -> Result<()> {
    let paint = run.out.paint;
    let verdict = match found.verdict {
        SpiralVerdict::None => "no sign of a spiral",
        SpiralVerdict::Progress => "no spiral: a call was repeated, but each one changed something",
        SpiralVerdict::Suspected => "a spiral is suspected",
        SpiralVerdict::Confirmed => "a spiral",
    };
    let style = if found.verdict >= SpiralVerdict::Suspected { REMOVED } else { STRONG };
    writeln!(run.out, "{}", paint.paint(style, verdict))?;
    if let Some(streak) = &found.streak {
        let tool = paint.paint(NAME, harmless(&streak.tool));
        writeln!(run.out, "  {tool} with the same arguments in turns {}", list(&streak.turns))?;
    }
    for sign in &found.signs {
        let path = paint.paint(NAME, harmless(sign.path.as_deref().unwrap_or_default()));
        let turns = list(&sign.turns);
        match sign.kind {
            SignKind::SameTree => {
                writeln!(run.out, "  all files return to an earlier state: turns {turns}")?;
            }
            SignKind::Oscillation => {
                writeln!(run.out, "  {path} swings: turns {turns}")?;
            }
            SignKind::SameFile => {
                writeln!(
                    run.out,
                    "  only {path} was edited, differently each time: turns {turns}"
                )?;
            }
        }
    }
    if let Some(turn) = found.rollback_to {
        writeln!(
            run.out,
            "last turn before the loop: {turn}. To go back: 'turntree rollback --to-turn {turn}'"
        )?;
    }
    Ok(())
}

fn list(turns: &[u64]) -> String {
    let turns: Vec<String> = turns.iter().map(u64::to_string).collect();
    turns.join(", ")
}
