//! Search: words in everything that a store has, the best first.
//!
//! | file | job |
//! |---|---|
//! | `answer` | what is asked and answered |
//! | `words` | what a word is |
//! | `word_table` | words with numbers, found by a hash |
//! | `query` | what is asked becomes terms |
//! | `document` | what the index keeps of an entry |
//! | `rank` | which document is better |
//! | `index` | the index: kept up with the store, and asked |
//! | `matches` | where terms stand in a text, and the part that is shown |
//! | `kept` | an index in memory, kept from one search to the next |
//! | `run` | a search from the question to the answer |
//!
//! The index only says where to look. What is shown was read from the store and has all terms, so
//! nothing is shown that is gone, whatever the index says.

mod answer;
#[cfg(feature = "sqlite")]
mod document;
#[cfg(feature = "sqlite")]
mod index;
#[cfg(feature = "sqlite")]
mod kept;
#[cfg(feature = "sqlite")]
mod matches;
#[cfg(not(feature = "sqlite"))]
mod no_index;
#[cfg(feature = "sqlite")]
mod query;
#[cfg(feature = "sqlite")]
mod rank;
#[cfg(feature = "sqlite")]
mod run;
#[cfg(feature = "sqlite")]
#[cfg(test)]
mod tests;
#[cfg(feature = "sqlite")]
mod word_table;
#[cfg(feature = "sqlite")]
mod words;

pub use answer::{IndexKept, SearchAnswer, SearchHit, SearchQuery, Snippet};
#[cfg(feature = "sqlite")]
pub use kept::KeptIndex;
#[cfg(not(feature = "sqlite"))]
pub use no_index::{KeptIndex, search, search_keeping};
#[cfg(feature = "sqlite")]
pub use run::{search, search_keeping};
