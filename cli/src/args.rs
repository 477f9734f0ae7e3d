//! The commands, the options they share, and the help.

use std::fmt::Write as _;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::env::CompleteEnv;

use crate::commands;
use crate::complete::VARIABLE;
use crate::error::{Answer, Result};
use crate::global::Global;
use crate::invocation::Invocation;

/// Commands in the order of work, as the help lists them. A test checks that none is missing.
const GROUPS: [(&str, &[&str]); 10] = [
    ("Start", &["demo", "init", "import", "adopt", "snapshot"]),
    ("Look", &["log", "show", "ls", "cat", "diff", "grep", "blame", "spiral", "status", "stats"]),
    (
        "Explore",
        &[
            "branch",
            "switch",
            "fork",
            "compare",
            "merge",
            "cherry-pick",
            "resolve",
            "tag",
            "bisect",
        ],
    ),
    (
        "Undo and export",
        &[
            "rollback", "restore", "undo", "redo", "op", "reads", "export", "events", "bundle",
            "git",
        ],
    ),
    ("Lessons and long outputs", &["lesson", "offload", "vfs"]),
    ("For agents and programs", &["hook", "mcp", "serve"]),
    ("Retention and size", &["pin", "unpin", "pins", "retention", "gc", "repack"]),
    ("Integrity", &["fsck", "repair", "redact"]),
    (
        "Plumbing, for scripts",
        &["hash-object", "cat-object", "ls-tree", "rev-parse", "show-ref", "update-ref"],
    ),
    ("About", &["completions", "version", "help"]),
];

const REVISIONS: &str = "\
Revisions:
  HEAD, @              the branch commands act on
  S, S/main, main      a session, a branch, a branch of HEAD's session
  3f2a91c0             an id, or at least 4 digits of it
  REV~3, REV^2         3 snapshots back, the second parent
  turn:42, S^{turn:42} a turn of HEAD's branch, of S
  S@{1}, S@{yesterday} what a branch was before its last change, at a time
  REV:PATH             an entry, as in HEAD:scratchpad/todos or HEAD:files/src/main.rs
  A..B                 what B has and A has not

Exit codes:
   0  done                        4  stored bytes are damaged
   1  negative result             5  another process holds what is needed
   2  wrong arguments or input    6  not found, or dropped by retention
   3  lost a race: try again     70  the system refused, or an internal error

The store is --store, else TURNTREE_STORE, else the nearest .turntree above the
working directory, else the user's store in the XDG data directory.

Environment:
  TURNTREE_STORE        the store
  TURNTREE_BRANCH       the branch to act on instead of HEAD's, for one of several agents; in a
                        shell of Claude Code or Codex it is that of their session by default
  TURNTREE_ACTOR        who acts
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

/// One verb each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(commands::demo::Demo),
    Init(commands::init::Init),
    Import(commands::import::Import),
    Adopt(commands::adopt::Adopt),
    Snapshot(commands::snapshot::Snapshot),
    Log(commands::log::Log),
    Show(commands::show::Show),
    Ls(commands::ls::Ls),
    Cat(commands::cat::Cat),
    Diff(commands::diff::Diff),
    Grep(commands::grep::Grep),
    Blame(commands::blame::Blame),
    Spiral(commands::spiral::Spiral),
    #[command(visible_alias = "st")]
    Status(commands::status::Status),
    Stats(commands::stats::Stats),
    #[command(visible_alias = "br")]
    Branch(commands::branch::Branch),
    #[command(visible_alias = "co")]
    Switch(commands::switch::Switch),
    Fork(commands::fork::Fork),
    Compare(commands::compare::Compare),
    Merge(commands::merge::Merge),
    CherryPick(commands::cherry_pick::CherryPick),
    Resolve(commands::resolve::Resolve),
    Tag(commands::tag::Tag),
    Bisect(commands::bisect::Bisect),
    Rollback(commands::rollback::Rollback),
    Restore(commands::restore::Restore),
    Undo(commands::undo::Undo),
    Redo(commands::undo::Redo),
    Op(commands::op::Op),
    Reads(commands::reads::Reads),
    Export(commands::export::Export),
    Events(commands::events::Events),
    Bundle(commands::bundle::Bundle),
    Git(commands::git::Git),
    Lesson(commands::lesson::LessonCommand),
    Offload(commands::offload::Offload),
    Vfs(commands::vfs::Vfs),
    Hook(commands::hook::Hook),
    Mcp(commands::mcp::Mcp),
    Serve(commands::serve::Serve),
    Pin(commands::pin::Pin),
    Unpin(commands::unpin::Unpin),
    Pins(commands::pins::Pins),
    Retention(commands::retention::Retention),
    Gc(commands::gc::Gc),
    Repack(commands::repack::Repack),
    Fsck(commands::fsck::Fsck),
    Repair(commands::repair::Repair),
    Redact(commands::redact::Redact),
    HashObject(commands::hash_object::HashObject),
    CatObject(commands::cat_object::CatObject),
    LsTree(commands::ls_tree::LsTree),
    RevParse(commands::rev_parse::RevParse),
    ShowRef(commands::show_ref::ShowRef),
    UpdateRef(commands::update_ref::UpdateRef),
    Completions(commands::completions::Completions),
    Version(commands::version::Version),
}

