//! Removes from texts what varies between runs that did the same: ids, times, durations, places.
//!
//! Only shapes that carry no decision are removed. Numbers stay, since a count of failed tests or
//! the number of a line is a result.

/// Replaces the removed parts.
const GONE: char = '*';

/// The shortest run of hexadecimal digits that is an id, if it has letters and digits.
const MIN_HEX: usize = 7;

/// The shortest number that is an id or a time.
const MIN_NUMBER: usize = 10;

/// The shortest last part of a word that is a random id, as in `toolu_01A09q90qw90lq917835lq9`.
const MIN_RANDOM: usize = 16;

/// Folders whose entries have random names.
const TEMPORARY: [&str; 2] = ["/tmp/", "/T/"];

/// Units of time, directly after a number or as the next word.
const UNITS: [&str; 12] =
    ["ns", "us", "µs", "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "h"];

/// Words whose next number is an id of a process.
const PROCESS: [&str; 2] = ["pid", "PID"];

/// The words before the random id that Codex puts before each output.
const CHUNK: &str = "Chunk ID: ";

/// Returns `text` without what varies between runs. `directory` is that of the run.
pub(crate) fn without_noise(text: &str, directory: Option<&str>) -> String {
    let own = directory.map(|directory| directory.trim_end_matches('/'));
    let Some(own) = own.filter(|own| own.len() > 1) else { return words(text) };
    words(&text.replace(own, "."))
}

fn words(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    // The word before, if only spaces follow it, and where it begins in `clean`.
    let mut before: Option<(&str, usize)> = None;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        if !token.is_empty() {
            let word = token.trim_end_matches(['.', ':', '-']);
            let is_temporary = TEMPORARY.iter().any(|folder| clean.ends_with(folder));
            let is_process = before.is_some_and(|(word, _)| PROCESS.contains(&word));
            let start = clean.len();
            let is_chunk = clean.ends_with(CHUNK);
            if is_temporary || is_chunk || is_noise(word) || is_process && is_number(word) {
                clean.push(GONE);
            } else if let Some((number, at)) = before
                && is_decimal(number)
                && UNITS.contains(&word)
            {
                clean.truncate(at);
                clean.push(GONE);
            } else {
                clean.push_str(word);
            }
            clean.push_str(token.get(word.len()..).unwrap_or_default());
            before = (word.len() == token.len()).then_some((word, start));
        }
        let next = after.find(is_of_word).unwrap_or(after.len());
        let (between, following) = after.split_at(next);
        clean.push_str(between);
        if between != " " && between != ": " {
            before = None;
        }
        rest = following;
    }
    clean
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '+')
}

fn is_noise(word: &str) -> bool {
    if !word.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    is_long_number(word)
        || is_hex(word)
        || is_uuid(word)
        || is_time(word)
        || is_duration(word)
        || is_random(word)
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_decimal(word: &str) -> bool {
    let (whole, part) = word.split_once('.').unwrap_or((word, "0"));
    is_number(whole) && is_number(part)
}

fn is_long_number(word: &str) -> bool {
    let (whole, part) = word.split_once('.').unwrap_or((word, "0"));
    whole.len() >= MIN_NUMBER && is_number(whole) && is_number(part)
}

fn is_hex(word: &str) -> bool {
    let digits = word.strip_prefix("0x");
    let long = digits.unwrap_or(word);
    let has_letter = digits.is_some() || long.bytes().any(|byte| byte.is_ascii_alphabetic());
    long.len() >= MIN_HEX && has_letter && long.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A date, a date with a time, or a time with seconds.
fn is_time(word: &str) -> bool {
    let is_of = |text: &str, shape: &[usize], mark: char| {
        let parts: Vec<&str> = text.split(mark).collect();
        parts.len() == shape.len()
            && parts
                .iter()
                .zip(shape)
                .all(|(part, length)| part.len() == *length && is_number(part))
    };
    let is_date = |text: &str| is_of(text, &[4, 2, 2], '-');
    let is_clock = |text: &str| {
        let zoneless = text.trim_end_matches('Z');
        let zoneless = zoneless.split(['+', '-']).next().unwrap_or_default();
        let whole = zoneless.split('.').next().unwrap_or_default();
        is_of(whole, &[2, 2, 2], ':') || is_of(whole, &[1, 2, 2], ':')
    };
    match word.split_once('T') {
        Some((date, clock)) => is_date(date) && (is_clock(clock) || is_of(clock, &[2, 2], ':')),
        None => is_date(word) || is_clock(word),
    }
}

fn is_duration(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = word.strip_suffix(unit).unwrap_or_default();
    UNITS.contains(&unit) && is_decimal(number)
}

/// A word whose last part is random letters and digits.
fn is_random(word: &str) -> bool {
    let last = word.rsplit(['_', '-']).next().unwrap_or_default();
    let has = |is: fn(&u8) -> bool| last.bytes().any(|byte| is(&byte));
    last.len() >= MIN_RANDOM
        && last.len() < word.len()
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && last.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::without_noise;

    #[test]
    fn what_varies_is_removed_and_results_stay() {
        let same = [
            ("finished in 0.34s", "finished in 1.02s"),
            ("Time: 1.234 seconds", "Time: 0.9 seconds"),
            ("at 2026-11-30T20:04:13.123Z", "at 2025-01-02T03:04:05Z"),
            ("commit 1f2e3d4c5b", "commit 9a8b7c6d5e"),
            ("toolu_01A09q90qw90lq917835lq9 ok", "toolu_02B19q90qw90lq917835lq0 ok"),
            (
                "id 550e8400-e29b-41d4-a716-446655440000.",
                "id 650e8400-e29b-41d4-a716-446655440001.",
            ),
            ("wrote /tmp/tmp.Xa81kZ/out", "wrote /tmp/tmp.Yb92lA/out"),
            ("pid 4711 ended", "pid 4712 ended"),
            ("Chunk ID: 5fb4c7\nOutput:", "Chunk ID: ac26d8\nOutput:"),
            ("1764532800123", "1764532900456"),
        ];
        for (one, other) in same {
            assert_eq!(without_noise(one, None), without_noise(other, None), "{one}");
        }
        for result in ["3 passed; 1 failed", "src/a.rs:12:34", "exit code 101", "v1.22.0", "x86_64"]
        {
            assert_eq!(without_noise(result, None), result);
        }
        assert_eq!(without_noise("/w/plan-1/src/a.rs", Some("/w/plan-1/")), "./src/a.rs");
    }

    turntree_properties::properties! {
        #[test]
        fn any_text_is_cleaned_and_clean_text_stays(text in "[ -~µé/:.\n]{0,60}") {
            let clean = without_noise(&text, None);
            proptest::prop_assert_eq!(without_noise(&clean, None).is_empty(), clean.is_empty());
        }
    }
}
