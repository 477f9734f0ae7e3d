//! Selects refs and commits for a bundle, and finds its prerequisites.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::ancestry::Ancestry;
use super::closure::{Closure, ClosureItems, ObjectOrder};
use super::log::{BundleScope, SentOperations};
use super::manifest::{
    BundledLabels, BundledRef, BundledSession, Counts, Graft, Manifest, Prerequisite, TextId, utc,
};
use super::operations;
use super::request::BundleRequest;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, RefValue, Tag};
use crate::repo::{BranchName, LogEntry, Repository, SessionLabels, pin_name, tag_name};
use crate::store::{Outside, PackItem, Tombstone};

/// Maximum length of a chain of tags.
pub(super) const MAX_TAGS: usize = 16;

/// One in this many blobs counts as newest.
const NEWEST_SHARE: usize = 16;

/// Maximum number of newest blobs.
const MAX_NEWEST: usize = 64;

/// The plan of a bundle, before anything is written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BundlePlan {
    /// The manifest.
    pub manifest: Manifest,
    pub(super) items: Vec<PackItem>,
    pub(super) outside: Vec<(ObjectId, Kind, Outside)>,
    pub(super) operations: Vec<u8>,
}

/// Plans a bundle: the requested refs with their ancestors, tags and pins on them, the content of
/// every turn that has not expired, and the operations that changed these refs. Excludes commits
/// reachable from `without`, and every object in the contexts of the commits where both histories
/// meet.
///
/// Walks the included contexts, history back to the oldest tag or pin that is not an ancestor, and
/// every operation. Memory: 100 bytes per object.
///
/// # Errors
/// `NotFound` or `Corrupt`, naming an unreadable object; `InvalidInput` if nothing is left to
/// bundle.
pub fn plan_bundle(
    repo: &Repository,
    wanted: &[BundleRequest],
    without: &[ObjectId],
) -> Result<BundlePlan> {
    plan(repo, wanted, without, None, ObjectOrder::Portions)
}

/// Plans a bundle for a remote, like [`plan_bundle`], but with all blobs before the history, so
/// that a lazy clone reads the history in one range. Omits operations that an earlier push sent, if
/// known.
pub(in crate::transfer) fn plan_increment(
    repo: &Repository,
    wanted: &[BundleRequest],
    without: &[ObjectId],
    told: Option<&SentOperations>,
) -> Result<BundlePlan> {
    plan(repo, wanted, without, told, ObjectOrder::ContentsFirst)
}

fn plan(
    repo: &Repository,
    wanted: &[BundleRequest],
    without: &[ObjectId],
    told: Option<&SentOperations>,
    order: ObjectOrder,
) -> Result<BundlePlan> {
    let mut heads = heads(repo, wanted)?;
    let starts: Vec<ObjectId> = heads.values().copied().collect();
    let chosen = repo.history(&starts, without)?.collect::<Result<Vec<LogEntry>>>()?;
    let chosen = by_session(chosen, &starts);
    if chosen.is_empty() {
        return Err(Error::invalid("there is nothing to bundle: no turn is left"));
    }
    let ids: HashSet<ObjectId> = chosen.iter().map(|entry| entry.id).collect();
    let reach = Ancestry::new(repo, &starts)?;
    let (names, tags) = names(repo, &reach)?;
    heads.extend(names);

    let mut required: BTreeSet<ObjectId> = without.iter().copied().collect();
    let parents = chosen.iter().flat_map(|entry| &entry.parents);
    required.extend(parents.filter(|id| !ids.contains(id)));
    for id in heads.values().chain(tags.iter().map(|(_, tag)| &tag.target)) {
        if !ids.contains(id) && reach.contains(id)? {
            required.insert(*id);
        }
    }
    let prerequisites = prerequisites(repo, &required)?;

    let store = repo.store();
    let mut closure = Closure::new(store);
    for prerequisite in prerequisites.iter().filter(|known| known.context) {
        closure.exclude(&repo.commit(&prerequisite.commit.0)?.tree)?;
    }
    let mut grafts = BTreeMap::new();
    let repo_grafts = repo.grafts()?;
    for LogEntry { id, commit, .. } in &chosen {
        match store.tombstone(&commit.tree) {
            Some(why) => closure.note_outside(commit.tree, Kind::Node, Outside::Tombstone(why)),
            None => closure.take(&commit.tree).map_err(|error| error.at(id))?,
        }
        for parent in &commit.parents {
            if let Some(next) = repo_grafts.0.get(parent) {
                grafts.insert(*parent, *next);
                closure.note_outside(*parent, Kind::Commit, Outside::Forgotten);
            } else if !ids.contains(parent) {
                closure.note_outside(*parent, Kind::Commit, Outside::Required);
            }
        }
        closure.push(*id, Kind::Commit);
    }
    for (id, tag) in &tags {
        if required.contains(&tag.target) {
            closure.note_outside(tag.target, Kind::Commit, Outside::Required);
        }
        closure.push(*id, Kind::Tag);
    }
    let turns: HashMap<ObjectId, u64> = turns(&chosen, &prerequisites);
    let tags: HashMap<ObjectId, Tag> = tags.into_iter().collect();
    let ClosureItems { items, outside } = closure.finish(order);
    let mut manifest = Manifest::empty();
    manifest.sessions = sessions(chosen.iter(), &|tree| store.tombstone(tree));
    manifest.refs = refs(&heads, &tags, &turns);
    manifest.prerequisites = prerequisites;
    let graft = |(forgotten, next): (ObjectId, Option<ObjectId>)| Graft {
        forgotten: TextId(forgotten),
        next: next.map(TextId),
    };
    manifest.grafts = grafts.into_iter().map(graft).collect();
    manifest.objects = Counts::of(items.iter().map(|item| item.kind));
    manifest.outside = u32::try_from(outside.len()).unwrap_or(u32::MAX);
    manifest.labels = labels(repo, &manifest)?;
    let own = named_sessions(&manifest);
    let (reach, chosen, sessions) = (&reach, &ids, &own);
    let subject = BundleScope { repo, wanted, without, chosen, reach, sessions, told };
    let log = subject.operations()?;
    manifest.operations = log.len() as u64;
    let count = u32::try_from(items.len() + outside.len()).unwrap_or(u32::MAX);
    let operations = operations::encode(&log, &ordinals(&items, &outside), count);
    Ok(BundlePlan { manifest, items, outside, operations })
}

