//! Sessions in the database of opencode: rows of sessions, messages and parts, values as JSON in them.
//!
//! ```text
//! session  id, ..., time_created, time_updated      what the session is, one column a fact
//! message  id, session_id, time_created, data       data: the message without its ids
//! part     id, message_id, session_id, data         data: the part without its ids
//! ```
//!
//! Columns differ between versions, so a query names only those that exist. opencode may be
//! writing: a read during which it moved pages is repeated.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use turntree::error::{Error, ErrorKind, Result};

use super::document::{Members, Parts};
use super::{AGENT, opencode_format};
use crate::agents::found::{FoundSession, HeldSessions};
use crate::agents::name::session_name;
use crate::text::sqlite::{Cell, Database, Image, Row, quoted};

/// Most sessions in a database.
const MAX_SESSIONS: usize = 100_000;

/// Most messages, and most parts, of a session.
const MAX_ROWS: usize = 250_000;

/// Longest id, in bytes.
const MAX_ID_BYTES: usize = 128;

/// Attempts to read a database from the beginning when opencode is faster.
const ATTEMPTS: usize = 5;

/// The tables and columns that make a database one of opencode.
const NEEDED: [(&str, &[&str]); 3] = [
    ("session", &["id"]),
    ("message", &["id", "session_id", "data"]),
    ("part", &["id", "message_id", "session_id", "data"]),
];

/// Returns the sessions with messages in the database at `path`; `None` if it is no database of
/// opencode. Writes nothing, neither to the database nor next to it.
///
/// Cost: a read of all rows, without long texts. Memory: some bytes for each session.
///
/// # Errors
/// `InvalidInput` for a damaged database or an unknown schema, `LimitExceeded` for more than
/// 100,000 sessions, `Conflict` when another process writes to it during every attempt.
pub(super) fn sessions(path: &Path) -> Result<Option<HeldSessions>> {
    let mut attempt = list(path);
    for _ in 1..ATTEMPTS {
        match attempt {
            Err(error) if error.kind() == ErrorKind::Conflict => attempt = list(path),
            done => return done,
        }
    }
    attempt
}

fn list(path: &Path) -> Result<Option<HeldSessions>> {
    let image = Arc::new(Image::of_file(path)?);
    let listed = Database::open(&image).and_then(|database| {
        if !is_of_opencode(&database)? {
            return Ok(None);
        }
        let bytes = bytes_of_sessions(&database)?;
        let sessions = described(&database, path, &bytes)?;
        let odd = others(&database, &bytes)?;
        Ok(Some(HeldSessions { sessions, odd }))
    });
    believed(&image, listed)
}

/// Returns the result of reading `image`, unless the database changed during the read.
fn believed<T>(image: &Image, read: Result<T>) -> Result<T> {
    match image.is_intact() {
        true => read,
        false => {
            let message = "opencode is writing to the database all the time: adopt it again later";
            Err(Error::new(ErrorKind::Conflict, message))
        }
    }
}

/// Returns true if it has the tables of opencode.
fn is_of_opencode(database: &Database) -> Result<bool> {
    let mut missing = None;
    for (table, needed) in NEEDED {
        let columns = database.columns(table)?;
        if columns.is_empty() {
            return Ok(false);
        }
        let lacks = |name: &&&str| !columns.iter().any(|column| column == **name);
        missing = missing.or(needed.iter().find(lacks).map(|name| (table, name)));
    }
    match missing {
        None => Ok(true),
        Some((table, name)) => {
            let message =
                format!("the table {table} has no column {name}: expected one of opencode");
            Err(Error::invalid(message))
        }
    }
}

/// The bytes of the messages and parts of each session that has messages.
fn bytes_of_sessions(database: &Database) -> Result<HashMap<String, u64>> {
    let mut bytes: HashMap<String, u64> = HashMap::new();
    for table in ["message", "part"] {
        let query = format!("SELECT session_id, octet_length(data) FROM {table}");
        database.each(&query, &[], &format!("read the table {table}"), &mut |row| {
            let Some(session) = id(row, 0)? else { return Ok(()) };
            let more = match row.cell(1)? {
                Cell::Integer(bytes) => u64::try_from(bytes).unwrap_or(0),
                _ => 0,
            };
            match bytes.get_mut(session) {
                Some(sum) => *sum = sum.saturating_add(more),
                None if table == "message" => {
                    check_count("sessions in the database", MAX_SESSIONS, bytes.len())?;
                    bytes.insert(session.to_owned(), more);
                }
                None => {}
            }
            Ok(())
        })?;
    }
    Ok(bytes)
}

