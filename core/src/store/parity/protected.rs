//! Opens a file that may have parity: reads it with damage restored, or repairs it in place.

use std::sync::Arc;

use super::RestoredContent;
use super::read::Parity;
use super::restore::ParityDamage;
use super::write::{rewrite_parity, survey};
use super::zero_filled::ZeroFilledReads;
use crate::error::{Error, Result};
use crate::store::io::{IoFile, ReadAt};

/// The content of a file: without its parity, and with damaged shards replaced by restored ones.
#[derive(Debug)]
pub struct Protected {
    content: Arc<dyn ReadAt>,
    damage: Option<ParityDamage>,
    parity_bytes: u64,
}

impl Protected {
    /// Opens a file. Without parity, or with more damage than its parity can restore, the file is
    /// read as it is, and the reader notices the damage. Reads the whole file.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub fn open(file: Arc<dyn ReadAt>) -> Result<Self> {
        let past: Arc<dyn ReadAt> = Arc::new(ZeroFilledReads(Arc::clone(&file)));
        let Some(parity) = Parity::find_appended(&past)? else {
            return Ok(Self { content: file, damage: None, parity_bytes: 0 });
        };
        let damage = parity.examine(&*past)?;
        let content = match damage.can_restore {
            true => parity.restore_content(past, &damage)?,
            false => RestoredContent::new(file, parity.content_bytes(), Vec::new()),
        };
        let parity_bytes = parity.bytes();
        Ok(Self { content: Arc::new(content), damage: Some(damage), parity_bytes })
    }

    /// Returns the content.
    #[must_use]
    pub fn content(&self) -> Arc<dyn ReadAt> {
        Arc::clone(&self.content)
    }

    /// Returns the damage; `None` without parity.
    #[must_use]
    pub fn damage(&self) -> Option<&ParityDamage> {
        self.damage.as_ref()
    }

    /// Returns the size of the parity; 0 without parity.
    #[must_use]
    pub fn parity_bytes(&self) -> u64 {
        self.parity_bytes
    }
}

/// Repairs a file in place: overwrites damaged bytes with restored ones, and damaged units with
/// intact ones, and syncs both. Does not write undamaged bytes, so a crash in between loses
/// nothing. Returns the damage found.
/// # Errors
/// `InvalidInput` when the file has no parity, `Corrupt` when it cannot restore the damage (then
/// nothing is written), `Io` when the disk refuses.
pub fn repair_by_parity(file: &Arc<dyn IoFile>) -> Result<ParityDamage> {
    let reader: Arc<dyn ReadAt> = Arc::new(ZeroFilledReads(Arc::new(Arc::clone(file))));
    let parity = Parity::find_appended(&reader)?;
    let parity =
        parity.ok_or_else(|| Error::invalid("the file has no parity to repair it with"))?;
    let damage = parity.examine(&*reader)?;
    if damage.is_none() {
        return Ok(damage);
    }
    let mended = parity.restore_content(reader, &damage)?;
    if survey(&mended, &parity.shape)?.1 != parity.content {
        return Err(Error::malformed("the parity", "the content that it was computed from"));
    }
    let failed = |error| Error::io("write the restored bytes", error);
    for (offset, piece) in mended.pieces() {
        file.write_at(piece, offset).map_err(failed)?;
    }
    file.sync_data().map_err(failed)?;
    if damage.lost_units > 0 {
        rewrite_parity(&mended, &parity.shape, &**file, parity.start)?;
        file.sync_data().map_err(failed)?;
    }
    Ok(damage)
}
