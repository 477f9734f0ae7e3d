//! How far the rules of a directory, or of a state beside it, reach into a folder.

use std::sync::Arc;

use super::rules::{Rules, Verdict};

/// The rules of the directory, or of a side, in a folder.
#[derive(Debug, Clone)]
pub(in crate::workspace) struct Reach {
    pub(in crate::workspace) rules: Arc<Rules>,
    /// Set when they ignore the folder: then they ignore all in it but what is tracked.
    pub(in crate::workspace) ignored: Option<Ignored>,
}

/// A folder that rules ignore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workspace) struct Ignored {
    pub(in crate::workspace) verdict: Verdict,
    /// The outermost such folder, without a slash at its end.
    pub(in crate::workspace) folder: Arc<str>,
}

impl Reach {
    /// Returns what the rules say of a path in the folder.
    pub(in crate::workspace) fn verdict(&self, path: &[u8], is_folder: bool) -> Verdict {
        match &self.ignored {
            None => self.rules.verdict(path, is_folder),
            Some(ignored) if self.rules.own_verdict(path, is_folder) != Some(true) => {
                ignored.verdict
            }
            Some(_) => Verdict::IgnoredByOwn,
        }
    }

    /// The reach into a folder in this one, of which the rules say `verdict`.
    pub(in crate::workspace) fn inside(&self, path: &str, verdict: Verdict) -> Self {
        let above = self.ignored.as_ref().map(|ignored| Arc::clone(&ignored.folder));
        let ignored = || Ignored { verdict, folder: above.unwrap_or_else(|| path.into()) };
        Self {
            rules: Arc::clone(&self.rules),
            ignored: (verdict != Verdict::Included).then(ignored),
        }
    }

    /// Returns whether both say the same of every path, but for what one of them skips.
    pub(in crate::workspace) fn is_as(&self, other: &Self) -> bool {
        self.rules.digest() == other.rules.digest() && self.ignored == other.ignored
    }
}
