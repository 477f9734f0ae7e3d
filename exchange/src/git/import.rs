//! Imports a git history as a session: one snapshot per commit, with its files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;

use bytes::Bytes;
use gix::ObjectId as GitId;
use gix::bstr::ByteSlice;
use gix::objs::tree::EntryKind;
use gix::objs::{CommitRef, Kind as GitKind};
use turntree::context::sections::{FILES, GIT};
use turntree::context::{Builder, Context, FileEntry, FileMode};
use turntree::error::{Error, Result};
use turntree::object::{
    Author, Commit, Kind, MAX_BLOB_BYTES, ObjectId, ObjectSink, ObjectSource, Time, Trigger,
};
use turntree::repo::{BranchName, MAIN_BRANCH, Repository, Signature, Transaction};

use super::GitNote;
use super::encoding::decode_text;
use super::repository::open;
use super::source_repository::{
    MAX_STRUCTURED_BYTES, PathChange, SourceRepository, TreeEntry, is_limit_error, parse_commit,
};
use super::tags::{self, GitTag};
use super::tips::{SHORT_DIGITS, Tip, tips};
use super::trailers::{self, CommitFacts};
use crate::model::report::MAX_NOTES;

/// Metadata key of a snapshot: the id of its git commit.
const GIT_COMMIT: &str = "git-commit";

/// Metadata key of a snapshot: its id before it was exported.
const GIT_SNAPSHOT: &str = "git-snapshot";

/// Maximum number of parents of a commit.
const MAX_PARENTS: usize = 1000;

/// Options of an import.
#[derive(Debug, Clone)]
pub struct GitImportOptions {
    /// Branches, tags and commit ids. Empty for all branches.
    pub revisions: Vec<String>,
    /// The session to create or continue.
    pub session: String,
    /// The author and time of the import.
    pub stamp: Signature,
    /// The size limit of imported files in bytes, at most [`MAX_BLOB_BYTES`].
    pub max_file_bytes: u64,
    /// True to move HEAD to the session.
    pub switch: bool,
}

/// A branch that an import found or created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitBranch {
    /// The branch of the session.
    pub branch: BranchName,
    /// The name in git.
    pub git_name: String,
    /// The tip.
    pub head: ObjectId,
    /// True if it moved.
    pub moved: bool,
}

/// The report of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitImport {
    /// The number of new snapshots, one per new commit.
    pub commits: u64,
    /// The branches, ordered by name.
    pub branches: Vec<GitBranch>,
    /// The imported tags on snapshots of the session, ordered by name.
    pub tags: Vec<GitTag>,
    /// The number of bytes that the store grew by.
    pub new_bytes: u64,
    /// Content that was skipped, with the reason.
    pub notes: Vec<GitNote>,
}

/// Checks that `dir` has a repository to [`import`].
///
/// # Errors
/// `InvalidInput` if there is no readable repository.
pub fn check_repository(dir: &Path) -> Result<()> {
    open(dir).map(drop)
}

