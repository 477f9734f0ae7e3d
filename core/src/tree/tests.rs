//! Lists and maps against their models, their cost, and hostile bytes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{
    Item, List, ListChange, MAX_KEY_BYTES, MAX_META_BYTES, Map, diff_lists, diff_maps, links,
};
use crate::error::{ErrorKind, Result};
use crate::object::{Kind, Memory, Object, ObjectId, ObjectSink, ObjectSource};

/// The item number `n`; every fifth has another kind, and metas come in runs.
fn item(n: u64) -> Item {
    let kind = if n.is_multiple_of(5) { Kind::Node } else { Kind::Blob };
    let meta = Bytes::from(vec![7; usize::try_from(n / 4 % 3).unwrap()]);
    Item { meta, ..Item::new(kind, ObjectId::of(Kind::Blob, &n.to_le_bytes())) }
}

fn items(range: Range<u64>) -> Vec<Item> {
    range.map(item).collect()
}

fn key(n: u64) -> Bytes {
    format!("src/{}/file-{n:05}.rs", n % 7).into()
}

/// Objects in memory that count what is read and written.
#[derive(Default)]
struct Counting {
    objects: Memory,
    reads: Cell<usize>,
    written: Vec<usize>,
}

impl ObjectSource for Counting {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        self.reads.set(self.reads.get() + 1);
        self.objects.read(id)
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        self.objects.contains(id)
    }
}

impl ObjectSink for Counting {
    fn write(&mut self, kind: Kind, bytes: Bytes) -> Result<ObjectId> {
        self.written.push(bytes.len());
        self.objects.write(kind, bytes)
    }
}

impl Counting {
    /// Objects read and written since the last time.
    fn take(&mut self) -> (usize, usize) {
        (self.reads.take(), std::mem::take(&mut self.written).len())
    }
}

fn list_of(sink: &mut dyn ObjectSink, items: Vec<Item>) -> List {
    let mut list = List::new();
    list.extend(sink, items).unwrap();
    list
}

fn map_of(sink: &mut dyn ObjectSink, model: &BTreeMap<Bytes, Item>) -> Map {
    let mut map = Map::new();
    map.apply(sink, model.iter().map(|(key, item)| (key.clone(), Some(item.clone()))).collect())
        .unwrap();
    map
}

fn read_list(source: &dyn ObjectSource, list: &List) -> Vec<Item> {
    list.iter(source, 0..u64::MAX).map(Result::unwrap).collect()
}

fn read_map(source: &dyn ObjectSource, map: &Map) -> BTreeMap<Bytes, Item> {
    map.iter(source).map(Result::unwrap).collect()
}

/// Items of a list, where some stand many times and in a row.
fn contents() -> impl Strategy<Value = Vec<Item>> {
    let run = (0_u64..60, 1_usize..4, 0_u8..20);
    prop::collection::vec(run, 0..300).prop_map(|runs| {
        let long = |(n, times, often)| vec![item(n); if often == 0 { times * 70 } else { times }];
        runs.into_iter().flat_map(long).collect()
    })
}

/// A range of `len` places.
fn range(len: usize, a: &Index, b: &Index) -> Range<usize> {
    let (a, b) = (a.index(len + 1), b.index(len + 1));
    a.min(b)..a.max(b)
}

fn wide(range: &Range<usize>) -> Range<u64> {
    range.start as u64..range.end as u64
}

fn edits() -> impl Strategy<Value = BTreeMap<Bytes, Option<Item>>> {
    let edit = (0_u64..400).prop_map(key);
    prop::collection::btree_map(edit, prop::option::of((0_u64..50).prop_map(item)), 0..200)
}

