//! Snapshots, newest first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::context::Selection;
use turntree::repo::{HEAD, LogEntry, PickaxeMatch, PickaxeQuery};
use turntree_exchange::KnownSessions;

use super::page::{ITEMS, MAX_ITEMS, limit, text};
use super::{Effect, Request, ServiceCall, parse_cursor};
use crate::porcelain::read::history::Walk;
use crate::porcelain::read::paths::Paths;
use crate::view::error::Result;
use crate::view::json;

/// Maximum bytes of a message; `show` has the whole context.
const MESSAGE_BYTES: usize = 1000;

/// Arguments of `log`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogArguments {
    /// Start here, or A..B for the snapshots of B that A lacks; HEAD by default
    revision: Option<String>,
    /// Start at every branch of every session
    #[serde(default)]
    all: bool,
    /// Only turns that changed entries at or below these, as in files/src or scratchpad
    #[serde(default)]
    paths: Vec<String>,
    /// Maximum: 1 to 500, 50 by default
    limit: Option<u64>,
    /// next_cursor of the last answer, to continue there
    cursor: Option<String>,
}

/// Some snapshots.
#[derive(Serialize, JsonSchema)]
pub(super) struct LogAnswer {
    snapshots: Vec<json::LogLine>,
    /// The cursor for the next call; null at the end.
    next_cursor: Option<String>,
}

impl Request for LogArguments {
    type Answer = LogAnswer;
    const NAME: &'static str = "log";
    const TITLE: &'static str = "History of snapshots";
    const ABOUT: &'static str = "Lists snapshots, newest first: id, turn, time, message, number \
        of messages. paths selects the turns that changed something there. Revisions are names \
        of branches or sessions, ids, HEAD, HEAD~3, turn:42, prompt:12 for the turn of \
        that prompt, prompt:-1 for the newest, session^{turn:42}.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<LogAnswer> {
        let (limit, cursor) =
            (limit(self.limit, ITEMS, MAX_ITEMS)?, parse_cursor(self.cursor.as_deref())?);
        let repo = call.open()?;
        let walk = match &self.revision {
            None if self.all => Walk::newest(&repo, &KnownSessions::default())?,
            revision => Walk::range(&repo, revision.as_deref().unwrap_or(HEAD))?,
        };
        let paths = Paths::over(&repo, walk.starts.iter().copied()).selecting(&self.paths);
        let touching = PickaxeQuery { paths: Selection::parse(&paths), text: None };
        let mut touches = (!self.paths.is_empty()).then(|| repo.touches(touching));
        let mut snapshots = Vec::new();
        let shows = |entry: &LogEntry| match &mut touches {
            Some(touches) => Ok(touches.of(entry)? == PickaxeMatch::Yes),
            None => Ok(true),
        };
        let next = walk.records(&repo, cursor, limit, None, shows, |mut record| {
            record.message = text(&record.message, 0, MESSAGE_BYTES).part.to_owned();
            snapshots.push(record);
            Ok(())
        })?;
        Ok(LogAnswer { snapshots, next_cursor: next.map(|id| id.to_string()) })
    }
}
