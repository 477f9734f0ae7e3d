//! Qwen Code sessions: one JSON object a line, in an envelope like that of Claude Code.
//!
//! - `message.parts` is a message as the interface of Gemini has it. A prompt begins a turn, and so
//!   does each reply of the model; `tool_result` lines belong to the turn of their reply, and so do
//!   prompts that the user types while the results are sent.
//! - `parentUuid` names the line before. A `rewind` follows the line before the prompt that is
//!   rolled back: the turns since are left behind.
//! - The result of a slash command that the client shows itself removes the prompt directly before
//!   it.
//! - `chat_compression` has the whole conversation as it is sent from then on.
//! - A fork has the lines of its origin with their `uuid`, and names the origin in `forkedFrom`.

use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};

use super::editor::Editor;
use super::files::FileChange;
use super::gemini_view::add_parts;
use super::links::Links;
use super::session::{Session, TITLE, record};
use crate::model::event::{Content, Event, MessageEvent, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::view::MessageView;
use crate::model::words::first_line;
use crate::text::json::text_at;
use crate::text::piece::Piece;
use crate::text::shape::JsonShape;
use crate::text::{json, lines};

/// Qwen Code.
pub(super) const FORMAT: Format = Format {
    name: "qwen-code",
    title: "Qwen Code session",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        lineage: Some(Lineage::by_id(|line| text_at(line, "/uuid"), origin)),
        ..Records::new(lines::split, || Box::<QwenCode>::default())
    }),
};

/// Lines of the client that are not part of the conversation.
const QUIET: &[&str] = &[
    "at_command",
    "attribution_snapshot",
    "background_task_completed",
    "branch_checkpoint",
    "file_history_snapshot",
    "goal_state",
    "goal_turn_end",
    "omni_recall",
    "parent_session",
    "session_artifact_event",
    "session_artifact_snapshot",
    "session_source",
    "session_sources_snapshot",
    "turn_result",
    "ui_telemetry",
    "user_text_elements",
];

/// Lines of the user that the client wrote.
const ADDED: [&str; 3] = ["cron", "goal_runtime", "notification"];

/// A prompt typed while results were sent; it is sent with them.
const MID_TURN: &str = "mid_turn_user_message";

/// Speech of another model, which this one is never sent.
const REALTIME: &str = "realtime_message";

fn recognise(shape: &JsonShape<'_>) -> bool {
    let is_identified = shape.has("uuid") && shape.has("sessionId");
    let is_own = match shape.text("type") {
        Some("user" | "assistant" | "tool_result") => {
            shape.member("message").is_some_and(|message| message.has("parts"))
        }
        Some("system") => shape.has("systemPayload"),
        _ => false,
    };
    !shape.is_array && is_identified && is_own
}

fn origin(line: &Value) -> RecordOrigin {
    match text_at(line, "/forkedFrom/sessionId") {
        Some(session) => RecordOrigin::OtherSession { session: session.to_owned(), pieces: None },
        None => RecordOrigin::OwnSession,
    }
}

/// A line, or a message of a compressed conversation.
fn view(line: &Value) -> MessageView {
    let message = line.get("message").unwrap_or(line);
    let role = text_at(line, "/type").or_else(|| text_at(message, "/role"));
    let mut view = MessageView::new(match role {
        Some("user") => Role::User,
        Some("assistant" | "model") => Role::Assistant,
        Some("tool_result") => Role::Tool,
        _ => Role::Other,
    });
    view.id = text_at(line, "/uuid").map(str::to_owned);
    view.is_added = text_at(line, "/subtype").is_some_and(|kind| ADDED.contains(&kind));
    add_parts(&mut view, message.get("parts").unwrap_or(&Value::Null));
    if view.role == Role::User && view.text.is_empty() && !view.tool_results.is_empty() {
        view.role = Role::Tool;
    }
    let has_failed = matches!(text_at(line, "/toolCallResult/status"), Some("error" | "cancelled"));
    for result in &mut view.tool_results {
        result.is_error |= has_failed;
    }
    view
}

