//! Finds the whole record after a damaged record on the same line.
//!
//! A process that dies during a write leaves a torn record, and the next process appends after it.
//! A system crash leaves zeros instead of unwritten bytes. After a torn record, the parser stops in
//! one of two places. Either right after the brace of the next record, because the brace was part
//! of a string or is not allowed at this position. Or after the whole next record, because it was
//! parsed as a value inside of the torn one. Such a value is a record if it has the same first
//! fields as the torn one, as records of one writer do.
//!
//! The search continues where the parser stopped, so the work is linear in the length of the line.

use memchr::memchr;

use super::line_record::{Damage, leading_space, record_end, without_line_end};
use super::shape::JsonShape;

/// Maximum number of bytes before the stop position where the next record may start: its brace,
/// whitespace, and the quotation mark that ended a torn string.
const MAX_LOOKBACK: usize = 8;

/// Number of fields that distinguish a record from a value inside of one.
const FIRST_FIELDS: usize = 3;

/// Returns the start of the first whole record after `damage` in `line`, which starts with the
/// damage.
pub(super) fn next_record(line: &[u8], damage: &Damage) -> Option<usize> {
    let line = without_line_end(line);
    let (mut torn, mut stopped) = (0, damage.ends);
    let mut next = stopped.saturating_sub(MAX_LOOKBACK).max(1);
    if let Some(at) = record_inside(line, torn, stopped) {
        return Some(at);
    }
    loop {
        let start = next + memchr(b'{', line.get(next..)?)?;
        match record_end(line.get(start..)?) {
            Ok(len) => {
                let end = start + len;
                let is_value = end <= stopped || (start > stopped && is_value_at(line, start));
                if !is_value && is_record(line, start, end) {
                    return Some(start);
                }
                next = end;
            }
            Err(damage) => {
                (torn, stopped) = (start, start + damage.ends);
                if let Some(at) = record_inside(line, torn, stopped) {
                    return Some(at);
                }
                next = stopped.saturating_sub(MAX_LOOKBACK).max(start + 1);
            }
        }
    }
}

/// Returns the start of a record that was parsed as the last value inside of the torn one. The torn
/// record starts at `torn`, and the parser stopped at `stopped`.
fn record_inside(line: &[u8], torn: usize, stopped: usize) -> Option<usize> {
    let read = line.get(torn..stopped)?;
    let inside = torn + last_object(read)?;
    let names = |from: usize| {
        let text = line.get(from..stopped).and_then(|text| std::str::from_utf8(text).ok());
        JsonShape::first_names(text.unwrap_or_default(), FIRST_FIELDS)
    };
    let (of_torn, of_inside) = (names(torn), names(inside));
    let is_alike = !of_torn.is_empty() && of_inside.starts_with(&of_torn);
    (is_alike && is_record(line, inside, stopped)).then_some(inside)
}

/// Returns the start of the nested object that ends at the end of `text`.
fn last_object(text: &[u8]) -> Option<usize> {
    let end = text.trim_ascii_end().len();
    let (mut open, mut ended) = (Vec::new(), None);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in text.iter().enumerate().take(end) {
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => open.push(at),
            b'}' | b']' => ended = open.pop().map(|from| (from, at + 1)),
            _ => {}
        }
    }
    let (from, to) = ended?;
    (to == end && !open.is_empty() && text.get(from) == Some(&b'{')).then_some(from)
}

/// Returns true if `start` is the position of a value inside of a document.
fn is_value_at(line: &[u8], start: usize) -> bool {
    let before = line.get(..start).unwrap_or_default().trim_ascii_end();
    matches!(before.last(), Some(b':' | b',' | b'['))
}

/// Returns true if the object from `start` to `end` has a field, and if the following bytes do not
/// continue an enclosing value.
fn is_record(line: &[u8], start: usize, end: usize) -> bool {
    let object = line.get(start + 1..end).unwrap_or_default();
    let has_field = object.get(leading_space(object)) == Some(&b'"');
    let behind = line.get(end..).unwrap_or_default();
    let next = behind.get(leading_space(behind));
    has_field && !matches!(next, Some(b',' | b':' | b'}' | b']' | b'"'))
}

