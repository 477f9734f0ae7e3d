//! How costs grow: one program, run on stores of more and more turns, and of more and more sessions.
//!
//! ```text
//!  stores  ──> a store for each point, made by a process of its own
//!  steps   ──> what the program does there, each a process that the kernel accounts for
//!  figures ──> a table, its JSON, and charts
//! ```
//!
//! Processor time and peak memory are those of a whole process, its start included, as the kernel
//! counts them: the load of the machine changes them little, and the time of the clock is told beside.

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

/// What goes wrong here ends the run, and says where.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Turns of each session where sessions are counted.
pub const TURNS_OF_A_SESSION: usize = 5;

/// What grows from point to point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// The turns of one session.
    Turns,
    /// The sessions, of [`TURNS_OF_A_SESSION`] turns each.
    Sessions,
}

impl Axis {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Turns, Self::Sessions];

    /// Its name in tables, JSON and names of files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Sessions => "sessions",
        }
    }
}

/// What is measured, and how often.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program that is measured.
    pub program: PathBuf,
    /// The program that makes a store when it is called with its folder, `--make`, an axis and a size. The
    /// peak memory of a process counts what its parent had, so the one that measures stays small.
    pub maker: PathBuf,
    /// Where stores are made, one at a time.
    pub scratch: PathBuf,
    /// Sizes of the stores along each axis, rising.
    pub points: Vec<(Axis, usize)>,
    /// Runs of each step that can be repeated; the least processor time counts.
    pub rounds: usize,
}
