//! What a session takes in a pack: its contexts, commits and operations, compressed as they will be.
//!
//! ```text
//!  turns that stay ──> their contexts ─────────┐
//!  commits of the session ──> not forgotten ───┼──> a pack in memory ──> its bytes, with parity
//!  operations and refs of it, or of no one ────┘
//! ```
//!
//! The pack is made of this session alone, and of what belongs to no session. So what two sessions
//! share counts in full for each, and the size says nothing of how anything lies now: the same turns
//! fit whatever was packed before.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::collection_plan::Purpose;
use super::fit::{Cost, PricedTurn};
use super::forget_choice::choose_forgotten_of;
use super::layout::arrange;
use super::mark::Marker;
use super::roots::{Reason, Roots};
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource, Operation};
use crate::repo::{BranchName, ForgottenSession};
use crate::store::{Inventory, Tier, Tombstone};

/// Contexts that are met in one round.
const TURNS_PER_ROUND: usize = 256;

/// Most bytes of objects that are compressed to measure them. More count as they lie: almost all of
/// them are packed.
pub(super) const MAX_RAW_BYTES: u64 = 256 << 20;

/// Most bytes of objects of a session for which the last turn is found that fits: four or five
/// measurements more.
const MAX_EXACT_BYTES: u64 = 16 << 20;

/// A larger one may end below its budget by one part in so many.
const TOLERANCE_PARTS: u64 = 50;

/// A step lets turns go only when what lies there is over the budget by one part in so many.
const SLACK_PARTS: u64 = 4;

/// About what a gone id takes.
const GONE_BYTES: u64 = 70;

/// Measures sessions of an inventory.
pub(super) struct PackedCost<'a> {
    inventory: &'a Inventory<'a>,
    roots: &'a Roots,
    /// True for what runs by itself, and looks closely only when much is to be gained.
    is_step: bool,
    tier: Tier,
    session: Session,
    /// Own bytes and those on disk of every position, once they are asked for.
    sizes: HashMap<usize, (u64, u64)>,
}

/// What does not depend on which turns stay.
#[derive(Default)]
struct Session {
    /// The own bytes of everything in it before any turn goes.
    raw_bytes: u64,
    /// Its commits, with their trees and turns.
    commits: Vec<(ObjectId, ObjectId, u64)>,
    tips: HashSet<ObjectId>,
    /// Objects and operations that are counted with it.
    single: Vec<ObjectId>,
    /// Objects that are counted with what they lead to.
    whole: Vec<ObjectId>,
}

/// What a pack of the session would have.
struct SessionPack<'a> {
    marker: Marker<'a>,
    /// Ids that it answers for without having them.
    gone: Vec<(ObjectId, Kind, Tombstone)>,
    /// The round of the newest contexts.
    now_round: u32,
}

impl<'a> PackedCost<'a> {
    pub(super) fn new(inventory: &'a Inventory<'a>, roots: &'a Roots, purpose: Purpose) -> Self {
        let tiers = inventory.files().iter().filter_map(|file| file.tier);
        Self {
            inventory,
            roots,
            is_step: purpose == Purpose::Step,
            tier: tiers.max().unwrap_or(Tier::Compacted).max(Tier::Compacted),
            session: Session::default(),
            sizes: HashMap::new(),
        }
    }

    fn session(&self, name: &str) -> Result<Session> {
        let (roots, graph) = (self.roots, &self.roots.graph);
        let is_own = |session: &str| session == name;
        let number = graph.sessions().iter().position(|session| is_own(session));
        let commits = graph.commits().iter().filter(|commit| Some(commit.session) == number);
        let mut session = Session {
            commits: commits.map(|commit| (commit.id, commit.tree, commit.turn)).collect(),
            ..Session::default()
        };
        for (id, reasons) in &roots.commits {
            let is_tip = |reason: &Reason| match reason {
                Reason::Branch(branch) => {
                    branch.parse().is_ok_and(|branch: BranchName| is_own(branch.session()))
                }
                _ => false,
            };
            if reasons.iter().any(is_tip) {
                session.tips.insert(*id);
            }
        }
        // What belongs to no session counts for each, but for what it leads to.
        let is_counted = |name: &str| ForgottenSession::of_ref(name).is_none_or(is_own);
        for (id, reason) in &roots.objects {
            match reason {
                Reason::Ref(name) if ForgottenSession::of_ref(name).is_some_and(is_own) => {
                    session.whole.push(*id);
                }
                Reason::Ref(name) | Reason::Policy(name) if !is_counted(name) => {}
                _ => session.single.push(*id),
            }
        }
        for id in &roots.operations {
            let bytes = self.inventory.read_as(Kind::Operation, id)?;
            let operation = Operation::decode(&bytes).map_err(|error| error.at(id))?;
            if operation.changes.iter().any(|change| is_counted(&change.name)) {
                session.single.push(*id);
            }
        }
        Ok(session)
    }

