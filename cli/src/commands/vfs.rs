//! `vfs`: offloaded payloads, by URI.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use clap_complete::ArgValueCompleter;
use turntree::ErrorKind;
use turntree::context::Context;
use turntree::context::sections::VFS;
use turntree::maintenance::{self, EvictionLimits, EvictionPlan, evict, plan_eviction};
use turntree::object::{Kind, ObjectId, ObjectSource, Time};
use turntree::repo::Repository;
use turntree::repo::vfs::{EvictionReason, NewPayload, Payload, Pool, StoredPayload, VfsUri};
use turntree_exchange::named_by_content;

use super::Verb;
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, read_input, stamp};
use crate::view::clock::{self, rfc3339};
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, NAME, Output, note};
use crate::view::render::{count, size};
use crate::view::units::{parse_duration, parse_limit};

/// How often an eviction is planned again because another process stored a payload.
const MAX_ATTEMPTS: usize = 20;

/// Store, read and evict offloaded payloads
///
/// A payload is looked up in the pool, where 'offload' and 'vfs put' store it, and in the snapshots
/// that carry it. A URI may be given as context://vfs/vfs_<hash>.txt, as the file name alone, or as
/// the path in a marker.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree vfs get context://vfs/vfs_eff006930bcb6ee9.txt
  turntree vfs get vfs_eff006930bcb6ee9.txt --offset 4096 --limit 1024
  turntree vfs put build.log
  turntree vfs ls
  turntree vfs ls HEAD
  turntree vfs evict --max-age 7d --max-bytes 100MB --dry-run")]
pub(crate) struct Vfs {
    #[command(subcommand)]
    action: Option<VfsCommand>,
}

#[derive(Debug, Subcommand)]
enum VfsCommand {
    Get(Get),
    #[command(alias = "list")]
    Ls(Ls),
    Put(Put),
    Evict(Evict),
}

/// Print a payload, byte for byte
#[derive(Debug, Args)]
struct Get {
    /// URI of the payload, in any form
    #[arg(value_name = "URI")]
    uri: String,
    /// Start at this byte
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Print at most this many bytes
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Mark it as used now, so that it is evicted later
    #[arg(long)]
    touch: bool,
}

/// List payloads: those of the pool, or those carried by a snapshot
#[derive(Debug, Args)]
struct Ls {
    /// A snapshot
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revision: Option<String>,
}

/// Store a payload unchanged, and print its URI
#[derive(Debug, Args)]
struct Put {
    /// The payload, or - for standard input
    #[arg(value_name = "FILE", default_value = "-", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Store it at this URI instead of the URI of its content
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
}

/// Evict payloads over a limit, but never one that a kept snapshot cites
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("limits").required(true).multiple(true)
    .args(["max_age", "max_files", "max_bytes"]))]
struct Evict {
    /// Evict payloads stored longer ago than this, such as 12h or 7d
    #[arg(long, value_name = "DURATION", value_parser = age)]
    max_age: Option<i64>,
    /// Evict the longest unused, until at most N are left
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,
    /// Evict the longest unused, until the total size is at most this, such as 100MB
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    max_bytes: Option<u64>,
    /// Print the payloads that would be evicted
    #[arg(long)]
    dry_run: bool,
}

impl Verb for Vfs {
    fn reads_only(&self) -> bool {
        match &self.action {
            None | Some(VfsCommand::Ls(_)) => true,
            Some(VfsCommand::Get(get)) => !get.touch,
            Some(VfsCommand::Put(_) | VfsCommand::Evict(_)) => false,
        }
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            None => Ls { revision: None }.run(run),
            Some(VfsCommand::Get(get)) => get.run(run),
            Some(VfsCommand::Ls(ls)) => ls.run(run),
            Some(VfsCommand::Put(put)) => put.run(run),
            Some(VfsCommand::Evict(evict)) => evict.run(run),
        }
    }
}

impl Get {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let uri: VfsUri = self.uri.parse()?;
        let hint = "'turntree vfs ls' lists payloads";
        let found = repo.find_payload(&uri).hint(ErrorKind::NotFound, hint)?;
        let bytes = repo.read_as(Kind::Blob, &found.blob)?;
        if self.touch && found.commit.is_none() {
            repo.touch_payload(&uri, &stamp()?)?;
        }
        let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(bytes.len());
        let end = self.limit.map_or(bytes.len(), |limit| at(self.offset.saturating_add(limit)));
        run.out.write_all(bytes.get(at(self.offset)..end).unwrap_or_default())?;
        Ok(Answer::Yes)
    }
}

impl Put {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let content = read_input(&self.file)?;
        let size = content.len() as u64;
        let new = match &self.uri {
            Some(uri) => NewPayload { content, uri: uri.parse()?, otherwise: None },
            None => named_by_content(content),
        };
        let repo = run.open_or_create()?;
        let StoredPayload { payload, is_new } = repo.put_payload(&new, &stamp()?)?;
        if run.out.json {
            run.out.record(&json::StoredPayload {
                uri: payload.uri.to_string(),
                blob: payload.blob.to_string(),
                id: payload.blob.to_string(),
                size,
                new: is_new,
            })?;
        } else {
            writeln!(run.out, "{}", payload.uri)?;
        }
        Ok(Answer::Yes)
    }
}

