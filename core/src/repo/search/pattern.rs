//! Patterns: find the matching lines of a text, count them, and extract words that every match
//! contains.
//!
//! A text is searched as a whole, which is much faster than line by line. Still no match spans
//! lines: the line end is removed from everything in the expression that could match it.

use memchr::{memchr, memchr_iter, memrchr};
use regex_automata::Input;
use regex_automata::meta::{Config, Regex};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use super::loose_pattern::LoosePattern;
use crate::error::{Error, Result};

/// The longest pattern, in bytes.
pub(crate) const MAX_PATTERN_BYTES: usize = 16 << 10;

/// The largest compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 64 << 20;

/// The longest line returned, in bytes: a longer line is cut around the match.
pub const MAX_LINE_BYTES: usize = 1000;

/// The bytes kept before the match in a cut line.
const LEAD_BYTES: usize = 100;

/// The maximum number of alternative words: more do not help a search.
const MAX_WORDS: usize = 64;

/// Options of a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatternOptions {
    /// The pattern is a string, not a regular expression.
    pub fixed: bool,
    /// The case of letters does not matter.
    pub ignore_case: bool,
    /// A match must be a whole word.
    pub word: bool,
}

/// A pattern for lines.
#[derive(Debug, Clone)]
pub struct LinePattern {
    regex: Regex,
    hir: Hir,
    words: Vec<String>,
    ignore_case: bool,
}

/// The matches in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextMatches {
    /// The number of matching lines.
    pub count: u64,
    /// True if the text holds a zero byte, so that it is binary.
    pub binary: bool,
    /// The matching lines and their context lines, if requested.
    pub lines: Vec<MatchedLine>,
}

/// A line of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchedLine {
    /// The line number, starting at 1.
    pub number: u64,
    /// True if the line matches; false for a context line.
    pub matches: bool,
    /// The byte offset of the first match in the line; 0 if the line does not match.
    pub column: u64,
    /// The line without its end, at most [`MAX_LINE_BYTES`].
    pub text: String,
    /// True if the line is longer than that.
    pub cut: bool,
}

/// The place of a line in a text.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    number: u64,
    /// The start of the match in the text.
    found: usize,
}

impl LinePattern {
    /// Compiles `text`, which has the syntax of the `regex` crate unless it is fixed. `^` and `$`
    /// are the ends of a line. An empty pattern matches every line.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid expression, or a string of several lines; `LimitExceeded` over
    /// 16 KiB, or when it would need too much memory.
    pub fn new(text: &str, options: PatternOptions) -> Result<Self> {
        let PatternOptions { fixed, ignore_case, word } = options;
        if text.len() > MAX_PATTERN_BYTES {
            let (limit, found) = (MAX_PATTERN_BYTES as u64, text.len() as u64);
            return Err(Error::limit("bytes of a pattern", limit, found));
        }
        if fixed && text.contains('\n') {
            return Err(Error::invalid(
                "a pattern matches within one line: expected no line break in it",
            ));
        }
        let escaped = if fixed { regex_syntax::escape(text) } else { text.to_owned() };
        let exact = parse(&escaped, false)?;
        let whole = match word {
            true => format!(r"\b{{start-half}}(?:{escaped})\b{{end-half}}"),
            false => escaped,
        };
        let hir = confine_to_line(&parse(&whole, ignore_case)?);
        let regex = compiled(&hir)?;
        Ok(Self { regex, hir, words: required_words(&exact).unwrap_or_default(), ignore_case })
    }

    /// Returns the pattern without the boundaries of lines and words; `None` if a match may be
    /// empty. Costs as much as compiling the pattern.
    #[must_use]
    pub fn loose(&self) -> Option<LoosePattern> {
        LoosePattern::of(&self.hir, |hir| compiled(hir).ok())
    }

    /// Returns words of ASCII letters, digits and `_`. Every match contains one of them, in any
    /// case of letters if [`LinePattern::ignores_case`]. Empty if no such words are known.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns true if the pattern ignores case.
    #[must_use]
    pub fn ignores_case(&self) -> bool {
        self.ignore_case
    }

    /// Finds the lines of `text` that match. With `keep`, also returns these lines with the given
    /// number of context lines.
    #[must_use]
    pub fn find(&self, text: &[u8], keep: Option<usize>) -> TextMatches {
        let mut found = TextMatches::default();
        let mut spans = Vec::new();
        let (mut at, mut number, mut counted) = (0, 1, 0);
        while let Some(hit) = self.regex.search(&Input::new(text).range(at..)) {
            let start = memrchr(b'\n', part(text, at..hit.start())).map_or(at, |end| at + end + 1);
            if start == text.len() {
                break;
            }
            let rest = part(text, hit.end()..text.len());
            let end = memchr(b'\n', rest).map_or(text.len(), |end| hit.end() + end);
            found.count += 1;
            if keep.is_some() {
                number += memchr_iter(b'\n', part(text, counted..start)).count() as u64;
                counted = start;
                spans.push(Span { start, end, number, found: hit.start() });
            }
            at = end + 1;
            if at > text.len() {
                break;
            }
        }
        found.binary = found.count > 0 && memchr(0, text).is_some();
        if let (Some(around), false) = (keep, found.binary) {
            found.lines = lines(text, &spans, around);
        }
        found
    }
}

