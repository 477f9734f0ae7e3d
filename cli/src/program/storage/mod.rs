//! Object storage as the bucket of a remote: S3 and compatible services, GCS and Azure.
//!
//! ```text
//! bucket    the verbs of a remote in the words of an object storage; what an answer says of a write
//! services  options, environment and profile become a client of one of the three
//! http      requests go out, with bounds on what comes back
//! relay     a request of another program goes out, and the answer is read while it comes
//! ```
//!
//! `object_store` signs requests, retries them and finds credentials; `ureq` sends them. Calls
//! block: a push or a fetch sends one request at a time.

mod bucket;
mod failure;
mod http;
mod place;
mod profile;
pub(crate) mod relay;
mod services;
mod trial;

use turntree::Result;
use turntree::transfer::remote::Bucket;

use self::bucket::StorageBucket;
use self::place::Place;

/// Returns true for the schemes of object storage URLs.
pub(crate) fn is_storage(scheme: &str) -> bool {
    place::Service::of(scheme).is_some()
}

/// Opens the bucket of a URL. No request is sent yet.
///
/// # Errors
/// `InvalidInput` for an invalid URL, `Unsupported` for an unknown kind of credentials.
pub(crate) fn open(url: &str) -> Result<StorageBucket> {
    StorageBucket::open(&Place::parse(url)?)
}

/// Opens a bucket for a new remote, after a test of its conditional writes.
///
/// # Errors
/// `Unsupported` if it ignores the condition of a write; the errors of [`open`]; `Io`
/// without an answer.
pub(crate) fn open_tried(url: &str) -> Result<Box<dyn Bucket>> {
    let bucket = open(url)?;
    trial::expect_conditional_writes(&bucket, url)?;
    Ok(Box::new(bucket))
}
