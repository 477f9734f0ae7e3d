//! One walk through contexts, which a collection, the statistics and `fsck` follow in their own way.
//!
//! ```text
//!  open nodes of a level ──> read on all processors ──> met one by one, in order ──> next level
//! ```
//!
//! Nodes are met in the order in which they were opened, however many processors read them: packs,
//! numbers and findings come out the same each time.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId};
use crate::store::Inventory;
use crate::tree::Children;

/// Nodes whose links are in memory at once: a context of a million entries does not bring all of them.
const NODES_AT_ONCE: usize = 1 << 14;

/// Nodes that one thread takes at a time, and verifies together.
const NODES_PER_TASK: usize = 64;

/// A node to read, by its position in the inventory.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenNode {
    pub(super) position: u32,
    /// The section it was first met in.
    pub(super) section: u32,
}

/// A walk through contexts, level by level.
pub(super) trait ContextWalk: Sync {
    /// A node that was met and not read.
    type Node: Copy + Send + Sync;

    /// The links of a node, as far as this walk needs them.
    type Links: Send;

    /// Reads the links of each of some nodes, in their order. Runs on all processors, so whatever need not
    /// be done in order is done here. A node may leave out what a node before it has.
    fn links(&self, nodes: &[Self::Node]) -> Vec<Result<Self::Links>>;

    /// Meets the links of a node, and opens the nodes among them that were not met before.
    fn meet_links(
        &mut self,
        node: Self::Node,
        links: Result<Self::Links>,
        open: &mut Vec<Self::Node>,
    ) -> Result<()>;

    /// Walks from these nodes to everything below them.
    fn walk(&mut self, mut open: Vec<Self::Node>) -> Result<()> {
        while !open.is_empty() {
            let mut next = Vec::new();
            for nodes in open.chunks(NODES_AT_ONCE) {
                let tasks = nodes.par_chunks(NODES_PER_TASK);
                let links: Vec<Result<Self::Links>> =
                    tasks.flat_map_iter(|nodes| self.links(nodes)).collect();
                for (node, links) in nodes.iter().zip(links) {
                    self.meet_links(*node, links, &mut next)?;
                }
            }
            open = next;
        }
        Ok(())
    }
}

/// Reads nodes of an inventory, and gives each with its id and its children, in their order.
pub(super) fn read_nodes<T>(
    inventory: &Inventory<'_>,
    nodes: &[OpenNode],
    mut of_node: impl FnMut(OpenNode, ObjectId, &Children) -> Result<T>,
) -> Vec<Result<T>> {
    let mut children = Children::default();
    let read = inventory.read_each_at(nodes.iter().map(|node| node.position as usize));
    let read = read.into_iter().zip(nodes).map(|(read, node)| {
        let (id, Object { kind, bytes }) = read?;
        if kind != Kind::Node {
            return Err(Error::corrupt(id, Kind::Node, kind));
        }
        children.read(&bytes).map_err(|error| error.at(id))?;
        of_node(*node, id, &children)
    });
    read.collect()
}

/// Returns a position in the width that walks remember it in.
pub(super) fn short(position: usize) -> Result<u32> {
    u32::try_from(position)
        .map_err(|_| Error::limit("objects in a store", u32::MAX.into(), position as u64))
}
