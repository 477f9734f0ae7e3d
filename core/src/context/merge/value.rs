//! Merges one entry that both sides changed: by field, by line, or as a conflict.

use bytes::Bytes;

use super::{Labels, fields, lessons, text};
use crate::context::entry::{FileEntry, FileMode, blob_item};
use crate::context::sections::{EntryKind, MergeRule, facts};
use crate::error::Result;
use crate::object::{Kind, ObjectSink};
use crate::tree::Item;

/// The meta of JSON values.
pub(super) const JSON: &[u8] = b"json";

/// The versions of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) base: Option<Item>,
    pub(super) ours: Option<Item>,
    pub(super) theirs: Option<Item>,
}

/// The merged value of an entry that both sides changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MergedValue {
    /// The value has both changes.
    Clean(Item),
    /// The changes are incompatible, in part or as a whole.
    Conflict {
        /// The value to store until then, if it is not the entry of ours.
        value: Option<Item>,
        /// The conflicting fields, if all others merged.
        fields: Vec<String>,
    },
}

impl MergedValue {
    fn conflict() -> Self {
        Self::Conflict { value: None, fields: Vec::new() }
    }
}

/// Merges an entry of a section.
///
/// # Errors
/// Errors of reading and writing blobs; `Corrupt` for an entry of `files` that is not a file.
pub(super) fn merge(
    sink: &mut dyn ObjectSink,
    section: &str,
    versions: &Versions,
    labels: Labels<'_>,
) -> Result<MergedValue> {
    let Versions { base, ours: Some(ours), theirs: Some(theirs) } = versions else {
        return Ok(MergedValue::conflict());
    };
    if facts(section).entries == EntryKind::Files {
        merge_files(sink, base.as_ref(), ours, theirs, labels)
    } else {
        merge_values(sink, section, base.as_ref(), ours, theirs, labels)
    }
}

/// Merges files: the content by line, the executable bit separately; a link is atomic.
fn merge_files(
    sink: &mut dyn ObjectSink,
    base: Option<&Item>,
    ours: &Item,
    theirs: &Item,
    labels: Labels<'_>,
) -> Result<MergedValue> {
    let old = base.map(FileEntry::from_item).transpose()?;
    let (own, other) = (FileEntry::from_item(ours)?, FileEntry::from_item(theirs)?);
    let is_link = |file: &FileEntry| file.mode == FileMode::Symlink;
    if is_link(&own) || is_link(&other) {
        return Ok(MergedValue::conflict());
    }
    // A link that both sides replaced by a file is no useful base.
    let old = old.filter(|old| !is_link(old));
    let mode = match &old {
        Some(old) if old.mode == own.mode => other.mode,
        _ => own.mode,
    };
    let file = |content: Bytes, sink: &mut dyn ObjectSink| -> Result<Item> {
        let size = content.len() as u64;
        Ok(FileEntry { blob: sink.write(Kind::Blob, content)?, mode, size }.to_item())
    };
    if own.blob == other.blob || old.as_ref().is_some_and(|old| old.blob == other.blob) {
        return Ok(MergedValue::Clean(FileEntry { mode, ..own }.to_item()));
    }
    if old.as_ref().is_some_and(|old| old.blob == own.blob) {
        return Ok(MergedValue::Clean(FileEntry { mode, ..other }.to_item()));
    }
    let is_large = |file: &FileEntry| file.size > text::MAX_MERGED_BYTES as u64;
    if is_large(&own) || is_large(&other) || old.as_ref().is_some_and(is_large) {
        return Ok(MergedValue::conflict());
    }
    let old = match &old {
        Some(old) => sink.read_as(Kind::Blob, &old.blob)?,
        None => Bytes::new(),
    };
    let own = sink.read_as(Kind::Blob, &own.blob)?;
    let other = sink.read_as(Kind::Blob, &other.blob)?;
    match merge_by_lines(&old, &own, &other, labels) {
        None => Ok(MergedValue::conflict()),
        Some((text, 0)) => Ok(MergedValue::Clean(file(text, sink)?)),
        Some((text, _)) => {
            Ok(MergedValue::Conflict { value: Some(file(text, sink)?), fields: Vec::new() })
        }
    }
}

/// Merges entries of other maps: JSON objects by field, text by line.
fn merge_values(
    sink: &mut dyn ObjectSink,
    section: &str,
    base: Option<&Item>,
    ours: &Item,
    theirs: &Item,
    labels: Labels<'_>,
) -> Result<MergedValue> {
    let kinds = [base.unwrap_or(ours), ours, theirs].map(|item| item.link.kind);
    let meta = if ours.meta == theirs.meta || base.is_some_and(|base| base.meta == theirs.meta) {
        ours.meta.clone()
    } else if base.is_some_and(|base| base.meta == ours.meta) {
        theirs.meta.clone()
    } else {
        return Ok(MergedValue::conflict());
    };
    if kinds != [Kind::Blob; 3] {
        return Ok(MergedValue::conflict());
    }
    if ours.link == theirs.link || base.is_some_and(|base| base.link == theirs.link) {
        return Ok(MergedValue::Clean(Item { link: ours.link, meta }));
    }
    if base.is_some_and(|base| base.link == ours.link) {
        return Ok(MergedValue::Clean(Item { link: theirs.link, meta }));
    }
    let old = base.map(|base| sink.read_as(Kind::Blob, &base.link.id)).transpose()?;
    let own = sink.read_as(Kind::Blob, &ours.link.id)?;
    let other = sink.read_as(Kind::Blob, &theirs.link.id)?;
    if let Some(merged) = merge_by_fields(section, old.as_deref(), &own, &other) {
        let item = blob_item(sink.write(Kind::Blob, merged.json.into())?, meta);
        return Ok(match merged.conflicts {
            fields if fields.is_empty() => MergedValue::Clean(item),
            fields => MergedValue::Conflict { value: Some(item), fields },
        });
    }
    // Markers between lines would break other JSON.
    let is_json = [base, Some(ours), Some(theirs)].iter().flatten().any(|item| item.meta == JSON);
    if is_json {
        return Ok(MergedValue::conflict());
    }
    Ok(match merge_by_lines(&old.unwrap_or_default(), &own, &other, labels) {
        None => MergedValue::conflict(),
        Some((text, conflicts)) => {
            let item = blob_item(sink.write(Kind::Blob, text)?, meta);
            match conflicts {
                0 => MergedValue::Clean(item),
                _ => MergedValue::Conflict { value: Some(item), fields: Vec::new() },
            }
        }
    })
}

