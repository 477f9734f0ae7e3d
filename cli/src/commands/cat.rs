//! `cat`: prints the exact bytes of an entry.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::Error;
use turntree::context::sections::{SOURCE, conversation_agent};
use turntree::context::{Context, PathTarget, Section, Shape, split};
use turntree::context::{export_messages, export_source};
use turntree::object::{Kind, ObjectSource};
use turntree::tree::List;

use super::Verb;
use crate::porcelain::read::paths::with_similar;
use crate::porcelain::read::place::resolve_place;
use crate::program::complete::entries;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Result};

/// Print the bytes of an entry
///
/// Prints a file, a scratchpad entry, or a message by its index, byte for byte. A conversation is
/// printed as JSON Lines, an imported transcript as the original file.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree cat HEAD:files/src/main.rs
  turntree cat turn:12:scratchpad/todos
  turntree cat nightly:agents/main/messages/0
  turntree cat nightly:agents/main/messages | jq .")]
pub(crate) struct Cat {
    /// A revision with a path; a path alone is a file of the newest snapshot
    #[arg(value_name = "REV:PATH", add = ArgValueCompleter::new(entries))]
    path: String,
}

impl Verb for Cat {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let revision = resolve_place(&repo, &self.path)?;
        let Some(path) = revision.path else {
            let missing =
                Error::invalid(format!("'{}' is not an entry: expected REV:PATH", self.path));
            return Err(Failure::hinted(missing, "'turntree ls' lists entries"));
        };
        let context = repo.context(&revision.commit)?;
        let found = context.lookup(&repo, &path).map_err(Failure::from);
        match with_similar(&repo, &revision.commit, &path, found)? {
            PathTarget::Entry(item) => {
                run.out.write_all(&repo.read_as(item.link.kind, &item.link.id)?)?;
            }
            PathTarget::Section(section) => {
                write_section(&mut run.out, &repo, &context, split(&path).0, &section)?;
            }
            PathTarget::Folder => return Err(not_an_entry(&path)),
        }
        Ok(Answer::Yes)
    }
}

fn write_section(
    out: &mut dyn Write,
    source: &dyn ObjectSource,
    context: &Context,
    name: &str,
    section: &Section,
) -> Result<()> {
    let agent = conversation_agent(name);
    match (section.shape, agent) {
        (Shape::Blob, _) => out.write_all(&source.read_as(Kind::Blob, &section.id)?)?,
        (Shape::List, Some(agent)) => {
            export_messages(source, context, agent, &|_| true, out)?;
        }
        (Shape::List, None) if name == SOURCE => {
            export_source(source, context, out)?;
        }
        (Shape::List, None) => {
            let list = List::open(source, &section.id)?;
            for item in list.iter(source, 0..list.len()) {
                let item = item?;
                out.write_all(&source.read_as(item.link.kind, &item.link.id)?)?;
                out.write_all(b"\n")?;
            }
        }
        (Shape::Map, _) => return Err(not_an_entry(name)),
    }
    Ok(())
}

fn not_an_entry(path: &str) -> Failure {
    let error = Error::invalid(format!("'{path}' contains entries and is not one itself"));
    Failure::hinted(error, "'turntree ls' lists them")
}
