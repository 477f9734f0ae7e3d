//! Tests roots and plans against a naive model, on random histories with branches, merges, pins and
//! undos.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::object::{
    Author, Commit, Kind, Memory, ObjectId, ObjectSink, Operation, RefChange, RefValue, Tag, Time,
    Trigger,
};
use crate::store::RefTable;

const HOUR: i64 = 60 * 60 * 1_000_000;
const SESSIONS: [&str; 2] = ["one", "two"];

/// A store in memory, with the operations that made its refs.
#[derive(Debug, Default)]
struct World {
    objects: Memory,
    refs: RefTable,
    commits: HashMap<ObjectId, Commit>,
    /// Commits in the order in which they were made.
    made: Vec<ObjectId>,
    tags: HashMap<ObjectId, Tag>,
    /// Oldest first.
    operations: Vec<(ObjectId, Operation)>,
    now: i64,
}

impl World {
    fn set(&mut self, name: &str, new: Option<RefValue>) {
        let old = self.refs.value(name).cloned();
        let operation = Operation {
            parents: self.refs.operation.into_iter().collect(),
            sequence: self.refs.sequence + 1,
            time_micros: self.now,
            actor: String::new(),
            reason: String::new(),
            changes: vec![RefChange { name: name.to_owned(), old, new: new.clone() }],
            undoes: None,
        };
        let id = self.objects.write(Kind::Operation, operation.encode().into()).unwrap();
        self.refs.operation = Some(id);
        self.refs.sequence += 1;
        match new {
            Some(value) => self.refs.values.insert(name.to_owned(), value),
            None => self.refs.values.remove(name),
        };
        self.operations.push((id, operation));
    }

    fn tip(&self, name: &str) -> Option<ObjectId> {
        match self.refs.value(name) {
            Some(RefValue::Object(id)) => Some(*id),
            _ => None,
        }
    }

    /// Adds a commit to a branch; `tree` determines its content.
    fn commit(&mut self, branch: &str, parents: Vec<ObjectId>, tree: u8) -> ObjectId {
        let turn = parents.iter().map(|id| self.commits[id].turn).max().unwrap_or(0) + 1;
        let commit = Commit {
            tree: ObjectId::of(Kind::Node, &[tree]),
            parents,
            session: branch.split('/').nth(2).unwrap().to_owned(),
            turn,
            author: Author::default(),
            time: Time { micros: self.now, offset_minutes: 0 },
            trigger: Trigger::Turn,
            message: self.made.len().to_string(),
            metadata: BTreeMap::new(),
        };
        let id = self.objects.write(Kind::Commit, commit.encode().into()).unwrap();
        self.commits.insert(id, commit);
        self.made.push(id);
        self.set(branch, Some(RefValue::Object(id)));
        id
    }

    fn tag(&mut self, name: &str, target: ObjectId, expires_micros: Option<i64>) {
        let tag = Tag {
            target,
            target_kind: Kind::Commit,
            name: name.to_owned(),
            tagger: String::new(),
            time_micros: self.now,
            message: String::new(),
            expires_micros,
        };
        let id = self.objects.write(Kind::Tag, tag.encode().into()).unwrap();
        self.tags.insert(id, tag);
        self.set(name, Some(RefValue::Object(id)));
    }

    /// Applies one step of a random history.
    fn step(&mut self, (what, a, b, hours): (u8, u8, u8, u8)) {
        self.now += i64::from(hours % 40) * HOUR / 2;
        let branch = |n: u8| format!("refs/heads/{}/b{}", SESSIONS[usize::from(n) % 2], n % 4);
        let (name, other) = (branch(a), branch(b));
        let any = |n: u8| self.made.get(usize::from(n) % self.made.len().max(1)).copied();
        match (what % 32, any(b), self.tip(&name), self.tip(&other)) {
            (0..3, Some(target), ..) => self.set(&name, Some(RefValue::Object(target))),
            (3, _, Some(_), _) => self.set(&name, None),
            (4, Some(target), ..) => {
                let expires = (a % 2 == 0).then(|| self.now + i64::from(a) * HOUR);
                self.tag(&format!("refs/pins/p{}", a % 4), target, expires);
            }
            (5, Some(target), ..) => self.tag(&format!("refs/tags/t{}", a % 3), target, None),
            (6, ..) => self.set(&format!("refs/pins/p{}", a % 4), None),
            (7, ..) => self.set("HEAD", Some(RefValue::Symbolic(name))),
            (8 | 9, _, Some(ours), Some(theirs)) if ours != theirs => {
                _ = self.commit(&name, vec![ours, theirs], b);
            }
            (_, _, tip, _) => _ = self.commit(&name, tip.into_iter().collect(), b),
        }
    }

