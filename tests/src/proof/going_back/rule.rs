//! The rule for the files that a rewind may change, implemented independently of the engine.
//!
//! A path on disk changes only if nothing ignores it: neither the rules on disk, nor those of the
//! snapshot that the workspace leaves, nor those of the restored state. A state that is a whole
//! workspace does not ignore its own files, and files tracked by git are not ignored by git's
//! rules. Files are deleted only if the restored state is a whole workspace. A file that stays
//! because another state ignores it is unknown to the resulting state. A folder that a state
//! ignores, and in which it has no files, stays whole: its content is unknown.

use std::collections::{BTreeMap, BTreeSet};

/// Content by path. `x:` marks an executable, `->` a link.
pub(super) type Files = BTreeMap<String, String>;

/// The state of a workspace in a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) files: Files,
    /// True if it has all existing files, except those below `left`.
    pub(super) is_whole: bool,
    pub(super) left: BTreeSet<String>,
}

/// The state of the disk, and the git rules outside of ignore files.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    pub(super) files: Files,
    /// The folders, including empty ones.
    pub(super) folders: BTreeSet<String>,
    /// The folders with a `.git`: empty for the top, or with a slash at the end.
    pub(super) repositories: BTreeSet<String>,
    /// The paths that the repository at the top tracks, and its `info/exclude`.
    pub(super) tracked: BTreeSet<String>,
    pub(super) exclude: String,
    /// The file of `core.excludesFile`.
    pub(super) global: String,
}

/// The result for a path: included, or ignored with the outermost ignored folder, or the path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Included,
    Ignored(String),
}

/// The result for a workspace: the state that is saved first, the disk, and the state of the
/// branch.
pub(super) struct Outcome {
    pub(super) before: State,
    pub(super) disk: Files,
    pub(super) after: State,
}

/// The restored part of a state: all of it, or the files at or below a path.
pub(super) type Part<'a> = Option<&'a str>;

/// Restores `wanted`, or a part of it, in a workspace whose newest snapshot is `current`.
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

/// The files on disk after `wanted` is laid out. Only `changeable` paths may change.
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

/// A capture, and the paths on disk that it has unchanged: no other path may change.
pub(super) struct Capture {
    pub(super) state: State,
    pub(super) changeable: BTreeSet<String>,
}

/// Captures the disk with its rules and those of `others`, on top of `known`.
pub(super) fn capture(disk: &Disk, others: &[&State], known: &State) -> Capture {
    let mut state = State { is_whole: true, ..State::default() };
    let mut changeable = BTreeSet::new();
    let mut closed: Vec<&String> = Vec::new();
    let folders = disk.folders.iter().map(|path| (path, None));
    let files = disk.files.iter().map(|(path, content)| (path, Some(content)));
    let entries: BTreeMap<&String, Option<&String>> = folders.chain(files).collect();
    for (path, content) in entries {
        if closed.iter().any(|folder| is_below(path, folder)) {
            continue;
        }
        let is_folder = content.is_none();
        // Git tracks files in a folder that it ignores: capture enters the folder.
        let is_way = |by_own: bool| is_folder && !by_own && tracks_below(disk, path);
        match is_ignored(&disk.files, disk, path, is_folder) {
            Fate::Ignored(_) if is_way(own_ignores(&disk.files, path, is_folder)) => continue,
            Fate::Ignored(at) => {
                closed.push(path);
                // Another state would include it, so the resulting state does not know it.
                let includes = |other: &&State| {
                    let by_own = own_ignores(&other.files, path, is_folder);
                    let fate = is_ignored(&other.files, disk, path, is_folder);
                    (fate == Fate::Included || is_way(by_own)) && !skips(other, path)
                };
                if others.iter().any(includes) {
                    state.left.insert(at);
                }
                continue;
            }
            Fate::Included => {}
        }
        // An ignored folder stays whole, unless a state has files in it.
        let has_below = |state: &State| state.files.keys().any(|other| is_below(other, path));
        let is_entered = |other: &State| {
            let by_own = own_ignores(&other.files, path, is_folder) || skips(other, path);
            is_folder && (has_below(known) || has_below(other)) || is_way(by_own)
        };
        let ignoring =
            others.iter().find_map(|other| match ignored_by(other, disk, path, is_folder) {
                Fate::Ignored(at) if !is_entered(other) => Some(at),
                _ => None,
            });
        match (ignoring, content) {
            (None, None) => {}
            (None, Some(content)) => {
                state.files.insert(path.clone(), content.clone());
                changeable.insert(path.clone());
            }
            (Some(at), _) => {
                closed.push(path);
                state.left.insert(at);
                // The current content of the file does not enter the store.
                let old = known.files.get(path).filter(|_| !is_folder);
                state.files.extend(old.map(|old| (path.clone(), old.clone())));
            }
        }
    }
    Capture { state, changeable }
}

impl State {
    /// A partial state records nothing about missing files.
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

/// True if a folder contains a repository, so that a file cannot replace it.
fn is_in_the_way(disk: &Disk, path: &str) -> bool {
    let folder = format!("{path}/");
    disk.repositories.iter().any(|at| at.starts_with(&folder))
}

/// True if `path` is in the folder `above`.
pub(super) fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// True if the innermost repository around a folder tracks files in it.
fn tracks_below(disk: &Disk, path: &str) -> bool {
    let nearest = disk.repositories.iter().rfind(|at| path.starts_with(&***at));
    nearest.is_some_and(String::is_empty) && disk.tracked.iter().any(|it| is_below(it, path))
}

/// True if a `.turntreeignore` ignores a path or a folder above it.
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

fn ignored_by(state: &State, disk: &Disk, path: &str, is_folder: bool) -> Fate {
    let took = state.is_whole && !is_folder && state.files.contains_key(path);
    let skipped = state.left.iter().find(|at| at.is_empty() || *at == path || is_below(path, at));
    let ruled = is_ignored(&state.files, disk, path, is_folder);
    match (took, skipped, ruled) {
        (true, _, Fate::Ignored(_)) | (true, Some(_), _) => Fate::Included,
        (false, Some(at), Fate::Ignored(by)) if is_below(at, &by) => Fate::Ignored(by),
        (false, Some(at), _) => Fate::Ignored(at.clone()),
        (_, None, ruled) => ruled,
    }
}

/// The verdict on a path with the ignore files in `rules`.
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

/// True if the repository at the top tracks the path. Its files are in no other repository.
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

/// The verdict of the nearest ignore file with a matching rule, up to the repository `top`.
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

/// The verdict of the last matching rule. The rules of this test are names, folders and extensions.
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
