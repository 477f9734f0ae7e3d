//! Plans that are made by one call and done by another: what names them, and when that is refused.

use std::path::Path;

use turntree::object::{Kind, ObjectId};
use turntree::workspace::{ChangeKind, FileChanges, RewindChanges};
use turntree::{Error, ErrorKind};

use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::json::action;

/// Files of a plan that are told.
pub(super) const FILES_TOLD: usize = 200;

/// Returns whether a plan overwrites or deletes files.
pub(super) fn is_destructive(plan: &RewindChanges) -> bool {
    let files = plan.files.as_ref().map_or(&[][..], |changes| &changes.files);
    files.iter().any(|file| file.kind != ChangeKind::Create)
}

/// A name for a plan: the hash of all it was made from. That is what `text` says, and the workspace as
/// it was captured, so any change of these gives another one.
pub(super) fn id(text: String, dir: Option<&Path>, plan: Option<&RewindChanges>) -> String {
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

/// Refuses the id of another plan, and to do without one what `takes_id`.
pub(super) fn check(asked: Option<&str>, id: &str, takes_id: bool) -> Result<()> {
    match asked {
        Some(asked) if asked != id => {
            let error = Error::new(
                ErrorKind::Conflict,
                "this plan_id is not that of what would be done now, and nothing was done",
            );
            let advice = "look at the plan again: call it without plan_id";
            Err(Failure::hinted(error, Advice::calls(advice)))
        }
        None if takes_id => {
            let error = Error::invalid("this overwrites or deletes files, so it takes a plan_id");
            Err(Failure::hinted(error, Advice::calls("call it without dry_run first")))
        }
        _ => Ok(()),
    }
}
