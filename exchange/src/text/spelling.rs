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
    let one: Vec<char> = one.chars().take(MAX_CHARS).collect();
    let other: Vec<char> = other.chars().take(MAX_CHARS).collect();
    if one.len().abs_diff(other.len()) > limit {
        return None;
    }
    // The last three rows of the table of distances between beginnings of both words.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, first) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, second) in other.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let replaced = at(&above, column) + usize::from(first != second);
            let added = (at(&above, column + 1) + 1).min(at(&current, column) + 1);
            let mut least = replaced.min(added);
            let is_swapped = row > 0
                && column > 0
                && one.get(row - 1) == Some(second)
                && other.get(column - 1) == Some(first);
            if is_swapped {
                least = least.min(at(&before, column - 1).saturating_add(1));
            }
            current.push(least);
        }
        if current.iter().min().is_some_and(|least| *least > limit) {
            return None;
        }
        before = std::mem::replace(&mut above, current);
    }
    match above.last() {
        Some(1) => Some(Distance::One),
        Some(2) if limit == 2 => Some(Distance::Two),
        _ => None,
    }
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
