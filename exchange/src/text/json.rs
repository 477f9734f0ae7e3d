//! Parses JSON of transcripts leniently for viewing. The stored bytes are never changed.
//!
//! Transcript writers cut strings in the middle of surrogate pairs and write times in several ways.
//! [`Text`] parses everything that is unambiguous, and keeps offsets: a range in it is a range in
//! the original bytes.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use turntree::error::Error;
use turntree::object::Time;

/// Maximum number of characters of a summary line.
pub(crate) const SUMMARY_CHARS: usize = 100;

/// Longest name that [`plain`] returns.
const MAX_NAME_BYTES: usize = 40;

/// Maximum nesting depth of arrays and objects. The parser's own limit is 128.
pub(crate) const MAX_DEPTH: usize = 127;

const ESCAPE_BYTES: usize = 6;
const REPLACEMENT_ESCAPE: &str = "\\ufffd";
const MICROS_PER_SECOND: i64 = 1_000_000;

/// JSON text in which unpaired surrogate escapes are replaced by `\ufffd`, which has the same
/// length.
#[derive(Debug)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl<'a> Text<'a> {
    /// Returns the text in `bytes`, or `None` if they are not UTF-8.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().map(|text| Self(repair_surrogates(text)))
    }

    /// Returns the text itself.
    #[cfg(any(
        feature = "codesign",
        feature = "context-chef",
        feature = "ollm",
        feature = "swarm"
    ))]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the text into a value, which may borrow from it.
    pub(crate) fn parse<'t, T: Deserialize<'t>>(&'t self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }

    /// Returns the range of `part` in this text. `None` if `part` was parsed from another text.
    pub(crate) fn range_of(&self, part: &RawValue) -> Option<Range<usize>> {
        let start = part.get().as_ptr().addr().checked_sub(self.0.as_ptr().addr())?;
        let end = start.checked_add(part.get().len())?;
        (end <= self.0.len()).then_some(start..end)
    }
}

/// Parses `bytes`, or returns `None` if they are not JSON.
pub(crate) fn value(bytes: &[u8]) -> Option<Value> {
    Text::new(bytes)?.parse().ok()
}

/// Returns the time in `value`: ISO 8601 text, or a number since the epoch in milliseconds or
/// another unit.
pub(crate) fn time(value: &Value) -> Option<Time> {
    match value {
        Value::String(text) => iso_time(text),
        Value::Number(number) => {
            let micros = match number.as_i64() {
                Some(whole) => micros_of(whole)?,
                // A double has enough digits for the fractions that clients write.
                None => fraction_micros(number.as_f64()?)?,
            };
            Some(Time { micros, offset_minutes: 0 })
        }
        _ => None,
    }
}

/// Numbers in this range are seconds: as milliseconds they would be times from 1970 to 1973.
const SECONDS: std::ops::Range<i64> = 1_000_000_000..100_000_000_000;

/// The smallest numbers that are microseconds, and nanoseconds: as milliseconds they would be times
/// in the year 5138 and later.
const MICROS_FROM: i64 = 100_000_000_000_000;
const NANOS_FROM: i64 = 100_000_000_000_000_000;

/// Converts a time since the epoch to microseconds. Most clients write milliseconds, some other
/// units.
fn micros_of(number: i64) -> Option<i64> {
    match number {
        _ if SECONDS.contains(&number) => number.checked_mul(MICROS_PER_SECOND),
        NANOS_FROM.. => Some(number / 1000),
        MICROS_FROM.. => Some(number),
        _ => number.checked_mul(1000),
    }
}

/// Converts a number with a fraction, in seconds or milliseconds, to microseconds.
fn fraction_micros(number: f64) -> Option<i64> {
    let micros = if (1e9..1e11).contains(&number) { number * 1e6 } else { number * 1e3 };
    (micros.abs() < 9e17).then(|| format!("{micros:.0}").parse().ok())?
}

/// Parses a time such as `2026-01-31T12:00:00.123Z`. The fraction is optional and truncated to
/// microseconds. The offset is `Z`, `+hh:mm`, `+hhmm`, `+hh` or absent, which means UTC.
pub(crate) fn iso_time(text: &str) -> Option<Time> {
    let (date, rest) = text.trim().split_at_checked(10)?;
    let clock = rest.strip_prefix(['T', 't', ' '])?;
    let offset = clock.bytes().position(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'));
    let (clock, offset_minutes) = match offset {
        Some(at) => {
            let (clock, offset) = clock.split_at_checked(at)?;
            (clock, offset_minutes(offset)?)
        }
        None => (clock, 0),
    };
    let mut parts = date.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let (second, micros) = seconds(parts.next().unwrap_or("0"))?;
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour <= 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    let local_minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute;
    let utc_seconds = (local_minutes - i64::from(offset_minutes)) * 60 + second;
    Some(Time { micros: utc_seconds * MICROS_PER_SECOND + micros, offset_minutes })
}

/// Returns an unknown type or field name if it looks like a name of a format. Other text may be
/// anything and must not appear in messages.
pub(crate) fn plain(name: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if name.len() <= MAX_NAME_BYTES && name.chars().all(is_plain) { name } else { "..." }
}

/// Returns `error` with its cause. Drops a cause that would quote a value, which may be a secret.
pub(crate) fn refused(error: Error, source: serde_json::Error) -> Error {
    if source.is_data() { error } else { error.with_source(source) }
}

/// Returns true if arrays and objects in the JSON `text` are nested deeper than [`MAX_DEPTH`].
pub(crate) fn is_too_deep(text: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' => {
                bytes.next();
            }
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// Replaces every unpaired surrogate escape. Borrows the text if there is none.
fn repair_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut mended = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        match (escaped_unit(text, at), escaped_unit(text, at + ESCAPE_BYTES)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => at += 2 * ESCAPE_BYTES,
            (Some(0xD800..=0xDFFF), _) => {
                mended.push_str(text.get(copied..at).unwrap_or_default());
                mended.push_str(REPLACEMENT_ESCAPE);
                at += ESCAPE_BYTES;
                copied = at;
            }
            (Some(_), _) => at += ESCAPE_BYTES,
            // The backslash is ASCII, but the escaped character may not be.
            (None, _) => {
                at +=
                    1 + text.get(at + 1..).and_then(|t| t.chars().next()).map_or(0, char::len_utf8);
            }
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    mended.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(mended)
}

/// Returns the UTF-16 unit of the `\uXXXX` at `at`, if there is one.
fn escaped_unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at.checked_add(ESCAPE_BYTES)?)?.strip_prefix("\\u")?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    u16::from_str_radix(digits, 16).ok()
}

