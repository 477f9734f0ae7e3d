//! The keys of an encrypted remote: the secret of each epoch, and the document that wraps them for
//! members.
//!
//! ```text
//! keys    {"version":1,"remote":"5f...","generation":3,"epoch":2,"members":["age1...",...],
//!          "wrapped":"<secrets of all epochs, in the format of age, as hex>","push":"...","mac":"..."}
//! ```
//!
//! Removing a member begins a new epoch: later objects are sealed with a secret that was never
//! wrapped for this member. A writer of the bucket without keys could put their own secrets into
//! such a document, so it is authenticated with the newest secret, and must be a successor of the
//! last known document.

use serde::{Deserialize, Serialize};

use super::bucket::Key;
use super::head::{RemoteId, decode, encode};
use super::hex::Hex;
use super::names::Names;
use crate::error::{Error, ErrorKind, Result};
use crate::object::Checksum;

/// Bytes of the secret of an epoch.
pub const SECRET_BYTES: usize = 32;

/// Maximum bytes of the document.
const MAX_KEYS_BYTES: u64 = 1 << 20;

/// Maximum number of epochs; each removal of a member begins one.
const MAX_EPOCHS: usize = 1 << 12;

/// Maximum number of members.
const MAX_MEMBERS: usize = 1_000;

/// Maximum bytes of the public key of a member.
const MAX_MEMBER_BYTES: usize = 200;

const VERSION: u64 = 1;
const PLACE: &str = "the keys of the remote";
const TITLE: &str = "turntree remote keys, version 1";

/// The secrets of all epochs of a remote. Their holder can read everything pushed in these epochs.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteKeys(Vec<[u8; SECRET_BYTES]>);

impl RemoteKeys {
    /// Creates the keys of a new remote from an unguessable secret.
    #[must_use]
    pub fn new(secret: [u8; SECRET_BYTES]) -> Self {
        Self(vec![secret])
    }

    /// Returns the keys with the secret of one more epoch.
    ///
    /// # Errors
    /// `LimitExceeded` if there are too many epochs.
    pub fn with_epoch(mut self, secret: [u8; SECRET_BYTES]) -> Result<Self> {
        if self.0.len() >= MAX_EPOCHS {
            return Err(Error::limit(
                "epochs of a remote",
                MAX_EPOCHS as u64,
                MAX_EPOCHS as u64 + 1,
            ));
        }
        self.0.push(secret);
        Ok(self)
    }

    /// Returns the newest epoch; the first one is 1.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Returns true if these keys equal `earlier` or extend it by later epochs.
    #[must_use]
    pub fn continues(&self, earlier: &Self) -> bool {
        self.0.starts_with(&earlier.0)
    }

    pub(super) fn secret(&self, epoch: u32) -> Option<&[u8; SECRET_BYTES]> {
        let index = usize::try_from(epoch).ok()?.checked_sub(1)?;
        self.0.get(index)
    }

    /// Returns how object keys name sessions. The result is the same in all epochs, so objects keep
    /// their names.
    pub(super) fn names(&self) -> Names {
        let mut derived = Checksum::new("turntree v1 remote names");
        derived.update(self.0.first().map_or(&[][..], |secret| secret));
        Names::Keyed(derived.finish())
    }

    /// Returns the text that is wrapped for members.
    #[must_use]
    pub fn to_text(&self) -> String {
        let lines = self.0.iter().map(|secret| format!("{}\n", Hex(*secret)));
        format!("{TITLE}\n{}", lines.collect::<String>())
    }

    /// Parses the keys from such a text; `None` if it is invalid.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return None;
        }
        let secrets: Option<Vec<_>> = lines.map(|line| Some(Hex::parse(line)?.0)).collect();
        secrets.filter(|all| (1..=MAX_EPOCHS).contains(&all.len())).map(Self)
    }
}

impl std::fmt::Debug for RemoteKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteKeys").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}

/// The members of a remote, and its secrets wrapped for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysDocument {
    version: u64,
    /// The remote.
    pub remote: RemoteId,
    /// Number of these documents, including this one.
    pub generation: u64,
    /// The newest epoch.
    pub epoch: u32,
    /// True while heads are rewritten for this epoch: heads of the previous epoch are still
    /// accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pending: bool,
    /// The public keys of the members, as text.
    pub members: Vec<String>,
    /// The secrets, wrapped for all members, as hex digits.
    pub wrapped: String,
    /// Random id of this document.
    pub push: Hex<16>,
    /// Authenticates the document as written by a member.
    pub mac: Hex<32>,
}

