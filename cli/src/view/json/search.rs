//! The records of `grep`, `search` and `blame`.

use schemars::JsonSchema;
use serde::Serialize;

/// One line of `grep`: an entry with matches.
#[derive(Serialize, JsonSchema)]
pub(crate) struct GrepPlace {
    pub(crate) session: String,
    /// Branch that contains the turn; `null` if none was named.
    pub(crate) branch: Option<String>,
    /// The first turn that has the entry.
    pub(crate) turn: u64,
    /// Its commit.
    pub(crate) id: String,
    /// The last turn that has it, if it was removed since.
    pub(crate) last_turn: Option<u64>,
    pub(crate) last_id: Option<String>,
    pub(crate) path: String,
    /// The role, for messages.
    pub(crate) role: Option<&'static str>,
    /// Blob with the content.
    pub(crate) blob: String,
    /// Lines that match.
    pub(crate) count: u64,
    /// True if it is not text; not with `--count` and `--list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) binary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<Vec<GrepLine>>,
    /// The time of the first turn that has it.
    pub(crate) time: String,
    /// Last component of its session's directory.
    pub(crate) project: Option<String>,
    /// Title of its session.
    pub(crate) title: Option<String>,
}

/// A line of an entry.
#[derive(Serialize, JsonSchema)]
pub(crate) struct GrepLine {
    /// From 1.
    pub(crate) line: u64,
    /// True for a match; false for a context line.
    #[serde(rename = "match")]
    pub(crate) is_match: bool,
    /// The offset of the first match, in bytes from 0.
    pub(crate) column: u64,
    pub(crate) text: String,
    /// True if `text` is only a part of the line.
    pub(crate) cut: bool,
}

/// One line of `search`: an entry with all or most words.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SearchHit {
    pub(crate) session: String,
    /// Title of the session.
    pub(crate) title: Option<String>,
    /// Agent of the session.
    pub(crate) agent: Option<String>,
    /// Last component of the session's directory.
    pub(crate) project: Option<String>,
    /// The oldest turn that added the entry.
    pub(crate) turn: u64,
    /// Its commit.
    pub(crate) id: String,
    /// Its time.
    pub(crate) time: String,
    pub(crate) path: String,
    /// The role, for messages.
    pub(crate) role: Option<&'static str>,
    /// Tools that a message calls or has results of.
    pub(crate) tools: Vec<String>,
    /// Blob with the content.
    pub(crate) blob: String,
    /// The part of the text with most of the words, on one line.
    pub(crate) snippet: String,
    /// Positions of the words.
    pub(crate) matches: Vec<SnippetMatch>,
    /// Words that it lacks.
    pub(crate) missing: Vec<String>,
    /// Words that it has only in other forms or spellings.
    pub(crate) varied: Vec<String>,
}

/// The bytes of a match in a snippet.
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
    /// True if an earlier turn may have written it, because turns were dropped there.
    pub(crate) before: bool,
    /// The role, for messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    /// Blob of an entry or message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blob: Option<String>,
    /// The line, the field as JSON, or the beginning of the entry; `null` if it is not text.
    pub(crate) text: Option<String>,
}
