//! The objects of a bucket in memory, with their past states.

use std::collections::BTreeMap;

use bytes::Bytes;
use turntree::transfer::remote::{Key, Listed, Version};

use crate::sim::Random;

/// The objects of a bucket at a moment.
#[derive(Debug, Clone, Default)]
pub struct Saved(BTreeMap<Key, Vec<State>>);

/// Objects with their past states. A version is never reused, even after a deletion.
#[derive(Debug, Default)]
pub(super) struct Objects {
    states: BTreeMap<Key, Vec<State>>,
    changes: u64,
}

#[derive(Debug, Clone)]
struct State {
    /// The change that made it.
    change: u64,
    object: Option<Object>,
}

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) bytes: Bytes,
    pub(super) version: Version,
}

/// A change that a call requests.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Put { key: Key, bytes: Bytes, condition: Condition },
    Delete(Vec<Key>),
}

/// The condition of a write.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    None,
    IsMissing,
    Is(Version),
}

impl Objects {
    pub(super) fn get(&self, key: &Key) -> Option<&Object> {
        self.states.get(key)?.last()?.object.as_ref()
    }

    /// Applies a change. Returns the version that it wrote, or `None` if the condition of a write
    /// does not hold.
    pub(super) fn apply(&mut self, change: Change) -> Option<Version> {
        match change {
            Change::Put { key, bytes, condition } => {
                let there = self.get(&key).map(|object| &object.version);
                let holds = match &condition {
                    Condition::None => true,
                    Condition::IsMissing => there.is_none(),
                    Condition::Is(version) => there == Some(version),
                };
                holds.then(|| self.put(key, bytes))
            }
            Change::Delete(keys) => {
                keys.into_iter().for_each(|key| self.delete(key));
                None
            }
        }
    }

    fn put(&mut self, key: Key, bytes: Bytes) -> Version {
        let version = Version(format!("v{}", self.changes + 1));
        self.push(key, Some(Object { bytes, version: version.clone() }));
        version
    }

    fn delete(&mut self, key: Key) {
        if self.get(&key).is_some() {
            self.push(key, None);
        }
    }

    fn push(&mut self, key: Key, object: Option<Object>) {
        self.changes += 1;
        let change = self.changes;
        self.states.entry(key).or_default().push(State { change, object });
    }

    /// The objects with a prefix after a key, each as it was at most `lag` changes ago.
    pub(super) fn list(
        &self,
        prefix: &str,
        after: Option<&Key>,
        lag: u64,
        random: &mut Random,
    ) -> Vec<Listed> {
        let asked =
            |key: &Key| key.as_str().starts_with(prefix) && after.is_none_or(|after| key > after);
        let mut listed = Vec::new();
        for (key, states) in self.states.iter().filter(|(key, _)| asked(key)) {
            let age = if lag == 0 { 0 } else { random.draw() % (lag + 1) };
            let moment = self.changes.saturating_sub(age);
            let state = states.iter().rev().find(|state| state.change <= moment);
            if let Some(object) = state.and_then(|state| state.object.as_ref()) {
                let (size, version) = (object.bytes.len() as u64, object.version.clone());
                listed.push(Listed { key: key.clone(), size, version });
            }
        }
        listed
    }

    pub(super) fn all(&self) -> BTreeMap<Key, Bytes> {
        let there = |key: &Key| Some((key.clone(), self.get(key)?.bytes.clone()));
        self.states.keys().filter_map(there).collect()
    }

    pub(super) fn save(&self) -> Saved {
        Saved(self.states.clone())
    }

    /// Restores saved objects with their versions. Later versions are still new.
    pub(super) fn restore(&mut self, saved: &Saved) {
        self.states = saved.0.clone();
    }
}
