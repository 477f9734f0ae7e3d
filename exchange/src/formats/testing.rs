//! Tests of every format: running one over a file, telling its events, arbitrary and recorded files.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::detect::detect;
use super::{FORMATS, named, view};
use crate::model::event::{Content, Event, MessageEvent};
use crate::model::format::Format;
use crate::model::headline::Headline;
use crate::text::piece::PieceKind;
use crate::text::unpack::HEAD_BYTES;

/// The events of `file`, read as `format`. Asserts that its pieces are the file.
pub(super) fn events_of(format: &Format, file: &[u8]) -> Vec<Event> {
    let records = format.records().unwrap();
    let mut parser = (records.parser)();
    let (mut events, mut joined) = (Vec::new(), Vec::new());
    for piece in (records.split)(Box::new(file)) {
        let piece = piece.unwrap();
        joined.extend_from_slice(&piece.bytes);
        joined.extend_from_slice(&piece.suffix);
        parser.piece(&piece, &mut events);
    }
    assert!(joined == file, "the pieces are the file");
    events
}

/// One line for each event.
pub(super) fn outline(events: &[Event]) -> Vec<String> {
    let text = |content: &Content| match content {
        Content::Own(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let entry = |content: &Option<Content>| content.as_ref().map_or("none".to_owned(), text);
    let headline = |headline: &Headline| match headline {
        Headline::Calls(calls) => {
            let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
            format!("[{}]", names.join(", "))
        }
        headline if headline.line().is_empty() => "[no text]".to_owned(),
        headline => headline.line(),
    };
    let message = |m: &MessageEvent| format!("{} {:?} {}", m.agent, m.role, headline(&m.headline));
    let line = |event: &Event| match event {
        Event::Turn => "turn".to_owned(),
        Event::Message(event) => message(event),
        Event::Meta { key, value } => format!("{key}={value}"),
        Event::File { path, content } => format!("file {path}: {}", entry(content)),
        Event::Scratchpad { key, content } => format!("pad {key}: {}", entry(content)),
        Event::LateMessage { message: event, back } => format!("late {back} {}", message(event)),
        Event::ReplaceMessage { message: event, back } => {
            format!("again {} {back}", message(event))
        }
        Event::Entry { section, key, content, .. } => {
            format!("entry {section}/{key}: {}", entry(content))
        }
        Event::Clear { section } => format!("clear {section}"),
        Event::SystemPrompt { agent, content } => format!("prompt {agent}: {}", text(content)),
        Event::Unknown { what } => format!("unknown: {what}"),
        Event::Unread { kind } => format!("unread: {kind}"),
        Event::Rewind { at, to } => format!("back to {to:?} at {at}"),
        Event::Rearrange { agent, before, summary, after } => {
            let summary: Vec<_> = summary.iter().map(message).collect();
            format!("compact {agent} {before:?} [{}] {after:?}", summary.join("; "))
        }
        Event::Compact { agent, summary, keep } => {
            let summary: Vec<_> = summary.iter().map(message).collect();
            format!("compact {agent} [{}] {keep:?}", summary.join("; "))
        }
    };
    events.iter().map(line).collect()
}

/// One line for each event of a file of `lines`.
pub(super) fn told(format: &Format, lines: &[Value]) -> Vec<String> {
    let file: String = lines.iter().map(|line| format!("{line}\n")).collect();
    outline(&events_of(format, file.as_bytes()))
}

#[test]
fn a_format_is_found_by_its_name() {
    for format in FORMATS {
        assert_eq!(named(format.name).unwrap().title, format.title);
    }
    let error = named("cobol").unwrap_err().to_string();
    assert!(error.starts_with("'cobol' is not a format: expected one of claude-code, "), "{error}");
}

#[test]
fn bytes_that_no_format_understands_are_shown_as_they_are() {
    assert_eq!(view("codex", b"{\"torn\":").text, "{\"torn\":");
    assert_eq!(view("cobol", b"{}").text, "{}");
    assert_eq!(view("pi", b"\xff").text, "\u{fffd}");
}

/// Values that contain names which formats look for, in wrong places.
fn odd_json() -> impl Strategy<Value = Value> {
    const NAMES: &[&str] = &[
        "messages",
        "history",
        "steps",
        "simulations",
        "trajectory",
        "info",
        "parts",
        "role",
        "content",
        "type",
        "text",
        "action",
        "observation",
        "args",
        "extras",
        "source",
        "id",
        "cause",
        "tool_calls",
        "function",
        "arguments",
        "state",
        "status",
        "metadata",
        "files",
        "input",
        "todos",
        "say",
        "ask",
        "ts",
        "system",
        "message",
        "payload",
        "results",
        "data",
        "uuid",
        "name",
        "toolUseResult",
        "filePath",
        "file",
        "oldString",
        "newString",
        "originalFile",
        "isSidechain",
        "isMeta",
        "isCompactSummary",
        "timestamp",
        "call_id",
        "changes",
        "replacement_history",
        "firstKeptEntryIndex",
        "toolCallId",
        "toolRequests",
        "toolName",
        "path",
        "cwd",
        "version",
        "subtype",
        "rendered",
        "attachment",
        "systemPrompt",
    ];
    const TEXTS: &[&str] = &[
        "user",
        "assistant",
        "tool",
        "system",
        "agent",
        "tool_use",
        "tool_result",
        "text",
        "edit",
        "write",
        "completed",
        "todowrite",
        "{\"command\":1}",
        "[x] Result:",
        "2026-01-01T00:00:00Z",
        "<final_file_content path=\"",
        "",
        "\u{1f600}",
        "progress",
        "agent_progress",
        "compact_boundary",
        "message",
        "response_item",
        "event_msg",
        "compacted",
        "session_meta",
        "function_call",
        "patch_apply_end",
        "update_plan",
        "session",
        "compaction",
        "tool.execution_start",
        "tool.execution_complete",
        "create",
        "toolResult",
        "attachment",
        "é",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(TEXTS).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let field = (prop::sample::select(NAMES).prop_map(String::from), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            prop::collection::vec(field, 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

turntree_properties::properties! {
    #[test]
    fn no_format_is_upset_by_odd_records(value in odd_json(), cut in any::<prop::sample::Index>()) {
        let whole = value.to_string();
        let wrapped = json!({"messages": [value], "history": [value], "steps": [value]}).to_string();
        let torn = &whole.as_bytes()[..cut.index(whole.len() + 1)];
        for format in FORMATS.iter().filter(|format| format.records().is_ok()) {
            for file in [whole.as_bytes(), wrapped.as_bytes(), torn] {
                for event in events_of(format, file) {
                    if let Event::Message(message) = event {
                        prop_assert!(message.headline.line().chars().count() <= 100);
                        prop_assert!(!message.agent.contains('/'));
                    }
                }
            }
            let _ = (format.view)(&value);
        }
    }

    #[test]
    fn any_mutilated_record_is_understood_or_kept_as_damage(
        picks in prop::collection::vec((0..SEEDS.len(), 0..400_usize, any::<u8>()), 1..8),
    ) {
        let mut file = Vec::new();
        for (seed, at, byte) in picks {
            let start = file.len();
            file.extend_from_slice(SEEDS[seed].as_bytes());
            if let Some(hit) = file.get_mut(start + at) {
                *hit = byte;
            }
            file.push(b'\n');
        }
        for format in FORMATS {
            if format.records().is_ok() {
                events_of(format, &file);
            }
            let _ = view(format.name, &file);
        }
    }
}

#[test]
fn every_document_format_is_known_by_its_beginning() {
    let cases = [
        (r#"{"info": {"id": "ses"}, "messages": [{"info": {}, "parts": []}]}"#, "opencode"),
        (r#"{"info": {"model_stats": {"instance_cost": 0.1}, "config": {"agent"#, "mini-swe-agent"),
        (r#"{"environment": "e", "trajectory": [{"action": "l"#, "swe-agent"),
        (r#"{"instance_id": "i", "test_result": {"git_patch": "d"#, "openhands"),
        (r#"[{"id": 0, "timestamp": "t", "source": "agent", "action": "s"#, "openhands"),
        (r#"{"source": "user", "kind": "MessageEvent", "id": "e1", "timestamp": "t"#, "openhands"),
        (
            r#"[{"id": "e1", "timestamp": "t", "source": "agent", "kind": "ActionEvent"}]"#,
            "openhands",
        ),
        (
            r#"{"conversation": {"id": "c"}, "events": [{"kind": "MessageEvent", "source": "user", "id": "1"#,
            "openhands",
        ),
        (r#"{"issue": {"number": 7}, "issue_type": "issue", "instruction": "Fix"#, "openhands"),
        (r#"{"schema_version": "ATIF-v1.7", "session_id": "s"#, "atif"),
        (r#"{"version": 1, "agent": "lead", "sessionId": "s", "messages": ["#, "cline-sdk"),
        (r#"[{"role": "user", "content": [{"type": "text", "text": "<task>\nx"#, "cline"),
        (r#"[{"ts": 1, "type": "say", "say": "task"}]"#, "cline-ui"),
        (r#"{"timestamp": "t", "info": {"seed": 1}, "tasks": [{"id": "0"#, "tau2"),
        (r#"{"system": "s", "messages": [{"role": "user"}]}"#, "anthropic-chat"),
        (r#"[{"role": "user", "content": [{"type": "tool_result", "x"#, "anthropic-chat"),
        ("[\n  {\n    \"role\": \"system\",\n    \"content\": \"x", "openai-chat"),
        (r#"{"role": "user", "content": "x"}"#, "openai-chat"),
    ];
    for (head, name) in cases {
        assert_eq!(detect(head.as_bytes()).unwrap().name, name, "{head}");
    }
}

/// A line of each format, with many of its fields.
const SEEDS: [&str; 6] = [
    r#"{"type":"user","uuid":"1","cwd":"/p","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]},"toolUseResult":{"filePath":"/p/a","oldString":"a","newString":"b","originalFile":"a\ud83d\ude00"}}"#,
    r#"{"type":"progress","data":{"type":"agent_progress","agentId":"x","message":{"type":"assistant","message":{"content":[{"type":"tool_use","name":"TodoWrite","input":{"todos":[]}}]}}}}"#,
    r#"{"type":"event_msg","payload":{"type":"patch_apply_end","success":true,"changes":{"a":{"type":"add","content":"x"},"b":{"type":"update","unified_diff":"@@ -1 +1 @@\n-a\n+b\n","move_path":"c"}}}}"#,
    r#"{"type":"compacted","payload":{"replacement_history":[{"type":"message","role":"user","content":"x"},{"type":"reasoning"}]}}"#,
    r#"{"type":"tool.execution_start","data":{"toolCallId":"1","toolName":"create","arguments":{"path":"a","file_text":"b"}}}"#,
    r#"{"type":"compaction","summary":"s","firstKeptEntryIndex":18446744073709551615}"#,
];

/// The folder of recorded sessions, if there is one on this machine.
fn recorded_sessions() -> Option<PathBuf> {
    let named = std::env::var_os("TURNTREE_SESSIONS").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/sessions");
    named.or(Some(beside)).filter(|folder| folder.is_dir())
}

/// Messages, turns, agents and files in `file`, which must be understood wholly, with every tool
/// result in the turn of its call.
fn counts(format: &Format, file: &[u8]) -> [usize; 4] {
    let [mut messages, mut turns, mut files] = [0; 3];
    let mut calls: HashMap<String, HashSet<String>> = HashMap::new();
    let records = format.records().unwrap();
    let mut parser = (records.parser)();
    let mut events = Vec::new();
    for piece in (records.split)(Box::new(file)) {
        let piece = piece.unwrap();
        assert!(!matches!(piece.kind, PieceKind::Damaged { .. }), "{:?}", piece.kind);
        parser.piece(&piece, &mut events);
        for event in events.drain(..) {
            match event {
                Event::Turn => {
                    turns += 1;
                    calls.values_mut().for_each(HashSet::clear);
                }
                Event::File { .. } => files += 1,
                Event::Unknown { what } => panic!("line {}: {what}", piece.line),
                Event::Message(message) => {
                    messages += 1;
                    let bytes = match &message.content {
                        Content::Piece => &piece.bytes,
                        Content::Part(range) => &piece.bytes.slice(range.clone()),
                        Content::Own(bytes) => bytes,
                    };
                    let view = view(format.name, bytes);
                    let calls = calls.entry(message.agent).or_default();
                    calls.extend(view.tool_calls.into_iter().map(|call| call.id));
                    for result in view.tool_results {
                        let id = result.call_id;
                        let is_paired = id.is_empty() || calls.contains(&id);
                        assert!(is_paired, "line {}: {id} in {calls:?}", piece.line);
                    }
                }
                _ => {}
            }
        }
    }
    [messages, turns, calls.len(), files]
}

#[test]
fn recorded_sessions_have_the_messages_that_were_counted() {
    const SUMMARY: &str = "exp__hello-world-context-summarization.trajectory";
    let Some(folder) = recorded_sessions() else { return };
    let cases = [
        ("claude-code/cli__1423d227c85c-0.jsonl".to_owned(), [391, 131, 1, 28]),
        ("claude-code/cli__51a265047d72-3.jsonl".to_owned(), [253, 67, 2, 9]),
        ("claude-code/cli__720c20f08988-0.jsonl".to_owned(), [965, 296, 3, 40]),
        ("claude-code/cli__c070516b3fa9-0.jsonl".to_owned(), [155, 47, 1, 19]),
        ("claude-code/cli__cadbc77f557f-0.jsonl".to_owned(), [359, 107, 1, 43]),
        ("claude-code/cli__cff7f96ad60a-1.jsonl".to_owned(), [286, 94, 1, 21]),
        ("claude-code/ironclaw__5f44571a6da0-1.jsonl".to_owned(), [666, 175, 1, 3]),
        ("claude-code/ironclaw__5f44571a6da0-2.jsonl".to_owned(), [17, 6, 1, 2]),
        ("claude-code/ironclaw__bdf40454b1a2-1.jsonl".to_owned(), [1523, 494, 1, 37]),
        ("claude-code/ironclaw__bdf40454b1a2-2.jsonl".to_owned(), [81, 21, 1, 4]),
        ("codex/agentv__3c162d1d8ad4-1.jsonl".to_owned(), [550, 161, 1, 0]),
        ("codex/agentv__8d1ecb6dc628-0.jsonl".to_owned(), [254, 45, 1, 0]),
        ("codex/agentv__a57b22d8d4bd-0.jsonl".to_owned(), [320, 61, 1, 0]),
        ("codex/agentv__a60726a7452e-0.jsonl".to_owned(), [1055, 223, 1, 2]),
        ("codex/agentv__a854a7cb1c1f-0.jsonl".to_owned(), [171, 28, 1, 0]),
        ("copilot-cli/agentv__269e1b9e5502-0.jsonl".to_owned(), [125, 55, 1, 0]),
        ("copilot-cli/agentv__4f8edb57e3d1-0.jsonl".to_owned(), [3, 2, 1, 0]),
        ("copilot-cli/agentv__4f8edb57e3d1-1.jsonl".to_owned(), [3, 2, 1, 0]),
        ("copilot-cli/agentv__4f8edb57e3d1-2.jsonl".to_owned(), [3, 2, 1, 0]),
        ("copilot-cli/agentv__4f8edb57e3d1-3.jsonl".to_owned(), [3, 2, 1, 0]),
        ("pi/pi-mono__large-session.jsonl".to_owned(), [892, 519, 1, 9]),
        ("pi/pi-mono__session.jsonl".to_owned(), [448, 259, 1, 8]),
        (
            "swe-agent/SWE-smith__pandas-dev__pandas.95280573.pr_53652.traj".to_owned(),
            [76, 38, 1, 2],
        ),
        ("swe-agent/SWE-agent__katy.traj".to_owned(), [37, 19, 1, 0]),
        ("swe-agent/SWE-agent__flash.traj".to_owned(), [9, 5, 1, 0]),
        ("swe-agent/SWE-agent__i_got_id_demo.traj".to_owned(), [43, 22, 1, 0]),
        ("swe-agent/SWE-agent__rock.traj".to_owned(), [25, 13, 1, 0]),
        ("openhands/OpenHands__examples_output.jsonl".to_owned(), [222, 108, 3, 0]),
        (
            "chat-messages/tau2-bench__toolorchestra_retail_gpt-5_1trial.json".to_owned(),
            [2534, 1661, 114, 0],
        ),
        ("cline-sdk/cline__session.messages.json".to_owned(), [32, 21, 1, 5]),
        (format!("atif/{SUMMARY}.json"), [10, 10, 1, 0]),
        (format!("atif/{SUMMARY}.summarization-1-summary.json"), [5, 5, 1, 0]),
        (format!("atif/{SUMMARY}.summarization-1-answers.json"), [7, 7, 1, 0]),
        (format!("atif/{SUMMARY}.summarization-1-questions.json"), [2, 2, 1, 0]),
        ("atif/exp__hello-world-invalid-json.trajectory.json".to_owned(), [5, 5, 1, 0]),
    ];
    for (path, expected) in cases {
        let Ok(file) = std::fs::read(folder.join(&path)) else { continue };
        let format = detect(&file[..file.len().min(HEAD_BYTES)]).unwrap();
        let folder = path.split('/').next().unwrap_or_default();
        assert_eq!(format.name, folder.replace("chat-messages", "tau2"), "{path}");
        assert_eq!(counts(format, &file), expected, "{path}");
    }
}
