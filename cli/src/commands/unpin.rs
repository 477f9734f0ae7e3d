//! `unpin`: leaves a snapshot to retention again.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::ErrorKind;
use turntree::repo::{Pin, Repository};

use super::Verb;
use crate::porcelain::revision::resolve;
use crate::program::complete::pins;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::{ID, NAME};
use crate::view::render::ID_DIGITS;

/// Remove a pin, or every pin on a snapshot
///
/// Nothing is dropped at once: a later collection drops what the policy of the session does not
/// keep. Until then the snapshot can be pinned again.
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
        let found = self.find(&repo)?;
        let mut change = repo.begin();
        for pin in &found {
            change.unpin(&pin.name)?;
        }
        change.commit(&stamp()?, &format!("unpin {}", self.name))?;
        let removed =
            |pin: &Pin| json::Unpinned { pin: pin.name.clone(), id: pin.commit.to_string() };
        if run.out.json {
            run.out.record(&json::Unpin { unpinned: found.iter().map(removed).collect() })?;
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

impl Unpin {
    /// The pin of this name, else every pin on the snapshot of this name.
    fn find(&self, repo: &Repository) -> Result<Vec<Pin>> {
        let mut pins = repo.pins()?;
        if let Some(at) = pins.iter().position(|pin| pin.name == self.name) {
            return Ok(vec![pins.swap_remove(at)]);
        }
        let shown = "'turntree pins' lists the pins";
        let commit = resolve(repo, &self.name).map(|revision| revision.commit);
        pins.retain(|pin| commit.as_ref().is_ok_and(|commit| pin.commit == *commit));
        if pins.is_empty() {
            let none =
                format!("there is no pin '{}', and none on a snapshot of that name", self.name);
            return Err(turntree::Error::not_found(none)).hint(ErrorKind::NotFound, shown);
        }
        Ok(pins)
    }
}
