//! A context snapshot of any shape, checked: every error names its place, and what upstream tolerates
//! is a note.
//!
//! ```text
//! old       id sessionId timestamp tokenCount summary metadata messages, the users' among them
//! 1.0       version id sessionId timestamp tokenCount summary metadata userMessages
//!           archivedUserMessages messages, and checkpoints in v0.1.1
//! migrated  id sessionId timestamp purpose conversationState {messages checkpoints goals metadata}
//! ```
//!
//! Fields that a running program has and upstream never writes, `goalStack` and
//! `reasoningStorage`, are taken where they are present.

use bytes::Bytes;
use turntree::context::sections::{CHECKPOINTS, GOALS, META, REASONING, STATE};
use turntree::context::{Builder, MAIN_AGENT, agent_section};
use turntree::error::{Error, Result};
use turntree::object::{ObjectSink, Time, Trigger};

use super::super::json_parts::{
    Checker, JsonPart, JsonParts, Kind, expect, expect_or_null, import_notes, missing, take, text,
    text_of,
};
use super::messages::{OllmMessage, joined};
use super::sections::{Sections, keyed};
use super::{CONTEXT_NAME, ID, META_ARCHIVED, META_SHAPE, SESSION, SUMMARY, TIMESTAMP, TOKENS};
use crate::model::format::DocumentFacts;
use crate::model::words::first_line;
use crate::text::json;

const DEFAULT_TITLE: &str = "OLLM CLI snapshot";
const VERSION: &str = "1.0";

/// The shape of a document, as `meta` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentShape {
    Old,
    File,
    Migrated,
}

impl DocumentShape {
    const fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::File => "1.0",
            Self::Migrated => "migrated",
        }
    }
}

/// A document that can be imported.
struct ContextSnapshot<'a> {
    shape: DocumentShape,
    id: JsonPart<'a>,
    session: JsonPart<'a>,
    timestamp: Option<JsonPart<'a>>,
    time: Option<Time>,
    tokens: Option<JsonPart<'a>>,
    summary: Option<JsonPart<'a>>,
    metadata: JsonParts<'a>,
    /// The reason of the snapshot, in the terms of v0.1.1.
    purpose: Option<String>,
    messages: Vec<OllmMessage<'a>>,
    checkpoints: Option<Vec<JsonPart<'a>>>,
    goals: Option<JsonPart<'a>>,
    reasoning: Option<JsonPart<'a>>,
    archived: Option<JsonPart<'a>>,
    other: JsonParts<'a>,
}

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
    let mut checker = Checker::new(&text, bytes);
    let snapshot = read(&mut checker)?;
    let mut sections = Sections { sink, builder, bytes };
    snapshot.write(&checker, &mut sections)?;
    // The type of a snapshot has the count in its metadata; the files have it next to the metadata.
    let inner = snapshot.metadata.iter().rfind(|(name, _)| name == "tokenCount");
    let inner = inner
        .map(|(_, part)| part)
        .filter(|part| part.json.get().bytes().next().is_some_and(|byte| byte.is_ascii_digit()));
    let metadata = sections.facts(&[
        (ID, Some(&snapshot.id)),
        (SESSION, Some(&snapshot.session)),
        (TIMESTAMP, snapshot.timestamp.as_ref()),
        (TOKENS, snapshot.tokens.as_ref().or(inner)),
        (SUMMARY, snapshot.summary.as_ref()),
    ]);
    let mut records: Vec<_> =
        snapshot.messages.iter().map(|message| message.part.range.clone()).collect();
    records.sort_by_key(|range| range.start);
    let model = snapshot.metadata.iter().rfind(|(name, _)| name == "model");
    let model = model.and_then(|(_, part)| serde_json::from_str(part.json.get()).ok());
    Ok(DocumentFacts {
        messages: snapshot.messages.len() as u64,
        time: snapshot.time,
        trigger: snapshot.trigger(),
        model: model.unwrap_or_default(),
        title: snapshot.title(),
        metadata,
        records,
        notes: import_notes(&checker.into_notes(), bytes),
        ..DocumentFacts::default()
    })
}

