//! Gaps: turns whose contexts expired, which an answer cannot cover.

use std::collections::BTreeMap;
use std::fmt;

/// Consecutive turns of a session that are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The session.
    pub session: String,
    /// The first turn of the gap.
    pub first: u64,
    /// The last turn of the gap.
    pub last: u64,
}

/// The gaps that a search met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    sessions: BTreeMap<String, BTreeMap<u64, u64>>,
    /// How often turns were added.
    additions: u64,
}

impl Gaps {
    /// Returns true if the search met no gap.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns how often turns were added: the same number as before means no further gap.
    pub(super) fn additions(&self) -> u64 {
        self.additions
    }

    /// Returns all gaps by session and turn; adjacent ones are joined.
    #[must_use]
    pub fn list(&self) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = Vec::new();
        for (session, turns) in &self.sessions {
            for (first, last) in turns {
                match gaps.last_mut() {
                    Some(gap)
                        if gap.session == *session && gap.last.saturating_add(1) >= *first =>
                    {
                        gap.last = gap.last.max(*last);
                    }
                    _ => gaps.push(Gap { session: session.clone(), first: *first, last: *last }),
                }
            }
        }
        gaps
    }

    /// Adds the turns `first` to `last`; an empty range adds nothing.
    pub(super) fn add(&mut self, session: &str, first: u64, last: u64) {
        if first > last {
            return;
        }
        self.additions += 1;
        if !self.sessions.contains_key(session) {
            self.sessions.insert(session.to_owned(), BTreeMap::new());
        }
        if let Some(turns) = self.sessions.get_mut(session) {
            let known = turns.entry(first).or_insert(last);
            *known = (*known).max(last);
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, first, last } = self;
        match first == last {
            true => write!(f, "turn {first} of {session} is not kept"),
            false => write!(f, "turns {first} to {last} of {session} are not kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_gap() {
        let mut gaps = Gaps::default();
        for (session, first, last) in
            [("a", 7, 7), ("a", 1, 3), ("a", 4, 5), ("a", 2, 2), ("b", 6, 6), ("a", 9, 8)]
        {
            gaps.add(session, first, last);
        }
        let list: Vec<String> = gaps.list().iter().map(Gap::to_string).collect();
        let expected = [
            "turns 1 to 5 of a are not kept",
            "turn 7 of a is not kept",
            "turn 6 of b is not kept",
        ];
        assert_eq!(list, expected);
    }
}
