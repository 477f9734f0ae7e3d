//! A conversation as the interfaces of models take it: every call with its result, right behind it.
//!
//! Formats write an answer in several records, results late or not at all, and ids that are used
//! twice. Here records of one answer become one, a result goes where its call is, a call without a
//! result is marked as such, and a result without a call is kept as a note.

use std::collections::{HashMap, HashSet, VecDeque};

use turntree::context::{Context, MessageEntry, Role, Shape, agent_section};
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource, Time};
use turntree::tree::List;

use super::timestamp::moment;
use crate::formats::view;
use crate::insight::usage::{TokenUsage, usage};
use crate::model::picture::Picture;
use crate::model::view::{MessageView, ToolResult};

/// The format in which a record is always a whole answer.
const WHOLE_ANSWERS: &str = "atif";

/// The format whose client sends a result for each call, also where that was lost, and what it sends.
const CODEX: &str = "codex";
const ABORTED: &str = "aborted";

/// Longest name of a tool, in characters: what both interfaces take.
const MAX_NAME_CHARS: usize = 64;

/// Longest id of a call, in characters: chats of the OpenAI interface take no longer one.
const MAX_ID_CHARS: usize = 40;

/// The next message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Speech {
    /// Instructions.
    System(SpokenText),
    /// A prompt, a note, or results whose calls are not there.
    User(SpokenText),
    /// An answer of the model, with the results of its calls.
    Answer(Answer),
}

/// A text with its pictures.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SpokenText {
    pub(super) text: String,
    pub(super) pictures: Vec<Picture>,
    /// Results in the record that belong to no call before them.
    pub(super) strays: Vec<ToolResult>,
    pub(super) time: Option<Time>,
    /// The record, if it alone is what is said.
    pub(super) entry: Option<u64>,
}

/// An answer of the model.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) said: SpokenText,
    pub(super) thinking: String,
    pub(super) calls: Vec<SpokenCall>,
    pub(super) usage: Option<TokenUsage>,
}

/// A call with its result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpokenCall {
    /// Letters, digits, `_` and `-`, at most 40; unique in the conversation.
    pub(super) id: String,
    /// The same characters, at most 64.
    pub(super) name: String,
    /// As the record has them.
    pub(super) arguments: String,
    /// `None` when it never came.
    pub(super) result: Option<ToolResult>,
    /// The message that the result is in, and its position there: results of parallel calls come as
    /// they end.
    pub(super) came: Option<(u64, usize)>,
}

/// A result that was found for a call, and its place.
struct FoundResult {
    came: (u64, usize),
    result: Option<ToolResult>,
}

/// The result that a client sends for a call whose own was lost, where that is known. A call without
/// an id is answered by the service.
fn lost_result(media: &str, call: &str) -> Option<ToolResult> {
    (media == CODEX && !call.is_empty()).then(|| ToolResult {
        call_id: call.to_owned(),
        text: ABORTED.to_owned(),
        pictures: Vec::new(),
        is_error: false,
    })
}

/// Reads the conversation of an agent.
pub(super) struct Messages<'a> {
    source: &'a dyn ObjectSource,
    list: List,
    next: u64,
    /// For each call id, the results that are left: message, and position among its results.
    results: HashMap<String, VecDeque<(u64, usize)>>,
    /// Results that went to their calls.
    used: HashSet<(u64, usize)>,
    ids: HashSet<String>,
    waiting: VecDeque<Speech>,
    /// The system prompt before the first message.
    prompt: Option<String>,
}

impl<'a> Messages<'a> {
    /// The conversation of `agent`. Reads every message once, to know where results are.
    pub(super) fn of(source: &'a dyn ObjectSource, context: &Context, agent: &str) -> Result<Self> {
        let list = context.messages(source, agent)?;
        let mut speeches = Self {
            source,
            list,
            next: 0,
            results: HashMap::new(),
            used: HashSet::new(),
            ids: HashSet::new(),
            waiting: VecDeque::new(),
            prompt: None,
        };
        let mut has_system = false;
        for at in 0..speeches.list.len() {
            let (entry, view, _) = speeches.read(at)?;
            has_system |= entry.role == Role::System;
            for (position, result) in view.tool_results.iter().enumerate() {
                speeches
                    .results
                    .entry(result.call_id.clone())
                    .or_default()
                    .push_back((at, position));
            }
        }
        if !has_system {
            speeches.prompt = prompt(source, context, agent)?;
        }
        Ok(speeches)
    }

    fn read(&self, at: u64) -> Result<(MessageEntry, MessageView, bytes::Bytes)> {
        let item = self.list.get(self.source, at)?.ok_or_else(|| {
            turntree::error::Error::corrupt(
                "a conversation",
                format_args!("message {at}"),
                "its end",
            )
        })?;
        let entry = MessageEntry::from_item(&item)?;
        let bytes = self.source.read_as(Kind::Blob, &entry.blob)?;
        let view = view(&entry.media, &bytes);
        Ok((entry, view, bytes))
    }

    fn step(&mut self) -> Result<Option<Speech>> {
        if let Some(prompt) = self.prompt.take() {
            return Ok(Some(Speech::System(SpokenText { text: prompt, ..SpokenText::default() })));
        }
        while self.waiting.is_empty() && self.next < self.list.len() {
            self.message()?;
        }
        Ok(self.waiting.pop_front())
    }

