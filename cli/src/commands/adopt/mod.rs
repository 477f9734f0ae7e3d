//! `adopt`: the sessions of all agents on this machine go in.

mod background;
mod gone;
mod importing;
mod originals;
mod reclaim;
mod shrink;
mod survey;
mod sweeping;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::builder::ArgPredicate;
use clap::{Args, Subcommand, ValueEnum};
use turntree::Error;
use turntree_exchange::agents::{
    Adopted, FoundSession, FoundSessions, Odd, Outcome, SessionPlace, agent_titles, find, places,
};
use turntree_exchange::{UnreadRecords, enumeration};

use self::background::{Install, Uninstall};
use self::gone::Gone;
use self::importing::{Importing, Known};
use self::reclaim::{Files, Reclaim, USUAL_AGE};
pub(crate) use self::shrink::Shrink;
use self::survey::Survey;
use self::sweeping::Sweep;
use self::watch::watch;
use super::Verb;
use crate::platform::shell_word;
use crate::porcelain::read::branches::left_out;
use crate::porcelain::transfer::import_report::{warn_of_notes, warn_of_unread};
use crate::program::invocation::{Invocation, user_or_nearest, whole_path};
use crate::program::live::live_sessions;
use crate::view::clock;
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::{NAME, Output, STRONG, warn};
use crate::view::render::table::{Cell, Table};
use crate::view::render::{count, harmless, size};
use crate::view::units::parse_duration;

/// Most files that are named one by one.
const MAX_SHOWN: usize = 10;

fn help() -> String {
    format!(
        "Import the sessions of the agents on this machine\n\n\
         Finds the sessions of {}, or those in PATHs, and imports all of them. A later run imports \
         only new turns. Content that sessions share is stored once. Files of agents are only \
         read, except with --reclaim.\n\n\
         Sessions of the machine go to your own store, unless --store or TURNTREE_STORE names \
         another one. PATHs go to the store of the project, if it has one. The report names the \
         store. One 'turntree undo' reverts the whole import.",
        enumeration(agent_titles(), "and")
    )
}

/// Import the sessions of the agents on this machine
#[derive(Debug, Args)]
#[command(long_about = help())]
#[command(after_long_help = "Examples:
  turntree adopt --dry-run
  turntree adopt
  turntree adopt ~/backup/.claude transcripts/
  turntree adopt ~/backup/opencode.db
  turntree adopt --watch
  turntree adopt install --start
  turntree adopt --reclaim --older-than 30d
  turntree adopt --reclaim=each --yes
  turntree adopt --json | jq '.agents[] | {agent, sessions, input_bytes, new_bytes}'")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Adopt {
    #[command(subcommand)]
    action: Option<AdoptCommand>,
    /// Directories or files instead of the places of all agents
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Only measure: the sessions by project, the share of copies, and the estimated size in the store
    ///
    /// Reads all files once. A copy is a record that an earlier file also has, apart from times and
    /// session ids.
    #[arg(long)]
    dry_run: bool,
    /// Import sessions again that 'turntree session forget' removed
    #[arg(long)]
    again: bool,
    /// Keep running, and import new turns as agents write them, until interrupted
    #[arg(long, conflicts_with_all = ["dry_run", "again"])]
    watch: bool,
    /// List transcripts that the store holds byte for byte; with --yes, remove these files
    ///
    /// With 'each' the same run imports the sessions, a few at a time: it reads each file back from the
    /// store, compares it, and removes it before it imports the next ones. So a full disk needs room
    /// for only a few sessions.
    #[arg(long, value_name = "WHEN", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "stored", conflicts_with_all = ["again", "watch"])]
    reclaim: Option<ReclaimWhen>,
    /// With --reclaim: only files last written longer ago than this; 7d by default
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "reclaim",
        default_value_if("reclaim", ArgPredicate::IsPresent, USUAL_AGE))]
    older_than: Option<i64>,
    /// With --reclaim: remove the files
    #[arg(long, requires = "reclaim", conflicts_with = "dry_run")]
    yes: bool,
    /// Agents may be at work on what is found; the watch asks for it
    #[arg(long, hide = true)]
    live: bool,
}

/// When transcripts are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReclaimWhen {
    /// Files of sessions that the store already has
    Stored,
    /// Each file as soon as its session is imported
    Each,
}

