//! The commands, the options they share, and the help.

use std::fmt::Write as _;

use clap::{CommandFactory, Parser};
use clap_complete::env::CompleteEnv;

use crate::commands::{Command, GROUPS};
use crate::program::complete::VARIABLE;
use crate::program::global::Global;

const REVISIONS: &str = "\
Revisions:
  HEAD, @              the branch that commands act on
  S, S/main, main      a session, a branch, a branch of HEAD's session
  3f2a91c0             an id, or at least 4 digits of it
  REV~3, REV^2         3 snapshots back, the second parent
  turn:42, S^{turn:42} a turn of HEAD's branch, of S
  S@{1}, S@{yesterday} a branch before its last change, at a time
  REV:PATH             an entry, as in HEAD:scratchpad/todos or HEAD:files/src/main.rs
  A..B                 snapshots of B that A does not have

Exit codes:
   0  done                        4  stored bytes are damaged
   1  negative result             5  locked by another process
   2  wrong arguments or input    6  not found, or dropped by retention
   3  lost a race: try again     70  the system refused, or an internal error

The store is --store, else TURNTREE_STORE, else the nearest .turntree above the
working directory, else the user's store in the XDG data directory.

Environment:
  TURNTREE_STORE        the store
  TURNTREE_BRANCH       the branch to act on instead of HEAD's, for one of several agents; in a
                        shell of Claude Code or Codex it is that of their session by default
  TURNTREE_ACTOR        name of the actor
  TURNTREE_NOW          the time, instead of the clock's
  TURNTREE_PAGER        the pager, before PAGER and less
  TURNTREE_MAINTENANCE  off: never start 'gc --auto' after a change
  NO_COLOR              no colour";

/// Git for what an agent knows
#[derive(Debug, Parser)]
#[command(
    name = "turntree",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_long_help = REVISIONS
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Old spellings of options that moved to a verb of their own: they still work, and no help lists them.
const OLD_OPTIONS: [(&str, &[&str]); 2] = [
    (
        "snapshot",
        &["usage", "auto_at", "cooldown", "transition", "active_skill", "active_tool", "task"],
    ),
    ("restore", &["configuration", "preserve_system_prompts", "output", "compat"]),
];

/// The parser, with the commands grouped in its help.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    // In place: `mut_subcommand` would move the verb behind all others.
    for verb in command.get_subcommands_mut() {
        let name = verb.get_name().to_owned();
        if name == "snapshot" {
            *verb = verb.clone().mut_arg("message", |text| {
                text.required_unless_present_any(["usage", "transition"])
            });
        }
        for (_, options) in OLD_OPTIONS.iter().filter(|(old, _)| *old == name) {
            for option in *options {
                *verb = verb.clone().mut_arg(option, |arg| arg.hide(true));
            }
        }
    }
    let template = help_template(&command);
    command.help_template(template)
}

/// Answers the shell and ends the process, when the shell asked.
pub(crate) fn answer_shell() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(command).var(VARIABLE).complete();
    }
}

fn help_template(command: &clap::Command) -> String {
    let mut template = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    let mut verbs = command.get_subcommands();
    for (heading, verbs_in_group) in GROUPS {
        let _ = write!(template, "\n{heading}:\n");
        for verb in verbs.by_ref().take(*verbs_in_group).filter(|verb| !verb.is_hide_set()) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(template, "  {:<12} {about}", verb.get_name());
        }
    }
    template.push_str("  help         Print the help of a command\n\n{options}{after-help}");
    template
}

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_are_declared_soundly_and_every_command_has_examples() {
        let mut command = super::command();
        command.build();
        command.clone().debug_assert();
        // Clap makes the verb `help` itself.
        let is_shown =
            |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
        for command in command.get_subcommands().filter(is_shown) {
            let examples = command.get_after_long_help().map(ToString::to_string);
            let name = command.get_name();
            assert!(
                examples.is_some_and(|text| text.contains(&format!("  turntree {name}"))),
                "{name}"
            );
        }
    }
}
