//! File systems that refuse writes: full, without inodes, and read-only. A small one in memory is
//! mounted for each, which needs root.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use turntree::ErrorKind;

use super::invariants::check_restored;
use super::processes::{Started, turntree};
use super::site::Site;
use super::{Effort, Figures};
use crate::claude_code;

/// A file system that is unmounted when dropped.
#[derive(Debug)]
struct Mounted(PathBuf);

impl Mounted {
    fn new(dir: &Path, options: &str) -> Result<Self, String> {
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        let options = CString::new(options).map_err(|error| error.to_string())?;
        mount("tmpfs", dir, "tmpfs", MountFlags::empty(), &*options)
            .map_err(|error| format!("mounting is not allowed: {error}"))?;
        Ok(Self(dir.to_owned()))
    }

    fn read_only(&self, yes: bool) {
        let flags = if yes { MountFlags::RDONLY } else { MountFlags::empty() };
        mount_remount(&self.0, flags, "").expect("a remount");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            eprintln!("unmount {}: {error}", self.0.display());
        }
    }
}

/// The free space for commits before the disk is full.
const LEFT_BYTES: u64 = 600 << 10;

/// The number of trials.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    refused: u64,
}

/// Fills a file system, one without inodes, and one that becomes read-only.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut tally = Tally::default();
    for round in 0..effort.scale {
        // The call that finds the disk full depends on its size, so each round uses another size.
        let size = format!("size={}k", 16_000 + 52 * round);
        for (options, trouble) in [
            (&*size, no_room as fn(&mut Site<'_>, &Mounted, &mut Tally)),
            ("nr_inodes=16,size=64m", no_inodes),
            ("size=64m", read_only),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mounted = match Mounted::new(&folder.path().join("disk"), options) {
                Ok(mounted) => mounted,
                Err(why) => return Figures::skipped(why),
            };
            let mut site = Site::new(effort, &mounted.0.join("store"));
            trouble(&mut site, &mounted, &mut tally);
            site.check();
            tally.acknowledged += site.promise.count();
        }
    }
    let mut figures = Figures::default();
    figures.add("file systems that refused", 3 * effort.scale);
    figures.add("commits acknowledged", tally.acknowledged);
    figures.add("of them lost", 0);
    figures.add("commands refused with an error", tally.refused);
    figures
}

/// Checks that a command that cannot write exits with 70 and gives the reason. If it could write,
/// it must succeed. Returns true if it was refused.
fn refused(site: &mut Site<'_>, words: &[&str], tally: &mut Tally) -> bool {
    let ended = site.run(words).expect(&[0, 70]);
    let is_refused = ended.code() == Some(70);
    if is_refused {
        assert!(ended.stderr.contains("error: "), "{}", ended.report());
        tally.refused += 1;
    }
    is_refused
}

/// Checks that reads work although writes fail.
fn reads_work(site: &Site<'_>, session: &str) {
    let turn = format!("{session}:scratchpad/turn");
    for words in [&["log", session][..], &["show", session], &["cat", &turn], &["fsck"]] {
        let _ = site.run(words).expect(&[0]);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let to = folder.path().join("restored");
    let _ = site.run(&["restore", session, "--to", &to.to_string_lossy()]).expect(&[0]);
    check_restored(&to);
}

fn no_room(site: &mut Site<'_>, mounted: &Mounted, tally: &mut Tally) {
    site.fill("one", 20);
    let _ = site.run(&["repack", "--tier", "hot"]).expect(&[0]);
    let writer = site.open();
    let ballast = mounted.0.join("ballast");
    let free = rustix::fs::statvfs(&mounted.0).map(|system| system.f_bavail * system.f_frsize);
    let all_but = free.expect("what is free") - LEFT_BYTES;
    fs::write(&ballast, vec![1; usize::try_from(all_but).expect("a size")]).expect("room for it");
    let transcript = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(transcript.path(), claude_code(40)).expect("a transcript");
    let transcript = transcript.path().to_string_lossy().into_owned();
    // Imports until the disk is full.
    let mut imported = Vec::new();
    for turn in 0.. {
        let session = format!("imported-{turn}");
        if !refused(site, &["import", &transcript, "--session", &session], tally) {
            imported.push(session);
        }
        let committed = site.commit(&writer, "one");
        if let Err(error) = &committed {
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
        let ended = site.snapshot().expect(&[0, 70]);
        tally.refused += u64::from(ended.code() == Some(70)) + u64::from(committed.is_err());
        if committed.is_err() && ended.code() == Some(70) {
            break;
        }
    }
    reads_work(site, "one");
    for words in [&["gc"][..], &["repack"], &["repack", "--archive"]] {
        let _ = refused(site, words, tally);
    }
    reads_work(site, "one");
    // A refresh closes the replaced files.
    let _ = writer.refresh();
    // The reserve is for this command.
    let forget = ["session", "forget", "--yes"].into_iter();
    let forget: Vec<&str> = forget.chain(imported.iter().map(String::as_str)).collect();
    let _ = site.run(&forget).expect(&[0]);
    reads_work(site, "one");
    fs::remove_file(&ballast).expect("room");
    site.commit(&writer, "one").expect("the same handle commits once there is room");
}

fn no_inodes(site: &mut Site<'_>, mounted: &Mounted, tally: &mut Tally) {
    site.fill("one", 20);
    let writers = [site.open(), site.open()];
    for writer in &writers {
        site.commit(writer, "one").expect("a commit");
    }
    let ballast: Vec<PathBuf> = (0..64).map(|n| mounted.0.join(format!("ballast-{n}"))).collect();
    let taken = ballast.iter().take_while(|path| fs::write(path, "").is_ok()).count();
    assert!(taken < ballast.len(), "inodes are not limited");
    // A writer with a segment continues. A writer that needs a new one gets an error.
    site.commit(&writers[0], "one").expect("a commit");
    let third = site.open();
    let refusal = site.commit(&third, "one").expect_err("there is no file for it");
    assert_eq!(refusal.kind(), ErrorKind::Io, "{refusal}");
    tally.refused += 1;
    for words in [&["gc"][..], &["repack"]] {
        let _ = refused(site, words, tally);
    }
    let _ = site.snapshot().expect(&[70]);
    reads_work(site, "one");
    ballast.iter().take(taken).for_each(|path| fs::remove_file(path).expect("inodes"));
    site.commit(&third, "one").expect("a commit");
}

fn read_only(site: &mut Site<'_>, mounted: &Mounted, tally: &mut Tally) {
    site.fill("one", 20);
    let _ = site.run(&["repack", "--tier", "hot"]).expect(&[0]);
    site.fill("one", 3);
    mounted.read_only(true);
    reads_work(site, "one");
    let transcript = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(transcript.path(), claude_code(4)).expect("a transcript");
    let transcript = transcript.path().to_string_lossy().into_owned();
    let writes = [
        &["gc"][..],
        &["repack"],
        &["import", &transcript, "--session", "imported"],
        &["fork", "branch", "one"],
        &["pin", "one"],
        &["redact", "no such words", "--yes"],
    ];
    for words in writes {
        let ended =
            Started::new(words.join(" "), &mut turntree(site.effort, &site.dir, words)).end();
        let says = ended.stderr.to_lowercase();
        // It may find nothing to redact.
        let told = ended.code() == Some(70) && says.contains("read-only");
        assert!(told || ended.code() == Some(1), "{}", ended.report());
        tally.refused += u64::from(told);
    }
    let _ = site.snapshot().expect(&[70]);
    mounted.read_only(false);
}
