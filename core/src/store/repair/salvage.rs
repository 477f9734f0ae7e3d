//! Repairs damaged files: copies the objects that verify to a new pack, and quarantines the files.
//!
//! ```text
//! examine ── restore by parity
//!         └─ salvage, write a pack ── publish it ── move the files ── publish without them
//! ```
//!
//! A pack restored by its parity is complete: no object is lost. Nothing is deleted. A file that a
//! process writes to is not touched. Everything that verifies is readable at every moment. After a
//! crash, the next repair finishes the work: a manifest may list the new pack together with the
//! damaged file, or list a file that was moved.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::examine::{DamagedFiles, Examination, Progress, Thoroughness};
use super::quarantine;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, verify};
use crate::store::derived_ids;
use crate::store::format::id::SegmentId;
use crate::store::format::manifest::{self, Manifest};
use crate::store::format::segment::{Location, SegmentFile};
use crate::store::io::{Access, IoFile};
use crate::store::pack::{
    BlockCache, Pack, PackDraft, PackId, PackItem, PackLookup, ParityFile, RecoveredObjects,
    RestoredPack, Tier, Tombstone,
};
use crate::store::parity::ParityShare;
use crate::store::read::operations::Operations;
use crate::store::read::refs::RefTable;
use crate::store::read::scan::{ScanDepth, ScanFindings, SegmentEnd, Tail, scan, torn_batch};
use crate::store::read::view::{FileId, ObjectPlace};
use crate::store::write::publish::{ManifestEdit, PublishOutcome};
use crate::store::{JOURNAL_DIR, PACKS_DIR, Store, lock, read};

/// Attempts to publish while other processes commit.
const MAX_ATTEMPTS: usize = 64;

/// Most bytes of unpacked blocks to cache; few in tests that count how often a block is unpacked.
const CACHE_BYTES: usize = if cfg!(test) { 1 << 20 } else { 32 << 20 };

/// The right to repair a store, and its examination. No collection can run concurrently.
#[derive(Debug)]
pub(crate) struct RepairLock<'s> {
    store: &'s Store,
    /// The content of the store and its damage.
    pub examination: Examination<'s>,
    collector: Arc<dyn IoFile>,
}

/// The plan for damaged files, with the objects in them that verify.
#[derive(Debug)]
pub(crate) struct SalvagePlan {
    /// Damaged files, in order of their names.
    pub files: Vec<SalvagedFile>,
    /// Unlisted packs with missing objects, by name. The repair lists them.
    pub adopted: Vec<String>,
    /// True if listed files hold operations that the refs of the manifest lack.
    pub lists_unknown: bool,
    /// Readable objects of the damaged files.
    sources: HashMap<ObjectId, Source>,
    /// Objects in packs that are restored by their parity.
    restored: HashSet<ObjectId>,
    gone: Vec<(ObjectId, Kind, Tombstone)>,
    tier: Option<Tier>,
    rebuilt: Vec<RecoveredObjects>,
    blocks: BlockCache,
    /// Damaged segments, locked.
    locks: Vec<Arc<dyn IoFile>>,
    /// The files to quarantine.
    moved: DamagedFiles,
    adopted_packs: Vec<Arc<Pack>>,
}

/// The packs that parity restores, and their objects.
#[derive(Debug, Default)]
pub(crate) struct RestorablePacks {
    /// Paths of the packs in the store.
    pub(crate) packs: Vec<String>,
    /// The objects in them.
    pub(crate) objects: HashSet<ObjectId>,
}

/// A damaged file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedFile {
    /// The path of the file in the store.
    pub name: String,
    /// The fate of the file.
    pub fate: SalvageFate,
    /// Objects in the file that verify.
    pub saved: u64,
    /// Objects of the file that do not verify, as far as the file lists them.
    pub damaged: u64,
    /// Further damage of a pack that is readable only by its frames.
    pub problems: Vec<String>,
}

impl SalvagedFile {
    fn new(name: String) -> Self {
        let fate = SalvageFate::Quarantined;
        Self { name, fate, saved: 0, damaged: 0, problems: Vec::new() }
    }

