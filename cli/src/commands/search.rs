//! `search`: searches words in all sessions, best sessions first.

use std::io::Write;
use std::ops::Range;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::context::Selection;
use turntree_exchange::{IndexPlace, SearchAnswer, SearchHit, SearchQuery, Snippet, search};

use super::Verb;
use crate::platform::shell_word;
use crate::porcelain::read::paths::Paths;
use crate::porcelain::read::search::{
    HITS_PER_SESSION, RoleName, complain, hit_record, named_session, sessions_of, starts_of_session,
};
use crate::porcelain::read::sessions::ListedSession;
use crate::program::complete::{paths, sessions};
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::moment::moment;
use crate::view::output::{FAINT, ID, NAME, Output, STRONG, note};
use crate::view::progress::Working;
use crate::view::render::changes::path_of;
use crate::view::render::{ID_DIGITS, columns_of, count, harmless, one_line};

/// Maximum number of columns of a title.
const TITLE: usize = 60;

/// Characters of a time up to the minute.
const DATE: usize = 16;

/// The indent of a snippet.
const SNIPPET_INDENT: &str = "    ";

/// Search for words in everything, best sessions first
///
/// Finds the sessions whose messages, notes and files are about WORDS, a few words or a question,
/// and shows the best entries of each. Prompts and answers count more than the output of tools, and
/// rare words more than frequent ones. Common words such as "how" and "the" are left out.
/// Other forms and near spellings of a word count less. An entry that lacks words names them.
/// "Words in quotes" must be there and adjacent, and wor* matches the beginning of a word. Case and
/// accents are ignored. The first search builds an index in the store, and each search adds new
/// content to it. The exit code is 1 if nothing is found. For regular expressions, parts of words
/// and exact text use grep.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree search retry budget
  turntree search how do I raise the upload limit
  turntree search '\"connection reset\" timeout' --tool bash
  turntree search pars* --session nightly --role assistant
  turntree search migration --since 3.days.ago --path files/src
  turntree search --all-words flaky test --json | jq -r '.id + \":\" + .path'")]
pub(crate) struct Search {
    /// Words, "phrases" and beginnings of words, as in wor*
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Only entries of this session
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// Only messages of this role; may be given several times
    #[arg(long, value_name = "ROLE", value_enum)]
    role: Vec<RoleName>,
    /// Only calls of this tool, and their results
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only entries added later than TIME, such as 2026-01-21T12:00:00Z or 3.hours.ago
    #[arg(long, value_name = "TIME", alias = "after", value_parser = moment)]
    since: Option<i64>,
    /// Only sections and entries at or below PATH; may be given several times
    #[arg(long, visible_alias = "section", value_name = "PATH",
        add = ArgValueCompleter::new(paths))]
    path: Vec<String>,
    /// Only entries that have all WORDS exactly as typed, ranked one by one
    #[arg(long)]
    all_words: bool,
    /// Show at most N of each session; 0 for all
    #[arg(long, value_name = "N", default_value_t = HITS_PER_SESSION, conflicts_with = "all_words")]
    per_session: u64,
    /// Show at most N
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    max_count: u64,
    /// Rebuild the index first
    #[arg(long)]
    rebuild: bool,
}

