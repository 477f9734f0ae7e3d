//! Grep: searches every entry that was ever in a history, each once.
//!
//! First, if that is cheaper, a scan of contents selects the blobs that may match. Then turns are
//! compared in a row: the entries that a turn has and its parent lacks give all entries and the
//! turns in which they appear. Each of their blobs is read once, front to back in the files, and
//! searched on all processors. The results are returned in the order of history. Memory holds the
//! places of entries and a bounded part of the matching lines; other lines are read again on
//! request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rayon::prelude::*;

use super::changes::{GrepProgress, ReadMessage, TextKind, text_of};
use super::contents::{Candidates, ContentQuery, MayHold};
use super::gaps::Gaps;
use super::occurrences::{
    EntryKey, NameTable, OccurrenceCollector, Occurrences, ScopeTurn, SearchFilter, SearchScope,
    read_blob,
};
use super::pattern::{LinePattern, TextMatches};
use crate::context::Role;
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId};
use crate::repo::{BranchName, Repository};

/// The maximum number of bytes of matching lines kept per blob, and in total.
const KEPT_BYTES_EACH: usize = 256 << 10;
const KEPT_BYTES: usize = 16 << 20;

/// The pattern, and the options of a search.
#[expect(missing_debug_implementations, reason = "it holds the caller's functions")]
#[derive(Clone)]
pub struct GrepQuery<'a> {
    /// The pattern of lines.
    pub pattern: &'a LinePattern,
    /// The entries to search.
    pub wanted: SearchFilter,
    /// The number of context lines to return around each match; `None` to return counts alone.
    pub lines: Option<usize>,
    /// The reader of messages.
    pub read: ReadMessage<'a>,
    /// A test of contents that costs less than reading them, if the caller has one.
    pub may_hold: Option<MayHold<'a>>,
}

/// An entry with matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepPlace {
    /// The session of the first turn that has it.
    pub session: String,
    /// The named branch from which the entry was reached.
    pub branch: Option<BranchName>,
    /// The number of that turn.
    pub turn: u64,
    /// The commit of that turn.
    pub commit: ObjectId,
    /// The last turn with the entry and its commit, if no tip of the history has the entry.
    pub last: Option<(u64, ObjectId)>,
    /// The section.
    pub section: String,
    /// The key, or the index in the first turn that has it; empty for a section that is one blob.
    pub key: String,
    /// The role of a message.
    pub role: Option<Role>,
    /// The blob.
    pub blob: ObjectId,
    /// The number of matching lines.
    pub count: u64,
    reading: TextKind,
}

/// The result of a search.
#[expect(missing_debug_implementations, reason = "it holds the caller's functions")]
pub struct Grep<'r> {
    repo: &'r Repository,
    query: GrepQuery<'r>,
    found: HashMap<ScopedPath, TextMatches>,
    /// The places in the order of scopes, turns, sections and keys.
    places: Vec<GrepPlace>,
    gaps: Gaps,
    damage: Vec<String>,
}

/// A blob, and the format to read it as if it is a message.
type ScopedPath = (ObjectId, String);

/// A search that returns its results in steps: the first scope, then twice as many scopes in every
/// step, because shared content is read once per step.
#[expect(missing_debug_implementations, reason = "it holds the caller's functions")]
pub struct GrepSteps<'r, 's> {
    repo: &'r Repository,
    query: GrepQuery<'r>,
    /// The scopes that are not searched yet.
    scopes: &'s [SearchScope],
    at_once: usize,
    collector: OccurrenceCollector<'r>,
    candidates: Option<Candidates>,
}

impl Repository {
    /// Searches everything that was ever in the scopes. A turn in several scopes belongs to the
    /// first.
    ///
    /// Reads the changes of each turn, and each blob once. [`Grep::damage`] lists unreadable
    /// content.
    ///
    /// # Errors
    /// `NotFound` when a start is missing, `Corrupt` when it or the grafts are damaged, `Io`.
    pub fn grep<'r>(
        &'r self,
        scopes: &[SearchScope],
        query: GrepQuery<'r>,
        progress: GrepProgress<'_>,
    ) -> Result<Grep<'r>> {
        self.grep_in_steps(scopes, query, progress).search(scopes, progress)
    }

    /// Begins the search of [`Repository::grep`] in steps, see [`GrepSteps::step`]. All steps
    /// together find the same places in the same order.
    ///
    /// Scans contents first if that costs less than comparing turns.
    pub fn grep_in_steps<'r, 's>(
        &'r self,
        scopes: &'s [SearchScope],
        query: GrepQuery<'r>,
        progress: GrepProgress<'_>,
    ) -> GrepSteps<'r, 's> {
        let question = ContentQuery { wanted: &query.wanted, may_hold: query.may_hold, scopes };
        let candidates = question.candidates(self, progress);
        let collector = OccurrenceCollector::new(self, query.wanted.clone());
        GrepSteps { repo: self, query, scopes, at_once: 1, collector, candidates }
    }
}