/// The sessions that have messages, as they are found.
fn described(
    database: &Database,
    path: &Path,
    bytes: &HashMap<String, u64>,
) -> Result<Vec<FoundSession>> {
    let has_time = database.columns("session")?.iter().any(|column| column == "time_updated");
    let time = if has_time { "time_updated" } else { "NULL" };
    let query = format!("SELECT id, {time} FROM session");
    let (mut sessions, format) = (Vec::new(), opencode_format()?);
    database.each(&query, &[], "read the table session", &mut |row| {
        let Some((id, bytes)) = id(row, 0)?.and_then(|id| Some((id, *bytes.get(id)?))) else {
            return Ok(());
        };
        check_count("sessions in the database", MAX_SESSIONS, sessions.len())?;
        let millis = match row.cell(1)? {
            Cell::Integer(millis) => u64::try_from(millis).unwrap_or(0),
            _ => 0,
        };
        let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis));
        sessions.push(FoundSession {
            agent: AGENT.to_owned(),
            path: path.to_owned(),
            entry: Some(id.to_owned()),
            format,
            session: session_name(Path::new(&format!("{id}.json"))),
            bytes,
            modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
        });
        Ok(())
    })?;
    Ok(sessions)
}

/// Describes sessions that only another table has.
fn others(database: &Database, known: &HashMap<String, u64>) -> Result<Option<Error>> {
    const TABLE: &str = "session_message";
    if !database.columns(TABLE)?.iter().any(|column| column == "session_id") {
        return Ok(None);
    }
    let mut others = HashSet::new();
    let query = format!("SELECT session_id FROM {TABLE}");
    database.each(&query, &[], &format!("read the table {TABLE}"), &mut |row| {
        if let Some(id) = id(row, 0)?.filter(|id| !known.contains_key(*id)) {
            check_count("sessions in the database", MAX_SESSIONS, others.len())?;
            others.insert(id.to_owned());
        }
        Ok(())
    })?;
    let message =
        |count| format!("only the table {TABLE} has {count} of the sessions: it is not read");
    let count = Some(others.len()).filter(|count| *count > 0);
    Ok(count.map(|count| Error::new(ErrorKind::Unsupported, message(count))))
}

/// Returns an id in a row; `None` for any other value.
fn id<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>> {
    Ok(match row.cell(column)? {
        Cell::Text(id) if id.len() <= MAX_ID_BYTES => Some(id),
        _ => None,
    })
}

fn check_count(what: &str, most: usize, count: usize) -> Result<()> {
    match count < most {
        true => Ok(()),
        false => Err(Error::limit(what, most as u64, count as u64 + 1)),
    }
}

/// The databases that are open, each once for all its sessions.
#[derive(Debug, Default)]
pub(super) struct OpenDatabases {
    open: Mutex<BTreeMap<PathBuf, Arc<Image>>>,
}

impl OpenDatabases {
    /// The session `id` of the database at `path`, as it is now.
    pub(super) fn session(&self, path: &Path, id: &str) -> Result<Box<dyn Parts>> {
        let image = self.image(path)?;
        let rows = Rows::read(&image, id);
        Ok(Box::new(believed(&image, rows)?))
    }

    fn image(&self, path: &Path) -> Result<Arc<Image>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = open.get(path).filter(|image| image.is_current()) {
            return Ok(Arc::clone(image));
        }
        let image = Arc::new(Image::of_file(path)?);
        open.insert(path.to_owned(), Arc::clone(&image));
        Ok(image)
    }
}

/// A session in a database: where its rows are.
struct Rows {
    image: Arc<Image>,
    database: Database,
    id: String,
    /// By time and id.
    messages: Vec<(i64, String, i64)>,
    /// By the place of the message, and by id.
    parts: Vec<(usize, String, i64)>,
}

