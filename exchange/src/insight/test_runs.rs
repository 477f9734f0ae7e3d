//! Finds test runs in a transcript: calls of a known test runner, and the result in their output.
//!
//! Results are never guessed. A run counts only if its output has the summary of the runner, or the
//! exit code of a command that ends with the runner.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::model::view::{MessageView, ToolCall};
use crate::text::json;

/// Longest arguments of a call, and longest line of an output, that are parsed.
const MAX_INPUT_BYTES: usize = 64 << 10;
const MAX_LINE_BYTES: usize = 400;

/// Number of lines at both ends of an output that may contain the exit code.
const EXIT_LINES: usize = 6;

/// Arguments that hold a command.
const COMMANDS: [&str; 4] = ["command", "cmd", "script", "keystrokes"];

/// Words that may come before the program in a command.
const COMMAND_PREFIXES: [&str; 16] = [
    "sudo", "time", "env", "nice", "exec", "command", "npx", "bunx", "uv", "poetry", "pipenv",
    "bundle", "run", "python", "python3", "-m",
];

/// The runners: the first words of their commands, which also name the check.
const RUNNERS: [&str; 38] = [
    "cargo test",
    "cargo nextest",
    "pytest",
    "py.test",
    "unittest",
    "tox",
    "nox",
    "npm test",
    "npm run test",
    "yarn test",
    "pnpm test",
    "bun test",
    "node --test",
    "deno test",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "go test",
    "ctest",
    "make test",
    "make check",
    "just test",
    "mvn test",
    "mvn verify",
    "mvnw test",
    "gradle test",
    "gradlew test",
    "dotnet test",
    "rspec",
    "rake test",
    "rails test",
    "phpunit",
    "swift test",
    "mix test",
    "sbt test",
    "zig build test",
    "bazel test",
];

/// Arguments with which a runner runs no test.
const NO_RUN: [&str; 8] =
    ["--no-run", "--collect-only", "--co", "--help", "-h", "--version", "--list", "--listTests"];

/// The summary lines of runners. Groups capture counts of failures. A line without groups shows the
/// result itself.
const SUMMARIES: [(&str, SummaryMeaning); 22] = [
    (r"^test result: ok\.", SummaryMeaning::Passed),
    (r"^test result: FAILED\.", SummaryMeaning::Failed),
    (r"^error: could not compile ", SummaryMeaning::Failed),
    (r"^\s*Summary \[.*\d+ tests? run: \d+ passed(?:.*?, (\d+) failed)?", SummaryMeaning::Failures),
    (r"^=*\s*(?:\d+ [a-z]+, )*\d+ (?:failed|errors?)\b.* in [\d.]+s", SummaryMeaning::Failed),
    (r"^=*\s*(?:\d+ [a-z]+, )*\d+ passed\b.* in [\d.]+s", SummaryMeaning::Passed),
    (r"^OK(?: \(.*\))?$", SummaryMeaning::Passed),
    (r"^FAILED \((?:failures|errors|unexpected)", SummaryMeaning::Failed),
    (r"^(?:FAILURES|ERRORS)!$", SummaryMeaning::Failed),
    (r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))", SummaryMeaning::Passed),
    (r"^(?:--- )?FAIL(?::|\s|$)", SummaryMeaning::Failed),
    (r"^\s*Tests:?\s+(?:.*\D)?0*[1-9]\d* failed", SummaryMeaning::Failed),
    (r"^\s*Tests:?\s+(?:.*\D)?\d+ passed", SummaryMeaning::Passed),
    (r"^\s*\d+ pass(?:ing)?(?: \(.*\))?$", SummaryMeaning::Passed),
    (r"^\s*(\d+) fail(?:ing)?$", SummaryMeaning::Failures),
    (r"^(?:#|ℹ) fail (\d+)$", SummaryMeaning::Failures),
    (
        r"^\d+ (?:examples|example|runs|tests)\b.*?, (\d+) failures?(?:, (\d+) errors?)?",
        SummaryMeaning::Failures,
    ),
    (r"Tests run: \d+, Failures: (\d+), Errors: (\d+)", SummaryMeaning::Failures),
    (r"^(?:\[(?:INFO|ERROR)\] )?BUILD (?:FAILED|FAILURE)\b", SummaryMeaning::Failed),
    (r"^(?:\[INFO\] )?BUILD SUCCESS", SummaryMeaning::Passed),
    (r"^(?:Passed|Failed)!\s+- Failed:\s+(\d+)", SummaryMeaning::Failures),
    (r"^\d+% tests passed, (\d+) tests failed out of", SummaryMeaning::Failures),
];

