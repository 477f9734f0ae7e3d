//! Examines a store: reads every byte of its current files on disk.
//!
//! Opening a store trusts a checksum or a later batch, and finds other damage on reading. An
//! examination trusts nothing: it hashes every record and frame, verifies every copy of every
//! object against its id, and compares every index with the objects that it indexes. It takes no
//! lock and writes nothing. Files that a concurrent collection removes stay readable.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::object::{ObjectId, Operation};
use crate::store::derived::pack_of;
use crate::store::derived_ids;
use crate::store::encryption::is_unused;
use crate::store::format::id::SegmentId;
use crate::store::format::manifest::{self, Manifest};
use crate::store::format::segment::{
    Location, NEW_SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SegmentFile, StoredRecord,
    encode_segment_header,
};
use crate::store::format::superblock::Superblock;
use crate::store::io::{Access, is_temporary};
use crate::store::pack::{BlockCache, Pack, PackId, ParityFile};
use crate::store::read::inventory::{Inventory, InventoryFiles};
use crate::store::read::load::{self, OpenPurpose};
use crate::store::read::operations::Operations;
use crate::store::read::scan::{ScanDepth, ScanFindings, SegmentEnd, Tail, scan};
use crate::store::read::sealed::SealedSegment;
use crate::store::read::view::ObjectPlace;
use crate::store::replace::collect;
use crate::store::replace::idle::LAST_STEP_FILE;
use crate::store::replace::reserve::RESERVE_FILE;
use crate::store::write::untracked;
use crate::store::{
    DERIVED_DIR, DISTANT_DIR, Finding, FindingKind, HOOK_LOG, JOURNAL_DIR, KEYS_DIR,
    MAINTENANCE_LOCK, PACKS_DIR, QUARANTINE_DIR, SUPERBLOCK_FILE, Store, WORKSPACES_DIR,
};

/// Most bytes of unpacked blocks that are cached while packs are read.
const CACHE_BYTES: usize = 32 << 20;

/// Objects of a segment that one thread processes at a time.
const OBJECTS_PER_TASK: usize = 32;

/// The thoroughness of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thoroughness {
    /// Structure and indexes, and only the objects needed for that.
    Quick,
    /// Every byte.
    #[default]
    Full,
}

/// Reports progress: bytes of finished files, and of all files.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// The content of a store and its damage, as read from disk.
#[derive(Debug)]
#[non_exhaustive]
pub struct Examination<'s> {
    pub(in crate::store) store: &'s Store,
    /// Every object of every file that can be opened.
    pub inventory: Inventory<'s>,
    /// Damage of the files.
    pub findings: Vec<Finding>,
    /// Objects without a copy that verifies. Complete only after a full examination.
    pub unreadable: HashSet<ObjectId>,
    /// Bytes of the files, excluding leftovers.
    pub bytes: u64,
    /// Committed operations that are not ancestors of the newest one, oldest first.
    pub(crate) detached: Vec<DetachedOperation>,
    epoch: u64,
    pub(in crate::store) damaged: DamagedFiles,
}

/// A committed operation that is not an ancestor of the newest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetachedOperation {
    /// The id of the operation.
    pub id: ObjectId,
    /// The operation itself.
    pub operation: Operation,
    /// True if no other detached operation has it as a parent.
    pub is_head: bool,
}

/// Damaged and unlisted files.
#[derive(Debug, Default)]
pub(in crate::store) struct DamagedFiles {
    /// Damaged packs that the manifest lists.
    pub(in crate::store) packs: Vec<PackId>,
    /// Unlisted packs with operations newer than the refs.
    pub(in crate::store) stray_packs: Vec<PackId>,
    /// Unlisted packs that are intact.
    pub(in crate::store) spare_packs: Vec<PackId>,
    /// Packs that their parity may restore, listed or not.
    pub(in crate::store) restorable: Vec<PackId>,
    /// Parities of intact packs that are damaged, or belong to other content.
    pub(in crate::store) parities: Vec<PackId>,
    pub(in crate::store) segments: Vec<SegmentId>,
    /// Segments that end in an incomplete batch.
    pub(in crate::store) torn: Vec<SegmentId>,
    /// Generations of damaged manifests.
    pub(in crate::store) manifests: Vec<u64>,
    /// True if the newest manifest lists files with operations that its refs lack.
    pub(in crate::store) lists_unknown: bool,
}

