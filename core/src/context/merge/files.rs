//! Files and folders: a path is one or the other.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::context::text_key;
use crate::error::Result;
use crate::object::ObjectSource;
use crate::tree::{Item, Map};

/// The files of `files` that cannot be there together with one at `path`: those that it lies in, as
/// if they were folders, and those that lie in it.
pub(super) fn in_the_way(
    source: &dyn ObjectSource,
    files: &Map,
    path: &str,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
        let Some(folder) = path.get(..at) else { continue };
        if files.get(source, folder.as_bytes())?.is_some() {
            found.push(folder.to_owned());
        }
    }
    for entry in files.prefix(source, format!("{path}/").as_bytes()) {
        found.push(text_key(&entry?.0)?);
    }
    Ok(found)
}

/// Takes out of `edits` the files that theirs added and that cannot be there, since `ours` has
/// something in the way that no edit removes.
pub(super) fn split_clashes(
    source: &dyn ObjectSource,
    ours: &Map,
    edits: &mut BTreeMap<Bytes, Option<Item>>,
) -> Result<Vec<(Bytes, Item)>> {
    let mut clashes = Vec::new();
    for (key, item) in edits.iter() {
        let Some(item) = item else { continue };
        if ours.get(source, key)?.is_some() {
            continue;
        }
        let stays = |path: &String| edits.get(path.as_bytes()).is_none_or(Option::is_some);
        if in_the_way(source, ours, &text_key(key)?)?.iter().any(stays) {
            clashes.push((key.clone(), item.clone()));
        }
    }
    for (key, _) in &clashes {
        edits.remove(key);
    }
    Ok(clashes)
}
