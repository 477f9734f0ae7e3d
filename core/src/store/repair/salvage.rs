//! Mending: what verifies of a damaged file goes into a new pack, and the file into quarantine.
//!
//! ```text
//! examine ── restore by parity
//!         └─ salvage, write a pack ── publish it ── move the files ── publish without them
//! ```
//!
//! A pack that its parity restores is as it was, and nothing of it is lost.
//! Nothing is deleted. A file that a process writes to is left alone. Everything that verifies can be
//! read at every moment, and a crash in between leaves what the next repair finishes: a pack that a
//! manifest lists beside the damaged file, or a manifest that lists a file that was moved.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::examine::{Damaged, Examination, Progress, Thoroughness};
use super::quarantine;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, verify};
use crate::store::derived_ids;
use crate::store::format::id::SegmentId;
use crate::store::format::manifest::{self, Manifest};
use crate::store::format::segment::{Location, SegmentFile};
use crate::store::io::{Access, IoFile};
use crate::store::pack::{
    BlockCache, Pack, PackDraft, PackId, PackItem, PackLookup, ParityFile, Rebuilt, Restored, Tier,
    Tombstone,
};
use crate::store::parity::ParityShare;
use crate::store::read::operations::Operations;
use crate::store::read::refs::RefTable;
use crate::store::read::scan::{Depth, End, ScanFindings, Tail, scan, torn_batch};
use crate::store::read::view::{FileId, ObjectPlace};
use crate::store::write::publish::{ManifestEdit, Published};
use crate::store::{JOURNAL_DIR, PACKS_DIR, Store, lock, read};

/// Times that publishing is tried while others commit.
const MAX_ATTEMPTS: usize = 64;

/// Unpacked blocks that are kept; few where tests count how often one is unpacked.
const CACHE_BYTES: usize = if cfg!(test) { 1 << 20 } else { 32 << 20 };

/// The right to mend a store, and what there is to mend. No collection goes on meanwhile.
#[derive(Debug)]
pub(crate) struct Repair<'s> {
    store: &'s Store,
    /// The content of the store and its damage.
    pub examination: Examination<'s>,
    collector: Arc<dyn IoFile>,
}

/// The plan for damaged files, and the objects in them that verify.
#[derive(Debug)]
pub(crate) struct Salvage {
    /// Damaged files, in order of their names.
    pub files: Vec<SalvagedFile>,
    /// Packs that no manifest lists and that hold what is missing, by their names: they are listed.
    pub adopted: Vec<String>,
    /// True if files are listed that hold operations which the refs of the manifest lack.
    pub lists_unknown: bool,
    /// Objects that can be read from the damaged files.
    sources: HashMap<ObjectId, Source>,
    /// Objects in packs that their parity restores.
    restored: HashSet<ObjectId>,
    gone: Vec<(ObjectId, Kind, Tombstone)>,
    tier: Option<Tier>,
    rebuilt: Vec<Rebuilt>,
    blocks: BlockCache,
    /// Damaged segments, locked.
    locks: Vec<Arc<dyn IoFile>>,
    /// The files that go into quarantine.
    moved: Damaged,
    adopted_packs: Vec<Arc<Pack>>,
}

/// What parity restores of damaged packs.
#[derive(Debug, Default)]
pub(crate) struct Restorable {
    /// Paths of the packs in the store.
    pub(crate) packs: Vec<String>,
    /// The objects in them.
    pub(crate) objects: HashSet<ObjectId>,
}

/// A damaged file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedFile {
    /// Its path in the store.
    pub name: String,
    /// Its fate.
    pub fate: SalvageFate,
    /// Objects in it that verify.
    pub saved: u64,
    /// Objects that it should have and that do not verify, as far as it says so.
    pub damaged: u64,
    /// Further damage of a pack that is readable by its frames alone.
    pub problems: Vec<String>,
}

impl SalvagedFile {
    fn new(name: String) -> Self {
        let fate = SalvageFate::Quarantined;
        Self { name, fate, saved: 0, damaged: 0, problems: Vec::new() }
    }

