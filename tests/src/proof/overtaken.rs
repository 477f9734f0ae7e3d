//! A part of the kill stress: a long capture is stopped while other processes commit, collect, and
//! leave more idle segments than stay idle. Then it continues with its old view.
//!
//! The point where it stops is not random: it has opened the store, since it has a file of the
//! workspace open, and must read many more before it looks for a segment. Nor is the number of
//! segments: writers end only after all of them have committed, each to its own segment.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::processes::{Started, worker};
use super::site::Site;
use super::{Effort, Figures, Repeat};

/// Small files that are captured.
const FILES: usize = 3000;

/// The writers before and after a collection: more than the segments that stay idle.
const BEFORE: usize = 4;
const BEHIND: usize = 12;

/// The commands that collect while a capture is stopped, and the commands that collect again after
/// the writers. Each pair gets its own store.
const COLLECTIONS: [(&[&str], Option<&[&str]>); 4] = [
    (&["repack"], None),
    (&["gc"], Some(&["gc", "--auto"])),
    (&["repack", "--tier", "hot"], None),
    (&["gc", "--auto"], Some(&["repack"])),
];

/// How long a capture runs between two checks.
const PAUSE: Duration = Duration::from_micros(300);

/// Stops captures, and adds the results.
///
/// # Panics
/// If a promise is broken.
pub fn run(effort: &Effort, figures: &mut Figures) {
    let mut stopped = 0;
    let mut writers = 0;
    for _ in 0..effort.scale {
        for (collects, again) in COLLECTIONS {
            let _repeat = Repeat(format!("a capture that is stopped during {collects:?}"));
            let folder = tempfile::tempdir().expect("a temporary folder");
            stopped += u64::from(trial(effort, folder.path(), collects, again));
            writers += BEFORE + BEHIND * (1 + usize::from(again.is_some()));
        }
    }
    figures.add("captures stopped over a collection", stopped);
    figures.add("writers during it", writers);
}

/// One store and one capture. Returns true if the capture was stopped before it had read
/// everything.
fn trial(effort: &Effort, folder: &Path, collects: &[&str], again: Option<&[&str]>) -> bool {
    let mut site = Site::new(effort, &folder.join("store"));
    site.fill("before", 3);
    let workspace = folder.join("workspace");
    fs::create_dir(&workspace).expect("a folder");
    for file in 0..FILES {
        fs::write(workspace.join(format!("{file}.txt")), file.to_string()).expect("a file");
    }
    let path = workspace.to_string_lossy().into_owned();
    let words = ["snapshot", "-m", "all", "--workspace", &path, "--session", "long", "--json"];
    let mut capture = site.start(&words);
    let is_stopped = stop(&mut capture, &workspace);
    crowd(&mut site, BEFORE);
    // An automatic step may have nothing to do.
    let _ = site.run(collects).expect(&[0]);
    crowd(&mut site, BEHIND);
    if let Some(again) = again {
        let _ = site.run(again).expect(&[0]);
        crowd(&mut site, BEHIND);
    }
    capture.signal(Signal::CONT);
    let captured = capture.end().expect(&[0]);
    let id = captured.field("id").parse().expect("an id");
    site.promise.forks.insert("long/main".into(), id);
    site.check();
    is_stopped
}

/// Stops a capture when it has a file of the workspace open. Returns false if it has ended.
fn stop(capture: &mut Started, workspace: &Path) -> bool {
    loop {
        capture.signal(Signal::STOP);
        if !capture.wait_until_stopped() {
            return false;
        }
        if has_open(capture.pid(), workspace) {
            return true;
        }
        capture.signal(Signal::CONT);
        thread::sleep(PAUSE);
    }
}

/// True if a process has a file in a folder open, or if the system cannot tell.
fn has_open(process: Pid, folder: &Path) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{}/fd", process.as_raw_pid())) else { return true };
    let mut paths = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    paths.any(|path| path.starts_with(folder))
}

/// Writers that commit one turn each and end when all have, so each has its own segment.
fn crowd(site: &mut Site<'_>, count: usize) {
    let mut writers = Vec::new();
    for _ in 0..count {
        let seed = site.serial().0.to_string();
        let words = [&*seed, &format!("crowd-{seed}/main")];
        let mut command = worker(site.effort, &site.dir, "stays", &words);
        let mut writer = Started::new(format!("writer {seed}"), &mut command);
        assert!(writer.wait_until_stopped(), "{}", writer.end().report());
        writers.push(writer);
    }
    for mut writer in writers {
        writer.signal(Signal::CONT);
        let ended = writer.end().expect(&[0]);
        for line in String::from_utf8_lossy(&ended.stdout).lines() {
            site.promise.add(line.parse().expect("a line of a worker"));
        }
    }
}
