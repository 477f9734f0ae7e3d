//! `show`: shows the overview of a snapshot, or one entry of it.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::context::{Context, MAIN_AGENT, MessageEntry, open_conflicts};
use turntree::object::{Commit, ObjectId, ObjectSource};
use turntree::repo::Repository;

use super::Verb;
use super::ls;
use crate::hook::git::has_script;
use crate::porcelain::git::commits::{GitCommit, commits_of_turn};
use crate::porcelain::read::entries::{entry_at, list, overview};
use crate::porcelain::read::lost_turns::naming_turn;
use crate::porcelain::read::paths::with_similar;
use crate::porcelain::read::place::resolve_place;
use crate::program::complete::entries;
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::output::{FAINT, ID, NAME, Output, REMOVED, STRONG};
use crate::view::render::entries_of;
use crate::view::render::{ID_DIGITS, columns_of, count, harmless, message, padded, size};

/// Messages at the end of an overview.
const LAST_MESSAGES: u64 = 5;

/// Show a snapshot, or one entry of it
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree show
  turntree show nightly~3
  turntree show HEAD:agents/main/messages/12
  turntree show turn:12:scratchpad/todos")]
pub(crate) struct Show {
    /// A revision, optionally with a path
    #[arg(value_name = "REV[:PATH]", default_value = "HEAD", add = ArgValueCompleter::new(entries))]
    revision: String,
}

impl Verb for Show {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        naming_turn(&repo, &self.revision, self.show(run, &repo))
    }
}

impl Show {
    fn show(&self, run: &mut Invocation, repo: &Repository) -> Result<Answer> {
        let revision = resolve_place(repo, &self.revision)?;
        let id = revision.commit;
        let commit = repo.commit(&id)?;
        let context = repo.context(&id)?;
        match revision.path {
            None if run.out.json => {
                let record = overview(&id, &commit, &context, repo)?;
                run.out.record(&record)?;
            }
            None => write_overview(&mut run.out, repo, &id, &commit, &context)?,
            Some(path) => {
                let shown = show_path(&mut run.out, repo, id, &context, &path);
                with_similar(repo, &id, &path, shown)?;
            }
        }
        Ok(Answer::Yes)
    }
}

fn write_overview(
    out: &mut Output,
    repo: &Repository,
    id: &ObjectId,
    commit: &Commit,
    context: &Context,
) -> Result<()> {
    let (paint, source) = (out.paint, repo);
    let age = clock::relative(commit.time, clock::now()?);
    let author = [commit.author.agent.as_str(), &commit.author.model];
    let author: Vec<&str> = author.into_iter().filter(|name| !name.is_empty()).collect();
    let parents: Vec<String> = commit.parents.iter().map(|id| id.short(ID_DIGITS)).collect();
    writeln!(out, "{} {}", paint.paint(STRONG, "snapshot"), paint.paint(ID, id))?;
    writeln!(out, "session  {}, turn {}", paint.paint(NAME, &commit.session), commit.turn)?;
    writeln!(out, "time     {} ({age})", clock::rfc3339(commit.time))?;
    writeln!(out, "author   {} ({})", harmless(&author.join(", ")), commit.trigger)?;
    if !parents.is_empty() {
        writeln!(out, "parents  {}", paint.paint(ID, parents.join(" ")))?;
    }
    for (name, value) in &commit.metadata {
        writeln!(out, "{}  {}", harmless(name), harmless(value))?;
    }
    for GitCommit { id, subject } in git_commits(id) {
        writeln!(out, "git      {} {}", paint.paint(ID, harmless(&id)), harmless(&subject))?;
    }
    writeln!(out)?;
    for line in harmless(&commit.message).lines() {
        writeln!(out, "    {line}")?;
    }
    writeln!(out)?;
    let sections = context.sections(source)?;
    let width = sections.keys().map(|name| columns_of(name)).max().unwrap_or(0);
    for (name, section) in &sections {
        let entries = count(section.len(source)?, entries_of(name));
        writeln!(out, "{}  {entries}", paint.paint(NAME, padded(name, width)))?;
    }
    let open = open_conflicts(source, context)?;
    if !open.is_empty() {
        let open = count(open.len() as u64, "conflict");
        writeln!(out, "\n{}", paint.paint(REMOVED, format_args!("{open} to decide")))?;
    }
    write_last_messages(out, context, source)
}

/// The git commits that name the snapshot, if the git hook is installed.
fn git_commits(id: &ObjectId) -> Vec<GitCommit> {
    let here = std::env::current_dir().ok().filter(|here| has_script(here));
    here.map(|here| commits_of_turn(&here, id)).unwrap_or_default()
}

fn write_last_messages(
    out: &mut Output,
    context: &Context,
    source: &dyn ObjectSource,
) -> Result<()> {
    let messages = context.messages(source, MAIN_AGENT)?;
    let first = messages.len().saturating_sub(LAST_MESSAGES);
    if !messages.is_empty() {
        writeln!(out)?;
    }
    for (index, item) in (first..).zip(messages.iter(source, first..messages.len())) {
        let entry = MessageEntry::from_item(&item?)?;
        let summary = message::summary(source, &entry)?;
        let about = out.paint.paint(FAINT, format!("{index:>5}  {:<9}", entry.role.name()));
        let origin = entry.origin.map(|origin| format!("  (from {})", harmless(&origin)));
        let origin = out.paint.paint(FAINT, origin.unwrap_or_default());
        writeln!(out, "{about}  {summary}{origin}")?;
    }
    Ok(())
}

fn show_path(
    out: &mut Output,
    repo: &Repository,
    commit: ObjectId,
    context: &Context,
    path: &str,
) -> Result<()> {
    let source = repo.store();
    let Some(record) = entry_at(source, &commit, context, path)? else {
        return ls::print(out, commit, path.to_owned(), list(source, context, path)?);
    };
    if out.json {
        out.record(&record)?;
        return Ok(());
    }
    let role = record.role.map(|role| format!(", {role}")).unwrap_or_default();
    let origin = record.origin.map(|origin| format!(", from {}", harmless(&origin)));
    let role = format!("{role}{}", origin.unwrap_or_default());
    let id = record.blob.get(..ID_DIGITS).unwrap_or_default();
    let about = format!("{path}{role}, {}, {id}", size(record.size));
    writeln!(out, "{}\n", out.paint.paint(FAINT, about))?;
    match record.text {
        Some(text) => writeln!(out, "{}", harmless(&text).trim_end_matches('\n'))?,
        None => writeln!(out, "(not text: 'turntree cat' prints the bytes)")?,
    }
    Ok(())
}
