//! Tests of the reader of pi.

use super::super::testing::{events_of, outline, told};
use super::*;

fn user(text: &str) -> Value {
    json!({"type": "message", "message": {"role": "user", "content": text}})
}

#[test]
fn a_session_has_the_title_of_its_client() {
    let lines = [
        json!({"type": "session", "id": "s", "cwd": "/p"}),
        json!({"type": "session_info", "id": "1", "name": "fix it"}),
    ];
    assert_eq!(told(&FORMAT, &lines), ["session_id=s", "cwd=/p", "title=fix it"]);
}

#[test]
fn a_prompt_a_reply_and_a_command_each_begin_a_turn() {
    let lines = [
        json!({"type": "session", "id": "s", "cwd": "/p", "modelId": "m1",
               "branchedFrom": "/old.jsonl"}),
        user("write it"),
        json!({"type": "message", "message": {"role": "assistant", "content": [
            {"type": "toolCall", "id": "1", "name": "write",
             "arguments": {"path": "a.txt", "content": "hi\n"}},
            {"type": "toolCall", "id": "2", "name": "write",
             "arguments": {"path": "b.txt", "content": "no"}},
        ]}}),
        json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "2",
               "isError": true, "content": [{"type": "text", "text": "denied"}]}}),
        json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "1",
               "isError": false, "content": [{"type": "text", "text": "done"}]}}),
        json!({"type": "message", "message": {"role": "assistant", "content": [
            {"type": "toolCall", "id": "3", "name": "edit",
             "arguments": {"path": "a.txt", "oldText": "hi", "newText": "ho"}}]}}),
        json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "3",
               "content": []}}),
        json!({"type": "message", "message": {"role": "bashExecution", "command": "ls",
               "output": "a.txt\n", "exitCode": 0}}),
        json!({"type": "surprise"}),
    ];
    assert_eq!(
        told(&FORMAT, &lines),
        [
            "session_id=s",
            "cwd=/p",
            "model=m1",
            "branched_from=/old.jsonl",
            "turn",
            "main User write it",
            "turn",
            "main Assistant [write, write]",
            "main Tool denied",
            "main Tool done",
            "file a.txt: hi\n",
            "turn",
            "main Assistant [edit]",
            "main Tool [no text]",
            "file a.txt: ho\n",
            "turn",
            "main User Ran `ls`",
            "unread: surprise",
        ]
    );
}

#[test]
fn the_sections_of_the_system_message_are_the_prompt_and_no_turn() {
    let system = |sections: Value| json!({"type": "message", "message": {"role": "system", "content": "", "sections": sections}});
    let lines = [
        json!({"type": "session", "id": "s", "cwd": "/p", "parentSession": "/h/2026_a.jsonl"}),
        system(json!({"preamble": "Be good.", "tools": "<tools/>", "cwd": "/p"})),
        user("go"),
        system(json!({"tools": null, "preamble": "Be better.", "skills": "s"})),
        json!({"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 9,
            "systemMessage": {"role": "system", "content": "Forced."}}),
    ];
    let told = told(&FORMAT, &lines);
    assert_eq!(
        told[3..],
        [
            "prompt main: Be good.\n\n<tools/>\n\n/p",
            "turn",
            "main User go",
            "prompt main: Be better.\n\n/p\n\ns",
            "compact main [main User so far] 1..1",
            "prompt main: Forced.",
        ]
    );
    assert_eq!(
        origin(&lines[0]),
        RecordOrigin::OtherSession { session: "2026_a".to_owned(), pieces: None }
    );
}

#[test]
fn an_entry_that_was_written_twice_is_one() {
    let entry = |id: &str, parent: Option<&str>, role: &str| {
        json!({"type": "message", "id": id, "parentId": parent,
            "message": {"role": role, "content": id}})
    };
    let mut lines = vec![
        json!({"type": "session", "id": "s", "cwd": "/p"}),
        entry("a", None, "user"),
        entry("b", Some("a"), "assistant"),
        entry("c", Some("b"), "user"),
        entry("d", Some("c"), "assistant"),
    ];
    let once = told(&FORMAT, &lines);
    lines.extend([lines[3].clone(), lines[4].clone()]);
    assert_eq!(told(&FORMAT, &lines), once);
}

