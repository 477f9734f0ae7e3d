//! What a remote has of a session comes into the store: the bundles that are new, and then the refs.
//!
//! ```text
//! head: later than the one that is known, and going on from it
//!   bundles that have turns which are not here -> hash as the head says -> verified -> taken in
//!   refs/remotes/<remote>/... and the head, in one operation
//! ```
//!
//! A bundle after the other is taken in, each with the refs that it brings, so what was interrupted goes
//! on where it was. Each prefix of the bundles is a state that the remote once had.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::bucket::{Got, Key, Listed};
use super::head::{Head, PushedBundle};
use super::hex::Hex;
use super::known::KnownHead;
use super::line::Line;
use super::listing::{Survey, each_head};
use super::names::checksum;
use super::{Remote, check_whole, lost};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ObjectId, ObjectSource};
use crate::repo::BranchName;
use crate::store::IoFile;
use crate::transfer::bundle::{Bundle, Manifest, UnbundleOptions, unbundle};

/// Most bytes that are asked for at once.
const RANGE_BYTES: u64 = 8 << 20;

/// Times that a session is looked at again because a bundle that its head listed is gone.
pub(super) const MAX_LOOKS: u32 = 4;

/// What came of fetching a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The session.
    pub session: String,
    /// Branches of the remote that moved, were new, or are gone there.
    pub moved: Vec<MovedBranch>,
    /// Bundles that were read, and their bytes.
    pub bundles: u64,
    /// Their bytes.
    pub bytes: u64,
    /// True if somebody deleted the session there since it was last seen.
    pub is_deleted: bool,
}

/// A branch of a remote that is elsewhere than it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedBranch {
    /// The branch.
    pub branch: BranchName,
    /// Where it was when the remote was last seen.
    pub before: Option<ObjectId>,
    /// Where it is; nothing when it is gone there.
    pub now: Option<ObjectId>,
}

