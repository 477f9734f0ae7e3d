//! The verbs: one file each, with its arguments, help, examples, and its [`Verb`].
//!
//! The table below names each verb once: its group in the help, its order there, its name (that of
//! the variant, in lower case) and the type of its arguments.

pub(crate) mod adopt;
pub(crate) mod bisect;
pub(crate) mod blame;
pub(crate) mod branch;
pub(crate) mod bundle;
pub(crate) mod cat;
pub(crate) mod cat_object;
pub(crate) mod cherry_pick;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
mod designs;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod export;
mod export_page;
pub(crate) mod fork;
pub(crate) mod fsck;
pub(crate) mod gc;
pub(crate) mod git;
pub(crate) mod grep;
pub(crate) mod hash_object;
pub(crate) mod hook;
pub(crate) mod hook_check;
pub(crate) mod import;
mod import_folder;
mod import_report;
pub(crate) mod init;
pub(crate) mod lesson;
pub(crate) mod lesson_fields;
mod lesson_file;
pub(crate) mod lesson_target;
pub(crate) mod log;
mod log_filter;
pub(crate) mod ls;
pub(crate) mod ls_tree;
pub(crate) mod mcp;
pub(crate) mod merge;
pub(crate) mod offload;
pub(crate) mod op;
pub(crate) mod pin;
pub(crate) mod pins;
pub(crate) mod reads;
pub(crate) mod redact;
pub(crate) mod repack;
pub(crate) mod repair;
pub(crate) mod resolve;
pub(crate) mod restore;
pub(crate) mod restore_for;
pub(crate) mod retention;
pub(crate) mod rev_parse;
pub(crate) mod rollback;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod show_ref;
pub(crate) mod snapshot;
pub(crate) mod spiral;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod switch;
pub(crate) mod tag;
mod transition;
pub(crate) mod undo;
pub(crate) mod unpin;
pub(crate) mod update_ref;
pub(crate) mod version;
pub(crate) mod vfs;
mod watching;

use clap::Subcommand;

use crate::error::{Answer, Result};
use crate::invocation::Invocation;

/// The arguments of a verb, ready to run.
pub(crate) trait Verb {
    /// Returns whether this call leaves the store as it is, so that `--at-op` may go with it.
    fn reads_only(&self) -> bool {
        false
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer>;
}

macro_rules! verbs {
    ($($group:literal { $($(#[$attribute:meta])* $name:ident($arguments:ty),)* })*) => {
        /// One verb each.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($($(#[$attribute])* $name($arguments),)*)*
        }

        /// Groups of the help, with the number of verbs in each; the verbs stand in this order.
        pub(crate) const GROUPS: &[(&str, usize)] =
            &[$(($group, [$(stringify!($name)),*].len())),*];

        impl Command {
            /// Returns the verb that was called.
            pub(crate) fn verb(&self) -> &dyn Verb {
                match self {
                    $($(Self::$name(verb) => verb,)*)*
                }
            }
        }
    };
}

verbs! {
    "Start" {
        Demo(demo::Demo),
        Init(init::Init),
        Import(import::Import),
        Adopt(adopt::Adopt),
        Snapshot(snapshot::Snapshot),
    }
    "Look" {
        Log(log::Log),
        Show(show::Show),
        Ls(ls::Ls),
        Cat(cat::Cat),
        Diff(diff::Diff),
        Grep(grep::Grep),
        Blame(blame::Blame),
        Spiral(spiral::Spiral),
        #[command(visible_alias = "st")]
        Status(status::Status),
        Stats(stats::Stats),
    }
    "Explore" {
        #[command(visible_alias = "br")]
        Branch(branch::Branch),
        #[command(visible_alias = "co")]
        Switch(switch::Switch),
        Fork(fork::Fork),
        Compare(compare::Compare),
        Merge(merge::Merge),
        CherryPick(cherry_pick::CherryPick),
        Resolve(resolve::Resolve),
        Tag(tag::Tag),
        Bisect(bisect::Bisect),
    }
    "Undo and export" {
        Rollback(rollback::Rollback),
        Restore(restore::Restore),
        Undo(undo::Undo),
        Redo(undo::Redo),
        Op(op::Op),
        Reads(reads::Reads),
        Export(export::Export),
        Events(events::Events),
        Bundle(bundle::Bundle),
        Git(git::Git),
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
    "Retention and size" {
        Pin(pin::Pin),
        Unpin(unpin::Unpin),
        Pins(pins::Pins),
        Retention(retention::Retention),
        Gc(gc::Gc),
        Repack(repack::Repack),
    }
    "Integrity" {
        Fsck(fsck::Fsck),
        Repair(repair::Repair),
        Redact(redact::Redact),
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
        Version(version::Version),
    }
}
