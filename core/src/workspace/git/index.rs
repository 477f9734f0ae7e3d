//! Reads the tracked paths from the index of a git repository: versions 2 to 4, whole or split.
//!
//! Reads only names. Ignores the checksum at the end: git may omit it, and a surplus name only
//! keeps a file in snapshots, which is harmless.

use std::path::Path;

use super::read::read_file;

/// Maximum bytes of an index: about two million paths.
const MAX_INDEX_BYTES: u64 = 256 << 20;

const SIGNATURE: &[u8] = b"DIRC";
/// Bytes of the stat of a file, before its id.
const STAT_BYTES: usize = 40;
/// The offset of the mode, its type bits, and the type of a repository.
const MODE_AT: usize = 24;
const TYPE: u32 = 0o170_000;
const REPOSITORY: u32 = 0o160_000;
/// The flag that announces two more bytes of flags.
const IS_EXTENDED: u16 = 0x4000;
/// The extension of a split index, which names the shared index.
const SPLIT: &[u8] = b"link";

/// Paths that a repository tracks, relative to its working tree.
#[derive(Debug, Default)]
pub(in crate::workspace) struct TrackedPaths {
    /// Sorted.
    paths: Paths,
}

/// A path without a trailing slash, and whether it is a repository.
type Paths = Vec<(Box<[u8]>, bool)>;

impl TrackedPaths {
    /// Reads the file `index` in the directory of a repository whose ids have `id_bytes` bytes.
    ///
    /// # Errors
    /// A message about the damage, for an invalid or unreadable index.
    pub(super) fn read(git_dir: &Path, id_bytes: usize) -> Result<Self, String> {
        let path = git_dir.join("index");
        let Some(bytes) = read_file(&path, MAX_INDEX_BYTES)? else { return Ok(Self::default()) };
        let broken = || format!("{} is not a readable git index", path.display());
        let (mut paths, shared) = parse(&bytes, id_bytes).ok_or_else(broken)?;
        if let Some(shared) = shared {
            let name = git_dir.join(format!("sharedindex.{shared}"));
            let broken = || format!("{} is not a readable git index", name.display());
            let bytes = read_file(&name, MAX_INDEX_BYTES)?.ok_or_else(broken)?;
            // Paths that the newer part deletes stay: a surplus name is harmless.
            paths.extend(parse(&bytes, id_bytes).ok_or_else(broken)?.0);
        }
        paths.sort_unstable();
        paths.dedup();
        Ok(Self { paths })
    }

    /// Returns true if the path is tracked: as a file or a link, or as a folder that is a
    /// repository.
    pub(in crate::workspace) fn has(&self, path: &[u8], is_folder: bool) -> bool {
        let found = self.paths.binary_search_by(|(known, _)| (**known).cmp(path));
        found.is_ok_and(|at| self.paths.get(at).is_some_and(|(_, inner)| *inner == is_folder))
    }

    /// Returns true if a path below the folder is tracked; `folder` ends with a slash.
    pub(in crate::workspace) fn has_below(&self, folder: &[u8]) -> bool {
        let at = self.paths.partition_point(|(known, _)| &**known < folder);
        self.paths.get(at).is_some_and(|(known, _)| known.starts_with(folder))
    }
}

