//! Turns the entries that new turns added into documents, words and places of the index.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, Statement, params};
use turntree::error::{Error, ErrorKind};
use turntree::object::{Kind, Object, ObjectId};
use turntree::repo::{Arrival, ArrivedAt, Repository};

use super::measures::{Measure, Measures};
use super::postings::PostingLists;
use super::{DOCUMENTS, Index, IndexResult, NEWEST, TextTable, WORDS, segments, set};
use crate::search::document::{Document, DocumentWords, ToolLinks};
use crate::search::voice::Voice;

/// Size of the postings in memory, in bytes, from which they are written, in one transaction with
/// their documents and turns.
const CHANGE_BYTES: usize = 32 << 20;

const FIND_DOCUMENT: &str = "SELECT id, links FROM documents
    WHERE substr(blob, 1, 8) = substr(?1, 1, 8) AND blob = ?1 AND format = ?2";
const ADD_DOCUMENT: &str = "INSERT INTO documents VALUES (?1, ?2, ?3, ?4)";
const ADD_TURN: &str = "INSERT INTO turns (commit_id, before, session, turn, time)
    VALUES (?1, ?2, ?3, ?4, ?5)";
const OLDEST_PLACE: &str = "SELECT t.time, t.session FROM places p JOIN turns t ON t.id = p.turn
    WHERE p.document = ?1 ORDER BY t.time, t.turn, t.commit_id LIMIT 1";
const ADD_PLACE: &str = "INSERT OR IGNORE INTO places VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// An open transaction and its unwritten postings and measures.
pub(super) struct IndexWriter<'c> {
    change: &'c Connection,
    names: TextTable<'c>,
    tools: TextTable<'c>,
    pub(super) measures: Measures<'c>,
    lists: PostingLists,
    pub(super) documents: i64,
    pub(super) words: i64,
    pub(super) newest: i64,
}

/// A blob, and the number of the format of its message among the names. Entries that are no
/// messages have the number of the empty name.
type Content = (ObjectId, i64);

/// A document: its number, if it has one, and its tool calls and results.
#[derive(Default)]
struct KnownDocument {
    number: Option<u32>,
    links: ToolLinks,
}

/// The documents of a batch of turns.
#[derive(Default)]
struct TurnDocuments {
    documents: HashMap<Content, KnownDocument>,
    /// The contents that have no number yet.
    unknown: Vec<Content>,
    /// The names of the formats, keyed by their numbers.
    formats: HashMap<i64, String>,
    /// The unreadable blobs. `damage` describes the errors.
    lost: HashSet<ObjectId>,
    damage: BTreeSet<String>,
}

/// A new document, without its words.
struct NewDocument {
    number: u32,
    words: u32,
    voice: Voice,
    links: ToolLinks,
}

/// Collects the documents of several threads and numbers them.
struct DocumentCollector<'l> {
    lists: &'l mut PostingLists,
    next: u32,
    /// The results, in the order of the contents. `None` for content without a word.
    found: Vec<Result<Option<NewDocument>, Error>>,
}

thread_local! {
    /// The words of the document that this thread reads.
    static WORDS_READ: RefCell<DocumentWords> = RefCell::default();
}

impl<'c> IndexWriter<'c> {
    pub(super) fn begin(index: &Index, change: &'c Connection) -> IndexResult<Self> {
        Ok(Self {
            change,
            names: TextTable::new(change, "names"),
            tools: TextTable::new(change, "tools"),
            measures: Measures::open(change)?,
            lists: PostingLists::default(),
            documents: index.number(DOCUMENTS)?,
            words: index.number(WORDS)?,
            newest: index.number(NEWEST)?,
        })
    }

    /// Returns true if the postings should be written.
    pub(super) const fn is_large(&self) -> bool {
        self.lists.bytes() >= CHANGE_BYTES
    }

    /// Adds turns that the index lacks.
    pub(super) fn add(
        &mut self,
        repo: &Repository,
        turns: &[ArrivedAt],
        arrived: &[(Vec<Arrival>, Vec<String>)],
        damage: &mut BTreeSet<String>,
    ) -> IndexResult<()> {
        let contents = self.contents(arrived)?;
        let mut batch =
            TurnDocuments::find(self.change, &mut self.names, contents.iter().flatten())?;
        batch.index_unknown(repo, self)?;
        damage.extend(batch.damage.iter().cloned());
        let change = self.change;
        let (mut add_turn, mut add_place) = (change.prepare(ADD_TURN)?, change.prepare(ADD_PLACE)?);
        for ((turn, (arrivals, unread)), contents) in turns.iter().zip(arrived).zip(&contents) {
            damage.extend(unread.iter().cloned());
            let is_lost = |arrival: &Arrival| batch.lost.contains(&arrival.blob);
            let is_whole = unread.is_empty() && !arrivals.iter().any(is_lost);
            let session = self.names.number(&turn.session)?;
            let number = insert_turn(&mut add_turn, session, turn, is_whole)?;
            self.newest = self.newest.max(turn.time.micros);
            let known = contents.iter().map(|content| batch.documents.get(content));
            let arrived: Vec<_> = arrivals.iter().zip(known).collect();
            self.insert_places(&mut add_place, (number, session, turn), &arrived)?;
        }
        Ok(())
    }

