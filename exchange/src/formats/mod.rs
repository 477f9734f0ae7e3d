//! Transcript formats: pieces of a file in, events of a session out.
//!
//! A transcript is read as a stream of [`Piece`](super::Piece)s whose concatenated bytes are the
//! file. A format's [`Parser`](super::Parser) sees each piece once, in order, and translates it
//! into [`Event`](super::Event)s. It keeps only the necessary state (open tool calls, the working
//! directory), so memory does not grow with the file. The importer turns events into commits.
//!
//! [`FORMATS`] lists the known formats: how to recognise a file, split it, parse its pieces, and
//! view one message of it.
//!
//! ```
//! use turntree_exchange::{Event, detect};
//!
//! let file = br#"{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"Hi"}}"#;
//! let format = detect(file)?;
//! assert_eq!(format.name, "claude-code");
//!
//! let records = format.records()?;
//! let mut parser = (records.parser)();
//! let mut events = Vec::new();
//! for piece in (records.split)(Box::new(file.as_slice())) {
//!     parser.piece(&piece?, &mut events);
//! }
//! assert!(events.iter().any(|event| matches!(event, Event::Message(m) if m.headline.line() == "Hi")));
//! # Ok::<(), turntree::Error>(())
//! ```

pub(crate) mod any;
mod atif;
mod chat;
mod claude_code;
mod cline;
mod cline_sdk;
mod codex;
mod conversation;
mod copilot_cli;
mod copilot_kinds;
pub(crate) mod detect;
mod editor;
mod files;
pub(crate) mod frameworks;
mod gemini;
mod gemini_list;
mod gemini_view;
mod links;
mod mini_swe_agent;
mod opencode;
mod openhands;
mod patch;
mod pi;
mod qwen_code;
mod section_names;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod state_edits;
mod swe_agent;
#[cfg(test)]
mod testing;

pub(crate) use codex::FAMILY;
#[cfg(feature = "codesign")]
pub use frameworks::codesign;
#[cfg(feature = "context-chef")]
pub use frameworks::context_chef;
#[cfg(feature = "ollm")]
pub use frameworks::ollm;
pub use frameworks::read_tree::{FolderFile, FolderNote};
#[cfg(feature = "swarm")]
pub use frameworks::swarm;
pub use section_names::{is_section_name, listed_sections};

use turntree::context::{JSON_MEDIA, MessageEntry, Role, ToolUse};
use turntree::error::{Error, Result};
use turntree::local::MessageFormats;

use crate::model::format::Format;
use crate::model::view::MessageView;

/// Every format, in the order of lists. If several formats claim a file, [`Format::rank`] decides.
pub static FORMATS: &[Format] = &[
    claude_code::FORMAT,
    qwen_code::FORMAT,
    codex::FORMAT,
    copilot_cli::FORMAT,
    #[cfg(feature = "codesign")]
    frameworks::codesign::SESSION,
    pi::FORMAT,
    gemini::FORMAT,
    gemini::LOG,
    opencode::FORMAT,
    mini_swe_agent::FORMAT,
    swe_agent::FORMAT,
    openhands::FORMAT,
    atif::FORMAT,
    #[cfg(feature = "ollm")]
    frameworks::ollm::CONTEXT,
    #[cfg(feature = "ollm")]
    frameworks::ollm::MODE,
    #[cfg(feature = "ollm")]
    frameworks::ollm::INTENT,
    cline_sdk::FORMAT,
    cline::FORMAT,
    cline::WINDOW,
    #[cfg(feature = "swarm")]
    frameworks::swarm::SNAPSHOT,
    #[cfg(feature = "swarm")]
    frameworks::swarm::EVENTS,
    #[cfg(feature = "context-chef")]
    frameworks::context_chef::FORMAT,
    #[cfg(feature = "codesign")]
    frameworks::codesign::STORE,
    chat::TAU2,
    chat::ANTHROPIC,
    chat::OPENAI,
];

/// Returns the format called `name`.
///
/// # Errors
/// `InvalidInput` when there is none.
pub fn named(name: &str) -> Result<&'static Format> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        Error::invalid(format!("'{name}' is not a format: expected one of {}", names()))
    })
}

/// The names of all formats, for messages.
pub(super) fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// Returns the view of a message. [`JSON_MEDIA`] is read as a chat message. `bytes` that are not
/// of `format` (a name of [`FORMATS`]) give a view whose text is the bytes.
#[must_use]
pub fn view(format: &str, bytes: &[u8]) -> MessageView {
    let spec = if format == JSON_MEDIA { Ok(&chat::OPENAI) } else { named(format) };
    match (spec, crate::text::json::value(bytes)) {
        (Ok(spec), Some(value)) => (spec.view)(&value),
        _ => MessageView::unreadable(bytes),
    }
}

/// Returns true if a message of the user is a prompt: text of the user to the agent, and not text
/// that a client adds, a command to the client, or a note that the agent was stopped.
#[must_use]
pub fn is_prompt(format: &str, bytes: &[u8]) -> bool {
    let mut view = view(format, bytes);
    if view.role == Role::Other {
        view.role = Role::User;
    }
    view.is_prompt()
}

/// Reads messages for handles of [`turntree::local`]: `Repo::open(dir)?.reading(MESSAGE_FORMATS)`.
pub const MESSAGE_FORMATS: MessageFormats =
    MessageFormats { text: |format, record| Some(view(format, record).text), tool_use };

/// Returns the tool use of a message: the calls it makes, and the calls whose results it holds.
#[must_use]
pub fn tool_use(entry: &MessageEntry, bytes: &[u8]) -> ToolUse {
    let view = view(&entry.media, bytes);
    ToolUse {
        calls: view.tool_calls.into_iter().map(|call| call.id).collect(),
        results: view.tool_results.into_iter().map(|result| result.call_id).collect(),
    }
}
