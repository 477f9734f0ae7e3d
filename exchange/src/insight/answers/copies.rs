//! Finds the running total at the end of the copied pieces of a Codex rollout.

use memchr::memmem::find;
use turntree::context::Transcript;
use turntree::error::Result;
use turntree::object::ObjectSource;

use super::{AnswerCounter, CODEX_USAGE_MARKS};
use crate::insight::usage::running_total;
use crate::text::json::{self, text_at};

/// Maximum number of copied pieces to search for the running total, and the number per read.
const MAX_COPIES_READ: u64 = 8192;
const COPIES_READ_AT_ONCE: u64 = 256;

impl AnswerCounter {
    /// Sets the running total and the model of a rollout from the end of its copied pieces.
    pub(super) fn continue_from_copies(
        &mut self,
        source: &dyn ObjectSource,
        transcript: &Transcript,
    ) -> Result<()> {
        let (mut model, mut end) = (None, transcript.copied());
        let first = end.saturating_sub(MAX_COPIES_READ);
        while end > first && (self.sum.is_none() || model.is_none()) {
            let start = end.saturating_sub(COPIES_READ_AT_ONCE);
            let pieces = transcript.pieces(source, start..end).collect::<Result<Vec<_>>>()?;
            for piece in pieces.iter().rev() {
                let bytes = piece.bytes(source)?;
                if !CODEX_USAGE_MARKS.iter().any(|word| find(&bytes, word).is_some()) {
                    continue;
                }
                let Some(record) = json::value(&bytes) else { continue };
                let kind = (text_at(&record, "/type"), text_at(&record, "/payload/type"));
                match kind {
                    (Some("event_msg"), Some("token_count")) if self.sum.is_none() => {
                        self.sum = running_total(&record).map(|(_, sum)| sum);
                    }
                    (Some("turn_context"), _) if model.is_none() => {
                        model = text_at(&record, "/payload/model").map(str::to_owned);
                    }
                    _ => {}
                }
            }
            end = start;
        }
        self.model = model.unwrap_or_else(|| std::mem::take(&mut self.model));
        Ok(())
    }
}
