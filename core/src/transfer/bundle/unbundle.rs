//! Imports a bundle into a store: first a plan, then one operation.
//!
//! | the store has the ref | what becomes of it |
//! |---|---|
//! | not | it is made |
//! | at the same commit, or a later one | nothing |
//! | a branch at an earlier commit | it moves on |
//! | with another history | the one of the bundle gets another name: `main-2` |
//!
//! Titles and labels are imported with their sessions, and never replace those of the store.
//! Content redacted in the store is not imported; its replacement is, see `substitute.rs`. The
//! store keeps more complete data: a turn that has its context here but not in the bundle, or a
//! commit that was forgotten there but exists here. Retention policies do not travel: the owner of
//! a store decides what may expire.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::check::{Bundle, BundleContents};
use super::manifest::{Manifest, Prerequisite};
use super::substitute::Substitutes;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use crate::repo::{
    BranchName, GRAFTS_REF, Grafts, MAIN_BRANCH, Repository, SessionLabels, Signature, Transaction,
    remote_branch_ref,
};
use crate::store::{Expected, FileReplacement, Outside, Tier, Tombstone};

/// Maximum number of names tried for a ref.
const MAX_NAMES: u32 = 10_000;

/// Options of an import.
#[derive(Debug, Clone, Default)]
pub struct UnbundleOptions {
    /// The session that its branches join; `None` keeps their sessions.
    pub session: Option<String>,
    /// Limit of object bytes, see [`Bundle::verify`].
    pub max_bytes: Option<u64>,
    /// The remote that the bundle comes from. If set, branches become remote-tracking refs, tags
    /// and pins are imported unless one of that name exists, and redacted content is refused, not
    /// replaced.
    pub remote: Option<String>,
}

/// The plan of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnbundlePlan {
    /// Every ref of the bundle.
    pub refs: Vec<PlannedRef>,
    /// Number of objects that the store lacks.
    pub new_objects: u64,
    /// Number of objects that the store has.
    pub known_objects: u64,
    /// Prerequisites that the store lacks. The import fails if there are any.
    pub missing: Vec<Prerequisite>,
    /// Number of blobs redacted in this store. The import stores their replacements, so turns from
    /// the first one with such content on get new ids.
    pub redacted: u64,
    /// Titles and labels to add to sessions of the store.
    pub labels: Vec<PlannedLabels>,
    substitutes: Substitutes,
    grafts: Option<Grafts>,
    /// Contexts that are expired in the bundle and absent here.
    gone: Vec<(ObjectId, Kind, Tombstone)>,
    switch: Option<BranchName>,
}

/// The plan for a ref of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedRef {
    /// The full name in the bundle.
    pub name: String,
    /// The full name in the store.
    pub becomes: String,
    /// The fate of the ref.
    pub fate: RefFate,
    /// The new value.
    pub id: ObjectId,
    /// The turn of the commit that it points to.
    pub turn: u64,
    /// The current value in the store.
    before: Option<ObjectId>,
}

/// Title and labels that a session of the store gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedLabels {
    /// The name of the session in the store.
    pub session: String,
    /// The title, if the session had none.
    pub title: Option<String>,
    /// The labels that the session lacked.
    pub labels: BTreeSet<String>,
    /// Title and labels after the import.
    whole: SessionLabels,
}

/// The fate of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefFate {
    /// The ref is created.
    New,
    /// The ref is fast-forwarded.
    Forward,
    /// The store has this commit or a descendant.
    Known,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unbundled {
    /// The plan that was applied.
    pub plan: UnbundlePlan,
    /// The sequence number of the operation; `None` if nothing changed.
    pub operation: Option<u64>,
    /// Bytes added to the store.
    pub new_bytes: u64,
}

