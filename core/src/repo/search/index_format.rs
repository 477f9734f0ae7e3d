//! The format of a history index: pairs of trees, and the changes between the two.
//!
//! The number of an id in the pack is its ordinal doubled. Any other id is in a table; its number
//! is the index there doubled, plus one. Numbers are varints, mostly differences from the previous
//! number. Names and keys are numbers in a table. The result compresses well. Specified in
//! `format-spec/changes.md`.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::OnceLock;

use bytes::Bytes;

use super::turn_changes::{SectionDelta, TurnChanges};
use crate::context::{SectionChange, Shape};
use crate::object::{ID_BYTES, Kind, ObjectId, push_varint, take_varint, unzigzag, zigzag};
use crate::store::{DerivedFile, PackHandle};
use crate::tree::{Item, Link, MultisetChange, MultisetChanges};

/// The size in bytes at which a part of records ends.
const PART_BYTES: usize = 64 << 10;

/// The approximate maximum memory of a decoded record, in bytes. Larger records are not written,
/// and the trees are walked instead.
const MAX_RECORD_MEMORY: usize = 256 << 20;

/// The approximate memory of a section, an entry of a map and an item of a list, without names and
/// keys.
const SECTION_MEMORY: usize = 128;
const ENTRY_MEMORY: usize = 256;
const ITEM_MEMORY: usize = 128;

/// The codes for the changes of a section.
const UNTOLD: u8 = 0;
const BLOB: u8 = 1;
const LIST: u8 = 2;
const MAP: u8 = 3;

/// The bits for the sides that an entry has.
const HAS_OLD: u8 = 1;
const HAS_NEW: u8 = 2;

/// Values with numbers, in the order of their first use.
struct NumberedValues<T> {
    values: Vec<T>,
    numbers: HashMap<T, u64>,
}

impl<T: Clone + Eq + Hash> NumberedValues<T> {
    fn new() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, value: &T) -> u64 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.values.len() as u64;
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }
}

/// Writes the index of a pack.
pub(super) struct IndexWriter<'p> {
    pack: &'p PackHandle,
    texts: NumberedValues<Bytes>,
    others: NumberedValues<ObjectId>,
    /// For each record: the new tree, the old tree plus one, and its bytes.
    records: Vec<(u64, u64, u64)>,
    /// The parts, each with its number of records.
    parts: Vec<(u64, Vec<u8>)>,
}

impl<'p> IndexWriter<'p> {
    pub(super) fn new(pack: &'p PackHandle) -> Self {
        let (texts, others) = (NumberedValues::new(), NumberedValues::new());
        Self { pack, texts, others, records: Vec::new(), parts: Vec::new() }
    }

    /// Adds the changes between two trees, unless they exceed the memory of a reader.
    pub(super) fn add(&mut self, old: Option<&ObjectId>, new: &ObjectId, changes: &TurnChanges) {
        if memory_bytes(changes) > MAX_RECORD_MEMORY {
            return;
        }
        let (new, old) = (self.id(new), old.map_or(0, |old| self.id(old) + 1));
        let mut record = Vec::new();
        // Neighbors in history have neighboring objects.
        let mut last = new;
        push_varint(&mut record, changes.len() as u64);
        for (name, change) in changes {
            self.text(&mut record, name.as_bytes());
            self.section(&mut record, &mut last, change);
        }
        self.records.push((new, old, record.len() as u64));
        match self.parts.last_mut().filter(|(_, part)| part.len() < PART_BYTES) {
            Some((records, part)) => {
                *records += 1;
                part.append(&mut record);
            }
            None => self.parts.push((1, record)),
        }
    }

    /// Returns the parts of the file; none for an empty index.
    pub(super) fn finish(self) -> Vec<Vec<u8>> {
        if self.records.is_empty() {
            return Vec::new();
        }
        let mut head = Vec::new();
        push_varint(&mut head, self.texts.values.len() as u64);
        for text in &self.texts.values {
            push_varint(&mut head, text.len() as u64);
            head.extend_from_slice(text);
        }
        push_varint(&mut head, self.others.values.len() as u64);
        self.others.values.iter().for_each(|id| head.extend_from_slice(id.as_bytes()));
        let mut records = self.records.iter();
        let mut last = 0;
        push_varint(&mut head, self.parts.len() as u64);
        for (count, _) in &self.parts {
            push_varint(&mut head, *count);
            for (new, old, bytes) in records.by_ref().take(usize::try_from(*count).unwrap_or(0)) {
                push_distance(&mut head, &mut last, *new);
                let mut from = *new;
                push_distance(&mut head, &mut from, *old);
                push_varint(&mut head, *bytes);
            }
        }
        std::iter::once(head).chain(self.parts.into_iter().map(|(_, part)| part)).collect()
    }

