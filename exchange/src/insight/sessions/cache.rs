//! Caches session summaries in memory, so that a server rereads only the sessions that changed.

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

/// The session summaries of the last read. They belong to one epoch of a store. A redaction or a
/// collection starts a new epoch, and the content that it deleted must not stay in memory, so all
/// summaries are then read again.
#[derive(Debug, Default)]
pub struct KnownSessions(Mutex<SessionCache>);

#[derive(Debug, Default)]
struct SessionCache {
    /// The id and epoch of the store.
    of: Option<([u8; 16], u64)>,
    /// The number of times that the cache was dropped. Results of earlier reads are not cached.
    clears: u64,
    sessions: HashMap<String, (SessionHead, Arc<SessionSummary>)>,
    prompts: Option<FirstPrompts>,
}

/// The state that determines the summary of a session within one epoch.
#[derive(Debug, PartialEq, Eq)]
struct SessionHead {
    branches: Vec<(BranchName, ObjectId)>,
    labels: Option<RefValue>,
}

/// A requested session, with its summary if that is current.
struct SessionRequest {
    name: String,
    head: SessionHead,
    known: Option<Arc<SessionSummary>>,
}

impl KnownSessions {
    /// Drops all summaries, so that no content of a store stays in memory.
    pub fn clear(&self) {
        let mut known = self.lock();
        *known = SessionCache { clears: known.clears + 1, ..SessionCache::default() };
    }

    /// Returns the `most` newest sessions, the newest first, and the number of all sessions. Omits
    /// sessions that are only begun, but counts them in `most` if more sessions exist. Reads the
    /// newest commit of every branch of a changed session, and the other data, like
    /// [`sessions`](super::sessions), only for the returned sessions.
    ///
    /// # Errors
    /// The errors of [`sessions`](super::sessions).
    pub fn newest(
        &self,
        repo: &Repository,
        most: usize,
    ) -> Result<(Vec<Arc<SessionSummary>>, usize)> {
        let heads = heads(&repo.refs(), |_| true);
        // Forget deleted sessions.
        self.lock().sessions.retain(|name, _| heads.contains_key(name));
        let (requests, clears) = self.look_up(repo, heads);
        let all = requests.len();
        let mut dated = Vec::with_capacity(all);
        for request in requests {
            dated.push((request.newest(repo)?, request));
        }
        dated.sort_by_key(|(newest, _)| Reverse(newest.as_ref().map(|it| it.time.micros)));
        dated.truncate(most);
        let tips = (most >= all).then(|| {
            let branches = dated.iter().flat_map(|(_, request)| &request.head.branches);
            branches.map(|(_, tip)| *tip).collect()
        });
        let mut read = self.read(repo, dated, tips.as_ref(), clears)?;
        let found = read.len();
        read.retain(|session| !session.is_only_begun);
        let omitted = found - read.len();
        Ok((read, all - omitted))
    }

    /// Returns true if a list of all sessions needs no read.
    pub fn has_all(&self, repo: &Repository) -> bool {
        let (requests, _) = self.look_up(repo, heads(&repo.refs(), |_| true));
        requests.iter().all(|request| request.known.is_some())
    }

    /// Returns the existing sessions among `names`, by name. Reads like [`Self::newest`], only for
    /// these sessions.
    ///
    /// # Errors
    /// The errors of [`sessions`](super::sessions).
    pub fn named(
        &self,
        repo: &Repository,
        names: &BTreeSet<&str>,
    ) -> Result<HashMap<String, Arc<SessionSummary>>> {
        let (requests, clears) =
            self.look_up(repo, heads(&repo.refs(), |name| names.contains(name)));
        let mut dated = Vec::with_capacity(requests.len());
        for request in requests {
            dated.push((request.newest(repo)?, request));
        }
        let read = self.read(repo, dated, None, clears)?;
        Ok(read.into_iter().map(|session| (session.name.clone(), session)).collect())
    }

    /// Looks up the current summaries of sessions.
    fn look_up(
        &self,
        repo: &Repository,
        heads: BTreeMap<String, SessionHead>,
    ) -> (Vec<SessionRequest>, u64) {
        let mut known = self.lock();
        let of = Some((repo.store().id(), repo.store().epoch()));
        if known.of != of {
            *known = SessionCache { of, clears: known.clears + 1, ..SessionCache::default() };
        }
        let requests = heads.into_iter().map(|(name, head)| {
            let found = known.sessions.get(&name).filter(|(before, _)| *before == head);
            let found = found.map(|(_, summary)| Arc::clone(summary));
            SessionRequest { name, head, known: found }
        });
        (requests.collect(), known.clears)
    }

    /// Reads the missing summaries and keeps the given order. If `tips` has the tips of all
    /// branches, forgets the prompts of other tips.
    fn read(
        &self,
        repo: &Repository,
        dated: Vec<(Option<NewestBranch>, SessionRequest)>,
        tips: Option<&HashSet<ObjectId>>,
        clears: u64,
    ) -> Result<Vec<Arc<SessionSummary>>> {
        let mut sessions = Vec::with_capacity(dated.len());
        if dated.iter().all(|(_, request)| request.known.is_some()) {
            sessions.extend(dated.into_iter().filter_map(|(_, request)| request.known));
            return Ok(sessions);
        }
        let cached = self.lock().prompts.clone();
        let mut lines = cached.unwrap_or_else(|| FirstPrompts::read(repo));
        let mut prompts = repo.prompts(Some(&is_prompt))?;
        let mut fresh = Vec::new();
        for (newest, SessionRequest { name, head, known }) in dated {
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
            lines.retain_tips(|tip| tips.contains(tip));
        }
        lines.write(repo);
        let mut known = self.lock();
        if known.clears == clears {
            known.prompts = Some(lines);
            let fresh = fresh.into_iter().map(|(head, read)| (read.name.clone(), (head, read)));
            known.sessions.extend(fresh);
        }
        Ok(sessions)
    }

    fn lock(&self) -> MutexGuard<'_, SessionCache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionRequest {
    /// Returns the branch with the newest snapshot.
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

/// Returns the heads of the wanted sessions, by name.
fn heads(refs: &RefTable, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, SessionHead> {
    let mut heads: BTreeMap<String, SessionHead> = BTreeMap::new();
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
                let head = SessionHead { labels: labels(), branches: vec![(branch.clone(), *tip)] };
                heads.insert(branch.session().to_owned(), head);
            }
        }
    }
    heads
}
