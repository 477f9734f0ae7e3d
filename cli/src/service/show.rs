//! Shows the overview of a snapshot, the entries below a path of it, or one entry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::repo::HEAD;

use super::page::{self, ITEMS, MAX_ITEMS, MAX_TEXT_BYTES, TEXT_BYTES, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::entries::{entry_at, list_part, overview};
use crate::porcelain::read::paths::with_similar;
use crate::porcelain::read::revision::resolve_entry;
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `show`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowArguments {
    /// A revision, optionally with a path, as in HEAD:scratchpad or turn:12:agents/main/messages/3;
    /// HEAD by default
    revision: Option<String>,
    /// Begin at this byte of an entry's text, or at this item of a list; 0 by default
    #[serde(default)]
    offset: u64,
    /// Maximum bytes of text (16384 by default, up to 262144) or items (50, up to 500)
    limit: Option<u64>,
}

/// One of three, by path.
#[derive(Serialize, JsonSchema)]
pub(super) struct ShowAnswer {
    /// Without a path: the overview.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<json::Overview>,
    /// Without a path, or for a folder or section: the entries directly below.
    #[serde(skip_serializing_if = "Option::is_none")]
    listing: Option<json::Listing>,
    /// With the path of an entry: its content, as far as asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<json::EntryRecord>,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// A resource with the whole entry, if this is a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<String>,
}

impl Request for ShowArguments {
    type Answer = ShowAnswer;
    const NAME: &'static str = "show";
    const TITLE: &'static str = "A snapshot or an entry of it";
    const ABOUT: &'static str = "Without a path, an overview of a snapshot and its sections. \
        With one, the entries below it, or the content of an entry: REV:agents/main/messages/12 \
        is a message, REV:scratchpad/todos a note, REV:files/src/main.rs a file. Long texts and \
        lists come in parts: call again with offset = next_offset.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<ShowAnswer> {
        let repo = call.open()?;
        let revision = resolve_entry(&repo, self.revision.as_deref().unwrap_or(HEAD))?;
        let (id, source) = (revision.commit, &repo);
        let context = repo.context(&id)?;
        let path = revision.path.clone().unwrap_or_default();
        let mut shown = ShowAnswer {
            snapshot: None,
            listing: None,
            entry: None,
            next_offset: None,
            whole: None,
        };
        let entry = match &revision.path {
            Some(path) => with_similar(&repo, &id, path, entry_at(source, &id, &context, path))?,
            None => None,
        };
        if let Some(mut entry) = entry {
            let limit = limit(self.limit, TEXT_BYTES, MAX_TEXT_BYTES)?;
            let all = entry.text.take();
            if let Some(all) = all {
                let part = page::text(&all, self.offset, limit);
                entry.text = Some(part.part.to_owned());
                shown.next_offset = part.next;
                if part.next.is_some() || part.offset > 0 {
                    shown.whole = Some(super::resource::entry_uri(&repo, &id, &path)?);
                }
            }
            shown.entry = Some(entry);
            return Ok(shown);
        }
        let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
        let listed = list_part(source, &context, &path, self.offset, limit + 1)?;
        let part = page::items(listed, 0, limit);
        shown.next_offset = part.next.map(|taken| self.offset.saturating_add(taken));
        let (at, entries) = (json::CommitId::new(id.to_string()), part.part);
        shown.listing = Some(json::Listing { at, path, entries });
        if revision.path.is_none() {
            shown.snapshot = Some(overview(&id, &repo.commit(&id)?, &context, source)?);
        }
        Ok(shown)
    }
}
