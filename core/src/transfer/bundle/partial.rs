//! Recovers the intact part of a damaged bundle as a smaller bundle.
//!
//! ```text
//! damaged file ── objects whose ids are known ── those whose links all are ── refs that lead to them
//!                                                                                    |
//!                    Bundle: a manifest of what these refs reach   <─────────────────┘
//! ```
//!
//! An object that names a lost object is skipped, so everything reachable from the rest is intact:
//! each branch is complete up to some turn and lost after it. A branch is set to the newest intact
//! turn among its values in the operations; otherwise to the newest turn of its session that is on
//! no other branch. The result is verified like any other bundle.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::check::{Bundle, PLAIN_BYTES, PLAIN_RATIO, is_nameable};
use super::manifest::{BundledRef, Counts, Manifest, TextId};
use super::operations::{Held, NameableObjects, decode};
use super::select::SessionCounts;
use crate::error::{ErrorKind, Result};
use crate::object::{Commit, Kind, Object, ObjectId};
use crate::repo::{BranchName, links};
use crate::store::{BundleFile, Outside, Protected, ReadAt, Tombstone};

/// Represents a lost commit or tag that operations name.
const LOST: [u8; 32] = [0; 32];

/// The losses of a damaged bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleLosses {
    /// Number of objects that cannot be recovered.
    pub objects: u64,
    /// Total number of objects.
    pub of_objects: u64,
    /// Number of turns that cannot be recovered.
    pub turns: u64,
    /// Refs that were set back to an earlier turn or dropped.
    pub refs: Vec<LostRef>,
}

/// A ref of a bundle whose value is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRef {
    /// The full name.
    pub name: String,
    /// The turn that it pointed to.
    pub turn: u64,
    /// The intact turn that it points to instead; `None` if there is none.
    pub whole: Option<u64>,
}

impl BundleLosses {
    /// Returns true if nothing is lost.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.objects == 0 && self.refs.is_empty()
    }
}

impl Bundle {
    /// Opens a bundle that may be damaged beyond the repair of its parity. Returns a bundle of its
    /// intact part, and the losses. Opens an intact bundle unchanged. Accepts at most `max_bytes`
    /// of objects, as [`Bundle::verify`] does. Memory: 80 bytes per object and 32 per link, and the
    /// whole file if its end is lost.
    ///
    /// # Errors
    /// `InvalidInput` if the file is not a bundle, `Unsupported` for a later version, `Corrupt` if
    /// the manifest is damaged or the remaining objects contradict each other, `LimitExceeded` if
    /// the objects exceed the limit.
    pub fn open_partial(
        file: Arc<dyn ReadAt>,
        max_bytes: Option<u64>,
    ) -> Result<(Self, BundleLosses)> {
        let opened = Self::open(Arc::clone(&file));
        let whole = opened.and_then(|bundle| bundle.verify(max_bytes).map(|_| bundle));
        match whole {
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => {}
            whole => return Ok((whole?, BundleLosses::default())),
        }
        let content = Protected::open(file)?.content();
        let file = BundleFile::open(Arc::clone(&content))
            .or_else(|_| BundleFile::open_damaged(&content, &parse_counts))?;
        let manifest = Manifest::decode(file.front())?;
        let plain = PLAIN_BYTES.max(file.file_bytes().saturating_mul(PLAIN_RATIO));
        let left = UsableObjects::read(&file, &manifest, max_bytes.unwrap_or(plain))?;
        let (manifest, losses, kept) = left.manifest(&file, &manifest);
        let outside = file.outside().iter().filter(|(id, ..)| kept.contains(id));
        let outside = outside.copied().collect();
        let bundle = Self { file, manifest, outside, kept: Some(kept) };
        bundle.verify(max_bytes)?;
        Ok((bundle, losses))
    }
}

/// Returns the numbers of objects and external ids, according to the manifest.
fn parse_counts(front: &str) -> Result<(u32, u32)> {
    let manifest = Manifest::decode(front)?;
    Ok((manifest.objects.total(), manifest.outside))
}

impl Counts {
    /// Returns the number of objects of all kinds.
    fn total(self) -> u32 {
        let structures = self.nodes.saturating_add(self.commits).saturating_add(self.tags);
        self.blobs.saturating_add(structures)
    }
}

/// The objects of a damaged bundle from which nothing lost is reachable.
#[derive(Default)]
struct UsableObjects {
    kinds: HashMap<ObjectId, Kind>,
    /// Objects with links, and the objects that they name, in order.
    linked: Vec<(ObjectId, Vec<ObjectId>)>,
    commits: HashMap<ObjectId, Commit>,
    /// Targets of tags.
    tags: HashMap<ObjectId, ObjectId>,
    outside: HashMap<ObjectId, (Kind, Outside)>,
    /// The next commit after each forgotten commit.
    grafts: BTreeMap<ObjectId, Option<ObjectId>>,
    required: HashMap<ObjectId, u64>,
    /// Commits and tags by ordinals, both internal and external; [`LOST`] for lost ones.
    named: HashMap<u32, ObjectId>,
}

