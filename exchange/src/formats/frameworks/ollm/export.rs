//! Any context becomes a snapshot file of version 1.0.
//!
//! Values that were imported from OLLM CLI are written as they were imported. Content of other
//! systems is written as far as a file has a place for it. Tool calls and the call of a result go
//! into a message's `metadata`, the only place where upstream keeps unknown fields.

use std::io::Write;

use serde_json::{Map, Value, json};
use turntree::context::sections::{CHECKPOINTS, GOALS, META, REASONING, STATE};
use turntree::context::{
    Context, JSON_MEDIA, MAIN_AGENT, MessageEntry, Role, Shape, agent_section,
};
use turntree::error::Result;
use turntree::object::{Commit, Kind, ObjectId, ObjectSource, Trigger};

use super::super::iso_millis::iso_millis;
use super::super::json_writer::{Formatted, Json, quoted};
use super::stored::{StoredValues, object};
use super::{
    CONTEXT_NAME, ID, META_ARCHIVED, META_ORDER, META_OTHER, SESSION, SUMMARY, TIMESTAMP, TOKENS,
};
use crate::formats::view;
use crate::model::view::MessageView;
use crate::text::json as text;

/// The metadata names that upstream knows, in its order.
const METADATA: [&str; 13] = [
    "model",
    "contextSize",
    "compressionRatio",
    "totalUserMessages",
    "activeGoalId",
    "totalGoalsCompleted",
    "totalCheckpoints",
    "isReasoningModel",
    "totalThinkingTokens",
    "purpose",
    "createdBy",
    "messageCount",
    "checkpointCount",
];

/// The fields of a message that upstream writes: of one in `userMessages`, and of one in `messages`.
const USER_FIELDS: [&str; 6] = ["id", "role", "content", "timestamp", "tokenCount", "taskId"];
const MESSAGE_FIELDS: [&str; 6] = ["id", "role", "content", "timestamp", "tokenCount", "metadata"];

/// The reader of a snapshot file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OllmCompat {
    /// A reader that wants all known content: each message once, and fields that upstream ignores.
    #[default]
    Sound,
    /// OLLM CLI 0.1.1 to 0.1.6, which restores `messages` alone: user messages are written to both
    /// arrays, and the file has no field that upstream would not write.
    Upstream,
}

/// Characters of a summary from one message, and from each of two.
const SUMMARY_UNITS: usize = 100;
const HALF_SUMMARY_UNITS: usize = 50;

/// The facts of a file besides its context, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotFacts {
    /// The snapshot.
    pub id: String,
    /// The session.
    pub session: String,
    /// When it was taken.
    pub timestamp: String,
    /// Tokens of the context; counted if `None`.
    pub tokens: Option<String>,
    /// A line for people; derived from the user messages if `None`.
    pub summary: Option<String>,
    /// The model, if the context does not record it; empty if unknown.
    pub model: String,
    /// Milliseconds since the Unix epoch: messages without a time are placed before it.
    pub millis: i64,
    /// The reason of the snapshot, in upstream's terms, if the context does not record it.
    pub purpose: &'static str,
}

impl SnapshotFacts {
    /// Reads the facts of the commit `id`: those of the document that it was imported from,
    /// otherwise those of the commit.
    #[must_use]
    pub fn of(id: &ObjectId, commit: &Commit) -> Self {
        let told = |name: &str| commit.metadata.get(name).cloned();
        // A modified snapshot gets an id of its own.
        let imported = told(ID).is_some();
        Self {
            id: told(ID).unwrap_or_else(|| quoted(&uuid(id))),
            session: told(SESSION).unwrap_or_else(|| quoted(&commit.session)),
            timestamp: told(TIMESTAMP)
                .filter(|moment| moment.starts_with('"'))
                .unwrap_or_else(|| quoted(&iso_millis(commit.time.micros))),
            tokens: told(TOKENS),
            summary: told(SUMMARY).or_else(|| imported.then(|| quoted(&commit.message))),
            model: commit.author.model.clone(),
            millis: commit.time.micros.div_euclid(1000),
            purpose: if commit.trigger == Trigger::Emergency { "emergency" } else { "recovery" },
        }
    }
}

