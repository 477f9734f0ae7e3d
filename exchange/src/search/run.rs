//! Runs a search from the query to the answer.

use std::ops::ControlFlow;
use std::time::Duration;

use turntree::error::{Error, ErrorKind, Result};
use turntree::repo::Repository;

use super::answer::{IndexPlace, SearchAnswer, SearchQuery};
use super::by_session::SessionReader;
use super::hit::{hit_of, is_deleted};
use super::index::{Index, IndexError, Ranking, SearchFilter, claim};
use super::matches::Matcher;
use super::memory_index::MemoryIndex;
use super::query::Terms;
use super::question::Question;

/// How long a search that has part of an index waits for the process that fills it.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often a search tries an index on disk before it falls back to memory.
const ATTEMPTS: usize = 2;

/// Searches all branches of all sessions: messages, notes and files of every kept turn.
///
/// The first search builds the index of the store, which reads all content once. Later searches add
/// only new turns. `progress` receives the number of indexed turns and their total, or 0 and 0
/// while this search waits for a concurrent search that updates the index. If the store cannot keep
/// an index, e.g. because it is encrypted, the search builds an index in memory.
///
/// # Errors
/// `InvalidInput` for a query without a word, `LimitExceeded` for one of more than 4,096 bytes or
/// 64 words, `Corrupt` or `Io` if the history is unreadable.
pub fn search(
    repo: &Repository,
    query: &SearchQuery<'_>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<SearchAnswer> {
    search_with_index(repo, query, progress, &MemoryIndex::default())
}

/// Searches like [`search`], but keeps an in-memory index in `memory`. The next search adds only
/// new turns to it. The index is dropped when the epoch of the store changes, e.g. after a
/// redaction. Searches that share `memory` run one at a time.
///
/// # Errors
/// The errors of [`search`].
pub fn search_with_index(
    repo: &Repository,
    query: &SearchQuery<'_>,
    progress: &(dyn Fn(u64, u64) + Sync),
    memory: &MemoryIndex,
) -> Result<SearchAnswer> {
    let terms = Terms::parse(query.text)?;
    let wanted = SearchFilter {
        session: query.session,
        roles: query.roles,
        tool: query.tool,
        since: query.since,
        paths: query.paths.clone(),
    };
    let run = SearchRun { repo, terms, wanted, query, progress, memory };
    if query.rebuild {
        memory.clear();
        Index::remove(repo);
    }
    let mut why = "it is damaged".to_owned();
    for _ in 0..ATTEMPTS {
        match run.search_store_index() {
            Ok(answer) => return Ok(answer),
            Err(IndexError::Store(error)) => return Err(error),
            Err(IndexError::Damaged) => Index::remove(repo),
            Err(IndexError::Refused(reason)) => {
                why = reason;
                // A collection may have removed the file while it was filled.
                if Index::exists(repo) {
                    break;
                }
            }
        }
    }
    if let Ok(Some(answer)) = run.search_current_index() {
        return Ok(answer);
    }
    run.search_in_memory(why).map_err(|trouble| match trouble {
        IndexError::Store(error) => error,
        IndexError::Refused(reason) => {
            Error::new(ErrorKind::Io, format!("make an index: {reason}"))
        }
        IndexError::Damaged => Error::new(ErrorKind::Io, "make an index: SQLite refuses it"),
    })
}

/// Adds all new turns to the index of a store, so that the next search need not. Does nothing if
/// another process is filling it, or if the store keeps no index. `progress` is called between
/// parts with the number of indexed turns and their total.
///
/// # Errors
/// `Corrupt` or `Io` if the history is unreadable.
pub fn fill_search_index(repo: &Repository, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
    let fill = || -> Result<(), IndexError> {
        let Some(claim) = claim(repo, Some(Duration::ZERO), progress)? else { return Ok(()) };
        let index = Index::open_or_create(repo, &claim)?;
        repo.refresh()?;
        index.catch_up(repo, progress).map(drop)
    };
    match fill() {
        Err(IndexError::Store(error)) => Err(error),
        Err(IndexError::Damaged) => {
            Index::remove(repo);
            Ok(())
        }
        Ok(()) | Err(IndexError::Refused(_)) => Ok(()),
    }
}

