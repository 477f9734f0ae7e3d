//! What every format keeps to, on made-up, mutilated and recorded files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::exchange::detect::{HEAD_BYTES, detect};

/// The events of a file of `format`.
pub(super) fn events(format: &FormatSpec, file: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut parser = (format.parser)();
    for piece in (format.cut)(Box::new(file)) {
        parser.piece(&piece.unwrap(), &mut events);
    }
    parser.finish(&mut events);
    events
}

/// The events of `lines`, one word or two each.
pub(super) fn outline(format: &FormatSpec, lines: &[Value]) -> Vec<String> {
    let file: String = lines.iter().map(|line| format!("{line}\n")).collect();
    events(format, file.as_bytes()).iter().map(short).collect()
}

pub(super) fn short(event: &Event) -> String {
    let message = |m: &MessageEvent| format!("{} {:?}: {}", m.agent, m.role, m.summary);
    let text = |content: &Option<Content>| match content {
        None => "gone".to_owned(),
        Some(Content::Own(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(other) => format!("{other:?}"),
    };
    match event {
        Event::Turn => "turn".to_owned(),
        Event::Message(event) => message(event),
        Event::Compact { agent, summary, keep } => {
            let summary: Vec<_> = summary.iter().map(message).collect();
            format!("compact {agent} [{}] {keep:?}", summary.join("; "))
        }
        Event::SystemPrompt { content, .. } => format!("system {}", text(&Some(content.clone()))),
        Event::Scratchpad { key, content } => format!("pad {key} = {}", text(content)),
        Event::File { path, content } => format!("file {path} = {}", text(content)),
        Event::Meta { key, value } => format!("meta {key} = {value}"),
        Event::Unknown { what } => format!("unknown: {what}"),
    }
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

/// Any JSON, with the names that formats look for.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "user",
            "assistant",
            "progress",
            "agent_progress",
            "system",
            "compact_boundary",
            "text",
            "tool_use",
            "tool_result",
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
            "write",
            "toolResult",
            "attachment",
            "é",
            "",
        ])
        .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "type",
        "message",
        "role",
        "content",
        "data",
        "payload",
        "id",
        "uuid",
        "name",
        "arguments",
        "input",
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
        "text",
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
    ]);
    word.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..8).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_record_is_understood_or_reported(values in prop::collection::vec(any_json(), 1..6)) {
        let file: String = values.iter().map(|value| format!("{value}\n")).collect();
        for format in FORMATS {
            for event in events(format, file.as_bytes()) {
                if let Event::Message(message) = event {
                    prop_assert!(message.summary.chars().count() <= 100);
                    prop_assert!(!message.agent.contains('/'));
                }
            }
            for value in &values {
                let _ = view(format.name, value.to_string().as_bytes());
            }
        }
    }
}

/// One line of each format, with much of what it can hold.
const SEEDS: [&str; 6] = [
    r#"{"type":"user","uuid":"1","cwd":"/p","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]},"toolUseResult":{"filePath":"/p/a","oldString":"a","newString":"b","originalFile":"a\ud83d\ude00"}}"#,
    r#"{"type":"progress","data":{"type":"agent_progress","agentId":"x","message":{"type":"assistant","message":{"content":[{"type":"tool_use","name":"TodoWrite","input":{"todos":[]}}]}}}}"#,
    r#"{"type":"event_msg","payload":{"type":"patch_apply_end","success":true,"changes":{"a":{"type":"add","content":"x"},"b":{"type":"update","unified_diff":"@@ -1 +1 @@\n-a\n+b\n","move_path":"c"}}}}"#,
    r#"{"type":"compacted","payload":{"replacement_history":[{"type":"message","role":"user","content":"x"},{"type":"reasoning"}]}}"#,
    r#"{"type":"tool.execution_start","data":{"toolCallId":"1","toolName":"create","arguments":{"path":"a","file_text":"b"}}}"#,
    r#"{"type":"compaction","summary":"s","firstKeptEntryIndex":18446744073709551615}"#,
];

