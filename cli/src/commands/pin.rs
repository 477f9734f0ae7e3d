//! `pin`: protects a snapshot from retention.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::object::Time;
use turntree::repo::{NewPin, pin_ref};
use turntree::{Error, ErrorKind};

use super::Verb;
use super::pins::record_of;
use crate::porcelain::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, stamp};
use crate::view::clock;
use crate::view::error::{Answer, Hint, Result};
use crate::view::output::{ID, NAME};
use crate::view::render::ID_DIGITS;
use crate::view::units::parse_duration;

/// Protect a snapshot from retention
///
/// A pinned snapshot keeps all its content, whatever the policy of its session says. Pinning it
/// again under the same name replaces reason and expiry. A pin only protects: to name a snapshot,
/// use a branch or a tag.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree pin HEAD --reason 'all tests pass'
  turntree pin turn:42 --name before-refactoring --expires 30d
  turntree pin nightly~3 --expires 2027-01-01")]
pub(crate) struct Pin {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCandidates::new(revisions))]
    revision: String,
    /// Name of the pin; the first digits of the snapshot's id by default
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
        let stamp = stamp()?;
        let id = resolve(&repo, &self.revision)?.commit;
        let expires = self.expires.as_deref().map(|text| expiry(text, stamp.time)).transpose()?;
        if let Some(name) = &self.name {
            pin_ref(name)?;
        }
        let (name, reason) = (self.name.clone(), self.reason.clone());
        let mut change = repo.begin();
        let pin = change.pin(&id, NewPin { name, reason, expires_micros: expires }, &stamp).hint(
            ErrorKind::InvalidInput,
            "'turntree pins' shows them, 'turntree unpin' removes one",
        )?;
        change.commit(&stamp, &format!("pin {}", pin.name))?;
        let record = record_of(&repo, &pin, stamp.time)?;
        if run.out.json {
            run.out.record(&record)?;
            return Ok(Answer::Yes);
        }
        let paint = run.out.paint;
        write!(run.out, "pinned {}", paint.paint(ID, id.short(ID_DIGITS)))?;
        if let Some((turn, session)) = record.turn.zip(record.session) {
            write!(run.out, ", turn {turn} of {}", paint.paint(NAME, session))?;
        }
        if self.name.is_some() {
            write!(run.out, ", as {}", paint.paint(NAME, &pin.name))?;
        }
        if let Some(expires) = expires {
            write!(run.out, ", expires {}", clock::ahead(expires, stamp.time))?;
        }
        writeln!(run.out)?;
        Ok(Answer::Yes)
    }
}

/// The moment that `text` names: so long from now, or a time.
fn expiry(text: &str, now: Time) -> Result<i64> {
    let after = |duration: i64| now.micros.checked_add(duration);
    let moment = match parse_duration(text) {
        Ok(duration) => after(duration),
        Err(_) => clock::parse_moment(text, now),
    };
    let moment = moment.ok_or_else(|| {
        Error::invalid(format!("'{text}': expected a duration such as 30d, or a time"))
    })?;
    if moment <= now.micros {
        return Err(Error::invalid(format!("'{text}' is over already")).into());
    }
    Ok(moment)
}
