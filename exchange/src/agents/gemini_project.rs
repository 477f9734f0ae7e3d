//! Finds the folder in which Gemini CLI keeps the sessions of a project, as the agent does.
//!
//! Its registry gives each directory a short name, and a file in the folder of that name records
//! which directory owns it. The agent looks at both, so a new folder with that file is found
//! without a change of the registry. Source: `ProjectRegistry` of version 0.61.0.

use std::fs;
use std::path::{Path, PathBuf};

use turntree::workspace::{read_regular, read_regular_text};

use serde_json::Value;

use crate::text::json;

/// The file that names the directory which owns a folder.
const OWNER: &str = ".project_root";

/// Most bytes of the registry that are read.
const MAX_REGISTRY_BYTES: u64 = 8 << 20;

/// The folder of a project.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProjectFolder {
    pub(super) path: PathBuf,
    /// The file that names the owner, with its content, if it does not exist yet.
    pub(super) owner: Option<(PathBuf, String)>,
}

impl ProjectFolder {
    /// Finds the folder of the directory `cwd` below `tmp`, or names a new one.
    pub(super) fn find(tmp: &Path, cwd: &str) -> Self {
        let history = tmp.with_file_name("history");
        let bases = [tmp, history.as_path()];
        let registry = registry(&tmp.with_file_name("projects.json"));
        let registered = registry.iter().find(|(directory, _)| directory == cwd);
        let registered = registered.filter(|(_, name)| {
            bases.iter().all(|base| owner(base, name).is_none_or(|owner| owner == cwd))
        });
        let name = match registered {
            Some((_, name)) => name.clone(),
            None => bases
                .into_iter()
                .find_map(|base| owned_by(base, cwd))
                .unwrap_or_else(|| new_name(&bases, &registry, cwd)),
        };
        let path = tmp.join(&name);
        let marker = (path.join(OWNER), cwd.to_owned());
        let owner = owner(tmp, &name).is_none().then_some(marker);
        Self { path, owner }
    }
}

/// Returns the directories of the registry with the names of their folders. Skips names that are no
/// plain file name.
fn registry(path: &Path) -> Vec<(String, String)> {
    let bytes = read_regular(path, MAX_REGISTRY_BYTES).unwrap_or_default();
    let registry = json::value(&bytes);
    let projects = registry.as_ref().and_then(|all| all.get("projects")).and_then(Value::as_object);
    let is_plain =
        |name: &&str| !name.is_empty() && *name != "." && *name != ".." && !name.contains('/');
    let known = projects.into_iter().flatten();
    let known = known.filter_map(|(cwd, name)| Some((cwd, name.as_str().filter(is_plain)?)));
    known.map(|(cwd, name)| (cwd.clone(), name.to_owned())).collect()
}

/// Returns the directory that owns a folder.
fn owner(base: &Path, name: &str) -> Option<String> {
    let owner = read_regular_text(&base.join(name).join(OWNER), MAX_REGISTRY_BYTES).ok()?;
    Some(owner.trim().to_owned())
}

/// Returns the folder that `cwd` owns.
fn owned_by(base: &Path, cwd: &str) -> Option<String> {
    let folders = fs::read_dir(base).ok()?.flatten();
    let mut names = folders.filter_map(|folder| folder.file_name().into_string().ok());
    names.find(|name| owner(base, name).is_some_and(|owner| owner == cwd))
}

/// Returns an unused name, derived as the agent does it.
fn new_name(bases: &[&Path], registry: &[(String, String)], cwd: &str) -> String {
    let last = Path::new(cwd).file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let words = last.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let plain = if words.is_empty() { "project".to_owned() } else { words.join("-") };
    let is_taken = |name: &str| {
        registry.iter().any(|(_, known)| known == name)
            || bases.iter().any(|base| base.join(name).symlink_metadata().is_ok())
    };
    let numbered = (1_u64..).map(|number| format!("{plain}-{number}"));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_the_folder_that_the_agent_finds() {
        let home = tempfile::tempdir().unwrap();
        let tmp = home.path().join("tmp");
        let name = |cwd: &str| {
            let found = ProjectFolder::find(&tmp, cwd);
            let name = found.path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, found.owner.is_some())
        };
        assert_eq!(name("/srv/My App!"), ("my-app".to_owned(), true));
        assert_eq!(name("/"), ("project".to_owned(), true));

        // A folder that another directory owns is left alone.
        fs::create_dir_all(tmp.join("my-app")).unwrap();
        fs::write(tmp.join("my-app/.project_root"), "/elsewhere/my app").unwrap();
        assert_eq!(name("/srv/My App!"), ("my-app-1".to_owned(), true));
        assert_eq!(name("/elsewhere/my app"), ("my-app".to_owned(), false));

        // The registry decides, unless another directory owns the folder.
        let projects =
            r#"{"projects": {"/srv/a": "chosen", "/srv/b": "my-app", "/srv/c": "../up"}}"#;
        fs::write(home.path().join("projects.json"), projects).unwrap();
        assert_eq!(name("/srv/a"), ("chosen".to_owned(), true));
        assert_eq!(name("/srv/b"), ("b".to_owned(), true));
        assert_eq!(name("/srv/c"), ("c".to_owned(), true));
        assert_eq!(name("/srv/chosen"), ("chosen-1".to_owned(), true));
        fs::write(home.path().join("projects.json"), "{").unwrap();
        assert_eq!(name("/srv/a"), ("a".to_owned(), true));
    }
}
