//! Hostile bytes: damaged and forged files of a store.
//!
//! Small stores with every kind of file are damaged in every way in [`Change`], one at a time: each
//! byte changed, the file cut at each length, sectors lost, parts of one file in another, files of
//! other stores. An attacker recomputes the checksums of a changed file.
//! `trial.rs` asserts each time: wrong bytes are never returned, losses are named, a repair loses
//! nothing, and a commit is kept or refused.

mod change;
mod trial;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub use change::Change;

use self::trial::Outcome;
use super::{Effort, Figures};
use crate::sample::{Sample, asked_of_history, open, remove_ids, used};

/// At scale 1, one of this many trials continues with a commit and a repair.
const GO_ON_EVERY: u64 = 8;

/// A file of a store, by its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// The superblock.
    Superblock,
    /// The current manifest.
    Manifest,
    /// The manifest before it, which is read if the newest does not verify.
    OldManifest,
    /// A segment that the manifest lists.
    SealedSegment,
    /// A segment that may grow.
    ActiveSegment,
    /// A pack.
    Pack,
    /// A pack with a blob in parts.
    PackWithParts,
    /// A history index next to a pack.
    HistoryIndex,
    /// An archive without ids.
    PackWithoutIds,
    /// An archive without ids that has an `.ids` file.
    PackWithKeptIds,
    /// The `.ids` file of the archive.
    KeptIds,
}

/// A change of one file of a sample.
struct Trial<'a> {
    sample: &'a Sample,
    kind: FileKind,
    path: PathBuf,
    change: Change,
    /// True if a commit and a repair follow.
    goes_on: bool,
    /// The answers from the history of the sample, if it has an index.
    answers: &'a [String],
}

impl fmt::Debug for Trial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}", self.path.display(), self.change)
    }
}

/// The trials on files of one kind, and their results.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    flipped: u64,
    other: u64,
    mended: u64,
    harmless: u64,
    lost_by_a_flip: usize,
    gone_on: u64,
}

/// Damages files in every way, and asserts that nothing wrong is returned and nothing is lost
/// silently. At scale 1 every fourth byte is changed, selected by the seed; from scale 4 on every
/// byte, and from scale 10 on every bit.
/// from scale 4 on, and every bit from scale 10 on.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let small = (Sample::small(6), Sample::small(7), None);
    let with_parts = (Sample::with_parts(), Sample::small(7), Some(FileKind::PackWithParts));
    let with_history =
        (Sample::with_history(6), Sample::with_history(7), Some(FileKind::HistoryIndex));
    let answers = asked_of_history(&open(&with_history.0.disk, 89));
    let [without, beside, kept] =
        [(); 3].map(|()| (Sample::without_ids(6), Sample::without_ids(7)));
    remove_ids(&without.0.disk);
    let samples = [
        small,
        with_parts,
        with_history,
        (without.0, without.1, Some(FileKind::PackWithoutIds)),
        (beside.0, beside.1, Some(FileKind::PackWithKeptIds)),
        (kept.0, kept.1, Some(FileKind::KeptIds)),
    ];
    let mut trials = Vec::new();
    for (sample, foreign, only) in &samples {
        for (kind, path) in targets(sample, *only) {
            let answers: &[String] = if kind == FileKind::HistoryIndex { &answers } else { &[] };
            let changes = change::all(effort, kind, &path, &sample.disk, &foreign.disk);
            let trial = |change| {
                let path = path.clone();
                Trial { sample, kind, path, change, goes_on: false, answers }
            };
            trials.extend(changes.into_iter().map(trial));
        }
    }
    for (number, trial) in trials.iter_mut().enumerate() {
        trial.goes_on = (number as u64).is_multiple_of((GO_ON_EVERY / effort.scale).max(1));
    }
    figures(&run_all(&trials))
}

/// Runs trials on all processors.
fn run_all(trials: &[Trial<'_>]) -> BTreeMap<FileKind, Tally> {
    let (next, tallies) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = trial::run(trial);
                    let mut tallies = tallies.lock().unwrap();
                    let tally: &mut Tally = tallies.entry(trial.kind).or_default();
                    tally.add(trial, &outcome);
                }
            });
        }
    });
    tallies.into_inner().unwrap()
}

impl Tally {
    fn add(&mut self, trial: &Trial<'_>, outcome: &Outcome) {
        match &trial.change {
            Change::Mended(_) => self.mended += 1,
            _ if !outcome.matters => self.harmless += 1,
            Change::Flip { .. } => {
                self.flipped += 1;
                self.lost_by_a_flip = self.lost_by_a_flip.max(outcome.lost);
            }
            _ => self.other += 1,
        }
        self.gone_on += u64::from(trial.goes_on);
    }
}