    /// A file among the packs that is as it was.
    fn restored(name: &str, objects: u32) -> Self {
        let fate = SalvageFate::Restored;
        Self { fate, saved: objects.into(), ..Self::new(format!("{PACKS_DIR}/{name}")) }
    }
}

/// The fate of a damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SalvageFate {
    /// Its parity restores it as it was; or it is a parity, which is made again.
    Restored,
    /// Objects that verify are copied, and the file is put into quarantine.
    Quarantined,
    /// It is not there; the manifest no longer lists it.
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
    /// Examines the store to mend it.
    ///
    /// # Errors
    /// Those of [`Store::examine`]; `Locked` while a collection goes on, `Unsupported` when this
    /// build may not write to the store.
    pub(crate) fn begin_repair(&self, progress: &mut Progress<'_>) -> Result<Repair<'_>> {
        self.superblock.check_writable()?;
        let collector = self.lock_collector()?.0;
        // What a view of another epoch misses would be missing from the refs that are published.
        self.refresh()?;
        let mut writer = lock(&self.writer);
        if !self.has_read_guard()
            && let Some(owned) = writer.owned.take()
            && let Some(segment) = lock(&self.journal).segment(&owned.segment)
        {
            segment.owned = false;
        }
        drop(writer);
        let examination = self.examine(Thoroughness::Full, progress)?;
        Ok(Repair { store: self, examination, collector })
    }
}

impl Examination<'_> {
    /// A damaged pack as its parity restores it; the file stays as it is.
    fn restored(&self, id: PackId) -> Result<Option<(ParityFile, Restored)>> {
        let store = self.store;
        let parity = ParityFile::examine(&*store.io, &store.dir.join(PACKS_DIR), id)?;
        let Some(parity) = parity else { return Ok(None) };
        let restored = parity.restored(store.superblock.store)?;
        Ok(restored.map(|restored| (parity, restored)))
    }

    /// Finds what a repair restores by parity, and writes nothing. Reads each damaged pack that has
    /// one; memory holds the ids of its objects.
    ///
    /// # Errors
    /// `Io` when a pack or its parity cannot be read.
    pub(crate) fn restorable(&self) -> Result<Restorable> {
        let mut found = Restorable::default();
        for id in &self.damaged.restorable {
            let Some((_, Restored { pack, .. })) = self.restored(*id)? else { continue };
            found.packs.push(format!("{PACKS_DIR}/{}", id.file_name()));
            found.objects.extend((0..pack.len()).filter_map(|ordinal| pack.id_at(ordinal)));
        }
        Ok(found)
    }
}

