//! JSON blobs with a version: the format of policies and other settings in refs.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

/// The field that is read first, because a newer version may have other fields.
#[derive(Deserialize)]
struct BlobVersion {
    version: u64,
}

/// Decodes a blob of a version up to `newest`; `what` names it in errors.
///
/// # Errors
/// `Unsupported` for a newer version, `Corrupt` for invalid JSON or other fields.
pub(crate) fn decode_versioned<T: DeserializeOwned>(
    what: &str,
    newest: u64,
    bytes: &[u8],
) -> Result<T> {
    // The source error is dropped: it could quote arbitrary bytes of the blob.
    let not_json = |_| Error::malformed(what, "JSON with its fields");
    let BlobVersion { version } = serde_json::from_slice(bytes).map_err(not_json)?;
    if version > newest {
        let message =
            format!("{what} has version {version}: this build knows versions up to {newest}");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    serde_json::from_slice(bytes).map_err(not_json)
}
