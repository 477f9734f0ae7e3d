//! Edits of recorded sessions: calls and results stay together, and edits can restore messages that
//! a compaction replaced.

use std::collections::BTreeSet;

use turntree::context::MessageEntry;
use turntree::object::{Kind, ObjectId, ObjectSource, Trigger};
use turntree::tree::Item;
use turntree_exchange::formats::view;
use turntree_exchange::{
    Cut, EditedConversation, EditedMessage, edit_conversation, expand_compaction, is_prompt,
};
use turntree_tests::{Sandbox, recorded_sessions};

fn entries(edited: &EditedConversation) -> Vec<(MessageEntry, Option<Vec<u8>>)> {
    let entry = |message: &EditedMessage| match message {
        EditedMessage::Kept(item) => (MessageEntry::from_item(item).unwrap(), None),
        EditedMessage::Shortened(entry, bytes) => (entry.clone(), Some(bytes.clone())),
    };
    edited.messages.iter().map(entry).collect()
}

/// The ids of calls without a result, and of results without a call.
fn unpaired(sandbox: &Sandbox, edited: &EditedConversation) -> BTreeSet<String> {
    let (mut calls, mut results) = (BTreeSet::new(), BTreeSet::new());
    for (entry, bytes) in entries(edited) {
        let stored = || sandbox.repo.read_as(Kind::Blob, &entry.blob).unwrap().to_vec();
        let view = view(&entry.media, &bytes.unwrap_or_else(stored));
        calls.extend(view.tool_calls.into_iter().map(|call| call.id));
        results.extend(view.tool_results.into_iter().map(|result| result.call_id));
    }
    calls.symmetric_difference(&results).cloned().collect()
}

fn edit(sandbox: &Sandbox, tip: &ObjectId, cuts: &[Cut]) -> turntree::Result<EditedConversation> {
    let mut prompts = sandbox.repo.prompts(Some(&is_prompt)).unwrap();
    edit_conversation(&sandbox.repo, tip, &mut prompts, cuts, &[], 0, &mut |_, _| Ok(None))
}

fn items(sandbox: &Sandbox, id: &ObjectId) -> Vec<Item> {
    let store = sandbox.repo.store();
    let list = sandbox.repo.context(id).unwrap().messages(store, "main").unwrap();
    list.iter(store, 0..list.len()).map(Result::unwrap).collect()
}

#[test]
fn edits_keep_calls_with_their_results() {
    for file in recorded_sessions() {
        let bytes = std::fs::read(&file).unwrap();
        if bytes.len() > 700_000 {
            continue;
        }
        let sandbox = Sandbox::new();
        let head = sandbox.import("recorded", &bytes).unwrap().head;
        let whole = edit(&sandbox, &head, &[]).unwrap();
        let count = whole.messages.len() as u64;
        let before = unpaired(&sandbox, &whole);
        for cut in [
            Cut::Prompts(-1, -1),
            Cut::Prompts(1, 2),
            Cut::Messages(count / 2, count / 2),
            Cut::Messages(count / 3, count / 3 + 4),
        ] {
            let Ok(edited) = edit(&sandbox, &head, &[cut]) else { continue };
            let name = file.display();
            let left = edited.messages.len() as u64;
            assert_eq!(left + edited.dropped, count, "{name} {cut:?}");
            assert!(edited.dropped > 0 && edited.bytes.1 < edited.bytes.0, "{name} {cut:?}");
            let parted: Vec<String> =
                unpaired(&sandbox, &edited).difference(&before).cloned().collect();
            assert!(parted.is_empty(), "{name} {cut:?}: {parted:?}");
        }
        // Each long output is offloaded once, and nothing is dropped.
        let mut prompts = sandbox.repo.prompts(Some(&is_prompt)).unwrap();
        let mut put = |text: &str, _| Ok((text.len() > 2000).then(|| "[put away]".to_owned()));
        let short =
            edit_conversation(&sandbox.repo, &head, &mut prompts, &[], &[], 0, &mut put).unwrap();
        assert_eq!((short.dropped, short.messages.len() as u64), (0, count));
        assert_eq!(unpaired(&sandbox, &short), before, "{}", file.display());
        assert!((short.shortened > 0) == (short.bytes.1 < short.bytes.0), "{}", file.display());
        // A single message: all others stay, and so do pairs of calls and results.
        let chosen = [Cut::Messages(count / 2, count / 2)];
        let mut put = |text: &str, is_chosen: bool| {
            Ok((is_chosen && text.len() > 200).then(|| "[put away]".to_owned()))
        };
        let one = edit_conversation(&sandbox.repo, &head, &mut prompts, &[], &chosen, 0, &mut put)
            .unwrap();
        let is_changed = |message: &EditedMessage| matches!(message, EditedMessage::Shortened(..));
        let changed = one.messages.iter().filter(|message| is_changed(message)).count();
        assert_eq!(changed, usize::from(one.shortened > 0), "{}", file.display());
        assert_eq!(unpaired(&sandbox, &one), before, "{}", file.display());
    }
}

