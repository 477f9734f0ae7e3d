//! Joins names to a part of a sentence.

/// Returns the names with commas between them, and the last two joined by `word`, such as "and".
#[must_use]
pub fn enumeration<'n>(names: impl IntoIterator<Item = &'n str>, word: &str) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    match (names.pop(), names.is_empty()) {
        (Some(last), false) => format!("{} {word} {last}", names.join(", ")),
        (last, _) => last.unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_names_are_joined_by_the_word() {
        assert_eq!(enumeration(["a", "b", "c"], "or"), "a, b or c");
        assert_eq!(enumeration(["a", "b"], "and"), "a and b");
        assert_eq!((enumeration(["a"], "or"), enumeration([], "or")), ("a".into(), String::new()));
    }
}
