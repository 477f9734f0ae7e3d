//! A checkout: writes a context as files into a directory, planned file by file before it is
//! applied.

mod apply;
mod plan;
mod scratch_directory;

pub use self::apply::CheckoutReport;
pub use self::plan::{FileAction, FilesPlan, PlannedFile, plan_checkout};
pub use self::scratch_directory::Scratch;
