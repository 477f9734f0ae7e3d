//! Bundles carry sessions from store to store, and incomplete or forged bundles are refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use turntree::ErrorKind;
use turntree::maintenance::{Policy, Purpose, Scope, collect, fsck, set_policy};
use turntree::object::{ObjectId, ObjectSource, RefValue, Time};
use turntree::repo::{BranchName, NewPin, Repository, SessionLabels, SnapshotDraft};
use turntree::store::{Access, FindingKind, Io, NewStore, OpenOptions, RealIo, Thoroughness, Tier};
use turntree::transfer::bundle::{
    Bundle, BundleRequest, RefFate, UnbundleOptions, Unbundled, plan_bundle, plan_unbundle,
    unbundle,
};
use turntree_tests::oracle::DIR;
use turntree_tests::random_history::{RandomHistory, steps};
use turntree_tests::sample::{self, Sample};
use turntree_tests::sim::{Fault, Keep, SimDisk};
use turntree_tests::{Sandbox, commit_note, recorded_sessions, stamp};

/// Bundles are compressed at the fastest tier. The format is the same.
const TIER: Tier = Tier::Hot;

fn session(name: &str) -> Vec<BundleRequest> {
    vec![BundleRequest::Session(name.to_owned())]
}

/// Makes a bundle and returns its bytes.
fn bundle(repo: &Repository, wanted: &[BundleRequest], without: &[ObjectId]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b");
    let plan = plan_bundle(repo, wanted, without).unwrap();
    plan.write(repo, TIER, &RealIo.create(&path).unwrap()).unwrap();
    let (done, all) = repo.store().packing().count();
    assert_eq!(done, all, "progress ends at its total");
    std::fs::read(path).unwrap()
}

/// Opens a bundle with these bytes.
fn open(bytes: &[u8]) -> turntree::Result<Bundle> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b");
    std::fs::write(&path, bytes).unwrap();
    Bundle::open(Arc::new(RealIo.open(&path, Access::Read).unwrap()))
}

fn take_in(repo: &Repository, bytes: &[u8]) -> turntree::Result<Unbundled> {
    unbundle(repo, &open(bytes)?, &UnbundleOptions::default(), &stamp(100))
}

/// Every entry of every turn reachable from the branches of a session, and the refs.
type Seen = (BTreeMap<String, RefValue>, BTreeMap<ObjectId, BTreeMap<String, Vec<ObjectId>>>);

fn seen(repo: &Repository) -> Seen {
    let refs = repo.refs();
    let is_own = |name: &str| !name.starts_with("refs/retention") && name != "HEAD";
    let own = refs.values.iter().filter(|(name, _)| is_own(name));
    let values: BTreeMap<_, _> =
        own.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let starts: Vec<ObjectId> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    let mut turns = BTreeMap::new();
    for entry in repo.history(&starts, &[]).unwrap() {
        let id = entry.unwrap().id;
        let mut sections = BTreeMap::new();
        match repo.context(&id) {
            Ok(context) => {
                for (name, section) in context.sections(repo).unwrap() {
                    sections.insert(name, vec![section.id]);
                }
            }
            Err(error) => {
                sections.insert(format!("{:?}", error.kind()), Vec::new());
            }
        }
        turns.insert(id, sections);
    }
    (values, turns)
}

/// Checks that nothing is damaged, and that every object reachable from refs exists.
fn assert_sound(repo: &Repository) {
    let found = fsck(repo, Thoroughness::Full, Time::default(), &mut |_, _| {}).unwrap();
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    assert!(repo.findings().iter().all(|found| found.kind != FindingKind::Damage));
}

