//! `snapshot`: takes a snapshot of a context on a branch; frameworks call it once a turn.

use clap::Args;
use turntree_exchange::listed_sections;

use super::Verb;
use crate::porcelain::change::snapshot::{NewSnapshot, Racing, SnapshotTarget};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// The help of the command, up to the sections that a document may name.
const HELP: &str = "\
Take a snapshot of a context

The snapshot continues the newest one of the branch, and everything that is not named is carried \
over. --append, --append-message, --set and --unset change it: give only the additions of this \
turn, and the conversation may be of any length. --state replaces whole sections, and null drops \
one:

{\"agents\": {\"main\": {\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}}, \
\"scratchpad\": {\"note\": {\"content\": \"look at the tests\"}}}

A scratchpad or memory that is exactly {\"set\": {...}}, {\"remove\": [...]} or both changes single \
entries and leaves the others; an entry called set that holds an object is written by --set.";

fn help() -> String {
    format!(
        "{HELP}\n\nSections are {}, sections that the context already has, and any section whose \
         name begins with x-.",
        listed_sections()
    )
}

/// Take a snapshot of a context
#[derive(Debug, Args)]
#[command(long_about = help())]
#[command(after_long_help = "Examples:
  turntree snapshot --workspace .
  turntree snapshot -m 'before the refactoring' --workspace .
  turntree snapshot -m 'a question' --append-message user='why is it slow?' --session nightly
  turntree snapshot -m 'turn 6' --append new.jsonl --set scratchpad/todo='measure' --workspace .
  turntree snapshot -m 'turn 7' --workspace . --time-budget 500ms --max-file-size 10MiB
  turntree snapshot -m 'turn 12' --state state.json --session nightly
  agent --dump-state | turntree snapshot -m 'turn 13' --state - --trigger turn
  turntree snapshot -m 'before the edit' --workspace . --trigger before-tool --tool fs.replace")]
#[command(mut_arg("message", |text| {
    text.help("Message of the snapshot; 'snapshot' by default, if there is anything to take")
        .required_unless_present_any(["workspace", "state", "append", "append_message", "set",
            "unset"])
}))]
pub(crate) struct TakeSnapshot {
    #[command(flatten)]
    new: NewSnapshot,
    #[command(flatten)]
    racing: Racing,
}

impl Verb for TakeSnapshot {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let SnapshotTarget { repo, at, input } = self.new.open(run)?;
        self.new.take(&repo, at, &input, None, &self.racing)?.print(&mut run.out)?;
        Ok(Answer::Yes)
    }
}
