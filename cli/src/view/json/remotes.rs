//! The records of `remote`, `push`, `fetch`, `sync` and `clone`.

use serde::Serialize;

/// `remote ls`.
#[derive(Serialize)]
pub(crate) struct Remotes {
    pub(crate) remotes: Vec<RemoteRecord>,
}

/// `remote add`, and each remote of `remote ls`.
#[derive(Serialize)]
pub(crate) struct RemoteRecord {
    pub(crate) name: String,
    pub(crate) url: String,
    /// The identity of the remote, also in copies.
    pub(crate) id: String,
    /// True if large content is not fetched, but read on demand.
    pub(crate) lazy: bool,
    /// True if every turn is pushed automatically.
    pub(crate) auto: bool,
    /// True if its content is encrypted for its members.
    pub(crate) encrypted: bool,
    /// Sessions that it had when last seen.
    pub(crate) sessions: u64,
    /// Local branches that it lacked or had at another commit when last seen.
    pub(crate) unpushed: u64,
}

/// `fetch --whole`.
#[derive(Serialize)]
pub(crate) struct FetchedWhole {
    pub(crate) remote: String,
    pub(crate) whole: bool,
    /// Bytes of the bundles that were fetched for it.
    pub(crate) bytes: u64,
}

/// `remote set`.
#[derive(Serialize)]
pub(crate) struct RemoteSet {
    pub(crate) name: String,
    pub(crate) auto: bool,
}

/// `remote members`.
#[derive(Serialize)]
pub(crate) struct RemoteMembers {
    pub(crate) name: String,
    /// Increased by one with each removal of members.
    pub(crate) epoch: u32,
    /// True if a removal is unfinished.
    pub(crate) pending: bool,
    /// Their public keys.
    pub(crate) members: Vec<String>,
}

/// `remote rm`.
#[derive(Serialize)]
pub(crate) struct RemoteRemoved {
    pub(crate) name: String,
    pub(crate) removed: bool,
}

/// `remote check`.
#[derive(Serialize)]
pub(crate) struct RemoteChecked {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) sessions: u64,
    pub(crate) bundles: u64,
    pub(crate) bytes: u64,
    /// Keys of missing objects: of known heads, and of listed bundles.
    pub(crate) missing: Vec<String>,
    /// Keys of objects that do not verify, with the error.
    pub(crate) damaged: Vec<String>,
    /// Unlisted bundles, and their bytes.
    pub(crate) unlisted: u64,
    pub(crate) unlisted_bytes: u64,
}

/// The unpushed branches of a remote, in `status`.
#[derive(Serialize)]
pub(crate) struct Unpushed {
    pub(crate) remote: String,
    /// Local branches that it lacked or had at another commit when last seen.
    pub(crate) branches: u64,
}

/// `remote gc`.
#[derive(Serialize)]
pub(crate) struct RemoteCollected {
    pub(crate) name: String,
    pub(crate) dry_run: bool,
    pub(crate) sessions: u64,
    /// Unreachable bundles, and their bytes.
    pub(crate) bundles: u64,
    pub(crate) bytes: u64,
    /// Sessions whose bundles were folded into one.
    pub(crate) folded: u64,
    /// Heads that were rewritten, so that unfinished pushes start over.
    pub(crate) rewritten: u64,
    /// Keys of unknown objects, which are kept.
    pub(crate) unknown: Vec<String>,
}

/// `push --delete`, one per session.
#[derive(Serialize)]
pub(crate) struct SessionDeleted {
    pub(crate) remote: String,
    pub(crate) session: String,
    pub(crate) deleted: bool,
    pub(crate) generation: u64,
    pub(crate) branches: Vec<RemoteBranch>,
}

/// `push`, one per session.
#[derive(Serialize)]
pub(crate) struct Pushed {
    pub(crate) remote: String,
    pub(crate) session: String,
    /// The number of pushes of the session to the remote.
    pub(crate) generation: u64,
    /// Uploaded bytes.
    pub(crate) bytes: u64,
    pub(crate) branches: Vec<RemoteBranch>,
}

/// `fetch`, one per changed session.
#[derive(Serialize)]
pub(crate) struct Fetched {
    pub(crate) remote: String,
    pub(crate) session: String,
    /// Bundles that were read, and their bytes.
    pub(crate) bundles: u64,
    pub(crate) bytes: u64,
    /// True if the session was deleted on the remote since it was last seen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deleted: bool,
    pub(crate) branches: Vec<RemoteBranch>,
}

/// `sync`, one per session; `clone` has them without `pushed`.
#[derive(Serialize)]
pub(crate) struct Synced {
    pub(crate) remote: String,
    pub(crate) session: String,
    /// Branches fetched from the remote.
    pub(crate) followed: Vec<RemoteBranch>,
    /// Branches pushed to it.
    pub(crate) pushed: Vec<RemoteBranch>,
}

/// The change of a branch.
#[derive(Serialize)]
pub(crate) struct RemoteBranch {
    pub(crate) branch: String,
    /// `new`, `forward`, `same`, `behind`, `merged`, `moved` or `gone`.
    pub(crate) change: &'static str,
    /// Its commit before.
    pub(crate) before: Option<String>,
    /// Its commit now.
    pub(crate) id: Option<String>,
    /// Paths of open conflicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conflicts: Vec<String>,
}

/// `clone`.
#[derive(Serialize)]
pub(crate) struct Cloned {
    pub(crate) store: String,
    pub(crate) remote: String,
    pub(crate) sessions: u64,
    pub(crate) branches: u64,
    pub(crate) bytes: u64,
}
