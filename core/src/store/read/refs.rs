//! The refs after an operation, and the compare-and-swap that changes them.

use std::fmt;

use super::ref_values::{RefValues, SortedRefs};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{MAX_PARENTS, ObjectId, Operation, Reader, RefChange, RefValue, Writer};

/// Most refs in a store, and most that one operation changes.
pub(crate) const MAX_REFS: usize = 1 << 20;

/// Most operations that one operation joins; the newest operation is a parent too.
pub(crate) const MAX_JOINED: usize = MAX_PARENTS - 1;

/// Most bytes in the name of a ref.
pub(crate) const MAX_REF_NAME_BYTES: usize = 1024;

/// Every ref, and the operation after which they have these values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefTable {
    /// The values of refs by full name.
    pub values: RefValues,
    /// The newest operation; `None` in a new store.
    pub operation: Option<ObjectId>,
    /// Its sequence; 0 in a new store.
    pub sequence: u64,
}

/// A change of one ref, conditional on its current value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefUpdate {
    /// The full name.
    pub name: String,
    /// The value that the ref must have now.
    pub expected: Expected,
    /// The new value; `None` deletes the ref.
    pub new: Option<RefValue>,
}

/// The condition of a compare-and-swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Any value, or no ref.
    Any,
    /// No ref with this name.
    Absent,
    /// Exactly this value.
    Value(RefValue),
}

/// The operation that a commit records. Parents, sequence and old values come from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationDraft {
    /// Time in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// The actor.
    pub actor: String,
    /// The reason.
    pub reason: String,
    /// The changes, each ref at most once. They are applied atomically.
    pub changes: Vec<RefUpdate>,
    /// The operation that this one undoes, if any.
    pub undoes: Option<ObjectId>,
    /// Further parents: operations outside the line of the newest one. The new operation joins the
    /// diverged lines.
    pub joins: Vec<ObjectId>,
}

impl RefTable {
    /// Returns the value of the ref `name`.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&RefValue> {
        self.values.get(name)
    }

    /// Builds the operation of `draft` on top of these refs. `joined` is the highest sequence of
    /// the joined operations.
    ///
    /// # Errors
    /// `Conflict` when a ref does not have its expected value, `InvalidInput` for a ref named twice
    /// or a bad name, `LimitExceeded` for too many refs, `Corrupt` when the last sequence number is
    /// used.
    pub(in crate::store) fn operation(
        &self,
        draft: &OperationDraft,
        joined: u64,
    ) -> Result<Operation> {
        if draft.joins.len() > MAX_JOINED {
            let (limit, found) = (MAX_JOINED as u64, draft.joins.len() as u64);
            return Err(Error::limit("operations that one joins", limit, found));
        }
        let mut changes =
            draft.changes.iter().map(|update| self.change(update)).collect::<Result<Vec<_>>>()?;
        changes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for pair in changes.windows(2) {
            if let [a, b] = pair
                && a.name == b.name
            {
                return Err(Error::invalid(format!("ref '{}' is changed twice", a.name)));
            }
        }
        let born = changes.iter().filter(|change| change.old.is_none() && change.new.is_some());
        let refs = (self.values.len() + born.count()).max(changes.len());
        if refs > MAX_REFS && changes.iter().any(|change| change.new.is_some()) {
            return Err(Error::limit("refs", MAX_REFS as u64, refs as u64));
        }
        let sequence = self.sequence.max(joined).checked_add(1).ok_or_else(|| {
            Error::corrupt("the newest operation", "a number below the maximum", self.sequence)
        })?;
        Ok(Operation {
            parents: self.operation.into_iter().chain(draft.joins.iter().copied()).collect(),
            sequence,
            time_micros: draft.time_micros,
            actor: draft.actor.clone(),
            reason: draft.reason.clone(),
            changes,
            undoes: draft.undoes,
        })
    }

    /// Applies the changes of `operation`.
    pub(in crate::store) fn apply(&mut self, id: ObjectId, operation: &Operation) {
        for change in &operation.changes {
            match &change.new {
                Some(value) => self.values.insert(change.name.clone(), value.clone()),
                None => self.values.remove(&change.name),
            };
        }
        self.operation = Some(id);
        self.sequence = operation.sequence;
    }

    /// Returns true if `operation` is the direct successor of these refs.
    pub(in crate::store) fn precedes(&self, operation: &Operation) -> bool {
        operation.sequence > self.sequence && operation.parents.first() == self.operation.as_ref()
    }

    /// Encodes the refs as canonical CBOR: names and values alternating, in ascending order of
    /// names.
    pub(in crate::store) fn encode_values(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.array(2 * self.values.len());
        for (name, value) in self.values.iter() {
            writer.text(name);
            match value {
                RefValue::Object(id) => writer.array(2).uint(0).bytes(id.as_bytes()),
                RefValue::Symbolic(target) => writer.array(2).uint(1).text(target),
            };
        }
        writer.finish()
    }

    /// Decodes the output of [`RefTable::encode_values`].
    pub(in crate::store) fn decode_values(bytes: &[u8]) -> Result<RefValues> {
        let mut reader = Reader::new("ref table", bytes);
        let mut values = SortedRefs::default();
        for _ in 0..reader.array_up_to(2 * MAX_REFS as u64)? / 2 {
            let name = reader.text()?;
            reader.array(2)?;
            let value = match reader.uint_up_to(1)? {
                0 => ObjectId::from_slice(reader.bytes()?)
                    .map(RefValue::Object)
                    .ok_or_else(|| reader.malformed("an id"))?,
                _ => RefValue::Symbolic(reader.text()?.to_owned()),
            };
            if !values.push(name, value) {
                return Err(reader.refuse("names in ascending order", name));
            }
        }
        reader.finish()?;
        Ok(values.into())
    }

    fn change(&self, update: &RefUpdate) -> Result<RefChange> {
        if update.name.is_empty() || update.name.len() > MAX_REF_NAME_BYTES {
            let message = format!("a ref has a name of 1 to {MAX_REF_NAME_BYTES} bytes");
            return Err(Error::invalid(message));
        }
        let old = self.value(&update.name);
        let expected = match &update.expected {
            Expected::Any => old,
            Expected::Absent => None,
            Expected::Value(value) => Some(value),
        };
        if old != expected {
            let (name, expected, old) = (&update.name, DisplayValue(expected), DisplayValue(old));
            let message = format!("ref '{name}': expected {expected}, found {old}");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let (name, old, new) = (update.name.clone(), old.cloned(), update.new.clone());
        Ok(RefChange { name, old, new })
    }
}

