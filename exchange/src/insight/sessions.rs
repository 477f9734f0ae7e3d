//! The sessions of a store as people tell them apart: by title, project, agent and age.
//!
//! Everything but the first prompt is read from the newest commit of a session. The first prompt is
//! looked for once, and noted.

mod first_prompts;
mod known;

use std::sync::Arc;

use turntree::context::MAIN_AGENT;
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Commit, ObjectId, Time, Trigger};
use turntree::repo::{BranchName, NewestBranch, Repository, SessionLabels};

use self::first_prompts::LinePrompts;
pub use self::known::KnownSessions;
use super::origin::{Origin, origin};
use super::usage::context_tokens;

/// Fewest characters that stand for a whole name or title.
const MIN_PREFIX: usize = 3;

/// Most candidates that an error names.
const MAX_CANDIDATES: usize = 8;

/// The fact that says what records a session has.
const FORMAT: &str = "format";

/// What hooks put before the name of a client.
const HOOK: &str = "hook/";

/// A session as people tell it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its name.
    pub name: String,
    /// The branch with the newest snapshot.
    pub branch: BranchName,
    /// The newest commit of that.
    pub tip: ObjectId,
    /// The time of that.
    pub time: Time,
    /// The client or format that it is from, else who took its snapshots.
    pub agent: String,
    /// The model of the newest turn; empty when nobody said.
    pub model: String,
    /// Where it is from, and what its records say of it.
    pub origin: Origin,
    /// What people say of it.
    pub labels: SessionLabels,
    /// The first prompt in one line, if there is one.
    pub first_prompt: Option<String>,
    /// Prompts on the line of the branch.
    pub prompts: u64,
    /// The number of the newest turn.
    pub turns: u64,
    /// Files in the newest context; `None` when that is gone.
    pub files: Option<u64>,
    /// Tokens of the newest context, where whoever took it said so.
    pub tokens: Option<u64>,
    /// Branches of the session.
    pub branches: u64,
    /// Set if a client was started and nothing was said: the session has the files of that moment, which a
    /// hook took, and nothing else.
    pub is_only_begun: bool,
}

/// Who gave a session its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleSource {
    /// A person, with `session rename`.
    Person,
    /// Its client.
    Client,
    /// It is the first prompt.
    Prompt,
}

impl SessionSummary {
    /// The title for people and whose it is: what a person said, else the client, else the first
    /// prompt. `None` for a session without any.
    #[must_use]
    pub fn title(&self) -> Option<(&str, TitleSource)> {
        let person = self.labels.title.as_deref().map(|title| (title, TitleSource::Person));
        let client = || self.origin.title.as_deref().map(|title| (title, TitleSource::Client));
        let prompt = || self.first_prompt.as_deref().map(|title| (title, TitleSource::Prompt));
        person.or_else(client).or_else(prompt)
    }

    fn lower_title(&self) -> String {
        self.title().map_or_else(String::new, |(title, _)| title.to_lowercase())
    }

    /// The last part of the directory that it worked in.
    #[must_use]
    pub fn project(&self) -> Option<&str> {
        let directory = self.origin.directories.first()?.trim_end_matches(['/', '\\']);
        directory.rsplit(['/', '\\']).next().filter(|name| !name.is_empty())
    }
}

/// Returns every session, the newest first, without those that are [only
/// begun](SessionSummary::is_only_begun). Reads the newest commit of every branch, some facts of
/// each session, and the history of those that have grown since the last time. Who asks again keeps
/// [`KnownSessions`].
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
pub fn sessions(repo: &Repository) -> Result<Vec<SessionSummary>> {
    let (sessions, _) = KnownSessions::default().newest(repo, usize::MAX)?;
    Ok(sessions.into_iter().map(Arc::unwrap_or_clone).collect())
}

