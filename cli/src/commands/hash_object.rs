//! `hash-object`: prints the id of bytes, and optionally stores the object.

use std::io::Write;
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use turntree::object::{Commit, Kind, ObjectId, ObjectSink, Operation, Tag, check_size};
use turntree::{Error, tree};

use super::Verb;
use crate::program::invocation::{Invocation, input_name, read_input};
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Print the id of an object, and store it if asked to
///
/// The id of a blob is the hash that b3sum prints. A stored object that is reachable from no ref is
/// garbage, and a later collection deletes it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree hash-object notes.md
  echo hello | turntree hash-object - -w
  turntree cat-object HEAD | turntree hash-object -t commit")]
pub(crate) struct HashObject {
    /// The file, or - for standard input
    #[arg(default_value = "-", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Kind of object: blob, node, commit, tag or operation
    #[arg(short = 't', long = "type", value_name = "KIND", default_value = "blob", value_parser = kind)]
    kind: Kind,
    /// Store the object
    #[arg(short, long)]
    write: bool,
}

impl Verb for HashObject {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let bytes = read_input(&self.file)?;
        check(self.kind, &bytes).map_err(|error| {
            let (file, kind) = (input_name(&self.file), self.kind);
            Error::invalid(format!("{file} is not a {kind}")).with_source(error)
        })?;
        let id = ObjectId::of(self.kind, &bytes);
        let size = bytes.len() as u64;
        if self.write {
            let repo = run.open()?;
            let mut change = repo.begin();
            change.write(self.kind, bytes)?;
            change.flush()?;
        }
        if run.out.json {
            run.out.record(&json::ObjectInfo {
                id: id.to_string(),
                kind: self.kind.name(),
                size,
            })?;
        } else {
            writeln!(run.out, "{id}")?;
        }
        Ok(Answer::Yes)
    }
}

/// Refuses bytes that are not a valid object of `kind`.
fn check(kind: Kind, bytes: &Bytes) -> Result<(), Error> {
    check_size(kind, bytes)?;
    match kind {
        Kind::Blob => Ok(()),
        Kind::Node => tree::links(bytes).map(drop),
        Kind::Commit => Commit::decode(bytes).map(drop),
        Kind::Tag => Tag::decode(bytes).map(drop),
        Kind::Operation => Operation::decode(bytes).map(drop),
    }
}

/// Parses the name of a kind.
pub(crate) fn kind(text: &str) -> Result<Kind, Error> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    let names = Kind::ALL.map(Kind::name).join(", ");
    found.ok_or_else(|| Error::invalid(format!("expected one of {names}")))
}
