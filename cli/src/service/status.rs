//! The branch of the calls, its newest snapshot, and its open conflicts.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, Request, ServiceCall};
use crate::porcelain::workspace::status::status;
use crate::view::error::Result;
use crate::view::json;

/// No arguments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusArguments {}

impl Request for StatusArguments {
    type Answer = json::Status;
    const NAME: &'static str = "status";
    const TITLE: &'static str = "Where the session stands";
    const ABOUT: &'static str = "Returns the branch that calls act on, its newest snapshot and \
        turn, the number of messages in its context, and the number of open conflicts.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<json::Status> {
        status(&*call.open()?, call.service.store.location())
    }
}
