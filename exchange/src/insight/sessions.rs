//! Lists the sessions of a store with their titles, projects, agents and times.
//!
//! All data except for the first prompt comes from the newest commit of a session. What a list shows
//! of a session is read once after each change of the session, and cached.

mod cache;
mod lines;
mod note;
mod row;
mod table;
mod title;

use turntree::context::sections::FILES;
use turntree::context::{MAIN_AGENT, open_conflicts};
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{ObjectId, Time, Trigger};
use turntree::repo::{BranchName, NewestBranch, Repository, SessionLabels};

pub use self::cache::KnownSessions;
use self::lines::LinePrompts;
pub use self::row::SessionRow;
pub use self::table::SessionTable;
use self::title::prompt_title;
use super::origin::{Origin, origin};
use super::usage::context_tokens;

/// Minimum length of an abbreviated name or title in characters.
const MIN_PREFIX: usize = 3;

/// Maximum number of candidates in an error message.
const MAX_CANDIDATES: usize = 8;

/// The fact that holds the format of the records.
const FORMAT: &str = "format";

/// Prefix of the actor names of hooks.
const HOOK: &str = "hook/";

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The name of the session.
    pub name: String,
    /// The branch with the newest snapshot.
    pub branch: BranchName,
    /// The newest commit of that branch.
    pub tip: ObjectId,
    /// The time of that commit.
    pub time: Time,
    /// The client or format of the session, else the author of its snapshots.
    pub agent: String,
    /// The model of the newest turn. Empty if unknown.
    pub model: String,
    /// The origin of the session according to its records.
    pub origin: Origin,
    /// The labels that users gave the session.
    pub labels: SessionLabels,
    /// The first prompt in one line, cut at a word; the heading of a plan.
    pub first_prompt: Option<String>,
    /// The number of prompts on the line of the branch.
    pub prompts: u64,
    /// The number of the newest turn.
    pub turns: u64,
    /// The number of files in the newest context. `None` if it expired.
    pub files: Option<u64>,
    /// The number of tokens in the newest context, if recorded.
    pub tokens: Option<u64>,
    /// The number of branches.
    pub branches: u64,
    /// The number of open conflicts of its newest branches.
    pub conflicts: u64,
    /// True if a client was started without a prompt: the session contains only the files that a
    /// hook recorded at the start.
    pub is_only_begun: bool,
}

/// The origin of a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleSource {
    /// A person, with `session rename`.
    Person,
    /// Its client.
    Client,
    /// The first prompt.
    Prompt,
}

impl SessionSummary {
    /// Returns the title and its origin: the title of a person, else of the client, else the first
    /// prompt.
    #[must_use]
    pub fn title(&self) -> Option<(&str, TitleSource)> {
        let person = self.labels.title.as_deref().map(|title| (title, TitleSource::Person));
        let client = || self.origin.title.as_deref().map(|title| (title, TitleSource::Client));
        let prompt = || self.first_prompt.as_deref().map(|title| (title, TitleSource::Prompt));
        person.or_else(client).or_else(prompt)
    }

    /// Returns the last component of the working directory.
    #[must_use]
    pub fn project(&self) -> Option<&str> {
        let directory = self.origin.directories.first()?.trim_end_matches(['/', '\\']);
        directory.rsplit(['/', '\\']).next().filter(|name| !name.is_empty())
    }
}

/// Returns all sessions with content, the newest first: without those that are [only
/// begun](SessionSummary::is_only_begun). Reads the newest commit of every branch, some facts of
/// each session, and the history of the sessions that have grown since the last call. Callers that
/// ask repeatedly should keep [`KnownSessions`].
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub fn sessions(repo: &Repository) -> Result<Vec<SessionSummary>> {
    KnownSessions::default().all(repo)
}

/// Returns the session that `text` identifies: by its name, else by a prefix of its name, of its
/// client's id or of its title, ignoring the case of titles. `None` if no session matches.
///
/// # Errors
/// `Ambiguous` with the candidates if `text` is the prefix of several. The errors of [`sessions`].
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
    let table = KnownSessions::default().table(repo)?;
    let describe = |session: &SessionRow<'_>| match session.title() {
        None => session.name().to_owned(),
        Some(title) => format!("{} ({title})", session.name()),
    };
    let wanted = text.to_lowercase();
    let lower_title = |session: &SessionRow<'_>| session.title().unwrap_or_default().to_lowercase();
    let is_id =
        |session: &SessionRow<'_>| session.client_id().is_some_and(|it| it.starts_with(text));
    let is_title = |session: &SessionRow<'_>| lower_title(session) == wanted;
    let begins_title = |session: &SessionRow<'_>| lower_title(session).starts_with(&wanted);
    let ways: [&dyn Fn(&SessionRow<'_>) -> bool; 3] = [&is_id, &is_title, &begins_title];
    for is_meant in ways {
        let meant: Vec<SessionRow<'_>> = table.listed().filter(is_meant).collect();
        match meant.as_slice() {
            [] => {}
            [only] => return Ok(Some(only.name().to_owned())),
            _ => return Err(ambiguous(text, meant.iter().map(describe))),
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

/// Returns the number of open conflicts of a snapshot; 0 if its context has expired.
///
/// # Errors
/// The errors of reading.
pub(crate) fn number_of_conflicts(repo: &Repository, tip: &ObjectId) -> Result<usize> {
    match repo.context(tip) {
        Err(error) if error.kind() == ErrorKind::Expired => Ok(0),
        context => Ok(open_conflicts(repo, &context?)?.len()),
    }
}

/// Reads a session from the store. Returns also the contexts that were read.
fn summary(
    repo: &Repository,
    name: String,
    newest: NewestBranch,
    line: LinePrompts,
    (branches, conflicts): (u64, u64),
) -> Result<(SessionSummary, Vec<ObjectId>)> {
    let NewestBranch { branch, tip, time } = newest;
    let commit = repo.commit(&tip)?;
    let first = line.first.map(|id| repo.commit(&id)).transpose()?;
    // If the session continues another, its first prompt may come from a different client.
    let of_records = match &first {
        Some(first) if first.session != name => repo.fact_of(&tip, FORMAT)?,
        _ => None,
    };
    let author = first.as_ref().map_or(&commit.author.agent, |first| &first.author.agent);
    let agent =
        of_records.unwrap_or_else(|| author.strip_prefix(HOOK).unwrap_or(author).to_owned());
    let files = match repo.context(&tip) {
        Ok(context) => Some(context.count(repo, FILES)?),
        Err(error) if error.kind() == ErrorKind::Expired => None,
        Err(error) => return Err(error),
    };
    let mut contexts = vec![commit.tree];
    let mut from = origin(repo, &tip)?;
    // The newest branch may be of a worktree.
    let main = BranchName::main(&name)?;
    if let Some(tip) = repo.tip(&main).filter(|_| branch != main) {
        contexts.push(repo.commit(&tip)?.tree);
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
            Ok(context) => context.messages(repo, MAIN_AGENT)?.is_empty(),
            Err(error) if error.kind() == ErrorKind::Expired => false,
            Err(error) => return Err(error),
        };
    let mut first_prompt = None;
    if let Some(first) = first {
        let (title, is_of_content) = prompt_title(repo, &first)?;
        contexts.extend(is_of_content.then_some(first.tree));
        first_prompt = Some(title);
    }
    let summary = SessionSummary {
        is_only_begun,
        origin: from,
        labels,
        first_prompt,
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
        conflicts,
    };
    Ok((summary, contexts))
}
