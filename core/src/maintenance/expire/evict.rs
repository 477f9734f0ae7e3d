//! Eviction: removes payloads that no snapshot cites from the pool, by age, number and size.
//!
//! ```text
//! payloads of the pool -- cited by a kept snapshot ----------------> stay
//!                      '- not cited -- older than max_age ---------> go
//!                                   '- too many, or too many bytes
//!                                      the longest unused first ---> go
//! ```
//!
//! A kept snapshot is one that a collection would keep. It cites the payloads of its section `vfs`,
//! the payloads named in any of its texts, and the payloads named in cited payloads. The plan lists
//! the evicted payloads with reasons, and the payloads that stay despite a limit.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::context::Context;
use crate::context::sections::VFS;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::keep::roots::Roots;
use crate::object::{Kind, Object, ObjectId, ObjectSource};
use crate::repo::vfs::{EvictionReason, Payload, Pool, VfsUri};
use crate::repo::{Repository, Signature, links};

/// The limits of the pool. `None` is no limit, zero evicts every uncited payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvictionLimits {
    /// The maximum age since a payload was stored, in microseconds.
    pub max_age: Option<i64>,
    /// The maximum number of payloads.
    pub max_files: Option<u64>,
    /// The maximum bytes of all payloads together.
    pub max_bytes: Option<u64>,
}

/// A payload to evict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Eviction {
    /// The payload.
    pub payload: Payload,
    /// The size in bytes.
    pub bytes: u64,
    /// The reason.
    pub reason: EvictionReason,
}

/// The plan of an eviction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvictionPlan {
    /// The evicted payloads: first by age, then the longest unused first.
    pub evicted: Vec<Eviction>,
    /// Payloads over a limit that a kept snapshot cites, in the same order.
    pub cited: Vec<Eviction>,
    /// The number of payloads in the pool.
    pub payloads: u64,
    /// The bytes of the payloads in the pool.
    pub bytes: u64,
    /// The newest operation when the plan was made.
    operation: Option<ObjectId>,
}

impl EvictionPlan {
    /// Returns the bytes of the evicted payloads.
    #[must_use]
    pub fn evicted_bytes(&self) -> u64 {
        self.evicted.iter().map(|eviction| eviction.bytes).sum()
    }

    /// Counts the payloads evicted for a reason.
    #[must_use]
    pub fn count(&self, reason: EvictionReason) -> u64 {
        self.evicted.iter().filter(|eviction| eviction.reason == reason).count() as u64
    }
}

/// Plans the evictions from the pool at the moment `now`, in microseconds since the Unix epoch.
///
/// Reads every payload for its size. If a payload is over a limit, also reads all kept content.
///
/// # Errors
/// `InvalidInput` for a negative age, and errors of reading: in a damaged store the citations are
/// unknown.
pub fn plan_eviction(repo: &Repository, limits: &EvictionLimits, now: i64) -> Result<EvictionPlan> {
    if limits.max_age.is_some_and(|age| age < 0) {
        return Err(Error::invalid("the maximum age is negative: expected 0 or more"));
    }
    let pool = Pool::load(repo)?;
    let mut payloads = Vec::new();
    for payload in pool.payloads(repo.store()) {
        let payload = payload?;
        let bytes = repo.store().read_as(Kind::Blob, &payload.blob)?.len() as u64;
        payloads.push((payload, bytes));
    }
    let mut plan = EvictionPlan {
        payloads: payloads.len() as u64,
        bytes: payloads.iter().map(|(_, bytes)| bytes).sum(),
        operation: repo.refs().operation,
        ..EvictionPlan::default()
    };
    let wanted = |kept: &BTreeSet<VfsUri>| choose(&payloads, limits, now, kept);
    let first = wanted(&BTreeSet::new()).0;
    if first.is_empty() {
        return Ok(plan);
    }
    let cited = Citations::find(repo, &pool, now)?;
    (plan.evicted, plan.cited) = wanted(&cited);
    Ok(plan)
}

