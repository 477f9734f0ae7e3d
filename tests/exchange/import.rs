//! Transcripts that grow, are rewritten or are damaged: nothing is lost, and every problem is
//! reported.

use proptest::prelude::*;
use serde_json::json;
use turntree::ErrorKind;
use turntree::context::FileEntry;
use turntree::maintenance::{Policy, Purpose, Scope, collect, fsck, set_policy, stats};
use turntree::object::{Kind, ObjectSource};
use turntree::repo::{BranchName, NewPin};
use turntree::store::{Thoroughness, Tier};
use turntree_exchange::formats::view;
use turntree_tests::{Sandbox, claude_code, claude_code_turn, stamp};

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_turn_becomes_a_commit_and_head_moves_once() {
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", claude_code(40).as_bytes()).unwrap();
    assert_eq!((report.turns, report.messages, report.format), (40, 70, "claude-code"));
    let head = sandbox.repo.head().unwrap();
    assert_eq!(head.branch, BranchName::main("work").unwrap());
    assert_eq!(head.commit, Some(report.head));

    let history: Vec<_> =
        sandbox.repo.history(&[report.head], &[]).unwrap().map(Result::unwrap).collect();
    let turns: Vec<u64> = history.iter().map(|entry| entry.commit.turn).collect();
    assert_eq!(turns, (1..=40).rev().collect::<Vec<u64>>());

    sandbox.import("other", claude_code(4).as_bytes()).unwrap();
    assert_eq!(sandbox.repo.head().unwrap().branch.session(), "work", "a born HEAD stays");
}

#[test]
fn complete_files_of_a_transcript_are_in_the_context() {
    let sandbox = Sandbox::new();
    let head = sandbox.import("work", claude_code(8).as_bytes()).unwrap().head;
    let context = sandbox.repo.context(&head).unwrap();
    let files = context.map(&sandbox.repo, "files").unwrap();
    let file = files.get(&sandbox.repo, b"src/part_2.rs").unwrap().unwrap();
    let file = FileEntry::from_item(&file).unwrap();
    let content = sandbox.repo.read_as(Kind::Blob, &file.blob).unwrap();
    assert!(content.starts_with(b"fn part_7() -> usize {\n    7\n}\n"), "the newest content");
    assert_eq!(file.size, content.len() as u64);
}

#[test]
fn rewrites_inside_a_turn_keep_earlier_messages() {
    let (sandbox, fresh) = (Sandbox::new(), Sandbox::new());
    let text = claude_code(3);
    sandbox.import("work", text.as_bytes()).unwrap();
    // The record that begins the second turn is the first with a model.
    let rewritten: Vec<&str> = text.lines().take(2).chain(text.lines().skip(3)).collect();
    let rewritten = joined(&rewritten);
    let report = sandbox.import("work", rewritten.as_bytes()).unwrap();
    assert_eq!(report.branch.branch(), "main");
    let whole = fresh.import("work", rewritten.as_bytes()).unwrap();
    assert_eq!(sandbox.messages(&report.head), fresh.messages(&whole.head));
}

#[test]
fn a_longer_transcript_adds_its_new_turns_on_top() {
    let sandbox = Sandbox::new();
    let first = sandbox.import("work", claude_code(10).as_bytes()).unwrap();
    let longer = claude_code(25);
    let second = sandbox.import("work", longer.as_bytes()).unwrap();
    assert_eq!((second.turns, second.branch), (15, first.branch));
    assert_eq!(sandbox.source(&second.head), longer.as_bytes());
    let history = sandbox.repo.history(&[second.head], &[first.head]).unwrap();
    assert_eq!(history.count(), 15, "the old commits are untouched ancestors");
}

#[test]
fn a_shorter_or_equal_transcript_changes_nothing() {
    let sandbox = Sandbox::new();
    let whole = sandbox.import("work", claude_code(20).as_bytes()).unwrap();
    for turns in [1, 7, 20] {
        let again = sandbox.import("work", claude_code(turns).as_bytes()).unwrap();
        assert_eq!((again.turns, again.new_bytes, again.head), (0, 0, whole.head));
    }
}

