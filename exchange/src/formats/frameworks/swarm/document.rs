//! A snapshot document, checked: every error names its place, and a fault that upstream tolerates
//! is a note.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use turntree::error::{Error, Result};

use crate::text::json;

/// The shape of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotVersion {
    /// `1.0.0`, of SDK 2.2.0.
    V1_0,
    /// `2.0.0`, which was never released.
    V2_0,
    /// `2.1.0`, of SDK 2.3.0 and later.
    V2_1,
}

impl SnapshotVersion {
    const ALL: [Self; 3] = [Self::V1_0, Self::V2_0, Self::V2_1];

    /// As documents write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0.0",
            Self::V2_0 => "2.0.0",
            Self::V2_1 => "2.1.0",
        }
    }

    /// The version called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name() == name)
    }
}

/// A value with its fields in the order of the document.
pub(super) type NamedValues<'a> = Vec<(String, &'a RawValue)>;

/// The record of an agent or a delegation instance.
#[derive(Debug)]
pub(super) struct Agent<'a> {
    pub(super) name: String,
    pub(super) messages: Vec<Spoken<'a>>,
    /// Values of the context state; those of the four known keys are checked.
    pub(super) state: NamedValues<'a>,
    pub(super) prompt: Option<String>,
}

/// A message and who speaks.
#[derive(Debug)]
pub(super) struct Spoken<'a> {
    pub(super) role: String,
    pub(super) json: &'a RawValue,
}

