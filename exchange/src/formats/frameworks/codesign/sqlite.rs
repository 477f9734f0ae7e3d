//! The databases of v0.1: `designs.db`, and the file `designs.db.v0.1.backup` that its migration
//! left.
//!
//! A database is read from its bytes and never from its place, so nothing is written next to it.
//! Its rows become a design store as later versions write it, which is checked as such. Chats,
//! comments and files, for which such a store has no place, are added.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use turntree::error::{Error, Result};

use super::archive::{Archive, Chat, Design};
use super::chat::{Turns, view};
use super::path::design_path;
use super::{archive, document};
use crate::text::json::{self, is_too_deep};
use crate::text::sqlite::{Cell, Database, Image, quoted};

/// Reads a database, with the committed pages of the log next to it.
///
/// # Errors
/// `InvalidInput` for a file that is damaged, truncated or not a design store, with the place of a
/// wrong value; `LimitExceeded` for a row over 64 MiB.
pub(super) fn read(file: Bytes, log: Option<Bytes>) -> Result<Archive> {
    let image = Arc::new(Image::of_bytes(file.clone(), log.clone())?);
    let database = Designs::open(&image)?;
    let mut archive = database.store()?;
    database.add_chats(&mut archive)?;
    for row in database.rows("db_meta")? {
        if let (Some(key), Some(value)) = (text(&row, "key"), text(&row, "value")) {
            archive.facts.push((key.to_owned(), Bytes::copy_from_slice(value.as_bytes())));
        }
    }
    // Positions in the converted store do not apply to the file.
    archive.records.clear();
    archive.notes.iter_mut().for_each(|(at, _)| *at = 0);
    archive.designs.iter_mut().flat_map(|design| &mut design.versions).for_each(|v| v.at = 0);
    archive.source = Some(file);
    archive.log = log;
    Ok(archive)
}

struct Designs {
    database: Database,
}

type RowValues = Map<String, Value>;

impl Designs {
    /// Opens a database. Refuses damaged files and files that are not design stores.
    fn open(image: &Arc<Image>) -> Result<Self> {
        let database = Database::open(image)?;
        if database.columns("designs")?.is_empty() {
            let is_langgraph = database.columns("checkpoints")?.iter().any(|it| it == "thread_id");
            let message = if is_langgraph {
                "the database has checkpoints of LangGraph, whose values only Python reads: copy its \
                 threads with TurntreeSaver.copy_from of the Python package"
            } else {
                "the database has no table 'designs': expected one of open-codesign v0.1"
            };
            return Err(Error::invalid(message));
        }
        database.check()?;
        Ok(Self { database })
    }

    /// Returns the rows of a table in their stored order, with names as in a store: `designId`.
    fn rows(&self, table: &str) -> Result<Vec<RowValues>> {
        let columns = self.database.columns(table)?;
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let listed: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        let query = format!("SELECT {} FROM \"{table}\"", listed.join(", "));
        let names: Vec<String> = columns.iter().map(|name| camel_case(name)).collect();
        let mut rows = Vec::new();
        self.database.each(&query, &[], &format!("read the table {table}"), &mut |row| {
            let mut values = RowValues::new();
            for (index, name) in names.iter().enumerate() {
                let value = value_of(row.cell(index)?).ok_or_else(|| {
                    let place = format!("{table}, row {}, {name}", rows.len() + 1);
                    Error::invalid(format!("{place}: expected text, found invalid UTF-8"))
                })?;
                values.insert(name.clone(), value);
            }
            rows.push(values);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Reads the fields that later versions of the program store, in their form.
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
        let designs: Vec<RowValues> =
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
        let mut chats: HashMap<usize, Vec<RowValues>> = HashMap::new();
        for mut row in self.rows("chat_messages")? {
            if let Some(payload) = row.get_mut("payload") {
                *payload = inner_json(payload.take());
            }
            chats.entry(adding.place(&row)).or_default().push(row);
        }
        let mut old: HashMap<usize, Vec<RowValues>> = HashMap::new();
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

/// Adds the chat of a design: the rows of the current form, or those of the older one.
fn add_chat(design: &mut Design, mut rows: Vec<RowValues>, mut old: Vec<RowValues>) {
    let number =
        |row: &RowValues, name: &str| row.get(name).and_then(Value::as_i64).unwrap_or(i64::MAX);
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
fn said(row: &Value, turns: &mut Turns) -> archive::ChatRow {
    let view = view(row);
    archive::ChatRow {
        bytes: Bytes::from(row.to_string()),
        role: view.role,
        time: row.get("createdAt").and_then(json::time),
        summary: view.summary(),
        snapshot: row.get("snapshotId").and_then(Value::as_str).map(str::to_owned),
        starts_turn: turns.begins(row),
    }
}

/// Adds rows to their designs.
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

    /// Returns the index of the design of a row; one that is missing is made.
    fn place(&mut self, row: &RowValues) -> usize {
        let id = text(row, "designId").unwrap_or_default();
        if let Some(at) = self.places.get(id) {
            return *at;
        }
        let at = self.archive.designs.len();
        self.places.insert(id.to_owned(), at);
        self.archive.designs.push(Design { id: id.to_owned(), ..Design::default() });
        self.archive.notes.push((0, "rows name a missing design; they are kept".to_owned()));
        at
    }

    fn file(&mut self, row: &RowValues) {
        let at = self.place(row);
        let path = text(row, "path").map(design_path);
        let (Some(Ok(path)), Some(content)) = (path, text(row, "content")) else {
            let what = "design_files: a path that points outside, or no content; left out";
            self.archive.notes.push((0, what.to_owned()));
            return;
        };
        let content = Bytes::copy_from_slice(content.as_bytes());
        if let Some(design) = self.archive.designs.get_mut(at) {
            design.files.push((path, content));
        }
    }
}

fn text<'r>(row: &'r RowValues, name: &str) -> Option<&'r str> {
    row.get(name).and_then(Value::as_str)
}

/// Returns `row` with the fields `first` at the beginning, as later versions write them.
fn in_order(mut row: RowValues, first: &[&str]) -> RowValues {
    let mut ordered = RowValues::new();
    for name in first {
        if let Some(value) = row.shift_remove(*name) {
            ordered.insert((*name).to_owned(), value);
        }
    }
    ordered.extend(row);
    ordered
}

/// Returns the parsed value of a text that is JSON, and any other text unchanged.
fn inner_json(value: Value) -> Value {
    let inner = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    // The value is nested in a row, a section and a store, which a parser must be able to read.
    let fits =
        inner.as_ref().is_some_and(|inner| !is_too_deep(format!("[[[[{inner}]]]]").as_bytes()));
    inner.filter(|_| fits).unwrap_or(value)
}

/// Returns the value of a cell; `None` for bytes that are no text.
fn value_of(value: Cell<'_>) -> Option<Value> {
    Some(match value {
        Cell::Null => Value::Null,
        Cell::Integer(number) => number.into(),
        Cell::Real(number) => number.into(),
        Cell::Text(text) => text.into(),
        Cell::Bytes => return None,
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
