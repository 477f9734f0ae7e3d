//! `log`: lists snapshots, newest first.

mod filter;
mod names;
mod order;

use std::collections::HashMap;
use std::io::{self, Write};

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::context::Selection;
use turntree::object::{ObjectId, Time};
use turntree::repo::{
    Count, HEAD, History, LogEntry, PickaxeQuery, Prompts, ReadMessage, Repository,
};
use turntree_exchange::{PriceTable, TurnFacts, is_prompt, turn_facts};

use self::filter::{Filter, Wanted};
use self::names::Names;
use self::order::GraphLine;
use super::Verb;
use crate::porcelain::read::history::{Walk, gone};
use crate::porcelain::read::lost_turns::LOST_TURNS;
use crate::porcelain::read::paths::Paths;
use crate::porcelain::read::place::part;
use crate::porcelain::read::prices::Prices;
use crate::porcelain::read::revision::of_git_commit;
use crate::porcelain::read::search::{Occurring, warn_of_gaps};
use crate::program::complete::{entries, paths, sessions};
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::output::{FAINT, ID, NAME, Output, Palette, REMOVED, STRONG, Width, note};
use crate::view::render::graph::{Drawn, Graph, GraphRow};
use crate::view::render::spending::short_spending;
use crate::view::render::{ID_DIGITS, columns_of, count, one_line};

/// Maximum width of a title.
const TITLE_WIDTH: usize = 100;

/// Width of names and message with --oneline, and the minimum width of a message.
const ONELINE_WIDTH: usize = 76;
const MIN_WIDTH: usize = 30;

/// Width of a title that names leave on a narrow screen.
const MIN_TITLE: usize = 20;

/// The largest number of columns of a graph, the least, and the part of a screen for them: a column
/// takes two characters, so the graph takes at most half of the screen.
const MAX_COLUMNS: usize = 64;
const MIN_COLUMNS: usize = 8;
const SCREEN_SHARE: usize = 4;

/// Colours of the lanes of a graph, from the left.
const LANES: [anstyle::Style; 6] = [
    anstyle::AnsiColor::Cyan.on_default(),
    anstyle::AnsiColor::Magenta.on_default(),
    anstyle::AnsiColor::Green.on_default(),
    anstyle::AnsiColor::Yellow.on_default(),
    anstyle::AnsiColor::Blue.on_default(),
    anstyle::AnsiColor::Red.on_default(),
];

/// Show snapshots, newest first
///
/// One line per turn, with the tools that failed in it, the files it changed, and the cost of its
/// answers (see 'turntree usage'). Turns with a prompt of the user are headings: '#12' is prompt
/// 12, and 'prompt:12' names the turn.
///
/// --graph draws one branch after another, and folds runs of turns without events to show ('~ 14
/// turns'); --full shows all of them. Of branches for which a screen has no room, it shows the number
/// ('⋮ 12 branches more, 36 turns').
///
/// --path and -S select turns by their changes; the changes of a merge are those that differ from
/// all its parents. -S counts TEXT in each changed entry and in each changed conversation, whose
/// messages are read as people see them.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree log -n 5
  turntree log --prompts
  turntree log --graph --all
  turntree log nightly~10..nightly --oneline
  turntree log src/main.rs
  turntree log --path files/src --path scratchpad/plan
  turntree log -S 'fn parse' --graph
  turntree log --session nightly --since yesterday --trigger threshold
  turntree log --all --tokens-above 100000 --reverse -n 5
  turntree log nightly --json | jq -r .message")]
