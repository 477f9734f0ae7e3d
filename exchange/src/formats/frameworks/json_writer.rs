//! Writes the JSON of documents, key by key, to any writer; and indents JSON.

use std::io::{self, Write};

use bytes::Bytes;
use turntree::context::JSON_MEDIA;
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectSink};
use turntree::tree::{Item, Link};

/// Writes a value of a map that is JSON, and returns its item.
pub(super) fn json_item(sink: &mut dyn ObjectSink, json: impl Into<Bytes>) -> Result<Item> {
    let id = sink.write(Kind::Blob, json.into())?;
    let meta = Bytes::from_static(JSON_MEDIA.as_bytes());
    Ok(Item { link: Link { kind: Kind::Blob, id }, meta })
}

/// Writes one JSON value, token by token.
pub(super) struct Json<'w> {
    out: &'w mut dyn Write,
    /// For each open level, true if nothing was written yet.
    levels: Vec<bool>,
}

impl<'w> Json<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, levels: Vec::new() }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| Error::io("write the snapshot", error))
    }

    fn separate(&mut self) -> Result<()> {
        match self.levels.last_mut() {
            Some(is_first) if *is_first => {
                *is_first = false;
                Ok(())
            }
            Some(_) => self.bytes(b","),
            None => Ok(()),
        }
    }

    /// Writes a key; its value follows.
    pub(super) fn key(&mut self, name: &str) -> Result<()> {
        self.separate()?;
        self.bytes(quoted(name).as_bytes())?;
        self.bytes(b":")
    }

    /// Opens the object or array that follows a key, or is the whole document.
    pub(super) fn open(&mut self, bracket: u8) -> Result<()> {
        self.levels.push(true);
        self.bytes(&[bracket])
    }

    /// Closes it.
    pub(super) fn close(&mut self, bracket: u8) -> Result<()> {
        self.levels.pop();
        self.bytes(&[bracket])
    }

    /// An element of an array.
    pub(super) fn element(&mut self, json: &[u8]) -> Result<()> {
        self.separate()?;
        self.bytes(json)
    }

    /// A name and a value that is JSON.
    pub(super) fn raw(&mut self, name: &str, json: &str) -> Result<()> {
        self.key(name)?;
        self.bytes(json.as_bytes())
    }

    /// A name and a text.
    pub(super) fn text(&mut self, name: &str, text: &str) -> Result<()> {
        self.raw(name, &quoted(text))
    }
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Deepest level that is indented further, so that malicious nesting does not inflate the output.
const MAX_INDENTED: usize = 128;

/// Writes JSON to `inner`, indented by two spaces or without any space between its tokens.
pub(super) struct Formatted<'w> {
    inner: &'w mut dyn Write,
    indent: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// True directly after an opening bracket.
    opened: bool,
    line: Vec<u8>,
}

impl<'w> Formatted<'w> {
    pub(super) fn new(inner: &'w mut dyn Write, indent: bool) -> Self {
        let (in_string, escaped, opened) = (false, false, false);
        Self { inner, indent, depth: 0, in_string, escaped, opened, line: Vec::new() }
    }

    fn end_line(&mut self) {
        if self.indent {
            self.line.push(b'\n');
            let indent = 2 * self.depth.min(MAX_INDENTED);
            self.line.resize(self.line.len() + indent, b' ');
        }
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = byte == b'\\' && !self.escaped;
            return self.line.push(byte);
        }
        if byte.is_ascii_whitespace() {
            return;
        }
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.opened != closes {
            self.end_line();
        }
        self.opened = matches!(byte, b'{' | b'[');
        self.in_string = byte == b'"';
        self.line.push(byte);
        match byte {
            b'{' | b'[' => self.depth += 1,
            b',' => self.end_line(),
            b':' if self.indent => self.line.push(b' '),
            _ => {}
        }
    }
}

impl Write for Formatted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            // A token after a comma is on the line that the comma began.
            self.take(*byte);
        }
        self.inner.write_all(&self.line)?;
        self.line.clear();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn formatted(text: &str, indent: bool, step: usize) -> String {
        let mut out = Vec::new();
        let mut formatted = Formatted::new(&mut out, indent);
        for part in text.as_bytes().chunks(step) {
            formatted.write_all(part).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_is_indented_as_everybody_does() {
        let value = json!({"a": [], "b": {}, "c": [1, {"d": "x \" { , \\"}, [[]]], "e": "é"});
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        for step in [1, 3, 1000] {
            assert_eq!(formatted(&value.to_string(), true, step), pretty);
            assert_eq!(formatted(&pretty, true, step), pretty);
            assert_eq!(formatted(&pretty, false, step), value.to_string());
        }
    }

    turntree_properties::properties! {
        #[test]
        fn formatting_never_changes_what_texts_say(text in any::<String>(), step in 1..9_usize) {
            let value: Value = json!([{"k": text, text.clone(): [text]}]);
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(formatted(&value.to_string(), true, step), pretty);
        }
    }
}
