//! Opens a store: the files that the newest manifest lists, and the journal. Reopens both when a
//! collection has replaced files.
//!
//! A listed file may be removed before it is opened. Then there is a newer manifest, and opening
//! starts again. An open file stays readable after its name is removed.

use std::collections::HashSet;
use std::error::Error as _;
use std::path::Path;
use std::sync::{Arc, RwLock};

use super::journal::Journal;
use super::scan::ScanDepth;
use super::sealed::SealedSegment;
use super::view::{OpenFiles, View};
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectId;
use crate::store::derived_ids;
use crate::store::format::id::SegmentId;
use crate::store::format::manifest::Manifest;
use crate::store::format::segment::SegmentFile;
use crate::store::format::superblock::{LOCK_TIMEOUT, Superblock};
use crate::store::io::{Access, Io, IoFile, is_temporary};
use crate::store::pack::{BlockCache, Pack, PackId};
use crate::store::{Finding, FindingKind, JOURNAL_DIR, PACKS_DIR, Store, lock, read, write};

/// Attempts to open a store. An attempt fails if files were replaced concurrently.
const MAX_ATTEMPTS: usize = 16;

/// Most bytes of unpacked blocks that are cached while a pack is read.
const CACHE_BYTES: usize = 8 << 20;

/// The newest manifest, with its files open.
struct LoadedManifest {
    manifest: Manifest,
    files: OpenFiles,
    /// The epoch before any of these files was read.
    epoch: u64,
    findings: Vec<Finding>,
    /// Packs that exist and are not listed, as of before the journal was read.
    unlisted: Vec<PackId>,
}

/// The purpose for which files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum OpenPurpose {
    /// The files are used. Ids that have to be computed are saved for the next time.
    Used,
    /// A refresh shows the changes of other processes.
    Refreshed,
    /// The files are examined. Each index is verified, and nothing is saved.
    Examined,
}

/// Reads the view and the journal of a store from disk. Writes nothing.
pub(in crate::store) fn open(
    io: &Arc<dyn Io>,
    dir: &Path,
    superblock: &Superblock,
    opened: OpenPurpose,
) -> Result<(RwLock<View>, Journal)> {
    for _ in 0..MAX_ATTEMPTS {
        let loaded = load(io, dir, superblock, &OpenFiles::default(), opened)?;
        let mut journal = Journal::new(dir.join(JOURNAL_DIR), loaded.skipped_segments());
        let incomplete = loaded.is_incomplete();
        let LoadedManifest { manifest, files, epoch, findings, unlisted } = loaded;
        let generation = manifest.generation;
        let (files, refs) = (Arc::new(files), Arc::new(manifest.refs));
        let view = View { files, epoch, refs, findings, incomplete, ..View::default() };
        let view = RwLock::new(view);
        journal.open(&**io, &view, superblock)?;
        let is_incomplete = {
            let view = read(&view);
            // If there is a manifest, an unlisted pack may be one that was replaced.
            let is_known = |sequence: u64, id: &ObjectId| match generation {
                0 => view.contains(id),
                _ => sequence <= view.refs.sequence,
            };
            let is_unknown =
                |id: &PackId| has_unknown_operation(&**io, dir, *id, superblock, &is_known);
            unlisted.iter().any(is_unknown)
        };
        if is_incomplete {
            write(&view).incomplete = true;
        }
        // Otherwise a segment may have been removed before it was read.
        if superblock.epoch()? == epoch {
            return Ok((view, journal));
        }
    }
    Err(retries_error(dir))
}

impl Store {
    /// Reads commits of other processes since the last call. Costs a directory listing and one read
    /// for each active segment. After a collection, also opens the files that it made.
    ///
    /// # Errors
    /// `Io` when the journal cannot be read, `Locked` when collections follow one another too fast,
    /// `Conflict` when the keys of the store have changed: the store has to be opened again.
    pub fn refresh(&self) -> Result<()> {
        for _ in 0..MAX_ATTEMPTS {
            if self.superblock.epoch()? != read(&self.view).epoch {
                self.reload()?;
            }
            lock(&self.journal).catch_up(&*self.io, &self.view, ScanDepth::Next)?;
            // Otherwise a segment may have been removed, with its commits, before it was read.
            if self.superblock.epoch()? == read(&self.view).epoch {
                return Ok(());
            }
        }
        Err(retries_error(&self.dir))
    }

