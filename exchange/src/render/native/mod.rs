//! Writes a conversation as a transcript that an agent can resume as a new session.
//!
//! [`native_transcript`] writes the messages of a context in the agent's own format, with the id of
//! a new session. There are two cases:
//!
//! | messages | output |
//! |---|---|
//! | all are records of that agent, each result after its call | these records, with new links |
//! | anything else: other agents, a result without its call | each message, converted |
//!
//! The first case equals a fork by the agent itself. A converted message has its calls with their
//! results in the agent's format, and its pictures if the agent accepts them.
//!
//! [`NativeTranscript::left_out`] counts content that the new format cannot hold. The output is
//! deterministic: the ids of records are derived from the session id and their position.

mod claude_code;
mod codex;
mod gemini;
mod opencode;
mod own_records;
mod pi;

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};
use turntree::context::{Context, MAIN_AGENT};
use turntree::error::{Error, Result};
use turntree::object::{ObjectSource, Time};

use super::ShowTime;
use super::dialogue::{Answer, DialogueMessage, DialogueText, Messages};

/// An agent that can resume transcripts of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeAgent {
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// The pi coding agent.
    Pi,
}

/// The facts of the new session.
#[derive(Clone, Copy)]
pub struct NativeFacts<'a> {
    /// The id, from [`NativeAgent::session_id`].
    pub session: &'a str,
    /// The absolute path of its working directory.
    pub cwd: &'a str,
    /// The current time. It becomes the time of the last record, which agents take as the end of a
    /// session.
    pub now: Time,
    /// Formats times as RFC 3339 in UTC with milliseconds.
    pub show_time: ShowTime<'a>,
    /// The title of the session.
    pub title: &'a str,
}

/// A transcript for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeTranscript {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The number of messages: records of the agent, or consecutive content of one speaker.
    pub messages: u64,
    /// True if the records are the agent's own.
    pub is_own: bool,
    /// The number of omitted contents, by kind.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl NativeAgent {
    /// All agents, in listing order.
    pub const ALL: [Self; 5] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Opencode, Self::Pi];

    /// Returns the facts about its transcripts.
    const fn form(self) -> &'static NativeForm {
        match self {
            Self::ClaudeCode => &claude_code::FORM,
            Self::Codex => &codex::FORM,
            Self::Gemini => &gemini::FORM,
            Self::Opencode => &opencode::FORM,
            Self::Pi => &pi::FORM,
        }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.form().name
    }

    /// Returns the name of the format of its transcripts.
    #[must_use]
    pub const fn format(self) -> &'static str {
        self.form().format
    }

    /// Returns the id of a new session, derived from `random`.
    #[must_use]
    pub fn session_id(self, random: [u8; 16], now: Time) -> String {
        (self.form().session_id)(random, now)
    }

    /// Returns the agent with a name, a short name or a format.
    ///
    /// # Errors
    /// `InvalidInput` for a format without an agent that can resume a session.
    pub fn of_format(name: &str) -> Result<Self> {
        let is_of = |agent: &Self| {
            let form = agent.form();
            [form.name, form.format].contains(&name) || form.alias == Some(name)
        };
        Self::ALL.into_iter().find(is_of).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!(
                "no session can be laid out for '{name}': choose one of {names}"
            ))
        })
    }
}

