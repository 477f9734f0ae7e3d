//! Resolves words that may be revisions or paths: a word that is not a revision is a file of the
//! newest snapshot.

use std::path::{Component, Path, PathBuf};

use turntree::ErrorKind;
use turntree::platform::{canonical, path_text};
use turntree::repo::{HEAD, Repository, Revision, split_range};

use super::revision::{is_there, resolve_entry, resolve_whole_entry};
use crate::program::here::workspace_of;
use crate::view::error::{Failure, Result};
use crate::view::output::note;

const FILES: &str = "files/";

/// Resolves a revision with a path, or a path alone, which refers to the newest snapshot of HEAD.
/// The order is: a whole name, then a path, then the beginning of a name or title.
///
/// # Errors
/// The errors of a revision, if the word is not a path either.
pub(crate) fn resolve_place(repo: &Repository, word: &str) -> Result<Revision> {
    let revision = match resolve_whole_entry(repo, word) {
        Err(failure) if may_be_path(&failure) => {
            let commit = repo.head_if_any()?.and_then(|head| head.commit);
            if let Some((commit, path)) = commit.zip(path_of_word(repo, word)) {
                return Ok(Revision { commit, path: Some(path), branch: None });
            }
            resolve_entry(repo, word)?
        }
        found => found?,
    };
    if revision.path.is_none() {
        say_if_both(repo, word);
    }
    Ok(revision)
}

/// Splits words into revisions or ranges, and paths of the newest snapshot of HEAD.
///
/// # Errors
/// The errors of a revision, for a word that is neither.
pub(crate) fn part(repo: &Repository, words: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut revisions, mut paths) = (Vec::new(), Vec::new());
    for word in words {
        let sides = split_range(word).map_or([word.as_str(), ""], |(old, new)| [old, new]);
        let named = sides.into_iter().filter(|side| !side.is_empty());
        match named.clone().map(|side| resolve_whole_entry(repo, side)).collect::<Result<Vec<_>>>()
        {
            Ok(_) => {
                say_if_both(repo, word);
                revisions.push(word.clone());
            }
            Err(failure) => match path_of_word(repo, word).filter(|_| may_be_path(&failure)) {
                Some(path) => paths.push(path),
                None if may_be_path(&failure) => {
                    named.map(|side| resolve_entry(repo, side)).collect::<Result<Vec<_>>>()?;
                    revisions.push(word.clone());
                }
                None => return Err(failure),
            },
        }
    }
    Ok((revisions, paths))
}

/// The path that a word names in the newest snapshot of HEAD, if any: relative to the working
/// directory if that is inside the workspace, relative to the workspace, or as in a revision.
pub(crate) fn path_of_word(repo: &Repository, word: &str) -> Option<String> {
    let head = repo.head().ok()?;
    let commit = head.commit?;
    let context = repo.context(&commit).ok()?;
    let workspace = workspace_of(repo, &head.branch, &commit).ok()?;
    let here = std::env::current_dir().ok().and_then(|dir| canonical(&dir).ok());
    let inside = workspace.zip(here).and_then(|(workspace, here)| {
        let full = plain(&here.join(word))?;
        let below = full.strip_prefix(&workspace).ok()?;
        Some(format!("{FILES}{}", path_text(below)?))
    });
    let from_top = plain(Path::new(word)).and_then(|path| Some(path_text(&path)?.into_owned()));
    let from_top = from_top.filter(|path| !path.is_empty() && !path.starts_with('/'));
    let file = from_top.as_ref().map(|path| format!("{FILES}{path}"));
    let whole = from_top.filter(|path| path.contains('/'));
    let found = |path: &String| is_there(repo, &context, path);
    let path = [inside, file, whole].into_iter().flatten().find(found)?;
    Some(path.trim_end_matches('/').to_owned())
}

/// Notes on stderr that a word is taken as a revision, if it could also be a file.
fn say_if_both(repo: &Repository, word: &str) {
    let is_file = || {
        let context = repo.context(&repo.head().ok()?.commit?).ok()?;
        Some(is_there(repo, &context, &format!("{FILES}{word}")))
    };
    if word != HEAD && is_file() == Some(true) {
        note(&format!("'{word}' is read as a revision; the file is HEAD:{FILES}{word}"));
    }
}

/// Resolves `.` and `..` in a path without reading the disk, if possible.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop().then_some(())?;
            }
            part => plain.push(part),
        }
    }
    Some(plain)
}

/// Returns true if a word that failed as a revision may be a path: no revision has that name, or
/// the syntax is not that of a revision.
fn may_be_path(failure: &Failure) -> bool {
    match failure {
        Failure::Library { error, .. } => {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput)
        }
        Failure::Output(_) => false,
    }
}
