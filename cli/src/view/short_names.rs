//! Short names of sessions for people: the first digits of the id by which a client named a session.
//!
//! A short name finds its session wherever a session is named, and no other one. Sessions that a
//! person named keep their names. Records for programs have whole names.

use std::borrow::Cow;
use std::sync::Arc;

use turntree::repo::BranchName;
use turntree::store::RefTable;

/// Minimum number of characters of a short name.
const MIN_CHARS: usize = 8;

/// Characters of a UUID.
const UUID_CHARS: usize = 36;

/// The short names of the sessions in some refs.
#[derive(Debug, Default)]
pub(crate) struct ShortNames(Option<Arc<RefTable>>);

impl ShortNames {
    /// The short names of all sessions with a branch.
    pub(crate) fn new(refs: Arc<RefTable>) -> Self {
        Self(Some(refs))
    }

    /// Returns the short name of a session: the shortest beginning of the id in its name that no
    /// other session has, or its whole name. Costs a pass over the refs for a name with an id.
    pub(crate) fn session<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let (Some(id), Some(refs)) = (id_in(name), &self.0) else { return Cow::Borrowed(name) };
        let Some(beginning) = id.get(..MIN_CHARS) else { return Cow::Borrowed(name) };
        let mut near: Vec<String> = Vec::new();
        for branch in refs.values.keys().filter_map(|full| BranchName::from_full(full)) {
            let other = branch.session();
            let id = id_in(other).filter(|id| id.starts_with(beginning));
            let is_near = other != name && (other.starts_with(beginning) || id.is_some());
            if is_near && near.last().is_none_or(|last| last != other) {
                near.push(other.to_owned());
            }
        }
        let is_free = |short: &&str| {
            let has = |other: &String| {
                other.starts_with(short) || id_in(other).is_some_and(|id| id.starts_with(short))
            };
            !near.iter().any(has)
        };
        let mut beginnings = (MIN_CHARS..=id.len()).filter_map(|end| id.get(..end));
        Cow::Borrowed(beginnings.find(is_free).unwrap_or(name))
    }

    /// Returns the name of a branch with the short name of its session.
    pub(crate) fn branch(&self, branch: &BranchName) -> String {
        format!("{}/{}", self.session(branch.session()), branch.branch())
    }

    /// Returns a text with the short names of the sessions that are words of it, or the beginnings
    /// of words that name branches.
    pub(crate) fn in_text(&self, text: &str) -> String {
        let short = |word: &str| {
            let (session, rest) = word.split_at(word.find('/').unwrap_or(word.len()));
            format!("{}{rest}", self.session(session))
        };
        let words = text.split_inclusive([' ', ',']).map(|word| {
            let bare = word.trim_end_matches([' ', ',']);
            let end = word.get(bare.len()..).unwrap_or_default();
            short(bare) + end
        });
        words.collect()
    }
}

/// Returns the UUID that a name is, or ends with.
fn id_in(name: &str) -> Option<&str> {
    let id = name.get(name.len().checked_sub(UUID_CHARS)?..)?;
    let is_uuid = id.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_uuid.then_some(id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use turntree::object::{Kind, ObjectId, RefValue};

    use super::*;

    const A: &str = "4b693f10-684f-4284-a204-ee848fb3da72";
    const B: &str = "4b693f10-684f-4999-a204-ee848fb3da72";
    const C: &str = "9e2434f3-c800-4ed9-b78e-e494ef59bd78";

    fn names(sessions: &[&str]) -> ShortNames {
        let value = |session: &&str| {
            let branch = BranchName::main(session).unwrap();
            (branch.full(), RefValue::Object(ObjectId::of(Kind::Blob, b"x")))
        };
        let values: BTreeMap<_, _> = sessions.iter().map(value).collect();
        ShortNames::new(Arc::new(RefTable { values, ..RefTable::default() }))
    }

    #[test]
    fn ids_are_shortened_as_far_as_they_differ() {
        let rollout = format!("rollout-2026-11-20T08-18-31-{C}");
        let known = names(&[A, B, &rollout, "nightly"]);
        assert_eq!(known.session(A), "4b693f10-684f-42");
        assert_eq!(known.session(B), "4b693f10-684f-49");
        assert_eq!(known.session(&rollout), "9e2434f3");
        assert_eq!(known.session("nightly"), "nightly");
        assert_eq!(known.branch(&BranchName::new(&rollout, "x").unwrap()), "9e2434f3/x");
        assert_eq!(names(&[A, "4b693f10"]).session(A), "4b693f10-");
        assert_eq!(names(&[&rollout, C]).session(&rollout), rollout);
        assert_eq!(ShortNames::default().session(A), A);
    }

    #[test]
    fn names_in_a_text_are_shortened() {
        let known = names(&[C]);
        let text = format!("delete {C}/x, {C}/y with {C}, nightly/main");
        let expected = "delete 9e2434f3/x, 9e2434f3/y with 9e2434f3, nightly/main";
        assert_eq!(known.in_text(&text), expected);
        assert_eq!(known.in_text(""), "");
    }
}
