//! A project that was moved or renamed: directories that its sessions recorded lead to where it is now.
//!
//! A store in a project notes the directory of the project. When the store is in another directory later,
//! and the noted one does not exist, the project was moved: paths that were recorded below the old directory
//! are below the new one. A copy of a project is no move, since the old directory still exists.

use std::path::{Component, Path, PathBuf};

use turntree::store::Store;
use turntree::workspace::{read_note, write_note};

use super::global::STORE_DIR;

/// The note of the directories that the project had, the newest last.
const DIRECTORIES: &str = "directories of the project";

/// Most directories that are kept.
const MAX_DIRECTORIES: usize = 16;

/// The directories that a project was moved from, and where it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct MovedProject {
    from: Vec<PathBuf>,
    to: PathBuf,
}

impl MovedProject {
    /// Finds out where the project of `store` was before; nothing for a store that lies in no project.
    pub(crate) fn of(store: &Store) -> Self {
        let Some(to) = project_of(store) else { return Self::default() };
        let mut from = noted(store);
        // A directory that exists has its files, wherever its store went.
        from.retain(|dir| *dir != to && !dir.exists());
        Self { from, to }
    }

    /// Returns where a recorded directory is now: below the project if it was below an earlier directory
    /// of it, else where it was.
    pub(crate) fn present(&self, dir: &Path) -> PathBuf {
        let moved = self.from.iter().rev().find_map(|from| dir.strip_prefix(from).ok());
        // A recorded path may come from elsewhere, and is not to lead out of the project.
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let moved = moved.filter(|below| below.components().all(is_plain));
        match moved {
            Some(below) if below.as_os_str().is_empty() => self.to.clone(),
            Some(below) => self.to.join(below),
            None => dir.to_owned(),
        }
    }
}

/// Notes the directory of the project of `store`, if it lies in one and that is news.
pub(crate) fn note_project(store: &Store) {
    let Some(project) = project_of(store) else { return };
    let mut directories = noted(store);
    if directories.last() == Some(&project) {
        return;
    }
    directories.retain(|dir| *dir != project);
    directories.push(project);
    directories.drain(..directories.len().saturating_sub(MAX_DIRECTORIES));
    if let Ok(note) = serde_json::to_vec(&directories) {
        // Without it a move is not noticed, and no more.
        let _ = write_note(store, DIRECTORIES, &note);
    }
}

/// The directory of the project in which a store lies.
fn project_of(store: &Store) -> Option<PathBuf> {
    let dir = store.dir().canonicalize().ok()?;
    dir.parent().filter(|_| dir.ends_with(STORE_DIR)).map(Path::to_owned)
}

fn noted(store: &Store) -> Vec<PathBuf> {
    let note = read_note(store, DIRECTORIES);
    note.and_then(|note| serde_json::from_slice(&note).ok()).unwrap_or_default()
}
