//! The databases of v0.1: `designs.db`, and what its migration left as `designs.db.v0.1.backup`.
//!
//! A database is read from its bytes into memory and never from its place, so nothing is written beside
//! it. Its rows become a design store as later versions write it, which is checked as such; chats,
//! comments and files, for which that has no place, are added. The bytes are hostile: views, triggers,
//! virtual tables and computed columns are not run, and neither rows nor steps grow without limit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use serde_json::{Map, Value};

use super::archive::{Archive, Chat, Design};
use super::chat::{Turns, view};
use super::path::design_path;
use super::{archive, document, wal};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::json::{self, is_too_deep};

/// Most bytes of a value, and of a row.
const MAX_ROW_BYTES: i32 = 64 << 20;

/// Longest statement of a schema, in bytes.
const MAX_SQL_BYTES: i32 = 1 << 20;

/// Steps of the machine that a query may take, at least, and more for each byte of the database.
const MIN_STEPS: u64 = 20_000_000;
const STEPS_PER_BYTE: u64 = 2;
const STEPS_AT_A_TIME: i32 = 10_000;

/// Where the header says how large a database is.
const PAGE_BYTES_AT: usize = 16;
const VERSIONS_AT: std::ops::Range<usize> = 18..20;
const CHANGES_AT: usize = 24;
const PAGES_AT: usize = 28;
const VALID_FOR_AT: usize = 92;
const HEADER_BYTES: usize = 100;

/// The version of a database without a log.
const ROLLBACK_VERSION: u8 = 1;

/// Reads a database with what the log beside it has committed.
///
/// # Errors
/// `InvalidInput` for what is damaged, cut off or no design store, with the place of a wrong value;
/// `LimitExceeded` for a row over 64 MiB.
pub(super) fn read(file: Bytes, log: Option<Bytes>) -> Result<Archive> {
    let mut image = match &log {
        Some(log) => wal::apply(&file, log)?,
        None => file.to_vec(),
    };
    check_length(&image)?;
    // A database in memory has no log: without this, SQLite looks for one.
    if let Some(versions) = image.get_mut(VERSIONS_AT) {
        versions.fill(ROLLBACK_VERSION);
    }
    let database = Database::open(image)?;
    let mut archive = database.store()?;
    database.add_chats(&mut archive)?;
    for row in database.rows("db_meta")? {
        if let (Some(key), Some(value)) = (text(&row, "key"), text(&row, "value")) {
            archive.facts.push((key.to_owned(), Bytes::copy_from_slice(value.as_bytes())));
        }
    }
    // Places in the store that it became say nothing about the file.
    archive.records.clear();
    archive.notes.iter_mut().for_each(|(at, _)| *at = 0);
    archive.designs.iter_mut().flat_map(|design| &mut design.versions).for_each(|v| v.at = 0);
    archive.source = Some(file);
    archive.log = log;
    Ok(archive)
}

/// Refuses a database that ends before its last page.
fn check_length(image: &[u8]) -> Result<()> {
    let found = image.len();
    let number = |at: usize| {
        let word = image.get(at..at + 4)?;
        Some(u32::from_be_bytes(word.try_into().ok()?))
    };
    let page = image.get(PAGE_BYTES_AT..PAGE_BYTES_AT + 2);
    let page = page.and_then(|page| Some(u16::from_be_bytes(page.try_into().ok()?)));
    let (Some(page), Some(pages)) = (page.filter(|_| found >= HEADER_BYTES), number(PAGES_AT))
    else {
        let message = format!(
            "the database is cut off: expected {HEADER_BYTES} bytes or more, found {found}"
        );
        return Err(Error::invalid(message));
    };
    let page_bytes = if page == 1 { 65536 } else { u64::from(page) };
    let expected = u64::from(pages) * page_bytes;
    let is_told = number(CHANGES_AT) == number(VALID_FOR_AT) && pages > 0;
    if is_told && (found as u64) < expected {
        let message = format!("the database is cut off: expected {expected} bytes, found {found}");
        return Err(Error::invalid(message));
    }
    Ok(())
}

