//! Moved or renamed projects, and directories of other computers: maps the directories recorded by
//! sessions to their current paths.
//!
//! A store in a project records the directory of the project. If the store is in another directory
//! later, and the recorded one does not exist, the project was moved: paths recorded below the old
//! directory are now below the new one. A copy of a project is not a move, since the old directory
//! still exists.

use std::path::{Component, Path, PathBuf};

use turntree::platform::canonical;
use turntree::repo::Repository;
use turntree::workspace::{read_note, write_note};

use super::directory_map::DirectoryMap;
use super::global::STORE_DIR;

/// The note with the directories that the project had, newest last.
const DIRECTORIES: &str = "directories of the project";

/// Maximum number of directories to keep.
const MAX_DIRECTORIES: usize = 16;

/// The previous directories of a project, the current one, and the user's directories.
#[derive(Debug, Clone, Default)]
pub(crate) struct MovedProject {
    from: Vec<PathBuf>,
    to: PathBuf,
    map: DirectoryMap,
}

impl MovedProject {
    /// Reads the previous directories of the project of `store`, if it is in one, and the user's
    /// map.
    pub(crate) fn of(repo: &Repository) -> Self {
        let map = DirectoryMap::read();
        let Some(to) = project_of(repo) else { return Self { map, ..Self::default() } };
        let mut from = noted(repo);
        // A directory that still exists keeps its files, wherever the store was moved.
        from.retain(|dir| *dir != to && !dir.exists());
        Self { from, to, map }
    }

    /// Returns the current path of a recorded directory: below the project if it was below one of
    /// its previous directories, by the user's map if it is of another computer, otherwise
    /// unchanged.
    pub(crate) fn present(&self, dir: &Path) -> PathBuf {
        let moved = self.from.iter().rev().find_map(|from| dir.strip_prefix(from).ok());
        // A recorded path may be untrusted, and must not escape the project.
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let moved = moved.filter(|below| below.components().all(is_plain));
        match moved {
            Some(below) if below.as_os_str().is_empty() => self.to.clone(),
            Some(below) => self.to.join(below),
            None => self.mapped(dir).unwrap_or_else(|| dir.to_owned()),
        }
    }
}

impl MovedProject {
    /// A directory that exists is of this computer, whatever the map says.
    fn mapped(&self, dir: &Path) -> Option<PathBuf> {
        let here = self.map.present(dir)?;
        (!dir.exists()).then_some(here)
    }
}

/// Records the directory of the project of `store`, if it has one and it changed.
pub(crate) fn note_project(repo: &Repository) {
    let Some(project) = project_of(repo) else { return };
    let mut directories = noted(repo);
    if directories.last() == Some(&project) {
        return;
    }
    directories.retain(|dir| *dir != project);
    directories.push(project);
    directories.drain(..directories.len().saturating_sub(MAX_DIRECTORIES));
    if let Ok(note) = serde_json::to_vec(&directories) {
        // Without the note, only a move is not noticed.
        let _ = write_note(repo, DIRECTORIES, &note);
    }
}

/// The directory of the project that contains a store.
fn project_of(repo: &Repository) -> Option<PathBuf> {
    let dir = canonical(repo.dir()).ok()?;
    dir.parent().filter(|_| dir.ends_with(STORE_DIR)).map(Path::to_owned)
}

fn noted(repo: &Repository) -> Vec<PathBuf> {
    let note = read_note(repo, DIRECTORIES);
    note.and_then(|note| serde_json::from_slice(&note).ok()).unwrap_or_default()
}
