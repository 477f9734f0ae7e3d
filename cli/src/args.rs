//! The commands, their common options, and the help.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use clap_complete::env::CompleteEnv;

use crate::commands::{Command, GROUPS, verbs_among};
use crate::program::complete::VARIABLE;
use crate::program::global::Global;

/// Paragraphs of the long help; the first line of each is a topic of `turntree help`.
const TOPICS: &str = "\
Revisions:
  HEAD, @              the branch that commands act on
  S, S/main, main      a session, a branch, a branch of HEAD's session
  3f2a91c0             an id, or at least 4 digits of it
  S, 'fix the par'     the beginning of one session's name, client id or title (tried last)
  REV~3, REV^2         3 snapshots back, the second parent
  turn:42, S^{turn:42} a turn of HEAD's branch, of S
  prompt:3, prompt:-1  the turn of a prompt, the newest one; S^{prompt:3} is one of S
  S@{1}, S@{yesterday} a branch before its last change, at a time
  REV:PATH             an entry, as in HEAD:scratchpad/todos or HEAD:files/src/main.rs;
                       commands that need a snapshot refuse one
  A..B                 snapshots of B that A does not have

Times:
  2026-11-20 10:00     a local time; a date begins at midnight; with Z or +01:00 that of the offset
  today, yesterday     midnight of that day; 'yesterday 10:30' a time of it, 10:30 of today
  monday, last monday  the newest Monday, the newest one before today
  'last week'          midnight a week ago; 'this month', the midnight at which it began
  7d, 3.hours.ago      that long ago; an --expires or --older-than of 7d is 7 days long

Exit codes:
   0  done                        4  stored bytes are damaged
   1  negative result             5  locked by another process
   2  wrong arguments or input    6  not found, or dropped by retention
   3  lost a race: try again      7  a replay differs, and was refused
  70  the system refused, or an internal error

The store is --store, else TURNTREE_STORE, else the nearest .turntree above the
working directory, else the user's store in the XDG data directory. A store that
came with a folder is read-only until 'turntree trust'.

Environment:
  TURNTREE_STORE        the store
  TURNTREE_BRANCH       the branch to act on instead of HEAD's, for one of several agents: S/B, a
                        branch of the session, or the beginning of a session's name; in a shell
                        of Claude Code or Codex it is that of their session by default
  TURNTREE_ACTOR        name of the actor
  TURNTREE_NOW          the time, instead of the clock's
  TURNTREE_PAGER        the pager, before PAGER and less
  TURNTREE_MAINTENANCE  off: never start 'gc --auto' after a change
  TURNTREE_HOOK_PATIENCE
                        how long an agent waits for a hook that looks at its files, such as 10s
  TURNTREE_IDENTITY     files of secret keys that open an encrypted store, besides your own
  TURNTREE_IDENTITY_COMMAND
                        a shell command that prints one, such as that of a key store
  TURNTREE_PASSPHRASE   the passphrase of an encrypted store or bundle
  NO_COLOR              no colour";

/// The commands of the short help, with their descriptions; the long help has all commands.
const SHORT: [(&str, &[(&str, &str)]); 5] = [
    (
        "Start",
        &[
            ("adopt", "Import the sessions of the agents on this machine"),
            ("import", "Import a recorded session, one snapshot a turn"),
            ("snapshot", "Take a snapshot of a context"),
            ("hook", "Take a snapshot at every step of an agent"),
        ],
    ),
    (
        "Look",
        &[
            ("sessions", "List sessions, newest first"),
            ("status", "Show the current branch and its open conflicts"),
            ("log", "Show snapshots, newest first"),
            ("show", "Show a snapshot, or one entry of it"),
            ("diff", "Show what changed between two snapshots"),
            ("grep", "Search the whole history of sessions"),
            ("blame", "Show which turn wrote each line"),
        ],
    ),
    (
        "Explore",
        &[
            ("branch", "List branches, rename or delete them"),
            ("switch", "Point HEAD at another branch"),
            ("fork", "Begin a new branch at a snapshot"),
            ("compare", "Compare strategies side by side"),
            ("merge", "Merge a branch into HEAD's branch"),
        ],
    ),
    (
        "Go back",
        &[
            ("rollback", "Go back by turns, with the files of the workspace"),
            ("restore", "Restore a snapshot, its files too"),
            ("undo", "Take back the last change"),
        ],
    ),
    (
        "Share",
        &[
            ("export", "Export a session"),
            ("bundle", "Create, verify and import single-file bundles"),
            ("sync", "Fetch from other machines, merge, and push"),
            ("mcp", "Serve the store to an agent"),
        ],
    ),
];

/// The last lines of the short help.
const MORE: &str = "\
'turntree --help' lists all commands, 'turntree log -h' the options of one,
'turntree help revisions' and 'help times' the names of turns and of times";

/// The last line of the help of every command.
const GLOBAL_OPTIONS: &str = "'turntree --help' lists the global options";

