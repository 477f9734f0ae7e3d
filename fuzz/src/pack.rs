//! Packs of a store: one is changed, the other files are good.
//!
//! A pack is larger than an input may be, so the input is changes of four bytes each:
//!
//! ```text
//! change  | position 2 | mask 1 | length - 1 1 |   these bytes are xored with the mask;
//!                                                  without a mask the file ends at the position
//! ```
//!
//! The name of a pack is a checksum of all of it, so checksums cannot be made good from outside:
//! packs whose checksums are good and whose content is not are tried inside the library. These
//! inputs reach what opens, reports and mends.

use std::path::PathBuf;
use std::sync::OnceLock;

use turntree::maintenance::{Loss, fsck, repair};
use turntree::store::Thoroughness;
use turntree_tests::sample::{Sample, try_open};
use turntree_tests::stamp;

/// A store whose smallest pack is changed.
///
/// # Panics
/// When a promise of the store is broken.
pub fn pack(changes: &[u8]) {
    let (sample, path) = store_with_packs();
    let disk = sample.copy();
    let good = disk.files().remove(path).expect("the pack of the sample");
    let mut changed = good.clone();
    for change in changes.chunks_exact(4) {
        apply(change, &mut changed);
    }
    let is_good = changed == good;
    disk.damage(path, changed);
    let before = disk.files();
    let repo = try_open(&disk, 60).expect("a damaged pack does not keep the store closed");
    // Panics when an object is given that is not its id's.
    let missing = sample.missing(repo.store());
    let report = fsck(repo.store(), Thoroughness::Full, stamp(100).time, &mut |_, _| {})
        .expect("damage is reported, and ends no check");
    assert!(disk.files() == before, "reading wrote something");
    assert_eq!(report.is_ok(), is_good, "not what fsck says: {:#?}", report.findings);
    repair(repo.store(), Loss::Refuse, &stamp(100), &mut |_, _| {}).expect("a repair goes on");
    drop(repo);
    let repaired = try_open(&disk, 61).expect("a repaired store opens");
    let lost = sample.missing(repaired.store());
    assert!(lost.iter().all(|id| missing.contains(id)), "a repair lost what was there");
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

/// The store that the target changes, and the path of its smallest pack.
fn store_with_packs() -> &'static (Sample, PathBuf) {
    static STORE: OnceLock<(Sample, PathBuf)> = OnceLock::new();
    STORE.get_or_init(|| {
        let sample = Sample::new();
        let files = sample.disk.files();
        let packs = files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "pack"));
        let smallest = packs.min_by_key(|(_, bytes)| bytes.len());
        let path = smallest.expect("the sample has packs").0.clone();
        (sample, path)
    })
}
