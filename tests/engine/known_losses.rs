//! An accepted loss is a known hole: collections continue around it and free nothing because of it,
//! and a read of it is an error.

use std::collections::BTreeSet;

use turntree::ErrorKind;
use turntree::maintenance::{
    FsckKind, FsckReport, Loss, Pattern, Purpose, Repaired, collect, fsck, plan_collection, redact,
    repair, stats,
};
use turntree::object::{Kind, Object, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository};
use turntree::store::{Expected, FileReplacement, KNOWN_LOSSES_REF, Thoroughness, Tier};
use turntree_tests::oracle::set;
use turntree_tests::sample::{Sample, open};
use turntree_tests::sim::SimDisk;
use turntree_tests::stamp;

use crate::search_contents::expect_same;

/// More operations than the log keeps by number, and a time by which older ones have expired by
/// age.
const MANY_OPERATIONS: usize = 110;
const LATER: i64 = 100 * 24 * 60 * 60;

/// Removes objects from a store, like a repair that cannot read them.
fn lose(disk: &SimDisk, ids: &[ObjectId]) {
    let repo = open(disk, 90);
    let collection = repo.store().collect().unwrap();
    let inventory = collection.inventory();
    let files: Vec<usize> = (0..inventory.files().len()).collect();
    assert!(inventory.files().iter().all(|file| file.replaceable));
    let entries = (0..inventory.positions()).filter_map(|at| inventory.entry(at));
    let mut seen: BTreeSet<ObjectId> = ids.iter().copied().collect();
    let chosen = entries.filter(|entry| seen.insert(entry.id));
    let item = |entry: turntree::store::InventoryEntry| turntree::store::PackItem {
        id: entry.id,
        kind: entry.kind,
        placement: 0,
        cohort: 0,
    };
    let mut items: Vec<_> = chosen.map(item).collect();
    items.sort_by_key(|item| item.kind);
    let mut gone: Vec<_> = files.iter().flat_map(|file| inventory.tombstones_in(*file)).collect();
    gone.sort_by_key(|(id, ..)| *id);
    gone.dedup_by_key(|(id, ..)| *id);
    let replacement = FileReplacement { files, items, gone, tier: Tier::Compacted };
    collection.replace(&replacement, &mut |_| Ok(Vec::new())).unwrap();
}

fn accept(disk: &SimDisk) -> Repaired {
    accept_as(disk, 70)
}

/// Repairs with another seed each time: no new segment gets the id of a retired one.
fn accept_as(disk: &SimDisk, seed: u8) -> Repaired {
    repair(&open(disk, seed), Loss::Accept, &stamp(61), &mut |_, _| {}).unwrap()
}

fn check(disk: &SimDisk, second: i64) -> FsckReport {
    let repo = open(disk, 71);
    fsck(&repo, Thoroughness::Full, stamp(second).time, &mut |_, _| {}).unwrap()
}

fn gc(disk: &SimDisk, purpose: Purpose, second: i64) -> turntree::Result<()> {
    collect(&open(disk, 72), purpose, &stamp(second), &mut |_| {}).map(drop)
}

/// The readable objects of the sample, without operations.
fn readable(sample: &Sample, disk: &SimDisk) -> BTreeSet<ObjectId> {
    let repo = open(disk, 73);
    let there = sample.kinds.iter().filter(|(_, kind)| **kind != Kind::Operation);
    let there = there.filter(|(id, _)| repo.read(id).is_ok_and(|o| o.is_some()));
    there.map(|(id, _)| *id).collect()
}

/// Commits enough operations that no earlier one is kept, and collects.
fn grow_old(disk: &SimDisk) {
    let repo = open(disk, 74);
    let tip = repo.resolve("two").unwrap().commit;
    let name: BranchName = "two/swings".parse().unwrap();
    for number in 0..MANY_OPERATIONS {
        let mut change = repo.begin();
        change.move_branch(&name, (number % 2 == 0).then_some(tip));
        change.commit(&stamp(LATER), "swing").unwrap();
    }
    drop(repo);
    gc(disk, Purpose::Gc, LATER).unwrap();
}

/// The root of the context of a commit.
fn tree(repo: &Repository, spec: &str) -> ObjectId {
    repo.commit(&repo.resolve(spec).unwrap().commit).unwrap().tree
}

/// The objects that only the context of this commit has, children last.
fn own(repo: &Repository, sample: &Sample, spec: &str) -> Vec<ObjectId> {
    let below = |root: ObjectId| {
        let (mut open, mut all) = (vec![root], Vec::new());
        while let Some(id) = open.pop() {
            all.push(id);
            if sample.kinds[&id] == Kind::Node {
                let bytes = sample.objects[&id].clone();
                let object = Object { kind: Kind::Node, bytes };
                open.extend(turntree::repo::links(&object).unwrap().iter().map(|link| link.id));
            }
        }
        all
    };
    let others: BTreeSet<ObjectId> = ["~1", "~-1"]
        .iter()
        .filter_map(|way| {
            let number: u64 = repo.commit(&repo.resolve(spec).unwrap().commit).unwrap().turn;
            let other = if *way == "~1" { number - 1 } else { number + 1 };
            repo.resolve(&format!("two^{{turn:{other}}}")).ok()
        })
        .flat_map(|other| below(repo.commit(&other.commit).unwrap().tree))
        .collect();
    below(tree(repo, spec)).into_iter().filter(|id| !others.contains(id)).collect()
}

