//! The records of `offload` and `vfs`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

/// `offload`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Offloaded {
    /// True if it was long enough.
    pub(crate) offloaded: bool,
    /// The replacement, or the text itself. May hold half of a character as an escape.
    #[schemars(with = "String")]
    pub(crate) content: Box<RawValue>,
    /// The URI of the whole text.
    pub(crate) uri: Option<String>,
    /// Its blob.
    pub(crate) blob: Option<String>,
    /// The same, under its name of schema 1.
    #[schemars(skip)]
    pub(crate) id: Option<String>,
    /// The file that it was also written to.
    pub(crate) file: Option<String>,
}

/// `vfs put`.
#[derive(Serialize)]
pub(crate) struct StoredPayload {
    pub(crate) uri: String,
    pub(crate) blob: String,
    /// The same, under its name of schema 1.
    pub(crate) id: String,
    pub(crate) size: u64,
    /// True if it was new to the store.
    pub(crate) new: bool,
}

/// `vfs ls`.
#[derive(Serialize)]
pub(crate) struct Payloads {
    pub(crate) payloads: Vec<Payload>,
    /// Deleted payloads, with reason and time.
    pub(crate) evicted: Vec<Evicted>,
}

/// A payload.
#[derive(Serialize)]
pub(crate) struct Payload {
    pub(crate) uri: String,
    pub(crate) blob: String,
    /// The same, under its name of schema 1.
    pub(crate) id: String,
    pub(crate) size: u64,
    /// `null` for a payload that only the snapshot has.
    pub(crate) created: Option<String>,
    pub(crate) accessed: Option<String>,
    /// True if the given snapshot has it.
    pub(crate) carried: bool,
}

/// A deleted payload.
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
    /// Payloads over a limit, kept because a kept snapshot cites them.
    pub(crate) cited: Vec<EvictedPayload>,
}

/// One payload of an eviction.
#[derive(Serialize)]
pub(crate) struct EvictedPayload {
    pub(crate) uri: String,
    pub(crate) size: u64,
    pub(crate) reason: &'static str,
}
