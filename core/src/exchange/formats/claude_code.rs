//! Claude Code session logs: one JSON object a line, one content block of the model a line.
//!
//! - A reply of the model is split over several lines that share `message.id`; its tool results are
//!   user lines. All of them are one turn, whatever their order.
//! - A prompt begins a turn, and so does a command typed at the terminal (with what it prints).
//! - `toolUseResult` holds what a tool did in full: file contents and todo lists come from there.
//! - `progress` lines of a sub-agent carry a whole line of its conversation; `isSidechain` marks the
//!   same in versions that write it beside the main one. Neither begins a turn: a sub-agent works
//!   inside the turn that called it. In a file that holds only a sub-agent its lines do.
//! - `compact_boundary` and the summary after it replace the whole conversation.

use bytes::Bytes;
use serde_json::Value;

use super::super::detect::Shape;
use super::super::{json, lines};
use super::session::Session;
use super::{
    Content, Event, FormatSpec, MAIN, MessageView, Parser, Piece, Role, own, record, text_at,
};

/// Claude Code.
pub(super) const FORMAT: FormatSpec = FormatSpec {
    name: "claude-code",
    title: "Claude Code session log",
    recognise,
    cut: lines::cut,
    parser: || Box::<ClaudeCode>::default(),
    view,
};

/// Lines that say nothing about the conversation.
const QUIET: &[&str] = &[
    "agent-name",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "atis-latch",
    "cost-state",
    "custom-title",
    "file-history-delta",
    "file-history-snapshot",
    "last-prompt",
    "pr-link",
    "queue-operation",
    "summary",
    "tag",
    "tools-used",
];

/// Beginnings of user lines that the program writes after a command or an interruption.
const CONTINUATIONS: &[&str] = &[
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<bash-stdout>",
    "<bash-stderr>",
    "[Request interrupted by user",
];

/// Beginning of the line before a command typed at the terminal.
const CAVEAT: &str = "<local-command-caveat>";

fn recognise(shape: &Shape<'_>) -> bool {
    let identified = ["uuid", "sessionId", "leafUuid", "messageId"].iter().any(|id| shape.has(id));
    !shape.is_array && shape.has("type") && identified
}

/// A line, or the line that a progress line of a sub-agent carries.
fn view(line: &Value) -> MessageView {
    let line = sub_agent_line(line).unwrap_or(line);
    let message = line.get("message").unwrap_or(line);
    let (role, content) = match line.get("rendered") {
        Some(rendered) => (line.get("renderedRole"), Some(rendered)),
        None => (message.get("role"), message.get("content")),
    };
    let mut view = MessageView::new(match role.and_then(Value::as_str) {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::Other,
    });
    view.id = text_at(line, "/uuid").map(str::to_owned);
    if line.get("rendered").is_some() {
        for part in content.and_then(Value::as_array).into_iter().flatten() {
            view.add_content(part.get("content").unwrap_or(part));
        }
    } else {
        view.add_content(content.unwrap_or(&Value::Null));
    }
    if view.text.is_empty() && !view.tool_results.is_empty() {
        view.role = Role::Tool;
    }
    view
}

/// The line of a sub-agent in a progress line.
fn sub_agent_line(line: &Value) -> Option<&Value> {
    let data = line.get("data").filter(|data| text_at(data, "/type") == Some("agent_progress"))?;
    data.get("message").filter(|message| message.is_object())
}

/// `<id>@main`, for an id that others wrote.
fn sub_agent(id: Option<&str>) -> String {
    let id = id.filter(|id| !id.is_empty()).unwrap_or("sidechain");
    let id: String = id.chars().take(json::SUMMARY_CHARS).collect();
    format!("{}@{MAIN}", id.replace(|c: char| c == '/' || c == '@' || c.is_control(), "_"))
}

#[derive(Debug, Default)]
struct ClaudeCode {
    session: Session,
    /// The reply that the current turn belongs to.
    reply: Option<String>,
    /// A boundary was seen, and not yet its summary.
    at_boundary: bool,
    /// The turn began with a caveat; the command follows.
    after_caveat: bool,
    /// The main agent has spoken in this file.
    has_main: bool,
}

impl Parser for ClaudeCode {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some(line) = record(piece, events) else { return };
        match text_at(&line, "/type").unwrap_or_default() {
            "user" | "assistant" => self.message(&line, events),
            "progress" => {
                if let Some(inner) = sub_agent_line(&line) {
                    let agent = sub_agent(text_at(&line, "/data/agentId"));
                    self.conversation(&agent, inner, events);
                }
            }
            "attachment" => attachment(&line, events),
            "system" if text_at(&line, "/subtype") == Some("compact_boundary") => {
                self.compact_without_summary(events);
                self.at_boundary = true;
            }
            "system" => {}
            quiet if QUIET.contains(&quiet) => {}
            other => {
                let what = format!("a line of type '{}'", json::first_line(other));
                events.push(Event::Unknown { what });
            }
        }
    }

    fn finish(&mut self, events: &mut Vec<Event>) {
        self.compact_without_summary(events);
    }
}

impl ClaudeCode {
    fn message(&mut self, line: &Value, events: &mut Vec<Event>) {
        for (key, path) in [
            ("session_id", "/sessionId"),
            ("cwd", "/cwd"),
            ("version", "/version"),
            ("git_branch", "/gitBranch"),
        ] {
            self.session.fact(key, text_at(line, path), events);
        }
        self.conversation(&agent_of(line), line, events);
    }

