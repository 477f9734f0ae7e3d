//! The records of `gc`, `repack` and `stats`.

use std::collections::BTreeMap;

use serde::Serialize;
use turntree::maintenance::{self, CollectionPlan, StoreFilePlan};
use turntree::object::Time;
use turntree::store::Tier;

use super::{ExpiredSession, OperationsForgotten, SessionPlan, StoreBudget};
use crate::view::clock::rfc3339;
use crate::view::render::collection::{Done, fate_name};

/// `gc` and `repack`: the plan of the first step, and the result.
#[derive(Serialize)]
pub(crate) struct Collection {
    pub(crate) dry_run: bool,
    /// `hot`, `compacted` or `archive`: the storage of the new pack; `null` if there is none.
    pub(crate) tier: Option<&'static str>,
    /// Maximum additional bytes of disk that the step needs.
    pub(crate) needed_bytes: u64,
    /// True if more steps follow the first one.
    pub(crate) partial: bool,
    /// Each session with a policy.
    pub(crate) sessions: Vec<SessionPlan>,
    /// Sessions that expire.
    pub(crate) expired_sessions: Vec<ExpiredSession>,
    /// Warnings for people: budgets that cannot be met.
    pub(crate) notes: Vec<String>,
    pub(crate) files: Vec<CollectedFile>,
    /// Reachable objects; `null` if there was nothing to do.
    pub(crate) live: Option<ObjectsSize>,
    /// Unreachable objects.
    pub(crate) garbage: Option<ObjectsSize>,
    /// Objects recorded as lost.
    pub(crate) lost: Option<u64>,
    /// Unreachable objects in `live`, kept because lost objects may reference them.
    pub(crate) kept_for_lost: Option<ObjectsSize>,
    /// Operations forgotten together with it, with `--now`; otherwise `null`.
    pub(crate) forgotten: Option<OperationsForgotten>,
    /// The effect of the store's budget; `null` if there is none or the store is within it.
    pub(crate) budget: Option<StoreBudget>,
    #[serde(flatten)]
    pub(crate) done: Option<CollectionDone>,
}

impl From<&maintenance::ExpiredSession> for ExpiredSession {
    fn from(expired: &maintenance::ExpiredSession) -> Self {
        let session = expired.session.clone();
        Self { session, time: rfc3339(expired.time), at_once: expired.at_once }
    }
}

/// The result of a collection.
#[derive(Serialize)]
pub(crate) struct CollectionDone {
    /// Packs written.
    pub(crate) steps: u64,
    pub(crate) expired_turns: u64,
    /// Freed garbage.
    pub(crate) freed: ObjectsSize,
    /// Bytes of new packs.
    pub(crate) written_bytes: u64,
    /// Bytes of all files before and after.
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    /// Bytes of parity among them, afterwards.
    pub(crate) parity_bytes: u64,
    /// Packs that were kept and got new parity.
    pub(crate) protected_packs: u64,
}

/// The action for a file.
#[derive(Serialize)]
pub(crate) struct CollectedFile {
    pub(crate) name: String,
    /// `null` for a segment of the journal.
    pub(crate) tier: Option<&'static str>,
    pub(crate) bytes: u64,
    pub(crate) live: ObjectsSize,
    pub(crate) garbage: ObjectsSize,
    /// `keep`, `rewrite` or `in-use`.
    pub(crate) action: &'static str,
}

