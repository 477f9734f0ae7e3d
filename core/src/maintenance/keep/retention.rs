//! The retention plan: decides which turns keep their content, which expire, and why.
//!
//! An expired turn loses its tree and keeps its commit, so history stays complete and reading the
//! turn reports that it expired. Nothing here deletes anything: a collection applies the plan.
//!
//! Always kept: every [root](super::roots), every commit with two or more children, and every
//! parent of a merge. This keeps the merge base of any two kept commits as well: it is one of the
//! two, or the lines to them part at it, so it has two children.
//!
//! A policy also keeps, as a union of its rules:
//!
//! | rule | keeps |
//! |---|---|
//! | `keep_last` N | the newest N of every line of first parents that begins at a branch or at a commit that nothing continues; pinned ones do not count |
//! | `keep_within` | commits that are no older |
//! | `thin` `every:k` | turns whose number k divides |
//! | `thin` `hourly`, `daily` | the newest of the session in each hour or day that is still there |
//! | none | everything |
//!
//! Under a strict policy nothing stays only for undo: commits that only operations reference are
//! neither lines nor roots, and do not make another commit a branch point.
//!
//! A budget then elides the oldest turns that are not always kept, until the session fits. A commit
//! with the same tree as a kept commit costs nothing and stays too.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::fit::{Cost, FittingTurns, PricedTurn, find_fitting};
use super::graph::{CommitGraph, GraphCommit};
use super::policy::{Policies, Policy};
use super::retention_plan::{
    ElidedTurn, Keep, KeptTurn, RetentionPlan, SessionTurns, WithSeparators,
};
use super::roots::{Reason, Roots};
use crate::error::Result;
use crate::object::ObjectId;

/// Plans the retention of everything reachable from `roots` by `policies`, at the moment `now`, in
/// microseconds since the Unix epoch. `is_gone` returns true for a tree that was elided earlier.
/// Without a `cost`, budgets are ignored, and the notes of the plan report it.
///
/// The same arguments give the same plan, and a plan made after applying it elides nothing more.
/// Costs a few hundred nanoseconds per commit, and the time of `cost`.
///
/// # Errors
/// Errors of `cost`.
pub fn plan_retention(
    roots: &Roots,
    policies: &Policies,
    now: i64,
    is_gone: &dyn Fn(&ObjectId) -> bool,
    cost: Option<&mut dyn Cost>,
) -> Result<RetentionPlan> {
    let mut planner = Planner::new(&roots.graph, policies, is_gone);
    planner.skip_undo_only(roots);
    planner.protect(roots);
    planner.apply_rules(roots, now);
    planner.apply_budgets(cost)?;
    planner.keep_equal_content();
    Ok(planner.finish())
}

struct Planner<'a> {
    graph: &'a CommitGraph,
    /// The policy of each session, by number.
    policies: Vec<Option<&'a Policy>>,
    /// Every commit, by session, newest first.
    order: Vec<usize>,
    /// The reason why each commit stays, by number; `None` for expiring commits.
    keep: Vec<Option<Keep>>,
    /// True if a rule of the policy keeps the commit.
    ruled: Vec<bool>,
    /// True for commits that no policy covers: commits of strict policies that only undo needs.
    past: Vec<bool>,
    /// True if the tree of each commit was elided earlier.
    gone: Vec<bool>,
    /// The bytes of the kept turns of sessions with a measured budget.
    bytes: HashMap<usize, u64>,
    notes: Vec<String>,
}

impl<'a> Planner<'a> {
    fn new(
        graph: &'a CommitGraph,
        policies: &'a Policies,
        is_gone: &dyn Fn(&ObjectId) -> bool,
    ) -> Self {
        let commits = graph.commits();
        let mut order: Vec<usize> = (0..commits.len()).collect();
        order.sort_by_cached_key(|at| {
            commits.get(*at).map(|commit| {
                let session = graph.sessions().get(commit.session);
                (session, Reverse((commit.turn, commit.time_micros, commit.id)))
            })
        });
        Self {
            graph,
            policies: graph.sessions().iter().map(|session| policies.of(session)).collect(),
            order,
            keep: vec![None; commits.len()],
            ruled: vec![false; commits.len()],
            past: vec![false; commits.len()],
            gone: commits.iter().map(|commit| is_gone(&commit.tree)).collect(),
            bytes: HashMap::new(),
            notes: Vec::new(),
        }
    }

