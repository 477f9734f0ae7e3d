//! A snapshot document becomes the sections of a context.

use bytes::Bytes;
use serde_json::value::RawValue;
use turntree::context::sections::{
    MEMORY_READS, MESSAGES, META, PLUGIN_STATES, READS, SCRATCHPAD, STATE, SYSTEM_PROMPT,
    agent_part,
};
use turntree::context::{Builder, Context, MessageEntry, Role, Shape, agent_section};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectSink};
use turntree::tree::MAX_KEY_BYTES;

use super::super::json_writer::{json_item, quoted};
use super::document::{Agent, NamedValues, Note, Pad, SwarmSnapshot, plain, text_of};
use super::{
    META_MEMORY, META_METADATA, META_MOMENT, META_OTHER, META_PAD, META_SDK, META_TYPE,
    META_VERSION, coded, stored_name,
};
use crate::model::format::DocumentFacts;
use crate::model::report::{ImportNote, MAX_NOTES};
use crate::model::words::first_line;
use crate::text::json::{self, Text, iso_time};

/// The parts of an agent that a document has completely.
const PARTS: [&str; 5] = [MESSAGES, STATE, SYSTEM_PROMPT, READS, MEMORY_READS];

/// Replaces every section that a snapshot covers with the content of `document`.
pub(super) fn apply_document(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    document: &Bytes,
) -> Result<DocumentFacts> {
    let text = text_in(document)?;
    let root = root_of(&text)?;
    let snapshot = SwarmSnapshot::of(root)?;
    let mut apply = Apply { sink, builder, document, text: &text, read: DocumentFacts::default() };
    apply.snapshot(&snapshot)?;
    let mut read = apply.read;
    read.records.sort_by_key(|range| range.start);
    read.notes =
        snapshot.notes.iter().take(MAX_NOTES).map(|note| located(note, &text, document)).collect();
    read.time = snapshot.moment.and_then(text_of).and_then(|moment| iso_time(&moment));
    read.title = title(&snapshot);
    Ok(read)
}

/// A document as text, which must not be nested too deep.
pub(super) fn text_in(document: &[u8]) -> Result<Text<'_>> {
    let text = Text::new(document).ok_or_else(|| Error::invalid("expected UTF-8"))?;
    if json::is_too_deep(document) {
        return Err(Error::limit(
            "levels of arrays and objects",
            json::MAX_DEPTH as u64,
            json::MAX_DEPTH as u64 + 1,
        ));
    }
    Ok(text)
}

/// The one value of a document.
pub(super) fn root_of<'t>(text: &'t Text<'_>) -> Result<&'t RawValue> {
    text.parse().map_err(|source| {
        let place = format!("line {}, column {}", source.line(), source.column());
        let what = format!("{place}: snapshot must be a Snapshot object, Hash, or JSON string");
        json::refused(Error::invalid(what), source)
    })
}

fn located(note: &Note<'_>, text: &Text<'_>, document: &[u8]) -> ImportNote {
    let start = note.at.and_then(|at| text.range_of(at)).map_or(0, |range| range.start);
    let before = document.get(..start).unwrap_or_default();
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count() as u64;
    ImportNote { line, offset: start as u64, what: note.what.clone() }
}

/// Returns the newest prompt of the first agent, otherwise the name of the swarm.
fn title(snapshot: &SwarmSnapshot<'_>) -> String {
    let agent = snapshot.agents.first().or_else(|| snapshot.instances.first());
    let prompts = agent.into_iter().flat_map(|agent| agent.messages.iter().rev());
    let said = prompts
        .filter(|message| message.role == "user")
        .filter_map(|message| json::value(message.json.get().as_bytes()))
        .map(|message| super::view_message(&message).text)
        .next();
    first_line(&said.unwrap_or_else(|| format!("snapshot of a {}", snapshot.kind)))
}

/// Applies a document to a context.
struct Apply<'a, 's> {
    sink: &'a mut dyn ObjectSink,
    builder: &'a mut Builder,
    document: &'a Bytes,
    text: &'a Text<'s>,
    read: DocumentFacts,
}

impl Apply<'_, '_> {
    fn snapshot(&mut self, snapshot: &SwarmSnapshot<'_>) -> Result<()> {
        self.drop_agents(snapshot)?;
        for agent in snapshot.agents.iter().chain(&snapshot.instances) {
            self.agent(agent)?;
        }
        for (part, tracked) in [(READS, &snapshot.reads), (MEMORY_READS, &snapshot.memory_reads)] {
            for (agent, digests) in tracked {
                self.digests(agent, part, digests)?;
            }
        }
        self.pad(&snapshot.pad)?;
        self.builder.clear(self.sink, PLUGIN_STATES)?;
        for (plugin, states) in &snapshot.plugins {
            for (agent, state) in states {
                let key = format!("{}/{}", coded(plugin), coded(agent));
                self.json(PLUGIN_STATES, &key, Some(state.get()))?;
            }
        }
        self.meta(snapshot)
    }

