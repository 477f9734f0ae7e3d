//! Imports found sessions: several concurrently, and only their new turns.
//!
//! A session comes before its forks. A file that has not changed since it was last adopted is not
//! read again; any other file is compared with its session, as every import does. Each session is
//! one operation, so a process that is stopped leaves whole sessions, and the next one resumes. All
//! operations belong to one [`Adoption`], so one undo rolls them back together.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;
use turntree::error::{Error, Result};
use turntree::repo::{Adoption, Repository, Signature};
use turntree::workspace::{AdoptionCache, FileMark, open_regular};

use super::beside::working_directory;
use super::find::has_own_file;
use super::found::{Failure, FoundSession, SessionReader, SessionSource};
use super::growing::{Counted, GrowingFile, Grown, follow_file, import_large, retrying};
use super::lineage;
use super::table::{source_of, sources};
use crate::formats::any::import_beside;
use crate::import::fork::Origins;
use crate::model::format::FormatReader;
use crate::{HEAD_BYTES, ImportOptions, ImportReport};

/// Most sessions that are imported concurrently. Each takes some MiB, and more are not faster when
/// the disk is the bottleneck.
const MAX_THREADS: usize = 8;

/// A batch is one part in so many of the adoption. Besides its result, an adoption needs disk space
/// for the journal of one batch, and for the pack that is made from it.
const BATCH_PARTS: u64 = 20;

/// The least and the most bytes of a batch: each opens the store and packs once, and the journal of one is
/// in memory.
const MIN_BATCH_BYTES: u64 = 8 << 20;
const MAX_BATCH_BYTES: u64 = 256 << 20;

/// The settings of an adoption, and a callback for its progress.
pub struct AdoptOptions<'a> {
    /// The author and time of the adoption.
    pub stamp: Signature,
    /// What all operations are part of, so that one undo takes them back.
    pub adoption: Arc<Adoption>,
    /// Set when agents may be writing to the sessions: a partial turn grows with the next adoption,
    /// and a partial line is left for it. Other formats are imported whole.
    pub is_live: bool,
    /// The session that HEAD moves to when it is on a branch without a snapshot; `None` for the one that
    /// changed last. In the other batches of that adoption HEAD stays where it is.
    pub head: Option<&'a str>,
    /// Receives the number of bytes read since the last call, from any thread.
    pub passed: &'a (dyn Fn(u64) + Sync),
}

/// The outcome of a session.
#[derive(Debug)]
pub struct Adopted {
    /// The session.
    pub found: FoundSession,
    /// The action that was taken.
    pub outcome: Outcome,
}

/// The action taken for a session.
#[derive(Debug)]
pub enum Outcome {
    /// It was compared with the store, and its new turns were imported.
    Imported(Box<ImportReport>),
    /// Its file has not changed since the last time.
    Unchanged,
    /// It could not be imported, and the store is as it was before it.
    Failed(Error),
}

