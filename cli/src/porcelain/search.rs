//! Questions about history: how messages are read, which turns cannot be searched.

use std::collections::BTreeMap;

use clap::ValueEnum;
use memchr::memmem::Finder;
use schemars::JsonSchema;
use serde::Deserialize;
use turntree::Error;
use turntree::context::Role;
use turntree::repo::{
    BranchName, Gaps, GrepPlace, LinePattern, MatchedLine, PatternOptions, Repository, SearchScope,
    TextMatches,
};
use turntree_exchange::MessageText;

use super::history::Walk;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::json;
use crate::view::output::warn;
use crate::view::render::changes::path_of;

/// A text to count.
#[derive(Debug)]
pub(crate) struct Occurring {
    finder: Finder<'static>,
    messages: MessageText,
}

impl Occurring {
    /// Counts `text`.
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

    /// Counts its occurrences in `text`, without overlaps.
    pub(crate) fn count(&self, text: &[u8]) -> u64 {
        self.finder.find_iter(text).count() as u64
    }

    /// Returns the text of a message, if it may occur in it.
    pub(crate) fn message(&self, format: &str, bytes: &[u8]) -> Option<String> {
        self.messages.read(format, bytes)
    }
}

/// Reads the messages in which a pattern may match.
pub(crate) fn messages_with(pattern: &LinePattern) -> MessageText {
    MessageText::with_words(pattern.words(), pattern.ignores_case())
}

/// Says which turns an answer cannot speak of.
pub(crate) fn warn_of_gaps(gaps: &Gaps) {
    for gap in gaps.list() {
        warn(
            &format!("{gap}: what they changed counts as changed by the next turn that is")
                .replace("is not kept: what they", "is not kept: what it"),
        );
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

/// Returns the scopes of a search: the history of revisions, else every branch of a session, HEAD's by
/// default, and then all others if `all` is set.
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
    let own = session.or(head.as_ref().map(BranchName::session));
    let first = own.and_then(|own| branches.remove(own));
    if let (None, Some(own), false) = (&first, own, all) {
        let missing = Error::not_found(format!("session {own} has no snapshot"));
        return Err(Failure::hinted(
            missing,
            Advice::new("--all searches every session", "all = true searches every session"),
        ));
    }
    let others = branches.into_values().filter(|_| all);
    let scope = |mut starts: Vec<(_, Option<BranchName>)>| {
        starts.sort_by_key(|(_, name)| name.as_ref() != head.as_ref());
        SearchScope { starts, hide: Vec::new() }
    };
    Ok(first.into_iter().chain(others).map(scope).collect())
}

/// A place for programs, with what was found there if lines are shown.
pub(crate) fn record(place: &GrepPlace, found: &TextMatches, shows_lines: bool) -> json::GrepPlace {
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
    }
}
