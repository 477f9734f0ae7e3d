//! The values of refs by name: the refs as they were read, and the changes since.
//!
//! A manifest lists refs in order, so they are read into one sorted array: a map of 50,000 refs
//! would take longer to build than a command takes otherwise. Every commit makes a new table, as
//! open transactions and readers keep the old one, so changes are in a persistent map, and copies
//! share both. Otherwise each commit of an import would copy the refs of all sessions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::object::RefValue;

/// The values of refs by full name. A copy takes constant time, a change O(log n).
#[derive(Clone, Default)]
pub struct RefValues {
    read: Arc<SortedRefs>,
    /// Values that differ from those that were read; `None` for a deleted ref.
    changed: RedBlackTreeMapSync<String, Option<RefValue>>,
    len: usize,
}

/// Refs in ascending order of names.
#[derive(Debug, Default)]
pub(super) struct SortedRefs {
    /// All names, one after the other.
    names: String,
    /// Where each name ends, with the value.
    entries: Vec<(usize, RefValue)>,
}

impl SortedRefs {
    /// Appends a ref. Returns false, without appending it, unless its name comes after all others.
    pub(super) fn push(&mut self, name: &str, value: RefValue) -> bool {
        let last = self.entries.len().checked_sub(1).and_then(|at| self.name(at));
        if last.is_some_and(|last| last >= name) {
            return false;
        }
        self.names.push_str(name);
        self.entries.push((self.names.len(), value));
        true
    }

    fn name(&self, at: usize) -> Option<&str> {
        let start = match at.checked_sub(1) {
            Some(before) => self.entries.get(before)?.0,
            None => 0,
        };
        self.names.get(start..self.entries.get(at)?.0)
    }

    fn get(&self, name: &str) -> Option<&RefValue> {
        let at = self.first_from(name);
        let (_, value) = self.entries.get(at)?;
        (self.name(at) == Some(name)).then_some(value)
    }

    /// The number of refs before `name`.
    fn first_from(&self, name: &str) -> usize {
        let (mut from, mut to) = (0, self.entries.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.name(middle).is_some_and(|it| it < name) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    fn from(&self, at: usize) -> impl Iterator<Item = (&str, &RefValue)> {
        let entries = self.entries.iter().enumerate().skip(at);
        entries.filter_map(|(at, (_, value))| Some((self.name(at)?, value)))
    }
}

impl RefValues {
    /// The number of refs.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is no ref.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of the ref `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RefValue> {
        match self.changed.get(name) {
            Some(changed) => changed.as_ref(),
            None => self.read.get(name),
        }
    }

    /// True if the ref `name` has a value.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RefValue)> {
        self.from("")
    }

    /// The names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// The values, ordered by name.
    pub fn values(&self) -> impl Iterator<Item = &RefValue> {
        self.iter().map(|(_, value)| value)
    }

    /// The refs whose names begin with `prefix`, ordered by name.
    pub fn starting_with<'v>(
        &'v self,
        prefix: &str,
    ) -> impl Iterator<Item = (&'v str, &'v RefValue)> {
        self.from(prefix).take_while(move |(name, _)| name.starts_with(prefix))
    }

    pub(crate) fn insert(&mut self, name: String, value: RefValue) {
        self.len += usize::from(!self.contains_key(&name));
        self.changed.insert_mut(name, Some(value));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.len -= usize::from(self.contains_key(name));
        if self.read.get(name).is_some() {
            self.changed.insert_mut(name.to_owned(), None);
        } else {
            self.changed.remove_mut(name);
        }
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&str) -> bool) {
        let gone: Vec<String> =
            self.keys().filter(|name| !stays(name)).map(str::to_owned).collect();
        for name in gone {
            self.remove(&name);
        }
    }

    /// The refs from `first` on, ordered by name.
    fn from<'v>(&'v self, first: &str) -> impl Iterator<Item = (&'v str, &'v RefValue)> {
        let read = self.read.from(self.read.first_from(first)).peekable();
        let changed = self.changed.range::<str, _>((Bound::Included(first), Bound::Unbounded));
        let changed = changed.map(|(name, value)| (name.as_str(), value.as_ref())).peekable();
        Merged { read, changed }
    }
}

/// Refs that were read, with the changes applied.
struct Merged<R: Iterator, C: Iterator> {
    read: Peekable<R>,
    changed: Peekable<C>,
}

impl<'v, R, C> Iterator for Merged<R, C>
where
    R: Iterator<Item = (&'v str, &'v RefValue)>,
    C: Iterator<Item = (&'v str, Option<&'v RefValue>)>,
{
    type Item = (&'v str, &'v RefValue);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.read.peek(), self.changed.peek()) {
                (_, None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((read, _)), Some((changed, _))) => read.cmp(changed),
            };
            if order.is_lt() {
                return self.read.next();
            }
            if order.is_eq() {
                self.read.next();
            }
            if let (name, Some(value)) = self.changed.next()? {
                return Some((name, value));
            }
        }
    }
}

impl PartialEq for RefValues {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for RefValues {}

impl fmt::Debug for RefValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl From<SortedRefs> for RefValues {
    fn from(read: SortedRefs) -> Self {
        let len = read.entries.len();
        Self { read: Arc::new(read), changed: RedBlackTreeMapSync::default(), len }
    }
}

impl FromIterator<(String, RefValue)> for RefValues {
    fn from_iter<I: IntoIterator<Item = (String, RefValue)>>(values: I) -> Self {
        let values: BTreeMap<String, RefValue> = values.into_iter().collect();
        let mut sorted = SortedRefs::default();
        for (name, value) in values {
            sorted.push(&name, value);
        }
        sorted.into()
    }
}

/// A map that owns its entries.
impl From<&RefValues> for BTreeMap<String, RefValue> {
    fn from(values: &RefValues) -> Self {
        values.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    turntree_properties::properties! {
        #[test]
        fn it_is_a_map(
            first in prop::collection::btree_map("[ab]{0,3}", 0u8..4, 0..12),
            changes in prop::collection::vec(("[ab]{0,3}", prop::option::of(0u8..4)), 0..24),
            prefix in "[ab]{0,2}",
        ) {
            let value = |number: u8| RefValue::Symbolic(number.to_string());
            let mut model: BTreeMap<String, RefValue> =
                first.into_iter().map(|(name, number)| (name, value(number))).collect();
            let mut values: RefValues = model.clone().into_iter().collect();
            let before = (model.clone(), values.clone());
            for (name, number) in changes {
                match number.map(value) {
                    Some(value) => {
                        model.insert(name.clone(), value.clone());
                        values.insert(name, value);
                    }
                    None => {
                        model.remove(&name);
                        values.remove(&name);
                    }
                }
            }
            prop_assert_eq!(BTreeMap::from(&values), model.clone());
            prop_assert_eq!(values.len(), model.len());
            prop_assert_eq!(&values, &model.clone().into_iter().collect::<RefValues>());
            prop_assert_eq!(BTreeMap::from(&before.1), before.0);
            for name in ["", "a", "ab", "bbb"] {
                prop_assert_eq!(values.get(name), model.get(name));
            }
            let found: Vec<&str> = values.starting_with(&prefix).map(|(name, _)| name).collect();
            let wanted = model.keys().filter(|name| name.starts_with(&prefix));
            prop_assert_eq!(found, wanted.map(String::as_str).collect::<Vec<_>>());
        }
    }
}
