//! `import`: a recorded session goes in, one commit a turn.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use turntree::agents::{session_name, working_directory};
use turntree::exchange::formats::codesign::import_designs;
use turntree::exchange::formats::{FORMATS, named};
use turntree::exchange::{
    Format, HEAD_BYTES, ImportNote, ImportOptions, ImportReport, ImportedBranch, detect, read_head,
};
use turntree::workspace::Gathered;
use turntree::{ErrorKind, exchange};

use super::designs;
use super::import_folder::{import_folder, warn_of_odd};
use crate::error::{Answer, Hint, Result};
use crate::invocation::{Invocation, input_name, open_file, stamp};
use crate::output::{NAME, STRONG, warn};
use crate::progress::Progress;
use crate::render::{count, size};
use crate::{json, output};

/// Most notes that are printed one by one.
pub(super) const MAX_SHOWN_NOTES: usize = 10;

pub(super) const CONFLICT_HINT: &str =
    "another process changed this session meanwhile: import again";

const FORMATS_HINT: &str = "'turntree import --help' lists the formats; --format names one";

/// Import a recorded session, one snapshot a turn
///
/// The format is detected from the content. Importing a longer version of a transcript again adds
/// only its new turns; a rewritten one becomes a new branch from the last common turn. What is not
/// understood is kept, and reported on stderr. The first import moves HEAD to the session.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree import ~/.claude/projects/-work/3f2a91c0.jsonl
  turntree import run.json --format atif --session nightly
  turntree import project/.context_vfs --session build
  turntree import ~/.config/open-codesign --session designs
  turntree import ~/.ollm
  turntree import ~/.codex/sessions/2026/05/01/rollout-1.jsonl.zst
  zcat old.jsonl.gz | turntree import - --session old --switch")]
pub(crate) struct Import {
    /// The transcript, or - for standard input; a directory of ContextChef, OLLM CLI or open-codesign
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    file: PathBuf,
    /// Read it as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    format: Option<String>,
    /// The session it becomes or continues; the file's name by default
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Point HEAD at the imported branch
    #[arg(long)]
    switch: bool,
}

impl Import {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let format = self.format.as_deref().map(named).transpose()?;
        let name = input_name(&self.file);
        if let Some(found) = designs::gather(&self.file, format)? {
            return self.import_designs(run, format, &found);
        }
        if self.file.is_dir() {
            let options = self.options(format)?;
            return import_folder(run, &self.file, self.session.as_deref(), options);
        }
        let (input, total) = self.input()?;
        if format.is_none() && total.is_some() {
            // What is no transcript leaves no new store behind.
            let head = read_head(BufReader::new(open_file(&self.file)?));
            let head = head.map_err(|error| error.at(&name))?;
            detect(&head)
                .map_err(|error| error.at(&name))
                .hint(ErrorKind::InvalidInput, FORMATS_HINT)?;
        }
        let repo = run.open_or_create()?;
        let options = self.options(format)?;
        let directory = working_directory(&self.file);
        let input = Progress::new(input, &name, total);
        let report = exchange::import_from(&repo, input, &options, directory.as_deref())
            .map_err(|error| error.at(&name))
            .hint(ErrorKind::InvalidInput, FORMATS_HINT)
            .hint(ErrorKind::Conflict, CONFLICT_HINT)?;
        warn_of_notes(&name, &report.notes);
        print(&mut run.out, &report, None)?;
        Ok(Answer::Yes)
    }

    /// Imports the stores of a directory of open-codesign, or a database with the log beside it.
    fn import_designs(
        &self,
        run: &mut Invocation,
        format: Option<&'static Format>,
        found: &Gathered,
    ) -> Result<Answer> {
        let shown = self.file.display().to_string();
        let repo = run.open_or_create()?;
        let mut options = self.options(format)?;
        if self.session.is_none() && self.file.is_dir() {
            options.session = session_name(&designs::full(&self.file)?);
        }
        let report = import_designs(&repo, &found.files, &options)
            .map_err(|error| error.at(&shown))
            .hint(ErrorKind::Conflict, CONFLICT_HINT)?;
        warn_of_odd(&shown, &found.odd);
        warn_of_notes(&shown, &report.notes);
        print(&mut run.out, &report, None)?;
        Ok(Answer::Yes)
    }

    /// The transcript, and its size when it is a file.
    fn input(&self) -> Result<(Box<dyn BufRead>, Option<u64>)> {
        if self.file == Path::new("-") {
            return Ok((Box::new(io::stdin().lock()), None));
        }
        let file = open_file(&self.file)?;
        let total =
            file.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
        Ok((Box::new(BufReader::with_capacity(HEAD_BYTES, file)), total))
    }

    fn options(&self, format: Option<&'static Format>) -> Result<ImportOptions> {
        Ok(ImportOptions {
            format,
            session: self.session.clone().unwrap_or_else(|| session_name(&self.file)),
            stamp: stamp()?,
            switch: self.switch,
        })
    }
}

fn format_parser() -> clap::builder::PossibleValuesParser {
    let values = FORMATS
        .iter()
        .map(|format| clap::builder::PossibleValue::new(format.name).help(format.title));
    clap::builder::PossibleValuesParser::new(values)
}

pub(crate) fn warn_of_notes(name: &str, notes: &[ImportNote]) {
    for note in notes.iter().take(MAX_SHOWN_NOTES) {
        let ImportNote { line, offset, what } = note;
        let what = what.strip_prefix(&format!("line {line}, ")).unwrap_or(what);
        warn(&format!("{name}, line {line} (byte {offset}): {what}; kept as it is"));
    }
    if let Some(more) = notes.len().checked_sub(MAX_SHOWN_NOTES).filter(|more| *more > 0) {
        warn(&format!("{name}: {} more like these", count(more as u64, "record")));
    }
}

pub(super) fn print(
    out: &mut output::Output,
    report: &ImportReport,
    folder: Option<json::ImportedFolder>,
) -> Result<()> {
    if out.json {
        out.record(&json::Imported {
            session: report.branch.session().to_owned(),
            branch: report.branch.branch().to_owned(),
            format: report.format,
            turns: report.turns,
            messages: report.messages,
            head: report.head.to_string(),
            input_bytes: report.input_bytes,
            new_bytes: report.new_bytes,
            folder,
            others: report.others.iter().map(imported_branch).collect(),
        })?;
        return Ok(());
    }
    let branch = out.paint.paint(NAME, &report.branch);
    if report.turns == 0 && report.others.is_empty() {
        writeln!(out, "{branch} has all of this already")?;
        return Ok(());
    }
    let turns = count(report.turns, "turn");
    let turns = out.paint.paint(STRONG, turns);
    writeln!(
        out,
        "{branch}: {turns} with {} from {}; {} read, {} written",
        count(report.messages, "message"),
        report.format,
        size(report.input_bytes),
        size(report.new_bytes),
    )?;
    for ImportedBranch { branch, turns, messages, .. } in &report.others {
        let branch = out.paint.paint(NAME, branch);
        if *turns == 0 {
            writeln!(out, "{branch}: what the session left when it went back")?;
            continue;
        }
        let turns = out.paint.paint(STRONG, count(*turns, "turn"));
        writeln!(out, "{branch}: {turns} with {}", count(*messages, "message"))?;
    }
    Ok(())
}

fn imported_branch(made: &ImportedBranch) -> json::ImportedBranch {
    json::ImportedBranch {
        session: made.branch.session().to_owned(),
        branch: made.branch.branch().to_owned(),
        turns: made.turns,
        messages: made.messages,
        head: made.head.to_string(),
    }
}
