//! The path of this program for the settings of a client.

use std::env::consts::EXE_SUFFIX;
use std::path::{Path, PathBuf};

use turntree::Error;

use crate::program::itself;
use crate::view::error::Result;

/// The name that finds this program on every machine where it is installed.
pub(crate) const PLAIN: &str = "turntree";

/// The absolute path of this program as it was run. Links are kept, since an upgrade changes their
/// target.
pub(crate) fn program() -> Result<String> {
    let path = match itself::name().and_then(|name| as_run(&name)) {
        Some(path) => path,
        None => itself::file()?,
    };
    utf8(&path).map(str::to_owned)
}

/// Returns true if a name is this program: as it was run, or with all links resolved.
pub(crate) fn is_program(name: &str) -> bool {
    let is_it = |path: Result<PathBuf>| path.is_ok_and(|path| path == Path::new(name));
    is_it(program().map(PathBuf::from)) || is_it(itself::file().map_err(Into::into))
}

/// Returns true if [`PLAIN`] runs this program here.
pub(crate) fn is_on_path() -> bool {
    on_path(Path::new(PLAIN)).is_some()
}

/// The path of the program that was run as `name`.
fn as_run(name: &Path) -> Option<PathBuf> {
    let has_folder = name.components().count() > 1;
    let path = if has_folder { std::path::absolute(name).ok() } else { on_path(name) }?;
    path.is_file().then_some(path)
}

/// The first file of this name in the directories of `PATH`.
pub(crate) fn on_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut names = std::env::split_paths(&path)
        .flat_map(|folder| [folder.join(name), with_suffix(folder.join(name))]);
    names.find(|path| path.is_file())
}

/// Adds the suffix of programs on this system.
fn with_suffix(path: PathBuf) -> PathBuf {
    let mut name = path.into_os_string();
    name.push(EXE_SUFFIX);
    name.into()
}

/// A path as UTF-8, as settings require.
pub(crate) fn utf8(path: &Path) -> Result<&str> {
    let message = || format!("{} is not UTF-8, and settings hold nothing else", path.display());
    Ok(path.to_str().ok_or_else(|| Error::invalid(message()))?)
}
