//! The operations of a remote on a PostgreSQL database.
//!
//! `turntree_objects` has a row for each object, with its version; `turntree_parts` has the bytes of
//! each version, in parts. Every write is one transaction, so readers see an object before or after
//! it, and nothing remains of a write that was cut. A version is random, so it never returns, even
//! in a database that was restored from a backup.
//!
//! Statements have no names on the server, so a pool of connections may be in front of it.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use postgres::types::{ToSql, Type};
use postgres::{Client, Error as Failed, Row};
use turntree::local::random_bytes;
use turntree::store::ReadAt;
use turntree::transfer::remote::{Bucket, Got, Hex, Key, Listed, Page, Put, Version};
use turntree::{Error, Result};

use super::failure::{failure, is_made_by_another, is_refused};
use super::password::password;
use super::place::Place;
use super::tls::connector;

/// Bytes of a part. A range reads the parts that it touches.
const PART_BYTES: usize = 1 << 20;

/// Maximum bytes of the parts that a statement uploads.
const BATCH_BYTES: usize = 8 << 20;

/// Objects of one page of a listing.
const MAX_LISTED: usize = 10_000;

/// Content is compressed before it is uploaded, so the server stores it as it is.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS turntree_objects (
        prefix text COLLATE \"C\" NOT NULL,
        key text COLLATE \"C\" NOT NULL,
        version text NOT NULL,
        size bigint NOT NULL,
        PRIMARY KEY (prefix, key)
    );
    CREATE TABLE IF NOT EXISTS turntree_parts (
        version text NOT NULL,
        part integer NOT NULL,
        bytes bytea NOT NULL,
        PRIMARY KEY (version, part)
    );
    ALTER TABLE turntree_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;
";

/// Makes the commit of this statement durable, even if the server would acknowledge it before.
const DURABLE: &str = "CASE current_setting('synchronous_commit') \
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END";

/// A remote in a database.
pub(super) struct DatabaseBucket {
    place: Place,
    client: Mutex<Option<Client>>,
}

impl fmt::Debug for DatabaseBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseBucket").field(&self.place.shown).finish()
    }
}

/// Why an upload failed.
enum Trouble {
    Source(Error),
    Database(Failed),
}

impl From<Failed> for Trouble {
    fn from(error: Failed) -> Self {
        Self::Database(error)
    }
}

impl DatabaseBucket {
    /// A bucket that connects on first use.
    pub(super) fn open(place: Place) -> Self {
        Self { place, client: Mutex::new(None) }
    }

    /// Creates the tables unless they exist.
    ///
    /// # Errors
    /// `Io` if the database cannot be reached, or refuses.
    pub(super) fn make_tables(&self) -> Result<()> {
        self.with(|client| {
            match client.batch_execute(TABLES) {
                // The second try finds the tables of the other process.
                Err(error) if is_made_by_another(&error) => client.batch_execute(TABLES),
                made => made,
            }
        })?
        .map_err(|error| self.failed("create tables", &error))
    }

    fn failed(&self, action: &str, error: &Failed) -> Error {
        failure(action, &self.place.shown, error)
    }

