//! Reads an offloaded payload, part by part.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::object::{Kind, ObjectSource};
use turntree::repo::vfs::VfsUri;

use super::page::{self, MAX_TEXT_BYTES, TEXT_BYTES, limit};
use super::{Effect, Request, ServiceCall};
use crate::view::error::Result;

/// Arguments of `read_vfs`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadVfsArguments {
    /// Its URI, in any form: context://vfs/vfs_<hash>.txt, or only the name of the file
    uri: String,
    /// Begin at this byte
    #[serde(default)]
    offset: u64,
    /// Maximum number of bytes: up to 262144, 16384 by default
    limit: Option<u64>,
}

/// A part of a payload.
#[derive(Serialize, JsonSchema)]
pub(super) struct PayloadPart {
    uri: String,
    /// Its blob.
    id: String,
    /// Total bytes.
    size: u64,
    /// The offset of the part; between two characters of a text.
    offset: u64,
    /// The offset of the next part; null at the end.
    next_offset: Option<u64>,
    /// The part; null if the payload is not text.
    text: Option<String>,
    /// The part of a payload that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl Request for ReadVfsArguments {
    type Answer = PayloadPart;
    const NAME: &'static str = "read_vfs";
    const TITLE: &'static str = "Read an offloaded payload";
    const ABOUT: &'static str = "Reads a long output that was replaced by context://vfs/... in \
        the conversation, in parts: call again with offset = next_offset.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<PayloadPart> {
        let limit = limit(self.limit, TEXT_BYTES, MAX_TEXT_BYTES)?;
        let uri: VfsUri = self.uri.parse()?;
        let repo = call.open()?;
        let found = repo.find_payload(&uri)?;
        let bytes = repo.read_as(Kind::Blob, &found.blob)?;
        let (uri, id, size) = (uri.to_string(), found.blob.to_string(), bytes.len() as u64);
        if let Ok(all) = std::str::from_utf8(&bytes) {
            let page::Page { part, offset, next } = page::text(all, self.offset, limit);
            let text = Some(part.to_owned());
            return Ok(PayloadPart {
                uri,
                id,
                size,
                offset,
                next_offset: next,
                text,
                base64: None,
            });
        }
        let offset = self.offset.min(size);
        let next = offset.saturating_add(limit as u64).min(size);
        let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        let part = bytes.get(at(offset)..at(next)).unwrap_or_default();
        let (next_offset, base64) = ((next < size).then_some(next), Some(STANDARD.encode(part)));
        Ok(PayloadPart { uri, id, size, offset, next_offset, text: None, base64 })
    }
}