/// A number of objects and their bytes on disk.
#[derive(Serialize)]
pub(crate) struct ObjectsSize {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl From<maintenance::ObjectsSize> for ObjectsSize {
    fn from(amount: maintenance::ObjectsSize) -> Self {
        Self { objects: amount.objects, bytes: amount.bytes }
    }
}

impl Collection {
    /// Describes `plan` if there was anything to do, and the result unless this is a dry run.
    pub(crate) fn new(plan: Option<&CollectionPlan>, done: Option<&Done>) -> Self {
        // Reports everything that expired, not only the rest before the first step.
        let of_all = done.and_then(|done| done.collected.retention.as_ref());
        let retention = of_all.or(plan.map(|plan| &plan.retention));
        let sessions = retention.into_iter().flat_map(|retention| &retention.sessions);
        let files = plan.into_iter().flat_map(|plan| &plan.files);
        let done_record = done.map(|done| CollectionDone {
            steps: done.collected.steps,
            expired_turns: done.collected.expired_turns,
            freed: done.collected.freed.into(),
            written_bytes: done.collected.written_bytes,
            bytes_before: done.bytes_before,
            bytes_after: done.bytes_after,
            parity_bytes: done.parity_bytes,
            protected_packs: done.collected.protected_packs,
        });
        Self {
            dry_run: done.is_none(),
            tier: plan.filter(|plan| !plan.is_empty()).map(|plan| plan.tier.name()),
            needed_bytes: plan.map_or(0, CollectionPlan::needed_bytes),
            partial: plan.is_some_and(|plan| plan.partial),
            sessions: sessions.map(SessionPlan::from).collect(),
            notes: retention.map(|retention| retention.notes.clone()).unwrap_or_default(),
            files: files.map(CollectedFile::from).collect(),
            live: plan.map(|plan| plan.live.into()),
            garbage: plan.map(|plan| plan.garbage.into()),
            lost: plan.map(|plan| plan.holes.lost),
            kept_for_lost: plan.map(|plan| plan.holes.spared.into()),
            expired_sessions: Vec::new(),
            forgotten: None,
            budget: None,
            done: done_record,
        }
    }
}

impl From<&maintenance::SessionPlan> for SessionPlan {
    fn from(plan: &maintenance::SessionPlan) -> Self {
        Self {
            session: plan.session.clone(),
            kept: plan.kept,
            expiring: plan.expiring,
            expired: plan.expired,
            first: plan.span.map(|(first, _)| first),
            last: plan.span.map(|(_, last)| last),
            protected: plan.spared.iter().map(|(why, n)| (why.name(), *n)).collect(),
            bytes: plan.bytes,
        }
    }
}

impl From<&StoreFilePlan> for CollectedFile {
    fn from(file: &StoreFilePlan) -> Self {
        Self {
            name: file.name.clone(),
            tier: file.tier.map(Tier::name),
            bytes: file.bytes,
            live: file.live.into(),
            garbage: file.garbage.into(),
            action: fate_name(file.fate),
        }
    }
}

/// The parity policy of a store.
#[derive(Serialize)]
pub(crate) struct ParityPolicy {
    /// The minimum parity of every new pack.
    pub(crate) percent: u8,
    pub(crate) packs: usize,
    /// Older packs with less.
    pub(crate) packs_below: usize,
}

impl From<&maintenance::ParityPolicy> for ParityPolicy {
    fn from(policy: &maintenance::ParityPolicy) -> Self {
        let maintenance::ParityPolicy { share, packs, packs_below } = *policy;
        Self { percent: share.percent(), packs, packs_below }
    }
}

/// `stats`.
#[derive(Serialize)]
pub(crate) struct Stats {
    pub(crate) sessions: Vec<SessionStats>,
    /// The log of operations.
    pub(crate) operations: ObjectsUsage,
    /// Objects of no session: tags, pins, policies, objects of uncommitted transactions.
    pub(crate) other: ObjectsUsage,
    /// Objects referenced only by turns that expire with the next `gc`.
    pub(crate) expiring: ObjectsSize,
    /// Unreachable objects.
    pub(crate) garbage: ObjectsSize,
    pub(crate) files: Vec<CollectedFile>,
    /// Bytes of the parity of packs.
    pub(crate) parity_bytes: u64,
    /// Bytes of the history indexes of packs.
    pub(crate) history_index_bytes: u64,
    /// Bytes of the ids of packs without an id list, in separate files.
    pub(crate) ids_bytes: u64,
    pub(crate) parity_policy: Option<ParityPolicy>,
    /// Largest first.
    pub(crate) largest: Vec<LargeObject>,
}

/// A session of `stats`.
#[derive(Serialize)]
pub(crate) struct SessionStats {
    pub(crate) session: String,
    pub(crate) branches: u64,
    /// Turns with content.
    pub(crate) turns: u64,
    /// Turns that expire with the next `gc`.
    pub(crate) expiring: u64,
    /// Turns whose content was dropped.
    pub(crate) elided: u64,
    pub(crate) pins: u64,
    /// Time of the oldest turn with content.
    pub(crate) oldest: Option<String>,
    /// All objects counted for the session.
    pub(crate) total: ObjectsUsage,
    pub(crate) commits: ObjectsUsage,
    /// Nodes that connect contexts.
    pub(crate) contexts: ObjectsUsage,
    pub(crate) sections: BTreeMap<String, ObjectsUsage>,
    /// The part of it that other sessions share.
    pub(crate) shared: ObjectsUsage,
    /// Bytes of a full copy of the context of every turn.
    pub(crate) full_bytes: u64,
    /// Bytes of a full copy after every message.
    pub(crate) per_message_bytes: u64,
}

/// Objects, their raw bytes, and their bytes on disk.
#[derive(Serialize)]
pub(crate) struct ObjectsUsage {
    pub(crate) objects: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) stored_bytes: u64,
}

