//! Git of a directory: its program, its HEAD, and the commits that name turns.

pub(crate) mod commits;
pub(crate) mod head;
pub(crate) mod program;
