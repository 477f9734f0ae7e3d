//! `export`: a transcript as it came in, or the messages of a snapshot.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use turntree::workspace::save;
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::porcelain::export::ExportRequest;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::render::size;

/// Export a session
///
/// As source it is the imported file, byte for byte; as jsonl the messages of one agent at that
/// revision, one a line, as they came in; as swarm-snapshot all that a SwarmSDK document has a place
/// for; as context-chef a snapshot that its library restores; as ollm-context, ollm-mode or ollm-intent
/// what OLLM CLI stores; as codesign a design store with the snapshots that lead there, a design for
/// each session, and as codesign-session the chat and the comments of one. To read: markdown, and html,
/// one file that needs no network and shows every branch when REV is a session. For other tools: json,
/// openai, anthropic and atif. A file is written whole or not at all, with the permissions that the
/// umask leaves, as those of a redirection; it holds whatever the agent has seen.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree export nightly --format source -o nightly.jsonl
  turntree export nightly~10 --format jsonl | jq -r .type
  turntree export HEAD --format jsonl --agent reviewer@main
  turntree export nightly --format html -o nightly.html
  turntree export plan-a plan-b --format html -o plans.html
  turntree export nightly --format anthropic | jq '.messages | length'
  turntree export review~2 --format swarm-snapshot -o snapshot.json
  turntree export pricing landing --format codesign --branches -o design-store.json
  turntree export pricing --format codesign-session -o chat.jsonl
  turntree export work --format ollm-context --compat upstream -o snapshot.json
  turntree export work.modes --format ollm-mode")]
pub(crate) struct Export {
    #[command(flatten)]
    request: ExportRequest,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
}

impl Verb for Export {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let subject = self.request.subject(&repo)?;
        let Some(path) = &self.output else {
            self.request.write(&subject, &mut run.out)?;
            return Ok(Answer::Yes);
        };
        let write = |out: &mut dyn Write| self.request.write(&subject, out);
        let bytes = match special(path) {
            Some(opened) => {
                let failed = |error| Error::io(format!("write {}", path.display()), error);
                write(&mut opened.map_err(failed)?)?;
                0
            }
            None if path.is_dir() => save(path, self.force, write)?,
            None => save(path, self.force, write)
                .hint(ErrorKind::InvalidInput, "--force replaces it")?,
        };
        let file = path.display().to_string();
        if run.out.json {
            run.out.record(&json::ExportRecord { commit: subject.id.to_string(), file, bytes })?;
        } else {
            writeln!(run.out, "wrote {} to {file}", size(bytes))?;
        }
        Ok(Answer::Yes)
    }
}

/// A pipe or a device, which is written to as it is.
fn special(path: &Path) -> Option<io::Result<fs::File>> {
    let found = fs::metadata(path).ok()?;
    let is_special = !found.is_file() && !found.is_dir();
    is_special.then(|| fs::OpenOptions::new().write(true).open(path))
}
