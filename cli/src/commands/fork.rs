//! `fork`: a new branch from any snapshot.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::Verb;
use crate::porcelain::branches::fork;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, check_may_switch};
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{ID, NAME};
use crate::view::render::ID_DIGITS;

/// Begin a new branch at a snapshot
///
/// The cost does not depend on the size of the context: the branch shares everything with its first
/// snapshot.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree fork plan-b
  turntree fork plan-b HEAD~3 --switch
  turntree fork retry turn:42")]
pub(crate) struct Fork {
    /// Name of the branch, in the session of REV
    name: String,
    /// The snapshot at which it begins
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCandidates::new(revisions))]
    revision: String,
    /// Make it a branch of this session instead
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Point HEAD at it
    #[arg(long)]
    switch: bool,
}

impl Verb for Fork {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if self.switch {
            check_may_switch()?;
        }
        let repo = run.open()?;
        let session = self.session.as_deref();
        let (branch, id) = fork(&repo, &self.revision, session, &self.name, self.switch)?;
        let turn = repo.commit(&id)?.turn;
        if run.out.json {
            run.out.record(&json::Moved::new(Some((id, turn)), &branch))?;
        } else {
            let paint = run.out.paint;
            let (branch, id) = (paint.paint(NAME, &branch), paint.paint(ID, id.short(ID_DIGITS)));
            writeln!(run.out, "{branch} begins at {id}, turn {turn}")?;
        }
        Ok(Answer::Yes)
    }
}
