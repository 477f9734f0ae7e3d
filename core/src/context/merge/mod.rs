//! Three-way merge of contexts, section by section.
//!
//! | section | merge |
//! |---|---|
//! | changed by one side only | as that side has it |
//! | maps: `scratchpad`, `memory`, `vfs`, any other | by key; JSON objects by field, text by line |
//! | `lessons` | as maps; the counts of both sides add up, and the later time wins |
//! | `files` | as maps; content by line, the executable bit separately, links as a whole |
//! | `agents/*/messages` | by [`MessagePolicy`] |
//! | `agents/*/state`, `agents/*/reads`, `agents/*/system-prompt` | with the messages |
//! | `source` | ours, unless theirs continues it or the messages are those of theirs |
//! | `meta` | ours, if both changed an entry or `source` stays as in ours |
//! | other lists | additions of both, ours first |
//! | `conflicts` | open conflicts of theirs are copied |
//!
//! Incompatible changes of both sides are a conflict: a value in the section `conflicts`. The
//! entry itself stays as in ours, or gets both versions between markers. So a merge always
//! succeeds, and conflicts are resolved later, one by one, with [`resolve`].
//!
//! The cost follows the changes of both sides: a section or subtree that all three share is never
//! opened.

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

pub(crate) use conflicts::write;
pub use conflicts::{ConflictKind, MergeSide, OpenConflict, Take, open_conflicts, resolve};
pub(crate) use units::ReadToolUse;
pub use units::ToolUse;

use self::section::SectionMerger;
use super::sections::{META, MergeRule, SOURCE, facts, is_conversation, is_transcript_section};
use super::{Builder, Context, Section, Selection, Transcript, diff, section_of, text_key};
use crate::error::Result;
use crate::object::{ObjectId, ObjectSink, ObjectSource, Time};
use crate::tree::{Item, merge_maps};

/// The names of the two sides in markers, and of theirs in the origin of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Labels<'a> {
    /// The receiving side: a branch.
    pub ours: &'a str,
    /// The merged side: a branch, or the prefix of a commit id.
    pub theirs: &'a str,
}

/// The policy for conversations that both sides continued. A summary also replaces messages that only
/// theirs added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MessagePolicy {
    /// The messages of both, ordered by time; those of theirs with their origin.
    #[default]
    Append,
    /// The conversation of ours.
    Ours,
    /// The conversation of theirs.
    Theirs,
    /// The conversation of ours, followed by a user message with this text and theirs as origin.
    Summary(String),
}

/// Messages that one commit added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// Their number.
    pub messages: u64,
    /// The time of the commit.
    pub time: Time,
}

/// A function that returns the commits that added the messages of a conversation, in order, for the
/// section with this name in ours or theirs. Messages it omits count as added by one last commit.
pub(crate) type ReadAdded<'a> = &'a dyn Fn(MergeSide, &str) -> Result<Vec<Added>>;

/// The options of a merge of contexts.
#[derive(Clone, Copy)]
pub(crate) struct MergeOptions<'a> {
    /// The names of the sides.
    pub labels: Labels<'a>,
    /// The policy for conversations that both sides continued.
    pub messages: &'a MessagePolicy,
    /// The part of theirs to merge: sections, folders of sections, entries and folders of entries;
    /// empty for everything. The rest stays as in ours.
    pub only: &'a Selection,
    /// Reads tool calls and results of messages.
    pub tools: ReadToolUse<'a>,
    /// Returns the commits that added messages.
    pub added: ReadAdded<'a>,
    /// Other common ancestors besides the base, where the histories cross: a message of these on
    /// both sides is one message.
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

/// A merge of contexts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextMerge {
    /// The root of the merged context.
    pub tree: ObjectId,
    /// The changes of ours by section; unchanged sections are absent.
    pub sections: BTreeMap<String, SectionMerge>,
    /// New conflicts, ordered by path. Previously open conflicts are excluded.
    pub conflicts: Vec<Conflict>,
}

/// The changes that a merge made to one section of ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionMerge {
    /// Number of entries taken from theirs, including deletions; for lists, number of added items.
    pub taken: u64,
    /// Number of entries with changes of both sides.
    pub combined: u64,
    /// Number of entries in conflict.
    pub conflicts: u64,
}

