//! Compression of objects in a journal and of blocks in a pack.
//!
//! In the journal only blobs are compressed: nodes, commits and operations are mostly digests,
//! which do not shrink. In a pack everything is compressed, many objects together, and a block may
//! have another block as a dictionary. Ids do not depend on compression, so levels may change at any
//! time.

use std::cell::RefCell;
use std::io;

use bytes::Bytes;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};

use crate::error::{Error, Result};
use crate::object::Kind;

/// Blobs below this size gain less than the frame costs.
const MIN_COMPRESSED_BYTES: usize = 128;

/// Upper bound of the ratio of zstd: a block of 128 KiB from 4 bytes, with a margin. A larger ratio
/// means corruption.
const MAX_RATIO: u64 = 1 << 16;

/// On lines of recorded sessions of 0.5 to 20 KB: level 1 achieves 2.00x at 290 MB/s, level 3 2.03x
/// at half that speed, level -1 1.56x at twice that speed. So compressing a turn of 35 KB costs as
/// much as its fsync.
const LEVEL: i32 = 1;

/// Least length of a match: a tenth faster for a fiftieth more bytes.
const MIN_MATCH: u32 = 7;

/// The encoding of the bytes of an object. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Codec {
    /// Uncompressed.
    Raw,
    /// One zstd frame that states its content size.
    Zstd,
}

impl Codec {
    pub(in crate::store) const fn code(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
        }
    }

    pub(in crate::store) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Raw),
            1 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Checks the sizes that a directory declares for an object, before anything is allocated.
pub(in crate::store) fn is_plausible(
    codec: Codec,
    kind: Kind,
    stored_bytes: u32,
    raw_bytes: u32,
) -> bool {
    let fits = raw_bytes as usize <= kind.max_bytes();
    fits && match codec {
        Codec::Raw => stored_bytes == raw_bytes,
        Codec::Zstd => u64::from(raw_bytes) <= u64::from(stored_bytes) * MAX_RATIO,
    }
}

/// Encodes objects, with one compression context for all of them.
pub(in crate::store) struct Encoder {
    compressor: Compressor<'static>,
}

impl Encoder {
    pub(in crate::store) fn new() -> Result<Self> {
        let failed = |error| Error::io("start zstd", error);
        let mut compressor = Compressor::new(LEVEL).map_err(failed)?;
        compressor.set_parameter(CParameter::MinMatch(MIN_MATCH)).map_err(failed)?;
        Ok(Self { compressor })
    }

    /// Appends the stored form of `raw` to `out`.
    pub(in crate::store) fn encode(&mut self, kind: Kind, raw: &[u8], out: &mut Vec<u8>) -> Codec {
        let start = out.len();
        if kind == Kind::Blob && raw.len() >= MIN_COMPRESSED_BYTES {
            out.resize(start + zstd_safe::compress_bound(raw.len()), 0);
            let room = out.get_mut(start..).unwrap_or_default();
            let written = self.compressor.compress_to_buffer(raw, room);
            // A gain below a sixteenth is not worth a decompression on every read.
            match written {
                Ok(written) if written < raw.len() - raw.len() / 16 => {
                    out.truncate(start + written);
                    return Codec::Zstd;
                }
                _ => out.truncate(start),
            }
        }
        out.extend_from_slice(raw);
        Codec::Raw
    }
}

/// Decodes a stored object to exactly `raw_bytes` bytes. Uncompressed bytes are not copied.
///
/// # Errors
/// A description of the damage; the caller adds the place.
pub(in crate::store) fn decode(codec: Codec, stored: Bytes, raw_bytes: u32) -> io::Result<Bytes> {
    if codec == Codec::Raw {
        return Ok(stored);
    }
    // The frame contains the size too; memory is allocated only if both agree.
    check_frame_size(&stored, raw_bytes)?;
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(Decompressor::new()?),
        };
        let raw = decompressor.decompress(&stored, raw_bytes as usize)?;
        Ok(Bytes::from(raw))
    })
}

