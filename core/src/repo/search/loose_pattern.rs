//! Loose patterns: match the characters of a pattern, without boundaries of lines and words.
//!
//! A text is often encoded, for example as a string of JSON. If a match contains no character that
//! is encoded differently, the bytes contain the match unchanged, and only the boundaries of lines
//! and words may differ. So a caller that knows the encoding searches the bytes, and decodes only a
//! few of them.

use regex_automata::meta::Regex;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// A pattern without the boundaries of lines and words: it matches wherever the pattern does, and
/// possibly elsewhere.
#[derive(Debug, Clone)]
pub struct LoosePattern {
    regex: Regex,
    hir: Hir,
}

/// The bits of control characters.
const CONTROLS: u128 = (1 << 0x20) - 1;

/// A set of possible characters.
#[derive(Debug, Clone, Copy, Default)]
struct Characters {
    /// One bit for each ASCII character.
    ascii: u128,
    /// True if there are others.
    has_others: bool,
}

impl LoosePattern {
    /// Returns the loose form of an expression; `None` if it matches the empty string or is too
    /// large.
    pub(super) fn of(hir: &Hir, build: impl FnOnce(&Hir) -> Option<Regex>) -> Option<Self> {
        let hir = strip_assertions(hir);
        if hir.properties().minimum_len().is_none_or(|bytes| bytes == 0) {
            return None;
        }
        Some(Self { regex: build(&hir)?, hir })
    }

    /// Returns true if the pattern matches somewhere in `bytes`.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.regex.is_match(bytes)
    }

    /// Returns true if a match may contain one of these ASCII characters.
    #[must_use]
    pub fn may_have(&self, characters: &str) -> bool {
        Characters::contained_in(&self.hir).ascii & bits_of(characters) != 0
    }

    /// Returns true if a match may contain a control character.
    #[must_use]
    pub fn may_have_controls(&self) -> bool {
        Characters::contained_in(&self.hir).ascii & CONTROLS != 0
    }

    /// Returns true if a match may contain a non-ASCII character, or bytes that are not characters.
    #[must_use]
    pub fn may_have_others(&self) -> bool {
        Characters::contained_in(&self.hir).has_others
    }

    /// Returns true if a match may begin with one of these ASCII characters.
    #[must_use]
    pub fn may_begin_with(&self, characters: &str) -> bool {
        Characters::first(&self.hir).ascii & bits_of(characters) != 0
    }

    /// Returns true if every match contains a character other than these ASCII characters.
    #[must_use]
    pub fn needs_other_than(&self, characters: &str) -> bool {
        needs_other_character(&self.hir, bits_of(characters))
    }
}

impl Characters {
    fn and(self, other: Self) -> Self {
        let has_others = self.has_others || other.has_others;
        Self { ascii: self.ascii | other.ascii, has_others }
    }

    fn add(&mut self, first: u32, last: u32) {
        (first..=last.min(0x7f)).for_each(|character| self.ascii |= 1 << character);
        self.has_others |= last > 0x7f;
    }

    fn of_bytes<'b>(bytes: impl IntoIterator<Item = &'b u8>) -> Self {
        let mut found = Self::default();
        bytes.into_iter().for_each(|byte| found.add((*byte).into(), (*byte).into()));
        found
    }

    fn of_class(class: &Class) -> Self {
        let mut found = Self::default();
        match class {
            Class::Unicode(class) => {
                class.iter().for_each(|range| found.add(range.start().into(), range.end().into()));
            }
            Class::Bytes(class) => {
                class.iter().for_each(|range| found.add(range.start().into(), range.end().into()));
            }
        }
        found
    }

    /// Returns the characters that a match may contain.
    fn contained_in(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::default(),
            HirKind::Literal(literal) => Self::of_bytes(&literal.0),
            HirKind::Class(class) => Self::of_class(class),
            HirKind::Repetition(repetition) => Self::contained_in(&repetition.sub),
            HirKind::Capture(capture) => Self::contained_in(&capture.sub),
            HirKind::Concat(parts) | HirKind::Alternation(parts) => {
                parts.iter().map(Self::contained_in).fold(Self::default(), Self::and)
            }
        }
    }

    /// Returns the characters that a match may begin with.
    fn first(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::default(),
            HirKind::Literal(literal) => Self::of_bytes(literal.0.first()),
            HirKind::Class(class) => Self::of_class(class),
            HirKind::Repetition(repetition) => Self::first(&repetition.sub),
            HirKind::Capture(capture) => Self::first(&capture.sub),
            HirKind::Concat(parts) => {
                let mut found = Self::default();
                for part in parts {
                    found = found.and(Self::first(part));
                    if part.properties().minimum_len().is_some_and(|bytes| bytes > 0) {
                        break;
                    }
                }
                found
            }
            HirKind::Alternation(parts) => {
                parts.iter().map(Self::first).fold(Self::default(), Self::and)
            }
        }
    }
}

