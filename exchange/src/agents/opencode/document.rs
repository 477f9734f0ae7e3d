//! The document that `opencode export` writes, byte for byte, assembled from the parts of a
//! session.
//!
//! Members are in upstream's order: those of the value, then its ids. A last message that is still
//! being written is left for the next time. One message is in memory at a time.

use std::fmt;
use std::io::{self, Read};

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use turntree::error::{Error, Result};

use crate::agents::found::Failure;

/// Most bytes of a message in the document.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Most values in values.
const MAX_DEPTH: usize = 256;

/// The parts of a session.
pub(super) trait Parts {
    /// The facts of the session.
    fn info(&mut self) -> Result<Members>;

    /// The number of messages.
    fn messages(&self) -> usize;

    /// A message, and its parts in order.
    fn message(&mut self, at: usize) -> Result<(Members, Vec<Members>)>;

    /// Is asked after the last message, whether all that was read belongs together.
    fn finish(&mut self) -> Result<()>;
}

/// The members of an object: names with their values, as JSON.
#[derive(Debug, Clone, Default)]
pub(super) struct Members(Vec<(String, Vec<u8>)>);

impl Members {
    /// Reads the object `json`; `place` names it in errors.
    ///
    /// # Errors
    /// `InvalidInput` if `json` is no object.
    pub(super) fn read(json: &[u8], place: impl fmt::Display) -> Result<Self> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let members = deserializer.deserialize_map(Collect);
        let members = members.and_then(|members| deserializer.end().map(|()| members));
        members
            .map_err(|error| Error::invalid(format!("{place}: expected JSON")).with_source(error))
    }

    /// Adds a text at the end, and removes other members of that name.
    pub(super) fn put_text(&mut self, name: &str, text: &str) {
        self.0.retain(|(known, _)| known != name);
        self.put(name, Value::from(text).to_string().into_bytes());
    }

    /// Adds a value at the end.
    pub(super) fn put(&mut self, name: &str, json: Vec<u8>) {
        self.0.push((name.to_owned(), json));
    }

    fn get(&self, name: &str) -> Option<Value> {
        let (_, json) = self.0.iter().find(|(known, _)| known == name)?;
        serde_json::from_slice(json).ok()
    }

    /// Returns true if the model still writes this message.
    fn is_unfinished(&self) -> bool {
        let completed = self.get("time").is_some_and(|time| time.get("completed").is_some());
        self.get("role").is_some_and(|role| role == "assistant")
            && !completed
            && self.get("error").is_none()
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut json = b"{".to_vec();
        for (at, (name, value)) in self.0.iter().enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend(Value::from(name.as_str()).to_string().bytes());
            json.push(b':');
            json.extend(value);
        }
        json.push(b'}');
        json
    }
}

struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            members.push((name, value.get().as_bytes().to_vec()));
        }
        Ok(Members(members))
    }
}

/// Reads the document of a session.
pub(super) struct DocumentReader {
    parts: Box<dyn Parts>,
    failure: Failure,
    /// The next part.
    next: Next,
    /// Bytes that were made and not read yet, from `at` on.
    text: Vec<u8>,
    at: usize,
}

#[derive(Clone, Copy)]
enum Next {
    Info,
    Message(usize),
    Nothing,
}

impl DocumentReader {
    pub(super) fn new(parts: Box<dyn Parts>, failure: Failure) -> Self {
        Self { parts, failure, next: Next::Info, text: Vec::new(), at: 0 }
    }

