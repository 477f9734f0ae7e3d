//! Names of design files, as upstream takes them.

use turntree::error::{Error, Result};

/// The path of a design file: without white space at its ends, with `/` between its parts. `.` is a
/// part like any other.
///
/// # Errors
/// `InvalidInput`, in the words of upstream, for a path that is empty, absolute, or has an empty part or
/// `..`.
///
/// ```
/// use turntree_exchange::formats::codesign::design_path;
///
/// assert_eq!(design_path(" assets\\logo.svg ")?, "assets/logo.svg");
/// assert!(design_path("a/../b").is_err());
/// # Ok::<(), turntree::Error>(())
/// ```
pub fn design_path(path: &str) -> Result<String> {
    // JavaScript trims this character in addition to Rust's white space.
    let trimmed = path.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if trimmed.is_empty() {
        return Err(Error::invalid("path must not be empty"));
    }
    let normal = trimmed.replace('\\', "/");
    let bytes = normal.as_bytes();
    let has_drive =
        bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.get(1) == Some(&b':');
    if normal.starts_with('/') || has_drive {
        return Err(Error::invalid(format!("path must be relative: {path}")));
    }
    if normal.split('/').any(|part| part.is_empty() || part == "..") {
        return Err(Error::invalid(format!("invalid path segment in {path}")));
    }
    Ok(normal)
}
