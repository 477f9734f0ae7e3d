//! The messages of a context snapshot in their order, each once.
//!
//! A file holds user messages and the others apart. Restoring joins them by time; of messages with
//! the same time, the user's come first. Files of v0.1.1 hold user messages in both arrays, and a
//! file that was saved from messages alone holds every message in both, so messages are identified
//! by id.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use turntree::context::Role;
use turntree::error::Result;

use super::super::json_parts::{
    Checker, JsonPart, JsonParts, Kind, expect, expect_or_null, take, text,
};
use crate::text::json;

/// A message and who speaks.
#[derive(Debug)]
pub(super) struct OllmMessage<'a> {
    pub(super) role: Role,
    pub(super) part: JsonPart<'a>,
    /// The JSON that replaces `part`, when two copies together have more fields than either.
    pub(super) joined: Option<Bytes>,
}

/// A message in one of the two arrays.
struct Copy<'a> {
    id: Option<String>,
    role: Role,
    /// The time of the message, if recorded.
    moment: Option<i64>,
    /// The time that the message is sorted by: its recorded one, or that of the message before it.
    micros: i64,
    part: JsonPart<'a>,
    fields: JsonParts<'a>,
    joined: Option<Bytes>,
}

/// Joins the user messages and the others of a document.
///
/// # Errors
/// `InvalidInput`, naming the place of an invalid value.
pub(super) fn joined<'a>(
    checker: &mut Checker<'a>,
    users: Option<JsonPart<'a>>,
    (place, others): (&str, JsonPart<'a>),
) -> Result<Vec<OllmMessage<'a>>> {
    let users = match users {
        Some(users) => copies(checker, "userMessages", &users)?,
        None => Vec::new(),
    };
    let others = copies(checker, place, &others)?;
    let mut all = without_pairs(checker, users, others)?;
    all.sort_by_key(|message| message.micros);
    let message = |Copy { role, part, joined, .. }: Copy<'a>| OllmMessage { role, part, joined };
    Ok(all.into_iter().map(message).collect())
}

/// The users' messages, then the others that are not among them.
fn without_pairs<'a>(
    checker: &mut Checker<'a>,
    mut users: Vec<Copy<'a>>,
    others: Vec<Copy<'a>>,
) -> Result<Vec<Copy<'a>>> {
    let places: HashMap<String, usize> =
        (0..).zip(&users).filter_map(|(at, user)| Some((user.id.clone()?, at))).collect();
    let mut rest = Vec::with_capacity(others.len());
    let mut replaced = HashSet::new();
    for other in others {
        let place = other.id.as_ref().and_then(|id| places.get(id)).copied();
        let Some((at, user)) = place.and_then(|at| Some((at, users.get_mut(at)?))) else {
            rest.push(other);
            continue;
        };
        if other.role == Role::User {
            join(checker, user, &other);
        } else {
            // Saving from messages alone calls everybody a user.
            replaced.insert(at);
            rest.push(other);
        }
    }
    // A copy may have added the time of a message.
    stand(&mut users);
    let mut at = 0;
    users.retain(|_| {
        at += 1;
        !replaced.contains(&(at - 1))
    });
    users.append(&mut rest);
    Ok(users)
}

/// Adds to a message the additional fields of its other copy.
fn join<'a>(checker: &mut Checker<'a>, user: &mut Copy<'a>, other: &Copy<'a>) {
    let value = |fields: &JsonParts<'a>, name: &str| {
        fields.iter().rfind(|(field, _)| field == name).map(|(_, part)| part.json.get().to_owned())
    };
    if value(&user.fields, "content") != value(&other.fields, "content") {
        checker.note(&other.part, "a message differs in userMessages, which is used");
    }
    user.role = Role::User;
    user.moment = user.moment.or(other.moment);
    let more: Vec<(String, String)> = other
        .fields
        .iter()
        .filter(|(name, _)| value(&user.fields, name).is_none())
        .map(|(name, part)| (name.clone(), checker.raw(part)))
        .collect();
    if !more.is_empty() {
        let own = user.fields.iter().map(|(name, part)| (name.clone(), checker.raw(part)));
        let fields: Vec<(String, String)> = own.chain(more).collect();
        user.joined = Some(super::stored::object(&fields).into());
    }
}

