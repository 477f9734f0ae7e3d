//! The messages of a conversation one by one, as chats have them, and their JSON in each dialect.
//!
//! Calls and results are separate messages, each call has a result, and pictures are `[image]`, so
//! that a content is always a text.

use std::collections::{BTreeSet, VecDeque};

use serde_json::{Map, Value, json};
use turntree::context::Context;
use turntree::error::Result;
use turntree::object::{ObjectSource, Time};

use crate::render::chat::{NO_RESULT, arguments, stray_note};
use crate::render::dialogue::{Answer, DialogueMessage, DialogueText, Messages};

/// A message.
#[derive(Debug)]
pub(super) struct Spoken {
    pub(super) kind: SpokenKind,
    pub(super) time: Option<Time>,
}

/// The speaker of a message, and what it says.
#[derive(Debug)]
pub(super) enum SpokenKind {
    System(String),
    User(String),
    Assistant { text: String, thinking: String, calls: Vec<SpokenCall> },
    Tool { call_id: String, name: String, text: String, is_error: bool },
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct SpokenCall {
    id: String,
    name: String,
    arguments: Map<String, Value>,
}

impl Spoken {
    /// Returns true for an answer of the model.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.kind, SpokenKind::Assistant { .. })
    }

    /// The message of OpenAI chats, with thoughts as `reasoning_content`.
    pub(super) fn chat(&self) -> Value {
        let call = |call: &SpokenCall| {
            let arguments = Value::Object(call.arguments.clone()).to_string();
            let function = json!({"name": call.name, "arguments": arguments});
            json!({"id": call.id, "type": "function", "function": function})
        };
        match &self.kind {
            SpokenKind::System(text) => json!({"role": "system", "content": text}),
            SpokenKind::User(text) => json!({"role": "user", "content": text}),
            SpokenKind::Assistant { text, thinking, calls } => {
                let mut message = Map::new();
                message.insert("role".to_owned(), "assistant".into());
                message.insert("content".to_owned(), text.clone().into());
                if !thinking.is_empty() {
                    message.insert("reasoning_content".to_owned(), thinking.clone().into());
                }
                if !calls.is_empty() {
                    let calls = calls.iter().map(call).collect();
                    message.insert("tool_calls".to_owned(), calls);
                }
                message.into()
            }
            SpokenKind::Tool { call_id, name, text, .. } => {
                json!({"role": "tool", "tool_call_id": call_id, "name": name, "content": text})
            }
        }
    }

    /// The message of OpenAI chats, with the mask: whether to train on it.
    pub(super) fn sample(&self, is_trained: bool) -> Value {
        let mut message = self.chat();
        if let Some(fields) = message.as_object_mut() {
            fields.insert("train".to_owned(), is_trained.into());
        }
        message
    }

    /// The message of `verifiers`, whose calls are flat.
    pub(super) fn verifiers(&self) -> Value {
        let mut message = self.chat();
        if let SpokenKind::Assistant { calls, .. } = &self.kind
            && !calls.is_empty()
            && let Some(fields) = message.as_object_mut()
        {
            let call = |call: &SpokenCall| {
                let arguments = Value::Object(call.arguments.clone()).to_string();
                json!({"id": call.id, "name": call.name, "arguments": arguments})
            };
            fields.insert("tool_calls".to_owned(), calls.iter().map(call).collect());
        }
        message
    }

