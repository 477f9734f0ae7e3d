//! Collects the answers of models in a history, with their agent, tools and usage. Counts each
//! answer once.
//!
//! The id of an answer identifies it, or else the record with its usage. Several records of an
//! answer, copies in resumed or forked sessions, and messages that a compaction adds to the list
//! again count as one answer. Codex records its counts outside of the conversation, as a running
//! total: the usage of an answer is the growth of the total.

mod running_total;
mod runs;
mod totals;
mod unsent;

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use memchr::memmem::find;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turntree::context::sections::{META, SOURCE, conversation_agent};
use turntree::context::{
    Context, ContextDiff, MAIN_AGENT, MessageEntry, Role, SourceEntry, SourceKind, Transcript,
};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, ID_BYTES, Kind, ObjectId, ObjectSource};
use turntree::tree::Item;

use self::runs::Runs;
use self::totals::FORMATS_WITH_TOTALS;
use super::usage::{
    Counts, RecordedUsage, TokenUsage, answer_id, response_usage, running_total, separate_usage,
    usage_of, usage_with_cache,
};
use crate::formats::{FAMILY, view};
use crate::import::rewind::source_start;
use crate::text::json::{self, text_at};

/// Keys of facts.
const FORMAT: &[u8] = b"format";
const SESSION_ID: &[u8] = b"session_id";
const FORKED_FROM: &[u8] = b"forked_from";
const FAMILY_KEY: &[u8] = FAMILY.as_bytes();

/// The format that records its counts as a running total.
const CODEX: &str = "codex";

/// The format that records its counts in statistics after the conversation.
const OPENHANDS: &str = "openhands";

/// The formats with usage in records outside of the context.
const FORMATS_WITH_UNSENT: [&str; 3] = ["pi", OPENCODE, "qwen-code"];

/// The format whose messages may be hidden after a revert.
const OPENCODE: &str = "opencode";

/// The format with the usage of each request in a record before the answer.
const WINDOW: &str = "cline-ui";

/// Every piece of Codex with usage contains one of these.
const CODEX_USAGE_MARKS: [&[u8]; 7] = [
    b"token_count",
    b"token_usage_record",
    b"turn_context",
    b"task_started",
    b"input_text",
    b"_call\"",
    b"\"assistant\"",
];

/// The field of an ATIF step that was copied from an earlier trajectory, where it counts.
const COPIED: &str = "is_copied_context";

/// The prefix of the names of the formats of Gemini CLI.
const GEMINI: &str = "gemini-cli";

/// The format that records the usage of a whole run at its end.
const COPILOT: &str = "copilot-cli";

/// Every piece of Copilot CLI with usage contains one of these.
const COPILOT_USAGE_MARKS: [&[u8]; 5] = [
    b"session.start",
    b"session.resume",
    b"session.shutdown",
    b"session.usage_record",
    b"session.compaction_complete",
];

/// Minimum length of a globally unique turn id.
const UNIQUE_ID_LEN: usize = 32;

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// A group of answers with the same origin and tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct AnswerGroup {
    /// The session that made the turn. A branch that forks from another session includes turns of
    /// that session.
    pub(super) session: String,
    pub(super) branch: String,
    /// The format and the agent: `claude-code/main`.
    pub(super) agent: String,
    /// Empty if unknown.
    pub(super) model: String,
    /// The called tools in the order of their first calls. Empty without any.
    pub(super) tools: String,
    /// True if the turn is only on abandoned lines: rolled back, or on a branch that the
    /// conversation left.
    pub(super) is_left: bool,
    /// True if the input tokens are unknown.
    pub(super) is_output_alone: bool,
    /// The service level if it has another price. Else empty.
    pub(super) service: String,
    /// True if the usage is not recorded.
    pub(super) is_silent: bool,
    /// The oldest session that the file is known to copy from, if the keys are unique only within
    /// one family of copies. Empty if the keys are globally unique.
    pub(super) family: String,
}

/// An answer of a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredAnswer", into = "StoredAnswer")]
pub(super) struct Answer {
    /// The identity of the answer.
    pub(super) key: u64,
    /// The index of its group.
    pub(super) group: u32,
    /// The time of its turn in seconds.
    pub(super) second: i64,
    /// The counts of a [`TokenUsage`].
    pub(super) counts: Counts,
    /// The recorded cost in US dollars.
    pub(super) cost: Option<f64>,
}