turntree_properties::properties! {
    cases = 12;

    #[test]
    fn a_bundle_brings_every_turn_and_ref_into_an_empty_store(steps in steps()) {
        let history = RandomHistory::new(&steps);
        let repo = &history.sandbox.repo;
        let bytes = bundle(repo, &session("s"), &[]);
        prop_assert!(bytes == bundle(repo, &session("s"), &[]), "the same turns, the same bytes");
        let target = Sandbox::new();
        let done = take_in(&target.repo, &bytes).unwrap();
        prop_assert!(done.plan.refs.iter().all(|planned| planned.fate == RefFate::New));
        prop_assert_eq!(seen(repo), seen(&target.repo));
        assert_sound(&target.repo);

        let operation = target.repo.refs().operation;
        let again = take_in(&target.repo, &bytes).unwrap();
        prop_assert_eq!((again.operation, again.plan.new_objects), (None, 0));
        prop_assert_eq!(target.repo.refs().operation, operation, "again is nothing");
    }

    #[test]
    fn a_chain_of_increments_is_as_good_as_the_whole(steps in steps(), cut: prop::sample::Index) {
        let history = RandomHistory::new(&steps);
        let repo = &history.sandbox.repo;
        let first = history.turns[cut.index(history.turns.len())].id;
        let old = bundle(repo, &[BundleRequest::Commit(first)], &[]);
        let Ok(plan) = plan_bundle(repo, &session("s"), &[first]) else { return Ok(()) };
        prop_assert!(plan.manifest.prerequisites.iter().any(|known| known.commit.0 == first));
        let new = bundle(repo, &session("s"), &[first]);

        let target = Sandbox::new();
        let error = take_in(&target.repo, &new).unwrap_err();
        prop_assert_eq!(error.kind(), ErrorKind::NotFound);
        prop_assert!(error.to_string().contains(&first.to_string()), "{}", error);
        prop_assert_eq!(target.repo.refs().operation, None);
        take_in(&target.repo, &old).unwrap();
        // Other branches may need turns that the first bundle does not contain.
        let missing = plan_unbundle(&target.repo, &open(&new).unwrap(), &Default::default());
        prop_assume!(missing.unwrap().missing.is_empty());
        take_in(&target.repo, &new).unwrap();
        let (mut refs, turns) = seen(&target.repo);
        refs.retain(|name, _| !name.contains("/turn-"));
        prop_assert_eq!((refs, turns), seen(repo));
        assert_sound(&target.repo);
    }

    #[test]
    fn unbundling_keeps_existing_content_and_one_undo_reverts_it(
        ours in steps(), theirs in steps(), name in prop::sample::select(vec!["s", "other"]),
    ) {
        let (ours, theirs) = (RandomHistory::new(&ours), RandomHistory::new(&theirs));
        let (target, source) = (&ours.sandbox.repo, &theirs.sandbox.repo);
        let before = seen(target);
        let options = UnbundleOptions { session: Some(name.to_owned()), ..UnbundleOptions::default() };
        let bytes = bundle(source, &session("s"), &[]);
        let done = unbundle(target, &open(&bytes).unwrap(), &options, &stamp(100)).unwrap();
        let after = seen(target);
        for (id, turn) in &before.1 {
            prop_assert_eq!(after.1.get(id), Some(turn));
        }
        for (id, turn) in seen(source).1 {
            prop_assert_eq!(after.1.get(&id), Some(&turn));
        }
        for planned in &done.plan.refs {
            let held = before.0.get(&planned.becomes);
            prop_assert!(held.is_none() || planned.fate != RefFate::New, "{:?}", planned);
        }
        assert_sound(target);
        if let Some(operation) = target.operations().next().filter(|_| done.operation.is_some()) {
            let plan = target.plan_undo(operation.unwrap()).unwrap();
            target.undo(&plan, &stamp(101), "undo").unwrap();
            prop_assert_eq!(seen(target), before, "one undo takes all of it back");
        }
    }
}