/// Imports the history and the tags of the git repository in `dir`. Does not reread commits of an
/// earlier import into the same session. `progress` receives the number of imported commits and
/// their total.
///
/// # Errors
/// `InvalidInput` if `dir` is not a readable repository or lacks a revision; `Corrupt` or
/// `NotFound` for damaged or missing objects; `LimitExceeded` for an unreasonably large history;
/// `Conflict` if a branch moves concurrently. The store is then unchanged.
pub fn import(
    repo: &Repository,
    dir: &Path,
    options: &GitImportOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<GitImport> {
    let (limit, found) = (MAX_BLOB_BYTES as u64, options.max_file_bytes);
    if found > limit {
        return Err(Error::limit("bytes of an imported file", limit, found));
    }
    let source = SourceRepository { git: open(dir)? };
    let tips = tips(&source, &options.revisions)?;
    let known = imported_commits(repo, &options.session)?;
    let order = commit_order(&source, &tips, &known)?;
    let mut run = ImportRun {
        repo,
        source: &source,
        options,
        change: repo.begin(),
        done: known,
        parents: HashMap::new(),
        exported: HashSet::new(),
        blobs: HashMap::new(),
        notes: Vec::new(),
    };
    let all = order.len() as u64;
    for (at, id) in (1..).zip(&order) {
        run.import_commit(id).map_err(|error| error.at(format_args!("git commit {id}")))?;
        run.change.make_room()?;
        progress(at, all);
    }
    run.finish(&tips, all)
}

/// Returns the snapshots of a session that were git commits.
fn imported_commits(repo: &Repository, session: &str) -> Result<HashMap<GitId, ObjectId>> {
    let own = repo.branches_of(session).into_iter();
    let starts: Vec<ObjectId> = own.map(|(_, tip)| tip).collect();
    let mut known = HashMap::new();
    for entry in repo.history(&starts, &[])? {
        let entry = entry?;
        let id = entry.commit.metadata.get(GIT_COMMIT).map(|hex| GitId::from_hex(hex.as_bytes()));
        if let Some(Ok(id)) = id {
            known.insert(id, entry.id);
        }
    }
    Ok(known)
}

/// Returns the commits to import, parents first.
fn commit_order(
    source: &SourceRepository,
    tips: &[Tip],
    known: &HashMap<GitId, ObjectId>,
) -> Result<Vec<GitId>> {
    let mut order = Vec::new();
    let mut seen: HashSet<GitId> = known.keys().copied().collect();
    // Each commit is visited twice: before and after its parents.
    let mut left: Vec<(GitId, bool)> = tips.iter().rev().map(|tip| (tip.commit, false)).collect();
    while let Some((id, behind)) = left.pop() {
        if behind {
            order.push(id);
            continue;
        }
        if !seen.insert(id) {
            continue;
        }
        left.push((id, true));
        let bytes = source.read(&id, GitKind::Commit, MAX_STRUCTURED_BYTES)?;
        let parents: Vec<GitId> = parse_commit(&bytes, &id)?.parents().collect();
        for parent in parents.into_iter().rev() {
            if !seen.contains(&parent) && source.has(&parent)? {
                left.push((parent, false));
            }
        }
    }
    Ok(order)
}

/// An import in progress.
struct ImportRun<'r> {
    repo: &'r Repository,
    source: &'r SourceRepository,
    options: &'r GitImportOptions,
    change: Transaction<'r>,
    /// The snapshot of each commit.
    done: HashMap<GitId, ObjectId>,
    /// The parents of the new snapshots.
    parents: HashMap<ObjectId, Vec<ObjectId>>,
    /// New commits whose trees have the layout of an export.
    exported: HashSet<GitId>,
    blobs: HashMap<GitId, (ObjectId, u64)>,
    notes: Vec<GitNote>,
}

