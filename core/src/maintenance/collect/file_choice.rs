//! Chooses the files that a collection rewrites, and their tier.

use std::collections::BTreeMap;

use crate::maintenance::collection_plan::{ObjectsSize, Purpose};
use crate::store::{Tier, pack_room};

/// The maximum number of bytes of files rewritten in one step. This is about the size of the
/// largest pack and the free disk space needed. A single file may be larger.
const MAX_STEP_BYTES: u64 = 256 << 20;

/// In a store with a bound, a step makes packs of at most this fraction of the bound (1/6).
const BOUND_PARTS: u64 = 6;

/// The minimum of that fraction, in bytes.
const MIN_STEP_BYTES: u64 = 256 << 10;

/// A step rewrites a file with more than this fraction of garbage (1/4).
const GARBAGE_PARTS: u64 = 4;

/// Packs up to this size are rewritten with the journal by a collection under a budget, and by a
/// step once one of them has garbage: expiring turns would leave many packs with a little garbage
/// each.
const SMALL_BYTES: u64 = 8 << 20;

/// The number of packs of about one size that a step joins. A smaller number would rewrite each
/// byte more often; a larger one would slow down every process, which opens all packs.
const PACKS_PER_CLASS: usize = 8;

/// The largest size of the smallest class of packs, as steps write them.
const SMALLEST_CLASS_BYTES: u64 = 4 << 20;

/// A pack of at least this size is not rewritten to join others. A step leaves a tenth to a third
/// of [`MAX_STEP_BYTES`]. Four such packs of one session, joined, were 1.9 percent smaller, for as
/// much time as all the steps had taken.
const FINISHED_BYTES: u64 = MAX_STEP_BYTES / 8;

/// The live and dead objects of a file.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintenance) struct FileState {
    pub(in crate::maintenance) tier: Option<Tier>,
    pub(in crate::maintenance) bytes: u64,
    pub(in crate::maintenance) replaceable: bool,
    /// True if it has the tier, but would be written in another form now.
    pub(super) outdated: bool,
    pub(in crate::maintenance) live: ObjectsSize,
    pub(in crate::maintenance) garbage: ObjectsSize,
}

/// The limits of the pack that a collection makes.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::maintenance) struct Limits {
    /// True if some session has a budget: a collection then packs unpacked content together with
    /// smaller packs, since budgets are measured in packs.
    pub(super) is_budgeted: bool,
    /// The bound of all files of the store. A step limits the size of its pack by it, since the
    /// pack and the files that it replaces are on the disk at the same time.
    pub(in crate::maintenance) bound_bytes: Option<u64>,
    /// The free disk space for a pack, if known: see [`pack_room`].
    pub(super) room_bytes: Option<u64>,
}

/// Returns the numbers of the files to rewrite, the tier to write, and whether work is left
/// afterwards.
pub(super) fn choose_files(
    files: &[FileState],
    purpose: Purpose,
    limits: Limits,
) -> (Vec<usize>, Tier, bool) {
    let (chosen, tier, partial) = choose_with_room(files, purpose, limits);
    let chosen_files = chosen.iter().filter_map(|number| files.get(*number));
    let room = limits.room_bytes.unwrap_or(u64::MAX);
    if chosen_files.map(FileState::room).fold(0, u64::saturating_add) <= room {
        return (chosen, tier, partial);
    }
    let wanted = match purpose {
        Purpose::Repack(tier) => tier,
        _ => Tier::Hot,
    };
    // Merging packs can wait, and repacking the output of the previous step would never end.
    let urgent = chosen.iter().filter_map(|number| Some((*number, files.get(*number)?)));
    let mut urgent: Vec<_> = urgent.filter(|(_, file)| !file.is_stored_as(wanted)).collect();
    if urgent.is_empty() && matches!(purpose, Purpose::Repack(_)) {
        return (chosen, tier, partial);
    }
    let is_all = urgent.len() == chosen.len();
    urgent.sort_by_key(|(_, file)| file.room());
    let mut fitting = first_step(urgent.into_iter(), room, FileState::room);
    fitting.0.sort_unstable();
    let (chosen, left) = fitting;
    let is_partial = !chosen.is_empty() && (partial || left || !is_all);
    (chosen, tier, is_partial)
}

