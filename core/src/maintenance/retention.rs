//! The retention plan: which turns keep their content, which expire, and why.
//!
//! A turn that expires loses its tree and keeps its commit, so history stays whole and asking for the
//! turn says what became of it. Nothing here drops anything: a collection applies the plan.
//!
//! What always stays: every [root](super::roots), every commit that two or more continue, and every
//! parent of a merge. With these the merge base of any two commits that stay is there as well: it is
//! one of the two, or the lines to them part at it, so two commits continue it.
//!
//! What a policy keeps besides, as a union of its rules:
//!
//! | rule | keeps |
//! |---|---|
//! | `keep_last` N | the newest N of every line of first parents that begins at a branch or at a commit that nothing continues |
//! | `keep_within` | commits that are no older |
//! | `thin` `every:k` | turns whose number k divides |
//! | `thin` `hourly`, `daily` | the newest of the session in each hour or day that is still there |
//! | none | everything |
//!
//! A budget then drops the oldest of what does not always stay, until the session fits.
//! A commit whose tree is that of another one that stays costs nothing and stays too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::graph::{CommitGraph, GraphCommit};
use super::policy::{Policies, Policy};
use super::roots::{Reason, Roots};
use crate::error::Result;
use crate::object::ObjectId;

/// What keeping turns costs. Asked only for sessions with a budget: first for what must stay, then
/// for the others, each newest first.
pub trait Cost {
    /// Begins a session: what other sessions keep is counted again.
    fn begin(&mut self, session: &str);

    /// The stored bytes that keeping the content of `commit` adds to everything asked since
    /// [`Cost::begin`].
    ///
    /// # Errors
    /// What reading the content reports.
    fn added_bytes(&mut self, commit: &ObjectId, tree: &ObjectId) -> Result<u64>;
}

/// Which turns keep their content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    /// Commits that keep their tree, by session, newest first.
    pub kept: Vec<ObjectId>,
    /// Turns whose tree shall go now. A node of it that something kept holds as well must stay.
    pub elided: Vec<ElidedTurn>,
    /// Turns whose tree went earlier: what says so must be carried on.
    pub gone: Vec<ElidedTurn>,
    /// Each session with a policy, by name.
    pub sessions: Vec<SessionPlan>,
    /// What people should know: budgets that cannot be met.
    pub notes: Vec<String>,
}

/// A turn that keeps only its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElidedTurn {
    /// The commit, which stays.
    pub commit: ObjectId,
    /// Its tree, which goes.
    pub tree: ObjectId,
    /// Its session.
    pub session: String,
    /// Its turn in the session.
    pub turn: u64,
}

/// What happens to one session. Shown in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlan {
    /// Its name.
    pub session: String,
    /// Turns that keep their content.
    pub kept: u64,
    /// Turns that expire now.
    pub expiring: u64,
    /// Turns that expired earlier.
    pub expired: u64,
    /// The oldest and the newest turn that expire now.
    pub span: Option<(u64, u64)>,
    /// What stays between these two, by the strongest reason.
    pub spared: BTreeMap<Keep, u64>,
    /// Stored bytes of what stays, where they were measured for a budget.
    pub bytes: Option<u64>,
}

/// Why a turn stays, the strongest reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keep {
    /// It is pinned.
    Pin,
    /// It is tagged.
    Tag,
    /// A branch or another ref is at it.
    Tip,
    /// Several commits continue it.
    BranchPoint,
    /// A merge joined it.
    Merged,
    /// It is where a branch was that was deleted or moved back.
    LostTip,
    /// An undo would go back to it.
    Undo,
    /// It is among the newest of a line.
    Last,
    /// It is new enough.
    Within,
    /// A rule that thins has chosen it.
    Thin,
    /// No rule is about it.
    Unruled,
    /// Its content is that of a turn that stays.
    SameContent,
}

impl Keep {
    /// Whether no policy can drop it.
    #[must_use]
    pub fn is_protected(self) -> bool {
        self <= Self::Undo
    }

