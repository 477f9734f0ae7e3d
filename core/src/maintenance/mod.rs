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
//! let (refs, now) = (repo.refs(), stamp.time.micros);
//! let roots = Roots::find(&repo, &refs, now)?;
//! let policies = Policies::load(&repo, &refs)?;
//! let is_gone = |tree: &_| repo.tombstone(tree).is_some();
//! let plan = plan_retention(&roots, &policies, now, &is_gone, None)?;
//! // The newest 20 operations are kept whole, for undo.
//! let line = "session demo: 30 of 50 turns expire, turns 1 to 30; 10 turns for undo also stay";
//! assert_eq!(plan.sessions[0].to_string(), line);
//! # Ok::<(), turntree::Error>(())
//! ```

mod budget_plan;
mod collect;
mod collection_plan;
mod expire;
mod keep;
mod mark;
mod measure;
mod redact;
mod repair;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;

pub use budget_plan::{BudgetPlan, BudgetedSession, EnforcedBudget, SessionSize};
pub use collect::auto;
pub use collect::collection::{Collected, plan_collection, plan_collection_after};
pub use collect::last_step::{LastStep, StepOutcome};
pub use collect::session_sizes::{SessionSizes, measure_sessions};
pub use collect::store_budget::{
    apply_store_budget, collect, plan_store_budget, planned_store_budget,
};
pub use collection_plan::{
    CollectionPlan, Fate, KnownLossesPlan, ObjectsSize, Purpose, StoreFilePlan,
};
pub use expire::evict::{Eviction, EvictionLimits, EvictionPlan, evict, plan_eviction};
pub use expire::expire_sessions::{
    ExpiredSession, GRACE_MICROS, plan_expired_sessions, plan_expiring,
};
pub use expire::plan_turns::plan_policies;
pub use keep::budget_setting::{set_store_budget, store_budget};
pub use keep::fit::{Cost, PricedTurn};
pub use keep::forget_choice::MAX_EXPIRED;
pub use keep::newest_time::newest_time;
pub use keep::parity_policy::{ParityPolicy, parity_policy, set_parity_policy};
pub use keep::policy::{Policies, Policy, Scope, Thin, remove_policy, set_policy};
pub use keep::retention::plan_retention;
pub use keep::retention_plan::{ElidedTurn, Keep, RetentionPlan, SessionPlan};
pub use keep::roots::{MAX_OPERATIONS, MIN_OPERATIONS, PROTECTED_OPERATIONS, Reason, Roots};
pub use keep::store_bound::{CROWDED_PERCENT, Fullness};
pub use measure::stats::stats;
pub use measure::usage::{LargeObject, SessionStats, Stats, StorageUsage};
pub use redact::{
    DEFAULT_REPLACEMENT, Layer, MatchField, MatchLocation, Pattern, PatternMatch, Redacted,
    RedactionPlace, RedactionPlan, Rewritten, each_layer, plan_redaction, redact,
};
pub use repair::finding::{FsckFinding, FsckKind};
pub use repair::fsck::{FsckReport, MendedByParity, fsck};
pub use repair::salvage::{Loss, RefRepair, RepairPlan, Repaired, plan_repair, repair};
pub use repair::whole_turns::{SessionDamage, newest_whole_turn};
