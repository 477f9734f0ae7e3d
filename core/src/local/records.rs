//! Reads the contents of a snapshot or of a change: entries of maps in order, from any key, and
//! records of lists.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use super::Snapshot;
use crate::context::{Context, PathTarget, Section, Shape, text_key};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource};

/// A query for entries of a map section.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// The prefix of the keys.
    pub prefix: String,
    /// The key after which reading begins, in reading direction; it need not exist.
    pub after: Option<String>,
    /// True to read from the last key to the first.
    pub backwards: bool,
    /// The maximum number of entries.
    pub limit: Option<u64>,
}

/// The contents of a snapshot, or of a branch as a change will leave it.
#[derive(Clone, Copy)]
pub struct Contents<'c> {
    source: &'c dyn ObjectSource,
    context: &'c Context,
}

impl fmt::Debug for Contents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

impl<'c> Contents<'c> {
    pub(super) fn new(source: &'c dyn ObjectSource, context: &'c Context) -> Self {
        Self { source, context }
    }

    /// Returns the sections by name, with their shapes.
    ///
    /// # Errors
    /// `Corrupt` if the context cannot be read.
    pub fn sections(&self) -> Result<Vec<(String, Section)>> {
        Ok(self.context.sections(self.source)?.into_iter().collect())
    }

    /// Returns the entry at `path`, such as `scratchpad/plan` or `files/src/a.rs`, byte for byte.
    ///
    /// # Errors
    /// `NotFound` if there is no entry, `InvalidInput` for a folder or a whole section.
    pub fn read_entry(&self, path: &str) -> Result<Bytes> {
        match self.find_entry(path)? {
            Some(blob) => self.source.read_as(Kind::Blob, &blob),
            None => Err(Error::invalid(format!("{path} is not a single entry: list it"))),
        }
    }

    /// Returns true if `path` names an entry. Does not read its content.
    ///
    /// # Errors
    /// `Corrupt` if the context cannot be read.
    pub fn has_entry(&self, path: &str) -> Result<bool> {
        match self.find_entry(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => Ok(found?.is_some()),
        }
    }

    /// Returns the blob at `path`; `None` for a folder or a whole section.
    fn find_entry(&self, path: &str) -> Result<Option<ObjectId>> {
        Ok(match self.context.lookup(self.source, path)? {
            PathTarget::Entry(item) => Some(item.link.id),
            PathTarget::Section(section) if section.shape == Shape::Blob => Some(section.id),
            PathTarget::Section(_) | PathTarget::Folder => None,
        })
    }

    /// Returns the number of entries or records of a section; 0 if it is missing. Reads its root.
    ///
    /// # Errors
    /// `Corrupt` if it cannot be read.
    pub fn count(&self, section: &str) -> Result<u64> {
        self.context.count(self.source, section)
    }

    /// Returns an entry of a map section; `None` if it is missing.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a map, `Corrupt` if it cannot be read.
    pub fn get(&self, section: &str, key: &str) -> Result<Option<Bytes>> {
        let map = self.context.map(self.source, section)?;
        let found = map.get(self.source, key.as_bytes())?;
        found.map(|item| self.source.read_as(Kind::Blob, &item.link.id)).transpose()
    }

    /// Returns entries of a map section, ordered by the bytes of their keys. Costs in proportion to
    /// the returned entries, wherever they are.
    ///
    /// # Errors
    /// As for [`Contents::get`].
    pub fn scan(&self, section: &str, scan: &Scan) -> Result<Vec<(String, Bytes)>> {
        let (keys, blobs): (Vec<_>, Vec<_>) = self.find(section, scan)?.into_iter().unzip();
        let contents = self.source.read_all(Kind::Blob, &blobs)?;
        Ok(keys.into_iter().zip(contents).collect())
    }

    /// Returns the keys that [`Contents::scan`] finds, without reading their entries.
    ///
    /// # Errors
    /// As for [`Contents::get`].
    pub fn scan_keys(&self, section: &str, scan: &Scan) -> Result<Vec<String>> {
        Ok(self.find(section, scan)?.into_iter().map(|(key, _)| key).collect())
    }

