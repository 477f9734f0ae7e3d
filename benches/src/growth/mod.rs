//! Measures how costs grow: runs one program on stores with more and more turns, and with more and
//! more sessions.
//!
//! ```text
//!  stores  ──> a store for each point, made by a process of its own
//!  steps   ──> runs of the program, each a process that the kernel accounts for
//!  figures ──> a table, its JSON, and charts
//! ```
//!
//! Processor time and peak memory cover a whole process including its start, as the kernel counts
//! them. They depend little on other load of the machine. The elapsed time is reported, too.

mod chart;
mod cost;
mod figures;
mod pictures;
mod steps;
mod stores;

use std::path::PathBuf;

pub use chart::{Chart, Series};
pub use cost::{Cost, cost_of};
pub use figures::{Figures, Measured, Point};
pub use pictures::write_pictures;
pub use steps::{State, measure};
pub use stores::make_store;

/// Errors end the run with a description.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Number of turns per session on the axis of sessions.
pub const TURNS_OF_A_SESSION: usize = 5;

/// The quantity that grows from point to point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// The number of turns of one session.
    Turns,
    /// The number of sessions of [`TURNS_OF_A_SESSION`] turns each.
    Sessions,
}

impl Axis {
    /// Both axes.
    pub const ALL: [Self; 2] = [Self::Turns, Self::Sessions];

    /// Returns the name in tables, JSON and file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Sessions => "sessions",
        }
    }
}

/// The measurements of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The measured program.
    pub program: PathBuf,
    /// A program that creates a store when it is called with the folder, `--make`, an axis and a
    /// size. The peak memory of a process includes the memory of its parent, so the measuring
    /// process must stay small.
    pub maker: PathBuf,
    /// The folder in which stores are created, one at a time.
    pub scratch: PathBuf,
    /// The sizes of the stores along each axis, ascending.
    pub points: Vec<(Axis, usize)>,
    /// The number of runs of each repeatable step. The least processor time counts.
    pub rounds: usize,
}
