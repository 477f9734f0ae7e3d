//! The scanner: one pass for the keywords of all rules, and expressions only around what it finds.
//!
//! Content is text in JSON more often than not, and JSON in it again. So the bytes around a keyword
//! are looked at as they are, and with the escapes of JSON taken off once, twice and three times.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use super::rules::{ASSIGNMENT, RULES, SecretRule};
use super::value::is_secret;

/// The bytes before a keyword in which a secret begins.
const BEFORE: usize = 192;

/// Times that JSON stands inside JSON.
const MAX_NESTING: usize = 3;

/// A secret in some bytes. Its value is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundSecret {
    /// The id of the rule that it has the form of.
    pub rule: &'static str,
    /// The value, without escapes.
    pub value: String,
    /// The offset in the bytes near which it was found first.
    pub offset: usize,
}

impl std::fmt::Debug for FoundSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}, {} bytes", self.rule, self.offset, self.value.len())
    }
}

/// Bytes that are searched by an automaton which is made at once. The other one is faster, and to make it takes
/// as long as to search through so much: few calls of a hook or a push ever have that.
const SMALL_BYTES: u64 = 1 << 20;

/// The compiled rules.
struct Scanner {
    keywords: AhoCorasick,
    /// The same, for much.
    fast_keywords: OnceLock<Option<AhoCorasick>>,
    searched: AtomicU64,
    /// The rules of each keyword.
    rules_of: Vec<Vec<usize>>,
    /// Compiled when their keyword is met first.
    expressions: Vec<OnceLock<Option<Regex>>>,
}

static SCANNER: LazyLock<Option<Scanner>> = LazyLock::new(Scanner::new);

/// Returns the secrets in some bytes, each value once, in order of their offsets.
#[must_use]
pub fn find_secrets(bytes: &[u8]) -> Vec<FoundSecret> {
    // The rules are fixed, and a test compiles them.
    SCANNER.as_ref().map(|scanner| scanner.scan(bytes)).unwrap_or_default()
}

/// Finds keywords, in the order in which they are given.
fn automaton<'k>(
    keywords: impl Iterator<Item = &'k &'k str>,
    kind: AhoCorasickKind,
) -> Option<AhoCorasick> {
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(kind))
        .build(keywords)
        .ok()
}

impl Scanner {
    fn new() -> Option<Self> {
        let mut rules_of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, rule) in RULES.iter().enumerate() {
            for keyword in rule.keywords {
                rules_of.entry(keyword).or_default().push(number);
            }
        }
        let keywords = automaton(rules_of.keys(), AhoCorasickKind::ContiguousNFA)?;
        let (fast_keywords, searched) = (OnceLock::new(), AtomicU64::new(0));
        let expressions = RULES.iter().map(|_| OnceLock::new()).collect();
        let rules_of = rules_of.into_values().collect();
        Some(Self { keywords, fast_keywords, searched, rules_of, expressions })
    }

    /// The automaton for some more bytes.
    fn keywords(&self, bytes: &[u8]) -> &AhoCorasick {
        let length = bytes.len() as u64;
        let before = self.searched.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) < SMALL_BYTES {
            return &self.keywords;
        }
        let made = || {
            let names: BTreeSet<&str> =
                RULES.iter().flat_map(|rule| rule.keywords).copied().collect();
            automaton(names.iter(), AhoCorasickKind::DFA)
        };
        self.fast_keywords.get_or_init(made).as_ref().unwrap_or(&self.keywords)
    }

    fn scan(&self, bytes: &[u8]) -> Vec<FoundSecret> {
        let mut found: BTreeMap<(usize, String), usize> = BTreeMap::new();
        let mut open: Vec<Option<Range<usize>>> = vec![None; RULES.len()];
        for hit in self.keywords(bytes).find_overlapping_iter(bytes) {
            let rules = self.rules_of.get(hit.pattern().as_usize());
            for number in rules.into_iter().flatten().copied() {
                let (Some(rule), Some(window)) = (RULES.get(number), open.get_mut(number)) else {
                    continue;
                };
                let end = (hit.end() + rule.reach).min(bytes.len());
                match window {
                    Some(window) if hit.start() <= window.end => window.end = end,
                    _ => {
                        let start = hit.start().saturating_sub(BEFORE);
                        if let Some(done) = window.replace(start..end) {
                            self.look(number, bytes, done, &mut found);
                        }
                    }
                }
            }
        }
        for (number, window) in open.into_iter().enumerate() {
            if let Some(window) = window {
                self.look(number, bytes, window, &mut found);
            }
        }
        named(found)
    }

    /// Looks for values of one rule in a part of the bytes.
    fn look(
        &self,
        number: usize,
        bytes: &[u8],
        window: Range<usize>,
        found: &mut BTreeMap<(usize, String), usize>,
    ) {
        let (Some(rule), Some(expression)) = (RULES.get(number), self.expression(number)) else {
            return;
        };
        let part = bytes.get(window.clone()).unwrap_or_default();
        let mut level: Option<Vec<u8>> = None;
        for _ in 0..=MAX_NESTING {
            let text = level.as_deref().unwrap_or(part);
            for value in values(rule, expression, text) {
                let at = memmem::find(part, value.as_bytes()).unwrap_or(BEFORE.min(part.len()));
                found.entry((number, value.to_owned())).or_insert(window.start + at);
            }
            match unescaped(text) {
                Some(next) => level = Some(next),
                None => break,
            }
        }
    }

    fn expression(&self, number: usize) -> Option<&Regex> {
        let compile = || {
            let rule = RULES.get(number)?;
            RegexBuilder::new(rule.pattern).unicode(false).build().ok()
        };
        self.expressions.get(number)?.get_or_init(compile).as_ref()
    }
}

