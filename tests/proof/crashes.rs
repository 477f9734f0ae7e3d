//! A crash at any moment loses no acknowledged change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use turntree::maintenance::Purpose;
use turntree::store::{Committed, Expected, Io, NewStore, OperationDraft, Store, Tier};
use turntree_tests::oracle::{
    Attempt, DIR, Sessions, Step, Target, Witness, blob, commit_after, options, pack, set,
};
use turntree_tests::proof::crashes::{self, Trace, crash_everywhere};
use turntree_tests::proof::{Effort, Programs};
use turntree_tests::sim::{Fault, Keep, Random, SimDisk};

#[test]
fn whatever_a_crash_keeps_every_acknowledged_commit_is_there() {
    let programs = Programs { turntree: PathBuf::new(), prove: PathBuf::new() };
    let figures = crashes::run(&Effort { scale: 1, seed: 1, programs });
    for (what, value) in figures.rows {
        println!("{what}: {value}");
    }
}

/// Kills or stalls a process in each call of some steps. Then other processes take steps, and the
/// machine crashes in each of their calls.
fn stop_everywhere(seed: u64, before: &[(u32, Step)], first: &[Step], others: &[Step]) {
    let sessions = |steps: &[&[(u32, Step)]]| Sessions { seed, steps: steps.concat() };
    let first: Vec<(u32, Step)> = first.iter().map(|step| (0, *step)).collect();
    let others: Vec<(u32, Step)> =
        (1..).zip(others).map(|(process, step)| (process, *step)).collect();
    let begin = Trace::Later(40, sessions(&[before])).changes();
    let end = Trace::Later(40, sessions(&[before, &first])).changes();
    assert!(end > begin + 4, "the first process does something");
    for call in begin + 1..=end {
        let all = sessions(&[before, &first, &others]);
        crash_everywhere(&Trace::Stopped(40, all, call), 1);
    }
}

#[test]
fn others_go_on_after_a_process_that_stopped_in_a_commit() {
    stop_everywhere(1, &[], &[Step::Turn(0), Step::Turn(0)], &[Step::Turn(0), Step::Turn(1)]);
}

#[test]
fn a_collection_goes_on_where_one_that_died_has_ended() {
    let again = [Step::Collect(Purpose::Repack(Tier::Hot)), Step::Turn(0)];
    stop_everywhere(2, &[], &[Step::Turn(1), Step::Collect(Purpose::Gc)], &again);
}

#[test]
fn a_store_is_encrypted_by_who_comes_after_one_that_died_in_it() {
    let again = [Step::Turn(0), Step::Encrypt, Step::Turn(1)];
    stop_everywhere(4, &[(0, Step::Turn(1))], &[Step::Encrypt], &again);
    let off = [(0, Step::Turn(1)), (0, Step::Encrypt)];
    stop_everywhere(5, &off, &[Step::Encrypt], &again[..2]);
}

#[test]
fn segments_are_sealed_beside_a_process_that_stopped_while_it_sealed() {
    // More concurrent writers than segments that stay idle.
    let turns = (0..11).map(|process| (process, Step::Turn(process as usize % 4)));
    let ends = (0..11).map(|process| (process, Step::Close));
    let before: Vec<(u32, Step)> = turns.chain(ends).collect();
    stop_everywhere(3, &before, &[Step::Turn(0)], &[Step::Turn(0), Step::Turn(1)]);
}

/// Commits enough sectors that a crash may keep some and lose others.
fn commit_many_sectors(store: &Store, witness: &Witness) -> Option<Committed> {
    let number = witness.promise().attempts.len();
    let mut random = Random(number as u64);
    let (id, object) = blob((0..300).flat_map(|_| random.draw().to_le_bytes()).collect());
    let name = "heads/0";
    let attempt = Attempt {
        objects: vec![(id, object.bytes.clone())],
        ..Attempt::new([(name, Some(Target::Object(id)))])
    };
    witness.attempt(attempt, |reason| {
        let draft = OperationDraft { reason, ..set(name, Expected::Any, id) };
        store.commit(vec![(id, object)], &draft)
    })
}

