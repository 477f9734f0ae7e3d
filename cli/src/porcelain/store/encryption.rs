//! Encrypts a store, rotates its key, or decrypts it. Keys are wrapped before the first file is
//! rewritten, and obsolete ones are deleted after the last.

use std::path::Path;

use age::secrecy::SecretString;
use turntree::local::{open_repository, random_bytes};
use turntree::store::{EncryptionChange, StoreCipher, StoreKey, StoreKeys};
use turntree::{Error, ErrorKind};

use crate::program::age_keys::Sealing;
use crate::program::identity::{OwnKey, own_public_key};
use crate::program::store_keys::{
    self, Holder, KeyChange, Unlocked, check_name, holders, new_key, remove_all, unwrap, wrap,
};
use crate::view::error::{Failure, Result};
use crate::view::output::note;

/// The holders of a new key, known before anything is written.
pub(crate) struct FirstHolders {
    holders: Vec<Holder>,
    passphrase: Option<SecretString>,
}

impl FirstHolders {
    /// Asks for a passphrase if requested, and creates the user's own key if it is needed.
    pub(crate) fn of(sealing: &Sealing) -> Result<Self> {
        Ok(Self { passphrase: sealing.chosen_passphrase()?, holders: first_holders(sealing)? })
    }
}

/// Encrypts the store in `dir`, which exists and may have been partially encrypted before. Returns
/// the rewritten files and the name of the key.
pub(crate) fn encrypt(
    dir: &Path,
    sealing: &Sealing,
    first: Option<FirstHolders>,
    dry_run: bool,
) -> Result<(EncryptionChange, Option<String>)> {
    let _change = KeyChange::begin(dir)?;
    let repo = match open_repository(dir) {
        Err(error) if error.kind() == ErrorKind::Encrypted => return resume(dir, sealing, dry_run),
        opened => opened?,
    };
    if dry_run {
        // Any key will do for counting: no file is encrypted with it.
        let plan = repo
            .store()
            .plan_encryption(Some(StoreKey::of(StoreCipher::fastest(), Default::default())))?;
        return Ok((plan, None));
    }
    let FirstHolders { holders, passphrase } = match first {
        Some(first) => first,
        None => FirstHolders::of(sealing)?,
    };
    // Deletes the wrapped keys of an earlier attempt that failed before it encrypted anything.
    remove_all(dir)?;
    let key = new_key()?;
    wrap(dir, &holders, &key.into(), passphrase.as_ref())?;
    if passphrase.is_none() && unwrap(dir, false).is_err() {
        note("none of your own keys opens this store from now on: only the given keys do");
    }
    let change = repo.store().change_encryption(Some(key), random_bytes())?;
    Ok((change, Some(key.name())))
}

/// Resumes an unfinished encryption.
fn resume(
    dir: &Path,
    sealing: &Sealing,
    dry_run: bool,
) -> Result<(EncryptionChange, Option<String>)> {
    if sealing.is_asked_for() {
        let message = format!("the store in {} has its keys already", dir.display());
        let hint = "'turntree key add' adds one";
        return Err(Failure::hinted(Error::invalid(message), hint));
    }
    let Unlocked { repo, keys, .. } = store_keys::unlock(dir, true)?;
    let plan = repo.store().plan_encryption(Some(keys.newest))?;
    if plan == EncryptionChange::default() && keys.previous.is_none() {
        let message = format!("the store in {} is encrypted already", dir.display());
        return Err(Error::invalid(message).into());
    }
    let name = Some(keys.newest.name());
    if dry_run {
        return Ok((plan, name));
    }
    Ok((repo.store().change_encryption(Some(keys.newest), random_bytes())?, name))
}

/// The holders of the key of a new encryption.
fn first_holders(sealing: &Sealing) -> Result<Vec<Holder>> {
    if sealing.passphrase || sealing.passphrase_file.is_some() {
        return Ok(vec![Holder { name: "passphrase".into(), public: None }]);
    }
    if sealing.encrypt_to.is_empty() {
        let OwnKey { public, made } = own_public_key()?;
        if let Some(path) = made {
            note(&format!(
                "made your secret key in {}: keep a copy of it elsewhere",
                path.display()
            ));
        }
        return Ok(vec![Holder { name: "own".into(), public: Some(public) }]);
    }
    let public = sealing.recipients()?.into_iter();
    let named = public.map(|public| {
        let text = public.to_string();
        Holder { name: text.chars().take(12).collect(), public: Some(public) }
    });
    Ok(named.collect())
}

