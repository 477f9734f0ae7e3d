//! Names of sections and keys as paths in a directory.
//!
//! A key may hold anything; a path component may not. What no file system takes, or what would lead
//! out of the directory, is percent-coded, so every key has a place inside.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// Longest component of a path, in bytes, that common file systems take.
const MAX_COMPONENT_BYTES: usize = 255;

/// Names that some file systems reserve, whatever their extension.
const RESERVED: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The relative path of a section.
///
/// # Errors
/// `LimitExceeded` for a name with a component that is too long for a file name.
pub(super) fn section_path(section: &str) -> Result<PathBuf> {
    section.split('/').map(safe_component).collect()
}

/// The relative path of `key` in the folder of `section`.
///
/// # Errors
/// `LimitExceeded` for a key with a component that is too long for a file name.
pub(super) fn entry_path(section: &str, key: &str) -> Result<PathBuf> {
    section.split('/').chain(key.split('/')).map(safe_component).collect()
}

fn safe_component(component: &str) -> Result<String> {
    if component.is_empty() {
        return Ok("%2F".to_owned());
    }
    let stem = component.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let whole = matches!(component, "." | "..") || RESERVED.contains(&stem.as_str());
    let mut name = String::with_capacity(component.len());
    for (at, c) in component.chars().enumerate() {
        let unsafe_char = c.is_control() || matches!(c, '\\' | ':');
        if unsafe_char || (whole && at == 0) {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                name.push_str(&format!("%{byte:02X}"));
            }
        } else {
            name.push(c);
        }
    }
    if name.len() > MAX_COMPONENT_BYTES {
        let (limit, found) = (MAX_COMPONENT_BYTES as u64, name.len() as u64);
        return Err(Error::limit(format_args!("bytes of the file name '{name}'"), limit, found));
    }
    Ok(name)
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
            ("a//b", "files/a/%2F/b"),
            ("context://vfs/x", "files/context%3A/%2F/vfs/x"),
            ("NUL.txt", "files/%4EUL.txt"),
            ("a\\..\\b", "files/a%5C..%5Cb"),
            (".", "files/%2E"),
        ] {
            let path = entry_path("files", key).unwrap();
            assert_eq!(path, PathBuf::from(expected), "{key}");
            assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
        }
    }

    #[test]
    fn a_component_that_no_file_system_takes_is_refused() {
        assert!(entry_path("files", &"x".repeat(255)).is_ok());
        assert!(entry_path("files", &"x".repeat(256)).is_err());
    }
}
