//! Intents: the user's intention as the model understood it, one document each.
//!
//! An intent is an entry of the section `intents` by its id, with its original JSON.

use std::io::Write;

use bytes::Bytes;
use turntree::context::sections::INTENTS;
use turntree::context::{Builder, Context};
use turntree::error::{Error, Result};
use turntree::object::{ObjectSink, ObjectSource};
use turntree::tree::MAX_KEY_BYTES;

use super::super::json_parts::{
    Checker, JsonParts, Kind, expect, expect_or_null, import_notes, missing, take, text, text_of,
};
use super::ID;
use super::context::moment;
use super::sections::Sections;
use super::stored::StoredValues;
use crate::formats::frameworks::json_writer::Formatted;
use crate::model::format::DocumentFacts;
use crate::model::words::first_line;
use crate::text::json::{self, Text};

/// Reads `bytes` and adds the intent to the section.
///
/// # Errors
/// `InvalidInput`, naming the place.
pub(super) fn apply_document(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    bytes: &Bytes,
) -> Result<DocumentFacts> {
    let text = text_of(bytes)?;
    let mut checker = Checker::new(&text, bytes);
    let whole = checker.whole("an intent of OLLM CLI")?;
    let mut fields = checker.fields("intent", &whole)?;
    let id_part = take(&mut fields, "id").ok_or_else(|| missing("id", "text"))?;
    checker.check_key("id", &id_part, "id")?;
    let id = super::super::json_parts::text(&id_part, "id")?;
    if !(1..=MAX_KEY_BYTES).contains(&id.len()) {
        let found = id.len();
        return Err(Error::invalid(format!(
            "id: expected 1 to {MAX_KEY_BYTES} bytes, found {found}"
        )));
    }
    let (_, time) = moment(&mut checker, &mut fields)?;
    let title = check(&mut checker, &mut fields)?;
    let mut sections = Sections { sink, builder, bytes };
    sections.entry(INTENTS, &id, bytes.slice(whole.range.clone()))?;
    Ok(DocumentFacts {
        time,
        title: if title.is_empty() { "intent".to_owned() } else { title },
        metadata: sections.facts(&[(ID, Some(&id_part))]),
        notes: import_notes(&checker.into_notes(), bytes),
        ..DocumentFacts::default()
    })
}

/// Refuses fields of a wrong type, and returns the intent in one line.
fn check<'a>(checker: &mut Checker<'a>, fields: &mut JsonParts<'a>) -> Result<String> {
    for (name, kind) in [("original", Kind::Text), ("confirmed", Kind::Truth)] {
        let part = take(fields, name).ok_or_else(|| missing(name, kind.name()))?;
        expect(&part, kind, name)?;
    }
    if let Some(goal) = take(fields, "proposedGoal") {
        expect_or_null(&goal, Kind::Object, "proposedGoal")?;
    }
    let extracted = take(fields, "extracted").ok_or_else(|| missing("extracted", "an object"))?;
    let mut extracted = checker.fields("extracted", &extracted)?;
    let intent = take(&mut extracted, "intent");
    let intent = intent.ok_or_else(|| missing("extracted.intent", "text"))?;
    if let Some(points) = take(&mut extracted, "keyPoints") {
        for (index, point) in checker.elements("extracted.keyPoints", &points)?.iter().enumerate() {
            expect(point, Kind::Text, &format!("extracted.keyPoints[{index}]"))?;
        }
    }
    if let Some(files) = take(&mut extracted, "attachments") {
        for (index, file) in checker.elements("extracted.attachments", &files)?.iter().enumerate() {
            expect(file, Kind::Object, &format!("extracted.attachments[{index}]"))?;
        }
    }
    Ok(first_line(&text(&intent, "extracted.intent")?))
}

/// Writes the intent `id` of a context, indented as upstream does, without a line end; without an
/// id the newest one.
///
/// # Errors
/// `NotFound` for a missing intent, `Io` when `out` refuses, and errors of reading.
pub fn export_intent(
    source: &dyn ObjectSource,
    context: &Context,
    id: Option<&str>,
    out: &mut dyn Write,
) -> Result<()> {
    let stored = StoredValues { source, context };
    let found = match id {
        Some(id) => stored.entry(INTENTS, id)?,
        None => {
            let all = stored.fields(INTENTS)?.into_iter().map(|(_, json)| json);
            all.max_by_key(|json| when(json))
        }
    };
    let found = found.ok_or_else(|| match id {
        Some(_) => Error::not_found("there is no intent with this id in the snapshot"),
        None => Error::not_found("there is no intent in the snapshot"),
    })?;
    Formatted::new(out, true)
        .write_all(found.as_bytes())
        .map_err(|error| Error::io("write the intent", error))
}

/// When an intent was made, in microseconds since the Unix epoch.
fn when(json: &str) -> Option<i64> {
    let value: serde_json::Value = Text::new(json.as_bytes())?.parse().ok()?;
    json::time(value.get("timestamp")?).map(|time| time.micros)
}
