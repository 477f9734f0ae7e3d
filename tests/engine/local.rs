//! The public API of the library: the guarantees for programs that use only `turntree::local`.

use std::fs;

use tempfile::{TempDir, tempdir};
use turntree::ErrorKind;
use turntree::context::Role;
use turntree::local::{Host, HostOptions, Repo, Session};
use turntree_exchange::MESSAGE_FORMATS;

fn repo() -> (TempDir, Repo) {
    let folder = tempdir().unwrap();
    let repo = Repo::open_or_create(folder.path().join("store")).unwrap();
    (folder, repo)
}

fn say(session: &Session, text: &str) {
    let mut turn = session.turn().unwrap();
    let message = serde_json::json!({"role": "user", "content": text}).to_string();
    turn.push_message("main", Role::User, message).unwrap();
    turn.set("scratchpad/plan", text.to_owned()).unwrap();
    turn.commit(text).unwrap();
}

#[test]
fn a_store_is_created_once_and_opened_after() {
    let folder = tempdir().unwrap();
    let dir = folder.path().join("a/b/store");
    assert_eq!(Repo::open(&dir).unwrap_err().kind(), ErrorKind::NotFound);
    say(&Repo::open_or_create(&dir).unwrap().session("one").unwrap(), "hi");
    assert_eq!(Repo::create(&dir).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(Repo::open_or_create(&dir).unwrap().snapshot("one").unwrap().title(), "hi");
}

#[test]
fn stores_are_never_created_among_other_files() {
    let folder = tempdir().unwrap();
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("README.md"), "hello").unwrap();
    let open = |dir: &std::path::Path| Host::open(dir, HostOptions::default());
    for refused in [Repo::open_or_create(&project).unwrap_err(), open(&project).unwrap_err()] {
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("project/.turntree"), "{refused}");
    }
    assert_eq!(fs::read_dir(&project).unwrap().count(), 1, "nothing was made");
    let file = open(&project.join("README.md")).unwrap_err();
    assert_eq!(file.kind(), ErrorKind::Io);
    assert!(file.to_string().contains("README.md is a file"), "{file}");
    drop(open(&project.join(".turntree")).unwrap());

    // The files of a process that died while it created a store, and an empty directory.
    let begun = folder.path().join("begun");
    fs::create_dir_all(begun.join("journal")).unwrap();
    fs::write(begun.join("superblock-1"), "").unwrap();
    drop(open(&begun).unwrap());
    fs::create_dir(folder.path().join("empty")).unwrap();
    drop(open(&folder.path().join("empty")).unwrap());
}

