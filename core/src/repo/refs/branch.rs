//! Names of refs: sessions, branches, tags and HEAD, and the rules for valid names.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The ref with the branch that commands act on; always symbolic.
pub const HEAD: &str = "HEAD";

/// The branch a session begins with.
pub const MAIN_BRANCH: &str = "main";

/// The session of a new store's HEAD.
pub const DEFAULT_SESSION: &str = "default";

/// The longest name of a session, branch or tag, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// The longest name of a remote, in bytes.
const MAX_REMOTE_BYTES: usize = 64;

pub(crate) const BRANCHES: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";
const PINS: &str = "refs/pins/";

/// A branch of a session, written `session/branch`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchName {
    session: String,
    branch: String,
}

impl BranchName {
    /// Creates the name of the branch `branch` of `session`.
    ///
    /// # Errors
    /// `InvalidInput` for names that are not allowed; a session's name has no slash.
    pub fn new(session: &str, branch: &str) -> Result<Self> {
        check_name("session", session)?;
        if session.contains('/') {
            return Err(name_error("session", session, "no '/'"));
        }
        check_name("branch", branch)?;
        Ok(Self { session: session.to_owned(), branch: branch.to_owned() })
    }

    /// Creates the name of the main branch of `session`.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not allowed.
    pub fn main(session: &str) -> Result<Self> {
        Self::new(session, MAIN_BRANCH)
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The branch, without its session.
    #[must_use]
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The full name of the ref.
    #[must_use]
    pub fn full(&self) -> String {
        format!("{BRANCHES}{self}")
    }

    /// Returns true if the branch repeats the name of its session, like `task/task/plan`. Such a
    /// branch was probably meant to be `task/plan`, so no command chooses it for its session.
    #[must_use]
    pub fn has_repeated_session(&self) -> bool {
        self.branch.split_once('/').is_some_and(|(first, _)| first == self.session)
    }

    /// Refuses a name that a new session or branch must not have, because it has another meaning as
    /// a revision. Existing stores may have such branches.
    ///
    /// # Errors
    /// `InvalidInput`, naming it.
    pub fn check_new(&self) -> Result<()> {
        check_new_name("session", &self.session)?;
        check_new_name("branch", &self.branch)
    }

    /// Parses the full name of a branch; `None` for other refs.
    #[must_use]
    pub fn from_full(full: &str) -> Option<Self> {
        full.strip_prefix(BRANCHES)?.parse().ok()
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.session, self.branch)
    }
}

impl FromStr for BranchName {
    type Err = Error;

    /// Parses `session/branch`, or `session` alone for its main branch.
    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('/') {
            Some((session, branch)) => Self::new(session, branch),
            None => Self::main(text),
        }
    }
}

/// Returns the full name of a tag.
///
/// # Errors
/// `InvalidInput` for a name that is not allowed.
pub fn tag_ref(name: &str) -> Result<String> {
    check_name("tag", name)?;
    Ok(format!("{TAGS}{name}"))
}

/// Returns the full name of a pin.
///
/// # Errors
/// `InvalidInput` for a name that is not allowed.
pub fn pin_ref(name: &str) -> Result<String> {
    check_name("pin", name)?;
    Ok(format!("{PINS}{name}"))
}

/// Returns the name of the pin with the full name `full`; `None` for other refs.
#[must_use]
pub(crate) fn pin_name(full: &str) -> Option<&str> {
    full.strip_prefix(PINS)
}

/// Returns the name of the tag with the full name `full`; `None` for other refs.
#[must_use]
pub(crate) fn tag_name(full: &str) -> Option<&str> {
    full.strip_prefix(TAGS)
}

/// Returns true if a ref is a branch, tag or pin.
pub(crate) fn is_session_ref(name: &str) -> bool {
    BranchName::from_full(name).is_some() || tag_name(name).is_some() || pin_name(name).is_some()
}

