//! Fuzzes adoption of untrusted opencode databases.
//!
//! ```text
//! input   - length 2 | what follows the magic of the database | the log beside it
//!         +          the same, and the log has the checksums that it should have
//!         r line \n ...   rows in a good database, half of them in its log only:
//!                         s or m or p, and fields with a tab between: the columns of the table
//! ```

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rusqlite::{Connection, params_from_iter};
use turntree::ErrorKind;
use turntree::context::export_source;
use turntree::maintenance::fsck;
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::store::{Durability, OpenOptions, Thoroughness};
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::{
    AdoptOptions, Adopted, FoundSessions, Outcome, SessionPlace, adopt, find,
};
use turntree_tests::oracle::{DIR, options};
use turntree_tests::sim::{Keep, SimDisk};
use turntree_tests::stamp;

use crate::exchange::read_back;
use crate::folder::{listing, new_folder};
use crate::store::new_repository;

/// The magic of every database.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The file name of the database.
const NAME: &str = "opencode.db";

/// Maximum bytes of a database.
const MAX_DATABASE: usize = 64 << 10;

/// Maximum number of rows.
const MAX_LINES: usize = 200;

/// The offset of the page size in the header of a database.
const PAGE_BYTES_AT: usize = 16;

/// Bytes of the headers of a log and of each of its frames.
const LOG_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// Small pages keep inputs small.
pub const SCHEMA: &str = "PRAGMA page_size = 512;
    CREATE TABLE session(id TEXT PRIMARY KEY, title TEXT, model TEXT, summary_files INTEGER,
        summary_diffs TEXT, cost REAL, time_created INTEGER, time_updated INTEGER);
    CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
    CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);";

/// Adopts the database that `input` describes, twice.
///
/// # Panics
/// If an error leaves a trace or has an unexpected kind, imported content is unreadable, the second
/// adoption adds anything, or the folder gets new files.
pub fn opencode_database(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let folder = new_folder();
    match kind {
        b'r' => {
            let opencode = put_rows(folder.path(), rest);
            adopt_from(folder.path());
            drop(opencode);
        }
        _ if rest.len() <= MAX_DATABASE => {
            put_files(folder.path(), rest, *kind == b'+');
            adopt_from(folder.path());
        }
        _ => {}
    }
}

fn adopt_from(folder: &Path) {
    static EMPTY: OnceLock<SimDisk> = OnceLock::new();
    let disk = EMPTY.get_or_init(|| new_repository().0).crash(Keep::All);
    let options = OpenOptions { durability: Durability::None, ..options(2) };
    let repo = Repository::open(Arc::new(disk), Path::new(DIR), options).unwrap();
    let before = listing(folder);
    let found = look(folder);
    let refs = repo.refs();
    let adopted = adopt_all(&repo, &found);
    if adopted.iter().all(|it| matches!(it.outcome, Outcome::Failed(_))) {
        assert_eq!(repo.refs(), refs, "a trace of an error");
    }
    for it in &adopted {
        match &it.outcome {
            Outcome::Imported(report) => read_session(&repo, &report.head),
            Outcome::Unchanged => panic!("a session is known that was never adopted"),
            Outcome::Failed(error) => expect_designed(error),
        }
    }
    for it in adopt_all(&repo, &look(folder)) {
        if let Outcome::Imported(report) = &it.outcome {
            let new = (report.turns, report.others.len(), report.new_bytes);
            assert_eq!(new, (0, 0, 0), "known records add something");
        }
    }
    assert!(listing(folder) == before, "something was written beside the database");
    let report = fsck(&repo, Thoroughness::Full, stamp(100).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:?}", report.findings);
}

/// Returns the sessions of the folder, found by its place and by a named file.
fn look(folder: &Path) -> FoundSessions {
    let place = |path: &Path| SessionPlace { agent: "opencode".to_owned(), path: path.to_owned() };
    let found = find(&[place(folder)]);
    let named = find(&[place(&folder.join(NAME))]);
    assert_eq!(found.sessions.len(), named.sessions.len(), "only one way finds it");
    for odd in found.odd.iter().chain(&named.odd) {
        expect_designed(&odd.error);
    }
    found
}

fn expect_designed(error: &turntree::Error) {
    let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded, ErrorKind::Unsupported];
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
}

fn adopt_all(repo: &Repository, found: &FoundSessions) -> Vec<Adopted> {
    let options = AdoptOptions {
        stamp: stamp(1),
        adoption: Arc::default(),
        is_live: false,
        head: None,
        passed: &|_| {},
    };
    adopt(repo, found.sessions.clone(), &options, &mut AdoptionCache::peek(repo)).unwrap()
}

