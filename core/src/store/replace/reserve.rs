//! The reserve: disk space that a store keeps, so that it can be shrunk on a full disk.
//!
//! Forgetting a session writes a record to the journal, and freeing writes a pack of the kept
//! objects, both before any file is deleted. On a full disk the reserve is deleted first, and
//! created again when there is space. Its content has no meaning. A reserve that is missing, short
//! or another file is harmless.

use crate::error::Result;
use crate::store::Store;
use crate::store::dir::failed;
use crate::store::io::Access;

/// The file with the reserve.
pub(in crate::store) const RESERVE_FILE: &str = "reserve";

/// Most bytes of the reserve: some commits, a new segment and a small pack.
const RESERVE_BYTES: u64 = 256 << 10;

/// Bytes of the reserve of a small store, whose packs are smaller, too.
const SMALL_RESERVE_BYTES: u64 = 128 << 10;

/// Bytes of the other files up to which a store is small.
const SMALL_STORE_BYTES: u64 = 4 << 20;

/// The reserve of a store with a budget takes at most one part in this many of the budget.
const BUDGET_PARTS: u64 = 32;

/// The reserve is written in words of this size.
const WORD_BYTES: u64 = 8;

/// Free bytes that creating the reserve requires, so that the reserve does not fill the disk.
const ROOM_BYTES: u64 = 8 * RESERVE_BYTES;

/// Free bytes below which the reserve is needed.
const FULL_BYTES: u64 = 4 * RESERVE_BYTES;

impl Store {
    /// Runs work that makes the store smaller. On a nearly full disk, deletes the reserve first and
    /// creates it again afterwards. `budget_bytes` is the bound of all files of the store, if there
    /// is one.
    pub fn with_reserve<T>(&self, budget_bytes: Option<u64>, work: impl FnOnce() -> T) -> T {
        // The work reports the errors of the disk itself; the reserve only makes success likelier.
        let is_released = self.release_reserve().unwrap_or(false);
        let done = work();
        let _ = self.create_reserve(budget_bytes, if is_released { 0 } else { ROOM_BYTES });
        done
    }

    /// Creates the reserve if it is missing and the disk has room for it. Replaces a reserve whose
    /// size does not fit the store or `budget_bytes`.
    ///
    /// # Errors
    /// `Io` when the disk refuses; then there is no reserve.
    pub fn keep_reserve(&self, budget_bytes: Option<u64>) -> Result<()> {
        self.create_reserve(budget_bytes, ROOM_BYTES)
    }

    /// Returns the current size of the reserve.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        let file = self.disk.open_if_exists(&self.dir.join(RESERVE_FILE), Access::Read);
        file.ok().flatten().and_then(|file| file.size().ok()).unwrap_or(0)
    }

    /// Deletes the reserve if the disk is nearly full. Returns true if it was deleted.
    fn release_reserve(&self) -> Result<bool> {
        let path = self.dir.join(RESERVE_FILE);
        let free = self.disk.free_bytes(&self.dir).map_err(failed("inspect", &self.dir))?;
        if free >= FULL_BYTES || self.disk.identity_if_exists(&path)?.is_none() {
            return Ok(false);
        }
        self.disk.remove_if_exists(&path)?;
        Ok(true)
    }

    /// Creates the reserve if at least `least_free` bytes are free.
    fn create_reserve(&self, budget_bytes: Option<u64>, least_free: u64) -> Result<()> {
        let is_small = self.summary()?.file_bytes <= SMALL_STORE_BYTES;
        let most = if is_small { SMALL_RESERVE_BYTES } else { RESERVE_BYTES };
        let budget = budget_bytes.unwrap_or(u64::MAX);
        let wanted = (budget / BUDGET_PARTS).min(most) / WORD_BYTES * WORD_BYTES;
        let path = self.dir.join(RESERVE_FILE);
        if let Some(file) = self.disk.open_if_exists(&path, Access::Read)? {
            if file.size().map_err(failed("inspect", &path))? == wanted {
                return Ok(());
            }
            // The process that created it has died, the disk was full, or the budget has changed.
            self.disk.remove_if_exists(&path)?;
        }
        let free = self.disk.free_bytes(&self.dir).map_err(failed("inspect", &self.dir))?;
        if free < least_free {
            return Ok(());
        }
        let Some(file) = self.disk.create_if_free(&path)? else { return Ok(()) };
        let written = file.write_at(&content(wanted), 0).map_err(failed("write", &path));
        written.inspect_err(|_| {
            let _ = self.disk.remove(&path);
        })
    }
}

/// Returns bytes that a compressing file system cannot shrink.
fn content(bytes: u64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let words = (0..bytes / WORD_BYTES).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}