#[test]
fn unbundling_fast_forwards_branches_and_renames_diverged_ones() {
    let (source, target) = (Sandbox::new(), Sandbox::new());
    let turn = |repo: &Repository, text: &str| {
        commit_note(repo, &BranchName::main("s").unwrap(), ("say", text), &stamp(1));
    };
    turn(&source.repo, "one");
    let first = bundle(&source.repo, &session("s"), &[]);
    turn(&source.repo, "two");
    let second = bundle(&source.repo, &session("s"), &[]);
    take_in(&target.repo, &first).unwrap();
    let fates = |done: &Unbundled| {
        let refs = done.plan.refs.iter();
        refs.map(|planned| (planned.becomes.clone(), planned.fate)).collect::<Vec<_>>()
    };
    let main = || "refs/heads/s/main".to_owned();
    assert_eq!(fates(&take_in(&target.repo, &second).unwrap()), [(main(), RefFate::Forward)]);
    assert_eq!(fates(&take_in(&target.repo, &first).unwrap()), [(main(), RefFate::Known)]);
    turn(&target.repo, "ours");
    turn(&source.repo, "theirs");
    let third = bundle(&source.repo, &session("s"), &[]);
    for fate in [RefFate::New, RefFate::Known] {
        let done = take_in(&target.repo, &third).unwrap();
        assert_eq!(fates(&done), [("refs/heads/s/main-2".to_owned(), fate)]);
    }
    assert_sound(&target.repo);
}

#[test]
fn expired_turns_stay_expired_in_bundles() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    for second in 1..=640 {
        let mut change = repo.begin();
        let mut context = turntree::context::Builder::new();
        let value = Some(second.to_string().into());
        context.set_entry(&mut change, "scratchpad", "turn", value).unwrap();
        let tree = context.write(&mut change).unwrap();
        let branch = BranchName::main("long").unwrap();
        let id = change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp(second))).unwrap();
        if second == 3 {
            change.pin(&id, NewPin::default(), &stamp(second)).unwrap();
        }
        change.commit(&stamp(second), "turn").unwrap();
    }
    let mut change = repo.begin();
    let policy = Policy { keep_last: Some(5), ..Policy::default() };
    set_policy(&mut change, Scope::Session("long"), &policy).unwrap();
    change.commit(&stamp(641), "policy").unwrap();
    // The first collection expires turns, the second forgets the oldest of them.
    for _ in 0..2 {
        collect(repo, Purpose::Gc, &stamp(642), &mut |_| {}).unwrap();
    }
    let plan = plan_bundle(repo, &session("long"), &[]).unwrap();
    assert!(plan.manifest.sessions[0].elided > 400, "{:?}", plan.manifest.sessions);
    assert!(!plan.manifest.grafts.is_empty());

    let target = Sandbox::new();
    let bytes = bundle(repo, &session("long"), &[]);
    take_in(&target.repo, &bytes).unwrap();
    assert_sound(&target.repo);
    let (mut from, to) = (seen(repo), seen(&target.repo));
    from.0.retain(|name, _| name != "refs/maintenance/grafts");
    let mut held = to.0.clone();
    held.remove("refs/maintenance/grafts");
    assert_eq!((from.0, from.1), (held, to.1));
    let old = target.repo.find_turn(&target.repo.resolve("long").unwrap().commit, 400).unwrap();
    assert_eq!(target.repo.context(&old).unwrap_err().kind(), ErrorKind::Expired);
    collect(&target.repo, Purpose::Gc, &stamp(700), &mut |_| {}).unwrap();
    assert_sound(&target.repo);
    assert_eq!(take_in(&target.repo, &bytes).unwrap().operation, None);
}

/// A small store with objects of every kind, and a bundle of it.
fn sample() -> (Repository, Vec<u8>) {
    let disk = Sample::small(9).disk;
    let repo = sample::open(&disk, 7);
    let sessions = repo.branches().into_iter().map(|(branch, _)| branch.session().to_owned());
    let wanted: Vec<BundleRequest> = sessions.map(BundleRequest::Session).collect();
    let file = SimDisk::new(Path::new("/out")).create(Path::new("/out/b")).unwrap();
    plan_bundle(&repo, &wanted, &[]).unwrap().write(&repo, TIER, &file).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    (repo, bytes)
}

