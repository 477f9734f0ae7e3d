//! Hooks of agents: parses the events of a client and writes the answers to them.
//!
//! Claude Code, Codex and Gemini CLI run a command at certain moments of a session, give it the event
//! as JSON on standard input, and read JSON from its output. Their names for the same events
//! differ; [`HookEvent::parse`] translates an event into a common form, and [`HookEvent::answer`]
//! answers in the client's form. Nothing here reads a file or a store.
//!
//! | moment | Claude Code, Codex | Gemini CLI |
//! |---|---|---|
//! | a session begins | `SessionStart` | `SessionStart` |
//! | a prompt | `UserPromptSubmit` | `BeforeAgent` |
//! | before a tool | `PreToolUse` | `BeforeTool` |
//! | after a tool | `PostToolUse`, `PostToolUseFailure` | `AfterTool` |
//! | before a compaction | `PreCompact` | `PreCompress` |
//! | a sub-agent ends | `SubagentStop` | |
//! | the agent stops, the session ends | `Stop`, `StopFailure`, `SessionEnd` | `AfterAgent`, `SessionEnd` |
//!
//! Unknown events are [`EventKind::Other`]: clients get new events with every version.
//!
//! ```
//! use turntree_exchange::agents::hook::{Effect, EventKind, HookEvent};
//!
//! let event = HookEvent::parse(
//!     br#"{"session_id":"s","transcript_path":"/t/s.jsonl","cwd":"/p","hook_event_name":"PostToolUse",
//!          "tool_name":"Bash","tool_input":{"command":"make"},"tool_response":{"stdout":"ok"}}"#,
//!     None,
//! )?;
//! assert_eq!(event.moment, EventKind::AfterTool);
//! assert_eq!(event.tool.as_ref().map(|tool| tool.effect), Some(Effect::Anything));
//! # Ok::<(), turntree::Error>(())
//! ```

mod claude_code;
mod codex;
mod command;
mod gemini;
mod output;
mod tool;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

pub use command::is_destructive;
pub use tool::{Effect, ToolEvent, TouchedFile};
use tool::{named_file, tool};
use turntree::error::{Error, Result};

/// The prefix of the file name of a sub-agent, before its id.
const AGENT_FILE: &str = "agent-";

/// Longest event that is read, in bytes.
pub const MAX_EVENT_BYTES: usize = 32 << 20;

/// Characters of a prompt that a brief event has.
const MAX_BRIEF_PROMPT: usize = 4096;

/// The dialect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 3] = [Self::ClaudeCode, Self::Codex, Self::Gemini];

    /// The name in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the steps that the user has to take in the client before it runs the hooks of its
    /// settings: those of a project, or of the user.
    #[must_use]
    pub const fn steps_to_trust(self, is_project: bool) -> &'static [&'static str] {
        match (self, is_project) {
            (Self::Codex, true) => codex::TRUST,
            (Self::Codex, false) => codex::TRUST.split_at(1).1,
            (Self::ClaudeCode | Self::Gemini, _) => &[],
        }
    }

    /// Returns the file that defines the command `/rollback` for the client: its path below the
    /// directory of the settings, and its content. `None` for a client without such files.
    #[must_use]
    pub const fn rollback_command(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::ClaudeCode => Some(claude_code::ROLLBACK),
            Self::Gemini => Some(gemini::ROLLBACK),
            Self::Codex => None,
        }
    }

    /// Returns true if the client accepts a replacement for the output of a tool.
    #[must_use]
    pub const fn takes_outputs(self) -> bool {
        matches!(self, Self::ClaudeCode)
    }

    /// The dialect called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Returns the client of an event, by the fields that only one of them has.
    fn of(event: &Map<String, Value>, name: &str) -> Self {
        let transcript = text(event, "transcript_path").unwrap_or_default();
        if gemini::is_own(name) || event.contains_key("timestamp") {
            Self::Gemini
        } else if event.contains_key("turn_id") || transcript.contains("/rollout-") {
            Self::Codex
        } else {
            Self::ClaudeCode
        }
    }

    fn moment(self, name: &str) -> Option<(&'static str, EventKind)> {
        let names = match self {
            Self::ClaudeCode | Self::Codex => claude_code::MOMENTS,
            Self::Gemini => gemini::MOMENTS,
        };
        names.iter().copied().find(|(known, _)| *known == name)
    }

    /// Returns the id of the call that an event is about, if the transcript uses the same id.
    fn call(self, event: &Map<String, Value>) -> Option<&str> {
        match self {
            Self::ClaudeCode => text(event, "tool_use_id").filter(|id| !id.is_empty()),
            Self::Codex | Self::Gemini => None,
        }
    }

    fn effect(self, tool: &str) -> Effect {
        match self {
            Self::ClaudeCode => claude_code::effect(tool),
            Self::Codex => codex::effect(tool),
            Self::Gemini => gemini::effect(tool),
        }
    }

    fn files(self, event: &Map<String, Value>) -> Vec<TouchedFile> {
        match self {
            Self::ClaudeCode => claude_code::files(event),
            Self::Codex => codex::files(event),
            Self::Gemini => gemini::files(event),
        }
    }
}

