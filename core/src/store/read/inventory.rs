//! An inventory: every object of a store at one moment, numbered, for maintenance.
//!
//! A position is a number from 0 to [`Inventory::positions`], so facts about objects fit into bit
//! maps. An object in several files has several positions; [`Inventory::find`] returns the one that
//! reads use.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::batch_read::{WantedObject, verified};
use super::pages::{STRETCHES_OF_ONE, stretches_in};
use super::positions::{Positions, RecentPositions};
use super::refs::RefTable;
use super::sealed::SealedSegment;
use super::view::{ObjectPlace, OpenFiles, ReadAhead};
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource};
use crate::store::format::id::SegmentId;
use crate::store::format::segment::{ENTRY_BYTES, Location, StoredRecord};
use crate::store::pack::{
    Pack, PackDraft, PackItem, PackLookup, PackSize, ParityFile, Tier, Tombstone,
};
use crate::store::parity::ParityShare;
use crate::store::repair::known_losses;
use crate::store::{JOURNAL_DIR, PACKS_DIR, Store, tombstone_error};

/// Every object of a store at one moment. Never changes.
#[derive(Debug)]
pub struct Inventory<'s> {
    pub(in crate::store) store: &'s Store,
    refs: Arc<RefTable>,
    files: Arc<OpenFiles>,
    active: Vec<(ObjectId, Location)>,
    active_positions: Positions,
    stored: Vec<InventoryFile>,
    /// Positions of the objects of sealed segments, built on first use.
    positions: OnceLock<Positions>,
    recent: RecentPositions,
}

/// A file of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InventoryFile {
    /// The path of the file in the store.
    pub name: String,
    /// The tier of the pack; `None` for a segment of the journal.
    pub tier: Option<Tier>,
    /// Bytes on disk.
    pub bytes: u64,
    /// True if the file may be replaced: no writer appends to it, and no open transaction relies on
    /// it.
    pub replaceable: bool,
    /// The position of its first object.
    pub first: usize,
    /// The number of its positions.
    pub objects: usize,
}

/// The facts that an inventory has about an object without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InventoryEntry {
    /// The id of the object.
    pub id: ObjectId,
    /// The kind of the object.
    pub kind: Kind,
    /// The bytes of the object in its file; in a pack, its share of the block.
    pub stored_bytes: u64,
    /// The number of its file in [`Inventory::files`].
    pub file: usize,
}

/// The parts from which an inventory is built.
pub(in crate::store) struct InventoryFiles {
    pub(in crate::store) files: Arc<OpenFiles>,
    pub(in crate::store) refs: Arc<RefTable>,
    /// Objects in segments that are not sealed.
    pub(in crate::store) active: HashMap<ObjectId, Location>,
    /// The segments that are not sealed: name, bytes, and whether they may be replaced.
    pub(in crate::store) segments: Vec<(SegmentId, u64, bool)>,
    /// For each sealed segment, in order, whether it may be replaced.
    pub(in crate::store) sealed_replaceable: Vec<bool>,
}

impl<'s> Inventory<'s> {
    pub(in crate::store) fn new(store: &'s Store, found: InventoryFiles) -> Self {
        let InventoryFiles { files, refs, active, segments, sealed_replaceable } = found;
        // Positions must match the actual objects, so no index may be damaged.
        files.verify_indexes();
        let ranks: HashMap<SegmentId, usize> =
            (0..).zip(&segments).map(|(at, (id, ..))| (*id, at)).collect();
        let ranked =
            active.into_iter().filter_map(|(id, at)| Some((*ranks.get(&at.segment.id)?, id, at)));
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_unstable_by_key(|(rank, _, at)| (*rank, at.stored.offset));
        let active: Vec<_> = ranked.into_iter().map(|(_, id, at)| (id, at)).collect();
        let mut stored = Vec::new();
        let mut first = 0;
        let mut add = |name: String, tier, bytes, replaceable, objects: usize| {
            stored.push(InventoryFile { name, tier, bytes, replaceable, first, objects });
            first += objects;
        };
        for (id, bytes, replaceable) in &segments {
            let objects = active.iter().filter(|(_, at)| at.segment.id == *id).count();
            let name = format!("{JOURNAL_DIR}/{}", id.file_name());
            add(name, None, *bytes, *replaceable, objects);
        }
        for (sealed, replaceable) in files.sealed.iter().zip(sealed_replaceable) {
            let name = format!("{JOURNAL_DIR}/{}", sealed.segment().id.file_name());
            add(name, None, sealed.file_bytes(), replaceable, sealed.len());
        }
        for pack in &files.packs {
            let name = format!("{PACKS_DIR}/{}", pack.id().file_name());
            add(name, Some(pack.tier()), pack.file_bytes(), true, pack.len() as usize);
        }
        let active_positions = active.iter().enumerate().map(|(at, (id, _))| (*id, at));
        let active_positions = Positions::new(active_positions);
        let (positions, recent) = (OnceLock::new(), RecentPositions::new(first));
        Self { store, refs, files, active, active_positions, stored, positions, recent }
    }

