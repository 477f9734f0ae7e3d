//! Claude Code session logs: one JSON object a line, one content block of the model a line.
//!
//! - A reply of the model is split over several lines that share `message.id`; its tool results are
//!   user lines. All of them are one turn, whatever their order.
//! - A prompt begins a turn, and so does a command typed at the terminal (with what it prints).
//! - `toolUseResult` holds what a tool did in full: file contents and todo lists come from there.
//! - `progress` lines of a sub-agent carry a whole line of its conversation; `isSidechain` marks the
//!   same in versions that write it beside the main one. Neither begins a turn: a sub-agent works
//!   inside the turn that called it. In a file that holds only a sub-agent its lines do.
//! - `compact_boundary` and the summary after it replace the conversation, but for the messages that
//!   the boundary names: they stay, after the summary.
//! - `custom-title` is the title that the person gave, `ai-title` one that the client made, `summary`
//!   one of the conversation up to a record.
//! - `parentUuid` names the line before. A turn whose line follows one of an earlier turn goes back
//!   there: what came between is left.

mod tools;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};
use turntree::object::ObjectId;

use super::files::FileContents;
use super::links::Links;
use super::session::{Session, TITLE, record};
use crate::model::event::{Content, Event, Parser};
use crate::model::format::{Format, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::view::MessageView;
use crate::model::words::first_line;
use crate::text::json::text_at;
use crate::text::piece::Piece;
use crate::text::shape::JsonShape;
use crate::text::{json, lines};
use tools::{change, is, sub_agent_todos, todos_key};

/// Claude Code.
pub(super) const FORMAT: Format = Format {
    name: "claude-code",
    title: "Claude Code session log",
    recognise,
    view,
    reader: FormatReader::Records(Records {
        lineage: Some(Lineage { id: |line| text_at(line, "/uuid"), origin }),
        ..Records::new(lines::split, || Box::<ClaudeCode>::default())
    }),
};

/// The line of a sub-agent that begins with the conversation of its caller, up to a line of that.
const CALLER: &str = "fork-context-ref";

/// Lines that say nothing about the conversation.
const QUIET: &[&str] = &[
    "agent-color",
    "agent-name",
    "agent-setting",
    "api-request",
    "api-request-blob",
    "api-request-resumed",
    "api-request-shape",
    "artifact-autoreact-ledger",
    "artifact-thumbnail",
    "atis-latch",
    "attribution-snapshot",
    "bridge-session",
    "continued-in",
    "cost-state",
    "data-flow-incomplete",
    "data-flow-records",
    "derived-from",
    "dev-mods",
    "ended-by-model",
    "file-history-delta",
    "file-history-snapshot",
    "frame-link",
    "history-suppression",
    "isolation-latch",
    "last-prompt",
    "memory-mode",
    "mode",
    "observer-ref",
    "permission-mode",
    "pr-link",
    "queue-operation",
    "relocated",
    "resume-head-vouch",
    "session-owner",
    "tag",
    "tools-used",
    "worktree-state",
];

/// Beginnings of user lines that the program writes after a command or an interruption.
const CONTINUATIONS: &[&str] = &[
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<bash-stdout>",
    "<bash-stderr>",
    "[Request interrupted by user",
];

/// Most summaries that wait for their records.
const MAX_SUMMARIES: usize = 1000;

/// Beginning of the line before a command typed at the terminal.
const CAVEAT: &str = "<local-command-caveat>";

fn recognise(shape: &JsonShape<'_>) -> bool {
    let ids = ["uuid", "sessionId", "leafUuid", "messageId", "parentLastUuid"];
    let identified = ids.iter().any(|id| shape.has(id));
    !shape.is_array && shape.has("type") && identified
}

/// Returns the session that a line was copied from: answers keep the session in which they were
/// asked for.
fn origin(line: &Value) -> RecordOrigin {
    if text_at(line, "/type") == Some(CALLER) {
        let named = text_at(line, "/parentSessionId").zip(text_at(line, "/parentLastUuid"));
        return named.map_or(RecordOrigin::Unknown, |(session, record)| RecordOrigin::Behind {
            session: session.to_owned(),
            record: record.to_owned(),
        });
    }
    let asked_in = text_at(line, "/requestSessionId");
    match asked_in.filter(|session| Some(*session) != text_at(line, "/sessionId")) {
        Some(session) => RecordOrigin::From { session: session.to_owned(), pieces: None },
        None if text_at(line, "/type") == Some("assistant") => RecordOrigin::Here,
        None => RecordOrigin::Unknown,
    }
}

/// A line, or the line that a progress line of a sub-agent carries. What the program adds to the
/// conversation stands in `rendered`.
fn view(line: &Value) -> MessageView {
    let line = sub_agent_line(line).unwrap_or(line);
    let message = line.get("message").unwrap_or(line);
    let role = text_at(line, "/renderedRole").or_else(|| text_at(message, "/role"));
    let content = line.get("rendered").or_else(|| message.get("content"));
    let mut view = MessageView::new(match role {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::Other,
    });
    view.id = text_at(line, "/uuid").map(str::to_owned);
    view.is_added =
        is(line, "isMeta") || is(line, "isCompactSummary") || line.get("rendered").is_some();
    view.add_content(content.unwrap_or(&Value::Null));
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
    format!("{}@{MAIN_AGENT}", id.replace(|c: char| c == '/' || c == '@' || c.is_control(), "_"))
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct ClaudeCode {
    session: Session,
    files: FileContents,
    /// The reply that the current turn belongs to.
    reply: Option<String>,
    links: Links,
    /// A boundary was seen, and not yet its summary.
    at_boundary: bool,
    /// The records that stay after the boundary.
    kept: Vec<String>,
    /// The turn began with a caveat; the command follows.
    after_caveat: bool,
    /// The main agent has spoken in this file.
    has_main: bool,
    /// The sub-agent that goes on with the conversation of its caller in this file.
    #[serde(default)]
    goes_on: Option<String>,
    /// How much the title counts that is known.
    #[serde(default)]
    titled: TitleRank,
    /// Summaries of records that have not come yet, by these.
    #[serde(default)]
    summaries: BTreeMap<String, String>,
}

/// How much a title counts: one of a higher rank stays.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum TitleRank {
    /// There is none.
    #[default]
    None,
    /// A summary of the conversation up to a record.
    Summary,
    /// The client made it from the conversation.
    Made,
    /// The person gave it.
    Given,
}

impl Parser for ClaudeCode {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        self.links.piece();
        let Some(line) = record(piece, events) else { return };
        self.line(&line, events);
        if let Some(id) = text_at(&line, "/uuid") {
            if let Some(summary) = self.summaries.remove(id) {
                self.title(TitleRank::Summary, Some(&summary), events);
            }
            self.links.add(id);
        }
    }

    fn finish(&mut self, events: &mut Vec<Event>) {
        self.compact_without_summary(events);
    }

    fn save(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    fn load(&mut self, saved: &[u8], contents: &HashMap<ObjectId, Bytes>) -> bool {
        let Ok(mut loaded) = serde_json::from_slice::<Self>(saved) else { return false };
        loaded.files.fill(contents);
        *self = loaded;
        true
    }

    fn is_lost(&self) -> bool {
        self.links.is_lost()
    }

    fn wanted(&self) -> Vec<ObjectId> {
        self.files.wanted()
    }
}

impl ClaudeCode {
    fn line(&mut self, line: &Value, events: &mut Vec<Event>) {
        match text_at(line, "/type").unwrap_or_default() {
            "user" | "assistant" => self.message(line, events),
            "progress" => {
                if let Some(inner) = sub_agent_line(line) {
                    let agent = sub_agent(text_at(line, "/data/agentId"));
                    self.conversation(&agent, inner, events);
                }
            }
            "attachment" => {
                let agent = self.agent_of(line);
                if attachment(&agent, line, events) && agent == MAIN_AGENT {
                    self.links.message();
                }
            }
            "system" if text_at(line, "/subtype") == Some("compact_boundary") => {
                self.compact_without_summary(events);
                self.at_boundary = true;
                self.kept = kept_after(line);
            }
            "system" => {}
            CALLER => self.goes_on = text_at(line, "/agentId").map(str::to_owned),
            "custom-title" => {
                self.title(TitleRank::Given, text_at(line, "/customTitle"), events);
            }
            "ai-title" => self.title(TitleRank::Made, text_at(line, "/aiTitle"), events),
            "summary" => self.summary(line, events),
            quiet if QUIET.contains(&quiet) => {}
            other => events.push(Event::Unread { kind: json::plain(other).to_owned() }),
        }
    }

    fn title(&mut self, rank: TitleRank, title: Option<&str>, events: &mut Vec<Event>) {
        let title = title.map(first_line).filter(|title| !title.is_empty());
        if title.is_some() && rank >= self.titled {
            self.titled = rank;
            self.session.fact(TITLE, title.as_deref(), events);
        }
    }

    /// A summary names the record that it goes up to. Files begin with those of other sessions of
    /// the project, so it counts when that record is in this one.
    fn summary(&mut self, line: &Value, events: &mut Vec<Event>) {
        let named = text_at(line, "/summary").zip(text_at(line, "/leafUuid"));
        match named {
            Some((summary, leaf)) if self.links.has(leaf) => {
                self.title(TitleRank::Summary, Some(summary), events);
            }
            Some((summary, leaf)) if self.summaries.len() < MAX_SUMMARIES => {
                self.summaries.insert(leaf.to_owned(), first_line(summary));
            }
            _ => {}
        }
    }

    fn message(&mut self, line: &Value, events: &mut Vec<Event>) {
        for (key, path) in [
            ("session_id", "/sessionId"),
            ("cwd", "/cwd"),
            ("version", "/version"),
            ("git_branch", "/gitBranch"),
        ] {
            self.session.fact(key, text_at(line, path), events);
        }
        self.conversation(&self.agent_of(line), line, events);
    }

    fn agent_of(&self, line: &Value) -> String {
        let id = text_at(line, "/agentId");
        let goes_on = self.goes_on.is_some() && self.goes_on.as_deref() == id;
        if goes_on { MAIN_AGENT.to_owned() } else { agent_of(line) }
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
            let keep = if agent == MAIN_AGENT { self.compact(1) } else { 0..0 };
            let agent = agent.to_owned();
            return events.push(Event::Compact { agent, summary: vec![message], keep });
        }
        if agent == MAIN_AGENT {
            self.has_main = true;
            self.compact_without_summary(events);
            self.session.fact("model", model, events);
        }
        if (agent == MAIN_AGENT || !self.has_main) && self.begins_turn(line, &view) {
            if agent == MAIN_AGENT {
                events.extend(match line.get("parentUuid") {
                    Some(Value::String(parent)) => self.links.back(parent),
                    Some(Value::Null) if view.role == Role::User => self.links.back_to_start(),
                    _ => None,
                });
                self.links.turn();
            }
            events.push(Event::Turn);
        }
        events.push(Event::Message(message));
        if agent == MAIN_AGENT {
            self.links.message();
        }
        if let Some(result) = line.get("toolUseResult") {
            self.result(agent, result, events);
        }
        if agent != MAIN_AGENT {
            sub_agent_todos(agent, line, events);
        }
    }

    fn begins_turn(&mut self, line: &Value, view: &MessageView) -> bool {
        if view.role == Role::Tool {
            return false;
        }
        if view.role == Role::Assistant {
            let reply = Some(reply_of(line));
            let is_new = self.reply != reply;
            self.reply = reply;
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

    /// Returns the effect of a tool, from its result.
    fn result(&mut self, agent: &str, result: &Value, events: &mut Vec<Event>) {
        if let Some(todos) = result.get("newTodos") {
            events.push(Event::Scratchpad {
                key: todos_key(agent),
                content: Some(Content::own(todos)),
            });
        }
        let file = result.get("file").unwrap_or(result);
        let Some(path) = text_at(file, "/filePath") else { return };
        if let Some(change) = change(result) {
            self.files.apply(&self.session, path, &change, events);
        }
    }

    fn compact_without_summary(&mut self, events: &mut Vec<Event>) {
        if std::mem::take(&mut self.at_boundary) {
            let (agent, keep) = (MAIN_AGENT.to_owned(), self.compact(0));
            events.push(Event::Compact { agent, summary: Vec::new(), keep });
        }
    }

    /// The messages that stay when the conversation becomes `summary` messages and what was kept.
    fn compact(&mut self, summary: u64) -> std::ops::Range<u64> {
        let kept = std::mem::take(&mut self.kept);
        let keep = match (kept.first(), kept.last()) {
            (Some(first), Some(last)) => self.links.range(first, last),
            _ => 0..0,
        };
        self.links.replaced(summary, &keep, kept.iter().map(String::as_str));
        keep
    }
}

/// Returns the key that the lines of one reply share. A gateway may give every reply the same message
/// id, so the request counts too.
fn reply_of(line: &Value) -> String {
    let id = text_at(line, "/message/id").or_else(|| text_at(line, "/uuid"));
    let request = text_at(line, "/requestId").or_else(|| text_at(line, "/requestRef"));
    [id.unwrap_or_default(), request.unwrap_or_default()].join(" ")
}

/// Returns the agent of a line.
fn agent_of(line: &Value) -> String {
    if is(line, "isSidechain") {
        sub_agent(text_at(line, "/agentId"))
    } else {
        MAIN_AGENT.to_owned()
    }
}

/// The records that a boundary says stay in the conversation, after the summary.
fn kept_after(boundary: &Value) -> Vec<String> {
    let kept = boundary.pointer("/compactMetadata/preservedMessages/uuids");
    let kept = kept.and_then(Value::as_array).into_iter().flatten();
    kept.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reads content that the program adds to the conversation. Returns true if it is a message.
fn attachment(agent: &str, line: &Value, events: &mut Vec<Event>) -> bool {
    if let Some(parts) = line.pointer("/attachment/systemPrompt").and_then(Value::as_array) {
        let parts: Vec<_> = parts.iter().filter_map(Value::as_str).collect();
        let content = Content::Own(Bytes::from(parts.join("\n\n")));
        events.push(Event::SystemPrompt { agent: agent.to_owned(), content });
    }
    let is_message = line.get("rendered").is_some_and(Value::is_array);
    if is_message {
        let time = line.get("timestamp").and_then(json::time);
        events.push(Event::Message(view(line).event(agent, Content::Piece, time, None)));
    }
    is_message
}

#[cfg(test)]
mod tests;
