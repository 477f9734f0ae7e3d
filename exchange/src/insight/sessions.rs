//! The sessions of a store as people tell them apart: by title, project, agent and age.
//!
//! Everything but the first prompt is read from the newest commit of a session. The first prompt is
//! looked for once: a note beside the store says which commit it is for the tips that were looked
//! at, and how many prompts there are. It holds ids and numbers and no content, and may be deleted
//! at any time.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Commit, ObjectId, Time};
use turntree::repo::{BranchName, NewestBranch, Prompts, Repository, SessionLabels};
use turntree::workspace::{read_note, write_note};

use super::origin::{Origin, origin};
use super::usage::context_tokens;
use crate::formats::is_prompt;

/// The name of the note.
const NOTE: &str = "first prompts";

const VERSION: u32 = 1;

/// Fewest characters that stand for a whole name or title.
const MIN_PREFIX: usize = 3;

/// Most candidates that an error names.
const MAX_CANDIDATES: usize = 8;

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

/// What was found of the prompts of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LinePrompts {
    first: Option<ObjectId>,
    count: u64,
}

/// The note: the first prompt and the number of prompts by the tip of a line.
#[derive(Serialize, Deserialize)]
struct StoredPrompts {
    version: u32,
    tips: HashMap<String, (Option<String>, u64)>,
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

/// Returns every session, the newest first. Reads the newest commit of every branch, some facts of
/// each session, and the history of those that have grown since the last time.
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
pub fn sessions(repo: &Repository) -> Result<Vec<SessionSummary>> {
    Ok(newest_sessions(repo, usize::MAX)?.0)
}

/// Returns the `most` newest sessions, the newest first, and how many there are. Reads the newest commit
/// of every branch, and the rest as [`sessions`] does, of those that it returns.
///
/// # Errors
/// As [`sessions`].
pub fn newest_sessions(repo: &Repository, most: usize) -> Result<(Vec<SessionSummary>, usize)> {
    let mut branches: HashMap<String, u64> = HashMap::new();
    for (branch, _) in repo.branches() {
        *branches.entry(branch.session().to_owned()).or_default() += 1;
    }
    let known = read_prompts(repo);
    let mut newest_first: Vec<(String, NewestBranch)> =
        repo.newest_branches()?.into_iter().collect();
    newest_first.sort_by_key(|(_, newest)| std::cmp::Reverse(newest.time.micros));
    let all = newest_first.len();
    newest_first.truncate(most);
    // What is known of those that are left out stays known.
    let mut found = if newest_first.len() < all { known.clone() } else { HashMap::new() };
    let mut prompts = repo.prompts(Some(&is_prompt))?;
    let mut sessions = Vec::new();
    for (name, newest) in newest_first {
        let line = prompts_of(repo, &mut prompts, (&name, newest.tip), (&known, &mut found))?;
        let count = branches.get(&name).copied().unwrap_or_default();
        sessions.push(summary(repo, name, newest, line, count)?);
    }
    if found != known {
        // Without it the next one looks again.
        let _ = write_prompts(repo, &found);
    }
    Ok((sessions, all))
}

/// Returns one session, by its name; `None` when there is none. Reads the newest commits of its own
/// branches, and the rest as [`sessions`] does.
///
/// # Errors
/// As [`sessions`].
pub fn session(repo: &Repository, name: &str) -> Result<Option<SessionSummary>> {
    let (mut newest, mut count) = (None::<NewestBranch>, 0);
    for (branch, tip) in repo.branches() {
        if branch.session() != name {
            continue;
        }
        count += 1;
        let time = repo.commit(&tip)?.time;
        if newest.as_ref().is_none_or(|known| known.time.micros < time.micros) {
            newest = Some(NewestBranch { branch, tip, time });
        }
    }
    let Some(newest) = newest else { return Ok(None) };
    let known = read_prompts(repo);
    let mut found = known.clone();
    let mut prompts = repo.prompts(Some(&is_prompt))?;
    let line = prompts_of(repo, &mut prompts, (name, newest.tip), (&known, &mut found))?;
    if found != known {
        // Without it the next one looks again.
        let _ = write_prompts(repo, &found);
    }
    summary(repo, name.to_owned(), newest, line, count).map(Some)
}

/// The prompts of the line of a session, with the first one of its main branch where it has none.
fn prompts_of(
    repo: &Repository,
    prompts: &mut Prompts<'_>,
    (name, tip): (&str, ObjectId),
    (known, found): (&HashMap<ObjectId, LinePrompts>, &mut HashMap<ObjectId, LinePrompts>),
) -> Result<LinePrompts> {
    let mut line = line_prompts(repo, prompts, tip, known)?;
    found.insert(tip, line);
    let main = BranchName::main(name).ok().and_then(|main| repo.tip(&main));
    if let Some(main) = main.filter(|_| line.first.is_none()) {
        // A branch that somebody began from nothing says less than what the session is about.
        let of_main = line_prompts(repo, prompts, main, known)?;
        found.insert(main, of_main);
        line.first = of_main.first;
    }
    Ok(line)
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
    let agent = first.as_ref().map_or(&commit.author.agent, |first| &first.author.agent);
    let agent = agent.strip_prefix(HOOK).unwrap_or(agent).to_owned();
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
    Ok(SessionSummary {
        origin: from,
        labels: repo.session_labels(&name)?,
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

/// Finds the first prompt of the line that ends in `tip`, down to what is known already.
fn line_prompts(
    repo: &Repository,
    prompts: &mut Prompts<'_>,
    tip: ObjectId,
    known: &HashMap<ObjectId, LinePrompts>,
) -> Result<LinePrompts> {
    if let Some(line) = known.get(&tip) {
        return Ok(*line);
    }
    let count = prompts.count(&tip)?;
    let mut first = None;
    for entry in repo.history(&[tip], &[])?.first_parent() {
        let entry = entry?;
        if let Some(LinePrompts { first: Some(known), .. }) = known.get(&entry.id) {
            first = Some(*known);
            break;
        }
        if let Some(number) = prompts.number(&entry)? {
            first = Some(entry.id);
            if number == 1 {
                break;
            }
        }
    }
    Ok(LinePrompts { first, count })
}

fn read_prompts(repo: &Repository) -> HashMap<ObjectId, LinePrompts> {
    let stored = read_note(repo.store(), NOTE)
        .and_then(|bytes| serde_json::from_slice::<StoredPrompts>(&bytes).ok())
        .filter(|stored| stored.version == VERSION);
    let line = |(tip, (first, count)): (String, (Option<String>, u64))| {
        let first = match first {
            Some(first) => Some(first.parse().ok()?),
            None => None,
        };
        Some((tip.parse().ok()?, LinePrompts { first, count }))
    };
    stored.into_iter().flat_map(|stored| stored.tips).filter_map(line).collect()
}

fn write_prompts(repo: &Repository, found: &HashMap<ObjectId, LinePrompts>) -> Result<()> {
    let tip = |(tip, line): (&ObjectId, &LinePrompts)| {
        (tip.to_string(), (line.first.map(|first| first.to_string()), line.count))
    };
    let stored = StoredPrompts { version: VERSION, tips: found.iter().map(tip).collect() };
    let bytes = serde_json::to_vec(&stored)
        .map_err(|source| Error::invalid("first prompts").with_source(source))?;
    write_note(repo.store(), NOTE, &bytes)
}
