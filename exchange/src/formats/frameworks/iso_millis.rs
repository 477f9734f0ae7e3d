//! Timestamps as JavaScript writes them: milliseconds in UTC, and years of any length.

const MILLIS_PER_DAY: i64 = 86_400_000;

/// Returns a moment in UTC as `2026-01-31T12:00:00.123Z`, microseconds cut off; years beyond four digits as
/// JavaScript writes them.
pub(super) fn iso_millis(micros: i64) -> String {
    let millis = micros.div_euclid(1000);
    let (days, of_day) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY));
    let (year, month, day) = civil_from_days(days);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{year:+07}"),
    };
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Returns year, month and day of a day since 1970-01-01, in the Gregorian calendar.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::json::iso_time;

    turntree_properties::properties! {
        #[test]
        fn a_moment_that_is_written_is_read_as_the_same(millis in -62_135_596_800_000..253_402_300_800_000_i64) {
            let text = iso_millis(millis * 1000 + 999);
            prop_assert_eq!(iso_time(&text).map(|time| time.micros), Some(millis * 1000), "{}", text);
        }
    }
}
