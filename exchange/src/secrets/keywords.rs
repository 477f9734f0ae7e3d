//! Keywords: literals of which every match of an expression contains one, derived from the
//! expression.
//!
//! Derived keywords cannot miss a match. They are lowercase, because the keyword search ignores
//! case. Deriving them takes milliseconds, which every hook would pay, so a test writes them to
//! `keyword_table.rs` and fails if the table is outdated.

use std::collections::BTreeSet;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Maximum number of literals for a part of an expression.
const MAX_LITERALS: usize = 64;

/// Maximum number of characters of a class that are enumerated.
const MAX_CLASS: usize = 10;

/// Shortest keyword in bytes.
const MIN_BYTES: usize = 2;

type Literals = BTreeSet<Vec<u8>>;

/// Returns the keywords of an expression. At most `before` bytes of a match precede a keyword.
/// `None` if some match has no keyword, or for an invalid expression.
pub(super) fn keywords(expression: &str, before: usize) -> Option<Literals> {
    let hir = parsed(expression)?;
    let found = required(&hir, before).filter(is_useful)?;
    // A literal that contains a shorter one is redundant.
    let holds = |long: &[u8], short: &[u8]| memchr::memmem::find(long, short).is_some();
    let is_needed =
        |word: &&Vec<u8>| !found.iter().any(|other| other != *word && holds(word, other));
    Some(found.iter().filter(is_needed).cloned().collect())
}

fn parsed(expression: &str) -> Option<Hir> {
    ParserBuilder::new().unicode(false).utf8(false).build().parse(expression).ok()
}

/// JSON escapes these at every level of nesting, so a keyword must not contain them.
const fn is_escaped(byte: u8) -> bool {
    byte < b' ' || matches!(byte, b'"' | b'\\' | b'\'')
}

fn is_useful(literals: &Literals) -> bool {
    !literals.is_empty() && literals.iter().all(|literal| literal.len() >= MIN_BYTES)
}

/// Returns all matches of an expression, if there are few.
fn exact(hir: &Hir) -> Option<Literals> {
    let found = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => [Vec::new()].into(),
        HirKind::Literal(literal) if literal.0.iter().any(|byte| is_escaped(*byte)) => return None,
        HirKind::Literal(literal) => [literal.0.to_ascii_lowercase()].into(),
        HirKind::Class(class) => characters(class)?,
        HirKind::Capture(capture) => exact(&capture.sub)?,
        HirKind::Repetition(Repetition { min: 0, max: Some(1), sub, .. }) => {
            let mut found = exact(sub)?;
            found.insert(Vec::new());
            found
        }
        HirKind::Repetition(Repetition { min, max, sub, .. }) => {
            let times = usize::try_from(*min).ok().filter(|_| *max == Some(*min))?;
            let one = exact(sub)?;
            (0..times).try_fold([Vec::new()].into(), |all, _| joined(&all, &one))?
        }
        HirKind::Concat(parts) => {
            parts.iter().try_fold([Vec::new()].into(), |all, part| joined(&all, &exact(part)?))?
        }
        HirKind::Alternation(parts) => {
            let all = parts.iter().map(exact).collect::<Option<Vec<_>>>()?;
            all.into_iter().flatten().collect()
        }
    };
    (found.len() <= MAX_LITERALS).then_some(found)
}

/// Returns the characters of a small class.
fn characters(class: &Class) -> Option<Literals> {
    let Class::Bytes(class) = class else { return None };
    let all = class.iter().flat_map(|range| range.start()..=range.end());
    let all: BTreeSet<u8> = all.map(|byte| byte.to_ascii_lowercase()).collect();
    let is_small = all.len() <= MAX_CLASS && !all.iter().any(|byte| is_escaped(*byte));
    is_small.then(|| all.into_iter().map(|byte| vec![byte]).collect())
}

/// Returns the concatenations of two sets of literals.
fn joined(first: &Literals, second: &Literals) -> Option<Literals> {
    let all = first.iter().flat_map(|a| second.iter().map(|b| [a.as_slice(), b].concat()));
    (first.len() * second.len() <= MAX_LITERALS).then(|| all.collect())
}

/// Returns literals of which every match contains one, after at most `before` bytes.
fn required(hir: &Hir, before: usize) -> Option<Literals> {
    if let Some(all) = exact(hir) {
        return Some(all);
    }
    match hir.kind() {
        HirKind::Literal(literal) => {
            let pieces = literal.0.split(|byte| is_escaped(*byte));
            let longest = pieces.max_by_key(|piece| piece.len())?;
            Some([longest.to_ascii_lowercase()].into())
        }
        HirKind::Capture(capture) => required(&capture.sub, before),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub, before),
        HirKind::Alternation(parts) => {
            let all = parts.iter().map(|part| required(part, before));
            Some(all.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
        }
        HirKind::Concat(parts) => required_of(parts, before),
        _ => None,
    }
}