impl Rows {
    fn read(image: &Arc<Image>, session: &str) -> Result<Self> {
        let database = Database::open(image)?;
        let messages = messages(&database, session)?;
        let parts = parts(&database, session, &messages)?;
        let (image, id) = (Arc::clone(image), session.to_owned());
        Ok(Self { image, database, id, messages, parts })
    }

    /// Returns the value in the row of a table. `place` names its owner in errors.
    fn data(&self, table: &str, row_id: i64, place: &str) -> Result<Members> {
        let query = format!("SELECT data FROM {table} WHERE rowid = ?1");
        let mut data = None;
        self.database.each(&query, &[Cell::Integer(row_id)], place, &mut |row| {
            data = Some(match row.cell(0)? {
                Cell::Text(json) => Members::read(json.as_bytes(), place)?,
                _ => return Err(Error::invalid(format!("{place}: expected JSON"))),
            });
            Ok(())
        })?;
        data.ok_or_else(|| {
            Error::invalid(format!("{place}: the row is missing: the index is damaged"))
        })
    }

    fn info_members(&self) -> Result<Members> {
        let columns = self.database.columns("session")?;
        let listed: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        let query = format!("SELECT {} FROM session WHERE id = ?1", listed.join(", "));
        let mut facts = None;
        self.database.each(&query, &[Cell::Text(&self.id)], "read the session", &mut |row| {
            let values = columns.iter().enumerate().map(|(at, name)| Ok((&**name, fact(row, at)?)));
            facts = Some(info(&values.collect::<Result<_>>()?));
            Ok(())
        })?;
        facts.ok_or_else(|| Error::invalid("the session was deleted"))
    }

    fn message_members(&self, at: usize) -> Result<(Members, Vec<Members>)> {
        let Some((_, message, row_id)) = self.messages.get(at) else {
            return Ok((Members::default(), Vec::new()));
        };
        let place = format!("message {}", at + 1);
        let mut info = self.data("message", *row_id, &place)?;
        info.put_text("id", message);
        info.put_text("sessionID", &self.id);
        let first = self.parts.partition_point(|(of, ..)| *of < at);
        let rest = self.parts.get(first..).unwrap_or_default();
        let of_message = rest.iter().take_while(|(of, ..)| *of == at).enumerate();
        let part = |(number, (_, id, row_id)): (usize, &(usize, String, i64))| {
            let mut part = self.data("part", *row_id, &format!("{place}, part {}", number + 1))?;
            part.put_text("id", id);
            part.put_text("sessionID", &self.id);
            part.put_text("messageID", message);
            Ok(part)
        };
        Ok((info, of_message.map(part).collect::<Result<_>>()?))
    }
}

impl Parts for Rows {
    fn info(&mut self) -> Result<Members> {
        believed(&self.image, self.info_members())
    }

    fn messages(&self) -> usize {
        self.messages.len()
    }

    fn message(&mut self, at: usize) -> Result<(Members, Vec<Members>)> {
        // Rows on pages that opencode moved during the read may look damaged.
        self.message_members(at).or_else(|error| believed(&self.image, Err(error)))
    }

    fn finish(&mut self) -> Result<()> {
        believed(&self.image, Ok(()))
    }
}

/// The messages of a session: time, id and row, in order.
fn messages(database: &Database, session: &str) -> Result<Vec<(i64, String, i64)>> {
    let has_time = database.columns("message")?.iter().any(|column| column == "time_created");
    let time = if has_time { "time_created" } else { "NULL" };
    let query = format!("SELECT rowid, id, {time} FROM message WHERE session_id = ?1");
    let mut messages = Vec::new();
    database.each(&query, &[Cell::Text(session)], "read the messages", &mut |row| {
        if let (Cell::Integer(row_id), Some(id)) = (row.cell(0)?, id(row, 1)?) {
            check_count("messages of the session", MAX_ROWS, messages.len())?;
            let time = match row.cell(2)? {
                Cell::Integer(time) => time,
                _ => 0,
            };
            messages.push((time, id.to_owned(), row_id));
        }
        Ok(())
    })?;
    messages.sort_unstable();
    Ok(messages)
}

