//! The pool: payloads by URI, with the times when they were stored and last used, behind one ref.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use super::VfsUri;
use crate::context::sections::VFS;
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use crate::repo::{LogEntry, Repository, Signature, Transaction};
use crate::store::Expected;
use crate::tree::{Item, Link, Map};

/// The ref of the pool.
pub(crate) const PAYLOADS_REF: &str = "refs/vfs/payloads";

/// The ref of the tombstones of evicted payloads.
pub(crate) const EVICTED_REF: &str = "refs/vfs/evicted";

/// The maximum number of tombstones kept, newest first.
const MAX_TOMBSTONES: u64 = 4096;

/// The size of the times of a payload: a code, two numbers, and a zero that marks them as binary.
const META_BYTES: usize = 1 + 8 + 8 + 1;

/// A payload in the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The URI of the payload.
    pub uri: VfsUri,
    /// The content.
    pub blob: ObjectId,
    /// The time when it was first stored, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// The time when it was last stored or touched, in microseconds since the Unix epoch.
    pub accessed_micros: i64,
}

/// A payload to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPayload {
    /// The content.
    pub content: Bytes,
    /// The wanted URI. A creation time in it is trusted.
    pub uri: VfsUri,
    /// The URI to use when another content has the wanted one.
    pub otherwise: Option<VfsUri>,
}

/// The outcome of storing a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPayload {
    /// The payload.
    pub payload: Payload,
    /// True if the pool did not have it before.
    pub is_new: bool,
}

/// The reason of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionReason {
    /// The payload was older than allowed.
    Age,
    /// The pool had more payloads than allowed.
    Count,
    /// The payloads were larger than allowed.
    Bytes,
}

/// The tombstone of an evicted payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadTombstone {
    /// The URI of the payload.
    pub uri: VfsUri,
    /// The reason.
    pub reason: String,
    /// The time, in microseconds since the Unix epoch.
    pub time_micros: i64,
}

/// The place of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadPlace {
    /// The content.
    pub blob: ObjectId,
    /// The newest snapshot found that carries it; `None` if it is in the pool.
    pub commit: Option<ObjectId>,
}

impl EvictionReason {
    /// The name in JSON and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

impl Payload {
    fn item(&self) -> Item {
        let mut meta = Vec::with_capacity(META_BYTES);
        meta.push(0);
        meta.extend_from_slice(&self.created_micros.to_le_bytes());
        meta.extend_from_slice(&self.accessed_micros.to_le_bytes());
        meta.push(0);
        Item { link: Link { kind: Kind::Blob, id: self.blob }, meta: meta.into() }
    }

    /// Reads the entry of `key`. Times of an invalid form, as after a redaction, become zero.
    fn from_entry(key: &[u8], item: &Item) -> Result<Self> {
        let uri = uri_of(key, item)?;
        let number = |at: usize| {
            let bytes = item.meta.get(at..at + 8)?;
            Some(i64::from_le_bytes(bytes.try_into().ok()?))
        };
        let known = item.meta.len() == META_BYTES;
        let time = |at| number(at).filter(|_| known).unwrap_or(0);
        Ok(Self { uri, blob: item.link.id, created_micros: time(1), accessed_micros: time(9) })
    }
}

/// The payloads of the pool, and the tombstones of evicted ones.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    payloads: Map,
    evicted: Map,
}

impl Pool {
    /// Loads the current pool of `repo`; empty if nothing was ever stored.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref.
    pub fn load(repo: &Repository) -> Result<Self> {
        let refs = repo.refs();
        let open = |name: &str| match root_of(refs.value(name)) {
            Some(root) => Map::open(repo.store(), &root).map_err(|error| error.at(name)),
            None => Ok(Map::new()),
        };
        Ok(Self { payloads: open(PAYLOADS_REF)?, evicted: open(EVICTED_REF)? })
    }

