//! Records the time and the event of a client's last hook for a store.

use turntree::repo::Repository;
use turntree::workspace::{read_note, write_note};
use turntree_exchange::agents::hook::HookEvent;

use crate::view::clock;
use crate::view::error::Result;

/// Records that a client has run a hook. Nothing depends on it, so errors are ignored.
pub(super) fn note(repo: &Repository, event: &HookEvent) -> Result<()> {
    let line = format!("{} {}", clock::rfc3339(clock::now()?), event.name);
    let _ = write_note(repo, &name(event.dialect.name()), line.as_bytes());
    Ok(())
}

/// Returns the time and the event of the last hook of the client called `dialect`.
pub(crate) fn last(repo: &Repository, dialect: &str) -> Option<(String, String)> {
    let line = read_note(repo, &name(dialect))?;
    let (time, event) = std::str::from_utf8(&line).ok()?.split_once(' ')?;
    Some((time.to_owned(), event.to_owned()))
}

fn name(dialect: &str) -> String {
    format!("last hook of {dialect}")
}
