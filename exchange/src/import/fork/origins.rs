//! Finds the sessions of a store by first records that only they and their copies have.
//!
//! A note next to the store keeps them, for each format: a digest of the record and the name of the
//! session that owns it. The note may be deleted; sessions that it lacks are read when it is next
//! needed.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use turntree::context::{SourceKind, Transcript};
use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::{Repository, Transaction};
use turntree::workspace::{read_note, write_note};

use super::origin::Histories;
use super::{MAX_HELD, RecordKey, context_at};
use crate::import::turns::fact;
use crate::model::format::{Lineage, RecordFormat};
use crate::text::json;
use crate::text::piece::{Piece, PieceKind};

/// The name of the note, before the name of the format.
const NOTE: &str = "origins of ";

/// Takes the place of the digest of a session that has no such record.
const NONE: &str = "-";

/// Most sessions that one import reads because the note lacks them.
const MAX_LOOKED_AT: usize = 1000;

/// The sessions that forks may be forked from. One is shared by imports that belong together.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    formats: Mutex<HashMap<&'static str, Known>>,
    /// Siblings have one origin.
    pub(super) histories: Histories,
}

/// The sessions of a format.
#[derive(Debug, Default)]
struct Known {
    by_key: HashMap<RecordKey, String>,
    sessions: HashSet<String>,
    is_changed: bool,
}

impl Origins {
    /// Returns the session that owns this record, if it is known.
    ///
    /// # Errors
    /// Errors of reading sessions that the note lacks.
    pub(crate) fn find(
        &self,
        (repo, change): (&Repository, &Transaction<'_>),
        format: RecordFormat,
        lineage: Lineage,
        key: &RecordKey,
    ) -> Result<Option<String>> {
        let mut formats = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        if !formats.contains_key(format.name) {
            let mut known = Known::read(repo, format.name);
            known.look_at_missing(change, format, lineage)?;
            formats.insert(format.name, known);
        }
        Ok(formats.get(format.name).and_then(|known| known.by_key.get(key).cloned()))
    }

    /// Notes the records by which forks of a session find it.
    pub(crate) fn add(&self, format: RecordFormat, session: &str, keys: &[RecordKey]) {
        let mut formats = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        // The sessions of a format that was not loaded are read from the store the next time.
        if let Some(known) = formats.get_mut(format.name) {
            known.add(session, keys);
        }
    }

    /// Saves new records. A failed write only costs the next import time.
    pub(crate) fn save(&self, repo: &Repository) {
        let mut formats = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, known) in formats.iter_mut().filter(|(_, known)| known.is_changed) {
            let _ = write_note(repo, &format!("{NOTE}{name}"), known.to_text().as_bytes());
            known.is_changed = false;
        }
    }
}

impl Known {
    fn read(repo: &Repository, format: &str) -> Self {
        let mut known = Self::default();
        let note = read_note(repo, &format!("{NOTE}{format}")).unwrap_or_default();
        for line in String::from_utf8_lossy(&note).lines() {
            let Some((key, session)) = line.split_once(' ') else { continue };
            if let Ok(key) = key.parse::<ObjectId>() {
                known.by_key.insert(*key.as_bytes(), session.to_owned());
            }
            known.sessions.insert(session.to_owned());
        }
        known
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        let mut with_keys = HashSet::new();
        for (key, session) in &self.by_key {
            with_keys.insert(session);
            let _ = writeln!(text, "{} {session}", ObjectId::from_bytes(*key));
        }
        for session in self.sessions.iter().filter(|session| !with_keys.contains(session)) {
            let _ = writeln!(text, "{NONE} {session}");
        }
        text
    }

    fn add(&mut self, session: &str, keys: &[RecordKey]) {
        for key in keys {
            self.by_key.entry(*key).or_insert_with(|| session.to_owned());
        }
        self.sessions.insert(session.to_owned());
        self.is_changed = true;
    }

    /// Reads sessions of the store that the note lacks, because no import added them.
    fn look_at_missing(
        &mut self,
        change: &Transaction<'_>,
        format: RecordFormat,
        lineage: Lineage,
    ) -> Result<()> {
        let mut all = change.main_branches();
        all.retain(|(name, _)| !self.sessions.contains(name.session()));
        for (name, tip) in all.into_iter().take(MAX_LOOKED_AT) {
            let keys = first_identity(change, &tip, format, lineage)?;
            self.add(name.session(), keys.as_slice());
        }
        Ok(())
    }
}

/// The first record of a session's own with an identity.
fn first_identity(
    change: &Transaction<'_>,
    tip: &ObjectId,
    format: RecordFormat,
    lineage: Lineage,
) -> Result<Option<RecordKey>> {
    let Ok(context) = context_at(change, tip) else { return Ok(None) };
    if fact(change, &context, "format")?.as_deref() != Some(format.name) {
        return Ok(None);
    }
    let transcript = Transcript::open(change, &context)?;
    let own = transcript.copied();
    let end = own.saturating_add(MAX_HELD as u64);
    for piece in transcript.pieces(change, own..end) {
        let piece = piece?;
        if piece.kind != SourceKind::Record {
            continue;
        }
        let bytes = piece.bytes(change)?;
        let Some(record) = json::value(&bytes) else { continue };
        let kind = PieceKind::Record { path: "" };
        let piece = Piece { kind, bytes, ..Piece::end() };
        let identity = lineage.identity(&piece, &record);
        if identity.is_some() {
            return Ok(identity);
        }
    }
    Ok(None)
}
