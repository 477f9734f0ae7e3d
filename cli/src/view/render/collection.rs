//! Collections as text: the plan with its losses, and the result.

use std::io::Write;

use turntree::maintenance::{
    Collected, CollectionPlan, ExpiredSession, Fate, KnownLossesPlan, ObjectsSize, ParityPolicy,
    Purpose, RetentionPlan, StoreFilePlan,
};

use turntree::object::Time;

use super::{count, size};
use crate::view::clock;
use crate::view::error::Result;
use crate::view::output::{ADDED, FAINT, NAME, Output, REMOVED, STRONG};

/// Digits shown of a file's name.
const FILE_DIGITS: usize = 8;

/// The result of a collection.
#[derive(Debug)]
pub(crate) struct Done {
    /// The report of the library.
    pub(crate) collected: Collected,
    /// Bytes of all files before.
    pub(crate) bytes_before: u64,
    /// Bytes of all files after.
    pub(crate) bytes_after: u64,
    /// Bytes of parity among them.
    pub(crate) parity_bytes: u64,
}

/// Writes the parity policy of a store if it has one, and the number of packs below it.
pub(crate) fn write_parity_policy(out: &mut Output, policy: Option<&ParityPolicy>) -> Result<()> {
    let Some(ParityPolicy { share, packs_below, .. }) = policy else { return Ok(()) };
    let below = match packs_below {
        0 => String::new(),
        1 => "; 1 older pack has less: 'turntree repack' gives it as much".to_owned(),
        n => format!("; {n} older packs have less: 'turntree repack' gives them as much"),
    };
    writeln!(out, "every new pack gets {share} of parity{below}")?;
    Ok(())
}

/// Writes the plan and its losses.
pub(crate) fn write_plan(out: &mut Output, plan: &CollectionPlan, purpose: Purpose) -> Result<()> {
    write_turns(out, &plan.retention)?;
    write_holes(out, plan.holes)?;
    let CollectionPlan { live, garbage, .. } = plan;
    writeln!(out, "reachable: {}; garbage: {}", amount(*live), amount(*garbage))?;
    for file in &plan.files {
        write_file(out, file, plan, purpose)?;
    }
    if plan.is_empty() {
        writeln!(out, "there is nothing to do")?;
        return Ok(());
    }
    let replaced = plan.files.iter().filter(|file| file.fate == Fate::Replaced).count() as u64;
    let (tier, files) = (plan.tier.name(), count(plan.files.len() as u64, "file"));
    let needed = size(plan.needed_bytes());
    writeln!(
        out,
        "would rewrite {replaced} of {files}, {tier}, with up to {needed} of disk while it runs; nothing was done"
    )?;
    if plan.partial {
        writeln!(out, "further steps follow, with as much disk each")?;
    }
    Ok(())
}

/// Writes the result; `plan` is that of the first step, if there was one.
pub(crate) fn write_done(
    out: &mut Output,
    plan: Option<&CollectionPlan>,
    done: &Done,
) -> Result<()> {
    let Done { collected, bytes_before, bytes_after, parity_bytes } = done;
    let protected = collected.protected_packs;
    let Some(plan) = plan else {
        match protected {
            0 => writeln!(out, "there is nothing to do")?,
            _ if *parity_bytes == 0 => writeln!(out, "no parity now")?,
            _ => writeln!(out, "{} of parity now", size(*parity_bytes))?,
        }
        return Ok(());
    };
    write_turns(out, collected.retention.as_ref().unwrap_or(&plan.retention))?;
    write_holes(out, plan.holes)?;
    let (steps, freed) = (count(collected.steps, "step"), collected.freed);
    if freed.objects > 0 {
        writeln!(out, "freed {}", amount(freed))?;
    }
    let (before, after) = (size(*bytes_before), size(*bytes_after));
    let after = out.paint.paint(STRONG, after);
    let percent = percent(*bytes_after, *bytes_before);
    let parity = match parity_bytes {
        0 => String::new(),
        bytes => format!(", {} of it parity", size(*bytes)),
    };
    writeln!(out, "{after} of files now{parity}, {before} before ({percent}), after {steps}")?;
    Ok(())
}

