//! Encodes tables of stats: the stat of each file of a directory when its content was last known.
//!
//! A table names its `files` section by the root, and has the same paths. It holds no content and
//! no ids of content, only the stat that each file had when it had the content in that section.
//! Files are grouped by folder, so an unchanged folder is copied from one table to the next.
//! Specified in `format-spec/workspace.md`.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use rayon::prelude::*;

use crate::object::{Checksum, ID_BYTES, ObjectId};
use crate::workspace::disk::stat::{STAT_BYTES, Stat};

const MAGIC: [u8; 8] = *b"\x89TTW\r\n\x1a\n";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 88;
const LENGTH_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 32;
const CHECKSUM: &str = "turntree v1 workspace";

/// A complete and valid table.
#[derive(Debug)]
pub(in crate::workspace) struct Table {
    bytes: Bytes,
    /// Sorted by prefix.
    blocks: Vec<TableBlock>,
    /// The root of its section.
    pub(in crate::workspace) root: ObjectId,
    /// Number of files.
    pub(in crate::workspace) files: u64,
}

/// A folder in a table: ranges of its bytes.
#[derive(Debug)]
pub(in crate::workspace) struct TableBlock {
    whole: Range<usize>,
    prefix: Range<usize>,
    stats: Range<usize>,
    lengths: Range<usize>,
    names: Range<usize>,
    /// The digest of the rules, by which no file in the folder was ignored.
    pub(in crate::workspace) rules: ObjectId,
}

impl TableBlock {
    /// Returns the number of files.
    pub(in crate::workspace) fn files(&self) -> usize {
        self.lengths.len() / LENGTH_BYTES
    }
}

impl Table {
    /// Decodes the table of the directory identified by `directory`; `None` if the bytes are
    /// something else or damaged.
    pub(in crate::workspace) fn decode(bytes: &Bytes, directory: &ObjectId) -> Option<Self> {
        let content = bytes.len().checked_sub(CHECKSUM_BYTES)?;
        let (content, checksum) = bytes.split_at_checked(content)?;
        let mut at = TableReader { bytes: content, place: 0 };
        let is_table = at.take(MAGIC.len())? == MAGIC && at.number()? == VERSION;
        let folders = at.number()?;
        let files = u64::from_le_bytes(at.take(8)?.try_into().ok()?);
        let root = at.id()?;
        if !is_table || at.id()? != *directory {
            return None;
        }
        let mut blocks = Vec::new();
        while at.place < content.len() {
            blocks.push(at.block()?);
        }
        let found: u64 = blocks.iter().map(|block| block.files() as u64).sum();
        let table = Self { bytes: bytes.clone(), blocks, root, files };
        let is_whole = || Checksum::new(CHECKSUM).update(content).finish() == checksum;
        let is_counted = table.blocks.len() == folders as usize && found == files;
        let (is_whole, is_valid) = rayon::join(is_whole, || table.is_valid());
        (is_counted && is_whole && is_valid).then_some(table)
    }

    /// Returns the folders with files, in order.
    pub(in crate::workspace) fn blocks(&self) -> &[TableBlock] {
        &self.blocks
    }

    /// Returns the folder `prefix`, which is empty or ends with a slash.
    pub(in crate::workspace) fn find(&self, prefix: &str) -> Option<&TableBlock> {
        let at = self.blocks.binary_search_by(|block| self.prefix(block).cmp(prefix)).ok()?;
        self.blocks.get(at)
    }

    /// Returns the path of a folder, empty or with a trailing slash.
    pub(in crate::workspace) fn prefix(&self, block: &TableBlock) -> &str {
        self.text(&block.prefix).unwrap_or_default()
    }

