//! Reads a conversation in the order that model APIs require: each call is followed by its result.
//!
//! Formats split answers into several records, write results late or not at all, and reuse ids.
//! This module joins the records of an answer, moves each result to its call, marks calls without
//! results, and keeps results without calls as notes.

use std::collections::{HashMap, HashSet, VecDeque};

use turntree::context::sections::SYSTEM_PROMPT;
use turntree::context::{Context, MessageEntry, Role, Shape, agent_section};
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource, Time};
use turntree::tree::List;

use super::timestamp::record_time;
use crate::formats::view;
use crate::insight::usage::{TokenUsage, usage};
use crate::model::picture::Picture;
use crate::model::view::{MessageView, ToolResult};

/// The format whose records are always whole answers.
const WHOLE_ANSWERS: &str = "atif";

/// The format whose client sends a result for each call even if the real one was lost, and that
/// result.
const CODEX: &str = "codex";
const ABORTED: &str = "aborted";

/// Longest tool name in characters that both APIs accept.
const MAX_NAME_CHARS: usize = 64;

/// Longest id of a call in characters that OpenAI chats accept.
const MAX_ID_CHARS: usize = 40;

/// A message of the conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DialogueMessage {
    /// Instructions.
    System(DialogueText),
    /// A prompt, a note, or results without calls.
    User(DialogueText),
    /// An answer of the model, with the results of its calls.
    Answer(Answer),
}

/// A text with its pictures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DialogueText {
    pub(crate) text: String,
    /// True for a message that the client wrote.
    pub(crate) is_added: bool,
    pub(crate) pictures: Vec<Picture>,
    /// Results in the record without a preceding call.
    pub(crate) strays: Vec<ToolResult>,
    pub(crate) time: Option<Time>,
    /// The index of the message, if the text comes from a single record.
    pub(crate) entry: Option<u64>,
}

/// An answer of the model.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) said: DialogueText,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<DialogueCall>,
    pub(crate) usage: Option<TokenUsage>,
}

/// A call with its result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DialogueCall {
    /// The id: at most 40 letters, digits, `_` and `-`, unique in the conversation.
    pub(crate) id: String,
    /// The name: the same characters, at most 64.
    pub(crate) name: String,
    /// The arguments as recorded.
    pub(crate) arguments: String,
    /// The result. `None` if it never came.
    pub(crate) result: Option<ToolResult>,
    /// The message of the result, and its position in it. Results of parallel calls arrive in any
    /// order.
    pub(crate) position: Option<(u64, usize)>,
}

/// The result of a call, with its position.
struct FoundResult {
    position: (u64, usize),
    result: Option<ToolResult>,
}

/// Returns the result that a client sends for a call whose result was lost, if known. For a call
/// without an id, the service makes up the result.
fn lost_result(media: &str, call: &str) -> Option<ToolResult> {
    (media == CODEX && !call.is_empty()).then(|| ToolResult {
        call_id: call.to_owned(),
        text: ABORTED.to_owned(),
        pictures: Vec::new(),
        is_error: false,
    })
}

/// Reads the conversation of an agent.
pub(crate) struct Messages<'a> {
    source: &'a dyn ObjectSource,
    list: List,
    next: u64,
    /// The unused results of each call id: the message, and the position among its results.
    results: HashMap<String, VecDeque<(u64, usize)>>,
    /// The results that were assigned to calls.
    used: HashSet<(u64, usize)>,
    ids: HashSet<String>,
    pending: VecDeque<DialogueMessage>,
    /// The system prompt, if it precedes the first message.
    prompt: Option<String>,
}

