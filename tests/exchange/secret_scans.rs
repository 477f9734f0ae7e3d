//! Scans that skip sessions without secrets find the same secrets as a scan of everything.

use proptest::prelude::*;
use serde_json::json;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, SearchScope};
use turntree_exchange::{find_secrets, scan_secrets};
use turntree_tests::{Sandbox, commit_turn, github_token, stamp};

const SESSIONS: [&str; 4] = ["a", "b", "c", "d"];

/// A change of the history.
#[derive(Debug, Clone)]
enum Change {
    /// A turn of a session with a note, which has a secret if the number is set.
    Turn(usize, Option<u8>),
    /// A branch of the second session at the tip of the first one.
    Fork(usize, usize),
    /// A deletion of all branches of a session.
    Delete(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0..4_usize, prop_oneof![2 => Just(None), 1 => (0..2_u8).prop_map(Some)])
            .prop_map(|(session, secret)| Change::Turn(session, secret)),
        1 => (0..4_usize, 0..4_usize).prop_map(|(from, to)| Change::Fork(from, to)),
        1 => (0..4_usize).prop_map(Change::Delete),
    ]
}

fn main_of(session: usize) -> BranchName {
    BranchName::main(SESSIONS[session]).unwrap()
}

fn apply(repo: &Repository, change: &Change, number: usize) {
    let stamp = stamp(i64::try_from(number).unwrap() + 10);
    match change {
        Change::Turn(session, secret) => {
            let note = match secret {
                Some(seed) => format!("the token is {}", github_token(u64::from(*seed))),
                None => format!("note {}", number % 3),
            };
            commit_turn(repo, &main_of(*session), "a turn", &stamp, |builder, change| {
                let key = format!("n{}", number % 2);
                builder.set_entry(change, "scratchpad", &key, Some(note.into())).unwrap();
            });
        }
        Change::Fork(from, to) => {
            let Some(tip) = repo.tip(&main_of(*from)) else { return };
            let name = BranchName::new(SESSIONS[*to], &format!("fork-{number}")).unwrap();
            let mut change = repo.begin();
            change.move_branch(&name, Some(tip));
            change.commit(&stamp, "fork").unwrap();
        }
        Change::Delete(session) => {
            let mut change = repo.begin();
            for (branch, _) in repo.branches() {
                if branch.session() == SESSIONS[*session] {
                    change.delete_branch(&branch);
                }
            }
            change.commit(&stamp, "delete").unwrap();
        }
    }
}

/// One scope a session, as `secrets scan --all` has.
fn scopes(repo: &Repository) -> Vec<SearchScope> {
    let scope = |session: &&str| {
        let its = repo.branches().into_iter().filter(|(name, _)| name.session() == *session);
        let starts = its.map(|(name, tip)| (tip, Some(name))).collect::<Vec<_>>();
        SearchScope { starts, hide: Vec::new() }
    };
    SESSIONS.iter().map(scope).filter(|scope| !scope.starts.is_empty()).collect()
}

type Place = (String, u64, ObjectId, String, String);

/// The places of a scan of everything, and of one that may skip sessions.
fn both(repo: &Repository) -> (Vec<Place>, Vec<Place>, u64) {
    let whole = repo.scan(&scopes(repo), &find_secrets, &|_, _| {}).unwrap();
    let places = whole.places.into_iter();
    let place =
        |it: turntree::repo::ScanPlace<_>| (it.session, it.turn, it.commit, it.section, it.key);
    let mut whole: Vec<Place> = places.map(place).collect();
    let scan = scan_secrets(repo, &scopes(repo), &|_, _| {}).unwrap();
    let places = scan.findings.into_iter().flat_map(|finding| finding.places);
    let mut found: Vec<Place> =
        places.map(|it| (it.session, it.turn, it.commit, it.section, it.key)).collect();
    whole.sort();
    found.sort();
    (whole, found, scan.known)
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn scans_after_any_changes_find_what_a_scan_of_everything_finds(
        changes in proptest::collection::vec(change(), 1..14),
    ) {
        let sandbox = Sandbox::new();
        for (number, change) in changes.iter().enumerate() {
            apply(&sandbox.repo, change, number);
            let (whole, found, _) = both(&sandbox.repo);
            prop_assert_eq!(whole, found, "after {:?}", change);
        }
    }
}

#[test]
fn a_second_scan_reads_only_sessions_that_changed_or_have_findings() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    for (number, secret) in [None, Some(1), None].into_iter().enumerate() {
        apply(repo, &Change::Turn(number, secret), number);
    }
    let scan = |repo: &Repository| {
        let scan = scan_secrets(repo, &scopes(repo), &|_, _| {}).unwrap();
        (scan.known, scan.blobs, scan.findings.len())
    };
    assert_eq!(scan(repo), (0, 3, 1));
    assert_eq!(scan(repo), (2, 1, 1));
    assert_eq!(scan(&sandbox.reopened()), (2, 1, 1));
    apply(repo, &Change::Turn(0, Some(0)), 7);
    assert_eq!(scan(repo), (1, 3, 2));
    // A fork of a session with a secret has it, too, also after the session is deleted.
    apply(repo, &Change::Fork(1, 3), 8);
    assert_eq!(scan(repo).2, 2);
    apply(repo, &Change::Delete(1), 9);
    assert_eq!(scan(repo).2, 2);
    let scan = scan_secrets(repo, &scopes(repo), &|_, _| {}).unwrap();
    assert!(scan.findings.iter().any(|it| it.places.iter().any(|place| place.session == "b")));
}

#[test]
fn every_fork_of_a_file_is_scanned_to_its_last_piece() {
    // Every 20th record is a message with a secret, and the one after it no message.
    let record = |id: u64| {
        let text = match id % 20 {
            0 | 1 => github_token(id),
            _ => format!("message {id}"),
        };
        let mut record = json!({"uuid": id.to_string(), "sessionId": "s", "cwd": "/p",
            "parentUuid": (id > 0).then_some("0"),
            "timestamp": format!("2026-01-01T00:{:02}:00.000Z", id * 7 % 60)});
        let of_kind = match id % 20 {
            1 => json!({"type": "system", "subtype": "local_command", "detail": text}),
            _ => json!({"type": if id == 0 { "user" } else { "assistant" },
                "message": {"role": if id == 0 { "user" } else { "assistant" }, "content": text}}),
        };
        for (name, value) in of_kind.as_object().unwrap() {
            record[name] = value.clone();
        }
        record
    };
    let text: String = (0..200).map(|id| format!("{}\n", record(id))).collect();
    let sandbox = Sandbox::new();
    sandbox.import("star", text.as_bytes()).unwrap();
    let branches = sandbox.repo.branches().into_iter();
    let starts: Vec<_> = branches.map(|(name, tip)| (tip, Some(name))).collect();
    assert!(starts.len() > 100);
    let scope = SearchScope { starts, hide: Vec::new() };
    let scan = scan_secrets(&sandbox.repo, &[scope], &|_, _| {}).unwrap();
    assert_eq!(scan.findings.len(), 20);
    for place in scan.findings.iter().flat_map(|finding| &finding.places) {
        // The first fork with the record, and no later one that has it, too: it ends there, or with
        // the message after a record without one.
        let source = String::from_utf8(sandbox.source(&place.commit)).unwrap();
        let last_two = source.lines().rev().take(2).collect::<String>();
        assert!(!find_secrets(last_two.as_bytes()).is_empty(), "{place:?}");
    }
}
