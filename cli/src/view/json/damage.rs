//! The records of `fsck` and `repair`.

use serde::Serialize;
use turntree::maintenance::SessionDamage;

use super::{AvailableTurn, ChangedRef, ParityPolicy};

/// `fsck`.
#[derive(Serialize)]
pub(crate) struct Fsck {
    /// True when nothing is damaged or lost.
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
    /// What a repair mends by parity, where parity can help.
    pub(crate) mended_by_parity: Option<MendedByParity>,
}

/// Damage that a repair mends by parity.
#[derive(Serialize)]
pub(crate) struct MendedByParity {
    pub(crate) packs: Vec<String>,
    /// The number of findings that are gone then.
    pub(crate) findings: u64,
    /// True if no damage is left then.
    pub(crate) all: bool,
}

/// A session with lost turns.
#[derive(Serialize)]
pub(crate) struct DamagedSession {
    pub(crate) session: String,
    pub(crate) lost: Vec<LostTurns>,
    /// True when commits are lost, too, and with them the numbers of their turns.
    pub(crate) lost_commits: bool,
    pub(crate) newest_whole: Option<AvailableTurn>,
}

/// Turns that follow each other.
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
    /// True when nothing is damaged or lost afterwards.
    pub(crate) ok: bool,
    pub(crate) dry_run: bool,
    pub(crate) files: Vec<RepairedFile>,
    /// Packs that no manifest listed and that are in use again.
    pub(crate) listed: Vec<String>,
    /// True when the refs of the manifest lacked operations in files that it lists.
    pub(crate) refs_behind: bool,
    /// Operations that the newest one did not follow.
    pub(crate) rejoined: Vec<String>,
    /// Refs that get back what these gave them.
    pub(crate) rejoined_refs: Vec<ChangedRef>,
    pub(crate) refs: Vec<RepairedRef>,
    /// True when the refs were moved.
    pub(crate) refs_moved: bool,
    /// Objects that are written down as lost from now on, where that changed.
    pub(crate) accepted_losses: Option<u64>,
    /// The findings of `fsck` afterwards; in a plan, the coming losses.
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
    /// The damage, where nothing but its frames tells the content.
    pub(crate) problems: Vec<String>,
}

/// A ref that leads to something that is lost.
#[derive(Serialize)]
pub(crate) struct RepairedRef {
    pub(crate) name: String,
    pub(crate) old: String,
    /// The newest value that is whole.
    pub(crate) new: Option<String>,
    /// True if none is, and the ref keeps its value.
    pub(crate) stays: bool,
}