struct Database {
    connection: Connection,
}

type Row = Map<String, Value>;

impl Database {
    fn open(image: Vec<u8>) -> Result<Self> {
        let failed = |error| refused("open the database", &error);
        let mut connection = Connection::open_in_memory().map_err(failed)?;
        let len = image.len();
        connection.deserialize_read_exact("main", image.as_slice(), len, true).map_err(failed)?;
        drop(image);
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
        let allowed = MIN_STEPS.saturating_add(len as u64 * STEPS_PER_BYTE);
        let taken = AtomicU64::new(0);
        let stop = move || {
            let step = STEPS_AT_A_TIME.unsigned_abs();
            taken.fetch_add(u64::from(step), Ordering::Relaxed) > allowed
        };
        connection.progress_handler(STEPS_AT_A_TIME, Some(stop)).map_err(failed)?;
        let database = Self { connection };
        database.check()?;
        Ok(database)
    }

    /// Refuses what is damaged, and what a design store does not have.
    fn check(&self) -> Result<()> {
        let failed = |error| refused("read the schema", &error);
        let foreign: i64 = self
            .connection
            .query_row(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage = 0",
                [],
                |row| row.get(0),
            )
            .map_err(failed)?;
        if foreign > 0 {
            let message = "the database has a virtual table: expected one of open-codesign v0.1";
            return Err(Error::invalid(message));
        }
        if self.columns("designs")?.is_empty() {
            let message = "the database has no table 'designs': expected one of open-codesign v0.1";
            return Err(Error::invalid(message));
        }
        let found: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| refused("check the database", &error))?;
        if found == "ok" {
            return Ok(());
        }
        // What SQLite found may quote names of the schema, and these are anybody's.
        Err(Error::invalid("the database is damaged: its pages do not fit together"))
    }

    /// The columns of a table; none when there is no such table.
    fn columns(&self, table: &str) -> Result<Vec<String>> {
        let failed = |error| refused("read the schema", &error);
        let is_table = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let count: i64 =
            self.connection.query_row(is_table, [table], |row| row.get(0)).map_err(failed)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut statement = self
            .connection
            .prepare("SELECT name, hidden FROM pragma_table_xinfo(?1) ORDER BY cid")
            .map_err(failed)?;
        let mut rows = statement.query([table]).map_err(failed)?;
        let mut names = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            // A computed column could say anything, at any cost.
            if row.get::<_, i64>(1).map_err(failed)? == 0 {
                names.push(row.get::<_, String>(0).map_err(failed)?);
            }
        }
        Ok(names)
    }

    /// The rows of a table in the order in which they came, with names as in a store: `designId`.
    fn rows(&self, table: &str) -> Result<Vec<Row>> {
        let columns = self.columns(table)?;
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let quoted: Vec<String> =
            columns.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
        let query = format!("SELECT {} FROM \"{table}\"", quoted.join(", "));
        let failed = |error| refused(&format!("read the table {table}"), &error);
        let mut statement = self.connection.prepare(&query).map_err(failed)?;
        let mut found = statement.query([]).map_err(failed)?;
        let names: Vec<String> = columns.iter().map(|name| camel_case(name)).collect();
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(failed)? {
            let mut values = Row::new();
            for (index, name) in names.iter().enumerate() {
                let value = row.get_ref(index).map_err(failed)?;
                let value = value_of(value).ok_or_else(|| {
                    let place = format!("{table}, row {}, {name}", rows.len() + 1);
                    Error::invalid(format!("{place}: expected text, found bytes that are none"))
                })?;
                values.insert(name.clone(), value);
            }
            rows.push(values);
        }
        Ok(rows)
    }

    /// What later versions keep, as they would.
    fn store(&self) -> Result<Archive> {
        const DESIGN: &[&str] = &["schemaVersion", "id", "name", "createdAt", "updatedAt"];
        const SNAPSHOT: &[&str] = &[
            "schemaVersion",
            "id",
            "designId",
            "parentId",
            "type",
            "prompt",
            "artifactType",
            "artifactSource",
            "createdAt",
        ];
        let designs: Vec<Row> =
            self.rows("designs")?.into_iter().map(|row| in_order(row, DESIGN)).collect();
        let mut snapshots = Vec::new();
        for row in self.rows("design_snapshots")? {
            let mut row = in_order(row, SNAPSHOT);
            row.retain(|name, value| name != "message" || !value.is_null());
            snapshots.push(row);
        }
        let mut events = Vec::new();
        for mut row in self.rows("diagnostic_events")? {
            if let Some(context) = row.shift_remove("contextJson") {
                row.insert("context".into(), inner_json(context));
            }
            if let Some(transient) = row.get_mut("transient")
                && let Some(number) = transient.as_i64()
            {
                *transient = Value::Bool(number != 0);
            }
            row.retain(|_, value| !value.is_null());
            events.push(row);
        }
        let store = serde_json::json!({
            "schemaVersion": 1, "designs": designs, "snapshots": snapshots, "diagnosticEvents": events,
        });
        document::read(&Bytes::from(store.to_string()))
    }

    fn add_chats(&self, archive: &mut Archive) -> Result<()> {
        let mut adding = Adding::new(archive);
        let mut chats: HashMap<usize, Vec<Row>> = HashMap::new();
        for mut row in self.rows("chat_messages")? {
            if let Some(payload) = row.get_mut("payload") {
                *payload = inner_json(payload.take());
            }
            chats.entry(adding.place(&row)).or_default().push(row);
        }
        let mut old: HashMap<usize, Vec<Row>> = HashMap::new();
        for row in self.rows("design_messages")? {
            old.entry(adding.place(&row)).or_default().push(row);
        }
        for mut row in self.rows("comments")? {
            if let Some(rect) = row.get_mut("rect") {
                *rect = inner_json(rect.take());
            }
            let (at, id) = (adding.place(&row), text(&row, "id").unwrap_or_default().to_owned());
            if let Some(design) = adding.archive.designs.get_mut(at) {
                design.comments.push((id, Value::Object(row).to_string().into()));
            }
        }
        for row in self.rows("design_files")? {
            adding.file(&row);
        }
        for (at, design) in adding.archive.designs.iter_mut().enumerate() {
            add_chat(
                design,
                chats.remove(&at).unwrap_or_default(),
                old.remove(&at).unwrap_or_default(),
            );
        }
        Ok(())
    }
}