/// Returns the session that `text` means: by its name, else by the beginning of its name or of the
/// id that its client has for it, else by its title or the beginning of that, whatever the case.
/// `None` when there is none.
///
/// # Errors
/// `Ambiguous` with the candidates when it is the beginning of several. As [`sessions`].
pub fn find_session(repo: &Repository, text: &str) -> Result<Option<String>> {
    let mut names: Vec<String> =
        repo.branches().into_iter().map(|(branch, _)| branch.session().to_owned()).collect();
    names.sort();
    names.dedup();
    if names.iter().any(|name| name == text) {
        return Ok(Some(text.to_owned()));
    }
    if text.chars().count() < MIN_PREFIX {
        return Ok(None);
    }
    let begins: Vec<&String> = names.iter().filter(|name| name.starts_with(text)).collect();
    match begins.as_slice() {
        [] => {}
        [only] => return Ok(Some((*only).clone())),
        _ => return Err(ambiguous(text, begins.iter().map(|name| (*name).clone()))),
    }
    let sessions = sessions(repo)?;
    let told = |session: &&SessionSummary| match session.title() {
        None => session.name.clone(),
        Some((title, _)) => format!("{} ({title})", session.name),
    };
    let wanted = text.to_lowercase();
    let is_id = |session: &&SessionSummary| {
        session.origin.client_id.as_ref().is_some_and(|id| id.starts_with(text))
    };
    let is_title = |session: &&SessionSummary| session.lower_title() == wanted;
    let begins_title = |session: &&SessionSummary| session.lower_title().starts_with(&wanted);
    let ways: [&dyn Fn(&&SessionSummary) -> bool; 3] = [&is_id, &is_title, &begins_title];
    for is_meant in ways {
        let meant: Vec<&SessionSummary> = sessions.iter().filter(is_meant).collect();
        match meant.as_slice() {
            [] => {}
            [only] => return Ok(Some(only.name.clone())),
            _ => return Err(ambiguous(text, meant.iter().map(told))),
        }
    }
    Ok(None)
}

fn ambiguous(text: &str, candidates: impl Iterator<Item = String>) -> Error {
    let mut candidates: Vec<String> = candidates.collect();
    let more = candidates.len().saturating_sub(MAX_CANDIDATES);
    candidates.truncate(MAX_CANDIDATES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let candidates = candidates.join(", ");
    let message = format!("'{text}' is ambiguous: it begins the sessions {candidates}{rest}");
    Error::new(ErrorKind::Ambiguous, message)
}

fn summary(
    repo: &Repository,
    name: String,
    newest: NewestBranch,
    line: LinePrompts,
    branches: u64,
) -> Result<SessionSummary> {
    let NewestBranch { branch, tip, time } = newest;
    let commit = repo.commit(&tip)?;
    let first = line.first.map(|id| repo.commit(&id)).transpose()?;
    // The first prompt of a session that goes on from another one may be of another client.
    let of_records = match &first {
        Some(first) if first.session != name => repo.fact_of(&tip, FORMAT)?,
        _ => None,
    };
    let author = first.as_ref().map_or(&commit.author.agent, |first| &first.author.agent);
    let agent =
        of_records.unwrap_or_else(|| author.strip_prefix(HOOK).unwrap_or(author).to_owned());
    let files = match repo.context(&tip) {
        Ok(context) => Some(context.count(repo.store(), "files")?),
        Err(error) if error.kind() == ErrorKind::Expired => None,
        Err(error) => return Err(error),
    };
    let mut from = origin(repo, &tip)?;
    // The newest may be of a worktree.
    let main = BranchName::main(&name)?;
    if let Some(tip) = repo.tip(&main).filter(|_| branch != main) {
        let of_main = origin(repo, &tip)?.directories;
        let new = of_main.into_iter().filter(|it| !from.directories.contains(it));
        let new: Vec<String> = new.collect();
        from.directories.splice(0..0, new);
    }
    let labels = repo.session_labels(&name)?;
    let is_first = commit.turn == 1 && line.count == 0 && branches == 1;
    let is_of_hook = commit.trigger == Trigger::Manual && commit.author.agent.starts_with(HOOK);
    let is_only_begun = is_first
        && is_of_hook
        && labels == SessionLabels::default()
        && match repo.context(&tip) {
            Ok(context) => context.messages(repo.store(), MAIN_AGENT)?.is_empty(),
            Err(error) if error.kind() == ErrorKind::Expired => false,
            Err(error) => return Err(error),
        };
    Ok(SessionSummary {
        is_only_begun,
        origin: from,
        labels,
        first_prompt: first.map(|first: Commit| first.message),
        prompts: line.count,
        turns: commit.turn,
        tokens: context_tokens(&commit),
        model: commit.author.model,
        name,
        branch,
        tip,
        time,
        agent,
        files,
        branches,
    })
}
