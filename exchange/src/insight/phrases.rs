//! Sentences that request to undo the last prompt, in 14 languages.
//!
//! A message counts only if it is one of these sentences as a whole, politeness aside. Single words
//! are not interpreted: any other sentence is not a request.

use std::str::Lines;

use super::language::Language;

/// Longest message to look up, in bytes.
const MAX_BYTES: usize = 400;

/// Bytes of the code of a language, which no other heading has.
const CODE_BYTES: usize = 2;

/// Sections, each with a heading: politeness `before` and `after` a sentence, and the sentences of
/// each language, below its code.
const PHRASES: &str = include_str!("phrases.txt");

/// Returns the headings of all sections with their lines.
fn sections() -> impl Iterator<Item = (&'static str, Lines<'static>)> {
    let sections = PHRASES.split("\n\n").filter_map(|section| section.split_once('\n'));
    sections.map(|(heading, lines)| (heading, lines.lines()))
}

/// Returns the lines of the section of politeness with this heading.
fn politeness(heading: &str) -> impl Iterator<Item = &'static str> {
    sections().filter(move |(found, _)| *found == heading).flat_map(|(_, lines)| lines)
}

/// Returns the language of a message that as a whole requests to undo the last prompt.
pub(super) fn undo_language(message: &str) -> Option<Language> {
    find_without_politeness(message, |sentence| {
        let mut languages = sections().filter(|(heading, _)| heading.len() == CODE_BYTES);
        let found = languages.find(|(_, sentences)| sentences.clone().any(|it| it == sentence));
        found.map(|(code, _)| Language::of_locale(code))
    })
}

/// Calls `find` with a short message, in lowercase and without final punctuation, and then with
/// less and less politeness around it. Returns the first result.
pub(super) fn find_without_politeness<T>(
    message: &str,
    find: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    if message.len() > MAX_BYTES {
        return None;
    }
    let message = message.to_lowercase().replace('\u{2019}', "'");
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut sentence = strip_final_marks(&message);
    loop {
        if let Some(found) = find(sentence) {
            return Some(found);
        }
        let shorter = politeness("before")
            .find_map(|word| strip_first_word(sentence, word))
            .or_else(|| politeness("after").find_map(|word| strip_last_word(sentence, word)));
        sentence = strip_final_marks(shorter?);
    }
}

/// Removes final full stops and exclamation marks.
fn strip_final_marks(text: &str) -> &str {
    text.trim_end_matches(['.', '!', '。', '！', '…']).trim()
}

/// Returns the text after `word` at the start of `text`.
fn strip_first_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(word)?;
    // A comma separates like a space. Chinese needs neither.
    let is_apart = rest.starts_with([' ', ',']) || word.ends_with(['请', '請', '你', '，']);
    is_apart.then(|| rest.trim_start_matches([',', ' ']))
}

/// Returns the text before `word` at the end of `text`.
fn strip_last_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let rest = text.strip_suffix(word)?;
    rest.ends_with([' ', ',']).then(|| rest.trim_end_matches([',', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_have_the_form_that_messages_are_compared_in() {
        let headings: Vec<&str> = sections().map(|(heading, _)| heading).skip(1).collect();
        let (politeness, codes) = headings.split_at(2);
        assert_eq!(politeness, ["before", "after"]);
        assert_eq!(codes.len(), 14);
        for code in codes {
            assert_eq!(
                (code.len(), Language::of_locale(code) == Language::English),
                (2, *code == "en")
            );
        }
        for line in sections().skip(1).flat_map(|(_, lines)| lines) {
            assert_eq!(line, strip_final_marks(&line.to_lowercase()));
            assert_eq!(line, line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        for (_, mut sentences) in sections().skip(3) {
            assert!(sentences.all(|sentence| undo_language(sentence).is_some()));
        }
    }
}