/// Objects of every kind and in every file, to be lost one at a time.
fn victims(sample: &Sample) -> Vec<(String, Vec<ObjectId>)> {
    let repo = open(&sample.disk, 75);
    let commit = |spec: &str| repo.resolve(spec).unwrap().commit;
    let mut victims = vec![
        ("the commit of an old turn".to_owned(), vec![commit("two~9")]),
        ("the commits of two turns in a row".into(), vec![commit("two~9"), commit("two~10")]),
        ("the commit of the newest turn".into(), vec![commit("two")]),
        ("the first commit".into(), vec![commit("two^{turn:1}")]),
        ("the context of an old turn".into(), vec![tree(&repo, "two~9")]),
        ("the context of the newest turn".into(), vec![tree(&repo, "two")]),
        ("the context of a pinned turn".into(), vec![tree(&repo, "one/fork")]),
    ];
    let own = own(&repo, sample, "two~9");
    assert!(own.len() > 2, "{own:?}");
    for id in own.iter().skip(1) {
        victims.push((format!("a {} of an old turn", sample.kinds[id]), vec![*id]));
    }
    let operations: Vec<_> =
        repo.operations().map(|operation| operation.unwrap().id).skip(3).step_by(9).collect();
    victims.push(("operations".to_owned(), operations));
    victims
}

#[test]
fn searches_report_accepted_losses() {
    let sample = Sample::new();
    let mut told = 0;
    for (_, ids) in victims(&sample) {
        let disk = sample.copy();
        lose(&disk, &ids);
        accept(&disk);
        let open = || Ok(open(&disk, 91));
        for text in ["quizzical", "one", "two"] {
            let answer = expect_same(&open, text);
            told += usize::from(answer.is_some_and(|(found, d)| found == 0 && !d.is_empty()));
        }
    }
    assert!(told > 2, "{told}");
}

#[test]
fn collections_keep_everything_reachable_around_a_hole() {
    let sample = Sample::new();
    let whole = sample.copy();
    gc(&whole, Purpose::Gc, 62).unwrap();
    grow_old(&whole);
    let stays = readable(&sample, &whole);
    for (what, ids) in victims(&sample) {
        let disk = sample.copy();
        lose(&disk, &ids);
        accept(&disk);
        let report = check(&disk, 61);
        assert!(report.is_ok(), "{what}: {:#?}", report.findings);
        let before = readable(&sample, &disk);
        for purpose in [Purpose::Gc, Purpose::Step, Purpose::Repack(Tier::Archive)] {
            gc(&disk, purpose, 62).unwrap_or_else(|error| panic!("{what}: {purpose:?}: {error}"));
        }
        assert!(check(&disk, 62).is_ok(), "{what}");
        stats(&open(&disk, 76), None, stamp(62).time).unwrap();
        grow_old(&disk);
        let report = check(&disk, LATER);
        assert!(report.is_ok(), "{what}: {:#?}", report.findings);
        let left = readable(&sample, &disk);
        let taken: Vec<_> = stays.intersection(&before).filter(|id| !left.contains(id)).collect();
        let kinds: Vec<Kind> = taken.iter().map(|id| sample.kinds[id]).collect();
        assert!(taken.is_empty(), "{what}: {kinds:?} went");
    }
}

#[test]
fn unaccepted_losses_stop_collections_and_are_not_expired() {
    let sample = Sample::new();
    for (what, ids) in victims(&sample) {
        if ids.iter().any(|id| sample.kinds[id] == Kind::Operation) {
            continue;
        }
        let disk = sample.copy();
        lose(&disk, &ids);
        let before = disk.files();
        for purpose in [Purpose::Gc, Purpose::Step, Purpose::Repack(Tier::Compacted)] {
            let error = gc(&disk, purpose, 62).expect_err(&what);
            let kinds = [ErrorKind::Corrupt, ErrorKind::NotFound];
            assert!(kinds.contains(&error.kind()), "{what}: {error}");
        }
        assert!(before.keys().all(|path| disk.files().contains_key(path)), "{what}");
        assert!(!check(&disk, 62).is_ok(), "{what}");
    }
}