/// Writes `context` as a snapshot file, indented as upstream does, without a line end.
///
/// # Errors
/// `Io` when `out` refuses, and errors of reading.
pub fn export_context(
    source: &dyn ObjectSource,
    context: &Context,
    facts: &SnapshotFacts,
    compat: OllmCompat,
    out: &mut dyn Write,
) -> Result<()> {
    let stored = StoredValues { source, context };
    let messages = messages(&stored, facts.millis)?;
    let mut formatted = Formatted::new(out, true);
    let mut json = Json::new(&mut formatted);
    let tokens = match &facts.tokens {
        Some(tokens) => tokens.clone(),
        None => messages.iter().map(|message| message.tokens).sum::<u64>().to_string(),
    };
    json.open(b'{')?;
    json.text("version", "1.0")?;
    json.raw("id", &facts.id)?;
    json.raw("sessionId", &facts.session)?;
    json.raw("timestamp", &facts.timestamp)?;
    json.raw("tokenCount", &tokens)?;
    let summary = facts.summary.clone().unwrap_or_else(|| summary(&messages));
    json.raw("summary", &summary)?;
    let mut metadata = metadata(&stored, facts, &tokens, messages.len())?;
    let for_upstream = match compat {
        OllmCompat::Sound => None,
        OllmCompat::Upstream => Some(checkpoints(&stored)?),
    };
    if let Some(checkpoints) = &for_upstream {
        complete(&mut metadata, facts, messages.len(), checkpoints.len());
    }
    json.raw("metadata", &object(&metadata))?;
    write_messages(&mut json, &stored, &messages, compat)?;
    if let Some(checkpoints) = for_upstream {
        json.raw("checkpoints", &format!("[{}]", checkpoints.join(",")))?;
        return json.close(b'}');
    }
    for (name, section) in
        [("checkpoints", CHECKPOINTS), ("goalStack", GOALS), ("reasoningStorage", REASONING)]
    {
        if let Some(value) = stored.value(section)? {
            json.raw(name, &value)?;
        }
    }
    if let Some(other) = stored.entry(META, META_OTHER)? {
        // A migrated snapshot may have names with another meaning in a file of 1.0.
        for (name, value) in fields_of(&other).into_iter().filter(|(name, _)| !is_own(name)) {
            json.raw(&name, &value)?;
        }
    }
    json.close(b'}')
}

/// The users' messages and the others; for upstream all of them are among the others.
fn write_messages(
    json: &mut Json<'_>,
    stored: &StoredValues<'_>,
    messages: &[MessageText],
    compat: OllmCompat,
) -> Result<()> {
    let is_sound = compat == OllmCompat::Sound;
    let archived = stored.entry(META, META_ARCHIVED)?.filter(|_| is_sound);
    for (name, is_user, known) in
        [("userMessages", true, USER_FIELDS), ("messages", false, MESSAGE_FIELDS)]
    {
        json.key(name)?;
        json.open(b'[')?;
        for message in messages {
            let is_here = (message.role == Role::User) == is_user;
            match compat {
                OllmCompat::Sound if is_here => json.element(message.json.as_bytes())?,
                OllmCompat::Upstream if is_here || !is_user => {
                    let fields = fields_of(&message.json);
                    let field = |name: &&str| fields.iter().rfind(|(field, _)| field == name);
                    let kept: Vec<_> = known.iter().filter_map(field).cloned().collect();
                    json.element(object(&kept).as_bytes())?;
                }
                _ => {}
            }
        }
        json.close(b']')?;
        if is_user {
            json.raw("archivedUserMessages", archived.as_deref().unwrap_or("[]"))?;
        }
    }
    Ok(())
}

/// The checkpoints; none when the section is no list.
fn checkpoints(stored: &StoredValues<'_>) -> Result<Vec<String>> {
    match stored.context.section(stored.source, CHECKPOINTS)? {
        Some(found) if found.shape == Shape::List => stored.list(CHECKPOINTS),
        _ => Ok(Vec::new()),
    }
}

/// Completes metadata to the form of upstream: its known names, with the reason and the sizes.
fn complete(
    metadata: &mut Vec<(String, String)>,
    facts: &SnapshotFacts,
    messages: usize,
    checkpoints: usize,
) {
    let counts =
        [("messageCount", messages.to_string()), ("checkpointCount", checkpoints.to_string())];
    metadata.retain(|(name, _)| {
        METADATA.contains(&&**name) && counts.iter().all(|(count, _)| count != name)
    });
    for (name, told) in [("purpose", facts.purpose), ("createdBy", "SnapshotLifecycle")] {
        if !metadata.iter().any(|(known, _)| known == name) {
            metadata.push((name.to_owned(), quoted(told)));
        }
    }
    metadata.extend(counts.map(|(name, count)| (name.to_owned(), count)));
}