/// Like [`choose_files`], as if the disk had room for everything.
fn choose_with_room(
    files: &[FileState],
    purpose: Purpose,
    limits: Limits,
) -> (Vec<usize>, Tier, bool) {
    let most = limits.bound_bytes.map_or(MAX_STEP_BYTES, |bound| bound / BOUND_PARTS);
    let most = most.clamp(MIN_STEP_BYTES, MAX_STEP_BYTES);
    let free = files.iter().enumerate().filter(|(_, file)| file.replaceable);
    match purpose {
        Purpose::Gc | Purpose::StrictGc | Purpose::GcNow if limits.is_budgeted => {
            let journal = free.clone().filter(|(_, file)| file.tier.is_none());
            let small = SMALL_BYTES.max(journal.map(|(_, file)| file.live.bytes).sum());
            let is_packed = |file: &FileState| file.is_stored_as(Tier::Compacted);
            let wanted: Vec<_> =
                free.filter(|(_, file)| !is_packed(file) || file.live.bytes <= small).collect();
            match wanted.iter().all(|(_, file)| is_packed(file)) && wanted.len() <= 1 {
                true => (Vec::new(), Tier::Compacted, false),
                false => with_best_tier(files, oldest(wanted.iter().copied(), MAX_STEP_BYTES)),
            }
        }
        Purpose::Gc | Purpose::StrictGc | Purpose::GcNow => {
            let wanted = free.filter(|(_, file)| file.garbage.objects > 0 || file.is_empty());
            with_best_tier(files, oldest(wanted, MAX_STEP_BYTES))
        }
        Purpose::Repack(tier) => {
            let wanted: Vec<_> = free.filter(|(_, file)| !file.is_finished(tier)).collect();
            let (chosen, partial) = oldest(wanted.iter().copied(), MAX_STEP_BYTES);
            // Repacking a single small pack would give the same pack again.
            let alone = match wanted.as_slice() {
                [(_, file)] => file.is_stored_as(tier),
                _ => false,
            };
            if alone { (Vec::new(), tier, false) } else { (chosen, tier, partial) }
        }
        Purpose::Step => step(free, most),
        Purpose::Settle => {
            let wanted = free.filter(|(_, file)| !file.is_stored_as(Tier::Compacted));
            with_best_tier(files, oldest(wanted, most))
        }
    }
}

impl FileState {
    /// Returns the maximum size of its live objects in a new pack.
    fn room(&self) -> u64 {
        pack_room(self.live.objects, self.live.bytes)
    }

    fn is_empty(&self) -> bool {
        self.live.objects == 0
    }

    fn is_stored_as(&self, tier: Tier) -> bool {
        self.tier >= Some(tier) && self.garbage.objects == 0 && !self.outdated
    }

    /// Returns true if repacking would give nearly the same pack again.
    fn is_finished(&self, tier: Tier) -> bool {
        self.is_stored_as(tier) && self.bytes >= FINISHED_BYTES
    }
}

/// Returns the chosen files with the best tier among them.
fn with_best_tier(
    files: &[FileState],
    (chosen, partial): (Vec<usize>, bool),
) -> (Vec<usize>, Tier, bool) {
    let tiers = chosen.iter().filter_map(|number| files.get(*number)?.tier);
    let tier = tiers.max().unwrap_or(Tier::Compacted).max(Tier::Compacted);
    (chosen, tier, partial)
}

/// Returns as many files as fit into a pack of `most` bytes, oldest first, and whether any are
/// left.
fn oldest<'f>(
    wanted: impl Iterator<Item = (usize, &'f FileState)>,
    most: u64,
) -> (Vec<usize>, bool) {
    first_step(wanted, most, |file| file.live.bytes)
}

/// Returns the first files with a total `size` of at most `most`, but at least one, and whether any
/// are left.
fn first_step<'f>(
    wanted: impl Iterator<Item = (usize, &'f FileState)>,
    most: u64,
    size: impl Fn(&FileState) -> u64,
) -> (Vec<usize>, bool) {
    let mut bytes: u64 = 0;
    let mut chosen = Vec::new();
    for (number, file) in wanted {
        bytes = bytes.saturating_add(size(file));
        if !chosen.is_empty() && bytes > most {
            return (chosen, true);
        }
        chosen.push(number);
    }
    (chosen, false)
}

