//! The memory of a parser: facts recorded once, and the directory that relative paths start from.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::event::Event;
use crate::text::json;
use crate::text::piece::{Piece, PieceKind};

/// The fact that is the title of the session in its client.
pub(crate) const TITLE: &str = "title";

/// Metadata of a snapshot, and a fact of the section `meta`: the address of the remote of the git
/// repository around its directory.
pub const GIT_REMOTE: &str = "git_remote";

/// Facts about a session as they become known.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Session {
    facts: BTreeMap<Cow<'static, str>, String>,
}

impl Session {
    /// Records the fact `key` unless `value` is absent or unchanged. The working directory is
    /// recorded once: the paths of a session's files keep one base if the session changes it.
    pub(super) fn fact(&mut self, key: &'static str, value: Option<&str>, events: &mut Vec<Event>) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        let known = self.facts.get(key).map(String::as_str);
        if known == Some(value) || (known.is_some() && key == "cwd") {
            return;
        }
        self.facts.insert(Cow::Borrowed(key), value.to_owned());
        events.push(Event::Meta { key: key.to_owned(), value: value.to_owned() });
    }

    /// Corrects a fact to `value`; an empty value removes it.
    pub(super) fn correct(&mut self, key: &'static str, value: &str, events: &mut Vec<Event>) {
        self.facts.insert(Cow::Borrowed(key), value.to_owned());
        events.push(Event::Meta { key: key.to_owned(), value: value.to_owned() });
    }

    /// The last value of the fact `key`.
    pub(super) fn known(&self, key: &str) -> Option<&str> {
        self.facts.get(key).map(String::as_str)
    }

    /// `path` relative to the working directory with `/` between its parts, or absolute when it
    /// does not lie inside. However a file is spelled, it has one path.
    pub(super) fn relative(&self, path: &str) -> String {
        let cwd = self.known("cwd").unwrap_or_default();
        let cwd = SpelledPath::new(cwd, cwd.contains('\\') && !cwd.starts_with('/'));
        let path = SpelledPath::new(path, cwd.is_of_windows);
        let parts = match path.is_absolute {
            true => path.parts,
            false => cwd.parts.iter().cloned().chain(path.parts).collect(),
        };
        let parts = without_steps(parts);
        let root = if path.is_absolute { path.root } else { cwd.root.clone() };
        let below = parts.strip_prefix(cwd.parts.as_slice());
        let is_same = |cwd: &[String]| {
            let known = parts.get(..cwd.len()).unwrap_or_default().iter().zip(cwd);
            known.clone().count() == cwd.len()
                && known.into_iter().all(|(a, b)| a.eq_ignore_ascii_case(b))
        };
        let below = match below {
            // Windows treats `C:\P` and `c:\p` as the same path.
            None if cwd.is_of_windows && is_same(&cwd.parts) => parts.get(cwd.parts.len()..),
            below => below,
        };
        let is_inside = cwd.is_absolute && root.eq_ignore_ascii_case(&cwd.root);
        match below.filter(|below| (is_inside || !path.is_absolute) && !below.is_empty()) {
            Some(below) => below.join("/"),
            None if root.contains('\\') => format!("{root}{}", parts.join("\\")),
            None => format!("{root}{}", parts.join("/")),
        }
    }
}

/// A path as it is written, split into parts.
struct SpelledPath {
    /// `/`, `C:\`, or empty for a relative path.
    root: String,
    parts: Vec<String>,
    is_absolute: bool,
    is_of_windows: bool,
}

impl SpelledPath {
    fn new(written: &str, is_of_windows: bool) -> Self {
        let decoded = written.strip_prefix("file://").map(decoded);
        let path = decoded.as_deref().unwrap_or(written);
        // An address has a slash before the drive.
        let path = path.strip_prefix('/').filter(|rest| has_drive(rest)).unwrap_or(path);
        // The shells of git for Windows write `/c/p` for `C:\p`.
        let of_shell = is_of_windows.then(|| drive_of_shell(path)).flatten();
        let path = of_shell.as_deref().unwrap_or(path);
        let has_drive = has_drive(path);
        let is_of_windows = is_of_windows || has_drive || path.starts_with("\\\\");
        let is_separator = |c: char| c == '/' || (c == '\\' && is_of_windows);
        let is_absolute = has_drive || path.starts_with(['/', '\\', '~']);
        let (root, rest) = match path {
            _ if has_drive => path.split_at(2),
            _ => ("", path),
        };
        let root = match (is_of_windows, is_absolute) {
            (true, true) if path.starts_with(r"\\") || path.starts_with("//") => "\\\\".to_owned(),
            (true, true) => format!("{}\\", root.to_ascii_uppercase()),
            (false, true) if !path.starts_with('~') => "/".to_owned(),
            _ => String::new(),
        };
        let parts = rest.split(is_separator).filter(|part| !matches!(*part, "" | "."));
        let parts = parts.map(str::to_owned).collect();
        Self { root, parts: without_steps(parts), is_absolute, is_of_windows }
    }
}

