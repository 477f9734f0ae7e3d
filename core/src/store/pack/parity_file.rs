//! The parity of a pack: a file beside it, from which damaged bytes of the pack are computed again.
//!
//! A pack never changes, so its parity does not either: both are written once, and what is restored
//! takes the place of the damaged file as a whole. Whoever has that one open keeps it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{Pack, PackId};
use crate::error::{Error, Result};
use crate::store::dir::failed;
use crate::store::format::id::StoreId;
use crate::store::io::{Access, Io, IoFile, ReadAt};
use crate::store::parity::{Mended, Parity, ParityDamage, ParityShare, PastRefused, write_parity};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// A parity with its pack.
#[derive(Debug)]
pub(in crate::store) struct ParityFile {
    id: PackId,
    parity: Parity,
    content: Arc<dyn ReadAt>,
    damage: ParityDamage,
}

/// A pack as its parity restores it, in memory.
pub(in crate::store) struct Restored {
    pub(in crate::store) pack: Pack,
    mended: Mended,
}

impl ParityFile {
    /// Writes the parity of a pack, in place of one that is there; when this returns it is durable.
    /// Returns its bytes. Only whoever keeps collections away may.
    ///
    /// # Errors
    /// `Io` when the disk refuses; what was there is there then.
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
            let parity = Parity::alone(&(Arc::new(Arc::clone(file)) as Arc<dyn ReadAt>))?;
            match parity.is_some_and(|parity| parity.is_whole()) {
                true => Ok(()),
                false => Err(Error::malformed(path.display(), "the parity that was written")),
            }
        })?;
        Ok(written)
    }

    /// Opens the parity of a pack, and compares the pack with it. Nothing when one of the two is not
    /// there, or nothing in the parity is whole. Reads both.
    ///
    /// # Errors
    /// `Io` when they cannot be read.
    pub(in crate::store) fn examine(io: &dyn Io, packs: &Path, id: PackId) -> Result<Option<Self>> {
        let open = |name: String| io.open_if_exists(&packs.join(name), Access::Read);
        let Some(file) = open(id.parity_name())? else { return Ok(None) };
        let Some(content) = open(id.file_name())? else { return Ok(None) };
        let file: Arc<dyn ReadAt> = Arc::new(PastRefused(Arc::new(file)));
        let Some(parity) = Parity::alone(&file)? else { return Ok(None) };
        let content: Arc<dyn ReadAt> = Arc::new(PastRefused(Arc::new(content)));
        let damage = parity.examine(&*content)?;
        Ok(Some(Self { id, parity, content, damage }))
    }

    /// The damage of the pack and of the parity.
    pub(in crate::store) fn damage(&self) -> &ParityDamage {
        &self.damage
    }

    /// Returns true if the pack is damaged, and no more than the parity can restore.
    pub(in crate::store) fn can_restore(&self) -> bool {
        self.damage.can_restore && !self.damage.damaged.is_empty()
    }

    /// The pack as the parity restores it; nothing when it is not damaged, or more than that. Memory
    /// holds the pack.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub(in crate::store) fn restored(&self, store: StoreId) -> Result<Option<Restored>> {
        if !self.can_restore() {
            return Ok(None);
        }
        let Ok(mended) = self.parity.mended(Arc::clone(&self.content), &self.damage) else {
            return Ok(None);
        };
        // What it restores it must hold: it may have been made by somebody else.
        let failed = |error| Error::io("read a damaged pack", error);
        let most = self.content.size().map_err(failed)? + self.parity.bytes();
        let bytes = Some(self.parity.content_bytes()).filter(|bytes| *bytes <= most);
        let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) else {
            return Ok(None);
        };
        let mut memory = vec![0; bytes];
        mended.read_at(&mut memory, 0).map_err(failed)?;
        // The id is that of the footer, and the footer knows the rest.
        let Ok(pack) = Pack::in_memory(Bytes::from(memory), self.id, store) else {
            return Ok(None);
        };
        let is_whole = pack.verify_frames().is_empty();
        Ok(is_whole.then_some(Restored { pack, mended }))
    }

    /// Gives the restored pack the name of the damaged one; durable when this returns.
    ///
    /// # Errors
    /// `Io` when the disk refuses; the damaged one is there then.
    pub(in crate::store) fn put_back(
        &self,
        io: &dyn Io,
        packs: &Path,
        restored: &Restored,
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

    /// Writes the parity anew, as large as it was.
    ///
    /// # Errors
    /// Those of [`ParityFile::write`].
    pub(in crate::store) fn rewrite(&self, io: &dyn Io, packs: &Path) -> Result<u64> {
        Self::write(io, packs, self.id, self.parity.share())
    }

    /// The parity of a pack, which is not compared; nothing without one.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub(in crate::store) fn find(io: &dyn Io, packs: &Path, id: PackId) -> Result<Option<Parity>> {
        let file = io.open_if_exists(&packs.join(id.parity_name()), Access::Read)?;
        let Some(file) = file else { return Ok(None) };
        let file: Arc<dyn ReadAt> = Arc::new(file);
        Parity::alone(&file)
    }
}

/// Makes a file and gives it a name, in place of what has it; durable when this returns. After an
/// error nothing of it is left.
fn put(
    io: &dyn Io,
    path: &Path,
    write: &mut dyn FnMut(&Arc<dyn IoFile>) -> Result<()>,
) -> Result<()> {
    let temporary = PathBuf::from(format!("{}.tmp", path.display()));
    // Of a process that was killed; nobody else writes it now.
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