/// Imports `sessions`; the outcomes are ordered by agent and name. `seen` has the earlier adoptions
/// and gets the new ones; the caller saves it.
///
/// HEAD moves to the session that changed last when it is on a branch without a snapshot.
/// Memory: some MiB for each session that is imported at the same time, at most eight, the largest
/// record of each, and the open store's index of its journal, about a fifth of a byte for each
/// adopted byte. [`batches`] and a [step](turntree::maintenance::auto::pack) between them bound
/// that.
///
/// # Errors
/// As for reading the refs. The error of a session is its outcome.
pub fn adopt(
    repo: &Repository,
    sessions: Vec<FoundSession>,
    options: &AdoptOptions<'_>,
    seen: &mut AdoptionCache,
) -> Result<Vec<Adopted>> {
    // Files of one session are imported one after the other.
    let mut groups: BTreeMap<String, Vec<FoundSession>> = BTreeMap::new();
    for found in sessions {
        groups.entry(found.session.clone()).or_default().push(found);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    // The largest groups begin first.
    groups
        .sort_by_key(|group| std::cmp::Reverse(group.iter().map(|found| found.bytes).sum::<u64>()));

    let readers = sources().map(SessionSource::reader).collect();
    let source = Source { options, seen, readers, origins: Arc::default() };
    let newest = match repo.tip(&repo.shared_head()?) {
        // The session that changed last moves HEAD.
        None => options.head.or_else(|| newest(groups.iter().flatten())).map(str::to_owned),
        Some(_) => None,
    };
    let threads = rayon::current_num_threads().min(MAX_THREADS);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let mut adopted = Vec::new();
    for mut groups in lineage::generations(groups, |found| !is_known(repo, found, seen)) {
        let is_newest = |group: &Vec<FoundSession>| {
            group.iter().any(|found| Some(&found.session) == newest.as_ref())
        };
        if let Some(at) = groups.iter().position(is_newest) {
            adopted.extend(adopt_group(repo, groups.remove(at), newest.as_deref(), &source));
        }
        let all = || -> Vec<_> {
            let each = groups.into_par_iter().with_max_len(1);
            each.flat_map_iter(|group| adopt_group(repo, group, None, &source)).collect()
        };
        adopted.extend(match &pool {
            Ok(pool) => pool.install(all),
            Err(_) => all(),
        });
    }
    source.origins.save(repo);
    for (Adopted { found, outcome }, mark) in &mut adopted {
        if let Outcome::Imported(report) = outcome {
            let at = (&report.branch, &report.head);
            // Without a state the file is known, and read again.
            let marks = mark.take().unwrap_or_else(|| vec![FileMark::default(); 2]);
            for (path, mark) in signs(found).iter().zip(marks) {
                seen.insert(path, found.entry.as_deref(), mark, at);
            }
        }
    }
    let mut adopted: Vec<_> = adopted.into_iter().map(|(adopted, _)| adopted).collect();
    adopted.sort_by(|a, b| {
        let key = |it: &Adopted| {
            let FoundSession { agent, session, path, entry, .. } = &it.found;
            (agent.clone(), session.clone(), path.clone(), entry.clone())
        };
        key(a).cmp(&key(b))
    });
    Ok(adopted)
}

/// Returns the name of the session that changed last.
pub fn newest<'f>(sessions: impl IntoIterator<Item = &'f FoundSession>) -> Option<&'f str> {
    let newest = sessions.into_iter().max_by_key(|found| found.modified);
    newest.map(|found| found.session.as_str())
}

/// Returns the bytes of a [batch](batches) for an adoption of `all` bytes: one part in twenty, at
/// least 8 MiB and at most 256 MiB.
#[must_use]
pub fn batch_bytes(all: u64) -> u64 {
    (all / BATCH_PARTS).clamp(MIN_BATCH_BYTES, MAX_BATCH_BYTES)
}

/// Splits `sessions` into parts of at most `bytes` each, unless one session is larger, so that
/// memory and disk space do not grow with the total. Known files count as empty. A session comes
/// before those that name it as their origin; otherwise newer ones come first. Sessions of one name
/// stay together.
///
/// Reads the beginning of each new file, for formats that record the origin.
#[must_use]
pub fn batches(
    sessions: Vec<FoundSession>,
    bytes: u64,
    is_known: impl Fn(&FoundSession) -> bool,
) -> Vec<Vec<FoundSession>> {
    let mut named: BTreeMap<String, Vec<FoundSession>> = BTreeMap::new();
    for found in sessions {
        named.entry(found.session.clone()).or_default().push(found);
    }
    let mut named: Vec<_> = named.into_values().collect();
    let changed = |group: &Vec<FoundSession>| group.iter().map(|found| found.modified).max();
    named.sort_by_key(|group| std::cmp::Reverse(changed(group)));
    let mut batches: Vec<Vec<FoundSession>> = Vec::new();
    let mut taken = 0;
    let families = lineage::generations(named, |found| !is_known(found)).into_iter().flatten();
    let of_one_session = |family: Vec<FoundSession>| {
        let sessions = family.chunk_by(|a, b| a.session == b.session);
        sessions.map(<[FoundSession]>::to_vec).collect::<Vec<_>>()
    };
    for group in families.flat_map(of_one_session) {
        let new = group.iter().filter(|found| !is_known(found));
        let more: u64 = new.map(|found| found.bytes).sum();
        match batches.last_mut().filter(|_| taken + more <= bytes) {
            Some(batch) => batch.extend(group),
            None => {
                taken = 0;
                batches.push(group);
            }
        }
        taken += more;
    }
    batches
}

/// A session, and the states of its [`signs`] when it was read.
type Marked = (Adopted, Option<Vec<FileMark>>);

