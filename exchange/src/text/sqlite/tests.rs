//! Tests images of databases with a concurrent writer.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;
use turntree::ErrorKind;

use super::{Cell, Database, Image};

/// Creates a database with 2,000 rows of 1, without automatic checkpoints.
fn written() -> (TempDir, PathBuf, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let writer = Connection::open(&path).unwrap();
    writer
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
            CREATE TABLE t(id INTEGER PRIMARY KEY, n, text);
            WITH RECURSIVE i(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM i WHERE id < 2000)
            INSERT INTO t SELECT id, 1, hex(zeroblob(100)) FROM i;",
        )
        .unwrap();
    (folder, path, writer)
}

/// Returns the distinct values, and the number of rows.
fn read(image: &Arc<Image>) -> turntree::Result<(Vec<i64>, usize)> {
    let (mut values, mut rows) = (Vec::new(), 0);
    Database::open(image)?.each("SELECT n FROM t", &[], "read", &mut |row| {
        rows += 1;
        match row.cell(0)? {
            Cell::Integer(number) if !values.contains(&number) => values.push(number),
            _ => {}
        }
        Ok(())
    })?;
    Ok((values, rows))
}

#[test]
fn images_are_stable_while_the_log_grows() {
    let (_folder, path, writer) = written();
    let image = Arc::new(Image::of_file(&path).unwrap());
    assert_eq!(read(&image).unwrap(), (vec![1], 2000));
    assert!(image.is_intact() && image.is_current());
    writer.execute_batch("UPDATE t SET n = 2; INSERT INTO t(n) VALUES (2);").unwrap();
    assert_eq!(read(&image).unwrap(), (vec![1], 2000), "what came later is not seen");
    assert!(!image.is_current());
    let image = Arc::new(Image::of_file(&path).unwrap());
    assert_eq!(read(&image).unwrap(), (vec![2], 2001));
}

#[test]
fn images_overwritten_by_a_checkpoint_are_rejected() {
    let changes = "UPDATE t SET n = 2; DELETE FROM t WHERE id % 3 = 0;";
    for (first, then) in [
        // The log is emptied, and the database grows.
        ("", "PRAGMA wal_checkpoint(TRUNCATE);"),
        // The log restarts.
        ("", "PRAGMA wal_checkpoint(RESTART); UPDATE t SET n = 3;"),
        // The log was empty, and then the database changes.
        ("PRAGMA wal_checkpoint(TRUNCATE);", "PRAGMA wal_checkpoint(FULL);"),
        ("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;", "UPDATE t SET n = 4;"),
    ] {
        let (_folder, path, writer) = written();
        writer.execute_batch(first).unwrap();
        let image = Arc::new(Image::of_file(&path).unwrap());
        assert!(image.is_intact());
        writer.execute_batch(changes).unwrap();
        writer.execute_batch(then).unwrap();
        let _ = read(&image);
        assert!(!image.is_intact(), "{first} {then}");
        let again = Arc::new(Image::of_file(&path).unwrap());
        let (values, rows) = read(&again).unwrap();
        assert_eq!((values.len(), rows), (1, 1334));
        assert!(again.is_intact());
    }
}

#[test]
fn images_read_pages_from_the_database_and_the_log() {
    let (_folder, path, writer) = written();
    writer
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE); UPDATE t SET n = 7 WHERE id < 900;")
        .unwrap();
    let [bytes, log] =
        ["", "-wal"].map(|end| fs::read(format!("{}{end}", path.display())).unwrap());
    let from_file = Image::of_file(&path).unwrap();
    let from_bytes = Image::of_bytes(bytes.into(), Some(log.into())).unwrap();
    assert_eq!(from_file.len(), from_bytes.len());
    // Reads at any offsets give the same bytes as one read of all.
    let len = usize::try_from(from_file.len()).unwrap();
    let mut whole = vec![0; len];
    assert_eq!(from_bytes.read_at(0, &mut whole).unwrap(), len);
    let mut at = 0;
    for step in (1..9000).step_by(701).cycle() {
        let mut part = vec![0; step];
        let count = from_file.read_at(at as u64, &mut part).unwrap();
        assert_eq!(part[..count], whole[at..at + count]);
        assert!(count == step || at + count == len);
        at += count;
        if at == len {
            break;
        }
    }
    assert_eq!(read(&Arc::new(from_bytes)).unwrap(), (vec![7, 1], 2000));
}

#[test]
fn queries_are_bounded_and_images_are_read_only() {
    let (_folder, path, _writer) = written();
    let image = Arc::new(Image::of_file(&path).unwrap());
    let database = Database::open(&image).unwrap();
    let none = &mut |_: &super::Row<'_>| Ok(());
    for query in ["DELETE FROM t", "CREATE TABLE u(a)", "PRAGMA user_version = 7"] {
        assert!(database.each(query, &[], "write", none).is_err(), "{query}");
    }
    let forever =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let error = database.each(forever, &[], "count", none).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("more steps"), "{error}");
}
