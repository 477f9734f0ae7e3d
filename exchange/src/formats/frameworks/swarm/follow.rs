//! Events become turns: after each one the context is the reconstruction of the log so far.
//!
//! A log comes in the order in which it was written, which is not always that of its times. A late
//! event is put in its place by time: a message before later ones, a value only if no later event
//! has set it. So no log is sorted, and every turn is right for the events known by then. Memory:
//! some bytes for each message and call, and the paths that were written and read.

use std::collections::{BTreeSet, HashMap};

use turntree::context::sections::{
    AGENTS, MEMORY_READS, META, READS, SCRATCHPAD, STATE, SYSTEM_PROMPT,
};
use turntree::context::{Context, MessageEntry, Role, agent_section};
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource};
use turntree::tree::MAX_KEY_BYTES;

use super::super::json_writer::quoted;
use super::compat::SwarmCompat;
use super::document::text_of;
use super::log::{Effect, LogEvent, text};
use super::reconstruct::{calls_of, metadata, with_first_message};
use super::{
    META_MEMORY, META_METADATA, META_MOMENT, META_SDK, META_TYPE, META_VERSION, SDK_VERSION,
    decoded, stored_name,
};
use crate::model::event::{Content, Event, MessageEvent, Parser};
use crate::model::headline::Headline;
use crate::text::json::{Text, iso_time};
use crate::text::piece::{Piece, PieceKind};

/// The place of an event: its moment, and its number in the log.
type EventPlace = (i64, u64);

/// Before every event: where a base has its messages.
const BASE: EventPlace = (i64::MIN, 0);

/// Follows a log.
#[derive(Debug, Default)]
pub(super) struct Follower {
    agents: HashMap<String, FollowedAgent>,
    scratchpad: HashMap<String, EventPlace>,
    events: u64,
    first: Option<EventPlace>,
    last: Option<EventPlace>,
    /// The metadata of the snapshot that the log continues.
    base: Option<String>,
}

/// The knowledge of an agent that places coming events.
#[derive(Debug, Default)]
struct FollowedAgent {
    /// Its name in the context.
    stored: String,
    /// Keys of its messages, in order.
    messages: Vec<EventPlace>,
    /// The place of each call.
    calls: HashMap<String, EventPlace>,
    thresholds: BTreeSet<i64>,
    prompt: Option<EventPlace>,
    todo: Option<(EventPlace, Option<String>)>,
    /// Returns the content of the context.
    todo_index: Option<u64>,
    skill: Option<EventPlace>,
    reads: HashMap<String, EventPlace>,
    memory_reads: HashMap<String, EventPlace>,
}

impl Parser for Follower {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let PieceKind::Record { .. } = piece.kind else { return };
        let text = Text::new(&piece.bytes);
        let Some(event) = text.as_ref().and_then(LogEvent::of) else {
            return events.push(Event::Unknown { what: "no event".to_owned() });
        };
        let effect = event.effect();
        if let Some(odd) = event.odd(&effect) {
            events.push(Event::Unknown { what: odd.to_owned() });
        }
        self.event(&event, effect, events);
        // A turn begins with its first event, whatever other events it has.
        if let Some(at) = events.iter().position(|event| matches!(event, Event::Turn)) {
            events.swap(0, at);
        }
    }

    fn resume(&mut self, source: &dyn ObjectSource, base: &Context) -> Result<()> {
        let value = |section: &str, key: &str| -> Result<Option<String>> {
            let Some(item) = base.map(source, section)?.get(source, key.as_bytes())? else {
                return Ok(None);
            };
            let bytes = source.read_as(Kind::Blob, &item.link.id)?;
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        };
        for stored in base.agents(source)? {
            let mut agent = FollowedAgent { stored: stored.clone(), ..FollowedAgent::default() };
            let messages = base.messages(source, &stored)?;
            for (index, item) in messages.iter(source, 0..messages.len()).enumerate() {
                let entry = MessageEntry::from_item(&item?)?;
                let key = (BASE.0, index as u64);
                agent.messages.push(key);
                if entry.role == Role::Assistant {
                    let bytes = source.read_as(Kind::Blob, &entry.blob)?;
                    for call in calls_of(&bytes) {
                        agent.calls.entry(call).or_insert(key);
                    }
                }
            }
            let state = agent_section(&stored, STATE)?;
            let thresholds = value(&state, "warning_thresholds_hit")?.unwrap_or_default();
            agent.thresholds = serde_json::from_str(&thresholds).unwrap_or_default();
            let todo = value(&state, "last_todowrite_message_index")?;
            agent.todo_index = todo.and_then(|index| index.parse().ok());
            self.agents.insert(decoded(&stored), agent);
        }
        self.base = Some(value(META, META_METADATA)?.unwrap_or_else(|| "{}".to_owned()));
        Ok(())
    }
}