/// Returns the files and folders that change with a session.
fn signs(found: &FoundSession) -> Vec<PathBuf> {
    let other = source_of(found).and_then(|source| source.other_sign(found));
    std::iter::once(found.path.clone()).chain(other).collect()
}

/// The context in which sessions are read.
struct Source<'a> {
    options: &'a AdoptOptions<'a>,
    seen: &'a AdoptionCache,
    readers: Vec<Box<dyn SessionReader>>,
    origins: Arc<Origins>,
}

/// Imports files one after the other; HEAD moves to the session `head`.
fn adopt_group(
    repo: &Repository,
    group: Vec<FoundSession>,
    head: Option<&str>,
    source: &Source<'_>,
) -> Vec<Marked> {
    group
        .into_iter()
        .map(|found| {
            if is_known(repo, &found, source.seen) {
                (source.options.passed)(found.bytes);
                return (Adopted { found, outcome: Outcome::Unchanged }, None);
            }
            // Taken before the read, so that concurrent writes show as a change the next time.
            let mark = |path: &PathBuf| source.seen.mark(path, found.entry.as_deref());
            let mark: Option<Vec<FileMark>> = signs(&found).iter().map(mark).collect();
            match adopt_one(repo, &found, head == Some(&*found.session), source) {
                Ok((outcome, is_whole)) => (Adopted { found, outcome }, mark.filter(|_| is_whole)),
                Err(error) => (Adopted { found, outcome: Outcome::Failed(error) }, None),
            }
        })
        .collect()
}

/// Returns true if the files are unchanged, and their branch still exists.
fn is_known(repo: &Repository, found: &FoundSession, seen: &AdoptionCache) -> bool {
    let refs = repo.refs();
    let is_same = |path: &PathBuf| seen.unchanged(&refs, path, found.entry.as_deref()).is_some();
    signs(found).iter().all(is_same)
}

/// Imports the new records of a session. Returns true if the store has all of its file now.
fn adopt_one(
    repo: &Repository,
    found: &FoundSession,
    switch: bool,
    source: &Source<'_>,
) -> Result<(Outcome, bool)> {
    let options = ImportOptions {
        format: Some(found.format),
        session: found.session.clone(),
        stamp: source.options.stamp.clone(),
        switch,
        adoption: Some(Arc::clone(&source.options.adoption)),
        branch: None,
    };
    let directory = working_directory(&found.path);
    let directory = directory.as_deref();
    if can_be_followed(found) {
        let (path, origins) = (&*found.path, &source.origins);
        let file = GrowingFile { path, directory, passed: source.options.passed, origins };
        let imported = match source.options.is_live {
            true => {
                let options = ImportOptions { adoption: None, ..options.clone() };
                let followed = follow_file(repo, &file, &options, true)?;
                let Some(followed) = followed else { return Ok((Outcome::Unchanged, false)) };
                Some(followed)
            }
            false => import_large(repo, &file, &options)?,
        };
        if let Some(Grown { report, is_whole }) = imported {
            return Ok((Outcome::Imported(Box::new(report)), is_whole));
        }
    }
    let report = retrying(repo, || {
        let failure = Failure::default();
        let input = input(found, source, &failure)?;
        import_beside(repo, input, &options, directory, &source.origins)
            .map_err(|error| failure.take().unwrap_or(error))
    })?;
    Ok((Outcome::Imported(Box::new(report)), true))
}

/// Returns whether a session is a file of records that only grows.
fn can_be_followed(found: &FoundSession) -> bool {
    let is_packed = found.path.extension().is_some_and(|end| end == "zst");
    let is_records = matches!(found.format.reader, FormatReader::Records(_));
    has_own_file(found) && !is_packed && is_records
}

/// Returns the transcript, counted as it is read. An error in a transcript that is assembled first
/// is left in `failure`.
fn input<'a>(
    found: &FoundSession,
    source: &Source<'a>,
    failure: &Failure,
) -> Result<Box<dyn BufRead + 'a>> {
    let passed = source.options.passed;
    for reader in &source.readers {
        if let Some(document) = reader.document(found, failure)? {
            passed(found.bytes);
            return Ok(document);
        }
    }
    let file = open_regular(&found.path).map_err(|error| Error::io("open it", error))?;
    Ok(Box::new(BufReader::with_capacity(HEAD_BYTES, Counted { inner: file, passed })))
}
