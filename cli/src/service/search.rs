//! Searches all of history: words, best sessions first, or lines that match a pattern.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::Error;
use turntree::context::Selection;
use turntree::object::ObjectId;
use turntree::repo::{GrepQuery, LinePattern, MayHold, PatternOptions, Repository, SearchFilter};
use turntree_exchange::{SearchHit, SearchQuery, search_with_index};

use super::page::{items, limit, within};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::paths::Paths;
use crate::porcelain::read::search::{
    HITS_PER_SESSION, PlacesOfSessions, RoleName, hit_record, messages_with, named_session, record,
    scopes, sessions_of, starts_of, starts_of_session,
};
use crate::view::error::Result;
use crate::view::json;
use crate::view::moment::moment;

/// The default and the maximum number of places in an answer.
const PLACES: u64 = 20;
const MAX_PLACES: u64 = 100;

/// Maximum number of lines shown of a place, and of context lines around a match.
const LINES: usize = 20;
const MAX_AROUND: u64 = 10;

/// Maximum number of gaps and damage messages to list.
const TOLD: usize = 10;

/// Arguments of `search`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// Words, "phrases", beginnings (wor*) or a question: the best sessions, best entries first
    words: Option<String>,
    /// Or a regular expression for one line
    pattern: Option<String>,
    /// The pattern is a string
    #[serde(default)]
    fixed: bool,
    #[serde(default)]
    ignore_case: bool,
    /// Match only whole words
    #[serde(default)]
    word: bool,
    /// Search the pattern in these, or A..B for entries added since A; all branches of the session
    /// by default
    #[serde(default)]
    revisions: Vec<String>,
    /// This session instead
    session: Option<String>,
    /// The branches of every session
    #[serde(default)]
    all: bool,
    /// Only entries at or below these, as in files/src or agents/main/messages
    #[serde(default)]
    paths: Vec<String>,
    /// Only messages of these
    #[serde(default)]
    roles: Vec<RoleName>,
    /// With words: calls of this tool, and their results
    tool: Option<String>,
    /// With words: entries since then, as 3.days.ago
    since: Option<String>,
    /// Lines to return around each match, up to 10
    #[serde(default)]
    context: u64,
    /// With words: only entries that have all of them as typed, ranked one by one
    #[serde(default)]
    all_words: bool,
    /// With words: entries of each session, 3 by default; 0 for all
    per_session: Option<u64>,
    /// Begin at this place of the answer
    #[serde(default)]
    offset: u64,
    /// Maximum: 1 to 100, 20 by default
    limit: Option<u64>,
}

/// The results.
#[derive(Serialize, JsonSchema)]
pub(super) struct SearchAnswer {
    /// Entries with matching lines; at most 20 lines of each.
    places: Vec<json::GrepPlace>,
    /// Entries with the words, grouped by session.
    hits: Vec<json::SearchHit>,
    /// The number of places; for hits the number of entries with all words.
    total: u64,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// Turns that could not be searched, such as expired ones; at most 10.
    not_searched: Vec<String>,
}

impl Request for SearchArguments {
    type Answer = SearchAnswer;
    const NAME: &'static str = "search";
    const TITLE: &'static str = "Search all of history";
    const ABOUT: &'static str = "Searches everything that was ever said, noted or written, even if \
        it is no longer in the context. Each place has its path and the turn in which it appeared \
        first; show ID:PATH reads it.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<SearchAnswer> {
        let limit = limit(self.limit, PLACES, MAX_PLACES)?;
        match (&self.words, &self.pattern) {
            (Some(words), None) => self.find_words(words, limit, call),
            (None, Some(pattern)) => self.find_lines(pattern, limit, call),
            (words, _) => {
                let found = if words.is_some() { "both" } else { "neither" };
                let expected = "expected either words or a pattern";
                Err(Error::invalid(format!("{expected}, and {found} is given")).into())
            }
        }
    }
}

