//! Patterns of `.gitignore`. The only user of the `ignore` crate.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::platform::{name_of_bytes, path_bytes};

/// The byte order mark, which editors put before the first line.
const MARK: &str = "\u{feff}";

/// The patterns of one rule file.
#[derive(Debug)]
pub(in crate::workspace) struct Patterns(Gitignore);

impl Patterns {
    /// Parses a rule file. Skips invalid lines, as git does.
    pub(in crate::workspace) fn parse(text: &[u8], ignores_case: bool) -> Self {
        if text.is_empty() {
            return Self(Gitignore::empty());
        }
        let mut builder = GitignoreBuilder::new("");
        let _ = builder.case_insensitive(ignores_case);
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            let line = if at == 0 { line.strip_prefix(MARK).unwrap_or(line) } else { line };
            let _ = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
        }
        Self(builder.build().unwrap_or_else(|_| Gitignore::empty()))
    }

    /// Returns true if the patterns ignore a path relative to the folder of the file, false if they
    /// include it; `None` if none matches.
    pub(in crate::workspace) fn verdict(&self, path: &[u8], is_folder: bool) -> Option<bool> {
        if self.0.is_empty() {
            return None;
        }
        match self.0.matched(Path::new(&name_of_bytes(path)), is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

/// Returns true if a path matches one pattern as a whole; leading slashes are insignificant.
pub(super) fn matches_path(pattern: &str, path: &Path, ignores_case: bool) -> bool {
    let path = path_bytes(path);
    let path = path.strip_prefix(b"/").unwrap_or(&path);
    Patterns::parse(pattern.as_bytes(), ignores_case).verdict(path, false) == Some(true)
}
