//! Bringing a state back: a context on its branch and the files of its workspace, as one operation
//! that can be taken back.
//!
//! ```text
//!  T  the tip                 refs/heads/s/main   T -> R
//!  |\
//!  | B  the files as now      refs/before/s/main    -> B
//!  R    what came back
//! ```
//!
//! First everything is looked at: what comes back is read as a whole, the workspace is captured, and
//! each file that differs is compared with what was captured. Then commits and refs are made durable,
//! and only then files are written. So what was in the workspace is in the store before any of it is
//! overwritten, and a process that is killed leaves each file as it was or as it should be.
//!
//! Taking such an operation back sets the branch back and brings the files to what `refs/before` got
//! in it, again after capturing what is there. So an undo can be undone in the same way.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::arrange::Arranged;
use super::capture::capture;
use super::capture_options::CaptureOptions;
use super::captured::Captured;
use super::changes::{FileChanges, Sides, any_as_before};
use crate::context::{
    Builder, Context, JSON_MEDIA, LESSONS, MAIN_AGENT, MessageEntry, Role, Section, Selection,
    Shape, agent_section,
};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, Trigger};
use crate::repo::{
    BranchName, LastUndo, MovedFiles, ONLY, RESTORED_FROM, ROLLED_BACK_TO, Repository, Snapshot,
    Stamp, Transaction, UndoPlan, WORKSPACE, audit_record,
};
use crate::store::{Committed, Store};
use crate::tree::{Link, List, Map};

const FILES: &str = "files";

/// Links that are followed at once, and that are remembered so as not to be followed again: what is
/// known of them is all that is in memory.
const LINKS_AT_ONCE: usize = 1 << 12;
const LINKS_REMEMBERED: usize = 1 << 16;

/// What is to come back, and where.
#[derive(Debug, Clone)]
pub struct Restore {
    /// The branch that goes on from there.
    pub branch: BranchName,
    /// The commit whose state comes back.
    pub from: ObjectId,
    /// Which of it.
    pub only: Selection,
    /// The directory that gets the files; without one only the context comes back.
    pub workspace: Option<PathBuf>,
    /// Whether it counts as going back by turns: [`Trigger::Rollback`].
    pub is_rollback: bool,
    /// Whether the lessons stay as they are on the branch: what was learned from what goes.
    pub keep_lessons: bool,
    /// Whether the main agent's conversation ends with a record of it, of the type `rollback`.
    pub audit: bool,
    /// The message of the commit; what becomes of files is added to it.
    pub message: String,
}

/// What bringing a state back does.
#[derive(Debug, Clone)]
pub struct Restoration {
    /// The new commit of the branch; of an undo the one that keeps the workspace as it was.
    pub commit: ObjectId,
    /// Its message.
    pub message: String,
    /// Names of sections of the context that change.
    pub sections: Vec<String>,
    /// What happens in the workspace, if anything.
    pub files: Option<FileChanges>,
    /// The commit that keeps the workspace as it was.
    pub before: Option<Kept>,
}

/// A workspace as it was captured before its files are moved.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The commit.
    pub commit: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// What the capture found, for [`StatCache::save`](super::StatCache::save).
    pub captured: Captured,
}

/// A restoration that is planned. Dropping it leaves store and workspace as they were.
#[derive(Debug)]
pub struct Prepared<'r> {
    repo: &'r Repository,
    change: Transaction<'r>,
    plan: Restoration,
}

/// A restoration that was made.
#[derive(Debug)]
pub struct Done {
    /// What was planned.
    pub plan: Restoration,
    /// The operation.
    pub committed: Committed,
    /// What became of the files.
    pub arranged: Option<Arranged>,
}

impl Restoration {
    /// Whether anything would be other than it is.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        let files = self.files.as_ref();
        !self.sections.is_empty() || files.is_some_and(|files| !files.files.is_empty())
    }
}

