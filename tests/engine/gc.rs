//! Collections free unreachable objects, keep everything else, and block no other process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::maintenance::{
    CollectionPlan, Policy, Purpose, Scope, collect, plan_collection, set_policy,
};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::repo::{BranchName, NewPin, Repository, SnapshotDraft};
use turntree::store::Tier;
use turntree_tests::sim::Random;
use turntree_tests::{Sandbox, open_store, stamp};

const PURPOSES: [Purpose; 5] = [
    Purpose::Gc,
    Purpose::Step,
    Purpose::Repack(Tier::Hot),
    Purpose::Repack(Tier::Compacted),
    Purpose::Repack(Tier::Archive),
];

fn gc(repo: &Repository, purpose: Purpose, second: i64) {
    collect(repo, purpose, &stamp(second), &mut |_| {}).unwrap();
}

/// The scratchpad of a commit.
fn notes(repo: &Repository, commit: &ObjectId) -> turntree::Result<BTreeMap<String, Bytes>> {
    let context = repo.context(commit)?;
    let map = context.map(repo, "scratchpad")?;
    let entries = map.iter(repo).map(|entry| {
        let (key, item) = entry?;
        let key = String::from_utf8_lossy(&key).into_owned();
        Ok((key, repo.read_as(Kind::Blob, &item.link.id)?))
    });
    entries.collect()
}

/// A snapshot on `branch` that sets one note.
fn note(
    repo: &Repository,
    branch: &BranchName,
    second: i64,
    key: &str,
    text: &str,
) -> turntree::Result<ObjectId> {
    repo.refresh()?;
    let mut change = repo.begin();
    let mut context = match change.tip(branch) {
        Some(tip) => Builder::from(repo.context(&tip)?),
        None => Builder::new(),
    };
    let value = Some(Bytes::copy_from_slice(text.as_bytes()));
    context.set_entry(&mut change, "scratchpad", key, value)?;
    let tree = context.write(&mut change)?;
    let id = change.snapshot(branch, SnapshotDraft::new(tree, "turn", &stamp(second)))?;
    change.commit(&stamp(second), "snapshot")?;
    Ok(id)
}

/// The expected state of a random history.
#[derive(Default)]
struct Model {
    /// The notes at each commit.
    notes: BTreeMap<ObjectId, BTreeMap<String, Bytes>>,
    parents: BTreeMap<ObjectId, ObjectId>,
    branches: BTreeMap<String, ObjectId>,
    pins: BTreeMap<String, ObjectId>,
}

impl Model {
    fn line(&self, from: &ObjectId) -> Vec<ObjectId> {
        let mut line = vec![*from];
        while let Some(parent) = line.last().and_then(|id| self.parents.get(id)) {
            line.push(*parent);
        }
        line
    }

    /// Checks that everything reachable from a branch or a pin reads as written.
    fn check(&self, repo: &Repository) {
        repo.refresh().unwrap();
        let mut named: BTreeMap<String, ObjectId> =
            repo.branches().into_iter().map(|(name, id)| (name.branch().to_owned(), id)).collect();
        assert_eq!(named, self.branches);
        named.extend(self.pins.iter().map(|(name, id)| (format!("pin {name}"), *id)));
        for (name, tip) in named {
            for id in self.line(&tip) {
                let found = notes(repo, &id);
                assert!(found.is_ok(), "{name}: {id}: {found:?} {:?}", repo.summary());
                assert_eq!(found.unwrap(), self.notes[&id], "{name}: {id}");
            }
        }
        assert_eq!(repo.findings(), []);
    }
}

