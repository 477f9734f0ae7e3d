//! Splits texts and queries into words, by the same rules.
//!
//! A word is a run of letters and digits. It is lowercase, without accents, in one Unicode form,
//! and cut to 32 characters. Scripts without spaces between words are split into single characters,
//! and a query for adjacent characters is a phrase.

use std::ops::Range;

use unicode_normalization::char::{canonical_combining_class, decompose_canonical};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// Maximum number of significant characters of a word.
pub(super) const MAX_WORD_CHARS: usize = 32;

/// Longest word in camel case that has parts, and the smallest mean length of its parts.
const MAX_CAMEL_BYTES: usize = 64;
const MEAN_PART_BYTES: usize = 3;

/// Combining accents.
const ACCENTS: Range<char> = '\u{300}'..'\u{370}';

/// Letters below this decompose into a letter and its accents. Later characters include syllables
/// and letters that decompose into several letters.
const ACCENTED_END: char = '\u{2000}';

/// Maximum number of characters that compose to one. Real sequences are shorter.
const MAX_COMPOSED: usize = 16;

/// Hangul jamo that follow the first jamo of a syllable, and the sound marks after halfwidth kana.
const SYLLABLE_PARTS: Range<char> = '\u{1160}'..'\u{1200}';
const NARROW_KANA: Range<char> = '\u{ff66}'..'\u{ff9e}';
const NARROW_MARKS: Range<char> = '\u{ff9e}'..'\u{ffa0}';

/// Scripts without spaces between words: kana, ideographs, Thai, Lao, Khmer and Burmese.
const UNSPACED: [(char, char); 9] = [
    ('\u{e00}', '\u{eff}'),
    ('\u{1000}', '\u{109f}'),
    ('\u{1780}', '\u{17ff}'),
    ('\u{3040}', '\u{30ff}'),
    ('\u{31f0}', '\u{31ff}'),
    ('\u{3400}', '\u{9fff}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{ff66}', '\u{ff9f}'),
    ('\u{20000}', '\u{3ffff}'),
];

/// Calls `each` with each word of `text` and its byte range in the text.
pub(super) fn each_word(text: &str, each: &mut dyn FnMut(&str, Range<usize>)) {
    let mut open = OpenWord::default();
    let (bytes, mut at) = (text.as_bytes(), 0);
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_alphanumeric() {
            // Fast path: most text is ASCII, and a run is processed as a whole.
            let rest = bytes.get(at..).unwrap_or_default();
            let run = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            open.push_run(text.get(at..at + run).unwrap_or_default(), at);
            at += run;
        } else if byte.is_ascii() {
            open.close(each);
            at += 1;
        } else {
            let part = composed_part(text.get(at..).unwrap_or_default());
            if part.is_empty() {
                break;
            }
            open.push_part(part, at, each);
            at += part.len();
        }
    }
    open.close(each);
}

/// Whether a word is whole, or a part of a word in camel case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wholeness {
    Whole,
    Part,
}

/// Calls `each` with each word of `text` and its byte range, and after a word in camel case with
/// its parts: `parseHTTPUrl` has the parts `parse`, `http` and `url`.
pub(super) fn each_word_and_part(text: &str, each: &mut dyn FnMut(&str, Range<usize>, Wholeness)) {
    let mut part = String::new();
    each_word(text, &mut |word, range| {
        let Range { start, .. } = range;
        let spelled = text.get(range.clone()).unwrap_or_default();
        each(word, range, Wholeness::Whole);
        let mut from = 0;
        for end in part_ends(spelled) {
            part.clear();
            part.push_str(spelled.get(from..end).unwrap_or_default());
            part.make_ascii_lowercase();
            each(&part, start + from..start + end, Wholeness::Part);
            from = end;
        }
    });
}

/// Returns the parts of a word in camel case, or nothing if it has no parts.
pub(super) fn parts_of(word: &str) -> Vec<String> {
    let mut parts = Vec::new();
    each_word_and_part(word, &mut |part, _, wholeness| {
        if wholeness == Wholeness::Part {
            parts.push(part.to_owned());
        }
    });
    parts
}

