//! The reserve: room on the disk that a store keeps, so that it can be made smaller on a full one.
//!
//! Forgetting needs a record in the journal, and freeing needs a pack of what stays, before anything
//! goes. On a disk without room the reserve goes first, and comes back when there is room again. Its
//! bytes mean nothing, and it is as good as none when it is missing, short or something else.

use crate::error::Result;
use crate::store::Store;
use crate::store::dir::failed;
use crate::store::io::Access;

/// The file with the reserve.
pub(in crate::store) const RESERVE_FILE: &str = "reserve";

/// Bytes of the reserve: some commits, a new segment and a small pack.
const RESERVE_BYTES: u64 = 256 << 10;

/// The reserve of a store with a budget takes no more than one part in so many of that.
const BUDGET_PARTS: u64 = 32;

/// Its bytes come in words of so many.
const WORD_BYTES: u64 = 8;

/// Free bytes from which the reserve is made: it is not to fill the disk by itself.
const ROOM_BYTES: u64 = 8 * RESERVE_BYTES;

/// Free bytes below which the reserve is needed.
const FULL_BYTES: u64 = 4 * RESERVE_BYTES;

impl Store {
    /// Does work that makes the store smaller: on a disk that is nearly full in place of the reserve, which
    /// is made again afterwards. `budget_bytes` is what all of its files may take, where that has a bound.
    pub fn with_reserve<T>(&self, budget_bytes: Option<u64>, work: impl FnOnce() -> T) -> T {
        // The work says what the disk refuses; this only makes it likelier to end well.
        let is_released = self.release_reserve().unwrap_or(false);
        let done = work();
        let _ = self.keep_reserve_beside(budget_bytes, if is_released { 0 } else { ROOM_BYTES });
        done
    }

    /// Makes the reserve if it is missing and the disk has room for it, and makes one smaller that is too large
    /// for `budget_bytes`.
    ///
    /// # Errors
    /// `Io` when the disk refuses; then there is none.
    pub fn keep_reserve(&self, budget_bytes: Option<u64>) -> Result<()> {
        self.keep_reserve_beside(budget_bytes, ROOM_BYTES)
    }

    /// Returns the bytes of the reserve as it is now.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        let file = self.disk.open_if_exists(&self.dir.join(RESERVE_FILE), Access::Read);
        file.ok().flatten().and_then(|file| file.size().ok()).unwrap_or(0)
    }

    /// Lets the reserve go if the disk is nearly full; returns true if it went.
    fn release_reserve(&self) -> Result<bool> {
        let path = self.dir.join(RESERVE_FILE);
        let free = self.disk.free_bytes(&self.dir).map_err(failed("look at", &self.dir))?;
        if free >= FULL_BYTES || self.disk.identity_if_exists(&path)?.is_none() {
            return Ok(false);
        }
        self.disk.remove_if_exists(&path)?;
        Ok(true)
    }

    /// Makes the reserve where so many bytes are free.
    fn keep_reserve_beside(&self, budget_bytes: Option<u64>, least_free: u64) -> Result<()> {
        let budget = budget_bytes.unwrap_or(u64::MAX);
        let wanted = (budget / BUDGET_PARTS).min(RESERVE_BYTES) / WORD_BYTES * WORD_BYTES;
        let path = self.dir.join(RESERVE_FILE);
        if let Some(file) = self.disk.open_if_exists(&path, Access::Read)? {
            if file.size().map_err(failed("look at", &path))? == wanted {
                return Ok(());
            }
            // The process that made it has died, the disk was full, or the budget is another one.
            self.disk.remove_if_exists(&path)?;
        }
        let free = self.disk.free_bytes(&self.dir).map_err(failed("look at", &self.dir))?;
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

/// Bytes that take their room on a file system that compresses, too.
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
