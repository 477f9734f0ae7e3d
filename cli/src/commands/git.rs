//! `git`: exports a store as a git repository, and imports a git history as snapshots.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use turntree::ErrorKind;
use turntree::repo::{Repository, SearchScope};
use turntree::transfer::bundle::BundleRequest;
use turntree::workspace::MAX_FILE_BYTES;
use turntree_exchange::agents::session_name;
use turntree_exchange::git::{
    ExportSelection, GitExport, GitExportOptions, GitImport, GitImportOptions, GitNote,
    GitRefChange, check_repository, export, import,
};

use super::Verb;
use crate::porcelain::read::branches::refuse_forgotten;
use crate::porcelain::read::revision::resolve;
use crate::porcelain::read::secrets::{Passage, SecretGate, refuse};
use crate::porcelain::read::sessions::named_session;
use crate::porcelain::transfer::scrub::{Scrubbed, tips, wanted};
use crate::program::complete::{revisions, sessions};
use crate::program::invocation::{Invocation, stamp, whole_path};
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::{NAME, STRONG, warn};
use crate::view::progress::Working;
use crate::view::render::{count, harmless, size};
use crate::view::units::parse_file_size;

/// Maximum number of notes to print one by one.
const MAX_SHOWN_NOTES: usize = 10;

/// Export sessions to a git repository, or import a git history
///
/// docs/reference/formats/git.md describes the mapping.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree git export review.git && git -C review.git log --stat review/main
  turntree git export archive.git --session nightly
  turntree git import ../project --session project
  turntree git import ../project main v1.2")]
pub(crate) struct Git {
    #[command(subcommand)]
    action: GitCommand,
}

#[derive(Debug, Subcommand)]
enum GitCommand {
    Export(Export),
    Import(Import),
}

/// Export branches and tags to a git repository, one commit per turn
///
/// The repository is created without a working tree: clone it to look at files. A repeated export
/// adds new turns. The same store gives the same commits everywhere. A directory that was not
/// created by 'git export', and an exported branch that was moved there, are left alone. The output
/// is scanned for secrets: if one is found, nothing is written and the exit code is 1, unless
/// --scrub or --allow-secrets is given.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree git export review.git
  turntree git export archive.git --session nightly --source
  turntree git export best.git nightly/plan-b v1")]
struct Export {
    /// The repository: a new directory, or an earlier export
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    /// Branches and tags; all of them by default
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    names: Vec<String>,
    /// The branches of this session and the tags on its snapshots
    #[arg(long, value_name = "NAME", conflicts_with = "names", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// Write imported transcripts too, piece by piece
    #[arg(long)]
    source: bool,
    #[command(flatten)]
    gate: SecretGate,
}

/// Import a git history, one snapshot per commit
///
/// Imports files, messages, authors and times; branches stay branches, tags tags, and merges
/// merges. A repeated import adds new commits. No code of the repository runs, and its
/// configuration is ignored.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree git import ../project
  turntree git import ../project main origin/next --session project
  turntree git import review.git --session copy")]
struct Import {
    /// The repository
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    /// Branches, tags and commits to import; all branches by default
    #[arg(value_name = "REV")]
    revisions: Vec<String>,
    /// The session it becomes or continues; the directory's name by default
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// Leave larger files out, at most 2GiB; 100MiB by default
    #[arg(long, value_name = "SIZE", value_parser = parse_file_size)]
    max_file_size: Option<u64>,
    /// Point HEAD at the imported session
    #[arg(long)]
    switch: bool,
    /// Import a session that was forgotten with 'turntree session forget'
    #[arg(long)]
    again: bool,
}

impl Verb for Git {
    fn reads_only(&self) -> bool {
        matches!(self.action, GitCommand::Export(_))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            GitCommand::Export(export) => export.run(run),
            GitCommand::Import(import) => import.run(run),
        }
    }
}

