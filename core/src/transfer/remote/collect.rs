//! What lies on a remote and nothing can lead to any more is deleted: exactly that, without a clock or a
//! lock, whoever pushes meanwhile.
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
//! Each step leaves a remote that is whole, so a collection may end anywhere. A head that it looks at may be
//! an old one, or a listing: both only show less of what can go.

use std::collections::{BTreeMap, BTreeSet};

use super::bucket::{Key, Listed, Version};
use super::head::{Head, Root, generation_of};
use super::known::KnownHead;
use super::listing::each_object;
use super::push::Swap;
use super::{Remote, lost};
use crate::error::{Error, ErrorKind, Result};

/// Objects that are deleted by one request.
const DELETED_AT_ONCE: usize = 1_000;

/// Times that a head is looked at again because somebody pushed meanwhile.
pub(super) const MAX_LOOKS: u32 = 16;

/// What a collection does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectOptions {
    /// Looks only, and changes nothing.
    pub is_dry: bool,
    /// Makes the bundles of each session one first, where everything of them is here.
    pub is_aggressive: bool,
}

/// What a collection found, and did unless it only looked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Sessions with a head or a bundle.
    pub sessions: u64,
    /// Bundles that nothing can lead to.
    pub bundles: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Sessions whose bundles were made one.
    pub folded: u64,
    /// Heads that were written again, so that a push that died, or is under way, cannot end any more.
    pub rewritten: u64,
    /// Keys of what no push made: it is left where it is.
    pub unknown: Vec<String>,
}

/// What a listing shows of a session.
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

/// What a head says of the bundles that lie there.
#[derive(Default)]
struct Sorted<'a> {
    garbage: Vec<&'a LyingBundle>,
    /// Those of the next head, which may still be written.
    waiting: Vec<&'a LyingBundle>,
    unknown: Vec<&'a LyingBundle>,
}

impl Remote<'_> {
    /// Deletes what nothing on the remote can lead to any more. When there is nothing to do it costs one
    /// request, and one for a thousand objects; the heads that changed since they were seen here are read.
    ///
    /// # Errors
    /// `Corrupt` when a head is none, or cannot have come after the one that was seen before: nothing of
    /// that session is deleted then; `Io` when the remote does not answer, or the key may not delete.
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

    /// Deletes the bundles of a session that a head has passed, but for those that are named.
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

    /// Everything below a prefix, by the part of the key that stands for the session.
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

    /// The bundles of a session that nothing can list any more.
    fn dead<'a>(
        &self,
        key: &Key,
        known: Option<&KnownHead>,
        lying: &'a Lying,
        options: CollectOptions,
        collected: &mut Collected,
    ) -> Result<Vec<&'a LyingBundle>> {
        // The head that was seen last is one that was: what it has passed is passed for good.
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
        // After the listing, so that no bundle is of a later head than the next one.
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
        let message = format!("others push to {key} again and again: collect again later");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Writes a head again as the next generation, with nothing else changed; an empty one where there is
    /// none, which has no session: its key does not always tell it.
    pub(super) fn pass(&self, key: &Key, found: Option<&KnownHead>) -> Result<(Swap, Head)> {
        let mut next = match found {
            Some(found) => found.head.clone(),
            None => Head::first(self.id, String::new()),
        };
        self.go_on(&mut next, found)?;
        Ok((self.swap(key, found, &next)?, next))
    }

    /// Remembers a head that was written again, if what it was written over is known here.
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

/// Sorts bundles by what a head says of them.
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
