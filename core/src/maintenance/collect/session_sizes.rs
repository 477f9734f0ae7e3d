//! Measures sessions: the bytes that each adds to everything that stays without it.
//!
//! Sessions share content, so the size of one depends on the order. Everything that is kept without
//! the given sessions is counted first, then these sessions one after another. Deleting the last
//! sessions of the order frees their bytes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::Result;
use crate::maintenance::budget_plan::SessionSize;
use crate::maintenance::collection_plan::{ObjectsSize, Purpose};
use crate::maintenance::expire::packed_cost::MAX_RAW_BYTES;
use crate::maintenance::expire::plan_turns::plan_turns;
use crate::maintenance::keep::roots::{ForgottenContent, Reason, Roots};
use crate::maintenance::mark::cohorts::Cohorts;
use crate::maintenance::mark::marker::Marker;
use crate::maintenance::mark::pack_order::arrange;
use crate::object::{ObjectId, Time};
use crate::repo::{BranchName, ForgottenSession, Repository, forgotten_through, remote_branch};
use crate::store::{Inventory, Tier};

/// The sizes of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSizes {
    /// Everything that stays without the given sessions.
    pub rest: ObjectsSize,
    /// The given sessions, in the given order.
    pub sessions: Vec<SessionSize>,
    /// Content that only forgotten sessions hold and that is not freed yet.
    pub leaving: ObjectsSize,
}

/// Measures sessions at the moment `now`, in this order: the bytes that each adds to everything
/// else and to the sessions before it. Expired turns, and turns that expire with the next
/// collection, count with their commits only.
///
/// Reads every node that is kept, as a collection does.
///
/// # Errors
/// `Corrupt` when a required object is missing, and errors of reading.
pub fn measure_sessions(repo: &Repository, order: &[String], now: Time) -> Result<SessionSizes> {
    let inventory = repo.store().inventory()?;
    let mut survey = Survey::new(repo, &inventory, order, now)?;
    let groups = survey.mark_groups()?;
    let lies = |at: usize| Ok(inventory.entry(at).map_or(0, |entry| entry.stored_bytes));
    survey.sizes(order, &groups, &lies)
}

/// Measures sessions as if the store was packed into one pack, with ids and index. Bytes of the
/// pack that belong to no object count as shared. A store with more than 256 MiB of content is
/// measured by its current sizes.
///
/// Takes the time to pack the store in memory.
///
/// # Errors
/// Errors of [`measure_sessions`].
pub(super) fn measure_packed_sessions(
    repo: &Repository,
    order: &[String],
    now: Time,
) -> Result<SessionSizes> {
    let inventory = repo.store().inventory()?;
    let mut survey = Survey::new(repo, &inventory, order, now)?;
    let groups = survey.mark_groups()?;
    let mut raw_bytes = 0_u64;
    for marked in survey.marker.marked() {
        raw_bytes += inventory.sizes(marked.position as usize)?.map_or(0, |(raw, _)| raw.into());
    }
    if raw_bytes > MAX_RAW_BYTES {
        let lies = |at: usize| Ok(inventory.sizes(at)?.map_or(0, |(_, stored)| stored));
        return survey.sizes(order, &groups, &lies);
    }
    let tiers = inventory.files().iter().filter_map(|file| file.tier);
    let tier = tiers.max().unwrap_or(Tier::Compacted).max(Tier::Compacted);
    let files: Vec<usize> = (0..inventory.files().len()).collect();
    let kept = survey.kept.iter().copied();
    let cohorts = Cohorts::find(&inventory, &survey.all, kept, tier)?;
    let items = arrange(&inventory, &survey.marker, &files, 0, tier, &cohorts);
    if items.is_empty() {
        return Ok(SessionSizes::default());
    }
    let size = inventory.pack_item_sizes(&items, tier)?;
    let parity = inventory.parity_share(tier)?.map_or(0, |share| share.parity_bytes(size.bytes));
    let parts =
        size.items.iter().map(|bytes| bytes + proportional_share(parity, *bytes, size.bytes));
    let of_items: HashMap<ObjectId, u64> = items.iter().map(|item| item.id).zip(parts).collect();
    let packed = |at: usize| {
        let entry = inventory.entry(at);
        Ok(entry.and_then(|entry| of_items.get(&entry.id).copied()).unwrap_or_default())
    };
    let mut sizes = survey.sizes(order, &groups, &packed)?;
    sizes.rest.bytes += (size.bytes + parity).saturating_sub(of_items.values().sum());
    Ok(sizes)
}

/// Returns the share of `sum` for a part `own` of `all`.
fn proportional_share(sum: u64, own: u64, all: u64) -> u64 {
    let part = u128::from(sum) * u128::from(own) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(sum)
}

/// Everything reachable from the roots, by owner.
struct Survey<'a> {
    inventory: &'a Inventory<'a>,
    /// All roots.
    all: Roots,
    /// The roots without the given sessions and without forgotten ones.
    rest: Roots,
    /// The commits to start at: of the rest, of each session, and of forgotten sessions.
    shares: Vec<Vec<ObjectId>>,
    kept: HashSet<ObjectId>,
    seen: HashSet<usize>,
    marker: Marker<'a>,
}