    /// Reads the next message, and those that belong to the same answer.
    fn message(&mut self) -> Result<()> {
        let at = self.next;
        let (entry, view, bytes) = self.read(at)?;
        if is_answer(&entry, &view) {
            return self.answer();
        }
        self.next += 1;
        let strays = self.strays(at, view.tool_results);
        let (text, pictures, time) = (view.text, view.pictures, moment(&bytes));
        if text.trim().is_empty() && pictures.is_empty() && strays.is_empty() {
            return Ok(());
        }
        let said = SpokenText { text, pictures, strays, time, entry: Some(at) };
        let is_system = entry.role == Role::System;
        self.waiting.push_back(if is_system { Speech::System(said) } else { Speech::User(said) });
        Ok(())
    }

    fn answer(&mut self) -> Result<()> {
        let mut answer = Answer::default();
        let first = self.next;
        while self.next < self.list.len() {
            let at = self.next;
            let (entry, view, bytes) = self.read(at)?;
            let is_alone = entry.media == WHOLE_ANSWERS;
            if !is_answer(&entry, &view) || at > first && is_alone {
                break;
            }
            self.next += 1;
            answer.said.time = answer.said.time.or_else(|| moment(&bytes));
            answer.usage = larger(answer.usage, usage(&bytes).map(|found| found.tokens));
            add(&mut answer.said, &view);
            add_paragraph(&mut answer.thinking, &view.thinking);
            for call in view.tool_calls {
                let found = self.result_of(&call.id, first)?;
                let came = found.as_ref().map(|found| found.came);
                let result = found.and_then(|found| found.result);
                let result = result.or_else(|| lost_result(&entry.media, &call.id));
                let (id, name) = (self.free_id(&call.id), safe_name(&call.name));
                let arguments = call.input;
                answer.calls.push(SpokenCall { id, name, arguments, result, came });
            }
            let has_results = !view.tool_results.is_empty();
            answer.said.strays.extend(self.strays(at, view.tool_results));
            // What comes behind results is another answer.
            if has_results || is_alone {
                break;
            }
        }
        answer.said.entry = (self.next == first + 1).then_some(first);
        let said = &answer.said;
        let says =
            !said.text.trim().is_empty() || !said.pictures.is_empty() || !said.strays.is_empty();
        if says || !answer.calls.is_empty() || !answer.thinking.is_empty() {
            self.waiting.push_back(Speech::Answer(answer));
        }
        Ok(())
    }

    /// The first result of a call that is left, at or after a message, and its place.
    fn result_of(&mut self, id: &str, from: u64) -> Result<Option<FoundResult>> {
        let left = self.results.get_mut(id);
        let found = left.and_then(|left| {
            let at = left.iter().position(|(message, _)| *message >= from)?;
            left.remove(at)
        });
        let Some((message, position)) = found else { return Ok(None) };
        self.used.insert((message, position));
        let (_, view, _) = self.read(message)?;
        let result = view.tool_results.into_iter().nth(position);
        Ok(Some(FoundResult { came: (message, position), result }))
    }

    /// Those of the results in a message that went to no call.
    fn strays(&mut self, at: u64, results: Vec<ToolResult>) -> Vec<ToolResult> {
        let mut strays = Vec::new();
        for (position, result) in results.into_iter().enumerate() {
            if self.used.contains(&(at, position)) {
                continue;
            }
            if let Some(left) = self.results.get_mut(&result.call_id) {
                left.retain(|place| *place != (at, position));
            }
            strays.push(result);
        }
        strays
    }

    /// An id that the interfaces take, and that was not given before.
    fn free_id(&mut self, id: &str) -> String {
        let mut id = safe(id);
        id.truncate(MAX_ID_CHARS);
        if id.is_empty() {
            "call".clone_into(&mut id);
        }
        let mut free = id.clone();
        let mut number = 2_u64;
        while !self.ids.insert(free.clone()) {
            let suffix = format!("_{number}");
            id.truncate(MAX_ID_CHARS - suffix.len());
            free = format!("{id}{suffix}");
            number += 1;
        }
        free
    }
}

impl Iterator for Messages<'_> {
    type Item = Result<Speech>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Returns true if a message is one of the model: results in it do not make it another.
fn is_answer(entry: &MessageEntry, view: &MessageView) -> bool {
    entry.role == Role::Assistant || view.role == Role::Assistant || !view.tool_calls.is_empty()
}

fn larger(a: Option<TokenUsage>, b: Option<TokenUsage>) -> Option<TokenUsage> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    Some(a.larger(b))
}

fn add(said: &mut SpokenText, view: &MessageView) {
    if view.text.is_empty() {
        return;
    }
    if !said.text.is_empty() && !said.text.ends_with('\n') {
        said.text.push('\n');
    }
    let before = said.text.len();
    said.text.push_str(&view.text);
    said.pictures.extend(view.pictures.iter().cloned().map(|mut picture| {
        picture.at += before;
        picture
    }));
}

fn add_paragraph(to: &mut String, text: &str) {
    if !to.is_empty() && !text.is_empty() && !to.ends_with('\n') {
        to.push('\n');
    }
    to.push_str(text);
}

fn safe(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if is_safe(c) { c } else { '_' }).collect()
}

fn safe_name(name: &str) -> String {
    let name: String = safe(name).chars().take(MAX_NAME_CHARS).collect();
    if name.is_empty() { "tool".to_owned() } else { name }
}

/// The system prompt that is kept beside the conversation.
fn prompt(source: &dyn ObjectSource, context: &Context, agent: &str) -> Result<Option<String>> {
    let section = context.section(source, &agent_section(agent, "system-prompt")?)?;
    let Some(section) = section.filter(|section| section.shape == Shape::Blob) else {
        return Ok(None);
    };
    let bytes = source.read_as(Kind::Blob, &section.id)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((!text.trim().is_empty()).then_some(text))
}