impl Ls {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let record = match &self.revision {
            Some(revision) => {
                let commit = resolve(&repo, revision)?.commit;
                let payloads = carried(&repo, &repo.context(&commit)?)?;
                json::Payloads { payloads, evicted: Vec::new() }
            }
            None => pooled(&repo)?,
        };
        if run.out.json {
            run.out.record(&record)?;
            return Ok(Answer::Yes);
        }
        if record.payloads.is_empty() {
            let place = match &self.revision {
                Some(revision) => format!("that {revision} carries"),
                None => format!("in the pool of {}", run.store_dir()?.display()),
            };
            note(&format!("no payload {place}"));
        }
        let paint = run.out.paint;
        for payload in &record.payloads {
            let stored = payload.created.as_deref().map(|time| format!("  {time}"));
            let about = format!("{:>9}{}", size(payload.size), stored.unwrap_or_default());
            writeln!(run.out, "{}  {about}", paint.paint(NAME, &payload.uri))?;
        }
        for json::Evicted { uri, reason, time } in &record.evicted {
            let about = paint.paint(FAINT, format!("evicted {time} ({reason})"));
            writeln!(run.out, "{uri}  {about}")?;
        }
        Ok(Answer::Yes)
    }
}

/// The payloads of the pool, present and evicted.
fn pooled(repo: &Repository) -> Result<json::Payloads> {
    let pool = Pool::load(repo)?;
    let head = repo.head_if_any()?.and_then(|head| head.commit);
    let head = head.map(|commit| repo.context(&commit)).transpose()?;
    let carried: BTreeMap<String, ObjectId> = match &head {
        Some(context) => entries(repo, context)?,
        None => BTreeMap::new(),
    };
    let mut payloads = Vec::new();
    for payload in pool.payloads(repo) {
        let Payload { uri, blob, created_micros, accessed_micros } = payload?;
        payloads.push(json::Payload {
            carried: carried.contains_key(uri.as_str()),
            uri: uri.to_string(),
            blob: blob.to_string(),
            id: blob.to_string(),
            size: repo.read_as(Kind::Blob, &blob)?.len() as u64,
            created: Some(moment(created_micros)),
            accessed: Some(moment(accessed_micros)),
        });
    }
    let mut evicted = Vec::new();
    for tombstone in pool.evicted(repo) {
        let tombstone = tombstone?;
        evicted.push(json::Evicted {
            uri: tombstone.uri.to_string(),
            reason: tombstone.reason,
            time: moment(tombstone.time_micros),
        });
    }
    Ok(json::Payloads { payloads, evicted })
}

/// The payloads carried by a snapshot.
fn carried(repo: &Repository, context: &Context) -> Result<Vec<json::Payload>> {
    let record = |(uri, blob): (String, ObjectId)| {
        let size = repo.read_as(Kind::Blob, &blob)?.len() as u64;
        let (created, accessed, carried) = (None, None, true);
        let blob = blob.to_string();
        Ok(json::Payload { uri, id: blob.clone(), blob, size, created, accessed, carried })
    };
    entries(repo, context)?.into_iter().map(record).collect()
}

fn entries(repo: &Repository, context: &Context) -> Result<BTreeMap<String, ObjectId>> {
    let mut entries = BTreeMap::new();
    for entry in context.map(repo, VFS)?.iter(repo) {
        let (key, item) = entry?;
        entries.insert(String::from_utf8_lossy(&key).into_owned(), item.link.id);
    }
    Ok(entries)
}

fn moment(micros: i64) -> String {
    rfc3339(Time { micros, offset_minutes: 0 })
}

impl Evict {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let limits = EvictionLimits {
            max_age: self.max_age,
            max_files: self.max_files,
            max_bytes: self.max_bytes,
        };
        let mut attempts = 0;
        let plan = loop {
            let plan = plan_eviction(&repo, &limits, clock::now()?.micros)?;
            if self.dry_run {
                break plan;
            }
            match evict(&repo, &plan, &stamp()?) {
                Err(error) if error.kind() == ErrorKind::Conflict && attempts < MAX_ATTEMPTS => {
                    attempts += 1;
                }
                evicted => {
                    evicted?;
                    break plan;
                }
            }
        };
        self.print(&mut run.out, &plan)?;
        Ok(Answer::Yes)
    }

    fn print(&self, out: &mut Output, plan: &EvictionPlan) -> Result<()> {
        let record = |eviction: &maintenance::Eviction| json::EvictedPayload {
            uri: eviction.payload.uri.to_string(),
            size: eviction.bytes,
            reason: eviction.reason.name(),
        };
        if out.json {
            out.record(&json::Eviction {
                dry_run: self.dry_run,
                payloads: plan.payloads,
                bytes: plan.bytes,
                evicted: plan.evicted.iter().map(record).collect(),
                evicted_bytes: plan.evicted_bytes(),
                evicted_by_age: plan.count(EvictionReason::Age),
                evicted_by_count: plan.count(EvictionReason::Count),
                evicted_by_bytes: plan.count(EvictionReason::Bytes),
                cited: plan.cited.iter().map(record).collect(),
            })?;
            return Ok(());
        }
        for eviction in &plan.evicted {
            let (uri, reason) = (&eviction.payload.uri, eviction.reason.name());
            writeln!(out, "{uri}  {:>9}  {reason}", size(eviction.bytes))?;
        }
        for eviction in &plan.cited {
            let uri = &eviction.payload.uri;
            let stays = out.paint.paint(FAINT, "stays: a kept snapshot cites it");
            writeln!(out, "{uri}  {:>9}  {stays}", size(eviction.bytes))?;
        }
        let verb = if self.dry_run { "would be evicted" } else { "evicted" };
        let (gone, all) = (plan.evicted.len() as u64, plan.payloads);
        writeln!(
            out,
            "{} of {} {verb}, {} of {}",
            gone,
            count(all, "payload"),
            size(plan.evicted_bytes()),
            size(plan.bytes)
        )?;
        Ok(())
    }
}

/// Parses an age; zero evicts everything that may be evicted.
fn age(text: &str) -> Result<i64, turntree::Error> {
    if text == "0" { Ok(0) } else { parse_duration(text) }
}
