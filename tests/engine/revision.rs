//! Revision expressions for commits, and the commits they resolve to.

use turntree::ErrorKind;
use turntree::context::{Builder, MessageEntry, Role};
use turntree::object::{Kind, ObjectId, ObjectSink, RefValue, Tag};
use turntree::repo::{BranchName, Resolver, SnapshotDraft, tag_ref};
use turntree::store::Expected;
use turntree_tests::{Sandbox, commit_turn, stamp};

/// Commits a snapshot on `branch` at second `second`.
fn snapshot(sandbox: &Sandbox, branch: &str, second: i64) -> ObjectId {
    let (branch, text) = (branch.parse().unwrap(), second.to_string());
    commit_turn(&sandbox.repo, &branch, "note", &stamp(second), |context, change| {
        context.set_entry(change, "scratchpad", "note", Some(text.into())).unwrap();
    })
}

/// A branch of `turns` snapshots, oldest first. HEAD is on it.
fn line(branch: &str, turns: i64) -> (Sandbox, Vec<ObjectId>) {
    let sandbox = Sandbox::new();
    let mut change = sandbox.repo.begin();
    change.switch(&branch.parse().unwrap());
    change.commit(&stamp(0), "switch").unwrap();
    let ids = (1..=turns).map(|turn| snapshot(&sandbox, branch, turn * 10)).collect();
    (sandbox, ids)
}

#[test]
fn names_steps_and_turns_resolve_to_commits() {
    let (sandbox, ids) = line("task/main", 6);
    let last = ids[5];
    for (text, expected) in [
        ("HEAD", last),
        ("@", last),
        ("task", last),
        ("task/main", last),
        ("main", last),
        ("refs/heads/task/main", last),
        ("task~", ids[4]),
        ("task~3", ids[2]),
        ("HEAD^", ids[4]),
        ("HEAD^^~2", ids[1]),
        ("task^0", last),
        ("turn:2", ids[1]),
        ("task^{turn:4}", ids[3]),
        ("task~2^{turn:3}", ids[2]),
        ("task^{commit}", last),
        ("task@{0}", last),
        ("task@{2}", ids[3]),
        ("@{1}", ids[4]),
    ] {
        assert_eq!(sandbox.repo.resolve(text).unwrap().commit, expected, "{text}");
    }
    let (whole, short) = (ids[2].to_string(), ids[2].short(10));
    assert_eq!(sandbox.repo.resolve(&whole).unwrap().commit, ids[2]);
    assert_eq!(sandbox.repo.resolve(&short).unwrap().commit, ids[2]);
    let with_path = sandbox.repo.resolve("task~1:scratchpad/note").unwrap();
    assert_eq!((with_path.commit, with_path.path.as_deref()), (ids[4], Some("scratchpad/note")));
}

