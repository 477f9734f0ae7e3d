//! Merges that also write the files to the workspace, and the remaining work in the workspace.

use std::io::Write;
use std::path::{Path, PathBuf};

use turntree::ErrorKind;
use turntree::context::sections::FILES;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, MergeReport, MergeRequest, Repository};
use turntree::workspace::{PreparedMerge, prepare_merge};

use super::merge::{MergeOutcome, RACE};
use crate::porcelain::workspace::rewind::{
    capturing, checked, end, own_directory, remember, unknown_workspace,
};
use crate::program::here::{place_key, workspace_of};
use crate::program::invocation::stamp;
use crate::view::advice::Advice;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, Output};
use crate::view::render::harmless;
use crate::view::render::restoration::{write_files, write_unknown};

/// A merge with files.
pub(crate) struct MergeWithFiles<'a> {
    pub(crate) request: &'a MergeRequest<'a>,
    /// The workspace, if it is not the branch's own.
    pub(crate) workspace: Option<&'a Path>,
    pub(crate) allow_broad: bool,
    pub(crate) dry_run: bool,
    /// True if the caller removes the worktree of the merged branch.
    pub(crate) removes_worktree: bool,
}

impl MergeWithFiles<'_> {
    /// Plans the merge, makes it, and shows it.
    pub(crate) fn run(&self, out: &mut Output, repo: &Repository) -> Result<(Answer, MergeReport)> {
        let Self { request, dry_run, .. } = *self;
        let dir = self.directory(repo)?;
        let stamp = stamp()?;
        let (prepared, cache) = capturing(repo, Some(&dir), |options| {
            prepare_merge(repo, request, &dir, options, &stamp)
        })
        .hint(
            ErrorKind::Conflict,
            Advice::anyone(
                "'turntree restore HEAD --only files' saves those changes, then restores the files",
            ),
        )?;
        let is_idle = !prepared.changes_anything();
        let PreparedMerge { report, turn, files, before, saved, .. } = &prepared;
        let (report, turn, files, before) = (report.clone(), *turn, files.clone(), before.clone());
        let saved = *saved;
        let mut arranged = None;
        if !dry_run && !is_idle {
            let reason = format!("merge {} into {} with files", request.label, request.into);
            let (_, applied) =
                prepared.apply(&stamp, &reason).hint(ErrorKind::Conflict, Advice::anyone(RACE))?;
            remember(repo, cache.as_ref(), Some(&before));
            arranged = Some(applied);
        }
        let outcome = MergeOutcome { staged: &report, request, turn, dry_run };
        let state = format!("turn {turn}");
        if out.json {
            let kept = arranged.as_ref().map(|_| before.commit.to_string());
            let changes = json::WorkspaceChanges::new(&files, &state, kept, arranged.as_ref());
            out.record(&json::MergedFiles {
                merged: outcome.record(),
                saved: saved.filter(|_| !dry_run).map(|id| id.to_string()),
                workspace: changes,
                worktree: worktree_of(repo, request).map(|dir| dir.display().to_string()),
            })?;
        } else {
            if saved.is_some() {
                let verb = if dry_run { "would become" } else { "became" };
                writeln!(
                    out,
                    "unsaved changes of the workspace {verb} a snapshot before the merge"
                )?;
            }
            outcome.write(out, "merged")?;
            let shown = arranged.as_ref().filter(|_| !is_idle);
            if is_idle {
                let dir = harmless(&files.dir.display().to_string());
                writeln!(out, "{dir} has these files already")?;
            } else {
                let paint = out.paint;
                write_files(out, paint, &files, &state, shown)?;
            }
            if !self.removes_worktree {
                self.write_rest(out, repo)?;
            }
            write_unknown(out, Some(&files), shown, "undo")?;
        }
        Ok((end(Some(&files), arranged.as_ref())?, report))
    }

    fn write_rest(&self, out: &mut Output, repo: &Repository) -> Result<()> {
        let Some(dir) = worktree_of(repo, self.request).filter(|_| !self.dry_run) else {
            return Ok(());
        };
        let dir = harmless(&dir.display().to_string());
        let rest = format!(
            "{dir} is still there: 'turntree branch --delete {} --worktree' removes it with its \
             branch",
            self.request.label
        );
        Ok(writeln!(out, "{}", out.paint.paint(FAINT, rest))?)
    }

    fn directory(&self, repo: &Repository) -> Result<PathBuf> {
        let into = &self.request.into;
        if let Some(dir) = self.workspace {
            return checked(dir, self.allow_broad);
        }
        let known = match repo.tip(into) {
            Some(tip) => workspace_of(repo, into, &tip)?,
            None => None,
        };
        let Some(dir) = known else { return Err(unknown_workspace(into)) };
        own_directory(repo, &dir, self.allow_broad)
    }
}

/// The worktree of the merged branch, if it has one.
fn worktree_of(repo: &Repository, request: &MergeRequest<'_>) -> Option<PathBuf> {
    let branch: BranchName = request.label.parse().ok()?;
    let tip = repo.tip(&branch)?;
    let dir = workspace_of(repo, &branch, &tip).ok()??;
    (repo.worktree_at(&place_key(&dir))? == branch && dir.is_dir()).then_some(dir)
}

/// Reports that the workspace does not have the merged files, if so.
pub(crate) fn write_stale(
    out: &mut Output,
    repo: &Repository,
    request: &MergeRequest<'_>,
    report: &MergeReport,
) -> Result<()> {
    let files = |id: &ObjectId| -> Result<_> {
        Ok(repo.context(id)?.section(repo, FILES)?.map(|section| section.id))
    };
    if files(&report.ours)? == files(&report.commit)? {
        return Ok(());
    }
    let dir = workspace_of(repo, &request.into, &report.ours)?.filter(|dir| dir.is_dir());
    let Some(dir) = dir else { return Ok(()) };
    let (dir, label) = (harmless(&dir.display().to_string()), &request.label);
    let stale = format!(
        "{dir} is unchanged: 'turntree merge {label} --into {} --with-files' writes the files",
        request.into
    );
    Ok(writeln!(out, "{stale}")?)
}