    /// Returns a number that changes when this handle notices that a collection has removed files.
    /// Objects that existed before may be missing after that.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        read(&self.view).epoch
    }

    /// Replaces this handle's view of the files by the files of the newest manifest.
    pub(in crate::store) fn reload(&self) -> Result<()> {
        self.apply_newest_manifest(&|| Arc::clone(&read(&self.view).files))
    }

    /// Reopens every file that the newest manifest lists: a file may have been restored under its
    /// name.
    pub(in crate::store) fn reopen(&self) -> Result<()> {
        self.apply_newest_manifest(&Arc::default)?;
        self.blocks.clear();
        Ok(())
    }

    /// Loads the newest manifest, and opens its files that are not `known`.
    fn apply_newest_manifest(&self, known: &dyn Fn() -> Arc<OpenFiles>) -> Result<()> {
        self.superblock.check_name(&*self.io)?;
        for _ in 0..MAX_ATTEMPTS {
            let known = known();
            let loaded =
                load(&self.io, &self.dir, &self.superblock, &known, OpenPurpose::Refreshed);
            // Files of a store whose keys have changed look damaged with the old keys.
            self.superblock.check_name(&*self.io)?;
            let loaded = loaded?;
            let mut journal = lock(&self.journal);
            let present = journal.existing_segments(&*self.io)?;
            // Otherwise files may be missing that this manifest still lists.
            if self.superblock.epoch()? == loaded.epoch {
                self.apply_manifest(loaded, &mut journal, &present);
                return Ok(());
            }
        }
        Err(retries_error(&self.dir))
    }

    fn apply_manifest(
        &self,
        loaded: LoadedManifest,
        journal: &mut Journal,
        present: &HashSet<SegmentId>,
    ) {
        let mut settled = loaded.skipped_segments();
        let incomplete = loaded.is_incomplete();
        let LoadedManifest { manifest, mut files, epoch, findings, .. } = loaded;
        let mut view = write(&self.view);
        // From now on these are not scanned, so their objects count as arrivals here.
        let is_new = |sealed: &&Arc<SealedSegment>| {
            let id = sealed.segment().id;
            !view.files.sealed.iter().any(|known| known.segment().id == id)
        };
        for sealed in files.sealed.iter().filter(is_new) {
            journal.note_arrivals(|| sealed.entries().map(|(id, _)| id));
        }
        // Sealed by another thread since the manifest was read.
        for sealed in &view.files.sealed {
            let id = sealed.segment().id;
            if present.contains(&id) && settled.insert(id) {
                files.sealed.push(Arc::clone(sealed));
            }
        }
        // Segments replaced long ago: the manifest does not list them as retired.
        settled
            .extend(journal.segments.iter().map(|s| s.file.id).filter(|id| !present.contains(id)));
        journal.skip_segments(settled);
        let replaced = view.release(|id| journal.is_skipped(id));
        self.keep_replaced(replaced);
        // Removed objects must not be answered from memory.
        self.cache.clear();
        self.contents.clear();
        view.files = Arc::new(files);
        view.epoch = epoch;
        view.incomplete = incomplete;
        if manifest.refs.sequence > view.refs.sequence {
            view.refs = Arc::new(manifest.refs);
        }
        for finding in findings {
            view.add_finding(finding);
        }
    }
}

impl Store {
    /// Fails if the newest state of the store is not known: a commit on an older state would
    /// contradict the newest one.
    pub(in crate::store) fn check_complete(&self) -> Result<()> {
        if !read(&self.view).incomplete {
            return Ok(());
        }
        let message = format!(
            "{}: the newest manifest is damaged or missing, and only it listed some of the packs: \
             run 'turntree repair' before the next write",
            self.dir.display()
        );
        Err(Error::new(ErrorKind::Corrupt, message))
    }
}

impl LoadedManifest {
    /// Returns true if packs exist that only a damaged manifest can have listed.
    fn is_incomplete(&self) -> bool {
        !self.findings.is_empty() && !self.unlisted.is_empty()
    }

    /// Returns the segments that need no reading: their index is open, or packs have replaced them.
    fn skipped_segments(&self) -> HashSet<SegmentId> {
        let sealed = self.files.sealed.iter().map(|sealed| sealed.segment().id);
        sealed.chain(self.manifest.retired.iter().copied()).collect()
    }
}

/// Reads the newest manifest and opens the files that it lists, except those already open in
/// `known`.
fn load(
    io: &Arc<dyn Io>,
    dir: &Path,
    superblock: &Superblock,
    known: &OpenFiles,
    opened: OpenPurpose,
) -> Result<LoadedManifest> {
    let mut last = None;
    for _ in 0..MAX_ATTEMPTS {
        let mut epoch = superblock.epoch()?;
        // A change is running, or its process has died during it. Once the lock is held, it is
        // over.
        let lock = match epoch.is_multiple_of(2) {
            true => None,
            false => Some(superblock.lock(&**io, LOCK_TIMEOUT)?),
        };
        if lock.is_some() {
            epoch = superblock.epoch()?;
        }
        let (manifest, mut findings) = Manifest::load(&**io, dir, superblock.store)?;
        if lock.is_none() && superblock.epoch()? != epoch {
            continue;
        }
        drop(lock);
        let unlisted = unlisted_packs(&**io, dir, &manifest)?;
        // The same manifest twice: the missing file was lost, not replaced.
        let settled = last == Some(manifest.generation);
        last = Some(manifest.generation);
        let opening = FileOpener { io, dir, superblock, known, opened };
        if let Some(files) = opening.files(&manifest, settled, &mut findings)? {
            return Ok(LoadedManifest { manifest, files, epoch, findings, unlisted });
        }
    }
    Err(retries_error(dir))
}

