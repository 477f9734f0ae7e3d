//! The key of an encrypted store, wrapped for each holder: `keys/NAME.age` in the store.
//!
//! A wrapped key is an age file of at most three lines, so the age program can decrypt it too.
//! `NAME.copy` is a second copy, since a store without its wrapped keys is lost. `NAME.pub` is the
//! public key that it is wrapped for; a key wrapped with a passphrase has no such file.

use std::fs::{self, File};
use std::io::{ErrorKind as IoErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use age::secrecy::SecretString;
use age::{Decryptor, Encryptor, Identity, x25519};
use turntree::local::{open_encrypted, open_repository};
use turntree::platform::{lock_folder, private_folders};
use turntree::repo::Repository;
use turntree::store::{KEYS_DIR, STORE_KEY_BYTES, StoreCipher, StoreKey, StoreKeys};
use turntree::workspace::{read_regular, read_regular_text};
use turntree::{Error, ErrorKind};

use super::age_keys::{PASSPHRASE, ask, of_passphrase, passphrase_of_environment};
use super::identity::{
    IDENTITY, IDENTITY_COMMAND, identities_of_command, identities_of_files, own_identity,
};
use super::private_file::{sync, write_durably};
use crate::view::error::{Failure, Result};

/// The suffixes of a file with a wrapped key, and of its copy.
const WRAPPED: &str = ".age";
const COPY: &str = ".copy";

/// Maximum bytes of a file with a wrapped key.
const MAX_BYTES: u64 = 64 << 10;

/// How often to try to open a store whose key changes concurrently.
const MAX_ATTEMPTS: u32 = 4;

/// The keys that this process has unwrapped with a passphrase or the output of a command. A server
/// opens its store many times: the user is asked once, and the passphrase's key derivation, which
/// takes a second, runs once. A rewrapped key has other bytes, so the cache misses.
static KNOWN: Mutex<Vec<KnownKey>> = Mutex::new(Vec::new());

/// The bytes of a wrapped key, and its content.
#[derive(Clone)]
struct KnownKey {
    wrapped: Vec<u8>,
    keys: StoreKeys,
    passphrase: Option<SecretString>,
}

/// A holder of a store's key.
pub(crate) struct Holder {
    /// The name of the files.
    pub(crate) name: String,
    /// The public key; `None` for a passphrase.
    pub(crate) public: Option<x25519::Recipient>,
}

/// An opened store, with the keys to open it again.
pub(crate) struct Unlocked {
    pub(crate) repo: Repository,
    pub(crate) keys: StoreKeys,
    /// The holder whose key opened it.
    pub(crate) holder: String,
    pub(crate) passphrase: Option<SecretString>,
}

/// The lock for changing the keys of a store; one process holds it at a time.
pub(crate) struct KeyChange {
    /// Closing it releases the lock.
    _folder: File,
}

impl KeyChange {
    /// Locks the keys of the store in `dir`. Taken before the key is unwrapped, so that no process
    /// wraps a key that was replaced.
    pub(crate) fn begin(dir: &Path) -> Result<Self> {
        let failed = |error| Error::io(format!("lock {}", dir.display()), error);
        match lock_folder(dir).map_err(failed)? {
            Some(folder) => Ok(Self { _folder: folder }),
            None => {
                let message =
                    format!("another command changes the keys of the store in {}", dir.display());
                let error = Error::new(ErrorKind::Locked, message);
                Err(Failure::hinted(error, "run it again after the other command has ended"))
            }
        }
    }
}

/// Returns true if the store in `dir` has wrapped keys.
pub(crate) fn has_keys(dir: &Path) -> bool {
    dir.join(KEYS_DIR).is_dir()
}

/// Opens the store in `dir`, with its key if it is encrypted. With `may_ask`, asks for a passphrase
/// at the terminal.
pub(crate) fn open(dir: &Path, may_ask: bool) -> Result<Repository> {
    match open_repository(dir) {
        Err(error) if error.kind() == ErrorKind::Encrypted => Ok(unlock(dir, may_ask)?.repo),
        opened => Ok(opened?),
    }
}

/// Opens an encrypted store.
///
/// While another command changes its key, the unwrapped key may be outdated: then it is unwrapped
/// again.
pub(crate) fn unlock(dir: &Path, may_ask: bool) -> Result<Unlocked> {
    let mut attempt = 1;
    let (repo, Unwrapped { keys, holder, passphrase }) = loop {
        let unwrapped = unwrap(dir, may_ask)?;
        match open_encrypted(dir, unwrapped.keys) {
            Err(error) if error.kind() == ErrorKind::Encrypted && attempt < MAX_ATTEMPTS => {
                attempt += 1;
            }
            opened => break (opened?, unwrapped),
        }
    };
    // An unfinished rotation has wrapped more keys than the store uses, and holders may know them.
    let keys = repo.store().keys().copied().unwrap_or(keys);
    Ok(Unlocked { repo, keys, holder, passphrase })
}

/// The content of a wrapped key, and the holder whose key opened it.
pub(crate) struct Unwrapped {
    pub(crate) keys: StoreKeys,
    holder: String,
    passphrase: Option<SecretString>,
}

/// Unwraps the key of the store in `dir` with the identities of the environment, the user's own, or
/// a passphrase.
pub(crate) fn unwrap(dir: &Path, may_ask: bool) -> Result<Unwrapped> {
    let wrapped = wrapped(dir)?;
    let opened = |holder: &str, known: KnownKey| {
        let KnownKey { keys, passphrase, .. } = known;
        Unwrapped { keys, holder: holder.to_owned(), passphrase }
    };
    let identities = identities_of_files()?;
    if let Some((holder, known)) = opened_by(&identities, &wrapped)? {
        return Ok(opened(holder, known));
    }
    let is_of = |bytes: &[u8]| known().iter().find(|it| it.wrapped == bytes).cloned();
    if let Some((holder, known)) = wrapped.iter().find_map(|(name, it)| Some((name, is_of(it)?))) {
        return Ok(opened(holder, known));
    }
    // A key store may prompt the user, so the command runs only if nothing else opens the store.
    if let Some((holder, found)) = opened_by(&identities_of_command()?, &wrapped)? {
        known().push(found.clone());
        return Ok(opened(holder, found));
    }
    let with_passphrase = |(_, bytes): &&(String, Vec<u8>)| {
        Decryptor::new(bytes.as_slice()).is_ok_and(|found| found.is_scrypt())
    };
    // A hook or a server must not block on a prompt: it asks only if stdin is a terminal.
    let may_ask = may_ask && std::io::stdin().is_terminal();
    let with_passphrase: Vec<_> = wrapped.iter().filter(with_passphrase).collect();
    // A key that was rotated since is wrapped with the same passphrase.
    let at_hand = || {
        let given = || known().iter().rev().find_map(|key| key.passphrase.clone());
        passphrase_of_environment().or_else(given)
    };
    // Without a terminal, the error below lists the alternatives.
    let asked = || {
        let may_ask = may_ask && passphrase_of_environment().is_none();
        may_ask.then(|| ask(&format!("Passphrase of the store {}: ", dir.display())).ok()).flatten()
    };
    let phrases: [&dyn Fn() -> Option<SecretString>; 2] = [&at_hand, &asked];
    for phrase in phrases.iter().filter(|_| !with_passphrase.is_empty()) {
        let Some(phrase) = phrase() else { continue };
        let identities: [Box<dyn Identity>; 1] = [Box::new(of_passphrase(phrase.clone()))];
        for (holder, bytes) in &with_passphrase {
            if let Some(text) = decrypt(bytes, &identities, true) {
                let (keys, passphrase) = (parse(&text, holder)?, Some(phrase.clone()));
                let found = KnownKey { wrapped: bytes.clone(), keys, passphrase };
                known().push(found.clone());
                return Ok(opened(holder, found));
            }
        }
    }
    let mut names: Vec<&str> = wrapped.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    let message = format!(
        "the store in {} is encrypted: its key is wrapped for {}, and none of the keys at hand opens it",
        dir.display(),
        names.join(", ")
    );
    let own = own_identity().map(|path| path.display().to_string()).unwrap_or_default();
    let hint = format!(
        "put the secret key into {own}, name its file in {IDENTITY} or what prints it in {IDENTITY_COMMAND}, or give the passphrase in {PASSPHRASE}"
    );
    Err(Failure::hinted(Error::new(ErrorKind::Encrypted, message), hint))
}

/// The wrapped key that one of these identities opens, with its holder.
fn opened_by<'w>(
    identities: &[Box<dyn Identity>],
    wrapped: &'w [(String, Vec<u8>)],
) -> Result<Option<(&'w str, KnownKey)>> {
    for (holder, bytes) in wrapped {
        if let Some(text) = decrypt(bytes, identities, false) {
            let keys = parse(&text, holder)?;
            return Ok(Some((holder, KnownKey { wrapped: bytes.clone(), keys, passphrase: None })));
        }
    }
    Ok(None)
}

