//! Reconstructs the snapshot document from all events of a log, in one pass over the log.
//!
//! Events are ordered by time and, for equal times, by their place in the log. Nothing is sorted
//! early: every changed value keeps its key, and later keys win. Memory holds the resulting
//! document, one line, and some bytes for each message.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, Write};
use std::ops::Range;

use serde_json::value::RawValue;
use turntree::context::Role;
use turntree::error::{Error, Result};
use turntree::object::Time;

use super::super::json_writer::{Formatted, Json, quoted};
use super::compat::SwarmCompat;
use super::document::{Pad, SnapshotVersion, SwarmSnapshot};
use super::log::{Effect, LogEvent};
use super::sections::{root_of, text_in};
use super::{SDK_VERSION, begins_array, split_log};
use crate::model::report::{ImportNote, MAX_NOTES};
use crate::text::json::{MAX_DEPTH, Text, is_too_deep};
use crate::text::lines::{LineSplitter, MAX_LINE_BYTES};
use crate::text::piece::PieceKind;

/// Options of a reconstruction.
#[derive(Debug, Clone, Default)]
pub struct ReconstructionOptions<'a> {
    /// Leave out events after this time.
    pub until: Option<Time>,
    /// The rules that apply.
    pub compat: SwarmCompat,
    /// The current time, in ISO 8601, for a log whose events have no time.
    pub now: String,
    /// A snapshot document that the events continue; without one they begin with nothing.
    pub base: Option<&'a [u8]>,
}

/// The place of an event: its moment, and its number in the log.
type EventPlace = (i64, u64);

/// The state that the events of a log result in.
#[derive(Debug, Default)]
pub struct Reconstruction {
    agents: Vec<Agent>,
    by_name: HashMap<String, usize>,
    scratchpad: BTreeMap<String, (EventPlace, String)>,
    /// The first event, with its metadata.
    first: Option<(EventPlace, String)>,
    /// The last event, with its moment as it is written.
    last: Option<(EventPlace, Option<String>)>,
    /// The facts of a base besides agents and scratchpad.
    base: Option<Base>,
    has_breaks: bool,
    now: String,
    compat: SwarmCompat,
    /// Events that counted.
    pub events: u64,
    /// Lines that were left out or are unusual, at most 1,000 of them.
    pub notes: Vec<ImportNote>,
}

#[derive(Debug)]
struct Base {
    kind: String,
    sdk: Option<String>,
    metadata: Option<String>,
    plugins: String,
    has_memory: bool,
}

#[derive(Debug, Default)]
struct Agent {
    name: String,
    first: EventPlace,
    /// Messages as JSON, concatenated in the order of the log.
    spoken: Vec<u8>,
    messages: Vec<(EventPlace, Range<usize>, bool)>,
    thresholds: BTreeSet<i64>,
    compressed: Option<bool>,
    prompt: Option<(EventPlace, Option<String>)>,
    todo: Option<(EventPlace, Option<String>)>,
    /// The index of a base, until an event sets another.
    todo_index: Option<u64>,
    skill: Option<(EventPlace, String)>,
    reads: BTreeMap<String, (EventPlace, String)>,
    memory_reads: BTreeMap<String, (EventPlace, String)>,
}

/// Reconstructs the state that a log results in.
///
/// # Errors
/// `InvalidInput` for a base that is no snapshot, and with [`SwarmCompat::Upstream`] where upstream
/// fails; `LimitExceeded` for a line that is too long, and errors of reading. A line that is no
/// event is left out, with a note.
pub fn reconstruct(
    mut input: impl BufRead,
    options: &ReconstructionOptions<'_>,
) -> Result<Reconstruction> {
    let mut state = Reconstruction {
        now: options.now.clone(),
        compat: options.compat,
        ..Reconstruction::default()
    };
    if let Some(base) = options.base {
        state.begin(base).map_err(|error| error.at("the base"))?;
    }
    let until = options.until.map_or(i64::MAX, |time| time.micros);
    if begins_array(&mut input) {
        state.has_breaks = true;
        for piece in split_log(Box::new(input)) {
            let piece = piece?;
            match &piece.kind {
                PieceKind::Record { .. } => {
                    state.line(&piece.bytes, until, piece.line, piece.offset)?;
                }
                PieceKind::Damaged { reason } => state.note(piece.line, piece.offset, reason),
                PieceKind::Trivia { .. } => {}
            }
        }
    } else {
        state.lines(&mut input, until)?;
    }
    Ok(state)
}

