//! The values of refs by name, as a persistent map: a copy shares its entries with the original.
//!
//! Every commit makes a new table, as open transactions and readers keep the old one. With a plain
//! map each commit of an import copied the refs of all sessions.

use std::collections::BTreeMap;
use std::ops::Bound;

use rpds::RedBlackTreeMapSync;

use crate::object::RefValue;

/// The values of refs by full name. A copy takes constant time, a change O(log n).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefValues(RedBlackTreeMapSync<String, RefValue>);

impl RefValues {
    /// The number of refs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.size()
    }

    /// True if there is no ref.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the ref `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RefValue> {
        self.0.get(name)
    }

    /// True if the ref `name` has a value.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&String, &RefValue)> {
        self.0.iter()
    }

    /// The names, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.iter().map(|(name, _)| name)
    }

    /// The values, ordered by name.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &RefValue> {
        self.iter().map(|(_, value)| value)
    }

    /// The refs whose names begin with `prefix`, ordered by name.
    pub fn starting_with<'v>(
        &'v self,
        prefix: &str,
    ) -> impl Iterator<Item = (&'v String, &'v RefValue)> {
        let from = self.0.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(move |(name, _)| name.starts_with(prefix))
    }

    pub(crate) fn insert(&mut self, name: String, value: RefValue) {
        self.0.insert_mut(name, value);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove_mut(name);
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&str) -> bool) {
        let gone: Vec<String> = self.keys().filter(|name| !stays(name)).cloned().collect();
        for name in gone {
            self.remove(&name);
        }
    }

    pub(in crate::store) fn last_name(&self) -> Option<&str> {
        self.0.last().map(|(name, _)| name.as_str())
    }
}

impl FromIterator<(String, RefValue)> for RefValues {
    fn from_iter<I: IntoIterator<Item = (String, RefValue)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// A map that owns its entries.
impl From<&RefValues> for BTreeMap<String, RefValue> {
    fn from(values: &RefValues) -> Self {
        values.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}
