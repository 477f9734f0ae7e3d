//! Leftovers: files in a store that nothing refers to any more, and may still hold what was removed.
//!
//! A collection that was killed leaves packs that were never published and segments that packs have
//! replaced; any publication leaves the manifest of before; and what was set aside as damaged lies in
//! a folder of its own. None of this is read, and all of it may go while the collector's lock is held.

use std::collections::HashSet;
use std::io::ErrorKind as IoErrorKind;
use std::path::PathBuf;

use super::io::Access;
use super::manifest::{self, Manifest};
use super::ownership::NEW_SEGMENT_BYTES;
use super::pack::PackId;
use super::segment::{SEGMENT_HEADER_BYTES, SegmentId};
use super::{Collection, JOURNAL_DIR, PACKS_DIR, QUARANTINE_DIR, RefTable, StoredFile};
use crate::error::{Error, Result};

const TEMPORARY: &str = ".tmp";

impl Collection<'_> {
    /// The leftovers, by their paths in the store, sorted. Manifests of before are among them when
    /// `matters` says so of their refs.
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
            let unlisted = PackId::from_file_name(&name).is_some() && !packs.contains(&name);
            let leftover = unlisted || name.ends_with(TEMPORARY);
            found.extend(leftover.then(|| format!("{PACKS_DIR}/{name}")));
        }
        for name in self.names(JOURNAL_DIR)? {
            let replaced = SegmentId::from_file_name(&name).is_some() && retired.contains(&name);
            let leftover = replaced || name.ends_with(TEMPORARY);
            found.extend(leftover.then(|| format!("{JOURNAL_DIR}/{name}")));
        }
        let set_aside = self.names(QUARANTINE_DIR)?.into_iter();
        found.extend(set_aside.map(|name| format!("{QUARANTINE_DIR}/{name}")));
        found.sort_unstable();
        Ok(found)
    }

    /// Removes the leftovers and every manifest of before, and says how many files went.
    ///
    /// # Errors
    /// `Io`, naming the file that cannot be removed.
    pub fn remove_leftovers(&self) -> Result<usize> {
        let store = self.store;
        let leftovers = self.leftovers(&|_| true)?;
        for name in &leftovers {
            store.remove(&store.dir.join(name))?;
        }
        for folder in ["", PACKS_DIR, JOURNAL_DIR] {
            let path = self.folder(folder);
            let synced = store.io.sync_dir(&path);
            synced.map_err(|e| Error::io(format!("sync {}", path.display()), e))?;
        }
        Ok(leftovers.len())
    }

    /// Whether a segment holds nothing: whoever made it died, or has not written to it yet.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub fn is_blank(&self, file: &StoredFile) -> Result<bool> {
        let path = self.store.dir.join(&file.name);
        let failed = |source| Error::io(format!("read {}", path.display()), source);
        if file.tier.is_some() || file.objects > 0 || file.bytes > NEW_SEGMENT_BYTES as u64 {
            return Ok(false);
        }
        let mut bytes = vec![0; NEW_SEGMENT_BYTES];
        let opened = self.store.io.open(&path, Access::Read).map_err(failed)?;
        opened.read_at(&mut bytes, 0).map_err(failed)?;
        let behind_header = bytes.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
        Ok(behind_header.iter().all(|byte| *byte == 0))
    }

    /// The refs in a manifest of before; nothing when it is gone or no valid one.
    fn refs_of(&self, generation: u64) -> Result<Option<RefTable>> {
        let store = self.store;
        let path = store.dir.join(manifest::file_name(generation));
        let bytes = manifest::read(&*store.io, &path)?;
        let decode = |bytes: Vec<u8>| Manifest::decode(&bytes, store.superblock.store, generation);
        Ok(bytes.and_then(decode).map(|manifest| manifest.refs))
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.folder(folder);
        match self.store.io.list(&path) {
            Err(source) if source.kind() == IoErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|e| Error::io(format!("list {}", path.display()), e)),
        }
    }

    fn folder(&self, folder: &str) -> PathBuf {
        if folder.is_empty() { self.store.dir.clone() } else { self.store.dir.join(folder) }
    }
}
