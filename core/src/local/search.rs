//! Searches the whole history of a store.

use super::{Repo, Session};
use crate::error::Result;
use crate::object::ObjectId;
use crate::repo::{BranchName, GrepQuery, LinePattern, PatternOptions, SearchFilter, SearchScope};

/// An entry of the history that matches a search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Match {
    /// A branch from which the turn is reachable.
    pub branch: Option<BranchName>,
    /// The first turn that has the entry.
    pub turn: u64,
    /// The id of that turn's snapshot.
    pub snapshot: ObjectId,
    /// The path of the entry: section and key; a message is named by its index.
    pub path: String,
    /// The matching lines.
    pub lines: Vec<String>,
}

impl Repo {
    /// Searches for `text` in all branches of all sessions: messages, entries and files of every
    /// turn, each distinct one once. Returns the matches ordered by turn. Reads every distinct blob
    /// once.
    ///
    /// # Errors
    /// `InvalidInput` for text over the limit of a pattern, `Corrupt` if history cannot be read.
    pub fn search(&self, text: &str) -> Result<Vec<Match>> {
        self.search_in(text, self.inner.branches())
    }

    fn search_in(&self, text: &str, branches: Vec<(BranchName, ObjectId)>) -> Result<Vec<Match>> {
        let options = PatternOptions { fixed: true, ..PatternOptions::default() };
        let pattern = LinePattern::new(text, options)?;
        let starts = branches.into_iter().map(|(branch, tip)| (tip, Some(branch))).collect();
        let scope = SearchScope { starts, hide: Vec::new() };
        let formats = self.formats;
        // A record without a text in its format is searched as raw bytes.
        let read = move |media: &str, record: &[u8]| {
            let text = (formats.text)(media, record);
            Some(text.unwrap_or_else(|| String::from_utf8_lossy(record).into_owned()))
        };
        let query = GrepQuery {
            pattern: &pattern,
            wanted: SearchFilter::default(),
            lines: Some(0),
            read: &read,
            may_hold: None,
        };
        let found = self.inner.grep(&[scope], query, &|_, _| {})?;
        let matches = found.places().iter().map(|place| {
            let lines = found.found(place)?.lines.into_iter();
            Ok(Match {
                branch: place.branch.clone(),
                turn: place.turn,
                snapshot: place.commit,
                path: match place.key.is_empty() {
                    true => place.section.clone(),
                    false => format!("{}/{}", place.section, place.key),
                },
                lines: lines.map(|line| line.text).collect(),
            })
        });
        matches.collect()
    }
}

impl Session {
    /// Searches for `text` in all branches of this session, as [`Repo::search`] does.
    ///
    /// # Errors
    /// As for [`Repo::search`].
    pub fn search(&self, text: &str) -> Result<Vec<Match>> {
        let branches = self.branches().into_iter();
        let branches = branches.filter_map(|own| {
            let tip = self.repo().inner.tip(own.branch())?;
            Some((own.branch().clone(), tip))
        });
        self.repo().search_in(text, branches.collect())
    }
}