    /// The name in records, and what one and several such turns are called.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Pin => ("pin", "pin", "pins"),
            Self::Tag => ("tag", "tag", "tags"),
            Self::Tip => ("tip", "tip", "tips"),
            Self::BranchPoint => ("branch-point", "branch point", "branch points"),
            Self::Merged => ("merged", "merged turn", "merged turns"),
            Self::LostTip => ("lost-tip", "tip of a lost branch", "tips of lost branches"),
            Self::Undo => ("undo", "turn for undo", "turns for undo"),
            Self::Last => ("last", "among the newest of a branch", "among the newest of a branch"),
            Self::Within => ("within", "recent one", "recent ones"),
            Self::Thin => ("thin", "left by thinning", "left by thinning"),
            Self::Unruled => ("unruled", "other", "others"),
            Self::SameContent => ("same-content", "equal to a kept one", "equal to kept ones"),
        }
    }

    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names().0
    }
}

impl From<&Reason> for Keep {
    fn from(reason: &Reason) -> Self {
        match reason {
            Reason::Pin(_) => Self::Pin,
            Reason::Tag(_) => Self::Tag,
            Reason::Branch(_) | Reason::Head | Reason::Ref(_) | Reason::Policy(_) => Self::Tip,
            Reason::Lost { .. } => Self::LostTip,
            Reason::Operation(_) => Self::Undo,
        }
    }
}

/// Plans what `policies` say about everything behind `roots`, at the moment `now`, in microseconds
/// since the Unix epoch. `is_gone` says of a tree whether it was dropped earlier. Without a `cost`
/// budgets are left out, and the plan says so.
///
/// The same arguments give the same plan, and a plan made after it was applied drops nothing more.
/// Costs a few hundred nanoseconds a commit, and what `cost` takes.
///
/// # Errors
/// What `cost` reports.
pub fn plan(
    roots: &Roots,
    policies: &Policies,
    now: i64,
    is_gone: &dyn Fn(&ObjectId) -> bool,
    cost: Option<&mut dyn Cost>,
) -> Result<RetentionPlan> {
    let mut planner = Planner::new(&roots.graph, policies, is_gone);
    planner.protect(roots);
    planner.apply_rules(roots, now);
    planner.apply_budgets(cost)?;
    planner.keep_equal_content();
    Ok(planner.finish())
}

struct Planner<'a> {
    graph: &'a CommitGraph,
    /// The policy of each session, by its number.
    policies: Vec<Option<&'a Policy>>,
    /// Every commit, by session, newest first.
    order: Vec<usize>,
    /// Why each commit stays, by number; nothing yet for those that expire.
    keep: Vec<Option<Keep>>,
    /// Whether the tree of each commit was dropped earlier.
    gone: Vec<bool>,
    /// What sessions with a measured budget keep.
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
    }

    /// What stays under every policy.
    fn protect(&mut self, roots: &Roots) {
        for (id, reasons) in &roots.commits {
            if let Some(at) = self.graph.find(id) {
                reasons.iter().for_each(|reason| self.mark(at, reason.into()));
            }
        }
        for (at, count) in self.graph.child_counts().into_iter().enumerate() {
            if count > 1 {
                self.mark(at, Keep::BranchPoint);
            }
        }
        for commit in self.graph.commits() {
            let parents = self.graph.parents(commit);
            if parents.len() > 1 {
                parents.iter().for_each(|parent| self.mark(*parent, Keep::Merged));
            }
        }
    }

    /// What the rules of the policies keep.
    fn apply_rules(&mut self, roots: &Roots, now: i64) {
        for (at, commit) in self.graph.commits().iter().enumerate() {
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
        // How many commits of the nearest line stand before each.
        let mut places: Vec<Option<u64>> =
            graph.child_counts().into_iter().map(|count| (count == 0).then_some(0)).collect();
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
            let first = graph.parents(commit).first();
            if let Some(next) = first.and_then(|parent| places.get_mut(*parent)) {
                *next = Some(next.map_or(place + 1, |known| known.min(place + 1)));
            }
        }
    }

    /// Keeps the newest commit of each session in each hour or day, of those that have content.
    fn keep_periods(&mut self) {
        let graph = self.graph;
        let mut taken: HashSet<(usize, i64, i64)> = HashSet::new();
        for index in 0..self.order.len() {
            let Some(at) = self.order.get(index).copied().filter(|at| !self.is_gone(*at)) else {
                continue;
            };
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

    /// Drops the oldest turns of sessions that are over their budget.
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
                    "session {name}: its budget is left out, because sizes are not measured here"
                )),
                (Some(budget), Some(cost)) => {
                    cost.begin(name);
                    let bytes = self.fit(name, members, budget, cost)?;
                    self.bytes.insert(number, bytes);
                }
            }
        }
        self.order = order;
        Ok(())
    }

    /// Drops the oldest of `members`, which are newest first, until they fit; returns their bytes.
    fn fit(
        &mut self,
        name: &str,
        members: &[usize],
        budget: u64,
        cost: &mut dyn Cost,
    ) -> Result<u64> {
        let graph = self.graph;
        let held = |at: &&usize| !self.is_gone(**at);
        let why = |at: &usize| self.keep.get(*at).copied().flatten();
        let kept: Vec<(usize, Keep)> =
            members.iter().filter(held).filter_map(|at| Some((*at, why(at)?))).collect();
        let (fixed, free): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|(_, why)| why.is_protected());
        let mut price = |at: usize| match graph.commits().get(at) {
            Some(commit) => cost.added_bytes(&commit.id, &commit.tree),
            None => Ok(0),
        };
        let mut used = 0_u64;
        for (at, _) in fixed {
            used = used.saturating_add(price(at)?);
        }
        if used > budget {
            self.notes.push(format!(
                "session {name}: what must stay takes {} bytes, more than its budget of {}",
                Grouped(used),
                Grouped(budget)
            ));
        }
        let mut is_full = used > budget;
        for (at, _) in free {
            if !is_full {
                let with = used.saturating_add(price(at)?);
                is_full = with > budget;
                used = if is_full { used } else { with };
            }
            if is_full && let Some(keep) = self.keep.get_mut(at) {
                *keep = None;
            }
        }
        Ok(used)
    }

    /// Keeps commits whose tree stays anyway.
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
        let mut sessions: Vec<SessionTally> = vec![SessionTally::default(); self.policies.len()];
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
                    tally.kept.push((commit.turn, why));
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