    /// Runs work on the connection, and connects first if there is none.
    fn with<T>(&self, work: impl FnOnce(&mut Client) -> T) -> Result<T> {
        // After a panic there is no connection, and a new one is made.
        let mut kept = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let mut client = match kept.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connect()?,
        };
        let result = work(&mut client);
        *kept = Some(client);
        Ok(result)
    }

    fn connect(&self) -> Result<Client> {
        let mut server = self.place.server.clone();
        if let Some(password) = password(&server)? {
            server.password(password);
        }
        server.connect(connector()?).map_err(|error| self.failed("connect", &error))
    }

    /// Runs a statement that reads. A connection that broke while it was idle is replaced once.
    fn read(
        &self,
        action: &str,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        let rows = match self.with(|client| client.query_typed(sql, params))? {
            Err(error) if error.is_closed() => {
                self.with(|client| client.query_typed(sql, params))?
            }
            rows => rows,
        };
        rows.map_err(|error| self.failed(action, &error))
    }

    /// Writes an object under a condition: the statement returns a row if it was done.
    fn put(&self, key: &Key, bytes: &[u8], sql: &str, seen: Option<&str>) -> Result<Put> {
        let version = Hex(random_bytes()).to_string();
        let parts: Vec<&[u8]> = bytes.chunks(PART_BYTES).collect();
        let size = signed(bytes.len() as u64)?;
        let name = key.as_str();
        let mut params: Vec<(&(dyn ToSql + Sync), Type)> = vec![
            (&self.place.prefix, Type::TEXT),
            (&name, Type::TEXT),
            (&version, Type::TEXT),
            (&size, Type::INT8),
            (&parts, Type::BYTEA_ARRAY),
        ];
        if let Some(seen) = &seen {
            params.push((seen, Type::TEXT));
        }
        match self.with(|client| client.query_typed(sql, &params))? {
            Ok(rows) if rows.is_empty() => Ok(Put::Lost),
            Ok(_) => Ok(Put::Done(Version(version))),
            Err(error) if is_refused(&error) => Err(self.failed(&format!("write {key}"), &error)),
            Err(_) => Ok(Put::Unknown),
        }
    }

    /// Replaces an object in one transaction.
    fn upload_parts(
        &self,
        client: &mut Client,
        key: &Key,
        from: &dyn ReadAt,
    ) -> std::result::Result<(), Trouble> {
        let failed = |error| Trouble::Source(Error::io("read the upload", error));
        let size = from.size().map_err(failed)?;
        let total = signed(size).map_err(Trouble::Source)?;
        let version = Hex(random_bytes()).to_string();
        let (prefix, key) = (&self.place.prefix, key.as_str());
        let mut transaction = client.transaction()?;
        // Uploads of one key wait for each other, so that each finds the version it replaces.
        let begin = format!(
            "SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0)), {DURABLE}"
        );
        transaction.query_typed(&begin, &[(prefix, Type::TEXT), (&key, Type::TEXT)])?;
        let begin = "
            WITH old AS (
                DELETE FROM turntree_objects WHERE prefix = $1 AND key = $2 RETURNING version
            )
            DELETE FROM turntree_parts WHERE version IN (SELECT version FROM old)";
        transaction.query_typed(begin, &[(prefix, Type::TEXT), (&key, Type::TEXT)])?;
        let mut at = 0;
        while at < size {
            let length = usize::try_from(size - at).unwrap_or(BATCH_BYTES).min(BATCH_BYTES);
            let batch = from.read_part(at, length).map_err(failed)?;
            let parts: Vec<&[u8]> = batch.chunks(PART_BYTES).collect();
            let first = part_at(at);
            let insert = "
                INSERT INTO turntree_parts (version, part, bytes)
                SELECT $1, $2 + at::integer - 1, bytes FROM unnest($3) WITH ORDINALITY AS new (bytes, at)";
            transaction.query_typed(
                insert,
                &[(&version, Type::TEXT), (&first, Type::INT4), (&parts, Type::BYTEA_ARRAY)],
            )?;
            at += batch.len() as u64;
        }
        let insert =
            "INSERT INTO turntree_objects (prefix, key, version, size) VALUES ($1, $2, $3, $4)";
        transaction.query_typed(
            insert,
            &[
                (prefix, Type::TEXT),
                (&key, Type::TEXT),
                (&version, Type::TEXT),
                (&total, Type::INT8),
            ],
        )?;
        Ok(transaction.commit()?)
    }
}

