//! Tests the conditional writes of a bucket before a remote relies on them.

use turntree::local::random_bytes;
use turntree::transfer::remote::{Bucket, Got, Hex, Key, Put, Version};
use turntree::{Error, ErrorKind, Result};

/// Writes an object, tries to overwrite it in ways that must be refused, and deletes it.
///
/// # Errors
/// `Unsupported` if a write that must be refused was done, or the reverse; `Io` without an
/// answer.
pub(super) fn expect_conditional_writes(bucket: &dyn Bucket, shown: &str) -> Result<()> {
    let key = Key::new(format!("trials/{}", Hex(random_bytes())))?;
    let tried = try_writes(bucket, &key, shown);
    // A remaining object does no harm, and the result is about the writes.
    let _ = bucket.delete(std::slice::from_ref(&key));
    tried
}

fn try_writes(bucket: &dyn Bucket, key: &Key, shown: &str) -> Result<()> {
    let first = written(bucket, key, b"first", bucket.put_new(key, "first".into())?, shown)?;
    expect_lost(&bucket.put_new(key, "again".into())?, "exists already", shown)?;
    let second = bucket.put_over(key, "second".into(), &first)?;
    let second = written(bucket, key, b"second", second, shown)?;
    let late = bucket.put_over(key, "late".into(), &first)?;
    expect_lost(&late, "has changed since it was read", shown)?;
    match bucket.get(key, None, None)? {
        Got::Bytes { bytes, version, .. } if *bytes == *b"second" && version == second => Ok(()),
        _ => Err(unfit(shown, "does not return the last write")),
    }
}

/// The version after a write. A write that was sent twice fails against its own first copy, so the
/// object is read again.
fn written(
    bucket: &dyn Bucket,
    key: &Key,
    expected: &[u8],
    put: Put,
    shown: &str,
) -> Result<Version> {
    if let Put::Done(version) = put {
        return Ok(version);
    }
    match bucket.get(key, None, None)? {
        Got::Bytes { bytes, version, .. } if *bytes == *expected => Ok(version),
        _ if put == Put::Unknown => Err(silent(shown)),
        _ => Err(unfit(shown, "refuses a write whose condition holds")),
    }
}

fn expect_lost(put: &Put, what: &str, shown: &str) -> Result<()> {
    match put {
        Put::Lost => Ok(()),
        Put::Done(_) => Err(unfit(shown, &format!("writes over an object that {what}"))),
        Put::Unknown => Err(silent(shown)),
    }
}

fn unfit(shown: &str, what: &str) -> Error {
    let message = format!("{shown} {what}: expected object storage with conditional writes");
    Error::new(ErrorKind::Unsupported, message)
}

fn silent(shown: &str) -> Error {
    let message = format!("{shown} does not say whether it wrote an object: try again");
    Error::new(ErrorKind::Io, message)
}
