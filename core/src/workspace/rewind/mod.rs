//! A rewind: a branch and the files of its workspace, back at an earlier state, as one operation
//! that can be undone.
//!
//! ```text
//!  T  the tip                      refs/heads/s/main   T -> R
//!  |\
//!  | B  the workspace as it was    refs/before/s/main    -> B
//!  R    the state that came back
//! ```
//!
//! 1. **Plan.** Everything that comes back is read, the workspace is captured, and each file that
//!    differs is compared with what was captured.
//! 2. **Commit.** Commits and refs become durable in one operation. From here on the files that
//!    were in the workspace are in the store.
//! 3. **Apply.** Files are written and deleted. A killed process leaves each file as it was or as
//!    it should be, and the same rewind finishes the rest.
//!
//! The directory is one that the caller names, or that the store captured on this machine
//! ([`expect_own_directory`]): one that came with a snapshot of others is none.
//!
//! What a plan may touch is one rule ([docs/safety.md](../../../../docs/safety.md)): only a path that was
//! captured a moment ago, by rules of the directory, of `T` and of the state that comes back. What any
//! of them ignores stays, and is not captured on the way. Files are deleted only if the state that
//! comes back is a whole workspace ([`whole_workspace`](crate::repo::Repository::whole_workspace)).
//!
//! An undo sets the branch back and brings the files back from `refs/before`, after capturing the
//! workspace again. So an undo can be undone in the same way.

mod apply;
mod changes;
mod place;
mod plan;
mod readable;
mod worktree;

pub use self::apply::AppliedFiles;
pub use self::changes::{ChangeKind, FileChange, FileChanges, UntouchedFile};
pub use self::place::expect_own_directory;
pub use self::plan::{
    KeptWorkspace, PreparedRewind, RewindChanges, RewindReport, RewindRequest, WorkspaceBackup,
    is_undo_unfinished, prepare_rewind, prepare_undo, prepare_undo_rest,
};
pub use self::worktree::{PreparedMerge, lay_out_files, prepare_merge};