/// The parts of a session: the place of their message, id and row, in order.
fn parts(
    database: &Database,
    session: &str,
    messages: &[(i64, String, i64)],
) -> Result<Vec<(usize, String, i64)>> {
    let places = messages.iter().enumerate().map(|(at, (_, id, _))| (id.as_str(), at));
    let places: HashMap<&str, usize> = places.collect();
    let query = "SELECT rowid, id, message_id FROM part WHERE session_id = ?1";
    let mut parts = Vec::new();
    database.each(query, &[Cell::Text(session)], "read the parts", &mut |row| {
        let place = id(row, 2)?.and_then(|message| places.get(message));
        if let (Cell::Integer(row_id), Some(id), Some(place)) = (row.cell(0)?, id(row, 1)?, place) {
            check_count("parts of the session", MAX_ROWS, parts.len())?;
            parts.push((*place, id.to_owned(), row_id));
        }
        Ok(())
    })?;
    parts.sort_unstable();
    Ok(parts)
}

/// Returns the facts of a session, with the names and in the order of the export.
fn info(facts: &BTreeMap<&str, Value>) -> Members {
    let mut info = Members::default();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            info.put(name, value.to_string().into_bytes());
        }
    };
    let fact = |name: &str| facts.get(name).filter(|value| !value.is_null()).cloned();
    let inner = |name: &str| {
        let value = fact(name)?;
        let json = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        Some(json.unwrap_or(value))
    };
    for (name, column) in [
        ("id", "id"),
        ("slug", "slug"),
        ("projectID", "project_id"),
        ("workspaceID", "workspace_id"),
        ("directory", "directory"),
        ("path", "path"),
        ("parentID", "parent_id"),
        ("title", "title"),
        ("agent", "agent"),
    ] {
        put(name, fact(column));
    }
    put("model", inner("model"));
    put("version", fact("version"));
    put("summary", summary(&fact, inner("summary_diffs")));
    put("cost", fact("cost"));
    put("tokens", tokens(&fact));
    put("share", fact("share_url").map(|url| serde_json::json!({ "url": url })));
    for name in ["metadata", "revert", "permission", "goal"] {
        put(name, inner(name));
    }
    let times = ["created", "updated", "compacting", "archived"];
    let times = times.map(|name| (name, fact(&format!("time_{name}"))));
    put("time", object(times));
    info
}

/// Lines that the session changed, once there are some.
fn summary(fact: &dyn Fn(&str) -> Option<Value>, diffs: Option<Value>) -> Option<Value> {
    let names = ["additions", "deletions", "files"];
    let counts = names.map(|name| (name, fact(&format!("summary_{name}"))));
    if counts.iter().all(|(_, count)| count.is_none()) {
        return None;
    }
    let counts = counts.map(|(name, count)| (name, count.or(Some(0.into()))));
    object(counts.into_iter().chain([("diffs", diffs)]))
}

fn tokens(fact: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    let count = |name| (name, fact(&format!("tokens_{name}")));
    let cache = ["read", "write"].map(|name| (name, fact(&format!("tokens_cache_{name}"))));
    let tokens = [count("input"), count("output"), count("reasoning"), ("cache", object(cache))];
    object(tokens)
}

/// Returns an object of the members with a value; `None` if there are none.
fn object<'n>(members: impl IntoIterator<Item = (&'n str, Option<Value>)>) -> Option<Value> {
    let there = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let object: serde_json::Map<String, Value> = there.collect();
    (!object.is_empty()).then_some(Value::Object(object))
}

/// Returns a value in the row of a session. Whole numbers have no decimal point, as in JavaScript.
fn fact(row: &Row<'_>, column: usize) -> Result<Value> {
    const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;
    Ok(match row.cell(column)? {
        Cell::Null | Cell::Bytes => Value::Null,
        Cell::Integer(number) => number.into(),
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and fits")]
        Cell::Real(number) if number.fract() == 0.0 && number.abs() < MAX_WHOLE => {
            (number as i64).into()
        }
        Cell::Real(number) => number.into(),
        Cell::Text(text) => text.into(),
    })
}
