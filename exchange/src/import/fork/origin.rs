//! The session that records were copied from, and how a copy is recognised.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use turntree::context::{Context, SourceKind, Transcript, without_values};
use turntree::error::{ErrorKind, Result};
use turntree::object::{ID_BYTES, Kind, ObjectId};
use turntree::repo::{BranchName, Transaction};
use turntree::tree::List;

use super::{find_session, is_named};
use crate::import::rewind::{RewindPoint, Timeline, point_in_copies};
use crate::model::format::Lineage;
use crate::text::json;
use crate::text::piece::Piece;

/// Least bytes of an id that no two sessions have by chance, and least different bytes in it.
const MIN_IDENTITY: usize = 16;
const MIN_DIFFERENT: usize = 6;

/// A digest that a record shares with its copies.
pub(crate) type RecordKey = [u8; ID_BYTES];

impl Lineage {
    /// Returns the key that a record shares with its copies: a digest of its id, otherwise of its
    /// content without volatile values.
    pub(super) fn key(&self, piece: &Piece, record: Option<&Value>) -> Option<RecordKey> {
        let Some(id) = self.id else { return content_key(&piece.bytes, self.volatile) };
        let parsed = if record.is_none() { json::value(&piece.bytes) } else { None };
        id(record.or(parsed.as_ref())?).map(|id| digest(id.as_bytes()))
    }

    /// The key of a record which no session has but one and its copies: by a long random id in it, or
    /// since it is a summary of a whole conversation.
    pub(super) fn identity(&self, piece: &Piece, record: &Value) -> Option<RecordKey> {
        let id = self.identity.and_then(|identity| identity(record));
        let is_unique = id.is_some_and(|id| is_random(id.as_bytes()));
        if is_unique || (self.is_summary)(record) { self.key(piece, Some(record)) } else { None }
    }
}

/// Returns true if an id is long and random enough to belong to one record only.
fn is_random(id: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in id {
        if let Some(seen) = seen.get_mut(usize::from(*byte)) {
            *seen = true;
        }
    }
    id.len() >= MIN_IDENTITY && seen.iter().filter(|seen| **seen).count() >= MIN_DIFFERENT
}

fn content_key(record: &[u8], volatile: &[&str]) -> Option<RecordKey> {
    without_values(record, volatile).map(|rest| digest(&rest))
}

fn digest(bytes: &[u8]) -> RecordKey {
    *ObjectId::of(Kind::Blob, bytes).as_bytes()
}

/// The context of a commit.
pub(crate) fn context_at(change: &Transaction<'_>, commit: &ObjectId) -> Result<Context> {
    Context::open(change, &change.read_commit(commit)?.tree)
}

/// The session that records were copied from, and the place of the newest copy.
pub(super) struct Origin {
    history: Arc<History>,
    /// The record that the copies begin with, where that is known before the first of them.
    first: Option<u64>,
    to: Option<u64>,
}

/// The records of a session. Memory: some 100 bytes for each.
#[derive(Debug)]
pub(super) struct History {
    branch: BranchName,
    tip: ObjectId,
    transcript: Transcript,
    /// The base of each copied piece of its own.
    places: Vec<Option<(usize, u64)>>,
    /// The first piece with each key.
    numbers: HashMap<RecordKey, u64>,
    /// The keys of pieces, for records that are recognised by content; copies are in the same
    /// order.
    keys: Vec<Option<RecordKey>>,
}

/// Most histories that are kept.
const MAX_HISTORIES: usize = 4;

/// The histories that were read last, by the commits that have them.
#[derive(Debug, Default)]
pub(super) struct Histories(Mutex<Vec<(ObjectId, Arc<History>)>>);

impl Histories {
    /// Returns the history at a commit, and calls `read` if it is not cached.
    ///
    /// # Errors
    /// As of `read`.
    fn get(
        &self,
        tip: &ObjectId,
        read: impl FnOnce() -> Result<Option<History>>,
    ) -> Result<Option<Arc<History>>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().iter().find(|(id, _)| id == tip).map(|(_, known)| Arc::clone(known));
        if known.is_some() {
            return Ok(known);
        }
        let Some(history) = read()?.map(Arc::new) else { return Ok(None) };
        let mut histories = lock();
        if histories.len() >= MAX_HISTORIES {
            histories.remove(0);
        }
        histories.push((*tip, Arc::clone(&history)));
        Ok(Some(history))
    }
}

impl History {
    /// Reads the transcript of a branch; `None` if it cannot be read, for example because it
    /// expired.
    fn read(
        change: &Transaction<'_>,
        (branch, tip): (BranchName, ObjectId),
        lineage: Lineage,
    ) -> Result<Option<Self>> {
        let context = match context_at(change, &tip) {
            Err(error) if error.kind() == ErrorKind::Expired => return Ok(None),
            context => context?,
        };
        let transcript = Transcript::open(change, &context)?;
        let (mut numbers, mut keys) = (HashMap::new(), Vec::new());
        for (at, piece) in (0..).zip(transcript.pieces(change, 0..transcript.len())) {
            let piece = piece?;
            let mut key = None;
            if piece.kind == SourceKind::Record {
                let bytes = piece.bytes(change)?;
                key = match lineage.id {
                    Some(id) => {
                        json::value(&bytes).as_ref().and_then(id).map(|id| digest(id.as_bytes()))
                    }
                    None => content_key(&bytes, lineage.volatile),
                };
            }
            if let Some(key) = key {
                numbers.entry(key).or_insert(at);
            }
            if lineage.id.is_none() {
                keys.push(key);
            }
        }
        let places = transcript.places(change)?;
        Ok(Some(Self { branch, tip, transcript, places, numbers, keys }))
    }
}