/// Chooses the idle journal, packs that are largely garbage, small packs once one of them has
/// garbage, and the packs of a size class with too many packs: so a byte is rewritten once each
/// time that the store grows eightfold.
fn step<'f>(
    free: impl Iterator<Item = (usize, &'f FileState)>,
    most: u64,
) -> (Vec<usize>, Tier, bool) {
    let (journal, mut packs): (Vec<_>, Vec<_>) = free.partition(|(_, file)| file.tier.is_none());
    let mut bytes: u64 = journal.iter().map(|(_, file)| file.live.bytes).sum();
    let mut chosen: Vec<usize> = journal.into_iter().map(|(number, _)| number).collect();
    let mut tier = Tier::Hot;
    packs.sort_by_key(|(_, file)| file.live.bytes);
    let mut small = packs.iter().filter(|(_, file)| file.live.bytes <= SMALL_BYTES);
    let has_stale = small.any(|(_, file)| file.garbage.objects > 0);
    let crowd = crowded_class(packs.iter().map(|(_, file)| file.live.bytes));
    for (number, file) in packs {
        let wasteful = file.garbage.bytes * GARBAGE_PARTS > file.bytes;
        let is_crowded = crowd == Some(size_class(file.live.bytes));
        let is_stale = has_stale && file.live.bytes <= SMALL_BYTES;
        if (wasteful || is_crowded || is_stale) && bytes + file.live.bytes <= most {
            bytes += file.live.bytes;
            tier = tier.max(Tier::Compacted);
            chosen.push(number);
        }
    }
    chosen.sort_unstable();
    (chosen, tier, false)
}

/// Returns the size class of a pack: 0 for the smallest, one more for each factor of eight.
fn size_class(bytes: u64) -> u32 {
    let (mut size, mut most) = (0, SMALLEST_CLASS_BYTES);
    while bytes > most {
        (size, most) = (size + 1, most.saturating_mul(PACKS_PER_CLASS as u64));
    }
    size
}

