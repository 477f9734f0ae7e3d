//! Lists of messages in a log of Gemini CLI, and the keys of their messages.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::gemini_view::{answered_by, is_sent};
use crate::model::event::Content;
use crate::text::json;
use crate::text::json::{Text, text_at};
use crate::text::piece::Piece;

/// The suffix of the key of results.
pub(super) const RESULTS: &str = " results";

/// A message of a list, and its bytes.
pub(super) type ListedMessage = (Value, Content);

/// Returns the messages of a `$set`, or of a document on one line, each with its own bytes; `None`
/// if it has none.
pub(super) fn listed(piece: &Piece) -> Option<Vec<ListedMessage>> {
    #[derive(Deserialize)]
    struct Update<'a> {
        #[serde(rename = "$set", borrow)]
        set: Option<Set<'a>>,
        #[serde(borrow)]
        messages: Option<Vec<&'a RawValue>>,
    }
    #[derive(Deserialize)]
    struct Set<'a> {
        #[serde(borrow)]
        messages: Option<Vec<&'a RawValue>>,
    }
    let text = Text::new(&piece.bytes)?;
    let update: Update<'_> = text.parse().ok()?;
    let read = |message: &RawValue| {
        let bytes = message.get().as_bytes();
        let value = json::value(bytes).filter(|value| value.is_object() && is_sent(value))?;
        Some((value, Content::Own(Bytes::copy_from_slice(bytes))))
    };
    let messages = update.set.map_or(update.messages, |set| set.messages);
    Some(messages?.into_iter().filter_map(read).collect())
}

/// Returns the key of a message; empty when it has no id.
pub(super) fn key(message: &Value) -> String {
    match (text_at(message, "/id"), answered_by(message)) {
        (None | Some(""), _) => String::new(),
        (Some(id), None) => id.to_owned(),
        (Some(id), Some(_)) => format!("{id}{RESULTS}"),
    }
}

pub(super) fn key_at(messages: &[ListedMessage], at: usize) -> String {
    messages.get(at).map(|(message, _)| key(message)).unwrap_or_default()
}

/// Returns the end of the longest part of `new` that is a part of `old`.
pub(super) fn tail(old: &[String], new: &[String]) -> Range<usize> {
    let Some(last) = new.last().filter(|key| !key.is_empty()) else { return 0..0 };
    let Some(end) = old.iter().rposition(|key| key == last).map(|at| at + 1) else { return 0..0 };
    let same = old.iter().take(end).rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    end.saturating_sub(same)..end
}
