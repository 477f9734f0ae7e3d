//! Replaces files by packs while other processes read and write.
//!
//! ```text
//! lock what is idle ── inventory ── (mark, plan) ── write and verify the pack
//!      ── new commits ── announce, publish ── unlink
//!         └──────── under the ref lock ─────────┘
//! ```
//!
//! Only files without a writer are replaced: packs, sealed segments, and idle segments, whose locks
//! the collection holds. Objects in other segments stay, and so does everything reachable from
//! them. A commit since the inventory may reference an object that is about to be dropped. So the
//! collection asks its caller about each such commit. The last check is under the ref lock. That
//! lock is held only while the few newest batches are checked, never over an fsync. After that, no
//! writer can commit anything that relies on the replaced files: the announcement in the superblock
//! makes every writer reload.
//!
//! A crash at any moment leaves either the old files or the new ones, and perhaps some that no
//! manifest lists. The next collection removes those. Readers keep the files that they have open.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::store::dir::failed;
use crate::store::format::id::SegmentId;
use crate::store::format::manifest::Manifest;
use crate::store::io::{Access, IoFile};
use crate::store::pack::{
    PARITY_EXTENSION, PackDraft, PackFileSize, PackId, PackItem, ParityFile, Tier, Tombstone,
};
use crate::store::parity::{Parity, ParityShare};
use crate::store::read::inventory::{Inventory, InventoryFile, InventoryFiles};
use crate::store::read::load::{has_unknown_operation, retries_error, unlisted_packs};
use crate::store::read::operations::Operations;
use crate::store::read::refs::RefTable;
use crate::store::read::scan::ScanDepth;
use crate::store::steps::CountedSource;
use crate::store::write::ownership::OwnedSegment;
use crate::store::write::publish::{ManifestEdit, PublishOutcome};
use crate::store::{FindingKind, JOURNAL_DIR, PACKS_DIR, Store, lock, read};

/// The file whose lock excludes a second collection.
pub(in crate::store) const COLLECTOR_FILE: &str = "collector";

/// Attempts to publish. One fails if a new commit needs a dropped object, or a manifest came first.
const MAX_ATTEMPTS: usize = 32;

/// Most new objects that are checked under the ref lock: about as many as a few turns add.
const FEW_ARRIVALS: usize = 64;

/// The timeout of one attempt at the collector's lock while waiting for another collection.
const WAITING_STEP: Duration = Duration::from_secs(1);

/// Most bytes that a collection writes besides its pack, and most bytes of one ref in its manifest.
const SPARE_BYTES: u64 = 16 << 10;
const REF_BYTES: u64 = 128;

/// Most bytes that an object takes in the index of a pack.
const ENTRY_BYTES: u64 = 64;

/// Returns the most bytes of disk for a pack of `objects` and `stored_bytes`, without parity.
pub(crate) const fn pack_room(objects: u64, stored_bytes: u64) -> u64 {
    stored_bytes.saturating_add(objects.saturating_mul(ENTRY_BYTES))
}

/// The right to replace files of a store. Only one holder exists at a time, among all processes.
#[derive(Debug)]
pub struct CollectorLock(pub(in crate::store) Arc<dyn IoFile>);

/// The right to replace files, with the inventory of the replaceable ones.
#[derive(Debug)]
pub struct Collection<'s> {
    pub(in crate::store) store: &'s Store,
    inventory: Inventory<'s>,
    /// Idle and sealed segments, locked so that no writer takes them over.
    _segments: Vec<Arc<dyn IoFile>>,
    pub(in crate::store) collector: Arc<dyn IoFile>,
}

/// Files to be replaced by a pack.
#[derive(Debug)]
pub struct FileReplacement {
    /// Numbers of the files, in [`Inventory::files`]; each must be replaceable.
    pub files: Vec<usize>,
    /// The objects to keep, in the order in which they are stored.
    pub items: Vec<PackItem>,
    /// Tombstones: ids of objects that the pack records without content.
    pub gone: Vec<(ObjectId, Kind, Tombstone)>,
    /// The tier of the new pack.
    pub tier: Tier,
}

