//! `branch`: lists branches with their divergence, renames and deletes them.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::porcelain::read::branches::{branches_of, records};
use crate::porcelain::read::revision::branch_by_whole_name;
use crate::porcelain::read::sessions::{TITLE_COLUMNS, named_session_if};
use crate::porcelain::workspace::worktree::RemovableWorktree;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, check_may_switch, stamp};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::output::{FAINT, ID, NAME};
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{ID_DIGITS, harmless, one_line};
use crate::view::{clock, json};

/// A deleted branch, its tip, and the worktree to remove with it.
type DeletedBranch = (BranchName, ObjectId, Option<RemovableWorktree>);

const BACK: &str = "'turntree undo' brings it back";

/// List branches, rename or delete them
///
/// Lists every branch of every session, newest first, with its newest snapshot and age, its
/// distance from the main branch of its session, and the title of the session; for a fork, its last
/// message instead. HEAD's branch has a star. Names to rename or delete must be complete.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree branch
  turntree branch --session nightly
  turntree branch --rename plan-a the-plan
  turntree branch --delete plan-b plan-c
  turntree branch --delete plan-1 --worktree
  turntree branch --json | jq '.branches[] | {branch, own_turns}'")]
pub(crate) struct Branch {
    /// Only branches of this session
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Rename a branch
    #[arg(short = 'm', long, num_args = 2, value_names = ["OLD", "NEW"],
        conflicts_with_all = ["session", "delete"], add = ArgValueCompleter::new(revisions))]
    rename: Vec<String>,
    /// Delete branches
    #[arg(short, long, num_args = 1.., value_name = "NAME", conflicts_with = "session",
        add = ArgValueCompleter::new(revisions))]
    delete: Vec<String>,
    /// Also remove the directories that 'turntree fork --worktree' created for them; refused for a
    /// directory with files that the newest snapshot does not have, or commits that are on no git
    /// branch
    #[arg(long, requires = "delete")]
    worktree: bool,
}

impl Verb for Branch {
    fn reads_only(&self) -> bool {
        true
    }

    fn may_write(&self) -> bool {
        !self.rename.is_empty() || !self.delete.is_empty()
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        match (&*self.rename, &*self.delete) {
            ([old, new], _) => rename(run, &repo, old, new),
            (_, []) => self.list(run, &repo),
            (_, names) => delete(run, &repo, names, self.worktree),
        }
    }
}

impl Branch {
    fn list(&self, run: &mut Invocation, repo: &Repository) -> Result<Answer> {
        let session = named_session_if(repo, self.session.as_deref())?;
        let branches = branches_of(repo, session.as_deref())?;
        let found = records(repo, branches)?;
        if run.out.json {
            let branches = found.into_iter().map(|(record, _)| record).collect();
            run.out.record(&json::Branches { branches })?;
            return Ok(Answer::Yes);
        }
        let mut table = Table::of(vec![
            Column::text(""),
            Column::name(""),
            Column::text("").rank(3),
            Column::text("").rank(2),
            Column::text(""),
            Column::text("").rank(1),
            Column::title("").at_least(TITLE_COLUMNS),
        ]);
        let now = clock::now()?;
        for (record, time) in found {
            let session = run.out.names().session(&record.session);
            let name = format!("{session}/{}", record.branch);
            let id = record.id.get(..ID_DIGITS).unwrap_or(&record.id).to_owned();
            // Forks of one session share its title, so their own message tells them apart.
            let is_fork = record.own_turns.is_some_and(|own| own > 0);
            let title = record.title.as_ref().filter(|_| !is_fork).unwrap_or(&record.message);
            table.row(vec![
                Cell::from(if record.head { "*" } else { "" }),
                Cell::styled(NAME, name),
                Cell::styled(ID, id),
                format!("turn {}", record.turn).into(),
                Cell::styled(FAINT, clock::relative(time, now)),
                Cell::styled(FAINT, distance(&record)),
                one_line(title, usize::MAX).into(),
            ]);
        }
        table.write(&mut run.out)?;
        Ok(Answer::Yes)
    }
}