    /// A line of the conversation of `agent`, and what it did to files and todo lists.
    fn conversation(&mut self, agent: &str, line: &Value, events: &mut Vec<Event>) {
        let view = view(line);
        let time = line.get("timestamp").and_then(json::time);
        let model = text_at(line, "/message/model").filter(|model| !model.starts_with('<'));
        let message = view.event(agent, Content::Piece, time, model);
        if is(line, "isCompactSummary") {
            self.at_boundary = false;
            self.reply = None;
            events.push(Event::Compact {
                agent: agent.to_owned(),
                summary: vec![message],
                keep: 0..0,
            });
            return;
        }
        if agent == MAIN {
            self.has_main = true;
            self.compact_without_summary(events);
            self.session.fact("model", model, events);
        }
        if (agent == MAIN || !self.has_main) && self.begins_turn(line, &view) {
            events.push(Event::Turn);
        }
        events.push(Event::Message(message));
        if let Some(result) = line.get("toolUseResult") {
            self.result(agent, result, events);
        }
        if agent != MAIN {
            sub_agent_todos(agent, line, events);
        }
    }

    fn begins_turn(&mut self, line: &Value, view: &MessageView) -> bool {
        if view.role == Role::Tool {
            return false;
        }
        if view.role == Role::Assistant {
            let reply = text_at(line, "/message/id").or_else(|| text_at(line, "/uuid"));
            let is_new = reply.is_none() || reply != self.reply.as_deref();
            self.reply = reply.map(str::to_owned);
            self.after_caveat = false;
            return is_new;
        }
        if is(line, "isMeta") {
            let is_caveat = view.text.starts_with(CAVEAT);
            self.after_caveat |= is_caveat;
            return is_caveat;
        }
        if CONTINUATIONS.iter().any(|start| view.text.starts_with(start)) {
            return false;
        }
        self.reply = None;
        !std::mem::take(&mut self.after_caveat)
    }

    /// What a tool did, as its result tells.
    fn result(&self, agent: &str, result: &Value, events: &mut Vec<Event>) {
        if let Some(todos) = result.get("newTodos") {
            events.push(Event::Scratchpad { key: todos_key(agent), content: Some(own(todos)) });
        }
        let file = result.get("file").unwrap_or(result);
        let Some(path) = text_at(file, "/filePath") else { return };
        if let Some(content) = whole_content(result) {
            let content = Some(Content::Own(content.into()));
            events.push(Event::File { path: self.session.relative(path), content });
        }
    }

    fn compact_without_summary(&mut self, events: &mut Vec<Event>) {
        if std::mem::take(&mut self.at_boundary) {
            let agent = MAIN.to_owned();
            events.push(Event::Compact { agent, summary: Vec::new(), keep: 0..0 });
        }
    }
}

/// Whose line it is.
fn agent_of(line: &Value) -> String {
    if is(line, "isSidechain") { sub_agent(text_at(line, "/agentId")) } else { MAIN.to_owned() }
}

/// What the program adds to the conversation by itself.
fn attachment(line: &Value, events: &mut Vec<Event>) {
    let agent = agent_of(line);
    if let Some(parts) = line.pointer("/attachment/systemPrompt").and_then(Value::as_array) {
        let parts: Vec<_> = parts.iter().filter_map(Value::as_str).collect();
        let content = Content::Own(Bytes::from(parts.join("\n\n")));
        events.push(Event::SystemPrompt { agent: agent.clone(), content });
    }
    if line.get("rendered").is_some_and(Value::is_array) {
        let time = line.get("timestamp").and_then(json::time);
        events.push(Event::Message(view(line).event(&agent, Content::Piece, time, None)));
    }
}

/// Todo lists of a sub-agent are seen in its calls only.
fn sub_agent_todos(agent: &str, line: &Value, events: &mut Vec<Event>) {
    let blocks = line.pointer("/message/content").and_then(Value::as_array);
    for block in blocks.into_iter().flatten() {
        let is_call = text_at(block, "/name") == Some("TodoWrite");
        if let Some(todos) = block.pointer("/input/todos").filter(|_| is_call) {
            events.push(Event::Scratchpad { key: todos_key(agent), content: Some(own(todos)) });
        }
    }
}

fn todos_key(agent: &str) -> String {
    if agent == MAIN { "todos".to_owned() } else { format!("todos/{agent}") }
}

/// The whole content of a file after a tool wrote, edited or read it; nothing when the result does
/// not tell all of it.
fn whole_content(result: &Value) -> Option<String> {
    if let Some(file) = result.get("file") {
        let lines = |name| file.get(name).and_then(Value::as_u64);
        let is_whole = text_at(result, "/type") == Some("text")
            && lines("startLine") == Some(1)
            && lines("numLines").is_some()
            && lines("numLines") == lines("totalLines");
        return text_at(file, "/content").filter(|_| is_whole).map(str::to_owned);
    }
    let Some(old) = text_at(result, "/oldString") else {
        let is_write = matches!(text_at(result, "/type"), Some("create" | "update"));
        return text_at(result, "/content").filter(|_| is_write).map(str::to_owned);
    };
    let (before, new) = (text_at(result, "/originalFile")?, text_at(result, "/newString")?);
    match old {
        "" => before.is_empty().then(|| new.to_owned()),
        _ if !before.contains(old) => None,
        _ if is(result, "replaceAll") => Some(before.replace(old, new)),
        _ => Some(before.replacen(old, new, 1)),
    }
}

fn is(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}
