//! Directories of another computer: which directory here stands for one that sessions recorded
//! there. The map belongs to the user and this machine, not to a store.
//!
//! It is a JSON object in the configuration directory: `{"/home/ann": "/Users/ann"}`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use turntree::Error;
use turntree::platform::private_folders;
use turntree::workspace::read_regular;

use super::private_file::write_durably;
use crate::view::error::{Failure, Result};

/// The file, relative to the configuration directory.
const FILE: &str = "turntree/directories.json";

/// Longest file, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// The directories of other computers, each with the one here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DirectoryMap(BTreeMap<String, PathBuf>);

impl DirectoryMap {
    /// Reads the map of the user; empty without a file, or if it is not a map.
    pub(crate) fn read() -> Self {
        Self::try_read().unwrap_or_default()
    }

    /// Reads the map of the user; empty without a file.
    ///
    /// # Errors
    /// `InvalidInput` if the file is not a map.
    pub(crate) fn try_read() -> Result<Self> {
        let Some(path) = path().filter(|path| path.exists()) else { return Ok(Self::default()) };
        let bytes = read_regular(&path, MAX_BYTES)?;
        let map = serde_json::from_slice(&bytes).map_err(|error| {
            let wrong = Error::invalid(format!("{}: {error}", path.display()));
            Failure::hinted(wrong, "it is an object of directories: {\"/old\": \"/new\"}")
        })?;
        Ok(Self(map))
    }

    /// Writes the map.
    pub(crate) fn write(&self) -> Result<()> {
        let path = path().ok_or_else(|| Error::invalid("there is no home directory"))?;
        let failed = |error| Error::io(format!("write {}", path.display()), error);
        if let Some(folder) = path.parent() {
            private_folders().recursive(true).create(folder).map_err(failed)?;
        }
        let bytes = serde_json::to_vec_pretty(&self.0).map_err(|error| failed(error.into()))?;
        write_durably(&path, &bytes)
    }

    /// The pairs, ordered by the directory of the other computer.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.0.iter().map(|(old, new)| (old.as_str(), new.as_path()))
    }

    /// Adds pairs; a pair for the same directory replaces the previous one.
    pub(crate) fn add(&mut self, pairs: &[MappedDirectory]) {
        self.0.extend(pairs.iter().map(|pair| (pair.old.clone(), pair.new.clone())));
    }

    /// Removes the pair of a directory of the other computer; returns false if there is none.
    pub(crate) fn remove(&mut self, old: &str) -> bool {
        self.0.remove(without_end(old)).is_some()
    }

    /// Returns the directory here of a recorded one: of the longest directory above it.
    pub(crate) fn present(&self, dir: &Path) -> Option<PathBuf> {
        let text = dir.to_str()?;
        let below = |(old, new): (&String, &PathBuf)| {
            let rest = text.strip_prefix(old.as_str())?;
            let is_below = rest.is_empty() || rest.starts_with(SEPARATORS);
            is_below.then(|| (old.len(), new.clone(), rest.to_owned()))
        };
        let (_, mut here, rest) = self.0.iter().filter_map(below).max_by_key(|it| it.0)?;
        for part in rest.split(SEPARATORS).filter(|part| !part.is_empty()) {
            // A recorded path may be untrusted, and must not escape the directory.
            (part != "." && part != "..").then_some(())?;
            here.push(part);
        }
        Some(here)
    }

    /// Returns the directories of other computers that stand for a directory here.
    pub(crate) fn former(&self, dir: &Path) -> Vec<PathBuf> {
        let former = |(old, new): (&String, &PathBuf)| {
            let below = dir.strip_prefix(new).ok()?;
            let old = PathBuf::from(old);
            Some(if below.as_os_str().is_empty() { old } else { old.join(below) })
        };
        self.0.iter().filter_map(former).collect()
    }
}

/// What separates the parts of a path, on this computer or another one.
const SEPARATORS: [char; 2] = ['/', '\\'];

/// A directory of another computer, and the one here that stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedDirectory {
    old: String,
    new: PathBuf,
}

/// Parses `OLD=NEW`. OLD is absolute on the computer that recorded it, NEW becomes absolute.
pub(crate) fn parse_pair(text: &str) -> Result<MappedDirectory, Error> {
    let pair = text.split_once('=').filter(|(old, new)| !old.is_empty() && !new.is_empty());
    let (old, new) = pair.ok_or_else(|| {
        Error::invalid(format!("'{text}': expected OLD=NEW, as in /home/ann=/Users/ann"))
    })?;
    let has_drive = old.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/");
    if !old.starts_with(SEPARATORS) && !has_drive {
        return Err(Error::invalid(format!("'{old}' is not an absolute path")));
    }
    let new = std::path::absolute(new).map_err(|error| Error::io(format!("find {new}"), error))?;
    Ok(MappedDirectory { old: without_end(old).to_owned(), new })
}

/// Adds pairs to the map of the user, if there are any.
pub(crate) fn add_pairs(pairs: &[MappedDirectory]) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let mut map = DirectoryMap::try_read()?;
    map.add(pairs);
    map.write()
}

/// A path without separators at its end.
fn without_end(path: &str) -> &str {
    let short = path.trim_end_matches(SEPARATORS);
    if short.is_empty() { path } else { short }
}

fn path() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.config_dir().join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[&str]) -> DirectoryMap {
        let pairs: Vec<_> = pairs.iter().map(|pair| parse_pair(pair).unwrap()).collect();
        let mut map = DirectoryMap::default();
        map.add(&pairs);
        map
    }

    #[test]
    fn the_longest_directory_above_a_recorded_one_decides() {
        let map = map(&["/home/ann=/Users/ann", "/home/ann/work/=/srv/work", r"C:\Users\ann=/u"]);
        for (recorded, expected) in [
            ("/home/ann", Some("/Users/ann")),
            ("/home/ann/p/src", Some("/Users/ann/p/src")),
            ("/home/ann/work", Some("/srv/work")),
            ("/home/ann/work/p", Some("/srv/work/p")),
            (r"C:\Users\ann\p\q", Some("/u/p/q")),
            ("/home/anna", None),
            ("/home/ann/../root", None),
            ("/srv", None),
        ] {
            let found = map.present(Path::new(recorded));
            assert_eq!(found.as_deref(), expected.map(Path::new), "{recorded}");
        }
    }

    #[test]
    fn a_directory_here_has_the_names_that_it_had() {
        let map = map(&["/home/ann=/Users/ann", "/mnt/p=/Users/ann/p"]);
        let former = map.former(Path::new("/Users/ann/p/src"));
        assert_eq!(former, [Path::new("/home/ann/p/src"), Path::new("/mnt/p/src")]);
        assert!(map.former(Path::new("/srv")).is_empty());
    }

    #[test]
    fn pairs_name_two_directories() {
        for text in ["/a", "=/b", "/a=", "a=/b", ""] {
            assert!(parse_pair(text).is_err(), "{text}");
        }
        assert_eq!(parse_pair("/a/=/b").unwrap().old, "/a");
        assert_eq!(parse_pair("/=/b").unwrap().old, "/");
    }

    #[test]
    fn a_pair_is_replaced_and_removed() {
        let mut map = map(&["/a=/b", "/a=/c"]);
        assert_eq!(map.present(Path::new("/a")), Some("/c".into()));
        assert!(map.remove("/a/") && !map.remove("/a"));
        assert_eq!(map, DirectoryMap::default());
    }
}