/// The content of a new keys document.
#[derive(Debug)]
pub struct NewKeys<'a> {
    /// The remote.
    pub remote: RemoteId,
    /// The previous document, if there was one.
    pub before: Option<&'a KeysDocument>,
    /// True if heads still have to be rewritten.
    pub is_pending: bool,
    /// The public keys of the members.
    pub members: Vec<String>,
    /// The text of the keys, wrapped for the members.
    pub wrapped: &'a [u8],
    /// Random bytes.
    pub push: [u8; 16],
}

impl KeysDocument {
    /// Creates a document with the given members.
    ///
    /// # Errors
    /// `InvalidInput` or `LimitExceeded` for no members, or too many.
    pub fn new(new: NewKeys<'_>, keys: &RemoteKeys) -> Result<Self> {
        let NewKeys { remote, before, is_pending, members, wrapped, push } = new;
        let generation = before.map_or(0, |before| before.generation);
        let mut document = Self {
            version: VERSION,
            remote,
            generation: generation.saturating_add(1),
            epoch: keys.epoch(),
            is_pending,
            members,
            wrapped: wrapped.iter().map(|byte| format!("{byte:02x}")).collect(),
            push: Hex(push),
            mac: Hex([0; 32]),
        };
        document.mac = document.compute_mac(keys)?;
        document.check().map_err(|expected| Error::invalid(format!("{PLACE}: {expected}")))?;
        Ok(document)
    }

    /// Returns the key of the object.
    ///
    /// # Errors
    /// Cannot fail.
    pub fn key() -> Result<Key> {
        Key::new("keys")
    }

    /// Encodes the document.
    ///
    /// # Errors
    /// `LimitExceeded` if it is too long.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let bytes = encode(self)?;
        match bytes.len() as u64 {
            length if length > MAX_KEYS_BYTES => {
                Err(Error::limit(format!("bytes of {PLACE}"), MAX_KEYS_BYTES, length))
            }
            _ => Ok(bytes),
        }
    }

    /// Decodes a document of this remote. It is not authenticated until [`KeysDocument::verify`].
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a later version.
    pub fn decode(bytes: &[u8], remote: &RemoteId) -> Result<Self> {
        let document: Self = decode(PLACE, MAX_KEYS_BYTES, bytes)?;
        document.check().map_err(|expected| Error::malformed(PLACE, expected))?;
        match document.remote == *remote {
            true => Ok(document),
            false => Err(Error::corrupt(PLACE, remote, document.remote)),
        }
    }

    /// Returns the remote that an encoded document names, unchecked.
    ///
    /// # Errors
    /// Errors of [`KeysDocument::decode`].
    pub fn remote_in(bytes: &[u8]) -> Result<RemoteId> {
        let document: Self = decode(PLACE, MAX_KEYS_BYTES, bytes)?;
        Ok(document.remote)
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        if self.generation == 0 || self.epoch == 0 {
            return Err("a generation and an epoch, from 1 on");
        }
        let is_key = |member: &String| {
            (1..=MAX_MEMBER_BYTES).contains(&member.len())
                && member.chars().all(|c| c.is_ascii_alphanumeric())
        };
        if !(1..=MAX_MEMBERS).contains(&self.members.len()) || !self.members.iter().all(is_key) {
            return Err("public keys of members, at least one");
        }
        Ok(())
    }

    /// Returns the wrapped secrets.
    ///
    /// # Errors
    /// `Corrupt` for invalid hex digits.
    pub fn wrapped_bytes(&self) -> Result<Vec<u8>> {
        let pairs = self.wrapped.as_bytes().chunks(2);
        let byte = |pair: &[u8]| Some(Hex::<1>::parse(std::str::from_utf8(pair).ok()?)?.0[0]);
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        bytes.ok_or_else(|| Error::malformed(PLACE, "wrapped keys as hex digits"))
    }

    /// Refuses a document whose writer did not have its keys.
    ///
    /// # Errors
    /// `Corrupt` if it was not authenticated by the newest secret.
    pub fn verify(&self, keys: &RemoteKeys) -> Result<()> {
        if self.epoch == keys.epoch() && self.mac == self.compute_mac(keys)? {
            return Ok(());
        }
        Err(Error::malformed(PLACE, "a document that a member wrote"))
    }

    /// Refuses a document that cannot be a successor of a known one, each with its keys.
    ///
    /// # Errors
    /// `Corrupt` if the generation is not later, or the secrets do not extend the known ones.
    pub fn check_after(&self, keys: &RemoteKeys, known: &Self, before: &RemoteKeys) -> Result<()> {
        let is_later = self.generation > known.generation || self == known;
        if is_later && keys.continues(before) {
            return Ok(());
        }
        let expected = format_args!("keys of generation {} or later", known.generation);
        let found = format_args!("generation {} with different secrets", self.generation);
        match is_later {
            true => Err(Error::corrupt(PLACE, expected, found)),
            false => {
                Err(Error::corrupt(PLACE, expected, format_args!("generation {}", self.generation)))
            }
        }
    }

    fn compute_mac(&self, keys: &RemoteKeys) -> Result<Hex<32>> {
        let secret = keys.secret(keys.epoch()).map_or(&[][..], |secret| secret);
        let unsigned = Self { mac: Hex([0; 32]), ..self.clone() };
        let mut mac = Checksum::new("turntree v1 remote keys");
        mac.update(secret).update(&encode(&unsigned)?);
        Ok(Hex(mac.finish()))
    }
}

