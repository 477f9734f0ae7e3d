//! Deletes unreachable bundles of a remote, without a clock or a lock, and safely during concurrent
//! pushes.
//!
//! ```text
//! bundles/<session>/<g>-<salt>, which was made for the head with generation g
//!   the head lists it                                  it stays
//!   the head has generation g or more                  nothing can ever list it: it goes
//!   the head has g - 1, or there is none and g is 1    a push may be under way: the head is written again
//!                                                      as g, so that the push loses and begins again
//!   anything else                                      no push made it: it stays, and is named
//! ```
//!
//! Each step leaves the remote consistent, so a collection may stop anywhere. An outdated head or
//! listing only makes fewer bundles deletable.

use std::collections::{BTreeMap, BTreeSet};

use super::bucket::{Key, Listed, Version};
use super::head::{RemoteRoot, SessionHead, generation_of};
use super::known::KnownHead;
use super::listing::visit_objects;
use super::push::SwapOutcome;
use super::{Remote, lost_session_error};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of objects deleted by one request.
const DELETED_AT_ONCE: usize = 1_000;

/// Maximum number of rereads of a head after concurrent pushes.
pub(super) const MAX_LOOKS: u32 = 16;

/// Options of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectOptions {
    /// Changes nothing, only reports.
    pub is_dry: bool,
    /// Folds the bundles of each session into one first, if this store has all their content.
    pub is_aggressive: bool,
}

/// The result of a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Number of sessions with a head or a bundle.
    pub sessions: u64,
    /// Number of unreachable bundles.
    pub bundles: u64,
    /// Bytes of these bundles.
    pub bytes: u64,
    /// Number of sessions whose bundles were folded.
    pub folded: u64,
    /// Number of heads rewritten so that an interrupted or concurrent push cannot complete.
    pub rewritten: u64,
    /// Keys of objects that no push creates; they are left unchanged.
    pub unknown: Vec<String>,
}

/// The listed objects of a session.
#[derive(Default)]
struct ListedSession {
    head: Option<Version>,
    bundles: Vec<ListedBundle>,
}

struct ListedBundle {
    name: String,
    generation: u64,
    object: Listed,
}

/// The bundles of a session, classified by its head.
#[derive(Default)]
struct ClassifiedBundles<'a> {
    garbage: Vec<&'a ListedBundle>,
    /// Bundles for the next head, which may still be written.
    waiting: Vec<&'a ListedBundle>,
    unknown: Vec<&'a ListedBundle>,
}

