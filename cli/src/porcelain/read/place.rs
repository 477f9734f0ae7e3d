//! Resolves words that may be revisions or paths: a word that is not a revision is a file of the
//! newest snapshot.

use turntree::ErrorKind;
use turntree::context::sections::FILES_PREFIX;
use turntree::repo::{HEAD, Repository, Revision, split_range};

use super::paths::Paths;
use super::revision::{resolve_entry, resolve_whole_entry};
use crate::view::error::{Failure, Result};
use crate::view::output::note;

/// Resolves a revision with a path, or a path alone, which refers to the newest snapshot of HEAD.
/// The order is: a whole name, then a path, then the beginning of a name or title.
///
/// # Errors
/// The errors of a revision, if the word is not a path either.
pub(crate) fn resolve_place(repo: &Repository, word: &str) -> Result<Revision> {
    let revision = match resolve_whole_entry(repo, word) {
        Err(failure) if may_be_path(&failure) => {
            let commit = repo.head_if_any()?.and_then(|head| head.commit);
            if let Some((commit, path)) = commit.zip(Paths::of_head(repo).find_entry(word)) {
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

/// Splits words into revisions or ranges, and paths of the newest snapshot of HEAD or of the
/// revisions before them.
///
/// # Errors
/// The errors of a revision, for a word that is neither.
pub(crate) fn part(repo: &Repository, words: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut revisions, mut paths) = (Vec::new(), Vec::new());
    let mut named_snapshots = Vec::new();
    for word in words {
        let sides = split_range(word).map_or([word.as_str(), ""], |(old, new)| [old, new]);
        let named = sides.into_iter().filter(|side| !side.is_empty());
        match named.clone().map(|side| resolve_whole_entry(repo, side)).collect::<Result<Vec<_>>>()
        {
            Ok(found) => {
                say_if_both(repo, word);
                named_snapshots.extend(found.into_iter().map(|revision| revision.commit));
                revisions.push(word.clone());
            }
            Err(failure) if !may_be_path(&failure) => return Err(failure),
            Err(_) => match Paths::over(repo, named_snapshots.clone()).find_entry(word) {
                Some(path) => paths.push(path),
                None => {
                    named.map(|side| resolve_entry(repo, side)).collect::<Result<Vec<_>>>()?;
                    revisions.push(word.clone());
                }
            },
        }
    }
    Ok((revisions, paths))
}

/// Notes on stderr that a word is taken as a revision, if it could also be a file.
fn say_if_both(repo: &Repository, word: &str) {
    if word != HEAD && Paths::of_head(repo).has(&format!("{FILES_PREFIX}{word}")) {
        note(&format!("'{word}' is read as a revision; the file is HEAD:{FILES_PREFIX}{word}"));
    }
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