    fn roots(&self) -> Roots {
        Roots::find(&self.objects, &self.refs, self.now).unwrap()
    }
}

/// The retention rules, in a slow and simple implementation.
struct Model<'a> {
    world: &'a World,
    /// Everything reachable from the roots.
    graph: BTreeSet<ObjectId>,
    /// Commits that no policy may expire.
    protected: BTreeSet<ObjectId>,
    /// Commits that a pin protects.
    pinned: BTreeSet<ObjectId>,
}

impl<'a> Model<'a> {
    fn new(world: &'a World) -> Self {
        let (graph, protected, pinned) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut model = Self { world, graph, protected, pinned };
        for (name, value) in world.refs.values.iter() {
            model.protect(value);
            if name.starts_with("refs/pins/") {
                model.pinned.extend(model.commit_of(value));
            }
        }
        let kept = world.operations.iter().rev().take(world.kept_operations());
        for (_, operation) in kept.clone().take(PROTECTED_OPERATIONS) {
            for change in &operation.changes {
                [&change.old, &change.new].into_iter().flatten().for_each(|v| model.protect(v));
            }
        }
        for (_, operation) in kept.skip(PROTECTED_OPERATIONS) {
            for old in operation.changes.iter().filter_map(|change| change.old.as_ref()) {
                if model.commit_of(old).is_some_and(|id| !model.graph.contains(&id)) {
                    model.protect(old);
                }
            }
        }
        model.protect_forks();
        model
    }

    fn commit_of(&self, value: &RefValue) -> Option<ObjectId> {
        let RefValue::Object(id) = value else { return None };
        match self.world.tags.get(id) {
            Some(tag) if tag.has_expired(self.world.now) => None,
            Some(tag) => Some(tag.target),
            None => Some(*id),
        }
    }

    fn protect(&mut self, value: &RefValue) {
        if let Some(id) = self.commit_of(value) {
            self.protected.insert(id);
            self.graph.extend(self.world.behind(id));
        }
    }

    /// Branch points, parents of merges, and merge bases.
    fn protect_forks(&mut self) {
        let commits = &self.world.commits;
        for id in &self.graph {
            let continues = |child: &&ObjectId| commits[*child].parents.contains(id);
            if self.graph.iter().filter(continues).count() > 1 {
                self.protected.insert(*id);
            }
            let parents = &commits[id].parents;
            if let [a, b] = parents[..] {
                self.protected.extend([a, b]);
                self.protected.extend(self.world.merge_bases(a, b));
            }
        }
    }

    /// Returns true if a rule of the session's policy keeps the commit.
    fn ruled(&self, id: &ObjectId, policy: &Policy, lines: &[Vec<ObjectId>]) -> bool {
        let commit = &self.world.commits[id];
        let last = policy.keep_last.is_some_and(|n| {
            let n = usize::try_from(n).unwrap();
            let counts = |at: &&ObjectId| !self.pinned.contains(*at);
            lines.iter().any(|line| {
                let before = line.iter().take_while(|at| *at != id).filter(counts);
                line.contains(id) && before.count() < n
            })
        });
        let age = self.world.now - commit.time.micros;
        let thin = policy.thin.iter().any(|thin| {
            let period = match thin {
                Thin::Every(k) => return commit.turn.is_multiple_of(*k),
                Thin::Hourly => HOUR,
                Thin::Daily => 24 * HOUR,
            };
            let bucket = |commit: &Commit| commit.time.micros.div_euclid(period);
            let rival = |other: &&ObjectId| {
                let found = &self.world.commits[*other];
                found.session == commit.session && bucket(found) == bucket(commit)
            };
            let newest = self.graph.iter().filter(rival).max_by_key(|id| {
                let found = &self.world.commits[*id];
                (found.turn, found.time.micros, **id)
            });
            newest == Some(id)
        });
        last || policy.keep_within.is_some_and(|within| age <= within) || thin
    }