impl ContextSnapshot<'_> {
    fn write(&self, checker: &Checker<'_>, sections: &mut Sections<'_>) -> Result<()> {
        sections.messages(&self.messages, CONTEXT_NAME)?;
        sections.fields(&agent_section(MAIN_AGENT, STATE)?, &self.metadata)?;
        match &self.checkpoints {
            Some(checkpoints) => sections.list(CHECKPOINTS, checkpoints)?,
            None => sections.value(checker, CHECKPOINTS, None)?,
        }
        sections.value(checker, GOALS, self.goals.as_ref())?;
        sections.value(checker, REASONING, self.reasoning.as_ref())?;
        sections.meta(META_ARCHIVED, self.archived.as_ref())?;
        sections.other(&self.other)?;
        let shape = Bytes::from_static(self.shape.name().as_bytes());
        sections.builder.set_entry(sections.sink, META, META_SHAPE, Some(shape))
    }

    fn title(&self) -> String {
        let summary = self.summary.as_ref();
        let summary = summary.and_then(|part| json_text(part)).map(|text| first_line(&text));
        match (summary.filter(|line| !line.is_empty()), &self.purpose) {
            (Some(summary), _) => summary,
            (None, Some(purpose)) => format!("{purpose} snapshot"),
            (None, None) => DEFAULT_TITLE.to_owned(),
        }
    }

    fn trigger(&self) -> Option<Trigger> {
        (self.purpose.as_deref() == Some("emergency")).then_some(Trigger::Emergency)
    }
}

fn read<'a>(checker: &mut Checker<'a>) -> Result<ContextSnapshot<'a>> {
    let whole = checker.whole("a context snapshot of OLLM CLI")?;
    let mut fields = checker.fields("snapshot", &whole)?;
    let has = |name: &str| fields.iter().any(|(field, _)| field == name);
    let mut snapshot = match (has("messages"), has("conversationState")) {
        (true, true) => {
            return Err(Error::invalid(
                "snapshot: has both conversationState and messages: expected one of them",
            ));
        }
        (false, false) => return Err(missing("messages", "an array of messages")),
        (true, false) => read_file(checker, &mut fields)?,
        (false, true) => read_migrated(checker, &mut fields)?,
    };
    for (name, part) in &fields {
        let name = json::plain(name).to_owned();
        checker.note(part, format!("snapshot: the field '{name}' is not known"));
    }
    snapshot.other = fields;
    Ok(snapshot)
}

/// The fields of every shape.
fn read_common<'a>(
    checker: &mut Checker<'a>,
    fields: &mut JsonParts<'a>,
    shape: DocumentShape,
    messages: Vec<OllmMessage<'a>>,
) -> Result<ContextSnapshot<'a>> {
    let id = needed(fields, "id")?;
    let session = needed(fields, "sessionId")?;
    let (timestamp, time) = moment(checker, fields)?;
    Ok(ContextSnapshot {
        shape,
        id,
        session,
        timestamp,
        time,
        tokens: None,
        summary: None,
        metadata: JsonParts::new(),
        purpose: None,
        messages,
        checkpoints: None,
        goals: None,
        reasoning: None,
        archived: None,
        other: JsonParts::new(),
    })
}

fn read_file<'a>(
    checker: &mut Checker<'a>,
    fields: &mut JsonParts<'a>,
) -> Result<ContextSnapshot<'a>> {
    if let Some(version) = take(fields, "version")
        && text(&version, "version")? != VERSION
    {
        checker.note(&version, format!("version: unknown, and read as {VERSION}"));
    }
    let users = take(fields, "userMessages");
    let shape = if users.is_some() { DocumentShape::File } else { DocumentShape::Old };
    let messages = take(fields, "messages");
    let messages = messages.ok_or_else(|| missing("messages", "an array of messages"))?;
    let messages = joined(checker, users, ("messages", messages))?;
    let mut snapshot = read_common(checker, fields, shape, messages)?;
    snapshot.tokens = take(fields, "tokenCount");
    snapshot.summary = take(fields, "summary");
    snapshot.archived = take(fields, "archivedUserMessages");
    for (part, kind, place) in [
        (&snapshot.tokens, Kind::Number, "tokenCount"),
        (&snapshot.summary, Kind::Text, "summary"),
        (&snapshot.archived, Kind::Array, "archivedUserMessages"),
    ] {
        if let Some(part) = part {
            expect(part, kind, place)?;
        }
    }
    if let Some(tokens) = snapshot.tokens.as_ref().filter(|part| part.json.get().starts_with('-')) {
        checker.note(tokens, "tokenCount: expected a number of 0 or more");
    }
    match take(fields, "metadata") {
        Some(part) => snapshot.metadata = keyed(checker, "metadata", &part)?,
        None => checker.note_whole("metadata is missing"),
    }
    snapshot.purpose = snapshot
        .metadata
        .iter()
        .rfind(|(name, _)| name == "purpose")
        .and_then(|(_, part)| json_text(part));
    snapshot.checkpoints = checkpoints(checker, "checkpoints", take(fields, "checkpoints"))?;
    snapshot.goals = take(fields, "goalStack");
    snapshot.reasoning = take(fields, "reasoningStorage");
    Ok(snapshot)
}