impl Origin {
    /// Returns the session called `named`, if it has a readable transcript.
    ///
    /// Cost: reads all of its transcript, unless `histories` has it.
    pub(super) fn named(
        change: &Transaction<'_>,
        named: &str,
        lineage: Lineage,
        histories: &Histories,
    ) -> Result<Option<Self>> {
        let Some((branch, tip)) = find_session(change, named) else { return Ok(None) };
        let read = || History::read(change, (branch, tip), lineage);
        Ok(histories.get(&tip, read)?.map(|history| Self { history, first: None, to: None }))
    }

    pub(super) fn is_of(&self, named: &str) -> bool {
        is_named(self.history.branch.session(), named)
    }

    /// Takes a record with this key as the next copy, if it is one: any record that has the id, or,
    /// by content, the one after the last copy.
    pub(super) fn take(&mut self, key: RecordKey) -> bool {
        if let Some(first) = self.first.take() {
            self.to = Some(first).filter(|first| self.key_of(*first) == Some(key));
            return self.to.is_some();
        }
        let found = match self.to {
            Some(to) if !self.history.keys.is_empty() => {
                self.next_record(to).filter(|(_, it)| *it == key)
            }
            _ => self.history.numbers.get(&key).map(|at| (*at, key)),
        };
        self.to = found.map(|(at, _)| at).or(self.to);
        found.is_some()
    }

    /// Aligns records whose last one is unique: the records right before it are copies if they
    /// precede it here, too. Returns the number of copies; `None` if this session does not have the
    /// last record.
    pub(super) fn align(&mut self, keys: &[RecordKey]) -> Option<usize> {
        let (last, before) = keys.split_last()?;
        let mut at = *self.history.numbers.get(last)?;
        if self.history.keys.is_empty() {
            // Records have ids, which identify the copies.
            return Some(keys.len());
        }
        let mut copies = 1;
        for key in before.iter().rev() {
            let Some(previous) = (0..at).rev().find(|at| self.key_of(*at).is_some()) else { break };
            if self.key_of(previous) != Some(*key) {
                break;
            }
            (at, copies) = (previous, copies + 1);
        }
        self.first = Some(at);
        Some(copies)
    }

    /// The key of a record, for records that are recognised by content.
    fn key_of(&self, at: u64) -> Option<RecordKey> {
        self.history.keys.get(usize::try_from(at).ok()?).copied().flatten()
    }

    /// Returns true if a copy was seen.
    pub(super) fn has_copies(&self) -> bool {
        self.to.is_some()
    }

    /// Sets the newest copy to that of the record with this id; returns false if there is none.
    pub(super) fn move_to(&mut self, id: &str) -> bool {
        self.to = self.history.numbers.get(&digest(id.as_bytes())).copied();
        self.to.is_some()
    }

    fn next_record(&self, to: u64) -> Option<(u64, RecordKey)> {
        let from = usize::try_from(to).ok()? + 1;
        let rest = self.history.keys.get(from..)?;
        (to + 1..).zip(rest).find_map(|(at, key)| Some((at, (*key)?)))
    }

    /// The list and the piece there that the newest copy is a copy of.
    pub(super) fn base(&self) -> Option<(List, u64)> {
        let to = self.to?;
        let Some(own) = to.checked_sub(self.history.transcript.copied()) else {
            let (base, at) =
                self.history.places.get(usize::try_from(to).ok()?).copied().flatten()?;
            return Some((self.history.transcript.bases().get(base)?.clone(), at));
        };
        Some((self.history.transcript.own().clone(), own))
    }

    /// The place of the newest copy: a turn of this session, or of one that it was forked from.
    pub(super) fn place(&self, change: &Transaction<'_>) -> Result<Option<RewindPoint>> {
        let Some(to) = self.to else { return Ok(None) };
        let (session, first) = (self.history.branch.session(), &self.history.branch);
        if to >= self.history.transcript.copied() {
            let timeline = Timeline::of_session(change, session, first, &self.history.transcript)?;
            return timeline.point_at(change, Some(to));
        }
        let History { tip, transcript, places, .. } = &*self.history;
        point_in_copies(change, (session, &[*tip]), transcript, places, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_long_and_mixed() {
        for id in ["019f0001-0000-7000-8000-000000000001", "call_Zk29dJq0aPx7", "msg_01AbCdEfGhIj"]
        {
            assert!(is_random(id.as_bytes()), "{id}");
        }
        for id in ["", "call_1", "c0_0", "aaaaaaaaaaaaaaaaaaaaaaaa", "00000000-0000-0000-0000"] {
            assert!(!is_random(id.as_bytes()), "{id}");
        }
    }

    #[test]
    fn what_a_copy_has_otherwise_is_not_in_its_key() {
        let record = |time: &str, text: &str| {
            format!(r#"{{"timestamp":"{time}","payload":{{"text":"{text}"}}}}"#)
        };
        let key = |record: &str| content_key(record.as_bytes(), &["timestamp"]).unwrap();
        assert_eq!(key(&record("1", "a")), key(&record("2", "a")));
        assert_ne!(key(&record("1", "a")), key(&record("1", "b")));
    }
}
