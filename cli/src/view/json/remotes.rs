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
    /// Which remote it is, wherever it is copied to.
    pub(crate) id: String,
    /// True if what is large is not fetched, but read there when it is asked for.
    pub(crate) lazy: bool,
    /// True if every turn is pushed by itself.
    pub(crate) auto: bool,
    /// True if what lies there is encrypted for its members.
    pub(crate) encrypted: bool,
    /// Sessions that it had when it was last seen.
    pub(crate) sessions: u64,
    /// Branches here that it did not have as they are, when it was last seen.
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
    /// One more than members were removed.
    pub(crate) epoch: u32,
    /// True if a removal did not come to its end.
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
    /// Keys of heads that were there, and of bundles that are listed, and are not there.
    pub(crate) missing: Vec<String>,
    /// Keys whose contents do not verify, with what is wrong.
    pub(crate) damaged: Vec<String>,
    /// Bundles that nothing lists, and their bytes.
    pub(crate) unlisted: u64,
    pub(crate) unlisted_bytes: u64,
}

/// What a remote lacks, in `status`.
#[derive(Serialize)]
pub(crate) struct Unpushed {
    pub(crate) remote: String,
    /// Branches here that it did not have as they are, when it was last seen.
    pub(crate) branches: u64,
}

/// `remote gc`.
#[derive(Serialize)]
pub(crate) struct RemoteCollected {
    pub(crate) name: String,
    pub(crate) dry_run: bool,
    pub(crate) sessions: u64,
    /// Bundles that nothing led to, and their bytes.
    pub(crate) bundles: u64,
    pub(crate) bytes: u64,
    /// Sessions whose bundles were made one.
    pub(crate) folded: u64,
    /// Heads that were written again, so that a push which had not ended begins again.
    pub(crate) rewritten: u64,
    /// Keys of what no push made, which stays.
    pub(crate) unknown: Vec<String>,
}

/// `push --delete`, a line for each session.
#[derive(Serialize)]
pub(crate) struct SessionDeleted {
    pub(crate) remote: String,
    pub(crate) session: String,
    pub(crate) deleted: bool,
    pub(crate) generation: u64,
    pub(crate) branches: Vec<RemoteBranch>,
}

/// `push`, a line for each session.
#[derive(Serialize)]
pub(crate) struct Pushed {
    pub(crate) remote: String,
    pub(crate) session: String,
    /// How many pushes the session has had on the remote.
    pub(crate) generation: u64,
    /// Bytes that went out.
    pub(crate) bytes: u64,
    pub(crate) branches: Vec<RemoteBranch>,
}

/// `fetch`, a line for each session that changed.
#[derive(Serialize)]
pub(crate) struct Fetched {
    pub(crate) remote: String,
    pub(crate) session: String,
    /// Bundles that were read, and their bytes.
    pub(crate) bundles: u64,
    pub(crate) bytes: u64,
    /// True if the session was deleted there since it was last seen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deleted: bool,
    pub(crate) branches: Vec<RemoteBranch>,
}

/// `sync`, a line for each session; `clone` has them without `pushed`.
#[derive(Serialize)]
pub(crate) struct Synced {
    pub(crate) remote: String,
    pub(crate) session: String,
    /// What came in from the remote.
    pub(crate) followed: Vec<RemoteBranch>,
    /// What went out to it.
    pub(crate) pushed: Vec<RemoteBranch>,
}

/// What became of a branch.
#[derive(Serialize)]
pub(crate) struct RemoteBranch {
    pub(crate) branch: String,
    /// `new`, `forward`, `same`, `behind`, `merged`, `moved` or `gone`.
    pub(crate) change: &'static str,
    /// Where it was before.
    pub(crate) before: Option<String>,
    /// Where it is now.
    pub(crate) id: Option<String>,
    /// Paths of conflicts that wait for a decision.
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
