//! Encodes the operations of a bundle, each relative to the previous one.
//!
//! ```text
//! [ids, [sequence, micros, actor, reason, undoes, [name, old, new, ...], sequence, ...]]
//!
//! ids    how those begin of commits and tags that a ref held and that are neither in the bundle nor
//!        outside: turns that were abandoned; they have the places behind those outside
//! old    its place, as the distance from what the ref held last; new: as that from old
//! ```
//!
//! So a turn on top of another costs little more than its time. Specified in
//! `format-spec/bundle.md`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use crate::error::Result;
use crate::object::{ObjectId, Reader, Writer};
use crate::repo::{BranchName, check_full_name, pin_name, tag_name};

/// Items per operation, and per change of an operation.
const OPERATION_ITEMS: usize = 6;
const CHANGE_ITEMS: usize = 3;

/// Bytes of an id prefix for an object outside of the bundle: enough to find it in a store that has
/// it. A live followed session abandons several commits per turn.
const BEGINNING_BYTES: usize = 8;

/// One operation of the source store, reduced to the refs of the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledOperation {
    /// Sequence number in that store. Numbers rise; operations on other refs are skipped.
    pub sequence: u64,
    /// Time in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// The actor.
    pub actor: String,
    /// The reason; only its first word if the rest concerned other sessions.
    pub reason: String,
    /// The sequence number of the undone operation, if this is an undo; 0 if that one was not kept.
    pub undoes: Option<u64>,
    /// The changes, in ascending order of names.
    pub changes: Vec<BundledChange>,
}

/// The change of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundledChange {
    /// The full name of a branch, tag or pin.
    pub name: String,
    /// The old value; `None` if the ref did not exist.
    pub old: Option<Held>,
    /// The new value; `None` if the ref was deleted.
    pub new: Option<Held>,
}

/// The value of a ref, by its id in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Held {
    /// A commit or tag object in the bundle or in the receiving store.
    Object(ObjectId),
    /// Prefix of the id of another object, such as an abandoned turn.
    Abandoned([u8; BEGINNING_BYTES]),
}

