//! Conversations of a document: which agent speaks, where turns begin, and the content of the
//! trivia.
//!
//! A file may hold several conversations (the simulations of a benchmark, the tasks of a run). They
//! are kept in one context, each as a separate agent, so that nothing is mixed: the first is
//! `main`, a further one is named by its identifier in the file (`task-5-trial-0`, an instance id),
//! or by its number.

use std::collections::HashSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};

use crate::model::event::{Content, Event, MessageEvent};
use crate::model::view::MessageView;
use crate::text::json;
use crate::text::piece::{Piece, PieceKind};
use crate::text::unique_name::unique_name;

/// Longest name of an agent, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The speaker, and the turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Conversations {
    /// The agent of the current conversation; empty until its first message.
    agent: String,
    /// Agents so far.
    agents: HashSet<String>,
    turn: TurnState,
}

/// The content of the current turn of the current conversation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum TurnState {
    #[default]
    Nothing,
    /// Instructions only: the prompt after them joins in.
    Opening,
    Speech,
}

impl Conversations {
    /// Begins another conversation, if the current one has anything.
    pub(super) fn next(&mut self) {
        self.agent.clear();
        self.turn = TurnState::Nothing;
    }

    /// Returns the agent of the current conversation; `name` identifies the conversation.
    pub(super) fn agent(&mut self, name: Option<&str>) -> &str {
        if self.agent.is_empty() {
            self.agent = self.free_name(name);
            self.agents.insert(self.agent.clone());
        }
        &self.agent
    }

    /// Returns true if the current conversation is the first.
    pub(super) fn is_first(&self) -> bool {
        self.agents.is_empty() || self.agent == MAIN_AGENT
    }

    /// Returns true if a message of `role` begins a turn: a prompt does, and a step of the model.
    /// Opening instructions share the turn of the messages after them, results that of their step.
    pub(super) fn begins_turn(&mut self, role: Role) -> bool {
        let before = self.turn;
        self.turn = match role {
            Role::System | Role::Other if before != TurnState::Speech => TurnState::Opening,
            _ => TurnState::Speech,
        };
        match role {
            Role::User | Role::Assistant => before != TurnState::Opening,
            _ => before == TurnState::Nothing,
        }
    }

    /// Adds the message `view`, which is the whole piece, and the turn that begins with it.
    pub(super) fn push(
        &mut self,
        view: &MessageView,
        facts: MessageFacts<'_>,
        events: &mut Vec<Event>,
    ) {
        self.push_with(view, Content::Piece, facts, events);
    }

    /// Adds the message `view` with its bytes, and the turn that begins with it.
    pub(super) fn push_with(
        &mut self,
        view: &MessageView,
        content: Content,
        facts: MessageFacts<'_>,
        events: &mut Vec<Event>,
    ) {
        if self.begins_turn(view.role) {
            events.push(Event::Turn);
        }
        self.push_content(view, content, facts, events);
    }

    /// Adds the message `view`, which is the whole piece, to the current turn.
    pub(super) fn push_in_turn(
        &mut self,
        view: &MessageView,
        facts: MessageFacts<'_>,
        events: &mut Vec<Event>,
    ) {
        self.push_content(view, Content::Piece, facts, events);
    }

    fn push_content(
        &mut self,
        view: &MessageView,
        content: Content,
        facts: MessageFacts<'_>,
        events: &mut Vec<Event>,
    ) {
        let time = facts.time.and_then(json::time);
        let agent = self.agent(facts.conversation);
        let message: MessageEvent = view.event(agent, content, time, facts.model);
        events.push(Event::Message(message));
    }

    fn free_name(&self, name: Option<&str>) -> String {
        if self.agents.is_empty() {
            return MAIN_AGENT.to_owned();
        }
        let number = self.agents.len() + 1;
        let safe = name.map(safe_name).filter(|name| !name.is_empty());
        let name = safe.unwrap_or_else(|| format!("conversation-{number}"));
        unique_name(&name, |name| self.agents.iter().any(|agent| agent == name))
    }
}

/// Facts of a message besides its content.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct MessageFacts<'a> {
    /// The identity of the conversation, for the name of its agent.
    pub(super) conversation: Option<&'a str>,
    /// The time, in any form that [`json::time`] reads.
    pub(super) time: Option<&'a Value>,
    /// The model.
    pub(super) model: Option<&'a str>,
}

/// `name` with only letters, digits, `.`, `_` and `-`, so that it can be part of a path.
fn safe_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.trim().chars().map(safe).take(MAX_NAME_CHARS).collect();
    name.trim_matches(['.', '-']).to_owned()
}

/// The fields in `piece` with their values; `None` where a value that holds cuts begins.
pub(super) fn fields(piece: &Piece) -> Vec<(&'static str, Option<Value>)> {
    let PieceKind::Trivia { fields } = &piece.kind else { return Vec::new() };
    let read = |(path, range): &(&'static str, std::ops::Range<usize>)| {
        (*path, piece.bytes.get(range.clone()).and_then(json::value))
    };
    fields.iter().map(read).collect()
}

/// `value` as the text of a fact: text, a number, or a truth value.
pub(super) fn plain(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// The path of the record that `piece` is, and its value; see [`super::record`].
pub(super) fn record(piece: &Piece, events: &mut Vec<Event>) -> Option<(&'static str, Value)> {
    let PieceKind::Record { path } = piece.kind else { return None };
    super::session::record(piece, events).map(|value| (path, value))
}

/// Content whose text is not in the file verbatim.
pub(super) fn own_text(text: &str) -> Content {
    Content::Own(Bytes::copy_from_slice(text.as_bytes()))
}

/// The scratchpad entry `todos` of `agent`, if `todos` is a list.
pub(super) fn todos(agent: &str, todos: Option<&Value>, events: &mut Vec<Event>) {
    let Some(todos) = todos.filter(|todos| todos.is_array()) else { return };
    let key = if agent == MAIN_AGENT { "todos".to_owned() } else { format!("todos/{agent}") };
    events.push(Event::Scratchpad { key, content: Some(Content::own(todos)) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_conversation_is_main_and_others_have_names_of_their_own() {
        let mut conversations = Conversations::default();
        let mut names = Vec::new();
        for name in [Some("a"), Some("a/b c"), Some("a/b c"), Some("../"), None] {
            conversations.next();
            names.push(conversations.agent(name).to_owned());
        }
        assert_eq!(names, ["main", "a-b-c", "a-b-c-2", "conversation-4", "conversation-5"]);
    }

    #[test]
    fn a_turn_is_a_prompt_or_a_step_with_its_results() {
        use Role::{Assistant, Other, System, Tool, User};
        let mut conversations = Conversations::default();
        let roles =
            [System, User, Assistant, Tool, Tool, Other, Assistant, User, System, Assistant];
        let begins = roles.map(|role| conversations.begins_turn(role));
        let expected = [true, false, true, false, false, false, true, true, false, true];
        assert_eq!(begins, expected);
        conversations.next();
        assert_eq!([Assistant, User].map(|role| conversations.begins_turn(role)), [true, true]);
    }
}
