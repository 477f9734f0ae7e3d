//! Nodes and roots: encoding, strict decoding, and their links.
//!
//! ```text
//! root   [form, [run, run, ...]]      one unfinished run for each level, leaves first
//! node   [form, level, run]           one closed run
//! ```
//!
//! Decoding accepts only canonical bytes: keys must rise, repeated metas must be grouped, and a
//! node must end at the first boundary of the rule. Specified in `format-spec/tree.md`.

use std::ops::Range;

use bytes::Bytes;

use super::boundary::TreeShape;
use super::entry::{EntryRun, NodeEntry, total};
use super::run::{RunFacts, RunReceiver, check_boundaries, read_run, write_run};
use super::{Item, Link, MAX_ITEMS, MAX_LEVELS};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ID_BYTES, Kind, ObjectId, ObjectSink, ObjectSource, Reader, Writer};

/// The codes of roots and nodes of each shape.
const LIST_ROOT: u64 = 0;
const LIST_NODE: u64 = 1;
const MAP_ROOT: u64 = 2;
const MAP_NODE: u64 = 3;

/// A decoded root: the unfinished run of every level, leaves first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) shape: TreeShape,
    /// Never empty; the last run is empty only if it is the only one.
    pub(super) runs: Vec<EntryRun>,
}

impl Root {
    /// Returns the root of an empty tree.
    pub(super) fn empty(shape: TreeShape) -> Self {
        Self { shape, runs: vec![EntryRun::default()] }
    }

    /// Reads the root `id`, which must be of `shape`.
    pub(super) fn read(source: &dyn ObjectSource, shape: TreeShape, id: &ObjectId) -> Result<Self> {
        let bytes = source.read_as(Kind::Node, id)?;
        match decode(&bytes).map_err(|error| error.at(id))? {
            DecodedObject::Root(root) if root.shape == shape => Ok(root),
            other => Err(Error::corrupt(id, root_name(shape), other.name())),
        }
    }

    /// Stores the root. Its closed nodes are already stored.
    pub(super) fn write(&self, sink: &mut dyn ObjectSink) -> Result<ObjectId> {
        sink.write(Kind::Node, self.encode().into())
    }

    /// Returns the number of items in the tree.
    pub(super) fn len(&self) -> u64 {
        self.runs.iter().map(|run| total(run)).sum()
    }

    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.array(2).uint(match self.shape {
            TreeShape::List => LIST_ROOT,
            TreeShape::Map => MAP_ROOT,
        });
        writer.array(self.runs.len());
        for (level, run) in self.runs.iter().enumerate() {
            write_run(&mut writer, self.shape, level, run);
        }
        writer.finish()
    }
}

/// Stores the closed node of `level` with `run`, and returns the entry that refers to it.
pub(super) fn write_node(
    sink: &mut dyn ObjectSink,
    shape: TreeShape,
    level: usize,
    run: &[NodeEntry],
) -> Result<NodeEntry> {
    let mut writer = Writer::new();
    writer.array(3).uint(match shape {
        TreeShape::List => LIST_NODE,
        TreeShape::Map => MAP_NODE,
    });
    writer.uint(level as u64);
    write_run(&mut writer, shape, level, run);
    let id = sink.write(Kind::Node, writer.finish().into())?;
    let link = Link { kind: Kind::Node, id };
    Ok(NodeEntry {
        key: run.last().map(|entry| entry.key.clone()).unwrap_or_default(),
        item: Item { link, meta: Bytes::new() },
        count: total(run),
    })
}

/// Reads the closed node of `level` that `parent` refers to; its keys must be above `lower_bound`.
pub(super) fn read_node(
    source: &dyn ObjectSource,
    shape: TreeShape,
    level: usize,
    parent: &NodeEntry,
    floor: &[u8],
) -> Result<EntryRun> {
    check_node(Node::read(source, &parent.item.link.id)?, shape, level, parent, floor)
}

/// A closed node, with its own recorded shape and level.
#[derive(Debug, Clone)]
pub(super) struct Node {
    shape: TreeShape,
    level: usize,
    pub(super) run: EntryRun,
}

impl Node {
    /// Reads the node `id`.
    pub(super) fn read(source: &dyn ObjectSource, id: &ObjectId) -> Result<Self> {
        let bytes = source.read_as(Kind::Node, id)?;
        match decode(&bytes).map_err(|error| error.at(id))? {
            DecodedObject::Node(node) => Ok(node),
            root => Err(Error::corrupt(id, "a node below a root", root.name())),
        }
    }
}