impl UsableObjects {
    fn read(file: &BundleFile, manifest: &Manifest, limit: u64) -> Result<Self> {
        let outside = file.outside().iter().map(|(id, kind, why)| (*id, (*kind, *why)));
        let grafts = manifest.grafts.iter();
        let required = manifest.prerequisites.iter();
        let lost = ObjectId::from_bytes(LOST);
        let outside_at = (file.len()..).zip(file.outside());
        let outside_at = outside_at.filter(|(_, (_, kind, _))| is_nameable(*kind));
        let mut left = Self {
            outside: outside.collect(),
            grafts: grafts.map(|it| (it.forgotten.0, it.next.map(|next| next.0))).collect(),
            required: required.map(|known| (known.commit.0, known.turn)).collect(),
            named: file.ordinals_of(is_nameable).map(|ordinal| (ordinal, lost)).collect(),
            ..Self::default()
        };
        left.named.extend(outside_at.map(|(ordinal, (id, ..))| (ordinal, *id)));
        file.salvage(limit, &mut |ordinal, id, object| {
            // An object that does not decode as its kind counts as lost.
            if left.take(id, &object).is_ok_and(|taken| taken) && is_nameable(object.kind) {
                left.named.insert(ordinal, id);
            }
            Ok(())
        })?;
        Ok(left)
    }

    /// Adds an object if its dependencies exist; returns whether it did.
    fn take(&mut self, id: ObjectId, object: &Object) -> Result<bool> {
        let named = links(object)?;
        let is_known = |id: &ObjectId, kind: Kind| match self.kinds.get(id) {
            Some(found) => *found == kind,
            None => self.outside.get(id).is_some_and(|(found, why)| {
                let forgotten = *why == Outside::Forgotten;
                let follows = || match self.grafts.get(id) {
                    Some(Some(next)) => {
                        self.commits.contains_key(next) || self.required.contains_key(next)
                    }
                    next => next.is_some(),
                };
                let gone =
                    matches!(why, Outside::Tombstone(Tombstone::Elided | Tombstone::Redacted));
                let of_commit = object.kind == Kind::Commit;
                *found == kind && (of_commit || !gone && !forgotten) && (!forgotten || follows())
            }),
        };
        let is_twice = self.kinds.contains_key(&id) || self.outside.contains_key(&id);
        if is_twice || !named.iter().all(|link| is_known(&link.id, link.kind)) {
            return Ok(false);
        }
        match object.kind {
            Kind::Commit => drop(self.commits.insert(id, Commit::decode(&object.bytes)?)),
            Kind::Tag => drop(named.first().map(|link| self.tags.insert(id, link.id))),
            _ => {}
        }
        let named: Vec<ObjectId> = named.into_iter().map(|link| link.id).collect();
        if !named.is_empty() {
            self.linked.push((id, named));
        }
        self.kinds.insert(id, object.kind);
        Ok(true)
    }

