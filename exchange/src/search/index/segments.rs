//! Segments: the posting lists as stored in the index.
//!
//! Each change adds a segment with the words of its documents, sorted, in blocks. A search reads
//! all segments, so a segment is merged with the newer ones once these are together at least as
//! large. The number of segments, and the number of times that a byte is rewritten, are therefore
//! logarithmic in the size of the index. Large segments are never merged automatically, which
//! bounds the cost of a change.

use rusqlite::{Connection, OptionalExtension, params};

use super::measures::Measures;
use super::postings::{BlockWriter, PostingList, PostingLists, each_posting, word_at};
use super::{IndexError, IndexResult};

/// Size in bytes from which a segment is large.
const LARGE_BYTES: i64 = 16 << 20;

/// Receives a word and its list. Returns `None` if the list is damaged.
pub(super) type ListVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Option<()>;

/// Adds a segment with the lists of new documents. Merges small segments.
pub(super) fn add(
    change: &Connection,
    lists: PostingLists,
    measures: &mut Measures<'_>,
) -> IndexResult<()> {
    if lists.is_empty() {
        return Ok(());
    }
    let mut writer = SegmentWriter::begin(change)?;
    for (word, list) in lists.sorted() {
        writer.push(word.as_bytes(), list.bytes())?;
    }
    writer.finish()?;
    drop(lists);
    let mut segments = segments(change)?;
    let (mut together, mut first) = (0, segments.len());
    for (at, (_, bytes)) in segments.iter().enumerate().rev() {
        if *bytes >= LARGE_BYTES || (together > 0 && *bytes > together) {
            break;
        }
        together += bytes;
        first = at;
    }
    match segments.split_off(first) {
        several if several.len() > 1 => rewrite(change, &several, measures),
        _ => Ok(()),
    }
}

/// Merges all segments and removes the postings of dropped documents.
pub(super) fn merge_all(change: &Connection, measures: &mut Measures<'_>) -> IndexResult<()> {
    rewrite(change, &segments(change)?, measures)
}

/// Calls `take` with a word and its list, or with each word with this prefix, of each segment.
pub(super) fn each_list(
    view: &Connection,
    word: &str,
    is_prefix: bool,
    take: ListVisitor<'_>,
) -> IndexResult<()> {
    let mut from = view.prepare(
        "SELECT word FROM first_words WHERE segment = ?1 AND word <= ?2
            ORDER BY word DESC LIMIT 1",
    )?;
    let mut blocks = view.prepare(
        "SELECT postings FROM first_words CROSS JOIN blocks ON blocks.id = block
            WHERE segment = ?1 AND word >= ?2 ORDER BY word",
    )?;
    let word = word.as_bytes();
    for (segment, _) in segments(view)? {
        let first = from.query_row(params![segment, word], |row| row.get::<_, Vec<u8>>(0));
        let first = first.optional()?.unwrap_or_else(|| word.to_vec());
        let mut rows = blocks.query(params![segment, first])?;
        while let Some(row) = rows.next()? {
            let block = row.get_ref(0)?.as_blob().map_err(|_| IndexError::Damaged)?;
            if visit_block(block, word, is_prefix, take).ok_or(IndexError::Damaged)? {
                break;
            }
        }
    }
    Ok(())
}

/// Calls `take` with the wanted lists of a block. Returns true if later blocks have no wanted list.
fn visit_block(
    block: &[u8],
    wanted: &[u8],
    is_prefix: bool,
    take: ListVisitor<'_>,
) -> Option<bool> {
    let (mut at, mut word) = (0, Vec::new());
    while at < block.len() {
        let list = word_at(block, &mut at, &mut word)?;
        if word.as_slice() < wanted {
            continue;
        }
        let is_wanted = if is_prefix { word.starts_with(wanted) } else { word == wanted };
        if !is_wanted {
            return Some(true);
        }
        take(&word, block.get(list)?)?;
        if !is_prefix {
            return Some(true);
        }
    }
    Some(false)
}

/// Returns the size of all posting lists in bytes.
pub(super) fn bytes_of_segments(view: &Connection) -> IndexResult<i64> {
    Ok(segments(view)?.iter().map(|(_, bytes)| bytes).sum())
}

