//! Fetches the sessions of a remote: imports the new bundles, then sets the refs.
//!
//! ```text
//! head: later than the one that is known, and going on from it
//!   bundles that have turns which are not here -> hash as the head says -> verified -> taken in
//!   refs/remotes/<remote>/... and the head, in one operation
//! ```
//!
//! Bundles are imported one by one, each with its refs, so an interrupted fetch resumes where it
//! stopped. Each prefix of the bundle list was once a state of the remote.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::bucket::{Got, Key, Listed};
use super::head::{PushedBundle, SessionHead};
use super::hex::Hex;
use super::known::KnownHead;
use super::line::Line;
use super::listing::{Survey, visit_heads};
use super::names::checksum;
use super::{Remote, check_size, lost_session_error};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ObjectId, ObjectSource};
use crate::repo::BranchName;
use crate::store::{IoFile, Steps};
use crate::transfer::bundle::{Bundle, Manifest, UnbundleOptions, unbundle};

/// Maximum bytes per request.
const RANGE_BYTES: u64 = 8 << 20;

/// Maximum number of rereads of a head because a listed bundle was deleted.
pub(super) const MAX_LOOKS: u32 = 4;

/// The result of fetching a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The session.
    pub session: String,
    /// Branches of the remote that moved, are new, or were deleted.
    pub moved: Vec<MovedBranch>,
    /// Number of bundles read.
    pub bundles: u64,
    /// Bytes of these bundles.
    pub bytes: u64,
    /// True if the session was deleted on the remote since the last fetch.
    pub is_deleted: bool,
}

/// A branch of a remote that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedBranch {
    /// The branch.
    pub branch: BranchName,
    /// The value at the last fetch.
    pub before: Option<ObjectId>,
    /// The current value; `None` if it was deleted.
    pub now: Option<ObjectId>,
}