    /// Returns every payload, in order of URIs.
    pub fn payloads<'a>(
        &self,
        source: &'a dyn ObjectSource,
    ) -> impl Iterator<Item = Result<Payload>> + use<'a> {
        self.payloads.iter(source).map(|entry| {
            let (key, item) = entry?;
            Payload::from_entry(&key, &item)
        })
    }

    /// Returns one payload.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn get(&self, source: &dyn ObjectSource, uri: &VfsUri) -> Result<Option<Payload>> {
        let item = self.payloads.get(source, uri.as_str().as_bytes())?;
        item.map(|item| Payload::from_entry(uri.as_str().as_bytes(), &item)).transpose()
    }

    /// Returns the tombstone of every payload that was evicted and not stored again since, in order
    /// of URIs; at most the newest 4,096.
    pub fn evicted<'a>(
        &self,
        source: &'a dyn ObjectSource,
    ) -> impl Iterator<Item = Result<PayloadTombstone>> + use<'a> {
        self.evicted.iter(source).map(|entry| {
            let (key, item) = entry?;
            tombstone(source, &key, &item)
        })
    }

    /// Returns the tombstone of one payload.
    fn tombstone(
        &self,
        source: &dyn ObjectSource,
        uri: &VfsUri,
    ) -> Result<Option<PayloadTombstone>> {
        let key = uri.as_str().as_bytes();
        self.evicted.get(source, key)?.map(|item| tombstone(source, key, &item)).transpose()
    }
}

impl Repository {
    /// Stores a payload and returns its place. Storing an existing payload again only updates its
    /// last use. Retries when another process commits first.
    ///
    /// # Errors
    /// `InvalidInput` when other contents have its URIs; errors of writing.
    pub fn put_payload(&self, new: &NewPayload, stamp: &Signature) -> Result<StoredPayload> {
        let stored = self.put_payloads(std::slice::from_ref(new), stamp)?;
        stored.into_iter().next().ok_or_else(|| Error::invalid("no payload was given"))
    }

    /// Stores payloads in one operation, each like [`Repository::put_payload`].
    ///
    /// # Errors
    /// Errors of [`Repository::put_payload`]; then none is stored.
    pub fn put_payloads(
        &self,
        new: &[NewPayload],
        stamp: &Signature,
    ) -> Result<Vec<StoredPayload>> {
        self.retry_conflicts(|repo| {
            let mut change = repo.begin();
            let stored = change.put_payloads(new, stamp.time.micros)?;
            change.commit(stamp, "vfs put")?;
            Ok(stored)
        })
    }

    /// Updates the last use of a payload, for eviction.
    ///
    /// # Errors
    /// `NotFound` when it is not in the pool; errors of writing.
    pub fn touch_payload(&self, uri: &VfsUri, stamp: &Signature) -> Result<()> {
        self.retry_conflicts(|repo| {
            let mut change = repo.begin();
            let Some(root) = root_of(change.initial_value(PAYLOADS_REF)) else {
                return Err(missing(uri));
            };
            let pool = Map::open(&change, &root)?;
            let item = pool.get(&change, uri.as_str().as_bytes())?.ok_or_else(|| missing(uri))?;
            let mut payload = Payload::from_entry(uri.as_str().as_bytes(), &item)?;
            payload.accessed_micros = payload.accessed_micros.max(stamp.time.micros);
            change.write_map(PAYLOADS_REF, pool, [(uri.clone(), Some(payload.item()))])?;
            change.commit(stamp, "vfs touch").map(drop)
        })
    }

