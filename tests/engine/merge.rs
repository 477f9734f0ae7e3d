//! Merges in a store: bases, races, expired turns, undo, and real conversations of two branches.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use turntree::ErrorKind;
use turntree::context::{
    Context, MergeSide, MessageEntry, MessagePolicy, Selection, Take, open_conflicts,
};
use turntree::maintenance::{Policy, Purpose, Scope, collect, fsck, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{
    BranchName, MergeKind, MergeReport, MergeRequest, Repository, Signature, SnapshotDraft,
};
use turntree::store::Thoroughness;
use turntree_exchange::formats::{tool_use, view};
use turntree_tests::{Sandbox, commit_turn, recorded_sessions, stamp};

fn branch(name: &str) -> BranchName {
    BranchName::new("s", name).unwrap()
}

/// Commits a turn that sets an entry of the scratchpad.
fn turn(repo: &Repository, name: &str, key: &str, value: &str, second: i64) -> ObjectId {
    let message = format!("{key} on {name}");
    commit_turn(repo, &branch(name), &message, &stamp(second), |context, change| {
        context.set_entry(change, "scratchpad", key, Some(value.to_owned().into())).unwrap();
    })
}

fn fork(repo: &Repository, name: &str, at: ObjectId) {
    let mut change = repo.begin();
    change.move_branch(&branch(name), Some(at));
    change.commit(&stamp(0), "fork").unwrap();
}

fn request(into: &BranchName, theirs: ObjectId) -> MergeRequest<'static> {
    MergeRequest {
        into: into.clone(),
        theirs,
        label: "theirs".to_owned(),
        messages: MessagePolicy::Append,
        only: Selection::default(),
        tools: &tool_use,
        message: None,
    }
}

fn merge(repo: &Repository, into: &str, theirs: ObjectId) -> turntree::Result<MergeReport> {
    let mut change = repo.begin();
    let merge = change.merge(&request(&branch(into), theirs), &stamp(1))?;
    if merge.kind != MergeKind::UpToDate {
        change.commit(&stamp(1), "merge")?;
    }
    Ok(merge)
}

fn entry(repo: &Repository, at: &ObjectId, path: &str) -> Option<String> {
    match repo.context(at).unwrap().lookup(repo, path) {
        Ok(turntree::context::PathTarget::Entry(item)) => {
            let bytes = repo.read_as(Kind::Blob, &item.link.id).unwrap();
            Some(String::from_utf8(bytes.to_vec()).unwrap())
        }
        _ => None,
    }
}

fn assert_sound(repo: &Repository) {
    let report = fsck(repo, Thoroughness::Full, stamp(9).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn merges_have_both_parents_and_are_not_repeated() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let start = turn(repo, "main", "start", "1", 1);
    fork(repo, "plan", start);
    let theirs = turn(repo, "plan", "plan", "2", 2);
    // The branch has no turns of its own, so it fast-forwards.
    fork(repo, "behind", start);
    let moved = merge(repo, "behind", theirs).unwrap();
    assert_eq!((moved.kind, moved.commit), (MergeKind::FastForward, theirs));

    let ours = turn(repo, "main", "own", "3", 3);
    let merged = merge(repo, "main", theirs).unwrap();
    assert_eq!((merged.kind, merged.base), (MergeKind::Merged, Some(start)));
    let commit = repo.commit(&merged.commit).unwrap();
    assert_eq!(commit.parents, [ours, theirs]);
    assert_eq!(commit.turn, 3);
    for (path, value) in [("scratchpad/own", "3"), ("scratchpad/plan", "2")] {
        assert_eq!(entry(repo, &merged.commit, path).as_deref(), Some(value));
    }
    let again = merge(repo, "main", theirs).unwrap();
    assert_eq!((again.kind, again.commit), (MergeKind::UpToDate, merged.commit));
    // The other branch fast-forwards to the merge.
    let back = merge(repo, "plan", merged.commit).unwrap();
    assert_eq!((back.kind, back.commit), (MergeKind::FastForward, merged.commit));
    assert_sound(repo);
}

#[test]
fn merges_can_take_a_part_first_and_the_rest_later() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let start = turn(repo, "main", "start", "1", 1);
    fork(repo, "plan", start);
    turn(repo, "plan", "a", "2", 2);
    let theirs = turn(repo, "plan", "b", "3", 3);
    let mut change = repo.begin();
    let only = Selection::below(&["scratchpad/a".to_owned()]);
    let part = change
        .merge(&MergeRequest { only, ..request(&branch("main"), theirs) }, &stamp(1))
        .unwrap();
    change.commit(&stamp(1), "merge").unwrap();
    assert_eq!(repo.commit(&part.commit).unwrap().parents, [start]);
    assert_eq!(entry(repo, &part.commit, "scratchpad/b"), None);
    let whole = merge(repo, "main", theirs).unwrap();
    assert_eq!(entry(repo, &whole.commit, "scratchpad/b").as_deref(), Some("3"));
    assert!(whole.report.unwrap().conflicts.is_empty(), "earlier messages are the same");
}

