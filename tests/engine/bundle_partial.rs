//! Importing a damaged bundle takes all that is whole and names the rest: for each damaged block,
//! and for a truncated bundle.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::FileMode;
use turntree::maintenance::fsck;
use turntree::object::{Kind, ObjectId, ObjectSource, Time};
use turntree::repo::{BranchName, Repository};
use turntree::store::{Io, IoFile, Thoroughness, Tier};
use turntree::transfer::bundle::{
    Bundle, BundleLosses, BundleRequest, LostRef, UnbundleOptions, plan_bundle, plan_unbundle,
    unbundle,
};
use turntree_tests::sim::{Random, SimDisk};
use turntree_tests::{Sandbox, commit_turn, stamp};

const TURNS: i64 = 24;

/// A session whose turns each write a file, with a fork in the middle and tags, and a second
/// session.
fn sample() -> Sandbox {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let mut random = Random(3);
    let mut turn = |name: &str, second: i64| {
        let branch: BranchName = name.parse().unwrap();
        let content: Vec<u8> = (0..4000).flat_map(|_| random.draw().to_le_bytes()).collect();
        commit_turn(repo, &branch, "turn", &stamp(second), |builder, sink| {
            let file = (FileMode::Regular, content.clone().into());
            builder.set_file(sink, &format!("data/{second}"), Some(file)).unwrap();
            let note = Some(format!("at {second}").into());
            builder.set_entry(sink, "scratchpad", "note", note).unwrap();
        });
        repo.tip(&branch).unwrap()
    };
    for second in 1..=TURNS {
        let id = turn("work/main", second);
        if second == 8 {
            let mut change = repo.begin();
            change.move_branch(&"work/plan".parse().unwrap(), Some(id));
            change.tag("begin", &id, "it works".into(), &stamp(second)).unwrap();
            change.commit(&stamp(second), "fork work/plan").unwrap();
        }
    }
    for second in TURNS + 1..=TURNS + 6 {
        turn("work/plan", second);
        turn("other/main", second + 10);
    }
    sandbox
}

/// The bytes of a bundle of both sessions, in small blocks.
fn bundled(repo: &Repository) -> Vec<u8> {
    let disk = SimDisk::new(Path::new("/out"));
    let wanted = ["work", "other"].map(|name| BundleRequest::Session(name.to_owned()));
    let plan = plan_bundle(repo, &wanted, &[]).unwrap();
    plan.write(repo, Tier::Hot, &disk.create(Path::new("/out/b")).unwrap()).unwrap();
    disk.files().into_iter().next().unwrap().1
}

