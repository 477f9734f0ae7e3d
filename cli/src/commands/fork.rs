//! `fork`: a new branch from any snapshot.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::Error;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};

use super::Verb;
use crate::advice::Advice;
use crate::complete::revisions;
use crate::error::{Answer, Failure, Result};
use crate::invocation::{Invocation, check_may_switch, stamp};
use crate::json;
use crate::output::{ID, NAME};
use crate::render::ID_DIGITS;
use crate::revision::resolve;

/// Begin a new branch at a snapshot
///
/// Costs the same for any size of context: the branch shares everything with where it begins.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree fork plan-b
  turntree fork plan-b HEAD~3 --switch
  turntree fork retry turn:42")]
pub(crate) struct Fork {
    /// Name of the branch, in the session of REV
    name: String,
    /// Where it begins
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

/// Begins a branch called `name` at a revision, in the session of that or another, and points HEAD at
/// it if it is to `switch`. Returns where it begins.
pub(crate) fn fork(
    repo: &Repository,
    revision: &str,
    session: Option<&str>,
    name: &str,
    switch: bool,
) -> Result<(BranchName, ObjectId)> {
    let revision = resolve(repo, revision)?;
    let id = revision.commit;
    let commit = repo.commit(&id)?;
    // A branch begins where there is something to go on from.
    repo.context(&id)?;
    let named = revision.branch.as_ref().map_or(commit.session.as_str(), BranchName::session);
    let branch = BranchName::new(session.unwrap_or(named), name)?;
    if repo.tip(&branch).is_some() {
        let taken = Error::invalid(format!("branch {branch} exists already"));
        let hint = Advice::new(
            "choose another name, or 'turntree switch' to it",
            "choose another name, or call branch with action = switch",
        );
        return Err(Failure::hinted(taken, hint));
    }
    let mut change = repo.begin();
    change.move_branch(&branch, Some(id));
    if switch {
        change.switch(&branch);
    }
    change.finish(&stamp()?, &format!("fork {branch}"))?;
    Ok((branch, id))
}