#[test]
fn a_snapshot_reads_messages_entries_and_agents() {
    let (_folder, repo) = repo();
    let repo = repo.reading(MESSAGE_FORMATS);
    let session = repo.session("one").unwrap();
    say(&session, "first");
    say(&session, "second");
    let newest = session.newest().unwrap().unwrap();
    let texts =
        newest.messages("main").unwrap().map(|message| message.unwrap().text().into_owned());
    assert_eq!(texts.collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!(newest.text("scratchpad/plan").unwrap(), "second");
    assert_eq!(newest.keys("scratchpad").unwrap(), ["plan"]);
    assert_eq!(newest.agents().unwrap(), ["main"]);
    assert_eq!(newest.turn(), 2);
    assert_eq!(newest.text("scratchpad/none").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(newest.text("scratchpad").unwrap_err().kind(), ErrorKind::InvalidInput);
    let titles = session.history().unwrap().map(|snapshot| snapshot.unwrap().title().to_owned());
    assert_eq!(titles.collect::<Vec<_>>(), ["second", "first"]);
}

#[test]
fn revisions_of_other_processes_are_resolved() {
    let (folder, repo) = repo();
    let other = Repo::open(folder.path().join("store")).unwrap();
    say(&other.session("one").unwrap(), "first");
    let id = repo.resolve("one").unwrap();
    assert_eq!(repo.resolve(&id.to_string()).unwrap(), id);
    say(&other.session("one").unwrap(), "second");
    assert_eq!(repo.resolve("one~1").unwrap(), id);
    assert_eq!(repo.resolve("one:scratchpad/plan").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(repo.resolve("two").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn sessions_are_deleted_with_their_branches_and_one_undo_restores_them() {
    let (_folder, repo) = repo();
    let session = repo.session("one").unwrap();
    say(&session, "first");
    session.fork("plan-b", &repo.snapshot("one").unwrap()).unwrap();
    say(&repo.session("one-more").unwrap(), "other");
    assert!(session.delete().unwrap());
    assert!(!session.delete().unwrap());
    let left = repo.sessions();
    assert_eq!(left.iter().map(Session::name).collect::<Vec<_>>(), ["one-more"]);
    assert_eq!(repo.undo().unwrap().as_deref(), Some("delete one"));
    assert_eq!(session.branches().len(), 2);
}

#[test]
fn broad_directories_are_rejected_unless_allowed() {
    let (_folder, repo) = repo();
    let session = repo.session("one").unwrap();
    say(&session, "first");
    let newest = session.newest().unwrap().unwrap();
    let home = std::env::home_dir().unwrap();
    let above = home.parent().unwrap_or(&home).to_owned();
    for dir in [std::path::PathBuf::from("/"), home, above] {
        let refusals = [
            session.turn().unwrap().capture_files(&dir).map(drop).unwrap_err(),
            session.rewind().to_turn(1).workspace(&dir).plan().unwrap_err(),
            newest.checkout(&dir).plan().map(drop).unwrap_err(),
        ];
        for refused in refusals {
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{}", dir.display());
            assert!(refused.message().contains("too broad for a workspace"), "{refused}");
        }
    }
    // The scratchpad has no files, so the plan looks at few.
    let plan = newest.checkout("/").only("scratchpad").allow_broad().plan().unwrap();
    assert_eq!(plan.files().len(), 1);
    let rewind = session.rewind().to_turn(1).workspace("/").only("scratchpad").allow_broad();
    assert!(rewind.plan().unwrap().files().is_empty());
}

#[test]
fn dropped_or_rejected_turns_change_nothing() {
    let (_folder, repo) = repo();
    let session = repo.session("one").unwrap();
    say(&session, "first");
    let mut turn = session.turn().unwrap();
    turn.set("scratchpad/plan", "never").unwrap();
    let refused = turn.push_message("main", Role::User, "no JSON").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(turn.set("scratchpad", "no key").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(turn.set("files/../out", "x").unwrap_err().kind(), ErrorKind::InvalidInput);
    drop(turn);
    assert_eq!(repo.snapshot("one").unwrap().text("scratchpad/plan").unwrap(), "first");
}

#[test]
fn the_second_of_two_concurrent_turns_conflicts() {
    let (_folder, repo) = repo();
    let session = repo.session("one").unwrap();
    say(&session, "first");
    let (mut ours, theirs) = (session.turn().unwrap(), session.turn().unwrap());
    ours.set("scratchpad/plan", "ours").unwrap();
    ours.commit("ours").unwrap();
    assert_eq!(theirs.commit("theirs").unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(repo.snapshot("one").unwrap().title(), "ours");
}

#[test]
fn strategies_are_forked_compared_and_merged_with_conflicts() {
    let (_folder, repo) = repo();
    let session = repo.session("one").unwrap();
    say(&session, "first");
    let begin = session.newest().unwrap().unwrap();
    let plan_b = session.fork("plan-b", &begin).unwrap();
    assert_eq!(session.fork("plan-b", &begin).unwrap_err().kind(), ErrorKind::InvalidInput);
    say(&plan_b, "theirs");
    say(&session, "ours");
    let theirs = plan_b.newest().unwrap().unwrap();
    let changes = theirs.changes_since(&begin).unwrap();
    let paths: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["agents/main/messages/1", "scratchpad/plan"]);
    let merged = session.merge(&plan_b).unwrap();
    assert_eq!(merged.conflicts, ["scratchpad/plan"]);
    assert_eq!(merged.snapshot.messages("main").unwrap().count(), 3);
    let names: Vec<_> = session.branches().iter().map(|own| own.branch().to_string()).collect();
    assert_eq!(names, ["one/main", "one/plan-b"]);
    assert_eq!(repo.sessions().len(), 1);
    assert_eq!(repo.sessions()[0].branch(), session.branch());
}

#[test]
fn rewinds_restore_the_workspace_and_undo_reverts_them() {
    let (folder, repo) = repo();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("a.txt"), "one\n").unwrap();
    let session = repo.session("one").unwrap();
    let mut turn = session.turn().unwrap();
    assert_eq!(turn.capture_files(&work).unwrap().files, 1);
    turn.commit("one").unwrap();
    fs::write(work.join("a.txt"), "two\n").unwrap();
    fs::write(work.join("b.txt"), "new\n").unwrap();
    let mut turn = session.turn().unwrap();
    turn.capture_files(&work).unwrap();
    turn.commit("two").unwrap();
    fs::write(work.join("a.txt"), "never committed\n").unwrap();

    let plan = session.rewind().to_turn(1).workspace(&work).plan().unwrap();
    assert_eq!(plan.files().len(), 2, "{plan}");
    assert!(plan.to_string().contains("delete b.txt"), "{plan}");
    assert_eq!(fs::read_to_string(work.join("a.txt")).unwrap(), "never committed\n");
    plan.apply().unwrap();
    assert_eq!(fs::read_to_string(work.join("a.txt")).unwrap(), "one\n");
    assert!(!work.join("b.txt").exists());

    assert!(repo.undo().unwrap().is_some());
    assert_eq!(fs::read_to_string(work.join("a.txt")).unwrap(), "never committed\n");
    assert_eq!(fs::read_to_string(work.join("b.txt")).unwrap(), "new\n");
    assert!(repo.redo().unwrap().is_some());
    assert_eq!(fs::read_to_string(work.join("a.txt")).unwrap(), "one\n");
    assert_eq!(session.rewind().plan().unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn checkouts_do_not_overwrite_without_permission() {
    let (folder, repo) = repo();
    let session = repo.session("one").unwrap();
    let mut turn = session.turn().unwrap();
    turn.set("files/src/a.rs", "fn a() {}\n").unwrap();
    turn.set("scratchpad/plan", "x").unwrap();
    turn.commit("one").unwrap();
    let (out, newest) = (folder.path().join("out"), session.newest().unwrap().unwrap());
    let plan = newest.checkout(&out).only("files").plan().unwrap();
    assert_eq!(plan.files().len(), 1, "{plan}");
    assert_eq!(plan.apply().unwrap().written, 1);
    let written = plan.files()[0].path.clone();
    fs::write(out.join(&written), "mine\n").unwrap();
    let refused = newest.checkout(&out).only("files").plan().unwrap().apply().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    newest.checkout(&out).only("files").overwrite().plan().unwrap().apply().unwrap();
    assert_eq!(fs::read_to_string(out.join(&written)).unwrap(), "fn a() {}\n");
}

#[test]
fn search_reports_each_match_of_the_history_once() {
    let (_folder, repo) = repo();
    let repo = repo.reading(MESSAGE_FORMATS);
    let session = repo.session("one").unwrap();
    say(&session, "a needle in turn one");
    say(&session, "nothing");
    let found = repo.search("needle").unwrap();
    let places: Vec<_> = found.iter().map(|found| (found.turn, found.path.as_str())).collect();
    assert_eq!(places, [(1, "agents/main/messages/0"), (1, "scratchpad/plan")]);
    assert_eq!(session.search("needle").unwrap(), found);
    assert_eq!(repo.session("other").unwrap().search("needle").unwrap(), []);
}

#[test]
fn undo_reverts_only_operations_of_its_actor() {
    let (_folder, repo) = repo();
    assert_eq!(repo.undo().unwrap(), None);
    let mine = repo.clone().acting_as("me");
    say(&mine.session("one").unwrap(), "first");
    say(&repo.session("two").unwrap(), "of another agent");
    assert_eq!(mine.undo().unwrap().as_deref(), Some("snapshot"));
    assert_eq!(repo.snapshot("one").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(repo.snapshot("two").unwrap().title(), "of another agent");
}