    /// Finds a payload in the pool, else in the newest snapshot that carries it.
    ///
    /// Reads the root of every kept snapshot if the payload is missing.
    ///
    /// # Errors
    /// `NotFound` when it is missing; the message reports an eviction.
    pub fn find_payload(&self, uri: &VfsUri) -> Result<PayloadPlace> {
        let pool = Pool::load(self)?;
        if let Some(payload) = pool.get(self.store(), uri)? {
            return Ok(PayloadPlace { blob: payload.blob, commit: None });
        }
        let mut tips: Vec<ObjectId> = self.branches().into_iter().map(|(_, tip)| tip).collect();
        tips.extend(self.pins()?.into_iter().map(|pin| pin.commit));
        tips.retain(|tip| self.commit(tip).is_ok());
        if let Some(tip) = self.head_if_any()?.and_then(|head| head.commit) {
            tips.insert(0, tip);
        }
        let mut seen = HashSet::new();
        for tip in &tips {
            if let Some(blob) = self.find_carried(tip, uri, &mut seen)? {
                return Ok(PayloadPlace { blob, commit: Some(*tip) });
            }
        }
        for entry in self.history(&tips, &[])? {
            let LogEntry { id, .. } = entry?;
            if let Some(blob) = self.find_carried(&id, uri, &mut seen)? {
                return Ok(PayloadPlace { blob, commit: Some(id) });
            }
        }
        match pool.tombstone(self.store(), uri)? {
            Some(PayloadTombstone { reason, .. }) => {
                let why = "no kept snapshot cited it";
                Err(Error::not_found(format!("{uri} was evicted by {reason}: {why}")))
            }
            None => Err(missing(uri)),
        }
    }

    /// Returns the payload from the section `vfs` of a snapshot, unless an equal section was
    /// searched before.
    fn find_carried(
        &self,
        commit: &ObjectId,
        uri: &VfsUri,
        seen: &mut HashSet<ObjectId>,
    ) -> Result<Option<ObjectId>> {
        if self.store().tombstone(&self.commit(commit)?.tree).is_some() {
            return Ok(None);
        }
        let context = self.context(commit)?;
        let Some(section) = context.section(self.store(), VFS)? else { return Ok(None) };
        if !seen.insert(section.id) {
            return Ok(None);
        }
        let map = context.map(self.store(), VFS)?;
        Ok(map.get(self.store(), uri.as_str().as_bytes())?.map(|item| item.link.id))
    }
}