    /// Returns the names in a folder, sorted, and their stats.
    pub(in crate::workspace) fn files<'t>(
        &'t self,
        block: &TableBlock,
    ) -> impl Iterator<Item = (&'t str, Option<Stat>)> {
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        let (stats, _) = part(&block.stats).as_chunks::<STAT_BYTES>();
        let (lengths, _) = part(&block.lengths).as_chunks::<LENGTH_BYTES>();
        let mut names = std::str::from_utf8(part(&block.names)).unwrap_or_default();
        stats.iter().zip(lengths).map(move |(stat, length)| {
            let length = usize::from(u16::from_le_bytes(*length));
            let (name, rest) = names.split_at_checked(length).unwrap_or_default();
            names = rest;
            (name, Stat::decode(stat))
        })
    }

    fn text(&self, range: &Range<usize>) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(range.clone())?).ok()
    }

    /// Returns true if every path is valid, unique and in order.
    fn is_valid(&self) -> bool {
        let prefixes = self.blocks.iter().map(|block| self.text(&block.prefix));
        let are_prefixes = prefixes
            .clone()
            .all(|prefix| prefix.is_some_and(|text| text.is_empty() || text.ends_with('/')));
        let rise = prefixes.is_sorted_by(|before, after| before.cmp(after) == Ordering::Less);
        are_prefixes && rise && self.blocks.par_iter().all(|block| self.has_valid_names(block))
    }

    fn has_valid_names(&self, block: &TableBlock) -> bool {
        let Some(names) = self.text(&block.names).filter(|names| !names.contains('/')) else {
            return false;
        };
        let lengths = self.bytes.get(block.lengths.clone()).unwrap_or_default();
        let (mut rest, mut before) = (names, None);
        for length in lengths.as_chunks::<LENGTH_BYTES>().0 {
            let length = usize::from(u16::from_le_bytes(*length));
            let Some((name, after)) = rest.split_at_checked(length) else { return false };
            if before.is_some_and(|before| before >= name) {
                return false;
            }
            (rest, before) = (after, Some(name));
        }
        rest.is_empty()
    }
}

/// A position in the bytes of a table.
struct TableReader<'b> {
    bytes: &'b [u8],
    place: usize,
}

impl<'b> TableReader<'b> {
    fn range(&mut self, length: usize) -> Option<Range<usize>> {
        let end = self.place.checked_add(length).filter(|end| *end <= self.bytes.len())?;
        let range = self.place..end;
        self.place = end;
        Some(range)
    }

    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let range = self.range(length)?;
        self.bytes.get(range)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn id(&mut self) -> Option<ObjectId> {
        Some(ObjectId::from_bytes(self.take(ID_BYTES)?.try_into().ok()?))
    }

    fn block(&mut self) -> Option<TableBlock> {
        let start = self.place;
        let [prefix, files, names, zero] =
            [self.number()?, self.number()?, self.number()?, self.number()?];
        let rules = self.id()?;
        let (prefix, files) = (prefix as usize, files as usize);
        let prefix = self.range(prefix)?;
        let stats = self.range(files.checked_mul(STAT_BYTES)?)?;
        let lengths = self.range(files.checked_mul(LENGTH_BYTES)?)?;
        let names = self.range(names as usize)?;
        let block = TableBlock { whole: start..self.place, prefix, stats, lengths, names, rules };
        (zero == 0 && files > 0).then_some(block)
    }
}

/// A table under construction, complete except for its root.
#[derive(Clone, Default, PartialEq, Eq)]
pub(in crate::workspace) struct TableDraft {
    folders: u32,
    files: u64,
    blocks: Vec<u8>,
}