    /// Returns a restored file in the folder of packs.
    fn restored(name: &str, objects: u32) -> Self {
        let fate = SalvageFate::Restored;
        Self { fate, saved: objects.into(), ..Self::new(format!("{PACKS_DIR}/{name}")) }
    }
}

/// The fate of a damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SalvageFate {
    /// A pack restored by its parity; or a parity that is rewritten.
    Restored,
    /// Objects that verify are copied, and the file is quarantined.
    Quarantined,
    /// The file is missing; it is removed from the manifest.
    Missing,
    /// A process writes to it, so it stays as it is.
    InUse,
}

/// The source of a salvaged object.
#[derive(Debug, Clone)]
enum Source {
    ObjectPlace(ObjectPlace),
    /// The number of the rebuilt pack, and the ordinal.
    Rebuilt(usize, Kind, u32),
}

impl Store {
    /// Examines the store for a repair.
    ///
    /// # Errors
    /// The errors of [`Store::examine`]; `Locked` while a collection runs, `Unsupported` when this
    /// build may not write to the store.
    pub(crate) fn begin_repair(&self, progress: &mut Progress<'_>) -> Result<RepairLock<'_>> {
        self.superblock.check_writable()?;
        let collector = self.lock_collector()?.0;
        // Operations that an older view misses would be missing from the published refs.
        self.refresh()?;
        self.release_segment();
        let examination = self.examine(Thoroughness::Full, progress)?;
        Ok(RepairLock { store: self, examination, collector })
    }
}

impl Examination<'_> {
    /// Restores a damaged pack by its parity in memory. Does not change the file.
    fn restored(&self, id: PackId) -> Result<Option<(ParityFile, RestoredPack)>> {
        let store = self.store;
        let parity = ParityFile::examine(&*store.io, &store.dir.join(PACKS_DIR), id)?;
        let Some(parity) = parity else { return Ok(None) };
        let restored = parity.restored(store.superblock.store)?;
        Ok(restored.map(|restored| (parity, restored)))
    }

    /// Finds the packs that a repair restores by parity, without writing. Reads each damaged pack
    /// with a parity; memory holds the ids of its objects.
    ///
    /// # Errors
    /// `Io` when a pack or its parity cannot be read.
    pub(crate) fn restorable(&self) -> Result<RestorablePacks> {
        let mut found = RestorablePacks::default();
        for id in &self.damaged.restorable {
            let Some((_, RestoredPack { pack, .. })) = self.restored(*id)? else { continue };
            found.packs.push(format!("{PACKS_DIR}/{}", id.file_name()));
            found.objects.extend((0..pack.len()).filter_map(|ordinal| pack.id_at(ordinal)));
        }
        Ok(found)
    }
}

