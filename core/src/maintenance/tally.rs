//! The tally of every context of every session: whose each object is, and what full copies take.
//!
//! Contexts are walked in rounds, newest first, and within a round level by level, as they are
//! [marked](super::mark). A node that another session had first is walked once more, to count what
//! is below it as shared. When all nodes of a round are known, what a full copy below each would take
//! is summed up, children first; a node's sum is kept, so no context is summed up twice.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use bytes::Bytes;

use super::collection_plan::{ObjectsSize, StoreFilePlan};
use super::graph::{CommitGraph, GraphCommit};
use super::mark::Bits;
use super::sections::{CONTEXT, Sections};
use super::usage::{LargeObject, SessionStats, Stats, StorageUsage};
use super::walk::{ContextWalk, OpenNode, read_nodes, short};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};
use crate::store::Inventory;
use crate::tree::Child;

/// Objects that are named as the largest ones.
const LARGEST: usize = 10;

/// Commits whose contexts are walked at once.
const COMMITS_PER_ROUND: usize = 256;

/// The section that holds again what conversations hold.
const SOURCE: &str = "source";

/// The owner of what no session has.
const NOBODY: u32 = u32::MAX;

/// The owners and sizes of every object, and sums over them.
pub(super) struct Tally<'a> {
    inventory: &'a Inventory<'a>,
    graph: &'a CommitGraph,
    /// Own bytes by position, and those on disk.
    sizes: Vec<(u32, u32)>,
    /// The session that an object is counted for, by position.
    owners: Vec<u32>,
    /// Objects that another session has as well.
    shared: Bits,
    /// What is below a node, by position, and of which nodes it is known.
    sums: Vec<Sum>,
    summed: Bits,
    /// The links of the nodes of this round, until they are summed up.
    edges: HashMap<u32, Node>,
    sections: Sections,
    tallies: Vec<SessionStats>,
    /// Of the session that is walked, by section.
    usages: Vec<StorageUsage>,
    current: u32,
    /// True if its objects may be named as the largest ones.
    names_large: bool,
    /// The smallest of the largest first.
    largest: BinaryHeap<Reverse<Large>>,
}

/// The size of a full copy of everything below a node.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    /// Items; of a context, its messages.
    items: u64,
}

/// A node that is not summed up.
#[derive(Debug)]
struct Node {
    in_context: bool,
    edges: Vec<Edge>,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    position: u32,
    section: u32,
    is_node: bool,
}

/// A child of a node.
pub(super) struct Arrow {
    position: u32,
    kind: Kind,
    key: Option<Bytes>,
}

/// A candidate for the largest objects, in order of size.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Large {
    raw_bytes: u32,
    position: Reverse<u32>,
    section: u32,
    owner: u32,
    key: Option<Bytes>,
}

impl<'a> Tally<'a> {
    pub(super) fn new(inventory: &'a Inventory<'a>, graph: &'a CommitGraph) -> Result<Self> {
        let positions = inventory.positions();
        let mut sizes = Vec::with_capacity(positions);
        for file in inventory.files() {
            for position in file.first..file.first + file.objects {
                let (raw, stored) = inventory.sizes(position)?.unwrap_or_default();
                sizes.push((raw, u32::try_from(stored).unwrap_or(u32::MAX)));
            }
            inventory.let_pages_go();
        }
        Ok(Self {
            inventory,
            graph,
            sizes,
            owners: vec![NOBODY; positions],
            shared: Bits::new(positions),
            sums: vec![Sum::default(); positions],
            summed: Bits::new(positions),
            edges: HashMap::new(),
            sections: Sections::new(""),
            tallies: vec![SessionStats::default(); graph.sessions().len()],
            usages: Vec::new(),
            current: NOBODY,
            names_large: true,
            largest: BinaryHeap::new(),
        })
    }

