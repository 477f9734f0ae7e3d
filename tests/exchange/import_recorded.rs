//! Imports real recorded sessions turn by turn, and exports them byte for byte.
//!
//! The recordings are not part of the project: without them these tests print that they are skipped
//! and pass.

use std::collections::BTreeMap;
use std::path::Path;

use turntree::context::Transcript;
use turntree::object::Trigger;
use turntree_tests::{Sandbox, recorded_sessions};

/// Every recording with its name as a session.
fn each_recording(check: impl Fn(&Path, &str, &[u8])) {
    let files = recorded_sessions();
    if files.is_empty() {
        eprintln!("skipped: no recorded sessions beside the project, nor in TURNTREE_SESSIONS");
    }
    for file in files {
        let session = file.file_stem().unwrap().to_string_lossy().replace(['.', ' '], "-");
        check(&file, &session, &std::fs::read(&file).unwrap());
    }
}

#[test]
fn every_recording_round_trips() {
    let sandbox = Sandbox::new();
    let mut heads = BTreeMap::new();
    each_recording(|file, session, bytes| {
        let report = sandbox.import(session, bytes).unwrap();
        // A recording may be only a copy of a different one.
        let turns = sandbox.repo.context(&report.head).unwrap();
        let transcript = Transcript::open(&sandbox.repo, &turns).unwrap();
        let is_copy = transcript.own().is_empty();
        assert!(report.turns > 0 && (report.messages > 0) != is_copy, "{}", file.display());
        assert_eq!(report.input_bytes, bytes.len() as u64, "{}", file.display());
        assert!(sandbox.source(&report.head) == bytes, "{} differs", file.display());

        let again = sandbox.import(session, bytes).unwrap();
        assert_eq!((again.turns, again.messages, again.new_bytes), (0, 0, 0), "{}", file.display());
        assert_eq!(again.head, report.head);
    });
    let reopened = sandbox.reopened();
    for (branch, head) in reopened.branches() {
        assert!(heads.insert(branch, head).is_none());
    }
    assert_eq!(heads.len(), sandbox.repo.branches().len(), "another process sees every session");
}

#[test]
fn every_turn_of_a_recording_is_a_prefix_of_the_session_up_to_compactions() {
    each_recording(|file, session, bytes| {
        let sandbox = Sandbox::new();
        let head = sandbox.import(session, bytes).unwrap().head;
        let history = sandbox.repo.history(&[head], &[]).unwrap();
        let entries: Vec<_> = history.collect::<Result<_, _>>().unwrap();
        // Samples turns with a step that is coprime to most lengths, newest first.
        let mut later = sandbox.messages(&head);
        for window in entries.windows(2).step_by(7) {
            let [newer, older] = window else { continue };
            let messages = sandbox.messages(&older.id);
            if newer.commit.trigger == Trigger::Compaction {
                later = messages;
                continue;
            }
            let newer_messages = sandbox.messages(&newer.id);
            assert!(newer_messages.starts_with(&messages), "{}: {}", file.display(), older.id);
            let compacted = entries
                .iter()
                .take_while(|entry| entry.id != older.id)
                .any(|entry| entry.commit.trigger == Trigger::Compaction);
            assert!(compacted || later.starts_with(&messages), "{}: {}", file.display(), older.id);
        }
    });
}

#[test]
fn truncated_recordings_resume_to_the_same_state() {
    each_recording(|file, session, bytes| {
        if bytes.len() > 1_000_000 {
            return;
        }
        let whole = Sandbox::new();
        let expected = whole.import(session, bytes).unwrap();
        for share in [3, 5, 8] {
            let sandbox = Sandbox::new();
            let cut = bytes.len() / 10 * share;
            let Ok(first) = sandbox.import(session, &bytes[..cut]) else { continue };
            let report = sandbox.import(session, bytes).unwrap();
            assert_eq!(report.branch, first.branch, "{} cut at {cut}", file.display());
            assert!(sandbox.source(&report.head) == bytes, "{} cut at {cut}", file.display());
            assert_eq!(
                sandbox.messages(&report.head),
                whole.messages(&expected.head),
                "{} cut at {cut}",
                file.display()
            );
        }
    });
}
