//! Stores the ids of a pack that lists none next to it, so that the next process need not hash the
//! pack.
//!
//! ```text
//! derived/<name>.ids     | magic 8 | version 4 | zero 4 | ids | notes on gone ones | checksum 32 |
//! ```
//!
//! A process that has computed the ids of a pack stores them, if the disk allows it. A file that is
//! missing, torn, or of another pack is ignored. So it is never synced, and two concurrent writers
//! leave one valid file or none. If it differs from the pack, objects do not verify, and `fsck`
//! reports it. Specified in `format-spec/pack.md`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::dir::failed;
use super::format::id::{StoreId, hex};
use super::format::segment::{CHECKSUM_BYTES, Digest};
use super::io::{Access, Io, IoFile};
use super::pack::{IdsCache, Pack, PackId};
use super::{DERIVED_DIR, PACKS_DIR};
use crate::error::Result;
use crate::object::Checksum;

const EXTENSION: &str = ".ids";
const TEMPORARY: &str = ".tmp";

const MAGIC: [u8; 8] = *b"\x89TTI\r\n\x1a\n";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
const CONTEXT: &str = "turntree v1 derived ids";

/// The place where the ids of one pack are stored.
#[derive(Debug)]
struct IdsFile {
    io: Arc<dyn Io>,
    path: PathBuf,
    pack: PathBuf,
    of: (StoreId, PackId),
    may_write: bool,
}

impl IdsCache for IdsFile {
    fn read(&self, bytes: usize) -> Option<Bytes> {
        read(&*self.io, &self.path, self.of, bytes)
    }

    fn keep(&self, ids: &[u8]) {
        if self.may_write {
            // The file is optional: a full or read-only disk has none.
            let _ = write(&*self.io, &self.path, &encode(ids, self.of));
            // A redaction may have removed the pack after it was opened, and cleaned up before this
            // write.
            if !matches!(self.io.identity_if_exists(&self.pack), Ok(Some(_))) {
                let _ = self.io.remove_if_exists(&self.path);
            }
        }
    }
}

/// Opens a pack of the store in `dir`. If it lists no ids, reads the ids stored next to it. If
/// these have to be computed, stores them for the next time if `may_write` is true.
///
/// # Errors
/// The errors of [`Pack::open_with_cache`].
pub(in crate::store) fn open(
    io: &Arc<dyn Io>,
    dir: &Path,
    (file, id): (&Arc<dyn IoFile>, PackId),
    store: StoreId,
    may_write: bool,
) -> Result<Pack> {
    let (io, path, pack) =
        (Arc::clone(io), path(dir, id), dir.join(PACKS_DIR).join(id.file_name()));
    let beside = IdsFile { io, path, pack, of: (store, id), may_write };
    Pack::open_with_cache(file, id, store, Box::new(beside))
}

/// Returns true if `name` is the file name of the ids of this pack.
pub(in crate::store) fn is_of(name: &str, pack: PackId) -> bool {
    name == file_name(pack)
}

/// Returns the pack in the name of such a file.
pub(in crate::store) fn pack_of(name: &str) -> Option<PackId> {
    let stem = name.strip_suffix(EXTENSION)?;
    PackId::from_file_name(&format!("{stem}.pack"))
}

/// Returns true if the ids stored next to a pack differ from those computed from its objects.
/// Returns false if they were not computed.
pub(in crate::store) fn has_wrong_ids(
    io: &dyn Io,
    dir: &Path,
    pack: &Pack,
    store: StoreId,
) -> bool {
    let Some(ids) = pack.computed_ids() else { return false };
    let path = path(dir, pack.id());
    let is_there = matches!(io.identity_if_exists(&path), Ok(Some(_)));
    is_there && read(io, &path, (store, pack.id()), ids.len()).is_none_or(|kept| kept != ids)
}

fn path(dir: &Path, pack: PackId) -> PathBuf {
    dir.join(DERIVED_DIR).join(file_name(pack))
}

/// Returns the name of the file with the ids of a pack.
pub(in crate::store) fn file_name(pack: PackId) -> String {
    format!("{}{EXTENSION}", hex(&pack.0))
}

/// Reads `bytes` bytes of ids and notes from a file, if it is complete and of this pack and store.
fn read(io: &dyn Io, path: &Path, of: (StoreId, PackId), bytes: usize) -> Option<Bytes> {
    let file = io.open_if_exists(path, Access::Read).ok()??;
    let end = HEADER_BYTES.checked_add(bytes)?;
    let all = end.checked_add(CHECKSUM_BYTES)?;
    // Before any memory is allocated.
    file.size().ok().filter(|size| *size == all as u64)?;
    let mut content = vec![0; all];
    file.read_at(&mut content, 0).ok().filter(|read| *read == all)?;
    let found = content.split_off(end);
    let is_whole = content.starts_with(&header()) && checksum(&content, of) == *found;
    is_whole.then(|| Bytes::from(content).slice(HEADER_BYTES..))
}

fn encode(ids: &[u8], of: (StoreId, PackId)) -> Vec<u8> {
    let mut bytes = [&header(), ids].concat();
    let checksum = checksum(&bytes, of);
    bytes.extend_from_slice(&checksum);
    bytes
}

fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let fields = MAGIC.into_iter().chain(VERSION.to_le_bytes());
    header.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    header
}

fn checksum(content: &[u8], (store, pack): (StoreId, PackId)) -> Digest {
    Checksum::new(CONTEXT).update(&store.0).update(&pack.0).update(content).finish()
}

fn write(io: &dyn Io, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(TEMPORARY);
    let temporary = PathBuf::from(temporary);
    if let Some(folder) = path.parent() {
        io.create_dir_if_missing(folder)?;
    }
    io.remove_if_exists(&temporary)?;
    let failed = failed("write", path);
    let file = io.create(&temporary).map_err(&failed)?;
    let written = file.write_at(bytes, 0).and_then(|()| io.replace(&temporary, path));
    written.map_err(failed).inspect_err(|_| {
        let _ = io.remove(&temporary);
    })
}