/// The fields of an answer as a tuple: field names would dominate the size of a large note.
type StoredAnswer = (u64, u32, i64, Counts, Option<f64>);

impl From<StoredAnswer> for Answer {
    fn from((key, group, second, counts, cost): StoredAnswer) -> Self {
        Self { key, group, second, counts, cost }
    }
}

impl From<Answer> for StoredAnswer {
    fn from(Answer { key, group, second, counts, cost }: Answer) -> Self {
        (key, group, second, counts, cost)
    }
}

/// Answers and their groups.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Answers {
    pub(super) groups: Vec<AnswerGroup>,
    pub(super) answers: Vec<Answer>,
    /// Number of turns whose content expired. Their answers are not counted.
    pub(super) expired: u64,
    /// The parents of sessions whose files start with a copy of another session.
    pub(super) parents: BTreeMap<String, String>,
}

/// A turn on a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnPlace<'a> {
    pub(super) branch: &'a str,
    pub(super) is_left: bool,
    pub(super) commit: &'a Commit,
}

/// An answer under construction.
#[derive(Debug)]
struct OpenAnswer {
    key: u64,
    group: AnswerGroup,
    tools: Vec<String>,
    second: i64,
    tokens: TokenUsage,
    cost: Option<f64>,
    /// True if its usage is counted with another answer of its run.
    is_in_sum: bool,
    /// True for the usage of a whole run.
    is_total: bool,
    /// Fingerprints of its records in side conversations: see [`answer_fingerprint`].
    side_fingerprints: Vec<u64>,
}

/// The identity of an answer, and the family of sessions in which it is unique.
#[derive(Debug, Clone, Copy)]
struct AnswerKey<'a> {
    key: &'a str,
    family: &'a str,
}

impl<'a> From<&'a str> for AnswerKey<'a> {
    fn from(key: &'a str) -> Self {
        Self { key, family: "" }
    }
}

/// Counts the answers of turns. Lines come one after another, the turns of a line oldest first.
#[derive(Debug, Default)]
pub(super) struct AnswerCounter {
    answers: HashMap<u64, OpenAnswer>,
    /// The messages and pieces that were read.
    read: HashSet<ObjectId>,
    /// Fingerprints of the answers in main conversations: see [`answer_fingerprint`].
    main_fingerprints: HashSet<u64>,
    /// Keys that consist of the id of an answer and a request id, by the id of the answer.
    requests: HashMap<String, String>,
    /// True until the current line has a turn with pieces.
    is_line_start: bool,
    /// State of the current Codex line: the running total, the model, and the tools called since
    /// the last answer.
    sum: Option<TokenUsage>,
    model: String,
    tools: Vec<String>,
    /// An answer of the current Codex line whose counts have not been read yet.
    uncounted: Option<OpenAnswer>,
    /// The identity of a turn: its id, and its last message.
    turn_id: String,
    prompt: String,
    /// The usage of the last answer, until the running total follows.
    last_usage: Option<TokenUsage>,
    parents: BTreeMap<String, String>,
    /// State of the current Copilot CLI line.
    runs: Runs,
    /// True if whole lines are counted.
    has_lines: bool,
}

impl AnswerCounter {
    /// Begins a new line.
    pub(super) fn begin_line(&mut self) {
        self.end_uncounted();
        self.has_lines = true;
        self.is_line_start = true;
        self.sum = None;
        self.last_usage = None;
        self.model.clear();
        self.tools.clear();
        self.turn_id.clear();
        self.prompt.clear();
        self.runs = Runs::default();
    }