impl Store {
    /// Examines every file as it is on disk, ignoring everything that this handle has read before.
    ///
    /// Reads the whole store, and takes as much memory as its index. Calls `progress` after each
    /// file.
    ///
    /// # Errors
    /// The errors of [`Store::open`]; damage of anything but the superblock is a finding.
    /// `Conflict` when the keys of the store have changed: the store has to be opened again.
    pub fn examine(
        &self,
        thoroughness: Thoroughness,
        progress: &mut Progress<'_>,
    ) -> Result<Examination<'_>> {
        let superblock = Superblock::open(&*self.io, &self.dir)?;
        let opened = load::open(&self.io, &self.dir, &superblock, OpenPurpose::Examined);
        self.check_keys()?;
        let (view, journal) = opened?;
        let view = view.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut segments = Vec::new();
        let mut bytes = 0;
        for segment in &journal.segments {
            let size = segment.file.file.size();
            let size = size.map_err(|e| Error::io(segment.file.place(0), e))?;
            segments.push((segment.file.id, size, false));
            bytes += size;
        }
        let files = Arc::clone(&view.files);
        bytes += files.sealed.iter().map(|sealed| sealed.file_bytes()).sum::<u64>();
        bytes += files.packs.iter().map(|pack| pack.file_bytes()).sum::<u64>();
        let mut examiner = Examiner {
            store: self,
            superblock: &superblock,
            thoroughness,
            blocks: BlockCache::new(CACHE_BYTES),
            findings: view.findings,
            bad: HashSet::new(),
            damaged: DamagedFiles::default(),
            newest: (view.refs.sequence, view.refs.operation),
            listed: (0, 0),
            done: (0, bytes),
            progress,
        };
        for segment in &journal.segments {
            examiner.segment(&segment.file, None)?;
        }
        for sealed in &files.sealed {
            examiner.segment(sealed.file(), Some(sealed))?;
        }
        for pack in &files.packs {
            examiner.pack(pack)?;
        }
        examiner.other_files(&journal.segments)?;
        self.check_keys()?;
        let Examiner { mut findings, bad, mut damaged, listed: manifest, .. } = examiner;
        let sealed_replaceable = vec![false; files.sealed.len()];
        let listed = InventoryFiles {
            files,
            refs: view.refs,
            active: view.active,
            segments,
            sealed_replaceable,
        };
        let inventory = Inventory::new(self, listed);
        let unreadable = bad.into_iter().filter(|id| inventory.read_any(id).is_err()).collect();
        let epoch = view.epoch;
        let operations = Operations::read(&inventory, inventory.operations());
        if let Some(finding) = unknown_to_manifest(&inventory, &operations, manifest) {
            damaged.lists_unknown = true;
            findings.push(finding);
        }
        let detached = detached(&operations, &inventory);
        Ok(Examination {
            store: self,
            inventory,
            findings,
            unreadable,
            bytes,
            detached,
            epoch,
            damaged,
        })
    }
}

impl Store {
    /// Fails if files may be enciphered with keys that this handle does not have.
    fn check_keys(&self) -> Result<()> {
        let superblock = Superblock::open(&*self.io, &self.dir)?;
        if superblock.keys == self.keys.map(|keys| keys.names()) {
            return Ok(());
        }
        let message = format!(
            "the keys of the store in {} have changed: open it again and retry",
            self.dir.display()
        );
        Err(Error::new(ErrorKind::Conflict, message))
    }
}

impl Examination<'_> {
    /// Returns true if no collection has removed files since the examination began. Then missing
    /// objects are really missing.
    ///
    /// # Errors
    /// `Io` when the superblock cannot be read.
    pub fn is_current(&self) -> Result<bool> {
        Ok(self.store.superblock.epoch()? == self.epoch)
    }
}

struct Examiner<'a, 'p> {
    store: &'a Store,
    superblock: &'a Superblock,
    thoroughness: Thoroughness,
    blocks: BlockCache,
    findings: Vec<Finding>,
    /// Objects with a copy that does not verify.
    bad: HashSet<ObjectId>,
    damaged: DamagedFiles,
    /// The newest operation in the refs.
    newest: (u64, Option<ObjectId>),
    /// The generation of the newest manifest, and the sequence of its refs.
    listed: (u64, u64),
    /// Examined bytes, and all bytes.
    done: (u64, u64),
    progress: &'p mut Progress<'p>,
}