impl Reconstruction {
    fn lines(&mut self, input: &mut impl BufRead, until: i64) -> Result<()> {
        let mut line = Vec::new();
        let (mut number, mut offset) = (0, 0);
        loop {
            line.clear();
            number += 1;
            let mut limited = std::io::Read::take(&mut *input, MAX_LINE_BYTES + 1);
            limited
                .read_until(b'\n', &mut line)
                .map_err(|error| Error::io(format!("read line {number}"), error))?;
            if line.is_empty() {
                return Ok(());
            }
            if line.len() as u64 > MAX_LINE_BYTES {
                let what = format!("bytes of line {number}");
                return Err(Error::limit(what, MAX_LINE_BYTES, line.len() as u64));
            }
            let plain = line.strip_prefix(b"\xEF\xBB\xBF").filter(|_| number == 1);
            let plain = plain.unwrap_or(&line);
            if is_too_deep_for_import(plain) || !self.line(plain, until, number, offset)? {
                self.odd_line(plain, until, number, offset)?;
            }
            offset += line.len() as u64;
        }
    }

    /// A line that is blank, torn, or has several events: cut as an import cuts it.
    fn odd_line(&mut self, line: &[u8], until: i64, number: u64, offset: u64) -> Result<()> {
        for piece in LineSplitter::new(line) {
            let piece = piece?;
            let offset = offset + piece.offset;
            match &piece.kind {
                PieceKind::Record { .. } => {
                    self.line(&piece.bytes, until, number, offset)?;
                }
                PieceKind::Damaged { .. } => {
                    self.note(number, offset, "not a JSON object: expected an event");
                }
                PieceKind::Trivia { .. } => {}
            }
        }
        Ok(())
    }

