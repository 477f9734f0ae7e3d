//! The manifest: lists the sealed segments and the packs, and holds the refs.
//!
//! ```text
//! | magic 8 | version 4 | zero 4 | generation 8 | store id 16 | retired segments 8 | sequence 8 |
//! | operation id 32 | sealed segments 4 | packs 4 | bytes of refs 8 |
//! | per sealed segment: id 16, offset of its index 8 | per pack: id 32 | per retired one: id 16 |
//! | refs | checksum 32 |
//! ```
//!
//! Each generation is an immutable file of its own; the highest valid one is current. The objects
//! of a retired segment were copied to a pack. Its file is about to be deleted, and no process
//! reads or writes it. Specified in `format-spec/manifest.md`.

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use super::id::{SegmentId, StoreId};
use super::segment::{CHECKSUM_BYTES, FieldReader};
use crate::error::{Error, Result};
use crate::object::{Checksum, ObjectId};
use crate::store::dir::failed;
use crate::store::io::{Access, Io};
use crate::store::pack::PackId;
use crate::store::read::refs::RefTable;
use crate::store::{Finding, FindingKind};

const MAGIC: [u8; 8] = *b"\x89TTM\r\n\x1a\n";
const VERSION: u32 = 1;
const CONTEXT: &str = "turntree v1 manifest";
const NAME_PREFIX: &str = "manifest-";
const GENERATION_DIGITS: usize = 16;

/// Most bytes of a manifest.
const MAX_BYTES: u64 = 256 << 20;

/// Attempts to read. An attempt fails if newer generations replaced the listed ones.
const MAX_ATTEMPTS: usize = 16;

/// One generation of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::store) struct Manifest {
    /// The generation; 0 if the store has none yet.
    pub(in crate::store) generation: u64,
    /// The refs after every operation in a listed file, or later ones; see
    /// [`publish`](crate::store::write::publish).
    pub(in crate::store) refs: RefTable,
    /// Sealed segments with the offset of their index, oldest first.
    pub(in crate::store) sealed: Vec<(SegmentId, u64)>,
    /// Packs, oldest first.
    pub(in crate::store) packs: Vec<PackId>,
    /// Segments that packs have replaced.
    pub(in crate::store) retired: Vec<SegmentId>,
}

