//! The settings of a store about secrets: the treatment of new content with secrets, and the
//! allowed findings.
//!
//! The engine knows no secrets: rules and ids are opaque names to it, and the content filter
//! applies them. The blob of [`SECRET_SETTINGS_REF`] holds them, so an undo reverts a change:
//!
//! ```text
//! {"version":1,"mode":"mask","allowed":["9c1d0a77e3b2","jwt"],"masked":true}
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSink, ObjectSource, RefValue};
use crate::repo::{Repository, Transaction, decode_versioned};
use crate::store::Expected;

/// The ref of the settings.
pub const SECRET_SETTINGS_REF: &str = "refs/secrets/settings";

/// The maximum number of allowed rules and ids.
const MAX_ALLOWED: usize = 10_000;

/// The maximum length of an allowed rule or id, in bytes.
const MAX_NAME_BYTES: usize = 100;

const VERSION: u64 = 1;
const WHAT: &str = "settings about secrets";

/// The treatment of a secret in new content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretMode {
    /// The content is stored and the finding reported.
    #[default]
    Warn,
    /// A mask is stored instead of the secret.
    Mask,
    /// The content is stored without a scan.
    Off,
}

/// The settings of a store about secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretSettings {
    /// The treatment of a secret in new content.
    pub mode: SecretMode,
    /// The ids of allowed rules and findings.
    pub allowed: BTreeSet<String>,
    /// True once the mode was `mask`: stored content may have masks that its originals lack.
    pub masked: bool,
}

/// The blob of the ref, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSettings {
    version: u64,
    #[serde(default)]
    mode: SecretMode,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    allowed: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    masked: bool,
}

impl SecretMode {
    /// The name in commands and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Mask => "mask",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for SecretMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SecretMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mode = [Self::Warn, Self::Mask, Self::Off].into_iter().find(|mode| mode.name() == text);
        mode.ok_or_else(|| Error::invalid(format!("'{text}': expected warn, mask or off")))
    }
}

impl SecretSettings {
    fn encode(&self) -> Result<Vec<u8>> {
        let is_name = |name: &String| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
            (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(is_allowed)
        };
        if self.allowed.len() > MAX_ALLOWED || !self.allowed.iter().all(is_name) {
            let message = format!(
                "{WHAT}: expected at most {MAX_ALLOWED} ids of letters, digits and '-', each of up to {MAX_NAME_BYTES} bytes"
            );
            return Err(Error::invalid(message));
        }
        let Self { mode, allowed, masked } = self.clone();
        serde_json::to_vec(&StoredSettings { version: VERSION, mode, allowed, masked })
            .map_err(|source| Error::invalid(WHAT).with_source(source))
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let StoredSettings { mode, allowed, masked, .. } = decode_versioned(WHAT, VERSION, bytes)?;
        Ok(Self { mode, allowed, masked })
    }
}

impl Repository {
    /// Returns the settings about secrets. Reads one object, or none if the settings were never
    /// set.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt` or `Unsupported`, naming the ref.
    pub fn secret_settings(&self) -> Result<SecretSettings> {
        match self.refs().value(SECRET_SETTINGS_REF) {
            None => Ok(SecretSettings::default()),
            Some(RefValue::Symbolic(_)) => {
                Err(Error::corrupt(SECRET_SETTINGS_REF, "a blob", "a symbolic ref"))
            }
            Some(RefValue::Object(id)) => {
                let bytes = self.store().read_as(Kind::Blob, id);
                let read = bytes.and_then(|bytes| SecretSettings::decode(&bytes));
                read.map_err(|error| error.at(SECRET_SETTINGS_REF))
            }
        }
    }
}

impl Transaction<'_> {
    /// Sets the settings about secrets.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid id.
    pub fn set_secret_settings(&mut self, settings: &SecretSettings) -> Result<()> {
        let known = self.initial_value(SECRET_SETTINGS_REF).cloned();
        let expected = known.map_or(Expected::Absent, Expected::Value);
        let new = match *settings == SecretSettings::default() {
            true => None,
            false => Some(RefValue::Object(self.write(Kind::Blob, settings.encode()?.into())?)),
        };
        self.set_ref(SECRET_SETTINGS_REF, expected, new);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_stored_in_one_way() {
        let allowed = ["jwt", "0a77e3b2"].map(str::to_owned).into();
        let settings = SecretSettings { mode: SecretMode::Mask, allowed, masked: true };
        let bytes = settings.encode().unwrap();
        let text = r#"{"version":1,"mode":"mask","allowed":["0a77e3b2","jwt"],"masked":true}"#;
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), text);
        assert_eq!(SecretSettings::decode(&bytes).unwrap(), settings);
        assert_eq!(SecretSettings::decode(br#"{"version":1}"#).unwrap(), SecretSettings::default());
        for bytes in [
            &b""[..],
            b"[]",
            br#"{"version":1,"x":1}"#,
            br#"{"version":2}"#,
            br#"{"version":1,"mode":"no"}"#,
        ] {
            assert!(SecretSettings::decode(bytes).is_err());
        }
        let wrong = SecretSettings { allowed: ["a b".to_owned()].into(), ..settings };
        assert!(wrong.encode().is_err());
    }
}
