//! Follows everything reachable from the roots of a store that may be damaged.
//!
//! A collection stops at the first missing object. This walk continues, and records each lost
//! object and the place that needs it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::finding::{FsckFinding, FsckKind};
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::keep::roots::{Reason, Roots, is_kept_operation};
use crate::maintenance::mark::marker::Bits;
use crate::maintenance::mark::node_versions::{LinkPosition, NodeVersions};
use crate::maintenance::mark::sections::{CONTEXT, Sections};
use crate::maintenance::mark::walk::{ContextWalk, to_number};
use crate::object::{Commit, Kind, Object, ObjectId, Operation, RefChange, RefValue, Tag};
use crate::repo::{BranchName, Grafts, HEAD, forgotten_through, is_place, pin_name};
use crate::store::{Examination, Inventory, KnownLosses, Tombstone};
use crate::tree::{Children, Link};

const ABSENT: &str = "it is in no file";
const UNREADABLE: &str = "no copy of it verifies";

/// A walk over everything reachable, with its findings.
#[derive(Debug)]
pub(in crate::maintenance) struct ReachabilityWalk<'a> {
    inventory: &'a Inventory<'a>,
    unreadable: &'a HashSet<ObjectId>,
    now: i64,
    grafts: Grafts,
    /// The known losses: they are reported, but do not count as damage.
    holes: Arc<KnownLosses>,
    pub(in crate::maintenance) findings: Vec<FsckFinding>,
    /// Missing objects that are reachable, including the holes, with their kinds.
    pub(in crate::maintenance) lost: BTreeMap<ObjectId, Kind>,
    /// The number of reached commits.
    pub(in crate::maintenance) commits: u64,
    /// The number of their contexts with a tombstone.
    pub(in crate::maintenance) elided: u64,
    pub(in crate::maintenance) operations: u64,
    seen: Bits,
    trees: Vec<Tree>,
    known_commits: HashSet<ObjectId>,
    /// Objects that were reached other than through contexts.
    known_objects: HashSet<ObjectId>,
    sections: Sections,
}

/// The context of a commit, or a tree that a ref holds.
#[derive(Debug)]
struct Tree {
    root: ObjectId,
    /// The session, or the name of the ref that holds it.
    session: String,
    turn: Option<u64>,
    /// True if the context has a tombstone.
    dropped: bool,
}

/// A reached node that is not read yet.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintenance) struct ReachedNode {
    id: ObjectId,
    position: u32,
    /// The number of the node's tree.
    tree: u32,
    section: u32,
}

/// A link of a node to an object that may be new to the walk.
pub(in crate::maintenance) struct ReachedLink {
    link: Link,
    /// The position of the target; `None` if it is missing.
    position: Option<u32>,
    /// The name of the section that begins here.
    begins: Option<Bytes>,
}

impl<'a> ReachabilityWalk<'a> {
    /// Follows everything reachable from the roots at the moment `now`.
    pub(in crate::maintenance) fn find(examination: &'a Examination<'_>, now: i64) -> Self {
        let inventory = &examination.inventory;
        // If they are unreadable, the walk from the roots reports it.
        let holes = KnownLosses::load(inventory, inventory.refs()).unwrap_or_default();
        Self::find_with_losses(examination, now, Arc::new(holes))
    }

    /// Like [`ReachabilityWalk::find`], with these holes.
    pub(in crate::maintenance) fn find_with_losses(
        examination: &'a Examination<'_>,
        now: i64,
        holes: Arc<KnownLosses>,
    ) -> Self {
        let mut reach = Self::new(examination, now, holes);
        reach.check_refs();
        reach.check_operations();
        reach.follow_roots();
        reach.follow_contexts();
        reach
    }

    /// Follows everything reachable from refs, but no operations.
    pub(super) fn from_refs(
        examination: &'a Examination<'_>,
        now: i64,
        holes: Arc<KnownLosses>,
    ) -> Self {
        let mut reach = Self::new(examination, now, holes);
        reach.follow_refs();
        reach.follow_contexts();
        reach
    }

