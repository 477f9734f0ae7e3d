//! Completes names in the shell: the shell runs this program, which looks them up in the store.

use std::collections::BTreeMap;

use clap_complete::engine::CompletionCandidate;
use turntree::context::open_conflicts;
use turntree::object::ObjectId;
use turntree::repo::{History, LogEntry, NamedTag, Pin, Repository};
use turntree_exchange::SessionSummary;
use turntree_exchange::lessons::{Lesson, Lessons};

use crate::program::global::store_of_environment;
use crate::program::here::Here;
use crate::program::invocation::{act, user_or_nearest};
use crate::program::store_keys;

/// Set by the shell to request completions.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// Maximum number of turns to offer.
const MAX_TURNS: usize = 100;

/// Completes `HEAD`, branches (in HEAD's session also by short name), tags, and the newest turns of
/// HEAD. Offers nothing without a store.
pub(crate) fn revisions() -> Vec<CompletionCandidate> {
    let Some(repo) = repository() else { return Vec::new() };
    let head = repo.head().ok();
    let mut candidates = vec![CompletionCandidate::new("HEAD")];
    let titles = titles(&repo);
    for (branch, id) in repo.branches() {
        let message = || repo.commit(&id).map(|commit| commit.message).ok();
        let about = titles.get(branch.session()).cloned().flatten().or_else(message);
        let about = about.map(Into::into);
        if head.as_ref().is_some_and(|head| head.branch.session() == branch.session()) {
            candidates.push(CompletionCandidate::new(branch.branch()).help(about.clone()));
        }
        candidates.push(CompletionCandidate::new(branch.to_string()).help(about));
    }
    candidates.extend(tags());
    candidates.extend(turns(&repo, head.and_then(|head| head.commit)));
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

/// Names of sessions, with their titles.
pub(crate) fn sessions() -> Vec<CompletionCandidate> {
    let titles = repository().map(|repo| titles(&repo)).unwrap_or_default();
    let candidate = |(name, title): (String, Option<String>)| {
        CompletionCandidate::new(name).help(title.map(Into::into))
    };
    titles.into_iter().map(candidate).collect()
}

/// The titles of all sessions by name.
fn titles(repo: &Repository) -> BTreeMap<String, Option<String>> {
    let named = |session: SessionSummary| {
        let title = session.title().map(|(title, _)| title.to_owned());
        (session.name, title)
    };
    turntree_exchange::sessions(repo).unwrap_or_default().into_iter().map(named).collect()
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
        open_conflicts(repo.store(), &context).ok()
    });
    let paths = open.unwrap_or_default().into_iter().map(|conflict| conflict.path);
    paths.map(CompletionCandidate::new).collect()
}

/// Ids of the lessons of HEAD's branch.
pub(crate) fn lessons() -> Vec<CompletionCandidate> {
    let read = |repo: Repository| {
        let context = repo.context(&repo.head().ok()?.commit?).ok()?;
        Lessons::read(repo.store(), &context).ok()
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
