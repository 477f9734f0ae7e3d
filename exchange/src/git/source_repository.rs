//! Reads an untrusted git repository: objects by id, with verified hashes and bounded sizes, and
//! the differences between two trees.

use std::collections::BTreeMap;

use gix::ObjectId as GitId;
use gix::objs::tree::EntryKind;
use gix::objs::{CommitRef, Kind as GitKind, TagRef, TreeRef};
use turntree::context::sections::FILES;
use turntree::error::{Error, ErrorKind, Result};
use turntree::workspace::is_reserved;

use super::encoding::without_encoding;
use super::git_error;
use super::names::{FOLDER_FILE, decode_component};

/// Largest commit, tag or tree in bytes.
pub(super) const MAX_STRUCTURED_BYTES: u64 = 64 << 20;

/// Maximum nesting depth of folders.
const MAX_DEPTH: usize = 500;

/// Maximum number of files that a commit changes. A few small trees can describe more files than
/// there are atoms.
const MAX_CHANGES: usize = 2_000_000;

/// Maximum length of a chain of tags before a commit.
const MAX_TAGS: usize = 100;

/// Maximum total size of these paths in bytes. They are in memory until the commit is written.
const MAX_PATHS_BYTES: u64 = 256 << 20;

/// A repository to read.
pub(super) struct SourceRepository {
    pub(super) git: gix::Repository,
}

/// An entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) kind: EntryKind,
    pub(super) id: GitId,
}

/// The commit that an object resolves to.
#[derive(Debug)]
pub(super) struct PeeledCommit {
    /// The commit: the object itself, or the target of a tag.
    pub(super) commit: GitId,
    /// The bytes of the tag, if the object is one.
    pub(super) tag: Option<Vec<u8>>,
}

/// A path whose entry differs. Folders are compared recursively.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathChange {
    /// The key in the section `files`, or the reason why the path is invalid.
    pub(super) path: Result<String, InvalidPath>,
    pub(super) old: Option<TreeEntry>,
    pub(super) new: Option<TreeEntry>,
}

/// A path that is invalid in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidPath {
    /// The path in displayable form.
    pub(super) display: String,
    pub(super) what: &'static str,
}

impl SourceRepository {
    /// Returns true if the object exists.
    pub(super) fn has(&self, id: &GitId) -> Result<bool> {
        let found = self.git.try_find_header(*id);
        Ok(found.map_err(|error| git_error(format!("look for git object {id}"), error))?.is_some())
    }

    /// Resolves an object to a commit: the commit itself, or the target of a chain of tags.
    /// Verifies the hash of every tag, so a chain cannot be a cycle.
    ///
    /// # Errors
    /// `InvalidInput` for an object that does not resolve to a commit, `LimitExceeded` for more
    /// than 100 tags, and the errors of [`Self::read`].
    pub(super) fn peel(&self, id: GitId) -> Result<PeeledCommit> {
        let (mut at, mut first) = (id, None);
        for _ in 0..MAX_TAGS {
            match self.read_header(&at)?.kind() {
                GitKind::Commit => return Ok(PeeledCommit { commit: at, tag: first }),
                GitKind::Tag => {
                    let bytes = self.read(&at, GitKind::Tag, MAX_STRUCTURED_BYTES)?;
                    let (check, _) = without_encoding(&bytes);
                    let tag = TagRef::from_bytes(&check, at.kind())
                        .map_err(|error| git_error(format!("decode git tag {at}"), error))?;
                    at = tag.target();
                    first = first.or(Some(bytes));
                }
                GitKind::Tree | GitKind::Blob => {
                    let message = format!("git object {id} is not a commit or a tag of one");
                    return Err(Error::invalid(message));
                }
            }
        }
        let limit = MAX_TAGS as u64;
        Err(Error::limit(format!("tags behind git object {id}"), limit, limit + 1))
    }

    /// Returns the size and kind in the header of an object.
    fn read_header(&self, id: &GitId) -> Result<gix::odb::find::Header> {
        let header = self.git.try_find_header(*id);
        let header = header.map_err(|error| git_error(format!("read git object {id}"), error))?;
        header.ok_or_else(|| Error::not_found(format!("git object {id} is not in the repository")))
    }

    /// Reads an object and verifies its hash.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, or `LimitExceeded` if it is longer than `limit`.
    pub(super) fn read(&self, id: &GitId, kind: GitKind, limit: u64) -> Result<Vec<u8>> {
        let failed = |error| git_error(format!("read git object {id}"), error);
        let header = self.read_header(id)?;
        if header.kind() != kind {
            return Err(Error::corrupt(format!("git object {id}"), kind, header.kind()));
        }
        if header.size() > limit {
            return Err(Error::limit(format!("bytes of git object {id}"), limit, header.size()));
        }
        let object = self.git.find_object(*id).map_err(failed)?;
        let data = object.detach().data;
        let hashed = gix::objs::compute_hash(id.kind(), kind, &data).map_err(failed)?;
        if hashed != *id {
            return Err(Error::corrupt(format!("git object {id}"), "bytes with this id", hashed));
        }
        Ok(data)
    }

    /// Returns the tree with the files: the whole tree, or the folder of an export.
    pub(super) fn files_of(&self, tree: GitId, exported: bool) -> Result<Option<GitId>> {
        if !exported {
            return Ok(Some(tree));
        }
        let entries = self.read_tree(&tree)?;
        let found = entries.get(FILES.as_bytes()).filter(|entry| entry.kind == EntryKind::Tree);
        Ok(found.map(|entry| entry.id))
    }

