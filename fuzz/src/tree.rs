//! Fuzzes trees: hostile nodes, and edits against a naive model.

use std::collections::BTreeMap;

use bytes::Bytes;
use turntree::object::{ID_BYTES, Kind, Memory, Object, ObjectId, ObjectSink, ObjectSource};
use turntree::tree::{Item, Link, List, Map, diff_lists, diff_maps, links};

/// Maximum number of items read from a tree: its nodes may reference each other many times.
const MAX_ITEMS: u64 = 10_000;

/// The prefix of a placeholder for an id; its last byte is the number of the object.
const PLACEHOLDER: [u8; ID_BYTES - 1] = [0xee; ID_BYTES - 1];

/// Reads trees of untrusted objects, the root last. See [`pack`] for the format.
///
/// # Panics
/// If a tree is accepted whose content has another root.
pub fn nodes(bytes: &[u8]) {
    let (mut objects, ids) = unpack(bytes);
    for object in &ids {
        let _ = links(&objects.read_as(Kind::Node, object).unwrap());
    }
    for root in &ids {
        read_list(&mut objects, root);
        read_map(&mut objects, root);
    }
}

fn read_list(objects: &mut Memory, root: &ObjectId) {
    let Ok(list) = List::open(objects, root) else { return };
    assert_eq!(list.write(objects).unwrap(), *root, "a second way to write a root");
    assert!(links(&objects.read_as(Kind::Node, root).unwrap()).is_ok());
    let _ = list.get(objects, list.len() / 2);
    let _ = list.get(objects, list.len());
    let read: Result<Vec<Item>, _> = list.iter(objects, 0..list.len().min(MAX_ITEMS)).collect();
    let mut changed = list.clone();
    let _ = changed.splice(objects, list.len() / 3..list.len() / 2, vec![item(7)]);
    let _ = diff_lists(&list, &changed, objects);
    let Ok(items) = read else { return };
    assert_eq!(items.len() as u64, list.len().min(MAX_ITEMS));
    if list.len() <= MAX_ITEMS {
        let mut again = List::new();
        again.extend(objects, items).unwrap();
        assert_eq!(again.write(objects).unwrap(), *root, "one content, two roots");
    }
}

fn read_map(objects: &mut Memory, root: &ObjectId) {
    let Ok(map) = Map::open(objects, root) else { return };
    assert_eq!(map.write(objects).unwrap(), *root, "a second way to write a root");
    let _ = (map.get(objects, b"a"), map.get(objects, b"key/01"));
    let _ = map.prefix(objects, b"key/").take(10).count();
    let most = usize::try_from(MAX_ITEMS).unwrap();
    let read: Result<Vec<_>, _> = map.iter(objects).take(most).collect();
    let mut changed = map.clone();
    let _ =
        changed.apply(objects, BTreeMap::from([(Bytes::from_static(b"key/02"), Some(item(7)))]));
    let _ = diff_maps(&map, &changed, objects).take(most).count();
    let Ok(entries) = read else { return };
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys do not rise");
    if map.len() < MAX_ITEMS {
        assert_eq!(entries.len() as u64, map.len());
        let mut again = Map::new();
        again
            .apply(objects, entries.into_iter().map(|(key, item)| (key, Some(item))).collect())
            .unwrap();
        assert_eq!(again.write(objects).unwrap(), *root, "one content, two roots");
    }
}

/// Encodes objects as an input of [`nodes`]: each as its length in two bytes and its bytes, with
/// ids of earlier objects replaced by placeholders, so that the parent of a changed node still
/// finds it.
#[must_use]
pub fn pack(objects: &[(ObjectId, Object)]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (_, object) in objects {
        let mut bytes = object.bytes.to_vec();
        for (number, (id, _)) in (0..=u8::MAX).zip(objects) {
            let mut placeholder = PLACEHOLDER.to_vec();
            placeholder.push(number);
            replace(&mut bytes, id.as_bytes(), &placeholder);
        }
        packed.extend_from_slice(&u16::try_from(bytes.len()).unwrap().to_le_bytes());
        packed.extend_from_slice(&bytes);
    }
    packed
}

/// Decodes the objects of an input, and their ids in order.
fn unpack(bytes: &[u8]) -> (Memory, Vec<ObjectId>) {
    let (mut objects, mut ids, mut rest) = (Memory::new(), Vec::new(), bytes);
    while let Some((len, after)) = rest.split_first_chunk::<2>() {
        let (object, after) = after.split_at(after.len().min(u16::from_le_bytes(*len).into()));
        let object = with_ids(object, &ids);
        ids.push(objects.write(Kind::Node, object.into()).unwrap());
        rest = after;
    }
    (objects, ids)
}

fn with_ids(bytes: &[u8], ids: &[ObjectId]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(window) = bytes.get_mut(at..at + ID_BYTES) {
        let id = window.strip_prefix(&PLACEHOLDER).and_then(|last| ids.get(usize::from(last[0])));
        if let Some(id) = id {
            window.copy_from_slice(id.as_bytes());
            at += ID_BYTES - 1;
        }
        at += 1;
    }
    bytes
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    for at in 0..bytes.len().saturating_sub(from.len() - 1) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
    }
}

