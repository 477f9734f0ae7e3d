//! Durations and sizes as users write them in arguments, such as `30d` and `200MB`.

use std::time::Duration;

use turntree::object::MAX_BLOB_BYTES;
use turntree::{Error, ErrorKind, Result};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Units of durations in seconds, longest first; the first name of a unit is printed.
const DURATIONS: [(&[&str], i64); 6] = [
    (&["y"], 365 * 24 * 60 * 60),
    (&["w"], 7 * 24 * 60 * 60),
    (&["d"], 24 * 60 * 60),
    (&["h"], 60 * 60),
    (&["m", "min"], 60),
    (&["s"], 1),
];

/// Units of sizes in bytes, largest first.
const SIZES: [(&[&str], u64); 9] = [
    (&["TiB"], 1 << 40),
    (&["TB", "T"], 1_000_000_000_000),
    (&["GiB"], 1 << 30),
    (&["GB", "G"], 1_000_000_000),
    (&["MiB"], 1 << 20),
    (&["MB", "M"], 1_000_000),
    (&["KiB"], 1 << 10),
    (&["kB", "k"], 1_000),
    (&["B", ""], 1),
];

/// Parses a duration such as `90s`, `30m`, `12h`, `30d`, `2w` or `1y` into microseconds.
///
/// # Errors
/// `InvalidInput` for anything else, and for an empty text.
pub(crate) fn parse_duration(text: &str) -> Result<i64> {
    let micros = split(text).and_then(|(number, unit)| {
        let (_, seconds) = DURATIONS.iter().find(|(names, _)| names.contains(&unit))?;
        let number = i64::try_from(number).ok().filter(|number| *number > 0)?;
        number.checked_mul(*seconds)?.checked_mul(MICROS_PER_SECOND)
    });
    micros.ok_or_else(|| {
        Error::invalid(format!(
            "'{text}': expected a duration such as 90s, 30m, 12h, 30d, 2w or 1y"
        ))
    })
}

/// Parses a short time such as `500ms` or `2s`, or one in the units of [`parse_duration`]; a plain
/// number is seconds.
///
/// # Errors
/// `InvalidInput` for anything else, and for an empty text.
pub(crate) fn parse_time(text: &str) -> Result<Duration> {
    let wrong = || Error::invalid(format!("'{text}': expected a time such as 500ms, 2s or 1m"));
    match split(text) {
        Some((number, "ms")) => Ok(Duration::from_millis(number)),
        Some((number, "")) => Ok(Duration::from_secs(number)),
        _ => {
            let micros = parse_duration(text).map_err(|_| wrong())?;
            Ok(Duration::from_micros(u64::try_from(micros).map_err(|_| wrong())?))
        }
    }
}

/// Formats a duration for [`parse_duration`], in the longest unit that is exact.
pub(crate) fn duration(micros: i64) -> String {
    let seconds = micros / MICROS_PER_SECOND;
    // Weeks and years are only parsed: 30d stays 30d, and 14d does not become 2w.
    let days = DURATIONS.iter().skip_while(|(names, _)| !names.contains(&"d"));
    let exact = days.clone().find(|(_, length)| seconds % length == 0);
    let (names, length) = exact.unwrap_or(&(&["s"], 1));
    format!("{}{}", seconds / length, names.first().unwrap_or(&"s"))
}

/// Parses a size such as `200MB` (millions, like `200M`) or `200MiB` (2^20) into bytes; a plain
/// number is bytes.
///
/// # Errors
/// `InvalidInput` for anything else, and for an empty text.
pub(crate) fn parse_size(text: &str) -> Result<u64> {
    let bytes = split(text).and_then(|(number, unit)| {
        let is_unit = |name: &str| name.eq_ignore_ascii_case(unit);
        let (_, bytes) = SIZES.iter().find(|(names, _)| names.iter().any(|name| is_unit(name)))?;
        number.checked_mul(*bytes).filter(|bytes| *bytes > 0)
    });
    bytes.ok_or_else(|| {
        Error::invalid(format!("'{text}': expected a size such as 500kB, 200MB, 200MiB or 1GB"))
    })
}