/// Returns the packs that a manifest does not list. Either a collection is running or was killed,
/// or their manifest is damaged or missing.
pub(in crate::store) fn unlisted_packs(
    io: &dyn Io,
    dir: &Path,
    manifest: &Manifest,
) -> Result<Vec<PackId>> {
    let names = io.list_or_empty(&dir.join(PACKS_DIR))?;
    let there = names.iter().filter_map(|name| PackId::from_file_name(name));
    Ok(there.filter(|id| !manifest.packs.contains(id)).collect())
}

/// Returns true if a pack holds an operation that is not known, by its sequence and id.
pub(in crate::store) fn has_unknown_operation(
    io: &dyn Io,
    dir: &Path,
    id: PackId,
    superblock: &Superblock,
    is_known: &dyn Fn(u64, &ObjectId) -> bool,
) -> bool {
    let Ok(file) = io.open(&dir.join(PACKS_DIR).join(id.file_name()), Access::Read) else {
        return false;
    };
    let Ok(pack) = Pack::open(&file, id, superblock.store) else { return false };
    let cache = BlockCache::new(CACHE_BYTES);
    pack.operations(&cache).any(|(sequence, id)| !is_known(sequence, &id))
}

pub(in crate::store) fn retries_error(dir: &Path) -> Error {
    let message = format!(
        "gave up opening {}: collections keep replacing its files: try again",
        dir.display()
    );
    Error::new(ErrorKind::Locked, message)
}

struct FileOpener<'a> {
    io: &'a Arc<dyn Io>,
    dir: &'a Path,
    superblock: &'a Superblock,
    known: &'a OpenFiles,
    opened: OpenPurpose,
}

impl FileOpener<'_> {
    /// Opens the files of a manifest. Returns `None` if one is missing and may have been replaced.
    /// A file that cannot be opened becomes a finding.
    fn files(
        &self,
        manifest: &Manifest,
        settled: bool,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<OpenFiles>> {
        let mut files = OpenFiles::default();
        for (id, index) in &manifest.sealed {
            let known = self.known.sealed.iter().find(|sealed| sealed.segment().id == *id);
            if let Some(known) = known {
                files.sealed.push(Arc::clone(known));
                continue;
            }
            // Without its index a segment is read like an active one.
            match self.file(&self.dir.join(JOURNAL_DIR).join(id.file_name()), settled) {
                Ok(None) => return Ok(None),
                Ok(Some(file)) => match self.sealed(*id, file, *index) {
                    Ok(opened) => files.sealed.push(Arc::new(opened)),
                    Err(error) if is_temporary(&error) => return Err(error),
                    Err(error) => findings.push(damage(id.file_name(), &error)),
                },
                Err(error) if is_temporary(&error) => return Err(error),
                Err(error) => findings.push(damage(id.file_name(), &error)),
            }
        }
        for id in &manifest.packs {
            if let Some(known) = self.known.packs.iter().find(|pack| pack.id() == *id) {
                files.packs.push(Arc::clone(known));
                continue;
            }
            match self.file(&self.dir.join(PACKS_DIR).join(id.file_name()), settled) {
                Ok(None) => return Ok(None),
                Ok(Some(file)) => match self.pack(&file, *id) {
                    Ok(opened) => files.packs.push(Arc::new(opened)),
                    Err(error) if is_temporary(&error) => return Err(error),
                    Err(error) => findings.push(damage(id.file_name(), &error)),
                },
                Err(error) if is_temporary(&error) => return Err(error),
                Err(error) => findings.push(damage(id.file_name(), &error)),
            }
        }
        Ok(Some(files))
    }

    fn sealed(&self, id: SegmentId, file: Arc<dyn IoFile>, index: u64) -> Result<SealedSegment> {
        let sealed = SealedSegment::open(Arc::new(SegmentFile { id, file }), index)?;
        if self.opened == OpenPurpose::Examined
            && let Some(problem) = sealed.problem()
        {
            return Err(Error::new(ErrorKind::Corrupt, problem.message.clone()));
        }
        Ok(sealed)
    }

    fn pack(&self, file: &Arc<dyn IoFile>, id: PackId) -> Result<Pack> {
        let store = self.superblock.store;
        let may_write = self.opened == OpenPurpose::Used;
        let pack = derived_ids::open(self.io, self.dir, (file, id), store, may_write)?;
        if self.opened == OpenPurpose::Examined {
            pack.check_ids()?;
        }
        Ok(pack)
    }

    fn file(&self, path: &Path, settled: bool) -> Result<Option<Arc<dyn IoFile>>> {
        match settled {
            true => self.io.open_named(path, Access::Read).map(Some),
            false => self.io.open_if_exists(path, Access::Read),
        }
    }
}

fn damage(place: String, error: &Error) -> Finding {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Finding { kind: FindingKind::Damage, place, message: format!("{error}{cause}") }
}