/// The messages of one array, each id once.
fn copies<'a>(
    checker: &mut Checker<'a>,
    place: &str,
    part: &JsonPart<'a>,
) -> Result<Vec<Copy<'a>>> {
    let mut copies: Vec<Copy<'a>> = Vec::new();
    let mut known = HashSet::new();
    for (index, part) in checker.elements(place, part)?.into_iter().enumerate() {
        let copy = copy(checker, &format!("{place}[{index}]"), part)?;
        match &copy.id {
            Some(id) if !known.insert(id.clone()) => {
                let what =
                    format!("{place}[{index}] has the id of an earlier message, which is used");
                checker.note(&copy.part, what);
            }
            _ => copies.push(copy),
        }
    }
    stand(&mut copies);
    Ok(copies)
}

/// Sets the time that each message is sorted by.
fn stand(copies: &mut [Copy<'_>]) {
    let mut before = i64::MIN;
    for copy in copies {
        copy.micros = copy.moment.unwrap_or(before);
        before = copy.micros;
    }
}

fn copy<'a>(checker: &mut Checker<'a>, place: &str, part: JsonPart<'a>) -> Result<Copy<'a>> {
    let fields = checker.fields(place, &part)?;
    let mut known = fields.clone();
    let at = |name: &str| format!("{place}.{name}");
    let id = take(&mut known, "id").map(|id| text(&id, &at("id"))).transpose()?;
    let role = match take(&mut known, "role") {
        Some(role) => role_of(checker, &text(&role, &at("role"))?, &role, place),
        None => Role::Other,
    };
    for (name, kind) in [
        ("content", Kind::Text),
        ("tokenCount", Kind::Number),
        ("metadata", Kind::Object),
        ("toolCalls", Kind::Array),
    ] {
        if let Some(part) = take(&mut known, name) {
            expect_or_null(&part, kind, &at(name))?;
        }
    }
    let moment = take(&mut known, "timestamp");
    let moment = moment.and_then(|part| serde_json::from_str(part.json.get()).ok());
    let moment = moment.and_then(|value| json::time(&value)).map(|time| time.micros);
    for name in ["id", "role", "content"] {
        if !fields.iter().any(|(field, _)| field == name) {
            checker.note(&part, format!("{place}.{name} is missing"));
        }
    }
    if moment.is_none() {
        let what = format!("{place} has no time: it stays after the previous message");
        checker.note(&part, what);
    }
    Ok(Copy { id, role, moment, micros: i64::MIN, part, fields, joined: None })
}

/// Returns the speaker; notes an unknown name.
fn role_of(checker: &mut Checker<'_>, name: &str, part: &JsonPart<'_>, place: &str) -> Role {
    if matches!(name, "system" | "user" | "assistant" | "tool") {
        return Role::from_name(name);
    }
    let name = json::plain(name).to_owned();
    checker.note(part, format!("{place}.role: '{name}' is not known"));
    Role::Other
}

/// The messages of a mode transition, in the order of the document.
///
/// # Errors
/// As [`joined`].
pub(super) fn recent<'a>(
    checker: &mut Checker<'a>,
    place: &str,
    part: &JsonPart<'a>,
) -> Result<Vec<OllmMessage<'a>>> {
    let mut messages = Vec::new();
    for (index, part) in checker.elements(place, part)?.into_iter().enumerate() {
        let place = format!("{place}[{index}]");
        let mut fields = checker.fields(&place, &part)?;
        let mut needed = |name: &str| {
            let (found, place) = (take(&mut fields, name), format!("{place}.{name}"));
            let found = found.ok_or_else(|| super::super::json_parts::missing(&place, "text"))?;
            expect(&found, Kind::Text, &place)?;
            Ok::<_, turntree::error::Error>((found, place))
        };
        let (role, at) = needed("role")?;
        needed("content")?;
        let role = role_of(checker, &text(&role, &at)?, &role, &place);
        messages.push(OllmMessage { role, part, joined: None });
    }
    Ok(messages)
}