#[test]
fn rewritten_transcripts_continue_from_the_last_common_turn() {
    let sandbox = Sandbox::new();
    let text = claude_code(20);
    let first = sandbox.import("work", text.as_bytes()).unwrap();
    let rewritten = text.replace("part 12 of", "chapter 12 of");
    let second = sandbox.import("work", rewritten.as_bytes()).unwrap();
    assert_eq!(second.branch.to_string(), "work/main");
    assert_eq!(second.turns, 8, "turns 13 to 20 are new");
    assert_eq!(sandbox.source(&second.head), rewritten.as_bytes());
    assert_eq!(sandbox.source(&first.head), text.as_bytes(), "the old line is as it was");
    let common = sandbox.repo.resolve("work/main-2~8").unwrap().commit;
    assert_eq!(common, sandbox.repo.resolve("work~8").unwrap().commit);

    // Each version is recognized when it is imported again, and continues on its own branch.
    assert_eq!(sandbox.import("work", text.as_bytes()).unwrap().turns, 0);
    let grown = rewritten.clone() + &joined(&[&claude_code_turn(20)[0]]);
    let third = sandbox.import("work", grown.as_bytes()).unwrap();
    assert_eq!((third.branch, third.turns), (second.branch, 1));
}

/// A session of 40 turns after retention, which kept only the newest, and turn 5 if it is `pinned`.
fn expired(pinned: bool) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.import("work", claude_code(40).as_bytes()).unwrap();
    let mut change = sandbox.repo.begin();
    let policy = Policy { keep_last: Some(1), ..Policy::default() };
    set_policy(&mut change, Scope::Session("work"), &policy).unwrap();
    if pinned {
        let turn = sandbox.repo.resolve("work~35").unwrap().commit;
        change.pin(&turn, NewPin::default(), &stamp(2)).unwrap();
    }
    change.commit(&stamp(2), "policy").unwrap();
    // The newest operations are kept for undo, so the import must not be one of them.
    for number in 0..40 {
        let other = claude_code(1).replace("Please", "Now");
        sandbox.import(&format!("other-{number}"), other.as_bytes()).unwrap();
    }
    collect(&sandbox.repo, Purpose::Gc, &stamp(3), &mut |_| {}).unwrap();
    let dropped = sandbox.repo.resolve("work~20").unwrap().commit;
    assert_eq!(sandbox.repo.context(&dropped).unwrap_err().kind(), ErrorKind::Expired);
    sandbox
}

#[test]
fn transcripts_with_expired_turns_are_recognized() {
    let sandbox = expired(false);
    let again = sandbox.import("work", claude_code(40).as_bytes()).unwrap();
    assert_eq!((again.turns, again.branch.branch()), (0, "main"));
    let longer = claude_code(50);
    let grown = sandbox.import("work", longer.as_bytes()).unwrap();
    assert_eq!((grown.turns, grown.branch.branch()), (10, "main"));
    assert_eq!(sandbox.source(&grown.head), longer.as_bytes());
}

#[test]
fn rewrites_among_expired_turns_continue_from_an_existing_turn() {
    for (pinned, turns) in [(true, 35), (false, 40)] {
        let sandbox = expired(pinned);
        let rewritten = claude_code(40).replace("part 20 of", "chapter 20 of");
        let second = sandbox.import("work", rewritten.as_bytes()).unwrap();
        assert_eq!((second.turns, second.branch.branch()), (turns, "main"));
        assert_eq!(sandbox.source(&second.head), rewritten.as_bytes());
        let history = sandbox.repo.history(&[second.head], &[]).unwrap();
        assert_eq!(history.count(), 40, "turn 5 is shared if it exists, else nothing");
    }
}