impl Follower {
    fn event(&mut self, event: &LogEvent<'_>, effect: Effect<'_>, events: &mut Vec<Event>) {
        let key = (event.instant(), self.events);
        self.events += 1;
        self.moment(key, event, events);
        let Some(name) = event.agent() else { return };
        let is_new = !self.agents.contains_key(name.as_ref());
        if is_new {
            let Some(stored) = stored_name(&name) else {
                let what = "an agent whose name is empty or longer than 200 bytes".to_owned();
                return events.push(Event::Unknown { what });
            };
            let agent = FollowedAgent { stored, ..FollowedAgent::default() };
            self.agents.insert(name.clone().into_owned(), agent);
        }
        let Some(agent) = self.agents.get_mut(name.as_ref()) else { return };
        if is_new {
            for (key, value) in [
                ("warning_thresholds_hit", "[]"),
                ("compression_applied", "null"),
                ("last_todowrite_message_index", "null"),
                ("active_skill_path", "null"),
            ] {
                agent.set(STATE, key, value, events);
            }
        }
        if let Some(role) = event.role() {
            events.push(Event::Turn);
            if role == Role::Tool {
                events.pop();
            }
            agent.say(key, role, event, events);
        }
        match effect {
            Effect::Write { path, .. }
            | Effect::Read { path, .. }
            | Effect::MemoryRead { path, .. }
                if !(1..=MAX_KEY_BYTES).contains(&path.len()) =>
            {
                let what = format!("a path of {} bytes", path.len());
                events.push(Event::Unknown { what });
            }
            Effect::Write { path, entry } => {
                if is_newer(&mut self.scratchpad, &path, key) {
                    let content = Some(Content::Own(entry.into()));
                    let section = SCRATCHPAD.to_owned();
                    events.push(Event::Entry { section, key: path, content, is_json: true });
                }
            }
            effect => agent.change(key, effect, events),
        }
        agent.find_todo(events);
    }

    /// Updates the facts that the first and the last event give about the swarm.
    fn moment(&mut self, key: EventPlace, event: &LogEvent<'_>, events: &mut Vec<Event>) {
        let mut set = |key: &str, json: Option<String>| {
            let content = json.map(|json| Content::Own(json.into()));
            let (section, key) = (META.to_owned(), key.to_owned());
            events.push(Event::Entry { section, key, content, is_json: true });
        };
        if self.first.is_none_or(|first| key < first) {
            match (&self.base, self.first) {
                (Some(_), Some(_)) => {}
                (Some(base), None) => set(META_METADATA, Some(with_first_message(base))),
                (None, first) => {
                    set(META_METADATA, Some(metadata(event.swarm(), event.parent_swarm())));
                    if first.is_none() {
                        set(META_VERSION, Some(quoted("2.1.0")));
                        set(META_TYPE, Some(quoted("swarm")));
                        set(META_SDK, Some(quoted(SDK_VERSION)));
                        set(META_MEMORY, Some("true".to_owned()));
                    }
                }
            }
            self.first = Some(key);
        }
        if self.last.is_none_or(|last| key >= last) {
            self.last = Some(key);
            set(META_MOMENT, event.timestamp().map(|raw| raw.get().to_owned()));
        }
    }
}

impl FollowedAgent {
    fn set(&self, part: &str, key: &str, json: &str, events: &mut Vec<Event>) {
        let section = format!("{AGENTS}/{}/{part}", self.stored);
        let content = Some(Content::Own(json.to_owned().into()));
        events.push(Event::Entry { section, key: key.to_owned(), content, is_json: true });
    }

