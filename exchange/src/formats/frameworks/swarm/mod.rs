//! SwarmSDK: snapshots of a swarm of agents, and the logs of events that they can be rebuilt from.
//!
//! | file | job |
//! |---|---|
//! | `document` | a snapshot document, checked, with the place of everything wrong |
//! | `sections` | a document becomes the sections of a context |
//! | `compat` | whose rules apply where SwarmSDK is wrong |
//! | `log` | one event, and the message that it represents |
//! | `reconstruct` | all events of a log become a document, without a store |
//! | `follow` | events become turns of a branch, one after the other |
//! | `export` | any context becomes a document |
//! | `restore` | the parts of a context that fit into a configuration |
//!
//! The table of places is in `docs/reference/formats/swarmsdk.md`.

mod compat;
mod document;
mod export;
mod follow;
mod log;
mod reconstruct;
mod restore;
mod sections;

use std::borrow::Cow;
use std::io::BufRead;

use percent_encoding::{percent_decode_str, percent_encode_byte};
use serde_json::Value;
use turntree::context::Role;

use crate::model::format::{Format, FormatRank, FormatReader, Records};
use crate::model::view::MessageView;
use crate::text::document::{Document, Rules};
use crate::text::lines;
use crate::text::piece::Pieces;
use crate::text::shape::JsonShape;

pub use compat::SwarmCompat;
pub use document::SnapshotVersion;
pub use export::{SnapshotOptions, export_snapshot};
pub use reconstruct::{Reconstruction, ReconstructionOptions, reconstruct};
pub use restore::{
    AgentPrompt, Configuration, RestoreResult, RestoreWarning, RestoredAgent, RestoredSwarm,
    restore_swarm,
};

/// The version of the SDK whose documents are written.
const SDK_VERSION: &str = "2.7.13";

/// Facts in `meta`.
const META_VERSION: &str = "swarm/version";
const META_TYPE: &str = "swarm/type";
const META_MOMENT: &str = "swarm/snapshot_at";
const META_SDK: &str = "swarm/swarm_sdk_version";
const META_METADATA: &str = "swarm/metadata";
const META_PAD: &str = "swarm/scratchpad";
/// True if a document has memory tracking although no memory was read: set for documents without
/// it.
const META_MEMORY: &str = "swarm/memory_read_tracking";
const META_OTHER: &str = "swarm/other";

/// The format of snapshots.
pub(in crate::formats) const SNAPSHOT: Format = Format {
    name: "swarm-snapshot",
    title: "SwarmSDK snapshot",
    rank: FormatRank::Program,
    recognise: is_snapshot,
    view: view_message,
    reader: FormatReader::Document(sections::apply_document),
};

/// The format of event logs.
pub(in crate::formats) const EVENTS: Format = Format {
    name: "swarm-events",
    title: "SwarmSDK event log",
    rank: FormatRank::Program,
    recognise: is_log,
    view: log::view,
    reader: FormatReader::Records(Records {
        continues: Some("swarm-snapshot"),
        ..Records::new(split_log, || Box::new(follow::Follower::default()))
    }),
};

static ELEMENTS: Rules = Rules { records: &["[*]"], fields: &[] };

/// Types of events that no other format has.
const TYPES: &[&str] = &[
    "swarm_start",
    "swarm_stop",
    "agent_start",
    "agent_step",
    "agent_stop",
    "agent_delegation",
    "delegation_result",
    "context_threshold_hit",
];

fn is_snapshot(shape: &JsonShape<'_>) -> bool {
    let has_type = matches!(shape.text("type"), Some("swarm" | "workflow" | "node_orchestrator"));
    !shape.is_array && has_type && (shape.has("swarm_sdk_version") || shape.has("version"))
}

fn is_log(shape: &JsonShape<'_>) -> bool {
    let has_type = shape.text("type").is_some_and(|name| TYPES.contains(&name));
    let is_swarm = shape.has("swarm_id") || shape.has("execution_id") || shape.has("agent");
    let is_prompt = shape.text("type") == Some("user_prompt") && shape.has("agent");
    has_type && is_swarm || is_prompt
}

/// A log is an array of events, or has one on each line.
fn split_log<'r>(mut input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    if begins_array(&mut input) {
        return Box::new(Document::new(input, &ELEMENTS));
    }
    lines::split(input)
}

/// Returns true if the buffered input begins with a bracket. The splitter reports read errors.
fn begins_array(input: &mut dyn BufRead) -> bool {
    let seen = input.fill_buf().unwrap_or_default();
    let seen = seen.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(seen);
    seen.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// The view of a message of a document.
fn view_message(message: &Value) -> MessageView {
    let role = message.get("role").and_then(Value::as_str).map_or(Role::Other, Role::from_name);
    let mut view = MessageView::new(role);
    let content = message.get("content").unwrap_or(&Value::Null);
    let content = match content {
        Value::Object(rich) => rich.get("text").unwrap_or(&Value::Null),
        plain => plain,
    };
    match role {
        Role::Tool => view.add_result(message.get("tool_call_id"), content, false),
        _ => view.add_content(content),
    }
    view.add_tool_calls(message.get("tool_calls"));
    view
}

/// Returns the name of an agent for section names: invalid characters are percent-encoded. `None`
/// for a name that is empty or too long.
fn stored_name(name: &str) -> Option<String> {
    let stored = coded(name);
    (1..=MAX_NAME_BYTES).contains(&stored.len()).then_some(stored)
}

const MAX_NAME_BYTES: usize = 200;

/// `name` without slashes and control characters.
fn coded(name: &str) -> String {
    let mut coded = String::with_capacity(name.len());
    for character in name.chars() {
        if character == '/' || character == '%' || character.is_control() {
            coded.extend(character.encode_utf8(&mut [0; 4]).bytes().map(percent_encode_byte));
        } else {
            coded.push(character);
        }
    }
    coded
}

/// Returns the argument of [`coded`]. Text that it would not have made stays as it is.
fn decoded(name: &str) -> String {
    let decoded = percent_decode_str(name).decode_utf8();
    decoded.map_or_else(|_| name.to_owned(), Cow::into_owned)
}