    /// Returns one more than the highest position.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.stored.last().map_or(0, |file| file.first + file.objects)
    }

    /// Returns the files, in order of their positions.
    #[must_use]
    pub fn files(&self) -> &[InventoryFile] {
        &self.stored
    }

    /// Returns the refs at the moment of the inventory.
    #[must_use]
    pub fn refs(&self) -> &RefTable {
        &self.refs
    }

    /// Returns the position that an object is read from.
    #[must_use]
    pub fn find(&self, id: &ObjectId) -> Option<usize> {
        self.recent.find(id, || self.search(id))
    }

    fn search(&self, id: &ObjectId) -> Option<usize> {
        if let Some(at) = self.active_position(id) {
            return Some(at);
        }
        let files = self.files.sealed.len();
        let sealed = self.stored.get(self.segments()..)?;
        let is_it = |at: usize| self.id_at(at).as_ref() == Some(id);
        let found = self.positions.get_or_init(|| self.sealed_positions()).find(id, is_it);
        found.or_else(|| {
            let packs = sealed.get(files..)?;
            let mut packs = self.files.packs.iter().zip(packs).rev();
            match packs.find_map(|(pack, file)| Some((file, pack.find(id)?)))? {
                (file, PackLookup::Object { ordinal, .. }) => Some(file.first + ordinal as usize),
                (_, PackLookup::Tombstone(..)) => None,
            }
        })
    }

    /// Releases the memory of pages that were read. Reading objects does this from time to time,
    /// since otherwise a full walk would load all of a store into memory. A scan of all positions
    /// should call it too. Costs a system call for each file.
    pub fn release_pages(&self) {
        self.files.release_pages();
    }

    /// Returns the position of an object in a segment that is not sealed.
    fn active_position(&self, id: &ObjectId) -> Option<usize> {
        let is_it = |at: usize| self.active.get(at).is_some_and(|(found, _)| found == id);
        self.active_positions.find(id, is_it)
    }

    /// Computes the positions of all objects in sealed segments. Reads every id.
    fn sealed_positions(&self) -> Positions {
        let files = self.stored.get(self.segments()..).unwrap_or_default();
        Positions::new(self.files.sealed.iter().zip(files).flat_map(|(sealed, file)| {
            let ids = (0..sealed.len()).filter_map(|at| Some((sealed.id(at)?, file.first + at)));
            let end = std::iter::from_fn(|| {
                sealed.release_pages();
                None
            });
            ids.chain(end)
        }))
    }

    /// Returns the id of the object at a position.
    #[must_use]
    pub fn id_at(&self, position: usize) -> Option<ObjectId> {
        let (number, at) = self.locate(position)?;
        match self.file(number)? {
            File::Active => self.active.get(position).map(|(id, _)| *id),
            File::Sealed(sealed) => sealed.id(at),
            File::Pack(pack) => pack.id_at(u32::try_from(at).ok()?),
        }
    }

    /// Returns the place of the object at a position.
    fn place_at(&self, position: usize) -> Option<ObjectPlace> {
        let (number, at) = self.locate(position)?;
        Some(match self.file(number)? {
            File::Active => ObjectPlace::Active(self.active.get(position)?.1.clone()),
            File::Sealed(sealed) => ObjectPlace::Sealed(Arc::clone(sealed), sealed.stored(at)?),
            File::Pack(pack) => {
                let ordinal = u32::try_from(at).ok()?;
                ObjectPlace::Packed(Arc::clone(pack), pack.kind_at(ordinal)?, ordinal)
            }
        })
    }

    /// Reads the objects at positions and verifies them together, which is faster for many small
    /// ones than one by one. Returns their ids too, in the order of the positions. Needs no look-up
    /// of ids.
    ///
    /// # Errors
    /// For each position: `NotFound` when it does not exist, `Corrupt` when the object does not
    /// verify.
    pub fn read_each_at(
        &self,
        positions: impl Iterator<Item = usize>,
    ) -> Vec<Result<(ObjectId, Object)>> {
        let (mut read, mut all) = (Vec::new(), Vec::new());
        for (at, position) in positions.enumerate() {
            match self.unverified_at(position) {
                Ok((id, place, object)) => read.push(((at, id, place), object)),
                Err(error) => all.push((at, Err(error))),
            }
        }
        let mut units: Vec<_> = read.iter().map(|((.., place), _)| place.unit()).collect();
        units.sort_unstable();
        units.dedup();
        let stretches = stretches_in(read.len(), units.len());
        self.store.pages.note(stretches, || Arc::clone(&self.files));
        let give = |((at, id, _), object): (WantedObject, Result<Object>)| {
            (at, object.map(|object| (id, object)))
        };
        all.extend(verified(read).into_iter().map(give));
        all.sort_unstable_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, object)| object).collect()
    }

    /// Reads the object at a position without verifying it, and returns its expected id.
    fn unverified_at(&self, position: usize) -> Result<(ObjectId, ObjectPlace, Object)> {
        let absent = || Error::not_found(format!("position {position}"));
        let id = self.id_at(position).ok_or_else(absent)?;
        let place = self.place_at(position).or_else(|| self.files.place(&id)).ok_or_else(absent)?;
        let object = place.unverified(&ReadAhead::default(), &id, &self.store.blocks)?;
        Ok((id, place, object))
    }

    /// Returns the number of the file that has a position, and the number of the object in it.
    fn locate(&self, position: usize) -> Option<(usize, usize)> {
        let number = self.file_of(position)?;
        Some((number, position - self.stored.get(number)?.first))
    }

    fn file(&self, number: usize) -> Option<File<'_>> {
        let Some(at) = number.checked_sub(self.segments()) else { return Some(File::Active) };
        let Some(at) = at.checked_sub(self.files.sealed.len()) else {
            return self.files.sealed.get(at).map(File::Sealed);
        };
        self.files.packs.get(at).map(File::Pack)
    }

    /// Returns the number of the file that has a position.
    #[must_use]
    pub fn file_of(&self, position: usize) -> Option<usize> {
        let number = self.stored.partition_point(|file| file.first + file.objects <= position);
        (number < self.stored.len()).then_some(number)
    }

    /// Returns the object at a position.
    #[must_use]
    pub fn entry(&self, position: usize) -> Option<InventoryEntry> {
        let (number, at) = self.locate(position)?;
        let (id, kind, stored_bytes) = match self.file(number)? {
            File::Active => {
                let (id, location) = self.active.get(position)?;
                (*id, location.stored.kind, location.stored.stored_bytes.into())
            }
            File::Sealed(sealed) => {
                let (id, stored) = sealed.entry(at)?;
                (id, stored.kind, stored.stored_bytes.into())
            }
            File::Pack(pack) => {
                let ordinal = u32::try_from(at).ok()?;
                let stored_bytes = pack.stored_share(ordinal, &self.store.blocks).unwrap_or(0);
                (pack.id_at(ordinal)?, pack.kind_at(ordinal)?, stored_bytes)
            }
        };
        Some(InventoryEntry { id, kind, stored_bytes, file: number })
    }

    /// Returns the raw bytes of the object at a position, and its bytes on disk, including its
    /// entry in a directory or index. In a pack this decodes the block, once for positions in
    /// ascending order.
    ///
    /// # Errors
    /// `Corrupt` when the block does not verify.
    pub fn sizes(&self, position: usize) -> Result<Option<(u32, u64)>> {
        let file = self.locate(position).and_then(|(number, at)| Some((self.file(number)?, at)));
        let stored = match file {
            None => None,
            Some((File::Active, _)) => self.active.get(position).map(|(_, at)| at.stored),
            Some((File::Sealed(sealed), at)) => sealed.stored(at),
            Some((File::Pack(pack), at)) => {
                let ordinal = u32::try_from(at).ok();
                return ordinal.map(|at| pack.sizes(at, &self.store.blocks)).transpose();
            }
        };
        let with_entry = |stored: StoredRecord| u64::from(stored.stored_bytes) + ENTRY_BYTES as u64;
        Ok(stored.map(|stored| (stored.raw_bytes, with_entry(stored))))
    }

    /// Returns the size of a pack with these items and gone ids in this tier, without parity.
    /// Builds the pack in memory: takes the time to compress the items, and memory for them.
    ///
    /// # Errors
    /// `InvalidInput` when there are no items or an id is repeated, `Corrupt` when an item does not
    /// verify.
    pub fn pack_size(
        &self,
        items: &[PackItem],
        gone: &[(ObjectId, Kind, Tombstone)],
        tier: Tier,
    ) -> Result<u64> {
        self.draft(items, gone, tier).measure()
    }

    /// Returns the size of a pack as [`Inventory::pack_size`] does, with the share of each item.
    ///
    /// # Errors
    /// The errors of [`Inventory::pack_size`].
    pub fn pack_item_sizes(&self, items: &[PackItem], tier: Tier) -> Result<PackSize> {
        self.draft(items, &[], tier).measure_items()
    }

    fn draft<'d>(
        &'d self,
        items: &'d [PackItem],
        gone: &'d [(ObjectId, Kind, Tombstone)],
        tier: Tier,
    ) -> PackDraft<'d> {
        let store = self.store.superblock.store;
        PackDraft { store, salt: [0; 16], tier, lists_ids: true, items, gone, source: self }
    }

    /// Returns true if an archive lists the ids of its objects and a new one would not, or the
    /// reverse.
    #[must_use]
    pub fn has_outdated_form(&self, file: &InventoryFile) -> bool {
        let packs = self.stored.iter().skip(self.segments() + self.files.sealed.len());
        let found = packs.zip(&self.files.packs).find(|(stored, _)| *stored == file);
        let archive = found.filter(|_| file.tier == Some(Tier::Archive));
        archive.is_some_and(|(_, pack)| pack.lists_ids() == self.store.leaves_ids_out())
    }

    /// Returns the parity share of a new pack that replaces all packs, if any.
    ///
    /// # Errors
    /// `Io` when a parity file cannot be read, and the errors of
    /// [`parity_policy`](crate::store::Store::parity_policy).
    pub fn parity_share(&self, tier: Tier) -> Result<Option<ParityShare>> {
        let (io, packs) = (&*self.store.io, self.store.dir.join(PACKS_DIR));
        let mut share = None;
        for pack in &self.files.packs {
            let parity = ParityFile::find(io, &packs, pack.id())?;
            share = share.max(parity.map(|parity| parity.share()));
        }
        self.store.pack_parity(tier, share)
    }

    /// Returns the tombstones of a file. A pack that replaces it must keep them.
    pub fn tombstones_in(&self, file: usize) -> impl Iterator<Item = (ObjectId, Kind, Tombstone)> {
        let pack = file.checked_sub(self.segments() + self.files.sealed.len());
        let pack = pack.and_then(|at| self.files.packs.get(at));
        pack.into_iter().flat_map(|pack| pack.tombstones())
    }

    /// Reads the object `id` from any copy that verifies; returns `None` if it has no copy.
    ///
    /// # Errors
    /// The damage of the copy that was read first, if no other copy verifies.
    pub fn read_any(&self, id: &ObjectId) -> Result<Option<Object>> {
        let active = self.active_position(id).and_then(|at| self.active.get(at));
        let active = active.map(|(_, location)| ObjectPlace::Active(location.clone()));
        let mut failed = None;
        for place in active.into_iter().chain(self.files.places(id)) {
            match place.read(id, &self.store.blocks) {
                Ok(object) => return Ok(Some(object)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Returns the reason why an object was removed, if it has no copy and the reason is known.
    #[must_use]
    pub fn tombstone(&self, id: &ObjectId) -> Option<Tombstone> {
        self.files.tombstone(id)
    }

    /// Returns a sealed segment by its id.
    pub(in crate::store) fn sealed(&self, id: SegmentId) -> Option<Arc<SealedSegment>> {
        self.files.sealed.iter().find(|sealed| sealed.segment().id == id).cloned()
    }

    /// Returns every operation in every file, including those that never took effect. An operation
    /// in two files is returned twice.
    pub fn operations(&self) -> impl Iterator<Item = ObjectId> {
        let active = self.active.iter().filter(|(_, at)| at.stored.kind == Kind::Operation);
        active.map(|(id, _)| *id).chain(self.listed_operations())
    }

    /// Returns the operations in files that the manifest lists.
    pub(in crate::store) fn listed_operations(&self) -> impl Iterator<Item = ObjectId> {
        let sealed = self.files.sealed.iter().flat_map(|sealed| {
            let operations = sealed.entries().filter(|(_, stored)| stored.kind == Kind::Operation);
            let ids: Vec<ObjectId> = operations.map(|(id, _)| id).collect();
            sealed.release_pages();
            ids
        });
        let packed = self.files.packs.iter().flat_map(|pack| pack.of_kind(Kind::Operation));
        sealed.chain(packed.map(|(_, id)| id))
    }

    /// Returns the number of segments that are not sealed.
    fn segments(&self) -> usize {
        self.stored.len() - self.files.sealed.len() - self.files.packs.len()
    }
}

/// An open file of an inventory.
enum File<'f> {
    /// A segment that is not sealed: the index of its objects is in memory, by position.
    Active,
    Sealed(&'f Arc<SealedSegment>),
    Pack(&'f Arc<Pack>),
}

impl ObjectSource for Inventory<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        self.store.pages.note(STRETCHES_OF_ONE, || Arc::clone(&self.files));
        // A damaged index may name an impossible place; there may be another copy.
        let place = self.find(id).and_then(|at| self.place_at(at));
        match place.or_else(|| self.files.place(id)) {
            Some(place) => place.read(id, &self.store.blocks).map(Some),
            None => self.files.tombstone(id).map_or(Ok(None), |why| Err(tombstone_error(id, why))),
        }
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.find(id).is_some())
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        known_losses::missing_object_error(self, &self.refs, (kind, id))
    }
}
