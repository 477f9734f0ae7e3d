//! The verbs: one file each, with its arguments, what it does, and how that is shown.

pub(crate) mod branch;
pub(crate) mod cat;
pub(crate) mod cat_object;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod fsck;
pub(crate) mod hash_object;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod ls_tree;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod rev_parse;
pub(crate) mod show;
pub(crate) mod show_ref;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod switch;
pub(crate) mod update_ref;
pub(crate) mod version;