fn read_session(repo: &Repository, head: &ObjectId) {
    let context = read_back(repo, &repo.commit(head).unwrap().tree);
    let mut source = Vec::new();
    export_source(repo, &context, &mut source).unwrap();
    assert!(source.starts_with(b"{\n  \"info\": "), "another document comes out");
}

/// Writes a database and its log into `folder`.
fn put_files(folder: &Path, input: &[u8], mends: bool) {
    let (length, rest) = input.split_at(input.len().min(2));
    let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let (database, log) = rest.split_at(length.min(rest.len()));
    let database = [MAGIC, database].concat();
    let mut log = log.to_vec();
    if mends {
        mend(&mut log, &database);
    }
    fs::write(folder.join(NAME), database).unwrap();
    if !log.is_empty() {
        fs::write(folder.join(format!("{NAME}-wal")), log).unwrap();
    }
}

/// Recomputes the checksums of `log` for `database`, and joins its frames into one log.
fn mend(log: &mut [u8], database: &[u8]) {
    let Some((header, mut frames)) = log.split_at_mut_checked(LOG_HEADER_BYTES) else { return };
    let stored = database.get(PAGE_BYTES_AT..PAGE_BYTES_AT + 2).unwrap_or(&[2, 0]);
    let page_bytes = match u32::from(stored[0]) << 8 | u32::from(stored[1]) {
        1 => 65536,
        bytes => bytes,
    };
    header[..8].copy_from_slice(b"\x37\x7f\x06\x82\0\x2d\xe2\x18");
    header[8..12].copy_from_slice(&page_bytes.to_be_bytes());
    let mut sum = checksum([0; 2], &header[..24]);
    put(&mut header[24..], sum);
    let salt = header[16..24].to_vec();
    let frame_bytes = FRAME_HEADER_BYTES + page_bytes as usize;
    while let Some((frame, rest)) = frames.split_at_mut_checked(frame_bytes) {
        frame[8..16].copy_from_slice(&salt);
        sum = checksum(checksum(sum, &frame[..8]), &frame[FRAME_HEADER_BYTES..]);
        put(&mut frame[16..24], sum);
        frames = rest;
    }
}

fn put(place: &mut [u8], sum: [u32; 2]) {
    place.copy_from_slice(&sum.map(u32::to_be_bytes).concat());
}

/// Continues a checksum from `sum`, over little-endian words in pairs.
fn checksum([mut first, mut second]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let (pairs, _) = bytes.as_chunks::<8>();
    for [a, b, c, d, e, f, g, h] in pairs {
        first = first.wrapping_add(u32::from_le_bytes([*a, *b, *c, *d])).wrapping_add(second);
        second = second.wrapping_add(u32::from_le_bytes([*e, *f, *g, *h])).wrapping_add(first);
    }
    [first, second]
}

/// Creates a database with these rows in `folder`, and keeps it open as opencode does.
fn put_rows(folder: &Path, lines: &[u8]) -> Connection {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    let path = folder.join(NAME);
    let good = GOOD.get_or_init(|| {
        let made = Connection::open(&path).unwrap();
        made.execute_batch(SCHEMA).unwrap();
        made.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        drop(made);
        fs::read(&path).unwrap()
    });
    fs::write(&path, good).unwrap();
    let lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').take(MAX_LINES).collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    let opencode = Connection::open(&path).unwrap();
    opencode.execute_batch("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0").unwrap();
    insert(&opencode, first);
    opencode.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    insert(&opencode, second);
    opencode
}

fn insert(opencode: &Connection, lines: &[&[u8]]) {
    opencode.execute_batch("BEGIN").unwrap();
    for line in lines {
        let Some((table, rest)) = line.split_first() else { continue };
        let (table, columns) = match table {
            b's' => ("session", 8),
            b'm' => ("message", 4),
            b'p' => ("part", 4),
            _ => continue,
        };
        let text = String::from_utf8_lossy(rest);
        let mut fields: Vec<Option<&str>> = text.splitn(columns, '\t').map(Some).collect();
        fields.resize(columns, None);
        let marks = vec!["?"; columns].join(", ");
        let row = format!("INSERT OR REPLACE INTO {table} VALUES ({marks})");
        opencode.execute(&row, params_from_iter(fields)).unwrap();
    }
    opencode.execute_batch("COMMIT").unwrap();
}
