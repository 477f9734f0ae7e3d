//! The walk through contexts that collections, statistics and `fsck` share.
//!
//! ```text
//!  open nodes of a level ──> read on all processors ──> marked one by one, in order ──> next level
//! ```
//!
//! Nodes are marked in the order in which they were opened, however many processors read them. So
//! packs, numbers and findings are the same each time.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId};
use crate::store::Inventory;
use crate::tree::Children;

/// Nodes whose links are in memory together: the walk of a context with a million entries holds
/// only part of their links.
const NODES_AT_ONCE: usize = 1 << 14;

/// Nodes per task of a thread, which verifies them together.
const NODES_PER_TASK: usize = 64;

/// A node to read, by its position in the inventory.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintenance) struct OpenNode {
    pub(in crate::maintenance) position: u32,
    /// The section in which it was first marked.
    pub(in crate::maintenance) section: u32,
}

/// A walk through contexts, level by level.
pub(in crate::maintenance) trait ContextWalk: Sync {
    /// A node that was marked but not read.
    type Node: Copy + Send + Sync;

    /// The links of a node, as far as this walk needs them.
    type Links: Send;

    /// Reads the links of some nodes, in their order. Runs on all processors, so work that needs no
    /// order belongs here. A node may omit links of an earlier node.
    fn links(&self, nodes: &[Self::Node]) -> Vec<Result<Self::Links>>;

    /// Marks the links of a node, and opens the new nodes among them.
    fn visit_links(
        &mut self,
        node: Self::Node,
        links: Result<Self::Links>,
        open: &mut Vec<Self::Node>,
    ) -> Result<()>;

    /// Walks everything below these nodes.
    fn walk(&mut self, mut open: Vec<Self::Node>) -> Result<()> {
        while !open.is_empty() {
            let mut next = Vec::new();
            for nodes in open.chunks(NODES_AT_ONCE) {
                let tasks = nodes.par_chunks(NODES_PER_TASK);
                let links: Vec<Result<Self::Links>> =
                    tasks.flat_map_iter(|nodes| self.links(nodes)).collect();
                for (node, links) in nodes.iter().zip(links) {
                    self.visit_links(*node, links, &mut next)?;
                }
            }
            open = next;
        }
        Ok(())
    }
}

/// Reads nodes of an inventory, and calls `of_node` with each node, its id and its children, in
/// order.
pub(in crate::maintenance) fn read_nodes<T>(
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

/// Converts a position to the integer width that walks use.
pub(in crate::maintenance) fn to_number(position: usize) -> Result<u32> {
    u32::try_from(position)
        .map_err(|_| Error::limit("objects in a store", u32::MAX.into(), position as u64))
}
