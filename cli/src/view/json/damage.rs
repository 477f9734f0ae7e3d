//! The records of `fsck` and `repair`.

use serde::Serialize;
use turntree::maintenance::SessionDamage;

use super::{AvailableTurn, ChangedRef, ParityPolicy};

/// `fsck`.
#[derive(Serialize)]
pub(crate) struct Fsck {
    /// True if nothing is damaged or lost.
    pub(crate) ok: bool,
    pub(crate) objects: u64,
    pub(crate) commits: u64,
    /// Bytes of the files.
    pub(crate) bytes: u64,
    pub(crate) findings: Vec<FsckFinding>,
    pub(crate) operations: u64,
    /// Snapshots whose content was dropped by retention or redacted.
    pub(crate) expired: u64,
    /// Sessions with lost turns.
    pub(crate) sessions: Vec<DamagedSession>,
    /// The parity policy of the store.
    pub(crate) parity_policy: Option<ParityPolicy>,
    /// The damage that a repair can fix with parity, if any.
    pub(crate) mended_by_parity: Option<MendedByParity>,
}

/// Damage that a repair fixes with parity.
#[derive(Serialize)]
pub(crate) struct MendedByParity {
    pub(crate) packs: Vec<String>,
    /// The number of findings that it fixes.
    pub(crate) findings: u64,
    /// True if no damage is left after it.
    pub(crate) all: bool,
}

/// A session with lost turns.
#[derive(Serialize)]
pub(crate) struct DamagedSession {
    pub(crate) session: String,
    pub(crate) lost: Vec<LostTurns>,
    /// True if commits are lost too, and with them their turn numbers.
    pub(crate) lost_commits: bool,
    pub(crate) newest_whole: Option<AvailableTurn>,
}

/// Consecutive turns.
#[derive(Serialize)]
pub(crate) struct LostTurns {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl From<&SessionDamage> for DamagedSession {
    fn from(damage: &SessionDamage) -> Self {
        let lost = damage.lost.iter().map(|(first, last)| LostTurns { first: *first, last: *last });
        Self {
            session: damage.session.clone(),
            lost: lost.collect(),
            lost_commits: damage.lost_commits,
            newest_whole: damage
                .newest_whole
                .map(|turn| AvailableTurn { turn: turn.turn, id: turn.id.to_string() }),
        }
    }
}

/// One finding of `fsck` or `repair`.
#[derive(Serialize)]
pub(crate) struct FsckFinding {
    pub(crate) kind: &'static str,
    /// `damage` or `note`.
    pub(crate) severity: &'static str,
    /// File and offset, ref, or session with turn and section.
    pub(crate) place: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<String>,
}

/// `repair`.
#[derive(Serialize)]
pub(crate) struct Repair {
    /// True if nothing is damaged or lost afterwards.
    pub(crate) ok: bool,
    pub(crate) dry_run: bool,
    pub(crate) files: Vec<RepairedFile>,
    /// Packs that no manifest listed, and that are used again.
    pub(crate) listed: Vec<String>,
    /// True if the refs of the manifest lacked operations in listed files.
    pub(crate) refs_behind: bool,
    /// Operations that are not ancestors of the newest one.
    pub(crate) rejoined: Vec<String>,
    /// Refs that get their values from these operations.
    pub(crate) rejoined_refs: Vec<ChangedRef>,
    pub(crate) refs: Vec<RepairedRef>,
    /// True if the refs were moved.
    pub(crate) refs_moved: bool,
    /// The number of objects newly recorded as lost, if that changed.
    pub(crate) accepted_losses: Option<u64>,
    /// The findings of `fsck` afterwards; in a plan, the expected losses.
    pub(crate) findings: Vec<FsckFinding>,
}

/// A damaged file.
#[derive(Serialize)]
pub(crate) struct RepairedFile {
    pub(crate) file: String,
    /// `quarantine`, `missing`, `in-use`, or `remade` for a superblock.
    pub(crate) action: &'static str,
    /// Objects in it that verify.
    pub(crate) saved: u64,
    /// The damage, if the content of the file is known only from its frames.
    pub(crate) problems: Vec<String>,
}

/// A ref that reaches lost objects.
#[derive(Serialize)]
pub(crate) struct RepairedRef {
    pub(crate) name: String,
    pub(crate) old: String,
    /// Its newest whole value.
    pub(crate) new: Option<String>,
    /// True if there is none, and the ref keeps its value.
    pub(crate) stays: bool,
}
