//! Detects the format of a transcript from its beginning.
//!
//! The first value of a file, and then every line of the head, is reduced to its [`JsonShape`], and each
//! format says whether it is its own. File names play no part.

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

/// Most fields that an error names.
const MAX_SHOWN_FIELDS: usize = 8;

/// The format of a file that begins with `head`, of which [`HEAD_BYTES`](crate::HEAD_BYTES) are enough;
/// [`read_head`](crate::read_head) reads them.
///
/// # Errors
/// `InvalidInput` when there is nothing to see, or nothing that a known format begins with.
pub fn detect(head: &[u8]) -> Result<&'static Format> {
    #[cfg(feature = "codesign")]
    if head.starts_with(DATABASE_MAGIC) {
        return named(codesign::NAME);
    }
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.is_empty() {
        return Err(Error::invalid("the file is empty"));
    }
    let lines = text.lines().skip(1).take(MAX_LINES);
    let shapes = std::iter::once(text).chain(lines).filter_map(JsonShape::of);
    let mut first = None;
    for shape in shapes {
        if let Some(format) = FORMATS.iter().find(|format| (format.recognise)(&shape)) {
            return Ok(format);
        }
        first = first.or(Some(shape));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_lines_format_is_known_by_its_first_line() {
        let cases = [
            (r#"{"type":"summary","summary":"x","leafUuid":"1"}"#, "claude-code"),
            (r#"{"parentUuid":null,"type":"user","uuid":"u","message":{}}"#, "claude-code"),
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
    fn what_is_not_known_is_refused_with_what_was_found() {
        assert_eq!(detect(b" \n").unwrap_err().to_string(), "the file is empty");
        let error = detect(br#"{"a":1,"b":2}"#).unwrap_err().to_string();
        assert!(error.contains("fields a, b; known formats are claude-code, codex"), "{error}");
        assert!(detect(b"hello").unwrap_err().to_string().contains("no JSON object"));
    }

    turntree_properties::properties! {
        #[test]
        fn any_head_is_answered(head in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = detect(&head);
        }
    }
}