    /// Adds the answers of a turn. `after` is its context, and `changed` the difference to the
    /// previous one.
    pub(super) fn add_turn(
        &mut self,
        source: &dyn ObjectSource,
        turn: TurnPlace<'_>,
        after: &Context,
        changed: &ContextDiff,
    ) -> Result<()> {
        for (section, diff) in changed {
            let items = diff.changes.iter().filter_map(|change| change.new.as_ref());
            if section == SOURCE {
                let is_first = std::mem::take(&mut self.is_line_start);
                let is_codex = turn.commit.author.agent == CODEX;
                let Some(from) = source_start(turn.commit) else {
                    if is_first && is_codex {
                        let transcript = Transcript::open(source, after)?;
                        let added = items.clone().count() as u64;
                        let from = transcript.len().saturating_sub(added);
                        self.continue_from_pieces(source, &transcript, from)?;
                    }
                    self.add_pieces(source, turn, after, items)?;
                    continue;
                };
                let transcript = Transcript::open(source, after)?;
                if is_codex {
                    self.continue_from_pieces(source, &transcript, from)?;
                }
                let (from, list) = (from.saturating_sub(transcript.copied()), transcript.own());
                let items = list.iter(source, from.min(list.len())..list.len());
                let items = items.collect::<Result<Vec<Item>>>()?;
                self.add_pieces(source, turn, after, items.iter())?;
            } else if let Some(agent) = conversation_agent(section) {
                for item in items {
                    self.add_message(source, turn, agent, item)?;
                }
            }
        }
        Ok(())
    }

    fn add_message(
        &mut self,
        source: &dyn ObjectSource,
        turn: TurnPlace<'_>,
        agent: &str,
        item: &Item,
    ) -> Result<()> {
        let entry = MessageEntry::from_item(item)?;
        let is_counted_elsewhere = [CODEX, WINDOW].contains(&entry.media.as_str());
        if entry.role == Role::Tool || is_counted_elsewhere || !self.is_new(turn, &entry.blob) {
            return Ok(());
        }
        let Some(bytes) = content(source, &entry.blob)? else { return Ok(()) };
        let Some(record) = json::value(&bytes) else { return Ok(()) };
        if record.get(COPIED) == Some(&Value::Bool(true)) {
            return Ok(());
        }
        let agent = format!("{}/{agent}", entry.media);
        let found = usage_of(&record);
        if found.is_none() && entry.role != Role::Assistant {
            return Ok(());
        }
        let silent = || RecordedUsage { answer: answer_id(&record), ..RecordedUsage::default() };
        let is_silent = found.is_none();
        // Gemini CLI writes messages without a model when it loads or compresses a conversation.
        if is_silent && entry.media.starts_with(GEMINI) && record.get("model").is_none() {
            return Ok(());
        }
        let found = found.unwrap_or_else(silent);
        let calls = view(&entry.media, &bytes).tool_calls.into_iter().map(|call| call.name);
        let key = found.answer.clone().unwrap_or_else(|| entry.blob.to_string());
        let key = self.with_request(key);
        if entry.media == COPILOT && entry.role == Role::Assistant {
            let model = text_at(&record, "/data/model").unwrap_or(&turn.commit.author.model);
            self.runs.record_answer(model, key_of(&key), found.tokens);
        }
        let fingerprint = answer_fingerprint(&record);
        let mut add = |key: &str, found, calls| {
            let answer = self.add(turn, (agent.clone(), key), found, calls);
            answer.side_fingerprints.extend(
                fingerprint.filter(|(_, is_aside)| *is_aside).map(|(fingerprint, _)| fingerprint),
            );
        };
        add(&key, (found, is_silent), calls.collect());
        for part in separate_usage(&record) {
            let name = part.answer.as_deref().unwrap_or_default();
            add(&format!("{key} {name}"), (part, false), Vec::new());
        }
        self.main_fingerprints.extend(
            fingerprint.filter(|(_, is_aside)| !is_aside).map(|(fingerprint, _)| fingerprint),
        );
        Ok(())
    }

    /// Returns the key with the request id of the answer. A client may write an answer again
    /// without it.
    fn with_request(&mut self, key: String) -> String {
        match key.split_once(' ') {
            Some((id, _)) => {
                self.requests.insert(id.to_owned(), key.clone());
                key
            }
            None => self.requests.get(&key).cloned().unwrap_or(key),
        }
    }

