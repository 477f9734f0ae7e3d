//! Exports a store as a git repository: one commit per snapshot, branches and tags.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use gix::ObjectId as GitId;
use gix::objs::{Kind as GitKind, WriteTo};
use turntree::context::{Context, Section};
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Commit, ObjectId, ObjectSource, Tag, Time};
use turntree::repo::{BranchName, LogEntry, NamedTag, Repository, Resolver, tag_ref};
use turntree::workspace::store_above;

use super::pack::PackWriter;
use super::refs::{conflicting_refs, git_names, update};
use super::repository::ExportRepository;
use super::repository_state::{KnownCommit, RepositoryState};
use super::sections::{TreeWriter, sections};
use super::tree::Folder;
use super::{GitNote, git_error, trailers};

/// The selection of an export. Branches and tags of earlier exports stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ExportSelection {
    /// All branches and tags.
    #[default]
    All,
    /// The branches of a session, and the tags on its snapshots.
    Session(String),
    /// Branches and tags by their names.
    Names(Vec<String>),
}

/// Options of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitExportOptions {
    /// The selection.
    pub selection: ExportSelection,
    /// True to export the imported transcripts, too, piece by piece.
    pub source: bool,
}

/// A branch or tag of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitRef {
    /// The full name in the store.
    pub name: String,
    /// The full name in the repository.
    pub git_name: String,
    /// The id of the git object in hex.
    pub git_id: String,
    /// The change that this export made.
    pub change: GitRefChange,
}

/// The change of a ref by an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitRefChange {
    /// The ref is unchanged.
    Unchanged,
    /// The ref is new.
    Created,
    /// The ref moved.
    Moved,
}

impl GitRefChange {
    /// Returns the name in `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "kept",
            Self::Created => "made",
            Self::Moved => "moved",
        }
    }
}

/// The report of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitExport {
    /// The number of written commits.
    pub commits: u64,
    /// The number of skipped turns, whose content expired.
    pub expired: u64,
    /// The number of written git objects, including commits.
    pub objects: u64,
    /// The number of written bytes.
    pub bytes: u64,
    /// The selected branches and tags, ordered by name.
    pub refs: Vec<GitRef>,
    /// Refs of an earlier export that were deleted because their names conflict with new refs: full
    /// names in the repository.
    pub deleted: Vec<String>,
    /// The new branch of HEAD, by its full name in the repository. `None` if HEAD did not change.
    pub head: Option<String>,
    /// Content that was not exported unchanged.
    pub notes: Vec<GitNote>,
}

