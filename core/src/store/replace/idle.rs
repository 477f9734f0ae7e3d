//! Answers what maintenance checks first: whether a collection runs, and how much one could pack.

use std::collections::HashSet;
use std::time::Duration;

use super::collect::{COLLECTOR_FILE, CollectorLock};
use crate::error::{Error, ErrorKind, Result};
use crate::store::dir::failed;
use crate::store::io::Access;
use crate::store::{Store, lock, read};

/// The time that another process has to release a lock that it only tried.
const LOOK: Duration = Duration::from_millis(3);

/// The file with the result of the last run of automatic maintenance.
pub(in crate::store) const LAST_STEP_FILE: &str = "maintenance.last";

/// Most bytes of that file.
const MAX_LAST_STEP_BYTES: u64 = 4 << 10;

/// A part of the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JournalSize {
    /// Bytes of records, headers included.
    pub(crate) bytes: u64,
    /// Objects.
    pub(crate) objects: u64,
}

impl Store {
    /// Returns true while any process runs a collection. Tries the lock and releases it.
    ///
    /// # Errors
    /// `Io` when the lock cannot be tried.
    pub fn is_collected(&self) -> Result<bool> {
        let path = self.dir.join(COLLECTOR_FILE);
        let Some(file) = self.io.open_if_exists(&path, Access::Read)? else { return Ok(false) };
        Ok(!file.lock(LOOK).map_err(failed("lock", &path))?)
    }

    /// Takes the collector's lock unless another process has it. Never waits.
    ///
    /// # Errors
    /// `Io` when the store cannot be written to.
    pub fn try_lock_collector(&self) -> Result<Option<CollectorLock>> {
        if self.is_collected()? {
            return Ok(None);
        }
        match self.lock_collector() {
            Err(error) if error.kind() == ErrorKind::Locked => Ok(None),
            locked => locked.map(Some),
        }
    }

    /// Counts the content of segments without a writer, as far as this handle has read them.
    ///
    /// Tries one lock per segment.
    ///
    /// # Errors
    /// `Io` when a lock cannot be tried.
    pub(crate) fn idle_journal(&self) -> Result<JournalSize> {
        let has_read_guard = self.has_read_guard();
        let journal = lock(&self.journal);
        let view = read(&self.view);
        let (mut idle, mut size) = (HashSet::new(), JournalSize::default());
        for segment in journal.segments.iter().filter(|segment| !segment.tail.damaged) {
            let id = segment.file.id;
            if if segment.owned { !has_read_guard } else { self.is_idle(id)? } {
                idle.insert(id);
                size.bytes += segment.tail.offset;
            }
        }
        let active = view.active.values().filter(|at| idle.contains(&at.segment.id));
        size.objects = active.count() as u64;
        for sealed in &view.files.sealed {
            if self.is_idle(sealed.segment().id)? {
                size.bytes += sealed.file_bytes();
                size.objects += sealed.len() as u64;
            }
        }
        Ok(size)
    }

    /// Reads the result of the last run of automatic maintenance; `None` if there is none.
    pub(crate) fn last_step(&self) -> Option<Vec<u8>> {
        let path = self.dir.join(LAST_STEP_FILE);
        let file = self.disk.open_if_exists(&path, Access::Read).ok()??;
        let bytes = file.size().ok().filter(|bytes| *bytes <= MAX_LAST_STEP_BYTES)?;
        let mut content = vec![0; usize::try_from(bytes).ok()?];
        let read = file.read_at(&mut content, 0).ok()?;
        content.truncate(read);
        Some(content)
    }

    /// Replaces that result in one step. The file is not synced, and is plain even in an encrypted
    /// store.
    ///
    /// # Errors
    /// `Io` when the disk refuses; the files stay as they are.
    pub(crate) fn write_last_step(&self, right: &CollectorLock, content: &[u8]) -> Result<()> {
        if content.len() as u64 > MAX_LAST_STEP_BYTES {
            return Err(Error::limit(LAST_STEP_FILE, MAX_LAST_STEP_BYTES, content.len() as u64));
        }
        let path = self.dir.join(LAST_STEP_FILE);
        let temporary = self.dir.join(format!("{LAST_STEP_FILE}.tmp"));
        self.disk.remove_if_exists(&temporary)?;
        let file = self.disk.create(&temporary).map_err(failed("create", &temporary))?;
        let written = file.write_at(content, 0).map_err(failed("write", &temporary));
        let written = written.and_then(|()| {
            self.check_collector(&*right.0)?;
            self.disk.replace(&temporary, &path).map_err(failed("replace", &path))
        });
        written.inspect_err(|_| {
            let _ = self.disk.remove(&temporary);
        })
    }
}
