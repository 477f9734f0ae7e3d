//! Search in all of history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::context::Selection;
use turntree::repo::{GrepQuery, LinePattern, MayHold, PatternOptions, SearchFilter};

use super::page::{items, limit, within};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::search::{PlacesOfSessions, RoleName, messages_with, record, scopes};
use crate::view::error::Result;
use crate::view::json;

/// Places that a call gets by default, and at most.
const PLACES: u64 = 20;
const MAX_PLACES: u64 = 100;

/// Lines that are shown of a place, and around each match at most.
const LINES: usize = 20;
const MAX_AROUND: u64 = 10;

/// Gaps and damage that are told.
const TOLD: usize = 10;

/// Arguments of `search`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// A regular expression for one line
    pattern: String,
    /// The pattern is a string
    #[serde(default)]
    fixed: bool,
    #[serde(default)]
    ignore_case: bool,
    /// Only matches that are whole words
    #[serde(default)]
    word: bool,
    /// Search the history of these, or A..B for entries that appeared since A; all branches of the
    /// session by default
    #[serde(default)]
    revisions: Vec<String>,
    /// The branches of this session instead
    session: Option<String>,
    /// The branches of every session
    #[serde(default)]
    all: bool,
    /// Only sections and entries at or below these, as in files/src or agents/main/messages
    #[serde(default)]
    paths: Vec<String>,
    /// Only messages of these: user, assistant, tool, system, other
    #[serde(default)]
    roles: Vec<RoleName>,
    /// Lines to return around each match, up to 10
    #[serde(default)]
    context: u64,
    /// Begin at this place of the answer; 0 by default
    #[serde(default)]
    offset: u64,
    /// Maximum number of places: 1 to 100, 20 by default
    limit: Option<u64>,
}

/// The places of the matches.
#[derive(Serialize, JsonSchema)]
pub(super) struct SearchAnswer {
    /// Entries in which a line matches, with the turn in which each appeared first; at most 20 lines
    /// of each.
    places: Vec<json::GrepPlace>,
    /// The number of all places.
    total: u64,
    /// The offset at which the next call goes on; null at the end.
    next_offset: Option<u64>,
    /// Turns that could not be searched, such as expired ones; at most 10 of these.
    not_searched: Vec<String>,
}

impl Request for SearchArguments {
    type Answer = SearchAnswer;
    const NAME: &'static str = "search";
    const TITLE: &'static str = "Search all of history";
    const ABOUT: &'static str = "Searches everything that was ever said, noted or written in a \
        session, even if it is no longer in the context. Each place has its path and the turn in \
        which it appeared first; show REV:PATH reads it.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<SearchAnswer> {
        let around = within("context", self.context, 0..=MAX_AROUND)?;
        let limit = limit(self.limit, PLACES, MAX_PLACES)?;
        let (fixed, ignore_case, word) = (self.fixed, self.ignore_case, self.word);
        let pattern = LinePattern::new(&self.pattern, PatternOptions { fixed, ignore_case, word })?;
        let repo = call.open()?;
        let scopes = scopes(&repo, &self.revisions, self.session.as_deref(), self.all)?;
        let messages = messages_with(&pattern);
        let may_hold = messages.test();
        let query = GrepQuery {
            pattern: &pattern,
            wanted: SearchFilter {
                paths: Selection::parse(&self.paths),
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
        let sessions = PlacesOfSessions::of(&repo, answered.places())?;
        for place in part.part {
            let mut found = answered.found(place)?;
            found.lines.truncate(LINES);
            places.push(record(place, &found, true, &sessions.about(&repo, place)?));
        }
        let gaps = answered.gaps().list().into_iter().map(|gap| gap.to_string());
        let mut not_searched: Vec<String> = gaps.chain(answered.damage().iter().cloned()).collect();
        not_searched.truncate(TOLD);
        Ok(SearchAnswer { places, total, next_offset: part.next, not_searched })
    }
}
