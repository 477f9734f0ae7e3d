//! Reads SQLite databases of other programs at one point in time, without writing.
//!
//! | file | job |
//! |---|---|
//! | `image` | the bytes of a database, from a file or memory, with its log |
//! | `log` | the commits in that log |
//! | `source` | bytes at any offset, in memory or in a file |
//! | `vfs` | gives SQLite the bytes, page by page |
//!
//! The bytes are untrusted: views, triggers, virtual tables and computed columns are not run, and
//! rows and steps are limited. Only this folder uses `rusqlite`.

mod image;
mod log;
mod source;
#[cfg(test)]
mod tests;
mod vfs;

use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, params_from_iter};

pub(crate) use image::Image;
use turntree::error::{Error, ErrorKind, Result};

/// Maximum size of a value, and of a row, in bytes.
const MAX_ROW_BYTES: i32 = 64 << 20;

/// Longest statement of a schema in bytes.
const MAX_SQL_BYTES: i32 = 1 << 20;

const STEPS_AT_A_TIME: i32 = 10_000;

/// Offsets in the database header: the page size, the change counter, the number of pages, and the
/// change counter for which that number is valid.
const PAGE_BYTES_AT: usize = 16;
const CHANGES_AT: usize = 24;
const PAGES_AT: usize = 28;
const VALID_FOR_AT: usize = 92;
const HEADER_BYTES: usize = 100;

/// A database that is open for reading.
#[derive(Debug)]
pub(crate) struct Database {
    connection: Connection,
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'r> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'r str),
    /// A blob, or text that is not UTF-8.
    Bytes,
}

/// A row of a result.
pub(crate) struct Row<'r> {
    row: &'r rusqlite::Row<'r>,
    place: &'r str,
}

impl Row<'_> {
    /// Returns the value in a column of the query, counted from 0.
    ///
    /// # Errors
    /// The errors of the query.
    pub(crate) fn cell(&self, column: usize) -> Result<Cell<'_>> {
        let value = self.row.get_ref(column).map_err(|error| refused(self.place, &error))?;
        Ok(match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Integer(number),
            ValueRef::Real(number) => Cell::Real(number),
            ValueRef::Text(text) => std::str::from_utf8(text).map_or(Cell::Bytes, Cell::Text),
            ValueRef::Blob(_) => Cell::Bytes,
        })
    }
}

impl Database {
    /// Opens `image`. Memory: the cache of SQLite, 2 MiB.
    ///
    /// # Errors
    /// `InvalidInput` for a truncated file, a file of another format, or a database with virtual
    /// tables.
    pub(crate) fn open(image: &Arc<Image>) -> Result<Self> {
        check_length(image)?;
        let failed = |error| refused("open the database", &error);
        let mut connection = vfs::open(image).map_err(failed)?;
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
        ] {
            connection.set_limit(limit, value).map_err(failed)?;
        }
        for (config, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        ] {
            connection.set_db_config(config, on).map_err(failed)?;
        }
        connection.pragma_update(None, "cell_size_check", true).map_err(failed)?;
        let steps = Arc::clone(image);
        let stop = move || !steps.take_steps(u64::from(STEPS_AT_A_TIME.unsigned_abs()));
        connection.progress_handler(STEPS_AT_A_TIME, Some(stop)).map_err(failed)?;
        let database = Self { connection };
        let mut foreign = false;
        let query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND rootpage = 0 LIMIT 1";
        database.each(query, &[], "read the schema", &mut |_| {
            foreign = true;
            Ok(())
        })?;
        match foreign {
            true => Err(Error::invalid("the database has a virtual table, which is not supported")),
            false => Ok(database),
        }
    }

    /// Checks the consistency of all pages. Cost: reads the whole database.
    ///
    /// # Errors
    /// `InvalidInput` if they are inconsistent.
    pub(crate) fn check(&self) -> Result<()> {
        let mut whole = false;
        self.each("PRAGMA quick_check(1)", &[], "check the database", &mut |row| {
            whole = row.cell(0)? == Cell::Text("ok");
            Ok(())
        })?;
        // The findings of SQLite may quote names of the schema, which are untrusted.
        let damaged = || Error::invalid("the database is damaged: its pages are inconsistent");
        whole.then_some(()).ok_or_else(damaged)
    }

    /// Returns the columns of a table, without computed ones. Empty if the table does not exist.
    ///
    /// # Errors
    /// The errors of [`Self::each`].
    pub(crate) fn columns(&self, table: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let query = "SELECT name, hidden FROM pragma_table_xinfo(?1) WHERE EXISTS
            (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1) ORDER BY cid";
        self.each(query, &[Cell::Text(table)], "read the schema", &mut |row| {
            // A computed column could return anything, at any cost.
            if let (Cell::Text(name), Cell::Integer(0)) = (row.cell(0)?, row.cell(1)?) {
                names.push(name.to_owned());
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// Calls `each` with each row of `query`. `place` describes the action, for errors.
    ///
    /// # Errors
    /// `InvalidInput` for damaged pages or too many steps, `LimitExceeded` for a row over 64 MiB,
    /// and the errors of `each`.
    pub(crate) fn each(
        &self,
        query: &str,
        parameters: &[Cell<'_>],
        place: &str,
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let failed = |error| refused(place, &error);
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let parameters = params_from_iter(parameters.iter().map(|cell| {
            ToSqlOutput::Borrowed(match cell {
                Cell::Null | Cell::Bytes => ValueRef::Null,
                Cell::Integer(number) => ValueRef::Integer(*number),
                Cell::Real(number) => ValueRef::Real(*number),
                Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            })
        }));
        let mut rows = statement.query(parameters).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(&Row { row, place })?;
        }
        Ok(())
    }
}

/// Quotes a name for a query.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Rejects a database that ends before its last page.
fn check_length(image: &Image) -> Result<()> {
    let mut header = [0; HEADER_BYTES];
    let read = image.read_at(0, &mut header);
    let read = read.map_err(|error| Error::io("read the database", error))?;
    let found = image.len();
    if read < HEADER_BYTES {
        let message = format!(
            "the database is cut off: expected {HEADER_BYTES} bytes or more, found {found}"
        );
        return Err(Error::invalid(message));
    }
    let word = |at: usize| {
        let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_be_bytes)
    };
    let page_bytes = match word(PAGE_BYTES_AT) >> 16 {
        1 => 65536,
        bytes => u64::from(bytes),
    };
    let expected = u64::from(word(PAGES_AT)) * page_bytes;
    let is_told = word(CHANGES_AT) == word(VALID_FOR_AT);
    if is_told && found < expected {
        let message = format!("the database is cut off: expected {expected} bytes, found {found}");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Converts an error of SQLite. Its text is dropped, because it may quote the database.
fn refused(action: &str, error: &rusqlite::Error) -> Error {
    let code = error.sqlite_error_code();
    match code {
        Some(ErrorCode::TooBig) => {
            let message = format!("{action}: a row has more than {MAX_ROW_BYTES} bytes");
            Error::new(ErrorKind::LimitExceeded, message)
        }
        Some(ErrorCode::OperationInterrupted) => {
            Error::invalid(format!("{action}: it takes more steps than a database of this size"))
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            Error::invalid(format!("{action}: it is damaged"))
        }
        Some(ErrorCode::SystemIoFailure) => {
            Error::invalid(format!("{action}: it cannot be read, or ends early"))
        }
        _ => Error::invalid(format!("{action}: SQLite refuses it ({})", code_name(code))),
    }
}

fn code_name(code: Option<ErrorCode>) -> String {
    code.map_or_else(|| "no code".to_owned(), |code| format!("{code:?}"))
}
