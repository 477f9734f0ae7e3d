//! `fsck`: verifies that nothing is missing or damaged.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::Args;
use turntree::ErrorKind;
use turntree::maintenance::{
    FsckFinding, FsckKind, FsckReport, MendedByParity, SessionDamage, fsck,
};
use turntree::platform::has_other_users;
use turntree::store::Thoroughness;

use super::Verb;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result, read_or_not};
use crate::view::output::{FAINT, NAME, Output, REMOVED, STRONG, warn};
use crate::view::progress::Meter;
use crate::view::render::collection::write_parity_policy;
use crate::view::render::{count, harmless, size};
use crate::view::{clock, json};

/// How often to examine a store whose key changes concurrently.
const MAX_ATTEMPTS: u32 = 4;

/// Verify every file and object of the store
///
/// Reads every byte of the store, verifies every object by its hash, and follows every reference.
/// Other processes may read and write at the same time. The exit code is 1 if something is damaged
/// or lost, and each session with lost turns is listed with its newest whole turn; notes, such as
/// an unfinished batch of a killed process, are not damage. Warns if other users can read or change
/// the store.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree fsck
  turntree fsck --quick
  turntree fsck --json | jq '.findings[]'")]
pub(crate) struct Fsck {
    /// Check structure and indexes, without reading every object
    #[arg(long)]
    quick: bool,
}

impl Verb for Fsck {
    fn may_write(&self) -> bool {
        false
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let depth = if self.quick { Thoroughness::Quick } else { Thoroughness::Full };
        let mut attempt = 1;
        let report = loop {
            let repo = run.open_quietly()?;
            let mut meter = Meter::new("checking");
            let mut progress = |done, all| meter.show(done, all);
            match fsck(&repo, depth, clock::now()?, &mut progress) {
                // Its key has changed, so the store is reopened with the new one.
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                }
                examined => break examined?,
            }
        };
        warn_of_others(&run.store_dir()?);
        let answer = if report.is_ok() { Answer::Yes } else { Answer::No };
        read_or_not(self.write(&mut run.out, &report))?;
        Ok(answer)
    }
}

impl Fsck {
    fn write(&self, out: &mut Output, report: &FsckReport) -> Result<()> {
        if out.json {
            return Ok(out.record(&record(report))?);
        }
        match &report.by_parity {
            Some(mended) => write_beside_parity(out, report, mended)?,
            None => {
                write_findings(out, &report.findings)?;
                write_sessions(out, &report.sessions)?;
            }
        }
        self.write_summary(out, report)
    }

    fn write_summary(&self, out: &mut Output, report: &FsckReport) -> Result<()> {
        let FsckReport { objects, commits, bytes, operations, .. } = *report;
        let (objects, bytes) = (count(objects, "object"), size(bytes));
        let (commits, operations) = (count(commits, "snapshot"), count(operations, "operation"));
        let verb = if self.quick { "looked at" } else { "verified" };
        writeln!(out, "{verb} {objects} in {bytes}, {commits}, {operations}")?;
        write_parity_policy(out, report.parity_policy.as_ref())?;
        let damage = report.findings.iter().filter(|finding| finding.kind.is_damage()).count();
        let paint = out.paint;
        if damage == 0 {
            let has_hole = report.findings.iter().any(|finding| finding.kind == FsckKind::Hole);
            let text = match has_hole {
                true => "nothing else is damaged or lost",
                false => "nothing is damaged or lost",
            };
            writeln!(out, "{}", paint.paint(STRONG, text))?;
        } else {
            let damage = count(damage as u64, "finding");
            let text = format!("{damage}: 'turntree repair --dry-run' shows the possible repairs");
            writeln!(out, "{}", paint.paint(STRONG, text))?;
        }
        Ok(())
    }
}