    fn note(&mut self, line: u64, offset: u64, what: &str) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(ImportNote { line, offset, what: what.to_owned() });
        }
    }

    /// Takes the event in `line` in; false when that is no JSON object.
    fn line(&mut self, line: &[u8], until: i64, number: u64, offset: u64) -> Result<bool> {
        let text = Text::new(line);
        let Some(event) = text.as_ref().and_then(LogEvent::of) else {
            return Ok(false);
        };
        if self.compat == SwarmCompat::StringKeys {
            let key = (0, self.events);
            self.events += 1;
            self.first.get_or_insert_with(|| (key, metadata(None, None)));
            self.last = Some((key, None));
            return Ok(true);
        }
        if event.instant() > until {
            return Ok(true);
        }
        let effect = event.effect();
        if let Some(odd) = event.odd(&effect) {
            self.note(number, offset, odd);
        }
        if self.compat == SwarmCompat::Upstream && effect == Effect::Skill(None) {
            return Err(Error::invalid(format!("line {number}: a LoadSkill without arguments")));
        }
        self.event(&event, effect);
        Ok(true)
    }

    fn event(&mut self, event: &LogEvent<'_>, effect: Effect<'_>) {
        let key = (event.instant(), self.events);
        self.events += 1;
        if self.first.as_ref().is_none_or(|(first, _)| key < *first) {
            self.first = Some((key, metadata(event.swarm(), event.parent_swarm())));
        }
        if self.last.as_ref().is_none_or(|(last, _)| key >= *last) {
            // The text is replaced with almost every event, so its memory is used again.
            let mut told = self.last.take().and_then(|(_, told)| told).unwrap_or_default();
            told.clear();
            let told = event.timestamp().map(|raw| {
                told.push_str(raw.get());
                told
            });
            self.last = Some((key, told));
        }
        let Some(name) = event.agent() else { return };
        let compat = self.compat;
        let agent = self.agent(&name, key);
        if let Some(role) = event.role() {
            agent.say(key, role == Role::Assistant, |out| event.render_as(role, compat, out));
        }
        match effect {
            Effect::None | Effect::Odd(_) | Effect::Skill(None) => {}
            Effect::Start(prompt) => later(&mut agent.prompt, key, prompt),
            Effect::Threshold(threshold) => {
                agent.thresholds.insert(threshold);
            }
            Effect::Compressed => agent.compressed = Some(true),
            Effect::Todo(call) => later(&mut agent.todo, key, call),
            Effect::Skill(Some(path)) => {
                later(&mut agent.skill, key, path.unwrap_or("null").to_owned());
            }
            Effect::Read { path, digest } => keep(&mut agent.reads, path, key, digest),
            Effect::MemoryRead { path, digest } => {
                keep(&mut agent.memory_reads, path, key, digest);
            }
            Effect::Write { path, entry } => keep(&mut self.scratchpad, path, key, entry),
        }
    }

    fn agent(&mut self, name: &str, key: EventPlace) -> &mut Agent {
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None => {
                let at = self.agents.len();
                self.by_name.insert(name.to_owned(), at);
                let agent = Agent { name: name.to_owned(), first: key, ..Agent::default() };
                self.agents.push(agent);
                at
            }
        };
        // The index was inserted above.
        #[expect(clippy::indexing_slicing, reason = "indices come from by_name alone")]
        let agent = &mut self.agents[at];
        agent.first = agent.first.min(key);
        agent
    }

    /// Begins with the content of a snapshot.
    fn begin(&mut self, document: &[u8]) -> Result<()> {
        let text = text_in(document)?;
        let snapshot = SwarmSnapshot::of(root_of(&text)?)?;
        self.has_breaks = true;
        let before = (i64::MIN, 0);
        for recorded in snapshot.agents.iter().chain(&snapshot.instances) {
            let agent = self.agent(&recorded.name, before);
            for message in &recorded.messages {
                let json = message.json.get().as_bytes();
                agent.say(before, message.role == "assistant", |out| out.extend_from_slice(json));
            }
            agent.prompt = Some((before, recorded.prompt.clone()));
            for (key, value) in &recorded.state {
                let json = value.get();
                match key.as_str() {
                    "warning_thresholds_hit" => {
                        agent.thresholds = serde_json::from_str(json).unwrap_or_default();
                    }
                    "compression_applied" => agent.compressed = json.parse().ok(),
                    "last_todowrite_message_index" => agent.todo_index = json.parse().ok(),
                    "active_skill_path" => agent.skill = Some((before, json.to_owned())),
                    _ => {}
                }
            }
        }
        for (tracked, is_memory) in [(&snapshot.reads, false), (&snapshot.memory_reads, true)] {
            for (name, digests) in tracked {
                let agent = self.agent(name, before);
                let kept = if is_memory { &mut agent.memory_reads } else { &mut agent.reads };
                for (path, digest) in digests {
                    let digest = super::document::text_of(digest).unwrap_or_default();
                    keep(kept, path.clone(), before, digest);
                }
            }
        }
        let (Pad::Flat(entries) | Pad::Shared(entries)) = &snapshot.pad else {
            return Err(Error::invalid(
                "scratchpad: events do not name the node that wrote, and the snapshot has one scratchpad for each node",
            ));
        };
        for (path, entry) in entries {
            keep(&mut self.scratchpad, path.clone(), before, entry.get().to_owned());
        }
        let plugins = snapshot.plugins.iter().map(|(plugin, states)| {
            let states =
                states.iter().map(|(agent, state)| format!("{}:{}", quoted(agent), state.get()));
            format!("{}:{{{}}}", quoted(plugin), states.collect::<Vec<_>>().join(","))
        });
        let raw = |value: Option<&RawValue>| value.map(|value| value.get().to_owned());
        self.base = Some(Base {
            kind: if snapshot.kind == "swarm" { "swarm" } else { "workflow" }.to_owned(),
            sdk: raw(snapshot.sdk),
            metadata: raw(snapshot.metadata),
            plugins: format!("{{{}}}", plugins.collect::<Vec<_>>().join(",")),
            has_memory: snapshot.tells_memory,
        });
        self.last = Some((before, raw(snapshot.moment)));
        Ok(())
    }

    /// Writes the document: indented by two spaces, or on one line.
    ///
    /// # Errors
    /// `Io` when `out` refuses.
    pub fn write(&self, indent: bool, out: &mut dyn Write) -> Result<()> {
        if !indent && !self.has_breaks {
            return self.document(&mut Json::new(out));
        }
        self.document(&mut Json::new(&mut Formatted::new(out, indent)))
    }

    fn document(&self, json: &mut Json<'_>) -> Result<()> {
        let base = self.base.as_ref();
        json.open(b'{')?;
        json.text("version", SnapshotVersion::V2_1.name())?;
        json.text("type", base.map_or("swarm", |base| &base.kind))?;
        let moment = match &self.last {
            None => "null".to_owned(),
            Some((_, None)) => quoted(&self.now),
            Some((_, Some(moment))) => moment.clone(),
        };
        json.raw("snapshot_at", &moment)?;
        let sdk = quoted(SDK_VERSION);
        json.raw("swarm_sdk_version", base.and_then(|base| base.sdk.as_deref()).unwrap_or(&sdk))?;
        json.raw("metadata", &self.metadata())?;
        let mut agents: Vec<&Agent> = self.agents.iter().collect();
        agents.sort_by_key(|agent| agent.first);
        for (name, is_instance) in [("agents", false), ("delegation_instances", true)] {
            json.key(name)?;
            json.open(b'{')?;
            for agent in agents.iter().filter(|agent| agent.name.contains('@') == is_instance) {
                agent.write(json)?;
            }
            json.close(b'}')?;
        }
        json.key("scratchpad")?;
        json.open(b'{')?;
        let is_shared = base.is_some_and(|base| base.kind == "workflow");
        if is_shared && !self.scratchpad.is_empty() {
            json.raw("shared", "true")?;
            json.key("data")?;
            json.open(b'{')?;
        }
        for (path, (_, entry)) in &self.scratchpad {
            json.raw(path, entry)?;
        }
        if is_shared && !self.scratchpad.is_empty() {
            json.close(b'}')?;
        }
        json.close(b'}')?;
        let has_memory = |agent: &&Agent| !agent.memory_reads.is_empty();
        tracking(json, "read_tracking", &agents, |agent| &agent.reads)?;
        if base.is_none_or(|base| base.has_memory) || agents.iter().any(has_memory) {
            tracking(json, "memory_read_tracking", &agents, |agent| &agent.memory_reads)?;
        }
        json.raw("plugin_states", base.map_or("{}", |base| &base.plugins))?;
        json.close(b'}')
    }

    fn metadata(&self) -> String {
        match (&self.base, &self.first) {
            (Some(base), first) => {
                let recorded = base.metadata.as_deref().unwrap_or("{}");
                if first.is_some() { with_first_message(recorded) } else { recorded.to_owned() }
            }
            (None, Some((_, told))) => told.clone(),
            (None, None) => r#"{"id":null,"parent_id":null,"first_message_sent":false}"#.to_owned(),
        }
    }
}