impl UnbundlePlan {
    /// Returns true if the store already has everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grafts.is_none()
            && self.labels.is_empty()
            && self.refs.iter().all(|planned| planned.fate == RefFate::Known)
    }

    /// Refuses the import if a prerequisite is missing.
    ///
    /// # Errors
    /// `NotFound`, naming each missing turn.
    pub fn check(&self) -> Result<()> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let name = |known: &Prerequisite| {
            format!("turn {} of {} ({})", known.turn, known.session, known.commit.0)
        };
        let names: Vec<String> = self.missing.iter().map(name).collect();
        let names = names.join(", ");
        let message = format!("this store lacks prerequisites of the bundle: {names}");
        Err(Error::not_found(message))
    }
}

/// Verifies a whole bundle and plans its import. Changes nothing.
///
/// # Errors
/// Errors of [`Bundle::verify`]; `Redacted` if it holds redacted content without a replacement (a
/// name, or the message of a turn); `InvalidInput` if several sessions would become one.
pub fn plan_unbundle(
    repo: &Repository,
    bundle: &Bundle,
    options: &UnbundleOptions,
) -> Result<UnbundlePlan> {
    let contents = bundle.verify(options.max_bytes)?;
    Planner { repo, bundle, contents }.run(options)
}

/// Imports a bundle in one operation. Verifies the bundle before writing, and again while reading
/// it.
///
/// # Errors
/// Errors of [`plan_unbundle`]; `NotFound`, naming missing prerequisites; `Conflict` if another
/// process changed a ref concurrently; `Io` if writing fails. Nothing is visible after an error.
pub fn unbundle(
    repo: &Repository,
    bundle: &Bundle,
    options: &UnbundleOptions,
    stamp: &Signature,
) -> Result<Unbundled> {
    let mut change = repo.begin();
    change.skip_filter();
    let plan = plan_unbundle(repo, bundle, options)?;
    plan.check()?;
    if plan.is_empty() {
        return Ok(Unbundled { plan, operation: None, new_bytes: 0 });
    }
    let may_be_absent = bundle.outside.iter().filter(|(.., why)| *why != Outside::Required);
    may_be_absent.for_each(|(id, ..)| change.allow_elided(*id));
    bundle.visit(&mut |id, object| {
        if plan.substitutes.is_skipped(&id) {
            return Ok(());
        }
        change.write(object.kind, object.bytes)?;
        change.make_room()
    })?;
    for (_, object) in &plan.substitutes.written {
        change.write(object.kind, object.bytes.clone())?;
        change.make_room()?;
    }
    plan.set_refs(repo, &mut change)?;
    let reason = format!("unbundle {}", bundle.manifest().session_names());
    let committed = match plan.gone.is_empty() {
        true => change.commit(stamp, &reason)?,
        false => {
            // Write a pack with tombstones of the contexts before any ref references them. The
            // collection lock keeps another collection from removing the pack.
            let collection = repo.store().collect()?;
            let (files, items) = (Vec::new(), Vec::new());
            let gone = plan.gone.clone();
            let notes = FileReplacement { files, items, gone, tier: Tier::Compacted };
            collection.replace(&notes, &mut |_| Ok(Vec::new()))?;
            change.commit(stamp, &reason)?
        }
    };
    let new_bytes = committed.written.stored_bytes;
    Ok(Unbundled { plan, operation: Some(committed.sequence), new_bytes })
}

impl UnbundlePlan {
    fn set_refs(&self, repo: &Repository, change: &mut Transaction<'_>) -> Result<()> {
        for planned in self.refs.iter().filter(|planned| planned.fate != RefFate::Known) {
            let expected = match planned.before {
                Some(id) => Expected::Value(RefValue::Object(id)),
                None => Expected::Absent,
            };
            change.set_ref(&planned.becomes, expected, Some(RefValue::Object(planned.id)));
        }
        if let Some(branch) = &self.switch {
            change.switch(branch);
        }
        for planned in &self.labels {
            change.set_session_labels(&planned.session, &planned.whole)?;
        }
        if let Some(grafts) = &self.grafts {
            let blob = change.write(Kind::Blob, grafts.encode().into())?;
            let expected = match repo.refs().value(GRAFTS_REF) {
                Some(value) => Expected::Value(value.clone()),
                None => Expected::Absent,
            };
            change.set_ref(GRAFTS_REF, expected, Some(RefValue::Object(blob)));
        }
        Ok(())
    }
}