impl Examiner<'_, '_> {
    /// Examines a segment by its records; `sealed` is its index, if the segment is sealed.
    fn segment(&mut self, file: &Arc<SegmentFile>, sealed: Option<&SealedSegment>) -> Result<()> {
        let mut found = ScanFindings::default();
        let mut tail = Tail::default();
        let depth = match self.thoroughness {
            Thoroughness::Quick => ScanDepth::Whole,
            Thoroughness::Full => ScanDepth::Bytes,
        };
        scan(file, &mut tail, depth, &mut found)?;
        self.segment_header(file, &tail)?;
        if let Some(sealed) = sealed {
            self.segment_index(sealed, &found.objects);
            if tail.end != SegmentEnd::Index {
                self.damage(file.place(tail.offset), "the segment does not end with its index");
            }
            // Batches of a sealed segment were acknowledged, so a torn one is damage.
            for finding in &mut found.findings {
                finding.kind = FindingKind::Damage;
            }
        }
        if sealed.is_none() && tail.end == SegmentEnd::Torn {
            self.damaged.torn.push(file.id);
        }
        let is_damaged = found.findings.iter().any(|f| f.kind == FindingKind::Damage);
        for finding in found.findings {
            self.add(finding);
        }
        if self.thoroughness == Thoroughness::Full {
            let bad = found.objects.par_iter().with_min_len(OBJECTS_PER_TASK).filter_map(
                |(id, location)| {
                    let place = ObjectPlace::Active(location.clone());
                    place.read(id, &self.blocks).err().map(|error| (*id, error))
                },
            );
            let bad: Vec<_> = bad.collect();
            self.bad_objects(&format!("journal/{}", file.id.file_name()), bad, is_damaged)?;
        }
        let place = format!("journal/{} ", file.id.file_name());
        let damaged = |f: &Finding| f.kind == FindingKind::Damage && f.place.starts_with(&place);
        if self.findings.iter().any(damaged) {
            self.damaged.segments.push(file.id);
        }
        self.add_progress(file.file.size().unwrap_or_default());
        Ok(())
    }

    fn segment_header(&mut self, file: &SegmentFile, tail: &Tail) -> Result<()> {
        let mut header = [0; SEGMENT_HEADER_BYTES];
        let read = file.file.read_at(&mut header, 0);
        let read = read.map_err(|e| Error::io(format!("read {}", file.place(0)), e))?;
        if header.get(..read) == Some(&*encode_segment_header(file.id, self.superblock.store)) {
            return Ok(());
        }
        // After a crash an enciphered file may have a partial head and nothing else. A segment that
        // a process created with the old key, before it noticed a change of keys, has no batch.
        let is_unfinished = || -> Result<bool> {
            let torn = is_unused(&*file.file, SEGMENT_HEADER_BYTES, 2 * NEW_SEGMENT_BYTES);
            Ok(self.store.keys().is_some()
                && torn.map_err(|e| Error::io(format!("read {}", file.place(0)), e))?)
        };
        if tail.sequence > 0 {
            self.damage(file.place(0), "the header is not that of this segment");
        } else if tail.end == SegmentEnd::Clean || is_unfinished()? {
            self.leftover(file.place(0), "a segment that was never completed");
        } else {
            self.damage(file.place(0), "it is not a segment");
        }
        Ok(())
    }

    /// Compares an index with the directories.
    fn segment_index(&mut self, sealed: &SealedSegment, objects: &[(ObjectId, Location)]) {
        let mut stored: HashMap<ObjectId, Vec<StoredRecord>> = HashMap::new();
        for (id, location) in objects {
            stored.entry(*id).or_default().push(location.stored);
        }
        let place = sealed.segment().place(0);
        for (id, places) in &stored {
            if !sealed.find(id).is_some_and(|found| places.contains(&found)) {
                self.damage(place.clone(), format!("the index does not find object {id}"));
            }
        }
        let known = |at| sealed.entry(at).is_some_and(|(id, _)| stored.contains_key(&id));
        let unknown = (0..sealed.len()).filter(|at| !known(*at)).count();
        if unknown > 0 {
            let message = format!("the index names {unknown} objects that are in no batch");
            self.damage(place, message);
        }
    }