impl Prepared<'_> {
    /// What it does.
    #[must_use]
    pub fn plan(&self) -> &Restoration {
        &self.plan
    }

    /// Does it: commits and refs first, as one operation, then the files. What fails with a file is
    /// in [`Done::arranged`], and the others are done.
    ///
    /// # Errors
    /// Those of [`Transaction::finish`]; nothing has changed then.
    pub fn apply(self, stamp: &Stamp, reason: &str) -> Result<Done> {
        let committed = self.change.finish(stamp, reason)?;
        let arranged = self.plan.files.as_ref().map(|files| files.apply(self.repo.store()));
        Ok(Done { plan: self.plan, committed, arranged })
    }
}

/// Plans to bring a state back. Captures the workspace, and reads what comes back: all of the context
/// that does, and of the files those that differ.
///
/// # Errors
/// `Expired` when retention has dropped the state, `NotFound` when nothing of it is selected or the
/// workspace is no directory, `Redacted` or `Corrupt` for content that is not there as it was, and
/// those of [`capture`].
pub fn prepare<'r>(
    repo: &'r Repository,
    restore: &Restore,
    options: &CaptureOptions<'_>,
    stamp: &Stamp,
) -> Result<Prepared<'r>> {
    let Restore { branch, only, .. } = restore;
    let wanted = repo.context(&restore.from)?;
    let mut change = repo.begin();
    let tip = change.tip(branch);
    let current = tip.map_or_else(|| Ok(Context::default()), |tip| repo.context(&tip))?;
    let has_files = has_files(repo, &restore.from, &wanted)?;
    if !(only.is_all() || has_files && only.has_all_of(FILES)) {
        only.check(repo.store(), [&current, &wanted])?;
    }
    check_readable(repo.store(), &wanted, only)?;

    let workspace = restore.workspace.as_deref().filter(|_| has_files && only.reaches_files());
    let captured = workspace.map(|dir| {
        // Files that nobody captured from a directory, such as those of a transcript, are not all there
        // are.
        let whole = repo.workspace_of(&restore.from)?.is_some();
        let message = format!("before: {}", restore.message);
        let state = State { current: &current, wanted: &wanted, only, whole };
        keep(&mut change, branch, dir, &state, options, stamp, message)
    });
    let (before, files) = captured.transpose()?.unzip();

    let mut builder = Builder::from(current.clone());
    let mut sections = builder.take_from(&mut change, &wanted, only)?;
    if restore.keep_lessons {
        builder.set_as_in(&mut change, LESSONS, &current)?;
        sections.retain(|section| section != LESSONS);
    }
    if let Some(tip) = tip.filter(|_| restore.audit) {
        let section = add_audit(repo, &mut change, &mut builder, &tip, restore)?;
        sections.push(section);
        sections.sort();
        sections.dedup();
    }
    let message = format!("{}{}", restore.message, summary(files.as_ref()));
    let mut draft = Snapshot::new(builder.write(&mut change)?, &message, stamp);
    let origin = if restore.is_rollback { ROLLED_BACK_TO } else { RESTORED_FROM };
    draft.metadata.insert(origin.to_owned(), restore.from.to_string());
    if restore.is_rollback {
        draft.trigger = Trigger::Rollback;
    }
    if !only.is_all() {
        draft.metadata.insert(ONLY.to_owned(), only.to_text());
    }
    draft.metadata.extend(workspace.map(workspace_metadata));
    let commit = change.snapshot(branch, draft)?;
    if let Some(kept) = &before {
        change.set_before(branch, Some(kept.commit));
    }
    let plan = Restoration { commit, message, sections, files, before };
    Ok(Prepared { repo, change, plan })
}

/// Ends the main agent's conversation with a record of the rollback. Returns the section.
fn add_audit(
    repo: &Repository,
    change: &mut Transaction<'_>,
    builder: &mut Builder,
    tip: &ObjectId,
    restore: &Restore,
) -> Result<String> {
    let (from_turn, to_turn) = (repo.commit(tip)?.turn, repo.commit(&restore.from)?.turn);
    let record = audit_record(from_turn, to_turn, &restore.message);
    let blob = change.write(Kind::Blob, record.into())?;
    builder.push_message(change, MAIN_AGENT, &MessageEntry::new(blob, Role::System, JSON_MEDIA))?;
    agent_section(MAIN_AGENT, "messages")
}

