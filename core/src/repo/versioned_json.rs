//! JSON blobs with a version: the form of policies and of other settings that refs hold.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

/// The field that is read first: a newer version may have other fields.
#[derive(Deserialize)]
struct BlobVersion {
    version: u64,
}

/// Decodes a blob of a version up to `newest`; `what` names it in errors.
///
/// # Errors
/// `Unsupported` for a newer version, `Corrupt` for what is not such a blob.
pub(crate) fn decode_versioned<T: DeserializeOwned>(
    what: &str,
    newest: u64,
    bytes: &[u8],
) -> Result<T> {
    // The cause would quote bytes that may be anything.
    let not_json = |_| Error::malformed(what, "JSON with its fields");
    let BlobVersion { version } = serde_json::from_slice(bytes).map_err(not_json)?;
    if version > newest {
        let message =
            format!("{what} has version {version}: this build knows versions up to {newest}");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    serde_json::from_slice(bytes).map_err(not_json)
}