    /// Returns the manifest of the recovered bundle, its losses, and its objects and external ids.
    fn manifest(
        self,
        file: &BundleFile,
        whole: &Manifest,
    ) -> (Manifest, BundleLosses, HashSet<ObjectId>) {
        let (mut refs, mut lost) = (BTreeMap::new(), Vec::new());
        let is_there = |id: &ObjectId| match self.kinds.get(id) {
            Some(kind) => is_nameable(*kind),
            None => self.required.contains_key(id),
        };
        for (name, value) in whole.refs.iter().filter(|(_, value)| is_there(&value.id.0)) {
            refs.insert(name.clone(), value.clone());
        }
        let mut taken = self.reach(refs.values().map(|value| value.id.0));
        let told = self.ref_values(file, whole);
        for (name, value) in whole.refs.iter().filter(|(_, value)| !is_there(&value.id.0)) {
            let found = BranchName::from_full(name).and_then(|branch| {
                let were = told.iter().rev().filter(|(known, _)| known == name);
                let held = were.map(|(_, id)| *id).find(|id| self.commits.contains_key(id));
                let (own, others): (Vec<_>, Vec<_>) =
                    told.iter().partition(|(known, _)| known == name);
                let own: HashSet<ObjectId> = own.into_iter().map(|(_, id)| *id).collect();
                let others = others.into_iter().map(|(_, id)| *id).filter(|id| !own.contains(id));
                let newest = self.newest(branch.session(), value.turn, &taken, &others.collect());
                let follows =
                    |id: &ObjectId| held.is_none_or(|held| self.history(*id).contains(&held));
                newest.filter(follows).or(held)
            });
            let found = found.and_then(|id| Some((id, self.commits.get(&id)?.turn)));
            if let Some((id, turn)) = found {
                let (kind, id) = (Kind::Commit.name().to_owned(), TextId(id));
                taken.extend(self.history(id.0));
                refs.insert(name.clone(), BundledRef { kind, id, turn });
            }
            let whole = found.map(|(_, turn)| turn);
            lost.push(LostRef { name: name.clone(), turn: value.turn, whole });
        }
        let mut taken = self.reach(refs.values().map(|value| value.id.0));
        let kept = taken.iter().filter_map(|id| self.kinds.get(id).copied());
        let objects = Counts::of(kept);
        let mut sessions = SessionCounts::default();
        for (_, commit) in self.commits.iter().filter(|(id, _)| taken.contains(*id)) {
            let elided = matches!(self.outside.get(&commit.tree), Some((_, Outside::Tombstone(_))));
            sessions.add(&commit.session, commit.turn, commit.time.micros, elided);
        }
        let linked = self.linked.iter().filter(|(id, _)| taken.contains(id));
        let named: HashSet<ObjectId> = linked.flat_map(|(_, named)| named).copied().collect();
        taken.retain(|id| self.kinds.contains_key(id) || named.contains(id));
        let outside = self.outside.keys().filter(|id| taken.contains(*id)).count();
        let mut manifest = Manifest {
            sessions: sessions.finish(),
            refs,
            prerequisites: whole.prerequisites.clone(),
            grafts: whole.grafts.clone(),
            objects,
            outside: u32::try_from(outside).unwrap_or(u32::MAX),
            operations: 0,
            labels: whole.labels.clone(),
        };
        manifest.grafts.retain(|graft| taken.contains(&graft.forgotten.0));
        let named = manifest.branch_sessions();
        manifest.labels.retain(|session, _| named.contains(session));
        let of_objects = u64::from(whole.objects.total());
        let losses = BundleLosses {
            objects: of_objects.saturating_sub(objects.total().into()),
            of_objects,
            turns: whole.objects.commits.saturating_sub(objects.commits).into(),
            refs: lost,
        };
        (manifest, losses, taken)
    }

    /// Returns a commit and its ancestors, along grafts.
    fn history(&self, id: ObjectId) -> HashSet<ObjectId> {
        let (mut found, mut open) = (HashSet::new(), vec![id]);
        while let Some(id) = open.pop() {
            let next = self.grafts.get(&id).copied().flatten();
            open.extend(next.filter(|next| found.insert(*next)));
            let Some(commit) = self.commits.get(&id) else { continue };
            found.insert(id);
            open.extend(commit.parents.iter().filter(|parent| found.insert(**parent)));
        }
        found
    }

    /// Returns the given objects and everything reachable from them, along grafts.
    fn reach(&self, starts: impl IntoIterator<Item = ObjectId>) -> HashSet<ObjectId> {
        let mut reached: HashSet<ObjectId> = starts.into_iter().collect();
        for (id, named) in self.linked.iter().rev() {
            if reached.contains(id) {
                let next = named.iter().filter_map(|id| self.grafts.get(id).copied().flatten());
                let next: Vec<ObjectId> = next.collect();
                reached.extend(named.iter().copied().chain(next));
            }
        }
        reached
    }

    /// Returns the values that refs held, oldest first, as far as the operations are readable.
    fn ref_values(&self, file: &BundleFile, manifest: &Manifest) -> Vec<(String, ObjectId)> {
        let count = file.len().saturating_add(manifest.outside);
        let places =
            NameableObjects { ids: &self.named, count, sessions: manifest.branch_sessions() };
        let mut told = Vec::new();
        let read = file.operations().and_then(|bytes| {
            decode(&bytes, &places, &mut |operation| {
                for change in operation.changes {
                    for held in [change.old, change.new] {
                        if let Some(Held::Object(id)) = held {
                            told.push((change.name.clone(), id));
                        }
                    }
                }
            })
        });
        if read.is_ok() { told } else { Vec::new() }
    }

    /// Returns the newest turn of a session up to `turn`, preferring turns that no other branch
    /// held, and then those that are on no branch yet.
    fn newest(
        &self,
        session: &str,
        turn: u64,
        taken: &HashSet<ObjectId>,
        others: &HashSet<ObjectId>,
    ) -> Option<ObjectId> {
        let own = self.commits.iter();
        let own = own.filter(|(_, commit)| commit.session == session && commit.turn <= turn);
        let newest = own.max_by_key(|(id, commit)| {
            (!others.contains(*id), !taken.contains(*id), commit.turn, **id)
        });
        newest.map(|(id, _)| *id)
    }
}
