//! Tests inputs that are too large for a corpus, generated here.

use std::fs;
use std::path::Path;

use turntree_fuzz::{
    context_chef, objects, offload, ollm, policies, revision, state, transcript, vfs_uri,
};

/// Nesting deeper than any stack could hold.
const LEVELS: usize = 100_000;

/// Returns every transcript of the corpus, which has one of each format.
fn transcripts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/transcript");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Returns a value nested to `LEVELS`.
fn deep(open: &str, close: &str) -> String {
    format!("{}1{}", open.repeat(LEVELS), close.repeat(LEVELS))
}

#[test]
fn json_of_a_hundred_thousand_levels_is_kept_or_refused_by_every_importer() {
    for value in [deep("[", "]"), deep("{\"a\":", "}"), "[".repeat(LEVELS)] {
        transcript(value.as_bytes());
        state(value.as_bytes());
        state(format!("{{\"agents\":{{\"main\":{{\"messages\":{value}}}}}}}").as_bytes());
    }
    let value = deep("[", "]");
    for text in transcripts() {
        // Insert it as an additional value in the middle of an object.
        let colons: Vec<usize> = text.match_indices("\":").map(|(at, _)| at + 2).collect();
        if let Some(at) = colons.get(colons.len() / 2) {
            let (before, behind) = text.split_at(*at);
            transcript(format!("{before}{value},\"deep\":{behind}").as_bytes());
        }
    }
}

#[test]
fn zeros_and_bytes_that_are_no_text_come_back_from_every_importer() {
    let odd: [&[u8]; 5] =
        [b"\0", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"];
    for text in transcripts() {
        for bytes in odd {
            for at in [0, text.len() / 2, text.len()] {
                transcript(&[&text.as_bytes()[..at], bytes, &text.as_bytes()[at..]].concat());
            }
        }
    }
}

#[test]
fn a_line_of_a_megabyte_is_a_line() {
    let long = "x".repeat(1 << 20);
    for text in transcripts().iter().filter(|text| text.len() > 40) {
        let at = text.find("\": \"").map(|at| at + 4).or(text.find("\":\"").map(|at| at + 3));
        if let Some((before, behind)) = at.map(|at| text.split_at(at)) {
            transcript(format!("{before}{long}{behind}").as_bytes());
        }
    }
}

#[test]
fn words_without_end_are_answered() {
    for word in ["~", "^", "@{", "^{", "/", ":", "..", "~1^1", "\u{0}", "@{-1}", "99"] {
        revision(word.repeat(LEVELS / word.len()).as_bytes());
        revision(format!("one{}", word.repeat(LEVELS)).as_bytes());
    }
    for byte in 0..=255 {
        objects(&vec![byte; LEVELS]);
        policies(&vec![byte; LEVELS]);
    }
}

#[test]
fn snapshots_and_texts_without_end_are_answered() {
    for value in [deep("[", "]"), deep("{\"a\":", "}"), "[".repeat(LEVELS)] {
        context_chef(value.as_bytes());
        let message = format!(r#"{{"role":"user","content":"","x":{value}}}"#);
        let entry = format!(r#"{{"value":"","x":{value}}}"#);
        context_chef(
            format!(
                r#"{{"systemPrompt":[],"history":[{message}],"dynamicState":[],"odd":{value},
                "modules":{{"janitor":{{"x":{value}}},"memory":{{"entries":{{"k":{entry}}}}},"pruner":{{}}}}}}"#
            )
            .as_bytes(),
        );
    }
    for value in [deep("[", "]"), deep("{\"a\":", "}")] {
        ollm(value.as_bytes());
        let message = format!(r#"{{"id":"m","role":"user","content":"","metadata":{value}}}"#);
        ollm(
            format!(r#"{{"id":"i","sessionId":"s","messages":[{message}],"x":{value}}}"#)
                .as_bytes(),
        );
    }
    for word in ["context://", "vfs_", "/", "\n", "\u{1f600}", "context://vfs/vfs_0.txt "] {
        vfs_uri(word.repeat(LEVELS).as_bytes());
        offload(word.repeat(LEVELS / 10).as_bytes());
    }
}
