//! Times: the current time, and times formatted for people.

use std::path::Path;

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use turntree::object::Time;
use turntree::workspace::read_regular;
use turntree::{Error, Result};

/// Largest time zone file to read, in bytes.
const MAX_ZONE_BYTES: u64 = 1 << 20;

/// Overrides the clock, for reproducible results.
const NOW: &str = "TURNTREE_NOW";

/// The file with the time zone of the machine.
const LOCAL_ZONE: &str = "/etc/localtime";

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Units of relative times, by length; months and years are the usual approximations.
pub(super) const UNITS: [(&str, i64); 7] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 60 * 60),
    ("day", 24 * 60 * 60),
    ("week", 7 * 24 * 60 * 60),
    ("month", 30 * 24 * 60 * 60),
    ("year", 365 * 24 * 60 * 60),
];

/// The current time: `TURNTREE_NOW` if it is set, otherwise the clock.
///
/// # Errors
/// `InvalidInput` if `TURNTREE_NOW` is not a time.
pub(crate) fn now() -> Result<Time> {
    match std::env::var(NOW) {
        Ok(text) if !text.is_empty() => parse(&text).ok_or_else(|| {
            Error::invalid(format!(
                "{NOW} is '{text}': expected a time such as 2026-11-20T10:00:00Z"
            ))
        }),
        _ => Ok(time_of(&Timestamp::now().to_zoned(local_zone()))),
    }
}

/// The time zone of this machine, read from its file. Finding the zone's name would read the
/// directories of all zones, which takes longer than most commands.
pub(super) fn local_zone() -> TimeZone {
    let is_chosen = std::env::var_os("TZ").is_some_and(|zone| !zone.is_empty());
    let read =
        || TimeZone::tzif("local", &read_regular(Path::new(LOCAL_ZONE), MAX_ZONE_BYTES).ok()?).ok();
    let of_machine = (!is_chosen).then(read).flatten();
    of_machine.unwrap_or_else(TimeZone::system)
}

/// A time in RFC 3339.
pub(crate) fn rfc3339(time: Time) -> String {
    let Ok(timestamp) = Timestamp::from_microsecond(time.micros) else {
        return format!("{} microseconds after 1970", time.micros);
    };
    match Offset::from_seconds(i32::from(time.offset_minutes) * 60) {
        Ok(offset) if time.offset_minutes != 0 => timestamp.display_with_offset(offset).to_string(),
        _ => timestamp.to_string(),
    }
}

/// The date of a time in the zone of this machine; dates that users write are parsed in the same
/// zone.
pub(crate) fn day(time: Time) -> String {
    match Timestamp::from_microsecond(time.micros) {
        Ok(timestamp) => timestamp.to_zoned(local_zone()).date().to_string(),
        Err(_) => rfc3339(time),
    }
}

/// A time in RFC 3339 with milliseconds, in UTC, as agents write it in transcripts.
pub(crate) fn rfc3339_millis(time: Time) -> String {
    match Timestamp::from_microsecond(time.micros) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => "1970-01-01T00:00:00.000Z".to_owned(),
    }
}

/// Formats the time from a moment to `now` in words.
pub(crate) fn relative(time: Time, now: Time) -> String {
    let seconds = now.micros.saturating_sub(time.micros) / MICROS_PER_SECOND;
    match in_words(seconds) {
        _ if seconds < 0 => "in the future".to_owned(),
        None => "now".to_owned(),
        Some(words) => format!("{words} ago"),
    }
}

/// Formats the time from a moment to `now` in words, without "ago", for a column with a heading.
pub(crate) fn age(time: Time, now: Time) -> String {
    let age = relative(time, now);
    age.strip_suffix(" ago").unwrap_or(&age).to_owned()
}

/// Formats the time from `now` to a moment in words.
pub(crate) fn ahead(micros: i64, now: Time) -> String {
    let seconds = micros.saturating_sub(now.micros) / MICROS_PER_SECOND;
    in_words(seconds + rounding(seconds))
        .map_or_else(|| "now".to_owned(), |words| format!("in {words}"))
}

/// Returns half of the unit in which a duration is shown, so that 90 days are still three months a
/// second later.
fn rounding(seconds: i64) -> i64 {
    let unit = UNITS.iter().rev().find(|(_, length)| seconds >= *length);
    unit.map_or(0, |(_, length)| length / 2)
}