/// The scratchpad: one for all, or one for each node.
#[derive(Debug)]
pub(super) enum Pad<'a> {
    Flat(NamedValues<'a>),
    Shared(NamedValues<'a>),
    PerNode(Vec<(String, NamedValues<'a>)>),
}

/// A document that can be imported.
#[derive(Debug)]
pub(super) struct SwarmSnapshot<'a> {
    pub(super) version: SnapshotVersion,
    pub(super) kind: String,
    pub(super) moment: Option<&'a RawValue>,
    pub(super) sdk: Option<&'a RawValue>,
    pub(super) metadata: Option<&'a RawValue>,
    pub(super) agents: Vec<Agent<'a>>,
    pub(super) instances: Vec<Agent<'a>>,
    pub(super) pad: Pad<'a>,
    pub(super) reads: Vec<(String, NamedValues<'a>)>,
    pub(super) memory_reads: Vec<(String, NamedValues<'a>)>,
    /// True if there is memory tracking, if empty.
    pub(super) tells_memory: bool,
    pub(super) plugins: Vec<(String, NamedValues<'a>)>,
    pub(super) other: NamedValues<'a>,
    pub(super) notes: Vec<Note<'a>>,
}

/// Something that upstream tolerates.
#[derive(Debug)]
pub(super) struct Note<'a> {
    /// The value that the note is about, if it exists.
    pub(super) at: Option<&'a RawValue>,
    pub(super) what: String,
}

impl<'a> SwarmSnapshot<'a> {
    /// Checks a document, which is JSON.
    pub(super) fn of(document: &'a RawValue) -> Result<Self> {
        let mut reader = SnapshotReader { notes: Vec::new() };
        if kind_of(document) != "an object" {
            let found = kind_of(document);
            return Err(Error::invalid(format!(
                "snapshot must be a Snapshot object, Hash, or JSON string: expected a JSON object, found {found}"
            )));
        }
        let mut fields = reader.object("snapshot", document)?;
        let version = version(take(&mut fields, "version"))?;
        let kind = kind(version, take(&mut fields, "type"))?;
        let agents = take(&mut fields, "agents").ok_or_else(|| {
            Error::invalid("agents: missing: expected an object of agents by their names")
        })?;
        let agents = reader.agents("agents", agents)?;
        let names = ["delegation_instances", "scratchpad", "read_tracking"];
        let [instances, pad, reads] = names.map(|name| {
            let found = take(&mut fields, name);
            if found.is_none() {
                reader.note(None, format!("{name}: missing: taken as empty"));
            }
            found
        });
        let metadata = reader.metadata(version, &mut fields)?;
        let instances = instances.map(|found| reader.agents("delegation_instances", found));
        let pad = pad.map(|found| reader.pad(&kind, found));
        let reads = reads.map(|found| reader.tracking("read_tracking", found));
        let memory_reads = take(&mut fields, "memory_read_tracking")
            .map(|found| reader.tracking("memory_read_tracking", found));
        let plugins = take(&mut fields, "plugin_states").map(|found| reader.plugins(found));
        let snapshot = Self {
            version,
            kind,
            moment: take(&mut fields, "snapshot_at"),
            sdk: take(&mut fields, "swarm_sdk_version"),
            metadata,
            agents,
            instances: instances.transpose()?.unwrap_or_default(),
            pad: pad.transpose()?.unwrap_or_else(|| Pad::Flat(Vec::new())),
            reads: reads.transpose()?.unwrap_or_default(),
            tells_memory: memory_reads.is_some(),
            memory_reads: memory_reads.transpose()?.unwrap_or_default(),
            plugins: plugins.transpose()?.unwrap_or_default(),
            other: fields,
            notes: Vec::new(),
        };
        reader.names(&snapshot);
        Ok(Self { notes: reader.notes, ..snapshot })
    }
}

fn version(found: Option<&RawValue>) -> Result<SnapshotVersion> {
    let text = found.and_then(text_of).unwrap_or_default();
    SnapshotVersion::named(&text).ok_or_else(|| {
        Error::invalid(format!(
            "version: Unsupported snapshot version: {}. Expected: 1.0.0, 2.0.0 or 2.1.0",
            if is_version(&text) { &text } else { "..." }
        ))
    })
}

/// Returns true if a text can be a version. Any other text is untrusted and is not quoted in
/// messages.
fn is_version(text: &str) -> bool {
    text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn kind(version: SnapshotVersion, found: Option<&RawValue>) -> Result<String> {
    let known: [&str; 2] = match version {
        SnapshotVersion::V1_0 => ["swarm", "node_orchestrator"],
        SnapshotVersion::V2_0 | SnapshotVersion::V2_1 => ["swarm", "workflow"],
    };
    let text = found.and_then(text_of).unwrap_or_default();
    if known.contains(&text.as_str()) {
        return Ok(text);
    }
    let (found, [one, other]) = (json::plain(&text), known);
    Err(Error::invalid(format!(
        "type: expected '{one}' or '{other}' in version {}, found '{found}'",
        version.name()
    )))
}

/// The oddities of a document that can still be read.
struct SnapshotReader<'a> {
    notes: Vec<Note<'a>>,
}

impl<'a> SnapshotReader<'a> {
    fn note(&mut self, at: Option<&'a RawValue>, what: String) {
        self.notes.push(Note { at, what });
    }

    /// Returns the fields of an object. For duplicate names the last one wins, as in Ruby.
    fn object(&mut self, place: &str, value: &'a RawValue) -> Result<NamedValues<'a>> {
        let InOrder(all) = parsed(place, "an object", value)?;
        let mut fields: NamedValues<'a> = Vec::with_capacity(all.len());
        let mut seen = std::collections::HashMap::new();
        for (name, value) in all {
            match seen.get(&name).and_then(|at: &usize| fields.get_mut(*at)) {
                Some(earlier) => {
                    let what =
                        format!("{place}: '{}' occurs twice: the last is used", plain(&name));
                    self.note(Some(value), what);
                    earlier.1 = value;
                }
                None => {
                    seen.insert(name.clone(), fields.len());
                    fields.push((name, value));
                }
            }
        }
        Ok(fields)
    }

    fn metadata(
        &mut self,
        version: SnapshotVersion,
        fields: &mut NamedValues<'a>,
    ) -> Result<Option<&'a RawValue>> {
        let names: &[&str] = match version {
            SnapshotVersion::V1_0 => &["swarm", "orchestrator"],
            SnapshotVersion::V2_0 | SnapshotVersion::V2_1 => &["metadata"],
        };
        let found = names.iter().find_map(|name| Some((*name, take(fields, name)?)));
        let Some((name, value)) = found else {
            self.note(None, format!("{}: missing: taken as empty", names.join(" or ")));
            return Ok(None);
        };
        for (key, value) in self.object(name, value)? {
            let place = format!("{name}.{key}");
            match key.as_str() {
                "id" | "parent_id" | "name" => {
                    optional(&place, "a string", value)?;
                }
                "first_message_sent" => expect(&place, "true or false", value)?,
                _ => {}
            }
        }
        Ok(Some(value))
    }

    fn agents(&mut self, place: &str, value: &'a RawValue) -> Result<Vec<Agent<'a>>> {
        let agents = self.object(place, value)?.into_iter();
        agents.map(|(name, value)| self.agent(place, name, value)).collect()
    }

    fn agent(&mut self, place: &str, name: String, value: &'a RawValue) -> Result<Agent<'a>> {
        let place = format!("{place}.{}", plain(&name));
        if super::stored_name(&name).is_none() {
            return Err(Error::invalid(format!("{place}: expected a name of 1 to 200 bytes")));
        }
        let mut fields = self.object(&place, value)?;
        let messages = take(&mut fields, "conversation").ok_or_else(|| {
            Error::invalid(format!("{place}.conversation: missing: expected an array of messages"))
        })?;
        let messages = self.messages(&format!("{place}.conversation"), messages)?;
        let state = match take(&mut fields, "context_state") {
            Some(state) => self.state(&format!("{place}.context_state"), state, messages.len())?,
            None => {
                self.note(Some(value), format!("{place}.context_state: missing: taken as empty"));
                Vec::new()
            }
        };
        let prompt = take(&mut fields, "system_prompt");
        let prompt =
            prompt.map(|found| optional(&format!("{place}.system_prompt"), "a string", found));
        for (key, value) in fields {
            self.note(
                Some(value),
                format!("{place}.{}: not known: kept only in the source", plain(&key)),
            );
        }
        let prompt = prompt.transpose()?.flatten().and_then(text_of);
        Ok(Agent { name, messages, state, prompt })
    }

    fn state(
        &mut self,
        place: &str,
        value: &'a RawValue,
        messages: usize,
    ) -> Result<NamedValues<'a>> {
        let fields = self.object(place, value)?;
        for (key, value) in &fields {
            let place = format!("{place}.{}", plain(key));
            match key.as_str() {
                "warning_thresholds_hit" => {
                    let _: Vec<i64> = parsed(&place, "an array of integers", value)?;
                }
                "compression_applied" => {
                    let _: Option<bool> = parsed(&place, "true, false or null", value)?;
                }
                "last_todowrite_message_index" => {
                    let index: Option<i64> = parsed(&place, "an integer or null", value)?;
                    let inside = |index| usize::try_from(index).is_ok_and(|index| index < messages);
                    if !index.is_none_or(inside) {
                        self.note(Some(value), format!("{place}: there is no such message"));
                    }
                }
                "active_skill_path" => {
                    optional(&place, "a string", value)?;
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    fn messages(&mut self, place: &str, value: &'a RawValue) -> Result<Vec<Spoken<'a>>> {
        let messages: Vec<&'a RawValue> = parsed(place, "an array of messages", value)?;
        let mut called = std::collections::HashSet::new();
        let mut spoken = Vec::with_capacity(messages.len());
        for (index, json) in messages.into_iter().enumerate() {
            let place = format!("{place}[{index}]");
            let mut fields = self.object(&place, json)?;
            let role = take(&mut fields, "role").and_then(text_of).unwrap_or_default();
            if !["system", "user", "assistant", "tool"].contains(&role.as_str()) {
                return Err(Error::invalid(format!(
                    "{place}.role: expected system, user, assistant or tool, found '{}'",
                    json::plain(&role)
                )));
            }
            if let Some(calls) = take(&mut fields, "tool_calls") {
                self.calls(&format!("{place}.tool_calls"), calls, &mut called)?;
            }
            let answered = take(&mut fields, "tool_call_id").and_then(text_of);
            if answered.is_some_and(|id| !called.contains(&id)) {
                let what = format!("{place}.tool_call_id: no message before has this call");
                self.note(Some(json), what);
            }
            spoken.push(Spoken { role, json });
        }
        Ok(spoken)
    }

    fn calls(
        &mut self,
        place: &str,
        value: &'a RawValue,
        called: &mut std::collections::HashSet<String>,
    ) -> Result<()> {
        let calls: Option<Vec<&'a RawValue>> = parsed(place, "an array of calls", value)?;
        for (index, call) in calls.unwrap_or_default().into_iter().enumerate() {
            let place = format!("{place}[{index}]");
            let mut fields = self.object(&place, call)?;
            let id = take(&mut fields, "id")
                .and_then(text_of)
                .ok_or_else(|| Error::invalid(format!("{place}.id: expected a string")))?;
            if !called.insert(id) {
                self.note(Some(call), format!("{place}.id: another call has it too"));
            }
            if take(&mut fields, "name").and_then(text_of).is_none() {
                return Err(Error::invalid(format!("{place}.name: expected a string")));
            }
            if let Some(arguments) = take(&mut fields, "arguments")
                && kind_of(arguments) != "an object"
            {
                self.note(Some(arguments), format!("{place}.arguments: expected an object"));
            }
        }
        Ok(())
    }

    fn pad(&mut self, kind: &str, value: &'a RawValue) -> Result<Pad<'a>> {
        let place = "scratchpad";
        if kind == "swarm" {
            return Ok(Pad::Flat(self.entries(place, value)?));
        }
        let mut fields = self.object(place, value)?;
        if fields.is_empty() {
            return Ok(Pad::Flat(Vec::new()));
        }
        let shared = take(&mut fields, "shared");
        let shared = shared.ok_or_else(|| {
            Error::invalid("scratchpad.shared: missing: expected true or false in a workflow")
        })?;
        let is_shared: bool = parsed("scratchpad.shared", "true or false", shared)?;
        let data = take(&mut fields, "data")
            .ok_or_else(|| Error::invalid("scratchpad.data: missing: expected an object"))?;
        if is_shared {
            return Ok(Pad::Shared(self.entries("scratchpad.data", data)?));
        }
        let nodes = self.object("scratchpad.data", data)?.into_iter();
        let nodes = nodes.map(|(node, pad)| {
            let entries = self.entries(&format!("scratchpad.data.{}", plain(&node)), pad)?;
            Ok((node, entries))
        });
        Ok(Pad::PerNode(nodes.collect::<Result<_>>()?))
    }

    fn entries(&mut self, place: &str, value: &'a RawValue) -> Result<NamedValues<'a>> {
        let entries = self.object(place, value)?;
        for (path, entry) in &entries {
            let place = format!("{place}.{}", plain(path));
            let mut fields = self.object(&place, entry)?;
            let content = take(&mut fields, "content").and_then(text_of);
            let content = content
                .ok_or_else(|| Error::invalid(format!("{place}.content: expected a string")))?;
            let size = take(&mut fields, "size").map(RawValue::get);
            if size.is_some_and(|size| size != content.len().to_string()) {
                let what = format!("{place}.size: not the size of the content, which is used");
                self.note(Some(entry), what);
            }
        }
        Ok(entries)
    }

    fn tracking(
        &mut self,
        place: &str,
        value: &'a RawValue,
    ) -> Result<Vec<(String, NamedValues<'a>)>> {
        let mut tracked = Vec::new();
        for (agent, value) in self.object(place, value)? {
            let place = format!("{place}.{}", plain(&agent));
            let digests = self.object(&place, value)?;
            for (_, digest) in &digests {
                let digest_text = text_of(digest).ok_or_else(|| {
                    Error::invalid(format!(
                        "{place}: expected a digest for each path, found {}",
                        kind_of(digest)
                    ))
                })?;
                let is_digest = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                if digest_text.len() != 64 || !digest_text.bytes().all(is_digest) {
                    self.note(Some(digest), format!("{place}: a digest that is not 64 hex digits"));
                }
            }
            tracked.push((agent, digests));
        }
        Ok(tracked)
    }

    fn plugins(&mut self, value: &'a RawValue) -> Result<Vec<(String, NamedValues<'a>)>> {
        let plugins = self.object("plugin_states", value)?.into_iter();
        plugins
            .map(|(plugin, value)| {
                let place = format!("plugin_states.{}", plain(&plugin));
                Ok((plugin, self.object(&place, value)?))
            })
            .collect()
    }

    /// Names that do not fit together.
    fn names(&mut self, snapshot: &SwarmSnapshot<'a>) {
        for agent in &snapshot.agents {
            if agent.name.contains('@') {
                let name = plain(&agent.name);
                self.note(None, format!("agents.{name}: named as a delegation instance"));
            }
        }
        for instance in &snapshot.instances {
            if !instance.name.contains('@') {
                let name = plain(&instance.name);
                self.note(None, format!("delegation_instances.{name}: names no delegator"));
            }
        }
    }
}

/// Takes the field `name` out.
fn take<'a>(fields: &mut NamedValues<'a>, name: &str) -> Option<&'a RawValue> {
    let at = fields.iter().position(|(field, _)| field == name)?;
    Some(fields.remove(at).1)
}

fn parsed<'a, T: Deserialize<'a>>(place: &str, expected: &str, value: &'a RawValue) -> Result<T> {
    serde_json::from_str(value.get()).map_err(|_| {
        Error::invalid(format!("{place}: expected {expected}, found {}", kind_of(value)))
    })
}

fn expect(place: &str, expected: &str, value: &RawValue) -> Result<()> {
    if kind_of(value) == expected {
        return Ok(());
    }
    Err(Error::invalid(format!("{place}: expected {expected}, found {}", kind_of(value))))
}

/// The value unless it is null.
fn optional<'a>(place: &str, expected: &str, value: &'a RawValue) -> Result<Option<&'a RawValue>> {
    if value.get() == "null" {
        return Ok(None);
    }
    expect(place, expected, value).map(|()| Some(value))
}

/// Names the kind of a value, for messages.
pub(super) fn kind_of(value: &RawValue) -> &'static str {
    match value.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// The text of a string.
pub(super) fn text_of(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A name for messages: names are not content, but they may be long or hold anything.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// The fields of an object in their order, including duplicates.
struct InOrder<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for InOrder<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(All).map(Self)
    }
}