    /// Returns every line, newest turn first.
    fn lines(&self) -> Vec<Vec<ObjectId>> {
        let commits = &self.world.commits;
        let tips = self.world.refs.values.iter().filter_map(|(name, value)| match value {
            RefValue::Object(id) if name.starts_with("refs/heads/") => Some(*id),
            _ => None,
        });
        let is_last =
            |id: &&ObjectId| !self.graph.iter().any(|child| commits[child].parents.contains(id));
        let first = |id: &ObjectId| self.world.commits[id].parents.first().copied();
        let starts = tips.chain(self.graph.iter().filter(is_last).copied());
        starts.map(|start| std::iter::successors(Some(start), first).collect()).collect()
    }

    /// Returns the commits that keep their content.
    fn kept(&self, policies: &Policies) -> BTreeSet<ObjectId> {
        let lines = self.lines();
        let stays = |id: &&ObjectId| {
            let policy = policies.of(&self.world.commits[*id].session);
            let policy = policy.filter(|policy| policy.has_rules());
            self.protected.contains(*id)
                || policy.is_none_or(|policy| self.ruled(id, policy, &lines))
        };
        let mut kept: BTreeSet<ObjectId> = self.graph.iter().filter(stays).copied().collect();
        for session in SESSIONS {
            if let Some(budget) = policies.of(session).and_then(|policy| policy.budget_bytes) {
                self.elide_to_fit(&mut kept, session, budget);
            }
        }
        let trees: HashSet<ObjectId> = kept.iter().map(|id| self.world.commits[id].tree).collect();
        let equal = |id: &&ObjectId| trees.contains(&self.world.commits[*id].tree);
        self.graph.iter().filter(equal).copied().collect()
    }

    /// Removes the oldest turns until the session fits, and computes the whole size each time.
    fn elide_to_fit(&self, kept: &mut BTreeSet<ObjectId>, session: &str, budget: u64) {
        loop {
            let own: Vec<&ObjectId> =
                kept.iter().filter(|id| self.world.commits[*id].session == session).collect();
            let free = own.iter().filter(|id| !self.protected.contains(**id));
            let oldest = free.min_by_key(|id| {
                let commit = &self.world.commits[**id];
                (commit.turn, commit.time.micros, **id)
            });
            match oldest.copied().copied() {
                Some(oldest) if self.size(&own) > budget => _ = kept.remove(&oldest),
                _ => return,
            }
        }
    }

    fn size(&self, ids: &[&ObjectId]) -> u64 {
        let trees: HashSet<ObjectId> = ids.iter().map(|id| self.world.commits[*id].tree).collect();
        trees.iter().map(bytes_of).sum()
    }

    /// Returns true if the protected turns alone exceed the budget.
    fn is_over(&self, session: &str, budget: u64) -> bool {
        let fixed = self.protected.iter();
        let own = fixed.filter(|id| self.world.commits[*id].session == session);
        self.size(&own.collect::<Vec<_>>()) > budget
    }
}

impl World {
    fn kept_operations(&self) -> usize {
        let oldest = self.now - crate::maintenance::keep::roots::OPERATION_DAYS * 24 * HOUR;
        let recent = self.operations.iter().rev().take(MAX_OPERATIONS);
        let recent = recent.take_while(|(_, operation)| operation.time_micros >= oldest).count();
        recent.max(MIN_OPERATIONS).min(self.operations.len())
    }

    fn behind(&self, start: ObjectId) -> BTreeSet<ObjectId> {
        let (mut found, mut waiting) = (BTreeSet::new(), vec![start]);
        while let Some(id) = waiting.pop() {
            if found.insert(id) {
                waiting.extend(&self.commits[&id].parents);
            }
        }
        found
    }