fn figures(tallies: &BTreeMap<FileKind, Tally>) -> Figures {
    let mut figures = Figures::default();
    for (kind, tally) in tallies {
        let name = kind.name();
        // Each trial asserts that relevant damage is named.
        let all_named = |count: u64| format!("{count}, all named");
        figures.add(&format!("{name}: bytes flipped"), all_named(tally.flipped));
        figures.add(&format!("{name}: cuts, splices and others"), all_named(tally.other));
        figures.add(&format!("{name}: harmless changes"), tally.harmless);
        figures.add(&format!("{name}: with checksums made good"), tally.mended);
        let lost = match kind {
            FileKind::Superblock => "closed".to_owned(),
            _ => tally.lost_by_a_flip.to_string(),
        };
        figures.add(&format!("{name}: objects lost by a flip, at most"), lost);
    }
    let sum = |of: fn(&Tally) -> u64| tallies.values().map(of).sum::<u64>();
    figures.add("changed files tried", sum(|t| t.flipped + t.other + t.harmless + t.mended));
    figures.add("with a commit and a repair behind it", sum(|t| t.gone_on));
    // Each of these would have failed the layer.
    figures.add("wrong reads", 0);
    figures.add("panics", 0);
    figures.add("acknowledged commits lost", 0);
    figures
}

impl FileKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Manifest => "manifest",
            Self::OldManifest => "manifest before it",
            Self::SealedSegment => "sealed segment",
            Self::ActiveSegment => "active segment",
            Self::Pack => "pack",
            Self::PackWithParts => "pack with parts",
            Self::HistoryIndex => "history index",
            Self::PackWithoutIds => "archive without ids",
            Self::PackWithKeptIds => "archive without ids, in a file next to it",
            Self::KeptIds => "ids beside an archive",
        }
    }

    /// True for a pack that has its own sample.
    const fn is_pack(self) -> bool {
        matches!(self, Self::PackWithParts | Self::PackWithoutIds | Self::PackWithKeptIds)
    }

    /// True if a relevant part of the file differs. Changes of the rest are not damage.
    fn differs(self, old: &[u8], new: Option<&Vec<u8>>) -> bool {
        let relevant = match self {
            // The rest is the epoch, which tells open handles that files were deleted. No handle is
            // open here.
            Self::Superblock => change::SUPERBLOCK_BYTES,
            // Read only if the newest manifest does not verify.
            Self::OldManifest => return false,
            // A reader rebuilds an invalid file.
            Self::KeptIds => return false,
            // No reader reads past the index.
            Self::SealedSegment => used(old),
            Self::Manifest
            | Self::ActiveSegment
            | Self::Pack
            | Self::PackWithParts
            | Self::PackWithoutIds
            | Self::PackWithKeptIds
            | Self::HistoryIndex => {
                return new.is_none_or(|new| new != old);
            }
        };
        new.is_none_or(|new| new.get(..relevant) != old.get(..relevant))
    }
}

/// The files of a sample to damage: one of each kind and length, or only the file that other
/// samples lack.
fn targets(sample: &Sample, only: Option<FileKind>) -> Vec<(FileKind, PathBuf)> {
    let files = sample.disk.files();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let newest = files.keys().rfind(|path| name(path).starts_with("manifest-")).unwrap();
    let mut lengths = Vec::new();
    let mut targets = Vec::new();
    for (path, bytes) in &files {
        let kind = match path.extension().and_then(|extension| extension.to_str()) {
            Some("seg") => {
                let id = bytes.get(16..32).unwrap();
                match files[newest].windows(16).any(|listed| listed == id) {
                    true => FileKind::SealedSegment,
                    false => FileKind::ActiveSegment,
                }
            }
            Some("changes") => FileKind::HistoryIndex,
            Some("ids") => FileKind::KeptIds,
            Some("pack") => only.filter(|only| only.is_pack()).unwrap_or(FileKind::Pack),
            _ if path == newest => FileKind::Manifest,
            _ if name(path).starts_with("manifest-") => FileKind::OldManifest,
            _ if name(path) == "superblock" => FileKind::Superblock,
            // The file `collector` is empty: only its lock is used.
            _ => continue,
        };
        let is_like_another = lengths.contains(&(kind, bytes.len()));
        lengths.push((kind, bytes.len()));
        let is_repeated = only.is_some_and(|only| kind != only);
        if !is_like_another && !is_repeated {
            targets.push((kind, path.clone()));
        }
    }
    targets
}
