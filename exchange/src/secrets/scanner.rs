//! The scanner: searches the keywords of all rules in one pass, and runs expressions only around
//! matches.
//!
//! Content is mostly text in JSON, and often nested JSON. The bytes around a keyword are matched as
//! they are, and with JSON escapes removed level by level. If a keyword itself may be escaped, the
//! whole content is decoded first: [`each_layer`].

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use turntree::maintenance::{Layer, each_layer};

use super::keyword_table::KEYWORDS;
use super::rules::{ASSIGNMENT, RULES, SecretRule};
use super::value::is_secret;

/// Maximum number of bytes from the start of a secret to a keyword.
pub(super) const MAX_BYTES_BEFORE: usize = 192;

/// Maximum number of bytes of a value beyond the reach of its rule.
const MAX_VALUE_BYTES: usize = 12_000;

/// Maximum nesting depth of JSON in JSON.
const MAX_NESTING: usize = 6;

/// A secret in some bytes. `Debug` does not show its value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundSecret {
    /// The id of the rule that it matches.
    pub rule: &'static str,
    /// The value, without escapes.
    pub value: String,
    /// The offset of its first occurrence, in any encoded form.
    pub offset: usize,
    /// The offset after it.
    pub end: usize,
}

impl std::fmt::Debug for FoundSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}, {} bytes", self.rule, self.offset, self.value.len())
    }
}

/// Number of bytes to search before a faster automaton is built. Building it takes as long as
/// searching this many bytes, and a hook or a push rarely searches more.
const SMALL_BYTES: u64 = 1 << 20;

/// The compiled rules.
struct Scanner {
    keywords: AhoCorasick,
    /// The fast automaton, for large inputs.
    fast_keywords: OnceLock<Option<AhoCorasick>>,
    searched: AtomicU64,
    /// The expressions, each compiled at the first match of its keyword.
    expressions: Vec<OnceLock<Option<Regex>>>,
}

static SCANNER: LazyLock<Option<Scanner>> = LazyLock::new(Scanner::new);

/// Returns the distinct secrets in some bytes, ordered by offset.
#[must_use]
pub fn find_secrets(bytes: &[u8]) -> Vec<FoundSecret> {
    // The rules are constant, and a test compiles them.
    SCANNER.as_ref().map(|scanner| scanner.scan(bytes)).unwrap_or_default()
}

/// Builds an automaton that finds the keywords by their index in the table.
fn automaton(kind: AhoCorasickKind) -> Option<AhoCorasick> {
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(kind))
        .build(KEYWORDS.iter().map(|(keyword, _)| keyword))
        .ok()
}

impl Scanner {
    fn new() -> Option<Self> {
        let keywords = automaton(AhoCorasickKind::ContiguousNFA)?;
        let (fast_keywords, searched) = (OnceLock::new(), AtomicU64::new(0));
        let expressions = RULES.iter().map(|_| OnceLock::new()).collect();
        Some(Self { keywords, fast_keywords, searched, expressions })
    }

    /// Returns the automaton to search further bytes.
    fn keywords(&self, bytes: &[u8]) -> &AhoCorasick {
        let length = bytes.len() as u64;
        let before = self.searched.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) < SMALL_BYTES {
            return &self.keywords;
        }
        let made = || automaton(AhoCorasickKind::DFA);
        self.fast_keywords.get_or_init(made).as_ref().unwrap_or(&self.keywords)
    }

    fn scan(&self, bytes: &[u8]) -> Vec<FoundSecret> {
        let mut found = FoundValues::default();
        self.scan_layer(&Layer::of(bytes, 0), &mut found);
        let _ = each_layer(bytes, &mut |layer| {
            self.scan_layer(layer, &mut found);
            ControlFlow::Continue(())
        });
        deduplicate(found)
    }

    fn scan_layer(&self, layer: &Layer<'_>, found: &mut FoundValues) {
        let bytes = layer.text();
        let mut open: Vec<Option<Range<usize>>> = vec![None; RULES.len()];
        for hit in self.keywords(bytes).find_overlapping_iter(bytes) {
            let rules = KEYWORDS.get(hit.pattern().as_usize()).map_or(&[][..], |(_, rules)| rules);
            for number in rules.iter().copied() {
                let (Some(rule), Some(window)) = (RULES.get(number), open.get_mut(number)) else {
                    continue;
                };
                let end = hit.end() + rule.reach;
                match window {
                    Some(window) if hit.start() <= window.end => window.end = end,
                    _ => {
                        let start = hit.start().saturating_sub(MAX_BYTES_BEFORE);
                        if let Some(done) = window.replace(start..end) {
                            self.search_rule(number, layer, done, found);
                        }
                    }
                }
            }
        }
        for (number, window) in open.into_iter().enumerate() {
            if let Some(window) = window {
                self.search_rule(number, layer, window, found);
            }
        }
    }

    /// Searches a part of a layer for values of one rule.
    fn search_rule(
        &self,
        number: usize,
        layer: &Layer<'_>,
        window: Range<usize>,
        found: &mut FoundValues,
    ) {
        let (Some(rule), Some(expression)) = (RULES.get(number), self.expression(number)) else {
            return;
        };
        let text = layer.text();
        let rest = text.get(window.end..).unwrap_or_default();
        let goes_on = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=_.~%-".contains(byte);
        let more = rest.iter().take(MAX_VALUE_BYTES).take_while(goes_on).count();
        // Include the byte after a value, which shows that the value ends.
        let end = text.len().min(window.end + more + 1);
        let part = text.get(window.start..end).unwrap_or_default();
        let mut add = |value: &str, place: Range<usize>| {
            let (start, end) = (window.start + place.start, window.start + place.end);
            let order = found.len();
            let place = || (order, layer.source(start..end));
            found.entry((number, value.to_owned())).or_insert_with(place);
        };
        search_levels((rule, expression), &Layer::of(part, 0), 0, &mut add);
    }

    fn expression(&self, number: usize) -> Option<&Regex> {
        let compile = || {
            let rule = RULES.get(number)?;
            RegexBuilder::new(rule.pattern).unicode(false).build().ok()
        };
        self.expressions.get(number)?.get_or_init(compile).as_ref()
    }
}