    fn new(examination: &'a Examination<'_>, now: i64, holes: Arc<KnownLosses>) -> Self {
        let inventory = &examination.inventory;
        Self {
            inventory,
            unreadable: &examination.unreadable,
            now,
            // If they are unreadable, the walk from the roots reports it.
            grafts: Grafts::load(inventory, inventory.refs()).unwrap_or_default(),
            holes,
            findings: Vec::new(),
            lost: BTreeMap::new(),
            commits: 0,
            elided: 0,
            operations: 0,
            seen: Bits::new(inventory.positions()),
            trees: Vec::new(),
            known_commits: HashSet::new(),
            known_objects: HashSet::new(),
            sections: Sections::new("the context itself"),
        }
    }

    /// Returns true if the object at a position was reached.
    pub(in crate::maintenance) fn is_reached(&self, position: usize, id: &ObjectId) -> bool {
        self.seen.contains(position)
            || self.known_commits.contains(id)
            || self.known_objects.contains(id)
    }

    /// Returns the grafts: parents of commits whose own are forgotten.
    pub(in crate::maintenance) fn grafts(&self) -> &Grafts {
        &self.grafts
    }

    /// Returns the inventory of the walk.
    pub(in crate::maintenance) fn inventory(&self) -> &'a Inventory<'a> {
        self.inventory
    }

    /// Returns true if the object is stored but no copy of it verifies.
    pub(super) fn is_unreadable(&self, id: &ObjectId) -> bool {
        self.unreadable.contains(id)
    }

    /// Returns true if a required object is missing and is not an accepted loss.
    pub(super) fn is_missing(&self, id: &ObjectId) -> bool {
        self.lost.contains_key(id) && !self.is_hole(id)
    }

    /// Returns the moment of the walk.
    pub(in crate::maintenance) fn now(&self) -> i64 {
        self.now
    }

    /// Checks the value of each ref against its name.
    fn check_refs(&mut self) {
        for (name, value) in self.inventory.refs().values.iter() {
            let problem = match value {
                RefValue::Symbolic(target) if name == HEAD || is_place(name) => {
                    BranchName::from_full(target)
                        .is_none()
                        .then(|| format!("{name} does not hold the name of a branch"))
                }
                RefValue::Symbolic(_) => {
                    Some("only HEAD and places may hold the name of a ref".to_owned())
                }
                RefValue::Object(_) if name == HEAD || is_place(name) => {
                    Some(format!("{name} does not hold the name of a branch"))
                }
                RefValue::Object(id) => match self.read(id) {
                    Err(why) => {
                        // An accepted loss is no excuse here: the object that a ref names must
                        // exist.
                        let message = format!("{} {id} is lost: {why}", Kind::Commit);
                        self.lost.insert(*id, Kind::Commit);
                        self.add(FsckKind::Lost, name.to_owned(), message, Some(*id));
                        continue;
                    }
                    Ok(None) => None,
                    Ok(Some(Object { kind, .. })) => kind_problem(name, kind),
                },
            };
            if let Some(message) = problem {
                self.add(FsckKind::Ref, name.to_owned(), message, None);
            }
        }
    }