impl Remote<'_> {
    /// Fetches a session; returns `None` if the remote does not have it. Costs one request if
    /// nothing is new.
    ///
    /// # Errors
    /// `Corrupt` if the remote was rolled back, has a diverging history, or does not verify;
    /// `Redacted` if it has content redacted here; `Io` if it does not answer.
    pub fn fetch(&self, session: &str) -> Result<Option<Fetched>> {
        let known = KnownHead::load(self.repo, self.name, session)?;
        match self.read_changed_head(session, known.as_ref())? {
            // A deletion that changes nothing here.
            Some(found) if known.is_none() && found.head.is_closed() => Ok(None),
            Some(found) => self.import(&found).map(Some),
            None => self.reimport(session, known),
        }
    }

    /// Imports the known head again, if the session was forgotten here since.
    fn reimport(&self, session: &str, known: Option<KnownHead>) -> Result<Option<Fetched>> {
        match known {
            None => Ok(None),
            Some(known) if self.has_forgotten(&known.head) => self.import(&known).map(Some),
            Some(_) => Ok(Some(Fetched { session: session.to_owned(), ..Fetched::default() })),
        }
    }

    /// Returns true if the session of a head was forgotten here, and not fetched explicitly since.
    fn has_forgotten(&self, head: &SessionHead) -> bool {
        self.repo.is_forgotten(&head.session)
            && self.repo.remote_branches(self.name, Some(&head.session)).is_empty()
    }

    /// Fetches every session of the remote that changed and was not forgotten here, and calls
    /// `tell` for each in order of keys. Counts the changed ones in `steps` once they are listed;
    /// one request lists a thousand sessions.
    ///
    /// # Errors
    /// Errors of [`Remote::fetch`]; earlier sessions stay fetched.
    pub fn fetch_all(&self, steps: &Steps, tell: &mut dyn FnMut(&Fetched)) -> Result<()> {
        let known: BTreeMap<Key, KnownHead> = self.known_keys()?.into_iter().collect();
        let (mut seen, mut changed) = (HashSet::new(), Vec::new());
        visit_heads(self.bucket, &mut |object| {
            seen.insert(object.key.clone());
            let known = known.get(&object.key);
            if known.is_none_or(|known| known.version != object.version) {
                changed.push(object.clone());
            }
            Ok(())
        })?;
        steps.begin(changed.len() as u64);
        for object in &changed {
            self.fetch_listed(object, known.get(&object.key), tell)?;
            steps.pass();
        }
        // A listing may lag; a session whose head is missing was lost.
        for (key, known) in known.iter().filter(|(key, _)| !seen.contains(*key)) {
            if self.read_head(key)?.is_none() {
                return Err(lost_session_error(&known.head.session));
            }
        }
        Ok(())
    }

    /// Fetches every session of a survey, into a store that has nothing of the remote.
    ///
    /// # Errors
    /// Errors of [`Remote::fetch_all`].
    pub fn fetch_surveyed(&self, survey: &Survey, tell: &mut dyn FnMut(&Fetched)) -> Result<()> {
        survey.heads.iter().try_for_each(|object| self.fetch_listed(object, None, tell))
    }

    /// Fetches a session by its listed head, unless that head is already known.
    fn fetch_listed(
        &self,
        object: &Listed,
        known: Option<&KnownHead>,
        tell: &mut dyn FnMut(&Fetched),
    ) -> Result<()> {
        if known.is_some_and(|known| known.version == object.version) {
            return Ok(());
        }
        let Some(found) = self.read_head(&object.key)? else { return Ok(()) };
        match known {
            Some(known) => known.check_after(&found.head)?,
            // A deletion that changes nothing here.
            None if found.head.is_closed() => return Ok(()),
            None => {}
        }
        if self.has_forgotten(&found.head) {
            return Ok(());
        }
        tell(&self.import(&found)?);
        Ok(())
    }

    /// Returns the known heads with their keys.
    pub(super) fn known_keys(&self) -> Result<Vec<(Key, KnownHead)>> {
        let mut keys = Vec::new();
        for session in self.repo.remote_sessions(self.name) {
            if let Some(known) = KnownHead::load(self.repo, self.name, &session)? {
                keys.push((SessionHead::key(self.bucket.names(), &session)?, known));
            }
        }
        Ok(keys)
    }

    /// Returns the size of an object; `None` if it does not exist.
    pub(super) fn size_of(&self, key: &Key) -> Result<Option<u64>> {
        Ok(match self.bucket.get(key, Some(0..1), None)? {
            Got::Bytes { size, .. } => Some(size),
            Got::Missing | Got::Same => None,
        })
    }

    /// Returns the head of a session if it differs from the known one; `None` also if there is no
    /// head.
    ///
    /// # Errors
    /// `Corrupt` if the head cannot be a successor of the known one, or is missing.
    pub(super) fn read_changed_head(
        &self,
        session: &str,
        known: Option<&KnownHead>,
    ) -> Result<Option<KnownHead>> {
        let key = SessionHead::key(self.bucket.names(), session)?;
        match self.bucket.get(&key, None, known.map(|known| &known.version))? {
            Got::Same if known.is_some() => Ok(None),
            Got::Missing if known.is_none() => Ok(None),
            Got::Same | Got::Missing => Err(lost_session_error(session)),
            Got::Bytes { bytes, version, size } => {
                check_size(&format!("the head of {session}"), &bytes, size)?;
                let head = SessionHead::decode(&bytes, &self.id, session)?;
                known.map_or(Ok(()), |known| known.check_after(&head))?;
                Ok(Some(KnownHead { head, version }))
            }
        }
    }

    /// Reads the head with this key, of any session.
    pub(super) fn read_head(&self, key: &Key) -> Result<Option<KnownHead>> {
        let Got::Bytes { bytes, version, size } = self.bucket.get(key, None, None)? else {
            return Ok(None);
        };
        check_size(key.as_str(), &bytes, size)?;
        let session = SessionHead::session_in(&bytes)?;
        let head = SessionHead::decode(&bytes, &self.id, &session)?;
        if !session.is_empty() && SessionHead::key(self.bucket.names(), &session)? != *key {
            return Err(Error::corrupt(
                key,
                "the head of that session",
                "the head of another session",
            ));
        }
        Ok(Some(KnownHead { head, version }))
    }

    /// Imports the content of a head and records the head. Retries if another process of this store
    /// commits first.
    pub(super) fn import(&self, found: &KnownHead) -> Result<Fetched> {
        self.repo.retry_conflicts(|_| self.try_import(found))
    }

    fn try_import(&self, found: &KnownHead) -> Result<Fetched> {
        let mut found = found.clone();
        let session = found.head.session.clone();
        let mut fetched = Fetched { session: session.clone(), ..Fetched::default() };
        let before = self.repo.remote_branches(self.name, Some(&session));
        for look in 0..MAX_LOOKS {
            match self.import_bundles(&found.head, &mut fetched)? {
                None => break,
                Some(gone) if look + 1 == MAX_LOOKS => return Err(gone),
                // Another client folded bundles concurrently.
                Some(gone) => {
                    match self.read_head(&SessionHead::key(self.bucket.names(), &session)?)? {
                        Some(later) if later.head.push != found.head.push => {
                            found.check_after(&later.head)?;
                            found = later;
                        }
                        _ => return Err(gone),
                    }
                }
            }
        }
        for (branch, id) in found.head.branches() {
            let is_here = self.repo.store().contains(&id)? && self.repo.commit(&id).is_ok();
            if !is_here {
                let place = format!("{branch} on the remote");
                return Err(Error::corrupt(
                    place,
                    format_args!("turn {id} in its bundles"),
                    "none",
                ));
            }
        }
        fetched.moved = moved_branches(&before, &found.head);
        fetched.is_deleted = found.head.is_closed() && !before.is_empty();
        self.record_head(&found, &format!("fetch from {}", self.name))?;
        Ok(fetched)
    }

    /// Imports the bundles with missing content. Returns the error for a deleted bundle, if any.
    fn import_bundles(&self, head: &SessionHead, fetched: &mut Fetched) -> Result<Option<Error>> {
        let distant = self.distant_bundles_of(head);
        for bundle in &head.bundles {
            let is_distant = distant.kept.contains(&bundle.name);
            if self.lazy && is_distant {
                continue;
            }
            let has_all = self.has_tips(head, bundle)?;
            if has_all && !is_distant && distant.stale.is_empty() {
                continue;
            }
            if self.lazy
                && let Some(index) = &bundle.index
            {
                match self.import_ends(head, bundle, index) {
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(error)),
                    bytes => fetched.bytes = fetched.bytes.saturating_add(bytes?),
                }
                fetched.bundles += 1;
                continue;
            }
            let file = match self.download(head, bundle) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(error)),
                file => file?,
            };
            if has_all || is_distant {
                self.import_whole(head, bundle, &file)?;
                fetched.bundles += 1;
                fetched.bytes = fetched.bytes.saturating_add(bundle.bytes);
                continue;
            }
            let options = UnbundleOptions {
                remote: Some(self.name.to_owned()),
                ..UnbundleOptions::default()
            };
            let place =
                |error: Error| error.at(format_args!("bundle {} of the remote", bundle.name));
            let opened = Bundle::open(Arc::new(file)).map_err(place)?;
            check_session(head, opened.manifest()).map_err(place)?;
            unbundle(self.repo, &opened, &options, self.stamp).map_err(place)?;
            (fetched.bundles, fetched.bytes) =
                (fetched.bundles + 1, fetched.bytes.saturating_add(bundle.bytes));
        }
        Ok(None)
    }

    /// Returns true if every tip of a bundle is an ancestor of a branch of this remote or of a
    /// local branch of the session.
    fn has_tips(&self, head: &SessionHead, bundle: &PushedBundle) -> Result<bool> {
        let mut known: Vec<ObjectId> = Vec::new();
        let there = self.repo.remote_branches(self.name, Some(&head.session));
        known.extend(there.into_iter().map(|(_, id)| id));
        let own = self.repo.branches_of(&head.session).into_iter();
        known.extend(own.map(|(_, id)| id));
        if bundle.tips.is_empty() {
            return Ok(false);
        }
        for tip in &bundle.tips {
            if !self.repo.store().contains(&tip.0)? {
                return Ok(false);
            }
            let mut is_had = false;
            for id in &known {
                is_had = is_had || matches!(self.line(&tip.0, id)?, Line::Same | Line::Behind);
            }
            if !is_had {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Downloads a bundle into a file, and checks that it is the listed one.
    pub(super) fn download(
        &self,
        head: &SessionHead,
        bundle: &PushedBundle,
    ) -> Result<Arc<dyn IoFile>> {
        let (key, file) = (head.bundle_key(self.bucket.names(), &bundle.name)?, (self.spool)()?);
        let (mut hash, mut at) = (checksum(), 0);
        while at < bundle.bytes {
            let end = bundle.bytes.min(at.saturating_add(RANGE_BYTES));
            let Got::Bytes { bytes, size, .. } = self.bucket.get(&key, Some(at..end), None)? else {
                return Err(Error::not_found(format!(
                    "{key} is listed, but missing on the remote"
                )));
            };
            let read = bytes.len() as u64;
            if size != bundle.stored_bytes() || read == 0 || read > end - at {
                let expected = format!("{} bytes", bundle.bytes);
                return Err(Error::corrupt(
                    &key,
                    expected,
                    format_args!("{size} bytes, {read} of them at {at}"),
                ));
            }
            hash.update(&bytes);
            file.write_at(&bytes, at).map_err(|e| Error::io("store a bundle of the remote", e))?;
            at += read;
        }
        match Hex(hash.finish()) == bundle.hash {
            true => Ok(file),
            false => Err(Error::malformed(&key, "the bytes that the head lists")),
        }
    }

    /// Records a head and the remote-tracking refs in one operation. Keeps a later head that
    /// another process of this store has recorded.
    pub(super) fn record_head(&self, known: &KnownHead, reason: &str) -> Result<()> {
        let session = &known.head.session;
        let reason = format!("{reason} {session}");
        self.repo.retry_conflicts(|repo| {
            let there = KnownHead::load(repo, self.name, session)?;
            let is_later = |there: &KnownHead| there.head.generation > known.head.generation;
            let newest = there.filter(is_later).unwrap_or_else(|| known.clone());
            let mut change = repo.begin();
            newest.stage(repo, self, &mut change)?;
            self.drop_stale_indexes(&newest.head, &mut change)?;
            change.commit(self.stamp, &reason).map(drop)
        })
    }
}

/// Refuses a bundle with branches of another session than the head.
pub(super) fn check_session(head: &SessionHead, manifest: &Manifest) -> Result<()> {
    let is_own = |name: &String| match BranchName::from_full(name) {
        Some(branch) => branch.session() == head.session,
        None => true,
    };
    match manifest.refs.keys().all(is_own) {
        true => Ok(()),
        false => Err(Error::malformed("its refs", "branches of the session")),
    }
}

/// Returns the branches that changed.
fn moved_branches(before: &[(BranchName, ObjectId)], head: &SessionHead) -> Vec<MovedBranch> {
    let was =
        |branch: &BranchName| before.iter().find(|(name, _)| name == branch).map(|(_, id)| *id);
    let now: Vec<(BranchName, ObjectId)> = head.branches().collect();
    let gone = before.iter().filter(|(branch, _)| now.iter().all(|(name, _)| name != branch));
    let gone = gone.map(|(branch, id)| MovedBranch {
        branch: branch.clone(),
        before: Some(*id),
        now: None,
    });
    let all = now.iter().map(|(branch, id)| MovedBranch {
        branch: branch.clone(),
        before: was(branch),
        now: Some(*id),
    });
    gone.chain(all).filter(|branch| branch.before != branch.now).collect()
}