/// Exports the selection to the repository in `dir` and creates the repository if `dir` is empty or
/// missing. Continues an earlier export. `progress` receives the number of written commits and
/// their total.
///
/// Writes the refs last, so an export that was killed can be repeated.
///
/// # Errors
/// `InvalidInput` if `dir` has files of other programs, or another program moved a ref; `Locked`
/// while another export to `dir` runs; `NotFound` if nothing is selected; `Conflict` if a ref in
/// `dir` moves concurrently. No ref has moved then.
pub fn export(
    repo: &Repository,
    dir: &Path,
    options: &GitExportOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<GitExport> {
    let wanted = select_refs(repo, &options.selection)?;
    reject_store(dir)?;
    let target = ExportRepository::open(dir, options.source)?;
    let known = RepositoryState::read(&target.git)?;
    let names = git_names(repo.refs().values.keys());
    let names: BTreeMap<String, String> =
        names.into_iter().filter(|(name, _)| wanted.contains_key(name)).collect();
    let removed = conflicting_refs(&known, &names)?;
    let plan = ExportPlan::build(repo, &known, wanted.values().map(SelectedRef::commit))?;
    let mut run = ExportRun {
        repo,
        done: known.commits.clone(),
        pack: PackWriter::begin(target.git.git_dir())?,
    };
    let mut report = GitExport {
        commits: plan.steps.len() as u64,
        expired: plan.skipped.len() as u64,
        ..GitExport::default()
    };
    report.notes = run.write_commits(&target, &plan, options.source, progress)?;
    let mut targets = BTreeMap::new();
    for (name, git_name) in names {
        let Some(wanted) = wanted.get(&name) else { continue };
        let Some(target) = run.ref_target(&target.git, &plan, wanted)? else {
            let what = "left out: retention has dropped its target".to_owned();
            report.notes.push(GitNote { place: name, what });
            continue;
        };
        let change = match known.refs.get(&git_name) {
            Some(found) if found.target == target => GitRefChange::Unchanged,
            Some(_) => GitRefChange::Moved,
            None => GitRefChange::Created,
        };
        let git_id = target.to_string();
        report.refs.push(GitRef { name, git_name: git_name.clone(), git_id, change });
        targets.insert(git_name, target);
    }
    let written = run.pack.finish()?;
    (report.objects, report.bytes) = (written.objects, written.bytes);
    report.deleted = removed.iter().map(|(name, _)| (*name).to_owned()).collect();
    report.head = head_branch(repo, &target.git, &report)?;
    update(&target.git, &known, &removed, &targets, report.head.as_deref())?;
    Ok(report)
}

/// The target of a selected ref.
enum SelectedRef {
    Branch(ObjectId),
    Tag(Tag),
}

impl SelectedRef {
    fn commit(&self) -> ObjectId {
        match self {
            Self::Branch(commit) => *commit,
            Self::Tag(tag) => tag.target,
        }
    }
}

/// Returns the selected refs, by full name.
fn select_refs(
    repo: &Repository,
    selection: &ExportSelection,
) -> Result<BTreeMap<String, SelectedRef>> {
    let mut wanted = BTreeMap::new();
    let mut tags = Vec::new();
    for NamedTag { name, mut tag } in repo.tags()? {
        tag.target = repo.peel(&tag.target)?;
        tags.push((tag_ref(&name)?, name, tag));
    }
    let branch = |(name, tip): (BranchName, ObjectId)| (name.full(), SelectedRef::Branch(tip));
    match selection {
        ExportSelection::All => {
            wanted.extend(repo.branches().into_iter().map(branch));
            wanted.extend(tags.into_iter().map(|(full, _, tag)| (full, SelectedRef::Tag(tag))));
        }
        ExportSelection::Session(session) => {
            wanted.extend(repo.branches_of(session).into_iter().map(branch));
            for (full, _, tag) in tags {
                if repo.commit(&tag.target)?.session == *session {
                    wanted.insert(full, SelectedRef::Tag(tag));
                }
            }
        }
        ExportSelection::Names(names) => {
            for name in names {
                if let Some((full, _, tag)) = tags.iter().find(|(_, tag, _)| tag == name) {
                    wanted.insert(full.clone(), SelectedRef::Tag(tag.clone()));
                    continue;
                }
                let found = Resolver::new(repo).branch(name).map_err(|_| {
                    Error::not_found(format!(
                        "'{name}' is neither a branch nor a tag: only branches and tags can be exported"
                    ))
                })?;
                let tip = repo.tip(&found).ok_or_else(|| {
                    Error::not_found(format!("branch {found} has no snapshot yet"))
                })?;
                wanted.insert(found.full(), SelectedRef::Branch(tip));
            }
        }
    }
    if wanted.is_empty() {
        return Err(Error::not_found("there is no branch or tag to export"));
    }
    Ok(wanted)
}

/// Rejects a directory inside of a store.
fn reject_store(dir: &Path) -> Result<()> {
    let above = dir.ancestors().find(|folder| folder.is_dir());
    let store = match above.map(store_above) {
        Some(found) => {
            found.map_err(|error| Error::io(format!("find {}", dir.display()), error))?
        }
        None => None,
    };
    match store {
        None => Ok(()),
        Some(store) => {
            let (dir, store) = (dir.display(), store.display());
            Err(Error::invalid(format!("{dir} belongs to the store {store}")))
        }
    }
}

/// The snapshots to write, parents first.
struct ExportPlan {
    steps: Vec<PlannedCommit>,
    /// The snapshots without content, each with the snapshots that its children continue instead.
    skipped: HashMap<ObjectId, Vec<ObjectId>>,
}

struct PlannedCommit {
    id: ObjectId,
    commit: Commit,
    /// The parents in git.
    parents: Vec<ObjectId>,
}

impl ExportPlan {
    fn build(
        repo: &Repository,
        known: &RepositoryState,
        starts: impl Iterator<Item = ObjectId>,
    ) -> Result<Self> {
        let starts: Vec<ObjectId> = starts.collect();
        let mut hide = Vec::new();
        for tip in &known.tips {
            if known.commits.contains_key(tip) && repo.contains(tip)? {
                hide.push(*tip);
            }
        }
        let mut entries: Vec<LogEntry> = repo.history(&starts, &hide)?.collect::<Result<_>>()?;
        entries.reverse();
        let (mut steps, mut skipped) = (Vec::new(), HashMap::new());
        let mut exported: HashSet<ObjectId> = known.commits.keys().copied().collect();
        for LogEntry { id, commit, parents } in entries {
            if exported.contains(&id) {
                continue;
            }
            let parents = nearest_exported(repo, &exported, &mut skipped, parents)?;
            match Context::open(repo, &commit.tree) {
                Ok(_) => {
                    exported.insert(id);
                    steps.push(PlannedCommit { id, commit, parents });
                }
                Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) => {
                    skipped.insert(id, parents);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self { steps, skipped })
    }
}

/// Returns the nearest ancestors of `from` that are in git, without duplicates.
fn nearest_exported(
    repo: &Repository,
    exported: &HashSet<ObjectId>,
    skipped: &mut HashMap<ObjectId, Vec<ObjectId>>,
    from: Vec<ObjectId>,
) -> Result<Vec<ObjectId>> {
    let mut found = Vec::new();
    let mut left = from;
    left.reverse();
    while let Some(id) = left.pop() {
        if exported.contains(&id) {
            if !found.contains(&id) {
                found.push(id);
            }
            continue;
        }
        let parents = match skipped.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            // An earlier export skipped this snapshot.
            Entry::Vacant(place) => place.insert(repo.grafts()?.parents(&repo.commit(&id)?)),
        };
        left.extend(parents.iter().rev());
    }
    Ok(found)
}

/// An export in progress.
struct ExportRun<'r> {
    repo: &'r Repository,
    /// All snapshots that are in git.
    done: HashMap<ObjectId, KnownCommit>,
    pack: PackWriter,
}

