//! Whole files in memory, mapped. The only user of memmap2.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

/// True if mapping a file reads nothing, and keeps no other process from removing or replacing it.
pub(crate) const MAPS_FILES: bool = true;

/// A whole file in memory: mapped, or read.
#[derive(Debug, Clone)]
pub struct Mapping {
    bytes: Bytes,
    /// The mapping, if the file is mapped.
    map: Option<Arc<memmap2::Mmap>>,
}

impl Mapping {
    /// Maps a file. Only for files that no process writes to or truncates.
    ///
    /// # Errors
    /// When the system refuses.
    #[expect(unsafe_code, reason = "mapping a file is unsafe in Rust; see SAFETY")]
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        // SAFETY: callers map only sealed files. A store never writes to, truncates or reuses such
        // a file; it unlinks it, which leaves mappings intact. If another process modifies it, each
        // read still verifies the bytes against their id.
        let map = Arc::new(unsafe { memmap2::Mmap::map(file)? });
        Ok(Self { bytes: Bytes::from_owner(OwnedMap(Arc::clone(&map))), map: Some(map) })
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the memory of mapped pages to the system, which rereads them on the next access. So
    /// a scan of a large store does not keep all of it in memory. Costs a system call, and a page
    /// fault for each stretch that is accessed again.
    #[expect(unsafe_code, reason = "giving pages back is unsafe in Rust; see SAFETY")]
    pub fn release_pages(&self) {
        if let Some(map) = &self.map {
            // SAFETY: the mapping is private and was never written to, and its file does not
            // change, which is the condition of mapping it: rereading returns the same bytes. The
            // advice changes nothing else, so its failure only costs memory.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

impl From<Bytes> for Mapping {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, map: None }
    }
}

/// A mapping that is kept alive by its bytes.
struct OwnedMap(Arc<memmap2::Mmap>);

impl AsRef<[u8]> for OwnedMap {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
