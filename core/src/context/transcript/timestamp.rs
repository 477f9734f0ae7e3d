//! Times in JSON as numbers: `"2026-08-03T10:00:00.125Z"` is a count of milliseconds.
//!
//! A time is read only if writing the number gives its bytes again.

use bytes::Bytes;

/// Most fractional digits of the second.
pub(super) const MAX_DIGITS: usize = 9;

/// Bytes before the fractional digits: the quote, the date, and the time of day.
const HEAD: usize = 20;

const DAY_SECONDS: i64 = 86_400;

/// Reads the time in a JSON string, quotes included. Returns the time since 1970 in units of its
/// last digit, and the number of fractional digits.
pub(super) fn read(text: &Bytes) -> Option<(i64, usize)> {
    let fraction = text.strip_suffix(b"Z\"")?.get(HEAD..)?;
    let digits = fraction.strip_prefix(b".").unwrap_or_default();
    if digits.len() > MAX_DIGITS {
        return None;
    }
    let number = |from: usize, to: usize| decimal(text.get(from..to)?);
    let (year, month, day) = (number(1, 5)?, number(6, 8)?, number(9, 11)?);
    let (hour, minute, second) = (number(12, 14)?, number(15, 17)?, number(18, 20)?);
    let seconds = days_of(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    let digits_value = if digits.is_empty() { 0 } else { decimal(digits)? };
    let time = seconds.checked_mul(unit(digits.len())?)?.checked_add(digits_value)?;
    (format_time(time, digits.len())? == *text).then_some((time, digits.len()))
}

/// The time as a JSON string; `None` for one that needs more than four digits for its year.
pub(super) fn format_time(time: i64, digits: usize) -> Option<Bytes> {
    let unit = unit(digits)?;
    let (seconds, fraction) = (time.div_euclid(unit), time.rem_euclid(unit));
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = date_of(days)?;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match digits {
        0 => String::new(),
        _ => format!(".{fraction:0digits$}"),
    };
    let text =
        format!("\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z\"");
    Some(text.into())
}

fn unit(digits: usize) -> Option<i64> {
    u32::try_from(digits)
        .ok()
        .filter(|_| digits <= MAX_DIGITS)
        .and_then(|it| 10_i64.checked_pow(it))
}

fn decimal(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. A year begins with March here, so that a
/// leap day is its last one.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day; `None` outside of the years 0 to 9999.
fn date_of(days: i64) -> Option<(i64, i64, i64)> {
    let days = days.checked_add(719_468)?;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (0..10_000).contains(&year).then_some((year, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Option<(i64, usize)> {
        read(&Bytes::copy_from_slice(format!("\"{text}\"").as_bytes()))
    }

    #[test]
    fn times_are_counts_of_their_last_digit() {
        assert_eq!(time("1970-01-01T00:00:00Z"), Some((0, 0)));
        assert_eq!(time("1970-01-02T00:00:01.5Z"), Some((864_015, 1)));
        assert_eq!(time("2026-08-03T10:00:00.125Z"), Some((1_785_751_200_125, 3)));
        assert_eq!(time("2024-02-29T23:59:59.999999Z"), Some((1_709_251_199_999_999, 6)));
        assert_eq!(time("1969-12-31T23:59:59.9Z"), Some((-1, 1)));
        assert_eq!(time("0000-01-01T00:00:00Z"), Some((-62_167_219_200, 0)));
        assert_eq!(time("9999-12-31T23:59:59Z"), Some((253_402_300_799, 0)));
    }

    #[test]
    fn what_a_number_would_not_give_back_is_no_time() {
        for text in [
            "2026-13-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-08-03T24:00:00Z",
            "2026-08-03T10:00:60Z",
            "2026-08-03 10:00:00Z",
            "2026-08-03T10:00:00+00:00",
            "2026-08-03T10:00:00.Z",
            "2026-08-03T10:00:00.1234567890Z",
            "9999-08-03T10:00:00.123456789Z",
            "",
            "x",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_has_one_date() {
        for days in (-719_528..2_932_897).step_by(37) {
            let (year, month, day) = date_of(days).unwrap();
            assert_eq!(days_of(year, month, day), days);
        }
        assert_eq!(date_of(2_932_897), None);
        assert_eq!(format_time(i64::MAX, 0), None);
    }
}