/// Parses a count such as `5000`, `400k` or `2M`.
///
/// # Errors
/// `InvalidInput` for anything else, for zero, and for an empty text.
pub(crate) fn parse_count(text: &str) -> Result<u64> {
    let count = split(text).and_then(|(number, unit)| {
        let times = match unit {
            "" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            _ => return None,
        };
        number.checked_mul(times).filter(|count| *count > 0)
    });
    count.ok_or_else(|| {
        Error::invalid(format!("'{text}': expected a count such as 5000, 400k or 2M"))
    })
}

/// Parses the largest size of a captured file with [`parse_size`].
///
/// # Errors
/// `InvalidInput` like [`parse_size`], `LimitExceeded` for more than a store keeps of one file.
pub(crate) fn parse_file_size(text: &str) -> Result<u64> {
    let (bytes, limit) = (parse_size(text)?, MAX_BLOB_BYTES as u64);
    if bytes <= limit {
        return Ok(bytes);
    }
    let message = format!("'{text}': a store keeps files of at most {}", size(limit));
    Err(Error::new(ErrorKind::LimitExceeded, message))
}

/// Parses a limit that may be 0: a size for [`parse_size`], or `0`.
pub(crate) fn parse_limit(text: &str) -> Result<u64> {
    if text.trim() == "0" { Ok(0) } else { parse_size(text) }
}

/// Formats a size for [`parse_size`], in the largest unit that is exact.
pub(crate) fn size(bytes: u64) -> String {
    let exact = SIZES.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    let (names, unit) = exact.unwrap_or(&(&["B"], 1));
    format!("{}{}", bytes / unit, names.first().unwrap_or(&"B"))
}

/// Splits a text into the number at its start and the rest.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_file_than_a_store_keeps_is_refused_and_not_reduced() {
        assert_eq!(parse_file_size("2GiB").unwrap(), 2 << 30);
        for text in ["6GB", "2147483649"] {
            let error = parse_file_size(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{text}");
            assert!(error.to_string().contains("at most 2GiB"), "{error}");
        }
    }

    #[test]
    fn durations_are_read_and_printed_the_same() {
        for text in ["1s", "90s", "30m", "12h", "1d", "30d", "400d"] {
            assert_eq!(duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(parse_duration("2w").unwrap(), parse_duration("14d").unwrap());
        assert_eq!(parse_duration("5 min").unwrap(), parse_duration("300s").unwrap());
        for text in ["", "d", "0d", "-1d", "1", "1.5h", "30days", "9223372036854775807y"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn short_times_are_read() {
        for (text, millis) in
            [("500ms", 500), ("0ms", 0), ("2", 2_000), ("2s", 2_000), ("1m", 60_000)]
        {
            assert_eq!(parse_time(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "-1", "1.5s", "ms", "0s", "18446744073709551616"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_are_read() {
        for (text, count) in [("5000", 5000), ("400k", 400_000), ("2 M", 2_000_000)] {
            assert_eq!(parse_count(text).unwrap(), count, "{text}");
        }
        for text in ["", "k", "0", "-1", "1.5k", "5x", "99999999999999M"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_printed_the_same() {
        for text in ["1B", "999B", "500kB", "200MB", "200MiB", "1GB", "3GiB", "2TB"] {
            assert_eq!(size(parse_size(text).unwrap()), text);
        }
        assert_eq!(parse_size("200 mb").unwrap(), 200_000_000);
        assert_eq!(parse_size("20k").unwrap(), 20_000);
        assert_eq!(parse_size("12").unwrap(), 12);
        for text in ["", "MB", "0MB", "-1MB", "1.5GB", "1XB", "99999999999TB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
