//! Design stores, databases and chats of open-codesign.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use turntree::ErrorKind;
use turntree::context::export_source;
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::store::{Durability, OpenOptions};
use turntree_exchange::formats::codesign::{export_chat, export_designs, import_designs};
use turntree_exchange::formats::{FolderFile, named};
use turntree_exchange::{ImportOptions, ImportReport, import};
use turntree_tests::oracle::{DIR, options};
use turntree_tests::sim::{Keep, SimDisk};
use turntree_tests::stamp;

use crate::exchange::is_packed;
use crate::store::new_repository;

/// The magic of every database; an input is the rest.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Maximum bytes of a database.
const MAX_DATABASE: usize = 64 << 10;

/// A store to which a chat may belong.
const STORE: &[u8] = br#"{"schemaVersion":1,"designs":[{"id":"d","name":"D","createdAt":"t",
"updatedAt":"t"}],"snapshots":[{"id":"s1","designId":"d","type":"initial","artifactType":"html",
"artifactSource":"<p/>","createdAt":"2026-05-01T10:00:00.000Z"},{"id":"s2","designId":"d",
"parentId":"s1","type":"edit","artifactType":"html","artifactSource":"<b/>",
"createdAt":"2026-05-20T10:00:05.000Z"}],"diagnosticEvents":[]}"#;

fn repository() -> Repository {
    static EMPTY: OnceLock<SimDisk> = OnceLock::new();
    let disk = EMPTY.get_or_init(|| new_repository().0).crash(Keep::All);
    let options = OpenOptions { durability: Durability::None, ..options(2) };
    Repository::open(Arc::new(disk), Path::new(DIR), options).unwrap()
}

fn of_session(session: &str, format: &str) -> ImportOptions {
    let format = Some(named(format).unwrap());
    ImportOptions {
        format,
        session: session.to_owned(),
        stamp: stamp(1),
        switch: false,
        adoption: None,
        branch: None,
    }
}

/// Returns the report of an import, or `None` if the input is refused, which must leave no trace.
fn taken(
    repo: &Repository,
    import: impl FnOnce() -> turntree::Result<ImportReport>,
) -> Option<ImportReport> {
    let before = repo.refs();
    match import() {
        Ok(report) => Some(report),
        Err(error) => {
            let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
            assert!(kinds.contains(&error.kind()), "{error}");
            assert_eq!(repo.refs(), before, "a trace of an error: {error}");
            None
        }
    }
}

fn import_store(repo: &Repository, session: &str, bytes: &[u8]) -> Option<ImportReport> {
    let options = of_session(session, "codesign");
    let report = taken(repo, || import(repo, bytes, &options)).filter(|_| !is_packed(bytes))?;
    let mut source = Vec::new();
    export_source(repo, &repo.context(&report.head).unwrap(), &mut source).unwrap();
    assert!(source == bytes, "another file comes out");
    let again = import(repo, bytes, &options).unwrap();
    let known = (again.turns, again.others.len(), again.new_bytes, again.head);
    assert_eq!(known, (0, 0, 0, report.head), "a known file adds something");
    Some(report)
}

fn exported(repo: &Repository, session: &str) -> Vec<u8> {
    let tip = repo.resolve(session).unwrap().commit;
    let branches = repo.branches().into_iter().filter(|(branch, _)| branch.session() == session);
    let tips: Vec<ObjectId> = std::iter::once(tip).chain(branches.map(|(_, tip)| tip)).collect();
    let mut out = Vec::new();
    export_designs(repo, &[tips], &mut out).unwrap();
    out
}

/// Imports `bytes` as a store, and imports each exported design again.
///
/// # Panics
/// If the export differs from the input, a second import adds anything, or an exported design is
/// refused or differs after import.
pub fn codesign_store(bytes: &[u8]) {
    let repo = repository();
    let Some(report) = import_store(&repo, "first", bytes) else { return };
    let mut sessions = vec![report.branch.session().to_owned()];
    sessions.extend(report.others.iter().map(|other| other.branch.session().to_owned()));
    sessions.dedup();
    for (number, session) in sessions.iter().enumerate() {
        let document = exported(&repo, session);
        let again = import_store(&repo, &format!("again{number}"), &document);
        let again = again.expect("an export can be imported");
        assert!(exported(&repo, again.branch.session()) == document, "an export is not stable");
    }
}

/// Imports `bytes` as a database after its magic, optionally followed by a log.
///
/// # Panics
/// As [`codesign_store`].
pub fn codesign_database(bytes: &[u8]) {
    let file = [MAGIC, bytes].concat();
    if file.len() > MAX_DATABASE {
        return;
    }
    let repo = repository();
    import_store(&repo, "first", &file);
    let (database, log) = file.split_at(file.len() / 2);
    let stored = |path: &str, bytes: &[u8]| FolderFile {
        path: path.to_owned(),
        bytes: bytes.to_vec().into(),
    };
    let files = [stored("designs.db", database), stored("designs.db-wal", log)];
    let options = of_session("second", "codesign");
    taken(&repo, || import_designs(&repo, &files, &options));
}

fn chat_of(repo: &Repository, session: &str) -> Vec<u8> {
    let mut out = Vec::new();
    export_chat(repo, &repo.resolve(session).unwrap().commit, &mut out).unwrap();
    out
}

/// Imports `bytes` as a chat, line by line and together with the store of its design.
///
/// # Panics
/// If the chat is accepted alone but not with the store, a second import adds anything, or an
/// export is refused or differs after import.
pub fn codesign_session(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let repo = repository();
    let options = of_session("alone", "codesign-session");
    if is_packed(bytes) {
        return;
    }
    let alone = taken(&repo, || import(&repo, bytes, &options));
    let stored = |path: &str, bytes: &[u8]| FolderFile {
        path: path.to_owned(),
        bytes: bytes.to_vec().into(),
    };
    let files = [stored("design-store.json", STORE), stored("sessions/d.jsonl", bytes)];
    let options = of_session("beside", "codesign");
    let beside = taken(&repo, || import_designs(&repo, &files, &options));
    assert!(alone.is_none() || beside.is_some(), "only the chat by itself is taken");
    // A chat alone is refused if none of its messages has content.
    let (Some(_), Some(beside)) = (alone, beside) else { return };
    let chat = chat_of(&repo, "alone");
    let of_chat = of_session("chat", "codesign-session");
    import(&repo, chat.as_slice(), &of_chat).expect("an export can be imported");
    assert!(chat_of(&repo, "chat") == chat, "an export is not stable");
    let again = import_designs(&repo, &files, &options).unwrap();
    assert_eq!((again.turns, again.new_bytes, again.head), (0, 0, beside.head));
}
