//! Power cuts on the file systems of the kernel.
//!
//! ```text
//! store ── ext4, xfs, btrfs ── loop device ── a file in FUSE ── writes and flushes, in order
//!                                                               │
//! check ── ext4, xfs, btrfs ── loop device ── a file ◄── the last flush, and any part of the rest
//! ```
//!
//! The simulated disk of [`crate::sim`] models the freedoms of a file system. This layer
//! tests real ones: whether they make data durable that the store expects to be durable after an
//! `fsync`, and find it again. A [`device::Recorder`] records the writes to the disk while several
//! handles commit, collect and redact. Each handle notes the length of the recording after each
//! answer. Every image of that moment or a later one must have the acknowledged changes: it is
//! written to a file, mounted, so that the file system recovers first, and opened.
//!
//! Copying a disk during writes would not do: a copy takes time, so it can have a late write
//! without an early one that was flushed between the two, and no disk does that.
//!
//! The layer needs Linux, root, FUSE and loop devices, and is skipped if one is missing.

mod check;
pub mod device;
pub mod image;
pub mod mount;
mod workload;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use self::device::{DISK, Event, Recorder};
use self::image::{Cut, Image};
use self::mount::{FILE_SYSTEMS, FileSystem};
use self::workload::History;
use super::{Effort, Figures};
use crate::sim::Random;

/// Images of each file system at scale 1.
const IMAGES: u64 = 30;

/// The images of one recording. More images need another recording.
const IMAGES_OF_RECORDING: u64 = 120;

/// The path of the store in its file system.
const STORE: &str = "store";

/// A recording of one file system.
#[derive(Debug)]
pub struct Recording {
    /// The bytes of the disk before the first event.
    pub image: Image,
    /// The events of the disk, in order.
    pub events: Vec<Event>,
}

/// Cuts the power and checks the result; see the module.
///
/// # Panics
/// If an acknowledged change is lost, or a store is not sound.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut figures = Figures::default();
    let mut total = Tally::default();
    for kind in FILE_SYSTEMS {
        match cut_power(effort, kind) {
            Ok(tally) => {
                figures.add(&format!("images, {}", kind.name), &tally);
                total.add(&tally);
            }
            Err(why) => figures.add(&format!("skipped, {}", kind.name), why),
        }
    }
    if total.images == 0 {
        let why = figures.rows.into_iter().map(|(_, why)| why).collect::<HashSet<String>>();
        return Figures::skipped(why.into_iter().collect::<Vec<_>>().join("; "));
    }
    figures.add("images of power cuts", total.images);
    figures.add("of these different", total.distinct);
    figures.add("recorded writes", total.writes);
    figures.add("recorded flushes", total.flushes);
    figures.add("acknowledged changes checked", total.checked);
    figures.add("acknowledged changes lost", 0);
    figures
}

/// The number of trials and results.
#[derive(Debug, Default)]
struct Tally {
    images: u64,
    distinct: usize,
    writes: usize,
    flushes: usize,
    checked: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.images += other.images;
        self.distinct += other.distinct;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.checked += other.checked;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.images)
    }
}

/// Records the effects of `work` in a new file system until it is unmounted. `work` gets the mount
/// point and the recorder. The program `prove` serves the disk.
///
/// # Errors
/// In words, if this machine lacks a required part.
pub fn record<T>(
    prove: &Path,
    kind: &FileSystem,
    work: impl FnOnce(&Path, &Recorder) -> T,
) -> Result<(Recording, T), String> {
    let folder = folder()?;
    let [file, device, disk, notes] =
        ["file", "device", "disk", "notes"].map(|name| folder.path().join(name));
    for dir in [&device, &disk] {
        std::fs::create_dir(dir).map_err(|error| error.to_string())?;
    }
    kind.make(&file)?;
    let recorder = Recorder::start(prove, &file, &device, &notes)?;
    let mounted = kind.mount(&device.join(DISK), &disk)?;
    let done = catch_unwind(AssertUnwindSafe(|| work(&mounted.dir, &recorder)));
    drop(mounted);
    let events = recorder.finish(&notes);
    // Without its disk, `work` panics, and the disk's error is the cause.
    let done = match (done, &events) {
        (Ok(done), _) => done,
        (Err(_), Err(why)) => return Err(why.clone()),
        (Err(panic), Ok(_)) => resume_unwind(panic),
    };
    let image = Image::read(&file).map_err(|error| error.to_string())?;
    Ok((Recording { image, events: events? }, done))
}

/// A folder in memory if possible: nothing here must survive a real power cut.
fn folder() -> Result<tempfile::TempDir, String> {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).map_err(|error| error.to_string())
}

/// Makes images of power cuts and checks each. `Err` names the missing part of this machine.
fn cut_power(effort: &Effort, kind: &'static FileSystem) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let (mut images, mut seed) = (effort.scale * IMAGES, effort.seed << 8);
    while images > 0 {
        let count = images.min(IMAGES_OF_RECORDING);
        let prove = effort.programs.prove.clone();
        let checked = mount::isolated(move || {
            let recorded =
                record(&prove, kind, |disk, recorder| workload::run(kind, disk, recorder, seed));
            let (recording, history) = recorded?;
            Ok(check_images(kind, &recording, &history, count, seed))
        });
        tally.add(&checked?);
        images -= count;
        seed += 1;
    }
    Ok(tally)
}

/// Draws moments and cuts, and checks the image of each.
fn check_images(
    kind: &FileSystem,
    recording: &Recording,
    history: &History,
    count: u64,
    seed: u64,
) -> Tally {
    let events = &recording.events;
    let flushes = events.iter().filter(|event| matches!(event, Event::Flush)).count();
    let mut tally = Tally { flushes, writes: events.len() - flushes, ..Tally::default() };
    let mut random = Random(seed);
    let mut moments: Vec<usize> = (0..count).map(|_| history.moment(events, &mut random)).collect();
    moments.sort_unstable();
    let (mut flushed, mut done) = (recording.image.clone(), 0);
    let mut known = HashSet::new();
    for moment in moments {
        let cut = Cut::draw(events, moment, &mut random);
        for event in &events[done..cut.flushed] {
            if let Event::Write { offset, bytes } = event {
                flushed.put(*offset, bytes);
            }
        }
        done = cut.flushed;
        let mut image = flushed.clone();
        cut.apply(events, &mut image);
        let check = || check_image(kind, &image, history, moment);
        tally.checked += catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
            eprintln!("{}, power cut at {moment} of {}", kind.name, events.len());
            keep(&image);
            resume_unwind(panic)
        });
        tally.images += 1;
        tally.distinct += usize::from(known.insert(cut.fingerprint()));
    }
    tally
}

/// Mounts an image and checks the store on it. Returns the number of acknowledged changes found.
fn check_image(kind: &FileSystem, image: &Image, history: &History, moment: usize) -> u64 {
    let folder = folder().expect("a folder");
    let [file, disk] = ["file", "disk"].map(|name| folder.path().join(name));
    std::fs::create_dir(&disk).and_then(|()| image.write(&file)).expect("room for an image");
    let mounted = kind.mount(&file, &disk).expect("the file system is mounted again");
    check::check(&mounted.dir.join(STORE), history, moment)
}

/// Keeps an image that shows a broken promise: recordings are not reproducible, since threads race.
fn keep(image: &Image) {
    let kept = tempfile::Builder::new().prefix("power-cut-").disable_cleanup(true).tempfile();
    if let Ok(kept) = kept.map(|file| file.path().to_owned()) {
        eprintln!("the image is kept in {}: {:?}", kept.display(), image.write(&kept));
    }
}