/// Returns true if a file of 1.0 has a field of this name.
fn is_own(name: &str) -> bool {
    let own = ["version", "id", "sessionId", "timestamp", "tokenCount", "summary", "metadata"];
    let lists = ["userMessages", "archivedUserMessages", "messages", "checkpoints"];
    let state = ["goalStack", "reasoningStorage", "conversationState"];
    own.contains(&name) || lists.contains(&name) || state.contains(&name)
}

/// Returns the metadata: the fields of the document, in their order, then the other known facts.
fn metadata(
    stored: &StoredValues<'_>,
    facts: &SnapshotFacts,
    tokens: &str,
    messages: usize,
) -> Result<Vec<(String, String)>> {
    let state = agent_section(MAIN_AGENT, STATE)?;
    let told = stored.entry(META, &format!("{META_ORDER}{state}"))?;
    let told: Option<Vec<String>> = told.and_then(|order| serde_json::from_str(&order).ok());
    let mut fields = stored.fields(&state)?;
    // The state of another system's agent is no metadata of a snapshot.
    fields.retain(|(name, _)| {
        METADATA.contains(&name.as_str()) || told.as_ref().is_some_and(|told| told.contains(name))
    });
    if told.is_none() {
        let place = |name: &str| METADATA.iter().position(|known| *known == name);
        fields.sort_by_key(|(name, _)| place(name));
    }
    let model = if facts.model.is_empty() { "unknown" } else { &facts.model };
    // A migrated snapshot has no count of tokens: upstream then counts messages.
    let size = if told.is_some() { messages.to_string() } else { tokens.to_owned() };
    let defaults =
        [("model", quoted(model)), ("contextSize", size), ("compressionRatio", "1".into())];
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in defaults {
        if !fields.iter().any(|(known, _)| known == name) {
            all.push((name.to_owned(), value));
        }
    }
    all.append(&mut fields);
    Ok(all)
}

/// A message in the form of a file.
struct MessageText {
    role: Role,
    json: String,
    text: String,
    tokens: u64,
}

fn messages(stored: &StoredValues<'_>, end: i64) -> Result<Vec<MessageText>> {
    let list = stored.context.messages(stored.source, MAIN_AGENT)?;
    let mut read = Vec::new();
    for item in list.iter(stored.source, 0..list.len()) {
        let entry = MessageEntry::from_item(&item?)?;
        let bytes = stored.source.read_as(Kind::Blob, &entry.blob)?;
        let is_own = entry.media == CONTEXT_NAME || entry.media == JSON_MEDIA;
        let moment = is_own.then(|| moment_of(&bytes)).flatten();
        read.push((entry, bytes, is_own, moment));
    }
    let moments: Vec<Option<i64>> = read.iter().map(|(.., moment)| *moment).collect();
    let mut clock = Clock::new(&moments, end);
    let mut written: Vec<MessageText> = Vec::new();
    for (at, (entry, bytes, is_own, moment)) in read.iter().enumerate() {
        clock.advance_to(at, *moment);
        let own = is_own.then(|| own(bytes, entry.role, written.len(), *moment, &mut clock));
        match own.flatten() {
            Some(message) => written.push(message),
            None => told(&view(&entry.media, bytes), entry.role, &mut written, &mut clock),
        }
    }
    Ok(written)
}

/// Returns the time recorded in a message, in microseconds.
fn moment_of(bytes: &[u8]) -> Option<i64> {
    let message = text::value(bytes)?;
    text::time(message.get("timestamp")?).map(|time| time.micros)
}

/// Times for messages that have none. Upstream sorts by time, so each is later than the message
/// before it and not later than the next one that has its own.
struct Clock {
    micros: i64,
    /// For each message, the moment of the next one that has one.
    limits: Vec<i64>,
    limit: i64,
}

impl Clock {
    fn new(moments: &[Option<i64>], end: i64) -> Self {
        let mut limits = vec![i64::MAX; moments.len()];
        let mut next = i64::MAX;
        for (limit, moment) in limits.iter_mut().zip(moments).rev() {
            *limit = next;
            next = moment.unwrap_or(next);
        }
        let first = moments.iter().flatten().next().copied().unwrap_or(end.saturating_mul(1000));
        let count = i64::try_from(moments.len()).unwrap_or(i64::MAX);
        let micros = first.saturating_sub(count.saturating_mul(1000));
        Self { micros, limits, limit: i64::MAX }
    }

