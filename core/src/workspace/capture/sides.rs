//! Other states of a directory that is captured before a change: the snapshot that it leaves, and
//! the one that is restored. A capture omits paths that the rules of either ignore, so no plan
//! changes them.

use std::collections::{BTreeMap, BTreeSet};

use super::baseline::Baseline;
use super::rules::{GIT_RULES, MAX_RULES_BYTES, OWN_RULES};
use crate::context::sections::FILES;
use crate::context::{Context, FileEntry, FileMode, text_key};
use crate::error::Result;
use crate::object::ObjectSource;
use crate::tree::{Map, diff_maps};
use crate::workspace::disk::content::Content;

/// A state whose rules apply in addition to those of the directory.
#[derive(Debug, Clone, Copy)]
pub(in crate::workspace) struct OtherState<'a> {
    pub(in crate::workspace) context: &'a Context,
    /// True if its files are a whole workspace: then its files were captured even if a rule matches
    /// them.
    pub(in crate::workspace) is_whole: bool,
    /// Paths that its captures skipped.
    pub(in crate::workspace) skipped: &'a BTreeSet<String>,
    /// The reason to report for a path that its rules ignore.
    pub(in crate::workspace) reason: &'static str,
}

/// The rules of a state, and its files.
#[derive(Debug)]
pub(in crate::workspace) struct Side {
    rules: BTreeMap<String, SideTexts>,
    /// Paths where its files differ from the baseline: true for a file that only this state has.
    differing: BTreeMap<String, bool>,
    is_whole: bool,
    skipped: BTreeSet<String>,
    pub(in crate::workspace) reason: &'static str,
}

/// The rule texts of a state in one folder.
#[derive(Debug, Default)]
pub(in crate::workspace) struct SideTexts {
    pub(in crate::workspace) git: Vec<u8>,
    pub(in crate::workspace) own: Vec<u8>,
    /// True if a rule file exists but cannot be read: then no path counts as included.
    pub(in crate::workspace) is_unreadable: bool,
}

impl Side {
    /// Reads the rules of `other`. `known` is the baseline of `parent`. Reads the rule files, and
    /// the differences between both states.
    ///
    /// # Errors
    /// Errors of reading the contexts.
    pub(in crate::workspace) fn new(
        source: &dyn ObjectSource,
        parent: &Context,
        known: &Baseline<'_>,
        other: &OtherState<'_>,
    ) -> Result<Self> {
        let files = other.context.map(source, FILES)?;
        let mut keys: BTreeSet<String> = known.paths_named(&[GIT_RULES, OWN_RULES]).collect();
        let mut differing = BTreeMap::new();
        for change in diff_maps(&parent.map(source, FILES)?, &files, source) {
            let change = change?;
            let (key, is_there) = (text_key(&change.key)?, change.new.is_some());
            if is_rules(&key) {
                let _ = if is_there { keys.insert(key.clone()) } else { keys.remove(&key) };
            }
            if change.old.is_some() != is_there {
                differing.insert(key, is_there);
            }
        }
        let mut rules: BTreeMap<String, SideTexts> = BTreeMap::new();
        for key in keys {
            let (prefix, name) = key.split_at(key.rfind('/').map_or(0, |slash| slash + 1));
            let texts = rules.entry(prefix.to_owned()).or_default();
            match read(source, &files, &key)? {
                None => texts.is_unreadable = true,
                Some(text) if name == OWN_RULES => texts.own = text,
                Some(text) => texts.git = text,
            }
        }
        let OtherState { is_whole, skipped, reason, .. } = *other;
        Ok(Self { rules, differing, is_whole, skipped: skipped.clone(), reason })
    }

    /// Returns true if its captures skipped a path; the empty path means everything.
    pub(in crate::workspace) fn has_skipped(&self, path: &str) -> bool {
        self.skipped.contains(path)
    }

    /// Returns true if its captures included every path that no rule ignores.
    pub(in crate::workspace) fn skips_nothing(&self) -> bool {
        self.skipped.is_empty()
    }

    /// Returns the rules in a folder, which is empty or ends with a slash.
    pub(in crate::workspace) fn texts(&self, prefix: &str) -> Option<&SideTexts> {
        self.rules.get(prefix)
    }

    /// Returns true if the state captured the file, whatever its rules; `is_known` if the baseline
    /// has it.
    pub(in crate::workspace) fn has_captured(&self, path: &str, is_known: bool) -> bool {
        self.is_whole && self.differing.get(path).copied().unwrap_or(is_known)
    }

    /// Returns true if it has a file below the folder that the baseline lacks.
    pub(in crate::workspace) fn has_new_file_below(&self, folder: &str) -> bool {
        let below = self.differing.range(folder.to_owned()..);
        below.take_while(|(path, _)| path.starts_with(folder)).any(|(_, is_there)| *is_there)
    }
}

fn is_rules(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    name == GIT_RULES || name == OWN_RULES
}

/// Returns the text of a rule file as git reads it: a link is empty. `None` if it cannot be read.
fn read(source: &dyn ObjectSource, files: &Map, key: &str) -> Result<Option<Vec<u8>>> {
    let Some(item) = files.get(source, key.as_bytes())? else { return Ok(Some(Vec::new())) };
    let entry = FileEntry::from_item(&item)?;
    if entry.mode == FileMode::Symlink {
        return Ok(Some(Vec::new()));
    }
    let text = Content::Blob(entry.blob).bytes(source).ok();
    Ok(text.filter(|text| text.len() as u64 <= MAX_RULES_BYTES).map(|text| text.to_vec()))
}