/// When in a session something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The session begins or is resumed.
    Start,
    /// The user sent a prompt.
    Prompt,
    /// A tool is about to run.
    BeforeTool,
    /// A tool has run.
    AfterTool,
    /// A summary is about to replace the conversation.
    BeforeCompaction,
    /// A sub-agent has ended.
    AgentEnd,
    /// The agent waits for its user.
    Stop,
    /// It ends.
    End,
    /// Any other event.
    Other,
}

/// An event in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct HookEvent {
    /// The dialect of the client that sent the event.
    pub dialect: Dialect,
    /// The client's name of the event; `other` when it is unknown.
    pub name: &'static str,
    /// When.
    pub moment: EventKind,
    /// The client's name of the session.
    pub session: Option<String>,
    /// The file that the session is written to; that of the sub-agent if one has ended or called a
    /// tool.
    pub transcript: Option<PathBuf>,
    /// The file of the session that the sub-agent works for, where it is one.
    pub main: Option<PathBuf>,
    /// The working directory of the agent.
    pub cwd: Option<PathBuf>,
    /// The tool, before and after it runs.
    pub tool: Option<ToolEvent>,
    /// The text of the user, at a prompt.
    pub prompt: Option<String>,
}

impl HookEvent {
    /// Reads an event. Its dialect is detected from its fields, if it is not given.
    ///
    /// # Errors
    /// `LimitExceeded` over [`MAX_EVENT_BYTES`], `InvalidInput` for anything but a JSON object that
    /// names its event. Neither quotes it.
    pub fn parse(bytes: &[u8], dialect: Option<Dialect>) -> Result<Self> {
        if bytes.len() > MAX_EVENT_BYTES {
            let (limit, found) = (MAX_EVENT_BYTES as u64, bytes.len() as u64);
            return Err(Error::limit("bytes of the event", limit, found));
        }
        let event = match serde_json::from_slice(bytes) {
            Ok(Value::Object(event)) => event,
            Ok(_) => return Err(Error::invalid("the event: expected a JSON object")),
            Err(error) => {
                let place = format!("line {}, column {}", error.line(), error.column());
                return Err(Error::invalid(format!("the event, {place}: expected JSON")));
            }
        };
        let Some(name) = text(&event, "hook_event_name") else {
            return Err(Error::invalid("the event: expected hook_event_name"));
        };
        let dialect = dialect.unwrap_or_else(|| Dialect::of(&event, name));
        let (name, moment) = dialect.moment(name).unwrap_or(("other", EventKind::Other));
        let path = |key| text(&event, key).filter(|path| !path.is_empty()).map(PathBuf::from);
        let session = text(&event, "session_id").map(str::to_owned);
        let is_tool = matches!(moment, EventKind::BeforeTool | EventKind::AfterTool);
        let (transcript, main) = match (moment, path("transcript_path")) {
            (EventKind::AgentEnd, main) => (path("agent_transcript_path"), main),
            (_, Some(main)) if is_tool => match agent_transcript(&event, &main) {
                Some(agent) => (Some(agent), Some(main)),
                None => (Some(main), None),
            },
            (_, transcript) => (transcript, None),
        };
        let tool = is_tool.then(|| tool(&event, dialect, moment));
        let cwd = path("cwd");
        let is_prompt = moment == EventKind::Prompt;
        let prompt = text(&event, "prompt").filter(|_| is_prompt).map(|prompt| match dialect {
            Dialect::Gemini => gemini::said(prompt).to_owned(),
            Dialect::ClaudeCode | Dialect::Codex => prompt.to_owned(),
        });
        Ok(Self { dialect, name, moment, session, transcript, main, cwd, tool, prompt })
    }

