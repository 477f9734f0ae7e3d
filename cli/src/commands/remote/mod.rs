//! `remote`: manages the remotes of a store.

mod clone;
mod fetch;
mod gc;
mod members;
mod push;
mod report;
mod serve;
mod sync;

use std::io::Write;
use std::path::Path;

use clap::{Args, Subcommand};
use turntree::repo::{RemoteEntry, check_remote_name};
use turntree::transfer::remote::{CheckDepth, CollectOptions};
use turntree::{Error, ErrorKind};

pub(super) use self::clone::CloneRemote;
pub(super) use self::fetch::Fetch;
use self::members::MemberVerb;
pub(super) use self::push::Push;
pub(super) use self::sync::Sync;
use super::Verb;
use crate::porcelain::transfer::new_remotes::{self, AddedRemote, about_new_key};
use crate::porcelain::transfer::remotes::{Connection, named_remote};
use crate::program::invocation::{Invocation, stamp};
use crate::program::trust::{Standing, note_remotes, standing};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, NAME, note};
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{count, harmless, size};

/// List, add, set, check, collect and remove remotes
///
/// A remote is a location shared by several machines: a bucket in S3, GCS or Azure, a folder on a
/// host reached by ssh, or a network share. It holds sessions as small compressed files that never
/// change. 'turntree push' uploads turns, 'turntree fetch' downloads those of other machines, and
/// 'turntree sync' does both. In revisions, its branches are prefixed with its name:
/// origin/SESSION/BRANCH.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree remote add origin s3://agents/team
  turntree remote add origin ssh://box/srv/agents
  turntree remote add origin /mnt/share/agents
  turntree remote ls
  turntree remote check
  turntree remote add team /mnt/share/team --encrypt --member age1...
  turntree remote members team add age1...
  turntree remote set origin --auto
  turntree remote gc
  turntree diff main origin/main
  turntree remote rm origin")]
pub(crate) struct RemoteVerbs {
    #[command(subcommand)]
    verb: Option<RemoteVerb>,
}