fn compiled(hir: &Hir) -> Result<Regex> {
    let config = Config::new().nfa_size_limit(Some(MAX_COMPILED_BYTES));
    Regex::builder().configure(config).build_from_hir(hir).map_err(|error| {
        let message = "the pattern needs too much memory: expected a simpler one";
        Error::new(crate::ErrorKind::LimitExceeded, message).with_source(error)
    })
}

fn part(text: &[u8], range: std::ops::Range<usize>) -> &[u8] {
    text.get(range).unwrap_or_default()
}

/// Returns the lines at `spans`, with `around` lines before and after each.
fn lines(text: &[u8], spans: &[Span], around: usize) -> Vec<MatchedLine> {
    let mut lines: Vec<MatchedLine> = Vec::new();
    for (index, span) in spans.iter().enumerate() {
        let shown = lines.last().map_or(0, |line| line.number);
        let mut before = Vec::new();
        let (mut start, mut number) = (span.start, span.number);
        while before.len() < around && start > 0 && number > shown + 1 {
            let end = start - 1;
            start = memrchr(b'\n', part(text, 0..end)).map_or(0, |at| at + 1);
            number -= 1;
            before.push(line(text, Span { start, end, number, found: start }, false));
        }
        lines.extend(before.into_iter().rev());
        lines.push(line(text, *span, true));
        let next = spans.get(index + 1).map_or(u64::MAX, |next| next.number);
        let (mut start, mut number) = (span.end + 1, span.number + 1);
        for _ in 0..around {
            if start >= text.len() || number >= next {
                break;
            }
            let rest = part(text, start..text.len());
            let end = memchr(b'\n', rest).map_or(text.len(), |at| start + at);
            lines.push(line(text, Span { start, end, number, found: start }, false));
            (start, number) = (end + 1, number + 1);
        }
    }
    lines
}

fn line(text: &[u8], span: Span, matches: bool) -> MatchedLine {
    let Span { start, end, number, found } = span;
    let bytes = part(text, start..end);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let column = found.saturating_sub(start);
    let cut = bytes.len() > MAX_LINE_BYTES;
    let from = if cut { column.saturating_sub(LEAD_BYTES) } else { 0 };
    let from = from.min(bytes.len().saturating_sub(MAX_LINE_BYTES));
    let shown = part(bytes, from..bytes.len().min(from + MAX_LINE_BYTES));
    let text = String::from_utf8_lossy(shown);
    // A cut may split a character.
    let text = if cut { text.trim_matches('\u{fffd}') } else { &text };
    MatchedLine { number, matches, column: column as u64, text: text.to_owned(), cut }
}

fn parse(pattern: &str, ignore_case: bool) -> Result<Hir> {
    let mut builder = ParserBuilder::new();
    builder.utf8(false).multi_line(true).case_insensitive(ignore_case);
    builder.build().parse(pattern).map_err(|error| {
        // The error shows the whole expression, and its last line the reason.
        let text = error.to_string();
        let fault = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Error::invalid(format!("expected a regular expression: {fault}"))
    })
}

/// Rewrites an expression so that no match contains a line end, and so that the ends of the text
/// match at the ends of lines.
fn confine_to_line(hir: &Hir) -> Hir {
    let all = |parts: &[Hir]| parts.iter().map(confine_to_line).collect();
    match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) if memchr(b'\n', &literal.0).is_some() => Hir::fail(),
        HirKind::Literal(literal) => Hir::literal(literal.0.clone()),
        HirKind::Class(class) => Hir::class(remove_line_end(class.clone())),
        HirKind::Look(Look::Start) => Hir::look(Look::StartLF),
        HirKind::Look(Look::End) => Hir::look(Look::EndLF),
        HirKind::Look(look) => Hir::look(*look),
        HirKind::Repetition(repetition) => {
            let sub = Box::new(confine_to_line(&repetition.sub));
            Hir::repetition(Repetition { sub, ..repetition.clone() })
        }
        HirKind::Capture(capture) => confine_to_line(&capture.sub),
        HirKind::Concat(parts) => Hir::concat(all(parts)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)),
    }
}

fn remove_line_end(mut class: Class) -> Class {
    use regex_syntax::hir::{ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange};
    match &mut class {
        Class::Unicode(class) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
        }
        Class::Bytes(class) => {
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
        }
    }
    class
}