#[test]
fn later_losses_must_be_accepted_again() {
    let sample = Sample::new();
    let repo = open(&sample.disk, 75);
    let (first, second) = (tree(&repo, "two~9"), tree(&repo, "two~12"));
    drop(repo);
    let disk = sample.copy();
    lose(&disk, &[first]);
    accept(&disk);
    gc(&disk, Purpose::Gc, 62).unwrap();
    lose(&disk, &[second]);
    assert_eq!(gc(&disk, Purpose::Gc, 62).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(!check(&disk, 62).is_ok());
    let repaired = accept_as(&disk, 81);
    assert_eq!(repaired.plan.given_up, Some(2));
    gc(&disk, Purpose::Gc, 62).unwrap();
    assert_eq!(accept_as(&disk, 82).plan.given_up, None, "there is nothing to do twice");
}

#[test]
fn holes_are_distinguished_from_damage_in_errors() {
    let sample = Sample::new();
    let repo = open(&sample.disk, 75);
    let (commit, root) = (repo.resolve("two~9").unwrap().commit, tree(&repo, "two~9"));
    drop(repo);
    lose(&sample.disk, &[root]);
    let repaired = accept(&sample.disk);
    assert_eq!((repaired.plan.given_up, repaired.plan.refs.len()), (Some(1), 0));
    let holes: Vec<_> =
        repaired.report.findings.iter().filter(|f| f.kind == FsckKind::Hole).collect();
    let [hole] = &*holes else { panic!("{:?}", repaired.report.findings) };
    assert_eq!(hole.object, Some(root));
    assert!(hole.place.starts_with("turn ") && hole.place.contains(" of two"), "{hole}");

    let repo = open(&sample.disk, 75);
    let error = repo.context(&commit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let message = error.to_string();
    assert!(message.contains("is lost") && message.contains(&root.to_string()), "{message}");
    assert!(message.starts_with("turn ") && message.contains(" of two"), "{message}");
    let plan = plan_collection(&repo, Purpose::Gc, stamp(62).time).unwrap();
    assert_eq!(plan.holes.lost, 1);
    assert!(plan.holes.spared.objects > 0, "{:?}", plan.holes);
}

#[test]
fn restored_objects_close_their_hole_and_release_kept_content() {
    let sample = Sample::new();
    let repo = open(&sample.disk, 75);
    let root = tree(&repo, "two~9");
    drop(repo);
    let disk = sample.copy();
    lose(&disk, &[root]);
    accept(&disk);
    gc(&disk, Purpose::Gc, 62).unwrap();
    {
        let repo = open(&disk, 77);
        let object = Object { kind: Kind::Node, bytes: sample.objects[&root].clone() };
        let draft = set("came-back", Expected::Absent, root);
        repo.store().commit(vec![(root, object)], &draft).unwrap();
    }
    let report = check(&disk, 62);
    assert!(report.findings.iter().all(|f| f.kind != FsckKind::Hole), "{:?}", report.findings);
    let repo = open(&disk, 75);
    assert_eq!(tree(&repo, "two~9"), root);
    assert!(repo.context(&repo.resolve("two~9").unwrap().commit).is_ok());
    drop(repo);
    assert_eq!(accept_as(&disk, 81).plan.given_up, Some(0));
    assert_eq!(open(&disk, 75).refs().value(KNOWN_LOSSES_REF), None);
    gc(&disk, Purpose::Gc, 62).unwrap();
    assert!(check(&disk, 62).is_ok());
}

#[test]
fn redactions_remove_content_behind_a_hole() {
    let sample = Sample::new();
    let repo = open(&sample.disk, 75);
    let commit = repo.resolve("two~9").unwrap().commit;
    drop(repo);
    lose(&sample.disk, &[commit]);
    accept(&sample.disk);
    let secret = "two 1 10";
    let has_secret = |disk: &SimDisk| {
        let repo = open(disk, 75);
        let objects = sample.objects.iter().filter(|(_, bytes)| **bytes == secret.as_bytes());
        let there = objects.filter(|(id, _)| repo.contains(id).unwrap());
        there.count() > 0
    };
    assert!(has_secret(&sample.disk));
    let pattern = Pattern::literal(secret, "[redacted]").unwrap();
    redact(&open(&sample.disk, 83), &pattern, &stamp(63)).unwrap();
    assert!(!has_secret(&sample.disk));
    gc(&sample.disk, Purpose::Gc, 64).unwrap();
    let report = check(&sample.disk, 64);
    assert!(report.is_ok(), "{:#?}", report.findings);
}

#[test]
fn later_garbage_is_freed_despite_a_hole() {
    let sample = Sample::new();
    let repo = open(&sample.disk, 75);
    let root = tree(&repo, "two~9");
    drop(repo);
    lose(&sample.disk, &[root]);
    accept(&sample.disk);
    gc(&sample.disk, Purpose::Gc, 62).unwrap();
    let blob = {
        let repo = open(&sample.disk, 78);
        let bytes: bytes::Bytes = "written later and soon dropped".into();
        let id = ObjectId::of(Kind::Blob, &bytes);
        let object = Object { kind: Kind::Blob, bytes };
        repo.store().commit(vec![(id, object)], &set("later", Expected::Absent, id)).unwrap();
        let mut draft = set("later", Expected::Any, id);
        draft.changes[0].new = None;
        repo.store().commit(Vec::new(), &draft).unwrap();
        id
    };
    grow_old(&sample.disk);
    assert!(!open(&sample.disk, 75).contains(&blob).unwrap());
}
