//! Mode transitions: a light snapshot when an agent changes its mode.
//!
//! A transition has the last messages, the skills and tools in use, the task and the findings. It
//! is no turn of the conversation: the transitions of a session form a separate session, with
//! `.modes` appended to its name, so that they can have a retention policy of their own. Each is a
//! commit, so two in one millisecond are two.

use std::io::Write;

use bytes::Bytes;
use serde_json::{Value, json};
use turntree::context::sections::{FINDINGS, MAIN_MESSAGES, META, REASONING, STATE};
use turntree::context::{Builder, Context, MAIN_AGENT, MessageEntry, Role, agent_section};
use turntree::error::{Error, Result};
use turntree::object::{Commit, Kind as Object, ObjectId, ObjectSink, ObjectSource, Time, Trigger};
use turntree::repo::Repository;
use turntree::tree::Item;

use super::super::iso_millis::iso_millis;
use super::super::json_parts::{
    Checker, JsonPart, JsonParts, Kind, expect, expect_or_null, import_notes, missing, take, text,
    text_of,
};
use super::super::json_writer::{Formatted, Json, json_item, quoted};
use super::context::moment;
use super::messages::recent;
use super::sections::{Sections, keyed};
use super::stored::StoredValues;
use super::{ID, META_OTHER, MODE_NAME, TIMESTAMP};
use crate::formats::state::apply_state;
use crate::formats::view;
use crate::model::format::DocumentFacts;
use crate::model::words::first_line;
use crate::text::json as texts;

/// The suffix that the name of a session gets for the session of its transitions.
pub const MODES_SUFFIX: &str = ".modes";

/// Messages that a transition has.
pub const RECENT_MESSAGES: u64 = 5;

const MODES: [&str; 4] = ["assistant", "planning", "developer", "debugger"];

/// Entries of the agent's state.
const FROM: &str = "fromMode";
const TO: &str = "toMode";
const SKILLS: &str = "activeSkills";
const TOOLS: &str = "activeTools";
const TASK: &str = "currentTask";

/// A document that can be imported.
struct Read<'a> {
    id: JsonPart<'a>,
    timestamp: Option<JsonPart<'a>>,
    state: JsonParts<'a>,
    findings: Option<JsonPart<'a>>,
    traces: Option<JsonPart<'a>>,
    title: String,
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
    let whole = checker.whole("a mode transition of OLLM CLI")?;
    let mut fields = checker.fields("transition", &whole)?;
    let messages = take(&mut fields, "recentMessages");
    let messages = messages.ok_or_else(|| missing("recentMessages", "an array of messages"))?;
    let messages = recent(&mut checker, "recentMessages", &messages)?;
    let (timestamp, time) = moment(&mut checker, &mut fields)?;
    let read = read(&mut checker, timestamp, fields)?;
    let mut sections = Sections { sink, builder, bytes };
    sections.messages(&messages, MODE_NAME)?;
    sections.fields(&agent_section(MAIN_AGENT, STATE)?, &read.state)?;
    sections.value(&checker, FINDINGS, read.findings.as_ref())?;
    sections.value(&checker, REASONING, read.traces.as_ref())?;
    sections.other(&read.other)?;
    let facts = [(ID, Some(&read.id)), (TIMESTAMP, read.timestamp.as_ref())];
    Ok(DocumentFacts {
        messages: messages.len() as u64,
        time,
        trigger: Some(Trigger::ModeChange),
        title: read.title,
        session_suffix: MODES_SUFFIX,
        metadata: sections.facts(&facts),
        records: messages.iter().map(|message| message.part.range.clone()).collect(),
        notes: import_notes(&checker.into_notes(), bytes),
        ..DocumentFacts::default()
    })
}

