//! The index of a search: a database of SQLite beside the store, or in memory.
//!
//! | file | job |
//! |---|---|
//! | `claim` | which search fills it, while others wait |
//! | `fill` | takes up what is new in the store, and drops what is gone |
//! | `find` | which documents have all words, the best first |
//! | `measures` | of each document what a rank needs |
//! | `postings` | which documents have a word, as bytes |
//! | `segments` | where these bytes lie |
//! | `take` | documents, words and places of new turns |
//! | `trouble` | what can go wrong, by what is done then |
//!
//! It is derived: whatever does not fit is dropped and made again. SQLite makes a change whole or not at
//! all, also where a process is killed, and lets several processes take turns. No text is kept and no places
//! of words, only which documents have a word, in blocks of bytes that are read through in one go.

mod claim;
mod fill;
mod find;
mod measures;
mod postings;
mod segments;
mod take;
mod trouble;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::store::Store;
use turntree::workspace::{Claim, database_path, make_database};

pub(super) use claim::claim;
pub(super) use find::{Candidate, Wanted};
pub(super) use trouble::Trouble;

/// The name of its file.
const NAME: &str = "search";

/// Says in the file that it is an index of ours, and its version: another one is made again.
const APPLICATION: i32 = 0x7454_7365;
const VERSION: i32 = 3;

/// The time that is waited for another process that fills the same index.
const PATIENCE: Duration = Duration::from_secs(60);

const CACHE_KIBIBYTES: i32 = 16 << 10;

/// Tables of an index. Numbers stand for texts in `names`, lists of tools in `tools`; a key that is a
/// number is minus one less than that.
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
    CREATE TABLE segments (id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
    CREATE TABLE blocks (id INTEGER PRIMARY KEY, postings BLOB NOT NULL);
    CREATE TABLE first_words (segment INTEGER NOT NULL, word BLOB NOT NULL, block INTEGER NOT NULL,
        PRIMARY KEY (segment, word)) WITHOUT ROWID;";

/// Facts about the whole index.
const STORE: &str = "store";
const TIPS: &str = "tips";
const EPOCH: &str = "epoch";
const DOCUMENTS: &str = "documents";
const WORDS: &str = "words";
const NEWEST: &str = "newest";

type Attempt<T> = Result<T, Trouble>;

/// An index, open.
#[derive(Debug)]
pub(super) struct Index {
    connection: Connection,
}

impl Index {
    /// Opens the index beside the store; nothing when none was made.
    pub(super) fn open(store: &Store) -> Attempt<Option<Self>> {
        let path = database_path(store, NAME);
        // One in a store of somebody else is theirs, too.
        if store.keeps_no_caches() || !path.exists() {
            return Ok(None);
        }
        let index = Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if index.pragma("user_version")? == 0 { Ok(None) } else { index.checked(store).map(Some) }
    }

    /// Opens the index beside the store, or makes an empty one, which takes the claim: of two that make
    /// the same file one is refused.
    pub(super) fn open_or_make(store: &Store, _: &Claim) -> Attempt<Self> {
        let path = make_database(store, NAME).map_err(|error| Trouble::refused(error.message()))?;
        Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?.made(store)?.checked(store)
    }

    /// Opens the index beside the store to read it as it is.
    pub(super) fn open_to_read(store: &Store) -> Attempt<Self> {
        if store.keeps_no_caches() {
            return Err(Trouble::refused("nothing is kept beside this store"));
        }
        let path = database_path(store, NAME);
        Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?.checked(store)
    }

    /// Makes an empty index in memory.
    pub(super) fn in_memory(store: &Store) -> Attempt<Self> {
        let connection = Connection::open_in_memory()?;
        Self::of(connection)?.made(store)?.checked(store)
    }

    /// Removes the index beside the store: the next one is made from the objects. Whoever has it open
    /// goes on with what it was.
    pub(super) fn remove(store: &Store) {
        if store.keeps_no_caches() {
            return;
        }
        let path = database_path(store, NAME);
        // The journal last: a database that lost it may be damaged without a sign.
        for path in [&path, &journal_of(&path)] {
            // What cannot be removed is refused again when it is opened.
            let _ = fs::remove_file(path);
        }
    }

    fn connect(path: &Path, access: OpenFlags) -> Attempt<Self> {
        let refused = |error: std::io::Error| Trouble::refused(&error.to_string());
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Trouble::refused("it has no folder"));
        };
        // Links on the way to the store are its owner's; the file itself is none.
        let path = fs::canonicalize(folder).map_err(refused)?.join(name);
        // The library would wait for the other end of a pipe.
        for path in [&path, &journal_of(&path)] {
            if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
                return Err(Trouble::refused("it is no regular file"));
            }
        }
        let how = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        Self::of(Connection::open_with_flags(path, access | how)?)
    }

    fn of(connection: Connection) -> Attempt<Self> {
        for (config, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        ] {
            connection.set_db_config(config, on)?;
        }
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIBIBYTES)?;
        // Else parts of it would lie in a folder for everybody while it is sorted.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(Self { connection })
    }

    /// Makes the tables of an empty file.
    fn made(self, store: &Store) -> Attempt<Self> {
        if self.pragma("user_version")? == 0 && !self.connection.is_readonly("main")? {
            // Has a meaning only before the first table is made.
            self.connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            let change = self.begin()?;
            let tables = "SELECT count(*) FROM sqlite_schema";
            // Another process may have been faster.
            if change.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
                change.execute_batch(SCHEMA)?;
                change.pragma_update(None, "application_id", APPLICATION)?;
                change.pragma_update(None, "user_version", VERSION)?;
                set(&change, STORE, store.id().as_slice())?;
            }
            change.commit()?;
        }
        Ok(self)
    }

    /// Refuses one of another version or store.
    fn checked(self, store: &Store) -> Attempt<Self> {
        let is_ours = (self.pragma("application_id")?, self.pragma("user_version")?)
            == (APPLICATION, VERSION)
            && self.fact::<Vec<u8>>(STORE)?.is_some_and(|id| id == store.id());
        if !is_ours {
            return Err(Trouble::Damaged);
        }
        Ok(self)
    }

    fn pragma(&self, name: &str) -> Attempt<i32> {
        Ok(self.connection.pragma_query_value(None, name, |row| row.get(0))?)
    }

    /// A change, which nobody else makes at the same time.
    fn begin(&self) -> Attempt<Transaction<'_>> {
        let behavior = TransactionBehavior::Immediate;
        Ok(Transaction::new_unchecked(&self.connection, behavior)?)
    }

    fn fact<T: rusqlite::types::FromSql>(&self, name: &str) -> Attempt<Option<T>> {
        let query = "SELECT value FROM facts WHERE name = ?1";
        Ok(self.connection.query_row(query, [name], |row| row.get(0)).optional()?)
    }

    /// A fact that is a number; 0 when it was never set.
    fn number(&self, name: &str) -> Attempt<i64> {
        Ok(self.fact(name)?.unwrap_or_default())
    }

    /// Returns whether it has what the store has now.
    pub(super) fn is_current(&self, repo: &Repository) -> Attempt<bool> {
        let epoch = self.fact::<i64>(EPOCH)?;
        Ok(epoch == Some(repo.store().epoch().cast_signed())
            && self.fact::<Vec<u8>>(TIPS)?.is_some_and(|known| known == tip_bytes(&tips(repo))))
    }
}

