//! The index of search: an SQLite database next to the store, or in memory.
//!
//! | file | job |
//! |---|---|
//! | `claim` | lets one search at a time fill the index |
//! | `dictionary` | the words that the index knows |
//! | `fill` | adds new turns and drops deleted ones |
//! | `find` | finds the documents that have all words, in rank order |
//! | `measures` | the length, voice, age and session of each document, for ranking |
//! | `postings` | encodes the documents of each word |
//! | `ranking` | ranks sessions by a question |
//! | `segments` | stores the postings in blocks |
//! | `take` | turns new turns into documents, words and places |
//! | `trouble` | the errors of an index, by their remedy |
//!
//! The index is derived data: an unusable one is dropped and rebuilt. SQLite makes each change
//! atomic, also if the process is killed, and serializes the writers. The index stores neither
//! texts nor word positions, only the documents of each word, in blocks of bytes that a search
//! reads sequentially.

mod claim;
mod dictionary;
mod error;
mod fill;
mod find;
mod measures;
mod postings;
mod ranking;
mod segments;
mod writer;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};
use turntree::object::ObjectId;
use turntree::platform::canonical;
use turntree::repo::Repository;
use turntree::workspace::{Claim, database_path, make_database};

pub(super) use claim::claim;
pub(super) use dictionary::{Dictionary, KnownWord};
pub(super) use error::IndexError;
pub(super) use find::{Candidate, SearchFilter};
pub(super) use ranking::{RankedDocument, RankedSession, Ranking};

/// The name of the database file.
const NAME: &str = "search";

/// The application id of the file and the version of the schema. An index of another version is
/// rebuilt.
const APPLICATION: i32 = 0x7454_7365;
const VERSION: i32 = 4;

/// The longest wait for another process that fills the same index.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);

const CACHE_KIBIBYTES: i32 = 16 << 10;

