//! Whether an agent goes in circles.

use schemars::JsonSchema;
use serde::Deserialize;
use turntree::repo::HEAD;
use turntree_exchange::{SPIRAL_WINDOW, find_spiral, steps};

use super::page::within;
use super::{Call, Effect, Request};
use crate::porcelain::revision::resolve;
use crate::view::error::Result;
use crate::view::json;

/// Smallest and largest window.
const MIN_WINDOW: u64 = 2;
const MAX_WINDOW: u64 = 50;

/// Which turns.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Spiral {
    /// The newest turn to look at; HEAD by default
    revision: Option<String>,
    /// Equal calls in a row that are a sign: 2 to 50, 3 by default
    window: Option<u64>,
}

impl Request for Spiral {
    type Answer = json::Spiral;
    const NAME: &'static str = "spiral";
    const TITLE: &'static str = "Does the agent go in circles?";
    const ABOUT: &'static str = "Looks at the last turns: the same call again and again, files that are \
        what they were some turns ago, a file that swings between contents. Advice only; rollback_to is \
        the turn before all of that, for restore.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &Call<'_>) -> Result<json::Spiral> {
        let window = self.window.unwrap_or(SPIRAL_WINDOW as u64);
        let window = within("window", window, MIN_WINDOW..=MAX_WINDOW)?;
        let repo = call.open()?;
        let newest = resolve(&repo, self.revision.as_deref().unwrap_or(HEAD))?.commit;
        Ok(json::Spiral::new(&find_spiral(&steps(&repo, &newest)?, window)))
    }
}