/// A plan under construction.
struct Planner<'a> {
    repo: &'a Repository,
    bundle: &'a Bundle,
    contents: BundleContents,
}

impl Planner<'_> {
    fn run(mut self, options: &UnbundleOptions) -> Result<UnbundlePlan> {
        let store = self.repo.store();
        let mut plan = UnbundlePlan::default();
        let own = self.own_commits()?;
        plan.substitutes = Substitutes::find(self.repo, self.bundle, &self.contents, &own)?;
        plan.redacted = plan.substitutes.redacted();
        if plan.redacted > 0 && options.remote.is_some() {
            let message = "it has content that was redacted in this store, so its turns cannot be imported unchanged: redact it there too";
            return Err(Error::new(ErrorKind::Redacted, message));
        }
        plan.substitutes.apply(&mut self.contents);
        let kept = self.contents.ids().filter(|id| !plan.substitutes.is_skipped(id));
        for id in kept.chain(plan.substitutes.written.iter().map(|(id, _)| id)) {
            match store.contains(id)? {
                true => plan.known_objects += 1,
                false => plan.new_objects += 1,
            }
        }
        plan.missing = self.missing(&own)?;
        if !plan.missing.is_empty() {
            return Ok(plan);
        }
        plan.grafts = self.grafts(&own, &plan.substitutes)?;
        let trees: HashSet<&ObjectId> = own.values().collect();
        for (id, kind, why) in &self.bundle.outside {
            if let Outside::Tombstone(gone) = why
                && !trees.contains(id)
                && store.tombstone(id).is_none()
            {
                plan.gone.push((*id, *kind, *gone));
            }
        }
        let mut taken = HashSet::new();
        for (name, value) in &self.bundle.manifest().refs {
            let id = plan.substitutes.get(&value.id.0);
            let planned = self.plan_ref(name, &id, value.turn, options, &taken)?;
            taken.insert(planned.becomes.clone());
            plan.refs.push(planned);
        }
        let session = options.session.as_ref();
        plan.labels = planned_labels(self.repo, self.bundle.manifest(), session)?;
        if self.repo.tip(&self.repo.shared_head()?).is_none() {
            plan.switch = initial_branch(&plan.refs);
        }
        Ok(plan)
    }

    /// Returns every commit reachable from refs of the store, with its context. Empty if not
    /// needed.
    fn own_commits(&self) -> Result<HashMap<ObjectId, ObjectId>> {
        let manifest = self.bundle.manifest();
        let is_redacted = !self.repo.redactions()?.is_empty();
        if manifest.prerequisites.is_empty() && manifest.outside == 0 && !is_redacted {
            return Ok(HashMap::new());
        }
        let refs = self.repo.refs();
        let values = refs.values.values().filter_map(|value| match value {
            RefValue::Object(id) => self.repo.peel(id).ok(),
            RefValue::Symbolic(_) => None,
        });
        let starts: Vec<ObjectId> = values.collect();
        let entries = self.repo.history(&starts, &[])?;
        entries.map(|entry| entry.map(|entry| (entry.id, entry.commit.tree))).collect()
    }

    /// Returns the prerequisites that the store lacks. An unreachable commit does not count,
    /// because a collection may delete it at any time.
    fn missing(&self, own: &HashMap<ObjectId, ObjectId>) -> Result<Vec<Prerequisite>> {
        let store = self.repo.store();
        let mut missing = Vec::new();
        for known in &self.bundle.manifest().prerequisites {
            let is_there = match own.get(&known.commit.0) {
                Some(tree) => {
                    let turn = self.repo.commit(&known.commit.0)?.turn;
                    turn == known.turn && (!known.context || store.contains(tree)?)
                }
                None => false,
            };
            if !is_there {
                missing.push(known.clone());
            }
        }
        if missing.is_empty() {
            for (id, kind, why) in &self.bundle.outside {
                if *why == Outside::Required && !store.contains(id)? {
                    let message =
                        format!("the bundle requires {kind} {id}, but no prerequisite has it");
                    return Err(Error::new(ErrorKind::Corrupt, message));
                }
            }
        }
        Ok(missing)
    }

    /// Returns the grafts of the store after the import, if they change. Removes grafts of commits
    /// that the bundle contains; adds grafts only for commits that the store lacks.
    fn grafts(
        &self,
        own: &HashMap<ObjectId, ObjectId>,
        substitutes: &Substitutes,
    ) -> Result<Option<Grafts>> {
        let before = self.repo.grafts()?;
        let comes = |id| self.contents.contains(id) && !substitutes.is_skipped(id);
        let kept = before.0.iter().filter(|(forgotten, _)| !comes(forgotten));
        let mut grafts: BTreeMap<_, _> = kept.map(|(id, next)| (*id, *next)).collect();
        for graft in &self.bundle.manifest().grafts {
            let forgotten = graft.forgotten.0;
            if !own.contains_key(&forgotten) {
                let next = graft.next.map(|next| substitutes.get(&next.0));
                grafts.entry(forgotten).or_insert(next);
            }
        }
        Ok(Some(Grafts(grafts)).filter(|grafts| *grafts != *before))
    }

    fn plan_ref(
        &self,
        name: &str,
        id: &ObjectId,
        turn: u64,
        options: &UnbundleOptions,
        taken: &HashSet<String>,
    ) -> Result<PlannedRef> {
        if let Some(remote) = &options.remote {
            return self.plan_remote_ref(remote, name, id, turn);
        }
        let first = match (&options.session, BranchName::from_full(name)) {
            (Some(session), Some(branch)) => BranchName::new(session, branch.branch())?.full(),
            _ => name.to_owned(),
        };
        let refs = self.repo.refs();
        for number in 1..MAX_NAMES {
            let becomes = if number == 1 { first.clone() } else { format!("{first}-{number}") };
            let before = match refs.value(&becomes) {
                Some(RefValue::Object(id)) => Some(*id),
                Some(RefValue::Symbolic(_)) => continue,
                None => None,
            };
            let fate = self.ref_fate(name, id, before.as_ref())?;
            if let Some(fate) = fate.filter(|_| !taken.contains(&becomes)) {
                let (name, id) = (name.to_owned(), *id);
                return Ok(PlannedRef { name, becomes, fate, id, turn, before });
            }
        }
        Err(Error::new(ErrorKind::Conflict, format!("{first}: every name for it is taken")))
    }

    /// Plans a remote-tracking ref, which always follows the remote, even backwards.
    fn plan_remote_ref(
        &self,
        remote: &str,
        name: &str,
        id: &ObjectId,
        turn: u64,
    ) -> Result<PlannedRef> {
        let branch = BranchName::from_full(name);
        let becomes = match &branch {
            Some(branch) => remote_branch_ref(remote, branch)?,
            None => name.to_owned(),
        };
        let before = match self.repo.refs().value(&becomes) {
            Some(RefValue::Object(id)) => Some(*id),
            Some(RefValue::Symbolic(_)) | None => None,
        };
        let fate = match (before, &branch) {
            (None, _) => RefFate::New,
            (Some(_), None) => RefFate::Known,
            (Some(before), Some(_)) => {
                self.ref_fate(name, id, Some(&before))?.unwrap_or(RefFate::Forward)
            }
        };
        let (name, id) = (name.to_owned(), *id);
        Ok(PlannedRef { name, becomes, fate, id, turn, before })
    }

    /// Returns the fate of a ref whose value in the store is `before`; `None` if the histories
    /// diverge.
    fn ref_fate(
        &self,
        name: &str,
        id: &ObjectId,
        before: Option<&ObjectId>,
    ) -> Result<Option<RefFate>> {
        let Some(before) = before else { return Ok(Some(RefFate::New)) };
        if before == id {
            return Ok(Some(RefFate::Known));
        }
        if BranchName::from_full(name).is_none() {
            // A different tag object with the same target counts as known.
            let same =
                self.repo.peel(before).ok().is_some_and(|it| self.contents.peel(id) == Some(it));
            return Ok(same.then_some(RefFate::Known));
        }
        if self.is_before(before, id)? {
            return Ok(Some(RefFate::Forward));
        }
        Ok(self.is_before(id, before)?.then_some(RefFate::Known))
    }

    /// Returns true if `old` is an ancestor of `new`, in the bundle or the store.
    fn is_before(&self, old: &ObjectId, new: &ObjectId) -> Result<bool> {
        let Some((floor, _)) = self.commit(old)? else { return Ok(false) };
        let (mut waiting, mut seen) = (vec![*new], HashSet::new());
        while let Some(id) = waiting.pop() {
            if id == *old {
                return Ok(true);
            }
            if let Some((turn, parents)) = self.commit(&id)?
                && turn > floor
                && seen.insert(id)
            {
                waiting.extend(parents);
            }
        }
        Ok(false)
    }

    /// Returns turn and parents of a commit in the bundle or the store.
    fn commit(&self, id: &ObjectId) -> Result<Option<(u64, Vec<ObjectId>)>> {
        if let Some((turn, parents)) = self.contents.commits.get(id) {
            return Ok(Some((*turn, parents.clone())));
        }
        if !self.repo.store().contains(id)? {
            return Ok(None);
        }
        let commit = self.repo.commit(id)?;
        let parents = self.repo.grafts()?.parents(&commit);
        Ok(Some((commit.turn, parents)))
    }
}

