//! Redaction: removes the matches of a string or pattern from a whole store, including history.
//!
//! ```text
//! search every object ── write again what leads to a match ── move refs     (one operation)
//!                     ── begin a new operation log ── search again
//!                     ── one pack takes the place of every file ── remove what is left over
//! ```
//!
//! Afterwards no file of the store holds a match. Turns, times and the shape of history stay. Ids
//! change from the first turn with a match on, and old ids are reported as redacted. Expired
//! content is still reported as expired.
//!
//! The operation log holds old ids and the texts of earlier operations, so it begins again. Undo
//! cannot go back beyond a redaction, and turns that only an undo could restore are deleted.
//!
//! An import may meet redacted content again, for example in the transcript of an agent. So the ids
//! of matching contents are recorded with their replacements ([`Redactions`]): an import stores the
//! replacement, a snapshot of a directory skips the file, and any other change is refused.
//!
//! [`Redactions`]: crate::repo::Redactions
//!
//! A crash may happen after any step. Until the refs move, nothing has changed; from then on the
//! matches are in unreachable objects, which the next run finds and removes.
//!
//! Limits of a redaction:
//!
//! - It finds the encodings of JSON, programs, terminals, URLs, base64 and UTF-16, and no others.
//! - It does not find a string that is split between two records.
//! - It does not block the string when it is written again as part of other content.
//! - It does not erase blocks that the file system has freed, or copies of the store.
//! - A person who remembers an old id can test a guess of the whole blob against it.
//!
//! ```
//! use turntree::maintenance::{Pattern, plan_redaction, redact};
//! # use std::sync::Arc;
//! # use turntree::object::Time;
//! # use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft};
//! # use turntree::store::{NewStore, OpenOptions, RealIo};
//!
//! # let folder = tempfile::tempdir().map_err(|error| turntree::Error::io("make a folder", error))?;
//! # let stamp = Signature { time: Time::default(), actor: "me".into() };
//! # let (io, new) = (Arc::new(RealIo), NewStore { id: [1; 16] });
//! # let repo = Repository::init(io, &folder.path().join("s"), &new, OpenOptions::new([2; 16]))?;
//! # let mut change = repo.begin();
//! # let mut context = turntree::context::Builder::new();
//! # context.set_entry(&mut change, "scratchpad", "login", Some("the key is k-1234".into()))?;
//! # let tree = context.write(&mut change)?;
//! # let old = change.snapshot(&BranchName::main("demo")?, SnapshotDraft::new(tree, "turn", &stamp))?;
//! # change.commit(&stamp, "snapshot")?;
//! let pattern = Pattern::literal("k-1234", "[redacted]")?;
//! let plan = plan_redaction(&repo, &pattern)?;
//! assert_eq!(plan.places[0].whereabouts.to_string(), "demo, turn 1: scratchpad/login");
//!
//! redact(&repo, &pattern, &stamp)?;
//! assert!(plan_redaction(&repo, &pattern)?.is_empty());
//! assert_eq!(repo.commit(&old).unwrap_err().kind(), turntree::ErrorKind::Redacted);
//! # Ok::<(), turntree::Error>(())
//! ```

mod decoded_text;
mod encodings;
mod escapes;
mod forms;
mod layers;
mod pattern;
mod places;
mod remove;
mod rewrite;
mod search;

pub use layers::{Layer, each_layer};
pub use pattern::{DEFAULT_REPLACEMENT, Pattern, PatternMatch};
pub use places::{MatchLocation, RedactionPlace};
pub use search::MatchField;

use self::remove::Removal;
use self::search::{Search, hits_in_name, rename_ref};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, RefValue};
use crate::repo::{Repository, Signature, complete_history_index};
use crate::store::{Collection, RefTable};

/// The maximum number of rounds of a redaction: a concurrent commit starts another round.
const MAX_ROUNDS: usize = 8;

/// The maximum number of files that a message names.
const NAMED_FILES: usize = 3;

/// The plan of a redaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedactionPlan {
    /// The places of the matches.
    pub places: Vec<RedactionPlace>,
    /// The number of matches, each object counted once, however many turns have it.
    pub matches: u64,
    /// The objects that are rewritten.
    pub rewritten: Rewritten,
    /// Refs that move or are renamed, under their new names.
    pub refs: Vec<String>,
    /// Operations that are dropped.
    pub operations: u64,
    /// Commits that no branch, tag or pin references, which are deleted.
    pub lost_commits: u64,
    /// Unreferenced files, which are deleted.
    pub leftovers: Vec<String>,
    /// Files that block a redaction: another process writes to them, or they are damaged.
    pub in_use: Vec<String>,
}

