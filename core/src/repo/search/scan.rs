//! Scan: passes every content, name and message of a history once to a finder of the caller.
//!
//! Grep searches the lines of entries; a scan covers everything in a history: also the pieces of
//! transcripts, keys, and the messages and metadata of commits. Each content is read once, on all
//! processors, however many turns have it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::changes::GrepProgress;
use super::gaps::Gaps;
use super::grep::place;
use super::occurrences::{EntryKey, OccurrenceCollector, Occurrences, SearchScope};
use crate::context::Role;
use crate::context::sections::is_transcript_section;
use crate::error::{Error, Result};
use crate::object::{Commit, Kind, Object, ObjectId};
use crate::repo::{BranchName, History, LogEntry, Repository};

/// Returns the findings in a text, each once.
pub type FindIn<'a, F> = &'a (dyn Fn(&[u8]) -> Vec<F> + Sync);

/// The part of a history with a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScanPart {
    /// The content of an entry.
    Content,
    /// The key of an entry: the path of a file, the name of a note.
    Key,
    /// The message, author or metadata of a turn, or the name of its session.
    Commit,
}

/// A place in a history with findings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanPlace<F> {
    /// The part.
    pub part: ScanPart,
    /// The session of the first turn that has it.
    pub session: String,
    /// The named branch from which the place was reached.
    pub branch: Option<BranchName>,
    /// The number of that turn.
    pub turn: u64,
    /// The commit of that turn.
    pub commit: ObjectId,
    /// The last turn with the place and its commit, if no tip of the history has it.
    pub last: Option<(u64, ObjectId)>,
    /// The section; empty for a commit.
    pub section: String,
    /// The key, or the index in the first turn that has it.
    pub key: String,
    /// The role of a message.
    pub role: Option<Role>,
    /// The blob.
    pub blob: Option<ObjectId>,
    /// The findings.
    pub found: Vec<F>,
}

/// The result of a scan.
#[derive(Debug)]
pub struct Scan<F> {
    /// The places in the order of scopes, turns, sections and keys. A content that a message shares
    /// with the source of a transcript has the place of the message.
    pub places: Vec<ScanPlace<F>>,
    /// The turns that could not be scanned because they expired.
    pub gaps: Gaps,
    /// Errors about unreadable content, naming its place.
    pub damage: Vec<String>,
    /// The number of contents read.
    pub blobs: u64,
    /// The bytes of these contents.
    pub bytes: u64,
    /// The result of each scope.
    pub scopes: Vec<ScopeScan>,
}

/// The result of one scope of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ScopeScan {
    /// True if the scope has a finding, or a turn that could not be scanned.
    pub is_remarkable: bool,
    /// The earlier scopes that have turns which this scope continues from.
    pub continues: BTreeSet<usize>,
}

/// Findings by content, and errors about unreadable contents.
type Findings<F> = (HashMap<ObjectId, Vec<F>>, Vec<String>);

impl Repository {
    /// Passes everything that was ever in the scopes to `find`, each content once. A turn in
    /// several scopes belongs to the first.
    ///
    /// # Errors
    /// `NotFound` when a start is missing, `Corrupt` when it or the grafts are damaged, `Io`.
    pub fn scan<F: Clone + Send>(
        &self,
        scopes: &[SearchScope],
        find: FindIn<'_, F>,
        progress: GrepProgress<'_>,
    ) -> Result<Scan<F>> {
        let mut collector = OccurrenceCollector::for_everything(self);
        let (mut all, mut results) = (Vec::new(), Vec::new());
        for scope in scopes {
            let gaps = collector.lineage.gaps.additions();
            let turns = collector.turns(scope)?;
            let is_remarkable = collector.lineage.gaps.additions() > gaps;
            results.push(ScopeScan { is_remarkable, ..ScopeScan::default() });
            all.push((collector.collect(scope, turns, None), scope));
        }
        let entries = all.iter().flat_map(|(found, _)| found.found.keys());
        let blobs: BTreeSet<ObjectId> = entries.map(|entry| entry.blob).collect();
        let blobs: Vec<ObjectId> = blobs.into_iter().collect();
        let read = AtomicU64::new(0);
        let (contents, damage) = self.find_in_blobs(&blobs, find, progress, &read);
        let names = collector.names.all();
        let keys: HashMap<u32, Vec<F>> = names
            .filter_map(|(number, name)| {
                let found = find(name.as_bytes());
                (!found.is_empty()).then_some((number, found))
            })
            .collect();
        let mut places = Vec::new();
        let (mut history, mut owners) = (self.history(&[], &[])?, HashMap::new());
        for (number, ((occurrences, scope), result)) in all.iter().zip(&mut results).enumerate() {
            let known = places.len();
            let of_entries = entry_places(&mut collector, scope, occurrences, &contents, &keys)?;
            places.extend(of_entries);
            let mut owned =
                OwnedCommits { owners: &mut owners, scope: number, continues: BTreeSet::new() };
            places.extend(commit_places(&mut history, scope, find, &mut owned)?);
            result.continues = owned.continues;
            result.is_remarkable |= places.len() > known;
        }
        collector.damage.extend(damage);
        Ok(Scan {
            places,
            gaps: collector.lineage.gaps,
            damage: collector.damage.into_iter().collect(),
            blobs: blobs.len() as u64,
            bytes: read.into_inner(),
            scopes: results,
        })
    }

