//! Sets and reports the parity policy of a store.

use crate::error::Result;
use crate::object::{Kind, ObjectSink, RefValue};
use crate::repo::{Repository, Transaction};
use crate::store::{Expected, PARITY_POLICY_REF, ParityShare};

/// The parity policy of a store, and the packs that satisfy it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParityPolicy {
    /// The minimum share of parity for every new pack.
    pub share: ParityShare,
    /// The number of packs.
    pub packs: usize,
    /// The number of packs with less parity, written before the policy; a repack raises it.
    pub packs_below: usize,
}

/// Sets the minimum parity of every new pack of the store, or removes the policy. Without a policy,
/// archives get the default share, and a pack that replaces others gets as much as those have.
///
/// # Errors
/// `Io` when the blob cannot be written.
pub fn set_parity_policy(change: &mut Transaction<'_>, share: Option<ParityShare>) -> Result<()> {
    let value = match share {
        Some(share) => Some(RefValue::Object(change.write(Kind::Blob, share.to_policy().into())?)),
        None => None,
    };
    change.set_ref(PARITY_POLICY_REF, Expected::Any, value);
    Ok(())
}

/// Returns the parity policy of a store, if it has one. Reads the header of each parity file.
///
/// # Errors
/// Errors of [`Store::parity_policy`](crate::store::Store::parity_policy) and of [`Store::packs_below`](crate::store::Store::packs_below).
pub fn parity_policy(repo: &Repository) -> Result<Option<ParityPolicy>> {
    let store = repo.store();
    let Some(share) = store.parity_policy()? else { return Ok(None) };
    let packs_below = store.packs_below(share)?;
    Ok(Some(ParityPolicy { share, packs: store.summary()?.packs, packs_below }))
}