/// One random step of a user.
fn work(repo: &Repository, model: &mut Model, random: &mut Random, second: i64) {
    repo.refresh().unwrap();
    let names = ["main", "a", "b", "c"];
    let name = names[random.below(4)];
    let branch = BranchName::new("s", name).unwrap();
    match random.below(8) {
        0 if name != "main" && model.branches.contains_key(name) => {
            let mut change = repo.begin();
            change.move_branch(&branch, None);
            change.commit(&stamp(second), "delete").unwrap();
            model.branches.remove(name);
        }
        1 => {
            let Some(tip) = model.branches.values().next().copied() else { return };
            let line = model.line(&tip);
            let to = line[random.below(line.len())];
            let mut change = repo.begin();
            change.move_branch(&branch, Some(to));
            change.commit(&stamp(second), "move").unwrap();
            model.branches.insert(name.to_owned(), to);
        }
        2 => {
            let Some(tip) = model.branches.get(name).copied() else { return };
            let mut change = repo.begin();
            let pin = change.pin(&tip, NewPin::default(), &stamp(second)).unwrap();
            change.commit(&stamp(second), "pin").unwrap();
            model.pins.insert(pin.name, tip);
        }
        3 if !model.pins.is_empty() => {
            let pin = model.pins.keys().next().unwrap().clone();
            let mut change = repo.begin();
            change.unpin(&pin).unwrap();
            change.commit(&stamp(second), "unpin").unwrap();
            model.pins.remove(&pin);
        }
        _ => {
            // Few distinct texts, so that collected objects are written again.
            let (key, text) = (random.below(12).to_string(), format!("text {}", random.below(9)));
            let text = text.repeat(1 + random.below(40));
            let id = note(repo, &branch, second, &key, &text).unwrap();
            let before = model.branches.get(name).copied();
            let mut notes = before.map(|id| model.notes[&id].clone()).unwrap_or_default();
            notes.insert(key, text.into());
            model.notes.insert(id, notes);
            if let Some(before) = before {
                model.parents.insert(id, before);
            }
            model.branches.insert(name.to_owned(), id);
        }
    }
}

#[test]
fn content_reachable_from_branches_and_pins_is_kept() {
    for seed in 0..6 {
        let (sandbox, mut random, mut model) = (Sandbox::new(), Random(seed), Model::default());
        let others = [open_store(&sandbox.store_dir(), 20), open_store(&sandbox.store_dir(), 21)];
        for second in 0..160 {
            let repo = if random.below(2) == 0 { &sandbox.repo } else { &others[0] };
            work(repo, &mut model, &mut random, second);
            if random.below(12) == 0 {
                let collector = [&sandbox.repo, &others[1]][random.below(2)];
                gc(collector, PURPOSES[random.below(PURPOSES.len())], second);
                model.check(&others[random.below(2)]);
            }
        }
        gc(&sandbox.repo, Purpose::Gc, 200);
        model.check(&open_store(&sandbox.store_dir(), 30));
    }
}

#[test]
fn transactions_survive_concurrent_collection_of_their_base() {
    for purpose in [Purpose::Gc, Purpose::Repack(Tier::Compacted)] {
        let sandbox = Sandbox::new();
        let (main, side) = (BranchName::main("s").unwrap(), BranchName::new("s", "side").unwrap());
        note(&sandbox.repo, &main, 1, "a", "kept").unwrap();
        let text = "written twice ".repeat(300);
        let lost = note(&sandbox.repo, &side, 2, "b", &text).unwrap();
        let mut change = sandbox.repo.begin();
        change.move_branch(&side, None);
        change.commit(&stamp(3), "delete").unwrap();
        for second in 4..40 {
            note(&sandbox.repo, &main, second, "a", &second.to_string()).unwrap();
        }
        // Packs everything, so that the files may be replaced.
        gc(&open_store(&sandbox.store_dir(), 7), Purpose::Repack(Tier::Hot), 50);
        let writer = open_store(&sandbox.store_dir(), 8);
        let mut change = writer.begin();
        let mut context = Builder::from(writer.context(&lost).unwrap());
        context.set_entry(&mut change, "scratchpad", "c", Some("more".into())).unwrap();
        let tree = context.write(&mut change).unwrap();

        // A month later the side branch has left the operation log.
        let later = 60 * 24 * 60 * 60;
        for second in 0..120 {
            note(&sandbox.repo, &main, later + second, "a", &second.to_string()).unwrap();
        }
        gc(&sandbox.repo, purpose, later + 200);
        if purpose == Purpose::Gc {
            let error = notes(&open_store(&sandbox.store_dir(), 9), &lost).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "it was garbage: {error}");
        }
        let branch = BranchName::new("s", "again").unwrap();
        let id = change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp(later))).unwrap();
        change.commit(&stamp(later), "snapshot").unwrap();
        let after = open_store(&sandbox.store_dir(), 10);
        assert_eq!(notes(&after, &id).unwrap()["b"], text);
        assert_eq!(notes(&after, &id).unwrap()["c"], "more");
    }
}

