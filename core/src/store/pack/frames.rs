//! The frames of a mapped pack: finds the block of an object, decodes it, and gives the object.
//!
//! Everything in a frame is verified before it is used, and still only the hash of an object, which
//! the caller takes, proves that its bytes are right.

use std::sync::Arc;

use bytes::Bytes;

use super::block::{Block, BlockEntry, Form, parts};
use super::cache::BlockCache;
use super::layout::{
    BlockInfo, BlockKind, FRAME_HEADER_BYTES, FrameHeader, MAX_BASES, Salt, frames_checksum,
    stored_checksum,
};
use super::{PackId, bundle, links};
use crate::error::{Error, Result};
use crate::object::{Kind, MAX_BLOB_BYTES, ObjectId};
use crate::store::format::codec;
use crate::store::format::segment::Digest;
use crate::store::medium::Medium;

/// Bytes of a file of which all frames are read before what is in memory of it is given back.
const READ_BYTES: u64 = 4 << 20;

/// The file that frames lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// A pack of the store.
    Pack,
    /// A bundle, which belongs to somebody else and may change under the reader.
    Bundle,
}

/// The blocks of a pack, or of a bundle.
#[derive(Debug)]
pub(super) struct Frames {
    id: PackId,
    home: Home,
    medium: Medium,
    salt: Salt,
    /// By number; `None` where a frame is damaged.
    table: Vec<Option<BlockInfo>>,
    /// First ordinal and number of the blocks that hold objects, rising.
    objects: Vec<(u32, u32)>,
    /// First part and number of the blocks that hold parts, rising.
    parts: Vec<(u32, u32)>,
}

impl Frames {
    pub(super) fn new(
        id: PackId,
        home: Home,
        medium: Medium,
        salt: Salt,
        table: Vec<Option<BlockInfo>>,
    ) -> Self {
        let starts = |wanted: fn(BlockKind) -> bool| {
            let numbered = (0..).zip(&table).filter_map(|(n, block)| Some((n, block.as_ref()?)));
            let chosen = numbered.filter(|(_, block)| wanted(block.kind));
            let mut starts: Vec<_> = chosen.map(|(number, block)| (block.first, number)).collect();
            starts.sort_unstable();
            starts
        };
        let objects = starts(|kind| matches!(kind, BlockKind::Objects(_)));
        let parts = starts(|kind| kind == BlockKind::Parts);
        Self { id, home, medium, salt, table, objects, parts }
    }

    /// Gives back the memory of what was read of a map.
    pub(super) fn let_pages_go(&self) {
        self.medium.let_pages_go();
    }

    /// The same now and then, for who reads all blocks: behind one that reaches into the next stretch of
    /// the file.
    pub(super) fn let_pages_go_behind(&self, info: &BlockInfo) {
        if info.offset / READ_BYTES != info.end() / READ_BYTES {
            self.let_pages_go();
        }
    }

