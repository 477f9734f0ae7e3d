//! Searches every object of a store for matches, and finds the objects from which a match is
//! reachable.
//!
//! The first pass reads all objects on all processors, and keeps only the matches. If there are
//! any, a second pass follows the links: an object is *tainted* if it matches or links to a tainted
//! one. The state of an object takes one byte.

use std::collections::BTreeMap;

use bytes::Bytes;
use rayon::prelude::*;

use super::pattern::{Pattern, PatternMatch};
use crate::error::{Error, Result};
use crate::object::{Commit, Kind, Object, ObjectId, ObjectSource, Operation, RefValue, Tag};
use crate::repo::{GRAFTS_REF, Grafts, REDACTIONS_REF, Redactions, links};
use crate::store::{Inventory, KNOWN_LOSSES_REF};
use crate::tree::{Item, Link, items};

/// The maximum number of positions reported per part of an object.
const MAX_SPOTS: usize = 3;

/// The prefix of refs that maintenance names.
const MAINTENANCE: &str = "refs/maintenance/";

/// Objects per task of a thread.
const OBJECTS_PER_TASK: usize = 64;

/// The field of an object that a match is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchField {
    /// The bytes of a blob.
    Content,
    /// The key of an entry: the path of a file, the name of a note.
    Key,
    /// The meta of an entry: its format, or a separator.
    Meta,
    /// The message of a commit or tag.
    Message,
    /// The author of a commit, tag or operation.
    Author,
    /// The name of the session in a commit.
    Session,
    /// Further metadata of a commit.
    Metadata,
    /// The name of a ref, or the name in a tag.
    Name,
    /// The reason of an operation.
    Reason,
}

impl MatchField {
    /// The name in JSON and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Key => "key",
            Self::Meta => "meta",
            Self::Message => "message",
            Self::Author => "author",
            Self::Session => "session",
            Self::Metadata => "metadata",
            Self::Name => "name",
            Self::Reason => "reason",
        }
    }
}

/// The matches in one part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) part: MatchField,
    pub(super) matches: u64,
    pub(super) spots: Vec<PatternMatch>,
}

impl Hit {
    /// Finds the matches in `bytes`, the content of one field.
    pub(super) fn find(pattern: &Pattern, part: MatchField, bytes: &[u8]) -> Option<Self> {
        let (matches, spots) = pattern.find(bytes, MAX_SPOTS);
        (matches > 0).then_some(Self { part, matches, spots })
    }
}

/// The state of an object in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchState {
    Unknown,
    Open,
    Clean,
    Tainted,
}

/// The matches in the objects of an inventory.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) inventory: &'a Inventory<'a>,
    /// The matches by position.
    pub(super) hits: BTreeMap<usize, Vec<Hit>>,
    states: Vec<SearchState>,
    /// Tainted commits, parents before their children.
    pub(super) commits: Vec<ObjectId>,
    /// Tainted objects that are reachable from refs.
    reached: BTreeMap<ObjectId, Kind>,
    /// The grafts: parents of commits whose own are forgotten.
    pub(super) grafts: Grafts,
    /// Earlier redactions.
    pub(super) redactions: Redactions,
}

impl<'a> Search<'a> {
    /// Searches every object.
    ///
    /// # Errors
    /// `Corrupt` when an object does not verify, since its content is unknown.
    pub(super) fn new(inventory: &'a Inventory<'a>, pattern: &Pattern) -> Result<Self> {
        let positions = (0..inventory.positions()).into_par_iter();
        let found: Vec<_> = positions
            .with_min_len(OBJECTS_PER_TASK)
            .filter_map(|position| {
                let hits = hits_at(inventory, position, pattern);
                hits.map(|hits| (!hits.is_empty()).then_some((position, hits))).transpose()
            })
            .collect::<Result<_>>()?;
        let mut hits: BTreeMap<_, _> = found.into_iter().collect();
        let grafts = Grafts::load(inventory, inventory.refs())?;
        for name in [GRAFTS_REF, KNOWN_LOSSES_REF, REDACTIONS_REF] {
            if let Some(RefValue::Object(id)) = inventory.refs().value(name)
                && let Some(position) = inventory.find(id)
            {
                // These blobs hold ids and no user content.
                hits.remove(&position);
            }
        }
        let states = vec![SearchState::Unknown; inventory.positions()];
        let (commits, reached) = (Vec::new(), BTreeMap::new());
        let redactions = Redactions::load(inventory, inventory.refs())?;
        let mut search = Self { inventory, hits, states, commits, reached, grafts, redactions };
        search.taint()?;
        search.find_reachable()?;
        Ok(search)
    }

    /// Returns true if this tainted object is reachable from refs.
    pub(super) fn is_reached(&self, id: &ObjectId) -> bool {
        self.reached.contains_key(id)
    }

