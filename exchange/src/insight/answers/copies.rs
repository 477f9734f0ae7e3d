//! How far the sum of a rollout came in what it has copied.

use memchr::memmem::find;
use serde_json::Value;
use turntree::context::Transcript;
use turntree::error::Result;
use turntree::object::ObjectSource;

use super::{AnswerCounter, TELLING};
use crate::insight::usage::running_total;
use crate::text::json::text_at;

/// Most pieces at the end of a copied beginning that are read for the sum that it came to, and how many
/// at once.
const MAX_COPIES_READ: u64 = 8192;
const COPIES_READ_AT_ONCE: u64 = 256;

impl AnswerCounter {
    /// Takes the sum and the model of a rollout from the end of what it has copied.
    pub(super) fn go_on_from_copies(
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
                if !TELLING.iter().any(|word| find(&bytes, word).is_some()) {
                    continue;
                }
                let Ok(record) = serde_json::from_slice::<Value>(&bytes) else { continue };
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