/// Writes the sessions that expire.
pub(crate) fn write_expired(out: &mut Output, expired: &[ExpiredSession], now: Time) -> Result<()> {
    for ExpiredSession { session, time, at_once, .. } in expired {
        let name = out.paint.paint(NAME, session);
        let age = clock::relative(*time, now);
        let free = if *at_once { "immediately" } else { "by the first collection after a day" };
        writeln!(out, "session {name} expires, its newest change was {age}; it is freed {free}")?;
    }
    Ok(())
}

/// Writes the turns that expire, and why others do not.
fn write_turns(out: &mut Output, retention: &RetentionPlan) -> Result<()> {
    for session in &retention.sessions {
        writeln!(out, "{session}")?;
    }
    for note in &retention.notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// Writes the number of lost objects, and of objects kept because of them.
fn write_holes(out: &mut Output, holes: KnownLossesPlan) -> Result<()> {
    let KnownLossesPlan { lost, spared } = holes;
    if lost > 0 {
        let are = if lost == 1 { "is" } else { "are" };
        writeln!(out, "{} {are} lost (accepted loss) and skipped", count(lost, "object"))?;
    }
    if spared.objects > 0 {
        writeln!(out, "objects that lost ones may need stay: {}", amount(spared))?;
    }
    Ok(())
}

fn write_file(
    out: &mut Output,
    file: &StoreFilePlan,
    plan: &CollectionPlan,
    purpose: Purpose,
) -> Result<()> {
    let style = match file.fate {
        Fate::Kept => FAINT,
        Fate::Replaced if file.live.objects == 0 => REMOVED,
        Fate::Replaced => ADDED,
        Fate::InUse => STRONG,
    };
    let (fate, reason) = fate_of(file, plan, purpose);
    let fate = out.paint.paint(style, format!("{fate:<8}"));
    let tier = file.tier.map_or("journal", turntree::store::Tier::name);
    writeln!(
        out,
        "{fate} {:<20} {tier:<9} {:>9}  {reason}",
        short_name(&file.name),
        size(file.bytes)
    )?;
    Ok(())
}

/// Describes the action for a file in one word, with its reason.
fn fate_of(
    file: &StoreFilePlan,
    plan: &CollectionPlan,
    purpose: Purpose,
) -> (&'static str, String) {
    let garbage = match file.garbage.objects {
        0 => "all of it is reachable".to_owned(),
        _ => format!("garbage: {}", amount(file.garbage)),
    };
    match (file.fate, purpose) {
        (Fate::Replaced, _) if file.live.objects == 0 => {
            ("remove", "nothing in it is reachable".into())
        }
        (Fate::Replaced, _) => ("rewrite", garbage),
        (Fate::InUse, _) => ("in use", "a process writes to it or relies on it".into()),
        (Fate::Kept, _) if plan.partial => ("keep", format!("for a later step; {garbage}")),
        (Fate::Kept, Purpose::Repack(_)) => ("keep", "already stored this way".into()),
        (Fate::Kept, _) => ("keep", garbage),
    }
}

/// The name of a fate in records.
pub(crate) const fn fate_name(fate: Fate) -> &'static str {
    match fate {
        Fate::Kept => "keep",
        Fate::Replaced => "rewrite",
        Fate::InUse => "in-use",
    }
}

/// The directory and the first digits of a file's name.
pub(crate) fn short_name(name: &str) -> String {
    let (folder, file) = name.split_once('/').unwrap_or(("", name));
    let digits: String = file.chars().take(FILE_DIGITS).collect();
    format!("{folder}/{digits}")
}

fn amount(amount: ObjectsSize) -> String {
    format!("{}, {}", count(amount.objects, "object"), size(amount.bytes))
}

/// A part in percent, with at least two digits.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let permille = part.saturating_mul(1000).checked_div(whole).unwrap_or(1000);
    match permille {
        ..100 => format!("{}.{} %", permille / 10, permille % 10),
        _ => format!("{} %", (permille + 5) / 10),
    }
}
