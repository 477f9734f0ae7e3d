//! A bundle records the operations on its branches, with author and reason, and nothing of other
//! sessions.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::object::{ObjectId, RefValue, Writer};
use turntree::repo::{BranchName, NewPin, Repository, SnapshotDraft};
use turntree::store::{Access, BundleDraft, BundleFile, Expected, Io, IoFile, PackItem, Tier};
use turntree::transfer::bundle::{
    Bundle, BundleRequest, BundledOperation, Held, UnbundleOptions, plan_bundle, unbundle,
};
use turntree_tests::sim::SimDisk;
use turntree_tests::{Sandbox, commit_note, stamp};

const TIER: Tier = Tier::Archive;

fn session(name: &str) -> Vec<BundleRequest> {
    vec![BundleRequest::Session(name.to_owned())]
}

fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

/// Commits one turn on a branch as its own operation.
fn turn(repo: &Repository, name: &str, second: i64) -> ObjectId {
    let text = format!("{name} {second}");
    commit_note(repo, &branch(name), ("turn", &text), &stamp(second))
}

/// Moves branches, or deletes them, in one operation.
fn move_branches(repo: &Repository, moves: &[(&str, Option<ObjectId>)], reason: &str) {
    let mut change = repo.begin();
    for (name, to) in moves {
        change.move_branch(&branch(name), *to);
    }
    change.commit(&stamp(50), reason).unwrap();
}

fn undo_last(repo: &Repository, reason: &str) {
    let last = repo.operations().next().unwrap().unwrap();
    repo.undo(&repo.plan_undo(last).unwrap(), &stamp(60), reason).unwrap();
}

/// Makes a bundle in memory.
fn bundle(repo: &Repository, wanted: &[BundleRequest], without: &[ObjectId]) -> (SimDisk, Bundle) {
    let disk = SimDisk::new(Path::new("/out"));
    let plan = plan_bundle(repo, wanted, without).unwrap();
    let file = disk.create(Path::new("/out/b")).unwrap();
    plan.write(repo, TIER, &file).unwrap();
    (disk, Bundle::open(Arc::new(file)).unwrap())
}

fn told(bundle: &Bundle) -> Vec<BundledOperation> {
    let operations = bundle.operations(&bundle.verify(None).unwrap()).unwrap();
    assert_eq!(bundle.manifest().operations, operations.len() as u64);
    operations
}

/// The changes of an operation with the names of their refs.
fn changes(operation: &BundledOperation) -> Vec<(&str, Option<Held>, Option<Held>)> {
    operation.changes.iter().map(|it| (it.name.as_str(), it.old, it.new)).collect()
}

/// A commit that the bundle contains.
#[expect(clippy::unnecessary_wraps, reason = "a ref may hold nothing")]
fn here(id: ObjectId) -> Option<Held> {
    Some(Held::Object(id))
}

const MAIN: &str = "refs/heads/work/main";

#[test]
fn bundles_record_rewinds_undos_and_abandoned_turns() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let turns = [1, 2, 3].map(|second| turn(repo, "work/main", second));
    turn(repo, "other/main", 4);
    move_branches(repo, &[("work/main", Some(turns[0]))], "rollback work/main");
    undo_last(repo, "undo 5: rollback work/main");
    move_branches(repo, &[("work/main", Some(turns[1]))], "rollback work/main");
    let last = turn(repo, "work/main", 8);

    let (_disk, bundle) = bundle(repo, &session("work"), &[]);
    let told = told(&bundle);
    let numbers: Vec<u64> = told.iter().map(|operation| operation.sequence).collect();
    assert_eq!(numbers, [1, 2, 3, 5, 6, 7, 8], "the fourth was about another session");
    let [.., rewind, undo, again, newest] = told.as_slice() else { unreachable!() };
    // The bundle omits the third turn, but records what happened to it.
    assert!(!bundle.manifest().refs.values().any(|value| value.id.0 == turns[2]));
    let gone = Some(Held::Abandoned(*turns[2].as_bytes().first_chunk().unwrap()));
    assert_eq!(changes(rewind), [(MAIN, gone, here(turns[0]))]);
    assert_eq!((undo.undoes, &*undo.reason), (Some(5), "undo 5: rollback work/main"));
    assert_eq!(changes(undo), [(MAIN, here(turns[0]), gone)]);
    assert_eq!(changes(again), [(MAIN, gone, here(turns[1]))]);
    assert_eq!(changes(newest), [(MAIN, here(turns[1]), here(last))]);
    assert_eq!((newest.time_micros, &*newest.actor), (8_000_000, "somebody"));
    assert_eq!(changes(&told[0]), [(MAIN, None, here(turns[0]))]);
}