    fn section(&mut self, out: &mut Vec<u8>, last: &mut u64, change: &SectionDelta) {
        match change {
            SectionDelta::NotIndexed => out.push(UNTOLD),
            SectionDelta::Entries(shape, changes) => {
                out.push(if *shape == Shape::Blob { BLOB } else { MAP });
                push_varint(out, changes.len() as u64);
                for SectionChange { key, old, new } in changes {
                    self.text(out, key.as_bytes());
                    let side = |item: &Option<Item>, bit| if item.is_some() { bit } else { 0 };
                    out.push(side(old, HAS_OLD) | side(new, HAS_NEW));
                    old.iter().chain(new).for_each(|item| self.item(out, last, item));
                }
            }
            SectionDelta::Items(MultisetChanges { gone, come }) => {
                out.push(LIST);
                for side in [gone, come] {
                    push_varint(out, side.len() as u64);
                    let mut index = 0;
                    for change in side {
                        push_distance(out, &mut index, change.index);
                        self.item(out, last, &change.item);
                    }
                }
            }
        }
    }

    fn item(&mut self, out: &mut Vec<u8>, last: &mut u64, item: &Item) {
        let number = self.id(&item.link.id);
        push_distance(out, last, number);
        self.text(out, &item.meta);
    }

    fn text(&mut self, out: &mut Vec<u8>, text: &[u8]) {
        let number = self.texts.number(&Bytes::copy_from_slice(text));
        push_varint(out, number);
    }

    fn id(&mut self, id: &ObjectId) -> u64 {
        match self.pack.ordinal(id) {
            Some(ordinal) => u64::from(ordinal) << 1,
            None => self.others.number(id) << 1 | 1,
        }
    }
}

/// Estimates the memory that the changes of a turn take.
pub(super) fn memory_bytes(changes: &TurnChanges) -> usize {
    let of_section = |(name, change): &(String, SectionDelta)| {
        let of_content = match change {
            SectionDelta::NotIndexed => 0,
            SectionDelta::Entries(_, changes) => {
                changes.iter().map(|change| ENTRY_MEMORY + change.key.len()).sum()
            }
            SectionDelta::Items(changes) => ITEM_MEMORY * (changes.gone.len() + changes.come.len()),
        };
        SECTION_MEMORY + name.len() + of_content
    };
    changes.iter().map(of_section).sum()
}

/// Appends the difference of a number from the previous one.
fn push_distance(out: &mut Vec<u8>, last: &mut u64, number: u64) {
    push_varint(out, zigzag(number.wrapping_sub(*last).cast_signed()));
    *last = number;
}

fn take_distance(bytes: &mut &[u8], last: &mut u64) -> Option<u64> {
    *last = last.wrapping_add(unzigzag(take_varint(bytes)?).cast_unsigned());
    Some(*last)
}

/// The index of a pack, for queries. Code that removes content must not trust it.
#[derive(Debug)]
pub(super) struct IndexTable {
    pack: PackHandle,
    file: DerivedFile,
    texts: Vec<Bytes>,
    others: Vec<ObjectId>,
    other_numbers: HashMap<ObjectId, u64>,
    /// The numbers of records, by the new tree and the old tree plus one.
    numbers: HashMap<(u64, u64), usize>,
    records: Vec<RecordPlace>,
    /// The decompressed parts.
    parts: Vec<OnceLock<Option<Bytes>>>,
}

/// The place of a record: its trees as numbers, its part, and its bytes there.
#[derive(Debug, Clone, Copy)]
struct RecordPlace {
    new: u64,
    old: u64,
    part: usize,
    start: usize,
    end: usize,
}

impl IndexTable {
    /// Reads the header of an index; `None` if it is invalid.
    pub(super) fn open(pack: PackHandle, file: DerivedFile) -> Option<Self> {
        let head = file.part(0)?;
        let mut rest = &*head;
        let mut texts = Vec::new();
        for _ in 0..take_varint(&mut rest)? {
            let len = usize::try_from(take_varint(&mut rest)?).ok()?;
            let (text, behind) = rest.split_at_checked(len)?;
            texts.push(head.slice_ref(text));
            rest = behind;
        }
        let mut others = Vec::new();
        for _ in 0..take_varint(&mut rest)? {
            let (id, behind) = rest.split_first_chunk::<ID_BYTES>()?;
            others.push(ObjectId::from_bytes(*id));
            rest = behind;
        }
        let (mut numbers, mut records) = (HashMap::new(), Vec::new());
        let (parts, mut last) = (usize::try_from(take_varint(&mut rest)?).ok()?, 0);
        for part in 1..parts.checked_add(1).filter(|parts| *parts == file.len())? {
            let mut start = 0_usize;
            for _ in 0..take_varint(&mut rest)? {
                let new = take_distance(&mut rest, &mut last)?;
                let mut from = new;
                let old = take_distance(&mut rest, &mut from)?;
                let end = start.checked_add(usize::try_from(take_varint(&mut rest)?).ok()?)?;
                numbers.insert((new, old), records.len());
                records.push(RecordPlace { new, old, part, start, end });
                start = end;
            }
        }
        let other_numbers = others.iter().copied().zip(0..).collect();
        let parts = (0..file.len()).map(|_| OnceLock::new()).collect();
        let table = Self { pack, file, texts, others, other_numbers, numbers, records, parts };
        rest.is_empty().then_some(table)
    }

