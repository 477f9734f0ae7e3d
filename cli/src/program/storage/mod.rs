//! Object storage as the bucket of a remote: S3 and all that speaks it, GCS and Azure.
//!
//! ```text
//! bucket    the verbs of a remote in the words of an object storage; what an answer says of a write
//! services  options, environment and profile become a client of one of the three
//! http      requests go out, with bounds on what comes back
//! ```
//!
//! `object_store` signs, repeats what may be repeated and finds credentials; `ureq` sends. Calls block: one
//! request at a time is what a push or a fetch has to do.

mod bucket;
mod failure;
mod http;
mod place;
mod profile;
mod services;
mod trial;

use turntree::Result;
use turntree::transfer::remote::Bucket;

use self::bucket::StorageBucket;
use self::place::Place;

/// The schemes of URLs that name object storage.
pub(crate) fn is_storage(scheme: &str) -> bool {
    place::Service::of(scheme).is_some()
}

/// The way to the bucket that a URL names. Nothing is asked yet.
///
/// # Errors
/// `InvalidInput` for a URL that is none, `Unsupported` for credentials of a kind that is not known.
pub(crate) fn open(url: &str) -> Result<StorageBucket> {
    StorageBucket::open(&Place::parse(url)?)
}

/// The way to a bucket that may hold a remote: its conditional writes were tried.
///
/// # Errors
/// `Unsupported` when it writes over what it was asked not to; those of [`open`]; `Io` without an answer.
pub(crate) fn open_tried(url: &str) -> Result<Box<dyn Bucket>> {
    let bucket = open(url)?;
    trial::expect_conditional_writes(&bucket, url)?;
    Ok(Box::new(bucket))
}
