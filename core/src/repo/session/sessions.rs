//! Sessions: their newest branches, their directories, and the titles and labels that users give
//! them.
//!
//! ```text
//! refs/sessions/<session>
//! {"version":1,"title":"fix the parser","labels":["draft"]}
//! ```
//!
//! The name of a session is in its commits and does not change; the title is for users. It is
//! stored in an object with a ref, so it is part of the operation log: the log records its author
//! and time, and it can be undone. Specified in `format-spec/store.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::context::sections::META;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Time};
use crate::repo::{BranchName, Repository, Transaction, WORKSPACE, decode_versioned};
use crate::store::Expected;

/// The longest title, in bytes.
pub(crate) const MAX_TITLE_BYTES: usize = 1000;

/// The longest label, in bytes.
pub(crate) const MAX_LABEL_BYTES: usize = 100;

/// The maximum number of labels of a session.
pub(crate) const MAX_LABELS: usize = 100;

/// The longest fact that is read, in bytes.
const MAX_FACT_BYTES: usize = 16 << 10;

/// The maximum number of commits searched for a workspace: not every snapshot has one.
const MAX_COMMITS: usize = 16;

/// The prefix of refs with titles and labels; the name of a session follows.
pub const SESSION_REFS: &str = "refs/sessions/";
const VERSION: u64 = 1;
const WHAT: &str = "title and labels of a session";

/// The title and the labels that users gave a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionLabels {
    /// The title, which replaces the client's title.
    pub title: Option<String>,
    /// The labels.
    pub labels: BTreeSet<String>,
}

/// The branch of a session that has the newest snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestBranch {
    /// The name of the branch.
    pub branch: BranchName,
    /// The newest commit of the branch.
    pub tip: ObjectId,
    /// The time of that commit.
    pub time: Time,
}

impl NewestBranch {
    /// Returns true if it represents its session better than `known`: only `known` repeats the name
    /// of the session, or both or neither do and it is newer.
    #[must_use]
    pub fn comes_before(&self, known: &Self) -> bool {
        let rank = |it: &Self| (!it.branch.has_repeated_session(), it.time.micros);
        rank(self) > rank(known)
    }
}

/// The blob of the ref, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLabels {
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
}

impl SessionLabels {
    /// Returns the bytes to store.
    ///
    /// # Errors
    /// `InvalidInput`, naming the invalid title or label.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check().map_err(Error::invalid)?;
        let Self { title, labels } = self.clone();
        serde_json::to_vec(&StoredLabels { version: VERSION, title, labels })
            .map_err(|source| Error::invalid(WHAT).with_source(source))
    }

    /// Decodes a title and labels.
    ///
    /// # Errors
    /// `Unsupported` for a newer version, `Corrupt` for another format. The limits apply only to
    /// writing: a redaction may have made a text longer.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let StoredLabels { title, labels, .. } = decode_versioned(WHAT, VERSION, bytes)?;
        Ok(Self { title, labels })
    }

    fn check(&self) -> Result<(), String> {
        if let Some(title) = &self.title {
            if title.trim().is_empty() || title.len() > MAX_TITLE_BYTES {
                return Err(format!("a title has 1 to {MAX_TITLE_BYTES} bytes"));
            }
            if title.contains(char::is_control) {
                return Err("a title is one line, without control characters".to_owned());
            }
        }
        if self.labels.len() > MAX_LABELS {
            return Err(format!("a session has at most {MAX_LABELS} labels"));
        }
        let forbidden = |c: char| c.is_control() || c.is_whitespace() || c == ',';
        for label in &self.labels {
            let is_long = label.is_empty() || label.len() > MAX_LABEL_BYTES;
            if is_long || label.starts_with('-') || label.contains(forbidden) {
                return Err(format!(
                    "'{label}' cannot be a label: expected 1 to {MAX_LABEL_BYTES} bytes without \
                     white space and commas, and no '-' at the beginning"
                ));
            }
        }
        Ok(())
    }
}

impl Repository {
    /// Returns the title and the labels that users gave a session. Reads one object, or none if
    /// there are none.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt` or `Unsupported`, naming the ref.
    pub fn session_labels(&self, session: &str) -> Result<SessionLabels> {
        let name = ref_name(session);
        match self.refs().value(&name) {
            None => Ok(SessionLabels::default()),
            Some(RefValue::Symbolic(_)) => Err(Error::corrupt(name, "a blob", "a symbolic ref")),
            Some(RefValue::Object(id)) => {
                let bytes = self.store().read_as(Kind::Blob, id);
                let read = bytes.and_then(|bytes| SessionLabels::decode(&bytes));
                read.map_err(|error| error.at(name))
            }
        }
    }

    /// Returns the directories of the line that ends at the commit `tip`: the one that its records
    /// name (`cwd` in the section `meta`), and the workspace of its newest snapshot with one. Reads
    /// a few objects.
    ///
    /// # Errors
    /// `Corrupt` and `Io` when an object cannot be read; expired content is skipped.
    pub fn directories_of(&self, tip: &ObjectId) -> Result<Vec<String>> {
        let mut directories: Vec<String> = Vec::new();
        directories.extend(self.fact_of(tip, "cwd")?);
        if let Some(commit) = self.newest_with_workspace(tip)? {
            let workspace = commit.metadata.get(WORKSPACE).cloned().unwrap_or_default();
            if !directories.contains(&workspace) {
                directories.push(workspace);
            }
        }
        Ok(directories)
    }