impl Held {
    fn prefix(&self) -> [u8; BEGINNING_BYTES] {
        match self {
            Self::Object(id) => id.as_bytes().first_chunk().copied().unwrap_or_default(),
            Self::Abandoned(beginning) => *beginning,
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(id) => id.fmt(f),
            Self::Abandoned(beginning) => {
                beginning.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// The objects that operations may name.
pub(super) struct NameableObjects<'a> {
    /// Commits and tags, both internal and external, by their ordinals.
    pub(super) ids: &'a HashMap<u32, ObjectId>,
    /// Number of internal and external objects.
    pub(super) count: u32,
    /// Sessions of the branches.
    pub(super) sessions: BTreeSet<String>,
}

impl NameableObjects<'_> {
    fn allow(&self, name: &str) -> bool {
        let known = match BranchName::from_full(name) {
            Some(branch) => self.sessions.contains(branch.session()),
            None => tag_name(name).is_some() || pin_name(name).is_some(),
        };
        known && check_full_name(name).is_ok()
    }
}

/// Encodes operations. `ordinals` has the internal and external commits and tags, of `count`
/// objects in total.
pub(super) fn encode(
    operations: &[BundledOperation],
    ordinals: &HashMap<ObjectId, u32>,
    mut count: u32,
) -> Vec<u8> {
    let (mut abandoned, mut behind) = (Vec::new(), HashMap::new());
    let mut place = |held: &Option<Held>| {
        let Some(held) = held else { return 0 };
        let known = match held {
            Held::Object(id) => ordinals.get(id).copied(),
            Held::Abandoned(_) => None,
        };
        let ordinal = known.unwrap_or_else(|| {
            *behind.entry(held.prefix()).or_insert_with(|| {
                abandoned.extend_from_slice(&held.prefix());
                count = count.saturating_add(1);
                count - 1
            })
        });
        i64::from(ordinal) + 1
    };
    let changes = operations.iter().flat_map(|operation| &operation.changes);
    let places: Vec<_> = changes.map(|change| (place(&change.old), place(&change.new))).collect();
    let mut places = places.into_iter();
    let mut writer = Writer::new();
    writer.array(2).bytes(&abandoned).array(OPERATION_ITEMS * operations.len());
    let (mut sequence, mut micros) = (0, 0_i64);
    let mut held: HashMap<&str, i64> = HashMap::new();
    for operation in operations {
        writer.uint(operation.sequence.wrapping_sub(sequence));
        writer.int(operation.time_micros.wrapping_sub(micros));
        (sequence, micros) = (operation.sequence, operation.time_micros);
        writer.text(&operation.actor).text(&operation.reason);
        writer.uint(operation.undoes.map_or(0, |undone| sequence.wrapping_sub(undone)));
        writer.array(CHANGE_ITEMS * operation.changes.len());
        for (change, (old, new)) in operation.changes.iter().zip(&mut places) {
            let before = held.insert(&change.name, new).unwrap_or_default();
            writer.text(&change.name).int(old - before).int(new - old);
        }
    }
    writer.finish()
}

/// Decodes untrusted operations and visits each. Returns their number.
///
/// # Errors
/// `Corrupt` for bytes that [`encode`] does not write, and any error of `visit`.
pub(super) fn decode(
    bytes: &[u8],
    places: &NameableObjects<'_>,
    visit: &mut dyn FnMut(BundledOperation),
) -> Result<u64> {
    let mut reader = Reader::new("the operations of the bundle", bytes);
    reader.array(2)?;
    let ids = reader.bytes()?;
    let (abandoned, []) = ids.as_chunks() else {
        return Err(reader.refuse("prefixes of ids", "an incomplete one"));
    };
    let mut known = HashSet::new();
    if !abandoned.iter().all(|beginning| known.insert(beginning)) {
        return Err(reader.refuse("prefixes of ids, each once", "a duplicate"));
    }
    let items = reader.array_up_to(u64::MAX)?;
    if !items.is_multiple_of(OPERATION_ITEMS as u64) {
        return Err(reader.refuse("whole operations", &format!("{items} items")));
    }
    let count = items / OPERATION_ITEMS as u64;
    let mut decoder =
        Decoder { places, abandoned, used: 0, held: HashMap::new(), sequence: 0, micros: 0 };
    for _ in 0..count {
        visit(decoder.operation(&mut reader)?);
    }
    if decoder.used != decoder.abandoned.len() {
        return Err(reader.malformed("ids that an operation names"));
    }
    reader.finish()?;
    Ok(count)
}

/// The state of decoding.
struct Decoder<'a> {
    places: &'a NameableObjects<'a>,
    abandoned: &'a [[u8; BEGINNING_BYTES]],
    /// Number of abandoned ids named until now.
    used: usize,
    /// The last place of each ref.
    held: HashMap<&'a str, i64>,
    sequence: u64,
    micros: i64,
}

impl<'a> Decoder<'a> {
    fn operation(&mut self, reader: &mut Reader<'a>) -> Result<BundledOperation> {
        let sequence = match reader.uint()? {
            0 => None,
            step => self.sequence.checked_add(step),
        };
        let sequence = sequence.ok_or_else(|| reader.malformed("ascending numbers"))?;
        let time_micros = self.micros.wrapping_add(reader.int()?);
        (self.sequence, self.micros) = (sequence, time_micros);
        let (actor, reason) = (reader.text()?.to_owned(), reader.text()?.to_owned());
        let undoes = match reader.uint_up_to(sequence)? {
            0 => None,
            back => Some(sequence - back),
        };
        let changes = self.changes(reader)?;
        Ok(BundledOperation { sequence, time_micros, actor, reason, undoes, changes })
    }

    fn changes(&mut self, reader: &mut Reader<'a>) -> Result<Vec<BundledChange>> {
        let items = reader.array_up_to(u64::MAX)?;
        if items == 0 || !items.is_multiple_of(CHANGE_ITEMS as u64) {
            return Err(reader.refuse("changes of refs", &format!("{items} items")));
        }
        let mut changes: Vec<BundledChange> = Vec::new();
        for _ in 0..items / CHANGE_ITEMS as u64 {
            let name = reader.text()?;
            if !self.places.allow(name) {
                return Err(reader.malformed("a branch of its sessions, a tag or a pin"));
            }
            if changes.last().is_some_and(|last| last.name.as_str() >= name) {
                return Err(reader.malformed("names in ascending order"));
            }
            let before = self.held.get(name).copied().unwrap_or_default();
            let (old, old_place) = self.value(before, reader)?;
            let (new, new_place) = self.value(old_place, reader)?;
            self.held.insert(name, new_place);
            changes.push(BundledChange { name: name.to_owned(), old, new });
        }
        Ok(changes)
    }

