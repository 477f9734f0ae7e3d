//! Loops: finds an agent that repeats itself without progress.

use schemars::JsonSchema;
use serde::Deserialize;
use turntree::repo::HEAD;
use turntree_exchange::{SPIRAL_WINDOW, find_spiral, read_steps};

use super::page::within;
use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::revision::resolve;
use crate::view::error::Result;
use crate::view::json;

/// Smallest and largest window.
const MIN_WINDOW: u64 = 2;
const MAX_WINDOW: u64 = 50;

/// Arguments of `spiral`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpiralArguments {
    /// The newest turn to check; HEAD by default
    revision: Option<String>,
    /// Number of equal calls in a row that count as a sign: 2 to 50, 3 by default
    window: Option<u64>,
}

impl Request for SpiralArguments {
    type Answer = json::SpiralRecord;
    const NAME: &'static str = "spiral";
    const TITLE: &'static str = "Does the agent go in circles?";
    const ABOUT: &'static str = "Detects loops in the last turns: repeated equal calls, files \
        that are the same as some turns ago, a file that alternates between contents. It changes \
        nothing; rollback_to is the turn before the loop, for restore.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<json::SpiralRecord> {
        let window = self.window.unwrap_or(SPIRAL_WINDOW as u64);
        let window = within("window", window, MIN_WINDOW..=MAX_WINDOW)?;
        let repo = call.open()?;
        let newest = resolve(&repo, self.revision.as_deref().unwrap_or(HEAD))?.commit;
        Ok(json::SpiralRecord::new(&find_spiral(&read_steps(&repo, &newest)?, window)))
    }
}