#[test]
fn what_is_never_sent_is_in_no_context() {
    let message = |message: Value| json!({"type": "message", "message": message});
    let stopped = |reason: &str| {
        message(json!({"role": "assistant", "stopReason": reason,
            "content": [{"type": "text", "text": reason}], "usage": {"input": 1}}))
    };
    let ran = |excluded: bool| {
        message(json!({"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2,
            "excludeFromContext": excluded}))
    };
    let lines = [
        user("go"),
        stopped("error"),
        stopped("aborted"),
        stopped("stop"),
        ran(true),
        ran(false),
        json!({"type": "custom_message", "customType": "x", "content": "told", "display": false}),
        json!({"type": "usage", "kind": "cache_warm", "usage": {"input": 1}}),
    ];
    assert_eq!(
        told(&FORMAT, &lines),
        [
            "turn",
            "main User go",
            "turn",
            "main Assistant stop",
            "turn",
            "main User Ran `ls`",
            "main User told",
        ]
    );
    let view = view(&lines[5]);
    assert_eq!(view.text, "Ran `ls`\n```\na\n```\n\nCommand exited with code 2");
}

#[test]
fn a_compaction_keeps_the_messages_from_its_first_kept_entry() {
    let compaction = |first: u64| json!({"type": "compaction", "summary": "so far", "firstKeptEntryIndex": first});
    let lines = [
        json!({"type": "session", "id": "s", "cwd": "/p"}),
        user("1"),
        json!({"type": "thinking_level_change", "thinkingLevel": "high"}),
        user("3"),
        user("4"),
        compaction(3),
        user("6"),
        compaction(4),
    ];
    let compactions: Vec<_> =
        told(&FORMAT, &lines).into_iter().filter(|e| e.starts_with("compact")).collect();
    assert_eq!(
        compactions,
        ["compact main [main User so far] 1..3", "compact main [main User so far] 2..4"]
    );
}

#[test]
fn a_second_compaction_keeps_from_an_entry_that_the_first_one_kept() {
    let entry = |id: &str, parent: &str| {
        json!({"type": "message", "id": id, "parentId": parent,
            "message": {"role": "user", "content": id}})
    };
    let compaction = |id: &str, parent: &str, first: &str| {
        json!({"type": "compaction", "id": id, "parentId": parent, "summary": "so far",
            "firstKeptEntryId": first})
    };
    let lines = [
        json!({"type": "session", "version": 3, "id": "s", "cwd": "/p"}),
        entry("a", "s"),
        entry("b", "a"),
        entry("c", "b"),
        entry("d", "c"),
        compaction("x", "d", "c"),
        entry("e", "x"),
        compaction("y", "e", "d"),
    ];
    let told = told(&FORMAT, &lines);
    let compactions: Vec<_> = told.iter().filter(|e| e.starts_with("compact")).collect();
    assert_eq!(
        compactions,
        ["compact main [main User so far] 2..4", "compact main [main User so far] 2..4"]
    );
}