impl<'r> GrepSteps<'r, '_> {
    /// Searches the next scopes; `None` when all are searched. Gaps and damage cover all scopes
    /// searched until now.
    ///
    /// # Errors
    /// Errors of [`Repository::grep`].
    pub fn step(&mut self, progress: GrepProgress<'_>) -> Result<Option<Grep<'r>>> {
        let (now, later) = self.scopes.split_at(self.at_once.min(self.scopes.len()));
        if now.is_empty() {
            return Ok(None);
        }
        self.scopes = later;
        self.at_once = self.at_once.saturating_mul(2);
        self.search(now, progress).map(Some)
    }

    fn search(&mut self, scopes: &[SearchScope], progress: GrepProgress<'_>) -> Result<Grep<'r>> {
        let Self { repo, query, collector, candidates, .. } = self;
        let turns = match candidates {
            Some(candidates) if !candidates.needs_turns(repo) => Vec::new(),
            _ => scopes.iter().map(|scope| collector.turns(scope)).collect::<Result<Vec<_>>>()?,
        };
        let all: Vec<Occurrences> = match candidates {
            Some(candidates) if !candidates.needs_history() => Vec::new(),
            _ => {
                let looked_for = candidates.as_ref().and_then(Candidates::blobs_to_find);
                let scopes = scopes.iter().zip(turns);
                scopes.map(|(scope, turns)| collector.collect(scope, turns, looked_for)).collect()
            }
        };
        let kept = candidates.as_ref().map(|candidates| &candidates.kept);
        let searched = search(repo, query, &all, kept, progress);
        let mut places = Vec::new();
        for (scope, appearances) in scopes.iter().zip(&all) {
            places.extend(scope_places(collector, scope, appearances, &searched.found)?);
        }
        collector.damage.extend(searched.damage);
        Ok(Grep {
            repo,
            query: query.clone(),
            found: searched.found,
            places,
            gaps: collector.lineage.gaps.clone(),
            damage: collector.damage.iter().cloned().collect(),
        })
    }
}

impl Grep<'_> {
    /// Returns the places with matches, in the order of scopes, turns, sections and keys.
    #[must_use]
    pub fn places(&self) -> &[GrepPlace] {
        &self.places
    }

    /// Returns the matches in a place. Reads the blob again if its lines did not fit in memory.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when the blob cannot be read again.
    pub fn found(&self, place: &GrepPlace) -> Result<TextMatches> {
        let known = self.found.get(&(place.blob, place.reading.media().to_owned()));
        match known {
            Some(found) if self.query.lines.is_none() || found.binary => Ok(found.clone()),
            Some(found) if !found.lines.is_empty() => Ok(found.clone()),
            _ => {
                let bytes = read_blob(self.repo, &place.blob)?;
                let text = text_of(self.query.read, &place.reading, bytes).unwrap_or_default();
                Ok(self.query.pattern.find(&text, self.query.lines))
            }
        }
    }

    /// Returns the turns that could not be searched because they expired.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Returns errors about unreadable content, naming its place.
    #[must_use]
    pub fn damage(&self) -> &[String] {
        &self.damage
    }
}

/// The results of searching the blobs.
#[derive(Default)]
struct BlobResults {
    found: HashMap<ScopedPath, TextMatches>,
    damage: Vec<String>,
}

