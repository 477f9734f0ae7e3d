//! The sessions whose lines a file may have.
//!
//! Older releases copy the lines of a session that they resume, which keep its id, and go on with an id
//! of their own: each line there follows one of the file. Some releases write lines of a session that a
//! person resumes into the file of another one. These follow nothing that the file has.

use serde::{Deserialize, Serialize};

/// Most sessions that are known of a file.
const MAX_SESSIONS: usize = 64;

/// Most titles of sessions that may still turn out to be of this file.
const MAX_TITLES: usize = 16;

/// The sessions of the lines so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sessions {
    known: Vec<String>,
    /// Titles with their ranks, of sessions that are not known.
    titles: Vec<(String, u8, String)>,
}

impl Sessions {
    /// Returns whether a line of `session` belongs to the file, `follows` being whether it follows one
    /// that does.
    pub(super) fn has(&mut self, session: &str, follows: impl FnOnce() -> bool) -> bool {
        if self.is_known(session) {
            return true;
        }
        if !self.known.is_empty() && !follows() {
            return false;
        }
        if self.known.len() >= MAX_SESSIONS {
            self.known.remove(0);
        }
        self.known.push(session.to_owned());
        true
    }

    /// Returns whether `session` is one of the file, as far as that is known: any may be, at first.
    pub(super) fn may_be(&self, session: Option<&str>) -> bool {
        self.known.is_empty() || session.is_none_or(|session| self.is_known(session))
    }

    fn is_known(&self, session: &str) -> bool {
        self.known.iter().any(|known| known == session)
    }

    /// Keeps a title until its session is known.
    pub(super) fn keep_title(&mut self, session: &str, rank: u8, title: &str) {
        if self.titles.len() < MAX_TITLES {
            self.titles.push((session.to_owned(), rank, title.to_owned()));
        }
    }

    /// The titles that were kept of `session`, in the order of their lines.
    pub(super) fn take_titles(&mut self, session: &str) -> Vec<(u8, String)> {
        let (of_it, others) =
            std::mem::take(&mut self.titles).into_iter().partition(|(of, ..)| of == session);
        self.titles = others;
        let of_it: Vec<(String, u8, String)> = of_it;
        of_it.into_iter().map(|(_, rank, title)| (rank, title)).collect()
    }
}
