//! Computes statistics: the bytes of a store by session and section, and the bytes that full copies
//! would take.
//!
//! ```text
//! every context, newest first ──> each object once: whose it is, in which section
//!                             └─> each node once:   what a full copy below it would take
//! ```
//!
//! An object belongs to the oldest session that has it, and counts as shared if other sessions have
//! it too. The size of a full copy of a context is summed up over the tree: the size of a node is
//! the sum over its children and is computed once, however many contexts have the node. So ten
//! thousand contexts cost only the nodes in which they differ.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::maintenance::collect::collection::{files_of_gc, mark};
use crate::maintenance::collection_plan::Purpose;
use crate::maintenance::expire::plan_turns::plan_turns;
use crate::maintenance::keep::parity_policy::parity_policy;
use crate::maintenance::keep::roots::Roots;
use crate::maintenance::mark::marker::Marker;
use crate::maintenance::measure::context_sizes::{ContextSizes, sizes};
use crate::maintenance::measure::usage::Stats;
use crate::object::Time;
use crate::repo::Repository;
use crate::store::StoreSummary;

/// Measures the bytes of a store, or of one `session` if it is given, at the moment `now`. Writes
/// nothing, takes no lasting lock, and runs concurrently with writers and collections.
///
/// Reads every node, reads again the nodes that sessions share and the nodes that stay while turns
/// expire, and looks at the blocks of every pack. Takes some 100 bytes of memory per object,
/// whatever the size of the files.
///
/// # Errors
/// `NotFound` when the session does not exist, `Corrupt` when a required object is missing.
pub fn stats(repo: &Repository, session: Option<&str>, now: Time) -> Result<Stats> {
    let inventory = repo.store().inventory()?;
    // Independent of each other, so both run in parallel.
    let find = || Roots::find(&inventory, inventory.refs(), now.micros);
    let (roots, sizes) = rayon::join(find, || sizes(&inventory));
    let roots = roots?;
    let graph = &roots.graph;
    if let Some(name) = session.filter(|name| graph.session_number(name).is_none()) {
        return Err(Error::not_found(format!("there is no session '{name}' with a snapshot")));
    }
    let retention = plan_turns(&inventory, &roots, Purpose::Gc, now)?;
    let mut tally = ContextSizes::new(&inventory, graph, sizes?)?;
    // Runs on a thread of the pool: any other thread would sleep and wake for each level of each
    // round.
    rayon::scope(|_| tally.sessions(session))?;
    let mut marker = Marker::new(&inventory, Arc::clone(&roots.holes));
    if retention.elided.is_empty() {
        // Every context stays, so the marker need not walk again the nodes that the tally has
        // walked.
        marker.assume_marked(&tally.walked_positions());
    }
    mark(&mut marker, &inventory, &roots, &retention)?;
    marker.begin_round();
    marker.mark_possible_children(&|_| true)?;
    let files = files_of_gc(&inventory, &marker, &retention);
    let live = marker.into_live();
    tally.count_copies();
    for turn in &retention.elided {
        tally.update_session(&turn.session, |stats| stats.expiring += 1);
    }
    for (branch, _) in repo.branches() {
        tally.update_session(branch.session(), |stats| stats.branches += 1);
    }
    for pin in repo.pins()?.iter().filter(|pin| !pin.has_expired(now.micros)) {
        let commit = graph.find(&pin.commit).and_then(|at| graph.commits().get(at));
        let named = commit.and_then(|commit| graph.sessions().get(commit.session));
        tally.update_session(named.map_or("", String::as_str), |stats| stats.pins += 1);
    }
    let StoreSummary { parity_bytes, derived_bytes, ids_bytes, .. } = repo.store().summary()?;
    let history_index_bytes = derived_bytes - ids_bytes;
    let parity_policy = parity_policy(repo)?;
    Ok(Stats {
        parity_bytes,
        history_index_bytes,
        ids_bytes,
        parity_policy,
        ..tally.finish(&live, files, session)
    })
}
