//! `export`: a transcript as it came in, or the messages of a snapshot.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use turntree::context::{Context, MAIN_AGENT, Role};
use turntree::exchange::formats::context_chef::{ChefOptions, export_chef};
use turntree::exchange::formats::ollm::{
    SnapshotFacts, TransitionFacts, export_context, export_intent, export_mode, state_snapshot,
};
use turntree::exchange::formats::swarm::{SnapshotOptions, SnapshotVersion, export_snapshot};
use turntree::exchange::{export_messages, export_source};
use turntree::object::{Commit, ObjectId, ObjectSource};
use turntree::workspace::save;
use turntree::{Error, ErrorKind};

use super::events::Compat;
use crate::clock;
use crate::complete::revisions;
use crate::error::{Answer, Hint, Result};
use crate::invocation::Invocation;
use crate::json;
use crate::render::size;
use crate::revision::resolve;

/// Write a session out again
///
/// As source it is the imported file, byte for byte; as jsonl the messages of one agent at that
/// revision, one a line, as they came in; as swarm-snapshot all that a SwarmSDK document has a place
/// for; as context-chef a snapshot that its library restores; as ollm-context, ollm-mode or
/// ollm-intent what OLLM CLI stores. A file is written whole or not at all, with the permissions
/// that the umask leaves, as those of a redirection; it holds whatever the agent has seen.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree export nightly --format source -o nightly.jsonl
  turntree export nightly~10 --format jsonl | jq -r .type
  turntree export HEAD --format jsonl --agent reviewer@main
  turntree export review~2 --format swarm-snapshot -o snapshot.json
  turntree export work.modes --format ollm-mode")]
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
    /// Only messages of this role, or !ROLE for those of the others, for jsonl: system, user,
    /// assistant, tool or other
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<(Role, bool)>,
    /// The version of a swarm-snapshot: 1.0.0, 2.0.0 or 2.1.0; that of the imported one by default
    #[arg(long, value_name = "VERSION", value_parser = version)]
    snapshot_version: Option<SnapshotVersion>,
    /// Do as the system of the format does, where it is wrong
    #[arg(long, value_enum)]
    compat: Option<Compat>,
    /// Leave out what has expired of core memory, as the next compile would, for context-chef
    #[arg(long)]
    sweep: bool,
    /// Which intent, for ollm-intent; the newest by default
    #[arg(long, value_name = "ID")]
    intent: Option<String>,
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
    /// A snapshot as SwarmSDK has it
    SwarmSnapshot,
    /// A snapshot document as ContextChef 4.2 has it
    ContextChef,
    /// A context snapshot as OLLM CLI has it
    OllmContext,
    /// A mode transition as OLLM CLI has it
    OllmMode,
    /// An intent as OLLM CLI has it
    OllmIntent,
    /// The text of a mode transition that OLLM CLI puts into a prompt
    OllmState,
}

impl Export {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let id = resolve(&repo, &self.revision)?.commit;
        let (context, commit) = (repo.context(&id)?, repo.commit(&id)?);
        let Some(path) = &self.output else {
            self.write(repo.store(), &context, (&id, &commit), &mut run.out)?;
            return Ok(Answer::Yes);
        };
        let write = |out: &mut dyn Write| self.write(repo.store(), &context, (&id, &commit), out);
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
        (id, commit): (&ObjectId, &Commit),
        out: &mut dyn Write,
    ) -> turntree::Result<()> {
        match self.format {
            Format::Source => export_source(source, context, out)?,
            Format::SwarmSnapshot => {
                // Whoever imported it has told when it was made.
                let edited = !commit.author.agent.starts_with("swarm-");
                let (version, compat) = (self.snapshot_version, Compat::of(self.compat));
                let moment = clock::rfc3339(commit.time);
                let options = SnapshotOptions { version, compat, moment, edited };
                export_snapshot(source, context, &options, out)?;
                0
            }
            Format::Jsonl => {
                let agents = context.agents(source)?;
                if self.agent != MAIN_AGENT && !agents.contains(&self.agent) {
                    let (agent, agents) = (&self.agent, agents.join(", "));
                    let missing =
                        format!("there is no agent '{agent}' in this snapshot: it has {agents}");
                    return Err(Error::not_found(missing));
                }
                let is_wanted = |role: Role| match self.role {
                    Some((wanted, is_it)) => (role == wanted) == is_it,
                    None => true,
                };
                export_messages(source, context, &self.agent, &is_wanted, out)?
            }
            Format::ContextChef => {
                let mut options = ChefOptions::of(commit);
                if self.sweep {
                    options.swept_at = Some(clock::now()?.micros / 1000);
                }
                export_chef(source, context, &options, out)?;
                0
            }
            Format::OllmContext => {
                export_context(source, context, &SnapshotFacts::of(id, commit), out)?;
                0
            }
            Format::OllmMode => {
                export_mode(source, context, &TransitionFacts::of(id, commit), out)?;
                0
            }
            Format::OllmIntent => {
                export_intent(source, context, self.intent.as_deref(), out)?;
                0
            }
            Format::OllmState => {
                let text = state_snapshot(source, context)?.to_xml();
                out.write_all(text.as_bytes())
                    .map_err(|error| Error::io("write the text", error))?;
                0
            }
        };
        Ok(())
    }
}

fn role(text: &str) -> turntree::Result<(Role, bool)> {
    let (name, is_it) = text.strip_prefix('!').map_or((text, true), |name| (name, false));
    let role = Role::from_name(name);
    match role.name() == name {
        true => Ok((role, is_it)),
        false => Err(Error::invalid(format!(
            "'{text}': expected system, user, assistant, tool or other, or one of these behind a !"
        ))),
    }
}

fn version(text: &str) -> turntree::Result<SnapshotVersion> {
    SnapshotVersion::named(text)
        .ok_or_else(|| Error::invalid(format!("'{text}': expected 1.0.0, 2.0.0 or 2.1.0")))
}

/// A pipe or a device, which is written to as it is.
fn special(path: &Path) -> Option<io::Result<fs::File>> {
    let found = fs::metadata(path).ok()?;
    let is_special = !found.is_file() && !found.is_dir();
    is_special.then(|| fs::OpenOptions::new().write(true).open(path))
}
