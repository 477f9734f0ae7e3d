//! Searches of history: their scopes, the text of messages, and turns that cannot be searched.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use clap::ValueEnum;
use memchr::memmem::Finder;
use schemars::JsonSchema;
use serde::Deserialize;
use turntree::context::Role;
use turntree::object::{ObjectId, Time};
use turntree::repo::{
    BranchName, Gaps, GrepPlace, LinePattern, MatchedLine, PatternOptions, Repository, SearchScope,
    TextMatches,
};
use turntree::{Error, ErrorKind};
use turntree_exchange::{KnownSessions, MessageText, SearchHit, SessionSummary, find_session};

use super::history::Walk;
use super::sessions::{ListedSession, described};
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::output::warn;
use crate::view::render::changes::path_of;
use crate::view::render::count;
use crate::view::{clock, json};

/// Maximum number of damage warnings to show.
const MAX_WARNINGS: usize = 10;

/// Default maximum number of hits of a session in the answer of a word search.
pub(crate) const HITS_PER_SESSION: u64 = 3;

/// A text whose occurrences are counted.
#[derive(Debug)]
pub(crate) struct Occurring {
    finder: Finder<'static>,
    messages: MessageText,
}

impl Occurring {
    /// Prepares to count `text`.
    pub(crate) fn new(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::invalid("the text of -S is empty: give the text to count").into());
        }
        let messages = match text.contains('\n') {
            true => MessageText::default(),
            false => {
                let options = PatternOptions { fixed: true, ..PatternOptions::default() };
                messages_with(&LinePattern::new(text, options)?)
            }
        };
        Ok(Self { finder: Finder::new(text).into_owned(), messages })
    }

    /// Counts the occurrences in `text`, without overlaps.
    pub(crate) fn count(&self, text: &[u8]) -> u64 {
        self.finder.find_iter(text).count() as u64
    }

    /// Returns the text of a message, if the searched text may occur in it.
    pub(crate) fn message(&self, format: &str, bytes: &[u8]) -> Option<String> {
        self.messages.read(format, bytes)
    }
}

/// Reads the messages in which a pattern may match.
pub(crate) fn messages_with(pattern: &LinePattern) -> MessageText {
    MessageText::matching(pattern)
}

/// Warns in one line about turns that could not be searched.
pub(crate) fn warn_of_gaps(gaps: &Gaps) {
    let list = gaps.list();
    let mut sessions: Vec<&str> = list.iter().map(|gap| gap.session.as_str()).collect();
    sessions.dedup();
    match list.as_slice() {
        [] => {}
        [gap] => warn(
            &format!("{gap}: their changes count as changes of the next kept turn")
                .replace("is not kept: their changes", "is not kept: its changes"),
        ),
        [first, ..] => {
            let of = count(sessions.len() as u64, "session");
            let (from, to, session) = (first.first, first.last, &first.session);
            warn(&format!(
                "turns of {of} are not kept, such as {from} to {to} of {session}: their changes count as changes of the next kept turn"
            ));
        }
    }
}

/// The role of a message.
#[derive(Debug, Clone, Copy, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RoleName {
    User,
    Assistant,
    Tool,
    System,
    Other,
}

impl RoleName {
    pub(crate) const fn role(self) -> Role {
        match self {
            Self::User => Role::User,
            Self::Assistant => Role::Assistant,
            Self::Tool => Role::Tool,
            Self::System => Role::System,
            Self::Other => Role::Other,
        }
    }
}

/// The snapshots at which the scopes of a search begin.
pub(crate) fn starts_of(scopes: &[SearchScope]) -> impl Iterator<Item = ObjectId> {
    scopes.iter().flat_map(|scope| scope.starts.iter().map(|(id, _)| *id))
}

/// The newest snapshots of a session.
pub(crate) fn starts_of_session(repo: &Repository, session: Option<&str>) -> Vec<ObjectId> {
    let Some(session) = session else { return Vec::new() };
    repo.branches_of(session).into_iter().map(|(_, id)| id).collect()
}

/// Returns the scopes of a search: the history of revisions, otherwise every branch of a session
/// (by default HEAD's). With `all`, all other sessions follow, newest first.
pub(crate) fn scopes(
    repo: &Repository,
    revisions: &[String],
    session: Option<&str>,
    all: bool,
) -> Result<Vec<SearchScope>> {
    if !revisions.is_empty() {
        let mut scope = SearchScope::default();
        for revision in revisions {
            let range = Walk::range(repo, revision)?.into_scope();
            scope.starts.extend(range.starts);
            scope.hide.extend(range.hide);
        }
        return Ok(vec![scope]);
    }
    let head = match session {
        None if !all => Some(repo.head()?),
        _ => repo.head_if_any()?,
    };
    let head = head.map(|head| head.branch);
    let mut branches: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (name, tip) in repo.branches() {
        branches.entry(name.session().to_owned()).or_default().push((tip, Some(name)));
    }
    let named = match session {
        Some(session) => Some(find_session(repo, session)?.unwrap_or_else(|| session.to_owned())),
        None => None,
    };
    let own = named.as_deref().or(head.as_ref().map(BranchName::session));
    let first = own.and_then(|own| branches.remove(own));
    if let (None, Some(own), false) = (&first, own, all) {
        let missing = Error::not_found(format!("session {own} has no snapshot"));
        return Err(Failure::hinted(
            missing,
            Advice::new("--all searches every session", "all = true searches every session"),
        ));
    }
    let newest = repo.newest_branches()?;
    let mut others: Vec<_> = branches.into_iter().filter(|_| all).collect();
    others.sort_by_key(|(name, _)| std::cmp::Reverse(newest.get(name).map(|it| it.time.micros)));
    let others = others.into_iter().map(|(_, starts)| starts);
    let scope = |mut starts: Vec<(_, Option<BranchName>)>| {
        starts.sort_by_key(|(_, name)| name.as_ref() != head.as_ref());
        SearchScope { starts, hide: Vec::new() }
    };
    Ok(first.into_iter().chain(others).map(scope).collect())
}

