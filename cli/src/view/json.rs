//! The records that `--json` prints: one type each, specified in `format-spec/json.md`.
//!
//! Keys, their order and their meaning are stable as long as [`SCHEMA`] stays the same; new keys
//! may be added. Ids are full, times are RFC 3339, sizes are bytes.

mod adoption;
mod bisect;
mod branches;
mod bundles;
mod collection;
mod comparison;
mod damage;
mod effects;
mod exploration;
mod forgetting;
mod git;
mod hooks;
mod lessons;
mod maintenance;
mod merging;
mod modes;
mod objects;
mod operations;
mod outline;
mod payloads;
mod redaction;
mod remotes;
mod replaying;
mod restoration;
mod resume;
mod retention;
mod search;
mod secrets;
mod sessions;
mod snapshot_ids;
mod spiral;
mod swarm;
mod usage;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree_exchange::UnreadRecords;

pub(crate) use self::adoption::{
    AdoptedAgent, Adoption, AdoptionFailure, KeptOriginal, Reclaimed, ReclaimedOriginal,
    SurveyedProject, Sweep, WatchService,
};
pub(crate) use self::bisect::{Bisect, BisectAnswer, BisectNote, BisectReset, BisectTurn};
pub(crate) use self::branches::{
    BranchRecord, Branches, DeletedBranch, DeletedBranches, DeletedTag, DeletedTags, Edited,
    Forked, Tag, Tags,
};
pub(crate) use self::bundles::{
    BundleLabels, BundleParity, BundleRef, BundleShown, BundleVerified, BundleWritten,
    BundledOperation, UnbundlePlan,
};
pub(crate) use self::collection::{Collection, ParityPolicy, Stats};
pub(crate) use self::comparison::{
    Alignment, Comparison, Fork, FoundRuns, RunChoice, RunDecision, RunMeeting, RunPair, RunSplit,
    Strategy, Tokens,
};
pub(crate) use self::damage::{
    DamagedSession, Fsck, FsckFinding, MendedByParity, Repair, RepairedFile, RepairedRef,
};
pub(crate) use self::effects::LeftEffects;
pub(crate) use self::exploration::{Exploration, ExplorationStep, ExplorationTrial};
pub(crate) use self::forgetting::{Forgetting, ForgottenSession};
pub(crate) use self::git::{GitBranch, GitExported, GitImported, GitNote, GitRef, GitTag};
pub(crate) use self::hooks::{HookCheck, HookLog, HookSettings};
pub(crate) use self::lessons::{InjectedLessons, Lessons, LessonsChanged, ListedLesson};
pub(crate) use self::maintenance::Maintenance;
pub(crate) use self::merging::{
    MergeConflict, Merged, MergedFiles, MergedSection, OpenConflict, OpenConflicts, Picks, Resolved,
};
pub(crate) use self::modes::{ModesRecord, MovedBack};
pub(crate) use self::objects::{ObjectInfo, Parsed, ParsedRevision, Ref, Refs, Tree, TreeEntry};
pub(crate) use self::operations::{ChangedRef, Operation, OperationsForgotten, Undo};
pub(crate) use self::outline::OutlinePrompt;
pub(crate) use self::payloads::{
    Evicted, EvictedPayload, Eviction, Offloaded, Payload, Payloads, StoredPayload,
};
pub(crate) use self::redaction::{Position, Redaction, RedactionPlace, RedactionSource, Rewritten};
pub(crate) use self::remotes::{
    Cloned, Fetched, FetchedWhole, Pushed, RemoteBranch, RemoteChecked, RemoteCollected,
    RemoteMembers, RemoteRecord, RemoteRemoved, RemoteSet, Remotes, SessionDeleted, Synced,
    Unpushed,
};
pub(crate) use self::replaying::{ReplayDifference, Replayed};
pub(crate) use self::restoration::{
    Intent, LEAVE, Restoration, RestoredPrompt, WorkspaceChanges, action, reason,
};
pub(crate) use self::resume::Resumed;
pub(crate) use self::retention::{
    AvailableTurn, BudgetedSession, ExpiredSession, PinRecord, Pins, Policy, RetentionSet,
    RetentionShow, RetentionUnset, SessionPlan, SessionPolicy, StoreBudget, StorePolicySet, Unpin,
    Unpinned,
};
pub(crate) use self::search::{BlamedPart, GrepLine, GrepPlace, SearchHit, SnippetMatch};
pub(crate) use self::secrets::{
    SecretFinding, SecretPlace, SecretRule, SecretRules, SecretScan, SecretsRefused, SecretsSet,
};
pub(crate) use self::sessions::{
    DirectoryMap, MappedDirectory, SessionLabelled, SessionRecord, Sessions, ViewAddress,
};
pub(crate) use self::snapshot_ids::{CommitId, HeadId};
pub(crate) use self::spiral::SpiralRecord;
pub(crate) use self::swarm::{Reads, StaleRead};
pub(crate) use self::usage::{PricesUsed, SpendingRecord, UsageCheckRecord, UsageRecord};

