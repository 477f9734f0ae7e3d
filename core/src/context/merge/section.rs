//! Merges one section that both sides changed, or that is selected only in part.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::conflicts::{self, ConflictKind, MergeSide};
use super::messages::{self, ConversationInputs};
use super::value::{self, MergedValue, Versions};
use super::{Conflict, MergeOptions, MessagePolicy, SectionMerge, files, list};
use crate::context::entry::{MessageEntry, Role, blob_item};
use crate::context::sections::{EntryKind, MergeRule, facts, is_conversation};
use crate::context::{Builder, Context, Section, Shape, text_key};
use crate::error::Result;
use crate::object::{Kind, ObjectSink, ObjectSource};
use crate::tree::{Item, List, Map, MapConflict, merge_maps};

/// A merge in progress.
pub(super) struct SectionMerger<'a> {
    pub(super) options: MergeOptions<'a>,
    pub(super) builder: Builder,
    pub(super) sections: BTreeMap<String, SectionMerge>,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) ours: Context,
}

/// The rule for an entry that both sides changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// It is merged, or becomes a conflict.
    Merge,
    /// Ours wins.
    Ours,
    /// Theirs wins.
    Theirs,
}

impl SectionMerger<'_> {
    /// Merges a section, given in base, ours and theirs.
    pub(super) fn section(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        versions: [Option<Section>; 3],
    ) -> Result<()> {
        let [base, ours, theirs] = versions;
        let shapes = versions.map(|section| section.map(|section| section.shape));
        let mut present = shapes.into_iter().flatten();
        let Some(shape) = present.next() else { return Ok(()) };
        let rule = self.rule(name);
        let report = if rule == Rule::Ours && ours.is_none() {
            SectionMerge::default()
        } else if rule == Rule::Theirs && theirs.is_none() {
            self.take_section(sink, name, None)?
        } else if present.any(|other| other != shape) {
            match rule {
                Rule::Ours => SectionMerge::default(),
                Rule::Theirs => self.take_section(sink, name, theirs)?,
                Rule::Merge => self.section_conflict(sink, name, versions)?,
            }
        } else {
            match shape {
                Shape::Map => self.map(sink, name, versions, rule)?,
                Shape::Blob => self.blob(sink, name, versions, rule)?,
                Shape::List if rule == Rule::Ours => SectionMerge::default(),
                Shape::List if rule == Rule::Theirs => self.take_section(sink, name, theirs)?,
                Shape::List if is_conversation(name) => {
                    self.conversation(sink, name, [base, ours, theirs])?
                }
                Shape::List => self.list(sink, name, versions)?,
            }
        };
        if report != SectionMerge::default() {
            self.sections.insert(name.to_owned(), report);
        }
        Ok(())
    }

    /// Returns the rule for entries that both sides changed.
    fn rule(&self, name: &str) -> Rule {
        let with_messages = match self.options.messages {
            MessagePolicy::Theirs => Rule::Theirs,
            MessagePolicy::Append | MessagePolicy::Ours | MessagePolicy::Summary(_) => Rule::Ours,
        };
        match facts(name).merge {
            MergeRule::Ours => Rule::Ours,
            MergeRule::WithMessages => with_messages,
            MergeRule::Messages
            | MergeRule::Entries
            | MergeRule::Lessons
            | MergeRule::Conflicts => Rule::Merge,
        }
    }

    fn take_section(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        theirs: Option<Section>,
    ) -> Result<SectionMerge> {
        let changed = match theirs {
            Some(theirs) => Some(theirs),
            None => self.ours.section(sink, name)?,
        };
        let taken = changed.map_or(Ok(0), |section| section.len(sink))?;
        self.builder.set_section(sink, name, theirs)?;
        Ok(SectionMerge { taken, ..SectionMerge::default() })
    }

    /// Merges by key. A missing section counts as empty.
    fn map(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        versions: [Option<Section>; 3],
        rule: Rule,
    ) -> Result<SectionMerge> {
        let open = |section: Option<Section>| match section {
            Some(section) => Map::open(sink, &section.id),
            None => Ok(Map::new()),
        };
        let [base, ours, theirs] = versions;
        let (base, ours, theirs) = (open(base)?, open(ours)?, open(theirs)?);
        let mut merge = merge_maps(&base, &ours, &theirs, sink)?;
        let only = self.options.only;
        if !only.has_whole_section(name) {
            let is_wanted = |key: &Bytes| text_key(key).is_ok_and(|key| only.has(name, &key));
            merge.edits.retain(|key, _| is_wanted(key));
            merge.conflicts.retain(|conflict| is_wanted(&conflict.key));
        }
        let mut report = SectionMerge::default();
        let clashes = match facts(name).entries {
            EntryKind::Files => files::split_clashes(sink, &ours, &mut merge.edits)?,
            _ => Vec::new(),
        };
        for (key, item) in merge.edits {
            report.taken += 1;
            self.builder.set(sink, name, &text_key(&key)?, item)?;
        }
        for (key, theirs) in clashes {
            let versions = Versions { base: None, ours: None, theirs: Some(theirs) };
            let merged = MergedValue::Conflict { value: None, fields: Vec::new() };
            self.entry(sink, name, &text_key(&key)?, versions, merged, &mut report)?;
        }
        for MapConflict { key, base, ours, theirs } in merge.conflicts {
            let key = text_key(&key)?;
            match rule {
                Rule::Ours => {}
                Rule::Theirs => {
                    report.taken += 1;
                    self.builder.set(sink, name, &key, theirs)?;
                }
                Rule::Merge => {
                    let versions = Versions { base, ours, theirs };
                    let merged = value::merge(sink, name, &versions, self.options.labels)?;
                    self.entry(sink, name, &key, versions, merged, &mut report)?;
                }
            }
        }
        Ok(report)
    }

    /// Stores the merge result of an entry that both sides changed.
    fn entry(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        key: &str,
        versions: Versions,
        merged: MergedValue,
        report: &mut SectionMerge,
    ) -> Result<()> {
        match merged {
            MergedValue::Clean(item) => {
                report.combined += 1;
                self.builder.set(sink, name, key, Some(item))
            }
            MergedValue::Conflict { value, fields } => {
                report.conflicts += 1;
                let has_markers = value.is_some() && fields.is_empty();
                if value.is_some() {
                    self.builder.set(sink, name, key, value)?;
                }
                self.open(sink, &format!("{name}/{key}"), versions, fields, has_markers)
            }
        }
    }

    fn open(
        &mut self,
        sink: &mut dyn ObjectSink,
        path: &str,
        Versions { base, ours, theirs }: Versions,
        fields: Vec<String>,
        has_markers: bool,
    ) -> Result<()> {
        let kind = ConflictKind::of(base.is_some(), ours.is_some(), theirs.is_some());
        conflicts::open(sink, &mut self.builder, path, [base, ours, theirs])?;
        self.conflicts.push(Conflict { path: path.to_owned(), kind, fields, has_markers });
        Ok(())
    }

    fn blob(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        versions: [Option<Section>; 3],
        rule: Rule,
    ) -> Result<SectionMerge> {
        let mut report = SectionMerge::default();
        match rule {
            Rule::Ours => return Ok(report),
            Rule::Theirs => return self.take_section(sink, name, versions[2]),
            Rule::Merge => {}
        }
        let item =
            |section: Option<Section>| section.map(|section| blob_item(section.id, Bytes::new()));
        let [base, ours, theirs] = versions.map(item);
        let versions = Versions { base, ours, theirs };
        let place = |builder: &mut Builder, sink: &mut dyn ObjectSink, item: &Item| {
            builder.set_blob(sink, name, item.link.id)
        };
        match value::merge(sink, name, &versions, self.options.labels)? {
            MergedValue::Clean(item) => {
                report.combined += 1;
                place(&mut self.builder, sink, &item)?;
            }
            MergedValue::Conflict { value, fields } => {
                report.conflicts += 1;
                let has_markers = value.is_some() && fields.is_empty();
                if let Some(item) = value {
                    place(&mut self.builder, sink, &item)?;
                }
                self.open(sink, name, versions, fields, has_markers)?;
            }
        }
        Ok(report)
    }

    /// Merges a conversation that both sides changed. If the messages of both are wanted and one
    /// side removed the conversation, the other side wins.
    fn conversation(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        [base, ours, theirs]: [Option<Section>; 3],
    ) -> Result<SectionMerge> {
        let policy = self.options.messages;
        match policy {
            MessagePolicy::Ours => return Ok(SectionMerge::default()),
            MessagePolicy::Theirs => return self.take_section(sink, name, theirs),
            MessagePolicy::Append | MessagePolicy::Summary(_) => {}
        }
        let (Some(ours), Some(theirs)) = (ours, theirs) else {
            return match ours {
                None => self.take_section(sink, name, theirs),
                Some(_) => Ok(SectionMerge::default()),
            };
        };
        let list = List::open(sink, &ours.id)?;
        let (edits, taken) = if let MessagePolicy::Summary(text) = policy {
            let item = summary(sink, text, self.options.labels.theirs)?;
            let reading = self.conversation_inputs(sink);
            let at = messages::end(reading, &list)?;
            (vec![(at..at, vec![item])], 1)
        } else {
            let base = match base {
                Some(base) => List::open(sink, &base.id)?,
                None => List::new(),
            };
            let mut also = Vec::new();
            for context in self.options.also {
                let section = context.section(sink, name)?;
                if let Some(section) = section.filter(|section| section.shape == Shape::List) {
                    also.push(List::open(sink, &section.id)?);
                }
            }
            let added = self.options.added;
            let own = (&list, added(MergeSide::Ours, name)?);
            let theirs = List::open(sink, &theirs.id)?;
            let other = (&theirs, added(MergeSide::Theirs, name)?);
            messages::append(self.conversation_inputs(sink), &base, &also, own, other)?
        };
        for (range, items) in edits {
            self.builder.splice(sink, name, range, items)?;
        }
        Ok(SectionMerge { taken, ..SectionMerge::default() })
    }

    fn conversation_inputs<'s>(&'s self, source: &'s dyn ObjectSource) -> ConversationInputs<'s> {
        ConversationInputs { source, tools: self.options.tools, origin: self.options.labels.theirs }
    }

    fn list(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        versions: [Option<Section>; 3],
    ) -> Result<SectionMerge> {
        let open = |section: Option<Section>| match section {
            Some(section) => List::open(sink, &section.id),
            None => Ok(List::new()),
        };
        let [base, ours, theirs] = versions.map(open);
        let Some((edits, taken)) = list::merge(sink, &base?, &ours?, &theirs?)? else {
            return self.section_conflict(sink, name, versions);
        };
        for (range, items) in edits {
            self.builder.splice(sink, name, range, items)?;
        }
        Ok(SectionMerge { taken, ..SectionMerge::default() })
    }

    /// Opens a conflict about a whole section, which stays as in ours.
    fn section_conflict(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        versions: [Option<Section>; 3],
    ) -> Result<SectionMerge> {
        conflicts::open_section(sink, &mut self.builder, &self.ours, name, versions)?;
        let [base, ours, theirs] = versions.map(|section| section.is_some());
        self.conflicts.push(Conflict {
            path: name.to_owned(),
            kind: ConflictKind::of(base, ours, theirs),
            fields: Vec::new(),
            has_markers: false,
        });
        Ok(SectionMerge { conflicts: 1, ..SectionMerge::default() })
    }
}

/// Returns a message that summarizes theirs.
fn summary(sink: &mut dyn ObjectSink, text: &str, origin: &str) -> Result<Item> {
    let record = serde_json::json!({"role": "user", "content": text});
    let blob = sink.write(Kind::Blob, record.to_string().into())?;
    let mut entry = MessageEntry::new(blob, Role::User, "json");
    entry.origin = Some(origin.to_owned());
    entry.to_item()
}
