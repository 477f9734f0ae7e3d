//! Patterns: the strings or the expression to remove, matched in every form of writing, and the
//! replacements.

use std::fmt;
use std::ops::{ControlFlow, Range};

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::forms::{MIN_BASE64_BYTES, all_forms};
use super::layers::each_layer;
use crate::error::{Error, Result};

/// The default replacement of a match.
pub const DEFAULT_REPLACEMENT: &str = "[redacted]";

/// The longest string or expression, in bytes.
pub(crate) const MAX_PATTERN_BYTES: usize = 16 << 10;

/// The maximum total length of the strings in one pattern, in bytes.
const MAX_LITERAL_BYTES: usize = 1 << 20;

/// The maximum size of a compiled expression, in bytes.
const MAX_COMPILED_BYTES: usize = 256 << 20;

/// The maximum number of rounds of replacing: the rest around a replaced match may form a new
/// match.
const MAX_ROUNDS: usize = 32;

/// Characters that names of refs must not hold, besides white space and control characters.
const NOT_IN_NAMES: &str = "[]~^:?*\\/";

/// Content that must not be in a store, and its replacement.
#[derive(Clone)]
pub struct Pattern {
    regex: Regex,
    /// The raw strings in the same groups, for decoded texts; `None` for an expression.
    plain: Option<Regex>,
    /// One replacement, or one for each group of the expression.
    replacements: Vec<Replacement>,
}

/// The replacement of a match.
#[derive(Clone)]
struct Replacement {
    text: String,
    name: String,
}

/// Hides the pattern, which is a secret, from logs.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pattern")
    }
}

/// The position of a match in some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PatternMatch {
    /// The line, starting at 1.
    pub line: u64,
    /// The byte offset, starting at 0.
    pub offset: u64,
}

/// A match in a decoded text.
struct DecodedMatch {
    /// The source bytes of the match.
    place: Range<usize>,
    /// The matched text.
    text: Vec<u8>,
    /// Set for UTF-16: true if the high byte of a unit comes first.
    utf16: Option<bool>,
}

impl Pattern {
    /// Matches the string `text`: raw, escaped for JSON once or several times, percent-encoded,
    /// between the color sequences of a terminal, in UTF-16, and inside base64, in any nesting.
    ///
    /// # Errors
    /// `InvalidInput` for an empty string, for a replacement that itself matches, or for one that
    /// would break JSON; `LimitExceeded` over `MAX_PATTERN_BYTES`.
    pub fn literal(text: &str, replacement: &str) -> Result<Self> {
        let plain = Some(regex::escape(text));
        Self::new(&all_forms(text), plain, text.len(), [replacement.to_owned()])
    }

