//! Divides objects into blocks, compresses these on other threads, and writes the frames.
//!
//! A few blocks at a time are compressed by low-priority threads, while the next ones are built.
//! Memory holds those blocks and some tens of bytes for each object. The result depends only on the
//! draft, not on the number of threads.

use std::collections::{BTreeMap, HashMap};
use std::{iter, mem};

use bytes::Bytes;

use super::compressors::{CompressedBlock, Compressors};
use super::similarity::SimilarityIndex;
use crate::error::{Error, Result};
use crate::object::{Checksum, Kind, ObjectId};
use crate::store::format::codec::decompress_block;
use crate::store::format::segment::Digest;
use crate::store::io::IoFile;
use crate::store::paced_sync::Pace;
use crate::store::pack::format::block::{Block, BlockBuilder, Form, encode_parts};
use crate::store::pack::format::index::{IdIndex, RecentOrdinals};
use crate::store::pack::format::layout::{
    BlockInfo, BlockKind, FRAME_HEADER_BYTES, Footer, FrameHeader, IdsInfo, MAX_BLOCK_OBJECTS,
    PackHeader, encode_table, frames_checksum, ids_checksum, table_checksum,
};
use crate::store::pack::format::pack_draft::{PackDraft, PackFileSize, PackItem};
use crate::store::pack::format::{chunk, links};
use crate::store::pack::{BlockCache, PackId, Parameters};

/// An object of this size is a block of its own. So its next version, or the same image in another
/// encoding, can use it as a base. Makes sessions with images a third smaller.
const OWN_BLOCK_BYTES: usize = 192 << 10;

/// Sizes that a block of an archive may always have, for contents and for other kinds. A larger
/// block has at most [`GROWTH`] times the bytes of the earlier blocks of its kind, so that no
/// damaged block costs a whole session.
const FIRST_BLOB_BYTES: usize = 4 << 20;
const FIRST_BYTES: usize = 128 << 10;
const GROWTH: usize = 2;

/// These sizes for a bundle, which has no cohorts to keep the halves of a session apart.
const FIRST_BLOB_BYTES_OF_BUNDLE: usize = 512 << 10;
const FIRST_BYTES_OF_BUNDLE: usize = 64 << 10;

/// Contents of a cohort may have earlier ones as a base while those are fewer bytes than this.
/// Otherwise a small archive would be a sixth larger.
const APART_BYTES: usize = 1 << 20;

/// Most bytes of bases that stay decoded; others are read again.
const BASES_BYTES: usize = 8 << 20;

/// A pack under construction.
pub(in crate::store::pack) struct Packer<'a> {
    draft: &'a PackDraft<'a>,
    parameters: Parameters,
    ids: &'a IdIndex,
    recent: RecentOrdinals,
    file: &'a dyn IoFile,
    /// The offset of the next frame.
    offset: u64,
    headers: Checksum,
    /// In order of their numbers. Offset and stored bytes of blocks still being compressed are not
    /// set yet.
    blocks: Vec<BlockInfo>,
    compressors: Compressors,
    bases: BlockCache,
    objects: Stream,
    parts: Stream,
    known_parts: HashMap<ObjectId, u32>,
    /// By cohort, and whether the blocks are contents.
    resemblance: HashMap<(u32, bool), SimilarityIndex>,
    raw_bytes: u64,
    /// True if a link may only reference ids that a sequential reader already knows: those of
    /// earlier objects, or gone ones.
    in_order: bool,
    pace: Pace,
}

/// The frames that were written.
pub(in crate::store::pack) struct WrittenFrames {
    pub(in crate::store::pack) blocks: Vec<BlockInfo>,
    pub(in crate::store::pack) parts: u32,
    /// The end of the last frame.
    pub(in crate::store::pack) end: u64,
    /// The checksum of the checksums of their headers.
    pub(in crate::store::pack) headers: Digest,
    /// Bytes of the objects.
    pub(in crate::store::pack) raw_bytes: u64,
}

/// Blocks of objects or of parts; the last one is under construction.
#[derive(Default)]
struct Stream {
    /// The kind of the block under construction.
    kind: Option<BlockKind>,
    placement: u32,
    cohort: u32,
    /// The first object of that block.
    first: u32,
    /// The kind of the last object, and the bytes in closed blocks of this kind: of all cohorts,
    /// and of the cohorts before this one.
    last: Option<BlockKind>,
    before: usize,
    before_cohort: usize,
    /// The bytes in closed blocks of each kind, by its code.
    before_of: BTreeMap<u8, usize>,
    builder: BlockBuilder,
}

