//! Reads the time of a message from its record.

use turntree::object::Time;

use crate::text::json;

/// The fields with the time: most formats, Cline and its SDK, chats, opencode.
const TIME_FIELDS: [&str; 5] =
    ["/timestamp", "/ts", "/created_at", "/message/timestamp", "/info/time/created"];

/// Returns the time in a record.
pub(super) fn record_time(record: &[u8]) -> Option<Time> {
    let record = json::value(record)?;
    TIME_FIELDS.iter().find_map(|place| json::time(record.pointer(place)?))
}