    /// Adds the answers in the pieces of a transcript.
    fn add_pieces<'i>(
        &mut self,
        source: &dyn ObjectSource,
        turn: TurnPlace<'_>,
        after: &Context,
        items: impl Iterator<Item = &'i Item>,
    ) -> Result<()> {
        let facts = after.map(source, META)?;
        let fact = |key: &[u8]| -> Result<Option<Bytes>> {
            facts.get(source, key)?.map_or(Ok(None), |item| content(source, &item.link.id))
        };
        let format = fact(FORMAT)?.unwrap_or_default();
        if format == OPENHANDS {
            return self.add_stats(source, turn, items);
        }
        if format == WINDOW {
            return self.add_requests(source, turn, items);
        }
        if let Some(agent) = FORMATS_WITH_UNSENT.iter().find(|name| format == **name) {
            return self.add_unsent(source, turn, agent, items);
        }
        if let Some(agent) = FORMATS_WITH_TOTALS.iter().find(|name| format == **name) {
            return self.add_totals(source, turn, agent, items);
        }
        let telling: &[&[u8]] = match &format[..] {
            format if format == CODEX.as_bytes() => &CODEX_USAGE_MARKS,
            format if format == COPILOT.as_bytes() => &COPILOT_USAGE_MARKS,
            _ => return Ok(()),
        };
        let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
        let own = fact(SESSION_ID)?.map(text).unwrap_or_default();
        // A fork by an older release starts with a copy of its origin.
        let (family, origin) = (fact(FAMILY_KEY)?.map(text), fact(FORKED_FROM)?.map(text));
        let family = family.or(origin).unwrap_or_else(|| own.clone());
        if !own.is_empty() && family != own {
            self.parents.insert(own, family.clone());
        }
        for item in items {
            let entry = SourceEntry::from_item(item)?;
            if entry.kind != SourceKind::Record || !self.is_new(turn, &entry.blob) {
                continue;
            }
            let Some(bytes) = content(source, &entry.blob)? else { continue };
            if telling.iter().any(|word| find(&bytes, word).is_some())
                && let Some(record) = json::value(&bytes)
            {
                match format == CODEX {
                    true => self.add_piece(turn, &family, &record),
                    false => self.add_run(turn, &record, &entry.blob),
                }
            }
        }
        Ok(())
    }

    fn add_piece(&mut self, turn: TurnPlace<'_>, family: &str, record: &Value) {
        let payload = |path| text_at(record, path);
        match (payload("/type"), payload("/payload/type")) {
            (Some("turn_context"), _) => {
                self.end_uncounted();
                if let Some(model) = payload("/payload/model") {
                    model.clone_into(&mut self.model);
                }
                if let Some(id) = payload("/payload/turn_id") {
                    id.clone_into(&mut self.turn_id);
                }
            }
            (Some("event_msg"), Some("task_started")) => {
                payload("/payload/turn_id").unwrap_or_default().clone_into(&mut self.turn_id);
            }
            (Some("token_usage_record"), _) => {
                let Some((tokens, response)) = response_usage(record) else { return };
                self.uncounted = None;
                self.last_usage = Some(tokens);
                let (found, tools) = self.take_codex_answer(tokens);
                self.add(turn, (format!("{CODEX}/{MAIN_AGENT}"), response), (found, false), tools);
            }
            (Some("response_item"), Some("message")) => match payload("/payload/role") {
                Some("user") => {
                    self.prompt = view(CODEX, record.to_string().as_bytes()).text;
                }
                Some("assistant") => self.begin_uncounted(turn, family, record),
                _ => {}
            },
            (Some("response_item"), Some(kind)) => {
                if let Some(stem) = kind.strip_suffix("_call") {
                    self.tools.push(payload("/payload/name").unwrap_or(stem).to_owned());
                }
            }
            (Some("event_msg"), Some("token_count")) => {
                let Some((last, sum)) = running_total(record) else { return };
                self.uncounted = None;
                let before = self.sum.replace(sum);
                let grew = before.and_then(|before| sum.since(before));
                // The total of a fork may restart below the total of the copied history.
                let tokens = grew.or(last).unwrap_or(sum);
                if tokens == TokenUsage::default() {
                    return;
                }
                if self.last_usage.take() == Some(last.unwrap_or(tokens)) {
                    return;
                }
                // A fork may reach the same total as its origin in a turn of its own.
                let is_unique = self.turn_id.len() >= UNIQUE_ID_LEN;
                let family = if is_unique { "" } else { family };
                let key = format!("{} {:?} {}", self.turn_id, sum.counts(), self.prompt);
                let (found, tools) = self.take_codex_answer(tokens);
                let key = AnswerKey { key: &key, family };
                self.add(turn, (format!("{CODEX}/{MAIN_AGENT}"), key), (found, false), tools);
            }
            _ => {}
        }
    }

    /// Adds an event of Copilot CLI to its run.
    fn add_run(&mut self, turn: TurnPlace<'_>, record: &Value, blob: &ObjectId) {
        let (counts, key) = match text_at(record, "/type") {
            Some("session.start" | "session.resume") => return self.runs.begin(),
            Some("session.shutdown") => return self.end_run(turn, record, blob),
            Some("session.usage_record") => {
                let key = text_at(record, "/data/usage/apiCallId").map(str::to_owned);
                ("/data/usage", key.unwrap_or_else(|| blob.to_string()))
            }
            Some("session.compaction_complete") => {
                ("/data/compactionTokensUsed", format!("compaction {blob}"))
            }
            _ => return,
        };
        let Some(counts) = record.pointer(counts) else { return };
        let Some(tokens) = usage_with_cache(counts) else { return };
        let model = text_at(counts, "/model").or_else(|| text_at(record, "/data/model"));
        let model = model.unwrap_or(&turn.commit.author.model).to_owned();
        self.runs.record_answer(&model, key_of(&key), tokens);
        self.add_run_answer(turn, &key, model, tokens);
    }

    /// Ends a run: usage that its answers do not record is counted with the last one of each model.
    fn end_run(&mut self, turn: TurnPlace<'_>, record: &Value, blob: &ObjectId) {
        let Some(metrics) = record.pointer("/data/modelMetrics") else { return };
        for end in self.runs.end(metrics) {
            for key in &end.answers {
                if let Some(open) = self.answers.get_mut(key) {
                    open.is_in_sum = true;
                    (open.group.is_output_alone, open.group.is_silent) = (false, false);
                }
            }
            let last = end.answers.last();
            if let Some(open) = last.and_then(|key| self.answers.get_mut(key)) {
                open.tokens = open.tokens.plus(end.rest);
            } else {
                let key = format!("shutdown {blob} {}", end.model);
                self.add_run_answer(turn, &key, end.model, end.rest);
            }
        }
    }

    fn add_run_answer(
        &mut self,
        turn: TurnPlace<'_>,
        key: &str,
        model: String,
        tokens: TokenUsage,
    ) {
        let found = RecordedUsage { model: Some(model), tokens, ..RecordedUsage::default() };
        self.add(turn, (format!("{COPILOT}/{MAIN_AGENT}"), key), (found, false), Vec::new());
    }

    /// Returns an answer of Codex with the usage `tokens` and the pending tools.
    fn take_codex_answer(&mut self, tokens: TokenUsage) -> (RecordedUsage, Vec<String>) {
        let model = Some(self.model.clone()).filter(|model| !model.is_empty());
        let found = RecordedUsage { model, tokens, ..RecordedUsage::default() };
        (found, std::mem::take(&mut self.tools))
    }

    /// Returns true if a record is new. A record on a live line counts again, because its answer
    /// belongs there.
    fn is_new(&mut self, turn: TurnPlace<'_>, blob: &ObjectId) -> bool {
        self.read.insert(*blob) || !turn.is_left
    }

    fn add<'k>(
        &mut self,
        turn: TurnPlace<'_>,
        (agent, key): (String, impl Into<AnswerKey<'k>>),
        (found, is_silent): (RecordedUsage, bool),
        calls: Vec<String>,
    ) -> &mut OpenAnswer {
        let TurnPlace { branch, is_left, .. } = turn;
        let (tokens, cost, is_output_alone) = (found.tokens, found.cost, found.is_output_alone);
        let AnswerKey { key, family } = key.into();
        let key = key_of(key);
        let open = self
            .answers
            .entry(family_key(family, key))
            .or_insert_with(|| open_answer(turn, agent, (key, family), (found, is_silent)));
        if !is_silent {
            open.group.is_output_alone =
                is_output_alone && (open.group.is_silent || open.group.is_output_alone);
        }
        if open.group.is_left && !is_left {
            open.group.is_left = false;
            branch.clone_into(&mut open.group.branch);
        }
        open.group.is_silent &= is_silent;
        open.tokens = open.tokens.larger(tokens);
        open.cost = cost.map_or(open.cost, |cost| Some(open.cost.map_or(cost, |it| it.max(cost))));
        for name in calls {
            if !open.tools.contains(&name) {
                open.tools.push(name);
            }
        }
        open
    }

    /// Begins an answer of Codex whose counts follow in a later record.
    fn begin_uncounted(&mut self, turn: TurnPlace<'_>, family: &str, record: &Value) {
        if self.uncounted.is_none() {
            let model = Some(self.model.clone()).filter(|model| !model.is_empty());
            let found = RecordedUsage { model, ..RecordedUsage::default() };
            let key = key_of(&format!("{family} {record}"));
            let agent = format!("{CODEX}/{MAIN_AGENT}");
            self.uncounted = Some(open_answer(turn, agent, (key, ""), (found, true)));
        }
    }

    /// Adds the pending answer without counts.
    fn end_uncounted(&mut self) {
        if let Some(answer) = self.uncounted.take() {
            self.answers.entry(answer.key).or_insert(answer);
        }
    }

    /// Returns the answers in chronological order.
    pub(super) fn finish(mut self, expired: u64) -> Answers {
        self.end_uncounted();
        self.drop_totals();
        // Clients write their own answers with zero tokens, such as a message about a lost network.
        // A record without tokens is an answer nevertheless.
        let has_cost = |answer: &OpenAnswer| answer.cost.is_some_and(|cost| cost > 0.0);
        let took = |answer: &OpenAnswer| {
            let is_known = answer.group.is_silent || answer.is_in_sum;
            answer.tokens.total() > 0 || has_cost(answer) || is_known
        };
        // A side question of Claude Code starts with a copy of the conversation, with other request
        // ids.
        let main = self.main_fingerprints;
        let is_copy =
            |answer: &OpenAnswer| answer.side_fingerprints.iter().any(|it| main.contains(it));
        let mut open: Vec<(u64, OpenAnswer)> =
            self.answers.into_iter().filter(|(_, it)| took(it) && !is_copy(it)).collect();
        open.sort_by_key(|(key, answer)| (answer.second, *key));
        let mut places: HashMap<AnswerGroup, u32> = HashMap::new();
        let mut groups = Vec::new();
        let answers = open.into_iter().map(|(_, open)| {
            let group = AnswerGroup { tools: open.tools.join("+"), ..open.group };
            let next = u32::try_from(places.len()).unwrap_or(u32::MAX);
            let group = *places.entry(group).or_insert_with_key(|group| {
                groups.push(group.clone());
                next
            });
            let counts = open.tokens.counts();
            Answer { key: open.key, group, second: open.second, counts, cost: open.cost }
        });
        let answers = answers.collect();
        Answers { groups, answers, expired, parents: self.parents }
    }
}