/// Applies edits of four bytes each to a list and a map, and to a vector and a sorted map.
///
/// # Panics
/// If tree and model differ, or building the same content in one step gives another root.
pub fn edits(bytes: &[u8]) {
    let mut objects = Memory::new();
    let (mut list, mut items) = (List::new(), Vec::new());
    let (mut map, mut entries) = (Map::new(), BTreeMap::new());
    let (mut old_list, mut old_map) = (list.clone(), map.clone());
    for edit in bytes.as_chunks::<4>().0.iter().take(400) {
        let [what, a, b, c] = *edit;
        match what % 5 {
            0 => {
                let new: Vec<Item> =
                    (0..u32::from(a)).map(|n| item(n / 4 + u32::from(b))).collect();
                items.extend_from_slice(&new);
                list.extend(&mut objects, new).unwrap();
            }
            1 => {
                let start = (usize::from(a) * 16 + usize::from(b)) % (items.len() + 1);
                let end = (start + usize::from(c % 64)).min(items.len());
                let new: Vec<Item> =
                    (0..u32::from(c / 64)).map(|n| item(n + u32::from(b))).collect();
                list.splice(&mut objects, start as u64..end as u64, new.clone()).unwrap();
                items.splice(start..end, new);
            }
            2 | 3 => {
                let keys =
                    (0..u32::from(c) * 2).map(|n| key(u32::from(a) * 8 + n * u32::from(b % 4 + 1)));
                let new =
                    keys.map(|key| (key, (what % 5 == 2).then(|| item(u32::from(b))))).collect();
                map.apply(&mut objects, BTreeMap::clone(&new)).unwrap();
                for (key, item) in new {
                    match item {
                        Some(item) => entries.insert(key, item),
                        None => entries.remove(&key),
                    };
                }
            }
            _ => (old_list, old_map) = (list.clone(), map.clone()),
        }
    }
    check_list(&mut objects, &list, &items, &old_list);
    check_map(&mut objects, &map, &entries, &old_map);
}

fn check_list(objects: &mut Memory, list: &List, items: &[Item], old: &List) {
    let root = list.write(objects).unwrap();
    let read: Vec<Item> = list.iter(objects, 0..list.len()).map(Result::unwrap).collect();
    assert_eq!(read, items);
    let middle = items.len() / 2;
    assert_eq!(list.get(objects, middle as u64).unwrap().as_ref(), items.get(middle));
    let mut at_once = List::new();
    at_once.extend(objects, items.to_vec()).unwrap();
    assert_eq!(at_once.write(objects).unwrap(), root, "one content, two roots");
    assert_eq!(List::open(objects, &root).unwrap().len(), items.len() as u64);

    let mut patched: Vec<Item> = old.iter(objects, 0..old.len()).map(Result::unwrap).collect();
    for change in diff_lists(old, list, objects).unwrap().into_iter().rev() {
        let at = |index: u64| usize::try_from(index).unwrap();
        let new = items[at(change.new.start)..at(change.new.end)].iter().cloned();
        patched.splice(at(change.old.start)..at(change.old.end), new);
    }
    assert_eq!(patched, items, "the changes do not lead from the old list to the new one");
}

fn check_map(objects: &mut Memory, map: &Map, entries: &BTreeMap<Bytes, Item>, old: &Map) {
    let root = map.write(objects).unwrap();
    let read: BTreeMap<Bytes, Item> = map.iter(objects).map(Result::unwrap).collect();
    assert_eq!(read, *entries);
    assert_eq!(map.len(), entries.len() as u64);
    let mut at_once = Map::new();
    let all = entries.iter().map(|(key, item)| (key.clone(), Some(item.clone()))).collect();
    at_once.apply(objects, all).unwrap();
    assert_eq!(at_once.write(objects).unwrap(), root, "one content, two roots");
    let prefix = read.range(Bytes::from_static(b"k1")..Bytes::from_static(b"k2")).count();
    assert_eq!(map.prefix(objects, b"k1").count(), prefix);

    let mut patched: BTreeMap<Bytes, Item> = old.iter(objects).map(Result::unwrap).collect();
    for change in diff_maps(old, map, objects) {
        let change = change.unwrap();
        assert_eq!(patched.get(&change.key), change.old.as_ref());
        assert_ne!(change.old, change.new);
        match change.new {
            Some(item) => patched.insert(change.key, item),
            None => patched.remove(&change.key),
        };
    }
    assert_eq!(patched, *entries, "the changes do not lead from the old map to the new one");
}

fn key(number: u32) -> Bytes {
    format!("k{}", number % 3000).into()
}

/// Returns an item; some have meta and some are nodes.
#[must_use]
pub fn item(number: u32) -> Item {
    let kind = if number % 7 == 3 { Kind::Node } else { Kind::Blob };
    let id = ObjectId::of(kind, &number.to_le_bytes());
    let meta = Bytes::from(vec![b'm'; (number / 3 % 3) as usize]);
    Item { link: Link { kind, id }, meta }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_tree_is_the_tree_again() {
        let mut objects = Memory::new();
        let mut list = List::new();
        list.extend(&mut objects, (0..200).map(item).collect()).unwrap();
        let root = list.write(&mut objects).unwrap();
        let objects = objects.into_objects();
        assert!(objects.len() > 10, "several levels");
        let unpacked = unpack(&pack(&objects));
        assert_eq!(List::open(&unpacked.0, &root).unwrap(), list);
        assert_eq!(unpacked.1, objects.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    }
}
