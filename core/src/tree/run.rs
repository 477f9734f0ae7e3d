//! Encodes runs of entries: the columns of a node, or of one level of a root.
//!
//! ```text
//! leaf entries    [ids, kinds, metas]    and for maps   [ids, kinds, metas, keys]
//! inner entries   [ids, counts]          and for maps   [ids, counts, keys]
//! ```
//!
//! A run is stored by column, and its ids are one byte string. So reading the ids is a slice, and
//! two versions of a root differ in few places. Specified in `format-spec/tree.md`.

use std::ops::Range;

use super::boundary::{Boundary, TreeShape};
use super::entry::NodeEntry;
use super::{MAX_ITEMS, MAX_KEY_BYTES, MAX_META_BYTES};
use crate::error::Result;
use crate::object::{ID_BYTES, Kind, Reader, Writer, key_digest};

/// Writes the columns of a run of `level`.
pub(super) fn write_run(writer: &mut Writer, shape: TreeShape, level: usize, run: &[NodeEntry]) {
    let columns = if level == 0 { 3 } else { 2 } + usize::from(shape == TreeShape::Map);
    let ids: Vec<u8> = run.iter().flat_map(|entry| *entry.item.link.id.as_bytes()).collect();
    writer.array(columns).bytes(&ids);
    if level == 0 {
        write_kinds(writer, run);
        write_metas(writer, run);
    } else {
        writer.array(run.len());
        for entry in run {
            writer.uint(entry.count);
        }
    }
    if shape == TreeShape::Map {
        write_keys(writer, run);
    }
}

/// Receives the entries of runs by column while they are read. They are valid only after the whole
/// node was read without an error.
pub(super) trait RunReceiver {
    /// Begins a run of `level`: links to blobs if it is 0, unless `kind` follows; else to nodes.
    fn begin(&mut self, level: usize, ids: &[[u8; ID_BYTES]]);

    /// Receives the kind of the link of an entry of the current run.
    fn kind(&mut self, at: usize, kind: Kind);

    /// Receives the meta of some entries.
    fn meta(&mut self, entries: Range<usize>, meta: &[u8]);

    /// Receives the number of items below an entry.
    fn count(&mut self, at: usize, count: u64);

    /// Receives the key of an entry.
    fn key(&mut self, at: usize, key: &[u8]);

    /// Returns the digest of a key, which decides the boundaries of maps.
    fn digest(&mut self, key: &[u8]) -> [u8; ID_BYTES] {
        key_digest(key)
    }
}

/// Facts about a run for checking the rules of nodes and roots.
pub(super) struct RunFacts<'a> {
    pub(super) len: usize,
    /// Number of items below.
    pub(super) items: u64,
    /// The first entry at which the boundary rule ends a node.
    boundary: Option<usize>,
    /// The first key of a map's run; the run must have entries.
    pub(super) first_key: &'a [u8],
    pub(super) last_key: Vec<u8>,
}

/// Reads a run that [`write_run`] wrote.
pub(super) fn read_run<'a>(
    reader: &mut Reader<'a>,
    shape: TreeShape,
    level: usize,
    taker: &mut impl RunReceiver,
) -> Result<RunFacts<'a>> {
    reader.array(if level == 0 { 3 } else { 2 } + u64::from(shape == TreeShape::Map))?;
    let ids = reader.bytes()?;
    let (ids, rest) = ids.as_chunks::<ID_BYTES>();
    if !rest.is_empty() || ids.len() > shape.max_entries() {
        let expected = format!("at most {} ids", shape.max_entries());
        return Err(reader.refuse(&expected, &format!("{} and {} bytes", ids.len(), rest.len())));
    }
    taker.begin(level, ids);
    let mut facts = RunFacts {
        len: ids.len(),
        items: ids.len() as u64,
        boundary: None,
        first_key: &[],
        last_key: Vec::new(),
    };
    if level == 0 {
        read_kinds(reader, ids.len(), taker)?;
        read_metas(reader, ids.len(), taker)?;
    } else {
        facts.items = read_counts(reader, ids.len(), taker)?;
    }
    let mut boundary = Boundary::new(shape, level);
    match shape {
        TreeShape::List => facts.boundary = ids.iter().position(|id| boundary.ends_after(id)),
        TreeShape::Map => read_keys(reader, ids.len(), &mut boundary, &mut facts, taker)?,
    }
    Ok(facts)
}

/// Writes the kinds of the links: a code each, or nothing if all are blobs.
fn write_kinds(writer: &mut Writer, run: &[NodeEntry]) {
    let kinds: Vec<u8> = run.iter().map(|entry| entry.item.link.kind.code()).collect();
    let all_blobs = kinds.iter().all(|code| *code == Kind::Blob.code());
    writer.bytes(if all_blobs { &[] } else { &kinds });
}