/// The time and the session of a place.
#[derive(Debug)]
pub(crate) struct PlaceFacts {
    /// The time of the first turn that contains it.
    pub(crate) time: Time,
    /// The last component of its session's directory.
    pub(crate) project: Option<String>,
    /// The title of its session.
    pub(crate) title: Option<String>,
}

/// The summaries of the sessions of places.
#[derive(Debug, Default)]
pub(crate) struct PlacesOfSessions(HashMap<String, SessionSummary>);

impl PlacesOfSessions {
    /// Reads the summaries of the sessions of `places` that are not `known`.
    pub(crate) fn of(
        repo: &Repository,
        known: &KnownSessions,
        places: &[GrepPlace],
    ) -> Result<Self> {
        let names = places.iter().map(|place| place.session.as_str()).collect();
        Ok(Self(known.named(repo, &names)?))
    }

    /// The facts about a place.
    pub(crate) fn about(&self, repo: &Repository, place: &GrepPlace) -> Result<PlaceFacts> {
        let session = self.0.get(&place.session);
        Ok(PlaceFacts {
            time: repo.commit(&place.commit)?.time,
            project: session.and_then(|session| session.project()).map(str::to_owned),
            title: session.and_then(|session| session.title()).map(|(title, _)| title.to_owned()),
        })
    }
}

/// The JSON record of a place, with the matching lines if `shows_lines`.
pub(crate) fn record(
    place: &GrepPlace,
    found: &TextMatches,
    shows_lines: bool,
    about: &PlaceFacts,
) -> json::GrepPlace {
    let line = |line: &MatchedLine| json::GrepLine {
        line: line.number,
        is_match: line.matches,
        column: line.column,
        text: line.text.clone(),
        cut: line.cut,
    };
    json::GrepPlace {
        session: place.session.clone(),
        branch: place.branch.as_ref().map(|branch| branch.branch().to_owned()),
        turn: place.turn,
        id: place.commit.to_string(),
        last_turn: place.last.map(|(turn, _)| turn),
        last_id: place.last.map(|(_, id)| id.to_string()),
        path: path_of(&place.section, &place.key),
        role: place.role.map(Role::name),
        blob: place.blob.to_string(),
        count: place.count,
        binary: shows_lines.then_some(found.binary),
        lines: shows_lines.then(|| found.lines.iter().map(line).collect()),
        time: clock::rfc3339(about.time),
        project: about.project.clone(),
        title: about.title.clone(),
    }
}

/// Returns the sessions of hits, by name.
pub(crate) fn sessions_of(
    repo: &Repository,
    known: &KnownSessions,
    hits: &[SearchHit],
) -> Result<HashMap<String, ListedSession>> {
    described(repo, known, &hits.iter().map(|hit| hit.session.as_str()).collect())
}

/// The JSON record of a hit of a word search in a session.
pub(crate) fn hit_record(hit: &SearchHit, session: Option<&ListedSession>) -> json::SearchHit {
    let summary = session.map(|session| &session.summary);
    let part =
        |part: &Range<usize>| json::SnippetMatch { start: part.start as u64, end: part.end as u64 };
    json::SearchHit {
        session: hit.session.clone(),
        title: summary.and_then(|it| Some(it.title()?.0.to_owned())),
        agent: summary.map(|it| it.agent.clone()),
        project: summary.and_then(|it| it.project()).map(str::to_owned),
        turn: hit.turn,
        id: hit.commit.to_string(),
        time: clock::rfc3339(hit.time),
        path: path_of(&hit.section, &hit.key),
        role: hit.role.map(Role::name),
        tools: hit.tools.clone(),
        blob: hit.blob.to_string(),
        snippet: hit.snippet.text.clone(),
        matches: hit.snippet.matches.iter().map(part).collect(),
        missing: hit.missing.clone(),
        varied: hit.varied.clone(),
    }
}

/// The session of a name, or of the beginning of a name or title.
///
/// # Errors
/// `NotFound` if there is none.
pub(crate) fn named_session(repo: &Repository, name: &str) -> Result<String> {
    match find_session(repo, name)? {
        Some(session) => Ok(session),
        None => Err(Error::not_found(format!("session {name} has no snapshot")).into()),
    }
}

/// Warns about content that could not be searched.
pub(crate) fn complain(damage: &[String]) -> Result<()> {
    let distinct: BTreeSet<&String> = damage.iter().collect();
    for text in distinct.iter().take(MAX_WARNINGS) {
        warn(&format!("not searched: {text}"));
    }
    match distinct.len() as u64 {
        0 => Ok(()),
        more => {
            let parts = count(more, "part");
            let message =
                format!("{parts} of this history could not be read; the rest was searched");
            let damaged = Error::new(ErrorKind::Corrupt, message);
            Err(Failure::hinted(damaged, "'turntree fsck' lists the damage"))
        }
    }
}
