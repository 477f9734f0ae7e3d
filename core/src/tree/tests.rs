//! Tests lists and maps against models, their cost, and hostile bytes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{
    Item, List, ListChange, MAX_KEY_BYTES, MAX_META_BYTES, Map, MultisetChange, MultisetDiff,
    diff_lists, diff_maps, links,
};
use crate::error::{ErrorKind, Result};
use crate::object::{Kind, Memory, Object, ObjectId, ObjectSink, ObjectSource};

/// Returns the item number `n` of the vectors: every fifth has another kind, and metas repeat in
/// runs.
fn item(n: u64) -> Item {
    let kind = if n.is_multiple_of(5) { Kind::Node } else { Kind::Blob };
    let meta = Bytes::from(vec![7; usize::try_from(n / 4 % 3).unwrap()]);
    Item { meta, ..Item::new(kind, ObjectId::of(Kind::Blob, format!("item {n}").as_bytes())) }
}

fn items(range: Range<u64>) -> Vec<Item> {
    range.map(item).collect()
}

fn key(n: u64) -> Bytes {
    format!("src/{}/file-{n:05}.rs", n % 7).into()
}

fn model(range: Range<u64>) -> BTreeMap<Bytes, Item> {
    range.map(|n| (key(n), item(n))).collect()
}

/// Objects in memory, with counts of reads and writes.
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
    /// Returns and resets the numbers of objects read and written.
    fn take(&mut self) -> (usize, usize) {
        (self.reads.take(), std::mem::take(&mut self.written).len())
    }
}

/// Objects in which one id returns the bytes of another.
struct Swapped {
    objects: Memory,
    asked: ObjectId,
    given: ObjectId,
}

impl ObjectSource for Swapped {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        self.objects.read(if *id == self.asked { &self.given } else { id })
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        self.objects.contains(id)
    }
}

impl ObjectSink for Swapped {
    fn write(&mut self, kind: Kind, bytes: Bytes) -> Result<ObjectId> {
        self.objects.write(kind, bytes)
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

/// Returns items of a list, some of them repeated many times in a row.
fn contents() -> impl Strategy<Value = Vec<Item>> {
    let run = (0_u64..60, 1_usize..4, 0_u8..20);
    prop::collection::vec(run, 0..300).prop_map(|runs| {
        let long = |(n, times, often)| vec![item(n); if often == 0 { times * 70 } else { times }];
        runs.into_iter().flat_map(long).collect()
    })
}

/// Returns a range within `len` places.
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

/// Returns lists that are each an edit of the previous one, or unrelated.
fn lists_in_a_row() -> impl Strategy<Value = Vec<Vec<Item>>> {
    let edit = (any::<Index>(), any::<Index>(), prop::collection::vec(0_u64..60, 0..30), 0_u8..8);
    let edits = prop::collection::vec((edit, contents()), 1..5);
    (contents(), edits).prop_map(|(first, edits)| {
        let mut lists = vec![first];
        for ((a, b, with, kind), other) in edits {
            let mut next = lists.last().cloned().unwrap_or_default();
            let end = next.len();
            match kind {
                0 => next = other,
                1..=3 => drop(next.splice(end..end, with.into_iter().map(item))),
                _ => drop(next.splice(range(end, &a, &b), with.into_iter().map(item))),
            }
            lists.push(next);
        }
        lists
    })
}

/// Returns the number of occurrences of each object.
fn counts<'i>(items: impl IntoIterator<Item = &'i Item>) -> BTreeMap<super::Link, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item.link).or_default() += 1;
    }
    counts
}

