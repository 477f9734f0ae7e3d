//! The rule for what going back may touch, stated alone: no code of the engine, one page.
//!
//! A path that is on disk changes only if nothing ignores it: neither the rules on disk, nor those of
//! the snapshot that the workspace leaves, nor those of the state that comes back. A state that is a
//! whole workspace does not ignore what it has, and nothing that git tracks is ignored by git's rules.
//! Files are deleted only if the state that comes back is a whole workspace. What stays although a
//! state has other rules is unknown to what comes of it. A folder that a state ignores, and in which it
//! has nothing, stays as one: it is unknown whatever is in it.

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
    /// Its folders, also those that are empty.
    pub(super) folders: BTreeSet<String>,
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
    let mut closed: Vec<&String> = Vec::new();
    let folders = disk.folders.iter().map(|path| (path, None));
    let files = disk.files.iter().map(|(path, content)| (path, Some(content)));
    let entries: BTreeMap<&String, Option<&String>> = folders.chain(files).collect();
    for (path, content) in entries {
        if closed.iter().any(|folder| is_below(path, folder)) {
            continue;
        }
        let is_folder = content.is_none();
        // Git tracks files in a folder that it ignores: there a way leads into it.
        let is_way = |by_own: bool| is_folder && !by_own && tracks_below(disk, path);
        match is_ignored(&disk.files, disk, path, is_folder) {
            Fate::Ignored(_) if is_way(own_ignores(&disk.files, path, is_folder)) => continue,
            Fate::Ignored(at) => {
                closed.push(path);
                // Where another state would include it, what comes of that knows nothing of it.
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
        // An ignored folder stays as one, whatever is in it, unless a state has files there.
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
                // The present content of a file does not enter the store.
                let old = known.files.get(path).filter(|_| !is_folder);
                state.files.extend(old.map(|old| (path.clone(), old.clone())));
            }
        }
    }
    Capture { state, changeable }
}

impl State {
    /// A partial state says nothing about the files that it lacks.
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

/// Whether the repository that a folder is in tracks files in it.
fn tracks_below(disk: &Disk, path: &str) -> bool {
    let nearest = disk.repositories.iter().rfind(|at| path.starts_with(&***at));
    nearest.is_some_and(String::is_empty) && disk.tracked.iter().any(|it| is_below(it, path))
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
