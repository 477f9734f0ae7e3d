//! Bisect: finds the first bad turn by binary search.
//!
//! The candidates are the turns on the first-parent line of a bad turn, without a good turn and its
//! ancestors; each answer halves them. The state is kept in refs, so it survives the process, can
//! be undone, and protects the named turns:
//!
//! ```text
//! refs/bisect/<session>/bad          the newest bad turn
//! refs/bisect/<session>/good/<turn>  turns that are good
//! refs/bisect/<session>/skip/<turn>  turns that cannot be judged
//! refs/bisect/<session>/log          a blob: one line for each answer, and for each tree of files
//!                                    of which a command has given one
//! ```
//!
//! Specified in `format-spec/store.md`.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::context::sections::FILES;
use crate::error::{Error, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use crate::repo::{LogEntry, Repository, Transaction};
use crate::store::Expected;

const BISECTS: &str = "refs/bisect/";

/// The verdict on a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectVerdict {
    /// The turn does not have the change yet.
    Good,
    /// The turn has the change.
    Bad,
    /// The turn cannot be judged.
    Skip,
}

/// A line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BisectNote {
    /// The verdict.
    pub verdict: BisectVerdict,
    /// The id of a commit, or of a tree of files.
    pub id: ObjectId,
    /// True if `id` is a tree.
    pub is_tree: bool,
}

/// A turn that may be the first bad one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The commit id of the turn.
    pub id: ObjectId,
    /// The commit of the turn.
    pub commit: Commit,
    /// The reason why it cannot be tested, if any.
    pub untestable: Option<SkipReason>,
}

/// The reason why a turn cannot be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// The user skipped it.
    Skipped,
    /// Its context expired.
    Gone,
}

/// The state of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BisectStatus {
    /// A bad turn, a good one or both are not known yet.
    Waiting {
        /// True when a bad turn is known.
        bad: bool,
        /// True when a good turn is known.
        good: bool,
    },
    /// The next turn to test halves the candidates.
    Next {
        /// The turn to test next.
        turn: Candidate,
        /// The number of turns that may be the first bad one.
        left: usize,
        /// The number of answers still needed at most, if none is to skip.
        steps: u32,
    },
    /// This is the first bad turn.
    Found(Candidate),
    /// One of these is the first bad turn, and all but the last of them, which is bad, cannot be
    /// tested.
    Stuck(Vec<Candidate>),
}

/// A search in a session, as recorded in its refs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bisect {
    session: String,
    bad: Option<ObjectId>,
    good: BTreeMap<String, ObjectId>,
    skipped: BTreeMap<String, ObjectId>,
    notes: Vec<BisectNote>,
}

impl BisectVerdict {
    const ALL: [Self; 3] = [Self::Good, Self::Bad, Self::Skip];

    /// The name in commands and in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Skip => "skip",
        }
    }
}

impl fmt::Display for BisectVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BisectVerdict {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|verdict| verdict.name() == text);
        found.ok_or_else(|| Error::invalid(format!("'{text}': expected good, bad or skip")))
    }
}

impl Repository {
    /// Returns the running search in `session`, if there is one.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref, when the log cannot be read.
    pub fn bisect(&self, session: &str) -> Result<Option<Bisect>> {
        let prefix = prefix(session);
        let refs = self.refs();
        let mut bisect = Bisect::new(session);
        let mut is_there = false;
        for (name, value) in refs.values.starting_with(&prefix) {
            let rest = name.strip_prefix(&prefix).unwrap_or_default();
            let RefValue::Object(id) = value else { continue };
            is_there = true;
            match rest.split_once('/') {
                None if rest == "bad" => bisect.bad = Some(*id),
                None if rest == "log" => {
                    let bytes = self.store().read_as(Kind::Blob, id);
                    bisect.notes =
                        bytes.and_then(|bytes| decode(&bytes)).map_err(|error| error.at(name))?;
                }
                Some(("good", turn)) => drop(bisect.good.insert(turn.to_owned(), *id)),
                Some(("skip", turn)) => drop(bisect.skipped.insert(turn.to_owned(), *id)),
                _ => {}
            }
        }
        Ok(is_there.then_some(bisect))
    }

    /// Returns the root of the files of a turn: a command that looks at files cannot tell turns
    /// with equal roots apart. Returns the root of the context if the turn has no files or if
    /// `whole` is set.
    ///
    /// # Errors
    /// `NotFound`, `Expired` or `Corrupt` when the turn cannot be read.
    pub fn tested_tree(&self, id: &ObjectId, whole: bool) -> Result<ObjectId> {
        let tree = self.commit(id)?.tree;
        let files = match whole {
            true => None,
            false => self.context(id)?.section(self.store(), FILES)?,
        };
        Ok(files.map_or(tree, |section| section.id))
    }
}