/// A value of a ref, for people.
struct DisplayValue<'a>(Option<&'a RefValue>);

impl fmt::Display for DisplayValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("no such ref"),
            Some(RefValue::Object(id)) => write!(f, "{id}"),
            Some(RefValue::Symbolic(name)) => write!(f, "a symbolic ref to '{name}'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    fn draft(changes: Vec<RefUpdate>) -> OperationDraft {
        let (actor, reason) = (String::new(), String::new());
        OperationDraft { time_micros: 0, actor, reason, changes, undoes: None, joins: Vec::new() }
    }

    fn update(name: &str, expected: Expected, new: Option<RefValue>) -> RefUpdate {
        RefUpdate { name: name.into(), expected, new }
    }

    #[test]
    fn a_change_happens_only_from_the_expected_value() {
        let mut table = RefTable::default();
        let value = RefValue::Object(ObjectId::of(Kind::Commit, b"x"));
        let create = draft(vec![update("a", Expected::Absent, Some(value.clone()))]);
        let operation = table.operation(&create, 0).unwrap();
        table.apply(ObjectId::of(Kind::Operation, &operation.encode()), &operation);
        assert_eq!((table.value("a"), table.sequence), (Some(&value), 1));

        let error = table.operation(&create, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().starts_with("ref 'a': expected no such ref, found "));
        let delete = draft(vec![update("a", Expected::Value(value), None)]);
        let operation = table.operation(&delete, 0).unwrap();
        table.apply(ObjectId::of(Kind::Operation, &operation.encode()), &operation);
        assert_eq!((table.value("a"), table.sequence), (None, 2));
    }

    #[test]
    fn an_operation_joins_no_more_than_can_be_read_again() {
        let ids = |count| {
            (0..count).map(|n: usize| ObjectId::of(Kind::Operation, n.to_string().as_bytes()))
        };
        let joining = |count| OperationDraft { joins: ids(count).collect(), ..draft(Vec::new()) };
        let table = RefTable { operation: ids(1).next(), sequence: 3, ..RefTable::default() };
        let most = table.operation(&joining(MAX_JOINED), 9).unwrap();
        assert_eq!(most.sequence, 10);
        assert_eq!(Operation::decode(&most.encode()).unwrap(), most);
        let error = table.operation(&joining(MAX_JOINED + 1), 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn one_operation_can_set_the_refs_of_many_sessions() {
        let value = RefValue::Object(ObjectId::of(Kind::Commit, b"x"));
        let name = |number: u32| format!("refs/heads/{number:06}/main");
        let all = (0..70_000).map(|it| update(&name(it), Expected::Absent, Some(value.clone())));
        let mut table = RefTable::default();
        let operation = table.operation(&draft(all.collect()), 0).unwrap();
        let bytes = operation.encode();
        assert_eq!(Operation::decode(&bytes).unwrap(), operation);
        table.apply(ObjectId::of(Kind::Operation, &bytes), &operation);
        assert_eq!(RefTable::decode_values(&table.encode_values()).unwrap(), table.values);
        assert_eq!(table.values.len(), 70_000);
    }

    #[test]
    fn a_ref_is_changed_once_in_an_operation() {
        let twice = vec![update("a", Expected::Any, None), update("a", Expected::Any, None)];
        let error = RefTable::default().operation(&draft(twice), 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_table_has_each_name_once_and_in_order() {
        for names in [["b", "a"], ["a", "a"]] {
            let mut writer = Writer::new();
            writer.array(4);
            for name in names {
                writer.text(name).array(2).uint(1).text("HEAD");
            }
            assert!(RefTable::decode_values(&writer.finish()).is_err(), "{names:?}");
        }
    }

    #[test]
    fn a_table_round_trips() {
        let mut table = RefTable::default();
        table.values.insert("HEAD".into(), RefValue::Symbolic("heads/a".into()));
        table.values.insert("a".into(), RefValue::Object(ObjectId::of(Kind::Tag, b"x")));
        let bytes = table.encode_values();
        assert_eq!(RefTable::decode_values(&bytes).unwrap(), table.values);
        for len in 0..bytes.len() {
            assert!(RefTable::decode_values(&bytes[..len]).is_err());
        }
    }
}