impl Transaction<'_> {
    /// Stages payloads and the changed pool, with `now` as their last use. See
    /// [`Repository::put_payload`].
    ///
    /// # Errors
    /// `InvalidInput` when other contents have the URIs of a payload.
    pub fn put_payloads(&mut self, new: &[NewPayload], now: i64) -> Result<Vec<StoredPayload>> {
        let pool = self.pool_map(PAYLOADS_REF)?;
        let evicted = self.pool_map(EVICTED_REF)?;
        let (mut edits, mut revived) = (BTreeMap::new(), Vec::new());
        let mut stored = Vec::with_capacity(new.len());
        for NewPayload { content, uri, otherwise } in new {
            let blob = ObjectId::of(Kind::Blob, content);
            let there = |uri: &VfsUri, edits: &BTreeMap<VfsUri, Payload>| match edits.get(uri) {
                Some(payload) => Ok(Some(payload.clone())),
                None => {
                    let item = pool.get(self, uri.as_str().as_bytes())?;
                    item.map(|item| Payload::from_entry(uri.as_str().as_bytes(), &item)).transpose()
                }
            };
            let is_other = |old: &Option<Payload>| old.as_ref().is_some_and(|old| old.blob != blob);
            let mut uri = uri.clone();
            let mut old = there(&uri, &edits)?;
            if let Some(otherwise) = otherwise.as_ref().filter(|_| is_other(&old)) {
                uri = otherwise.clone();
                old = there(&uri, &edits)?;
            }
            if is_other(&old) {
                let message =
                    format!("{uri} already has a different payload: expected the same bytes");
                return Err(Error::invalid(message));
            }
            let created = uri.created_millis().and_then(|millis| millis.checked_mul(1000));
            let mut payload = old.clone().unwrap_or_else(|| Payload {
                uri: uri.clone(),
                blob,
                created_micros: created.unwrap_or(now),
                accessed_micros: now,
            });
            payload.accessed_micros = payload.accessed_micros.max(now);
            if evicted.get(self, uri.as_str().as_bytes())?.is_some() {
                revived.push((uri.clone(), None));
            }
            edits.insert(uri, payload.clone());
            self.write(Kind::Blob, content.clone())?;
            stored.push(StoredPayload { payload, is_new: old.is_none() });
        }
        let edits = edits.into_iter().map(|(uri, payload)| (uri, Some(payload.item())));
        self.write_map(PAYLOADS_REF, pool, edits)?;
        if !revived.is_empty() {
            self.write_map(EVICTED_REF, evicted, revived)?;
        }
        Ok(stored)
    }

    /// Removes payloads from the pool, and records the reasons.
    ///
    /// # Errors
    /// Errors of reading the pool.
    pub fn evict_payloads(
        &mut self,
        payloads: &[(VfsUri, EvictionReason)],
        now: i64,
    ) -> Result<()> {
        let removed: Vec<_> = payloads.iter().map(|(uri, _)| (uri.clone(), None)).collect();
        let pool = self.pool_map(PAYLOADS_REF)?;
        self.write_map(PAYLOADS_REF, pool, removed)?;
        let evicted = self.pool_map(EVICTED_REF)?;
        let mut edits = BTreeMap::new();
        for (uri, reason) in payloads {
            let blob = self.write(Kind::Blob, Bytes::from_static(reason.name().as_bytes()))?;
            let (uri, created_micros) = (uri.clone(), now);
            let entry = Payload { uri: uri.clone(), blob, created_micros, accessed_micros: now };
            edits.insert(uri, Some(entry.item()));
        }
        let all = evicted.len() + edits.len() as u64;
        let over = all.saturating_sub(MAX_TOMBSTONES);
        if over > 0 {
            let mut old = Vec::new();
            for entry in evicted.iter(self) {
                let (key, item) = entry?;
                let entry = Payload::from_entry(&key, &item)?;
                old.push((entry.created_micros, entry.uri));
            }
            old.sort();
            let over = usize::try_from(over).unwrap_or(usize::MAX);
            edits.extend(old.into_iter().take(over).map(|(_, uri)| (uri, None)));
        }
        self.write_map(EVICTED_REF, evicted, edits)
    }

    fn pool_map(&self, name: &str) -> Result<Map> {
        match root_of(self.initial_value(name)) {
            Some(root) => Map::open(self, &root).map_err(|error| error.at(name)),
            None => Ok(Map::new()),
        }
    }

    fn write_map(
        &mut self,
        name: &str,
        mut map: Map,
        edits: impl IntoIterator<Item = (VfsUri, Option<Item>)>,
    ) -> Result<()> {
        let edits = edits.into_iter().map(|(uri, item)| (Bytes::from(uri.to_string()), item));
        map.apply(self, edits.collect())?;
        let root = map.write(self)?;
        let expected = self.initial_value(name).cloned().map_or(Expected::Absent, Expected::Value);
        self.set_ref(name, expected, Some(RefValue::Object(root)));
        Ok(())
    }
}

/// Returns the root that a ref of the pool holds.
pub(super) fn root_of(value: Option<&RefValue>) -> Option<ObjectId> {
    match value {
        Some(RefValue::Object(id)) => Some(*id),
        _ => None,
    }
}

fn uri_of(key: &[u8], item: &Item) -> Result<VfsUri> {
    let text = std::str::from_utf8(key).ok();
    let uri = text.and_then(|text| text.parse().ok());
    uri.ok_or_else(|| Error::malformed(item.link.id, "the URI of a payload"))
}

fn tombstone(source: &dyn ObjectSource, key: &[u8], item: &Item) -> Result<PayloadTombstone> {
    let entry = Payload::from_entry(key, item)?;
    let reason = source.read_as(Kind::Blob, &entry.blob)?;
    let reason = String::from_utf8_lossy(&reason).into_owned();
    Ok(PayloadTombstone { uri: entry.uri, reason, time_micros: entry.created_micros })
}

fn missing(uri: &VfsUri) -> Error {
    Error::not_found(format!("{uri} is neither in the pool nor in any snapshot"))
}