impl ExportRun<'_> {
    /// Writes the commits.
    fn write_commits(
        &mut self,
        target: &ExportRepository,
        plan: &ExportPlan,
        with_source: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<GitNote>> {
        let store = self.repo.store();
        let load = |id: &GitId| target.entries(id);
        let mut writer = TreeWriter {
            store,
            load: &load,
            pack: &mut self.pack,
            with_source,
            known: HashMap::new(),
            notes: Vec::new(),
        };
        let mut bases = BaseTrees::new(plan);
        let all = plan.steps.len() as u64;
        for (at, step) in (1..).zip(&plan.steps) {
            let base = step.parents.first();
            let (mut tree, old) = bases.take(self.repo, &self.done, base)?;
            let context = Context::open(store, &step.commit.tree)?;
            let new = sections(store, Some(&context))?;
            writer.update(&mut tree, &old, &new).map_err(|error| error.at(step.id.short(12)))?;
            let written = tree.write(writer.pack)?;
            let (author, committer) = trailers::signatures(&step.commit);
            let parents = step.parents.iter().filter_map(|id| self.done.get(id));
            let commit = writer.pack.write_object(&gix::objs::Commit {
                tree: written,
                parents: parents.map(|known| known.commit).collect(),
                author,
                committer,
                encoding: None,
                message: trailers::message(&step.id, &step.commit).into(),
                extra_headers: Vec::new(),
            })?;
            self.done.insert(step.id, KnownCommit { commit, tree: written });
            bases.keep(step.id, tree, new);
            progress(at, all);
        }
        Ok(writer.notes)
    }

    /// Returns the git object for a ref, if its target is in git. For a branch with an expired tip,
    /// the nearest exported ancestor.
    fn ref_target(
        &mut self,
        git: &gix::Repository,
        plan: &ExportPlan,
        wanted: &SelectedRef,
    ) -> Result<Option<GitId>> {
        let commit = wanted.commit();
        let found = self.done.get(&commit).map(|known| known.commit);
        match wanted {
            SelectedRef::Branch(_) => {
                let before = plan.skipped.get(&commit).and_then(|parents| parents.first());
                let before = before.and_then(|id| self.done.get(id)).map(|known| known.commit);
                Ok(found.or(before))
            }
            SelectedRef::Tag(tag) => {
                let is_bare = tag.tagger.is_empty() && tag.message.is_empty();
                let Some(target) = found.filter(|_| !is_bare) else { return Ok(found) };
                let time = Time { micros: tag.time_micros, offset_minutes: 0 };
                let object = gix::objs::Tag {
                    target,
                    target_kind: GitKind::Commit,
                    name: tag.name.as_str().into(),
                    tagger: Some(trailers::committer(time)),
                    message: trailers::tag_message(&tag.message, &tag.tagger).into(),
                    signature: None,
                };
                let mut bytes = Vec::new();
                object
                    .write_to(&mut bytes)
                    .map_err(|error| Error::io("encode a git tag", error))?;
                let hashed = gix::objs::compute_hash(target.kind(), GitKind::Tag, &bytes);
                let id = hashed.map_err(|error| git_error("hash a git tag", error))?;
                match git.has_object(id) {
                    // An earlier export wrote the tag.
                    true => Ok(Some(id)),
                    false => self.pack.write(GitKind::Tag, &bytes).map(Some),
                }
            }
        }
    }
}

