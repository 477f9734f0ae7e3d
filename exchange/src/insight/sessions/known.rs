//! What was read of sessions, kept for who asks again: a server reads those alone that have changed since.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turntree::error::Result;
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{BranchName, NewestBranch, Repository, SESSION_REFS};
use turntree::store::RefTable;

use super::first_prompts::FirstPrompts;
use super::{SessionSummary, summary};
use crate::formats::is_prompt;

/// Sessions as they were read last. It is of one epoch of a store: a redaction and a collection begin
/// another one, and what they took away is to be in no memory, so all of it is read again then.
#[derive(Debug, Default)]
pub struct KnownSessions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The store, and its epoch.
    of: Option<([u8; 16], u64)>,
    /// How often it was let go of: what was read before is not kept.
    lettings: u64,
    sessions: HashMap<String, (Head, Arc<SessionSummary>)>,
    prompts: Option<FirstPrompts>,
}

/// All that the summary of a session follows from, in one epoch of a store.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    branches: Vec<(BranchName, ObjectId)>,
    labels: Option<RefValue>,
}

/// A session that is asked for, and what is known of it as it is now.
struct Asked {
    name: String,
    head: Head,
    known: Option<Arc<SessionSummary>>,
}

impl KnownSessions {
    /// Drops all of it: nothing of a store stays in memory.
    pub fn let_go(&self) {
        let mut known = self.lock();
        *known = Known { lettings: known.lettings + 1, ..Known::default() };
    }

    /// Returns the `most` newest sessions, the newest first, and how many there are. Sessions that are only
    /// begun are left out: of fewer than all of them, `most` includes these. Reads the newest commit
    /// of every branch of a session that has changed, and the rest as [`sessions`](super::sessions) does, of
    /// those that it returns.
    ///
    /// # Errors
    /// As [`sessions`](super::sessions).
    pub fn newest(
        &self,
        repo: &Repository,
        most: usize,
    ) -> Result<(Vec<Arc<SessionSummary>>, usize)> {
        let heads = heads(&repo.refs(), |_| true);
        // Those that were deleted.
        self.lock().sessions.retain(|name, _| heads.contains_key(name));
        let (asked, lettings) = self.ask(repo, heads);
        let all = asked.len();
        let mut dated = Vec::with_capacity(all);
        for asked in asked {
            dated.push((asked.newest(repo)?, asked));
        }
        dated.sort_by_key(|(newest, _)| Reverse(newest.as_ref().map(|it| it.time.micros)));
        dated.truncate(most);
        let tips = (most >= all).then(|| {
            let branches = dated.iter().flat_map(|(_, asked)| &asked.head.branches);
            branches.map(|(_, tip)| *tip).collect()
        });
        let mut read = self.read(repo, dated, tips.as_ref(), lettings)?;
        let found = read.len();
        read.retain(|session| !session.is_only_begun);
        let left_out = found - read.len();
        Ok((read, all - left_out))
    }

    /// Returns whether nothing has to be read for a list of all sessions.
    pub fn has_all(&self, repo: &Repository) -> bool {
        let (asked, _) = self.ask(repo, heads(&repo.refs(), |_| true));
        asked.iter().all(|asked| asked.known.is_some())
    }

    /// Returns those of some sessions that there are, by name. Reads as [`Self::newest`] does, of these alone.
    ///
    /// # Errors
    /// As [`sessions`](super::sessions).
    pub fn named(
        &self,
        repo: &Repository,
        names: &BTreeSet<&str>,
    ) -> Result<HashMap<String, Arc<SessionSummary>>> {
        let (asked, lettings) = self.ask(repo, heads(&repo.refs(), |name| names.contains(name)));
        let mut dated = Vec::with_capacity(asked.len());
        for asked in asked {
            dated.push((asked.newest(repo)?, asked));
        }
        let read = self.read(repo, dated, None, lettings)?;
        Ok(read.into_iter().map(|session| (session.name.clone(), session)).collect())
    }

