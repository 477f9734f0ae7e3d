//! The parity of a pack: a file next to it, from which damaged bytes of the pack are restored.
//!
//! A pack never changes, so its parity does not either: both are written once, and a restored pack
//! replaces the damaged file as a whole. Processes that have the damaged file open keep reading it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{Pack, PackId};
use crate::error::{Error, Result};
use crate::store::dir::failed;
use crate::store::format::id::StoreId;
use crate::store::io::{Access, Io, IoFile, ReadAt};
use crate::store::parity::{
    Parity, ParityDamage, ParityShare, RestoredContent, ZeroFilledReads, write_parity,
};

/// Bytes per copy step.
const COPY_BYTES: usize = 1 << 20;

/// A parity with its pack.
#[derive(Debug)]
pub(in crate::store) struct ParityFile {
    id: PackId,
    parity: Parity,
    content: Arc<dyn ReadAt>,
    damage: ParityDamage,
}

/// A pack restored by its parity, in memory.
pub(in crate::store) struct RestoredPack {
    pub(in crate::store) pack: Pack,
    mended: RestoredContent,
}

impl ParityFile {
    /// Writes the parity of a pack, replacing an existing one. It is durable when this returns.
    /// Returns its size. The caller must hold the collector's lock.
    ///
    /// # Errors
    /// `Io` when the disk refuses; then an existing parity is unchanged.
    pub(in crate::store) fn write(
        io: &dyn Io,
        packs: &Path,
        id: PackId,
        share: ParityShare,
    ) -> Result<u64> {
        let path = packs.join(id.parity_name());
        let pack = io.open_named(&packs.join(id.file_name()), Access::Read)?;
        let bytes = pack.size().map_err(failed("read", &path))?;
        let mut written = 0;
        put(io, &path, &mut |file| {
            written = write_parity(&pack, bytes, share, &**file, 0)?;
            let parity = Parity::find_separate(&(Arc::new(Arc::clone(file)) as Arc<dyn ReadAt>))?;
            match parity.is_some_and(|parity| parity.is_whole()) {
                true => Ok(()),
                false => Err(Error::malformed(path.display(), "the parity that was written")),
            }
        })?;
        Ok(written)
    }

    /// Opens the parity of a pack, and compares the pack with it. Returns `None` if one of the
    /// files is missing, or no unit of the parity is intact. Reads both.
    ///
    /// # Errors
    /// `Io` when they cannot be read.
    pub(in crate::store) fn examine(io: &dyn Io, packs: &Path, id: PackId) -> Result<Option<Self>> {
        let open = |name: String| io.open_if_exists(&packs.join(name), Access::Read);
        let Some(file) = open(id.parity_name())? else { return Ok(None) };
        let Some(content) = open(id.file_name())? else { return Ok(None) };
        let file: Arc<dyn ReadAt> = Arc::new(ZeroFilledReads(Arc::new(file)));
        let Some(parity) = Parity::find_separate(&file)? else { return Ok(None) };
        let content: Arc<dyn ReadAt> = Arc::new(ZeroFilledReads(Arc::new(content)));
        let damage = parity.examine(&*content)?;
        Ok(Some(Self { id, parity, content, damage }))
    }

    /// Returns the damage of the pack and of the parity.
    pub(in crate::store) fn damage(&self) -> &ParityDamage {
        &self.damage
    }

    /// Returns true if the pack is damaged and the parity can restore it.
    pub(in crate::store) fn can_restore(&self) -> bool {
        self.damage.can_restore && !self.damage.damaged.is_empty()
    }

    /// Restores the pack in memory; returns `None` if it is not damaged, or the parity cannot
    /// restore it. Memory holds the whole pack.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub(in crate::store) fn restored(&self, store: StoreId) -> Result<Option<RestoredPack>> {
        if !self.can_restore() {
            return Ok(None);
        }
        let Ok(mended) = self.parity.restore_content(Arc::clone(&self.content), &self.damage)
        else {
            return Ok(None);
        };
        // The parity may come from elsewhere: limit the size before allocating.
        let failed = |error| Error::io("read a damaged pack", error);
        let most = self.content.size().map_err(failed)? + self.parity.bytes();
        let bytes = Some(self.parity.content_bytes()).filter(|bytes| *bytes <= most);
        let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) else {
            return Ok(None);
        };
        let mut memory = vec![0; bytes];
        mended.read_at(&mut memory, 0).map_err(failed)?;
        // The footer's checksum must be the id, and the footer covers everything else.
        let Ok(pack) = Pack::in_memory(Bytes::from(memory), self.id, store) else {
            return Ok(None);
        };
        let is_whole = pack.verify_frames().is_empty();
        Ok(is_whole.then_some(RestoredPack { pack, mended }))
    }

    /// Replaces the damaged pack by the restored one. It is durable when this returns.
    ///
    /// # Errors
    /// `Io` when the disk refuses; then the damaged pack is unchanged.
    pub(in crate::store) fn replace_damaged(
        &self,
        io: &dyn Io,
        packs: &Path,
        restored: &RestoredPack,
    ) -> Result<()> {
        let path = packs.join(self.id.file_name());
        put(io, &path, &mut |file| {
            let mut buffer = vec![0; COPY_BYTES];
            let mut offset = 0;
            loop {
                let read = restored.mended.read_at(&mut buffer, offset);
                let read = read.map_err(failed("read", &path))?;
                let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else {
                    return Ok(());
                };
                file.write_at(piece, offset).map_err(failed("write", &path))?;
                offset += read as u64;
            }
        })
    }

    /// Rewrites the parity with the same share.
    ///
    /// # Errors
    /// The errors of [`ParityFile::write`].
    pub(in crate::store) fn rewrite(&self, io: &dyn Io, packs: &Path) -> Result<u64> {
        Self::write(io, packs, self.id, self.parity.share())
    }

    /// Reads the parity of a pack without comparing them; returns `None` if there is none.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub(in crate::store) fn find(io: &dyn Io, packs: &Path, id: PackId) -> Result<Option<Parity>> {
        let file = io.open_if_exists(&packs.join(id.parity_name()), Access::Read)?;
        let Some(file) = file else { return Ok(None) };
        let file: Arc<dyn ReadAt> = Arc::new(file);
        Parity::find_separate(&file)
    }
}

/// Writes a file and renames it, replacing an existing one. It is durable when this returns. After
/// an error no part of it remains.
fn put(
    io: &dyn Io,
    path: &Path,
    write: &mut dyn FnMut(&Arc<dyn IoFile>) -> Result<()>,
) -> Result<()> {
    let temporary = PathBuf::from(format!("{}.tmp", path.display()));
    // Left by a killed process; no other process writes it now.
    io.remove_if_exists(&temporary)?;
    let file = io.create(&temporary).map_err(failed("write", &temporary))?;
    let done = write(&file).and_then(|()| {
        file.sync_data().map_err(failed("write", &temporary))?;
        io.replace(&temporary, path).map_err(failed("publish", path))
    });
    if done.is_err() {
        let _ = io.remove(&temporary);
    }
    done?;
    path.parent().map_or(Ok(()), |packs| io.sync_names(packs))
}
