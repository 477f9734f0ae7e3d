//! Caches frames read from remotes in a folder of the store, up to a limit; evicts the oldest
//! first.
//!
//! The cache is optional: a frame that cannot be read or written is read from the remote again. A
//! file is trusted only after it verifies.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::store::io::{Access, Io};
use crate::store::{DISTANT_DIR, StoreKeys, decipher, encipher, lock};

/// The files of a store that hold cached frames.
#[derive(Debug)]
pub(super) struct FrameFolder {
    io: Arc<dyn Io>,
    keys: Option<StoreKeys>,
    dir: PathBuf,
    max_bytes: u64,
    /// Names and sizes of the files, oldest first; `None` until first needed.
    files: Mutex<Option<VecDeque<(String, u64)>>>,
}

impl FrameFolder {
    pub(super) fn new(
        io: Arc<dyn Io>,
        keys: Option<StoreKeys>,
        store: &Path,
        max_bytes: u64,
    ) -> Self {
        Self { io, keys, dir: store.join(DISTANT_DIR), max_bytes, files: Mutex::default() }
    }

    /// Returns the bytes stored under a name.
    pub(super) fn get(&self, name: &str) -> Option<Bytes> {
        let file = self.io.open(&self.dir.join(name), Access::Read).ok()?;
        let mut bytes = vec![0; usize::try_from(file.size().ok()?).ok()?];
        let read = file.read_at(&mut bytes, 0).ok()?;
        bytes.truncate(read);
        match &self.keys {
            Some(keys) => decipher(keys, &bytes).map(Bytes::from),
            None => Some(bytes.into()),
        }
    }

    /// Stores bytes under a name.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        // If this fails, the frame is read from the remote again.
        let _ = self.try_put(name, bytes);
    }

    /// Deletes a file that does not verify.
    pub(super) fn remove(&self, name: &str) {
        let _ = self.io.remove(&self.dir.join(name));
    }

    /// Deletes all files: they may contain content that must not be kept.
    pub(super) fn clear(&self) {
        for name in self.io.list(&self.dir).unwrap_or_default() {
            self.remove(&name);
        }
        *lock(&self.files) = None;
    }

    fn try_put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let enciphered = self.keys.as_ref().map(|keys| encipher(keys, bytes)).transpose()?;
        let bytes = enciphered.as_deref().unwrap_or(bytes);
        if bytes.len() as u64 > self.max_bytes {
            return Ok(());
        }
        // Mostly exists already.
        let _ = self.io.create_dir(&self.dir);
        let mut files = lock(&self.files);
        let files = files.get_or_insert_with(|| self.earlier_files());
        let mut held: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        while held.saturating_add(bytes.len() as u64) > self.max_bytes {
            let Some((oldest, freed)) = files.pop_front() else { break };
            self.remove(&oldest);
            held = held.saturating_sub(freed);
        }
        // Named after this process: other processes write theirs concurrently.
        let temporary = self.dir.join(format!("{}.tmp", std::process::id()));
        let _ = self.io.remove(&temporary);
        let written = self.io.create(&temporary).and_then(|file| file.write_at(bytes, 0));
        written.and_then(|()| self.io.replace(&temporary, &self.dir.join(name))).inspect_err(
            |_| {
                let _ = self.io.remove(&temporary);
            },
        )?;
        files.push_back((name.to_owned(), bytes.len() as u64));
        Ok(())
    }

    /// Returns the files of earlier runs, in arbitrary order.
    fn earlier_files(&self) -> VecDeque<(String, u64)> {
        let names = self.io.list(&self.dir).unwrap_or_default();
        let sized = names.into_iter().filter_map(|name| {
            let file = self.io.open(&self.dir.join(&name), Access::Read).ok()?;
            Some((name, file.size().ok()?))
        });
        sized.collect()
    }
}
