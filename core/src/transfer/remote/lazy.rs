//! Lazy clones: only the ends of large bundles are fetched, and the rest is read on demand.
//!
//! ```text
//! object on the remote   | front | frames of contents | frames of history, table, footer | ids |
//!                          `--- read at once ---------'`--------------------------------------'
//! ```
//!
//! A push appends the ids of the objects to a large bundle, and records the offsets of its ends in
//! the head. So two requests return the whole history and the list of objects. The store keeps both
//! as one blob ([`crate::store::BundleIndex`]), and reads blobs by range through [`RemoteRanges`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::Remote;
use super::bucket::{Bucket, Got, Key};
use super::fetch::check_session;
use super::head::{PushedBundle, PushedIndex, SessionHead, bundle_key};
use super::hex::Hex;
use super::names::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use crate::repo::{BranchName, Transaction, distant_bundle, distant_ref, remote_branch_ref};
use crate::store::{BundleEnds, BundleIndex, Expected, IoFile, Outside, RangeSource, ReadAt};
use crate::transfer::bundle::{Bundle, BundlePlan, stage_labels};

/// Smaller bundles are fetched whole, which takes no longer.
const MIN_BYTES: u64 = 256 << 10;

/// Maximum bytes of the ends of a bundle with its ids; larger ones are fetched whole.
const MAX_ENDS_BYTES: u64 = 128 << 20;

/// The remote-only bundles of a session, of which this store has only the ends.
pub(super) struct DistantBundles {
    /// Bundles that the head lists.
    pub(super) kept: BTreeSet<String>,
    /// Bundles that the head does not list.
    pub(super) stale: BTreeSet<String>,
}

/// Appends the ids of the objects to a bundle of `bytes` bytes, if it is large enough and complete.
pub(super) fn append_index(
    plan: &BundlePlan,
    file: &Arc<dyn IoFile>,
    bytes: u64,
) -> Result<Option<PushedIndex>> {
    if bytes < MIN_BYTES || !plan.is_whole() {
        return Ok(None);
    }
    let ids = plan.ids();
    let BundleEnds { front, tail, .. } = BundleEnds::of(Arc::new(Arc::clone(file)), &ids)?;
    let length = front.saturating_add(bytes.saturating_sub(tail)).saturating_add(ids.len() as u64);
    if length > MAX_ENDS_BYTES {
        return Ok(None);
    }
    let read = |range: Range<u64>| {
        let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
        let read = ReadAt::read_at(file, &mut buffer, range.start);
        read.map_err(|error| Error::io("read the bundle that was written", error))?;
        Ok::<_, Error>(buffer)
    };
    let mut hash = checksum();
    hash.update(&read(0..front)?);
    hash.update(&read(tail..bytes)?);
    hash.update(&ids);
    file.write_at(&ids, bytes).map_err(|error| Error::io("write the ids of a bundle", error))?;
    Ok(Some(PushedIndex { front, tail, ids: ids.len() as u64, hash: Hex(hash.finish()) }))
}