/// Logarithms of the least and the largest window of a block: zstd's minimum, and twice the largest
/// block.
const BLOCK_WINDOW_LOGS: (u32, u32) = (10, 25);

/// The compression effort for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Effort {
    pub(in crate::store) level: i32,
    /// True to find matches over long distances too.
    pub(in crate::store) long_distance: bool,
    /// Logarithm of the size of the match tables, which take most of the memory at a high level;
    /// `None` for zstd's default.
    pub(in crate::store) table_log: Option<u32>,
}

/// Checks the sizes that a pack declares for a block, before anything is allocated.
pub(in crate::store) fn is_plausible_block(stored_bytes: u32, raw_bytes: u32) -> bool {
    u64::from(raw_bytes) <= u64::from(stored_bytes) * MAX_RATIO
}

/// Compresses `raw` to one zstd frame, with `base` as its dictionary, which may be empty.
pub(in crate::store) fn compress_block(
    raw: &[u8],
    base: &[u8],
    effort: Effort,
) -> io::Result<Vec<u8>> {
    let (least, most) = BLOCK_WINDOW_LOGS;
    let window = (raw.len() + base.len()).max(1).ilog2() + 1;
    let parameters = [
        CParameter::CompressionLevel(effort.level),
        CParameter::ContentSizeFlag(true),
        CParameter::WindowLog(window.clamp(least, most)),
        CParameter::EnableLongDistanceMatching(effort.long_distance),
    ];
    let tables =
        effort.table_log.map(|log| [CParameter::ChainLog(log), CParameter::HashLog(log - 1)]);
    let mut context = CCtx::create();
    for parameter in parameters.into_iter().chain(tables.into_iter().flatten()) {
        context.set_parameter(parameter).map_err(failure)?;
    }
    if !base.is_empty() {
        context.ref_prefix(base).map_err(failure)?;
    }
    let mut stored = Vec::with_capacity(zstd_safe::compress_bound(raw.len()));
    context.compress2(&mut stored, raw).map_err(failure)?;
    stored.shrink_to_fit();
    Ok(stored)
}

/// Decompresses a block of `raw_bytes` bytes that was compressed with this base.
///
/// # Errors
/// A description of the damage; the caller adds the place.
pub(in crate::store) fn decompress_block(
    stored: &[u8],
    base: &[u8],
    raw_bytes: u32,
) -> io::Result<Vec<u8>> {
    check_frame_size(stored, raw_bytes)?;
    let mut context = DCtx::create();
    if !base.is_empty() {
        context.ref_prefix(base).map_err(failure)?;
    }
    let mut raw = Vec::with_capacity(raw_bytes as usize);
    context.decompress(&mut raw, stored).map_err(failure)?;
    match raw.len() == raw_bytes as usize {
        true => Ok(raw),
        false => Err(io::Error::other("the zstd frame ends early")),
    }
}

fn failure(code: zstd_safe::ErrorCode) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

/// Checks the content size that a zstd frame declares, before memory is allocated for it.
fn check_frame_size(stored: &[u8], expected: u32) -> io::Result<()> {
    let found = match zstd_safe::get_frame_content_size(stored) {
        Ok(Some(found)) if found == u64::from(expected) => return Ok(()),
        Ok(Some(found)) => format!("{found} bytes"),
        _ => "no size".to_owned(),
    };
    Err(io::Error::other(format!("zstd frame declares {found}, expected {expected} bytes")))
}

/// Returns the length of the zstd frame at the start of these bytes, and its declared content size.
pub(in crate::store) fn frame_sizes(bytes: &[u8]) -> Option<(usize, u64)> {
    let raw_bytes = zstd_safe::get_frame_content_size(bytes).ok().flatten()?;
    Some((zstd_safe::find_frame_compressed_size(bytes).ok()?, raw_bytes))
}
