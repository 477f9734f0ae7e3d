//! `completions`: prints a shell script that completes commands, options and names.

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;
use turntree::Error;

use super::Verb;
use crate::program::complete::VARIABLE;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree completions bash >> ~/.bashrc
  turntree completions zsh >> ~/.zshrc
  turntree completions fish > ~/.config/fish/completions/turntree.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(Shells::builtins().names()))]
    shell: String,
}

impl Verb for Completions {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let shells = Shells::builtins();
        let shell = shells
            .completer(&self.shell)
            .ok_or_else(|| Error::invalid(format!("'{}' is not a known shell", self.shell)))?;
        let name = "turntree";
        shell.write_registration(VARIABLE, name, name, name, &mut run.out)?;
        Ok(Answer::Yes)
    }
}
