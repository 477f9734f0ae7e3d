//! Finds the terms of a question in a text, and cuts the snippet that shows them best.

use std::collections::HashMap;
use std::ops::Range;

use super::answer::Snippet;
use super::question::Question;
use super::words::{Wholeness, boundary, each_word_and_part};

/// Approximate length of a snippet in bytes.
const SNIPPET_BYTES: usize = 200;

/// Marks a cut in a text.
const ELLIPSIS: &str = "…";

/// Finds the terms of a question in texts.
#[derive(Debug)]
pub(super) struct Matcher<'q> {
    question: &'q Question,
    /// The distinct words, and the distinct prefixes, with their numbers.
    words: HashMap<&'q str, usize>,
    prefixes: Vec<(&'q str, usize)>,
    patterns: Vec<NumberedPattern>,
}

/// A pattern of a term.
#[derive(Debug)]
struct NumberedPattern {
    term: usize,
    /// True for the term as typed.
    is_typed: bool,
    /// The numbers of its words.
    words: Vec<usize>,
}

/// An occurrence of a term.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TermMatch {
    term: usize,
    is_typed: bool,
    range: Range<usize>,
}

/// The terms of a question that a text has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextMatch {
    pub(super) snippet: Snippet,
    /// How the text has each term.
    pub(super) terms: Vec<TermPresence>,
}

/// How a text has a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TermPresence {
    Missing,
    /// In another form or spelling.
    Varied,
    AsTyped,
}

/// The words of a text. Words in camel case are in `parts` as their parts, and in `wholes` under
/// the place of the first part.
#[derive(Default)]
struct TextWords {
    parts: Vec<TextWord>,
    wholes: HashMap<usize, (TextWord, usize)>,
    /// The place of the last whole word, and whether its parts have replaced it.
    last: usize,
    is_parted: bool,
}

/// The numbers of the words of a question that a word of a text matches, and its range.
#[derive(Debug)]
struct TextWord {
    numbers: Vec<usize>,
    range: Range<usize>,
}

impl TextWords {
    fn push(&mut self, word: TextWord, wholeness: Wholeness) {
        if wholeness == Wholeness::Whole {
            self.last = self.parts.len();
            self.is_parted = false;
        } else if self.is_parted {
            if let Some((_, span)) = self.wholes.get_mut(&self.last) {
                *span += 1;
            }
        } else if let Some(whole) = self.parts.pop() {
            self.wholes.insert(self.last, (whole, 1));
            self.is_parted = true;
        }
        self.parts.push(word);
    }

    /// Returns the end of a pattern that begins at a place, in bytes.
    fn end_of(&self, pattern: &NumberedPattern, start: usize) -> Option<usize> {
        let (mut at, mut end) = (start, None);
        for number in &pattern.words {
            let has = |word: &TextWord| word.numbers.contains(number);
            let (word, span) = match (self.parts.get(at), self.wholes.get(&at)) {
                (Some(part), _) if has(part) => (part, 1),
                (_, Some((whole, span))) if has(whole) => (whole, *span),
                _ => return None,
            };
            end = Some(word.range.end);
            at += span;
        }
        end
    }
}

impl<'q> Matcher<'q> {
    pub(super) fn new(question: &'q Question) -> Self {
        let mut words: HashMap<&str, usize> = HashMap::new();
        let mut prefixes: Vec<(&str, usize)> = Vec::new();
        let (mut patterns, mut next) = (Vec::new(), 0_usize);
        for (term, unit) in question.units.iter().enumerate() {
            for (at, pattern) in unit.patterns.iter().enumerate() {
                let last = pattern.words.len().saturating_sub(1);
                let mut numbers = Vec::new();
                for (place, word) in pattern.words.iter().enumerate() {
                    let is_prefix = pattern.is_prefix && place == last;
                    let known = match is_prefix {
                        true => prefixes.iter().find(|(known, _)| known == word).map(|it| it.1),
                        false => words.get(word.as_str()).copied(),
                    };
                    let number = known.unwrap_or_else(|| {
                        next += 1;
                        match is_prefix {
                            true => prefixes.push((word, next)),
                            false => drop(words.insert(word, next)),
                        }
                        next
                    });
                    numbers.push(number);
                }
                patterns.push(NumberedPattern { term, is_typed: at == 0, words: numbers });
            }
        }
        Self { question, words, prefixes, patterns }
    }

