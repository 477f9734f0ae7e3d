//! Measures a session by the size of a pack of its contexts, commits and operations, compressed as
//! in the store.
//!
//! ```text
//!  turns that stay ──> their contexts ─────────┐
//!  commits of the session ──> not forgotten ───┼──> a pack in memory ──> its bytes, with parity
//!  operations and refs of it, or of no one ────┘
//! ```
//!
//! The pack holds this session alone, and objects that belong to no session. So content that two
//! sessions share counts in full for each, and the size does not depend on the current layout: the
//! same turns fit, whatever was packed before.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::Result;
use crate::maintenance::keep::fit::{Cost, PricedTurn};
use crate::maintenance::keep::forget_choice::choose_forgotten_of;
use crate::maintenance::keep::roots::{Reason, Roots};
use crate::maintenance::mark::cohorts::Cohorts;
use crate::maintenance::mark::marker::Marker;
use crate::maintenance::mark::pack_order::arrange;
use crate::object::{Kind, ObjectId, ObjectSource, Operation};
use crate::repo::{BranchName, ForgottenSession};
use crate::store::{Inventory, PackItem, ParityShare, Tier, Tombstone};

/// Contexts per round of the mark.
const TURNS_PER_ROUND: usize = 256;

/// The maximum number of bytes of objects that are compressed as one pack to measure them. More are
/// measured in parts of this size, compacted: an archive of them takes minutes to make.
pub(in crate::maintenance) const MAX_RAW_BYTES: u64 = 256 << 20;

/// The size of a session, in bytes of objects, up to which the last turn that fits is found
/// exactly, in four or five more measurements.
const MAX_EXACT_BYTES: u64 = 16 << 20;

/// A larger session may end below its budget by this fraction of it (1/50).
const TOLERANCE_PARTS: u64 = 50;

/// A step that finds a session over its budget elides turns until this fraction of the budget (1/8)
/// is free, since each such step costs a mark and several measurements.
const ROOM_PARTS: u64 = 8;

/// Settling a store leaves this fraction of a budget (1/12) free, for files other than packs.
const OTHER_FILES_PARTS: u64 = 12;

/// A step, and settling, may end below the target by this fraction of the budget (1/32).
const STEP_TOLERANCE_PARTS: u64 = 32;

/// A step elides turns only while at most this fraction of the budget (1/8) is in no pack yet.
const UNPACKED_PARTS: u64 = 8;

/// The maximum size of an object or tombstone besides its content, in bytes.
const ENTRY_BYTES: u64 = 70;

/// The approximate size of a pack besides its objects, in bytes.
const PACK_BYTES: u64 = 4096;

/// The sessions to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::maintenance) enum MeasuredSessions {
    /// All sessions: the caller reports the size of each.
    All,
    /// Sessions that may be over their budgets.
    Doubtful,
    /// Sessions over their budgets by the sizes that packs record. A step compresses nothing to
    /// measure a session.
    Step,
    /// Like `Step`, when a store is settled.
    Settle,
}

impl MeasuredSessions {
    /// Returns the bytes that a session may take by the sizes that packs record before its budget
    /// applies; `None` if sessions are compressed to measure them.
    fn allowed(self, budget: u64) -> Option<u64> {
        match self {
            Self::All | Self::Doubtful => None,
            Self::Step => Some(budget),
            Self::Settle => Some(self.target(budget)),
        }
    }

    /// Returns the size to which a session over its budget is reduced, in bytes.
    fn target(self, budget: u64) -> u64 {
        match self {
            Self::Step => budget - budget / ROOM_PARTS,
            Self::Settle => budget - budget / OTHER_FILES_PARTS,
            Self::All | Self::Doubtful => budget,
        }
    }
}

/// Measures sessions of an inventory.
pub(in crate::maintenance) struct PackedCost<'a> {
    inventory: &'a Inventory<'a>,
    roots: &'a Roots,
    measure: MeasuredSessions,
    tier: Tier,
    /// Filled in by the first session.
    common: Option<SharedPart>,
    session: Session,
    /// Uncompressed and stored bytes by position, cached on demand.
    sizes: HashMap<usize, (u64, u64)>,
}

/// The part that is the same for all sessions.
struct SharedPart {
    /// The parity of packs.
    parity: Option<ParityShare>,
    /// The kept operations, and the names of the refs that each changes.
    operations: Vec<(ObjectId, Vec<String>)>,
}

/// The part that does not depend on the choice of turns.
#[derive(Default)]
struct Session {
    /// The uncompressed bytes of the session before any turn is elided.
    raw_bytes: u64,
    /// The commits of the session, with their trees and turns.
    commits: Vec<(ObjectId, ObjectId, u64)>,
    tips: HashSet<ObjectId>,
    /// Objects and operations that count with the session.
    single: Vec<ObjectId>,
    /// Objects that count with everything reachable from them.
    whole: Vec<ObjectId>,
}

/// The content of a pack of the session.
struct SessionPack<'a> {
    marker: Marker<'a>,
    /// Ids for which the pack has tombstones.
    gone: Vec<(ObjectId, Kind, Tombstone)>,
    /// The round of the newest contexts.
    now_round: u32,
}

