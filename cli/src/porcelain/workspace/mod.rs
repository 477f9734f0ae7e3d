//! Directories of branches: captures, restored files, status, and worktrees.

pub(crate) mod agent_session;
pub(crate) mod capture;
pub(crate) mod plans;
pub(crate) mod project;
pub(crate) mod rewind;
pub(crate) mod status;
pub(crate) mod unsaved_changes;
pub(crate) mod worktree;
pub(crate) mod worktree_include;