/// Returns the ends of the parts of a word in camel case, in bytes. None if the word has one part
/// or looks random, like base64.
fn part_ends(word: &str) -> Vec<usize> {
    let bytes = word.as_bytes();
    let is_mixed = bytes.iter().skip(1).any(u8::is_ascii_uppercase)
        && bytes.iter().any(u8::is_ascii_lowercase);
    if !is_mixed || !word.is_ascii() || bytes.len() > MAX_CAMEL_BYTES {
        return Vec::new();
    }
    let mut ends: Vec<usize> = Vec::new();
    for (at, window) in bytes.windows(2).enumerate() {
        let (&[before, first], at) = (<&[u8; 2]>::try_from(window).unwrap_or(b"  "), at + 1);
        let next = bytes.get(at + 1);
        // `PRs` and `URLs` are plurals, not two words.
        let is_plural = next == Some(&b's') && at + 2 == bytes.len();
        let begins = first.is_ascii_uppercase()
            && (!before.is_ascii_uppercase()
                || (next.is_some_and(u8::is_ascii_lowercase) && !is_plural));
        // A single letter belongs to the part after it.
        if begins && at - ends.last().copied().unwrap_or_default() > 1 {
            ends.push(at);
        }
    }
    ends.push(bytes.len());
    if ends.len() < 2 || bytes.len() < ends.len() * MEAN_PART_BYTES { Vec::new() } else { ends }
}

/// Returns the words of `text` in text order.
pub(super) fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, &mut |word, _| words.push(word.to_owned()));
    words
}

/// Returns the last character boundary at or before the byte `at`, or the end of the text.
pub(super) fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns the first character of `text` with the characters that compose with it.
fn composed_part(text: &str) -> &str {
    let mut chars = text.char_indices().take(MAX_COMPOSED);
    let Some((_, first)) = chars.next() else { return "" };
    let (mut before, mut end) = (first, first.len_utf8());
    for (at, c) in chars {
        let is_syllable = matches!(before, '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7a3}');
        let is_part = canonical_combining_class(c) != 0
            || (is_syllable && SYLLABLE_PARTS.contains(&c))
            || (NARROW_KANA.contains(&before) && NARROW_MARKS.contains(&c));
        if !is_part {
            break;
        }
        (before, end) = (c, at + c.len_utf8());
    }
    text.get(..end).unwrap_or_default()
}

