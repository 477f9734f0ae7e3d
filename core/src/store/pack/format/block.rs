//! The raw bytes of a block: a directory, then the bodies of its entries.
//!
//! ```text
//! block      | directory | bodies, back to back |
//! directory  per entry: | length of the body x 4 + form | bytes of the object, unless verbatim |
//! ```
//!
//! Numbers are varints: seven bits a byte, the lowest first, the highest bit set in all but the
//! last. Forms: 0 verbatim, 1 links (see `links.rs`), 2 parts (the numbers of the parts whose bytes
//! make up the blob).

use bytes::Bytes;

use super::layout::{BlockInfo, BlockKind};
use crate::object::{Kind, push_varint, take_varint};

/// The form of an entry. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::pack) enum Form {
    /// The body is the object.
    Verbatim = 0,
    /// A structured object whose links are ordinals.
    Links = 1,
    /// A large blob in parts.
    Parts = 2,
}

impl Form {
    /// Returns the form of a code, if entries of such a block may have it.
    fn from_code(code: u64, block: BlockKind) -> Option<Self> {
        match (code, block) {
            (0, _) => Some(Self::Verbatim),
            (2, BlockKind::Objects(Kind::Blob)) => Some(Self::Parts),
            (1, BlockKind::Objects(kind)) if kind != Kind::Blob => Some(Self::Links),
            _ => None,
        }
    }
}

/// An entry of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::pack) struct BlockEntry {
    pub(in crate::store::pack) form: Form,
    /// Bytes of the object.
    pub(in crate::store::pack) raw_bytes: u32,
    start: u32,
    end: u32,
}

/// A decoded block.
#[derive(Debug)]
pub(in crate::store::pack) struct Block {
    raw: Bytes,
    entries: Vec<BlockEntry>,
}

impl Block {
    /// Parses the directory of `raw`; returns `None` if it is not valid for such a block.
    pub(in crate::store::pack) fn parse(raw: Bytes, info: &BlockInfo) -> Option<Self> {
        let max_bytes = match info.kind {
            BlockKind::Objects(kind) => kind.max_bytes(),
            BlockKind::Parts => info.raw_bytes as usize,
            // A block of gone ids has no directory.
            BlockKind::Tombstone => return Some(Self { raw, entries: Vec::new() }),
        };
        let mut rest: &[u8] = &raw;
        // At most 65,536. `info` was already checked: each entry takes at least a byte.
        let mut entries = Vec::with_capacity(info.objects as usize);
        let mut end = 0_u32;
        for _ in 0..info.objects {
            let word = take_varint(&mut rest)?;
            let form = Form::from_code(word & 3, info.kind)?;
            let body_bytes = u32::try_from(word >> 2).ok()?;
            let start = end;
            end = end.checked_add(body_bytes)?;
            let raw_bytes = match form {
                Form::Verbatim => body_bytes,
                Form::Links | Form::Parts => u32::try_from(take_varint(&mut rest)?).ok()?,
            };
            if raw_bytes as usize > max_bytes {
                return None;
            }
            entries.push(BlockEntry { form, raw_bytes, start, end });
        }
        if rest.len() != end as usize {
            return None;
        }
        let bodies = u32::try_from(raw.len() - rest.len()).ok()?;
        for entry in &mut entries {
            entry.start += bodies;
            entry.end += bodies;
        }
        Some(Self { raw, entries })
    }

    /// Returns the whole block, which other blocks may have as a base.
    pub(in crate::store::pack) fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// Returns the entry at a position in the block, and its body.
    pub(in crate::store::pack) fn entry(&self, at: u32) -> Option<(&BlockEntry, &[u8])> {
        let entry = self.entries.get(at as usize)?;
        Some((entry, self.raw.get(entry.start as usize..entry.end as usize)?))
    }

    /// Returns the body of an entry, sharing the memory of the block.
    pub(in crate::store::pack) fn body(&self, entry: &BlockEntry) -> Bytes {
        self.raw.slice(entry.start as usize..entry.end as usize)
    }

    /// Copies bytes of this block unless they are most of it, so that they do not keep it alive.
    pub(in crate::store::pack) fn unshared(&self, bytes: Bytes) -> Bytes {
        let is_part = self.raw.as_ptr_range().contains(&bytes.as_ptr());
        match is_part && bytes.len() <= self.raw.len() / 2 {
            true => Bytes::copy_from_slice(&bytes),
            false => bytes,
        }
    }

    /// Returns its size in memory.
    pub(in crate::store::pack) fn memory_bytes(&self) -> usize {
        self.raw.len() + self.entries.len() * size_of::<BlockEntry>()
    }
}

/// The raw bytes of a block under construction.
#[derive(Debug, Default)]
pub(in crate::store::pack) struct BlockBuilder {
    directory: Vec<u8>,
    bodies: Vec<u8>,
    entries: u32,
}

impl BlockBuilder {
    /// Adds an entry for an object of `raw_bytes`.
    pub(in crate::store::pack) fn push(&mut self, form: Form, body: &[u8], raw_bytes: usize) {
        push_varint(&mut self.directory, (body.len() as u64) << 2 | form as u64);
        if form != Form::Verbatim {
            push_varint(&mut self.directory, raw_bytes as u64);
        }
        self.bodies.extend_from_slice(body);
        self.entries += 1;
    }

    /// Returns the number of entries.
    pub(in crate::store::pack) fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the bytes added so far.
    pub(in crate::store::pack) fn raw_bytes(&self) -> usize {
        self.directory.len() + self.bodies.len()
    }

    /// Returns the raw bytes of the block.
    pub(in crate::store::pack) fn finish(mut self) -> Bytes {
        self.directory.append(&mut self.bodies);
        self.directory.into()
    }
}

/// Encodes the body of a blob in parts.
pub(in crate::store::pack) fn encode_parts(parts: &[u32]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        push_varint(&mut body, (*part).into());
    }
    body
}

/// Returns the numbers of the parts of a blob; the last item is `None` if the body is malformed.
pub(in crate::store::pack) fn parts(mut body: &[u8]) -> impl Iterator<Item = Option<u32>> + '_ {
    std::iter::from_fn(move || {
        (!body.is_empty()).then(|| {
            let part = take_varint(&mut body).and_then(|part| u32::try_from(part).ok());
            if part.is_none() {
                body = &[];
            }
            part
        })
    })
}
