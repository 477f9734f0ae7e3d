//! A task folder as Harbor has it, without the trees of files: the task, the check, and what
//! reproduces the end.
//!
//! ```text
//! task.toml                 Harbor's configuration, with the snapshots as metadata
//! instruction.md            the task
//! environment/Dockerfile    copies the start into /app
//! environment/files/        the start
//! solution/solve.sh         makes the end from the start, in the current directory
//! solution/files/           the end
//! tests/check.sh            the line of the check
//! tests/test.sh             runs it, and writes the reward where Harbor reads it
//! ```
//!
//! A runner without containers copies `environment/files`, works there, and runs `tests/test.sh` in
//! it: the exit code is that of the check.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use turntree::context::{Context, MAIN_AGENT};
use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::Repository;

use super::spoken::{Conversation, SpokenKind};

/// The version of `task.toml`.
const SCHEMA: &str = "1.4";

/// The longest time of a check without a limit, in seconds.
const CHECK_SECONDS: f64 = 600.0;

/// The longest name of a task in characters.
const MAX_NAME_CHARS: usize = 64;

const DOCKERFILE: &str = "# Any image with the tools that the task wants.
FROM ubuntu:24.04
WORKDIR /app
COPY files/ /app/
";

const TEST: &str = "#!/bin/sh
# Runs the check in the current directory. The reward is 1 if it passes, else 0.
tests=$(cd \"$(dirname \"$0\")\" && pwd)
sh \"$tests/check.sh\"
code=$?
if [ $code = 0 ]; then reward=1; else reward=0; fi
logs=${TURNTREE_LOGS:-/logs/verifier}
if mkdir -p \"$logs\" 2>/dev/null; then echo $reward > \"$logs/reward.txt\"; fi
exit $code
";

const SOLVE: &str = "#!/bin/sh
# Makes the end from the start, in the current directory.
set -e
solution=$(cd \"$(dirname \"$0\")\" && pwd)
";

/// A task folder.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskFolder {
    /// The branch, with its session.
    pub branch: String,
    /// The task for the agent.
    pub instruction: String,
    /// A line for a shell: exit code 0 means passed.
    pub check: String,
    /// The longest time of the check in seconds.
    pub check_seconds: Option<f64>,
    /// The snapshots at the start and the end.
    pub start: ObjectId,
    /// The snapshot at the end.
    pub end: ObjectId,
    /// The paths at the start, relative to its folder, with `/`.
    pub start_paths: BTreeSet<String>,
    /// The paths at the end.
    pub end_paths: BTreeSet<String>,
    /// The paths at the start whose content or mode differs at the end.
    pub changed: BTreeSet<String>,
}

/// A file of a task folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFile {
    /// The path in the folder.
    pub path: &'static Path,
    /// The content.
    pub text: String,
    /// True for a script.
    pub is_executable: bool,
}

impl TaskFolder {
    /// Returns the first text of the user in `end` that `start` does not have.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn prompt_between(
        repo: &Repository,
        start: &Context,
        end: &Context,
    ) -> Result<Option<String>> {
        let known = Conversation::of(repo, start, MAIN_AGENT)?.count();
        for said in Conversation::of(repo, end, MAIN_AGENT)?.skip(known) {
            if let SpokenKind::User(text) = said?.kind {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// The files besides the two trees.
    #[must_use]
    pub fn files(&self) -> Vec<TaskFile> {
        let file = |path: &'static str, text: String, is_executable| TaskFile {
            path: Path::new(path),
            text,
            is_executable,
        };
        vec![
            file("task.toml", self.config(), false),
            file("instruction.md", ended(&self.instruction), false),
            file("environment/Dockerfile", DOCKERFILE.to_owned(), false),
            file("solution/solve.sh", self.solution(), true),
            file("tests/check.sh", ended(&self.check), true),
            file("tests/test.sh", TEST.to_owned(), true),
        ]
    }

    fn config(&self) -> String {
        let seconds = self.check_seconds.unwrap_or(CHECK_SECONDS);
        format!(
            "schema_version = {}\n\n[task]\nname = {}\n\n[metadata]\nbranch = {}\nstart = {}\n\
             end = {}\n\n[verifier]\ntimeout_sec = {seconds:?}\n\n[environment]\nworkdir = \"/app\"\n",
            toml(SCHEMA),
            toml(&format!("turntree/{}", task_name(&self.branch))),
            toml(&self.branch),
            toml(&self.start.to_string()),
            toml(&self.end.to_string()),
        )
    }

    fn solution(&self) -> String {
        let mut script = SOLVE.to_owned();
        let removed = self
            .start_paths
            .iter()
            .filter(|path| self.changed.contains(*path) || !self.end_paths.contains(*path));
        for path in removed {
            script += &format!("rm -rf -- {}\n", quoted(path));
        }
        let (before, after) = (folders(&self.start_paths), folders(&self.end_paths));
        // The deepest first.
        let left = before.iter().rev().filter(|folder| !after.contains(*folder));
        for folder in left {
            script += &format!("rmdir -- {} 2>/dev/null || :\n", quoted(folder));
        }
        if !self.end_paths.is_empty() {
            script += "cp -RPp -- \"$solution/files/.\" .\n";
        }
        script
    }
}

/// All folders above some paths.
fn folders(paths: &BTreeSet<String>) -> BTreeSet<&str> {
    let above =
        |path: &'_ str| -> Vec<usize> { path.match_indices('/').map(|(at, _)| at).collect() };
    let all =
        paths.iter().flat_map(|path| above(path).into_iter().filter_map(move |at| path.get(..at)));
    all.filter(|folder| !folder.is_empty()).collect()
}

/// A path as one word of a shell, below the current directory.
fn quoted(path: &str) -> String {
    format!("'./{}'", path.replace('\'', "'\\''"))
}

/// A string of TOML.
fn toml(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A name as registries of tasks accept it.
fn task_name(branch: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name = branch.chars().map(|c| if is_kept(c) { c } else { '-' });
    let name: String = name.take(MAX_NAME_CHARS).collect();
    let name = name.trim_start_matches(['-', '_']);
    if name.is_empty() { "task".to_owned() } else { name.to_owned() }
}

fn ended(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_cannot_leave_their_quotes() {
        assert_eq!(task_name("../work/a b.c"), "work-a-b-c");
        assert_eq!(task_name("é/"), "task");
        assert_eq!(quoted("a'b; rm -rf $HOME\n"), "'./a'\\''b; rm -rf $HOME\n'");
        assert_eq!(quoted("-rf"), "'./-rf'");
        assert_eq!(toml("a\"b\\c\n\u{7f}"), "\"a\\\"b\\\\c\\n\\u007f\"");
        let paths = BTreeSet::from(["a/b/c".to_owned(), "a/d".to_owned(), "e".to_owned()]);
        assert_eq!(folders(&paths).into_iter().collect::<Vec<_>>(), ["a", "a/b"]);
    }
}
