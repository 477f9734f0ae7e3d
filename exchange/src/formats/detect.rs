//! Detects the format of a transcript from its beginning.
//!
//! The first value of a file, and then every line of the head, is reduced to its [`JsonShape`], and
//! each format reports whether it recognises the shape. If several do, the lines after it decide;
//! if these do not, the caller has to name the format. File names play no part.

use turntree::error::{Error, Result};

use super::{FORMATS, names};
#[cfg(feature = "codesign")]
use super::{frameworks::codesign, named};
use crate::model::format::Format;
use crate::text::json;
use crate::text::shape::JsonShape;
#[cfg(feature = "codesign")]
use crate::text::unpack::DATABASE_MAGIC;

const MAX_LINES: usize = 64;

/// The marks that files of UTF-16 begin with.
const UTF_16: [&[u8]; 2] = [b"\xFF\xFE", b"\xFE\xFF"];

/// Most fields that an error names.
const MAX_SHOWN_FIELDS: usize = 8;

/// Returns the format of a file that begins with `head`, of which [`HEAD_BYTES`](crate::HEAD_BYTES)
/// are enough; [`read_head`](crate::read_head) reads them.
///
/// # Errors
/// `InvalidInput` for an empty head, for one that no known format begins with, and for one that
/// several formats begin with.
pub fn detect(head: &[u8]) -> Result<&'static Format> {
    #[cfg(feature = "codesign")]
    if head.starts_with(DATABASE_MAGIC) {
        return named(codesign::NAME);
    }
    if UTF_16.iter().any(|mark| head.starts_with(mark)) {
        let message = "the file is UTF-16 and transcripts are UTF-8: convert it, as with \
                       'iconv -f UTF-16 -t UTF-8'";
        return Err(Error::invalid(message));
    }
    let text = String::from_utf8_lossy(head);
    // A crash may leave zeros before the first record.
    let is_padding = |c: char| matches!(c, '\u{feff}' | '\0') || c.is_whitespace();
    let unpadded = text.trim_start_matches(is_padding);
    let text = if unpadded.is_empty() { text.trim_start() } else { unpadded };
    if text.is_empty() {
        return Err(Error::invalid("the file is empty"));
    }
    let lines = text.lines().skip(1).take(MAX_LINES);
    let shapes = std::iter::once(text).chain(lines).filter_map(JsonShape::of);
    let (mut first, mut claims) = (None, Vec::new());
    for shape in shapes {
        let of_line = claims_of(&shape);
        claims = match claims.is_empty() {
            true => of_line,
            false => both(claims, &of_line),
        };
        if let [format] = claims[..] {
            return Ok(format);
        }
        first = first.or(Some(shape));
    }
    if !claims.is_empty() {
        let names: Vec<_> = claims.iter().map(|format| format.name).collect();
        let message = format!("the file may be of {}: name one with --format", names.join(" or "));
        return Err(Error::invalid(message));
    }
    let found = match first {
        None => "no JSON object".to_owned(),
        Some(shape) if shape.fields.is_empty() => "an empty JSON object".to_owned(),
        Some(shape) => {
            let names = shape.fields.iter().map(|(name, _)| json::plain(name));
            let names: Vec<_> = names.take(MAX_SHOWN_FIELDS).collect();
            format!("a JSON object with the fields {}", names.join(", "))
        }
    };
    Err(Error::invalid(format!("unknown format: found {found}; known formats are {}", names())))
}