#[derive(Debug, Subcommand)]
enum AdoptCommand {
    Install(Install),
    Uninstall(Uninstall),
}

/// Columns of the table of an agent's sessions.
#[derive(Debug, Default)]
struct AgentRow {
    sessions: u64,
    unchanged: u64,
    failed: u64,
    turns: u64,
    messages: u64,
    bytes_there: u64,
    bytes_here: u64,
    unread: UnreadRecords,
    /// The sessions that the agent deletes automatically; `None` when it deletes none, or when the
    /// user named the paths.
    sweep: Option<Sweep>,
}

impl Verb for Adopt {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            Some(AdoptCommand::Install(install)) => return install.run(run),
            Some(AdoptCommand::Uninstall(uninstall)) => return uninstall.run(run),
            None => {}
        }
        Ok(self.adopt(run)?.0)
    }
}

impl Adopt {
    /// Adopts, and returns the files that were removed or would be, if that was asked for.
    fn adopt(&self, run: &mut Invocation) -> Result<(Answer, Option<Files>)> {
        let places = self.places()?;
        if self.paths.is_empty() {
            run.act_on_user_store();
            // The sessions are of many directories, and the user named none of them.
            run.stand_anywhere();
        }
        if self.watch {
            // The processes that it starts get the store by its path, as if the user had named it.
            run.refuse_untrusted()?;
            return Ok((watch(run, &places, &self.paths)?, None));
        }
        let FoundSessions { mut sessions, others, odd } = find(&places);
        let store = run.locate()?.dir.display().to_string();
        let program = self.program(&store);
        let reclaim = match self.older_than {
            Some(age) => Some(Reclaim::new(age, self.yes, &program)?),
            None => None,
        };
        if let (Some(reclaim), Some(ReclaimWhen::Stored)) = (&reclaim, self.reclaim) {
            for (path, error) in odd.into_iter().map(failure_of_odd) {
                warn(&format!("{path}: {error}"));
            }
            return Ok((reclaim.run(run, sessions)?, None));
        }
        let forgotten = self.leave_forgotten(run, &mut sessions)?;
        if self.live && !run.would_create()? {
            // A hook records more about these sessions: the files.
            let of_hooks = live_sessions(&*run.open()?, clock::now()?)?;
            sessions.retain(|found| !of_hooks.contains(&found.session));
        }
        let mut failures: Vec<(String, String)> = odd.into_iter().map(failure_of_odd).collect();
        let mut rows: BTreeMap<String, AgentRow> = BTreeMap::new();
        for found in &sessions {
            rows.entry(found.agent.clone()).or_insert_with(|| AgentRow {
                sweep: Sweep::of(&found.agent).filter(|_| self.paths.is_empty()),
                ..AgentRow::default()
            });
        }
        let mut files = reclaim.as_ref().map(|_| Files::default());
        let mut survey = None;
        if self.is_dry() || sessions.is_empty() {
            let known = Known::of(run)?;
            for found in &sessions {
                let row = rows.entry(found.agent.clone()).or_default();
                row.sessions += 1;
                row.bytes_there += found.bytes;
                let is_known = known.has(found);
                row.unchanged += u64::from(is_known);
                row.look_at_age(found, is_known);
            }
            if self.is_dry() {
                let measured = survey.insert(Survey::of(&sessions, |found| known.has(found))?);
                failures.append(&mut measured.failures);
            }
            if let Some((reclaim, files)) = reclaim.as_ref().zip(files.as_mut()) {
                *files = reclaim.plan(run, sessions)?;
            }
        } else {
            let each = reclaim.as_ref().zip(files.as_mut());
            let importing = Importing { is_live: self.live, each };
            for Adopted { found, outcome } in importing.run(run, sessions)? {
                let row = rows.entry(found.agent.clone()).or_default();
                row.add(&found, &outcome);
                let shown = shown(&found);
                match outcome {
                    Outcome::Imported(report) => warn_of_notes(&shown, &report.notes),
                    Outcome::Unchanged => {}
                    Outcome::Failed(error) => {
                        failures.push((shown, Failure::from(error).message()));
                    }
                }
            }
        }
        let gone = match self.paths.is_empty() && !self.live && !run.would_create()? {
            true => Gone::of(&*run.open()?, &places),
            false => Gone::default(),
        };
        for (agent, row) in &rows {
            warn_of_unread(agent, &row.unread);
        }
        for (path, error) in failures.iter().take(MAX_SHOWN) {
            warn(&format!("{path}: {error}"));
        }
        if let Some(more) = failures.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
            warn(&format!("{} more could not be read", count(more as u64, "file")));
        }
        let mut answer = if failures.is_empty() { Answer::Yes } else { Answer::No };
        if files.as_ref().is_some_and(Files::warn_of_failures) {
            answer = Answer::No;
        }
        if run.out.json {
            for agent in gone.agents() {
                rows.entry(agent.clone()).or_default();
            }
            let record = |(agent, row): (String, AgentRow)| {
                let gone = gone.of_agent(&agent);
                json::AdoptedAgent { gone, ..row.record(agent) }
            };
            let agents = rows.into_iter().map(record).collect();
            let failures = failures.into_iter().map(json::AdoptionFailure::from).collect();
            let dry_run = self.is_dry();
            let reclaimed = reclaim.as_ref().zip(files.as_ref());
            run.out.record(&json::Adoption {
                dry_run,
                store,
                agents,
                unrecognized: others,
                forgotten,
                failures,
                projects: survey.as_ref().map(Survey::record),
                reclaimed: reclaimed.map(|(reclaim, files)| reclaim.record(files)),
            })?;
        } else {
            if forgotten > 0 {
                writeln!(run.out, "{}", left_out(forgotten))?;
            }
            if forgotten == 0 || !rows.is_empty() {
                self.print(&mut run.out, &store, &rows, survey.as_ref(), others, &places)?;
            }
            gone.print(&mut run.out)?;
            if let Some((reclaim, files)) = reclaim.as_ref().zip(files.as_ref()) {
                reclaim.tell(run, files)?;
            }
        }
        Ok((answer, files))
    }

    /// Returns true if this is a dry run: without --yes the removal of files does nothing.
    fn is_dry(&self) -> bool {
        self.dry_run || (self.reclaim.is_some() && !self.yes)
    }

    /// Returns the places to search. A path that the user names must exist.
    fn places(&self) -> Result<Vec<SessionPlace>> {
        if self.paths.is_empty() {
            let known = places(&|name| std::env::var_os(name));
            if known.is_empty() {
                let error = Error::invalid("HOME is not set, so no place of an agent is known");
                return Err(Failure::hinted(error, "name the places: turntree adopt PATH..."));
            }
            return Ok(known);
        }
        let named = |path| Ok(SessionPlace { agent: String::new(), path: whole_path(path)? });
        self.paths.iter().map(|path| named(path)).collect()
    }

    /// Leaves out forgotten sessions, and sessions that expired by a policy and have not been
    /// written to since; returns their number. Leaves out none with `--again`.
    fn leave_forgotten(&self, run: &Invocation, sessions: &mut Vec<FoundSession>) -> Result<u64> {
        if self.again || run.would_create()? {
            return Ok(0);
        }
        let (repo, mut names) = (run.open()?, BTreeSet::new());
        sessions.retain(|found| {
            let written = found.modified.duration_since(SystemTime::UNIX_EPOCH);
            let written = written.map_or(0, |since| since.as_micros());
            let is_since = |expired: i64| written > u128::try_from(expired).unwrap_or_default();
            let is_left = repo.is_forgotten(&found.session)
                || repo.expired_at(&found.session).is_some_and(|expired| !is_since(expired));
            if is_left {
                names.insert(found.session.clone());
            }
            !is_left
        });
        Ok(names.len() as u64)
    }

    /// This program with the store that it acts on, from here.
    fn program(&self, store: &str) -> String {
        let here = user_or_nearest().map(|dir| dir.display().to_string());
        match self.paths.is_empty() && here.as_deref() != Some(store) {
            true => format!("turntree --store {}", shell_word(store)),
            false => "turntree".to_owned(),
        }
    }

    fn print(
        &self,
        out: &mut Output,
        store: &str,
        rows: &BTreeMap<String, AgentRow>,
        survey: Option<&Survey>,
        others: u64,
        places: &[SessionPlace],
    ) -> Result<()> {
        if rows.is_empty() {
            writeln!(out, "found no session of an agent in")?;
            for place in places {
                writeln!(out, "  {}", harmless(&place.path.display().to_string()))?;
            }
            return Ok(());
        }
        let mut total = AgentRow::default();
        rows.values().for_each(|row| total.join(row));
        match survey {
            Some(survey) => survey.print(out)?,
            None => print_imported(out, rows, &total)?,
        }
        if others > 0 {
            writeln!(out, "{} no session: left alone", hold(others))?;
        }
        for (agent, row) in rows {
            if let Some(sweep) = &row.sweep {
                sweep.print(out, agent, !self.is_dry())?;
            }
        }
        if let Some(survey) = survey {
            survey.tell(out)?;
        }
        match self.is_dry() {
            // Printed with the files that would be removed.
            true if self.reclaim.is_some() => {}
            true => {
                let would = "nothing was done: without --dry-run the new turns go";
                writeln!(out, "{would} into {store}")?;
            }
            false if total.bytes_here > 0 && self.reclaim.is_some() => {
                writeln!(out, "imported into {store}")?;
            }
            false if total.bytes_here > 0 => {
                let undo = format!("'{} undo'", self.program(store));
                writeln!(out, "imported into {store}; {undo} undoes the import")?;
            }
            false => writeln!(out, "nothing is new to {store}")?,
        }
        Ok(())
    }
}

