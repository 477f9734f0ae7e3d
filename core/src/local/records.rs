//! Records of a snapshot to read: entries of maps in order, from any key, and records of lists.

use std::ops::Range;

use bytes::Bytes;

use super::Snapshot;
use crate::context::{Section, text_key};
use crate::error::Result;
use crate::object::{Kind, ObjectId};

/// Entries of a map section to read.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// What their keys begin with.
    pub prefix: String,
    /// The key that they come after, in the direction of reading; it need not be there.
    pub after: Option<String>,
    /// From the last key to the first.
    pub backwards: bool,
    /// How many, at most.
    pub limit: Option<u64>,
}

impl Snapshot {
    /// Returns the sections by name, with their shapes.
    ///
    /// # Errors
    /// `Corrupt` when the context cannot be read.
    pub fn sections(&self) -> Result<Vec<(String, Section)>> {
        Ok(self.context().sections(self.source())?.into_iter().collect())
    }

    /// Returns how many entries or records a section has; 0 when it is not there. Reads its root.
    ///
    /// # Errors
    /// `Corrupt` when it cannot be read.
    pub fn count(&self, section: &str) -> Result<u64> {
        self.context().count(self.source(), section)
    }

    /// Returns an entry of a map section; `None` when it is not there.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is no map, `Corrupt` when it cannot be read.
    pub fn get(&self, section: &str, key: &str) -> Result<Option<Bytes>> {
        let map = self.context().map(self.source(), section)?;
        let found = map.get(self.source(), key.as_bytes())?;
        found.map(|item| self.source().read_as(Kind::Blob, &item.link.id)).transpose()
    }

    /// Returns entries of a map section, in the order of the bytes of their keys. Costs what is
    /// returned, wherever it lies.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn scan(&self, section: &str, scan: &Scan) -> Result<Vec<(String, Bytes)>> {
        let (keys, blobs): (Vec<_>, Vec<_>) = self.find(section, scan)?.into_iter().unzip();
        let contents = self.source().read_all(Kind::Blob, &blobs)?;
        Ok(keys.into_iter().zip(contents).collect())
    }

    /// Returns the keys that [`Snapshot::scan`] finds, without reading their entries.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn scan_keys(&self, section: &str, scan: &Scan) -> Result<Vec<String>> {
        Ok(self.find(section, scan)?.into_iter().map(|(key, _)| key).collect())
    }

    fn find(&self, section: &str, scan: &Scan) -> Result<Vec<(String, ObjectId)>> {
        let (source, map) = (self.source(), self.context().map(self.source(), section)?);
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

    /// Returns the records of a list section at these places, as far as there are any.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is no list, `Corrupt` when it cannot be read.
    pub fn list(&self, section: &str, places: Range<u64>) -> Result<Vec<Bytes>> {
        let list = self.context().list(self.source(), section)?;
        let items = list.iter(self.source(), places);
        let blobs = items.map(|item| Ok(item?.link.id)).collect::<Result<Vec<_>>>()?;
        self.source().read_all(Kind::Blob, &blobs)
    }
}