#[test]
fn unrelated_histories_can_be_merged() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    turn(repo, "main", "a", "1", 1);
    let other = turn(repo, "other", "b", "2", 2);
    let merged = merge(repo, "main", other).unwrap();
    assert_eq!((merged.kind, merged.base), (MergeKind::Merged, None));
    let (a, b) = ("scratchpad/a", "scratchpad/b");
    let values = [a, b].map(|path| entry(repo, &merged.commit, path));
    assert_eq!(values, [Some("1".to_owned()), Some("2".to_owned())]);
}

#[test]
fn concurrent_merges_conflict_and_can_be_retried() {
    let sandbox = Sandbox::new();
    let (one, two) = (&sandbox.repo, &sandbox.reopened());
    let start = turn(one, "main", "start", "1", 1);
    fork(one, "plan", start);
    let theirs = turn(one, "plan", "plan", "2", 2);
    turn(one, "main", "own", "3", 3);
    two.refresh().unwrap();
    let request = request(&branch("main"), theirs);
    let (mut first, mut second) = (one.begin(), two.begin());
    let merged = first.merge(&request, &stamp(4)).unwrap();
    second.merge(&request, &stamp(5)).unwrap();
    first.commit(&stamp(4), "merge").unwrap();
    let lost = second.commit(&stamp(5), "merge").unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Conflict);
    two.refresh().unwrap();
    assert_eq!(two.tip(&branch("main")), Some(merged.commit));
    let again = merge(two, "main", theirs).unwrap();
    assert_eq!(again.kind, MergeKind::UpToDate);
}

#[test]
fn expired_turns_cannot_be_merged() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let policy = Policy { keep_last: Some(1), ..Policy::default() };
    let mut change = repo.begin();
    set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
    change.commit(&stamp(0), "retention").unwrap();
    let line: Vec<ObjectId> =
        (1..60).map(|n| turn(repo, "main", "note", &n.to_string(), n)).collect();
    turn(repo, "side", "own", "1", 60);
    collect(repo, Purpose::Gc, &stamp(61), &mut |_| {}).unwrap();
    // Only contexts that the newest operations reference are kept for undo.
    let is_there = |id: &&ObjectId| repo.context(id).is_ok();
    let (old, kept) = (line[30], *line.iter().skip(1).find(is_there).unwrap());
    assert_eq!(repo.context(&old).unwrap_err().kind(), ErrorKind::Expired);
    let refs = repo.refs();
    assert_eq!(merge(repo, "side", old).unwrap_err().kind(), ErrorKind::Expired);
    let mut change = repo.begin();
    for id in [old, kept] {
        // The second turn exists, but its parent has expired.
        let picked = change.cherry_pick(&request(&branch("side"), id), &stamp(62));
        assert_eq!(picked.unwrap_err().kind(), ErrorKind::Expired);
    }
    drop(change);
    assert_eq!(repo.refs().values, refs.values);
    // The common base has expired.
    let base = repo.commit(&kept).unwrap().parents[0];
    let mut change = repo.begin();
    let late = branch("late");
    change.move_branch(&late, Some(base));
    let tree = repo.commit(&line[58]).unwrap().tree;
    change.snapshot(&late, SnapshotDraft::new(tree, "late", &stamp(62))).unwrap();
    change.commit(&stamp(62), "late").unwrap();
    assert_eq!(repo.merge_base(&repo.tip(&late).unwrap(), &line[58]).unwrap(), Some(base));
    let before_late = repo.refs();
    assert_eq!(merge(repo, "late", line[58]).unwrap_err().kind(), ErrorKind::Expired);
    assert_eq!(repo.refs().values, before_late.values);
}