    /// Reads the value of a ref by its ordinal; 0 means unset.
    fn value(&mut self, from: i64, reader: &mut Reader<'a>) -> Result<(Option<Held>, i64)> {
        let place = from.checked_add(reader.int()?);
        let place = place.ok_or_else(|| reader.refuse("a place", "an overflow"))?;
        if place == 0 {
            return Ok((None, 0));
        }
        let ordinal = u32::try_from(place - 1).ok();
        let held = ordinal.and_then(|ordinal| match ordinal.checked_sub(self.places.count) {
            None => self.places.ids.get(&ordinal).copied().map(Held::Object),
            Some(at) => {
                let at = at as usize;
                self.used += usize::from(at == self.used);
                self.abandoned.get(at).filter(|_| at < self.used).copied().map(Held::Abandoned)
            }
        });
        match held {
            Some(held) => Ok((Some(held), place)),
            None => Err(reader.refuse("the place of a commit or tag", &format!("{place}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::object::Kind;

    /// Number of internal and external objects; every second one is a commit.
    const COUNT: u32 = 8;

    fn id(n: u32) -> ObjectId {
        ObjectId::of(Kind::Commit, &n.to_le_bytes())
    }

    /// Returns the value as operations record it.
    fn held(n: u32) -> Held {
        let (held, is_known) = (Held::Object(id(n)), n < COUNT && n.is_multiple_of(2));
        if is_known { held } else { Held::Abandoned(held.prefix()) }
    }

    fn commits() -> HashMap<u32, ObjectId> {
        (0..COUNT).step_by(2).map(|n| (n, id(n))).collect()
    }

    fn read(bytes: &[u8]) -> Result<Vec<BundledOperation>> {
        let mut operations = Vec::new();
        let sessions = ["s".to_owned()].into();
        let places = NameableObjects { ids: &commits(), count: COUNT, sessions };
        let count = decode(bytes, &places, &mut |operation| operations.push(operation))?;
        assert_eq!(count, operations.len() as u64);
        Ok(operations)
    }

    fn write(operations: &[BundledOperation]) -> Vec<u8> {
        let ordinals = commits().into_iter().map(|(ordinal, id)| (id, ordinal));
        encode(operations, &ordinals.collect(), COUNT)
    }

    fn any_operations() -> impl Strategy<Value = Vec<BundledOperation>> {
        // Odd numbers, and numbers from `COUNT` on, are abandoned turns.
        let value = || prop::option::of((0..COUNT + 4).prop_map(held));
        let name = prop::sample::select(vec![
            "refs/heads/s/main",
            "refs/heads/s/a",
            "refs/pins/p",
            "refs/tags/t",
        ]);
        let changes = prop::collection::btree_map(name, (value(), value()), 1..4);
        let texts = (any::<String>(), any::<String>());
        let one = (1..1_u64 << 40, any::<i64>(), texts, any::<Option<u64>>(), changes);
        prop::collection::vec(one, 0..8).prop_map(|all| {
            let mut sequence = 0;
            let operation = |(step, time_micros, (actor, reason), undoes, changes)| {
                sequence += step;
                let undoes = Option::map(undoes, |undone: u64| undone % sequence);
                let changes = std::collections::BTreeMap::into_iter(changes);
                let changes = changes.map(|(name, (old, new)): (&str, _)| BundledChange {
                    name: name.to_owned(),
                    old,
                    new,
                });
                let changes = changes.collect();
                BundledOperation { sequence, time_micros, actor, reason, undoes, changes }
            };
            all.into_iter().map(operation).collect()
        })
    }

    turntree_properties::properties! {
        #[test]
        fn operations_round_trip(operations in any_operations()) {
            prop_assert_eq!(read(&write(&operations)).unwrap(), operations);
        }

        #[test]
        fn accepted_bytes_are_the_ones_that_would_be_written(
            operations in any_operations(), at: prop::sample::Index, byte: u8,
        ) {
            let mut bytes = write(&operations);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(read) = read(&bytes) {
                prop_assert_eq!(write(&read), bytes);
            }
        }
    }

    /// An operation: sequence, undoes, and its changes.
    type Row<'a> = (u64, u64, &'a [(&'a str, i64, i64)]);

    fn rows(ids: &[u8], rows: &[Row<'_>]) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.array(2).bytes(ids).array(OPERATION_ITEMS * rows.len());
        for (sequence, undoes, changes) in rows {
            writer.uint(*sequence).int(1).text("me").text("why").uint(*undoes);
            writer.array(CHANGE_ITEMS * changes.len());
            for (name, old, new) in *changes {
                writer.text(name).int(*old).int(*new);
            }
        }
        writer.finish()
    }

    #[test]
    fn what_no_writer_writes_is_refused_with_its_place() {
        let main = "refs/heads/s/main";
        let gone: &[u8] = &held(99).prefix();
        let good: &[(&str, i64, i64)] = &[(main, 0, 1)];
        assert!(read(&rows(&[], &[(1, 1, good), (1, 0, &[(main, 0, 2)])])).is_ok());
        assert!(read(&rows(gone, &[(1, 0, &[(main, 0, 9)])])).is_ok());
        let cases: &[(&[u8], &[Row<'_>], &str)] = &[
            (&[], &[(0, 0, good)], "ascending numbers"),
            (&[], &[(1, 0, good), (0, 0, good)], "ascending numbers"),
            (&[], &[(u64::MAX, 0, good), (1, 0, good)], "ascending numbers"),
            (&[], &[(4, 5, good)], "at most 4"),
            (&[], &[(1, 0, &[])], "changes of refs"),
            (&[], &[(1, 0, &[("refs/heads/other/main", 0, 1)])], "a branch of its sessions"),
            (&[], &[(1, 0, &[("refs/heads/s/a b", 0, 1)])], "a branch of its sessions"),
            (&[], &[(1, 0, &[("HEAD", 0, 1)])], "a branch of its sessions"),
            (&[], &[(1, 0, &[("refs/tags/..", 0, 1)])], "a branch of its sessions"),
            (&[], &[(1, 0, &[(main, 0, 1), (main, 0, 1)])], "ascending order"),
            (&[], &[(1, 0, &[(main, 0, 1), ("refs/heads/s/a", 0, 1)])], "ascending order"),
            (&[], &[(1, 0, &[(main, 0, -1)])], "the place of a commit"),
            (&[], &[(1, 0, &[(main, 0, 2)])], "the place of a commit"),
            (&[], &[(1, 0, &[(main, 0, 9)])], "the place of a commit"),
            (&[], &[(1, 0, &[(main, 0, i64::MAX)])], "the place of a commit"),
            (&[], &[(1, 0, good), (1, 0, &[(main, i64::MAX, 0)])], "an overflow"),
            (gone, &[(1, 0, good)], "ids that an operation names"),
            (gone, &[(1, 0, &[(main, 0, 10)])], "the place of a commit"),
            (&gone[1..], &[(1, 0, good)], "prefixes of ids"),
        ];
        for (ids, operations, message) in cases {
            let error = read(&rows(ids, operations)).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("at byte"), "{message}: {error}");
        }
        let twice = [gone, gone].concat();
        let error = read(&rows(&twice, &[(1, 0, &[(main, 9, 1)])])).unwrap_err();
        assert!(error.to_string().contains("each once"), "{error}");
        let whole = rows(gone, &[(1, 0, &[(main, 0, 9)])]);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        assert!(read(&[whole.as_slice(), &[0]].concat()).is_err());
    }

    #[test]
    fn a_turn_on_top_of_another_costs_what_its_time_costs() {
        let operation = |n: u32| BundledOperation {
            sequence: u64::from(n),
            time_micros: i64::from(n) * 20_000_000,
            actor: "me".into(),
            reason: "snapshot".into(),
            undoes: None,
            changes: vec![BundledChange {
                name: "refs/heads/s/main".into(),
                old: (n > 1).then(|| held(2 * n - 4)),
                new: Some(held(2 * n - 2)),
            }],
        };
        let bytes = write(&(1..=3).map(operation).collect::<Vec<_>>());
        let last = write(&(1..=2).map(operation).collect::<Vec<_>>()).len();
        let words = "me".len() + "snapshot".len() + "refs/heads/s/main".len();
        assert!(bytes.len() - last <= words + 14, "{} bytes", bytes.len() - last);
    }
}