fn read<'a>(
    checker: &mut Checker<'a>,
    timestamp: Option<JsonPart<'a>>,
    mut fields: JsonParts<'a>,
) -> Result<Read<'a>> {
    let id = take(&mut fields, "id").ok_or_else(|| missing("id", "text"))?;
    expect(&id, Kind::Text, "id")?;
    let mut names = Vec::new();
    let mut state = JsonParts::new();
    for name in [FROM, TO] {
        let part = take(&mut fields, name).ok_or_else(|| missing(name, "text"))?;
        let mode = text(&part, name)?;
        if !MODES.contains(&mode.as_str()) {
            checker.note(&part, format!("{name}: '{}' is not known", texts::plain(&mode)));
        }
        names.push(first_line(&mode));
        state.push((name.to_owned(), part));
    }
    for name in [SKILLS, TOOLS] {
        let Some(part) = take(&mut fields, name) else {
            checker.note_whole(format!("{name} is missing and counts as empty"));
            continue;
        };
        for (index, element) in checker.elements(name, &part)?.iter().enumerate() {
            expect(element, Kind::Text, &format!("{name}[{index}]"))?;
        }
        state.push((name.to_owned(), part));
    }
    if let Some(part) = take(&mut fields, TASK) {
        expect_or_null(&part, Kind::Text, TASK)?;
        state.push((TASK.to_owned(), part));
    }
    let findings = take(&mut fields, "findings");
    if let Some(findings) = &findings {
        keyed(checker, "findings", findings)?;
    }
    let traces = take(&mut fields, "reasoningTraces");
    if let Some(traces) = &traces {
        for (index, trace) in checker.elements("reasoningTraces", traces)?.iter().enumerate() {
            expect(trace, Kind::Object, &format!("reasoningTraces[{index}]"))?;
        }
    }
    for (name, part) in &fields {
        let name = texts::plain(name).to_owned();
        checker.note(part, format!("transition: the field '{name}' is not known"));
    }
    Ok(Read { id, timestamp, state, findings, traces, title: names.join(" to "), other: fields })
}

/// A transition that is made, not imported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transition {
    /// The mode that ends.
    pub from: String,
    /// The mode that begins.
    pub to: String,
    /// Skills in use; nothing takes those that the conversation's state names.
    pub skills: Option<Vec<String>>,
    /// Tools in use, likewise.
    pub tools: Option<Vec<String>>,
    /// The work of the agent, likewise.
    pub task: Option<String>,
}

impl Transition {
    /// Puts the transition into `builder`, with the last messages, the findings and the reasoning
    /// of `context`, whose objects it shares. A state document in `more` is applied on top of
    /// these.
    ///
    /// # Errors
    /// As for [`apply_state`], and errors of reading `context` and of the sink.
    pub fn apply(
        &self,
        sink: &mut dyn ObjectSink,
        builder: &mut Builder,
        context: &Context,
        more: Option<&[u8]>,
    ) -> Result<()> {
        let list = context.messages(sink, MAIN_AGENT)?;
        let first = list.len().saturating_sub(RECENT_MESSAGES);
        let items = list.iter(sink, first..list.len()).collect::<Result<Vec<Item>>>()?;
        builder.set_list(sink, MAIN_MESSAGES, items)?;
        for section in [FINDINGS, REASONING] {
            builder.set_as_in(sink, section, context)?;
        }
        if let Some(more) = more {
            apply_state(sink, builder, more)?;
            let over = builder.list_len(sink, MAIN_MESSAGES)?.saturating_sub(RECENT_MESSAGES);
            builder.splice(sink, MAIN_MESSAGES, 0..over, Vec::new())?;
        }
        self.apply_facts(sink, builder, context)
    }

