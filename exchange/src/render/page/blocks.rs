//! Blocks of lines, which a browser parses one by one and on demand.
//!
//! Texts and messages are in blocks that state the numbers of their first text and message, so a
//! page finds a line without parsing other blocks. Turns and the head are in separate blocks. The
//! page parses only these before its first screen. An HTML parser yields to other work only between
//! elements, so a single large element would block the page while it is parsed.

use std::io::{Result, Write};

/// Size at which a block is full. Lines are never split.
const BLOCK_BYTES: usize = 256 << 10;

/// The start of every block, before the numbers of its first lines.
pub(super) const BEGIN: &str = "<script type=\"application/json\" class=\"data\" ";

/// The end of the start tag. Lines follow.
pub(super) const LINES: &str = ">\n";

/// The end of the start tag of a block with compressed lines.
pub(super) const COMPRESSED: &str = " data-deflate>";

/// The end of a block. The data contains no markup.
pub(super) const END: &str = "</script>\n";

/// Writes lines in blocks.
pub(super) struct Blocks<'a> {
    out: &'a mut dyn Write,
    /// True to write plain lines without blocks, for a client that reads a stream.
    is_plain: bool,
    content: String,
    outline: String,
    texts: usize,
    messages: usize,
    turns: usize,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        let (content, outline) = (String::new(), String::new());
        Self { out, is_plain: false, content, outline, texts: 0, messages: 0, turns: 0 }
    }

    /// Creates a writer of plain lines, which writes each line immediately.
    pub(super) fn plain(out: &'a mut dyn Write) -> Self {
        Self { is_plain: true, ..Self::new(out) }
    }

    /// Adds a line: the letter of its kind, and its value as JSON without markup.
    pub(super) fn line(&mut self, letter: char, json: &str) -> Result<()> {
        if self.is_plain {
            return writeln!(self.out, "{letter}{json}");
        }
        let (texts, messages, turns) = (self.texts, self.messages, self.turns);
        let is_content = matches!(letter, 'x' | 'm');
        let block = if is_content { &mut self.content } else { &mut self.outline };
        if block.is_empty() {
            let numbers = match is_content {
                true => format!("data-x=\"{texts}\" data-m=\"{messages}\""),
                false => format!("data-t=\"{turns}\""),
            };
            block.extend([BEGIN, &numbers, LINES]);
        }
        block.push(letter);
        block.push_str(json);
        block.push('\n');
        match letter {
            'x' => self.texts += 1,
            'm' => self.messages += 1,
            't' => self.turns += 1,
            _ => {}
        }
        if block.len() >= BLOCK_BYTES { put(self.out, block) } else { Ok(()) }
    }

    /// Writes the remaining blocks. The last line comes last.
    pub(super) fn finish(mut self) -> Result<()> {
        put(self.out, &mut self.content)?;
        put(self.out, &mut self.outline)
    }
}

fn put(out: &mut dyn Write, block: &mut String) -> Result<()> {
    if !block.is_empty() {
        out.write_all(block.as_bytes())?;
        out.write_all(END.as_bytes())?;
        block.clear();
    }
    Ok(())
}