    /// Returns the contents that each turn added.
    fn contents(
        &mut self,
        arrived: &[(Vec<Arrival>, Vec<String>)],
    ) -> IndexResult<Vec<Vec<Content>>> {
        let mut content = |arrival: &Arrival| -> IndexResult<Content> {
            let format = arrival.message.as_ref().map_or("", |(_, format)| format);
            Ok((arrival.blob, self.names.number(format)?))
        };
        arrived.iter().map(|(arrivals, _)| arrivals.iter().map(&mut content).collect()).collect()
    }

    /// Inserts a new document. The caller inserts documents in the order of their numbers.
    fn insert(
        &mut self,
        add: &mut Statement<'_>,
        (blob, format): &Content,
        NewDocument { number, words, voice, links }: &NewDocument,
    ) -> IndexResult<()> {
        let links = links.encode();
        let links = (!links.is_empty()).then_some(links);
        add.execute(params![number, blob.as_bytes(), format, links])?;
        self.documents += 1;
        self.words += i64::from(*words);
        self.measures.push(Measure::new(*words, *voice))
    }

    fn insert_places(
        &mut self,
        add: &mut Statement<'_>,
        (turn, session, arrived): (i64, i64, &ArrivedAt),
        arrivals: &[(&Arrival, Option<&KnownDocument>)],
    ) -> IndexResult<()> {
        let links = arrivals.iter().filter_map(|(_, known)| *known).flat_map(|it| &it.links.0);
        let called = links.filter_map(|(number, name)| Some((*number, name.clone()?))).collect();
        for (arrival, known) in arrivals {
            let Some(KnownDocument { number: Some(number), links }) = known else { continue };
            let role = arrival.message.as_ref().map(|(role, _)| *role as u8);
            let used = links.tools(&called);
            let used = if used.is_empty() { None } else { Some(self.tools.number(&used)?) };
            let section = self.names.number(&arrival.section)?;
            let key = self.names.key_number(&arrival.key)?;
            add.execute(params![number, turn, section, key, role, used])?;
            let measure = self.measures.get(*number)?;
            match measure.compare(arrived.time.micros) {
                Ordering::Less => {
                    self.measures.set(*number, measure.at(arrived.time.micros, session))?;
                }
                Ordering::Equal if i64::from(measure.session) != session => {
                    self.measure_oldest_place(*number)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets the age and session of a document to those of its oldest place. Returns false if it has
    /// no place.
    pub(super) fn measure_oldest_place(&mut self, document: u32) -> IndexResult<bool> {
        let mut oldest = self.change.prepare(OLDEST_PLACE)?;
        let oldest = oldest.query_row([document], |row| Ok((row.get(0)?, row.get(1)?)));
        let Some((time, session)) = oldest.optional()? else { return Ok(false) };
        let measure = self.measures.get(document)?;
        self.measures.set(document, measure.at(time, session))?;
        Ok(true)
    }

    /// Writes the pending postings, measures and totals.
    pub(super) fn finish(mut self) -> IndexResult<()> {
        self.measures.write()?;
        segments::add(self.change, self.lists, &mut self.measures)?;
        let sums = [(DOCUMENTS, self.documents), (WORDS, self.words), (NEWEST, self.newest)];
        sums.into_iter().try_for_each(|(name, value)| set(self.change, name, value))
    }
}

impl TurnDocuments {
    /// Looks up the documents of contents.
    fn find<'c>(
        change: &Connection,
        names: &mut TextTable<'_>,
        contents: impl Iterator<Item = &'c Content>,
    ) -> IndexResult<Self> {
        let mut batch = Self::default();
        let mut find = change.prepare(FIND_DOCUMENT)?;
        for content in contents {
            if let Entry::Vacant(place) = batch.documents.entry(*content) {
                let known = known(&mut find, place.key())?;
                if known.is_none() {
                    batch.unknown.push(*content);
                    if let Entry::Vacant(format) = batch.formats.entry(content.1) {
                        format.insert(names.text(content.1)?);
                    }
                }
                place.insert(known.unwrap_or_default());
            }
        }
        Ok(batch)
    }

    /// Reads the unknown contents and inserts their documents.
    fn index_unknown(
        &mut self,
        repo: &Repository,
        writer: &mut IndexWriter<'_>,
    ) -> IndexResult<()> {
        let mut add = writer.change.prepare(ADD_DOCUMENT)?;
        let unknown = std::mem::take(&mut self.unknown);
        let next = writer.measures.len();
        let read = read(repo, (&unknown, &self.formats), &mut writer.lists, next);
        let mut new = Vec::new();
        for (content, read) in unknown.into_iter().zip(read) {
            match read {
                Ok(document) => new.extend(document.map(|document| (content, document))),
                Err(error) => {
                    self.lost.insert(content.0);
                    self.damage.insert(error.to_string());
                }
            }
        }
        new.sort_unstable_by_key(|(_, document)| document.number);
        for (content, document) in new {
            writer.insert(&mut add, &content, &document)?;
            let NewDocument { number, links, .. } = document;
            self.documents.insert(content, KnownDocument { number: Some(number), links });
        }
        Ok(())
    }
}

fn known(find: &mut Statement<'_>, (blob, format): &Content) -> IndexResult<Option<KnownDocument>> {
    let found = find
        .query_row(params![blob.as_bytes(), format], |row| {
            Ok((row.get::<_, u32>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
        })
        .optional()?;
    Ok(found.map(|(number, links)| KnownDocument {
        number: Some(number),
        links: ToolLinks::decode(&links.unwrap_or_default()),
    }))
}

/// Reads the documents of contents in storage order, on all processors. Adds their words to
/// `lists`. Returns the documents in the order of the contents.
fn read(
    repo: &Repository,
    (contents, formats): (&[Content], &HashMap<i64, String>),
    lists: &mut PostingLists,
    next: u32,
) -> Vec<Result<Option<NewDocument>, Error>> {
    let store = repo.store();
    let absent = |id: &ObjectId| {
        Error::not_found(format!("{id} is only on a remote: run 'turntree fetch --whole'"))
    };
    let found = contents.iter().map(|(id, _)| match store.has_distant() && !store.is_here(id) {
        true => Err(absent(id)),
        false => Ok(None),
    });
    let found: Vec<Result<Option<NewDocument>, Error>> = found.collect();
    let here = (0_usize..).zip(&found).filter(|(_, found)| found.is_ok());
    let here: Vec<usize> = here.map(|(at, _)| at).collect();
    let ids: Vec<ObjectId> =
        here.iter().filter_map(|at| contents.get(*at)).map(|(id, _)| *id).collect();
    let reading = Mutex::new(DocumentCollector { lists, next, found });
    store.visit(&ids, &|at, object| {
        let Some(at) = here.get(at) else { return };
        let Some((id, format)) = contents.get(*at) else { return };
        let format = formats.get(format).map_or("", String::as_str);
        WORDS_READ.with_borrow_mut(|words| {
            let document = object.and_then(|object| document_of(id, format, &object, words));
            reading
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .number_document(*at, document, words);
        });
    });
    reading.into_inner().unwrap_or_else(PoisonError::into_inner).found
}

fn document_of(
    id: &ObjectId,
    format: &str,
    object: &Object,
    words: &mut DocumentWords,
) -> Result<Option<Document>, Error> {
    match object.kind {
        Kind::Blob => Ok(Document::of(format, &object.bytes, words)),
        kind => Err(Error::corrupt(id, "a blob", kind)),
    }
}

impl DocumentCollector<'_> {
    /// Numbers a document and adds its words to the lists.
    fn number_document(
        &mut self,
        at: usize,
        document: Result<Option<Document>, Error>,
        words: &DocumentWords,
    ) {
        let new = match document {
            Ok(None) => Ok(None),
            Ok(Some(document)) => {
                let number = self.next;
                self.next = number.saturating_add(1);
                self.lists.add(number, words.steps());
                let Document { words, voice, links } = document;
                Ok(Some(NewDocument { number, words, voice, links }))
            }
            // Expired and redacted content is deleted on purpose and cannot be searched.
            Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) => {
                Ok(None)
            }
            Err(error) => Err(error),
        };
        if let Some(place) = self.found.get_mut(at) {
            *place = new;
        }
    }
}

/// Inserts a turn. A turn with unreadable content gets a mark that matches no turns, so the next
/// fill adds it again.
fn insert_turn(
    add: &mut Statement<'_>,
    session: i64,
    turn: &ArrivedAt,
    is_whole: bool,
) -> IndexResult<i64> {
    let before = if is_whole { mark_of(&turn.before) } else { vec![0] };
    let number = turn.turn.cast_signed();
    let values = params![turn.commit.as_bytes(), before, session, number, turn.time.micros];
    Ok(add.insert(values)?)
}

/// Returns a mark of the turns that a turn is compared with: the first 8 bytes of each id.
pub(super) fn mark_of(before: &[ObjectId]) -> Vec<u8> {
    before.iter().flat_map(|id| id.as_bytes().iter().take(8)).copied().collect()
}
