//! Finds the state of a Codex rollout before a turn: the running total, the model, and the identity of the
//! turn.
//!
//! A line may begin in the middle of a file, since other lines have the turns before. The total is of the
//! file: it includes the answers before this turn, also those of other lines.

use memchr::memmem::find;
use serde_json::Value;
use turntree::context::Transcript;
use turntree::error::Result;
use turntree::object::ObjectSource;

use super::{AnswerCounter, CODEX, CODEX_USAGE_MARKS};
use crate::formats::view;
use crate::insight::usage::{TokenUsage, running_total};
use crate::text::json::{self, text_at};

/// Maximum number of pieces to search, and the number per read.
const MAX_PIECES_READ: u64 = 8192;
const PIECES_READ_AT_ONCE: u64 = 256;

/// The newest values of the pieces before a turn.
#[derive(Default)]
struct Before {
    sum: Option<TokenUsage>,
    model: Option<String>,
    turn_id: Option<String>,
    prompt: Option<String>,
}

impl Before {
    fn is_complete(&self) -> bool {
        let Self { sum, model, turn_id, prompt } = self;
        sum.is_some() && model.is_some() && turn_id.is_some() && prompt.is_some()
    }

    /// Takes the values that only older pieces have so far.
    fn add(&mut self, record: &Value) {
        let text = |path| text_at(record, path).map(str::to_owned);
        match (text_at(record, "/type"), text_at(record, "/payload/type")) {
            (Some("event_msg"), Some("token_count")) => {
                self.sum = self.sum.or_else(|| running_total(record).map(|(_, sum)| sum));
            }
            (Some("turn_context"), _) => {
                self.model = self.model.take().or_else(|| text("/payload/model"));
                self.turn_id = self.turn_id.take().or_else(|| text("/payload/turn_id"));
            }
            (Some("event_msg"), Some("task_started")) => {
                let id = text("/payload/turn_id").unwrap_or_default();
                self.turn_id.get_or_insert(id);
            }
            (Some("response_item"), Some("message"))
                if self.prompt.is_none() && text_at(record, "/payload/role") == Some("user") =>
            {
                self.prompt = Some(view(CODEX, record.to_string().as_bytes()).text);
            }
            _ => {}
        }
    }
}

impl AnswerCounter {
    /// Sets the state of a rollout to that after its first `pieces` pieces.
    pub(super) fn continue_from_pieces(
        &mut self,
        source: &dyn ObjectSource,
        transcript: &Transcript,
        pieces: u64,
    ) -> Result<()> {
        let (mut before, mut end) = (Before::default(), pieces.min(transcript.len()));
        let first = end.saturating_sub(MAX_PIECES_READ);
        while end > first && !before.is_complete() {
            let start = end.saturating_sub(PIECES_READ_AT_ONCE);
            let pieces = transcript.pieces(source, start..end).collect::<Result<Vec<_>>>()?;
            for piece in pieces.iter().rev() {
                let bytes = piece.bytes(source)?;
                if CODEX_USAGE_MARKS.iter().any(|word| find(&bytes, word).is_some())
                    && let Some(record) = json::value(&bytes)
                {
                    before.add(&record);
                }
            }
            end = start;
        }
        self.sum = before.sum;
        self.turn_id = before.turn_id.unwrap_or_default();
        self.prompt = before.prompt.unwrap_or_default();
        self.model = before.model.unwrap_or_else(|| std::mem::take(&mut self.model));
        Ok(())
    }
}