    fn find_in_blobs<F: Send>(
        &self,
        blobs: &[ObjectId],
        find: FindIn<'_, F>,
        progress: GrepProgress<'_>,
        read: &AtomicU64,
    ) -> Findings<F> {
        let results: Mutex<Findings<F>> = Mutex::new((HashMap::new(), Vec::new()));
        let done = AtomicU64::new(0);
        self.store().visit(blobs, &|at, object: Result<Object>| {
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, blobs.len() as u64);
            let blob = object.and_then(|object| match object.kind {
                Kind::Blob => Ok(object.bytes),
                kind => Err(Error::corrupt("an entry of a section", "a blob", kind)),
            });
            let found = blob.map(|bytes| {
                read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                find(&bytes)
            });
            if found.as_ref().is_ok_and(Vec::is_empty) {
                return;
            }
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            match (found, blobs.get(at)) {
                (Ok(found), Some(id)) => drop(results.0.insert(*id, found)),
                (Err(error), _) => results.1.push(error.to_string()),
                _ => {}
            }
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The scopes that commits were scanned in.
struct OwnedCommits<'a> {
    owners: &'a mut HashMap<ObjectId, usize>,
    /// The current scope.
    scope: usize,
    /// The earlier scopes that its commits continue from.
    continues: BTreeSet<usize>,
}

impl OwnedCommits<'_> {
    fn add(&mut self, entry: &LogEntry) {
        self.owners.insert(entry.id, self.scope);
        entry.parents.iter().for_each(|parent| self.lead_to(parent));
    }

    fn lead_to(&mut self, commit: &ObjectId) {
        self.continues.extend(self.owners.get(commit).filter(|owner| **owner != self.scope));
    }
}

/// Scans the commits of a scope that earlier scopes do not have: their texts and the names of their
/// sessions, each text once.
fn commit_places<F: Clone>(
    history: &mut History<'_>,
    scope: &SearchScope,
    find: FindIn<'_, F>,
    owned: &mut OwnedCommits<'_>,
) -> Result<Vec<ScanPlace<F>>> {
    let starts: Vec<ObjectId> = scope.starts.iter().map(|(id, _)| *id).collect();
    let mut places = Vec::new();
    let mut seen: BTreeMap<String, bool> = BTreeMap::new();
    history.continue_from(&starts, &scope.hide)?;
    starts.iter().for_each(|start| owned.lead_to(start));
    for entry in history {
        let entry = entry?;
        owned.add(&entry);
        let mut found = Vec::new();
        for text in texts(&entry.commit) {
            if seen.get(text) == Some(&false) {
                continue;
            }
            let here = find(text.as_bytes());
            seen.insert(text.to_owned(), !here.is_empty());
            found.extend(here);
        }
        if !found.is_empty() {
            places.push(ScanPlace {
                part: ScanPart::Commit,
                session: entry.commit.session.clone(),
                branch: None,
                turn: entry.commit.turn,
                commit: entry.id,
                last: None,
                section: String::new(),
                key: String::new(),
                role: None,
                blob: None,
                found,
            });
        }
    }
    places.reverse();
    Ok(places)
}

/// Returns the texts of a commit that persons and programs wrote.
fn texts(commit: &Commit) -> impl Iterator<Item = &str> {
    let author = [&commit.message, &commit.author.agent, &commit.author.model, &commit.session];
    let metadata = commit.metadata.iter().flat_map(|(name, value)| [name, value]);
    author.into_iter().chain(metadata).map(String::as_str).filter(|text| !text.is_empty())
}

fn entry_places<F: Clone>(
    collector: &mut OccurrenceCollector<'_>,
    scope: &SearchScope,
    occurrences: &Occurrences,
    contents: &HashMap<ObjectId, Vec<F>>,
    keys: &HashMap<u32, Vec<F>>,
) -> Result<Vec<ScanPlace<F>>> {
    let mut hits: Vec<(&EntryKey, ScanPart, &Vec<F>)> = Vec::new();
    for (entry, occurrence) in &occurrences.found {
        if let Some(found) = contents.get(&entry.blob) {
            hits.push((entry, ScanPart::Content, found));
        }
        if let Some(found) = keys.get(&occurrence.key) {
            hits.push((entry, ScanPart::Key, found));
        }
    }
    let removed = collector.find_removed(occurrences, hits.iter().map(|(entry, ..)| *entry))?;
    let mut places: Vec<(usize, ScanPlace<F>)> = Vec::new();
    for (entry, part, found) in hits {
        let last = removed.get(entry).copied();
        let Some((at, place)) = place(&collector.names, scope, occurrences, entry, last, 0) else {
            continue;
        };
        places.push((
            at,
            ScanPlace {
                part,
                session: place.session,
                branch: place.branch,
                turn: place.turn,
                commit: place.commit,
                last: place.last,
                section: place.section,
                key: place.key,
                role: place.role,
                blob: Some(place.blob),
                found: found.clone(),
            },
        ));
    }
    // A piece of a transcript that is part of a message is reported as the message.
    let told: BTreeSet<ObjectId> = places
        .iter()
        .filter(|(_, place)| !is_transcript_section(&place.section))
        .filter_map(|(_, place)| place.blob)
        .collect();
    places.retain(|(_, place)| {
        !is_transcript_section(&place.section)
            || place.blob.is_none_or(|blob| !told.contains(&blob))
    });
    places.sort_by(|(a, left), (b, right)| {
        let number = |place: &ScanPlace<F>| place.key.parse::<u64>().unwrap_or(u64::MAX);
        let key = |place: &ScanPlace<F>| {
            (place.section.clone(), number(place), place.key.clone(), place.blob, place.part)
        };
        (a, key(left)).cmp(&(b, key(right)))
    });
    Ok(places.into_iter().map(|(_, place)| place).collect())
}
