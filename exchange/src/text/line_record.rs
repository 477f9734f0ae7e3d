//! Reads the record at the beginning of a line, or finds the first damage in it.

use serde::de::IgnoredAny;

use super::json;

/// Bytes of white space, as JSON has it, at the beginning of `bytes`.
pub(super) fn leading_space(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_space(byte)).count()
}

pub(super) fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The first damage in a line.
#[derive(Debug)]
pub(super) struct Damage {
    /// Where it is.
    pub(super) at: usize,
    /// Where reading stopped: nothing that begins before is read for a record of its own, unless it
    /// is what a writer has torn.
    pub(super) ends: usize,
    /// The error.
    pub(super) what: String,
}

/// Returns the end of the JSON object that begins `rest`, or the damage. Looks at nothing behind
/// either of them, so that a line of many records is not read once for each.
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

/// `line` without its line end.
pub(super) fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
