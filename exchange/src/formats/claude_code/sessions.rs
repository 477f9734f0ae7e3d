//! The sessions whose lines a file may have.
//!
//! Older releases copy the lines of a resumed session with its id, and continue with a new id: each of those
//! lines has a parent in the file. Some releases write lines of a resumed session into the file of another
//! session. Those lines have no parent in the file.

use serde::{Deserialize, Serialize};

use super::title::TitleRank;

/// Most sessions that are tracked in a file.
const MAX_SESSIONS: usize = 64;

/// The sessions of the lines so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sessions {
    known: Vec<String>,
    /// Sessions whose lines have no parent in the file.
    strange: Vec<String>,
    /// A session with a title and no other line.
    named: Option<Named>,
}

/// The title of a session that may turn out to be a foreign one, and the previous title.
#[derive(Debug, Serialize, Deserialize)]
struct Named {
    session: String,
    before: (TitleRank, String),
}

/// Whether a line belongs to the conversation.
pub(super) enum Belonging {
    /// It belongs to the conversation.
    Own,
    /// It does not; the previous title is restored, if there is one here.
    Strange(Option<(TitleRank, String)>),
}

impl Sessions {
    /// Decides about a line of `session`; `follows` is true if its parent is in the file.
    pub(super) fn belonging(&mut self, session: &str, follows: impl FnOnce() -> bool) -> Belonging {
        if has(&self.known, session) {
            return Belonging::Own;
        }
        let is_own = self.known.is_empty() || follows();
        let named = self.named.take_if(|named| named.session == session);
        let list = if is_own { &mut self.known } else { &mut self.strange };
        if !has(list, session) {
            if list.len() >= MAX_SESSIONS {
                list.remove(0);
            }
            list.push(session.to_owned());
        }
        match is_own {
            true => Belonging::Own,
            false => Belonging::Strange(named.map(|named| named.before)),
        }
    }

    /// Returns true if a session is known to be a foreign one.
    pub(super) fn is_strange(&self, session: Option<&str>) -> bool {
        session.is_some_and(|session| has(&self.strange, session) && !has(&self.known, session))
    }

    /// Notes a title of `session`, and the title `before` it.
    pub(super) fn name(&mut self, session: &str, before: (TitleRank, String)) {
        let is_new = self.named.as_ref().is_none_or(|named| named.session != session);
        if is_new && !has(&self.known, session) {
            self.named = Some(Named { session: session.to_owned(), before });
        }
    }
}

fn has(sessions: &[String], session: &str) -> bool {
    sessions.iter().any(|known| known == session)
}
