//! A unit: a shard of the parity with a header that describes the whole parity.
//!
//! ```text
//! | magic 8 | version 4 | bytes of a shard 4 | bytes of the content 8 | checksum of the content 16 |
//! | recovery shards of a group 4 | role 4 | number 4 | checksum 16 | shard |
//! ```

use std::sync::LazyLock;

use super::shape::{SUM_BYTES, Shape, UnitPlace, UnitRole};
use crate::object::Checksum;
use crate::store::format::segment::FieldReader;

/// The magic of a unit; alone it means nothing.
pub(super) const MAGIC: [u8; 8] = *b"\x89TTR\r\n\x1a\n";
/// Bytes before the shard.
pub(super) const HEADER_BYTES: usize = 68;
/// Bytes of the header before its checksum.
const SUMMED_BYTES: usize = 52;
const VERSION: u32 = 1;

static UNIT_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 parity unit"));
static SHARD_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 parity shard"));
static CONTENT_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 parity content"));

/// The first bytes of the checksum of the whole content.
pub(super) type ContentSum = [u8; 16];

/// The header of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnitHeader {
    pub(super) shape: Shape,
    pub(super) content: ContentSum,
    pub(super) place: UnitPlace,
}

impl UnitHeader {
    /// Encodes the unit with this shard.
    pub(super) fn encode(&self, shard: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + shard.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.shape.shard_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.shape.content_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.content);
        let index = u32::try_from(self.place.index).unwrap_or(u32::MAX);
        for word in [self.shape.recovery, self.place.role.code(), index] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let sum = unit_sum(&bytes, shard);
        bytes.extend_from_slice(&sum);
        bytes.extend_from_slice(shard);
        bytes
    }

    /// Decodes the header at the start of these bytes, if it is plausible. Does not verify its
    /// checksum.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = FieldReader(bytes.get(..SUMMED_BYTES)?.strip_prefix(&MAGIC)?);
        let (VERSION, shard_bytes) = (fields.u32()?, fields.u32()?) else { return None };
        let (content_bytes, content) = (fields.u64()?, fields.take()?);
        let (recovery, role, index) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let shape = Shape { content_bytes, shard_bytes, recovery }.if_valid()?;
        let place = UnitPlace { role: UnitRole::from_code(role)?, index: index.into() };
        Some(Self { shape, content, place })
    }
}

/// Verifies a unit; returns its header and its shard.
pub(super) fn verify_unit(bytes: &[u8]) -> Option<(UnitHeader, &[u8])> {
    let header = UnitHeader::decode(bytes)?;
    let (head, shard) = bytes.split_at_checked(HEADER_BYTES)?;
    let (summed, sum) = head.split_at_checked(SUMMED_BYTES)?;
    let whole = shard.len() == header.shape.shard_bytes as usize && unit_sum(summed, shard) == *sum;
    whole.then_some((header, shard))
}

fn unit_sum(head: &[u8], shard: &[u8]) -> [u8; 16] {
    first(&UNIT_CHECKSUM.clone().update(head).update(shard).finish())
}

/// Returns the checksum of a shard of the content, padded with zeros.
pub(super) fn shard_sum(shard: &[u8]) -> [u8; SUM_BYTES] {
    first(&SHARD_CHECKSUM.clone().update(shard).finish())
}

/// The hasher of a content.
pub(super) struct ContentSummer(Checksum);

impl ContentSummer {
    pub(super) fn new() -> Self {
        Self(CONTENT_CHECKSUM.clone())
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(&self) -> ContentSum {
        first(&self.0.finish())
    }
}

fn first<const N: usize>(digest: &[u8]) -> [u8; N] {
    digest.first_chunk().copied().unwrap_or([0; N])
}
