//! Sessions, newest first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::Error;

use super::page::{ITEMS, MAX_ITEMS, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::sessions::{ListedSession, ListedSessions, Wanted, list};
use crate::view::error::Result;
use crate::view::moment::{EXPECTED, parse_moment};
use crate::view::{clock, json};

/// Arguments of `sessions`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionsArguments {
    /// Only from this directory or above
    #[serde(default)]
    here: bool,
    /// Only of this agent, as claude-code
    agent: Option<String>,
    /// Only with a snapshot since then, as 3.days.ago
    since: Option<String>,
    /// Only with these labels
    #[serde(default)]
    labels: Vec<String>,
    /// Begin at this session
    #[serde(default)]
    offset: u64,
    /// Maximum: 1 to 500, 50 by default
    limit: Option<u64>,
}

/// Sessions.
#[derive(Serialize, JsonSchema)]
pub(super) struct SessionsAnswer {
    sessions: Vec<json::SessionRecord>,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
}

impl Request for SessionsArguments {
    type Answer = SessionsAnswer;
    const NAME: &'static str = "sessions";
    const TITLE: &'static str = "Sessions";
    const ABOUT: &'static str = "Lists sessions, newest first. What one name or title begins with is \
        a revision too.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<SessionsAnswer> {
        let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
        let now = clock::now()?;
        let moment = |text: String| {
            let moment = parse_moment(&text, now);
            moment.ok_or_else(|| Error::invalid(format!("since '{text}': {EXPECTED}")))
        };
        let wanted = Wanted {
            here: call.here().filter(|_| self.here),
            agent: self.agent.as_deref(),
            since: self.since.map(moment).transpose()?,
            labels: &self.labels,
            is_gone: false,
        };
        let (repo, known) = (call.open()?, call.service.store.sessions());
        let from = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let ListedSessions { sessions, matching, .. } =
            list(&repo, known, &wanted, now, (from, limit))?;
        let end = from.saturating_add(sessions.len());
        let record = |it: ListedSession| json::SessionRecord::new(&it.summary, it.is_live);
        let sessions = sessions.into_iter().map(record).collect();
        Ok(SessionsAnswer { sessions, next_offset: (end < matching).then_some(end as u64) })
    }
}
