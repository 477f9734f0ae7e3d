//! `gc`: expires turns, and frees unreachable objects.

use std::io::Write;

use clap::Args;
use turntree::ErrorKind;
use turntree::maintenance::{
    Fullness, Purpose, collect, plan_collection, plan_expiring, planned_store_budget,
};
use turntree::repo::Repository;
use turntree::store::{ParityShare, StoreSummary};

use super::Verb;
use crate::porcelain::change::forget_operations::{self, Forgetting};
use crate::porcelain::store::maintenance_wait::Patience;
use crate::porcelain::store::{store_budget, upkeep};
use crate::program::invocation::{Invocation, stamp};
use crate::program::maintenance::{MaintenanceLock, is_collected};
use crate::program::store_keys::has_keys;
use crate::program::store_log::append;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::progress::Working;
use crate::view::render::collection::{self, Done};
use crate::view::render::size;

/// The log of background maintenance, in the store.
pub(super) const LOG_FILE: &str = "maintenance.log";

/// Replaces a message in the log of an encrypted store, because a message may contain names from
/// it.
const HIDDEN: &str = "an error occurred; the store is encrypted, so the log omits its message";

const LOCKED: &str = "without --no-wait, it waits for the other command";

/// Expire turns by policy and delete unreachable objects
///
/// Turns expire by the policies of 'turntree retention'; their commits stay. Turns needed to undo
/// one of the newest 20 operations are kept, and the plan counts them; with --strict none is.
/// Sessions also expire by policy ('retention set --expire-session'), and are freed a day later. If
/// the store is over its budget ('retention set --whole-store'), its oldest sessions are forgotten,
/// and the first collection a day later frees their space; 'turntree undo' restores them until
/// then. Objects reachable from a branch, tag, pin, HEAD, recent operation or uncommitted
/// transaction are kept. Other processes may read and write at the same time. Small steps run
/// automatically: see TURNTREE_MAINTENANCE in 'turntree --help'.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree gc --dry-run
  turntree gc
  turntree gc --strict
  turntree gc --now
  turntree gc --now --yes
  turntree gc --json | jq .freed")]
pub(crate) struct Gc {
    /// Print the plan without doing it
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Keep no turn for an undo: only turns kept by the policies stay, with pins, tags, tips and
    /// branch points
    #[arg(long)]
    strict: bool,
    /// Free deleted content immediately: forgets all operations first, so no earlier operation can
    /// be undone; implies --strict, and prints only the plan without --yes
    #[arg(long)]
    now: bool,
    /// With --now: do it
    #[arg(short, long, requires = "now", conflicts_with = "dry_run")]
    yes: bool,
    /// Run a step if it is due, push to remotes with automatic push, and print nothing
    #[arg(long, conflicts_with_all = ["dry_run", "strict", "now"])]
    auto: bool,
    /// With --auto: fold the bundles of this remote, if it saves enough
    #[arg(long, value_name = "REMOTE", requires = "auto", hide = true)]
    fold: Option<String>,
    /// With --auto: push, even while another process collects
    #[arg(long, requires = "auto", hide = true)]
    push: bool,
    /// With --auto: fill the search index
    #[arg(long, requires = "auto", hide = true)]
    index: bool,
    /// With --auto: stdin is the lock file of the maintenance process
    #[arg(long, requires = "auto", hide = true)]
    started: bool,
    #[command(flatten)]
    patience: Patience,
}

impl Verb for Gc {
    fn reads_only(&self) -> bool {
        self.now && !self.yes
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if self.auto {
            return self.run_quietly(run);
        }
        let purpose = match (self.now, self.strict) {
            (true, _) => Purpose::GcNow,
            (false, true) => Purpose::StrictGc,
            (false, false) => Purpose::Gc,
        };
        let forgotten = if self.now { Self::plan_forgetting(run)? } else { None };
        let Self { patience, .. } = *self;
        let dry_run = self.dry_run || self.reads_only();
        let (parity, without_ids) = (None, false);
        collect_or_plan(run, Wanted { purpose, dry_run, patience, parity, without_ids, forgotten })
    }
}

impl Gc {
    /// Plans to forget every operation.
    fn plan_forgetting(run: &mut Invocation) -> Result<Option<Forgetting>> {
        let (repo, stamp) = (run.open()?, stamp()?);
        let Some(newest) = repo.operations().next().transpose()? else { return Ok(None) };
        Forgetting::plan(&repo, &newest, Purpose::StrictGc, stamp.time).map(Some)
    }