    /// Walks back from the newest operation, and reverts each in a copy of the refs.
    fn check_operations(&mut self) {
        let refs = self.inventory.refs();
        let mut values = refs.values.clone();
        let Some(mut id) = refs.operation else { return };
        // The sequence of a joining operation is not the sequence of its first parent plus one.
        let mut expected = Some(refs.sequence);
        // If the value is unreadable, the walk from the roots reports it.
        let through = forgotten_through(self.inventory, refs).unwrap_or_default();
        // An operation that is not kept may still be in a file that was not rewritten, without its
        // parents.
        let mut is_kept = true;
        loop {
            let place =
                expected.map_or_else(|| format!("operation {id}"), |at| format!("operation {at}"));
            // An operation with a tombstone may still be in a file that was not rewritten. But the
            // newest operation must exist: the refs are its values, so a log without it is damaged.
            let recorded = self.inventory.tombstone(&id).is_some() && self.operations > 0;
            let operation = match self.read(&id) {
                _ if recorded => {
                    if is_kept && self.holes.is_lost(&id) {
                        self.report_lost(&id, Kind::Operation, place, ABSENT);
                    }
                    return;
                }
                Ok(None) => return,
                Err(_) if !is_kept => return,
                Err(why) => return self.report_lost(&id, Kind::Operation, place, &why),
                Ok(Some(object)) => Operation::decode(&object.bytes),
            };
            let operation = match operation {
                Ok(operation) => operation,
                Err(error) => {
                    return self.add(FsckKind::Malformed, place, error.to_string(), Some(id));
                }
            };
            is_kept &= is_kept_operation(self.operations, operation.time_micros, self.now)
                && operation.sequence > through;
            self.operations += 1;
            let sequence = operation.sequence;
            let place = expected.map_or_else(|| format!("operation {sequence}"), |_| place);
            if expected.is_some_and(|expected| sequence != expected) {
                let message = format!("the operation at this position has the number {sequence}");
                self.add(FsckKind::Operations, place.clone(), message, Some(id));
            }
            for change in operation.changes {
                if is_kept {
                    self.report_accepted_losses(&change, &place);
                }
                // Either a ref changed without an operation, or an operation was lost. In both
                // cases `undo` would set values that the ref never had.
                if values.get(&change.name) != change.new.as_ref() {
                    let message =
                        format!("it does not match the value of {} after it", change.name);
                    self.add(FsckKind::Operations, place.clone(), message, Some(id));
                }
                match change.old {
                    Some(old) => values.insert(change.name, old),
                    None => values.remove(&change.name),
                };
            }
            // A gap in the numbers means that the parent link skips an operation.
            expected = (operation.parents.len() == 1).then(|| sequence.saturating_sub(1));
            match *operation.parents {
                [] => {
                    // Everything is reverted. A remaining ref has no origin.
                    for name in values.keys() {
                        let message = "no operation explains its value".to_owned();
                        self.add(FsckKind::Operations, name.to_owned(), message, None);
                    }
                    return;
                }
                // Earlier values are those of the first parent's line.
                [parent, ..] => id = parent,
            }
        }
    }

    /// Reports old values of refs that are accepted losses. Other old values may be freed.
    fn report_accepted_losses(&mut self, change: &RefChange, place: &str) {
        for value in [&change.old, &change.new].into_iter().flatten() {
            if let RefValue::Object(id) = value
                && self.is_hole(id)
            {
                self.report_lost(id, Kind::Commit, place.to_owned(), ABSENT);
            }
        }
    }

    /// Reaches the commits and the single objects that must stay.
    fn follow_roots(&mut self) {
        let (refs, holes) = (self.inventory.refs(), Arc::clone(&self.holes));
        match Roots::find_with_losses(self.inventory, refs, self.now, None, holes) {
            Ok(roots) => {
                for (id, reasons) in &roots.commits {
                    let reason = reasons.first().map(Reason::to_string).unwrap_or_default();
                    self.follow_commits(*id, &reason);
                }
                for (id, reason) in &roots.objects {
                    self.follow_object(*id, &reason.to_string());
                }
            }
            Err(error) => {
                self.follow_refs();
                if self.findings.is_empty() {
                    self.add(FsckKind::Lost, "roots".to_owned(), error.to_string(), None);
                }
            }
        }
    }

    /// Reaches the values of refs.
    fn follow_refs(&mut self) {
        for (name, value) in self.inventory.refs().values.iter() {
            if let RefValue::Object(id) = value {
                self.follow_object(*id, name);
            }
        }
    }

    /// Reaches an object that is held outside of contexts, through any number of tags.
    fn follow_object(&mut self, id: ObjectId, place: &str) {
        let mut next = Some(id);
        while let Some(id) = next.take().filter(|id| self.known_objects.insert(*id)) {
            let object = match self.read(&id) {
                Ok(Some(object)) => object,
                Ok(None) => return,
                Err(why) => return self.report_lost(&id, Kind::Blob, place.to_owned(), &why),
            };
            match object.kind {
                Kind::Commit => self.follow_commits(id, place),
                Kind::Tag => match Tag::decode(&object.bytes) {
                    Ok(tag) if tag.has_expired(self.now) => {}
                    Ok(tag) => next = Some(tag.target),
                    Err(error) => {
                        self.add(
                            FsckKind::Malformed,
                            place.to_owned(),
                            error.to_string(),
                            Some(id),
                        );
                    }
                },
                Kind::Node => {
                    let session = place.to_owned();
                    self.trees.push(Tree { session, turn: None, root: id, dropped: false });
                }
                Kind::Blob | Kind::Operation => {}
            }
        }
    }

