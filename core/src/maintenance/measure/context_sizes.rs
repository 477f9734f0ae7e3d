//! Tallies every context of every session: the owner of each object, and the sizes of full copies.
//!
//! Contexts are walked in rounds, newest first, and within a round level by level, as in
//! [`mark`](crate::maintenance::mark::marker). A node that an earlier session owns is walked a second time, to count
//! everything below it as shared. Once all nodes of a round are known, the size of a full copy
//! below each is summed up, children first. The sums are cached, so each node is summed up once.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use bytes::Bytes;
use rayon::prelude::*;

use super::full_copies::{FullCopies, PartialSum, Sum, Summand, copies_per_message};
use super::usage::{LargeObject, SessionStats, Stats, StorageUsage};
use crate::error::{Error, Result};
use crate::maintenance::collection_plan::{ObjectsSize, StoreFilePlan};
use crate::maintenance::keep::graph::{CommitGraph, GraphCommit};
use crate::maintenance::mark::marker::Bits;
use crate::maintenance::mark::node_versions::NodeVersions;
use crate::maintenance::mark::sections::{CONTEXT, Sections};
use crate::maintenance::mark::walk::{ContextWalk, OpenNode, read_nodes, to_number};
use crate::object::{Kind, ObjectId};
use crate::store::Inventory;
use crate::tree::Children;

/// The number of objects in the list of the largest ones.
const LARGEST: usize = 10;

/// Commits whose contexts are walked together.
const COMMITS_PER_ROUND: usize = 256;

/// The owner of objects that no session has.
const NO_OWNER: u32 = u32::MAX;

/// The owners and sizes of every object, and sums over them.
pub(in crate::maintenance) struct ContextSizes<'a> {
    inventory: &'a Inventory<'a>,
    graph: &'a CommitGraph,
    /// Uncompressed and stored bytes by position.
    sizes: Vec<(u32, u32)>,
    /// The session that owns an object, by position.
    owners: Vec<u32>,
    /// Objects that another session has as well.
    shared: Bits,
    copies: FullCopies,
    /// The positions of each commit and of its context, by the number of the commit.
    commits: Vec<(Option<u32>, Option<u32>)>,
    sections: Sections,
    tallies: Vec<SessionStats>,
    /// The usage of the current session, by section.
    usages: Vec<StorageUsage>,
    current: u32,
    /// True if objects of the current session may be among the largest ones.
    names_large: bool,
    /// The largest objects, the smallest of them on top.
    largest: BinaryHeap<Reverse<LargeCandidate>>,
}

/// The children of a node that may have to be counted, and its partial sum, unless the sum is
/// known.
pub(in crate::maintenance) struct UncountedChildren {
    arrows: Vec<UncountedChild>,
    sum: Option<PartialSum>,
}

/// A child of a node.
struct UncountedChild {
    position: u32,
    kind: Kind,
    key: Option<Bytes>,
}

/// A candidate for the largest objects, in order of size.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LargeCandidate {
    raw_bytes: u32,
    position: Reverse<u32>,
    section: u32,
    owner: u32,
    key: Option<Bytes>,
}

impl<'a> ContextSizes<'a> {
    /// Starts without counts for an inventory with these [`sizes`].
    pub(in crate::maintenance) fn new(
        inventory: &'a Inventory<'a>,
        graph: &'a CommitGraph,
        sizes: Vec<(u32, u32)>,
    ) -> Result<Self> {
        let positions = inventory.positions();
        Ok(Self {
            inventory,
            graph,
            sizes,
            owners: vec![NO_OWNER; positions],
            shared: Bits::new(positions),
            copies: FullCopies::new(positions),
            commits: positions_of(inventory, graph)?,
            sections: Sections::new(""),
            tallies: vec![SessionStats::default(); graph.sessions().len()],
            usages: Vec::new(),
            current: NO_OWNER,
            names_large: true,
            largest: BinaryHeap::new(),
        })
    }