impl Bucket for DatabaseBucket {
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got> {
        let action = format!("read {key}");
        let range = range.unwrap_or(0..u64::MAX);
        let first = part_at(range.start);
        // Before the first part if nothing is wanted but the size.
        let last = if range.is_empty() { -1 } else { part_at(range.end - 1) };
        let unless = unless.map(|Version(version)| version.as_str());
        // One statement, so that the parts are those of the version.
        let select = "
            SELECT object.version, object.size, part.part, part.bytes
            FROM turntree_objects object LEFT JOIN turntree_parts part
                ON part.version = object.version AND part.part BETWEEN $3 AND $4
                AND object.version IS DISTINCT FROM $5
            WHERE object.prefix = $1 AND object.key = $2 ORDER BY part.part";
        let rows = self.read(
            &action,
            select,
            &[
                (&self.place.prefix, Type::TEXT),
                (&key.as_str(), Type::TEXT),
                (&first, Type::INT4),
                (&last, Type::INT4),
                (&unless, Type::TEXT),
            ],
        )?;
        let failed = |error: Failed| self.failed(&action, &error);
        let Some(object) = rows.first() else { return Ok(Got::Missing) };
        let version: String = object.try_get(0).map_err(failed)?;
        if unless == Some(version.as_str()) {
            return Ok(Got::Same);
        }
        let size = unsigned(object.try_get(1).map_err(failed)?)?;
        let mut bytes = Vec::new();
        for row in &rows {
            let part: Option<&[u8]> = row.try_get(3).map_err(failed)?;
            bytes.extend_from_slice(part.unwrap_or_default());
        }
        let end = range.end.min(size);
        let start = range.start.min(end);
        let before = start % PART_BYTES as u64;
        let wanted = length(before)?..length(before + (end - start))?;
        let cut = || {
            let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            Error::io(format!("read {key} in {}", self.place.shown), error)
        };
        let bytes = match wanted.is_empty() {
            true => Bytes::new(),
            false if bytes.len() < wanted.end => return Err(cut()),
            false => Bytes::from(bytes).slice(wanted),
        };
        Ok(Got::Bytes { bytes, version: Version(version), size })
    }

    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put> {
        let insert = format!(
            "
            WITH object AS (
                INSERT INTO turntree_objects (prefix, key, version, size) VALUES ($1, $2, $3, $4)
                ON CONFLICT DO NOTHING RETURNING version
            ), parts AS (
                INSERT INTO turntree_parts (version, part, bytes)
                SELECT version, at::integer - 1, bytes
                FROM object, unnest($5) WITH ORDINALITY AS new (bytes, at)
            )
            SELECT version, {DURABLE} FROM object"
        );
        self.put(key, &bytes, &insert, None)
    }

    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put> {
        let update = format!(
            "
            WITH object AS (
                UPDATE turntree_objects SET version = $3, size = $4
                WHERE prefix = $1 AND key = $2 AND version = $6 RETURNING version
            ), gone AS (
                DELETE FROM turntree_parts WHERE version = $6 AND EXISTS (SELECT FROM object)
            ), parts AS (
                INSERT INTO turntree_parts (version, part, bytes)
                SELECT version, at::integer - 1, bytes
                FROM object, unnest($5) WITH ORDINALITY AS new (bytes, at)
            )
            SELECT version, {DURABLE} FROM object"
        );
        self.put(key, &bytes, &update, Some(&seen.0))
    }

    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()> {
        self.with(|client| self.upload_parts(client, key, from))?.map_err(|trouble| match trouble {
            Trouble::Source(error) => error,
            Trouble::Database(error) => self.failed(&format!("upload {key}"), &error),
        })
    }

    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page> {
        let after = after.map(Key::as_str);
        // Letters of keys are below the last one of ASCII.
        let select = "
            SELECT key, size, version FROM turntree_objects
            WHERE prefix = $1 AND key >= $2 AND key < $2 || E'\\x7f' AND ($3 IS NULL OR key > $3)
            ORDER BY key LIMIT $4";
        let rows = self.read(
            &format!("list {prefix}"),
            select,
            &[
                (&self.place.prefix, Type::TEXT),
                (&prefix, Type::TEXT),
                (&after, Type::TEXT),
                (&(MAX_LISTED as i64), Type::INT8),
            ],
        )?;
        let has_more = rows.len() == MAX_LISTED;
        let failed = |error: Failed| self.failed("list", &error);
        let mut objects = Vec::with_capacity(rows.len());
        for row in rows {
            // Rows of another program are no objects of a remote.
            let Ok(key) = Key::new(row.try_get::<_, String>(0).map_err(failed)?) else { continue };
            let size = unsigned(row.try_get(1).map_err(failed)?)?;
            let version = Version(row.try_get(2).map_err(failed)?);
            objects.push(Listed { key, size, version });
        }
        Ok(Page { objects, has_more })
    }

    fn delete(&self, keys: &[Key]) -> Result<()> {
        let keys: Vec<&str> = keys.iter().map(Key::as_str).collect();
        let delete = format!(
            "
            WITH object AS (
                DELETE FROM turntree_objects WHERE prefix = $1 AND key = ANY ($2) RETURNING version
            ), gone AS (
                DELETE FROM turntree_parts WHERE version IN (SELECT version FROM object)
            )
            SELECT {DURABLE}"
        );
        let params: &[(&(dyn ToSql + Sync), Type)] =
            &[(&self.place.prefix, Type::TEXT), (&keys, Type::TEXT_ARRAY)];
        self.read("delete objects", &delete, params).map(drop)
    }
}

/// The number of the part that contains an offset.
fn part_at(offset: u64) -> i32 {
    i32::try_from(offset / PART_BYTES as u64).unwrap_or(i32::MAX)
}

fn length(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Error::limit("bytes of a range", usize::MAX as u64, bytes))
}

fn signed(size: u64) -> Result<i64> {
    i64::try_from(size).map_err(|_| Error::limit("bytes of an object", i64::MAX as u64, size))
}

/// A size of a row, which another program may have changed.
fn unsigned(size: i64) -> Result<u64> {
    u64::try_from(size)
        .map_err(|_| Error::corrupt("an object of the remote", "a size", size.to_string()))
}