/// A query with its repository and options.
struct SearchRun<'a> {
    repo: &'a Repository,
    terms: Terms,
    wanted: SearchFilter<'a>,
    query: &'a SearchQuery<'a>,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    memory: &'a MemoryIndex,
}

impl SearchRun<'_> {
    fn search_store_index(&self) -> Result<SearchAnswer, IndexError> {
        let repo = self.repo;
        let index = Index::open(repo)?;
        repo.refresh()?;
        if let Some(index) = &index
            && index.is_current(self.repo)?
        {
            return self.answer(index, Vec::new(), IndexPlace::InStore);
        }
        // A background process may fill it for minutes, so the turns so far have to do.
        let part = match &index {
            Some(index) => Some((index, index.filled()?)).filter(|(_, (indexed, _))| *indexed > 0),
            None => None,
        };
        let patience = part.as_ref().map(|_| PATIENCE);
        let claim = match (claim(repo, patience, self.progress)?, part) {
            (Some(claim), _) => claim,
            (None, Some((index, _))) => {
                let (indexed, turns) = index.filled()?;
                return self.answer(index, Vec::new(), IndexPlace::Filling { indexed, turns });
            }
            (None, None) => return Err(IndexError::Refused("another process fills it".to_owned())),
        };
        // Another search may have filled or removed the index before this one got the claim. The
        // refresh comes after the index is open. A redaction first deletes the words from the
        // store, then removes the index files: this index is either filled from the redacted store,
        // or removed with the files.
        let index = Index::open_or_create(repo, &claim)?;
        repo.refresh()?;
        let damage = index.catch_up(self.repo, self.progress)?;
        drop(claim);
        self.answer(&index, damage, IndexPlace::InStore)
    }

    /// Queries an index that is not writable, if the store has no new turns.
    fn search_current_index(&self) -> Result<Option<SearchAnswer>, IndexError> {
        let index = Index::open_read_only(self.repo)?;
        match index.is_current(self.repo)? {
            true => self.answer(&index, Vec::new(), IndexPlace::InStore).map(Some),
            false => Ok(None),
        }
    }

    fn search_in_memory(&self, why: String) -> Result<SearchAnswer, IndexError> {
        self.memory.with(self.repo, |index| {
            let damage = index.catch_up(self.repo, self.progress)?;
            self.answer(index, damage, IndexPlace::InMemory(why))
        })
    }

    fn answer(
        &self,
        index: &Index,
        damage: Vec<String>,
        place: IndexPlace,
    ) -> Result<SearchAnswer, IndexError> {
        if self.query.all_words {
            return self.answer_exactly(index, damage, place);
        }
        let view = index.view()?;
        let empty = SearchAnswer { hits: Vec::new(), candidates: 0, more: false, damage, place };
        match Ranking::of(index, &view, &self.terms, &self.wanted)? {
            Some(ranking) => SessionReader::new(self.repo, self.query, ranking).answer(empty),
            None => Ok(empty),
        }
    }

    /// Returns the documents that have all terms as typed, the best first.
    fn answer_exactly(
        &self,
        index: &Index,
        mut damage: Vec<String>,
        place: IndexPlace,
    ) -> Result<SearchAnswer, IndexError> {
        let question = Question::exact(&self.terms);
        let matcher = Matcher::new(&question);
        let (mut hits, mut passed, mut more) = (Vec::new(), 0, false);
        let candidates = index.find(&self.terms, &self.wanted, &mut |candidate| {
            match hit_of(self.repo, &candidate, (&question, &matcher)) {
                Ok(None) => {}
                Err(error) if is_deleted(&error) => {}
                Err(error) => damage.push(error.to_string()),
                Ok(Some(_)) if passed < self.query.offset => passed += 1,
                Ok(Some(_)) if hits.len() as u64 == self.query.limit => {
                    more = true;
                    return ControlFlow::Break(());
                }
                Ok(Some((hit, _))) => hits.push(hit),
            }
            ControlFlow::Continue(())
        })?;
        Ok(SearchAnswer { hits, candidates, more, damage, place })
    }
}
