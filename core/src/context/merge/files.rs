//! Files and folders: a path is either.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::context::text_key;
use crate::error::Result;
use crate::object::ObjectSource;
use crate::tree::{Item, Map};

/// Returns the files of `files` that exclude one at `path`: files at its ancestor folders, and
/// files below it.
pub(super) fn clashing_files(
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

/// Removes from `edits` the added files of theirs that are blocked by an entry of `ours` that no
/// edit removes, and returns them.
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
        if clashing_files(source, ours, &text_key(key)?)?.iter().any(stays) {
            clashes.push((key.clone(), item.clone()));
        }
    }
    for (key, _) in &clashes {
        edits.remove(key);
    }
    Ok(clashes)
}
