//! The rule for what going back may touch, stated alone: no code of the engine, one page.
//!
//! A path that is on disk changes only if nothing ignores it: neither the rules on disk, nor those of
//! the snapshot that the workspace leaves, nor those of the state that comes back. A state that is a
//! whole workspace does not ignore what it has, and nothing that git tracks is ignored by git's rules.
//! Files are deleted only if the state that comes back is a whole workspace. What stays although a
//! state has other rules is unknown to what comes of it.

use std::collections::{BTreeMap, BTreeSet};

/// Content by path: `x:` leads what can be executed, `->` a link.
pub(super) type Files = BTreeMap<String, String>;

/// What a snapshot has of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) files: Files,
    /// It has all files that were there, but for those below `left`.
    pub(super) is_whole: bool,
    pub(super) left: BTreeSet<String>,
}

/// What is on disk, and what git says beside the files of rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    pub(super) files: Files,
    /// Folders with a `.git` in them, empty or with a slash at the end.
    pub(super) repositories: BTreeSet<String>,
    /// What the repository at the top tracks, and its `info/exclude`.
    pub(super) tracked: BTreeSet<String>,
    pub(super) exclude: String,
    /// The file of `core.excludesFile`.
    pub(super) global: String,
}

/// What is left of a path: why, and the outermost folder that is ignored, or the path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Included,
    Ignored(String),
}

/// What becomes of a workspace: what is saved first, the disk, and the state of the branch.
pub(super) struct Outcome {
    pub(super) before: State,
    pub(super) disk: Files,
    pub(super) after: State,
}

/// The part of a state that comes back: all of it, or what is at or below a path.
pub(super) type Part<'a> = Option<&'a str>;

/// Brings `wanted` back, or a part of it, in a workspace whose newest snapshot is `current`.
pub(super) fn go_back(disk: &Disk, current: &State, wanted: &State, part: Part<'_>) -> Outcome {
    let Capture { state: before, changeable } = capture(disk, &[current, wanted], current);
    let now = lay_out(disk, &changeable, wanted, part);
    let mut after = wanted.clone();
    after.left.extend(before.left.iter().cloned());
    if part.is_some() {
        after.files.clone_from(&current.files);
        after.files.retain(|path, _| !is_in(part, path));
        let chosen = wanted.files.iter().filter(|(path, _)| is_in(part, path));
        after.files.extend(chosen.map(|(path, text)| (path.clone(), text.clone())));
        after.is_whole &= current.is_whole;
        after.left.extend(current.left.iter().cloned());
    }
    Outcome { before, disk: now, after: after.normal() }
}

/// The files on disk after those of `wanted` were laid out, where only `changeable` ones may change.
pub(super) fn lay_out(
    disk: &Disk,
    changeable: &BTreeSet<String>,
    wanted: &State,
    part: Part<'_>,
) -> Files {
    let mut now = disk.files.clone();
    if wanted.is_whole {
        now.retain(|path, _| {
            let is_wanted = wanted.files.contains_key(path) || !is_in(part, path);
            is_wanted || !changeable.contains(path)
        });
    }
    for (path, content) in wanted.files.iter().filter(|(path, _)| is_in(part, path)) {
        let blocks = |other: &String| {
            let stays = other == path && !changeable.contains(path);
            stays || is_below(path, other) || is_below(other, path)
        };
        if !now.keys().any(blocks) && !is_in_the_way(disk, path) {
            now.insert(path.clone(), content.clone());
        }
    }
    now
}

/// A capture, and the paths on disk that it has as they are: no others may change.
pub(super) struct Capture {
    pub(super) state: State,
    pub(super) changeable: BTreeSet<String>,
}

/// A capture of the disk, with its rules and those of `others`, on top of `known`.
pub(super) fn capture(disk: &Disk, others: &[&State], known: &State) -> Capture {
    let mut state = State { is_whole: true, ..State::default() };
    let mut changeable = BTreeSet::new();
    for (path, content) in &disk.files {
        if let Fate::Ignored(at) = is_ignored(&disk.files, disk, path, false) {
            // Where another state would include it, what comes of that knows nothing of it.
            let refused = refused(disk, path);
            let (name, is_folder) = (&path[..refused], refused < path.len());
            let includes = |other: &&State| {
                is_ignored(&other.files, disk, name, is_folder) == Fate::Included
                    && !skips(other, name)
            };
            if others.iter().any(includes) {
                state.left.insert(at);
            }
            continue;
        }
        let ignoring = others.iter().find_map(|other| match ignored_by(other, disk, path) {
            Fate::Ignored(at) => Some(at),
            Fate::Included => None,
        });
        let Some(at) = ignoring else {
            state.files.insert(path.clone(), content.clone());
            changeable.insert(path.clone());
            continue;
        };
        state.left.insert(at);
        // Its present content does not enter the store.
        state.files.extend(known.files.get(path).map(|old| (path.clone(), old.clone())));
    }
    Capture { state, changeable }
}

impl State {
    /// What is not whole says nothing of what it left.
    pub(super) fn normal(mut self) -> Self {
        if !self.is_whole {
            self.left.clear();
        }
        self
    }
}

fn is_in(part: Part<'_>, path: &str) -> bool {
    part.is_none_or(|part| path == part || is_below(path, part))
}

/// A folder that is kept by a repository in it cannot give way to a file.
fn is_in_the_way(disk: &Disk, path: &str) -> bool {
    let folder = format!("{path}/");
    disk.repositories.iter().any(|at| at.starts_with(&folder))
}

