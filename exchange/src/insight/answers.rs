//! The answers of models in a history: who gave them, with which tools, and what they took, each
//! counted once.
//!
//! An answer is told apart by its id, else by the record that says what it took. So records of one
//! answer, copies in a resumed or forked session, and messages that a compaction puts into the list
//! again are one. Codex tells its counts beside the conversation, as a sum that grows: what it grew by
//! is what an answer took.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use memchr::memmem::find;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turntree::context::{
    Context, ContextDiff, MessageEntry, Role, SOURCE, SourceEntry, SourceKind,
};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, ID_BYTES, Kind, ObjectId, ObjectSource};
use turntree::tree::Item;

use super::usage::{
    Counts, RecordedUsage, TokenUsage, answer_id, running_total, usage_beside, usage_of,
};
use crate::formats::view;
use crate::text::json::text_at;

/// The section of facts, and those that are asked for.
const META: &str = "meta";
const FORMAT: &[u8] = b"format";
const SESSION_ID: &[u8] = b"session_id";
const FORKED_FROM: &[u8] = b"forked_from";

/// The format that tells its counts beside the conversation.
const CODEX: &str = "codex";

/// What pieces of it say that count: one of these is in them.
const TELLING: [&[u8]; 4] = [b"token_count", b"turn_context", b"_call\"", b"\"assistant\""];

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// Who gave answers, where, and with which tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct AnswerGroup {
    /// The session that the turn was made in: a branch that begins in another one has its turns, too.
    pub(super) session: String,
    pub(super) branch: String,
    /// The format and the agent in it: `claude-code/main`.
    pub(super) agent: String,
    /// Empty where nobody says.
    pub(super) model: String,
    /// The tools that are called, in the order of their first calls; empty without any.
    pub(super) tools: String,
    /// On no line that goes on: a rollback took it back, or the branch was left behind.
    pub(super) is_left: bool,
    /// Nothing is said of what went in.
    pub(super) is_output_alone: bool,
    /// How it was served, where that has another price; else empty.
    pub(super) service: String,
    /// Nothing is said of what it took.
    pub(super) is_silent: bool,
}

/// An answer of a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredAnswer", into = "StoredAnswer")]
pub(super) struct Answer {
    /// What tells it from others.
    pub(super) key: u64,
    /// The place of its group.
    pub(super) group: u32,
    /// The second of its turn.
    pub(super) second: i64,
    /// Counts of [`TokenUsage`].
    pub(super) counts: Counts,
    /// The cost that its record says, in US dollars.
    pub(super) cost: Option<f64>,
}

/// The fields of an answer in their order: there are many, and names would be most of the bytes.
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

/// Answers, with those who gave them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Answers {
    pub(super) groups: Vec<AnswerGroup>,
    pub(super) answers: Vec<Answer>,
    /// Turns whose content was dropped: nothing of them is counted.
    pub(super) expired: u64,
}

/// A turn on a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnPlace<'a> {
    pub(super) branch: &'a str,
    pub(super) is_left: bool,
    pub(super) commit: &'a Commit,
}

/// An answer in the making.
#[derive(Debug)]
struct OpenAnswer {
    group: AnswerGroup,
    tools: Vec<String>,
    second: i64,
    tokens: TokenUsage,
    cost: Option<f64>,
}

/// Counts the answers of turns, which come line by line, the oldest of a line first.
#[derive(Debug, Default)]
pub(super) struct AnswerCounter {
    answers: HashMap<u64, OpenAnswer>,
    /// Messages and pieces that were read.
    read: HashSet<ObjectId>,
    /// Of the line of a rollout: its sum so far, its model, and tools called since the last answer.
    sum: Option<TokenUsage>,
    model: String,
    tools: Vec<String>,
    /// An answer of the line of a rollout whose counts have not come.
    uncounted: Option<(u64, OpenAnswer)>,
}

impl AnswerCounter {
    /// The turns that come now do not follow those before.
    pub(super) fn begin_line(&mut self) {
        self.end_uncounted();
        self.sum = None;
        self.model.clear();
        self.tools.clear();
    }

