//! Reads everything that a rewind restores except the files, so that none begins that cannot be
//! completed.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::context::sections::FILES;
use crate::context::{Context, Section, Selection, Shape};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};
use crate::store::Store;
use crate::tree::{Link, List, Map};

/// Maximum links per batch, and maximum links remembered to avoid rereading. Both bound the memory
/// of a check.
const LINKS_AT_ONCE: usize = 1 << 12;
const LINKS_REMEMBERED: usize = 1 << 16;

/// Reads every selected section of `wanted` except the files.
///
/// # Errors
/// The first error in order of sections, naming the section: `Redacted`, `Expired`, `NotFound` or
/// `Corrupt`.
pub(super) fn check_readable(store: &Store, wanted: &Context, only: &Selection) -> Result<()> {
    let mut checking = ReadCheck { store, seen: HashSet::new(), links: Vec::new() };
    for (name, section) in wanted.sections(store)? {
        if name != FILES && only.reaches(&name) {
            checking.section(section).map_err(|error| error.at(&name))?;
        }
    }
    Ok(())
}

/// A check that reads objects in batches, in storage order, and keeps none.
struct ReadCheck<'s> {
    store: &'s Store,
    /// Links already read. A transcript shares most of its pieces with the messages.
    seen: HashSet<Link>,
    /// The next batch.
    links: Vec<Link>,
}

impl ReadCheck<'_> {
    fn section(&mut self, Section { shape, id }: Section) -> Result<()> {
        let store = self.store;
        match shape {
            Shape::Blob => self.add(Link { kind: Kind::Blob, id })?,
            Shape::List => {
                let list = List::open(store, &id)?;
                list.iter(store, 0..list.len()).try_for_each(|item| self.add(item?.link))?;
            }
            Shape::Map => {
                let map = Map::open(store, &id)?;
                map.iter(store).try_for_each(|entry| self.add(entry?.1.link))?;
            }
        }
        self.read()
    }

    fn add(&mut self, link: Link) -> Result<()> {
        if self.seen.len() >= LINKS_REMEMBERED {
            self.seen.clear();
        }
        if self.seen.insert(link) {
            self.links.push(link);
        }
        if self.links.len() < LINKS_AT_ONCE { Ok(()) } else { self.read() }
    }

    /// Reads the next batch. Returns the error of the first unreadable link.
    fn read(&mut self) -> Result<()> {
        let links = std::mem::take(&mut self.links);
        let ids: Vec<ObjectId> = links.iter().map(|link| link.id).collect();
        let failed: Mutex<BTreeMap<usize, Error>> = Mutex::default();
        self.store.visit(&ids, &|at, object| {
            let read = object.and_then(|object| match links.get(at) {
                Some(link) if link.kind != object.kind => {
                    Err(Error::corrupt(link.id, link.kind, object.kind))
                }
                _ => Ok(()),
            });
            if let Err(error) = read {
                failed.lock().unwrap_or_else(PoisonError::into_inner).insert(at, error);
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.into_values().next().map_or(Ok(()), Err)
    }
}
