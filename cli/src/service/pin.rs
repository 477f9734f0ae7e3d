//! Pins: lists, adds and removes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::Error;
use turntree::repo::HEAD;

use super::page::{ITEMS, MAX_ITEMS, Page, items, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::pins::{PinRequest, add, list, record_of, remove};
use crate::porcelain::read::sessions::named_session_if;
use crate::view::error::Result;
use crate::view::{clock, json};

/// Arguments of `pin`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PinArguments {
    /// list by default
    #[serde(default)]
    action: PinAction,
    /// The snapshot to protect; HEAD by default. To remove: every pin on it
    revision: Option<String>,
    /// Name of the pin
    name: Option<String>,
    /// Reason for the pin
    #[serde(default)]
    reason: String,
    /// Expiry: a duration such as 30d, or a time; never by default
    expires: Option<String>,
    /// List only pins of this session
    session: Option<String>,
    /// Begin at this pin of the list
    #[serde(default)]
    offset: u64,
    /// Pins of the list: 1 to 500, 50 by default
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PinAction {
    #[default]
    List,
    Add,
    Remove,
}

/// Pins.
#[derive(Serialize, JsonSchema)]
pub(super) struct PinAnswer {
    /// Pins of a list, or the added one.
    pins: Vec<json::PinRecord>,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// Removed pins.
    unpinned: Vec<json::Unpinned>,
}

impl Request for PinArguments {
    type Answer = PinAnswer;
    const NAME: &'static str = "pin";
    const TITLE: &'static str = "Pins: list, add, remove";
    const ABOUT: &'static str =
        "Protects a snapshot from retention, or leaves it again; lists pins.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &ServiceCall<'_>) -> Result<PinAnswer> {
        let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
        if !matches!(self.action, PinAction::List) {
            call.check_may_change()?;
        }
        let repo = call.open()?;
        let (mut pins, mut unpinned, mut next_offset) = (Vec::new(), Vec::new(), None);
        match self.action {
            PinAction::List => {
                let session = named_session_if(&repo, self.session.as_deref())?;
                let all = list(&repo, session.as_deref(), clock::now()?)?;
                let Page { part, next, .. } = items(all, self.offset, limit);
                next_offset = next;
                pins.extend(part.into_iter().map(|(_, record)| record));
            }
            PinAction::Add => {
                let request = PinRequest {
                    revision: self.revision.as_deref().unwrap_or(HEAD),
                    name: self.name.as_deref(),
                    reason: &self.reason,
                    expires: self.expires.as_deref(),
                };
                let (pin, now) = add(&repo, &request)?;
                pins.push(record_of(&repo, &pin, now)?);
            }
            PinAction::Remove => {
                let named = self.name.as_deref().or(self.revision.as_deref());
                let name =
                    named.ok_or_else(|| Error::invalid("remove takes a name or a revision"))?;
                unpinned.extend(remove(&repo, name)?.iter().map(json::Unpinned::from));
            }
        }
        Ok(PinAnswer { pins, next_offset, unpinned })
    }
}