/// The trees of commits that later commits continue.
struct BaseTrees {
    /// The number of remaining commits that continue a snapshot.
    children: HashMap<ObjectId, usize>,
    trees: HashMap<ObjectId, (Folder, BTreeMap<String, Section>)>,
}

impl BaseTrees {
    fn new(plan: &ExportPlan) -> Self {
        let mut children = HashMap::new();
        for base in plan.steps.iter().filter_map(|step| step.parents.first()) {
            *children.entry(*base).or_insert(0) += 1;
        }
        Self { children, trees: HashMap::new() }
    }

    /// Returns the tree and the sections of `base`, to be changed. Empty without a base, or if an
    /// earlier export wrote the base and its content has expired.
    fn take(
        &mut self,
        repo: &Repository,
        done: &HashMap<ObjectId, KnownCommit>,
        base: Option<&ObjectId>,
    ) -> Result<(Folder, BTreeMap<String, Section>)> {
        let Some(base) = base else { return Ok(Default::default()) };
        let left = self.children.get_mut(base).map_or(0, |left| {
            *left -= 1;
            *left
        });
        let kept = if left == 0 { self.trees.remove(base) } else { self.trees.get(base).cloned() };
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let (store, tree) = (repo, done.get(base).map(|known| known.tree));
        match (Context::open(store, &repo.commit(base)?.tree), tree) {
            (Ok(context), Some(tree)) => Ok((Folder::at(tree), sections(store, Some(&context))?)),
            (Err(error), _)
                if !matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) =>
            {
                Err(error)
            }
            _ => Ok(Default::default()),
        }
    }

    fn keep(&mut self, id: ObjectId, tree: Folder, sections: BTreeMap<String, Section>) {
        if self.children.get(&id).is_some_and(|left| *left > 0) {
            self.trees.insert(id, (tree, sections));
        }
    }
}

/// Returns the branch that HEAD should point to: the branch of HEAD in the store, if it was
/// exported. Otherwise HEAD stays, unless its branch does not exist.
fn head_branch(
    repo: &Repository,
    git: &gix::Repository,
    report: &GitExport,
) -> Result<Option<String>> {
    let now = git.head().map_err(|error| git_error("read HEAD of the repository", error))?;
    let full = repo.head_if_any()?.map(|head| head.branch.full());
    let branches = || report.refs.iter().filter(|found| found.name.starts_with("refs/heads/"));
    let own = branches().find(|found| Some(&found.name) == full.as_ref());
    let first = branches().next().filter(|_| now.is_unborn());
    let at = now.referent_name().map(|name| name.as_bstr().to_string());
    let wanted = own.or(first).map(|found| found.git_name.clone());
    Ok(wanted.filter(|wanted| Some(wanted) != at.as_ref()))
}