impl Remote<'_> {
    /// Fetches all remote-only bundles, so that the store does not need the remote for their
    /// content.
    ///
    /// # Errors
    /// Errors of [`Remote::fetch`].
    pub fn fetch_whole(&self) -> Result<u64> {
        let (whole, mut bytes) = (Remote { lazy: false, ..*self }, 0_u64);
        let distant = self.repo.distant_bundles(self.name).into_iter();
        let sessions: BTreeSet<String> = distant.map(|(session, _)| session).collect();
        for session in sessions {
            let found = whole.read_head(&SessionHead::key(self.bucket.names(), &session)?)?;
            let found = found.ok_or_else(|| super::lost_session_error(&session))?;
            if let Some(known) = super::known::KnownHead::load(self.repo, self.name, &session)? {
                known.check_after(&found.head)?;
            }
            bytes = bytes.saturating_add(whole.import(&found)?.bytes);
        }
        Ok(bytes)
    }

    /// Returns the remote-only bundles of the session of a head.
    pub(super) fn distant_bundles_of(&self, head: &SessionHead) -> DistantBundles {
        let all = self.repo.distant_bundles(self.name).into_iter();
        let own = all.filter(|(session, _)| *session == head.session).map(|(_, bundle)| bundle);
        let is_listed = |name: &String| head.bundles.iter().any(|bundle| bundle.name == *name);
        let (kept, stale) = own.partition(is_listed);
        DistantBundles { kept, stale }
    }

    /// Imports the ends of a bundle: its history, and the index of the rest. Returns their bytes.
    ///
    /// # Errors
    /// `NotFound` if the bundle was deleted, `Corrupt` if it does not verify.
    pub(super) fn import_ends(
        &self,
        head: &SessionHead,
        bundle: &PushedBundle,
        index: &PushedIndex,
    ) -> Result<u64> {
        let place = |error: Error| error.at(format_args!("bundle {} of the remote", bundle.name));
        let (key, stored) =
            (head.bundle_key(self.bucket.names(), &bundle.name)?, bundle.stored_bytes());
        let index = self.read_ends(&key, bundle, index)?;
        let opened = Bundle::open(index.ends()).map_err(place)?;
        let manifest = opened.manifest();
        check_session(head, manifest).map_err(place)?;
        let is_whole = opened.outside.iter().all(|(.., why)| *why == Outside::Required);
        if !is_whole || !manifest.grafts.is_empty() {
            return Err(place(Error::malformed("its turns", "whole ones, as it has an index")));
        }
        let mut change = self.repo.begin();
        change.skip_filter();
        let history = index.history(&mut |range| self.read_exactly(&key, range, stored));
        for (_, object) in history.map_err(place)? {
            if object.kind == Kind::Commit {
                // The tree is in the index that this operation adds.
                change.allow_elided(Commit::decode(&object.bytes).map_err(place)?.tree);
            }
            change.write(object.kind, object.bytes)?;
        }
        for (name, value) in &manifest.refs {
            let becomes = match BranchName::from_full(name) {
                Some(branch) => remote_branch_ref(self.name, &branch)?,
                // An existing tag or pin of this name stays.
                None if self.repo.refs().value(name).is_some() => continue,
                None => name.clone(),
            };
            self.set(&mut change, &becomes, Some(value.id.0));
        }
        stage_labels(self.repo, manifest, &mut change)?;
        let encoded = index.encode();
        let bytes = encoded.len() as u64;
        let blob = change.write(Kind::Blob, encoded)?;
        self.set(&mut change, &distant_ref(self.name, &head.session, &bundle.name)?, Some(blob));
        change.commit(self.stamp, &format!("fetch from {} {}", self.name, head.session))?;
        Ok(bytes)
    }

    /// Reads the ends of a bundle, and checks them against the head.
    fn read_ends(
        &self,
        key: &Key,
        bundle: &PushedBundle,
        index: &PushedIndex,
    ) -> Result<BundleIndex> {
        let PushedIndex { front, tail, .. } = *index;
        let (bytes, stored) = (bundle.bytes, bundle.stored_bytes());
        let length = front.saturating_add(stored.saturating_sub(tail));
        if front > tail || tail > bytes || length > MAX_ENDS_BYTES {
            return Err(Error::malformed(key, "ends of a bundle"));
        }
        let front = self.read_exactly(key, 0..front, stored)?;
        let mut rest = self.read_exactly(key, tail..stored, stored)?;
        let mut hash = checksum();
        hash.update(&front);
        hash.update(&rest);
        if Hex(hash.finish()) != index.hash {
            return Err(Error::malformed(key, "the bytes that the head lists"));
        }
        let ids =
            rest.split_off(usize::try_from(bytes - tail).unwrap_or(rest.len()).min(rest.len()));
        BundleIndex::new(BundleEnds { front: index.front, tail, bytes }, front, rest, ids)
    }

    /// Reads a range of an object of `stored` bytes.
    fn read_exactly(&self, key: &Key, range: Range<u64>, stored: u64) -> Result<Bytes> {
        match read_range(self.bucket, key, range)? {
            Some((bytes, size)) if size == stored => Ok(bytes),
            Some((_, size)) => Err(Error::corrupt(key, format_args!("{stored} bytes"), size)),
            None => Err(Error::not_found(format!("{key} is listed, but missing on the remote"))),
        }
    }

    /// Imports every object of a bundle whose history is already here, and drops its index.
    pub(super) fn import_whole(
        &self,
        head: &SessionHead,
        bundle: &PushedBundle,
        file: &Arc<dyn IoFile>,
    ) -> Result<()> {
        let place = |error: Error| error.at(format_args!("bundle {} of the remote", bundle.name));
        let opened = Bundle::open(Arc::new(Arc::clone(file))).map_err(place)?;
        opened.verify(None).map_err(place)?;
        let mut change = self.repo.begin();
        change.skip_filter();
        opened.outside.iter().for_each(|(id, ..)| change.allow_elided(*id));
        opened.visit(&mut |_, object| {
            change.write(object.kind, object.bytes)?;
            change.make_room()
        })?;
        self.set(&mut change, &distant_ref(self.name, &head.session, &bundle.name)?, None);
        change.commit(self.stamp, &format!("fetch all of {} from {}", head.session, self.name))?;
        Ok(())
    }

    /// Drops indexes of bundles that the head does not list, if listed bundles or the store have
    /// all their objects.
    pub(super) fn drop_stale_indexes(
        &self,
        head: &SessionHead,
        change: &mut Transaction<'_>,
    ) -> Result<()> {
        let DistantBundles { kept, stale } = self.distant_bundles_of(head);
        if stale.is_empty() {
            return Ok(());
        }
        let mut there = HashSet::new();
        for name in &kept {
            there.extend(self.read_index(&head.session, name)?.ids());
        }
        for name in &stale {
            let ids: Vec<ObjectId> = self.read_index(&head.session, name)?.ids().collect();
            let is_had = |id: &ObjectId| there.contains(id) || self.repo.store().is_here(id);
            if ids.iter().all(is_had) {
                self.set(change, &distant_ref(self.name, &head.session, name)?, None);
            }
        }
        Ok(())
    }

    fn read_index(&self, session: &str, bundle: &str) -> Result<BundleIndex> {
        let name = distant_ref(self.name, session, bundle)?;
        let refs = self.repo.refs();
        match refs.value(&name) {
            Some(RefValue::Object(id)) => {
                BundleIndex::decode(&self.repo.store().read_as(Kind::Blob, id)?)
            }
            _ => Err(Error::not_found(name)),
        }
    }

    /// Stages a ref, whatever its current value.
    fn set(&self, change: &mut Transaction<'_>, name: &str, id: Option<ObjectId>) {
        let before = self.repo.refs().value(name).cloned();
        let value = id.map(RefValue::Object);
        if before != value {
            change.set_ref(name, before.map_or(Expected::Absent, Expected::Value), value);
        }
    }
}

