//! Counts of prompts for commits that do not record them: counts cached next to a store save the
//! next process the walk to the first turn, and change no result.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use turntree::context::{Builder, MAIN_AGENT, MessageEntry, Role};
use turntree::local::open_repository;
use turntree::maintenance::{Policy, Purpose, Scope, collect, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSink};
use turntree::repo::{BranchName, NoteKeeper, Repository, SnapshotDraft};
use turntree_tests::{Sandbox, stamp};

/// The turns of the session: more than two stretches. One count is kept for each stretch.
const TURNS: u64 = 600;

/// The most turns that are counted again.
const STRETCH: usize = 256;

/// Notes in memory, and the number of writes.
#[derive(Debug, Default)]
struct Notes(Mutex<(BTreeMap<String, Bytes>, usize)>);

impl NoteKeeper for Notes {
    fn read(&self, _: &Repository, name: &str) -> Option<Bytes> {
        self.0.lock().unwrap().0.get(name).cloned()
    }

    fn write(&self, _: &Repository, name: &str, bytes: &[u8]) -> turntree::Result<()> {
        let mut kept = self.0.lock().unwrap();
        kept.0.insert(name.to_owned(), Bytes::copy_from_slice(bytes));
        kept.1 += 1;
        Ok(())
    }
}

/// Commits turns with a user message each. Every third is from a client and not a prompt.
fn talk(repo: &Repository, branch: &BranchName, turns: u64) {
    let mut change = repo.begin();
    let mut context = match repo.tip(branch) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::new(),
    };
    for turn in 0..turns {
        let who = if turn % 3 == 2 { "client" } else { "person" };
        let said = format!("{{\"{who}\":\"{branch} {turn} of {turns}\"}}");
        let blob = change.write(Kind::Blob, said.into()).unwrap();
        let entry = MessageEntry::new(blob, Role::User, "json");
        context.push_message(&mut change, MAIN_AGENT, &entry).unwrap();
        let tree = context.write(&mut change).unwrap();
        change.snapshot(branch, SnapshotDraft::new(tree, "", &stamp(1))).unwrap();
    }
    change.commit(&stamp(1), "turns").unwrap();
}

/// Returns the prompts up to a commit, and the number of messages read to count them.
fn count(repo: &Repository, commit: &ObjectId) -> (u64, usize) {
    let looked_at = Cell::new(0);
    let is_prompt = |_: &str, record: &[u8]| {
        looked_at.set(looked_at.get() + 1);
        record.starts_with(b"{\"person")
    };
    (repo.prompts(Some(&is_prompt)).unwrap().count(commit).unwrap(), looked_at.get())
}

#[test]
fn prompt_counts_are_reused_by_later_processes() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("talk").unwrap();
    talk(&sandbox.repo, &main, TURNS);
    let notes = Arc::new(Notes::default());
    let next_process = || sandbox.reopened().keeping_notes(Arc::<Notes>::clone(&notes));
    let first = sandbox.repo.tip(&main).unwrap();
    assert_eq!(count(&sandbox.reopened(), &first), (TURNS - TURNS / 3, 600));
    assert_eq!(count(&next_process(), &first), (TURNS - TURNS / 3, 600));
    assert_eq!(count(&next_process(), &first), (TURNS - TURNS / 3, 0));

    // The session continues: only new turns are counted, and a few turns get no new count.
    talk(&sandbox.repo, &main, 9);
    let newest = sandbox.repo.tip(&main).unwrap();
    let written = notes.0.lock().unwrap().1;
    assert_eq!(count(&next_process(), &newest), (406, 9));
    assert_eq!(notes.0.lock().unwrap().1, written);

    // A fork from an earlier turn: the walk ends at a kept count, at most one stretch away.
    let fork = BranchName::new("talk", "fork").unwrap();
    let middle = sandbox.repo.find_turn(&newest, 400).unwrap();
    let mut change = sandbox.repo.begin();
    change.move_branch(&fork, Some(middle));
    change.commit(&stamp(2), "fork").unwrap();
    talk(&sandbox.repo, &fork, 3);
    let forked = sandbox.repo.tip(&fork).unwrap();
    let (prompts, looked_at) = count(&next_process(), &forked);
    assert_eq!(prompts, count(&sandbox.reopened(), &forked).0);
    assert_eq!(prompts, 400 - 400 / 3 + 2);
    assert!(looked_at <= STRETCH, "{looked_at} messages of 403");

    // Packing deletes no turn, so the kept counts stay valid.
    collect(&sandbox.repo, Purpose::Gc, &stamp(3), &mut |_| {}).unwrap();
    assert_eq!(count(&next_process(), &first), (TURNS - TURNS / 3, 0));
}

#[test]
fn contexts_that_expired_cause_a_recount() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("talk").unwrap();
    talk(&sandbox.repo, &main, TURNS);
    let notes = Arc::new(Notes::default());
    let next_process = || sandbox.reopened().keeping_notes(Arc::<Notes>::clone(&notes));
    let tip = sandbox.repo.tip(&main).unwrap();
    let before = count(&next_process(), &tip).0;
    let policy = Policy { keep_last: Some(300), strict: true, ..Policy::default() };
    let mut change = sandbox.repo.begin();
    set_policy(&mut change, Scope::Session("talk"), &policy).unwrap();
    change.commit(&stamp(80), "a policy").unwrap();
    collect(&sandbox.repo, Purpose::GcNow, &stamp(90), &mut |_| {}).unwrap();
    let alone = count(&sandbox.reopened(), &tip).0;
    assert_ne!(alone, before, "expired turns have no prompts");
    for _ in 0..2 {
        assert_eq!(count(&next_process(), &tip).0, alone);
    }
}

#[test]
fn truncated_notes_are_ignored() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("talk").unwrap();
    talk(&sandbox.repo, &main, TURNS);
    let notes = Arc::new(Notes::default());
    let next_process = || sandbox.reopened().keeping_notes(Arc::<Notes>::clone(&notes));
    let tip = sandbox.repo.tip(&main).unwrap();
    let expected = count(&next_process(), &tip);
    for cut in [1, 40, 90] {
        for kept in notes.0.lock().unwrap().0.values_mut() {
            kept.truncate(kept.len() - cut);
        }
        assert_eq!(count(&next_process(), &tip), expected, "without {cut} bytes");
    }
    assert_eq!(count(&next_process(), &tip), (expected.0, 0));
}

#[test]
fn stored_counts_can_be_deleted() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("talk").unwrap();
    talk(&sandbox.repo, &main, TURNS);
    let tip = sandbox.repo.tip(&main).unwrap();
    let open = || open_repository(&sandbox.store_dir()).unwrap();
    let first = count(&open(), &tip);
    assert_eq!(count(&open(), &tip), (first.0, 0));
    std::fs::remove_dir_all(sandbox.store_dir().join("workspaces")).unwrap();
    assert_eq!(count(&open(), &tip), first);
}