#[test]
fn manual_snapshots_remain_below_later_turns() {
    let sandbox = Sandbox::new();
    sandbox.import("work", claude_code(5).as_bytes()).unwrap();
    let branch = BranchName::main("work").unwrap();
    let mut change = sandbox.repo.begin();
    let tip = sandbox.repo.tip(&branch).unwrap();
    let mut builder = turntree::context::Builder::from(sandbox.repo.context(&tip).unwrap());
    builder.set_entry(&mut change, "scratchpad", "mine", Some("note".into())).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let stamp = turntree_tests::stamp(2);
    let snapshot = turntree::repo::SnapshotDraft::new(tree, "by hand", &stamp);
    let by_hand = change.snapshot(&branch, snapshot).unwrap();
    change.commit(&stamp, "snapshot").unwrap();

    let report = sandbox.import("work", claude_code(9).as_bytes()).unwrap();
    assert_eq!(report.turns, 4);
    let context = sandbox.repo.context(&report.head).unwrap();
    assert_eq!(context.count(&sandbox.repo, "scratchpad").unwrap(), 1);
    let history = sandbox.repo.history(&[report.head], &[]).unwrap();
    assert!(history.map(Result::unwrap).any(|entry| entry.id == by_hand));
}

/// Checks that each kind of damage is reported with its line, and that the rest is imported.
#[test]
fn damaged_lines_are_kept_and_reported() {
    let text = claude_code(12);
    let good = lines(&text);
    let torn = good[6].get(..40).unwrap();
    let with = |line: &[u8]| {
        let mut bytes = joined(&good[..6]).into_bytes();
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        bytes.extend_from_slice(joined(&good[7..]).as_bytes());
        bytes
    };
    for damage in
        [torn.as_bytes(), b"{\"type\":\"user\",", b"not json", b"\xff\xfe\x00", b"\0\0\0\0"]
    {
        let sandbox = Sandbox::new();
        let bytes = with(damage);
        let report = sandbox.import("work", &bytes).unwrap();
        assert_eq!(report.notes.len(), 1, "{damage:?}");
        assert_eq!(report.notes[0].line, 7, "{damage:?}");
        assert_eq!(report.messages as usize, good.len() - 1, "{damage:?}");
        assert_eq!(sandbox.source(&report.head), bytes, "{damage:?}");
    }
}

#[test]
fn a_torn_last_line_is_completed_by_the_next_import() {
    let text = claude_code(6);
    for cut in [text.len() - 1, text.len() - 30, text.len() - 200] {
        let sandbox = Sandbox::new();
        let first = sandbox.import("work", &text.as_bytes()[..cut]).unwrap();
        let second = sandbox.import("work", text.as_bytes()).unwrap();
        assert_eq!(second.branch, first.branch);
        assert_eq!(sandbox.source(&second.head), text.as_bytes());
        assert_eq!(sandbox.messages(&second.head), lines(&text), "each message once");
    }
}

#[test]
fn two_records_on_one_line_are_two_messages() {
    let text = claude_code(4);
    let mut parts = lines(&text);
    let both = format!("{}{}", parts[2], parts[3]);
    parts.splice(2..4, [both.as_str()]);
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", joined(&parts).as_bytes()).unwrap();
    assert_eq!(report.messages as usize, lines(&text).len());
    assert_eq!(sandbox.source(&report.head), joined(&parts).as_bytes());
    assert_eq!(sandbox.messages(&report.head), lines(&text));
}

#[test]
fn lone_surrogates_are_kept_and_readable() {
    let record = r#"{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"cut \ud83d here"}}"#;
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", joined(&[record]).as_bytes()).unwrap();
    assert_eq!((report.messages, report.notes.len()), (1, 0));
    assert_eq!(sandbox.messages(&report.head), [record]);
    assert_eq!(view("claude-code", record.as_bytes()).text, "cut \u{fffd} here");
}

#[test]
fn records_of_100_mebibytes_round_trip() {
    let filler = "x".repeat(100 << 20);
    let record = format!(
        r#"{{"type":"user","uuid":"u","sessionId":"s","message":{{"role":"user","content":"{filler}"}}}}"#
    );
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", format!("{record}\n").as_bytes()).unwrap();
    assert_eq!(report.messages, 1);
    assert!(sandbox.source(&report.head).len() == record.len() + 1);
}