    /// Returns the tainted objects that are reachable from refs.
    pub(super) fn reached(&self) -> &BTreeMap<ObjectId, Kind> {
        &self.reached
    }

    /// Returns true if the object at a position is tainted.
    pub(super) fn is_tainted_at(&self, position: usize) -> bool {
        self.states.get(position) == Some(&SearchState::Tainted)
    }

    /// Returns true if the object `id` matches or a match is reachable from it.
    pub(super) fn is_tainted(&self, id: &ObjectId) -> bool {
        let position = self.inventory.find(id);
        position.is_some_and(|at| self.is_tainted_at(at))
    }

    /// Returns every tainted object.
    pub(super) fn tainted(&self) -> impl Iterator<Item = (ObjectId, Kind)> {
        let positions = self.states.iter().enumerate();
        let tainted = positions.filter(|(_, state)| **state == SearchState::Tainted);
        tainted.filter_map(|(at, _)| self.inventory.entry(at)).map(|entry| (entry.id, entry.kind))
    }

    /// Returns the blobs that match, reachable or not.
    pub(super) fn blobs(&self) -> impl Iterator<Item = ObjectId> {
        let entries = self.hits.keys().filter_map(|at| self.inventory.entry(*at));
        entries.filter(|entry| entry.kind == Kind::Blob).map(|entry| entry.id)
    }

    /// Returns the matches in the object `id`.
    pub(super) fn hits_of(&self, id: &ObjectId) -> &[Hit] {
        let position = self.inventory.find(id);
        position.and_then(|at| self.hits.get(&at)).map_or(&[], Vec::as_slice)
    }

    fn taint(&mut self) -> Result<()> {
        if self.hits.is_empty() {
            return Ok(());
        }
        for position in 0..self.inventory.positions() {
            // An object in several files is known by one of its positions.
            let entry = self.inventory.entry(position);
            if entry.is_some_and(|entry| self.inventory.find(&entry.id) == Some(position)) {
                self.follow(position)?;
            }
        }
        Ok(())
    }

    /// Follows tainted objects only: a ref to anything tainted has a tainted target.
    fn find_reachable(&mut self) -> Result<()> {
        let values = self.inventory.refs().values.values();
        let mut open: Vec<ObjectId> = values
            .filter_map(|value| match value {
                RefValue::Object(id) => Some(*id),
                RefValue::Symbolic(_) => None,
            })
            .chain(self.grafts.0.values().copied().flatten())
            .collect();
        while let Some(id) = open.pop() {
            if !self.is_tainted(&id) || self.reached.contains_key(&id) {
                continue;
            }
            let Some(object) = self.inventory.read(&id)? else { continue };
            self.reached.insert(id, object.kind);
            open.extend(links(&object)?.into_iter().map(|link| link.id));
        }
        Ok(())
    }

    /// Determines the state of one object, after the states of everything reachable from it.
    fn follow(&mut self, start: usize) -> Result<()> {
        let mut open = Vec::new();
        open.extend(self.open(start)?);
        while let Some(frame) = open.last_mut() {
            let Some(link) = frame.links.next() else {
                let Some(OpenObject { position, id, kind, tainted, .. }) = open.pop() else {
                    break;
                };
                self.set(position, if tainted { SearchState::Tainted } else { SearchState::Clean });
                if tainted {
                    self.commits.extend((kind == Kind::Commit).then_some(id));
                    open.iter_mut().rev().take(1).for_each(|parent| parent.tainted = true);
                }
                continue;
            };
            // A missing object was elided and has no content to search.
            let Some(position) = self.inventory.find(&link.id) else { continue };
            match self.states.get(position) {
                Some(SearchState::Tainted) => frame.tainted = true,
                Some(SearchState::Unknown) => open.extend(self.open(position)?),
                _ => {}
            }
        }
        Ok(())
    }

    fn open(&mut self, position: usize) -> Result<Option<OpenObject>> {
        let unknown = self.states.get(position) == Some(&SearchState::Unknown);
        let Some(entry) = self.inventory.entry(position).filter(|_| unknown) else {
            return Ok(None);
        };
        let links = match entry.kind {
            Kind::Blob | Kind::Operation => Vec::new(),
            kind => {
                let bytes = self.inventory.read_as(kind, &entry.id)?;
                links(&Object { kind, bytes }).map_err(|error| error.at(entry.id))?
            }
        };
        self.set(position, SearchState::Open);
        let (id, kind, tainted) = (entry.id, entry.kind, self.hits.contains_key(&position));
        Ok(Some(OpenObject { position, id, kind, tainted, links: links.into_iter() }))
    }

    fn set(&mut self, position: usize, state: SearchState) {
        if let Some(known) = self.states.get_mut(position) {
            *known = state;
        }
    }
}

/// An object whose links are being followed.
struct OpenObject {
    position: usize,
    id: ObjectId,
    kind: Kind,
    tainted: bool,
    links: std::vec::IntoIter<Link>,
}