/// The transcripts of an agent: their names, and the functions that write one.
struct NativeForm {
    /// The name of the agent.
    name: &'static str,
    /// The name of its program, if users call it so.
    alias: Option<&'static str>,
    /// The name of the format.
    format: &'static str,
    /// Derives the id of a new session from random bytes.
    session_id: fn([u8; 16], Time) -> String,
    /// Writes records of the agent, with new links.
    rewrite: fn(&mut Transcript<'_>, Vec<Value>),
    /// Returns the writer of converted messages.
    writer: fn() -> Box<dyn NativeFormat>,
}

/// Writes the main conversation of `context` as a transcript of `agent`.
///
/// Cost: reads each message twice.
///
/// # Errors
/// `InvalidInput` for a conversation without a message that the agent accepts, and the errors of
/// reading.
pub fn native_transcript(
    agent: NativeAgent,
    source: &dyn ObjectSource,
    context: &Context,
    facts: &NativeFacts<'_>,
) -> Result<NativeTranscript> {
    let mut out = Transcript::new(facts);
    match own_records::own_records(source, context, agent)? {
        Some(records) => {
            out.is_own = true;
            (agent.form().rewrite)(&mut out, records);
        }
        None => {
            let mut writer = (agent.form().writer)();
            writer.begin(&mut out);
            for speech in Messages::of(source, context, MAIN_AGENT)? {
                let speech = speech?;
                out.omit_parts(&speech);
                match speech {
                    DialogueMessage::System(_) => {}
                    DialogueMessage::User(said) => writer.user(&mut out, &said),
                    DialogueMessage::Answer(answer) => writer.answer(&mut out, answer),
                }
            }
            writer.end(&mut out);
        }
    }
    out.finish()
}

/// Converts a conversation to the format of an agent.
trait NativeFormat {
    /// Writes the records before the conversation.
    fn begin(&mut self, _out: &mut Transcript<'_>) {}

    /// Writes a prompt, and results without their calls.
    fn user(&mut self, out: &mut Transcript<'_>, said: &DialogueText);

    /// Writes an answer of the model, followed by the results of its calls.
    fn answer(&mut self, out: &mut Transcript<'_>, answer: Answer);

    /// Writes the records after the conversation.
    fn end(&mut self, _out: &mut Transcript<'_>) {}
}

/// A transcript under construction: one JSON object per line, or a single document.
struct Transcript<'a> {
    facts: &'a NativeFacts<'a>,
    bytes: Vec<u8>,
    /// The number of records with a generated id.
    numbered: u64,
    messages: u64,
    is_own: bool,
    left_out: BTreeMap<&'static str, u64>,
}

impl<'a> Transcript<'a> {
    fn new(facts: &'a NativeFacts<'a>) -> Self {
        let (bytes, left_out) = (Vec::new(), BTreeMap::new());
        Self { facts, bytes, numbered: 0, messages: 0, is_own: false, left_out }
    }

    fn line(&mut self, value: &Value) {
        self.bytes.extend_from_slice(value.to_string().as_bytes());
        self.bytes.push(b'\n');
    }

    fn omit(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }

    /// Returns 16 bytes for the next record, derived from the session id.
    fn next_id(&mut self) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update(self.facts.session.as_bytes());
        hash.update(self.numbered.to_le_bytes());
        self.numbered += 1;
        let mut id = [0; 16];
        for (byte, hashed) in id.iter_mut().zip(hash.finalize()) {
            *byte = hashed;
        }
        id
    }

    fn next_uuid(&mut self) -> String {
        uuid(self.next_id())
    }

    fn time(&self, said: Option<Time>) -> String {
        (self.facts.show_time)(said.unwrap_or(self.facts.now))
    }

    fn now(&self) -> String {
        (self.facts.show_time)(self.facts.now)
    }

    /// Counts content that no agent accepts: instructions of another agent, and thinking, whose
    /// signatures only the original model accepts.
    fn omit_parts(&mut self, speech: &DialogueMessage) {
        match speech {
            DialogueMessage::System(_) => self.omit("system messages"),
            DialogueMessage::Answer(answer) if !answer.thinking.is_empty() => self.omit("thoughts"),
            DialogueMessage::Answer(_) | DialogueMessage::User(_) => {}
        }
    }

    fn finish(self) -> Result<NativeTranscript> {
        if self.messages == 0 {
            return Err(Error::invalid("there is no message that the agent could continue from"));
        }
        let Self { bytes, messages, is_own, left_out, .. } = self;
        Ok(NativeTranscript { bytes, messages, is_own, left_out })
    }
}

/// Formats random bytes as the id of a session that is a UUID.
fn random_uuid(random: [u8; 16], _: Time) -> String {
    uuid(random)
}

/// Formats `bytes` as a UUID of version 4.
fn uuid(mut bytes: [u8; 16]) -> String {
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| hex.get(part).unwrap_or_default()).join("-")
}