/// Version of the records.
pub(crate) const SCHEMA: u32 = 2;

/// `version`.
#[derive(Serialize)]
pub(crate) struct VersionRecord {
    /// Version of the program.
    pub(crate) version: &'static str,
    /// The commit that it was built from, and the day of that commit, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) date: Option<&'static str>,
    /// Version of the store format it writes.
    pub(crate) format: u32,
    /// Version of these records.
    pub(crate) schema: u32,
}

/// `manual`.
#[derive(Serialize)]
pub(crate) struct ManualRecord {
    pub(crate) dir: String,
    pub(crate) pages: u64,
}

/// `demo`.
#[derive(Serialize)]
pub(crate) struct Demo {
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    /// Bytes of the transcript.
    pub(crate) input_bytes: u64,
    /// Bytes the store grew by.
    pub(crate) store_bytes: u64,
    /// Bytes of full copies of the context of every turn.
    pub(crate) full_bytes: u64,
}

/// `init`.
#[derive(Serialize)]
pub(crate) struct Initialised {
    /// Directory of the store.
    pub(crate) store: String,
    /// The encryption, done or planned.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) encryption: Option<KeyChanged>,
}

/// `key`, and `init --encrypt`: rewritten files.
#[derive(Serialize)]
pub(crate) struct KeyChanged {
    /// The name of the key that now encrypts them.
    pub(crate) key: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// `key ls`.
#[derive(Serialize)]
pub(crate) struct Keys {
    pub(crate) encrypted: bool,
    /// The name of the key of the store.
    pub(crate) key: Option<String>,
    pub(crate) holders: Vec<KeyHolder>,
}

/// A holder of a store's key.
#[derive(Serialize)]
pub(crate) struct KeyHolder {
    pub(crate) name: String,
    /// The public key; without one it is a passphrase.
    pub(crate) public: Option<String>,
    /// True if this key opened the store now.
    pub(crate) used: bool,
}

/// `import`.
#[derive(Serialize)]
pub(crate) struct Imported {
    pub(crate) session: String,
    /// Branch in the session.
    pub(crate) branch: String,
    /// Name of the transcript format.
    pub(crate) format: &'static str,
    /// Commits made: turns and compactions.
    pub(crate) turns: u64,
    /// Messages in them.
    pub(crate) messages: u64,
    /// Newest snapshot of the branch.
    #[serde(flatten)]
    pub(crate) at: HeadId,
    /// Bytes of the transcript.
    pub(crate) input_bytes: u64,
    /// Bytes the store grew by.
    pub(crate) new_bytes: u64,
    /// Records of unknown kinds, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unread: BTreeMap<String, u64>,
    /// The import of a directory.
    #[serde(flatten)]
    pub(crate) folder: Option<ImportedFolder>,
    /// Other branches that got turns, for a file with several histories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) other_branches: Vec<ImportedBranch>,
}

/// Returns the number of records of each unknown kind.
pub(crate) fn unread_kinds(unread: &UnreadRecords) -> BTreeMap<String, u64> {
    unread.kinds().map(|(kind, count)| (kind.to_owned(), count)).collect()
}

/// A branch that got turns from `import`.
#[derive(Serialize)]
pub(crate) struct ImportedBranch {
    pub(crate) session: String,
    pub(crate) branch: String,
    /// Commits made.
    pub(crate) turns: u64,
    /// Messages in them.
    pub(crate) messages: u64,
    /// Newest snapshot of the branch.
    #[serde(flatten)]
    pub(crate) at: HeadId,
}

/// `import` of a directory.
#[derive(Serialize)]
pub(crate) struct ImportedFolder {
    pub(crate) payloads: u64,
    pub(crate) memories: u64,
    pub(crate) notes: u64,
}

/// `snapshot`, `fork`, `switch`: a branch's position.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Moved {
    /// The commit; `null` on a branch without one.
    pub(crate) id: Option<String>,
    pub(crate) session: String,
    /// Branch in the session.
    pub(crate) branch: String,
    /// Turn of the commit.
    pub(crate) turn: Option<u64>,
    /// The pin on it, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pin: Option<String>,
    /// The capture of a workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<Workspace>,
    /// The check of usage, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) watch: Option<Watched>,
}

