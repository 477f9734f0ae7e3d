//! A document becomes the sections of a context, each of which it replaces.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use turntree::context::sections::{
    DYNAMIC_MESSAGES, MEMORY, MESSAGES, META, STATE, SYSTEM_MESSAGES,
};
use turntree::context::{Builder, MAIN_AGENT, MessageEntry, Shape, agent_section};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectSink};

use super::super::json_parts::{JsonPart, JsonParts, import_notes, text_of};
use super::super::json_writer::json_item;
use super::document::{ChefSnapshot, DocumentMessage, PartReader};
use super::{
    ANNOUNCEMENTS, CREATED, DYNAMIC_XML, GUARDRAIL, HANDOFF, JANITOR, LABEL, MEMORY_ORDER,
    MEMORY_TURN, META_ERA, META_MODULES, META_OTHER, NAME, PLACEMENT, PRUNER, SKILL_NAME,
    SKILL_TEXT,
};
use crate::model::format::DocumentFacts;
use crate::model::words::first_line;
use crate::text::json;

const DEFAULT_TITLE: &str = "ContextChef snapshot";

/// Reads `bytes` and sets the sections of `builder` to their content.
///
/// # Errors
/// `InvalidInput`, naming the place.
pub(super) fn apply_document(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    bytes: &Bytes,
) -> Result<DocumentFacts> {
    let text = text_of(bytes)?;
    let snapshot = PartReader::new(&text, bytes).snapshot()?;
    let mut writer = SectionWriter { sink, builder, bytes };
    writer.messages(MESSAGES, &snapshot.history)?;
    writer.messages(SYSTEM_MESSAGES, &snapshot.system)?;
    writer.messages(DYNAMIC_MESSAGES, &snapshot.dynamic)?;
    writer.state(&snapshot)?;
    writer.memory(&snapshot)?;
    writer.meta(&snapshot)?;
    Ok(told(&snapshot, bytes))
}

/// Returns the facts of the document besides its sections.
fn told(snapshot: &ChefSnapshot<'_>, bytes: &Bytes) -> DocumentFacts {
    let mut metadata = BTreeMap::new();
    for (name, part) in [(LABEL, &snapshot.label), (CREATED, &snapshot.created)] {
        if let Some(part) = part {
            let written = bytes.get(part.range.clone()).unwrap_or_default();
            metadata.insert(name.to_owned(), String::from_utf8_lossy(written).into_owned());
        }
    }
    let label = snapshot.label.as_ref().and_then(|part| serde_json::from_str(part.json.get()).ok());
    let label: String = label.map(|label: String| first_line(&label)).unwrap_or_default();
    let created = snapshot.created.as_ref();
    let created = created.and_then(|part| serde_json::from_str(part.json.get()).ok());
    let mut records: Vec<Range<usize>> = [&snapshot.system, &snapshot.history, &snapshot.dynamic]
        .into_iter()
        .flatten()
        .map(|message| message.part.range.clone())
        .collect();
    records.sort_by_key(|range| range.start);
    DocumentFacts {
        messages: snapshot.history.len() as u64,
        time: created.and_then(|created| json::time(&created)),
        title: if label.is_empty() { DEFAULT_TITLE.to_owned() } else { label },
        metadata,
        records,
        notes: import_notes(&snapshot.notes, bytes),
        ..DocumentFacts::default()
    }
}

/// An array of names, as JSON.
fn names(names: &[&str]) -> Result<Bytes> {
    let json = serde_json::to_vec(names);
    Ok(json.map_err(|source| Error::invalid("names as JSON").with_source(source))?.into())
}

struct SectionWriter<'a> {
    sink: &'a mut dyn ObjectSink,
    builder: &'a mut Builder,
    bytes: &'a Bytes,
}

