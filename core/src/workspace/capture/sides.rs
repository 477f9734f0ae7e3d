//! The states beside a directory that is captured to be changed: the snapshot that it leaves, and the
//! one that comes back. What the rules of either ignore is not captured, so nothing plans to change it.

use std::collections::{BTreeMap, BTreeSet};

use super::baseline::Baseline;
use super::report::SECTION;
use super::rules::{GIT_RULES, MAX_RULES_BYTES, OWN_RULES};
use crate::context::{Context, FileEntry, FileMode, text_key};
use crate::error::Result;
use crate::object::ObjectSource;
use crate::tree::{Map, diff_maps};
use crate::workspace::disk::content::Content;

/// A state whose rules count beside those of the directory.
#[derive(Debug, Clone, Copy)]
pub(in crate::workspace) struct OtherState<'a> {
    pub(in crate::workspace) context: &'a Context,
    /// Its files are a whole workspace: what it has was captured although a rule names it.
    pub(in crate::workspace) is_whole: bool,
    /// Paths that its captures did not take along.
    pub(in crate::workspace) skipped: &'a BTreeSet<String>,
    /// Why a path stays that its rules ignore.
    pub(in crate::workspace) reason: &'static str,
}

/// The rules of a state, and which files it has.
#[derive(Debug)]
pub(in crate::workspace) struct Side {
    rules: BTreeMap<String, SideTexts>,
    /// Where its files are others than those of the baseline: true for a file that it has beyond them.
    differing: BTreeMap<String, bool>,
    is_whole: bool,
    skipped: BTreeSet<String>,
    pub(in crate::workspace) reason: &'static str,
}

/// The texts of the rules of a state in one folder.
#[derive(Debug, Default)]
pub(in crate::workspace) struct SideTexts {
    pub(in crate::workspace) git: Vec<u8>,
    pub(in crate::workspace) own: Vec<u8>,
    /// A file of rules is there and cannot be read: nothing is known to be included.
    pub(in crate::workspace) is_unreadable: bool,
}

impl Side {
    /// Reads the rules of `other`. The baseline is that of `parent`. Costs the files of rules, and what
    /// differs between the two.
    ///
    /// # Errors
    /// Those of reading the contexts.
    pub(in crate::workspace) fn new(
        source: &dyn ObjectSource,
        parent: &Context,
        known: &Baseline<'_>,
        other: &OtherState<'_>,
    ) -> Result<Self> {
        let files = other.context.map(source, SECTION)?;
        let mut keys: BTreeSet<String> = known.named(&[GIT_RULES, OWN_RULES]).collect();
        let mut differing = BTreeMap::new();
        for change in diff_maps(&parent.map(source, SECTION)?, &files, source) {
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

    /// Returns whether its captures did not take a path along; an empty one stands for everything.
    pub(in crate::workspace) fn skips(&self, path: &str) -> bool {
        self.skipped.contains(path)
    }

    /// Returns whether its captures took everything along that no rule ignores.
    pub(in crate::workspace) fn skips_nothing(&self) -> bool {
        self.skipped.is_empty()
    }

    /// The rules in a folder, which is empty or ends with a slash.
    pub(in crate::workspace) fn texts(&self, prefix: &str) -> Option<&SideTexts> {
        self.rules.get(prefix)
    }

    /// Returns whether the state took the file along, whatever its rules say; `is_known` when the
    /// baseline has it.
    pub(in crate::workspace) fn took(&self, path: &str, is_known: bool) -> bool {
        self.is_whole && self.differing.get(path).copied().unwrap_or(is_known)
    }

    /// Returns whether it has a file below the folder that the baseline does not have.
    pub(in crate::workspace) fn has_more_below(&self, folder: &str) -> bool {
        let below = self.differing.range(folder.to_owned()..);
        below.take_while(|(path, _)| path.starts_with(folder)).any(|(_, is_there)| *is_there)
    }
}

fn is_rules(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    name == GIT_RULES || name == OWN_RULES
}

/// The text of a file of rules, as git reads it: a link is none. `None` when it cannot be read.
fn read(source: &dyn ObjectSource, files: &Map, key: &str) -> Result<Option<Vec<u8>>> {
    let Some(item) = files.get(source, key.as_bytes())? else { return Ok(Some(Vec::new())) };
    let entry = FileEntry::from_item(&item)?;
    if entry.mode == FileMode::Symlink {
        return Ok(Some(Vec::new()));
    }
    let text = Content::Blob(entry.blob).bytes(source).ok();
    Ok(text.filter(|text| text.len() as u64 <= MAX_RULES_BYTES).map(|text| text.to_vec()))
}
