//! `import`: imports a recorded session, one commit per turn.

mod codesign;
mod folder;

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use turntree::repo::{BranchName, Repository};
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::{folder_document, import_growing, session_name, working_directory};
use turntree_exchange::formats::codesign::import_designs;
use turntree_exchange::formats::ollm;
use turntree_exchange::formats::{FORMATS, named};
use turntree_exchange::{Format, HEAD_BYTES, ImportOptions, StoredTree, detect, read_head};

use self::folder::import_folder;
use super::Verb;
use crate::porcelain::read::branches::refuse_forgotten;
use crate::porcelain::read::revision::branch_of;
use crate::porcelain::transfer::import_report::{
    CONFLICT_HINT, print, warn_of_notes, warn_of_odd, warn_of_unread,
};
use crate::program::invocation::{
    Invocation, has_own_branch, input_name, open_file, read_input, stamp,
};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::progress::{Progress, SharedMeter};

const FORMATS_HINT: &str = "'turntree import --help' lists the formats; --format names one";

/// Import a recorded session, one snapshot a turn
///
/// The format is detected from the content. A repeated import of a longer transcript adds only its
/// new turns; a rewritten transcript becomes a new branch from the last common turn. Unknown
/// records are kept, and reported on stderr. The first import moves HEAD to the session.
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
    /// Read it as this format instead of detecting the format
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    format: Option<String>,
    /// The session it becomes or continues; by default the one named in an OLLM CLI snapshot,
    /// otherwise the file's name
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// The branch for a document of a single turn (a snapshot of a framework): SESSION/BRANCH, or a
    /// branch of the session; by default the branch that commands act on if it is in the session,
    /// otherwise main
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Point HEAD at the imported branch
    #[arg(long)]
    switch: bool,
    /// Import a session that was forgotten with 'turntree session forget'
    #[arg(long)]
    again: bool,
}

impl Verb for Import {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let format = self.format.as_deref().map(named).transpose()?;
        let name = input_name(&self.file);
        if self.branch.is_some() && (self.file.is_dir() || !self.is_document(format)?) {
            let message = format!("{name}: only a document of one turn can be added to a branch");
            let hint = "transcripts and directories name branches themselves; for standard input \
                        and pipes name the --format";
            return Err(Failure::hinted(Error::invalid(message), hint));
        }
        if let Some(found) = codesign::gather(&self.file, format)? {
            return self.import_designs(run, format, &found);
        }
        if self.file.is_dir() && !self.is_conversation()? {
            let options = self.options(format)?;
            return import_folder(run, &self.file, self.session.as_deref(), options, self.again);
        }
        let (input, total) = self.input()?;
        if format.is_none() && total.is_some() {
            // Checked first, so that an invalid transcript does not create a store.
            let head = read_head(BufReader::new(open_file(&self.file)?));
            let head = head.map_err(|error| error.at(&name))?;
            detect(&head)
                .map_err(|error| error.at(&name))
                .hint(ErrorKind::InvalidInput, FORMATS_HINT)?;
        }
        let repo = run.open_or_create()?;
        let mut options = self.options(format)?;
        if has_own_branch() || self.is_document(format)? {
            options.branch = self.branch(&repo, &options.session)?;
        }
        if let Some(branch) = &options.branch {
            branch.session().clone_into(&mut options.session);
        }
        refuse_forgotten(&repo, [&*options.session], self.again)?;
        let directory = working_directory(&self.file);
        let directory = directory.as_deref();
        // A pipe cannot be read from a position.
        let grown = total.map_or(Ok(None), |total| {
            let meter = SharedMeter::new("import", total);
            import_growing(&repo, &self.file, &options, directory, &|bytes| meter.pass(bytes))
        });
        let imported = grown.and_then(|grown| match grown {
            Some(report) => Ok(report),
            None => {
                let input = Progress::new(input, &name, total);
                turntree_exchange::import_from(&repo, input, &options, directory)
            }
        });
        let report = imported
            .map_err(|error| error.at(&name))
            .hint(ErrorKind::InvalidInput, FORMATS_HINT)
            .hint(ErrorKind::Conflict, CONFLICT_HINT)?;
        warn_of_notes(&name, &report.notes);
        warn_of_unread(&name, &report.unread);
        print(&mut run.out, &report, None)?;
        Ok(Answer::Yes)
    }
}

