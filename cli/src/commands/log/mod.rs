//! `log`: snapshots, newest first.

mod filter;

use std::collections::HashMap;
use std::io::{self, Write};

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::ErrorKind;
use turntree::context::Selection;
use turntree::object::{ObjectId, RefValue, Time};
use turntree::repo::{
    BranchName, Count, HEAD, History, LogEntry, PickaxeQuery, ReadMessage, Repository,
};

use self::filter::{Filter, Wanted};
use super::Verb;
use crate::porcelain::history::{Walk, gone, messages};
use crate::porcelain::place::part;
use crate::porcelain::search::{Occurring, warn_of_gaps};
use crate::program::complete::{revisions, sessions};
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Failure, Result};
use crate::view::output::{FAINT, ID, NAME, Output, Palette, STRONG};
use crate::view::render::graph::{Graph, GraphRow};
use crate::view::render::{ID_DIGITS, count, one_line};

/// Characters of a message on a line of its own.
const MESSAGE_WIDTH: usize = 76;

/// Characters of a message and the names before it on one line, and the fewest a message gets.
const ONELINE_WIDTH: usize = 76;
const MIN_WIDTH: usize = 30;

/// Show snapshots, newest first
///
/// --path and -S select turns by their changes; the changes of a merge are those that differ from
/// all its parents. -S counts TEXT in each changed entry and in each changed conversation, whose
/// messages are read as people see them.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree log -n 5
  turntree log --graph --all
  turntree log nightly~10..nightly --oneline
  turntree log src/main.rs
  turntree log --path files/src --path scratchpad/plan
  turntree log -S 'fn parse' --graph
  turntree log --session nightly --since yesterday --trigger threshold
  turntree log --all --tokens-above 100000 --reverse -n 5
  turntree log nightly --json | jq -r .message")]
pub(crate) struct Log {
    /// Start here, or A..B for the snapshots of B that A does not have; HEAD by default; a file for the
    /// turns that changed it
    #[arg(value_name = "REV", add = ArgValueCandidates::new(revisions))]
    revision: Option<String>,
    /// Stop after this many
    #[arg(short = 'n', long, value_name = "N")]
    max_count: Option<usize>,
    /// Draw the graph of snapshots and their parents
    #[arg(long)]
    graph: bool,
    /// Show one line per snapshot
    #[arg(long)]
    oneline: bool,
    /// Begin at every branch
    #[arg(long, conflicts_with = "revision")]
    all: bool,
    /// Start at every branch of this session
    #[arg(long, value_name = "NAME", conflicts_with_all = ["revision", "all"],
        add = ArgValueCandidates::new(sessions))]
    session: Option<String>,
    /// Show the oldest first; -n counts from there
    #[arg(long, conflicts_with = "graph")]
    reverse: bool,
    #[command(flatten)]
    filter: Filter,
    /// Only turns that changed something at or below PATH; may be given several times
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Only turns that changed how often TEXT occurs
    #[arg(short = 'S', value_name = "TEXT")]
    occurring: Option<String>,
}

/// The form in which snapshots are shown.
pub(crate) struct Style {
    pub(crate) paint: Palette,
    pub(crate) now: Time,
    pub(crate) graph: bool,
    pub(crate) oneline: bool,
    /// Oldest first.
    pub(crate) reverse: bool,
}

