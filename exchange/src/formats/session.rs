//! The memory of a parser: facts told once, and the directory where paths start.

use std::borrow::Cow;
use std::collections::BTreeMap;

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
    /// Tells the fact `key` unless `value` is absent or the same as before. The working directory is
    /// told once: a session that changes it still has the paths of its files in one place.
    pub(super) fn fact(&mut self, key: &'static str, value: Option<&str>, events: &mut Vec<Event>) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        let known = self.facts.get(key).map(String::as_str);
        if known == Some(value) || (known.is_some() && key == "cwd") {
            return;
        }
        self.facts.insert(Cow::Borrowed(key), value.to_owned());
        events.push(Event::Meta { key: key.to_owned(), value: value.to_owned() });
    }

    /// Tells that a fact was told wrongly, and is `value`: nothing, when that is empty.
    pub(super) fn correct(&mut self, key: &'static str, value: &str, events: &mut Vec<Event>) {
        self.facts.insert(Cow::Borrowed(key), value.to_owned());
        events.push(Event::Meta { key: key.to_owned(), value: value.to_owned() });
    }

    /// The last value of the fact `key`.
    pub(super) fn known(&self, key: &str) -> Option<&str> {
        self.facts.get(key).map(String::as_str)
    }

    /// `path` relative to the working directory with `/` between its parts, or absolute when it
    /// does not lie inside.
    pub(super) fn relative(&self, path: &str) -> String {
        let cwd = self.known("cwd").unwrap_or_default().trim_end_matches(['/', '\\']);
        let separator = if cwd.contains('\\') { '\\' } else { '/' };
        let is_absolute = path.starts_with(['/', '\\', '~']) || path.get(1..2) == Some(":");
        let inside = if is_absolute {
            path.strip_prefix(cwd).and_then(|path| path.strip_prefix(separator))
        } else {
            path.strip_prefix("./").or(Some(path))
        };
        let is_plain =
            |inside: &&str| inside.split(separator).all(|part| !matches!(part, "" | "." | ".."));
        match inside.filter(is_plain) {
            Some(inside) if is_absolute && cwd.is_empty() => format!("/{inside}"),
            Some(inside) => inside.replace(separator, "/"),
            None if is_absolute => path.to_owned(),
            None => format!("{cwd}{separator}{path}"),
        }
    }
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

/// The parsed record in `piece`; nothing for other pieces, and a report if it cannot be parsed.
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

    #[test]
    fn only_paths_inside_the_working_directory_become_relative() {
        let relative = |cwd: &str, path: &str| {
            let mut session = Session::default();
            session.fact("cwd", Some(cwd), &mut Vec::new());
            session.relative(path)
        };
        assert_eq!(relative("/srv/p", "/srv/p/src/a.rs"), "src/a.rs");
        assert_eq!(relative("/srv/p/", "/srv/p/a"), "a");
        assert_eq!(relative("C:\\p", "C:\\p\\src\\a.rs"), "src/a.rs");
        assert_eq!(relative("/srv/p", "./a/b"), "a/b");
        assert_eq!(relative("/srv/p", "../x"), "/srv/p/../x");
        for outside in ["/srv/pq/a", "/srv/p", "/srv/p/../x", "/srv/p//x"] {
            assert_eq!(relative("/srv/p", outside), outside);
        }
        assert_eq!(Session::default().relative("/x/y"), "/x/y");
    }
}