/// The values of one rule in a text.
fn values<'t>(rule: &SecretRule, expression: &Regex, text: &'t [u8]) -> Vec<&'t str> {
    let mut values = Vec::new();
    for captures in expression.captures_iter(text) {
        let groups = captures.iter().skip(1).flatten();
        let texts: Vec<&str> =
            groups.filter_map(|group| std::str::from_utf8(group.as_bytes()).ok()).collect();
        let (name, value) = match texts.as_slice() {
            [value] => ("", *value),
            [name, value] => (*name, *value),
            _ => continue,
        };
        if is_secret(rule, name, value) {
            values.push(value);
        }
    }
    values
}

/// Every value once, under the rule that says most of it: an assignment of what another rule knows is
/// that one's, and a part of a longer secret belongs to that.
fn named(found: BTreeMap<(usize, String), usize>) -> Vec<FoundSecret> {
    let mut all: Vec<FoundSecret> = found
        .into_iter()
        .filter_map(|((number, value), offset)| {
            RULES.get(number).map(|rule| FoundSecret { rule: rule.id, value, offset })
        })
        .collect();
    // Rules stand in the order of how much they say.
    let rank = |secret: &FoundSecret| RULES.iter().position(|rule| rule.id == secret.rule);
    all.sort_by_cached_key(|secret| (secret.rule == ASSIGNMENT, rank(secret)));
    let (mut kept, mut values): (Vec<FoundSecret>, BTreeSet<String>) =
        (Vec::new(), BTreeSet::new());
    for secret in all {
        let is_known = values.iter().any(|known| {
            known.contains(&secret.value)
                || (secret.rule == ASSIGNMENT || secret.rule == "url-password")
                    && secret.value.contains(known)
        });
        if !is_known {
            values.insert(secret.value.clone());
            kept.push(secret);
        }
    }
    kept.sort_by_key(|secret| secret.offset);
    kept
}

/// The text without one level of the escapes of JSON; `None` when it has none.
pub(crate) fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(b'\\', text)?;
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut is_changed = false;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        plain.extend_from_slice(before);
        let (byte, length) = match escape.get(1) {
            Some(b'n') => (Some(b'\n'), 2),
            Some(b't') => (Some(b'\t'), 2),
            Some(b'r') => (Some(b'\r'), 2),
            Some(b'b') => (Some(8), 2),
            Some(b'f') => (Some(12), 2),
            Some(b'u') => match escape.get(2..6).and_then(character) {
                Some(c) => {
                    plain.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    (None, 6)
                }
                None => (Some(b'\\'), 1),
            },
            Some(other @ (b'"' | b'\\' | b'/')) => (Some(*other), 2),
            _ => (Some(b'\\'), 1),
        };
        is_changed |= length > 1;
        plain.extend(byte);
        rest = escape.get(length..).unwrap_or_default();
    }
    plain.extend_from_slice(rest);
    is_changed.then_some(plain)
}

fn character(digits: &[u8]) -> Option<char> {
    let digits = std::str::from_utf8(digits).ok()?;
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_compiles_and_is_named_once() {
        let scanner = Scanner::new().unwrap();
        let mut ids = BTreeSet::new();
        for (number, rule) in RULES.iter().enumerate() {
            assert!(scanner.expression(number).is_some(), "{}", rule.id);
            assert!(ids.insert(rule.id), "{}", rule.id);
            let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(rule.id.chars().all(is_id), "{}", rule.id);
            let is_keyword = |word: &&str| !word.is_empty() && **word == word.to_ascii_lowercase();
            assert!(rule.keywords.iter().all(is_keyword), "{}", rule.id);
        }
        assert!(RULES.len() >= 60);
    }

    #[test]
    fn what_is_found_in_little_and_in_much_is_the_same() {
        let names: BTreeSet<&str> = RULES.iter().flat_map(|rule| rule.keywords).copied().collect();
        let text = names.iter().copied().collect::<Vec<_>>().join("");
        let text = format!("{text} {}", text.to_ascii_uppercase());
        let hits = |kind| -> Vec<_> {
            let keywords = automaton(names.iter(), kind).unwrap();
            let hits = keywords.find_overlapping_iter(text.as_bytes());
            hits.map(|hit| (hit.pattern(), hit.range())).collect()
        };
        let small = hits(AhoCorasickKind::ContiguousNFA);
        assert!(small.len() >= 2 * names.len());
        assert_eq!(small, hits(AhoCorasickKind::DFA));
    }
}