fn file(bytes: &[u8]) -> Arc<dyn IoFile> {
    let file = SimDisk::new(Path::new("/out")).create(Path::new("/out/b")).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

fn open(bytes: &[u8]) -> turntree::Result<(Bundle, BundleLosses)> {
    Bundle::open_partial(Arc::new(file(bytes)), None)
}

/// Returns the offset and the kind of each frame.
fn frames(bytes: &[u8]) -> Vec<(usize, u8)> {
    let heads = (0..bytes.len() - 120).filter(|at| bytes[*at..].starts_with(b"\x89TTB\r\n\x1a\n"));
    heads.map(|at| (at, bytes[at + 28])).collect()
}

/// Imports the readable rest. Checks that it is whole and equals the source, and that the losses
/// are complete.
fn check(sandbox: &Sandbox, bytes: &[u8], place: &str) -> BTreeMap<String, u64> {
    let (bundle, losses) = open(bytes).unwrap_or_else(|error| panic!("{place}: {error}"));
    let target = Sandbox::new();
    let done = unbundle(&target.repo, &bundle, &UnbundleOptions::default(), &stamp(90)).unwrap();
    let found = fsck(&target.repo, Thoroughness::Full, Time::default(), &mut |_, _| {}).unwrap();
    assert!(found.findings.is_empty(), "{place}: {:?}", found.findings);
    let mut turns = BTreeMap::new();
    for (branch, tip) in target.repo.branches() {
        let was = sandbox.repo.tip(&branch).unwrap();
        let line = |from: &ObjectId| -> Vec<ObjectId> {
            let history = sandbox.repo.history(&[*from], &[]).unwrap();
            history.map(|entry| entry.unwrap().id).collect()
        };
        assert!(line(&was).contains(&tip), "{place}: {branch} is on another line");
        for id in line(&tip) {
            // fsck found every object whole. The commit is equal too.
            assert_eq!(target.repo.commit(&id).unwrap(), sandbox.repo.commit(&id).unwrap());
        }
        let turn = target.repo.commit(&tip).unwrap().turn;
        let lost = losses.refs.iter().find(|lost| lost.name == branch.full());
        assert_eq!(lost.is_some(), tip != was, "{place}: {branch}: {losses:?}");
        assert_eq!(lost.map_or(turn, |lost| lost.whole.unwrap()), turn, "{place}");
        turns.insert(branch.to_string(), turn);
    }
    let named = losses.refs.iter().filter(|lost| lost.whole.is_none()).count();
    assert_eq!(done.plan.refs.len() + named, 4, "{place}: three branches and a tag: {losses:?}");
    let is_branch = |lost: &LostRef| lost.name.starts_with("refs/heads/");
    let has_all = !losses.refs.iter().any(is_branch);
    assert_eq!(has_all, turns.values().sum::<u64>() == 24 + 14 + 6, "{place}");
    assert_eq!(losses.objects == 0, losses.refs.is_empty(), "{place}");
    // The import is one operation, and one undo reverts it.
    if let Some(last) = target.repo.operations().next() {
        assert_eq!(target.repo.operations().count(), 1);
        let plan = target.repo.plan_undo(last.unwrap()).unwrap();
        target.repo.undo(&plan, &stamp(91), "undo").unwrap();
        assert!(target.repo.branches().is_empty(), "{place}");
    }
    turns
}

#[test]
fn duplicated_frames_are_read_once() {
    let sandbox = sample();
    let bytes = bundled(&sandbox.repo);
    // The footer of the copy does not describe the whole file.
    let twice = [&bytes[..], &bytes].concat();
    let turns = check(&sandbox, &twice, "twice");
    assert_eq!(turns.values().sum::<u64>(), 24 + 14 + 6);
    // A limit of the bundle's own size suffices, so each frame is read once.
    let raw = Bundle::open(Arc::new(file(&bytes))).unwrap().raw_bytes();
    Bundle::open_partial(Arc::new(file(&twice)), Some(raw)).unwrap();
}

#[test]
fn damaged_blocks_keep_each_branch_up_to_the_first_affected_turn() {
    let sandbox = sample();
    let whole = bundled(&sandbox.repo);
    let blocks = frames(&whole);
    let mut of_blobs = Vec::new();
    for (at, holds) in &blocks {
        // In the stored bytes, and in the frame header.
        for byte in [130, 40] {
            let mut bytes = whole.clone();
            bytes[at + byte] ^= 1;
            let turns = check(&sandbox, &bytes, &format!("{at} + {byte}, which holds {holds}"));
            if *holds == Kind::Blob.code() {
                of_blobs.push(turns.get("work/main").copied().unwrap_or_default());
            }
        }
    }
    // Blobs are stored in the order of their turns: the later the damage, the more turns are whole.
    assert!(of_blobs.len() > 10 && of_blobs.is_sorted(), "{of_blobs:?}");
    assert!(of_blobs.first() < Some(&5) && of_blobs.last() >= Some(&20), "{of_blobs:?}");
}

#[test]
fn truncated_bundles_yield_the_content_before_the_cut() {
    let sandbox = sample();
    let whole = bundled(&sandbox.repo);
    let table = whole.len() - 192;
    // Without the footer and its table nothing is lost: the frames have the same information.
    for end in [table, table - 30] {
        let turns = check(&sandbox, &whole[..end], "without its footer");
        assert_eq!(turns.values().copied().collect::<Vec<_>>(), [6, 24, 14]);
    }
    // Without the commits, the blobs at the start belong to no ref.
    let (bundle, losses) = open(&whole[..whole.len() / 2]).unwrap();
    assert_eq!((bundle.manifest().refs.len(), losses.refs.len()), (0, 4));
    assert_eq!(losses.turns, 24 + 6 + 6);
    let target = Sandbox::new();
    let plan = plan_unbundle(&target.repo, &bundle, &UnbundleOptions::default()).unwrap();
    assert!(plan.is_empty());
}

#[test]
fn archive_blocks_never_hold_a_whole_session() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let branch = BranchName::main("work").unwrap();
    let mut random = Random(5);
    for second in 1..=60 {
        commit_turn(repo, &branch, "turn", &stamp(second), |builder, sink| {
            for part in 0..3 {
                let words = (0..1500).map(|_| format!("{:x} ", random.below(1 << 30)));
                let text = words.collect::<String>();
                let name = format!("notes/{second}-{part}");
                let file = (FileMode::Regular, text.into());
                builder.set_file(sink, &name, Some(file)).unwrap();
            }
        });
    }
    let disk = SimDisk::new(Path::new("/out"));
    let wanted = [BundleRequest::Session("work".to_owned())];
    let plan = plan_bundle(repo, &wanted, &[]).unwrap();
    plan.write(repo, Tier::Archive, &disk.create(Path::new("/out/b")).unwrap()).unwrap();
    let whole = disk.files().into_iter().next().unwrap().1;
    let mut kept = Vec::new();
    for (at, _) in frames(&whole).into_iter().filter(|(_, holds)| *holds == Kind::Blob.code()) {
        let mut bytes = whole.clone();
        bytes[at + 130] ^= 1;
        let (bundle, losses) = open(&bytes).unwrap();
        assert_eq!(losses.refs.len(), 1);
        kept.push(losses.refs[0].whole.unwrap_or_default());
        assert_eq!(
            bundle.manifest().sessions.iter().map(|it| it.turns).sum::<u64>(),
            kept[kept.len() - 1]
        );
    }
    assert!(kept.len() > 1 && kept.is_sorted() && kept.last() > Some(&15), "{kept:?}");
}

