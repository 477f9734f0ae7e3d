//! The records of `offload` and `vfs`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

/// `offload`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Offloaded {
    /// True when it was long enough.
    pub(crate) offloaded: bool,
    /// The text in its place; itself, when it was not. May hold half of a character as an escape.
    #[schemars(with = "String")]
    pub(crate) content: Box<RawValue>,
    /// The URI of the whole text.
    pub(crate) uri: Option<String>,
    /// Its blob.
    pub(crate) id: Option<String>,
    /// The file that it was written to besides.
    pub(crate) file: Option<String>,
}

/// `vfs put`.
#[derive(Serialize)]
pub(crate) struct StoredPayload {
    pub(crate) uri: String,
    pub(crate) id: String,
    pub(crate) size: u64,
    /// True when it was new to the store.
    pub(crate) new: bool,
}

/// `vfs ls`.
#[derive(Serialize)]
pub(crate) struct Payloads {
    pub(crate) payloads: Vec<Payload>,
    /// Those that are gone, with why and when.
    pub(crate) evicted: Vec<Evicted>,
}

/// A payload.
#[derive(Serialize)]
pub(crate) struct Payload {
    pub(crate) uri: String,
    pub(crate) id: String,
    pub(crate) size: u64,
    /// `null` for one that only the snapshot carries.
    pub(crate) created: Option<String>,
    pub(crate) accessed: Option<String>,
    /// True when the snapshot that was looked at carries it.
    pub(crate) carried: bool,
}

/// A payload that is gone.
#[derive(Serialize)]
pub(crate) struct Evicted {
    pub(crate) uri: String,
    pub(crate) reason: String,
    pub(crate) time: String,
}

/// `vfs evict`.
#[derive(Serialize)]
pub(crate) struct Eviction {
    pub(crate) dry_run: bool,
    /// Payloads in the pool before, and their bytes.
    pub(crate) payloads: u64,
    pub(crate) bytes: u64,
    pub(crate) evicted: Vec<EvictedPayload>,
    pub(crate) evicted_bytes: u64,
    pub(crate) evicted_by_age: u64,
    pub(crate) evicted_by_count: u64,
    pub(crate) evicted_by_bytes: u64,
    /// Payloads over a limit that a kept snapshot cites.
    pub(crate) cited: Vec<EvictedPayload>,
}

/// One payload of an eviction.
#[derive(Serialize)]
pub(crate) struct EvictedPayload {
    pub(crate) uri: String,
    pub(crate) size: u64,
    pub(crate) reason: &'static str,
}
