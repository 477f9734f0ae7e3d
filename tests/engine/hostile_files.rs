//! Special files in place of the files of a store: no call blocks, and nothing outside the store is
//! read or changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::maintenance::{Loss, Purpose, collect, fsck, repair};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{OpenOptions, RealIo, Thoroughness, Tier};
use turntree_tests::{Sandbox, claude_code, stamp};

/// The time limit of calls that must not block: it detects a hang, not a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An entry that replaces a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    Directory,
    Pipe,
    LinkToItself,
    /// A link to the file, which was moved out of the store.
    LinkOut,
    LinkToDevice,
    Device,
}

const THINGS: [Thing; 6] = [
    Thing::Directory,
    Thing::Pipe,
    Thing::LinkToItself,
    Thing::LinkOut,
    Thing::LinkToDevice,
    Thing::Device,
];

impl Thing {
    /// Replaces `path`. Returns false if the machine does not allow it.
    fn replace(self, path: &Path, outside: &Path) -> bool {
        let done = |command: &mut Command| command.status().is_ok_and(|status| status.success());
        match self {
            Self::LinkOut => fs::rename(path, outside).unwrap(),
            _ => fs::remove_file(path).unwrap(),
        }
        match self {
            Self::Directory => fs::create_dir(path).unwrap(),
            Self::Pipe => return done(Command::new("mkfifo").arg(path)),
            Self::LinkToItself => symlink(path, path).unwrap(),
            Self::LinkOut => symlink(outside, path).unwrap(),
            Self::LinkToDevice => symlink("/dev/zero", path).unwrap(),
            Self::Device => return done(Command::new("mknod").arg(path).args(["c", "1", "5"])),
        }
        true
    }
}

/// A store with a pack, a manifest and a segment, none of them open.
fn new_store() -> (Sandbox, Vec<PathBuf>) {
    let sandbox = Sandbox::new();
    sandbox.import("first", claude_code(3).as_bytes()).unwrap();
    collect(&sandbox.repo, Purpose::Repack(Tier::Compacted), &stamp(2), &mut |_| {}).unwrap();
    sandbox.import("second", claude_code(5).as_bytes()).unwrap();
    let folders = [
        sandbox.store_dir(),
        sandbox.store_dir().join("journal"),
        sandbox.store_dir().join("packs"),
    ];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    (sandbox, files)
}

/// Uses a store in every way. Returns the errors.
fn use_store(dir: &Path) -> Vec<turntree::Error> {
    let mut errors = Vec::new();
    let repo = match Repository::open(std::sync::Arc::new(RealIo), dir, OpenOptions::new([9; 16])) {
        Ok(repo) => repo,
        Err(error) => return vec![error],
    };
    for session in ["first", "second"] {
        let read = repo.resolve(session).and_then(|revision| {
            let context = repo.context(&revision.commit)?;
            turntree::context::export_source(&repo, &context, &mut Vec::new())
        });
        errors.extend(read.err());
    }
    errors.extend(fsck(&repo, Thoroughness::Full, stamp(9).time, &mut |_, _| {}).err());
    errors.extend(commit(&repo).err());
    errors.extend(collect(&repo, Purpose::Gc, &stamp(9), &mut |_| {}).err());
    errors.extend(repair(&repo, Loss::Refuse, &stamp(9), &mut |_, _| {}).err());
    errors
}

fn commit(repo: &Repository) -> turntree::Result<()> {
    let (mut change, mut builder) = (repo.begin(), Builder::new());
    builder.set_entry(&mut change, "scratchpad", "key", Some("text".into()))?;
    let tree = builder.write(&mut change)?;
    let snapshot = SnapshotDraft::new(tree, "a turn", &stamp(8));
    change.snapshot(&BranchName::main("third")?, snapshot)?;
    change.commit(&stamp(8), "snapshot").map(drop)
}

#[test]
fn special_files_in_a_store_are_not_opened() {
    let (_, files) = new_store();
    for number in 0..files.len() {
        for thing in THINGS {
            let (sandbox, files) = new_store();
            let (dir, path) = (sandbox.store_dir(), files[number].clone());
            let outside = sandbox.folder().join("outside");
            let before = fs::read(&path).unwrap();
            drop(sandbox.repo);
            if !thing.replace(&path, &outside) {
                continue;
            }
            let (done, result) = mpsc::channel();
            let folder = dir.clone();
            thread::spawn(move || done.send(use_store(&folder)));
            let what = format!("{thing:?} instead of {}", path.display());
            let errors = result.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: hangs"));
            for error in errors {
                let is_known = matches!(
                    error.kind(),
                    ErrorKind::Corrupt
                        | ErrorKind::Io
                        | ErrorKind::NotFound
                        | ErrorKind::InvalidInput
                );
                assert!(is_known, "{what}: {:?}: {error}", error.kind());
            }
            if thing == Thing::LinkOut {
                assert!(
                    fs::read(&outside).unwrap() == before,
                    "{what}: a file outside was changed"
                );
            }
        }
    }
}

#[test]
fn store_folders_may_be_links() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.folder().join("elsewhere");
    fs::rename(sandbox.store_dir().join("packs"), &elsewhere).unwrap();
    symlink(&elsewhere, sandbox.store_dir().join("packs")).unwrap();
    sandbox.import("first", claude_code(3).as_bytes()).unwrap();
    collect(&sandbox.repo, Purpose::Repack(Tier::Hot), &stamp(2), &mut |_| {}).unwrap();
    let report = fsck(&sandbox.reopened(), Thoroughness::Full, stamp(3).time, &mut |_, _| {});
    assert_eq!(report.unwrap().findings, []);
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 1);
}
