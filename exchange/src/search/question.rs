//! Turns a query into a question: the forms and spellings of each term.
//!
//! A term matches as it was typed. A word also matches in its other forms (`test`, `tests`), joined
//! or split (`VS Code`, `vscode`), and, if the index hardly knows it, words spelled nearly like it.
//! The index knows which of these exist. Common words such as `the` are left out.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::index::{Dictionary, IndexResult, KnownWord};
use super::language::Language;
use super::query::{Term, Terms};
use super::words::parts_of;
use crate::text::spelling::{Distance, distance};

/// A word that at most this many documents have may be a typing error.
const RARE: u64 = 2;

/// The shortest word that is split, that may have other forms, and that may be a typing error; the
/// shortest part of a split word; and the shortest word with two errors.
const MIN_SPLIT_CHARS: usize = 5;
const MIN_FORM_CHARS: usize = 3;
const MIN_TYPED_CHARS: usize = 4;
const MIN_PART_CHARS: usize = 2;
const MIN_TWICE_CHARS: usize = 7;

/// The maximum number of other forms and of near spellings of a word, the most frequent first.
const MAX_FORMS: usize = 12;
const MAX_NEAR: usize = 4;

/// The most letters that two words with two errors do not share.
const MAX_CHANGED_LETTERS: u32 = 4;

/// How much a match counts in comparison with one as typed.
const AS_TYPED: f64 = 1.0;
const JOINED: f64 = 0.9;
const FORM: f64 = 0.75;
const ONE_ERROR: f64 = 0.5;
const TWO_ERRORS: f64 = 0.3;

/// Words with the numbers of documents that have them.
type WordCounts = BTreeMap<String, u64>;

/// The terms that a search looks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    pub(super) units: Vec<Unit>,
}

/// A term of a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unit {
    /// The term as it was typed.
    pub(super) typed: String,
    /// True if a text without it is no match.
    pub(super) is_required: bool,
    /// Its forms and spellings. The first pattern is the term as typed.
    pub(super) patterns: Vec<Pattern>,
}

/// Words that are adjacent in a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    /// At least one word.
    pub(super) words: Vec<String>,
    /// True if the last word is a prefix.
    pub(super) is_prefix: bool,
    /// How much a match counts: 1 for the term as typed.
    pub(super) factor: f64,
}

impl Question {
    /// Asks for all terms exactly as typed.
    pub(super) fn exact(terms: &Terms) -> Self {
        let unit = |term: &Term| Unit { is_required: true, ..Unit::of(term) };
        Self { units: terms.0.iter().map(unit).collect() }
    }

    /// Asks for the terms that carry something, in the spellings that `dictionary` knows.
    pub(super) fn of(terms: &Terms, dictionary: &Dictionary<'_>) -> IndexResult<Self> {
        let all: Vec<&str> =
            terms.0.iter().flat_map(|term| &term.words).map(String::as_str).collect();
        let language = Language::of(&all);
        let is_empty = |term: &&Term| match term.words.as_slice() {
            [word] => !term.is_quoted && !term.is_prefix && language.is_empty(word),
            _ => false,
        };
        let mut kept: Vec<&Term> = terms.0.iter().filter(|term| !is_empty(term)).collect();
        if kept.is_empty() {
            kept = terms.0.iter().collect();
        }
        let mut units: Vec<Unit> = kept.iter().map(|term| Unit::of(term)).collect();
        for (unit, term) in units.iter_mut().zip(&kept) {
            if let ([word], false, false) = (term.words.as_slice(), term.is_quoted, term.is_prefix)
            {
                unit.add_spellings(word, language, dictionary)?;
            }
        }
        for (at, pair) in terms.0.windows(2).enumerate() {
            let [Term { words: one, is_quoted: false, is_prefix: false, .. }, next] = pair else {
                continue;
            };
            let ([one], [other], false, false) =
                (one.as_slice(), next.words.as_slice(), next.is_quoted, next.is_prefix)
            else {
                continue;
            };
            let joined = [one.as_str(), other].concat();
            if dictionary.count(&joined, false)? > 0 {
                for term in terms.0.get(at..at + 2).into_iter().flatten() {
                    let unit = kept.iter().position(|kept| *kept == term);
                    if let Some(unit) = unit.and_then(|unit| units.get_mut(unit)) {
                        unit.add(vec![joined.clone()], JOINED);
                    }
                }
            }
        }
        Ok(Self { units })
    }
}