proptest! {
    #[test]
    fn a_list_is_its_model_and_its_root_forgets_the_edits(
        first in contents(),
        splices in prop::collection::vec((any::<Index>(), any::<Index>(), contents()), 0..6),
        a: Index, b: Index,
    ) {
        let mut objects = Memory::new();
        let mut list = list_of(&mut objects, first.clone());
        let mut model = first;
        for (from, to, with) in splices {
            let range = range(model.len(), &from, &to);
            list.splice(&mut objects, wide(&range), with.clone()).unwrap();
            model.splice(range, with);
        }
        prop_assert_eq!(list.len(), model.len() as u64);
        prop_assert_eq!(&list, &list_of(&mut Memory::new(), model.clone()));
        let root = list.write(&mut objects).unwrap();
        let list = List::open(&objects, &root).unwrap();
        prop_assert_eq!(&read_list(&objects, &list), &model);
        let range = range(model.len(), &a, &b);
        let part: Vec<_> = list.iter(&objects, wide(&range)).map(Result::unwrap).collect();
        prop_assert_eq!(&part, &model[range]);
        let index = a.index(model.len() + 1);
        prop_assert_eq!(list.get(&objects, index as u64).unwrap(), model.get(index).cloned());
    }

    #[test]
    fn pushing_one_by_one_or_in_batches_gives_the_same_root(items in contents(), size in 1_usize..40) {
        let (mut objects, mut one, mut many) = (Memory::new(), List::new(), List::new());
        for item in &items {
            one.push(&mut objects, item.clone()).unwrap();
        }
        for batch in items.chunks(size) {
            many.extend(&mut objects, batch.to_vec()).unwrap();
        }
        prop_assert_eq!(&one, &many);
        prop_assert_eq!(one, list_of(&mut objects, items));
    }

    #[test]
    fn a_map_is_its_model_and_its_root_forgets_the_edits(
        batches in prop::collection::vec(edits(), 0..5),
        from in 0_u64..400, to in 0_u64..400,
    ) {
        let (mut objects, mut map, mut model) = (Memory::new(), Map::new(), BTreeMap::new());
        for edits in batches {
            for (key, item) in edits.clone() {
                match item {
                    Some(item) => model.insert(key, item),
                    None => model.remove(&key),
                };
            }
            map.apply(&mut objects, edits).unwrap();
        }
        prop_assert_eq!(map.len(), model.len() as u64);
        prop_assert_eq!(&map, &map_of(&mut Memory::new(), &model));
        let root = map.write(&mut objects).unwrap();
        let map = Map::open(&objects, &root).unwrap();
        prop_assert_eq!(&read_map(&objects, &map), &model);
        let (from, to) = (key(from.min(to)), key(from.max(to)));
        prop_assert_eq!(map.get(&objects, &from).unwrap(), model.get(&from).cloned());
        let found: Vec<_> = map.range(&objects, &from, Some(&to)).map(Result::unwrap).collect();
        let inside = model.iter().filter(|(key, _)| (&from..&to).contains(key));
        prop_assert_eq!(found, inside.map(|(k, i)| (k.clone(), i.clone())).collect::<Vec<_>>());
        let prefix = &from[..6];
        let found: Vec<_> = map.prefix(&objects, prefix).map(Result::unwrap).collect();
        let inside = model.iter().filter(|(key, _)| key.starts_with(prefix));
        prop_assert_eq!(found, inside.map(|(k, i)| (k.clone(), i.clone())).collect::<Vec<_>>());
    }

    #[test]
    fn the_changes_of_a_list_make_the_new_one_of_the_old(
        before in contents(),
        splices in prop::collection::vec((any::<Index>(), any::<Index>(), contents()), 0..4),
    ) {
        let mut after = before.clone();
        for (from, to, with) in splices {
            let range = range(after.len(), &from, &to);
            after.splice(range, with);
        }
        let mut objects = Memory::new();
        let (old, new) = (list_of(&mut objects, before.clone()), list_of(&mut objects, after.clone()));
        let changes = diff_lists(&old, &new, &objects).unwrap();
        let mut made = before;
        for ListChange { old, new } in changes.iter().rev() {
            let [old, new] = [old, new].map(|r| usize::try_from(r.start).unwrap()..usize::try_from(r.end).unwrap());
            made.splice(old, after[new].iter().cloned());
        }
        prop_assert_eq!(made, after);
        for pair in changes.windows(2) {
            let between = pair[1].old.start.checked_sub(pair[0].old.end);
            prop_assert!(between > Some(0));
            prop_assert_eq!(between, pair[1].new.start.checked_sub(pair[0].new.end));
        }
    }

    #[test]
    fn the_changes_of_a_map_are_those_of_its_model(before in edits(), edits in edits()) {
        let keep = |edits: &BTreeMap<Bytes, Option<Item>>| -> BTreeMap<Bytes, Item> {
            edits.iter().filter_map(|(key, item)| Some((key.clone(), item.clone()?))).collect()
        };
        let mut objects = Memory::new();
        let old = map_of(&mut objects, &keep(&before));
        let mut new = old.clone();
        new.apply(&mut objects, edits.clone()).unwrap();
        let mut rebuilt = BTreeMap::new();
        for change in diff_maps(&old, &new, &objects) {
            let change = change.unwrap();
            prop_assert_ne!(&change.old, &change.new);
            prop_assert_eq!(&change.old, &old.get(&objects, &change.key).unwrap());
            rebuilt.insert(change.key, change.new);
        }
        let mut made = old;
        made.apply(&mut objects, rebuilt).unwrap();
        prop_assert_eq!(made, new);
    }
}