impl RepairLock<'_> {
    /// Replaces damaged packs by those restored by their parity, and rewrites damaged parities.
    /// Returns the repaired files; if there are none, the examination is still valid.
    ///
    /// # Errors
    /// `Io` when the disk refuses; the remaining files are unchanged.
    pub(crate) fn restore(&self) -> Result<Vec<SalvagedFile>> {
        let (store, mut files) = (self.store, Vec::new());
        let packs = store.dir.join(PACKS_DIR);
        for id in &self.examination.damaged.restorable {
            let Some((parity, restored)) = self.examination.restored(*id)? else { continue };
            parity.replace_damaged(&*store.io, &packs, &restored)?;
            files.push(SalvagedFile::restored(&id.file_name(), restored.pack.len()));
            if parity.damage().lost_units > 0 {
                parity.rewrite(&*store.io, &packs)?;
            }
        }
        for id in &self.examination.damaged.parities {
            match ParityFile::examine(&*store.io, &packs, *id)? {
                Some(parity) => parity.rewrite(&*store.io, &packs)?,
                None => ParityFile::write(&*store.io, &packs, *id, ParityShare::default())?,
            };
            files.push(SalvagedFile::restored(&id.parity_name(), 0));
        }
        if !files.is_empty() {
            store.reopen()?;
        }
        Ok(files)
    }

    /// Plans the salvage of damaged files. Looks for `lost` objects in unlisted packs too.
    ///
    /// # Errors
    /// `Io` when files cannot be read.
    pub(crate) fn salvage(&self, lost: &BTreeMap<ObjectId, Kind>) -> Result<SalvagePlan> {
        let mut salvage = SalvagePlan::new();
        let damaged = &self.examination.damaged;
        salvage.lists_unknown = damaged.lists_unknown;
        for generation in &damaged.manifests {
            salvage.files.push(SalvagedFile::new(manifest::file_name(*generation)));
            salvage.moved.manifests.push(*generation);
        }
        for id in &damaged.segments {
            self.salvage_segment(*id, lost, &mut salvage)?;
        }
        for id in damaged.torn.iter().filter(|id| !damaged.segments.contains(id)) {
            if self.is_torn_off(*id, lost)? {
                self.salvage_segment(*id, lost, &mut salvage)?;
            }
        }
        for id in &damaged.restorable {
            let restored = self.examination.restored(*id)?;
            let Some((_, RestoredPack { pack, .. })) = restored else { continue };
            salvage.files.push(SalvagedFile::restored(&id.file_name(), pack.len()));
            salvage.restored.extend((0..pack.len()).filter_map(|ordinal| pack.id_at(ordinal)));
        }
        let parities = damaged.parities.iter().map(|id| id.parity_name());
        salvage.files.extend(parities.map(|name| SalvagedFile::restored(&name, 0)));
        for id in &damaged.packs {
            let name = format!("{PACKS_DIR}/{}", id.file_name());
            if !salvage.files.iter().any(|file| file.name == name) {
                self.salvage_pack(*id, &mut salvage)?;
            }
        }
        for id in damaged.stray_packs.iter().chain(&damaged.spare_packs) {
            let Some(pack) = self.open_pack(*id)? else { continue };
            let wanted =
                lost.keys().any(|id| matches!(pack.find(id), Some(PackLookup::Object { .. })));
            if wanted || damaged.stray_packs.contains(id) {
                salvage.adopted.push(format!("{PACKS_DIR}/{}", id.file_name()));
                salvage.adopted_packs.push(Arc::new(pack));
            }
        }
        let SalvagePlan { sources, gone, .. } = &mut salvage;
        gone.sort_by_key(|(id, ..)| *id);
        gone.dedup_by_key(|(id, ..)| *id);
        gone.retain(|(id, ..)| !sources.contains_key(id));
        Ok(salvage)
    }

    /// Executes the plan, and records `given_up` objects as elided.
    ///
    /// # Errors
    /// `Locked` when other processes keep publishing, `Io` when the disk refuses, `Corrupt` when an
    /// object that verified before does not now. Files that were not moved are unchanged.
    pub(crate) fn apply(&self, salvage: &SalvagePlan, given_up: &[(ObjectId, Kind)]) -> Result<()> {
        let store = self.store;
        let mut packs: Vec<PackId> = salvage.adopted_packs.iter().map(|pack| pack.id()).collect();
        let mut gone = salvage.gone.clone();
        gone.extend(given_up.iter().map(|(id, kind)| (*id, *kind, Tombstone::Elided)));
        if !salvage.sources.is_empty() || !gone.is_empty() {
            // Compressing as an archive takes ten times as long as reading the objects; the next
            // archive contains them anyway.
            let tier = salvage.tier.unwrap_or(Tier::Compacted);
            let draft = PackDraft {
                store: store.superblock.store,
                salt: lock(&store.writer).new_salt(),
                tier: tier.min(Tier::Compacted),
                lists_ids: true,
                items: &salvage.items(),
                gone: &gone,
                source: salvage,
            };
            // A lost policy must not block the repair: then use the default share.
            let usual = |_| tier.parity().or(Some(ParityShare::default()));
            let parity = store.pack_parity(draft.tier, tier.parity()).unwrap_or_else(usual);
            packs.push(store.write_pack(&draft, parity)?.id);
        }
        if !packs.is_empty() || !salvage.moved.manifests.is_empty() || salvage.lists_unknown {
            self.publish(&mut |manifest, refs| {
                let new = packs.iter().filter(|id| !manifest.packs.contains(id)).copied();
                manifest.packs.extend(new.collect::<Vec<_>>());
                manifest.advance(&self.refs_with(salvage, &manifest.refs, refs)?);
                Ok(())
            })?;
        }
        let moved = salvage.files.iter().filter(|file| file.fate == SalvageFate::Quarantined);
        let mut moved: Vec<PathBuf> = moved.map(|file| store.dir.join(&file.name)).collect();
        let parities = salvage.moved.packs.iter().map(|id| id.parity_name());
        moved.extend(parities.map(|name| store.dir.join(PACKS_DIR).join(name)));
        quarantine::move_files(&*store.io, &store.dir, &moved)?;
        let moved = &salvage.moved;
        if !moved.packs.is_empty() || !moved.segments.is_empty() {
            self.publish(&mut |manifest, refs| {
                manifest.packs.retain(|id| !moved.packs.contains(id));
                manifest.sealed.retain(|(id, _)| !moved.segments.contains(id));
                // Handles that have it open drop it, so that no new commit relies on it.
                manifest.retired.extend(&moved.segments);
                manifest.retired.sort_unstable();
                manifest.retired.dedup();
                manifest.advance(&self.refs_with(salvage, &manifest.refs, refs)?);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Looks for a lost object in the torn batch of a segment. If it is found, the batch was
    /// acknowledged and is damaged.
    fn is_torn_off(&self, id: SegmentId, lost: &BTreeMap<ObjectId, Kind>) -> Result<bool> {
        let Some(segment) = self.open_segment(id)? else { return Ok(false) };
        let mut tail = Tail::default();
        scan(&segment, &mut tail, ScanDepth::Whole, &mut ScanFindings::default())?;
        Ok(torn_batch(&segment, &tail)?.iter().any(|(id, _)| lost.contains_key(id)))
    }

    fn open_segment(&self, id: SegmentId) -> Result<Option<Arc<SegmentFile>>> {
        let path = self.store.dir.join(JOURNAL_DIR).join(id.file_name());
        let file = self.store.io.open_if_exists(&path, Access::Read)?;
        Ok(file.map(|file| Arc::new(SegmentFile { id, file })))
    }

    fn salvage_segment(
        &self,
        id: SegmentId,
        lost: &BTreeMap<ObjectId, Kind>,
        salvage: &mut SalvagePlan,
    ) -> Result<()> {
        let store = self.store;
        let name = format!("{JOURNAL_DIR}/{}", id.file_name());
        let mut file = SalvagedFile::new(name);
        let Some(segment) = self.open_segment(id)? else {
            file.fate = SalvageFate::Missing;
            salvage.files.push(file);
            salvage.moved.segments.push(id);
            return Ok(());
        };
        match store.lock_sealed(id)? {
            Some(locked) => salvage.locks.push(locked),
            None => {
                file.fate = SalvageFate::InUse;
                salvage.files.push(file);
                return Ok(());
            }
        }
        let mut found = ScanFindings::default();
        let mut tail = Tail::default();
        scan(&segment, &mut tail, ScanDepth::Whole, &mut found)?;
        if tail.end == SegmentEnd::Torn {
            // Operations in the torn batch are used only if they are known to be committed.
            let torn = torn_batch(&segment, &tail)?.into_iter();
            let is_known = |id: &ObjectId, at: &Location| {
                at.stored.kind != Kind::Operation || lost.contains_key(id)
            };
            found.objects.extend(torn.filter(|(id, at)| is_known(id, at)));
        }
        // Objects in a batch that does not verify are found through the index, if the segment has
        // one.
        let active = found.objects.into_iter().map(|(id, at)| (id, ObjectPlace::Active(at)));
        let sealed = self.examination.inventory.sealed(id);
        let indexed = sealed.iter().flat_map(|sealed| {
            sealed
                .entries()
                .map(|(id, stored)| (id, ObjectPlace::Sealed(Arc::clone(sealed), stored)))
        });
        for (id, place) in indexed.chain(active) {
            if salvage.sources.contains_key(&id) {
                continue;
            }
            if place.read(&id, &salvage.blocks).is_ok() {
                file.saved += 1;
                salvage.sources.insert(id, Source::ObjectPlace(place));
            } else {
                file.damaged += 1;
            }
        }
        salvage.files.push(file);
        salvage.moved.segments.push(id);
        Ok(())
    }

    fn salvage_pack(&self, id: PackId, salvage: &mut SalvagePlan) -> Result<()> {
        let name = format!("{PACKS_DIR}/{}", id.file_name());
        let path = self.store.dir.join(&name);
        let mut file = SalvagedFile::new(name);
        salvage.moved.packs.push(id);
        let Some(opened) = self.store.io.open_if_exists(&path, Access::Read)? else {
            file.fate = SalvageFate::Missing;
            salvage.files.push(file);
            return Ok(());
        };
        let (io, dir) = (&self.store.io, &self.store.dir);
        let store = self.store.superblock.store;
        let pack = derived_ids::open(io, dir, (&opened, id), store, false);
        if let Ok(pack) = pack.and_then(|pack| pack.check_ids().map(|()| pack)) {
            salvage.tier = salvage.tier.max(Some(pack.tier()));
            pack.check_ids_known()?;
            let is_kept = !pack.lists_ids() && !pack.is_computed();
            take_objects(pack, &mut file, salvage, false);
            // Ids stored next to the pack may be wrong, but may also cover more objects than the
            // computable ones; so try both.
            if is_kept && let Ok(computed) = Pack::open(&opened, id, store) {
                file.damaged = 0;
                take_objects(computed, &mut file, salvage, true);
            }
        } else if let Ok(rebuilt) =
            RecoveredObjects::read_frames(&opened, id, store, &salvage.blocks)
        {
            let number = salvage.rebuilt.len();
            for (ordinal, id, kind) in rebuilt.objects() {
                file.saved += 1;
                salvage.sources.insert(id, Source::Rebuilt(number, kind, ordinal));
            }
            let problems = rebuilt.findings().iter().map(|finding| finding.message.clone());
            file.problems.extend(problems);
            salvage.gone.extend(rebuilt.tombstones());
            salvage.rebuilt.push(rebuilt);
        }
        salvage.files.push(file);
        Ok(())
    }

    fn open_pack(&self, id: PackId) -> Result<Option<Pack>> {
        let path = self.store.dir.join(PACKS_DIR).join(id.file_name());
        let file = self.store.io.open_if_exists(&path, Access::Read)?;
        Ok(file.and_then(|file| Pack::open(&file, id, self.store.superblock.store).ok()))
    }

    /// Returns the refs after every known operation, including operations of this salvage: in
    /// damaged files, in unlisted packs, and in listed files whose operations the manifest's refs
    /// lack. `listed` are the manifest's refs, and `refs` those of a complete view.
    ///
    /// Starts from the manifest's refs, since a journal that starts later contains only changes.
    fn refs_with(
        &self,
        salvage: &SalvagePlan,
        listed: &RefTable,
        refs: &RefTable,
    ) -> Result<RefTable> {
        let (store, inventory) = (self.store, &self.examination.inventory);
        let mut operations = Operations::read(inventory, inventory.operations());
        for PackItem { id, .. } in
            salvage.items().iter().filter(|item| item.kind == Kind::Operation)
        {
            operations.add(salvage, *id);
        }
        for pack in &salvage.adopted_packs {
            let source = PackSource(pack, &salvage.blocks);
            for (_, id) in pack.of_kind(Kind::Operation) {
                operations.add(&source, id);
            }
        }
        // Add operations committed since the examination.
        let mut next = refs.operation;
        while let Some(id) = next.filter(|id| operations.get(id).is_none()) {
            let known = operations.add(store, id).then(|| operations.get(&id)).flatten();
            next = known.and_then(|operation| operation.parents.first().copied());
        }
        // The journal decided whether its operations count when they were read, except those after
        // a salvaged one. Packs contain only committed operations.
        let is_packed = |id: &ObjectId| {
            salvage.sources.get(id).is_some_and(Source::is_packed)
                || salvage.adopted_packs.iter().any(|pack| pack.find(id).is_some())
        };
        let newer = operations
            .iter()
            .filter(|(id, operation)| operation.sequence > refs.sequence && is_packed(id));
        let newest =
            newer.max_by_key(|(id, operation)| (operation.sequence, **id)).map(|(id, _)| *id);
        let Some(tip) = newest.or(refs.operation).map(|tip| operations.newest_after(tip)) else {
            return Ok(refs.clone());
        };
        // Operations missing in between are unknown; the newest values are known.
        let mut found = listed.clone();
        for (id, operation) in operations.lineage(tip, listed.sequence) {
            found.apply(id, operation);
        }
        Ok(if found.sequence < refs.sequence { refs.clone() } else { found })
    }

    /// Publishes the newest manifest with a change, and reloads it.
    fn publish(&self, edit: &mut ListingEdit<'_>) -> Result<()> {
        let store = self.store;
        for _ in 0..MAX_ATTEMPTS {
            let mut change = Listing { repair: self, edit, ahead_of: None };
            match store.publish(&mut change)? {
                PublishOutcome::Done | PublishOutcome::Unchanged => return store.reload(),
                PublishOutcome::Withheld => {}
                PublishOutcome::Stale => {
                    store.check_collector(&*self.collector)?;
                    store.reload()?;
                }
            }
        }
        let message =
            format!("{}: other processes keep committing: try again", store.dir.display());
        Err(Error::new(ErrorKind::Locked, message))
    }
}

/// Changes a manifest, given the refs of a complete view.
type ListingEdit<'a> = dyn FnMut(&mut Manifest, &RefTable) -> Result<()> + 'a;

/// Files to add to the list or remove from it, with refs that may be ahead of the journal.
struct Listing<'m, 'e, 'f> {
    repair: &'m RepairLock<'m>,
    edit: &'e mut ListingEdit<'f>,
    /// The newest operation in the journal, if the refs are ahead of it.
    ahead_of: Option<Option<ObjectId>>,
}

impl ManifestEdit for Listing<'_, '_, '_> {
    fn edit(&mut self, manifest: &mut Manifest, refs: &RefTable) -> Result<bool> {
        (self.edit)(manifest, refs)?;
        self.ahead_of = (manifest.refs.sequence > refs.sequence).then_some(refs.operation);
        Ok(true)
    }

    /// Rejects the change if new commits exist: refs ahead of the journal would hide them.
    fn may_hold(&mut self) -> Result<bool> {
        let (store, Some(newest)) = (self.repair.store, self.ahead_of) else { return Ok(true) };
        lock(&store.journal).catch_up(&*store.io, &store.view, ScanDepth::Next)?;
        Ok(read(&store.view).refs.operation == newest)
    }

    fn collector(&self) -> Option<&dyn IoFile> {
        Some(&*self.repair.collector)
    }

    fn replaces_damaged(&self) -> bool {
        true
    }
}

/// The objects of one pack.
struct PackSource<'a>(&'a Pack, &'a BlockCache);

impl ObjectSource for PackSource<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        let Some(PackLookup::Object { ordinal, kind }) = self.0.find(id) else { return Ok(None) };
        let bytes = self.0.read(ordinal, self.1)?;
        verify(kind, &bytes, id)?;
        Ok(Some(Object { kind, bytes }))
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(matches!(self.0.find(id), Some(PackLookup::Object { .. })))
    }
}