impl Verb for Search {
    fn may_write(&self) -> bool {
        false
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let text = self.words.join(" ");
        let repo = run.open()?;
        let session = self.session.as_deref().map(|name| named_session(&repo, name)).transpose()?;
        let roles: Vec<_> = self.role.iter().map(|role| role.role()).collect();
        let known = Paths::over(&repo, starts_of_session(&repo, session.as_deref()));
        let query = SearchQuery {
            text: &text,
            session: session.as_deref(),
            roles: &roles,
            tool: self.tool.as_deref(),
            since: self.since,
            paths: Selection::parse(&known.selecting(&self.path)),
            offset: 0,
            limit: self.max_count,
            rebuild: self.rebuild,
            all_words: self.all_words,
            per_session: self.per_session,
        };
        let working = Working::new("looking at the turns");
        let progress = |done: u64, all: u64| match all {
            0 => working.say("waiting for another search, which indexes new turns".to_owned()),
            _ => working.say(format!("indexing new turns: {done} of {}", count(all, "turn"))),
        };
        let answer = search(&repo, &query, &progress)?;
        drop(working);
        if !run.out.json {
            run.out.page();
        }
        let sessions = sessions_of(&repo, &run.sessions(), &answer.hits)?;
        let mut last: Option<&str> = None;
        for hit in &answer.hits {
            let session = sessions.get(&hit.session);
            if run.out.json {
                run.out.record(&hit_record(hit, session))?;
                continue;
            }
            if last.replace(&hit.session) != Some(&hit.session) {
                write_session(&mut run.out, &hit.session, session)?;
            }
            write_hit(&mut run.out, hit)?;
        }
        if !run.out.json {
            self.write_hints(&mut run.out, &answer)?;
        }
        match &answer.place {
            IndexPlace::InStore => {}
            IndexPlace::InMemory(why) => {
                note(&format!("the index was made in memory, for this search alone: {why}"));
            }
            IndexPlace::Filling { indexed, turns } => {
                let turns = count(*turns, "turn");
                note(&format!(
                    "another process is indexing: {indexed} of {turns} were searched, more later"
                ));
            }
        }
        if answer.hits.is_empty() && !run.out.json {
            let what = if self.all_words { "all" } else { "any" };
            note(&format!(
                "nothing has {what} of these words: grep finds parts of words and exact text"
            ));
            if let Some(unknown) = known.unknown(&self.path) {
                note(&unknown);
            }
        }
        complain(&answer.damage)?;
        Ok(if answer.hits.is_empty() { Answer::No } else { Answer::Yes })
    }
}

impl Search {
    /// Writes hints after the hits: how to read the first one, and how to see more.
    fn write_hints(&self, out: &mut Output, answer: &SearchAnswer) -> Result<()> {
        let Some(first) = answer.hits.first() else { return Ok(()) };
        let id = first.commit.short(ID_DIGITS);
        let place = harmless(&format!("{id}:{}", path_of(&first.section, &first.key)));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@".contains(c);
        let place = if place.chars().all(is_plain) { place } else { shell_word(&place) };
        let read = format!(
            "'turntree show {place}' reads the first, 'turntree resume {id}' continues there"
        );
        let most = "no entry has all of these words: these have most of them";
        let more = format!("more follows: -n {} shows more", self.max_count.saturating_mul(2));
        let hints =
            [(answer.candidates == 0, most), (answer.more, more.as_str()), (true, read.as_str())];
        for (_, hint) in hints.iter().filter(|(is_wanted, _)| *is_wanted) {
            writeln!(out, "{}", out.paint.paint(FAINT, hint))?;
        }
        Ok(())
    }
}

/// Writes the line of a session: its name, title, agent, project and age.
fn write_session(out: &mut Output, name: &str, session: Option<&ListedSession>) -> Result<()> {
    let paint = out.paint;
    let handle = session.map_or(name, |session| session.handle.as_str());
    write!(out, "{}", paint.paint(NAME, harmless(handle)))?;
    if let Some(ListedSession { summary, .. }) = session {
        if let Some((title, _)) = summary.title() {
            write!(out, "  {}", paint.paint(STRONG, one_line(title, TITLE)))?;
        }
        let age = clock::relative(summary.time, clock::now()?);
        let facts = [Some(summary.agent.as_str()), summary.project(), Some(&age)];
        let facts: Vec<String> =
            facts.into_iter().flatten().filter(|it| !it.is_empty()).map(harmless).collect();
        write!(out, "  {}", paint.paint(FAINT, format!("({})", facts.join(", "))))?;
    }
    writeln!(out)?;
    Ok(())
}

