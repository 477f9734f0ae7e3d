//! Operations: atomic changes of refs, and the chain of them that forms the reflog.

use super::ObjectId;
use super::codec::{Reader, Writer};
use super::commit::{open_structure, read_id, read_ids, write_ids};
use crate::error::Result;

/// An undo has a separate version with one more field.
const VERSION_PLAIN: u64 = 1;
const VERSION_UNDOING: usize = 2;
const FIELDS: [u64; 2] = [7, 8];

/// Maximum number of parents of an operation.
pub(crate) const MAX_PARENTS: usize = 64;
const MAX_CHANGES: u64 = 1 << 20;

/// One atomic change of refs.
///
/// Operations form a chain under the store's lock: each names the previous one. An operation with
/// several parents joins the chains of stores that were copied and diverged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The previous operations; none for the first of a store.
    pub parents: Vec<ObjectId>,
    /// One more than the highest of its parents, 1 for the first.
    pub sequence: u64,
    /// Time in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// The actor.
    pub actor: String,
    /// The reason: the command, or the caller's text.
    pub reason: String,
    /// The changes, in rising order of unique names.
    pub changes: Vec<RefChange>,
    /// The operation that this one undoes, if any.
    pub undoes: Option<ObjectId>,
}

/// The change of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefChange {
    /// The full name.
    pub name: String,
    /// The old value; `None` if the ref did not exist.
    pub old: Option<RefValue>,
    /// The new value; `None` if the ref was deleted.
    pub new: Option<RefValue>,
}

/// The value of a ref.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RefValue {
    /// A commit or a tag.
    Object(ObjectId),
    /// Another ref, by its full name; it need not exist yet.
    Symbolic(String),
}

impl Operation {
    /// Encodes the bytes that are hashed and stored.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self.undoes {
            None => writer.array(7).uint(VERSION_PLAIN),
            Some(_) => writer.array(8).uint(VERSION_UNDOING as u64),
        };
        write_ids(&mut writer, &self.parents);
        writer.uint(self.sequence).int(self.time_micros).text(&self.actor).text(&self.reason);
        writer.array(3 * self.changes.len());
        for change in &self.changes {
            writer.text(&change.name);
            write_value(&mut writer, change.old.as_ref());
            write_value(&mut writer, change.new.as_ref());
        }
        if let Some(undone) = &self.undoes {
            writer.bytes(undone.as_bytes());
        }
        writer.finish()
    }

    /// Decodes an operation.
    ///
    /// # Errors
    /// `Corrupt` unless the bytes are exactly what [`Operation::encode`] writes; `Unsupported` for
    /// a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new("operation", bytes);
        let version = open_structure(&mut reader, "operation", &FIELDS)?;
        let operation = Self {
            parents: read_ids(&mut reader, MAX_PARENTS)?,
            sequence: reader.uint()?,
            time_micros: reader.int()?,
            actor: reader.text()?.to_owned(),
            reason: reader.text()?.to_owned(),
            changes: read_changes(&mut reader)?,
            undoes: match version {
                VERSION_UNDOING => Some(read_id(&mut reader)?),
                _ => None,
            },
        };
        reader.finish()?;
        Ok(operation)
    }
}

/// Writes a value of a ref: `[0, id]`, `[1, name]`, or `[]` for none.
pub(crate) fn write_value(writer: &mut Writer, value: Option<&RefValue>) {
    match value {
        None => writer.array(0),
        Some(RefValue::Object(id)) => writer.array(2).uint(0).bytes(id.as_bytes()),
        Some(RefValue::Symbolic(name)) => writer.array(2).uint(1).text(name),
    };
}

/// Reads a value that [`write_value`] wrote.
pub(crate) fn read_value(reader: &mut Reader<'_>) -> Result<Option<RefValue>> {
    match reader.array_up_to(2)? {
        0 => Ok(None),
        2 => match reader.uint_up_to(1)? {
            0 => Ok(Some(RefValue::Object(read_id(reader)?))),
            _ => Ok(Some(RefValue::Symbolic(reader.text()?.to_owned()))),
        },
        len => Err(reader.refuse("a value of a ref", &format!("an array of {len}"))),
    }
}

fn read_changes(reader: &mut Reader<'_>) -> Result<Vec<RefChange>> {
    let items = reader.array_up_to(3 * MAX_CHANGES)?;
    if items % 3 != 0 {
        return Err(reader.refuse("names with two values each", &format!("{items} items")));
    }
    let mut changes: Vec<RefChange> = Vec::new();
    for _ in 0..items / 3 {
        let name = reader.text()?;
        if changes.last().is_some_and(|last| last.name.as_str() >= name) {
            return Err(reader.malformed("names in ascending order"));
        }
        let (old, new) = (read_value(reader)?, read_value(reader)?);
        changes.push(RefChange { name: name.to_owned(), old, new });
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Option<RefValue>> {
        prop_oneof![
            Just(None),
            any::<[u8; 32]>().prop_map(|id| Some(RefValue::Object(ObjectId::from_bytes(id)))),
            any::<String>().prop_map(|name| Some(RefValue::Symbolic(name))),
        ]
    }

    fn any_operation() -> impl Strategy<Value = Operation> {
        let changes =
            prop::collection::btree_map(any::<String>(), (any_value(), any_value()), 0..4);
        let parents = prop::collection::vec(any::<[u8; 32]>(), 0..3);
        let undoes = prop::option::of(any::<[u8; 32]>());
        let texts = (any::<String>(), any::<String>());
        (parents, any::<u64>(), any::<i64>(), texts, changes, undoes).prop_map(
            |(parents, sequence, time_micros, (actor, reason), changes, undoes)| Operation {
                parents: parents.into_iter().map(ObjectId::from_bytes).collect(),
                sequence,
                time_micros,
                actor,
                reason,
                changes: changes
                    .into_iter()
                    .map(|(name, (old, new))| RefChange { name, old, new })
                    .collect(),
                undoes: undoes.map(ObjectId::from_bytes),
            },
        )
    }

    turntree_properties::properties! {
        #[test]
        fn an_operation_round_trips(operation in any_operation()) {
            prop_assert_eq!(Operation::decode(&operation.encode()).unwrap(), operation);
        }

        #[test]
        fn accepted_bytes_are_the_ones_that_would_be_written(
            operation in any_operation(), at: prop::sample::Index, byte: u8,
        ) {
            let mut bytes = operation.encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(decoded) = Operation::decode(&bytes) {
                prop_assert_eq!(decoded.encode(), bytes);
            }
        }
    }

    #[test]
    fn every_ref_is_changed_once_and_in_order() {
        let change = |name: &str| RefChange { name: name.into(), old: None, new: None };
        for (names, accepted) in [(["a", "b"], true), (["b", "a"], false), (["a", "a"], false)] {
            let operation = Operation {
                parents: Vec::new(),
                sequence: 1,
                time_micros: 0,
                actor: String::new(),
                reason: String::new(),
                changes: names.map(change).to_vec(),
                undoes: None,
            };
            assert_eq!(Operation::decode(&operation.encode()).is_ok(), accepted, "{names:?}");
        }
    }
}
