//! The records of `bundle`.

use serde::Serialize;
use turntree::transfer::bundle::{BundleLosses, Manifest, Prerequisite};

use super::ChangedRef;

/// `bundle create`.
#[derive(Serialize)]
pub(crate) struct BundleWritten<'a> {
    /// The file; `-` for standard output.
    pub(crate) file: String,
    /// Checksum of the whole, decrypted.
    pub(crate) checksum: String,
    pub(crate) encrypted: bool,
    /// Bytes of the bundle, before it was encrypted.
    pub(crate) bytes: u64,
    /// Bytes of its objects.
    pub(crate) raw_bytes: u64,
    /// Bytes of its parity.
    pub(crate) parity_bytes: u64,
    pub(crate) manifest: &'a Manifest,
}

/// `bundle show`.
#[derive(Serialize)]
pub(crate) struct BundleShown<'a> {
    /// Checksum of the whole, decrypted.
    pub(crate) checksum: String,
    pub(crate) encrypted: bool,
    /// Bytes of the bundle, decrypted.
    pub(crate) bytes: u64,
    /// Bytes of its objects, from its manifest.
    pub(crate) raw_bytes: u64,
    /// Its parity; `null` without.
    pub(crate) parity: Option<BundleParity>,
    pub(crate) manifest: &'a Manifest,
}

/// The parity of a bundle, and the damage found with it.
#[derive(Serialize)]
pub(crate) struct BundleParity {
    pub(crate) bytes: u64,
    pub(crate) shards: u64,
    pub(crate) damaged_shards: u64,
    /// Units of the parity.
    pub(crate) units: u64,
    pub(crate) damaged_units: u64,
    /// True if every damaged shard can be restored.
    pub(crate) can_restore: bool,
}

/// `bundle show --operations`, one per line.
#[derive(Serialize)]
pub(crate) struct BundledOperation {
    /// Its number in the store that the bundle was made from.
    pub(crate) operation: u64,
    pub(crate) time: String,
    pub(crate) actor: String,
    pub(crate) reason: String,
    /// The number of the operation that it undoes; 0 if that was not kept.
    pub(crate) undoes: Option<u64>,
    pub(crate) changes: Vec<ChangedRef>,
}

/// `bundle verify`.
#[derive(Serialize)]
pub(crate) struct BundleVerified<'a> {
    #[serde(flatten)]
    pub(crate) shown: BundleShown<'a>,
    /// True if damaged bytes were repaired; only with `--repair`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repaired: Option<bool>,
    /// Commits that the store lacks and would need; `null` without a store.
    pub(crate) missing: Option<&'a [Prerequisite]>,
    /// Lost content; only if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<LostOfBundle>,
}

/// The lost content of a bundle.
#[derive(Serialize)]
pub(crate) struct LostOfBundle {
    pub(crate) objects: u64,
    /// The number of all objects.
    pub(crate) of_objects: u64,
    pub(crate) turns: u64,
    /// The refs that fall back to an earlier turn, or are lost.
    pub(crate) refs: Vec<LostBundleRef>,
}

/// A ref of a bundle whose turn is lost.
#[derive(Serialize)]
pub(crate) struct LostBundleRef {
    pub(crate) name: String,
    pub(crate) turn: u64,
    /// The newest turn whose history is whole; `null` if there is none.
    pub(crate) whole_turn: Option<u64>,
}

impl From<&BundleLosses> for LostOfBundle {
    fn from(losses: &BundleLosses) -> Self {
        let refs = losses.refs.iter().map(|lost| LostBundleRef {
            name: lost.name.clone(),
            turn: lost.turn,
            whole_turn: lost.whole,
        });
        let BundleLosses { objects, of_objects, turns, .. } = *losses;
        Self { objects, of_objects, turns, refs: refs.collect() }
    }
}

/// The title and labels that a session gets.
#[derive(Serialize)]
pub(crate) struct BundleLabels {
    pub(crate) session: String,
    /// `null` if the store already has a title.
    pub(crate) title: Option<String>,
    pub(crate) labels: Vec<String>,
}

/// `bundle unbundle`.
#[derive(Serialize)]
pub(crate) struct UnbundlePlan<'a> {
    /// True for a dry run.
    pub(crate) dry_run: bool,
    pub(crate) refs: Vec<BundleRef>,
    /// Objects that the store did not have.
    pub(crate) new_objects: u64,
    /// Objects that it had.
    pub(crate) known_objects: u64,
    /// Titles and labels that sessions get.
    pub(crate) labels: Vec<BundleLabels>,
    /// Contents that were redacted in the store, and are not imported.
    pub(crate) redacted: u64,
    /// Commits that the store lacks and would need.
    pub(crate) missing: &'a [Prerequisite],
    /// The number of the operation; `null` when there was none.
    pub(crate) operation: Option<u64>,
    /// Bytes the store grew by.
    pub(crate) new_bytes: u64,
    /// Lost content; only with `--partial`, and if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<LostOfBundle>,
}

/// The result for a ref of a bundle.
#[derive(Serialize)]
pub(crate) struct BundleRef {
    /// Its full name in the bundle.
    pub(crate) name: String,
    /// Its full name in the store.
    pub(crate) local_name: String,
    /// `new`, `forward`, `known`.
    pub(crate) change: &'static str,
    pub(crate) id: String,
    /// The turn of its commit.
    pub(crate) turn: u64,
}