/// Gives a design its chat: the rows of today, or what there was before them.
fn add_chat(design: &mut Design, mut rows: Vec<Row>, mut old: Vec<Row>) {
    let number = |row: &Row, name: &str| row.get(name).and_then(Value::as_i64).unwrap_or(i64::MAX);
    rows.sort_by_key(|row| number(row, "seq"));
    old.sort_by_key(|row| number(row, "ordinal"));
    if rows.is_empty() {
        rows = old;
    } else {
        design.old_messages =
            old.into_iter().map(|row| Value::Object(row).to_string().into()).collect();
    }
    let mut turns = Turns::default();
    let rows = rows.into_iter().map(|row| said(&Value::Object(row), &mut turns)).collect();
    design.chat = Chat { origin: "database", rows, ..Chat::default() };
}

/// A row, as it becomes a message.
fn said(row: &Value, turns: &mut Turns) -> archive::Row {
    let view = view(row);
    archive::Row {
        bytes: Bytes::from(row.to_string()),
        role: view.role,
        time: row.get("createdAt").and_then(json::time),
        summary: view.summary(),
        snapshot: row.get("snapshotId").and_then(Value::as_str).map(str::to_owned),
        starts_turn: turns.begins(row),
    }
}

/// Rows on their way to their designs.
struct Adding<'a> {
    archive: &'a mut Archive,
    places: HashMap<String, usize>,
}

