//! What sessions take: the bytes that each adds to those that stay without it.
//!
//! Sessions share content, so what one takes is a matter of order. Everything that is kept without
//! the sessions that were asked for is counted first, then these one after another: when the last
//! ones of the order go, their bytes come free.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::budget_plan::SessionSize;
use super::cohorts::Cohorts;
use super::collection_plan::{ObjectsSize, Purpose};
use super::layout::arrange;
use super::mark::Marker;
use super::packed_cost::MAX_RAW_BYTES;
use super::plan_turns::plan_turns;
use super::roots::{Forgotten, Reason, Roots};
use crate::error::Result;
use crate::object::{ObjectId, Time};
use crate::repo::{BranchName, ForgottenSession, Repository, forgotten_through, remote_branch};
use crate::store::{Inventory, Tier};

/// What sessions take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSizes {
    /// Everything that stays without the sessions that were asked for.
    pub rest: ObjectsSize,
    /// The sessions that were asked for, in the order of the question.
    pub sessions: Vec<SessionSize>,
    /// What only sessions hold that were let go and are still there.
    pub leaving: ObjectsSize,
}

/// Measures sessions at the moment `now`, in this order: what each adds to everything else and to
/// those before it. Turns that have expired, or expire with the next collection, count for their
/// commits only.
///
/// Reads every node that is kept, as a collection does.
///
/// # Errors
/// `Corrupt` when something that must stay is missing, and those of reading.
pub fn measure_sessions(repo: &Repository, order: &[String], now: Time) -> Result<SessionSizes> {
    let inventory = repo.store().inventory()?;
    let mut survey = Survey::new(repo, &inventory, order, now)?;
    let groups = survey.groups()?;
    let lies = |at: usize| Ok(inventory.entry(at).map_or(0, |entry| entry.stored_bytes));
    survey.sizes(order, &groups, &lies)
}

