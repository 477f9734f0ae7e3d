//! `export`: a transcript as it came in, or the messages of a snapshot.

use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use turntree::Error;
use turntree::context::{Context, MAIN_AGENT};
use turntree::exchange::{export_messages, export_source};
use turntree::object::ObjectSource;

use crate::complete::revisions;
use crate::error::{Answer, Failure, Result};
use crate::invocation::Invocation;
use crate::json;
use crate::render::size;
use crate::revision::resolve;

/// Write a session out again
///
/// As source it is the imported file, byte for byte; as jsonl the messages of one agent at that
/// revision, one a line, as they came in.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree export nightly --format source -o nightly.jsonl
  turntree export nightly~10 --format jsonl | jq -r .type
  turntree export HEAD --format jsonl --agent reviewer@main")]
pub(crate) struct Export {
    /// A session or any other revision
    #[arg(value_name = "REV", add = ArgValueCandidates::new(revisions))]
    revision: String,
    /// What to write
    #[arg(long, value_enum)]
    format: Format,
    /// Whose messages, for jsonl
    #[arg(long, value_name = "NAME", default_value = MAIN_AGENT)]
    agent: String,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
}

/// What an export writes.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// The imported transcript, byte for byte
    Source,
    /// Messages of one agent, one a line
    Jsonl,
}

impl Export {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let id = resolve(&repo, &self.revision)?.commit;
        let context = repo.context(&id)?;
        let Some(path) = &self.output else {
            self.write(repo.store(), &context, &mut run.out)?;
            return Ok(Answer::Yes);
        };
        let bytes = write_file(path, self.force, |out| self.write(repo.store(), &context, out))?;
        let file = path.display().to_string();
        if run.out.json {
            run.out.record(&json::Exported { commit: id.to_string(), file, bytes })?;
        } else {
            writeln!(run.out, "wrote {} to {file}", size(bytes))?;
        }
        Ok(Answer::Yes)
    }

    fn write(
        &self,
        source: &dyn ObjectSource,
        context: &Context,
        out: &mut dyn Write,
    ) -> Result<()> {
        match self.format {
            Format::Source => export_source(source, context, out)?,
            Format::Jsonl => {
                let agents = context.agents(source)?;
                if self.agent != MAIN_AGENT && !agents.contains(&self.agent) {
                    let (agent, agents) = (&self.agent, agents.join(", "));
                    let missing =
                        format!("there is no agent '{agent}' in this snapshot: it has {agents}");
                    return Err(Error::not_found(missing).into());
                }
                export_messages(source, context, &self.agent, out)?
            }
        };
        Ok(())
    }
}

/// Writes a file under a temporary name beside it and renames it, so that it is there whole or not at
/// all, and returns its bytes.
fn write_file(
    path: &Path,
    replace: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<u64> {
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let special = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if special {
        // A pipe or a device is written to as it is.
        let mut out = fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
        write(&mut out)?;
        return Ok(0);
    }
    if path.exists() && !replace {
        let there = Error::invalid(format!("{} exists already", path.display()));
        return Err(Failure::hinted(there, "--force replaces it"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // A temporary file is private by default; this one is to be a file like any other.
    let part = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    let mut out = BufWriter::new(part.as_file());
    write(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    part.as_file().sync_all().map_err(failed)?;
    let persisted = if replace { part.persist(path) } else { part.persist_noclobber(path) };
    persisted.map_err(|error| failed(error.error))?;
    let written = fs::metadata(path).map_err(failed)?;
    Ok(written.len())
}