/// The outcome of a replacement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// Bytes of new packs.
    pub written_bytes: u64,
    /// Bytes of the files that were removed.
    pub freed_bytes: u64,
    /// Objects in the new packs.
    pub objects: u64,
}

/// Called with objects committed since the inventory. Returns the dropped items that they need.
pub(crate) type ArrivalCheck<'a> = dyn FnMut(&[ObjectId]) -> Result<Vec<PackItem>> + 'a;

impl Store {
    /// Begins a collection. A store has at most one at a time.
    ///
    /// # Errors
    /// `Locked` while another collection runs, unless the handle
    /// [waits](Store::wait_for_collections). `Corrupt` when damage is known, or a pack holds
    /// operations that the manifest lacks. `Io` when the store cannot be written to.
    pub fn collect(&self) -> Result<Collection<'_>> {
        self.collect_locked(&self.lock_collector()?)
    }

    /// Begins a collection under a lock that the caller holds.
    ///
    /// # Errors
    /// The errors of [`Store::collect`].
    pub fn collect_locked(&self, right: &CollectorLock) -> Result<Collection<'_>> {
        let collector = Arc::clone(&right.0);
        self.refresh()?;
        for folder in [PACKS_DIR, JOURNAL_DIR] {
            self.io.create_dir_if_missing(&self.dir.join(folder))?;
        }
        // The next manifest drops missing segments from its retired list. Sync the names first, so
        // that a crash cannot bring a removed segment back.
        self.io.sync_names(&self.dir.join(JOURNAL_DIR))?;
        self.check_trusted()?;
        let idle = self.lock_idle_segments()?;
        if self.complete_refs()?.is_none() {
            // Only the holder of the collector's lock removes files.
            self.check_collector(&*collector)?;
            return Err(retries_error(&self.dir));
        }
        let mut segments: Vec<Arc<dyn IoFile>> = Vec::new();
        let mut sealed_replaceable = Vec::new();
        let files = Arc::clone(&read(&self.view).files);
        for sealed in &files.sealed {
            let locked = self.lock_sealed(sealed.segment().id)?;
            sealed_replaceable.push(locked.is_some());
            segments.extend(locked);
        }
        let found = {
            let mut journal = lock(&self.journal);
            journal.begin_arrivals();
            let view = read(&self.view);
            let mut active = Vec::new();
            for segment in &journal.segments {
                let id = segment.file.id;
                let bytes = segment.file.file.size();
                let bytes = bytes.map_err(|e| Error::io(segment.file.place(0), e))?;
                active.push((id, bytes, idle.iter().any(|owned| owned.segment.id == id)));
            }
            let (files, refs) = (Arc::clone(&view.files), Arc::clone(&view.refs));
            // Segments that another thread sealed since are not locked, so not replaceable.
            sealed_replaceable.resize(files.sealed.len(), false);
            let (active, segments) = (view.active.clone(), active);
            InventoryFiles { files, refs, active, segments, sealed_replaceable }
        };
        segments.extend(idle.into_iter().map(|owned| owned.file));
        let inventory = Inventory::new(self, found);
        let collection = Collection { store: self, inventory, _segments: segments, collector };
        check_attached(&collection.inventory)?;
        Ok(collection)
    }

    /// Returns an inventory for reading. Keeps no lock, writes nothing, and works during a
    /// collection. Segments count as replaceable if no process held them at this moment.
    ///
    /// # Errors
    /// `Io` when the journal cannot be read.
    pub fn inventory(&self) -> Result<Inventory<'_>> {
        Ok(Inventory::new(self, self.inventory_files()?))
    }

    pub(in crate::store) fn inventory_files(&self) -> Result<InventoryFiles> {
        self.refresh()?;
        let has_read_guard = self.has_read_guard();
        let journal = lock(&self.journal);
        let view = read(&self.view);
        let mut segments = Vec::new();
        for segment in &journal.segments {
            let (id, bytes) = (segment.file.id, segment.file.file.size());
            let bytes = bytes.map_err(|e| Error::io(segment.file.place(0), e))?;
            let is_idle = if segment.owned { !has_read_guard } else { self.is_idle(id)? };
            segments.push((id, bytes, is_idle && !segment.tail.damaged));
        }
        let sealed = view.files.sealed.iter().map(|sealed| self.is_idle(sealed.segment().id));
        let sealed_replaceable = sealed.collect::<Result<_>>()?;
        let (files, refs) = (Arc::clone(&view.files), Arc::clone(&view.refs));
        let active = view.active.clone();
        Ok(InventoryFiles { files, refs, active, segments, sealed_replaceable })
    }

    /// Returns true if no process holds a segment. Tries its lock and releases it.
    pub(super) fn is_idle(&self, id: SegmentId) -> Result<bool> {
        Ok(self.lock_sealed(id)?.is_some())
    }

    /// Takes the collector's lock. Everything published under it before is durable afterwards.
    ///
    /// # Errors
    /// `Locked` while another process has it, unless the handle
    /// [waits](Store::wait_for_collections), `Io` when the store cannot be written to.
    pub fn lock_collector(&self) -> Result<CollectorLock> {
        self.superblock.check_writable()?;
        let path = self.dir.join(COLLECTOR_FILE);
        let file = match self.io.open_if_exists(&path, Access::Write)? {
            Some(file) => file,
            None => match self.io.create_if_free(&path)? {
                Some(file) => file,
                None => self.io.open_named(&path, Access::Write)?,
            },
        };
        if self.lock_or_wait(&*file).map_err(failed("lock", &path))? {
            self.check_collector(&*file)?;
            // The previous holder may have died just after its manifest got its name. The files
            // that it replaced must not be removed before that name is durable.
            self.io.sync_names(&self.dir)?;
            return Ok(CollectorLock(file));
        }
        let message = format!("{}: another collection or repack is running", self.dir.display());
        Err(Error::new(ErrorKind::Locked, message))
    }

    /// Makes collections through this handle wait for another collection instead of failing with
    /// `Locked`. Calls `notice` before each wait. The first `notice` that is set stays.
    pub fn wait_for_collections(&self, notice: fn()) {
        let _ = self.waiting.set(notice);
    }

    /// Sets the parity share of packs that this handle writes; `None` means no parity. Without this
    /// call, a pack gets as much parity as the packs that it replaces, at least the share of the
    /// store's [policy](Store::parity_policy), and an archive at least the default share. The first
    /// choice stays.
    pub fn choose_pack_parity(&self, share: Option<ParityShare>) {
        let _ = self.pack_parity.set(share);
    }

    /// Takes a lock, and waits for it if the handle waits. Returns false if another process has it.
    fn lock_or_wait(&self, file: &dyn IoFile) -> std::io::Result<bool> {
        if file.lock(Duration::ZERO)? {
            return Ok(true);
        }
        let Some(notice) = self.waiting.get() else { return Ok(false) };
        notice();
        while !file.lock(WAITING_STEP)? {}
        Ok(true)
    }

    /// Fails unless the lock of a collection still excludes other processes. If its file was
    /// deleted, another collection can start, and treats the pack of this one as a leftover.
    pub(in crate::store) fn check_collector(&self, file: &dyn IoFile) -> Result<()> {
        let path = self.dir.join(COLLECTOR_FILE);
        let locked = file.identity().map_err(failed("inspect", &path))?;
        if self.io.identity_if_exists(&path)? == Some(locked) {
            return Ok(());
        }
        let message = format!("{} was removed or replaced after it was locked", path.display());
        Err(Error::new(ErrorKind::Locked, message))
    }

    /// Fails if part of the store may be unreadable: a collection would drop objects that it does
    /// not see.
    fn check_trusted(&self) -> Result<()> {
        let refuse = |place: &str, found: &str| {
            let message = format!(
                "{place}: {found}: nothing is removed from a damaged store, run 'turntree repair' first"
            );
            Err(Error::new(ErrorKind::Corrupt, message))
        };
        // An object in an unidentified pack would look as if it had never existed.
        let files = Arc::clone(&read(&self.view).files);
        for pack in &files.packs {
            pack.check_ids_known()?;
        }
        files.verify_indexes();
        let findings = self.findings();
        if let Some(damage) = findings.iter().find(|found| found.kind == FindingKind::Damage) {
            return refuse(&damage.place, &damage.message);
        }
        let (manifest, _) = Manifest::load(&*self.io, &self.dir, self.superblock.store)?;
        let known = read(&self.view).refs.sequence.max(manifest.refs.sequence);
        for id in unlisted_packs(&*self.io, &self.dir, &manifest)? {
            if has_unknown_operation(&*self.io, &self.dir, id, &self.superblock, &|at, _| {
                at <= known
            }) {
                let place = format!("{PACKS_DIR}/{}", id.file_name());
                return refuse(&place, "has operations that no manifest lists");
            }
        }
        Ok(())
    }

    /// Locks every segment without a writer. This includes the handle's own segment unless a
    /// transaction is open on it.
    fn lock_idle_segments(&self) -> Result<Vec<OwnedSegment>> {
        let mut idle: Vec<OwnedSegment> = self.take_segment().into_iter().collect();
        let others: Vec<_> = {
            let journal = lock(&self.journal);
            let others = journal.segments.iter().filter(|segment| !segment.owned);
            others.map(|segment| Arc::clone(&segment.file)).collect()
        };
        for file in others {
            if idle.iter().any(|owned| Arc::ptr_eq(&owned.segment, &file)) {
                continue;
            }
            if let Some((owned, _)) = self.lock_idle(&file)? {
                // A damaged segment is left to `repair`: a collection drops none of it.
                let mut journal = lock(&self.journal);
                if journal.segment(&file).is_some_and(|segment| !segment.tail.damaged) {
                    idle.push(owned);
                }
            }
        }
        Ok(idle)
    }

    pub(in crate::store) fn lock_sealed(&self, id: SegmentId) -> Result<Option<Arc<dyn IoFile>>> {
        let path = self.dir.join(JOURNAL_DIR).join(id.file_name());
        let Some(file) = self.io.open_if_exists(&path, Access::Read)? else { return Ok(None) };
        Ok(file.lock(Duration::ZERO).map_err(failed("lock", &path))?.then_some(file))
    }
}

