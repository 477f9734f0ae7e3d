//! ContextChef: snapshots of every era, and its storage directories.
//!
//! | file | job |
//! |---|---|
//! | `document` | a snapshot document, checked, with the place of everything wrong |
//! | `sections` | a document becomes the sections of a context |
//! | `memory` | core memory: entries, their order, when they expire |
//! | `export` | any context becomes a document of the shape that 4.2 writes |
//! | `folder` | the files in `.context_vfs`, `.context_memory` and the folders of 4.2 |
//!
//! The table of places is in `docs/reference/formats/context-chef.md`.

mod document;
mod export;
mod folder;
mod memory;
mod sections;

use serde_json::Value;
use turntree::context::Role;

use crate::model::format::{Format, FormatRank, FormatReader};
use crate::model::view::MessageView;
use crate::text::shape::JsonShape;

pub use document::Era;
pub use export::{ChefOptions, export_chef};
pub use folder::{FolderReport, folders_of, import_folder};
pub use memory::{Expired, MemoryEntry, expired, memory};

/// The name of the format, and of its sections and facts.
const NAME: &str = "context-chef";

/// Entries of the state: the exact JSON of the document.
const PLACEMENT: &str = "dynamicStatePlacement";
const DYNAMIC_XML: &str = "dynamicStateXml";
const JANITOR: &str = "janitor";
const PRUNER: &str = "pruner";
const MEMORY_TURN: &str = "memoryTurnCount";
const MEMORY_ORDER: &str = "memoryOrder";
const SKILL_NAME: &str = "activeSkillName";
const SKILL_TEXT: &str = "skillInstructions";
const GUARDRAIL: &str = "guardrailOptions";
const HANDOFF: &str = "handoffNoticedWindow";
/// The ids of the announcements in their order; each is an entry of its own below this name, so that two
/// branches can add to them.
const ANNOUNCEMENTS: &str = "announcements";

/// Facts in `meta`.
const META_ERA: &str = "context-chef/era";
const META_OTHER: &str = "context-chef/other";
const META_MODULES: &str = "context-chef/modules";

/// Facts of the commit: the time and reason of a snapshot do not affect the next prompt.
const LABEL: &str = "context-chef/label";
const CREATED: &str = "context-chef/createdAt";

/// The format of snapshots.
pub(in crate::formats) const FORMAT: Format = Format {
    name: NAME,
    title: "ContextChef snapshot",
    rank: FormatRank::Program,
    recognise: is_snapshot,
    view: view_message,
    reader: FormatReader::Document(sections::apply_document),
};

fn is_snapshot(shape: &JsonShape<'_>) -> bool {
    let new = shape.has("systemPrompt") && shape.has("history");
    let old = shape.has("topLayer") && shape.has("rollingHistory");
    // The fields after a long conversation may be beyond the head.
    let begins = matches!(shape.fields.first(), Some((name, _)) if *name == "systemPrompt" || *name == "topLayer");
    !shape.is_array && (new || old || begins)
}

/// The view of a message of a document.
fn view_message(message: &Value) -> MessageView {
    let role = message.get("role").and_then(Value::as_str).map_or(Role::Other, Role::from_name);
    let mut view = MessageView::new(role);
    let content = message.get("content").unwrap_or(&Value::Null);
    match role {
        Role::Tool => view.add_result(message.get("tool_call_id"), content, false),
        _ => view.add_content(content),
    }
    if let Some(thinking) = message.pointer("/thinking/thinking").and_then(Value::as_str) {
        view.add_thinking(thinking);
    }
    let attachments = message.get("attachments").and_then(Value::as_array);
    for attachment in attachments.into_iter().flatten() {
        let kind = attachment.get("mediaType").and_then(Value::as_str).unwrap_or("file");
        match attachment.get("filename").and_then(Value::as_str) {
            Some(name) => view.add_text(&format!("[{kind}: {name}]")),
            None => view.add_text(&format!("[{kind}]")),
        }
    }
    view.add_tool_calls(message.get("tool_calls"));
    view
}