#[test]
fn branches_can_move_to_concurrently_collected_commits() {
    let sandbox = Sandbox::new();
    let (main, side) = (BranchName::main("s").unwrap(), BranchName::new("s", "side").unwrap());
    note(&sandbox.repo, &main, 1, "a", "kept").unwrap();
    note(&sandbox.repo, &side, 2, "b", "older").unwrap();
    let lost = note(&sandbox.repo, &side, 3, "c", &"newer ".repeat(300)).unwrap();
    let mut change = sandbox.repo.begin();
    change.move_branch(&side, None);
    change.commit(&stamp(4), "delete").unwrap();
    // A month later the side branch has left the operation log.
    let later = 60 * 24 * 60 * 60;
    for second in 0..120 {
        note(&sandbox.repo, &main, later + second, "a", &second.to_string()).unwrap();
    }
    gc(&open_store(&sandbox.store_dir(), 7), Purpose::Repack(Tier::Hot), 50);
    let writer = open_store(&sandbox.store_dir(), 8);
    let mut change = writer.begin();
    let again = BranchName::new("s", "again").unwrap();
    change.move_branch(&again, Some(lost));
    gc(&sandbox.repo, Purpose::Gc, later + 200);
    let error = notes(&open_store(&sandbox.store_dir(), 9), &lost).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "it was garbage: {error}");

    change.commit(&stamp(later + 300), "fork").unwrap();
    drop(writer);
    gc(&sandbox.repo, Purpose::Gc, later + 400);
    let after = open_store(&sandbox.store_dir(), 10);
    assert_eq!(after.tip(&again), Some(lost));
    let line: Vec<_> = after.history(&[lost], &[]).unwrap().map(|e| e.unwrap().id).collect();
    assert_eq!(line.len(), 2, "with the old files");
    assert_eq!(notes(&after, &lost).unwrap()["b"], "older");
    assert_eq!(notes(&after, &line[1]).unwrap()["b"], "older");
}

#[test]
fn moving_a_branch_to_garbage_during_a_collection_keeps_it() {
    for purpose in [Purpose::Gc, Purpose::Repack(Tier::Archive)] {
        let sandbox = Sandbox::new();
        let (main, side) = (BranchName::main("s").unwrap(), BranchName::new("s", "side").unwrap());
        let mut change = sandbox.repo.begin();
        let policy = Policy { keep_last: Some(2), ..Policy::default() };
        set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
        change.commit(&stamp(0), "retention").unwrap();
        note(&sandbox.repo, &side, 2, "b", "older").unwrap();
        let lost = note(&sandbox.repo, &side, 3, "c", &"newer ".repeat(300)).unwrap();
        let mut change = sandbox.repo.begin();
        change.move_branch(&side, None);
        change.commit(&stamp(4), "delete").unwrap();
        let later = 60 * 24 * 60 * 60;
        let expiring = note(&sandbox.repo, &main, later, "a", "expiring").unwrap();
        let pinned = note(&sandbox.repo, &main, later + 1, "a", "pinned").unwrap();
        for second in 2..120 {
            note(&sandbox.repo, &main, later + second, "a", &second.to_string()).unwrap();
        }
        let names = [("again", lost), ("back", expiring), ("pinned", pinned)];
        let put = |(name, commit): (&str, ObjectId)| {
            let other = open_store(&sandbox.store_dir(), 8);
            let mut change = other.begin();
            match name {
                "pinned" => {
                    drop(change.pin(&commit, NewPin::default(), &stamp(later + 300)).unwrap());
                }
                _ => change.move_branch(&BranchName::new("s", name).unwrap(), Some(commit)),
            }
            change.commit(&stamp(later + 300), "name it").unwrap();
        };
        let mut done = false;
        let mut before_step = |_: &CollectionPlan| {
            if !std::mem::replace(&mut done, true) {
                names.into_iter().for_each(put);
            }
        };
        collect(&sandbox.repo, purpose, &stamp(later + 200), &mut before_step).unwrap();
        assert!(done, "there is something to collect");
        gc(&sandbox.repo, purpose, later + 400);
        let after = open_store(&sandbox.store_dir(), 10);
        for (name, commit) in names {
            let branch = BranchName::new("s", name).unwrap();
            assert_eq!(after.tip(&branch), (name != "pinned").then_some(commit));
            let text = notes(&after, &commit).unwrap().into_values().next().unwrap();
            assert!(["older", "expiring", "pinned"].map(Bytes::from).contains(&text), "{text:?}");
        }
    }
}

