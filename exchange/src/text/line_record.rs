//! Reads the record at the start of a line, or finds the first damage in it.

use serde::de::IgnoredAny;

use super::json;

/// Returns the number of JSON whitespace bytes at the start of `bytes`.
pub(super) fn leading_space(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_space(byte)).count()
}

pub(super) fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The first damage in a line.
#[derive(Debug)]
pub(super) struct Damage {
    /// The offset of the error.
    pub(super) at: usize,
    /// The offset where the parser stopped. An object that starts before it is not a separate
    /// record, unless the record was torn there.
    pub(super) ends: usize,
    /// The error.
    pub(super) what: String,
}

/// Returns the end of the JSON object at the start of `rest`, or the damage. Reads no further than
/// either, so that a line of many records is not reread for each.
pub(super) fn record_end(rest: &[u8]) -> std::result::Result<usize, Damage> {
    let damage = |at: usize, ends: usize, what: &str| Damage { at, ends, what: what.to_owned() };
    let rest = without_line_end(rest);
    if rest.first() != Some(&b'{') {
        return Err(damage(0, 0, "expected a JSON object"));
    }
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    let (end, error) = match values.next() {
        Some(Ok(_)) => (values.byte_offset(), None),
        Some(Err(error)) => (error.column().saturating_sub(1), Some(error)),
        None => (0, None),
    };
    let is_at_end = error.as_ref().is_some_and(serde_json::Error::is_eof);
    let ends = if is_at_end { rest.len() } else { end };
    let read = rest.get(..ends).unwrap_or_default();
    if let Err(invalid) = std::str::from_utf8(read) {
        return Err(damage(invalid.valid_up_to(), ends, "expected UTF-8"));
    }
    if let Some(error) = error {
        let message = error.to_string();
        return Err(damage(end, ends, message.split(" at line ").next().unwrap_or_default()));
    }
    if json::is_too_deep(read) {
        return Err(damage(0, ends, &format!("nested deeper than {}", json::MAX_DEPTH)));
    }
    Ok(end)
}

/// Returns `line` without its line end.
pub(super) fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