    /// Removes agents that a snapshot does not have: a snapshot is complete.
    fn drop_agents(&mut self, snapshot: &SwarmSnapshot<'_>) -> Result<()> {
        let tree = self.builder.write(self.sink)?;
        let before = Context::open(self.sink, &tree)?;
        let agents = || snapshot.agents.iter().chain(&snapshot.instances);
        for stored in before.agents(self.sink)? {
            let stays = agents().any(|agent| stored_name(&agent.name).as_ref() == Some(&stored));
            for section in before.sections(self.sink)?.into_keys() {
                let part = agent_part(&section).filter(|(agent, _)| *agent == stored);
                // A conversation that stays is compared with its previous state, so it costs its
                // growth.
                if part.is_some_and(|(_, part)| !stays || PARTS.contains(&part) && part != MESSAGES)
                {
                    self.builder.clear(self.sink, &section)?;
                }
            }
        }
        Ok(())
    }

    fn agent(&mut self, agent: &Agent<'_>) -> Result<()> {
        let name = stored_name(&agent.name).unwrap_or_default();
        let mut items = Vec::with_capacity(agent.messages.len());
        for message in &agent.messages {
            let range = self.text.range_of(message.json).unwrap_or_default();
            let blob = self.sink.write(Kind::Blob, self.document.slice(range.clone()))?;
            let role = Role::from_name(&message.role);
            items.push(MessageEntry::new(blob, role, super::SNAPSHOT.name).to_item()?);
            self.read.records.push(range);
        }
        self.read.messages += items.len() as u64;
        let messages = agent_section(&name, MESSAGES)?;
        if items.is_empty() {
            self.builder.set_empty(self.sink, &messages, Shape::List)?;
        } else {
            self.builder.set_list(self.sink, &messages, items)?;
        }
        let state = agent_section(&name, STATE)?;
        self.builder.set_empty(self.sink, &state, Shape::Map)?;
        for (key, value) in &agent.state {
            self.json(&state, key, Some(value.get()))?;
        }
        if let Some(prompt) = &agent.prompt {
            let blob = self.sink.write(Kind::Blob, Bytes::copy_from_slice(prompt.as_bytes()))?;
            self.builder.set_blob(self.sink, &agent_section(&name, SYSTEM_PROMPT)?, blob)?;
        }
        Ok(())
    }

    fn digests(&mut self, agent: &str, part: &str, digests: &NamedValues<'_>) -> Result<()> {
        let name = stored_name(agent)
            .ok_or_else(|| Error::invalid(format!("{part} of '{}': no name", plain(agent))))?;
        let section = agent_section(&name, part)?;
        if !digests.is_empty() {
            self.builder.set_empty(self.sink, &section, Shape::Map)?;
        }
        for (path, digest) in digests {
            let digest = Bytes::from(text_of(digest).unwrap_or_default());
            self.builder.set_entry(self.sink, &section, path, Some(digest))?;
        }
        Ok(())
    }

    fn pad(&mut self, pad: &Pad<'_>) -> Result<()> {
        self.builder.set_empty(self.sink, SCRATCHPAD, Shape::Map)?;
        let (mode, entries): (_, Vec<(String, &RawValue)>) = match pad {
            Pad::Flat(entries) => (None, entries.clone()),
            Pad::Shared(entries) => (Some("shared"), entries.clone()),
            Pad::PerNode(nodes) => {
                let all = nodes.iter().flat_map(|(node, entries)| {
                    let node = coded(node);
                    entries.iter().map(move |(path, entry)| (format!("{node}/{path}"), *entry))
                });
                (Some("per-node"), all.collect())
            }
        };
        for (path, entry) in entries {
            self.json(SCRATCHPAD, &path, Some(entry.get()))?;
        }
        let mode = mode.map(quoted);
        self.json(META, META_PAD, mode.as_deref())
    }

    fn meta(&mut self, snapshot: &SwarmSnapshot<'_>) -> Result<()> {
        let (version, kind) = (quoted(snapshot.version.name()), quoted(&snapshot.kind));
        let other =
            snapshot.other.iter().map(|(name, value)| format!("{}:{}", quoted(name), value.get()));
        let other: Vec<_> = other.collect();
        let other = (!other.is_empty()).then(|| format!("{{{}}}", other.join(",")));
        for (key, value) in [
            (META_VERSION, Some(version.as_str())),
            (META_TYPE, Some(kind.as_str())),
            (META_MOMENT, snapshot.moment.map(RawValue::get)),
            (META_SDK, snapshot.sdk.map(RawValue::get)),
            (META_METADATA, snapshot.metadata.map(RawValue::get)),
            (META_OTHER, other.as_deref()),
            (META_MEMORY, snapshot.tells_memory.then_some("true")),
        ] {
            self.json(META, key, value)?;
        }
        Ok(())
    }

    fn json(&mut self, section: &str, key: &str, json: Option<&str>) -> Result<()> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            let length = key.len();
            return Err(Error::invalid(format!(
                "{section}: a name of {length} bytes: expected 1 to {MAX_KEY_BYTES}"
            )));
        }
        let item = match json {
            None => None,
            Some(json) => Some(json_item(self.sink, Bytes::copy_from_slice(json.as_bytes()))?),
        };
        self.builder.set(self.sink, section, key, item)
    }
}