fn known() -> MutexGuard<'static, Vec<KnownKey>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A random key, for the fastest cipher on this machine.
pub(crate) fn new_key() -> Result<StoreKey> {
    let mut bytes = [0; STORE_KEY_BYTES];
    getrandom::getrandom(&mut bytes)
        .map_err(|error| Error::io("generate a key", std::io::Error::other(error.to_string())))?;
    Ok(StoreKey::of(StoreCipher::fastest(), bytes))
}

/// The holders of the store's key in `dir`, by name.
pub(crate) fn holders(dir: &Path) -> Result<Vec<Holder>> {
    let mut wrapped = wrapped(dir)?;
    wrapped.dedup_by(|(a, _), (b, _)| a == b);
    let named = wrapped.into_iter().map(|(name, _)| {
        let path = public_path(dir, &name);
        let public = match read_regular_text(&path, MAX_BYTES) {
            Ok(text) => Some(x25519::Recipient::from_str(text.trim()).map_err(|error| {
                Error::invalid(format!("{}: expected a public key: {error}", path.display()))
            })?),
            Err(error) if error.kind() == IoErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(format!("read {}", path.display()), error).into()),
        };
        Ok(Holder { name, public })
    });
    named.collect()
}

/// Wraps the keys for each holder, and replaces their existing files.
pub(crate) fn wrap(
    dir: &Path,
    holders: &[Holder],
    keys: &StoreKeys,
    passphrase: Option<&SecretString>,
) -> Result<()> {
    let folder = dir.join(KEYS_DIR);
    match private_folders().create(&folder) {
        Err(error) if error.kind() != IoErrorKind::AlreadyExists => {
            return Err(Error::io(format!("make {}", folder.display()), error).into());
        }
        _ => {}
    }
    for holder in holders {
        let encryptor = match (&holder.public, passphrase) {
            (Some(public), _) => Encryptor::with_recipients(std::iter::once(public as _))
                .map_err(|error| Error::invalid("wrap the key").with_source(error))?,
            (None, Some(phrase)) => Encryptor::with_user_passphrase(phrase.clone()),
            (None, None) => {
                let message = format!("the key of '{}' is a passphrase: it is needed", holder.name);
                let hint = format!("give it with --passphrase-file or in {PASSPHRASE}");
                return Err(Failure::hinted(Error::invalid(message), hint));
            }
        };
        let failed = |error| Error::io("wrap the key", error);
        let mut bytes = Vec::new();
        let mut sealed = encryptor.wrap_output(&mut bytes).map_err(failed)?;
        sealed.write_all(keys.to_text().as_bytes()).map_err(failed)?;
        sealed.finish().map_err(failed)?;
        if let Some(public) = &holder.public {
            write_durably(&public_path(dir, &holder.name), format!("{public}\n").as_bytes())?;
        }
        for path in wrapped_paths(dir, &holder.name) {
            write_durably(&path, &bytes)?;
        }
    }
    sync(&folder)?;
    sync(dir)
}