impl<'a> Adding<'a> {
    fn new(archive: &'a mut Archive) -> Self {
        let designs = archive.designs.iter().enumerate();
        let places = designs.map(|(at, design)| (design.id.clone(), at)).collect();
        Self { archive, places }
    }

    /// Where the design of a row is; one that is not there is made.
    fn place(&mut self, row: &Row) -> usize {
        let id = text(row, "designId").unwrap_or_default();
        if let Some(at) = self.places.get(id) {
            return *at;
        }
        let at = self.archive.designs.len();
        self.places.insert(id.to_owned(), at);
        self.archive.designs.push(Design { id: id.to_owned(), ..Design::default() });
        self.archive
            .notes
            .push((0, "rows name a design that is not there; they are kept".to_owned()));
        at
    }

    fn file(&mut self, row: &Row) {
        let at = self.place(row);
        let path = text(row, "path").map(design_path);
        let (Some(Ok(path)), Some(content)) = (path, text(row, "content")) else {
            let what = "design_files: a path that leads elsewhere, or no content; left out";
            self.archive.notes.push((0, what.to_owned()));
            return;
        };
        let content = Bytes::copy_from_slice(content.as_bytes());
        if let Some(design) = self.archive.designs.get_mut(at) {
            design.files.push((path, content));
        }
    }
}

fn text<'r>(row: &'r Row, name: &str) -> Option<&'r str> {
    row.get(name).and_then(Value::as_str)
}

/// `row` with the fields `first` in front, as later versions write them.
fn in_order(mut row: Row, first: &[&str]) -> Row {
    let mut ordered = Row::new();
    for name in first {
        if let Some(value) = row.shift_remove(*name) {
            ordered.insert((*name).to_owned(), value);
        }
    }
    ordered.extend(row);
    ordered
}

/// Text that is JSON as what it says, and other text as it is.
fn inner_json(value: Value) -> Value {
    let inner = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    // Around it there are a row, a section and a store, which a parser has to get through.
    let fits =
        inner.as_ref().is_some_and(|inner| !is_too_deep(format!("[[[[{inner}]]]]").as_bytes()));
    inner.filter(|_| fits).unwrap_or(value)
}

/// Nothing for bytes that are no text.
fn value_of(value: ValueRef<'_>) -> Option<Value> {
    Some(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.into(),
        ValueRef::Blob(_) => return None,
    })
}

/// `design_id` as `designId`.
fn camel_case(name: &str) -> String {
    let mut camel = String::new();
    let mut after_line = false;
    for c in name.chars() {
        match c {
            '_' if !camel.is_empty() => after_line = true,
            c if after_line => {
                camel.extend(c.to_uppercase());
                after_line = false;
            }
            c => camel.push(c),
        }
    }
    camel
}

/// What SQLite reports, as an error of ours. What it says may quote the database.
fn refused(action: &str, error: &rusqlite::Error) -> Error {
    let code = error.sqlite_error_code();
    match code {
        Some(ErrorCode::TooBig) => {
            let message = format!("{action}: a row has more than {MAX_ROW_BYTES} bytes");
            Error::new(ErrorKind::LimitExceeded, message)
        }
        Some(ErrorCode::OperationInterrupted) => {
            Error::invalid(format!("{action}: it takes more steps than a design store does"))
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            Error::invalid(format!("{action}: it is damaged"))
        }
        _ => Error::invalid(format!("{action}: SQLite refuses it ({})", code_name(code))),
    }
}

fn code_name(code: Option<ErrorCode>) -> String {
    code.map_or_else(|| "no code".to_owned(), |code| format!("{code:?}"))
}