/// Writes the imported turns of each agent.
fn print_imported(
    out: &mut Output,
    rows: &BTreeMap<String, AgentRow>,
    total: &AgentRow,
) -> Result<()> {
    let mut table = Table::new(&[
        "agent",
        "sessions",
        "unchanged",
        "new turns",
        "messages",
        "there",
        "written here",
    ]);
    for (agent, row) in rows {
        table.row(row.cells(Cell::styled(NAME, agent)));
    }
    if rows.len() > 1 {
        table.row(total.cells(Cell::styled(STRONG, "all")));
    }
    table.write(out)?;
    Ok(())
}

fn hold(files: u64) -> String {
    let verb = if files == 1 { "holds" } else { "hold" };
    format!("{} {verb}", count(files, "other file"))
}

/// The place of a session.
fn shown(found: &FoundSession) -> String {
    match &found.entry {
        None => found.path.display().to_string(),
        Some(_) => format!("{}, session {}", found.path.display(), found.session),
    }
}

fn failure_of_odd(odd: Odd) -> (String, String) {
    (odd.path.display().to_string(), Failure::from(odd.error).message())
}

impl AgentRow {
    fn add(&mut self, found: &FoundSession, outcome: &Outcome) {
        self.sessions += 1;
        self.bytes_there += found.bytes;
        self.look_at_age(found, !matches!(outcome, Outcome::Failed(_)));
        match outcome {
            Outcome::Imported(report) => {
                self.unchanged += u64::from(report.turns == 0);
                self.turns += report.turns;
                self.messages += report.messages;
                self.bytes_here += report.new_bytes;
                self.unread.join(&report.unread);
            }
            Outcome::Unchanged => self.unchanged += 1,
            Outcome::Failed(_) => self.failed += 1,
        }
    }

