//! Salvages a transcript or the messages of an agent if no turn is whole.

use std::io::Write;

use turntree::context::{SalvagedRecords, salvage_messages, salvage_source};
use turntree::object::ObjectId;
use turntree::repo::Repository;

use super::{ExportFormat, ExportRequest};

/// The salvaged part of a turn.
pub(crate) struct SalvagedTurn {
    /// The newest turn with salvaged records.
    pub(crate) id: ObjectId,
    pub(crate) turn: u64,
    pub(crate) text: Vec<u8>,
    pub(crate) records: SalvagedRecords,
}

impl ExportRequest {
    /// Salvages the newest turn in the history of `start` that has verifiable records, in a format
    /// of records. Returns `None` if nothing is left, and for other formats.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid agent, `Io` if reading fails.
    pub(crate) fn salvage(
        &self,
        repo: &Repository,
        start: &ObjectId,
    ) -> turntree::Result<Option<SalvagedTurn>> {
        let mut at = Some(*start);
        while let Some(id) = at {
            let commit = match repo.commit(&id) {
                // Its parents are unknown.
                Err(error) if error.is_loss() => return Ok(None),
                commit => commit?,
            };
            let mut text = Vec::new();
            match self.salvage_turn(repo, &id, &mut text) {
                Ok(Some(records)) if records.whole > 0 => {
                    return Ok(Some(SalvagedTurn { id, turn: commit.turn, text, records }));
                }
                Err(error) if !error.is_loss() => return Err(error),
                _ => at = commit.parents.first().copied(),
            }
        }
        Ok(None)
    }

    fn salvage_turn(
        &self,
        repo: &Repository,
        id: &ObjectId,
        out: &mut dyn Write,
    ) -> turntree::Result<Option<SalvagedRecords>> {
        let (context, source) = (repo.context(id)?, repo);
        match self.format {
            ExportFormat::Source => salvage_source(source, &context, out).map(Some),
            ExportFormat::Jsonl => {
                let is_wanted = |role| self.is_wanted(role);
                salvage_messages(source, &context, &self.agent, &is_wanted, out).map(Some)
            }
            _ => Ok(None),
        }
    }
}