/// Deletes the wrapped key of a holder.
pub(crate) fn remove(dir: &Path, name: &str) -> Result<()> {
    for path in wrapped_paths(dir, name).into_iter().chain([public_path(dir, name)]) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != IoErrorKind::NotFound => {
                return Err(Error::io(format!("remove {}", path.display()), error).into());
            }
            _ => {}
        }
    }
    sync(&dir.join(KEYS_DIR))
}

/// Deletes all wrapped keys, after the store was decrypted.
pub(crate) fn remove_all(dir: &Path) -> Result<()> {
    if !has_keys(dir) {
        return Ok(());
    }
    for (name, _) in wrapped(dir)? {
        remove(dir, &name)?;
    }
    // Other files in it stay.
    let _ = fs::remove_dir(dir.join(KEYS_DIR));
    sync(dir)
}

/// Fails unless this is a valid name of a holder.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with(['.', '-'])
    {
        return Ok(());
    }
    let message =
        format!("'{name}' cannot name a key: expected letters, digits, - _ . @, at most 64");
    Err(Error::invalid(message).into())
}

/// The paths of a wrapped key and its copy.
fn wrapped_paths(dir: &Path, name: &str) -> [PathBuf; 2] {
    [WRAPPED, COPY].map(|end| dir.join(KEYS_DIR).join(format!("{name}{end}")))
}

fn public_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(KEYS_DIR).join(format!("{name}.pub"))
}

/// The wrapped keys with the names of their holders, in order; both copies if they differ.
fn wrapped(dir: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = dir.join(KEYS_DIR);
    let failed = |error| Error::io(format!("read {}", folder.display()), error);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().unwrap_or_default();
        let name = name.strip_suffix(WRAPPED).or_else(|| name.strip_suffix(COPY));
        let Some(name) = name else { continue };
        let info = entry.metadata().map_err(failed)?;
        if !info.is_file() || info.len() > MAX_BYTES {
            continue;
        }
        // If one copy is unreadable, the other one has the key.
        let bytes = read_regular(&entry.path(), MAX_BYTES).unwrap_or_default();
        found.push((name.to_owned(), bytes));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Decrypts a wrapped key, if one of these identities opens it.
pub(super) fn decrypt(
    bytes: &[u8],
    identities: &[Box<dyn Identity>],
    with_passphrase: bool,
) -> Option<String> {
    let decryptor = Decryptor::new(bytes).ok()?;
    if decryptor.is_scrypt() != with_passphrase {
        return None;
    }
    let mut stream = decryptor.decrypt(identities.iter().map(|identity| &**identity)).ok()?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).ok()?;
    Some(text)
}

fn parse(text: &str, holder: &str) -> Result<StoreKeys> {
    StoreKeys::from_text(text).ok_or_else(|| {
        let place = format!("{KEYS_DIR}/{holder}.age");
        Error::malformed(place, "the key of a store").into()
    })
}