impl<'a> Messages<'a> {
    /// Opens the conversation of `agent`. Reads every message once, to locate the results.
    pub(crate) fn of(source: &'a dyn ObjectSource, context: &Context, agent: &str) -> Result<Self> {
        let list = context.messages(source, agent)?;
        let mut speeches = Self {
            source,
            list,
            next: 0,
            results: HashMap::new(),
            used: HashSet::new(),
            ids: HashSet::new(),
            pending: VecDeque::new(),
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

    fn step(&mut self) -> Result<Option<DialogueMessage>> {
        if let Some(prompt) = self.prompt.take() {
            return Ok(Some(DialogueMessage::System(DialogueText {
                text: prompt,
                ..DialogueText::default()
            })));
        }
        while self.pending.is_empty() && self.next < self.list.len() {
            self.message()?;
        }
        Ok(self.pending.pop_front())
    }

    /// Reads the next message, and all further records of the same answer.
    fn message(&mut self) -> Result<()> {
        let at = self.next;
        let (entry, view, bytes) = self.read(at)?;
        if is_answer(&entry, &view) {
            return self.answer();
        }
        self.next += 1;
        let strays = self.strays(at, view.tool_results);
        let (text, pictures, time) = (view.text, view.pictures, record_time(&bytes));
        let is_added = view.is_added;
        if text.trim().is_empty() && pictures.is_empty() && strays.is_empty() {
            return Ok(());
        }
        let said = DialogueText { text, is_added, pictures, strays, time, entry: Some(at) };
        let is_system = entry.role == Role::System;
        self.pending.push_back(if is_system {
            DialogueMessage::System(said)
        } else {
            DialogueMessage::User(said)
        });
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
            answer.said.time = answer.said.time.or_else(|| record_time(&bytes));
            answer.usage = larger_usage(answer.usage, usage(&bytes).map(|found| found.tokens));
            add(&mut answer.said, &view);
            add_paragraph(&mut answer.thinking, &view.thinking);
            for call in view.tool_calls {
                let found = self.result_of(&call.id, first)?;
                let position = found.as_ref().map(|found| found.position);
                let result = found.and_then(|found| found.result);
                let result = result.or_else(|| lost_result(&entry.media, &call.id));
                let (id, name) = (self.free_id(&call.id), sanitize_name(&call.name));
                let arguments = call.input;
                answer.calls.push(DialogueCall { id, name, arguments, result, position });
            }
            let has_results = !view.tool_results.is_empty();
            answer.said.strays.extend(self.strays(at, view.tool_results));
            // Messages after results belong to another answer.
            if has_results || is_alone {
                break;
            }
        }
        answer.said.entry = (self.next == first + 1).then_some(first);
        let said = &answer.said;
        let says =
            !said.text.trim().is_empty() || !said.pictures.is_empty() || !said.strays.is_empty();
        if says || !answer.calls.is_empty() || !answer.thinking.is_empty() {
            self.pending.push_back(DialogueMessage::Answer(answer));
        }
        Ok(())
    }

    /// Returns the first unused result of a call in or after the message `from`, with its position.
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
        Ok(Some(FoundResult { position: (message, position), result }))
    }

    /// Returns the results of a message that were not assigned to a call.
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

    /// Returns a valid and unused id.
    fn free_id(&mut self, id: &str) -> String {
        let mut id = sanitize_id(id);
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
    type Item = Result<DialogueMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Returns true if the message is an answer of the model, even if it contains results.
fn is_answer(entry: &MessageEntry, view: &MessageView) -> bool {
    entry.role == Role::Assistant || view.role == Role::Assistant || !view.tool_calls.is_empty()
}

fn larger_usage(a: Option<TokenUsage>, b: Option<TokenUsage>) -> Option<TokenUsage> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    Some(a.larger(b))
}

fn add(said: &mut DialogueText, view: &MessageView) {
    if view.text.trim().is_empty() {
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

fn sanitize_id(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if is_safe(c) { c } else { '_' }).collect()
}

fn sanitize_name(name: &str) -> String {
    let name: String = sanitize_id(name).chars().take(MAX_NAME_CHARS).collect();
    if name.is_empty() { "tool".to_owned() } else { name }
}

/// Returns the system prompt from its own section.
fn prompt(source: &dyn ObjectSource, context: &Context, agent: &str) -> Result<Option<String>> {
    let section = context.section(source, &agent_section(agent, SYSTEM_PROMPT)?)?;
    let Some(section) = section.filter(|section| section.shape == Shape::Blob) else {
        return Ok(None);
    };
    let bytes = source.read_as(Kind::Blob, &section.id)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((!text.trim().is_empty()).then_some(text))
}