/// Salvages the objects of a pack that verify. If `is_again`, skips objects already salvaged.
fn take_objects(pack: Pack, file: &mut SalvagedFile, salvage: &mut SalvagePlan, is_again: bool) {
    let pack = Arc::new(pack);
    file.damaged += pack.unknown_count();
    for (ordinal, id, kind, is_good) in pack.try_objects(&salvage.blocks) {
        if is_again && salvage.sources.contains_key(&id) {
            continue;
        }
        if is_good {
            file.saved += 1;
            let place = ObjectPlace::Packed(Arc::clone(&pack), kind, ordinal);
            salvage.sources.insert(id, Source::ObjectPlace(place));
        } else {
            file.damaged += 1;
        }
    }
    salvage.gone.extend(pack.tombstones());
}

impl SalvagePlan {
    /// Returns true if the plan changes nothing.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.adopted.is_empty()
            && !self.lists_unknown
            && self.files.iter().all(|f| f.fate == SalvageFate::InUse)
    }

    /// Returns true if an object is readable after the repair.
    #[must_use]
    pub(crate) fn has_readable(&self, id: &ObjectId) -> bool {
        let has = |pack: &Arc<Pack>| matches!(pack.find(id), Some(PackLookup::Object { .. }));
        self.sources.contains_key(id)
            || self.restored.contains(id)
            || self.adopted_packs.iter().any(has)
    }

    /// Returns the items of the new pack: by kind, since kinds share no blocks, and in storage
    /// order, so that each block is unpacked once and similar objects stay together.
    fn items(&self) -> Vec<PackItem> {
        let mut found: Vec<_> = self.sources.iter().collect();
        found.sort_unstable_by_key(|(id, source)| (source.kind(), source.position(), **id));
        found
            .iter()
            .map(|(id, source)| PackItem { id: **id, kind: source.kind(), placement: 0, cohort: 0 })
            .collect()
    }

    /// The number of blocks unpacked so far.
    #[cfg(test)]
    pub(in crate::store) fn decoded_blocks(&self) -> u64 {
        self.blocks.decoded()
    }

    fn new() -> Self {
        Self {
            files: Vec::new(),
            adopted: Vec::new(),
            lists_unknown: false,
            sources: HashMap::new(),
            restored: HashSet::new(),
            gone: Vec::new(),
            tier: None,
            rebuilt: Vec::new(),
            blocks: BlockCache::new(CACHE_BYTES),
            locks: Vec::new(),
            moved: DamagedFiles::default(),
            adopted_packs: Vec::new(),
        }
    }
}

