//! Offloads a text, or old outputs of a conversation, and replaces them with placeholders.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use turntree::object::{Kind, ObjectId};
use turntree::repo::vfs::{NewPayload, Pool, StoredPayload, VfsUri};
use turntree::repo::{Repository, Signature};
use turntree::{Error, ErrorKind};
use turntree_exchange::{OffloadOptions, Placeholder, Tail, named_by_content, offload};

use crate::program::invocation::stamp;
use crate::view::error::Result;
use crate::view::json;

/// Characters kept at the end of an offloaded output.
const TAIL_CHARS: u64 = 500;

/// How to offload a text.
#[derive(Debug, Default)]
pub(crate) struct Offloading<'a> {
    pub(crate) options: OffloadOptions,
    /// The directory that also has the whole text.
    pub(crate) storage_dir: Option<&'a Path>,
}

/// An offloaded text, and its placeholder.
pub(crate) struct Stored {
    pub(crate) shown: Placeholder,
    pub(crate) uri: VfsUri,
    blob: String,
}

impl Offloading<'_> {
    /// The placeholder of a text; `None` if the text is short enough to stay.
    pub(crate) fn placeholder(&self, text: &str, uri: &VfsUri) -> Option<Placeholder> {
        let file = self.storage_dir.map(|dir| dir.join(uri.path()).display().to_string());
        offload(text, &self.options, uri.as_str(), file.as_deref())
    }

    /// Stores the text that `shown` replaces.
    pub(crate) fn store(
        &self,
        repo: &Repository,
        text: &str,
        new: &NewPayload,
        shown: Placeholder,
    ) -> Result<Stored> {
        let StoredPayload { payload, .. } = repo.put_payload(new, &stamp()?)?;
        // Another content may have the short name.
        let shown = match payload.uri == new.uri {
            true => shown,
            false => self.placeholder(text, &payload.uri).unwrap_or(shown),
        };
        Ok(Stored { shown, uri: payload.uri, blob: payload.blob.to_string() })
    }
}

impl Stored {
    /// The JSON record.
    pub(crate) fn record(&self, file: Option<String>) -> Result<json::Offloaded> {
        let content = RawValue::from_string(self.shown.to_json())
            .map_err(|error| Error::invalid("a text as JSON").with_source(error))?;
        let (uri, blob) = (Some(self.uri.to_string()), Some(self.blob.clone()));
        Ok(json::Offloaded { offloaded: true, content, uri, id: blob.clone(), blob, file })
    }
}

/// The record of a text that is not offloaded.
pub(crate) fn short(text: &str) -> Result<json::Offloaded> {
    let content =
        to_raw_value(text).map_err(|error| Error::invalid("a text as JSON").with_source(error))?;
    let (uri, blob, id, file) = (None, None, None, None);
    Ok(json::Offloaded { offloaded: false, content, uri, blob, id, file })
}

/// Options to offload the outputs of a conversation with more than `threshold` bytes.
pub(crate) fn outputs_over(threshold: u64) -> OffloadOptions {
    let tail = Tail::Chars(TAIL_CHARS.min(threshold / 2));
    OffloadOptions { threshold, head_chars: 0, tail, whole_characters: true }
}

/// Texts removed from a conversation, to be stored in one operation.
pub(crate) struct PutAway<'r> {
    repo: &'r Repository,
    pool: Pool,
    new: BTreeMap<VfsUri, NewPayload>,
}

impl<'r> PutAway<'r> {
    /// Creates an empty set.
    pub(crate) fn new(repo: &'r Repository) -> Result<Self> {
        Ok(Self { repo, pool: Pool::load(repo)?, new: BTreeMap::new() })
    }

    /// The placeholder of a text; `None` if the text is short enough to stay.
    pub(crate) fn stand_in(
        &mut self,
        text: &str,
        options: &OffloadOptions,
    ) -> turntree::Result<Option<String>> {
        if text.len() as u64 <= options.threshold {
            return Ok(None);
        }
        let mut new = named_by_content(Bytes::copy_from_slice(text.as_bytes()));
        if self.is_of_another(&new)?
            && let Some(otherwise) = new.otherwise.take()
        {
            new.uri = otherwise;
        }
        let short = offload(text, options, new.uri.as_str(), None);
        let short = short.map(|short| short.to_text()).filter(|short| short.len() < text.len());
        if short.is_some() {
            self.new.insert(new.uri.clone(), new);
        }
        Ok(short)
    }

    /// Returns true if another content has the short name of a payload.
    fn is_of_another(&self, new: &NewPayload) -> turntree::Result<bool> {
        if let Some(known) = self.new.get(&new.uri) {
            return Ok(known.content != new.content);
        }
        let stored = self.pool.get(self.repo, &new.uri)?;
        let id = ObjectId::of(Kind::Blob, &new.content);
        Ok(stored.is_some_and(|stored| stored.blob != id))
    }

    /// Stores the offloaded texts in one operation.
    pub(crate) fn store(self, stamp: &Signature) -> Result<()> {
        if self.new.is_empty() {
            return Ok(());
        }
        let new: Vec<NewPayload> = self.new.into_values().collect();
        let stored = self.repo.put_payloads(&new, stamp)?;
        if stored.iter().zip(&new).any(|(stored, new)| stored.payload.uri != new.uri) {
            let message = "another process has stored a payload of the same name: try again";
            return Err(Error::new(ErrorKind::Conflict, message).into());
        }
        Ok(())
    }
}