/// Adds a holder of the store's key.
pub(crate) fn add_holder(dir: &Path, name: &str, sealing: &Sealing) -> Result<()> {
    check_name(name)?;
    let passphrase = sealing.chosen_passphrase()?;
    let _change = KeyChange::begin(dir)?;
    let Unlocked { keys, .. } = encrypted(dir)?;
    if holders(dir)?.iter().any(|holder| holder.name == name) {
        return Err(Error::invalid(format!("there is a key '{name}' already")).into());
    }
    let public = match sealing.recipients()?.as_slice() {
        [] if passphrase.is_some() => None,
        [public] => Some(public.clone()),
        [] => {
            let message =
                "whose key is it? expected --encrypt-to, --passphrase or --passphrase-file";
            return Err(Error::invalid(message).into());
        }
        many => {
            let message = format!("expected one public key for '{name}', found {}", many.len());
            return Err(Error::invalid(message).into());
        }
    };
    wrap(dir, &[Holder { name: name.to_owned(), public }], &keys, passphrase.as_ref())
}

/// Deletes the wrapped key of a holder; the store keeps its key.
pub(crate) fn remove_holder(dir: &Path, name: &str) -> Result<()> {
    let _change = KeyChange::begin(dir)?;
    store_keys::remove(dir, name)
}

/// Gives the store a new key, wrapped for the holders that `stays` selects, and rewrites every
/// file.
pub(crate) fn rotate(
    dir: &Path,
    sealing: &Sealing,
    stays: impl Fn(&Holder) -> bool,
) -> Result<(EncryptionChange, Option<String>)> {
    if !sealing.encrypt_to.is_empty() {
        let message = "a rotation keeps the holders of keys, but --encrypt-to names a new one";
        return Err(Failure::hinted(Error::invalid(message), "'turntree key add' adds one"));
    }
    let chosen = sealing.chosen_passphrase()?;
    let _change = KeyChange::begin(dir)?;
    let Unlocked { repo, keys, passphrase, .. } = encrypted(dir)?;
    let (kept, gone): (Vec<Holder>, Vec<Holder>) = holders(dir)?.into_iter().partition(stays);
    if kept.is_empty() {
        let message =
            "the last key of a store cannot be removed: without it the store cannot be opened";
        return Err(Error::invalid(message).into());
    }
    let passphrase = chosen.or(passphrase);
    let with_passphrase = kept.iter().filter(|holder| holder.public.is_none()).count();
    if with_passphrase > 1 {
        let message = format!(
            "{with_passphrase} keys are passphrases, and all would become the same: remove all but one first, with 'turntree key rm --keep-key'"
        );
        return Err(Error::invalid(message).into());
    }
    let both = match keys.previous {
        // Finishes an unfinished rotation first, with its key.
        Some(_) => keys,
        None => StoreKeys { newest: new_key()?, previous: Some(keys.newest) },
    };
    wrap(dir, &kept, &both, passphrase.as_ref())?;
    for holder in gone {
        store_keys::remove(dir, &holder.name)?;
    }
    let change = repo.store().change_encryption(Some(both.newest), random_bytes())?;
    wrap(dir, &kept, &both.newest.into(), passphrase.as_ref())?;
    Ok((change, Some(both.newest.name())))
}

/// The files that [`rotate`] would rewrite.
pub(crate) fn plan_rotation(dir: &Path) -> Result<EncryptionChange> {
    // No file is encrypted with a key that does not exist yet.
    let no_key = StoreKey::of(StoreCipher::fastest(), Default::default());
    Ok(encrypted(dir)?.repo.store().plan_encryption(Some(no_key))?)
}

/// Decrypts every file of the store.
pub(crate) fn decrypt(dir: &Path, dry_run: bool) -> Result<(EncryptionChange, Option<String>)> {
    let _change = KeyChange::begin(dir)?;
    if store_keys::has_keys(dir) && !dry_run && open_repository(dir).is_ok() {
        // All files were decrypted before, or none was encrypted yet.
        remove_all(dir)?;
        return Ok((EncryptionChange::default(), None));
    }
    let Unlocked { repo, .. } = encrypted(dir)?;
    if dry_run {
        return Ok((repo.store().plan_encryption(None)?, None));
    }
    let change = repo.store().change_encryption(None, random_bytes())?;
    remove_all(dir)?;
    Ok((change, None))
}

/// Opens the store in `dir`, which must be encrypted.
fn encrypted(dir: &Path) -> Result<Unlocked> {
    match open_repository(dir) {
        Err(error) if error.kind() == ErrorKind::Encrypted => store_keys::unlock(dir, true),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let message = format!("the store in {} is not encrypted", dir.display());
            Err(Failure::hinted(Error::invalid(message), "'turntree init --encrypt' encrypts it"))
        }
    }
}