    fn pack(&mut self, pack: &Pack) -> Result<()> {
        let before = self.findings.len();
        let place = format!("packs/{}", pack.id().file_name());
        let computed = match pack.lists_ids() || self.thoroughness == Thoroughness::Quick {
            true => None,
            false => self.computed(pack, &place)?,
        };
        // Ids stored next to a pack are not trusted, unless the damaged pack yields fewer objects
        // without them.
        let pack = match &computed {
            Some(computed) if computed.problem().is_none() => {
                self.kept_ids(computed);
                computed
            }
            _ => pack,
        };
        if let Some(message) = pack.problem() {
            self.damage(place.clone(), message);
        }
        let stray = pack.count_misindexed();
        if stray > 0 {
            self.damage(place.clone(), format!("the index does not find {stray} of its objects"));
        }
        if self.thoroughness == Thoroughness::Full {
            let damage = pack.verify_frames();
            let is_damaged = !damage.is_empty();
            self.findings.extend(damage);
            let bad = pack.verify_objects(&self.blocks);
            self.bad_objects(&place, bad, is_damaged)?;
            self.operations_of(pack, &place);
        }
        if self.findings.len() > before {
            self.damaged.packs.push(pack.id());
        }
        self.add_progress(pack.file_bytes());
        Ok(())
    }

    /// Opens a pack that lists no ids, with ids computed from its objects.
    fn computed(&mut self, pack: &Pack, place: &str) -> Result<Option<Pack>> {
        let file = self.store.io.open_if_exists(&self.store.dir.join(place), Access::Read)?;
        let Some(file) = file else { return Ok(None) };
        let computed = match Pack::open(&file, pack.id(), self.superblock.store) {
            Ok(computed) => computed,
            Err(error) if is_temporary(&error) => return Err(error),
            Err(error) => {
                self.damage(place.to_owned(), error.to_string());
                return Ok(None);
            }
        };
        computed.check_ids_known()?;
        Ok(Some(computed))
    }

    /// Compares the ids stored next to a pack with the computed ones.
    fn kept_ids(&mut self, pack: &Pack) {
        let (io, dir, store) = (&*self.store.io, &self.store.dir, self.superblock.store);
        if derived_ids::has_wrong_ids(io, dir, pack, store) {
            let place = format!("{DERIVED_DIR}/{}", derived_ids::file_name(pack.id()));
            self.leftover(place, "not the ids of its pack: remove the file");
        }
    }

    /// Returns true if a pack holds operations that the refs lack.
    fn operations_of(&mut self, pack: &Pack, place: &str) -> bool {
        let newest = pack.newest_operation(&self.blocks);
        let Some((sequence, id)) = newest.filter(|(sequence, _)| *sequence > self.newest.0) else {
            return false;
        };
        let message =
            format!("holds operation {sequence} ({id}), but the newest known is {}", self.newest.0);
        self.damage(place.to_owned(), message);
        true
    }

    /// Records copies that do not verify. They are one finding if known damage explains them, and
    /// otherwise one each.
    fn bad_objects(
        &mut self,
        place: &str,
        mut bad: Vec<(ObjectId, Error)>,
        explained: bool,
    ) -> Result<()> {
        if let Some(at) = bad.iter().position(|(_, error)| is_temporary(error)) {
            return Err(bad.swap_remove(at).1);
        }
        if bad.is_empty() {
            return Ok(());
        }
        if explained {
            let message = match bad.len() {
                1 => "one object in it does not verify".to_owned(),
                count => format!("{count} objects in it do not verify"),
            };
            self.damage(place.to_owned() + " ", message);
        } else {
            for (_, error) in &bad {
                self.damage(place.to_owned() + " ", error.to_string());
            }
        }
        self.bad.extend(bad.into_iter().map(|(id, _)| id));
        Ok(())
    }

