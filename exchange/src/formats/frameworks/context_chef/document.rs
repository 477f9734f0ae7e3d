//! A snapshot document, checked: every error names its place, and what upstream tolerates is a note.
//!
//! ```text
//! 2026-02   topLayer      rollingHistory  dynamicState  rawDynamicXml    _janitor, _memoryStore or _memory
//! 2026-03   the same                                                     modules {janitor, memory, pruner}
//! 2.x       systemPrompt  history         dynamicState  dynamicStateXml  modules
//! 3.x       + activeSkillName, skillInstructions        4.x  + guardrailOptions and more of the janitor
//! 4.2       + announcements, handoffNoticedWindow
//! ```

use std::collections::HashMap;

use bytes::Bytes;
use serde::Deserialize;
use turntree::context::Role;
use turntree::error::{Error, Result};

use super::super::json_parts::{
    Checker, Fields, JsonPart, JsonParts, Kind, expect, expect_or_null, missing, take, text,
};
use super::{ANNOUNCEMENTS, HANDOFF, PLACEMENT};
use crate::text::json::{self, Text};

/// Most bytes of the id of an announcement, which becomes a part of a key.
const MAX_ID_BYTES: usize = 256;

/// When the library wrote documents of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// February 2026: the first names, with the fields of the janitor at the top level.
    First,
    /// From 2026-03-10: the first names, and modules.
    Modules,
    /// 2.x: the names of today.
    Two,
    /// 3.x: with a skill, or tools that are blocked.
    Three,
    /// 4.x.
    Four,
}

impl Era {
    /// The name in `meta`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "1.x",
            Self::Modules => "1.x with modules",
            Self::Two => "2.x",
            Self::Three => "3.x",
            Self::Four => "4.x",
        }
    }
}

/// A message and who speaks.
#[derive(Debug, Clone)]
pub(super) struct DocumentMessage<'a> {
    pub(super) role: Role,
    pub(super) part: JsonPart<'a>,
}

/// The core memory of a document.
#[derive(Debug)]
pub(super) struct MemoryPart<'a> {
    pub(super) entries: JsonParts<'a>,
    pub(super) turn: Option<JsonPart<'a>>,
}

/// A document that can be imported.
#[derive(Debug)]
pub(super) struct ChefSnapshot<'a> {
    pub(super) era: Era,
    pub(super) system: Vec<DocumentMessage<'a>>,
    pub(super) history: Vec<DocumentMessage<'a>>,
    pub(super) dynamic: Vec<DocumentMessage<'a>>,
    pub(super) placement: Option<JsonPart<'a>>,
    pub(super) dynamic_xml: Option<JsonPart<'a>>,
    pub(super) janitor: Option<JsonPart<'a>>,
    pub(super) memory: Option<MemoryPart<'a>>,
    pub(super) pruner: Option<JsonPart<'a>>,
    pub(super) skill_name: Option<JsonPart<'a>>,
    pub(super) skill_text: Option<JsonPart<'a>>,
    pub(super) guardrail: Option<JsonPart<'a>>,
    /// Announcements by their ids, in order.
    pub(super) announcements: Option<JsonParts<'a>>,
    pub(super) handoff: Option<JsonPart<'a>>,
    pub(super) label: Option<JsonPart<'a>>,
    pub(super) created: Option<JsonPart<'a>>,
    /// Fields that the shape does not know, at the top and among the modules.
    pub(super) other: JsonParts<'a>,
    pub(super) other_modules: JsonParts<'a>,
    /// Tolerated oddities, with their places.
    pub(super) notes: Vec<(usize, String)>,
}

/// Reads a document.
pub(super) struct PartReader<'a> {
    doc: Checker<'a>,
}

impl<'a> PartReader<'a> {
    /// Creates a checker of `bytes`, whose text is `text`.
    pub(super) fn new(text: &'a Text<'a>, bytes: &'a Bytes) -> Self {
        Self { doc: Checker::new(text, bytes) }
    }

