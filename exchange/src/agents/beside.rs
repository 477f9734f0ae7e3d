//! Reads the working directory of a session from a file next to its transcript.
//!
//! Cline 3 keeps a folder for each session: `<session>.messages.json` and those of its sub-agents
//! are transcripts, and `<session>.json` has the facts, with the working directory among them.

use std::io::Read;
use std::path::Path;

use turntree::workspace::open_regular;

use serde::Deserialize;

/// The facts that are read.
#[derive(Deserialize)]
struct Facts {
    cwd: Option<String>,
}

/// Largest file of facts that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the working directory of the session in the transcript at `path`, if a file next to it
/// records one. Unreadable files are ignored.
#[must_use]
pub fn working_directory(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent()?;
    if !name.ends_with(".messages.json") {
        return None;
    }
    let facts = folder.join(format!("{}.json", folder.file_name()?.to_str()?));
    let mut text = Vec::new();
    open_regular(&facts).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice::<Facts>(&text).ok()?.cwd
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_file_that_is_named_after_the_folder_says_where_its_transcripts_worked() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("s1");
        fs::create_dir(&folder).unwrap();
        let of = |name: &str| working_directory(&folder.join(name));
        assert_eq!(of("s1.messages.json"), None);
        fs::write(folder.join("s1.json"), r#"{"session_id": "s1", "cwd": "/p"}"#).unwrap();
        assert_eq!(of("s1.messages.json").as_deref(), Some("/p"));
        assert_eq!(of("agent_2.messages.json").as_deref(), Some("/p"));
        assert_eq!(of("s1.json"), None);
        fs::write(folder.join("s1.json"), "{").unwrap();
        assert_eq!(of("s1.messages.json"), None);
    }
}
