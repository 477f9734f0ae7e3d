//! Resolves words to branches: `SESSION/BRANCH`, or a branch of a session that the context gives.
//!
//! The name of a branch may contain a slash, so a word with a slash is ambiguous. It names a
//! session if its first part is a session. Otherwise a snapshot meant for `task/plan` would begin a
//! new branch `task/task/plan`.

use crate::error::{Error, Result};
use crate::repo::{BranchName, Repository};

impl Repository {
    /// Returns the branch that `word` names, which need not exist: `SESSION/BRANCH`, or a branch of
    /// `session`, by default that of HEAD.
    ///
    /// If the first part of a word is not a session, a branch of this name in the session wins.
    /// Without one, the word is a branch of `session` if that is given, else of a new session named
    /// by the first part.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not allowed, and for a word that names another session
    /// than `session`; `NotFound` when there is no HEAD and the word names no session.
    pub fn branch_of_word(&self, session: Option<&str>, word: &str) -> Result<BranchName> {
        let Some((first, _)) = word.split_once('/') else {
            let head = || self.head().map(|head| head.branch.session().to_owned());
            return self.check_new_branch(match session {
                Some(session) => BranchName::new(session, word),
                None => BranchName::new(&head()?, word),
            }?);
        };
        if session == Some(first) {
            return self.check_new_branch(word.parse()?);
        }
        let head = self.head_if_any()?.map(|head| head.branch.session().to_owned());
        let of_session = session.or(head.as_deref().filter(|head| *head != first));
        let own = of_session.and_then(|session| BranchName::new(session, word).ok());
        let named: BranchName = word.parse()?;
        if session.is_none() && self.tip(&named).is_some() {
            return Ok(named);
        }
        if let Some(own) = own.as_ref().filter(|own| self.tip(own).is_some()) {
            return Ok(own.clone());
        }
        match (session, own) {
            (None, _) => self.check_new_branch(named),
            (Some(_), Some(own)) if !self.has_session(first) => self.check_new_branch(own),
            (Some(session), _) => Err(Error::invalid(format!(
                "'{word}' is a branch of session {first}, and not of {session}"
            ))),
        }
    }

    /// Returns the name of a new branch `word` in `session`; `SESSION/BRANCH` is the same.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not allowed, and for one that names a branch of another
    /// session.
    pub fn new_branch(&self, session: &str, word: &str) -> Result<BranchName> {
        let branch = match word.split_once('/') {
            Some((first, _)) if first == session => word.parse()?,
            Some((first, _)) if self.has_session(first) => {
                return Err(Error::invalid(format!(
                    "'{word}' cannot name a branch of session {session}: it names one of session \
                     {first}"
                )));
            }
            _ => BranchName::new(session, word)?,
        };
        branch.check_new()?;
        Ok(branch)
    }

    /// Returns true if a session of this name has a branch. Reads no object.
    #[must_use]
    pub fn has_session(&self, session: &str) -> bool {
        let refs = self.refs();
        let Ok(main) = BranchName::main(session) else { return false };
        let full = main.full();
        let prefix = full.strip_suffix(main.branch()).unwrap_or(&full);
        refs.values.starting_with(prefix).next().is_some()
    }

    /// Refuses a name that new branches must not have, unless the branch exists.
    fn check_new_branch(&self, branch: BranchName) -> Result<BranchName> {
        if self.tip(&branch).is_none() {
            branch.check_new()?;
        }
        Ok(branch)
    }
}
