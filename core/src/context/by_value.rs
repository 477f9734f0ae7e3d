//! Differences by value: compares the JSON values of entries, not their formatting.
//!
//! A client that reads and rewrites its messages changes spaces, escapes and the order of members,
//! and thereby every id. This module only serves display; ids depend on bytes, and merges, exports
//! and collections compare ids.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::diff::{SectionDiff, diff_section_with};
use super::sections::{EntryKind, facts};
use super::{Context, ContextDiff, SectionChange, changed_sections};
use crate::error::{ErrorKind, Result};
use crate::object::{ID_BYTES, Kind, ObjectId, ObjectSource};
use crate::tree::{Item, List, diff_lists};

/// Returns true for a section that is compared by bytes: files, and the pieces of a transcript.
fn is_compared_by_bytes(section: &str) -> bool {
    matches!(facts(section).entries, EntryKind::Files | EntryKind::Transcript)
}

/// Members that identify a record, in order of precedence.
const IDS: [&str; 2] = ["uuid", "id"];

/// The value of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EntryValue {
    /// A digest of its JSON value and its meta; of its id if it is not JSON.
    value: [u8; ID_BYTES],
    /// The id in the record.
    id: Option<String>,
}

/// Compares `old` with `new` as [`diff`](super::diff) does, but entries with equal values count as
/// unchanged, and messages with the same id as changed, in any position of a gap. Files are
/// compared by bytes. Reads the replaced entries.
///
/// # Errors
/// Errors of reading.
pub fn diff_by_value(
    source: &dyn ObjectSource,
    old: &Context,
    new: &Context,
) -> Result<ContextDiff> {
    diff_by_value_but(source, old, new, &|_| false)
}

/// Compares like [`diff_by_value`], but lists no changes of differing sections for which `skips`
/// returns true, which saves reading them.
///
/// # Errors
/// Errors of reading.
pub fn diff_by_value_but(
    source: &dyn ObjectSource,
    old: &Context,
    new: &Context,
    skips: &dyn Fn(&str) -> bool,
) -> Result<ContextDiff> {
    let (old, new) = (old.sections(source)?, new.sections(source)?);
    let mut changed = ContextDiff::new();
    for (name, old, new) in changed_sections(&old, &new) {
        if skips(name) {
            changed.insert(name.to_owned(), SectionDiff::default());
            continue;
        }
        let mut changes =
            diff_section_with(
                source,
                old,
                new,
                &mut |old, new, changes| match is_compared_by_bytes(name) {
                    true => super::diff::diff_lists_of(source, old, new, changes),
                    false => list_changes(source, old, new, changes),
                },
            )?;
        if !is_compared_by_bytes(name) {
            let mut kept = Vec::with_capacity(changes.len());
            for change in changes {
                let same = match (&change.old, &change.new) {
                    (Some(old), Some(new)) => has_equal_value(source, old, new)?,
                    _ => false,
                };
                if !same {
                    kept.push(change);
                }
            }
            changes = kept;
        }
        if !changes.is_empty() {
            changed.insert(name.to_owned(), SectionDiff { changes });
        }
    }
    Ok(changed)
}

/// Returns, for two lists, the positions of items with equal values inside of the changes of
/// [`diff_lists`], old and new, both rising.
///
/// # Errors
/// Errors of reading.
pub(crate) fn equal_positions(
    source: &dyn ObjectSource,
    old: &List,
    new: &List,
) -> Result<Vec<(u64, u64)>> {
    let mut same = Vec::new();
    for change in diff_lists(old, new, source)? {
        let before = read_values(source, old, change.old.clone(), change.new.is_empty())?;
        let after = read_values(source, new, change.new.clone(), change.old.is_empty())?;
        let values = |entries: &[(Item, EntryValue)]| -> Vec<_> {
            entries.iter().map(|(_, meaning)| Some(meaning.value)).collect()
        };
        let found = aligned(&values(&before), &values(&after));
        let place = |(a, b)| (change.old.start + a as u64, change.new.start + b as u64);
        same.extend(found.into_iter().map(place));
    }
    Ok(same)
}

