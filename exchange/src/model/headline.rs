//! The headline of a message: a prompt, an answer, calls or other content, in one line.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words::first_line;
use crate::text::json;

/// Names of the most informative arguments of calls, the best first.
const MAIN_ARGUMENTS: [&str; 16] = [
    "command",
    "cmd",
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "filename",
    "pattern",
    "query",
    "description",
    "prompt",
    "url",
    "skill",
    "keystrokes",
    "name",
];

/// The arguments that name a file.
const FILE_ARGUMENTS: [&str; 6] =
    ["file_path", "path", "filePath", "absolute_path", "notebook_path", "filename"];

/// Prefixes of lines in a patch before the path of a file.
const PATCH_PREFIXES: [&str; 3] = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];

/// Longest JSON of a call that is parsed.
const MAX_INPUT_BYTES: usize = 1 << 20;

/// Number of calls that a line names; it counts the rest.
const NAMED_CALLS: usize = 2;

/// The headline of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Headline {
    /// A prompt of a person for the agent: the first line, or the slash command.
    Prompt(String),
    /// A message of a person for the client: `/clear`, `! ls`, an interruption.
    Aside(String),
    /// An answer of the agent: the first sentence, without Markdown.
    Answer(String),
    /// Tool calls of the agent.
    Calls(Vec<CallHeadline>),
    /// Tool results: the first line of the first one.
    Results(String),
    /// Text of the client, of a system, or of an unknown author.
    Note(String),
    /// Thinking: the first line. Empty if it is unreadable.
    Thinking(String),
    /// No visible content.
    Nothing,
}

/// A call with its main argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHeadline {
    /// The tool.
    pub name: String,
    /// The first line of the most informative argument. Empty without one.
    pub argument: String,
    /// True if the argument is the path of a file.
    pub is_file: bool,
}

impl Headline {
    /// Returns the headline as a line of at most 100 characters.
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::Prompt(line)
            | Self::Aside(line)
            | Self::Answer(line)
            | Self::Results(line)
            | Self::Note(line)
            | Self::Thinking(line) => line.clone(),
            Self::Calls(calls) => CallHeadline::line(calls, None),
            Self::Nothing => String::new(),
        }
    }
}

impl CallHeadline {
    /// Returns the headline of a call of `name` with `input`, which is JSON or text.
    pub(crate) fn of(name: &str, input: &str) -> Self {
        let (argument, is_file) = main_argument(input);
        Self { name: first_line(name), argument, is_file }
    }

    /// Returns several calls in one line: `Bash cargo test`, `Read 3 files`, `Edit src/a.rs, Bash
    /// cargo test and 2 more`. Paths below `directory` are relative to it.
    #[must_use]
    pub fn line(calls: &[Self], directory: Option<&str>) -> String {
        let Some(first) = calls.first() else { return String::new() };
        let same = calls.iter().all(|call| call.name == first.name);
        if same && calls.len() > 1 && calls.iter().all(|call| call.is_file) {
            let mut files: Vec<&str> = calls.iter().map(|call| call.argument.as_str()).collect();
            files.sort_unstable();
            files.dedup();
            return match files.as_slice() {
                [_] => first.line_of_call(directory),
                files => first_line(&format!("{} {} files", first.name, files.len())),
            };
        }
        let mut named: Vec<String> = Vec::new();
        for call in calls {
            let line = call.line_of_call(directory);
            if !named.contains(&line) {
                named.push(line);
            }
        }
        let more = named.len().saturating_sub(NAMED_CALLS);
        named.truncate(NAMED_CALLS);
        let line = named.join(", ");
        first_line(&if more > 0 { format!("{line} and {more} more") } else { line })
    }

    fn line_of_call(&self, directory: Option<&str>) -> String {
        let name = if self.name.is_empty() { "tool" } else { &self.name };
        let argument = match directory.filter(|directory| directory.len() > 1) {
            Some(directory) => strip_directory(&self.argument, directory.trim_end_matches('/')),
            None => &self.argument,
        };
        first_line(&format!("{name} {argument}"))
    }
}

