//! Readers of message records, which a caller brings: the engine knows no format.

use std::fmt;

use crate::context::{MessageEntry, ToolUse};

/// Functions that read records of messages. Without any, a message says its record.
#[derive(Clone, Copy)]
pub struct MessageFormats {
    /// Finds the text of a message, from the name of its format and its record.
    pub text: fn(&str, &[u8]) -> Option<String>,
    /// Finds the tool calls and results of a message, which a merge keeps together.
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