#[test]
fn records_on_a_shared_line_are_messages_but_no_entries() {
    let file = format!(
        "{}\n{}{}\n{}\n{}\n",
        json!({"type": "session", "id": "s", "cwd": "/p"}),
        user("shared"),
        user("shared"),
        user("entry 1"),
        json!({"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1}),
    );
    let kept = events_of(&FORMAT, file.as_bytes()).into_iter().find_map(|event| match event {
        Event::Compact { keep, .. } => Some(keep),
        _ => None,
    });
    assert_eq!(kept, Some(2..3));
}

/// An entry of version 3.
fn said(id: &str, parent: Option<&str>, role: &str) -> Value {
    json!({"type": "message", "id": id, "parentId": parent,
        "message": {"role": role, "content": [{"type": "text", "text": id}]}})
}

fn edit(id: &str, parent: &str, target: &str, replacement: &Value) -> Value {
    json!({"type": "context_edit", "id": id, "parentId": parent, "targetId": target,
        "replacement": replacement})
}

fn told_of(lines: &[Value]) -> Vec<String> {
    let header = json!({"type": "session", "version": 3, "id": "s", "cwd": "/p"});
    let lines: Vec<_> = std::iter::once(header).chain(lines.iter().cloned()).collect();
    told(&FORMAT, &lines).split_off(2)
}

#[test]
fn edits_remove_replace_and_restore_messages() {
    let lines = [
        said("a", None, "user"),
        said("b", Some("a"), "assistant"),
        said("c", Some("b"), "user"),
        edit("x", "c", "b", &json!({"content": "short"})),
        edit("y", "x", "a", &Value::Null),
        edit("z", "y", "a", &json!({"content": "again"})),
        edit("w", "z", "none", &Value::Null),
    ];
    let expected = [
        "again main Assistant short 1",
        "compact main [0..0] [] [1..3]",
        "compact main [0..0] [main User again] [0..2]",
        "unknown: a context_edit of a missing entry",
    ];
    assert_eq!(told_of(&lines)[6..], expected);
}

#[test]
fn edits_and_compactions_apply_only_on_their_path() {
    let compaction = |id: &str, parent: &str, first: &str| {
        json!({"type": "compaction", "id": id, "parentId": parent, "summary": "so far",
            "firstKeptEntryId": first})
    };
    let lines = [
        said("a", None, "user"),
        said("b", Some("a"), "assistant"),
        said("c", Some("b"), "user"),
        edit("x", "c", "a", &Value::Null),
        said("d", Some("x"), "assistant"),
        // The path of this entry has no edit: a, b, c, e.
        said("e", Some("c"), "assistant"),
        compaction("y", "e", "c"),
        said("f", Some("y"), "user"),
        // This entry rewinds to before the compaction: a, b, g.
        said("g", Some("b"), "user"),
        compaction("z", "g", "b"),
    ];
    let told = told_of(&lines);
    let changes: Vec<_> = told
        .iter()
        .filter(|line| line.starts_with("compact") || line.starts_with("back"))
        .collect();
    let expected = [
        "compact main [0..0] [] [1..3]",
        "back to Some(3) at 6",
        "compact main [main User so far] 2..4",
        "back to Some(2) at 9",
        "compact main [main User so far] 1..3",
    ];
    assert_eq!(changes, expected, "{told:?}");
}

#[test]
fn an_entry_without_a_parent_restarts_the_session() {
    let lines =
        [said("a", None, "user"), said("b", Some("a"), "assistant"), said("c", None, "user")];
    let told = told_of(&lines);
    assert_eq!(told[4..], ["back to None at 3", "turn", "main User c"]);
}

#[test]
fn oh_my_pi_files_begin_with_the_title_and_omit_replaced_replies() {
    let slot = |title: &str| {
        format!(
            "{}\n",
            json!({"type": "title", "v": 1, "title": title, "updatedAt": "t", "pad": "   "})
        )
    };
    let mut retried = said("b", Some("a"), "assistant");
    retried["message"]["content"] = json!([{"type": "toolCall", "id": "k", "name": "ls",
        "arguments": {}}]);
    retried["message"]["retryRecovery"] = json!({"kind": "auto-retry", "status": "recovered"});
    let lines = [
        json!({"type": "session", "version": 3, "id": "s", "cwd": "/p", "title": "old"}),
        json!({"type": "session_init", "id": "i", "parentId": null, "systemPrompt": "Be good."}),
        said("a", Some("i"), "user"),
        retried,
        json!({"type": "message", "id": "c", "parentId": "b", "message": {"role": "toolResult",
            "toolCallId": "k", "content": "none"}}),
        said("d", Some("c"), "assistant"),
        json!({"type": "model_change", "id": "m", "parentId": "d", "model": "vendor/name"}),
        json!({"type": "reset_boundary", "id": "r", "parentId": "m"}),
        said("e", Some("r"), "user"),
    ];
    let file: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let told = outline(&events_of(&FORMAT, format!("{}{file}", slot("it's \"new\"")).as_bytes()));
    let expected = [
        "title=it's \"new\"",
        "session_id=s",
        "cwd=/p",
        "prompt main: Be good.",
        "turn",
        "main User a",
        "turn",
        "main Assistant d",
        "model=name",
        "compact main [] 0..0",
        "turn",
        "main User e",
    ];
    assert_eq!(told, expected);
}
