//! `search`: searches words in all sessions, best matches first.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::context::Selection;
use turntree_exchange::{IndexPlace, SearchHit, SearchQuery, Snippet, search};

use super::Verb;
use crate::platform::shell_word;
use crate::porcelain::search::{RoleName, complain, hit_record, named_session};
use crate::program::complete::sessions;
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::moment::moment;
use crate::view::output::{FAINT, ID, NAME, Output, STRONG, note};
use crate::view::progress::Working;
use crate::view::render::changes::path_of;
use crate::view::render::{ID_DIGITS, count, harmless};

/// Characters of a time up to the minute.
const DATE: usize = 16;

/// Search for words in everything, best matches first
///
/// Finds messages, notes and files of all sessions that contain all WORDS. Entries with rare words,
/// many matches, little text or a recent date come first. "Words in quotes" must be adjacent, and
/// wor* matches the beginning of a word. Case and accents are ignored. The first search builds an
/// index in the store, and each search adds new content to it. The exit code is 1 if nothing is
/// found. For regular expressions, parts of words and exact text use grep.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree search retry budget
  turntree search '\"connection reset\" timeout' --tool bash
  turntree search pars* --session nightly --role assistant
  turntree search migration --since 3.days.ago --path files/src
  turntree search flaky test --json | jq -r '.id + \":\" + .path'")]
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
    #[arg(long, visible_alias = "section", value_name = "PATH")]
    path: Vec<String>,
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
        let query = SearchQuery {
            text: &text,
            session: session.as_deref(),
            roles: &roles,
            tool: self.tool.as_deref(),
            since: self.since,
            paths: Selection::parse(&self.path),
            offset: 0,
            limit: self.max_count,
            rebuild: self.rebuild,
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
        for hit in &answer.hits {
            match run.out.json {
                true => run.out.record(&hit_record(hit))?,
                false => write_hit(&mut run.out, hit)?,
            }
        }
        if let IndexPlace::InMemory(why) = &answer.place {
            note(&format!("the index was made in memory, for this search alone: {why}"));
        }
        if answer.more && !run.out.json {
            note(&format!("more follows: -n shows up to {}", count(answer.candidates, "entry")));
        }
        complain(&answer.damage)?;
        if answer.hits.is_empty() && !run.out.json {
            note("nothing has all of these words: grep finds parts of words and exact text");
        }
        Ok(if answer.hits.is_empty() { Answer::No } else { Answer::Yes })
    }
}

fn write_hit(out: &mut Output, hit: &SearchHit) -> Result<()> {
    let paint = out.paint;
    let id = hit.commit.short(ID_DIGITS);
    let date = clock::rfc3339(hit.time);
    let date = paint.paint(FAINT, date.get(..DATE).unwrap_or(&date).replace('T', " "));
    let turn = paint.paint(STRONG, format!("turn {}", hit.turn));
    let path = path_of(&hit.section, &hit.key);
    let shown = paint.paint(NAME, harmless(&path));
    write!(out, "{} {} {turn} {date}  {shown}", paint.paint(ID, &id), harmless(&hit.session))?;
    if let Some(role) = hit.role {
        write!(out, "  {role}")?;
    }
    if !hit.tools.is_empty() {
        write!(out, "  {}", paint.paint(FAINT, harmless(&hit.tools.join(", "))))?;
    }
    writeln!(out)?;
    write_snippet(out, &hit.snippet)?;
    let place = harmless(&format!("{id}:{path}"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@".contains(c);
    let place = if place.chars().all(is_plain) { place } else { shell_word(&place) };
    let more = format!("  turntree show {place}; turntree resume {id}");
    writeln!(out, "{}", paint.paint(FAINT, more))?;
    Ok(())
}

fn write_snippet(out: &mut Output, snippet: &Snippet) -> Result<()> {
    write!(out, "  ")?;
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