/// The tables of an index. Texts are numbered in `names`, lists of tools in `tools`. A key that is
/// a number `n` is stored as `-1 - n`.
const SCHEMA: &str = "
    CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE tools (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE turns (id INTEGER PRIMARY KEY, commit_id BLOB NOT NULL UNIQUE, before BLOB NOT NULL,
        session INTEGER NOT NULL, turn INTEGER NOT NULL, time INTEGER NOT NULL);
    CREATE TABLE documents (id INTEGER PRIMARY KEY, blob BLOB NOT NULL, format INTEGER NOT NULL,
        links BLOB);
    CREATE INDEX documents_by_blob ON documents (substr(blob, 1, 8));
    CREATE TABLE places (document INTEGER NOT NULL, turn INTEGER NOT NULL, section INTEGER NOT NULL,
        key INTEGER NOT NULL, role INTEGER, tools INTEGER,
        PRIMARY KEY (document, turn, section, key)) WITHOUT ROWID;
    CREATE TABLE measures (row INTEGER PRIMARY KEY, measures BLOB NOT NULL);
    CREATE TABLE sessions (id INTEGER PRIMARY KEY, documents INTEGER NOT NULL);
    CREATE TABLE segments (id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
    CREATE TABLE blocks (id INTEGER PRIMARY KEY, postings BLOB NOT NULL);
    CREATE TABLE first_words (segment INTEGER NOT NULL, word BLOB NOT NULL, block INTEGER NOT NULL,
        PRIMARY KEY (segment, word)) WITHOUT ROWID;";

/// Names of the facts about the whole index.
const STORE: &str = "store";
const TIPS: &str = "tips";
const EPOCH: &str = "epoch";
const DOCUMENTS: &str = "documents";
const WORDS: &str = "words";
const NEWEST: &str = "newest";
const TURNS: &str = "turns";

/// The result of an access to an index.
pub(super) type IndexResult<T> = Result<T, IndexError>;

/// An open index.
#[derive(Debug)]
pub(super) struct Index {
    connection: Connection,
}

impl Index {
    /// Opens the index next to the store. `None` if there is no index yet.
    pub(super) fn open(repo: &Repository) -> IndexResult<Option<Self>> {
        let path = database_path(repo, NAME);
        // The index in another user's store belongs to that user, too.
        if repo.store().keeps_no_caches() || !path.exists() {
            return Ok(None);
        }
        let index = Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if index.pragma("user_version")? == 0 {
            Ok(None)
        } else {
            index.check_version(repo).map(Some)
        }
    }

    /// Opens the index next to the store, or creates an empty one. The caller must hold the claim,
    /// because SQLite refuses one of two processes that create the same file.
    pub(super) fn open_or_create(repo: &Repository, _: &Claim) -> IndexResult<Self> {
        let path =
            make_database(repo, NAME).map_err(|error| IndexError::refused(error.message()))?;
        Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?
            .create_tables(repo)?
            .check_version(repo)
    }

    /// Opens the index next to the store read-only.
    pub(super) fn open_read_only(repo: &Repository) -> IndexResult<Self> {
        if repo.store().keeps_no_caches() {
            return Err(IndexError::refused("this store has no caches next to it"));
        }
        let path = database_path(repo, NAME);
        Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?.check_version(repo)
    }

    /// Creates an empty index in memory.
    pub(super) fn in_memory(repo: &Repository) -> IndexResult<Self> {
        let connection = Connection::open_in_memory()?;
        Self::of(connection)?.create_tables(repo)?.check_version(repo)
    }

    /// Returns true if there is an index next to the store.
    pub(super) fn exists(repo: &Repository) -> bool {
        !repo.store().keeps_no_caches() && database_path(repo, NAME).exists()
    }

    /// Removes the index next to the store. The next search rebuilds it from the objects. Processes
    /// that have it open keep reading the removed file.
    pub(super) fn remove(repo: &Repository) {
        if repo.store().keeps_no_caches() {
            return;
        }
        let path = database_path(repo, NAME);
        // Delete the journal last: a database without its hot journal may be corrupt without a
        // sign.
        for path in [&path, &journal_of(&path)] {
            // If the file stays, opening it fails again and the search falls back to memory.
            let _ = fs::remove_file(path);
        }
    }

    fn connect(path: &Path, access: OpenFlags) -> IndexResult<Self> {
        let refused = |error: std::io::Error| IndexError::refused(&error.to_string());
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(IndexError::refused("it has no folder"));
        };
        // Symbolic links in the path of the store are trusted. The file itself must not be one.
        let path = canonical(folder).map_err(refused)?.join(name);
        // SQLite would block on a pipe without a writer.
        for path in [&path, &journal_of(&path)] {
            if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
                return Err(IndexError::refused("it is not a regular file"));
            }
        }
        let how = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        Self::of(Connection::open_with_flags(path, access | how)?)
    }

    fn of(connection: Connection) -> IndexResult<Self> {
        for (config, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        ] {
            connection.set_db_config(config, on)?;
        }
        connection.busy_timeout(CLAIM_TIMEOUT)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIBIBYTES)?;
        // Otherwise SQLite sorts in files of the shared temporary folder, which would hold parts of
        // the index.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(Self { connection })
    }

    /// Creates the tables in an empty file.
    fn create_tables(self, repo: &Repository) -> IndexResult<Self> {
        if self.pragma("user_version")? == 0 && !self.connection.is_readonly("main")? {
            // Only effective before the first table exists.
            self.connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            let change = self.begin()?;
            let tables = "SELECT count(*) FROM sqlite_schema";
            // Another process may have created the tables first.
            if change.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
                change.execute_batch(SCHEMA)?;
                change.pragma_update(None, "application_id", APPLICATION)?;
                change.pragma_update(None, "user_version", VERSION)?;
                set(&change, STORE, repo.store_id().as_slice())?;
            }
            change.commit()?;
        }
        Ok(self)
    }

    /// Rejects an index of another version or store.
    fn check_version(self, repo: &Repository) -> IndexResult<Self> {
        let is_ours = (self.pragma("application_id")?, self.pragma("user_version")?)
            == (APPLICATION, VERSION)
            && self.fact::<Vec<u8>>(STORE)?.is_some_and(|id| id == repo.store_id());
        if !is_ours {
            return Err(IndexError::Damaged);
        }
        Ok(self)
    }

    fn pragma(&self, name: &str) -> IndexResult<i32> {
        Ok(self.connection.pragma_query_value(None, name, |row| row.get(0))?)
    }

    /// Begins a read transaction, which hides concurrent changes of other processes.
    pub(super) fn view(&self) -> IndexResult<Transaction<'_>> {
        let behavior = TransactionBehavior::Deferred;
        Ok(Transaction::new_unchecked(&self.connection, behavior)?)
    }

    /// Begins a transaction that excludes other writers.
    fn begin(&self) -> IndexResult<Transaction<'_>> {
        let behavior = TransactionBehavior::Immediate;
        Ok(Transaction::new_unchecked(&self.connection, behavior)?)
    }

    fn fact<T: rusqlite::types::FromSql>(&self, name: &str) -> IndexResult<Option<T>> {
        let query = "SELECT value FROM facts WHERE name = ?1";
        Ok(self.connection.query_row(query, [name], |row| row.get(0)).optional()?)
    }

    /// Returns a fact that is a number, or 0 if it was never set.
    fn number(&self, name: &str) -> IndexResult<i64> {
        Ok(self.fact(name)?.unwrap_or_default())
    }

    /// Returns the number of indexed turns, and the number that the last fill was to reach.
    pub(super) fn filled(&self) -> IndexResult<(u64, u64)> {
        let count = "SELECT count(*) FROM turns";
        let indexed: i64 = self.connection.query_row(count, [], |row| row.get(0))?;
        let turns = self.number(TURNS)?.max(indexed);
        Ok((indexed.cast_unsigned(), turns.cast_unsigned()))
    }

    /// Returns true if the index covers the current refs and epoch of the store.
    pub(super) fn is_current(&self, repo: &Repository) -> IndexResult<bool> {
        let epoch = self.fact::<i64>(EPOCH)?;
        Ok(epoch == Some(repo.epoch().cast_signed())
            && self.fact::<Vec<u8>>(TIPS)?.is_some_and(|known| known == tip_bytes(&tips(repo))))
    }
}