    /// Walks all sessions, the oldest first. If `first` is given, that session goes first: it owns
    /// everything that it has, and the largest objects are its own.
    ///
    /// Packs store the session with the newest turn first, so this order reads them back to front.
    /// In the order of names, each session would decompress blocks of its own.
    pub(in crate::maintenance) fn sessions(&mut self, first: Option<&str>) -> Result<()> {
        let graph = self.graph;
        let commits = commits_by_session(graph);
        let named = (0..).zip(graph.sessions());
        let mut order: Vec<(usize, &str)> = named.map(|(at, name)| (at, name.as_str())).collect();
        order.sort_by_cached_key(|(at, name)| {
            let times = commits.get(at).into_iter().flatten();
            let times = times.map(|(_, commit)| (commit.time_micros, commit.id));
            let (began, newest) = (times.clone().min(), times.max());
            let began = began.map(|(time, _)| time);
            (first.is_some_and(|first| first != *name), began, newest, *name)
        });
        for (at, name) in order {
            self.names_large = first.is_none_or(|first| first == name);
            self.session(at, name, commits.get(&at).map_or(&[], |commits| &**commits))?;
        }
        Ok(())
    }

    /// Walks every context of a session.
    fn session(
        &mut self,
        number: usize,
        name: &str,
        commits: &[(usize, &GraphCommit)],
    ) -> Result<()> {
        self.current = to_number(number)?;
        self.usages = vec![StorageUsage::default()];
        let mut tally = SessionStats { session: name.to_owned(), ..SessionStats::default() };
        for commits in commits.chunks(COMMITS_PER_ROUND) {
            let mut roots = Vec::new();
            for (at, commit) in commits {
                let (itself, context) = self.commits.get(*at).copied().unwrap_or_default();
                if let Some(position) = itself {
                    tally.commits.add(self.usage(position as usize));
                    self.set_owner(position as usize);
                }
                let Some(position) = context else {
                    tally.elided += 1;
                    continue;
                };
                tally.turns += 1;
                let oldest = tally.oldest_micros.get_or_insert(commit.time_micros);
                *oldest = commit.time_micros.min(*oldest);
                roots.push(position);
            }
            self.round(&roots)?;
        }
        for (number, usage) in (0..).zip(&self.usages).skip(1) {
            if usage.objects > 0 {
                tally.sections.insert(self.sections.name(number).to_owned(), *usage);
            }
        }
        tally.contexts = self.usages.first().copied().unwrap_or_default();
        if let Some(slot) = self.tallies.get_mut(number) {
            *slot = tally;
        }
        Ok(())
    }

    /// Walks contexts and sums them up.
    fn round(&mut self, roots: &[u32]) -> Result<()> {
        let mut open = Vec::new();
        for position in roots {
            if self.count(*position, CONTEXT, None) {
                open.push(OpenNode { position: *position, section: CONTEXT });
            }
        }
        self.walk(open)?;
        for root in roots {
            self.copies.sum_up(*root);
        }
        Ok(())
    }

    /// Counts an object. Returns true if everything below it has to be counted too: the object is
    /// new, or has just become shared.
    fn count(&mut self, position: u32, section: u32, key: Option<Bytes>) -> bool {
        let at = position as usize;
        let usage = self.usage(at);
        match self.owners.get(at) {
            Some(&NO_OWNER) => {
                self.set_owner(at);
                let number = section as usize;
                if self.usages.len() <= number {
                    self.usages.resize(number + 1, StorageUsage::default());
                }
                if let Some(slot) = self.usages.get_mut(number) {
                    slot.add(usage);
                }
                self.note_large(position, section, key);
                true
            }
            Some(owner) if *owner != self.current && self.shared.insert(at) => {
                if let Some(tally) = self.tallies.get_mut(*owner as usize) {
                    tally.shared.add(usage);
                }
                true
            }
            _ => false,
        }
    }

    fn set_owner(&mut self, position: usize) {
        if let Some(owner) = self.owners.get_mut(position) {
            *owner = self.current;
        }
    }

    fn usage(&self, position: usize) -> StorageUsage {
        let (raw, stored) = self.sizes.get(position).copied().unwrap_or_default();
        StorageUsage { objects: 1, raw_bytes: raw.into(), stored_bytes: stored.into() }
    }

    /// Returns the uncompressed bytes of an object.
    fn raw_bytes(&self, position: u32) -> u32 {
        self.sizes.get(position as usize).map_or(0, |(raw, _)| *raw)
    }