/// Parses a number of one to four digits.
fn digits(text: &str) -> Option<i64> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Parses `05.123` into seconds and microseconds.
fn seconds(text: &str) -> Option<(i64, i64)> {
    let Some((whole, fraction)) = text.split_once(['.', ',']) else {
        return Some((digits(text)?, 0));
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
    Some((digits(whole)?, micros.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))))
}

/// Parses `Z`, `+02:00`, `-0730` or `+02` into minutes east of UTC.
fn offset_minutes(text: &str) -> Option<i16> {
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return (text.len() == 1).then_some(0),
    };
    let number: String = text.chars().skip(1).filter(|c| *c != ':').collect();
    let (hours, minutes) = match number.len() {
        2 => (digits(&number)?, 0),
        4 => (digits(number.get(..2)?)?, digits(number.get(2..)?)?),
        _ => return None,
    };
    i16::try_from(sign * (hours * 60 + minutes)).ok()
}

/// Returns the days since 1970-01-01 of a Gregorian date. Counts years from March, so that the leap
/// day is the last day of a year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year - 719_468
}

/// Returns the text of `value` at `path` (a JSON pointer).
pub(crate) fn text_at<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_keep_their_offset_and_microseconds() {
        let at = |text| iso_time(text).map(|time| (time.micros, time.offset_minutes));
        assert_eq!(at("1970-01-01T00:00:00Z"), Some((0, 0)));
        assert_eq!(at("2000-02-29T12:00:00.5Z"), Some((951_825_600_500_000, 0)));
        assert_eq!(at("2026-01-31T12:00:00.1234567+05:30"), Some((1_769_841_000_123_456, 330)));
        assert_eq!(at("1969-12-31 23:59:59-0100"), Some((3_599_000_000, -60)));
        assert_eq!(at("2024-03-01T00:00"), Some((1_709_251_200_000_000, 0)));
        for bad in ["", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01Tnoon", "REDACTED"] {
            assert_eq!(at(bad), None, "{bad}");
        }
        assert_eq!(time(&Value::from(1500)).map(|time| time.micros), Some(1_500_000));
    }

    #[test]
    fn units_of_numeric_times_follow_from_their_size() {
        let at = |value: Value| time(&value).map(|time| time.micros);
        for value in [
            Value::from(1_790_000_000),
            Value::from(1_790_000_000_000_i64),
            Value::from(1_790_000_000_000_000_i64),
            Value::from(1_790_000_000_000_000_000_i64),
        ] {
            assert_eq!(at(value.clone()), Some(1_790_000_000_000_000), "{value}");
        }
        assert_eq!(at(Value::from(1_790_000_000.25)), Some(1_790_000_000_250_000));
        assert_eq!(at(Value::from(1_790_000_000_000.5)), Some(1_790_000_000_000_500));
        assert_eq!(at(Value::from(1e300)), None);
    }

    #[test]
    fn records_with_unpaired_surrogates_are_readable() {
        let bytes = br#"{"a":"x\ud83dy \ud83d\ude00 \\ud800 \uDE00","b":[1]}"#;
        let value = value(bytes).unwrap();
        assert_eq!(value["a"], "x\u{fffd}y \u{1f600} \\ud800 \u{fffd}");
        assert_eq!(value["b"][0], 1);
    }

    #[test]
    fn parts_of_repaired_text_have_their_byte_range() {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            part: &'a RawValue,
        }
        let bytes = br#"{"x":"\ud800", "part" : {"y":"\udfff"} }"#;
        let text = Text::new(bytes).unwrap();
        let line: Line<'_> = text.parse().unwrap();
        let range = text.range_of(line.part).unwrap();
        assert_eq!(&bytes[range], br#"{"y":"\udfff"}"#);
        assert_eq!(text.range_of(&RawValue::from_string("1".into()).unwrap()), None);
    }

    #[test]
    fn brackets_in_strings_do_not_count_as_nesting() {
        assert!(!is_too_deep(format!(r#"["\"{}"]"#, "[".repeat(500)).as_bytes()));
        assert!(is_too_deep("[".repeat(500).as_bytes()));
        assert!(value("[".repeat(MAX_DEPTH).as_bytes()).is_none());
        let deepest = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(!is_too_deep(deepest.as_bytes()) && value(deepest.as_bytes()).is_some());
    }

    turntree_properties::properties! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in r#"(\\|u|[dD]|[89a-fA-F0]|"|é|[0-9:TZ+.-]){0,40}"#) {
            let quoted = format!("\"{text}\"");
            let strict = serde_json::from_str::<Value>(&quoted).ok();
            if strict.is_some() {
                prop_assert_eq!(value(quoted.as_bytes()), strict);
            } else {
                let _ = value(quoted.as_bytes());
            }
            let _ = iso_time(&text);
        }
    }
}