impl Export {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let selection = match &self.session {
            Some(session) => ExportSelection::Session(named_session(&repo, session)?),
            None if self.names.is_empty() => ExportSelection::All,
            None => ExportSelection::Names(self.names.clone()),
        };
        let mut options = GitExportOptions { selection, source: self.source };
        let wanted = wanted_of(&repo, &options.selection)?;
        let scope = SearchScope { starts: tips(&repo, &wanted), hide: Vec::new() };
        let copy = match self.gate.check(&repo, &[scope], &[])? {
            Passage::Free => None,
            Passage::Refused(found) => {
                refuse(&mut run.out, &found, true)?;
                return Ok(Answer::No);
            }
            Passage::Masked(found) => {
                if let ExportSelection::Names(names) = &mut options.selection {
                    *names = whole_names(&repo, names)?;
                }
                Some(Scrubbed::verified(&repo, &wanted, &[], &found)?)
            }
        };
        let source = copy.as_ref().map_or(&*repo, Scrubbed::repo);
        let working = Working::new("looking at the turns");
        let mut progress = |done, all| working.say(format!("turn {done} of {all}"));
        let report = export(source, &self.directory, &options, &mut progress).hint(
            ErrorKind::Conflict,
            "another program has changed the repository: export again",
        )?;
        drop(working);
        let directory = self.directory.display().to_string();
        if run.out.json {
            let refs = report.refs.into_iter().map(|found| json::GitRef {
                name: found.name,
                git_name: found.git_name,
                git_id: found.git_id,
                change: found.change.name(),
            });
            run.out.record(&json::GitExported {
                directory,
                commits: report.commits,
                objects: report.objects,
                bytes: report.bytes,
                expired: report.expired,
                refs: refs.collect(),
                deleted: report.deleted,
                head: report.head,
                notes: notes(report.notes),
            })?;
            return Ok(Answer::Yes);
        }
        warn_of(&report.notes);
        let refs = count(report.refs.len() as u64, "ref");
        let changed = changed_refs(&report);
        if report.commits == 0 {
            match &changed[..] {
                [] => writeln!(run.out, "{directory} is up to date ({refs})")?,
                changed => {
                    writeln!(run.out, "{directory}: no new commits, {}", changed.join(", "))?;
                }
            }
            return Ok(Answer::Yes);
        }
        let commits = run.out.paint.paint(STRONG, count(report.commits, "commit"));
        let (objects, bytes) = (count(report.objects, "object"), size(report.bytes));
        writeln!(run.out, "{directory}: {commits} for {refs}, {objects} in {bytes}")?;
        if report.expired > 0 {
            let expired = count(report.expired, "turn");
            writeln!(run.out, "left out: {expired} that retention has dropped")?;
        }
        Ok(Answer::Yes)
    }
}

impl Import {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let full = whole_path(&self.directory)?;
        // Checked first, so that an invalid repository does not create a store.
        check_repository(&self.directory)?;
        let repo = run.open_or_create()?;
        let options = GitImportOptions {
            revisions: self.revisions.clone(),
            session: self.session.clone().unwrap_or_else(|| session_name(&full)),
            stamp: stamp()?,
            max_file_bytes: self.max_file_size.unwrap_or(MAX_FILE_BYTES),
            switch: self.switch,
        };
        refuse_forgotten(&repo, [&*options.session], self.again)?;
        let working = Working::new("looking at the history");
        let mut progress = |done, all| working.say(format!("commit {done} of {all}"));
        let report = import(&repo, &self.directory, &options, &mut progress)
            .hint(ErrorKind::Corrupt, "'git fsck' in the repository says more")
            .hint(ErrorKind::Conflict, "another process has changed this session: import again")?;
        drop(working);
        if run.out.json {
            let branches = report.branches.into_iter().map(|found| json::GitBranch {
                branch: found.branch.branch().to_owned(),
                git_name: found.git_name,
                at: json::HeadId::new(found.head.to_string()),
                moved: found.moved,
            });
            let tags = report.tags.into_iter().map(|found| json::GitTag {
                tag: found.tag,
                git_name: found.git_name,
                id: found.commit.to_string(),
                created: found.is_new,
            });
            run.out.record(&json::GitImported {
                session: options.session,
                commits: report.commits,
                new_bytes: report.new_bytes,
                branches: branches.collect(),
                tags: tags.collect(),
                notes: notes(report.notes),
            })?;
            return Ok(Answer::Yes);
        }
        warn_of(&report.notes);
        let session = run.out.paint.paint(NAME, &options.session);
        let branches = report.branches.iter().map(|found| found.branch.branch());
        let branches = branches.collect::<Vec<_>>().join(", ");
        let changed = changed_names(&report);
        if report.commits == 0 {
            match &changed[..] {
                [] => writeln!(run.out, "{session} is up to date ({branches})")?,
                changed => writeln!(run.out, "{session}: no new commits, {}", changed.join(", "))?,
            }
            return Ok(Answer::Yes);
        }
        let commits = run.out.paint.paint(STRONG, count(report.commits, "commit"));
        let made = report.tags.iter().filter(|found| found.is_new).count() as u64;
        let tags = Some(made).filter(|made| *made > 0);
        let tags = tags.map_or(String::new(), |made| format!(" with {}", count(made, "new tag")));
        let written = size(report.new_bytes);
        writeln!(run.out, "{session}: {commits} on {branches}{tags}; {written} written")?;
        Ok(Answer::Yes)
    }
}