/// Hides file names, which are content.
impl std::fmt::Debug for TableDraft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableDraft").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TableDraft {
    /// Copies a folder from another table. Folders must come in the order of their prefixes.
    pub(in crate::workspace) fn copy(&mut self, table: &Table, block: &TableBlock) {
        self.folders += 1;
        self.files += block.files() as u64;
        self.blocks.extend_from_slice(table.bytes.get(block.whole.clone()).unwrap_or_default());
    }

    /// Adds a folder: its path, empty or with a trailing slash, its rules, and its files by name.
    pub(in crate::workspace) fn add<'n>(
        &mut self,
        prefix: &str,
        rules: &ObjectId,
        files: impl Iterator<Item = (&'n str, Option<Stat>)>,
    ) {
        let (mut stats, mut lengths, mut names) = (Vec::new(), Vec::new(), String::new());
        for (name, stat) in files {
            // A key has at most 4,096 bytes.
            let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
            Stat::encode(stat.as_ref(), &mut stats);
            lengths.extend_from_slice(&length.to_le_bytes());
            names.push_str(name);
        }
        let count = lengths.len() / LENGTH_BYTES;
        if count == 0 {
            return;
        }
        self.folders += 1;
        self.files += count as u64;
        for number in [prefix.len(), count, names.len(), 0] {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            self.blocks.extend_from_slice(&number.to_le_bytes());
        }
        for part in [rules.as_bytes(), prefix.as_bytes(), &stats, &lengths, names.as_bytes()] {
            self.blocks.extend_from_slice(part);
        }
    }

    /// Returns the number of files.
    pub(in crate::workspace) fn files(&self) -> u64 {
        self.files
    }

    /// Returns the bytes of the table before and after [`TableDraft::blocks`].
    pub(in crate::workspace) fn encode(
        &self,
        root: &ObjectId,
        directory: &ObjectId,
    ) -> [Vec<u8>; 2] {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&self.folders.to_le_bytes());
        header.extend_from_slice(&self.files.to_le_bytes());
        header.extend_from_slice(root.as_bytes());
        header.extend_from_slice(directory.as_bytes());
        let checksum = Checksum::new(CHECKSUM).update(&header).update(&self.blocks).finish();
        [header, checksum.to_vec()]
    }

    /// Returns the bytes between the two parts of [`TableDraft::encode`].
    pub(in crate::workspace) fn blocks(&self) -> &[u8] {
        &self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    fn id(text: &str) -> ObjectId {
        ObjectId::of(Kind::Blob, text.as_bytes())
    }

    fn bytes(draft: &TableDraft) -> Bytes {
        let [header, checksum] = draft.encode(&id("root"), &id("directory"));
        [&header[..], draft.blocks(), &checksum[..]].concat().into()
    }

    fn draft(folders: &[(&str, &[&str])]) -> TableDraft {
        let mut draft = TableDraft::default();
        for (prefix, names) in folders {
            let stat = |name: &str| (name != "b").then(|| Stat::artificial(9, 1, 2));
            draft.add(prefix, &id(prefix), names.iter().map(|name| (*name, stat(name))));
        }
        draft
    }

    #[test]
    fn a_table_comes_back_and_folders_go_on_into_the_next() {
        let folders: [(&str, &[&str]); 3] =
            [("", &["", "a", "b"]), ("none/", &[]), ("x/y/", &["ä"])];
        let written = draft(&folders);
        let table = Table::decode(&bytes(&written), &id("directory")).unwrap();
        assert_eq!((table.files, table.root, table.blocks().len()), (4, id("root"), 2));
        let top = table.find("").unwrap();
        let stat = Some(Stat::artificial(9, 1, 2));
        assert_eq!(table.files(top).collect::<Vec<_>>(), [("", stat), ("a", stat), ("b", None)]);
        assert_eq!(top.rules, id(""));
        assert!(table.find("none/").is_none() && table.find("x/").is_none());
        let mut copy = TableDraft::default();
        table.blocks().iter().for_each(|block| copy.copy(&table, block));
        assert_eq!(copy, written);
    }

    /// The tables have a valid checksum, as an attacker with write access could forge them.
    #[test]
    fn what_is_no_table_is_none() {
        let good = draft(&[("", &["a", "b"]), ("x/", &["c"])]);
        assert!(Table::decode(&bytes(&good), &id("directory")).is_some());
        assert!(Table::decode(&bytes(&good), &id("another")).is_none());
        for folders in [
            &[("x/", &["c"][..]), ("", &["a"])][..],
            &[("x/", &["c"]), ("x/", &["d"])],
            &[("x", &["c"])],
            &[("", &["b", "a"])],
            &[("", &["a", "a"])],
            &[("", &["a/b"])],
        ] {
            assert!(
                Table::decode(&bytes(&draft(folders)), &id("directory")).is_none(),
                "{folders:?}"
            );
        }
        let miscounted =
            [TableDraft { files: 4, ..good.clone() }, TableDraft { folders: 1, ..good.clone() }];
        for draft in miscounted {
            assert!(Table::decode(&bytes(&draft), &id("directory")).is_none());
        }
        // Change every byte of the blocks, with a valid checksum.
        for at in 0..good.blocks.len() {
            let mut changed = good.clone();
            changed.blocks[at] = changed.blocks[at].wrapping_add(0x81);
            if let Some(table) = Table::decode(&bytes(&changed), &id("directory")) {
                let files = table.blocks().iter().map(|block| table.files(block).count());
                assert_eq!(files.sum::<usize>() as u64, table.files);
            }
        }
    }
}
