//! Simulates an agent: each turn has messages, a scratchpad entry, and an edit of one file.
//!
//! The sizes follow the recorded workload `M` that `compare` runs: three or four messages of 0.3 to
//! 5 KB, and a rewrite of one file of about 10 KB among 300.

use bytes::Bytes;
use serde_json::json;

use crate::text::Text;

/// Number of files in the workspace.
pub const FILES: u64 = 300;

/// Lines per file, about 10 KB.
const FILE_LINES: u64 = 250;

/// Maximum number of lines that an edit replaces.
const EDITED_LINES: u64 = 12;

/// Number of names in the scratchpad.
const NOTES: u64 = 40;

/// The changes of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The messages as JSON.
    pub messages: Vec<Message>,
    /// The scratchpad entry: name and content.
    pub note: (String, Bytes),
    /// The written files with their whole content: all files in the first turn, then one per turn.
    pub files: Vec<(String, Bytes)>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The speaker: `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// The JSON text.
    pub json: Bytes,
}

/// An agent with a workspace. All of its messages and edits differ.
#[derive(Debug, Clone)]
pub struct Agent {
    text: Text,
    files: Vec<Vec<String>>,
    turns: u64,
}

impl Agent {
    /// Creates an agent before its first turn.
    #[must_use]
    pub fn new() -> Self {
        Self::with_workspace(20, FILES, FILE_LINES)
    }

    /// Creates an agent from `seed`, with `files` files of `lines` lines.
    #[must_use]
    pub fn with_workspace(seed: u64, files: u64, lines: u64) -> Self {
        let mut text = Text::new(seed);
        let mut file = || (0..lines).map(|_| text.code_line()).collect();
        let files = (0..files).map(|_| file()).collect();
        Self { text, files, turns: 0 }
    }

    /// Returns the next turn of the agent.
    pub fn next_turn(&mut self) -> Turn {
        self.turns += 1;
        let mut messages = Vec::new();
        if self.turns % 2 == 1 {
            messages.push(self.message("user", 300, 1500));
        }
        messages.push(self.message("assistant", 300, 2500));
        messages.push(self.message("tool", 300, 5000));
        messages.push(self.message("assistant", 300, 1500));
        let number = self.text.below(NOTES);
        let name = format!("{}-{number}", self.text.word());
        let note = (name, self.text.prose(400).into());
        let files = if self.turns == 1 { self.all_files() } else { vec![self.edit()] };
        Turn { messages, note, files }
    }

    fn message(&mut self, role: &'static str, low: u64, high: u64) -> Message {
        let bytes = low + self.text.below(high - low);
        let content = self.text.prose(bytes);
        let id = format!("msg-{:016x}", self.text.below(u64::MAX));
        let json = json!({ "role": role, "id": id, "content": content });
        Message { role, json: json.to_string().into() }
    }

    fn all_files(&self) -> Vec<(String, Bytes)> {
        let named = self.files.iter().zip(0..);
        named.map(|(lines, index)| (path(index), lines.concat().into())).collect()
    }

    fn edit(&mut self) -> (String, Bytes) {
        let index = self.text.below(self.files.len().max(1) as u64);
        let lines = self.files.first().map_or(0, Vec::len) as u64;
        let first = self.text.below(lines.saturating_sub(EDITED_LINES).max(1));
        let count = 1 + self.text.below(EDITED_LINES);
        let lines = usize::try_from(index).ok().and_then(|index| self.files.get_mut(index));
        let Some(lines) = lines else { return (path(index), Bytes::new()) };
        let edited =
            lines.iter_mut().zip(0..).filter(|(_, at)| (first..first + count).contains(at));
        edited.for_each(|(line, _)| *line = self.text.code_line());
        (path(index), lines.concat().into())
    }
}

impl Default for Agent {
    fn default() -> Self {
        Self::new()
    }
}

fn path(index: u64) -> String {
    format!("src/part-{:02}/module-{index:03}.rs", index % 20)
}