    fn policy(&self, commit: &GraphCommit) -> Option<&'a Policy> {
        self.policies.get(commit.session).copied().flatten()
    }

    fn is_gone(&self, at: usize) -> bool {
        self.gone.get(at).copied().unwrap_or(false)
    }

    /// Keeps a commit, for the strongest of its reasons.
    fn mark(&mut self, at: usize, why: Keep) {
        if let Some(keep) = self.keep.get_mut(at) {
            *keep = Some(keep.map_or(why, |known| known.min(why)));
        }
        if let Some(ruled) = self.ruled.get_mut(at) {
            *ruled |= why.is_ruled();
        }
    }

    fn is_strict(&self, at: usize) -> bool {
        let commit = self.graph.commits().get(at);
        commit.and_then(|commit| self.policy(commit)).is_some_and(|policy| policy.strict)
    }

    fn is_undo_only(&self, at: usize) -> bool {
        self.past.get(at).copied().unwrap_or(false)
    }

    /// Marks the commits of strict policies that only undo needs.
    fn skip_undo_only(&mut self, roots: &Roots) {
        if !self.policies.iter().flatten().any(|policy| policy.strict) {
            return;
        }
        let graph = self.graph;
        let lasts = |reasons: &Vec<Reason>| reasons.iter().any(|reason| !reason.is_undo_only());
        let lasting = roots.commits.iter().filter(|(_, reasons)| lasts(reasons));
        let mut open: Vec<usize> = lasting.filter_map(|(id, _)| graph.find(id)).collect();
        let mut is_undo_only = vec![true; graph.commits().len()];
        while let Some(at) = open.pop() {
            if let Some(past @ true) = is_undo_only.get_mut(at) {
                *past = false;
                open.extend(graph.commits().get(at).into_iter().flat_map(|it| graph.parents(it)));
            }
        }
        for (at, past) in is_undo_only.iter_mut().enumerate() {
            *past &= self.is_strict(at);
        }
        self.past = is_undo_only;
    }

    /// Counts the children of each commit, ignoring commits that only undo needs.
    fn child_counts(&self) -> Vec<usize> {
        let mut counts = self.graph.child_counts();
        let commits = self.graph.commits().iter().enumerate();
        for (_, commit) in commits.filter(|(at, _)| self.is_undo_only(*at)) {
            for parent in self.graph.parents(commit) {
                if let Some(count) = counts.get_mut(*parent) {
                    *count -= 1;
                }
            }
        }
        counts
    }

    /// Keeps the commits that stay under every policy.
    fn protect(&mut self, roots: &Roots) {
        for (id, reasons) in &roots.commits {
            if let Some(at) = self.graph.find(id) {
                let strict = self.is_strict(at);
                let counted = reasons.iter().filter(|reason| !(strict && reason.is_undo_only()));
                counted.for_each(|reason| self.mark(at, reason.into()));
            }
        }
        for (at, count) in self.child_counts().into_iter().enumerate() {
            if count > 1 && !self.is_undo_only(at) {
                self.mark(at, Keep::BranchPoint);
            }
        }
        for (at, commit) in self.graph.commits().iter().enumerate() {
            let parents = self.graph.parents(commit);
            if parents.len() > 1 && !self.is_undo_only(at) {
                parents.iter().for_each(|parent| self.mark(*parent, Keep::Merged));
            }
        }
    }

    /// Keeps the commits that the rules of the policies select.
    fn apply_rules(&mut self, roots: &Roots, now: i64) {
        for (at, commit) in self.graph.commits().iter().enumerate() {
            if self.is_undo_only(at) {
                continue;
            }
            let Some(policy) = self.policy(commit).filter(|policy| policy.has_rules()) else {
                self.mark(at, Keep::Unruled);
                continue;
            };
            let oldest = policy.keep_within.map(|within| now.saturating_sub(within));
            if oldest.is_some_and(|oldest| commit.time_micros >= oldest) {
                self.mark(at, Keep::Within);
            }
            let divides = |k: u64| commit.turn.is_multiple_of(k);
            if policy.thin.iter().any(|thin| thin.divisor().is_some_and(divides)) {
                self.mark(at, Keep::Thin);
            }
        }
        self.keep_last(roots);
        self.keep_periods();
    }

    /// Keeps the newest turns of every line.
    fn keep_last(&mut self, roots: &Roots) {
        if !self.policies.iter().flatten().any(|policy| policy.keep_last.is_some()) {
            return;
        }
        let graph = self.graph;
        let is_pin = |reason: &Reason| matches!(reason, Reason::Pin(_));
        let pinned: HashSet<ObjectId> = (roots.commits.iter())
            .filter(|(_, reasons)| reasons.iter().any(is_pin))
            .map(|(id, _)| *id)
            .collect();
        // The number of commits on the nearest line before each commit, without pinned ones.
        let starts = self.child_counts().into_iter().enumerate();
        let mut places: Vec<Option<u64>> =
            starts.map(|(at, count)| (count == 0 && !self.is_undo_only(at)).then_some(0)).collect();
        for (id, reasons) in &roots.commits {
            if reasons.iter().any(|reason| matches!(reason, Reason::Branch(_)))
                && let Some(place) = graph.find(id).and_then(|at| places.get_mut(at))
            {
                *place = Some(0);
            }
        }
        for at in graph.children_first() {
            let (Some(commit), Some(Some(place))) =
                (graph.commits().get(at), places.get(at).copied())
            else {
                continue;
            };
            let wanted = self.policy(commit).and_then(|policy| policy.keep_last);
            if wanted.is_some_and(|wanted| place < wanted) {
                self.mark(at, Keep::Last);
            }
            let before = place + u64::from(!pinned.contains(&commit.id));
            let first = graph.parents(commit).first();
            if let Some(next) = first.and_then(|parent| places.get_mut(*parent)) {
                *next = Some(next.map_or(before, |known| known.min(before)));
            }
        }
    }

    /// Keeps the newest commit with content of each session in each hour or day.
    fn keep_periods(&mut self) {
        let graph = self.graph;
        let mut taken: HashSet<(usize, i64, i64)> = HashSet::new();
        for index in 0..self.order.len() {
            let counts = |at: &usize| !self.is_gone(*at) && !self.is_undo_only(*at);
            let Some(at) = self.order.get(index).copied().filter(counts) else { continue };
            let Some(commit) = graph.commits().get(at) else { continue };
            let thin = self.policy(commit).map_or(&[][..], |policy| &policy.thin);
            for period in thin.iter().filter_map(|thin| thin.period()) {
                let bucket = commit.time_micros.div_euclid(period);
                if taken.insert((commit.session, period, bucket)) {
                    self.mark(at, Keep::Thin);
                }
            }
        }
    }

    /// Elides the oldest turns of sessions that are over their budget.
    fn apply_budgets(&mut self, mut cost: Option<&mut dyn Cost>) -> Result<()> {
        let (graph, order) = (self.graph, std::mem::take(&mut self.order));
        let session_of = |at: &usize| graph.commits().get(*at).map(|commit| commit.session);
        for members in order.chunk_by(|a, b| session_of(a) == session_of(b)) {
            let Some(number) = members.first().and_then(session_of) else { continue };
            let policy = self.policies.get(number).copied().flatten();
            let name = graph.sessions().get(number).map_or("", String::as_str);
            match (policy.and_then(|policy| policy.budget_bytes), cost.as_deref_mut()) {
                (None, _) => {}
                (Some(_), None) => self.notes.push(format!(
                    "session {name}: its budget is ignored, because sizes are not measured here"
                )),
                (Some(budget), Some(cost)) => {
                    if let Some(bytes) = self.elide_to_fit(name, members, budget, cost)? {
                        self.bytes.insert(number, bytes);
                    }
                }
            }
        }
        self.order = order;
        Ok(())
    }

    /// Elides the oldest of `members`, which are newest first, until they fit; returns their bytes
    /// if they were measured.
    fn elide_to_fit(
        &mut self,
        name: &str,
        members: &[usize],
        budget: u64,
        cost: &mut dyn Cost,
    ) -> Result<Option<u64>> {
        let commits = self.graph.commits();
        let held = |at: &&usize| !self.is_gone(**at);
        let kept = members.iter().filter(held).filter_map(|at| {
            let (why, commit) = (self.keep.get(*at).copied().flatten()?, commits.get(*at)?);
            Some((*at, why, PricedTurn { commit: commit.id, tree: commit.tree }))
        });
        let (mut fixed, free): (Vec<_>, Vec<_>) = kept.partition(|(_, why, _)| why.is_protected());
        let fixed_count = fixed.len();
        fixed.extend(free);
        let turns: Vec<PricedTurn> = fixed.iter().map(|(.., turn)| *turn).collect();
        if !cost.begin(name, &turns, budget)? {
            return Ok(None);
        }
        let FittingTurns { kept, bytes } =
            find_fitting(&turns, fixed_count, cost.target(budget), cost)?;
        if bytes > budget {
            let newest = cost.bytes(turns.get(..1).unwrap_or_default())?;
            let turn = fixed.first().and_then(|(at, ..)| commits.get(*at)).map_or(0, |it| it.turn);
            self.notes.push(format!(
                "session {name}: the content to keep takes {} bytes, more than its budget of {}: {} of them are turn {} with the commits and operations of the session",
                WithSeparators(bytes),
                WithSeparators(budget),
                WithSeparators(newest),
                WithSeparators(turn)
            ));
        }
        for (at, ..) in fixed.iter().skip(kept) {
            if let Some(keep) = self.keep.get_mut(*at) {
                *keep = None;
            }
        }
        Ok(Some(bytes))
    }

    /// Keeps commits whose tree is kept for another commit.
    fn keep_equal_content(&mut self) {
        let commits = self.graph.commits();
        let trees: HashSet<ObjectId> = (0..)
            .zip(commits)
            .filter(|(at, _)| !self.is_gone(*at) && self.keep.get(*at).is_some_and(Option::is_some))
            .map(|(_, commit)| commit.tree)
            .collect();
        for (commit, keep) in commits.iter().zip(&mut self.keep) {
            if keep.is_none() && trees.contains(&commit.tree) {
                *keep = Some(Keep::SameContent);
            }
        }
    }

    fn finish(self) -> RetentionPlan {
        let graph = self.graph;
        let mut plan = RetentionPlan { notes: self.notes.clone(), ..RetentionPlan::default() };
        let mut sessions: Vec<SessionTurns> = vec![SessionTurns::default(); self.policies.len()];
        for at in &self.order {
            let Some(commit) = graph.commits().get(*at) else { continue };
            let Some(tally) = sessions.get_mut(commit.session) else { continue };
            let turn = || ElidedTurn {
                commit: commit.id,
                tree: commit.tree,
                session: graph.sessions().get(commit.session).cloned().unwrap_or_default(),
                turn: commit.turn,
            };
            match self.keep.get(*at).copied().flatten() {
                _ if self.is_gone(*at) => {
                    plan.gone.push(turn());
                    tally.expired += 1;
                }
                Some(why) => {
                    plan.kept.push(commit.id);
                    let is_ruled = self.ruled.get(*at).copied().unwrap_or(false);
                    tally.kept.push(KeptTurn { turn: commit.turn, why, is_ruled });
                }
                None => {
                    plan.elided.push(turn());
                    tally.expiring.push(commit.turn);
                }
            }
        }
        for ((number, tally), name) in sessions.into_iter().enumerate().zip(graph.sessions()) {
            if self.policies.get(number).is_some_and(Option::is_some) {
                let bytes = self.bytes.get(&number).copied();
                plan.sessions.push(tally.finish(name, bytes));
            }
        }
        plan.sessions.sort_by(|a, b| a.session.cmp(&b.session));
        plan
    }
}
