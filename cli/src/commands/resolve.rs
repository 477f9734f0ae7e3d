//! `resolve`: lists and resolves open conflicts.

use std::io::Write;
use std::path::Path;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use turntree::context::{MergeSide, Take};
use turntree::object::{Kind, ObjectSource};
use turntree::repo::{BranchName, Repository};
use turntree::tree::Item;
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::porcelain::change::conflicts::{Decision, decide, open, records, version};
use crate::porcelain::read::revision::with_resolver;
use crate::program::complete::{conflicts, revisions};
use crate::program::invocation::{Invocation, read_input};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, REMOVED};
use crate::view::render::merging::words;
use crate::view::render::{ID_DIGITS, columns_of, count, harmless, one_line, padded, size};

/// List open conflicts, or resolve them
///
/// Without a path, lists the open conflicts of HEAD's branch with both sides. The three versions of
/// a conflict are in the section conflicts until it is resolved: 'turntree cat
/// HEAD:conflicts/theirs/files/src/a.rs' prints one. A resolution is a new snapshot.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree resolve
  turntree resolve files/src/a.rs --take theirs
  turntree resolve files/src/a.rs --take merged.rs
  turntree resolve scratchpad/plan --take current
  turntree resolve --all --take ours")]
pub(crate) struct Resolve {
    /// Paths of conflicts, as listed
    #[arg(value_name = "PATH", requires = "take", add = ArgValueCandidates::new(conflicts))]
    paths: Vec<String>,
    /// Resolve all open conflicts
    #[arg(long, conflicts_with = "paths", requires = "take")]
    all: bool,
    /// Take ours, theirs or base, the entry as it is now (current), or the content of a file;
    /// ./ours is a file of that name, - is standard input
    #[arg(long, value_name = "ours|theirs|base|current|FILE", value_hint = clap::ValueHint::FilePath)]
    take: Option<String>,
    /// Act on this branch; HEAD's by default
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(revisions))]
    branch: Option<String>,
    /// Message of the snapshot
    #[arg(short, long, value_name = "TEXT", requires = "take")]
    message: Option<String>,
}

impl Verb for Resolve {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let branch = match &self.branch {
            Some(name) => with_resolver(&repo, |resolver| resolver.branch(name))?,
            None => repo.head()?.branch,
        };
        match &self.take {
            None => list(run, &repo, &branch),
            Some(take) => self.decide(run, &repo, &branch, take),
        }
    }
}

impl Resolve {
    fn decide(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        branch: &BranchName,
        take: &str,
    ) -> Result<Answer> {
        if self.paths.is_empty() && !self.all {
            let missing = Error::invalid("--take needs the paths of conflicts, or --all");
            return Err(Failure::hinted(missing, "'turntree resolve' lists them"));
        }
        let (paths, take, message) = (&*self.paths, self.read(take)?, self.message.as_deref());
        write(run, branch, decide(repo, branch, Decision { paths, take, message })?)
    }

    fn read(&self, take: &str) -> Result<Take> {
        Ok(match version(take) {
            Some(version) => version,
            None if self.all => {
                let message = "--all takes ours, theirs, base or current: a file is for one path";
                return Err(Error::invalid(message).into());
            }
            None => Take::Content(read_input(Path::new(take)).hint(
                ErrorKind::NotFound,
                "take ours, theirs, base, current, or an existing file",
            )?),
        })
    }
}

fn list(run: &mut Invocation, repo: &Repository, branch: &BranchName) -> Result<Answer> {
    let open = open(repo, branch)?;
    if run.out.json {
        run.out.record(&json::OpenConflicts {
            session: branch.session().to_owned(),
            branch: branch.branch().to_owned(),
            id: repo.tip(branch).map(|tip| tip.to_string()).unwrap_or_default(),
            conflicts: records(&open),
        })?;
        return Ok(Answer::Yes);
    }
    let width = open.iter().map(|conflict| columns_of(&conflict.path)).max().unwrap_or(0);
    for conflict in &open {
        let path = padded(&harmless(&conflict.path), width);
        let paint = run.out.paint;
        let (path, words) = (paint.paint(REMOVED, path), paint.paint(FAINT, words(conflict.kind)));
        writeln!(run.out, "{path}  {words}")?;
        for version in [MergeSide::Ours, MergeSide::Theirs] {
            let text = beginning(repo, conflict.item(version))?;
            let text = one_line(&text, run.out.width.left(12));
            writeln!(run.out, "  {:<7} {text}", format!("{}:", version.name()))?;
        }
    }
    if let Some(conflict) = open.first() {
        let path = harmless(&conflict.path);
        writeln!(
            run.out,
            "decide with 'turntree resolve {path} --take ours', theirs, base or a file"
        )?;
    }
    if open.is_empty() {
        writeln!(run.out, "no conflict is open on {}", run.out.branch(branch))?;
    }
    Ok(Answer::Yes)
}

/// The first non-empty line of one side of a conflict.
fn beginning(repo: &Repository, item: Option<&Item>) -> Result<String> {
    let Some(item) = item else { return Ok("(removed)".to_owned()) };
    if item.link.kind != Kind::Blob {
        return Ok(format!("({})", item.link.kind));
    }
    let bytes = repo.read_as(Kind::Blob, &item.link.id)?;
    let size = size(bytes.len() as u64);
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(format!("({size}, binary)")) };
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Ok(format!("{line}  ({size})"))
}

fn write(run: &mut Invocation, branch: &BranchName, resolved: json::Resolved) -> Result<Answer> {
    if run.out.json {
        run.out.record(&resolved)?;
        return Ok(Answer::Yes);
    }
    let json::Resolved { id, turn, resolved: closed, removed, open: left, .. } = resolved;
    let paint = run.out.paint;
    let id = id.get(..ID_DIGITS).unwrap_or(&id);
    let (id, branch) = (paint.paint(ID, id), run.out.branch(branch));
    let left = match left.len() as u64 {
        0 => "none is left".to_owned(),
        1 => "1 is left".to_owned(),
        n => format!("{n} are left"),
    };
    let closed = count(closed.len() as u64, "conflict");
    writeln!(run.out, "{id} turn {turn} of {branch}: {closed} decided, {left}")?;
    for path in removed {
        writeln!(run.out, "removed files/{}, which was in the way", harmless(&path))?;
    }
    Ok(Answer::Yes)
}
