//! `demo`: the main job on one screen.

use clap::Args;

use crate::error::{Answer, Result};
use crate::invocation::Invocation;

/// Show the main job on one screen
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree demo")]
pub(crate) struct Demo {}

impl Demo {
    pub(crate) fn run(&self, _run: &mut Invocation) -> Result<Answer> {
        Ok(Answer::Yes)
    }
}
