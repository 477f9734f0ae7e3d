//! Walks of history: the start, the hidden snapshots, and the records of visited snapshots.

use std::collections::{HashMap, HashSet};

use turntree::Error;
use turntree::context::Context;
use turntree::object::ObjectId;
use turntree::repo::{
    BranchName, HEAD, History, KnownTip, LogEntry, Repository, SearchScope, split_range,
};
use turntree::store::Tombstone;
use turntree_exchange::{KnownSessions, PriceTable, context_tokens, is_prompt, turn_facts};

use super::revision::{resolve, resolve_range};
use super::sessions::named_session;
use crate::view::advice::Advice;
use crate::view::error::Result;
use crate::view::{clock, json};

/// The starts of a walk, and the snapshots that it leaves out.
pub(crate) struct Walk {
    pub(crate) starts: Vec<ObjectId>,
    pub(crate) hide: Vec<ObjectId>,
    /// The branch on which a commit is reached, for commits to be visited next.
    along: HashMap<ObjectId, BranchName>,
    /// The starts whose turns are known.
    known: Vec<KnownTip>,
}

impl Walk {
    /// The history of a revision or a range.
    pub(crate) fn range(repo: &Repository, text: &str) -> Result<Self> {
        let advice = Advice::new(
            "--path PATH selects the turns that changed something there",
            "paths selects the turns that changed something there",
        );
        let range = resolve_range(repo, text, &advice)?;
        let right = split_range(text).map_or(text, |(_, right)| right);
        let right = if right.is_empty() { HEAD } else { right };
        let mut along = HashMap::new();
        if let Some(start) = range.include.first() {
            let named = resolve(repo, right)?.branch;
            let branch = named.map_or_else(|| branch_with(repo, start), |name| Ok(Some(name)))?;
            along.extend(branch.map(|branch| (*start, branch)));
        }
        Ok(Self { starts: range.include, hide: range.exclude, along, known: Vec::new() })
    }

    /// Converts the walk into a scope for a search.
    pub(crate) fn into_scope(self) -> SearchScope {
        let named = |id: ObjectId| (id, self.along.get(&id).cloned());
        SearchScope { starts: self.starts.into_iter().map(named).collect(), hide: self.hide }
    }

    /// The history of all branches.
    pub(crate) fn all(repo: &Repository) -> Result<Self> {
        let branches = repo.branches();
        let starts = branches.iter().map(|(_, id)| *id).collect();
        let along = branches.into_iter().map(|(name, id)| (id, name)).collect();
        Ok(Self { starts, hide: Vec::new(), along, known: Vec::new() })
    }

    /// The history of all branches, for a walk that probably ends early: it reads only the tips
    /// that it reaches.
    pub(crate) fn newest(repo: &Repository, sessions: &KnownSessions) -> Result<Self> {
        // Without the list, as in a damaged store, the walk reads every tip.
        let table = sessions.table(repo).unwrap_or_default();
        let known = table.all().flat_map(|row| row.tips()).collect();
        Ok(Self { known, ..Self::all(repo)? })
    }