/// Opens handles one after the other, each for a commit, and kills the second in its call `at`. At
/// each call of the others the machine crashes and keeps any part of the unsynced state. Returns
/// false if the handle had no such call.
fn killed_in_a_one_shot(at: u64, images: u64) -> bool {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, dir): (Arc<dyn Io>, _) = (Arc::new(disk.clone()), Path::new(DIR));
    Store::create(&*io, dir, &NewStore { id: [5; 16] }).unwrap();
    let witness = Witness::default();
    witness.tell(|promise| promise.created = true);
    let one_shot = |process: u32| {
        let io: Arc<dyn Io> = Arc::new(disk.process(process));
        let store = Store::open(io, dir, options(u64::from(process))).unwrap();
        commit_many_sectors(&store, &witness)
    };
    one_shot(1).unwrap();
    disk.arm(Fault::StopAt(at));
    one_shot(2);
    let was_killed = disk.triggered();
    disk.arm(Fault::None);
    let (seen, known) = (disk.clone(), witness.clone());
    disk.watch(move |call| {
        for image in 0..images {
            known.promise().check(&seen.crash(Keep::Some(call << 32 | image)));
        }
    });
    for process in 3..6 {
        one_shot(process).unwrap();
    }
    disk.unwatch();
    witness.promise().check(&disk.crash(Keep::Nothing));
    was_killed
}

#[test]
fn who_takes_over_from_a_killed_process_builds_on_nothing_that_a_crash_can_take() {
    let calls = (1..).take_while(|at| killed_in_a_one_shot(*at, 24)).count();
    assert_eq!(calls, 3, "a batch, its sync, and the mark behind it");
}

/// True if the name of a file of the store contains `part`.
fn has(disk: &SimDisk, part: &str) -> bool {
    disk.files().keys().any(|path| path.to_string_lossy().contains(part))
}

/// The bytes of the journal without the marks after records, which are never synced separately.
fn journal(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = disk.files();
    files.retain(|path, _| path.to_string_lossy().contains("/journal/"));
    for word in files.values_mut().flat_map(|file| file.chunks_exact_mut(8)) {
        if word == b"synced\0\0" {
            word.fill(0);
        }
    }
    files
}

/// The result of a schedule of two threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schedule {
    /// The collection ended while the commit was about to sync.
    Met,
    /// The collection did not end then.
    Missed,
    /// The collection has no such call.
    Over,
}

/// Two threads share a handle. One collects, and stops in its call `at` if it has written its pack
/// and not published it. The other commits, and stops in the call `then` after that, if it is its
/// sync, until the first has ended.
fn collect_beside_a_commit(at: u64, then: u64) -> Schedule {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, dir): (Arc<dyn Io>, _) = (Arc::new(disk.clone()), Path::new(DIR));
    Store::create(&*io, dir, &NewStore { id: [5; 16] }).unwrap();
    let witness = Witness::default();
    witness.tell(|promise| promise.created = true);
    let store = Store::open(Arc::clone(&io), dir, options(1)).unwrap();
    for _ in 0..3 {
        commit_after(&store, &witness).unwrap();
    }
    disk.arm(Fault::None);
    let (reach, reached) = channel();
    let (allow, allowed) = channel();
    let (seen, reaches) = (disk.clone(), reach.clone());
    disk.interrupt(at, move || {
        let is_between = has(&seen, ".pack") && !has(&seen, "manifest-0000000000000001");
        let _ = reaches.send(Some(is_between));
        let _ = allowed.recv();
    });
    let met = Arc::new(AtomicBool::new(false));
    let (ended, ends) = channel();
    let reached = thread::scope(|threads| {
        let collector = threads.spawn(|| {
            pack(&store, |_| true).unwrap();
            let _ = (reach.send(None), ended.send(()));
        });
        let reached = reached.recv().unwrap();
        if reached == Some(true) {
            let (seen, known, met, go_on) =
                (disk.clone(), witness.clone(), Arc::clone(&met), allow.clone());
            disk.interrupt(at + then, move || {
                if journal(&seen.crash(Keep::All)) != journal(&seen.crash(Keep::Nothing)) {
                    let _ = (go_on.send(()), ends.recv());
                    known.promise().check(&seen.crash(Keep::Nothing));
                    met.store(true, Ordering::Relaxed);
                }
            });
            commit_after(&store, &witness).unwrap();
        }
        let _ = allow.send(());
        collector.join().unwrap();
        reached
    });
    witness.promise().check(&disk.crash(Keep::Nothing));
    match (reached, met.load(Ordering::Relaxed)) {
        (None, _) => Schedule::Over,
        (_, true) => Schedule::Met,
        (_, false) => Schedule::Missed,
    }
}

#[test]
fn a_manifest_names_no_commit_of_the_own_handle_that_is_not_durable() {
    let mut met = 0;
    for at in 1.. {
        let schedules: Vec<Schedule> =
            (1..=8).map(|then| collect_beside_a_commit(at, then)).collect();
        met += schedules.iter().filter(|schedule| **schedule == Schedule::Met).count();
        if schedules.contains(&Schedule::Over) {
            break;
        }
    }
    assert!(met > 3, "a collection ended in the middle of {met} commits");
}