impl BundlePlan {
    /// Returns the ids of the objects, concatenated in bundle order.
    pub(in crate::transfer) fn ids(&self) -> Vec<u8> {
        self.items.iter().flat_map(|item| *item.id.as_bytes()).collect()
    }

    /// Puts the newest blobs into separate blocks, so that a client that needs only them reads
    /// little.
    pub(in crate::transfer) fn separate_newest(&mut self) {
        let is_blob = |item: &PackItem| item.kind == Kind::Blob;
        let blobs = self.items.iter().filter(|item| is_blob(item)).count();
        let newest = (blobs / NEWEST_SHARE).min(MAX_NEWEST);
        let all = self.items.iter_mut().rev().filter(|item| is_blob(item));
        all.take(newest).for_each(|item| item.cohort = 1);
    }

    /// Returns true if every turn has its context and no ancestor was forgotten.
    pub(in crate::transfer) fn is_whole(&self) -> bool {
        self.manifest.grafts.is_empty()
            && self.outside.iter().all(|(.., why)| *why == Outside::Required)
    }

    /// Returns the texts other than turns and contexts, as bytes: the manifest, the operations and
    /// the tags.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a tag that cannot be read.
    pub fn texts(&self, repo: &Repository) -> Result<Vec<Vec<u8>>> {
        let mut texts = vec![self.manifest.encode()?.into(), self.operations.clone()];
        for item in self.items.iter().filter(|item| item.kind == Kind::Tag) {
            texts.push(repo.store().read_as(Kind::Tag, &item.id)?.to_vec());
        }
        Ok(texts)
    }
}

/// Orders turns by session, the session with the oldest newest turn first, and parents before their
/// children. The turns of a session are near each other in packs, and resemble each other.
fn by_session(chosen: Vec<LogEntry>, starts: &[ObjectId]) -> Vec<LogEntry> {
    let places: HashMap<ObjectId, usize> =
        chosen.iter().enumerate().map(|(at, entry)| (entry.id, at)).collect();
    let mut tips: Vec<&LogEntry> =
        starts.iter().filter_map(|id| chosen.get(*places.get(id)?)).collect();
    tips.sort_unstable_by_key(|tip| (tip.commit.time.micros, tip.id));
    let (mut order, mut opened) = (Vec::with_capacity(chosen.len()), HashSet::new());
    // A turn is opened once, and closed after its parents.
    let mut open: Vec<(ObjectId, bool)> = tips.iter().rev().map(|tip| (tip.id, false)).collect();
    while let Some((id, is_closed)) = open.pop() {
        let Some(at) = places.get(&id) else { continue };
        if is_closed {
            order.push(*at);
        } else if opened.insert(id) {
            open.push((id, true));
            let parents = chosen.get(*at).into_iter().flat_map(|entry| entry.parents.iter().rev());
            open.extend(parents.map(|parent| (*parent, false)));
        }
    }
    let mut chosen: Vec<Option<LogEntry>> = chosen.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| chosen.get_mut(at)?.take()).collect()
}

