//! Measures how many typing errors lie between two words.

/// The longest compared word, in characters.
const MAX_CHARS: usize = 32;

/// The number of typing errors between two words that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// One error.
    One,
    /// Two errors.
    Two,
}

/// Returns how many errors lie between two words that differ, if at most `most` do. An error is a
/// missing, additional or wrong letter, or two swapped neighbors.
#[must_use]
pub fn distance(one: &str, other: &str, most: Distance) -> Option<Distance> {
    let limit = if most == Distance::One { 1 } else { 2 };
    if one.len().abs_diff(other.len()) > limit * char::MAX.len_utf8() {
        return None;
    }
    match strsim::osa_distance(beginning(one), beginning(other)) {
        1 => Some(Distance::One),
        2 if most == Distance::Two => Some(Distance::Two),
        _ => None,
    }
}

/// Returns the compared part of a word.
fn beginning(word: &str) -> &str {
    let end = word.char_indices().nth(MAX_CHARS).map(|(end, _)| end);
    end.and_then(|end| word.get(..end)).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_counted() {
        for (one, other, expected) in [
            ("telemtry", "telemetry", Some(Distance::One)),
            ("timestmap", "timestamp", Some(Distance::One)),
            ("parser", "parsers", Some(Distance::One)),
            ("wrod", "word", Some(Distance::One)),
            ("recieved", "receivd", Some(Distance::Two)),
            ("same", "same", None),
            ("short", "shortened", None),
            ("grün", "grun", Some(Distance::One)),
            ("", "a", Some(Distance::One)),
        ] {
            assert_eq!(distance(one, other, Distance::Two), expected, "{one} {other}");
            assert_eq!(distance(other, one, Distance::Two), expected, "{other} {one}");
        }
        assert_eq!(distance("recieved", "receivd", Distance::One), None);
    }
}
