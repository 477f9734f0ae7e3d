//! Maps names of sections and keys to paths in a directory.
//!
//! A key may contain anything, a path component may not. Names that the system refuses, that would
//! leave the directory, or that belong to git or to turntree are percent-coded, so every key has a
//! path inside. All other names stay unchanged, so that a file is restored under its own name:
//! names that only other systems reserve (`aux.c`, `a:b`, a trailing dot or space) are ordinary
//! names here.

use std::path::PathBuf;

use super::temp_file;
use crate::error::{Error, Result};
use crate::platform::{NAME_RULES, NameRules};

/// Maximum bytes of a path component on common file systems.
const MAX_COMPONENT_BYTES: usize = 255;

/// Maximum bytes of a path below the directory: a longer one could be created, but no program could
/// open it by name.
const MAX_PATH_BYTES: usize = 4095;

/// Characters of a too long name that an error shows.
const SHOWN_CHARS: usize = 40;

/// Folder names of git and turntree, and the short name that a DOS file system gives `.git`.
const OF_OTHERS: [&str; 3] = [".git", "git~1", ".turntree"];

/// Returns the relative path of a section.
///
/// # Errors
/// `LimitExceeded` for a name that is too long for a path.
pub(in crate::workspace) fn section_path(section: &str) -> Result<PathBuf> {
    path(section.split('/'))
}

/// Returns the relative path of `key` in the folder of `section`.
///
/// # Errors
/// `LimitExceeded` for a key that is too long for a path.
pub fn entry_path(section: &str, key: &str) -> Result<PathBuf> {
    path(section.split('/').chain(key.split('/')))
}

/// Returns the path of the key `key` of `files` in a workspace, where names are never encoded.
///
/// # Errors
/// `InvalidInput` for a key that leaves the directory, belongs to git or to turntree, or that this
/// system refuses; `LimitExceeded` for a key that is too long for a path.
pub(in crate::workspace) fn workspace_path(key: &str) -> Result<PathBuf> {
    for name in key.split('/') {
        if safe_component(name, NameRules::Unix) != name {
            return Err(Error::invalid(
                "not a valid name in a workspace: it points outside, or belongs to git or turntree",
            ));
        }
        if safe_component(name, NAME_RULES) != name {
            return Err(Error::invalid(format!(
                "this system has no files with the name '{name}': it stays in the snapshot"
            )));
        }
    }
    path(key.split('/'))
}

fn path<'n>(components: impl Iterator<Item = &'n str>) -> Result<PathBuf> {
    let mut path = PathBuf::new();
    for component in components {
        let name = safe_component(component, NAME_RULES);
        check_limit("bytes of the file name", &name, name.len(), MAX_COMPONENT_BYTES)?;
        path.push(name);
        let length = path.as_os_str().len();
        check_limit(
            "bytes of the path that begins with",
            &path.to_string_lossy(),
            length,
            MAX_PATH_BYTES,
        )?;
    }
    Ok(path)
}

fn check_limit(what: &str, name: &str, found: usize, limit: usize) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    let shown: String = name.chars().take(SHOWN_CHARS).collect();
    Err(Error::limit(format_args!("{what} '{shown}...'"), limit as u64, found as u64))
}

fn safe_component(component: &str, rules: NameRules) -> String {
    if component.is_empty() {
        return "%2F".to_owned();
    }
    let is_whole = matches!(component, "." | "..") || is_reserved(component);
    let is_refused = rules.refuses_whole(component);
    let last = component.chars().count() - 1;
    let mut name = String::with_capacity(component.len());
    for (at, c) in component.chars().enumerate() {
        // The end of a refused name is coded: a device has its name before the first dot, so its
        // first character is, too.
        let is_coded = is_whole && at == 0 || is_refused && (at == 0 || at == last);
        if rules.refuses_char(c) || is_coded {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                name.push_str(&format!("%{byte:02X}"));
            }
        } else {
            name.push(c);
        }
    }
    name
}

/// Returns true if some file system treats `name` as a folder of git or turntree, or it is the name
/// of a temporary file.
///
/// Some file systems fold case, Apple's skip invisible characters, and those of Windows drop
/// trailing dots and spaces and everything after a colon.
pub fn is_reserved(name: &str) -> bool {
    let seen: String = name.chars().filter(|c| !is_ignorable(*c)).collect();
    let folded = seen.to_lowercase();
    let stem = folded.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    OF_OTHERS.contains(&stem) || folded.starts_with(temp_file::PREFIX)
}

/// Returns true for characters that Apple's file systems skip when comparing names.
fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_place_inside() {
        for (key, expected) in [
            ("src/main.rs", "files/src/main.rs"),
            ("../../etc/passwd", "files/%2E./%2E./etc/passwd"),
            ("/etc/passwd", "files/%2F/etc/passwd"),
            ("a//b/", "files/a/%2F/b/%2F"),
            ("context://vfs/x", "files/context:/%2F/vfs/x"),
            (".", "files/%2E"),
            ("a\0b", "files/a%00b"),
        ] {
            let path = entry_path("files", key).unwrap();
            assert_eq!(path, PathBuf::from(expected), "{key}");
            assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
        }
    }

    #[test]
    fn a_file_keeps_a_name_that_only_other_systems_reserve() {
        for key in ["NUL.txt", "aux.c", "a:b", "a\\..\\b", "dot.", "space ", "%41", "line\nend"] {
            assert_eq!(entry_path("files", key).unwrap(), PathBuf::from("files").join(key));
        }
    }

    #[test]
    fn names_that_windows_reserves_are_coded_there_and_stay_apart() {
        let on_windows = |name: &str| safe_component(name, NameRules::Windows);
        for (name, expected) in [
            ("aux.c", "%61ux.%63"),
            ("NUL", "%4EU%4C"),
            ("dot.", "%64ot%2E"),
            ("space ", "%73pace%20"),
            ("a:b", "a%3Ab"),
            ("a\\..\\b", "a%5C..%5Cb"),
            ("C:", "C%3A"),
            ("line\nend", "line%0Aend"),
            ("..", "%2E%2E"),
            ("main.rs", "main.rs"),
        ] {
            let found = on_windows(name);
            assert_eq!(found, expected);
            assert_eq!(on_windows(&found), found, "{found} needs no code");
        }
        assert_eq!(safe_component("..", NameRules::Unix), "%2E.");
    }

    #[test]
    fn folders_of_git_and_stores_are_nobodys_to_write() {
        for name in [
            ".git",
            ".GIT",
            ".Git.",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            "git~1",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".turntree",
            ".TurnTree ",
            ".turntree-part-0123456789abcdef",
        ] {
            let path = entry_path("files", &format!("{name}/hooks")).unwrap();
            let written = path.iter().nth(1).unwrap().to_string_lossy();
            assert!(written.starts_with('%'), "{name}: {written}");
            assert!(!is_reserved(&written), "{name}: {written}");
        }
        for name in [".gitignore", ".github", "git", "x.git", ".turntreeignore", "git~10"] {
            assert_eq!(entry_path("files", name).unwrap(), PathBuf::from("files").join(name));
        }
    }

    #[test]
    fn a_name_or_path_that_no_program_could_open_is_refused() {
        assert!(entry_path("files", &"x".repeat(255)).is_ok());
        assert!(entry_path("files", &"x".repeat(256)).is_err());
        let deep = "d/".repeat(10_000);
        let error = entry_path("files", &deep).unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
        assert!(entry_path("files", &deep[..4089]).is_ok());
        assert!(entry_path("files", &deep[..4091]).is_err());
    }
}
