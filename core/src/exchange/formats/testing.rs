//! Tests of every format: running one over a file, telling its events, arbitrary and recorded files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::detect::{HEAD_BYTES, detect};
use super::{Content, Event, FORMATS, FormatSpec, PieceKind};

/// The events of `file`, read as `format`. Asserts that its pieces are the file.
pub(super) fn events_of(format: &FormatSpec, file: &[u8]) -> Vec<Event> {
    let mut parser = (format.parser)();
    let (mut events, mut joined) = (Vec::new(), Vec::new());
    for piece in (format.cut)(Box::new(file)) {
        let piece = piece.unwrap();
        joined.extend_from_slice(&piece.bytes);
        joined.extend_from_slice(&piece.suffix);
        parser.piece(&piece, &mut events);
    }
    parser.finish(&mut events);
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
    let line = |event: &Event| match event {
        Event::Turn => "turn".to_owned(),
        Event::Message(message) => {
            format!("{} {:?} {}", message.agent, message.role, message.summary)
        }
        Event::Meta { key, value } => format!("{key}={value}"),
        Event::File { path, content } => format!("file {path}: {}", entry(content)),
        Event::Scratchpad { key, content } => format!("pad {key}: {}", entry(content)),
        Event::SystemPrompt { agent, content } => format!("prompt {agent}: {}", text(content)),
        other => format!("{other:?}"),
    };
    events.iter().map(line).collect()
}

/// Values made of names that formats look for, in places where they do not belong.
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

proptest! {
    #[test]
    fn no_format_is_upset_by_odd_records(value in odd_json(), cut in any::<prop::sample::Index>()) {
        let whole = value.to_string();
        let wrapped = json!({"messages": [value], "history": [value], "steps": [value]}).to_string();
        let torn = &whole.as_bytes()[..cut.index(whole.len() + 1)];
        for format in FORMATS {
            for file in [whole.as_bytes(), wrapped.as_bytes(), torn] {
                events_of(format, file);
            }
            let _ = (format.view)(&value);
        }
    }
}

#[test]
fn every_document_format_is_known_by_its_beginning() {
    let cases = [
        (r#"{"info": {"id": "ses"}, "messages": [{"info": {}, "parts": []}]}"#, "opencode"),
        (r#"{"environment": "e", "trajectory": [{"action": "l"#, "swe-agent"),
        (r#"{"instance_id": "i", "test_result": {"git_patch": "d"#, "openhands"),
        (r#"[{"id": 0, "timestamp": "t", "source": "agent", "action": "s"#, "openhands"),
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

/// The folder of recorded sessions, if there is one on this machine.
fn recorded_sessions() -> Option<PathBuf> {
    let named = std::env::var_os("TURNTREE_SESSIONS").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/sessions");
    named.or(Some(beside)).filter(|folder| folder.is_dir())
}

/// Messages, turns, agents and files in `file`, which must be understood wholly.
fn counts(format: &FormatSpec, file: &[u8]) -> [usize; 4] {
    for piece in (format.cut)(Box::new(file)) {
        let kind = piece.unwrap().kind;
        assert!(!matches!(kind, PieceKind::Damaged { .. }), "{kind:?}");
    }
    let [mut messages, mut turns, mut files] = [0; 3];
    let mut agents = HashSet::new();
    for event in events_of(format, file) {
        match event {
            Event::Turn => turns += 1,
            Event::File { .. } => files += 1,
            Event::Unknown { what } => panic!("{what}"),
            Event::Message(message) => {
                messages += 1;
                agents.insert(message.agent);
            }
            _ => {}
        }
    }
    [messages, turns, agents.len(), files]
}

#[test]
fn recorded_documents_have_the_messages_that_were_counted() {
    const SUMMARY: &str = "exp__hello-world-context-summarization.trajectory";
    let Some(folder) = recorded_sessions() else { return };
    let cases = [
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
        ("cline-sdk/cline__session.messages.json".to_owned(), [32, 21, 1, 1]),
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