#[test]
fn bundles_record_operations_on_deleted_and_renamed_branches() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let first = turn(repo, "work/main", 1);
    move_branches(repo, &[("work/old", Some(first))], "fork work/old");
    let mut change = repo.begin();
    change.rename_branch(&branch("work/old"), &branch("work/new")).unwrap();
    change.commit(&stamp(3), "branch work/old renamed to work/new").unwrap();
    let mut change = repo.begin();
    let pin = NewPin { name: Some("keep".to_owned()), ..NewPin::default() };
    change.pin(&first, pin, &stamp(4)).unwrap();
    change.commit(&stamp(4), "pin keep").unwrap();
    let mut change = repo.begin();
    let pin = repo.refs().value("refs/pins/keep").unwrap().clone();
    change.set_ref("refs/pins/keep", Expected::Value(pin), None);
    change.commit(&stamp(5), "unpin keep").unwrap();
    move_branches(repo, &[("work/new", None)], "delete work/new");

    let (_disk, bundle) = bundle(repo, &session("work"), &[]);
    let told = told(&bundle);
    let reasons: Vec<&str> = told.iter().map(|operation| &*operation.reason).collect();
    let renamed = "branch work/old renamed to work/new";
    let all = ["snapshot", "fork work/old", renamed, "pin keep", "unpin keep", "delete work/new"];
    assert_eq!(reasons, all);
    let (old, new) = ("refs/heads/work/old", "refs/heads/work/new");
    assert_eq!(changes(&told[2]), [(new, None, here(first)), (old, here(first), None)]);
    assert_eq!(changes(&told[4])[0].2, None);
    assert_eq!(changes(&told[5]), [(new, here(first), None)]);
}

#[test]
fn bundles_contain_no_names_of_other_sessions() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let (own, foreign) = (turn(repo, "work/main", 1), turn(repo, "secret/main", 2));
    let both = [("work/side", Some(own)), ("secret/hidden", Some(foreign))];
    move_branches(repo, &both, "fork work/side, secret/hidden");
    let mut change = repo.begin();
    change.switch(&branch("secret/main"));
    change.move_branch(&branch("work/side"), None);
    change.commit(&stamp(4), "delete work/side and go to secret/main").unwrap();
    let mut change = repo.begin();
    for (name, id) in [("ours", own), ("secret-tag", foreign)] {
        change.tag(name, &id, "secret".repeat(usize::from(id == foreign)), &stamp(5)).unwrap();
    }
    change.commit(&stamp(5), "tag ours, secret-tag").unwrap();
    // The tag pointed to another session before.
    let moved = |from: Option<ObjectId>, to, reason: &str| {
        let mut change = repo.begin();
        let before = from.map_or(Expected::Absent, |id| Expected::Value(RefValue::Object(id)));
        change.set_ref("refs/tags/best", before, Some(RefValue::Object(to)));
        change.commit(&stamp(6), reason).unwrap();
    };
    moved(None, foreign, "tag best");
    moved(Some(foreign), own, "update-ref refs/tags/best");
    undo_last(repo, "undo 7: of 'secret'");
    moved(Some(foreign), own, "redo");

    let (disk, bundle) = bundle(repo, &session("work"), &[]);
    let file = disk.open(Path::new("/out/b"), Access::Read).unwrap();
    let raw = BundleFile::open(Arc::new(file)).unwrap().operations().unwrap();
    assert!(!raw.windows(6).any(|bytes| bytes == b"secret"), "a name of another session");
    let reasons: Vec<String> = told(&bundle).into_iter().map(|it| it.reason).collect();
    let shared = ["fork", "delete", "tag", "update-ref refs/tags/best", "undo", "redo"];
    assert_eq!(reasons[0], "snapshot");
    assert_eq!(&reasons[1..], shared);
    assert!(!bundle.manifest().refs.keys().any(|name| name.contains("secret")));

    // A bundle of one branch has no operations of other branches.
    turn(repo, "work/plan", 20);
    let (_disk, bundle) = self::bundle(repo, &[BundleRequest::Branch(branch("work/main"))], &[]);
    let told = told(&bundle);
    let names: Vec<&str> = told.iter().flat_map(changes).map(|(name, ..)| name).collect();
    assert_eq!(
        names,
        [MAIN, "refs/tags/ours", "refs/tags/best", "refs/tags/best", "refs/tags/best"]
    );
}