static SUMMARY_RULES: LazyLock<Vec<(Regex, SummaryMeaning)>> = LazyLock::new(|| {
    SUMMARIES
        .iter()
        .filter_map(|(rule, meaning)| Some((Regex::new(rule).ok()?, *meaning)))
        .collect()
});

/// Matches a line with the exit code of a command, as clients write it.
static EXIT_CODE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words =
        r"(?i)^[<\[]?(?:(?:the command|process|command|shellid: \S+) (?:exited|completed) with )?";
    Regex::new(&format!(r"{words}(?:exit )?code:? (-?\d+)\.?[>\]]?$")).ok()
});

/// The meaning of a summary line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SummaryMeaning {
    Passed,
    Failed,
    /// Passed if all counts are zero.
    Failures,
}

/// The runs of one test runner in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRuns {
    /// True if the newest run passed.
    pub passed: bool,
    /// The turn with the output of that run.
    pub turn: u64,
    /// The number of runs with a known result.
    pub runs: u64,
    /// The number of failed runs.
    pub failed: u64,
}

/// Reads messages in order and pairs calls of test runners with their results.
#[derive(Debug, Default)]
pub(crate) struct TestRunReader {
    /// Runs without a result yet, keyed by the section of the conversation and the call id.
    open: HashMap<(String, String), Command>,
    found: BTreeMap<String, TestRuns>,
}

/// A command that runs tests.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    /// The runner, one of [`RUNNERS`].
    runner: &'static str,
    /// True if the exit code of the command is that of the runner.
    reports_exit_code: bool,
}

impl TestRunReader {
    /// Adds a message of the conversation in `section`, from the turn `turn`.
    pub(crate) fn add(&mut self, section: &str, turn: u64, message: &MessageView) {
        for call in &message.tool_calls {
            if let Some(command) = command_of(call) {
                self.open.insert((section.to_owned(), call.id.clone()), command);
            }
        }
        for result in &message.tool_results {
            let key = (section.to_owned(), result.call_id.clone());
            let Some(command) = self.open.remove(&key) else { continue };
            let Some(passed) = outcome(&command, &result.text) else { continue };
            let new = TestRuns { passed, turn, runs: 0, failed: 0 };
            let runs = self.found.entry(command.runner.to_owned()).or_insert(new);
            (runs.passed, runs.turn, runs.runs) = (passed, turn, runs.runs + 1);
            runs.failed += u64::from(!passed);
        }
    }

    /// Returns the runs so far, of any runner.
    pub(super) fn runs(&self) -> impl Iterator<Item = &TestRuns> {
        self.found.values()
    }

    /// Returns the runs, keyed by runner.
    pub(crate) fn finish(self) -> BTreeMap<String, TestRuns> {
        self.found
    }
}

/// Returns the command of a call, if it runs tests with a single runner.
fn command_of(call: &ToolCall) -> Option<Command> {
    command(&script_of(call)?)
}

/// Returns the script of a call of a shell.
pub(super) fn script_of(call: &ToolCall) -> Option<String> {
    if call.input.len() > MAX_INPUT_BYTES {
        return None;
    }
    let value = json::value(call.input.as_bytes())?;
    match COMMANDS.iter().find_map(|name| value.get(name))? {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Some(match words.as_slice() {
                [_, "-c" | "-lc", script] => (*script).to_owned(),
                words => words.join(" "),
            })
        }
        _ => None,
    }
}