    /// Returns the event without its long values: enough to handle it again. A prompt keeps its
    /// beginning, which identifies its record.
    #[must_use]
    pub fn brief(&self) -> Vec<u8> {
        let path =
            |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let mut event = Map::new();
        event.insert("hook_event_name".into(), self.name.into());
        event.insert("session_id".into(), json!(self.session));
        match &self.main {
            Some(main) => {
                let name = self.transcript.as_ref().and_then(|path| path.file_stem());
                let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                event.insert("agent_id".into(), name.trim_start_matches(AGENT_FILE).into());
                event.insert("agent_transcript_path".into(), json!(path(&self.transcript)));
                event.insert("transcript_path".into(), main.to_string_lossy().into());
            }
            None => {
                let key = match self.moment {
                    EventKind::AgentEnd => "agent_transcript_path",
                    _ => "transcript_path",
                };
                event.insert(key.into(), json!(path(&self.transcript)));
            }
        }
        event.insert("cwd".into(), json!(path(&self.cwd)));
        event.insert("tool_name".into(), json!(self.tool.as_ref().map(|tool| &tool.name)));
        event.insert("tool_use_id".into(), json!(self.tool.as_ref().map(|tool| &tool.call)));
        let prompt = self.prompt.as_ref();
        let prompt = prompt.map(|prompt| prompt.chars().take(MAX_BRIEF_PROMPT).collect::<String>());
        event.insert("prompt".into(), json!(prompt));
        Value::Object(event).to_string().into_bytes()
    }

    /// Returns the answer that gives the agent `context` to read, `output` instead of the output of
    /// the tool, and its user `message` to see. `None` if all are empty, or if the client accepts
    /// no answer at this moment.
    #[must_use]
    pub fn answer(
        &self,
        context: Option<&str>,
        output: Option<Value>,
        message: Option<&str>,
    ) -> Option<String> {
        let listens =
            matches!(self.moment, EventKind::Start | EventKind::Prompt | EventKind::AfterTool);
        let context = context.filter(|_| listens);
        let output = output.filter(|_| self.takes_output());
        let mut answer = Map::new();
        answer.extend(message.map(|text| ("systemMessage".to_owned(), text.into())));
        if context.is_none() && output.is_none() {
            return (!answer.is_empty()).then(|| Value::Object(answer).to_string());
        }
        let mut specific = Map::new();
        specific.insert("hookEventName".into(), self.name.into());
        specific.extend(context.map(|text| ("additionalContext".to_owned(), text.into())));
        specific.extend(output.map(|output| ("updatedToolOutput".to_owned(), output)));
        answer.insert("hookSpecificOutput".into(), specific.into());
        Some(Value::Object(answer).to_string())
    }

    /// Returns the answer that ends a prompt before the agent sees it: `reason` is shown to the
    /// user, and the prompt is no part of the conversation. `None` at any other moment.
    #[must_use]
    pub fn refusal(&self, reason: &str) -> Option<String> {
        let decision = match self.dialect {
            Dialect::ClaudeCode | Dialect::Codex => "block",
            Dialect::Gemini => "deny",
        };
        let answer = json!({"decision": decision, "reason": reason});
        (self.moment == EventKind::Prompt).then(|| answer.to_string())
    }