/// The distance of a branch from the main one of its session.
fn distance(record: &json::BranchRecord) -> String {
    match (record.own_turns, record.fork_turn) {
        (None, _) => String::new(),
        (Some(own), None) => format!("+{own}, apart"),
        (Some(own), Some(turn)) => format!("+{own} from {turn}"),
    }
}

fn rename(run: &mut Invocation, repo: &Repository, old: &str, new: &str) -> Result<Answer> {
    let from = existing(repo, old)?;
    let to: BranchName = match new.contains('/') {
        true => new.parse()?,
        false => BranchName::new(from.session(), new)?,
    };
    to.check_new()?;
    let mut change = repo.begin();
    let tip = change.rename_branch(&from, &to)?;
    change.commit(&stamp()?, &format!("branch {from} renamed to {to}"))?;
    if run.out.json {
        run.out.record(&json::Moved::new(Some((tip, repo.commit(&tip)?.turn)), &to))?;
    } else {
        let (from, to) = (run.out.branch(&from), run.out.branch(&to));
        writeln!(run.out, "{from} is {to} now")?;
    }
    Ok(Answer::Yes)
}

fn delete(
    run: &mut Invocation,
    repo: &Repository,
    names: &[String],
    with_worktrees: bool,
) -> Result<Answer> {
    let head = repo.head_if_any()?.map(|head| head.branch);
    let shared = repo.shared_head()?;
    let mut deleted = Vec::new();
    let mut change = repo.begin();
    for name in names {
        let branch = existing(repo, name)?;
        // If the shared HEAD is at the branch, it moves to the branch of this place, if this
        // process may move it.
        let stays = branch == shared && (head.is_none() || check_may_switch().is_err());
        if head.as_ref() == Some(&branch) || stays {
            let error = Error::invalid(format!("HEAD is at {branch}, so it cannot be deleted"));
            return Err(Failure::hinted(error, "'turntree switch' to another branch first"));
        }
        if let Some(tip) = repo.tip(&branch) {
            change.delete_branch(&branch);
            if let Some(head) = head.as_ref().filter(|_| branch == shared) {
                change.set_head(head);
            }
            let worktree = match with_worktrees {
                true => RemovableWorktree::find(repo, &branch, &tip)?,
                false => None,
            };
            deleted.push((branch, tip, worktree));
        }
    }
    let list: Vec<String> = deleted.iter().map(|(branch, ..)| branch.to_string()).collect();
    change.commit(&stamp()?, &format!("delete {}", list.join(", ")))?;
    // All of their content is in the store, so the directories can be removed.
    for worktree in deleted.iter().filter_map(|(.., worktree)| worktree.as_ref()) {
        worktree.remove()?;
    }
    if run.out.json {
        let record = |(branch, id, worktree): DeletedBranch| json::DeletedBranch {
            session: branch.session().to_owned(),
            branch: branch.branch().to_owned(),
            id: id.to_string(),
            worktree: worktree.map(|worktree| worktree.dir.display().to_string()),
        };
        let deleted = deleted.into_iter().map(record).collect();
        run.out.record(&json::DeletedBranches { deleted })?;
        return Ok(Answer::Yes);
    }
    for (branch, tip, worktree) in deleted {
        let paint = run.out.paint;
        let (branch, id) = (run.out.branch(&branch), paint.paint(ID, tip.short(ID_DIGITS)));
        writeln!(run.out, "deleted {branch}, which was at {id}; {BACK}")?;
        if let Some(worktree) = worktree {
            let dir = harmless(&worktree.dir.display().to_string());
            writeln!(run.out, "removed {dir}; its files are in {id}")?;
        }
    }
    Ok(Answer::Yes)
}

/// The branch that the user names, which must exist.
fn existing(repo: &Repository, name: &str) -> Result<BranchName> {
    let branch = branch_by_whole_name(repo, name)?;
    if repo.tip(&branch).is_none() {
        let error = Error::not_found(format!("there is no branch {branch}"));
        return Err(error).hint(ErrorKind::NotFound, "'turntree branch' lists them");
    }
    Ok(branch)
}