    /// Returns the common ancestors that are not an ancestor of another common ancestor.
    fn merge_bases(&self, a: ObjectId, b: ObjectId) -> Vec<ObjectId> {
        let both: BTreeSet<ObjectId> =
            self.behind(a).intersection(&self.behind(b)).copied().collect();
        let older: HashSet<ObjectId> =
            both.iter().flat_map(|id| self.commits[id].parents.clone()).collect();
        both.into_iter().filter(|id| !older.contains(id)).collect()
    }
}

/// Costs computed from the trees, each counted once.
struct ByTree;

impl Cost for ByTree {
    fn begin(&mut self, _: &str, _: &[PricedTurn], _: u64) -> crate::Result<bool> {
        Ok(true)
    }

    fn bytes(&mut self, kept: &[PricedTurn]) -> crate::Result<u64> {
        let trees: HashSet<ObjectId> = kept.iter().map(|turn| turn.tree).collect();
        Ok(trees.iter().map(bytes_of).sum())
    }

    fn weights(&mut self, kept: &[PricedTurn]) -> crate::Result<Vec<u64>> {
        Ok(kept.iter().map(|turn| bytes_of(&turn.tree)).collect())
    }

    fn tolerance(&self, _: u64) -> u64 {
        0
    }
}

fn bytes_of(tree: &ObjectId) -> u64 {
    100 + u64::from(tree.as_bytes()[0])
}

fn any_world() -> impl Strategy<Value = World> {
    let steps = prop::collection::vec(any::<(u8, u8, u8, u8)>(), 1..240);
    (steps, 1..8_u8).prop_map(|(steps, variety)| {
        let mut world = World::default();
        for (what, a, b, hours) in steps {
            // Some histories are slow enough that only the number of operations limits the log.
            world.step((what, a, b, hours % (variety * 5)));
        }
        world
    })
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let thin =
        prop_oneof![(1..20_u64).prop_map(Thin::Every), Just(Thin::Hourly), Just(Thin::Daily)];
    let (last, hours) = (prop::option::of(1..30_u64), prop::option::of(1..400_i64));
    (last, hours, prop::collection::vec(thin, 0..3)).prop_map(|(keep_last, hours, thin)| Policy {
        keep_last,
        keep_within: hours.map(|hours| hours * HOUR),
        thin,
        ..Policy::default()
    })
}

fn any_policies() -> impl Strategy<Value = Policies> {
    (prop::option::of(any_policy()), prop::option::of(any_policy())).prop_map(|(default, own)| {
        let sessions = own.map(|policy| (SESSIONS[0].to_owned(), policy)).into_iter().collect();
        Policies { default, sessions }
    })
}

fn ids(turns: &[ElidedTurn]) -> BTreeSet<ObjectId> {
    turns.iter().map(|turn| turn.commit).collect()
}

fn trees(turns: &[ElidedTurn]) -> HashSet<ObjectId> {
    turns.iter().map(|turn| turn.tree).collect()
}