/// Returns words of which every match contains one, if there are any.
fn required_words(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Literal(literal) => {
            let runs = literal.0.split(|byte| !is_word(*byte));
            let longest = runs.max_by_key(|run| run.len()).filter(|run| !run.is_empty())?;
            Some(vec![String::from_utf8_lossy(longest).into_owned()])
        }
        HirKind::Capture(capture) => required_words(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required_words(&repetition.sub),
        HirKind::Concat(parts) => {
            let shortest = |words: &Vec<String>| words.iter().map(String::len).min();
            parts.iter().filter_map(required_words).max_by_key(shortest)
        }
        HirKind::Alternation(parts) => {
            let words: Option<Vec<Vec<String>>> = parts.iter().map(required_words).collect();
            let words = words?.concat();
            (words.len() <= MAX_WORDS).then_some(words)
        }
        _ => None,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str, options: PatternOptions) -> LinePattern {
        LinePattern::new(text, options).unwrap()
    }

    fn numbers(pattern: &LinePattern, text: &str) -> Vec<u64> {
        let found = pattern.find(text.as_bytes(), Some(0));
        assert_eq!(found.count, found.lines.len() as u64);
        assert_eq!(pattern.find(text.as_bytes(), None).count, found.count);
        found.lines.iter().map(|line| line.number).collect()
    }

    /// Returns the numbers of the lines that match when each is searched alone.
    fn one_by_one(pattern: &str, text: &str) -> Vec<u64> {
        let regex = regex::bytes::RegexBuilder::new(pattern).build().unwrap();
        let lines = text.split_inclusive('\n').map(|line| line.trim_end_matches('\n'));
        let matching = lines.zip(1..).filter(|(line, _)| regex.is_match(line.as_bytes()));
        matching.map(|(_, number)| number).collect()
    }

    turntree_properties::properties! {
        #[test]
        fn a_text_is_searched_as_if_line_by_line(
            text in "[ab \n]{0,40}",
            expression in "(a|b|\\.|\\[\\^a\\]|\\\\s|\\^|\\$|\\\\A|\\\\z|\\\\b|x\\*|\\(\\?:a\\|\\\\n\\)\\?){0,5}",
        ) {
            let found = numbers(&pattern(&expression, PatternOptions::default()), &text);
            prop_assert_eq!(found, one_by_one(&expression, &text), "{:?} in {:?}", expression, text);
        }

        #[test]
        fn every_match_holds_one_of_the_words(
            text in "[abc_ ]{0,20}", expression in "(abc|a+|\\(ab\\|ca\\)|b\\?|\\(a_b\\)\\{2\\}|.){1,4}",
        ) {
            let Ok(pattern) = LinePattern::new(&expression, PatternOptions::default()) else {
                return Ok(());
            };
            let held = pattern.words().iter().any(|word| text.contains(word));
            if pattern.find(text.as_bytes(), None).count > 0 && !pattern.words().is_empty() {
                prop_assert!(held, "{expression} in {text}: {:?}", pattern.words());
            }
        }
    }

    #[test]
    fn strings_words_and_case_are_as_asked_for() {
        let text = "a.b\naxb\nA.B c\nba.b\n";
        let find = |options| numbers(&pattern("a.b", options), text);
        assert_eq!(find(PatternOptions::default()), [1, 2, 4]);
        assert_eq!(find(PatternOptions { fixed: true, ..Default::default() }), [1, 4]);
        assert_eq!(find(PatternOptions { ignore_case: true, ..Default::default() }), [1, 2, 3, 4]);
        assert_eq!(find(PatternOptions { word: true, ..Default::default() }), [1, 2]);
    }

    #[test]
    fn lines_around_a_match_come_once() {
        let found =
            pattern("x", PatternOptions::default()).find(b"1\n2x\n3\n4x\n5\n6\n7x", Some(1));
        let lines: Vec<_> = found.lines.iter().map(|line| (line.number, line.matches)).collect();
        let expected =
            [(1, false), (2, true), (3, false), (4, true), (5, false), (6, false), (7, true)];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_long_line_is_cut_around_the_match_and_a_zero_byte_makes_a_text_binary() {
        let text = format!("{}needle{}", "é".repeat(5000), "ü".repeat(5000));
        let found = pattern("needle", PatternOptions::default()).find(text.as_bytes(), Some(0));
        let line = &found.lines[0];
        assert!(line.cut && line.text.contains("needle") && line.text.len() <= MAX_LINE_BYTES);
        assert_eq!(line.column, 10_000);
        let found = pattern("x", PatternOptions::default()).find(b"\0\nx\nx", Some(0));
        assert_eq!((found.binary, found.count, found.lines.len()), (true, 2, 0));
    }

    #[test]
    fn hostile_patterns_are_refused_or_fast() {
        for text in ["(", "a{1000}{1000}{1000}", "(?i)[", &"(".repeat(9000)] {
            assert!(LinePattern::new(text, PatternOptions::default()).is_err(), "{text:.20}");
        }
        let long = "x".repeat(MAX_PATTERN_BYTES + 1);
        assert!(LinePattern::new(&long, PatternOptions::default()).is_err());
        // Exponential for a backtracking engine, and quadratic for one that searches beyond the
        // line.
        let text = "a\n".repeat(100_000);
        for (expression, lines) in [("(a+)+b", 0), ("a[^b]*", 100_000), ("", 100_000)] {
            let pattern = pattern(expression, PatternOptions::default());
            assert_eq!(pattern.find(text.as_bytes(), None).count, lines, "{expression}");
        }
    }
}
