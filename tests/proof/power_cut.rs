//! Acknowledged changes exist after a power cut, on the file systems of the kernel.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use turntree_tests::proof::power::device::Event;
use turntree_tests::proof::power::mount::{FILE_SYSTEMS, isolated};
use turntree_tests::proof::power::{self, record};
use turntree_tests::proof::{Effort, Programs};

const PROVE: &str = env!("CARGO_BIN_EXE_prove");

#[test]
fn nothing_acknowledged_is_lost_in_a_power_cut() {
    let programs = Programs { turntree: PathBuf::new(), prove: PathBuf::from(PROVE) };
    let figures = power::run(&Effort { scale: 1, seed: 1, programs });
    println!("{figures:#?}");
}

/// Runs in a private mount namespace, or prints why that is impossible.
fn with_recorded_disk(work: impl FnOnce() -> Result<(), String> + Send + 'static) {
    if let Err(why) = isolated(work) {
        println!("skipped: {why}");
    }
}

fn write(path: &Path, bytes: &[u8]) -> File {
    let mut file = File::create_new(path).unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_sync_in_the_file_system_is_a_flush_of_the_disk() {
    with_recorded_disk(|| {
        for kind in FILE_SYSTEMS {
            let (recording, (before, after)) = record(Path::new(PROVE), kind, |dir, recorder| {
                let file = write(&dir.join("file"), b"text");
                let before = recorder.position();
                file.sync_data().unwrap();
                (before, recorder.position())
            })?;
            let during = &recording.events[before..after];
            assert!(matches!(during.last(), Some(Event::Flush)), "{}: {during:?}", kind.name);
        }
        Ok(())
    });
}

#[test]
fn what_was_not_synced_need_not_survive_and_what_was_does() {
    with_recorded_disk(|| {
        for kind in FILE_SYSTEMS {
            let (recording, synced) = record(Path::new(PROVE), kind, |dir, recorder| {
                write(&dir.join("synced"), b"text").sync_all().unwrap();
                File::open(dir).unwrap().sync_all().unwrap();
                let synced = recorder.position();
                drop(write(&dir.join("unsynced"), b"text"));
                synced
            })?;
            let folder = tempfile::tempdir().unwrap();
            let (file, disk) = (folder.path().join("file"), folder.path().join("disk"));
            std::fs::create_dir(&disk).unwrap();
            let mut image = recording.image;
            for event in &recording.events[..synced] {
                if let Event::Write { offset, bytes } = event {
                    image.put(*offset, bytes);
                }
            }
            image.write(&file).unwrap();
            let mounted = kind.mount(&file, &disk).unwrap();
            assert_eq!(std::fs::read(mounted.dir.join("synced")).unwrap(), b"text");
            assert!(!mounted.dir.join("unsynced").exists(), "{}", kind.name);
        }
        Ok(())
    });
}
