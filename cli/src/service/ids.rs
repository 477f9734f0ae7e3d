//! Ids in answers: whole for programs, short for models, which pay for every digit.

use serde_json::Value;
use turntree::object::{IdPrefix, ObjectId};
use turntree::repo::Repository;

use crate::view::render::ID_DIGITS;

/// The form of ids in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    Whole,
    /// So many digits that each names one object, 12 or more.
    Short,
}

/// Keys of answers whose values are ids. Cursors and plans are none: they are only handed back.
const KEYS: [&str; 13] = [
    "base", "before", "blob", "commit", "from", "head", "id", "last_id", "new", "old", "ours",
    "parents", "theirs",
];

/// Writes the ids of an answer short, those of objects that are in the store.
pub(super) fn shorten(answer: &mut Value, repo: &Repository) {
    match answer {
        Value::Object(members) => {
            for (key, value) in members {
                match KEYS.contains(&&**key) {
                    true => shorten_ids(value, repo),
                    false => shorten(value, repo),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, repo)),
        _ => {}
    }
}

/// The same of what a key says to be an id, or a list of these.
fn shorten_ids(value: &mut Value, repo: &Repository) {
    match value {
        Value::String(id) => {
            if let Some(digits) = digits(id, repo) {
                id.truncate(digits);
            }
        }
        Value::Array(ids) => ids.iter_mut().for_each(|id| shorten_ids(id, repo)),
        other => shorten(other, repo),
    }
}

/// Counts the digits that name this object and no other; none for an object outside the store, which
/// only its whole id names.
fn digits(text: &str, repo: &Repository) -> Option<usize> {
    let id: ObjectId = text.parse().ok()?;
    let prefixes = (ID_DIGITS..text.len()).map_while(|digits| text.get(..digits)?.parse().ok());
    let found = prefixes.map(|prefix: IdPrefix| repo.store().find(&prefix, 2));
    let (more, found) = found.enumerate().find(|(_, found)| found.len() < 2)?;
    matches!(found.as_slice(), [(only, _)] if *only == id).then_some(ID_DIGITS + more)
}
