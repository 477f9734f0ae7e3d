//! Bounded storage: decides what stays and frees the rest, always with a plan first.
//!
//! ```text
//!  refs, operations ──> roots ──> commit graph ──┐
//!  policies ─────────────────────────────────────┴──> retention plan ──> which trees stay
//!                                                                             │
//!  packs <── collection <── layout <── which files <── mark: what is reached <┘
//! ```
//!
//! [`Roots`] are all objects that must stay, with reasons. A [`Policy`] defines how much of the
//! rest a session keeps, and [`plan_retention`] applies it to the commit graph. An expired turn
//! loses its tree and keeps its commit: reading it reports that it expired, and the turns that are
//! still available. Turns that expired long ago lose even their commit.
//!
//! [`collect`] then marks reachable objects, chooses files, and replaces them with a pack, for one
//! of three purposes: to free garbage, to store everything in one tier, or to do a bounded part of
//! both, which [`auto`] does when it is due. [`stats`] measures the bytes, [`fsck`] checks that all
//! required objects exist, [`repair`] restores everything that verifies, and [`redact`] removes
//! content from everything. All of them plan first.
//!
//! ```
//! use turntree::maintenance::{Policies, Policy, Roots, Scope, plan_retention, set_policy};
//! # use std::sync::Arc;
//! # use turntree::object::Time;
//! # use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft};
//! # use turntree::store::{NewStore, OpenOptions, RealIo};
//!
//! # let folder = tempfile::tempdir().map_err(|error| turntree::Error::io("make a folder", error))?;
//! # let stamp = Signature { time: Time::default(), actor: "me".into() };
//! # let (io, new) = (Arc::new(RealIo), NewStore { id: [1; 16] });
//! # let repo = Repository::init(io, &folder.path().join("s"), &new, OpenOptions::new([2; 16]))?;
//! # for turn in 1..=50 {
//! #     let mut change = repo.begin();
//! #     let mut context = turntree::context::Builder::new();
//! #     context.set_entry(&mut change, "scratchpad", "turn", Some(turn.to_string().into()))?;
//! #     let tree = context.write(&mut change)?;
//! #     change.snapshot(&BranchName::main("demo")?, SnapshotDraft::new(tree, "turn", &stamp))?;
//! #     change.commit(&stamp, "snapshot")?;
//! # }
//! let mut change = repo.begin();
//! let policy = Policy { keep_last: Some(10), ..Policy::default() };
//! set_policy(&mut change, Scope::Session("demo"), &policy)?;
//! change.commit(&stamp, "retention set demo")?;
//!
//! let (refs, store, now) = (repo.refs(), repo.store(), stamp.time.micros);
//! let roots = Roots::find(store, &refs, now)?;
//! let policies = Policies::load(store, &refs)?;
//! let is_gone = |tree: &_| store.tombstone(tree).is_some();
//! let plan = plan_retention(&roots, &policies, now, &is_gone, None)?;
//! // The newest 20 operations are kept whole, for undo.
//! let line = "session demo: 30 of 50 turns expire, turns 1 to 30; 10 turns for undo also stay";
//! assert_eq!(plan.sessions[0].to_string(), line);
//! # Ok::<(), turntree::Error>(())
//! ```

mod accept_loss;
pub mod auto;
mod budget_plan;
mod budget_setting;
mod choose;
mod cohorts;
mod collect;
mod collection_plan;
mod context_sizes;
mod detached_operations;
mod evict;
mod expire_sessions;
mod finding;
mod fit;
mod forget;
mod forget_choice;
mod freed_sessions;
mod fsck;
mod full_copies;
mod fullness;
mod graph;
mod last_step;
mod layout;
mod mark;
mod marked;
mod newest_time;
mod node_versions;
mod packed_cost;
mod parity_policy;
mod plan;
mod plan_turns;
mod policy;
mod reachability;
mod redact;
mod repair;
mod repair_commit;
mod retention;
mod roots;
mod sections;
mod session_sizes;
mod stats;
#[cfg(test)]
mod steps;
mod store_budget;
#[cfg(test)]
mod tests;
mod usage;
mod walk;
mod whole_objects;
mod whole_turns;

pub use budget_plan::{BudgetPlan, BudgetedSession, EnforcedBudget, SessionSize};
pub use budget_setting::{set_store_budget, store_budget};
pub use collect::{Collected, plan_collection, plan_collection_after};
pub use collection_plan::{
    CollectionPlan, Fate, KnownLossesPlan, ObjectsSize, Purpose, StoreFilePlan,
};
pub use evict::{Eviction, EvictionLimits, EvictionPlan, evict, plan_eviction};
pub use expire_sessions::{ExpiredSession, GRACE_MICROS, plan_expired_sessions, plan_expiring};
pub use finding::{FsckFinding, FsckKind};
pub use fit::{Cost, PricedTurn};
pub use forget_choice::MAX_EXPIRED;
pub use fsck::{FsckReport, MendedByParity, fsck};
pub use fullness::{CROWDED_PERCENT, Fullness};
pub use last_step::{LastStep, StepOutcome};
pub use newest_time::newest_time;
pub use parity_policy::{ParityPolicy, parity_policy, set_parity_policy};
pub use plan::{ElidedTurn, Keep, RetentionPlan, SessionPlan};
pub use plan_turns::plan_policies;
pub use policy::{Policies, Policy, Scope, Thin, remove_policy, set_policy};
pub use redact::{
    DEFAULT_REPLACEMENT, Layer, MatchField, MatchLocation, Pattern, PatternMatch, Redacted,
    RedactionPlace, RedactionPlan, Rewritten, each_layer, plan_redaction, redact,
};
pub use repair::{Loss, RefRepair, RepairPlan, Repaired, plan_repair, repair};
pub use retention::plan_retention;
pub use roots::{MAX_OPERATIONS, MIN_OPERATIONS, PROTECTED_OPERATIONS, Reason, Roots};
pub use session_sizes::{SessionSizes, measure_sessions};
pub use stats::stats;
pub use store_budget::{
    apply_store_budget, collect, enforce_store_budget, plan_store_budget, planned_store_budget,
};
pub use usage::{LargeObject, SessionStats, Stats, StorageUsage};
pub use whole_turns::{SessionDamage, newest_whole_turn};