/// Plans to take an operation back that has moved files, refs and files together.
/// `workspace` is the directory if it is another one than then.
///
/// # Errors
/// `InvalidInput` when the directory is not known; else as [`prepare`].
pub fn prepare_undo<'r>(
    repo: &'r Repository,
    undo: &UndoPlan,
    moved: &MovedFiles,
    workspace: Option<&Path>,
    options: &CaptureOptions<'_>,
    stamp: &Stamp,
    message: &str,
) -> Result<Prepared<'r>> {
    let commit = repo.commit(&moved.before)?;
    let known = commit.metadata.get(WORKSPACE).map(Path::new);
    let dir = workspace.or(known).ok_or_else(|| {
        let short = moved.before.short(12);
        Error::invalid(format!("{short} does not say which directory its files are from"))
    })?;
    files_back(repo, &moved.branch, &moved.before, dir, Some(undo), options, stamp, message)
}

/// What is, and what is to be.
struct State<'a> {
    current: &'a Context,
    wanted: &'a Context,
    only: &'a Selection,
    /// Whether the files of `wanted` are all there are to be.
    whole: bool,
}

/// Whether an undo was interrupted: a file that it was to change in `dir` is still as before.
///
/// # Errors
/// What reading commits, contexts and files reports.
pub fn is_unfinished(repo: &Repository, last: &LastUndo, dir: &Path) -> Result<bool> {
    let (before, wanted) = (repo.context(&last.moved.before)?, repo.context(&last.target)?);
    any_as_before(repo.store(), dir, &before, &wanted)
}

/// Plans to finish an undo that was interrupted: its files become what they were to become. What is
/// there now is kept as ever, in an operation that changes no more than that.
///
/// # Errors
/// As [`prepare_undo`].
pub fn prepare_rest<'r>(
    repo: &'r Repository,
    last: &LastUndo,
    dir: &Path,
    options: &CaptureOptions<'_>,
    stamp: &Stamp,
    message: &str,
) -> Result<Prepared<'r>> {
    files_back(repo, &last.moved.branch, &last.target, dir, None, options, stamp, message)
}

/// Plans to make the files of a workspace those of a commit, perhaps as an operation is taken back.
#[expect(clippy::too_many_arguments, reason = "what its two callers are given")]
fn files_back<'r>(
    repo: &'r Repository,
    branch: &BranchName,
    commit: &ObjectId,
    dir: &Path,
    undo: Option<&UndoPlan>,
    options: &CaptureOptions<'_>,
    stamp: &Stamp,
    message: &str,
) -> Result<Prepared<'r>> {
    let wanted = repo.context(commit)?;
    let mut change = repo.begin();
    let tip = change.tip(branch);
    let current = tip.map_or_else(|| Ok(Context::default()), |tip| repo.context(&tip))?;
    let (all, message) = (Selection::default(), format!("before: {message}"));
    let state = State { current: &current, wanted: &wanted, only: &all, whole: true };
    let (kept, files) = keep(&mut change, branch, dir, &state, options, stamp, message.clone())?;
    if let Some(undo) = undo {
        change.take_back(undo);
    }
    change.set_before(branch, Some(kept.commit));
    let (commit, sections, files, before) = (kept.commit, Vec::new(), Some(files), Some(kept));
    let plan = Restoration { commit, message, sections, files, before };
    Ok(Prepared { repo, change, plan })
}

