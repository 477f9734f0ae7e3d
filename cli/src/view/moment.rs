//! Moments as users write them: dates, days by name, and times ago.
//!
//! | text | moment |
//! |---|---|
//! | `2026-11-20T10:00:00Z`, `2026-11-20 10:00`, `2026-11-20` | that one; a date begins at midnight |
//! | `today`, `yesterday`, `monday`, `last monday` | the midnight at which that day began |
//! | `this week`, `this month`, `this year` | the midnight at which it began |
//! | `last week`, `last month`, `last year` | midnight, that long ago |
//! | `yesterday 10:00`, `monday 9:30`, `10:30` | a time of that day, or of today |
//! | `7d`, `2w`, `3.hours.ago`, `a week ago`, `now` | that long before now |
//!
//! Days are those of the zone of this machine.

use jiff::civil::{Date, DateTime, Time as TimeOfDay, Weekday};
use jiff::{Span, Timestamp, ToSpan};
use turntree::object::Time;
use turntree::{Error, Result};

use super::clock::{UNITS, local_zone, now, parse};
use super::units::parse_duration;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The expectation in an error about a text that is no moment.
pub(crate) const EXPECTED: &str =
    "expected a time such as 2026-11-20 10:00, yesterday, monday, 'last week', 7d or 3.hours.ago";

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// Least letters of a shortened name of a weekday.
const WEEKDAY_LETTERS: usize = 3;

/// Parses a moment into microseconds since 1970; `None` for any other text.
pub(crate) fn parse_moment(text: &str, now: Time) -> Option<i64> {
    if let Some(time) = parse(text) {
        return Some(time.micros);
    }
    let text = text.trim().to_ascii_lowercase();
    if text == "now" {
        return Some(now.micros);
    }
    if let Some(rest) = text.strip_suffix("ago") {
        return before(now, ago(rest)?);
    }
    if let Ok(micros) = parse_duration(&text) {
        return now.micros.checked_sub(micros);
    }
    day_and_time(&text, now)
}

/// [`parse_moment`] for an argument.
///
/// # Errors
/// `InvalidInput` for text that is not a moment.
pub(crate) fn moment(text: &str) -> Result<i64> {
    parse_moment(text, now()?).ok_or_else(|| Error::invalid(format!("'{text}': {EXPECTED}")))
}

fn before(now: Time, seconds: i64) -> Option<i64> {
    now.micros.checked_sub(seconds.checked_mul(MICROS_PER_SECOND)?)
}

/// Returns the seconds of a text such as `3.hours.` or `a week `.
fn ago(text: &str) -> Option<i64> {
    if let Ok(micros) = parse_duration(text.trim_matches([' ', '.'])) {
        return Some(micros / MICROS_PER_SECOND);
    }
    let mut words = text.split(['.', ' ']).filter(|word| !word.is_empty());
    let count: i64 = match words.next()? {
        "a" | "an" => 1,
        number => number.parse().ok()?,
    };
    let unit = words.next()?.trim_end_matches('s');
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    if words.next().is_some() {
        return None;
    }
    count.checked_mul(*seconds)
}

/// Parses the name of a day, a time of day, or both.
fn day_and_time(text: &str, now: Time) -> Option<i64> {
    let mut words: Vec<&str> = text.split([' ', '.']).filter(|word| !word.is_empty()).collect();
    let time = match words.last() {
        Some(last) if last.contains(':') => {
            let time = time_of_day(last)?;
            words.pop();
            time
        }
        _ => TimeOfDay::midnight(),
    };
    let now = Timestamp::from_microsecond(now.micros).ok()?.to_zoned(local_zone());
    let day = match words[..] {
        [] if text.contains(':') => now.date(),
        [] => return None,
        ref words => named_day(words, now.date())?,
    };
    let moment = DateTime::from_parts(day, time).to_zoned(local_zone()).ok()?;
    Some(moment.timestamp().as_microsecond())
}

fn time_of_day(text: &str) -> Option<TimeOfDay> {
    let mut parts = text.split(':').map(str::parse::<i8>);
    let (hour, minute) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let second = parts.next().transpose().ok()?.unwrap_or(0);
    if parts.next().is_some() {
        return None;
    }
    TimeOfDay::new(hour, minute, second, 0).ok()
}

fn named_day(words: &[&str], today: Date) -> Option<Date> {
    let back = |span: Span| today.checked_sub(span).ok();
    match words {
        ["today"] => Some(today),
        ["yesterday"] => back(1.day()),
        ["this", "week"] => weekday("monday", today),
        ["this", "month"] => Some(today.first_of_month()),
        ["this", "year"] => Some(today.first_of_year()),
        ["last", "week"] => back(1.week()),
        ["last", "month"] => back(1.month()),
        ["last", "year"] => back(1.year()),
        ["last", name] => weekday(name, today.yesterday().ok()?),
        [name] => weekday(name, today),
        _ => None,
    }
}

/// Returns the newest day of this name that is not after `day`.
fn weekday(name: &str, day: Date) -> Option<Date> {
    let is_named = |full: &str| name.len() >= WEEKDAY_LETTERS && full.starts_with(name);
    let (_, weekday) = WEEKDAYS.iter().find(|(full, _)| is_named(full))?;
    let days = day.weekday().since(*weekday);
    day.checked_sub(i64::from(days).days()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Friday.
    const NOW: &str = "2026-11-20T10:00:00Z";

    #[test]
    fn moments_are_written_in_the_usual_ways() {
        let now = parse(NOW).unwrap();
        let at = |text: &str| parse(text).map(|time| time.micros);
        for (text, expected) in [
            ("2.hours.ago", "2026-11-20T08:00:00Z"),
            ("1 day ago", "2026-11-19T10:00:00Z"),
            ("a week ago", "2026-11-13T10:00:00Z"),
            ("an hour ago", "2026-11-20T09:00:00Z"),
            ("7d", "2026-11-13T10:00:00Z"),
            ("2w", "2026-11-06T10:00:00Z"),
            ("30m ago", "2026-11-20T09:30:00Z"),
            ("2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z"),
            ("now", NOW),
        ] {
            assert_eq!(parse_moment(text, now), at(expected), "{text}");
        }
        // Days are those of the local zone, as dates are.
        for (text, expected) in [
            ("today", "2026-11-20"),
            ("Yesterday", "2026-11-19"),
            ("monday", "2026-11-16"),
            ("fri", "2026-11-20"),
            ("last friday", "2026-11-13"),
            ("last.monday", "2026-11-16"),
            ("last week", "2026-11-13"),
            ("this week", "2026-11-16"),
            ("last month", "2026-10-20"),
            ("this month", "2026-11-01"),
            ("last year", "2025-11-20"),
            ("this year", "2026-01-01"),
            ("yesterday 10:30", "2026-11-19T10:30:00"),
            ("monday 9:05:07", "2026-11-16T09:05:07"),
            ("8:00", "2026-11-20T08:00:00"),
            ("2026-11-01 10:30", "2026-11-01T10:30:00"),
        ] {
            assert_eq!(parse_moment(text, now), at(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_moments() {
        let now = parse(NOW).unwrap();
        for text in [
            "",
            " ",
            "soon",
            "ago",
            "last",
            "last fortnight",
            "x.hours.ago",
            "3.fortnights.ago",
            "3 hours 2 ago",
            "9223372036854775807.years.ago",
            "25:00",
            "10:61",
            "1:2:3:4",
            "yesterday tomorrow",
            "mo",
            "-7d",
        ] {
            assert_eq!(parse_moment(text, now), None, "{text}");
        }
    }
}
