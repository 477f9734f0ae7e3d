//! Walks of history: where one begins, what it leaves out, and the records of its snapshots.

use std::collections::HashMap;

use turntree::Error;
use turntree::context::Context;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, HEAD, LogEntry, Repository, SearchScope, split_range};
use turntree::store::Tombstone;
use turntree_exchange::{PriceTable, context_tokens, is_prompt, turn_facts};

use super::revision::{resolve, resolve_range};
use super::sessions::named_session;
use crate::view::advice::Advice;
use crate::view::error::Result;
use crate::view::{clock, json};

/// The start of a walk, and the snapshots that it leaves out.
pub(crate) struct Walk {
    pub(crate) starts: Vec<ObjectId>,
    pub(crate) hide: Vec<ObjectId>,
    /// The branch that a commit was come to along, for those about to be met.
    along: HashMap<ObjectId, BranchName>,
}

impl Walk {
    /// The history of a revision, or of a range.
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
        Ok(Self { starts: range.include, hide: range.exclude, along })
    }

    /// The same, to search in.
    pub(crate) fn into_scope(self) -> SearchScope {
        let named = |id: ObjectId| (id, self.along.get(&id).cloned());
        SearchScope { starts: self.starts.into_iter().map(named).collect(), hide: self.hide }
    }

    /// Everything that any branch has.
    pub(crate) fn all(repo: &Repository) -> Result<Self> {
        let branches = repo.branches();
        let starts = branches.iter().map(|(_, id)| *id).collect();
        let along = branches.into_iter().map(|(name, id)| (id, name)).collect();
        Ok(Self { starts, hide: Vec::new(), along })
    }

    /// Everything that the branches of one session have.
    pub(crate) fn of_session(repo: &Repository, session: &str) -> Result<Self> {
        let mut walk = Self::all(repo)?;
        walk.keep_session(&named_session(repo, session)?);
        Ok(walk)
    }

    /// Only branches of one session.
    pub(crate) fn keep_session(&mut self, session: &str) {
        self.along.retain(|_, name| name.session() == session);
        self.starts.retain(|start| self.along.contains_key(start));
    }

    /// Everything that one branch has.
    pub(crate) fn of(branch: &BranchName, tip: ObjectId) -> Self {
        let along = HashMap::from([(tip, branch.clone())]);
        Self { starts: vec![tip], hide: Vec::new(), along }
    }

    /// The branch a commit was come to along; its parents are then come to along the same.
    fn pass(&mut self, entry: &LogEntry) -> Option<BranchName> {
        let branch = self.along.remove(&entry.id);
        if let Some(branch) = &branch {
            for parent in &entry.parents {
                self.along.entry(*parent).or_insert_with(|| branch.clone());
            }
        }
        branch
    }

    /// Gives the records of `limit` snapshots to `each`, beginning at the snapshot `from` if one is
    /// named; with `prices`, the records say what the answers of a turn took. Returns where the walk goes
    /// on after them, unless it is at its end.
    ///
    /// # Errors
    /// `InvalidInput` when the walk does not come to `from`.
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
        for entry in repo.history(&self.starts, &self.hide)? {
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

/// One line of JSON.
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

/// Messages of all agents in a context.
pub(crate) fn messages(repo: &Repository, tree: &ObjectId) -> Result<u64> {
    Ok(Context::open(repo.store(), tree)?.message_count(repo.store())?)
}

/// Names the reason for which a context no longer exists.
pub(crate) fn gone(repo: &Repository, tree: &ObjectId) -> Option<&'static str> {
    repo.store().tombstone(tree).map(|gone| match gone {
        Tombstone::Elided => "expired",
        Tombstone::Redacted => "redacted",
    })
}

/// A branch of its session that has the commit: HEAD's if that does, else the first by name.
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