/// One of the largest objects.
#[derive(Serialize)]
pub(crate) struct LargeObject {
    pub(crate) id: String,
    pub(crate) session: String,
    /// Section, with its key if that is a map.
    pub(crate) path: String,
    pub(crate) raw_bytes: u64,
    pub(crate) stored_bytes: u64,
}

impl From<maintenance::StorageUsage> for ObjectsUsage {
    fn from(usage: maintenance::StorageUsage) -> Self {
        let maintenance::StorageUsage { objects, raw_bytes, stored_bytes } = usage;
        Self { objects, raw_bytes, stored_bytes }
    }
}

impl From<&maintenance::Stats> for Stats {
    fn from(stats: &maintenance::Stats) -> Self {
        let largest = stats.largest.iter().map(|large| LargeObject {
            id: large.id.to_string(),
            session: large.session.clone(),
            path: large.path.clone(),
            raw_bytes: large.raw_bytes,
            stored_bytes: large.stored_bytes,
        });
        Self {
            sessions: stats.sessions.iter().map(SessionStats::from).collect(),
            operations: stats.operations.into(),
            other: stats.other.into(),
            expiring: stats.expiring.into(),
            garbage: stats.garbage.into(),
            files: stats.files.iter().map(CollectedFile::from).collect(),
            parity_bytes: stats.parity_bytes,
            history_index_bytes: stats.history_index_bytes,
            ids_bytes: stats.ids_bytes,
            parity_policy: stats.parity_policy.as_ref().map(ParityPolicy::from),
            largest: largest.collect(),
        }
    }
}

impl From<&maintenance::SessionStats> for SessionStats {
    fn from(stats: &maintenance::SessionStats) -> Self {
        let oldest = stats.oldest_micros.map(|micros| Time { micros, offset_minutes: 0 });
        let sections = stats.sections.iter();
        Self {
            session: stats.session.clone(),
            branches: stats.branches,
            turns: stats.turns,
            expiring: stats.expiring,
            elided: stats.elided,
            pins: stats.pins,
            oldest: oldest.map(rfc3339),
            total: stats.total().into(),
            commits: stats.commits.into(),
            contexts: stats.contexts.into(),
            sections: sections.map(|(name, usage)| (name.clone(), (*usage).into())).collect(),
            shared: stats.shared.into(),
            full_bytes: stats.full_bytes,
            per_message_bytes: stats.per_message_bytes,
        }
    }
}