    /// Returns the terms of the question that a text has. `None` if the text lacks a required term, or has no
    /// term.
    pub(super) fn look_at(&self, text: &str) -> Option<TextMatch> {
        let found = self.find(text);
        let mut terms = vec![TermPresence::Missing; self.question.units.len()];
        for found in &found {
            let presence = match found.is_typed {
                true => TermPresence::AsTyped,
                false => TermPresence::Varied,
            };
            if let Some(place) = terms.get_mut(found.term) {
                *place = presence.max(*place);
            }
        }
        let is_missing = |presence: &TermPresence| *presence == TermPresence::Missing;
        let lacks = |(unit, presence): (&super::question::Unit, &TermPresence)| {
            unit.is_required && is_missing(presence)
        };
        let is_refused =
            terms.iter().all(is_missing) || self.question.units.iter().zip(&terms).any(lacks);
        (!is_refused).then(|| TextMatch { snippet: snippet(text, &found), terms })
    }

    /// Returns all occurrences of all terms, in text order.
    fn find(&self, text: &str) -> Vec<TermMatch> {
        let mut words = TextWords::default();
        each_word_and_part(text, &mut |word, range, wholeness| {
            let prefixes = self.prefixes.iter().filter(|(start, _)| word.starts_with(start));
            let prefixes = prefixes.map(|(_, number)| *number);
            let numbers = self.words.get(word).copied().into_iter().chain(prefixes).collect();
            words.push(TextWord { numbers, range }, wholeness);
        });
        let mut found = Vec::new();
        for (at, part) in words.parts.iter().enumerate() {
            let whole = words.wholes.get(&at).map(|(whole, _)| whole);
            if part.numbers.is_empty() && whole.is_none_or(|whole| whole.numbers.is_empty()) {
                continue;
            }
            for pattern in &self.patterns {
                if let Some(end) = words.end_of(pattern, at) {
                    let NumberedPattern { term, is_typed, .. } = *pattern;
                    found.push(TermMatch { term, is_typed, range: part.range.start..end });
                }
            }
        }
        found
    }
}

/// Returns the stretch with the most distinct terms and its surroundings. The first stretch wins a
/// tie.
fn snippet(text: &str, found: &[TermMatch]) -> Snippet {
    let mut best: (usize, Range<usize>) = (0, 0..0);
    for (at, first) in found.iter().enumerate() {
        let near = found.iter().skip(at);
        let near = near.take_while(|it| it.range.end <= first.range.start + SNIPPET_BYTES);
        let near: Vec<&TermMatch> = near.collect();
        let mut terms: Vec<usize> = near.iter().map(|found| found.term).collect();
        terms.sort_unstable();
        terms.dedup();
        let end = near.iter().map(|found| found.range.end).max().unwrap_or(first.range.end);
        if terms.len().max(1) > best.0 {
            best = (terms.len().max(1), first.range.start..end);
        }
    }
    let (_, Range { start, end }) = best;
    // Show more text after the match than before it: the text after it explains the match better.
    let room = SNIPPET_BYTES.saturating_sub(end - start);
    let from = boundary(text, start.saturating_sub(room / 3));
    let to = boundary(text, from + SNIPPET_BYTES);
    on_one_line(text, from..to, found)
}

