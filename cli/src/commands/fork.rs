//! `fork`: creates branches at any snapshot, optionally with a worktree each.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, HEAD, Repository};
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::hook::worktree::carry_settings;
use crate::porcelain::read::branches::{ForkStart, fork};
use crate::porcelain::read::revision::resolve;
use crate::porcelain::workspace::worktree::{
    MadeWorktree, MadeWorktrees, directories, plan_worktrees,
};
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, check_may_switch, stamp};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID};
use crate::view::render::{ID_DIGITS, harmless};

/// Length of the common prefix of two names that come from one shell pattern.
const SHARED: usize = 2;

/// Create new branches at a snapshot
///
/// The cost does not depend on the size of the context: a branch shares everything with its first
/// snapshot. With two names, the second may be the snapshot to begin at; --at always names it.
///
/// With --worktree each branch gets a directory next to the workspace: a git worktree at its HEAD
/// if the project is in git, otherwise a plain directory, with the files of the snapshot. Agents
/// with hooks that are started there use the branch, and commands in it act on the branch. In DIR,
/// {} is replaced by the part in which the names differ, or by the name if there is only one.
/// Either everything is created or nothing; 'turntree undo' removes the branches, and 'turntree
/// branch --delete NAME --worktree' removes branch and directory.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree fork plan-b
  turntree fork plan-b HEAD~3 --switch
  turntree fork retry turn:42
  turntree fork plan-{1,2,3} --at turn:42
  turntree fork plan-{1,2,3} --worktree ../plan-{}")]
pub(crate) struct Fork {
    /// Names of the branches, in the session of REV; a{b,c} is ab and ac. With two names, the
    /// second may be REV
    #[arg(value_name = "NAME", required = true, add = ArgValueCompleter::new(revisions))]
    names: Vec<String>,
    /// The snapshot at which they begin; HEAD by default
    #[arg(long, value_name = "REV", add = ArgValueCompleter::new(revisions))]
    at: Option<String>,
    /// Create them in this session instead
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Point HEAD at it
    #[arg(long, conflicts_with = "worktree")]
    switch: bool,
    /// Create a directory for each, with the files of the snapshot
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    worktree: Option<String>,
}

impl Verb for Fork {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if self.switch {
            check_may_switch()?;
        }
        let repo = run.open()?;
        let (names, at) = self.names(&repo)?;
        if self.switch && names.len() > 1 {
            let error = Error::invalid("--switch switches to one branch, but several were given");
            return Err(Failure::hinted(error, "'turntree switch' switches to one of them"));
        }
        let start = ForkStart::of(&repo, &at, self.session.as_deref(), &names)?;
        let turn = repo.commit(&start.commit)?.turn;
        let Some(template) = &self.worktree else {
            fork(&repo, &start, self.switch)?;
            for branch in &start.branches {
                show(run, branch, (start.commit, turn), None)?;
            }
            return Ok(Answer::Yes);
        };
        let wanted = start.branches.iter().cloned().zip(directories(&names, template)?).collect();
        let planned = plan_worktrees(&repo, &start.commit, wanted)?;
        let mut worktrees = MadeWorktrees::default();
        for planned in planned {
            worktrees.make(&repo, &start.commit, planned)?;
        }
        let mut change = repo.begin();
        worktrees.stage(&repo, &mut change, &start.commit)?;
        change.commit(&stamp()?, &start.reason())?;
        for made in worktrees.keep(&repo) {
            carry_settings(&made);
            show(run, &made.branch, (start.commit, turn), Some(&made))?;
        }
        if !run.out.json {
            let hint = "an agent that is started in such a directory works on its branch; \
                        'turntree compare' compares the results";
            writeln!(run.out, "{}", run.out.paint.paint(FAINT, hint))?;
        }
        Ok(Answer::Yes)
    }
}

impl Fork {
    /// The names, and the revision to begin at.
    fn names(&self, repo: &Repository) -> Result<(Vec<String>, String)> {
        let mut words = Vec::new();
        for word in &self.names {
            words.extend(alternatives(word)?);
        }
        if let Some(at) = &self.at {
            return Ok((words, at.clone()));
        }
        if let ([_, second], None, [_, _]) = (&*words, &self.worktree, &*self.names) {
            let is_name = || {
                let shared = |words: &[String]| match words {
                    [a, b] => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
                    _ => 0,
                };
                shared(&words) >= SHARED && BranchName::new("s", second).is_ok()
            };
            match resolve(repo, second) {
                Err(_) if is_name() => {}
                Err(failure) => return Err(failure),
                Ok(_) => {
                    let at = second.clone();
                    words.truncate(1);
                    return Ok((words, at));
                }
            }
        }
        Ok((words, HEAD.to_owned()))
    }
}

/// Reports the start of a branch.
fn show(
    run: &mut Invocation,
    branch: &BranchName,
    (id, turn): (ObjectId, u64),
    made: Option<&MadeWorktree>,
) -> Result<()> {
    let dir = made.map(|made| made.workspace.display().to_string());
    if run.out.json {
        let moved = json::Moved::new(Some((id, turn)), branch);
        run.out.record(&json::Forked { moved, worktree: dir })?;
        return Ok(());
    }
    let paint = run.out.paint;
    let (branch, id) = (run.out.branch(branch), paint.paint(ID, id.short(ID_DIGITS)));
    let place = made.map_or_else(String::new, |made| {
        let dir = made.workspace.display().to_string();
        format!(", in the {} {}", made.kind(), harmless(&dir))
    });
    writeln!(run.out, "{branch} begins at {id}, turn {turn}{place}")?;
    Ok(())
}

/// Expands `a{b,c}d` into abd and acd, in case no shell did.
fn alternatives(word: &str) -> Result<Vec<String>> {
    let braces = word.split_once('{').and_then(|(head, rest)| {
        let (inside, tail) = rest.split_once('}')?;
        Some((head, inside, tail)).filter(|_| inside.contains(','))
    });
    match braces {
        None => Ok(vec![word.to_owned()]),
        Some((head, inside, tail)) if !inside.contains('{') && !tail.contains(['{', '}']) => {
            Ok(inside.split(',').map(|part| format!("{head}{part}{tail}")).collect())
        }
        Some(_) => Err(Error::invalid(format!("'{word}' has more than one list in braces")))
            .hint(ErrorKind::InvalidInput, "name the branches one by one"),
    }
}
