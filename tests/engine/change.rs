//! Changes of records that wait in memory: the guarantees for a framework that keeps its own
//! records.

use std::thread;

use tempfile::{TempDir, tempdir};
use turntree::ErrorKind;
use turntree::context::Role;
use turntree::local::{Repo, Scan};
use turntree::repo::BranchName;

fn repo() -> (TempDir, Repo) {
    let folder = tempdir().unwrap();
    let repo = Repo::create(folder.path().join("store")).unwrap();
    (folder, repo)
}

fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

fn put(repo: &Repo, name: &str, key: &str, content: &'static str) {
    let mut change = repo.change();
    change.on(&branch(name)).put("kept", key, content).unwrap();
    change.commit("put").unwrap();
}

#[test]
fn one_operation_changes_several_branches_and_one_undo_reverts_it() {
    let (_folder, repo) = repo();
    let mut change = repo.change();
    let on = change.on(&branch("a"));
    on.put("kept", "k", "v").unwrap();
    on.push("log", "one").unwrap();
    on.push_message("main", Role::User, "json", r#"{"role":"user","content":"hi"}"#).unwrap();
    change.on(&branch("b")).put("kept", "x", "y").unwrap();
    change.commit("both").unwrap();
    let a = repo.snapshot("a").unwrap();
    assert_eq!(a.get("kept", "k").unwrap().unwrap(), "v");
    assert_eq!(a.list("log", 0..9).unwrap(), ["one"]);
    assert_eq!(a.messages("main").unwrap().count(), 1);
    assert!(repo.snapshot("b").is_ok());
    repo.undo().unwrap();
    assert!(repo.snapshot("a").is_err() && repo.snapshot("b").is_err());
}

#[test]
fn scans_run_in_both_directions_from_any_key() {
    let (_folder, repo) = repo();
    let mut change = repo.change();
    let keys: Vec<String> = (0..500).map(|n| format!("c/{n:04}")).collect();
    for key in &keys {
        change.on(&branch("a")).put("kept", key, key.clone()).unwrap();
    }
    change.on(&branch("a")).put("kept", "b", "under").unwrap();
    change.on(&branch("a")).put("kept", "d", "over").unwrap();
    change.commit("many").unwrap();
    let a = repo.snapshot("a").unwrap();
    let scan = |after: Option<&str>, backwards, limit| {
        let after = after.map(str::to_owned);
        let scan = Scan { prefix: "c/".into(), after, backwards, limit };
        let found = a.scan("kept", &scan).unwrap();
        assert!(found.iter().all(|(key, content)| *content == key.as_bytes()));
        assert_eq!(a.scan_keys("kept", &scan).unwrap().len(), found.len());
        found.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(scan(None, false, None), keys);
    assert_eq!(scan(None, true, Some(2)), ["c/0499", "c/0498"]);
    assert_eq!(scan(Some("c/0002"), true, None), ["c/0001", "c/0000"]);
    assert_eq!(scan(Some("c/0002x"), false, Some(1)), ["c/0003"]);
    assert_eq!(scan(Some("c/0002"), false, Some(1)), ["c/0003"]);
    assert_eq!(scan(Some("z"), false, None), [""; 0]);
    assert_eq!(scan(Some("a"), true, None), [""; 0]);
    assert!(a.scan("none", &Scan::default()).unwrap().is_empty());
    assert_eq!(a.get("kept", "none").unwrap(), None);
}

#[test]
fn independent_changes_never_conflict() {
    let (folder, _) = repo();
    let open = || Repo::open(folder.path().join("store")).unwrap();
    let write = |writer: usize| {
        let repo = open();
        for n in 0..20 {
            let mut change = repo.change();
            let on = change.on(&branch("a"));
            on.push("log", format!("{writer} {n}")).unwrap();
            on.put_new("kept", "first", format!("{writer}")).unwrap();
            change.commit("append").unwrap();
        }
    };
    thread::scope(|threads| (0..4).for_each(|writer| drop(threads.spawn(move || write(writer)))));
    let a = open().snapshot("a").unwrap();
    let log = a.list("log", 0..u64::MAX).unwrap();
    for writer in 0..4 {
        let own = log.iter().filter(|line| line.starts_with(format!("{writer} ").as_bytes()));
        let expected: Vec<_> = (0..20).map(|n| format!("{writer} {n}")).collect();
        assert!(own.eq(&expected), "each writer's own order holds");
    }
    let first = a.get("kept", "first").unwrap().unwrap();
    assert_eq!(first[..], log[0][..1], "the first change stays");
}

#[test]
fn expected_tips_are_enforced() {
    let (folder, repo) = repo();
    put(&repo, "a", "k", "1");
    let tip = repo.snapshot("a").unwrap().id();
    put(&Repo::open(folder.path().join("store")).unwrap(), "a", "k", "2");
    for expected in [Some(tip), None] {
        let mut change = repo.change();
        change.on(&branch("a")).expect(expected).put("kept", "k", "3").unwrap();
        assert_eq!(change.commit("late").unwrap_err().kind(), ErrorKind::Conflict);
    }
    assert_eq!(repo.snapshot("a").unwrap().get("kept", "k").unwrap().unwrap(), "2");
}

#[test]
fn changes_can_continue_restart_and_delete_branches() {
    let (_folder, repo) = repo();
    put(&repo, "a", "k", "1");
    let a = repo.snapshot("a").unwrap().id();
    let mut change = repo.change();
    change.on(&branch("b")).go_on_from(a);
    let tips = change.commit("copy").unwrap();
    assert_eq!(tips, [(branch("b"), Some(a))]);
    put(&repo, "b", "k", "2");

    let mut change = repo.change();
    change.on(&branch("a")).start_over().put("kept", "other", "3").unwrap();
    change.on(&branch("b")).delete();
    change.on(&branch("c")).delete();
    change.commit("clean").unwrap();
    let fresh = repo.snapshot("a").unwrap();
    assert_eq!((fresh.turn(), fresh.commit().parents.len()), (1, 0));
    assert_eq!(fresh.get("kept", "k").unwrap(), None);
    assert!(repo.snapshot("b").is_err());
}

#[test]
fn empty_changes_create_no_snapshot() {
    let (_folder, repo) = repo();
    put(&repo, "a", "k", "1");
    let tip = repo.snapshot("a").unwrap().id();
    put(&repo, "a", "k", "1");
    let mut change = repo.change();
    assert!(change.is_empty());
    change.on(&branch("a")).put_new("kept", "k", "2").unwrap();
    assert!(!change.is_empty());
    change.commit("nothing").unwrap();
    assert_eq!(repo.snapshot("a").unwrap().id(), tip);
}

#[test]
fn lists_can_be_truncated_and_shape_mismatches_are_rejected() {
    let (_folder, repo) = repo();
    let mut change = repo.change();
    let on = change.on(&branch("a"));
    ["1", "2", "3"].into_iter().for_each(|record| on.push("log", record).unwrap());
    on.set_blob("note", "x").unwrap();
    change.commit("first").unwrap();
    let mut change = repo.change();
    let on = change.on(&branch("a"));
    on.cut("log", 1).unwrap();
    on.push("log", "4").unwrap();
    on.drop_section("note").unwrap();
    on.titled("second").with("why", "test");
    change.commit("unused").unwrap();
    let a = repo.snapshot("a").unwrap();
    assert_eq!(a.list("log", 0..9).unwrap(), ["1", "4"]);
    assert_eq!(a.list("log", 1..2).unwrap(), ["4"]);
    let sections: Vec<String> = a.sections().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!((sections, a.count("log").unwrap(), a.title()), (vec!["log".into()], 2, "second"));
    assert_eq!(a.commit().metadata["why"], "test");

    let mut change = repo.change();
    change.on(&branch("a")).put("log", "k", "v").unwrap();
    assert_eq!(change.commit("wrong").unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut change = repo.change();
    let on = change.on(&branch("a"));
    let refused = [
        on.put("kept", "", "v"),
        on.put("", "k", "v"),
        on.put("source", "k", "v"),
        on.put("kept/deep", "k", "v"),
        on.put("files", "../k", "v"),
        on.push("agents/main/messages", "v"),
        on.push_message("a/b", Role::User, "json", "v"),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_change_is_read_as_it_will_be_committed() {
    let (_folder, repo) = repo();
    put(&repo, "a", "old", "1");
    let (mut change, a) = (repo.change(), branch("a"));
    change.on(&a).put("kept", "new", "2").unwrap();
    change.on(&a).put_new("kept", "old", "not this").unwrap();
    change.on(&a).push("log", "one").unwrap();
    let contents = change.contents(&a).unwrap();
    assert_eq!(contents.get("kept", "old").unwrap().unwrap(), "1");
    assert_eq!(contents.read_entry("kept/new").unwrap(), "2");
    assert!(contents.has_entry("log/0").unwrap() && !contents.has_entry("kept/none").unwrap());
    change.on(&a).remove("kept", "old").unwrap();
    change.on(&a).push("log", "two").unwrap();
    let contents = change.contents(&a).unwrap();
    assert_eq!(contents.scan_keys("kept", &Scan::default()).unwrap(), ["new"]);
    assert_eq!(contents.list("log", 0..9).unwrap(), ["one", "two"]);
    assert_eq!(change.contents(&branch("none")).unwrap().count("kept").unwrap(), 0);
    change.commit("read").unwrap();
    let read = repo.snapshot("a").unwrap();
    assert_eq!(read.scan("kept", &Scan::default()).unwrap(), [("new".into(), "2".into())]);
    assert_eq!(read.contents().count("log").unwrap(), 2);
}

#[test]
fn a_change_that_was_read_is_committed_only_on_what_it_read() {
    let (_folder, repo) = repo();
    put(&repo, "a", "count", "1");
    let (mut change, a) = (repo.change(), branch("a"));
    assert!(change.contents(&a).unwrap().has_entry("kept/count").unwrap());
    change.on(&a).put("kept", "count", "2").unwrap();
    put(&repo, "a", "count", "other");
    let refused = change.commit("late").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("read it again"), "{refused}");
    assert_eq!(repo.snapshot("a").unwrap().text("kept/count").unwrap(), "other");
    // The content of another snapshot does not depend on the branch.
    let first = repo.snapshot("a~1").unwrap().id();
    let mut change = repo.change();
    change.on(&a).go_on_from(first);
    assert_eq!(change.contents(&a).unwrap().read_entry("kept/count").unwrap(), "1");
    change.on(&a).start_over();
    assert!(!change.contents(&a).unwrap().has_entry("kept/count").unwrap());
    put(&repo, "a", "more", "3");
    change.commit("from nothing").unwrap();
    assert!(repo.snapshot("a").unwrap().sections().unwrap().is_empty());
}
