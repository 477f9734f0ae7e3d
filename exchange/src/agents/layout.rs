//! The file that each agent looks for when it resumes a session.

use std::path::{Path, PathBuf};

use super::gemini_project::ProjectFolder;
use crate::render::native::{NativeAgent, NativeFacts};

/// Longest name of a project's folder of Claude Code, in characters.
const MAX_PROJECT_CHARS: usize = 200;

/// How an agent resumes a session that is written for it.
#[derive(Clone, Copy)]
pub(super) struct ResumeForm {
    /// The agent.
    pub(super) agent: NativeAgent,
    /// Its program and the arguments before the id of the session.
    pub(super) command: &'static [&'static str],
    /// Returns the file of a session, from the first place of the agent.
    pub(super) layout: fn(&Path, &NativeFacts<'_>) -> SessionLayout,
}

/// The files of a session that is written for an agent.
pub(super) struct SessionLayout {
    /// The file of the transcript.
    pub(super) path: PathBuf,
    /// The program and its arguments that read the file first, if the agent does not do so itself.
    pub(super) prepare: Option<Vec<String>>,
    /// A file that the agent needs to find the session, with its content; `None` if it exists
    /// already.
    pub(super) marker: Option<(PathBuf, String)>,
}

/// A session that is found by the path of its file.
const fn file(path: PathBuf) -> SessionLayout {
    SessionLayout { path, prepare: None, marker: None }
}

/// Returns the beginning of the current time, up to this number of characters, as a part of a name.
fn moment(facts: &NativeFacts<'_>, chars: usize) -> String {
    let now = (facts.show_time)(facts.now);
    now.get(..chars).unwrap_or(&now).replace(':', "-")
}

/// Lays out a session of Claude Code.
pub(super) fn claude_code(folder: &Path, facts: &NativeFacts<'_>) -> SessionLayout {
    file(folder.join(claude_project(facts.cwd)).join(format!("{}.jsonl", facts.session)))
}

/// Lays out a session of Codex, in the folder of its day.
pub(super) fn codex(folder: &Path, facts: &NativeFacts<'_>) -> SessionLayout {
    let day: PathBuf = moment(facts, 10).split('-').collect();
    let name = format!("rollout-{}-{}.jsonl", moment(facts, 19), facts.session);
    file(folder.join(day).join(name))
}

/// Lays out a session of Gemini CLI, in the folder of its project.
pub(super) fn gemini_cli(folder: &Path, facts: &NativeFacts<'_>) -> SessionLayout {
    let project = ProjectFolder::find(folder, facts.cwd);
    let short = facts.session.get(..8).unwrap_or(facts.session);
    let name = format!("session-{}-{short}.jsonl", moment(facts, 16));
    SessionLayout { marker: project.owner, ..file(project.path.join("chats").join(name)) }
}

/// Lays out a session of opencode next to its database, into which the agent imports it.
pub(super) fn opencode(folder: &Path, facts: &NativeFacts<'_>) -> SessionLayout {
    let path = folder.join("turntree").join(format!("{}.json", facts.session));
    let words = ["opencode".into(), "import".into(), path.to_string_lossy().into_owned()];
    SessionLayout { prepare: Some(Vec::from(words)), ..file(path) }
}

/// Lays out a session of pi, in the folder of its project.
pub(super) fn pi(folder: &Path, facts: &NativeFacts<'_>) -> SessionLayout {
    let project = facts.cwd.trim_start_matches('/').replace(['/', '\\', ':'], "-");
    let second = (facts.show_time)(facts.now).replace([':', '.'], "-");
    let name = format!("{second}_{}.jsonl", facts.session);
    file(folder.join(format!("--{project}--")).join(name))
}

/// Returns the folder of a project: every character that is no letter or digit is a hyphen, and a
/// long name ends with a hash of the whole, as JavaScript computes it (as the SDK of the agent
/// does).
fn claude_project(cwd: &str) -> String {
    let plain = |unit: u16| {
        let c = char::from_u32(unit.into()).filter(char::is_ascii_alphanumeric);
        c.unwrap_or('-')
    };
    let name: String = cwd.encode_utf16().map(plain).collect();
    let Some(short) = name.get(..MAX_PROJECT_CHARS).filter(|_| name.len() > MAX_PROJECT_CHARS)
    else {
        return name;
    };
    let hash = cwd.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_shl(5).wrapping_sub(hash).wrapping_add(i32::from(unit))
    });
    format!("{short}-{}", base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_projects_are_called_as_the_agent_calls_them() {
        assert_eq!(claude_project("/srv/my.app_2"), "-srv-my-app-2");
        assert_eq!(claude_project("/srv/bücher"), "-srv-b-cher");
        // Computed with the arithmetic of JavaScript.
        let long = claude_project(&format!("/{}", "x".repeat(300)));
        assert_eq!(long, format!("-{}-x8zr69", "x".repeat(199)));
        assert_eq!(base36(0), "0");
        assert_eq!(base36(1_000_000), "lfls");
    }
}
