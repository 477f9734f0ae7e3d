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
use super::head::{Head, Root, generation_of};
use super::known::KnownHead;
use super::listing::each_object;
use super::push::Swap;
use super::{Remote, lost};
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
struct Lying {
    head: Option<Version>,
    bundles: Vec<LyingBundle>,
}

struct LyingBundle {
    name: String,
    generation: u64,
    object: Listed,
}

/// The bundles of a session, classified by its head.
#[derive(Default)]
struct Sorted<'a> {
    garbage: Vec<&'a LyingBundle>,
    /// Bundles for the next head, which may still be written.
    waiting: Vec<&'a LyingBundle>,
    unknown: Vec<&'a LyingBundle>,
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
        let lying = self.lying("", &mut collected)?;
        collected.sessions = lying.len() as u64;
        let mut garbage: Vec<Key> = Vec::new();
        for (part, lying) in &lying {
            let key = Key::new(format!("heads/{part}"))?;
            let dead = self.dead(&key, known.get(&key), lying, options, &mut collected)?;
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
    pub(super) fn collect_passed(&self, head: &Head, spared: &BTreeSet<&str>) -> Result<()> {
        let part = self.bucket.names().part_of(&head.session);
        let lying = self.lying(&format!("bundles/{part}/"), &mut Collected::default())?;
        let lying = lying.get(&part).map(|lying| &*lying.bundles).unwrap_or_default();
        let passed = sorted(Some(head), lying).garbage.into_iter();
        let dead = passed.filter(|bundle| !spared.contains(&*bundle.name));
        self.delete_all(&dead.map(|bundle| bundle.object.key.clone()).collect::<Vec<_>>())
    }

    fn delete_all(&self, keys: &[Key]) -> Result<()> {
        keys.chunks(DELETED_AT_ONCE).try_for_each(|keys| self.bucket.delete(keys))
    }

    /// Lists everything below a prefix, by the part of the key that names the session.
    fn lying(&self, prefix: &str, collected: &mut Collected) -> Result<BTreeMap<String, Lying>> {
        let (root, mut all) = (Root::key()?, BTreeMap::<String, Lying>::new());
        each_object(self.bucket, prefix, &mut |object| {
            let parts: Vec<&str> = object.key.as_str().split('/').collect();
            match *parts {
                ["heads", part] => {
                    all.entry(part.to_owned()).or_default().head = Some(object.version.clone());
                }
                ["keys"] => {}
                ["bundles", part, name] if let Some(generation) = generation_of(name) => {
                    let (name, object) = (name.to_owned(), object.clone());
                    let bundle = LyingBundle { name, generation, object };
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
    fn dead<'a>(
        &self,
        key: &Key,
        known: Option<&KnownHead>,
        lying: &'a Lying,
        options: CollectOptions,
        collected: &mut Collected,
    ) -> Result<Vec<&'a LyingBundle>> {
        // The last known head was once current, so unlisted bundles up to its generation can never
        // be listed.
        if let Some(known) = known
            && lying.head.as_ref() == Some(&known.version)
        {
            let sorted = sorted(Some(&known.head), &lying.bundles);
            if sorted.waiting.is_empty() && sorted.unknown.is_empty() {
                return Ok(sorted.garbage);
            }
        } else if lying.bundles.is_empty() {
            return Ok(Vec::new());
        }
        // Read the head after the listing, so that no bundle is more than one generation newer.
        let mut found = self.read_head(key)?;
        for _ in 0..MAX_LOOKS {
            match (known, &found) {
                (Some(known), Some(found)) => known.check_after(&found.head)?,
                (Some(known), None) => return Err(lost(&known.head.session)),
                (None, _) => {}
            }
            let mut sorted = sorted(found.as_ref().map(|found| &found.head), &lying.bundles);
            if options.is_dry || sorted.waiting.is_empty() {
                sorted.garbage.append(&mut sorted.waiting);
                let unknown = sorted.unknown.iter().map(|bundle| bundle.object.key.to_string());
                collected.unknown.extend(unknown);
                return Ok(sorted.garbage);
            }
            found = Some(match self.pass(key, found.as_ref())? {
                (Swap::Done(version), head) => {
                    collected.rewritten += 1;
                    let passed = KnownHead { head, version };
                    self.record_passed(known, found.as_ref(), &passed)?;
                    passed
                }
                (Swap::Moved(found), _) => *found,
            });
        }
        let message = format!("other clients keep pushing to {key}: collect again later");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Rewrites a head unchanged as the next generation. Without a head it writes an empty one
    /// without a session name, which cannot always be derived from the key.
    pub(super) fn pass(&self, key: &Key, found: Option<&KnownHead>) -> Result<(Swap, Head)> {
        let mut next = match found {
            Some(found) => found.head.clone(),
            None => Head::first(self.id, String::new()),
        };
        self.go_on(&mut next, found)?;
        Ok((self.swap(key, found, &next)?, next))
    }

    /// Records a rewritten head, if this store knew the head before it.
    pub(super) fn record_passed(
        &self,
        known: Option<&KnownHead>,
        found: Option<&KnownHead>,
        passed: &KnownHead,
    ) -> Result<()> {
        match known.zip(found) {
            Some((known, found)) if known.head == found.head => {
                self.record(passed, &format!("write the head again on {},", self.name))
            }
            _ => Ok(()),
        }
    }
}

/// Classifies bundles by a head.
fn sorted<'a>(head: Option<&Head>, bundles: &'a [LyingBundle]) -> Sorted<'a> {
    let mut sorted = Sorted::default();
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
