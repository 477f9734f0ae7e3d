//! Keeps a trial: merges its branch with its files, and removes the worktrees that snapshots have.

use std::io::Write;

use turntree::Error;
use turntree::repo::{Exploration, Repository, Trial};

use crate::porcelain::change::merge::{MergeOptions, MergeOutcome, answer, merge};
use crate::porcelain::change::merge_files::MergeWithFiles;
use crate::porcelain::workspace::worktree::RemovableWorktree;
use crate::program::here::workspace_of;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Result};
use crate::view::output::{FAINT, warn};
use crate::view::render::count;

/// The trial of the branch called `name`, or the best one.
///
/// # Errors
/// `NotFound` if there is none, and if no trial passed.
pub(crate) fn named_trial<'e>(
    exploration: &'e Exploration,
    name: Option<&str>,
) -> Result<&'e Trial> {
    let Some(name) = name else {
        let best = exploration.best().and_then(|best| exploration.trials.get(best));
        return best.ok_or_else(|| {
            let none = format!("no strategy of exploration {} passed", exploration.name);
            let hint = "'turntree explore keep NAME STRATEGY' keeps one anyway";
            Failure::hinted(Error::not_found(none), hint)
        });
    };
    let found = exploration.trials.iter().rfind(|trial| trial.branch.branch() == name);
    found.ok_or_else(|| {
        let none = format!("exploration {} has no strategy {name}", exploration.name);
        Failure::hinted(Error::not_found(none), "'turntree explore status' lists them")
    })
}

/// Merges the branch of a trial into the branch from which the exploration was begun, with the files
/// if that branch has a directory. Then removes the worktrees of all trials whose files are in a
/// snapshot; their branches stay.
pub(crate) fn keep(
    run: &mut Invocation,
    repo: &Repository,
    exploration: &Exploration,
    trial: &Trial,
) -> Result<Answer> {
    let Some(theirs) = repo.tip(&trial.branch) else {
        let error = Error::not_found(format!("branch {} was deleted", trial.branch));
        return Err(Failure::hinted(error, "'turntree undo' brings it back"));
    };
    let into = Some(exploration.into.to_string());
    let how = MergeOptions { into, ..MergeOptions::default() };
    let ended = match repo.tip(&exploration.into) {
        // Its snapshots were made without a directory, so there is none to write files to.
        Some(tip) if workspace_of(repo, &exploration.into, &tip)?.is_none() => {
            let (request, staged, turn) = merge(repo, &trial.branch.to_string(), &how)?;
            let merged = MergeOutcome { staged: &staged, request: &request, turn, dry_run: false };
            match run.out.json {
                true => run.out.record(&merged.record())?,
                false => merged.write(&mut run.out, "merged")?,
            }
            answer([&staged])
        }
        _ => {
            let request = how.request(repo, theirs, trial.branch.to_string())?;
            let merge = MergeWithFiles {
                request: &request,
                workspace: None,
                allow_broad: false,
                dry_run: false,
                removes_worktree: true,
            };
            let (ended, staged) = merge.run(&mut run.out, repo)?;
            if ended == Answer::Yes { answer([&staged]) } else { ended }
        }
    };
    if ended != Answer::Yes {
        // A conflict may be decided with the directories at hand.
        return Ok(ended);
    }
    repo.refresh()?;
    let mut removed = 0;
    let mut known = Vec::new();
    for trial in &exploration.trials {
        let Some(tip) = repo.tip(&trial.branch).filter(|_| trial.start.is_some()) else { continue };
        if known.contains(&&trial.branch) {
            continue;
        }
        known.push(&trial.branch);
        match RemovableWorktree::find(repo, &trial.branch, &tip) {
            Ok(Some(worktree)) => match worktree.remove() {
                Ok(()) => removed += 1,
                Err(failure) => warn(&failure.message()),
            },
            Ok(None) => {}
            Err(failure) => warn(&format!("a worktree stays: {}", failure.message())),
        }
    }
    if removed > 0 && !run.out.json {
        let worktrees = count(removed, "worktree");
        let text = format!("removed {worktrees}: the branches have their files");
        writeln!(run.out, "{}", run.out.paint.paint(FAINT, text))?;
    }
    Ok(ended)
}