    fn note_large(&mut self, position: u32, section: u32, key: Option<Bytes>) {
        let raw_bytes = self.raw_bytes(position);
        let smallest = self.largest.peek().map(|Reverse(large)| large.raw_bytes.cmp(&raw_bytes));
        let is_full = self.largest.len() == LARGEST && smallest != Some(Ordering::Less);
        if is_full || !self.names_large {
            return;
        }
        let (position, owner) = (Reverse(position), self.current);
        self.largest.push(Reverse(LargeCandidate { raw_bytes, position, section, owner, key }));
        if self.largest.len() > LARGEST {
            self.largest.pop();
        }
    }

    /// Counts the bytes of full copies, after every context is summed up.
    pub(super) fn count_copies(&mut self) {
        let graph = self.graph;
        let sum = |at: usize| self.copies.sum(self.commits.get(at)?.1?);
        for (at, commit) in graph.commits().iter().enumerate() {
            let Some(now) = sum(at) else { continue };
            let parent = graph.parents(commit).first();
            let before = parent.map_or(Some(Sum::default()), |at| sum(*at));
            if let Some(tally) = self.tallies.get_mut(commit.session) {
                tally.full_bytes += now.bytes;
                // The new messages of a turn are unknown if the context of its parent expired.
                tally.per_message_bytes +=
                    before.map_or(now.bytes, |before| copies_per_message(before, now));
            }
        }
    }

    /// Returns the positions of everything in every context of every session, after the walk.
    pub(super) fn walked_positions(&self) -> Bits {
        let mut walked = Bits::new(self.owners.len());
        let owned = self.owners.iter().enumerate().filter(|(_, owner)| **owner != NO_OWNER);
        for (position, _) in owned {
            walked.insert(position);
        }
        walked
    }

    pub(super) fn update_session(&mut self, session: &str, change: impl FnOnce(&mut SessionStats)) {
        let number = self.graph.session_number(session);
        if let Some(tally) = number.and_then(|number| self.tallies.get_mut(number)) {
            change(tally);
        }
    }

    pub(in crate::maintenance) fn finish(
        self,
        live: &Bits,
        files: Vec<StoreFilePlan>,
        session: Option<&str>,
    ) -> Stats {
        let mut stats = Stats {
            sessions: Vec::new(),
            operations: StorageUsage::default(),
            other: StorageUsage::default(),
            expiring: ObjectsSize::default(),
            garbage: ObjectsSize::default(),
            files,
            parity_bytes: 0,
            history_index_bytes: 0,
            ids_bytes: 0,
            parity_policy: None,
            largest: self.largest(),
        };
        for (position, owner) in self.owners.iter().enumerate() {
            let (is_owned, is_live) = (*owner != NO_OWNER, live.contains(position));
            if is_owned && is_live {
                continue;
            }
            let Some(entry) = self.inventory.entry(position) else { continue };
            let usage = self.usage(position);
            match (is_owned, is_live) {
                (true, _) => stats.expiring.add(usage.stored_bytes),
                (false, false) => stats.garbage.add(usage.stored_bytes),
                (false, true) if entry.kind == Kind::Operation => stats.operations.add(usage),
                (false, true) => stats.other.add(usage),
            }
        }
        let chosen = |tally: &SessionStats| session.is_none_or(|name| name == tally.session);
        stats.sessions = self.tallies.into_iter().filter(chosen).collect();
        stats.sessions.sort_by(|a, b| a.session.cmp(&b.session));
        stats
    }

    fn largest(&self) -> Vec<LargeObject> {
        let mut largest: Vec<&LargeCandidate> =
            self.largest.iter().map(|Reverse(large)| large).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let named = largest.into_iter().filter_map(|large| {
            let position = large.position.0 as usize;
            let entry = self.inventory.entry(position)?;
            let section = self.sections.name(large.section);
            let path = match &large.key {
                Some(key) => format!("{section}/{}", String::from_utf8_lossy(key)),
                None => section.to_owned(),
            };
            let session = self.tallies.get(large.owner as usize)?.session.clone();
            let StorageUsage { raw_bytes, stored_bytes, .. } = self.usage(position);
            Some(LargeObject { raw_bytes, stored_bytes, id: entry.id, session, path })
        });
        named.collect()
    }

    /// Returns true if an object needs no further visit in this session: it is owned by the
    /// session, or counted as shared.
    fn is_done(&self, position: u32) -> bool {
        let at = position as usize;
        let owner = self.owners.get(at).copied().unwrap_or(NO_OWNER);
        owner == self.current || owner != NO_OWNER && self.shared.contains(at)
    }