/// Returns the titles and labels that change; of `session` if all sessions become one. The store's
/// title and labels stay; redacted text is not added.
fn planned_labels(
    repo: &Repository,
    manifest: &Manifest,
    session: Option<&String>,
) -> Result<Vec<PlannedLabels>> {
    let mut planned = BTreeMap::<String, PlannedLabels>::new();
    for (own, told) in &manifest.labels {
        let session = session.unwrap_or(own);
        let mut whole = match planned.remove(session) {
            Some(before) => before.whole,
            None => repo.session_labels(session)?,
        };
        let before = repo.session_labels(session)?;
        whole.title = whole.title.or_else(|| told.title.clone());
        whole.labels.extend(told.labels.iter().cloned());
        let Ok(bytes) = whole.encode() else { continue };
        if whole == before || repo.is_redacted(&ObjectId::of(Kind::Blob, &bytes))? {
            continue;
        }
        let title = whole.title.clone().filter(|_| before.title.is_none());
        let labels = whole.labels.difference(&before.labels).cloned().collect();
        let session = session.clone();
        planned.insert(session.clone(), PlannedLabels { session, title, labels, whole });
    }
    Ok(planned.into_values().collect())
}

/// Stages imported titles and labels of sessions. Never replaces those of the store.
///
/// # Errors
/// `Corrupt` if labels of the store cannot be read.
pub(in crate::transfer) fn stage_labels(
    repo: &Repository,
    manifest: &Manifest,
    change: &mut Transaction<'_>,
) -> Result<()> {
    for planned in planned_labels(repo, manifest, None)? {
        change.set_session_labels(&planned.session, &planned.whole)?;
    }
    Ok(())
}

/// Returns the initial current branch of an empty store: the main branch of the only session, or
/// its first branch. Of several sessions none is the current one.
fn initial_branch(refs: &[PlannedRef]) -> Option<BranchName> {
    let branches = || refs.iter().filter_map(|planned| BranchName::from_full(&planned.becomes));
    let first = branches().next()?;
    if branches().any(|branch| branch.session() != first.session()) {
        return None;
    }
    branches().find(|branch| branch.branch() == MAIN_BRANCH).or_else(|| branches().next())
}
