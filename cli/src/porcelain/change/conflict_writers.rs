//! Finds the turns that wrote the two sides of open conflicts.

use std::collections::{BTreeMap, BTreeSet};

use turntree::ErrorKind;
use turntree::context::{OpenConflict, Selection, open_conflicts};
use turntree::object::ObjectId;
use turntree::repo::{PickaxeMatch, PickaxeQuery, Repository};

use crate::view::error::Result;

/// The most conflicts whose writers are looked for, and the most turns that are looked at for each.
const MAX_CONFLICTS: usize = 50;
const MAX_TURNS: usize = 1000;

/// The newest turns that wrote the sides of a conflict before the merge. `None` for a side that
/// did not touch it, or did so long before.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Writers {
    pub(crate) ours: Option<ObjectId>,
    pub(crate) theirs: Option<ObjectId>,
}

/// Returns the writers of the open conflicts of a snapshot, by path. Leaves out conflicts whose
/// merge is not among the newest turns.
pub(crate) fn writers(
    repo: &Repository,
    tip: &ObjectId,
    conflicts: &[OpenConflict],
) -> Result<BTreeMap<String, Writers>> {
    let wanted = conflicts.iter().take(MAX_CONFLICTS).map(|conflict| conflict.path.clone());
    let mut left: BTreeSet<String> = wanted.collect();
    let mut found = BTreeMap::new();
    for entry in repo.history(&[*tip], &[])?.first_parent().take(MAX_TURNS) {
        if left.is_empty() {
            break;
        }
        let entry = entry?;
        let [ours, theirs, ..] = entry.parents.as_slice() else { continue };
        let before = open_paths(repo, ours)?;
        let (old, new): (BTreeSet<String>, BTreeSet<String>) =
            left.into_iter().partition(|path| before.contains(path));
        left = old;
        let bases = repo.merge_bases(ours, theirs)?;
        for path in new {
            let [ours, theirs] = [ours, theirs].map(|side| writer(repo, side, &bases, &path));
            found.insert(path, Writers { ours: ours?, theirs: theirs? });
        }
    }
    Ok(found)
}

fn open_paths(repo: &Repository, id: &ObjectId) -> Result<BTreeSet<String>> {
    match repo.context(id) {
        Err(error) if error.kind() == ErrorKind::Expired => Ok(BTreeSet::new()),
        context => {
            let open = open_conflicts(repo, &context?)?;
            Ok(open.into_iter().map(|conflict| conflict.path).collect())
        }
    }
}

/// The newest turn of a side since the bases of a merge that changed something at a path.
fn writer(
    repo: &Repository,
    side: &ObjectId,
    bases: &[ObjectId],
    path: &str,
) -> Result<Option<ObjectId>> {
    let paths = Selection::below(&[path.to_owned()]);
    let mut touches = repo.touches(PickaxeQuery { paths, text: None });
    for entry in repo.history(&[*side], bases)?.first_parent().take(MAX_TURNS) {
        let entry = entry?;
        if touches.of(&entry)? == PickaxeMatch::Yes {
            return Ok(Some(entry.id));
        }
    }
    Ok(None)
}
