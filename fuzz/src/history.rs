//! Fuzzes history indexes of a store: the index is untrusted, the objects are good.
//!
//! The first byte of an input defines the rest:
//!
//! ```text
//! +   the raw content of an index: it is cut into parts where that of the good one is, and the file gets
//!     the sizes and the checksum that it should have then
//!     after any other byte: the file
//! ```

use std::path::PathBuf;
use std::sync::OnceLock;

use turntree::maintenance::{Purpose, collect, fsck};
use turntree::store::{Io, Thoroughness};
use turntree_tests::checksums::{derived_parts, forged_derived};
use turntree_tests::sample::{Sample, asked_of_history, open, try_open};
use turntree_tests::stamp;

use crate::store::MEND;

/// The id of the store.
const STORE: u8 = 6;

/// A store with a history index, and its answers.
struct History {
    sample: Sample,
    path: PathBuf,
    /// The name of the index, equal to that of its pack.
    name: String,
    index: Vec<u8>,
    answers: Vec<String>,
}

/// Opens a store whose history index is `input`.
///
/// # Panics
/// If a guarantee of the store is violated.
pub fn history_index(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let History { sample, path, name, index, answers } = history();
    let is_forged = *first == MEND;
    let file = match is_forged {
        true => forged_derived(index, rest, [STORE; 16], name),
        false => rest.to_vec(),
    };
    let is_good = file == *index;
    let disk = sample.copy();
    disk.damage(path, file);
    let before = disk.files();
    let repo = try_open(&disk, 60).expect("an index does not keep the store closed");
    let told = asked_of_history(&repo);
    assert!(is_forged || told == *answers, "a damaged index was believed");
    // Panics if an object is returned that does not match its id.
    assert_eq!(sample.missing(&repo), [], "an index took an object away");
    let report = fsck(&repo, Thoroughness::Full, stamp(100).time, &mut |_, _| {})
        .expect("damage is reported, and ends no check");
    assert!(disk.files() == before, "reading wrote something");
    let is_about_it = |place: &str| place.ends_with(name);
    assert!(report.findings.iter().all(|it| is_about_it(&it.place)), "{:?}", report.findings);
    let is_named = !report.findings.is_empty();
    assert!(!(is_good && is_named), "a good index is called bad: {:?}", report.findings);
    assert!(is_named || told == *answers, "it tells something else, in silence");
    drop(repo);

    // Removing a reported index lets the collection rebuild a good one.
    if is_named {
        disk.remove(path).expect("the index of the sample");
    }
    collect(&open(&disk, 61), Purpose::Gc, &stamp(101), &mut |_| {}).expect("a collection");
    let repo = open(&disk, 62);
    assert_eq!(sample.missing(&repo), [], "a collection believed an index");
    assert_eq!(asked_of_history(&repo), *answers, "after a collection");
}

/// Returns the good index as two inputs: as a file, and as raw content.
#[must_use]
pub fn history_seeds() -> [(&'static str, Vec<u8>); 2] {
    let index = &history().index;
    let raw = derived_parts(index).concat();
    [("as-it-is", [b"-", &**index].concat()), ("mended", [&[MEND], &*raw].concat())]
}

fn history() -> &'static History {
    static HISTORY: OnceLock<History> = OnceLock::new();
    HISTORY.get_or_init(|| {
        let sample = Sample::with_history(STORE);
        let path = sample.history_index();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let index = sample.disk.files().remove(&path).unwrap();
        let answers = asked_of_history(&open(&sample.disk, 59));
        History { sample, path, name, index, answers }
    })
}
