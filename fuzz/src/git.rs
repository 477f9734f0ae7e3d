//! Fuzzes imports of untrusted git repositories: objects, packs, refs and settings that git did not
//! write.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use turntree::ErrorKind;
use turntree::maintenance::fsck;
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::store::{Durability, OpenOptions, Thoroughness};
use turntree_exchange::git::{GitImport, GitImportOptions, import};
use turntree_tests::oracle::{DIR, options};
use turntree_tests::sim::{Keep, SimDisk};
use turntree_tests::stamp;

use crate::exchange::read_back;
use crate::folder::{listing, new_folder};
use crate::git_files::Described;
use crate::store::new_repository;

/// Maximum number of files that trees may claim to hold: other tests cover the limit of the
/// library, which takes long.
const MAX_CLAIMED: u64 = 20_000;

/// Maximum bytes of an imported file.
const MAX_FILE_BYTES: u64 = 1000;

/// Imports the repository that `input` describes, twice.
///
/// # Panics
/// If an error leaves a trace or has an unexpected kind, imported content is unreadable, the second
/// import adds anything, or the repository changes.
pub fn git_repository(input: &[u8]) {
    let described = Described::read(input);
    if described.claimed() > MAX_CLAIMED {
        return;
    }
    let folder = new_folder();
    described.write(folder.path());
    let before = listing(folder.path());
    import_from(folder.path(), &described.asked);
    assert!(listing(folder.path()) == before, "an import wrote to the repository");
}

fn import_from(dir: &Path, asked: &[String]) {
    static EMPTY: OnceLock<SimDisk> = OnceLock::new();
    let disk = EMPTY.get_or_init(|| new_repository().0).crash(Keep::All);
    let options = OpenOptions { durability: Durability::None, ..options(2) };
    let repo = Repository::open(Arc::new(disk), Path::new(DIR), options).unwrap();
    let before = repo.refs();
    match take_in(&repo, dir, asked) {
        Ok(report) => {
            expect_whole(&repo, &report);
            let refs = repo.refs();
            let again = take_in(&repo, dir, asked).unwrap();
            assert_eq!((again.commits, again.new_bytes), (0, 0), "it adds something again");
            assert_eq!(repo.refs(), refs, "it changes something again");
        }
        Err(error) => {
            let kinds = [
                ErrorKind::InvalidInput,
                ErrorKind::Corrupt,
                ErrorKind::NotFound,
                ErrorKind::LimitExceeded,
                ErrorKind::Unsupported,
                ErrorKind::Ambiguous,
            ];
            assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
            assert_eq!(repo.refs(), before, "a trace of an error: {error}");
        }
    }
    let report = fsck(&repo, Thoroughness::Full, stamp(100).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:?}", report.findings);
}

fn take_in(repo: &Repository, dir: &Path, asked: &[String]) -> turntree::Result<GitImport> {
    let options = GitImportOptions {
        revisions: asked.to_vec(),
        session: "s".to_owned(),
        stamp: stamp(1),
        max_file_bytes: MAX_FILE_BYTES,
        switch: false,
    };
    import(repo, dir, &options, &mut |_, _| {})
}

/// Reads all imported content.
fn expect_whole(repo: &Repository, report: &GitImport) {
    for branch in &report.branches {
        assert_eq!(repo.tip(&branch.branch), Some(branch.head));
    }
    let tags = repo.tags().unwrap();
    for made in &report.tags {
        let tag = tags.iter().find(|tag| tag.name == made.tag).expect("a tag that was made");
        assert_eq!(tag.tag.target, made.commit);
    }
    let starts: Vec<ObjectId> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    let mut commits = 0;
    for entry in repo.history(&starts, &[]).unwrap() {
        let commit = entry.unwrap().commit;
        assert!(commit.metadata.contains_key("git-commit"));
        read_back(repo, &commit.tree);
        commits += 1;
    }
    assert_eq!(commits, report.commits, "a commit is lost");
}