impl<'a> PackedCost<'a> {
    pub(in crate::maintenance) fn new(
        inventory: &'a Inventory<'a>,
        roots: &'a Roots,
        measure: MeasuredSessions,
    ) -> Self {
        let tiers = inventory.files().iter().filter_map(|file| file.tier);
        Self {
            inventory,
            roots,
            measure,
            tier: tiers.max().unwrap_or(Tier::Compacted).max(Tier::Compacted),
            common: None,
            session: Session::default(),
            sizes: HashMap::new(),
        }
    }

    fn shared_part(&mut self) -> Result<&SharedPart> {
        let common = match self.common.take() {
            Some(common) => common,
            None => {
                let operations = self.roots.operations.iter().map(|id| {
                    let bytes = self.inventory.read_as(Kind::Operation, id)?;
                    let operation = Operation::decode(&bytes).map_err(|error| error.at(id))?;
                    Ok((*id, operation.changes.into_iter().map(|change| change.name).collect()))
                });
                let operations = operations.collect::<Result<_>>()?;
                SharedPart { parity: self.inventory.parity_share(self.tier)?, operations }
            }
        };
        Ok(self.common.insert(common))
    }

    fn parity_bytes(&mut self, bytes: u64) -> Result<u64> {
        Ok(self.shared_part()?.parity.map_or(0, |share| share.parity_bytes(bytes)))
    }

    fn session(&mut self, name: &str) -> Result<Session> {
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
        // Objects that belong to no session count for each session, without the objects that they
        // reference.
        let is_counted = |name: &str| ForgottenSession::session_of_ref(name).is_none_or(is_own);
        for (id, reason) in &roots.objects {
            match reason {
                Reason::Ref(name) if ForgottenSession::session_of_ref(name).is_some_and(is_own) => {
                    session.whole.push(*id);
                }
                Reason::Ref(name) | Reason::Policy(name) if !is_counted(name) => {}
                _ => session.single.push(*id),
            }
        }
        let operations = &self.shared_part()?.operations;
        let own = operations.iter().filter(|(_, names)| names.iter().any(|it| is_counted(it)));
        session.single.extend(own.map(|(id, _)| *id));
        Ok(session)
    }