proptest! {
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
            events(format, &file);
            let _ = view(format.name, &file);
        }
    }
}

/// Where recorded sessions lie, with the number of messages of each by their provenance table.
fn recorded() -> Option<(PathBuf, BTreeMap<String, usize>)> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/sessions");
    let folder = std::env::var_os("TURNTREE_SESSIONS").map_or(beside, PathBuf::from);
    let table = std::fs::read_to_string(folder.join("PROVENANCE.md")).ok()?;
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (file, messages) = (cells.next()?, cells.nth(5)?);
        let digits = messages.split(|c: char| !c.is_ascii_digit()).next()?;
        Some((file.to_owned(), digits.parse().ok()?))
    };
    Some((folder, table.lines().filter_map(row).collect()))
}

/// What a recorded file came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    pieces: usize,
    messages: usize,
    of_others: usize,
    turns: usize,
    compactions: usize,
    replaced: usize,
    files: usize,
    todos: usize,
    unknown: Vec<String>,
    /// Results whose call is not in the same turn.
    stray: Vec<String>,
}

fn tally(format: &FormatSpec, file: &[u8]) -> Tally {
    let mut tally = Tally::default();
    let mut parser = (format.parser)();
    let mut calls = BTreeSet::new();
    let mut joined = Vec::with_capacity(file.len());
    let mut events = Vec::new();
    for piece in (format.cut)(Box::new(file)) {
        let piece = piece.unwrap();
        joined.extend_from_slice(&piece.bytes);
        joined.extend_from_slice(&piece.suffix);
        tally.pieces += 1;
        assert!(!matches!(piece.kind, PieceKind::Damaged { .. }), "{piece:?}");
        parser.piece(&piece, &mut events);
        for event in events.drain(..) {
            match &event {
                Event::Turn => {
                    tally.turns += 1;
                    calls.clear();
                }
                Event::Message(message) if message.agent == MAIN => {
                    tally.messages += 1;
                    let view = view(format.name, &piece.bytes);
                    assert_eq!(view.role, message.role, "{}", piece.line);
                    calls.extend(view.tool_calls.into_iter().map(|call| call.id));
                    let stray = view.tool_results.into_iter().map(|result| result.call_id);
                    tally.stray.extend(stray.filter(|id| !calls.contains(id)));
                }
                Event::Message(_) => tally.of_others += 1,
                Event::Compact { summary, .. } => {
                    tally.compactions += 1;
                    tally.replaced += summary.len();
                }
                Event::File { .. } => tally.files += 1,
                Event::Scratchpad { .. } => tally.todos += 1,
                Event::Unknown { .. } => tally.unknown.push(short(&event)),
                Event::SystemPrompt { .. } | Event::Meta { .. } => {}
            }
        }
    }
    parser.finish(&mut events);
    assert_eq!(joined, file, "pieces are not the file");
    tally
}

/// Messages that the provenance table counts and that are no message events: the summary line after
/// a compaction, which stands in the event of the compaction. For files of several conversations it
/// counts all of them.
fn counted_otherwise(format: &str, tally: &Tally) -> usize {
    match format {
        "claude-code" => tally.replaced,
        "openhands" | "tau2" => tally.of_others,
        _ => 0,
    }
}

#[test]
fn recorded_sessions_are_understood_whole() {
    let Some((folder, expected)) = recorded() else { return };
    let mut wrong = Vec::new();
    for (name, messages) in expected {
        let Ok(file) = std::fs::read(folder.join(&name)) else { continue };
        if name.ends_with(".bundle") {
            continue;
        }
        let format = detect(file.get(..HEAD_BYTES).unwrap_or(&file)).unwrap();
        let tally = tally(format, &file);
        if !tally.stray.is_empty()
            || tally.unknown.len() > 3
            || tally.messages + counted_otherwise(format.name, &tally) != messages
        {
            wrong.push(format!("{name}: expected {messages} messages, found {tally:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
