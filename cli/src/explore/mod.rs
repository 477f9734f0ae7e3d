//! Explorations: several strategies from one turn, each run by an agent on its branch in its own
//! worktree, checked, ranked, and the best one merged.
//!
//! The store has a record of all trials and their ends ([`turntree::repo::Exploration`]). One operation
//! updates it together with the branch of a trial. So a process that continues an exploration needs
//! nothing else: trials that ended are not run again, and one that was interrupted is rolled back to
//! its start, with its turns and files in the history of its branch.
//!
//! ```text
//! driver   rounds, jobs, timeouts, the budget, signals
//!   trial  begin: worktree and branch    end: snapshot of the files, check, outcome
//!     child   one process group
//! ```

mod child;
mod driver;
mod keep;
mod limits;
mod lock;
mod plan;
mod show;
mod trial;

pub(crate) use driver::{Driven, drive};
pub(crate) use keep::{keep, named_trial};
pub(crate) use limits::LimitOptions;
pub(crate) use plan::{PlanOptions, begin};
pub(crate) use show::write;
