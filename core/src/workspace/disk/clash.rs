//! Finds names that the file system of a target considers equal: by case, or by normal form.
//!
//! Which names a file system considers equal depends on it, and on its tables. So names that some
//! file system may consider equal are tried: one is created in a scratch folder, and the other is
//! looked up. Paths without such names cost no call.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization;

use super::folder::Folder;
use super::temp_file::PREFIX;

/// The end of the name of the scratch folder. No file has a temporary name with it.
const SCRATCH: &str = "names";

/// Permissions of a file that only tries a name.
const MODE: u32 = 0o600;

/// Two paths that are one entry in a target, or a file and the folder of another file.
pub(in crate::workspace) type Clash<'p> = (&'p Path, &'p Path);

/// Returns the paths of files below `folder` that are one entry on its file system. The second of
/// each pair comes later in the order of their names.
///
/// # Errors
/// Errors of the system.
pub(in crate::workspace) fn clashes<'p>(
    folder: &Folder,
    paths: impl Iterator<Item = &'p Path>,
) -> io::Result<Vec<Clash<'p>>> {
    let possible = possible_clashes(paths);
    if possible.is_empty() {
        return Ok(possible);
    }
    let scratch = OsString::from(format!("{PREFIX}{SCRATCH}"));
    match folder.make(&scratch) {
        // A killed process left it.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let inside = folder.enter(&scratch)?;
    let found = real_clashes(possible, &mut |a, b| is_one_name(&inside, a, b));
    drop(inside);
    folder.remove_folder(&scratch)?;
    found
}

/// Returns the pairs whose differing names are all equal by `is_one`.
fn real_clashes<'p>(
    possible: Vec<Clash<'p>>,
    is_one: &mut dyn FnMut(&OsStr, &OsStr) -> io::Result<bool>,
) -> io::Result<Vec<Clash<'p>>> {
    let mut found = Vec::new();
    for (a, b) in possible {
        let mut is_clash = true;
        for (a, b) in a.iter().zip(b).filter(|(a, b)| a != b) {
            is_clash = is_clash && is_one(a, b)?;
        }
        if is_clash {
            found.push((a, b));
        }
    }
    Ok(found)
}

/// Returns the pairs of files that some file system considers one entry. Folders of both names
/// become one folder, which is no clash.
fn possible_clashes<'p>(paths: impl Iterator<Item = &'p Path>) -> Vec<Clash<'p>> {
    let mut by_fold: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    let mut clashes = Vec::new();
    for path in paths {
        let folded = path.iter().map(|name| fold(&name.to_string_lossy())).collect();
        if let Some(other) = by_fold.insert(folded, path) {
            clashes.push((other, path));
        }
    }
    // The content of a folder directly follows a file with its name.
    let mut last: Option<(&PathBuf, &'p Path)> = None;
    for (folded, path) in &by_fold {
        match last {
            Some((file, other)) if folded.starts_with(file) => clashes.push((other, path)),
            _ => last = Some((folded, path)),
        }
    }
    clashes
}

/// Returns a form that all names have in common that some file system considers equal: without case,
/// and decomposed.
fn fold(name: &str) -> String {
    name.nfd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfd().collect()
}

/// Returns true if two names are one entry in a folder.
fn is_one_name(scratch: &Folder, a: &OsStr, b: &OsStr) -> io::Result<bool> {
    match scratch.create(a, MODE) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = scratch.find(b);
    scratch.remove(a)?;
    Ok(found?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clashes on a file system that considers names equal if `form` is.
    fn clashes_by<'p>(
        paths: &'p [&'p str],
        form: &dyn Fn(&str) -> String,
    ) -> Vec<(&'p str, &'p str)> {
        let possible = possible_clashes(paths.iter().map(Path::new));
        let form = |name: &OsStr| form(name.to_str().unwrap());
        let found = real_clashes(possible, &mut |a, b| Ok(form(a) == form(b))).unwrap();
        found.into_iter().map(|(a, b)| (a.to_str().unwrap(), b.to_str().unwrap())).collect()
    }

    const NFC: &str = "caf\u{e9}";
    const NFD: &str = "cafe\u{301}";

    #[test]
    fn names_clash_where_the_file_system_considers_them_equal() {
        let exact = |name: &str| name.to_owned();
        let caseless = |name: &str| name.to_lowercase();
        let normalising = |name: &str| name.nfd().collect::<String>();
        let both = |name: &str| fold(name);
        let paths = ["a/Makefile", "a/makefile", NFC, NFD];
        assert_eq!(clashes_by(&paths, &exact), []);
        assert_eq!(clashes_by(&paths, &caseless), [(paths[0], paths[1])]);
        assert_eq!(clashes_by(&paths, &normalising), [(NFC, NFD)]);
        assert_eq!(clashes_by(&paths, &both), [(paths[0], paths[1]), (NFC, NFD)]);
        // A file, and a folder of another spelling.
        assert_eq!(clashes_by(&["SRC", "src/x", "src/y"], &caseless).len(), 2);
        // Folders of two spellings become one.
        assert_eq!(clashes_by(&["SRC/x", "src/y"], &caseless), []);
        assert_eq!(clashes_by(&["SRC/x", "src/X"], &caseless), [("SRC/x", "src/X")]);
        // Both components differ, and only one of them is equal here.
        let mixed = [format!("A/{NFC}"), format!("a/{NFD}")];
        assert_eq!(clashes_by(&[&mixed[0], &mixed[1]], &caseless), []);
        assert_eq!(clashes_by(&[&mixed[0], &mixed[1]], &both).len(), 1);
        // Sharp s, and two of them, are equal on Apple's file systems.
        assert_eq!(clashes_by(&["strasse", "stra\u{df}e"], &both).len(), 1);
        assert_eq!(clashes_by(&["strasse", "stra\u{df}e"], &caseless), []);
    }

    #[test]
    fn a_probe_asks_the_file_system_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        // Remains of a killed probe.
        std::fs::create_dir(dir.path().join(format!("{PREFIX}{SCRATCH}"))).unwrap();
        let is_caseless = {
            std::fs::write(dir.path().join("probe"), "").unwrap();
            dir.path().join("PROBE").exists()
        };
        let paths = ["d/one", "d/ONE"].map(Path::new);
        let found = clashes(&folder, paths.into_iter()).unwrap();
        assert_eq!(found.len(), usize::from(is_caseless));
        assert_eq!(folder.names().unwrap().len(), 1, "only the file of this test");
    }
}