#[cfg(test)]
mod tests {
    use super::super::lines::LineSplitter;
    use super::super::piece::PieceKind;

    /// Returns the records of the lines of a file, and the damage in brackets.
    fn cut(file: &[u8]) -> Vec<String> {
        let pieces = LineSplitter::new(file).map(|piece| piece.unwrap());
        let pieces = pieces.filter_map(|piece| {
            let text = String::from_utf8_lossy(&piece.bytes).replace('\0', "0");
            match piece.kind {
                PieceKind::Record { .. } => Some(text),
                PieceKind::Damaged { .. } => Some(format!("<{text}>")),
                PieceKind::Trivia { .. } => None,
            }
        });
        pieces.collect()
    }

    const WHOLE: &str = r#"{"type":"b","data":{"x":[{"y":"{\"z\":1}"}]},"id":"2"}"#;

    #[test]
    fn complete_records_after_a_torn_one_are_read() {
        let torn = r#"{"type":"a","data":{"text":"caf\u00e9 {\"k\":[1]}, \\","n":-1.5e3,"b":[true,null,{"z":1}]},"id":"1"}"#;
        for at in 1..torn.len() {
            let begun = &torn[..at];
            let file = format!("{begun}{WHOLE}\n{WHOLE}\n");
            let trimmed = begun.trim_end();
            let expected = [format!("<{trimmed}>"), WHOLE.to_owned(), WHOLE.to_owned()];
            assert_eq!(cut(file.as_bytes()), expected, "{begun}");
            let twice = format!("{begun}{begun}{WHOLE}{WHOLE}\n");
            let expected = [format!("<{begun}{trimmed}>"), WHOLE.to_owned(), WHOLE.to_owned()];
            assert_eq!(cut(twice.as_bytes()), expected, "{begun}");
        }
    }

    #[test]
    fn bytes_before_a_record_are_separate_damage() {
        let before: [&[u8]; 6] =
            [b"\0\0\0", b"\0 \0", b"rest of a text\"}}", b"\xff\xfe", b"{\"a\":\"\xe3\x81", b"]}"];
        for damage in before {
            let file = [damage, WHOLE.as_bytes(), b"\n"].concat();
            let records = cut(&file);
            assert_eq!((records.len(), records[1].as_str()), (2, WHOLE), "{damage:?}");
            let between = [WHOLE.as_bytes(), damage, WHOLE.as_bytes()].concat();
            let records = cut(&between);
            assert_eq!((records[0].as_str(), records[2].as_str()), (WHOLE, WHOLE), "{damage:?}");
        }
        let padded = [WHOLE.as_bytes(), b"\0\0\n"].concat();
        assert_eq!(cut(&padded), [WHOLE, "<00>"]);
    }

    #[test]
    fn values_inside_damage_are_not_records() {
        for line in [
            r#"{"role":"user","content":[{"type":"text","text":"hi"}"#,
            r#"{"role":"user","content":{"type":"text","text":"hi"}"#,
            r#"{"a":1 X "message":{"role":"user"},"b":{"c":2}}"#,
            r#"{"a":X,"message":{"role":"user"}"#,
            r#"  let a = {};"#,
            r#"{"a":"b" "c {\"d\":1}"#,
        ] {
            assert_eq!(cut(line.as_bytes()), [format!("<{}>", line.trim())], "{line}");
        }
    }

    #[test]
    fn hostile_lines_are_read_once() {
        // Each of these would take hours if every brace reread the rest of the line.
        let count = 100_000;
        for part in
            [r#"{"a":"#, r#"{"a"#, "{", r#"{"a":{}"#, r#"{"a":1},"#, "{}", "[{", "{\"a\":1}\0"]
        {
            let line = part.repeat(count);
            let pieces = LineSplitter::new(line.as_bytes()).map(|piece| piece.unwrap().bytes.len());
            assert_eq!(pieces.sum::<usize>(), line.len());
        }
    }
}
