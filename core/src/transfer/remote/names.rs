//! Names sessions in object keys, and computes hashes of a remote.

use std::fmt;

use super::hex::Hex;
use crate::object::Checksum;

/// Maximum bytes of a session in a key; a longer name is cut and a hash is appended.
const MAX_SHOWN_BYTES: usize = 120;

/// How object keys name sessions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// By their names.
    Plain,
    /// By a keyed hash, which hides the names.
    Keyed([u8; 32]),
}

impl Names {
    pub(super) fn key_part(self, session: &str) -> String {
        match self {
            Self::Plain => key_part(session),
            Self::Keyed(key) => {
                let mut keyed = Checksum::new("turntree v1 remote session");
                keyed.update(&key).update(session.as_bytes());
                Hex(keyed.finish()).to_string()
            }
        }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Keyed(_) => "Keyed",
        })
    }
}

/// Returns the hash of a document or a bundle.
pub(super) fn hash(bytes: &[u8]) -> Hex<32> {
    let mut checksum = checksum();
    checksum.update(bytes);
    Hex(checksum.finish())
}

/// Begins a hash of a document or a bundle.
pub(super) fn checksum() -> Checksum {
    Checksum::new("turntree v1 remote")
}

/// Encodes a session name as a part of a key: percent-coded; a long name is cut and gets a hash.
fn key_part(session: &str) -> String {
    let mut part = String::new();
    for (at, byte) in session.bytes().enumerate() {
        let is_plain =
            byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || byte == b'.' && at > 0;
        let coded = if is_plain { (byte as char).to_string() } else { format!("%{byte:02X}") };
        if part.len() + coded.len() > MAX_SHOWN_BYTES {
            return format!("{part}%-{}", hash(session.as_bytes()));
        }
        part.push_str(&coded);
    }
    part
}
