//! `unpin`: removes the protection of a snapshot from retention.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::repo::Pin;

use super::Verb;
use crate::porcelain::change::pins::remove;
use crate::program::complete::pins;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{ID, NAME};
use crate::view::render::ID_DIGITS;

/// Remove a pin, or every pin on a snapshot
///
/// Nothing is dropped immediately: a later collection drops turns that the policy of the session
/// does not keep. Until then the snapshot can be pinned again.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree unpin before-refactoring
  turntree unpin turn:42")]
pub(crate) struct Unpin {
    /// The name of a pin, or a snapshot
    #[arg(value_name = "NAME|REV", add = ArgValueCandidates::new(pins))]
    name: String,
}

impl Verb for Unpin {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let found = remove(&repo, &self.name)?;
        if run.out.json {
            let unpinned = found.iter().map(json::Unpinned::from).collect();
            run.out.record(&json::Unpin { unpinned })?;
            return Ok(Answer::Yes);
        }
        for Pin { name, commit, .. } in &found {
            let paint = run.out.paint;
            let (name, id) = (paint.paint(NAME, name), paint.paint(ID, commit.short(ID_DIGITS)));
            writeln!(run.out, "unpinned {name}, which was on {id}")?;
        }
        Ok(Answer::Yes)
    }
}