fn is_unspaced(c: char) -> bool {
    UNSPACED.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// The word under construction.
#[derive(Default)]
struct OpenWord {
    word: String,
    chars: usize,
    range: Range<usize>,
}

impl OpenWord {
    fn push(&mut self, c: char, at: Range<usize>) {
        if self.chars == 0 {
            self.range.start = at.start;
        }
        self.range.end = at.end;
        self.chars += 1;
        if self.chars <= MAX_WORD_CHARS {
            self.word.push(c);
        }
    }

    /// Adds a run of ASCII letters and digits that begins at the byte `at`.
    fn push_run(&mut self, run: &str, at: usize) {
        if self.chars == 0 {
            self.range.start = at;
        }
        self.range.end = at + run.len();
        let counts = MAX_WORD_CHARS.saturating_sub(self.chars).min(run.len());
        let before = self.word.len();
        self.word.push_str(run.get(..counts).unwrap_or_default());
        self.word.get_mut(before..).unwrap_or_default().make_ascii_lowercase();
        self.chars += run.len();
    }

    /// Adds a character outside of ASCII and the characters that compose with it, which begin at
    /// the byte `at`.
    fn push_part(&mut self, part: &str, at: usize, each: &mut dyn FnMut(&str, Range<usize>)) {
        let whole = at..at + part.len();
        let one = |chars: &mut dyn Iterator<Item = char>| {
            let first = chars.next();
            first.filter(|_| chars.next().is_none())
        };
        let is_plain = is_nfkc_quick(part.chars()) == IsNormalized::Yes;
        if !is_plain {
            if let Some(c) = one(&mut part.nfkc()) {
                return self.push_other(c, whole, each);
            }
            if !part.nfc().eq(part.chars()) {
                let mut composed = part.nfc();
                composed.next().into_iter().for_each(|c| self.push_one(c, &whole, each));
                let rest = composed.filter(|c| c.is_alphanumeric() && !is_unspaced(*c));
                return rest.for_each(|c| self.push_one(c, &whole, each));
            }
        }
        for (from, c) in part.char_indices() {
            let from = at + from;
            let range = from..from + c.len_utf8();
            if is_plain {
                self.push_other(c, range, each);
            } else {
                self.push_one(c, &range, each);
            }
        }
    }

    /// Adds a character that composes with no neighbor. Replaces a compatibility character, such as
    /// a fullwidth letter or a ligature, by its letters.
    fn push_one(&mut self, c: char, at: &Range<usize>, each: &mut dyn FnMut(&str, Range<usize>)) {
        let plain = || std::iter::once(c).nfkc();
        let is_one = plain().count() == 1;
        if is_one || plain().all(|c| c.is_alphanumeric() && !is_unspaced(c)) {
            plain().for_each(|c| self.push_other(c, at.clone(), each));
        } else {
            self.push_other(c, at.clone(), each);
        }
    }

    /// Adds a character outside of ASCII. A character that is not part of a word ends the word.
    fn push_other(&mut self, c: char, at: Range<usize>, each: &mut dyn FnMut(&str, Range<usize>)) {
        if ACCENTS.contains(&c) {
            self.stretch(at.end);
        } else if !c.is_alphanumeric() {
            self.close(each);
        } else if is_unspaced(c) {
            self.close(each);
            self.push(c, at);
            self.close(each);
        } else {
            c.to_lowercase().for_each(|c| self.push_plain(c, at.clone()));
        }
    }

    /// Adds a letter without its accents.
    fn push_plain(&mut self, c: char, at: Range<usize>) {
        if c >= ACCENTED_END {
            return self.push(c, at);
        }
        decompose_canonical(c, |part| {
            if part.is_alphanumeric() && !ACCENTS.contains(&part) {
                self.push(part, at.clone());
            }
        });
    }

    /// Extends the range of the word over an accent that follows it.
    fn stretch(&mut self, end: usize) {
        if self.chars > 0 {
            self.range.end = end;
        }
    }

    fn close(&mut self, each: &mut dyn FnMut(&str, Range<usize>)) {
        if self.chars > 0 {
            each(&self.word, self.range.clone());
            self.word.clear();
            self.chars = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_split_into_words() {
        for (text, expected) in [
            ("Fix the parser!", "fix the parser"),
            ("snake_case, a::b and x-1.5", "snake case a b and x 1 5"),
            ("Größe CAFÉ cafe\u{301} Ångström İstanbul", "große cafe cafe angstrom istanbul"),
            ("搜索引擎 and 検索する", "搜 索 引 擎 and 検 索 す る"),
            ("한국어 검색", "한국어 검색"),
            ("поиск ΛΌΓΟΣ", "поиск λογοσ"),
            ("a\0b\u{1b}[31mred", "a b 31mred"),
            ("\u{301}\u{202e}!?", ""),
            ("か\u{3099}そ\u{3099}う がぞう ｶﾞｿﾞｳ", "が ぞ う が ぞ う ガ ゾ ウ"),
            ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8} 한국", "한국 한국"),
            ("Ｆｕｌｌ ﬁne ２５ Ⅳ", "full fine 25 iv"),
            ("i\u{302}ле и\u{306} й", "iле и и"),
            ("क\u{93c} \u{958} กุ", "क क ก \u{e38}"),
            ("½ ㍿ x²", "½ x2"),
        ] {
            assert_eq!(words_of(text).join(" "), expected, "{text:?}");
        }
    }

    #[test]
    fn words_in_camel_case_have_parts() {
        for (word, expected) in [
            ("getUserName", "get user name"),
            ("parseHTTPUrl", "parse http url"),
            ("VSCode", "vs code"),
            ("sha256Sum", "sha256 sum"),
            ("getAValue", "get avalue"),
            ("URLs", ""),
            ("iPhone", ""),
            ("Retry", ""),
            ("CAPITALS", ""),
            ("QmFzZTY0", ""),
            ("Größe", ""),
        ] {
            assert_eq!(parts_of(word).join(" "), expected, "{word}");
        }
    }

    #[test]
    fn long_words_are_indexed_by_prefix_and_marked_whole() {
        let text = format!("x {} y", "0".repeat(100));
        let mut found = Vec::new();
        each_word(&text, &mut |word, range| found.push((word.to_owned(), range)));
        assert_eq!(found[1], ("0".repeat(MAX_WORD_CHARS), 2..102));
    }

    turntree_properties::properties! {
        #[test]
        fn each_canonical_form_has_the_same_words(text in "[a-zé가-힣ぁ-ヿ\u{300}-\u{308}\u{3099}\u{309a}ă ạ한]{0,20}") {
            let words = words_of(&text);
            prop_assert_eq!(&words_of(&text.nfd().collect::<String>()), &words);
            prop_assert_eq!(&words_of(&text.nfc().collect::<String>()), &words);
        }

        #[test]
        fn words_are_split_the_same_in_any_context(text in "\\PC{0,40}") {
            let mut ranges = Vec::new();
            each_word(&text, &mut |word, range| ranges.push((word.to_owned(), range)));
            for (word, range) in ranges {
                prop_assert!(word.chars().count() <= MAX_WORD_CHARS);
                prop_assert!(word.chars().all(|c| !c.is_ascii_uppercase() && (c.is_alphanumeric() || !c.is_ascii())));
                // Splitting a word again returns the word itself.
                prop_assert_eq!(words_of(&text[range]), vec![word.clone()]);
            }
        }
    }
}