    /// Examines the remaining names in the directories: unlisted packs, parities, leftovers, other
    /// files.
    fn other_files(&mut self, active: &[crate::store::read::journal::Segment]) -> Result<()> {
        let (manifest, damage) =
            Manifest::load(&*self.store.io, &self.store.dir, self.superblock.store)?;
        for finding in damage {
            self.damaged.manifests.extend(manifest::generation(&finding.place));
        }
        self.listed = (manifest.generation, manifest.refs.sequence);
        for id in &manifest.packs {
            let place = id.file_name();
            if self.findings.iter().any(|f| f.place == place) {
                self.damaged.packs.push(*id);
            }
        }
        for (id, _) in &manifest.sealed {
            let place = id.file_name();
            if self.findings.iter().any(|f| f.place == place) {
                self.damaged.segments.push(*id);
            }
        }
        self.damaged.packs.sort_unstable();
        self.damaged.packs.dedup();
        self.damaged.segments.sort_unstable();
        self.damaged.segments.dedup();
        let names = self.list(PACKS_DIR)?;
        for name in &names {
            let parity = PackId::from_parity_name(name);
            match (PackId::from_file_name(name), parity) {
                (Some(id), _) if manifest.packs.contains(&id) => {}
                (Some(id), _) => self.unlisted_pack(id)?,
                (None, Some(id)) => self.parity(id, manifest.packs.contains(&id), &names)?,
                (None, None) => self.add_unknown_file(format!("{PACKS_DIR}/{name}")),
            }
        }
        let listed: HashSet<SegmentId> = manifest.sealed.iter().map(|(id, _)| *id).collect();
        for name in self.list(JOURNAL_DIR)? {
            let place = format!("{JOURNAL_DIR}/{name}");
            match SegmentId::from_file_name(&name) {
                Some(id) if manifest.retired.contains(&id) => {
                    self.leftover(place, "a segment that a pack has replaced; 'gc' removes it");
                }
                Some(id) if listed.contains(&id) || active.iter().any(|s| s.file.id == id) => {}
                // Created since the journal was read.
                Some(_) => {}
                None => self.add_unknown_file(place),
            }
        }
        let known = [
            SUPERBLOCK_FILE,
            untracked::FILE_NAME,
            collect::COLLECTOR_FILE,
            HOOK_LOG,
            MAINTENANCE_LOCK,
            LAST_STEP_FILE,
            RESERVE_FILE,
        ];
        self.derived(&manifest)?;
        let folders = [
            JOURNAL_DIR,
            PACKS_DIR,
            QUARANTINE_DIR,
            WORKSPACES_DIR,
            DISTANT_DIR,
            DERIVED_DIR,
            KEYS_DIR,
        ];
        for name in self.list("")? {
            let is_known = known.contains(&&*name) || folders.contains(&&*name);
            if !is_known && manifest::generation(&name).is_none() {
                self.add_unknown_file(name);
            }
        }
        Ok(())
    }

    /// Finds derived files without a pack.
    fn derived(&mut self, manifest: &Manifest) -> Result<()> {
        for name in self.list(DERIVED_DIR)? {
            let place = format!("{DERIVED_DIR}/{name}");
            match pack_of(&name).or_else(|| derived_ids::pack_of(&name)) {
                Some(id) if manifest.packs.contains(&id) => {
                    let packs = self.store.packs();
                    let pack = packs.iter().find(|pack| pack.derived_name() == place);
                    let is_damaged = |pack| self.store.derived(pack).is_none();
                    if self.thoroughness == Thoroughness::Full && pack.is_some_and(is_damaged) {
                        self.leftover(place, "damaged and ignored; 'gc' rebuilds it");
                    }
                }
                Some(_) => {
                    self.leftover(place, "derived from a deleted pack; 'gc' removes it");
                }
                None => self.add_unknown_file(place),
            }
        }
        Ok(())
    }