    /// Meets everything that a pack of the session would have.
    fn meet(&self, kept: &[PricedTurn]) -> Result<SessionPack<'a>> {
        let mut marker = Marker::new(self.inventory, Arc::clone(&self.roots.holes));
        let session = &self.session;
        let is_there = |id: &ObjectId| self.inventory.find(id).is_some();
        let tips = kept.iter().filter(|turn| session.tips.contains(&turn.commit));
        let tips: Vec<ObjectId> = tips.map(|turn| turn.tree).collect();
        let now_round = marker.begin_round();
        marker.meet_contexts(&tips)?;
        let stays: HashSet<ObjectId> = kept.iter().map(|turn| turn.commit).collect();
        let trees: HashSet<ObjectId> = kept.iter().map(|turn| turn.tree).collect();
        let expired = session.commits.iter().filter(|(id, ..)| !stays.contains(id));
        let expired: Vec<(u64, ObjectId)> = expired.map(|(id, _, turn)| (*turn, *id)).collect();
        let forgotten = choose_forgotten_of(self.roots, expired);
        let commits = session.commits.iter().filter(|(id, ..)| !forgotten.contains(id));
        marker.meet(commits.clone().map(|(id, ..)| *id))?;
        marker.meet(session.single.iter().copied().filter(is_there))?;
        marker.meet(session.whole.iter().copied().filter(is_there))?;
        for turns in kept.chunks(TURNS_PER_ROUND) {
            marker.begin_round();
            let trees: Vec<ObjectId> = turns.iter().map(|turn| turn.tree).collect();
            marker.meet_contexts(&trees)?;
        }
        marker.begin_round();
        let whole: Vec<ObjectId> = session.whole.iter().copied().filter(is_there).collect();
        marker.meet_closure(self.inventory, &whole)?;
        let gone = commits.filter(|(id, tree, _)| !stays.contains(id) && !trees.contains(tree));
        let mut gone: Vec<_> =
            gone.map(|(_, tree, _)| (*tree, Kind::Node, Tombstone::Elided)).collect();
        gone.sort_unstable_by_key(|(tree, ..)| *tree);
        gone.dedup_by_key(|(tree, ..)| *tree);
        // A part of a context that stays may be the whole of one that went.
        gone.retain(|(tree, ..)| !self.inventory.find(tree).is_some_and(|at| marker.is_met(at)));
        Ok(SessionPack { marker, gone, now_round })
    }

    /// The own bytes of an object, and those it takes on disk.
    fn sizes(&mut self, position: usize) -> Result<(u64, u64)> {
        if let Some(known) = self.sizes.get(&position) {
            return Ok(*known);
        }
        let (raw, stored) = self.inventory.sizes(position)?.unwrap_or_default();
        let sizes = (raw.into(), stored);
        self.sizes.insert(position, sizes);
        Ok(sizes)
    }

    /// The own bytes of everything that was met, and those it takes on disk.
    fn sums(&mut self, marker: &Marker<'_>) -> Result<(u64, u64)> {
        let mut positions: Vec<u32> = marker.met().iter().map(|met| met.position).collect();
        // In order, so that each block is decoded once.
        positions.sort_unstable();
        let mut sums = (0_u64, 0_u64);
        for position in positions {
            let (raw, stored) = self.sizes(position as usize)?;
            sums = (sums.0 + raw, sums.1 + stored);
        }
        Ok(sums)
    }
}

impl Cost for PackedCost<'_> {
    fn begin(&mut self, session: &str, kept: &[PricedTurn], budget: u64) -> Result<bool> {
        self.session = self.session(session)?;
        let (raw, lies) = self.sums(&self.meet(kept)?.marker)?;
        self.session.raw_bytes = raw;
        Ok(!self.is_step || lies > budget.saturating_add(budget / SLACK_PARTS))
    }

    fn bytes(&mut self, kept: &[PricedTurn]) -> Result<u64> {
        let SessionPack { marker, gone, now_round } = self.meet(kept)?;
        let (raw, lies) = self.sums(&marker)?;
        if raw > MAX_RAW_BYTES {
            return Ok(lies + gone.len() as u64 * GONE_BYTES);
        }
        let files: Vec<usize> = (0..self.inventory.files().len()).collect();
        let items = arrange(self.inventory, &marker, &files, now_round, self.tier);
        if items.is_empty() && gone.is_empty() {
            return Ok(0);
        }
        Ok(self.inventory.pack_size(&items, &gone, self.tier)?.bytes)
    }

    fn weights(&mut self, kept: &[PricedTurn]) -> Result<Vec<u64>> {
        let mut marker = Marker::new(self.inventory, Arc::clone(&self.roots.holes));
        let mut counted = 0;
        let mut weights = Vec::with_capacity(kept.len());
        for turn in kept {
            marker.meet_contexts(std::slice::from_ref(&turn.tree))?;
            let added: Vec<u32> =
                marker.met().iter().skip(counted).map(|met| met.position).collect();
            counted = marker.met().len();
            let mut weight = 0;
            for position in added {
                weight += self.sizes(position as usize)?.0 + GONE_BYTES;
            }
            weights.push(weight);
        }
        Ok(weights)
    }

    fn tolerance(&self, budget: u64) -> u64 {
        if self.session.raw_bytes <= MAX_EXACT_BYTES { 0 } else { budget / TOLERANCE_PARTS }
    }
}
