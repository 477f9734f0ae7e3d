//! The parity policy of a store as people set it and are told of it.

use crate::error::Result;
use crate::object::{Kind, ObjectSink, RefValue};
use crate::repo::Transaction;
use crate::store::{Expected, PARITY_POLICY_REF, ParityShare, Store};

/// The parity policy of a store, and what of the store is as it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParityPolicy {
    /// The least share of every pack that is written.
    pub share: ParityShare,
    /// Packs.
    pub packs: usize,
    /// Those with less, which were written before; a repack gives it to them.
    pub packs_below: usize,
}

/// Sets the parity that every pack of the store gets from now on, at least, or removes the policy:
/// then archives get the usual share, and packs that replace others as much as those have.
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

/// The parity policy of a store, if it has one. Reads the head of each parity.
///
/// # Errors
/// Those of [`Store::parity_policy`] and of [`Store::packs_below`].
pub fn parity_policy(store: &Store) -> Result<Option<ParityPolicy>> {
    let Some(share) = store.parity_policy()? else { return Ok(None) };
    let packs_below = store.packs_below(share)?;
    Ok(Some(ParityPolicy { share, packs: store.summary()?.packs, packs_below }))
}
