//! `remote gc`: deletes unreachable objects of a remote.

use std::io::Write;

use turntree::ErrorKind;
use turntree::transfer::remote::CollectOptions;

use crate::porcelain::transfer::remotes::Connection;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::note;
use crate::view::progress::Working;
use crate::view::render::{count, size};

/// Collects a remote, or prints the plan.
pub(super) fn collect(
    run: &mut Invocation,
    name: Option<&str>,
    options: CollectOptions,
) -> Result<Answer> {
    let (repo, connection) = Connection::of_run(run, name)?;
    let working = Working::new("collecting");
    let collected = connection.with(&repo, |remote| remote.collect(options));
    drop(working);
    let collected = collected
        .hint(ErrorKind::Corrupt, super::fetch::CHANGED)
        .hint(ErrorKind::Conflict, "nothing was lost: collect again later")?;
    if run.out.json {
        run.out.record(&json::RemoteCollected {
            name: connection.name,
            dry_run: options.is_dry,
            sessions: collected.sessions,
            bundles: collected.bundles,
            bytes: collected.bytes,
            folded: collected.folded,
            rewritten: collected.rewritten,
            unknown: collected.unknown,
        })?;
        return Ok(Answer::Yes);
    }
    if collected.folded > 0 {
        writeln!(run.out, "merged the bundles of {}", count(collected.folded, "session"))?;
    }
    let verb = if options.is_dry { "would delete" } else { "deleted" };
    let (bundles, bytes) = (count(collected.bundles, "bundle"), size(collected.bytes));
    match collected.bundles {
        0 => note(&format!("{} has nothing to collect", connection.name)),
        _ => writeln!(run.out, "{verb} {bundles} without references, {bytes}")?,
    }
    for key in &collected.unknown {
        writeln!(run.out, "left, because no push wrote it: {key}")?;
    }
    Ok(Answer::Yes)
}