/// Creates an answer from its first record.
fn open_answer(
    turn: TurnPlace<'_>,
    agent: String,
    (key, family): (u64, &str),
    (found, is_silent): (RecordedUsage, bool),
) -> OpenAnswer {
    let TurnPlace { branch, is_left, commit } = turn;
    OpenAnswer {
        key,
        group: AnswerGroup {
            session: commit.session.clone(),
            branch: branch.to_owned(),
            agent,
            model: found.model.unwrap_or_else(|| commit.author.model.clone()),
            tools: String::new(),
            is_left,
            is_output_alone: found.is_output_alone,
            service: found.service,
            is_silent,
            family: family.to_owned(),
        },
        tools: Vec::new(),
        second: commit.time.micros.div_euclid(SECOND),
        tokens: found.tokens,
        cost: found.cost,
        is_in_sum: false,
        is_total: false,
        side_fingerprints: Vec::new(),
    }
}

/// Returns a fingerprint of an answer of Claude Code, from its id and content, and true if the
/// record is part of a side conversation.
fn answer_fingerprint(record: &Value) -> Option<(u64, bool)> {
    let is_aside = record.get("isSidechain")?.as_bool()?;
    let (id, content) = (text_at(record, "/message/id")?, record.pointer("/message/content")?);
    Some((key_of(&format!("{id} {content}")), is_aside))
}

/// Returns the key of an answer in a family of sessions. Without a family, the key itself.
pub(super) fn family_key(family: &str, key: u64) -> u64 {
    if family.is_empty() { key } else { key_of(&format!("{family} {key}")) }
}

/// Returns a hash of a key.
fn key_of(key: &str) -> u64 {
    let hash: [u8; ID_BYTES] = *ObjectId::of(Kind::Blob, key.as_bytes()).as_bytes();
    hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the bytes of a blob, or `None` if the blob expired or was redacted.
fn content(source: &dyn ObjectSource, blob: &ObjectId) -> Result<Option<Bytes>> {
    match source.read_as(Kind::Blob, blob) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::Expired | ErrorKind::Redacted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
