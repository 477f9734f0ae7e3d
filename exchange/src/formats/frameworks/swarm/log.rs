//! One event of a log: its changes, and the message that it represents.
//!
//! Values stay unparsed JSON until they are read, so that an event costs one pass over its line.
//! For duplicate names the last value wins, as in Ruby.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use turntree::context::Role;

use super::super::json_writer::quoted;
use super::compat::SwarmCompat;
use super::document::kind_of;
use crate::model::view::MessageView;
use crate::text::json::{Text, iso_time};

const NAMES: [&str; 17] = [
    "type",
    "agent",
    "timestamp",
    "tool",
    "tool_call_id",
    "swarm_id",
    "parent_swarm_id",
    "prompt",
    "content",
    "tool_calls",
    "model",
    "usage",
    "result",
    "arguments",
    "metadata",
    "system_prompt",
    "threshold",
];

// Where each of them is.
const TYPE: usize = 0;
const AGENT: usize = 1;
const TIMESTAMP: usize = 2;
const TOOL: usize = 3;
const TOOL_CALL_ID: usize = 4;
const SWARM_ID: usize = 5;
const PARENT_SWARM_ID: usize = 6;
const PROMPT: usize = 7;
const CONTENT: usize = 8;
const TOOL_CALLS: usize = 9;
const MODEL: usize = 10;
const USAGE: usize = 11;
const RESULT: usize = 12;
const ARGUMENTS: usize = 13;
const METADATA: usize = 14;
const SYSTEM_PROMPT: usize = 15;
const THRESHOLD: usize = 16;

/// An event, its values by the order of [`NAMES`].
#[derive(Debug)]
pub(super) struct LogEvent<'a> {
    fields: [Option<&'a RawValue>; 17],
    kind: Option<Cow<'a, str>>,
    tool: Option<Cow<'a, str>>,
    instant: i64,
}

/// A change by an event outside of the conversation.
#[derive(Debug, PartialEq)]
pub(super) enum Effect<'a> {
    None,
    /// The agent begins, with this system prompt.
    Start(Option<String>),
    Threshold(i64),
    Compressed,
    /// An entry of the scratchpad: its path, and the entry as JSON.
    Write {
        path: String,
        entry: String,
    },
    /// The todo list was written by this call.
    Todo(Option<String>),
    /// A skill was loaded; `None` when no arguments name it.
    Skill(Option<Option<&'a str>>),
    Read {
        path: String,
        digest: String,
    },
    MemoryRead {
        path: String,
        digest: String,
    },
    /// Something that should be there is not.
    Odd(&'static str),
}

/// A tool call of a message.
#[derive(Debug, Default)]
pub(super) struct LoggedCall<'a> {
    pub(super) id: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
}

impl<'a> LogEvent<'a> {
    /// Parses the event in `line`; `None` if it is no JSON object.
    pub(super) fn of(line: &'a Text<'_>) -> Option<Self> {
        let mut deserializer = serde_json::Deserializer::from_str(line.as_str());
        let fields = Names(&NAMES).deserialize(&mut deserializer).ok()?;
        deserializer.end().ok()?;
        let mut event = Self { fields, kind: None, tool: None, instant: 0 };
        // Caches the fields that are read repeatedly.
        event.kind = event.text(TYPE);
        event.tool = event.text(TOOL);
        let moment = event.text(TIMESTAMP).and_then(|text| iso_time(&text));
        event.instant = moment.map_or(0, |time| time.micros);
        Some(event)
    }