/// Keeps a workspace as it is in a commit behind the tip of a branch, and plans what its files become.
fn keep(
    change: &mut Transaction<'_>,
    branch: &BranchName,
    dir: &Path,
    state: &State<'_>,
    options: &CaptureOptions<'_>,
    stamp: &Stamp,
    message: String,
) -> Result<(Kept, FileChanges)> {
    let State { current, wanted, only, whole } = *state;
    let mut builder = Builder::from(current.clone());
    let captured = capture(change, current, &mut builder, dir, options)?;
    let tree = builder.write(change)?;
    let now = Context::open(change, &tree)?;
    let skipped = &captured.skipped;
    let sides = Sides { now: &now, saved: current, wanted, only, whole, skipped };
    let files = FileChanges::plan(change, dir, &sides)?;
    let mut draft = Snapshot::new(tree, message, stamp);
    draft.trigger = Trigger::BeforeRestore;
    draft.metadata.extend([workspace_metadata(dir)]);
    let commit = change.record(branch, draft)?;
    Ok((Kept { commit, tree, captured }, files))
}

/// The metadata of a commit whose files came from, or went to, a directory: its whole path. One that
/// is not UTF-8 is written so that it leads nowhere.
#[must_use]
pub fn workspace_metadata(dir: &Path) -> (String, String) {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    (WORKSPACE.to_owned(), whole.to_string_lossy().into_owned())
}

/// Whether a commit says what files there are: an empty workspace has no section.
fn has_files(repo: &Repository, commit: &ObjectId, context: &Context) -> Result<bool> {
    Ok(context.section(repo.store(), FILES)?.is_some()
        || repo.commit(commit)?.metadata.contains_key(WORKSPACE))
}

/// Reads everything that comes back but the files, so that nothing is begun that is not whole.
fn check_readable(store: &Store, wanted: &Context, only: &Selection) -> Result<()> {
    let mut checking = Checking { store, seen: HashSet::new(), links: Vec::new() };
    for (name, section) in wanted.sections(store)? {
        if name != FILES && only.reaches(&name) {
            checking.section(section).map_err(|error| error.at(&name))?;
        }
    }
    Ok(())
}

/// Reads many objects at once, in the order in which they lie, and keeps nothing of them.
struct Checking<'s> {
    store: &'s Store,
    /// What was read: a transcript shares most of its pieces with the messages.
    seen: HashSet<Link>,
    /// What is to be read.
    links: Vec<Link>,
}

impl Checking<'_> {
    fn section(&mut self, Section { shape, id }: Section) -> Result<()> {
        let store = self.store;
        match shape {
            Shape::Blob => self.add(Link { kind: Kind::Blob, id })?,
            Shape::List => {
                let list = List::open(store, &id)?;
                list.iter(store, 0..list.len()).try_for_each(|item| self.add(item?.link))?;
            }
            Shape::Map => {
                let map = Map::open(store, &id)?;
                map.iter(store).try_for_each(|entry| self.add(entry?.1.link))?;
            }
        }
        self.read()
    }

    fn add(&mut self, link: Link) -> Result<()> {
        if self.seen.len() >= LINKS_REMEMBERED {
            self.seen.clear();
        }
        if self.seen.insert(link) {
            self.links.push(link);
        }
        if self.links.len() < LINKS_AT_ONCE { Ok(()) } else { self.read() }
    }

    /// Reads what is to be read. Of what cannot be read the first is the error.
    fn read(&mut self) -> Result<()> {
        let links = std::mem::take(&mut self.links);
        let ids: Vec<ObjectId> = links.iter().map(|link| link.id).collect();
        let failed: Mutex<BTreeMap<usize, Error>> = Mutex::default();
        self.store.visit(&ids, &|at, object| {
            let read = object.and_then(|object| match links.get(at) {
                Some(link) if link.kind != object.kind => {
                    Err(Error::corrupt(link.id, link.kind, object.kind))
                }
                _ => Ok(()),
            });
            if let Err(error) = read {
                failed.lock().unwrap_or_else(PoisonError::into_inner).insert(at, error);
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.into_values().next().map_or(Ok(()), Err)
    }
}

/// What becomes of files, as a message says it.
fn summary(files: Option<&FileChanges>) -> String {
    let Some(files) = files else { return String::new() };
    let (written, deleted) = files.counts();
    let plural = if written == 1 { "" } else { "s" };
    format!(": {written} file{plural} to write, {deleted} to delete")
}