impl ImportRun<'_> {
    fn import_commit(&mut self, id: &GitId) -> Result<()> {
        let bytes = self.source.read(id, GitKind::Commit, MAX_STRUCTURED_BYTES)?;
        let git = parse_commit(&bytes, id)?;
        let facts = trailers::parse_facts(&git);
        let mut parents = Vec::new();
        for parent in git.parents() {
            match self.done.get(&parent) {
                Some(known) if parents.contains(known) => {}
                Some(known) if parents.len() < MAX_PARENTS => parents.push(*known),
                Some(_) => self.note(id, "has more parents than turntree keeps"),
                None => self.note(id, "a parent is not in the repository: history begins here"),
            }
        }
        // The git commit of the first snapshot in `parents`.
        let first = git.parents().find(|parent| self.done.contains_key(parent));
        let is_exported = facts.is_some() || self.continues_export(first.as_ref())?;
        if is_exported {
            self.exported.insert(*id);
        }
        let tree = self.build_context(&git, first.as_ref(), parents.first(), is_exported)?;
        let mut turn = 1;
        for parent in &parents {
            turn = self.change.read_commit(parent)?.turn.saturating_add(1).max(turn);
        }
        let commit =
            snapshot_of(&git, id, facts, &self.options.session, tree, parents.clone(), turn);
        let written = self.change.write(Kind::Commit, commit.encode().into())?;
        self.parents.insert(written, parents);
        self.done.insert(*id, written);
        Ok(())
    }

    /// Returns true if the commit `id`, if given, has the layout of an export.
    fn continues_export(&mut self, id: Option<&GitId>) -> Result<bool> {
        let Some(id) = id else { return Ok(false) };
        if self.exported.contains(id) {
            return Ok(true);
        }
        if self.done.get(id).is_some_and(|known| self.parents.contains_key(known)) {
            return Ok(false);
        }
        // An earlier import imported the commit and recorded its origin in the metadata.
        let Some(known) = self.done.get(id) else { return Ok(false) };
        let mut at = self.repo.commit(known)?;
        loop {
            if at.metadata.contains_key(GIT_SNAPSHOT) {
                return Ok(true);
            }
            match at.parents.first() {
                Some(parent) => at = self.repo.commit(parent)?,
                None => return Ok(false),
            }
        }
    }

    /// Returns the context of a commit: the context of its first parent with the changes.
    fn build_context(
        &mut self,
        git: &CommitRef<'_>,
        first: Option<&GitId>,
        parent: Option<&ObjectId>,
        is_exported: bool,
    ) -> Result<ObjectId> {
        let mut builder = match parent {
            Some(parent) => {
                let tree = self.change.read_commit(parent)?.tree;
                Builder::from(Context::open(&self.change, &tree)?)
            }
            None => Builder::new(),
        };
        let old = match first {
            Some(first) => {
                let bytes = self.source.read(first, GitKind::Commit, MAX_STRUCTURED_BYTES)?;
                let is_exported = self.continues_export(Some(first))?;
                self.source.files_of(parse_commit(&bytes, first)?.tree(), is_exported)?
            }
            None => None,
        };
        let new = self.source.files_of(git.tree(), is_exported)?;
        for change in self.source.compare_trees(old, new, is_exported)? {
            self.import_file(&mut builder, change)?;
        }
        builder.clear(&mut self.change, GIT)?;
        for (key, value) in facts_section(git) {
            builder.set_entry(&mut self.change, GIT, key, Some(value))?;
        }
        builder.write(&mut self.change)
    }

    fn import_file(&mut self, builder: &mut Builder, change: PathChange) -> Result<()> {
        let path = match change.path {
            Ok(path) => path,
            Err(bad) => {
                self.note(&bad.display, &format!("left out: {}", bad.what));
                return Ok(());
            }
        };
        if path.is_empty() || path.len() > turntree::tree::MAX_KEY_BYTES {
            self.note(&path.chars().take(80).collect::<String>(), "left out: its path is too long");
            return Ok(());
        }
        let entry = match change.new {
            Some(entry) => self.file_content(&path, entry)?,
            None => None,
        };
        builder.set(&self.change, FILES, &path, entry.map(|entry| entry.to_item()))
    }

    /// Returns the content of a file, or `None` for a skipped file.
    fn file_content(&mut self, path: &str, entry: TreeEntry) -> Result<Option<FileEntry>> {
        let mode = match entry.kind {
            EntryKind::Blob => FileMode::Regular,
            EntryKind::BlobExecutable => FileMode::Executable,
            EntryKind::Link => FileMode::Symlink,
            EntryKind::Commit => {
                let what = format!("left out: a submodule, at commit {}", entry.id);
                self.note(&path, &what);
                return Ok(None);
            }
            EntryKind::Tree => return Ok(None),
        };
        let (blob, size) = match self.blobs.get(&entry.id) {
            Some(known) => *known,
            None => {
                let limit = self.options.max_file_bytes;
                let bytes = match self.source.read(&entry.id, GitKind::Blob, limit) {
                    Err(error) if is_limit_error(&error) => {
                        self.note(&path, &format!("left out: it is larger than {limit} bytes"));
                        return Ok(None);
                    }
                    read => read.map_err(|error| error.at(path))?,
                };
                let bytes = self.redacted_bytes(path, bytes.into())?;
                if let Some(reason) = self.change.refuses(&bytes)? {
                    self.note(&path, &format!("left out: {reason}"));
                    return Ok(None);
                }
                let size = bytes.len() as u64;
                let known = (self.change.write(Kind::Blob, bytes)?, size);
                self.change.make_room()?;
                self.blobs.insert(entry.id, known);
                known
            }
        };
        Ok(Some(FileEntry { blob, mode, size }))
    }

    /// Returns the content to store: redacted content becomes its replacement.
    fn redacted_bytes(&mut self, path: &str, bytes: Bytes) -> Result<Bytes> {
        let redactions = self.repo.redactions()?;
        if redactions.is_empty() {
            return Ok(bytes);
        }
        let Some(instead) = redactions.get(&ObjectId::of(Kind::Blob, &bytes)) else {
            return Ok(bytes);
        };
        self.note(&path, "its content was redacted from the store");
        self.repo.read_as(Kind::Blob, &instead)
    }

    /// Moves the branches and makes all changes durable.
    fn finish(mut self, tips: &[Tip], commits: u64) -> Result<GitImport> {
        let mut report = GitImport { commits, ..GitImport::default() };
        for tip in tips {
            let Some(head) = self.done.get(&tip.commit).copied() else { continue };
            let branch = self.branch_for_tip(tip, head)?;
            let moved = self.repo.tip(&branch) != Some(head);
            // A branch with newer local snapshots stays.
            let ahead = match self.repo.tip(&branch) {
                Some(tip) if moved && !self.parents.contains_key(&head) => {
                    self.is_descendant(&tip, &head)?
                }
                _ => false,
            };
            if moved && !ahead {
                self.change.move_branch(&branch, Some(head));
            }
            let (git_name, moved) = (tip.git_name.clone(), moved && !ahead);
            report.branches.push(GitBranch { branch, git_name, head, moved });
        }
        self.import_tags(tips, &mut report)?;
        let first = report.branches.first().map(|found| found.branch.clone());
        let main = report.branches.iter().find(|found| found.branch.branch() == MAIN_BRANCH);
        let main = main.map(|found| found.branch.clone()).or(first);
        let wants_head = self.options.switch || self.repo.tip(&self.repo.shared_head()?).is_none();
        let switches = wants_head && main.is_some();
        if let (true, Some(branch)) = (switches, main) {
            self.change.switch(&branch);
        }
        report.notes = self.notes;
        let moves = report.branches.iter().any(|found| found.moved);
        if switches || moves || report.tags.iter().any(|found| found.is_new) {
            let reason = format!("git import {}", self.options.session);
            let committed = self.change.commit(&self.options.stamp, &reason)?;
            report.new_bytes = committed.written.stored_bytes;
        }
        Ok(report)
    }

    /// Imports the tags on commits of this session.
    fn import_tags(&mut self, tips: &[Tip], report: &mut GitImport) -> Result<()> {
        let refs = self.repo.refs();
        let head = self.repo.head_if_any()?;
        let own = self.options.session.as_str();
        let own = [own, head.as_ref().map_or(own, |head| head.branch.session())];
        let known = self.repo.branches().into_iter().map(|(name, _)| name);
        let branches = known.chain(report.branches.iter().map(|found| found.branch.clone()));
        let hidden = tags::names_of(branches, &own);
        let mut target =
            tags::TagWriter { change: &mut self.change, refs: &refs.values, hidden: &hidden };
        let (wants_all, mut left_out) = (self.options.revisions.is_empty(), Vec::new());
        for found in tags::find(self.source)? {
            // A tag requested by name becomes a branch.
            if tips.iter().any(|tip| tip.git_name == found.git_name) {
                continue;
            }
            let commit = found.commit.as_ref().ok().and_then(|id| self.done.get(id)).copied();
            match target.put(&found, commit)? {
                Ok(tag) => report.tags.push(tag),
                Err(what) if wants_all || commit.is_some() => left_out.push((found, what)),
                Err(_) => {}
            }
        }
        for (found, what) in left_out {
            self.note(&found.git_name, &format!("left out: {what}"));
        }
        Ok(())
    }

    /// Returns the branch for a tip: the branch with its name if it continues `head` or the
    /// reverse, else a new branch with the short commit id as suffix.
    fn branch_for_tip(&mut self, tip: &Tip, head: ObjectId) -> Result<BranchName> {
        let (session, digits) = (&self.options.session, tip.commit.to_hex_with_len(SHORT_DIGITS));
        let branch = match BranchName::new(session, &tip.name) {
            Ok(branch) => branch,
            Err(_) => {
                let name = format!("git-{digits}");
                self.note(&tip.git_name, &format!("is branch {name}: no branch can have its name"));
                BranchName::new(session, &name)?
            }
        };
        let Some(old) = self.repo.tip(&branch) else { return Ok(branch) };
        if self.continues(&old, head)? || self.is_descendant(&old, &head)? {
            return Ok(branch);
        }
        let renamed = BranchName::new(session, &format!("{}-{digits}", branch.branch()))?;
        let what = format!("was rewritten, or {branch} was: it is {renamed} now");
        self.note(&tip.git_name, &what);
        Ok(renamed)
    }

    /// Returns true if the new or stored snapshot `head` continues `old`.
    fn continues(&self, old: &ObjectId, head: ObjectId) -> Result<bool> {
        let (mut left, mut seen, mut stored) = (vec![head], HashSet::new(), Vec::new());
        while let Some(id) = left.pop() {
            if !seen.insert(id) {
                continue;
            }
            match self.parents.get(&id) {
                Some(parents) => left.extend(parents),
                None => stored.push(id),
            }
        }
        Ok(self.repo.history(&[*old], &stored)?.next().is_none())
    }

    /// Returns true if the stored snapshot `from` continues `to`.
    fn is_descendant(&self, from: &ObjectId, to: &ObjectId) -> Result<bool> {
        if self.parents.contains_key(to) {
            return Ok(false);
        }
        Ok(self.repo.history(&[*to], &[*from])?.next().is_none())
    }

    fn note(&mut self, place: &dyn fmt::Display, what: &str) {
        let note = GitNote { place: place.to_string(), what: what.to_owned() };
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Returns the snapshot of a commit.
fn snapshot_of(
    git: &CommitRef<'_>,
    id: &GitId,
    facts: Option<CommitFacts>,
    session: &str,
    tree: ObjectId,
    parents: Vec<ObjectId>,
    turn: u64,
) -> Commit {
    let mut metadata = BTreeMap::from([(GIT_COMMIT.to_owned(), id.to_string())]);
    let signature = git.author().ok();
    let time = signature.and_then(|signature| signature.time().ok());
    let mut time = time.map_or_else(Time::default, |time| Time {
        micros: time.seconds.saturating_mul(1_000_000),
        offset_minutes: i16::try_from(time.offset / 60).unwrap_or_default(),
    });
    let text = decode_text(git.encoding.map(|name| &**name), git.message);
    let mut message = text.trim_end();
    let name =
        signature.map(|it| decode_text(git.encoding.map(|name| &**name), it.name).into_owned());
    let mut author = Author { agent: name.unwrap_or_default(), model: String::new() };
    let mut trigger = if parents.len() > 1 { Trigger::Merge } else { Trigger::Manual };
    if let Some(facts) = facts {
        message = message.rsplit_once("\n\n").map_or("", |(message, _)| message);
        (author, trigger) = (facts.author, facts.trigger);
        time.micros = facts.micros.unwrap_or(time.micros);
        metadata.extend(facts.metadata);
        metadata.insert(GIT_SNAPSHOT.to_owned(), facts.id.to_string());
        metadata.insert(GIT_COMMIT.to_owned(), id.to_string());
    }
    let (session, message) = (session.to_owned(), message.to_owned());
    Commit { tree, parents, session, turn, author, time, trigger, message, metadata }
}

/// Returns the facts of a commit besides its message and its files.
fn facts_section(git: &CommitRef<'_>) -> Vec<(&'static str, Bytes)> {
    let own = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let mut facts = vec![("author", own(git.author)), ("committer", own(git.committer))];
    facts.extend(git.encoding.map(|encoding| ("encoding", own(encoding))));
    let message = git.message.trim_end();
    let last = message.rfind(b"\n\n").and_then(|at| message.get(at + 2..));
    let is_trailer = |line: &[u8]| {
        let key = line.find(b": ").and_then(|at| line.get(..at)).unwrap_or_default();
        !key.is_empty() && key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    facts.extend(
        last.filter(|last| last.lines().all(is_trailer)).map(|last| ("trailers", own(last))),
    );
    facts
}
