//! What is asked of a search, and what it answers.

use std::ops::Range;

use turntree::context::{Role, Selection};
use turntree::object::{ObjectId, Time};

/// A search for words.
#[derive(Debug, Clone, Default)]
pub struct SearchQuery<'q> {
    /// Words, `"phrases"` and beginnings of words, `wor*`: a document has all of them.
    pub text: &'q str,
    /// Only what was said in this session.
    pub session: Option<&'q str>,
    /// Only messages of these roles; any entry when there are none.
    pub roles: &'q [Role],
    /// Only calls of this tool and their results, whatever the case of its name.
    pub tool: Option<&'q str>,
    /// Only what came later than this, in microseconds since 1970.
    pub since: Option<i64>,
    /// Only entries at or below these paths.
    pub paths: Selection,
    /// Hits to pass over.
    pub offset: u64,
    /// Hits to return at most.
    pub limit: u64,
    /// Whether the index is made from the objects again.
    pub rebuild: bool,
}

/// A document that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The session of the oldest turn that brought it.
    pub session: String,
    /// That turn.
    pub turn: u64,
    /// Its commit.
    pub commit: ObjectId,
    /// Its time.
    pub time: Time,
    /// The section.
    pub section: String,
    /// Its key, or its index in that turn; empty for a section that is one blob.
    pub key: String,
    /// The role of a message.
    pub role: Option<Role>,
    /// The tools that a message calls, or of which it has results.
    pub tools: Vec<String>,
    /// The blob.
    pub blob: ObjectId,
    /// The part of its text that was found.
    pub snippet: Snippet,
}

/// The part of a text around what was found, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The text. Where it was cut there is an ellipsis, and a space stands for line ends and the like.
    pub text: String,
    /// The bytes of what was found, in order.
    pub matches: Vec<Range<usize>>,
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchAnswer {
    /// The hits, the best first.
    pub hits: Vec<SearchHit>,
    /// The documents that have all words, wherever these stand and whether they stand together as phrases
    /// want it or not: no more hits are there.
    pub candidates: u64,
    /// Whether more hits follow.
    pub more: bool,
    /// What could not be read and so was not searched, in words.
    pub damage: Vec<String>,
    /// Where the index lies.
    pub kept: IndexKept,
}

/// Where the index of a search lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexKept {
    /// Beside the store, for the next search too.
    BesideStore,
    /// In memory, for this search alone, for the reason that is told.
    InMemory(String),
}
