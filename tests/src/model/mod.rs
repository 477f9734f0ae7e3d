//! A model of manifests, segments, sealing and collection, small enough to be looked at whole.
//!
//! ```text
//!  handle ── open, refresh, reload ── take over or make a segment ── place ── acknowledge
//!     │                                        └── seal others ──┐
//!     └── collect: lock, look, pack, load, announce, link, unlink ┴──> the newest manifest
//! ```
//!
//! A store is a few bits here: the operations of each segment, the newest manifest, the epoch, and
//! the view of each handle. Every step is one that the code of `core/src/store` takes atomically
//! from the view of other processes: one look at the epoch, one manifest loaded or linked, one
//! section under the ref lock. [`explore`] takes all steps in all orders, breadth first, with
//! processes that may end at any of them, and checks in every reachable state:
//!
//! 1. does a handle that opens the store now see every operation, in one chain, with the content of
//!    each in a file that is read?
//! 2. is every operation in a file that the newest manifest lists (sealed, packed, retired) in the
//!    refs of that manifest?
//!
//! [`Rules`] lists the guards of the code. With all of them both hold. Without a guard that is
//! needed, exploration finds a [`Lost`]: the shortest way to lose something.
//!
//! The model is coarser than the code, but never safer:
//!
//! - Machines do not crash (the layer `crashes` does that), so an operation is promised as soon as
//!   it is written, earlier than it is acknowledged. Its index is no separate step: no other
//!   process writes to a locked segment.
//! - The code chooses by numbers which idle segment a writer takes, and when it seals one. In the
//!   model it may take any, and seal any.
//! - Reading all segments is one step. The code may find a child before its parent; the model
//!   covers this too, since a locked segment is read alone. Files that have lost their names are
//!   not read, so a handle sees less than in the code.
//! - A pack is the set of operations in it, and every collection replaces all packs, so two packs
//!   are one. Content that a collection frees on purpose, damage, and threads that share a handle
//!   are left out.

mod canonical;
mod handles;
mod invariants;
mod state;
mod steps;

use std::collections::{HashSet, VecDeque};
use std::fmt;

pub use self::state::{Sizes, State};
pub use self::steps::Step;

/// The guards that keep operations from being lost. `false` removes a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A commit is placed only if the epoch is that of its view.
    pub place_checks_epoch: bool,
    /// A commit reads and writes under one ref lock.
    pub place_under_ref_lock: bool,
    /// A search for a segment skips those that the manifest lists as retired.
    pub retired_are_refused: bool,
    /// Sealing from a view of another epoch is refused.
    pub seal_checks_epoch: bool,
    /// A process reads all segments before it seals one.
    pub seal_reads_everything: bool,
    /// A sealed segment is published from one view, under the ref lock.
    pub seal_under_ref_lock: bool,
    /// A generation is taken once: a manifest built on an older one is rebuilt.
    pub generations_are_taken_once: bool,
    /// The refs of a manifest are never older than those of its predecessor.
    pub refs_are_max: bool,
    /// A collection replaces only segments whose locks it holds.
    pub collection_locks: bool,
    /// The epoch changes before a manifest without the replaced files is linked.
    pub announced_before: bool,
    /// The epoch also changes after it.
    pub announced_after: bool,
    /// A reader of an odd epoch waits for the ref lock, and then looks.
    pub odd_epoch_waits: bool,
}

impl Rules {
    /// All guards.
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

/// The size of an exploration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Explored {
    /// States. Equivalent states count once.
    pub states: usize,
    /// Steps between states.
    pub steps: usize,
    /// Steps to the most distant state.
    pub depth: usize,
    /// States in which the manifest lists a sealed segment.
    pub sealed: usize,
    /// States after the last collection.
    pub collected: usize,
}

/// A shortest way to a state in which something is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The loss.
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
/// The first loss found. No other is shorter.
///
/// # Panics
/// If there are more states than numbers for them.
pub fn explore(sizes: &Sizes, rules: &Rules) -> Result<Explored, Box<Lost>> {
    let mut explored = Explored::default();
    // The predecessor of each state, and the step from it.
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