#[test]
fn unstorable_paths_do_not_stop_an_import() {
    let text = claude_code(8).replace("part_2.rs", &format!("{}.rs", "deep/".repeat(2000)));
    let sandbox = Sandbox::new();
    let report = sandbox.import("task", text.as_bytes()).unwrap();
    assert_eq!(report.turns, 8);
    assert_eq!(sandbox.source(&report.head), text.as_bytes());
}

#[test]
fn invalid_transcripts_are_rejected_without_store_changes() {
    let sandbox = Sandbox::new();
    for (bytes, expected) in [
        (&b""[..], "the file is empty"),
        (b"   \n\n", "empty"),
        (b"hello", "unknown format"),
        (b"{\"some\":\"thing\"}", "some"),
        (b"\x7fELF\x02\x01\x01", "unknown format"),
    ] {
        let error = sandbox.import("work", bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bytes:?}");
        assert!(error.to_string().contains(expected), "{bytes:?}: {error}");
    }
    assert!(sandbox.repo.branches().is_empty());
}

turntree_properties::properties! {
    cases = 24;

    /// For any changes of a transcript between two imports, both versions can be exported.
    #[test]
    fn both_versions_of_a_changed_transcript_round_trip(
        turns in 2_usize..14,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..4, any::<u8>()), 1..4),
    ) {
        let first = claude_code(turns).into_bytes();
        let mut second = first.clone();
        for (at, edit, byte) in edits {
            let at = at.index(second.len().max(1));
            match edit {
                0 => second.truncate(at),
                1 => { second.insert(at.min(second.len()), byte); }
                2 => if let Some(target) = second.get_mut(at) { *target = byte; },
                _ => second.extend_from_slice(claude_code(turns + 1).get(first.len()..).unwrap().as_bytes()),
            }
        }
        let sandbox = Sandbox::new();
        let one = sandbox.import("work", &first).unwrap();
        let Ok(two) = sandbox.import("work", &second) else { return Ok(()) };
        prop_assert_eq!(sandbox.source(&one.head), &first[..]);
        if two.turns > 0 {
            prop_assert_eq!(sandbox.source(&two.head), second);
        } else {
            // Nothing was added, so the first version contains every message of the second.
            let alone = Sandbox::new();
            let head = alone.import("work", &second).unwrap().head;
            prop_assert!(sandbox.messages(&two.head).starts_with(&alone.messages(&head)));
        }
    }
}

#[test]
fn costs_of_a_file_grow_linearly_with_its_forks() {
    let index_bytes = [200, 400].map(|forks| {
        let record = |id: usize, parent: Option<usize>| {
            let role = if parent.is_none() { "user" } else { "assistant" };
            let message = json!({"role": role, "content": format!("message {id}")});
            json!({"type": role, "uuid": id.to_string(), "sessionId": "s", "cwd": "/p",
                "parentUuid": parent.map(|id| id.to_string()), "message": message})
        };
        let records = (0..=forks).map(|id| record(id, (id > 0).then_some(0)));
        let text: String = records.map(|record| format!("{record}\n")).collect();
        let sandbox = Sandbox::new();
        sandbox.import("star", text.as_bytes()).unwrap();
        let purpose = Purpose::Repack(Tier::Compacted);
        collect(&sandbox.repo, purpose, &stamp(3), &mut |_| {}).unwrap();
        let now = stamp(3).time;
        let report = fsck(&sandbox.repo, Thoroughness::Full, now, &mut |_, _| {}).unwrap();
        assert_eq!(report.findings, []);
        stats(&sandbox.repo, None, now).unwrap().history_index_bytes
    });
    // A fork has every record of the file up to its end.
    assert!(index_bytes[0] > 0 && index_bytes[1] < 5 * index_bytes[0] / 2, "{index_bytes:?}");
}
