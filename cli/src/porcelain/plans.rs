//! Plans that are made first and done later: how many files are told, whether they destroy, what names them.

use std::path::Path;

use turntree::object::{Kind, ObjectId};
use turntree::workspace::{ChangeKind, FileChanges, RewindChanges};

use crate::view::json::action;

/// Files of a plan that are told.
pub(crate) const FILES_TOLD: usize = 200;

/// Returns whether a plan overwrites or deletes files.
pub(crate) fn is_destructive(plan: &RewindChanges) -> bool {
    let files = plan.files.as_ref().map_or(&[][..], |changes| &changes.files);
    files.iter().any(|file| file.kind != ChangeKind::Create)
}

/// A name for a plan: the hash of all it was made from. That is what `text` says, and the workspace as
/// it was captured, so any change of these gives another one.
pub(crate) fn id(text: String, dir: Option<&Path>, plan: Option<&RewindChanges>) -> String {
    let mut bytes = text.into_bytes();
    let dir = dir.map(|dir| dir.as_os_str().as_encoded_bytes()).unwrap_or_default();
    bytes.extend([b"\0", dir].concat());
    let now = plan.and_then(|plan| plan.before.as_ref());
    bytes.extend(now.map(|kept| kept.tree.to_string()).unwrap_or_default().into_bytes());
    if let Some(FileChanges { files, left, .. }) = plan.and_then(|plan| plan.files.as_ref()) {
        for file in files {
            let path = file.path.as_os_str().as_encoded_bytes();
            bytes.extend([b"\0", path, b"\0", action(file.kind).as_bytes()].concat());
        }
        for left in left {
            bytes.extend([b"\0", left.path.as_os_str().as_encoded_bytes(), b"\0leave"].concat());
        }
    }
    ObjectId::of(Kind::Blob, &bytes).to_string()
}