/// Adds the changes of a list whose items are compared by value.
fn list_changes(
    source: &dyn ObjectSource,
    old: &List,
    new: &List,
    changes: &mut Vec<SectionChange>,
) -> Result<()> {
    for change in diff_lists(old, new, source)? {
        let before = read_values(source, old, change.old.clone(), change.new.is_empty())?;
        let after = read_values(source, new, change.new.clone(), change.old.is_empty())?;
        let keys = |entries: &[(Item, EntryValue)], of: fn(&EntryValue) -> Option<Key>| -> Vec<_> {
            entries.iter().map(|(_, meaning)| of(meaning)).collect()
        };
        let value = |meaning: &EntryValue| Some(Key::Value(meaning.value));
        let id = |meaning: &EntryValue| meaning.id.clone().map(Key::Id);
        let same = aligned(&keys(&before, value), &keys(&after, value));
        let mut at = (0, 0);
        for (a, b) in same.into_iter().chain([(before.len(), after.len())]) {
            let (old_part, new_part) = (part(&before, at.0, a), part(&after, at.1, b));
            let named = aligned(&keys(old_part, id), &keys(new_part, id));
            let ends = (old_part.len(), new_part.len());
            let mut from = (0, 0);
            for (old_at, new_at) in named.into_iter().chain([ends]) {
                let is_end = (old_at, new_at) == ends;
                let old_end = old_at + usize::from(!is_end);
                let new_end = new_at + usize::from(!is_end);
                // First the entries before a message with the same id, then that message.
                for (old_range, new_range) in
                    [(from.0..old_at, from.1..new_at), (old_at..old_end, new_at..new_end)]
                {
                    let old_items = part(old_part, old_range.start, old_range.end);
                    let new_items = part(new_part, new_range.start, new_range.end);
                    for offset in 0..old_items.len().max(new_items.len()) {
                        let item = |items: &[(Item, EntryValue)]| {
                            items.get(offset).map(|(item, _)| item.clone())
                        };
                        let (old, new) = (item(old_items), item(new_items));
                        let index = match new.is_some() {
                            true => change.new.start + (at.1 + new_range.start + offset) as u64,
                            false => change.old.start + (at.0 + old_range.start + offset) as u64,
                        };
                        changes.push(SectionChange { key: index.to_string(), old, new });
                    }
                }
                from = (old_end, new_end);
            }
            at = (a + 1, b + 1);
        }
    }
    Ok(())
}

/// The key by which entries are matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Value([u8; ID_BYTES]),
    Id(String),
}

fn part<T>(items: &[T], from: usize, to: usize) -> &[T] {
    items.get(from..to).unwrap_or_default()
}

/// Returns the items of a range with their values. Does not read them if there is nothing to match.
fn read_values(
    source: &dyn ObjectSource,
    list: &List,
    range: std::ops::Range<u64>,
    is_alone: bool,
) -> Result<Vec<(Item, EntryValue)>> {
    let mut found = Vec::new();
    for item in list.iter(source, range) {
        let item = item?;
        let meaning = match is_alone {
            true => EntryValue { value: *item.link.id.as_bytes(), id: None },
            false => read_value(source, &item)?,
        };
        found.push((item, meaning));
    }
    Ok(found)
}

/// Returns true if two entries have equal values.
///
/// # Errors
/// Errors of reading.
pub(crate) fn has_equal_value(source: &dyn ObjectSource, old: &Item, new: &Item) -> Result<bool> {
    if old.link.kind != Kind::Blob || new.link.kind != Kind::Blob {
        return Ok(false);
    }
    Ok(read_value(source, old)?.value == read_value(source, new)?.value)
}

/// Returns the value of an entry. An entry whose content is missing or damaged is represented by
/// its id, so that a log does not stop at a lost blob.
fn read_value(source: &dyn ObjectSource, item: &Item) -> Result<EntryValue> {
    let own = || EntryValue { value: *item.link.id.as_bytes(), id: None };
    if item.link.kind != Kind::Blob {
        return Ok(own());
    }
    let bytes = match source.read_as(Kind::Blob, &item.link.id) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        Err(_) => return Ok(own()),
    };
    if !matches!(bytes.first(), Some(b'{' | b'[' | b' ' | b'\n' | b'\r' | b'\t')) {
        return Ok(own());
    }
    let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return Ok(own()) };
    let mut said = Vec::with_capacity(bytes.len());
    said.extend_from_slice(&item.meta);
    said.push(0);
    write_value(&value, &mut said);
    let id = IDS.iter().find_map(|name| Some(value.get(name)?.as_str()?.to_owned()));
    Ok(EntryValue { value: *ObjectId::of(Kind::Blob, &said).as_bytes(), id })
}