impl Remote<'_> {
    /// Deletes unreachable bundles of the remote. If there are none, it costs one request, and one
    /// per thousand objects. Reads heads that changed since this store last read them.
    ///
    /// # Errors
    /// `Corrupt` if a head is invalid or cannot be a successor of the last known one: then nothing
    /// of that session is deleted; `Io` if the remote does not answer, or refuses to delete.
    pub fn collect(&self, options: CollectOptions) -> Result<Collected> {
        self.check_id()?;
        let mut collected = Collected::default();
        let known = self.known_keys()?;
        if options.is_aggressive && !options.is_dry {
            for (_, known) in &known {
                collected.folded += u64::from(self.fold_all(known)?);
            }
        }
        let known: BTreeMap<Key, KnownHead> = known.into_iter().collect();
        let listed = self.list_sessions("", &mut collected)?;
        collected.sessions = listed.len() as u64;
        let mut garbage: Vec<Key> = Vec::new();
        for (part, listed) in &listed {
            let key = Key::new(format!("heads/{part}"))?;
            let dead = self.dead_bundles(&key, known.get(&key), listed, options, &mut collected)?;
            for bundle in dead {
                collected.bundles += 1;
                collected.bytes = collected.bytes.saturating_add(bundle.object.size);
                garbage.push(bundle.object.key.clone());
            }
        }
        if !options.is_dry {
            self.delete_all(&garbage)?;
        }
        Ok(collected)
    }

    /// Deletes unlisted bundles of a session up to the generation of `head`, except `spared` ones.
    pub(super) fn collect_unlisted(
        &self,
        head: &SessionHead,
        spared: &BTreeSet<&str>,
    ) -> Result<()> {
        let part = self.bucket.names().key_part(&head.session);
        let listed = self.list_sessions(&format!("bundles/{part}/"), &mut Collected::default())?;
        let listed = listed.get(&part).map(|listed| &*listed.bundles).unwrap_or_default();
        let rewritten = classify(Some(head), listed).garbage.into_iter();
        let dead = rewritten.filter(|bundle| !spared.contains(&*bundle.name));
        self.delete_all(&dead.map(|bundle| bundle.object.key.clone()).collect::<Vec<_>>())
    }

    fn delete_all(&self, keys: &[Key]) -> Result<()> {
        keys.chunks(DELETED_AT_ONCE).try_for_each(|keys| self.bucket.delete(keys))
    }

    /// Lists everything below a prefix, by the part of the key that names the session.
    fn list_sessions(
        &self,
        prefix: &str,
        collected: &mut Collected,
    ) -> Result<BTreeMap<String, ListedSession>> {
        let (root, mut all) = (RemoteRoot::key()?, BTreeMap::<String, ListedSession>::new());
        visit_objects(self.bucket, prefix, &mut |object| {
            let parts: Vec<&str> = object.key.as_str().split('/').collect();
            match *parts {
                ["heads", part] => {
                    all.entry(part.to_owned()).or_default().head = Some(object.version.clone());
                }
                ["keys"] => {}
                ["bundles", part, name] if let Some(generation) = generation_of(name) => {
                    let (name, object) = (name.to_owned(), object.clone());
                    let bundle = ListedBundle { name, generation, object };
                    all.entry(part.to_owned()).or_default().bundles.push(bundle);
                }
                _ if object.key == root => {}
                _ => collected.unknown.push(object.key.to_string()),
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns the bundles of a session that no future head can list.
    fn dead_bundles<'a>(
        &self,
        key: &Key,
        known: Option<&KnownHead>,
        listed: &'a ListedSession,
        options: CollectOptions,
        collected: &mut Collected,
    ) -> Result<Vec<&'a ListedBundle>> {
        // The last known head was once current, so unlisted bundles up to its generation can never
        // be listed.
        if let Some(known) = known
            && listed.head.as_ref() == Some(&known.version)
        {
            let sorted = classify(Some(&known.head), &listed.bundles);
            if sorted.waiting.is_empty() && sorted.unknown.is_empty() {
                return Ok(sorted.garbage);
            }
        } else if listed.bundles.is_empty() {
            return Ok(Vec::new());
        }
        // Read the head after the listing, so that no bundle is more than one generation newer.
        let mut found = self.read_head(key)?;
        for _ in 0..MAX_LOOKS {
            match (known, &found) {
                (Some(known), Some(found)) => known.check_after(&found.head)?,
                (Some(known), None) => return Err(lost_session_error(&known.head.session)),
                (None, _) => {}
            }
            let mut sorted = classify(found.as_ref().map(|found| &found.head), &listed.bundles);
            if options.is_dry || sorted.waiting.is_empty() {
                sorted.garbage.append(&mut sorted.waiting);
                let unknown = sorted.unknown.iter().map(|bundle| bundle.object.key.to_string());
                collected.unknown.extend(unknown);
                return Ok(sorted.garbage);
            }
            found = Some(match self.rewrite_head(key, found.as_ref())? {
                (SwapOutcome::Done(version), head) => {
                    collected.rewritten += 1;
                    let rewritten = KnownHead { head, version };
                    self.record_rewritten(known, found.as_ref(), &rewritten)?;
                    rewritten
                }
                (SwapOutcome::Moved(found), _) => *found,
            });
        }
        let message = format!("other clients keep pushing to {key}: collect again later");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Rewrites a head unchanged as the next generation. Without a head it writes an empty one
    /// without a session name, which cannot always be derived from the key.
    pub(super) fn rewrite_head(
        &self,
        key: &Key,
        found: Option<&KnownHead>,
    ) -> Result<(SwapOutcome, SessionHead)> {
        let mut next = match found {
            Some(found) => found.head.clone(),
            None => SessionHead::first(self.id, String::new()),
        };
        self.set_successor(&mut next, found)?;
        Ok((self.swap(key, found, &next)?, next))
    }

    /// Records a rewritten head, if this store knew the head before it.
    pub(super) fn record_rewritten(
        &self,
        known: Option<&KnownHead>,
        found: Option<&KnownHead>,
        rewritten: &KnownHead,
    ) -> Result<()> {
        match known.zip(found) {
            Some((known, found)) if known.head == found.head => {
                self.record_head(rewritten, &format!("write the head again on {},", self.name))
            }
            _ => Ok(()),
        }
    }
}

/// Classifies bundles by a head.
fn classify<'a>(head: Option<&SessionHead>, bundles: &'a [ListedBundle]) -> ClassifiedBundles<'a> {
    let mut sorted = ClassifiedBundles::default();
    let generation = head.map_or(0, |head| head.generation);
    let listed = head.map(|head| head.bundles.iter().map(|bundle| &*bundle.name));
    let listed: BTreeSet<&str> = listed.into_iter().flatten().collect();
    for bundle in bundles.iter().filter(|bundle| !listed.contains(&*bundle.name)) {
        let place = match bundle.generation {
            made if made <= generation => &mut sorted.garbage,
            made if made - 1 == generation => &mut sorted.waiting,
            _ => &mut sorted.unknown,
        };
        place.push(bundle);
    }
    sorted
}
