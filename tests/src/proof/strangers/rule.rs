//! The rule of trust, implemented independently: which stores may be written to, and where turns
//! may be pushed.
//!
//! - The user's own store is used. A store is recorded when this user creates or trusts it: by its
//!   path, its id and its automatic actions, and its remotes.
//! - A store with a remote that no record has is read-only.
//! - A store without a record is used if its content cannot leave the machine: git does not track
//!   it, and it is at the path where the command found it, not behind a file or a link that came
//!   with the directory.
//! - Moving a store keeps its record. A copy has none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Remotes by name: the address, the id of the remote, and whether turns are pushed automatically.
pub(super) type Remotes = BTreeMap<String, (String, String, bool)>;

/// The `.turntree` of a directory.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The absolute path of the store behind all links.
    pub(super) path: PathBuf,
    /// The id, if the store exists.
    pub(super) store: Option<[u8; 16]>,
    pub(super) remotes: Remotes,
    /// Git tracks it.
    pub(super) tracked: bool,
    /// A link that came with the directory points out of it, to the store.
    pub(super) led: bool,
    /// The file that names the store, if the store is outside the directory.
    pub(super) pointer: Option<PathBuf>,
}

/// The records of this user.
#[derive(Debug, Default)]
pub(super) struct Records {
    stores: BTreeMap<PathBuf, ([u8; 16], Remotes)>,
    pointers: BTreeMap<PathBuf, PathBuf>,
}

impl Records {
    /// Returns whether a command that finds the store may change it.
    pub(super) fn may_write(&self, found: &Found) -> bool {
        let is_harmless = !found.tracked && !found.led;
        let is_known = self.remotes(found).is_some() || is_harmless;
        let leads = |pointer: &PathBuf| self.pointers.get(pointer) == Some(&found.path);
        is_known && self.covers(found) && found.pointer.as_ref().is_none_or(leads)
    }

    /// Returns whether turns are pushed automatically.
    pub(super) fn may_push(&self, found: &Found) -> bool {
        self.remotes(found).is_some() && self.covers(found)
    }

    /// Records the store and the pointer to it.
    pub(super) fn trust(&mut self, found: &Found) {
        if let Some(pointer) = &found.pointer {
            self.pointers.insert(pointer.clone(), found.path.clone());
        }
        let Some(store) = found.store else { return };
        let record = (store, found.remotes.clone());
        if self.stores.get(&found.path) != Some(&record) {
            self.stores.insert(found.path.clone(), record);
            let moved = self.moved(store);
            moved.map(|path| self.stores.remove(&path));
        }
    }

    /// Records a store at its first change without a confirmation.
    pub(super) fn change(&mut self, found: &Found) {
        if self.remotes(found).is_none() {
            self.trust(&Found { pointer: None, ..found.clone() });
        }
    }

    /// Forgets the store and the pointer to it. Returns whether there was a record.
    pub(super) fn forget(&mut self, found: &Found) -> bool {
        let pointer = found.pointer.as_ref().and_then(|pointer| self.pointers.remove(pointer));
        self.stores.remove(&found.path).is_some() | pointer.is_some()
    }

    /// The remotes in the record of this path, if the id matches.
    fn remotes(&self, found: &Found) -> Option<&Remotes> {
        let (store, remotes) = self.stores.get(&found.path)?;
        (Some(*store) == found.store).then_some(remotes)
    }

    /// Returns whether no remote may do more than its record.
    fn covers(&self, found: &Found) -> bool {
        let moved = || self.moved(found.store?).map(|path| &self.stores[&path].1);
        let known = self.remotes(found).or_else(moved);
        let covers = |known: &Remotes, name: &str, (url, id, auto): &(String, String, bool)| {
            let known = known.get(name);
            known.is_some_and(|known| (&known.0, &known.1) == (url, id) && (known.2 || !auto))
        };
        let mut remotes = found.remotes.iter();
        remotes.all(|(name, remote)| known.is_some_and(|known| covers(known, name, remote)))
    }

    /// The path of a record whose store was moved away.
    fn moved(&self, store: [u8; 16]) -> Option<PathBuf> {
        let gone = |path: &Path| std::fs::symlink_metadata(path).is_err();
        let mut records = self.stores.iter();
        records.find(|(path, (id, _))| *id == store && gone(path)).map(|(path, _)| path.clone())
    }
}

/// The paths that a command may change.
#[derive(Debug, Clone, Default)]
pub(super) struct Allowed {
    /// Stores, and the user's data directory.
    pub(super) stores: BTreeSet<PathBuf>,
    /// Remotes.
    pub(super) remotes: BTreeSet<PathBuf>,
    /// Directories with users' files, without the stores in them.
    pub(super) folders: BTreeSet<PathBuf>,
}

impl Allowed {
    /// Returns whether a changed file is allowed to change.
    pub(super) fn has(&self, path: &Path) -> bool {
        let below = |folders: &BTreeSet<PathBuf>| folders.iter().any(|it| path.starts_with(it));
        let mut names = path.iter().map(|name| name.to_string_lossy());
        let is_of_store = names.any(|name| name.starts_with(".turntree"));
        below(&self.stores) || below(&self.remotes) || (!is_of_store && below(&self.folders))
    }
}