    /// Returns the answer that stops the agent, if the client can stop at this moment; `question`
    /// is shown to its user. Codex continues, with the question instead of the output of the tool.
    #[must_use]
    pub fn stop(&self, question: &str) -> Option<String> {
        let stops = match (self.dialect, self.moment) {
            // After a failed tool the client continues, whatever the answer.
            (Dialect::ClaudeCode, EventKind::AfterTool) => self.name == "PostToolUse",
            (Dialect::ClaudeCode, EventKind::BeforeTool) => true,
            (Dialect::Codex | Dialect::Gemini, moment) => moment == EventKind::AfterTool,
            (Dialect::ClaudeCode, _) => false,
        };
        let answer = json!({"continue": false, "stopReason": question});
        stops.then(|| answer.to_string())
    }

    /// Returns the output of the tool, with every text replaced for which `shorten` returns another
    /// one. `None` if there is no such text, if the client accepts no other output, and if the
    /// output is the content of a file, of which the agent needs every byte.
    #[must_use]
    pub fn shortened(&self, shorten: &mut dyn FnMut(&str) -> Option<String>) -> Option<Value> {
        let tool = self.tool.as_ref().filter(|_| self.takes_output())?;
        let is_said =
            tool.effect == Effect::Anything || claude_code::TALKATIVE.contains(&&*tool.name);
        let mut response = tool.response.clone();
        (is_said && output::replace(&mut response, shorten)).then_some(response)
    }

    fn takes_output(&self) -> bool {
        self.dialect.takes_outputs() && self.name == "PostToolUse"
    }
}

/// Returns the file of the sub-agent that an event is about: next to the transcript of its session.
fn agent_transcript(event: &Map<String, Value>, main: &Path) -> Option<PathBuf> {
    let agent = text(event, "agent_id").filter(|id| !id.is_empty())?;
    let is_name = agent.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let folder = main.with_extension("").join("subagents");
    is_name.then(|| folder.join(format!("{AGENT_FILE}{agent}.jsonl")))
}

/// A field that is text.
fn text<'e>(event: &'e Map<String, Value>, key: &str) -> Option<&'e str> {
    event.get(key).and_then(Value::as_str)
}

