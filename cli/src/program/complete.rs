//! Completes names in the shell: the shell runs this program, which looks them up in the store.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::sync::Arc;

use clap_complete::engine::CompletionCandidate;
use turntree::context::sections::FILES_PREFIX;
use turntree::context::{Context, PathTarget, Section, Shape, open_conflicts, split};
use turntree::object::{ObjectId, ObjectSource};
use turntree::repo::{
    BranchName, History, LogEntry, NamedTag, Pin, Repository, Resolver, split_path,
};
use turntree::tree::{List, Map};
use turntree_exchange::lessons::{Lesson, Lessons};
use turntree_exchange::render::native::NativeAgent;
use turntree_exchange::{KnownSessions, SessionRow, is_prompt};

use crate::program::global::store_of_environment;
use crate::program::here::Here;
use crate::program::invocation::{act, user_or_nearest};
use crate::program::store_keys;

/// Set by the shell to request completions.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// Maximum number of turns to offer.
const MAX_TURNS: usize = 100;

/// Maximum number of sessions, branches or entries to offer: of sessions the newest.
const MAX_NAMES: usize = 200;

/// The fewest characters of a title that are completed: fewer never name a session.
const MIN_TITLE_CHARS: usize = 3;

/// The most characters of a title that are offered.
const TITLE_CHARS: usize = 48;

/// The store, and its sessions, which are read once.
struct Names {
    repo: Repository,
    known: Arc<KnownSessions>,
}

/// Completes `HEAD`, branches (in HEAD's session also by short name), titles, tags, and the newest
/// turns of HEAD. Offers nothing without a store.
pub(crate) fn revisions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(names), Some(typed)) = (Names::open(), typed.to_str()) else { return Vec::new() };
    names.revisions(typed)
}

/// Completes the path of an entry after a revision and a colon, otherwise a revision, or a file of
/// the newest snapshot.
pub(crate) fn entries(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(names), Some(typed)) = (Names::open(), typed.to_str()) else { return Vec::new() };
    match split_path(typed) {
        (revision, Some(path)) => names.below(revision, path, &format!("{revision}:")),
        (_, None) if typed.contains('/') => {
            let mut candidates = names.below("HEAD", typed, "");
            candidates.extend(names.revisions(typed));
            candidates
        }
        (_, None) => names.revisions(typed),
    }
}

/// Completes the path of an entry of the newest snapshot.
pub(crate) fn paths(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(names), Some(typed)) = (Names::open(), typed.to_str()) else { return Vec::new() };
    names.below("HEAD", typed, "")
}

/// Completes names and titles of the newest sessions.
pub(crate) fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(names), Some(typed)) = (Names::open(), typed.to_str()) else { return Vec::new() };
    let table = names.known.table(&names.repo).unwrap_or_default();
    let fitting = table.listed().filter(|row| row.name().starts_with(typed)).take(MAX_NAMES);
    let candidate = |row: SessionRow<'_>| {
        CompletionCandidate::new(row.name()).help(row.title().map(|title| title.to_owned().into()))
    };
    let mut candidates: Vec<_> = fitting.map(candidate).collect();
    candidates.extend(titles(table.listed(), typed));
    candidates
}

/// Names of the agents in which sessions are resumed.
pub(crate) fn resuming_agents() -> Vec<CompletionCandidate> {
    NativeAgent::ALL.into_iter().map(|agent| CompletionCandidate::new(agent.name())).collect()
}

/// Names of tags.
pub(crate) fn tags() -> Vec<CompletionCandidate> {
    Names::open().map(|names| names.tags()).unwrap_or_default()
}

impl Names {
    /// Opens the store that a command without options would use.
    fn open() -> Option<Self> {
        let dir = store_of_environment().or_else(user_or_nearest)?;
        let known = Arc::<KnownSessions>::default();
        let here = std::env::current_dir().ok().and_then(|here| Here::new(&here, &dir));
        let here = here.map(|here| here.with_known(Arc::clone(&known)));
        let repo = store_keys::open(&dir, false).ok().and_then(|repo| act(repo, here).ok())?;
        Some(Self { repo, known })
    }

