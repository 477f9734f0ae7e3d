//! Any context becomes a snapshot document of the shape that SwarmSDK documents.
//!
//! Values that were imported from a document or a log are written as they were imported. Content of
//! other systems is written as far as a document has a place for it: conversations, prompts,
//! scratchpad.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Map as Object, Value, json};
use turntree::context::sections::{
    MEMORY_READS, META, PLUGIN_STATES, READS, SCRATCHPAD, STATE, SYSTEM_PROMPT,
};
use turntree::context::{Context, JSON_MEDIA, MessageEntry, Role, Section, Shape, agent_section};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectSource};

use super::super::json_writer::{Formatted, Json, quoted};
use super::compat::SwarmCompat;
use super::document::SnapshotVersion;
use super::log::LogEvent;
use super::{
    EVENTS, META_MEMORY, META_METADATA, META_MOMENT, META_OTHER, META_PAD, META_SDK, META_TYPE,
    META_VERSION, SDK_VERSION, SNAPSHOT, decoded,
};
use crate::formats::view;
use crate::model::view::MessageView;
use crate::text::json::Text;

/// Options of an export.
#[derive(Debug, Clone, Default)]
pub struct SnapshotOptions {
    /// The version of the document; by default that of the imported one, otherwise 2.1.0.
    pub version: Option<SnapshotVersion>,
    /// The rules that apply where upstream is known to be wrong.
    pub compat: SwarmCompat,
    /// When the context was made, in ISO 8601.
    pub moment: String,
    /// True if the given time applies even though the context has one: the context was changed
    /// since.
    pub edited: bool,
}

/// Writes `context` as a snapshot document, indented by two spaces.
///
/// # Errors
/// `Io` when `out` refuses, and errors of reading.
pub fn export_snapshot(
    source: &dyn ObjectSource,
    context: &Context,
    options: &SnapshotOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let recorded = Recorded::of(source, context)?;
    recorded.write(options, &mut Json::new(&mut Formatted::new(out, true)))
}

/// The parts of a context that a document has a place for. Messages are read when they are
/// written.
pub(super) struct Recorded<'a> {
    source: &'a dyn ObjectSource,
    context: &'a Context,
    /// Facts in `meta`, as JSON.
    meta: BTreeMap<String, String>,
    /// Names of agents, and how the context has them.
    pub(super) agents: Vec<(String, String)>,
    plugins: BTreeMap<String, BTreeMap<String, String>>,
}

/// The parts of an agent's context, besides messages and tracking.
pub(super) struct AgentFacts {
    pub(super) state: BTreeMap<String, String>,
    pub(super) prompt: Option<String>,
}

impl<'a> Recorded<'a> {
    pub(super) fn of(source: &'a dyn ObjectSource, context: &'a Context) -> Result<Self> {
        let mut meta = texts(source, context, META)?;
        meta.retain(|key, _| key.starts_with("swarm/"));
        let agents = context.agents(source)?;
        let agents = agents.into_iter().map(|stored| (decoded(&stored), stored)).collect();
        let mut plugins: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (key, state) in texts(source, context, PLUGIN_STATES)? {
            let (plugin, agent) = key.split_once('/').unwrap_or((&key, ""));
            let states = plugins.entry(decoded(plugin)).or_default();
            states.insert(decoded(agent), state);
        }
        Ok(Self { source, context, meta, agents, plugins })
    }

    /// Returns the default version of its document.
    pub(super) fn version(&self) -> SnapshotVersion {
        let named = self.meta_text(META_VERSION).and_then(|name| SnapshotVersion::named(&name));
        named.unwrap_or(SnapshotVersion::V2_1)
    }

    /// Its type, as `version` calls it.
    pub(super) fn kind(&self, version: SnapshotVersion) -> String {
        let kind = self.meta_text(META_TYPE).unwrap_or_else(|| "swarm".to_owned());
        match (kind.as_str(), version) {
            ("swarm", _) => "swarm",
            (_, SnapshotVersion::V1_0) => "node_orchestrator",
            _ => "workflow",
        }
        .to_owned()
    }

