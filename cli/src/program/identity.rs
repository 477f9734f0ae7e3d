//! The user's secret keys: from a file, from files named by the environment, or from a command that
//! prints them, such as a system key store.

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use age::secrecy::ExposeSecret as _;
use age::{Identity, x25519};
use etcetera::BaseStrategy;
use turntree::Error;
use turntree::platform::private_folders;
use turntree::workspace::read_regular_text;

use super::age_keys::{identities_in, parse_identities};
use super::private_file::write_new;
use crate::view::error::{Failure, Result};

/// Largest key file to read, in bytes.
const MAX_IDENTITY_BYTES: u64 = 1 << 20;

/// The variable with files of secret keys, separated as in PATH.
pub(crate) const IDENTITY: &str = "TURNTREE_IDENTITY";

/// The variable with a shell command that prints secret keys.
pub(crate) const IDENTITY_COMMAND: &str = "TURNTREE_IDENTITY_COMMAND";

/// The user's secret key, relative to the configuration directory.
const OWN: &str = "turntree/identity.txt";

/// The user's own public key.
pub(crate) struct OwnKey {
    pub(crate) public: x25519::Recipient,
    /// The file of the secret key, if it was just created.
    pub(crate) made: Option<PathBuf>,
}

/// The path of the user's own secret key.
pub(crate) fn own_identity() -> Result<PathBuf> {
    let base = etcetera::choose_base_strategy()
        .map_err(|error| Error::not_found("there is no home directory").with_source(error))?;
    Ok(base.config_dir().join(OWN))
}

/// Returns the user's public key, from the command or the file. Without either, creates a secret
/// key in the file.
pub(crate) fn own_public_key() -> Result<OwnKey> {
    let existing = |text: &str, place: &dyn std::fmt::Display| {
        let keys = text.lines().filter_map(|line| x25519::Identity::from_str(line.trim()).ok());
        let public = keys.map(|key| key.to_public()).next().ok_or_else(|| {
            Error::invalid(format!("{place}: expected a line AGE-SECRET-KEY-1..."))
        })?;
        Ok(OwnKey { public, made: None })
    };
    if let Some(text) = printed_by_command()? {
        return existing(&text, &IDENTITY_COMMAND);
    }
    let path = own_identity()?;
    match read_regular_text(&path, MAX_IDENTITY_BYTES) {
        Ok(text) => existing(&text, &path.display()),
        Err(error) if error.kind() == IoErrorKind::NotFound => match new_identity(&path)? {
            Some(public) => Ok(OwnKey { public, made: Some(path) }),
            // Another process created it first, and may already have wrapped a key for it.
            None => own_public_key(),
        },
        Err(error) => Err(Error::io(format!("read {}", path.display()), error).into()),
    }
}

/// Creates a secret key; `None` if the file exists by now.
fn new_identity(path: &Path) -> Result<Option<x25519::Recipient>> {
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let key = x25519::Identity::generate();
    let public = key.to_public();
    let folder = path.parent().unwrap_or(Path::new("."));
    private_folders().recursive(true).create(folder).map_err(failed)?;
    let secret = key.to_string();
    let text = format!("# public key: {public}\n{}\n", secret.expose_secret());
    Ok(write_new(path, text.as_bytes())?.then_some(public))
}

/// The secret keys in the files named by the environment, and the user's own.
pub(crate) fn identities_of_files() -> Result<Vec<Box<dyn Identity>>> {
    let mut identities = Vec::new();
    if let Some(named) = std::env::var_os(IDENTITY).filter(|named| !named.is_empty()) {
        for path in std::env::split_paths(&named) {
            identities.extend(identities_in(&path)?);
        }
    }
    if let Some(path) = own_identity().ok().filter(|path| path.is_file()) {
        identities.extend(identities_in(&path)?);
    }
    Ok(identities)
}

/// The secret keys printed by the command, if one is set.
pub(crate) fn identities_of_command() -> Result<Vec<Box<dyn Identity>>> {
    let Some(text) = printed_by_command()? else { return Ok(Vec::new()) };
    parse_identities(&text, &IDENTITY_COMMAND)
}

/// Runs the command and returns its output. Its prompts and errors reach the terminal.
fn printed_by_command() -> Result<Option<String>> {
    let line = std::env::var_os(IDENTITY_COMMAND).filter(|line| !line.is_empty());
    let Some(line) = line else { return Ok(None) };
    let mut command = Command::new("sh");
    // Stdin may be a hook's event, so the command does not get it.
    command.arg("-c").arg(line).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output =
        command.output().map_err(|error| Error::io(format!("run {IDENTITY_COMMAND}"), error))?;
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    if !output.status.success() || text.trim().is_empty() {
        let error =
            Error::not_found(format!("{IDENTITY_COMMAND} printed no key: {}", output.status));
        return Err(Failure::hinted(error, "it must print AGE-SECRET-KEY-1..., and end with 0"));
    }
    Ok(Some(text))
}
