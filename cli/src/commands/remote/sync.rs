//! `sync`: brings a session here and on a remote to the same state, with the turns of both.

use std::collections::BTreeSet;
use std::io::Write;

use clap::Args;
use turntree::context::MessagePolicy;
use turntree::repo::Repository;
use turntree::transfer::remote::Followed;
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::tool_use;

use super::fetch::{Wanted, fetch};
use super::push::{chosen, push};
use super::report::{followed_branches, pushed_branches, write_branches};
use crate::commands::Verb;
use crate::porcelain::transfer::push::PushManner;
use crate::porcelain::transfer::remotes::Connection;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, NAME, note};
use crate::view::render::ID_DIGITS;

/// Fetch, merge and push
///
/// Fast-forwards branches that have new turns on one side only, here or on the remote; if both
/// sides have new turns, they are merged. Conflicts are kept in the merged snapshot until they are
/// resolved, and the exit code is then 1; they block nothing. Branches of other sessions do not
/// change.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree sync
  turntree sync nightly
  turntree sync --all")]
pub(crate) struct Sync {
    /// Sessions; HEAD's by default
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Every session, here and on the remote
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// The remote; optional if there is only one
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
    /// Push the content including its secrets
    #[arg(long)]
    allow_secrets: bool,
}

impl Verb for Sync {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let (repo, connection) = Connection::of_run(run, self.remote.as_deref())?;
        let mut sessions: BTreeSet<String> = match &*self.sessions {
            [] => chosen(&repo, &[], self.all)?.into_iter().collect(),
            // A session may exist only on the remote.
            named => named.iter().cloned().collect(),
        };
        fetch(&repo, &connection, &Wanted::Changed)?;
        let there = repo.remote_sessions(&connection.name);
        let own = chosen(&repo, &[], true)?;
        if self.all {
            sessions.extend(there.iter().cloned());
        }
        let mut answer = Answer::Yes;
        for session in sessions {
            if !there.contains(&session) && !own.contains(&session) {
                let message = format!("there is no session '{session}', here or on the remote");
                return Err(Error::not_found(message).into());
            }
            let followed = connection
                .with(&repo, |remote| remote.follow(&session, &MessagePolicy::Append, &tool_use))
                .hint(ErrorKind::Conflict, "another process has moved a branch: try again")?;
            if repo.is_deleted_on(&connection.name, &session) && self.sessions.is_empty() {
                note(&format!("{session} was deleted on {}", connection.name));
                continue;
            }
            let manner = PushManner { allow_secrets: self.allow_secrets, is_revived: false };
            let Some(pushed) = push(run, &repo, &connection, &session, manner)? else {
                answer = Answer::No;
                continue;
            };
            if followed.iter().any(|followed| !followed.conflicts.is_empty()) {
                answer = Answer::No;
            }
            let followed_shown = followed_branches(&followed);
            let mut pushed = pushed_branches(&pushed);
            pushed.retain(|branch| ["new", "forward"].contains(&branch.change));
            if run.out.json {
                run.out.record(&json::Synced {
                    remote: connection.name.clone(),
                    session,
                    followed: followed_shown,
                    pushed,
                })?;
                continue;
            }
            if followed.is_empty() && pushed.is_empty() {
                note(&format!("{session} is the same here and on {}", connection.name));
            }
            write_followed(run, &repo, &followed)?;
            write_branches(&mut run.out, &repo, &connection.name, &pushed)?;
        }
        Ok(answer)
    }
}

fn write_followed(run: &mut Invocation, repo: &Repository, followed: &[Followed]) -> Result<()> {
    for (followed, shown) in followed.iter().zip(followed_branches(followed)) {
        let paint = run.out.paint;
        let turn = repo.commit(&followed.id)?.turn;
        let (name, id) =
            (paint.paint(NAME, &followed.branch), paint.paint(ID, followed.id.short(ID_DIGITS)));
        writeln!(run.out, "{name}  {id}  turn {turn}  {}", paint.paint(FAINT, shown.change))?;
        for conflict in &followed.conflicts {
            writeln!(run.out, "  conflict: {conflict}")?;
        }
    }
    Ok(())
}