turntree_properties::properties! {
    cases = 96;

    #[test]
    fn roots_are_what_the_model_protects(world in any_world()) {
        let (roots, model) = (world.roots(), Model::new(&world));
        let kept = world.kept_operations();
        let newest: Vec<ObjectId> = world.operations.iter().rev().map(|(id, _)| *id).collect();
        prop_assert_eq!(&roots.operations[..], &newest[..kept]);
        prop_assert_eq!(roots.floor, newest.get(kept).copied().into_iter().collect::<Vec<_>>());
        let graph: BTreeSet<ObjectId> = roots.graph.commits().iter().map(|c| c.id).collect();
        prop_assert_eq!(&graph, &model.graph);
        prop_assert!(roots.commits.keys().all(|id| model.protected.contains(id)));
        for (name, value) in world.refs.values.iter() {
            let RefValue::Object(id) = value else { continue };
            let held = roots.commits.contains_key(id) || roots.objects.contains_key(id);
            prop_assert!(held, "{name}");
        }
    }

    #[test]
    fn a_plan_keeps_what_the_model_keeps_and_nothing_else(
        world in any_world(), policies in any_policies(),
    ) {
        let (roots, model) = (world.roots(), Model::new(&world));
        let made = plan_retention(&roots, &policies, world.now, &|_| false, None).unwrap();
        let kept: BTreeSet<ObjectId> = made.kept.iter().copied().collect();
        prop_assert_eq!(kept.len(), made.kept.len());
        prop_assert_eq!(&kept, &model.kept(&policies));
        prop_assert!(model.protected.is_subset(&kept));
        let elided = ids(&made.elided);
        prop_assert!(elided.is_disjoint(&kept));
        prop_assert_eq!(elided.len() + kept.len(), model.graph.len());
        let counted: u64 = made.sessions.iter().map(|session| session.expiring).sum();
        prop_assert_eq!(counted, made.elided.len() as u64);
    }

    #[test]
    fn applying_a_plan_twice_changes_nothing(
        world in any_world(), policies in any_policies(), budget in prop::option::of(1..20_000_u64),
    ) {
        let mut policies = policies;
        let budgeted = policies.default.get_or_insert_with(Policy::default);
        budgeted.budget_bytes = budget;
        let roots = world.roots();
        let (now, mut cost) = (world.now, ByTree);
        let first = plan_retention(&roots, &policies, now, &|_| false, Some(&mut cost)).unwrap();
        let gone = trees(&first.elided);
        let second =
            plan_retention(&roots, &policies, now, &|tree| gone.contains(tree), Some(&mut cost)).unwrap();
        prop_assert_eq!(second.elided, vec![]);
        prop_assert_eq!(second.kept, first.kept);
        prop_assert_eq!(second.gone, first.elided);
        prop_assert_eq!(second.notes, first.notes);
    }

    #[test]
    fn a_budget_drops_the_oldest_and_no_more_than_it_must(
        world in any_world(), policy in any_policy(), budget in 1..20_000_u64,
    ) {
        let (roots, model, mut cost) = (world.roots(), Model::new(&world), ByTree);
        let policy = Policy { budget_bytes: Some(budget), ..policy };
        let policies = Policies { default: Some(policy), ..Policies::default() };
        let made = plan_retention(&roots, &policies, world.now, &|_| false, Some(&mut cost)).unwrap();
        let kept: BTreeSet<ObjectId> = made.kept.iter().copied().collect();
        prop_assert!(model.protected.is_subset(&kept));
        prop_assert_eq!(kept, model.kept(&policies));
        for session in &made.sessions {
            let is_over = model.is_over(&session.session, budget);
            prop_assert_eq!(session.bytes.is_some_and(|bytes| bytes > budget), is_over);
        }
        let over = SESSIONS.iter().filter(|session| model.is_over(session, budget)).count();
        prop_assert_eq!(made.notes.len(), over);
    }
}

/// Makes a line of turns in one session, an hour apart, each with its own content.
fn line(turns: u8) -> (World, Vec<ObjectId>) {
    let mut world = World::default();
    let mut made: Vec<ObjectId> = Vec::new();
    for turn in 1..=turns {
        world.now += HOUR;
        let parents = made.last().copied().into_iter().collect();
        made.push(world.commit("refs/heads/one/main", parents, turn));
    }
    (world, made)
}

fn keep_last(n: u64) -> Policies {
    let policy = Policy { keep_last: Some(n), ..Policy::default() };
    Policies { default: Some(policy), ..Policies::default() }
}

#[test]
fn a_plan_says_in_words_what_is_lost_and_what_is_spared() {
    let (mut world, made) = line(200);
    for fork in [10, 20, 30] {
        let name = format!("refs/heads/one/from-{fork}");
        world.commit(&name, vec![made[fork]], 255);
    }
    world.tag("refs/pins/good", made[50], None);
    world.tag("refs/pins/over", made[60], Some(world.now));
    world.tag("refs/tags/v1", made[70], None);
    world.now += HOUR;
    let made = plan_retention(&world.roots(), &keep_last(3), world.now, &|_| false, None).unwrap();
    assert_eq!(
        made.sessions[0].to_string(),
        "session one: 177 of 203 turns expire, turns 1 to 185 except 1 pin, 1 tag, 3 tips, 3 \
         branch points and 3 among the newest of a branch; 12 turns for undo also stay"
    );
    assert_eq!(made.notes, [""; 0]);
    let untouched =
        plan_retention(&world.roots(), &Policies::default(), world.now, &|_| false, None);
    assert_eq!(untouched.unwrap().elided, []);
}