    fn meta_text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.meta.get(key)?).ok()
    }

    pub(super) fn facts(&self, stored: &str) -> Result<AgentFacts> {
        let state = texts(self.source, self.context, &agent_section(stored, STATE)?)?;
        let section = self.context.section(self.source, &agent_section(stored, SYSTEM_PROMPT)?)?;
        let prompt = match section {
            Some(Section { shape: Shape::Blob, id }) => {
                let bytes = self.source.read_as(Kind::Blob, &id)?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            _ => None,
        };
        Ok(AgentFacts { state, prompt })
    }

    pub(super) fn digests(&self, stored: &str, part: &str) -> Result<BTreeMap<String, String>> {
        texts(self.source, self.context, &agent_section(stored, part)?)
    }

    /// Gives each message of an agent, as JSON, to `each`.
    pub(super) fn messages(
        &self,
        stored: &str,
        compat: SwarmCompat,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let list = self.context.messages(self.source, stored)?;
        for item in list.iter(self.source, 0..list.len()) {
            let entry = MessageEntry::from_item(&item?)?;
            let bytes = self.source.read_as(Kind::Blob, &entry.blob)?;
            if entry.media == SNAPSHOT.name {
                each(&bytes)?;
            } else if entry.media == EVENTS.name {
                let text = Text::new(&bytes);
                let mut message = Vec::new();
                if let Some(event) = text.as_ref().and_then(LogEvent::of) {
                    event.render(compat, &mut message);
                }
                if !message.is_empty() {
                    each(&message)?;
                }
            } else {
                for message in messages_of(&view(&entry.media, &bytes)) {
                    each(message.to_string().as_bytes())?;
                }
            }
        }
        Ok(())
    }

    fn write(&self, options: &SnapshotOptions, json: &mut Json<'_>) -> Result<()> {
        let version = options.version.unwrap_or_else(|| self.version());
        let is_old = version == SnapshotVersion::V1_0;
        json.open(b'{')?;
        json.text("version", version.name())?;
        json.text("type", &self.kind(version))?;
        let told = self.meta.get(META_MOMENT).filter(|_| !options.edited);
        json.raw("snapshot_at", told.unwrap_or(&quoted(&options.moment)))?;
        let sdk = self.meta.get(META_SDK).filter(|_| version == self.version());
        let own = quoted(if is_old { "2.2.0" } else { SDK_VERSION });
        json.raw("swarm_sdk_version", sdk.unwrap_or(&own))?;
        if !is_old {
            json.raw("metadata", &self.metadata(version)?)?;
        }
        self.write_agents(json, options.compat)?;
        if !is_old {
            self.write_pad(json, version, options)?;
        }
        self.write_tracking(json, "read_tracking", |stored| self.digests(stored, READS))?;
        let memory = self.memory_reads(version)?;
        let has_memory = memory.values().any(|digests| !digests.is_empty());
        let is_told = has_memory || self.meta.contains_key(META_MEMORY);
        if is_old || is_told && version == self.version() {
            self.write_tracking(json, "memory_read_tracking", |stored| {
                Ok(memory.get(stored).cloned().unwrap_or_default())
            })?;
        }
        let is_swarm = self.kind(version) == "swarm";
        let own: &[&str] = match (is_old, is_swarm) {
            (true, true) => &["swarm"],
            (true, false) => &["orchestrator"],
            (false, _) => &["metadata", "plugin_states"],
        };
        if is_old {
            self.write_pad(json, version, options)?;
            json.raw(if is_swarm { "swarm" } else { "orchestrator" }, &self.metadata(version)?)?;
        } else {
            self.write_plugins(json, &memory, version)?;
        }
        let other = self.meta.get(META_OTHER).and_then(|other| serde_json::from_str(other).ok());
        let other: Object<String, Value> = other.unwrap_or_default();
        // What another version does not know may be a part of this one, which has its own.
        for (name, value) in other.into_iter().filter(|(name, _)| !own.contains(&name.as_str())) {
            json.raw(&name, &value.to_string())?;
        }
        json.close(b'}')
    }

    fn metadata(&self, version: SnapshotVersion) -> Result<String> {
        if let Some(told) = self.meta.get(META_METADATA) {
            return Ok(told.clone());
        }
        let mut is_sent = false;
        for (_, stored) in &self.agents {
            is_sent |= !self.context.messages(self.source, stored)?.is_empty();
        }
        let is_swarm = self.kind(version) == "swarm";
        let mut metadata = json!({"id": null, "parent_id": null});
        if let Value::Object(fields) = &mut metadata {
            if version != SnapshotVersion::V1_0 {
                fields.insert("name".to_owned(), "turntree".into());
            }
            if is_swarm || version != SnapshotVersion::V1_0 {
                fields.insert("first_message_sent".to_owned(), (is_swarm && is_sent).into());
            }
        }
        Ok(metadata.to_string())
    }

    fn write_agents(&self, json: &mut Json<'_>, compat: SwarmCompat) -> Result<()> {
        for (name, is_instance) in [("agents", false), ("delegation_instances", true)] {
            json.key(name)?;
            json.open(b'{')?;
            for (name, stored) in &self.agents {
                if name.contains('@') != is_instance {
                    continue;
                }
                json.key(name)?;
                json.open(b'{')?;
                json.key("conversation")?;
                json.open(b'[')?;
                self.messages(stored, compat, &mut |message| json.element(message))?;
                json.close(b']')?;
                let facts = self.facts(stored)?;
                json.raw("context_state", &context_state(&facts))?;
                let prompt = facts.prompt.as_deref().map_or("null".to_owned(), quoted);
                json.raw("system_prompt", &prompt)?;
                json.close(b'}')?;
            }
            json.close(b'}')?;
        }
        Ok(())
    }

    fn write_tracking(
        &self,
        json: &mut Json<'_>,
        name: &str,
        digests: impl Fn(&str) -> Result<BTreeMap<String, String>>,
    ) -> Result<()> {
        json.key(name)?;
        json.open(b'{')?;
        for (name, stored) in &self.agents {
            let digests = digests(stored)?;
            if !digests.is_empty() {
                json.raw(name, &serde_json::to_string(&digests).unwrap_or_default())?;
            }
        }
        json.close(b'}')
    }

    /// Returns the reads of the memory by each agent, by its stored name: as they are kept, or for
    /// an older version as the plugin has them.
    pub(super) fn memory_reads(
        &self,
        version: SnapshotVersion,
    ) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
        let mut all = BTreeMap::new();
        for (name, stored) in &self.agents {
            let mut digests = self.digests(stored, MEMORY_READS)?;
            if digests.is_empty() && version == SnapshotVersion::V1_0 {
                let state = self.plugins.get("memory").and_then(|states| states.get(name));
                let state: Option<Value> = state.and_then(|state| serde_json::from_str(state).ok());
                let entries = state.as_ref().and_then(|state| state.get("read_entries"));
                for (path, digest) in entries.and_then(Value::as_object).into_iter().flatten() {
                    digests.insert(path.clone(), digest.as_str().unwrap_or_default().to_owned());
                }
            }
            all.insert(stored.clone(), digests);
        }
        Ok(all)
    }

    /// Returns the states of plugins, by plugin and agent, for a version.
    pub(super) fn plugin_states(
        &self,
        memory: &BTreeMap<String, BTreeMap<String, String>>,
        version: SnapshotVersion,
    ) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut plugins = self.plugins.clone();
        // Older versions track memory reads themselves; newer ones keep them in the state of a
        // plugin.
        if version != self.version() {
            for (name, stored) in &self.agents {
                let digests = memory.get(stored).filter(|digests| !digests.is_empty());
                if let Some(digests) = digests {
                    let states = plugins.entry("memory".to_owned()).or_default();
                    let state = json!({"read_entries": digests}).to_string();
                    states.entry(name.clone()).or_insert(state);
                }
            }
        }
        plugins
    }

    fn write_plugins(
        &self,
        json: &mut Json<'_>,
        memory: &BTreeMap<String, BTreeMap<String, String>>,
        version: SnapshotVersion,
    ) -> Result<()> {
        json.key("plugin_states")?;
        json.open(b'{')?;
        for (plugin, states) in self.plugin_states(memory, version) {
            json.key(&plugin)?;
            json.open(b'{')?;
            for (agent, state) in states {
                json.raw(&agent, &state)?;
            }
            json.close(b'}')?;
        }
        json.close(b'}')
    }

    /// The entries of the scratchpad, those that other systems wrote in the shape of a document.
    pub(super) fn entries(&self, moment: &str) -> Result<BTreeMap<String, String>> {
        let map = self.context.map(self.source, SCRATCHPAD)?;
        let mut entries = BTreeMap::new();
        for entry in map.iter(self.source) {
            let (path, item) = entry?;
            let bytes = self.source.read_as(Kind::Blob, &item.link.id)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let value: Option<Value> = serde_json::from_str(&text).ok();
            let is_entry = item.meta == JSON_MEDIA
                && value.is_some_and(|value| value.get("content").is_some_and(Value::is_string));
            let entry = match is_entry {
                true => text,
                false => json!({"content": text, "title": null, "updated_at": moment, "size": text.len()}).to_string(),
            };
            entries.insert(String::from_utf8_lossy(&path).into_owned(), entry);
        }
        Ok(entries)
    }

    fn write_pad(
        &self,
        json: &mut Json<'_>,
        version: SnapshotVersion,
        options: &SnapshotOptions,
    ) -> Result<()> {
        let entries = self.entries(&options.moment)?;
        let mode = self.meta_text(META_PAD);
        let is_swarm = self.kind(version) == "swarm";
        json.key("scratchpad")?;
        json.open(b'{')?;
        match mode.as_deref() {
            _ if is_swarm => write_entries(json, &entries)?,
            None if entries.is_empty() => {}
            Some("per-node") => {
                json.raw("shared", "false")?;
                json.key("data")?;
                json.open(b'{')?;
                write_nodes(json, &entries)?;
                json.close(b'}')?;
            }
            _ => {
                json.raw("shared", "true")?;
                json.key("data")?;
                json.open(b'{')?;
                write_entries(json, &entries)?;
                json.close(b'}')?;
            }
        }
        json.close(b'}')
    }
}

