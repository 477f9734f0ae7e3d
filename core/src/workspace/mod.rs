//! Between contexts and directories: a workspace goes in, a context comes out as files.
//!
//! [`capture`] makes the `files` section of a context what a directory holds. [`plan`] says what
//! laying a context out in a directory would write, and [`RestorePlan::apply`] does it. Nothing is
//! ever written outside the directory or through a link, and nothing that is there is overwritten
//! unless the caller says so.

mod capture;
mod layout;
mod restore;

pub use capture::{Captured, MAX_FILE_BYTES, Skipped, capture};
pub use restore::{Action, PlannedFile, RestorePlan, Restored, plan};