/// Returns the run of a node, which must match `parent` at `level`; its keys must be above
/// `lower_bound`.
pub(super) fn check_node(
    node: Node,
    shape: TreeShape,
    level: usize,
    parent: &NodeEntry,
    floor: &[u8],
) -> Result<EntryRun> {
    let id = &parent.item.link.id;
    if node.shape != shape || node.level != level {
        let expected = format!("a {} of level {level}", node_name(shape));
        return Err(Error::corrupt(id, expected, DecodedObject::Node(node).name()));
    }
    let run = node.run;
    if total(&run) != parent.count {
        return Err(Error::corrupt(id, format!("{} items", parent.count), total(&run)));
    }
    let in_range = run.first().is_some_and(|entry| entry.key.as_ref() > floor)
        && run.last().is_some_and(|entry| entry.key == parent.key);
    if shape == TreeShape::Map && !in_range {
        return Err(Error::malformed(id, "keys within the range of the parent entry"));
    }
    Ok(run)
}

/// Returns the items directly in a node or root, with their keys in a map and an empty key in a
/// list; without those of nodes below it.
///
/// # Errors
/// Errors of [`links`](super::links).
pub fn items(bytes: &Bytes) -> Result<Vec<(Bytes, Item)>> {
    let run = match decode(bytes)? {
        DecodedObject::Root(root) => root.runs.into_iter().next(),
        DecodedObject::Node(Node { level, run, .. }) => (level == 0).then_some(run),
    };
    let run = run.unwrap_or_default();
    Ok(run.iter().map(|entry| (entry.key.clone(), entry.item.clone())).collect())
}

/// The content of a node object.
enum DecodedObject {
    Root(Root),
    Node(Node),
}

impl DecodedObject {
    fn name(&self) -> String {
        match self {
            Self::Root(root) => root_name(root.shape).to_owned(),
            Self::Node(Node { shape, level, .. }) => {
                format!("a {} of level {level}", node_name(*shape))
            }
        }
    }
}

fn root_name(shape: TreeShape) -> &'static str {
    match shape {
        TreeShape::List => "the root of a list",
        TreeShape::Map => "the root of a map",
    }
}

fn node_name(shape: TreeShape) -> &'static str {
    match shape {
        TreeShape::List => "list node",
        TreeShape::Map => "map node",
    }
}

fn decode(bytes: &Bytes) -> Result<DecodedObject> {
    let mut entries = EntryRuns { bytes, runs: Vec::new() };
    let NodeForm { shape, level } = read_runs(bytes, &mut entries)?;
    let runs: Vec<EntryRun> = entries.runs.into_iter().map(EntryRun::from).collect();
    Ok(match level {
        None => DecodedObject::Root(Root { shape, runs }),
        Some(level) => {
            let run = runs.into_iter().next().unwrap_or_default();
            DecodedObject::Node(Node { shape, level, run })
        }
    })
}

/// The form of a node object.
pub(super) struct NodeForm {
    shape: TreeShape,
    /// The level of a node; `None` for a root.
    level: Option<usize>,
}

/// Reads a node or root, and passes its parts to `taker`.
///
/// # Errors
/// Errors of [`links`](super::links).
pub(super) fn read_runs(bytes: &[u8], taker: &mut impl RunReceiver) -> Result<NodeForm> {
    let mut reader = Reader::new("node", bytes);
    let fields = reader.array_up_to(3)?;
    let form = reader.uint()?;
    let (shape, is_root) = match form {
        LIST_ROOT => (TreeShape::List, true),
        LIST_NODE => (TreeShape::List, false),
        MAP_ROOT => (TreeShape::Map, true),
        MAP_NODE => (TreeShape::Map, false),
        _ => return Err(Error::new(ErrorKind::Unsupported, format!("node of form {form}"))),
    };
    if fields != if is_root { 2 } else { 3 } {
        return Err(reader.refuse("the fields of its form", &fields.to_string()));
    }
    let level = if is_root {
        read_root(&mut reader, shape, taker)?;
        None
    } else {
        let level = reader.uint_up_to(MAX_LEVELS as u64 - 2)?;
        let level = usize::try_from(level).unwrap_or(MAX_LEVELS);
        let run = read_run(&mut reader, shape, level, taker)?;
        check_boundaries(&reader, &run, true)?;
        Some(level)
    };
    reader.finish()?;
    Ok(NodeForm { shape, level })
}