/// The turns of a session, sorted into what becomes of them.
#[derive(Debug, Clone, Default)]
struct SessionTally {
    kept: Vec<(u64, Keep)>,
    expiring: Vec<u64>,
    expired: u64,
}

impl SessionTally {
    fn finish(self, name: &str, bytes: Option<u64>) -> SessionPlan {
        // Newest first, as all lists here.
        let span = self.expiring.last().copied().zip(self.expiring.first().copied());
        let mut spared = BTreeMap::new();
        let inside = |turn: u64| span.is_some_and(|(first, last)| (first..=last).contains(&turn));
        for (_, why) in self.kept.iter().filter(|(turn, _)| inside(*turn)) {
            *spared.entry(*why).or_default() += 1;
        }
        SessionPlan {
            session: name.to_owned(),
            kept: self.kept.len() as u64,
            expiring: self.expiring.len() as u64,
            expired: self.expired,
            span,
            spared,
            bytes,
        }
    }
}

impl fmt::Display for SessionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.kept + self.expiring;
        write!(f, "session {}: ", self.session)?;
        let Some((first, last)) = self.span else {
            write!(f, "nothing expires, {} of {}", Grouped(held), turns(held + self.expired))?;
            return f.write_str(if held == 1 { " stays" } else { " stay" });
        };
        let expire = if self.expiring == 1 { "expires" } else { "expire" };
        write!(f, "{} of {} {expire}", Grouped(self.expiring), turns(held))?;
        match first == last {
            true => write!(f, ", turn {}", Grouped(first))?,
            false => write!(f, ", turns {} to {}", Grouped(first), Grouped(last))?,
        }
        let spared: Vec<String> = self.spared.iter().map(|(why, n)| spared(*why, *n)).collect();
        match spared.split_last() {
            None => Ok(()),
            Some((last, [])) => write!(f, " except {last}"),
            Some((last, others)) => write!(f, " except {} and {last}", others.join(", ")),
        }
    }
}

fn turns(n: u64) -> String {
    format!("{} turn{}", Grouped(n), if n == 1 { "" } else { "s" })
}

fn spared(why: Keep, n: u64) -> String {
    let (_, one, many) = why.names();
    format!("{} {}", Grouped(n), if n == 1 { one } else { many })
}

/// A number with its thousands apart.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1000, self.0 % 1000) {
            (0, rest) => write!(f, "{rest}"),
            (thousands, rest) => write!(f, "{},{rest:03}", Self(thousands)),
        }
    }
}
