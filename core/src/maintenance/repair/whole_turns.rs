//! Finds the whole and the lost turns of each session of a damaged store.
//!
//! A turn is whole when its commit and all of its context verify; its ancestors may be lost. The
//! parents of a lost commit are unknown. So if a session lost a commit, all of its whole commits
//! count, reachable or not.

use std::collections::BTreeMap;

use super::reachability::ReachabilityWalk;
use super::whole_objects::{WholeObjects, newest_whole};
use crate::error::Result;
use crate::object::{Commit, Kind, ObjectId, RefValue, Time};
use crate::repo::{AvailableTurn, BranchName, Repository};
use crate::store::{Progress, Thoroughness};

/// A session with lost turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionDamage {
    /// The name of the session.
    pub session: String,
    /// Runs of turns that are not whole: the first and the last turn of each, in rising order.
    pub lost: Vec<(u64, u64)>,
    /// True if commits are lost too, whose turn numbers are unknown.
    pub lost_commits: bool,
    /// The newest whole turn.
    pub newest_whole: Option<AvailableTurn>,
}

/// A readable commit.
struct KnownTurn {
    turn: AvailableTurn,
    is_reached: bool,
    is_whole: bool,
    /// True if the context has a tombstone.
    is_gone: bool,
}

/// The turns of every session with readable commits.
pub(in crate::maintenance) struct WholeTurns {
    sessions: BTreeMap<String, (Vec<KnownTurn>, bool)>,
}

impl WholeTurns {
    /// Reads every commit.
    pub(in crate::maintenance) fn find(
        reach: &ReachabilityWalk<'_>,
        whole: &WholeObjects<'_>,
    ) -> Self {
        let inventory = reach.inventory();
        let mut found = Self { sessions: BTreeMap::new() };
        for position in 0..inventory.positions() {
            let Some(entry) = inventory.entry(position) else { continue };
            if entry.kind != Kind::Commit || inventory.find(&entry.id) != Some(position) {
                continue;
            }
            let Ok(Some(object)) = inventory.read_any(&entry.id) else { continue };
            let Ok(commit) = Commit::decode(&object.bytes) else { continue };
            let is_reached = reach.is_reached(position, &entry.id);
            let is_torn = reach.grafts().parents(&commit).iter().any(|id| reach.is_missing(id));
            let known = KnownTurn {
                turn: AvailableTurn { turn: commit.turn, id: entry.id },
                is_reached,
                is_whole: whole.contains(&entry.id),
                is_gone: inventory.tombstone(&commit.tree).is_some(),
            };
            let session = found.sessions.entry(commit.session).or_default();
            session.0.push(known);
            session.1 |= is_reached && is_torn;
        }
        for (name, value) in inventory.refs().values.iter() {
            if let (Some(branch), RefValue::Object(id)) = (BranchName::from_full(name), value)
                && reach.is_missing(id)
            {
                found.sessions.entry(branch.session().to_owned()).or_default().1 = true;
            }
        }
        found
    }

    /// Returns the sessions with lost turns, by name.
    pub(super) fn damage(&self) -> Vec<SessionDamage> {
        let damaged = self.sessions.iter().map(|(name, (turns, lost_commits))| {
            let lost = turns.iter().filter(|it| it.is_reached && !it.is_whole && !it.is_gone);
            let counts = |it: &&KnownTurn| it.is_whole && (*lost_commits || it.is_reached);
            SessionDamage {
                session: name.clone(),
                lost: runs(lost.map(|it| it.turn.turn).collect()),
                lost_commits: *lost_commits,
                newest_whole: turns.iter().filter(counts).map(|it| it.turn).max(),
            }
        });
        damaged.filter(|it| it.lost_commits || !it.lost.is_empty()).collect()
    }

    /// Returns the newest whole but unreachable turn of a session.
    pub(super) fn newest_unreachable(&self, session: &str) -> Option<ObjectId> {
        let (turns, _) = self.sessions.get(session).filter(|(_, lost_commits)| *lost_commits)?;
        let adrift = turns.iter().filter(|it| it.is_whole && !it.is_reached);
        adrift.map(|it| it.turn).max().map(|turn| turn.id)
    }

    fn newest(&self, session: &str) -> Option<AvailableTurn> {
        self.damage().into_iter().find(|it| it.session == session)?.newest_whole
    }
}

/// Returns the newest whole turn on the first-parent line of `start`, or of `session` if that line
/// cannot be followed. Reads the whole store, which may be damaged.
///
/// # Errors
/// Errors of [`Store::examine`](crate::store::Store::examine).
pub fn newest_whole_turn(
    repo: &Repository,
    session: &str,
    start: ObjectId,
    now: Time,
    progress: &mut Progress<'_>,
) -> Result<Option<AvailableTurn>> {
    let store = repo.store();
    let examination = store.examine(Thoroughness::Full, progress)?;
    let reach = ReachabilityWalk::find(&examination, now.micros);
    let whole = WholeObjects::find(&reach);
    let Some(id) = newest_whole(&reach, &whole, start) else {
        return Ok(WholeTurns::find(&reach, &whole).newest(session));
    };
    let object = examination.inventory.read_any(&id)?;
    let commit = object.filter(|object| object.kind == Kind::Commit);
    let commit = commit.map(|object| Commit::decode(&object.bytes)).transpose()?;
    Ok(commit.map(|commit| AvailableTurn { turn: commit.turn, id }))
}

/// Joins consecutive numbers.
fn runs(mut numbers: Vec<u64>) -> Vec<(u64, u64)> {
    numbers.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs
}
