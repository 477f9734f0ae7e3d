//! Checks a remote: each bundle that a head lists must exist and be intact. Bundles that no head
//! lists are counted.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::Remote;
use super::bucket::Key;
use super::fetch::{MAX_LOOKS, check_session};
use super::head::{PushedBundle, SessionHead};
use super::known::KnownHead;
use super::listing::{visit_heads, visit_objects};
use crate::error::{ErrorKind, Result};
use crate::object::ObjectId;
use crate::transfer::bundle::{Bundle, BundleContents};

/// The depth of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckDepth {
    /// Reads the heads, and the names and sizes of bundles.
    Listing,
    /// Reads every byte, and verifies it like a fetch into an empty store.
    Contents,
}

/// The result of a check of a whole remote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Number of sessions on the remote.
    pub sessions: u64,
    /// Number of bundles that heads list.
    pub bundles: u64,
    /// Bytes of these bundles.
    pub bytes: u64,
    /// Keys of known heads and listed bundles that are missing, and of bundles with a wrong size.
    pub missing: Vec<String>,
    /// The key of each bundle or head whose content does not verify, with the reason.
    pub damaged: Vec<String>,
    /// Number of bundles that no head lists: of pushes in progress, of interrupted pushes, and
    /// replaced ones.
    pub unlisted: u64,
    /// Bytes of unlisted bundles.
    pub unlisted_bytes: u64,
}

impl Remote<'_> {
    /// Checks every head and lists all objects: one request per session, and one per thousand
    /// objects. With [`CheckDepth::Contents`] it also downloads and verifies each bundle, one at a
    /// time.
    ///
    /// # Errors
    /// `Corrupt` if a head is invalid or cannot be a successor of the last known one; `Io` if the
    /// remote does not answer.
    pub fn check(&self, depth: CheckDepth) -> Result<Checked> {
        self.check_id()?;
        let mut there: BTreeMap<Key, u64> = BTreeMap::new();
        // List bundles before reading heads: bundles that these heads list existed before the
        // heads.
        visit_objects(self.bucket, "bundles/", &mut |object| {
            there.insert(object.key.clone(), object.size);
            Ok(())
        })?;
        let (mut checked, mut listed) = (Checked::default(), BTreeMap::new());
        let (mut heads, mut seen) = (Vec::new(), BTreeSet::new());
        visit_heads(self.bucket, &mut |object| {
            seen.insert(object.key.clone());
            let Some(found) = self.read_head(&object.key)? else { return Ok(()) };
            if found.head.is_closed() && found.head.session.is_empty() {
                return Ok(());
            }
            if let Some(known) = KnownHead::load(self.repo, self.name, &found.head.session)? {
                known.check_after(&found.head)?;
            }
            checked.sessions += u64::from(!found.head.is_closed());
            for bundle in &found.head.bundles {
                listed.insert(
                    found.head.bundle_key(self.bucket.names(), &bundle.name)?,
                    bundle.stored_bytes(),
                );
            }
            heads.push((object.key.clone(), found.head));
            Ok(())
        })?;
        // A listing may lag.
        for (key, _) in self.known_keys()?.into_iter().filter(|(key, _)| !seen.contains(key)) {
            if self.read_head(&key)?.is_none() {
                checked.missing.push(key.to_string());
            }
        }
        for (key, bytes) in &listed {
            checked.bundles += 1;
            checked.bytes = checked.bytes.saturating_add(*bytes);
            // Ask for the size of a newer bundle, or one that the listing does not show yet.
            let size = match there.get(key) {
                Some(size) => Some(*size),
                None => self.size_of(key)?,
            };
            if size != Some(*bytes) {
                checked.missing.push(key.to_string());
            }
        }
        for (_, bytes) in there.iter().filter(|(key, _)| !listed.contains_key(*key)) {
            checked.unlisted += 1;
            checked.unlisted_bytes = checked.unlisted_bytes.saturating_add(*bytes);
        }
        if depth == CheckDepth::Contents {
            for (key, head) in &heads {
                self.check_contents(key, head, &mut checked)?;
            }
        }
        Ok(checked)
    }

    /// Verifies the bundles of a head, and of its successors if another machine replaces it
    /// concurrently.
    fn check_contents(&self, key: &Key, head: &SessionHead, checked: &mut Checked) -> Result<()> {
        let mut head = head.clone();
        for _ in 0..MAX_LOOKS {
            match self.check_bundles(key, &head, checked)? {
                Some(later) => head = later,
                None => break,
            }
        }
        Ok(())
    }

    /// Verifies the bundles of a head, and that they contain its branches. Returns the new head if
    /// a bundle was deleted because another client replaced it.
    fn check_bundles(
        &self,
        key: &Key,
        head: &SessionHead,
        checked: &mut Checked,
    ) -> Result<Option<SessionHead>> {
        let mut ends: HashSet<ObjectId> = head.branches().map(|(_, id)| id).collect();
        let mut is_whole = true;
        for bundle in &head.bundles {
            let name = head.bundle_key(self.bucket.names(), &bundle.name)?.to_string();
            if checked.missing.contains(&name) {
                is_whole = false;
                continue;
            }
            match self.verify(head, bundle) {
                Ok(contents) => ends.retain(|id| !contents.contains(id)),
                Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                Err(error) => {
                    let later = self.read_head(key)?.filter(|later| later.head.push != head.push);
                    if let Some(later) = later.filter(|_| error.kind() == ErrorKind::NotFound) {
                        return Ok(Some(later.head));
                    }
                    is_whole = false;
                    checked.damaged.push(error.to_string());
                }
            }
        }
        if is_whole && !ends.is_empty() {
            let (session, lacking) = (&head.session, ends.len());
            let what =
                format!("{key}: the bundles of {session} lack {lacking} turns that it names");
            checked.damaged.push(what);
        }
        Ok(None)
    }

    fn verify(&self, head: &SessionHead, bundle: &PushedBundle) -> Result<BundleContents> {
        let file = self.download(head, bundle)?;
        let verified = Bundle::open(Arc::new(file)).and_then(|opened| {
            check_session(head, opened.manifest())?;
            opened.verify(None)
        });
        let key = head.bundle_key(self.bucket.names(), &bundle.name)?;
        verified.map_err(|error| error.at(key))
    }
}