    fn revisions(&self, typed: &str) -> Vec<CompletionCandidate> {
        let head = self.repo.head().ok();
        let mut candidates = vec![CompletionCandidate::new("HEAD")];
        candidates.extend(self.branches(head.as_ref().map(|head| &head.branch), typed));
        candidates.extend(self.tags());
        candidates.extend(self.turns(head.and_then(|head| head.commit)));
        candidates.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(typed));
        let table = self.known.table(&self.repo).unwrap_or_default();
        candidates.extend(titles(table.listed(), typed));
        candidates
    }

    /// The branches of the session of `head`, also by short name, and those of the newest sessions
    /// whose name begins with the typed text.
    fn branches(&self, head: Option<&BranchName>, typed: &str) -> Vec<CompletionCandidate> {
        let table = self.known.table(&self.repo).unwrap_or_default();
        let fits = |name: &str| name.starts_with(typed) || typed.starts_with(name);
        let own = head.map(BranchName::session);
        let rows = table.listed().filter(|row| fits(row.name()) && own != Some(row.name()));
        let own_row = own.and_then(|own| table.listed().find(|row| row.name() == own));
        let mut candidates = Vec::new();
        for row in own_row.into_iter().chain(rows).take(MAX_NAMES) {
            let about = row.title().map(str::to_owned);
            for (branch, id) in self.branches_of(row.name()) {
                let message = || self.repo.commit(&id).map(|commit| commit.message).ok();
                let about = about.clone().or_else(message).map(Into::into);
                if own == Some(row.name()) {
                    let short = CompletionCandidate::new(branch.branch()).help(about.clone());
                    candidates.push(short);
                }
                candidates.push(CompletionCandidate::new(branch.to_string()).help(about));
            }
        }
        candidates
    }

    fn branches_of(&self, session: &str) -> Vec<(BranchName, ObjectId)> {
        self.repo.branches_of(session).into_iter().take(MAX_NAMES).collect()
    }

    fn tags(&self) -> Vec<CompletionCandidate> {
        let candidate = |NamedTag { name, tag }: NamedTag| {
            CompletionCandidate::new(name).help(Some(tag.message.into()))
        };
        self.repo.tags().unwrap_or_default().into_iter().map(candidate).collect()
    }

    /// The newest turns of a branch, newest first.
    fn turns(&self, tip: Option<ObjectId>) -> Vec<CompletionCandidate> {
        let history = tip.and_then(|tip| self.repo.history(&[tip], &[]).ok());
        let line = history.into_iter().flat_map(History::first_parent).map_while(Result::ok);
        let candidate = |LogEntry { commit, .. }: LogEntry| {
            let name = format!("turn:{}", commit.turn);
            CompletionCandidate::new(name).help(Some(commit.message.into())).display_order(Some(1))
        };
        line.take(MAX_TURNS).map(candidate).collect()
    }

    /// The entries of a snapshot whose path begins with the typed one, level by level, each after
    /// `before`. `files/` may be omitted.
    fn below(&self, revision: &str, typed: &str, before: &str) -> Vec<CompletionCandidate> {
        let resolver = Resolver::new(&self.repo).with_prompts(&is_prompt);
        let commit = resolver.resolve(revision).ok().map(|found| found.commit);
        let context = commit.and_then(|commit| self.repo.context(&commit).ok());
        let Some(context) = context else { return Vec::new() };
        let folder = typed.rfind('/').map_or("", |end| typed.get(..end).unwrap_or_default());
        let slash = if folder.is_empty() { "" } else { "/" };
        let mut offered = HashSet::new();
        for section in ["", FILES_PREFIX] {
            let path = format!("{section}{folder}");
            let names = names_below(self.repo.store(), &context, path.trim_end_matches('/'));
            let names = names.unwrap_or_default().into_iter();
            let fitting = names.map(|name| format!("{folder}{slash}{name}"));
            offered.extend(fitting.filter(|path| path.starts_with(typed)).take(MAX_NAMES));
        }
        let mut offered: Vec<String> = offered.into_iter().collect();
        offered.sort_unstable();
        offered.iter().map(|path| CompletionCandidate::new(format!("{before}{path}"))).collect()
    }
}