impl SearchArguments {
    /// Finds entries with words, by the index of the store.
    fn find_words(
        &self,
        words: &str,
        limit: usize,
        call: &ServiceCall<'_>,
    ) -> Result<SearchAnswer> {
        refuse(
            "words",
            "a pattern",
            &[
                ("fixed", self.fixed),
                ("ignore_case", self.ignore_case),
                ("word", self.word),
                ("revisions", !self.revisions.is_empty()),
                ("context", self.context != 0),
            ],
        )?;
        let since = self.since.as_deref().map(moment).transpose()?;
        let repo = call.open()?;
        let session = self.session.as_deref().map(|name| named_session(&repo, name)).transpose()?;
        let roles: Vec<_> = self.roles.iter().map(|role| role.role()).collect();
        let query = SearchQuery {
            text: words,
            session: session.as_deref(),
            roles: &roles,
            tool: self.tool.as_deref(),
            since,
            paths: self.selection(&repo, starts_of_session(&repo, session.as_deref())),
            offset: self.offset,
            limit: limit as u64,
            rebuild: false,
            all_words: self.all_words,
            per_session: self.per_session.unwrap_or(HITS_PER_SESSION),
        };
        let answer = search_with_index(&repo, &query, &|_, _| {}, call.service.store.index())?;
        let next = self.offset.saturating_add(answer.hits.len() as u64);
        let sessions = sessions_of(&repo, call.service.store.sessions(), &answer.hits)?;
        let record = |hit: &SearchHit| hit_record(hit, sessions.get(&hit.session));
        let mut not_searched = answer.damage;
        not_searched.truncate(TOLD);
        Ok(SearchAnswer {
            places: Vec::new(),
            hits: answer.hits.iter().map(record).collect(),
            total: answer.candidates,
            next_offset: answer.more.then_some(next),
            not_searched,
        })
    }

    fn selection(
        &self,
        repo: &Repository,
        starts: impl IntoIterator<Item = ObjectId>,
    ) -> Selection {
        Selection::parse(&Paths::over(repo, starts).selecting(&self.paths))
    }

    /// Finds entries with lines that match a pattern, in the order of history.
    fn find_lines(
        &self,
        pattern: &str,
        limit: usize,
        call: &ServiceCall<'_>,
    ) -> Result<SearchAnswer> {
        let around = within("context", self.context, 0..=MAX_AROUND)?;
        refuse(
            "a pattern",
            "words",
            &[
                ("tool", self.tool.is_some()),
                ("since", self.since.is_some()),
                ("all_words", self.all_words),
                ("per_session", self.per_session.is_some()),
            ],
        )?;
        let (fixed, ignore_case, word) = (self.fixed, self.ignore_case, self.word);
        let pattern = LinePattern::new(pattern, PatternOptions { fixed, ignore_case, word })?;
        let repo = call.open()?;
        let scopes = scopes(&repo, &self.revisions, self.session.as_deref(), self.all)?;
        let messages = messages_with(&pattern);
        let may_hold = messages.test();
        let query = GrepQuery {
            pattern: &pattern,
            wanted: SearchFilter {
                paths: self.selection(&repo, starts_of(&scopes)),
                roles: self.roles.iter().map(|role| role.role()).collect(),
            },
            lines: Some(around),
            read: &|format, bytes| messages.read(format, bytes),
            may_hold: may_hold.as_ref().map(|test| test as MayHold<'_>),
        };
        let answered = repo.grep(&scopes, query, &|_, _| {})?;
        let total = answered.places().len() as u64;
        let part = items(answered.places().iter().collect(), self.offset, limit);
        let mut places = Vec::new();
        let sessions =
            PlacesOfSessions::of(&repo, call.service.store.sessions(), answered.places())?;
        for place in part.part {
            let mut found = answered.found(place)?;
            found.lines.truncate(LINES);
            places.push(record(place, &found, true, &sessions.about(&repo, place)?));
        }
        let gaps = answered.gaps().list().into_iter().map(|gap| gap.to_string());
        let mut not_searched: Vec<String> = gaps.chain(answered.damage().iter().cloned()).collect();
        not_searched.truncate(TOLD);
        Ok(SearchAnswer { places, hits: Vec::new(), total, next_offset: part.next, not_searched })
    }
}

/// Refuses arguments that do not apply to this kind of search.
fn refuse(asked: &str, other: &str, given: &[(&str, bool)]) -> Result<()> {
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("{name} goes with {other}: leave it out with {asked}");
            Err(Error::invalid(message).into())
        }
    }
}
