//! Keys in age format: public keys, files of secret keys, passphrases and prompts for them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use age::secrecy::SecretString;
use age::{Encryptor, Identity, IdentityFile, Recipient, scrypt, x25519};
use clap::Args;
use turntree::Error;

use crate::platform::ask_hidden;
use crate::view::error::{Failure, Result};

/// The variable with the passphrase, for processes without a terminal.
pub(crate) const PASSPHRASE: &str = "TURNTREE_PASSPHRASE";

/// The largest scrypt work factor that is accepted: more than about a minute and 4 GiB is too much.
const MAX_WORK_LOG: u8 = 20;

/// Options for the keys of an encrypted file.
#[derive(Debug, Args)]
pub(crate) struct Sealing {
    /// Encrypt to this public key (age1...), or to the keys in a file, one per line
    #[arg(long, value_name = "KEY|FILE", conflicts_with_all = ["passphrase", "passphrase_file"])]
    pub(crate) encrypt_to: Vec<String>,
    /// Encrypt with the passphrase in TURNTREE_PASSPHRASE, or ask for one
    #[arg(long, conflicts_with = "passphrase_file")]
    pub(crate) passphrase: bool,
    /// Encrypt with the passphrase in this file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) passphrase_file: Option<PathBuf>,
}

impl Sealing {
    /// Returns true if encryption was requested.
    pub(crate) fn is_asked_for(&self) -> bool {
        !self.encrypt_to.is_empty() || self.passphrase || self.passphrase_file.is_some()
    }

    /// Returns the encryptor. Asks for a passphrase now, before any work is done.
    pub(crate) fn encryptor(&self) -> Result<Encryptor> {
        if let Some(phrase) = self.chosen_passphrase()? {
            return Ok(Encryptor::with_user_passphrase(phrase));
        }
        let recipients = self.recipients()?;
        let recipients = recipients.iter().map(|recipient| recipient as &dyn Recipient);
        Encryptor::with_recipients(recipients)
            .map_err(|error| Error::invalid("encrypt").with_source(error).into())
    }

    /// The new passphrase, if one was requested.
    pub(crate) fn chosen_passphrase(&self) -> Result<Option<SecretString>> {
        match &self.passphrase_file {
            Some(file) => passphrase_in(file).map(Some),
            None if self.passphrase => chosen_passphrase().map(Some),
            None => Ok(None),
        }
    }

    /// The public keys.
    pub(crate) fn recipients(&self) -> Result<Vec<x25519::Recipient>> {
        let mut recipients = Vec::new();
        for named in &self.encrypt_to {
            match x25519::Recipient::from_str(named) {
                Ok(recipient) => recipients.push(recipient),
                Err(_) => recipients.extend(recipients_in(Path::new(named))?),
            }
        }
        Ok(recipients)
    }
}

/// An identity that decrypts with a passphrase.
pub(crate) fn of_passphrase(phrase: SecretString) -> scrypt::Identity {
    let mut identity = scrypt::Identity::new(phrase);
    identity.set_max_work_factor(MAX_WORK_LOG);
    identity
}

/// The secret keys in a file.
pub(crate) fn identities_in(path: &Path) -> Result<Vec<Box<dyn Identity>>> {
    parse_identities(&text_of(path)?, &path.display())
}

/// Parses the secret keys in a text; errors name `place`.
pub(crate) fn parse_identities(
    text: &str,
    place: &dyn fmt::Display,
) -> Result<Vec<Box<dyn Identity>>> {
    let bad =
        |error: &dyn fmt::Display| Error::invalid(format!("{place}: expected age keys: {error}"));
    let file = IdentityFile::from_buffer(text.as_bytes()).map_err(|error| bad(&error))?;
    Ok(file.into_identities().map_err(|error| bad(&error))?)
}

fn recipients_in(path: &Path) -> Result<Vec<x25519::Recipient>> {
    let shown = path.display();
    if !path.exists() {
        let message = format!("{shown}: expected a public key (age1...), or a file of them");
        return Err(Error::invalid(message).into());
    }
    let text = text_of(path)?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let keys = keys.map(|(number, line)| {
        let bad = |error| Error::invalid(format!("{shown}, line {number}: {error}"));
        Ok(x25519::Recipient::from_str(line).map_err(bad)?)
    });
    let keys: Vec<_> = keys.collect::<Result<_>>()?;
    match keys.is_empty() {
        true => Err(Error::invalid(format!("{shown} holds no public keys")).into()),
        false => Ok(keys),
    }
}

fn text_of(path: &Path) -> Result<String> {
    let failed = |error| Error::io(format!("read {}", path.display()), error);
    Ok(fs::read_to_string(path).map_err(failed)?)
}

/// Reads a passphrase from the first line of a file.
pub(crate) fn passphrase_in(path: &Path) -> Result<SecretString> {
    let text = text_of(path)?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(SecretString::from(line.to_owned())),
        None => {
            let message = format!("{} is empty: it must hold a passphrase", path.display());
            Err(Error::invalid(message).into())
        }
    }
}

pub(crate) fn passphrase_of_environment() -> Option<SecretString> {
    std::env::var(PASSPHRASE).ok().filter(|phrase| !phrase.is_empty()).map(SecretString::from)
}

/// Asks twice for a new passphrase.
fn chosen_passphrase() -> Result<SecretString> {
    use age::secrecy::ExposeSecret as _;
    if let Some(phrase) = passphrase_of_environment() {
        return Ok(phrase);
    }
    let phrase = ask("Passphrase: ")?;
    match ask("The same again: ")?.expose_secret() == phrase.expose_secret() {
        true => Ok(phrase),
        false => Err(Error::invalid("the passphrases differ").into()),
    }
}

/// Asks at the terminal, without echo.
pub(crate) fn ask(question: &str) -> Result<SecretString> {
    let asked = ask_hidden(question).map_err(|error| Error::io("ask for a passphrase", error))?;
    let line = asked.ok_or_else(|| {
        let message = "a passphrase is needed, but there is no terminal to ask for it";
        Failure::hinted(Error::invalid(message), format!("use --passphrase-file or {PASSPHRASE}"))
    })?;
    let line = line.trim_end_matches(['\n', '\r']);
    match line.is_empty() {
        true => Err(Error::invalid("no passphrase was given").into()),
        false => Ok(SecretString::from(line.to_owned())),
    }
}