    /// Begins the walk.
    pub(crate) fn history<'r>(&self, repo: &'r Repository) -> Result<History<'r>> {
        let known: HashSet<ObjectId> = self.known.iter().map(|tip| tip.id).collect();
        let unknown = self.starts.iter().filter(|id| !known.contains(id)).copied();
        let history = repo.history(&unknown.collect::<Vec<_>>(), &self.hide)?;
        Ok(history.with_known(&self.known))
    }

    /// The history of all branches of a session.
    pub(crate) fn of_session(repo: &Repository, session: &str) -> Result<Self> {
        let mut walk = Self::all(repo)?;
        walk.keep_session(&named_session(repo, session)?);
        Ok(walk)
    }

    /// Keeps only branches of one session.
    pub(crate) fn keep_session(&mut self, session: &str) {
        self.along.retain(|_, name| name.session() == session);
        self.starts.retain(|start| self.along.contains_key(start));
    }

    /// The history of one branch.
    pub(crate) fn of(branch: &BranchName, tip: ObjectId) -> Self {
        let along = HashMap::from([(tip, branch.clone())]);
        Self { starts: vec![tip], hide: Vec::new(), along, known: Vec::new() }
    }

    /// Returns the branch on which a commit is reached, and passes it on to the commit's parents.
    fn pass(&mut self, entry: &LogEntry) -> Option<BranchName> {
        let branch = self.along.remove(&entry.id);
        if let Some(branch) = &branch {
            for parent in &entry.parents {
                self.along.entry(*parent).or_insert_with(|| branch.clone());
            }
        }
        branch
    }

    /// Calls `each` with the records of `limit` snapshots, from the snapshot `from` on if given.
    /// With `prices`, the records include the usage of each turn. Returns the next snapshot, unless
    /// the walk is at its end.
    ///
    /// # Errors
    /// `InvalidInput` if the walk does not reach `from`.
    pub(crate) fn records(
        mut self,
        repo: &Repository,
        mut from: Option<ObjectId>,
        limit: usize,
        prices: Option<&PriceTable>,
        mut shows: impl FnMut(&LogEntry) -> Result<bool>,
        mut each: impl FnMut(json::LogLine) -> Result<()>,
    ) -> Result<Option<ObjectId>> {
        let mut left = limit;
        let mut prompts = repo.prompts(Some(&is_prompt))?;
        for entry in self.history(repo)? {
            if left == 0 {
                return Ok(entry.ok().map(|entry| entry.id));
            }
            let entry = entry?;
            let branch = self.pass(&entry).map(|name| name.branch().to_owned());
            from.take_if(|from| *from == entry.id);
            if from.is_some() || !shows(&entry)? {
                continue;
            }
            left -= 1;
            let prompt = prompts.number(&entry)?;
            let facts = prices.map(|prices| turn_facts(repo, &entry, prices)).transpose()?;
            let spending = facts.flatten().and_then(|facts| facts.spending);
            let usage = spending.as_ref().map(json::SpendingRecord::new);
            each(json::LogLine { usage, ..record(repo, entry, branch, prompt)? })?;
        }
        match from {
            Some(from) => Err(Error::invalid(format!("{from} is not in this history")).into()),
            None => Ok(None),
        }
    }
}

/// The JSON record of a snapshot.
fn record(
    repo: &Repository,
    entry: LogEntry,
    branch: Option<String>,
    prompt: Option<u64>,
) -> Result<json::LogLine> {
    let LogEntry { id, commit, parents } = entry;
    let (messages, elided) = match gone(repo, &commit.tree) {
        Some(word) => (None, Some(word)),
        None => (Some(messages(repo, &commit.tree)?), None),
    };
    Ok(json::LogLine {
        id: id.to_string(),
        parents: parents.iter().map(ToString::to_string).collect(),
        tokens: context_tokens(&commit),
        session: commit.session,
        branch,
        turn: commit.turn,
        time: clock::rfc3339(commit.time),
        trigger: commit.trigger.name(),
        message: commit.message,
        messages,
        author: json::Author { agent: commit.author.agent, model: commit.author.model },
        elided,
        is_prompt: prompt.is_some(),
        prompt,
        usage: None,
    })
}

/// The number of messages of all agents in a context.
pub(crate) fn messages(repo: &Repository, tree: &ObjectId) -> Result<u64> {
    Ok(Context::open(repo, tree)?.message_count(repo)?)
}

/// Names the reason why a context no longer exists.
pub(crate) fn gone(repo: &Repository, tree: &ObjectId) -> Option<&'static str> {
    repo.tombstone(tree).map(|gone| match gone {
        Tombstone::Elided => "expired",
        Tombstone::Redacted => "redacted",
    })
}

/// A branch of its session that contains the commit: HEAD's branch if possible, otherwise the first
/// by name.
fn branch_with(repo: &Repository, id: &ObjectId) -> Result<Option<BranchName>> {
    let session = repo.commit(id)?.session;
    let head = repo.head_if_any()?.map(|head| head.branch);
    let mut branches = repo.branches();
    branches.retain(|(name, _)| name.session() == session);
    branches.sort_by_key(|(name, _)| Some(name) != head.as_ref());
    for (name, tip) in branches {
        if repo.history(&[*id], &[tip])?.next().transpose()?.is_none() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
