//! Rewrites all heads with the keys of a new epoch, so that a removed member, who has only earlier
//! keys, cannot forge heads.

use super::Remote;
use super::bucket::Key;
use super::collect::MAX_LOOKS;
use super::known::KnownHead;
use super::listing::visit_heads;
use super::push::SwapOutcome;
use crate::error::{Error, ErrorKind, Result};

impl Remote<'_> {
    /// Rewrites every head with only its generation, predecessor and push id changed. Returns the
    /// number of heads. May be interrupted and repeated.
    ///
    /// # Errors
    /// Errors of [`Remote::fetch`]; `Conflict` after repeated concurrent pushes.
    pub fn renew_heads(&self) -> Result<u64> {
        let mut keys = Vec::new();
        visit_heads(self.bucket, &mut |object| {
            keys.push(object.key.clone());
            Ok(())
        })?;
        keys.iter().try_for_each(|key| self.renew_head(key))?;
        Ok(keys.len() as u64)
    }

    fn renew_head(&self, key: &Key) -> Result<()> {
        let Some(mut found) = self.read_head(key)? else { return Ok(()) };
        let known = match &*found.head.session {
            "" => None,
            session => KnownHead::load(self.repo, self.name, session)?,
        };
        for _ in 0..MAX_LOOKS {
            if let Some(known) = &known {
                known.check_after(&found.head)?;
            }
            match self.rewrite_head(key, Some(&found))? {
                (SwapOutcome::Done(version), head) => {
                    let passed = KnownHead { head, version };
                    return self.record_rewritten(known.as_ref(), Some(&found), &passed);
                }
                (SwapOutcome::Moved(moved), _) => found = *moved,
            }
        }
        let message = format!("other clients keep pushing to {key}: run it again later");
        Err(Error::new(ErrorKind::Conflict, message))
    }
}
