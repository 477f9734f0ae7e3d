//! `show-ref`: prints every ref and its value.

use std::io::Write;

use clap::Args;
use turntree::object::RefValue;

use super::Verb;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Print the value and the full name of every ref
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree show-ref
  turntree show-ref --json | jq -r '.refs[].name'")]
pub(crate) struct ShowRef {}

impl Verb for ShowRef {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let table = repo.refs();
        if !run.out.json {
            for (name, value) in table.values.iter() {
                match value {
                    RefValue::Object(id) => writeln!(run.out, "{id} {name}")?,
                    RefValue::Symbolic(target) => writeln!(run.out, "ref:{target} {name}")?,
                }
            }
            return Ok(Answer::Yes);
        }
        let refs = table.values.iter().map(|(name, value)| {
            let (id, target) = match value {
                RefValue::Object(id) => (Some(id.to_string()), None),
                RefValue::Symbolic(target) => (None, Some(target.clone())),
            };
            json::Ref { name: name.to_owned(), id, target }
        });
        run.out.record(&json::Refs { refs: refs.collect() })?;
        Ok(Answer::Yes)
    }
}