/// The check of usage against thresholds.
#[derive(Serialize, JsonSchema, Clone)]
pub(crate) struct Watched {
    /// True if the snapshot was taken.
    pub(crate) taken: bool,
    /// `crossed`; `below`, `above`, `cooling` or `empty` if not taken.
    pub(crate) reason: &'static str,
    /// Share of the context that is used.
    pub(crate) usage: f64,
    /// The crossed threshold: `auto`, `before-overflow` or `emergency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) level: Option<&'static str>,
    /// The share where it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<f64>,
    /// The end of the cooldown, if cooling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
}

/// A captured directory.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Workspace {
    /// Files and links that the snapshot holds as on disk.
    pub(crate) files: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Files that were read.
    pub(crate) read: u64,
    /// New files, and files with changed content or mode.
    pub(crate) changed: u64,
    pub(crate) removed: u64,
    pub(crate) skipped: Vec<Skipped>,
    /// True if time ran out before all files were read.
    pub(crate) unfinished: bool,
}

/// A path that a capture skipped.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Skipped {
    /// Relative path.
    pub(crate) path: String,
    pub(crate) reason: String,
}

impl Moved {
    /// The record of `branch` at this commit and turn.
    pub(crate) fn new(tip: Option<(ObjectId, u64)>, branch: &BranchName) -> Self {
        Self {
            id: tip.map(|(id, _)| id.to_string()),
            session: branch.session().to_owned(),
            branch: branch.branch().to_owned(),
            turn: tip.map(|(_, turn)| turn),
            pin: None,
            workspace: None,
            watch: None,
        }
    }
}

/// The author of a snapshot.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Author {
    pub(crate) agent: String,
    pub(crate) model: String,
}

/// One line of `log`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LogLine {
    pub(crate) id: String,
    pub(crate) parents: Vec<String>,
    pub(crate) session: String,
    /// Branch of the walk; `null` if no branch has the commit.
    pub(crate) branch: Option<String>,
    pub(crate) turn: u64,
    pub(crate) time: String,
    pub(crate) trigger: &'static str,
    pub(crate) message: String,
    /// Messages of all agents in the context; `null` if elided.
    pub(crate) messages: Option<u64>,
    pub(crate) author: Author,
    /// Tokens of the context, if recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<u64>,
    /// `expired` or `redacted` if it has no context.
    pub(crate) elided: Option<&'static str>,
    /// True if this turn has a prompt of the user.
    pub(crate) is_prompt: bool,
    /// The number of that prompt on the branch; `null` for other turns.
    pub(crate) prompt: Option<u64>,
    /// Usage of its answers, if they report it. Not in service answers.
    #[schemars(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<SpendingRecord>,
}

/// `show` of a revision.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Overview {
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) turn: u64,
    pub(crate) time: String,
    pub(crate) agents: BTreeMap<String, AgentRecord>,
    pub(crate) files: u64,
    pub(crate) scratchpad: u64,
    pub(crate) memory: u64,
    pub(crate) vfs: u64,
    /// Open conflicts.
    pub(crate) conflicts: u64,
}

/// An agent of a context.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentRecord {
    pub(crate) messages: u64,
}

/// `show` of one entry.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EntryRecord {
    /// Snapshot that it was read from.
    #[serde(flatten)]
    pub(crate) at: CommitId,
    pub(crate) path: String,
    /// Blob with the content.
    pub(crate) blob: String,
    pub(crate) size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    /// Format of the record, for messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<String>,
    /// The branch from which a merge took a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    /// The content, for messages their text; `null` if it is not text.
    pub(crate) text: Option<String>,
}