    /// Advances to the message `at`.
    fn advance_to(&mut self, at: usize, moment: Option<i64>) {
        self.limit = self.limits.get(at).copied().unwrap_or(i64::MAX);
        self.micros = moment.unwrap_or(self.micros);
    }

    /// A moment for a message, or for one more of it.
    fn next(&mut self) -> String {
        self.micros = self.micros.saturating_add(1000).min(self.limit);
        iso_millis(self.micros)
    }
}

/// Returns a message of OLLM CLI, with its missing fields added; `None` for anything else.
fn own(
    bytes: &[u8],
    role: Role,
    index: usize,
    moment: Option<i64>,
    clock: &mut Clock,
) -> Option<MessageText> {
    let raw = std::str::from_utf8(bytes).ok()?;
    let parsed = text::Text::new(bytes)?;
    let super::super::json_parts::Fields(found) = parsed.parse().ok()?;
    let mut fields = Vec::with_capacity(found.len());
    for (name, value) in found {
        let range = parsed.range_of(value)?;
        fields.push((name, value.get().to_owned(), raw.get(range)?.to_owned()));
    }
    let mended =
        |name: &str| fields.iter().rfind(|(field, ..)| field == name).map(|(_, mended, _)| mended);
    let content: String = match mended("content").map(|json| serde_json::from_str::<Value>(json)) {
        Some(Ok(Value::String(content))) => content,
        Some(Ok(Value::Null)) | None => String::new(),
        _ => return None,
    };
    let tokens = mended("tokenCount").and_then(|json| json.parse().ok());
    let named: Option<String> = mended("role").and_then(|json| serde_json::from_str(json).ok());
    let role = if named.is_none() && role == Role::Other { Role::User } else { role };
    // Role names of other systems do not count as names here; an unknown name is kept.
    let is_named = named.is_some_and(|named| role == Role::Other || named == role.name());
    let is_whole = ["id", "content"].iter().all(|name| mended(name).is_some()) && is_named;
    let needs = !is_whole || moment.is_none() || LINKS.iter().any(|name| mended(name).is_some());
    if !is_named {
        fields.retain(|(name, ..)| name != "role");
    }
    let json = match (needs, moment) {
        (false, Some(_)) => raw.to_owned(),
        _ => {
            let moment = moment.is_none().then(|| clock.next());
            completed(
                fields.into_iter().map(|(name, _, raw)| (name, raw)).collect(),
                role,
                index,
                moment,
            )
        }
    };
    let tokens = tokens.unwrap_or_else(|| estimate(&content));
    Some(MessageText { role, json, text: content, tokens })
}

/// Adds the fields that link calls and results, which upstream would not write.
const LINKS: [&str; 2] = ["toolCalls", "toolCallId"];

/// A message with all that upstream expects first, in its order, and links in its metadata.
fn completed(
    mut fields: Vec<(String, String)>,
    role: Role,
    index: usize,
    moment: Option<String>,
) -> String {
    let mut take = |name: &str| {
        let found = fields.iter().rfind(|(field, _)| field == name).map(|(_, json)| json.clone());
        fields.retain(|(field, _)| field != name);
        found
    };
    let given = take("timestamp");
    let mut all = vec![
        ("id".to_owned(), take("id").unwrap_or_else(|| quoted(&message_id(index)))),
        ("role".to_owned(), take("role").unwrap_or_else(|| quoted(name_of(role)))),
        ("content".to_owned(), take("content").unwrap_or_else(|| "\"\"".to_owned())),
        (
            "timestamp".to_owned(),
            moment.map(|moment| quoted(&moment)).or(given).unwrap_or_default(),
        ),
    ];
    for name in ["tokenCount", "taskId"] {
        all.extend(take(name).map(|json| (name.to_owned(), json)));
    }
    let links = LINKS.map(|name| (name.to_owned(), take(name)));
    let links = links.into_iter().filter_map(|(name, json)| Some((name, json?)));
    let metadata = take("metadata");
    let mut inner = metadata.as_deref().map(fields_of).unwrap_or_default();
    let had = !inner.is_empty() || metadata.is_some();
    for (name, json) in links {
        inner.retain(|(field, _)| *field != name);
        inner.push((name, json));
    }
    if had || !inner.is_empty() {
        all.push(("metadata".to_owned(), object(&inner)));
    }
    all.append(&mut fields);
    object(&all)
}

