//! `log`: snapshots, newest first.

use std::collections::HashMap;
use std::io::{self, Write};

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::context::{Context, Selection};
use turntree::object::{ObjectId, RefValue, Time};
use turntree::repo::{
    BranchName, Count, HEAD, History, LogEntry, ReadMessage, Repository, SearchScope, Touching,
};
use turntree::store::Gone;
use turntree::{Error, ErrorKind};
use turntree_exchange::context_tokens;

use super::Verb;
use super::log_filter::{Filter, Wanted};
use crate::complete::{revisions, sessions};
use crate::error::{Answer, Failure, Result};
use crate::invocation::Invocation;
use crate::output::{FAINT, ID, NAME, Output, Palette, STRONG};
use crate::render::graph::{Graph, Row};
use crate::render::{ID_DIGITS, count, one_line};
use crate::revision::{resolve, with_resolver};
use crate::search::{Occurring, warn_of_gaps};
use crate::{clock, json};

/// Characters of a message on a line of its own.
const MESSAGE_WIDTH: usize = 76;

/// Characters of a message and the names before it on one line, and the fewest a message gets.
const ONELINE_WIDTH: usize = 76;
const MIN_WIDTH: usize = 30;

/// Show snapshots, newest first
///
/// --path and -S choose turns by what they changed; a merge changed what differs from all it joins. -S
/// counts TEXT in each changed entry and each changed conversation, whose messages are read as people
/// see them.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree log -n 5
  turntree log --graph --all
  turntree log nightly~10..nightly --oneline
  turntree log --path files/src --path scratchpad/plan
  turntree log -S 'fn parse' --graph
  turntree log --session nightly --since yesterday --trigger threshold
  turntree log --all --tokens-above 100000 --reverse -n 5
  turntree log nightly --json | jq -r .message")]
pub(crate) struct Log {
    /// Begin here, or A..B for what B has and A has not; HEAD by default
    #[arg(value_name = "REV", add = ArgValueCandidates::new(revisions))]
    revision: Option<String>,
    /// Stop after this many
    #[arg(short = 'n', long, value_name = "N")]
    max_count: Option<usize>,
    /// Draw which snapshot continues which
    #[arg(long)]
    graph: bool,
    /// One line each
    #[arg(long)]
    oneline: bool,
    /// Begin at every branch
    #[arg(long, conflicts_with = "revision")]
    all: bool,
    /// Begin at every branch of this session
    #[arg(long, value_name = "NAME", conflicts_with_all = ["revision", "all"],
        add = ArgValueCandidates::new(sessions))]
    session: Option<String>,
    /// Oldest first; -n counts from there
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

/// Where a walk begins and what it leaves out.
pub(crate) struct Walk {
    starts: Vec<ObjectId>,
    hide: Vec<ObjectId>,
    /// The branch that a commit was come to along, for those about to be met.
    along: HashMap<ObjectId, BranchName>,
}

/// How snapshots look.
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
        let walk = match (&self.revision, &self.session) {
            (None, Some(session)) => Walk::of_session(&repo, session)?,
            (None, None) if self.all => Walk::all(&repo)?,
            (revision, _) => Walk::range(&repo, revision.as_deref().unwrap_or(HEAD))?,
        };
        let occurring = self.occurring.as_deref().map(Occurring::new).transpose()?;
        let count = |text: &[u8]| occurring.as_ref().map_or(0, |occurring| occurring.count(text));
        let read = |format: &str, bytes: &[u8]| {
            occurring.as_ref().and_then(|occurring| occurring.message(format, bytes))
        };
        let is_wanted = occurring.is_some() || !self.path.is_empty();
        let text: Option<(Count<'_>, ReadMessage<'_>)> =
            occurring.as_ref().map(|_| (&count as Count<'_>, &read as ReadMessage<'_>));
        let touching = Touching { paths: Selection::parse(&self.path), text };
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
        walk.write_text(&mut run.out, repo, limit, &style, Some(wanted))
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

impl Walk {
    /// The history of a revision, or of a range.
    pub(crate) fn range(repo: &Repository, text: &str) -> Result<Self> {
        let range = with_resolver(repo, |resolver| resolver.resolve_range(text))?;
        let right = text.split_once("..").map_or(text, |(_, right)| right);
        let right = if right.is_empty() { HEAD } else { right };
        let mut along = HashMap::new();
        if let Some(start) = range.include.first() {
            let named = resolve(repo, right)?.branch;
            let branch = named.map_or_else(|| branch_with(repo, start), |name| Ok(Some(name)))?;
            along.extend(branch.map(|branch| (*start, branch)));
        }
        Ok(Self { starts: range.include, hide: range.exclude, along })
    }

    /// The same, to search in.
    pub(crate) fn into_scope(self) -> SearchScope {
        let named = |id: ObjectId| (id, self.along.get(&id).cloned());
        SearchScope { starts: self.starts.into_iter().map(named).collect(), hide: self.hide }
    }

    /// Everything that any branch has.
    pub(crate) fn all(repo: &Repository) -> Result<Self> {
        let branches = repo.branches();
        let starts = branches.iter().map(|(_, id)| *id).collect();
        let along = branches.into_iter().map(|(name, id)| (id, name)).collect();
        Ok(Self { starts, hide: Vec::new(), along })
    }

    /// Everything that the branches of one session have.
    fn of_session(repo: &Repository, session: &str) -> Result<Self> {
        let mut walk = Self::all(repo)?;
        walk.keep_session(session);
        if walk.starts.is_empty() {
            let message = format!("there is no session {session}");
            return Err(Failure::from(turntree::Error::not_found(message)));
        }
        Ok(walk)
    }

