//! Lost turns: names the turn of a damage error, and finds the newest whole turn instead.

use turntree::maintenance::newest_whole_turn;
use turntree::object::ObjectId;
use turntree::repo::{AvailableTurn, Repository, Resolver};
use turntree::{Error, ErrorKind};

use super::revision::resolve;
use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::error::{Failure, Result};
use crate::view::progress::Meter;

/// The advice for damage.
pub(crate) const LOST_TURNS: &str = "'turntree repair' restores what it can, 'turntree fsck' \
                    lists lost turns, and 'turntree export --partial' writes the newest whole \
                    turn, or its intact records";

/// A turn that may be damaged.
#[derive(Debug)]
pub(crate) struct LostTurn {
    pub(crate) session: String,
    pub(crate) commit: ObjectId,
    /// Its number, if its commit can be read.
    turn: Option<u64>,
}

impl LostTurn {
    /// The turn of a revision; `None` if it cannot be determined.
    pub(crate) fn of(repo: &Repository, revision: &str) -> Option<Self> {
        let found = resolve(repo, revision).ok();
        let found = found.and_then(|at| Some((at.commit, repo.commit(&at.commit).ok()?)));
        if let Some((commit, known)) = found {
            return Some(Self { session: known.session, commit, turn: Some(known.turn) });
        }
        let branch = match revision {
            "HEAD" | "@" => repo.head().ok()?.branch,
            name => Resolver::new(repo).branch(name).ok()?,
        };
        let commit = repo.tip(&branch)?;
        Some(Self { session: branch.session().to_owned(), commit, turn: None })
    }

    /// Finds the newest whole turn: among its ancestors if they can be read, otherwise in its
    /// session. Reads the whole store.
    ///
    /// # Errors
    /// The errors of an examination.
    pub(crate) fn newest_whole(&self, repo: &Repository) -> Result<Option<AvailableTurn>> {
        let mut meter = Meter::new("checking");
        let mut progress = |done, all| meter.show(done, all);
        let (session, start) = (&self.session, self.commit);
        Ok(newest_whole_turn(repo, session, start, clock::now()?, &mut progress)?)
    }

    fn name(&self) -> String {
        match self.turn {
            Some(turn) => format!("turn {turn} of {}", self.session),
            None => format!("the newest turn of {}", self.session),
        }
    }
}

/// Names the turn of `revision` in a damage error, and adds advice.
pub(crate) fn naming_turn<T>(repo: &Repository, revision: &str, done: Result<T>) -> Result<T> {
    done.map_err(|failure| match failure {
        Failure::Library { error, hint, .. } if error.is_damage() => {
            let hint = hint.unwrap_or_else(|| Advice::from(LOST_TURNS));
            let Some(lost) = LostTurn::of(repo, revision) else {
                return Failure::hinted(error, hint);
            };
            let message = format!("{} cannot be read completely", lost.name());
            Failure::hinted(Error::new(ErrorKind::Corrupt, message).with_source(error), hint)
        }
        other => other,
    })
}
