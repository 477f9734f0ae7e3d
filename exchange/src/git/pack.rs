//! Writes the objects of an export as one pack per run, which appears atomically.
//!
//! Objects are compressed one by one into a temporary file. At the end gix reads the file, verifies
//! every object, writes the index, and renames both. They are synced before any ref references
//! them.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gix::ObjectId as GitId;
use gix::objs::{Kind, WriteTo};
use gix::zlib::stream::deflate::{Compress, FlushCompress};
use gix::zlib::{Compression, Status};
use gix_pack::data;
use gix_pack::data::entry::Header;
use turntree::error::{Error, Result};
use turntree::platform::sync_names;

use super::git_error;

/// Git removes stale files with this prefix.
const TEMPORARY: &str = "tmp_turntree_export";

/// A fast level that reduces text to about a third. `git gc` compresses further.
const LEVEL: i32 = 3;

const CHUNK_BYTES: usize = 64 << 10;

const HASH: gix::hash::Kind = gix::hash::Kind::Sha1;

/// A pack under construction. Dropping it removes the file.
pub(super) struct PackWriter {
    folder: PathBuf,
    path: PathBuf,
    file: BufWriter<File>,
    deflate: Compress,
    /// The ids of the written objects, to write each once.
    ids: HashSet<GitId>,
    compressed: Vec<u8>,
    encoded: Vec<u8>,
}

/// The number and size of the objects that a run wrote.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PackSize {
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

impl PackWriter {
    /// Begins a pack in the repository in `git_dir`. The caller holds the lock of the export, so a
    /// file that a killed export left is overwritten.
    pub(super) fn begin(git_dir: &Path) -> Result<Self> {
        let folder = git_dir.join("objects").join("pack");
        let path = folder.join(TEMPORARY);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = opened.map_err(|error| failed(&path, error))?;
        let mut writer = Self {
            folder,
            path,
            file: BufWriter::with_capacity(CHUNK_BYTES, file),
            deflate: Compress::new(Compression::new(LEVEL).unwrap_or_default()),
            ids: HashSet::new(),
            compressed: Vec::new(),
            encoded: Vec::new(),
        };
        // `seal` writes the number of objects.
        writer.append(&data::header::encode(data::Version::V2, 0))?;
        Ok(writer)
    }

    /// Writes an object, unless this run already wrote it.
    pub(super) fn write_object(&mut self, object: &dyn WriteTo) -> Result<GitId> {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        let written = object
            .write_to(&mut encoded)
            .map_err(|error| Error::io(format!("encode a git {}", object.kind()), error))
            .and_then(|()| self.write(object.kind(), &encoded));
        self.encoded = encoded;
        written
    }

    /// Writes the object of `kind` with these bytes, unless this run already wrote it.
    pub(super) fn write(&mut self, kind: Kind, bytes: &[u8]) -> Result<GitId> {
        let hashed = gix::objs::compute_hash(HASH, kind, bytes);
        let id = hashed.map_err(|error| git_error("hash an object", error))?;
        if !self.ids.insert(id) {
            return Ok(id);
        }
        let header = match kind {
            Kind::Blob => Header::Blob,
            Kind::Tree => Header::Tree,
            Kind::Commit => Header::Commit,
            Kind::Tag => Header::Tag,
        };
        self.compress(bytes)?;
        let written = header.write_to(bytes.len() as u64, &mut self.file).map(drop);
        let written = written.and_then(|()| self.file.write_all(&self.compressed));
        written.map_err(|error| failed(&self.path, error))?;
        Ok(id)
    }

    /// Renames the pack to its final name, durably. Writes no empty pack.
    pub(super) fn finish(mut self) -> Result<PackSize> {
        if self.ids.is_empty() {
            return Ok(PackSize::default());
        }
        let objects = u32::try_from(self.ids.len())
            .map_err(|_| Error::limit("objects of one export", u32::MAX.into(), u64::MAX))?;
        let bytes = self.seal(objects).map_err(|error| failed(&self.path, error))?;
        let mut file = File::open(&self.path)
            .map(|file| BufReader::with_capacity(CHUNK_BYTES, file))
            .map_err(|error| failed(&self.path, error))?;
        let outcome = gix_pack::Bundle::write_to_directory(
            &mut file,
            Some(&self.folder),
            &mut gix::progress::Discard,
            &AtomicBool::new(false),
            None::<gix::objs::find::Never>,
            HASH,
            gix_pack::bundle::write::Options::default(),
        )
        .map_err(|error| git_error("index the pack", error))?;
        // Not by a handle that only reads: Windows refuses to flush one, and to open a directory so.
        for path in [&outcome.data_path, &outcome.index_path].into_iter().flatten() {
            sync_names(path).map_err(|error| failed(path, error))?;
        }
        if let Some(keep) = &outcome.keep_path {
            fs::remove_file(keep).map_err(|error| failed(keep, error))?;
        }
        sync_names(&self.folder).map_err(|error| failed(&self.folder, error))?;
        Ok(PackSize { objects: objects.into(), bytes })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| failed(&self.path, error))
    }

    /// Writes the number of objects to the header and the hash to the end. Returns the size.
    fn seal(&mut self, objects: u32) -> io::Result<u64> {
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&data::header::encode(data::Version::V2, objects))?;
        file.seek(SeekFrom::Start(0))?;
        let mut hasher = gix::hash::hasher(HASH);
        let (mut chunk, mut size) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let read = file.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            hasher.update(chunk.get(..read).unwrap_or_default());
            size += read as u64;
        }
        let hash = hasher.try_finalize().map_err(io::Error::other)?;
        file.write_all(hash.as_slice())?;
        Ok(size + hash.as_slice().len() as u64)
    }

    /// Compresses `bytes` into `compressed` as a zlib stream.
    fn compress(&mut self, bytes: &[u8]) -> Result<()> {
        self.deflate.reset();
        self.compressed.clear();
        loop {
            let (read, written) = (self.deflate.total_in(), self.compressed.len());
            let rest = usize::try_from(read).ok().and_then(|read| bytes.get(read..));
            let rest = rest.unwrap_or_default();
            self.compressed.resize(written + rest.len() / 2 + 1024, 0);
            let room = self.compressed.get_mut(written..).unwrap_or_default();
            let status = self.deflate.compress(rest, room, FlushCompress::Finish);
            let status = status.map_err(|error| git_error("compress an object", error))?;
            let out = usize::try_from(self.deflate.total_out()).unwrap_or(usize::MAX);
            self.compressed.truncate(out);
            if matches!(status, Status::StreamEnd) {
                return Ok(());
            }
        }
    }
}

impl Drop for PackWriter {
    fn drop(&mut self) {
        // The next export overwrites a remaining file, or git removes it.
        let _ = fs::remove_file(&self.path);
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::io(format!("write {}", path.display()), error)
}
