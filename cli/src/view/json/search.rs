//! The records of `grep`, `search` and `blame`.

use schemars::JsonSchema;
use serde::Serialize;

/// One line of `grep`: an entry in which something was found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct GrepPlace {
    pub(crate) session: String,
    /// Branch that leads to the turn; `null` when none was named.
    pub(crate) branch: Option<String>,
    /// The first turn that has the entry.
    pub(crate) turn: u64,
    /// Its commit.
    pub(crate) id: String,
    /// The last turn that has it, when none of the newest has it any more.
    pub(crate) last_turn: Option<u64>,
    pub(crate) last_id: Option<String>,
    pub(crate) path: String,
    /// The role, for messages.
    pub(crate) role: Option<&'static str>,
    /// Blob with the content.
    pub(crate) blob: String,
    /// Lines that match.
    pub(crate) count: u64,
    /// True when it is no text; not with `--count` and `--list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) binary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<Vec<GrepLine>>,
    /// The time of the first turn that has it.
    pub(crate) time: String,
    /// Last part of the directory of its session.
    pub(crate) project: Option<String>,
    /// Title of its session.
    pub(crate) title: Option<String>,
}

/// A line of an entry.
#[derive(Serialize, JsonSchema)]
pub(crate) struct GrepLine {
    /// From 1.
    pub(crate) line: u64,
    /// True for a match; false for a line beside one.
    #[serde(rename = "match")]
    pub(crate) is_match: bool,
    /// The offset of the first match, in bytes from 0.
    pub(crate) column: u64,
    pub(crate) text: String,
    /// True when `text` is only a part of the line, around the match.
    pub(crate) cut: bool,
}

/// One line of `search`: an entry that has all words.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SearchHit {
    pub(crate) session: String,
    /// The oldest turn that brought the entry.
    pub(crate) turn: u64,
    /// Its commit.
    pub(crate) id: String,
    /// Its time.
    pub(crate) time: String,
    pub(crate) path: String,
    /// The role, for messages.
    pub(crate) role: Option<&'static str>,
    /// Tools that a message calls, or of which it has results.
    pub(crate) tools: Vec<String>,
    /// Blob with the content.
    pub(crate) blob: String,
    /// The part of the text that shows most of the words, on one line.
    pub(crate) snippet: String,
    /// Where words stand in it.
    pub(crate) matches: Vec<SnippetMatch>,
}

/// Bytes of a snippet where words stand.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SnippetMatch {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// One line of `blame`: a line, an entry or a message.
#[derive(Serialize)]
pub(crate) struct BlamedPart {
    /// Number of the line from 1, index of the item, or name of the entry or field.
    pub(crate) name: String,
    pub(crate) session: String,
    /// The turn that wrote it.
    pub(crate) turn: u64,
    /// Its commit.
    pub(crate) id: String,
    pub(crate) time: String,
    pub(crate) author: super::Author,
    /// True when a turn before it may have written it, since turns are gone there.
    pub(crate) before: bool,
    /// The role, for messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    /// Blob of an entry or message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blob: Option<String>,
    /// The line, the field as JSON, or the beginning of the entry; `null` when that is not text.
    pub(crate) text: Option<String>,
}