    /// Adds the answers that a turn brought, whose context is `after` and differs by `changed` from
    /// the one before.
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
                self.add_pieces(source, turn, after, items)?;
            } else if let Some(agent) = agent_of(section) {
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
        if entry.role == Role::Tool || entry.media == CODEX || !self.is_new(turn, &entry.blob) {
            return Ok(());
        }
        let Some(bytes) = content(source, &entry.blob)? else { return Ok(()) };
        let Ok(record) = serde_json::from_slice::<Value>(&bytes) else { return Ok(()) };
        let agent = format!("{}/{agent}", entry.media);
        let found = usage_of(&record);
        if found.is_none() && entry.role != Role::Assistant {
            return Ok(());
        }
        let silent = || RecordedUsage { answer: answer_id(&record), ..RecordedUsage::default() };
        let is_silent = found.is_none();
        let found = found.unwrap_or_else(silent);
        let calls = view(&entry.media, &bytes).tool_calls.into_iter().map(|call| call.name);
        let key = found.answer.clone().unwrap_or_else(|| entry.blob.to_string());
        self.add(turn, (agent.clone(), &key), (found, is_silent), calls.collect());
        for part in usage_beside(&record) {
            let key = part.answer.clone().unwrap_or_else(|| format!("{} beside", entry.blob));
            self.add(turn, (agent.clone(), &key), (part, false), Vec::new());
        }
        Ok(())
    }

    /// Adds what pieces of a rollout say.
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
        if fact(FORMAT)?.is_none_or(|format| format != CODEX) {
            return Ok(());
        }
        // A fork of an older release begins with a copy of what it is a fork of.
        let session = fact(FORKED_FROM)?.or(fact(SESSION_ID)?).unwrap_or_default();
        let session = String::from_utf8_lossy(&session);
        for item in items {
            let entry = SourceEntry::from_item(item)?;
            if entry.kind != SourceKind::Record || !self.is_new(turn, &entry.blob) {
                continue;
            }
            let Some(bytes) = content(source, &entry.blob)? else { continue };
            if TELLING.iter().any(|word| find(&bytes, word).is_some())
                && let Ok(record) = serde_json::from_slice(&bytes)
            {
                self.add_piece(turn, &session, &record);
            }
        }
        Ok(())
    }

    fn add_piece(&mut self, turn: TurnPlace<'_>, session: &str, record: &Value) {
        let payload = |path| text_at(record, path);
        match (payload("/type"), payload("/payload/type")) {
            (Some("turn_context"), _) => {
                self.end_uncounted();
                if let Some(model) = payload("/payload/model") {
                    model.clone_into(&mut self.model);
                }
            }
            (Some("response_item"), Some("message")) => {
                let is_answer = payload("/payload/role") == Some("assistant");
                self.await_counts(turn, session, record, is_answer);
            }
            (Some("response_item"), Some(kind)) => {
                if let Some(stem) = kind.strip_suffix("_call") {
                    self.tools.push(payload("/payload/name").unwrap_or(stem).to_owned());
                }
            }
            (Some("event_msg"), Some("token_count")) => {
                let Some((last, sum)) = running_total(record) else { return };
                self.uncounted = None;
                let before = self.sum.replace(sum);
                let tokens = before.and_then(|before| sum.since(before)).unwrap_or(last);
                if tokens == TokenUsage::default() {
                    return;
                }
                let key = format!("{session} {:?}", sum.counts());
                let model = Some(self.model.clone()).filter(|model| !model.is_empty());
                let found = RecordedUsage { model, tokens, ..RecordedUsage::default() };
                let tools = std::mem::take(&mut self.tools);
                self.add(turn, (format!("{CODEX}/main"), &key), (found, false), tools);
            }
            _ => {}
        }
    }

    /// Returns whether a record was not read before; one of a line that goes on counts again, since
    /// that is where its answer belongs.
    fn is_new(&mut self, turn: TurnPlace<'_>, blob: &ObjectId) -> bool {
        self.read.insert(*blob) || !turn.is_left
    }

    fn add(
        &mut self,
        turn: TurnPlace<'_>,
        (agent, key): (String, &str),
        (found, is_silent): (RecordedUsage, bool),
        calls: Vec<String>,
    ) {
        let TurnPlace { branch, is_left, .. } = turn;
        let (tokens, cost) = (found.tokens, found.cost);
        let open = self
            .answers
            .entry(key_of(key))
            .or_insert_with(|| open_answer(turn, agent, found, is_silent));
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
    }

    /// A message of a rollout says nothing of tokens: an answer waits for the counts behind it.
    fn await_counts(
        &mut self,
        turn: TurnPlace<'_>,
        session: &str,
        record: &Value,
        is_answer: bool,
    ) {
        if is_answer && self.uncounted.is_none() {
            let model = Some(self.model.clone()).filter(|model| !model.is_empty());
            let found = RecordedUsage { model, ..RecordedUsage::default() };
            let answer = open_answer(turn, format!("{CODEX}/main"), found, true);
            self.uncounted = Some((key_of(&format!("{session} {record}")), answer));
        }
    }

    /// No counts will come of the answer that waits for them.
    fn end_uncounted(&mut self) {
        if let Some((key, answer)) = self.uncounted.take() {
            self.answers.entry(key).or_insert(answer);
        }
    }

    /// Returns the answers, in the order of their time.
    pub(super) fn finish(mut self, expired: u64) -> Answers {
        self.end_uncounted();
        // What took nothing is what a client says itself, as that the network was gone. A record that
        // says nothing of tokens is an answer all the same.
        let took = |answer: &OpenAnswer| {
            answer.tokens.total() > 0 || answer.cost.is_some() || answer.group.is_silent
        };
        let mut open: Vec<(u64, OpenAnswer)> =
            self.answers.into_iter().filter(|(_, answer)| took(answer)).collect();
        open.sort_by_key(|(key, answer)| (answer.second, *key));
        let mut places: HashMap<AnswerGroup, u32> = HashMap::new();
        let mut groups = Vec::new();
        let answers = open.into_iter().map(|(key, open)| {
            let group = AnswerGroup { tools: open.tools.join("+"), ..open.group };
            let next = u32::try_from(places.len()).unwrap_or(u32::MAX);
            let group = *places.entry(group).or_insert_with_key(|group| {
                groups.push(group.clone());
                next
            });
            let counts = open.tokens.counts();
            Answer { key, group, second: open.second, counts, cost: open.cost }
        });
        let answers = answers.collect();
        Answers { groups, answers, expired }
    }
}

/// An answer of a turn, as its first record tells it.
fn open_answer(
    turn: TurnPlace<'_>,
    agent: String,
    found: RecordedUsage,
    is_silent: bool,
) -> OpenAnswer {
    let TurnPlace { branch, is_left, commit } = turn;
    OpenAnswer {
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
        },
        tools: Vec::new(),
        second: commit.time.micros.div_euclid(SECOND),
        tokens: found.tokens,
        cost: found.cost,
    }
}

/// The agent whose conversation a section is.
fn agent_of(section: &str) -> Option<&str> {
    section.strip_prefix("agents/")?.strip_suffix("/messages")
}

/// A number that stands for a key.
fn key_of(key: &str) -> u64 {
    let hash: [u8; ID_BYTES] = *ObjectId::of(Kind::Blob, key.as_bytes()).as_bytes();
    hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The bytes of a blob; `None` where they were dropped or redacted.
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
