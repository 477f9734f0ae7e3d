//! Blocks of lines: what a browser takes in at once, and reads when it is looked at.
//!
//! Texts and messages lie in blocks that say the numbers of the first of each in them, so a page finds
//! a line without having read the others. Turns and the head lie in blocks of their own, which is all
//! that is read before the first screen. A parser of HTML lets others at work between elements only:
//! one element with everything in it would keep the page still for as long as it is read.

use std::io::{Result, Write};

/// The bytes at which a block is full; a line is never divided.
const BLOCK_BYTES: usize = 256 << 10;

/// What every block begins with, before the numbers of its first lines.
pub(super) const BEGIN: &str = "<script type=\"application/json\" class=\"data\" ";

/// What its numbers end with: lines follow.
pub(super) const LINES: &str = ">\n";

/// What stands there in the place of both signs where the lines are compressed.
pub(super) const COMPRESSED: &str = " data-deflate>";

/// What it ends with: nothing in the data is markup.
pub(super) const END: &str = "</script>\n";

/// Writes lines in blocks.
pub(super) struct Blocks<'a> {
    out: &'a mut dyn Write,
    /// Lines are written as they are, without blocks, for who reads them as they come.
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

    /// Writes lines alone, each at once.
    pub(super) fn plain(out: &'a mut dyn Write) -> Self {
        Self { is_plain: true, ..Self::new(out) }
    }

    /// Takes a line: the letter of what it holds, and its value as JSON without markup.
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

    /// Writes what is left; the last line comes last.
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