impl Command {
    /// Whether it only reads what refs lead to, so that it can look at the past.
    pub(crate) fn looks_only(&self) -> bool {
        if let Self::Vfs(command) = self {
            return command.looks_only();
        }
        if let Self::Bundle(command) = self {
            return command.looks_only();
        }
        if let Self::Git(command) = self {
            return command.looks_only();
        }
        if let Self::Lesson(command) = self {
            return command.looks_only();
        }
        if let Self::Restore(restore) = self {
            return restore.looks_only();
        }
        matches!(
            self,
            Self::Log(_)
                | Self::Show(_)
                | Self::Ls(_)
                | Self::Cat(_)
                | Self::Diff(_)
                | Self::Spiral(_)
                | Self::Grep(_)
                | Self::Blame(_)
                | Self::Status(_)
                | Self::Branch(_)
                | Self::Compare(_)
                | Self::Tag(_)
                | Self::Op(_)
                | Self::Reads(_)
                | Self::Export(_)
                | Self::Pins(_)
                | Self::CatObject(_)
                | Self::LsTree(_)
                | Self::RevParse(_)
                | Self::ShowRef(_)
        )
    }

    /// Runs it.
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match self {
            Self::Demo(command) => command.run(run),
            Self::Init(command) => command.run(run),
            Self::Import(command) => command.run(run),
            Self::Adopt(command) => command.run(run),
            Self::Snapshot(command) => command.run(run),
            Self::Log(command) => command.run(run),
            Self::Show(command) => command.run(run),
            Self::Ls(command) => command.run(run),
            Self::Cat(command) => command.run(run),
            Self::Diff(command) => command.run(run),
            Self::Spiral(command) => command.run(run),
            Self::Grep(command) => command.run(run),
            Self::Blame(command) => command.run(run),
            Self::Status(_) => commands::status::Status::run(run),
            Self::Stats(command) => command.run(run),
            Self::Branch(command) => command.run(run),
            Self::Switch(command) => command.run(run),
            Self::Fork(command) => command.run(run),
            Self::Compare(command) => command.run(run),
            Self::Merge(command) => command.run(run),
            Self::CherryPick(command) => command.run(run),
            Self::Resolve(command) => command.run(run),
            Self::Tag(command) => command.run(run),
            Self::Bisect(command) => command.run(run),
            Self::Rollback(command) => command.run(run),
            Self::Restore(command) => command.run(run),
            Self::Undo(command) => command.run(run),
            Self::Redo(command) => command.run(run),
            Self::Op(command) => command.run(run),
            Self::Reads(command) => command.run(run),
            Self::Export(command) => command.run(run),
            Self::Events(command) => command.run(run),
            Self::Bundle(command) => command.run(run),
            Self::Git(command) => command.run(run),
            Self::Lesson(command) => command.run(run),
            Self::Offload(command) => command.run(run),
            Self::Vfs(command) => command.run(run),
            Self::Hook(command) => command.run(run),
            Self::Mcp(command) => command.run(run),
            Self::Serve(command) => command.run(run),
            Self::Pin(command) => command.run(run),
            Self::Unpin(command) => command.run(run),
            Self::Pins(command) => command.run(run),
            Self::Retention(command) => command.run(run),
            Self::Gc(command) => command.run(run),
            Self::Repack(command) => command.run(run),
            Self::Fsck(command) => command.run(run),
            Self::Repair(command) => command.run(run),
            Self::Redact(command) => command.run(run),
            Self::HashObject(command) => command.run(run),
            Self::CatObject(command) => command.run(run),
            Self::LsTree(command) => command.run(run),
            Self::RevParse(command) => command.run(run),
            Self::ShowRef(_) => commands::show_ref::ShowRef::run(run),
            Self::UpdateRef(command) => command.run(run),
            Self::Completions(command) => command.run(run),
            Self::Version(_) => commands::version::Version::run(run),
        }
    }
}

/// The parser, with the commands grouped in its help.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
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
    for (heading, names) in GROUPS {
        let _ = write!(template, "\n{heading}:\n");
        for name in names {
            let about = match command.find_subcommand(name).and_then(clap::Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print the help of a command".to_owned(),
            };
            let _ = writeln!(template, "  {name:<12} {about}");
        }
    }
    template.push_str("\n{options}{after-help}");
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_command_once_in_order() {
        let mut listed: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(listed.pop(), Some("help"));
        let command = Cli::command();
        let known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(listed, known);
    }

    #[test]
    fn arguments_are_declared_soundly_and_every_command_has_examples() {
        let mut command = super::command();
        command.build();
        command.clone().debug_assert();
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            let examples = command.get_after_long_help().map(ToString::to_string);
            let name = command.get_name();
            assert!(
                examples.is_some_and(|text| text.contains(&format!("  turntree {name}"))),
                "{name}"
            );
        }
    }
}
