//! Describes the places of matches in the terms of users, without showing the matches.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::pattern::{Pattern, PatternMatch};
use super::search::{Hit, MatchField, Search, display_key, hits_in_name, rename_ref, text_of_meta};
use crate::error::Result;
use crate::maintenance::keep::graph::CommitGraph;
use crate::object::{Kind, Object, ObjectId, ObjectSource, Operation, RefValue, Tag};
use crate::store::KnownLosses;
use crate::tree::{Item, List, Map};

/// Matches in one field of one object. Names are shown as after the redaction, without the matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactionPlace {
    /// The session, section or ref.
    pub whereabouts: MatchLocation,
    /// The field of the object.
    pub part: MatchField,
    /// The object that holds the matches; `None` for the names of refs.
    pub object: Option<ObjectId>,
    /// The number of matches.
    pub matches: u64,
    /// The positions of the first matches in the field.
    pub spots: Vec<PatternMatch>,
}

/// The location of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchLocation {
    /// An entry of a context.
    Entry {
        /// The session.
        session: String,
        /// The first turn that has it.
        first_turn: u64,
        /// The last turn that has it.
        last_turn: u64,
        /// The section.
        section: String,
        /// The key or index; empty for the section itself.
        key: String,
    },
    /// Commits of a session.
    Commits {
        /// The session.
        session: String,
        /// The first commit.
        first_turn: u64,
        /// The last commit.
        last_turn: u64,
    },
    /// A tag or pin object.
    Tag(String),
    /// A ref, by its full name.
    Ref(String),
    /// An operation, by its sequence.
    Operation(u64),
    /// An object that no branch, tag or pin references.
    Unreached(Kind),
}

impl fmt::Display for MatchLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { session, first_turn, last_turn, section, key } => {
                write!(f, "{session}, {}: {section}", Turns(*first_turn, *last_turn))?;
                if key.is_empty() { Ok(()) } else { write!(f, "/{key}") }
            }
            Self::Commits { session, first_turn, last_turn } => {
                write!(f, "{session}, {}: the commit", Turns(*first_turn, *last_turn))
            }
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Ref(name) => f.write_str(name),
            Self::Operation(sequence) => write!(f, "operation {sequence}"),
            Self::Unreached(kind) => write!(f, "an unreachable {kind}"),
        }
    }
}

struct Turns(u64, u64);

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(first, last) if first == last => write!(f, "turn {first}"),
            Self(first, last) => write!(f, "turns {first} to {last}"),
        }
    }
}

/// Returns every place, and the number of commits that no ref reaches.
pub(super) fn places(search: &Search<'_>, pattern: &Pattern) -> Result<(Vec<RedactionPlace>, u64)> {
    let mut finder = Finder { search, pattern, known: HashMap::new(), places: BTreeMap::new() };
    let holes = KnownLosses::load(search.inventory, search.inventory.refs())?;
    let mut graph = CommitGraph::with_holes(Arc::new(holes));
    for (name, value) in search.inventory.refs().values.iter() {
        finder.add_ref(name, value, &mut graph)?;
    }
    for commit in graph.commits() {
        let session = graph.sessions().get(commit.session).map_or("", String::as_str);
        let session = pattern.replace_name(session)?;
        if search.is_tainted(&commit.tree) {
            finder.add_context(&commit.tree, &session, commit.turn)?;
        }
        for hit in search.hits_of(&commit.id) {
            let (first_turn, last_turn) = (commit.turn, commit.turn);
            let session = session.clone();
            let whereabouts = MatchLocation::Commits { session, first_turn, last_turn };
            finder.add(&whereabouts, Some(commit.id), hit);
        }
    }
    finder.add_unreachable()?;
    let positions = 0..search.inventory.positions();
    let is_lost = |position: &usize| {
        let entry = search.inventory.entry(*position);
        entry.is_some_and(|entry| {
            let here = search.inventory.find(&entry.id) == Some(*position);
            here && entry.kind == Kind::Commit && !graph.contains(&entry.id)
        })
    };
    let lost = positions.filter(is_lost).count() as u64;
    Ok((finder.places.into_values().collect(), lost))
}

/// A match in an entry: the key, the object with the match, and the hit.
type FlatEntry = (String, ObjectId, Hit);

/// The identity of a place: its description without turns, the field, and the object.
type PlaceKey = (String, MatchField, Option<ObjectId>);

struct Finder<'a> {
    search: &'a Search<'a>,
    pattern: &'a Pattern,
    /// The last root of each section with its entries, cached because turns share them.
    known: HashMap<String, (ObjectId, Vec<FlatEntry>)>,
    places: BTreeMap<PlaceKey, RedactionPlace>,
}