impl Import {
    /// Imports the stores of an open-codesign directory, or a database with its log.
    fn import_designs(
        &self,
        run: &mut Invocation,
        format: Option<&'static Format>,
        found: &StoredTree,
    ) -> Result<Answer> {
        let shown = self.file.display().to_string();
        let repo = run.open_or_create()?;
        let mut options = self.options(format)?;
        if self.session.is_none() && self.file.is_dir() {
            options.session = session_name(&codesign::full(&self.file)?);
        }
        refuse_forgotten(&repo, [&*options.session], self.again)?;
        let report = import_designs(&repo, &found.files, &options)
            .map_err(|error| error.at(&shown))
            .hint(ErrorKind::Conflict, CONFLICT_HINT)?;
        warn_of_odd(&shown, &found.odd);
        warn_of_notes(&shown, &report.notes);
        print(&mut run.out, &report, None)?;
        Ok(Answer::Yes)
    }

    /// Opens the transcript; also returns its size if it is a file.
    fn input(&self) -> Result<(Box<dyn BufRead>, Option<u64>)> {
        if self.file == Path::new("-") {
            return Ok((Box::new(io::stdin().lock()), None));
        }
        if let Some(document) = self.folder()? {
            return Ok((document, None));
        }
        let file = open_file(&self.file)?;
        let total =
            file.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
        Ok((Box::new(BufReader::with_capacity(HEAD_BYTES, file)), total))
    }

    /// Opens the document of a directory that is a conversation.
    fn folder(&self) -> Result<Option<Box<dyn BufRead>>> {
        if self.file.is_dir() { Ok(folder_document(&self.file)?) } else { Ok(None) }
    }

    fn is_conversation(&self) -> Result<bool> {
        Ok(self.folder()?.is_some())
    }

    /// Returns true if the file is a single turn, as far as its beginning shows.
    fn is_document(&self, format: Option<&'static Format>) -> Result<bool> {
        if let Some(format) = format {
            return Ok(format.is_document());
        }
        if self.file == Path::new("-") {
            return Ok(false);
        }
        if fs::metadata(&self.file).is_ok_and(|found| !found.is_file()) {
            // A pipe can be read only once.
            return Ok(false);
        }
        let head = read_head(BufReader::new(open_file(&self.file)?));
        Ok(head.and_then(|head| detect(&head)).is_ok_and(Format::is_document))
    }

    /// The branch for a document: the named one, with its session if the name has one; otherwise
    /// the branch that commands act on, if it is in the session, or if the environment names it and
    /// no session is named.
    fn branch(&self, repo: &Repository, session: &str) -> Result<Option<BranchName>> {
        if let Some(name) = &self.branch {
            let branch = match (self.session.as_deref(), name.contains('/')) {
                (None, true) => branch_of(repo, None, Some(name))?,
                _ => branch_of(repo, Some(session), Some(name))?,
            };
            return Ok(Some(branch));
        }
        let Ok(acting) = repo.head() else { return Ok(None) };
        let is_of_session = acting.branch.session() == session;
        let is_told = self.session.is_none() && has_own_branch();
        Ok((is_of_session || is_told).then_some(acting.branch))
    }

    /// The session named in the file.
    fn own_session(&self, format: Option<&'static Format>) -> Result<Option<String>> {
        let is_file = fs::metadata(&self.file).is_ok_and(|found| found.is_file());
        if !is_file || !self.is_document(format)? {
            return Ok(None);
        }
        let head = || read_head(BufReader::new(open_file(&self.file)?)).map_err(Failure::from);
        let name = match format {
            Some(format) => format.name,
            None => detect(&head()?)?.name,
        };
        match name == ollm::CONTEXT_NAME {
            true => Ok(ollm::session_of_document(&read_input(&self.file)?)),
            false => Ok(None),
        }
    }

    fn options(&self, format: Option<&'static Format>) -> Result<ImportOptions> {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => self.own_session(format)?.unwrap_or_else(|| session_name(&self.file)),
        };
        Ok(ImportOptions {
            format,
            session,
            stamp: stamp()?,
            switch: self.switch,
            adoption: None,
            branch: None,
        })
    }
}

fn format_parser() -> clap::builder::PossibleValuesParser {
    let values = FORMATS
        .iter()
        .map(|format| clap::builder::PossibleValue::new(format.name).help(format.title));
    clap::builder::PossibleValuesParser::new(values)
}