#[test]
fn every_rule_keeps_exactly_what_it_says() {
    let (mut world, made) = line(60);
    for _ in 0..PROTECTED_OPERATIONS {
        world.set("HEAD", Some(RefValue::Symbolic("refs/heads/one/main".into())));
    }
    let rule = |thin: &[Thin]| Policy { thin: thin.to_vec(), ..Policy::default() };
    for (policy, expected) in [
        (Policy { keep_last: Some(3), ..Policy::default() }, &[58, 59, 60][..]),
        // Turn n is at hour n, and the present is hour 60.
        (Policy { keep_within: Some(2 * HOUR), ..Policy::default() }, &[58, 59, 60]),
        (Policy { keep_within: Some(2 * HOUR - 1), ..Policy::default() }, &[59, 60]),
        (rule(&[Thin::Every(25)]), &[25, 50, 60]),
        (rule(&[Thin::Daily]), &[23, 47, 60]),
        (rule(&[Thin::Daily, Thin::Every(30)]), &[23, 30, 47, 60]),
    ] {
        let policies = Policies { default: Some(policy.clone()), ..Policies::default() };
        let plan = plan_retention(&world.roots(), &policies, world.now, &|_| false, None).unwrap();
        let mut turns: Vec<u64> = plan.kept.iter().map(|id| world.commits[id].turn).collect();
        turns.reverse();
        assert_eq!(turns, expected, "{policy:?}");
    }
    // If the newest turn of a day has already expired, the next one represents the day.
    let policies = Policies { default: Some(rule(&[Thin::Daily])), ..Policies::default() };
    let is_gone = |tree: &ObjectId| *tree == world.commits[&made[22]].tree;
    let left = plan_retention(&world.roots(), &policies, world.now, &is_gone, None).unwrap();
    assert_eq!(left.kept, [made[59], made[46], made[21]]);
    assert_eq!(left.gone.len(), 1);
}

#[test]
fn a_branch_that_was_deleted_or_moved_back_is_found_by_undo_until_its_operation_is_old() {
    let (mut world, made) = line(40);
    world.set("refs/heads/one/main", Some(RefValue::Object(made[9])));
    for turn in 0..50 {
        let tip = world.tip("refs/heads/one/main").unwrap();
        world.commit("refs/heads/one/main", vec![tip], 100 + turn);
    }
    let roots = world.roots();
    let why: Vec<String> = roots.commits[&made[39]].iter().map(ToString::to_string).collect();
    assert_eq!(why, ["refs/heads/one/main before operation 41"]);
    // Of the abandoned line, only the end counts as a tip.
    assert!(!roots.commits.contains_key(&made[30]));
    let kept = plan_retention(&roots, &keep_last(2), world.now, &|_| false, None).unwrap().kept;
    assert!(kept.contains(&made[39]) && kept.contains(&made[38]) && kept.contains(&made[9]));
    assert!(!kept.contains(&made[37]));

    world.now += 31 * 24 * HOUR;
    for _ in 0..MIN_OPERATIONS {
        world.set("HEAD", Some(RefValue::Symbolic("refs/heads/one/main".into())));
    }
    assert!(!world.roots().graph.contains(&made[39]));
}

#[test]
fn a_ref_to_what_is_not_there_stops_everything() {
    let (mut world, _) = line(3);
    let missing = ObjectId::of(Kind::Commit, b"missing");
    world.set("refs/heads/one/broken", Some(RefValue::Object(missing)));
    let error = Roots::find(&world.objects, &world.refs, world.now).unwrap_err();
    assert!(error.to_string().contains("refs/heads/one/broken"), "{error}");
}
