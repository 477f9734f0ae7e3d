//! The language of the project: marks of obscure prose may only become fewer.
//!
//! A mark is a phrase that hides the actor, the verb or the term: a relative clause as a noun, an unnamed
//! actor, "is told", a private phrasal verb, "is there". Two marks in five are plain English, so the aim
//! is few marks, not none. The rules for writers are in `docs/contributing/style.md`.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;

use super::tidy::{files, root};

/// Folders or files, and the most marks in 1,000 words of their prose. Lower a bound when the prose gets
/// better; do not raise one.
const MOST_MARKS: &[(&str, &str, f64)] = &[
    ("core/src", "rs", 3.0),
    ("exchange/src", "rs", 3.0),
    ("cli/src", "rs", 3.0),
    ("bindings", "rs", 2.0),
    ("benches", "rs", 2.0),
    ("fuzz", "rs", 2.0),
    ("tests", "rs", 2.0),
    ("README.md", "md", 2.5),
    ("ARCHITECTURE.md", "md", 2.5),
    ("CONTRIBUTING.md", "md", 2.5),
    ("CHANGELOG.md", "md", 2.5),
    ("docs", "md", 2.5),
    ("format-spec", "md", 2.5),
    ("benches", "md", 2.5),
    ("tests", "md", 2.5),
];

/// Words that plain prose does not need, and how often each file type has them all together.
const SPARED_WORDS: &str =
    r"(?i)\b(?:whoever|somebody|nobody|anew|meanwhile|is told|another one|that is there)\b";
const MOST_SPARED_WORDS: &[(&str, usize)] = &[("rs", 30), ("md", 12)];

/// How far below its bound a folder may be: then the bound is lowered.
const SLACK: f64 = 3.0;

/// The kinds of marks.
const MARKS: [&str; 5] = [
    // A relative clause as a noun.
    concat!(
        r"\b(?:[Ww]ho|[Ww]hoever|[Ww]hat|[Ww]hatever) (?:is|was|are|were|has|had|have|does|did|goes",
        r"|go|makes|made|takes|took|opens|reads|writes|asks|gets|comes|came|stands|stood|lies|lay|lie",
        r"|may|must|can|cannot|could|would|will|holds|held|needs|wants|says|said|others|it|they|one",
        r"|a|an|the|no|both|each|that|this|turns|links|agents?|somebody|people|git)\b",
    ),
    // An unnamed actor.
    concat!(
        r"\b(?:[Ww]hoever|[Ss]omebody|[Nn]obody|[Aa]nybody|[Aa]nother one|of others|by others",
        r"|for others|that others|[Oo]thers (?:have|had|may|can|read|write|hold))\b",
    ),
    // Told and said.
    concat!(
        r"\b(?:is|are|was|were|be) (?:told|said)\b",
        r"|\b(?:tells|tell|says|say) (?:so|it|what|which|that it|how)\b|\btold\b",
    ),
    // A private phrasal verb.
    concat!(
        r"\b(?:tak(?:e|es|en|ing) (?:in|up|along)|took (?:in|up)|let(?:s|ting)? (?:go|go of)",
        r"|go(?:es|ing|ne)? on(?: from| with)?|went on|leads? to|led to",
        r"|lies? (?:in|there|beside|behind|on)|lay (?:in|there)|bring(?:s|ing)? (?:along|back)",
        r"|brought (?:along|back)|stands? (?:for|there|in|at)|stood (?:for|in)",
        r"|(?:is|are|was|were) gone|has gone|have gone|be had|comes? back|gives? way|give up)\b",
    ),
    // Being there.
    r"\b(?:is|are|was|were) (?:not )?there\b|\bany ?more\b|\bno longer\b",
];

/// The prose of a file, a line at a time: comments and long string literals of Rust, text of Markdown
/// outside of fenced code.
fn prose(path: &str, text: &str, strings: &Regex) -> Vec<String> {
    if Path::new(path).extension().is_some_and(|it| it == "md") {
        let mut is_code = false;
        let is_prose = |line: &&str| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_fence && !is_code
        };
        return text.lines().filter(is_prose).map(str::to_owned).collect();
    }
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("//") {
            found.push(line.trim_start_matches(['/', '!']).trim().to_owned());
        } else {
            let literals = strings.captures_iter(line).map(|it| it[1].to_owned());
            found.extend(literals.filter(|text| text.matches(' ').count() >= 3));
        }
    }
    found
}

/// The files of a row of the table.
fn files_of(place: &str, extension: &str) -> BTreeMap<String, String> {
    if root().join(place).is_file() {
        let text = std::fs::read_to_string(root().join(place)).unwrap();
        return BTreeMap::from([(place.to_owned(), text)]);
    }
    let mut found = files(place, extension);
    let data = ["/target/", "/node_modules/", "/vectors/", "/corpus/", "/fixtures/"];
    found.retain(|path, _| !data.iter().any(|folder| path.contains(folder)));
    found
}

#[test]
fn prose_is_as_plain_as_it_was() {
    let marks = MARKS.map(|pattern| Regex::new(pattern).unwrap());
    let strings = Regex::new(r#""((?:[^"\\]|\\.)*)""#).unwrap();
    let mut wrong = Vec::new();
    for (place, extension, most) in MOST_MARKS {
        let (mut found, mut words) = (0, 0);
        let mut worst: Vec<(usize, String)> = Vec::new();
        for (path, text) in files_of(place, extension) {
            let mut here = 0;
            for line in prose(&path, &text, &strings) {
                words += line.split_whitespace().count();
                here += marks.iter().map(|mark| mark.find_iter(&line).count()).sum::<usize>();
            }
            found += here;
            worst.push((here, path));
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
        let density = 1000.0 * found as f64 / words.max(1) as f64;
        worst.sort_unstable_by(|a, b| b.cmp(a));
        worst.truncate(3);
        if density > *most {
            wrong.push(format!("{place}: {density:.1} marks, at most {most}; most in {worst:?}"));
        } else if density + SLACK < *most {
            wrong.push(format!("{place}: {density:.1} marks: lower its bound from {most}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn spared_words_become_fewer() {
    let spared = Regex::new(SPARED_WORDS).unwrap();
    for (extension, most) in MOST_SPARED_WORDS {
        let places = MOST_MARKS.iter().filter(|(_, of, _)| of == extension);
        let texts = places.flat_map(|(place, _, _)| files_of(place, extension));
        let found: usize = texts
            .filter(|(path, _)| path != "tests/proof/prose.rs")
            .map(|(_, text)| spared.find_iter(&text).count())
            .sum();
        assert!(found <= *most, "{found} spared words in .{extension} files, at most {most}");
    }
}