fn read_root(
    reader: &mut Reader<'_>,
    shape: TreeShape,
    taker: &mut impl RunReceiver,
) -> Result<()> {
    let levels = reader.array_up_to(MAX_LEVELS as u64)?;
    let mut runs = Vec::new();
    for level in 0..usize::try_from(levels).unwrap_or(MAX_LEVELS) {
        let run = read_run(reader, shape, level, taker)?;
        check_boundaries(reader, &run, false)?;
        runs.push(run);
    }
    if runs.is_empty() || runs.len() > 1 && runs.last().is_some_and(|run| run.len == 0) {
        return Err(reader.refuse("a top level with entries", "none"));
    }
    let items: u64 = runs.iter().map(|run| run.items).sum();
    if items > MAX_ITEMS {
        return Err(reader.refuse("at most 2^48 items", &items.to_string()));
    }
    check_order(reader, shape, &runs)
}

/// Checks that the keys of a map rise from the top level, which is on the left, to the leaves.
fn check_order(reader: &Reader<'_>, shape: TreeShape, runs: &[RunFacts<'_>]) -> Result<()> {
    let filled = || runs.iter().rev().filter(|run| run.len > 0);
    let mut neighbours = filled().zip(filled().skip(1));
    if shape == TreeShape::List
        || neighbours.all(|(left, right)| left.last_key.as_slice() < right.first_key)
    {
        return Ok(());
    }
    Err(reader.malformed("keys in ascending order from level to level"))
}

/// Collects runs as entries.
struct EntryRuns<'b> {
    /// The bytes being read: metas are slices of them.
    bytes: &'b Bytes,
    runs: Vec<Vec<NodeEntry>>,
}

impl EntryRuns<'_> {
    fn entry(&mut self, at: usize) -> Option<&mut NodeEntry> {
        self.runs.last_mut()?.get_mut(at)
    }
}