impl Bisect {
    /// Creates a search without any verdict.
    #[must_use]
    pub fn new(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            bad: None,
            good: BTreeMap::new(),
            skipped: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The verdicts, in order.
    #[must_use]
    pub fn notes(&self) -> &[BisectNote] {
        &self.notes
    }

    /// The newest bad turn.
    #[must_use]
    pub fn bad(&self) -> Option<ObjectId> {
        self.bad
    }

    /// The good turns.
    pub fn good(&self) -> impl Iterator<Item = ObjectId> {
        self.good.values().copied()
    }

    /// Returns the last verdict on a tree of files.
    #[must_use]
    pub fn verdict_of(&self, tree: &ObjectId) -> Option<BisectVerdict> {
        let of_tree = |note: &&BisectNote| note.is_tree && note.id == *tree;
        self.notes.iter().rev().find(of_tree).map(|note| note.verdict)
    }

    /// Records the verdict on a turn.
    ///
    /// # Errors
    /// `InvalidInput` for a contradiction: a good turn must come before every bad one, and a bad or
    /// skipped turn must be one of the candidates.
    pub fn mark(&mut self, repo: &Repository, id: &ObjectId, verdict: BisectVerdict) -> Result<()> {
        let commit = repo.commit(id)?;
        let turn = commit.turn;
        match verdict {
            BisectVerdict::Good => {
                if let Some(bad) = &self.bad {
                    check_before(repo, id, bad)?;
                }
                self.skipped.retain(|_, skipped| skipped != id);
                self.good.insert(name_of(id, turn), *id);
            }
            BisectVerdict::Bad => {
                for good in self.good.values() {
                    check_before(repo, good, id)?;
                }
                self.check_candidate(repo, id, turn)?;
                self.skipped.retain(|_, skipped| skipped != id);
                self.bad = Some(*id);
            }
            BisectVerdict::Skip => {
                self.check_candidate(repo, id, turn)?;
                if self.bad == Some(*id) {
                    return Err(Error::invalid(format!("turn {turn} is known to be bad")));
                }
                self.skipped.insert(name_of(id, turn), *id);
            }
        }
        self.notes.push(BisectNote { verdict, id: *id, is_tree: false });
        Ok(())
    }

    /// Records the verdict on a tree of files.
    pub fn mark_tree(&mut self, tree: &ObjectId, verdict: BisectVerdict) {
        self.notes.push(BisectNote { verdict, id: *tree, is_tree: true });
    }

    /// Returns the state of the search. Reads each ancestor of the bad turn that is not an ancestor
    /// of a good one.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming an unreadable commit.
    pub fn outlook(&self, repo: &Repository) -> Result<BisectStatus> {
        let Some(bad) = self.bad.filter(|_| !self.good.is_empty()) else {
            let good = !self.good.is_empty();
            return Ok(BisectStatus::Waiting { bad: self.bad.is_some(), good });
        };
        let mut candidates = self.candidates(repo, &bad)?;
        if candidates.len() <= 1 {
            let found = candidates.pop();
            let none = || Error::invalid("the bad turn comes before a good one");
            return found.map(BisectStatus::Found).ok_or_else(none);
        }
        let is_testable =
            |candidate: &&Candidate| candidate.id != bad && candidate.untestable.is_none();
        let testable: Vec<&Candidate> = candidates.iter().filter(is_testable).collect();
        match testable.get(testable.len().saturating_sub(1) / 2) {
            None => Ok(BisectStatus::Stuck(candidates)),
            Some(turn) => Ok(BisectStatus::Next {
                turn: (*turn).clone(),
                left: candidates.len(),
                steps: testable.len().ilog2() + 1,
            }),
        }
    }

    /// Returns the turns that may be the first bad one, oldest first; the last one is the bad turn.
    fn candidates(&self, repo: &Repository, bad: &ObjectId) -> Result<Vec<Candidate>> {
        let good: Vec<ObjectId> = self.good.values().copied().collect();
        let mut open: HashSet<ObjectId> = HashSet::new();
        for entry in repo.history(&[*bad], &good)? {
            open.insert(entry?.id);
        }
        let mut candidates = Vec::new();
        for entry in repo.history(&[*bad], &[])?.first_parent() {
            let LogEntry { id, commit, .. } = entry?;
            if !open.contains(&id) {
                break;
            }
            let untestable = if self.skipped.values().any(|skipped| *skipped == id) {
                Some(SkipReason::Skipped)
            } else {
                repo.store().tombstone(&commit.tree).map(|_| SkipReason::Gone)
            };
            candidates.push(Candidate { id, commit, untestable });
        }
        candidates.reverse();
        Ok(candidates)
    }

    fn check_candidate(&self, repo: &Repository, id: &ObjectId, turn: u64) -> Result<()> {
        let Some(bad) = &self.bad else { return Ok(()) };
        let candidates = self.candidates(repo, bad)?;
        if candidates.iter().any(|candidate| candidate.id == *id) {
            return Ok(());
        }
        let message = format!(
            "turn {turn} ({}) is not between the good turns and the bad one in the history of the bad one",
            id.short(12)
        );
        Err(Error::invalid(message))
    }
}

impl Transaction<'_> {
    /// Writes the state of a search. Its refs must not have changed since the transaction began.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn set_bisect(&mut self, bisect: &Bisect) -> Result<()> {
        let log = self.write(Kind::Blob, encode(&bisect.notes).into())?;
        let mut refs: BTreeMap<String, ObjectId> = BTreeMap::new();
        let prefix = prefix(&bisect.session);
        refs.insert(format!("{prefix}log"), log);
        refs.extend(bisect.bad.map(|bad| (format!("{prefix}bad"), bad)));
        for (kind, turns) in [("good", &bisect.good), ("skip", &bisect.skipped)] {
            let named = |(turn, id): (&String, &ObjectId)| (format!("{prefix}{kind}/{turn}"), *id);
            refs.extend(turns.iter().map(named));
        }
        self.replace_refs(&prefix, &refs);
        Ok(())
    }

    /// Ends the search in a session.
    ///
    /// # Errors
    /// `NotFound` when there is no search.
    pub fn end_bisect(&mut self, session: &str) -> Result<()> {
        if self.repo().bisect(session)?.is_none() {
            return Err(Error::not_found(format!("no bisect in progress in session {session}")));
        }
        self.replace_refs(&prefix(session), &BTreeMap::new());
        Ok(())
    }

    /// Replaces the refs that begin with `prefix` with `refs`.
    fn replace_refs(&mut self, prefix: &str, refs: &BTreeMap<String, ObjectId>) {
        let before: BTreeMap<String, RefValue> = self
            .initial_refs(prefix)
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        for name in before.keys().chain(refs.keys()) {
            let (old, new) = (before.get(name), refs.get(name).map(|id| RefValue::Object(*id)));
            if old != new.as_ref() {
                let expected = old.cloned().map_or(Expected::Absent, Expected::Value);
                self.set_ref(name, expected, new);
            }
        }
    }
}