/// Finds the runner in a script. `None` if there are several.
fn command(script: &str) -> Option<Command> {
    let script = script.replace("2>&1", "").replace("&>", ">");
    let parts = script.split(['\n', ';', '|', '&']).map(str::trim).filter(|part| !part.is_empty());
    let parts: Vec<(&str, Option<&'static str>)> = parts.map(|part| (part, runner(part))).collect();
    let mut runners = parts.iter().filter_map(|(_, runner)| *runner);
    let first = runners.next()?;
    if runners.any(|other| other != first) {
        return None;
    }
    let is_last = parts.last().is_some_and(|(_, runner)| runner.is_some());
    let others = parts.iter().filter(|(_, runner)| runner.is_none());
    let is_alone = others.map(|(part, _)| part).all(|part| part.starts_with("cd "));
    let reports_exit_code = is_last && is_alone && !script.contains('|');
    Some(Command { runner: first, reports_exit_code })
}

/// Returns the runner that a simple command starts with.
fn runner(part: &str) -> Option<&'static str> {
    let mut words: Vec<&str> = part.split_whitespace().collect();
    if words.iter().any(|word| NO_RUN.contains(word)) {
        return None;
    }
    let prefix_words = |words: &[&str]| match words {
        ["timeout", ..] | ["pnpm" | "yarn", "exec", ..] => 2,
        [word, ..] if COMMAND_PREFIXES.contains(word) => 1,
        [word, ..] if word.contains('=') && !word.starts_with(['-', '"', '\'']) => 1,
        _ => 0,
    };
    loop {
        match prefix_words(&words) {
            0 => break,
            known => drop(words.drain(..known.min(words.len()))),
        }
    }
    let program = words.first_mut()?;
    *program = program.rsplit('/').next().unwrap_or_default();
    let command = words.iter().filter(|word| !word.starts_with('+')).copied().collect::<Vec<_>>();
    let command = command.join(" ");
    RUNNERS.into_iter().find(|runner| {
        // Also matches 'npm run test:unit'.
        let rest = command.strip_prefix(runner);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':']))
    })
}

/// Returns true if a run passed, or `None` if its output does not show the result.
fn outcome(command: &Command, output: &str) -> Option<bool> {
    let wrapped = output.trim_start().starts_with('{').then(|| json::value(output.as_bytes()));
    let wrapped = wrapped.flatten();
    let inner = wrapped.as_ref().and_then(|value| value.get("output")).and_then(Value::as_str);
    let text = inner.unwrap_or(output);
    let mut passed = None;
    for line in text.lines().filter(|line| line.len() <= MAX_LINE_BYTES) {
        match summary_result(line) {
            Some(false) => return Some(false),
            Some(true) => passed = Some(true),
            None => {}
        }
    }
    let code = wrapped.as_ref().and_then(|value| {
        let code = value.pointer("/metadata/exit_code").or_else(|| value.get("exit_code"));
        code.and_then(Value::as_i64)
    });
    let code = code.or_else(|| exit_code(text));
    passed.or(code.filter(|_| command.reports_exit_code).map(|code| code == 0))
}

/// Returns the result that a summary line shows.
fn summary_result(line: &str) -> Option<bool> {
    let plain = without_colors(line);
    SUMMARY_RULES.iter().find_map(|(rule, meaning)| {
        let groups = rule.captures(&plain)?;
        Some(match meaning {
            SummaryMeaning::Passed => true,
            SummaryMeaning::Failed => false,
            SummaryMeaning::Failures => {
                let mut counts = groups.iter().skip(1).flatten();
                counts.all(|count| count.as_str().trim_matches('0').is_empty())
            }
        })
    })
}

/// Removes color escape sequences from a line.
fn without_colors(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(char);
        }
    }
    plain
}

