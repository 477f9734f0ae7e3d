//! Compares branches since their fork point.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::comparison::{Compared, lines};
use crate::porcelain::read::prices::Prices;
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `compare`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareArguments {
    /// Branches or other revisions; all branches of the session by default
    #[serde(default)]
    revisions: Vec<String>,
}

impl Request for CompareArguments {
    type Answer = json::Comparison;
    const NAME: &'static str = "compare";
    const TITLE: &'static str = "Compare branches";
    const ABOUT: &'static str = "Compares branches since they parted: turns, messages, tools, \
        errors, tokens, files, lines, time, the newest result of \
        each check, and test runs found in the transcript.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<json::Comparison> {
        let repo = call.open()?;
        Ok(Compared::of(&repo, lines(&repo, &self.revisions)?, &Prices::of(None)?.table)?.record())
    }
}