/// Writes a message of another system: its text, then a message for each result.
fn told(view: &MessageView, role: Role, written: &mut Vec<MessageText>, clock: &mut Clock) {
    let says = !view.text.is_empty() || !view.tool_calls.is_empty() || !view.thinking.is_empty();
    if says || view.tool_results.is_empty() {
        let mut metadata = Map::new();
        if !view.tool_calls.is_empty() {
            let calls = view.tool_calls.iter().map(|call| {
                let args = serde_json::from_str(&call.input);
                let args = args.unwrap_or_else(|_| Value::from(call.input.as_str()));
                json!({"id": call.id, "name": call.name, "args": args})
            });
            metadata.insert("toolCalls".to_owned(), calls.collect());
        }
        if !view.thinking.is_empty() {
            metadata.insert("thinking".to_owned(), view.thinking.as_str().into());
        }
        let id = view.id.clone().unwrap_or_else(|| message_id(written.len()));
        written.push(message(&id, role, &view.text, metadata, clock));
    }
    for result in &view.tool_results {
        let metadata = Map::from_iter([("toolCallId".to_owned(), result.call_id.as_str().into())]);
        let id = message_id(written.len());
        written.push(message(&id, Role::Tool, &result.text, metadata, clock));
    }
}

fn message(
    id: &str,
    role: Role,
    said: &str,
    metadata: Map<String, Value>,
    clock: &mut Clock,
) -> MessageText {
    let role = if role == Role::Other { Role::User } else { role };
    let mut message =
        json!({"id": id, "role": role.name(), "content": said, "timestamp": clock.next()});
    if let (Some(fields), false) = (message.as_object_mut(), metadata.is_empty()) {
        fields.insert("metadata".to_owned(), metadata.into());
    }
    MessageText { role, json: message.to_string(), text: said.to_owned(), tokens: estimate(said) }
}

fn name_of(role: Role) -> &'static str {
    if role == Role::Other { "user" } else { role.name() }
}

fn message_id(index: usize) -> String {
    format!("msg-{}", index + 1)
}

/// Tokens of a text as upstream estimates them: a quarter of its UTF-16 units, rounded up.
fn estimate(text: &str) -> u64 {
    text.encode_utf16().count().div_ceil(4) as u64
}

/// Returns upstream's summary line: the first and the last message of the user, cut in UTF-16
/// units.
fn summary(messages: &[MessageText]) -> String {
    let mut users = messages.iter().filter(|message| message.role == Role::User);
    let Some(first) = users.next() else { return quoted("Empty conversation") };
    match users.next_back() {
        None => cut(&first.text, SUMMARY_UNITS).to_string(),
        Some(last) => {
            let (first, last) =
                (cut(&first.text, HALF_SUMMARY_UNITS), cut(&last.text, HALF_SUMMARY_UNITS));
            let inner = |json: &Value| json.as_str().unwrap_or_default().to_owned();
            quoted(&format!("{} ... {}", inner(&first), inner(&last)))
        }
    }
}

/// A text of at most `units` UTF-16 units. Half a character is left out, where upstream keeps the half.
fn cut(text: &str, units: usize) -> Value {
    if text.encode_utf16().count() <= units {
        return text.into();
    }
    let mut left = units.saturating_sub(3);
    let mut cut: String = text
        .chars()
        .take_while(|character| {
            let fits = character.len_utf16() <= left;
            left = if fits { left - character.len_utf16() } else { 0 };
            fits
        })
        .collect();
    cut.push_str("...");
    cut.into()
}

/// The fields of an object as they were written.
pub(super) fn fields_of(json: &str) -> Vec<(String, String)> {
    let parsed = text::Text::new(json.as_bytes());
    let fields = parsed.as_ref().and_then(|parsed| {
        let super::super::json_parts::Fields(fields) = parsed.parse().ok()?;
        let raw = |(name, value): (String, &serde_json::value::RawValue)| {
            Some((name, json.get(parsed.range_of(value)?)?.to_owned()))
        };
        fields.into_iter().map(raw).collect()
    });
    fields.unwrap_or_default()
}

/// The id of a commit in the form of a UUID.
fn uuid(id: &ObjectId) -> String {
    let hex = id.to_string();
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}
