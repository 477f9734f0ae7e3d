//! Any context becomes a snapshot document of the shape that 4.2 writes.
//!
//! Values that were imported from a document are written as they were imported. Content of other
//! systems is written as far as a document has a place for it: conversation, system prompt, core
//! memory.

use std::io::Write;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use turntree::context::sections::{
    DYNAMIC_MESSAGES, MESSAGES, META, STATE, SYSTEM_MESSAGES, SYSTEM_PROMPT,
};
use turntree::context::{
    Context, JSON_MEDIA, MAIN_AGENT, MessageEntry, Role, Shape, agent_section,
};
use turntree::error::{Error, Result};
use turntree::object::{Commit, Kind, ObjectSource};

use super::memory::{entry_of, memory, turn, why_expired};
use super::{
    ANNOUNCEMENTS, CREATED, DYNAMIC_XML, GUARDRAIL, HANDOFF, JANITOR, LABEL, MEMORY_TURN,
    META_MODULES, META_OTHER, NAME, PLACEMENT, PRUNER, SKILL_NAME, SKILL_TEXT,
};
use crate::formats::view;
use crate::model::view::MessageView;
use crate::text::json::Text;

const EMPTY_JANITOR: &str =
    r#"{"externalTokenUsage":null,"suppressNextCompression":false,"consecutiveFailures":0}"#;
const EMPTY_PRUNER: &str =
    r#"{"flatTools":[],"namespaces":[],"lazyToolkits":[],"blockedTools":[]}"#;

/// The facts of a document besides its context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChefOptions {
    /// The label, as JSON; none is left out.
    pub label: Option<String>,
    /// When it was made, as the number of milliseconds since the Unix epoch.
    pub created: String,
    /// Leave out entries of core memory that have expired at this moment, in milliseconds since the
    /// Unix epoch, as the next compile would. A snapshot has them.
    pub swept_at: Option<i64>,
}

impl ChefOptions {
    /// Reads the facts of the commit of a context: the label and time of the document that it was
    /// imported from, otherwise its message and its time.
    #[must_use]
    pub fn of(commit: &Commit) -> Self {
        if let Some(created) = commit.metadata.get(CREATED) {
            let label = commit.metadata.get(LABEL).cloned();
            return Self { label, created: created.clone(), swept_at: None };
        }
        let message = (!commit.message.is_empty()).then(|| quoted(&commit.message));
        let created = (commit.time.micros / 1000).to_string();
        Self { label: message, created, swept_at: None }
    }
}

/// Writes `context` as a snapshot document, as `JSON.stringify` would: without white space.
///
/// # Errors
/// `Io` when `out` refuses, and errors of reading.
pub fn export_chef(
    source: &dyn ObjectSource,
    context: &Context,
    options: &ChefOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let exported = ChefExport { source, context, state: agent_section(MAIN_AGENT, STATE)? };
    let document = exported.document(options)?;
    out.write_all(document.as_bytes()).map_err(|error| Error::io("write the snapshot", error))
}

struct ChefExport<'a> {
    source: &'a dyn ObjectSource,
    context: &'a Context,
    /// The section of the agent's state.
    state: String,
}

