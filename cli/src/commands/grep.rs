//! `grep`: finds lines in all of history.

use std::collections::BTreeSet;
use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::context::Selection;
use turntree::repo::{
    Grep as Answered, GrepPlace, GrepQuery, LinePattern, MayHold, PatternOptions, Repository,
    SearchFilter, TextMatches,
};

use super::Verb;
use crate::porcelain::read::paths::Paths;
use crate::porcelain::read::place::part;
use crate::porcelain::read::search::{
    PlaceFacts, PlacesOfSessions, RoleName, complain, messages_with, record, scopes, starts_of,
    warn_of_gaps,
};
use crate::program::complete::{paths, revisions, sessions};
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::output::{FAINT, ID, NAME, Output, STRONG, note};
use crate::view::progress::Working;
use crate::view::render::changes::path_of;
use crate::view::render::{ID_DIGITS, columns_of, count, harmless, one_line};

/// Characters of a time up to the minute.
const DATE: usize = 16;

/// Blobs between two progress messages.
const BLOBS_A_WORD: u64 = 1000;

/// Search the whole history of sessions
///
/// Prints each entry with a matching line, the turn in which it appeared first, and the last turn
/// that had it if it was removed. Messages are searched as people see them: text, thoughts, calls
/// and results, without escapes. The records of imported transcripts are searched only with --path
/// source. The exit code is 1 if nothing matches.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree grep 'fn parse'
  turntree grep -F 'a.b(c)' nightly~10..nightly
  turntree grep -i timeout --role tool -C 2
  turntree grep TODO --path files/src --all -l
  turntree grep password --json | jq -r .path")]
pub(crate) struct Grep {
    /// A regular expression for one line
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// Search the history of these, or A..B for entries added since A; all branches of HEAD's
    /// session by default
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revisions: Vec<String>,
    /// Search the branches of every session
    #[arg(long, conflicts_with_all = ["revisions", "session"])]
    all: bool,
    /// Search the branches of this session
    #[arg(long, value_name = "NAME", conflicts_with = "revisions",
        add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Treat the pattern as a fixed string
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Match only whole words
    #[arg(short, long)]
    word_regexp: bool,
    /// Show only the number of matching lines
    #[arg(short, long, conflicts_with = "list")]
    count: bool,
    /// Show only the places of matches
    #[arg(short, long)]
    list: bool,
    /// Only sections and entries at or below PATH; may be given several times
    #[arg(long, visible_alias = "section", value_name = "PATH",
        add = ArgValueCompleter::new(paths))]
    path: Vec<String>,
    /// Only messages of this role; may be given several times
    #[arg(long, value_name = "ROLE", value_enum)]
    role: Vec<RoleName>,
    /// Show N lines around each match
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0,
        conflicts_with_all = ["count", "list"])]
    context: usize,
}

impl Verb for Grep {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let options = PatternOptions {
            fixed: self.fixed_strings,
            ignore_case: self.ignore_case,
            word: self.word_regexp,
        };
        let pattern = LinePattern::new(&self.pattern, options)?;
        let repo = run.open()?;
        let (revisions, mut paths) = part(&repo, &self.revisions)?;
        let scopes = scopes(&repo, &revisions, self.session.as_deref(), self.all)?;
        let known_paths = Paths::over(&repo, starts_of(&scopes));
        paths.extend(known_paths.selecting(&self.path));
        let messages = messages_with(&pattern);
        let working = Working::new("looking at the turns");
        let progress = |done: u64, all: u64| {
            if done.is_multiple_of(BLOBS_A_WORD) {
                working.say(format!("searching: {done} of {}", count(all, "entry")));
            }
        };
        let may_hold = messages.test();
        let query = GrepQuery {
            pattern: &pattern,
            wanted: SearchFilter {
                paths: Selection::parse(&paths),
                roles: self.role.iter().map(|role| role.role()).collect(),
            },
            lines: (!self.count && !self.list).then_some(self.context),
            read: &|format, bytes| messages.read(format, bytes),
            may_hold: may_hold.as_ref().map(|test| test as MayHold<'_>),
        };
        let mut steps = repo.grep_in_steps(&scopes, query, &progress);
        let mut answered = steps.step(&progress)?;
        let mut last = None;
        while let Some(nothing) = answered.take_if(|answered| answered.places().is_empty()) {
            answered = steps.step(&progress)?;
            last = Some(nothing);
        }
        drop(working);
        if !run.out.json {
            run.out.page();
        }
        let known = run.sessions();
        let (mut headed, has_places) = (None, answered.is_some());
        while let Some(found) = answered {
            let sessions = PlacesOfSessions::of(&repo, &known, found.places())?;
            self.write_places(&mut run.out, &repo, &found, &sessions, &mut headed)?;
            last = Some(found);
            answered = steps.step(&|_, _| {})?;
        }
        if let Some(last) = &last {
            if !run.out.json {
                warn_of_gaps(last.gaps());
            }
            complain(last.damage())?;
        }
        if !has_places && !run.out.json {
            note(&self.looked_at(&repo)?);
            if let Some(unknown) = known_paths.unknown(&self.path) {
                note(&unknown);
            }
        }
        Ok(if has_places { Answer::Yes } else { Answer::No })
    }
}