#[derive(Debug, Subcommand)]
enum RemoteVerb {
    /// List remotes
    #[command(alias = "list")]
    Ls,
    /// Add a remote, and create it if it does not exist
    Add {
        /// Local name of the remote
        #[arg(value_name = "NAME")]
        name: String,
        /// s3://BUCKET/PREFIX, gs://, az://, postgres://USER@HOST/DATABASE/PREFIX, ssh://HOST/PATH, HOST:PATH, or the path of a folder
        #[arg(value_name = "URL", value_hint = clap::ValueHint::DirPath)]
        url: String,
        /// Encrypt it for your own key and those of --member; it must be new
        #[arg(long)]
        encrypt: bool,
        /// Another public key (age1...) that may read it, or a file of keys
        #[arg(long, value_name = "KEY|FILE", requires = "encrypt")]
        member: Vec<String>,
    },
    /// List, add and remove the members of an encrypted remote
    ///
    /// A new member can read everything. A removed member cannot read later pushes, but can still
    /// read earlier content: revoke the access to the bucket, too.
    Members {
        /// Its name; optional if there is only one and nothing changes
        #[arg(value_name = "NAME")]
        name: Option<String>,
        #[command(subcommand)]
        change: Option<MemberVerb>,
    },
    /// Configure a remote
    ///
    /// With --auto, a background process pushes every turn shortly after it was made. A failed push
    /// never fails a turn: the next turn tries again, 'turntree status' shows unpushed branches,
    /// and maintenance.log in the store has the errors.
    Set {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Push automatically after every turn
        #[arg(long, required_unless_present = "no_auto", conflicts_with = "no_auto")]
        auto: bool,
        /// Push only on request
        #[arg(long)]
        no_auto: bool,
    },
    /// Remove a remote from the store; the remote itself does not change
    Rm {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete unreachable bundles of a remote
    ///
    /// Deletes bundles that later ones replaced, bundles of interrupted pushes, and bundles of
    /// deleted sessions. Other users can keep working: a push in progress starts over. The command
    /// can be interrupted at any time.
    Gc {
        /// Its name; optional if there is only one
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Print the bundles to delete without deleting them
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// First fold the bundles of each session into one, if the store has all of their content
        #[arg(long, conflicts_with = "dry_run")]
        aggressive: bool,
    },
    /// Verify that nothing is missing or damaged
    ///
    /// Reads every bundle, like a clone. Exits with 1 if something is missing or damaged.
    Check {
        /// Its name; optional if there is only one
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Check only names and sizes, and read no bundle
        #[arg(long)]
        quick: bool,
    },
    /// Serve a client that connected by ssh; not for people
    #[command(hide = true)]
    Serve(serve::Serve),
}

impl Verb for RemoteVerbs {
    fn may_write(&self) -> bool {
        !matches!(&self.verb, None | Some(RemoteVerb::Ls))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.verb {
            None | Some(RemoteVerb::Ls) => list(run),
            Some(RemoteVerb::Add { name, url, encrypt, member }) => {
                add(run, name, url, encrypt.then_some(member.as_slice()))
            }
            Some(RemoteVerb::Members { name, change }) => {
                members::members(run, name.as_deref(), change.as_ref())
            }
            Some(RemoteVerb::Set { name, auto, .. }) => set(run, name, *auto),
            Some(RemoteVerb::Rm { name }) => remove(run, name),
            Some(RemoteVerb::Gc { name, dry_run, aggressive }) => {
                let (is_dry, is_aggressive) = (*dry_run, *aggressive);
                gc::collect(run, name.as_deref(), CollectOptions { is_dry, is_aggressive })
            }
            Some(RemoteVerb::Check { name, quick }) => {
                let depth = if *quick { CheckDepth::Listing } else { CheckDepth::Contents };
                check(run, name.as_deref(), depth)
            }
            Some(RemoteVerb::Serve(serve)) => serve.run(run),
        }
    }
}

fn list(run: &mut Invocation) -> Result<Answer> {
    let repo = run.open()?;
    let remotes =
        repo.remotes()?.into_iter().map(|(name, RemoteEntry { url, id, lazy, auto, keys })| {
            let there = repo.remote_sessions(&name).into_iter();
            let sessions =
                there.filter(|session| !repo.is_deleted_on(&name, session)).count() as u64;
            let unpushed = repo.unpushed(&name).len() as u64;
            let encrypted = keys.is_some();
            json::RemoteRecord { name, url, id, lazy, auto, encrypted, sessions, unpushed }
        });
    let remotes: Vec<_> = remotes.collect();
    if run.out.json {
        run.out.record(&json::Remotes { remotes })?;
        return Ok(Answer::Yes);
    }
    if remotes.is_empty() {
        note("no remote: 'turntree remote add NAME URL' adds one");
    }
    let mut table =
        Table::of(vec![Column::name(""), Column::text(""), Column::text(""), Column::text("")]);
    for json::RemoteRecord { name, url, sessions, unpushed, auto, encrypted, .. } in remotes {
        let waiting = match unpushed {
            0 => "everything is pushed".to_owned(),
            branches => format!("{} not pushed", count(branches, "branch")),
        };
        let waiting = if auto { format!("{waiting}, pushed automatically") } else { waiting };
        let waiting = if encrypted { format!("{waiting}, encrypted") } else { waiting };
        let sessions = count(sessions, "session");
        table.row(vec![
            Cell::styled(NAME, name),
            url.into(),
            sessions.into(),
            Cell::styled(FAINT, waiting),
        ]);
    }
    table.write(&mut run.out)?;
    Ok(Answer::Yes)
}

fn add(run: &mut Invocation, name: &str, url: &str, members: Option<&[String]>) -> Result<Answer> {
    check_remote_name(name)?;
    let repo = run.open_or_create()?;
    if repo.remotes()?.contains_key(name) {
        return Err(Failure::hinted(
            Error::invalid(format!("there is a remote '{name}' already")),
            "'turntree remote rm' forgets it",
        ));
    }
    let standing = standing(&repo, None);
    let mut tell = |path: &Path| note(&about_new_key(path));
    let AddedRemote { entry, is_new } =
        new_remotes::add(&repo, name, url, members, &stamp()?, &mut tell)?;
    note_remotes(&repo, &standing);
    if run.out.json {
        let unpushed = repo.unpushed(name).len() as u64;
        let RemoteEntry { url, id, lazy, auto, keys } = entry;
        let (name, encrypted, sessions) = (name.to_owned(), keys.is_some(), 0);
        let record =
            json::RemoteRecord { name, url, id, lazy, auto, encrypted, sessions, unpushed };
        run.out.record(&record)?;
        return Ok(Answer::Yes);
    }
    let verb = if is_new { "made" } else { "found" };
    let (kind, url) = match entry.keys {
        Some(_) => ("an encrypted remote", entry.url),
        None => ("a remote", entry.url),
    };
    writeln!(run.out, "{verb} {kind} in {url}, called {}", run.out.paint.paint(NAME, name))?;
    Ok(Answer::Yes)
}

fn set(run: &mut Invocation, name: &str, auto: bool) -> Result<Answer> {
    let repo = run.open()?;
    let (name, entry) = named_remote(&repo, Some(name))?;
    if entry.auto != auto {
        let mut remotes = repo.remotes()?;
        remotes.insert(name.clone(), RemoteEntry { auto, ..entry });
        let standing = standing(&repo, None);
        let mut change = repo.begin();
        change.set_remotes(&remotes)?;
        change.commit(&stamp()?, &format!("set how the remote {name} is used"))?;
        note_remotes(&repo, &standing);
    }
    if run.out.json {
        run.out.record(&json::RemoteSet { name, auto })?;
        return Ok(Answer::Yes);
    }
    let name = run.out.paint.paint(NAME, &name);
    match auto {
        true => writeln!(run.out, "every turn is pushed to {name} automatically")?,
        false => writeln!(run.out, "only 'turntree push' pushes to {name}")?,
    }
    Ok(Answer::Yes)
}

fn remove(run: &mut Invocation, name: &str) -> Result<Answer> {
    let repo = run.open()?;
    let mut remotes = repo.remotes()?;
    if remotes.remove(name).is_none() {
        named_remote(&repo, Some(name))?;
    }
    let standing = standing(&repo, None);
    let mut change = repo.begin();
    change.set_remotes(&remotes)?;
    change.commit(&stamp()?, &format!("forget the remote {name}"))?;
    if standing == Standing::Trusted {
        note_remotes(&repo, &standing);
    }
    if run.out.json {
        run.out.record(&json::RemoteRemoved { name: name.to_owned(), removed: true })?;
        return Ok(Answer::Yes);
    }
    writeln!(run.out, "forgot the remote {}", run.out.paint.paint(NAME, name))?;
    Ok(Answer::Yes)
}

fn check(run: &mut Invocation, name: Option<&str>, depth: CheckDepth) -> Result<Answer> {
    let (repo, connection) = Connection::of_run(run, name)?;
    let checked = connection.with(&repo, |remote| remote.check(depth)).hint(
        ErrorKind::Corrupt,
        "the remote was changed by another program: restore it from a backup, or push to a new one",
    )?;
    let is_whole = checked.missing.is_empty() && checked.damaged.is_empty();
    let answer = if is_whole { Answer::Yes } else { Answer::No };
    let (_, entry) = named_remote(&repo, Some(&connection.name))?;
    if run.out.json {
        run.out.record(&json::RemoteChecked {
            name: connection.name,
            id: entry.id,
            sessions: checked.sessions,
            bundles: checked.bundles,
            bytes: checked.bytes,
            missing: checked.missing,
            damaged: checked.damaged,
            unlisted: checked.unlisted,
            unlisted_bytes: checked.unlisted_bytes,
        })?;
        return Ok(answer);
    }
    let (sessions, bundles) =
        (count(checked.sessions, "session"), count(checked.bundles, "bundle"));
    writeln!(run.out, "{sessions} in {bundles}, {}", size(checked.bytes))?;
    if checked.unlisted > 0 {
        let (unlisted, bytes) = (count(checked.unlisted, "bundle"), size(checked.unlisted_bytes));
        writeln!(run.out, "{unlisted} without references, {bytes}")?;
    }
    for key in &checked.missing {
        writeln!(run.out, "missing: {key}")?;
    }
    for what in &checked.damaged {
        writeln!(run.out, "damaged: {}", harmless(what))?;
    }
    Ok(answer)
}
