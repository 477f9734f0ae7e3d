//! `switch`: points HEAD at another branch.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::repo::{BranchName, Repository};

use super::Verb;
use crate::porcelain::read::branches::{switch, whereabouts};
use crate::porcelain::read::revision::with_resolver;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, check_may_switch};
use crate::program::live::client_session;
use crate::view::error::{Answer, Result};
use crate::view::output::warn;

/// Point HEAD at another branch, in this directory and those below
///
/// HEAD is the branch that snapshot, fork and revisions without a name act on. Before the first
/// switch in a directory, that is its newest session. Nothing else changes.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree switch nightly
  turntree switch nightly/fix-parser
  turntree switch -")]
pub(crate) struct Switch {
    /// A branch of HEAD's session, session/branch, a session, or - for the previous branch
    #[arg(add = ArgValueCompleter::new(revisions), allow_hyphen_values = true)]
    branch: String,
}

impl Verb for Switch {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        check_may_switch()?;
        let repo = run.open()?;
        let name = if self.branch == "-" { "@{-1}" } else { &self.branch };
        let branch = with_resolver(&repo, |resolver| resolver.branch(name))?;
        switch(&repo, &branch)?;
        warn_of_client(&repo, &branch);
        if run.out.json {
            run.out.record(&whereabouts(&repo, &branch)?)?;
        } else {
            let branch = run.out.branch(&branch);
            writeln!(run.out, "HEAD is at {branch}")?;
        }
        Ok(Answer::Yes)
    }
}

/// Warns if the switch does not affect this shell: the shell of an agent acts on the agent's
/// session.
fn warn_of_client(repo: &Repository, branch: &BranchName) {
    let own = repo.head().map(|head| head.branch).ok();
    if let Some(own) = own.filter(|own| client_session().is_some() && own != branch)
        && own.session() != branch.session()
    {
        warn(&format!(
            "this shell belongs to {own}, on which its commands act: TURNTREE_BRANCH={branch} is for \
             another branch"
        ));
    }
}
