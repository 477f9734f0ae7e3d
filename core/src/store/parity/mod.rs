//! Parity: bytes after a file or next to it, from which damaged bytes of the file are restored.
//!
//! ```text
//! content   | shard | shard | ... | shard |      of which some may be lost
//! parity    | unit | unit | ... | unit |         each tells all about the parity, and verifies alone
//!
//! unit      recovery   any r of a group stand for any r shards of it
//!           table      checksums of the shards, which tell the damaged ones; twice over
//! ```
//!
//! The content is cut into shards. Consecutive shards are in different groups, so a run of lost
//! sectors affects all groups about equally. Each group has recovery shards of a Reed-Solomon code:
//! as many shards can be lost as there are intact recovery shards, whichever they are. Checksums
//! identify the damaged shards, so that every recovery shard can restore one. No unit is more
//! important than another unit: there is no single header to lose.
//!
//! A sector that the disk fails to read counts as damaged.
//!
//! Nothing is trusted: restored shards match their checksums, and readers verify the content as if
//! it had never been damaged. Specified in `format-spec/parity.md`.
//!
//! ```
//! use std::sync::Arc;
//! use turntree::store::{Io, IoFile, Parity, ParityShare, ReadAt, RealIo, append_parity};
//! # let folder = tempfile::tempdir()?;
//!
//! let file = RealIo.create(&folder.path().join("kept"))?;
//! file.write_at(&[7; 100_000], 0)?;
//! append_parity(&file, ParityShare::default())?;
//!
//! file.write_at(&[0; 1_000], 50_000)?;
//! let file: Arc<dyn ReadAt> = Arc::new(file);
//! let parity = Parity::find_appended(&file)?.ok_or("the parity is gone")?;
//! let damage = parity.examine(&*file)?;
//! let mended = parity.restore_content(file, &damage)?;
//! let mut found = [0; 1_000];
//! mended.read_at(&mut found, 50_000)?;
//! assert_eq!(found, [7; 1_000]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code;
mod policy;
mod protected;
mod read;
mod restore;
mod restored_content;
mod shape;
#[cfg(test)]
mod tests;
mod unit;
mod write;
mod zero_filled;

pub use self::policy::PARITY_POLICY_REF;
pub use self::protected::{Protected, repair_by_parity};
pub use self::read::Parity;
pub use self::restore::ParityDamage;
pub use self::restored_content::RestoredContent;
pub use self::shape::ParityShare;
pub use self::write::append_parity;
pub(in crate::store) use self::write::write_parity;
pub(in crate::store) use self::zero_filled::{ZeroFilledReads, is_refusal};