    fn find(&self, section: &str, scan: &Scan) -> Result<Vec<(String, ObjectId)>> {
        let (source, map) = (self.source, self.context.map(self.source, section)?);
        let Range { mut start, mut end } = map.prefix_positions(source, scan.prefix.as_bytes())?;
        if let Some(after) = &scan.after {
            let rank = map.rank(source, after.as_bytes())?;
            match scan.backwards {
                true => end = end.min(rank),
                false => {
                    let is_there = map.get(source, after.as_bytes())?.is_some();
                    start = start.max(rank + u64::from(is_there));
                }
            }
        }
        let limit = scan.limit.unwrap_or(u64::MAX);
        match scan.backwards {
            true => start = start.max(end.saturating_sub(limit)),
            false => end = end.min(start.saturating_add(limit)),
        }
        let entries = map.slice(source, start..end).map(|entry| {
            let (key, item) = entry?;
            Ok((text_key(&key)?, item.link.id))
        });
        let mut found = entries.collect::<Result<Vec<_>>>()?;
        if scan.backwards {
            found.reverse();
        }
        Ok(found)
    }

    /// Returns the records of a list section at these places, as far as they exist.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a list, `Corrupt` if it cannot be read.
    pub fn list(&self, section: &str, places: Range<u64>) -> Result<Vec<Bytes>> {
        let list = self.context.list(self.source, section)?;
        let items = list.iter(self.source, places);
        let blobs = items.map(|item| Ok(item?.link.id)).collect::<Result<Vec<_>>>()?;
        self.source.read_all(Kind::Blob, &blobs)
    }
}

impl Snapshot {
    /// Returns the contents, for code that also reads changes.
    #[must_use]
    pub fn contents(&self) -> Contents<'_> {
        Contents::new(self.source(), self.context())
    }

    /// Returns the sections by name, with their shapes.
    ///
    /// # Errors
    /// `Corrupt` if the context cannot be read.
    pub fn sections(&self) -> Result<Vec<(String, Section)>> {
        self.contents().sections()
    }

    /// Returns the entry at `path`, such as `scratchpad/plan` or `files/src/a.rs`, byte for byte.
    ///
    /// # Errors
    /// `NotFound` if there is no entry, `InvalidInput` for a folder or a whole section.
    pub fn read_entry(&self, path: &str) -> Result<Bytes> {
        self.contents().read_entry(path)
    }

    /// Returns true if `path` names an entry. Does not read its content.
    ///
    /// # Errors
    /// `Corrupt` if the context cannot be read.
    pub fn has_entry(&self, path: &str) -> Result<bool> {
        self.contents().has_entry(path)
    }

    /// Returns the number of entries or records of a section; 0 if it is missing. Reads its root.
    ///
    /// # Errors
    /// `Corrupt` if it cannot be read.
    pub fn count(&self, section: &str) -> Result<u64> {
        self.contents().count(section)
    }

    /// Returns an entry of a map section; `None` if it is missing.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a map, `Corrupt` if it cannot be read.
    pub fn get(&self, section: &str, key: &str) -> Result<Option<Bytes>> {
        self.contents().get(section, key)
    }

    /// Returns entries of a map section, ordered by the bytes of their keys. Costs in proportion to
    /// the returned entries, wherever they are.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn scan(&self, section: &str, scan: &Scan) -> Result<Vec<(String, Bytes)>> {
        self.contents().scan(section, scan)
    }

    /// Returns the keys that [`Snapshot::scan`] finds, without reading their entries.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn scan_keys(&self, section: &str, scan: &Scan) -> Result<Vec<String>> {
        self.contents().scan_keys(section, scan)
    }

    /// Returns the records of a list section at these places, as far as they exist.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a list, `Corrupt` if it cannot be read.
    pub fn list(&self, section: &str, places: Range<u64>) -> Result<Vec<Bytes>> {
        self.contents().list(section, places)
    }
}
