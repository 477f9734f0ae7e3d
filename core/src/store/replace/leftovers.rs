//! Removes leftovers: files in a store that nothing references, and that may hold removed content.
//!
//! A killed collection leaves packs that were never published, and segments that packs have
//! replaced. Every publication leaves the previous manifest. Damaged files that were set aside are
//! in a quarantine folder. No reader reads any of these, and they may be deleted while the
//! collector's lock is held. The caches of directory captures may be deleted too: they contain file
//! names, and the next capture rebuilds them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::store::dir::failed;
use crate::store::format::id::SegmentId;
use crate::store::format::manifest::{self, Manifest};
use crate::store::format::segment::{NEW_SEGMENT_BYTES, SEGMENT_HEADER_BYTES};
use crate::store::io::Access;
use crate::store::pack::{Pack, PackId};
use crate::store::{
    ADOPTIONS_FILE, CAPTURED_FILE, Collection, DATABASE_PREFIX, InventoryFile, JOURNAL_DIR,
    PACKS_DIR, QUARANTINE_DIR, RefTable, SUPERBLOCK_FILE, WORKSPACES_DIR,
};

const TEMPORARY: &str = ".tmp";

impl Collection<'_> {
    /// Returns the leftovers, as sorted paths in the store. Includes an old manifest if `matters`
    /// returns true for its refs.
    ///
    /// # Errors
    /// `Io` when a folder or a manifest cannot be read.
    pub fn leftovers(&self, matters: &dyn Fn(&RefTable) -> bool) -> Result<Vec<String>> {
        let store = self.store;
        let (newest, _) = Manifest::load(&*store.io, &store.dir, store.superblock.store)?;
        let packs: HashSet<String> = newest.packs.iter().map(|id| id.file_name()).collect();
        let retired: HashSet<String> = newest.retired.iter().map(|id| id.file_name()).collect();
        let mut found = Vec::new();
        for name in self.names("")? {
            let old = manifest::generation(&name).filter(|at| *at < newest.generation);
            let unwanted = match old {
                Some(generation) => self.refs_of(generation)?.is_some_and(|refs| matters(&refs)),
                None => name.ends_with(TEMPORARY),
            };
            found.extend(unwanted.then_some(name));
        }
        for name in self.names(PACKS_DIR)? {
            let id = PackId::from_file_name(&name).or_else(|| PackId::from_parity_name(&name));
            let unlisted = id.is_some_and(|id| !packs.contains(&id.file_name()));
            let leftover = unlisted || name.ends_with(TEMPORARY);
            found.extend(leftover.then(|| format!("{PACKS_DIR}/{name}")));
        }
        for name in self.names(JOURNAL_DIR)? {
            let replaced = SegmentId::from_file_name(&name).is_some() && retired.contains(&name);
            let leftover = replaced || name.ends_with(TEMPORARY);
            found.extend(leftover.then(|| format!("{JOURNAL_DIR}/{name}")));
        }
        for folder in [QUARANTINE_DIR, WORKSPACES_DIR] {
            let all = self.names(folder)?.into_iter();
            found.extend(all.map(|name| format!("{folder}/{name}")));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes caches that may hold content that is about to be freed: the databases, and with
    /// `of_sessions` also notes and tables, which hold prompts and file names. The caches of
    /// adopted files and of captured directories hold no content and stay.
    ///
    /// # Errors
    /// `Io`, naming the file that cannot be removed.
    pub fn remove_caches(&self, of_sessions: bool) -> Result<()> {
        let store = self.store;
        let goes = |name: &&String| match of_sessions {
            true => ![ADOPTIONS_FILE, CAPTURED_FILE].contains(&name.as_str()),
            false => name.starts_with(DATABASE_PREFIX),
        };
        let names = self.names(WORKSPACES_DIR)?;
        store.check_collector(&*self.collector)?;
        for name in names.iter().filter(goes) {
            store.io.remove_if_exists(&self.folder(WORKSPACES_DIR).join(name))?;
        }
        Ok(())
    }

    /// Removes the useless files of killed processes: packs that were never published, segments
    /// that were replaced or never written, and temporary files that were never renamed.
    ///
    /// # Errors
    /// `Io`, naming the file that cannot be removed.
    pub fn remove_unlisted(&self) -> Result<()> {
        let store = self.store;
        let (newest, _) = Manifest::load(&*store.io, &store.dir, store.superblock.store)?;
        let listed: HashSet<String> = newest.packs.iter().map(|id| id.file_name()).collect();
        let (packs, others) = (self.names(PACKS_DIR)?, self.names("")?);
        // Only the holder of the collector's lock creates packs. If the lock still excludes other
        // processes, none of the packs listed above is about to be published by one.
        store.check_collector(&*self.collector)?;
        let folder = self.folder(PACKS_DIR);
        for name in packs.iter().filter(|name| !listed.contains(*name)) {
            let is_own = match PackId::from_parity_name(name).map(PackId::file_name) {
                // The parity of an existing pack is removed with that pack, or the pack is restored
                // from it.
                Some(pack) => !packs.contains(&pack) && !listed.contains(&pack),
                None => name.ends_with(TEMPORARY) || self.is_own_pack(&folder.join(name), name)?,
            };
            if is_own {
                store.io.remove_if_exists(&folder.join(name))?;
                if let Some(id) = PackId::from_file_name(name) {
                    store.io.remove_if_exists(&folder.join(id.parity_name()))?;
                }
            }
        }
        for segment in &newest.retired {
            store.io.remove_if_exists(&self.folder(JOURNAL_DIR).join(segment.file_name()))?;
        }
        self.remove_empty_segments()?;
        for name in others {
            let Some(stem) = name.strip_suffix(TEMPORARY) else { continue };
            let generation = stem.split('.').next().and_then(manifest::generation);
            // Other processes publish manifests too; one of a later generation may be about to be
            // renamed.
            let is_late = generation.is_some_and(|at| at <= newest.generation);
            if is_late || stem.starts_with(SUPERBLOCK_FILE) {
                store.io.remove_if_exists(&store.dir.join(&name))?;
            }
        }
        Ok(())
    }

    /// Removes empty segments that no process has locked: their creators died before they wrote to
    /// them.
    fn remove_empty_segments(&self) -> Result<()> {
        let store = self.store;
        for name in self.names(JOURNAL_DIR)? {
            let path = self.folder(JOURNAL_DIR).join(&name);
            if SegmentId::from_file_name(&name).is_none() {
                continue;
            }
            let Some(file) = store.io.open_if_exists(&path, Access::Write)? else { continue };
            let is_empty = || Ok::<_, Error>(file.size().map_err(failed("inspect", &path))? == 0);
            // A writer that has just created it waits for the lock, and then notices that its name
            // is missing.
            if is_empty()?
                && file.lock(Duration::ZERO).map_err(failed("lock", &path))?
                && is_empty()?
                && store.is_named(&path, &*file)?
            {
                store.io.remove_if_exists(&path)?;
            }
        }
        Ok(())
    }

    /// Removes the leftovers and all old manifests, and returns the number of files removed.
    ///
    /// # Errors
    /// `Io`, naming the file that cannot be removed.
    pub fn remove_leftovers(&self) -> Result<usize> {
        let store = self.store;
        let leftovers = self.leftovers(&|_| true)?;
        store.check_collector(&*self.collector)?;
        for name in &leftovers {
            store.io.remove_if_exists(&store.dir.join(name))?;
        }
        for folder in ["", PACKS_DIR, JOURNAL_DIR] {
            store.io.sync_names(&self.folder(folder))?;
        }
        Ok(leftovers.len())
    }

    /// Returns true if a segment holds nothing: its creator died, or has not written to it yet.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub fn is_blank(&self, file: &InventoryFile) -> Result<bool> {
        let path = self.store.dir.join(&file.name);
        if file.tier.is_some() || file.objects > 0 || file.bytes > NEW_SEGMENT_BYTES as u64 {
            return Ok(false);
        }
        let mut bytes = vec![0; NEW_SEGMENT_BYTES];
        let opened = self.store.io.open_named(&path, Access::Read)?;
        opened.read_at(&mut bytes, 0).map_err(failed("read", &path))?;
        let behind_header = bytes.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
        Ok(behind_header.iter().all(|byte| *byte == 0))
    }

    /// Reads the refs in an old manifest. Returns `None` if it is missing or not valid.
    fn refs_of(&self, generation: u64) -> Result<Option<RefTable>> {
        let store = self.store;
        let path = store.dir.join(manifest::file_name(generation));
        let bytes = manifest::read(&*store.io, &path)?;
        let decode = |bytes: Vec<u8>| Manifest::decode(&bytes, store.superblock.store, generation);
        Ok(bytes.and_then(decode).map(|manifest| manifest.refs))
    }

    /// Returns true if a file is a whole pack of this store, and not a file from elsewhere.
    fn is_own_pack(&self, path: &Path, name: &str) -> Result<bool> {
        let Some(id) = PackId::from_file_name(name) else { return Ok(false) };
        let file = self.store.io.open_named(path, Access::Read)?;
        Ok(Pack::open(&file, id, self.store.superblock.store).is_ok())
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        self.store.io.list_or_empty(&self.folder(folder))
    }

    fn folder(&self, folder: &str) -> PathBuf {
        if folder.is_empty() { self.store.dir.clone() } else { self.store.dir.join(folder) }
    }
}