    /// Returns a fact of the section `meta` of a commit; `None` for an empty or a very long one.
    ///
    /// # Errors
    /// Errors of [`Repository::directories_of`].
    pub fn fact_of(&self, commit: &ObjectId, key: &str) -> Result<Option<String>> {
        let context = match self.context(commit) {
            Err(error) if error.kind() == ErrorKind::Expired => return Ok(None),
            context => context?,
        };
        let store = self.store();
        let facts = context.map(store, META)?;
        let Some(item) = facts.get(store, key.as_bytes())? else { return Ok(None) };
        let bytes = store.read_as(Kind::Blob, &item.link.id)?;
        let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() <= MAX_FACT_BYTES);
        Ok(text.filter(|text| !text.is_empty()).map(str::to_owned))
    }

    /// Returns the newest commit of a line that names its workspace, among its newest commits.
    ///
    /// # Errors
    /// Errors of [`Repository::directories_of`].
    pub fn newest_with_workspace(&self, tip: &ObjectId) -> Result<Option<Commit>> {
        let (mut at, grafts) = (Some(*tip), self.grafts()?);
        for _ in 0..MAX_COMMITS {
            let Some(id) = at.filter(|id| !grafts.is_forgotten(id)) else { break };
            let commit = self.commit(&id)?;
            if commit.metadata.get(WORKSPACE).is_some_and(|text| !text.is_empty()) {
                return Ok(Some(commit));
            }
            at = commit.parents.first().copied();
        }
        Ok(None)
    }

    /// Returns the branch with the newest snapshot of each session, by name. Reads the newest commit
    /// of every branch.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming an unreadable commit.
    pub fn newest_branches(&self) -> Result<BTreeMap<String, NewestBranch>> {
        let mut newest: BTreeMap<String, NewestBranch> = BTreeMap::new();
        for found in self.timed(self.branches())? {
            let session = found.branch.session().to_owned();
            if newest.get(&session).is_none_or(|known| found.comes_before(known)) {
                newest.insert(session, found);
            }
        }
        Ok(newest)
    }

    /// Returns the branch that represents a session: its main branch, else the one with the newest
    /// snapshot. `None` without branches.
    ///
    /// # Errors
    /// Errors of [`Repository::newest_branches`]; `InvalidInput` for an invalid name of a session.
    pub fn branch_of_session(&self, session: &str) -> Result<Option<BranchName>> {
        let main = BranchName::main(session)?;
        if self.tip(&main).is_some() {
            return Ok(Some(main));
        }
        let mut newest: Option<NewestBranch> = None;
        for found in self.timed(self.branches_of(session))? {
            if newest.as_ref().is_none_or(|known| found.comes_before(known)) {
                newest = Some(found);
            }
        }
        Ok(newest.map(|newest| newest.branch))
    }

    /// Returns branches with the times of their newest commits.
    fn timed(
        &self,
        branches: Vec<(BranchName, ObjectId)>,
    ) -> Result<impl Iterator<Item = NewestBranch>> {
        let read = self.with_commits(branches)?.into_iter();
        Ok(read.map(|(branch, tip, commit)| NewestBranch { branch, tip, time: commit.time }))
    }
}

impl Transaction<'_> {
    /// Sets the title and the labels of a session, replacing the old ones. The session need not
    /// exist yet.
    ///
    /// # Errors
    /// `InvalidInput` for a title, a label or a name that is not allowed.
    pub fn set_session_labels(&mut self, session: &str, labels: &SessionLabels) -> Result<()> {
        let name = ref_name(BranchName::main(session)?.session());
        let expected = self.initial_value(&name).cloned().map_or(Expected::Absent, Expected::Value);
        let new = match *labels == SessionLabels::default() {
            true => None,
            false => Some(RefValue::Object(self.write(Kind::Blob, labels.encode()?.into())?)),
        };
        self.set_ref(&name, expected, new);
        Ok(())
    }
}

fn ref_name(session: &str) -> String {
    format!("{SESSION_REFS}{session}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(title: Option<&str>, labels: &[&str]) -> SessionLabels {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        SessionLabels { title: title.map(str::to_owned), labels }
    }

    #[test]
    fn what_people_say_is_stored_in_one_way() {
        let stored = labels(Some("fix the parser"), &["draft", "a"]).encode().unwrap();
        let text = r#"{"version":1,"title":"fix the parser","labels":["a","draft"]}"#;
        assert_eq!(std::str::from_utf8(&stored).unwrap(), text);
        assert_eq!(
            SessionLabels::decode(&stored).unwrap(),
            labels(Some("fix the parser"), &["a", "draft"])
        );
        assert_eq!(SessionLabels::decode(br#"{"version":1}"#).unwrap(), SessionLabels::default());
        for bytes in [&b""[..], b"[]", br#"{"version":1,"x":1}"#, br#"{"version":2}"#, b"{"] {
            assert!(SessionLabels::decode(bytes).is_err());
        }
    }

    #[test]
    fn titles_are_one_line_and_labels_one_word() {
        let long = "x".repeat(MAX_TITLE_BYTES + 1);
        for title in ["", "  ", "a\nb", "\u{1b}[2J", &long] {
            assert!(labels(Some(title), &[]).encode().is_err(), "{title:?}");
        }
        for label in ["", "a b", "a,b", "-a", "a\u{7}"] {
            assert!(labels(None, &[label]).encode().is_err(), "{label:?}");
        }
        assert!(labels(Some("修复: 解析器~1"), &["größe/2"]).encode().is_ok());
    }
}