/// Returns true if a line is nested deeper than an import accepts. Few lines have so many brackets
/// at all.
fn is_too_deep_for_import(line: &[u8]) -> bool {
    memchr::memchr2_iter(b'{', b'[', line).nth(MAX_DEPTH).is_some() && is_too_deep(line)
}

fn tracking(
    json: &mut Json<'_>,
    name: &str,
    agents: &[&Agent],
    kept: fn(&Agent) -> &BTreeMap<String, (EventPlace, String)>,
) -> Result<()> {
    json.key(name)?;
    json.open(b'{')?;
    for agent in agents.iter().filter(|agent| !kept(agent).is_empty()) {
        json.key(&agent.name)?;
        json.open(b'{')?;
        for (path, (_, digest)) in kept(agent) {
            json.text(path, digest)?;
        }
        json.close(b'}')?;
    }
    json.close(b'}')
}

impl Agent {
    fn say(&mut self, key: EventPlace, is_assistant: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.spoken.len();
        write(&mut self.spoken);
        self.messages.push((key, start..self.spoken.len(), is_assistant));
    }

    fn write(&self, json: &mut Json<'_>) -> Result<()> {
        let mut messages: Vec<&(EventPlace, Range<usize>, bool)> = self.messages.iter().collect();
        // A stable sort, and cheap if the messages are in order.
        messages.sort_by_key(|(key, ..)| *key);
        let said = |range: &Range<usize>| self.spoken.get(range.clone()).unwrap_or_default();
        json.key(&self.name)?;
        json.open(b'{')?;
        json.key("conversation")?;
        json.open(b'[')?;
        for (_, range, _) in &messages {
            json.element(said(range))?;
        }
        json.close(b']')?;
        json.key("context_state")?;
        json.open(b'{')?;
        let thresholds: Vec<_> = self.thresholds.iter().map(i64::to_string).collect();
        json.raw("warning_thresholds_hit", &format!("[{}]", thresholds.join(",")))?;
        let compressed = self.compressed.map_or("null".to_owned(), |applied| applied.to_string());
        json.raw("compression_applied", &compressed)?;
        let index = match &self.todo {
            None => self.todo_index,
            Some((_, call)) => call.as_deref().and_then(|call| {
                let spoken = messages.iter().filter(|(.., is_assistant)| *is_assistant);
                let mut spoken = spoken.map(|(_, range, _)| said(range));
                let found = spoken.position(|message| has_call(message, call))?;
                let assistants = messages.iter().enumerate().filter(|(_, (.., is))| *is);
                assistants.map(|(index, _)| index as u64).nth(found)
            }),
        };
        json.raw(
            "last_todowrite_message_index",
            &index.map_or("null".to_owned(), |n| n.to_string()),
        )?;
        json.raw("active_skill_path", self.skill.as_ref().map_or("null", |(_, path)| path))?;
        json.close(b'}')?;
        let prompt = self.prompt.as_ref().and_then(|(_, prompt)| prompt.as_deref());
        json.raw("system_prompt", &prompt.map_or("null".to_owned(), quoted))?;
        json.close(b'}')
    }
}

