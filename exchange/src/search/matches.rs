//! Finds the terms of a query in a text, and cuts the snippet that shows them best.

use std::ops::Range;

use super::answer::Snippet;
use super::query::Terms;
use super::words::{boundary, each_word};

/// Approximate length of a snippet in bytes.
const SNIPPET_BYTES: usize = 200;

/// Marks a cut in a text.
const ELLIPSIS: &str = "…";

/// Finds the terms of a query in texts.
#[derive(Debug)]
pub(super) struct Matcher<'q> {
    /// The distinct words, each with whether it is a prefix.
    words: Vec<(&'q str, bool)>,
    /// The terms, as indexes into `words`.
    terms: Vec<Vec<usize>>,
}

/// An occurrence of a term.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TermMatch {
    term: usize,
    range: Range<usize>,
}

impl<'q> Matcher<'q> {
    pub(super) fn new(terms: &'q Terms) -> Self {
        let words = terms.words();
        let number = |word: &str, may_go_on| {
            words.iter().position(|found| *found == (word, may_go_on)).unwrap_or_default()
        };
        let numbers = terms.0.iter().map(|term| {
            let last = term.words.len().saturating_sub(1);
            let words = term.words.iter().enumerate();
            words.map(|(at, word)| number(word, term.is_prefix && at == last)).collect()
        });
        let terms = numbers.collect();
        Self { words, terms }
    }

    /// Returns the snippet of a text, or `None` if the text lacks a term.
    pub(super) fn snippet(&self, text: &str) -> Option<Snippet> {
        let found = self.find(text);
        let has = |term: usize| found.iter().any(|found| found.term == term);
        (0..self.terms.len()).all(has).then(|| snippet(text, &found))
    }

    /// Returns all occurrences of all terms, in text order.
    fn find(&self, text: &str) -> Vec<TermMatch> {
        // For each word of the text, the query words that it matches, one bit each. A query has at
        // most 64 words.
        let mut words: Vec<(u64, Range<usize>)> = Vec::new();
        each_word(text, &mut |word, range| {
            let is = |(wanted, may_go_on): &(&str, bool)| match may_go_on {
                true => word.starts_with(wanted),
                false => word == *wanted,
            };
            let bits = self.words.iter().enumerate().filter(|(_, wanted)| is(wanted));
            words.push((bits.fold(0, |bits, (at, _)| bits | (1 << at)), range));
        });
        let mut found = Vec::new();
        for (at, (bits, range)) in words.iter().enumerate() {
            if *bits == 0 {
                continue;
            }
            for (term, numbers) in self.terms.iter().enumerate() {
                let here = words.get(at..at + numbers.len()).unwrap_or_default();
                let pairs = || here.iter().zip(numbers);
                if here.is_empty() || !pairs().all(|((bits, _), number)| bits & (1 << number) != 0)
                {
                    continue;
                }
                let end = here.last().map_or(range.end, |(_, last)| last.end);
                found.push(TermMatch { term, range: range.start..end });
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

    fn shown(question: &str, text: &str) -> Option<String> {
        let terms = Terms::parse(question).unwrap();
        let snippet = Matcher::new(&terms).snippet(text)?;
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
        let snippet = Matcher::new(&Terms::parse("0000*").unwrap()).snippet(&"0".repeat(5000));
        assert!(snippet.unwrap().text.len() <= SNIPPET_BYTES + ELLIPSIS.len());
    }

    #[test]
    fn ideographs_match_only_adjacent() {
        let text = "我们搜索引擎的索引";
        assert_eq!(shown("搜索", text).as_deref(), Some("我们[搜索]引擎的索引"));
        assert_eq!(shown("引索", text), None);
        assert_eq!(shown("索 引", text).as_deref(), Some("我们搜[索引]擎的[索引]"));
    }
}
