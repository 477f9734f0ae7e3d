//! Runs of entries as bytes: the columns of a node, or of one level of a root.
//!
//! ```text
//! leaf entries    [ids, kinds, metas]    and for maps   [ids, kinds, metas, keys]
//! inner entries   [ids, counts]          and for maps   [ids, counts, keys]
//! ```
//!
//! A run lies column by column, and its ids are one byte string, so finding them is a slice, and
//! two versions of a root differ in few places. Specified in `format-spec/tree.md`.

use bytes::Bytes;

use super::boundary::{Boundary, TreeShape};
use super::entry::NodeEntry;
use super::{Item, Link, MAX_ITEMS, MAX_KEY_BYTES, MAX_META_BYTES};
use crate::error::Result;
use crate::object::{ID_BYTES, Kind, ObjectId, Reader, Writer};

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

/// Reads what [`write_run`] writes, from `bytes`, in which `reader` stands.
pub(super) fn read_run(
    reader: &mut Reader<'_>,
    bytes: &Bytes,
    shape: TreeShape,
    level: usize,
) -> Result<Vec<NodeEntry>> {
    reader.array(if level == 0 { 3 } else { 2 } + u64::from(shape == TreeShape::Map))?;
    let ids = reader.bytes()?;
    let (ids, rest) = ids.as_chunks::<ID_BYTES>();
    if !rest.is_empty() || ids.len() > shape.max_entries() {
        let expected = format!("at most {} ids", shape.max_entries());
        return Err(reader.refuse(&expected, &format!("{} and {} bytes", ids.len(), rest.len())));
    }
    let kind = if level == 0 { Kind::Blob } else { Kind::Node };
    let item = |id: &[u8; ID_BYTES]| Item {
        link: Link { kind, id: ObjectId::from_bytes(*id) },
        meta: Bytes::new(),
    };
    let mut run: Vec<_> = ids.iter().map(|id| NodeEntry::leaf(Bytes::new(), item(id))).collect();
    if level == 0 {
        read_kinds(reader, &mut run)?;
        read_metas(reader, bytes, &mut run)?;
    } else {
        reader.array(run.len() as u64)?;
        for entry in &mut run {
            entry.count = reader.uint_up_to(MAX_ITEMS)?;
            if entry.count == 0 {
                return Err(reader.refuse("a node with items", "an empty one"));
            }
        }
    }
    if shape == TreeShape::Map {
        read_keys(reader, &mut run)?;
    }
    Ok(run)
}

/// The kinds of the links: a code each, or nothing when all are blobs.
fn write_kinds(writer: &mut Writer, run: &[NodeEntry]) {
    let kinds: Vec<u8> = run.iter().map(|entry| entry.item.link.kind.code()).collect();
    let all_blobs = kinds.iter().all(|code| *code == Kind::Blob.code());
    writer.bytes(if all_blobs { &[] } else { &kinds });
}

fn read_kinds(reader: &mut Reader<'_>, run: &mut [NodeEntry]) -> Result<()> {
    let codes = reader.bytes()?;
    let all_blobs = codes.iter().all(|code| *code == Kind::Blob.code());
    if codes.is_empty() {
        return Ok(());
    }
    if codes.len() != run.len() || all_blobs {
        return Err(reader.malformed("a kind for each entry, or none for blobs"));
    }
    for (entry, code) in run.iter_mut().zip(codes) {
        entry.item.link.kind = Kind::from_code(*code)
            .ok_or_else(|| reader.refuse("the code of a kind", &code.to_string()))?;
    }
    Ok(())
}

/// The metas, as pairs of how many entries in a row have one, and the meta.
fn write_metas(writer: &mut Writer, run: &[NodeEntry]) {
    let groups: Vec<_> = run.chunk_by(|a, b| a.item.meta == b.item.meta).collect();
    writer.array(2 * groups.len());
    for group in groups {
        let meta = group.first().map(|entry| entry.item.meta.as_ref());
        writer.uint(group.len() as u64).bytes(meta.unwrap_or_default());
    }
}

fn read_metas(reader: &mut Reader<'_>, bytes: &Bytes, run: &mut [NodeEntry]) -> Result<()> {
    let fields = reader.array_up_to(2 * run.len() as u64)?;
    let mut rest = run;
    let mut previous: Option<&[u8]> = None;
    for _ in 0..fields / 2 {
        let repeats = reader.uint_up_to(rest.len() as u64)?;
        let meta = reader.bytes()?;
        if repeats == 0 || previous == Some(meta) || meta.len() > MAX_META_BYTES {
            return Err(reader.malformed("a meta within its limit, unlike its neighbour"));
        }
        let (group, tail) = rest.split_at_mut(usize::try_from(repeats).unwrap_or(0));
        for entry in group {
            entry.item.meta = bytes.slice_ref(meta);
        }
        (rest, previous) = (tail, Some(meta));
    }
    if fields % 2 == 1 || !rest.is_empty() {
        return Err(reader.malformed("a meta for each entry"));
    }
    Ok(())
}

/// The keys, each as the length it shares with the one before, and the rest.
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

fn read_keys(reader: &mut Reader<'_>, run: &mut [NodeEntry]) -> Result<()> {
    reader.array(2 * run.len() as u64)?;
    let mut previous = Vec::new();
    for entry in run {
        let shared = reader.uint_up_to(previous.len() as u64)?;
        let rest = reader.bytes()?;
        let shared = usize::try_from(shared).unwrap_or(0);
        // The first byte past the shared part must be over its predecessor's: then the key rises,
        // and no longer part could have been shared.
        if rest.first() <= previous.get(shared) || shared + rest.len() > MAX_KEY_BYTES {
            return Err(reader.malformed("a key within its limit, over the one before"));
        }
        previous.truncate(shared);
        previous.extend_from_slice(rest);
        entry.key = Bytes::copy_from_slice(&previous);
    }
    Ok(())
}

/// A closed run ends at its only boundary, an unfinished one has none.
pub(super) fn check_boundaries(
    reader: &Reader<'_>,
    shape: TreeShape,
    level: usize,
    run: &[NodeEntry],
    closed: bool,
) -> Result<()> {
    let mut boundary = Boundary::new(shape, level);
    let first = run.iter().position(|entry| boundary.ends_with(entry));
    let expected = if closed { run.len().checked_sub(1) } else { None };
    if first == expected && (!closed || !run.is_empty()) {
        return Ok(());
    }
    Err(reader.malformed("a run that the boundary rule cuts"))
}