#[test]
fn incremental_bundles_contain_only_later_operations() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let turns = [1, 2, 3].map(|second| turn(repo, "work/main", second));
    move_branches(repo, &[("work/main", Some(turns[1]))], "rollback");
    turn(repo, "work/main", 5);
    turn(repo, "other/main", 6);
    let numbers = |wanted: &[BundleRequest], without: &[ObjectId]| -> Vec<u64> {
        let told = told(&bundle(repo, wanted, without).1);
        told.iter().map(|operation| operation.sequence).collect()
    };
    assert_eq!(numbers(&session("work"), &[turns[1]]), [3, 4, 5], "not how it came there");
    assert_eq!(numbers(&session("work"), &[]), [1, 2, 3, 4, 5]);
    let both = [session("work"), session("other")].concat();
    assert_eq!(numbers(&both, &[turns[1]]), [3, 4, 5, 6]);
    assert_eq!(numbers(&both, &[turns[0]]), [2, 3, 4, 5, 6]);
    // A bundle without refs has no operations.
    assert_eq!(numbers(&[BundleRequest::Commit(turns[1])], &[]), [0_u64; 0]);
    // No operation set a ref to the known commit, so the bundle has the operation that added its
    // own commits.
    let mut change = repo.begin();
    let mut ids = Vec::new();
    for second in 7..10 {
        let mut context = Builder::new();
        let value = Some(second.to_string().into());
        context.set_entry(&mut change, "scratchpad", "turn", value).unwrap();
        let tree = context.write(&mut change).unwrap();
        let snapshot = SnapshotDraft::new(tree, "", &stamp(second));
        ids.push(change.snapshot(&branch("work/main"), snapshot).unwrap());
    }
    change.commit(&stamp(10), "import work").unwrap();
    assert_eq!(numbers(&session("work"), &[ids[1]]), [7]);
}

#[test]
fn importing_a_bundle_is_one_operation() {
    let (source, target) = (Sandbox::new(), Sandbox::new());
    for second in 1..=5 {
        turn(&source.repo, "work/main", second);
    }
    let (_disk, bundle) = bundle(&source.repo, &session("work"), &[]);
    assert_eq!(told(&bundle).len(), 5);
    let repo = &target.repo;
    unbundle(repo, &bundle, &UnbundleOptions::default(), &stamp(70)).unwrap();
    let operations: Vec<_> = repo.operations().collect::<turntree::Result<_>>().unwrap();
    assert_eq!(operations.len(), 1);
    assert_eq!(operations[0].operation.reason, "unbundle work");
    undo_last(repo, "undo 1");
    assert!(repo.branches().is_empty(), "an undo takes the whole bundle back");
    assert!(repo.undoable(None).unwrap().is_none(), "and reaches into no other store");
}

#[test]
fn operations_of_a_thousand_turns_take_at_most_15_kilobytes() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    // Turns some seconds apart, at times that are not whole seconds.
    let mut micros = 1_700_000_000_000_000_i64;
    let mut tree = None;
    for n in 1..=1000_i64 {
        micros += 3_000_000 + (n * 7_919_173) % 60_000_000;
        let mut change = repo.begin();
        let tree = *tree.get_or_insert_with(|| {
            let mut context = Builder::new();
            context.set_entry(&mut change, "scratchpad", "a", Some("b".into())).unwrap();
            context.write(&mut change).unwrap()
        });
        let mut stamp = stamp(n);
        stamp.time.micros = micros;
        change.snapshot(&branch("work/main"), SnapshotDraft::new(tree, "", &stamp)).unwrap();
        change.commit(&stamp, "snapshot").unwrap();
    }
    let plan = plan_bundle(repo, &session("work"), &[]).unwrap();
    assert_eq!(plan.manifest.operations, 1000);
    let (disk, bundle) = bundle(repo, &session("work"), &[]);
    assert_eq!(told(&bundle).len(), 1000);
    let (_, bytes) = disk.files().into_iter().next().unwrap();
    let footer = &bytes[bytes.len() - 192..];
    let stored = u32::from_le_bytes(*footer[28..].first_chunk().unwrap());
    println!("{stored} bytes for 1000 operations");
    assert!(stored <= 15_000, "{stored} bytes");
}