pub(crate) struct Log {
    /// Start here, or A..B for the snapshots of B that A does not have; HEAD by default; a file for
    /// the turns that changed it
    #[arg(value_name = "REV", add = ArgValueCompleter::new(entries))]
    revision: Option<String>,
    /// Stop after this many
    #[arg(short = 'n', long, value_name = "N")]
    max_count: Option<usize>,
    /// Draw the graph of snapshots and their parents
    #[arg(long)]
    graph: bool,
    /// Draw every turn of the graph
    #[arg(long, requires = "graph")]
    full: bool,
    /// Only turns with a prompt of the user
    #[arg(long)]
    prompts: bool,
    /// Show only ids, names and messages
    #[arg(long)]
    oneline: bool,
    /// Start at every branch
    #[arg(long, conflicts_with = "revision")]
    all: bool,
    /// Start at every branch of this session
    #[arg(long, value_name = "NAME", conflicts_with_all = ["revision", "all"],
        add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// Start at the turn named by a git commit
    #[arg(long, value_name = "SHA", conflicts_with_all = ["revision", "all", "session"])]
    commit: Option<String>,
    /// Show the oldest first; -n counts from there
    #[arg(long, conflicts_with = "graph")]
    reverse: bool,
    #[command(flatten)]
    filter: Filter,
    /// Only turns that changed entries at or below PATH; may be given several times
    #[arg(long, value_name = "PATH", add = ArgValueCompleter::new(paths))]
    path: Vec<String>,
    /// Only turns that changed the number of occurrences of TEXT
    #[arg(short = 'S', value_name = "TEXT")]
    occurring: Option<String>,
}

/// How snapshots are shown.
pub(crate) struct Style {
    pub(crate) paint: Palette,
    pub(crate) now: Time,
    pub(crate) graph: bool,
    pub(crate) oneline: bool,
    /// Oldest first.
    pub(crate) reverse: bool,
    /// Every turn of a graph.
    pub(crate) full: bool,
    pub(crate) width: Width,
    /// The prices of models.
    pub(crate) prices: PriceTable,
}

impl Verb for Log {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        self.log(run, &repo).hint_damage(LOST_TURNS)
    }
}

