//! Readers of message records, supplied by the caller: the engine knows no format.

use std::fmt;

use crate::context::{MessageEntry, ToolUse};

/// Functions that read message records. By default the text of a message is its record.
#[derive(Clone, Copy)]
pub struct MessageFormats {
    /// Returns the text of a message, from the name of its format and its record.
    pub text: fn(&str, &[u8]) -> Option<String>,
    /// Returns the tool calls and results of a message, which a merge keeps together.
    pub tool_use: fn(&MessageEntry, &[u8]) -> ToolUse,
}

impl Default for MessageFormats {
    fn default() -> Self {
        Self { text: |_, _| None, tool_use: |_, _| ToolUse::default() }
    }
}

impl fmt::Debug for MessageFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageFormats").finish_non_exhaustive()
    }
}