    /// Matches several strings, each with a replacement, in the forms of [`Pattern::literal`].
    /// Longer strings match first.
    ///
    /// # Errors
    /// Errors of [`Pattern::literal`], and `InvalidInput` without strings.
    pub fn literals<'t>(literals: impl Iterator<Item = (&'t str, String)>) -> Result<Self> {
        let mut literals: Vec<(&str, String)> = literals.collect();
        literals.sort_by_key(|(text, _)| (std::cmp::Reverse(text.len()), *text));
        literals.dedup_by_key(|(text, _)| *text);
        if let Some((longest, _)) =
            literals.first().filter(|(text, _)| text.len() > MAX_PATTERN_BYTES)
        {
            let limit = MAX_PATTERN_BYTES as u64;
            return Err(Error::limit("bytes to search for", limit, longest.len() as u64));
        }
        let bytes: usize = literals.iter().map(|(text, _)| text.len()).sum();
        if bytes > MAX_LITERAL_BYTES {
            let limit = MAX_LITERAL_BYTES as u64;
            return Err(Error::limit("bytes of all texts to search for", limit, bytes as u64));
        }
        let groups = |form: &dyn Fn(&str) -> String| {
            let groups: Vec<String> =
                literals.iter().map(|(text, _)| format!("({})", form(text))).collect();
            groups.join("|")
        };
        let (forms, plain) = (groups(&all_forms), groups(&regex::escape));
        let replacements = literals.into_iter().map(|(_, replacement)| replacement);
        Self::new(&forms, Some(plain), 0, replacements)
    }

    /// Matches a regular expression over bytes, in the syntax of the `regex` crate. Matches raw
    /// bytes only, and no other form.
    ///
    /// # Errors
    /// Errors of [`Pattern::literal`], and `InvalidInput` for an invalid expression or one that
    /// matches the empty string.
    pub fn regex(expression: &str, replacement: &str) -> Result<Self> {
        Self::new(expression, None, expression.len(), [replacement.to_owned()])
    }

    fn new(
        expression: &str,
        plain: Option<String>,
        bytes: usize,
        replacements: impl IntoIterator<Item = String>,
    ) -> Result<Self> {
        if bytes > MAX_PATTERN_BYTES {
            let limit = MAX_PATTERN_BYTES as u64;
            return Err(Error::limit("bytes to search for", limit, bytes as u64));
        }
        let compiled =
            |expression: &str| RegexBuilder::new(expression).size_limit(MAX_COMPILED_BYTES).build();
        let plain = plain.and_then(|plain| compiled(&plain).ok());
        let regex = compiled(expression).map_err(|error| {
            // The error shows the whole expression, and its last line the reason.
            let text = error.to_string();
            let fault = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Error::invalid(format!("expected a regular expression: {fault}"))
        })?;
        if regex.is_match(b"") {
            return Err(Error::invalid("the pattern must not match the empty string"));
        }
        let replacements = replacements.into_iter().map(|text| {
            if text.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
                let message = "a replacement may be written into JSON: expected no quotes, \
                               backslashes or control characters";
                return Err(Error::invalid(message));
            }
            if regex.is_match(text.as_bytes()) {
                return Err(Error::invalid("the replacement must not match the pattern"));
            }
            let allowed = |c: &char| !c.is_whitespace() && !NOT_IN_NAMES.contains(*c);
            Ok(Replacement { name: text.chars().filter(allowed).collect(), text })
        });
        let replacements = replacements.collect::<Result<_>>()?;
        Ok(Self { regex, plain, replacements })
    }

    /// Returns true if `bytes` have a match.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        self.regex.is_match(bytes) || self.visit_decoded(bytes, &mut |_| ControlFlow::Break(()))
    }

    /// Visits the matches in decoded texts until a visit breaks; returns true if a visit broke.
    fn visit_decoded(
        &self,
        bytes: &[u8],
        visit: &mut dyn FnMut(DecodedMatch) -> ControlFlow<()>,
    ) -> bool {
        let Some(plain) = &self.plain else { return false };
        let flow = each_layer(bytes, &mut |layer| {
            for found in plain.find_iter(layer.text()) {
                if found.len() < MIN_BASE64_BYTES && layer.is_of_base64() {
                    continue;
                }
                let place = layer.source(found.range());
                let text = found.as_bytes().to_vec();
                let utf16 = layer.utf16_order(&place, bytes);
                visit(DecodedMatch { place, text, utf16 })?;
            }
            ControlFlow::Continue(())
        });
        flow.is_break()
    }

    /// Returns the matches in decoded texts, in the order of their places, without overlaps.
    fn decoded(&self, bytes: &[u8]) -> Vec<DecodedMatch> {
        let mut all = Vec::new();
        self.visit_decoded(bytes, &mut |found| {
            all.push(found);
            ControlFlow::Continue(())
        });
        all.sort_by_key(|found| (found.place.start, std::cmp::Reverse(found.place.end)));
        let mut end = 0;
        all.retain(|found| {
            let is_free = found.place.start >= end;
            end = end.max(if is_free { found.place.end } else { 0 });
            is_free
        });
        all
    }

    /// Counts the matches in `bytes`, and returns the positions of the first `most`.
    pub(super) fn find(&self, bytes: &[u8], most: usize) -> (u64, Vec<PatternMatch>) {
        let (mut count, mut spots) = (0, Vec::new());
        let (mut line, mut counted) = (1, 0);
        let mut places: Vec<Range<usize>> =
            self.regex.find_iter(bytes).map(|found| found.range()).collect();
        let known = places.len();
        for DecodedMatch { place, .. } in self.decoded(bytes) {
            let (written, _) = places.split_at(known);
            let next = written.partition_point(|known| known.end <= place.start);
            if written.get(next).is_none_or(|next| next.start >= place.end) {
                places.push(place);
            }
        }
        places.sort_by_key(|place| place.start);
        for place in places {
            count += 1;
            if spots.len() < most {
                let between = bytes.get(counted..place.start).unwrap_or_default();
                line += between.iter().filter(|byte| **byte == b'\n').count() as u64;
                counted = place.start;
                spots.push(PatternMatch { line, offset: place.start as u64 });
            }
        }
        (count, spots)
    }

    /// Counts the matches in `bytes`.
    #[must_use]
    pub fn count(&self, bytes: &[u8]) -> u64 {
        self.find(bytes, 0).0
    }

    /// Returns `bytes` with all matches replaced.
    ///
    /// # Errors
    /// `InvalidInput` when replacing keeps making new matches.
    pub fn replace(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.replace_with(bytes, |replacement| &replacement.text)
    }

    /// Returns `text` with all matches replaced.
    ///
    /// # Errors
    /// Errors of [`Pattern::replace`].
    pub(super) fn replace_text(&self, text: &str) -> Result<String> {
        self.replace(text.as_bytes()).map(into_text)
    }

    /// Returns a name of a session, branch, tag or pin with all matches replaced. Omits characters
    /// of the replacement that such names must not hold.
    ///
    /// # Errors
    /// Errors of [`Pattern::replace`].
    pub(super) fn replace_name(&self, name: &str) -> Result<String> {
        self.replace_with(name.as_bytes(), |replacement| &replacement.name).map(into_text)
    }

    /// Returns `text` for display, without matches.
    pub(super) fn hide(&self, text: &str) -> String {
        self.replace_text(text).unwrap_or_else(|_| DEFAULT_REPLACEMENT.to_owned())
    }

    fn replace_with(
        &self,
        bytes: &[u8],
        form: impl Fn(&Replacement) -> &String,
    ) -> Result<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        for _ in 0..MAX_ROUNDS {
            if !self.regex.is_match(&bytes) {
                let decoded = self.decoded(&bytes);
                if decoded.is_empty() {
                    return Ok(bytes);
                }
                bytes = self.replace_decoded(&bytes, decoded, &form);
                continue;
            }
            let replaced = self.regex.replace_all(&bytes, |found: &Captures<'_>| {
                let text = self.replacement(found).map_or("", |replacement| form(replacement));
                text.as_bytes().to_vec()
            });
            bytes = replaced.into_owned();
        }
        Err(Error::invalid("the replacement and the text next to it keep matching the pattern"))
    }

    /// Returns the bytes with the matches in decoded texts replaced.
    fn replace_decoded(
        &self,
        bytes: &[u8],
        decoded: Vec<DecodedMatch>,
        form: impl Fn(&Replacement) -> &String,
    ) -> Vec<u8> {
        let (mut replaced, mut end) = (Vec::with_capacity(bytes.len()), 0);
        for DecodedMatch { place, text, utf16 } in decoded {
            replaced.extend_from_slice(bytes.get(end..place.start).unwrap_or_default());
            let found = self.plain.as_ref().and_then(|plain| plain.captures(&text));
            let found = found.and_then(|found| self.replacement(&found));
            let new = found.map_or("", |replacement| form(replacement));
            match utf16 {
                None => replaced.extend_from_slice(new.as_bytes()),
                Some(true) => replaced.extend(new.encode_utf16().flat_map(u16::to_be_bytes)),
                Some(false) => replaced.extend(new.encode_utf16().flat_map(u16::to_le_bytes)),
            }
            end = place.end;
        }
        replaced.extend_from_slice(bytes.get(end..).unwrap_or_default());
        replaced
    }

    /// Returns the replacement of a match: the replacement of its group, if there are several.
    fn replacement(&self, found: &Captures<'_>) -> Option<&Replacement> {
        match self.replacements.as_slice() {
            [only] => Some(only),
            several => {
                let mut groups = several.iter().zip(1..);
                groups.find(|(_, group)| found.get(*group).is_some()).map(|(text, _)| text)
            }
        }
    }
}

/// Converts bytes back to text after a part of them was replaced.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::forms::MAX_NESTING;
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
