//! `design-store.json`, checked: every error names its place, and a fault that upstream tolerates
//! is a note.
//!
//! ```text
//! { schemaVersion: 1, designs: [...], snapshots: [...], diagnosticEvents: [...] }
//! ```
//!
//! Upstream reads a section that is no array as an empty one and checks no row. This reader refuses
//! an invalid row, because it could not be written back.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use turntree::context::compact_json;
use turntree::error::{Error, Result};

use super::super::json_parts::{
    Checker, JsonPart, JsonParts, Kind, expect, expect_or_null, missing, take, text, text_of,
};
use super::super::json_writer::quoted;
use super::archive::{Archive, Artifact, Design, DesignSnapshot, Origin};
use crate::text::json;

const VERSION: &str = "schemaVersion";

/// Longest version that an error shows.
const MAX_SHOWN_VERSION: usize = 40;

/// Reads `bytes`.
///
/// # Errors
/// `InvalidInput`, naming the line and column of bad JSON or the path of a bad value.
pub(super) fn read(bytes: &Bytes) -> Result<Archive> {
    let text = text_of(bytes)?;
    let doc = Checker::new(&text, bytes);
    StoreReader { doc, bytes, archive: Archive::default(), places: HashMap::new() }.read()
}

struct StoreReader<'a> {
    doc: Checker<'a>,
    bytes: &'a Bytes,
    archive: Archive,
    /// The indexes of designs in the archive, by id.
    places: HashMap<String, usize>,
}

impl<'a> StoreReader<'a> {
    fn read(mut self) -> Result<Archive> {
        let whole = self.doc.whole("an open-codesign design store")?;
        let mut fields = self.doc.fields("store", &whole)?;
        check_version(take(&mut fields, VERSION).as_ref())?;
        for (index, part) in self.section(&mut fields, "designs")?.iter().enumerate() {
            self.design(&format!("designs[{index}]"), part)?;
        }
        let mut seen = HashMap::new();
        for (index, part) in self.section(&mut fields, "snapshots")?.iter().enumerate() {
            self.snapshot(&format!("snapshots[{index}]"), part, &mut seen)?;
        }
        for (index, part) in self.section(&mut fields, "diagnosticEvents")?.iter().enumerate() {
            self.diagnostic(&format!("diagnosticEvents[{index}]"), part)?;
        }
        for (name, part) in &fields {
            self.doc.note(part, format!("store: the field '{}' is not known", json::plain(name)));
        }
        if !fields.is_empty() {
            self.archive.other = Some(self.object(&fields, |_, _| None));
        }
        self.archive.notes = self.doc.into_notes();
        self.archive.source = Some(self.bytes.clone());
        Ok(self.archive)
    }

