//! Heads are written again, all of them: with the keys of a new epoch, so that who has only the earlier ones
//! cannot pass for a member any more.

use super::Remote;
use super::bucket::Key;
use super::collect::MAX_LOOKS;
use super::known::KnownHead;
use super::listing::each_head;
use super::push::Swap;
use crate::error::{Error, ErrorKind, Result};

impl Remote<'_> {
    /// Writes every head again, with nothing changed but what tells it from the one before. Returns how many
    /// there are. May end anywhere, and be done again.
    ///
    /// # Errors
    /// Those of [`Remote::fetch`]; `Conflict` when others push again and again.
    pub fn renew_heads(&self) -> Result<u64> {
        let mut keys = Vec::new();
        each_head(self.bucket, &mut |object| {
            keys.push(object.key.clone());
            Ok(())
        })?;
        keys.iter().try_for_each(|key| self.renew(key))?;
        Ok(keys.len() as u64)
    }

    fn renew(&self, key: &Key) -> Result<()> {
        let Some(mut found) = self.read_head(key)? else { return Ok(()) };
        let known = match &*found.head.session {
            "" => None,
            session => KnownHead::load(self.repo, self.name, session)?,
        };
        for _ in 0..MAX_LOOKS {
            if let Some(known) = &known {
                known.check_after(&found.head)?;
            }
            match self.pass(key, Some(&found))? {
                (Swap::Done(version), head) => {
                    let passed = KnownHead { head, version };
                    return self.record_passed(known.as_ref(), Some(&found), &passed);
                }
                (Swap::Moved(moved), _) => found = *moved,
            }
        }
        let message = format!("others push to {key} again and again: do it again later");
        Err(Error::new(ErrorKind::Conflict, message))
    }
}
