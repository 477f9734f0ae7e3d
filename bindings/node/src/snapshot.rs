//! Reads a snapshot: entries, records, messages, and its place in history.

use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use turntree::local::{self, Scan};

use crate::work::{Promise, buffer, promise, promise_of};

/// An agent's context at a turn.
#[napi]
pub struct Snapshot {
    pub(crate) inner: local::Snapshot,
}

/// An entry of a map section.
#[napi(object, object_from_js = false)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The content.
    pub content: Buffer,
}

/// A message of a conversation.
#[napi(object, object_from_js = false)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool` or `other`.
    pub role: String,
    /// The format of the record.
    pub format: String,
    /// The branch that a merge took the message from.
    pub origin: Option<String>,
    /// The record, byte for byte.
    pub record: Buffer,
}

/// A name and its value. A name can be any string, so it is no key of an object: `__proto__` would
/// be lost.
#[napi(object, object_from_js = false)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A changed path.
#[napi(object, object_from_js = false)]
pub struct PathChange {
    /// The path of an entry or of a section.
    pub path: String,
    /// `added`, `removed` or `changed`.
    pub kind: &'static str,
}

#[napi]
impl Snapshot {
    #[napi(getter, catch_unwind)]
    pub fn id(&self) -> String {
        self.inner.id().to_string()
    }

    #[napi(getter, catch_unwind)]
    pub fn turn(&self) -> f64 {
        self.inner.turn() as f64
    }

    #[napi(getter, catch_unwind)]
    pub fn title(&self) -> String {
        self.inner.title().to_owned()
    }

    #[napi(getter, catch_unwind)]
    pub fn session(&self) -> String {
        self.inner.commit().session.clone()
    }

    #[napi(getter, catch_unwind)]
    pub fn parents(&self) -> Vec<String> {
        self.inner.commit().parents.iter().map(ToString::to_string).collect()
    }

    #[napi(getter, catch_unwind)]
    pub fn time_micros(&self) -> i64 {
        self.inner.commit().time.micros
    }

    #[napi(getter, catch_unwind)]
    pub fn author(&self) -> String {
        self.inner.commit().author.agent.clone()
    }

    #[napi(getter, catch_unwind)]
    pub fn metadata(&self) -> Vec<Named> {
        let facts = self.inner.commit().metadata.clone();
        facts.into_iter().map(|(name, value)| Named { name, value }).collect()
    }

    #[napi(catch_unwind)]
    pub fn sections(&self) -> Promise<Vec<Named>> {
        let inner = self.inner.clone();
        promise(move || {
            let sections = inner.sections()?.into_iter();
            Ok(sections
                .map(|(name, section)| Named { name, value: section.shape.name().to_owned() })
                .collect())
        })
    }

    #[napi(catch_unwind)]
    pub fn count(&self, section: String) -> Promise<u64, f64> {
        let inner = self.inner.clone();
        promise_of(move || inner.count(&section), |count| count as f64)
    }

    #[napi(catch_unwind)]
    pub fn get(&self, section: String, key: String) -> Promise<Option<Vec<u8>>, Option<Buffer>> {
        let inner = self.inner.clone();
        let read = move || Ok(inner.get(&section, &key)?.map(|content| content.to_vec()));
        promise_of(read, |found| found.map(buffer))
    }

    #[napi(catch_unwind)]
    pub fn read(&self, path: String) -> Promise<Vec<u8>, Buffer> {
        let inner = self.inner.clone();
        promise_of(move || Ok(inner.read_entry(&path)?.to_vec()), buffer)
    }

    #[napi(catch_unwind)]
    pub fn scan(
        &self,
        section: String,
        prefix: String,
        after: Option<String>,
        reverse: bool,
        limit: Option<f64>,
    ) -> Promise<Vec<(String, Vec<u8>)>, Vec<Entry>> {
        let (inner, scan) = (self.inner.clone(), asked(prefix, after, reverse, limit));
        let read = move || {
            let found = inner.scan(&section, &scan)?;
            Ok(found.into_iter().map(|(key, content)| (key, content.to_vec())).collect())
        };
        promise_of(read, |found: Vec<(String, Vec<u8>)>| {
            found
                .into_iter()
                .map(|(key, content)| Entry { key, content: buffer(content) })
                .collect()
        })
    }

    #[napi(catch_unwind)]
    pub fn keys(
        &self,
        section: String,
        prefix: String,
        after: Option<String>,
        reverse: bool,
        limit: Option<f64>,
    ) -> Promise<Vec<String>> {
        let (inner, scan) = (self.inner.clone(), asked(prefix, after, reverse, limit));
        promise(move || inner.scan_keys(&section, &scan))
    }

    #[napi(catch_unwind)]
    pub fn list(
        &self,
        section: String,
        start: f64,
        stop: Option<f64>,
    ) -> Promise<Vec<Vec<u8>>, Vec<Buffer>> {
        let (inner, range) = (self.inner.clone(), whole(start)..stop.map_or(u64::MAX, whole));
        let read = move || {
            let found = inner.list(&section, range)?;
            Ok(found.iter().map(|content| content.to_vec()).collect())
        };
        promise_of(read, |found: Vec<Vec<u8>>| found.into_iter().map(buffer).collect())
    }

    #[napi(catch_unwind)]
    pub fn agents(&self) -> Promise<Vec<String>> {
        let inner = self.inner.clone();
        promise(move || inner.agents())
    }

    #[napi(catch_unwind)]
    pub fn messages(&self, agent: String) -> Promise<Vec<local::Message>, Vec<Message>> {
        let inner = self.inner.clone();
        let read = move || inner.messages(&agent)?.collect();
        promise_of(read, |found: Vec<local::Message>| found.into_iter().map(message).collect())
    }

    #[napi(catch_unwind)]
    pub fn changes_since(&self, older: &Snapshot) -> Promise<Vec<PathChange>> {
        let (inner, older) = (self.inner.clone(), older.inner.clone());
        promise(move || changes(&older, &inner))
    }
}

fn message(found: local::Message) -> Message {
    Message {
        role: found.role.name().to_owned(),
        format: found.format,
        origin: found.origin,
        record: buffer(found.record.to_vec()),
    }
}

/// Returns the changes between two snapshots.
pub(crate) fn changes(
    older: &local::Snapshot,
    newer: &local::Snapshot,
) -> turntree::Result<Vec<PathChange>> {
    let change = |change: local::EntryChange| PathChange { kind: change.kind(), path: change.path };
    Ok(newer.changes_since(older)?.into_iter().map(change).collect())
}

fn asked(prefix: String, after: Option<String>, backwards: bool, limit: Option<f64>) -> Scan {
    Scan { prefix, after, backwards, limit: limit.map(whole) }
}

/// Converts a number that `lib/index.cts` has checked to be whole and not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of f64 saturates"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}
