//! Paths into a context: which section, and what in it.

use crate::error::{Error, Result};

/// Most bytes of a path into a context.
pub const MAX_PATH_BYTES: usize = 4096;

/// The section of an agent: `agents/<name>/<part>`.
///
/// # Errors
/// `InvalidInput` for an agent name that is empty, too long, or holds a slash or control character.
pub fn agent_section(agent: &str, part: &str) -> Result<String> {
    let bad = agent.is_empty()
        || agent.len() > 255
        || agent.contains('/')
        || agent.chars().any(char::is_control);
    if bad {
        return Err(Error::invalid(format!(
            "'{agent}' cannot name an agent: expected 1 to 255 bytes without '/' and control characters"
        )));
    }
    Ok(format!("agents/{agent}/{part}"))
}

/// A path split into its section and the rest, which is empty when the section itself is meant.
///
/// `agents/main/messages/12` is item `12` of section `agents/main/messages`; every other section is
/// the first component alone.
#[must_use]
pub fn split(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path).trim_end_matches('/');
    let components = if path.starts_with("agents/") { 3 } else { 1 };
    let end = path.match_indices('/').nth(components - 1).map_or(path.len(), |(at, _)| at);
    let (section, rest) = path.split_at(end);
    (section, rest.strip_prefix('/').unwrap_or(rest))
}

/// What is wanted of contexts: what lies at or below some paths, or everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths(Vec<String>);

impl Paths {
    /// What lies at or below any of `paths`; everything when there is none.
    #[must_use]
    pub fn new(paths: &[String]) -> Self {
        let trim = |path: &String| path.trim_start_matches('/').trim_end_matches('/').to_owned();
        Self(paths.iter().map(trim).filter(|path| !path.is_empty()).collect())
    }

    /// Whether everything is wanted.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of `section` is wanted.
    #[must_use]
    pub fn has_section(&self, section: &str) -> bool {
        self.is_all() || self.0.iter().any(|path| is_under(section, path))
    }

    /// Whether anything in `section` may be wanted.
    #[must_use]
    pub fn may_be_in(&self, section: &str) -> bool {
        self.has_section(section) || self.0.iter().any(|path| is_under(path, section))
    }

    /// The wanted paths below `section`, without it.
    #[must_use]
    pub fn keys_of(&self, section: &str) -> Vec<String> {
        let below = |path: &String| Some(path.strip_prefix(section)?.strip_prefix('/')?.to_owned());
        self.0.iter().filter_map(below).collect()
    }

    /// Whether the entry `key` of `section` is wanted; a section that is one blob has an empty key.
    #[must_use]
    pub fn has(&self, section: &str, key: &str) -> bool {
        self.has_section(section)
            || self.0.iter().any(|path| {
                let below = path.strip_prefix(section).and_then(|rest| rest.strip_prefix('/'));
                below.is_some_and(|below| is_under(key, below))
            })
    }
}

fn is_under(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_is_what_lies_at_or_below_a_path() {
        let paths = Paths::new(&["files/src/".into(), "agents/a".into(), "scratchpad/plan".into()]);
        for (section, key, wanted) in [
            ("files", "src", true),
            ("files", "src/a.rs", true),
            ("files", "srcs", false),
            ("agents/a/messages", "3", true),
            ("agents/ab/messages", "3", false),
            ("scratchpad", "plan", true),
            ("scratchpad", "plans", false),
        ] {
            assert_eq!(paths.has(section, key), wanted, "{section} {key}");
            assert!(!wanted || paths.may_be_in(section), "{section}");
        }
        assert!(!paths.may_be_in("memory"));
        assert!(Paths::new(&[]).has("memory", "x"));
    }

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