impl Verb for Log {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let words: Vec<String> = self.revision.iter().cloned().collect();
        let (revisions, mut paths) = part(&repo, &words)?;
        paths.extend(self.path.iter().cloned());
        let walk = match (revisions.first(), &self.session) {
            (None, Some(session)) => Walk::of_session(&repo, session)?,
            (None, None) if self.all => Walk::all(&repo)?,
            (revision, _) => Walk::range(&repo, revision.map_or(HEAD, String::as_str))?,
        };
        let occurring = self.occurring.as_deref().map(Occurring::new).transpose()?;
        let count = |text: &[u8]| occurring.as_ref().map_or(0, |occurring| occurring.count(text));
        let read = |format: &str, bytes: &[u8]| {
            occurring.as_ref().and_then(|occurring| occurring.message(format, bytes))
        };
        let is_wanted = occurring.is_some() || !paths.is_empty();
        let text: Option<(Count<'_>, ReadMessage<'_>)> =
            occurring.as_ref().map(|_| (&count as Count<'_>, &read as ReadMessage<'_>));
        let touching = PickaxeQuery { paths: Selection::parse(&paths), text };
        let touches = is_wanted.then(|| repo.touches(touching));
        let mut wanted = Wanted { filter: &self.filter, touches };
        self.write(run, &repo, walk, &mut wanted)?;
        if let Some(touches) = wanted.touches {
            warn_of_gaps(touches.gaps());
        }
        Ok(Answer::Yes)
    }
}

impl Log {
    fn write(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        walk: Walk,
        wanted: &mut Wanted<'_, '_>,
    ) -> Result<()> {
        let limit = self.max_count.unwrap_or(usize::MAX);
        if run.out.json {
            return self.write_records(&mut run.out, repo, walk, wanted);
        }
        run.out.page();
        let (paint, now) = (run.out.paint, clock::now()?);
        let (graph, oneline, reverse) = (self.graph, self.oneline, self.reverse);
        let style = Style { paint, now, graph, oneline, reverse };
        style.write(&walk, &mut run.out, repo, limit, Some(wanted))
    }

    fn write_records(
        &self,
        out: &mut Output,
        repo: &Repository,
        walk: Walk,
        wanted: &mut Wanted<'_, '_>,
    ) -> Result<()> {
        let limit = self.max_count.unwrap_or(usize::MAX);
        let shows = |entry: &LogEntry| wanted.shows(entry);
        if !self.reverse {
            let each = |record| Ok(out.record(&record)?);
            return walk.records(repo, None, limit, shows, each).map(drop);
        }
        let mut waiting = Vec::new();
        let each = |record| {
            waiting.push(record);
            Ok(())
        };
        walk.records(repo, None, usize::MAX, shows, each)?;
        for record in waiting.into_iter().rev().take(limit) {
            out.record(&record)?;
        }
        Ok(())
    }
}

/// The turns that did what is asked for, each with the next of them before it as its parents.
fn only_shown(history: History<'_>, wanted: &mut Wanted<'_, '_>) -> Result<Vec<LogEntry>> {
    let entries = history.collect::<turntree::Result<Vec<_>>>()?;
    let mut nearest: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    let mut shown = Vec::new();
    for mut entry in entries.into_iter().rev() {
        let mut parents: Vec<ObjectId> = Vec::new();
        for parent in entry.parents.iter().filter_map(|parent| nearest.get(parent)).flatten() {
            if !parents.contains(parent) {
                parents.push(*parent);
            }
        }
        if wanted.shows(&entry)? {
            nearest.insert(entry.id, vec![entry.id]);
            entry.parents = parents;
            shown.push(entry);
        } else {
            nearest.insert(entry.id, parents);
        }
    }
    shown.reverse();
    Ok(shown)
}

impl Style {
    /// Writes snapshots for people.
    pub(crate) fn write(
        &self,
        walk: &Walk,
        out: &mut dyn Write,
        repo: &Repository,
        limit: usize,
        wanted: Option<&mut Wanted<'_, '_>>,
    ) -> Result<()> {
        let names = names_by_commit(repo)?;
        let mut graph = Graph::new();
        let history = repo.history(&walk.starts, &walk.hide)?;
        let shown: Box<dyn Iterator<Item = Result<LogEntry>>> = match wanted {
            // The lines of a graph lead to what is shown, which nobody knows before all is looked at.
            Some(wanted) if self.graph && wanted.is_any() => {
                Box::new(only_shown(history, wanted)?.into_iter().map(Ok))
            }
            Some(wanted) => Box::new(history.filter_map(move |entry| {
                let shown = entry
                    .map_err(Failure::from)
                    .and_then(|entry| Ok(wanted.shows(&entry)?.then_some(entry)));
                shown.transpose()
            })),
            None => Box::new(history.map(|entry| Ok(entry?))),
        };
        let shown: Box<dyn Iterator<Item = Result<LogEntry>>> = match self.reverse {
            true => Box::new(shown.collect::<Vec<_>>().into_iter().rev()),
            false => shown,
        };
        for entry in shown.take(limit) {
            let entry = entry?;
            let names = names.get(&entry.id).map_or(&[][..], Vec::as_slice);
            let lines = self.lines(repo, &entry, names)?;
            if self.graph {
                write_beside(out, &graph.add(entry.id, &entry.parents), &lines)?;
            } else {
                for line in &lines {
                    writeln!(out, "{line}")?;
                }
            }
        }
        Ok(())
    }

