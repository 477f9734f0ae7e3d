//! `stats`: shows storage use.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::ErrorKind;
use turntree::maintenance::{SessionStats, Stats as Found, StorageUsage, stats};
use turntree::object::Time;
use turntree::store::Tier;

use super::Verb;
use crate::porcelain::read::sessions::named_session_if;
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::output::{Output, STRONG};
use crate::view::render::collection::{percent, write_parity_policy};
use crate::view::render::table::{Column, Table};
use crate::view::render::{ID_DIGITS, count, size};
use crate::view::{clock, json};

/// Maximum number of sessions to list, largest first.
const MAX_SESSIONS: usize = 20;

/// Show storage use, and the space that 'gc' would free
///
/// Objects shared by several sessions are stored once, and counted for the first of them by name.
/// Content is the size of the objects, stored their size on disk, including their index entries. A
/// full copy is the size of one complete context for each turn.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree stats
  turntree stats nightly
  turntree stats --json | jq '.sessions[] | {session, full_bytes}'")]
pub(crate) struct Stats {
    /// Only this session
    #[arg(add = ArgValueCompleter::new(revisions))]
    session: Option<String>,
}

impl Verb for Stats {
    fn may_write(&self) -> bool {
        false
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let (repo, now) = (run.open()?, clock::now()?);
        let session = named_session_if(&repo, self.session.as_deref())?;
        let found = stats(&repo, session.as_deref(), now)
            .hint(ErrorKind::NotFound, "'turntree branch' lists the sessions")?;
        if run.out.json {
            run.out.record(&json::Stats::from(&found))?;
            return Ok(Answer::Yes);
        }
        if found.sessions.is_empty() {
            writeln!(run.out, "no session in {}", run.store_dir()?.display())?;
            return Ok(Answer::Yes);
        }
        run.out.page();
        let out = &mut run.out;
        write_sessions(out, &found, now)?;
        writeln!(out)?;
        write_sections(out, &found, self.session.is_none())?;
        if self.session.is_none() {
            writeln!(out)?;
            write_files(out, &found)?;
        }
        writeln!(out)?;
        write_largest(out, &found)?;
        writeln!(out)?;
        write_summary(out, &found, self.session.is_none())?;
        Ok(Answer::Yes)
    }
}

fn write_sessions(out: &mut Output, found: &Found, now: Time) -> Result<()> {
    let mut table = Table::of(vec![
        Column::name("session"),
        Column::number("turns"),
        Column::number("elided").rank(4),
        Column::number("branches").rank(6),
        Column::number("pins").rank(5),
        Column::number("oldest").rank(3),
        Column::number("content").rank(2),
        Column::number("stored"),
        Column::number("full copies").rank(1),
    ]);
    let mut sessions: Vec<&SessionStats> = found.sessions.iter().collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.total().stored_bytes));
    for session in sessions.iter().take(MAX_SESSIONS) {
        let total = session.total();
        let oldest = session.oldest_micros.map(|micros| Time { micros, offset_minutes: 0 });
        table.row(vec![
            out.names().session(&session.session).into_owned(),
            session.turns.to_string(),
            session.elided.to_string(),
            session.branches.to_string(),
            session.pins.to_string(),
            oldest.map_or_else(String::new, |time| clock::relative(time, now)),
            size(total.raw_bytes),
            size(total.stored_bytes),
            size(session.full_bytes),
        ]);
    }
    table.write(out)?;
    if let Some(more) = sessions.len().checked_sub(MAX_SESSIONS).filter(|more| *more > 0) {
        writeln!(out, "and {} smaller ones", count(more as u64, "session"))?;
    }
    Ok(())
}