impl Inventory<'_> {
    /// Returns the bytes of disk that are free for the objects of a new pack. See [`pack_room`].
    ///
    /// # Errors
    /// `Io` when the free bytes of the disk or the parity policy of the store cannot be read.
    pub(crate) fn room_for_pack(&self) -> Result<u64> {
        let (store, dir) = (self.store, &self.store.dir);
        let free = store.io.free_bytes(dir).map_err(failed("inspect", dir))?;
        let share = store.pack_parity(Tier::Archive, None)?;
        let percent = share.map_or(0, |share| u64::from(share.percent()));
        Ok(free.saturating_sub(self.spare_room()) / (100 + percent) * 100)
    }

    /// Returns the most bytes that a collection writes in addition to its pack.
    fn spare_room(&self) -> u64 {
        SPARE_BYTES + self.refs().values.len() as u64 * REF_BYTES
    }
}

impl<'s> Collection<'s> {
    /// Returns the inventory.
    #[must_use]
    pub fn inventory(&self) -> &Inventory<'s> {
        &self.inventory
    }

    /// Writes a pack of the items, verifies it, and replaces the files by it.
    ///
    /// Drops every object in the files that is not among the items, unless `arrived` returns it.
    /// Needs disk space for the pack, and for one more pack with the objects that `arrived`
    /// returns. The inventory does not change; begin a new collection for the next replacement.
    ///
    /// # Errors
    /// `InvalidInput` for a file that may not be replaced, `Corrupt` when an item does not verify,
    /// `Io` when the disk refuses or has no room for the pack. After any error the store is
    /// unchanged.
    pub fn replace(
        &self,
        replacement: &FileReplacement,
        arrived: &mut ArrivalCheck<'_>,
    ) -> Result<Replaced> {
        let store = self.store;
        let mut replaced = Replaced::default();
        let mut parity = None;
        for number in &replacement.files {
            let file = self.inventory.files().get(*number);
            let Some(file) = file.filter(|file| file.replaceable) else {
                return Err(Error::invalid(format!("file {number} is in use")));
            };
            replaced.freed_bytes += file.bytes;
            if let Some(found) = self.parity_of(file)? {
                parity = parity.max(Some(found.share()));
                replaced.freed_bytes += found.bytes();
            }
        }
        let parity = store.pack_parity(replacement.tier, parity)?;
        // Before the new pack is written: later, an unlisted pack may be this collection's own.
        self.remove_unlisted()?;
        self.check_room(replacement, parity)?;
        let mut packs = Vec::new();
        if !replacement.items.is_empty() || !replacement.gone.is_empty() {
            packs.push(self.write(replacement, &replacement.items, parity, &mut replaced)?);
        }
        for _ in 0..MAX_ATTEMPTS {
            // A newer commit may need dropped objects: these get a further pack. See `may_hold`.
            let needed = arrived(&store.arrivals()?)?;
            if !needed.is_empty() {
                packs.push(self.write(replacement, &needed, parity, &mut replaced)?);
            }
            let mut change = FileReplacementEdit {
                collection: self,
                replacement,
                packs: &packs,
                arrived,
                needed: Vec::new(),
            };
            match store.publish(&mut change)? {
                // The manifest's name is durable: now files that it does not list may be deleted.
                PublishOutcome::Done | PublishOutcome::Unchanged => {
                    self.remove_replaced(replacement)?;
                    return Ok(replaced);
                }
                PublishOutcome::Withheld => {
                    let needed = change.needed;
                    packs.push(self.write(replacement, &needed, parity, &mut replaced)?);
                }
                PublishOutcome::Stale => {
                    // Another process published after the announcement of this one.
                    store.check_collector(&*self.collector)?;
                    store.reload()?;
                }
            }
        }
        let message = format!("{}: too many concurrent commits: try again", store.dir.display());
        Err(Error::new(ErrorKind::Locked, message))
    }

    /// Gives each pack the parity that it would get now. Returns the number of packs whose parity was
    /// replaced or removed. Reads each pack that gets parity twice.
    ///
    /// # Errors
    /// `Io` when the disk refuses.
    pub fn complete_parity(&self) -> Result<u64> {
        let (store, mut changed) = (self.store, 0);
        let folder = store.dir.join(PACKS_DIR);
        let files = Arc::clone(&read(&store.view).files);
        for pack in &files.packs {
            let (id, bytes) = (pack.id(), pack.file_bytes());
            let found = ParityFile::find(&*store.io, &folder, id)?;
            let wanted = store.pack_parity(pack.tier(), found.as_ref().map(Parity::share))?;
            match (wanted, found) {
                (None, None) => continue,
                (Some(share), Some(found)) if found.is_like(share, bytes) => continue,
                (Some(share), _) => {
                    ParityFile::write(&*store.io, &folder, id, share)?;
                }
                (None, Some(_)) => store.io.remove_if_exists(&folder.join(id.parity_name()))?,
            }
            changed += 1;
        }
        Ok(changed)
    }

    fn check_room(&self, replacement: &FileReplacement, parity: Option<ParityShare>) -> Result<()> {
        let inventory = &self.inventory;
        let entry = |item: &PackItem| inventory.find(&item.id).and_then(|at| inventory.entry(at));
        let bytes = replacement.items.iter().filter_map(entry).map(|entry| entry.stored_bytes);
        let entries = (replacement.items.len() + replacement.gone.len()) as u64;
        let percent = parity.map_or(0, |share| share.percent().into());
        let need = |bytes: u64| bytes + bytes / 100 * percent + inventory.spare_room();
        let dir = &self.store.dir;
        let free = self.store.io.free_bytes(dir).map_err(failed("inspect", dir))?;
        if need(pack_room(entries, bytes.sum())) <= free || entries == 0 {
            return Ok(());
        }
        // Objects in one pack compress to about half of that. To know the size, build the pack
        // twice.
        let FileReplacement { items, gone, tier, .. } = replacement;
        let need = need(inventory.pack_size(items, gone, *tier)?);
        if need <= free {
            return Ok(());
        }
        let place = dir.display();
        let message =
            format!("{place}: a new pack needs up to {need} bytes of disk, {free} are free");
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Writes a pack of some items. The first pack also holds the tombstones.
    fn write(
        &self,
        replacement: &FileReplacement,
        items: &[PackItem],
        parity: Option<ParityShare>,
        replaced: &mut Replaced,
    ) -> Result<PackId> {
        let store = self.store;
        let first = std::ptr::eq(items, &raw const *replacement.items);
        let lists_ids = replacement.tier != Tier::Archive || !store.leaves_ids_out();
        if !lists_ids {
            store.check_allows_without_ids()?;
        }
        let draft = PackDraft {
            store: store.superblock.store,
            salt: lock(&store.writer).new_salt(),
            tier: replacement.tier,
            lists_ids,
            items,
            gone: if first { &replacement.gone } else { &[] },
            source: &NewestObjects { inventory: &self.inventory, store },
        };
        let written = store.write_pack(&draft, parity)?;
        replaced.written_bytes += written.bytes;
        replaced.objects += items.len() as u64;
        Ok(written.id)
    }

    /// Returns the parity of a file, if it is a pack with parity.
    fn parity_of(&self, file: &InventoryFile) -> Result<Option<Parity>> {
        let name = file.name.strip_prefix(PACKS_DIR).and_then(|name| name.strip_prefix('/'));
        let Some(id) = name.and_then(PackId::from_file_name) else { return Ok(None) };
        ParityFile::find(&*self.store.io, &self.store.dir.join(PACKS_DIR), id)
    }

    /// Removes the replaced files from a manifest and adds the packs.
    fn change(
        &self,
        manifest: &mut Manifest,
        replacement: &FileReplacement,
        packs: &[PackId],
    ) -> Result<()> {
        let names: HashSet<&str> = replacement
            .files
            .iter()
            .filter_map(|n| self.inventory.files().get(*n))
            .map(|f| &*f.name)
            .collect();
        let segment = |id: SegmentId| names.contains(&*format!("{JOURNAL_DIR}/{}", id.file_name()));
        let present = self.store.io.list_names(&self.store.dir.join(JOURNAL_DIR))?;
        manifest.retired.retain(|id| present.contains(&id.file_name()));
        let replaced = present.iter().filter_map(|name| SegmentId::from_file_name(name));
        manifest.retired.extend(replaced.filter(|id| segment(*id)));
        manifest.retired.sort_unstable();
        manifest.retired.dedup();
        manifest.sealed.retain(|(id, _)| !segment(*id));
        manifest.packs.retain(|id| !names.contains(&*format!("{PACKS_DIR}/{}", id.file_name())));
        for pack in packs {
            if !manifest.packs.contains(pack) {
                manifest.packs.push(*pack);
            }
        }
        Ok(())
    }

    /// Reloads the store with the new pack, and unlinks the replaced files.
    fn remove_replaced(&self, replacement: &FileReplacement) -> Result<()> {
        let store = self.store;
        store.reload()?;
        let kept = Arc::clone(&read(&store.view).files);
        for number in &replacement.files {
            let Some(file) = self.inventory.files().get(*number) else { continue };
            // A pack with the same content has the same name.
            let same = |id: PackId| file.name == format!("{PACKS_DIR}/{}", id.file_name());
            if !kept.packs.iter().any(|pack| same(pack.id())) {
                let path = store.dir.join(&file.name);
                store.io.remove_if_exists(&path)?;
                if file.tier.is_some() {
                    store.io.remove_if_exists(&path.with_extension(PARITY_EXTENSION))?;
                }
            }
        }
        Ok(())
    }
}