    /// Reaches a commit and all of its ancestors.
    fn follow_commits(&mut self, start: ObjectId, place: &str) {
        let mut waiting = vec![(start, place.to_owned())];
        while let Some((id, place)) = waiting.pop() {
            if !self.known_commits.insert(id) {
                continue;
            }
            let object = match self.read(&id) {
                Ok(Some(object)) => object,
                Ok(None) => continue,
                Err(why) => {
                    self.report_lost(&id, Kind::Commit, place, &why);
                    continue;
                }
            };
            match Commit::decode(&object.bytes) {
                Ok(commit) => {
                    let parents = self.grafts.parents(&commit);
                    let Commit { tree, session, turn, .. } = commit;
                    let dropped = self.inventory.tombstone(&tree).is_some();
                    let place = format!("before turn {turn} of {session}");
                    waiting.extend(parents.into_iter().rev().map(|id| (id, place.clone())));
                    self.trees.push(Tree { root: tree, session, turn: Some(turn), dropped });
                    self.commits += 1;
                }
                Err(error) => {
                    self.add(FsckKind::Malformed, place, error.to_string(), Some(id));
                }
            }
        }
    }

    /// Reaches everything in the contexts, level by level.
    fn follow_contexts(&mut self) {
        let mut open = Vec::new();
        for number in 0..self.trees.len() {
            let Some(tree) = self.trees.get(number) else { break };
            if tree.dropped && self.inventory.find(&tree.root).is_none() {
                self.elided += 1;
                continue;
            }
            let link = Link { kind: Kind::Node, id: tree.root };
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let position = self.inventory.find(&link.id).and_then(|at| to_number(at).ok());
            self.reach_link((link, position), number, CONTEXT, &mut open);
        }
        // Damage in a node becomes a finding, so this walk never stops early.
        let _ends = self.walk(open);
    }

    fn reach_link(
        &mut self,
        (Link { kind, id }, position): (Link, Option<u32>),
        tree: u32,
        section: u32,
        next: &mut Vec<ReachedNode>,
    ) {
        let Some(position) = position else {
            // Retention elides whole contexts, so only redacted objects may be missing inside one.
            if self.inventory.tombstone(&id) != Some(Tombstone::Redacted) {
                let place = self.place(tree, section);
                let dropped = self.trees.get(tree as usize).is_some_and(|tree| tree.dropped);
                if dropped {
                    let message = "expired, and not all of its objects are removed yet".to_owned();
                    return self.add(FsckKind::Leftover, self.place(tree, CONTEXT), message, None);
                }
                self.report_lost(&id, kind, place, ABSENT);
            }
            return;
        };
        if !self.seen.insert(position as usize) {
            return;
        }
        if kind == Kind::Node {
            next.push(ReachedNode { id, position, tree, section });
        } else if self.unreadable.contains(&id) {
            let place = self.place(tree, section);
            self.report_lost(&id, kind, place, UNREADABLE);
        }
    }

    /// Returns the links of a node without those that are already reached.
    fn reached_links(
        &self,
        section: u32,
        children: &Children,
        found: &[LinkPosition],
    ) -> Vec<ReachedLink> {
        let is_reached = |found: &LinkPosition| {
            let is_seen = |at: u32| found.is_repeated || self.seen.contains(at as usize);
            found.position.is_some_and(is_seen)
        };
        let new = children.iter().zip(found).filter(|(_, found)| !is_reached(found));
        let link = |((key, link), found): ((Option<&[u8]>, &Link), &LinkPosition)| ReachedLink {
            link: *link,
            position: found.position,
            begins: key.filter(|_| section == CONTEXT).map(Bytes::copy_from_slice),
        };
        new.map(link).collect()
    }

