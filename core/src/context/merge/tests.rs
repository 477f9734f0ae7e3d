//! Merges of whole contexts, and properties of merged conversations.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::context::sections::CONFLICTS;
use crate::context::{FileEntry, FileMode, MessageEntry, Role, Selection, Shape};
use crate::error::ErrorKind;
use crate::object::{Kind, Memory, ObjectSource};

const MESSAGES: &str = "agents/main/messages";

/// Returns calls and results in the records of these tests: `{"n": 7, "calls": ["a"], "results":
/// []}`.
fn tools(_: &MessageEntry, bytes: &[u8]) -> ToolUse {
    let record: Value = serde_json::from_slice(bytes).unwrap();
    let ids = |name: &str| {
        let ids = record[name].as_array().into_iter().flatten();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    ToolUse { calls: ids("calls"), results: ids("results") }
}

fn no_times(_: MergeSide, _: &str) -> Result<Vec<Added>> {
    Ok(Vec::new())
}

fn options<'a>(messages: &'a MessagePolicy, only: &'a Selection) -> MergeOptions<'a> {
    let labels = Labels { ours: "main", theirs: "plan-b" };
    MergeOptions { labels, messages, only, tools: &tools, added: &no_times, also: &[] }
}

/// Returns a context after a change.
fn changed(
    objects: &mut Memory,
    from: &Context,
    change: impl FnOnce(&mut Memory, &mut Builder),
) -> Context {
    let mut builder = Builder::from(from.clone());
    change(objects, &mut builder);
    let tree = builder.write(objects).unwrap();
    Context::open(objects, &tree).unwrap()
}

fn with(objects: &mut Memory, from: &Context, entries: &[(&str, &str, Option<&str>)]) -> Context {
    changed(objects, from, |objects, builder| {
        for (section, key, value) in entries {
            let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
            if *section == "files" {
                let file = value.map(|value| (FileMode::Regular, value));
                builder.set_file(objects, key, file).unwrap();
            } else {
                builder.set_entry(objects, section, key, value).unwrap();
            }
        }
    })
}

fn read(objects: &Memory, context: &Context, path: &str) -> Option<String> {
    let item = match context.lookup(objects, path) {
        Ok(crate::context::PathTarget::Entry(item)) => item,
        Ok(_) => return None,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            return None;
        }
    };
    let bytes = objects.read_as(Kind::Blob, &item.link.id).unwrap();
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

fn merged(
    objects: &mut Memory,
    [base, ours, theirs]: [&Context; 3],
    only: &[&str],
) -> (Context, ContextMerge) {
    let only: Vec<String> = only.iter().map(|path| (*path).to_owned()).collect();
    let only = Selection::below(&only);
    let policy = MessagePolicy::Append;
    let merge = merge(objects, base, ours, theirs, options(&policy, &only)).unwrap();
    (Context::open(objects, &merge.tree).unwrap(), merge)
}

fn paths(merge: &ContextMerge) -> Vec<(&str, ConflictKind)> {
    merge.conflicts.iter().map(|conflict| (conflict.path.as_str(), conflict.kind)).collect()
}

#[test]
fn sections_are_merged_by_what_they_hold() {
    let mut objects = Memory::new();
    let base = with(
        &mut objects,
        &Context::default(),
        &[
            ("scratchpad", "plan", Some("one\ntwo\nthree\n")),
            ("memory", "fact", Some(r#"{"a": 1, "b": 1}"#)),
            ("meta", "model", Some("m1")),
            ("agents/main/state", "mode", Some("plan")),
        ],
    );
    let ours = with(
        &mut objects,
        &base,
        &[
            ("scratchpad", "plan", Some("ONE\ntwo\nthree\n")),
            ("memory", "fact", Some(r#"{"a": 2, "b": 1}"#)),
            ("meta", "model", Some("m2")),
            ("agents/main/state", "mode", Some("act")),
            ("agents/main/reads", "a.rs", Some("1")),
        ],
    );
    let theirs = with(
        &mut objects,
        &base,
        &[
            ("scratchpad", "plan", Some("one\ntwo\nTHREE\n")),
            ("memory", "fact", Some(r#"{"a": 1, "b": 2}"#)),
            ("meta", "model", Some("m3")),
            ("meta", "cwd", Some("here")),
            ("agents/main/state", "mode", Some("ask")),
            ("agents/main/reads", "b.rs", Some("2")),
            ("lessons", "first", Some("test more")),
        ],
    );
    let (context, merge) = merged(&mut objects, [&base, &ours, &theirs], &[]);
    for (path, expected) in [
        ("scratchpad/plan", "ONE\ntwo\nTHREE\n"),
        ("memory/fact", r#"{"a": 2, "b": 2}"#),
        ("meta/model", "m2"),
        ("meta/cwd", "here"),
        ("agents/main/state/mode", "act"),
        ("agents/main/reads/a.rs", "1"),
        ("agents/main/reads/b.rs", "2"),
        ("lessons/first", "test more"),
    ] {
        assert_eq!(read(&objects, &context, path).as_deref(), Some(expected), "{path}");
    }
    assert!(merge.conflicts.is_empty());
    assert_eq!(context.section(&objects, CONFLICTS).unwrap(), None);
    assert_eq!(merge.sections["scratchpad"].combined, 1);
    assert_eq!(merge.sections["lessons"].taken, 1);
}

#[test]
fn a_conflict_is_a_value_that_can_be_decided() {
    let mut objects = Memory::new();
    let base = with(
        &mut objects,
        &Context::default(),
        &[("files", "a", Some("one\n")), ("files", "gone", Some("x\n")), ("vfs", "v", Some("\0"))],
    );
    let ours = with(
        &mut objects,
        &base,
        &[("files", "a", Some("ours\n")), ("files", "gone", None), ("vfs", "v", Some("\0o"))],
    );
    let theirs = with(
        &mut objects,
        &base,
        &[
            ("files", "a", Some("theirs\n")),
            ("files", "gone", Some("y\n")),
            ("vfs", "v", Some("\0t")),
            ("files", "new", Some("n")),
        ],
    );
    let (context, merge) = merged(&mut objects, [&base, &ours, &theirs], &[]);
    let expected = [
        ("files/a", ConflictKind::BothChanged),
        ("files/gone", ConflictKind::RemovedInOurs),
        ("vfs/v", ConflictKind::BothChanged),
    ];
    assert_eq!(paths(&merge), expected);
    let markers = "<<<<<<< main\nours\n=======\ntheirs\n>>>>>>> plan-b\n";
    for (path, expected) in [
        ("files/a", Some(markers)),
        ("files/gone", None),
        ("files/new", Some("n")),
        ("vfs/v", Some("\0o")),
        ("conflicts/base/files/a", Some("one\n")),
        ("conflicts/ours/files/a", Some("ours\n")),
        ("conflicts/theirs/files/a", Some("theirs\n")),
        ("conflicts/ours/files/gone", None),
        ("conflicts/theirs/files/gone", Some("y\n")),
    ] {
        assert_eq!(read(&objects, &context, path).as_deref(), expected, "{path}");
    }
    let open = open_conflicts(&objects, &context).unwrap();
    let found: Vec<_> = open.iter().map(|c| (c.path.as_str(), c.kind)).collect();
    assert_eq!(found, expected);

    let mut builder = Builder::from(context.clone());
    let takes = [
        Take::Content("mine\n".into()),
        Take::Version(MergeSide::Theirs),
        Take::Version(MergeSide::Base),
    ];
    let mut last = None;
    for (conflict, take) in open.iter().zip(&takes) {
        assert!(last.is_none(), "the section stays as long as a conflict is in it");
        resolve(&mut objects, &mut builder, &context, conflict, take).unwrap();
        let tree = write(&mut objects, &mut builder).unwrap();
        let context = Context::open(&objects, &tree).unwrap();
        last = context.section(&objects, CONFLICTS).unwrap().is_none().then_some(context);
    }
    let context = last.expect("the section goes with the last conflict");
    for (path, expected) in [("files/a", "mine\n"), ("files/gone", "y\n"), ("vfs/v", "\0")] {
        assert_eq!(read(&objects, &context, path).as_deref(), Some(expected), "{path}");
    }
    let file = context.map(&objects, "files").unwrap().get(&objects, b"a").unwrap().unwrap();
    assert_eq!(FileEntry::from_item(&file).unwrap().size, 5);
}

#[test]
fn a_file_and_a_folder_of_one_name_are_a_conflict() {
    let mut objects = Memory::new();
    let base = with(&mut objects, &Context::default(), &[("files", "old", Some("x"))]);
    let ours =
        with(&mut objects, &base, &[("files", "a", Some("file")), ("files", "b/c", Some("1"))]);
    let theirs =
        with(&mut objects, &base, &[("files", "a/b", Some("below")), ("files", "b", Some("2"))]);
    let (context, merge) = merged(&mut objects, [&base, &ours, &theirs], &[]);
    let expected = [("files/a/b", ConflictKind::InTheWay), ("files/b", ConflictKind::InTheWay)];
    assert_eq!(paths(&merge), expected);
    assert_eq!(read(&objects, &context, "files/a").as_deref(), Some("file"));
    assert_eq!(read(&objects, &context, "files/a/b"), None);
    assert_eq!(read(&objects, &context, "conflicts/theirs/files/a/b").as_deref(), Some("below"));

    let mut builder = Builder::from(context.clone());
    for conflict in open_conflicts(&objects, &context).unwrap() {
        let take = Take::Version(MergeSide::Theirs);
        let removed = resolve(&mut objects, &mut builder, &context, &conflict, &take).unwrap();
        assert_eq!(removed.len(), 1);
    }
    let tree = write(&mut objects, &mut builder).unwrap();
    let context = Context::open(&objects, &tree).unwrap();
    assert_eq!(read(&objects, &context, "files/a"), None);
    assert_eq!(read(&objects, &context, "files/a/b").as_deref(), Some("below"));
    assert_eq!(read(&objects, &context, "files/b").as_deref(), Some("2"));
}

#[test]
fn only_what_is_wanted_comes_in() {
    let mut objects = Memory::new();
    let base = Context::default();
    let ours = with(&mut objects, &base, &[("scratchpad", "o", Some("1"))]);
    let theirs = with(
        &mut objects,
        &base,
        &[
            ("scratchpad", "t", Some("1")),
            ("files", "src/a", Some("1")),
            ("files", "doc/b", Some("1")),
            ("memory", "m", Some("1")),
        ],
    );
    let only = ["files/src", "scratchpad"];
    let (context, merge) = merged(&mut objects, [&base, &ours, &theirs], &only);
    for (path, is_there) in [
        ("scratchpad/o", true),
        ("scratchpad/t", true),
        ("files/src/a", true),
        ("files/doc/b", false),
        ("memory/m", false),
    ] {
        assert_eq!(read(&objects, &context, path).is_some(), is_there, "{path}");
    }
    assert_eq!(merge.sections.keys().collect::<Vec<_>>(), ["files", "scratchpad"]);
    let policy = MessagePolicy::Append;
    let only = Selection::below(&["goals".to_owned()]);
    let refused = super::merge(&mut objects, &base, &ours, &theirs, options(&policy, &only));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn open_conflicts_go_along_until_somebody_closes_them() {
    let mut objects = Memory::new();
    let versions = |text| [("vfs", "v", Some(text)), ("vfs", "w", Some(text))];
    let base = with(&mut objects, &Context::default(), &versions("\0"));
    let ours = with(&mut objects, &base, &versions("\0o"));
    let theirs = with(&mut objects, &base, &versions("\0t"));
    let (open, _) = merged(&mut objects, [&base, &ours, &theirs], &[]);
    // Merge into a branch without conflicts.
    let (carried, merge) = merged(&mut objects, [&ours, &ours, &open], &[]);
    assert!(merge.conflicts.is_empty());
    assert_eq!(open_conflicts(&objects, &carried).unwrap().len(), 2);
    // Each side closed a different one.
    let closed = |objects: &mut Memory, number: usize| {
        let conflict = open_conflicts(objects, &open).unwrap().remove(number);
        let mut builder = Builder::from(open.clone());
        resolve(objects, &mut builder, &open, &conflict, &Take::Current).unwrap();
        let tree = write(objects, &mut builder).unwrap();
        Context::open(objects, &tree).unwrap()
    };
    let (ours, theirs) = (closed(&mut objects, 0), closed(&mut objects, 1));
    let (context, _) = merged(&mut objects, [&open, &ours, &theirs], &[]);
    assert_eq!(open_conflicts(&objects, &context).unwrap(), []);
    assert_eq!(context.section(&objects, CONFLICTS).unwrap(), None);
}

#[test]
fn lists_grow_by_what_both_added_and_conflict_where_both_changed_an_item() {
    let mut objects = Memory::new();
    let list = |objects: &mut Memory, items: &[&str]| {
        changed(objects, &Context::default(), |objects, builder| {
            let items = items.iter().map(|text| {
                let blob = objects.write(Kind::Blob, Bytes::copy_from_slice(text.as_bytes()));
                Item::new(Kind::Blob, blob.unwrap())
            });
            let items = items.collect();
            builder.set_list(objects, "reasoning", items).unwrap();
        })
    };
    let items = |objects: &Memory, context: &Context| -> Vec<String> {
        let list = context.list(objects, "reasoning").unwrap();
        (0..list.len())
            .map(|at| read(objects, context, &format!("reasoning/{at}")).unwrap())
            .collect()
    };
    let base = list(&mut objects, &["a", "b"]);
    let ours = list(&mut objects, &["a", "b", "same", "o"]);
    let theirs = list(&mut objects, &["A", "b", "same", "t"]);
    let (context, merge) = merged(&mut objects, [&base, &ours, &theirs], &[]);
    assert!(merge.conflicts.is_empty());
    assert_eq!(items(&objects, &context), ["A", "b", "same", "o", "t"]);

    let ours = list(&mut objects, &["O", "b"]);
    let (context, merge) = merged(&mut objects, [&base, &ours, &theirs], &[]);
    assert_eq!(paths(&merge), [("reasoning", ConflictKind::BothChanged)]);
    assert_eq!(items(&objects, &context), ["O", "b"]);
    let conflict = open_conflicts(&objects, &context).unwrap().remove(0);
    assert_eq!(conflict.path, "reasoning");
    let mut builder = Builder::from(context.clone());
    let take = Take::Version(MergeSide::Theirs);
    resolve(&mut objects, &mut builder, &context, &conflict, &take).unwrap();
    let tree = write(&mut objects, &mut builder).unwrap();
    let context = Context::open(&objects, &tree).unwrap();
    assert_eq!(items(&objects, &context), ["A", "b", "same", "t"]);
    assert_eq!(context.section(&objects, CONFLICTS).unwrap(), None);
}

#[test]
fn a_section_of_another_shape_is_a_conflict_of_its_own() {
    let mut objects = Memory::new();
    let base = Context::default();
    let ours = with(&mut objects, &base, &[("note", "k", Some("1"))]);
    let theirs = changed(&mut objects, &base, |objects, builder| {
        let blob = objects.write(Kind::Blob, "2".into()).unwrap();
        builder.set_blob(objects, "note", blob).unwrap();
    });
    for (ours, theirs, shape) in [(&ours, &theirs, Shape::Map), (&theirs, &ours, Shape::Blob)] {
        let (context, merge) = merged(&mut objects, [&base, ours, theirs], &[]);
        assert_eq!(paths(&merge), [("note", ConflictKind::BothAdded)]);
        assert_eq!(context.section(&objects, "note").unwrap().unwrap().shape, shape);
        assert!(!open_conflicts(&objects, &context).unwrap().is_empty());
    }
}

/// A step of a conversation: a message, or calls with their results, at a time.
#[derive(Debug, Clone)]
struct MergeStep {
    calls: usize,
    /// Number of results; fewer than calls if some are unanswered.
    results: usize,
    time: i64,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<MergeStep>> {
    let step = (0_usize..3, 0_usize..3, 0_i64..50).prop_map(|(calls, results, time)| MergeStep {
        calls,
        results: results.min(calls),
        time,
    });
    prop::collection::vec(step, 0..most)
}

/// A conversation of one side, and the commits that added to it.
#[derive(Debug, Clone, Default)]
struct Talk {
    records: Vec<Value>,
    added: Vec<Added>,
}

impl Talk {
    /// Continues with steps; `who` distinguishes the records of different sides.
    fn go_on(&self, who: &str, steps: &[MergeStep]) -> Self {
        let mut talk = self.clone();
        for step in steps {
            let before = talk.records.len();
            let ids: Vec<String> =
                (0..step.calls).map(|call| format!("{who}{before}-{call}")).collect();
            talk.records.push(json!({"who": who, "n": before, "calls": ids}));
            for id in ids.iter().take(step.results) {
                let n = talk.records.len();
                talk.records.push(json!({"who": who, "n": n, "results": [id]}));
            }
            let time = Time { micros: step.time, offset_minutes: 0 };
            let messages = (talk.records.len() - before) as u64;
            talk.added.push(Added { messages, time });
        }
        talk
    }

    /// Replaces the first messages by a summary.
    fn compacted(&self, who: &str, first: usize) -> Self {
        let mut talk = self.clone();
        let first = first.min(talk.records.len());
        talk.records.splice(..first, [json!({"who": who, "n": "summary"})]);
        let (messages, time) = (talk.records.len() as u64, Time::default());
        talk.added = vec![Added { messages, time }];
        talk
    }

    fn context(&self, objects: &mut Memory) -> Context {
        changed(objects, &Context::default(), |objects, builder| {
            for record in &self.records {
                let blob = objects.write(Kind::Blob, record.to_string().into()).unwrap();
                let entry = MessageEntry::new(blob, Role::Other, "json");
                builder.push_message(objects, "main", &entry).unwrap();
            }
        })
    }
}

/// Returns the records of a conversation, with their origins.
fn talk_of(objects: &Memory, context: &Context) -> Vec<(Value, Option<String>)> {
    let list = context.messages(objects, "main").unwrap();
    let entry = |item: Result<Item>| {
        let entry = MessageEntry::from_item(&item.unwrap()).unwrap();
        let bytes = objects.read_as(Kind::Blob, &entry.blob).unwrap();
        (serde_json::from_slice(&bytes).unwrap(), entry.origin)
    };
    list.iter(objects, 0..list.len()).map(entry).collect()
}

fn merge_talks(
    objects: &mut Memory,
    base: &Context,
    (ours, own): (&Context, &[Added]),
    (theirs, other): (&Context, &[Added]),
) -> Context {
    let added = |version: MergeSide, name: &str| {
        assert_eq!(name, MESSAGES);
        Ok(if version == MergeSide::Ours { own.to_vec() } else { other.to_vec() })
    };
    let (policy, all) = (MessagePolicy::Append, Selection::default());
    let options = MergeOptions { added: &added, ..options(&policy, &all) };
    let merge = merge(objects, base, ours, theirs, options).unwrap();
    Context::open(objects, &merge.tree).unwrap()
}

/// Checks that no message of another side separates a call from its results.
fn check_calls(records: &[Value], sides: [&[Value]; 2]) -> Result<(), TestCaseError> {
    for (at, record) in records.iter().enumerate() {
        for call in record["results"].as_array().into_iter().flatten() {
            let made = |record: &Value| {
                record["calls"].as_array().is_some_and(|calls| calls.contains(call))
            };
            let from = records[..at].iter().rposition(made);
            prop_assert!(from.is_some(), "the call {call} is missing before its result");
            for between in &records[from.unwrap()..at] {
                // Both sides may have answered a call that the base left open.
                let answers = between["results"].as_array().is_some_and(|r| r.contains(call));
                let is_own = between["who"] == record["who"] || between["who"] == "b";
                let unit = sides.iter().any(|side| side.contains(between) && side.contains(record));
                prop_assert!(is_own || answers || unit, "{between} separates {record}");
            }
        }
    }
    Ok(())
}

turntree_properties::properties! {
    #[test]
    fn conversations_of_both_sides_are_whole_in_order_and_closed(
        base in steps(6), ours in steps(8), theirs in steps(8), more in steps(4),
        compact in prop::option::of((any::<bool>(), 0_usize..12)),
    ) {
        let mut objects = Memory::new();
        let base = Talk::default().go_on("b", &base);
        let (mut o, mut t) = (base.go_on("o", &ours), base.go_on("t", &theirs));
        if let Some((of_ours, first)) = compact {
            let side = if of_ours { &mut o } else { &mut t };
            *side = side.compacted(if of_ours { "o" } else { "t" }, first);
        }
        let [b, oc, tc] = [&base, &o, &t].map(|talk| talk.context(&mut objects));
        let found = merge_talks(&mut objects, &b, (&oc, &o.added), (&tc, &t.added));
        let talk = talk_of(&objects, &found);
        let records: Vec<Value> = talk.iter().map(|(record, _)| record.clone()).collect();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for record in &records {
            *counts.entry(record.to_string()).or_default() += 1;
        }
        prop_assert!(counts.values().all(|count| *count == 1), "twice: {counts:?}");
        for (who, side) in [("o", &o), ("t", &t)] {
            for record in side.records.iter().filter(|record| record["who"] == who) {
                prop_assert!(counts.contains_key(&record.to_string()), "lost: {record}");
            }
            let of_side: Vec<&Value> = side.records.iter().filter(|r| r["who"] == who).collect();
            let in_merge: Vec<&Value> = records.iter().filter(|r| r["who"] == who).collect();
            prop_assert_eq!(of_side, in_merge, "the order of {}", who);
        }
        if compact.is_none() {
            check_calls(&records, [&o.records, &t.records])?;
            prop_assert_eq!(&records[..base.records.len()], &base.records[..]);
        }
        for side in [&o, &t] {
            for (at, record) in side.records.iter().enumerate().filter(|(_, r)| r["who"] != "b") {
                let of = |r: &Value| r["calls"].as_array().is_some_and(|calls| {
                    record["results"].as_array().is_some_and(|results| calls.contains(&results[0]))
                });
                let here = records.iter().position(|r| r == record).unwrap_or(records.len());
                prop_assert!(!side.records[..at].iter().any(of) || records[..here].iter().any(of));
            }
        }
        // Messages from theirs have an origin, unless the result is theirs unchanged.
        let is_theirs = records == t.records;
        for (record, origin) in &talk {
            let came = record["who"] == "t" && !is_theirs;
            prop_assert_eq!(origin.as_deref(), came.then_some("plan-b"), "{}", record);
        }

        // Both sides continue and are merged again, with theirs as the base.
        let again = |side: &Context, who: &str, objects: &mut Memory| {
            let grown = Talk::default().go_on(who, &more);
            changed(objects, side, |objects, builder| {
                for record in &grown.records {
                    let blob = objects.write(Kind::Blob, record.to_string().into()).unwrap();
                    let entry = MessageEntry::new(blob, Role::Other, "json");
                    builder.push_message(objects, "main", &entry).unwrap();
                }
            })
        };
        let (o2, t2) = (again(&found, "p", &mut objects), again(&tc, "u", &mut objects));
        let found = merge_talks(&mut objects, &tc, (&o2, &[]), (&t2, &[]));
        let second = talk_of(&objects, &found);
        let grown = Talk::default().go_on("p", &more).records.len();
        prop_assert_eq!(second.len(), records.len() + 2 * grown);
        // The same merge with swapped sides, where the copies are on the other side.
        let found = merge_talks(&mut objects, &tc, (&t2, &[]), (&o2, &[]));
        prop_assert_eq!(talk_of(&objects, &found).len(), second.len());
    }
}

#[test]
fn a_summary_comes_before_a_call_that_waits_and_ours_and_theirs_are_as_they_are() {
    let mut objects = Memory::new();
    let step = |calls, results| MergeStep { calls, results, time: 0 };
    let base = Talk::default().go_on("b", &[step(0, 0)]);
    let ours = base.go_on("o", &[step(1, 1), step(1, 0)]);
    let theirs = base.go_on("t", &[step(1, 1)]);
    let [b, o, t] = [&base, &ours, &theirs].map(|talk| talk.context(&mut objects));
    let mut talk = |policy: &MessagePolicy| {
        let merge =
            merge(&mut objects, &b, &o, &t, options(policy, &Selection::default())).unwrap();
        let context = Context::open(&objects, &merge.tree).unwrap();
        talk_of(&objects, &context).into_iter().map(|(record, _)| record).collect::<Vec<_>>()
    };
    assert_eq!(talk(&MessagePolicy::Ours), ours.records);
    assert_eq!(talk(&MessagePolicy::Theirs), theirs.records);
    let found = talk(&MessagePolicy::Summary("plan b found \"it\"".into()));
    assert_eq!(found.len(), ours.records.len() + 1);
    assert_eq!(found[3], json!({"role": "user", "content": "plan b found \"it\""}));
    assert_eq!(found[4], ours.records[3]);
}

#[test]
fn a_conversation_that_one_side_dropped_is_as_the_policy_says() {
    let mut objects = Memory::new();
    let state = "agents/main/state";
    let base = Talk::default().go_on("b", &[MergeStep { calls: 0, results: 0, time: 0 }]);
    let grown = base.go_on("g", &[MergeStep { calls: 0, results: 0, time: 0 }]);
    let [b, g] = [&base, &grown].map(|talk| talk.context(&mut objects));
    let b = with(&mut objects, &b, &[(state, "mode", Some("plan"))]);
    let g = with(&mut objects, &g, &[(state, "mode", Some("act")), (state, "new", Some("1"))]);
    let dropped = changed(&mut objects, &b, |objects, builder| {
        builder.set_section(objects, MESSAGES, None).unwrap();
        builder.set_section(objects, state, None).unwrap();
    });
    let mut sections = |policy: &MessagePolicy, ours: &Context, theirs: &Context| {
        let only = Selection::default();
        let merge = merge(&mut objects, &b, ours, theirs, options(policy, &only)).unwrap();
        assert!(merge.conflicts.is_empty());
        let context = Context::open(&objects, &merge.tree).unwrap();
        let records = talk_of(&objects, &context).len();
        (records, context.section(&objects, state).unwrap().is_some())
    };
    let whole = grown.records.len();
    let both = MessagePolicy::Append;
    let summary = MessagePolicy::Summary("it went well".into());
    for (policy, of_theirs, of_ours) in [
        (&MessagePolicy::Theirs, (0, false), (whole, true)),
        (&MessagePolicy::Ours, (whole, true), (0, false)),
        (&both, (whole, true), (whole, false)),
        (&summary, (whole, true), (whole, false)),
    ] {
        assert_eq!(sections(policy, &g, &dropped), of_theirs, "dropped by theirs: {policy:?}");
        assert_eq!(sections(policy, &dropped, &g), of_ours, "dropped by ours: {policy:?}");
    }
}

#[test]
fn a_call_comes_back_with_a_result_that_the_other_side_added() {
    let mut objects = Memory::new();
    let step = |calls, results| MergeStep { calls, results, time: 0 };
    let base = Talk::default().go_on("b", &[step(0, 0), step(1, 0)]);
    let call = base.records[1].clone();
    let answered = |who: &str| {
        let mut talk = base.clone();
        talk.records.push(json!({"who": who, "n": "r", "results": call["calls"]}));
        talk.records.push(json!({"who": who, "n": "end"}));
        talk
    };
    for compacts_ours in [true, false] {
        let whole = base.compacted("s", 2);
        let (ours, theirs) =
            if compacts_ours { (whole, answered("t")) } else { (answered("o"), whole) };
        let [b, o, t] = [&base, &ours, &theirs].map(|talk| talk.context(&mut objects));
        let found = merge_talks(&mut objects, &b, (&o, &[]), (&t, &[]));
        let records: Vec<Value> = talk_of(&objects, &found).into_iter().map(|(r, _)| r).collect();
        assert_eq!(records.len(), 4, "{records:?}");
        assert_eq!(records[0]["n"], "summary");
        assert_eq!(records[1], call);
        assert_eq!(records[2]["n"], "r");
    }
    // Both sides answered: both results follow the call.
    let [b, o, t] = [&base, &answered("o"), &answered("t")].map(|talk| talk.context(&mut objects));
    let found = merge_talks(&mut objects, &b, (&o, &[]), (&t, &[]));
    let order: Vec<String> = talk_of(&objects, &found)
        .iter()
        .map(|(record, _)| format!("{}{}", record["who"], record["n"]).replace('"', ""))
        .collect();
    assert_eq!(order, ["b0", "b1", "or", "tr", "oend", "tend"]);
}

/// Returns a context whose transcript has these pieces.
fn with_transcript(objects: &mut Memory, from: &Context, pieces: &[&str]) -> Context {
    changed(objects, from, |objects, builder| {
        let items = pieces.iter().map(|text| {
            let blob = objects.write(Kind::Blob, Bytes::copy_from_slice(text.as_bytes())).unwrap();
            let (kind, suffix) = (crate::context::SourceKind::Record, "\n".into());
            crate::context::SourceEntry { blob, kind, suffix }.to_item().unwrap()
        });
        let items = items.collect();
        builder.set_list(objects, SOURCE, items).unwrap();
    })
}

#[test]
fn a_transcript_stays_unless_the_other_one_continues_it() {
    let mut objects = Memory::new();
    let client = |name| [("meta", "cwd", Some(name)), ("memory", "by", Some(name))];
    let base = with(&mut objects, &Context::default(), &client("main"));
    let base = with_transcript(&mut objects, &base, &["one", "two"]);
    let theirs = with(&mut objects, &base, &client("plan-b"));
    let other = with_transcript(&mut objects, &theirs, &["one again", "two again", "three"]);
    let longer = with_transcript(&mut objects, &theirs, &["one", "two", "three"]);
    let ours = with(&mut objects, &base, &[("scratchpad", "o", Some("1"))]);
    let source = |context: &Context, objects: &Memory| context.section(objects, SOURCE).unwrap();

    for ours in [&base, &ours] {
        let (context, _) = merged(&mut objects, [&base, ours, &other], &[]);
        assert_eq!(source(&context, &objects), source(&base, &objects));
        assert_eq!(read(&objects, &context, "meta/cwd").as_deref(), Some("main"));
        assert_eq!(read(&objects, &context, "memory/by").as_deref(), Some("plan-b"));

        let (context, _) = merged(&mut objects, [&base, ours, &longer], &[]);
        assert_eq!(source(&context, &objects), source(&longer, &objects));
        assert_eq!(read(&objects, &context, "meta/cwd").as_deref(), Some("plan-b"));
    }
    let (policy, only) = (MessagePolicy::Theirs, Selection::default());
    let merge = merge(&mut objects, &base, &ours, &other, options(&policy, &only)).unwrap();
    let context = Context::open(&objects, &merge.tree).unwrap();
    assert_eq!(source(&context, &objects), source(&other, &objects));
    // A branch without a client gets the transcript.
    let none = with(&mut objects, &Context::default(), &[("memory", "a", Some("1"))]);
    let some = with_transcript(&mut objects, &none, &["one"]);
    let (context, _) = merged(&mut objects, [&none, &none, &some], &[]);
    assert_eq!(source(&context, &objects), source(&some, &objects));
}
