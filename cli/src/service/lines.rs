//! Reads requests in lines of a bounded length. A longer line is skipped, but its id is found.

use std::io::{self, BufRead, ErrorKind, Read};

use serde_json::{Map, Value};

/// Longest line, without its end.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// The longest top-level member of a request that is checked for an id.
const MAX_MEMBER_BYTES: usize = 1024;

/// A line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The whole line, with its end if it has one.
    Whole(Vec<u8>),
    /// It is longer than [`MAX_LINE_BYTES`].
    TooLong {
        /// The id of the request, so that the waiting client gets an answer; null if there is none.
        id: Value,
    },
}

/// Reads the next line; `None` at the end of the input. Uses no more memory than the longest line.
pub(crate) fn next_line(input: &mut dyn BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    input.take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.ends_with(b"\n") || line.len() as u64 <= MAX_LINE_BYTES {
        return Ok(Some(Line::Whole(line)));
    }
    let mut search = IdSearch::default();
    search.look_at(&line);
    drop(line);
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            available => available?,
        };
        let end = available.iter().position(|byte| *byte == b'\n');
        let is_last = end.is_some() || available.is_empty();
        let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        search.look_at(part);
        let passed = part.len() + usize::from(end.is_some());
        input.consume(passed);
        if is_last {
            return Ok(Some(Line::TooLong { id: search.found }));
        }
    }
}

/// The error for a line that is too long.
pub(crate) fn too_long() -> String {
    let mebibytes = MAX_LINE_BYTES >> 20;
    format!(
        "the line is longer than {mebibytes} MiB: send less at once; snapshot takes a context of any \
         size in several calls with append and set"
    )
}

/// Searches the text of a request for its id, part by part. Clients write the id first or last.
#[derive(Debug, Default)]
struct IdSearch {
    found: Value,
    /// The number of open objects and lists.
    depth: u64,
    in_string: bool,
    is_escaped: bool,
    /// The current top-level member, without nested content.
    member: Vec<u8>,
    /// True once the line is longer than the limit.
    is_long: bool,
}

impl IdSearch {
    fn look_at(&mut self, part: &[u8]) {
        part.iter().for_each(|byte| self.step(*byte));
    }

    fn step(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth == 1 {
                    return;
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return self.end_member();
                }
            }
            b',' if self.depth == 1 => return self.end_member(),
            _ => {}
        }
        if self.depth == 1 {
            self.is_long |= self.member.len() >= MAX_MEMBER_BYTES;
            if !self.is_long {
                self.member.push(byte);
            }
        }
    }

    fn end_member(&mut self) {
        let member = [b"{", &*self.member, b"}"].concat();
        if !self.is_long
            && let Ok(mut member) = serde_json::from_slice::<Map<String, Value>>(&member)
            && let Some(id @ (Value::String(_) | Value::Number(_))) = member.remove("id")
        {
            self.found = id;
        }
        self.member.clear();
        self.is_long = false;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long() -> String {
        "x".repeat(17 << 20)
    }

    #[test]
    fn the_id_of_a_line_that_is_too_long_is_found_wherever_it_stands() {
        let (long, inner) = (long(), r#"{"id": 1, "a": [{"id": 2}, "\"}, \"id\": 3"]}"#);
        for (line, id) in [
            (format!(r#"{{"id": 7, "params": "{long}"}}"#), json!(7)),
            (
                format!(r#"{{"params": "{long}", "jsonrpc": "2.0", "id":"a,\"}}b"}}"#),
                json!("a,\"}b"),
            ),
            (format!(r#"{{"params": ["{long}", {inner}], "id" : -7 }}"#), json!(-7)),
            (format!(r#"{{"params": ["{long}", {inner}]}}"#), Value::Null),
            (format!(r#"{{"id": "{long}"}}"#), Value::Null),
            (format!(r#"{{"id": {{}}, "params": "{long}"}}"#), Value::Null),
            (format!(r#"[{{"id": 1, "params": "{long}"}}]"#), Value::Null),
            (format!(r#"{{"id": 1, "params": "{long}"#), json!(1)),
            (long.clone(), Value::Null),
            ("]".repeat(17 << 20), Value::Null),
        ] {
            let input = format!("{line}\nnext\n");
            let mut input = input.as_bytes();
            let begin = line.get(..20).unwrap_or_default();
            let found = next_line(&mut input).unwrap();
            assert_eq!(found, Some(Line::TooLong { id }), "{begin}");
            let next = next_line(&mut input).unwrap();
            assert_eq!(next, Some(Line::Whole(b"next\n".to_vec())), "{begin}");
            assert_eq!(next_line(&mut input).unwrap(), None);
        }
    }

    #[test]
    fn the_longest_line_is_whole_with_and_without_an_end() {
        let limit = usize::try_from(MAX_LINE_BYTES).unwrap();
        for (len, end, is_whole) in [
            (limit, "\n", true),
            (limit, "", true),
            (limit + 1, "\n", false),
            (limit + 1, "", false),
        ] {
            let line = format!("{}{end}", "x".repeat(len));
            let found = next_line(&mut line.as_bytes()).unwrap().unwrap();
            assert_eq!(matches!(found, Line::Whole(whole) if whole == line.as_bytes()), is_whole);
        }
    }
}
