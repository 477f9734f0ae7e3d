//! Claude Code session logs: one JSON object a line, one content block of the model a line.
//!
//! - A reply of the model is split over several lines that share `message.id`; its tool results are
//!   user lines. All of them are one turn, whatever their order.
//! - A prompt begins a turn, and so does a command typed at the terminal (with its output).
//! - `toolUseResult` holds the full effect of a tool: file contents and todo lists come from there.
//! - `progress` lines of a sub-agent carry a whole line of its conversation; `isSidechain` marks
//!   such lines in versions that write them between the main ones. Neither begins a turn: a
//!   sub-agent works inside the turn that called it. In a file that holds only a sub-agent, its
//!   lines begin turns.
//! - `compact_boundary` and the summary after it replace the conversation, except for the messages
//!   that the boundary names (`compaction.rs`).
//! - `custom-title` is the title that the user gave, `ai-title` one that the client generated,
//!   `summary` one of the conversation up to a record.
//! - `parentUuid` names the line before. A turn whose line follows one of an earlier turn rewinds
//!   to it, and the turns between are left behind. Two processes may write one file: a line belongs
//!   to its parent, and a result to its call, in whatever order the lines are.
//! - `uuid` identifies the record of a line. A line with a known `uuid` repeats that record: a
//!   second compaction of a process writes the lines that the first one summarised again.
//! - A prompt that the user types while the agent works is an attachment `queued_command`, a
//!   command of the client a system line `local_command`: both are sent. `content-replacement` and
//!   `microcompact_boundary` name results that are sent as other texts from then on.

mod compaction;
mod kinds;
mod sessions;
mod title;
mod tools;
mod view;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use turntree::context::{MAIN_AGENT, Role};
use turntree::object::ObjectId;

use self::kinds::KINDS;
use super::files::FileContents;
use super::links::{Links, RecordSign};
use super::session::{Session, TITLE, record};
use crate::model::event::{Content, Event, MessageEvent, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::record_kind::RecordKind;
use crate::model::view::MessageView;
use crate::model::words::first_line;
use crate::text::json::text_at;
use crate::text::piece::Piece;
use crate::text::shape::JsonShape;
use crate::text::{json, lines};
use compaction::{Compacted, Kept};
use sessions::{Belonging, Sessions};
use title::TitleRank;
use tools::{change, is, sub_agent_todos, todos_key};
use view::{Queued, is_local_command, is_never_sent, sub_agent_line, view};

/// Claude Code.
pub(super) const FORMAT: Format = Format {
    name: "claude-code",
    title: "Claude Code session log",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        lineage: Some(Lineage::by_id(|line| text_at(line, "/uuid"), origin)),
        kinds: KINDS,
        ..Records::new(lines::split, || Box::<ClaudeCode>::default())
    }),
};

/// The line of a sub-agent that begins with the conversation of its caller, up to a line of that.
const CALLER: &str = "fork-context-ref";

/// Beginnings of user lines that the program writes after a command or an interruption.
const CONTINUATIONS: &[&str] = &[
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<bash-stdout>",
    "<bash-stderr>",
    "[Request interrupted by user",
];

/// The kind under which lines of another session are counted.
const STRANGE: &str = "another session";

/// Most summaries that wait for their records.
const MAX_SUMMARIES: usize = 1000;

/// The text that is sent instead of a cleared result.
const CLEARED: &str = "[Old tool result content cleared]";

/// Beginning of the line before a command typed at the terminal.
const CAVEAT: &str = "<local-command-caveat>";

fn recognise(shape: &JsonShape<'_>) -> bool {
    let ids = ["uuid", "sessionId", "leafUuid", "messageId", "parentLastUuid"];
    let is_known = match shape.text("type") {
        // Other clients write such lines with content in another field, for example Qwen Code in
        // `parts`.
        Some("user" | "assistant") => shape.member("message").is_some_and(|it| it.has("content")),
        Some("system") => !shape.has("systemPayload"),
        Some(kind) => KINDS.iter().any(|known| known.name == kind),
        None => false,
    };
    !shape.is_array && is_known && shape.has_any(&ids)
}

