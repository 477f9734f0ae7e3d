//! `version`: prints the versions of the program, the store format and the records.

use std::io::Write;

use clap::Args;
use turntree::store::FORMAT_VERSION;

use super::Verb;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Print versions of the program, the store format and the JSON records
///
/// A release also prints the commit that it was built from, and the day of that commit.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree version
  turntree version --json")]
pub(crate) struct PrintVersion {}

impl Verb for PrintVersion {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let record = json::VersionRecord {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("TURNTREE_COMMIT"),
            date: option_env!("TURNTREE_DATE"),
            format: FORMAT_VERSION,
            schema: json::SCHEMA,
        };
        if run.out.json {
            run.out.record(&record)?;
        } else {
            let json::VersionRecord { format, schema, .. } = record;
            let version = env!("TURNTREE_VERSION");
            writeln!(run.out, "turntree {version} (store format {format}, JSON schema {schema})")?;
        }
        Ok(Answer::Yes)
    }
}