#[derive(Debug, Default)]
struct QwenCode {
    session: Session,
    links: Links,
    editor: Editor,
    /// The text of the last message, if that is a prompt of one text and the conversation has not
    /// changed since.
    typed: Option<String>,
}

impl Parser for QwenCode {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        self.links.piece();
        let Some(line) = record(piece, events) else { return };
        if text_at(&line, "/uuid").is_some_and(|id| self.links.has(id)) {
            // A line that was written twice is one.
            return;
        }
        if says_where(&line) {
            events.extend(match line.get("parentUuid") {
                Some(Value::String(parent)) => self.links.back(parent),
                Some(Value::Null) => self.links.back_to_start(),
                _ => None,
            });
        }
        self.line(&line, events);
        if let Some(id) = text_at(&line, "/uuid") {
            self.links.add(id);
        }
    }
}

impl QwenCode {
    fn line(&mut self, line: &Value, events: &mut Vec<Event>) {
        for (key, path) in [
            ("session_id", "/sessionId"),
            ("cwd", "/cwd"),
            ("version", "/version"),
            ("git_branch", "/gitBranch"),
            ("forked_from", "/forkedFrom/sessionId"),
        ] {
            self.session.fact(key, text_at(line, path), events);
        }
        let kind = text_at(line, "/subtype").unwrap_or_default();
        match text_at(line, "/type").unwrap_or_default() {
            "user" | "assistant" if kind == REALTIME => {}
            "user" | "assistant" | "tool_result" => self.message(line, kind, events),
            "system" => self.system(line, kind, events),
            other => events.push(Event::Unread { kind: json::plain(other).to_owned() }),
        }
    }

    fn system(&mut self, line: &Value, kind: &str, events: &mut Vec<Event>) {
        let payload = |path| text_at(line, path);
        match kind {
            "chat_compression" => self.compression(line, events),
            "slash_command" => self.slash_command(line, events),
            "custom_title" => {
                let title = payload("/systemPayload/customTitle").map(first_line);
                self.session.fact(TITLE, title.as_deref(), events);
            }
            "session_model" => {
                let model = payload("/systemPayload/modelId").or(payload("/systemPayload/model"));
                self.session.fact("model", model, events);
            }
            // Its parent names the target of the rewind.
            "rewind" => {}
            quiet if QUIET.contains(&quiet) => {}
            other => events.push(Event::Unread { kind: json::plain(other).to_owned() }),
        }
    }

    fn message(&mut self, line: &Value, kind: &str, events: &mut Vec<Event>) {
        // A reply that failed has a line with its usage, and no message.
        if line.get("message").is_none() {
            return;
        }
        let view = view(line);
        self.typed = typed_text(line).filter(|_| kind.is_empty()).map(str::to_owned);
        let is_answer = text_at(line, "/type") == Some("assistant");
        let model = text_at(line, "/model").filter(|_| is_answer);
        self.session.fact("model", model, events);
        if view.role != Role::Tool && kind != MID_TURN {
            self.links.turn();
            events.push(Event::Turn);
        }
        let time = line.get("timestamp").and_then(json::time);
        events.push(Event::Message(view.event(MAIN_AGENT, Content::Piece, time, model)));
        self.links.message();
        let parts = line.pointer("/message/parts").and_then(Value::as_array);
        for call in parts.into_iter().flatten().filter_map(|part| part.get("functionCall")) {
            if let Some((id, change)) = text_at(call, "/id").zip(file_change(call)) {
                self.editor.call(id, change);
            }
        }
        for result in &view.tool_results {
            self.editor.result(&result.call_id, !result.is_error, &self.session, events);
        }
    }

