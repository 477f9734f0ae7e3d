//! Notes next to the store save the list of sessions from reading unchanged sessions, and change no
//! answer.

use std::fs;
use std::sync::Arc;

use turntree::context::{MAIN_AGENT, MessageEntry, Role};
use turntree::maintenance::{Policy, Purpose, Scope, collect, set_policy};
use turntree::object::{Kind, ObjectSink};
use turntree::repo::{BranchName, Repository, SessionLabels};
use turntree::store::OpenOptions;
use turntree_exchange::{KnownSessions, SessionSummary, sessions};
use turntree_tests::counting::CountingIo;
use turntree_tests::{Sandbox, claude_code, commit_turn, stamp};

/// The sessions of a short list.
const SHOWN: usize = 30;

fn say(repo: &Repository, branch: &BranchName, text: &str, second: i64) {
    commit_turn(repo, branch, text, &stamp(second), |context, change| {
        let blob = change.write(Kind::Blob, text.to_owned().into()).unwrap();
        let entry = MessageEntry::new(blob, Role::User, "text");
        context.push_message(change, MAIN_AGENT, &entry).unwrap();
    });
}

/// A store with sessions of one turn each.
fn store_of(sessions: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    for number in 0..sessions {
        let branch = BranchName::main(&format!("s{number:05}")).unwrap();
        say(&sandbox.repo, &branch, &format!("prompt {number}"), 10 + number as i64);
    }
    sandbox
}

/// Reads the newest sessions like another process. Returns them, and the reads of the files of the
/// store after it was opened.
fn newest(sandbox: &Sandbox) -> (Vec<SessionSummary>, u64) {
    let io = CountingIo::default();
    let options = OpenOptions::new([9; 16]);
    let repo = Repository::open(Arc::new(io.clone()), &sandbox.store_dir(), options).unwrap();
    let before = io.reads();
    let known = KnownSessions::default();
    let table = known.table(&repo).unwrap();
    let shown = table.listed().take(SHOWN).map(|row| known.summary(&repo, &row).unwrap());
    (shown.collect(), io.reads() - before)
}

/// Checks that a cached list equals one that is read from the store.
fn check(sandbox: &Sandbox, step: &str) {
    let cached = sessions(&sandbox.reopened()).unwrap();
    forget(sandbox);
    let read = sessions(&sandbox.reopened()).unwrap();
    assert_eq!(cached, read, "{step}");
}

/// Deletes everything cached next to the store.
fn forget(sandbox: &Sandbox) {
    let _ = fs::remove_dir_all(sandbox.store_dir().join("workspaces"));
}

#[test]
fn a_list_reads_as_much_of_many_sessions_as_of_few() {
    let mut costs = Vec::new();
    for sessions in [40, 400] {
        let sandbox = store_of(sessions);
        let (first, all) = newest(&sandbox);
        let (again, none) = newest(&sandbox);
        assert_eq!(first, again);
        assert_eq!(first[0].first_prompt, Some(format!("prompt {}", sessions - 1)));
        assert!(all > sessions as u64, "{sessions}: {all} reads at first");
        // One session gets a turn: the list reads only that session.
        let branch = BranchName::main("s00003").unwrap();
        say(&sandbox.repo, &branch, "and more", 100_000);
        let (told, one) = newest(&sandbox);
        assert_eq!((&*told[0].name, told[0].prompts), ("s00003", 2));
        assert_eq!(told[0].first_prompt.as_deref(), Some("prompt 3"));
        costs.push((none, one));
        check(&sandbox, "one went on");
    }
    assert_eq!(costs[0], costs[1]);
    assert_eq!(costs[0].0, 0, "an unchanged list reads no object");
}

#[test]
fn a_cached_list_equals_a_new_one_after_every_change() {
    let sandbox = store_of(3);
    let repo = &sandbox.repo;
    let commit = |step: &str, edit: &dyn Fn(&mut turntree::repo::Transaction<'_>)| {
        sessions(&sandbox.reopened()).unwrap();
        let mut change = repo.begin();
        edit(&mut change);
        change.commit(&stamp(9), step).unwrap();
        check(&sandbox, step);
    };
    check(&sandbox, "three");
    let tip = repo.tip(&"s00001/main".parse().unwrap());
    commit("a branch more", &|change| change.move_branch(&"s00000/other".parse().unwrap(), tip));
    commit("a title", &|change| {
        let labels = SessionLabels { title: Some("A title".into()), labels: ["x".into()].into() };
        change.set_session_labels("s00001", &labels).unwrap();
    });
    commit("no title", &|change| {
        change.set_session_labels("s00001", &SessionLabels::default()).unwrap();
    });
    commit("another first", &|change| change.move_branch(&"a/main".parse().unwrap(), tip));
    commit("a branch less", &|change| change.move_branch(&"s00000/other".parse().unwrap(), None));
    commit("a session less", &|change| change.move_branch(&"s00000/main".parse().unwrap(), None));
    sandbox.import("imported", claude_code(5).as_bytes()).unwrap();
    check(&sandbox, "an import");
}

#[test]
fn a_cached_list_forgets_what_a_collection_freed() {
    let sandbox = store_of(2);
    let repo = &sandbox.repo;
    sandbox.import("imported", claude_code(9).as_bytes()).unwrap();
    sessions(&sandbox.reopened()).unwrap();
    let policy = Policy { keep_last: Some(1), strict: true, ..Policy::default() };
    let mut change = repo.begin();
    set_policy(&mut change, Scope::Session("imported"), &policy).unwrap();
    change.move_branch(&"s00000/main".parse().unwrap(), None);
    change.commit(&stamp(80), "a policy").unwrap();
    collect(repo, Purpose::GcNow, &stamp(90), &mut |_| {}).unwrap();
    check(&sandbox, "turns expired");
    newest(&sandbox);
    assert_eq!(newest(&sandbox).1, 0);
}

#[test]
fn a_damaged_cache_is_read_again_and_a_past_state_is_not_cached() {
    let sandbox = store_of(40);
    let (told, _) = newest(&sandbox);
    let folder = sandbox.store_dir().join("workspaces");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(newest(&sandbox).0, told);

    let past = sandbox.repo.operations().nth(10).unwrap().unwrap().id;
    let past = sandbox.reopened().at_operation(&past).unwrap();
    assert_eq!(sessions(&past).unwrap().len(), 30);
    assert_eq!(newest(&sandbox), (told, 0));
}