/// Returns the path of the rollback journal of SQLite.
fn journal_of(path: &Path) -> PathBuf {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    journal.into()
}

fn set(connection: &Connection, name: &str, value: impl rusqlite::ToSql) -> IndexResult<()> {
    let change = "INSERT INTO facts VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
    connection.execute(change, params![name, value])?;
    Ok(())
}

/// Returns the distinct tips of all branches, sorted.
fn tips(repo: &Repository) -> Vec<ObjectId> {
    let mut tips: Vec<ObjectId> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    tips.sort_unstable();
    tips.dedup();
    tips
}

fn tip_bytes(tips: &[ObjectId]) -> Vec<u8> {
    tips.iter().flat_map(|tip| *tip.as_bytes()).collect()
}

fn id_of(bytes: &[u8]) -> Option<ObjectId> {
    bytes.try_into().ok().map(ObjectId::from_bytes)
}

/// Maps texts of a table to their numbers and back. Caches each row after its first read.
struct TextTable<'c> {
    connection: &'c Connection,
    table: &'static str,
    numbers: HashMap<String, i64>,
    texts: HashMap<i64, String>,
}

impl<'c> TextTable<'c> {
    fn new(connection: &'c Connection, table: &'static str) -> Self {
        Self { connection, table, numbers: HashMap::new(), texts: HashMap::new() }
    }

    /// Returns the number of a text, if it has one.
    fn find(&mut self, text: &str) -> IndexResult<Option<i64>> {
        if let Some(number) = self.numbers.get(text) {
            return Ok(Some(*number));
        }
        let query = format!("SELECT id FROM {} WHERE name = ?1", self.table);
        let found = self.connection.query_row(&query, [text], |row| row.get(0)).optional()?;
        if let Some(number) = found {
            self.numbers.insert(text.to_owned(), number);
        }
        Ok(found)
    }

    /// Returns the number of a text. Inserts the text if it is new.
    fn number(&mut self, text: &str) -> IndexResult<i64> {
        if let Some(number) = self.find(text)? {
            return Ok(number);
        }
        let insert = format!("INSERT INTO {} (name) VALUES (?1)", self.table);
        self.connection.execute(&insert, [text])?;
        let number = self.connection.last_insert_rowid();
        self.numbers.insert(text.to_owned(), number);
        Ok(number)
    }

    /// Returns the text of a number.
    fn text(&mut self, number: i64) -> IndexResult<String> {
        if let Some(text) = self.texts.get(&number) {
            return Ok(text.clone());
        }
        let query = format!("SELECT name FROM {} WHERE id = ?1", self.table);
        let text: String = self.connection.query_row(&query, [number], |row| row.get(0))?;
        self.texts.insert(number, text.clone());
        Ok(text)
    }

    /// Returns the number of a key: `-1 - n` for a key that is the number `n`, else the number of
    /// its text.
    fn key_number(&mut self, key: &str) -> IndexResult<i64> {
        match key.parse::<u32>() {
            Ok(index) if index.to_string() == key => Ok(-1 - i64::from(index)),
            _ => self.number(key),
        }
    }

    /// Returns the key of a number.
    fn key(&mut self, number: i64) -> IndexResult<String> {
        if number < 0 { Ok((-1 - number).to_string()) } else { self.text(number) }
    }
}