/// Returns the smallest size class with too many packs, ignoring finished packs.
fn crowded_class(packs: impl Iterator<Item = u64>) -> Option<u32> {
    let mut counts = BTreeMap::<u32, usize>::new();
    for bytes in packs.filter(|bytes| *bytes < FINISHED_BYTES) {
        *counts.entry(size_class(bytes)).or_default() += 1;
    }
    counts.into_iter().find(|(_, count)| *count >= PACKS_PER_CLASS).map(|(size, _)| size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tier: Option<Tier>, live: u64, garbage: u64) -> FileState {
        let amount = |bytes| ObjectsSize { objects: bytes / 100, bytes };
        let (live, garbage, bytes) = (amount(live), amount(garbage), live + garbage);
        FileState { tier, bytes, replaceable: true, outdated: false, live, garbage }
    }

    #[test]
    fn a_file_in_use_is_never_chosen() {
        let mut files = [file(None, 1000, 1000), file(Some(Tier::Hot), 1000, 1000)];
        for file in &mut files {
            file.replaceable = false;
        }
        for purpose in [Purpose::Gc, Purpose::Repack(Tier::Archive), Purpose::Step] {
            assert_eq!(choose_files(&files, purpose, Limits::default()).0, Vec::<usize>::new());
        }
    }

    #[test]
    fn gc_takes_what_has_garbage_and_keeps_the_best_tier() {
        let files = [
            file(None, 1000, 0),
            file(Some(Tier::Archive), 5000, 100),
            file(Some(Tier::Hot), 700, 200),
        ];
        assert_eq!(
            choose_files(&files, Purpose::Gc, Limits::default()),
            (vec![1, 2], Tier::Archive, false)
        );
    }

    #[test]
    fn repacking_what_is_packed_is_nothing_to_do() {
        let packed = [file(Some(Tier::Compacted), 1000, 0)];
        assert!(
            choose_files(&packed, Purpose::Repack(Tier::Compacted), Limits::default()).0.is_empty()
        );
        assert_eq!(choose_files(&packed, Purpose::Repack(Tier::Archive), Limits::default()).0, [0]);
        let mut archive = file(Some(Tier::Archive), 5000, 0);
        assert!(
            choose_files(&[archive], Purpose::Repack(Tier::Archive), Limits::default())
                .0
                .is_empty()
        );
        archive.outdated = true;
        assert_eq!(
            choose_files(&[archive], Purpose::Repack(Tier::Archive), Limits::default()).0,
            [0]
        );
        let two = [packed[0], file(None, 10_000, 0)];
        assert_eq!(
            choose_files(&two, Purpose::Repack(Tier::Compacted), Limits::default()).0,
            [0, 1]
        );
    }

    #[test]
    fn what_is_under_a_budget_is_packed() {
        let budgeted = Limits { is_budgeted: true, ..Limits::default() };
        let files = [file(None, 1000, 0), file(Some(Tier::Archive), 5000, 0)];
        assert_eq!(choose_files(&files, Purpose::Gc, Limits::default()).0, Vec::<usize>::new());
        assert_eq!(choose_files(&files, Purpose::Gc, budgeted), (vec![0, 1], Tier::Archive, false));
        assert_eq!(choose_files(&files[1..], Purpose::Gc, budgeted).0, Vec::<usize>::new());
        let large = file(Some(Tier::Archive), 2 * SMALL_BYTES, 0);
        let files = [file(None, 1000, 0), large];
        assert_eq!(choose_files(&files, Purpose::Gc, budgeted), (vec![0], Tier::Compacted, false));
    }

    #[test]
    fn a_large_store_takes_steps_of_bounded_size() {
        let files = [file(None, 200 << 20, 0), file(None, 200 << 20, 0)];
        assert_eq!(
            choose_files(&files, Purpose::Repack(Tier::Compacted), Limits::default()),
            (vec![0], Tier::Compacted, true)
        );
    }

    #[test]
    fn a_disk_with_little_room_gets_the_smallest_files_first() {
        let tiny = |room| Limits { room_bytes: Some(room), ..Limits::default() };
        let packed = file(Some(Tier::Compacted), 500, 0);
        let files = [file(None, 5000, 100), packed, file(None, 1000, 100), file(None, 0, 100)];
        let gc = |room| choose_files(&files, Purpose::Gc, tiny(room));
        assert_eq!(gc(u64::MAX), (vec![0, 2, 3], Tier::Compacted, false));
        assert_eq!(gc(pack_room(10, 1000)), (vec![2, 3], Tier::Compacted, true));
        // An empty file needs no room. A file that does not fit is chosen alone, and its error
        // names the bytes.
        assert_eq!(gc(0), (vec![3], Tier::Compacted, true));
        assert_eq!(
            choose_files(&files[..3], Purpose::Gc, tiny(0)),
            (vec![2], Tier::Compacted, true)
        );
        let repack = Purpose::Repack(Tier::Compacted);
        let (chosen, _, partial) = choose_files(&files, repack, tiny(pack_room(10, 1000)));
        assert_eq!((chosen, partial), (vec![2, 3], true));
        // Joining two packs needs room for both.
        let packs = [packed, packed];
        assert_eq!(choose_files(&packs, repack, tiny(600)), (vec![0, 1], Tier::Compacted, false));
    }

    #[test]
    fn what_a_step_of_a_large_store_has_made_is_not_made_again() {
        let repack = Purpose::Repack(Tier::Compacted);
        let made = file(Some(Tier::Compacted), FINISHED_BYTES, 0);
        let files = [file(None, 200 << 20, 0), made, file(Some(Tier::Compacted), 1000, 0)];
        assert_eq!(choose_files(&files, repack, Limits::default()).0, [0, 2]);
        assert_eq!(choose_files(&files[1..], repack, Limits::default()).0, Vec::<usize>::new());
        let wasteful = file(Some(Tier::Compacted), FINISHED_BYTES, 100);
        assert_eq!(choose_files(&[made, wasteful], repack, Limits::default()).0, [1]);
    }

    #[test]
    fn steps_rewrite_a_byte_once_for_every_eightfold() {
        let mut packs: Vec<FileState> = Vec::new();
        let mut rewritten = 0;
        for _ in 0..256 {
            let mut files = packs.clone();
            files.push(file(None, SMALL_BYTES, 0));
            let (chosen, tier, _) = choose_files(&files, Purpose::Step, Limits::default());
            let bytes: u64 = chosen.iter().map(|number| files[*number].live.bytes).sum();
            rewritten += bytes;
            packs = (0..files.len()).filter(|n| !chosen.contains(n)).map(|n| files[n]).collect();
            packs.push(file(Some(tier), bytes, 0));
        }
        let finished = 256 * SMALL_BYTES / FINISHED_BYTES;
        assert!(packs.len() as u64 <= finished + PACKS_PER_CLASS as u64, "{}", packs.len());
        assert!(rewritten <= 256 * SMALL_BYTES * 3, "{rewritten}");
    }
}