fn prefix(session: &str) -> String {
    format!("{BISECTS}{session}/")
}

/// Returns the last part of the name of a ref on a turn.
fn name_of(id: &ObjectId, turn: u64) -> String {
    format!("{turn}-{}", id.short(8))
}

/// Refuses a good turn that is not an ancestor of the bad one.
fn check_before(repo: &Repository, good: &ObjectId, bad: &ObjectId) -> Result<()> {
    let is_before = good != bad && repo.history(&[*good], &[*bad])?.next().transpose()?.is_none();
    if is_before {
        return Ok(());
    }
    let shown = |id: &ObjectId| {
        Ok::<_, Error>(format!("turn {} ({})", repo.commit(id)?.turn, id.short(12)))
    };
    Err(Error::invalid(format!(
        "{} cannot be good: it is not before {}, which is bad",
        shown(good)?,
        shown(bad)?
    )))
}

fn encode(notes: &[BisectNote]) -> String {
    let mut text = String::new();
    for BisectNote { verdict, id, is_tree } in notes {
        let what = if *is_tree { "tree" } else { "commit" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{verdict} {what} {id}");
    }
    text
}

fn decode(bytes: &[u8]) -> Result<Vec<BisectNote>> {
    let damaged = || Error::malformed("log of a bisect", "lines as 'good commit <id>'");
    let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
    let note = |line: &str| {
        let (verdict, rest) = line.split_once(' ')?;
        let (what, id) = rest.split_once(' ')?;
        let is_tree = match what {
            "tree" => true,
            "commit" => false,
            _ => return None,
        };
        Some(BisectNote { verdict: verdict.parse().ok()?, id: id.parse().ok()?, is_tree })
    };
    text.lines().map(|line| note(line).ok_or_else(damaged)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_round_trips_and_other_bytes_are_refused() {
        let note = |verdict, text: &[u8], is_tree| BisectNote {
            verdict,
            id: ObjectId::of(Kind::Blob, text),
            is_tree,
        };
        let notes = [
            note(BisectVerdict::Bad, b"a", false),
            note(BisectVerdict::Good, b"b", true),
            note(BisectVerdict::Skip, b"c", false),
        ];
        assert_eq!(decode(encode(&notes).as_bytes()).unwrap(), notes);
        for wrong in ["good", "good commit x", "fine commit 00", "good blob 00", "\u{0}"] {
            assert!(decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