/// Applies a plan in one operation, which undo can revert. Returns the number of evicted payloads.
///
/// # Errors
/// `Conflict` when anything was stored since the plan was made; then nothing has changed.
pub fn evict(repo: &Repository, plan: &EvictionPlan, stamp: &Signature) -> Result<u64> {
    if plan.evicted.is_empty() {
        return Ok(0);
    }
    repo.store().refresh()?;
    let mut change = repo.begin();
    if repo.refs().operation != plan.operation {
        let message = "the store has changed since the eviction was planned: plan it again";
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    let evicted: Vec<_> = plan
        .evicted
        .iter()
        .map(|eviction| (eviction.payload.uri.clone(), eviction.reason))
        .collect();
    change.evict_payloads(&evicted, stamp.time.micros)?;
    let reason = match evicted.as_slice() {
        [(uri, _)] => format!("vfs evict {uri}"),
        _ => format!("vfs evict {} payloads", evicted.len()),
    };
    change.commit(stamp, &reason)?;
    Ok(evicted.len() as u64)
}

/// Splits the payloads over the limits into evicted and cited ones, in the order of eviction.
fn choose(
    payloads: &[(Payload, u64)],
    limits: &EvictionLimits,
    now: i64,
    cited: &BTreeSet<VfsUri>,
) -> (Vec<Eviction>, Vec<Eviction>) {
    let mut count = payloads.len() as u64;
    let mut bytes: u64 = payloads.iter().map(|(_, bytes)| bytes).sum();
    let (mut evicted, mut kept) = (Vec::new(), Vec::new());
    let mut rest = Vec::new();
    for (payload, size) in payloads {
        let age = now.saturating_sub(payload.created_micros);
        if limits.max_age.is_none_or(|max| age <= max) {
            rest.push((payload, *size));
            continue;
        }
        let eviction =
            Eviction { payload: payload.clone(), bytes: *size, reason: EvictionReason::Age };
        if cited.contains(&payload.uri) {
            kept.push(eviction);
        } else {
            count -= 1;
            bytes -= size;
            evicted.push(eviction);
        }
    }
    rest.sort_by_key(|(payload, _)| (payload.accessed_micros, payload.created_micros));
    for (payload, size) in rest {
        let reason = if limits.max_files.is_some_and(|max| count > max) {
            EvictionReason::Count
        } else if limits.max_bytes.is_some_and(|max| bytes > max) {
            EvictionReason::Bytes
        } else {
            break;
        };
        let eviction = Eviction { payload: payload.clone(), bytes: size, reason };
        if cited.contains(&payload.uri) {
            kept.push(eviction);
        } else {
            count -= 1;
            bytes -= size;
            evicted.push(eviction);
        }
    }
    (evicted, kept)
}

/// Follows the citations of kept snapshots.
struct Citations<'a> {
    repo: &'a Repository,
    pool: BTreeMap<VfsUri, ObjectId>,
    seen: HashSet<ObjectId>,
    cited: BTreeSet<VfsUri>,
    /// Cited payloads that are not read yet.
    waiting: Vec<ObjectId>,
}

impl<'a> Citations<'a> {
    /// Returns the payloads of the pool that a kept snapshot cites.
    fn find(repo: &'a Repository, pool: &Pool, now: i64) -> Result<BTreeSet<VfsUri>> {
        let store = repo.store();
        let payloads = pool.payloads(store).map(|payload| {
            let Payload { uri, blob, .. } = payload?;
            Ok((uri, blob))
        });
        let pool = payloads.collect::<Result<_>>()?;
        let (seen, cited, waiting) = (HashSet::new(), BTreeSet::new(), Vec::new());
        let mut found = Self { repo, pool, seen, cited, waiting };
        let roots = Roots::find(store, &repo.refs(), now)?;
        let commits = roots.graph.commits().iter();
        let trees: Vec<ObjectId> = commits
            .map(|commit| commit.tree)
            .filter(|tree| store.tombstone(tree).is_none())
            .collect();
        let mut sections = HashSet::new();
        for tree in &trees {
            let context = Context::open(store, tree)?;
            if let Some(section) = context.section(store, VFS)?
                && sections.insert(section.id)
            {
                for entry in context.map(store, VFS)?.iter(store) {
                    let key = entry?.0;
                    if let Some(uri) =
                        std::str::from_utf8(&key).ok().and_then(|key| key.parse().ok())
                    {
                        found.note_citation(uri);
                    }
                }
            }
        }
        for tree in trees {
            found.follow(tree)?;
        }
        while let Some(payload) = found.waiting.pop() {
            found.follow(payload)?;
        }
        Ok(found.cited)
    }

    fn note_citation(&mut self, uri: VfsUri) {
        if let Some(payload) = self.pool.get(&uri).copied()
            && self.cited.insert(uri)
        {
            self.waiting.push(payload);
        }
    }

    /// Reads everything below an object, each object once, until all payloads are known to be
    /// cited.
    fn follow(&mut self, from: ObjectId) -> Result<()> {
        let mut open = vec![from];
        while let Some(id) = open.pop() {
            if self.cited.len() == self.pool.len() {
                return Ok(());
            }
            if !self.seen.insert(id) {
                continue;
            }
            let object = match self.repo.store().read(&id) {
                Err(error) if error.kind() == ErrorKind::Redacted => continue,
                object => object?,
            };
            match object {
                Some(Object { kind: Kind::Blob, bytes }) => {
                    VfsUri::cited(&bytes).for_each(|(uri, _)| self.note_citation(uri));
                }
                Some(object) => open.extend(links(&object)?.into_iter().map(|link| link.id)),
                None => {
                    return Err(Error::corrupt(id, "an object that a snapshot needs", "nothing"));
                }
            }
        }
        Ok(())
    }
}