/// A conflict: incompatible changes of both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path: `files/src/a.rs`, or a whole section.
    pub path: String,
    /// The kind of the conflict.
    pub kind: ConflictKind,
    /// The conflicting fields, if all others merged.
    pub fields: Vec<String>,
    /// True if the entry now has both versions between markers.
    pub has_markers: bool,
}

/// Merges `theirs` into `ours`, both derived from `base`.
///
/// # Errors
/// `NotFound` if theirs has nothing at a path of `only`; `InvalidInput` if the path of a conflict
/// is too long for a key; errors of reading and writing. The contexts stay unchanged.
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
    let transcript = choose_transcript(sink, [base, ours, theirs], &options)?;
    let keeps_transcript = transcript.as_ref().is_some_and(BTreeMap::is_empty);
    let is_summed_up = matches!(options.messages, MessagePolicy::Summary(_));
    for (key, item) in merge.edits {
        let (name, theirs) = (text_key(&key)?, section(item)?);
        let base = base.section(sink, &name)?;
        if (is_summed_up && is_conversation(&name)) || (keeps_transcript && name == META) {
            parts.push((name, [base, base, theirs]));
        } else if only.has_whole_section(&name) {
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
    // A transcript comes from one side: copied pieces are useless without their bases.
    if let Some(sections) = transcript {
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
    // Conflicts of this merge replace copied ones.
    parts.sort_by_key(|(name, _)| facts(name).merge != MergeRule::Conflicts);
    for (name, mut versions) in parts {
        // The facts about the client belong to its transcript: without a base, ours win.
        if keeps_transcript && name == META {
            versions[0] = None;
        }
        if facts(&name).merge == MergeRule::Conflicts {
            conflicts::copy_open_conflicts(sink, &mut merger.builder, [base, ours, theirs])?;
        } else {
            merger.section(sink, &name, versions)?;
        }
    }
    let SectionMerger { mut builder, sections, mut conflicts, .. } = merger;
    conflicts.sort_by(|a, b| a.path.cmp(&b.path));
    let tree = conflicts::write(sink, &mut builder)?;
    Ok(ContextMerge { tree, sections, conflicts })
}

/// Returns true if the transcript of theirs begins with that of ours and is longer, or if ours has
/// none.
pub(crate) fn continues_transcript(
    source: &dyn ObjectSource,
    ours: &Context,
    theirs: &Context,
) -> Result<bool> {
    let (own, other) = (Transcript::open(source, ours)?, Transcript::open(source, theirs)?);
    Ok(own.is_empty() || (own.len() < other.len() && other.continues(source, &own)?))
}

/// Returns the transcript sections to set in ours, or to remove for `None` values; an empty map if
/// the transcript stays as in ours. `None` if the sections merge like others, because theirs has
/// nothing new or continues the transcript of ours.
///
/// A client finds its branch by its transcript. So a branch keeps its own one if another client did
/// the merged work.
fn choose_transcript(
    source: &dyn ObjectSource,
    [base, ours, theirs]: [&Context; 3],
    options: &MergeOptions<'_>,
) -> Result<Option<BTreeMap<String, Option<Section>>>> {
    let sections = |context: &Context| -> Result<BTreeMap<String, Section>> {
        let mut sections = context.sections(source)?;
        sections.retain(|name, _| is_transcript_section(name));
        Ok(sections)
    };
    let (before, own, other) = (sections(base)?, sections(ours)?, sections(theirs)?);
    if before == other || !options.only.has_whole_section(SOURCE) {
        return Ok(None);
    }
    let is_like_others = before == own
        && match options.messages {
            MessagePolicy::Theirs => true,
            MessagePolicy::Append | MessagePolicy::Ours => {
                continues_transcript(source, ours, theirs)?
            }
            MessagePolicy::Summary(_) => false,
        };
    if is_like_others {
        return Ok(None);
    }
    if !matches!(options.messages, MessagePolicy::Theirs) {
        return Ok(Some(BTreeMap::new()));
    }
    let gone = own.into_keys().map(|name| (name, None));
    let taken = other.into_iter().map(|(name, section)| (name, Some(section)));
    Ok(Some(gone.chain(taken).collect()))
}
