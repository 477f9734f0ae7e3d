//! What the formats of JSON documents keep to, and how their tests run them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::detect::detect;
use super::tests::short;
use super::{Event, FORMATS, FormatSpec};

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
    events.iter().map(short).collect()
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