    /// Returns the children of a node that may have to be counted, and its partial sum.
    fn uncounted_children(
        &self,
        node_versions: &mut NodeVersions<'_>,
        node: OpenNode,
        (id, children): (ObjectId, &Children),
    ) -> Result<UncountedChildren> {
        let in_context = node.section == CONTEXT;
        let mut arrows = Vec::new();
        let is_summed = self.copies.sum(node.position).is_some();
        let mut sum = (!is_summed).then(PartialSum::default);
        let found = node_versions.find(node.section, children.links())?;
        for ((key, link), found) in children.iter().zip(found) {
            let Some(position) = found.position else {
                if self.graph.is_lost(&link.id) {
                    continue;
                }
                let expected = format_args!("the object {} it refers to", link.id);
                return Err(Error::corrupt(id, expected, "nothing"));
            };
            if let Some(sum) = &mut sum {
                let child = match key {
                    Some(section) if in_context => Summand::section(position, section),
                    _ => Summand::whole(position),
                };
                match link.kind {
                    Kind::Node => self.copies.add_node(sum, child),
                    _ => sum.add_item(child, self.raw_bytes(position)),
                }
            }
            // Children of an earlier node are marked by then.
            if !found.is_repeated && !self.is_done(position) {
                let key = key.map(Bytes::copy_from_slice);
                arrows.push(UncountedChild { position, kind: link.kind, key });
            }
        }
        Ok(UncountedChildren { arrows, sum })
    }
}

impl ContextWalk for ContextSizes<'_> {
    type Node = OpenNode;
    type Links = UncountedChildren;

    fn links(&self, nodes: &[OpenNode]) -> Vec<Result<UncountedChildren>> {
        let mut node_versions = NodeVersions::new(self.inventory);
        read_nodes(self.inventory, nodes, |node, id, children| {
            self.uncounted_children(&mut node_versions, node, (id, children))
        })
    }

    fn visit_links(
        &mut self,
        node: OpenNode,
        links: Result<UncountedChildren>,
        open: &mut Vec<OpenNode>,
    ) -> Result<()> {
        let UncountedChildren { arrows, sum } = links?;
        for UncountedChild { position, kind, key } in arrows {
            let (section, key) = match key {
                Some(name) if node.section == CONTEXT => (self.sections.number(name), None),
                key => (node.section, key),
            };
            if self.count(position, section, key) && kind == Kind::Node {
                open.push(OpenNode { position, section });
            }
        }
        if let Some(sum) = sum {
            self.copies.note(node.position, sum);
        }
        Ok(())
    }
}

/// Returns the uncompressed and stored bytes by position.
///
/// # Errors
/// `Corrupt` when a block does not verify.
pub(in crate::maintenance) fn sizes(inventory: &Inventory<'_>) -> Result<Vec<(u32, u32)>> {
    let mut sizes = Vec::with_capacity(inventory.positions());
    for file in inventory.files() {
        for position in file.first..file.first + file.objects {
            let (raw, stored) = inventory.sizes(position)?.unwrap_or_default();
            sizes.push((raw, u32::try_from(stored).unwrap_or(u32::MAX)));
        }
        inventory.release_pages();
    }
    Ok(sizes)
}

/// Returns the positions of each commit and of its context, by the number of the commit.
fn positions_of(
    inventory: &Inventory<'_>,
    graph: &CommitGraph,
) -> Result<Vec<(Option<u32>, Option<u32>)>> {
    let find = |id: &ObjectId| inventory.find(id).map(to_number).transpose();
    let found =
        graph.commits().par_iter().map(|commit| Ok((find(&commit.id)?, find(&commit.tree)?)));
    found.collect()
}

/// Groups commits with their numbers by the number of their session, newest first.
fn commits_by_session(graph: &CommitGraph) -> HashMap<usize, Vec<(usize, &GraphCommit)>> {
    let mut commits: HashMap<usize, Vec<(usize, &GraphCommit)>> = HashMap::new();
    for (at, commit) in graph.commits().iter().enumerate() {
        commits.entry(commit.session).or_default().push((at, commit));
    }
    for commits in commits.values_mut() {
        commits.sort_by_key(|(_, commit)| Reverse((commit.turn, commit.time_micros, commit.id)));
    }
    commits
}

impl ObjectsSize {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}
