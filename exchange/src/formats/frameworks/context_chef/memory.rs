//! Core memory: entries by key in an order of their own, which expire by turns and by time.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use turntree::context::sections::{MEMORY, STATE};
use turntree::context::{Context, MAIN_AGENT, agent_section};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectSource};
use turntree::tree::MAX_KEY_BYTES;

use super::super::json_parts::{Fields, JsonPart, Kind as Json, expect, expect_or_null, missing};
use super::{MEMORY_ORDER, MEMORY_TURN};
use crate::text::json::Text;

/// An entry of core memory.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryEntry {
    /// Its key.
    pub key: String,
    /// Its value; half of a character is shown as U+FFFD.
    pub value: String,
    /// From when on it has expired, in milliseconds since the Unix epoch.
    pub expires_at: Option<f64>,
    /// From which turn on it has expired.
    pub expires_at_turn: Option<f64>,
    /// True if it was stored as an entry, and not as a plain text.
    pub is_entry: bool,
    /// The stored form: the JSON of the entry, or the text.
    pub json: Bytes,
}

/// Why an entry has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// Its time has passed.
    Time,
    /// Its turn has passed.
    Turn,
}

/// The fields of an entry that are read. Entries in folders are unchecked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEntry<'a> {
    value: String,
    #[serde(borrow)]
    expires_at: Option<&'a RawValue>,
    #[serde(borrow)]
    expires_at_turn: Option<&'a RawValue>,
}

/// Checks an entry. Where memory was a map of texts, a plain text is valid, too.
pub(super) fn check(key: &str, part: &JsonPart<'_>, is_map: bool, place: &str) -> Result<()> {
    if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
        let found = key.len();
        return Err(Error::invalid(format!(
            "{place}: a key has {found} bytes: expected 1 to {MAX_KEY_BYTES}"
        )));
    }
    let shown: String = key.chars().filter(|c| !c.is_control()).take(60).collect();
    let place = format!("{place}['{shown}']");
    if is_map && part.json.get().starts_with('"') {
        return Ok(());
    }
    expect(part, Json::Object, &place)?;
    let Fields(fields) = serde_json::from_str(part.json.get()).map_err(|source| {
        Error::invalid(format!("{place}: expected an entry")).with_source(source)
    })?;
    let mut has_value = false;
    for (name, json) in &fields {
        let part = JsonPart { json, range: part.range.clone() };
        let place = format!("{place}.{name}");
        match name.as_str() {
            "value" => {
                has_value = true;
                expect(&part, Json::Text, &place)?;
            }
            "description" => expect_or_null(&part, Json::Text, &place)?,
            "createdAt" | "updatedAt" | "importance" | "expiresAt" | "expiresAtTurn" => {
                expect_or_null(&part, Json::Number, &place)?;
            }
            "updateCount" => expect(&part, Json::Count, &place)?,
            _ => {}
        }
    }
    if has_value { Ok(()) } else { Err(missing(&format!("{place}.value"), "text")) }
}

/// Returns the JSON of an entry, for a plain text stored at `millis`.
pub(super) fn entry_of(value: &str, millis: &str) -> String {
    format!(r#"{{"value":{value},"createdAt":{millis},"updatedAt":{millis},"updateCount":1}}"#)
}

/// Returns the core memory of a context, in its order; `None` when it has none.
///
/// # Errors
/// `InvalidInput` for an invalid entry, and errors of reading.
pub fn memory(source: &dyn ObjectSource, context: &Context) -> Result<Option<Vec<MemoryEntry>>> {
    if context.section(source, MEMORY)?.is_none() {
        return Ok(None);
    }
    let map = context.map(source, MEMORY)?;
    let mut entries = Vec::new();
    for entry in map.iter(source) {
        let (key, item) = entry?;
        let json = source.read_as(Kind::Blob, &item.link.id)?;
        let key = String::from_utf8_lossy(&key).into_owned();
        entries.push(read(key, json));
    }
    let order: Vec<String> = state(source, context, MEMORY_ORDER)?.unwrap_or_default();
    let place: std::collections::HashMap<&str, usize> =
        order.iter().enumerate().map(|(at, key)| (key.as_str(), at)).collect();
    entries.sort_by_key(|entry| place.get(entry.key.as_str()).copied().unwrap_or(usize::MAX));
    Ok(Some(entries))
}

/// Entries that the next compile would sweep at the moment `now`, in milliseconds since the Unix
/// epoch, in their order, with why.
///
/// # Errors
/// As [`memory`].
pub fn expired(
    source: &dyn ObjectSource,
    context: &Context,
    now: i64,
) -> Result<Vec<(String, Expired)>> {
    let turn = state(source, context, MEMORY_TURN)?.unwrap_or(0.0);
    let entries = memory(source, context)?.unwrap_or_default();
    let why = |entry: &MemoryEntry| why_expired(entry, now, turn);
    Ok(entries.iter().filter_map(|entry| Some((entry.key.clone(), why(entry)?))).collect())
}

/// Why an entry has expired at this moment and turn, if it has.
pub(super) fn why_expired(entry: &MemoryEntry, now: i64, turn: f64) -> Option<Expired> {
    // Moments in milliseconds are exact in both.
    #[expect(clippy::cast_precision_loss, reason = "moments have fewer than 53 bits")]
    let now = now as f64;
    if entry.expires_at.is_some_and(|at| now >= at) {
        return Some(Expired::Time);
    }
    entry.expires_at_turn.is_some_and(|at| turn >= at).then_some(Expired::Turn)
}

/// The turn counter of core memory.
pub(super) fn turn(source: &dyn ObjectSource, context: &Context) -> Result<f64> {
    Ok(state(source, context, MEMORY_TURN)?.unwrap_or(0.0))
}

/// Reads a stored entry; anything but the JSON of an entry is a text.
fn read(key: String, json: Bytes) -> MemoryEntry {
    let text = Text::new(&json);
    let stored: Option<StoredEntry<'_>> = text.as_ref().and_then(|text| text.parse().ok());
    let number = |json: Option<&RawValue>| json?.get().parse::<f64>().ok();
    let (value, expires_at, expires_at_turn, is_entry) = match stored {
        Some(StoredEntry { value, expires_at, expires_at_turn }) => {
            (value, number(expires_at), number(expires_at_turn), true)
        }
        None => (String::from_utf8_lossy(&json).into_owned(), None, None, false),
    };
    MemoryEntry { key, value, expires_at, expires_at_turn, is_entry, json }
}

/// Returns a value of the agent's state; `None` if it is missing or of another type.
pub(super) fn state<T: serde::de::DeserializeOwned>(
    source: &dyn ObjectSource,
    context: &Context,
    key: &str,
) -> Result<Option<T>> {
    let map = context.map(source, &agent_section(MAIN_AGENT, STATE)?)?;
    let Some(item) = map.get(source, key.as_bytes())? else { return Ok(None) };
    let json = source.read_as(Kind::Blob, &item.link.id)?;
    Ok(Text::new(&json).and_then(|text| text.parse().ok()))
}