impl<'a> Survey<'a> {
    fn new(
        repo: &Repository,
        inventory: &'a Inventory<'a>,
        order: &[String],
        now: Time,
    ) -> Result<Self> {
        let all = Roots::find(inventory, inventory.refs(), now.micros)?;
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for (number, session) in order.iter().enumerate() {
            for name in repo.names_of_session(session)? {
                numbers.entry(name).or_insert(number);
            }
        }
        let known = ForgottenSession::load(inventory, inventory.refs())?.into_iter();
        let gone = known.map(|gone| gone.session).filter(|name| !repo.has_session(name));
        let gone: Vec<ForgottenSession> =
            gone.chain(numbers.keys().cloned()).map(ForgottenSession::forgotten_always).collect();
        let through = forgotten_through(inventory, inventory.refs())?;
        let gone = ForgottenContent { sessions: gone, through };
        // The remote-tracking refs of the sessions do not count as roots either.
        let mut refs = inventory.refs().clone();
        refs.values.retain(|name| {
            let of = remote_branch(name).map(|(_, branch)| branch.session().to_owned());
            of.is_none_or(|session| !numbers.contains_key(&session))
        });
        let rest = Roots::find_with_forgotten(inventory, &refs, now.micros, gone)?;
        let retention = plan_turns(inventory, &all, Purpose::Gc, now)?;
        let kept = retention.kept.into_iter().collect();
        let marker = Marker::new(inventory, Arc::clone(&all.holes));
        let (shares, seen) = (vec![Vec::new(); order.len() + 2], HashSet::new());
        let mut survey = Self { inventory, all, rest, shares, kept, seen, marker };
        survey.assign_owners(&numbers);
        Ok(survey)
    }

    /// Assigns each root to its owner.
    fn assign_owners(&mut self, numbers: &HashMap<String, usize>) {
        let last = self.shares.len().saturating_sub(1);
        let of_session = |session: &str| numbers.get(session).map(|number| number + 1);
        let graph = &self.all.graph;
        for (id, reasons) in &self.all.commits {
            let owner = |reason: &Reason| owner(reason, &of_session);
            let share = match self.rest.commits.get(id) {
                // The first owner in order counts it.
                Some(reasons) => reasons.iter().filter_map(owner).min().unwrap_or_default(),
                None => {
                    let commit = graph.find(id).and_then(|at| graph.commits().get(at));
                    let session = commit.and_then(|commit| graph.sessions().get(commit.session));
                    let of_refs = reasons.iter().filter_map(owner).filter(|share| *share > 0).min();
                    of_refs.or_else(|| of_session(session?)).unwrap_or(last)
                }
            };
            if let Some(share) = self.shares.get_mut(share) {
                share.push(*id);
            }
        }
    }

    /// Marks everything reachable from these commits; returns the number of commits not marked
    /// before.
    fn count(&mut self, from: &[ObjectId]) -> Result<u64> {
        let graph = &self.all.graph;
        let mut open: Vec<usize> = from.iter().filter_map(|id| graph.find(id)).collect();
        let (mut commits, mut trees) = (Vec::new(), Vec::new());
        while let Some(at) = open.pop() {
            let Some(commit) = graph.commits().get(at).filter(|_| self.seen.insert(at)) else {
                continue;
            };
            commits.push(commit.id);
            if self.kept.contains(&commit.id) {
                trees.push(commit.tree);
            }
            open.extend(graph.parents(commit));
        }
        self.marker.begin_round();
        self.marker.mark(commits.iter().copied())?;
        self.marker.mark_contexts(&trees)?;
        Ok(commits.len() as u64)
    }

    /// Marks everything by owner; returns for each owner the number of turns and the end of its
    /// part of the marked objects. The rest comes first, forgotten sessions last.
    fn mark_groups(&mut self) -> Result<Vec<(u64, usize)>> {
        let shares = std::mem::take(&mut self.shares);
        self.marker.mark(self.rest.operations.iter().copied())?;
        let objects: Vec<ObjectId> = self.rest.objects.keys().copied().collect();
        self.marker.mark(objects.iter().copied())?;
        let mut groups = Vec::with_capacity(shares.len());
        for (number, roots) in shares.iter().enumerate() {
            let turns = self.count(roots)?;
            if number == 0 {
                self.marker.mark_closure(self.inventory, &objects)?;
            }
            groups.push((turns, self.marker.marked().len()));
        }
        Ok(groups)
    }

    /// Sums up the sizes of the objects of each group.
    fn sizes(
        &self,
        order: &[String],
        groups: &[(u64, usize)],
        bytes_of: &dyn Fn(usize) -> Result<u64>,
    ) -> Result<SessionSizes> {
        let (mut from, mut sums) = (0, Vec::with_capacity(groups.len()));
        for (turns, end) in groups {
            let mut size = ObjectsSize::default();
            for marked in self.marker.marked().get(from..*end).unwrap_or_default() {
                size.objects += 1;
                size.bytes += bytes_of(marked.position as usize)?;
            }
            sums.push((*turns, size));
            from = *end;
        }
        let mut sums = sums.into_iter();
        let rest = sums.next().unwrap_or_default().1;
        let mut sizes = SessionSizes { rest, ..SessionSizes::default() };
        for (session, (turns, size)) in order.iter().zip(&mut sums) {
            sizes.sessions.push(SessionSize { session: session.clone(), turns, size });
        }
        sizes.leaving = sums.next().unwrap_or_default().1;
        Ok(sizes)
    }
}

/// Returns the share that a reason assigns a commit to: 0 for the rest, `None` for a reason that
/// only accompanies another.
fn owner(reason: &Reason, of_session: &dyn Fn(&str) -> Option<usize>) -> Option<usize> {
    match reason {
        Reason::Branch(name) | Reason::WentBack(name) => {
            let branch: Option<BranchName> = name.parse().ok();
            Some(branch.and_then(|branch| of_session(branch.session())).unwrap_or_default())
        }
        Reason::Head => None,
        Reason::Ref(name) => {
            Some(ForgottenSession::session_of_ref(name).and_then(of_session).unwrap_or_default())
        }
        Reason::Tag(_)
        | Reason::Pin(_)
        | Reason::Policy(_)
        | Reason::Operation(_)
        | Reason::Lost { .. } => Some(0),
    }
}