    /// Marks everything that a pack of the session holds.
    fn mark_session(&self, kept: &[PricedTurn]) -> Result<SessionPack<'a>> {
        let mut marker = Marker::new(self.inventory, Arc::clone(&self.roots.holes));
        let session = &self.session;
        let is_there = |id: &ObjectId| self.inventory.find(id).is_some();
        let tips = kept.iter().filter(|turn| session.tips.contains(&turn.commit));
        let tips: Vec<ObjectId> = tips.map(|turn| turn.tree).collect();
        let now_round = marker.begin_round();
        marker.mark_contexts(&tips)?;
        let stays: HashSet<ObjectId> = kept.iter().map(|turn| turn.commit).collect();
        let trees: HashSet<ObjectId> = kept.iter().map(|turn| turn.tree).collect();
        let expired = session.commits.iter().filter(|(id, ..)| !stays.contains(id));
        let expired: Vec<(u64, ObjectId)> = expired.map(|(id, _, turn)| (*turn, *id)).collect();
        let forgotten = choose_forgotten_of(self.roots, expired);
        let commits = session.commits.iter().filter(|(id, ..)| !forgotten.contains(id));
        marker.mark(commits.clone().map(|(id, ..)| *id))?;
        marker.mark(session.single.iter().copied().filter(is_there))?;
        marker.mark(session.whole.iter().copied().filter(is_there))?;
        for turns in kept.chunks(TURNS_PER_ROUND) {
            marker.begin_round();
            let trees: Vec<ObjectId> = turns.iter().map(|turn| turn.tree).collect();
            marker.mark_contexts(&trees)?;
        }
        marker.begin_round();
        let whole: Vec<ObjectId> = session.whole.iter().copied().filter(is_there).collect();
        marker.mark_closure(self.inventory, &whole)?;
        let gone = commits.filter(|(id, tree, _)| !stays.contains(id) && !trees.contains(tree));
        let mut gone: Vec<_> =
            gone.map(|(_, tree, _)| (*tree, Kind::Node, Tombstone::Elided)).collect();
        gone.sort_unstable_by_key(|(tree, ..)| *tree);
        gone.dedup_by_key(|(tree, ..)| *tree);
        // A subtree of a kept context may be the whole context of an elided turn.
        gone.retain(|(tree, ..)| !self.inventory.find(tree).is_some_and(|at| marker.is_marked(at)));
        Ok(SessionPack { marker, gone, now_round })
    }

    /// Returns the uncompressed and the stored bytes of an object.
    fn sizes(&mut self, position: usize) -> Result<(u64, u64)> {
        if let Some(known) = self.sizes.get(&position) {
            return Ok(*known);
        }
        let (raw, stored) = self.inventory.sizes(position)?.unwrap_or_default();
        let sizes = (raw.into(), stored);
        self.sizes.insert(position, sizes);
        Ok(sizes)
    }

    /// Returns the bytes of all packs.
    fn packed_bytes(&self) -> u64 {
        let packs = self.inventory.files().iter().filter(|file| file.tier.is_some());
        packs.map(|file| file.bytes).sum()
    }

    /// Returns the bytes of marked objects that are in no pack.
    fn unpacked_bytes(&self, marker: &Marker<'_>) -> u64 {
        let entries = marker
            .marked()
            .iter()
            .filter_map(|marked| self.inventory.entry(marked.position as usize));
        let is_unpacked =
            |file: usize| self.inventory.files().get(file).is_some_and(|file| file.tier.is_none());
        entries.filter(|entry| is_unpacked(entry.file)).map(|entry| entry.stored_bytes).sum()
    }

    /// Splits the items into parts of at most [`MAX_RAW_BYTES`], or of one item.
    fn parts<'i>(&mut self, items: &'i [PackItem]) -> Result<Vec<&'i [PackItem]>> {
        let (mut parts, mut from, mut bytes) = (Vec::new(), 0, 0);
        for (at, item) in items.iter().enumerate() {
            let position = self.inventory.find(&item.id);
            let own = position.map_or(Ok(0), |position| self.sizes(position).map(|it| it.0))?;
            if bytes + own > MAX_RAW_BYTES && at > from {
                parts.extend(items.get(from..at));
                (from, bytes) = (at, 0);
            }
            bytes += own;
        }
        parts.extend(items.get(from..).filter(|rest| !rest.is_empty()));
        Ok(parts)
    }

    /// Returns the uncompressed and the stored bytes of all marked objects.
    fn sums(&mut self, marker: &Marker<'_>) -> Result<(u64, u64)> {
        let mut positions: Vec<u32> =
            marker.marked().iter().map(|marked| marked.position).collect();
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
        let allowed = self.measure.allowed(budget);
        if allowed.is_some_and(|allowed| self.packed_bytes() <= allowed) {
            return Ok(false);
        }
        self.session = self.session(session)?;
        let marker = self.mark_session(kept)?.marker;
        if let Some(allowed) = allowed {
            // Unpacked objects take several times more, and must not cause turns to be elided.
            if self.unpacked_bytes(&marker) > budget / UNPACKED_PARTS {
                return Ok(false);
            }
            let (raw, lies) = self.sums(&marker)?;
            self.session.raw_bytes = raw;
            return Ok(lies > allowed);
        }
        let (raw, _) = self.sums(&marker)?;
        self.session.raw_bytes = raw;
        let most = raw + marker.marked().len() as u64 * ENTRY_BYTES + PACK_BYTES;
        let most = most + self.parity_bytes(most)?;
        Ok(self.measure == MeasuredSessions::All || most > budget)
    }

    fn bytes(&mut self, kept: &[PricedTurn]) -> Result<u64> {
        let SessionPack { marker, gone, now_round } = self.mark_session(kept)?;
        let (raw, lies) = self.sums(&marker)?;
        if self.measure.allowed(0).is_some() {
            let bytes = lies + gone.len() as u64 * ENTRY_BYTES;
            return Ok(bytes + self.parity_bytes(bytes)?);
        }
        let tier = if raw > MAX_RAW_BYTES { Tier::Compacted } else { self.tier };
        let files: Vec<usize> = (0..self.inventory.files().len()).collect();
        let kept = kept.iter().map(|turn| turn.commit);
        let cohorts = Cohorts::find(self.inventory, self.roots, kept, tier)?;
        let items = arrange(self.inventory, &marker, &files, now_round, tier, &cohorts);
        let (mut bytes, mut gone) = (0, gone.as_slice());
        for part in self.parts(&items)? {
            bytes += self.inventory.pack_size(part, gone, tier)?;
            gone = &[];
        }
        if !gone.is_empty() {
            bytes += self.inventory.pack_size(&[], gone, tier)?;
        }
        Ok(bytes + self.parity_bytes(bytes)?)
    }

    fn weights(&mut self, kept: &[PricedTurn]) -> Result<Vec<u64>> {
        let mut marker = Marker::new(self.inventory, Arc::clone(&self.roots.holes));
        let mut counted = 0;
        let mut weights = Vec::with_capacity(kept.len());
        for turn in kept {
            marker.mark_contexts(std::slice::from_ref(&turn.tree))?;
            let added: Vec<u32> =
                marker.marked().iter().skip(counted).map(|marked| marked.position).collect();
            counted = marker.marked().len();
            let mut weight = 0;
            for position in added {
                weight += self.sizes(position as usize)?.0 + ENTRY_BYTES;
            }
            weights.push(weight);
        }
        Ok(weights)
    }

    fn target(&self, budget: u64) -> u64 {
        self.measure.target(budget)
    }

    fn tolerance(&self, budget: u64) -> u64 {
        if self.measure.allowed(budget).is_some() {
            return budget / STEP_TOLERANCE_PARTS;
        }
        if self.session.raw_bytes <= MAX_EXACT_BYTES { 0 } else { budget / TOLERANCE_PARTS }
    }
}