    /// Only branches of one session.
    pub(crate) fn keep_session(&mut self, session: &str) {
        self.along.retain(|_, name| name.session() == session);
        self.starts.retain(|start| self.along.contains_key(start));
    }

    /// Everything that one branch has.
    pub(crate) fn of(branch: &BranchName, tip: ObjectId) -> Self {
        let along = HashMap::from([(tip, branch.clone())]);
        Self { starts: vec![tip], hide: Vec::new(), along }
    }

    /// The branch a commit was come to along; its parents are then come to along the same.
    fn pass(&mut self, entry: &LogEntry) -> Option<BranchName> {
        let branch = self.along.remove(&entry.id);
        if let Some(branch) = &branch {
            for parent in &entry.parents {
                self.along.entry(*parent).or_insert_with(|| branch.clone());
            }
        }
        branch
    }

    /// Gives the records of `limit` snapshots to `each`, beginning at the snapshot `from` if one is
    /// named. Returns where the walk goes on after them, unless it is at its end.
    ///
    /// # Errors
    /// `InvalidInput` when the walk does not come to `from`.
    pub(crate) fn records(
        mut self,
        repo: &Repository,
        mut from: Option<ObjectId>,
        limit: usize,
        mut shows: impl FnMut(&LogEntry) -> Result<bool>,
        mut each: impl FnMut(json::LogLine) -> Result<()>,
    ) -> Result<Option<ObjectId>> {
        let mut left = limit;
        for entry in repo.history(&self.starts, &self.hide)? {
            if left == 0 {
                return Ok(entry.ok().map(|entry| entry.id));
            }
            let entry = entry?;
            let branch = self.pass(&entry).map(|name| name.branch().to_owned());
            from.take_if(|from| *from == entry.id);
            if from.is_some() || !shows(&entry)? {
                continue;
            }
            left -= 1;
            each(record(repo, entry, branch)?)?;
        }
        match from {
            Some(from) => Err(Error::invalid(format!("{from} is not in this history")).into()),
            None => Ok(None),
        }
    }

    /// Writes snapshots for people.
    pub(crate) fn write_text(
        self,
        out: &mut dyn Write,
        repo: &Repository,
        limit: usize,
        style: &Style,
        wanted: Option<&mut Wanted<'_, '_>>,
    ) -> Result<()> {
        let names = names_by_commit(repo)?;
        let mut graph = Graph::new();
        let history = repo.history(&self.starts, &self.hide)?;
        let shown: Box<dyn Iterator<Item = Result<LogEntry>>> = match wanted {
            // The lines of a graph lead to what is shown, which nobody knows before all is looked at.
            Some(wanted) if style.graph && wanted.is_any() => {
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
        let shown: Box<dyn Iterator<Item = Result<LogEntry>>> = match style.reverse {
            true => Box::new(shown.collect::<Vec<_>>().into_iter().rev()),
            false => shown,
        };
        for entry in shown.take(limit) {
            let entry = entry?;
            let names = names.get(&entry.id).map_or(&[][..], Vec::as_slice);
            let lines = style.lines(repo, &entry, names)?;
            if style.graph {
                write_beside(out, &graph.add(entry.id, &entry.parents), &lines)?;
            } else {
                for line in &lines {
                    writeln!(out, "{line}")?;
                }
            }
        }
        Ok(())
    }
}

/// One line of JSON.
fn record(repo: &Repository, entry: LogEntry, branch: Option<String>) -> Result<json::LogLine> {
    let LogEntry { id, commit, parents } = entry;
    let (messages, gone) = match gone(repo, &commit.tree) {
        Some(word) => (None, Some(word)),
        None => (Some(messages(repo, &commit.tree)?), None),
    };
    Ok(json::LogLine {
        id: id.to_string(),
        parents: parents.iter().map(ToString::to_string).collect(),
        tokens: context_tokens(&commit),
        session: commit.session,
        branch,
        turn: commit.turn,
        time: clock::rfc3339(commit.time),
        trigger: commit.trigger.name(),
        message: commit.message,
        messages,
        author: json::Author { agent: commit.author.agent, model: commit.author.model },
        gone,
    })
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

/// Messages of all agents in a context.
fn messages(repo: &Repository, tree: &ObjectId) -> Result<u64> {
    Ok(Context::open(repo.store(), tree)?.message_count(repo.store())?)
}

/// What became of a context that is not there any more.
fn gone(repo: &Repository, tree: &ObjectId) -> Option<&'static str> {
    repo.store().gone(tree).map(|gone| match gone {
        Gone::Elided => "expired",
        Gone::Redacted => "redacted",
    })
}

/// Writes lines of text to the right of a commit in the graph.
fn write_beside(out: &mut dyn Write, row: &Row, lines: &[String]) -> io::Result<()> {
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
    let head = repo.head()?;
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
            Some(branch) if branch == head.branch => named.insert(0, format!("HEAD -> {branch}")),
            Some(branch) => named.push(branch.to_string()),
            None => named.push(full.strip_prefix("refs/").unwrap_or(full).to_owned()),
        }
    }
    Ok(names)
}

/// A branch of its session that has the commit: HEAD's if that does, else the first by name.
fn branch_with(repo: &Repository, id: &ObjectId) -> Result<Option<BranchName>> {
    let session = repo.commit(id)?.session;
    let head = repo.head()?.branch;
    let mut branches = repo.branches();
    branches.retain(|(name, _)| name.session() == session);
    branches.sort_by_key(|(name, _)| *name != head);
    for (name, tip) in branches {
        if repo.history(&[*id], &[tip])?.next().transpose()?.is_none() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
