//! The commands: one file each, with its arguments, help, examples, and its [`Verb`].
//!
//! The table below lists each command once: its group in the help, its order, its name (the variant
//! in kebab case) and the type of its arguments.

mod adopt;
pub(crate) mod bare;
mod bisect;
mod blame;
mod branch;
mod bundle;
mod cat;
mod cat_object;
mod cherry_pick;
mod compare;
mod completions;
mod demo;
mod diff;
mod edit;
mod explore;
mod export;
mod fork;
mod fsck;
mod gc;
mod git;
mod grep;
mod hash_object;
pub(crate) mod hook;
mod import;
mod init;
mod key;
mod lesson;
mod log;
mod ls;
mod ls_tree;
mod manual;
mod mcp;
mod merge;
mod offload;
mod ollm;
mod op;
mod outline;
mod pin;
mod pins;
mod redact;
mod remote;
mod repack;
mod repair;
mod replay;
mod resolve;
mod restore;
mod resume;
mod retention;
mod rev_parse;
mod rollback;
mod search;
mod secrets;
mod serve;
mod session;
mod sessions;
mod share;
mod show;
mod show_ref;
mod snapshot;
mod spiral;
mod stats;
mod status;
mod swarm;
mod switch;
mod tag;
mod trust;
mod ui;
mod undo;
mod unpin;
mod update_ref;
mod usage;
mod version;
mod vfs;
mod view;

use std::ffi::OsString;

use clap::{Args, Subcommand};

use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// The arguments of a command, ready to run.
pub(crate) trait Verb {
    /// Returns true if this call does not change the store, so that `--at-op` is allowed.
    fn reads_only(&self) -> bool {
        false
    }

    /// Returns true if this call may change the store, so that the store must be trusted.
    fn may_write(&self) -> bool {
        !self.reads_only()
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer>;
}

macro_rules! verbs {
    ($($group:literal { $($(#[$attribute:meta])* $name:ident($arguments:ty),)* })*) => {
        /// One variant per command.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($($(#[$attribute])* $name($arguments),)*)*
        }

        /// Groups of the help, with the number of commands in each; the commands are in the same
        /// order.
        pub(crate) const GROUPS: &[(&str, usize)] =
            &[$(($group, [$(stringify!($name)),*].len())),*];

        /// The variant name of each command, and the function that adds its arguments to a parser.
        const VERBS: &[(&str, fn(clap::Command) -> clap::Command)] =
            &[$($((stringify!($name), <$arguments as Args>::augment_args),)*)*];

        impl Command {
            /// Returns the command that was called.
            pub(crate) fn verb(&self) -> &dyn Verb {
                match self {
                    $($(Self::$name(verb) => verb,)*)*
                }
            }
        }
    };
}

/// The parsers of the commands that are named in `words`.
pub(crate) fn verbs_among(words: &[OsString]) -> impl Iterator<Item = clap::Command> {
    let named = VERBS.iter().map(|(variant, add)| (kebab_case(variant), add));
    let called = named.filter(|(name, _)| words.iter().any(|word| word == name.as_str()));
    called.map(|(name, add)| add(clap::Command::new(name)))
}

/// The name of a command from its variant.
fn kebab_case(variant: &str) -> String {
    let mut name = String::with_capacity(variant.len() + 2);
    for letter in variant.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

verbs! {
    "Start" {
        Demo(demo::Demo),
        Init(init::Init),
        Import(import::Import),
        Adopt(adopt::Adopt),
        Snapshot(snapshot::TakeSnapshot),
    }
    "Look" {
        Sessions(sessions::ListSessions),
        Session(session::SessionVerbs),
        Log(log::Log),
        Outline(outline::Outline),
        Show(show::Show),
        Ls(ls::Ls),
        Cat(cat::Cat),
        Diff(diff::Diff),
        Search(search::Search),
        Grep(grep::Grep),
        Blame(blame::Blame),
        Spiral(spiral::Spiral),
        Usage(usage::Usage),
        #[command(visible_alias = "st")]
        Status(status::Status),
        Stats(stats::Stats),
        View(view::ViewSessions),
        Ui(ui::Ui),
    }
    "Explore" {
        #[command(visible_alias = "br")]
        Branch(branch::Branch),
        #[command(visible_alias = "co")]
        Switch(switch::Switch),
        Fork(fork::Fork),
        Explore(explore::Explore),
        Compare(compare::Compare),
        Merge(merge::Merge),
        CherryPick(cherry_pick::CherryPick),
        Resolve(resolve::Resolve),
        Tag(tag::Tag),
        Bisect(bisect::Bisect),
        Replay(replay::Replay),
    }
    "Undo and export" {
        Rollback(rollback::Rollback),
        Restore(restore::Restore),
        Resume(resume::Resume),
        Edit(edit::Edit),
        Compact(edit::Compact),
        Uncompact(edit::Uncompact),
        Undo(undo::Undo),
        Redo(undo::Redo),
        Op(op::Op),
        Export(export::Export),
        Share(share::Share),
        Bundle(bundle::Bundle),
        Git(git::Git),
    }
    "Other machines" {
        Clone(remote::CloneRemote),
        Remote(remote::RemoteVerbs),
        Fetch(remote::Fetch),
        Push(remote::Push),
        Sync(remote::Sync),
        Trust(trust::Trust),
    }
    "Lessons and long outputs" {
        Lesson(lesson::LessonCommand),
        Offload(offload::Offload),
        Vfs(vfs::Vfs),
    }
    "For agents and programs" {
        Hook(hook::Hook),
        Mcp(mcp::Mcp),
        Serve(serve::Serve),
    }
    "Frameworks" {
        Swarm(swarm::Swarm),
        Ollm(ollm::Ollm),
    }
    "Retention and size" {
        Pin(pin::Pin),
        Unpin(unpin::Unpin),
        Pins(pins::Pins),
        Retention(retention::Retention),
        Gc(gc::Gc),
        Repack(repack::Repack),
        Shrink(adopt::Shrink),
    }
    "Integrity" {
        Fsck(fsck::Fsck),
        Repair(repair::Repair),
        Redact(redact::Redact),
        Secrets(secrets::Secrets),
        Key(key::KeyVerbs),
    }
    "Plumbing, for scripts" {
        HashObject(hash_object::HashObject),
        CatObject(cat_object::CatObject),
        LsTree(ls_tree::LsTree),
        RevParse(rev_parse::RevParse),
        ShowRef(show_ref::ShowRef),
        UpdateRef(update_ref::UpdateRef),
    }
    "About" {
        Completions(completions::Completions),
        Manual(manual::Manual),
        Version(version::PrintVersion),
    }
}
