//! Names of a simulated disk: a directory is durable independently of its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Keep, Random};

/// A file by its number; directories have none.
pub(super) type Node = Option<u64>;

/// The names that processes see, and those that may remain after a crash.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) live: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    /// The names that were created and removed since their directory was synced.
    passing: BTreeMap<PathBuf, Node>,
}

impl Names {
    /// These names, all of them durable.
    pub(super) fn with(names: BTreeMap<PathBuf, Node>) -> Self {
        Self { durable: names.clone(), live: names, passing: BTreeMap::new() }
    }

    pub(super) fn file(&self, path: &Path) -> Option<u64> {
        self.live.get(path).copied().flatten()
    }

    pub(super) fn is_dir(&self, path: &Path) -> bool {
        self.live.get(path) == Some(&None)
    }

    /// Removes a name. Returns false if it does not exist.
    pub(super) fn remove(&mut self, path: &Path) -> bool {
        let Some(node) = self.live.remove(path) else { return false };
        if self.durable.get(path) != Some(&node) {
            self.passing.insert(path.to_owned(), node);
        }
        true
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync(&mut self, dir: &Path) {
        let inside = |path: &Path| path.parent() == Some(dir);
        self.durable.retain(|path, _| !inside(path));
        self.passing.retain(|path, _| !inside(path));
        let named = self.live.iter().filter(|(path, _)| inside(path));
        self.durable.extend(named.map(|(path, node)| (path.clone(), *node)));
    }

    /// The names after a crash: each unsynced change has happened or not, in any order.
    pub(super) fn crashed(&self, keep: Keep) -> BTreeMap<PathBuf, Node> {
        let mut names = match keep {
            Keep::All => self.live.clone(),
            Keep::Nothing => self.durable.clone(),
            Keep::Some(seed) => self.draw(&mut Random(seed)),
        };
        let all = names.clone();
        names.retain(|path, _| path.ancestors().all(|parent| all.contains_key(parent)));
        names
    }

    fn draw(&self, random: &mut Random) -> BTreeMap<PathBuf, Node> {
        let mut names = self.durable.clone();
        for (path, node) in &self.passing {
            if random.below(4) == 0 {
                names.insert(path.clone(), *node);
            }
        }
        for (path, node) in &self.live {
            if self.durable.get(path) != Some(node) && random.below(2) == 0 {
                names.insert(path.clone(), *node);
            }
        }
        for path in self.durable.keys() {
            if !self.live.contains_key(path) && random.below(2) == 0 {
                names.remove(path);
            }
        }
        names
    }
}
