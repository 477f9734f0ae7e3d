//! Creates stores to measure: one session of many turns, or many sessions of a few turns.

use std::path::Path;
use std::sync::Arc;

use turntree::repo::{BranchName, Repository};
use turntree::store::{Durability, NewStore, OpenOptions, RealIo};

use super::{Axis, Result, TURNS_OF_A_SESSION};
use crate::session::Agent;
use crate::store::Recorder;

/// The session whose newest turn is queried, on each axis.
pub(super) const SESSION: &str = "bench";

/// Number of files in the workspace of a long session, and of lines per file: a turn writes about 2
/// KB.
const LONG: (u64, u64) = (20, 50);

/// Number of files in the workspace of each of many sessions, and of lines per file.
const SHORT: (u64, u64) = (2, 20);

/// Creates a store of `size` turns or sessions in `folder`, with one operation per turn and without
/// packs.
///
/// # Errors
/// If the store cannot be created or written to.
pub fn make_store(folder: &Path, axis: Axis, size: usize) -> Result<()> {
    let options = OpenOptions { durability: Durability::None, ..OpenOptions::new([1; 16]) };
    let repo = Repository::init(Arc::new(RealIo), folder, &NewStore { id: [7; 16] }, options)?;
    match axis {
        Axis::Turns => record(&repo, SESSION, Agent::with_workspace(0, LONG.0, LONG.1), size),
        Axis::Sessions => (0..size).zip(0..).try_for_each(|(number, seed)| {
            let name = if number == 0 { SESSION.to_owned() } else { format!("s-{number:05}") };
            let agent = Agent::with_workspace(seed, SHORT.0, SHORT.1);
            record(&repo, &name, agent, TURNS_OF_A_SESSION)
        }),
    }
}

fn record(repo: &Repository, session: &str, mut agent: Agent, turns: usize) -> Result<()> {
    let mut recorder = Recorder::of_branch(repo, BranchName::new(session, "main")?);
    for _ in 0..turns {
        recorder.record(&agent.next_turn())?;
    }
    Ok(())
}