    /// Returns an object, `None` if it has a tombstone, or the reason why it is lost.
    fn read(&self, id: &ObjectId) -> std::result::Result<Option<Object>, String> {
        match self.inventory.read_any(id) {
            Ok(Some(object)) => Ok(Some(object)),
            Ok(None) if self.inventory.tombstone(id).is_some() => Ok(None),
            Ok(None) => Err(ABSENT.to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) => {
                Ok(None)
            }
            Err(_) => Err(UNREADABLE.to_owned()),
        }
    }

    fn report_lost(&mut self, id: &ObjectId, kind: Kind, place: String, why: &str) {
        let is_elsewhere = self.holes.is_distant(id) && self.inventory.find(id).is_none();
        if is_elsewhere || self.lost.insert(*id, kind).is_some() {
            return;
        }
        let (found, message) = if self.is_hole(id) {
            (FsckKind::Hole, format!("{kind} {id} is lost (accepted loss)"))
        } else {
            (FsckKind::Lost, format!("{kind} {id} is lost: {why}"))
        };
        self.add(found, place, message, Some(*id));
    }

    fn is_hole(&self, id: &ObjectId) -> bool {
        self.holes.is_lost(id) && self.inventory.find(id).is_none()
    }

    fn add(&mut self, kind: FsckKind, place: String, message: String, object: Option<ObjectId>) {
        self.findings.push(FsckFinding { kind, place, message, object });
    }

    fn place(&self, tree: u32, section: u32) -> String {
        let section = self.sections.name(section);
        match self.trees.get(tree as usize) {
            Some(Tree { session, turn: Some(turn), .. }) => {
                format!("turn {turn} of {session}, {section}")
            }
            Some(Tree { session, .. }) => format!("{session}, {section}"),
            None => section.to_owned(),
        }
    }
}

impl ContextWalk for ReachabilityWalk<'_> {
    type Node = ReachedNode;
    type Links = Vec<ReachedLink>;

    fn links(&self, nodes: &[ReachedNode]) -> Vec<Result<Vec<ReachedLink>>> {
        let positions = nodes.iter().map(|node| node.position as usize);
        let read = self.inventory.read_each_at(positions);
        let (mut children, mut node_versions) =
            (Children::default(), NodeVersions::new(self.inventory));
        let links = nodes.iter().zip(read).map(|(node, read)| {
            let object = match read {
                Ok((_, object)) => object,
                // Another copy may be readable.
                Err(_) => self.inventory.read_any(&node.id)?.ok_or_else(|| {
                    Error::not_found(format!("node {} is not in the store", node.id))
                })?,
            };
            if object.kind != Kind::Node {
                return Err(Error::corrupt(node.id, Kind::Node, object.kind));
            }
            children.read(&object.bytes)?;
            let found = node_versions.find(node.section, children.links())?;
            Ok(self.reached_links(node.section, &children, found))
        });
        links.collect()
    }

    fn visit_links(
        &mut self,
        node: ReachedNode,
        links: Result<Vec<ReachedLink>>,
        open: &mut Vec<ReachedNode>,
    ) -> Result<()> {
        let links = match links {
            Ok(links) => links,
            Err(error) => {
                let place = self.place(node.tree, node.section);
                match self.inventory.read_any(&node.id) {
                    Ok(_) => {
                        let message = error.to_string();
                        self.add(FsckKind::Malformed, place, message, Some(node.id));
                    }
                    Err(_) => self.report_lost(&node.id, Kind::Node, place, UNREADABLE),
                }
                return Ok(());
            }
        };
        for ReachedLink { link, position, begins } in links {
            let section = begins.map_or(node.section, |name| self.sections.number(name));
            self.reach_link((link, position), node.tree, section, open);
        }
        Ok(())
    }
}

/// Returns the problem if a ref of this name must not hold an object of this kind.
fn kind_problem(name: &str, kind: Kind) -> Option<String> {
    let is_branch = name.starts_with("refs/heads/");
    if is_branch && BranchName::from_full(name).is_none() {
        return Some("it is not a valid name of a branch".to_owned());
    }
    let named = name.starts_with("refs/tags/") || pin_name(name).is_some();
    let allowed = match kind {
        Kind::Commit => true,
        Kind::Tag => !is_branch,
        _ => !is_branch && !named,
    };
    (!allowed).then(|| format!("holds a {kind}, not a snapshot"))
}