/// Returns the error for keys that are wrapped for no identity of this user.
#[must_use]
pub fn not_a_member(remote: &str) -> Error {
    let message = format!("the remote {remote} is encrypted, and not for a key that is at hand");
    Error::new(ErrorKind::Encrypted, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: RemoteId = Hex([7; 16]);

    fn document(keys: &RemoteKeys, before: Option<&KeysDocument>) -> KeysDocument {
        let members = vec!["age1somebody".to_owned()];
        let (wrapped, push) = (&b"wrapped"[..], [1; 16]);
        let new = NewKeys { remote: REMOTE, before, is_pending: false, members, wrapped, push };
        KeysDocument::new(new, keys).unwrap()
    }

    #[test]
    fn keys_round_trip_and_other_texts_are_none() {
        let keys = RemoteKeys::new([1; 32]).with_epoch([2; 32]).unwrap();
        assert_eq!(RemoteKeys::from_text(&keys.to_text()), Some(keys.clone()));
        assert_eq!((keys.epoch(), keys.secret(0), keys.secret(3)), (2, None, None));
        assert!(!format!("{keys:?}").contains("0101"));
        for bad in ["", TITLE, "turntree remote keys, version 2\n00\n"] {
            assert_eq!(RemoteKeys::from_text(bad), None, "{bad}");
        }
        assert_eq!(RemoteKeys::from_text(&format!("{}x", keys.to_text())), None);
    }

    #[test]
    fn a_document_that_no_member_wrote_or_that_goes_back_is_refused() {
        let keys = RemoteKeys::new([1; 32]);
        let first = document(&keys, None);
        let bytes = first.encode().unwrap();
        let read = KeysDocument::decode(&bytes, &REMOTE).unwrap();
        assert_eq!(read, first);
        read.verify(&keys).unwrap();
        assert_eq!(read.wrapped_bytes().unwrap(), b"wrapped");
        assert!(KeysDocument::decode(&bytes, &Hex([8; 16])).is_err());
        let text = String::from_utf8(bytes).unwrap();
        let forged = text.replace("age1somebody", "age1attacker");
        let forged = KeysDocument::decode(forged.as_bytes(), &REMOTE).unwrap();
        assert_eq!(forged.verify(&keys).unwrap_err().kind(), ErrorKind::Corrupt);
        for [from, to] in [["\"epoch\":1", "\"epoch\":0"], ["age1somebody", "age1 x"], ["{", "["]] {
            assert!(KeysDocument::decode(text.replacen(from, to, 1).as_bytes(), &REMOTE).is_err());
        }
        let later_keys = keys.clone().with_epoch([2; 32]).unwrap();
        let later = document(&later_keys, Some(&first));
        later.verify(&later_keys).unwrap();
        later.check_after(&later_keys, &first, &keys).unwrap();
        first.check_after(&keys, &first, &keys).unwrap();
        assert!(first.check_after(&keys, &later, &later_keys).is_err(), "an older one");
        let other_keys = RemoteKeys::new([9; 32]).with_epoch([2; 32]).unwrap();
        let other = document(&other_keys, Some(&first));
        assert!(other.check_after(&other_keys, &first, &keys).is_err(), "another remote");
        assert!(later.verify(&keys).is_err());
    }
}
