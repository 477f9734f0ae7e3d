//! A model of manifests, segments, sealing and collection, small enough to be looked at whole.
//!
//! ```text
//!  handle ── open, refresh, reload ── take over or make a segment ── place ── acknowledge
//!     │                                        └── seal others ──┐
//!     └── collect: lock, look, pack, load, announce, link, unlink ┴──> the newest manifest
//! ```
//!
//! A store is a few bits here: which operations lie in which segment, what the newest manifest says,
//! the epoch, and what each handle has seen. Every step is one that the code of `core/src/store`
//! takes without anybody in between whom it would notice: one look at the epoch, one manifest loaded
//! or linked, one section under the ref lock. [`explore`] takes all steps in all orders, breadth
//! first, with processes that may end at any of them, and asks in every state that can be reached:
//!
//! 1. does whoever opens the store now see every operation, in one chain, and is what it brought in a
//!    file that is read?
//! 2. is every operation in a file that the newest manifest lists (sealed, packed, retired) in the
//!    refs of that manifest?
//!
//! What the code does to keep that is a list of [`Rules`]. With all of them both hold; without one
//! that is needed there is a [`Lost`], the shortest way to lose something.
//!
//! The model is coarser than the code, never to the side of what is safe:
//!
//! - Machines do not crash (the layer `crashes` does that), so an operation is promised as soon as it
//!   is written, which is earlier than it is acknowledged. Its index is no step of its own: nobody
//!   else writes to a segment that is locked.
//! - Which idle segment a writer takes, and when it seals one, follows from numbers in the code. Here
//!   it may take any, and seal any.
//! - Reading all segments is one step. Who finds a child before its parent, as the code may, is in
//!   the model too: a segment that is locked is read alone. Files that have lost their names are read
//!   no more, so a handle sees less than in the code.
//! - A pack is the set of operations in it, and every collection replaces all packs: two are one. What
//!   a collection drops on purpose, damage, and threads that share a handle are left out.

mod canonical;
mod handles;
mod invariants;
mod state;
mod steps;

use std::collections::{HashSet, VecDeque};
use std::fmt;

pub use self::state::{Sizes, State};
pub use self::steps::Step;

/// What keeps operations from being lost. Each says what is done; `false` leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A commit is placed only if the epoch is that of its view.
    pub place_checks_epoch: bool,
    /// A commit looks and writes under one ref lock.
    pub place_under_ref_lock: bool,
    /// Who looks for a segment leaves out those that the manifest calls retired.
    pub retired_are_refused: bool,
    /// Sealing from a view of another epoch is refused.
    pub seal_checks_epoch: bool,
    /// Who seals has read all segments before.
    pub seal_reads_everything: bool,
    /// A sealed segment is published from one look, under the ref lock.
    pub seal_under_ref_lock: bool,
    /// A generation is taken once: who built on an older manifest builds again.
    pub generations_are_taken_once: bool,
    /// The refs of a manifest are never older than those of the one before.
    pub refs_are_max: bool,
    /// A collection replaces only segments whose locks it holds.
    pub collection_locks: bool,
    /// The epoch changes before a manifest without the replaced files is linked.
    pub announced_before: bool,
    /// And after.
    pub announced_after: bool,
    /// Who finds an odd epoch waits for the ref lock, and looks then.
    pub odd_epoch_waits: bool,
}

impl Rules {
    /// All of them.
    pub const ALL: Self = Self {
        place_checks_epoch: true,
        place_under_ref_lock: true,
        retired_are_refused: true,
        seal_checks_epoch: true,
        seal_reads_everything: true,
        seal_under_ref_lock: true,
        generations_are_taken_once: true,
        refs_are_max: true,
        collection_locks: true,
        announced_before: true,
        announced_after: true,
        odd_epoch_waits: true,
    };
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Explored {
    /// States, those that nobody can tell apart counted once.
    pub states: usize,
    /// Steps from one to another.
    pub steps: usize,
    /// Steps to the state that is the furthest away.
    pub depth: usize,
    /// States in which the manifest lists a sealed segment.
    pub sealed: usize,
    /// States after the last collection.
    pub collected: usize,
}

/// A shortest way to a state in which something is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// What is wrong there.
    pub what: String,
    /// The steps to it.
    pub steps: Vec<Step>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        write!(f, "  {}", self.what)
    }
}

/// Takes every step in every order, from a new store that all handles have open.
///
/// # Errors
/// The first loss that is found, which no other one is shorter than.
///
/// # Panics
/// When there are more states than numbers for them.
pub fn explore(sizes: &Sizes, rules: &Rules) -> Result<Explored, Box<Lost>> {
    let mut explored = Explored::default();
    // The state before each, and the step from there.
    let mut ways: Vec<(u32, Step)> = vec![(0, Step::default())];
    let first = State::new(sizes);
    let mut visited = HashSet::from([first.canonical(rules)]);
    let mut open = VecDeque::from([(first, 0_u32, 0_usize)]);
    let mut next = Vec::new();
    while let Some((state, number, depth)) = open.pop_front() {
        explored.count(&state, depth);
        state.steps(rules, &mut next);
        for (step, state) in next.drain(..) {
            explored.steps += 1;
            if !visited.insert(state.canonical(rules)) {
                continue;
            }
            let new = u32::try_from(ways.len()).expect("few states");
            ways.push((number, step));
            if let Some(what) = state.broken() {
                return Err(Box::new(Lost { what, steps: way(&ways, new) }));
            }
            open.push_back((state, new, depth + 1));
        }
    }
    Ok(explored)
}

/// The steps to a state.
fn way(ways: &[(u32, Step)], mut to: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    while to > 0 {
        let (from, step) = ways[to as usize];
        steps.push(step);
        to = from;
    }
    steps.reverse();
    steps
}

impl Explored {
    fn count(&mut self, state: &State, depth: usize) {
        self.states += 1;
        self.depth = self.depth.max(depth);
        self.sealed += usize::from(state.manifest.sealed != 0);
        self.collected += usize::from(state.is_collected());
    }
}