/// Writes the size of each section, for all sessions together.
fn write_sections(out: &mut Output, found: &Found, is_whole: bool) -> Result<()> {
    let mut sections: BTreeMap<&str, StorageUsage> = BTreeMap::new();
    let (mut shared, mut all) = (StorageUsage::default(), StorageUsage::default());
    for session in &found.sessions {
        for (name, usage) in &session.sections {
            sections.entry(name).or_default().add(*usage);
        }
        sections.entry("(contexts)").or_default().add(session.contexts);
        sections.entry("(commits)").or_default().add(session.commits);
        shared.add(session.shared);
        all.add(session.total());
    }
    if is_whole {
        sections.insert("(operations)", found.operations);
        sections.insert("(other)", found.other);
        all.add(found.operations);
        all.add(found.other);
    }
    let mut rows: Vec<(&str, StorageUsage)> = sections.into_iter().collect();
    rows.retain(|(_, usage)| usage.objects > 0);
    rows.sort_by_key(|(_, usage)| std::cmp::Reverse(usage.stored_bytes));
    let mut table = Table::new(&["section", "objects", "content", "stored", "share"]);
    let mut row = |name: &str, usage: StorageUsage| {
        table.row(vec![
            name.to_owned(),
            usage.objects.to_string(),
            size(usage.raw_bytes),
            size(usage.stored_bytes),
            percent(usage.stored_bytes, all.stored_bytes),
        ]);
    };
    for (name, usage) in rows {
        row(name, usage);
    }
    row("all", all);
    if shared.objects > 0 {
        row("shared with other sessions", shared);
    }
    table.write(out)?;
    Ok(())
}

fn write_files(out: &mut Output, found: &Found) -> Result<()> {
    let mut table = Table::new(&["files", "number", "bytes", "objects", "garbage"]);
    for tier in [None].into_iter().chain(Tier::ALL.map(Some)) {
        let files = || found.files.iter().filter(|file| file.tier == tier);
        if files().next().is_some() {
            table.row(vec![
                tier.map_or("journal", Tier::name).to_owned(),
                files().count().to_string(),
                size(files().map(|file| file.bytes).sum()),
                files()
                    .map(|file| file.live.objects + file.garbage.objects)
                    .sum::<u64>()
                    .to_string(),
                size(files().map(|file| file.garbage.bytes).sum()),
            ]);
        }
    }
    for (name, bytes) in [
        ("parity", found.parity_bytes),
        ("history indexes", found.history_index_bytes),
        ("ids", found.ids_bytes),
    ] {
        if bytes > 0 {
            let nothing = String::new;
            table.row(vec![name.to_owned(), nothing(), size(bytes), nothing(), nothing()]);
        }
    }
    table.write(out)?;
    write_parity_policy(out, found.parity_policy.as_ref())
}

fn write_largest(out: &mut Output, found: &Found) -> Result<()> {
    let mut table = Table::of(vec![
        Column::title("largest objects"),
        Column::number("content").rank(2),
        Column::number("stored"),
        Column::name("session"),
        Column::text("id").rank(1),
    ]);
    for large in &found.largest {
        table.row(vec![
            large.path.clone(),
            size(large.raw_bytes),
            size(large.stored_bytes),
            large.session.clone(),
            large.id.short(ID_DIGITS),
        ]);
    }
    table.write(out)?;
    Ok(())
}

/// Writes the size without sharing, and the space that could be freed.
fn write_summary(out: &mut Output, found: &Found, is_whole: bool) -> Result<()> {
    let sum = |bytes: fn(&SessionStats) -> u64| found.sessions.iter().map(bytes).sum::<u64>();
    let stored = sum(|session| session.total().stored_bytes);
    let (turns, expiring) = (sum(|session| session.turns), sum(|session| session.expiring));
    for (bytes, when) in [
        (sum(|session| session.full_bytes), "turn"),
        (sum(|session| session.per_message_bytes), "message"),
    ] {
        let times = bytes.checked_div(stored).unwrap_or(0);
        let bytes = out.paint.paint(STRONG, size(bytes));
        let times = match times {
            0 | 1 => String::new(),
            times => format!(", {times} times the stored size"),
        };
        writeln!(out, "a full copy after every {when} would take {bytes}{times}")?;
    }
    if expiring > 0 {
        writeln!(out, "{expiring} of {} expire with the next gc", count(turns, "turn"))?;
    }
    if is_whole {
        let (garbage, lost) = (found.garbage, found.expiring);
        let bytes = out.paint.paint(STRONG, size(garbage.bytes + lost.bytes));
        let objects = count(garbage.objects + lost.objects, "object");
        writeln!(out, "gc would free {objects}, {bytes}")?;
    }
    Ok(())
}
