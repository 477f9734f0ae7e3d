//! Completes names in the shell: the shell runs this program, which looks them up in the store.

use std::collections::HashMap;
use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;
use turntree::context::open_conflicts;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, History, LogEntry, NamedTag, Pin, Repository};
use turntree_exchange::lessons::{Lesson, Lessons};
use turntree_exchange::{KnownSessions, SessionRow};

use crate::program::global::store_of_environment;
use crate::program::here::Here;
use crate::program::invocation::{act, user_or_nearest};
use crate::program::store_keys;

/// Set by the shell to request completions.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// Maximum number of turns to offer.
const MAX_TURNS: usize = 100;

/// Maximum number of sessions or branches to offer: the newest.
const MAX_NAMES: usize = 200;

/// Completes `HEAD`, branches (in HEAD's session also by short name), tags, and the newest turns of
/// HEAD. Offers nothing without a store.
pub(crate) fn revisions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(repo), Some(typed)) = (repository(), typed.to_str()) else { return Vec::new() };
    let head = repo.head().ok();
    let mut candidates = vec![CompletionCandidate::new("HEAD")];
    let table = KnownSessions::default().table(&repo).unwrap_or_default();
    let own = |branch: &BranchName| {
        head.as_ref().is_some_and(|head| head.branch.session() == branch.session())
    };
    let is_short = |branch: &BranchName| own(branch) && branch.branch().starts_with(typed);
    let mut branches = repo.branches();
    branches.retain(|(branch, _)| branch.to_string().starts_with(typed) || is_short(branch));
    let places: HashMap<&str, usize> =
        table.listed().enumerate().map(|(place, row)| (row.name(), place)).collect();
    let place = |branch: &BranchName| places.get(branch.session()).copied().unwrap_or(usize::MAX);
    branches.sort_by_key(|(branch, _)| (!own(branch), place(branch)));
    let rows: Vec<SessionRow<'_>> = table.listed().collect();
    for (branch, id) in branches.into_iter().take(MAX_NAMES) {
        let message = || repo.commit(&id).map(|commit| commit.message).ok();
        let title = rows.get(place(&branch)).and_then(SessionRow::title).map(str::to_owned);
        let about = title.or_else(message).map(Into::into);
        if is_short(&branch) {
            candidates.push(CompletionCandidate::new(branch.branch()).help(about.clone()));
        }
        candidates.push(CompletionCandidate::new(branch.to_string()).help(about));
    }
    candidates.extend(tags());
    candidates.extend(turns(&repo, head.and_then(|head| head.commit)));
    candidates.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(typed));
    candidates
}

/// The newest turns of a branch, newest first.
fn turns(repo: &Repository, tip: Option<ObjectId>) -> Vec<CompletionCandidate> {
    let history = tip.and_then(|tip| repo.history(&[tip], &[]).ok());
    let line = history.into_iter().flat_map(History::first_parent).map_while(Result::ok);
    let candidate = |LogEntry { commit, .. }: LogEntry| {
        let name = format!("turn:{}", commit.turn);
        CompletionCandidate::new(name).help(Some(commit.message.into())).display_order(Some(1))
    };
    line.take(MAX_TURNS).map(candidate).collect()
}

/// Names of the newest sessions that begin with the typed text, with their titles.
pub(crate) fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(repo), Some(typed)) = (repository(), typed.to_str()) else { return Vec::new() };
    let table = KnownSessions::default().table(&repo).unwrap_or_default();
    let fitting = table.listed().filter(|row| row.name().starts_with(typed)).take(MAX_NAMES);
    let candidate = |row: SessionRow<'_>| {
        CompletionCandidate::new(row.name()).help(row.title().map(|title| title.to_owned().into()))
    };
    fitting.map(candidate).collect()
}

/// Names of tags.
pub(crate) fn tags() -> Vec<CompletionCandidate> {
    let tags = repository().and_then(|repo| repo.tags().ok()).unwrap_or_default();
    let candidate = |NamedTag { name, tag }: NamedTag| {
        CompletionCandidate::new(name).help(Some(tag.message.into()))
    };
    tags.into_iter().map(candidate).collect()
}

/// Paths of the conflicts that are open on HEAD's branch.
pub(crate) fn conflicts() -> Vec<CompletionCandidate> {
    let open = repository().and_then(|repo| {
        let context = repo.context(&repo.head().ok()?.commit?).ok()?;
        open_conflicts(&repo, &context).ok()
    });
    let paths = open.unwrap_or_default().into_iter().map(|conflict| conflict.path);
    paths.map(CompletionCandidate::new).collect()
}

/// Ids of the lessons of HEAD's branch.
pub(crate) fn lessons() -> Vec<CompletionCandidate> {
    let read = |repo: Repository| {
        let context = repo.context(&repo.head().ok()?.commit?).ok()?;
        Lessons::read(&repo, &context).ok()
    };
    let found = repository().and_then(read).unwrap_or_default();
    let candidate = |(key, lesson): (&str, &Lesson)| {
        CompletionCandidate::new(key).help(lesson.mistake_pattern.clone().map(Into::into))
    };
    found.iter().map(candidate).collect()
}

/// Names of pins.
pub(crate) fn pins() -> Vec<CompletionCandidate> {
    let pins = repository().and_then(|repo| repo.pins().ok()).unwrap_or_default();
    let candidate = |pin: Pin| CompletionCandidate::new(pin.name).help(Some(pin.reason.into()));
    pins.into_iter().map(candidate).collect()
}

/// Opens the store that a command without options would use.
fn repository() -> Option<Repository> {
    let dir = store_of_environment().or_else(user_or_nearest)?;
    let here = std::env::current_dir().ok().and_then(|here| Here::new(&here, &dir));
    store_keys::open(&dir, false).ok().and_then(|repo| act(repo, here).ok())
}