    fn look_at_age(&mut self, found: &FoundSession, is_here: bool) {
        if let Some(sweep) = &mut self.sweep {
            sweep.add(found, is_here);
        }
    }

    fn join(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.unchanged += other.unchanged;
        self.failed += other.failed;
        self.turns += other.turns;
        self.messages += other.messages;
        self.bytes_there += other.bytes_there;
        self.bytes_here += other.bytes_here;
    }

    fn cells(&self, agent: Cell) -> Vec<Cell> {
        vec![
            agent,
            self.sessions.to_string().into(),
            self.unchanged.to_string().into(),
            self.turns.to_string().into(),
            self.messages.to_string().into(),
            size(self.bytes_there).into(),
            size(self.bytes_here).into(),
        ]
    }

    fn record(self, agent: String) -> json::AdoptedAgent {
        json::AdoptedAgent {
            agent,
            sessions: self.sessions,
            unchanged: self.unchanged,
            failed: self.failed,
            turns: self.turns,
            messages: self.messages,
            input_bytes: self.bytes_there,
            new_bytes: self.bytes_here,
            unread: json::unread_kinds(&self.unread),
            gone: 0,
            sweep: self.sweep.map(Sweep::record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_is_told_with_the_reason() {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let odd = Odd { path: "/p".into(), error: Error::io("open it", denied) };
        assert_eq!(failure_of_odd(odd), ("/p".into(), "open it: permission denied".into()));
    }
}
