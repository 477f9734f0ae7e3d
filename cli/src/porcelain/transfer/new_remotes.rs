//! New remotes of a store: finds or creates the one at a URL, and encrypts it.

use std::path::Path;
use std::sync::Arc;

use turntree::local::random_bytes;
use turntree::repo::{RemoteEntry, Repository, Signature};
use turntree::transfer::remote::{
    Bucket, Hex, RemoteId, RemoteKeys, Survey, find_remote, make_remote,
};
use turntree::{Error, ErrorKind};

use super::remotes::Connection;
use crate::program::age_keys::Sealing;
use crate::program::buckets::{absolute_url, make_bucket, open_bucket};
use crate::program::identity::{OwnKey, own_public_key};
use crate::program::remote_keys::{self, FoundKeys, Wanted, new_secret};
use crate::view::error::{Failure, Result};

/// A remote that was added to a store.
pub(crate) struct AddedRemote {
    pub(crate) entry: RemoteEntry,
    /// True if there was none at the URL before.
    pub(crate) is_new: bool,
}

/// Adds the remote at a URL to a store that has none of this name, and creates it if it is missing.
/// A new one is encrypted for `members` and the user, if `members` is given. `on_new_key` receives the
/// file with the user's secret key as soon as it was created, since the rest may fail.
///
/// # Errors
/// `InvalidInput` for members of a remote that exists without encryption; `Encrypted` if the user has
/// no member's key.
pub(crate) fn add(
    repo: &Repository,
    name: &str,
    url: &str,
    members: Option<&[String]>,
    stamp: &Signature,
    on_new_key: &mut dyn FnMut(&Path),
) -> Result<AddedRemote> {
    let bucket = make_bucket(url)?;
    let url = absolute_url(url)?;
    let (id, is_new, found) = found_or_made(&*bucket, name, members, stamp, on_new_key)?;
    let keys = found.map(|found| found.text()).transpose()?;
    let entry = RemoteEntry { url, id: id.to_string(), lazy: false, auto: false, keys };
    record(repo, name, entry.clone(), stamp)?;
    Ok(AddedRemote { entry, is_new })
}

/// A remote that exists, before a store has it.
pub(crate) struct FoundRemote {
    survey: Survey,
    url: String,
    id: RemoteId,
    keys: Option<String>,
    bucket: Box<dyn Bucket>,
}

impl FoundRemote {
    /// Finds the remote at a URL, which a store will call `name`. Creates nothing.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Encrypted` if the user has no member's key.
    pub(crate) fn at(url: &str, name: &str) -> Result<Self> {
        let url = absolute_url(url)?;
        let bucket = open_bucket(&url)?;
        let id = find_remote(&*bucket)?.ok_or_else(|| {
            let missing = Error::new(ErrorKind::NotFound, format!("there is no remote in {url}"));
            Failure::hinted(missing, "'turntree remote add' makes one")
        })?;
        let survey = Survey::of(&*bucket)?;
        let keys = match survey.is_encrypted {
            true => remote_keys::read(&*bucket, &id)?,
            false => None,
        };
        let (keys, bucket): (_, Box<dyn Bucket>) = match keys {
            None => (None, bucket),
            Some(found) => {
                let keys = remote_keys::unwrap(&found.document, name)?;
                let sealed = remote_keys::sealed(Arc::from(bucket), &found.document, keys);
                (Some(found.text()?), Box::new(sealed))
            }
        };
        Ok(Self { survey, url, id, keys, bucket })
    }

    /// Records the remote in a store, and connects to it.
    pub(crate) fn adopt(
        self,
        repo: &Repository,
        name: &str,
        lazy: bool,
        stamp: &Signature,
    ) -> Result<(Connection, Survey)> {
        let Self { survey, url, id, keys, bucket } = self;
        let entry = RemoteEntry { url, id: id.to_string(), lazy, auto: false, keys };
        record(repo, name, entry, stamp)?;
        Ok((Connection::new(name, id, bucket, lazy)?, survey))
    }
}

fn record(repo: &Repository, name: &str, entry: RemoteEntry, stamp: &Signature) -> Result<()> {
    let mut remotes = repo.remotes()?;
    remotes.insert(name.to_owned(), entry);
    let mut change = repo.begin();
    change.set_remotes(&remotes)?;
    change.commit(stamp, &format!("add the remote {name}"))?;
    Ok(())
}

/// Parses public keys.
pub(crate) fn public_keys(named: &[String]) -> Result<Vec<String>> {
    let sealing = Sealing { encrypt_to: named.to_vec(), passphrase: false, passphrase_file: None };
    Ok(sealing.recipients()?.iter().map(ToString::to_string).collect())
}

/// Finds or creates the remote in a bucket. Returns true if it is new, and its keys if it is encrypted.
fn found_or_made(
    bucket: &dyn Bucket,
    name: &str,
    members: Option<&[String]>,
    stamp: &Signature,
    on_new_key: &mut dyn FnMut(&Path),
) -> Result<(RemoteId, bool, Option<FoundKeys>)> {
    if let Some(id) = remote_keys::remote_of_keys(bucket)? {
        let found = remote_keys::read(bucket, &id)?;
        found.as_ref().map(|found| remote_keys::unwrap(&found.document, name)).transpose()?;
        expect_id(id, make_remote(bucket, id, stamp)?)?;
        return Ok((id, false, found));
    }
    let found = find_remote(bucket)?;
    let Some(members) = members else {
        return Ok(match found {
            Some(id) => (id, false, None),
            None => (make_remote(bucket, Hex(random_bytes()), stamp)?, true, None),
        });
    };
    if found.is_some() {
        let message = "there is a remote already, which is not encrypted";
        return Err(Failure::hinted(Error::invalid(message), "make a new one elsewhere"));
    }
    let mut all = public_keys(members)?;
    let OwnKey { public, made } = own_public_key()?;
    if let Some(path) = made {
        on_new_key(&path);
    }
    all.insert(0, public.to_string());
    all.dedup();
    let (id, keys) = (Hex(random_bytes()), RemoteKeys::new(new_secret()?));
    // Keys are written first, so that no client takes it for an unencrypted remote.
    let wanted = Wanted { id, before: None, members: all, is_pending: false };
    let found = remote_keys::write(bucket, wanted, &keys)?;
    expect_id(id, make_remote(bucket, id, stamp)?)?;
    Ok((id, true, Some(found)))
}

fn expect_id(expected: RemoteId, found: RemoteId) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(Error::corrupt("the root of the remote", expected, found).into()),
    }
}

/// The advice on a secret key that was created in a file.
pub(crate) fn about_new_key(path: &Path) -> String {
    format!("made your secret key in {}: keep a copy of it elsewhere", path.display())
}