    /// Returns the rows of a section; a section that is no array is empty, as for upstream.
    fn section(&mut self, fields: &mut JsonParts<'a>, name: &str) -> Result<Vec<JsonPart<'a>>> {
        match take(fields, name) {
            Some(part) if part.json.get().starts_with('[') => self.doc.elements(name, &part),
            Some(part) => {
                self.doc.note(&part, format!("{name}: expected an array; counts as empty"));
                Ok(Vec::new())
            }
            None => {
                self.doc.note_whole(format!("{name} is missing and counts as empty"));
                Ok(Vec::new())
            }
        }
    }

    fn design(&mut self, place: &str, part: &JsonPart<'a>) -> Result<()> {
        let row = PlacedRow::new(&self.doc, place, part)?;
        let id = row.id("id")?;
        row.times(&["createdAt", "updatedAt"])?;
        let name = row.text("name")?;
        let deleted = row.optional("deletedAt")?;
        for field in
            ["thumbnailText", "workspacePath", "workspaceMode", "previewMode", "previewUrl"]
        {
            row.optional(field)?;
        }
        let record = self.object(&row.fields, |_, _| None);
        if self.places.contains_key(&id) {
            let what = format!("{place}.id: an earlier design has it already, and is used");
            self.doc.note(part, what);
            return Ok(());
        }
        self.places.insert(id.clone(), self.archive.designs.len());
        let record = Some(record);
        self.archive.designs.push(Design { id, name, record, deleted, ..Design::default() });
        Ok(())
    }

    fn snapshot(
        &mut self,
        place: &str,
        part: &JsonPart<'a>,
        seen: &mut HashMap<(usize, String), usize>,
    ) -> Result<()> {
        let row = PlacedRow::new(&self.doc, place, part)?;
        let (id, design) = (row.id("id")?, row.id("designId")?);
        let origin = row.one_of("type", "initial, edit or fork", Origin::named)?;
        let artifact = row.one_of("artifactType", "html, react or svg", Artifact::named)?;
        row.times(&["createdAt"])?;
        let (created, created_json) = row.moment("createdAt")?;
        let (parent, prompt) = (row.optional("parentId")?, row.optional("prompt")?);
        let message = row.optional("message")?;
        let content = row.text("artifactSource")?;
        let is_plain = |name: &str, raw: &str| {
            let is_content = name == "artifactSource" && raw == quoted(&content);
            is_content.then_some("null")
        };
        let record = self.object(&row.fields, is_plain);
        if created.is_none() {
            self.doc.note(
                part,
                format!("{place}.createdAt: not a time; the time of the import is used"),
            );
        }
        let at = self.place_of(&design, place, part);
        let count = seen.entry((at, id.clone())).or_insert(0);
        *count += 1;
        let key = if *count == 1 { id } else { format!("{id}#{count}") };
        if *count > 1 {
            self.doc
                .note(part, format!("{place}.id: another snapshot has it already; both are kept"));
        }
        self.archive.records.push(part.range.clone());
        let at_byte = part.range.start;
        if let Some(design) = self.archive.designs.get_mut(at) {
            design.versions.push(DesignSnapshot {
                key,
                parent,
                origin,
                prompt,
                artifact,
                content: content.into(),
                record,
                created,
                created_json,
                message,
                at: at_byte,
            });
        }
        Ok(())
    }

    /// Returns the index of the design of a snapshot; one that is missing is made.
    fn place_of(&mut self, design: &str, place: &str, part: &JsonPart<'a>) -> usize {
        if let Some(at) = self.places.get(design) {
            return *at;
        }
        self.doc.note(
            part,
            format!("{place}.designId: there is no such design; its snapshots are kept"),
        );
        let at = self.archive.designs.len();
        self.places.insert(design.to_owned(), at);
        self.archive.designs.push(Design { id: design.to_owned(), ..Design::default() });
        at
    }

    fn diagnostic(&mut self, place: &str, part: &JsonPart<'a>) -> Result<()> {
        let row = PlacedRow::new(&self.doc, place, part)?;
        for (name, kind) in [
            ("id", Kind::Number),
            ("ts", Kind::Number),
            ("count", Kind::Number),
            ("transient", Kind::Truth),
            ("level", Kind::Text),
            ("code", Kind::Text),
            ("scope", Kind::Text),
            ("runId", Kind::Text),
            ("fingerprint", Kind::Text),
            ("message", Kind::Text),
            ("stack", Kind::Text),
        ] {
            if let Some(value) = row.field(name) {
                expect_or_null(value, kind, &row.at(name))?;
            }
        }
        self.archive.diagnostics.push(self.bytes.slice(part.range.clone()));
        Ok(())
    }

    /// Returns an object of these fields, without white space, each as it was written or as `other`
    /// gives it.
    fn object(
        &self,
        fields: &JsonParts<'a>,
        other: impl Fn(&str, &str) -> Option<&'static str>,
    ) -> Bytes {
        let mut object = Vec::from(b"{");
        let mut names = HashSet::new();
        // For duplicate names, the last value wins.
        let counts = |(name, _): &&(String, JsonPart<'a>)| names.insert(name.clone());
        let mut kept: Vec<&(String, JsonPart<'a>)> = fields.iter().rev().filter(counts).collect();
        kept.reverse();
        for (index, (name, part)) in kept.into_iter().enumerate() {
            if index > 0 {
                object.push(b',');
            }
            object.extend_from_slice(quoted(name).as_bytes());
            object.push(b':');
            let raw = self.doc.raw(part);
            object.extend_from_slice(other(name, &raw).unwrap_or(&raw).as_bytes());
        }
        object.push(b'}');
        compact_json(&object).into()
    }
}

/// Refuses every version but 1, with upstream's message.
fn check_version(version: Option<&JsonPart<'_>>) -> Result<()> {
    let written = version.map_or("undefined", |part| part.json.get());
    if written.parse::<f64>() == Ok(1.0) {
        return Ok(());
    }
    let text = serde_json::from_str::<String>(written).ok();
    let shown = match (written.as_bytes().first(), &text) {
        (Some(b'{'), _) => "[object Object]",
        (Some(b'['), _) => "an array",
        (_, Some(text)) => text,
        _ => written,
    };
    let is_shown = |c: char| c.is_ascii_alphanumeric() || "._+- []".contains(c);
    let is_plain = shown.len() <= MAX_SHOWN_VERSION && shown.chars().all(is_shown);
    let shown = if is_plain { shown } else { "..." };
    Err(Error::invalid(format!("Unsupported design store schemaVersion: {shown}")))
}

/// A row with its place.
struct PlacedRow<'a, 'p> {
    place: &'p str,
    fields: JsonParts<'a>,
}

impl<'a, 'p> PlacedRow<'a, 'p> {
    fn new(doc: &Checker<'a>, place: &'p str, part: &JsonPart<'a>) -> Result<Self> {
        let row = Self { place, fields: doc.fields(place, part)? };
        if let Some(version) = row.field(VERSION)
            && version.json.get().parse::<f64>() != Ok(1.0)
        {
            return Err(Error::invalid(format!("{}: expected 1", row.at(VERSION))));
        }
        Ok(row)
    }

    fn at(&self, name: &str) -> String {
        format!("{}.{name}", self.place)
    }

    /// Returns the last field of this name, which is the one that applies.
    fn field(&self, name: &str) -> Option<&JsonPart<'a>> {
        self.fields.iter().rev().find(|(field, _)| field == name).map(|(_, part)| part)
    }

    fn needed(&self, name: &str) -> Result<&JsonPart<'a>> {
        self.field(name).ok_or_else(|| missing(&self.at(name), "text"))
    }

    fn text(&self, name: &str) -> Result<String> {
        text(self.needed(name)?, &self.at(name))
    }

    /// Returns a text; `None` if it is null or absent.
    fn optional(&self, name: &str) -> Result<Option<String>> {
        match self.field(name) {
            None => Ok(None),
            Some(part) if part.json.get() == "null" => Ok(None),
            Some(part) => text(part, &self.at(name)).map(Some),
        }
    }

    /// Text that names something: neither empty nor longer than a key of the store.
    fn id(&self, name: &str) -> Result<String> {
        let id = self.text(name)?;
        if (1..=MAX_ID_BYTES).contains(&id.len()) {
            return Ok(id);
        }
        let (place, found) = (self.at(name), id.len());
        Err(Error::invalid(format!("{place} has {found} bytes: expected 1 to {MAX_ID_BYTES}")))
    }

    fn one_of<T>(
        &self,
        name: &str,
        expected: &str,
        named: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let value = self.text(name)?;
        named(&value).ok_or_else(|| {
            let (place, found) = (self.at(name), json::plain(&value));
            Error::invalid(format!("{place}: expected {expected}, found '{found}'"))
        })
    }

    fn times(&self, names: &[&str]) -> Result<()> {
        names.iter().try_for_each(|name| expect(self.needed(name)?, Kind::Text, &self.at(name)))
    }

    /// Returns a time, and its JSON.
    fn moment(&self, name: &str) -> Result<(Option<turntree::object::Time>, String)> {
        let time = json::iso_time(&self.text(name)?);
        Ok((time, self.needed(name)?.json.get().to_owned()))
    }
}

/// Longest id, in bytes: leaves room for the suffix of snapshots with the same id.
const MAX_ID_BYTES: usize = 1024;