/// Returns the requested branches by ref name, with their newest commits.
fn heads(repo: &Repository, wanted: &[BundleRequest]) -> Result<BTreeMap<String, ObjectId>> {
    let mut heads = BTreeMap::new();
    for wanted in wanted {
        match wanted {
            BundleRequest::Session(session) => {
                let own = repo.branches_of(session);
                if own.is_empty() {
                    return Err(Error::not_found(format!("there is no session '{session}'")));
                }
                heads.extend(own.into_iter().map(|(name, tip)| (name.full(), tip)));
            }
            BundleRequest::Branch(name) => {
                let tip = repo.tip(name);
                let tip =
                    tip.ok_or_else(|| Error::not_found(format!("there is no branch {name}")))?;
                heads.insert(name.full(), tip);
            }
            BundleRequest::BranchAt(name, id) => {
                heads.insert(name.full(), *id);
            }
            BundleRequest::Commit(id) => {
                let commit = repo.commit(id)?;
                let branch = format!("turn-{}", commit.turn);
                let name = BranchName::new(&commit.session, &branch)?;
                let taken = heads.get(&name.full()).is_some_and(|known| known != id);
                let name = match taken {
                    true => {
                        BranchName::new(&commit.session, &format!("{branch}-{}", id.short(12)))?
                    }
                    false => name,
                };
                heads.insert(name.full(), *id);
            }
        }
    }
    Ok(heads)
}

/// Returns titles and labels of the sessions whose branches are in the bundle.
fn labels(repo: &Repository, manifest: &Manifest) -> Result<BTreeMap<String, BundledLabels>> {
    let mut known = BTreeMap::new();
    for session in manifest.branch_sessions() {
        let labels = repo.session_labels(&session)?;
        if labels != SessionLabels::default() {
            known.insert(session, labels.into());
        }
    }
    Ok(known)
}

/// Returns the sessions that a manifest names.
fn named_sessions(manifest: &Manifest) -> BTreeSet<String> {
    let branches = manifest.branch_sessions().into_iter();
    let commits = manifest.sessions.iter().map(|session| session.session.clone());
    let required = manifest.prerequisites.iter().map(|known| known.session.clone());
    branches.chain(commits).chain(required).collect()
}

/// Returns the ordinals of internal and external commits and tags.
fn ordinals(items: &[PackItem], outside: &[(ObjectId, Kind, Outside)]) -> HashMap<ObjectId, u32> {
    let inside = items.iter().map(|item| (item.id, item.kind));
    let all = (0..).zip(inside.chain(outside.iter().map(|(id, kind, _)| (*id, *kind))));
    let named = all.filter(|(_, (_, kind))| matches!(kind, Kind::Commit | Kind::Tag));
    named.map(|(ordinal, (id, _))| (id, ordinal)).collect()
}

/// Returns tags and pins on commits in `reach`: the ref values, and the tag objects, dependencies
/// first.
#[expect(clippy::type_complexity, reason = "both are taken apart at once")]
fn names(
    repo: &Repository,
    reach: &Ancestry<'_>,
) -> Result<(BTreeMap<String, ObjectId>, Vec<(ObjectId, Tag)>)> {
    let (mut names, mut tags) = (BTreeMap::new(), Vec::new());
    let mut known = HashSet::new();
    for (name, value) in repo.refs().values.iter() {
        let RefValue::Object(id) = value else { continue };
        if tag_name(name).is_none() && pin_name(name).is_none() {
            continue;
        }
        let chain = tag_chain(repo.store(), id).map_err(|error| error.at(name))?;
        let target = chain.last().map_or(*id, |(_, tag)| tag.target);
        if reach.contains(&target)? {
            names.insert(name.to_owned(), *id);
            tags.extend(chain.into_iter().rev().filter(|(id, _)| known.insert(*id)));
        }
    }
    Ok((names, tags))
}

/// Returns the chain of tag objects from `id`.
fn tag_chain(source: &dyn ObjectSource, id: &ObjectId) -> Result<Vec<(ObjectId, Tag)>> {
    let mut chain: Vec<(ObjectId, Tag)> = Vec::new();
    let mut at = *id;
    while chain.len() < MAX_TAGS {
        // The target of an expired pin may have been collected.
        let Some(Object { kind: Kind::Tag, bytes }) = readable(source.read(&at))? else { break };
        let tag = Tag::decode(&bytes).map_err(|error| error.at(at))?;
        let next = tag.target;
        chain.push((at, tag));
        at = next;
    }
    Ok(chain)
}

