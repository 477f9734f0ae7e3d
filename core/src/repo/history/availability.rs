//! Lists the turns of a session that retention left readable: the oldest one, and the pinned ones.

use std::error::Error as StdError;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, ObjectId};
use crate::repo::{LogEntry, Repository};

/// The number of hex digits of an id in a message.
const SHOWN_DIGITS: usize = 12;

/// The turns of a session that can still be read. Source of an [`ErrorKind::Expired`] error about
/// one of its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Availability {
    /// The oldest turn with a context that is not pinned.
    pub oldest: Option<AvailableTurn>,
    /// The pinned turns, oldest first.
    pub pinned: Vec<AvailableTurn>,
}

/// A turn whose context exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AvailableTurn {
    /// The number of the turn.
    pub turn: u64,
    /// The commit of the turn.
    pub id: ObjectId,
}

impl Repository {
    /// Returns the readable turns of `session`: all of them when none expired.
    ///
    /// Reads every commit of the session.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming an unreadable commit or pin.
    pub fn oldest_available(&self, session: &str) -> Result<Availability> {
        self.available(session, &|tree| self.store().tombstone(tree).is_some())
    }

    fn available(
        &self,
        session: &str,
        is_gone: &dyn Fn(&ObjectId) -> bool,
    ) -> Result<Availability> {
        let is_there = |commit: &Commit| commit.session == session && !is_gone(&commit.tree);
        let mut pinned = Vec::new();
        for pin in self.pins()? {
            // The target of an expired pin may be missing.
            match self.commit(&pin.commit) {
                Ok(commit) if is_there(&commit) => {
                    pinned.push(AvailableTurn { turn: commit.turn, id: pin.commit });
                }
                Err(error) if error.kind() == ErrorKind::Corrupt => return Err(error),
                _ => {}
            }
        }
        pinned.sort_unstable();
        pinned.dedup();
        let branches = self.branches();
        let is_own = |name: &crate::repo::BranchName| name.session() == session;
        let has_own = branches.iter().any(|(name, _)| is_own(name));
        let starts: Vec<ObjectId> = branches
            .into_iter()
            .filter_map(|(name, tip)| (is_own(&name) || !has_own).then_some(tip))
            .collect();
        let mut oldest: Option<AvailableTurn> = None;
        for entry in self.history(&starts, &[])? {
            let LogEntry { id, commit, .. } = entry?;
            let turn = AvailableTurn { turn: commit.turn, id };
            if is_there(&commit) && !pinned.contains(&turn) {
                oldest = Some(oldest.map_or(turn, |known| known.min(turn)));
            }
        }
        Ok(Availability { oldest, pinned })
    }

    /// Turns an error of reading the content of a commit into the terms of the user: it names the
    /// expired turn, with [`Availability`] as the source, or the damaged turn.
    pub(in crate::repo) fn explain(&self, commit: &Commit, error: Error) -> Error {
        let Commit { turn, session, .. } = commit;
        match error.kind() {
            ErrorKind::Expired => self.expired(*turn, session),
            ErrorKind::Corrupt => error.at(format_args!("turn {turn} of {session}")),
            _ => error,
        }
    }

    /// Returns the error about an expired turn, with the available turns as its source.
    pub(in crate::repo) fn expired(&self, turn: u64, session: &str) -> Error {
        let message = format!("turn {turn} of {session} was dropped by retention");
        let expired = Error::new(ErrorKind::Expired, message);
        match self.oldest_available(session) {
            Ok(available) => expired.with_source(available),
            Err(_) => expired,
        }
    }
}

impl StdError for Availability {}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.oldest {
            Some(turn) => write!(f, "the oldest available is {turn}")?,
            None => f.write_str("no other turn is available")?,
        }
        for (index, turn) in self.pinned.iter().enumerate() {
            f.write_str(if index == 0 { ", pinned: " } else { ", " })?;
            write!(f, "{turn}")?;
        }
        Ok(())
    }
}

impl fmt::Display for AvailableTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {} ({})", self.turn, self.id.short(SHOWN_DIGITS))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;
    use crate::context::Builder;
    use crate::object::Time;
    use crate::repo::{BranchName, NewPin, Signature, SnapshotDraft};
    use crate::store::{NewStore, OpenOptions, RealIo};

    #[test]
    fn the_oldest_turn_that_is_left_is_told_apart_from_the_pinned_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (io, new) = (Arc::new(RealIo), NewStore { id: [1; 16] });
        let dir = folder.path().join("store");
        let repo = Repository::init(io, &dir, &new, OpenOptions::new([2; 16])).unwrap();
        let stamp = Signature { time: Time::default(), actor: "me".into() };
        let mut ids = Vec::new();
        let mut change = repo.begin();
        for turn in 1..=9 {
            let mut context = Builder::new();
            let note = Some(turn.to_string().into());
            context.set_entry(&mut change, "scratchpad", "turn", note).unwrap();
            let tree = context.write(&mut change).unwrap();
            let branch = BranchName::main("demo").unwrap();
            ids.push(change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp)).unwrap());
        }
        change.pin(&ids[1], NewPin::default(), &stamp).unwrap();
        change.commit(&stamp, "snapshots").unwrap();

        let turn = |n: usize| AvailableTurn { turn: n as u64, id: ids[n - 1] };
        let all = repo.oldest_available("demo").unwrap();
        assert_eq!(all, Availability { oldest: Some(turn(1)), pinned: vec![turn(2)] });
        let gone: HashSet<ObjectId> =
            [1, 3, 4].map(|n| repo.commit(&ids[n - 1]).unwrap().tree).into();
        let left = repo.available("demo", &|tree| gone.contains(tree)).unwrap();
        assert_eq!(left, Availability { oldest: Some(turn(5)), pinned: vec![turn(2)] });
        let (five, two) = (ids[4].short(12), ids[1].short(12));
        assert_eq!(
            left.to_string(),
            format!("the oldest available is turn 5 ({five}), pinned: turn 2 ({two})")
        );
        let none = repo.available("other", &|_| false).unwrap();
        assert_eq!(none.to_string(), "no other turn is available");

        let commit = repo.commit(&ids[0]).unwrap();
        let expired = repo.explain(&commit, Error::new(ErrorKind::Expired, "tree"));
        assert_eq!(expired.to_string(), "turn 1 of demo was dropped by retention");
        assert!(expired.source().is_some_and(<dyn StdError>::is::<Availability>));
        let damaged = repo.explain(&commit, Error::new(ErrorKind::Corrupt, "tree"));
        assert_eq!(damaged.to_string(), "turn 1 of demo: tree");
    }
}
