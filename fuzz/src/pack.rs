//! Fuzzes packs of a store: one is changed, the other files are good.
//!
//! A pack is larger than an input may be, so the input is changes of four bytes each:
//!
//! ```text
//! change  | position 2 | mask 1 | length - 1 1 |   these bytes are xored with the mask;
//!                                                  without a mask the file ends at the position
//! ```

use std::path::PathBuf;
use std::sync::OnceLock;

use turntree::maintenance::{Loss, fsck, repair};
use turntree::store::Thoroughness;
use turntree_tests::checksums::replace_pack;
use turntree_tests::sample::{Sample, is_ids, remove_ids, try_open};
use turntree_tests::sim::SimDisk;
use turntree_tests::stamp;

/// Opens a store whose smallest pack is changed.
///
/// # Panics
/// If a guarantee of the store is violated.
pub fn pack(changes: &[u8]) {
    let (sample, path) = store_with_packs();
    let disk = sample.copy();
    let good = disk.files().remove(path).expect("the pack of the sample");
    let changed = changed(&good, changes);
    let is_good = changed == good;
    disk.damage(path, changed);
    let told = use_store(sample, &disk);
    assert_eq!(told, !is_good, "not what fsck says");
}

/// Opens a store in which one pack, chosen by the first byte, is changed, with recomputed checksums
/// and name.
///
/// # Panics
/// If a guarantee of the store is violated.
pub fn mended_pack(input: &[u8]) {
    let Some((first, changes)) = input.split_first() else { return };
    let stores = stores();
    let (sample, path) = &stores[usize::from(*first) % stores.len()];
    let disk = sample.copy();
    let good = disk.files().remove(path).expect("a pack of the sample");
    replace_pack(&disk, path, changed(&good, changes));
    use_store(sample, &disk);
}

/// Reads, checks and repairs a store; returns true if damage was reported.
fn use_store(sample: &Sample, disk: &SimDisk) -> bool {
    let before = disk.files();
    let repo = try_open(disk, 60).expect("a damaged pack does not keep the store closed");
    // Panics if an object is returned that does not match its id.
    let missing = sample.missing(&repo);
    let report = fsck(&repo, Thoroughness::Full, stamp(100).time, &mut |_, _| {})
        .expect("damage is reported, and ends no check");
    let is_new = |path: &PathBuf| !before.contains_key(path) && !is_ids(path);
    assert!(!disk.files().keys().any(is_new), "reading wrote something");
    assert!(missing.is_empty() || !report.is_ok(), "lost in silence: {missing:?}");
    repair(&repo, Loss::Refuse, &stamp(100), &mut |_, _| {}).expect("a repair ends");
    drop(repo);
    let repaired = try_open(disk, 61).expect("a repaired store opens");
    let lost = sample.missing(&repaired);
    assert!(lost.iter().all(|id| missing.contains(id)), "a repair lost an intact object");
    !report.is_ok()
}

/// Applies four-byte changes to a file.
pub(crate) fn changed(good: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut changed = good.to_vec();
    for change in changes.chunks_exact(4) {
        apply(change, &mut changed);
    }
    changed
}

fn apply(change: &[u8], file: &mut Vec<u8>) {
    let [low, high, mask, more] = change.try_into().expect("four bytes");
    if file.is_empty() {
        return;
    }
    let start = usize::from(u16::from_le_bytes([low, high])) % file.len();
    if mask == 0 {
        file.truncate(start);
    }
    for byte in file.iter_mut().skip(start).take(usize::from(more) + 1) {
        *byte ^= mask;
    }
}

/// Returns the store that the target [`pack`] changes, and the path of its smallest pack.
fn store_with_packs() -> &'static (Sample, PathBuf) {
    static STORE: OnceLock<(Sample, PathBuf)> = OnceLock::new();
    STORE.get_or_init(|| {
        let sample = Sample::new();
        let smallest = packs(&sample).into_iter().min_by_key(|(_, len)| *len);
        let path = smallest.expect("the sample has packs").0;
        (sample, path)
    })
}

/// Returns stores with packs of each tier, with a split blob and without ids, and the path of a
/// pack.
fn stores() -> &'static [(Sample, PathBuf)] {
    static STORES: OnceLock<Vec<(Sample, PathBuf)>> = OnceLock::new();
    STORES.get_or_init(|| {
        let tiers = (0..3).map(|number| (Sample::small(6), number));
        let without_ids = Sample::without_ids(6);
        remove_ids(&without_ids.disk);
        let all = tiers.chain([(Sample::with_parts(), 0), (without_ids, 0)]);
        all.map(|(sample, number)| {
            let path = packs(&sample).swap_remove(number).0;
            (sample, path)
        })
        .collect()
    })
}

/// Returns the paths and lengths of packs.
fn packs(sample: &Sample) -> Vec<(PathBuf, usize)> {
    let files = sample.disk.files().into_iter();
    let packs = files.filter(|(path, _)| path.extension().is_some_and(|e| e == "pack"));
    packs.map(|(path, bytes)| (path, bytes.len())).collect()
}