fn hits_at(inventory: &Inventory<'_>, position: usize, pattern: &Pattern) -> Result<Vec<Hit>> {
    let Some(entry) = inventory.entry(position) else { return Ok(Vec::new()) };
    if inventory.find(&entry.id) != Some(position) {
        return Ok(Vec::new());
    }
    match inventory.read(&entry.id)? {
        Some(object) => hits_in(&object, pattern).map_err(|error| error.at(entry.id)),
        None => Err(Error::not_found(format!("{} {} is not in the store", entry.kind, entry.id))),
    }
}

/// Returns the matches in an object.
pub(super) fn hits_in(object: &Object, pattern: &Pattern) -> Result<Vec<Hit>> {
    let mut finder = Finder { pattern, hits: Vec::new() };
    match object.kind {
        Kind::Blob => finder.search_part(MatchField::Content, &object.bytes),
        Kind::Node => {
            for (key, item) in items(&object.bytes)? {
                finder.search_part(MatchField::Key, &key);
                finder.search_part(MatchField::Meta, text_of_meta(&item));
            }
        }
        Kind::Commit => finder.search_commit(&Commit::decode(&object.bytes)?),
        Kind::Tag => {
            let tag = Tag::decode(&object.bytes)?;
            finder.search_part(MatchField::Name, tag.name.as_bytes());
            finder.search_part(MatchField::Author, tag.tagger.as_bytes());
            finder.search_part(MatchField::Message, tag.message.as_bytes());
        }
        Kind::Operation => finder.search_operation(&Operation::decode(&object.bytes)?),
    }
    Ok(finder.hits)
}

/// Returns the user-chosen part of an item's meta: everything after the code byte, unless it is
/// numeric (see below).
pub(super) fn text_of_meta(item: &Item) -> &[u8] {
    match item.meta.split_first() {
        // A file size or the times of a payload: numbers of a fixed length that end with a zero
        // byte.
        Some((_, facts)) if matches!(facts.len(), 8 | 17) && facts.ends_with(&[0]) => &[],
        Some((_, text)) => text,
        None => &[],
    }
}

/// Splits the full name of a ref into its fixed prefix and the user-chosen name; `None` for refs of
/// maintenance.
fn split_ref_name(full: &str) -> Option<(&str, &str)> {
    if full.starts_with(MAINTENANCE) {
        return None;
    }
    let name_at = full.strip_prefix("refs/")?.find('/')? + "refs/".len() + 1;
    full.split_at_checked(name_at)
}

/// Returns the new full name of a ref.
///
/// # Errors
/// Errors of [`Pattern::replace_name`].
pub(super) fn rename_ref(full: &str, pattern: &Pattern) -> Result<String> {
    match split_ref_name(full) {
        Some((kind, name)) => Ok(format!("{kind}{}", pattern.replace_name(name)?)),
        None => Ok(full.to_owned()),
    }
}

struct Finder<'a> {
    pattern: &'a Pattern,
    hits: Vec<Hit>,
}

impl Finder<'_> {
    fn search_part(&mut self, part: MatchField, bytes: &[u8]) {
        self.hits.extend(Hit::find(self.pattern, part, bytes));
    }

    fn search_commit(&mut self, commit: &Commit) {
        self.search_part(MatchField::Message, commit.message.as_bytes());
        self.search_part(MatchField::Author, commit.author.agent.as_bytes());
        self.search_part(MatchField::Author, commit.author.model.as_bytes());
        self.search_part(MatchField::Session, commit.session.as_bytes());
        for text in commit.metadata.iter().flat_map(|(name, value)| [name, value]) {
            self.search_part(MatchField::Metadata, text.as_bytes());
        }
    }

    fn search_operation(&mut self, operation: &Operation) {
        self.search_part(MatchField::Author, operation.actor.as_bytes());
        self.search_part(MatchField::Reason, operation.reason.as_bytes());
        for change in &operation.changes {
            self.search_ref(&change.name);
            for value in [&change.old, &change.new].into_iter().flatten() {
                if let RefValue::Symbolic(name) = value {
                    self.search_ref(name);
                }
            }
        }
    }

    fn search_ref(&mut self, full: &str) {
        if let Some((_, name)) = split_ref_name(full) {
            self.search_part(MatchField::Name, name.as_bytes());
        }
    }
}

/// Returns the matches in the name of a ref.
pub(super) fn hits_in_name(full: &str, pattern: &Pattern) -> Vec<Hit> {
    let mut finder = Finder { pattern, hits: Vec::new() };
    finder.search_ref(full);
    finder.hits
}

/// Returns a key as text for reports, without matches.
pub(super) fn display_key(key: &Bytes, pattern: &Pattern) -> String {
    pattern.hide(&String::from_utf8_lossy(key))
}