    /// The message of Inspect. `is_generated` is true for an answer of this run.
    pub(super) fn inspect(&self, is_generated: bool) -> Value {
        let source = if is_generated { "generate" } else { "input" };
        let mut message = match &self.kind {
            SpokenKind::System(text) => json!({"role": "system", "content": text}),
            SpokenKind::User(text) => json!({"role": "user", "content": text}),
            SpokenKind::Assistant { text, thinking, calls } => {
                let content = match thinking.is_empty() {
                    true => Value::from(text.clone()),
                    false => json!([{"type": "reasoning", "reasoning": thinking},
                        {"type": "text", "text": text}]),
                };
                let mut message = json!({"role": "assistant", "content": content});
                if let (false, Some(fields)) = (calls.is_empty(), message.as_object_mut()) {
                    let call = |call: &SpokenCall| {
                        json!({"id": call.id, "function": call.name,
                            "arguments": call.arguments, "type": "function"})
                    };
                    fields.insert("tool_calls".to_owned(), calls.iter().map(call).collect());
                }
                message
            }
            SpokenKind::Tool { call_id, name, text, is_error } => {
                let mut message = json!({"role": "tool", "tool_call_id": call_id,
                    "function": name, "content": text});
                if let (true, Some(fields)) = (*is_error, message.as_object_mut()) {
                    let error = json!({"type": "unknown", "message": text});
                    fields.insert("error".to_owned(), error);
                }
                message
            }
        };
        if let Some(fields) = message.as_object_mut() {
            fields.insert("source".to_owned(), source.into());
        }
        message
    }

    /// Adds the names of the tools that the message calls.
    pub(super) fn add_tools(&self, names: &mut BTreeSet<String>) {
        if let SpokenKind::Assistant { calls, .. } = &self.kind {
            names.extend(calls.iter().map(|call| call.name.clone()));
        }
    }
}

/// The tools of a conversation. Their parameters are not recorded, so each schema is open.
pub(super) fn tools(names: &BTreeSet<String>) -> Value {
    let tool = |name: &String| {
        let function = json!({"name": name, "parameters": {"type": "object"}});
        json!({"type": "function", "function": function})
    };
    names.iter().map(tool).collect()
}

/// Reads the messages of an agent in order.
pub(super) struct Conversation<'a> {
    messages: Messages<'a>,
    pending: VecDeque<Spoken>,
}

impl<'a> Conversation<'a> {
    /// Opens the conversation of `agent`.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid agent name, and the errors of reading.
    pub(super) fn of(source: &'a dyn ObjectSource, context: &Context, agent: &str) -> Result<Self> {
        let messages = Messages::of(source, context, agent)?;
        Ok(Self { messages, pending: VecDeque::new() })
    }

    fn add(&mut self, message: DialogueMessage) {
        match message {
            DialogueMessage::System(said) => {
                self.push(SpokenKind::System(said.text), said.time);
            }
            DialogueMessage::User(said) => self.add_text(said),
            DialogueMessage::Answer(answer) => self.add_answer(answer),
        }
    }

    fn add_text(&mut self, said: DialogueText) {
        for stray in &said.strays {
            self.push(SpokenKind::User(stray_note(stray)), said.time);
        }
        if !said.text.trim().is_empty() {
            self.push(SpokenKind::User(said.text), said.time);
        }
    }

    fn add_answer(&mut self, answer: Answer) {
        let Answer { said, thinking, calls, .. } = answer;
        let time = said.time;
        // A thought alone was interrupted.
        if !calls.is_empty() || !said.text.is_empty() {
            let made = calls.iter().map(|call| SpokenCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: arguments(&call.arguments),
            });
            let calls = made.collect();
            self.push(SpokenKind::Assistant { text: said.text.clone(), thinking, calls }, time);
        }
        for call in calls {
            let (text, is_error) = match call.result {
                Some(result) => (result.text, result.is_error),
                None => (NO_RESULT.to_owned(), true),
            };
            let kind = SpokenKind::Tool { call_id: call.id, name: call.name, text, is_error };
            self.push(kind, time);
        }
        for stray in &said.strays {
            self.push(SpokenKind::User(stray_note(stray)), time);
        }
    }

    fn push(&mut self, kind: SpokenKind, time: Option<Time>) {
        self.pending.push_back(Spoken { kind, time });
    }
}

impl Iterator for Conversation<'_> {
    type Item = Result<Spoken>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(said) = self.pending.pop_front() {
                return Some(Ok(said));
            }
            match self.messages.next()? {
                Ok(message) => self.add(message),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