    fn get(&self, at: usize) -> Option<&'a RawValue> {
        self.fields.get(at).copied().flatten().filter(|value| value.get() != "null")
    }

    fn text(&self, at: usize) -> Option<Cow<'a, str>> {
        self.get(at).and_then(text)
    }

    /// Returns its time in microseconds: the epoch if it has no readable one, so that it comes
    /// first.
    pub(super) fn instant(&self) -> i64 {
        self.instant
    }

    /// Its moment, as it is written; `null` too.
    pub(super) fn timestamp(&self) -> Option<&'a RawValue> {
        self.fields.get(TIMESTAMP).copied().flatten()
    }

    pub(super) fn agent(&self) -> Option<Cow<'a, str>> {
        self.text(AGENT)
    }

    pub(super) fn swarm(&self) -> Option<&'a RawValue> {
        self.get(SWARM_ID)
    }

    pub(super) fn parent_swarm(&self) -> Option<&'a RawValue> {
        self.get(PARENT_SWARM_ID)
    }

    pub(super) fn model(&self) -> Option<Cow<'a, str>> {
        self.text(MODEL)
    }

    /// Returns the speaker, if the event represents a message.
    pub(super) fn role(&self) -> Option<Role> {
        match self.kind.as_deref()? {
            "user_prompt" => self.prompt().map(|_| Role::User),
            "agent_step" | "agent_stop" => Some(Role::Assistant),
            "tool_result" | "delegation_result" => Some(Role::Tool),
            _ => None,
        }
    }

    /// Returns the prompt; `None` when it is empty.
    fn prompt(&self) -> Option<&'a RawValue> {
        let [inner] = self.inner(METADATA, ["prompt"]);
        let prompt = inner.or_else(|| self.get(PROMPT))?;
        let is_empty = match prompt.get().as_bytes() {
            [b'{' | b'[', middle @ .., _] => middle.iter().all(u8::is_ascii_whitespace),
            text => text == b"\"\"",
        };
        (!is_empty).then_some(prompt)
    }

    /// Fields of the object at `at`.
    fn inner<const N: usize>(&self, at: usize, fields: [&str; N]) -> [Option<&'a RawValue>; N] {
        let none = [None; N];
        self.get(at).map_or(none, |object| inner(object, fields))
    }

    /// Returns calls of tools; of calls with one id only the last.
    pub(super) fn calls(&self) -> Vec<LoggedCall<'a>> {
        let listed: Vec<&'a RawValue> = self
            .get(TOOL_CALLS)
            .and_then(|calls| serde_json::from_str(calls.get()).ok())
            .unwrap_or_default();
        let mut calls: Vec<LoggedCall<'a>> = Vec::with_capacity(listed.len());
        let mut places = HashMap::new();
        for call in listed {
            let [id, name, arguments] = inner(call, ["id", "name", "arguments"]);
            let call = LoggedCall { id, name, arguments };
            let place = *places.entry(id.map(RawValue::get)).or_insert(calls.len());
            match calls.get_mut(place) {
                Some(earlier) => *earlier = call,
                None => calls.push(call),
            }
        }
        calls
    }

    /// Writes the message that the event represents, if any.
    pub(super) fn render(&self, compat: SwarmCompat, out: &mut Vec<u8>) {
        if let Some(role) = self.role() {
            self.render_as(role, compat, out);
        }
    }

    /// Writes the message of `role` that the event represents.
    pub(super) fn render_as(&self, role: Role, compat: SwarmCompat, out: &mut Vec<u8>) {
        let mut push = |part: &str| out.extend_from_slice(part.as_bytes());
        match role {
            Role::User => {
                push(r#"{"role":"user","content":"#);
                push(self.prompt().map_or("null", RawValue::get));
            }
            Role::Tool => {
                push(r#"{"role":"tool","content":"#);
                push(&self.result(compat));
                if let Some(id) = self.get(TOOL_CALL_ID) {
                    push(r#","tool_call_id":"#);
                    push(id.get());
                }
            }
            _ => {
                push(r#"{"role":"assistant","content":"#);
                push(self.get(CONTENT).map_or("\"\"", RawValue::get));
                let calls = self.calls();
                for (index, call) in calls.iter().enumerate() {
                    push(if index == 0 { r#","tool_calls":[{"id":"# } else { r#"},{"id":"# });
                    push(call.id.map_or("null", RawValue::get));
                    push(r#","name":"#);
                    push(call.name.map_or("null", RawValue::get));
                    push(r#","arguments":"#);
                    push(call.arguments.map_or("{}", RawValue::get));
                }
                if !calls.is_empty() {
                    push("}]");
                }
                let [input, output] = self.inner(USAGE, ["input_tokens", "output_tokens"]);
                let parts = [
                    ("input_tokens", input),
                    ("output_tokens", output),
                    ("model_id", self.get(MODEL)),
                ];
                for (name, value) in parts {
                    if let Some(value) = value {
                        push(",\"");
                        push(name);
                        push("\":");
                        push(value.get());
                    }
                }
            }
        }
        push("}");
    }

    /// The result of a tool as a text in JSON.
    fn result(&self, compat: SwarmCompat) -> Cow<'a, str> {
        let Some(result) = self.get(RESULT) else { return Cow::Borrowed("\"\"") };
        match result.get().as_bytes().first() {
            Some(b'"') => Cow::Borrowed(result.get()),
            Some(b'{' | b'[') => {
                let text = match (serde_json::from_str(result.get()), compat) {
                    (Err(_), _) => result.get().to_owned(),
                    (Ok(value), SwarmCompat::Sound) => Value::to_string(&value),
                    (Ok(value), SwarmCompat::Upstream | SwarmCompat::StringKeys) => {
                        inspected(&value)
                    }
                };
                Cow::Owned(quoted(&text))
            }
            _ => Cow::Owned(quoted(result.get())),
        }
    }

    /// Returns the changes by the event outside of the conversation.
    pub(super) fn effect(&self) -> Effect<'a> {
        match (self.kind.as_deref().unwrap_or_default(), self.tool.as_deref()) {
            ("agent_start", _) => Effect::Start(self.text(SYSTEM_PROMPT).map(Cow::into_owned)),
            ("context_threshold_hit", _) => {
                let threshold = self.get(THRESHOLD).and_then(|raw| raw.get().parse().ok());
                threshold
                    .map_or(Effect::Odd("a threshold that is not an integer"), Effect::Threshold)
            }
            ("compression_completed", _) => Effect::Compressed,
            ("tool_call", Some("ScratchpadWrite")) => self.scratchpad_write(),
            ("tool_call", Some("TodoWrite")) => {
                Effect::Todo(self.text(TOOL_CALL_ID).map(Cow::into_owned))
            }
            ("tool_call", Some("LoadSkill")) => {
                Effect::Skill(self.get(ARGUMENTS).map(|arguments| {
                    let [path] = inner(arguments, ["file_path"]);
                    path.map(RawValue::get)
                }))
            }
            ("tool_result", Some(tool @ ("Read" | "MemoryRead"))) => {
                let [digest, path] = self.inner(METADATA, ["read_digest", "read_path"]);
                match (digest.and_then(text), path.and_then(text)) {
                    (Some(digest), Some(path)) => {
                        let (path, digest) = (path.into_owned(), digest.into_owned());
                        match tool {
                            "Read" => Effect::Read { path, digest },
                            _ => Effect::MemoryRead { path, digest },
                        }
                    }
                    _ => Effect::None,
                }
            }
            _ => Effect::None,
        }
    }

    fn scratchpad_write(&self) -> Effect<'a> {
        let [path, content, title] = self.inner(ARGUMENTS, ["file_path", "content", "title"]);
        let (Some(path), Some(content)) = (path.and_then(text), content) else {
            return Effect::Odd("a ScratchpadWrite without path or content");
        };
        let Some(said) = text(content) else {
            return Effect::Odd("a ScratchpadWrite whose content is not text");
        };
        let title = title.map_or("null", RawValue::get);
        let moment = self.timestamp().map_or("null", RawValue::get);
        let (json, size) = (content.get(), said.len());
        let entry =
            format!(r#"{{"content":{json},"title":{title},"updated_at":{moment},"size":{size}}}"#);
        Effect::Write { path: path.into_owned(), entry }
    }

    /// Returns the fault of the event, if it has one.
    pub(super) fn odd(&self, effect: &Effect<'_>) -> Option<&'static str> {
        if self.kind.is_none() {
            return Some("an event without a type");
        }
        if self.get(AGENT).is_some_and(|agent| kind_of(agent) != "a string") {
            return Some("an event whose agent is not text");
        }
        if self.get(TOOL_CALLS).is_some_and(|calls| kind_of(calls) != "an array") {
            return Some("tool calls that are not an array");
        }
        match effect {
            Effect::Odd(what) => Some(what),
            Effect::Skill(None) => Some("a LoadSkill without arguments"),
            _ => None,
        }
    }
}

/// The view of the message that an event represents.
pub(super) fn view(event: &Value) -> MessageView {
    let line = event.to_string();
    let text = Text::new(line.as_bytes());
    let mut message = Vec::new();
    if let Some(event) = text.as_ref().and_then(LogEvent::of) {
        event.render(SwarmCompat::Sound, &mut message);
    }
    match serde_json::from_slice(&message) {
        Ok(message) => super::view_message(&message),
        Err(_) => MessageView::unreadable(line.as_bytes()),
    }
}

/// Returns the text of a string, borrowed if nothing is escaped in it.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inside = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str(raw.get()).ok().map(Cow::Owned)
}

/// Returns fields of an object, by their names; null fields are `None`.
fn inner<'a, const N: usize>(object: &'a RawValue, names: [&str; N]) -> [Option<&'a RawValue>; N] {
    let mut deserializer = serde_json::Deserializer::from_str(object.get());
    let picked = Names(&names).deserialize(&mut deserializer);
    picked.unwrap_or([None; N]).map(|value| value.filter(|value| value.get() != "null"))
}

/// Picks the fields of an object that have these names.
struct Names<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Names<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Names<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut picked = [None; N];
        while let Some(key) = map.next_key::<FieldName<'de>>()? {
            let at = self.0.iter().position(|name| *name == key.0);
            match at.and_then(|at| picked.get_mut(at)) {
                Some(slot) => *slot = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(picked)
    }
}

/// The name of a field, borrowed where it can be.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// A value as Ruby's `inspect` shows it when names are symbols.
fn inspected(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(inspected).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_word = |name: &str| {
                name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit())
            };
            let field = |(name, value): (&String, &Value)| {
                let symbol = match !name.is_empty() && is_word(name) {
                    true => format!(":{name}"),
                    false => format!(":{name:?}"),
                };
                format!("{symbol}=>{}", inspected(value))
            };
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}