    /// Modes, skills, tools and the task.
    fn apply_facts(
        &self,
        sink: &mut dyn ObjectSink,
        builder: &mut Builder,
        context: &Context,
    ) -> Result<()> {
        let state = agent_section(MAIN_AGENT, STATE)?;
        let list = |given: &Option<Vec<String>>| given.as_ref().map(|given| json!(given));
        let values = [
            (FROM, Some(json!(self.from)), Value::Null),
            (TO, Some(json!(self.to)), Value::Null),
            (SKILLS, list(&self.skills), json!([])),
            (TOOLS, list(&self.tools), json!([])),
            (TASK, self.task.as_ref().map(|task| json!(task)), Value::Null),
        ];
        for (name, given, default) in values {
            let known = StoredValues { source: sink, context }.entry(&state, name)?;
            let value = given.map(|given| given.to_string()).or(known);
            let value = value.unwrap_or_else(|| default.to_string());
            let item = json_item(sink, value)?;
            builder.set(sink, &state, name, Some(item))?;
        }
        Ok(())
    }

    /// Returns the transition as text, for the message of its commit.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} to {}", self.from, self.to)
    }
}

/// The newest transition of `session` from one mode to another that is still there.
///
/// # Errors
/// As for reading commits.
pub fn latest(repo: &Repository, session: &str, from: &str, to: &str) -> Result<Option<ObjectId>> {
    let branch = turntree::repo::BranchName::main(&format!("{session}{MODES_SUFFIX}"))?;
    let Some(tip) = repo.tip(&branch) else { return Ok(None) };
    let wanted = [quoted(from), quoted(to)];
    for entry in repo.history(&[tip], &[])? {
        let entry = entry?;
        if repo.tombstone(&entry.commit.tree).is_some() {
            continue;
        }
        let context = repo.context(&entry.id)?;
        let stored = StoredValues { source: repo, context: &context };
        let state = agent_section(MAIN_AGENT, STATE)?;
        if stored.entry(&state, FROM)?.as_ref() == wanted.first()
            && stored.entry(&state, TO)?.as_ref() == wanted.last()
        {
            return Ok(Some(entry.id));
        }
    }
    Ok(None)
}

/// A transition that a session has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTransition {
    /// Its snapshot.
    pub id: ObjectId,
    /// The time of it.
    pub time: Time,
    /// The mode that ended.
    pub from: String,
    /// The mode that began.
    pub to: String,
    /// The work of the agent.
    pub task: Option<String>,
}

/// Returns the transitions of `session` that are still there, oldest first, and the number of those
/// that have expired.
///
/// # Errors
/// As for reading commits.
pub fn past_transitions(repo: &Repository, session: &str) -> Result<(Vec<PastTransition>, u64)> {
    let branch = turntree::repo::BranchName::main(&format!("{session}{MODES_SUFFIX}"))?;
    let (mut found, mut expired) = (Vec::new(), 0);
    let Some(tip) = repo.tip(&branch) else { return Ok((found, expired)) };
    let state = agent_section(MAIN_AGENT, STATE)?;
    for entry in repo.history(&[tip], &[])?.first_parent() {
        let entry = entry?;
        if repo.tombstone(&entry.commit.tree).is_some() {
            expired += 1;
            continue;
        }
        let context = repo.context(&entry.id)?;
        let stored = StoredValues { source: repo, context: &context };
        let text = |name: &str| -> Result<Option<String>> {
            let json = stored.entry(&state, name)?;
            Ok(json.and_then(|json| serde_json::from_str(&json).ok()))
        };
        // Any other text on the line is no transition.
        if let (Some(from), Some(to)) = (text(FROM)?, text(TO)?) {
            let (id, time, task) = (entry.id, entry.commit.time, text(TASK)?);
            found.push(PastTransition { id, time, from, to, task });
        }
    }
    found.reverse();
    Ok((found, expired))
}

/// The facts of a file besides its context, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionFacts {
    /// The transition.
    pub id: String,
    /// When it was.
    pub timestamp: String,
}

impl TransitionFacts {
    /// Reads the facts of the commit `id`: those of the document that it was imported from,
    /// otherwise those of the commit.
    #[must_use]
    pub fn of(id: &ObjectId, commit: &Commit) -> Self {
        let told = |name: &str| commit.metadata.get(name).cloned();
        let micros = commit.time.micros;
        let own = || quoted(&format!("snapshot-{}-{}", micros.div_euclid(1000), base36(id)));
        let moment = || quoted(&iso_millis(micros));
        Self { id: told(ID).unwrap_or_else(own), timestamp: told(TIMESTAMP).unwrap_or_else(moment) }
    }
}

