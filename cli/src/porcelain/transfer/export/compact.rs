//! Compacts JSON: removes white space between tokens; every token stays as it is. Line ends between
//! documents may stay too.

use std::io::{self, Write};

/// Writes JSON without line ends and indents.
pub(super) struct CompactJson<'o> {
    out: &'o mut dyn Write,
    in_text: bool,
    is_escaped: bool,
    /// The number of open objects and arrays.
    depth: usize,
    keeps_lines: bool,
}

impl<'o> CompactJson<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out, in_text: false, is_escaped: false, depth: 0, keeps_lines: false }
    }

    /// Compacts each of several documents to one line.
    pub(super) fn lines(out: &'o mut dyn Write) -> Self {
        Self { keeps_lines: true, ..Self::new(out) }
    }

    /// Returns true if the next byte is kept.
    fn keeps(&mut self, byte: u8) -> bool {
        if !self.in_text {
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            let ends_document = self.keeps_lines && self.depth == 0 && byte == b'\n';
            return ends_document || !byte.is_ascii_whitespace();
        }
        if self.is_escaped {
            self.is_escaped = false;
        } else if byte == b'\\' {
            self.is_escaped = true;
        } else {
            self.in_text = byte != b'"';
        }
        true
    }
}

impl Write for CompactJson<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept: Vec<u8> = bytes.iter().copied().filter(|byte| self.keeps(*byte)).collect();
        self.out.write_all(&kept)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_become_lines() {
        let text = "{\"a\": [\n{\"b}\": \"\\n]\"}\n]}\n{\n}\n";
        let mut out = Vec::new();
        CompactJson::lines(&mut out).write_all(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":[{\"b}\":\"\\n]\"}]}\n{}\n");
    }

    #[test]
    fn only_the_space_between_tokens_goes() {
        let text = "{\n  \"a b\" : [ 1.50, \"\\\" \\\\\" ,\ttrue ]\n}\n";
        let expected = "{\"a b\":[1.50,\"\\\" \\\\\",true]}";
        for size in 1..text.len() {
            let mut out = Vec::new();
            let mut compact = CompactJson::new(&mut out);
            for part in text.as_bytes().chunks(size) {
                compact.write_all(part).unwrap();
            }
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{size}");
        }
    }
}
