//! The refs of an exported repository: their names, and checks that no foreign ref is moved.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId as GitId;
use gix::refs::Target;
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};
use turntree::error::{Error, Result};
use turntree::repo::HEAD;

use super::git_error;
use super::repository_state::{ExistingRef, RepositoryState};

/// Number of components before the name of a branch or tag.
const KIND_COMPONENTS: usize = 2;

/// Returns the names in git of refs with these full names. Git does not support a ref below another
/// ref, so the slash between them is percent-encoded.
pub(super) fn git_names<'n>(names: impl Iterator<Item = &'n str>) -> BTreeMap<String, String> {
    let names: BTreeSet<&str> = names.collect();
    let written = |name: &str| {
        let mut written = String::with_capacity(name.len());
        let mut components = 0;
        for (at, c) in name.char_indices() {
            let before = name.get(..at).unwrap_or_default();
            match c {
                '/' if components >= KIND_COMPONENTS && names.contains(before) => {
                    written.push_str("%2F");
                }
                '%' => written.push_str("%25"),
                c => written.push(c),
            }
            components += usize::from(c == '/');
        }
        written
    };
    names.iter().map(|name| ((*name).to_owned(), written(name))).collect()
}

/// Decodes the name of a ref.
pub(super) fn original_name(written: &str) -> String {
    written.replace("%2F", "/").replace("%25", "%")
}

/// Returns the refs of an earlier export whose names conflict with these, with their targets.
///
/// # Errors
/// `InvalidInput` with the name of a ref that would be moved or removed and that turntree did not
/// write.
pub(super) fn conflicting_refs<'k>(
    known: &'k RepositoryState,
    wanted: &BTreeMap<String, String>,
) -> Result<Vec<(&'k str, GitId)>> {
    let mut removed = Vec::new();
    for (name, found) in &known.refs {
        let below = format!("{name}/");
        let blocks = |wanted: &String| {
            wanted.starts_with(&below)
                || name.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let is_wanted = wanted.values().any(|wanted| wanted == name);
        let blocks = !is_wanted && wanted.values().any(blocks);
        if !blocks && !is_wanted {
            continue;
        }
        check_ownership(name, found)?;
        if blocks {
            removed.push((name.as_str(), found.target));
        }
    }
    Ok(removed)
}

fn check_ownership(name: &str, found: &ExistingRef) -> Result<()> {
    if found.is_own {
        return Ok(());
    }
    let message = format!(
        "{name} is at {}, which 'git export' did not write: rename or delete it there first",
        found.target
    );
    Err(Error::invalid(message))
}

/// Moves refs, each from its expected old target.
///
/// # Errors
/// `Conflict` if the target of a ref has changed.
pub(super) fn update(
    git: &gix::Repository,
    known: &RepositoryState,
    removed: &[(&str, GitId)],
    wanted: &BTreeMap<String, GitId>,
    head: Option<&str>,
) -> Result<()> {
    let removals = removed.iter().map(|(name, target)| {
        let expected = PreviousValue::MustExistAndMatch(Target::Object(*target));
        ref_edit(name, Change::Delete { expected, log: RefLog::AndReference })
    });
    apply_edits(git, removals.collect::<Result<_>>()?)?;
    let mut edits = Vec::new();
    for (name, target) in wanted {
        let found = known.refs.get(name).map(|found| found.target);
        if found == Some(*target) {
            continue;
        }
        let expected = found.map_or(PreviousValue::MustNotExist, |found| {
            PreviousValue::MustExistAndMatch(Target::Object(found))
        });
        edits.push(ref_edit(name, update_change(Target::Object(*target), expected))?);
    }
    if let Some(branch) = head {
        let target = Target::Symbolic(full_name(branch)?);
        edits.push(ref_edit(HEAD, update_change(target, PreviousValue::Any))?);
    }
    apply_edits(git, edits)
}

fn apply_edits(git: &gix::Repository, edits: Vec<RefEdit>) -> Result<()> {
    if edits.is_empty() {
        return Ok(());
    }
    let moved = git.edit_references_as(edits, None);
    moved.map(drop).map_err(|error| git_error("move the refs of the repository", error))
}

fn update_change(new: Target, expected: PreviousValue) -> Change {
    let log =
        LogChange { mode: RefLog::AndReference, force_create_reflog: false, message: "".into() };
    Change::Update { log, expected, new }
}

fn ref_edit(name: &str, change: Change) -> Result<RefEdit> {
    Ok(RefEdit { change, name: full_name(name)?, deref: false })
}

fn full_name(name: &str) -> Result<gix::refs::FullName> {
    gix::refs::FullName::try_from(name).map_err(|error| {
        Error::invalid(format!("'{name}' cannot name a ref of git")).with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_below_a_branch_get_a_distinct_name() {
        let names = ["refs/heads/s/a", "refs/heads/s/a/b", "refs/heads/s/a/b/c", "refs/heads/t/a%"];
        let written = git_names(names.into_iter());
        let expected =
            ["refs/heads/s/a", "refs/heads/s/a%2Fb", "refs/heads/s/a%2Fb%2Fc", "refs/heads/t/a%25"];
        for (name, expected) in names.into_iter().zip(expected) {
            assert_eq!(written[name], expected);
            assert_eq!(original_name(expected), name);
        }
    }
}
