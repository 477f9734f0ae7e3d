//! The outline of a branch: its prompts, and the results of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::repo::HEAD;
use turntree_exchange::{is_prompt, outline};

use super::page::{ITEMS, MAX_ITEMS, Page, items, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::prices::Prices;
use crate::porcelain::read::revision::resolve;
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `outline`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutlineArguments {
    /// A session, branch or snapshot; HEAD by default
    revision: Option<String>,
    /// Begin at this prompt
    #[serde(default)]
    offset: u64,
    /// Maximum: 1 to 500, 50 by default
    limit: Option<u64>,
}

/// Prompts, oldest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct OutlineAnswer {
    prompts: Vec<json::OutlinePrompt>,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
}

impl Request for OutlineArguments {
    type Answer = OutlineAnswer;
    const NAME: &'static str = "outline";
    const TITLE: &'static str = "Outline";
    const ABOUT: &'static str = "Lists what was asked for, oldest first, and what came of each \
        prompt.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<OutlineAnswer> {
        let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
        let repo = call.open()?;
        let tip = resolve(&repo, self.revision.as_deref().unwrap_or(HEAD))?.commit;
        let parts =
            outline(&repo, &tip, &mut repo.prompts(Some(&is_prompt))?, &Prices::of(None)?.table)?;
        let Page { part, next, .. } = items(parts, self.offset, limit);
        let prompts = part.into_iter().map(json::OutlinePrompt::new).collect();
        Ok(OutlineAnswer { prompts, next_offset: next })
    }
}