fn on_one_line(text: &str, part: Range<usize>, found: &[TermMatch]) -> Snippet {
    let Range { start, end } = part;
    let mut line = String::new();
    let mut matches: Vec<Range<usize>> = Vec::new();
    if start > 0 {
        line.push_str(ELLIPSIS);
    }
    let shown = found.iter().filter(|it| it.range.start < end && it.range.end > start);
    let shown: Vec<&TermMatch> = shown.collect();
    let is_found = |at: usize| shown.iter().any(|found| found.range.contains(&at));
    let mut was_found = false;
    for (at, c) in text.get(part).unwrap_or_default().char_indices() {
        let is_found = is_found(start + at);
        let begin = line.len();
        match c.is_whitespace() {
            true if line.is_empty() || line.ends_with(' ') => continue,
            true => line.push(' '),
            false => line.push(c),
        }
        match matches.last_mut() {
            Some(open) if is_found && was_found => open.end = line.len(),
            _ if is_found => matches.push(begin..line.len()),
            _ => {}
        }
        was_found = is_found;
    }
    line.truncate(line.trim_end().len());
    if end < text.len() {
        line.push_str(ELLIPSIS);
    }
    Snippet { text: line, matches }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::query::Terms;

    fn shown(question: &str, text: &str) -> Option<String> {
        let question = Question::exact(&Terms::parse(question).unwrap());
        let snippet = Matcher::new(&question).look_at(text)?.snippet;
        let mut shown = snippet.text.clone();
        for range in snippet.matches.iter().rev() {
            shown.insert(range.end, ']');
            shown.insert(range.start, '[');
        }
        Some(shown)
    }

    #[test]
    fn snippets_mark_words_phrases_and_prefixes() {
        let text = "A Retry\nbudget of 3.\tRetrying is not a retry-budget.";
        for (question, expected) in [
            ("retry", "A [Retry] budget of 3. Retrying is not a [retry]-budget."),
            ("retr*", "A [Retry] budget of 3. [Retrying] is not a [retry]-budget."),
            ("\"retry budget\"", "A [Retry budget] of 3. Retrying is not a [retry-budget]."),
            ("\"not a ret*\"", "A Retry budget of 3. Retrying is [not a retry]-budget."),
            ("budget 3", "A Retry [budget] of [3]. Retrying is not a retry-[budget]."),
        ] {
            assert_eq!(shown(question, text).as_deref(), Some(expected), "{question}");
        }
        for question in ["\"budget retry\"", "retry missing", "ret", "\"retry budget of 3 is\""] {
            assert_eq!(shown(question, text), None, "{question}");
        }
    }

    #[test]
    fn snippets_show_the_part_with_the_most_terms() {
        let far = "x ".repeat(1000);
        let text = format!("alpha {far} alpha and ébeta {far}");
        let shown = shown("alpha beta ebeta", &format!("{text} beta")).unwrap();
        assert!(shown.contains("[alpha] and [ébeta]"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        let question = Question::exact(&Terms::parse("0000*").unwrap());
        let found = Matcher::new(&question).look_at(&"0".repeat(5000)).unwrap();
        assert!(found.snippet.text.len() <= SNIPPET_BYTES + ELLIPSIS.len());
    }

    #[test]
    fn words_in_camel_case_match_whole_and_in_parts() {
        let text = "A parseConfigFile, parse_config and URLs";
        for (question, expected) in [
            ("parseconfigfile", "A [parseConfigFile], parse_config and URLs"),
            ("config", "A parse[Config]File, parse_[config] and URLs"),
            ("parse_config", "A [parseConfig]File, [parse_config] and URLs"),
            ("\"parseconfigfile parse\"", "A [parseConfigFile, parse]_config and URLs"),
            ("\"file parse config and\"", "A parseConfig[File, parse_config and] URLs"),
        ] {
            assert_eq!(shown(question, text).as_deref(), Some(expected), "{question}");
        }
    }

    #[test]
    fn ideographs_match_only_adjacent() {
        let text = "我们搜索引擎的索引";
        assert_eq!(shown("搜索", text).as_deref(), Some("我们[搜索]引擎的索引"));
        assert_eq!(shown("引索", text), None);
        assert_eq!(shown("索 引", text).as_deref(), Some("我们搜[索引]擎的[索引]"));
    }
}