#[test]
fn content_of_open_transactions_is_kept() {
    let sandbox = Sandbox::new();
    let mut random = Random(5);
    let mut noise =
        |len: usize| -> Bytes { (0..len / 8).flat_map(|_| random.draw().to_le_bytes()).collect() };
    let writer = open_store(&sandbox.store_dir(), 8);
    let mut change = writer.begin();
    let mut context = Builder::new();
    let mut written = BTreeMap::new();
    for part in 0..6 {
        // Enough to fill and seal a segment before any ref references it.
        let bytes = noise(3 << 20);
        context
            .set_entry(&mut change, "scratchpad", &part.to_string(), Some(bytes.clone()))
            .unwrap();
        written.insert(part.to_string(), bytes);
        change.flush().unwrap();
        gc(&sandbox.repo, PURPOSES[part % PURPOSES.len()], 1);
    }
    let branch = BranchName::main("large").unwrap();
    let tree = context.write(&mut change).unwrap();
    let id = change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp(2))).unwrap();
    change.commit(&stamp(2), "snapshot").unwrap();
    drop(writer);
    gc(&sandbox.repo, Purpose::Gc, 3);
    assert_eq!(notes(&open_store(&sandbox.store_dir(), 9), &id).unwrap(), written);
}

#[test]
fn unreferenced_objects_are_collected() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("s").unwrap();
    let kept = note(&sandbox.repo, &main, 1, "a", "kept").unwrap();
    let mut change = sandbox.repo.begin();
    let large: Vec<u8> =
        (0..200_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let lost = change.write(Kind::Blob, large.into()).unwrap();
    change.flush().unwrap();
    drop(change);
    let before = sandbox.repo.summary().unwrap().used_bytes;
    gc(&sandbox.repo, Purpose::Gc, 2);
    assert!(!sandbox.repo.contains(&lost).unwrap());
    assert_eq!(notes(&sandbox.repo, &kept).unwrap().len(), 1);
    assert!(sandbox.repo.summary().unwrap().used_bytes < before / 10);
    // A second collection finds nothing to do.
    let again = collect(&sandbox.repo, Purpose::Gc, &stamp(3), &mut |_| {}).unwrap();
    assert_eq!(again.steps, 0);
}

#[test]
fn leftovers_of_killed_processes_are_always_removed() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("s").unwrap();
    note(&sandbox.repo, &main, 1, "a", "kept").unwrap();
    gc(&sandbox.repo, Purpose::Repack(Tier::Hot), 2);
    let listing = || {
        let folders = ["", "packs"].map(|folder| sandbox.store_dir().join(folder));
        let names = folders.into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
        names.map(|entry| entry.unwrap().path()).collect::<BTreeSet<_>>()
    };
    let is_pack = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "pack");
    let path = listing().into_iter().find(is_pack).unwrap();
    let unlisted = std::fs::read(&path).unwrap();
    note(&sandbox.repo, &main, 2, "a", "newer").unwrap();
    gc(&sandbox.repo, Purpose::Repack(Tier::Hot), 2);
    let before = listing();
    std::fs::write(path, &unlisted).unwrap();
    for name in ["packs/a.tmp", "manifest-0000000000000001.0.tmp", "superblock-55.tmp"] {
        std::fs::write(sandbox.store_dir().join(name), &unlisted).unwrap();
    }
    plan_collection(&sandbox.repo, Purpose::Gc, stamp(3).time).unwrap();
    assert_eq!(listing().len(), before.len() + 4, "a plan does nothing");
    gc(&sandbox.repo, Purpose::Gc, 3);
    assert_eq!(listing(), before);
    // A pack of another store is not a leftover of a killed process.
    let foreign = sandbox.store_dir().join(format!("packs/{}.pack", "5".repeat(64)));
    std::fs::write(&foreign, &unlisted).unwrap();
    gc(&sandbox.repo, Purpose::Gc, 4);
    assert!(foreign.exists());
}

#[test]
fn empty_segments_are_removed_unless_locked() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("s").unwrap();
    note(&sandbox.repo, &main, 1, "a", "kept").unwrap();
    let journal = sandbox.store_dir().join("journal");
    let segments = || -> BTreeSet<PathBuf> {
        std::fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let before = segments();
    let extension = before.first().unwrap().extension().unwrap().to_owned();
    let made = |digit: &str| {
        let path = journal.join(digit.repeat(32)).with_extension(&extension);
        (std::fs::File::create_new(&path).unwrap(), path)
    };
    let (held, path) = made("a");
    held.lock().unwrap();
    drop(made("b"));
    gc(&sandbox.repo, Purpose::Gc, 2);
    let mut expected = before.clone();
    expected.insert(path);
    assert_eq!(segments(), expected);
    drop(held);
    gc(&sandbox.repo, Purpose::Gc, 3);
    assert_eq!(segments(), before);
}