impl Stream {
    /// Returns the most bytes of the block under construction.
    fn most_bytes(&self, kind: BlockKind, parameters: &Parameters, is_bundle: bool) -> usize {
        if !parameters.grows {
            return parameters.block_bytes;
        }
        let first = match (kind, is_bundle) {
            (BlockKind::Objects(Kind::Blob), false) => FIRST_BLOB_BYTES,
            (BlockKind::Objects(Kind::Blob), true) => FIRST_BLOB_BYTES_OF_BUNDLE,
            (_, false) => FIRST_BYTES,
            (_, true) => FIRST_BYTES_OF_BUNDLE,
        };
        let before = match self.last == Some(kind) {
            true => self.before,
            false if is_bundle => self.before_of.get(&kind.code()).copied().unwrap_or(0),
            false => 0,
        };
        before.saturating_mul(GROWTH).max(first).min(parameters.block_bytes)
    }

    fn is_full(&self, next_bytes: usize, block_bytes: usize) -> bool {
        let entries = self.builder.entries();
        let bytes = self.builder.raw_bytes() + next_bytes;
        entries == MAX_BLOCK_OBJECTS || (entries > 0 && bytes > block_bytes)
    }
}

impl<'a> Packer<'a> {
    pub(in crate::store::pack) fn new(
        draft: &'a PackDraft<'a>,
        ids: &'a IdIndex,
        file: &'a dyn IoFile,
    ) -> Self {
        let parameters = draft.tier.parameters();
        let jobs = parameters.jobs.min(rayon::current_num_threads());
        Self {
            draft,
            parameters,
            ids,
            recent: RecentOrdinals::new(),
            file,
            offset: 0,
            headers: frames_checksum(),
            blocks: Vec::new(),
            compressors: Compressors::new(parameters.effort, jobs),
            bases: BlockCache::new(BASES_BYTES),
            objects: Stream::default(),
            parts: Stream::default(),
            known_parts: HashMap::new(),
            resemblance: HashMap::new(),
            raw_bytes: 0,
            in_order: false,
            pace: Pace::default(),
        }
    }

    /// Writes the frames of the items from `offset`, so that a sequential reader can compute the
    /// ids of all objects.
    pub(in crate::store::pack) fn write_in_order(mut self, offset: u64) -> Result<WrittenFrames> {
        (self.in_order, self.offset) = (true, offset);
        self.push_items()?;
        self.flush()?;
        let (parts, headers) = (self.parts.first, self.headers.finish());
        let (blocks, end, raw_bytes) = (self.blocks, self.offset, self.raw_bytes);
        Ok(WrittenFrames { blocks, parts, end, headers, raw_bytes })
    }

    /// Writes the whole file.
    pub(in crate::store::pack) fn run(mut self) -> Result<PackFileSize> {
        let (ids, header) = self.write_front()?;
        self.push_items()?;
        self.push_tombstones()?;
        self.flush()?;

        let mut end = encode_table(&self.blocks);
        let footer = Footer {
            ids,
            parts: self.parts.first,
            blocks: count(self.blocks.len()),
            salt: self.draft.salt,
            table_offset: self.offset,
            table: table_checksum(&end),
            header,
            frames: self.headers.finish(),
        };
        let (footer, id) = footer.encode();
        end.extend_from_slice(&footer);
        self.write_at(&end, self.offset)?;
        let bytes = self.offset + end.len() as u64;
        Ok(PackFileSize { id, bytes, objects: ids.objects, raw_bytes: self.raw_bytes })
    }

    fn push_items(&mut self) -> Result<()> {
        for item in self.draft.items {
            self.push(item)?;
        }
        self.close(Self::objects)?;
        self.close(Self::parts)
    }

