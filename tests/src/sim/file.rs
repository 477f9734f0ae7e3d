//! Files of a simulated disk: the written bytes, the durable ones, and those that a crash leaves.

use std::collections::{BTreeMap, BTreeSet};

use super::{Keep, Random};

/// The unit that a disk keeps or loses whole.
pub(super) const SECTOR: usize = 512;

/// The number of sectors in one of 4 KiB.
const SECTORS_OF_LARGE: usize = 8;

/// The number of earlier contents of an unsynced sector that are remembered: any of them may be on
/// the disk.
const MAX_EARLIER: usize = 4;

/// A file: the bytes that processes see, and those that survive a crash.
#[derive(Debug, Default, Clone)]
pub(super) struct SimFile {
    pub(super) live: Vec<u8>,
    durable: Vec<u8>,
    /// The sectors written since the last sync, with their earlier contents.
    dirty: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The sectors that a failed sync may or may not have stored, with their content then. Later
    /// syncs skip them, since they count as clean.
    doubtful: BTreeMap<usize, Vec<u8>>,
    /// The open handles, and those that a failed sync has not been reported to yet.
    pub(super) handles: BTreeSet<u64>,
    untold: BTreeSet<u64>,
}

impl SimFile {
    /// A file with these bytes, all of them durable.
    pub(super) fn with(bytes: Vec<u8>) -> Self {
        Self { durable: bytes.clone(), live: bytes, ..Self::default() }
    }

    pub(super) fn write(&mut self, bytes: &[u8], start: usize) {
        let end = start + bytes.len();
        for sector in start / SECTOR..end.div_ceil(SECTOR) {
            let before = self.sector(sector).to_vec();
            match self.dirty.get_mut(&sector) {
                None => drop(self.dirty.insert(sector, Vec::new())),
                Some(earlier) if earlier.len() < MAX_EARLIER => earlier.push(before),
                Some(_) => {}
            }
        }
        self.live.resize(self.live.len().max(end), 0);
        self.live[start..end].copy_from_slice(bytes);
    }

    /// Makes all dirty sectors durable. Returns false if an earlier failed sync must still be
    /// reported to `handle`.
    pub(super) fn sync(&mut self, handle: u64) -> bool {
        self.durable.resize(self.live.len().max(self.durable.len()), 0);
        for (sector, _) in std::mem::take(&mut self.dirty) {
            self.doubtful.remove(&sector);
            let bytes = self.sector(sector).to_vec();
            put(&mut self.durable, sector * SECTOR, &bytes);
        }
        !self.untold.remove(&handle)
    }

    /// A failed sync: dirty sectors count as clean and may be lost, or with `forgets` are lost for
    /// readers too. As on Linux, the error is reported once to every other open handle.
    pub(super) fn fail_sync(&mut self, handle: u64, forgets: bool) {
        for (sector, _) in std::mem::take(&mut self.dirty) {
            let bytes = self.sector(sector).to_vec();
            if forgets {
                let start = sector * SECTOR;
                let mut before = self.durable.get(start..).unwrap_or_default().to_vec();
                before.resize(bytes.len(), 0);
                put(&mut self.live, start, &before);
            } else {
                self.doubtful.insert(sector, bytes);
            }
        }
        self.untold = self.handles.clone();
        self.untold.remove(&handle);
    }

    fn sector(&self, sector: usize) -> &[u8] {
        let end = self.live.len().min((sector + 1) * SECTOR);
        self.live.get(sector * SECTOR..end).unwrap_or_default()
    }

    /// The file after a crash. Large sectors are kept or lost as a whole, small ones separately.
    pub(super) fn crashed(&self, keep: Keep, number: u64) -> Self {
        let mut bytes = self.durable.clone();
        match keep {
            Keep::Nothing => {}
            Keep::All => {
                let doubtful = self.doubtful.iter().map(|(sector, bytes)| (sector, &bytes[..]));
                let dirty = self.dirty.keys().map(|sector| (sector, self.sector(*sector)));
                for (sector, kept) in doubtful.chain(dirty) {
                    put(&mut bytes, sector * SECTOR, kept);
                }
            }
            Keep::Some(seed) => self.draw(&mut bytes, &mut Random(seed ^ (number << 32)), seed),
        }
        Self::with(bytes)
    }

    fn draw(&self, bytes: &mut Vec<u8>, random: &mut Random, seed: u64) {
        for (sector, kept) in &self.doubtful {
            if random.below(2) == 0 {
                put(bytes, sector * SECTOR, kept);
            }
        }
        // All files of a disk have sectors of one size.
        let together = [1, SECTORS_OF_LARGE][usize::from(seed & 1 == 1)];
        let mut last = None;
        let mut fate = Fate::Dropped;
        for (sector, earlier) in &self.dirty {
            if last.replace(sector / together) != Some(sector / together) {
                fate = Fate::draw(random, together * SECTOR);
            }
            let version = earlier.get(random.below(earlier.len() * 2 + 1));
            let new = version.map_or(self.sector(*sector), Vec::as_slice);
            let inside = sector % together * SECTOR;
            let range = fate.kept(inside, new.len());
            let start = sector * SECTOR + range.start;
            put(bytes, start, &new[range]);
        }
        // The length may be durable before the bytes are.
        if bytes.len() < self.live.len() && random.below(4) == 0 {
            bytes.resize(self.live.len(), 0);
        }
    }
}

/// The state of an unsynced sector after a crash.
#[derive(Clone, Copy)]
enum Fate {
    Kept,
    Dropped,
    /// Only the bytes before this one are new.
    Begun(usize),
    /// Only the bytes from this one on are new.
    Ended(usize),
}

impl Fate {
    fn draw(random: &mut Random, bytes: usize) -> Self {
        let cut = random.below(bytes);
        [Self::Kept, Self::Kept, Self::Dropped, Self::Dropped, Self::Begun(cut), Self::Ended(cut)]
            [random.below(6)]
    }

    /// The range of `len` bytes starting at `inside` of the sector that is new.
    fn kept(self, inside: usize, len: usize) -> std::ops::Range<usize> {
        match self {
            Self::Kept => 0..len,
            Self::Dropped => 0..0,
            Self::Begun(cut) => 0..cut.saturating_sub(inside).min(len),
            Self::Ended(cut) => cut.saturating_sub(inside).min(len)..len,
        }
    }
}

fn put(bytes: &mut Vec<u8>, start: usize, new: &[u8]) {
    if !new.is_empty() {
        bytes.resize(bytes.len().max(start + new.len()), 0);
        bytes[start..start + new.len()].copy_from_slice(new);
    }
}
