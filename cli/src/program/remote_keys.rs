//! The keys of encrypted remotes: reads them, unwraps them with the user's keys, and wraps them for
//! members.

use std::io::Write;
use std::sync::Arc;

use age::{Encryptor, Recipient, x25519};
use bytes::Bytes;
use turntree::local::random_bytes;
use turntree::transfer::remote::{
    Bucket, Got, KeysDocument, NewKeys, Put, RemoteId, RemoteKeys, SECRET_BYTES, SealedBucket,
    Version, not_a_member,
};
use turntree::{Error, ErrorKind};

use super::identity::{IDENTITY, identities_of_command, identities_of_files, own_identity};
use super::store_keys::decrypt;
use crate::view::error::{Failure, Result};

/// The keys document of a remote, with its version.
pub(crate) struct FoundKeys {
    pub(crate) document: KeysDocument,
    version: Version,
}

impl FoundKeys {
    /// The document as text, as a store records it.
    pub(crate) fn text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.document.encode()?).into_owned())
    }
}

/// Reads the keys of a remote; `None` if it has none, which means that it is not encrypted.
pub(crate) fn read(bucket: &dyn Bucket, id: &RemoteId) -> Result<Option<FoundKeys>> {
    match bucket.get(&KeysDocument::key()?, None, None)? {
        Got::Bytes { bytes, version, size } if bytes.len() as u64 == size => {
            let document = KeysDocument::decode(&bytes, id)?;
            Ok(Some(FoundKeys { document, version }))
        }
        Got::Bytes { .. } => {
            let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            Err(Error::io("read the keys of the remote", error).into())
        }
        Got::Missing | Got::Same => Ok(None),
    }
}

/// Returns the remote whose keys are in a bucket, even if its root was not created yet.
pub(crate) fn remote_of_keys(bucket: &dyn Bucket) -> Result<Option<RemoteId>> {
    match bucket.get(&KeysDocument::key()?, None, None)? {
        Got::Bytes { bytes, .. } => Ok(Some(KeysDocument::remote_in(&bytes)?)),
        Got::Missing | Got::Same => Ok(None),
    }
}

/// Unwraps keys with the user's keys; this proves that the user is a member.
pub(crate) fn unwrap(document: &KeysDocument, remote: &str) -> Result<RemoteKeys> {
    let wrapped = document.wrapped_bytes()?;
    // A key store may prompt the user, so the command runs only if no file has the key.
    for identities in [identities_of_files as fn() -> _, identities_of_command] {
        if let Some(text) = decrypt(&wrapped, &identities()?, false) {
            let keys = RemoteKeys::from_text(&text).ok_or_else(|| {
                Error::malformed(format!("the keys of {remote}"), "secrets of epochs")
            })?;
            document.verify(&keys)?;
            return Ok(keys);
        }
    }
    let own = own_identity().map(|path| path.display().to_string()).unwrap_or_default();
    let hint = format!(
        "a member adds your public key with 'turntree remote members NAME add KEY'; secret keys are in {own}, or named in {IDENTITY}"
    );
    Err(Failure::hinted(not_a_member(remote), hint))
}

/// The content of a keys document to write.
pub(crate) struct Wanted<'a> {
    pub(crate) id: RemoteId,
    pub(crate) before: Option<&'a FoundKeys>,
    pub(crate) members: Vec<String>,
    pub(crate) is_pending: bool,
}

/// Wraps keys for members and writes them, over the keys that were found.
///
/// # Errors
/// `Conflict` when another user has changed them.
pub(crate) fn write(
    bucket: &dyn Bucket,
    wanted: Wanted<'_>,
    keys: &RemoteKeys,
) -> Result<FoundKeys> {
    let Wanted { id: remote, before, members, is_pending } = wanted;
    let (wrapped, push) = (wrap(keys, &members)?, random_bytes());
    let before_document = before.map(|found| &found.document);
    let new =
        NewKeys { remote, before: before_document, is_pending, members, wrapped: &wrapped, push };
    let document = KeysDocument::new(new, keys)?;
    let (key, bytes) = (KeysDocument::key()?, Bytes::from(document.encode()?));
    let put = match before {
        Some(before) => bucket.put_over(&key, bytes, &before.version)?,
        None => bucket.put_new(&key, bytes)?,
    };
    if let Put::Done(version) = put {
        return Ok(FoundKeys { document, version });
    }
    // The write may have been sent twice, or its answer lost.
    match read(bucket, &remote)? {
        Some(found) if found.document.push == document.push => Ok(found),
        _ => {
            let message = "the keys of the remote were not written: another client changed them, or the remote did not answer";
            Err(Failure::hinted(Error::new(ErrorKind::Conflict, message), "run it again"))
        }
    }
}

/// A bucket that encrypts and decrypts with these keys.
pub(crate) fn sealed(
    bucket: Arc<dyn Bucket>,
    document: &KeysDocument,
    keys: RemoteKeys,
) -> SealedBucket {
    SealedBucket::new(bucket, keys, document.is_pending, random_bytes)
}

/// A random secret.
pub(crate) fn new_secret() -> Result<[u8; SECRET_BYTES]> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::getrandom(&mut bytes).map_err(|error| {
        Error::io("generate a secret", std::io::Error::other(error.to_string()))
    })?;
    Ok(bytes)
}

fn wrap(keys: &RemoteKeys, members: &[String]) -> Result<Vec<u8>> {
    let recipients: Vec<x25519::Recipient> = members
        .iter()
        .map(|member| {
            let bad = |error| Error::invalid(format!("{member} is not a public key: {error}"));
            Ok(member.parse().map_err(bad)?)
        })
        .collect::<Result<_>>()?;
    let encryptor =
        Encryptor::with_recipients(recipients.iter().map(|recipient| recipient as &dyn Recipient))
            .map_err(|error| Error::invalid("wrap the keys").with_source(error))?;
    let failed = |error| Error::io("wrap the keys", error);
    let mut bytes = Vec::new();
    let mut sealed = encryptor.wrap_output(&mut bytes).map_err(failed)?;
    sealed.write_all(keys.to_text().as_bytes()).map_err(failed)?;
    sealed.finish().map_err(failed)?;
    Ok(bytes)
}
