//! `pin`: protects a snapshot from retention.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::Verb;
use crate::porcelain::change::pins::{PinRequest, add, record_of};
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::output::{ID, NAME};
use crate::view::render::ID_DIGITS;

/// Protect a snapshot from retention
///
/// A pinned snapshot keeps all its content under any policy. Pinning it again under the same name
/// replaces reason and expiry. A pin only protects: to name a snapshot, use a branch or a tag.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree pin HEAD --reason 'all tests pass'
  turntree pin turn:42 --name before-refactoring --expires 30d
  turntree pin nightly~3 --expires 2027-01-01")]
pub(crate) struct Pin {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// Name of the pin; the short id of the snapshot by default
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Reason for the pin
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Expiry of the pin: a duration such as 30d, or a time; never by default
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
}

impl Verb for Pin {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let request = PinRequest {
            revision: &self.revision,
            name: self.name.as_deref(),
            reason: &self.reason,
            expires: self.expires.as_deref(),
        };
        let (pin, now) = add(&repo, &request)?;
        let record = record_of(&repo, &pin, now)?;
        if run.out.json {
            run.out.record(&record)?;
            return Ok(Answer::Yes);
        }
        let paint = run.out.paint;
        write!(run.out, "pinned {}", paint.paint(ID, pin.commit.short(ID_DIGITS)))?;
        if let Some((turn, session)) = record.turn.zip(record.session) {
            write!(run.out, ", turn {turn} of {}", paint.paint(NAME, session))?;
        }
        if self.name.is_some() {
            write!(run.out, ", as {}", paint.paint(NAME, &pin.name))?;
        }
        if let Some(expires) = pin.expires_micros {
            write!(run.out, ", expires {}", clock::ahead(expires, now))?;
        }
        writeln!(run.out)?;
        Ok(Answer::Yes)
    }
}