fn write_entries(json: &mut Json<'_>, entries: &BTreeMap<String, String>) -> Result<()> {
    entries.iter().try_for_each(|(path, entry)| json.raw(path, entry))
}

fn write_nodes(json: &mut Json<'_>, entries: &BTreeMap<String, String>) -> Result<()> {
    let mut nodes: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for (key, entry) in entries {
        let (node, path) = key.split_once('/').unwrap_or(("", key));
        nodes.entry(decoded(node)).or_default().push((path, entry));
    }
    for (node, entries) in nodes {
        json.key(&node)?;
        json.open(b'{')?;
        for (path, entry) in entries {
            json.raw(path, entry)?;
        }
        json.close(b'}')?;
    }
    Ok(())
}

/// The four values that a document has, and no other.
pub(super) fn context_state(facts: &AgentFacts) -> String {
    let parts = [
        ("warning_thresholds_hit", "[]"),
        ("compression_applied", "null"),
        ("last_todowrite_message_index", "null"),
        ("active_skill_path", "null"),
    ];
    let parts = parts.map(|(key, absent)| {
        let value = facts.state.get(key).map_or(absent, String::as_str);
        format!("\"{key}\":{value}")
    });
    format!("{{{}}}", parts.join(","))
}

/// The entries of a map, as texts.
fn texts(
    source: &dyn ObjectSource,
    context: &Context,
    section: &str,
) -> Result<BTreeMap<String, String>> {
    let map = context.map(source, section)?;
    let mut texts = BTreeMap::new();
    for entry in map.iter(source) {
        let (key, item) = entry?;
        let text =
            String::from_utf8_lossy(&source.read_as(Kind::Blob, &item.link.id)?).into_owned();
        let is_json = item.meta == JSON_MEDIA;
        if is_json && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
            return Err(Error::malformed(item.link.id, "JSON"));
        }
        texts.insert(String::from_utf8_lossy(&key).into_owned(), text);
    }
    Ok(texts)
}

/// Returns the messages of a document for a message of another format: results of tools are
/// separate messages.
fn messages_of(view: &MessageView) -> Vec<Value> {
    let mut messages = Vec::new();
    for result in &view.tool_results {
        messages
            .push(json!({"role": "tool", "content": result.text, "tool_call_id": result.call_id}));
    }
    let role = match view.role {
        Role::System => "system",
        Role::Assistant => "assistant",
        Role::User | Role::Tool | Role::Other => "user",
    };
    let calls = view.tool_calls.iter().map(|call| {
        let arguments: Value = serde_json::from_str(&call.input).unwrap_or(Value::Null);
        let arguments = match arguments {
            Value::Object(_) => arguments,
            _ => json!({"input": call.input}),
        };
        json!({"id": call.id, "name": call.name, "arguments": arguments})
    });
    let calls: Vec<Value> = calls.collect();
    if messages.is_empty() || !view.text.is_empty() || !calls.is_empty() {
        let mut message = json!({"role": role, "content": view.text});
        if let (Value::Object(fields), false) = (&mut message, calls.is_empty()) {
            fields.insert("tool_calls".to_owned(), calls.into());
        }
        messages.push(message);
    }
    messages
}
