//! Conflicts of merges: lists and resolves them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::Error;
use turntree::context::Take;

use super::page::{ITEMS, MAX_ITEMS, Page, items, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::conflicts::{Decision, decide, open, records, version};
use crate::porcelain::read::revision::with_resolver;
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `resolve`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResolveArguments {
    /// Paths of conflicts to resolve
    #[serde(default)]
    paths: Vec<String>,
    /// Resolve all open ones
    #[serde(default)]
    all: bool,
    /// Take ours, theirs, base, or current (the entry as it is now)
    take: Option<String>,
    /// Take this content, for one path
    content: Option<String>,
    /// Message of the snapshot
    message: Option<String>,
    /// Of this branch
    branch: Option<String>,
    /// Begin at this conflict of the list
    #[serde(default)]
    offset: u64,
    /// Conflicts of the list: 1 to 500, 50 by default
    limit: Option<u64>,
}

/// The open conflicts, or the result.
#[derive(Serialize, JsonSchema)]
pub(super) struct ResolveAnswer {
    /// Open conflicts of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    conflicts: Option<Vec<json::OpenConflict>>,
    /// The number of all open conflicts.
    open: u64,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// The snapshot with the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved: Option<json::Resolved>,
}

impl Request for ResolveArguments {
    type Answer = ResolveAnswer;
    const NAME: &'static str = "resolve";
    const TITLE: &'static str = "Decide conflicts of a merge";
    const ABOUT: &'static str = "Lists open conflicts, or decides some with take or content. \
        show HEAD:conflicts/theirs/PATH reads a version; ours and base likewise.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &ServiceCall<'_>) -> Result<ResolveAnswer> {
        let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
        let take = self.take()?;
        let repo = call.open()?;
        let branch = match &self.branch {
            Some(name) => with_resolver(&repo, |resolver| resolver.branch(name))?,
            None => repo.head()?.branch,
        };
        let Some(take) = take else {
            let open = open(&repo, &branch)?;
            let count = open.len() as u64;
            let Page { part, next, .. } = items(open, self.offset, limit);
            let conflicts = Some(records(&part));
            return Ok(ResolveAnswer { conflicts, open: count, next_offset: next, resolved: None });
        };
        call.check_may_change()?;
        if self.all != self.paths.is_empty() {
            let message = "a decision takes the paths of conflicts, or all = true";
            return Err(Error::invalid(message).into());
        }
        let decision = Decision { paths: &self.paths, take, message: self.message.as_deref() };
        let mut resolved = decide(&repo, &branch, decision)?;
        let open = resolved.open.len() as u64;
        resolved.open.truncate(limit);
        resolved.resolved.truncate(limit);
        Ok(ResolveAnswer { conflicts: None, open, next_offset: None, resolved: Some(resolved) })
    }
}

impl ResolveArguments {
    /// The resolution; `None` to list conflicts.
    fn take(&self) -> Result<Option<Take>> {
        match (&self.take, &self.content) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(Error::invalid("take and content exclude each other").into()),
            (Some(name), None) => match version(name) {
                Some(take) => Ok(Some(take)),
                None => Err(Error::invalid(format!(
                    "take is '{name}': expected ours, theirs, base or current; content takes a text"
                ))
                .into()),
            },
            (None, Some(_)) if self.paths.len() != 1 => {
                Err(Error::invalid("content is for one path").into())
            }
            (None, Some(content)) => Ok(Some(Take::Content(content.clone().into()))),
        }
    }
}
