//! Checks turns: the content that each was written with, and the turns that may have expired.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use turntree::ErrorKind;
use turntree::maintenance::{PROTECTED_OPERATIONS, Policies, Purpose};
use turntree::object::{Kind, ObjectId, ObjectSource, RefValue};
use turntree::repo::Repository;

use super::{Promise, Redaction};

/// The text that redactions remove, and its replacement.
pub(super) const SECRET: &str = "k-1234";
pub(super) const REDACTED: &str = "[redacted]";

/// A turn as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// The session.
    pub session: String,
    /// The number in the session.
    pub number: u64,
    /// The parent turn, by the message of its commit.
    pub parent: Option<String>,
    /// The scratchpad.
    pub notes: BTreeMap<String, String>,
    /// The conversation.
    pub messages: Vec<String>,
}

impl Promise {
    /// Checks point 3: everything reachable from refs.
    pub(super) fn check_turns(&self, repo: &Repository) {
        let mut seen = HashSet::new();
        let mut open: Vec<ObjectId> = tips(repo).unwrap().into_iter().map(|(_, id)| id).collect();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let commit = repo.commit(&id).unwrap();
            let message = &commit.message;
            let turn = self.turns.get(message);
            let turn = turn.unwrap_or_else(|| panic!("{message} was never tried"));
            assert_eq!((&commit.session, commit.turn), (&turn.session, turn.number), "{message}");
            assert_eq!(commit.parents.len(), usize::from(turn.parent.is_some()), "{message}");
            for parent in &commit.parents {
                let before = repo.commit(parent).unwrap().message;
                assert_eq!(Some(before), turn.parent, "before {message}");
            }
            self.check_turn(repo, &id, message, turn);
            open.extend(commit.parents);
        }
    }

    fn check_turn(&self, repo: &Repository, id: &ObjectId, message: &str, turn: &Turn) {
        let (notes, messages) = match read(repo, id) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::Expired && self.expired.contains(message) => {
                return;
            }
            Err(error) => panic!("{message} is lost: {error:?}"),
        };
        let redacted = |text: &String| text.replace(SECRET, REDACTED);
        let is_same = |found: &String, written: &String| match self.redaction {
            Redaction::None => found == written,
            Redaction::Tried => found == written || *found == redacted(written),
            Redaction::Done => *found == redacted(written),
        };
        let same_notes = notes.len() == turn.notes.len()
            && notes.iter().all(|(key, text)| is_same(text, &turn.notes[key]));
        assert!(same_notes, "notes of {message}: {notes:?} instead of {:?}", turn.notes);
        let same_messages = messages.len() == turn.messages.len()
            && messages.iter().zip(&turn.messages).all(|(found, written)| is_same(found, written));
        assert!(same_messages, "messages of {message}: {messages:?}");
    }

    /// Records that a collection begins, and the turns that it may expire: turns of sessions with a
    /// policy that are not among the newest of a branch, not named by a ref, not a fork point, and
    /// not needed for undo. A strict policy ignores undo.
    ///
    /// # Errors
    /// Errors of reading the refs: then nothing may be collected.
    pub fn begin_collection(
        &mut self,
        repo: &Repository,
        purpose: Purpose,
    ) -> turntree::Result<()> {
        repo.refresh()?;
        let policies = Policies::load(repo, &repo.refs())?;
        let mut kept = BTreeSet::new();
        for (name, id) in tips(repo)? {
            let message = repo.commit(&id)?.message;
            let session = self.turns[&message].session.clone();
            let is_branch = name.starts_with("refs/heads/");
            let last = policies.of(&session).and_then(|policy| policy.keep_last);
            let last = last.filter(|_| is_branch).unwrap_or(1);
            let line = self.line(&message);
            kept.extend(line.into_iter().take(usize::try_from(last).unwrap()));
        }
        let spared = if purpose == Purpose::StrictGc { 0 } else { PROTECTED_OPERATIONS };
        for entry in repo.operations().take(spared) {
            let changes = entry?.operation.changes.into_iter();
            for value in changes.flat_map(|change| [change.old, change.new]).flatten() {
                if let RefValue::Object(id) = value
                    && let Ok(commit) = repo.peel(&id).and_then(|id| repo.commit(&id))
                {
                    kept.insert(commit.message);
                }
            }
        }
        kept.extend(self.branch_points(repo)?);
        let may_expire = self.turns.iter().filter(|(message, turn)| {
            policies.of(&turn.session).is_some() && !kept.contains(*message)
        });
        let may_expire: Vec<String> = may_expire.map(|(message, _)| message.clone()).collect();
        self.expired.extend(may_expire);
        self.collected = true;
        Ok(())
    }

    /// A turn and its ancestors, newest first.
    pub(super) fn line(&self, message: &str) -> Vec<String> {
        let mut line = vec![message.to_owned()];
        while let Some(parent) = line.last().and_then(|at| self.turns.get(at)?.parent.clone()) {
            line.push(parent);
        }
        line
    }

    fn branch_points(&self, repo: &Repository) -> turntree::Result<BTreeSet<String>> {
        let mut lines = BTreeSet::new();
        for (_, id) in tips(repo)? {
            lines.extend(self.line(&repo.commit(&id)?.message));
        }
        let parents = lines.iter().filter_map(|message| self.turns[message].parent.clone());
        let mut seen = BTreeSet::new();
        Ok(parents.filter(|parent| !seen.insert(parent.clone())).collect())
    }
}

/// The commits that branches, tags and pins point to.
pub(super) fn tips(repo: &Repository) -> turntree::Result<Vec<(String, ObjectId)>> {
    let refs = repo.refs();
    let named = refs.values.iter().filter(|(name, _)| {
        ["refs/heads/", "refs/tags/", "refs/pins/"].iter().any(|kind| name.starts_with(kind))
    });
    let ids = named.filter_map(|(name, value)| match value {
        RefValue::Object(id) => Some(repo.peel(id).map(|id| (name.to_owned(), id))),
        RefValue::Symbolic(_) => None,
    });
    ids.collect()
}

/// The notes and messages of a turn.
fn read(
    repo: &Repository,
    id: &ObjectId,
) -> turntree::Result<(BTreeMap<String, String>, Vec<String>)> {
    let context = repo.context(id)?;
    let text = |id: &ObjectId| {
        let bytes = repo.read_as(Kind::Blob, id)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let notes = context.map(repo, "scratchpad")?;
    let notes = notes.iter(repo).map(|entry| {
        let (key, item) = entry?;
        Ok((String::from_utf8_lossy(&key).into_owned(), text(&item.link.id)?))
    });
    let messages = context.messages(repo, "main")?;
    let messages = messages.iter(repo, 0..messages.len()).map(|item| text(&item?.link.id));
    Ok((notes.collect::<turntree::Result<_>>()?, messages.collect::<turntree::Result<_>>()?))
}