    /// Walks all sessions, the one that began first before the others, and `first` before all: what it
    /// has is counted for itself then, and the largest objects are its own.
    ///
    /// Packs have the session with the newest turn first, so this reads them from back to front; in the
    /// order of names each session would unpack blocks of its own.
    pub(super) fn sessions(&mut self, first: Option<&str>) -> Result<()> {
        let graph = self.graph;
        let commits = commits_by_session(graph);
        let named = (0..).zip(graph.sessions());
        let mut order: Vec<(usize, &str)> = named.map(|(at, name)| (at, name.as_str())).collect();
        order.sort_by_cached_key(|(at, name)| {
            let times = commits.get(at).into_iter().flatten();
            let times = times.map(|commit| (commit.time_micros, commit.id));
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
    fn session(&mut self, number: usize, name: &str, commits: &[&GraphCommit]) -> Result<()> {
        self.current = short(number)?;
        self.usages = vec![StorageUsage::default()];
        let mut tally = SessionStats { session: name.to_owned(), ..SessionStats::default() };
        for commits in commits.chunks(COMMITS_PER_ROUND) {
            let mut roots = Vec::new();
            for commit in commits {
                if let Some(position) = self.inventory.find(&commit.id) {
                    tally.commits.add(self.usage(position));
                    self.own(position);
                }
                let Some(position) = self.inventory.find(&commit.tree) else {
                    tally.elided += 1;
                    continue;
                };
                tally.turns += 1;
                let oldest = tally.oldest_micros.get_or_insert(commit.time_micros);
                *oldest = commit.time_micros.min(*oldest);
                roots.push(short(position)?);
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

    /// Walks contexts, and sums them up.
    fn round(&mut self, roots: &[u32]) -> Result<()> {
        let mut open = Vec::new();
        for position in roots {
            if self.meet(*position, CONTEXT, None) {
                open.push(OpenNode { position: *position, section: CONTEXT });
            }
        }
        self.walk(open)?;
        for root in roots {
            self.sum_up(*root);
        }
        self.edges.clear();
        Ok(())
    }

    /// Counts an object, and says whether what is below it has to be counted too: when it is new,
    /// and when it turns out to be shared.
    fn meet(&mut self, position: u32, section: u32, key: Option<Bytes>) -> bool {
        let at = position as usize;
        let usage = self.usage(at);
        match self.owners.get(at) {
            Some(&NOBODY) => {
                self.own(at);
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

    fn own(&mut self, position: usize) {
        if let Some(owner) = self.owners.get_mut(position) {
            *owner = self.current;
        }
    }

    fn usage(&self, position: usize) -> StorageUsage {
        let (raw, stored) = self.sizes.get(position).copied().unwrap_or_default();
        StorageUsage { objects: 1, raw_bytes: raw.into(), stored_bytes: stored.into() }
    }

    /// The bytes of an object.
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
        self.largest.push(Reverse(Large { raw_bytes, position, section, owner, key }));
        if self.largest.len() > LARGEST {
            self.largest.pop();
        }
    }

    /// Sums up everything below a node, children first.
    fn sum_up(&mut self, root: u32) {
        let mut waiting = vec![root];
        while let Some(at) = waiting.last().copied() {
            let node = self.edges.get(&at).filter(|_| !self.summed.contains(at as usize));
            let Some(node) = node else {
                waiting.pop();
                continue;
            };
            let known = waiting.len();
            let nodes = node.edges.iter().filter(|edge| edge.is_node).map(|edge| edge.position);
            waiting.extend(nodes.filter(|node| !self.summed.contains(*node as usize)));
            if waiting.len() == known {
                let sum = self.sum_of(node);
                if let Some(slot) = self.sums.get_mut(at as usize) {
                    *slot = sum;
                }
                self.summed.insert(at as usize);
                waiting.pop();
            }
        }
    }

    /// The sum of a node whose children are summed up.
    fn sum_of(&self, node: &Node) -> Sum {
        let mut sum = Sum::default();
        for edge in &node.edges {
            let below = if edge.is_node {
                self.sums.get(edge.position as usize).copied().unwrap_or_default()
            } else {
                Sum { bytes: self.raw_bytes(edge.position).into(), items: 1 }
            };
            if !node.in_context {
                sum.bytes += below.bytes;
                sum.items += below.items;
                continue;
            }
            let section = self.sections.name(edge.section);
            if section != SOURCE {
                sum.bytes += below.bytes;
            }
            if edge.section == CONTEXT || section.ends_with("/messages") {
                sum.items += below.items;
            }
        }
        sum
    }

    /// Counts the bytes of full copies, now that every context is summed up.
    pub(super) fn count_copies(&mut self) {
        let graph = self.graph;
        let sum = |commit: &GraphCommit| {
            let position = self.inventory.find(&commit.tree)?;
            self.sums.get(position).copied().filter(|_| self.summed.contains(position))
        };
        for commit in graph.commits() {
            let Some(now) = sum(commit) else { continue };
            let parent = graph.parents(commit).first().and_then(|at| graph.commits().get(*at));
            let before = parent.map_or(Some(Sum::default()), sum);
            if let Some(tally) = self.tallies.get_mut(commit.session) {
                tally.full_bytes += now.bytes;
                // Of a turn whose parent has gone nobody knows what was new in it.
                tally.per_message_bytes += before.map_or(now.bytes, |before| copies(before, now));
            }
        }
    }

    /// The positions of everything in every context of every session, once all were walked.
    pub(super) fn walked(&self) -> Bits {
        let mut walked = Bits::new(self.owners.len());
        let owned = self.owners.iter().enumerate().filter(|(_, owner)| **owner != NOBODY);
        for (position, _) in owned {
            walked.insert(position);
        }
        walked
    }

    pub(super) fn change(&mut self, session: &str, change: impl FnOnce(&mut SessionStats)) {
        let number = self.graph.session_number(session);
        if let Some(tally) = number.and_then(|number| self.tallies.get_mut(number)) {
            change(tally);
        }
    }

    pub(super) fn finish(
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
            let (is_owned, is_live) = (*owner != NOBODY, live.contains(position));
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
        let mut largest: Vec<&Large> = self.largest.iter().map(|Reverse(large)| large).collect();
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

    /// The children of a node.
    fn arrows(&self, (id, children): (ObjectId, Vec<Child>)) -> Result<Vec<Arrow>> {
        let arrow = |Child { key, link }| {
            let found = self.inventory.find(&link.id).ok_or_else(|| {
                Error::corrupt(id, format_args!("the object {} it refers to", link.id), "nothing")
            });
            Ok(Arrow { position: short(found?)?, kind: link.kind, key })
        };
        let is_there = |child: &Child| {
            !self.graph.is_lost(&child.link.id) || self.inventory.find(&child.link.id).is_some()
        };
        children.into_iter().filter(is_there).map(arrow).collect()
    }
}

impl ContextWalk for Tally<'_> {
    type Node = OpenNode;
    type Link = Arrow;

    fn links(&self, nodes: &[OpenNode]) -> Vec<Result<Vec<Arrow>>> {
        let read = read_nodes(self.inventory, nodes);
        read.map(|read| self.arrows(read?)).collect()
    }

    fn meet_links(
        &mut self,
        node: OpenNode,
        links: Result<Vec<Arrow>>,
        open: &mut Vec<OpenNode>,
    ) -> Result<()> {
        let (in_context, links) = (node.section == CONTEXT, links?);
        let mut edges = Vec::with_capacity(links.len());
        for Arrow { position, kind, key } in links {
            let (section, key) = match key {
                Some(name) if in_context => (self.sections.number(name), None),
                key => (node.section, key),
            };
            let is_node = kind == Kind::Node;
            edges.push(Edge { position, section, is_node });
            if self.meet(position, section, key) && is_node {
                open.push(OpenNode { position, section });
            }
        }
        if !self.summed.contains(node.position as usize) {
            self.edges.insert(node.position, Node { in_context, edges });
        }
        Ok(())
    }
}

/// Returns the bytes of a full copy after each new message, if the context grows evenly by them.
fn copies(before: Sum, now: Sum) -> u64 {
    let new = u128::from(now.items.saturating_sub(before.items));
    if new == 0 {
        return 0;
    }
    let twice = (new - 1) * u128::from(before.bytes) + (new + 1) * u128::from(now.bytes);
    u64::try_from(twice / 2).unwrap_or(u64::MAX)
}

/// Commits by the number of their session, newest first.
fn commits_by_session(graph: &CommitGraph) -> HashMap<usize, Vec<&GraphCommit>> {
    let mut commits: HashMap<usize, Vec<&GraphCommit>> = HashMap::new();
    for commit in graph.commits() {
        commits.entry(commit.session).or_default().push(commit);
    }
    for commits in commits.values_mut() {
        commits.sort_by_key(|commit| Reverse((commit.turn, commit.time_micros, commit.id)));
    }
    commits
}

impl ObjectsSize {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}