/// Objects that are rewritten and get other ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Contents with a match.
    pub blobs: u64,
    /// Nodes of trees with a match in a key or below.
    pub nodes: u64,
    /// Commits with a match in themselves, in their context or in an ancestor.
    pub commits: u64,
    /// Tags and pins.
    pub tags: u64,
}

/// The outcome of a redaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redacted {
    /// The objects that were rewritten.
    pub rewritten: Rewritten,
    /// Ids that are reported as redacted from now on.
    pub redacted_ids: u64,
    /// Bytes of the new pack.
    pub written_bytes: u64,
    /// Bytes of the replaced files.
    pub replaced_bytes: u64,
    /// Other deleted files.
    pub leftovers: u64,
}

impl RedactionPlan {
    /// Returns true if there is nothing to redact.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.matches == 0 && self.leftovers.is_empty()
    }
}

/// Searches a store and plans a redaction. Changes nothing.
///
/// Reads every object on all processors. If there are matches, reads every node and commit again,
/// and the matching sections of each turn.
///
/// # Errors
/// `Corrupt` when an object does not verify, since its content is unknown. `Locked` while a
/// collection runs.
pub fn plan_redaction(repo: &Repository, pattern: &Pattern) -> Result<RedactionPlan> {
    check_is_local(repo)?;
    let collection = repo.store().collect()?;
    let search = Search::new(collection.inventory(), pattern)?;
    let leftovers = collection.leftovers(&|refs| has_matching_ref(refs, pattern))?;
    let (places, lost_commits) = if has_matches(&search, pattern) {
        places::places(&search, pattern)?
    } else {
        (Vec::new(), 0)
    };
    let inventory = collection.inventory();
    let in_objects: u64 = search.hits.values().flatten().map(|hit| hit.matches).sum();
    let names = inventory.refs().values.keys().flat_map(|name| hits_in_name(name, pattern));
    let in_names: u64 = names.map(|hit| hit.matches).sum();
    let entries = (0..inventory.positions()).filter_map(|at| inventory.entry(at));
    let operations = entries.filter(|entry| entry.kind == Kind::Operation).count() as u64;
    Ok(RedactionPlan {
        places,
        matches: in_objects + in_names,
        rewritten: Rewritten::of(&search),
        refs: moving_refs(&search, pattern)?,
        operations,
        lost_commits,
        leftovers,
        in_use: files_in_use(&collection)?,
    })
}

/// Removes everything that matches from a store.
///
/// Changes nothing without a match. Costs two searches, see [`plan_redaction`], and a new pack with
/// everything that stays, which needs as much disk. Objects that other processes commit before the
/// files are replaced are searched as well.
///
/// # Errors
/// `Locked` when another process writes to a file of the store. At the start nothing has changed
/// then; later, history is already rewritten, and the message reports it. `Conflict` when another
/// process committed content to remove. `InvalidInput` when a new name is not allowed or taken. In
/// all cases, calling it again completes the redaction.
pub fn redact(repo: &Repository, pattern: &Pattern, stamp: &Signature) -> Result<Redacted> {
    check_is_local(repo)?;
    let stamp = Signature { time: stamp.time, actor: pattern.hide(&stamp.actor) };
    let mut redacted = Redacted::default();
    let mut log_begin = None;
    for _ in 0..MAX_ROUNDS {
        let collection = repo.store().collect()?;
        check_replaceable(&collection, log_begin.is_some())?;
        // Derived files hold keys of entries, and not all of their content is searched.
        collection.remove_derived()?;
        let search = Search::new(collection.inventory(), pattern)?;
        if log_begin.is_none() && !has_matches(&search, pattern) {
            if !collection.leftovers(&|refs| has_matching_ref(refs, pattern))?.is_empty() {
                redacted.leftovers = collection.remove_leftovers()? as u64;
            }
            complete_history_index(repo, &collection);
            return Ok(redacted);
        }
        let names_match = has_matching_ref(collection.inventory().refs(), pattern);
        let is_unrecorded = |id| !search.redactions.contains(&id);
        let begins = log_begin.is_none() && search.blobs().any(is_unrecorded);
        if begins || !search.reached().is_empty() || names_match {
            rewrite::rewrite(repo, &search, pattern, &stamp)?;
            redacted.rewritten.add(Rewritten::of(&search));
            log_begin = Some(begin_log(repo, pattern, &stamp)?);
            continue;
        }
        if let Some(first) = log_begin {
            let removal = Removal::new(&search, first, stamp.time)?;
            if removal.is_clean() {
                let gone = search.tainted().filter(|(_, kind)| *kind != Kind::Operation);
                redacted.redacted_ids = gone.count() as u64;
                let replaced = removal.apply(&collection, repo.store(), pattern)?;
                redacted.written_bytes = replaced.written_bytes;
                redacted.replaced_bytes = replaced.freed_bytes;
                redacted.leftovers = collection.remove_leftovers()? as u64;
                // A concurrent reader may have written the ids of a deleted pack.
                collection.remove_derived()?;
                complete_history_index(repo, &collection);
                return Ok(redacted);
            }
        }
        log_begin = Some(begin_log(repo, pattern, &stamp)?);
    }
    let message = "other processes keep committing content to be removed: run the redaction again";
    Err(Error::new(ErrorKind::Conflict, message))
}