/// Writes the damage that a repair fixes with parity in one line, then the other findings.
fn write_beside_parity(
    out: &mut Output,
    report: &FsckReport,
    mended: &MendedByParity,
) -> Result<()> {
    let label = out.paint.paint(REMOVED, format!("{:<10}", FsckKind::Damaged.name()));
    let (packs, is_all) = (mended.packs.join(", "), mended.is_all(report));
    let gone = mended.findings.iter().filter(|mended| **mended).count() as u64;
    let (all, rest) = match is_all {
        true => ("all of it", ", and nothing is lost"),
        false => ("them", ""),
    };
    let gone = count(gone, "finding");
    writeln!(out, "{label} {packs}: 'turntree repair' restores {all} by parity ({gone}){rest}")?;
    let left = report.findings.iter().zip(&mended.findings);
    let left: Vec<FsckFinding> =
        left.filter(|(_, mended)| !**mended).map(|(finding, _)| finding.clone()).collect();
    write_findings(out, &left)?;
    if !is_all {
        write_sessions(out, &report.sessions)?;
    }
    Ok(())
}

/// Warns if users other than the owner can read or change a store. Files in a directory that others
/// cannot enter are not readable by them.
fn warn_of_others(dir: &Path) {
    let others = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| has_other_users(&it));
    if !others(dir) {
        return;
    }
    let mut open = 1_u64;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            open += u64::from(others(&entry.path()));
            folders.extend(entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path()));
        }
    }
    let (open, dir) = (count(open, "entry"), dir.display());
    warn(&format!(
        "other users can read or change {open} of the store: 'chmod -R go= {dir}' prevents that"
    ));
}

/// Writes one line for each finding.
pub(super) fn write_findings(out: &mut Output, findings: &[FsckFinding]) -> Result<()> {
    let paint = out.paint;
    for finding in findings {
        let (style, label) = match finding.kind.is_damage() {
            true => (REMOVED, finding.kind.name()),
            false => (FAINT, "note"),
        };
        writeln!(out, "{} {finding}", paint.paint(style, format!("{label:<10}")))?;
    }
    Ok(())
}

/// Writes one line for each session with lost turns.
pub(super) fn write_sessions(out: &mut Output, sessions: &[SessionDamage]) -> Result<()> {
    let label = out.paint.paint(REMOVED, format!("{:<10}", "session"));
    for damage in sessions {
        let name = out.paint.paint(NAME, harmless(&damage.session));
        let mut lost: Vec<String> = damage.lost.iter().map(run_of_turns).collect();
        if damage.lost_commits {
            lost.push("turns with missing commits".to_owned());
        }
        let whole = match damage.newest_whole {
            Some(whole) => format!("newest whole: {whole}"),
            None => "no turn is whole".to_owned(),
        };
        writeln!(out, "{label} {name}: lost: {}; {whole}", lost.join(", "))?;
    }
    Ok(())
}

fn run_of_turns((first, last): &(u64, u64)) -> String {
    match first == last {
        true => format!("turn {first}"),
        false => format!("turns {first} to {last}"),
    }
}

fn record(report: &FsckReport) -> json::Fsck {
    json::Fsck {
        ok: report.is_ok(),
        objects: report.objects,
        commits: report.commits,
        bytes: report.bytes,
        findings: report.findings.iter().map(finding_record).collect(),
        operations: report.operations,
        expired: report.elided,
        sessions: report.sessions.iter().map(json::DamagedSession::from).collect(),
        parity_policy: report.parity_policy.as_ref().map(json::ParityPolicy::from),
        mended_by_parity: report.by_parity.as_ref().map(|mended| json::MendedByParity {
            packs: mended.packs.clone(),
            findings: mended.findings.iter().filter(|mended| **mended).count() as u64,
            all: mended.is_all(report),
        }),
    }
}

/// The JSON record of a finding.
pub(super) fn finding_record(finding: &FsckFinding) -> json::FsckFinding {
    json::FsckFinding {
        kind: finding.kind.name(),
        severity: if finding.kind.is_damage() { "damage" } else { "note" },
        place: finding.place.clone(),
        message: finding.message.clone(),
        object: finding.object.map(|id| id.to_string()),
    }
}
