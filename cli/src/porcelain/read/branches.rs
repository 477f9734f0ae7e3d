//! Branches: lists them, measures their divergence, creates them, and points HEAD at them.

use std::collections::HashMap;

use turntree::object::{Commit, ObjectId, Time};
use turntree::repo::{BranchLine, BranchName, Divergence, MAIN_BRANCH, Repository};
use turntree::{Error, ErrorKind};

use super::revision::resolve;
use super::sessions::titles;
use crate::program::invocation::stamp;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Hint, Result};
use crate::view::render::count;
use crate::view::{clock, json};

/// A branch with its newest commit.
pub(crate) struct BranchTip {
    pub(crate) name: BranchName,
    pub(crate) id: ObjectId,
    pub(crate) commit: Commit,
}

/// The branches of a session or of all sessions, newest first.
pub(crate) fn branches_of(repo: &Repository, session: Option<&str>) -> Result<Vec<BranchTip>> {
    let branches = match session {
        Some(session) => repo.branches_of(session),
        None => repo.branches(),
    };
    let tips = repo.with_commits(branches)?.into_iter();
    let mut tips: Vec<_> = tips.map(|(name, id, commit)| BranchTip { name, id, commit }).collect();
    tips.sort_by_key(|tip| std::cmp::Reverse(tip.commit.time.micros));
    Ok(tips)
}

/// The JSON records of branches, with the times of their newest commits.
pub(crate) fn records(
    repo: &Repository,
    branches: impl IntoIterator<Item = BranchTip>,
) -> Result<Vec<(json::BranchRecord, Time)>> {
    let titles = titles(repo)?;
    let head = repo.head_if_any()?.map(|head| head.branch);
    let mut lines = MainLines::new(repo);
    let record = |BranchTip { name, id, commit }: BranchTip| {
        let current = Some(&name) == head.as_ref();
        let divergence = lines.divergence(&name, &id)?;
        let title = titles.get(name.session()).cloned();
        let record = json::BranchRecord {
            session: name.session().to_owned(),
            branch: name.branch().to_owned(),
            id: id.to_string(),
            turn: commit.turn,
            time: clock::rfc3339(commit.time),
            message: commit.message,
            current,
            head: current,
            fork_turn: divergence.and_then(|d| Some(d.fork?.1)),
            own_turns: divergence.map(|d| d.own),
            title,
        };
        Ok((record, commit.time))
    };
    branches.into_iter().map(record).collect()
}

/// The main branches of sessions, to compare other branches with.
pub(crate) struct MainLines<'r> {
    repo: &'r Repository,
    by_session: HashMap<String, Option<BranchLine<'r>>>,
}

impl<'r> MainLines<'r> {
    pub(crate) fn new(repo: &'r Repository) -> Self {
        Self { repo, by_session: HashMap::new() }
    }

    /// Measures the divergence of a branch from the main branch of its session; `None` for the main
    /// branch itself.
    pub(crate) fn divergence(
        &mut self,
        name: &BranchName,
        tip: &ObjectId,
    ) -> Result<Option<Divergence>> {
        if name.branch() == MAIN_BRANCH {
            return Ok(None);
        }
        let session = name.session();
        if !self.by_session.contains_key(session) {
            let main = self.repo.tip(&BranchName::main(session)?);
            let line = main.map(|tip| self.repo.line(&tip)).transpose()?;
            self.by_session.insert(session.to_owned(), line);
        }
        match self.by_session.get_mut(session) {
            Some(Some(line)) => Ok(Some(line.divergence(tip)?)),
            _ => Ok(None),
        }
    }
}

/// The starting point of new branches.
pub(crate) struct ForkStart {
    pub(crate) commit: ObjectId,
    pub(crate) branches: Vec<BranchName>,
}

impl ForkStart {
    /// Prepares the branches called `names` at a revision, in the session of the revision or in
    /// `session`.
    ///
    /// # Errors
    /// `InvalidInput` if a name exists, or is given twice.
    pub(crate) fn of(
        repo: &Repository,
        revision: &str,
        session: Option<&str>,
        names: &[impl AsRef<str>],
    ) -> Result<Self> {
        let revision = resolve(repo, revision)?;
        let id = revision.commit;
        let commit = repo.commit(&id)?;
        // A branch must begin at a turn with a context.
        repo.context(&id)?;
        let named = revision.branch.as_ref().map_or(commit.session.as_str(), BranchName::session);
        let mut branches = Vec::new();
        for name in names {
            let within = match name.as_ref().contains('/') {
                true => Advice::new(
                    "--session SESSION begins a branch in another session",
                    "session begins a branch in another session",
                ),
                false => Advice::anyone("choose another name"),
            };
            let branch = repo.new_branch(session.unwrap_or(named), name.as_ref());
            let branch = branch.hint(ErrorKind::InvalidInput, within)?;
            if repo.tip(&branch).is_some() || branches.contains(&branch) {
                let taken = match branches.contains(&branch) {
                    true => format!("branch {branch} is named twice"),
                    false => format!("branch {branch} exists already"),
                };
                let hint = Advice::new(
                    "choose another name, or 'turntree switch' to it",
                    "choose another name, or call branch with action = switch",
                );
                return Err(Failure::hinted(Error::invalid(taken), hint));
            }
            branches.push(branch);
        }
        Ok(Self { commit: id, branches })
    }

    /// The reason of the operation.
    pub(crate) fn reason(&self) -> String {
        let names: Vec<String> = self.branches.iter().map(ToString::to_string).collect();
        format!("fork {}", names.join(", "))
    }
}

/// Creates branches, and with `switch` points HEAD at the last one.
pub(crate) fn fork(repo: &Repository, start: &ForkStart, switch: bool) -> Result<()> {
    let mut change = repo.begin();
    for branch in &start.branches {
        change.move_branch(branch, Some(start.commit));
        if switch {
            change.switch(branch);
        }
    }
    change.commit(&stamp()?, &start.reason())?;
    Ok(())
}

/// Points HEAD at a branch.
pub(crate) fn switch(repo: &Repository, branch: &BranchName) -> Result<()> {
    let mut change = repo.begin();
    change.switch(branch);
    change.commit(&stamp()?, &format!("switch {branch}"))?;
    Ok(())
}

/// Returns the record of the tip of a branch.
pub(crate) fn whereabouts(repo: &Repository, branch: &BranchName) -> Result<json::Moved> {
    let tip = repo.tip(branch).map(|id| Ok::<_, turntree::Error>((id, repo.commit(&id)?.turn)));
    Ok(json::Moved::new(tip.transpose()?, branch))
}

/// Refuses to import forgotten sessions, unless `again` is set.
pub(crate) fn refuse_forgotten<'a>(
    repo: &Repository,
    sessions: impl IntoIterator<Item = &'a str>,
    again: bool,
) -> Result<()> {
    match sessions.into_iter().find(|session| !again && repo.is_forgotten(session)) {
        Some(session) => {
            let error = Error::invalid(format!("session {session} was forgotten"));
            Err(Failure::hinted(error, "--again imports it again"))
        }
        None => Ok(()),
    }
}

/// Reports the number of forgotten sessions that an import left out.
pub(crate) fn left_out(sessions: u64) -> String {
    let (were, them) = if sessions == 1 { ("was", "it") } else { ("were", "them") };
    let sessions = count(sessions, "session");
    format!("{sessions} {were} forgotten: --again imports {them} again")
}