/// Returns the session that a line was copied from: the lines of a branch name it, and answers keep the
/// session in which they were asked for.
fn origin(line: &Value) -> RecordOrigin {
    if text_at(line, "/type") == Some(CALLER) {
        let named = text_at(line, "/parentSessionId").zip(text_at(line, "/parentLastUuid"));
        return named.map_or(RecordOrigin::Unknown, |(session, record)| {
            RecordOrigin::AfterRecord { session: session.to_owned(), record: record.to_owned() }
        });
    }
    // A fork names its origin in each line; answers alone name the session that sent the request.
    let asked_in =
        text_at(line, "/forkedFrom/sessionId").or_else(|| text_at(line, "/requestSessionId"));
    match asked_in.filter(|session| Some(*session) != text_at(line, "/sessionId")) {
        Some(session) => RecordOrigin::OtherSession { session: session.to_owned(), pieces: None },
        None if text_at(line, "/type") == Some("assistant") => RecordOrigin::OwnSession,
        None => RecordOrigin::Unknown,
    }
}

/// Returns `<id>@main`, with the characters replaced that agent names cannot hold.
fn sub_agent(id: Option<&str>) -> String {
    let id = id.filter(|id| !id.is_empty()).unwrap_or("sidechain");
    let id: String = id.chars().take(json::SUMMARY_CHARS).collect();
    format!("{}@{MAIN_AGENT}", id.replace(|c: char| c == '/' || c == '@' || c.is_control(), "_"))
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct ClaudeCode {
    session: Session,
    sessions: Sessions,
    files: FileContents,
    links: Links,
    /// A boundary was seen, and not yet its summary.
    at_boundary: bool,
    /// The messages that the boundary keeps.
    kept: Kept,
    /// The turn began with a caveat; the command follows.
    after_caveat: bool,
    /// The main agent has spoken in this file.
    has_main: bool,
    /// The sub-agent that continues the conversation of its caller in this file.
    #[serde(default)]
    goes_on: Option<String>,
    /// The rank of the current title.
    #[serde(default)]
    titled: TitleRank,
    /// Summaries whose records have not been read yet, by the ids of these records.
    #[serde(default)]
    summaries: BTreeMap<String, String>,
}

impl Parser for ClaudeCode {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        self.links.piece();
        let Some(line) = record(piece, events) else { return };
        let time = line.get("timestamp").and_then(json::time).map(|time| time.micros);
        let id = self.id_of(&line);
        let sign = RecordSign::of(&about(&line), time);
        if id.is_some_and(|id| self.links.is_again(id, sign)) || !self.belongs(&line, events) {
            return;
        }
        self.line(&line, events);
        let Some(id) = id else { return };
        if let Some(summary) = self.summaries.remove(id) {
            self.title(TitleRank::Summary, Some(&summary), events);
        }
        let parent = parent_of(&line).and_then(|parent| self.links.place(parent));
        let elsewhere = parent.filter(|parent| !self.links.is_on_line(*parent));
        for id in [Some(id), text_at(&line, "/uuid").filter(|own| *own != id)].into_iter().flatten()
        {
            match elsewhere {
                Some(parent) => self.links.add_beside(id, parent, sign),
                None => self.links.add_record(id, sign),
            }
        }
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

    fn lacks_context(&self) -> bool {
        self.links.is_lost()
    }

    fn missing_blobs(&self) -> Vec<ObjectId> {
        self.files.wanted()
    }
}

impl ClaudeCode {
    fn line(&mut self, line: &Value, events: &mut Vec<Event>) {
        let kind = text_at(line, "/type").unwrap_or_default();
        if !RecordKind::is_listed(KINDS, kind, events) {
            return;
        }
        match kind {
            "user" | "assistant" => self.message(line, events),
            "progress" => {
                if let Some(inner) = sub_agent_line(line) {
                    let agent = sub_agent(text_at(line, "/data/agentId"));
                    self.conversation(&agent, inner, events);
                }
            }
            "attachment" => self.attachment(line, events),
            "system" => self.system(line, events),
            "content-replacement" => self.replace_results(line, events),
            "last-prompt" => self.rewind(line, events),
            CALLER => self.goes_on = text_at(line, "/agentId").map(str::to_owned),
            "custom-title" => self.named(TitleRank::Given, line, "/customTitle", events),
            "ai-title" => self.named(TitleRank::Made, line, "/aiTitle", events),
            "summary" => self.summary(line, events),
            _ => {}
        }
    }

    /// The id of a line: a prompt that is written again later has the one that it was sent with.
    fn id_of<'l>(&self, line: &'l Value) -> Option<&'l str> {
        let sent_as = text_at(line, "/sentAsUuid").filter(|id| !id.is_empty());
        let sent_as = sent_as.filter(|_| text_at(line, "/type") == Some("user"));
        sent_as.filter(|id| !self.links.has(id)).or_else(|| text_at(line, "/uuid"))
    }

    /// Returns true if a line is of this conversation, and not of one that was written into its
    /// file.
    fn belongs(&mut self, line: &Value, events: &mut Vec<Event>) -> bool {
        let is_linked = text_at(line, "/uuid").is_some();
        let Some(session) = text_at(line, "/sessionId").filter(|_| is_linked) else { return true };
        let links = &mut self.links;
        let follows = || parent_of(line).is_some_and(|parent| links.place(parent).is_some());
        let before = match self.sessions.belonging(session, follows) {
            Belonging::Own => return true,
            Belonging::Strange(before) => before,
        };
        if let Some((rank, title)) = before {
            self.titled = rank;
            self.session.correct(TITLE, &title, events);
        }
        events.push(Event::Unread { kind: STRANGE.to_owned() });
        false
    }

    /// Applies a title that a line gives to its session.
    fn named(&mut self, rank: TitleRank, line: &Value, path: &str, events: &mut Vec<Event>) {
        let session = text_at(line, "/sessionId");
        if self.sessions.is_strange(session) {
            return;
        }
        if let Some(session) = session {
            let before = self.session.known(TITLE).unwrap_or_default().to_owned();
            self.sessions.name(session, (self.titled, before));
        }
        self.title(rank, text_at(line, path), events);
    }

    fn system(&mut self, line: &Value, events: &mut Vec<Event>) {
        match text_at(line, "/subtype") {
            Some("compact_boundary") => {
                self.compact_without_summary(events);
                let place = parent_of(line).and_then(|parent| self.links.place(parent));
                events.extend(place.and_then(|place| self.links.follow(place, false)));
                self.at_boundary = true;
                self.kept = Kept::of(line);
            }
            Some("microcompact_boundary") => self.clear_results(line, events),
            _ if is_local_command(line) => {
                let agent = self.agent_of(line);
                self.conversation(&agent, line, events);
            }
            _ => {}
        }
    }

    fn title(&mut self, rank: TitleRank, title: Option<&str>, events: &mut Vec<Event>) {
        let title = title.map(first_line).filter(|title| !title.is_empty());
        if title.is_some() && rank >= self.titled {
            self.titled = rank;
            self.session.fact(TITLE, title.as_deref(), events);
        }
    }

    /// Applies a summary, which names the last record that it covers. Files begin with summaries of
    /// other sessions of the project, so a summary applies only if its record is in this file.
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

    /// A line of the conversation of `agent`, with its effects on files and todo lists.
    fn conversation(&mut self, agent: &str, line: &Value, events: &mut Vec<Event>) {
        let view = view(line);
        let time = line.get("timestamp").and_then(json::time);
        let model = text_at(line, "/message/model").filter(|model| !model.starts_with('<'));
        let message = view.event(agent, Content::Piece, time, model);
        if is(line, "isCompactSummary") && !self.goes_on_with(agent, line) {
            self.at_boundary = false;
            self.links.set_reply(None);
            return match agent {
                MAIN_AGENT => self.compact(vec![message], events),
                _ => {
                    let (agent, keep) = (agent.to_owned(), 0..0);
                    events.push(Event::Compact { agent, summary: vec![message], keep });
                }
            };
        }
        if agent == MAIN_AGENT && line.get("message").is_some() {
            self.has_main = true;
            self.compact_without_summary(events);
            self.session.fact("model", model, events);
        }
        if is_never_sent(line) {
            return;
        }
        if agent == MAIN_AGENT || !self.has_main {
            self.begin(agent, line, &view, events);
        }
        events.push(Event::Message(message));
        if agent == MAIN_AGENT {
            self.links.message();
            view.tool_calls.iter().for_each(|call| self.links.call(&call.id));
            if let ([result], "") = (view.tool_results.as_slice(), view.text.as_str()) {
                self.links.add(&result_id(&result.call_id));
            }
        }
        if let Some(result) = line.get("toolUseResult") {
            self.result(agent, result, events);
        }
        if agent != MAIN_AGENT {
            sub_agent_todos(agent, line, events);
        }
    }

    /// Returns true if a summary follows a line of the conversation, and no boundary: then it is a
    /// plain message, as in a session that was laid out again.
    fn goes_on_with(&mut self, agent: &str, line: &Value) -> bool {
        if self.at_boundary || agent != MAIN_AGENT {
            return false;
        }
        let place = parent_of(line).and_then(|parent| self.links.place(parent));
        place.is_some_and(|place| self.links.is_on_line(place))
    }

    /// Goes where a message belongs, and begins a turn with it if it does that.
    fn begin(&mut self, agent: &str, line: &Value, view: &MessageView, events: &mut Vec<Event>) {
        let is_main = agent == MAIN_AGENT;
        let mut place = None;
        if is_main {
            for result in &view.tool_results {
                place = place.or(self.links.result(&result.call_id));
            }
            let parent = parent_of(line).filter(|_| place.is_none());
            place = place.or_else(|| parent.and_then(|parent| self.links.place(parent)));
        }
        let reply = (view.role == Role::Assistant).then(|| reply_of(line));
        let begins_turn = match &reply {
            Some(reply) => {
                self.after_caveat = false;
                !self.links.is_in_reply(place, reply)
            }
            None => self.is_prompt(line, view),
        };
        if is_main {
            events.extend(match (place, line.get("parentUuid")) {
                (Some(place), _) => self.links.follow(place, begins_turn),
                (None, Some(Value::Null)) if begins_turn && view.role == Role::User => {
                    self.links.back_to_start()
                }
                _ => None,
            });
        }
        if reply.is_some() || begins_turn {
            self.links.set_reply(reply.as_deref());
        }
        if begins_turn {
            if is_main {
                self.links.turn();
            }
            events.push(Event::Turn);
        }
    }

    /// Returns whether a message, which is no reply, begins a turn.
    fn is_prompt(&mut self, line: &Value, view: &MessageView) -> bool {
        if view.role == Role::Tool {
            return false;
        }
        // A result that has not been read yet belongs to the turn of its call.
        let is_beside = line.get("message").is_none();
        if is_beside && self.links.is_waiting() {
            return false;
        }
        if line.get("attachment").is_some() {
            return view.is_prompt();
        }
        if is(line, "isMeta") {
            let is_caveat = view.text.starts_with(CAVEAT);
            self.after_caveat |= is_caveat;
            return is_caveat;
        }
        if CONTINUATIONS.iter().any(|start| view.text.starts_with(start)) {
            return false;
        }
        !std::mem::take(&mut self.after_caveat)
    }

    /// Content that the client adds to the conversation: rendered attachments, and prompts that were typed
    /// while the agent worked, which older releases do not render.
    fn attachment(&mut self, line: &Value, events: &mut Vec<Event>) {
        let agent = self.agent_of(line);
        if let Some(parts) = line.pointer("/attachment/systemPrompt").and_then(Value::as_array) {
            let parts: Vec<_> = parts.iter().filter_map(Value::as_str).collect();
            let content = Content::Own(Bytes::from(parts.join("\n\n")));
            events.push(Event::SystemPrompt { agent: agent.clone(), content });
        }
        if line.get("rendered").is_some_and(Value::is_array) || Queued::of(line).is_some() {
            self.conversation(&agent, line, events);
        }
    }

    /// A rewind of the client: the conversation ends at a record, or is empty, whatever lines
    /// follow.
    fn rewind(&mut self, line: &Value, events: &mut Vec<Event>) {
        let leaf = line.get("leafUuid");
        let is_rewound =
            is(line, "rewound") && !self.sessions.is_strange(text_at(line, "/sessionId"));
        events.extend(match leaf {
            Some(Value::String(leaf)) if is_rewound => self.links.end_at(leaf),
            Some(Value::Null) if is(line, "explicit") => self.links.back_to_start(),
            _ => None,
        });
    }

    /// Results of tools are sent as other texts from then on.
    fn replace_results(&mut self, line: &Value, events: &mut Vec<Event>) {
        if self.agent_of(line) != MAIN_AGENT {
            return;
        }
        let replacements = line.get("replacements").and_then(Value::as_array);
        for replacement in replacements.into_iter().flatten() {
            let named =
                text_at(replacement, "/toolUseId").zip(text_at(replacement, "/replacement"));
            if let Some((call, text)) = named {
                self.replace_result(call, text, events);
            }
        }
    }

    /// Results of tools are left out from then on.
    fn clear_results(&mut self, line: &Value, events: &mut Vec<Event>) {
        let calls = line.pointer("/microcompactMetadata/compactedToolIds");
        for call in calls.and_then(Value::as_array).into_iter().flatten() {
            if let Some(call) = call.as_str() {
                self.replace_result(call, CLEARED, events);
            }
        }
    }

    fn replace_result(&mut self, call: &str, text: &str, events: &mut Vec<Event>) {
        let Some(at) = self.links.position(&result_id(call)) else { return };
        let back = self.links.messages().saturating_sub(at).saturating_sub(1);
        let result = json!({"type": "tool_result", "tool_use_id": call, "content": text});
        let line = json!({"type": "user", "message": {"role": "user", "content": [result]}});
        let content = Content::Own(line.to_string().into());
        let message = view(&line).event(MAIN_AGENT, content, None, None);
        events.push(Event::ReplaceMessage { message, back });
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
            self.compact(Vec::new(), events);
        }
    }

    /// The conversation becomes `summary` and the kept messages.
    fn compact(&mut self, summary: Vec<MessageEvent>, events: &mut Vec<Event>) {
        let kept = std::mem::take(&mut self.kept);
        let Compacted { before, after } = kept.compact(summary.len() as u64, &mut self.links);
        let agent = MAIN_AGENT.to_owned();
        events.push(match (before.as_slice(), after.as_slice()) {
            ([], []) => Event::Compact { agent, summary, keep: 0..0 },
            ([], [keep]) => Event::Compact { agent, summary, keep: keep.clone() },
            _ => Event::Rearrange { agent, before, summary, after },
        });
    }
}

/// The sign that distinguishes lines with the same `uuid`: no release writes such lines, but other
/// tools that write these files do.
fn about(line: &Value) -> String {
    let block = |name: &str| text_at(line, &format!("/message/content/0/{name}"));
    let parts = [
        text_at(line, "/type"),
        text_at(line, "/subtype"),
        text_at(line, "/message/id"),
        block("id").or_else(|| block("tool_use_id")),
    ];
    parts.map(Option::unwrap_or_default).join(" ")
}

/// The line that a line follows. A boundary begins a chain of its own, and names the line before it.
fn parent_of(line: &Value) -> Option<&str> {
    text_at(line, "/parentUuid").or_else(|| text_at(line, "/logicalParentUuid"))
}

/// The name of the record with the result of a call.
fn result_id(call: &str) -> String {
    format!("result {call}")
}

/// Returns the key that the lines of one reply share. A gateway may give every reply the same
/// message id, so the key includes the request.
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

#[cfg(test)]
mod tests;
