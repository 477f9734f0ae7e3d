//! Statistics: where the bytes of a store are, and what they would be without it.
//!
//! ```text
//! every context, newest first ──> each object once: whose it is, in which section
//!                             └─> each node once:   what a full copy below it would take
//! ```
//!
//! An object belongs to the session that began first; that others have it too is counted as shared.
//! What a full copy of a context would take is summed up over the tree: a node takes what its children
//! take, however many contexts it is in, so that ten thousand contexts cost no more than the nodes in
//! which they differ.

use std::sync::Arc;

use super::collect::{files_of_gc, mark};
use super::collection_plan::Purpose;
use super::mark::Marker;
use super::parity_policy::parity_policy;
use super::plan_turns::plan_turns;
use super::roots::Roots;
use super::tally::{Tally, sizes};
use super::usage::Stats;
use crate::error::{Error, Result};
use crate::object::Time;
use crate::repo::Repository;
use crate::store::StoreSummary;

/// Looks where the bytes are, at the moment `now`; of one `session`, if it is named. Writes nothing,
/// takes no lock that lasts, and works while others write and collect.
///
/// Costs a read of every node, another one of what sessions share and of what is kept while turns expire,
/// and a look at every pack's blocks; some 100 bytes of memory for each object, whatever the files take.
///
/// # Errors
/// `NotFound` when there is no such session, `Corrupt` when something that must be there is not.
pub fn stats(repo: &Repository, session: Option<&str>, now: Time) -> Result<Stats> {
    let inventory = repo.store().inventory()?;
    // Neither needs the other.
    let find = || Roots::find(&inventory, inventory.refs(), now.micros);
    let (roots, sizes) = rayon::join(find, || sizes(&inventory));
    let roots = roots?;
    let graph = &roots.graph;
    if let Some(name) = session.filter(|name| graph.session_number(name).is_none()) {
        return Err(Error::not_found(format!("there is no session '{name}' with a snapshot")));
    }
    let retention = plan_turns(&inventory, &roots, Purpose::Gc, now)?;
    let mut tally = Tally::new(&inventory, graph, sizes?)?;
    // On a thread of the pool: another one would sleep and be woken for each level of each round.
    rayon::scope(|_| tally.sessions(session))?;
    let mut marker = Marker::new(&inventory, Arc::clone(&roots.holes));
    if retention.elided.is_empty() {
        // Every context stays, so what the tally has walked need not be walked once more.
        marker.know(&tally.walked());
    }
    mark(&mut marker, &inventory, &roots, &retention)?;
    marker.begin_round();
    marker.meet_kept(&|_| true)?;
    let files = files_of_gc(&inventory, &marker, &retention);
    let live = marker.into_live();
    tally.count_copies();
    for turn in &retention.elided {
        tally.change(&turn.session, |stats| stats.expiring += 1);
    }
    for (branch, _) in repo.branches() {
        tally.change(branch.session(), |stats| stats.branches += 1);
    }
    for pin in repo.pins()?.iter().filter(|pin| !pin.has_expired(now.micros)) {
        let commit = graph.find(&pin.commit).and_then(|at| graph.commits().get(at));
        let named = commit.and_then(|commit| graph.sessions().get(commit.session));
        tally.change(named.map_or("", String::as_str), |stats| stats.pins += 1);
    }
    let StoreSummary { parity_bytes, derived_bytes, ids_bytes, .. } = repo.store().summary()?;
    let history_index_bytes = derived_bytes - ids_bytes;
    let parity_policy = parity_policy(repo.store())?;
    Ok(Stats {
        parity_bytes,
        history_index_bytes,
        ids_bytes,
        parity_policy,
        ..tally.finish(&live, files, session)
    })
}