    /// Compares a parity with its pack, which may be missing in `names`.
    fn parity(&mut self, id: PackId, is_listed: bool, names: &[String]) -> Result<()> {
        let place = format!("{PACKS_DIR}/{}", id.parity_name());
        if !is_listed && !names.contains(&id.file_name()) {
            self.leftover(place, "the parity of no pack; 'gc' removes it");
            return Ok(());
        }
        if self.thoroughness != Thoroughness::Full || !is_listed {
            return Ok(());
        }
        let packs = self.store.dir.join(PACKS_DIR);
        let parity = ParityFile::examine(&*self.store.io, &packs, id)?;
        let restores = parity.as_ref().is_some_and(ParityFile::can_restore);
        if self.damaged.packs.contains(&id) {
            if restores {
                let place = format!("{PACKS_DIR}/{} ", id.file_name());
                self.damage(place, "its parity may restore it: run 'turntree repair'");
                self.damaged.restorable.push(id);
            }
            return Ok(());
        }
        let damage = parity.as_ref().map(ParityFile::damage);
        let message = match damage {
            Some(damage) if damage.is_none() => return Ok(()),
            Some(damage) if damage.damaged.is_empty() && damage.can_restore => {
                format!("{} of {} units are damaged", damage.lost_units, damage.units)
            }
            Some(_) => "it does not match its pack, which is intact".to_owned(),
            None => "it is not a parity file".to_owned(),
        };
        self.damage(place, message + ": run 'turntree repair'");
        self.damaged.parities.push(id);
        Ok(())
    }

    fn unlisted_pack(&mut self, id: PackId) -> Result<()> {
        let place = format!("{PACKS_DIR}/{}", id.file_name());
        let path = self.store.dir.join(&place);
        let opened = self.store.io.open_named(&path, Access::Read);
        match opened.and_then(|file| Pack::open(&file, id, self.superblock.store)) {
            Ok(pack) if self.operations_of(&pack, &place) => self.damaged.stray_packs.push(id),
            Ok(_) => {
                self.damaged.spare_packs.push(id);
                self.leftover(place, "a pack that no manifest lists; 'gc' removes it");
            }
            Err(_) => self.leftover(place, "not an intact pack of this store; harmless"),
        }
        if self.thoroughness == Thoroughness::Full {
            // The manifest that listed it may be lost too.
            let packs = self.store.dir.join(PACKS_DIR);
            let parity = ParityFile::examine(&*self.store.io, &packs, id)?;
            if parity.is_some_and(|parity| parity.can_restore()) {
                self.damaged.restorable.push(id);
            }
        }
        Ok(())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let dir =
            if folder.is_empty() { self.store.dir.clone() } else { self.store.dir.join(folder) };
        let mut names = self.store.io.list_or_empty(&dir)?;
        names.sort_unstable();
        Ok(names)
    }

    fn damage(&mut self, place: String, message: impl Into<String>) {
        self.add(Finding { kind: FindingKind::Damage, place, message: message.into() });
    }

    fn leftover(&mut self, place: String, message: impl Into<String>) {
        self.add(Finding { kind: FindingKind::Leftover, place, message: message.into() });
    }

    fn add_unknown_file(&mut self, place: String) {
        let message = match place.ends_with(".tmp") {
            true => "left by an interrupted process",
            false => "not a file of the store",
        };
        self.leftover(place, message);
    }

    fn add(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn add_progress(&mut self, bytes: u64) {
        self.done.0 = (self.done.0 + bytes).min(self.done.1);
        (self.progress)(self.done.0, self.done.1);
    }
}

/// Finds operations in listed files that the refs of the manifest lack. Takes the generation of the
/// manifest and the sequence of its refs. Ignores detached operations: a manifest can include those
/// only after a join.
fn unknown_to_manifest(
    inventory: &Inventory<'_>,
    operations: &Operations,
    (generation, listed): (u64, u64),
) -> Option<Finding> {
    let newest = inventory.refs().operation.map(|id| operations.newest_after(id));
    let included = operations.ancestors(newest);
    let ids = inventory.listed_operations().filter(|id| included.contains(id));
    let sequences = ids.filter_map(|id| operations.get(&id)).map(|found| found.sequence);
    let newest = sequences.max().filter(|newest| *newest > listed)?;
    Some(Finding {
        kind: FindingKind::Damage,
        place: manifest::file_name(generation),
        message: format!(
            "it lists files with operations up to {newest}, but its refs end at {listed}"
        ),
    })
}

fn detached(operations: &Operations, inventory: &Inventory<'_>) -> Vec<DetachedOperation> {
    let ids = operations.detached(inventory.refs().operation);
    let heads: HashSet<ObjectId> = operations.heads(&ids).into_iter().collect();
    let found = ids.into_iter().filter_map(|id| Some((id, operations.get(&id)?.clone())));
    found
        .map(|(id, operation)| DetachedOperation { id, operation, is_head: heads.contains(&id) })
        .collect()
}