impl Unit {
    fn of(term: &Term) -> Self {
        let Term { words, is_prefix, is_quoted, typed } = term;
        let pattern = Pattern { words: words.clone(), is_prefix: *is_prefix, factor: AS_TYPED };
        let mut unit =
            Self { typed: typed.clone(), is_required: *is_quoted, patterns: vec![pattern] };
        let parts = parts_of(typed);
        if !is_quoted && !is_prefix && words.len() == 1 && !parts.is_empty() {
            unit.add(parts, JOINED);
        }
        // `parse_config` and `parseConfig`.
        if !is_quoted && !is_prefix && words.len() > 1 && !typed.contains(['/', '.']) {
            unit.add(vec![words.concat()], JOINED);
        }
        unit
    }

    fn add(&mut self, words: Vec<String>, factor: f64) {
        if self.patterns.iter().all(|pattern| pattern.words != words) {
            self.patterns.push(Pattern { words, is_prefix: false, factor });
        }
    }

    /// Adds the other spellings of a word that the dictionary knows.
    fn add_spellings(
        &mut self,
        word: &str,
        language: Language,
        dictionary: &Dictionary<'_>,
    ) -> IndexResult<()> {
        let chars = word.chars().count();
        let having = dictionary.count(word, false)?;
        let is_name = word.chars().any(char::is_numeric);
        let mut forms = WordCounts::new();
        if chars >= MIN_FORM_CHARS && !is_name {
            let stem = language.stem(word);
            // The last letter of a stem may change: `tries` and `trying` share `tri`.
            let kept = stem.chars().count().saturating_sub(1).max(MIN_FORM_CHARS);
            let start: String = word.chars().take(kept).collect();
            dictionary.each_with_prefix(&start, &mut |known| {
                if known.word != word && language.stem(known.word) == stem {
                    *forms.entry(known.word.to_owned()).or_default() += known.count();
                }
            })?;
        }
        let all = having + forms.values().sum::<u64>();
        for form in most_frequent(forms, MAX_FORMS) {
            self.add(vec![form], FORM);
        }
        if all <= RARE && chars >= MIN_SPLIT_CHARS {
            let split = best_split(word, dictionary)?;
            split.into_iter().for_each(|parts| self.add(parts, JOINED));
        }
        if all <= RARE && chars >= MIN_TYPED_CHARS && !is_name {
            for (distance, near) in near_spellings(word, dictionary)? {
                let factor = if distance == Distance::One { ONE_ERROR } else { TWO_ERRORS };
                self.add(vec![near], factor);
            }
        }
        Ok(())
    }
}

/// Returns the set of the bytes of a word, modulo 64.
fn letters_of(word: &str) -> u64 {
    word.bytes().fold(0, |letters, byte| letters | (1 << (byte % 64)))
}

/// Splits a word into two words that the index knows, the ones whose rarer part is the most frequent.
fn best_split(word: &str, dictionary: &Dictionary<'_>) -> IndexResult<Option<Vec<String>>> {
    let mut best: Option<(u64, Vec<String>)> = None;
    for (at, _) in word.char_indices() {
        let (one, other) = word.split_at(at);
        if one.chars().count() < MIN_PART_CHARS || other.chars().count() < MIN_PART_CHARS {
            continue;
        }
        let first = dictionary.count(one, false)?;
        if first <= best.as_ref().map_or(0, |(count, _)| *count) {
            continue;
        }
        let count = first.min(dictionary.count(other, false)?);
        if count > best.as_ref().map_or(0, |(count, _)| *count) {
            best = Some((count, vec![one.to_owned(), other.to_owned()]));
        }
    }
    Ok(best.map(|(_, parts)| parts))
}

/// Returns the words of the index that are spelled nearly like a word: only the nearest ones, the
/// most frequent first.
fn near_spellings(word: &str, dictionary: &Dictionary<'_>) -> IndexResult<Vec<(Distance, String)>> {
    let most = if word.chars().count() < MIN_TWICE_CHARS { Distance::One } else { Distance::Two };
    let mut near: BTreeMap<Distance, WordCounts> = BTreeMap::new();
    let letters = letters_of(word);
    dictionary.each_near(word, &mut |known: KnownWord<'_>| {
        // Two errors change at most four of the letters. Few words pass this.
        if (letters ^ letters_of(known.word)).count_ones() > MAX_CHANGED_LETTERS {
            return;
        }
        if let Some(distance) = distance(word, known.word, most) {
            let words = near.entry(distance).or_default();
            *words.entry(known.word.to_owned()).or_default() += known.count();
        }
    })?;
    let Some((distance, nearest)) = near.pop_first() else { return Ok(Vec::new()) };
    Ok(most_frequent(nearest, MAX_NEAR).map(|word| (distance, word)).collect())
}

/// Returns the most frequent words, the most frequent first.
fn most_frequent(words: WordCounts, most: usize) -> impl Iterator<Item = String> {
    let mut words: Vec<(String, u64)> = words.into_iter().collect();
    words.sort_by_key(|(_, count)| Reverse(*count));
    words.into_iter().take(most).map(|(word, _)| word)
}