    /// The document.
    ///
    /// # Errors
    /// `InvalidInput`, naming the line and column of bad JSON or the path of a bad value.
    pub(super) fn snapshot(mut self) -> Result<ChefSnapshot<'a>> {
        let whole = self.doc.whole("a ContextChef snapshot")?;
        let mut fields = self.doc.fields("snapshot", &whole)?;
        let has = |name: &str| fields.iter().any(|(field, _)| field == name);
        let any = |names: [&str; 3]| names.into_iter().any(has);
        let is_old = match (
            any(["topLayer", "rollingHistory", "rawDynamicXml"]),
            any(["systemPrompt", "history", "dynamicStateXml"]),
        ) {
            (true, true) => {
                let message = "snapshot: has topLayer, rollingHistory or rawDynamicXml as well as systemPrompt, history or dynamicStateXml: expected the names of one version";
                return Err(Error::invalid(message));
            }
            (false, false) => {
                let message = "snapshot: expected systemPrompt and history, or topLayer and rollingHistory of 1.x";
                return Err(Error::invalid(message));
            }
            (is_old, _) => is_old,
        };
        let named = |new: &'static str, old: &'static str| if is_old { old } else { new };
        let (system, history, xml) = (
            named("systemPrompt", "topLayer"),
            named("history", "rollingHistory"),
            named("dynamicStateXml", "rawDynamicXml"),
        );
        let has_modules = has("modules");
        let modules = match take(&mut fields, "modules") {
            Some(part) => self.doc.fields("modules", &part)?,
            None if is_old => Self::old_modules(&mut fields)?,
            None => return Err(missing("modules", "an object")),
        };
        let mut snapshot = ChefSnapshot {
            era: Era::Two,
            system: self.messages(system, take(&mut fields, system))?,
            history: self.messages(history, take(&mut fields, history))?,
            dynamic: self.messages("dynamicState", take(&mut fields, "dynamicState"))?,
            placement: self.placement(take(&mut fields, PLACEMENT))?,
            dynamic_xml: take(&mut fields, xml),
            janitor: None,
            memory: None,
            pruner: None,
            skill_name: take(&mut fields, "activeSkillName"),
            skill_text: take(&mut fields, "skillInstructions"),
            guardrail: take(&mut fields, "guardrailOptions"),
            announcements: self.announcements(&mut fields)?,
            handoff: take_if(&mut fields, HANDOFF, |json| json.starts_with('"')),
            label: take(&mut fields, "label"),
            created: take(&mut fields, "createdAt"),
            other: Vec::new(),
            other_modules: Vec::new(),
            notes: Vec::new(),
        };
        self.plain_fields(xml, &snapshot)?;
        self.modules(modules, is_old, &mut snapshot)?;
        for (name, part) in &fields {
            self.doc
                .note(part, format!("snapshot: the field '{}' is not known", json::plain(name)));
        }
        snapshot.other = fields;
        snapshot.era = era(&snapshot, is_old, has_modules);
        snapshot.notes = self.doc.into_notes();
        Ok(snapshot)
    }

    /// Takes the announcements if each has an id; otherwise they stay an unknown field.
    fn announcements(&mut self, fields: &mut JsonParts<'a>) -> Result<Option<JsonParts<'a>>> {
        let Some(part) = take_if(fields, ANNOUNCEMENTS, has_announcements) else {
            return Ok(None);
        };
        let mut found = Vec::new();
        for element in self.doc.elements(ANNOUNCEMENTS, &part)? {
            let own = self.doc.fields(ANNOUNCEMENTS, &element)?;
            let id = own.iter().find(|(name, _)| name == "id").map(|(_, id)| id);
            let id = id.ok_or_else(|| missing("announcements.id", "text"))?;
            found.push((text(id, "announcements.id")?, element));
        }
        Ok(Some(self.unique(found, ANNOUNCEMENTS)))
    }

    /// Texts and numbers at the top.
    fn plain_fields(&mut self, xml: &str, snapshot: &ChefSnapshot<'a>) -> Result<()> {
        match &snapshot.dynamic_xml {
            Some(part) => expect(part, Kind::Text, xml)?,
            None => self.doc.note_whole(format!("{xml} is missing and counts as empty")),
        }
        for (part, kind, place) in [
            (&snapshot.skill_name, Kind::Text, "activeSkillName"),
            (&snapshot.skill_text, Kind::Text, "skillInstructions"),
            (&snapshot.guardrail, Kind::Object, "guardrailOptions"),
            (&snapshot.label, Kind::Text, "label"),
            (&snapshot.created, Kind::Number, "createdAt"),
        ] {
            if let Some(part) = part {
                expect(part, kind, place)?;
            }
        }
        if snapshot.created.is_none() {
            self.doc.note_whole("createdAt is missing: the time of the import is used".to_owned());
        }
        Ok(())
    }

    /// Takes the fields that the first version has instead of modules.
    fn old_modules(fields: &mut JsonParts<'a>) -> Result<JsonParts<'a>> {
        let mut modules = Vec::new();
        let (store, memory) = (take(fields, "_memoryStore"), take(fields, "_memory"));
        if store.is_some() && memory.is_some() {
            return Err(Error::invalid("has both _memory and _memoryStore: expected one of them"));
        }
        let found = [("janitor", take(fields, "_janitor")), ("memory", memory.or(store))];
        modules.extend(found.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?))));
        Ok(modules)
    }

    fn modules(
        &mut self,
        mut modules: JsonParts<'a>,
        is_old: bool,
        snapshot: &mut ChefSnapshot<'a>,
    ) -> Result<()> {
        snapshot.janitor = take(&mut modules, "janitor");
        match &snapshot.janitor {
            Some(part) => self.janitor(part)?,
            None if is_old => {
                self.doc.note_whole("_janitor is missing and is reset".to_owned());
            }
            None => return Err(missing("modules.janitor", "an object")),
        }
        match take(&mut modules, "memory") {
            None if is_old => {}
            None => self.doc.note_whole("modules.memory is missing and counts as null"),
            Some(part) if part.json.get() == "null" => {}
            Some(part) => snapshot.memory = Some(self.memory(&part, is_old)?),
        }
        snapshot.pruner = take(&mut modules, "pruner");
        match &snapshot.pruner {
            Some(part) => self.pruner(part)?,
            None if is_old => {}
            None => return Err(missing("modules.pruner", "an object")),
        }
        for (name, part) in &modules {
            self.doc.note(part, format!("modules: the field '{}' is not known", json::plain(name)));
        }
        snapshot.other_modules = modules;
        Ok(())
    }

    fn messages(
        &mut self,
        place: &str,
        part: Option<JsonPart<'a>>,
    ) -> Result<Vec<DocumentMessage<'a>>> {
        let part = part.ok_or_else(|| missing(place, "an array of messages"))?;
        let elements = self.doc.elements(place, &part)?;
        let message = |(index, part): (usize, JsonPart<'a>)| {
            let role = self.message(&format!("{place}[{index}]"), &part)?;
            Ok(DocumentMessage { role, part })
        };
        elements.into_iter().enumerate().map(message).collect()
    }

    /// Returns the speaker of a message, all of whose known fields have the right types.
    fn message(&mut self, place: &str, part: &JsonPart<'a>) -> Result<Role> {
        let fields = self.doc.fields(place, part)?;
        let field =
            |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, part)| part);
        let at = |name: &str| format!("{place}.{name}");
        let needed = |name: &str| field(name).ok_or_else(|| missing(&at(name), "text"));
        let role = needed("role")?;
        let name: String = text(role, &at("role"))?;
        expect(needed("content")?, Kind::Text, &at("content"))?;
        for (name, kind) in [
            ("name", Kind::Text),
            ("tool_call_id", Kind::Text),
            ("thinking", Kind::Object),
            ("redacted_thinking", Kind::Object),
            ("attachments", Kind::Array),
            ("tool_calls", Kind::Array),
        ] {
            if let Some(part) = field(name) {
                expect(part, kind, &at(name))?;
            }
        }
        if let Some(part) = field("tool_calls") {
            for (index, call) in self.doc.elements(&at("tool_calls"), part)?.iter().enumerate() {
                self.call(&format!("{place}.tool_calls[{index}]"), call)?;
            }
        }
        let known = matches!(name.as_str(), "system" | "user" | "assistant" | "tool");
        if !known {
            let name = json::plain(&name).to_owned();
            self.doc.note(role, format!("{place}.role: '{name}' is not known"));
        }
        Ok(if known { Role::from_name(&name) } else { Role::Other })
    }

    fn call(&self, place: &str, part: &JsonPart<'a>) -> Result<()> {
        let fields = self.doc.fields(place, part)?;
        let field = |fields: &JsonParts<'a>, name: &str, kind: Kind, place: &str| {
            let found = fields.iter().find(|(field, _)| field == name);
            let place = format!("{place}.{name}");
            let (_, part) = found.ok_or_else(|| missing(&place, kind.name()))?;
            expect(part, kind, &place)?;
            Ok::<_, Error>(part.clone())
        };
        field(&fields, "id", Kind::Text, place)?;
        let function = field(&fields, "function", Kind::Object, place)?;
        let place = format!("{place}.function");
        let fields = self.doc.fields(&place, &function)?;
        field(&fields, "name", Kind::Text, &place)?;
        field(&fields, "arguments", Kind::Text, &place).map(drop)
    }

    fn placement(&mut self, part: Option<JsonPart<'a>>) -> Result<Option<JsonPart<'a>>> {
        let Some(part) = part else {
            self.doc.note_whole(format!("{PLACEMENT} is missing and counts as last_user"));
            return Ok(None);
        };
        match text(&part, PLACEMENT)?.as_str() {
            "last_user" | "system" => Ok(Some(part)),
            _ => Err(Error::invalid(format!("{PLACEMENT}: expected last_user or system"))),
        }
    }

    fn janitor(&mut self, part: &JsonPart<'a>) -> Result<()> {
        let place = "modules.janitor";
        let fields = self.doc.fields(place, part)?;
        for (name, part) in &fields {
            let place = format!("{place}.{name}");
            match name.as_str() {
                "externalTokenUsage" => expect_or_null(part, Kind::Number, &place)?,
                "suppressNextCompression" => expect(part, Kind::Truth, &place)?,
                "consecutiveFailures" => expect(part, Kind::Count, &place)?,
                "anchorDoc" => expect_or_null(part, Kind::Text, &place)?,
                "window" => {
                    expect_or_null(part, Kind::Object, &place)?;
                }
                _ => {}
            }
        }
        for needed in ["externalTokenUsage", "suppressNextCompression"] {
            if !fields.iter().any(|(name, _)| name == needed) {
                self.doc.note(part, format!("{place}.{needed} is missing and is reset"));
            }
        }
        Ok(())
    }

    fn pruner(&mut self, part: &JsonPart<'a>) -> Result<()> {
        let place = "modules.pruner";
        for (name, part) in self.doc.fields(place, part)? {
            let place = format!("{place}.{name}");
            match name.as_str() {
                "flatTools" | "namespaces" | "lazyToolkits" => {
                    for (index, tool) in self.doc.elements(&place, &part)?.iter().enumerate() {
                        expect(tool, Kind::Object, &format!("{place}[{index}]"))?;
                    }
                }
                "blockedTools" => {
                    for (index, tool) in self.doc.elements(&place, &part)?.iter().enumerate() {
                        expect(tool, Kind::Text, &format!("{place}[{index}]"))?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Entries and turn counter; of the first era a map from keys to texts or entries.
    fn memory(&mut self, part: &JsonPart<'a>, is_old: bool) -> Result<MemoryPart<'a>> {
        let place = "modules.memory";
        let mut fields = self.doc.fields(place, part)?;
        let is_map = is_old
            && !fields.iter().any(|(name, part)| {
                name == "entries" && part.json.get().starts_with('{') && !has_text_value(part)
            });
        let (entries, turn, place) = if is_map {
            (fields, None, place.to_owned())
        } else {
            let entries = take(&mut fields, "entries");
            let entries = entries.ok_or_else(|| missing("modules.memory.entries", "an object"))?;
            let turn = take(&mut fields, "turnCount");
            match &turn {
                Some(turn) => expect(turn, Kind::Count, "modules.memory.turnCount")?,
                None => self
                    .doc
                    .note(part, "modules.memory.turnCount is missing and counts as 0".to_owned()),
            }
            for (name, part) in &fields {
                let name = json::plain(name).to_owned();
                self.doc.note(part, format!("modules.memory: the field '{name}' is not known, and is kept only in the source"));
            }
            let place = format!("{place}.entries");
            (self.doc.fields(&place, &entries)?, turn, place)
        };
        for (key, part) in &entries {
            super::memory::check(key, part, is_map, &place)?;
            self.doc.check_key(key, part, &place)?;
        }
        Ok(MemoryPart { entries: self.unique(entries, &place), turn })
    }

    /// For duplicate keys the last value wins, at the position of the first, as in JavaScript.
    fn unique(&mut self, entries: JsonParts<'a>, place: &str) -> JsonParts<'a> {
        let mut unique: JsonParts<'a> = Vec::with_capacity(entries.len());
        let mut places: HashMap<String, usize> = HashMap::new();
        for (key, part) in entries {
            match places.get(&key).and_then(|at| unique.get_mut(*at)) {
                Some((_, first)) => {
                    let what = format!("{place}: a key occurs twice, and the last one is used");
                    self.doc.note(&part, what);
                    *first = part;
                }
                None => {
                    places.insert(key.clone(), unique.len());
                    unique.push((key, part));
                }
            }
        }
        unique
    }
}

/// Takes a field if its value passes the test.
fn take_if<'a>(
    fields: &mut JsonParts<'a>,
    name: &str,
    is_like: impl Fn(&str) -> bool,
) -> Option<JsonPart<'a>> {
    let is_known = fields.iter().any(|(field, part)| field == name && is_like(part.json.get()));
    if is_known { take(fields, name) } else { None }
}

/// Returns true for an array of objects that each have an id of their own, as announcements are.
fn has_announcements(json: &str) -> bool {
    #[derive(Deserialize)]
    struct Announcement {
        id: String,
    }
    let is_key = |id: &str| !id.is_empty() && id.len() <= MAX_ID_BYTES;
    serde_json::from_str::<Vec<Announcement>>(json)
        .is_ok_and(|found| found.iter().all(|it| is_key(&it.id)))
}

/// Returns true if an object has a text called `value`, as an entry of memory has.
fn has_text_value(part: &JsonPart<'_>) -> bool {
    #[derive(Deserialize)]
    struct MemoryEntryText {
        #[serde(rename = "value")]
        _value: String,
    }
    serde_json::from_str::<MemoryEntryText>(part.json.get()).is_ok()
}

fn era(snapshot: &ChefSnapshot<'_>, is_old: bool, has_modules: bool) -> Era {
    let in_part = |part: &Option<JsonPart<'_>>, names: &[&str]| {
        let fields =
            part.as_ref().and_then(|part| serde_json::from_str::<Fields<'_>>(part.json.get()).ok());
        fields.is_some_and(|Fields(fields)| {
            fields.iter().any(|(name, _)| names.contains(&name.as_str()))
        })
    };
    if is_old {
        return if has_modules { Era::Modules } else { Era::First };
    }
    if snapshot.guardrail.is_some()
        || snapshot.announcements.is_some()
        || snapshot.handoff.is_some()
        || in_part(&snapshot.janitor, &["window", "strategy", "anchorDoc"])
    {
        Era::Four
    } else if snapshot.skill_name.is_some()
        || snapshot.skill_text.is_some()
        || in_part(&snapshot.pruner, &["blockedTools"])
    {
        Era::Three
    } else {
        Era::Two
    }
}
