//! Offloading a text: the short one that stands for it, and the record.

use std::path::Path;

use serde_json::value::{RawValue, to_raw_value};
use turntree::Error;
use turntree::repo::Repository;
use turntree::repo::vfs::{NewPayload, StoredPayload, VfsUri};
use turntree_exchange::{OffloadOptions, Placeholder, offload};

use crate::program::invocation::stamp;
use crate::view::error::Result;
use crate::view::json;

/// How a text is offloaded.
#[derive(Debug, Default)]
pub(crate) struct Offloading<'a> {
    pub(crate) options: OffloadOptions,
    /// The directory that has the whole as well.
    pub(crate) storage_dir: Option<&'a Path>,
}

/// A text in the store, and what stands for it.
pub(crate) struct Stored {
    pub(crate) shown: Placeholder,
    pub(crate) uri: VfsUri,
    blob: String,
}

impl Offloading<'_> {
    /// What stands for a text; nothing when it is short enough to stay.
    pub(crate) fn placeholder(&self, text: &str, uri: &VfsUri) -> Option<Placeholder> {
        let file = self.storage_dir.map(|dir| dir.join(uri.path()).display().to_string());
        offload(text, &self.options, uri.as_str(), file.as_deref())
    }

    /// Stores a text for which `shown` stands.
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
    /// The record for programs.
    pub(crate) fn record(&self, file: Option<String>) -> Result<json::Offloaded> {
        let content = RawValue::from_string(self.shown.to_json())
            .map_err(|error| Error::invalid("a text as JSON").with_source(error))?;
        let (uri, id) = (Some(self.uri.to_string()), Some(self.blob.clone()));
        Ok(json::Offloaded { offloaded: true, content, uri, id, file })
    }
}

/// The record of a text that stays as it is.
pub(crate) fn short(text: &str) -> Result<json::Offloaded> {
    let content =
        to_raw_value(text).map_err(|error| Error::invalid("a text as JSON").with_source(error))?;
    Ok(json::Offloaded { offloaded: false, content, uri: None, id: None, file: None })
}
