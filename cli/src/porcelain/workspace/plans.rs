//! Plans that are made first and carried out later: the number of files shown, whether they destroy
//! files, and their ids.

use std::path::Path;

use turntree::object::{Kind, ObjectId};
use turntree::workspace::{ChangeKind, FileChanges, RewindChanges};

use crate::view::json::action;

/// Maximum number of files to show of a plan.
pub(crate) const FILES_TOLD: usize = 200;

/// Returns true if a plan overwrites or deletes files.
pub(crate) fn is_destructive(plan: &RewindChanges) -> bool {
    let files = plan.files.as_ref().map_or(&[][..], |changes| &changes.files);
    files.iter().any(|file| file.kind != ChangeKind::Create)
}

/// The id of a plan: the hash of `text` and of the captured workspace. Any change of these gives
/// another id.
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