    /// Looks up what is known of sessions as they are now.
    fn ask(&self, repo: &Repository, heads: BTreeMap<String, Head>) -> (Vec<Asked>, u64) {
        let mut known = self.lock();
        let of = Some((repo.store().id(), repo.store().epoch()));
        if known.of != of {
            *known = Known { of, lettings: known.lettings + 1, ..Known::default() };
        }
        let asked = heads.into_iter().map(|(name, head)| {
            let found = known.sessions.get(&name).filter(|(before, _)| *before == head);
            let found = found.map(|(_, summary)| Arc::clone(summary));
            Asked { name, head, known: found }
        });
        (asked.collect(), known.lettings)
    }

    /// Reads what is not known, in the order in which it is given. With the tips of all branches those of
    /// others are forgotten.
    fn read(
        &self,
        repo: &Repository,
        dated: Vec<(Option<NewestBranch>, Asked)>,
        tips: Option<&HashSet<ObjectId>>,
        lettings: u64,
    ) -> Result<Vec<Arc<SessionSummary>>> {
        let mut sessions = Vec::with_capacity(dated.len());
        if dated.iter().all(|(_, asked)| asked.known.is_some()) {
            sessions.extend(dated.into_iter().filter_map(|(_, asked)| asked.known));
            return Ok(sessions);
        }
        let kept = self.lock().prompts.clone();
        let mut lines = kept.unwrap_or_else(|| FirstPrompts::read(repo));
        let mut prompts = repo.prompts(Some(&is_prompt))?;
        let mut fresh = Vec::new();
        for (newest, Asked { name, head, known }) in dated {
            if let Some(known) = known {
                sessions.push(known);
                continue;
            }
            let Some(newest) = newest else { continue };
            let line = lines.of(repo, &mut prompts, (&name, newest.tip))?;
            let count = head.branches.len() as u64;
            let read = Arc::new(summary(repo, name, newest, line, count)?);
            sessions.push(Arc::clone(&read));
            fresh.push((head, read));
        }
        if let Some(tips) = tips {
            lines.keep_only(|tip| tips.contains(tip));
        }
        lines.write(repo);
        let mut known = self.lock();
        if known.lettings == lettings {
            known.prompts = Some(lines);
            let fresh = fresh.into_iter().map(|(head, read)| (read.name.clone(), (head, read)));
            known.sessions.extend(fresh);
        }
        Ok(sessions)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    /// Its branch with the newest snapshot.
    fn newest(&self, repo: &Repository) -> Result<Option<NewestBranch>> {
        if let Some(known) = &self.known {
            let SessionSummary { branch, tip, time, .. } = &**known;
            return Ok(Some(NewestBranch { branch: branch.clone(), tip: *tip, time: *time }));
        }
        let mut newest = None::<NewestBranch>;
        for (branch, tip) in &self.head.branches {
            let found =
                NewestBranch { branch: branch.clone(), tip: *tip, time: repo.commit(tip)?.time };
            if newest.as_ref().is_none_or(|known| found.comes_before(known)) {
                newest = Some(found);
            }
        }
        Ok(newest)
    }
}

/// The heads of sessions that are wanted, by name.
fn heads(refs: &RefTable, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Head> {
    let mut heads: BTreeMap<String, Head> = BTreeMap::new();
    for (name, value) in &refs.values {
        let (Some(branch), RefValue::Object(tip)) = (BranchName::from_full(name), value) else {
            continue;
        };
        if !is_wanted(branch.session()) {
            continue;
        }
        let labels = || refs.values.get(&format!("{SESSION_REFS}{}", branch.session())).cloned();
        match heads.get_mut(branch.session()) {
            Some(head) => head.branches.push((branch, *tip)),
            None => {
                let head = Head { labels: labels(), branches: vec![(branch.clone(), *tip)] };
                heads.insert(branch.session().to_owned(), head);
            }
        }
    }
    heads
}
