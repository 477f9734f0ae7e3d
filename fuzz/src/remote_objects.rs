//! Fuzzes untrusted objects of a remote: heads, keys of encrypted remotes, and sealed objects.
//!
//! ```text
//! remote_head     the bytes of a head
//! remote_keys     the bytes of the document of keys, or of a wrapped key
//! remote_sealed   | from, to: 2 bytes each, in KiB | changes of four bytes, as those of packs |
//! ```

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::transfer::remote::{Bucket, Got, Key, KeysDocument, RemoteKeys, SealedBucket};
use turntree_tests::remote::{Machine, MemoryBucket, ORIGIN, REMOTE};

use crate::pack::changed;

/// Bytes of the content of a sealed object.
const PLAIN: usize = (64 << 10) + 1_000;

/// Fetches a head on a machine that never saw the remote.
///
/// # Panics
/// If a guarantee of the library is violated.
pub fn remote_head(bytes: &[u8]) {
    let bucket = MemoryBucket::new(1);
    let machine = Machine::new(1, bucket.client());
    machine.make();
    bucket.tamper(&Key::new("heads/s").expect("a key"), Bytes::copy_from_slice(bytes));
    let before = machine.repo.refs().operation;
    for fetched in [machine.fetch("s").map(drop), machine.fetch_all().map(drop)] {
        // No listed bundle exists, so no head with a branch can be fetched.
        if fetched.is_err() {
            assert_eq!(machine.repo.refs().operation, before, "refused, and something is visible");
        }
        assert!(machine.repo.remote_branches(ORIGIN, None).is_empty(), "a branch without a turn");
    }
}

/// Decodes the keys document, and its wrapped content.
///
/// # Panics
/// If a guarantee of the library is violated.
pub fn remote_keys(bytes: &[u8]) {
    if let Ok(document) = KeysDocument::decode(bytes, &REMOTE) {
        let again = document.encode().and_then(|bytes| KeysDocument::decode(&bytes, &REMOTE));
        assert_eq!(again.expect("it is read again"), document);
        let _ = document.wrapped_bytes();
        assert!(document.verify(&RemoteKeys::new([3; 32])).is_err(), "no push wrote it");
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some(keys) = RemoteKeys::from_text(&text) {
        assert_eq!(RemoteKeys::from_text(&keys.to_text()), Some(keys));
    }
}

/// Changes a sealed object, and reads it whole and by range.
///
/// # Panics
/// If a guarantee of the library is violated.
pub fn remote_sealed(input: &[u8]) {
    let Some(([a, b, c, d], changes)) = input.split_first_chunk::<4>() else { return };
    let kib = |low: u8, high: u8| u64::from(u16::from_le_bytes([low, high])) << 10;
    let (from, to) = (kib(*a, *b), kib(*c, *d));
    let (key, plain) = (key(), plain());
    let bucket = MemoryBucket::new(1);
    bucket.tamper(&key, changed(good(), changes).into());
    let client = sealed(&bucket);
    let is_fair = |error: &turntree::Error| {
        let kinds = [ErrorKind::Corrupt, ErrorKind::Encrypted, ErrorKind::Io];
        assert!(kinds.contains(&error.kind()), "{error}");
    };
    match client.get(&key, None, None) {
        Ok(Got::Bytes { bytes, .. }) => assert_eq!(bytes, plain, "other bytes"),
        Ok(_) => panic!("it is there"),
        Err(error) => is_fair(&error),
    }
    match client.get(&key, Some(from..to), None) {
        Ok(Got::Bytes { bytes, .. }) => {
            let place = |at: u64| usize::try_from(at).unwrap_or(PLAIN).min(PLAIN);
            assert!(plain[place(from)..].starts_with(&bytes), "other bytes");
            assert!(bytes.len() as u64 <= to.saturating_sub(from), "more than was asked for");
        }
        Ok(_) => panic!("it is there"),
        Err(error) => is_fair(&error),
    }
}

fn key() -> Key {
    Key::new("bundles/s/1-0").expect("a key")
}

fn plain() -> Vec<u8> {
    (0..PLAIN).map(|at| u8::try_from(at % 251).unwrap_or_default()).collect()
}

fn sealed(bucket: &MemoryBucket) -> SealedBucket {
    SealedBucket::new(Arc::new(bucket.client()), RemoteKeys::new([1; 32]), false, || [5; 16])
}

/// Returns the sealed object, unchanged.
fn good() -> &'static Vec<u8> {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let bucket = MemoryBucket::new(1);
        sealed(&bucket).put_new(&key(), plain().into()).expect("it is written");
        bucket.objects()[&key()].to_vec()
    })
}
