//! Patterns: what is searched for, in every form in which JSON may have written it, and what takes
//! its place.

use std::collections::BTreeSet;
use std::fmt;

use regex::bytes::{NoExpand, Regex, RegexBuilder};

use crate::error::{Error, Result};

/// The default replacement of a match.
pub const DEFAULT_REPLACEMENT: &str = "[redacted]";

/// Longest string or expression that is searched for, in bytes.
pub(crate) const MAX_PATTERN_BYTES: usize = 16 << 10;

/// Times that JSON may stand inside JSON: the arguments of a tool are often JSON in a string of a
/// record, and what they quote may be JSON again.
const MAX_NESTING: usize = 3;

/// Most bytes that a compiled expression may have.
const MAX_COMPILED_BYTES: usize = 256 << 20;

/// Times that replacing is repeated: what is left beside a match may be a match with its neighbour.
const MAX_ROUNDS: usize = 32;

/// Characters that names of refs may not hold, beside white space and control characters.
const NOT_IN_NAMES: &str = "[]~^:?*\\/";

/// Something that must not be in a store, and what stands there instead.
#[derive(Clone)]
pub struct Pattern {
    regex: Regex,
    replacement: String,
    name_replacement: String,
}

/// The pattern is a secret, which no log shows.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pattern")
    }
}

/// The position of a match in some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PatternMatch {
    /// The line, from 1.
    pub line: u64,
    /// The byte, from 0.
    pub offset: u64,
}

impl Pattern {
    /// The string `text`, as it is and as JSON escapes it, also JSON inside JSON.
    ///
    /// # Errors
    /// `InvalidInput` for an empty string, for a replacement that would itself be found, or for one
    /// that would break JSON; `LimitExceeded` over `MAX_PATTERN_BYTES`.
    pub fn literal(text: &str, replacement: &str) -> Result<Self> {
        Self::new(&every_form(text), text.len(), replacement)
    }

    /// A regular expression over bytes, in the syntax of the `regex` crate. What JSON escapes is
    /// searched as it is written.
    ///
    /// # Errors
    /// Those of [`Pattern::literal`], and `InvalidInput` for an expression that is none, or that
    /// matches the empty string.
    pub fn regex(expression: &str, replacement: &str) -> Result<Self> {
        Self::new(expression, expression.len(), replacement)
    }

    fn new(expression: &str, bytes: usize, replacement: &str) -> Result<Self> {
        if bytes > MAX_PATTERN_BYTES {
            let limit = MAX_PATTERN_BYTES as u64;
            return Err(Error::limit("bytes to search for", limit, bytes as u64));
        }
        let regex = RegexBuilder::new(expression).size_limit(MAX_COMPILED_BYTES).build();
        let regex = regex.map_err(|error| {
            // The error shows the whole expression; its last line says what is wrong with it.
            let text = error.to_string();
            let fault = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Error::invalid(format!("expected a regular expression: {fault}"))
        })?;
        if regex.is_match(b"") {
            return Err(Error::invalid("what is searched for must not match the empty string"));
        }
        if replacement.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
            let message = "a replacement may stand in JSON: expected no quotes, backslashes or \
                           control characters";
            return Err(Error::invalid(message));
        }
        if regex.is_match(replacement.as_bytes()) {
            return Err(Error::invalid("the replacement holds what is to be removed"));
        }
        let allowed = |c: &char| !c.is_whitespace() && !NOT_IN_NAMES.contains(*c);
        let name_replacement = replacement.chars().filter(allowed).collect();
        Ok(Self { regex, replacement: replacement.to_owned(), name_replacement })
    }

    /// Returns true if `bytes` hold it.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        self.regex.is_match(bytes)
    }

    /// Counts the matches in `bytes`, and returns the positions of the first, at most `most`.
    pub(super) fn find(&self, bytes: &[u8], most: usize) -> (u64, Vec<PatternMatch>) {
        let (mut count, mut spots) = (0, Vec::new());
        let (mut line, mut counted) = (1, 0);
        for found in self.regex.find_iter(bytes) {
            count += 1;
            if spots.len() < most {
                let between = bytes.get(counted..found.start()).unwrap_or_default();
                line += between.iter().filter(|byte| **byte == b'\n').count() as u64;
                counted = found.start();
                spots.push(PatternMatch { line, offset: found.start() as u64 });
            }
        }
        (count, spots)
    }

    /// Counts the matches in `bytes`.
    #[must_use]
    pub fn count(&self, bytes: &[u8]) -> u64 {
        self.find(bytes, 0).0
    }

    /// `bytes` without it.
    ///
    /// # Errors
    /// `InvalidInput` when replacing makes new matches all the time.
    pub fn replace(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.replace_with(bytes, &self.replacement)
    }

    /// `text` without it.
    ///
    /// # Errors
    /// Those of [`Pattern::replace`].
    pub(super) fn replace_text(&self, text: &str) -> Result<String> {
        self.replace(text.as_bytes()).map(into_text)
    }

    /// A name of a session, branch, tag or pin without it: what such names may not hold is left out
    /// of the replacement.
    ///
    /// # Errors
    /// Those of [`Pattern::replace`].
    pub(super) fn replace_name(&self, name: &str) -> Result<String> {
        self.replace_with(name.as_bytes(), &self.name_replacement).map(into_text)
    }

    /// `text` as it may be shown.
    pub(super) fn hide(&self, text: &str) -> String {
        self.replace_text(text).unwrap_or_else(|_| DEFAULT_REPLACEMENT.to_owned())
    }

    fn replace_with(&self, bytes: &[u8], replacement: &str) -> Result<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        for _ in 0..MAX_ROUNDS {
            if !self.is_in(&bytes) {
                return Ok(bytes);
            }
            bytes = self.regex.replace_all(&bytes, NoExpand(replacement.as_bytes())).into_owned();
        }
        Err(Error::invalid("the replacement and what stands beside it match again and again"))
    }
}