/// The same, of a store that is packed into one pack: with ids and index, and whatever is in a pack
/// and of no object counts as shared. A store with more than 256 MiB of content counts as it lies.
///
/// Takes the time of packing it in memory.
///
/// # Errors
/// Those of [`measure_sessions`].
pub(super) fn measure_packed_sessions(
    repo: &Repository,
    order: &[String],
    now: Time,
) -> Result<SessionSizes> {
    let inventory = repo.store().inventory()?;
    let mut survey = Survey::new(repo, &inventory, order, now)?;
    let groups = survey.groups()?;
    let mut raw_bytes = 0_u64;
    for met in survey.marker.met() {
        raw_bytes += inventory.sizes(met.position as usize)?.map_or(0, |(raw, _)| raw.into());
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
    let parts = size.items.iter().map(|bytes| bytes + part_of(parity, *bytes, size.bytes));
    let of_items: HashMap<ObjectId, u64> = items.iter().map(|item| item.id).zip(parts).collect();
    let packed = |at: usize| {
        let entry = inventory.entry(at);
        Ok(entry.and_then(|entry| of_items.get(&entry.id).copied()).unwrap_or_default())
    };
    let mut sizes = survey.sizes(order, &groups, &packed)?;
    sizes.rest.bytes += (size.bytes + parity).saturating_sub(of_items.values().sum());
    Ok(sizes)
}

/// The part of `sum` that falls to one with `own` of `all`.
fn part_of(sum: u64, own: u64, all: u64) -> u64 {
    let part = u128::from(sum) * u128::from(own) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(sum)
}

/// Everything behind the roots, and whose it is.
struct Survey<'a> {
    inventory: &'a Inventory<'a>,
    /// All roots.
    all: Roots,
    /// Those without the sessions that were asked for and without those that were let go.
    rest: Roots,
    /// The commits to begin at: of the rest, of each session, and of those that were let go.
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
        let gone = known.map(|gone| gone.session).filter(|name| !has_branch(repo, name));
        let gone: Vec<ForgottenSession> =
            gone.chain(numbers.keys().cloned()).map(ForgottenSession::of_all_time).collect();
        let through = forgotten_through(inventory, inventory.refs())?;
        let gone = Forgotten { sessions: gone, through };
        // What is known of them on remotes goes with them.
        let mut refs = inventory.refs().clone();
        refs.values.retain(|name, _| {
            let of = remote_branch(name).map(|(_, branch)| branch.session().to_owned());
            of.is_none_or(|session| !numbers.contains_key(&session))
        });
        let rest = Roots::find_without(inventory, &refs, now.micros, gone)?;
        let retention = plan_turns(inventory, &all, Purpose::Gc, now)?;
        let kept = retention.kept.into_iter().collect();
        let marker = Marker::new(inventory, Arc::clone(&all.holes));
        let (shares, seen) = (vec![Vec::new(); order.len() + 2], HashSet::new());
        let mut survey = Self { inventory, all, rest, shares, kept, seen, marker };
        survey.share(&numbers);
        Ok(survey)
    }

    /// Tells whose each root is.
    fn share(&mut self, numbers: &HashMap<String, usize>) {
        let last = self.shares.len().saturating_sub(1);
        let of_session = |session: &str| numbers.get(session).map(|number| number + 1);
        let graph = &self.all.graph;
        for (id, reasons) in &self.all.commits {
            let owner = |reason: &Reason| owner(reason, &of_session);
            let share = match self.rest.commits.get(id) {
                // The first one that leads to it counts it.
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

    /// Meets everything behind these commits; returns how many of them were not met before.
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
        self.marker.meet(commits.iter().copied())?;
        self.marker.meet_contexts(&trees)?;
        Ok(commits.len() as u64)
    }

    /// Meets everything, whose it is in order: the turns of each part and where it ends among what
    /// was met. The rest comes first, what was let go last.
    fn groups(&mut self) -> Result<Vec<(u64, usize)>> {
        let shares = std::mem::take(&mut self.shares);
        self.marker.meet(self.rest.operations.iter().copied())?;
        let objects: Vec<ObjectId> = self.rest.objects.keys().copied().collect();
        self.marker.meet(objects.iter().copied())?;
        let mut groups = Vec::with_capacity(shares.len());
        for (number, roots) in shares.iter().enumerate() {
            let turns = self.count(roots)?;
            if number == 0 {
                self.marker.meet_closure(self.inventory, &objects)?;
            }
            groups.push((turns, self.marker.met().len()));
        }
        Ok(groups)
    }

    /// Sums up what the objects of each group take.
    fn sizes(
        &self,
        order: &[String],
        groups: &[(u64, usize)],
        bytes_of: &dyn Fn(usize) -> Result<u64>,
    ) -> Result<SessionSizes> {
        let (mut from, mut sums) = (0, Vec::with_capacity(groups.len()));
        for (turns, end) in groups {
            let mut size = ObjectsSize::default();
            for met in self.marker.met().get(from..*end).unwrap_or_default() {
                size.objects += 1;
                size.bytes += bytes_of(met.position as usize)?;
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

/// The share that a reason puts a commit into: 0 for the rest, nothing for what only joins another
/// reason.
fn owner(reason: &Reason, of_session: &dyn Fn(&str) -> Option<usize>) -> Option<usize> {
    match reason {
        Reason::Branch(name) | Reason::WentBack(name) => {
            let branch: Option<BranchName> = name.parse().ok();
            Some(branch.and_then(|branch| of_session(branch.session())).unwrap_or_default())
        }
        Reason::Head => None,
        Reason::Ref(name) => {
            Some(ForgottenSession::of_ref(name).and_then(of_session).unwrap_or_default())
        }
        Reason::Tag(_)
        | Reason::Pin(_)
        | Reason::Policy(_)
        | Reason::Operation(_)
        | Reason::Lost { .. } => Some(0),
    }
}

fn has_branch(repo: &Repository, session: &str) -> bool {
    repo.branches().iter().any(|(branch, _)| branch.session() == session)
}