/// Returns nine digits of base 36 that represent an id.
fn base36(id: &ObjectId) -> String {
    let bytes = id.as_bytes().iter().take(8);
    let mut number = bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mut digits = String::new();
    for _ in 0..9 {
        digits
            .extend(u32::try_from(number % 36).ok().and_then(|digit| char::from_digit(digit, 36)));
        number /= 36;
    }
    digits
}

/// Writes a transition as upstream does, indented and without a line end.
///
/// # Errors
/// `NotFound` when the context has no transition, `Io` when `out` refuses, and errors of reading.
pub fn export_mode(
    source: &dyn ObjectSource,
    context: &Context,
    facts: &TransitionFacts,
    out: &mut dyn Write,
) -> Result<()> {
    let stored = StoredValues { source, context };
    let state = agent_section(MAIN_AGENT, STATE)?;
    let mut formatted = Formatted::new(out, true);
    let mut json = Json::new(&mut formatted);
    let modes = [FROM, TO].map(|name| stored.entry(&state, name));
    let [Some(from), Some(to)] = modes.map(|mode| mode.ok().flatten()) else {
        let message =
            "this is not a mode transition: expected a snapshot of a session that ends in .modes";
        return Err(Error::not_found(message));
    };
    json.open(b'{')?;
    json.raw("id", &facts.id)?;
    json.raw("timestamp", &facts.timestamp)?;
    json.raw(FROM, &from)?;
    json.raw(TO, &to)?;
    json.key("recentMessages")?;
    json.open(b'[')?;
    for message in recent_of(&stored, &facts.timestamp)? {
        json.element(message.as_bytes())?;
    }
    json.close(b']')?;
    for (name, default) in [(SKILLS, "[]"), (TOOLS, "[]"), (TASK, "null")] {
        let value = stored.entry(&state, name)?;
        json.raw(name, value.as_deref().unwrap_or(default))?;
    }
    for (name, section) in [(FINDINGS, FINDINGS), ("reasoningTraces", REASONING)] {
        if let Some(value) = stored.value(section)? {
            json.raw(name, &value)?;
        }
    }
    if let Some(other) = stored.entry(META, META_OTHER)? {
        for (name, value) in super::export::fields_of(&other) {
            json.raw(&name, &value)?;
        }
    }
    json.close(b'}')
}

/// The messages as a file has them: those that were imported from one as they were.
fn recent_of(stored: &StoredValues<'_>, timestamp: &str) -> Result<Vec<String>> {
    let list = stored.context.messages(stored.source, MAIN_AGENT)?;
    // A document that was imported may have more of them than upstream writes.
    let mut messages = Vec::new();
    for item in list.iter(stored.source, 0..list.len()) {
        let entry = MessageEntry::from_item(&item?)?;
        let bytes = stored.source.read_as(Object::Blob, &entry.blob)?;
        messages.push(match entry.media == MODE_NAME {
            true => String::from_utf8_lossy(&bytes).into_owned(),
            false => {
                let (role, said) = said(&entry, &bytes);
                format!(
                    r#"{{"role":{},"content":{},"timestamp":{timestamp}}}"#,
                    quoted(role),
                    quoted(&said)
                )
            }
        });
    }
    Ok(messages)
}

/// Returns the speaker and the text of a message of any format, results included.
pub(super) fn said(entry: &MessageEntry, bytes: &[u8]) -> (&'static str, String) {
    let view = view(&entry.media, bytes);
    let role = if entry.role == Role::Other { Role::User } else { entry.role };
    let results = view.tool_results.iter().map(|result| result.text.as_str());
    let texts: Vec<&str> = std::iter::once(view.text.as_str())
        .chain(results)
        .filter(|text| !text.is_empty())
        .collect();
    (role.name(), texts.join("\n"))
}