/// Returns the segments with their sizes in bytes, oldest first.
fn segments(view: &Connection) -> IndexResult<Vec<(i64, i64)>> {
    let mut query = view.prepare("SELECT id, bytes FROM segments ORDER BY id")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Merges adjacent segments and removes the postings of dropped documents.
fn rewrite(
    change: &Connection,
    from: &[(i64, i64)],
    measures: &mut Measures<'_>,
) -> IndexResult<()> {
    let mut writer = SegmentWriter::begin(change)?;
    let cursors: IndexResult<Vec<_>> =
        from.iter().map(|(id, _)| Cursor::new(change, *id)).collect();
    let mut cursors = cursors?;
    let mut list = PostingList::default();
    loop {
        let words = cursors.iter().filter(|cursor| !cursor.is_done).map(|cursor| &cursor.word);
        let Some(word) = words.min().cloned() else { break };
        list.clear();
        for cursor in cursors.iter_mut().filter(|it| !it.is_done && it.word == word) {
            let mut damaged = None;
            let add = |document, step| match measures.get(document).map(|it| it.words > 0) {
                Ok(true) => list.push(document, step),
                Ok(false) => {}
                Err(trouble) => damaged = Some(trouble),
            };
            each_posting(cursor.list(), add).ok_or(IndexError::Damaged)?;
            if let Some(trouble) = damaged {
                return Err(trouble);
            }
            cursor.advance(change)?;
        }
        if !list.bytes().is_empty() {
            writer.push(&word, list.bytes())?;
        }
    }
    writer.finish()?;
    let mut blocks = change.prepare(
        "DELETE FROM blocks WHERE id IN (SELECT block FROM first_words WHERE segment = ?1)",
    )?;
    let mut words = change.prepare("DELETE FROM first_words WHERE segment = ?1")?;
    let mut segments = change.prepare("DELETE FROM segments WHERE id = ?1")?;
    for (segment, _) in from {
        for delete in [&mut blocks, &mut words, &mut segments] {
            delete.execute([segment])?;
        }
    }
    Ok(())
}

/// Writes a segment.
struct SegmentWriter<'c> {
    change: &'c Connection,
    segment: i64,
    block: BlockWriter,
    bytes: i64,
}

impl<'c> SegmentWriter<'c> {
    fn begin(change: &'c Connection) -> IndexResult<Self> {
        change.execute("INSERT INTO segments (bytes) VALUES (0)", [])?;
        let segment = change.last_insert_rowid();
        Ok(Self { change, segment, block: BlockWriter::default(), bytes: 0 })
    }

    /// Adds a word and its list. Words must be added in ascending order.
    fn push(&mut self, word: &[u8], list: &[u8]) -> IndexResult<()> {
        self.block.push(word, list);
        if self.block.is_full() { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> IndexResult<()> {
        let Some((first, bytes)) = self.block.take() else { return Ok(()) };
        self.bytes += i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        self.change.execute("INSERT INTO blocks (postings) VALUES (?1)", [bytes])?;
        let block = self.change.last_insert_rowid();
        let name = "INSERT INTO first_words VALUES (?1, ?2, ?3)";
        self.change.execute(name, params![self.segment, first, block])?;
        Ok(())
    }

    fn finish(mut self) -> IndexResult<()> {
        self.write()?;
        let size = "UPDATE segments SET bytes = ?2 WHERE id = ?1";
        self.change.execute(size, params![self.segment, self.bytes])?;
        Ok(())
    }
}

/// Iterates over the words of a segment in order.
struct Cursor {
    /// The remaining blocks in reverse order.
    blocks: Vec<i64>,
    block: Vec<u8>,
    at: usize,
    word: Vec<u8>,
    list: std::ops::Range<usize>,
    is_done: bool,
}

impl Cursor {
    fn new(change: &Connection, segment: i64) -> IndexResult<Self> {
        let blocks = "SELECT block FROM first_words WHERE segment = ?1 ORDER BY word DESC";
        let mut blocks = change.prepare(blocks)?;
        let blocks = blocks.query_map([segment], |row| row.get(0))?;
        let blocks = blocks.collect::<Result<_, _>>()?;
        let (block, word, list) = (Vec::new(), Vec::new(), 0..0);
        let mut cursor = Self { blocks, block, at: 0, word, list, is_done: false };
        cursor.advance(change)?;
        Ok(cursor)
    }

    fn list(&self) -> &[u8] {
        self.block.get(self.list.clone()).unwrap_or_default()
    }

    fn advance(&mut self, change: &Connection) -> IndexResult<()> {
        while self.at >= self.block.len() {
            let Some(next) = self.blocks.pop() else {
                self.is_done = true;
                return Ok(());
            };
            let block = "SELECT postings FROM blocks WHERE id = ?1";
            self.block = change.query_row(block, [next], |row| row.get(0))?;
            self.at = 0;
            self.word.clear();
        }
        let list = word_at(&self.block, &mut self.at, &mut self.word);
        self.list = list.ok_or(IndexError::Damaged)?;
        Ok(())
    }
}
