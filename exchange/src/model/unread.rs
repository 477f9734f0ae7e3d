//! Counts records of unknown kinds, by kind.

use std::collections::BTreeMap;

/// Maximum number of kinds that are counted separately.
const MAX_KINDS: usize = 20;

/// The number of records of each unknown kind. The records are kept in the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadRecords {
    kinds: BTreeMap<String, u64>,
    others: u64,
}

impl UnreadRecords {
    /// Counts a record of `kind`.
    pub(crate) fn add(&mut self, kind: &str) {
        self.add_many(kind, 1);
    }

    /// Adds the counts of another import.
    pub fn join(&mut self, other: &Self) {
        for (kind, count) in &other.kinds {
            self.add_many(kind, *count);
        }
        self.others += other.others;
    }

    fn add_many(&mut self, kind: &str, count: u64) {
        if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(kind) {
            *self.kinds.entry(kind.to_owned()).or_default() += count;
        } else {
            self.others += count;
        }
    }

    /// Returns the kinds by name, at most 20, each with the number of its records.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, u64)> {
        self.kinds.iter().map(|(kind, count)| (kind.as_str(), *count))
    }

    /// Returns a sentence for users. `None` if every record was of a known kind.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let all = self.kinds.values().sum::<u64>() + self.others;
        let first = self.kinds.keys().next()?;
        if all == 1 {
            return Some(format!("a record of kind {first} is not read; it is kept"));
        }
        let named = self.kinds().map(|(kind, count)| format!("{kind} ({count})"));
        let more = (self.others > 0).then(|| format!("others ({})", self.others));
        let kinds: Vec<String> = named.chain(more).collect();
        Some(format!("{all} records of kind {} are not read; they are kept", kinds.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_several_imports_are_counted_together() {
        let (mut all, mut one) = (UnreadRecords::default(), UnreadRecords::default());
        assert_eq!(all.sentence(), None);
        one.add("world_state");
        all.join(&one);
        let sentence = "a record of kind world_state is not read; it is kept";
        assert_eq!(all.sentence().as_deref(), Some(sentence));
        one.add("novel");
        all.join(&one);
        let sentence = "3 records of kind novel (1), world_state (2) are not read; they are kept";
        assert_eq!(all.sentence().as_deref(), Some(sentence));
    }

    #[test]
    fn kinds_beyond_the_bound_are_counted_together() {
        let mut all = UnreadRecords::default();
        for number in 0..1000 {
            all.add(&format!("kind-{number:03}"));
        }
        assert_eq!(all.kinds().count(), MAX_KINDS);
        assert!(all.sentence().unwrap().contains("1000 records") && all.others == 980);
    }
}
