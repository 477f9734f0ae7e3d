//! What the questions about history share: how messages are read, and what cannot be answered.

use memchr::memmem::Finder;
use turntree::Error;
use turntree::repo::{Gaps, LinePattern, PatternOptions};
use turntree_exchange::MessageText;

use crate::error::Result;
use crate::output::warn;

/// A text to count.
#[derive(Debug)]
pub(crate) struct Occurring {
    finder: Finder<'static>,
    messages: MessageText,
}

impl Occurring {
    /// Counts `text`.
    pub(crate) fn new(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::invalid("an empty text occurs everywhere: expected some").into());
        }
        let messages = match text.contains('\n') {
            true => MessageText::default(),
            false => {
                let options = PatternOptions { fixed: true, ..PatternOptions::default() };
                messages_with(&LinePattern::new(text, options)?)
            }
        };
        Ok(Self { finder: Finder::new(text).into_owned(), messages })
    }

    /// How often it occurs in `text`, without overlaps.
    pub(crate) fn count(&self, text: &[u8]) -> u64 {
        self.finder.find_iter(text).count() as u64
    }

    /// What a message says, if it may occur in it.
    pub(crate) fn message(&self, format: &str, bytes: &[u8]) -> Option<String> {
        self.messages.read(format, bytes)
    }
}

/// Reads the messages in which a pattern may match.
pub(crate) fn messages_with(pattern: &LinePattern) -> MessageText {
    MessageText::with_words(pattern.words(), pattern.ignores_case())
}

/// Says which turns an answer cannot speak of.
pub(crate) fn warn_of_gaps(gaps: &Gaps) {
    for gap in gaps.list() {
        warn(
            &format!("{gap}: what they changed counts as changed by the next turn that is")
                .replace("is not kept: what they", "is not kept: what it"),
        );
    }
}