/// Refuses names other than HEAD and `refs/<kind>/<name>`.
///
/// # Errors
/// `InvalidInput`, naming the ref and the expected form.
pub fn check_full_name(full: &str) -> Result<()> {
    if full == HEAD {
        return Ok(());
    }
    let name = full.strip_prefix("refs/").and_then(|rest| rest.split_once('/'));
    match name {
        Some(("remotes" | "remote-heads", name)) => {
            // Refs of a remote may have any name that is valid locally.
            let (remote, name) = name.split_once('/').unwrap_or((name, ""));
            check_remote_name(remote)?;
            check_name("ref", name)
        }
        Some((kind, name)) if !kind.is_empty() => check_name("ref", name),
        _ => Err(name_error("ref", full, "HEAD or refs/<kind>/<name>")),
    }
}

/// Refuses an invalid name for a remote.
///
/// # Errors
/// `InvalidInput`, with the expected form.
pub fn check_remote_name(name: &str) -> Result<()> {
    check_name("remote", name)?;
    match name.contains('/') || name.len() > MAX_REMOTE_BYTES {
        true => {
            Err(name_error("remote", name, &format!("no '/', and up to {MAX_REMOTE_BYTES} bytes")))
        }
        false => Ok(()),
    }
}

/// Refuses HEAD as a new name: as a revision it is the branch that commands act on.
pub(super) fn check_new_name(what: &str, name: &str) -> Result<()> {
    match name == HEAD {
        true => Err(Error::invalid(format!(
            "'{name}' cannot name a {what}: it is the branch that commands act on"
        ))),
        false => Ok(()),
    }
}

/// Applies the rules of `git check-ref-format`, so that every name can become a git ref.
fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(name_error(what, name, &format!("1 to {MAX_NAME_BYTES} bytes")));
    }
    if is_plain(name) {
        return Ok(());
    }
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    if name.contains(forbidden) || name.contains("..") || name.contains("@{") || name == "@" {
        return Err(name_error(
            what,
            name,
            "no white space, control characters, '~^:?*[\\', '..' or '@{'",
        ));
    }
    let bad_part = |part: &str| {
        part.is_empty()
            || part.starts_with(['.', '-'])
            || part.ends_with('.')
            || part.ends_with(".lock")
    };
    if name.split('/').any(bad_part) {
        return Err(name_error(
            what,
            name,
            "parts that do not start with '.' or '-' or end with '.' or '.lock'",
        ));
    }
    Ok(())
}

/// Returns true if a name has only letters, digits, `_`, `-` and `/`, and keeps the rules. Most
/// names do, and a list reads the names of all sessions.
fn is_plain(name: &str) -> bool {
    let mut is_first = true;
    let plain = name.bytes().all(|byte| {
        let starts_part = std::mem::replace(&mut is_first, byte == b'/');
        byte.is_ascii_alphanumeric() || byte == b'_' || !starts_part && matches!(byte, b'-' | b'/')
    });
    plain && !is_first
}

fn name_error(what: &str, name: &str, expected: &str) -> Error {
    Error::invalid(format!("'{name}' cannot name a {what}: expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_alone_means_its_main_branch() {
        let branch: BranchName = "task".parse().unwrap();
        assert_eq!(branch.to_string(), "task/main");
        assert_eq!(branch.full(), "refs/heads/task/main");
        assert_eq!(BranchName::from_full(&branch.full()), Some(branch));
        assert_eq!("a/b/c".parse::<BranchName>().unwrap().branch(), "b/c");
        assert!("a/a/c".parse::<BranchName>().unwrap().has_repeated_session());
        assert!(!"a/ab/c".parse::<BranchName>().unwrap().has_repeated_session());
    }

    #[test]
    fn names_that_would_confuse_a_revision_are_refused() {
        for name in [
            "", "a b", "a..b", "a~1", "a^", "a:b", "a@{1}", "@", ".a", "a.", "-a", "a.lock",
            "a//b", "a/", "é\u{7}",
        ] {
            assert!(BranchName::new("s", name).is_err(), "{name:?}");
        }
        assert!(BranchName::new("a/b", "main").is_err());
        assert!(BranchName::new("s", "fix/parser-2").is_ok());
        assert!(BranchName::new("sitzung-ä", "hauptzweig").is_ok());
    }

    #[test]
    fn full_names_are_head_or_under_refs() {
        assert!(check_full_name("HEAD").is_ok());
        assert!(check_full_name("refs/pins/x").is_ok());
        for name in ["main", "refs/x", "refs//x", "refs/heads/", "refs/heads/a b"] {
            assert!(check_full_name(name).is_err(), "{name}");
        }
    }
}
