//! Shows an exploration: the state of each strategy, and the ranks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::explorations::{Spent, named, record};
use crate::porcelain::read::prices::Prices;
use crate::view::error::Result;
use crate::view::json;

/// Maximum number of trials to list.
const TOLD: usize = 256;

/// Arguments of `explore_status`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExploreStatusArguments {
    /// Its name; the newest by default
    name: Option<String>,
}

/// An exploration.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExploreStatusAnswer {
    /// The last 256 trials are listed.
    #[serde(flatten)]
    exploration: json::Exploration,
    /// The number of trials that are not listed.
    more_trials: u64,
}

impl Request for ExploreStatusArguments {
    type Answer = ExploreStatusAnswer;
    const NAME: &'static str = "explore_status";
    const TITLE: &'static str = "Show an exploration";
    const ABOUT: &'static str = "Shows an exploration that turntree explore began: each strategy \
        with its branch, state, last step, score, time and cost, and the ranks of those that ended.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<ExploreStatusAnswer> {
        let repo = call.open()?;
        let exploration = named(&repo, self.name.as_deref())?;
        let mut spent = Spent::new(Prices::of(None)?.table);
        let mut exploration = record(&repo, &exploration, &mut spent)?;
        let more = exploration.trials.len().saturating_sub(TOLD);
        exploration.trials.drain(..more);
        Ok(ExploreStatusAnswer { exploration, more_trials: more as u64 })
    }
}
