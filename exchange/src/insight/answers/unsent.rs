//! Counts usage outside of the messages: in records that are never sent, in the statistics of a
//! conversation, and in the window messages with requests.

use memchr::memmem::find;
use turntree::context::{MAIN_AGENT, SourceEntry, SourceKind};
use turntree::error::Result;
use turntree::object::ObjectSource;
use turntree::tree::Item;

use super::{AnswerCounter, AnswerKey, OPENCODE, OPENHANDS, TurnPlace, WINDOW, content};
use crate::insight::stats::{answers_of_model, answers_of_stats};
use crate::insight::usage::{is_request, usage_of};
use crate::text::json;

/// Fields of records with usage that are in no context.
const UNSENT_MARKS: [&[u8]; 5] =
    [b"\"error\"", b"\"aborted\"", b"\"usage\"", b"\"usageMetadata\"", b"\"tokens\""];

/// The key of the statistics of a conversation.
const STATS: &[u8] = b"usage_to_metrics";

/// A key of the metrics of a task.
const METRICS: &[u8] = b"accumulated_cost";

/// Every record of a request contains it.
const REQUEST_MARK: &[u8] = b"api_req_started";

impl AnswerCounter {
    /// Adds the usage of records that are not messages: failed answers, and requests outside of the
    /// conversation.
    pub(super) fn add_unsent<'i>(
        &mut self,
        source: &dyn ObjectSource,
        turn: TurnPlace<'_>,
        agent: &str,
        items: impl Iterator<Item = &'i Item>,
    ) -> Result<()> {
        for item in items {
            let entry = SourceEntry::from_item(item)?;
            // Messages that opencode hides after a revert are no records, and had their usage.
            let may_tell = entry.kind == SourceKind::Record
                || (entry.kind == SourceKind::Glue && agent == OPENCODE);
            if !may_tell || self.read.contains(&entry.blob) || !self.is_new(turn, &entry.blob) {
                continue;
            }
            let Some(bytes) = content(source, &entry.blob)? else { continue };
            if !UNSENT_MARKS.iter().any(|word| find(&bytes, word).is_some()) {
                continue;
            }
            let Some(record) = json::value(&bytes) else { continue };
            if let Some(found) = usage_of(&record) {
                let key = found.answer.clone().unwrap_or_else(|| entry.blob.to_string());
                self.add(turn, (format!("{agent}/main"), key.as_str()), (found, false), Vec::new());
            }
        }
        Ok(())
    }

    /// Adds the requests in the window messages of Cline. Each is an answer.
    pub(super) fn add_requests<'i>(
        &mut self,
        source: &dyn ObjectSource,
        turn: TurnPlace<'_>,
        items: impl Iterator<Item = &'i Item>,
    ) -> Result<()> {
        for item in items {
            let entry = SourceEntry::from_item(item)?;
            if entry.kind != SourceKind::Record || !self.is_new(turn, &entry.blob) {
                continue;
            }
            let Some(bytes) = content(source, &entry.blob)? else { continue };
            if find(&bytes, REQUEST_MARK).is_none() {
                continue;
            }
            let Some(record) = json::value(&bytes) else { continue };
            if is_request(&record) {
                let found = usage_of(&record);
                let is_silent = found.is_none();
                let (agent, key) = (format!("{WINDOW}/{MAIN_AGENT}"), entry.blob.to_string());
                let found = (found.unwrap_or_default(), is_silent);
                self.add(turn, (agent, key.as_str()), found, Vec::new());
            }
        }
        Ok(())
    }

    /// Adds the statistics of a conversation, which cover all answers so far.
    pub(super) fn add_stats<'i>(
        &mut self,
        source: &dyn ObjectSource,
        turn: TurnPlace<'_>,
        items: impl Iterator<Item = &'i Item>,
    ) -> Result<()> {
        for item in items {
            let entry = SourceEntry::from_item(item)?;
            if entry.kind != SourceKind::Glue || !self.is_new(turn, &entry.blob) {
                continue;
            }
            let Some(bytes) = content(source, &entry.blob)? else { continue };
            let has_stats = find(&bytes, STATS).is_some();
            let is_told = has_stats || find(&bytes, METRICS).is_some();
            let Some(stats) = is_told.then(|| json::value(&bytes)).flatten() else { continue };
            let answers = match has_stats {
                true => answers_of_stats(&stats),
                false => answers_of_model(&entry.blob.to_string(), &stats),
            };
            for (key, found) in answers {
                // Numbers and sums belong to this conversation alone.
                let is_unique = found.answer.is_some();
                let family = if is_unique { "" } else { turn.commit.session.as_str() };
                let (agent, key) = (format!("{OPENHANDS}/main"), AnswerKey { key: &key, family });
                let open = self.add(turn, (agent, key), (found, false), Vec::new());
                // In version 0 the events have the usage of answers, too.
                open.is_total |= !has_stats && !is_unique;
            }
        }
        Ok(())
    }
}
