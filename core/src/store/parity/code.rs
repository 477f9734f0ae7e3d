//! The Reed-Solomon code: computes recovery shards, and restores lost shards.

use reed_solomon_simd::engine::DefaultEngine;
use reed_solomon_simd::rate::{HighRateDecoder, HighRateEncoder, RateDecoder, RateEncoder};

use crate::error::{Error, Result};

/// Computes the recovery shards of these shards, all of one length.
pub(super) fn encode<'a>(
    shards: impl ExactSizeIterator<Item = &'a [u8]>,
    recovery: usize,
    shard_bytes: usize,
) -> Result<Vec<Vec<u8>>> {
    // The rate is part of the format, so it is not left to the choice of the library.
    let engine = DefaultEngine::new();
    let mut encoder = HighRateEncoder::new(shards.len(), recovery, shard_bytes, engine, None)
        .map_err(code_error)?;
    for shard in shards {
        encoder.add_original_shard(shard).map_err(code_error)?;
    }
    let encoded = encoder.encode().map_err(code_error)?;
    Ok(encoded.recovery_iter().map(<[u8]>::to_vec).collect())
}

/// A group to restore: its intact shards and recovery shards, by position.
pub(super) struct GroupDecoder(HighRateDecoder<DefaultEngine>);

impl GroupDecoder {
    pub(super) fn new(shards: usize, recovery: usize, shard_bytes: usize) -> Result<Self> {
        let engine = DefaultEngine::new();
        let decoder = HighRateDecoder::new(shards, recovery, shard_bytes, engine, None);
        Ok(Self(decoder.map_err(code_error)?))
    }

    pub(super) fn shard(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.0.add_original_shard(at, bytes).map_err(code_error)
    }

    pub(super) fn recovery(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.0.add_recovery_shard(at, bytes).map_err(code_error)
    }

    /// Passes each missing shard to `give`.
    pub(super) fn restore(
        mut self,
        mut give: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let restored = self.0.decode().map_err(code_error)?;
        restored.restored_original_iter().try_for_each(|(at, bytes)| give(at, bytes))
    }
}

/// Converts an error of the code: the shape is not valid, or too few shards are intact.
fn code_error(error: reed_solomon_simd::Error) -> Error {
    Error::malformed("the parity", "shards that the code can compute").with_source(error)
}