/// Returns the object read, or `None` if it was elided or redacted.
fn readable(read: Result<Option<Object>>) -> Result<Option<Object>> {
    match read {
        Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) => Ok(None),
        read => read,
    }
}

/// Returns the prerequisites, oldest first.
fn prerequisites(repo: &Repository, required: &BTreeSet<ObjectId>) -> Result<Vec<Prerequisite>> {
    let mut prerequisites = Vec::new();
    for id in required {
        let commit = repo.commit(id)?;
        let (turn, session) = (commit.turn, commit.session);
        let context = repo.store().contains(&commit.tree)?;
        prerequisites.push(Prerequisite { commit: TextId(*id), session, turn, context });
    }
    prerequisites.sort_by_key(|known| (known.turn, known.commit));
    Ok(prerequisites)
}

fn turns(chosen: &[LogEntry], prerequisites: &[Prerequisite]) -> HashMap<ObjectId, u64> {
    let chosen = chosen.iter().map(|entry| (entry.id, entry.commit.turn));
    chosen.chain(prerequisites.iter().map(|known| (known.commit.0, known.turn))).collect()
}

fn refs(
    heads: &BTreeMap<String, ObjectId>,
    tags: &HashMap<ObjectId, Tag>,
    turns: &HashMap<ObjectId, u64>,
) -> BTreeMap<String, BundledRef> {
    let value = |(name, id): (&String, &ObjectId)| {
        let mut target = *id;
        for _ in 0..MAX_TAGS {
            target = tags.get(&target).map_or(target, |tag| tag.target);
        }
        let kind = if tags.contains_key(id) { Kind::Tag } else { Kind::Commit };
        let turn = turns.get(&target).copied().unwrap_or_default();
        (name.clone(), BundledRef { kind: kind.name().to_owned(), id: TextId(*id), turn })
    };
    heads.iter().map(value).collect()
}

/// Returns the sessions of some commits.
pub(super) fn sessions<'a>(
    commits: impl Iterator<Item = &'a LogEntry>,
    gone: &dyn Fn(&ObjectId) -> Option<Tombstone>,
) -> Vec<BundledSession> {
    let mut tally = SessionCounts::default();
    for entry in commits {
        let commit = &entry.commit;
        let elided = gone(&commit.tree).is_some();
        tally.add(&commit.session, commit.turn, commit.time.micros, elided);
    }
    tally.finish()
}

/// Counts the turns of sessions.
#[derive(Debug, Default)]
pub(super) struct SessionCounts(BTreeMap<String, (BundledSession, i64, i64)>);

impl SessionCounts {
    pub(super) fn add(&mut self, session: &str, turn: u64, micros: i64, elided: bool) {
        let begin = || {
            let name = session.to_owned();
            let (oldest, newest) = (String::new(), String::new());
            let (first_turn, last_turn) = (turn, turn);
            let session = BundledSession {
                session: name,
                turns: 0,
                first_turn,
                last_turn,
                elided: 0,
                oldest,
                newest,
            };
            (session, micros, micros)
        };
        let (known, oldest, newest) = self.0.entry(session.to_owned()).or_insert_with(begin);
        known.turns += 1;
        known.elided += u64::from(elided);
        known.first_turn = known.first_turn.min(turn);
        known.last_turn = known.last_turn.max(turn);
        (*oldest, *newest) = (micros.min(*oldest), micros.max(*newest));
    }

    pub(super) fn finish(self) -> Vec<BundledSession> {
        let finish = |(mut session, oldest, newest): (BundledSession, i64, i64)| {
            (session.oldest, session.newest) = (utc(oldest), utc(newest));
            session
        };
        self.0.into_values().map(finish).collect()
    }
}

impl Counts {
    /// Counts the items of each kind.
    pub(super) fn of(kinds: impl Iterator<Item = Kind>) -> Self {
        let mut counts = Self::default();
        kinds.for_each(|kind| counts.add(kind));
        counts
    }

    pub(super) fn add(&mut self, kind: Kind) {
        let count = match kind {
            Kind::Blob => &mut self.blobs,
            Kind::Node => &mut self.nodes,
            Kind::Commit => &mut self.commits,
            Kind::Tag => &mut self.tags,
            Kind::Operation => return,
        };
        *count = count.saturating_add(1);
    }
}