impl ChefExport<'_> {
    fn document(&self, options: &ChefOptions) -> Result<String> {
        let mut fields = ObjectText::default();
        fields.add("systemPrompt", &self.system()?);
        fields.add("history", &array(&self.messages(MESSAGES)?));
        fields.add("dynamicState", &array(&self.messages(DYNAMIC_MESSAGES)?));
        let or = |found: Option<String>, default: &str| found.unwrap_or_else(|| default.to_owned());
        fields.add("dynamicStatePlacement", &or(self.value(PLACEMENT)?, "\"last_user\""));
        fields.add("dynamicStateXml", &or(self.value(DYNAMIC_XML)?, "\"\""));
        let mut modules = ObjectText::default();
        modules.add("janitor", &self.janitor()?);
        modules.add("memory", &self.memory(options)?);
        modules.add("pruner", &self.pruner()?);
        modules.add_all(self.meta(META_MODULES)?.as_deref());
        fields.add("modules", &modules.end());
        for key in [SKILL_NAME, SKILL_TEXT, GUARDRAIL] {
            if let Some(value) = self.value(key)? {
                fields.add(key, &value);
            }
        }
        if let Some(announcements) = self.announcements()? {
            fields.add(ANNOUNCEMENTS, &announcements);
        }
        if let Some(window) = self.value(HANDOFF)? {
            fields.add(HANDOFF, &window);
        }
        if let Some(label) = &options.label {
            fields.add("label", &compact(label.as_bytes()));
        }
        fields.add("createdAt", &options.created);
        fields.add_all(self.meta(META_OTHER)?.as_deref());
        Ok(fields.end())
    }

    /// The messages of the system prompt; of other systems, the prompt as one message.
    fn system(&self) -> Result<String> {
        let section = agent_section(MAIN_AGENT, SYSTEM_MESSAGES)?;
        if self.context.section(self.source, &section)?.is_some() {
            return Ok(array(&self.messages(SYSTEM_MESSAGES)?));
        }
        let section = agent_section(MAIN_AGENT, SYSTEM_PROMPT)?;
        match self.context.section(self.source, &section)? {
            Some(section) if section.shape == Shape::Blob => {
                let prompt = self.source.read_as(Kind::Blob, &section.id)?;
                let prompt = quoted(&String::from_utf8_lossy(&prompt));
                Ok(format!(r#"[{{"role":"system","content":{prompt}}}]"#))
            }
            _ => Ok("[]".to_owned()),
        }
    }

    fn messages(&self, part: &str) -> Result<Vec<String>> {
        let list = self.context.list(self.source, &agent_section(MAIN_AGENT, part)?)?;
        let mut messages = Vec::new();
        for item in list.iter(self.source, 0..list.len()) {
            let entry = MessageEntry::from_item(&item?)?;
            let bytes = self.source.read_as(Kind::Blob, &entry.blob)?;
            // An imported value is a message, even one with a duplicate field.
            if entry.media == NAME || entry.media == JSON_MEDIA && is_message(&bytes) {
                messages.push(compact(&bytes));
            } else {
                said(entry.role, &view(&entry.media, &bytes), &mut messages);
            }
        }
        Ok(messages)
    }

    /// The janitor, with the counter that old ones lack.
    fn janitor(&self) -> Result<String> {
        let Some(janitor) = self.value(JANITOR)? else { return Ok(EMPTY_JANITOR.to_owned()) };
        with_defaults(&janitor, EMPTY_JANITOR)
    }

    fn pruner(&self) -> Result<String> {
        let Some(pruner) = self.value(PRUNER)? else { return Ok(EMPTY_PRUNER.to_owned()) };
        with_defaults(&pruner, EMPTY_PRUNER)
    }

    /// The announcements in their order; those that the order does not name, as after a merge, follow.
    fn announcements(&self) -> Result<Option<String>> {
        let map = self.context.map(self.source, &self.state)?;
        let prefix = format!("{ANNOUNCEMENTS}/");
        let mut ids = Vec::new();
        for entry in map.prefix(self.source, prefix.as_bytes()) {
            let (key, _) = entry?;
            ids.push(String::from_utf8_lossy(&key).into_owned());
        }
        let order = self.value(ANNOUNCEMENTS)?;
        if order.is_none() && ids.is_empty() {
            return Ok(None);
        }
        let order: Vec<String> =
            order.and_then(|order| serde_json::from_str(&order).ok()).unwrap_or_default();
        let place = |key: &String| {
            let id = key.strip_prefix(&prefix).unwrap_or(key);
            order.iter().position(|known| known == id).unwrap_or(usize::MAX)
        };
        ids.sort_by_key(place);
        let values = ids.iter().filter_map(|key| self.value(key).transpose());
        Ok(Some(array(&values.collect::<Result<Vec<_>>>()?)))
    }

    fn memory(&self, options: &ChefOptions) -> Result<String> {
        let Some(entries) = memory(self.source, self.context)? else {
            return Ok("null".to_owned());
        };
        let count = turn(self.source, self.context)?;
        let mut object = ObjectText::default();
        for entry in entries {
            let swept = options.swept_at.and_then(|now| why_expired(&entry, now, count));
            if swept.is_some() {
                continue;
            }
            let json = match entry.is_entry {
                true => compact(&entry.json),
                false => entry_of(&quoted(&entry.value), &options.created),
            };
            object.add(&entry.key, &json);
        }
        let count = self.value(MEMORY_TURN)?;
        let count = count.unwrap_or_else(|| "0".to_owned());
        Ok(format!(r#"{{"entries":{},"turnCount":{count}}}"#, object.end()))
    }

    /// A value of the agent's state, without white space.
    fn value(&self, key: &str) -> Result<Option<String>> {
        self.entry(&self.state, key)
    }

    fn meta(&self, key: &str) -> Result<Option<String>> {
        self.entry(META, key)
    }

    fn entry(&self, section: &str, key: &str) -> Result<Option<String>> {
        let map = self.context.map(self.source, section)?;
        let Some(item) = map.get(self.source, key.as_bytes())? else { return Ok(None) };
        let bytes = self.source.read_as(Kind::Blob, &item.link.id)?;
        let is_json = Text::new(&bytes).is_some_and(|text| text.parse::<IgnoredAny>().is_ok());
        // A value that was stored as text, for example by a state document, stays text.
        Ok(Some(match is_json && item.meta == JSON_MEDIA.as_bytes() {
            true => compact(&bytes),
            false => quoted(&String::from_utf8_lossy(&bytes)),
        }))
    }
}

/// Returns true if a record is a message in the form of documents.
fn is_message(bytes: &Bytes) -> bool {
    #[derive(Deserialize)]
    struct DocumentMessage {
        #[serde(rename = "role")]
        _role: String,
        #[serde(rename = "content")]
        _content: String,
    }
    Text::new(bytes).is_some_and(|text| text.parse::<DocumentMessage>().is_ok())
}

/// Writes a message of another format: its text, then a message for each result.
fn said(role: Role, view: &MessageView, messages: &mut Vec<String>) {
    let name = if role == Role::Other { "user" } else { role.name() };
    let says = !view.text.is_empty() || !view.tool_calls.is_empty() || !view.thinking.is_empty();
    if says || view.tool_results.is_empty() {
        let mut message = ObjectText::default();
        message.add("role", &quoted(name));
        message.add("content", &quoted(&view.text));
        if !view.thinking.is_empty() {
            message.add("thinking", &format!(r#"{{"thinking":{}}}"#, quoted(&view.thinking)));
        }
        if !view.tool_calls.is_empty() {
            let calls = view.tool_calls.iter().map(|call| {
                let (id, name, input) = (quoted(&call.id), quoted(&call.name), quoted(&call.input));
                format!(r#"{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{input}}}}}"#)
            });
            message.add("tool_calls", &array(&calls.collect::<Vec<_>>()));
        }
        messages.push(message.end());
    }
    for result in &view.tool_results {
        let (id, text) = (quoted(&result.call_id), quoted(&result.text));
        messages.push(format!(r#"{{"role":"tool","content":{text},"tool_call_id":{id}}}"#));
    }
}

/// The object `json`, with those fields of `defaults` that it lacks at its end.
fn with_defaults(json: &str, defaults: &str) -> Result<String> {
    let fields = |json: &str| -> Result<Vec<(String, String)>> {
        let text = Text::new(json.as_bytes());
        let fields = text.as_ref().and_then(|text| {
            let crate::formats::frameworks::json_parts::Fields(fields) = text.parse().ok()?;
            let raw = |(name, value): (String, &serde_json::value::RawValue)| {
                let range = text.range_of(value)?;
                Some((name, json.get(range)?.to_owned()))
            };
            fields.into_iter().map(raw).collect::<Option<Vec<_>>>()
        });
        fields.ok_or_else(|| Error::invalid("a module of ContextChef: expected an object"))
    };
    let mut object = ObjectText::default();
    let own = fields(json)?;
    for (name, value) in &own {
        object.add(name, value);
    }
    for (name, value) in fields(defaults)? {
        if !own.iter().any(|(other, _)| *other == name) {
            object.add(&name, &value);
        }
    }
    Ok(object.end())
}

/// An object in the making.
#[derive(Default)]
struct ObjectText(String);

impl ObjectText {
    fn add(&mut self, name: &str, json: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self.0.push_str(json);
    }

    /// Adds the members of another object.
    fn add_all(&mut self, json: Option<&str>) {
        let inner = json.and_then(|json| json.strip_prefix('{')?.strip_suffix('}'));
        if let Some(inner) = inner.filter(|inner| !inner.is_empty()) {
            self.0.push(if self.0.is_empty() { '{' } else { ',' });
            self.0.push_str(inner);
        }
    }

    fn end(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        self.0
    }
}

fn array(elements: &[String]) -> String {
    format!("[{}]", elements.join(","))
}

/// Text as a JSON string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// JSON without the white space between its tokens.
fn compact(text: &[u8]) -> String {
    String::from_utf8_lossy(&turntree::context::compact_json(text)).into_owned()
}
