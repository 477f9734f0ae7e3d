//! Whether everything that the heads of a remote list is there, and what lies there that none lists.

use std::collections::BTreeMap;

use super::Remote;
use super::bucket::Key;
use super::known::KnownHead;
use super::listing::{each_head, each_object};
use crate::error::Result;

/// What a look at a whole remote found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Sessions on the remote.
    pub sessions: u64,
    /// Bundles that heads list.
    pub bundles: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Keys of bundles that a head lists and that are not there, or have another size.
    pub missing: Vec<String>,
    /// Bundles that no head lists: of pushes that are under way, or that ended before they were done, and
    /// those whose place a later one took.
    pub unlisted: u64,
    /// Bytes of these.
    pub unlisted_bytes: u64,
}

impl Remote<'_> {
    /// Looks at every head and at what lies on the remote, without reading contents: a request for each
    /// session, and one for a thousand objects.
    ///
    /// # Errors
    /// `Corrupt` when a head is none, or cannot have come after the one that was seen before; `Io` when
    /// the remote does not answer.
    pub fn check(&self) -> Result<Checked> {
        self.check_id()?;
        let mut there: BTreeMap<Key, u64> = BTreeMap::new();
        // Before the heads: what these list was there before them.
        each_object(self.bucket, "bundles/", &mut |object| {
            there.insert(object.key.clone(), object.size);
            Ok(())
        })?;
        let (mut checked, mut listed) = (Checked::default(), BTreeMap::new());
        each_head(self.bucket, &mut |object| {
            let Some(found) = self.read_head(&object.key)? else { return Ok(()) };
            if found.head.is_closed() && found.head.session.is_empty() {
                return Ok(());
            }
            if let Some(known) = KnownHead::load(self.repo, self.name, &found.head.session)? {
                known.check_after(&found.head)?;
            }
            checked.sessions += u64::from(!found.head.is_closed());
            for bundle in &found.head.bundles {
                listed.insert(
                    found.head.bundle_key(self.bucket.names(), &bundle.name)?,
                    bundle.stored_bytes(),
                );
            }
            Ok(())
        })?;
        for (key, bytes) in &listed {
            checked.bundles += 1;
            checked.bytes = checked.bytes.saturating_add(*bytes);
            // One that came since, or that the listing has not yet, is asked for by itself.
            let size = match there.get(key) {
                Some(size) => Some(*size),
                None => self.size_of(key)?,
            };
            if size != Some(*bytes) {
                checked.missing.push(key.to_string());
            }
        }
        for (_, bytes) in there.iter().filter(|(key, _)| !listed.contains_key(*key)) {
            checked.unlisted += 1;
            checked.unlisted_bytes = checked.unlisted_bytes.saturating_add(*bytes);
        }
        Ok(checked)
    }
}