    /// Handles the result of a slash command. A result that the client only shows removes the
    /// prompt of the command, which was not sent.
    fn slash_command(&mut self, line: &Value, events: &mut Vec<Event>) {
        let payload = line.get("systemPayload").unwrap_or(&Value::Null);
        let shown = payload.get("outputHistoryItems").and_then(Value::as_array);
        let is_shown = shown.is_some_and(|items| {
            let is_answer = |item: &Value| text_at(item, "/type") == Some("assistant");
            !items.is_empty() && items.iter().all(is_answer)
        });
        let is_result = text_at(payload, "/phase") == Some("result");
        let is_sent = payload.get("sentToModel") == Some(&Value::Bool(true));
        let typed = self.typed.take();
        let is_own = typed.is_some() && typed.as_deref() == text_at(payload, "/rawCommand");
        let messages = self.links.messages();
        if is_result && is_shown && !is_sent && is_own && messages > 0 {
            let keep = 0..messages - 1;
            self.links.replaced(keep.end, &[], &[]);
            let agent = MAIN_AGENT.to_owned();
            events.push(Event::Compact { agent, summary: Vec::new(), keep });
        }
    }

    /// Replaces the conversation with the client's compressed history.
    fn compression(&mut self, line: &Value, events: &mut Vec<Event>) {
        let history = line.pointer("/systemPayload/compressedHistory").and_then(Value::as_array);
        let Some(history) = history else { return };
        self.typed = None;
        let time = line.get("timestamp").and_then(json::time);
        let summary: Vec<MessageEvent> = history
            .iter()
            .map(|message| view(message).event(MAIN_AGENT, Content::own(message), time, None))
            .collect();
        self.links.replaced(summary.len() as u64, &[], &[]);
        events.push(Event::Compact { agent: MAIN_AGENT.to_owned(), summary, keep: 0..0 });
    }
}

/// Returns the text of a prompt that consists of one text.
fn typed_text(line: &Value) -> Option<&str> {
    let parts = line.pointer("/message/parts")?.as_array()?;
    let is_prompt = text_at(line, "/type") == Some("user") && line.get("subtype").is_none();
    match parts.as_slice() {
        [Value::Object(part)] if is_prompt && part.len() == 1 => part.get("text")?.as_str(),
        _ => None,
    }
}

/// Returns true if a line continues the conversation: the client writes other lines, such as
/// titles, after any line.
fn says_where(line: &Value) -> bool {
    let kind = text_at(line, "/subtype").unwrap_or_default();
    text_at(line, "/type") != Some("system") || matches!(kind, "rewind" | "chat_compression")
}

