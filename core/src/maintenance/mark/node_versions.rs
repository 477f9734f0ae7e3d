//! Finds the positions of links of nodes. Versions of a node link to nearly the same objects, so
//! most positions come from the previous node of the section, in order and without a search.

use super::walk::to_number;
use crate::error::Result;
use crate::object::ObjectId;
use crate::store::Inventory;
use crate::tree::Link;

/// A link and its position.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintenance) struct LinkPosition {
    id: ObjectId,
    /// The position; `None` for a missing object.
    pub(in crate::maintenance) position: Option<u32>,
    /// True if the previous node of this section has the link too.
    pub(in crate::maintenance) is_repeated: bool,
}

/// The links of the last node of each section.
#[derive(Debug)]
pub(in crate::maintenance) struct NodeVersions<'i> {
    inventory: &'i Inventory<'i>,
    by_section: Vec<(u32, Vec<LinkPosition>)>,
    /// A buffer that is reused.
    spare: Vec<LinkPosition>,
}

impl<'i> NodeVersions<'i> {
    /// Starts without known links.
    pub(in crate::maintenance) fn new(inventory: &'i Inventory<'i>) -> Self {
        Self { inventory, by_section: Vec::new(), spare: Vec::new() }
    }

    /// Finds the links of a node of a section, in their order. Costs a search for each link that
    /// the previous node lacks, or has in another order.
    ///
    /// # Errors
    /// `LimitExceeded` when the store has more objects than a walk can number.
    pub(in crate::maintenance) fn find(
        &mut self,
        section: u32,
        links: &[Link],
    ) -> Result<&[LinkPosition]> {
        let at = self.by_section.iter().position(|(number, _)| *number == section);
        let at = at.unwrap_or_else(|| {
            self.by_section.push((section, Vec::new()));
            self.by_section.len() - 1
        });
        let Some((_, before)) = self.by_section.get_mut(at) else { return Ok(&[]) };
        let found = &mut self.spare;
        found.clear();
        let mut rest = before.as_slice();
        for Link { id, .. } in links {
            let known = rest.iter().position(|found| found.id == *id);
            let known = known.and_then(|at| rest.split_at_checked(at)?.1.split_first());
            let position = match known {
                Some((known, behind)) => {
                    rest = behind;
                    known.position
                }
                None => self.inventory.find(id).map(to_number).transpose()?,
            };
            found.push(LinkPosition { id: *id, position, is_repeated: known.is_some() });
        }
        std::mem::swap(before, found);
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::object::{Kind, Object};
    use crate::store::{NewStore, OpenOptions, RealIo, Store};

    fn link(content: &str) -> Link {
        Link { kind: Kind::Blob, id: ObjectId::of(Kind::Blob, content.as_bytes()) }
    }

    #[test]
    fn links_are_found_where_they_lie_and_repeated_if_the_node_before_has_them_in_this_order() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("store");
        Store::create(&RealIo, &dir, &NewStore { id: [1; 16] }).unwrap();
        let store = Store::open(Arc::new(RealIo), &dir, OpenOptions::new([2; 16])).unwrap();
        let object =
            |content: &&'static str| Object { kind: Kind::Blob, bytes: content.as_bytes().into() };
        let stored = ["a", "b", "c", "d", "e"];
        let objects = stored.iter().map(|content| (link(content).id, object(content)));
        store.append(objects.collect()).unwrap();
        let inventory = store.inventory().unwrap();
        let mut node_versions = NodeVersions::new(&inventory);
        let mut repeated = |section: u32, contents: &[&str]| {
            let links: Vec<Link> = contents.iter().map(|content| link(content)).collect();
            let found = node_versions.find(section, &links).unwrap();
            for (link, found) in links.iter().zip(found) {
                let position = found.position.map(|at| at as usize);
                assert_eq!(position, inventory.find(&link.id), "{contents:?}");
            }
            found.iter().map(|found| found.is_repeated).collect::<Vec<_>>()
        };
        assert_eq!(repeated(1, &["a", "b", "c"]), [false, false, false]);
        assert_eq!(repeated(1, &["b", "c", "d"]), [true, true, false]);
        assert_eq!(repeated(2, &["b", "b", "absent"]), [false, false, false]);
        assert_eq!(repeated(1, &["absent", "d", "b", "e"]), [false, true, false, false]);
        assert_eq!(repeated(1, &[]), Vec::<bool>::new());
        assert_eq!(repeated(1, &["absent", "e"]), [false, false]);
    }
}
