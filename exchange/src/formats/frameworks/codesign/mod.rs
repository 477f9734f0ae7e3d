//! open-codesign: its design store, the databases of v0.1, and the chats next to them.
//!
//! | file | job |
//! |---|---|
//! | `archive` | the content of a store, whichever file it came from |
//! | `document` | `design-store.json`, checked, with the place of everything wrong |
//! | `sqlite` | `designs.db` of v0.1, with the log next to it |
//! | `chat` | rows of a chat: their content, and where turns begin |
//! | `session` | `sessions/<design>.jsonl`, a transcript format |
//! | `order` | which snapshot comes after which |
//! | `known` | the parts of a design that the store has already |
//! | `told` | how much of a chat comes before a snapshot |
//! | `histories` | designs become sessions, snapshots commits |
//! | `folder` | a directory with a store and its chats |
//! | `export` | any sessions become a design store again |
//! | `export_chat` | the conversation of any session becomes a chat again |
//! | `path` | names of design files, as upstream takes them |
//!
//! The table of places is in `docs/reference/formats/open-codesign.md`.

mod archive;
mod chat;
mod chat_progress;
mod document;
mod export;
mod export_chat;
mod folder;
mod histories;
mod known_session;
mod order;
mod path;
mod session;
#[cfg(feature = "sqlite")]
mod sqlite;

use archive::Archive;
use bytes::Bytes;
use turntree::error::Result;
use turntree::repo::Repository;

use crate::model::format::{Format, FormatRank, FormatReader, ImportOptions, Records};
use crate::model::report::ImportReport;
use crate::text::shape::JsonShape;
use crate::text::unpack::DATABASE_MAGIC;

pub use export::export_designs;
pub use export_chat::export_chat;
pub use folder::{import_designs, is_stored};
pub use path::design_path;

/// The name of the format, and of its sections and facts.
pub(crate) const NAME: &str = "codesign";

/// The name of the format of chats.
const CHAT: &str = "codesign-session";

/// Facts in `meta`.
const META_DESIGN: &str = "codesign/design";
const META_ID: &str = "codesign/id";
const META_DELETED: &str = "codesign/deletedAt";
const META_OTHER: &str = "codesign/other";
const META_CHAT: &str = "codesign/chat";
const META_LOG: &str = "codesign/wal";
const META_DATABASE: &str = "codesign/database/";

/// Facts of a commit: which snapshot it is, and its position in the file.
const SNAPSHOT: &str = "codesign/snapshot";
const ORDER: &str = "codesign/order";

/// The format of stores.
pub(in crate::formats) const STORE: Format = Format {
    name: NAME,
    title: "open-codesign design store, or database of v0.1",
    rank: FormatRank::Program,
    recognise: is_store,
    view: chat::view,
    reader: FormatReader::Archive(import_store),
};

/// The format of chats.
pub(in crate::formats) const SESSION: Format = Format {
    name: CHAT,
    title: "open-codesign chat",
    rank: FormatRank::Dialect,
    recognise: session::is_chat,
    view: chat::view,
    reader: FormatReader::Records(Records::new(session::split, || {
        Box::<session::Chats>::default()
    })),
};

fn is_store(shape: &JsonShape<'_>) -> bool {
    !shape.is_array && shape.has("schemaVersion") && shape.has("designs")
}

/// Imports a store: every design becomes a session.
fn import_store(repo: &Repository, file: Bytes, options: &ImportOptions) -> Result<ImportReport> {
    let archive = read_store(file, None)?;
    histories::import_archives(repo, vec![archive], options)
}

/// Reads a store, with the log next to it if it is a database.
fn read_store(file: Bytes, log: Option<Bytes>) -> Result<Archive> {
    if !file.starts_with(DATABASE_MAGIC) {
        return document::read(&file);
    }
    read_database(file, log)
}

#[cfg(feature = "sqlite")]
fn read_database(file: Bytes, log: Option<Bytes>) -> Result<Archive> {
    sqlite::read(file, log)
}

#[cfg(not(feature = "sqlite"))]
fn read_database(_: Bytes, _: Option<Bytes>) -> Result<Archive> {
    let message =
        "this is an SQLite database, and this build cannot read it: expected the feature sqlite";
    Err(turntree::error::Error::new(turntree::error::ErrorKind::Unsupported, message))
}