/// Returns the effect of a call of a file tool, and its file.
fn file_change(call: &Value) -> Option<(String, FileChange)> {
    let text = |path| text_at(call, path).map(str::to_owned);
    let change = match text_at(call, "/name")? {
        "write_file" => FileChange::Write(text("/args/content")?),
        "edit" | "replace" => FileChange::Replace {
            old: text("/args/old_string")?,
            new: text("/args/new_string")?,
            all: call.pointer("/args/replace_all") == Some(&Value::Bool(true)),
        },
        _ => return None,
    };
    Some((text("/args/file_path")?, change))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::told;
    use super::*;

    fn line(id: &str, parent: Option<&str>, kind: &str, parts: &Value) -> Value {
        let role = if kind == "assistant" { "model" } else { "user" };
        json!({"uuid": id, "parentUuid": parent, "sessionId": "s", "type": kind, "cwd": "/p",
            "message": {"role": role, "parts": parts}})
    }

    fn system(id: &str, parent: &str, kind: &str, payload: &Value) -> Value {
        json!({"uuid": id, "parentUuid": parent, "sessionId": "s", "type": "system",
            "subtype": kind, "systemPayload": payload})
    }

    #[test]
    fn a_reply_is_a_turn_with_its_results_and_what_is_said_between() {
        let mut mid = line("5", Some("4"), "user", &json!([{"text": "and b"}]));
        mid["subtype"] = MID_TURN.into();
        let mut other = line("6", Some("5"), "user", &json!([{"text": "heard"}]));
        other["subtype"] = REALTIME.into();
        let call = json!({"id": "c", "name": "write_file",
            "args": {"file_path": "/p/a", "content": "A"}});
        let answer =
            json!({"functionResponse": {"id": "c", "name": "w", "response": {"output": "ok"}}});
        let lines = [
            line("1", None, "user", &json!([{"text": "go"}])),
            system("2", "1", "ui_telemetry", &json!({})),
            line(
                "3",
                Some("2"),
                "assistant",
                &json!([{"text": "hm", "thought": true},
                {"functionCall": call}]),
            ),
            line("4", Some("3"), "tool_result", &json!([answer])),
            mid,
            other,
            system("7", "6", "custom_title", &json!({"customTitle": "T"})),
            system("8", "7", "novelty", &json!({})),
        ];
        let expected = [
            "session_id=s",
            "cwd=/p",
            "turn",
            "main User go",
            "turn",
            "main Assistant [write_file]",
            "main Tool ok",
            "file a: A",
            "main User and b",
            "title=T",
            "unread: novelty",
        ];
        assert_eq!(told(&FORMAT, &lines), expected);
    }

    #[test]
    fn a_rewind_goes_back_to_before_its_prompt() {
        let lines = [
            line("1", None, "user", &json!([{"text": "one"}])),
            line("2", Some("1"), "assistant", &json!([{"text": "1"}])),
            line("3", Some("2"), "user", &json!([{"text": "two"}])),
            line("4", Some("3"), "assistant", &json!([{"text": "2"}])),
            system("5", "2", "rewind", &json!({})),
            line("6", Some("5"), "user", &json!([{"text": "three"}])),
        ];
        let told = told(&FORMAT, &lines);
        assert_eq!(told[told.len() - 3..], ["back to Some(1) at 4", "turn", "main User three"]);
        let mut to_start = lines;
        to_start[4]["parentUuid"] = Value::Null;
        let told = super::super::testing::told(&FORMAT, &to_start);
        assert!(told.contains(&"back to None at 4".to_owned()), "{told:?}");
    }

    #[test]
    fn a_line_that_was_written_twice_is_one() {
        let mut lines = vec![
            line("1", None, "user", &json!([{"text": "one"}])),
            line("2", Some("1"), "assistant", &json!([{"text": "1"}])),
            line("3", Some("2"), "user", &json!([{"text": "two"}])),
            line("4", Some("3"), "assistant", &json!([{"text": "2"}])),
        ];
        let once = told(&FORMAT, &lines);
        lines.extend([lines[2].clone(), lines[3].clone(), lines[0].clone()]);
        assert_eq!(told(&FORMAT, &lines), once);
    }

    #[test]
    fn a_command_that_the_client_answers_removes_its_prompt() {
        let result = |id: &str, parent: &str, raw: &str, sent: bool| {
            system(
                id,
                parent,
                "slash_command",
                &json!({"phase": "result", "rawCommand": raw,
                "sentToModel": sent, "outputHistoryItems": [{"type": "assistant", "text": "x"}]}),
            )
        };
        let lines = |raw: &str, sent: bool| {
            [
                line("1", None, "user", &json!([{"text": "one"}])),
                line("2", Some("1"), "assistant", &json!([{"text": "1"}])),
                line("3", Some("2"), "user", &json!([{"text": "/stats"}])),
                result("4", "3", raw, sent),
                line("5", Some("4"), "user", &json!([{"text": "two"}])),
            ]
        };
        let told_of = |raw: &str, sent: bool| told(&FORMAT, &lines(raw, sent)).split_off(6);
        let prompt = ["turn", "main User /stats"];
        let next = ["turn", "main User two"];
        let removed = ["compact main [] 0..2"];
        assert_eq!(told_of("/stats", false), [&prompt[..], &removed, &next].concat());
        assert_eq!(told_of("/stats", true), [prompt, next].concat());
        assert_eq!(told_of("/other", false), [prompt, next].concat());
    }

    #[test]
    fn a_compression_is_the_whole_conversation() {
        let history = json!([{"role": "user", "parts": [{"text": "sum"}]},
            {"role": "model", "parts": [{"text": "ok"}]}]);
        let lines = [
            line("1", None, "user", &json!([{"text": "one"}])),
            system("2", "1", "chat_compression", &json!({"compressedHistory": history})),
            line("3", Some("2"), "user", &json!([{"text": "two"}])),
        ];
        let told = told(&FORMAT, &lines);
        let compaction = "compact main [main User sum; main Assistant ok] 0..0";
        assert_eq!(told[told.len() - 3..], [compaction, "turn", "main User two"]);
    }
}