    /// Runs maintenance. Its output is not shown, so errors go to a log in the store.
    fn run_quietly(&self, run: &mut Invocation) -> Result<Answer> {
        // An untrusted store is not written to, including its log.
        run.refuse_untrusted()?;
        let dir = run.store_dir()?;
        let lock = match self.started {
            true => MaintenanceLock::inherited().ok(),
            false => None,
        };
        // Checked without opening the store: another process collects, and there is nothing else to
        // do.
        if !self.push && !self.index && is_collected(&dir) {
            return Ok(Answer::Yes);
        }
        let fold = self.fold.as_deref();
        let work = |repo: &Repository| match &lock {
            None => upkeep::once(repo, &dir, fold),
            Some(lock) => upkeep::while_due(repo, &dir, (fold, self.index), lock),
        };
        let told = run.open().and_then(|repo| work(&repo));
        let told = told.unwrap_or_else(|failure| vec![failure.message()]);
        for message in told {
            let message = if has_keys(&dir) { HIDDEN.to_owned() } else { message };
            // There is nowhere to report that the log cannot be written.
            let _ = append(&dir.join(LOG_FILE), &message);
        }
        Ok(Answer::Yes)
    }
}

/// The options of a collection.
pub(crate) struct Wanted {
    pub(crate) purpose: Purpose,
    /// Only plan.
    pub(crate) dry_run: bool,
    pub(crate) patience: Patience,
    /// The parity of packs, if it was given.
    pub(crate) parity: Option<Option<ParityShare>>,
    /// Whether archives omit ids.
    pub(crate) without_ids: bool,
    /// The operations to forget together with it.
    pub(crate) forgotten: Option<Forgetting>,
}

/// Runs a collection, or prints its plan.
pub(crate) fn collect_or_plan(run: &mut Invocation, wanted: Wanted) -> Result<Answer> {
    let Wanted { purpose, dry_run, patience, parity, without_ids, forgotten } = wanted;
    let (mut repo, stamp) = (run.open()?, stamp()?);
    if without_ids && !dry_run {
        patience.apply(&repo);
        if patience.again(|| repo.store().allow_archives_without_ids())? {
            repo = run.open()?;
        }
    }
    if without_ids {
        repo.store().leave_ids_out();
    }
    if let Some(parity) = parity {
        repo.store().choose_pack_parity(parity);
    }
    if dry_run {
        let plan = plan_collection(&repo, purpose, stamp.time)?;
        let expired = plan_expiring(&repo, purpose, stamp.time)?;
        let budget = match purpose.is_gc() {
            true => planned_store_budget(&repo, stamp.time)?,
            false => None,
        };
        if run.out.json {
            let mut record = json::Collection::new(Some(&plan), None);
            record.budget = budget.map(|budget| store_budget::record(&budget, None));
            record.forgotten = forgotten.map(|forgotten| forgotten.record(None));
            record.expired_sessions = expired.iter().map(json::ExpiredSession::from).collect();
            run.out.record(&record)?;
        } else {
            collection::write_expired(&mut run.out, &expired, stamp.time)?;
            if let Some(forgotten) = &forgotten {
                forget_operations::write(&mut run.out, forgotten, false)?;
            }
            collection::write_plan(&mut run.out, &plan, purpose)?;
            if let Some(budget) = budget {
                store_budget::write_sum(&mut run.out, &budget, None)?;
            }
            if forgotten.is_some() {
                writeln!(run.out, "--yes does this, and no undo takes it back")?;
            }
        }
        return Ok(Answer::Yes);
    }
    patience.apply(&repo);
    let bytes_before = repo.summary()?.file_bytes;
    let mut first = None;
    let working = Working::counting("looking at the store", "objects", repo.store().packing());
    let mut collect = || {
        collect(&repo, purpose, &stamp, &mut |plan| {
            working.say(format!("packing up to {}", size(plan.needed_bytes())));
            first.get_or_insert_with(|| plan.clone());
        })
    };
    let bound = Fullness::of(&repo)?.bound_bytes;
    let collected = repo.store().with_reserve(bound, || patience.again(&mut collect));
    drop(working);
    let mut collected = collected.hint(ErrorKind::Locked, LOCKED)?;
    let enforced = collected.budget.take();
    let expired = std::mem::take(&mut collected.expired_sessions);
    let operation = collected.forgot_operations;
    let StoreSummary { file_bytes: bytes_after, parity_bytes, .. } = repo.summary()?;
    let done = Done { collected, bytes_before, bytes_after, parity_bytes };
    if run.out.json {
        let mut record = json::Collection::new(first.as_ref(), Some(&done));
        record.budget = enforced.map(|done| store_budget::record(&done.plan, done.operation));
        record.expired_sessions = expired.iter().map(json::ExpiredSession::from).collect();
        record.forgotten = forgotten.map(|forgotten| forgotten.record(operation));
        run.out.record(&record)?;
    } else {
        collection::write_expired(&mut run.out, &expired, stamp.time)?;
        if let Some(forgotten) = &forgotten {
            forget_operations::write(&mut run.out, forgotten, true)?;
        }
        collection::write_done(&mut run.out, first.as_ref(), &done)?;
        if let Some(enforced) = enforced {
            store_budget::write_sum(&mut run.out, &enforced.plan, enforced.operation)?;
        }
    }
    Ok(Answer::Yes)
}