#[test]
fn picks_are_one_operation_with_the_changes_of_each_turn() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let start = turn(repo, "main", "start", "1", 1);
    fork(repo, "plan", start);
    let ids: Vec<ObjectId> = (2..6).map(|n| turn(repo, "plan", &format!("k{n}"), "v", n)).collect();
    let before = repo.refs().sequence;
    let mut change = repo.begin();
    for id in [ids[0], ids[2]] {
        let picked = change.cherry_pick(&request(&branch("main"), id), &stamp(7)).unwrap();
        assert_eq!(picked.kind, MergeKind::Merged);
        assert_eq!(
            change.read_commit(&picked.commit).unwrap().message,
            repo.commit(&id).unwrap().message
        );
    }
    let again = change.cherry_pick(&request(&branch("main"), ids[0]), &stamp(7)).unwrap();
    assert_eq!(again.kind, MergeKind::UpToDate);
    change.commit(&stamp(7), "cherry-pick").unwrap();
    assert_eq!(repo.refs().sequence, before + 1);
    let tip = repo.tip(&branch("main")).unwrap();
    let keys = ["k2", "k3", "k4", "k5"]
        .map(|key| entry(repo, &tip, &format!("scratchpad/{key}")).is_some());
    assert_eq!(keys, [true, false, true, false]);
    assert_eq!(repo.commit(&tip).unwrap().parents.len(), 1);
}

#[test]
fn conflicts_survive_collections_until_a_snapshot_resolves_them() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let start = turn(repo, "main", "plan", "1", 1);
    fork(repo, "plan", start);
    let theirs = turn(repo, "plan", "plan", "theirs", 2);
    turn(repo, "main", "plan", "ours", 3);
    let merged = merge(repo, "main", theirs).unwrap();
    let mut change = repo.begin();
    change.move_branch(&branch("plan"), None);
    change.commit(&stamp(4), "delete").unwrap();
    collect(repo, Purpose::Gc, &stamp(5), &mut |_| {}).unwrap();
    assert_sound(repo);

    let again = sandbox.reopened();
    let open = open_conflicts(again.store(), &again.context(&merged.commit).unwrap()).unwrap();
    assert_eq!(open.len(), 1);
    let mut change = again.begin();
    let take = |path: &str| [(path.to_owned(), Take::Version(MergeSide::Theirs))];
    let missing = change.resolve_conflicts(&branch("main"), &take("memory/x"), None, &stamp(6));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    let taken = take("scratchpad/plan");
    let resolution = change.resolve_conflicts(&branch("main"), &taken, None, &stamp(6)).unwrap();
    change.commit(&stamp(6), "resolve").unwrap();
    assert!(resolution.left.is_empty());
    let tip = again.tip(&branch("main")).unwrap();
    assert_eq!(tip, resolution.commit);
    assert_eq!(entry(&again, &tip, "scratchpad/plan").as_deref(), Some("theirs"));
    let context = again.context(&tip).unwrap();
    assert_eq!(context.section(again.store(), "conflicts").unwrap(), None);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Turn(usize),
    MergeReport(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..3_usize).prop_map(Step::Turn),
        2 => (0..3_usize, 0..3_usize).prop_map(|(into, from)| Step::MergeReport(into, from)),
    ];
    prop::collection::vec(step, 1..14)
}