impl Source {
    fn is_packed(&self) -> bool {
        matches!(self, Self::ObjectPlace(ObjectPlace::Packed(..)) | Self::Rebuilt(..))
    }

    /// Returns the number of its rebuilt pack or file, and its position there.
    fn position(&self) -> (Option<usize>, Option<FileId>, u64) {
        match self {
            Self::ObjectPlace(place) => {
                let (file, at) = place.position();
                (None, Some(file), at)
            }
            Self::Rebuilt(number, _, ordinal) => (Some(*number), None, (*ordinal).into()),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::ObjectPlace(ObjectPlace::Active(location)) => location.stored.kind,
            Self::ObjectPlace(ObjectPlace::Sealed(_, stored)) => stored.kind,
            Self::ObjectPlace(ObjectPlace::Packed(_, kind, _)) | Self::Rebuilt(_, kind, _) => *kind,
        }
    }
}

impl ObjectSource for SalvagePlan {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        match self.sources.get(id) {
            None => Ok(None),
            Some(Source::ObjectPlace(place)) => place.read(id, &self.blocks).map(Some),
            Some(Source::Rebuilt(number, kind, ordinal)) => {
                let Some(rebuilt) = self.rebuilt.get(*number) else { return Ok(None) };
                let bytes = rebuilt.read(*ordinal, &self.blocks)?;
                verify(*kind, &bytes, id)?;
                Ok(Some(Object { kind: *kind, bytes }))
            }
        }
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.sources.contains_key(id))
    }
}
