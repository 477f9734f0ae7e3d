//! Three-way merge of contexts, section by section.
//!
//! | section | how |
//! |---|---|
//! | changed by one side only | as that side has it |
//! | maps: `scratchpad`, `memory`, `vfs`, anything | key by key; objects of JSON by fields, text by lines |
//! | `lessons` | as maps; what both sides learned again is counted, and was learned last at the later moment |
//! | `files` | as maps; content by lines, what may be executed by itself, links as they are |
//! | `agents/*/messages` | by [`MessagePolicy`] |
//! | `agents/*/state`, `agents/*/reads`, `agents/*/system-prompt`, `source` | what both changed goes with the messages |
//! | `meta` | what both changed stays as in ours |
//! | other lists | what both added, ours first |
//! | [`CONFLICTS`] | open conflicts of theirs are carried along |
//!
//! Changes of both sides that exclude each other are a conflict: a value in the section
//! [`CONFLICTS`], next to which the entry stands as in ours, or with both versions between markers.
//! So a merge always succeeds, and conflicts are decided later, one by one, with [`resolve`].
//!
//! The cost grows with the changes of both sides: a section or a subtree that all three share is
//! never opened.

mod align;
mod conflicts;
mod fields;
mod files;
mod lessons;
mod list;
mod messages;
mod section;
mod text;
mod units;
mod value;

#[cfg(test)]
mod crossing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use conflicts::{CONFLICTS, write};
pub use conflicts::{ConflictKind, MergeSide, OpenConflict, Take, open_conflicts, resolve};
pub(crate) use units::ReadToolUse;
pub use units::ToolUse;

use self::section::SectionMerger;
use super::{
    Builder, Context, SOURCE, Section, Selection, diff, is_transcript_section, section_of, text_key,
};
use crate::error::Result;
use crate::object::{ObjectId, ObjectSink, ObjectSource, Time};
use crate::tree::{Item, merge_maps};

/// The names of the two sides in markers, and of theirs in the origin of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Labels<'a> {
    /// The side that is merged into: a branch.
    pub ours: &'a str,
    /// The side that is merged: a branch, or the beginning of a commit's id.
    pub theirs: &'a str,
}

/// The policy for a conversation that both sides continued.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MessagePolicy {
    /// The messages of both in the order of time, those of theirs with their origin.
    #[default]
    Append,
    /// As in ours.
    Ours,
    /// As in theirs.
    Theirs,
    /// As in ours, and then a message of the user with this text, of the origin theirs.
    Summary(String),
}

/// Messages that one commit added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Their number.
    pub messages: u64,
    /// When.
    pub time: Time,
}

/// A function to the commits that added the messages of a conversation, in its order: of the
/// section with this name in ours or theirs. What it leaves out counts as added by one commit at
/// last.
pub(crate) type ReadAdded<'a> = &'a dyn Fn(MergeSide, &str) -> Result<Vec<Added>>;

/// The options of a merge of contexts.
#[derive(Clone, Copy)]
pub(crate) struct MergeOptions<'a> {
    /// The names of the sides.
    pub labels: Labels<'a>,
    /// The policy for conversations that both sides continued.
    pub messages: &'a MessagePolicy,
    /// The selection taken of theirs: sections, folders of sections, entries and folders of
    /// entries.
    /// Everything when it is empty; all else stays as in ours.
    pub only: &'a Selection,
    /// The reader of tool calls and results in messages.
    pub tools: ReadToolUse<'a>,
    /// When messages were added.
    pub added: ReadAdded<'a>,
    /// Snapshots besides the base that both sides come from, where their histories cross: a message
    /// of these that both have is one.
    pub also: &'a [Context],
}

impl fmt::Debug for MergeOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergeOptions")
            .field("labels", &self.labels)
            .field("messages", &self.messages)
            .field("only", &self.only)
            .finish_non_exhaustive()
    }
}

/// Contexts merged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextMerge {
    /// The root of the merged context.
    pub tree: ObjectId,
    /// The changes of ours by section; unchanged sections are absent.
    pub sections: BTreeMap<String, SectionMerge>,
    /// New conflicts, in order of paths. Conflicts that were open before are not among them.
    pub conflicts: Vec<Conflict>,
}

/// The changes that a merge made to one section of ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionMerge {
    /// Entries that are as in theirs now, or gone as there; of lists, items that came in.
    pub taken: u64,
    /// Entries that have the changes of both.
    pub combined: u64,
    /// Entries in conflict.
    pub conflicts: u64,
}