/// Returns the exit code that a client wrote near one end of an output.
pub(super) fn exit_code(text: &str) -> Option<i64> {
    let rule = EXIT_CODE.as_ref()?;
    let ends = text.lines().take(EXIT_LINES).chain(text.lines().rev().take(EXIT_LINES));
    ends.filter(|line| line.len() <= MAX_LINE_BYTES)
        .find_map(|line| rule.captures(line.trim())?.get(1)?.as_str().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_runners_are_found_after_command_prefixes() {
        let name = |script: &str| command(script).map(|command| command.runner);
        for (script, expected) in [
            ("cargo test", Some("cargo test")),
            (
                "cd /p && RUST_LOG=debug cargo +nightly test --lib 2>&1 | tail -5",
                Some("cargo test"),
            ),
            ("python3 -m pytest -q tests/a.py", Some("pytest")),
            ("timeout 60 npx vitest run", Some("vitest")),
            ("npm run test:unit", Some("npm run test")),
            ("./vendor/bin/phpunit", Some("phpunit")),
            ("uv run pytest; echo done", Some("pytest")),
            ("cargo test a\ncargo test b", Some("cargo test")),
            ("cargo test && npm test", None),
            ("cargo test --no-run", None),
            ("echo cargo test", None),
            ("grep -rn 'cargo test' .", None),
            ("cargo testament", None),
            ("", None),
        ] {
            assert_eq!(name(script), expected, "{script}");
        }
    }

    #[test]
    fn test_outcomes_come_from_the_output_only() {
        let of = |script: &str, output: &str| outcome(&command(script).unwrap(), output);
        for (script, output, expected) in [
            ("cargo test", "running 2 tests\ntest result: ok. 2 passed; 0 failed", Some(true)),
            ("cargo test | tail", "test result: ok. 1\ntest result: FAILED. 0", Some(false)),
            ("cargo test", "error: could not compile `a` (lib)", Some(false)),
            ("pytest", "\u{1b}[32m===== \u{1b}[1m3 passed\u{1b}[0m in 0.12s =====", Some(true)),
            ("pytest", "== 1 failed, 2 passed, 1 warning in 1.20s ==", Some(false)),
            ("pytest -q", "2 passed, 1 error in 0.1s", Some(false)),
            (
                "go test ./...",
                "ok  \texample.com/a\t0.01s\nFAIL\texample.com/b\t0.01s",
                Some(false),
            ),
            ("go test ./...", "ok  \texample.com/a\t(cached)", Some(true)),
            ("npm test", "Tests:       1 failed, 3 passed, 4 total", Some(false)),
            ("npm test", " Test Files  1 passed (1)\n      Tests  3 passed (3)", Some(true)),
            ("npm test", "  5 passing (12ms)\n  1 failing", Some(false)),
            ("bun test", " 12 pass\n 0 fail\n", Some(true)),
            ("node --test", "# pass 3\n# fail 0", Some(true)),
            ("rspec", "10 examples, 0 failures, 1 pending", Some(true)),
            ("mvn test", "[INFO] Tests run: 5, Failures: 0, Errors: 1, Skipped: 0", Some(false)),
            ("python -m unittest", "Ran 3 tests in 0.001s\n\nOK", Some(true)),
            // Without a summary the exit code counts, if it is the exit code of the runner.
            ("make test", "cc\nProcess exited with code 0\nOutput:\nfine", Some(true)),
            ("make test", "Exit code 2\ngone wrong", Some(false)),
            ("make test | tail -3", "[The command completed with exit code 0.]", None),
            ("make test || true", "<shellId: 3 completed with exit code 0>", None),
            ("make test", r#"{"output":"x","metadata":{"exit_code":1}}"#, Some(false)),
            ("make test", "The user doesn't want to proceed with this tool use.", None),
            ("pytest", "no tests ran in 0.01s", None),
        ] {
            assert_eq!(of(script, output), expected, "{script}: {output}");
        }
    }
}
