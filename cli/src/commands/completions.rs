//! `completions`: prints a shell script that completes commands, options and names.

use std::io::Write;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;
use turntree::Error;

use super::Verb;
use crate::program::complete::VARIABLE;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// The scripts that differ from those of the library: bash splits words at colons, as in HEAD:src,
/// and these three get words in quotes, which the program compares without them. A path that goes
/// on gets no space.
const SCRIPTS: [(&str, &str); 3] = [
    ("bash", include_str!("../../assets/completion.bash")),
    ("zsh", include_str!("../../assets/completion.zsh")),
    ("fish", include_str!("../../assets/completion.fish")),
];

/// Print the completion script of a shell
///
/// The shell then completes commands, options, branches, titles of sessions, turns, and the paths of
/// entries after REV: and in --path and --only.
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
        if let Some((_, script)) = SCRIPTS.iter().find(|(shell, _)| *shell == self.shell) {
            run.out.write_all(script.as_bytes())?;
            return Ok(Answer::Yes);
        }
        let shells = Shells::builtins();
        let shell = shells
            .completer(&self.shell)
            .ok_or_else(|| Error::invalid(format!("'{}' is not a known shell", self.shell)))?;
        let name = "turntree";
        shell.write_registration(VARIABLE, name, name, name, &mut run.out)?;
        Ok(Answer::Yes)
    }
}