/// Returns `c:/p` for `/c/p`.
fn drive_of_shell(path: &str) -> Option<String> {
    let (drive, rest) = path.strip_prefix('/')?.split_once('/').unwrap_or((path.get(1..)?, ""));
    let is_drive = drive.len() == 1 && drive.starts_with(|c: char| c.is_ascii_alphabetic());
    is_drive.then(|| format!("{drive}:/{rest}"))
}

fn has_drive(path: &str) -> bool {
    let drive = path.as_bytes();
    drive.first().is_some_and(u8::is_ascii_alphabetic) && drive.get(1) == Some(&b':')
}

/// Takes `..` away with the part before it, as far as there is one.
fn without_steps(parts: Vec<String>) -> Vec<String> {
    let mut plain: Vec<String> = Vec::with_capacity(parts.len());
    for part in parts {
        match plain.last() {
            Some(before) if part == ".." && before != ".." => drop(plain.pop()),
            _ => plain.push(part),
        }
    }
    plain
}

/// Decodes percent-encoded text: `%2F` becomes a slash.
fn decoded(address: &str) -> String {
    let decoded = percent_decode_str(address).decode_utf8();
    decoded.map_or_else(|_| address.to_owned(), Cow::into_owned)
}

/// Returns an address without the user and password that it may hold.
#[must_use]
pub fn without_credentials(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

/// Returns the parsed record in `piece`; `None` for other pieces, and reports a record that cannot
/// be parsed.
pub(super) fn record(piece: &Piece, events: &mut Vec<Event>) -> Option<Value> {
    let PieceKind::Record { .. } = piece.kind else { return None };
    let value = json::value(&piece.bytes);
    if value.is_none() {
        events.push(Event::Unknown { what: "a record that is not JSON".to_owned() });
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_told_when_it_changes_but_the_working_directory_only_once() {
        let (mut session, mut events) = (Session::default(), Vec::new());
        for (cwd, branch) in [("/a", "main"), ("/b", "main"), ("/b", "topic")] {
            session.fact("cwd", Some(cwd), &mut events);
            session.fact("git_branch", Some(branch), &mut events);
        }
        session.fact("version", None, &mut events);
        let told: Vec<_> = events
            .iter()
            .map(|event| match event {
                Event::Meta { value, .. } => value.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told, ["/a", "main", "topic"]);
    }

    fn relative(cwd: &str, path: &str) -> String {
        let mut session = Session::default();
        session.fact("cwd", Some(cwd), &mut Vec::new());
        session.relative(path)
    }

    #[test]
    fn only_paths_inside_the_working_directory_become_relative() {
        assert_eq!(relative("/srv/p", "/srv/p/src/a.rs"), "src/a.rs");
        assert_eq!(relative("/srv/p/", "/srv/p/a"), "a");
        assert_eq!(relative("C:\\p", "C:\\p\\src\\a.rs"), "src/a.rs");
        assert_eq!(relative("C:\\p", "D:\\p\\src\\a.rs"), "D:\\p\\src\\a.rs");
        assert_eq!(relative("/srv/p", "../x"), "/srv/x");
        for outside in ["/srv/pq/a", "/srv/p", "~/x"] {
            assert_eq!(relative("/srv/p", outside), outside);
        }
        assert_eq!(Session::default().relative("/x/y"), "/x/y");
        assert_eq!(Session::default().relative("x/y"), "x/y");
    }

    #[test]
    fn a_file_has_one_path_however_it_is_spelled() {
        for spelled in [
            "a/b",
            "./a/b",
            "a//b",
            "a/./b",
            "a/x/../b",
            "/srv/p/a/b",
            "/srv//p/./a/b",
            "/srv/p/x/../a/b",
            "/srv/q/../p/a/b",
            "../p/a/b",
            "file:///srv/p/a/b",
            "file:///srv/p/a%2Fb",
        ] {
            assert_eq!(relative("/srv/p", spelled), "a/b", "{spelled}");
            assert_eq!(relative("/srv/./p//", spelled), "a/b", "{spelled}");
        }
        for spelled in ["c:\\P\\a\\b", "C:/P/a/b", "a\\b", ".\\a\\b", "a/b", "/c/P/a/b"] {
            assert_eq!(relative("C:\\p", spelled), "a/b", "{spelled}");
        }
        assert_eq!(relative("C:\\p", "file:///c:/P/a/b"), "a/b");
        assert_eq!(relative("C:\\p", "/d/x"), "D:\\x");
        assert_eq!(relative("/c/p", "/c/p/a"), "a", "a directory of another system");
        let share = "\\\\host\\share\\p";
        assert_eq!(relative(share, "//host/share/p/a"), "a");
        assert_eq!(relative(share, "\\\\host\\other\\a"), "\\\\host\\other\\a");
        assert_eq!(relative("/srv/p", "a\\b"), "a\\b", "a name as it is");
        assert_eq!(relative("/srv/p", "a%2Fb"), "a%2Fb", "a name as it is");
    }
}
