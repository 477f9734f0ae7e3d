//! Writes a document into the sections of a context, each of which it replaces.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use turntree::context::sections::{MAIN_MESSAGES, META};
use turntree::context::{Builder, MessageEntry, Shape};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectSink};
use turntree::tree::MAX_KEY_BYTES;

use super::super::json_parts::{Checker, JsonPart, JsonParts};
use super::super::json_writer::json_item;
use super::messages::OllmMessage;
use super::{META_ORDER, META_OTHER};

/// Writes the content of a document.
pub(super) struct Sections<'a> {
    pub(super) sink: &'a mut dyn ObjectSink,
    pub(super) builder: &'a mut Builder,
    pub(super) bytes: &'a Bytes,
}

impl Sections<'_> {
    /// The exact bytes of a value.
    pub(super) fn raw(&self, part: &JsonPart<'_>) -> Bytes {
        self.bytes.slice(part.range.clone())
    }

    /// The conversation.
    pub(super) fn messages(&mut self, messages: &[OllmMessage<'_>], media: &str) -> Result<()> {
        if messages.is_empty() {
            return self.builder.set_empty(self.sink, MAIN_MESSAGES, Shape::List);
        }
        let mut items = Vec::with_capacity(messages.len());
        for message in messages {
            let bytes = match &message.joined {
                Some(joined) => joined.clone(),
                None => self.raw(&message.part),
            };
            let blob = self.sink.write(Kind::Blob, bytes)?;
            items.push(MessageEntry::new(blob, message.role, media).to_item()?);
        }
        self.builder.set_list(self.sink, MAIN_MESSAGES, items)
    }

    /// Makes `section` the fields of an object, and remembers their order.
    pub(super) fn fields(&mut self, section: &str, fields: &JsonParts<'_>) -> Result<()> {
        self.builder.set_empty(self.sink, section, Shape::Map)?;
        let (mut order, mut seen) = (Vec::with_capacity(fields.len()), HashSet::new());
        for (key, part) in fields {
            // For duplicate names the last value wins, at the position of the first.
            if seen.insert(key) {
                order.push(key);
            }
            self.entry(section, key, self.raw(part))?;
        }
        let order = serde_json::to_vec(&order)
            .map_err(|source| Error::invalid("names as JSON").with_source(source))?;
        self.entry(META, &format!("{META_ORDER}{section}"), order.into())
    }

    /// Makes `section` a list of values.
    pub(super) fn list(&mut self, section: &str, parts: &[JsonPart<'_>]) -> Result<()> {
        self.builder.set_empty(self.sink, section, Shape::List)?;
        for part in parts {
            let json = self.raw(part);
            let item = json_item(self.sink, json)?;
            self.builder.push(self.sink, section, item)?;
        }
        Ok(())
    }

    /// Sets `section` to a value, or drops it.
    pub(super) fn value(
        &mut self,
        checker: &Checker<'_>,
        section: &str,
        part: Option<&JsonPart<'_>>,
    ) -> Result<()> {
        self.builder.set(self.sink, META, &format!("{META_ORDER}{section}"), None)?;
        let Some(part) = part else { return self.builder.clear(self.sink, section) };
        match part.json.get().as_bytes().first() {
            Some(b'{') => self.fields(section, &keyed(checker, section, part)?),
            Some(b'[') => self.list(section, &checker.elements(section, part)?),
            _ => {
                let blob = self.sink.write(Kind::Blob, self.raw(part))?;
                self.builder.set_blob(self.sink, section, blob)
            }
        }
    }

    /// An entry that is JSON.
    pub(super) fn entry(&mut self, section: &str, key: &str, json: Bytes) -> Result<()> {
        let item = json_item(self.sink, json)?;
        self.builder.set(self.sink, section, key, Some(item))
    }

    /// Sets a fact in `meta`, or removes it if there is none.
    pub(super) fn meta(&mut self, key: &str, part: Option<&JsonPart<'_>>) -> Result<()> {
        match part {
            Some(part) => self.entry(META, key, self.raw(part)),
            None => self.builder.set(self.sink, META, key, None),
        }
    }

    /// Stores unknown fields, as one object.
    pub(super) fn other(&mut self, fields: &JsonParts<'_>) -> Result<()> {
        if fields.is_empty() {
            return self.builder.set(self.sink, META, META_OTHER, None);
        }
        let fields: Vec<(String, String)> = fields
            .iter()
            .map(|(name, part)| {
                (name.clone(), String::from_utf8_lossy(&self.raw(part)).into_owned())
            })
            .collect();
        self.entry(META, META_OTHER, super::stored::object(&fields).into())
    }

    /// Values as the facts of a commit.
    pub(super) fn facts(
        &self,
        facts: &[(&str, Option<&JsonPart<'_>>)],
    ) -> BTreeMap<String, String> {
        let told = facts.iter().filter_map(|(name, part)| Some((name, (*part)?)));
        let text = |part: &JsonPart<'_>| String::from_utf8_lossy(&self.raw(part)).into_owned();
        told.map(|(name, part)| ((*name).to_owned(), text(part))).collect()
    }
}

/// The fields of an object whose names can be keys of a map.
pub(super) fn keyed<'a>(
    checker: &Checker<'a>,
    place: &str,
    part: &JsonPart<'a>,
) -> Result<JsonParts<'a>> {
    let fields = checker.fields(place, part)?;
    for (key, value) in &fields {
        if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
            let found = key.len();
            let message =
                format!("{place}: a key has {found} bytes: expected 1 to {MAX_KEY_BYTES}");
            return Err(Error::invalid(message));
        }
        checker.check_key(key, value, place)?;
    }
    Ok(fields)
}