impl Grep {
    /// Reports which history was searched without a match, and where else to search.
    fn looked_at(&self, repo: &Repository) -> Result<String> {
        let all: BTreeSet<String> =
            repo.branches().into_iter().map(|(name, _)| name.session().to_owned()).collect();
        let sessions = count(all.len() as u64, "session");
        let place = match (&self.session, &*self.revisions) {
            _ if self.all => return Ok(format!("nothing in {sessions}")),
            (Some(session), _) => session.clone(),
            (None, []) => repo.head()?.branch.session().to_owned(),
            (None, revisions) => revisions.join(", "),
        };
        let more =
            if all.len() > 1 { format!(": --all looks at {sessions}") } else { String::new() };
        Ok(format!("nothing in {place}{more}"))
    }

    /// Writes the matches of a search step, so that they can be read while the next step runs.
    fn write_places(
        &self,
        out: &mut Output,
        repo: &Repository,
        answered: &Answered<'_>,
        sessions: &PlacesOfSessions,
        headed: &mut Option<String>,
    ) -> Result<()> {
        for place in answered.places() {
            let about = sessions.about(repo, place)?;
            if self.all && !out.json && headed.as_ref() != Some(&place.session) {
                write_heading(out, place, &about)?;
                *headed = Some(place.session.clone());
            }
            self.write(out, answered, place, &about)?;
        }
        Ok(out.flush()?)
    }

    fn write(
        &self,
        out: &mut Output,
        answered: &Answered<'_>,
        place: &GrepPlace,
        about: &PlaceFacts,
    ) -> Result<()> {
        let shows_lines = !self.count && !self.list;
        let found = match shows_lines {
            true => answered.found(place)?,
            false => TextMatches { count: place.count, ..TextMatches::default() },
        };
        if out.json {
            return Ok(out.record(&record(place, &found, shows_lines, about))?);
        }
        self.write_place(out, place, about)?;
        if shows_lines && found.binary {
            writeln!(out, "  binary: {}", count(found.count, "line"))?;
        }
        let mut last = None;
        for line in &found.lines {
            if self.context > 0 && last.is_some_and(|last| line.number > last + 1) {
                writeln!(out, "  --")?;
            }
            last = Some(line.number);
            let sign = if line.matches { ':' } else { '-' };
            let number = out.paint.paint(FAINT, format!("{:>5}{sign}", line.number));
            let cut = if line.cut { " …" } else { "" };
            writeln!(out, "{number} {}{cut}", harmless(&line.text))?;
        }
        Ok(())
    }

    fn write_place(&self, out: &mut Output, place: &GrepPlace, about: &PlaceFacts) -> Result<()> {
        let paint = out.paint;
        let id = paint.paint(ID, place.commit.short(ID_DIGITS));
        let branch = match &place.branch {
            Some(branch) => branch.to_string(),
            None => place.session.clone(),
        };
        let turn = paint.paint(STRONG, format!("turn {}", place.turn));
        let path = harmless(&path_of(&place.section, &place.key));
        let date = clock::rfc3339(about.time);
        let date = paint.paint(FAINT, date.get(..DATE).unwrap_or(&date).replace('T', " "));
        write!(out, "{id} {branch} {turn} {date}  {}", paint.paint(NAME, path))?;
        if let Some(role) = place.role {
            write!(out, "  {role}")?;
        }
        if let Some((turn, _)) = place.last {
            write!(out, "  {}", paint.paint(FAINT, format!("until turn {turn}")))?;
        }
        if self.count {
            write!(out, "  {}", count(place.count, "line"))?;
        }
        writeln!(out)?;
        Ok(())
    }
}

/// Writes the session of the following places.
fn write_heading(out: &mut Output, place: &GrepPlace, about: &PlaceFacts) -> Result<()> {
    let project = about.project.as_deref().map(|project| format!(" ({})", harmless(project)));
    let name = out.names().session(&place.session);
    let session = format!("{name}{}", project.unwrap_or_default());
    let left = out.width.left(columns_of(&session) + 2);
    let title = one_line(about.title.as_deref().unwrap_or_default(), left);
    writeln!(out, "{}  {title}", out.paint.paint(STRONG, session))?;
    Ok(())
}