    /// Adds an object to the block under construction, or to a new one.
    fn push(&mut self, item: &PackItem) -> Result<()> {
        let kind = BlockKind::Objects(item.kind);
        let object = self.draft.source.read_as(item.kind, &item.id)?;
        self.raw_bytes += object.len() as u64;
        let large = item.kind == Kind::Blob && object.len() >= chunk::MIN_CUT_BYTES;
        let (form, body) = if large {
            (Form::Parts, self.cut(&object, item.cohort)?.into())
        } else {
            self.encode(item.kind, &object)
        };
        let open = &self.objects;
        let place = (item.placement, item.cohort);
        let other =
            open.kind.is_some_and(|open| open != kind) || (open.placement, open.cohort) != place;
        if other
            || body.len() >= OWN_BLOCK_BYTES
            || open.is_full(body.len(), open.most_bytes(kind, &self.parameters, self.in_order))
        {
            self.close(Self::objects)?;
        }
        let open = &mut self.objects;
        if open.last != Some(kind) {
            // In a bundle each kind recurs in every portion, and its blocks keep growing.
            let known =
                if self.in_order { open.before_of.get(&kind.code()).copied() } else { None };
            (open.last, open.before, open.before_cohort) = (Some(kind), known.unwrap_or(0), 0);
        } else if open.cohort != item.cohort {
            open.before_cohort = open.before;
        }
        (open.kind, open.placement, open.cohort) = (Some(kind), item.placement, item.cohort);
        open.builder.push(form, &body, object.len());
        if body.len() >= OWN_BLOCK_BYTES {
            self.close(Self::objects)?;
        }
        Ok(())
    }

    fn encode(&mut self, kind: Kind, object: &Bytes) -> (Form, Bytes) {
        let own = self.objects.first + self.objects.builder.entries();
        let gone = count(self.draft.items.len());
        let Self { ids, recent, in_order, .. } = self;
        let is_known = |to: &u32| !*in_order || *to < own || *to >= gone;
        let ordinal_of = |id: &ObjectId| recent.find(id, || ids.find(id)).filter(is_known);
        let body = if kind == Kind::Blob { None } else { links::encode(object, ordinal_of) };
        match body {
            Some(body) if body.len() < object.len() => (Form::Links, body.into()),
            _ => (Form::Verbatim, object.clone()),
        }
    }

    /// Adds the parts of a large blob of a cohort. Returns the body that references them.
    fn cut(&mut self, blob: &[u8], cohort: u32) -> Result<Vec<u8>> {
        let mut numbers = Vec::new();
        for part in chunk::parts(blob) {
            let id = ObjectId::of(Kind::Blob, part);
            if let Some(known) = self.known_parts.get(&id) {
                numbers.push(*known);
                continue;
            }
            let open = &mut self.parts;
            let number = open.first + open.builder.entries();
            (open.kind, open.cohort) = (Some(BlockKind::Parts), cohort);
            open.builder.push(Form::Verbatim, part, part.len());
            // Each part is a block of its own: the parts of one blob resemble those of another, one
            // by one.
            self.close(Self::parts)?;
            self.known_parts.insert(id, number);
            numbers.push(number);
        }
        Ok(encode_parts(&numbers))
    }

    fn push_tombstones(&mut self) -> Result<()> {
        let mut first = self.objects.first;
        for gone in self.draft.gone.chunks(MAX_BLOCK_OBJECTS as usize) {
            let mut raw = Vec::new();
            for (id, kind, gone) in gone {
                raw.extend_from_slice(&[kind.code(), gone.code()]);
                raw.extend_from_slice(id.as_bytes());
            }
            let objects = count(gone.len());
            self.enqueue(BlockKind::Tombstone, first, objects, None, raw.into())?;
            first += objects;
        }
        Ok(())
    }

    fn objects(&mut self) -> &mut Stream {
        &mut self.objects
    }

    fn parts(&mut self) -> &mut Stream {
        &mut self.parts
    }

    /// Ends the block under construction of a stream, if there is one.
    fn close(&mut self, stream: fn(&mut Self) -> &mut Stream) -> Result<()> {
        let open = stream(self);
        let Some(kind) = open.kind.take() else { return Ok(()) };
        let builder = mem::take(&mut open.builder);
        let (first, objects) = (open.first, builder.entries());
        let raw = builder.finish();
        open.first += objects;
        open.before = open.before.saturating_add(raw.len());
        open.before_of.insert(kind.code(), open.before);
        let joins = kind == BlockKind::Objects(Kind::Blob)
            && (1..APART_BYTES).contains(&open.before_cohort);
        let cohort = if joins { 0 } else { open.cohort };
        let most = self.parameters.max_dependent;
        // History must stay readable without contents, so it never uses them as a base.
        let is_content = matches!(kind, BlockKind::Objects(Kind::Blob) | BlockKind::Parts);
        let earlier = self.resemblance.entry((cohort, is_content));
        let earlier = earlier.or_insert_with(|| SimilarityIndex::new(most));
        let base = earlier.base(count(self.blocks.len()), &raw);
        self.enqueue(kind, first, objects, base, raw)
    }

