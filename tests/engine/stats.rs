//! The sizes of the parts of a store: no byte is counted twice, and none is missing.

use turntree::context::Shape;
use turntree::maintenance::{
    Policy, Purpose, Scope, SessionStats, Stats, StorageUsage, collect, set_policy, stats,
};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::repo::{BranchName, NewPin, Repository};
use turntree::store::Tier;
use turntree::tree::{Link, List, Map};
use turntree_tests::{Sandbox, claude_code, stamp};

/// Three sessions, two of which share much content, a fork, a pin and some garbage.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (session, turns) in [("long", 40), ("longer", 60), ("short", 3)] {
        sandbox.import(session, claude_code(turns).as_bytes()).unwrap();
    }
    let repo = &sandbox.repo;
    let early = repo.resolve("long~20").unwrap().commit;
    let mut change = repo.begin();
    change.move_branch(&BranchName::new("long", "fork").unwrap(), Some(early));
    change.pin(&early, NewPin::default(), &stamp(2)).unwrap();
    change.write(Kind::Blob, "unreferenced".into()).unwrap();
    change.commit(&stamp(2), "fork").unwrap();
    sandbox
}

fn look(repo: &Repository, session: Option<&str>) -> Stats {
    stats(repo, session, stamp(3).time).unwrap()
}

fn session<'s>(stats: &'s Stats, name: &str) -> &'s SessionStats {
    stats.sessions.iter().find(|found| found.session == name).unwrap()
}

/// The bytes of every entry of a context except those of the transcript.
fn full_copy(repo: &Repository, commit: &ObjectId) -> u64 {
    let store = repo.store();
    let size = |link: Link| store.read_as(link.kind, &link.id).unwrap().len() as u64;
    let mut sum = 0;
    for (name, section) in repo.context(commit).unwrap().sections(store).unwrap() {
        let blob = Link { kind: Kind::Blob, id: section.id };
        sum += match section.shape {
            _ if name == "source" => 0,
            Shape::Blob => size(blob),
            Shape::List => {
                let list = List::open(store, &section.id).unwrap();
                list.iter(store, 0..list.len()).map(|item| size(item.unwrap().link)).sum()
            }
            Shape::Map => {
                let map = Map::open(store, &section.id).unwrap();
                map.iter(store).map(|entry| size(entry.unwrap().1.link)).sum()
            }
        };
    }
    sum
}

fn history(repo: &Repository, session: &str) -> Vec<ObjectId> {
    let tip = repo.resolve(session).unwrap().commit;
    repo.history(&[tip], &[]).unwrap().map(|entry| entry.unwrap().id).collect()
}

fn objects(stats: &Stats) -> u64 {
    let mut all = StorageUsage::default();
    stats.sessions.iter().for_each(|session| all.add(session.total()));
    all.add(stats.operations);
    all.add(stats.other);
    all.objects + stats.garbage.objects
}

#[test]
fn every_object_is_counted_once_in_any_file() {
    let sandbox = sandbox();
    let journal = look(&sandbox.repo, None);
    assert_eq!(objects(&journal), sandbox.repo.summary().unwrap().objects as u64);
    assert_eq!(journal.garbage.objects, 1);
    let purpose = Purpose::Repack(Tier::Compacted);
    collect(&sandbox.repo, purpose, &stamp(3), &mut |_| ()).unwrap();
    let packed = look(&sandbox.repo, None);
    assert_eq!(objects(&packed), sandbox.repo.summary().unwrap().objects as u64);
    assert_eq!(packed.garbage.objects, 0);
    for (before, after) in journal.sessions.iter().zip(&packed.sessions) {
        let raw = |usage: StorageUsage| (usage.objects, usage.raw_bytes);
        assert_eq!(raw(before.total()), raw(after.total()));
        assert_eq!(raw(before.shared), raw(after.shared));
    }
}

#[test]
fn shared_content_counts_for_the_first_and_the_requested_session() {
    let sandbox = sandbox();
    let all = look(&sandbox.repo, None);
    let (long, longer) = (session(&all, "long"), session(&all, "longer"));
    assert!(long.shared.raw_bytes > longer.shared.raw_bytes);
    let alone = look(&sandbox.repo, Some("longer"));
    assert_eq!(alone.sessions.len(), 1);
    let asked = session(&alone, "longer");
    assert!(asked.total().objects > longer.total().objects);
    assert!(asked.shared.objects >= long.shared.objects);
    assert!(alone.largest.iter().all(|large| large.session == "longer"));
    let unknown = stats(&sandbox.repo, Some("missing"), stamp(3).time).unwrap_err();
    assert_eq!(unknown.kind(), turntree::ErrorKind::NotFound);
}

#[test]
fn full_copy_sizes_equal_the_sum_of_the_contexts() {
    let sandbox = sandbox();
    let found = look(&sandbox.repo, None);
    for name in ["long", "longer", "short"] {
        let commits = history(&sandbox.repo, name);
        let session = session(&found, name);
        assert_eq!(session.turns, commits.len() as u64);
        let copies: u64 = commits.iter().map(|id| full_copy(&sandbox.repo, id)).sum();
        assert_eq!(session.full_bytes, copies, "{name}");
        assert!(session.per_message_bytes >= copies, "{name}");
    }
    assert_eq!((session(&found, "long").branches, session(&found, "long").pins), (2, 1));
}

#[test]
fn gc_frees_the_announced_bytes_and_elides_the_turns() {
    let sandbox = sandbox();
    let mut change = sandbox.repo.begin();
    let policy = Policy { keep_last: Some(5), ..Policy::default() };
    set_policy(&mut change, Scope::Session("longer"), &policy).unwrap();
    change.commit(&stamp(2), "retention").unwrap();
    let before = look(&sandbox.repo, None);
    let (expiring, turns) = (session(&before, "longer").expiring, session(&before, "longer").turns);
    assert!(expiring > 0 && before.expiring.objects > 0);
    let done = collect(&sandbox.repo, Purpose::Gc, &stamp(3), &mut |_| ()).unwrap();
    assert_eq!(done.expired_turns, expiring);
    assert_eq!(done.freed.objects, before.expiring.objects + before.garbage.objects);
    let after = look(&sandbox.repo, None);
    let longer = session(&after, "longer");
    assert_eq!((longer.turns, longer.elided, longer.expiring), (turns - expiring, expiring, 0));
    assert_eq!((after.expiring.objects, after.garbage.objects), (0, 0));
}