impl SectionWriter<'_> {
    /// The exact bytes of a value.
    fn raw(&self, part: &JsonPart<'_>) -> Bytes {
        self.bytes.slice(part.range.clone())
    }

    fn messages(&mut self, section: &str, messages: &[DocumentMessage<'_>]) -> Result<()> {
        let section = agent_section(MAIN_AGENT, section)?;
        if messages.is_empty() {
            return self.builder.set_empty(self.sink, &section, Shape::List);
        }
        let mut items = Vec::with_capacity(messages.len());
        for message in messages {
            let blob = self.sink.write(Kind::Blob, self.raw(&message.part))?;
            items.push(MessageEntry::new(blob, message.role, NAME).to_item()?);
        }
        self.builder.set_list(self.sink, &section, items)
    }

    fn state(&mut self, snapshot: &ChefSnapshot<'_>) -> Result<()> {
        let section = agent_section(MAIN_AGENT, STATE)?;
        self.builder.set_empty(self.sink, &section, Shape::Map)?;
        for (key, part) in [
            (PLACEMENT, &snapshot.placement),
            (DYNAMIC_XML, &snapshot.dynamic_xml),
            (JANITOR, &snapshot.janitor),
            (PRUNER, &snapshot.pruner),
            (SKILL_NAME, &snapshot.skill_name),
            (SKILL_TEXT, &snapshot.skill_text),
            (GUARDRAIL, &snapshot.guardrail),
            (HANDOFF, &snapshot.handoff),
        ] {
            if let Some(part) = part {
                self.entry(&section, key, self.raw(part))?;
            }
        }
        if let Some(announcements) = &snapshot.announcements {
            let ids: Vec<&str> = announcements.iter().map(|(id, _)| id.as_str()).collect();
            self.entry(&section, ANNOUNCEMENTS, names(&ids)?)?;
            for (id, part) in announcements {
                self.entry(&section, &format!("{ANNOUNCEMENTS}/{id}"), self.raw(part))?;
            }
        }
        let Some(memory) = &snapshot.memory else { return Ok(()) };
        let turn = memory.turn.as_ref().map_or(Bytes::from_static(b"0"), |part| self.raw(part));
        self.entry(&section, MEMORY_TURN, turn)?;
        let keys: Vec<&str> = memory.entries.iter().map(|(key, _)| key.as_str()).collect();
        self.entry(&section, MEMORY_ORDER, names(&keys)?)
    }

    fn memory(&mut self, snapshot: &ChefSnapshot<'_>) -> Result<()> {
        let Some(memory) = &snapshot.memory else {
            return self.builder.clear(self.sink, MEMORY);
        };
        self.builder.set_empty(self.sink, MEMORY, Shape::Map)?;
        let created = snapshot.created.as_ref().map_or("0", |part| part.json.get());
        for (key, part) in &memory.entries {
            let raw = self.raw(part);
            let entry = match part.json.get().starts_with('"') {
                true => super::memory::entry_of(&String::from_utf8_lossy(&raw), created).into(),
                false => raw,
            };
            self.entry(MEMORY, key, entry)?;
        }
        Ok(())
    }

    fn meta(&mut self, snapshot: &ChefSnapshot<'_>) -> Result<()> {
        let era = Bytes::from_static(snapshot.era.name().as_bytes());
        self.builder.set_entry(self.sink, META, META_ERA, Some(era))?;
        let others = [(META_OTHER, &snapshot.other), (META_MODULES, &snapshot.other_modules)];
        for (key, parts) in others {
            if parts.is_empty() {
                self.builder.set(self.sink, META, key, None)?;
            } else {
                let object = self.object(parts)?;
                self.entry(META, key, object)?;
            }
        }
        Ok(())
    }

    /// An object of these fields, each as it was written.
    fn object(&self, parts: &JsonParts<'_>) -> Result<Bytes> {
        let mut object = Vec::from(b"{");
        for (index, (name, part)) in parts.iter().enumerate() {
            if index > 0 {
                object.push(b',');
            }
            serde_json::to_writer(&mut object, name)
                .map_err(|source| Error::invalid("a name as JSON").with_source(source))?;
            object.push(b':');
            object.extend_from_slice(&self.raw(part));
        }
        object.push(b'}');
        Ok(object.into())
    }

    fn entry(&mut self, section: &str, key: &str, json: Bytes) -> Result<()> {
        let item = json_item(self.sink, json)?;
        self.builder.set(self.sink, section, key, Some(item))
    }
}