/// The ancestors of a commit, including itself.
fn ancestors(repo: &Repository, id: ObjectId) -> BTreeSet<ObjectId> {
    let history = repo.history(&[id], &[]).unwrap();
    history.map(|entry| entry.unwrap().id).collect()
}

turntree_properties::properties! {
    cases = 40;

    #[test]
    fn a_base_is_a_best_common_ancestor_and_entries_are_never_lost(steps in steps()) {
        let sandbox = Sandbox::new();
        let repo = &sandbox.repo;
        let names = ["a", "b", "c"];
        let start = turn(repo, "a", "start", "1", 0);
        fork(repo, "b", start);
        fork(repo, "c", start);
        let mut keys: BTreeMap<&str, BTreeSet<String>> =
            names.iter().map(|name| (*name, BTreeSet::new())).collect();
        for (number, step) in (1..).zip(steps) {
            match step {
                Step::Turn(at) => {
                    let key = format!("k{number}");
                    turn(repo, names[at], &key, "v", number);
                    keys.get_mut(names[at]).unwrap().insert(key);
                }
                Step::MergeReport(into, from) => {
                    let theirs = repo.tip(&branch(names[from])).unwrap();
                    merge(repo, names[into], theirs).unwrap();
                    let came = keys[names[from]].clone();
                    keys.get_mut(names[into]).unwrap().extend(came);
                }
            }
        }
        for (one, two) in [("a", "b"), ("b", "c"), ("c", "a")] {
            let [one, two] = [one, two].map(|name| repo.tip(&branch(name)).unwrap());
            let base = repo.merge_base(&one, &two).unwrap().expect("they share the start");
            let [of_one, of_two] = [one, two].map(|id| ancestors(repo, id));
            let common: Vec<ObjectId> = of_one.intersection(&of_two).copied().collect();
            prop_assert!(common.contains(&base));
            let leads = |id: &ObjectId, to: &ObjectId| id != to && ancestors(repo, *to).contains(id);
            let is_best = |id: &&ObjectId| !common.iter().any(|other| leads(id, other));
            let best: BTreeSet<ObjectId> = common.iter().filter(is_best).copied().collect();
            let bases = repo.merge_bases(&one, &two).unwrap();
            prop_assert_eq!(bases.first(), Some(&base));
            prop_assert_eq!(bases.len(), best.len());
            prop_assert_eq!(bases.into_iter().collect::<BTreeSet<_>>(), best);
        }
        for name in names {
            let context = repo.context(&repo.tip(&branch(name)).unwrap()).unwrap();
            let map = context.map(repo, "scratchpad").unwrap();
            for key in &keys[name] {
                prop_assert!(map.get(repo, key.as_bytes()).unwrap().is_some(), "{key}");
            }
            prop_assert_eq!(map.len(), keys[name].len() as u64 + 1);
        }
    }
}

/// The messages of the main conversation: blob, calls, results.
fn conversation(repo: &Repository, context: &Context) -> Vec<(ObjectId, Vec<String>, Vec<String>)> {
    let list = context.messages(repo, "main").unwrap();
    let message = |item: turntree::Result<turntree::tree::Item>| {
        let entry = MessageEntry::from_item(&item.unwrap()).unwrap();
        let bytes = repo.read_as(Kind::Blob, &entry.blob).unwrap();
        let view = view(&entry.media, &bytes);
        let calls = view.tool_calls.into_iter().map(|call| call.id).collect();
        let results = view.tool_results.into_iter().map(|result| result.call_id).collect();
        (entry.blob, calls, results)
    };
    list.iter(repo, 0..list.len()).map(message).collect()
}