fn bits_of(characters: &str) -> u128 {
    Characters::of_bytes(characters.as_bytes()).ascii
}

fn needs_other_character(hir: &Hir, than: u128) -> bool {
    let is_other = |found: Characters| found.ascii & than == 0;
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => {
            literal.0.iter().any(|byte| is_other(Characters::of_bytes([byte])))
        }
        HirKind::Class(class) => is_other(Characters::of_class(class)),
        HirKind::Repetition(Repetition { min, sub, .. }) => {
            *min > 0 && needs_other_character(sub, than)
        }
        HirKind::Capture(capture) => needs_other_character(&capture.sub, than),
        HirKind::Concat(parts) => parts.iter().any(|part| needs_other_character(part, than)),
        HirKind::Alternation(parts) => parts.iter().all(|part| needs_other_character(part, than)),
    }
}

fn strip_assertions(hir: &Hir) -> Hir {
    let all = |parts: &[Hir]| parts.iter().map(strip_assertions).collect();
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0.clone()),
        HirKind::Class(class) => Hir::class(class.clone()),
        HirKind::Repetition(repetition) => {
            let sub = Box::new(strip_assertions(&repetition.sub));
            Hir::repetition(Repetition { sub, ..repetition.clone() })
        }
        HirKind::Capture(capture) => strip_assertions(&capture.sub),
        HirKind::Concat(parts) => Hir::concat(all(parts)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pattern::{LinePattern, PatternOptions};
    use super::*;

    fn loose(expression: &str, options: PatternOptions) -> Option<LoosePattern> {
        LinePattern::new(expression, options).ok()?.loose()
    }

    turntree_properties::properties! {
        #[test]
        fn what_a_pattern_matches_its_loose_form_matches_and_tells(
            text in "[ab1: \u{e9}]{0,24}",
            expression in "(a|b|1|:| |é|[ab]|[^a]|\\^|\\$|\\\\b|\\\\w|\\\\d|a\\*|\\(?:a\\|b1\\)\\+|b\\?){1,5}",
            word: bool,
        ) {
            let options = PatternOptions { word, ..PatternOptions::default() };
            let Ok(pattern) = LinePattern::new(&expression, options) else { return Ok(()) };
            let Some(loose) = pattern.loose() else { return Ok(()) };
            let regex = regex::Regex::new(&expression).unwrap();
            prop_assert!(loose.is_in(text.as_bytes()) || pattern.find(text.as_bytes(), None).count == 0);
            for found in regex.find_iter(&text).filter(|found| !found.is_empty()) {
                let said = found.as_str();
                for (at, character) in said.chars().enumerate() {
                    if character.is_ascii() {
                        prop_assert!(loose.may_have(&character.to_string()), "{} has {}", expression, said);
                        prop_assert!(at > 0 || loose.may_begin_with(&character.to_string()));
                    } else {
                        prop_assert!(loose.may_have_others());
                    }
                }
                let is_other = |character: char| !"a1".contains(character);
                prop_assert!(said.chars().any(is_other) || !loose.needs_other_than("a1"));
            }
        }
    }

    #[test]
    fn characters_of_expressions_are_told() {
        let told = |expression: &str| {
            let loose = loose(expression, PatternOptions::default()).unwrap();
            (loose.may_have(":"), loose.may_begin_with(" "), loose.needs_other_than("0123456789"))
        };
        assert_eq!(told("ba[a-f]+ [a-m]o"), (false, false, true));
        assert_eq!(told(r"\s*x"), (false, true, true));
        assert_eq!(told(r"\d+"), (false, false, false));
        assert_eq!(told("x?:?1"), (true, false, false));
        assert!(!loose(r"[a-z]_\d\(", PatternOptions::default()).unwrap().may_have("[]:"));
        assert!(loose(r"\d", PatternOptions::default()).unwrap().may_have_others());
        assert!(loose("a*|^", PatternOptions::default()).is_none(), "it matches nothing");
    }
}
