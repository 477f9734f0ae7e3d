//! JSON text of transcripts, read leniently for viewing; the stored bytes are never changed.
//!
//! Writers of transcripts cut strings in the middle of a surrogate pair and write moments in several
//! ways. [`Text`] parses what can be read without ambiguity, and keeps offsets: a range found in it
//! is a range in the bytes it was made from.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use turntree::error::Error;
use turntree::object::Time;

/// Most characters of a line for people.
pub(crate) const SUMMARY_CHARS: usize = 100;

/// Longest name that [`plain`] gives.
const MAX_NAME_BYTES: usize = 40;

/// Deepest nesting of arrays and objects that is read. The parser's own limit is 128.
pub(crate) const MAX_DEPTH: usize = 127;

const ESCAPE_BYTES: usize = 6;
const REPLACEMENT_ESCAPE: &str = "\\ufffd";
const MICROS_PER_SECOND: i64 = 1_000_000;

/// JSON text in which unpaired surrogate escapes are replaced by `\ufffd`, which has their length.
#[derive(Debug)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl<'a> Text<'a> {
    /// The text in `bytes`, or nothing when they are not UTF-8.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().map(|text| Self(mended(text)))
    }

    /// The text itself.
    #[cfg(any(
        feature = "codesign",
        feature = "context-chef",
        feature = "ollm",
        feature = "swarm"
    ))]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as a value, which may borrow from it.
    pub(crate) fn parse<'t, T: Deserialize<'t>>(&'t self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }

    /// Returns the range of `part`, parsed from this text, in it. Nothing when it was parsed from
    /// another.
    pub(crate) fn range_of(&self, part: &RawValue) -> Option<Range<usize>> {
        let start = part.get().as_ptr().addr().checked_sub(self.0.as_ptr().addr())?;
        let end = start.checked_add(part.get().len())?;
        (end <= self.0.len()).then_some(start..end)
    }
}

/// The value in `bytes`, or nothing when they are not JSON.
pub(crate) fn value(bytes: &[u8]) -> Option<Value> {
    Text::new(bytes)?.parse().ok()
}

/// The moment in `value`: ISO 8601 text, or a time since the epoch in milliseconds or another unit.
pub(crate) fn time(value: &Value) -> Option<Time> {
    match value {
        Value::String(text) => iso_time(text),
        Value::Number(number) => {
            let micros = match number.as_i64() {
                Some(whole) => micros_of(whole)?,
                // More digits than these are no part of a moment that clients write as a fraction.
                None => fraction_micros(number.as_f64()?)?,
            };
            Some(Time { micros, offset_minutes: 0 })
        }
        _ => None,
    }
}

/// Numbers between these are seconds: as milliseconds they would be of 1970 to 1973.
const SECONDS: std::ops::Range<i64> = 1_000_000_000..100_000_000_000;

/// From here on numbers are microseconds, and nanoseconds: as milliseconds they would be of the year
/// 5138 and later.
const MICROS_FROM: i64 = 100_000_000_000_000;
const NANOS_FROM: i64 = 100_000_000_000_000_000;

/// Returns a moment in microseconds. Clients count milliseconds since 1970, and some count other units.
fn micros_of(number: i64) -> Option<i64> {
    match number {
        _ if SECONDS.contains(&number) => number.checked_mul(MICROS_PER_SECOND),
        NANOS_FROM.. => Some(number / 1000),
        MICROS_FROM.. => Some(number),
        _ => number.checked_mul(1000),
    }
}

/// The same of a number with a fraction, in seconds or milliseconds.
fn fraction_micros(number: f64) -> Option<i64> {
    let micros = if (1e9..1e11).contains(&number) { number * 1e6 } else { number * 1e3 };
    (micros.abs() < 9e17).then(|| format!("{micros:.0}").parse().ok())?
}

/// The moment that `text` names as `2026-01-31T12:00:00.123Z`. The fraction is optional and is cut
/// at microseconds; the offset is `Z`, `+hh:mm`, `+hhmm`, `+hh` or absent, which means UTC.
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

/// The name of a type or field that is not known, if it is like those that formats have: what else
/// stands there may be anything, and is not for messages.
pub(crate) fn plain(name: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if name.len() <= MAX_NAME_BYTES && name.chars().all(is_plain) { name } else { "..." }
}

/// `error`, which `source` caused. What would quote a value is left out: it may be a secret.
pub(crate) fn refused(error: Error, source: serde_json::Error) -> Error {
    if source.is_data() { error } else { error.with_source(source) }
}

/// Returns true if arrays and objects in `text`, which is JSON, are nested deeper than
/// [`MAX_DEPTH`].
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

/// `text` with every unpaired surrogate escape replaced; borrowed when there is none.
fn mended(text: &str) -> Cow<'_, str> {
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
            // The backslash is ASCII; what it escapes may not be.
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

/// The UTF-16 unit of the `\uXXXX` at `at`, if one stands there.
fn escaped_unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at.checked_add(ESCAPE_BYTES)?)?.strip_prefix("\\u")?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    u16::from_str_radix(digits, 16).ok()
}

/// A number of one to four digits.
fn digits(text: &str) -> Option<i64> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Seconds and microseconds of `05.123`.
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

/// Minutes east of UTC of `Z`, `+02:00`, `-0730` or `+02`.
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

/// Days since 1970-01-01 of a date of the Gregorian calendar, counted in years that begin in March,
/// so that the leap day is the last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year - 719_468
}

/// The text of `value` at `path` (a JSON pointer).
pub(crate) fn text_at<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn moments_keep_their_offset_and_their_microseconds() {
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
    fn a_number_is_a_moment_of_today_in_the_unit_that_makes_it_one() {
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
    fn an_unpaired_surrogate_does_not_make_a_record_unreadable() {
        let bytes = br#"{"a":"x\ud83dy \ud83d\ude00 \\ud800 \uDE00","b":[1]}"#;
        let value = value(bytes).unwrap();
        assert_eq!(value["a"], "x\u{fffd}y \u{1f600} \\ud800 \u{fffd}");
        assert_eq!(value["b"][0], 1);
    }

    #[test]
    fn a_part_of_a_mended_text_has_its_range_in_the_bytes() {
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
    fn brackets_in_strings_are_not_nesting() {
        assert!(!is_too_deep(format!(r#"["\"{}"]"#, "[".repeat(500)).as_bytes()));
        assert!(is_too_deep("[".repeat(500).as_bytes()));
        assert!(value("[".repeat(MAX_DEPTH).as_bytes()).is_none());
        let deepest = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(!is_too_deep(deepest.as_bytes()) && value(deepest.as_bytes()).is_some());
    }

    turntree_properties::properties! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"(\\|u|[dD]|[89a-fA-F0]|"|é|[0-9:TZ+.-]){0,40}"#) {
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
