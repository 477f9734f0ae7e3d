//! `remote members`: manages the members of an encrypted remote.

use std::io::Write;

use clap::Subcommand;
use turntree::Error;
use turntree::repo::Repository;

use crate::porcelain::transfer::new_remotes::public_keys;
use crate::porcelain::transfer::remotes::{Connection, Sealed, remember_keys};
use crate::program::invocation::Invocation;
use crate::program::remote_keys::{self, FoundKeys, Wanted, new_secret};
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::NAME;
use crate::view::progress::Working;

#[derive(Debug, Subcommand)]
pub(super) enum MemberVerb {
    /// Allow a user to read everything on the remote
    Add {
        /// Their public key (age1...), or a file with keys, one per line
        #[arg(value_name = "KEY|FILE")]
        key: String,
    },
    /// Exclude a user from everything that is pushed from now on
    Rm {
        /// Their public key, or a file with keys, one per line
        #[arg(value_name = "KEY|FILE")]
        key: String,
    },
}

/// Lists the members of a remote, or changes them.
pub(super) fn members(
    run: &mut Invocation,
    name: Option<&str>,
    change: Option<&MemberVerb>,
) -> Result<Answer> {
    let repo = run.open()?;
    let sealed = Sealed::of(&repo, name)?;
    let name = sealed.name.clone();
    let found = match change {
        None => sealed.found,
        Some(MemberVerb::Add { key }) => {
            add(&repo, sealed, &public_keys(std::slice::from_ref(key))?)?
        }
        Some(MemberVerb::Rm { key }) => {
            remove(&repo, sealed, &public_keys(std::slice::from_ref(key))?)?
        }
    };
    let document = found.document;
    if run.out.json {
        run.out.record(&json::RemoteMembers {
            name,
            epoch: document.epoch,
            pending: document.is_pending,
            members: document.members,
        })?;
        return Ok(Answer::Yes);
    }
    for member in &document.members {
        writeln!(run.out, "{}", run.out.paint.paint(NAME, member))?;
    }
    Ok(Answer::Yes)
}

/// Wraps the keys for additional members.
fn add(repo: &Repository, sealed: Sealed, new: &[String]) -> Result<FoundKeys> {
    let Sealed { name, id, inner, found, keys } = sealed;
    let mut members = found.document.members.clone();
    members.extend(new.iter().filter(|key| !found.document.members.contains(key)).cloned());
    if members == found.document.members {
        return Ok(found);
    }
    let is_pending = found.document.is_pending;
    let wanted = Wanted { id, before: Some(&found), members, is_pending };
    let found = remote_keys::write(&*inner, wanted, &keys)?;
    remember_keys(repo, &name, &found)?;
    Ok(found)
}

/// Starts a new epoch without some members, and rewrites every head in it.
fn remove(repo: &Repository, sealed: Sealed, gone: &[String]) -> Result<FoundKeys> {
    let Sealed { name, id, inner, mut found, mut keys } = sealed;
    let stays = |member: &&String| !gone.contains(member);
    let members: Vec<String> = found.document.members.iter().filter(stays).cloned().collect();
    if members.is_empty() {
        return Err(Error::invalid(
            "the last member cannot be removed: without members the remote is unreadable",
        )
        .into());
    }
    if members != found.document.members {
        keys = keys.with_epoch(new_secret()?)?;
        let wanted = Wanted { id, before: Some(&found), members, is_pending: true };
        found = remote_keys::write(&*inner, wanted, &keys)?;
        remember_keys(repo, &name, &found)?;
    } else if !found.document.is_pending {
        return Err(Failure::hinted(
            Error::not_found("there is no such member"),
            "'turntree remote members' lists them",
        ));
    }
    // An unfinished removal is completed.
    let working = Working::new("writing heads with new keys");
    let bucket = remote_keys::sealed(inner.clone(), &found.document, keys.clone());
    let connection = Connection::new(&name, id, Box::new(bucket), false)?;
    #[expect(clippy::redundant_closure_for_method_calls, reason = "of any lifetime")]
    connection.with(repo, |remote| remote.renew_heads())?;
    drop(working);
    let members = found.document.members.clone();
    let wanted = Wanted { id, before: Some(&found), members, is_pending: false };
    let found = remote_keys::write(&*inner, wanted, &keys)?;
    remember_keys(repo, &name, &found)?;
    Ok(found)
}