impl Repair<'_> {
    /// Puts packs that their parity restores in the place of the damaged ones, and makes damaged
    /// parities again. Returns the files that it mended; none means that the examination holds.
    ///
    /// # Errors
    /// `Io` when the disk refuses; a file that was not mended is as it was.
    pub(crate) fn restore(&self) -> Result<Vec<SalvagedFile>> {
        let (store, mut files) = (self.store, Vec::new());
        let packs = store.dir.join(PACKS_DIR);
        for id in &self.examination.damaged.restorable {
            let Some((parity, restored)) = self.examination.restored(*id)? else { continue };
            parity.put_back(&*store.io, &packs, &restored)?;
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

    /// Plans the salvage of damaged files. `lost` are objects that
    /// are looked for in packs that no manifest lists.
    ///
    /// # Errors
    /// `Io` when files cannot be looked at.
    pub(crate) fn salvage(&self, lost: &BTreeMap<ObjectId, Kind>) -> Result<Salvage> {
        let mut salvage = Salvage::new();
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
            let Some((_, Restored { pack, .. })) = restored else { continue };
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
        let Salvage { sources, gone, .. } = &mut salvage;
        gone.sort_by_key(|(id, ..)| *id);
        gone.dedup_by_key(|(id, ..)| *id);
        gone.retain(|(id, ..)| !sources.contains_key(id));
        Ok(salvage)
    }

    /// Does what `salvage` says, and records `given_up` as dropped.
    ///
    /// # Errors
    /// `Locked` when others publish all the time, `Io` when the disk refuses, `Corrupt` when what
    /// verified a moment ago does not any more. What was not moved is as it was.
    pub(crate) fn apply(&self, salvage: &Salvage, given_up: &[(ObjectId, Kind)]) -> Result<()> {
        let store = self.store;
        let mut packs: Vec<PackId> = salvage.adopted_packs.iter().map(|pack| pack.id()).collect();
        let mut gone = salvage.gone.clone();
        gone.extend(given_up.iter().map(|(id, kind)| (*id, *kind, Tombstone::Elided)));
        if !salvage.sources.is_empty() || !gone.is_empty() {
            // Compressed as an archive, what is saved takes ten times as long as it takes to be read;
            // the next archive has it.
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
            // A policy that is lost itself must not be in the way: then as much as is usual.
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
                // Whoever has one open forgets it, so that nothing new relies on it.
                manifest.retired.extend(&moved.segments);
                manifest.retired.sort_unstable();
                manifest.retired.dedup();
                manifest.advance(&self.refs_with(salvage, &manifest.refs, refs)?);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Looks for a lost object in the torn batch of a segment: then the batch was acknowledged,
    /// and is damaged.
    fn is_torn_off(&self, id: SegmentId, lost: &BTreeMap<ObjectId, Kind>) -> Result<bool> {
        let Some(segment) = self.open_segment(id)? else { return Ok(false) };
        let mut tail = Tail::default();
        scan(&segment, &mut tail, Depth::Whole, &mut ScanFindings::default())?;
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
        salvage: &mut Salvage,
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
        scan(&segment, &mut tail, Depth::Whole, &mut found)?;
        if tail.end == End::Torn {
            // An operation in it counts only if it is known to be one of those that happened.
            let torn = torn_batch(&segment, &tail)?.into_iter();
            let is_known = |id: &ObjectId, at: &Location| {
                at.stored.kind != Kind::Operation || lost.contains_key(id)
            };
            found.objects.extend(torn.filter(|(id, at)| is_known(id, at)));
        }
        // Objects in a batch that does not verify are found through the index, if there is one.
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

    fn salvage_pack(&self, id: PackId, salvage: &mut Salvage) -> Result<()> {
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
            pack.check_identified()?;
            let is_kept = !pack.lists_ids() && !pack.is_computed();
            take_objects(pack, &mut file, salvage, false);
            // Ids that were kept beside it may be wrong, and give more than those that follow from what
            // is left; so both are tried.
            if is_kept && let Ok(computed) = Pack::open(&opened, id, store) {
                file.damaged = 0;
                take_objects(computed, &mut file, salvage, true);
            }
        } else if let Ok(rebuilt) = Rebuilt::read_frames(&opened, id, store, &salvage.blocks) {
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

    /// The refs after every operation that is known, those that were found just now included: in
    /// damaged files, in packs that no manifest listed, and in listed files whose operations the
    /// manifest's refs lack. `listed` are the manifest's, and `refs` those of a complete view.
    ///
    /// Begins with the manifest's, since a journal that begins late says only what changed.
    fn refs_with(&self, salvage: &Salvage, listed: &RefTable, refs: &RefTable) -> Result<RefTable> {
        let (store, inventory) = (self.store, &self.examination.inventory);
        let mut operations = Operations::read(inventory, inventory.operations());
        for PackItem { id, .. } in
            salvage.items().iter().filter(|item| item.kind == Kind::Operation)
        {
            operations.add(salvage, *id);
        }
        for pack in &salvage.adopted_packs {
            let source = Packed(pack, &salvage.blocks);
            for (_, id) in pack.of_kind(Kind::Operation) {
                operations.add(&source, id);
            }
        }
        // What was committed since the examination.
        let mut next = refs.operation;
        while let Some(id) = next.filter(|id| operations.get(id).is_none()) {
            let known = operations.add(store, id).then(|| operations.get(&id)).flatten();
            next = known.and_then(|operation| operation.parents.first().copied());
        }
        // Whether an operation of the journal counts was decided when it was read, unless it follows
        // what counts; in a pack there are no others.
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
        // What is missing in between cannot be known; the newest values are.
        let mut found = listed.clone();
        for (id, operation) in operations.line(tip, listed.sequence) {
            found.apply(id, operation);
        }
        Ok(if found.sequence < refs.sequence { refs.clone() } else { found })
    }

    /// Publishes the newest manifest with a change, and sees it.
    fn publish(&self, edit: &mut ListingEdit<'_>) -> Result<()> {
        let store = self.store;
        for _ in 0..MAX_ATTEMPTS {
            let mut change = Listing { repair: self, edit, ahead_of: None };
            match store.publish(&mut change)? {
                Published::Done | Published::Unchanged => return store.reload(),
                Published::Withheld => {}
                Published::Stale => {
                    store.check_collector(&*self.collector)?;
                    store.reload()?;
                }
            }
        }
        let message = format!("{}: others keep committing", store.dir.display());
        Err(Error::new(ErrorKind::Locked, message))
    }
}

/// Changes a manifest, given the refs of a complete view.
type ListingEdit<'a> = dyn FnMut(&mut Manifest, &RefTable) -> Result<()> + 'a;

/// Files that come on the list or leave it, with refs that may be ahead of what the journal says.
struct Listing<'m, 'e, 'f> {
    repair: &'m Repair<'m>,
    edit: &'e mut ListingEdit<'f>,
    /// The newest operation that everybody knows, when the refs are ahead of it.
    ahead_of: Option<Option<ObjectId>>,
}

impl ManifestEdit for Listing<'_, '_, '_> {
    fn edit(&mut self, manifest: &mut Manifest, refs: &RefTable) -> Result<bool> {
        (self.edit)(manifest, refs)?;
        self.ahead_of = (manifest.refs.sequence > refs.sequence).then_some(refs.operation);
        Ok(true)
    }

    /// Refs that are ahead of what everybody knows would hide what was committed meanwhile.
    fn may_hold(&mut self) -> Result<bool> {
        let (store, Some(newest)) = (self.repair.store, self.ahead_of) else { return Ok(true) };
        lock(&store.journal).catch_up(&*store.io, &store.view, Depth::Next)?;
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
struct Packed<'a>(&'a Pack, &'a BlockCache);

impl ObjectSource for Packed<'_> {
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

/// Takes what verifies of a pack; when it `is_again`, without what is had already.
fn take_objects(pack: Pack, file: &mut SalvagedFile, salvage: &mut Salvage, is_again: bool) {
    let pack = Arc::new(pack);
    file.damaged += pack.unknown();
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

impl Salvage {
    /// Returns true if there is nothing that could be done.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.adopted.is_empty()
            && !self.lists_unknown
            && self.files.iter().all(|f| f.fate == SalvageFate::InUse)
    }

    /// Returns true if an object can be read again afterwards.
    #[must_use]
    pub(crate) fn saves(&self, id: &ObjectId) -> bool {
        let has = |pack: &Arc<Pack>| matches!(pack.find(id), Some(PackLookup::Object { .. }));
        self.sources.contains_key(id)
            || self.restored.contains(id)
            || self.adopted_packs.iter().any(has)
    }

    /// The items of the new pack: kind by kind, since kinds share no blocks, and each in the order
    /// in which it lies, so that a block is unpacked once and what resembles each other stays
    /// together.
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
            moved: Damaged::default(),
            adopted_packs: Vec::new(),
        }
    }
}

impl Source {
    fn is_packed(&self) -> bool {
        matches!(self, Self::ObjectPlace(ObjectPlace::Packed(..)) | Self::Rebuilt(..))
    }

    /// The number of its rebuilt pack or file, and its place there.
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

impl ObjectSource for Salvage {
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
