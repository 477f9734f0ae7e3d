//! Names payloads by their content, like ContextChef.

use bytes::Bytes;
use md5::Md5;
use sha2::{Digest, Sha256};
use turntree::repo::vfs::{NameDigest, NewPayload, VfsUri};

/// Number of SHA-256 bytes in the name of a payload.
const NAME_BYTES: usize = 8;

/// The relation between the name of a payload and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCheck {
    /// The name is a hash of the content.
    Matches,
    /// The name has the form of a hash, but the content has another hash.
    Differs,
    /// The name is not a hash.
    NotHash,
}

/// Returns a payload named by its content: by the first 16 hex digits of its SHA-256, like
/// ContextChef since 3.7, or by all 64 if another content has that name.
#[must_use]
pub fn named_by_content(content: Bytes) -> NewPayload {
    let digest = Sha256::digest(&content);
    let uri = VfsUri::of_digest(digest.get(..NAME_BYTES).unwrap_or(&digest));
    NewPayload { content, uri, otherwise: Some(VfsUri::of_digest(&digest)) }
}

/// Compares the name of a payload with the hash of `content`, if the name is a hash.
#[must_use]
pub fn check_name(uri: &VfsUri, content: &[u8]) -> NameCheck {
    let fits = match uri.digest() {
        Some(NameDigest::Sha256(digits)) => {
            VfsUri::of_digest(&Sha256::digest(content)).path().starts_with(&format!("vfs_{digits}"))
        }
        Some(NameDigest::Md5(digits)) => {
            VfsUri::of_digest(&Md5::digest(content)).path().starts_with(&format!("vfs_{digits}"))
        }
        None => return NameCheck::NotHash,
    };
    if fits { NameCheck::Matches } else { NameCheck::Differs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_names_match_upstream() {
        // The hash of a well-known text.
        let new = named_by_content(Bytes::from_static(b"abc"));
        assert_eq!(new.uri.as_str(), "context://vfs/vfs_ba7816bf8f01cfea.txt");
        for uri in [&new.uri, new.otherwise.as_ref().unwrap()] {
            assert_eq!(check_name(uri, b"abc"), NameCheck::Matches);
            assert_eq!(check_name(uri, b"abd"), NameCheck::Differs);
        }
        let legacy: VfsUri = "vfs_1772442000000_5d41402a.txt".parse().unwrap();
        assert_eq!(check_name(&legacy, b"hello"), NameCheck::Matches);
        assert_eq!(check_name(&legacy, b"hallo"), NameCheck::Differs);
        let note: VfsUri = "context://notes/plan".parse().unwrap();
        assert_eq!(check_name(&note, b"x"), NameCheck::NotHash);
    }
}
