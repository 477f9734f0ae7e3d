//! Tags: lists, adds and deletes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::Error;
use turntree::repo::HEAD;

use super::page::{ITEMS, MAX_ITEMS, Page, items, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::tags::{add, delete, deleted, record_of};
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `tag`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TagArguments {
    /// list by default
    #[serde(default)]
    action: TagAction,
    name: Option<String>,
    /// The snapshot to name; HEAD by default
    revision: Option<String>,
    /// Purpose of the tag
    #[serde(default)]
    message: String,
    /// Begin at this tag of the list
    #[serde(default)]
    offset: u64,
    /// Tags of the list: 1 to 500, 50 by default
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TagAction {
    #[default]
    List,
    Add,
    Delete,
}

/// Tags.
#[derive(Serialize, JsonSchema)]
pub(super) struct TagAnswer {
    /// Tags of a list, or the added one.
    tags: Vec<json::Tag>,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// Deleted tags.
    deleted: Vec<json::DeletedTag>,
}

impl Request for TagArguments {
    type Answer = TagAnswer;
    const NAME: &'static str = "tag";
    const TITLE: &'static str = "Tags: list, add, delete";
    const ABOUT: &'static str = "Gives a snapshot a name that does not move, and keeps it; lists \
        and deletes tags.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &ServiceCall<'_>) -> Result<TagAnswer> {
        let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
        let none = |tags| TagAnswer { tags, next_offset: None, deleted: Vec::new() };
        if let TagAction::List = self.action {
            let repo = call.open()?;
            let Page { part, next, .. } = items(repo.tags()?, self.offset, limit);
            let tags = part.iter().map(|tag| record_of(&repo, tag)).collect::<Result<_>>()?;
            return Ok(TagAnswer { next_offset: next, ..none(tags) });
        }
        call.check_may_change()?;
        let name = self.name.ok_or_else(|| Error::invalid("add and delete take a name"))?;
        let repo = call.open()?;
        if let TagAction::Delete = self.action {
            let names = [name];
            return Ok(TagAnswer { deleted: deleted(&delete(&repo, &names)?), ..none(Vec::new()) });
        }
        let revision = self.revision.as_deref().unwrap_or(HEAD);
        let made = add(&repo, &name, revision, &self.message)?;
        Ok(none(vec![record_of(&repo, &made)?]))
    }
}
