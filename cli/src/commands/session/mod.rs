//! `session`: shows, names, labels, maps and forgets whole sessions.

mod forget;
mod label;
mod map;
mod show;

use clap::{Args, Subcommand};

use super::Verb;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Show, name, label, map and forget whole sessions
///
/// A session is named by its name, its title, or a unique beginning of either.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree session show 3f2a91c0
  turntree session rename 3f2a91c0 'the parser, second try'
  turntree session label 'the parser' draft
  turntree sessions --label draft
  turntree session map /home/ann=/Users/ann
  turntree session forget --older-than 180d --yes")]
pub(crate) struct SessionVerbs {
    #[command(subcommand)]
    action: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    Show(show::Show),
    Rename(label::Rename),
    Label(label::Label),
    Map(map::MapDirectories),
    Forget(forget::Forget),
}

impl Verb for SessionVerbs {
    fn reads_only(&self) -> bool {
        match &self.action {
            // The map is not a part of the store.
            SessionCommand::Show(_) | SessionCommand::Map(_) => true,
            SessionCommand::Rename(_) => false,
            SessionCommand::Label(label) => label.reads_only(),
            SessionCommand::Forget(forget) => forget.reads_only(),
        }
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            SessionCommand::Show(show) => show.run(run),
            SessionCommand::Rename(rename) => rename.run(run),
            SessionCommand::Label(label) => label.run(run),
            SessionCommand::Map(map) => map.run(run),
            SessionCommand::Forget(forget) => forget.run(run),
        }
    }
}