impl Log {
    fn log(&self, run: &mut Invocation, repo: &Repository) -> Result<Answer> {
        let named = self.commit.as_deref().map(of_git_commit).transpose()?;
        let words: Vec<String> = self.revision.iter().cloned().chain(named).collect();
        let (revisions, mut paths) = part(repo, &words)?;
        let walk = match (revisions.first(), &self.session) {
            (None, Some(session)) => Walk::of_session(repo, session)?,
            (None, None) if self.all => Walk::newest(repo, &run.sessions())?,
            (revision, _) => Walk::range(repo, revision.map_or(HEAD, String::as_str))?,
        };
        let known = Paths::over(repo, walk.starts.iter().copied());
        paths.extend(known.selecting(&self.path));
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
        let prompts = self.prompts.then(|| repo.prompts(Some(&is_prompt))).transpose()?;
        let mut wanted = Wanted { filter: &self.filter, touches, prompts, has_shown: false };
        self.write(run, repo, walk, &mut wanted)?;
        let is_empty = !wanted.has_shown && !run.out.json;
        if let Some(unknown) = is_empty.then(|| known.unknown(&self.path)).flatten() {
            note(&unknown);
        }
        if let Some(touches) = wanted.touches.filter(|_| !run.out.json) {
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
        let (graph, oneline, reverse, full) = (self.graph, self.oneline, self.reverse, self.full);
        let (width, prices) = (run.out.width, Prices::of(None)?.table);
        let style = Style { paint, now, graph, oneline, reverse, full, width, prices };
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
        let prices = Prices::of(None)?.table;
        let prices = Some(&prices);
        let shows = |entry: &LogEntry| wanted.shows(entry);
        if !self.reverse {
            let each = |record| Ok(out.record(&record)?);
            return walk.records(repo, None, limit, prices, shows, each).map(drop);
        }
        let mut waiting = Vec::new();
        let each = |record| {
            waiting.push(record);
            Ok(())
        };
        walk.records(repo, None, usize::MAX, prices, shows, each)?;
        for record in waiting.into_iter().rev().take(limit) {
            out.record(&record)?;
        }
        Ok(())
    }
}

/// Lines of a graph for which no column was free.
#[derive(Debug, Default)]
struct FoldedLines {
    branches: u64,
    turns: u64,
}

/// The matching turns, each with its nearest matching ancestors as parents.
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
    /// Writes snapshots as text.
    pub(crate) fn write(
        &self,
        walk: &Walk,
        out: &mut dyn Write,
        repo: &Repository,
        limit: usize,
        wanted: Option<&mut Wanted<'_, '_>>,
    ) -> Result<()> {
        let names = Names::of(repo)?;
        let history = walk.history(repo)?;
        if self.graph {
            let is_whole = self.full || wanted.as_ref().is_some_and(|wanted| wanted.is_any());
            let entries = match wanted {
                // The graph connects matching turns, so all turns must be read first.
                Some(wanted) if wanted.is_any() => only_shown(history, wanted)?,
                _ => history.collect::<turntree::Result<Vec<_>>>()?,
            };
            return self.write_graph(out, repo, order::by_branch(entries), &names, limit, is_whole);
        }
        let shown: Box<dyn Iterator<Item = Result<LogEntry>>> = match wanted {
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
        let mut prompts = repo.prompts(Some(&is_prompt))?;
        for entry in shown.take(limit) {
            let line = self.line(repo, &entry?, &names, &mut prompts, 0)?;
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn write_graph(
        &self,
        out: &mut dyn Write,
        repo: &Repository,
        entries: Vec<LogEntry>,
        names: &Names,
        limit: usize,
        is_whole: bool,
    ) -> Result<()> {
        let mut prompts = repo.prompts(Some(&is_prompt))?;
        let mut failed = None;
        let lines: Vec<GraphLine> = match is_whole {
            true => entries.into_iter().map(GraphLine::Turn).collect(),
            false => order::without_runs(entries, |entry| {
                let number = prompts.number(entry);
                let is_event = !matches!(number, Ok(None)) || names.contains(&entry.id);
                failed = number.err().or(failed.take());
                is_event
            }),
        };
        if let Some(error) = failed {
            return Err(error.into());
        }
        let mut graph = Graph::new(order::tips(&lines), self.columns());
        let mut folded = FoldedLines::default();
        for line in lines.iter().take(limit) {
            let (id, parents, turns) = line.place();
            let mut row = match graph.add(id, parents) {
                Drawn::Row(row) => row,
                Drawn::Folded { is_tip } => {
                    folded.branches += u64::from(is_tip);
                    folded.turns += turns;
                    continue;
                }
            };
            self.write_folded(out, &graph, &mut folded)?;
            let beside = columns_of(&row.node) + 1;
            let mut text = match line {
                GraphLine::Turn(entry) => self.line(repo, entry, names, &mut prompts, beside)?,
                GraphLine::Run { .. } => {
                    row.node = row.node.replace('\u{25cf}', "~");
                    self.paint.paint(FAINT, count(turns, "turn")).to_string()
                }
            };
            if row.folded_parents > 0 {
                let parents = count(row.folded_parents as u64, "folded parent");
                text = format!("{text}  {}", self.paint.paint(FAINT, parents));
            }
            self.write_beside(out, &row, &text)?;
        }
        self.write_folded(out, &graph, &mut folded)
    }

    /// The largest number of columns of a graph.
    fn columns(&self) -> usize {
        let of_screen = self.width.columns().map(|columns| columns / SCREEN_SHARE);
        of_screen.unwrap_or(MAX_COLUMNS).clamp(MIN_COLUMNS, MAX_COLUMNS)
    }

    /// Writes a line about the turns that were folded since the last line.
    fn write_folded(
        &self,
        out: &mut dyn Write,
        graph: &Graph<ObjectId>,
        folded: &mut FoldedLines,
    ) -> Result<()> {
        let FoldedLines { branches, turns } = std::mem::take(folded);
        if turns == 0 {
            return Ok(());
        }
        let turns = count(turns, "turn");
        let text = match branches {
            0 => format!("\u{22ee} {turns} more of folded branches"),
            branches => format!("\u{22ee} {} more, {turns}", count(branches, "branch")),
        };
        let (lanes, text) = (self.lanes(&graph.folded_line()), self.paint.paint(FAINT, text));
        Ok(writeln!(out, "{lanes} {text}")?)
    }

    /// A line about a snapshot, with `beside` columns before it.
    fn line(
        &self,
        repo: &Repository,
        entry: &LogEntry,
        names: &Names,
        prompts: &mut Prompts<'_>,
        beside: usize,
    ) -> Result<String> {
        let LogEntry { id, commit, .. } = entry;
        let id = self.paint.paint(ID, id.short(ID_DIGITS));
        // A narrow screen leaves room for a title.
        let room = |used: usize| self.width.columns().map(|edge| edge.saturating_sub(used + 3));
        let in_brackets = |shown: &str| match shown {
            "" => String::new(),
            shown => format!(" ({})", self.paint.paint(NAME, shown)),
        };
        let gone = gone(repo, &commit.tree);
        if self.oneline {
            let shown = names.shown(&entry.id, room(beside + ID_DIGITS + 1 + MIN_WIDTH));
            let names = in_brackets(&shown);
            let width = ONELINE_WIDTH.saturating_sub(columns_of(&shown)).max(MIN_WIDTH);
            let width = width.min(self.width.left(beside + ID_DIGITS + 1));
            let gone = gone.map(|word| format!(" {}", self.paint.paint(FAINT, word)));
            let (gone, message) = (gone.unwrap_or_default(), one_line(&commit.message, width));
            return Ok(format!("{id}{names}{gone} {message}"));
        }
        let mut facts = Vec::new();
        match gone {
            Some(word) => facts.push((FAINT, word.to_owned())),
            None => {
                let found = turn_facts(repo, entry, &self.prices)?.unwrap_or_default();
                let TurnFacts { errors, file_changes, spending, .. } = found;
                if errors > 0 {
                    facts.push((REMOVED, format!("{errors} failed")));
                }
                if file_changes > 0 {
                    facts.push((FAINT, count(file_changes, "file")));
                }
                facts.extend(spending.map(|spending| (FAINT, short_spending(&spending))));
            }
        }
        facts.push((FAINT, clock::relative(commit.time, self.now)));
        let facts_width: usize = facts.iter().map(|(_, fact)| columns_of(fact) + 2).sum();
        let number = prompts.number(entry)?;
        let turn = format!("{:<5}", format!("t{}", commit.turn));
        // Age and cost stand in columns of their own, at the right edge of a screen.
        let lead = number.map_or("  ".to_owned(), |number| format!("#{number} "));
        let used = beside + ID_DIGITS + 1 + turn.len() + 1 + lead.len() + facts_width;
        let shown = names.shown(&entry.id, room(used + MIN_TITLE));
        let names = in_brackets(&shown);
        let used = used + if shown.is_empty() { 0 } else { columns_of(&shown) + 3 };
        let title = one_line(&commit.message, self.width.left(used).min(TITLE_WIDTH));
        let edge = self.width.columns().unwrap_or_default();
        let apart = " ".repeat(edge.saturating_sub(used + columns_of(&title)));
        let style = if number.is_some() { STRONG } else { FAINT };
        let facts: String = facts
            .iter()
            .map(|(style, fact)| format!("  {}", self.paint.paint(*style, fact)))
            .collect();
        let title = self.paint.paint(style, format!("{lead}{title}"));
        Ok(format!("{id} {} {title}{names}{apart}{facts}", self.paint.paint(FAINT, turn)))
    }

    /// Writes a line of text to the right of a snapshot in the graph.
    fn write_beside(&self, out: &mut dyn Write, row: &GraphRow, line: &str) -> io::Result<()> {
        if let Some(joins) = &row.joins {
            writeln!(out, "{}", self.lanes(joins))?;
        }
        writeln!(out, "{} {line}", self.lanes(&row.node))?;
        for below in [&row.forks, &row.ends].into_iter().flatten() {
            writeln!(out, "{}", self.lanes(below))?;
        }
        Ok(())
    }

    /// Colours the lanes of a graph line.
    fn lanes(&self, text: &str) -> String {
        let lane = |at: usize| LANES.get(at / 2 % LANES.len()).copied().unwrap_or_default();
        let painted = text.chars().enumerate().map(|(at, c)| match c {
            ' ' => c.to_string(),
            c => self.paint.paint(lane(at), c).to_string(),
        });
        painted.collect()
    }
}