/// Formats a duration in the two largest units that fit.
pub(crate) fn length(micros: i64) -> String {
    let seconds = micros / MICROS_PER_SECOND;
    match (seconds / 60, seconds / 3600, seconds / 86400) {
        (0, ..) if micros < MICROS_PER_SECOND => format!("{}ms", micros / 1000),
        (0, ..) => format!("{seconds}s"),
        (minutes, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (minutes, hours, 0) => format!("{hours}h{:02}m", minutes % 60),
        (_, hours, days) => format!("{days}d{:02}h", hours % 24),
    }
}

/// A duration in the largest unit that fits; `None` below a second.
fn in_words(seconds: i64) -> Option<String> {
    let (unit, length) = UNITS.iter().rev().find(|(_, length)| seconds >= *length)?;
    let count = seconds / length;
    let plural = if count == 1 { "" } else { "s" };
    Some(format!("{count} {unit}{plural}"))
}

/// Parses a date with or without a time, in the local zone unless it names an offset.
pub(super) fn parse(text: &str) -> Option<Time> {
    if let Ok(pieces) = jiff::fmt::temporal::Pieces::parse(text)
        && let Some(offset) = pieces.to_numeric_offset()
        && let Ok(timestamp) = text.parse::<Timestamp>()
    {
        return Some(time_of(&timestamp.to_zoned(TimeZone::fixed(offset))));
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(time_of(&timestamp.to_zoned(TimeZone::UTC)));
    }
    let civil = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Date>().map(|date| date.at(0, 0, 0, 0)))
        .ok()?;
    civil.to_zoned(local_zone()).ok().as_ref().map(time_of)
}

fn time_of(zoned: &Zoned) -> Time {
    let offset = zoned.offset().seconds() / 60;
    Time {
        micros: zoned.timestamp().as_microsecond(),
        offset_minutes: i16::try_from(offset).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_text_with_their_offset() {
        for text in
            ["2026-11-20T10:00:00Z", "2026-11-20T10:00:00.123456Z", "2026-11-20T10:00:00+01:00"]
        {
            assert_eq!(rfc3339(parse(text).unwrap()), text);
        }
        let offset = parse("2026-11-20T10:00:00-03:30").unwrap();
        assert_eq!(offset.offset_minutes, -210);
        assert_eq!(offset.micros, parse("2026-11-20T13:30:00Z").unwrap().micros);
    }

    #[test]
    fn what_is_ahead_is_the_same_a_second_later() {
        let now = parse("2026-11-20T10:00:00Z").unwrap();
        let days = |days: i64, less: i64| now.micros + (days * 86_400 - less) * MICROS_PER_SECOND;
        for (time, expected) in [
            (days(90, 0), "in 3 months"),
            (days(90, 1), "in 3 months"),
            (days(1, 1), "in 1 day"),
            (days(0, -1), "in 1 second"),
            (days(0, 5), "now"),
        ] {
            assert_eq!(ahead(time, now), expected);
        }
    }

    #[test]
    fn lengths_have_two_units() {
        for (micros, expected) in [
            (0, "0ms"),
            (999_999, "999ms"),
            (59 * MICROS_PER_SECOND, "59s"),
            (61 * MICROS_PER_SECOND, "1m01s"),
            (3_660 * MICROS_PER_SECOND, "1h01m"),
            (90_000 * MICROS_PER_SECOND, "1d01h"),
        ] {
            assert_eq!(length(micros), expected);
        }
    }

    #[test]
    fn ages_are_told_in_the_largest_unit_that_fits() {
        let at = |seconds: i64| Time { micros: -seconds * MICROS_PER_SECOND, offset_minutes: 0 };
        for (seconds, expected) in [
            (0, "now"),
            (1, "1 second ago"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (7200, "2 hours ago"),
            (86400 * 3, "3 days ago"),
            (86400 * 800, "2 years ago"),
            (-5, "in the future"),
        ] {
            assert_eq!(relative(at(seconds), at(0)), expected);
        }
        assert_eq!(ahead(30 * 86400 * MICROS_PER_SECOND, at(0)), "in 1 month");
        assert_eq!(ahead(3 * 86400 * MICROS_PER_SECOND, at(0)), "in 3 days");
        assert_eq!(ahead(0, at(0)), "now");
    }
}
