//! `repair`: recovers intact content of a damaged store, and reports losses.

use std::io::Write;

use clap::Args;
use turntree::maintenance::{FsckReport, Loss, RefRepair, RepairPlan, plan_repair, repair};
use turntree::store::{RealIo, SalvageFate, SalvagedFile, Store};

use super::Verb;
use super::fsck::{finding_record, write_findings, write_sessions};
use crate::porcelain::store::maintenance_wait::Patience;
use crate::program::invocation::{Invocation, stamp};
use crate::program::store_keys;
use crate::view::error::{Answer, Result, read_or_not};
use crate::view::json;
use crate::view::output::{ADDED, Output, REMOVED, STRONG};
use crate::view::progress::Meter;
use crate::view::render::changed_ref::line;
use crate::view::render::{ID_DIGITS, count};
use crate::view::short_names::ShortNames;

/// The file that makes a directory a store, and the action for it.
const SUPERBLOCK: &str = "superblock";
const REMADE: &str = "remade";

/// Recover intact content, and report losses
///
/// The intact parts of a damaged file go into a new pack, and the file is moved to the folder
/// quarantine of the store: nothing is deleted. Refs that reach a lost object do not change, unless
/// --accept-loss moves them to the newest whole snapshot, as an operation; a branch without one
/// does not move, and 'turntree export --partial' still writes its remaining records. --accept-loss
/// also records the remaining losses: fsck reports these as notes and not as damage, and gc keeps
/// objects that may belong to them. The exit code is 1 if a loss is not accepted.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree repair --dry-run
  turntree repair
  turntree repair --accept-loss")]
pub(crate) struct Repair {
    /// Print the plan without doing it
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Move refs back to whole snapshots, start the operation log after a gap, and record the
    /// losses, so that gc can work again
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    patience: Patience,
}

impl Verb for Repair {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let dir = run.store_dir()?;
        let remade = Store::has_lost_superblock(&RealIo, &dir)?;
        if remade && self.dry_run {
            // Other damage is found once the store can be opened.
            read_or_not(self.write(&mut run.out, &RepairPlan::default(), None, remade, false))?;
            return Ok(Answer::No);
        }
        if !self.dry_run {
            run.refuse_untrusted()?;
        }
        if remade {
            let keys = match store_keys::has_keys(&dir) {
                true => Some(store_keys::unwrap(&dir, true)?.keys),
                false => None,
            };
            Store::remake_superblock(&RealIo, &dir, keys)?;
        }
        let repo = run.open_quietly()?;
        self.patience.apply(&repo);
        let stamp = stamp()?;
        let mut meter = Meter::new("checking");
        let mut progress = |done, all| meter.show(done, all);
        let loss = if self.accept_loss { Loss::Accept } else { Loss::Refuse };
        let (plan, report) = if self.dry_run {
            (plan_repair(&repo, &stamp, &mut progress)?, None)
        } else {
            let repaired = repair(&repo, loss, &stamp, &mut progress)?;
            (repaired.plan, Some(repaired.report))
        };
        drop(meter);
        let ok = report.as_ref().map_or(plan.lost.is_empty(), FsckReport::is_ok);
        read_or_not(self.write(&mut run.out, &plan, report.as_ref(), remade, ok))?;
        Ok(if ok { Answer::Yes } else { Answer::No })
    }
}

impl Repair {
    fn write(
        &self,
        out: &mut Output,
        plan: &RepairPlan,
        report: Option<&FsckReport>,
        remade: bool,
        ok: bool,
    ) -> Result<()> {
        if out.json {
            return Ok(out.record(&self.record(plan, report, remade, ok))?);
        }
        if remade {
            let made = out.paint.paint(ADDED, format!("{REMADE:<10}"));
            writeln!(out, "{made} {SUPERBLOCK}, from the other files")?;
        }
        self.write_plan(out, plan)?;
        write_findings(out, report.map_or(&plan.lost, |report| &report.findings))?;
        write_sessions(out, report.map_or(&[], |report| &report.sessions))?;
        self.write_end(out, plan, remade, ok)
    }

