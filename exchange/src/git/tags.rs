//! Imports the tags of a git repository that are on commits of the session.
//!
//! Tags are global in the store. A tag is skipped and reported if its name is in use, or if it
//! would hide a branch or a session of the same name.

use std::collections::HashSet;

use gix::ObjectId as GitId;
use gix::objs::{Kind as GitKind, TagRef};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use turntree::repo::{BranchName, Transaction, tag_ref};
use turntree::store::{Expected, RefValues};

use super::encoding::{decode_text, without_encoding};
use super::refs::original_name;
use super::source_repository::{
    MAX_STRUCTURED_BYTES, PeeledCommit, SourceRepository, parse_commit, resolve_ref,
};
use super::{git_error, trailers};

/// Prefix of the names in the repository.
const TAGS: &str = "refs/tags/";

/// A tag that an import found or created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitTag {
    /// The name of the tag.
    pub tag: String,
    /// The name in git.
    pub git_name: String,
    /// The tagged snapshot.
    pub commit: ObjectId,
    /// True if it is new.
    pub is_new: bool,
}

/// A tag in the repository.
pub(super) struct SourceTag {
    /// The full name in the repository.
    pub(super) git_name: String,
    /// The name in the store.
    name: String,
    /// The tagged commit, or the error of resolving it.
    pub(super) commit: Result<GitId>,
    /// The content of an annotated tag.
    annotation: Option<TagAnnotation>,
}

/// The content of an annotated tag.
#[derive(Debug, Default, PartialEq, Eq)]
struct TagAnnotation {
    tagger: String,
    time_micros: i64,
    message: String,
}

/// Returns the tags of the repository, ordered by name. A tag that does not resolve to a commit has
/// the error.
///
/// # Errors
/// The errors of reading the refs, and `Io`.
pub(super) fn find(source: &SourceRepository) -> Result<Vec<SourceTag>> {
    let failed = |error| git_error("read the refs of the repository", error);
    let platform = source.git.references().map_err(failed)?;
    let mut tags = Vec::new();
    for found in platform.tags().map_err(failed)? {
        let found =
            found.map_err(|error| git_error("read a ref", gix::Error::from_error(error)))?;
        let git_name = found.name().as_bstr().to_string();
        let name = git_name.strip_prefix(TAGS).unwrap_or(&git_name).to_owned();
        let tag = match read_tag(source, found) {
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(error) => SourceTag { git_name, name, commit: Err(error), annotation: None },
            Ok(TagContent { commit, annotation, is_exported }) => {
                let name = if is_exported { original_name(&name) } else { name };
                SourceTag { git_name, name, commit: Ok(commit), annotation }
            }
        };
        tags.push(tag);
    }
    tags.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tags)
}

/// The content of a tag ref.
struct TagContent {
    commit: GitId,
    annotation: Option<TagAnnotation>,
    /// True if turntree wrote the tag.
    is_exported: bool,
}

fn read_tag(source: &SourceRepository, found: gix::Reference<'_>) -> Result<TagContent> {
    let id = resolve_ref(found)?;
    let PeeledCommit { commit, tag } = source.peel(id)?;
    let bytes = source.read(&commit, GitKind::Commit, MAX_STRUCTURED_BYTES)?;
    let is_exported = trailers::parse_facts(&parse_commit(&bytes, &commit)?).is_some();
    let Some(bytes) = tag else { return Ok(TagContent { commit, annotation: None, is_exported }) };
    let (bytes, encoding) = without_encoding(&bytes);
    let tag = TagRef::from_bytes(&bytes, id.kind())
        .map_err(|error| git_error(format!("decode git tag {id}"), error))?;
    let signature = tag.tagger().ok().flatten();
    let is_own = is_exported && signature.as_ref().is_some_and(trailers::is_own);
    let time = signature.and_then(|signature| signature.time().ok());
    let time_micros = time.map_or(0, |time| time.seconds.saturating_mul(1_000_000));
    let text = decode_text(encoding, tag.message);
    let (message, tagger) = match signature {
        Some(_) if is_own => trailers::parse_tag_message(&text),
        Some(signature) => (text.trim_end(), decode_text(encoding, signature.name).into_owned()),
        None => (text.trim_end(), String::new()),
    };
    let annotation = TagAnnotation { tagger, time_micros, message: message.to_owned() };
    Ok(TagContent { commit, annotation: Some(annotation), is_exported: is_own })
}

/// Writes tags to the store.
pub(super) struct TagWriter<'t, 'r> {
    pub(super) change: &'t mut Transaction<'r>,
    /// The values of refs, by full name.
    pub(super) refs: &'t RefValues,
    /// The names of branches and sessions, which a tag of the same name would hide.
    pub(super) hidden: &'t HashSet<String>,
}

impl TagWriter<'_, '_> {
    /// Creates the tag on `commit`, unless it exists. Returns the reason if the tag is skipped.
    ///
    /// # Errors
    /// The errors of reading the commit.
    pub(super) fn put(
        &mut self,
        found: &SourceTag,
        commit: Option<ObjectId>,
    ) -> Result<std::result::Result<GitTag, String>> {
        let Some(commit) = commit else {
            let why = "its commit was not imported".to_owned();
            return Ok(Err(found.commit.as_ref().err().map_or(why, ToString::to_string)));
        };
        let Ok(full) = tag_ref(&found.name) else {
            return Ok(Err("no tag can have its name".to_owned()));
        };
        if self.hidden.contains(&found.name) {
            return Ok(Err("a branch or session has this name".to_owned()));
        }
        let encoded =
            found.annotation.as_ref().map(|annotation| annotation.encode(&found.name, commit));
        let id = encoded.as_ref().map_or(commit, |bytes| ObjectId::of(Kind::Tag, bytes));
        let value = RefValue::Object(id);
        let is_new = match self.refs.get(&full) {
            Some(known) if *known == value => false,
            Some(_) => return Ok(Err("there is another tag of this name".to_owned())),
            None => true,
        };
        if is_new {
            let tree = self.change.read_commit(&commit)?.tree;
            match self.change.read_as(Kind::Node, &tree) {
                Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) => {
                    return Ok(Err("retention has dropped its target".to_owned()));
                }
                read => read.map(drop)?,
            }
            if let Some(bytes) = encoded {
                self.change.write(Kind::Tag, bytes.into())?;
            }
            self.change.set_ref(&full, Expected::Absent, Some(value));
        }
        let (tag, git_name) = (found.name.clone(), found.git_name.clone());
        Ok(Ok(GitTag { tag, git_name, commit, is_new }))
    }
}

impl TagAnnotation {
    /// Encodes a tag on `target` with this content.
    fn encode(&self, name: &str, target: ObjectId) -> Vec<u8> {
        let tag = Tag {
            target,
            target_kind: Kind::Commit,
            name: name.to_owned(),
            tagger: self.tagger.clone(),
            time_micros: self.time_micros,
            message: self.message.clone(),
            expires_micros: None,
        };
        tag.encode()
    }
}

/// Returns the names of these branches and of their sessions. Includes the short names of branches
/// in the sessions `own`.
pub(super) fn names_of(
    branches: impl Iterator<Item = BranchName>,
    own: &[&str],
) -> HashSet<String> {
    let mut names = HashSet::new();
    for branch in branches {
        if own.contains(&branch.session()) {
            names.insert(branch.branch().to_owned());
        }
        names.extend([branch.session().to_owned(), branch.to_string()]);
    }
    names
}