    /// The blocks that are there, with their numbers.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u32, &BlockInfo)> {
        (0..).zip(&self.table).filter_map(|(number, block)| Some((number, block.as_ref()?)))
    }

    /// The number of the block that holds an object, what it is, and the position in it.
    pub(super) fn locate(&self, ordinal: u32) -> Option<(u32, &BlockInfo, u32)> {
        self.position(&self.objects, ordinal)
    }

    /// The block that this one cannot be decoded without.
    pub(super) fn base_of(&self, number: u32) -> Option<u32> {
        self.table.get(number as usize)?.as_ref()?.base
    }

    /// Returns true if these bytes are the frame with this number, whole.
    pub(super) fn is_frame(&self, number: u32, bytes: &[u8]) -> bool {
        let Some(Some(info)) = self.table.get(number as usize) else { return false };
        let Some((header, stored)) = bytes.split_at_checked(FRAME_HEADER_BYTES) else {
            return false;
        };
        FrameHeader::decode(header, info.offset, &self.salt).is_some_and(|(header, _)| {
            header.number == number
                && header.block == *info
                && stored.len() == info.stored_bytes as usize
                && stored_checksum(stored) == header.stored
        })
    }

    /// The kind of an object.
    pub(super) fn kind_at(&self, ordinal: u32) -> Option<Kind> {
        match self.locate(ordinal)?.1.kind {
            BlockKind::Objects(kind) => Some(kind),
            BlockKind::Tombstone | BlockKind::Parts => None,
        }
    }

    /// The bytes of an object, which the caller verifies.
    pub(super) fn read(
        &self,
        ordinal: u32,
        cache: &BlockCache,
        id_at: impl Fn(u32) -> Option<ObjectId>,
    ) -> Result<Bytes> {
        let (number, ..) = self.locate(ordinal).ok_or_else(|| self.absent(ordinal))?;
        let block = self.decode(number, cache)?;
        Ok(block.detached(self.read_in(&block, ordinal, cache, id_at)?))
    }

    /// The bytes of an object that lies in this block, and perhaps in its memory.
    pub(super) fn read_in(
        &self,
        block: &Block,
        ordinal: u32,
        cache: &BlockCache,
        id_at: impl Fn(u32) -> Option<ObjectId>,
    ) -> Result<Bytes> {
        let (number, info, at) = self.locate(ordinal).ok_or_else(|| self.absent(ordinal))?;
        let damaged = || self.damaged(number, info, "an object", "other bytes");
        let (entry, body) = block.entry(at).ok_or_else(damaged)?;
        match entry.form {
            Form::Verbatim => Ok(block.body(entry)),
            Form::Links => {
                links::decode(body, entry.raw_bytes, id_at).map(Bytes::from).ok_or_else(damaged)
            }
            Form::Parts => self.join(entry, body, cache)?.map(Bytes::from).ok_or_else(damaged),
        }
    }

    /// Returns the share of an object in the file: that of its block, of which all objects count
    /// the same, and those of its parts.
    pub(super) fn stored_share(&self, ordinal: u32, cache: &BlockCache) -> Result<u64> {
        let (number, info, at) = self.locate(ordinal).ok_or_else(|| self.absent(ordinal))?;
        let mut stored = info.share();
        if self.parts.is_empty() || info.kind != BlockKind::Objects(Kind::Blob) {
            return Ok(stored);
        }
        let damaged = || self.damaged(number, info, "an object", "other bytes");
        let block = self.decode(number, cache)?;
        let (entry, body) = block.entry(at).ok_or_else(damaged)?;
        if entry.form == Form::Parts {
            for part in parts(body) {
                let part = part.ok_or_else(damaged)?;
                let (_, info, _) =
                    self.position(&self.parts, part).ok_or_else(|| self.absent(ordinal))?;
                stored += info.share();
            }
        }
        Ok(stored)
    }

    /// The bytes of an object, and those it takes in the file: of its block by the size of what it has
    /// there, and its parts.
    pub(super) fn sizes(&self, ordinal: u32, cache: &BlockCache) -> Result<(u32, u64)> {
        let (_, info, _) = self.locate(ordinal).ok_or_else(|| self.absent(ordinal))?;
        let (block_bytes, share) = (u64::from(info.raw_bytes.max(1)), info.share());
        let of_parts = self.stored_share(ordinal, cache)?.saturating_sub(share);
        self.with_entry(ordinal, cache, |entry, body| {
            let own = u64::from(info.stored_bytes) * body.len() as u64 / block_bytes;
            (entry.raw_bytes, own + of_parts)
        })
    }

    /// The entry of an object and its body, for who looks at forms.
    pub(super) fn with_entry<T>(
        &self,
        ordinal: u32,
        cache: &BlockCache,
        look: impl FnOnce(&BlockEntry, &[u8]) -> T,
    ) -> Result<T> {
        let (number, info, at) = self.locate(ordinal).ok_or_else(|| self.absent(ordinal))?;
        let block = self.decode(number, cache)?;
        let entry = block.entry(at);
        let (entry, body) =
            entry.ok_or_else(|| self.damaged(number, info, "an entry", "other bytes"))?;
        Ok(look(entry, body))
    }

    /// The block with this number.
    pub(super) fn decode(&self, number: u32, cache: &BlockCache) -> Result<Arc<Block>> {
        cache.block(self.id, number, || {
            let info = self.table.get(number as usize).copied().flatten();
            let info = info.ok_or_else(|| {
                Error::corrupt(self.place(number, 0), "a block", "none that verifies")
            })?;
            let stored = self.stored(number, &info)?;
            // Also keeps hostile chains from being followed.
            if !self.has_short_chain(&info) {
                return Err(self.damaged(number, &info, "at most two bases", "more, or none"));
            }
            let base = info.base.map(|base| self.decode(base, cache)).transpose()?;
            let base: &[u8] = base.as_ref().map_or(&[], |base| base.raw());
            let raw = codec::decompress_block(&stored, base, info.raw_bytes).map_err(|source| {
                self.damaged(number, &info, "a zstd frame", "other bytes").with_source(source)
            })?;
            Block::parse(raw.into(), &info)
                .ok_or_else(|| self.damaged(number, &info, "a directory", "other bytes"))
        })
    }

    /// Returns true if a block has at most so many bases behind it as it may, and all of them are
    /// there.
    fn has_short_chain(&self, info: &BlockInfo) -> bool {
        let mut base = info.base;
        for _ in 0..MAX_BASES {
            let Some(number) = base else { return true };
            let Some(Some(info)) = self.table.get(number as usize) else { return false };
            base = info.base;
        }
        base.is_none()
    }

    /// Verifies the frames to the last byte, and the checksum of their headers.
    pub(super) fn verify(&self) -> (Vec<Error>, Digest) {
        let mut headers = frames_checksum();
        let mut errors = Vec::new();
        for (number, info) in self.blocks() {
            match self.header(info) {
                Ok(Some((_, checksum))) => drop(headers.update(&checksum)),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
            errors.extend(self.stored(number, info).err());
            self.let_pages_go_behind(info);
        }
        (errors, headers.finish())
    }

    /// Describes the place of an object, for errors.
    pub(super) fn place_of(&self, ordinal: u32) -> String {
        match self.locate(ordinal) {
            Some((number, info, _)) => self.place(number, info.offset),
            None => self.name(),
        }
    }

    /// An error at a block.
    pub(super) fn damaged(
        &self,
        number: u32,
        info: &BlockInfo,
        expected: &str,
        found: &str,
    ) -> Error {
        Error::corrupt(self.place(number, info.offset), expected, found)
    }

    fn position<'a>(
        &'a self,
        starts: &[(u32, u32)],
        ordinal: u32,
    ) -> Option<(u32, &'a BlockInfo, u32)> {
        let behind = starts.partition_point(|(first, _)| *first <= ordinal);
        let (first, number) = starts.get(behind.checked_sub(1)?)?;
        let info = self.table.get(*number as usize)?.as_ref()?;
        let at = ordinal - first;
        (at < info.objects).then_some((*number, info, at))
    }

    fn header(&self, info: &BlockInfo) -> Result<Option<(FrameHeader, Digest)>> {
        let header = self.get(info.offset, FRAME_HEADER_BYTES)?;
        Ok(header.and_then(|header| FrameHeader::decode(&header, info.offset, &self.salt)))
    }

    /// The stored bytes of a block, verified.
    pub(super) fn stored(&self, number: u32, info: &BlockInfo) -> Result<Bytes> {
        let header = self.header(info)?.map(|(header, _)| header);
        let header = header.filter(|header| header.number == number && header.block == *info);
        let header = header.ok_or_else(|| {
            self.damaged(number, info, "the frame that the table names", "other bytes")
        })?;
        let start = info.offset.saturating_add(FRAME_HEADER_BYTES as u64);
        let stored = self.get(start, info.stored_bytes as usize)?;
        let stored = stored.ok_or_else(|| self.damaged(number, info, "a frame", "the end"))?;
        if stored_checksum(&stored) != header.stored {
            return Err(self.damaged(number, info, "what was stored", "other bytes"));
        }
        Ok(stored)
    }

    /// The bytes of a blob in parts; `None` when they are not as many as the entry says.
    fn join(&self, entry: &BlockEntry, body: &[u8], cache: &BlockCache) -> Result<Option<Vec<u8>>> {
        let raw_bytes = (entry.raw_bytes as usize).min(MAX_BLOB_BYTES);
        let mut blob = Vec::new();
        for part in parts(body) {
            let Some((number, info, at)) = part.and_then(|part| self.position(&self.parts, part))
            else {
                return Ok(None);
            };
            let block = self.decode(number, cache)?;
            let part = block.entry(at).map(|(_, part)| part);
            let part = part.ok_or_else(|| self.damaged(number, info, "a part", "other bytes"))?;
            if part.is_empty() || blob.len() + part.len() > raw_bytes {
                return Ok(None);
            }
            blob.extend_from_slice(part);
        }
        Ok((blob.len() == raw_bytes).then_some(blob))
    }

    fn absent(&self, ordinal: u32) -> Error {
        Error::corrupt(self.place_of(ordinal), format_args!("object {ordinal}"), "none")
    }

    fn place(&self, number: u32, offset: u64) -> String {
        format!("{} at {offset} (block {number})", self.name())
    }

    fn name(&self) -> String {
        match self.home {
            Home::Pack => format!("packs/{}", self.id.file_name()),
            Home::Bundle => "the bundle".to_owned(),
        }
    }

    fn get(&self, offset: u64, len: usize) -> Result<Option<Bytes>> {
        self.medium.get(offset, len).map_err(|error| match self.home {
            Home::Pack => Error::io(format!("read {}", self.name()), error),
            Home::Bundle => bundle::unreadable(error),
        })
    }
}
