//! Answers of the other screens: files of a turn and their authors, storage and pins, the operation
//! log, explorations.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use turntree::Error;
use turntree::context::sections::FILES;
use turntree::context::{Context, PathTarget, split};
use turntree::maintenance::stats;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree_exchange::{UsageBy, UsageQuery, UsageScope, usage_report};

use super::lines::Lines;
use crate::porcelain::change::conflict_writers::writers;
use crate::porcelain::change::conflicts::{open, records};
use crate::porcelain::change::operations::{OperationsWanted, each_operation};
use crate::porcelain::change::pins;
use crate::porcelain::read::blame::each_part;
use crate::porcelain::read::entries::list_part;
use crate::porcelain::read::explorations::{Spent, record};
use crate::porcelain::read::prices::Prices;
use crate::porcelain::read::sessions::titles;
use crate::view::error::Result;
use crate::view::{clock, json};

/// Entries of a directory in one answer.
const ENTRIES: usize = 1000;

/// The kind of an entry that is a folder.
const FOLDER: &str = "folder";

/// The most folders that are shown as one.
const MOST_FOLDED: usize = 32;

/// Maximum bytes of a file for blame by lines.
const MAX_BLAMED: u64 = 1 << 20;

/// A part of a directory.
#[derive(Serialize)]
struct Folder {
    #[serde(flatten)]
    listing: json::Listing,
    /// The offset of the next answer.
    next: Option<usize>,
}

/// Storage use, and the pins that protect turns.
#[derive(Serialize)]
struct Storage {
    #[serde(flatten)]
    stats: json::Stats,
    pins: Vec<json::PinRecord>,
}

/// The open conflicts of a branch, and the turns that wrote their sides.
#[derive(Serialize)]
struct WrittenConflicts {
    #[serde(flatten)]
    open: json::OpenConflicts,
    /// By path: the turn of ours and of theirs.
    writers: BTreeMap<String, [Option<String>; 2]>,
}

/// Sends the entries of a directory in a turn, from the `from`-th on.
pub(super) fn files(
    repo: &Repository,
    at: &ObjectId,
    path: &str,
    from: usize,
    out: &mut Lines,
) -> Result<()> {
    let (context, source) = (repo.context(at)?, repo);
    let is_bare = path == FILES && context.section(source, FILES)?.is_none();
    // One entry more than wanted shows whether more follow.
    let mut entries = match is_bare {
        true => Vec::new(),
        false => list_part(source, &context, path, from as u64, ENTRIES + 1)?,
    };
    let next = (entries.len() > ENTRIES).then_some(from.saturating_add(ENTRIES));
    entries.truncate(ENTRIES);
    for entry in entries.iter_mut().filter(|entry| entry.kind == FOLDER) {
        entry.name = folded(repo, &context, path, &entry.name)?;
    }
    let listing =
        json::Listing { at: json::CommitId::new(at.to_string()), path: path.to_owned(), entries };
    out.put(&Folder { listing, next })
}

/// The name of a folder in `path`, with the folders below it of which each is the only entry.
fn folded(repo: &Repository, context: &Context, path: &str, name: &str) -> Result<String> {
    let mut name = name.to_owned();
    for _ in 0..MOST_FOLDED {
        let inside = format!("{path}/{}", name.trim_end_matches('/'));
        match &list_part(repo, context, &inside, 0, 2)?[..] {
            [only] if only.kind == FOLDER => name.push_str(&only.name),
            _ => break,
        }
    }
    Ok(name)
}

/// Sends the author of each part of a file in a turn.
pub(super) fn blame(repo: &Repository, at: &ObjectId, path: &str, out: &mut Lines) -> Result<()> {
    let (context, source) = (repo.context(at)?, repo);
    if let PathTarget::Entry(item) = context.lookup(source, path)?
        && item.link.kind == Kind::Blob
    {
        let bytes = source.read_as(Kind::Blob, &item.link.id)?.len() as u64;
        if bytes > MAX_BLAMED {
            return Err(Error::limit(format!("bytes of {path}"), MAX_BLAMED, bytes).into());
        }
    }
    let blamed = repo.blame(at, path, false)?;
    each_part(repo, split(path).0, &blamed, &mut |told| out.put_line(&told.record()))
}

/// Sends storage use, the bytes that `gc` would free, and pins. Reads the location of every object.
pub(super) fn storage(repo: &Repository, out: &mut Lines) -> Result<()> {
    let now = clock::now()?;
    let pins = pins::list(repo, None, now)?.into_iter().map(|(_, record)| record).collect();
    out.put(&Storage { stats: json::Stats::from(&stats(repo, None, now)?), pins })
}

/// Sends the tokens and costs of all sessions, as `usage --all --json` prints them.
pub(super) fn usage(repo: &Repository, by: UsageBy, out: &mut Lines) -> Result<()> {
    let prices = Prices::of(None)?;
    let scope = UsageScope::All;
    let table = &prices.table;
    let report = usage_report(
        repo,
        &UsageQuery { scope, by, since: None, prices: table, day: &clock::day },
    )?;
    let names = if by == UsageBy::Session { titles(repo)? } else { HashMap::new() };
    out.put(&json::UsageRecord::new(by.name(), report, prices.used(), &names))
}

/// Sends operations before a number, newest first, as people read them.
pub(super) fn operations(
    repo: &Repository,
    before: Option<u64>,
    most: usize,
    out: &mut Lines,
) -> Result<()> {
    let wanted = OperationsWanted { name: None, before, most, for_people: true };
    each_operation(repo, &wanted, &mut |entry, in_force| {
        out.put_line(&json::Operation::new(entry, in_force))
    })
}

/// Sends the explorations of a session, newest first.
pub(super) fn explorations(
    repo: &Repository,
    session: &str,
    spent: &mut Spent,
    out: &mut Lines,
) -> Result<()> {
    let found = repo.explorations(Some(session))?;
    let record = |exploration| record(repo, exploration, spent);
    out.put(&found.iter().map(record).collect::<Result<Vec<_>>>()?)
}

/// Sends the open conflicts of a branch.
pub(super) fn conflicts(repo: &Repository, name: &str, out: &mut Lines) -> Result<()> {
    let branch = name.parse()?;
    let conflicts = open(repo, &branch)?;
    let tip = repo.tip(&branch);
    let writers = tip.map(|tip| writers(repo, &tip, &conflicts)).transpose()?.unwrap_or_default();
    let name = |id: ObjectId| id.to_string();
    out.put(&WrittenConflicts {
        open: json::OpenConflicts {
            session: branch.session().to_owned(),
            branch: branch.branch().to_owned(),
            id: tip.map(name).unwrap_or_default(),
            conflicts: records(&conflicts),
        },
        writers: writers
            .into_iter()
            .map(|(path, of)| (path, [of.ours, of.theirs].map(|side| side.map(name))))
            .collect(),
    })
}
