//! A changed file, and the invariants that a store must still satisfy.

use std::collections::BTreeMap;
use std::path::PathBuf;

use turntree::context::Builder;
use turntree::maintenance::{FsckKind, FsckReport, Loss, Purpose, collect, fsck, repair};
use turntree::object::{Kind, ObjectId, ObjectSource, RefValue};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{Io, Thoroughness};
use turntree::{Error, ErrorKind};

use super::{Change, FileKind, Trial};
use crate::sample::{Sample, asked_of_history, is_ids, try_open};
use crate::sim::{Keep, SimDisk};
use crate::stamp;

/// The effect of a change.
#[derive(Debug)]
pub(super) struct Outcome {
    /// True if a relevant byte changed: then the change was detected, by a finding or because the
    /// store does not open.
    pub(super) matters: bool,
    /// The number of unreadable objects.
    pub(super) lost: usize,
}

/// Applies the change, and asserts the invariants.
pub(super) fn run(trial: &Trial<'_>) -> Outcome {
    let disk = trial.sample.copy();
    trial.change.apply(&trial.path, &disk);
    let outcome = read(trial, &disk);
    if trial.goes_on {
        go_on(trial, &disk);
    }
    outcome
}

/// Reads everything and runs `fsck`.
fn read(trial: &Trial<'_>, disk: &SimDisk) -> Outcome {
    let (sample, is_mended) = (trial.sample, trial.is_mended());
    let before = disk.files();
    let matters = trial.kind.differs(&sample.disk.files()[&trial.path], before.get(&trial.path));
    let repo = match try_open(disk, 90) {
        Ok(repo) => repo,
        Err(error) => {
            assert_clear(trial, &error);
            let may_close = trial.kind == FileKind::Superblock || is_mended;
            assert!(may_close, "{trial:?} closes the store: {error}");
            return Outcome { matters, lost: sample.objects.len() };
        }
    };
    let refs = repo.refs();
    let lost = missing(sample, &repo).len();
    let report = check(&repo);
    let but_ids = |mut files: BTreeMap<PathBuf, Vec<u8>>| {
        files.retain(|path, _| !is_ids(path));
        files
    };
    assert!(but_ids(disk.files()) == but_ids(before), "{trial:?}: reading wrote something");
    let is_named = !report.findings.is_empty();
    if trial.kind == FileKind::HistoryIndex {
        assert_eq!(lost, 0, "{trial:?}: a derived file took objects away");
        // A forged index may give other answers if it is named.
        let may_lie = is_mended && is_named;
        let is_right = may_lie || asked_of_history(&repo) == trial.answers;
        assert!(is_right, "{trial:?}: wrong answers, in silence");
    }
    if trial.kind == FileKind::KeptIds {
        assert!(lost == 0 || is_mended && is_named, "{trial:?}: ids took objects away");
    }
    if !is_mended {
        let is_whole = lost == 0 && *refs == sample.refs;
        let behind = sample.refs.sequence.abs_diff(refs.sequence);
        let loss = format_args!("{lost} objects are lost, and {behind} operations");
        assert!(is_whole || is_named, "{trial:?}: {loss}, in silence");
        // A damaged last batch of a segment may be an unacknowledged one.
        let is_torn = report.is_ok() && lost > 0;
        assert!(
            !is_torn || trial.kind == FileKind::ActiveSegment,
            "{trial:?}: {loss}, called whole"
        );
        // The entries of the newest manifest may be recovered without it.
        let is_spared = is_whole && matches!(trial.change, Change::Remove);
        assert!(is_named || !matters || is_spared, "{trial:?} is not noticed");
    }
    Outcome { matters, lost }
}

/// Commits and repairs, in either order.
fn go_on(trial: &Trial<'_>, disk: &SimDisk) {
    let sample = trial.sample;
    let Ok(repo) = try_open(disk, 91) else { return };
    let (missing_before, refs_before) = (missing(sample, &repo), repo.refs());
    let mut committed = None;
    if trial.change.touches().is_none_or(|at| at % 2 == 0) {
        match commit(&repo) {
            Ok(id) => {
                drop(repo);
                assert_kept(trial, disk, id);
                committed = Some(id);
            }
            Err(error) => assert_clear(trial, &error),
        }
    }
    let repo = try_open(disk, 92).unwrap_or_else(|error| panic!("{trial:?} opens once: {error}"));
    let repaired = repair(&repo, Loss::Refuse, &stamp(100), &mut |_, _| {});
    let repaired = repaired.unwrap_or_else(|error| panic!("{trial:?}: no repair: {error}"));
    drop(repo);
    if !trial.is_mended() {
        let damaged = repaired.report.findings.iter().find(|f| f.kind == FsckKind::Damaged);
        assert_eq!(damaged, None, "{trial:?}: damaged after the repair");
    }
    if trial.kind == FileKind::HistoryIndex {
        assert_made_anew(trial, disk);
    }
    let repo =
        try_open(disk, 93).unwrap_or_else(|error| panic!("{trial:?}: closed by it: {error}"));
    let missing_after = missing(sample, &repo);
    let given_up = missing_after.iter().find(|id| !missing_before.contains(id));
    assert_eq!(given_up, None, "{trial:?}: the repair lost it");
    assert!(repo.refs().sequence >= refs_before.sequence, "{trial:?}: the repair moved refs back");
    match committed {
        Some(id) => assert_kept(trial, disk, id),
        None => match commit(&repo) {
            Ok(id) => assert_kept(trial, disk, id),
            Err(error) if trial.is_mended() => assert_clear(trial, &error),
            Err(error) => panic!("{trial:?}: no commit after the repair: {error}"),
        },
    }
}