/// The sessions and commits of a selection.
fn wanted_of(repo: &Repository, selection: &ExportSelection) -> Result<Vec<BundleRequest>> {
    match selection {
        ExportSelection::All => {
            let branches = repo.branches();
            let sessions: BTreeSet<&str> =
                branches.iter().map(|(name, _)| name.session()).collect();
            let request = |session: &str| BundleRequest::Session(session.to_owned());
            Ok(sessions.into_iter().map(request).collect())
        }
        ExportSelection::Session(session) => Ok(vec![BundleRequest::Session(session.clone())]),
        ExportSelection::Names(names) => names.iter().map(|name| wanted(repo, name)).collect(),
    }
}

/// The names of branches with their sessions, because a scrubbed copy has no HEAD to resolve them.
fn whole_names(repo: &Repository, names: &[String]) -> Result<Vec<String>> {
    let whole = |name: &String| {
        Ok(match resolve(repo, name)?.branch {
            Some(branch) => branch.to_string(),
            None => name.clone(),
        })
    };
    names.iter().map(whole).collect()
}

/// Describes the changes of branches and tags by an import.
fn changed_names(report: &GitImport) -> Vec<String> {
    let moved = report.branches.iter().filter(|found| found.moved);
    let moved: Vec<_> = moved.map(|found| found.branch.branch()).collect();
    let made: Vec<_> = report.tags.iter().filter(|found| found.is_new).map(|it| &*it.tag).collect();
    let named = [("moved", moved), ("tagged", made)];
    let some = named.into_iter().filter(|(_, names)| !names.is_empty());
    some.map(|(what, names)| format!("{what} {}", names.join(", "))).collect()
}

/// Describes the changes of refs by an export.
fn changed_refs(report: &GitExport) -> Vec<String> {
    let of = |change| report.refs.iter().filter(|found| found.change == change).count() as u64;
    let counts = [
        (of(GitRefChange::Created), "made"),
        (of(GitRefChange::Moved), "moved"),
        (report.deleted.len() as u64, "deleted"),
    ];
    let some = counts.into_iter().filter(|(number, _)| *number > 0);
    let mut words: Vec<_> =
        some.map(|(number, what)| format!("{} {what}", count(number, "ref"))).collect();
    words.extend(report.head.as_ref().map(|branch| format!("HEAD is at {}", harmless(branch))));
    words
}

fn notes(notes: Vec<GitNote>) -> Vec<json::GitNote> {
    notes
        .into_iter()
        .map(|GitNote { place, what }| json::GitNote { place, message: what })
        .collect()
}

fn warn_of(notes: &[GitNote]) {
    for GitNote { place, what } in notes.iter().take(MAX_SHOWN_NOTES) {
        warn(&format!("{}: {what}", harmless(place)));
    }
    if let Some(more) = notes.len().checked_sub(MAX_SHOWN_NOTES).filter(|more| *more > 0) {
        warn(&format!("{} more like these", count(more as u64, "note")));
    }
}