/// Returns true if a message of a document has the call `id`.
pub(super) fn has_call(message: &[u8], id: &str) -> bool {
    // Most messages do not have the id anywhere, so they need not be parsed.
    let text = std::str::from_utf8(message).unwrap_or_default();
    let may_have = text.contains(id) || text.contains("\\u");
    may_have && calls_of(message).iter().any(|call| call == id)
}

/// The calls of a message of a document.
pub(super) fn calls_of(message: &[u8]) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct CallingMessage {
        #[serde(default)]
        tool_calls: Vec<CallId>,
    }
    #[derive(serde::Deserialize)]
    struct CallId {
        id: Option<String>,
    }
    let message: Option<CallingMessage> = serde_json::from_slice(message).ok();
    let calls = message.map(|message| message.tool_calls).unwrap_or_default();
    calls.into_iter().filter_map(|call| call.id).collect()
}

/// Returns the facts of the swarm in the first event of a log.
pub(super) fn metadata(id: Option<&RawValue>, parent: Option<&RawValue>) -> String {
    let [id, parent] = [id, parent].map(|value| value.map_or("null", RawValue::get));
    format!(r#"{{"id":{id},"parent_id":{parent},"first_message_sent":true}}"#)
}

/// Returns the metadata of a snapshot after further events.
pub(super) fn with_first_message(metadata: &str) -> String {
    match serde_json::from_str(metadata) {
        Ok(serde_json::Value::Object(mut fields)) => {
            fields.insert("first_message_sent".to_owned(), true.into());
            serde_json::Value::Object(fields).to_string()
        }
        _ => metadata.to_owned(),
    }
}

fn later<T>(slot: &mut Option<(EventPlace, T)>, key: EventPlace, value: T) {
    if slot.as_ref().is_none_or(|(found, _)| key >= *found) {
        *slot = Some((key, value));
    }
}

fn keep(
    map: &mut BTreeMap<String, (EventPlace, String)>,
    path: String,
    key: EventPlace,
    value: String,
) {
    match map.entry(path) {
        Entry::Vacant(entry) => {
            entry.insert((key, value));
        }
        Entry::Occupied(mut entry) => {
            if key >= entry.get().0 {
                entry.insert((key, value));
            }
        }
    }
}
