//! Answers searches: words by the index, best sessions first, and literal text.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use turntree::context::{Role, Selection};
use turntree::object::Time;
use turntree::repo::{
    GrepQuery, LinePattern, MayHold, PatternOptions, Repository, SearchFilter, SearchScope,
};
use turntree_exchange::{SearchHit, SearchQuery, SessionSummary, Snippet, search_with_index};

use super::lines::Lines;
use super::store::WatchedStore;
use crate::porcelain::read::search::{HITS_PER_SESSION, messages_with, scopes};
use crate::view::clock;
use crate::view::error::{Failure, Result};
use crate::view::render::changes::path_of;

/// Lines shown of a place.
const LINES: usize = 3;

/// Hits in one answer.
const HITS: u64 = 30;

/// The interval between two progress lines of the index.
const TELL: Duration = Duration::from_millis(200);

/// The session of a hit, for its heading and for filters.
#[derive(Serialize)]
struct HitSession {
    session: String,
    title: Option<String>,
    agent: String,
    project: Option<String>,
    labels: Vec<String>,
    time: String,
}

impl HitSession {
    fn of(name: String, sessions: &HashMap<String, SessionSummary>, time: Time) -> Self {
        let summary = sessions.get(&name);
        Self {
            title: summary.and_then(|it| Some(it.title()?.0.to_owned())),
            agent: summary.map_or_else(String::new, |it| it.agent.clone()),
            project: summary.and_then(|it| it.project()).map(str::to_owned),
            labels: summary.map_or_else(Vec::new, |it| it.labels.labels.iter().cloned().collect()),
            time: clock::rfc3339(summary.map_or(time, |it| it.time)),
            session: name,
        }
    }
}

/// A place where a text occurs.
#[derive(Serialize)]
struct Place {
    #[serde(flatten)]
    about: HitSession,
    branch: Option<String>,
    turn: u64,
    id: String,
    path: String,
    role: Option<&'static str>,
    /// The lines that contain the text.
    lines: Vec<String>,
}

/// The turns that the index has read, of all turns; 0 of 0 while another search builds it.
#[derive(Serialize)]
struct Filled {
    done: u64,
    all: u64,
}

/// Entries that contain the words, those of the best session first.
#[derive(Serialize)]
struct Ranked {
    hits: Vec<RankedHit>,
    /// True if more hits follow.
    more: bool,
    /// The number of parts of the history that could not be read.
    unread: usize,
}

/// An entry that contains all or most words.
#[derive(Serialize)]
struct RankedHit {
    #[serde(flatten)]
    about: HitSession,
    turn: u64,
    id: String,
    path: String,
    role: Option<&'static str>,
    /// Its text around the words, in parts: every second part is a match.
    parts: Vec<String>,
    /// The words that it lacks.
    missing: Vec<String>,
}

/// Searches words in all sessions, with the index of `search`. The first search builds it. An
/// encrypted store has no index on disk, so its index is built and kept in memory.
pub(super) fn words(
    store: &WatchedStore,
    repo: &Repository,
    words: &str,
    from: u64,
    out: &mut Lines,
) -> Result<()> {
    let query = SearchQuery {
        text: words,
        offset: from,
        limit: HITS,
        per_session: HITS_PER_SESSION,
        ..SearchQuery::default()
    };
    let found = {
        let telling = Mutex::new((&mut *out, Instant::now()));
        let tell = |done, all| {
            let mut telling = telling.lock().unwrap_or_else(PoisonError::into_inner);
            let (out, told) = &mut *telling;
            if told.elapsed() >= TELL {
                // An answer that is no longer read does not stop the index, since the next search
                // needs it.
                let _ = out.put_line(&Filled { done, all }).map(|()| out.flush());
                *told = Instant::now();
            }
        };
        search_with_index(repo, &query, &tell, store.index())?
    };
    let names = found.hits.iter().map(|hit| hit.session.as_str()).collect();
    let sessions = store.sessions().named(repo, &names)?;
    let hit = |hit: SearchHit| RankedHit {
        about: HitSession::of(hit.session, &sessions, hit.time),
        turn: hit.turn,
        id: hit.commit.to_string(),
        path: path_of(&hit.section, &hit.key),
        role: hit.role.map(Role::name),
        parts: stretches(&hit.snippet),
        missing: hit.missing,
    };
    out.put_line(&Ranked {
        hits: found.hits.into_iter().map(hit).collect(),
        more: found.more,
        unread: found.damage.len(),
    })
}