/// Values by rule, with their order of discovery, and their positions.
type FoundValues = BTreeMap<(usize, String), (usize, Range<usize>)>;

/// Adds the values of one rule in a text, and in the text without escapes.
fn search_levels(
    rule: (&SecretRule, &Regex),
    level: &Layer<'_>,
    depth: usize,
    add: &mut dyn FnMut(&str, Range<usize>),
) {
    for (value, range) in values(rule, level.text()) {
        add(value, level.source(range));
    }
    if depth < MAX_NESTING
        && let Some(next) = level.unescaped()
    {
        search_levels(rule, &next, depth + 1, add);
    }
}

/// Returns the values of one rule in a text.
fn values<'t>(
    (rule, expression): (&SecretRule, &Regex),
    text: &'t [u8],
) -> Vec<(&'t str, Range<usize>)> {
    let mut values = Vec::new();
    for captures in expression.captures_iter(text) {
        let groups = captures.iter().skip(1).flatten();
        let texts: Vec<(&str, Range<usize>)> = groups
            .filter_map(|group| Some((std::str::from_utf8(group.as_bytes()).ok()?, group.range())))
            .collect();
        let (name, value) = match texts.as_slice() {
            [value] => ("", value),
            [(name, _), value] => (*name, value),
            _ => continue,
        };
        if is_secret(rule, name, value.0) {
            values.push(value.clone());
        }
    }
    values
}

/// Returns every value once, under its most specific rule. An assignment loses against other rules,
/// and a part of a longer secret, or of its encoded bytes, belongs to the longer one.
fn deduplicate(found: FoundValues) -> Vec<FoundSecret> {
    let mut all: Vec<(usize, FoundSecret)> = found
        .into_iter()
        .filter_map(|((number, value), (order, place))| {
            let (offset, end) = (place.start, place.end);
            RULES.get(number).map(|rule| (order, FoundSecret { rule: rule.id, value, offset, end }))
        })
        .collect();
    // Rules are ordered by specificity.
    let rank = |secret: &FoundSecret| RULES.iter().position(|rule| rule.id == secret.rule);
    all.sort_by_cached_key(|(order, secret)| (secret.rule == ASSIGNMENT, rank(secret), *order));
    let mut kept: Vec<FoundSecret> = Vec::new();
    for (_, secret) in all {
        let is_known = kept.iter().any(|known| {
            let is_inside = known.offset <= secret.offset && secret.end <= known.end;
            is_inside
                || known.value.contains(&secret.value)
                || (secret.rule == ASSIGNMENT || secret.rule == "url-password")
                    && secret.value.contains(&known.value)
        });
        if !is_known {
            kept.push(secret);
        }
    }
    kept.sort_by_key(|secret| secret.offset);
    kept
}

/// Returns true if a text contains a value, as it is or in a form that is decoded.
pub(crate) fn has_value(text: &str, value: &str) -> bool {
    fn is_in(layer: &Layer<'_>, value: &str, depth: usize) -> bool {
        memmem::find(layer.text(), value.as_bytes()).is_some()
            || depth < MAX_NESTING
                && layer.unescaped().is_some_and(|next| is_in(&next, value, depth + 1))
    }
    let find = |layer: &Layer<'_>| match memmem::find(layer.text(), value.as_bytes()) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    };
    is_in(&Layer::of(text.as_bytes(), 0), value, 0)
        || each_layer(text.as_bytes(), &mut |layer| find(layer)).is_break()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_compiles_and_has_a_unique_id() {
        let scanner = Scanner::new().unwrap();
        let mut ids = BTreeSet::new();
        for (number, rule) in RULES.iter().enumerate() {
            assert!(scanner.expression(number).is_some(), "{}", rule.id);
            assert!(ids.insert(rule.id), "{}", rule.id);
            let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(rule.id.chars().all(is_id), "{}", rule.id);
        }
        assert!(RULES.len() >= 60);
    }

    #[test]
    fn small_and_large_inputs_yield_the_same_secrets() {
        let text: String = KEYWORDS.iter().map(|(keyword, _)| *keyword).collect();
        let text = format!("{text} {}", text.to_ascii_uppercase());
        let hits = |kind| -> Vec<_> {
            let keywords = automaton(kind).unwrap();
            let hits = keywords.find_overlapping_iter(text.as_bytes());
            hits.map(|hit| (hit.pattern(), hit.range())).collect()
        };
        let small = hits(AhoCorasickKind::ContiguousNFA);
        assert!(small.len() >= 2 * KEYWORDS.len());
        assert_eq!(small, hits(AhoCorasickKind::DFA));
    }
}