fn read_migrated<'a>(
    checker: &mut Checker<'a>,
    fields: &mut JsonParts<'a>,
) -> Result<ContextSnapshot<'a>> {
    const PLACE: &str = "conversationState";
    let state = take(fields, PLACE).ok_or_else(|| missing(PLACE, "an object"))?;
    let mut state = checker.fields(PLACE, &state)?;
    let messages = take(&mut state, "messages")
        .ok_or_else(|| missing("conversationState.messages", "an array of messages"))?;
    let messages = joined(checker, None, ("conversationState.messages", messages))?;
    let mut snapshot = read_common(checker, fields, DocumentShape::Migrated, messages)?;
    let found = take(&mut state, "checkpoints")
        .ok_or_else(|| missing("conversationState.checkpoints", "an array"))?;
    snapshot.checkpoints = checkpoints(checker, "conversationState.checkpoints", Some(found))?;
    let metadata = take(&mut state, "metadata")
        .ok_or_else(|| missing("conversationState.metadata", "an object"))?;
    snapshot.metadata = keyed(checker, "conversationState.metadata", &metadata)?;
    snapshot.goals = take(&mut state, "goals");
    for (name, part) in &state {
        let name = json::plain(name).to_owned();
        let what =
            format!("{PLACE}: the field '{name}' is not known, and is kept only in the source");
        checker.note(part, what);
    }
    let purpose = needed(fields, "purpose")?;
    let name = text(&purpose, "purpose")?.to_lowercase();
    if matches!(name.as_str(), "recovery" | "rollback" | "emergency") {
        snapshot.purpose = Some(name);
    } else {
        checker.note(
            &purpose,
            "purpose: expected recovery, rollback or emergency; counts as recovery",
        );
        snapshot.purpose = Some("recovery".to_owned());
    }
    // A file of 1.0 has this in its metadata.
    let is_known = snapshot.metadata.iter().any(|(field, _)| field == "purpose");
    if !is_known {
        snapshot.metadata.push(("purpose".to_owned(), purpose));
    }
    Ok(snapshot)
}

/// A text that must be there.
fn needed<'a>(fields: &mut JsonParts<'a>, name: &str) -> Result<JsonPart<'a>> {
    let part = take(fields, name).ok_or_else(|| missing(name, "text"))?;
    if text(&part, name)?.is_empty() {
        return Err(Error::invalid(format!("{name}: expected text, found none")));
    }
    Ok(part)
}

/// Returns the time of the snapshot: ISO 8601 in files, milliseconds since the epoch in the output
/// of a migration.
pub(super) fn moment<'a>(
    checker: &mut Checker<'a>,
    fields: &mut JsonParts<'a>,
) -> Result<(Option<JsonPart<'a>>, Option<Time>)> {
    let Some(part) = take(fields, "timestamp") else {
        checker.note_whole("timestamp is missing: the time of the import is used");
        return Ok((None, None));
    };
    let value: Option<serde_json::Value> = serde_json::from_str(part.json.get()).ok();
    let time = value.as_ref().and_then(json::time).ok_or_else(|| {
        Error::invalid("timestamp: expected a time such as 2026-01-21T12:00:00.000Z, or milliseconds since 1970")
    })?;
    Ok((Some(part), Some(time)))
}

fn checkpoints<'a>(
    checker: &mut Checker<'a>,
    place: &str,
    part: Option<JsonPart<'a>>,
) -> Result<Option<Vec<JsonPart<'a>>>> {
    let Some(part) = part else { return Ok(None) };
    let elements = checker.elements(place, &part)?;
    for (index, element) in elements.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let mut fields = checker.fields(&place, element)?;
        for (name, kind) in [
            ("id", Kind::Text),
            ("summary", Kind::Text),
            ("originalMessageIds", Kind::Array),
            ("metadata", Kind::Object),
        ] {
            if let Some(part) = take(&mut fields, name) {
                expect_or_null(&part, kind, &format!("{place}.{name}"))?;
            }
        }
    }
    Ok(Some(elements))
}

fn json_text(part: &JsonPart<'_>) -> Option<String> {
    serde_json::from_str(part.json.get()).ok()
}