    /// Returns the changes between two trees, if this index has them.
    pub(super) fn find(&self, old: Option<&ObjectId>, new: &ObjectId) -> Option<TurnChanges> {
        self.record(*self.records.get(self.record_of(old, new)?)?)
    }

    /// Returns up to `count` changes stored after that pair: of neighboring turns, and so mostly of
    /// the turns that are queried next.
    pub(super) fn neighbors(
        &self,
        old: Option<&ObjectId>,
        new: &ObjectId,
        count: usize,
    ) -> Option<Vec<TurnChanges>> {
        let behind = self.records.get(self.record_of(old, new)? + 1..)?.iter().take(count);
        Some(behind.filter_map(|place| self.record(*place)).collect())
    }

    /// Returns the indexed pairs of trees with known ids, in storage order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Option<ObjectId>, ObjectId)> {
        self.records.iter().filter_map(|RecordPlace { new, old, .. }| {
            let old = match old.checked_sub(1) {
                Some(old) => Some(self.id(old)?),
                None => None,
            };
            Some((old, self.id(*new)?))
        })
    }

    fn record_of(&self, old: Option<&ObjectId>, new: &ObjectId) -> Option<usize> {
        let old = match old {
            Some(old) => self.number(old)?.checked_add(1)?,
            None => 0,
        };
        self.numbers.get(&(self.number(new)?, old)).copied()
    }

    fn record(&self, place: RecordPlace) -> Option<TurnChanges> {
        let part = self.parts.get(place.part)?;
        let part = part.get_or_init(|| self.file.part(place.part)).as_ref()?;
        let rest = part.get(place.start..place.end)?;
        let room = MAX_RECORD_MEMORY;
        let mut reader = RecordReader { table: self, rest, last: place.new, room };
        let changes = reader.changes()?;
        reader.rest.is_empty().then_some(changes)
    }

    fn number(&self, id: &ObjectId) -> Option<u64> {
        match self.pack.ordinal(id) {
            Some(ordinal) => Some(u64::from(ordinal) << 1),
            None => self.other_numbers.get(id).map(|number| number << 1 | 1),
        }
    }

    fn id(&self, number: u64) -> Option<ObjectId> {
        match number & 1 {
            0 => self.pack.id_at(u32::try_from(number >> 1).ok()?),
            _ => self.others.get(usize::try_from(number >> 1).ok()?).copied(),
        }
    }
}

/// Reads one record.
struct RecordReader<'t> {
    table: &'t IndexTable,
    rest: &'t [u8],
    last: u64,
    /// The memory left for the rest: a few bytes of a hostile record may name a long key.
    room: usize,
}

impl RecordReader<'_> {
    fn changes(&mut self) -> Option<TurnChanges> {
        let mut changes = TurnChanges::new();
        for _ in 0..self.take()? {
            self.take_room(SECTION_MEMORY)?;
            changes.push((self.name()?, self.section()?));
        }
        Some(changes)
    }

    fn section(&mut self) -> Option<SectionDelta> {
        match self.byte()? {
            UNTOLD => Some(SectionDelta::NotIndexed),
            BLOB => self.entries(Shape::Blob),
            MAP => self.entries(Shape::Map),
            LIST => {
                let (gone, come) = (self.items()?, self.items()?);
                Some(SectionDelta::Items(MultisetChanges { gone, come }))
            }
            _ => None,
        }
    }

    fn entries(&mut self, shape: Shape) -> Option<SectionDelta> {
        let mut changes = Vec::new();
        for _ in 0..self.take()? {
            self.take_room(ENTRY_MEMORY)?;
            let key = self.name()?;
            let sides = self.byte()?;
            let old = if sides & HAS_OLD != 0 { Some(self.item()?) } else { None };
            let new = if sides & HAS_NEW != 0 { Some(self.item()?) } else { None };
            changes.push(SectionChange { key, old, new });
        }
        Some(SectionDelta::Entries(shape, changes))
    }

    fn items(&mut self) -> Option<Vec<MultisetChange>> {
        let (mut items, mut index) = (Vec::new(), 0);
        for _ in 0..self.take()? {
            self.take_room(ITEM_MEMORY)?;
            take_distance(&mut self.rest, &mut index)?;
            items.push(MultisetChange { key: Bytes::new(), index, item: self.item()? });
        }
        Some(items)
    }

    fn item(&mut self) -> Option<Item> {
        let number = take_distance(&mut self.rest, &mut self.last)?;
        let link = Link { kind: Kind::Blob, id: self.table.id(number)? };
        Some(Item { link, meta: self.text()? })
    }

    fn name(&mut self) -> Option<String> {
        let text = self.text()?;
        self.take_room(text.len())?;
        String::from_utf8(text.to_vec()).ok()
    }

    fn take_room(&mut self, bytes: usize) -> Option<()> {
        self.room = self.room.checked_sub(bytes)?;
        Some(())
    }

    fn text(&mut self) -> Option<Bytes> {
        let number = usize::try_from(self.take()?).ok()?;
        self.table.texts.get(number).cloned()
    }

    fn take(&mut self) -> Option<u64> {
        take_varint(&mut self.rest)
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }
}