/// Removes the working directory from an argument: from a path, and from `cd DIRECTORY && ...`.
fn strip_directory<'a>(argument: &'a str, directory: &str) -> &'a str {
    let path = |text: &'a str| text.strip_prefix(directory)?.strip_prefix('/');
    let command = || {
        let rest = argument.strip_prefix("cd ")?.strip_prefix(directory)?;
        rest.strip_prefix(" && ")
    };
    path(argument).or_else(command).unwrap_or(argument)
}

/// Returns the most informative argument of a call, and true if it names a file.
fn main_argument(input: &str) -> (String, bool) {
    let is_json = input.len() <= MAX_INPUT_BYTES && input.trim_start().starts_with('{');
    let value = match is_json {
        true => json::value(input.as_bytes()),
        false => None,
    };
    let Some(value) = value else {
        return patched_file(input).map_or_else(|| (first_line(input), false), |path| (path, true));
    };
    let found = MAIN_ARGUMENTS.iter().find_map(|name| {
        let line = argument_line(value.get(name)?);
        (!line.is_empty()).then_some((line, FILE_ARGUMENTS.contains(name)))
    });
    let patch = ["input", "patch"].iter().find_map(|name| {
        value.get(name).and_then(Value::as_str).and_then(patched_file).map(|path| (path, true))
    });
    let only = || {
        let mut texts = value.as_object()?.values().filter_map(Value::as_str);
        texts.next().map(|text| (first_line(text), false))
    };
    patch.or(found).or_else(only).unwrap_or_default()
}

/// Returns an argument in one line: text, or the words of a command.
fn argument_line(value: &Value) -> String {
    match value {
        Value::String(text) => first_line(text),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [_, "-c" | "-lc", script] => first_line(script),
                words => first_line(&words.join(" ")),
            }
        }
        _ => String::new(),
    }
}

/// Returns the first file of a patch.
fn patched_file(text: &str) -> Option<String> {
    let path =
        |line: &str| PATCH_PREFIXES.iter().find_map(|mark| line.strip_prefix(mark)).map(first_line);
    text.lines().find_map(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(name: &str, inputs: &[Value], directory: Option<&str>) -> String {
        let input = |input: &Value| match input {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let calls: Vec<_> = inputs.iter().map(|it| CallHeadline::of(name, &input(it))).collect();
        CallHeadline::line(&calls, directory)
    }

    #[test]
    fn call_headlines_show_the_main_argument() {
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@";
        for (name, inputs, expected) in [
            (
                "Bash",
                vec![json!({"description": "d", "command": "cargo test empty\nls"})],
                "Bash cargo test empty",
            ),
            ("Bash", vec![json!({"command": "cd /p && cargo test"})], "Bash cargo test"),
            ("shell", vec![json!({"command": ["bash", "-lc", "cargo test"]})], "shell cargo test"),
            ("Edit", vec![json!({"file_path": "/p/src/lexer.rs"})], "Edit src/lexer.rs"),
            ("Edit", vec![json!({"file_path": "/q/src/lexer.rs"})], "Edit /q/src/lexer.rs"),
            (
                "Read",
                vec![json!({"path": "a"}), json!({"path": "b"}), json!({"path": "c"})],
                "Read 3 files",
            ),
            ("Read", vec![json!({"path": "a"}), json!({"path": "a"})], "Read a"),
            (
                "Bash",
                vec![json!({"cmd": "a"}), json!({"cmd": "b"}), json!({"cmd": "c"})],
                "Bash a, Bash b and 1 more",
            ),
            ("apply_patch", vec![json!(patch)], "apply_patch src/a.rs"),
            ("apply_patch", vec![json!({"input": patch})], "apply_patch src/a.rs"),
            ("TodoWrite", vec![json!({"todos": [{"content": "x"}]})], "TodoWrite"),
            ("report", vec![json!({"intent": "Fixing"})], "report Fixing"),
            ("", vec![json!({})], "tool"),
        ] {
            assert_eq!(line(name, &inputs, Some("/p")), expected, "{name} {inputs:?}");
        }
    }
}