fn merge_by_fields(
    section: &str,
    old: Option<&[u8]>,
    own: &[u8],
    other: &[u8],
) -> Option<fields::MergedFields> {
    let old = match old {
        Some(old) => Some(text::as_text(old)?),
        None => None,
    };
    let (own, other) = (text::as_text(own)?, text::as_text(other)?);
    let decided = match facts(section).merge {
        MergeRule::Lessons => lessons::merge_counts(old, own, other),
        _ => Vec::new(),
    };
    fields::merge(old, own, other, &decided)
}

fn merge_by_lines(
    old: &[u8],
    own: &[u8],
    other: &[u8],
    labels: Labels<'_>,
) -> Option<(Bytes, usize)> {
    let merged =
        text::merge(text::as_text(old)?, text::as_text(own)?, text::as_text(other)?, labels);
    Some((merged.text.into(), merged.conflicts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Memory, ObjectSource};

    const LABELS: Labels<'static> = Labels { ours: "main", theirs: "plan-b" };

    fn blob(objects: &mut Memory, text: &str) -> crate::object::ObjectId {
        objects.write(Kind::Blob, Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn file(objects: &mut Memory, text: &str, mode: FileMode) -> Option<Item> {
        let size = text.len() as u64;
        Some(FileEntry { blob: blob(objects, text), mode, size }.to_item())
    }

    fn read(objects: &Memory, item: &Item) -> Bytes {
        objects.read_as(Kind::Blob, &item.link.id).unwrap()
    }

    #[test]
    fn content_and_executable_bit_of_a_file_are_merged_apart() {
        let mut objects = Memory::new();
        let (regular, executable) = (FileMode::Regular, FileMode::Executable);
        let base = file(&mut objects, "a\nb\nc\n", regular);
        let ours = file(&mut objects, "A\nb\nc\n", regular);
        for theirs in ["a\nb\nc\n", "a\nb\nC\n"] {
            let theirs = file(&mut objects, theirs, executable);
            let versions = Versions { base: base.clone(), ours: ours.clone(), theirs };
            let merged = merge(&mut objects, "files", &versions, LABELS).unwrap();
            let MergedValue::Clean(item) = merged else { panic!("{merged:?}") };
            let entry = FileEntry::from_item(&item).unwrap();
            assert_eq!((entry.mode, entry.size), (executable, 6));
            assert!(read(&objects, &item).starts_with(b"A\nb\n"));
        }
    }

    #[test]
    fn links_and_what_one_side_removed_are_one_value() {
        let mut objects = Memory::new();
        let base = file(&mut objects, "a\n", FileMode::Regular);
        let ours = file(&mut objects, "b\n", FileMode::Regular);
        let link = file(&mut objects, "c", FileMode::Symlink);
        for theirs in [link, None] {
            let versions = Versions { base: base.clone(), ours: ours.clone(), theirs };
            let merged = merge(&mut objects, "files", &versions, LABELS).unwrap();
            assert_eq!(merged, MergedValue::conflict());
        }
    }

    #[test]
    fn values_are_merged_by_what_they_are() {
        let mut objects = Memory::new();
        let mut merged = |meta: &'static str, [base, ours, theirs]: [&str; 3]| {
            let mut item = |text: &str| Some(blob_item(blob(&mut objects, text), meta));
            let versions = Versions { base: item(base), ours: item(ours), theirs: item(theirs) };
            match merge(&mut objects, "memory", &versions, LABELS).unwrap() {
                MergedValue::Clean(item) => {
                    (String::from_utf8_lossy(&read(&objects, &item)).into(), 0)
                }
                MergedValue::Conflict { value: Some(item), .. } => {
                    (String::from_utf8_lossy(&read(&objects, &item)).into(), 1)
                }
                MergedValue::Conflict { value: None, .. } => (String::new(), 1),
            }
        };
        let objects_of_json = [r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":1,"b":1}"#];
        assert_eq!(merged("json", objects_of_json), (r#"{"a":2, "b":1}"#.to_owned(), 0));
        assert_eq!(merged("", objects_of_json), (r#"{"a":2, "b":1}"#.to_owned(), 0));
        assert_eq!(merged("json", ["[1]", "[2]", "[3]"]), (String::new(), 1));
        assert_eq!(merged("", ["a\nb\nc", "A\nb\nc", "a\nb\nC"]), ("A\nb\nC".to_owned(), 0));
        assert_eq!(merged("", ["a\0", "b\0", "c\0"]), (String::new(), 1));
        let (text, conflicts) = merged("", ["a", "b", "c"]);
        assert!(text.contains(">>>>>>> plan-b") && conflicts == 1, "{text}");
    }
}
