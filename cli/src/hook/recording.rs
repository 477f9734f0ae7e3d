//! Locks of background processes that record on the branch that the environment names, so that a
//! program that runs agents can wait for the last turns of each.

use std::path::Path;

use turntree::repo::BranchName;
use turntree::workspace::Claim;

/// The background processes of a branch that are known to others. More than two at a time are rare.
const MAX_PROCESSES: usize = 8;

/// Takes a lock for a background process of the branch.
pub(super) fn hold(dir: &Path, branch: &BranchName) -> Option<Claim> {
    (0..MAX_PROCESSES).find_map(|place| Claim::take(dir, &name(branch, place)))
}

/// Returns true if a background process of a hook records on the branch.
pub(crate) fn is_recording(dir: &Path, branch: &BranchName) -> bool {
    (0..MAX_PROCESSES).any(|place| matches!(Claim::ask(dir, &name(branch, place)), Ok(None)))
}

fn name(branch: &BranchName, place: usize) -> String {
    format!("hook {place} on {branch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_recorded_until_the_last_process_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let branch = BranchName::new("s", "a").unwrap();
        let other = BranchName::new("s", "b").unwrap();
        assert!(!is_recording(dir.path(), &branch));
        let first = hold(dir.path(), &branch).unwrap();
        let second = hold(dir.path(), &branch).unwrap();
        assert!(!is_recording(dir.path(), &other));
        drop(first);
        assert!(is_recording(dir.path(), &branch));
        // A process that got the file has the lock, too.
        let theirs = second.handed_over().unwrap();
        assert!(is_recording(dir.path(), &branch));
        drop(theirs);
    }
}
