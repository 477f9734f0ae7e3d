//! Fuzzes untrusted bundles: a small one is changed, optionally with recomputed checksums.
//!
//! ```text
//! input   | mended 1 | changes of four bytes, as those of packs |
//! ```

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use turntree::Result;
use turntree::maintenance::fsck;
use turntree::object::{IdPrefix, ObjectSource};
use turntree::repo::Repository;
use turntree::store::{Io, NewStore, OpenOptions, Thoroughness, Tier};
use turntree::transfer::bundle::{Bundle, BundleRequest, UnbundleOptions, plan_bundle, unbundle};
use turntree_tests::checksums::mend_bundle;
use turntree_tests::oracle::DIR;
use turntree_tests::sample::{Sample, try_open};
use turntree_tests::sim::SimDisk;
use turntree_tests::stamp;

use crate::pack::changed;

/// Maximum bytes of objects: a small bundle may claim to hold much.
const MAX_BYTES: u64 = 64 << 20;

/// Changes a bundle and imports it into an empty store.
///
/// # Panics
/// If a guarantee of the library is violated.
pub fn bundle(input: &[u8]) {
    let Some((mended, changes)) = input.split_first() else { return };
    let mut bytes = changed(good(), changes);
    if mended % 2 == 1 {
        // Numbers that point outside of the file are left for the reader.
        let _ = mend_bundle(&mut bytes);
    }
    let is_good = bytes == *good();
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, new): (Arc<dyn Io>, _) = (Arc::new(disk), NewStore { id: [1; 16] });
    let options = OpenOptions::new([2; 16]);
    let repo = Repository::init(io, Path::new(DIR), &new, options).expect("a new store");
    match take_in(&repo, bytes) {
        Err(_) => {
            assert!(!is_good, "a good bundle is refused");
            assert_eq!(repo.refs().operation, None, "refused, and something is visible");
        }
        Ok(()) => {
            assert!(is_good || mended % 2 == 1, "a changed byte is not noticed");
            // Imported objects verify, or the check reports why not.
            let report = fsck(&repo, Thoroughness::Full, stamp(100).time, &mut |_, _| {});
            report.expect("a check ends");
            let all: IdPrefix = "0000".parse().expect("a prefix");
            for (id, _) in repo.store().find(&all, 10) {
                repo.read(&id).expect("an object verifies");
            }
        }
    }
}

fn take_in(repo: &Repository, bytes: Vec<u8>) -> Result<()> {
    let disk = SimDisk::new(Path::new("/in"));
    let path = PathBuf::from("/in/bundle");
    let file = disk.create(&path).expect("a file");
    file.write_at(&bytes, 0).expect("room in memory");
    let bundle = Bundle::open(Arc::new(file))?;
    let options = UnbundleOptions { max_bytes: Some(MAX_BYTES), ..UnbundleOptions::default() };
    unbundle(repo, &bundle, &options, &stamp(90)).map(drop)
}

/// Returns a bundle with objects of every kind.
fn good() -> &'static Vec<u8> {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let repo = try_open(&Sample::small(6).disk, 50).expect("the sample opens");
        let sessions = repo.branches().into_iter().map(|(branch, _)| branch.session().to_owned());
        let wanted: Vec<BundleRequest> = sessions.map(BundleRequest::Session).collect();
        let plan = plan_bundle(&repo, &wanted, &[]).expect("the sample is whole");
        let disk = SimDisk::new(Path::new("/out"));
        let file = disk.create(Path::new("/out/b")).expect("a new file");
        plan.write(&repo, Tier::Hot, &file).expect("a bundle");
        let len = file.size().expect("it has a size");
        let mut bytes = vec![0; usize::try_from(len).expect("a small file")];
        file.read_at(&mut bytes, 0).expect("it reads");
        bytes
    })
}
