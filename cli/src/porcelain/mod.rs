//! The operations shared by commands, the service and hooks: from a repository to a JSON record.
//!
//! Nothing here knows the caller. `commands` adds arguments and text for people, `service` adds
//! requests, schemas and limits; neither uses the other.

pub(crate) mod broad_directory;
pub(crate) mod change;
pub(crate) mod git;
pub(crate) mod read;
pub(crate) mod store;
pub(crate) mod transfer;
pub(crate) mod workspace;