/// The same bundle with other operations, and valid checksums.
fn forged(repo: &Repository, good: &BundleFile, operations: &[u8]) -> Arc<dyn IoFile> {
    let mut items = Vec::new();
    good.visit(&mut |id, object| {
        items.push(PackItem { id, kind: object.kind, placement: 0, cohort: 0 });
        Ok(())
    })
    .unwrap();
    let (front, outside, source) = (good.front(), good.outside(), repo);
    let draft = BundleDraft { front, items: &items, outside, operations, source, tier: TIER };
    let file: Arc<dyn IoFile> =
        SimDisk::new(Path::new("/out")).create(Path::new("/out/b")).unwrap();
    draft.write(&file).unwrap();
    file
}

/// True if the reader written from the specification alone accepts a bundle. `None` if it cannot
/// run.
fn independent(sandbox: &Sandbox, file: &Arc<dyn IoFile>) -> Option<bool> {
    let python = |arguments: &[&OsStr]| Command::new("python3").args(arguments).output();
    let needs = python(&["-c".as_ref(), "import blake3, cbor2, zstandard".as_ref()]);
    needs.ok().filter(|output| output.status.success())?;
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    let path = sandbox.folder().join("forged.bundle");
    std::fs::write(&path, bytes).unwrap();
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/bundle.py");
    Some(python(&["-B".as_ref(), reader.as_ref(), path.as_ref()]).unwrap().status.success())
}

#[test]
fn bundles_with_invalid_operations_are_rejected() {
    let (source, target) = (Sandbox::new(), Sandbox::new());
    turn(&source.repo, "work/main", 1);
    let (disk, bundle) = bundle(&source.repo, &session("work"), &[]);
    let file = disk.open(Path::new("/out/b"), Access::Read).unwrap();
    let good = BundleFile::open(Arc::new(file)).unwrap();
    let commit = bundle.manifest().refs[MAIN].id.0;
    let mut ordinal = 0;
    let mut at = 0;
    good.visit(&mut |id, _| {
        (ordinal, at) = (if id == commit { at } else { ordinal }, at + 1);
        Ok(())
    })
    .unwrap();
    let operations = |step: u64, name: &str, place: i64, count: usize| {
        let mut writer = Writer::new();
        writer.array(2).bytes(&[]).array(6 * count);
        for _ in 0..count {
            writer.uint(step).int(1_000_000).text("somebody").text("snapshot").uint(0);
            writer.array(3).text(name).int(0).int(place);
        }
        writer.finish()
    };
    let place = ordinal + 1;
    let true_one = forged(&source.repo, &good, &operations(1, MAIN, place, 1));
    assert_ne!(independent(&source, &true_one), Some(false));
    Bundle::open(Arc::new(true_one)).unwrap().verify(None).unwrap();
    let hostile = [
        operations(0, MAIN, place, 1),
        operations(1, "refs/heads/another/main", place, 1),
        operations(1, "refs/heads/work/\u{1b}[2J", place, 1),
        operations(1, MAIN, place + 1, 1),
        operations(1, MAIN, -place, 1),
        operations(1, MAIN, i64::MAX, 1),
        operations(1, MAIN, 1, 1),
        operations(1, MAIN, 0, 2),
        b"\x82\x40\x9b\xff\xff\xff\xff\xff\xff\xff\xfe".to_vec(),
        b"\x9f".to_vec(),
        Vec::new(),
        vec![0; 16 << 20],
    ];
    for bytes in &hostile {
        let forged = forged(&source.repo, &good, bytes);
        assert_ne!(independent(&source, &forged), Some(true));
        let forged = Bundle::open(Arc::new(forged)).unwrap();
        let error = forged.verify(None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let error = unbundle(&target.repo, &forged, &UnbundleOptions::default(), &stamp(9));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(target.repo.refs().operation, None);
    }
}