/// The number of messages between each call of a conversation and its result.
fn distances(talk: &[(ObjectId, Vec<String>, Vec<String>)]) -> BTreeMap<(ObjectId, String), usize> {
    let mut distances = BTreeMap::new();
    for (at, (blob, _, results)) in talk.iter().enumerate() {
        for id in results.iter().filter(|id| !id.is_empty()) {
            if let Some(call) = talk[..at].iter().rposition(|(_, calls, _)| calls.contains(id)) {
                distances.insert((*blob, id.clone()), at - call);
            }
        }
    }
    distances
}

/// Forks two branches after the first third of a recording. One continues with the second third,
/// the other cherry-picks the last third turn by turn.
#[test]
fn merged_recordings_keep_all_messages_and_call_pairs() {
    let files = recorded_sessions();
    if files.is_empty() {
        eprintln!("skipped: no recorded sessions beside the project, nor in TURNTREE_SESSIONS");
    }
    let (mut mixed, is_there) = (0, !files.is_empty());
    for file in files {
        let sandbox = Sandbox::new();
        let repo = &sandbox.repo;
        let bytes = std::fs::read(&file).unwrap();
        if bytes.len() > 3_000_000 {
            continue;
        }
        let report = sandbox.import("s", &bytes).unwrap();
        let line = repo.history(&[report.head], &[]).unwrap().first_parent();
        let mut line: Vec<_> = line.collect::<Result<_, _>>().unwrap();
        line.reverse();
        let (Some(start), Some(middle)) = (line.get(line.len() / 3), line.get(line.len() * 2 / 3))
        else {
            continue;
        };
        // Ours cherry-picks the last third onto the first; theirs is the recording.
        fork(repo, "ours", start.id);
        let later = &line[line.len() * 2 / 3 + 1..];
        let mut change = repo.begin();
        let times = line[line.len() / 3..].iter().map(|entry| entry.commit.time);
        for (entry, time) in later.iter().zip(times) {
            // Ours gets the times of the second third, as if both sides had spoken at the same
            // time.
            let then = Signature { time, ..stamp(2) };
            let picked = change.cherry_pick(&request(&branch("ours"), entry.id), &then);
            picked.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        change.commit(&stamp(2), "cherry-pick").unwrap();
        let ours = repo.context(&repo.tip(&branch("ours")).unwrap()).unwrap();
        let theirs = repo.context(&middle.id).unwrap();
        let merged = merge(repo, "ours", middle.id).unwrap();
        let context = repo.context(&merged.commit).unwrap();
        let [own, other, both] = [&ours, &theirs, &context].map(|c| conversation(repo, c));
        let blobs = |talk: &[(ObjectId, Vec<String>, Vec<String>)]| -> Vec<ObjectId> {
            talk.iter().map(|(blob, ..)| *blob).collect()
        };
        let (own_blobs, other_blobs, both_blobs) = (blobs(&own), blobs(&other), blobs(&both));
        let is_compacted =
            line.iter().any(|entry| entry.commit.trigger == turntree::object::Trigger::Compaction);
        if !is_compacted {
            for blob in own_blobs.iter().chain(&other_blobs) {
                let count = |talk: &[ObjectId]| talk.iter().filter(|b| *b == blob).count();
                let least = count(&own_blobs).max(count(&other_blobs));
                assert!(count(&both_blobs) >= least, "{}: {blob} is lost", file.display());
                let most = count(&own_blobs) + count(&other_blobs);
                assert!(count(&both_blobs) <= most, "{}: {blob} is doubled", file.display());
            }
        }
        // The messages of both sides alternate, unless a side is short or has only one time.
        let is_own: BTreeSet<&ObjectId> = own_blobs.iter().collect();
        let sides: Vec<bool> = both_blobs.iter().map(|blob| is_own.contains(blob)).collect();
        mixed += sides.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let found = distances(&both);
        for talk in [&own, &other] {
            for (result, distance) in distances(talk) {
                if is_compacted && !found.contains_key(&result) {
                    continue;
                }
                assert_eq!(found.get(&result), Some(&distance), "{}: {result:?}", file.display());
            }
        }
        assert_sound(repo);
    }
    assert!(mixed > 100 || !is_there, "the test needs conversations that are mixed: {mixed}");
}
