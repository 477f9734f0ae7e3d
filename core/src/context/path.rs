//! Paths into a context: a section and an entry in it.

use super::sections::{AGENTS_PREFIX, is_of_agent};
use crate::error::{Error, Result};

/// Maximum bytes of a path into a context.
pub const MAX_PATH_BYTES: usize = 4096;

/// Returns the section of an agent: `agents/<name>/<part>`.
///
/// # Errors
/// `InvalidInput` for an agent name that is empty, too long, or has a slash or control character.
pub fn agent_section(agent: &str, part: &str) -> Result<String> {
    let bad = agent.is_empty()
        || agent.len() > 255
        || agent.contains('/')
        || agent.chars().any(char::is_control);
    if bad {
        return Err(Error::invalid(format!(
            "'{agent}' cannot name an agent: expected 1 to 255 bytes without '/' or control characters"
        )));
    }
    Ok(format!("{AGENTS_PREFIX}{agent}/{part}"))
}

/// Splits a path into its section and the rest, which is empty for the section itself.
///
/// `agents/main/messages/12` is item `12` of section `agents/main/messages`; every other section is
/// the first component alone.
#[must_use]
pub fn split(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path).trim_end_matches('/');
    let components = if is_of_agent(path) { 3 } else { 1 };
    let end = path.match_indices('/').nth(components - 1).map_or(path.len(), |(at, _)| at);
    let (section, rest) = path.split_at(end);
    (section, rest.strip_prefix('/').unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_section_and_what_is_in_it() {
        for (path, expected) in [
            ("files", ("files", "")),
            ("files/src/a.rs", ("files", "src/a.rs")),
            ("files//etc/hosts", ("files", "/etc/hosts")),
            ("/scratchpad/todo/", ("scratchpad", "todo")),
            ("agents/main/messages", ("agents/main/messages", "")),
            ("agents/main/messages/12", ("agents/main/messages", "12")),
            ("agents/main", ("agents/main", "")),
            ("agents", ("agents", "")),
        ] {
            assert_eq!(split(path), expected, "{path}");
        }
    }

    #[test]
    fn agent_names_stay_inside_their_section() {
        assert_eq!(agent_section("a@main", "state").unwrap(), "agents/a@main/state");
        for name in ["", "a/b", "a\nb"] {
            assert!(agent_section(name, "state").is_err(), "{name:?}");
        }
    }
}
