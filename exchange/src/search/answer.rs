//! The queries and answers of a search.

use std::ops::Range;

use turntree::context::{Role, Selection};
use turntree::object::{ObjectId, Time};

/// A search for words.
#[derive(Debug, Clone, Default)]
pub struct SearchQuery<'q> {
    /// Words, `"phrases"` and word prefixes, `wor*`. A document must have all phrases.
    pub text: &'q str,
    /// True if a document must have all words exactly as typed. Documents then rank one by one.
    /// False to rank sessions, by most words in any form or near spelling.
    pub all_words: bool,
    /// Only entries of this session.
    pub session: Option<&'q str>,
    /// Only messages of these roles. Empty for any entry.
    pub roles: &'q [Role],
    /// Only calls of this tool and their results. The case of the name does not matter.
    pub tool: Option<&'q str>,
    /// Only entries later than this, in microseconds since 1970.
    pub since: Option<i64>,
    /// Only entries at or below these paths.
    pub paths: Selection,
    /// Number of hits to skip.
    pub offset: u64,
    /// Maximum number of hits to return.
    pub limit: u64,
    /// Maximum number of hits of a session, or 0 for no limit. Without effect if `all_words`.
    pub per_session: u64,
    /// True to rebuild the index from the objects.
    pub rebuild: bool,
}

/// A document that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The session of the oldest turn that added the document.
    pub session: String,
    /// The number of that turn.
    pub turn: u64,
    /// The commit of that turn.
    pub commit: ObjectId,
    /// The time of that turn.
    pub time: Time,
    /// The section.
    pub section: String,
    /// The key of the entry, or its index in that turn. Empty for a section that is one blob.
    pub key: String,
    /// The role of a message.
    pub role: Option<Role>,
    /// The tools that a message calls or whose results it holds.
    pub tools: Vec<String>,
    /// The blob.
    pub blob: ObjectId,
    /// The matching part of its text.
    pub snippet: Snippet,
    /// The words of the query that the document lacks.
    pub missing: Vec<String>,
    /// The words of the query that the document has only in another form or spelling.
    pub varied: Vec<String>,
}

/// The part of a text around the matches, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The text. An ellipsis marks a cut. Each run of whitespace is one space.
    pub text: String,
    /// The byte ranges of the matches in `text`, in order.
    pub matches: Vec<Range<usize>>,
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchAnswer {
    /// The hits, the best first. Those of a session follow each other, unless the query wants
    /// `all_words`.
    pub hits: Vec<SearchHit>,
    /// The number of documents that have all words, in any order and place. Phrases, filters and
    /// deleted content can exclude some of them.
    pub candidates: u64,
    /// True if more hits follow.
    pub more: bool,
    /// Descriptions of unreadable content, which was not searched.
    pub damage: Vec<String>,
    /// The place of the index.
    pub place: IndexPlace,
}

/// The place of the index of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexPlace {
    /// In a file of the store, which later searches use too.
    InStore,
    /// In a file of the store that another process is filling: the answer covers `indexed` of
    /// `turns` turns.
    Filling {
        /// Number of indexed turns.
        indexed: u64,
        /// Number of turns that the index will have.
        turns: u64,
    },
    /// In memory, for this search only, with the reason.
    InMemory(String),
}
