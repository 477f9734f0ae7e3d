//! A PostgreSQL database as the bucket of a remote.
//!
//! ```text
//! place     the URL: server, database and prefix
//! password  where a password comes from, since a URL has none
//! bucket    the verbs of a remote as statements on two tables
//! tls       certificates and versions of encrypted connections
//! failure   the outcome of a failed write, and messages for people
//! ```

mod bucket;
mod failure;
mod password;
mod place;
mod tls;

use turntree::Result;
use turntree::transfer::remote::Bucket;

use self::bucket::DatabaseBucket;
use self::place::Place;

/// Returns true for the schemes of database URLs.
pub(crate) fn is_database(scheme: &str) -> bool {
    place::SCHEMES.contains(&scheme)
}

/// Opens the bucket of a URL. The database is contacted on first use.
///
/// # Errors
/// `InvalidInput` for an invalid URL.
pub(crate) fn open(url: &str) -> Result<Box<dyn Bucket>> {
    Ok(Box::new(DatabaseBucket::open(Place::parse(url)?)))
}

/// Opens a bucket for a new remote, and creates its tables unless they exist.
///
/// # Errors
/// The errors of [`open`]; `Io` if the database cannot be reached or refuses the tables.
pub(crate) fn open_made(url: &str) -> Result<Box<dyn Bucket>> {
    let bucket = DatabaseBucket::open(Place::parse(url)?);
    bucket.make_tables()?;
    Ok(Box::new(bucket))
}