    /// Compares two trees, either of which may be missing. `exported` is true if names are encoded
    /// like in an export.
    pub(super) fn compare_trees(
        &self,
        old: Option<GitId>,
        new: Option<GitId>,
        exported: bool,
    ) -> Result<Vec<PathChange>> {
        let (path, changes) = (Vec::new(), Vec::new());
        let mut walk = TreeComparison { source: self, exported, path, paths_bytes: 0, changes };
        walk.compare_folders(old, new)?;
        Ok(walk.changes)
    }

    fn read_tree(&self, id: &GitId) -> Result<BTreeMap<Vec<u8>, TreeEntry>> {
        let bytes = self.read(id, GitKind::Tree, MAX_STRUCTURED_BYTES)?;
        let tree = TreeRef::from_bytes(&bytes, id.kind())
            .map_err(|error| git_error(format!("decode git tree {id}"), error))?;
        let entry = |entry: gix::objs::tree::EntryRef<'_>| {
            let found = TreeEntry { kind: entry.mode.kind(), id: entry.oid.to_owned() };
            (entry.filename.to_vec(), found)
        };
        Ok(tree.entries.into_iter().map(entry).collect())
    }
}

/// A walk over two trees.
struct TreeComparison<'i> {
    source: &'i SourceRepository,
    exported: bool,
    path: Vec<Vec<u8>>,
    /// The total size of the paths of all changes in bytes.
    paths_bytes: u64,
    changes: Vec<PathChange>,
}

impl TreeComparison<'_> {
    fn compare_folders(&mut self, old: Option<GitId>, new: Option<GitId>) -> Result<()> {
        if self.path.len() > MAX_DEPTH {
            let depth = self.path.len() as u64;
            return Err(Error::limit("nested folders of a git tree", MAX_DEPTH as u64, depth));
        }
        let open = |id: Option<GitId>| match id {
            Some(id) => self.source.read_tree(&id),
            None => Ok(BTreeMap::new()),
        };
        let (old, mut new) = (open(old)?, open(new)?);
        let mut pairs = Vec::new();
        for (name, entry) in old {
            let other = new.remove(&name);
            pairs.push((name, Some(entry), other));
        }
        pairs.extend(new.into_iter().map(|(name, entry)| (name, None, Some(entry))));
        for (name, old, new) in pairs {
            if old == new {
                continue;
            }
            self.path.push(name);
            self.compare_entries(old, new)?;
            self.path.pop();
        }
        Ok(())
    }

    fn compare_entries(&mut self, old: Option<TreeEntry>, new: Option<TreeEntry>) -> Result<()> {
        let folder = |entry: Option<TreeEntry>| entry.filter(|entry| entry.kind == EntryKind::Tree);
        let (old_folder, new_folder) = (folder(old), folder(new));
        let old_leaf = old.filter(|_| old_folder.is_none());
        let new_leaf = new.filter(|_| new_folder.is_none());
        if old_leaf.is_some() || new_leaf.is_some() {
            if self.changes.len() >= MAX_CHANGES {
                let limit = MAX_CHANGES as u64;
                return Err(Error::limit("files that a commit changes", limit, limit + 1));
            }
            self.paths_bytes += self.path.iter().map(|name| name.len() as u64 + 1).sum::<u64>();
            if self.paths_bytes > MAX_PATHS_BYTES {
                let what = "bytes of the paths that a commit changes";
                return Err(Error::limit(what, MAX_PATHS_BYTES, self.paths_bytes));
            }
            let path = self.current_key();
            self.changes.push(PathChange { path, old: old_leaf, new: new_leaf });
        }
        if old_folder.is_some() || new_folder.is_some() {
            let id = |folder: Option<TreeEntry>| folder.map(|entry| entry.id);
            self.compare_folders(id(old_folder), id(new_folder))?;
        }
        Ok(())
    }

    /// Returns the key of the current path.
    fn current_key(&self) -> Result<String, InvalidPath> {
        let bytes = self.path.join(&b'/');
        let bad =
            |what| InvalidPath { display: String::from_utf8_lossy(&bytes).into_owned(), what };
        let mut parts = Vec::with_capacity(self.path.len());
        for name in &self.path {
            let name = std::str::from_utf8(name).map_err(|_| bad("its name is not UTF-8"))?;
            parts.push(name.to_owned());
        }
        if self.exported {
            // A file next to a folder with its name.
            if parts.last().is_some_and(|last| last == FOLDER_FILE) {
                parts.pop();
            }
            return Ok(parts
                .iter()
                .map(|part| decode_component(part))
                .collect::<Vec<_>>()
                .join("/"));
        }
        for part in &parts {
            if matches!(part.as_str(), "" | "." | "..") || part.contains('/') {
                return Err(bad("it points outside of the folder"));
            }
            if is_reserved(part) {
                return Err(bad("it is a name of git's or turntree's own"));
            }
        }
        Ok(parts.join("/"))
    }
}

/// Decodes the commit in `bytes` of the object `id`.
///
/// # Errors
/// `Corrupt` with the id of the object.
pub(super) fn parse_commit<'b>(bytes: &'b [u8], id: &GitId) -> Result<CommitRef<'b>> {
    CommitRef::from_bytes(bytes, id.kind())
        .map_err(|error| git_error(format!("decode git commit {id}"), error))
}

/// Returns the object that a ref points to, of any kind.
///
/// # Errors
/// `NotFound` if a symbolic ref points to a missing ref, `Corrupt` for a cycle of refs.
pub(super) fn resolve_ref(mut found: gix::Reference<'_>) -> Result<GitId> {
    let id = found.follow_to_object();
    Ok(id.map_err(|error| git_error("follow a ref", error))?.detach())
}

/// Returns true if an error is about a limit.
pub(super) fn is_limit_error(error: &Error) -> bool {
    error.kind() == ErrorKind::LimitExceeded
}