/// A manifest edit that replaces files by packs.
struct FileReplacementEdit<'c, 'a, 'f> {
    collection: &'c Collection<'a>,
    replacement: &'c FileReplacement,
    packs: &'c [PackId],
    arrived: &'c mut ArrivalCheck<'f>,
    /// Items that would be dropped and that new commits need.
    needed: Vec<PackItem>,
}

impl FileReplacementEdit<'_, '_, '_> {
    /// Checks the objects that were committed since the last check. Returns their number.
    fn check_arrivals(&mut self) -> Result<usize> {
        let ids = self.collection.store.arrivals()?;
        self.needed = (self.arrived)(&ids)?;
        Ok(ids.len())
    }
}

impl ManifestEdit for FileReplacementEdit<'_, '_, '_> {
    fn edit(&mut self, manifest: &mut Manifest, _refs: &RefTable) -> Result<bool> {
        self.collection.change(manifest, self.replacement, self.packs)?;
        Ok(true)
    }

    /// Checks most objects that were committed while the pack was written, before any writer has to
    /// wait.
    fn look_ahead(&mut self) -> Result<bool> {
        for _ in 0..MAX_ATTEMPTS {
            let arrived = self.check_arrivals()?;
            if !self.needed.is_empty() || arrived <= FEW_ARRIVALS {
                break;
            }
        }
        Ok(self.needed.is_empty())
    }

    fn may_hold(&mut self) -> Result<bool> {
        // No process can commit now, so only commits since the last check can still need something.
        self.check_arrivals()?;
        Ok(self.needed.is_empty())
    }

    fn collector(&self) -> Option<&dyn IoFile> {
        Some(&*self.collection.collector)
    }
}