#[test]
fn changed_bytes_and_truncations_of_bundles_are_rejected() {
    let mut history = RandomHistory::new(&[]);
    for n in 0..4 {
        let parents = history.tips.get("main").copied().into_iter().collect();
        let mut content = turntree_tests::random_history::Content::default();
        content.notes.insert("a".into(), format!("note {n}"));
        content.messages.push("hello".repeat(n));
        history.add("main", parents, content);
    }
    let bytes = bundle(&history.sandbox.repo, &session("s"), &[]);
    open(&bytes).unwrap().verify(None).unwrap();
    let refused = |bytes: &[u8]| open(bytes).and_then(|bundle| bundle.verify(None)).is_err();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(refused(&flipped), "byte {at} of {}", bytes.len());
        assert!(refused(&bytes[..at]), "the first {at} bytes");
    }
    assert!(refused(&[bytes.as_slice(), b"x"].concat()));
    let target = Sandbox::new();
    let mut flipped = bytes.clone();
    let at = flipped.len() - 400;
    flipped[at] ^= 1;
    assert_eq!(take_in(&target.repo, &flipped).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(target.repo.summary().unwrap().objects, 0, "nothing was written");
}

#[test]
fn complete_bundles_verify_within_their_limits() {
    let (repo, bytes) = sample();
    let bundle = open(&bytes).unwrap();
    let contents = bundle.verify(None).unwrap();
    assert_eq!(contents.raw_bytes, bundle.raw_bytes());
    let error = bundle.verify(Some(bundle.raw_bytes() - 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let target = Sandbox::new();
    unbundle(&target.repo, &bundle, &UnbundleOptions::default(), &stamp(100)).unwrap();
    assert_sound(&target.repo);
    assert_eq!(seen(&repo).1, seen(&target.repo).1);
}

#[test]
fn written_bundles_are_complete_and_durable_or_the_write_fails() {
    let history = {
        let mut history = RandomHistory::new(&[]);
        let mut content = turntree_tests::random_history::Content::default();
        content.files.insert("f".into(), "line\n".repeat(100));
        history.add("main", Vec::new(), content);
        history
    };
    let repo = &history.sandbox.repo;
    let plan = plan_bundle(repo, &session("s"), &[]).unwrap();
    let path = Path::new("/out/b");
    let read = |disk: &SimDisk| {
        let file = disk.open(path, Access::Read).unwrap();
        Bundle::open(Arc::new(file)).unwrap().verify(None).unwrap();
    };
    let mut failed = 0;
    for fault in [Fault::FailAt, Fault::CrashAt, Fault::FlipAt] {
        for at in 1.. {
            let disk = SimDisk::new(Path::new("/out"));
            let file = disk.create(path).unwrap();
            disk.sync_dir(Path::new("/out")).unwrap();
            disk.arm(fault(at));
            let made = plan.write(repo, TIER, &file);
            if !disk.triggered() {
                break;
            }
            disk.arm(Fault::None);
            failed += u32::from(made.is_err());
            if made.is_ok() {
                read(&disk);
                read(&disk.crash(Keep::Nothing));
            }
        }
    }
    assert!(failed > 4, "{failed}");
}

#[test]
fn failed_unbundling_keeps_refs_and_can_be_repeated() {
    let (_, bytes) = sample();
    let bundle = open(&bytes).unwrap();
    for at in (1..).step_by(3) {
        let disk = SimDisk::new(Path::new("/disk"));
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let new = NewStore { id: [1; 16] };
        let options = OpenOptions::new([3; 16]);
        let repo = Repository::init(Arc::clone(&io), Path::new(DIR), &new, options).unwrap();
        disk.arm(Fault::FailAt(at));
        let options = UnbundleOptions::default();
        let done = unbundle(&repo, &bundle, &options, &stamp(100));
        let triggered = disk.triggered();
        disk.arm(Fault::None);
        drop(repo);
        let disk = disk.crash(Keep::Nothing);
        let repo = sample::open(&disk, 4);
        assert!(done.is_err() || !repo.branches().is_empty(), "call {at}");
        unbundle(&repo, &bundle, &options, &stamp(101)).unwrap();
        assert_sound(&repo);
        if !triggered {
            break;
        }
    }
}

#[test]
fn recorded_sessions_round_trip_through_bundles() {
    let Some(file) = recorded_sessions()
        .into_iter()
        .min_by_key(|file| std::fs::metadata(file).map_or(u64::MAX, |found| found.len()))
    else {
        eprintln!("skipped: no recorded sessions beside the project, nor in TURNTREE_SESSIONS");
        return;
    };
    let (sandbox, target) = (Sandbox::new(), Sandbox::new());
    let recorded = std::fs::read(file).unwrap();
    sandbox.import("recorded", &recorded).unwrap();
    let bytes = bundle(&sandbox.repo, &session("recorded"), &[]);
    take_in(&target.repo, &bytes).unwrap();
    assert_eq!(seen(&sandbox.repo), seen(&target.repo));
    let head = target.repo.resolve("recorded").unwrap().commit;
    assert!(target.source(&head) == recorded, "the exported file has the same bytes");
    let blob = target.repo.commit(&head).unwrap().tree;
    assert!(target.repo.contains(&blob).unwrap());
}

#[test]
fn bundles_carry_titles_and_labels_without_overwriting_existing_ones() {
    let (theirs, ours) = (Sandbox::new(), Sandbox::new());
    let name = |repo: &Repository, title: Option<&str>, labels: &[&str]| {
        let mut change = repo.begin();
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let labels = SessionLabels { title: title.map(str::to_owned), labels };
        change.set_session_labels("a", &labels).unwrap();
        change.commit(&stamp(5), "name").unwrap();
    };
    commit_note(&theirs.repo, &"a/main".parse().unwrap(), ("k", "one"), &stamp(1));
    commit_note(&theirs.repo, &"b/main".parse().unwrap(), ("k", "two"), &stamp(2));
    let plain = bundle(&theirs.repo, &session("a"), &[]);
    name(&theirs.repo, Some("the parser"), &["draft"]);
    let named = bundle(&theirs.repo, &session("a"), &[]);
    assert!(bundle(&theirs.repo, &session("b"), &[]).len() < named.len(), "of no other session");

    // Only the title is new.
    take_in(&ours.repo, &plain).unwrap();
    let done = take_in(&ours.repo, &named).unwrap();
    assert_eq!(done.plan.labels[0].title.as_deref(), Some("the parser"));
    let known = |repo: &Repository| {
        let labels = repo.session_labels("a").unwrap();
        (labels.title.unwrap_or_default(), labels.labels.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(known(&ours.repo), ("the parser".to_owned(), vec!["draft".to_owned()]));
    assert_eq!(take_in(&ours.repo, &named).unwrap().operation, None);
    // One undo removes them.
    let plan = ours.repo.plan_undo(ours.repo.undoable(None).unwrap().unwrap()).unwrap();
    ours.repo.undo(&plan, &stamp(6), "undo").unwrap();
    name(&ours.repo, Some("my words"), &["mine"]);
    let done = take_in(&ours.repo, &named).unwrap();
    assert_eq!((&done.plan.labels[0].title, done.plan.labels[0].labels.len()), (&None, 1));
    let expected = vec!["draft".to_owned(), "mine".to_owned()];
    assert_eq!(known(&ours.repo), ("my words".to_owned(), expected));
    // An invalid label makes the reader refuse the whole bundle.
    let text = named.windows(5).position(|it| it == b"draft").unwrap();
    let mut broken = named.clone();
    broken[text] = b',';
    assert!(open(&broken).and_then(|bundle| bundle.verify(None)).is_err());
}
