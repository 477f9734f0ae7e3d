//! A conversation as a transcript that an agent takes up as a session of its own.
//!
//! [`native_transcript`] writes the messages of a context in the form that an agent writes itself, under
//! the id of a new session. Two ways lead there:
//!
//! | messages | what is written |
//! |---|---|
//! | all of them records of that agent, each result behind its call | those records, with new links between them, as its own fork does |
//! | anything else: another agent's, several agents', a result without its call | each message anew: calls in the agent's form with their results behind them, pictures where it takes them |
//!
//! Content that has no place in the new form is counted in [`NativeTranscript::left_out`]. Nothing is
//! random: ids of records follow from the id of the session and their position.

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
use super::dialogue::{Answer, Messages, Speech, SpokenText};

/// An agent that takes up transcripts of this module.
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
    /// Its id, as [`NativeAgent::session_id`] makes it.
    pub session: &'a str,
    /// The absolute path of its working directory.
    pub cwd: &'a str,
    /// The present moment: that of the last record, by which agents find the end of a session.
    pub now: Time,
    /// Writes moments as RFC 3339 with milliseconds, in UTC.
    pub show_time: ShowTime<'a>,
    /// The title of the session.
    pub title: &'a str,
}

/// A transcript for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeTranscript {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// Messages in it: records of the agent, or what one side said in one go.
    pub messages: u64,
    /// True if the records are those of the agent itself.
    pub is_own: bool,
    /// Content that is not in it, by kind, with how often.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl NativeAgent {
    /// Every agent, in the order in which they are listed.
    pub const ALL: [Self; 5] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Opencode, Self::Pi];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini-cli",
            Self::Opencode => "opencode",
            Self::Pi => "pi",
        }
    }

    /// Returns the name of the format of its transcripts.
    #[must_use]
    pub const fn format(self) -> &'static str {
        match self {
            Self::Gemini => "gemini-cli-log",
            Self::ClaudeCode | Self::Codex | Self::Opencode | Self::Pi => self.name(),
        }
    }

    /// Returns the id of a new session, made of `random` bytes.
    #[must_use]
    pub fn session_id(self, random: [u8; 16], now: Time) -> String {
        match self {
            Self::Opencode => opencode::session_id(random, now),
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Pi => uuid(random),
        }
    }

    /// Returns the agent of a name or a format.
    ///
    /// # Errors
    /// `InvalidInput` for a format in which no agent can be given a session.
    pub fn of_format(name: &str) -> Result<Self> {
        let is_of = |agent: &Self| [agent.name(), agent.format()].contains(&name);
        Self::ALL.into_iter().find(is_of).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!(
                "no session can be laid out for '{name}': choose one of {names}"
            ))
        })
    }
}

/// Writes the main conversation of `context` as a transcript of `agent`.
///
/// Cost: each message is read twice.
///
/// # Errors
/// `InvalidInput` for a conversation without a message that the agent can take; else those of reading.
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
            match agent {
                NativeAgent::ClaudeCode => claude_code::rewrite(&mut out, records),
                NativeAgent::Codex => codex::rewrite(&mut out, records),
                NativeAgent::Gemini => gemini::rewrite(&mut out, records),
                NativeAgent::Opencode => opencode::rewrite(&mut out, records),
                NativeAgent::Pi => pi::rewrite(&mut out, records),
            }
        }
        None => {
            let mut writer: Box<dyn Form> = match agent {
                NativeAgent::ClaudeCode => Box::new(claude_code::Log::default()),
                NativeAgent::Codex => Box::new(codex::Rollout),
                NativeAgent::Gemini => Box::new(gemini::Log),
                NativeAgent::Opencode => Box::new(opencode::Document::new()),
                NativeAgent::Pi => Box::new(pi::Log::default()),
            };
            writer.begin(&mut out);
            for speech in Messages::of(source, context, MAIN_AGENT)? {
                let speech = speech?;
                out.leave_out_of(&speech);
                match speech {
                    Speech::System(_) => {}
                    Speech::User(said) => writer.user(&mut out, &said),
                    Speech::Answer(answer) => writer.answer(&mut out, answer),
                }
            }
            writer.end(&mut out);
        }
    }
    out.finish()
}

/// The form of an agent, in which a conversation is written anew.
trait Form {
    /// Writes what stands before the conversation.
    fn begin(&mut self, _out: &mut Transcript<'_>) {}

    /// Writes what a person says, and results without their calls.
    fn user(&mut self, out: &mut Transcript<'_>, said: &SpokenText);

    /// Writes an answer of the model, and the results of its calls behind it.
    fn answer(&mut self, out: &mut Transcript<'_>, answer: Answer);

    /// Writes what stands behind the conversation.
    fn end(&mut self, _out: &mut Transcript<'_>) {}
}

/// A transcript in the making: one JSON object a line, or one document.
struct Transcript<'a> {
    facts: &'a NativeFacts<'a>,
    bytes: Vec<u8>,
    /// Records that have got an id.
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

    fn leave_out(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }

    /// Returns 16 bytes for the next record, the same for the same session.
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

    /// Counts what no agent is given: instructions of another one, and thoughts, whose signatures are
    /// the model's own.
    fn leave_out_of(&mut self, speech: &Speech) {
        match speech {
            Speech::System(_) => self.leave_out("system messages"),
            Speech::Answer(answer) if !answer.thinking.is_empty() => self.leave_out("thoughts"),
            Speech::Answer(_) | Speech::User(_) => {}
        }
    }

    fn finish(self) -> Result<NativeTranscript> {
        if self.messages == 0 {
            return Err(Error::invalid("there is no message that the agent could go on from"));
        }
        let Self { bytes, messages, is_own, left_out, .. } = self;
        Ok(NativeTranscript { bytes, messages, is_own, left_out })
    }
}

/// Returns the text of a UUID of version 4 made of `bytes`.
fn uuid(mut bytes: [u8; 16]) -> String {
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| hex.get(part).unwrap_or_default()).join("-")
}
