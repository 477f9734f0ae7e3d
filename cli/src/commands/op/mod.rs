//! `op`: shows the operation log.

mod forget;

use std::io::Write;

use clap::{Args, Subcommand};
use turntree::ErrorKind;
use turntree::object::Time;
use turntree::repo::OperationEntry;

use self::forget::Forget;
use super::Verb;
use crate::porcelain::change::operations::{OperationsWanted, each_operation};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::output::{FAINT, ID, Output};
use crate::view::render::changed_ref::line;
use crate::view::render::{ID_DIGITS, columns_of, one_line};
use crate::view::{clock, json};

/// Columns of the name of an actor.
const ACTOR_COLUMNS: usize = 20;

/// List operations, show one, or forget old ones
///
/// An operation is one change of branches, tags, pins, policies and HEAD, with its author: every
/// command that changes a ref makes one. 'turntree undo' reverts an operation, and --at-op shows
/// the store as it was after one. The operations of one 'turntree adopt' are shown as one line: one
/// undo reverts them.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree op log -n 10
  turntree op log --ref refs/heads/nightly/main
  turntree op show 41
  turntree log --at-op 41
  turntree op forget --before 90d
  turntree op log --json | jq 'select(.in_force | not)'")]
pub(crate) struct Op {
    #[command(subcommand)]
    action: Option<OpCommand>,
}

#[derive(Debug, Subcommand)]
enum OpCommand {
    Log(OpLog),
    Show(OpShow),
    Forget(Forget),
}

/// List operations, newest first
#[derive(Debug, Args)]
struct OpLog {
    /// Stop after this many
    #[arg(short = 'n', long, value_name = "N")]
    max_count: Option<usize>,
    /// Only operations that changed this ref, by its full name
    #[arg(long = "ref", value_name = "NAME")]
    name: Option<String>,
}

/// Show one operation with every ref that it changed
#[derive(Debug, Args)]
struct OpShow {
    /// Its number, or at least 4 digits of its id
    #[arg(value_name = "OP")]
    operation: String,
}

impl Verb for Op {
    fn reads_only(&self) -> bool {
        match &self.action {
            Some(OpCommand::Forget(forget)) => forget.reads_only(),
            _ => true,
        }
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            None => OpLog { max_count: None, name: None }.run(run),
            Some(OpCommand::Log(log)) => log.run(run),
            Some(OpCommand::Show(show)) => show.run(run),
            Some(OpCommand::Forget(forget)) => forget.run(run),
        }
    }
}

impl OpLog {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let now = clock::now()?;
        run.out.page();
        let wanted = OperationsWanted {
            name: self.name.as_deref(),
            before: None,
            most: self.max_count.unwrap_or(usize::MAX),
            for_people: !run.out.json && self.name.is_none(),
        };
        each_operation(&repo, &wanted, &mut |entry, in_force| {
            if run.out.json {
                run.out.record(&json::Operation::new(entry, in_force))?;
            } else {
                let line = head(&run.out, entry, in_force, now);
                writeln!(run.out, "{line}")?;
            }
            Ok(())
        })?;
        Ok(Answer::Yes)
    }
}

impl OpShow {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let entry = repo
            .find_operation(&self.operation)
            .hint(ErrorKind::NotFound, "'turntree op log' shows the operations that are kept")?;
        let in_force = !repo.undone_operations()?.contains(&entry.id);
        if run.out.json {
            run.out.record(&json::Operation::new(&entry, in_force))?;
            return Ok(Answer::Yes);
        }
        let (paint, now) = (run.out.paint, clock::now()?);
        let entry_line = head(&run.out, &entry, in_force, now);
        writeln!(run.out, "{entry_line}")?;
        for change in &entry.operation.changes {
            let line = line(paint, change, run.out.names());
            writeln!(run.out, "{line}")?;
        }
        Ok(Answer::Yes)
    }
}

/// Formats an operation on one line.
fn head(out: &Output, entry: &OperationEntry, in_force: bool, now: Time) -> String {
    let (paint, OperationEntry { id, operation }) = (out.paint, entry);
    let time = Time { micros: operation.time_micros, offset_minutes: 0 };
    let taken_back = if in_force { "" } else { "  (taken back)" };
    let actor = one_line(&operation.actor, ACTOR_COLUMNS);
    let age = format!("{:<14}", clock::relative(time, now));
    let number = format!("{:>5}", operation.sequence);
    let used =
        [&*number, &*age, &*actor, taken_back].iter().map(|text| columns_of(text)).sum::<usize>();
    format!(
        "{number} {} {}  {actor}  {}{}",
        paint.paint(ID, id.short(ID_DIGITS)),
        paint.paint(FAINT, age),
        one_line(&out.names().in_text(&operation.reason), out.width.left(used + ID_DIGITS + 6)),
        paint.paint(FAINT, taken_back),
    )
}