/// A conflict: changes of both sides that exclude each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path: `files/src/a.rs`, or a whole section.
    pub path: String,
    /// The kind of the conflict.
    pub kind: ConflictKind,
    /// The fields that both changed, when all others came together.
    pub fields: Vec<String>,
    /// True if both versions stand between markers in the entry now.
    pub has_markers: bool,
}

/// Merges `theirs` into `ours`, which both come from `base`.
///
/// # Errors
/// `NotFound` when nothing of theirs is at a path of `only`; `InvalidInput` when the path of a
/// conflict is too long for a key; what reading and writing reports. The contexts are as they were.
pub(crate) fn merge(
    sink: &mut dyn ObjectSink,
    base: &Context,
    ours: &Context,
    theirs: &Context,
    options: MergeOptions<'_>,
) -> Result<ContextMerge> {
    let only = options.only;
    only.check(sink, [base, theirs])?;
    let merge = merge_maps(&base.root, &ours.root, &theirs.root, sink)?;
    let mut whole = Vec::new();
    let mut parts = Vec::new();
    let mut sections = BTreeMap::new();
    let section = |item: Option<Item>| item.as_ref().map(section_of).transpose();
    for (key, item) in merge.edits {
        let (name, theirs) = (text_key(&key)?, section(item)?);
        let base = base.section(sink, &name)?;
        if only.has_all_of(&name) {
            let taken = diff::diff_section(sink, base, theirs)?.len() as u64;
            sections.insert(name.clone(), SectionMerge { taken, ..SectionMerge::default() });
            whole.push((name, theirs));
        } else if only.reaches(&name) {
            parts.push((name, [base, base, theirs]));
        }
    }
    for conflict in merge.conflicts {
        let name = text_key(&conflict.key)?;
        if only.reaches(&name) {
            let versions: [Option<Section>; 3] =
                [section(conflict.base)?, section(conflict.ours)?, section(conflict.theirs)?];
            parts.push((name, versions));
        }
    }
    // A transcript is of one side: its copies are nothing without its bases.
    if let Some(sections) = transcript_of_one_side(sink, [base, ours, theirs], &options)? {
        whole.retain(|(name, _)| !is_transcript_section(name));
        parts.retain(|(name, _)| name == SOURCE || !is_transcript_section(name));
        whole.extend(sections);
    }
    let mut merged = ours.clone();
    merged.set_sections(sink, whole)?;
    let mut merger = SectionMerger {
        options,
        builder: Builder::from(merged),
        sections,
        conflicts: Vec::new(),
        ours: ours.clone(),
    };
    // Conflicts of this merge replace those that are carried along.
    parts.sort_by_key(|(name, _)| name != CONFLICTS);
    for (name, versions) in parts {
        if name == CONFLICTS {
            conflicts::carry(sink, &mut merger.builder, [base, ours, theirs])?;
        } else {
            merger.section(sink, &name, versions)?;
        }
    }
    let SectionMerger { mut builder, sections, mut conflicts, .. } = merger;
    conflicts.sort_by(|a, b| a.path.cmp(&b.path));
    let tree = conflicts::write(sink, &mut builder)?;
    Ok(ContextMerge { tree, sections, conflicts })
}

/// The sections of the transcript that the merge has, where both sides have changed it: those of ours that
/// are to be set, or to go, for those of theirs. `None` where one side alone has changed it.
fn transcript_of_one_side(
    source: &dyn ObjectSource,
    [base, ours, theirs]: [&Context; 3],
    options: &MergeOptions<'_>,
) -> Result<Option<BTreeMap<String, Option<Section>>>> {
    let sections = |context: &Context| -> Result<BTreeMap<String, Section>> {
        let mut sections = context.sections(source)?;
        sections.retain(|name, _| is_transcript_section(name));
        Ok(sections)
    };
    let (base, ours, theirs) = (sections(base)?, sections(ours)?, sections(theirs)?);
    if base == ours || base == theirs || !options.only.has_all_of(SOURCE) {
        return Ok(None);
    }
    if !matches!(options.messages, MessagePolicy::Theirs) {
        return Ok(Some(BTreeMap::new()));
    }
    let gone = ours.into_keys().map(|name| (name, None));
    let taken = theirs.into_iter().map(|(name, section)| (name, Some(section)));
    Ok(Some(gone.chain(taken).collect()))
}