impl Remote<'_> {
    /// Fetches a session; returns nothing when the remote does not have it. When nothing is new it costs
    /// one request.
    ///
    /// # Errors
    /// `Corrupt` when the remote has gone back in time, tells another story than before, or what it has
    /// does not verify; `Redacted` when it has what was redacted here; `Io` when it does not answer.
    pub fn fetch(&self, session: &str) -> Result<Option<Fetched>> {
        let known = KnownHead::load(self.repo, self.name, session)?;
        match self.look(session, known.as_ref())? {
            // There is nothing that it was deleted from here.
            Some(found) if known.is_none() && found.head.is_closed() => Ok(None),
            Some(found) => self.take(&found).map(Some),
            None => self.take_again(session, known),
        }
    }

    /// Takes in the known head of a session once more, if the session was forgotten here since.
    fn take_again(&self, session: &str, known: Option<KnownHead>) -> Result<Option<Fetched>> {
        match known {
            None => Ok(None),
            Some(known) if self.has_forgotten(&known.head) => self.take(&known).map(Some),
            Some(_) => Ok(Some(Fetched { session: session.to_owned(), ..Fetched::default() })),
        }
    }

    /// Returns whether the session of a head was forgotten here, and not fetched by its name since.
    fn has_forgotten(&self, head: &Head) -> bool {
        self.repo.is_forgotten(&head.session)
            && self.repo.remote_branches(self.name, Some(&head.session)).is_empty()
    }

    /// Fetches every session of the remote that changed and was not forgotten here: one request finds a
    /// thousand of them. Tells of them in order of keys.
    ///
    /// # Errors
    /// Those of [`Remote::fetch`], with what was fetched before being there.
    pub fn fetch_all(&self, tell: &mut dyn FnMut(&Fetched)) -> Result<()> {
        let known: BTreeMap<Key, KnownHead> = self.known_keys()?.into_iter().collect();
        let mut seen = HashSet::new();
        each_head(self.bucket, &mut |object| {
            seen.insert(object.key.clone());
            self.fetch_listed(object, known.get(&object.key), tell)
        })?;
        // A listing may lag; a remote that was emptied has lost them.
        for (key, known) in known.iter().filter(|(key, _)| !seen.contains(*key)) {
            if self.read_head(key)?.is_none() {
                return Err(lost(&known.head.session));
            }
        }
        Ok(())
    }

    /// Fetches every session that a survey has found, into a store that knows nothing of the remote.
    ///
    /// # Errors
    /// Those of [`Remote::fetch_all`].
    pub fn fetch_surveyed(&self, survey: &Survey, tell: &mut dyn FnMut(&Fetched)) -> Result<()> {
        survey.heads.iter().try_for_each(|object| self.fetch_listed(object, None, tell))
    }

    /// Fetches a session by its head in a listing, unless it is the one that is known.
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
            // There is nothing that it was deleted from here.
            None if found.head.is_closed() => return Ok(()),
            None => {}
        }
        if self.has_forgotten(&found.head) {
            return Ok(());
        }
        tell(&self.take(&found)?);
        Ok(())
    }

    /// Heads that were seen, with their keys.
    pub(super) fn known_keys(&self) -> Result<Vec<(Key, KnownHead)>> {
        let mut keys = Vec::new();
        for session in self.repo.remote_sessions(self.name) {
            if let Some(known) = KnownHead::load(self.repo, self.name, &session)? {
                keys.push((Head::key(self.bucket.names(), &session)?, known));
            }
        }
        Ok(keys)
    }

    /// Bytes of an object, if it is there.
    pub(super) fn size_of(&self, key: &Key) -> Result<Option<u64>> {
        Ok(match self.bucket.get(key, Some(0..1), None)? {
            Got::Bytes { size, .. } => Some(size),
            Got::Missing | Got::Same => None,
        })
    }

    /// The head of a session, if it is another one than what is known; nothing, too, when there is none.
    ///
    /// # Errors
    /// `Corrupt` when it cannot have come after the one that is known, or is gone.
    pub(super) fn look(
        &self,
        session: &str,
        known: Option<&KnownHead>,
    ) -> Result<Option<KnownHead>> {
        let key = Head::key(self.bucket.names(), session)?;
        match self.bucket.get(&key, None, known.map(|known| &known.version))? {
            Got::Same if known.is_some() => Ok(None),
            Got::Missing if known.is_none() => Ok(None),
            Got::Same | Got::Missing => Err(lost(session)),
            Got::Bytes { bytes, version, size } => {
                check_whole(&format!("the head of {session}"), &bytes, size)?;
                let head = Head::decode(&bytes, &self.id, session)?;
                known.map_or(Ok(()), |known| known.check_after(&head))?;
                Ok(Some(KnownHead { head, version }))
            }
        }
    }

    /// The head with this key, whatever its session.
    pub(super) fn read_head(&self, key: &Key) -> Result<Option<KnownHead>> {
        let Got::Bytes { bytes, version, size } = self.bucket.get(key, None, None)? else {
            return Ok(None);
        };
        check_whole(key.as_str(), &bytes, size)?;
        let session = Head::session_in(&bytes)?;
        let head = Head::decode(&bytes, &self.id, &session)?;
        if !session.is_empty() && Head::key(self.bucket.names(), &session)? != *key {
            return Err(Error::corrupt(key, "the head of that session", "that of another one"));
        }
        Ok(Some(KnownHead { head, version }))
    }

    /// Takes in what a head has, and remembers it; again where another process of this store is faster.
    pub(super) fn take(&self, found: &KnownHead) -> Result<Fetched> {
        self.repo.retried(|_| self.take_once(found))
    }

    fn take_once(&self, found: &KnownHead) -> Result<Fetched> {
        let mut found = found.clone();
        let session = found.head.session.clone();
        let mut fetched = Fetched { session: session.clone(), ..Fetched::default() };
        let before = self.repo.remote_branches(self.name, Some(&session));
        for look in 0..MAX_LOOKS {
            match self.take_bundles(&found.head, &mut fetched)? {
                None => break,
                Some(gone) if look + 1 == MAX_LOOKS => return Err(gone),
                // Somebody made several bundles one meanwhile.
                Some(gone) => match self.read_head(&Head::key(self.bucket.names(), &session)?)? {
                    Some(later) if later.head.push != found.head.push => {
                        found.check_after(&later.head)?;
                        found = later;
                    }
                    _ => return Err(gone),
                },
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
        fetched.moved = moved(&before, &found.head);
        fetched.is_deleted = found.head.is_closed() && !before.is_empty();
        self.record(&found, &format!("fetch from {}", self.name))?;
        Ok(fetched)
    }

    /// Takes in the bundles that have what is not here. Returns the error for one that is gone.
    fn take_bundles(&self, head: &Head, fetched: &mut Fetched) -> Result<Option<Error>> {
        let distant = self.distant_of(head);
        for bundle in &head.bundles {
            let is_distant = distant.kept.contains(&bundle.name);
            if self.lazy && is_distant {
                continue;
            }
            let has_all = self.has_all(head, bundle)?;
            if has_all && !is_distant && distant.stale.is_empty() {
                continue;
            }
            if self.lazy
                && let Some(index) = &bundle.index
            {
                match self.take_ends(head, bundle, index) {
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
                self.take_whole(head, bundle, &file)?;
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
            expect_own(head, opened.manifest()).map_err(place)?;
            unbundle(self.repo, &opened, &options, self.stamp).map_err(place)?;
            (fetched.bundles, fetched.bytes) =
                (fetched.bundles + 1, fetched.bytes.saturating_add(bundle.bytes));
        }
        Ok(None)
    }

    /// True if every turn that a bundle leads to is one that the store has from this remote, or on a
    /// branch of its own, with all before it.
    fn has_all(&self, head: &Head, bundle: &PushedBundle) -> Result<bool> {
        let mut known: Vec<ObjectId> = Vec::new();
        let there = self.repo.remote_branches(self.name, Some(&head.session));
        known.extend(there.into_iter().map(|(_, id)| id));
        let own = self.repo.branches().into_iter();
        known.extend(own.filter(|(name, _)| name.session() == head.session).map(|(_, id)| id));
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

    /// Reads a bundle into a file, and checks that it is the one that the head lists.
    pub(super) fn download(&self, head: &Head, bundle: &PushedBundle) -> Result<Arc<dyn IoFile>> {
        let (key, file) = (head.bundle_key(self.bucket.names(), &bundle.name)?, (self.spool)()?);
        let (mut hash, mut at) = (checksum(), 0);
        while at < bundle.bytes {
            let end = bundle.bytes.min(at.saturating_add(RANGE_BYTES));
            let Got::Bytes { bytes, size, .. } = self.bucket.get(&key, Some(at..end), None)? else {
                return Err(Error::not_found(format!("{key} is not on the remote, and is listed")));
            };
            let read = bytes.len() as u64;
            if size != bundle.stored_bytes() || read == 0 || read > end - at {
                let expected = format!("{} bytes", bundle.bytes);
                return Err(Error::corrupt(
                    &key,
                    expected,
                    format_args!("{size}, {read} of them at {at}"),
                ));
            }
            hash.update(&bytes);
            file.write_at(&bytes, at).map_err(|e| Error::io("keep a bundle of the remote", e))?;
            at += read;
        }
        match Hex(hash.finish()) == bundle.hash {
            true => Ok(file),
            false => Err(Error::corrupt(&key, "the bytes that the head lists", "other ones")),
        }
    }

    /// Remembers a head, with where the branches of the remote are, in one operation. Other processes
    /// of this store remember heads too: a later one that they have seen stays.
    pub(super) fn record(&self, known: &KnownHead, reason: &str) -> Result<()> {
        let session = &known.head.session;
        let reason = format!("{reason} {session}");
        self.repo.retried(|repo| {
            let there = KnownHead::load(repo, self.name, session)?;
            let is_later = |there: &KnownHead| there.head.generation > known.head.generation;
            let newest = there.filter(is_later).unwrap_or_else(|| known.clone());
            let mut change = repo.begin();
            newest.stage(repo, self, &mut change)?;
            self.drop_stale(&newest.head, &mut change)?;
            change.commit(self.stamp, &reason).map(drop)
        })
    }
}

/// Refuses a bundle with branches of another session than that of the head.
pub(super) fn expect_own(head: &Head, manifest: &Manifest) -> Result<()> {
    let is_own = |name: &String| match BranchName::from_full(name) {
        Some(branch) => branch.session() == head.session,
        None => true,
    };
    match manifest.refs.keys().all(is_own) {
        true => Ok(()),
        false => Err(Error::malformed("its refs", "branches of the session")),
    }
}

/// The branches that are elsewhere than before.
fn moved(before: &[(BranchName, ObjectId)], head: &Head) -> Vec<MovedBranch> {
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
