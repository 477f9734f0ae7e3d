//! Lists the objects of a remote, page by page.

use super::bucket::{Bucket, Key, Listed};
use super::keys::KeysDocument;
use crate::error::{Error, Result};

/// The prefix of heads.
const HEADS: &str = "heads/";

/// Maximum number of pages read.
const MAX_PAGES: usize = 1 << 16;

/// A listing of an unknown remote: its heads, and whether it is encrypted.
#[derive(Debug)]
pub struct Survey {
    pub(super) heads: Vec<Listed>,
    /// True if it has [keys](KeysDocument). A listing may lag, but sealed heads never decode as
    /// plain ones.
    pub is_encrypted: bool,
}

impl Survey {
    /// Returns the number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.heads.len()
    }

    /// Lists only keys after the bundles: one request per thousand sessions.
    ///
    /// # Errors
    /// `Io` if the bucket does not answer, `Corrupt` if its listing is unordered.
    pub fn of(bucket: &dyn Bucket) -> Result<Self> {
        let keys = KeysDocument::key()?;
        let mut survey = Self { heads: Vec::new(), is_encrypted: false };
        visit_objects_after(bucket, "", Some(Key::new("heads")?), &mut |object| {
            survey.is_encrypted = survey.is_encrypted || object.key == keys;
            if object.key.as_str().starts_with(HEADS) {
                survey.heads.push(object.clone());
            }
            Ok(())
        })?;
        Ok(survey)
    }
}

/// Visits every head.
pub(super) fn visit_heads(
    bucket: &dyn Bucket,
    visit: &mut dyn FnMut(&Listed) -> Result<()>,
) -> Result<()> {
    visit_objects(bucket, HEADS, visit)
}

/// Visits every object whose key begins with `prefix`.
pub(super) fn visit_objects(
    bucket: &dyn Bucket,
    prefix: &str,
    visit: &mut dyn FnMut(&Listed) -> Result<()>,
) -> Result<()> {
    visit_objects_after(bucket, prefix, None, visit)
}

fn visit_objects_after(
    bucket: &dyn Bucket,
    prefix: &str,
    mut after: Option<Key>,
    visit: &mut dyn FnMut(&Listed) -> Result<()>,
) -> Result<()> {
    for _ in 0..MAX_PAGES {
        let page = bucket.list(prefix, after.as_ref())?;
        for object in &page.objects {
            // A repeated key would cause an endless loop.
            if after.as_ref().is_some_and(|after| object.key <= *after) {
                let place = "the listing of the remote";
                return Err(Error::malformed(place, "keys in ascending order"));
            }
            visit(object)?;
            after = Some(object.key.clone());
        }
        if !page.has_more {
            return Ok(());
        }
        if page.objects.is_empty() {
            return Err(Error::corrupt("a page of the listing", "objects", "none"));
        }
    }
    Err(Error::limit("pages of a listing", MAX_PAGES as u64, MAX_PAGES as u64 + 1))
}