    fn say(&mut self, key: EventPlace, role: Role, event: &LogEvent<'_>, events: &mut Vec<Event>) {
        let mut rendered = Vec::new();
        event.render(SwarmCompat::Sound, &mut rendered);
        let view = serde_json::from_slice(&rendered).map(|message| super::view_message(&message));
        let message = MessageEvent {
            agent: self.stored.clone(),
            role,
            content: Content::Piece,
            time: event.timestamp().and_then(text).and_then(|moment| iso_time(&moment)),
            model: event.model().map(std::borrow::Cow::into_owned),
            headline: view.map_or(Headline::Note(String::new()), |view| view.headline()),
        };
        for call in event.calls() {
            if let Some(id) = call.id.and_then(text_of) {
                let known = self.calls.entry(id).or_insert(key);
                *known = key.min(*known);
            }
        }
        let at = self.messages.partition_point(|known| *known <= key);
        let back = self.messages.len().saturating_sub(at) as u64;
        self.messages.insert(at, key);
        events.push(match back {
            0 => Event::Message(message),
            _ => Event::LateMessage { message, back },
        });
    }

    fn change(&mut self, key: EventPlace, effect: Effect<'_>, events: &mut Vec<Event>) {
        match effect {
            Effect::Start(prompt) => {
                if replace(&mut self.prompt, key) {
                    let agent = self.stored.clone();
                    events.push(match prompt {
                        Some(prompt) => {
                            Event::SystemPrompt { agent, content: Content::Own(prompt.into()) }
                        }
                        None => {
                            Event::Clear { section: format!("{AGENTS}/{agent}/{SYSTEM_PROMPT}") }
                        }
                    });
                }
            }
            Effect::Threshold(threshold) => {
                if self.thresholds.insert(threshold) {
                    let all: Vec<_> = self.thresholds.iter().map(i64::to_string).collect();
                    let all = format!("[{}]", all.join(","));
                    self.set(STATE, "warning_thresholds_hit", &all, events);
                }
            }
            Effect::Compressed => self.set(STATE, "compression_applied", "true", events),
            Effect::Todo(call) => {
                if self.todo.as_ref().is_none_or(|(known, _)| key >= *known) {
                    self.todo = Some((key, call));
                }
            }
            Effect::Skill(Some(path)) => {
                if replace(&mut self.skill, key) {
                    self.set(STATE, "active_skill_path", path.unwrap_or("null"), events);
                }
            }
            Effect::Read { path, digest } => {
                if is_newer(&mut self.reads, &path, key) {
                    self.track(READS, path, digest, events);
                }
            }
            Effect::MemoryRead { path, digest } => {
                if is_newer(&mut self.memory_reads, &path, key) {
                    self.track(MEMORY_READS, path, digest, events);
                }
            }
            Effect::None | Effect::Odd(_) | Effect::Skill(None) | Effect::Write { .. } => {}
        }
    }

    fn track(&self, part: &str, key: String, digest: String, events: &mut Vec<Event>) {
        let section = format!("{AGENTS}/{}/{part}", self.stored);
        let content = Some(Content::Own(digest.into()));
        events.push(Event::Entry { section, key, content, is_json: false });
    }

    /// Says where the last todo list was written, when that is another message now.
    fn find_todo(&mut self, events: &mut Vec<Event>) {
        let Some((_, call)) = &self.todo else { return };
        let made = call.as_ref().and_then(|call| self.calls.get(call));
        let index = made.map(|made| self.messages.partition_point(|key| key < made) as u64);
        if index != self.todo_index {
            self.todo_index = index;
            let index = index.map_or("null".to_owned(), |index| index.to_string());
            self.set(STATE, "last_todowrite_message_index", &index, events);
        }
    }
}

/// Returns true if `key` is not before the one in `slot`, and then stores it there.
fn replace(slot: &mut Option<EventPlace>, key: EventPlace) -> bool {
    let is_newer = slot.is_none_or(|known| key >= known);
    if is_newer {
        *slot = Some(key);
    }
    is_newer
}

fn is_newer(known: &mut HashMap<String, EventPlace>, path: &str, key: EventPlace) -> bool {
    match known.get_mut(path) {
        Some(found) if key < *found => false,
        Some(found) => {
            *found = key;
            true
        }
        None => {
            known.insert(path.to_owned(), key);
            true
        }
    }
}
