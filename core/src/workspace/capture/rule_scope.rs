//! The scope of the rules of a directory, or of a side, in a folder.

use std::sync::Arc;

use super::rules::{Rules, Verdict};

/// The rules of the directory, or of a side, in a folder.
#[derive(Debug, Clone)]
pub(in crate::workspace) struct RuleScope {
    pub(in crate::workspace) rules: Arc<Rules>,
    /// Set if they ignore the folder: then they ignore everything in it that is not tracked.
    pub(in crate::workspace) ignored: Option<IgnoredFolder>,
}

/// A folder that rules ignore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workspace) struct IgnoredFolder {
    pub(in crate::workspace) verdict: Verdict,
    /// The outermost ignored folder, without a trailing slash.
    pub(in crate::workspace) folder: Arc<str>,
}

impl RuleScope {
    /// Returns the verdict of the rules on a path in the folder.
    pub(in crate::workspace) fn verdict(&self, path: &[u8], is_folder: bool) -> Verdict {
        match &self.ignored {
            None => self.rules.verdict(path, is_folder),
            Some(ignored) if self.rules.own_verdict(path, is_folder) != Some(true) => {
                ignored.verdict
            }
            Some(_) => Verdict::IgnoredByOwn,
        }
    }

    /// Returns the scope for a subfolder with this `verdict`.
    pub(in crate::workspace) fn subfolder_scope(&self, path: &str, verdict: Verdict) -> Self {
        let above = self.ignored.as_ref().map(|ignored| Arc::clone(&ignored.folder));
        let ignored = || IgnoredFolder { verdict, folder: above.unwrap_or_else(|| path.into()) };
        Self {
            rules: Arc::clone(&self.rules),
            ignored: (verdict != Verdict::Included).then(ignored),
        }
    }

    /// Returns true if both give the same verdict on every path, apart from skipped paths of a
    /// side.
    pub(in crate::workspace) fn has_same_verdicts(&self, other: &Self) -> bool {
        self.rules.digest() == other.rules.digest() && self.ignored == other.ignored
    }
}
