//! The frames of an open pack: locates the block of an object, decodes it, and extracts the object.
//!
//! Everything in a frame is verified before use. Still, only the hash of an object, which the
//! caller computes, proves that its bytes are right.

use std::sync::Arc;

use bytes::Bytes;

use super::cache::BlockCache;
use crate::error::{Error, Result};
use crate::object::{Kind, MAX_BLOB_BYTES, ObjectId};
use crate::store::format::codec;
use crate::store::format::segment::Digest;
use crate::store::medium::Medium;
use crate::store::pack::format::block::{Block, BlockEntry, Form, parts};
use crate::store::pack::format::layout::{
    BlockInfo, BlockKind, FRAME_HEADER_BYTES, FrameHeader, MAX_BASES, Salt, frames_checksum,
    stored_checksum,
};
use crate::store::pack::format::links;
use crate::store::pack::{PackId, bundle};

/// Bytes of a file to read sequentially before their memory is released.
const READ_BYTES: u64 = 4 << 20;

/// The kind of file that contains the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::pack) enum FrameContainer {
    /// A pack of the store.
    Pack,
    /// A bundle, which another user owns and may change while it is read.
    Bundle,
}

/// The blocks of a pack, or of a bundle.
#[derive(Debug)]
pub(in crate::store::pack) struct Frames {
    id: PackId,
    home: FrameContainer,
    medium: Medium,
    salt: Salt,
    /// Indexed by number; `None` if a frame is damaged.
    table: Vec<Option<BlockInfo>>,
    /// First ordinal and number of each block of objects, ascending.
    objects: Vec<(u32, u32)>,
    /// First part and number of each block of parts, ascending.
    parts: Vec<(u32, u32)>,
}