/// Opens the bucket of a remote by name.
type BucketOpener = Box<dyn Fn(&str) -> Result<Arc<dyn Bucket>> + Send + Sync>;

/// Reads the content of remote-only bundles from their remotes.
pub struct RemoteRanges {
    open: BucketOpener,
    opened: Mutex<HashMap<String, Arc<dyn Bucket>>>,
}

impl RemoteRanges {
    /// Reads from the buckets that `open` returns; calls it once for each remote name.
    #[must_use]
    pub fn new(open: impl Fn(&str) -> Result<Arc<dyn Bucket>> + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), opened: Mutex::default() }
    }

    fn bucket(&self, remote: &str) -> Result<Arc<dyn Bucket>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = opened.get(remote) {
            return Ok(Arc::clone(bucket));
        }
        let bucket = (self.open)(remote)?;
        opened.insert(remote.to_owned(), Arc::clone(&bucket));
        Ok(bucket)
    }
}

impl RangeSource for RemoteRanges {
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let none = || Error::malformed(name, "the name of a remote, a session and a bundle");
        let (remote, session, bundle) = distant_bundle(name).ok_or_else(none)?;
        let what = |error: Error| {
            let message = format!("the object is only on remote {remote}: {error}");
            Error::new(error.kind(), message)
        };
        let bucket = self.bucket(remote).map_err(what)?;
        match read_range(&*bucket, &bundle_key(bucket.names(), session, bundle)?, range)
            .map_err(what)?
        {
            Some((bytes, _)) => Ok(bytes),
            None => {
                let message = format!(
                    "the object was in a bundle that remote {remote} has deleted: run 'turntree fetch' and try again"
                );
                Err(Error::new(ErrorKind::NotFound, message))
            }
        }
    }
}

/// Reads a whole range, and returns it with the size of the object; `None` if the object is
/// missing.
fn read_range(bucket: &dyn Bucket, key: &Key, range: Range<u64>) -> Result<Option<(Bytes, u64)>> {
    let mut parts: Vec<Bytes> = Vec::new();
    let mut at = range.start;
    loop {
        let Got::Bytes { bytes, size, .. } = bucket.get(key, Some(at..range.end), None)? else {
            return Ok(None);
        };
        let read = bytes.len() as u64;
        if size < range.end || read > range.end - at {
            let expected = format_args!("at least {} bytes", range.end);
            return Err(Error::corrupt(
                key,
                expected,
                format_args!("{size} bytes, {read} of them at {at}"),
            ));
        }
        at += read;
        // An answer may be short, but an empty one is an error.
        if read == 0 && at < range.end {
            let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(Error::io(format!("read {key}"), error));
        }
        parts.push(bytes);
        if at == range.end {
            let whole = if parts.len() == 1 { parts.swap_remove(0) } else { parts.concat().into() };
            return Ok(Some((whole, size)));
        }
    }
}

impl fmt::Debug for RemoteRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRanges").finish_non_exhaustive()
    }
}
