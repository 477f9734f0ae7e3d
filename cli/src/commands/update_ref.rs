//! `update-ref`: sets a ref if it still has the value that the caller saw.

use clap::Args;
use turntree::object::{ID_HEX_DIGITS, ObjectId, RefValue};
use turntree::repo::{BranchName, HEAD, Repository, check_full_name};
use turntree::store::Expected;
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::porcelain::read::revision::object;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Hint, Result};

/// Set or delete a ref (compare-and-swap)
///
/// NAME is a full name, as printed by show-ref. With OLD, nothing changes unless the ref has that
/// value; 64 zeros mean that it must not exist. The exit code is 3 if the ref has another value.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree update-ref refs/heads/nightly/main 3f2a91c0
  turntree update-ref refs/heads/nightly/main HEAD~1 $(turntree rev-parse nightly)
  turntree update-ref HEAD ref:refs/heads/nightly/main
  turntree update-ref -d refs/heads/nightly/old")]
pub(crate) struct UpdateRef {
    /// The full name of the ref
    name: String,
    /// New value: a revision, or ref:NAME for HEAD; with -d the value that it must have now
    #[arg(value_name = "NEW", required_unless_present = "delete")]
    new: Option<String>,
    /// The value that it must have now
    #[arg(value_name = "OLD", conflicts_with = "delete")]
    old: Option<String>,
    /// Delete it
    #[arg(short, long)]
    delete: bool,
}

impl Verb for UpdateRef {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        check_full_name(&self.name)?;
        let repo = run.open()?;
        let (new, old) = match (&self.new, self.delete) {
            (old, true) => (None, old.as_deref()),
            (new, false) => {
                let new = new.as_deref().map(|text| self.value(&repo, text)).transpose()?;
                (new, self.old.as_deref())
            }
        };
        let expected = match old {
            None if new.is_none() && repo.refs().value(&self.name).is_none() => {
                return Err(Error::not_found(format!("ref {} does not exist", self.name)).into());
            }
            None => Expected::Any,
            Some(zeros) if zeros.len() == ID_HEX_DIGITS && zeros.bytes().all(|b| b == b'0') => {
                Expected::Absent
            }
            Some(old) => Expected::Value(self.value(&repo, old)?),
        };
        if self.name == HEAD && new.is_none() {
            return Err(Error::invalid("HEAD cannot be deleted").into());
        }
        let mut change = repo.begin();
        let branch = match &new {
            Some(RefValue::Symbolic(full)) => BranchName::from_full(full),
            _ => None,
        };
        change.set_ref(&self.name, expected, new);
        if let Some(branch) = branch {
            // The expected value of HEAD still applies.
            change.switch(&branch);
        }
        change
            .commit(&stamp()?, &format!("update-ref {}", self.name))
            .hint(ErrorKind::Conflict, "'turntree show-ref' shows its current value")?;
        Ok(Answer::Yes)
    }
}

impl UpdateRef {
    fn value(&self, repo: &Repository, text: &str) -> Result<RefValue> {
        if let Some(target) = text.strip_prefix("ref:") {
            if self.name != HEAD || BranchName::from_full(target).is_none() {
                let expected = "only HEAD holds the name of a ref, and it is a branch's full name";
                return Err(Error::invalid(format!("'{text}': {expected}")).into());
            }
            return Ok(RefValue::Symbolic(target.to_owned()));
        }
        if self.name == HEAD {
            let expected = "HEAD holds the name of a branch: expected ref:refs/heads/S/B";
            return Err(Error::invalid(format!("'{text}': {expected}")).into());
        }
        let id: ObjectId = object(repo, text)?;
        repo.peel(&id)?;
        Ok(RefValue::Object(id))
    }
}