/// Asserts that the next collection rebuilds a bad history index that was removed, as `fsck`
/// advises.
fn assert_made_anew(trial: &Trial<'_>, disk: &SimDisk) {
    let repo = try_open(disk, 95).unwrap_or_else(|error| panic!("{trial:?}: {error}"));
    if !check(&repo).findings.is_empty() {
        disk.remove(&trial.path).expect("the file of a trial");
    }
    collect(&repo, Purpose::Gc, &stamp(101), &mut |_| {})
        .unwrap_or_else(|error| panic!("{trial:?}: no collection: {error}"));
    let repo = try_open(disk, 96).unwrap_or_else(|error| panic!("{trial:?}: {error}"));
    assert_eq!(asked_of_history(&repo), trial.answers, "{trial:?}: after a collection");
    assert!(check(&repo).findings.is_empty(), "{trial:?}: after a collection");
}

/// The objects of the sample that cannot be read. Each is read alone and together with the others.
fn missing(sample: &Sample, repo: &Repository) -> Vec<ObjectId> {
    for kind in [Kind::Blob, Kind::Node, Kind::Commit, Kind::Operation] {
        let of_kind: Vec<ObjectId> =
            sample.kinds.iter().filter(|(_, of)| **of == kind).map(|(id, _)| *id).collect();
        if let Ok(all) = repo.read_all(kind, &of_kind) {
            for (id, bytes) in of_kind.iter().zip(all) {
                assert_eq!(bytes, sample.objects[id], "wrong bytes for {id}");
            }
        }
    }
    sample.missing(repo)
}

fn check(repo: &Repository) -> FsckReport {
    fsck(repo, Thoroughness::Full, stamp(60).time, &mut |_, _| {})
        .expect("damage is reported, and ends no check")
}

/// Commits a turn of a new session, which needs no existing object.
fn commit(repo: &Repository) -> turntree::Result<ObjectId> {
    let mut change = repo.begin();
    let mut builder = Builder::new();
    builder.set_entry(&mut change, "scratchpad", "after", Some("the turn after".into()))?;
    let tree = builder.write(&mut change)?;
    let snapshot = SnapshotDraft::new(tree, "after", &stamp(99));
    let id = change.snapshot(&BranchName::main("after")?, snapshot)?;
    change.commit(&stamp(99), "snapshot")?;
    Ok(id)
}

/// Asserts that an acknowledged commit exists, also after a crash.
fn assert_kept(trial: &Trial<'_>, disk: &SimDisk, id: ObjectId) {
    for disk in [disk, &disk.crash(Keep::Nothing)] {
        let repo = try_open(disk, 94).unwrap_or_else(|error| panic!("{trial:?}: {error}"));
        let value = repo.refs().value("refs/heads/after/main").cloned();
        assert_eq!(value, Some(RefValue::Object(id)), "{trial:?}: an acknowledged commit is lost");
        let context = repo.context(&id).and_then(|context| {
            let map = context.map(&repo, "scratchpad")?;
            map.get(&repo, b"after")
        });
        let entry = context.unwrap_or_else(|error| panic!("{trial:?}: {error}"));
        let blob = entry.unwrap_or_else(|| panic!("{trial:?}: its entry is lost")).link.id;
        assert_eq!(repo.read_as(Kind::Blob, &blob).unwrap(), "the turn after");
    }
}

/// Asserts that an error names the problem and the file.
fn assert_clear(trial: &Trial<'_>, error: &Error) {
    let kinds = [ErrorKind::Corrupt, ErrorKind::Unsupported, ErrorKind::NotFound];
    assert!(kinds.contains(&error.kind()), "{trial:?}: {:?}: {error}", error.kind());
    let names_it = error.to_string().contains("/disk/store") || error.to_string().len() > 20;
    assert!(names_it, "{trial:?}: {error}");
}

impl Trial<'_> {
    /// True if checksums were recomputed, so that bytes may have any content.
    fn is_mended(&self) -> bool {
        matches!(self.change, Change::Mended(_))
    }
}