#[test]
fn intact_bundles_are_opened_without_losses() {
    let sandbox = sample();
    let bytes = bundled(&sandbox.repo);
    let (bundle, losses) = open(&bytes).unwrap();
    assert!(losses.is_none());
    let plain = Bundle::open(Arc::new(file(&bytes))).unwrap();
    assert_eq!(bundle.manifest(), plain.manifest());
    let target = Sandbox::new();
    let plan = |bundle| plan_unbundle(&target.repo, bundle, &UnbundleOptions::default()).unwrap();
    assert_eq!(plan(&bundle), plan(&plain));
}

#[test]
fn lost_turns_are_added_by_a_later_intact_bundle() {
    let sandbox = sample();
    let whole = bundled(&sandbox.repo);
    let mut blobs = frames(&whole).into_iter().filter(|(_, holds)| *holds == Kind::Blob.code());
    let (at, _) = blobs.next_back().unwrap();
    let mut damaged = whole.clone();
    damaged[at + 130] ^= 1;
    let target = Sandbox::new();
    for bytes in [&damaged, &whole] {
        let (bundle, _) = open(bytes).unwrap();
        unbundle(&target.repo, &bundle, &UnbundleOptions::default(), &stamp(90)).unwrap();
    }
    for (branch, tip) in sandbox.repo.branches() {
        assert_eq!(target.repo.tip(&branch), Some(tip), "{branch}");
    }
    assert!(target.repo.read(&sandbox.repo.resolve("work").unwrap().commit).is_ok());
}

#[test]
fn bundles_without_their_header_are_rejected() {
    let sandbox = sample();
    let whole = bundled(&sandbox.repo);
    let json = whole.windows(2).position(|pair| pair == b"\n{").unwrap();
    for at in [0, json + 40] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let kind = open(&bytes).unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::InvalidInput), "{at}: {kind:?}");
    }
}
