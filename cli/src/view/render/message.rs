//! Messages in one line, and in full.

use turntree::Result;
use turntree::context::MessageEntry;
use turntree::object::{Kind, ObjectSource};
use turntree_exchange::MessageView;
use turntree_exchange::formats::view;

use super::one_line;

/// Characters of a message in a line.
const WIDTH: usize = 72;

/// Returns the text of a message of any format.
///
/// # Errors
/// The errors of reading its blob.
pub(crate) fn read(source: &dyn ObjectSource, entry: &MessageEntry) -> Result<MessageView> {
    Ok(view(&entry.media, &source.read_as(Kind::Blob, &entry.blob)?))
}

/// A message in one line.
///
/// # Errors
/// The errors of reading its blob.
pub(crate) fn summary(source: &dyn ObjectSource, entry: &MessageEntry) -> Result<String> {
    Ok(one_line(&read(source, entry)?.summary(), WIDTH))
}

/// The full text of a message: text, thinking, tool calls and results.
pub(crate) fn full(view: &MessageView) -> String {
    let mut paragraphs = Vec::new();
    if !view.thinking.is_empty() {
        paragraphs.push(format!("(thinking) {}", view.thinking));
    }
    if !view.text.is_empty() {
        paragraphs.push(view.text.clone());
    }
    for call in &view.tool_calls {
        paragraphs.push(format!("[{}] {}", call.name, call.input));
    }
    for result in &view.tool_results {
        let failed = if result.is_error { " failed" } else { "" };
        paragraphs.push(format!("[result{failed}] {}", result.text));
    }
    paragraphs.join("\n\n")
}
