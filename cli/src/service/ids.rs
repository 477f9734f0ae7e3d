//! Ids in answers: full for programs, short for models, which pay for every digit.

use serde_json::Value;
use turntree::object::{IdPrefix, ObjectId};
use turntree::repo::Repository;

use crate::view::render::ID_DIGITS;

/// The form of ids in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    Whole,
    /// The shortest unique prefix, of at least 12 digits.
    Short,
}

/// Keys of answers whose values are ids. Cursors and plan ids are not: clients only pass them back.
const KEYS: [&str; 14] = [
    "base", "before", "blob", "commit", "from", "head", "id", "last_id", "new", "old", "ours",
    "parents", "root", "theirs",
];

/// Shortens the ids of stored objects in an answer.
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

/// Shortens an id, or a list of ids, under one of the keys.
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

/// The length of the unique prefix of an object's id; `None` for an object outside the store, which
/// only its full id names.
fn digits(text: &str, repo: &Repository) -> Option<usize> {
    let id: ObjectId = text.parse().ok()?;
    let prefixes = (ID_DIGITS..text.len()).map_while(|digits| text.get(..digits)?.parse().ok());
    let found = prefixes.map(|prefix: IdPrefix| repo.store().find(&prefix, 2));
    let (more, found) = found.enumerate().find(|(_, found)| found.len() < 2)?;
    matches!(found.as_slice(), [(only, _)] if *only == id).then_some(ID_DIGITS + more)
}
