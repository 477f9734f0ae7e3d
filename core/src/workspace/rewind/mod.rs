//! A rewind: restores a branch and the files of its workspace to an earlier state, as one operation
//! that can be undone.
//!
//! ```text
//!  T  the tip                      refs/heads/s/main   T -> R
//!  |\
//!  | B  the workspace as it was    refs/before/s/main    -> B
//!  R    the state that came back
//! ```
//!
//! 1. **Plan.** Reads everything to restore, captures the workspace, and compares each differing
//!    file with the capture.
//! 2. **Commit.** Commits and refs become durable in one operation. From now on the previous files
//!    of the workspace are in the store.
//! 3. **Apply.** Files are written and deleted. A killed process leaves each file in its old or new
//!    state, and the same rewind completes the rest.
//!
//! The directory is named by the caller, or was captured by this store on this machine
//! ([`expect_own_directory`]). A directory that an imported snapshot names is refused.
//!
//! One rule limits a plan ([docs/reference/safety.md](../../../../docs/reference/safety.md)): it changes only paths
//! that were just captured, by the rules of the directory, of `T` and of the target state. Paths
//! that any of these ignore stay, and are not captured. Files are deleted only if the target state
//! is a whole workspace ([`whole_workspace`](crate::repo::Repository::whole_workspace)).
//!
//! An undo sets the branch back and restores the files from `refs/before`, after capturing the
//! workspace again. So an undo can be undone in the same way.

mod apply;
mod changes;
mod check_readable;
mod own_directory;
mod plan;
mod worktree;

pub use self::apply::AppliedFiles;
pub use self::changes::{ChangeKind, FileChange, FileChanges, UntouchedFile};
pub use self::own_directory::expect_own_directory;
pub use self::plan::{
    KeptWorkspace, PreparedRewind, RewindChanges, RewindReport, RewindRequest, WorkspaceBackup,
    is_undo_unfinished, prepare_rewind, prepare_undo, prepare_undo_rest,
};
pub use self::worktree::{PreparedMerge, lay_out_files, prepare_merge};
