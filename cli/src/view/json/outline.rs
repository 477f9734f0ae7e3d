//! Records of prompts and their results.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use turntree_exchange::OutlinePart;

use super::usage::SpendingRecord;
use crate::view::clock;

/// One line of `outline`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutlinePrompt {
    /// The number of the prompt; `null` for the turns before the first one.
    pub(crate) prompt: Option<u64>,
    pub(crate) id: String,
    pub(crate) turn: u64,
    pub(crate) words: String,
    pub(crate) time: String,
    pub(crate) elapsed_ms: i64,
    /// Turns, including the prompt's.
    pub(crate) turns: u64,
    pub(crate) tool_calls: u64,
    pub(crate) tool_errors: u64,
    /// Usage of the answers; `null` if unreported.
    pub(crate) usage: Option<SpendingRecord>,
    pub(crate) files: Vec<OutlineFile>,
    pub(crate) compactions: u64,
    /// The newest result of each check: true if it passed.
    pub(crate) checks: BTreeMap<String, bool>,
    pub(crate) rolled_back: bool,
    /// Turns with dropped content, not counted.
    pub(crate) expired_turns: u64,
}

/// A file changed since the prompt.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutlineFile {
    pub(crate) path: String,
    pub(crate) lines_added: u64,
    pub(crate) lines_removed: u64,
}

impl OutlinePrompt {
    /// The record of `part`.
    pub(crate) fn new(part: OutlinePart) -> Self {
        let file = |(path, changed): (String, turntree_exchange::ChangedFile)| OutlineFile {
            path,
            lines_added: changed.added,
            lines_removed: changed.removed,
        };
        Self {
            prompt: part.prompt,
            id: part.id.to_string(),
            turn: part.turn,
            words: part.words,
            time: clock::rfc3339(part.time),
            elapsed_ms: part.until.micros.saturating_sub(part.time.micros) / 1000,
            turns: part.turns,
            tool_calls: part.facts.tools,
            tool_errors: part.facts.errors,
            usage: part.facts.spending.as_ref().map(SpendingRecord::new),
            files: part.files.into_iter().map(file).collect(),
            compactions: part.compactions,
            checks: part.checks,
            rolled_back: part.is_rolled_back,
            expired_turns: part.expired,
        }
    }
}
