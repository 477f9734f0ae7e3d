//! `cat-object`: prints an object's bytes, kind or size, or its content for people.

use std::io::Write;

use clap::Args;
use turntree::object::{Commit, Kind, Object, ObjectSource, Operation, RefValue, Tag, Time};
use turntree::{Error, tree};

use super::Verb;
use crate::porcelain::read::revision::object;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::{clock, json};

/// Print an object's bytes, kind or size
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree cat-object 3f2a91c0 -t
  turntree cat-object HEAD -p
  turntree cat-object HEAD:files/logo.png > logo.png")]
pub(crate) struct CatObject {
    /// An id, 4 or more digits of one, or a revision with or without a path
    #[arg(value_name = "ID")]
    object: String,
    /// Print the kind
    #[arg(short = 't', long = "type", conflicts_with_all = ["size", "pretty"])]
    kind: bool,
    /// Print the size in bytes
    #[arg(short, long, conflicts_with = "pretty")]
    size: bool,
    /// Print it in a form for people
    #[arg(short, long)]
    pretty: bool,
}

impl Verb for CatObject {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let id = object(&repo, &self.object)?;
        let object = repo.read(&id)?;
        let object =
            object.ok_or_else(|| Error::not_found(format!("object {id} is not in the store")))?;
        let Object { kind, bytes } = &object;
        let size = bytes.len() as u64;
        if run.out.json {
            run.out.record(&json::ObjectInfo { id: id.to_string(), kind: kind.name(), size })?;
        } else if self.kind {
            writeln!(run.out, "{kind}")?;
        } else if self.size {
            writeln!(run.out, "{size}")?;
        } else if self.pretty {
            write_pretty(&mut run.out, &object)?;
        } else {
            run.out.write_all(bytes)?;
        }
        Ok(Answer::Yes)
    }
}

fn write_pretty(out: &mut dyn Write, object: &Object) -> Result<()> {
    match object.kind {
        Kind::Blob => out.write_all(&object.bytes)?,
        Kind::Node => {
            for link in tree::links(&object.bytes)? {
                writeln!(out, "{} {}", link.kind, link.id)?;
            }
        }
        Kind::Commit => write_commit(out, &Commit::decode(&object.bytes)?)?,
        Kind::Tag => write_tag(out, &Tag::decode(&object.bytes)?)?,
        Kind::Operation => write_operation(out, &Operation::decode(&object.bytes)?)?,
    }
    Ok(())
}

fn write_commit(out: &mut dyn Write, commit: &Commit) -> Result<()> {
    writeln!(out, "tree {}", commit.tree)?;
    for parent in &commit.parents {
        writeln!(out, "parent {parent}")?;
    }
    writeln!(out, "session {}", commit.session)?;
    writeln!(out, "turn {}", commit.turn)?;
    writeln!(out, "agent {}", commit.author.agent)?;
    writeln!(out, "model {}", commit.author.model)?;
    writeln!(out, "time {}", clock::rfc3339(commit.time))?;
    writeln!(out, "trigger {}", commit.trigger)?;
    for (name, value) in &commit.metadata {
        writeln!(out, "metadata {name} {value}")?;
    }
    writeln!(out, "\n{}", commit.message)?;
    Ok(())
}

fn write_tag(out: &mut dyn Write, tag: &Tag) -> Result<()> {
    writeln!(out, "{} {}", tag.target_kind, tag.target)?;
    writeln!(out, "name {}", tag.name)?;
    writeln!(out, "tagger {}", tag.tagger)?;
    writeln!(out, "time {}", utc(tag.time_micros))?;
    if let Some(expires) = tag.expires_micros {
        writeln!(out, "expires {}", utc(expires))?;
    }
    writeln!(out, "\n{}", tag.message)?;
    Ok(())
}

fn write_operation(out: &mut dyn Write, operation: &Operation) -> Result<()> {
    for parent in &operation.parents {
        writeln!(out, "parent {parent}")?;
    }
    writeln!(out, "sequence {}", operation.sequence)?;
    writeln!(out, "time {}", utc(operation.time_micros))?;
    writeln!(out, "actor {}", operation.actor)?;
    for change in &operation.changes {
        let (old, new) = (value(change.old.as_ref()), value(change.new.as_ref()));
        writeln!(out, "change {} {old} {new}", change.name)?;
    }
    writeln!(out, "\n{}", operation.reason)?;
    Ok(())
}

/// Formats a time that was stored without a time zone.
fn utc(micros: i64) -> String {
    clock::rfc3339(Time { micros, offset_minutes: 0 })
}

/// Formats the value of a ref.
fn value(value: Option<&RefValue>) -> String {
    match value {
        None => "-".to_owned(),
        Some(RefValue::Object(id)) => id.to_string(),
        Some(RefValue::Symbolic(name)) => format!("ref:{name}"),
    }
}
