//! Short names of sessions for people: the first digits of the id by which a client named a session.
//!
//! A short name finds its session wherever a session is named, and no other one. Sessions that a
//! person named keep their names. Records for programs have whole names.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use turntree::repo::BranchName;
use turntree::store::RefTable;

/// Minimum number of characters of a short name.
const MIN_CHARS: usize = 8;

/// Characters of a UUID.
const UUID_CHARS: usize = 36;

/// The number of names that are shortened by a pass over the refs each. For more names, a sorted
/// table is built once, which costs as much as several passes.
const PASSES: usize = 4;

/// The short names of the sessions in some refs.
#[derive(Debug, Default)]
pub(crate) struct ShortNames {
    refs: Option<Arc<RefTable>>,
    passes: Cell<usize>,
    table: OnceCell<BeginningTable>,
}

impl ShortNames {
    /// The short names of all sessions with a branch.
    pub(crate) fn new(refs: Arc<RefTable>) -> Self {
        Self { refs: Some(refs), ..Self::default() }
    }

    /// Returns the short name of a session: the shortest beginning of the id in its name that no
    /// other session has, or its whole name. Costs a pass over the refs for each of the first names
    /// with an id, and a search in a table for others.
    pub(crate) fn session<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let (Some(id), Some(refs)) = (id_in(name), &self.refs) else { return Cow::Borrowed(name) };
        let Some(beginning) = id.get(..MIN_CHARS) else { return Cow::Borrowed(name) };
        let passes = self.passes.get();
        let shared = if passes < PASSES {
            self.passes.set(passes + 1);
            let others = sessions(refs, beginning).filter(|other| other != name);
            let beginnings = others.map(|other| {
                id_in(&other)
                    .map_or(0, |other| shared_bytes(id, other))
                    .max(shared_bytes(id, &other))
            });
            beginnings.max().unwrap_or_default()
        } else {
            self.table.get_or_init(|| BeginningTable::new(refs)).longest_shared(id, name)
        };
        Cow::Borrowed(id.get(..MIN_CHARS.max(shared + 1)).unwrap_or(name))
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

/// What sessions can be named by: their names, and the ids in them, in order.
#[derive(Debug)]
struct BeginningTable {
    /// Each with the name of its session.
    beginnings: Vec<(String, Arc<str>)>,
}

impl BeginningTable {
    fn new(refs: &RefTable) -> Self {
        let mut beginnings = Vec::new();
        for session in sessions(refs, "") {
            let name: Arc<str> = session.as_str().into();
            beginnings.extend(id_in(&session).map(|id| (id.to_owned(), Arc::clone(&name))));
            beginnings.push((session, name));
        }
        beginnings.sort_unstable();
        Self { beginnings }
    }

    /// Returns the length of the longest beginning of `id` that another session than `name` has.
    fn longest_shared(&self, id: &str, name: &str) -> usize {
        // Those with the most in common are next to it.
        let at = self.beginnings.partition_point(|(beginning, _)| beginning.as_str() < id);
        let is_other = |(_, session): &&(String, Arc<str>)| **session != *name;
        let (before, after) = self.beginnings.split_at(at);
        let nearest = [before.iter().rev().find(is_other), after.iter().find(is_other)];
        let shared = nearest.into_iter().flatten().map(|(other, _)| shared_bytes(id, other));
        shared.max().unwrap_or_default()
    }
}

/// Iterates over the names of the sessions that contain `part`, and maybe some others, each once.
fn sessions(refs: &RefTable, part: &str) -> impl Iterator<Item = String> {
    let mut last = String::new();
    // Most names are passed over without being parsed.
    let names = refs.values.keys().filter(move |full| full.contains(part));
    let branches = names.filter_map(|full| BranchName::from_full(full));
    branches.filter_map(move |branch| {
        // Branches of a session are next to each other.
        let is_new = branch.session() != last;
        branch.session().clone_into(&mut last);
        is_new.then(|| last.clone())
    })
}

/// Returns the length of the common beginning of two texts, in bytes.
fn shared_bytes(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
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
        let values = sessions.iter().map(value).collect();
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
    fn the_table_of_many_sessions_gives_the_names_of_a_pass() {
        // Ids that differ early, late and not at all, some in longer names.
        let digits =
            |number: usize| format!("{:08x}-684f-4284-a204-{:012x}", number / 7, number % 3);
        let named = |number: usize| match number % 4 {
            0 => format!("rollout-{number}-{}", digits(number)),
            1 => digits(number).get(..9).unwrap_or_default().to_owned(),
            _ => digits(number),
        };
        let sessions: Vec<String> = (0..200).map(named).collect();
        let all = names(&sessions.iter().map(String::as_str).collect::<Vec<_>>());
        let shared: Vec<_> = sessions.iter().map(|session| all.session(session)).collect();
        assert_eq!(all.passes.get(), PASSES);
        for (session, short) in sessions.iter().zip(&shared) {
            let alone = ShortNames::new(all.refs.clone().unwrap());
            assert_eq!(alone.session(session), *short);
        }
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