    /// Writes the next part of the document to the buffer.
    fn fill(&mut self) -> Result<()> {
        self.text.clear();
        self.at = 0;
        match self.next {
            Next::Info => {
                self.text.extend(b"{\n  \"info\": ");
                indent(&self.parts.info()?.to_json(), 1, &mut self.text)?;
                self.text.extend(b",\n  \"messages\": [");
                self.next = Next::Message(0);
            }
            Next::Message(at) => {
                let message = match at < self.parts.messages() {
                    true => Some(self.parts.message(at)?),
                    false => None,
                };
                let is_last = at + 1 == self.parts.messages();
                match message.filter(|(info, _)| !(is_last && info.is_unfinished())) {
                    Some((info, parts)) => {
                        self.text.extend(if at > 0 { &b","[..] } else { b"" });
                        write_message(&info, &parts, &mut self.text)?;
                        self.next = Next::Message(at + 1);
                    }
                    None => {
                        self.parts.finish()?;
                        self.text.extend(if at > 0 { &b"\n  "[..] } else { b"" });
                        self.text.extend(b"]\n}\n");
                        self.next = Next::Nothing;
                    }
                }
            }
            Next::Nothing => {}
        }
        Ok(())
    }
}

impl Read for DocumentReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len()
            && let Err(error) = self.fill()
        {
            self.failure.put(error);
            return Err(io::Error::other("the session cannot be read"));
        }
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(from), Some(to)) = (rest.get(..count), buffer.get_mut(..count)) {
            to.copy_from_slice(from);
        }
        self.at += count;
        Ok(count)
    }
}

fn write_message(info: &Members, parts: &[Members], out: &mut Vec<u8>) -> Result<()> {
    out.extend(b"\n    {\n      \"info\": ");
    indent(&info.to_json(), 3, out)?;
    out.extend(b",\n      \"parts\": [");
    for (at, part) in parts.iter().enumerate() {
        out.extend(if at > 0 { &b","[..] } else { b"" });
        line(out, 4)?;
        indent(&part.to_json(), 4, out)?;
    }
    if !parts.is_empty() {
        line(out, 3)?;
    }
    out.extend(b"]\n    }");
    Ok(())
}

/// Adds `json`, which is valid, as JavaScript writes it with two spaces a level; its first line is
/// already at `depth`. Texts and numbers stay unchanged.
fn indent(json: &[u8], mut depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let (mut in_text, mut escaped, mut opened) = (false, false, false);
    for byte in json {
        if in_text {
            out.push(*byte);
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(byte, b'}' | b']');
        if opened && !closes {
            line(out, depth)?;
        }
        if closes {
            depth = depth.saturating_sub(1);
            if !opened {
                line(out, depth)?;
            }
        }
        opened = matches!(byte, b'{' | b'[');
        in_text = *byte == b'"';
        out.push(*byte);
        match byte {
            b'{' | b'[' => depth += 1,
            b',' => line(out, depth)?,
            b':' => out.push(b' '),
            _ => {}
        }
    }
    Ok(())
}

/// Begins a line at `depth`.
fn line(out: &mut Vec<u8>, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::limit(
            "values in values of the session",
            MAX_DEPTH as u64,
            depth as u64,
        ));
    }
    if out.len() > MAX_MESSAGE_BYTES {
        let (limit, found) = (MAX_MESSAGE_BYTES as u64, out.len() as u64);
        return Err(Error::limit("bytes of a message of the session", limit, found));
    }
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_as_javascript_does() {
        for json in [
            r#"{"a":[],"b":{},"c":[1,-2.50e+3,null,{"d":"x, [y]: {\"z\\\""}],"e":true}"#,
            r#"[]"#,
            r#"[[{}],[[]],"\\"]"#,
        ] {
            let value: Value = serde_json::from_str(&json.replace("-2.50e+3", "7")).unwrap();
            let expected = serde_json::to_string_pretty(&value).unwrap();
            let mut out = Vec::new();
            indent(json.as_bytes(), 0, &mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert_eq!(out.replace("-2.50e+3", "7"), expected);
            let mut again = Vec::new();
            indent(out.as_bytes(), 0, &mut again).unwrap();
            assert_eq!(again, out.as_bytes());
        }
    }

    #[test]
    fn what_is_too_deep_does_not_grow() {
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        let mut out = Vec::new();
        assert!(indent(&deep, 0, &mut out).is_err());
        assert!(out.len() < 1 << 20);
    }
}