#[test]
fn expanding_a_compaction_restores_the_replaced_messages() {
    for file in recorded_sessions() {
        let bytes = std::fs::read(&file).unwrap();
        if bytes.len() > 4_000_000 {
            continue;
        }
        let sandbox = Sandbox::new();
        let head = sandbox.import("recorded", &bytes).unwrap().head;
        let line = sandbox.repo.history(&[head], &[]).unwrap().first_parent();
        let found =
            line.map(Result::unwrap).find(|entry| entry.commit.trigger == Trigger::Compaction);
        let Some(compaction) = found else {
            assert!(expand_compaction(&sandbox.repo, &head).is_err(), "{}", file.display());
            continue;
        };
        let (edited, turn) = expand_compaction(&sandbox.repo, &head).unwrap();
        assert_eq!(turn, compaction.commit.turn);
        let blobs: Vec<ObjectId> = entries(&edited).iter().map(|(entry, _)| entry.blob).collect();
        let blob = |item: &Item| MessageEntry::from_item(item).unwrap().blob;
        let before: Vec<ObjectId> =
            items(&sandbox, &compaction.parents[0]).iter().map(blob).collect();
        let then = items(&sandbox, &compaction.id).len();
        let later: Vec<ObjectId> = items(&sandbox, &head).iter().skip(then).map(blob).collect();
        assert_eq!(blobs, [before, later].concat(), "{}", file.display());
    }
}

#[test]
fn results_repeated_after_a_compaction_are_restored_once() {
    let time = r#""timestamp":"2026-11-20T10:00:00.000Z""#;
    let text = |id: &str, by: &str, text: &str| {
        format!(r#"{{"id":"{id}",{time},"type":"{by}","content":[{{"text":"{text}"}}]}}"#)
    };
    let result =
        r#"{"functionResponse":{"id":"c1","name":"list","response":{"output":"work.txt"}}}"#;
    let call = r#"{"functionCall":{"id":"c1","name":"list","args":{}}}"#;
    let lines = [
        r#"{"sessionId":"g1","projectHash":"h","startTime":"2026-11-20T10:00:00.000Z","lastUpdated":"2026-11-20T10:00:00.000Z","kind":"main"}"#.to_owned(),
        text("m1", "user", "Write it."),
        text("m2", "gemini", "Written."),
        text("m3", "user", "List it."),
        format!(
            r#"{{"id":"m4",{time},"type":"gemini","content":"","toolCalls":[{{"id":"c1","name":"list","args":{{}},"result":[{result}],"status":"success"}}]}}"#
        ),
        format!(
            r#"{{"$set":{{"messages":[{},{},{},{{"id":"n4",{time},"type":"gemini","content":[{call}]}}]}}}}"#,
            text("n1", "user", "A summary."),
            text("n2", "gemini", "Got it."),
            text("n3", "user", "List it."),
        ),
        format!(r#"{{"id":"m5",{time},"type":"user","content":[{result}]}}"#),
        text("m6", "gemini", "Listed."),
    ];
    let sandbox = Sandbox::new();
    let head = sandbox.import("g1", (lines.join("\n") + "\n").as_bytes()).unwrap().head;
    let (edited, _) = expand_compaction(&sandbox.repo, &head).unwrap();
    let views = entries(&edited).into_iter().map(|(entry, _)| {
        let bytes = sandbox.repo.read_as(Kind::Blob, &entry.blob).unwrap();
        view(&entry.media, &bytes)
    });
    let said: Vec<String> = views
        .map(|it| format!("{} {}/{}", it.text, it.tool_calls.len(), it.tool_results.len()))
        .collect();
    assert_eq!(
        said,
        ["Write it. 0/0", "Written. 0/0", "List it. 0/0", " 1/1", "Listed. 0/0"],
        "no summary, and the result once"
    );
}