turntree_properties::properties! {
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
        let rank = |key: &Bytes| model.range(..key.clone()).count() as u64;
        prop_assert_eq!(map.rank(&objects, &from).unwrap(), rank(&from));
        let places = rank(&from)..rank(&to);
        let sliced: Vec<_> = map.slice(&objects, places).map(Result::unwrap).collect();
        let found: Vec<_> = map.range(&objects, &from, Some(&to)).map(Result::unwrap).collect();
        let inside = model.iter().filter(|(key, _)| (&from..&to).contains(key));
        prop_assert_eq!(&sliced, &found);
        prop_assert_eq!(found, inside.map(|(k, i)| (k.clone(), i.clone())).collect::<Vec<_>>());
        let prefix = &from[..6];
        let found: Vec<_> = map.prefix(&objects, prefix).map(Result::unwrap).collect();
        let places = map.prefix_positions(&objects, prefix).unwrap();
        prop_assert_eq!(places.end - places.start, found.len() as u64);
        let sliced: Vec<_> = map.slice(&objects, places).map(Result::unwrap).collect();
        prop_assert_eq!(&sliced, &found);
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

    #[test]
    fn what_one_list_has_more_often_is_what_counting_says(versions in lists_in_a_row()) {
        let mut objects = Memory::new();
        let lists: Vec<(ObjectId, Vec<Item>)> = versions
            .into_iter()
            .map(|items| (list_of(&mut objects, items.clone()).write(&mut objects).unwrap(), items))
            .collect();
        let mut net = MultisetDiff::new(&objects);
        let none = (None, Vec::new());
        let sides = lists.iter().map(|(id, items)| (Some(id), items.clone()));
        let sides: Vec<_> = std::iter::once(none.clone()).chain(sides).chain([none]).collect();
        for pair in sides.windows(2) {
            let [(old, before), (new, after)] = pair else { continue };
            let found = net.lists(*old, *new).unwrap();
            for (changes, side, other) in [(found.gone, before, after), (found.come, after, before)] {
                let mut more = counts(side);
                for (id, count) in counts(other) {
                    more.entry(id).and_modify(|more| *more = more.saturating_sub(count));
                }
                more.retain(|_, count| *count > 0);
                prop_assert_eq!(more, counts(changes.iter().map(|change| &change.item)));
                prop_assert!(changes.is_sorted_by(|a, b| a.index < b.index));
                for MultisetChange { index, item, .. } in changes {
                    prop_assert_eq!(&side[usize::try_from(index).unwrap()], &item);
                }
            }
        }
    }

    #[test]
    fn what_one_map_has_more_is_what_its_model_says(before in edits(), edits in edits()) {
        let mut objects = Memory::new();
        let old: BTreeMap<_, _> =
            before.into_iter().filter_map(|(key, item)| Some((key, item?))).collect();
        let mut new = old.clone();
        for (key, item) in edits {
            match item {
                Some(item) => drop(new.insert(key, item)),
                None => drop(new.remove(&key)),
            }
        }
        let ids = [&old, &new].map(|model| map_of(&mut objects, model).write(&mut objects).unwrap());
        let mut net = MultisetDiff::new(&objects);
        for (old_id, new_id, old, new) in [(0, 1, &old, &new), (1, 0, &new, &old)] {
            let found = net.maps(Some(&ids[old_id]), Some(&ids[new_id])).unwrap();
            for (changes, side, other) in [(found.gone, old, new), (found.come, new, old)] {
                let is_other = |(key, item): &(&Bytes, &Item)| {
                    other.get(*key).is_none_or(|other| other.link != item.link)
                };
                let expected = side.iter().filter(is_other).map(|(key, item)| (key.clone(), item.clone()));
                let found = changes.into_iter().map(|change| (change.key, change.item));
                prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn new_items_in_one_place_are_exactly_one_change(
        len in 0_usize..2_000,
        from: Index, to: Index,
        come in 0_u64..200,
    ) {
        let range = wide(&range(len, &from, &to));
        prop_assume!(come > 0 || !range.is_empty());
        let mut objects = Memory::new();
        let old = list_of(&mut objects, items(0..len as u64));
        let mut new = old.clone();
        new.splice(&mut objects, range.clone(), items(1_000_000..1_000_000 + come)).unwrap();
        let change = ListChange { new: range.start..range.start + come, old: range };
        prop_assert_eq!(diff_lists(&old, &new, &objects).unwrap(), [change]);
    }

    #[test]
    fn a_node_in_the_place_of_another_is_corruption_where_it_shows_and_never_a_panic(a: Index, b: Index) {
        let mut objects = Memory::new();
        let list = list_of(&mut objects, items(0..400));
        let map = map_of(&mut objects, &model(0..400));
        let mut ids: Vec<_> = objects.clone().into_objects().into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        let (asked, given) = (*a.get(&ids), *b.get(&ids));
        prop_assume!(asked != given);
        let mut swapped = Swapped { objects, asked, given };
        let listed: Result<Vec<_>> = list.iter(&swapped, 0..400).collect();
        let mapped: Result<Vec<_>> = map.iter(&swapped).collect();
        let differs = diff_lists(&list, &List::new(), &swapped);
        prop_assert_eq!(differs.unwrap(), [ListChange { old: 0..400, new: 0..0 }]);
        if let Ok(mapped) = &mapped {
            prop_assert!(mapped.iter().map(|(key, _)| key).eq(model(0..400).keys()));
        }
        let errors = [
            listed.err(), mapped.err(), diff_maps(&map, &Map::new(), &swapped).find_map(Result::err)];
        for error in errors.into_iter().flatten() {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let replaced = list.clone().splice(&mut swapped, 200..201, items(0..1));
        let removed = map.clone().apply(&mut swapped, model(0..400).into_keys().map(|key| (key, None)).collect());
        for error in [replaced.err(), removed.err()].into_iter().flatten() {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }
}

#[test]
fn the_roots_are_those_of_the_vectors() {
    let vectors = include_str!("../../../format-spec/vectors/tree.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).unwrap();
    let mut objects = Memory::new();
    let mut checked = 0;
    for vector in vectors["vectors"].as_array().unwrap() {
        let n = vector["items"].as_u64().unwrap();
        let root = match vector["tree"].as_str().unwrap() {
            "list" => list_of(&mut objects, items(0..n)).write(&mut objects),
            "repeated" => list_of(&mut objects, vec![item(1); usize::try_from(n).unwrap()])
                .write(&mut objects),
            _ => map_of(&mut objects, &model(0..n)).write(&mut objects),
        };
        let root = root.unwrap();
        assert_eq!(root.to_string(), vector["root"], "{vector}");
        if let Some(bytes) = vector["bytes"].as_str() {
            let found = objects.read_as(Kind::Node, &root).unwrap();
            let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, bytes, "{vector}");
        }
        checked += 1;
    }
    assert_eq!(checked, 12);
}

#[test]
fn an_append_to_a_long_list_reads_nothing_and_writes_the_root_alone() {
    let mut objects = Counting::default();
    let mut list = list_of(&mut objects, items(0..100_000));
    objects.take();
    for n in 0..320 {
        list.push(&mut objects, item(n)).unwrap();
    }
    let (reads, writes) = objects.take();
    assert_eq!(reads, 0);
    assert!(writes < 40, "{writes} nodes for 320 items");
    list.write(&mut objects).unwrap();
    assert!(objects.written[0] < 4096, "root of {} bytes", objects.written[0]);
}

#[test]
fn an_edit_and_its_diff_cost_a_path_and_not_the_tree() {
    let mut objects = Counting::default();
    let list = list_of(&mut objects, items(0..100_000));
    let map = map_of(&mut objects, &model(0..100_000));
    for at in [0, 31_415, 50_000, 99_999] {
        objects.take();
        let mut edited = list.clone();
        edited.splice(&mut objects, at..at + 1, items(7..9)).unwrap();
        let (reads, writes) = objects.take();
        assert!(reads < 40 && writes < 12, "splice at {at}: {reads} reads, {writes} writes");
        let changes = diff_lists(&list, &edited, &objects).unwrap();
        assert_eq!(changes, [ListChange { old: at..at + 1, new: at..at + 2 }]);
        assert!(objects.take().0 < 40);

        let mut edited = map.clone();
        edited.apply(&mut objects, [(key(at), Some(item(7)))].into()).unwrap();
        let (reads, writes) = objects.take();
        assert!(reads < 40 && writes < 12, "edit of {at}: {reads} reads, {writes} writes");
        assert_eq!(diff_maps(&map, &edited, &objects).count(), 1);
        assert!(objects.take().0 < 40);
    }
}

#[test]
fn versions_compared_in_a_row_are_read_once_each() {
    let mut objects = Counting::default();
    let mut list = list_of(&mut objects, items(0..1000));
    let mut versions = vec![list.write(&mut objects).unwrap()];
    for n in 1000..1100 {
        list.push(&mut objects, item(n)).unwrap();
        versions.push(list.write(&mut objects).unwrap());
    }
    objects.take();
    let mut net = MultisetDiff::new(&objects);
    for pair in versions.windows(2) {
        let [old, new] = pair else { continue };
        let found = net.lists(Some(old), Some(new)).unwrap();
        assert_eq!((found.gone.len(), found.come.len()), (0, 1));
    }
    // The roots, and the nodes that end in between.
    let (reads, _) = objects.take();
    assert!((101..130).contains(&reads), "{reads} reads");
}

#[test]
fn equal_trees_have_no_changes_and_nothing_is_read() {
    let mut objects = Counting::default();
    let list = list_of(&mut objects, items(0..5_000));
    let map = map_of(&mut objects, &model(0..5_000));
    objects.take();
    assert_eq!(diff_lists(&list, &list, &objects).unwrap(), []);
    assert_eq!(diff_maps(&map, &map, &objects).count(), 0);
    let mut same = map.clone();
    same.apply(&mut objects, [(key(9_999_999), None)].into()).unwrap();
    assert_eq!(same, map);
    assert_eq!(objects.take().1, 0);
}

#[test]
fn a_message_put_in_taken_out_and_annotated_are_three_small_changes() {
    let mut objects = Memory::new();
    let mut after = items(0..10_000);
    after[8_000].meta = Bytes::from_static(b"seen");
    after.remove(5_000);
    after.insert(1_000, item(77_777));
    let old = list_of(&mut objects, items(0..10_000));
    let new = list_of(&mut objects, after);
    let expected = [
        ListChange { old: 1_000..1_000, new: 1_000..1_001 },
        ListChange { old: 5_000..5_001, new: 5_001..5_001 },
        ListChange { old: 8_000..8_001, new: 8_000..8_001 },
    ];
    assert_eq!(diff_lists(&old, &new, &objects).unwrap(), expected);
}

#[test]
fn a_million_equal_items_are_a_handful_of_objects() {
    let mut objects = Memory::new();
    let old = list_of(&mut objects, vec![item(1); 1_000_000]);
    assert!(objects.len() < 40, "{} objects", objects.len());
    let mut new = old.clone();
    new.splice(&mut objects, 500_000..500_000, vec![item(2)]).unwrap();
    let changes = diff_lists(&old, &new, &objects).unwrap();
    assert!(changes.len() <= 2, "{changes:?}");
}

#[test]
fn links_reach_every_object_of_a_tree_and_every_item() {
    let mut objects = Memory::new();
    let list = list_of(&mut objects, items(0..1_000));
    let mut open = vec![list.write(&mut objects).unwrap()];
    let mut nodes = 0;
    let mut found = 0;
    while let Some(id) = open.pop() {
        nodes += 1;
        for link in links(&objects.read_as(Kind::Node, &id).unwrap()).unwrap() {
            match objects.contains(&link.id).unwrap() {
                true => open.push(link.id),
                false => found += 1,
            }
        }
    }
    assert_eq!((nodes, found), (objects.len(), 1_000));
}

#[test]
fn limits_hold_at_the_limit_and_stop_one_past_it() {
    let mut objects = Memory::new();
    let with_meta = |len| Item { meta: vec![1; len].into(), ..item(1) };
    let mut list = list_of(&mut objects, vec![with_meta(MAX_META_BYTES); 200]);
    let before = list.clone();
    let error = list.push(&mut objects, with_meta(MAX_META_BYTES + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let error = list.splice(&mut objects, 100..201, Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(list, before);
    let root = list.write(&mut objects).unwrap();
    assert_eq!(List::open(&objects, &root).unwrap(), list);

    let mut map = Map::new();
    let mut put = |key: Vec<u8>, meta| {
        let edits = [(Bytes::from(key), Some(with_meta(meta)))].into();
        map.apply(&mut objects, edits).map_err(|error| error.kind())
    };
    assert_eq!(put(vec![1; MAX_KEY_BYTES], MAX_META_BYTES), Ok(()));
    assert_eq!(put(vec![1; MAX_KEY_BYTES + 1], 0), Err(ErrorKind::LimitExceeded));
    assert_eq!(put(vec![1], MAX_META_BYTES + 1), Err(ErrorKind::LimitExceeded));
    assert_eq!(put(Vec::new(), 0), Err(ErrorKind::InvalidInput));
    let root = map.write(&mut objects).unwrap();
    assert_eq!(Map::open(&objects, &root).unwrap(), map);
}

#[test]
fn a_missing_node_is_an_error_that_names_it_and_ends_the_iteration() {
    let mut objects = Memory::new();
    let list = list_of(&mut objects, items(0..1_000));
    let map = map_of(&mut objects, &model(0..1_000));
    let none = Memory::new();
    let mut iter = list.iter(&none, 0..1_000);
    assert_eq!(iter.next().unwrap().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(iter.next().is_none());
    let mut iter = map.iter(&none);
    assert_eq!(iter.next().unwrap().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(iter.next().is_none());
    let root = list.write(&mut objects).unwrap();
    let error = Map::open(&objects, &root).unwrap_err();
    assert!(error.to_string().ends_with("expected the root of a map, found the root of a list"));
}
