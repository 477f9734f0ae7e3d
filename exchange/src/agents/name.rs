//! Names the session in a file: after the file, or after its folder.

use std::ffi::OsStr;
use std::path::Path;

/// File name extensions of possible transcripts.
pub(super) const EXTENSIONS: [&str; 3] = ["jsonl", "json", "traj"];

/// Extensions of compressed transcripts, of databases, and of the logs next to these.
const OTHER_EXTENSIONS: [&str; 3] = ["zst", "db", "db-wal"];

/// Longest name, in characters.
const MAX_CHARS: usize = 100;

/// Files with the same name in every session; the folder above them has the name of the session.
const COMMON: [(&str, &str); 3] =
    [("session-state", "events"), ("tasks", "api_conversation_history"), ("tasks", "ui_messages")];

/// Returns the session name for the transcript at `path`. It does not depend on the reader, so the
/// same file always goes to the same session. The name of a sub-agent's file includes the session
/// that it worked for.
#[must_use]
pub fn session_name(path: &Path) -> String {
    // A compressed transcript has the same name.
    let plain = path.extension().filter(|end| *end == "zst").map(|_| path.with_extension(""));
    let stem = text(plain.as_deref().unwrap_or(path).file_stem());
    let mut folders = path.ancestors().skip(1).map(|folder| text(folder.file_name()));
    let [parent, above] = [(); 2].map(|()| folders.next().unwrap_or_default());
    let is_common = COMMON.contains(&(above.as_str(), stem.as_str()));
    let name = match (parent.as_str(), above.as_str()) {
        _ if is_common => parent,
        ("subagents", session) if !session.is_empty() => format!("{session}-{stem}"),
        (session, "chats") => format!("{session}-{stem}"),
        (session, above) => match stem.strip_suffix(".messages") {
            Some(plain) if above == "sessions" && plain != session => format!("{session}-{plain}"),
            Some(plain) => plain.to_owned(),
            None => stem,
        },
    };
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' };
    let name: String = name.chars().take(MAX_CHARS).map(safe).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "session".to_owned() } else { name.to_owned() }
}

fn text(name: Option<&OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns true if a file name is that of a transcript, a database, or the log next to one.
pub(super) fn is_file_of_session(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    EXTENSIONS.contains(&extension) || OTHER_EXTENSIONS.contains(&extension)
}

#[cfg(test)]
mod tests {
    use turntree::repo::BranchName;

    use super::*;

    #[test]
    fn every_path_gives_a_name_that_sessions_may_have() {
        for (path, expected) in [
            ("a/b/ironclaw__bdf-1.jsonl", "ironclaw__bdf-1"),
            ("my chat (2).json", "my-chat--2"),
            ("..", "session"),
            ("-", "session"),
            ("sitzung ä.jsonl", "sitzung-ä"),
            ("a..b.json", "a--b"),
            (".hidden", "hidden"),
            ("events.jsonl", "events"),
            ("/c/rollout-2026-05-01T10-00-00-ab.jsonl.zst", "rollout-2026-05-01T10-00-00-ab"),
            (".zst", "zst"),
            ("/h/.copilot/session-state/a9-1/events.jsonl", "a9-1"),
            ("/h/tasks/17000/api_conversation_history.json", "17000"),
            ("/p/3f2a/subagents/agent-a1.jsonl", "3f2a-agent-a1"),
            ("/c/sessions/17_a/17_a.messages.json", "17_a"),
            ("/c/sessions/17_a/agent_2_b.messages.json", "17_a-agent_2_b"),
            ("17_a.messages.json", "17_a"),
            ("/g/chats/session-2026-05.json", "session-2026-05"),
            ("/g/chats/d5c7/0la501.jsonl", "d5c7-0la501"),
        ] {
            let name = session_name(Path::new(path));
            assert_eq!(name, expected);
            BranchName::main(&name).unwrap();
        }
        let long = "x".repeat(500);
        BranchName::main(&session_name(Path::new(&long))).unwrap();
    }
}
