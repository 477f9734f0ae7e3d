//! The sessions whose lines a file may have.
//!
//! Older releases copy the lines of a session that they resume, which keep its id, and go on with an id
//! of their own: each line there follows one of the file. Some releases write lines of a session that a
//! person resumes into the file of another one. These follow nothing that the file has.

use serde::{Deserialize, Serialize};

use super::title::TitleRank;

/// Most sessions that are known of a file.
const MAX_SESSIONS: usize = 64;

/// The sessions of the lines so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sessions {
    known: Vec<String>,
    /// Sessions whose lines follow nothing of the file.
    strange: Vec<String>,
    /// A session of which nothing but a title is known.
    named: Option<Named>,
}

/// A title of a session that may turn out to be a strange one, and what the title was before.
#[derive(Debug, Serialize, Deserialize)]
struct Named {
    session: String,
    before: (TitleRank, String),
}

/// What a line of a session means for it.
pub(super) enum Belonging {
    /// It is of the conversation.
    Own,
    /// It is not; the title is what it was before, if there is one here.
    Strange(Option<(TitleRank, String)>),
}

impl Sessions {
    /// Returns what a line of `session` is, `follows` being whether it follows one of the file.
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

    /// Returns whether a session is not one of the file, as far as that is known.
    pub(super) fn is_strange(&self, session: Option<&str>) -> bool {
        session.is_some_and(|session| has(&self.strange, session) && !has(&self.known, session))
    }

    /// `session` gives a title, which was `before` until then.
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
