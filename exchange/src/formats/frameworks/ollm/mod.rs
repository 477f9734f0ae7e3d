//! OLLM CLI: context snapshots, mode transitions and intents, and the directories that hold them.
//!
//! | file | job |
//! |---|---|
//! | `context` | a context snapshot of any shape, checked, with the place of everything wrong |
//! | `messages` | its messages in their order, each once |
//! | `sections` | a document becomes the sections of a context |
//! | `stored` | sections as their original JSON |
//! | `export` | any context becomes a snapshot file of version 1.0 |
//! | `mode` | mode transitions: in, out, and made from a conversation |
//! | `state_xml` | the text form of a transition |
//! | `intent` | intents, in and out |
//! | `folder` | the files in `.ollm` |
//!
//! The table of places is in `docs/reference/formats/ollm-cli.md`.

mod context;
mod export;
mod folder;
mod intent;
mod messages;
mod mode;
mod sections;
mod state_xml;
mod stored;

use serde_json::Value;
use turntree::context::Role;

use crate::model::format::{Format, FormatRank, FormatReader};
use crate::model::view::MessageView;
use crate::text::shape::JsonShape;

use super::OLLM_TOKENS as TOKENS;
pub use export::{OllmCompat, SnapshotFacts, export_context};
pub use folder::{OllmReport, folders_of, import_folder, session_of_document};
pub use intent::export_intent;
pub use mode::{
    MODES_SUFFIX, PastTransition, RECENT_MESSAGES, Transition, TransitionFacts, export_mode,
    latest, past_transitions,
};
pub use state_xml::{StateSnapshot, read_state_snapshot, state_snapshot};

/// The name of the format of snapshots.
pub const CONTEXT_NAME: &str = "ollm-context";
const MODE_NAME: &str = "ollm-mode";
const INTENT_NAME: &str = "ollm-intent";

/// Facts in `meta`: the shape of a document, its unknown fields, and the order of the fields that
/// became entries of a section.
const META_SHAPE: &str = "ollm/shape";
const META_OTHER: &str = "ollm/other";
const META_ARCHIVED: &str = "ollm/archivedUserMessages";
const META_ORDER: &str = "ollm/order/";

/// Facts of a commit, as the JSON of the document: they identify the snapshot and do not affect
/// prompts.
const ID: &str = "ollm/id";
const SESSION: &str = "ollm/sessionId";
const TIMESTAMP: &str = "ollm/timestamp";
const SUMMARY: &str = "ollm/summary";

/// The format of context snapshots.
pub(in crate::formats) const CONTEXT: Format = Format {
    name: CONTEXT_NAME,
    title: "OLLM CLI context snapshot",
    rank: FormatRank::Program,
    recognise: is_context,
    view: view_message,
    reader: FormatReader::Document(context::apply_document),
};

/// The format of mode transitions.
pub(in crate::formats) const MODE: Format = Format {
    name: MODE_NAME,
    title: "OLLM CLI mode transition",
    rank: FormatRank::Program,
    recognise: is_transition,
    reader: FormatReader::Document(mode::apply_document),
    ..CONTEXT
};

/// The format of intents.
pub(in crate::formats) const INTENT: Format = Format {
    name: INTENT_NAME,
    title: "OLLM CLI intent",
    rank: FormatRank::Program,
    recognise: is_intent,
    reader: FormatReader::Document(intent::apply_document),
    ..CONTEXT
};

fn is_context(shape: &JsonShape<'_>) -> bool {
    // The fields after a long conversation may be beyond the head.
    let holds = ["messages", "userMessages", "metadata", "conversationState"];
    !shape.is_array
        && shape.has("id")
        && shape.has("sessionId")
        && holds.iter().any(|name| shape.has(name))
}

fn is_transition(shape: &JsonShape<'_>) -> bool {
    !shape.is_array && shape.has("fromMode") && shape.has("toMode")
}

fn is_intent(shape: &JsonShape<'_>) -> bool {
    !shape.is_array && shape.has("original") && shape.has("extracted")
}

/// Returns the view of a message. Tool calls and the call of a result are in the message itself in
/// a running program, and in the metadata in a file.
fn view_message(message: &Value) -> MessageView {
    let role = message.get("role").and_then(Value::as_str).map_or(Role::Other, Role::from_name);
    let metadata = message.get("metadata");
    let field = |name: &str| message.get(name).or_else(|| metadata?.get(name));
    let mut view = MessageView::new(role);
    view.id = message.get("id").and_then(Value::as_str).map(str::to_owned);
    let content = message.get("content").unwrap_or(&Value::Null);
    match role {
        Role::Tool => view.add_result(field("toolCallId"), content, false),
        _ => view.add_content(content),
    }
    if let Some(thinking) = field("thinking").and_then(Value::as_str) {
        view.add_thinking(thinking);
    }
    for call in field("toolCalls").and_then(Value::as_array).into_iter().flatten() {
        let input = call.get("args").or_else(|| call.get("arguments"));
        view.add_call(call.get("id"), call.get("name"), input);
    }
    view
}