/// Git for what an agent knows
#[derive(Debug, Parser)]
// Its name is in the usage lines, also where the file is turntree.exe.
#[command(name = "turntree", bin_name = "turntree", version = env!("TURNTREE_VERSION"))]
#[command(max_term_width = 100, subcommand_required = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// Without a command, shows the state of the store, or the short help.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Builds the parser, with the commands grouped in its help.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let long = format!("{}\n\n{TOPICS}", long_help(&command));
    let hidden = |arg: clap::Arg| arg.hide_short_help(true).hide_long_help(true);
    let command = command.mut_args(|arg| if arg.is_global_set() { hidden(arg) } else { arg });
    let command = command.after_help(short_help()).after_long_help(long);
    name_the_global_options(command).help_template("{about}\n\n{usage-heading} {usage}{after-help}")
}

/// Parses the arguments; help and errors are returned as users see them.
///
/// A command is called by its name, so only its own parser is built first: building all of them
/// takes longer than most commands. If that parser fails, for example for an alias, the full parser
/// runs, with the help.
pub(crate) fn parse(arguments: &[OsString]) -> clap::error::Result<Cli> {
    let parsed_by = |command: clap::Command| {
        let matches = command.try_get_matches_from(arguments);
        matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
    };
    if let [_, help, topic] = arguments
        && help == "help"
        && let Some(text) = topic.to_str().and_then(paragraph)
    {
        let help = clap::Command::new("turntree").override_help(text);
        help.try_get_matches_from(["turntree", "--help"])?;
    }
    let of_the_verb = clap::Command::new("turntree").subcommands(verbs_among(arguments));
    parsed_by(Global::augment_args(of_the_verb)).or_else(|_| parsed_by(command()))
}

/// Returns the paragraph of the long help about a topic: `revisions`, `times`, `exit-codes` or
/// `environment`.
fn paragraph(topic: &str) -> Option<String> {
    let heading = format!("{}:", topic.replace('-', " "));
    let is_its =
        |text: &&str| text.lines().next().is_some_and(|first| first.eq_ignore_ascii_case(&heading));
    TOPICS.split("\n\n").find(is_its).map(|text| format!("{text}\n"))
}

/// Adds a pointer to the global options to the help of every command.
fn name_the_global_options(mut command: clap::Command) -> clap::Command {
    for verb in command.get_subcommands_mut() {
        let examples = verb.get_after_long_help().map(|text| format!("{text}\n\n"));
        let long = format!("{}{GLOBAL_OPTIONS}", examples.unwrap_or_default());
        let with_line = verb.clone().after_help(GLOBAL_OPTIONS).after_long_help(long);
        *verb = name_the_global_options(with_line);
    }
    command
}

/// Answers a completion request of the shell; returns true if there was one.
pub(crate) fn answer_shell(arguments: &[OsString]) -> clap::error::Result<bool> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(command).var(VARIABLE).try_complete(arguments, here.as_deref())
}

/// The help on one screen.
fn short_help() -> String {
    let mut text = String::new();
    for (heading, verbs) in SHORT {
        let _ = writeln!(text, "{heading}:");
        for (verb, about) in verbs {
            let _ = writeln!(text, "  {verb:<10} {about}");
        }
        text.push('\n');
    }
    text + MORE
}

/// All commands by group, and the global options.
fn long_help(command: &clap::Command) -> String {
    let mut text = String::new();
    let mut verbs = command.get_subcommands();
    for (heading, verbs_in_group) in GROUPS {
        let _ = writeln!(text, "{heading}:");
        for verb in verbs.by_ref().take(*verbs_in_group).filter(|verb| !verb.is_hide_set()) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<12} {about}", verb.get_name());
        }
        text.push('\n');
    }
    text.push_str("Options of every command:\n");
    for arg in command.get_arguments().filter(|arg| arg.is_global_set()) {
        let value = arg.get_value_names().and_then(|names| names.first());
        let value = value.filter(|_| arg.get_action().takes_values());
        let value = value.map_or_else(String::new, |value| format!(" <{value}>"));
        let option = format!("--{}{value}", arg.get_long().unwrap_or_default());
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = write!(text, "  {option:<17} {about}");
        let possible: Vec<String> =
            arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        if arg.get_action().takes_values() && !possible.is_empty() {
            let _ = write!(text, ": {}", possible.join(", "));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "  {:<17} Print help, shorter with -h", "--help");
    let _ = write!(text, "  {:<17} Print the version", "--version");
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn every_verb_is_parsed_by_its_name_alone() {
        let command = super::command();
        for verb in command.get_subcommands() {
            let name = verb.get_name();
            let alone: Vec<_> = super::verbs_among(&["turntree".into(), name.into()]).collect();
            let [alone] = &alone[..] else {
                panic!("{name}: {} verbs have this name", alone.len())
            };
            let options = |command: &clap::Command| {
                let ids = command.get_arguments().map(|arg| arg.get_id().to_string());
                let verbs = command.get_subcommands().map(|verb| verb.get_name().to_owned());
                ids.chain(verbs).collect::<BTreeSet<_>>()
            };
            assert_eq!(options(alone), options(verb), "{name}");
        }
    }

    #[test]
    fn the_short_help_names_commands_that_exist() {
        let command = super::command();
        for (verb, _) in super::SHORT.iter().flat_map(|(_, verbs)| *verbs) {
            assert!(command.find_subcommand(verb).is_some(), "{verb}");
        }
        assert!(super::short_help().lines().count() < 36);
    }

    #[test]
    fn arguments_are_declared_soundly_and_every_command_has_examples() {
        let mut command = super::command();
        command.build();
        command.clone().debug_assert();
        // Clap generates the command `help`.
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