/// A text at the end of a path of fields.
fn text_at<'e>(event: &'e Map<String, Value>, path: [&str; 2]) -> Option<&'e str> {
    let [first, second] = path;
    event.get(first)?.get(second)?.as_str()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(value: &Value) -> HookEvent {
        HookEvent::parse(value.to_string().as_bytes(), None).unwrap()
    }

    #[test]
    fn an_event_is_known_by_what_only_its_client_says() {
        for (value, dialect, moment) in [
            (json!({"hook_event_name": "SessionStart"}), Dialect::ClaudeCode, EventKind::Start),
            (
                json!({"hook_event_name": "SessionStart", "transcript_path": "/s/rollout-2.jsonl"}),
                Dialect::Codex,
                EventKind::Start,
            ),
            (json!({"hook_event_name": "Stop", "turn_id": "1"}), Dialect::Codex, EventKind::Stop),
            (json!({"hook_event_name": "AfterTool"}), Dialect::Gemini, EventKind::AfterTool),
            (
                json!({"hook_event_name": "SessionEnd", "timestamp": "2026"}),
                Dialect::Gemini,
                EventKind::End,
            ),
            (json!({"hook_event_name": "Novelty"}), Dialect::ClaudeCode, EventKind::Other),
        ] {
            let found = event(&value);
            assert_eq!((found.dialect, found.moment), (dialect, moment), "{value}");
        }
    }

    #[test]
    fn a_brief_event_is_the_same_event() {
        let long = event(&json!({"hook_event_name": "PostToolUse", "session_id": "s", "cwd": "/p",
            "transcript_path": "/t/s.jsonl", "tool_name": "Bash", "tool_input": {"command": "x"},
            "tool_response": {"stdout": "long"}}));
        let brief = HookEvent::parse(&long.brief(), Some(long.dialect)).unwrap();
        assert_eq!(
            (brief.moment, &brief.session, &brief.cwd),
            (long.moment, &long.session, &long.cwd)
        );
        assert_eq!(brief.transcript, long.transcript);
        assert_eq!(brief.tool.unwrap().effect, Effect::Anything);
    }

    #[test]
    fn an_answer_is_in_the_words_of_the_client_and_only_where_it_listens() {
        let after = event(&json!({"hook_event_name": "PostToolUse"}));
        let answer = after.answer(Some("look"), Some(json!({"stdout": "short"})), None).unwrap();
        assert_eq!(
            answer,
            r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"look","updatedToolOutput":{"stdout":"short"}}}"#
        );
        let gemini = event(&json!({"hook_event_name": "AfterTool"}));
        assert!(
            !gemini
                .answer(Some("look"), Some(json!(1)), None)
                .unwrap()
                .contains("updatedToolOutput")
        );
        assert_eq!(gemini.answer(None, Some(json!(1)), None), None);
        let stop = event(&json!({"hook_event_name": "Stop"}));
        assert_eq!(stop.answer(Some("look"), None, None), None);
        assert_eq!(after.answer(None, None, None), None);
        assert_eq!(stop.answer(None, None, Some("see")).unwrap(), r#"{"systemMessage":"see"}"#);
        let failed = event(&json!({"hook_event_name": "PostToolUseFailure"}));
        assert!(failed.answer(Some("look"), None, None).unwrap().contains("look"));
    }

    #[test]
    fn a_tool_of_a_sub_agent_is_about_its_own_transcript() {
        let value = json!({"hook_event_name": "PostToolUse", "transcript_path": "/t/s.jsonl",
            "agent_id": "a1", "tool_name": "Bash", "tool_use_id": "toolu_1"});
        let found = event(&value);
        let again = HookEvent::parse(&found.brief(), Some(found.dialect)).unwrap();
        for event in [&found, &again] {
            assert_eq!(event.transcript.as_deref(), Some("/t/s/subagents/agent-a1.jsonl".as_ref()));
            assert_eq!(event.main.as_deref(), Some("/t/s.jsonl".as_ref()));
            assert_eq!(event.tool.as_ref().unwrap().call.as_deref(), Some("toolu_1"));
        }
        let mut outside = value;
        outside["agent_id"] = json!("../../x");
        assert_eq!(event(&outside).transcript.as_deref(), Some("/t/s.jsonl".as_ref()));
    }

    #[test]
    fn what_is_no_event_is_refused_without_quoting_it() {
        for text in ["", "[1]", "{\"secret\": 1", "{}", "{\"hook_event_name\": 7}", "\u{0}"] {
            let error = HookEvent::parse(text.as_bytes(), None).unwrap_err().to_string();
            assert!(error.starts_with("the event") && !error.contains("secret"), "{error}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert!(HookEvent::parse(deep.as_bytes(), None).is_err());
        let huge = vec![b' '; MAX_EVENT_BYTES + 1];
        assert!(HookEvent::parse(&huge, None).is_err());
    }

    turntree_properties::properties! {
        #[test]
        fn any_fields_are_taken(
            name in "PreToolUse|PostToolUse|AfterTool|BeforeTool|SubagentStop",
            tool in "Bash|Edit|Write|apply_patch|replace|[a-z]{3}",
            input in "[\\PC\n*+@-]{0,40}",
        ) {
            for shape in [json!(input), json!({"command": input, "file_path": input, "input": input})] {
                let value = json!({"hook_event_name": name, "tool_name": tool, "tool_input": shape,
                    "tool_response": shape, "cwd": input});
                for dialect in Dialect::ALL {
                    let event = HookEvent::parse(value.to_string().as_bytes(), Some(dialect)).unwrap();
                    let _ = event.shortened(&mut |text| Some(text.to_owned()));
                    prop_assert!(HookEvent::parse(&event.brief(), Some(dialect)).is_ok());
                }
            }
        }
    }
}
