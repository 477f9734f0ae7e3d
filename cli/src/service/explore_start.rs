//! Starts an exploration with the command that the server was started with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::{Error, ErrorKind};

use super::{Effect, Request, ServiceCall};
use crate::view::error::Result;

/// Arguments of `explore_start`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExploreStartArguments {
    /// What to try: each runs on a branch and in a worktree of its own
    strategies: Vec<Strategy>,
    /// The snapshot to begin at; the newest of the branch by default
    from: Option<String>,
    /// Its name; explore by default
    name: Option<String>,
}

/// A strategy.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Strategy {
    /// Name of its branch
    name: String,
    /// The task for the agent
    prompt: String,
}

/// The exploration that was started.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExploreStartAnswer {
    /// Its name.
    name: String,
    session: String,
    /// The branch from which it was started.
    into: String,
    /// The snapshot at which the strategies begin.
    from: String,
    /// The branches of the strategies.
    branches: Vec<String>,
    /// The folder of the worktrees and of their logs.
    folder: String,
}

impl Request for ExploreStartArguments {
    type Answer = ExploreStartAnswer;
    const NAME: &'static str = "explore_start";
    const TITLE: &'static str = "Try several strategies";
    const ABOUT: &'static str = "Starts an agent for each strategy, side by side, each on its branch \
        with the files of the snapshot in a worktree of its own, and checks what each made. Take a \
        snapshot first. Returns at once: explore_status follows it and ranks them; merge of the best \
        branch, then restore of HEAD, keeps it.";
    const EFFECT: Effect = Effect::Runs;

    fn answer(self, call: &ServiceCall<'_>) -> Result<ExploreStartAnswer> {
        call.check_may_change()?;
        let Some(exploring) = call.exploring() else {
            let message = "this server was started without a command for strategies";
            return Err(Error::new(ErrorKind::Unsupported, message).into());
        };
        let strategies = self.strategies.into_iter().map(|Strategy { name, prompt }| {
            // It would be an option of the agent, such as one that skips its permissions.
            match prompt.starts_with('-') || prompt.contains('\0') {
                true => Err(Error::invalid(format!(
                    "the prompt of {name} begins with '-' or contains a null character"
                ))),
                false => Ok((name, prompt)),
            }
        });
        let strategies = strategies.collect::<Result<Vec<_>, Error>>()?;
        let repo = call.open()?;
        let named = (self.from.as_deref(), self.name.as_deref());
        let started = exploring.start(&repo, &strategies, named, call.workspace())?;
        Ok(ExploreStartAnswer {
            branches: started.trials.iter().map(|it| it.branch.branch().to_owned()).collect(),
            name: started.name,
            session: started.session,
            into: started.into.to_string(),
            from: started.from.to_string(),
            folder: started.plan.folder,
        })
    }
}