impl Finder<'_> {
    fn add_ref(&mut self, name: &str, value: &RefValue, graph: &mut CommitGraph) -> Result<()> {
        let shown = MatchLocation::Ref(rename_ref(name, self.pattern)?);
        for hit in hits_in_name(name, self.pattern) {
            self.add(&shown, None, &hit);
        }
        let RefValue::Object(mut id) = *value else { return Ok(()) };
        // The target of an expired pin may be missing.
        while self.search.inventory.find(&id).is_some()
            && let Some(Object { kind, bytes }) = self.search.inventory.read(&id)?
        {
            match kind {
                Kind::Tag => {
                    let tag = Tag::decode(&bytes)?;
                    let shown = MatchLocation::Tag(self.pattern.replace_name(&tag.name)?);
                    for hit in self.search.hits_of(&id) {
                        self.add(&shown, Some(id), hit);
                    }
                    id = tag.target;
                }
                Kind::Commit => return graph.add(self.search.inventory, &self.search.grafts, &id),
                Kind::Blob | Kind::Node | Kind::Operation => {
                    for hit in self.search.hits_of(&id) {
                        self.add(&shown, Some(id), hit);
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    fn add_context(&mut self, tree: &ObjectId, session: &str, turn: u64) -> Result<()> {
        let source = self.search.inventory;
        for entry in Map::open(source, tree)?.iter(source) {
            let (key, item) = entry?;
            let section = display_key(&key, self.pattern);
            let mut entries = Vec::new();
            self.collect("", &key, &item, &mut entries);
            if self.search.is_tainted(&item.link.id) && item.link.kind == Kind::Node {
                let known = self.known.get(&section).is_some_and(|(id, _)| *id == item.link.id);
                if !known {
                    let inner = self.entries(&item.link.id)?;
                    self.known.insert(section.clone(), (item.link.id, inner));
                }
                let inner = self.known.get(&section).map(|(_, entries)| entries.as_slice());
                entries.extend_from_slice(inner.unwrap_or_default());
            }
            for (key, object, hit) in entries {
                let (first_turn, last_turn) = (turn, turn);
                let (session, section) = (session.to_owned(), section.clone());
                let whereabouts =
                    MatchLocation::Entry { session, first_turn, last_turn, section, key };
                self.add(&whereabouts, Some(object), &hit);
            }
        }
        Ok(())
    }

    /// Returns the entries of a section that have matches.
    fn entries(&self, root: &ObjectId) -> Result<Vec<FlatEntry>> {
        let (source, mut entries) = (self.search.inventory, Vec::new());
        if let Ok(list) = List::open(source, root) {
            for (index, item) in (0_u64..).zip(list.iter(source, 0..list.len())) {
                self.collect(&index.to_string(), &[], &item?, &mut entries);
            }
            return Ok(entries);
        }
        for entry in Map::open(source, root)?.iter(source) {
            let (key, item) = entry?;
            self.collect(&display_key(&key, self.pattern), &key, &item, &mut entries);
        }
        Ok(entries)
    }

    /// Collects the matches of one entry.
    fn collect(&self, shown: &str, key: &[u8], item: &Item, entries: &mut Vec<FlatEntry>) {
        let id = item.link.id;
        let mut hits = Vec::new();
        hits.extend(Hit::find(self.pattern, MatchField::Key, key));
        hits.extend(Hit::find(self.pattern, MatchField::Meta, text_of_meta(item)));
        if item.link.kind == Kind::Blob {
            hits.extend_from_slice(self.search.hits_of(&id));
        }
        entries.extend(hits.into_iter().map(|hit| (shown.to_owned(), id, hit)));
    }

    /// Adds operations, and objects that no ref reaches.
    fn add_unreachable(&mut self) -> Result<()> {
        for (position, hits) in &self.search.hits {
            let Some(entry) = self.search.inventory.entry(*position) else { continue };
            let whereabouts = match entry.kind {
                Kind::Operation => {
                    let bytes = self.search.inventory.read_as(entry.kind, &entry.id)?;
                    MatchLocation::Operation(Operation::decode(&bytes)?.sequence)
                }
                _ if self.search.is_reached(&entry.id) => continue,
                kind => MatchLocation::Unreached(kind),
            };
            for hit in hits {
                self.add(&whereabouts, Some(entry.id), hit);
            }
        }
        Ok(())
    }

    /// Adds a place, or extends the turns of a known one.
    fn add(&mut self, found: &MatchLocation, object: Option<ObjectId>, hit: &Hit) {
        let (words, told_apart, turn) = match found {
            MatchLocation::Entry { session, section, key, first_turn, .. } => {
                // Entries of lists come in the order of their numbers.
                let index = key.parse().unwrap_or(u64::MAX);
                let words = format!("1 {session}\n{section}\n{index:020}\n{key}");
                (words, object, Some(*first_turn))
            }
            MatchLocation::Commits { session, first_turn, .. } => {
                (format!("2 {session}"), None, Some(*first_turn))
            }
            MatchLocation::Tag(name) => (format!("3 {name}"), object, None),
            MatchLocation::Ref(name) => (format!("4 {name}"), object, None),
            MatchLocation::Operation(sequence) => (format!("5 {sequence:020}"), object, None),
            MatchLocation::Unreached(kind) => (format!("6 {kind}"), object, None),
        };
        let place = self.places.entry((words, hit.part, told_apart)).or_insert_with(|| {
            let (part, spots) = (hit.part, hit.spots.clone());
            RedactionPlace { whereabouts: found.clone(), part, object, matches: 0, spots }
        });
        let seen_in_another_turn = turn.is_some() && told_apart.is_some() && place.matches > 0;
        if !seen_in_another_turn {
            place.matches += hit.matches;
        }
        if let (
            MatchLocation::Entry { first_turn, last_turn, .. }
            | MatchLocation::Commits { first_turn, last_turn, .. },
            Some(turn),
        ) = (&mut place.whereabouts, turn)
        {
            *first_turn = (*first_turn).min(turn);
            *last_turn = (*last_turn).max(turn);
        }
    }
}
