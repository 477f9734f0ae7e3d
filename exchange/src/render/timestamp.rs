//! When a message was said, where its record says so.

use turntree::object::Time;

use crate::text::json;

/// The fields in which records keep their timestamps: most formats, Cline and its SDK, chats,
/// opencode.
const PLACES: [&str; 5] =
    ["/timestamp", "/ts", "/created_at", "/message/timestamp", "/info/time/created"];

/// The moment that a record names.
pub(super) fn moment(record: &[u8]) -> Option<Time> {
    let record = json::value(record)?;
    PLACES.iter().find_map(|place| json::time(record.pointer(place)?))
}