    fn write_plan(&self, out: &mut Output, plan: &RepairPlan) -> Result<()> {
        let paint = out.paint;
        for file in &plan.files {
            let fate = paint.paint(REMOVED, format!("{:<10}", fate(file)));
            let saved = match (file.fate, file.saved) {
                (SalvageFate::Restored, 0) => "rebuilt from its pack".to_owned(),
                (SalvageFate::Restored, saved) => {
                    format!("by its parity, with all of {}", count(saved, "object"))
                }
                (_, saved) => format!("{} saved", count(saved, "object")),
            };
            writeln!(out, "{fate} {}: {saved}", file.name)?;
            for problem in &file.problems {
                writeln!(out, "{:<10} {problem}", "")?;
            }
        }
        for name in &plan.adopted {
            writeln!(out, "{} {name}", paint.paint(ADDED, format!("{:<10}", "list")))?;
        }
        if plan.refs_behind {
            let text = paint.paint(ADDED, format!("{:<10}", "include"));
            writeln!(out, "{text} operations in files of the manifest that its refs lacked")?;
        }
        if !plan.rejoined.is_empty() {
            let text = paint.paint(ADDED, format!("{:<10}", "rejoin"));
            let operations = count(plan.rejoined.len() as u64, "operation");
            writeln!(out, "{text} {operations} that the newest one did not follow")?;
        }
        for change in &plan.rejoined_refs {
            writeln!(out, "{}", line(paint, change, &ShortNames::default()))?;
        }
        for RefRepair { name, old, new, stays } in &plan.refs {
            let change = match (self.accept_loss, stays, new) {
                (false, ..) => "broken",
                (true, true, _) => "keep",
                (true, false, Some(_)) => "move",
                (true, false, None) => "delete",
            };
            let change = paint.paint(REMOVED, format!("{change:<10}"));
            let old = old.short(ID_DIGITS);
            match (new, stays) {
                (Some(new), _) => {
                    let new = new.short(ID_DIGITS);
                    writeln!(out, "{change} {name}: {old} is lost, {new} is whole")?;
                }
                (None, true) => writeln!(
                    out,
                    "{change} {name}: no turn is whole; 'turntree export --partial' writes the intact records"
                )?,
                (None, false) => {
                    writeln!(out, "{change} {name}: {old} is lost, no turn is whole")?;
                }
            }
        }
        if let Some(lost) = plan.given_up {
            let text = paint.paint(REMOVED, format!("{:<10}", "accept"));
            let what = match lost {
                0 => "no loss: every lost object was restored or is not needed".to_owned(),
                _ => format!("the loss of {}: gc skips lost objects", count(lost, "object")),
            };
            writeln!(out, "{text} {what}")?;
        }
        Ok(())
    }

    fn write_end(&self, out: &mut Output, plan: &RepairPlan, remade: bool, ok: bool) -> Result<()> {
        let loss = if self.accept_loss { Loss::Accept } else { Loss::Refuse };
        let nothing = plan.is_empty(loss);
        let moved = plan.files.iter().any(|file| file.fate == SalvageFate::Quarantined);
        let text = match (nothing && !remade, ok) {
            _ if remade && self.dry_run => "then the other files can be examined; nothing was done",
            (true, true) => "there is nothing to repair",
            (true, false) => "nothing more can be restored",
            (false, true) if self.dry_run => "all of it can be restored; nothing was done",
            (false, false) if self.dry_run => "some of it is lost; nothing was done",
            (false, true) if !moved => "repaired",
            (false, false) if !moved => "repaired in part",
            (false, true) => "repaired; damaged files are in quarantine",
            (false, false) => "repaired in part; damaged files are in quarantine",
        };
        let text = out.paint.paint(STRONG, text);
        writeln!(out, "{text}")?;
        Ok(())
    }

    fn record(
        &self,
        plan: &RepairPlan,
        report: Option<&FsckReport>,
        remade: bool,
        ok: bool,
    ) -> json::Repair {
        let findings = report.map_or(&plan.lost, |report| &report.findings);
        let files = plan.files.iter().map(|file| json::RepairedFile {
            file: file.name.clone(),
            action: fate(file),
            saved: file.saved,
            problems: file.problems.clone(),
        });
        let superblock = remade.then(|| json::RepairedFile {
            file: SUPERBLOCK.to_owned(),
            action: REMADE,
            saved: 0,
            problems: Vec::new(),
        });
        let refs = plan.refs.iter().map(|change| json::RepairedRef {
            name: change.name.clone(),
            old: change.old.to_string(),
            new: change.new.map(|id| id.to_string()),
            stays: change.stays,
        });
        json::Repair {
            ok,
            dry_run: self.dry_run,
            files: superblock.into_iter().chain(files).collect(),
            listed: plan.adopted.clone(),
            refs_behind: plan.refs_behind,
            rejoined: plan.rejoined.iter().map(ToString::to_string).collect(),
            rejoined_refs: plan.rejoined_refs.iter().map(json::ChangedRef::from).collect(),
            refs: refs.collect(),
            refs_moved: self.accept_loss && !self.dry_run,
            accepted_losses: plan.given_up,
            findings: findings.iter().map(finding_record).collect(),
        }
    }
}

/// Returns the word for the action on a file.
fn fate(file: &SalvagedFile) -> &'static str {
    match file.fate {
        SalvageFate::Restored => "restore",
        SalvageFate::Quarantined => "quarantine",
        SalvageFate::Missing => "missing",
        SalvageFate::InUse => "in-use",
    }
}