impl Manifest {
    /// Loads the newest valid manifest in `dir`, with findings about damaged newer ones.
    pub(in crate::store) fn load(
        io: &dyn Io,
        dir: &Path,
        store: StoreId,
    ) -> Result<(Self, Vec<Finding>)> {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(loaded) = Self::try_load(io, dir, store)? {
                return Ok(loaded);
            }
        }
        Err(Error::not_found(format!(
            "the manifests in {} keep disappearing while they are read",
            dir.display()
        )))
    }

    /// Writes this generation under a temporary name and syncs it; `None` if other writers take all
    /// names.
    pub(in crate::store) fn prepare(
        &self,
        io: &dyn Io,
        dir: &Path,
        store: StoreId,
    ) -> Result<Option<PreparedManifest>> {
        let path = dir.join(file_name(self.generation));
        let names = io.list_names(dir)?;
        // A new name for every attempt: temporary files of killed processes are only removed below.
        let temporary = (0_u32..).map(|n| format!("{}.{n}.tmp", file_name(self.generation)));
        let temporary = temporary.take(MAX_ATTEMPTS).find(|name| !names.contains(name));
        let Some(temporary) = temporary.map(|name| dir.join(name)) else {
            return Ok(None);
        };
        let Some(file) = io.create_if_free(&temporary)? else { return Ok(None) };
        file.write_at(&self.encode(store), 0).map_err(failed("write", &temporary))?;
        file.sync_data().map_err(failed("sync", &temporary))?;
        Ok(Some(PreparedManifest { temporary, path }))
    }

    /// Sets the refs of a complete view, unless it has newer ones: refs never move back.
    pub(in crate::store) fn advance(&mut self, refs: &RefTable) {
        if self.refs.sequence < refs.sequence {
            self.refs = refs.clone();
        }
    }

    /// Removes older generations, except the previous one: readers of older ones list the names
    /// again. Call only when the name of this generation is durable.
    pub(in crate::store) fn sweep(&self, io: &dyn Io, dir: &Path) -> Result<()> {
        let is_old = |name: &String| {
            let generation = name.get(..NAME_PREFIX.len() + GENERATION_DIGITS).and_then(generation);
            generation.is_some_and(|generation| generation + 1 < self.generation)
        };
        let old = io.list_names(dir)?.into_iter().filter(is_old);
        let (names, temporary): (Vec<String>, Vec<String>) =
            old.partition(|name| generation(name).is_some());
        // First the temporary files, then the manifests: so no temporary one takes a name that
        // became free.
        for name in temporary.into_iter().chain(names) {
            // A file that cannot be removed now is removed next time.
            if io.remove_if_exists(&dir.join(name)).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn try_load(io: &dyn Io, dir: &Path, store: StoreId) -> Result<Option<(Self, Vec<Finding>)>> {
        let names = io.list_names(dir)?;
        let mut generations: Vec<u64> = names.iter().filter_map(|name| generation(name)).collect();
        generations.sort_unstable();
        let mut findings = Vec::new();
        for generation in generations.into_iter().rev() {
            let Some(bytes) = read(io, &dir.join(file_name(generation)))? else { return Ok(None) };
            match Self::decode(&bytes, store, generation) {
                Some(manifest) => return Ok(Some((manifest, findings))),
                None => findings.push(Finding {
                    kind: FindingKind::Damage,
                    place: file_name(generation),
                    message: "is not a valid manifest; an older one and the journal are used"
                        .into(),
                }),
            }
        }
        Ok(Some((Self::default(), findings)))
    }

    fn encode(&self, store: StoreId) -> Vec<u8> {
        let values = self.refs.encode_values();
        let operation = self.refs.operation.map_or([0; 32], |id| *id.as_bytes());
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&store.0);
        bytes.extend_from_slice(&(self.retired.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.refs.sequence.to_le_bytes());
        bytes.extend_from_slice(&operation);
        for count in [self.sealed.len(), self.packs.len()] {
            bytes.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        }
        bytes.extend_from_slice(&(values.len() as u64).to_le_bytes());
        for (segment, index) in &self.sealed {
            bytes.extend_from_slice(&segment.0);
            bytes.extend_from_slice(&index.to_le_bytes());
        }
        for pack in &self.packs {
            bytes.extend_from_slice(&pack.0);
        }
        for segment in &self.retired {
            bytes.extend_from_slice(&segment.0);
        }
        bytes.extend_from_slice(&values);
        let checksum = Checksum::new(CONTEXT).update(&bytes).finish();
        bytes.extend_from_slice(&checksum);
        bytes
    }

    pub(in crate::store) fn decode(bytes: &[u8], store: StoreId, generation: u64) -> Option<Self> {
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if Checksum::new(CONTEXT).update(content).finish() != *checksum {
            return None;
        }
        let mut fields = FieldReader(content.strip_prefix(&MAGIC)?);
        let known = fields.u32()? == VERSION && fields.u32()? == 0;
        let ours = fields.u64()? == generation && fields.take()? == store.0;
        if !known || !ours {
            return None;
        }
        let (retired, sequence) = (fields.u64()?, fields.u64()?);
        let operation = fields.take()?;
        let operation = (sequence > 0).then_some(ObjectId::from_bytes(operation));
        let (segments, packs, values_bytes) = (fields.u32()?, fields.u32()?, fields.u64()?);
        // Each loop ends with the bytes, whatever count is declared.
        let mut manifest = Self { generation, ..Self::default() };
        for _ in 0..segments {
            manifest.sealed.push((SegmentId(fields.take()?), fields.u64()?));
        }
        for _ in 0..packs {
            manifest.packs.push(PackId(fields.take()?));
        }
        for _ in 0..retired {
            manifest.retired.push(SegmentId(fields.take()?));
        }
        let values = fields.0;
        if values.len() as u64 != values_bytes {
            return None;
        }
        let values = RefTable::decode_values(values).ok()?;
        manifest.refs = RefTable { values, operation, sequence };
        Some(manifest)
    }
}

/// A generation that is written and has no final name yet.
#[derive(Debug)]
pub(in crate::store) struct PreparedManifest {
    temporary: PathBuf,
    path: PathBuf,
}

impl PreparedManifest {
    /// Renames it to its final name, which makes it current. Returns `false` if another process
    /// took the name, or published later generations and swept this one.
    pub(in crate::store) fn link(&self, io: &dyn Io) -> Result<bool> {
        match io.publish(&self.temporary, &self.path) {
            Err(source) if source.kind() == IoErrorKind::NotFound => Ok(false),
            Err(source) if source.kind() == IoErrorKind::AlreadyExists => {
                self.discard(io).map(|()| false)
            }
            Err(source) => Err(failed("publish", &self.path)(source)),
            Ok(()) => Ok(true),
        }
    }

    /// Deletes the temporary file.
    pub(in crate::store) fn discard(&self, io: &dyn Io) -> Result<()> {
        // A writer that published a later generation may have removed it.
        io.remove_if_exists(&self.temporary)
    }
}

pub(in crate::store) fn file_name(generation: u64) -> String {
    format!("{NAME_PREFIX}{generation:016x}")
}

/// Returns the generation in a file name; `None` for other files.
pub(in crate::store) fn generation(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(NAME_PREFIX)?;
    let value = u64::from_str_radix(digits, 16).ok()?;
    (file_name(value) == name).then_some(value)
}

/// Returns the highest generation that has a file, valid or not; 0 if there is none.
pub(in crate::store) fn newest_generation(io: &dyn Io, dir: &Path) -> Result<u64> {
    let names = io.list_names(dir)?;
    Ok(names.iter().filter_map(|name| generation(name)).max().unwrap_or_default())
}

/// Reads the bytes of a manifest, or `None` if it was deleted.
pub(in crate::store) fn read(io: &dyn Io, path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(file) = io.open_if_exists(path, Access::Read)? else { return Ok(None) };
    let size = file.size().map_err(failed("read", path))?.min(MAX_BYTES);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let read = file.read_at(&mut bytes, 0).map_err(failed("read", path))?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Kind, RefValue};
    use crate::store::RealIo;

    #[test]
    fn who_is_overtaken_before_his_generation_has_a_name_gives_way() {
        let dir = tempfile::tempdir().unwrap();
        let (io, dir, store) = (RealIo, dir.path(), StoreId([9; 16]));
        let at = |generation| Manifest { generation, ..Manifest::default() };
        let slow = at(7).prepare(&io, dir, store).unwrap().unwrap();
        for generation in 7..10 {
            let prepared = at(generation).prepare(&io, dir, store).unwrap().unwrap();
            assert!(prepared.link(&io).unwrap());
            at(generation).sweep(&io, dir).unwrap();
        }
        assert_eq!(newest_generation(&io, dir).unwrap(), 9);
        assert!(!slow.link(&io).unwrap(), "its temporary name was swept away");
        slow.discard(&io).unwrap();
        let names: Vec<String> = io.list(dir).unwrap();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn a_manifest_round_trips_and_no_damaged_one_is_accepted() {
        let store = StoreId([9; 16]);
        let mut refs = RefTable { sequence: 3, ..RefTable::default() };
        refs.operation = Some(ObjectId::of(Kind::Operation, b"x"));
        refs.values.insert("HEAD".into(), RefValue::Symbolic("heads/main".into()));
        let sealed = vec![(SegmentId([1; 16]), 80), (SegmentId([2; 16]), 4096)];
        let packs = vec![PackId([3; 32])];
        let retired = vec![SegmentId([4; 16])];
        let manifest = Manifest { generation: 7, refs, sealed, packs, retired };
        let bytes = manifest.encode(store);
        assert_eq!(Manifest::decode(&bytes, store, 7), Some(manifest));
        assert_eq!(Manifest::decode(&bytes, store, 8), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Manifest::decode(&damaged, store, 7), None);
            assert_eq!(Manifest::decode(&bytes[..at], store, 7), None);
        }
    }
}