fn read_kinds(reader: &mut Reader<'_>, len: usize, taker: &mut impl RunReceiver) -> Result<()> {
    let codes = reader.bytes()?;
    let all_blobs = codes.iter().all(|code| *code == Kind::Blob.code());
    if codes.is_empty() {
        return Ok(());
    }
    if codes.len() != len || all_blobs {
        return Err(reader.malformed("a kind for each entry, or none for blobs"));
    }
    for (at, code) in codes.iter().enumerate() {
        let kind = Kind::from_code(*code)
            .ok_or_else(|| reader.refuse("the code of a kind", &code.to_string()))?;
        taker.kind(at, kind);
    }
    Ok(())
}

/// Writes the metas, as pairs of a repeat count and the meta.
fn write_metas(writer: &mut Writer, run: &[NodeEntry]) {
    let groups: Vec<_> = run.chunk_by(|a, b| a.item.meta == b.item.meta).collect();
    writer.array(2 * groups.len());
    for group in groups {
        let meta = group.first().map(|entry| entry.item.meta.as_ref());
        writer.uint(group.len() as u64).bytes(meta.unwrap_or_default());
    }
}

fn read_metas(reader: &mut Reader<'_>, len: usize, taker: &mut impl RunReceiver) -> Result<()> {
    let fields = reader.array_up_to(2 * len as u64)?;
    let mut done = 0;
    let mut previous: Option<&[u8]> = None;
    for _ in 0..fields / 2 {
        let repeats = reader.uint_up_to((len - done) as u64)?;
        let meta = reader.bytes()?;
        if repeats == 0 || previous == Some(meta) || meta.len() > MAX_META_BYTES {
            return Err(reader.malformed("a meta within its limit, unlike its neighbour"));
        }
        let end = done + usize::try_from(repeats).unwrap_or(0);
        taker.meta(done..end, meta);
        (done, previous) = (end, Some(meta));
    }
    if fields % 2 == 1 || done < len {
        return Err(reader.malformed("a meta for each entry"));
    }
    Ok(())
}

/// Reads the counts of inner entries; returns their sum.
fn read_counts(reader: &mut Reader<'_>, len: usize, taker: &mut impl RunReceiver) -> Result<u64> {
    reader.array(len as u64)?;
    let mut items = 0;
    for at in 0..len {
        let count = reader.uint_up_to(MAX_ITEMS)?;
        if count == 0 {
            return Err(reader.refuse("a node with items", "an empty node"));
        }
        // At most 64 counts of at most 2^48.
        items += count;
        taker.count(at, count);
    }
    Ok(items)
}

/// Writes the keys, each as the length of the prefix shared with the previous key, and the rest.
fn write_keys(writer: &mut Writer, run: &[NodeEntry]) {
    writer.array(2 * run.len());
    let mut previous: &[u8] = &[];
    for entry in run {
        let shared = previous.iter().zip(&entry.key).take_while(|(a, b)| a == b).count();
        let rest = entry.key.get(shared..).unwrap_or_default();
        writer.uint(shared as u64).bytes(rest);
        previous = &entry.key;
    }
}

fn read_keys<'a>(
    reader: &mut Reader<'a>,
    len: usize,
    boundary: &mut Boundary,
    facts: &mut RunFacts<'a>,
    taker: &mut impl RunReceiver,
) -> Result<()> {
    reader.array(2 * len as u64)?;
    let mut previous = Vec::new();
    for at in 0..len {
        let shared = reader.uint_up_to(previous.len() as u64)?;
        let rest = reader.bytes()?;
        let shared = usize::try_from(shared).unwrap_or(0);
        // The first byte after the shared prefix must exceed the previous key's: then the key
        // rises, and the shared prefix is the longest possible.
        if rest.first() <= previous.get(shared) || shared + rest.len() > MAX_KEY_BYTES {
            return Err(reader.malformed("a key within its limit and above the previous one"));
        }
        previous.truncate(shared);
        previous.extend_from_slice(rest);
        if at == 0 {
            facts.first_key = rest;
        }
        if facts.boundary.is_none() && boundary.ends_after(&taker.digest(&previous)) {
            facts.boundary = Some(at);
        }
        taker.key(at, &previous);
    }
    facts.last_key = previous;
    Ok(())
}

/// Checks that a closed run ends at its only boundary, and an unfinished one has none.
pub(super) fn check_boundaries(
    reader: &Reader<'_>,
    run: &RunFacts<'_>,
    closed: bool,
) -> Result<()> {
    let expected = if closed { run.len.checked_sub(1) } else { None };
    if run.boundary == expected && (!closed || run.len > 0) {
        return Ok(());
    }
    Err(reader.malformed("a run that the boundary rule cuts"))
}