/// `ls`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Listing {
    /// Snapshot that it was read from.
    #[serde(flatten)]
    pub(crate) at: CommitId,
    pub(crate) path: String,
    pub(crate) entries: Vec<ListedEntry>,
}

/// An entry of a folder or section.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedEntry {
    /// Name below the path; for items of a list the index.
    pub(crate) name: String,
    /// `folder`, `section`, `file`, `link`, `entry` or `message`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// Blob with the content, of an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blob: Option<String>,
    /// Root of the tree, of a section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<String>,
    /// Bytes, for files and links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    /// Entries, for sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    /// One line, for messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
}

/// One section of `diff`; the record maps section names to these.
#[derive(Serialize, Default, JsonSchema)]
pub(crate) struct SectionDiff {
    pub(crate) added: Vec<Changed>,
    pub(crate) removed: Vec<Changed>,
    pub(crate) changed: Vec<Changed>,
}

/// A change of an entry by its key, or of an item of a list by index and blob.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Changed {
    Key(String),
    Item { index: u64, blob: String },
    Message { agent: String, index: u64, blob: String },
}

/// `status`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Status {
    pub(crate) store: String,
    pub(crate) session: String,
    /// HEAD's branch in the session.
    pub(crate) branch: String,
    /// Its newest snapshot; `null` if it has none.
    #[serde(flatten)]
    pub(crate) at: HeadId<Option<String>>,
    pub(crate) turn: Option<u64>,
    pub(crate) time: Option<String>,
    /// Messages of all agents in the context.
    pub(crate) messages: u64,
    pub(crate) sessions: u64,
    pub(crate) branches: u64,
    /// Open conflicts on HEAD's branch.
    pub(crate) conflicts: u64,
    /// The mode for imported secrets, if it is not `warn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) secrets: Option<&'static str>,
    /// Unsaved changes of the workspace, if a command read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<UnsavedFiles>,
    /// Remotes with unpushed branches, as last seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub(crate) unpushed: Vec<Unpushed>,
    /// The last attempt of automatic maintenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) maintenance: Option<Maintenance>,
    /// Why the store is not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) untrusted: Option<String>,
}

/// `trust`.
#[derive(Serialize)]
pub(crate) struct TrustedStore {
    pub(crate) store: String,
    /// The directory with the file that names the store.
    pub(crate) pointer: Option<String>,
    pub(crate) trusted: bool,
    pub(crate) remotes: Vec<TrustedRemote>,
}

/// A trusted remote of a store.
#[derive(Serialize)]
pub(crate) struct TrustedRemote {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) auto: bool,
}

/// `trust --list`.
#[derive(Serialize)]
pub(crate) struct TrustedStores {
    pub(crate) stores: Vec<TrustedStore>,
}

/// The workspace of `status`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UnsavedFiles {
    pub(crate) dir: String,
    /// Files that differ from the newest snapshot.
    pub(crate) differing: u64,
    /// True if time ran out before all were read.
    pub(crate) unfinished: bool,
}

/// `restore --to`.
#[derive(Serialize)]
pub(crate) struct Restored {
    #[serde(flatten)]
    pub(crate) at: CommitId,
    pub(crate) target: String,
    pub(crate) dry_run: bool,
    pub(crate) files: Vec<RestoredFile>,
    /// Files written.
    pub(crate) written: u64,
    /// Files that already had this content.
    pub(crate) kept: u64,
    /// Bytes written.
    pub(crate) bytes: u64,
}

/// One file of `restore --to`.
#[derive(Serialize)]
pub(crate) struct RestoredFile {
    pub(crate) path: String,
    /// `create`, `overwrite` or `keep`.
    pub(crate) action: &'static str,
}

/// `export` into a file, and `share`.
#[derive(Serialize)]
pub(crate) struct ExportRecord {
    #[serde(flatten)]
    pub(crate) at: CommitId,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Messages after the import of the transcript, which are not in its format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) newer_messages: Option<u64>,
    /// Lines left empty for lost content if no turn is whole: the first and the last of each run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) lost_lines: Vec<(u64, u64)>,
    /// True if a browser was started; only if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opened: Option<bool>,
    /// The end of an address that opens an encrypted page; only for `share`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}