fn write_hit(out: &mut Output, hit: &SearchHit) -> Result<()> {
    let paint = out.paint;
    let id = hit.commit.short(ID_DIGITS);
    let date = clock::rfc3339(hit.time);
    let date = paint.paint(FAINT, date.get(..DATE).unwrap_or(&date).replace('T', " "));
    let turn = paint.paint(STRONG, format!("turn {}", hit.turn));
    let path = path_of(&hit.section, &hit.key);
    let shown = paint.paint(NAME, harmless(&path));
    write!(out, "  {} {turn} {date}  {shown}", paint.paint(ID, &id))?;
    if let Some(role) = hit.role {
        write!(out, "  {role}")?;
    }
    if !hit.tools.is_empty() {
        write!(out, "  {}", paint.paint(FAINT, harmless(&hit.tools.join(", "))))?;
    }
    writeln!(out)?;
    write_snippet(out, &hit.snippet)?;
    for (words, what) in [(&hit.missing, "without"), (&hit.varied, "another form of")] {
        if !words.is_empty() {
            let words = harmless(&words.join(", "));
            writeln!(out, "    {}", paint.paint(FAINT, format!("{what}: {words}")))?;
        }
    }
    Ok(())
}

/// Cuts a snippet to a line of `columns`, around its first match.
fn cut_to(snippet: &Snippet, columns: usize) -> Snippet {
    let Snippet { text, matches } = snippet;
    let text_of = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    if columns_of(text) <= columns {
        return snippet.clone();
    }
    // A third of the line stands before the match, and the ends of a cut say so.
    let found = matches.first().map_or(0, |found| found.start);
    let places = || text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let fits = |at: &usize| *at == found || columns_of(text_of(*at, found)) < columns / 3;
    let start = places().take_while(|at| *at <= found).find(fits).unwrap_or(found);
    let (before, room) = if start > 0 { ("…", columns - 1) } else { ("", columns) };
    let whole = columns_of(text_of(start, text.len())) <= room;
    let fits = |at: &usize| whole || columns_of(text_of(start, *at)) < room;
    let end = places().filter(|at| *at >= start).take_while(fits).last().unwrap_or(start);
    let after = if whole { "" } else { "…" };
    let moved = |found: &Range<usize>| {
        let at = |place: usize| place.clamp(start, end) - start + before.len();
        at(found.start)..at(found.end)
    };
    Snippet {
        text: format!("{before}{}{after}", text_of(start, end)),
        matches: matches.iter().map(moved).filter(|found| !found.is_empty()).collect(),
    }
}

fn write_snippet(out: &mut Output, snippet: &Snippet) -> Result<()> {
    write!(out, "{SNIPPET_INDENT}")?;
    let snippet = &cut_to(snippet, out.width.left(SNIPPET_INDENT.len()));
    let mut at = 0;
    for found in &snippet.matches {
        let before = snippet.text.get(at..found.start).unwrap_or_default();
        let word = snippet.text.get(found.clone()).unwrap_or_default();
        write!(out, "{}{}", harmless(before), out.paint.paint(STRONG, harmless(word)))?;
        at = found.end;
    }
    writeln!(out, "{}", harmless(snippet.text.get(at..).unwrap_or_default()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_cut_to_a_line_around_its_first_match() {
        let text = "one two three four five six seven 修复 eight nine ten eleven".to_owned();
        let at = text.find("six").unwrap();
        let snippet = Snippet { text, matches: vec![at..at + 3, at + 4..at + 9] };
        assert_eq!(cut_to(&snippet, 80), snippet);
        for columns in 20..60 {
            let cut = cut_to(&snippet, columns);
            assert!(columns_of(&cut.text) <= columns, "{columns}: {}", cut.text);
            let found = cut.matches.first().and_then(|found| cut.text.get(found.clone()));
            assert_eq!(found, Some("six"), "{columns}: {}", cut.text);
        }
        assert_eq!(cut_to(&snippet, 24).text, "…r five six seven 修复 …");
    }
}