#[test]
fn refs_resolve_at_a_past_time() {
    let (sandbox, ids) = line("task/main", 3);
    let seconds = |text: &str| Some(text.parse::<i64>().ok()? * 1_000_000);
    // A bare number counts values, so a time needs a marker here.
    let parse = |text: &str| seconds(text.strip_prefix("second ")?);
    let resolver = Resolver::new(&sandbox.repo).with_times(&parse);
    assert_eq!(resolver.resolve("task@{second 25}").unwrap().commit, ids[1]);
    assert_eq!(resolver.resolve("@{second 10}").unwrap().commit, ids[0]);
    let before = resolver.resolve("task@{second 5}").unwrap_err();
    assert_eq!(before.kind(), ErrorKind::NotFound);
    assert_eq!(resolver.resolve("task@{whenever}").unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn the_previous_branch_is_remembered() {
    let (sandbox, _) = line("task/main", 2);
    let other = snapshot(&sandbox, "task/other", 90);
    let mut change = sandbox.repo.begin();
    change.switch(&"task/other".parse().unwrap());
    change.commit(&stamp(91), "switch").unwrap();
    assert_eq!(sandbox.repo.resolve("HEAD").unwrap().commit, other);
    let before = sandbox.repo.resolve("@{-1}").unwrap();
    assert_eq!(before.branch, Some("task/main".parse().unwrap()));
    assert_eq!(sandbox.repo.resolve("other").unwrap().commit, other, "a branch of HEAD's session");
    assert_eq!(sandbox.repo.resolve("@{-9}").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn tags_resolve_to_their_commit() {
    let (sandbox, ids) = line("task/main", 3);
    let mut change = sandbox.repo.begin();
    let tag = Tag {
        target: ids[0],
        target_kind: Kind::Commit,
        name: "start".into(),
        tagger: "ann".into(),
        time_micros: 0,
        message: "where it began".into(),
        expires_micros: None,
    };
    let id = change.write(Kind::Tag, tag.encode().into()).unwrap();
    let name = tag_ref("start").unwrap();
    change.set_ref(&name, Expected::Absent, Some(RefValue::Object(id)));
    change.commit(&stamp(50), "tag").unwrap();
    for text in ["start", "refs/tags/start", "start^{commit}", "start^0", &id.short(12)] {
        assert_eq!(sandbox.repo.resolve(text).unwrap().commit, ids[0], "{text}");
    }
}

#[test]
fn unresolvable_revisions_are_named_in_the_error() {
    let (sandbox, ids) = line("task/main", 2);
    for (text, kind) in [
        ("nowhere", ErrorKind::NotFound),
        ("task/nowhere", ErrorKind::NotFound),
        ("task~2", ErrorKind::NotFound),
        ("task^2", ErrorKind::NotFound),
        ("turn:9", ErrorKind::NotFound),
        ("task@{7}", ErrorKind::NotFound),
        ("0123456789abcdef", ErrorKind::NotFound),
        ("task~x", ErrorKind::InvalidInput),
        ("task^{tree}", ErrorKind::InvalidInput),
        ("task@{", ErrorKind::InvalidInput),
        ("turn:x", ErrorKind::InvalidInput),
        ("task~99999999999999999999", ErrorKind::InvalidInput),
    ] {
        let error = sandbox.repo.resolve(text).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.to_string().contains(text), "{text}: {error}");
    }
    let blob = ObjectId::of(Kind::Blob, b"10");
    let error = sandbox.repo.resolve(&blob.to_string()).unwrap_err();
    assert!(error.to_string().contains("is a blob, not a commit"), "{error}");
    assert_eq!(ids.len(), 2);
}

#[test]
fn ambiguous_abbreviations_list_their_commits() {
    let (sandbox, ids) = line("task/main", 600);
    let mut prefixes: Vec<String> = ids.iter().map(|id| id.short(4)).collect();
    prefixes.sort();
    let Some(twice) = prefixes.windows(2).find(|pair| pair[0] == pair[1]) else { return };
    let error = sandbox.repo.resolve(&twice[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous);
    assert!(error.to_string().matches(twice[0].as_str()).count() >= 3, "{error}");
}

#[test]
fn ranges_exclude_the_commits_of_the_other_side() {
    let (sandbox, ids) = line("task/main", 5);
    let mut change = sandbox.repo.begin();
    change.move_branch(&"task/side".parse().unwrap(), Some(ids[2]));
    change.commit(&stamp(70), "fork").unwrap();
    let side = snapshot(&sandbox, "task/side", 80);
    let resolver = Resolver::new(&sandbox.repo);
    let walk = |text: &str| -> Vec<ObjectId> {
        let range = resolver.resolve_range(text).unwrap();
        let history = sandbox.repo.history(&range.include, &range.exclude).unwrap();
        history.map(|entry| entry.unwrap().id).collect()
    };
    assert_eq!(walk("task~3..task"), [ids[4], ids[3], ids[2]]);
    assert_eq!(walk("main..side"), [side]);
    assert_eq!(walk("side.."), [ids[4], ids[3]]);
    assert_eq!(walk("task..task~2"), []);
    assert_eq!(walk("side").len(), 4);
}

#[test]
fn contexts_built_on_a_failed_change_are_rejected() {
    let (sandbox, ids) = line("task/main", 2);
    let branch: BranchName = "task/main".parse().unwrap();
    let mut builder = Builder::from(sandbox.repo.context(&ids[1]).unwrap());
    let turn = |builder: &mut Builder, text: &str| {
        let mut change = sandbox.repo.begin();
        let blob = change.write(Kind::Blob, text.to_owned().into()).unwrap();
        let entry = MessageEntry::new(blob, Role::User, "json");
        builder.push_message(&mut change, "main", &entry).unwrap();
        let tree = builder.write(&mut change).unwrap();
        change.snapshot(&branch, SnapshotDraft::new(tree, text, &stamp(50))).unwrap();
        change
    };
    // The first change is dropped, as after a lost race. The second still builds on its context.
    drop(turn(&mut builder, "lost"));
    let error = turn(&mut builder, "next").commit(&stamp(51), "snapshot").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("was never stored"), "{error}");
    assert_eq!(sandbox.repo.tip(&branch), Some(ids[1]));

    let mut fresh = Builder::from(sandbox.repo.context(&ids[1]).unwrap());
    turn(&mut fresh, "next").commit(&stamp(52), "snapshot").unwrap();
}

#[test]
fn earlier_begun_changes_do_not_revert_later_commits() {
    let (sandbox, ids) = line("task/main", 2);
    let branch: BranchName = "task/main".parse().unwrap();
    let mut ours = sandbox.repo.begin();
    let mut builder = Builder::from(sandbox.repo.context(&ids[1]).unwrap());
    // Another thread with the same handle commits first.
    let theirs = snapshot(&sandbox, "task/main", 60);
    builder.set_entry(&mut ours, "memory", "mine", Some("x".into())).unwrap();
    let tree = builder.write(&mut ours).unwrap();
    let id = ours.snapshot(&branch, SnapshotDraft::new(tree, "late", &stamp(61))).unwrap();
    assert_eq!(ours.read_commit(&id).unwrap().parents, [ids[1]], "the base of the context");
    let error = ours.commit(&stamp(61), "snapshot").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(sandbox.repo.tip(&branch), Some(theirs));
}

#[test]
fn concurrent_branch_moves_conflict_without_changes() {
    let (sandbox, ids) = line("task/main", 2);
    let branch: BranchName = "task/main".parse().unwrap();
    let other = sandbox.reopened();
    let mut theirs = other.begin();
    theirs.move_branch(&branch, Some(ids[0]));
    let mut ours = sandbox.repo.begin();
    ours.move_branch(&branch, None);
    theirs.commit(&stamp(30), "move").unwrap();
    let error = ours.commit(&stamp(31), "delete").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("task/main"), "{error}");
    assert_eq!(sandbox.repo.tip(&branch), Some(ids[0]), "the value that won is seen at once");
}

#[test]
fn the_branches_of_a_session_are_those_with_its_name() {
    let sandbox = Sandbox::new();
    for (second, branch) in
        ["a/main", "a/b", "a/b/c", "a-b/main", "ab/main", "b/main", "b/a/main"].iter().enumerate()
    {
        snapshot(&sandbox, branch, i64::try_from(second).unwrap());
    }
    let tip = sandbox.repo.tip(&"a/main".parse().unwrap()).unwrap();
    let mut change = sandbox.repo.begin();
    // A branch without its session is the main branch of one.
    change.set_ref("refs/heads/short", Expected::Absent, Some(RefValue::Object(tip)));
    change.commit(&stamp(9), "odd").unwrap();
    let change = sandbox.repo.begin();
    for session in ["a", "a-b", "ab", "b", "short", "a/b", "a/main", "b/a", "", "c"] {
        let all = sandbox.repo.branches().into_iter();
        let expected: Vec<_> = all.filter(|(branch, _)| branch.session() == session).collect();
        assert_eq!(sandbox.repo.branches_of(session), expected, "{session}");
        let staged: Vec<_> = expected
            .into_iter()
            .filter_map(|(branch, _)| change.tip(&branch).map(|tip| (branch, tip)))
            .collect();
        assert_eq!(change.branches_of(session), staged, "{session}");
    }
}