    fn lines(&self, repo: &Repository, entry: &LogEntry, names: &[String]) -> Result<Vec<String>> {
        let LogEntry { id, commit, .. } = entry;
        let id = self.paint.paint(ID, id.short(ID_DIGITS));
        let shown = names.join(", ");
        let names = match names {
            [] => String::new(),
            _ => format!(" ({})", self.paint.paint(NAME, &shown)),
        };
        let gone = gone(repo, &commit.tree);
        if self.oneline {
            let width = ONELINE_WIDTH.saturating_sub(shown.chars().count()).max(MIN_WIDTH);
            let gone = gone.map(|word| format!(" {}", self.paint.paint(FAINT, word)));
            let (gone, message) = (gone.unwrap_or_default(), one_line(&commit.message, width));
            return Ok(vec![format!("{id}{names}{gone} {message}")]);
        }
        let content = match gone {
            Some(word) => word.to_owned(),
            None => count(messages(repo, &commit.tree)?, "message"),
        };
        let about = format!(
            "  {}  {}  {}",
            clock::relative(commit.time, self.now),
            content,
            one_line(&commit.author.agent, 30),
        );
        let turn = self.paint.paint(STRONG, format!("turn {}", commit.turn));
        let head = format!("{id} {turn}{names}{}", self.paint.paint(FAINT, about));
        Ok(vec![head, format!("  {}", one_line(&commit.message, MESSAGE_WIDTH))])
    }
}

/// Writes lines of text to the right of a commit in the graph.
fn write_beside(out: &mut dyn Write, row: &GraphRow, lines: &[String]) -> io::Result<()> {
    if let Some(joins) = &row.joins {
        writeln!(out, "{joins}")?;
    }
    let mut lines = lines.iter().map(String::as_str);
    writeln!(out, "{} {}", row.node, lines.next().unwrap_or_default())?;
    if let Some(forks) = &row.forks {
        writeln!(out, "{forks} {}", lines.next().unwrap_or_default())?;
    }
    for line in lines {
        writeln!(out, "{} {line}", row.rest)?;
    }
    Ok(())
}

/// The names that each commit has: branches, tags and pins, HEAD's first.
fn names_by_commit(repo: &Repository) -> Result<HashMap<ObjectId, Vec<String>>> {
    let head = repo.head_if_any()?.map(|head| head.branch);
    let mut names: HashMap<ObjectId, Vec<String>> = HashMap::new();
    for (full, value) in &repo.refs().values {
        let RefValue::Object(id) = value else { continue };
        let id = match repo.peel(id) {
            Ok(id) => id,
            Err(error) if error.kind() == ErrorKind::Corrupt => return Err(error.into()),
            // A retention policy, or an expired pin on what is gone.
            Err(_) => continue,
        };
        let named = names.entry(id).or_default();
        match BranchName::from_full(full) {
            Some(branch) if Some(&branch) == head.as_ref() => {
                named.insert(0, format!("HEAD -> {branch}"));
            }
            Some(branch) => named.push(branch.to_string()),
            None => named.push(full.strip_prefix("refs/").unwrap_or(full).to_owned()),
        }
    }
    Ok(names)
}
