//! The reader written only from the pages restores whole transcripts from a journal, an archive and
//! a bundle, and the readable rest from a damaged one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use turntree::maintenance::{Purpose, collect};
use turntree::repo::BranchName;
use turntree::store::{Io, ParityShare, RealIo, Tier, append_parity};
use turntree::transfer::bundle::{BundleRequest, plan_bundle};
use turntree_exchange::apply_state;
use turntree_tests::independent_reader::{format_spec, read, reader, reader_runs};
use turntree_tests::{Sandbox, claude_code, commit_turn, recorded_sessions, stamp};

/// A bundle of a session, as a file.
fn bundle(sandbox: &Sandbox, session: &str) -> PathBuf {
    let path = sandbox.folder().join(format!("{session}.bundle"));
    let wanted = [BundleRequest::Session(session.to_owned())];
    let plan = plan_bundle(&sandbox.repo, &wanted, &[]).unwrap();
    plan.write(&sandbox.repo, Tier::Archive, &RealIo.create(&path).unwrap()).unwrap();
    path
}

#[test]
fn the_reader_extracts_transcripts_from_journal_archive_and_bundle() {
    if !reader_runs() {
        return;
    }
    // The smallest transcript of every folder, one for each agent.
    let mut transcripts = vec![claude_code(20).into_bytes()];
    let mut recorded = recorded_sessions();
    recorded
        .sort_by_key(|path| (path.parent().map(Path::to_path_buf), path.metadata().unwrap().len()));
    recorded.retain(|path| path.metadata().is_ok_and(|file| file.len() < 200_000));
    recorded.dedup_by_key(|path| path.parent().map(Path::to_path_buf));
    transcripts.extend(recorded.iter().map(|path| fs::read(path).unwrap()));
    for bytes in transcripts {
        let sandbox = Sandbox::new();
        // Files that are no transcript of a known format are skipped.
        if sandbox.import("work", &bytes).is_err() {
            continue;
        }
        let store = sandbox.store_dir();
        assert!(read(&store, &["transcript", "work"]) == bytes, "in the journal");
        collect(&sandbox.repo, Purpose::Repack(Tier::Archive), &stamp(90), &mut |_| ()).unwrap();
        assert!(read(&store, &["transcript", "refs/heads/work/main"]) == bytes, "in an archive");
        let path = bundle(&sandbox, "work");
        assert!(read(&path, &["transcript"]) == bytes, "in a bundle");
        let file = RealIo.open(&path, turntree::store::Access::Write).unwrap();
        append_parity(&file, ParityShare::default()).unwrap();
        assert!(read(&path, &["transcript", "work"]) == bytes, "in one with parity");
        for words in
            [["log", "work"], ["ls", "work:agents/main/messages"], ["cat", "work:meta/session_id"]]
        {
            assert_eq!(reader(&path, &words).stdout, reader(&store, &words).stdout, "{words:?}");
        }
    }
}

#[test]
fn sessions_without_a_source_are_extracted_as_message_lines() {
    if !reader_runs() {
        return;
    }
    let sandbox = Sandbox::new();
    let state = br#"{"agents":{"main":{"messages":[{"role":"user","content":"a\nb"},
        {"role": "assistant",
         "content": "c"}]}}}"#;
    commit_turn(
        &sandbox.repo,
        &BranchName::main("work").unwrap(),
        "turn",
        &stamp(1),
        |builder, sink| {
            apply_state(sink, builder, state).unwrap();
        },
    );
    let path = bundle(&sandbox, "work");
    for from in [sandbox.store_dir(), path] {
        let lines = String::from_utf8(read(&from, &["transcript", "work"])).unwrap();
        let messages = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        let contents: Vec<serde_json::Value> = messages.collect();
        assert_eq!(contents.len(), 2);
        assert_eq!(
            (&contents[0]["content"], &contents[1]["content"]),
            (&"a\nb".into(), &"c".into())
        );
    }
}

#[test]
fn the_reader_extracts_the_messages_of_golden_stores() {
    if !reader_runs() {
        return;
    }
    for name in ["store-v1", "store-v1-journal", "store-v1-tiers", "store-v1-without-ids"] {
        let store = format_spec().join("vectors").join(name).join("store");
        let given = read(&store, &["transcript", "refs/heads/golden/main"]);
        let listed = read(&store, &["ls", "refs/heads/golden/main", "agents/main/messages"]);
        let mut messages = Vec::new();
        for place in 0..listed.iter().filter(|byte| **byte == b'\n').count() {
            let entry = format!("refs/heads/golden/main:agents/main/messages/{place}");
            messages.extend(read(&store, &["cat", &entry]));
            messages.push(b'\n');
        }
        assert!(!given.is_empty() && given == messages, "{name}");
    }
}

#[test]
fn the_reader_extracts_intact_parts_of_damaged_bundles() {
    if !reader_runs() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.import("work", claude_code(40).as_bytes()).unwrap();
    let path = bundle(&sandbox, "work");
    let whole = fs::read(&path).unwrap();
    let all = String::from_utf8(read(&path, &["objects"])).unwrap();
    let heads: Vec<usize> =
        (0..whole.len() - 8).filter(|at| whole[*at..].starts_with(b"\x89TTB\r\n\x1a\n")).collect();
    for head in &heads {
        let mut bytes = whole.clone();
        bytes[head + 125] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let Output { status, stdout, stderr } = reader(&path, &["objects"]);
        let left = String::from_utf8(stdout).unwrap();
        let told = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{told}");
        assert!(told.contains(&format!("block at {head} does not verify")), "{told}");
        assert!(left.lines().all(|line| all.contains(line)), "{left}");
        assert!(left.lines().count() < all.lines().count());
    }
    // The last block has the commits. Without it all contents are still readable.
    assert!(String::from_utf8(reader(&path, &["objects"]).stdout).unwrap().contains("\tblob\t"));
}

#[test]
fn the_reader_reports_encrypted_bundles() {
    if !reader_runs() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sealed.bundle");
    fs::write(&path, [b"age-encryption.org/v1\n-> X25519 ".as_slice(), &[7; 500]].concat())
        .unwrap();
    let Output { status, stderr, .. } = reader(&path, &["refs"]);
    let told = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(told.contains("encrypted") && told.contains("age --decrypt"), "{told}");
}