    /// Numbers a block and passes it to the compressors. If they are full, first writes their
    /// oldest block.
    fn enqueue(
        &mut self,
        kind: BlockKind,
        first: u32,
        objects: u32,
        base: Option<u32>,
        raw: Bytes,
    ) -> Result<()> {
        let number = count(self.blocks.len());
        let base_bytes = base.map_or(Ok(Bytes::new()), |base| self.raw(base))?;
        let (raw_bytes, stored_bytes, offset) = (count(raw.len()), 0, 0);
        self.blocks.push(BlockInfo { kind, first, objects, base, raw_bytes, stored_bytes, offset });
        if self.compressors.is_full()
            && let Some(compressed) = self.compressors.take()?
        {
            self.write_frame(&compressed)?;
        }
        self.compressors.submit(number, raw, base_bytes);
        Ok(())
    }

    /// Returns the raw bytes of a block that is being compressed, or was written.
    fn raw(&self, number: u32) -> Result<Bytes> {
        if let Some(raw) = self.compressors.raw(number) {
            return Ok(raw);
        }
        let block = self.bases.block(PackId([0; 32]), number, || {
            let short = || Error::malformed("a new block", "the bytes that were written");
            let info = self.blocks.get(number as usize).ok_or_else(short)?;
            let mut stored = vec![0; info.stored_bytes as usize];
            let offset = info.offset + FRAME_HEADER_BYTES as u64;
            self.file.read_at(&mut stored, offset).map_err(|e| Error::io("read back", e))?;
            let base = info.base.map_or(Ok(Bytes::new()), |base| self.raw(base))?;
            let raw = decompress_block(&stored, &base, info.raw_bytes);
            let raw = raw.map_err(|source| short().with_source(source))?;
            Block::parse(raw.into(), info).ok_or_else(short)
        })?;
        Ok(block.raw().clone())
    }

    /// Writes the blocks that are being compressed.
    fn flush(&mut self) -> Result<()> {
        while let Some(compressed) = self.compressors.take()? {
            self.write_frame(&compressed)?;
        }
        Ok(())
    }

    /// Writes a block after the previous ones.
    fn write_frame(&mut self, compressed: &CompressedBlock) -> Result<()> {
        let CompressedBlock { number, stored, checksum } = compressed;
        let Some(block) = self.blocks.get_mut(*number as usize) else { return Ok(()) };
        (block.offset, block.stored_bytes) = (self.offset, count(stored.len()));
        let (block, offset) = (*block, self.offset);
        self.offset = block.end();
        let header = FrameHeader { number: *number, block, stored: *checksum };
        let (mut frame, header_checksum) = header.encode(&self.draft.salt);
        self.headers.update(&header_checksum);
        frame.extend_from_slice(stored);
        self.write_at(&frame, offset)
    }

    /// Writes the header and the ids without keeping a copy, since they are as large as all ids.
    /// Returns their description, and the checksum of the header.
    fn write_front(&mut self) -> Result<(IdsInfo, Digest)> {
        let PackDraft { store, salt, tier, items, gone, lists_ids, .. } = *self.draft;
        let (column, slots, slot_count) = self.ids.stored();
        let notes: Vec<u8> =
            gone.iter().flat_map(|(_, kind, why)| [kind.code(), why.code()]).collect();
        let parts: [&[u8]; 3] = if lists_ids { [column, &notes, slots] } else { [&[]; 3] };
        let checksum = ids_checksum(parts);
        let slots = if lists_ids { slot_count } else { 0 };
        let ids = IdsInfo { objects: count(items.len()), gone: count(gone.len()), slots, checksum };
        let (bytes, header) = PackHeader { tier, store, salt, ids }.encode();
        for part in iter::once(&*bytes).chain(parts) {
            let offset = self.offset;
            self.write_at(part, offset)?;
            self.offset += part.len() as u64;
        }
        Ok((ids, header))
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = match self.in_order {
            // No process commits while a bundle is written, so no pacing is needed.
            true => self.file.write_at(bytes, offset),
            false => self.pace.write_at(self.file, bytes, offset),
        };
        written.map_err(|e| Error::io(format!("write at {offset}"), e))
    }
}

/// Converts a length that a limit keeps within 32 bits.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