#[test]
fn threads_can_share_a_handle_with_a_collection() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let others = open_store(&sandbox.store_dir(), 50);
    let others = &others;
    let stop = AtomicBool::new(false);
    let write = |writer: u8, repo: &Repository| {
        let branch = BranchName::new("s", &format!("w{writer}")).unwrap();
        let write = |turn: i64| {
            note(repo, &branch, turn, &(turn % 5).to_string(), &format!("text {turn} ").repeat(50))
        };
        (0..80).map(|turn| write(turn).unwrap()).collect::<Vec<_>>()
    };
    let written = std::thread::scope(|threads| {
        let handles = [repo, repo, others];
        let writers: Vec<_> = (0..3)
            .zip(handles)
            .map(|(writer, handle)| threads.spawn(move || write(writer, handle)))
            .collect();
        let collector = threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                gc(repo, Purpose::Repack(Tier::Hot), 100);
                gc(repo, Purpose::Gc, 100);
            }
        });
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        collector.join().unwrap();
        written
    });
    let after = open_store(&sandbox.store_dir(), 81);
    // One operation a commit: none was lost or overwritten.
    assert_eq!(after.refs().sequence, 240);
    for id in written.into_iter().flatten() {
        notes(&after, &id).unwrap();
    }
}

#[test]
fn concurrent_collections_are_rejected() {
    let sandbox = Sandbox::new();
    let collection = sandbox.repo.store().collect().unwrap();
    let other = open_store(&sandbox.store_dir(), 9);
    let error = collect(&other, Purpose::Gc, &stamp(1), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    drop(collection);
    collect(&other, Purpose::Gc, &stamp(1), &mut |_| {}).unwrap();
}

#[test]
fn expired_turns_are_reported_and_history_continues_behind_them() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let main = BranchName::main("s").unwrap();
    let mut change = repo.begin();
    let policy = Policy { keep_last: Some(5), ..Policy::default() };
    set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
    change.commit(&stamp(0), "retention").unwrap();
    let mut ids = vec![];
    for second in 1..=60 {
        ids.push(note(repo, &main, second, "a", &second.to_string()).unwrap());
    }
    let mut change = repo.begin();
    change.pin(&ids[9], NewPin::default(), &stamp(60)).unwrap();
    change.move_branch(&BranchName::new("s", "fork").unwrap(), Some(ids[19]));
    change.commit(&stamp(60), "keep").unwrap();
    for purpose in [Purpose::Gc, Purpose::Repack(Tier::Compacted), Purpose::Gc] {
        gc(repo, purpose, 61);
        for reader in [repo, &open_store(&sandbox.store_dir(), 3)] {
            // The newest operations are kept for undo, with the values of their refs.
            for (turn, id) in (1..).zip(&ids) {
                let kept = turn == 10 || (16..=20).contains(&turn) || turn > 40;
                assert_eq!(notes(reader, id).is_ok(), kept, "turn {turn}");
                if !kept {
                    let error = notes(reader, id).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Expired);
                    assert!(error.to_string().contains(&format!("turn {turn} of s")), "{error}");
                }
            }
            let line = reader.history(&[ids[59]], &[]).unwrap();
            let line: Vec<ObjectId> = line.map(|entry| entry.unwrap().id).collect();
            assert!(line.iter().rev().eq(&ids), "every commit exists");
        }
    }
}