impl RunReceiver for EntryRuns<'_> {
    fn begin(&mut self, level: usize, ids: &[[u8; ID_BYTES]]) {
        let kind = if level == 0 { Kind::Blob } else { Kind::Node };
        let item = |id: &[u8; ID_BYTES]| Item {
            link: Link { kind, id: ObjectId::from_bytes(*id) },
            meta: Bytes::new(),
        };
        let entries = ids.iter().map(|id| NodeEntry::leaf(Bytes::new(), item(id)));
        self.runs.push(entries.collect());
    }

    fn kind(&mut self, at: usize, kind: Kind) {
        if let Some(entry) = self.entry(at) {
            entry.item.link.kind = kind;
        }
    }

    fn meta(&mut self, entries: Range<usize>, meta: &[u8]) {
        let bytes = self.bytes;
        let run = self.runs.last_mut().and_then(|run| run.get_mut(entries));
        for entry in run.unwrap_or_default() {
            entry.item.meta = bytes.slice_ref(meta);
        }
    }

    fn count(&mut self, at: usize, count: u64) {
        if let Some(entry) = self.entry(at) {
            entry.count = count;
        }
    }

    fn key(&mut self, at: usize, key: &[u8]) {
        if let Some(entry) = self.entry(at) {
            entry.key = Bytes::copy_from_slice(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::object::Memory;
    use crate::tree::boundary::Boundary;
    use crate::tree::links;

    /// An id whose words are too high to end a short node.
    const ID: [u8; ID_BYTES] = [0xff; ID_BYTES];

    fn entry(key: &str, n: u32) -> NodeEntry {
        let id = ObjectId::of(Kind::Blob, &n.to_le_bytes());
        let meta = Bytes::from(vec![b'm'; (n / 2 % 3) as usize]);
        let kind = if n.is_multiple_of(5) { Kind::Node } else { Kind::Blob };
        NodeEntry::leaf(
            Bytes::copy_from_slice(key.as_bytes()),
            Item { link: Link { kind, id }, meta },
        )
    }

    /// Roots and nodes of a list and a map of 300 items.
    fn samples() -> Vec<Bytes> {
        let mut objects = Memory::new();
        for shape in [TreeShape::List, TreeShape::Map] {
            let key =
                |n| if shape == TreeShape::Map { format!("key/{n:04}") } else { String::new() };
            let entries = (0..300).map(|n| entry(&key(n), n)).collect();
            let splice = crate::tree::splice::Splice { range: 0..0, entries };
            let root = Root::empty(shape);
            let root = crate::tree::splice::apply(&root, &mut objects, vec![splice]).unwrap();
            root.write(&mut objects).unwrap();
        }
        let mut samples: Vec<_> =
            objects.into_objects().into_iter().map(|(_, object)| object.bytes.clone()).collect();
        samples.sort_unstable();
        samples
    }

    /// Decodes the bytes and writes them again; returns the new id if they decode.
    fn written_again(bytes: &Bytes) -> Option<ObjectId> {
        let mut objects = Memory::new();
        match decode(bytes).ok()? {
            DecodedObject::Root(root) => root.write(&mut objects).ok(),
            DecodedObject::Node(Node { shape, level, run }) => {
                write_node(&mut objects, shape, level, &run).ok().map(|entry| entry.item.link.id)
            }
        }
    }

    #[test]
    fn one_changed_byte_anywhere_is_refused_or_is_another_canonical_object() {
        let samples = samples();
        let smallest = |form| {
            let of_form = samples.iter().filter(|bytes| bytes.get(1) == Some(&form));
            of_form.min_by_key(|bytes| bytes.len()).unwrap()
        };
        for sample in [0, 1, 2, 3].map(smallest) {
            assert_eq!(written_again(sample), Some(ObjectId::of(Kind::Node, sample)));
            for (at, flip) in (0..sample.len()).flat_map(|at| (1..=255_u8).map(move |f| (at, f))) {
                let mut bytes = sample.to_vec();
                bytes[at] ^= flip;
                let bytes = Bytes::from(bytes);
                if let Some(id) = written_again(&bytes) {
                    assert_eq!(id, ObjectId::of(Kind::Node, &bytes), "byte {at} ^ {flip}");
                }
            }
        }
    }

    turntree_properties::properties! {
        #[test]
        fn cut_grown_and_random_bytes_never_decode_to_something_else(
            sample: prop::sample::Index,
            at: prop::sample::Index,
            gone in 0_usize..8,
            come in prop::collection::vec(any::<u8>(), 0..8),
            noise: Vec<u8>,
        ) {
            let samples = samples();
            let mut bytes = sample.get(&samples).to_vec();
            let at = at.index(bytes.len());
            bytes.splice(at..(at + gone).min(bytes.len()), come);
            for bytes in [Bytes::from(bytes), noise.into()] {
                if let Some(id) = written_again(&bytes) {
                    prop_assert_eq!(id, ObjectId::of(Kind::Node, &bytes));
                }
            }
        }
    }

    /// Returns a root with one run of leaves whose columns `columns` writes, for a list or a map.
    fn root_of(form: u64, columns: impl Fn(&mut Writer)) -> Bytes {
        let mut writer = Writer::new();
        writer.array(2).uint(form).array(1).array(if form == MAP_ROOT { 4 } else { 3 });
        columns(&mut writer);
        writer.finish().into()
    }

    #[test]
    fn a_second_way_to_write_the_same_is_refused() {
        let two = [ID, ID].concat();
        let cases = [
            root_of(LIST_ROOT, |w| {
                w.bytes(&two).bytes(&[]).array(4).uint(1).bytes(b"m").uint(1).bytes(b"m");
            }),
            root_of(LIST_ROOT, |w| _ = w.bytes(&two).bytes(&[]).array(2).uint(1).bytes(b"m")),
            root_of(LIST_ROOT, |w| _ = w.bytes(&two).bytes(&[0, 0]).array(2).uint(2).bytes(b"")),
            root_of(LIST_ROOT, |w| _ = w.bytes(&two).bytes(&[1, 5]).array(2).uint(2).bytes(b"")),
            root_of(LIST_ROOT, |w| _ = w.bytes(&two[1..]).bytes(&[]).array(2).uint(1).bytes(b"")),
        ];
        for (n, bytes) in cases.iter().enumerate() {
            assert_eq!(links(bytes).unwrap_err().kind(), ErrorKind::Corrupt, "case {n}");
        }
        let keys = |shared, rest: &'static [u8]| {
            root_of(MAP_ROOT, move |w| {
                w.bytes(&[ID, ID].concat()).bytes(&[]).array(2).uint(2).bytes(b"");
                w.array(4).uint(0).bytes(b"ab").uint(shared).bytes(rest);
            })
        };
        assert_eq!(links(&keys(1, b"c")).unwrap().len(), 2);
        for (shared, rest) in [(0, b"ac".as_slice()), (1, b"b"), (1, b"a"), (2, b""), (3, b"c")] {
            assert!(links(&keys(shared, rest)).is_err(), "shared {shared}, rest {rest:?}");
        }
    }

    #[test]
    fn a_level_on_top_has_entries_and_an_unknown_form_is_for_a_later_version() {
        let inner = |count: u64| {
            let mut writer = Writer::new();
            writer.array(2).uint(LIST_ROOT).array(2).array(3).bytes(&[]).bytes(&[]).array(0);
            writer.array(2).bytes(&ID).array(1).uint(count);
            Bytes::from(writer.finish())
        };
        assert!(links(&inner(MAX_ITEMS)).is_ok());
        assert!(links(&inner(0)).is_err() && links(&inner(MAX_ITEMS + 1)).is_err());
        let mut objects = Memory::new();
        let id = objects.write(Kind::Node, inner(MAX_ITEMS)).unwrap();
        let mut full = crate::tree::List::open(&objects, &id).unwrap();
        let error = full.push(&mut objects, entry("", 1).item).unwrap_err();
        assert_eq!((error.kind(), full.len()), (ErrorKind::LimitExceeded, MAX_ITEMS));

        let top = [0x82, 0, 0x82, 0x83, 0x40, 0x40, 0x80, 0x82, 0x40, 0x80];
        assert!(
            links(&Bytes::copy_from_slice(&top)).unwrap_err().to_string().contains("top level")
        );
        let later = links(&Bytes::from_static(&[0x82, 4, 0x80])).unwrap_err();
        assert_eq!(later.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_run_that_the_rule_would_have_cut_elsewhere_is_refused() {
        for shape in [TreeShape::List, TreeShape::Map] {
            let run: Vec<_> = (0..100).map(|n| entry(&format!("{n:03}"), n)).collect();
            let mut boundary = Boundary::new(shape, 0);
            let end = 1 + run.iter().position(|entry| boundary.ends_with(entry)).unwrap();
            let is_read = |run: &[NodeEntry], closed: bool| {
                let mut objects = Memory::new();
                if closed {
                    write_node(&mut objects, shape, 0, run).unwrap();
                } else {
                    let runs = vec![run.to_vec().into()];
                    Root { shape, runs }.write(&mut objects).unwrap();
                }
                let (_, object) = objects.into_objects().remove(0);
                links(&object.bytes).is_ok()
            };
            for len in 0..=(end + 2).min(shape.max_entries()) {
                assert_eq!(is_read(&run[..len], true), len == end, "{shape:?}: {len} of {end}");
                assert_eq!(is_read(&run[..len], false), len < end, "{shape:?}: {len} of {end}");
            }
        }
    }

    #[test]
    fn keys_rise_from_the_top_level_of_a_root_to_its_leaves() {
        let root = |upper: &str, lower: &str| {
            let runs = [upper, lower].map(|key| vec![entry(key, 1)]);
            let [mut upper, lower] = runs;
            upper[0].item =
                Item { link: Link { kind: Kind::Node, ..upper[0].item.link }, meta: Bytes::new() };
            let root = Root { shape: TreeShape::Map, runs: vec![lower.into(), upper.into()] };
            links(&root.encode().into()).is_ok()
        };
        assert!(root("a", "b"));
        assert!(!root("b", "a") && !root("a", "a"));
    }

    #[test]
    fn a_node_that_is_not_what_its_parent_says_is_corruption() {
        let mut objects = Memory::new();
        let run: Vec<_> = (0..).map(|n| entry(&format!("{n:03}"), n)).take(32).collect();
        let mut boundary = Boundary::new(TreeShape::Map, 0);
        let end = run.iter().position(|entry| boundary.ends_with(entry)).unwrap();
        let parent = write_node(&mut objects, TreeShape::Map, 0, &run[..=end]).unwrap();
        let read = |level, parent: &NodeEntry, floor: &[u8]| {
            read_node(&objects, TreeShape::Map, level, parent, floor).map_err(|error| error.kind())
        };
        assert!(read(0, &parent, b"").is_ok());
        let corrupt = Some(ErrorKind::Corrupt);
        assert_eq!(read(1, &parent, b"").err(), corrupt);
        assert_eq!(read(0, &parent, b"000").err(), corrupt);
        assert_eq!(read(0, &NodeEntry { count: 1, ..parent.clone() }, b"").err(), corrupt);
        assert_eq!(read(0, &NodeEntry { key: "x".into(), ..parent.clone() }, b"").err(), corrupt);
        assert_eq!(
            read_node(&objects, TreeShape::List, 0, &parent, b"").err().map(|e| e.kind()),
            corrupt
        );
    }
}