/// Whether `path` lies in the folder `above`.
pub(super) fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// The end of the part of an ignored path in which git tracks nothing: there the way into it ends.
fn refused(disk: &Disk, path: &str) -> usize {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    let is_end = |end: &usize| {
        let (part, is_folder) = (&path[..*end], *end < path.len());
        let Fate::Ignored(_) = is_ignored(&disk.files, disk, part, is_folder) else { return false };
        let by_own = own_ignores(&disk.files, part, is_folder);
        let mut tracked = disk.tracked.iter().filter(|other| is_tracked(disk, other));
        by_own || !tracked.any(|other| is_below(other, part))
    };
    ends.into_iter().find(is_end).unwrap_or(path.len())
}

/// Whether a `.turntreeignore` ignores a path or a folder that it is in.
fn own_ignores(rules: &Files, path: &str, is_folder: bool) -> bool {
    let above = path.match_indices('/').map(|(at, _)| (&path[..at], true));
    let mut parts = above.chain([(path, is_folder)]);
    parts.any(|(part, is_folder)| {
        verdict(rules, ".turntreeignore", part, is_folder, None) == Some(true)
    })
}

fn skips(state: &State, path: &str) -> bool {
    state.left.iter().any(|at| at.is_empty() || at == path || is_below(path, at))
}

fn ignored_by(state: &State, disk: &Disk, path: &str) -> Fate {
    let took = state.is_whole && state.files.contains_key(path);
    let skipped = state.left.iter().find(|at| at.is_empty() || *at == path || is_below(path, at));
    let ruled = is_ignored(&state.files, disk, path, false);
    match (took, skipped, ruled) {
        (true, _, Fate::Ignored(_)) | (true, Some(_), _) => Fate::Included,
        (false, Some(at), Fate::Ignored(by)) if is_below(at, &by) => Fate::Ignored(by),
        (false, Some(at), _) => Fate::Ignored(at.clone()),
        (_, None, ruled) => ruled,
    }
}

/// What rules say of a path, where the files of rules are those in `rules`.
fn is_ignored(rules: &Files, disk: &Disk, path: &str, ends_in_folder: bool) -> Fate {
    let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).chain([path.len()]).collect();
    let mut outermost: Option<(String, bool)> = None;
    for end in ends {
        let (part, is_folder) = (&path[..end], end < path.len() || ends_in_folder);
        let own = verdict(rules, ".turntreeignore", part, is_folder, None);
        let by_own = own == Some(true);
        let git = own.is_none().then(|| git_verdict(rules, disk, part, is_folder)).flatten();
        match (&outermost, by_own || git == Some(true)) {
            (None, true) if !by_own && !is_folder && is_tracked(disk, part) => {}
            (None, true) => outermost = Some((part.to_owned(), by_own)),
            (Some((at, false)), _) if by_own => outermost = Some((at.clone(), true)),
            _ => {}
        }
    }
    match outermost {
        None => Fate::Included,
        Some((_, false)) if !ends_in_folder && is_tracked(disk, path) => Fate::Included,
        Some((at, _)) => Fate::Ignored(at),
    }
}

/// The repository at the top tracks files that are in no other repository.
fn is_tracked(disk: &Disk, path: &str) -> bool {
    let nearest = disk.repositories.iter().rfind(|at| path.starts_with(&***at));
    nearest.is_some_and(String::is_empty) && disk.tracked.contains(path)
}

fn git_verdict(rules: &Files, disk: &Disk, path: &str, is_folder: bool) -> Option<bool> {
    let parent = &path[..path.rfind('/').map_or(0, |at| at + 1)];
    let nearest = disk.repositories.iter().rfind(|at| parent.starts_with(&***at));
    let said = verdict(rules, ".gitignore", path, is_folder, nearest);
    let top = nearest.map_or("", String::as_str);
    let exclude = if top.is_empty() && nearest.is_some() { &*disk.exclude } else { "" };
    let inside = &path[top.len()..];
    said.or_else(|| last_match(exclude, inside, is_folder))
        .or_else(|| last_match(&disk.global, inside, is_folder))
}

/// What the nearest file of rules says that says anything, up to the repository `top`.
fn verdict(
    rules: &Files,
    name: &str,
    path: &str,
    is_folder: bool,
    top: Option<&String>,
) -> Option<bool> {
    let mut folders: Vec<&str> = path.match_indices('/').map(|(at, _)| &path[..=at]).collect();
    folders.insert(0, "");
    for folder in folders.into_iter().rev() {
        let text = rules.get(&format!("{folder}{name}")).filter(|text| !text.starts_with("->"));
        let said = text.and_then(|text| last_match(text, &path[folder.len()..], is_folder));
        if said.is_some() || top.is_some_and(|top| top == folder) {
            return said;
        }
    }
    None
}

/// What the last rule says that matches; the rules of this test are names, folders and endings.
fn last_match(text: &str, path: &str, is_folder: bool) -> Option<bool> {
    let mut said = None;
    for line in text.lines() {
        let (is_kept, rule) = match line.strip_prefix('!') {
            Some(rule) => (true, rule),
            None => (false, line),
        };
        let (rule, needs_folder) = match rule.strip_suffix('/') {
            Some(rule) => (rule, true),
            None => (rule, false),
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        let matches = match (rule.strip_prefix('/'), rule.strip_prefix('*')) {
            (Some(anchored), _) => path == anchored,
            (_, Some(end)) => name.ends_with(end),
            _ => name == rule,
        };
        if matches && (is_folder || !needs_folder) && !rule.is_empty() {
            said = Some(!is_kept);
        }
    }
    said
}
