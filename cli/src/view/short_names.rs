//! Short names of sessions for people: the first digits of the id by which a client named a session.
//!
//! A short name finds its session wherever a session is named, and no other one. Sessions that a
//! person named keep their names. Records for programs have whole names.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use turntree::repo::BranchName;
use turntree::store::RefTable;

/// Minimum number of characters of a short name.
const MIN_CHARS: usize = 8;

/// The prefix of refs of branches.
const BRANCH_REFS: &str = "refs/heads/";

/// Characters of a UUID.
const UUID_CHARS: usize = 36;

/// The short names of the sessions in some refs.
#[derive(Debug, Default)]
pub(crate) struct ShortNames {
    refs: Option<Arc<RefTable>>,
    /// The first bytes of the ids that will be shortened; `None` if all may be.
    wanted: Option<HashSet<u64>>,
    table: OnceCell<BeginningTable>,
}

impl ShortNames {
    /// The short names of all sessions with a branch.
    pub(crate) fn new(refs: Arc<RefTable>) -> Self {
        Self { refs: Some(refs), ..Self::default() }
    }

    /// The short names of some of these sessions: less is sorted than for all.
    pub(crate) fn of<'n>(refs: Arc<RefTable>, names: impl IntoIterator<Item = &'n str>) -> Self {
        let wanted = names.into_iter().filter_map(id_in).map(first_bytes).collect();
        Self { wanted: Some(wanted), ..Self::new(refs) }
    }

    /// Returns the short name of a session: the shortest beginning of the id in its name that no
    /// other session has, or its whole name. The first name with an id costs a pass over the refs,
    /// others a search in a table.
    pub(crate) fn session<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let (Some(id), Some(refs)) = (id_in(name), &self.refs) else { return Cow::Borrowed(name) };
        let table = self.table.get_or_init(|| BeginningTable::new(refs, self.wanted.as_ref()));
        let shared = table.longest_shared(id, name);
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

/// What sessions can be named by, in order: their names, and the ids in them. With only some ids
/// wanted, only what begins like one of them.
#[derive(Debug)]
struct BeginningTable {
    /// The names of all sessions, one after the other.
    names: String,
    beginnings: Vec<Beginning>,
}

/// A text by which a session can be named.
#[derive(Debug, Clone, Copy)]
struct Beginning {
    /// Its first bytes, as a number that orders like them.
    first: u64,
    /// Where the name of the session begins in all names, the text itself, and where both end.
    places: (usize, usize, usize),
}

impl BeginningTable {
    fn new(refs: &RefTable, wanted: Option<&HashSet<u64>>) -> Self {
        let (mut names, mut beginnings) = (String::new(), Vec::new());
        let mut last = "";
        for (full, _) in refs.values.starting_with(BRANCH_REFS) {
            let name = full.get(BRANCH_REFS.len()..).unwrap_or_default();
            let (session, _) = name.split_once('/').unwrap_or((name, ""));
            // Branches of a session are mostly next to each other; a name may be there twice.
            if session == last {
                continue;
            }
            last = session;
            let (start, end) = (names.len(), names.len() + session.len());
            let id = id_in(session).filter(|id| id.len() < session.len());
            for text in [session].into_iter().chain(id) {
                let first = first_bytes(text);
                if wanted.is_none_or(|wanted| wanted.contains(&first)) {
                    beginnings.push(Beginning { first, places: (start, end - text.len(), end) });
                }
            }
            if beginnings.last().is_some_and(|it: &Beginning| it.places.0 == start) {
                names.push_str(session);
            }
        }
        let text = |it: &Beginning| names.get(it.places.1..it.places.2).unwrap_or_default();
        // Few texts begin alike, and numbers are sorted faster.
        beginnings.sort_unstable_by_key(|it| it.first);
        for alike in beginnings.chunk_by_mut(|one, next| one.first == next.first) {
            alike.sort_unstable_by(|one, other| text(one).cmp(text(other)));
        }
        Self { names, beginnings }
    }

    /// Returns the length of the longest beginning of `id` that another session than `name` has.
    fn longest_shared(&self, id: &str, name: &str) -> usize {
        let first = first_bytes(id);
        let at = self
            .beginnings
            .partition_point(|it| it.first.cmp(&first).then_with(|| self.text(it).cmp(id)).is_lt());
        // Those with the most in common are next to it.
        let (before, after) = self.beginnings.split_at(at);
        let is_other = |it: &&Beginning| self.session(it) != name;
        let nearest = [before.iter().rev().find(is_other), after.iter().find(is_other)];
        let shared = nearest.into_iter().flatten().map(|it| shared_bytes(id, self.text(it)));
        shared.max().unwrap_or_default()
    }

    fn text(&self, it: &Beginning) -> &str {
        self.names.get(it.places.1..it.places.2).unwrap_or_default()
    }

    fn session(&self, it: &Beginning) -> &str {
        self.names.get(it.places.0..it.places.2).unwrap_or_default()
    }
}

/// Returns the first bytes of a text as a number that orders like them.
fn first_bytes(text: &str) -> u64 {
    let mut first = [0; MIN_CHARS];
    first.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    u64::from_be_bytes(first)
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
    fn a_short_name_is_the_shortest_beginning_that_no_other_session_has() {
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
        for session in &sessions {
            let Some(id) = id_in(session) else {
                assert_eq!(all.session(session), *session);
                continue;
            };
            let others: Vec<&String> = sessions.iter().filter(|it| it != &session).collect();
            let is_free = |short: &&str| {
                let has = |it: &&&String| {
                    it.starts_with(short) || id_in(it).is_some_and(|id| id.starts_with(short))
                };
                !others.iter().any(|it| has(&it))
            };
            let own = ShortNames::of(all.refs.clone().unwrap(), [session.as_str()]);
            assert_eq!(own.session(session), all.session(session));
            let shortest = (MIN_CHARS..=id.len()).filter_map(|len| id.get(..len)).find(is_free);
            assert_eq!(all.session(session), shortest.unwrap_or(session));
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
