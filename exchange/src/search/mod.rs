//! Searches all content of a store for words and ranks the hits.
//!
//! | file | job |
//! |---|---|
//! | `answer` | queries, hits and answers |
//! | `words` | splits text into words |
//! | `word_table` | numbers words by a hash table |
//! | `query` | parses a query into terms |
//! | `question` | the forms and spellings of each term |
//! | `language` | empty words and stems, by language |
//! | `voice` | tells prompts, answers, tool output and additions of clients apart |
//! | `document` | the indexed form of an entry |
//! | `rank` | scores documents |
//! | `index` | the index: updates it from the store and queries it |
//! | `hit` | reads a candidate from the store |
//! | `by_session` | answers with the best sessions and their hits |
//! | `matches` | finds terms in a text and cuts the snippet |
//! | `memory_index` | an in-memory index that several searches share |
//! | `run` | runs a search from the query to the answer |
//!
//! The index only proposes candidates. Each hit is read from the store and must have all terms, so
//! a stale index never shows deleted content.

mod answer;
#[cfg(feature = "sqlite")]
mod by_session;
#[cfg(feature = "sqlite")]
mod document;
#[cfg(feature = "sqlite")]
#[cfg(test)]
mod fill_tests;
#[cfg(feature = "sqlite")]
mod hit;
#[cfg(feature = "sqlite")]
mod index;
#[cfg(feature = "sqlite")]
mod language;
#[cfg(feature = "sqlite")]
mod matches;
#[cfg(feature = "sqlite")]
mod memory_index;
#[cfg(not(feature = "sqlite"))]
mod no_index;
#[cfg(feature = "sqlite")]
mod query;
#[cfg(feature = "sqlite")]
mod question;
#[cfg(feature = "sqlite")]
#[cfg(test)]
mod question_tests;
#[cfg(feature = "sqlite")]
mod rank;
#[cfg(feature = "sqlite")]
mod run;
#[cfg(feature = "sqlite")]
#[cfg(test)]
mod tests;
#[cfg(feature = "sqlite")]
mod voice;
#[cfg(feature = "sqlite")]
mod word_table;
#[cfg(feature = "sqlite")]
mod words;

pub use answer::{IndexPlace, SearchAnswer, SearchHit, SearchQuery, Snippet};
#[cfg(feature = "sqlite")]
pub use memory_index::MemoryIndex;
#[cfg(not(feature = "sqlite"))]
pub use no_index::{MemoryIndex, fill_search_index, search, search_with_index};
#[cfg(feature = "sqlite")]
pub use run::{fill_search_index, search, search_with_index};