/// Text from bytes that were text before some of them were replaced.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// An expression for `text` in every form, the most deeply escaped first.
fn every_form(text: &str) -> String {
    let mut forms: Vec<BTreeSet<String>> = text.chars().map(|c| [c.to_string()].into()).collect();
    let mut levels = Vec::new();
    for _ in 0..=MAX_NESTING {
        let level: String = forms.iter().map(any_of).collect();
        if !levels.contains(&level) {
            levels.push(level);
        }
        forms = forms
            .iter()
            .map(|forms| forms.iter().flat_map(|form| escape(form)).collect())
            .collect();
    }
    levels.reverse();
    levels.join("|")
}

fn any_of(forms: &BTreeSet<String>) -> String {
    let escaped: Vec<String> = forms.iter().map(|form| regex::escape(form)).collect();
    match escaped.as_slice() {
        [only] => only.clone(),
        _ => format!("(?:{})", escaped.join("|")),
    }
}

/// The forms that writers of JSON give to a character, or to one that is escaped already.
fn escape(form: &str) -> Vec<String> {
    let mut chars = form.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else {
        return vec![form.replace('\\', r"\\").replace('"', "\\\"")];
    };
    let short = match c {
        '"' | '\\' | '/' => Some(c),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        _ => None,
    };
    let mut forms: Vec<String> = short.map(|short| format!("\\{short}")).into_iter().collect();
    if c >= ' ' && !matches!(c, '"' | '\\') {
        forms.push(form.to_owned());
    }
    if !c.is_ascii_alphanumeric() {
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units);
        forms.push(units.iter().map(|unit| format!("\\u{unit:04x}")).collect());
        forms.push(units.iter().map(|unit| format!("\\u{unit:04X}")).collect());
    }
    forms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn literal(text: &str) -> Pattern {
        Pattern::literal(text, "X").unwrap()
    }

    turntree_properties::properties! {
        #[test]
        fn a_string_is_found_however_deep_in_json(text in "[^X]{1,12}") {
            let pattern = literal(&text);
            let mut form = text;
            for _ in 0..=MAX_NESTING {
                prop_assert!(pattern.is_in(form.as_bytes()), "{form}");
                form = serde_json::to_string(&form).unwrap();
                form = form[1..form.len() - 1].to_owned();
            }
        }

        #[test]
        fn after_replacing_nothing_is_found(text in "[ab\"\\\\\n]{1,4}", around in "[ab\"\\\\\n]{0,40}") {
            let pattern = literal(&text);
            let replaced = pattern.replace(around.as_bytes()).unwrap();
            prop_assert!(!pattern.is_in(&replaced));
        }
    }

    #[test]
    fn other_ways_to_escape_are_found_too() {
        let pattern = literal("é/😀<\"");
        for form in [r#"\u00e9\/\ud83d\ude00\u003c\""#, r#"\u00E9/\uD83D\uDE00<\u0022"#] {
            assert!(pattern.is_in(form.as_bytes()), "{form}");
        }
        assert!(!pattern.is_in("é/😀>\"".as_bytes()));
    }

    #[test]
    fn matches_are_counted_and_placed_by_line_and_byte() {
        let spot = |line, offset| PatternMatch { line, offset };
        let found = literal("key").find(b"key\n\n a key, key", 2);
        assert_eq!(found, (3, vec![spot(1, 0), spot(3, 8)]));
    }

    #[test]
    fn what_would_never_end_or_break_records_is_refused() {
        for (text, replacement) in [("", "X"), ("red", "[redacted]"), ("x", "\""), ("x", "\\")] {
            assert!(Pattern::literal(text, replacement).is_err(), "{text:?} {replacement:?}");
        }
        for expression in ["a*", "(", "^"] {
            assert!(Pattern::regex(expression, "X").is_err(), "{expression}");
        }
        let long = "k".repeat(MAX_PATTERN_BYTES + 1);
        let error = Pattern::literal(&long, "X").unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::LimitExceeded);
    }

    #[test]
    fn names_get_a_replacement_that_names_may_have() {
        let pattern = Pattern::literal("key", DEFAULT_REPLACEMENT).unwrap();
        assert_eq!(pattern.replace_name("a-key").unwrap(), "a-redacted");
        assert_eq!(pattern.replace_text("a-key").unwrap(), "a-[redacted]");
    }
}