/// Splits a snippet into parts; every second part is a match. Matches separated only by a space are
/// joined, so a phrase is marked as a whole.
fn stretches(snippet: &Snippet) -> Vec<String> {
    let text = |from, to| snippet.text.get(from..to).unwrap_or_default().to_owned();
    let (mut parts, mut at) = (Vec::new(), 0);
    for found in &snippet.matches {
        let between = text(at, found.start);
        match parts.last_mut() {
            Some(last) if between == " " => {
                *last = format!("{last} {}", text(found.start, found.end));
            }
            _ => parts.extend([between, text(found.start, found.end)]),
        }
        at = found.end;
    }
    parts.push(text(at, snippet.text.len()));
    parts
}

/// Searches literal text, in one session or in all, newest session first, so that the first places
/// are sent immediately.
pub(super) fn text(
    store: &WatchedStore,
    repo: &Repository,
    text: &str,
    session: Option<&str>,
    out: &mut Lines,
) -> Result<()> {
    let options = PatternOptions { fixed: true, ignore_case: true, ..PatternOptions::default() };
    let pattern = LinePattern::new(text, options)?;
    for scope in scopes(repo, &[], session, session.is_none())? {
        // While the user types, the page drops this answer and sends a new request.
        if out.is_left() {
            break;
        }
        text_in(store, repo, &pattern, scope, out)?;
        out.flush().map_err(Failure::Output)?;
    }
    Ok(())
}

fn text_in(
    store: &WatchedStore,
    repo: &Repository,
    pattern: &LinePattern,
    scope: SearchScope,
    out: &mut Lines,
) -> Result<()> {
    let messages = messages_with(pattern);
    let may_hold = messages.test();
    let query = GrepQuery {
        pattern,
        wanted: SearchFilter { paths: Selection::parse(&[]), roles: Vec::new() },
        lines: Some(0),
        read: &|format, bytes| messages.read(format, bytes),
        may_hold: may_hold.as_ref().map(|test| test as MayHold<'_>),
    };
    let answered = repo.grep(&[scope], query, &|_, _| {})?;
    let names = answered.places().iter().map(|place| place.session.as_str()).collect();
    let sessions = store.sessions().named(repo, &names)?;
    for place in answered.places() {
        let found = answered.found(place)?;
        let lines = found.lines.into_iter().filter(|line| line.matches).take(LINES);
        let told = Place {
            about: HitSession::of(
                place.session.clone(),
                &sessions,
                repo.commit(&place.commit)?.time,
            ),
            branch: place.branch.as_ref().map(|branch| branch.branch().to_owned()),
            turn: place.turn,
            id: place.commit.to_string(),
            path: path_of(&place.section, &place.key),
            role: place.role.map(Role::name),
            lines: lines.map(|line| line.text).collect(),
        };
        out.put_line(&told)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_beside_each_other_are_marked_as_one() {
        let snippet = |text: &str, matches: &[(usize, usize)]| Snippet {
            text: text.to_owned(),
            matches: matches.iter().map(|&(from, to)| from..to).collect(),
        };
        let found = snippet("…at part 8 of ä part", &[(6, 10), (11, 12), (13, 15), (19, 23)]);
        assert_eq!(stretches(&found), ["…at ", "part 8 of", " ä ", "part", ""]);
        assert_eq!(stretches(&snippet("fn main", &[(0, 2), (3, 7)])), ["", "fn main", ""]);
        assert_eq!(stretches(&snippet("none", &[])), ["none"]);
    }
}
