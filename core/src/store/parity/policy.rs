//! The parity policy of a store: the least parity of every new pack, in every tier and by every
//! writer.
//!
//! The ref [`PARITY_POLICY_REF`] holds a blob with one line, `percent` and a number. Collections,
//! automatic maintenance, redaction, imports and repair write packs. All of them call this module,
//! so that none ignores the policy.

use std::sync::Arc;

use super::{Parity, ParityShare};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSource, RefValue};
use crate::store::pack::{ParityFile, Tier};
use crate::store::{PACKS_DIR, Store, read};

/// The ref that holds the policy.
pub const PARITY_POLICY_REF: &str = "refs/retention-parity";

const WHAT: &str = "the parity policy of the store";

impl ParityShare {
    /// Encodes the share as the blob of a policy.
    #[must_use]
    pub fn to_policy(self) -> Vec<u8> {
        format!("percent {}\n", self.percent()).into_bytes()
    }

    /// Decodes the blob of a policy.
    ///
    /// # Errors
    /// `Corrupt` for anything that [`ParityShare::to_policy`] does not produce.
    pub fn from_policy(bytes: &[u8]) -> Result<Self> {
        let line = std::str::from_utf8(bytes).ok().and_then(|text| text.strip_prefix("percent "));
        let number = line.and_then(|line| line.strip_suffix('\n')).and_then(|it| it.parse().ok());
        let share = number.and_then(|percent| Self::new(percent).ok());
        // Reject a sign or a leading zero: each number has only one blob.
        let share = share.filter(|share| share.to_policy() == bytes);
        share.ok_or_else(|| Error::malformed(WHAT, "a line 'percent N' with N from 1 to 100"))
    }
}

impl Store {
    /// Returns the least parity of new packs, if the store has a policy.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref.
    pub fn parity_policy(&self) -> Result<Option<ParityShare>> {
        let refs = Arc::clone(&read(&self.view).refs);
        match refs.value(PARITY_POLICY_REF) {
            None => Ok(None),
            Some(RefValue::Object(id)) => {
                let blob = self.read_as(Kind::Blob, id);
                let share = blob.and_then(|bytes| ParityShare::from_policy(&bytes));
                share.map(Some).map_err(|error| error.at(PARITY_POLICY_REF))
            }
            Some(RefValue::Symbolic(_)) => {
                Err(Error::corrupt(PARITY_POLICY_REF, "a blob", "a symbolic ref"))
            }
        }
    }

    /// Returns the parity of a new pack that replaces packs with the share `before`.
    ///
    /// # Errors
    /// The errors of [`Store::parity_policy`].
    pub(in crate::store) fn pack_parity(
        &self,
        tier: Tier,
        before: Option<ParityShare>,
    ) -> Result<Option<ParityShare>> {
        match self.pack_parity.get() {
            Some(chosen) => Ok(*chosen),
            None => Ok(tier.parity().max(before).max(self.parity_policy()?)),
        }
    }

    /// Counts the packs with less parity than `share`, such as those written before a policy was
    /// set.
    ///
    /// # Errors
    /// `Io` when a parity file cannot be read.
    pub fn packs_below(&self, share: ParityShare) -> Result<usize> {
        let files = Arc::clone(&read(&self.view).files);
        let (folder, mut below) = (self.dir.join(PACKS_DIR), 0);
        for pack in &files.packs {
            let parity = ParityFile::find(&*self.io, &folder, pack.id())?;
            let is_enough = |parity: Parity| {
                parity.is_like(share, pack.file_bytes()) || parity.share() >= share
            };
            below += usize::from(!parity.is_some_and(is_enough));
        }
        Ok(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_policy_is_one_line_and_nothing_else_is_accepted() {
        for percent in 1..=100 {
            let share = ParityShare::new(percent).unwrap();
            assert_eq!(ParityShare::from_policy(&share.to_policy()).unwrap(), share);
        }
        assert_eq!(ParityShare::default().to_policy(), b"percent 5\n");
        for wrong in
            ["", "5\n", "percent 5", "percent 05\n", "percent +5\n", "percent 0\n", "percent 101\n"]
        {
            let refused = ParityShare::from_policy(wrong.as_bytes()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{wrong:?}");
        }
    }
}