/// Writes a value in canonical form. The parser bounds its depth.
fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(values) => {
            out.push(b'[');
            for value in values {
                write_value(value, out);
                out.push(b',');
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            out.push(b'{');
            for name in names {
                out.extend(Value::from(name.as_str()).to_string().into_bytes());
                out.push(b':');
                write_value(members.get(name).unwrap_or(&Value::Null), out);
                out.push(b',');
            }
            out.push(b'}');
        }
        other => out.extend(other.to_string().into_bytes()),
    }
}

/// Returns the positions of entries with equal keys, in the longest common order; empty if no key
/// is shared. Entries without a key match none.
fn aligned<K: Eq + std::hash::Hash>(old: &[Option<K>], new: &[Option<K>]) -> Vec<(usize, usize)> {
    let known: HashSet<&K> = old.iter().flatten().collect();
    let shared: HashSet<&K> = new.iter().flatten().filter(|key| known.contains(key)).collect();
    if shared.is_empty() {
        return Vec::new();
    }
    let sequence = |side: &[Option<K>]| -> Vec<usize> {
        let shared = |key: &Option<K>| key.as_ref().is_some_and(|key| shared.contains(key));
        (0..side.len()).filter(|at| side.get(*at).is_some_and(shared)).collect()
    };
    let (old_at, new_at) = (sequence(old), sequence(new));
    let mut numbers: HashMap<&K, usize> = HashMap::new();
    for (at, side) in old_at.iter().map(|at| (at, old)).chain(new_at.iter().map(|at| (at, new))) {
        if let Some(Some(key)) = side.get(*at) {
            let next = numbers.len();
            numbers.entry(key).or_insert(next);
        }
    }
    let numbered = |places: &[usize], side: &[Option<K>]| -> Vec<usize> {
        let key = |at: &usize| side.get(*at).and_then(Option::as_ref);
        places.iter().filter_map(|at| numbers.get(key(at)?).copied()).collect()
    };
    let mut found = Vec::new();
    let (a, b) = (numbered(&old_at, old), numbered(&new_at, new));
    for change in capture_diff_slices(Algorithm::Myers, &a, &b) {
        let DiffOp::Equal { old_index, new_index, len } = change else { continue };
        let pairs = old_at.iter().skip(old_index).zip(new_at.iter().skip(new_index)).take(len);
        found.extend(pairs.map(|(a, b)| (*a, *b)));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::context::{Builder, MessageEntry, Role};
    use crate::object::{Memory, ObjectSink};

    fn context(objects: &mut Memory, messages: &[&str], note: &str) -> Context {
        let mut builder = Builder::new();
        for message in messages {
            let blob = objects.write(Kind::Blob, message.to_string().into()).unwrap();
            let entry = MessageEntry::new(blob, Role::User, "json");
            builder.push_message(objects, "main", &entry).unwrap();
        }
        builder.set_entry(objects, "scratchpad", "note", Some(note.to_owned().into())).unwrap();
        builder
            .set_file(
                objects,
                "a.json",
                Some((crate::context::FileMode::Regular, note.to_owned().into())),
            )
            .unwrap();
        let tree = builder.write(objects).unwrap();
        Context::open(objects, &tree).unwrap()
    }

    /// Returns the changed messages: `-` for removed ones, `+` for added ones, `*` for changed
    /// ones.
    fn told(old: &[&str], new: &[&str]) -> Vec<String> {
        let mut objects = Memory::new();
        let (old, new) = (context(&mut objects, old, "x"), context(&mut objects, new, "x"));
        let changed = diff_by_value(&objects, &old, &new).unwrap();
        let changes = changed.get("agents/main/messages").map(|diff| diff.changes.clone());
        let sign = |change: &SectionChange| match (&change.old, &change.new) {
            (Some(_), Some(_)) => "*",
            (Some(_), None) => "-",
            _ => "+",
        };
        let told = |change: SectionChange| format!("{}{}", sign(&change), change.key);
        changes.unwrap_or_default().into_iter().map(told).collect()
    }

    #[test]
    fn messages_that_are_printed_in_another_way_are_no_change() {
        let a = r#"{"role":"user","content":"é","n":1.50}"#;
        let b = r#"{"content": "\u00e9", "n": 1.5, "role": "user"}"#;
        let c = r#"{"role":"user","content":"c"}"#;
        let other = r#"{"role":"user","content":"e"}"#;
        assert_eq!(told(&[a], &[b]), Vec::<String>::new());
        assert_eq!(told(&[a, c], &[b, c, other]), ["+2"]);
        assert_eq!(told(&[a, c], &[other, b, " {\"role\":\"user\",\"content\":\"c\"}"]), ["+0"]);
        assert_eq!(told(&[a, c, a], &[b, b]), ["-1"]);
        assert_eq!(told(&[a], &[other]), ["*0"]);
        // Text that is not JSON is compared by its bytes, and array order counts.
        assert_eq!(told(&["hi"], &["hi "]), ["*0"]);
        assert_eq!(told(&["[1, 2]"], &["[2, 1]"]), ["*0"]);
        assert_eq!(told(&[r#"{"a":"1"}"#], &[r#"{"a":1}"#]), ["*0"]);
    }

    #[test]
    fn a_message_with_the_same_id_is_the_same_message_changed() {
        let said = |id: &str, text: &str| format!(r#"{{"id":"{id}","content":"{text}"}}"#);
        let (one, two, three) = (said("1", "a"), said("2", "b"), said("3", "c"));
        let grown = said("2", "b and more");
        assert_eq!(told(&[&one, &two], &[&grown]), ["-0", "*0"]);
        assert_eq!(told(&[&two], &[&one, &grown, &three]), ["+0", "*1", "+2"]);
    }

    /// Objects whose blobs are damaged.
    struct Damaged(Memory);

    impl ObjectSource for Damaged {
        fn read(&self, id: &ObjectId) -> Result<Option<crate::object::Object>> {
            match self.0.read(id)? {
                Some(object) if object.kind == Kind::Blob => {
                    Err(crate::Error::corrupt("a pack", id, "other bytes"))
                }
                read => Ok(read),
            }
        }

        fn contains(&self, id: &ObjectId) -> Result<bool> {
            self.0.contains(id)
        }
    }

    #[test]
    fn what_cannot_be_read_counts_by_its_id() {
        let mut objects = Memory::new();
        let old = context(&mut objects, &[r#"{"a":1}"#, r#"{"b":1}"#], "x");
        let new = context(&mut objects, &[r#"{ "a": 1 }"#, r#"{"b":1}"#], "x");
        assert!(diff_by_value(&objects, &old, &new).unwrap().is_empty());
        let changed = diff_by_value(&Damaged(objects), &old, &new).unwrap();
        assert_eq!(changed["agents/main/messages"].changes.len(), 1);
    }

    #[test]
    fn entries_count_by_what_they_say_and_files_by_their_bytes() {
        let mut objects = Memory::new();
        let old = context(&mut objects, &[], r#"{"a":1,"b":2}"#);
        let new = context(&mut objects, &[], r#"{ "b": 2, "a": 1 }"#);
        let changed = diff_by_value(&objects, &old, &new).unwrap();
        assert_eq!(changed.keys().collect::<Vec<_>>(), ["files"]);
        let same = diff_by_value(&objects, &old, &old).unwrap();
        assert!(same.is_empty());
    }

    #[test]
    fn a_section_that_is_skipped_is_told_as_changed_and_not_read() {
        let mut objects = Memory::new();
        let texts: Vec<String> = (0..2_000).map(|number| format!("{{\"a\":{number}}}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (old, new) =
            (context(&mut objects, &texts[..1], "x"), context(&mut objects, &texts, "x"));
        let reads = |skips: &dyn Fn(&str) -> bool| {
            let counting = Counting(&objects, AtomicUsize::new(0));
            let changed = diff_by_value_but(&counting, &old, &new, skips).unwrap();
            (changed["agents/main/messages"].changes.len(), counting.1.load(Ordering::Relaxed))
        };
        let (all, skipped) = (reads(&|_| false), reads(&|name| name == "agents/main/messages"));
        assert_eq!((all.0, skipped.0), (1_999, 0));
        assert!(skipped.1 < all.1, "{skipped:?} of {all:?}");
    }

    /// Objects, with the number of reads.
    struct Counting<'m>(&'m Memory, AtomicUsize);

    impl ObjectSource for Counting<'_> {
        fn read(&self, id: &ObjectId) -> Result<Option<crate::object::Object>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read(id)
        }

        fn contains(&self, id: &ObjectId) -> Result<bool> {
            self.0.contains(id)
        }
    }
}