#[test]
fn packs_listed_only_by_a_damaged_manifest_block_writes() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("s").unwrap();
    for second in 1..5 {
        note(&sandbox.repo, &main, second, "a", &second.to_string()).unwrap();
    }
    gc(&sandbox.repo, Purpose::Repack(Tier::Hot), 5);
    let newest = note(&sandbox.repo, &main, 6, "a", "newest").unwrap();
    gc(&sandbox.repo, Purpose::Repack(Tier::Compacted), 7);
    let path = sandbox.store_dir().join("manifest-0000000000000002");
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[50] ^= 1;
    std::fs::write(&path, damaged).unwrap();

    let repo = open_store(&sandbox.store_dir(), 9);
    assert!(!repo.findings().is_empty());
    let other = BranchName::main("other").unwrap();
    let error = note(&repo, &other, 8, "a", "on old content").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    for purpose in PURPOSES {
        let error = collect(&repo, purpose, &stamp(9), &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    // Every file is still in its place.
    std::fs::write(&path, whole).unwrap();
    let repo = open_store(&sandbox.store_dir(), 10);
    assert_eq!(repo.tip(&main), Some(newest));
    assert_eq!(notes(&repo, &newest).unwrap()["a"], "newest");
}

#[test]
fn copies_without_empty_folders_are_valid_stores() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("s").unwrap();
    let id = note(&sandbox.repo, &main, 1, "a", "kept").unwrap();
    gc(&sandbox.repo, Purpose::Repack(Tier::Hot), 2);
    std::fs::remove_dir(sandbox.store_dir().join("journal")).unwrap();
    let repo = open_store(&sandbox.store_dir(), 9);
    assert_eq!(notes(&repo, &id).unwrap()["a"], "kept");
    note(&repo, &main, 3, "a", "goes on").unwrap();

    let sandbox = Sandbox::new();
    note(&sandbox.repo, &main, 1, "a", "kept").unwrap();
    std::fs::remove_dir(sandbox.store_dir().join("packs")).unwrap();
    gc(&sandbox.repo, Purpose::Repack(Tier::Hot), 2);
}

#[test]
fn forgotten_turns_are_planned_and_reported_as_expired() {
    let sandbox = Sandbox::new();
    let (repo, main) = (&sandbox.repo, BranchName::main("s").unwrap());
    let mut change = repo.begin();
    let policy = Policy { keep_last: Some(5), ..Policy::default() };
    set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
    change.commit(&stamp(0), "retention").unwrap();
    // Many turns in one operation, so that operations protect few of them.
    let mut change = repo.begin();
    let mut context = Builder::new();
    for turn in 0..700 {
        let text = Some(Bytes::from(turn.to_string()));
        context.set_entry(&mut change, "scratchpad", "a", text).unwrap();
        let tree = context.write(&mut change).unwrap();
        change.snapshot(&main, SnapshotDraft::new(tree, "turn", &stamp(turn))).unwrap();
    }
    change.commit(&stamp(700), "import").unwrap();
    let tip = repo.tip(&main).unwrap();

    let plan = plan_collection(repo, Purpose::Gc, stamp(701).time).unwrap();
    assert!(plan.retention.notes.iter().any(|note| note.contains("195 turns")), "{plan:?}");
    let length = || repo.history(&[tip], &[]).unwrap().count();
    assert_eq!(length(), 700, "a plan does nothing");
    gc(repo, Purpose::Gc, 701);
    assert_eq!(length(), 505);
    for turn in [1, 100, 195, 196, 400] {
        let found = repo.find_turn(&tip, turn).and_then(|id| notes(repo, &id));
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Expired, "turn {turn}");
    }
    assert_eq!(notes(repo, &tip).unwrap()["a"], "699");
}

#[test]
fn objects_stored_twice_survive_the_removal_of_one_segment() {
    // The seeds name the segments, and collections process segments in the order of their names.
    for seed in 20..28 {
        let sandbox = Sandbox::new();
        let writers =
            [open_store(&sandbox.store_dir(), seed), open_store(&sandbox.store_dir(), seed + 100)];
        let reader = open_store(&sandbox.store_dir(), 10);
        let branches = [BranchName::new("s", "a").unwrap(), BranchName::new("s", "b").unwrap()];
        for (writer, branch) in writers.iter().zip(&branches) {
            // Neither writer has seen the objects of the other.
            let mut change = writer.begin();
            let mut context = Builder::new();
            context.set_entry(&mut change, "scratchpad", "a", Some("both".into())).unwrap();
            let tree = context.write(&mut change).unwrap();
            change.snapshot(branch, SnapshotDraft::new(tree, "turn", &stamp(1))).unwrap();
            change.commit(&stamp(1), "snapshot").unwrap();
            reader.refresh().unwrap();
        }
        let [_stays, leaves] = writers;
        drop(leaves);
        gc(&open_store(&sandbox.store_dir(), 11), Purpose::Repack(Tier::Hot), 2);
        reader.refresh().unwrap();
        for branch in &branches {
            let tip = reader.tip(branch).unwrap();
            assert_eq!(notes(&reader, &tip).unwrap()["a"], "both");
        }
    }
}