/// Returns the best literals of a concatenation: the longest, then the fewest, then the first.
fn required_of(parts: &[Hir], before: usize) -> Option<Literals> {
    let mut candidates: Vec<Literals> = Vec::new();
    let mut open: Option<Literals> = None;
    let mut left = Some(before);
    for part in parts {
        let all = exact(part);
        let longer = match (&open, &all) {
            (Some(open), Some(all)) => joined(open, all),
            _ => None,
        };
        if longer.is_some() {
            open = longer;
        } else {
            candidates.extend(open.take());
            // The scanner looks `before` bytes back from a keyword, so later parts are out of
            // reach.
            if left.is_some() {
                match all {
                    Some(all) => open = Some(all),
                    None => candidates.extend(left.and_then(|left| required(part, left))),
                }
            }
        }
        let longest = part.properties().maximum_len();
        left = left.zip(longest).and_then(|(left, longest)| left.checked_sub(longest));
    }
    candidates.extend(open);
    let shortest = |literals: &Literals| literals.iter().map(Vec::len).min().unwrap_or(0);
    candidates
        .into_iter()
        .filter(is_useful)
        .rev()
        .max_by_key(|literals| (shortest(literals), std::cmp::Reverse(literals.len())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use regex::bytes::RegexBuilder;

    use super::super::rules::RULES;
    use super::super::scanner::MAX_BYTES_BEFORE;
    use super::*;

    fn of(expression: &str) -> Vec<String> {
        let found = keywords(expression, MAX_BYTES_BEFORE).unwrap_or_default();
        found.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn every_match_has_a_derived_keyword() {
        assert_eq!(of(r"\b(gh[po]_[A-Za-z0-9]{36})\b"), ["gho_", "ghp_"]);
        assert_eq!(
            of(r"(?i)\w{0,40}(?:api[_-]?key|secret)s?\w{0,9}[:=](\w+)"),
            ["api-key", "api_key", "apikey", "secret"]
        );
        assert_eq!(of(r#""auths?"\s*:(\w+)"#), ["auth"]);
        assert_eq!(of(r"sk-[a-z]{20,150}T3Blbk"), ["t3blbk"]);
        // A keyword after a part of unbounded length is out of reach.
        assert_eq!(of(r"(eyJ[a-z]{17,}\.eyJhello)"), ["eyj"]);
        assert_eq!(of(r"[a-z]+"), [""; 0]);
    }

    /// Returns the source of the table.
    fn table() -> String {
        let mut rules_of: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (number, rule) in RULES.iter().enumerate() {
            for keyword in keywords(rule.pattern, MAX_BYTES_BEFORE).unwrap_or_default() {
                rules_of.entry(keyword).or_default().push(number);
            }
        }
        let mut text = HEAD.to_owned();
        for (keyword, rules) in rules_of {
            let keyword = String::from_utf8(keyword).unwrap();
            writeln!(text, "    ({keyword:?}, &{rules:?}),").unwrap();
        }
        text + "];\n"
    }

    const HEAD: &str = "\
//! The keywords of the rules, each with the numbers of its rules; written by a test from their expressions:
//! `UPDATE_KEYWORDS=1 cargo test --workspace --lib keyword_table`.

#[rustfmt::skip]
pub(super) const KEYWORDS: &[(&str, &[usize])] = &[
";

    #[test]
    fn the_keyword_table_matches_the_expressions() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/secrets/keyword_table.rs");
        if std::env::var_os("UPDATE_KEYWORDS").is_some() {
            std::fs::write(path, table()).unwrap();
        }
        let known = std::fs::read_to_string(path).unwrap();
        assert!(known == table(), "rules have changed: run this with UPDATE_KEYWORDS=1");
    }

    /// Draws a match of an expression.
    fn drawn(hir: &Hir, next: &mut impl FnMut(usize) -> usize, text: &mut Vec<u8>) {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => text.extend_from_slice(&literal.0),
            HirKind::Class(Class::Bytes(class)) => {
                let all = class.iter().flat_map(|range| range.start()..=range.end());
                let all: Vec<u8> = all.filter(u8::is_ascii_graphic).collect();
                // Whitespace and line ends are classes, too.
                let chosen = if all.is_empty() { b' ' } else { all[next(all.len())] };
                text.push(chosen);
            }
            HirKind::Class(Class::Unicode(_)) => unreachable!("expressions are over bytes"),
            HirKind::Capture(capture) => drawn(&capture.sub, next, text),
            HirKind::Repetition(Repetition { min, max, sub, .. }) => {
                let most = max.unwrap_or(min + 40).min(min + 40);
                let times = *min as usize + next((most - min) as usize + 1);
                (0..times).for_each(|_| drawn(sub, next, text));
            }
            HirKind::Concat(parts) => parts.iter().for_each(|part| drawn(part, next, text)),
            HirKind::Alternation(parts) => drawn(&parts[next(parts.len())], next, text),
        }
    }

    #[test]
    fn every_match_of_a_rule_contains_its_keyword() {
        let mut state = 7_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for rule in RULES {
            let words = keywords(rule.pattern, MAX_BYTES_BEFORE).unwrap_or_default();
            assert!(!words.is_empty(), "{}", rule.id);
            let hir = parsed(rule.pattern).unwrap();
            let regex = RegexBuilder::new(rule.pattern).unicode(false).build().unwrap();
            for _ in 0..40 {
                let mut example = Vec::new();
                drawn(&hir, &mut next, &mut example);
                let Some(found) = regex.find(&example) else { continue };
                let lower = found.as_bytes().to_ascii_lowercase();
                let at = words.iter().filter_map(|word| memchr::memmem::find(&lower, word)).min();
                assert!(at.is_some_and(|at| at <= MAX_BYTES_BEFORE), "{}: {at:?}", rule.id);
            }
        }
    }
}