/// Returns the formats of the highest rank among those that claim a value.
fn claims_of(shape: &JsonShape<'_>) -> Vec<&'static Format> {
    let mut claims: Vec<_> = FORMATS.iter().filter(|format| (format.recognise)(shape)).collect();
    let highest = claims.iter().map(|format| format.rank).max();
    claims.retain(|format| Some(format.rank) == highest);
    claims
}

/// Returns the `claims` that are also in `others`; all of `claims` if there are none.
fn both(mut claims: Vec<&'static Format>, others: &[&'static Format]) -> Vec<&'static Format> {
    let is_other = |claim: &&Format| others.iter().any(|other| other.name == claim.name);
    if claims.iter().any(is_other) {
        claims.retain(is_other);
    }
    claims
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_lines_format_is_known_by_its_first_line() {
        let cases = [
            (r#"{"type":"summary","summary":"x","leafUuid":"1"}"#, "claude-code"),
            (
                r#"{"parentUuid":null,"type":"user","uuid":"u","message":{"role":"user","content":"x"}}"#,
                "claude-code",
            ),
            (
                r#"{"uuid":"u","sessionId":"s","type":"user","message":{"role":"user","parts":[{"text":"x"}]}}"#,
                "qwen-code",
            ),
            (r#"{"uuid":"u","sessionId":"s","type":"system","systemPayload":{}}"#, "qwen-code"),
            (r#"{"timestamp":"t","type":"session_meta","payload":{"base_instr"#, "codex"),
            (r#"{"type":"session.start","data":{},"id":"1","parentId":null}"#, "copilot-cli"),
            (r#"{"type":"session","id":"1","timestamp":"t","cwd":"/p"}"#, "pi"),
        ];
        for (head, name) in cases {
            assert_eq!(detect(head.as_bytes()).unwrap().name, name);
            let marked = format!("\u{feff}\n{{\"torn\":\n{head}");
            assert_eq!(detect(marked.as_bytes()).unwrap().name, name);
        }
    }

    #[test]
    fn records_without_what_a_parser_requires_are_of_no_format() {
        let others = [
            r#"{"type":"user","sessionId":"s","text":"hi"}"#,
            r#"{"type":"user","uuid":"u","message":{"role":"user","blocks":[]}}"#,
            r#"{"type":"chunk","messageId":"m","content":"x"}"#,
            r#"{"type":"thread.started","thread_id":"t"}"#,
            r#"{"type":"response.created","data":{}}"#,
            r#"{"type":"session","cwd":"/p"}"#,
            r#"{"type":"session","version":1,"id":"1","createdAt":1790000000000,"cwd":"/p"}"#,
            r#"{"info":{"name":"x"},"messages":["a","b"]}"#,
            r#"{"trajectory":[1,2],"info":{}}"#,
            r#"{"steps":[{"n":1}],"agent":"a"}"#,
            r#"{"sessionId":"s","messages":[]}"#,
            r#"{"messages":[{"author":"x","text":"y"}]}"#,
            r#"[{"role":"narrator","content":"y"}]"#,
            r#"{"kind":"Pod","id":"1","source":"x"}"#,
        ];
        for head in others {
            let error = detect(head.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("unknown format: found a JSON object"), "{head}: {error}");
        }
    }

    #[test]
    fn a_file_that_two_formats_claim_is_named_by_its_caller() {
        let both = r#"{"id":"1","kind":"MessageEvent","source":"user","timestamp":"t","type":"user","uuid":"u","message":{"content":"x"}}"#;
        let error = detect(both.as_bytes()).unwrap_err().to_string();
        let expected = "the file may be of claude-code or openhands: name one with --format";
        assert_eq!(error, expected);
        let told = format!(
            "{both}\n{}",
            r#"{"type":"user","uuid":"v","message":{"role":"user","content":"x"}}"#
        );
        assert_eq!(detect(told.as_bytes()).unwrap().name, "claude-code");
    }

    #[test]
    fn padding_before_a_file_is_passed_and_utf_16_is_named() {
        let head = b"\0\0\xEF\xBB\xBF\n{\"type\":\"session\",\"id\":\"1\",\"timestamp\":\"t\",\"cwd\":\"/p\"}";
        assert_eq!(detect(head).unwrap().name, "pi");
        let error = detect(b"\xFF\xFE{\0\"\0").unwrap_err().to_string();
        assert!(error.starts_with("the file is UTF-16"), "{error}");
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_was_found() {
        assert_eq!(detect(b" \n").unwrap_err().to_string(), "the file is empty");
        let error = detect(br#"{"a":1,"b":2}"#).unwrap_err().to_string();
        assert!(error.contains("fields a, b; known formats are claude-code, qwen-code"), "{error}");
        assert!(detect(b"hello").unwrap_err().to_string().contains("no JSON object"));
    }

    turntree_properties::properties! {
        #[test]
        fn any_head_is_answered(head in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = detect(&head);
        }
    }
}