/// Parses the paths of an index, and the name of its shared index; `None` if it is invalid.
fn parse(bytes: &[u8], id_bytes: usize) -> Option<(Paths, Option<String>)> {
    let mut rest = bytes.strip_prefix(SIGNATURE)?;
    let version = number(&mut rest)?;
    let count = number(&mut rest)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let (mut paths, mut before) = (Paths::new(), Vec::new());
    for _ in 0..count {
        let start = rest.len();
        let mode = rest.get(MODE_AT..)?.first_chunk::<4>()?;
        rest = rest.get(STAT_BYTES + id_bytes..)?;
        let (flags, after) = rest.split_first_chunk::<2>()?;
        rest = after;
        if u16::from_be_bytes(*flags) & IS_EXTENDED != 0 {
            rest = rest.get(2..)?;
        }
        if version == 4 {
            let kept = before.len().checked_sub(varint(&mut rest)?)?;
            before.truncate(kept);
        } else {
            before.clear();
        }
        let end = memchr::memchr(0, rest)?;
        before.extend_from_slice(rest.get(..end)?);
        rest = rest.get(end + 1..)?;
        if version < 4 {
            // An entry is padded to a multiple of eight bytes, including the zero after its name.
            let taken = start - rest.len();
            rest = rest.get(taken.next_multiple_of(8) - taken..)?;
        }
        // A folder in a sparse index ends with a slash.
        let path = before.strip_suffix(b"/").unwrap_or(&before);
        if !path.is_empty() {
            paths.push((path.into(), u32::from_be_bytes(*mode) & TYPE == REPOSITORY));
        }
    }
    // A checksum as long as an id follows the extensions.
    let mut shared = None;
    while rest.len() > id_bytes {
        let (name, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        let size = usize::try_from(number(&mut rest)?).ok()?;
        let content = rest.get(..size)?;
        rest = rest.get(size..)?;
        if *name == SPLIT {
            let id = content.get(..id_bytes)?;
            let is_named = id.iter().any(|byte| *byte != 0);
            shared = is_named.then(|| id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
    }
    Some((paths, shared))
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}

/// Parses a number in the encoding of pack offsets: seven bits per byte, and one is added at every
/// step.
fn varint(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    for at in 0.. {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        if at > 0 {
            value = value.checked_add(1)?.checked_mul(128)?;
        }
        value = value.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const PATHS: [&str; 5] = [".hidden", "a", "a/b", "long/name/of/a/file.txt", "long/name/z"];

    /// Returns the index of a repository as git writes it, in one version.
    fn index(version: &str, split: bool) -> Option<(tempfile::TempDir, TrackedPaths)> {
        let folder = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "core.hooksPath=/dev/null"]).args(args).current_dir(folder.path());
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
            git.output().is_ok_and(|done| done.status.success())
        };
        if !git(&["init", "-q"]) {
            return None;
        }
        for path in PATHS.iter().filter(|path| **path != "a") {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let id = "0123456789012345678901234567890123456789";
        let inner = format!("160000,{id},inner");
        assert!(git(&["add", "-f", "."]));
        assert!(git(&["update-index", "--add", "--cacheinfo", &inner]));
        if split {
            assert!(git(&["update-index", "--split-index"]));
            fs::write(folder.path().join("new"), "x").unwrap();
            assert!(git(&["add", "new"]));
        }
        assert!(git(&["update-index", "--index-version", version]));
        let found = TrackedPaths::read(&folder.path().join(".git"), 20).unwrap();
        Some((folder, found))
    }

    #[test]
    fn the_paths_of_every_version_are_those_that_git_added() {
        for (version, split) in [("2", false), ("3", false), ("4", false), ("2", true)] {
            let Some((_folder, tracked)) = index(version, split) else { return };
            for path in PATHS {
                assert_eq!(
                    tracked.has(path.as_bytes(), false),
                    path != "a",
                    "{path} of version {version}"
                );
            }
            assert_eq!(tracked.has(b"new", false), split);
            assert!(!tracked.has(b"inner", false) && tracked.has(b"inner", true));
            assert!(tracked.has_below(b"long/") && tracked.has_below(b"a/"));
            assert!(!tracked.has_below(b"lon/") && !tracked.has_below(b"z/"));
        }
    }

    #[test]
    fn an_index_that_is_torn_or_of_another_version_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!TrackedPaths::read(folder.path(), 20).unwrap().has(b"a", false));
        let future: &[u8] = b"DIRC\0\0\0\x09\0\0\0\0";
        for bytes in [&b""[..], b"DIRC", b"DIRC\0\0\0\x02\0\0\0\x01", future] {
            fs::write(folder.path().join("index"), bytes).unwrap();
            let refused = TrackedPaths::read(folder.path(), 20).unwrap_err();
            assert!(refused.contains("index"), "{refused}");
        }
    }

    turntree_properties::properties! {
        #[test]
        fn hostile_bytes_are_an_index_or_none(
            version in 2_u8..5, count in any::<u32>(), body in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let mut bytes = [SIGNATURE, &[0, 0, 0, version], &count.to_be_bytes()].concat();
            bytes.extend(body);
            let _ = parse(&bytes, 20);
        }
    }
}