fn search(
    repo: &Repository,
    query: &GrepQuery<'_>,
    all: &[Occurrences],
    known: Option<&HashMap<ObjectId, Bytes>>,
    progress: GrepProgress<'_>,
) -> BlobResults {
    let entries = all.iter().flat_map(|appearances| &appearances.found);
    let mut targets: Vec<(ObjectId, &str)> =
        entries.map(|(entry, appearance)| (entry.blob, appearance.reading.media())).collect();
    targets.sort_unstable();
    targets.dedup();
    let blobs: Vec<Targets<'_>> = targets.chunk_by(|(a, _), (b, _)| a == b).collect();
    let content = |blob: &Targets<'_>| known.and_then(|known| known.get(&blob.first()?.0));
    let (known, unread): (Vec<_>, Vec<_>) =
        blobs.iter().copied().partition(|blob| content(blob).is_some());
    let ids: Vec<ObjectId> =
        unread.iter().filter_map(|blob| blob.first()).map(|(id, _)| *id).collect();

    let searching = BlobSearch::new(query, progress, blobs.len());
    known.into_par_iter().for_each(|blob| {
        let bytes = content(&blob).cloned().unwrap_or_default();
        searching.search_blob(blob, Ok(Object { kind: Kind::Blob, bytes }));
    });
    repo.store().visit(&ids, &|at, object: Result<Object>| {
        searching.search_blob(unread.get(at).copied().unwrap_or_default(), object);
    });
    searching.results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A blob, once per format to read it as.
type Targets<'t> = &'t [(ObjectId, &'t str)];

/// A running search of blobs in several threads.
struct BlobSearch<'a> {
    query: &'a GrepQuery<'a>,
    progress: GrepProgress<'a>,
    /// The number of blobs to search, and of those already searched.
    blobs: u64,
    done: AtomicU64,
    results: Mutex<BlobResults>,
    /// Bytes of the kept lines.
    kept: AtomicUsize,
}

impl<'a> BlobSearch<'a> {
    fn new(query: &'a GrepQuery<'a>, progress: GrepProgress<'a>, blobs: usize) -> Self {
        let (results, blobs) = (Mutex::default(), blobs as u64);
        let (done, kept) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { query, progress, blobs, done, results, kept }
    }

    /// Searches one blob.
    fn search_blob(&self, targets: Targets<'_>, object: Result<Object>) {
        (self.progress)(self.done.fetch_add(1, Ordering::Relaxed) + 1, self.blobs);
        let blob = object.and_then(|object| match object.kind {
            Kind::Blob => Ok(object.bytes),
            kind => Err(Error::corrupt("an entry of a section", "a blob", kind)),
        });
        let bytes = match blob {
            Ok(bytes) => bytes,
            Err(error) => return self.results().damage.push(error.to_string()),
        };
        for (id, media) in targets {
            let text = match *media {
                "" => Some(bytes.clone()),
                media => (self.query.read)(media, &bytes).map(Bytes::from),
            };
            let found = text.map(|text| find(self.query, &text, &self.kept));
            if let Some(found) = found.filter(|found| found.count > 0) {
                self.results().found.insert((*id, (*media).to_owned()), found);
            }
        }
    }

    fn results(&self) -> MutexGuard<'_, BlobResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches a text, and keeps the matching lines while there is room.
fn find(query: &GrepQuery<'_>, text: &[u8], kept: &AtomicUsize) -> TextMatches {
    let has_room = kept.load(Ordering::Relaxed) < KEPT_BYTES;
    // Few matching lines are kept even from a long text, so lines are counted before their size is
    // checked.
    let mut found = query.pattern.find(text, query.lines.filter(|_| has_room));
    let bytes: usize = found.lines.iter().map(|line| size_of_val(line) + line.text.len()).sum();
    if bytes > KEPT_BYTES_EACH || kept.fetch_add(bytes, Ordering::Relaxed) > KEPT_BYTES {
        found.lines = Vec::new();
    }
    found
}

/// Returns the places of one scope.
fn scope_places(
    collector: &mut OccurrenceCollector<'_>,
    scope: &SearchScope,
    appearances: &Occurrences,
    found: &HashMap<ScopedPath, TextMatches>,
) -> Result<Vec<GrepPlace>> {
    let mut hits: Vec<(&EntryKey, u64)> = Vec::new();
    for (entry, appearance) in &appearances.found {
        if let Some(found) = found.get(&(entry.blob, appearance.reading.media().to_owned())) {
            hits.push((entry, found.count));
        }
    }
    let removed = collector.find_removed(appearances, hits.iter().map(|(entry, _)| *entry))?;
    let place = |(entry, count): (&EntryKey, u64)| {
        let last = removed.get(entry).copied();
        place(&collector.names, scope, appearances, entry, last, count)
    };
    let mut places: Vec<(usize, GrepPlace)> = hits.into_iter().filter_map(place).collect();
    places.sort_by(|(a, left), (b, right)| {
        let key = |place: &GrepPlace| place.key.parse::<u64>().unwrap_or(u64::MAX);
        (a, &left.section, key(left), &left.key, left.blob).cmp(&(
            b,
            &right.section,
            key(right),
            &right.key,
            right.blob,
        ))
    });
    Ok(places.into_iter().map(|(_, place)| place).collect())
}

pub(super) fn place(
    names: &NameTable,
    scope: &SearchScope,
    appearances: &Occurrences,
    entry: &EntryKey,
    last: Option<usize>,
    count: u64,
) -> Option<(usize, GrepPlace)> {
    let appearance = appearances.found.get(entry)?;
    let turn: &ScopeTurn = appearances.turns.get(appearance.first)?;
    let last = last.and_then(|last| appearances.turns.get(last));
    let place = GrepPlace {
        session: names.name(turn.session).to_owned(),
        branch: scope.starts.get(turn.start).and_then(|(_, branch)| branch.clone()),
        turn: turn.turn,
        commit: turn.id,
        last: last.map(|turn| (turn.turn, turn.id)),
        section: names.name(entry.section).to_owned(),
        key: names.name(appearance.key).to_owned(),
        role: match &appearance.reading {
            TextKind::Message(role, _) => Some(*role),
            TextKind::Plain => None,
        },
        blob: entry.blob,
        count,
        reading: appearance.reading.clone(),
    };
    Some((appearance.first, place))
}