/// The names directly below a path; those with something below end with a slash.
fn names_below(
    source: &dyn ObjectSource,
    context: &Context,
    path: &str,
) -> turntree::Result<BTreeSet<String>> {
    let (name, rest) = split(path);
    let section = match context.lookup(source, path)? {
        PathTarget::Entry(_) => return Ok(BTreeSet::new()),
        PathTarget::Folder if rest.is_empty() => return sections_below(source, context, name),
        PathTarget::Folder => context.section(source, name)?,
        PathTarget::Section(section) => Some(section),
    };
    match section {
        Some(Section { shape: Shape::Map, id }) => {
            let before = if rest.is_empty() { String::new() } else { format!("{rest}/") };
            let map = Map::open(source, &id)?;
            let keys = map.prefix(source, before.as_bytes());
            let name = |key: &[u8]| {
                let below = String::from_utf8_lossy(key.get(before.len()..).unwrap_or_default());
                below.split_once('/').map_or_else(|| below.to_string(), |it| format!("{}/", it.0))
            };
            keys.map(|entry| Ok(name(&entry?.0))).collect()
        }
        Some(Section { shape: Shape::List, id }) => {
            let newest = (0..List::open(source, &id)?.len()).rev().take(MAX_NAMES);
            Ok(newest.map(|index| index.to_string()).collect())
        }
        _ => Ok(BTreeSet::new()),
    }
}

/// The names of sections directly below a folder of sections.
fn sections_below(
    source: &dyn ObjectSource,
    context: &Context,
    folder: &str,
) -> turntree::Result<BTreeSet<String>> {
    let before = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let name = |(name, section): (String, Section)| {
        let below = name.strip_prefix(&before)?;
        let is_whole = !below.contains('/') && section.shape == Shape::Blob;
        let first = below.split('/').next().unwrap_or(below);
        Some(if is_whole { below.to_owned() } else { format!("{first}/") })
    };
    Ok(context.sections(source)?.into_iter().filter_map(name).collect())
}

/// The titles that begin with the typed text, which name their session. The case does not matter:
/// what was typed stays as it is, so that every shell recognizes it.
fn titles<'r>(rows: impl Iterator<Item = SessionRow<'r>>, typed: &str) -> Vec<CompletionCandidate> {
    if typed.chars().count() < MIN_TITLE_CHARS {
        return Vec::new();
    }
    let chars = typed.chars().count();
    let mut offered = HashSet::new();
    let candidate = |row: SessionRow<'_>| {
        let title = row.title()?;
        let beginning: String = title.chars().take(chars).collect();
        (beginning.to_lowercase() == typed.to_lowercase()).then_some(())?;
        let rest: String = title.chars().skip(chars).take_while(|c| !c.is_control()).collect();
        let value = format!("{typed}{}", cut_at_word(&rest, TITLE_CHARS.saturating_sub(chars)));
        let is_new = offered.insert(value.to_lowercase());
        is_new.then(|| CompletionCandidate::new(value).help(Some(row.name().to_owned().into())))
    };
    rows.filter_map(candidate).take(MAX_NAMES).collect()
}

/// The beginning of a text, of about this many characters, that ends at a word.
fn cut_at_word(text: &str, chars: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(chars) else { return text.trim_end() };
    let rest = text.get(end..).unwrap_or_default();
    let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
    text.get(..end + word).unwrap_or(text).trim_end()
}

/// Paths of the conflicts that are open on HEAD's branch.
pub(crate) fn conflicts() -> Vec<CompletionCandidate> {
    let open = Names::open().and_then(|Names { repo, .. }| {
        let context = repo.context(&repo.head().ok()?.commit?).ok()?;
        open_conflicts(&repo, &context).ok()
    });
    let paths = open.unwrap_or_default().into_iter().map(|conflict| conflict.path);
    paths.map(CompletionCandidate::new).collect()
}

/// Ids of the lessons of HEAD's branch.
pub(crate) fn lessons() -> Vec<CompletionCandidate> {
    let read = |Names { repo, .. }: Names| {
        let context = repo.context(&repo.head().ok()?.commit?).ok()?;
        Lessons::read(&repo, &context).ok()
    };
    let found = Names::open().and_then(read).unwrap_or_default();
    let candidate = |(key, lesson): (&str, &Lesson)| {
        CompletionCandidate::new(key).help(lesson.mistake_pattern.clone().map(Into::into))
    };
    found.iter().map(candidate).collect()
}

/// Names of pins.
pub(crate) fn pins() -> Vec<CompletionCandidate> {
    let pins = Names::open().and_then(|names| names.repo.pins().ok()).unwrap_or_default();
    let candidate = |pin: Pin| CompletionCandidate::new(pin.name).help(Some(pin.reason.into()));
    pins.into_iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_cut_at_a_word() {
        assert_eq!(cut_at_word("fix the parser now", 5), "fix the");
        assert_eq!(cut_at_word("fix the parser now", 90), "fix the parser now");
        assert_eq!(cut_at_word("word", 0), "word");
        assert_eq!(cut_at_word("", 0), "");
    }
}