impl Frames {
    pub(in crate::store::pack) fn new(
        id: PackId,
        home: FrameContainer,
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

    /// Releases the memory of all pages that were read.
    pub(in crate::store::pack) fn release_pages(&self) {
        self.medium.release_pages();
    }

    /// Releases that memory from time to time during a sequential read: after a block that crosses
    /// into the next stretch of the file.
    pub(in crate::store::pack) fn release_pages_behind(&self, info: &BlockInfo) {
        if info.offset / READ_BYTES != info.end() / READ_BYTES {
            self.release_pages();
        }
    }

    /// Returns the readable blocks with their numbers.
    pub(in crate::store::pack) fn blocks(&self) -> impl Iterator<Item = (u32, &BlockInfo)> {
        (0..).zip(&self.table).filter_map(|(number, block)| Some((number, block.as_ref()?)))
    }

    /// Returns the number and description of the block that holds an object, and its position
    /// there.
    pub(in crate::store::pack) fn locate(&self, ordinal: u32) -> Option<(u32, &BlockInfo, u32)> {
        self.position(&self.objects, ordinal)
    }

    /// Returns the base of a block.
    pub(in crate::store::pack) fn base_of(&self, number: u32) -> Option<u32> {
        self.table.get(number as usize)?.as_ref()?.base
    }

    /// Returns true if these bytes are the intact frame with this number.
    pub(in crate::store::pack) fn is_frame(&self, number: u32, bytes: &[u8]) -> bool {
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

    /// Returns the kind of an object.
    pub(in crate::store::pack) fn kind_at(&self, ordinal: u32) -> Option<Kind> {
        match self.locate(ordinal)?.1.kind {
            BlockKind::Objects(kind) => Some(kind),
            BlockKind::Tombstone | BlockKind::Parts => None,
        }
    }

    /// Returns the bytes of an object. The caller verifies them.
    pub(in crate::store::pack) fn read(
        &self,
        ordinal: u32,
        cache: &BlockCache,
        id_at: impl Fn(u32) -> Option<ObjectId>,
    ) -> Result<Bytes> {
        let (number, ..) = self.locate(ordinal).ok_or_else(|| self.missing_error(ordinal))?;
        let block = self.decode(number, cache)?;
        Ok(block.unshared(self.read_in(&block, ordinal, cache, id_at)?))
    }

    /// Returns the bytes of an object in this block. They may share the memory of the block.
    pub(in crate::store::pack) fn read_in(
        &self,
        block: &Block,
        ordinal: u32,
        cache: &BlockCache,
        id_at: impl Fn(u32) -> Option<ObjectId>,
    ) -> Result<Bytes> {
        let (number, info, at) = self.locate(ordinal).ok_or_else(|| self.missing_error(ordinal))?;
        let damaged = || self.damaged(number, info, "an object", "invalid bytes");
        let (entry, body) = block.entry(at).ok_or_else(damaged)?;
        match entry.form {
            Form::Verbatim => Ok(block.body(entry)),
            Form::Links => {
                links::decode(body, entry.raw_bytes, id_at).map(Bytes::from).ok_or_else(damaged)
            }
            Form::Parts => self.join(entry, body, cache)?.map(Bytes::from).ok_or_else(damaged),
        }
    }

    /// Returns the share of an object in the file: an equal share of its block, and those of its
    /// parts.
    pub(in crate::store::pack) fn stored_share(
        &self,
        ordinal: u32,
        cache: &BlockCache,
    ) -> Result<u64> {
        let (number, info, at) = self.locate(ordinal).ok_or_else(|| self.missing_error(ordinal))?;
        let mut stored = info.share();
        if self.parts.is_empty() || info.kind != BlockKind::Objects(Kind::Blob) {
            return Ok(stored);
        }
        let damaged = || self.damaged(number, info, "an object", "invalid bytes");
        let block = self.decode(number, cache)?;
        let (entry, body) = block.entry(at).ok_or_else(damaged)?;
        if entry.form == Form::Parts {
            for part in parts(body) {
                let part = part.ok_or_else(damaged)?;
                let (_, info, _) =
                    self.position(&self.parts, part).ok_or_else(|| self.missing_error(ordinal))?;
                stored += info.share();
            }
        }
        Ok(stored)
    }

    /// Returns the raw bytes of an object, and its bytes in the file: the part of its block in
    /// proportion to its body, and its parts.
    pub(in crate::store::pack) fn sizes(
        &self,
        ordinal: u32,
        cache: &BlockCache,
    ) -> Result<(u32, u64)> {
        let (_, info, _) = self.locate(ordinal).ok_or_else(|| self.missing_error(ordinal))?;
        let (block_bytes, share) = (u64::from(info.raw_bytes.max(1)), info.share());
        let of_parts = self.stored_share(ordinal, cache)?.saturating_sub(share);
        self.with_entry(ordinal, cache, |entry, body| {
            let own = u64::from(info.stored_bytes) * body.len() as u64 / block_bytes;
            (entry.raw_bytes, own + of_parts)
        })
    }

    /// Calls `look` with the entry of an object and its body.
    pub(in crate::store::pack) fn with_entry<T>(
        &self,
        ordinal: u32,
        cache: &BlockCache,
        look: impl FnOnce(&BlockEntry, &[u8]) -> T,
    ) -> Result<T> {
        let (number, info, at) = self.locate(ordinal).ok_or_else(|| self.missing_error(ordinal))?;
        let block = self.decode(number, cache)?;
        let entry = block.entry(at);
        let (entry, body) =
            entry.ok_or_else(|| self.damaged(number, info, "an entry", "invalid bytes"))?;
        Ok(look(entry, body))
    }

    /// Decodes the block with this number.
    pub(in crate::store::pack) fn decode(
        &self,
        number: u32,
        cache: &BlockCache,
    ) -> Result<Arc<Block>> {
        cache.block(self.id, number, || {
            let info = self.table.get(number as usize).copied().flatten();
            let info = info
                .ok_or_else(|| Error::corrupt(self.place(number, 0), "a block", "a damaged one"))?;
            let stored = self.stored(number, &info)?;
            // Also stops a hostile chain of bases.
            if !self.has_short_chain(&info) {
                return Err(self.damaged(
                    number,
                    &info,
                    "at most two bases",
                    "a longer or broken chain",
                ));
            }
            let base = info.base.map(|base| self.decode(base, cache)).transpose()?;
            let base: &[u8] = base.as_ref().map_or(&[], |base| base.raw());
            let raw = codec::decompress_block(&stored, base, info.raw_bytes).map_err(|source| {
                self.damaged(number, &info, "a zstd frame", "invalid bytes").with_source(source)
            })?;
            Block::parse(raw.into(), &info)
                .ok_or_else(|| self.damaged(number, &info, "a directory", "invalid bytes"))
        })
    }

    /// Returns true if a block has at most the allowed number of successive bases, and none of them
    /// is missing.
    fn has_short_chain(&self, info: &BlockInfo) -> bool {
        let mut base = info.base;
        for _ in 0..MAX_BASES {
            let Some(number) = base else { return true };
            let Some(Some(info)) = self.table.get(number as usize) else { return false };
            base = info.base;
        }
        base.is_none()
    }

    /// Verifies every byte of the frames. Returns the errors, and the checksum of the frame
    /// headers.
    pub(in crate::store::pack) fn verify(&self) -> (Vec<Error>, Digest) {
        let mut headers = frames_checksum();
        let mut errors = Vec::new();
        for (number, info) in self.blocks() {
            match self.header(info) {
                Ok(Some((_, checksum))) => drop(headers.update(&checksum)),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
            errors.extend(self.stored(number, info).err());
            self.release_pages_behind(info);
        }
        (errors, headers.finish())
    }

    /// Describes the place of an object, for errors.
    pub(in crate::store::pack) fn place_of(&self, ordinal: u32) -> String {
        match self.locate(ordinal) {
            Some((number, info, _)) => self.place(number, info.offset),
            None => self.name(),
        }
    }

    /// Returns an error at a block.
    pub(in crate::store::pack) fn damaged(
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

    /// Returns the stored bytes of a block, verified.
    pub(in crate::store::pack) fn stored(&self, number: u32, info: &BlockInfo) -> Result<Bytes> {
        let header = self.header(info)?.map(|(header, _)| header);
        let header = header.filter(|header| header.number == number && header.block == *info);
        let header = header.ok_or_else(|| {
            self.damaged(number, info, "the frame header that the table names", "invalid bytes")
        })?;
        let start = info.offset.saturating_add(FRAME_HEADER_BYTES as u64);
        let stored = self.get(start, info.stored_bytes as usize)?;
        let stored = stored.ok_or_else(|| self.damaged(number, info, "a frame", "the end"))?;
        if stored_checksum(&stored) != header.stored {
            return Err(self.damaged(
                number,
                info,
                "bytes that match their checksum",
                "invalid bytes",
            ));
        }
        Ok(stored)
    }

    /// Joins the parts of a blob; returns `None` if the size differs from the entry.
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
            let part = part.ok_or_else(|| self.damaged(number, info, "a part", "invalid bytes"))?;
            if part.is_empty() || blob.len() + part.len() > raw_bytes {
                return Ok(None);
            }
            blob.extend_from_slice(part);
        }
        Ok((blob.len() == raw_bytes).then_some(blob))
    }

    fn missing_error(&self, ordinal: u32) -> Error {
        Error::corrupt(self.place_of(ordinal), format_args!("object {ordinal}"), "none")
    }

    fn place(&self, number: u32, offset: u64) -> String {
        format!("{} at {offset} (block {number})", self.name())
    }

    fn name(&self) -> String {
        match self.home {
            FrameContainer::Pack => format!("packs/{}", self.id.file_name()),
            FrameContainer::Bundle => "the bundle".to_owned(),
        }
    }

    fn get(&self, offset: u64, len: usize) -> Result<Option<Bytes>> {
        self.medium.get(offset, len).map_err(|error| match self.home {
            FrameContainer::Pack => Error::io(format!("read {}", self.name()), error),
            FrameContainer::Bundle => bundle::unreadable(error),
        })
    }
}
