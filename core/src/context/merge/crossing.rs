//! Tests of crossing conversations: messages that both sides moved, or that both got from another
//! snapshot.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::context::{MessageEntry, Role};
use crate::object::{Kind, Memory, ObjectSource};

/// Returns a context with one message for each of these words.
fn said<T: AsRef<str>>(objects: &mut Memory, words: &[T]) -> Context {
    let mut builder = Builder::new();
    for word in words {
        let blob = objects.write(Kind::Blob, word.as_ref().to_owned().into()).unwrap();
        let entry = MessageEntry::new(blob, Role::User, "text");
        builder.push_message(objects, "main", &entry).unwrap();
    }
    let tree = builder.write(objects).unwrap();
    Context::open(objects, &tree).unwrap()
}

/// Merges conversations whose sides also share the common snapshots in `also`.
fn merged<T: AsRef<str>>(base: &[T], also: &[&[T]], ours: &[T], theirs: &[T]) -> Vec<String> {
    let mut objects = Memory::new();
    let [base, ours, theirs] = [base, ours, theirs].map(|words| said(&mut objects, words));
    let also: Vec<Context> = also.iter().map(|words| said(&mut objects, words)).collect();
    let options = MergeOptions {
        labels: Labels { ours: "main", theirs: "plan-b" },
        messages: &MessagePolicy::Append,
        only: &Selection::default(),
        tools: &|_, _| ToolUse::default(),
        added: &|_, _| Ok(Vec::new()),
        also: &also,
    };
    let merge = merge(&mut objects, &base, &ours, &theirs, options).unwrap();
    let context = Context::open(&objects, &merge.tree).unwrap();
    let list = context.messages(&objects, "main").unwrap();
    let word = |item: Result<Item>| {
        let entry = MessageEntry::from_item(&item.unwrap()).unwrap();
        let bytes = objects.read_as(Kind::Blob, &entry.blob).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    list.iter(&objects, 0..list.len()).map(word).collect()
}

#[test]
fn a_message_that_both_put_elsewhere_is_there_once() {
    let (base, ours) = (["1", "2", "m", "3", "4"], ["m", "1", "2", "3", "4"]);
    assert_eq!(merged(&base, &[], &ours, &["1", "2", "3", "4", "m"]), ours);
    // A message that theirs repeated is not a copy.
    let found = merged(&base, &[], &ours, &["1", "2", "3", "m", "4", "m"]);
    assert_eq!(found, ["m", "1", "2", "3", "4", "m"]);
}

#[test]
fn a_message_that_one_side_dropped_stays_dropped_where_both_said_the_same() {
    let found = merged(&["0", "m", "1"], &[], &["0", "x", "m", "1"], &["0", "x", "1"]);
    assert_eq!(found, ["0", "x", "1"]);
    let found = merged(&["0", "m", "1"], &[], &["0", "x", "m", "1"], &["0", "x", "1", "m"]);
    assert_eq!(found, ["0", "x", "1", "m"]);
}

#[test]
fn what_both_have_from_another_common_snapshot_is_there_once() {
    let also: [&[&str]; 2] = [&["1", "x", "y"], &["1", "z"]];
    let found = merged(&["1"], &also, &["1", "x", "o", "z"], &["1", "t", "x", "y", "z"]);
    assert_eq!(found, ["1", "x", "o", "z", "t", "y"]);
}

#[test]
fn what_both_said_by_themselves_is_said_twice() {
    let found = merged(&["1"], &[], &["1", "o", "go on"], &["1", "t", "go on"]);
    assert_eq!(found, ["1", "o", "go on", "t", "go on"]);
}

#[test]
fn of_two_messages_alike_each_side_may_drop_another_one() {
    assert_eq!(merged(&["m", "1", "m"], &[], &["m", "1"], &["1", "m"]), ["1"]);
}

/// An edit of a side: drops, moves or inserts a message.
#[derive(Debug, Clone)]
enum Edit {
    Drop(prop::sample::Index),
    Move(prop::sample::Index, prop::sample::Index),
    Say(prop::sample::Index),
    /// Inserts a message of the other common snapshot.
    Take(prop::sample::Index, prop::sample::Index),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = any::<prop::sample::Index>;
    let edit = prop_oneof![
        at().prop_map(Edit::Drop),
        (at(), at()).prop_map(|(from, to)| Edit::Move(from, to)),
        at().prop_map(Edit::Say),
        (at(), at()).prop_map(|(from, to)| Edit::Take(from, to)),
    ];
    prop::collection::vec(edit, 0..8)
}

/// Returns a side after its edits, without repeated messages.
fn edited(base: &[String], also: &[String], who: &str, edits: &[Edit]) -> Vec<String> {
    let mut side = base.to_vec();
    for (number, edit) in edits.iter().enumerate() {
        let word = match edit {
            Edit::Drop(at) | Edit::Move(at, _) if !side.is_empty() => {
                Some(side.remove(at.index(side.len())))
            }
            Edit::Say(_) => Some(format!("{who}{number}")),
            Edit::Take(from, _) if !also.is_empty() => Some(also[from.index(also.len())].clone()),
            _ => None,
        };
        if let (Some(word), Edit::Move(_, to) | Edit::Say(to) | Edit::Take(_, to)) = (word, edit)
            && !side.contains(&word)
        {
            side.insert(to.index(side.len() + 1), word);
        }
    }
    side
}

turntree_properties::properties! {
    #[test]
    fn no_message_is_lost_or_doubled(
        base in 0_usize..10, more in 0_usize..6, ours in edits(), theirs in edits()
    ) {
        let base: Vec<String> = (0..base).map(|n| format!("b{n}")).collect();
        let more: Vec<String> = (0..more).map(|n| format!("x{n}")).collect();
        let also = [base.clone(), more.clone()].concat();
        let ours = edited(&base, &more, "o", &ours);
        let theirs = edited(&base, &more, "t", &theirs);
        let found = merged(&base, &[&also], &ours, &theirs);
        let once: BTreeSet<&String> = found.iter().collect();
        prop_assert_eq!(once.len(), found.len(), "doubled: {:?} and {:?} are {:?}", ours, theirs, found);
        for (side, other) in [(&ours, &theirs), (&theirs, &ours)] {
            for word in side {
                let may_go = base.contains(word) && !other.contains(word);
                prop_assert!(may_go || once.contains(word), "lost {}: {:?} and {:?} are {:?}", word, ours, theirs, found);
            }
        }
        for word in &found {
            prop_assert!(ours.contains(word) || theirs.contains(word), "{} is from neither side", word);
        }
    }
}