impl Rewritten {
    fn of(search: &Search<'_>) -> Self {
        let mut rewritten = Self::default();
        for kind in search.reached().values() {
            match kind {
                Kind::Blob => rewritten.blobs += 1,
                Kind::Node => rewritten.nodes += 1,
                Kind::Commit => rewritten.commits += 1,
                Kind::Tag => rewritten.tags += 1,
                Kind::Operation => {}
            }
        }
        rewritten
    }

    fn add(&mut self, other: Self) {
        self.blobs += other.blobs;
        self.nodes += other.nodes;
        self.commits += other.commits;
        self.tags += other.tags;
    }
}

/// Refuses a store with remote-only objects: they cannot be searched.
fn check_is_local(repo: &Repository) -> Result<()> {
    match repo.store().has_distant() {
        true => Err(Error::invalid(
            "part of this store is only on a remote and was not searched: run 'turntree fetch --whole' first",
        )),
        false => Ok(()),
    }
}

/// Writes the operation at which the log begins from now on. It changes no refs, since the
/// operation that moved them records their old values and perhaps names to remove. The reason and
/// the actor are redacted too: otherwise a redaction of "red" would always find itself.
fn begin_log(repo: &Repository, pattern: &Pattern, stamp: &Signature) -> Result<ObjectId> {
    Ok(repo.begin().commit(stamp, &pattern.hide("redact"))?.operation)
}

/// Returns true if an object or the name of a ref matches.
fn has_matches(search: &Search<'_>, pattern: &Pattern) -> bool {
    !search.hits.is_empty() || has_matching_ref(search.inventory.refs(), pattern)
}

fn has_matching_ref(refs: &RefTable, pattern: &Pattern) -> bool {
    let targets = refs.values.values().filter_map(|value| match value {
        RefValue::Symbolic(target) => Some(target.as_str()),
        RefValue::Object(_) => None,
    });
    refs.values.keys().chain(targets).any(|name| !hits_in_name(name, pattern).is_empty())
}

fn moving_refs(search: &Search<'_>, pattern: &Pattern) -> Result<Vec<String>> {
    let moves = |name: &str, value: &RefValue| {
        let value = match value {
            RefValue::Object(id) => search.is_tainted(id),
            RefValue::Symbolic(target) => !hits_in_name(target, pattern).is_empty(),
        };
        value || !hits_in_name(name, pattern).is_empty()
    };
    let refs = search.inventory.refs().values.iter();
    refs.filter(|(name, value)| moves(name, value))
        .map(|(name, _)| rename_ref(name, pattern))
        .collect()
}

/// Returns the files that cannot be replaced and may hold objects.
fn files_in_use(collection: &Collection<'_>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in collection.inventory().files() {
        if !file.replaceable && !collection.is_blank(file)? {
            names.push(file.name.clone());
        }
    }
    Ok(names)
}

/// Refuses to begin or to continue while a file cannot be replaced.
fn check_replaceable(collection: &Collection<'_>, is_rewritten: bool) -> Result<()> {
    let files = files_in_use(collection)?;
    let Some(named) = files.get(..files.len().min(NAMED_FILES)).filter(|named| !named.is_empty())
    else {
        return Ok(());
    };
    let (named, others) = (named.join(", "), files.len() - named.len());
    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
    let done = match is_rewritten {
        true => "history is rewritten, but the removed content is still on disk",
        false => "nothing was done",
    };
    let message =
        format!("another process is writing to {named}{others}, or it is damaged: {done}");
    Err(Error::new(ErrorKind::Locked, message))
}