/// Fails if committed operations are not ancestors of the refs' operation: objects reachable only
/// from them would look like garbage.
fn check_attached(inventory: &Inventory<'_>) -> Result<()> {
    let operations = Operations::read(inventory, inventory.operations());
    let detached = operations.detached(inventory.refs().operation);
    match detached.first().and_then(|id| operations.get(id)) {
        None => Ok(()),
        Some(first) => {
            let (count, sequence) = (detached.len(), first.sequence);
            let message = format!(
                "operation {sequence}: {count} operations from here on were committed, and the newest \
                 one does not follow them: nothing is removed from a damaged store, run 'turntree \
                 repair' first"
            );
            Err(Error::new(ErrorKind::Corrupt, message))
        }
    }
}

impl Drop for Collection<'_> {
    fn drop(&mut self) {
        lock(&self.store.journal).end_arrivals();
    }
}

impl Store {
    /// Writes a pack and its parity, and makes both durable under their names. After an error
    /// neither remains.
    pub(in crate::store) fn write_pack(
        &self,
        draft: &PackDraft<'_>,
        parity: Option<ParityShare>,
    ) -> Result<PackFileSize> {
        let packs = self.dir.join(PACKS_DIR);
        // Blocks read for the plan are not read again, and building a pack needs memory.
        self.blocks.clear();
        let source = CountedSource::new(draft.source, &self.packing, draft.items.len());
        let mut written = PackDraft { source: &source, ..*draft }.write(&*self.io, &packs)?;
        if let Some(share) = parity {
            match ParityFile::write(&*self.io, &packs, written.id, share) {
                Ok(bytes) => written.bytes += bytes,
                Err(error) => {
                    // No manifest lists the pack yet, so the next collection removes any rest.
                    let _ = self.io.remove(&packs.join(written.id.file_name()));
                    return Err(error);
                }
            }
        }
        Ok(written)
    }

    /// Returns the ids of objects that were committed since the last call, or since the inventory.
    fn arrivals(&self) -> Result<Vec<ObjectId>> {
        let mut journal = lock(&self.journal);
        journal.catch_up(&*self.io, &self.view, ScanDepth::Next)?;
        Ok(journal.take_arrivals())
    }
}

/// Objects as of the inventory, read without a copy in the store's cache; later objects from the
/// store.
struct NewestObjects<'a> {
    inventory: &'a Inventory<'a>,
    store: &'a Store,
}

impl ObjectSource for NewestObjects<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<crate::object::Object>> {
        match self.inventory.read(id)? {
            Some(object) => Ok(Some(object)),
            None => self.store.read(id),
        }
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.inventory.contains(id)? || self.store.contains(id)?)
    }
}