/// The file in which SQLite keeps what a change replaces.
fn journal_of(path: &Path) -> PathBuf {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    journal.into()
}

fn set(connection: &Connection, name: &str, value: impl rusqlite::ToSql) -> Attempt<()> {
    let change = "INSERT INTO facts VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
    connection.execute(change, params![name, value])?;
    Ok(())
}

/// The tips of all branches, each once, in their order.
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

/// Texts by their numbers in a table, and the other way round, each read once.
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

    /// The number of a text, if it has one.
    fn find(&mut self, text: &str) -> Attempt<Option<i64>> {
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

    /// The number of a text, which gets one if it has none.
    fn number(&mut self, text: &str) -> Attempt<i64> {
        if let Some(number) = self.find(text)? {
            return Ok(number);
        }
        let insert = format!("INSERT INTO {} (name) VALUES (?1)", self.table);
        self.connection.execute(&insert, [text])?;
        let number = self.connection.last_insert_rowid();
        self.numbers.insert(text.to_owned(), number);
        Ok(number)
    }

    /// The text of a number.
    fn text(&mut self, number: i64) -> Attempt<String> {
        if let Some(text) = self.texts.get(&number) {
            return Ok(text.clone());
        }
        let query = format!("SELECT name FROM {} WHERE id = ?1", self.table);
        let text: String = self.connection.query_row(&query, [number], |row| row.get(0))?;
        self.texts.insert(number, text.clone());
        Ok(text)
    }

    /// The number of a key: of its text, or of what it counts.
    fn key_number(&mut self, key: &str) -> Attempt<i64> {
        match key.parse::<u32>() {
            Ok(index) if index.to_string() == key => Ok(-1 - i64::from(index)),
            _ => self.number(key),
        }
    }

    /// The key of a number.
    fn key(&mut self, number: i64) -> Attempt<String> {
        if number < 0 { Ok((-1 - number).to_string()) } else { self.text(number) }
    }
}
